// The text form of graphs; graph.h shows it. What is printed parses back equal (parse.c).
#include <math.h>

#include "core/ir/internal.h"

static const char *const input_kinds[] = {"user", "parameter", "buffer", "constant", "token", "operand"};
static const char *const output_kinds[] = {"user", "buffer", "input", "parameter", "token", "loss"};

const char *tc_output_kind_text(int32_t kind) {
  return kind >= 0 && kind < (int32_t)(sizeof output_kinds / sizeof *output_kinds) ? output_kinds[kind] : NULL;
}

void tc_type_print(tc_sb *sb, const tc_tensor_type *t) {
  tc_sb_putz(sb, tc_dtype_name(t->dtype));
  tc_sb_putc(sb, '[');
  for (int32_t i = 0; i < t->rank; i++) {
    if (i) tc_sb_putz(sb, ", ");
    tc_sym_print(sb, t->sizes[i]);
  }
  tc_sb_putc(sb, ']');
}

void tc_type_print_full(tc_sb *sb, tc_module *m, const tc_tensor_type *t) {
  tc_type_print(sb, t);
  const tc_sym *const *row = tc_row_major(m, t->rank, t->sizes);
  bool plain = tc_sym_is_int(t->offset, 0);
  for (int32_t i = 0; i < t->rank; i++) plain = plain && row[i] == t->strides[i];
  if (!plain) {
    tc_sb_putc(sb, '{');
    for (int32_t i = 0; i < t->rank; i++) {
      if (i) tc_sb_putz(sb, ", ");
      tc_sym_print(sb, t->strides[i]);
    }
    tc_sb_putc(sb, '}');
    if (!tc_sym_is_int(t->offset, 0)) {
      tc_sb_putc(sb, '+');
      bool simple = t->offset->kind == TC_SYM_CONST || t->offset->kind == TC_SYM_SYMBOL;
      if (!simple) tc_sb_putc(sb, '(');
      tc_sym_print(sb, t->offset);
      if (!simple) tc_sb_putc(sb, ')');
    }
  }
  if (t->conj) tc_sb_putz(sb, " conj");
}

static void print_value_type(tc_sb *sb, const tc_value *v) {
  switch (v->kind) {
  case TC_VALUE_TENSOR: tc_type_print_full(sb, v->graph->module, &v->type); break;
  case TC_VALUE_SYM:
    tc_sb_putz(sb, "int ");
    tc_sym_print(sb, v->symbol);
    break;
  case TC_VALUE_FLOAT: tc_sb_putz(sb, "float"); break;
  case TC_VALUE_BOOL: tc_sb_putz(sb, "truth"); break;
  case TC_VALUE_TOKEN: tc_sb_putz(sb, "token"); break;
  default: tc_sb_putz(sb, "none");
  }
}

static void print_value(tc_sb *sb, const tc_value *v) {
  if (v) tc_sb_printf(sb, "%%" TC_SV_FMT, TC_SV_ARG(v->name));
  else tc_sb_putz(sb, "none");
}

static void print_graph(tc_sb *sb, const tc_graph *g, int32_t indent, bool symbols);

#define PRINT_LIST(n, one)              \
  do {                                  \
    tc_sb_putc(sb, '[');                \
    for (int32_t i = 0; i < (n); i++) { \
      if (i) tc_sb_putz(sb, ", ");      \
      one;                              \
    }                                   \
    tc_sb_putc(sb, ']');                \
  } while (0)

static void print_arg(tc_sb *sb, const tc_arg *g, int32_t type, int32_t indent) {
  static const char *const formats[] = {"none", "contiguous_format", "channels_last", "channels_last_3d",
                                        "preserve_format"};
  switch (g->kind) {
  case TC_AK_NONE: tc_sb_putz(sb, "none"); break;
  case TC_AK_TENSOR: print_value(sb, g->value); break;
  case TC_AK_TENSORS: PRINT_LIST(g->n, print_value(sb, g->values[i])); break;
  case TC_AK_INT: tc_sym_print(sb, g->sym); break;
  case TC_AK_INTS: PRINT_LIST(g->n, tc_sym_print(sb, g->syms[i])); break;
  case TC_AK_FLOAT:
    if (g->value) print_value(sb, g->value);
    else tc_sb_double(sb, g->real);
    break;
  case TC_AK_FLOATS: PRINT_LIST(g->n, tc_sb_double(sb, g->reals[i])); break;
  case TC_AK_BOOL:
    if (g->value) print_value(sb, g->value);
    else tc_sb_putz(sb, g->integer ? "true" : "false");
    break;
  case TC_AK_BOOLS: PRINT_LIST(g->n, tc_sb_putz(sb, g->bools[i] ? "true" : "false")); break;
  case TC_AK_COMPLEX:
    tc_sb_putz(sb, "complex(");
    tc_sb_double(sb, g->real);
    tc_sb_putz(sb, ", ");
    tc_sb_double(sb, g->imag);
    tc_sb_putc(sb, ')');
    break;
  case TC_AK_STRING: tc_sb_quoted(sb, g->text); break;
  case TC_AK_STRINGS: PRINT_LIST(g->n, tc_sb_quoted(sb, g->texts[i])); break;
  case TC_AK_DTYPE: tc_sb_putz(sb, tc_dtype_name((tc_dtype)g->integer)); break;
  case TC_AK_LAYOUT: tc_sb_printf(sb, "layout(%lld)", (long long)g->integer); break;
  case TC_AK_MEMORY_FORMAT: tc_sb_putz(sb, formats[g->integer >= 1 && g->integer <= 4 ? g->integer : 0]); break;
  case TC_AK_DEVICE:
    if (type != TC_ST_DEVICE) tc_sb_putz(sb, "device ");
    tc_sb_quoted(sb, g->text);
    break;
  case TC_AK_GRAPH: print_graph(sb, g->graph, indent + 2, false); break;
  default: tc_sb_putz(sb, "none");
  }
}

void tc_arg_print(tc_sb *sb, const tc_arg *g, int32_t type) { print_arg(sb, g, type, 0); }

static void spaces(tc_sb *sb, int32_t n) {
  for (int32_t i = 0; i < n; i++) tc_sb_putc(sb, ' ');
}

static void print_node(tc_sb *sb, const tc_node *n, int32_t indent) {
  spaces(sb, indent);
  for (int32_t i = 0; i < n->n_results; i++) {
    if (i) tc_sb_putz(sb, ", ");
    print_value(sb, n->results[i]);
    tc_sb_putz(sb, " : ");
    print_value_type(sb, n->results[i]);
  }
  if (n->n_results) tc_sb_putz(sb, " = ");
  tc_sb_put(sb, n->op->full_name);
  tc_sb_putc(sb, '(');
  for (int32_t i = 0; i < n->n_args; i++) {
    if (i) tc_sb_putz(sb, ", ");
    print_arg(sb, &n->args[i], i < n->op->schema.n_args ? n->op->schema.args[i].type : TC_ST_OTHER, indent);
  }
  tc_sb_putc(sb, ')');
  if (n->inplace >= 0) tc_sb_printf(sb, " inplace %d", n->inplace);
  if (n->source.size) tc_sb_putz(sb, " @ "), tc_sb_quoted(sb, n->source);
  tc_sb_putc(sb, '\n');
}

// ---- symbols ----
static void mark_symbols(uint8_t *used, const tc_sym *e) {
  if (!e) return;
  if (e->kind == TC_SYM_SYMBOL) used[e->symbol] = 1;
  for (int32_t i = 0; i < e->n; i++) mark_symbols(used, e->kids[i]);
}

static void mark_type(uint8_t *used, const tc_value *v) {
  if (!v) return;
  mark_symbols(used, v->symbol);
  if (v->kind != TC_VALUE_TENSOR) return;
  for (int32_t i = 0; i < v->type.rank; i++)
    mark_symbols(used, v->type.sizes[i]), mark_symbols(used, v->type.strides[i]);
  mark_symbols(used, v->type.offset);
}

static void mark_graph(uint8_t *used, const tc_graph *g);

static void mark_arg(uint8_t *used, const tc_arg *g) {
  if (g->kind == TC_AK_INT) mark_symbols(used, g->sym);
  if (g->kind == TC_AK_INTS)
    for (int32_t i = 0; i < g->n; i++) mark_symbols(used, g->syms[i]);
  if (g->kind == TC_AK_GRAPH && g->graph) mark_graph(used, g->graph);
}

void tc_inputs_mark(uint8_t *used, const tc_graph *g) {
  for (int32_t i = 0; i < g->inputs.count; i++)
    mark_type(used, g->inputs.data[i].value), mark_arg(used, &g->inputs.data[i].constant);
}

void tc_signature_mark(uint8_t *used, const tc_graph *g) {
  tc_inputs_mark(used, g);
  for (int32_t i = 0; i < g->checks.count; i++) {
    const tc_check *c = &g->checks.data[i];
    mark_symbols(used, c->condition);
    for (int32_t k = 0; k < c->n; k++) mark_symbols(used, c->values[k]);
  }
}

void tc_graph_mark(uint8_t *used, const tc_graph *g) {
  for (const tc_node *n = g->first; n; n = n->next) {
    for (int32_t i = 0; i < n->n_args; i++) mark_arg(used, &n->args[i]);
    for (int32_t i = 0; i < n->n_results; i++) mark_type(used, n->results[i]);
  }
  for (int32_t i = 0; i < g->outputs.count; i++) mark_arg(used, &g->outputs.data[i].arg);
}

static void mark_graph(uint8_t *used, const tc_graph *g) {
  tc_signature_mark(used, g);
  tc_graph_mark(used, g);
}

static void print_bound(tc_sb *sb, int64_t v) {
  if (v == TC_SYM_INF) tc_sb_putz(sb, "inf");
  else if (v == -TC_SYM_INF) tc_sb_putz(sb, "-inf");
  else tc_sb_int(sb, v);
}

void tc_symbols_print(tc_sb *sb, const tc_module *m, uint8_t *used) {
  tc_sym_ctx *c = m->syms;
  int32_t n = tc_sym_symbol_count(c), printed = 0;
  for (int32_t i = 0; i < m->requires_.count; i++) mark_symbols(used, m->requires_.data[i]);
  for (int32_t i = 0; i < n; i++) {
    if (!used[i]) continue;
    const tc_sym_info *info = tc_sym_info_read(c, tc_sym_symbol_at(c, i));
    tc_sb_putz(sb, printed++ ? ", " : " [");
    tc_sb_put(sb, info->name);
    if (info->origin == TC_SYM_UNBACKED) tc_sb_putz(sb, " unbacked");
    tc_sb_putz(sb, " in [");
    print_bound(sb, info->lo);
    tc_sb_putz(sb, ", ");
    print_bound(sb, info->hi);
    tc_sb_putc(sb, ']');
    if (info->divisor > 1) tc_sb_printf(sb, " div %lld", (long long)info->divisor);
    if (info->hint != INT64_MIN) tc_sb_printf(sb, " hint %lld", (long long)info->hint);
  }
  for (int32_t i = 0; i < m->requires_.count; i++) {
    tc_sb_putz(sb, printed++ ? ", require " : " [require ");
    tc_sym_print(sb, m->requires_.data[i]);
  }
  if (printed) tc_sb_putc(sb, ']');
}

static void print_symbols(tc_sb *sb, const tc_graph *g) {
  uint8_t *used = TC_NEW_ARRAY(sb->arena, uint8_t, tc_sym_symbol_count(g->module->syms));
  mark_graph(used, g);
  tc_symbols_print(sb, g->module, used);
}

// ---- graphs ----
static void print_input(tc_sb *sb, const tc_graph_input *in, int32_t indent) {
  spaces(sb, indent);
  if (in->value) {
    print_value(sb, in->value);
    tc_sb_putz(sb, " : ");
    print_value_type(sb, in->value);
  } else {
    tc_sb_putz(sb, "const(");
    print_arg(sb, &in->constant, TC_ST_OTHER, indent);
    tc_sb_putc(sb, ')');
  }
  tc_sb_printf(sb, " = %s ", input_kinds[in->kind]);
  tc_sb_quoted(sb, in->target);
  if (in->persistent) tc_sb_putz(sb, " persistent");
}

static void print_check(tc_sb *sb, const tc_check *c, int32_t indent) {
  spaces(sb, indent);
  tc_sb_putz(sb, "check ");
  tc_sym_print(sb, c->condition);
  tc_sb_putc(sb, ' ');
  tc_sb_quoted(sb, c->text);
  tc_sb_putz(sb, " [");
  for (int32_t i = 0; i < c->n; i++) {
    if (i) tc_sb_putz(sb, ", ");
    tc_sym_print(sb, c->values[i]);
  }
  tc_sb_putc(sb, ']');
}

static void print_inputs(tc_sb *sb, const tc_graph *g, int32_t indent) {
  int32_t printed = 0;
  tc_sb_putz(sb, " (");
  for (int32_t i = 0; i < g->inputs.count; i++) {
    tc_sb_putz(sb, printed++ ? ",\n" : "\n");
    print_input(sb, &g->inputs.data[i], indent + 4);
  }
  for (int32_t i = 0; i < g->checks.count; i++) {
    tc_sb_putz(sb, printed++ ? ",\n" : "\n");
    print_check(sb, &g->checks.data[i], indent + 4);
  }
  tc_sb_putc(sb, ')');
}

static void print_graph(tc_sb *sb, const tc_graph *g, int32_t indent, bool symbols) {
  tc_sb_printf(sb, "graph @" TC_SV_FMT, TC_SV_ARG(g->name));
  if (symbols) print_symbols(sb, g);
  print_inputs(sb, g, indent);
  tc_sb_putz(sb, " {\n");
  for (const tc_node *n = g->first; n; n = n->next)
    if (!n->dead) print_node(sb, n, indent + 2);
  spaces(sb, indent + 2);
  tc_sb_putz(sb, "return");
  for (int32_t i = 0; i < g->outputs.count; i++) {
    const tc_graph_output *o = &g->outputs.data[i];
    tc_sb_printf(sb, "%s%s ", i ? ", " : " ", output_kinds[o->kind]);
    if (o->target.size) tc_sb_quoted(sb, o->target), tc_sb_putc(sb, ' ');
    print_arg(sb, &o->arg, TC_ST_OTHER, indent + 2);
  }
  tc_sb_putc(sb, '\n');
  spaces(sb, indent);
  tc_sb_putz(sb, "}");
}

void tc_signature_print(tc_sb *sb, const tc_graph *g) { print_inputs(sb, g, 0); }

void tc_graph_print(tc_sb *sb, const tc_graph *g) {
  print_graph(sb, g, 0, true);
  tc_sb_putc(sb, '\n');
}
