// Reads the text form of graphs (graph.h, print.c). Every error names line and column.
//
// Nodes are made by tc_graph_add_node, so that a graph that parses has been through every meta function. Declared types
// of results may be left out; where they stand they must agree with what meta says. Unbacked sizes take the names that
// the text gives them.
#include <math.h>

#include "core/ir/internal.h"

enum { MAX_DEPTH = 32 };

typedef struct reader {
  tc_module *m;
  tc_lexer *lx;
  tc_graph *g;
  tc_map *values; // name → tc_value *
  int32_t depth;
} reader;

typedef struct declared {
  tc_sv name;
  bool typed;
  int32_t kind; // TC_VALUE_*
  tc_tensor_type type;
  const tc_sym *symbol;
  int32_t line, column;
} declared;

static tc_status parse_graph(reader *r, tc_graph **out);

// ---- types ----
static tc_status parse_syms(reader *r, const char *open, const char *close, int32_t *out_n,
                            const tc_sym *out[TC_MAX_RANK]) {
  TC_TRY(tc_lex_expect(r->lx, open));
  *out_n = 0;
  while (!tc_lex_at(r->lx, close)) {
    if (*out_n == TC_MAX_RANK) return tc_lex_error(r->lx, "a tensor has at most %d dimensions", TC_MAX_RANK);
    TC_TRY(tc_sym_parse(r->m->syms, r->lx, &out[(*out_n)++]));
    if (!tc_lex_eat(r->lx, ",")) break;
  }
  return tc_lex_expect(r->lx, close);
}

static tc_status parse_offset(reader *r, const tc_sym **out) {
  if (r->lx->tok.kind == TC_TOK_INT) {
    int64_t v;
    TC_TRY(tc_lex_int(r->lx, &v));
    *out = tc_sym_int(r->m->syms, v);
    return TC_OK;
  }
  if (tc_lex_eat(r->lx, "(")) {
    TC_TRY(tc_sym_parse(r->m->syms, r->lx, out));
    return tc_lex_expect(r->lx, ")");
  }
  tc_sv name;
  TC_TRY(tc_lex_ident(r->lx, &name));
  *out = tc_sym_symbol(r->m->syms, name);
  return TC_OK;
}

static tc_status parse_tensor_type(reader *r, tc_tensor_type *out) {
  tc_lexer *lx = r->lx;
  const tc_sym *sizes[TC_MAX_RANK], *strides[TC_MAX_RANK];
  *out = (tc_tensor_type){.dtype = lx->tok.kind == TC_TOK_IDENT ? tc_dtype_parse(lx->tok.text) : TC_DTYPE_NONE};
  if (out->dtype == TC_DTYPE_NONE) return tc_lex_error(lx, "expected a type such as f32[2, 3]");
  tc_lex_next(lx);
  TC_TRY(parse_syms(r, "[", "]", &out->rank, sizes));
  size_t bytes = sizeof *sizes * (size_t)out->rank;
  out->sizes = tc_arena_copy(r->m->arena, sizes, bytes);
  out->offset = tc_sym_int(r->m->syms, 0);
  if (tc_lex_at(lx, "{")) {
    int32_t n;
    TC_TRY(parse_syms(r, "{", "}", &n, strides));
    if (n != out->rank) return tc_lex_error(lx, "%d strides for %d sizes", n, out->rank);
    out->strides = tc_arena_copy(r->m->arena, strides, bytes);
    if (tc_lex_eat(lx, "+")) TC_TRY(parse_offset(r, &out->offset));
  } else {
    out->strides = tc_row_major(r->m, out->rank, out->sizes);
  }
  out->conj = tc_lex_eat(lx, "conj");
  return TC_OK;
}

static tc_status parse_value_type(reader *r, declared *d) {
  tc_lexer *lx = r->lx;
  d->typed = true;
  if (tc_lex_eat(lx, "int")) {
    d->kind = TC_VALUE_SYM;
    return tc_sym_parse(r->m->syms, lx, &d->symbol);
  }
  static const struct {
    const char *text;
    int32_t kind;
  } words[] = {{"float", TC_VALUE_FLOAT}, {"truth", TC_VALUE_BOOL}, {"token", TC_VALUE_TOKEN}, {"none", TC_VALUE_NONE}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (tc_lex_eat(lx, words[i].text)) {
      d->kind = words[i].kind;
      return TC_OK;
    }
  d->kind = TC_VALUE_TENSOR;
  return parse_tensor_type(r, &d->type);
}

// ---- arguments ----
static tc_status parse_value_ref(reader *r, tc_value **out) {
  tc_sv name;
  tc_lexer at = *r->lx;
  TC_TRY(tc_lex_sigil(r->lx, '%', &name));
  const tc_map_entry *e = tc_map_find(r->values, name);
  if (!e) return tc_lex_error(&at, "%%" TC_SV_FMT " is not defined here", TC_SV_ARG(name));
  *out = e->value.ptr;
  return TC_OK;
}

// A float literal, with a minus or as inf or nan; *found false (and nothing read) for anything else.
static tc_status try_float(reader *r, bool *found, double *out) {
  tc_lexer save = *r->lx;
  tc_lex_eat(r->lx, "-");
  *found = r->lx->tok.kind == TC_TOK_FLOAT || tc_lex_at(r->lx, "inf") || tc_lex_at(r->lx, "nan");
  *r->lx = save;
  return *found ? tc_lex_double(r->lx, out) : TC_OK;
}

static tc_status parse_arg(reader *r, const tc_schema_arg *want, tc_arg *out);

static tc_status parse_list(reader *r, const tc_schema_arg *want, tc_arg *out) {
  tc_lexer *lx = r->lx;
  tc_arena *arena = r->m->arena;
  TC_VEC(tc_arg) v = {0};
  TC_TRY(tc_lex_expect(lx, "["));
  while (!tc_lex_at(lx, "]")) {
    tc_arg one;
    if (tc_lex_at(lx, "[")) return tc_lex_error(lx, "lists of lists are not known");
    TC_TRY(parse_arg(r, want, &one));
    tc_vec_push(arena, &v, one);
    if (!tc_lex_eat(lx, ",")) break;
  }
  TC_TRY(tc_lex_expect(lx, "]"));
  int32_t n = v.count, tensors = 0, ints = 0, floats = 0, bools = 0, texts = 0;
  for (int32_t i = 0; i < n; i++) {
    int32_t k = v.data[i].kind;
    tensors += k == TC_AK_TENSOR || k == TC_AK_NONE, ints += k == TC_AK_INT,
        bools += k == TC_AK_BOOL && !v.data[i].value;
    floats += k == TC_AK_FLOAT && !v.data[i].value, texts += k == TC_AK_STRING;
  }
  *out = (tc_arg){.n = n};
  if (n == 0) {
    static const int32_t empty_kinds[] = {TC_AK_TENSORS, TC_AK_INTS,   TC_AK_FLOATS,
                                          TC_AK_BOOLS,   TC_AK_FLOATS, TC_AK_STRINGS};
    out->kind = want && want->type <= TC_ST_STRING ? empty_kinds[want->type] : TC_AK_INTS;
  } else if (tensors == n) {
    out->kind = TC_AK_TENSORS, out->values = TC_NEW_ARRAY(arena, tc_value *, n);
    for (int32_t i = 0; i < n; i++) out->values[i] = v.data[i].value;
  } else if (ints == n) {
    const tc_sym **e = TC_NEW_ARRAY(arena, const tc_sym *, n);
    for (int32_t i = 0; i < n; i++) e[i] = v.data[i].sym;
    out->kind = TC_AK_INTS, out->syms = e;
  } else if (floats == n) {
    double *e = TC_NEW_ARRAY(arena, double, n);
    for (int32_t i = 0; i < n; i++) e[i] = v.data[i].real;
    out->kind = TC_AK_FLOATS, out->reals = e;
  } else if (bools == n) {
    uint8_t *e = TC_NEW_ARRAY(arena, uint8_t, n);
    for (int32_t i = 0; i < n; i++) e[i] = v.data[i].integer != 0;
    out->kind = TC_AK_BOOLS, out->bools = e;
  } else if (texts == n) {
    tc_sv *e = TC_NEW_ARRAY(arena, tc_sv, n);
    for (int32_t i = 0; i < n; i++) e[i] = v.data[i].text;
    out->kind = TC_AK_STRINGS, out->texts = e;
  } else {
    return tc_lex_error(lx, "the list before this mixes kinds of values");
  }
  return TC_OK;
}

static tc_status parse_word(reader *r, const tc_schema_arg *want, tc_arg *out, bool *found) {
  static const char *const formats[] = {"contiguous_format", "channels_last", "channels_last_3d", "preserve_format"};
  tc_lexer *lx = r->lx;
  *found = true;
  if (tc_lex_eat(lx, "none")) return TC_OK;
  if (tc_lex_eat(lx, "true")) return *out = tc_arg_bool(true), TC_OK;
  if (tc_lex_eat(lx, "false")) return *out = tc_arg_bool(false), TC_OK;
  for (int32_t i = 0; i < 4; i++)
    if (tc_lex_eat(lx, formats[i])) return *out = (tc_arg){.kind = TC_AK_MEMORY_FORMAT, .integer = i + 1}, TC_OK;
  if (tc_lex_eat(lx, "complex")) {
    out->kind = TC_AK_COMPLEX;
    TC_TRY(tc_lex_expect(lx, "("));
    TC_TRY(tc_lex_double(lx, &out->real));
    TC_TRY(tc_lex_expect(lx, ","));
    TC_TRY(tc_lex_double(lx, &out->imag));
    return tc_lex_expect(lx, ")");
  }
  if (tc_lex_eat(lx, "layout")) {
    out->kind = TC_AK_LAYOUT;
    TC_TRY(tc_lex_expect(lx, "("));
    TC_TRY(tc_lex_int(lx, &out->integer));
    return tc_lex_expect(lx, ")");
  }
  if (tc_lex_eat(lx, "device")) {
    out->kind = TC_AK_DEVICE;
    return tc_lex_string(lx, &out->text);
  }
  if (tc_lex_at(lx, "graph")) {
    out->kind = TC_AK_GRAPH;
    return parse_graph(r, &out->graph);
  }
  tc_dtype d = tc_dtype_parse(lx->tok.text);
  if (d != TC_DTYPE_NONE && (!want || want->type == TC_ST_DTYPE || want->type == TC_ST_OTHER)) {
    tc_lex_next(lx);
    return *out = tc_arg_dtype(d), TC_OK;
  }
  if (want && want->type == TC_ST_BOOL) return tc_lex_error(lx, "expected true or false"); // no symbol of that name
  *found = false;
  return TC_OK;
}

static tc_status parse_arg(reader *r, const tc_schema_arg *want, tc_arg *out) {
  tc_lexer *lx = r->lx;
  bool found = false;
  double real;
  *out = tc_arg_none();
  if (lx->tok.kind == TC_TOK_SIGIL) {
    tc_value *v = NULL;
    TC_TRY(parse_value_ref(r, &v));
    *out = (tc_arg){.kind = v->kind == TC_VALUE_FLOAT  ? TC_AK_FLOAT
                            : v->kind == TC_VALUE_BOOL ? TC_AK_BOOL
                                                       : TC_AK_TENSOR,
                    .value = v};
    if (v->kind == TC_VALUE_SYM) *out = tc_arg_sym(v->symbol);
    if (v->kind == TC_VALUE_NONE) *out = tc_arg_none();
    if (v->kind == TC_VALUE_FLOAT) out->real = NAN;
    return TC_OK;
  }
  if (tc_lex_at(lx, "[")) return parse_list(r, want, out);
  if (lx->tok.kind == TC_TOK_STRING) {
    out->kind = want && want->type == TC_ST_DEVICE ? TC_AK_DEVICE : TC_AK_STRING;
    return tc_lex_string(lx, &out->text);
  }
  TC_TRY(try_float(r, &found, &real));
  if (found) return *out = tc_arg_float(real), TC_OK;
  if (lx->tok.kind == TC_TOK_IDENT) {
    TC_TRY(parse_word(r, want, out, &found));
    if (found) return TC_OK;
  }
  out->kind = TC_AK_INT;
  return tc_sym_parse(r->m->syms, lx, &out->sym);
}

// name= in front of an argument: its slot, else `position`.
static tc_status parse_slot(reader *r, const tc_op *op, int32_t position, int32_t *out) {
  tc_lexer save = *r->lx;
  *out = position;
  if (r->lx->tok.kind != TC_TOK_IDENT) return TC_OK;
  tc_sv name = r->lx->tok.text;
  tc_lex_next(r->lx);
  if (!tc_lex_eat(r->lx, "=")) {
    *r->lx = save;
    return TC_OK;
  }
  for (int32_t i = 0; i < op->schema.n_args; i++)
    if (tc_sv_eq(op->schema.args[i].name, name)) return *out = i, TC_OK;
  return tc_lex_error(&save, TC_SV_FMT " has no argument '" TC_SV_FMT "'", TC_SV_ARG(op->full_name), TC_SV_ARG(name));
}

typedef TC_VEC(tc_arg) arg_list;

static tc_status parse_args(reader *r, const tc_op *op, arg_list *args) {
  tc_arena *arena = r->m->arena;
  enum { MAX_ARGS = 4096 };
  TC_VEC(uint8_t) given = {0};
  int32_t position = 0;
  TC_TRY(tc_lex_expect(r->lx, "("));
  while (!tc_lex_at(r->lx, ")")) {
    int32_t slot;
    TC_TRY(parse_slot(r, op, position, &slot));
    if (slot >= MAX_ARGS) return tc_lex_error(r->lx, "more than %d arguments", MAX_ARGS);
    if (slot >= op->schema.n_args && !op->schema.varargs)
      return tc_lex_error(r->lx, TC_SV_FMT " takes %d arguments", TC_SV_ARG(op->full_name), op->schema.n_args);
    while (args->count <= slot) {
      int32_t i = args->count;
      tc_arg preset = i < op->schema.n_args && op->schema.args[i].has_default
                          ? tc_arg_of_preset(r->m, &op->schema.args[i].preset)
                          : tc_arg_none();
      tc_vec_push(arena, args, preset);
      tc_vec_push(arena, &given, 0);
    }
    if (given.data[slot]) return tc_lex_error(r->lx, "this argument is given twice");
    given.data[slot] = 1;
    TC_TRY(parse_arg(r, slot < op->schema.n_args ? &op->schema.args[slot] : NULL, &args->data[slot]));
    position = slot + 1;
    if (!tc_lex_eat(r->lx, ",")) break;
  }
  return tc_lex_expect(r->lx, ")");
}

// ---- nodes ----
static tc_status parse_op_name(reader *r, const tc_op **out) {
  tc_lexer at = *r->lx;
  tc_sv ns, name, overload = {0};
  TC_TRY(tc_lex_ident(r->lx, &ns));
  TC_TRY(tc_lex_expect(r->lx, "::"));
  TC_TRY(tc_lex_ident(r->lx, &name));
  if (tc_lex_eat(r->lx, ".")) TC_TRY(tc_lex_ident(r->lx, &overload));
  tc_sv full = tc_sv_printf(r->m->arena, TC_SV_FMT "::" TC_SV_FMT "%s" TC_SV_FMT, TC_SV_ARG(ns), TC_SV_ARG(name),
                            overload.size ? "." : "", TC_SV_ARG(overload));
  *out = tc_op_find(r->m->ops, full);
  if (*out) return TC_OK;
  tc_status s = tc_op_find_target(r->m->ops, full, out);
  tc_status located = tc_lex_error(&at, "%s", tc_status_text(s));
  tc_status_free(s);
  return located;
}

static tc_status define(reader *r, tc_value *v, tc_sv name) {
  bool fresh;
  tc_map_entry *e = tc_map_put(r->values, name, &fresh);
  if (!fresh) return tc_lex_error(r->lx, "%%" TC_SV_FMT " is defined twice", TC_SV_ARG(name));
  e->value.ptr = v;
  return TC_OK;
}

static tc_status at_declaration(reader *r, const declared *d, tc_status s) {
  return tc_status_note(s, "at " TC_SV_FMT ":%d:%d, the type of %%" TC_SV_FMT, TC_SV_ARG(r->lx->name), d->line,
                        d->column, TC_SV_ARG(d->name));
}

static tc_status apply_declaration(reader *r, tc_value *v, const declared *d) {
  if (!d->typed) return TC_OK;
  if (d->kind != v->kind)
    return at_declaration(r, d, tc_error(TC_STATUS_INVALID_ARGUMENT, "the op gives another kind of value"));
  if (d->kind == TC_VALUE_SYM) {
    if (d->symbol->kind != TC_SYM_SYMBOL)
      return at_declaration(r, d, tc_error(TC_STATUS_INVALID_ARGUMENT, "a result is a symbol"));
    v->symbol = d->symbol;
  }
  if (d->kind != TC_VALUE_TENSOR) return TC_OK;
  tc_status s = tc_types_agree(r->m, &d->type, &v->type);
  if (s) return at_declaration(r, d, s);
  tc_value_set_type(v, &d->type);
  return TC_OK;
}

static tc_status parse_node(reader *r) {
  tc_lexer *lx = r->lx;
  TC_VEC(declared) results = {0};
  const tc_op *op;
  arg_list args = {0};
  while (lx->tok.kind == TC_TOK_SIGIL) {
    declared d = {.line = lx->tok.line, .column = lx->tok.column};
    TC_TRY(tc_lex_sigil(lx, '%', &d.name));
    if (tc_lex_eat(lx, ":")) TC_TRY(parse_value_type(r, &d));
    tc_vec_push(r->m->arena, &results, d);
    if (!tc_lex_eat(lx, ",")) break;
  }
  if (results.count) TC_TRY(tc_lex_expect(lx, "="));
  tc_lexer at = *lx;
  TC_TRY(parse_op_name(r, &op));
  TC_TRY(parse_args(r, op, &args));
  int64_t inplace = -1;
  tc_sv source = {0};
  if (tc_lex_eat(lx, "inplace")) TC_TRY(tc_lex_int(lx, &inplace));
  if (tc_lex_eat(lx, "@")) TC_TRY(tc_lex_string(lx, &source));
  tc_node *n;
  tc_sv hint = results.count == 1 ? results.data[0].name : op->schema.name;
  tc_status made;
  if (op->declared) {
    tc_declared_result *types = TC_NEW_ARRAY(r->m->arena, tc_declared_result, results.count);
    for (int32_t i = 0; i < results.count; i++) {
      const declared *d = &results.data[i];
      if (!d->typed || d->kind == TC_VALUE_TOKEN || d->kind == TC_VALUE_NONE)
        return tc_lex_error(&at, "only its schema is known of " TC_SV_FMT ": its results need types",
                            TC_SV_ARG(op->full_name));
      types[i] = (tc_declared_result){d->kind, d->type, d->symbol};
    }
    made = tc_graph_add_declared_node(r->g, op, args.count, args.data, results.count, types, hint, source, &n);
  } else {
    made = tc_graph_add_node(r->g, NULL, op, args.count, args.data, hint, source, &n);
  }
  if (made) return tc_status_note(made, "at " TC_SV_FMT ":%d:%d", TC_SV_ARG(lx->name), at.tok.line, at.tok.column);
  if (n->n_results != results.count)
    return tc_lex_error(&at, TC_SV_FMT " has %d results, %d are named", TC_SV_ARG(op->full_name), n->n_results,
                        results.count);
  if (inplace < -1 || inplace >= n->n_args || (inplace >= 0 && n->args[inplace].kind != TC_AK_TENSOR))
    return tc_lex_error(&at, "inplace %lld is no tensor argument", (long long)inplace);
  n->inplace = (int32_t)inplace;
  // What the op calls its results must not be in the way of the text's own names.
  for (int32_t i = 0; i < results.count; i++)
    if (!tc_sv_eq(n->results[i]->name, results.data[i].name)) tc_value_give_up_name(n->results[i]);
  for (int32_t i = 0; i < results.count; i++) {
    TC_TRY(apply_declaration(r, n->results[i], &results.data[i]));
    TC_TRY(define(r, n->results[i], results.data[i].name));
    tc_value_set_name(r->g, n->results[i], results.data[i].name);
  }
  return TC_OK;
}

// ---- inputs, outputs, symbols ----
static tc_status parse_word_of(reader *r, const char *const *words, int32_t n, const char *what, int32_t *out) {
  for (*out = 0; *out < n; ++*out)
    if (tc_lex_eat(r->lx, words[*out])) return TC_OK;
  return tc_lex_error(r->lx, "expected the kind of %s", what);
}

static tc_status parse_input(reader *r) {
  static const char *const kinds[] = {"user", "parameter", "buffer", "constant", "token", "operand"};
  tc_lexer *lx = r->lx;
  declared d = {0};
  tc_arg constant = tc_arg_none();
  bool is_const = tc_lex_eat(lx, "const");
  if (is_const) {
    TC_TRY(tc_lex_expect(lx, "("));
    TC_TRY(parse_arg(r, NULL, &constant));
    TC_TRY(tc_lex_expect(lx, ")"));
  } else {
    TC_TRY(tc_lex_sigil(lx, '%', &d.name));
    TC_TRY(tc_lex_expect(lx, ":"));
    TC_TRY(parse_value_type(r, &d));
  }
  int32_t kind;
  tc_sv target;
  TC_TRY(tc_lex_expect(lx, "="));
  TC_TRY(parse_word_of(r, kinds, 6, "an input", &kind));
  TC_TRY(tc_lex_string(lx, &target));
  if (is_const) {
    tc_graph_add_constant_input(r->g, kind, target, constant);
  } else {
    tc_value *v = d.kind == TC_VALUE_TENSOR ? tc_graph_add_input(r->g, kind, d.name, target, &d.type)
                                            : tc_graph_add_number_input(r->g, kind, d.name, target, d.kind, d.symbol);
    TC_TRY(define(r, v, d.name));
  }
  tc_vec_last(&r->g->inputs).persistent = tc_lex_eat(lx, "persistent");
  return TC_OK;
}

static tc_status parse_outputs(reader *r) {
  static const char *const kinds[] = {"user", "buffer", "input", "parameter", "token", "loss"};
  tc_lexer *lx = r->lx;
  TC_TRY(tc_lex_expect(lx, "return"));
  if (tc_lex_at(lx, "}")) return TC_OK;
  do {
    int32_t kind;
    tc_sv target = {0};
    tc_arg arg;
    TC_TRY(parse_word_of(r, kinds, 6, "an output", &kind));
    if (lx->tok.kind == TC_TOK_STRING) {
      TC_TRY(tc_lex_string(lx, &target));
      if (tc_lex_at(lx, ",") || tc_lex_at(lx, "}")) { // a lone string is the output itself
        tc_graph_add_output(r->g, kind, tc_arg_string(target), (tc_sv){0});
        continue;
      }
    }
    TC_TRY(parse_arg(r, NULL, &arg));
    tc_graph_add_output(r->g, kind, arg, target);
  } while (tc_lex_eat(lx, ","));
  return TC_OK;
}

static tc_status parse_bound(tc_lexer *lx, int64_t *out) {
  bool minus = tc_lex_eat(lx, "-");
  if (tc_lex_eat(lx, "inf")) *out = TC_SYM_INF;
  else TC_TRY(tc_lex_int(lx, out));
  if (minus) *out = -*out;
  return TC_OK;
}

// What a list says of its symbols and of conditions between them, held back until all of it is read.
typedef struct bounds {
  const tc_sym *symbol;
  int64_t lo, hi, divisor;
} bounds;

typedef struct requirement {
  const tc_sym *condition;
  tc_lexer place; // behind it
} requirement;

typedef struct symbol_list {
  TC_VEC(bounds) bounds;
  TC_VEC(requirement) requirements;
} symbol_list;

static tc_status parse_symbol(tc_module *m, tc_lexer *lx, symbol_list *list) {
  tc_sv name;
  if (tc_lex_eat(lx, "require")) {
    const tc_sym *e;
    TC_TRY(tc_sym_parse(m->syms, lx, &e));
    tc_vec_push(m->arena, &list->requirements, ((requirement){e, *lx}));
    return TC_OK;
  }
  TC_TRY(tc_lex_ident(lx, &name));
  const tc_sym *symbol = tc_sym_symbol(m->syms, name);
  bool fixed = tc_sym_is_const(symbol); // the list says what the number must be
  tc_sym_info plain = {.lo = -TC_SYM_INF, .hi = TC_SYM_INF, .divisor = 1};
  tc_sym_info *info = fixed ? &plain : tc_sym_info_of(m->syms, symbol);
  bounds b = {symbol, info->lo, info->hi, info->divisor};
  if (tc_lex_eat(lx, "unbacked")) info->origin = TC_SYM_UNBACKED;
  if (tc_lex_eat(lx, "in")) {
    TC_TRY(tc_lex_expect(lx, "["));
    TC_TRY(parse_bound(lx, &b.lo));
    TC_TRY(tc_lex_expect(lx, ","));
    TC_TRY(parse_bound(lx, &b.hi));
    TC_TRY(tc_lex_expect(lx, "]"));
    if (b.lo > b.hi) return tc_lex_error(lx, "the range of '" TC_SV_FMT "' is empty", TC_SV_ARG(name));
  }
  if (tc_lex_eat(lx, "div")) {
    TC_TRY(tc_lex_int(lx, &b.divisor));
    if (b.divisor < 1) return tc_lex_error(lx, "a divisor is at least 1");
  }
  if (tc_lex_eat(lx, "hint")) TC_TRY(tc_lex_int(lx, &info->hint));
  if (!fixed) {
    tc_vec_push(m->arena, &list->bounds, b);
    return TC_OK;
  }
  if (plain.origin == TC_SYM_UNBACKED)
    return tc_lex_error(lx, "the size " TC_SV_FMT " comes from data", TC_SV_ARG(name));
  if (symbol->value % b.divisor)
    return tc_lex_error(lx, TC_SV_FMT " = %lld is no multiple of %lld", TC_SV_ARG(name), (long long)symbol->value,
                        (long long)b.divisor);
  if (symbol->value < b.lo || symbol->value > b.hi)
    return tc_lex_error(lx, TC_SV_FMT " = %lld lies outside of [%lld, %lld]", TC_SV_ARG(name), (long long)symbol->value,
                        (long long)b.lo, (long long)b.hi);
  return TC_OK;
}

static tc_status require(tc_module *m, const requirement *r) {
  if (tc_sym_is_int(tc_sym_simplify(m->syms, r->condition), 0))
    return tc_lex_error(&r->place, "this condition holds for no such sizes");
  tc_module_require(m, r->condition);
  for (int32_t i = 0; i < tc_sym_symbol_count(m->syms); i++) {
    const tc_sym_info *info = tc_sym_info_read(m->syms, tc_sym_symbol_at(m->syms, i));
    if (info->lo > info->hi)
      return tc_lex_error(&r->place, "the conditions leave no value for '" TC_SV_FMT "'", TC_SV_ARG(info->name));
  }
  return TC_OK;
}

tc_status tc_symbols_parse(tc_module *m, tc_lexer *lx) {
  if (!tc_lex_eat(lx, "[")) return TC_OK;
  // Conditions are built before anything is known: one that follows from a range or a divisor would vanish, and inputs
  // would no longer be checked for it.
  symbol_list list = {0};
  do TC_TRY(parse_symbol(m, lx, &list));
  while (tc_lex_eat(lx, ","));
  for (int32_t i = 0; i < list.bounds.count; i++) {
    const bounds *b = &list.bounds.data[i];
    tc_sym_info *info = tc_sym_info_of(m->syms, b->symbol);
    info->lo = b->lo, info->hi = b->hi, info->divisor = b->divisor;
  }
  for (int32_t i = 0; i < list.requirements.count; i++) TC_TRY(require(m, &list.requirements.data[i]));
  return tc_lex_expect(lx, "]");
}

// 'check' condition "text" '[' values ']'
static tc_status parse_check(reader *r) {
  tc_lexer *lx = r->lx;
  tc_check c = {0};
  TC_VEC(const tc_sym *) values = {0};
  TC_TRY(tc_sym_parse(r->m->syms, lx, &c.condition));
  TC_TRY(tc_lex_string(lx, &c.text));
  TC_TRY(tc_lex_expect(lx, "["));
  while (!tc_lex_at(lx, "]")) {
    const tc_sym *e;
    TC_TRY(tc_sym_parse(r->m->syms, lx, &e));
    tc_vec_push(r->m->arena, &values, e);
    if (!tc_lex_eat(lx, ",")) break;
  }
  c.n = values.count, c.values = values.data;
  tc_graph_add_check(r->g, &c);
  return tc_lex_expect(lx, "]");
}

static tc_status parse_inputs(reader *r) {
  TC_TRY(tc_lex_expect(r->lx, "("));
  while (!tc_lex_at(r->lx, ")")) {
    TC_TRY(tc_lex_eat(r->lx, "check") ? parse_check(r) : parse_input(r));
    if (!tc_lex_eat(r->lx, ",")) break;
  }
  return tc_lex_expect(r->lx, ")");
}

tc_status tc_signature_parse(tc_module *m, tc_lexer *lx, tc_sv name, tc_graph **out) {
  reader r = {.m = m, .lx = lx, .g = tc_graph_create(m, name), .values = tc_map_create(m->arena)};
  *out = r.g;
  return parse_inputs(&r);
}

static tc_status parse_body(reader *r) {
  tc_lexer *lx = r->lx;
  TC_TRY(tc_symbols_parse(r->m, lx));
  TC_TRY(parse_inputs(r));
  TC_TRY(tc_lex_expect(lx, "{"));
  while (!tc_lex_at(lx, "return")) TC_TRY(parse_node(r));
  TC_TRY(parse_outputs(r));
  return tc_lex_expect(lx, "}");
}

static tc_status parse_graph(reader *outer, tc_graph **out) {
  tc_sv name;
  if (outer->depth >= MAX_DEPTH) return tc_lex_error(outer->lx, "graphs nest at most %d deep", MAX_DEPTH);
  TC_TRY(tc_lex_expect(outer->lx, "graph"));
  TC_TRY(tc_lex_sigil(outer->lx, '@', &name));
  reader r = {.m = outer->m,
              .lx = outer->lx,
              .g = tc_graph_create(outer->m, name),
              .values = tc_map_create(outer->m->arena),
              .depth = outer->depth + 1};
  TC_TRY(parse_body(&r));
  tc_graph_sweep(r.g);
  *out = r.g;
  return TC_OK;
}

tc_status tc_graph_parse(tc_module *m, tc_lexer *lx, tc_graph **out) {
  reader r = {.m = m, .lx = lx};
  *out = NULL;
  return parse_graph(&r, out);
}
