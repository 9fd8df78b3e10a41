// Loop IR as text (loop.h shows it, parse.c has the grammar). What is printed parses back to the same text.
//
// Buffers keep their names, made unique; loop variables are printed under their symbols' names, which are unique in a
// module; body values are numbered. Left out is what follows: the domains of templates and calls (their results'
// sizes), result types of opcodes, offsets 0, which output a buffer is.
#include "core/ir/op.h"
#include "core/loop/lo.h"

typedef struct printer {
  tc_sb *sb;
  const tc_loops *l;
  tc_map *names; // tc_buf * → tc_sv *
  tc_map *taken;
} printer;

// ---- names ----
static bool name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '$';
}

static tc_sv give_name(printer *p, const tc_buf *b) {
  tc_sb sb = tc_sb_make(p->sb->arena);
  for (size_t i = 0; i < b->name.size; i++) tc_sb_putc(&sb, name_char(b->name.data[i]) ? b->name.data[i] : '_');
  if (!sb.size) tc_sb_putz(&sb, "b");
  tc_sv base = tc_sb_view(&sb), name = base;
  bool fresh;
  tc_map_put(p->taken, name, &fresh);
  for (int32_t i = 1; !fresh; i++) {
    name = tc_sv_printf(p->sb->arena, TC_SV_FMT ".%d", TC_SV_ARG(base), i);
    tc_map_put(p->taken, name, &fresh);
  }
  tc_sv *kept = TC_NEW(p->sb->arena, tc_sv);
  *kept = name;
  tc_map_put_ptr(p->names, b, NULL)->value.ptr = kept;
  return name;
}

static tc_sv name_of(printer *p, const tc_buf *b) {
  tc_map_entry *e = tc_map_find_ptr(p->names, b);
  return e ? *(const tc_sv *)e->value.ptr : give_name(p, b);
}

static void put_buf(printer *p, const tc_buf *b) { tc_sb_printf(p->sb, "%%" TC_SV_FMT, TC_SV_ARG(name_of(p, b))); }

// ---- pieces ----
static void put_syms(tc_sb *sb, const char *open, const char *close, int32_t n, const tc_sym *const *v) {
  tc_sb_putz(sb, open);
  for (int32_t i = 0; i < n; i++) {
    if (i) tc_sb_putz(sb, ", ");
    tc_sym_print(sb, v[i]);
  }
  tc_sb_putz(sb, close);
}

static void put_vars(tc_sb *sb, int32_t n, const tc_sym *const *vars, const tc_sym *const *extents) {
  for (int32_t i = 0; i < n; i++) {
    if (i) tc_sb_putz(sb, ", ");
    tc_sym_print(sb, vars[i]);
    tc_sb_putz(sb, " : ");
    tc_sym_print(sb, extents[i]);
  }
}

static void put_offset(tc_sb *sb, const tc_sym *offset) {
  if (!offset || tc_sym_is_int(offset, 0)) return;
  tc_sb_putz(sb, "+(");
  tc_sym_print(sb, offset);
  tc_sb_putc(sb, ')');
}

static void put_decl(printer *p, const tc_buf *b) {
  put_buf(p, b);
  tc_sb_printf(p->sb, " : %s", tc_dtype_name(b->dtype));
  put_syms(p->sb, "[", "]", b->rank, b->sizes);
  if (b->strides) put_syms(p->sb, "{", "}", b->rank, b->strides);
  put_offset(p->sb, b->offset);
  if (b->prefer) put_syms(p->sb, " prefer {", "}", b->rank, b->prefer);
  if (b->inplace) {
    tc_sb_putz(p->sb, " inplace ");
    put_buf(p, b->inplace);
  }
  if (b->planar) tc_sb_putz(p->sb, " planar");
}

// ---- bodies ----
static void put_const(tc_sb *sb, const tc_binst *b) {
  char cls = tc_dtype_class(b->dtype);
  if (cls == 'c') {
    tc_sb_putc(sb, '(');
    tc_sb_double(sb, b->re);
    tc_sb_putz(sb, ", ");
    tc_sb_double(sb, b->im);
    tc_sb_putc(sb, ')');
  } else if (cls == 'f') {
    tc_sb_double(sb, b->re);
  } else if (cls == 'b') {
    tc_sb_putz(sb, b->imm ? "true" : "false");
  } else {
    tc_sb_int(sb, b->imm);
  }
}

static void put_source(tc_sb *sb, const tc_binst *b) {
  if (!b->source.size) return;
  tc_sb_putz(sb, " @ ");
  tc_sb_quoted(sb, b->source);
}

static void put_load(printer *p, const tc_binst *b) {
  put_buf(p, b->buf);
  tc_sb_putc(p->sb, '[');
  for (int32_t d = 0; d < b->buf->rank; d++) {
    if (d) tc_sb_putz(p->sb, ", ");
    if (b->gather && b->gather[d] >= 0) tc_sb_printf(p->sb, "%%%d", b->gather[d]);
    else tc_sym_print(p->sb, b->index[d]);
  }
  tc_sb_putc(p->sb, ']');
  if (b->wrap) tc_sb_putz(p->sb, " wrap");
  if (b->cond) {
    tc_sb_putz(p->sb, " if ");
    tc_sym_print(p->sb, b->cond);
    tc_sb_printf(p->sb, " else %%%d", b->args[0]);
  }
  put_source(p->sb, b);
}

static const char *op_text(int32_t op) {
  return op == TC_B_LOAD ? "load" : op == TC_B_INDEX ? "index" : op == TC_B_CHECK ? "check" : tc_k_op_text(op);
}

static void put_type(tc_sb *sb, tc_dtype d) { tc_sb_printf(sb, " : %s", tc_dtype_name(d)); }

static void put_inst(printer *p, const tc_body *body, int32_t i) {
  const tc_binst *b = &body->insts.data[i];
  tc_sb *sb = p->sb;
  tc_sb_printf(sb, "%%%d = %s ", i, op_text(b->op));
  tc_dtype types[3] = {TC_DTYPE_NONE, TC_DTYPE_NONE, TC_DTYPE_NONE};
  switch (b->op) {
  case TC_B_LOAD: put_load(p, b); return;
  case TC_B_CHECK:
    tc_sb_printf(sb, "%%%d, %%%d ", b->args[0], b->args[1]);
    tc_sb_quoted(sb, b->text);
    put_source(sb, b);
    return;
  case TC_K_CONST: put_const(sb, b); break;
  case TC_B_INDEX: tc_sym_print(sb, b->expr); break;
  default:
    for (int32_t k = 0; k < b->n_args; k++) {
      tc_sb_printf(sb, "%s%%%d", k ? ", " : "", b->args[k]);
      types[k] = body->insts.data[b->args[k]].dtype;
    }
    if (b->op != TC_K_CAST && b->op != TC_K_BITCAST && tc_body_op_type(b->op, b->n_args, types) == b->dtype) return;
  }
  put_type(sb, b->dtype);
}

static void put_body(printer *p, const tc_body *body) {
  const char *gap = body->insts.count > 3 ? "\n    " : "  ";
  tc_sb_putz(p->sb, body->insts.count > 3 ? " {\n    " : " { ");
  for (int32_t i = 0; i < body->insts.count; i++) {
    put_inst(p, body, i);
    tc_sb_putz(p->sb, gap);
  }
  tc_sb_putz(p->sb, "yield");
  for (int32_t i = 0; i < body->n_results; i++) tc_sb_printf(p->sb, "%s%%%d", i ? ", " : " ", body->results[i]);
  tc_sb_putz(p->sb, body->insts.count > 3 ? "\n  }" : " }");
}

// ---- nodes ----
static bool whole(const tc_lview *v) {
  bool same = v->rank == v->buf->rank;
  for (int32_t d = 0; same && d < v->rank; d++) same = v->map[d] == v->index[d] && v->sizes[d] == v->buf->sizes[d];
  return same;
}

static void put_operands(printer *p, const tc_lnode *n) {
  tc_sb_putz(p->sb, " (");
  for (int32_t i = 0; i < n->n_operands; i++) {
    const tc_lview *v = &n->operands[i];
    if (i) tc_sb_putz(p->sb, ", ");
    put_buf(p, v->buf);
    if (whole(v)) continue;
    tc_sb_putc(p->sb, '[');
    put_vars(p->sb, v->rank, v->index, v->sizes);
    tc_sb_putz(p->sb, v->rank ? " -> " : "-> ");
    put_syms(p->sb, "", "]", v->buf->rank, v->map);
  }
  tc_sb_putc(p->sb, ')');
}

// A name as it stands if the lexer reads it as names with dots between, else in quotes.
static void put_template_name(tc_sb *sb, tc_sv name) {
  bool plain = name.size > 0, start = true;
  for (size_t i = 0; i < name.size; i++) {
    char c = name.data[i];
    bool digit = c >= '0' && c <= '9';
    if (c == '.') plain &= !start;
    else plain &= name_char(c) && c != '$' && !(start && digit);
    start = c == '.';
  }
  if (plain && !start) tc_sb_put(sb, name);
  else tc_sb_quoted(sb, name);
}

// The op of a call as a graph of its own: its inputs are the values that it reads, each once, in argument order.
typedef struct call_inputs {
  TC_VEC(const tc_value *) values;
  tc_arena *arena;
} call_inputs;

static void collect(void *arg, tc_value **place) {
  call_inputs *c = arg;
  for (int32_t i = 0; i < c->values.count; i++) {
    if (c->values.data[i] == *place) return;
  }
  const tc_value *v = *place;
  tc_vec_push(c->arena, &c->values, v);
}

void tc_call_print(tc_sb *sb, tc_module *m, const tc_node *g) {
  call_inputs in = {.arena = sb->arena};
  tc_node_each_value((tc_node *)g, collect, &in);
  tc_sb_putz(sb, "graph @call (");
  for (int32_t i = 0; i < in.values.count; i++) {
    const tc_value *v = in.values.data[i];
    tc_sb_printf(sb, "%s%%" TC_SV_FMT " : ", i ? ", " : "", TC_SV_ARG(v->name));
    tc_type_print_full(sb, m, &v->type);
    tc_sb_putz(sb, " = operand \"\"");
  }
  tc_sb_putz(sb, ") { ");
  for (int32_t i = 0; i < g->n_results; i++) {
    tc_sb_printf(sb, "%s%%" TC_SV_FMT " : ", i ? ", " : "", TC_SV_ARG(g->results[i]->name));
    tc_type_print_full(sb, m, &g->results[i]->type);
  }
  tc_sb_printf(sb, " = " TC_SV_FMT "(", TC_SV_ARG(g->op->full_name));
  for (int32_t i = 0; i < g->n_args; i++) {
    if (i) tc_sb_putz(sb, ", ");
    tc_arg_print(sb, &g->args[i], i < g->op->schema.n_args ? g->op->schema.args[i].type : TC_ST_OTHER);
  }
  tc_sb_putz(sb, ") return");
  for (int32_t i = 0; i < g->n_results; i++)
    tc_sb_printf(sb, "%s user %%" TC_SV_FMT, i ? "," : "", TC_SV_ARG(g->results[i]->name));
  tc_sb_putz(sb, " }");
}

static void put_store(tc_sb *sb, const tc_lnode *n) {
  tc_sb_putz(sb, " at [");
  for (int32_t d = 0; d < n->outs[0]->rank; d++) {
    if (d) tc_sb_putz(sb, ", ");
    if (n->store_gather && n->store_gather[d] >= 0) tc_sb_printf(sb, "%%%d", n->store_gather[d]);
    else tc_sym_print(sb, n->store[d]);
  }
  tc_sb_putc(sb, ']');
  if (n->store_wrap) tc_sb_putz(sb, " wrap");
  if (n->store_if >= 0) tc_sb_printf(sb, " if %%%d", n->store_if);
}

static void put_node(printer *p, const tc_lnode *n) {
  tc_sb *sb = p->sb;
  tc_sb_putz(sb, "  ");
  for (int32_t i = 0; i < n->n_outs; i++) {
    if (i) tc_sb_putz(sb, ", ");
    put_decl(p, n->outs[i]);
  }
  tc_sb_putz(sb, " = ");
  switch (n->kind) {
  case TC_LN_POINTWISE: tc_sb_putz(sb, "pointwise"); break;
  case TC_LN_REDUCE: tc_sb_printf(sb, "reduce.%s", tc_reduce_text(n->reduce)); break;
  case TC_LN_TEMPLATE:
    tc_sb_putz(sb, "template ");
    put_template_name(sb, n->tmpl->name);
    put_operands(p, n);
    if (n->n_attrs) put_syms(sb, " attrs [", "]", n->n_attrs, n->attrs);
    break;
  default: tc_sb_putz(sb, "call"); put_operands(p, n);
  }
  if (n->kind == TC_LN_POINTWISE || n->kind == TC_LN_REDUCE) {
    tc_sb_putz(sb, " [");
    put_vars(sb, n->n_par, n->vars, n->extents);
    if (n->kind == TC_LN_REDUCE) {
      tc_sb_putz(sb, "] over [");
      put_vars(sb, n->n_red, n->vars + n->n_par, n->extents + n->n_par);
    }
    tc_sb_putc(sb, ']');
  }
  if (n->keep) tc_sb_putz(sb, " keep");
  if (n->op.size) {
    tc_sb_putz(sb, " of ");
    tc_sb_quoted(sb, n->op);
  }
  if (!tc_sv_eq(n->name, name_of(p, n->outs[0]))) {
    tc_sb_putz(sb, " named ");
    tc_sb_quoted(sb, n->name);
  }
  if (n->source.size) {
    tc_sb_putz(sb, " @ ");
    tc_sb_quoted(sb, n->source);
  }
  if (n->kind == TC_LN_POINTWISE || n->kind == TC_LN_REDUCE) put_body(p, &n->body);
  if (n->store) put_store(sb, n);
  if (n->kind == TC_LN_CALL && n->node) {
    tc_sb_putz(sb, "\n    ");
    tc_call_print(sb, p->l->module, n->node);
  }
  tc_sb_putc(sb, '\n');
}

static bool same_type(const tc_buf *b, const tc_tensor_type *t) {
  if (t->conj || t->dtype != b->dtype || t->rank != b->rank || !b->strides || t->offset != b->offset) return false;
  for (int32_t d = 0; d < b->rank; d++) {
    if (t->sizes[d] != b->sizes[d] || t->strides[d] != b->strides[d]) return false;
  }
  return true;
}

static void put_output(printer *p, const tc_loop_output *o) {
  tc_sb *sb = p->sb;
  tc_sb_printf(sb, "%s ", tc_output_kind_text(o->kind));
  if (o->target.size) {
    tc_sb_quoted(sb, o->target);
    tc_sb_putc(sb, ' ');
  }
  if (!o->buf) {
    bool valued = o->number.kind == TC_AK_TENSOR ||
                  ((o->number.kind == TC_AK_FLOAT || o->number.kind == TC_AK_BOOL) && o->number.value);
    if (valued) tc_sb_putz(sb, "none"); // the graph's own number, which loops do not hold
    else tc_arg_print(sb, &o->number, TC_ST_OTHER);
    return;
  }
  put_buf(p, o->buf);
  if (same_type(o->buf, &o->type)) return;
  tc_sb_printf(sb, " as %s", tc_dtype_name(o->type.dtype));
  put_syms(sb, "[", "]", o->type.rank, o->type.sizes);
  put_syms(sb, "{", "}", o->type.rank, o->type.strides);
  put_offset(sb, o->type.offset);
  if (o->type.conj) tc_sb_putz(sb, " conj");
}

// ---- which size symbols occur ----
static void mark(const printer *p, uint8_t *used, const tc_sym *e) {
  if (!e) return;
  if (e->kind == TC_SYM_SYMBOL) {
    int32_t origin = tc_sym_info_of(p->l->syms, e)->origin;
    if (origin == TC_SYM_BACKED || origin == TC_SYM_UNBACKED) used[e->symbol] = 1;
  }
  for (int32_t i = 0; i < e->n; i++) mark(p, used, e->kids[i]);
}

static void mark_all(const printer *p, uint8_t *used, int32_t n, const tc_sym *const *v) {
  for (int32_t i = 0; v && i < n; i++) mark(p, used, v[i]);
}

static void mark_node(const printer *p, uint8_t *used, const tc_lnode *n) {
  mark_all(p, used, n->n_par + n->n_red, n->extents);
  mark_all(p, used, n->n_attrs, n->attrs);
  for (int32_t i = 0; i < n->n_operands; i++) {
    mark_all(p, used, n->operands[i].rank, n->operands[i].sizes);
    mark_all(p, used, n->operands[i].buf->rank, n->operands[i].map);
  }
  for (int32_t i = 0; i < n->body.insts.count; i++) {
    const tc_binst *b = &n->body.insts.data[i];
    if (b->buf) mark_all(p, used, b->buf->rank, b->index);
    mark(p, used, b->cond);
    mark(p, used, b->expr);
  }
  for (int32_t i = 0; n->kind == TC_LN_CALL && n->node && i < n->node->n_args; i++) {
    const tc_arg *g = &n->node->args[i];
    if (g->kind == TC_AK_INT) mark(p, used, g->sym);
    if (g->kind == TC_AK_INTS) mark_all(p, used, g->n, g->syms);
  }
}

static void put_symbols(printer *p) {
  const tc_loops *l = p->l;
  uint8_t *used = TC_NEW_ARRAY(p->sb->arena, uint8_t, tc_sym_symbol_count(l->syms));
  for (int32_t i = 0; i < l->bufs.count; i++) {
    const tc_buf *b = l->bufs.data[i];
    mark_all(p, used, b->rank, b->sizes);
    mark_all(p, used, b->rank, b->strides);
    mark_all(p, used, b->rank, b->prefer);
    mark(p, used, b->offset);
  }
  if (l->graph) tc_signature_mark(used, l->graph);
  for (int32_t i = 0; i < l->nodes.count; i++) mark_node(p, used, l->nodes.data[i]);
  for (int32_t i = 0; i < l->outputs.count; i++) {
    const tc_loop_output *o = &l->outputs.data[i];
    if (o->buf) {
      mark_all(p, used, o->type.rank, o->type.sizes);
      mark_all(p, used, o->type.rank, o->type.strides);
      mark(p, used, o->type.offset);
    } else if (o->number.kind == TC_AK_INT) {
      mark(p, used, o->number.sym);
    }
  }
  tc_symbols_print(p->sb, l->module, used);
}

tc_map *tc_loops_names(tc_arena *arena, const tc_loops *l) {
  tc_map *names = tc_map_create(arena);
  tc_sb text = tc_sb_make(arena);
  tc_loops_print_named(&text, l, names);
  return names;
}

tc_sv tc_loops_name(tc_map *names, const tc_buf *b) {
  tc_map_entry *e = tc_map_find_ptr(names, b);
  return e ? *(const tc_sv *)e->value.ptr : b->name;
}

void tc_loops_print(tc_sb *sb, const tc_loops *l) { tc_loops_print_named(sb, l, tc_map_create(sb->arena)); }

void tc_loops_print_named(tc_sb *sb, const tc_loops *l, tc_map *names) {
  printer p = {.sb = sb, .l = l, .names = names, .taken = tc_map_create(sb->arena)};
  tc_sb_printf(sb, "loops @" TC_SV_FMT, TC_SV_ARG(l->name));
  put_symbols(&p);
  if (l->graph) tc_signature_print(sb, l->graph);
  tc_sb_putz(sb, " {\n");
  for (int32_t i = 0; i < l->bufs.count; i++) {
    if (l->bufs.data[i]->kind != TC_BUF_INPUT) continue;
    tc_sb_putz(sb, "  ");
    put_decl(&p, l->bufs.data[i]);
    tc_sb_printf(sb, " = input %d\n", l->bufs.data[i]->input);
  }
  for (int32_t i = 0; i < l->nodes.count; i++) put_node(&p, l->nodes.data[i]);
  tc_sb_putz(sb, "  return");
  for (int32_t i = 0; i < l->outputs.count; i++) {
    tc_sb_putz(sb, i ? ", " : " ");
    put_output(&p, &l->outputs.data[i]);
  }
  tc_sb_putz(sb, "\n}\n");
}
