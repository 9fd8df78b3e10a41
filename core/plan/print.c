// Plans as text (plan.h shows it, parse.c has the grammar). What is printed parses back to the same text. Launches
// refer to kernels by number, since kernels of one name may differ; kernels of one text are printed once.
#include <inttypes.h>

#include "core/plan/plan_internal.h"

typedef struct kernel_texts {
  tc_map *number; // tc_emitted * → number of its text
  tc_map *seen;   // text → number
  TC_VEC(tc_sv) texts;
  TC_VEC(const tc_kernel *) kernels; // of each text
} kernel_texts;

// Also those of regions.
static void print_kernels(tc_arena *arena, const tc_plan *p, kernel_texts *k) {
  for (int32_t i = 0; i < p->kernels.count; i++) {
    if (p->n_code) tc_map_put_ptr(k->number, p->kernels.data[i], NULL)->value.num = p->kernels.data[i]->code;
    if (!p->kernels.data[i]->kernel) continue;
    tc_sb sb = tc_sb_make(arena);
    tc_kernel_print(&sb, p->kernels.data[i]->kernel);
    bool fresh;
    tc_map_entry *e = tc_map_put(k->seen, tc_sb_view(&sb), &fresh);
    if (fresh) {
      e->value.num = k->texts.count;
      tc_vec_push(arena, &k->texts, tc_sb_view(&sb));
      tc_vec_push(arena, &k->kernels, p->kernels.data[i]->kernel);
    }
    tc_map_put_ptr(k->number, p->kernels.data[i], NULL)->value.num = e->value.num;
  }
  for (int32_t i = 0; i < p->ops.count; i++)
    for (int32_t r = 0; r < tc_plan_region_count(p->ops.data[i].kind); r++)
      print_kernels(arena, p->ops.data[i].regions[r], k);
}

static kernel_texts all_kernels(tc_arena *arena, const tc_plan *p) {
  kernel_texts k = {.number = tc_map_create(arena), .seen = tc_map_create(arena)};
  print_kernels(arena, p, &k);
  return k;
}

static void put_list(tc_sb *sb, char open, char close, int32_t n, const tc_sym *const *v) {
  tc_sb_putc(sb, open);
  for (int32_t d = 0; d < n; d++) {
    if (d) tc_sb_putz(sb, ", ");
    tc_sym_print(sb, v[d]);
  }
  tc_sb_putc(sb, close);
}

static void put_word(tc_sb *sb, const char *word, const tc_sym *x) {
  tc_sb_putz(sb, word);
  tc_sym_print(sb, x);
}

static void put_offset(tc_sb *sb, const tc_sym *offset) {
  if (!offset || tc_sym_is_int(offset, 0)) return;
  put_word(sb, "+(", offset);
  tc_sb_putc(sb, ')');
}

static void put_buf(tc_sb *sb, const tc_plan *p, const tc_plan_buf *b) {
  tc_sb_printf(sb, "  %%" TC_SV_FMT " : %s", TC_SV_ARG(b->name), tc_dtype_name(b->dtype));
  put_list(sb, '[', ']', b->rank, b->sizes);
  put_list(sb, '{', '}', b->rank, b->strides);
  put_offset(sb, b->offset);
  if (b->kind == TC_PLAN_INPUT) {
    tc_sb_printf(sb, " = input %d", b->input);
  } else {
    if (b->kind == TC_PLAN_OUTPUT) tc_sb_putz(sb, " = output");
    else if (b->kind == TC_PLAN_FROZEN) tc_sb_putz(sb, " = frozen");
    else if (b->over) tc_sb_printf(sb, " = over %%" TC_SV_FMT, TC_SV_ARG(p->bufs.data[b->over - 1].name));
    else if (b->host)
      put_word(sb, tc_sv_printf(p->arena, " = within %%" TC_SV_FMT " ", TC_SV_ARG(p->bufs.data[b->host - 1].name)).data,
               b->place);
    else put_word(sb, " = arena ", b->place);
    put_word(sb, " size ", b->bytes);
  }
  tc_sb_putz(sb, ";\n");
}

static void put_type(tc_sb *sb, const tc_tensor_type *t) {
  tc_sb_printf(sb, " as %s", tc_dtype_name(t->dtype));
  put_list(sb, '[', ']', t->rank, t->sizes);
  put_list(sb, '{', '}', t->rank, t->strides);
  put_offset(sb, t->offset);
  if (t->conj) tc_sb_putz(sb, " conj");
}

// Does a library see the buffer as it is?
static bool is_whole(const tc_plan_buf *b, const tc_tensor_type *t) {
  if (t->rank != b->rank || t->dtype != b->dtype || t->offset != b->offset) return false;
  for (int32_t d = 0; d < b->rank; d++) {
    if (t->sizes[d] != b->sizes[d] || t->strides[d] != b->strides[d]) return false;
  }
  return true;
}

static void put_place(tc_sb *sb, const char *word, tc_sv text) {
  if (!text.size) return;
  tc_sb_putz(sb, word);
  tc_sb_quoted(sb, text);
}

static void put_buf_name(tc_sb *sb, const tc_plan *p, int32_t buf) {
  tc_sb_printf(sb, "%%" TC_SV_FMT, TC_SV_ARG(p->bufs.data[buf].name));
}

// How a loop's operands are used, and the memory of the regions.
static void put_control(tc_sb *sb, const tc_plan *p, const tc_plan_op *op) {
  if (op->n_carry) tc_sb_printf(sb, " carry %d", op->n_carry);
  if (op->n_xs) tc_sb_printf(sb, " over %d", op->n_xs);
  for (int32_t i = 0; i < op->n_carry; i++) {
    tc_sb_putz(sb, i ? ", " : " spare (");
    put_buf_name(sb, p, op->spares[i]);
  }
  if (op->n_carry) tc_sb_putc(sb, ')');
  if (op->scratch < 0) return;
  tc_sb_putz(sb, " in ");
  put_buf_name(sb, p, op->scratch);
}

static void put_plan(tc_sb *sb, const tc_plan *p, const kernel_texts *kernels, bool region);

static void put_regions(tc_sb *sb, const kernel_texts *kernels, const tc_plan_op *op) {
  for (int32_t r = 0; r < tc_plan_region_count(op->kind); r++) {
    tc_sb text = tc_sb_make(sb->arena);
    put_plan(&text, op->regions[r], kernels, true);
    tc_sb_printf(sb, "\n    %s ", tc_plan_region_word(op->kind, r));
    for (tc_sv rest = tc_sb_view(&text), line; rest.size;) {
      rest = tc_sv_cut(rest, '\n', &line);
      tc_sb_put(sb, line);
      if (rest.size) tc_sb_putz(sb, "\n    ");
    }
  }
}

static void put_launched(tc_sb *sb, const tc_plan *p, const kernel_texts *kernels, int32_t kernel, const tc_sym *blocks,
                         const tc_sym *grain) {
  const tc_map_entry *number = tc_map_find_ptr(kernels->number, p->kernels.data[kernel]);
  if (number) tc_sb_printf(sb, " kernel %d", (int)number->value.num);
  put_word(sb, " blocks ", blocks);
  put_word(sb, " grain ", grain);
}

static void put_args(tc_sb *sb, const tc_plan *p, int32_t n, const tc_plan_arg *args, const tc_tensor_type *views) {
  tc_sb_putz(sb, " : (");
  for (int32_t i = 0; i < n; i++) {
    const tc_plan_arg *a = &args[i];
    if (i) tc_sb_putz(sb, ", ");
    if (a->buf >= 0) {
      tc_sb_printf(sb, "%s%%" TC_SV_FMT, a->writes ? "out " : "", TC_SV_ARG(p->bufs.data[a->buf].name));
      if (views && !is_whole(&p->bufs.data[a->buf], &views[i])) put_type(sb, &views[i]);
    } else {
      tc_sym_print(sb, a->scalar);
      tc_sb_printf(sb, " : %s", tc_dtype_name(a->dtype));
    }
  }
  tc_sb_putc(sb, ')');
}

static void put_sites(tc_sb *sb, const char *indent, const tc_emitted *k) {
  for (int32_t i = 0; i < k->sites.count; i++) {
    tc_sb_printf(sb, "\n%ssite ", indent);
    tc_sb_quoted(sb, k->sites.data[i].text);
    put_place(sb, " @ ", k->sites.data[i].source);
  }
}

static void put_op(tc_sb *sb, const tc_plan *p, const kernel_texts *kernels, const tc_plan_op *op) {
  bool launch = op->kind == TC_PLAN_LAUNCH;
  tc_sb_printf(sb, "  %s @" TC_SV_FMT, tc_plan_op_word(op->kind), TC_SV_ARG(op->name));
  if (op->once) tc_sb_putz(sb, " once");
  if (op->by.size) {
    tc_sb_putz(sb, " by ");
    tc_sb_quoted(sb, op->by);
    tc_sb_putc(sb, ' ');
    tc_sb_quoted(sb, op->by_version);
    if (op->way) tc_sb_printf(sb, " way %d", op->way);
  }
  if (op->constant) tc_sb_printf(sb, " constant %" PRIu64, op->constant);
  if (op->predicate) put_word(sb, " when ", op->predicate);
  if (op->turns) put_word(sb, " turns ", op->turns);
  if (op->reverse) tc_sb_putz(sb, " reversed");
  if (launch) put_launched(sb, p, kernels, op->kernel, op->blocks, op->grain);
  put_args(sb, p, op->n_args, op->args, op->views);
  if (tc_plan_region_count(op->kind)) put_control(sb, p, op);
  put_word(sb, " bytes ", op->bytes);
  put_word(sb, " flops ", op->flops);
  put_place(sb, " @ ", op->source);
  if (op->tuned) {
    tc_sb_putz(sb, " tune ");
    put_list(sb, '(', ')', op->n_key, op->key);
  }
  put_regions(sb, kernels, op);
  if (launch) put_sites(sb, "    ", p->kernels.data[op->kernel]);
  for (int32_t i = 0; i < op->n_variants; i++) {
    const tc_plan_variant *v = &op->variants[i];
    put_word(sb, "\n    when ", v->when);
    put_launched(sb, p, kernels, v->kernel, v->blocks, v->grain);
    put_args(sb, p, v->n_args, v->args, NULL);
    put_sites(sb, "      ", p->kernels.data[v->kernel]);
  }
  if (op->call && op->call->node) {
    tc_sb_putz(sb, "\n    ");
    tc_call_print(sb, p->module, op->call->node);
  }
  tc_sb_putc(sb, '\n');
}

static void put_output(tc_sb *sb, const tc_plan *p, const tc_plan_output *o) {
  tc_sb_printf(sb, " %s ", tc_output_kind_text(o->kind));
  if (o->target.size) {
    tc_sb_quoted(sb, o->target);
    tc_sb_putc(sb, ' ');
  }
  if (o->buf >= 0) {
    tc_sb_printf(sb, "%%" TC_SV_FMT, TC_SV_ARG(p->bufs.data[o->buf].name));
    put_type(sb, &o->type);
    return;
  }
  bool plain = o->number.kind == TC_AK_INT ||
               (!o->number.value && (o->number.kind == TC_AK_FLOAT || o->number.kind == TC_AK_BOOL));
  if (plain) tc_arg_print(sb, &o->number, 0);
  else tc_sb_putz(sb, "none"); // a text, or a number that the plan does not hold
}

// ---- symbols in use ----
static void mark(uint8_t *used, const tc_sym *x) {
  if (!x) return;
  if (x->kind == TC_SYM_SYMBOL) used[x->symbol] = 1;
  for (int32_t i = 0; i < x->n; i++) mark(used, x->kids[i]);
}

static void mark_all(uint8_t *used, int32_t n, const tc_sym *const *v) {
  for (int32_t i = 0; i < n; i++) mark(used, v[i]);
}

static void mark_type(uint8_t *used, const tc_tensor_type *t) {
  mark_all(used, t->rank, t->sizes), mark_all(used, t->rank, t->strides), mark(used, t->offset);
}

static void mark_call(uint8_t *used, const tc_plan_op *op) {
  for (int32_t k = 0; op->views && k < op->n_args; k++) mark_type(used, &op->views[k]);
  const tc_node *n = op->call ? op->call->node : NULL;
  for (int32_t i = 0; n && i < n->n_args; i++) {
    const tc_arg *g = &n->args[i];
    if (g->kind == TC_AK_INT) mark(used, g->sym);
    if (g->kind == TC_AK_INTS) mark_all(used, g->n, g->syms);
  }
}

static void mark_variant(uint8_t *used, const tc_plan_variant *v) {
  mark(used, v->when), mark(used, v->blocks), mark(used, v->grain);
  for (int32_t k = 0; k < v->n_args; k++) mark(used, v->args[k].buf < 0 ? v->args[k].scalar : NULL);
}

static void mark_plan(uint8_t *used, const tc_plan *p) {
  if (p->graph) tc_signature_mark(used, p->graph);
  mark(used, p->arena_bytes);
  for (int32_t i = 0; i < p->bufs.count; i++) {
    const tc_plan_buf *b = &p->bufs.data[i];
    mark_all(used, b->rank, b->sizes), mark_all(used, b->rank, b->strides);
    mark(used, b->offset), mark(used, b->place), mark(used, b->bytes);
  }
  for (int32_t i = 0; i < p->ops.count; i++) {
    const tc_plan_op *op = &p->ops.data[i];
    mark(used, op->blocks), mark(used, op->grain), mark(used, op->bytes), mark(used, op->flops);
    mark(used, op->predicate), mark(used, op->turns);
    for (int32_t k = 0; k < op->n_args; k++) mark(used, op->args[k].buf < 0 ? op->args[k].scalar : NULL);
    mark_call(used, op);
    mark_all(used, op->n_key, op->key);
    for (int32_t v = 0; v < op->n_variants; v++) mark_variant(used, &op->variants[v]);
    for (int32_t r = 0; r < tc_plan_region_count(op->kind); r++) mark_plan(used, op->regions[r]);
  }
  for (int32_t i = 0; i < p->outputs.count; i++) {
    const tc_plan_output *o = &p->outputs.data[i];
    if (o->buf >= 0) mark_type(used, &o->type);
    else mark(used, o->number.kind == TC_AK_INT ? o->number.sym : NULL);
  }
}

static void put_symbols(tc_sb *sb, const tc_plan *p) {
  uint8_t *used = TC_NEW_ARRAY(sb->arena, uint8_t, tc_sym_symbol_count(p->syms));
  mark_plan(used, p);
  tc_symbols_print(sb, p->module, used);
}

// A region has the symbols of the plan around it.
static void put_plan(tc_sb *sb, const tc_plan *p, const kernel_texts *kernels, bool region) {
  tc_sb_printf(sb, "plan @" TC_SV_FMT, TC_SV_ARG(p->name));
  if (!region) put_symbols(sb, p);
  if (p->graph) tc_signature_print(sb, p->graph);
  put_word(sb, " arena ", p->arena_bytes);
  tc_sb_putz(sb, " {\n");
  for (int32_t i = 0; i < p->bufs.count; i++) put_buf(sb, p, &p->bufs.data[i]);
  for (int32_t i = 0; i < p->ops.count; i++) put_op(sb, p, kernels, &p->ops.data[i]);
  tc_sb_putz(sb, "  return");
  for (int32_t i = 0; i < p->outputs.count; i++) {
    if (i) tc_sb_putc(sb, ',');
    put_output(sb, p, &p->outputs.data[i]);
  }
  tc_sb_putz(sb, "\n}\n");
}

static void put_kernels(tc_sb *sb, const kernel_texts *kernels) {
  for (int32_t i = 0; i < kernels->texts.count; i++) tc_sb_put(sb, kernels->texts.data[i]);
}

void tc_plan_print(tc_sb *sb, const tc_plan *p) {
  kernel_texts kernels = all_kernels(sb->arena, p);
  put_plan(sb, p, &kernels, false);
  put_kernels(sb, &kernels);
}

void tc_plan_print_kernels_first(tc_sb *sb, const tc_plan *p) {
  kernel_texts kernels = all_kernels(sb->arena, p);
  put_kernels(sb, &kernels);
  put_plan(sb, p, &kernels, false);
}

void tc_plan_print_coded(tc_sb *sb, const tc_plan *p, int32_t *out_n, const tc_kernel *const **out_kernels) {
  kernel_texts kernels = all_kernels(sb->arena, p);
  put_plan(sb, p, &kernels, false);
  *out_n = kernels.kernels.count;
  *out_kernels = kernels.kernels.data;
}
