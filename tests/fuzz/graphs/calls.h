// Random calls of any op, good and bad, from schemas alone. A call is an op with a value for each argument of its
// schema; tensors are types here, and become inputs of a graph when the call is built.
//
// Good calls are found by search: values that are often meant (equal sizes, small dimensions, known words) until the
// op's meta function takes them. Bad ones are good ones with a few arguments changed: another dtype, rank, size or
// dimension, a list of another length, a number that no tensor has, another kind of argument, nothing at all.
#ifndef TC_TESTS_FUZZ_GRAPHS_CALLS_H_
#define TC_TESTS_FUZZ_GRAPHS_CALLS_H_

#include <math.h>

#include "core/ir/control.h"
#include "core/ir/op.h"
#include "tests/fuzz/graphs/random.h"

enum { CALL_ARGS = 40, CALL_TENSORS = 6, CALL_RANK = 5 };

typedef struct call_type {
  tc_dtype dtype;
  int32_t rank;
  int64_t sizes[TC_MAX_RANK];
  bool swapped; // column-major
  char layout;  // 'c' channels last, 'g' gaps, 'e' the first dimension repeats one row; 0: dense
  int64_t offset;
  bool absent; // in a list of optional tensors
} call_type;

typedef struct call_arg {
  int32_t n; // tensors; > 0 for TENSOR and TENSORS
  call_type types[CALL_TENSORS];
  tc_arg plain; // its kind holds for all
} call_arg;

typedef struct call {
  const tc_op *op;
  int32_t n_args;
  call_arg args[CALL_ARGS];
} call;

typedef struct call_gen {
  uint64_t state;
  tc_arena *arena;
  tc_sym_ctx *syms;
  bool layouts, offsets; // of all kinds
  const call_type *like; // what they often have in common with, or NULL
  tc_dtype only;         // the dtype that they have in common; NONE: any
  // What the arguments of one call have in common, more often than not.
  tc_dtype dtype;
  int32_t rank;
  int64_t sizes[CALL_RANK];
} call_gen;

static inline uint64_t call_next(call_gen *r) { return fuzz_random(&r->state); }
static inline int32_t call_int(call_gen *r, int32_t n) { return (int32_t)(call_next(r) % (uint64_t)n); }
static inline bool call_chance(call_gen *r, int32_t percent) { return call_int(r, 100) < percent; }

// ---- good values ----
static inline tc_dtype call_dtype(call_gen *r) { return (tc_dtype)(1 + call_int(r, TC_DTYPE_COUNT - 1)); }

static inline void call_start(call_gen *r) {
  static const tc_dtype often[] = {TC_F32, TC_F32, TC_F64, TC_C64, TC_C128, TC_I64, TC_BOOL, TC_F16, TC_BF16, TC_I32};
  r->dtype = call_chance(r, 70) ? often[call_int(r, 10)] : call_dtype(r);
  r->rank = call_chance(r, 85) ? 1 + call_int(r, 4) : call_chance(r, 50) ? 0 : 5;
  int64_t same = 1 + call_int(r, 5);
  bool square = call_chance(r, 40);
  for (int32_t d = 0; d < CALL_RANK; d++)
    r->sizes[d] = square ? same : call_chance(r, 4) ? 0 : call_chance(r, 85) ? 1 + call_int(r, 6) : 7 + call_int(r, 30);
  if (r->only) r->dtype = r->only;
  if (!r->like || call_chance(r, 25)) return;
  r->dtype = r->only ? r->only : r->like->dtype;
  r->rank = r->like->rank;
  for (int32_t d = 0; d < r->rank && d < CALL_RANK; d++) r->sizes[d] = r->like->sizes[d];
}

static inline call_type call_tensor(call_gen *r) {
  call_type t = {.dtype = r->dtype, .rank = r->rank, .swapped = call_chance(r, 15)};
  memcpy(t.sizes, r->sizes, sizeof r->sizes);
  if (call_chance(r, 20)) { // indices, masks, another type
    static const tc_dtype others[] = {TC_I64, TC_I64, TC_BOOL, TC_F32, TC_I32, TC_U8, TC_C64};
    t.dtype = others[call_int(r, 7)];
  }
  if (call_chance(r, 20)) t.rank = call_int(r, CALL_RANK + 1);
  if (call_chance(r, 10) && t.rank) t.sizes[call_int(r, t.rank)] = 1 + call_int(r, 4);
  if (r->layouts && call_chance(r, 50)) t.layout = "cge"[call_int(r, 3)];
  if (r->offsets && call_chance(r, 10)) t.offset = 1 + call_int(r, 5);
  return t;
}

static inline int64_t call_integer(call_gen *r) {
  return call_chance(r, 45)              ? call_int(r, 2)
         : call_chance(r, 60)            ? 1 + call_int(r, 4)
         : r->rank && call_chance(r, 50) ? r->sizes[call_int(r, r->rank < CALL_RANK ? r->rank : CALL_RANK)]
                                         : -1 - call_int(r, 2);
}

static inline tc_arg call_ints(call_gen *r, int32_t n) {
  const tc_sym **e = TC_NEW_ARRAY(r->arena, const tc_sym *, n);
  bool sizes = n <= CALL_RANK && call_chance(r, 30), dims = call_chance(r, 40);
  for (int32_t i = 0; i < n; i++) e[i] = tc_sym_int(r->syms, sizes ? r->sizes[i] : dims ? i : call_integer(r));
  return tc_arg_syms(e, n);
}

// Words that an argument of this name takes, or any.
static inline tc_sv call_word(call_gen *r, tc_sv name) {
  static const char *const words[] = {"mean",   "none",    "floor",    "trunc",    "reflect", "constant", "replicate",
                                      "ij",     "reduced", "sum",      "circular", "nuc",     "fro",      "amax",
                                      "left",   "linear",  "L",        "tanh",     "valid",   "same",     "a b -> b a",
                                      "ij->ji", "ortho",   "complete", "nearest",  "prod",    "lower",    "xy"};
  static const struct {
    const char *name, *words[8];
  } own[] = {{"reduce", {"sum", "prod", "mean", "amax", "amin", "add", "multiply", "max"}},
             {"UPLO", {"L", "U"}},
             {"ord", {"fro", "nuc"}},
             {"p", {"fro", "nuc"}},
             {"rounding_mode", {"floor", "trunc"}},
             {"interpolation", {"linear", "lower", "higher", "midpoint", "nearest"}},
             {"approximate", {"none", "tanh"}},
             {"side", {"left", "right"}},
             {"indexing", {"ij", "xy"}},
             {"mode", {"constant", "reflect", "replicate", "circular", "reduced", "complete", "r"}}};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
    int32_t n = 0;
    while (n < 8 && own[i].words[n]) n++;
    if (tc_sv_is(name, own[i].name) && call_chance(r, 90)) return tc_sv_of(own[i].words[call_int(r, n)]);
  }
  return tc_sv_of(words[call_int(r, sizeof words / sizeof *words)]);
}

static inline call_arg call_number(call_gen *r, bool complex) {
  static const double values[] = {0, 1, 0.5, 2, -1, 3, 1e-3, -0.5};
  int32_t k = call_int(r, complex ? 10 : 9);
  if (k == 9) return (call_arg){.plain = tc_arg_complex(0.5, -1.5)};
  if (k == 8) return (call_arg){.plain = tc_arg_bool(call_chance(r, 50))};
  return (call_arg){.plain = k < 4 ? tc_arg_sym(tc_sym_int(r->syms, call_integer(r)))
                                   : tc_arg_float(values[call_int(r, 8)])};
}

static inline call_arg call_single(call_gen *r, int32_t type, tc_sv name) {
  switch (type) {
  case TC_ST_TENSOR: return (call_arg){.n = 1, .types[0] = call_tensor(r), .plain = {.kind = TC_AK_TENSOR}};
  case TC_ST_INT: return (call_arg){.plain = tc_arg_sym(tc_sym_int(r->syms, call_integer(r)))};
  case TC_ST_FLOAT: return (call_arg){.plain = tc_arg_float((double)call_int(r, 9) / 8)};
  case TC_ST_BOOL: return (call_arg){.plain = tc_arg_bool(call_chance(r, 50))};
  case TC_ST_SCALAR: return call_number(r, true);
  case TC_ST_STRING: return (call_arg){.plain = tc_arg_string(call_word(r, name))};
  case TC_ST_DTYPE: return (call_arg){.plain = tc_arg_dtype(call_chance(r, 50) ? r->dtype : call_dtype(r))};
  case TC_ST_MEMORY_FORMAT: return (call_arg){.plain = {.kind = TC_AK_MEMORY_FORMAT, .integer = 1 + call_int(r, 4)}};
  default: return (call_arg){.plain = tc_arg_none()};
  }
}

static inline call_arg call_value(call_gen *r, const tc_schema_arg *s) {
  if (s->is_optional && call_chance(r, 60)) return (call_arg){.plain = tc_arg_none()};
  if (!s->is_list) return call_single(r, s->type, s->name);
  int32_t n = s->list_size && call_chance(r, 80) ? s->list_size : call_int(r, 4);
  if (!s->list_size && r->rank && call_chance(r, 40)) n = r->rank;
  if (s->type == TC_ST_INT) return (call_arg){.plain = call_ints(r, n)};
  if (s->type == TC_ST_FLOAT || s->type == TC_ST_SCALAR) {
    double *v = TC_NEW_ARRAY(r->arena, double, n);
    for (int32_t i = 0; i < n; i++) v[i] = (double)call_int(r, 9) / 4;
    return (call_arg){.plain = tc_arg_floats(v, n)};
  }
  if (s->type == TC_ST_BOOL) {
    uint8_t *v = TC_NEW_ARRAY(r->arena, uint8_t, n);
    for (int32_t i = 0; i < n; i++) v[i] = call_chance(r, 50);
    return (call_arg){.plain = {.kind = TC_AK_BOOLS, .n = n, .bools = v}};
  }
  if (s->type != TC_ST_TENSOR) return (call_arg){.plain = tc_arg_none()};
  call_arg list = {.n = n < CALL_TENSORS ? n : CALL_TENSORS, .plain = {.kind = TC_AK_TENSORS}};
  for (int32_t i = 0; i < list.n; i++) {
    list.types[i] = call_tensor(r);
    list.types[i].absent = s->elements_optional && call_chance(r, 20);
  }
  return list;
}

// Arguments that have defaults keep them, mostly.
static inline void call_any(call_gen *r, const tc_op *op, call *out) {
  *out = (call){.op = op};
  call_start(r);
  for (int32_t i = 0; i < op->schema.n_args && i < CALL_ARGS; i++) {
    const tc_schema_arg *s = &op->schema.args[i];
    if (s->has_default && call_chance(r, 65)) {
      bool only = true; // nothing behind it is given either
      for (int32_t k = i; k < op->schema.n_args; k++) only &= op->schema.args[k].has_default;
      if (only && call_chance(r, 60)) return;
    }
    out->args[out->n_args++] = call_value(r, s);
  }
}

// ---- changes ----
static inline int64_t call_odd_integer(call_gen *r) {
  static const int64_t odd[] = {-1,  0,   1,    2,     -2,        5,         -5,        6,         -6,     64,
                                -64, 100, -100, 65536, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 1 << 30};
  return odd[call_int(r, sizeof odd / sizeof *odd)];
}

static inline void call_change_type(call_gen *r, call_type *t) {
  switch (call_int(r, 5)) {
  case 0: t->dtype = call_dtype(r); break;
  case 1: t->rank = call_int(r, CALL_RANK + 2); break;
  case 2: t->rank = t->rank > 0 ? t->rank - 1 : 1; break;
  case 3: t->rank = t->rank < TC_MAX_RANK - 1 ? t->rank + 1 : 0; break;
  default:
    if (t->rank) t->sizes[call_int(r, t->rank)] = call_int(r, 9);
  }
}

static inline void call_change_plain(call_gen *r, tc_arg *g) {
  static const double odd[] = {0, -1, 1e30, -1e30, INFINITY, -INFINITY, NAN, 0.5, 1e-30};
  const tc_sym **e;
  switch (g->kind) {
  case TC_AK_INT: *g = tc_arg_sym(tc_sym_int(r->syms, call_odd_integer(r))); break;
  case TC_AK_FLOAT: *g = tc_arg_float(odd[call_int(r, 9)]); break;
  case TC_AK_BOOL: *g = tc_arg_bool(!g->integer); break;
  case TC_AK_STRING: *g = tc_arg_string(call_chance(r, 30) ? TC_SV("") : call_word(r, TC_SV(""))); break;
  case TC_AK_DTYPE: *g = tc_arg_dtype(call_dtype(r)); break;
  case TC_AK_INTS: {
    int32_t n = call_chance(r, 50) ? g->n : call_int(r, 7);
    e = TC_NEW_ARRAY(r->arena, const tc_sym *, n + 1);
    for (int32_t i = 0; i < n; i++)
      e[i] = i < g->n ? g->syms ? g->syms[i] : tc_sym_int(r->syms, g->integers[i]) : tc_sym_int(r->syms, 1);
    if (n) e[call_int(r, n)] = tc_sym_int(r->syms, call_odd_integer(r));
    *g = tc_arg_syms(e, n);
    break;
  }
  default: *g = tc_arg_none();
  }
}

static inline void call_change(call_gen *r, call *c) {
  for (int32_t k = 1 + call_int(r, 2); k > 0 && c->n_args; k--) {
    call_arg *a = &c->args[call_int(r, c->n_args)];
    if (call_chance(r, 8)) *a = call_single(r, call_int(r, TC_ST_OTHER), TC_SV("")); // another kind
    else if (call_chance(r, 4)) *a = (call_arg){.plain = tc_arg_none()};
    else if (a->plain.kind == TC_AK_TENSORS && a->n && call_chance(r, 15)) a->n = call_int(r, a->n + 1);
    else if (a->n) call_change_type(r, &a->types[call_int(r, a->n)]);
    else call_change_plain(r, &a->plain);
  }
  if (call_chance(r, 3) && c->n_args) c->n_args--;
}

// ---- building ----
static inline tc_value *call_input(tc_graph *g, const call_type *t) {
  tc_sym_ctx *c = g->module->syms;
  const tc_sym *sizes[TC_MAX_RANK], *strides[TC_MAX_RANK], *step = tc_sym_int(c, 1);
  for (int32_t d = 0; d < t->rank; d++) sizes[d] = tc_sym_int(c, t->sizes[d]);
  bool last = t->layout == 'c' && t->rank > 2;
  for (int32_t i = 0; i < t->rank; i++) {
    int32_t d = last ? i == 0 ? 1 : i == t->rank - 1 ? 0 : t->rank - i : t->swapped ? i : t->rank - 1 - i;
    strides[d] = step;
    step = tc_sym_int(c, step->value * (t->sizes[d] > 1 ? t->sizes[d] : 1) * (t->layout == 'g' && i == 0 ? 2 : 1));
  }
  if (t->layout == 'e' && t->rank) strides[0] = tc_sym_int(c, 0);
  tc_tensor_type type = {
      .dtype = t->dtype, .rank = t->rank, .sizes = sizes, .strides = strides, .offset = tc_sym_int(c, t->offset)};
  tc_sv name = tc_sv_printf(g->module->arena, "x%d", g->inputs.count);
  return tc_graph_add_input(g, TC_IN_USER, name, name, &type);
}

// The graph's arguments of the call, as graph inputs.
static inline void call_arguments(tc_graph *g, const call *c, tc_arg *out) {
  for (int32_t i = 0; i < c->n_args; i++) {
    const call_arg *a = &c->args[i];
    out[i] = a->plain;
    if (a->plain.kind == TC_AK_TENSOR) out[i] = tc_arg_tensor(call_input(g, &a->types[0]));
    if (a->plain.kind != TC_AK_TENSORS) continue;
    tc_value **v = TC_NEW_ARRAY(g->module->arena, tc_value *, a->n);
    for (int32_t k = 0; k < a->n; k++) v[k] = a->types[k].absent ? NULL : call_input(g, &a->types[k]);
    out[i] = tc_arg_tensors(v, a->n);
  }
}

static inline tc_status call_build(tc_graph *g, const call *c, tc_node **out) {
  tc_arg args[CALL_ARGS];
  call_arguments(g, c, args);
  return tc_graph_add_node(g, NULL, c->op, c->n_args, args, TC_SV("r"), TC_SV("model.py:1 r = call()"), out);
}

// A graph of the call with its results as outputs.
static inline tc_status call_graph(tc_module *m, const call *c, tc_graph **out) {
  tc_node *n;
  tc_graph *g = *out = tc_graph_create(m, TC_SV("f"));
  TC_TRY(call_build(g, c, &n));
  for (int32_t i = 0; i < n->n_results; i++) {
    tc_value *v = n->results[i];
    if (v->kind == TC_VALUE_TENSOR)
      tc_graph_add_output(g, TC_OUT_USER, tc_arg_tensor(v), tc_sv_printf(m->arena, "o%d", i));
  }
  tc_graph_sweep(g);
  return TC_OK;
}

// ---- limits ----
// Do inputs and outputs have `most` elements at most, together?
static inline bool call_small(const tc_graph *g, int64_t most) {
  int64_t total = 0;
  for (int32_t i = 0; i < g->inputs.count + g->outputs.count; i++) {
    const tc_value *v = i < g->inputs.count ? g->inputs.data[i].value : g->outputs.data[i - g->inputs.count].arg.value;
    int64_t n = 1, reach = 1; // elements, and what their strides span
    for (int32_t d = 0; d < v->type.rank; d++) {
      int64_t size = tc_sym_is_const(v->type.sizes[d]) ? v->type.sizes[d]->value : 0,
              stride = tc_sym_is_const(v->type.strides[d]) ? v->type.strides[d]->value : 0;
      if (size > most) return false;
      n *= size;
      if (size > 1 && stride > most) return false;
      reach += size > 1 ? (size - 1) * stride : 0;
      if (n > most || reach > most) return false;
    }
    total += n;
  }
  return total <= most;
}

// Sizes and counts that are no tensor's: how often a loop turns.
static inline bool call_modest(const call *c, int64_t most) {
  for (int32_t i = 0; i < c->n_args && i < c->op->schema.n_args; i++) {
    const tc_arg *g = &c->args[i].plain;
    if (c->op->schema.args[i].type != TC_ST_INT || g->kind != TC_AK_INT) continue;
    if (g->sym->value > most || g->sym->value < -most) return false;
  }
  return true;
}

// Ops whose arguments cannot be made of schemas: regions.
static inline bool call_possible(const tc_op *op) {
  return tc_op_control(op) == TC_CONTROL_NONE && !op->schema.varargs && op->schema.n_args <= CALL_ARGS;
}

#endif
