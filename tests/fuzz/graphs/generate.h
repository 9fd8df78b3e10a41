// Random small graphs: pointwise work, reductions, softmax and norms, products, views, broadcasting, concatenation,
// pads, gathers; sizes 0, 1, primes and powers of two ± 1, some of them symbols; inputs with permuted or gapped
// strides.
//
// Values are kept such that results can be compared: inputs are small integers, and each value remembers whether it is
// exact (a function of integers that no order of evaluation changes) and a bound. What breaks continuity (comparisons,
// floor, gathers) is only applied to exact values; exp and products only where bounds allow.
#ifndef TC_TESTS_FUZZ_GRAPHS_GENERATE_H_
#define TC_TESTS_FUZZ_GRAPHS_GENERATE_H_

#include <math.h>

#include "core/ir/op.h"
#include "tests/fuzz/graphs/random.h"

enum { GEN_MOST = 64 };

typedef struct gen_value {
  tc_value *v;
  bool exact;
  double bound; // of magnitude
} gen_value;

typedef struct gen {
  uint64_t state;
  tc_module *m;
  tc_graph *g;
  tc_arena *arena;
  gen_value values[GEN_MOST];
  int32_t n;
  const tc_sym *symbols[3]; // sizes that are symbols
  int32_t n_symbols;
  int64_t most; // elements
  bool halves;  // 16-bit floats occur
  bool zeros;   // empty tensors may occur
} gen;

static inline uint64_t gen_next(gen *r) { return fuzz_random(&r->state); }
static inline int32_t gen_int(gen *r, int32_t n) { return n > 0 ? (int32_t)(gen_next(r) % (uint64_t)n) : 0; }
static inline bool gen_chance(gen *r, int32_t percent) { return gen_int(r, 100) < percent; }

static inline int64_t gen_hint(gen *r, const tc_sym *e) { return tc_sym_hint_or(r->m->syms, e, 1); }
static inline int64_t gen_numel(gen *r, const tc_tensor_type *t) {
  int64_t n = 1;
  for (int32_t d = 0; d < t->rank; d++) n *= gen_hint(r, t->sizes[d]);
  return n;
}

static inline const tc_sym *gen_size(gen *r, int64_t most) {
  static const int32_t sizes[] = {1,  1,  2,  3,  3,  4,  5,  7,   8,   9,   11,  13,  15,  16,   17,   23,
                                  31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 255, 257, 1000, 1024, 4099};
  if (r->n_symbols && gen_chance(r, 35)) {
    const tc_sym *s = r->symbols[gen_int(r, r->n_symbols)];
    if (gen_hint(r, s) <= most) return s;
  }
  if (r->zeros && gen_chance(r, 8)) return tc_sym_int(r->m->syms, 0);
  for (;;) {
    int32_t n = sizes[gen_int(r, sizeof sizes / sizeof *sizes)];
    if (n <= most) return tc_sym_int(r->m->syms, n);
  }
}

// ---- values ----
static inline void gen_keep(gen *r, tc_value *v, bool exact, double bound) {
  if (r->n < GEN_MOST) r->values[r->n++] = (gen_value){v, exact, bound};
}

static inline double gen_limit(tc_dtype d) {
  return d == TC_BF16 ? 250 : d == TC_F16 ? 2000 : tc_dtype_is_float(d) ? 4e6 : d == TC_I32 ? 1e9 : 1e12;
}

static inline gen_value gen_input(gen *r, tc_dtype d, int32_t rank, const tc_sym *const *sizes) {
  tc_sym_ctx *c = r->m->syms;
  const tc_sym *strides[TC_MAX_RANK];
  int32_t order[TC_MAX_RANK];
  for (int32_t i = 0; i < rank; i++) order[i] = i;
  if (gen_chance(r, 25)) {
    for (int32_t i = rank - 1; i > 0; i--) {
      int32_t k = gen_int(r, i + 1), t = order[i];
      order[i] = order[k];
      order[k] = t;
    }
  }
  const tc_sym *step = tc_sym_int(c, gen_chance(r, 8) ? 2 : 1);
  for (int32_t i = rank - 1; i >= 0; i--) {
    strides[order[i]] = step;
    step = tc_sym_mul(c, step, tc_sym_max(c, sizes[order[i]], tc_sym_int(c, 1)));
    if (gen_chance(r, 4)) step = tc_sym_addi(c, step, 3);
  }
  tc_tensor_type t = {
      .dtype = d, .rank = rank, .sizes = sizes, .strides = strides, .offset = tc_sym_int(c, gen_chance(r, 10) ? 5 : 0)};
  tc_sv name = tc_sv_printf(r->arena, "x%d", r->g->inputs.count);
  tc_value *v = tc_graph_add_input(r->g, TC_IN_USER, name, name, &t);
  gen_keep(r, v, true, d == TC_BOOL ? 1 : 3);
  return r->values[r->n - 1];
}

static inline tc_dtype gen_dtype(gen *r) {
  int32_t k = gen_int(r, 100);
  if (r->halves && k < 25) return k < 12 ? TC_F16 : TC_BF16;
  return k < 75 ? TC_F32 : k < 83 ? TC_F64 : k < 90 ? TC_I64 : k < 95 ? TC_I32 : TC_BOOL;
}

static inline gen_value gen_pick(gen *r) {
  int32_t k = gen_chance(r, 60) && r->n > 4 ? r->n - 1 - gen_int(r, 4) : gen_int(r, r->n); // recent ones more often
  return r->values[k];
}
static inline gen_value gen_pick_float(gen *r) {
  for (int32_t i = 0; i < 20; i++) {
    gen_value v = gen_pick(r);
    if (tc_dtype_is_float(v.v->type.dtype)) return v;
  }
  return (gen_value){0};
}

// Makes a node; NULL if the op does not exist or refuses.
static inline tc_node *gen_node(gen *r, const char *op, int32_t n, const tc_arg *args) {
  const tc_op *o = tc_op_find(r->m->ops, tc_sv_of(op));
  if (!o) return NULL;
  tc_node *node;
  tc_status s = tc_graph_add_node(r->g, NULL, o, n, args, tc_sv_printf(r->arena, "v%d", r->n), (tc_sv){0}, &node);
  if (s != TC_OK) {
    tc_status_free(s);
    return NULL;
  }
  int64_t size = gen_numel(r, &node->results[0]->type);
  if (node->results[0]->kind != TC_VALUE_TENSOR || size > r->most) {
    tc_node_kill(node);
    return NULL;
  }
  return node;
}

static inline tc_arg gen_i(gen *r, int64_t v) { return tc_arg_sym(tc_sym_int(r->m->syms, v)); }
static inline tc_arg gen_list(gen *r, int32_t n, const int64_t *v) {
  const tc_sym **e = TC_NEW_ARRAY(r->arena, const tc_sym *, n);
  for (int32_t i = 0; i < n; i++) e[i] = tc_sym_int(r->m->syms, v[i]);
  return tc_arg_syms(e, n);
}

static inline tc_arg gen_syms(gen *r, int32_t n, const tc_sym *const *v) {
  return tc_arg_syms(tc_arena_copy(r->arena, v, (size_t)n * sizeof *v), n);
}

// A value that broadcasts with v: another one, or a new input.
static inline gen_value gen_partner(gen *r, gen_value v, tc_dtype d) {
  const tc_tensor_type *t = &v.v->type;
  for (int32_t i = 0; i < 6 && gen_chance(r, 75); i++) {
    gen_value w = gen_pick(r);
    const tc_tensor_type *u = &w.v->type;
    bool fits = (d == TC_DTYPE_NONE || u->dtype == d);
    for (int32_t k = 1; k <= t->rank && k <= u->rank && fits; k++) {
      const tc_sym *a = t->sizes[t->rank - k], *b = u->sizes[u->rank - k];
      fits = a == b || tc_sym_is_int(a, 1) || tc_sym_is_int(b, 1);
    }
    if (fits) return w;
  }
  const tc_sym *sizes[TC_MAX_RANK];
  int32_t drop = gen_chance(r, 40) ? gen_int(r, t->rank + 1) : 0, rank = t->rank - drop;
  for (int32_t k = 0; k < rank; k++) sizes[k] = gen_chance(r, 25) ? tc_sym_int(r->m->syms, 1) : t->sizes[k + drop];
  return gen_input(r, d ? d : t->dtype, rank, sizes);
}

// ---- steps: each tries to add something; false if it could not ----
static inline bool gen_unary(gen *r) {
  static const struct {
    const char *op;
    bool exact, any;  // keeps exactness; takes integers
    double most, out; // largest bound it takes; bound of the result (0: the same)
  } ops[] = {{"aten::neg", true, true, 1e300, 0},  {"aten::abs", true, true, 1e300, 0},
             {"aten::relu", true, true, 1e300, 0}, {"aten::exp", false, false, 5, 150},
             {"aten::tanh", false, false, 1e4, 1}, {"aten::sigmoid", false, false, 1e4, 1},
             {"aten::sin", false, false, 100, 1},  {"aten::gelu", false, false, 1e4, 0},
             {"aten::silu", false, false, 1e4, 0}, {"aten::floor", true, false, 1e300, 0},
             {"aten::sign", true, true, 1e300, 1}, {"aten::atan", false, false, 1e4, 2}};
  int32_t k = gen_int(r, sizeof ops / sizeof *ops);
  gen_value v = ops[k].any ? gen_pick(r) : gen_pick_float(r);
  if (!v.v || v.v->type.dtype == TC_BOOL || v.bound > ops[k].most) return false;
  bool breaks = tc_sv_is(tc_sv_of(ops[k].op), "aten::floor") || tc_sv_is(tc_sv_of(ops[k].op), "aten::sign");
  if (breaks && !v.exact) return false;
  tc_node *n = gen_node(r, ops[k].op, 1, (tc_arg[]){tc_arg_tensor(v.v)});
  if (n) gen_keep(r, n->results[0], v.exact && ops[k].exact, ops[k].out != 0 ? ops[k].out : v.bound);
  return n != NULL;
}

static inline bool gen_scalar(gen *r) {
  gen_value v = gen_pick(r);
  if (v.v->type.dtype == TC_BOOL) return false;
  bool mul = gen_chance(r, 50), half = tc_dtype_is_float(v.v->type.dtype) && gen_chance(r, 40);
  int64_t k = gen_int(r, 5) - 2;
  double f = half ? (double)k / 2 : (double)k, bound = mul ? v.bound * fabs(f) : v.bound + fabs(f);
  if (bound > gen_limit(v.v->type.dtype)) return false;
  tc_arg args[3] = {tc_arg_tensor(v.v), half ? tc_arg_float(f) : gen_i(r, k)};
  tc_node *n = gen_node(r, mul ? "aten::mul.Scalar" : "aten::add.Scalar", 2, args);
  bool exact = v.exact && !half && v.v->type.dtype != TC_BF16 && v.v->type.dtype != TC_F16;
  if (n) gen_keep(r, n->results[0], exact, bound);
  return n != NULL;
}

static inline bool gen_binary(gen *r) {
  static const char *const ops[] = {"aten::add.Tensor", "aten::sub.Tensor", "aten::mul.Tensor", "aten::maximum",
                                    "aten::minimum"};
  int32_t k = gen_int(r, 5);
  gen_value a = gen_pick(r), b = gen_partner(r, a, gen_chance(r, 80) ? a.v->type.dtype : TC_DTYPE_NONE);
  bool bools = a.v->type.dtype == TC_BOOL || b.v->type.dtype == TC_BOOL;
  double bound = k < 2 ? a.bound + b.bound : k == 2 ? a.bound * b.bound : fmax(a.bound, b.bound);
  if (bools && k == 1) return false;
  if (gen_chance(r, 50)) {
    gen_value t = a;
    a = b;
    b = t;
  }
  tc_node *n = gen_node(r, ops[k], 2, (tc_arg[]){tc_arg_tensor(a.v), tc_arg_tensor(b.v)});
  if (!n) return false;
  tc_dtype d = n->results[0]->type.dtype;
  if (bound > gen_limit(d)) {
    tc_node_kill(n);
    return false;
  }
  gen_keep(r, n->results[0], a.exact && b.exact, d == TC_BOOL ? 1 : bound);
  return true;
}

static inline bool gen_divide(gen *r) {
  gen_value a = gen_pick_float(r);
  if (!a.v) return false;
  gen_value b = gen_partner(r, a, a.v->type.dtype);
  tc_node *n = gen_node(r, "aten::abs", 1, (tc_arg[]){tc_arg_tensor(b.v)});
  if (n) n = gen_node(r, "aten::add.Scalar", 2, (tc_arg[]){tc_arg_tensor(n->results[0]), gen_i(r, 1)});
  if (n) n = gen_node(r, "aten::div.Tensor", 2, (tc_arg[]){tc_arg_tensor(a.v), tc_arg_tensor(n->results[0])});
  if (n) gen_keep(r, n->results[0], false, a.bound);
  return n != NULL;
}

static inline bool gen_compare(gen *r) {
  static const char *const ops[] = {"aten::lt.Tensor", "aten::ge.Tensor", "aten::eq.Tensor", "aten::ne.Tensor"};
  gen_value a = gen_pick(r);
  if (!a.exact) return false;
  gen_value b = gen_partner(r, a, a.v->type.dtype);
  if (!b.exact) return false;
  tc_node *n = gen_node(r, ops[gen_int(r, 4)], 2, (tc_arg[]){tc_arg_tensor(a.v), tc_arg_tensor(b.v)});
  if (n) gen_keep(r, n->results[0], true, 1);
  return n != NULL;
}

static inline bool gen_where(gen *r) {
  gen_value c = {0};
  for (int32_t i = 0; i < 10 && !c.v; i++) {
    gen_value v = gen_pick(r);
    if (v.v->type.dtype == TC_BOOL) c = v;
  }
  if (!c.v) return false;
  gen_value a = gen_partner(r, c, TC_F32), b = gen_partner(r, a, TC_F32);
  tc_node *n =
      gen_node(r, "aten::where.self", 3, (tc_arg[]){tc_arg_tensor(c.v), tc_arg_tensor(a.v), tc_arg_tensor(b.v)});
  if (n) gen_keep(r, n->results[0], a.exact && b.exact, fmax(a.bound, b.bound));
  return n != NULL;
}

static inline bool gen_cast(gen *r) {
  gen_value v = gen_pick(r);
  tc_dtype d = gen_dtype(r);
  bool to_int = !tc_dtype_is_float(d);
  if ((to_int && !v.exact) || v.bound > gen_limit(d)) return false;
  if (to_int && tc_dtype_is_float(v.v->type.dtype) && d == TC_BOOL) return false;
  tc_node *n = gen_node(r, "aten::to.dtype", 2, (tc_arg[]){tc_arg_tensor(v.v), tc_arg_dtype(d)});
  if (n) gen_keep(r, n->results[0], v.exact, d == TC_BOOL ? 1 : v.bound);
  return n != NULL;
}

static inline bool gen_reduce(gen *r) {
  static const char *const ops[] = {"aten::sum.dim_IntList", "aten::mean.dim", "aten::amax",         "aten::amin",
                                    "aten::any.dims",        "aten::var.dim",  "aten::prod.dim_int", "aten::all.dim",
                                    "aten::argmax"};
  int32_t k = gen_int(r, 9);
  gen_value v = k == 1 || k == 5 ? gen_pick_float(r) : gen_pick(r);
  if (!v.v) return false;
  const tc_tensor_type *t = &v.v->type;
  bool floats = tc_dtype_is_float(t->dtype);
  if (t->rank == 0 || ((k == 4 || k >= 7) && !v.exact) || (k == 6 && v.bound > 3)) return false;
  int64_t dims[TC_MAX_RANK], n = 0, count = 1;
  bool single = k == 6 || k == 7 || k == 8, all = gen_chance(r, 10);
  int64_t only = gen_int(r, t->rank);
  for (int32_t d = 0; d < t->rank; d++) {
    bool in = single ? d == only : all || gen_chance(r, 45);
    if (!in) continue;
    dims[n++] = gen_chance(r, 30) ? d - t->rank : d;
    count *= gen_hint(r, t->sizes[d]);
  }
  if (n == 0) return false;
  for (int32_t i = 0; i < t->rank && (k == 2 || k == 3 || k == 8); i++) { // an extreme needs an element
    int64_t lo, hi;
    tc_sym_range(r->m->syms, t->sizes[i], &lo, &hi);
    if (lo < 1) return false;
  }
  if (k == 6 && count > 8) return false;
  tc_arg keep = tc_arg_bool(gen_chance(r, 50)), d = single ? gen_i(r, dims[0]) : gen_list(r, (int32_t)n, dims);
  tc_node *node = k == 5 ? gen_node(r, ops[k], 4, (tc_arg[]){tc_arg_tensor(v.v), d, tc_arg_bool(false), keep})
                         : gen_node(r, ops[k], 3, (tc_arg[]){tc_arg_tensor(v.v), d, keep});
  if (!node) return false;
  double bound = k == 0             ? v.bound * (double)(count > 0 ? count : 1)
                 : k == 6           ? pow(fmax(v.bound, 1), (double)count)
                 : k == 5           ? v.bound * v.bound
                 : k == 8           ? (double)count
                 : k == 4 || k == 7 ? 1
                                    : v.bound;
  if (bound > gen_limit(node->results[0]->type.dtype)) {
    tc_node_kill(node);
    return false;
  }
  bool narrow = t->dtype == TC_F16 || t->dtype == TC_BF16;
  bool exact = v.exact && k != 1 && k != 5 && (!floats || k != 6) && !(narrow && k == 0);
  gen_keep(r, node->results[0], exact, bound);
  return true;
}

static inline bool gen_softmax(gen *r) {
  gen_value v = gen_pick_float(r);
  if (!v.v || v.v->type.rank == 0 || v.bound > 1000) return false;
  int32_t dim = gen_chance(r, 60) ? v.v->type.rank - 1 : gen_int(r, v.v->type.rank);
  bool log = gen_chance(r, 30);
  tc_node *n = gen_node(r, log ? "aten::log_softmax.int" : "aten::softmax.int", 2,
                        (tc_arg[]){tc_arg_tensor(v.v), gen_i(r, dim)});
  if (n) gen_keep(r, n->results[0], false, log ? 2 * v.bound + 10 : 1);
  return n != NULL;
}

static inline bool gen_norm(gen *r) {
  gen_value v = gen_pick_float(r);
  if (!v.v || v.v->type.rank == 0 || v.bound > 1000) return false;
  const tc_tensor_type *t = &v.v->type;
  int32_t k = 1 + gen_int(r, t->rank < 2 ? t->rank : 2);
  const tc_sym *const *last = t->sizes + t->rank - k;
  bool rms = gen_chance(r, 30), affine = gen_chance(r, 50);
  tc_arg args[5] = {tc_arg_tensor(v.v), gen_syms(r, k, last), tc_arg_none(), tc_arg_none(), tc_arg_float(1e-2)};
  if (affine) args[2] = tc_arg_tensor(gen_input(r, t->dtype, k, last).v);
  if (affine && !rms) args[3] = tc_arg_tensor(gen_input(r, t->dtype, k, last).v);
  if (rms) args[3] = tc_arg_float(1e-2);
  tc_node *n = gen_node(r, rms ? "aten::rms_norm" : "aten::layer_norm", rms ? 4 : 5, args);
  if (n) gen_keep(r, n->results[0], false, 100);
  return n != NULL;
}

static inline bool gen_product(gen *r) {
  gen_value v = gen_pick_float(r);
  if (!v.v || v.v->type.rank < 2 || v.bound > 100) return false;
  const tc_tensor_type *t = &v.v->type;
  const tc_sym *k = t->sizes[t->rank - 1], *n = gen_size(r, 130);
  double bound = v.bound * 3 * (double)gen_hint(r, k);
  if (bound > gen_limit(t->dtype) || gen_hint(r, k) > 300) return false;
  bool narrow = t->dtype == TC_F16 || t->dtype == TC_BF16;
  tc_node *node = NULL;
  const tc_sym *sizes[3] = {t->sizes[0], k, n}, *swapped[2] = {n, k};
  if (t->rank == 3 && gen_chance(r, 60)) {
    gen_value w = gen_input(r, t->dtype, 3, sizes);
    node = gen_node(r, "aten::bmm", 2, (tc_arg[]){tc_arg_tensor(v.v), tc_arg_tensor(w.v)});
  } else if (t->rank == 2 && gen_chance(r, 50)) {
    gen_value w = gen_input(r, t->dtype, 2, sizes + 1);
    node = gen_node(r, "aten::mm", 2, (tc_arg[]){tc_arg_tensor(v.v), tc_arg_tensor(w.v)});
  } else {
    gen_value w = gen_input(r, t->dtype, 2, swapped), b = {0};
    if (gen_chance(r, 50)) b = gen_input(r, t->dtype, 1, &n);
    node = gen_node(r, "aten::linear", 3,
                    (tc_arg[]){tc_arg_tensor(v.v), tc_arg_tensor(w.v), b.v ? tc_arg_tensor(b.v) : tc_arg_none()});
    bound += 3;
  }
  if (node) gen_keep(r, node->results[0], v.exact && !narrow, bound);
  return node != NULL;
}

static inline bool gen_view(gen *r) {
  gen_value v = gen_pick(r);
  const tc_tensor_type *t = &v.v->type;
  tc_sym_ctx *c = r->m->syms;
  tc_arg x = tc_arg_tensor(v.v);
  tc_node *n = NULL;
  int32_t dim = t->rank ? gen_int(r, t->rank) : 0;
  int64_t size = t->rank ? gen_hint(r, t->sizes[dim]) : 0;
  bool fixed = t->rank && tc_sym_is_const(t->sizes[dim]);
  switch (gen_int(r, 10)) {
  case 0:
    if (t->rank < 2) return false;
    n = gen_node(r, "aten::transpose.int", 3, (tc_arg[]){x, gen_i(r, dim), gen_i(r, gen_int(r, t->rank))});
    break;
  case 1: {
    int64_t order[TC_MAX_RANK];
    for (int32_t i = 0; i < t->rank; i++) order[i] = i;
    for (int32_t i = t->rank - 1; i > 0; i--) {
      int32_t k = gen_int(r, i + 1);
      int64_t s = order[i];
      order[i] = order[k];
      order[k] = s;
    }
    n = gen_node(r, "aten::permute", 2, (tc_arg[]){x, gen_list(r, t->rank, order)});
    break;
  }
  case 2: n = gen_node(r, "aten::unsqueeze", 2, (tc_arg[]){x, gen_i(r, gen_int(r, t->rank + 1))}); break;
  case 3: n = gen_node(r, "aten::squeeze", 1, (tc_arg[]){x}); break;
  case 4: { // expand dimensions of size 1, maybe a new one in front
    const tc_sym *sizes[TC_MAX_RANK];
    int32_t front = t->rank < 4 && gen_chance(r, 50);
    if (front) sizes[0] = gen_size(r, 20);
    for (int32_t i = 0; i < t->rank; i++)
      sizes[i + front] = tc_sym_is_int(t->sizes[i], 1) ? gen_size(r, 20) : t->sizes[i];
    n = gen_node(r, "aten::expand", 2, (tc_arg[]){x, gen_syms(r, t->rank + front, sizes)});
    break;
  }
  case 5: { // split one dimension, or join two
    const tc_sym *sizes[TC_MAX_RANK];
    int32_t k = 0;
    if (t->rank == 0) return false;
    bool join = t->rank > 1 && dim + 1 < t->rank && gen_chance(r, 50);
    int64_t factor = 0;
    for (int64_t f = 2; f <= 8 && fixed && size > 1; f++) factor = size % f == 0 && gen_chance(r, 60) ? f : factor;
    if (!join && !factor) return false;
    for (int32_t i = 0; i < t->rank; i++) {
      if (i == dim && join) sizes[k++] = tc_sym_mul(c, t->sizes[i], t->sizes[i + 1]), i++;
      else if (i == dim) sizes[k++] = tc_sym_int(c, size / factor), sizes[k++] = tc_sym_int(c, factor);
      else sizes[k++] = t->sizes[i];
    }
    n = gen_node(r, "aten::reshape", 2, (tc_arg[]){x, gen_syms(r, k, sizes)});
    break;
  }
  case 6:
    if (size < 2) return false;
    n = gen_node(r, "aten::slice.Tensor", 5,
                 (tc_arg[]){x, gen_i(r, dim), gen_i(r, gen_int(r, 2)),
                            fixed && gen_chance(r, 60) ? gen_i(r, size - gen_int(r, 2)) : gen_i(r, INT64_MAX),
                            gen_i(r, 1 + gen_int(r, 2))});
    break;
  case 7:
    if (size < 2 || !fixed) return false;
    n = gen_node(r, "aten::select.int", 3, (tc_arg[]){x, gen_i(r, dim), gen_i(r, gen_int(r, (int32_t)size))});
    break;
  case 8: n = gen_node(r, "aten::flatten.using_ints", 1, (tc_arg[]){x}); break;
  default:
    if (t->rank == 0) return false;
    n = gen_node(r, "aten::flip", 2, (tc_arg[]){x, gen_list(r, 1, &(int64_t){dim})});
  }
  if (n) gen_keep(r, n->results[0], v.exact, v.bound);
  return n != NULL;
}

static inline bool gen_join(gen *r) {
  gen_value v = gen_pick(r);
  const tc_tensor_type *t = &v.v->type;
  if (t->rank == 0) return false;
  int32_t dim = gen_int(r, t->rank);
  if (gen_chance(r, 40)) {
    int64_t pad[4] = {gen_int(r, 3), gen_int(r, 4) - (gen_hint(r, t->sizes[t->rank - 1]) > 3), gen_int(r, 2),
                      gen_int(r, 2)};
    tc_node *n = gen_node(r, "aten::constant_pad_nd", 3,
                          (tc_arg[]){tc_arg_tensor(v.v), gen_list(r, t->rank > 1 && gen_chance(r, 40) ? 4 : 2, pad),
                                     gen_i(r, t->dtype == TC_BOOL ? 0 : gen_int(r, 2))});
    if (n) gen_keep(r, n->results[0], v.exact, fmax(v.bound, 1));
    return n != NULL;
  }
  const tc_sym *sizes[TC_MAX_RANK];
  for (int32_t d = 0; d < t->rank; d++) sizes[d] = d == dim ? gen_size(r, 40) : t->sizes[d];
  gen_value w = gen_input(r, t->dtype, t->rank, sizes);
  tc_value **list = TC_NEW_ARRAY(r->arena, tc_value *, 3);
  int32_t n_list = 2;
  list[0] = v.v;
  list[1] = w.v;
  if (gen_chance(r, 30)) list[n_list++] = v.v;
  tc_node *n = gen_node(r, "aten::cat", 2, (tc_arg[]){tc_arg_tensors(list, n_list), gen_i(r, dim)});
  if (n) gen_keep(r, n->results[0], v.exact, fmax(v.bound, w.bound));
  return n != NULL;
}

// Gathers: indices are |x| mod 4 of an exact integer input, into a dimension of at least 4.
static inline bool gen_gather(gen *r) {
  gen_value v = gen_pick(r);
  const tc_tensor_type *t = &v.v->type;
  if (t->rank == 0) return false;
  int32_t dim = gen_int(r, t->rank);
  if (gen_hint(r, t->sizes[dim]) < 4 || !tc_sym_is_const(t->sizes[dim])) return false;
  const tc_sym *size = gen_size(r, 20);
  gen_value x = gen_input(r, TC_I64, 1, &size);
  tc_node *n = gen_node(r, "aten::abs", 1, (tc_arg[]){tc_arg_tensor(x.v)});
  if (n)
    n = gen_node(r, "aten::index_select", 3,
                 (tc_arg[]){tc_arg_tensor(v.v), gen_i(r, dim), tc_arg_tensor(n->results[0])});
  if (n) gen_keep(r, n->results[0], v.exact, v.bound);
  return n != NULL;
}

// ---- the graph ----
static inline tc_graph *gen_graph(gen *r, tc_module *m, uint64_t seed) {
  static bool (*const steps[])(gen *) = {gen_unary,  gen_unary,   gen_binary, gen_binary,  gen_binary, gen_scalar,
                                         gen_divide, gen_compare, gen_where,  gen_cast,    gen_reduce, gen_reduce,
                                         gen_reduce, gen_softmax, gen_norm,   gen_product, gen_view,   gen_view,
                                         gen_view,   gen_join,    gen_gather};
  *r = (gen){.state = seed, .m = m, .arena = m->arena};
  r->g = tc_graph_create(m, TC_SV("f"));
  r->halves = gen_chance(r, 20);
  r->zeros = gen_chance(r, 15);
  bool large = gen_chance(r, 5); // large enough for reductions to be split
  r->most = large ? 120000 : gen_chance(r, 10) ? 20000 : 3000;
  if (gen_chance(r, 35)) {
    r->n_symbols = 1 + gen_int(r, 2);
    for (int32_t i = 0; i < r->n_symbols; i++) {
      static const int32_t hints[] = {2, 3, 5, 8, 17, 33, 64};
      r->symbols[i] = tc_sym_symbol(m->syms, tc_sv_printf(r->arena, "s%d", i));
      tc_sym_info *info = tc_sym_info_of(m->syms, r->symbols[i]);
      info->lo = r->zeros ? 0 : gen_chance(r, 50) ? 1 : 2;
      info->hi = gen_chance(r, 50) ? 4096 : TC_SYM_INF;
      info->hint = hints[gen_int(r, 7)];
    }
  }
  for (int32_t i = 0, n = 1 + gen_int(r, 2); i < n; i++) {
    const tc_sym *sizes[4];
    int32_t rank = gen_chance(r, 5) ? 0 : 1 + gen_int(r, 4);
    int64_t left = r->most;
    for (int32_t d = rank - 1; d >= 0; d--) {
      sizes[d] = gen_size(r, left);
      int64_t h = gen_hint(r, sizes[d]);
      left /= h > 0 ? h : 1;
      if (left < 1) left = 1;
    }
    gen_input(r, i ? gen_dtype(r) : r->halves && gen_chance(r, 50) ? TC_F16 : TC_F32, rank, sizes);
  }
  for (int32_t k = 0; k < r->n_symbols; k++) { // every symbol is the size of an input
    bool found = false;
    for (int32_t i = 0; i < r->n; i++) {
      for (int32_t d = 0; d < r->values[i].v->type.rank; d++) found |= r->values[i].v->type.sizes[d] == r->symbols[k];
    }
    if (!found) gen_input(r, TC_F32, 1, &r->symbols[k]);
  }
  int32_t want = 2 + gen_int(r, large ? 5 : gen_chance(r, 20) ? 24 : 10);
  for (int32_t i = 0, made = 0; made < want && i < 200 && r->n < GEN_MOST - 8; i++)
    made += steps[gen_int(r, sizeof steps / sizeof *steps)](r);
  // Outputs: the last value, most that nothing reads, some others.
  tc_graph_sweep(r->g);
  int32_t n_out = 0;
  for (int32_t i = 0; i < r->n; i++) {
    bool input = r->values[i].v->def == NULL;
    if (i < r->n - 1 && !gen_chance(r, input ? 3 : r->values[i].v->n_uses == 0 ? 75 : 12)) continue;
    tc_graph_add_output(r->g, TC_OUT_USER, tc_arg_tensor(r->values[i].v), tc_sv_printf(r->arena, "o%d", n_out++));
  }
  tc_graph_sweep(r->g);
  return r->g;
}

static inline const gen_value *gen_find(const gen *r, const tc_value *v) {
  for (int32_t i = 0; i < r->n; i++) {
    if (r->values[i].v == v) return &r->values[i];
  }
  return NULL;
}

#endif
