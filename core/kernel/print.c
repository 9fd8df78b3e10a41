// Kernel IR as text (grammar: tc/kernel.h and parse.c).
//
// Names are kept where values have them and made unique; other values are numbered in the order in which they are
// printed. Constants without a name are written in place of operands wherever the type is clear from the other operands
// or from the instruction; the same holds for scalar parameters. Invariant: parse(print(k)) prints the same text.
#include <stdio.h>
#include <string.h>

#include "core/kernel/ir.h"

typedef struct printer {
  tc_sb *sb;
  const tc_kernel *k;
  tc_sv *names;          // of values, given when they are printed
  tc_sv *mems, *scalars; // names of memory objects and scalar parameters
  uint8_t *in_place;     // by value: a constant or scalar that is not printed as an instruction
  tc_map *taken;         // names in use
  int32_t next, depth;   // next number; indentation
} printer;

static bool has_name(const printer *p, tc_kval v) { return p->k->names[v].size > 0; }
static const tc_kinst *def(const printer *p, tc_kval v) {
  return p->k->values[v].inst < 0 ? NULL : &p->k->insts[p->k->values[v].inst];
}
static bool is_const(const printer *p, tc_kval v) { return def(p, v) && def(p, v)->op == TC_K_CONST; }

// ---- Which constants stand in place ----

// May operand `i` of the instruction be written as a literal, if it is one?
static bool literal_fits(const printer *p, const tc_kinst *in, int32_t i) {
  tc_dtype type = p->k->values[in->args[i]].dtype;
  char cls = (char)tc_k_op_class(in->op);
  switch (in->op) {
  case TC_K_LOAD:
  case TC_K_STORE:
  case TC_K_ATOMIC_ADD:
  case TC_K_PREFETCH: return i > 0 || type == TC_I32;
  case TC_K_FOR: return i > 1 || type == TC_I32;
  case TC_K_IF:
  case TC_K_CHECK:
  case TC_K_MMA_BF16:
  case TC_K_MMA_F16: return true;
  case TC_K_CAST:
  case TC_K_BITCAST: return false;
  default: return cls == 'a' || cls == 'c' || cls == 'm' || in->op == TC_K_SELECT || in->op == TC_K_COMPLEX;
  }
}

static void choose_in_place(printer *p) {
  const tc_kernel *k = p->k;
  for (tc_kval v = 0; v < k->n_values; v++) p->in_place[v] = def(p, v) && def(p, v)->op == TC_K_SCALAR;
  for (int32_t pass = 0; pass < 2; pass++) // first every literal use counts, then the others overrule
    for (int32_t j = 0; j < k->n_insts; j++)
      for (int32_t i = 0; i < k->insts[j].n_args; i++) {
        tc_kval v = k->insts[j].args[i];
        if (!is_const(p, v) || has_name(p, v)) continue;
        bool fits = literal_fits(p, &k->insts[j], i);
        if (pass == 0 && fits) p->in_place[v] = 1;
        if (pass == 1 && !fits) p->in_place[v] = 0;
      }
}

// ---- Pieces ----

static void put_real(tc_sb *sb, tc_dtype type, double v) {
  if (type == TC_F64 || v != v || v - v != 0) {
    tc_sb_double(sb, v);
    return;
  }
  if (type == TC_F32) {
    tc_sb_float(sb, (float)v);
    return;
  }
  char text[40];
  for (int32_t digits = 1; digits <= 9; digits++) { // the shortest that reads back as the same value of the type
    double back = 0;
    snprintf(text, sizeof text, "%.*g", (int)digits, v);
    for (char *c = text; *c; c++)
      if (*c == ',') *c = '.'; // the embedder's locale may say so
    if (tc_sv_to_double(tc_sv_of(text), &back) && tc_kir_round(type, back) == v) break;
  }
  tc_sb_putz(sb, text);
  if (!strpbrk(text, ".e")) tc_sb_putz(sb, ".0");
}

static void put_literal(printer *p, tc_dtype type, int64_t imm, double fimm) {
  if (type == TC_BOOL) tc_sb_putz(p->sb, imm ? "true" : "false");
  else if (tc_dtype_is_float(type)) put_real(p->sb, type, fimm);
  else if (type == TC_U64 && imm < 0) tc_sb_printf(p->sb, "0x%llx", (unsigned long long)imm);
  else tc_sb_int(p->sb, imm);
}

static void put_name(printer *p, tc_sv name) {
  tc_sb_putc(p->sb, '%');
  tc_sb_put(p->sb, name);
}

static void put_value(printer *p, tc_kval v) {
  const tc_kinst *in = def(p, v);
  if (!p->in_place[v]) put_name(p, p->names[v]);
  else if (in->op == TC_K_SCALAR) put_name(p, p->scalars[in->imm]);
  else put_literal(p, p->k->values[v].dtype, in->imm, in->fimm);
}

// The name, or the first of name.1, name.2, … that is not in use.
static tc_sv unique(printer *p, tc_sv want) {
  bool fresh;
  tc_sv name = want;
  tc_map_put(p->taken, name, &fresh);
  for (int32_t i = 1; !fresh; i++) {
    name = tc_sv_printf(p->sb->arena, TC_SV_FMT ".%d", TC_SV_ARG(want), (int)i);
    tc_map_put(p->taken, name, &fresh);
  }
  return name;
}

// Gives the value its name, unique in the kernel.
static void put_def(printer *p, tc_kval v) {
  tc_sv name = p->k->names[v];
  if (name.size) name = unique(p, name);
  for (bool fresh = name.size > 0; !fresh;) {
    name = tc_sv_printf(p->sb->arena, "%d", (int)p->next++);
    tc_map_put(p->taken, name, &fresh);
  }
  p->names[v] = name;
  put_name(p, name);
}

static void put_values(printer *p, int32_t n, const tc_kval *values) {
  for (int32_t i = 0; i < n; i++) {
    if (i) tc_sb_putz(p->sb, ", ");
    put_value(p, values[i]);
  }
}

static void indent(printer *p) {
  for (int32_t i = 0; i < p->depth; i++) tc_sb_putz(p->sb, "  ");
}

static void put_type(printer *p, tc_dtype type) {
  tc_sb_putz(p->sb, " : ");
  tc_sb_putz(p->sb, tc_dtype_name(type));
}

// ---- Instructions ----

static void put_region(printer *p, int32_t region);

static void put_op(printer *p, const tc_kinst *in) {
  const tc_kernel *k = p->k;
  tc_sb_putc(p->sb, ' ');
  put_values(p, in->n_args, in->args);
  bool known = false; // the type of literals follows from an operand that is none
  for (int32_t i = in->op == TC_K_SELECT; i < in->n_args; i++)
    known |= !p->in_place[in->args[i]] || !is_const(p, in->args[i]);
  if (in->op == TC_K_CAST || in->op == TC_K_BITCAST) put_type(p, k->values[in->results[0]].dtype);
  else if (in->n_args && !known) put_type(p, k->values[in->args[in->n_args - 1]].dtype);
  if (in->flags & TC_KI_FAST) tc_sb_putz(p->sb, " fast");
  if (in->flags & TC_KI_NOWRAP) tc_sb_putz(p->sb, " nowrap");
  if (in->flags & TC_KI_RARE) tc_sb_putz(p->sb, " rare");
}

static void put_access(printer *p, const tc_kinst *in) {
  if (in->width > 1) tc_sb_printf(p->sb, ".v%d", (int)in->width);
  tc_sb_putc(p->sb, ' ');
  put_name(p, p->mems[in->mem]);
  tc_sb_putc(p->sb, '[');
  put_value(p, in->args[0]);
  tc_sb_putc(p->sb, ']');
  int32_t n = in->op == TC_K_STORE ? in->width : in->op == TC_K_ATOMIC_ADD ? 1 : 0;
  for (int32_t i = 0; i < n; i++) {
    tc_sb_putz(p->sb, ", ");
    put_value(p, in->args[1 + i]);
  }
  if (in->flags & TC_KI_FAR) tc_sb_putz(p->sb, " far");
  if (!in->has_mask) return;
  tc_sb_putz(p->sb, " if ");
  put_value(p, in->args[1 + n]);
  if (in->op != TC_K_LOAD) return;
  tc_sb_putz(p->sb, " else ");
  put_values(p, in->width, in->args + 2);
}

static void put_for(printer *p, const tc_kinst *in) {
  const tc_kir_region *g = &p->k->regions[in->regions[0]];
  tc_sb_putc(p->sb, ' ');
  put_def(p, g->params[0]);
  tc_sb_putz(p->sb, " = ");
  put_value(p, in->args[0]);
  tc_sb_putz(p->sb, " to ");
  put_value(p, in->args[1]);
  if (in->imm != 1) tc_sb_printf(p->sb, " step %lld", (long long)in->imm);
  if (in->flags & TC_KI_UNROLL) tc_sb_putz(p->sb, " unroll");
  for (int32_t i = 0; i < in->n_results; i++) {
    tc_sb_putz(p->sb, i ? ", " : " (");
    put_def(p, g->params[1 + i]);
    tc_sb_putz(p->sb, " = ");
    put_value(p, in->args[2 + i]);
    if (p->in_place[in->args[2 + i]] && is_const(p, in->args[2 + i])) put_type(p, p->k->values[in->args[2 + i]].dtype);
  }
  if (in->n_results) tc_sb_putc(p->sb, ')');
  put_region(p, in->regions[0]);
}

static void put_if(printer *p, const tc_kinst *in) {
  tc_sb_putc(p->sb, ' ');
  put_value(p, in->args[0]);
  put_region(p, in->regions[0]);
  if (p->k->regions[in->regions[1]].insts.count == 1 && !in->n_results) return;
  tc_sb_putz(p->sb, " else");
  put_region(p, in->regions[1]);
}

static void put_inst(printer *p, const tc_kinst *in) {
  if (in->op == TC_K_YIELD && in->n_args == 0) return;
  if (in->n_results && p->in_place[in->results[0]]) return;
  indent(p);
  // Names of results are given here, before those of what the regions define: in the order of the text.
  for (int32_t i = 0; i < in->n_results; i++) {
    if (i) tc_sb_putz(p->sb, ", ");
    put_def(p, in->results[i]);
  }
  if (in->n_results) tc_sb_putz(p->sb, " = ");
  tc_sb_putz(p->sb, tc_k_op_text(in->op));
  switch (in->op) {
  case TC_K_CONST:
    tc_sb_putc(p->sb, ' ');
    put_literal(p, p->k->values[in->results[0]].dtype, in->imm, in->fimm);
    put_type(p, p->k->values[in->results[0]].dtype);
    break;
  case TC_K_LOAD:
  case TC_K_STORE:
  case TC_K_ATOMIC_ADD:
  case TC_K_PREFETCH: put_access(p, in); break;
  case TC_K_CHECK:
  case TC_K_BROADCAST:
    tc_sb_putc(p->sb, ' ');
    put_value(p, in->args[0]);
    tc_sb_printf(p->sb, ", %lld", (long long)in->imm);
    break;
  case TC_K_FOR: put_for(p, in); break;
  case TC_K_IF: put_if(p, in); break;
  case TC_K_LANES: put_region(p, in->regions[0]); break;
  case TC_K_MMA_BF16:
  case TC_K_MMA_F16:
  case TC_K_YIELD:
    tc_sb_putc(p->sb, ' ');
    put_values(p, in->n_args, in->args);
    break;
  case TC_K_BLOCK:
  case TC_K_LANE:
  case TC_K_BARRIER: break;
  default: put_op(p, in);
  }
  tc_sb_putc(p->sb, '\n');
}

static void put_region(printer *p, int32_t region) {
  const tc_kir_region *g = &p->k->regions[region];
  tc_sb_putz(p->sb, " {\n");
  p->depth++;
  for (int32_t i = 0; i < g->insts.count; i++) put_inst(p, &p->k->insts[g->insts.data[i]]);
  p->depth--;
  indent(p);
  tc_sb_putc(p->sb, '}');
}

// ---- The kernel ----

static void put_bound(tc_sb *sb, int64_t v) {
  if (v == INT64_MIN) tc_sb_putz(sb, "-inf");
  else if (v == INT64_MAX) tc_sb_putz(sb, "inf");
  else tc_sb_int(sb, v);
}

static void put_param(printer *p, const tc_kparam *param) {
  static const char *const flags[] = {"readonly", "writeonly", "noalias", "stream"};
  if (param->is_scalar) {
    const tc_kscalar_info *s = &p->k->scalars[param->index];
    put_name(p, p->scalars[param->index]);
    put_type(p, s->dtype);
    if (s->lo != INT64_MIN || s->hi != INT64_MAX) {
      tc_sb_putz(p->sb, " in [");
      put_bound(p->sb, s->lo);
      tc_sb_putz(p->sb, ", ");
      put_bound(p->sb, s->hi);
      tc_sb_putc(p->sb, ']');
    }
    if (s->divisor != 1) tc_sb_printf(p->sb, " div %lld", (long long)s->divisor);
    return;
  }
  const tc_kmem_info *m = &p->k->mems[param->index];
  put_name(p, p->mems[param->index]);
  tc_sb_printf(p->sb, " : global %s", tc_dtype_name(m->dtype));
  for (int32_t i = 0; i < 4; i++)
    if (m->flags & (1 << i)) tc_sb_printf(p->sb, " %s", flags[i]);
  if (m->align > tc_dtype_size(m->dtype)) tc_sb_printf(p->sb, " align %d", (int)m->align);
}

static void put_mem(printer *p, int32_t number) {
  const tc_kmem_info *m = &p->k->mems[number];
  static const char *const words[] = {"", "shared", "lane_array", "table"};
  if (m->space == TC_SPACE_GLOBAL) return;
  tc_sb_printf(p->sb, "  %s ", words[m->space]);
  put_name(p, p->mems[number]);
  put_type(p, m->dtype);
  if (m->space != TC_SPACE_TABLE) {
    tc_sb_printf(p->sb, "[%lld]\n", (long long)m->count);
    return;
  }
  tc_sb_putz(p->sb, " = [");
  bool complex = tc_dtype_is_complex(m->dtype);
  tc_dtype part = tc_dtype_real(m->dtype);
  int64_t n = m->count * (complex ? 2 : 1), size = tc_dtype_size(part);
  for (int64_t i = 0; i < n; i++) {
    if (i) tc_sb_putz(p->sb, ", ");
    tc_knum v = tc_kir_read(part, (const char *)m->data + i * size);
    put_literal(p, part, v.i, v.re);
  }
  tc_sb_putz(p->sb, "]\n");
}

void tc_kernel_print(tc_sb *sb, const tc_kernel *k) {
  printer p = {.sb = sb, .k = k, .depth = 1};
  p.names = TC_NEW_ARRAY(sb->arena, tc_sv, k->n_values + 1);
  p.in_place = TC_NEW_ARRAY(sb->arena, uint8_t, k->n_values + 1);
  p.taken = tc_map_create(sb->arena);
  p.mems = TC_NEW_ARRAY(sb->arena, tc_sv, k->n_mems);
  p.scalars = TC_NEW_ARRAY(sb->arena, tc_sv, k->n_scalars);
  for (int32_t i = 0; i < k->n_mems; i++) p.mems[i] = unique(&p, k->mems[i].name);
  for (int32_t i = 0; i < k->n_scalars; i++) p.scalars[i] = unique(&p, k->scalars[i].name);
  choose_in_place(&p);
  tc_sb_printf(sb, "kernel @" TC_SV_FMT " (", TC_SV_ARG(k->name));
  for (int32_t i = 0; i < k->n_params; i++) {
    if (i) tc_sb_putz(sb, ", ");
    put_param(&p, &k->params[i]);
  }
  tc_sb_printf(sb, ")\n    blocks 1 lanes %d", (int)k->lanes);
  if (k->source.language.size) {
    const tc_sv texts[] = {k->source.language, k->source.declarations, k->source.body};
    for (int32_t i = 0; i < 3; i++) {
      tc_sb_putz(sb, i ? "\n    " : " source ");
      tc_sb_quoted(sb, texts[i]);
    }
    tc_sb_putc(sb, '\n');
    return;
  }
  tc_sb_putz(sb, " {\n");
  for (int32_t i = 0; i < k->n_mems; i++) put_mem(&p, i);
  const tc_kir_region *g = &k->regions[k->body];
  for (int32_t i = 0; i < g->insts.count; i++) put_inst(&p, &k->insts[g->insts.data[i]]);
  tc_sb_putz(sb, "}\n");
}
