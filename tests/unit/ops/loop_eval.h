// Runs loop IR on the host, one point at a time: what a lowering says, without scheduling or code generation.
//
// Body values are those of the kernel interpreter (tc_knum: every operation rounded to its type). Index expressions are
// evaluated as they stand; an index outside of its buffer is an error, and so is a buffer read before it is made.
// The core's templates are known by what they mean: matmul out[…, m, n] = Σₖ a[…, m, k] · b[…, n / P, k, n % P], or of
// b as it is (small_matmul); conv; scan from the first element on, whatever the chunks; sort by counting what is less;
// scatter place by place; ctc path by path.
#ifndef TC_TESTS_UNIT_OPS_LOOP_EVAL_H_
#define TC_TESTS_UNIT_OPS_LOOP_EVAL_H_

#include <math.h>
#include <string.h>

#include "core/kernel/ir.h"
#include "core/loop/loop.h"
#include "core/loop/template.h"
#include "core/ops/special_functions.h"

typedef struct le_run {
  tc_loops *l;
  tc_arena *arena;
  int64_t *symbols; // by number
  tc_knum **data;   // by buffer id, row-major; NULL: not made yet
  tc_status failed; // the first failure
} le_run;

static inline void le_fail(le_run *r, tc_status s) {
  if (r->failed == TC_OK) r->failed = s;
  else tc_status_free(s);
}

static inline int64_t le_size(le_run *r, const tc_sym *e) {
  int64_t v = -1;
  tc_status s = tc_sym_eval(e, r->symbols, &v);
  if (s != TC_OK) le_fail(r, s);
  return v;
}

static inline int64_t le_numel(le_run *r, const tc_buf *b) {
  int64_t n = 1;
  for (int32_t d = 0; d < b->rank; d++) n *= le_size(r, b->sizes[d]);
  return n;
}

static inline tc_knum *le_at(le_run *r, const tc_buf *b, const int64_t *index) {
  static tc_knum nothing;
  int64_t at = 0;
  if (!r->data[b->id])
    return le_fail(r, tc_error(TC_STATUS_INTERNAL, "%%" TC_SV_FMT " is read before it is made", TC_SV_ARG(b->name))),
           &nothing;
  for (int32_t d = 0; d < b->rank; d++) {
    int64_t n = le_size(r, b->sizes[d]);
    if (index[d] < 0 || index[d] >= n)
      return le_fail(r, tc_error(TC_STATUS_INTERNAL, "index %lld of dimension %d of %%" TC_SV_FMT ", which has %lld",
                                 (long long)index[d], d, TC_SV_ARG(b->name), (long long)n)),
             &nothing;
    at = at * n + index[d];
  }
  return &r->data[b->id][at];
}

// False if a gathered index is out of range.
static inline bool le_load(le_run *r, const tc_binst *b, const tc_knum *values, tc_knum *out) {
  int64_t index[TC_MAX_RANK];
  if (b->cond && !le_size(r, b->cond)) {
    *out = values[b->args[0]];
    return true;
  }
  for (int32_t d = 0; d < b->buf->rank; d++) {
    index[d] = le_size(r, b->index[d]);
    if (!b->gather || b->gather[d] < 0) continue;
    int64_t n = le_size(r, b->buf->sizes[d]);
    index[d] = values[b->gather[d]].i;
    if (b->wrap && index[d] < 0) index[d] += n;
    if (index[d] < 0 || index[d] >= n) return false;
  }
  *out = *le_at(r, b->buf, index);
  return true;
}

static inline tc_status le_body(le_run *r, const tc_lnode *n, tc_knum *values) {
  for (int32_t i = 0; i < n->body.insts.count; i++) {
    const tc_binst *b = &n->body.insts.data[i];
    bool real = tc_dtype_is_float(b->dtype) || tc_dtype_is_complex(b->dtype);
    tc_knum *out = &values[i], args[3];
    *out = (tc_knum){.i = 0};
    for (int32_t k = 0; k < b->n_args; k++) args[k] = values[b->args[k]];
    switch (b->op) {
    case TC_K_CONST:
      if (real) *out = (tc_knum){.re = tc_kir_round(b->dtype, b->re), .im = tc_kir_round(b->dtype, b->im)};
      else out->i = b->imm;
      break;
    case TC_B_LOAD:
      if (!le_load(r, b, values, out)) return tc_error(TC_STATUS_OUT_OF_RANGE, "index out of range");
      break;
    case TC_B_CHECK:
      if (!args[0].i) return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT, TC_SV_ARG(b->text));
      *out = args[1];
      break;
    case TC_B_INDEX: *out = tc_kir_int(b->dtype, le_size(r, b->expr)); break;
    case TC_K_CAST: *out = tc_kir_cast(n->body.insts.data[b->args[0]].dtype, b->dtype, args[0]); break;
    default: {
      const char *bad = tc_kir_eval(b->op, n->body.insts.data[b->args[b->n_args - 1]].dtype, args, out);
      if (bad) return tc_error(TC_STATUS_INVALID_ARGUMENT, "%s", bad);
    }
    }
  }
  return TC_OK;
}

// The next point of vars[from, to); false at the end.
static inline bool le_next(le_run *r, const tc_lnode *n, int32_t from, int32_t to, const int64_t *extents) {
  for (int32_t d = to - 1; d >= from; d--) {
    if (++r->symbols[n->vars[d]->symbol] < extents[d]) return true;
    r->symbols[n->vars[d]->symbol] = 0;
  }
  return false;
}

static inline bool le_better(tc_dtype d, tc_knum v, tc_knum best, bool highest) {
  if (!tc_dtype_is_float(d)) return highest ? v.i > best.i : v.i < best.i;
  if (best.re != best.re) return false;
  return v.re != v.re || (highest ? v.re > best.re : v.re < best.re);
}

static inline tc_status le_reduce(le_run *r, const tc_lnode *n, const int64_t *extents, tc_knum *values,
                                  tc_knum out[2]) {
  tc_dtype in = n->body.insts.data[n->body.results[0]].dtype, d = n->outs[0]->dtype,
           acc = d == TC_F16 || d == TC_BF16 ? TC_F32 : d;
  bool arg = n->reduce == TC_RED_ARGMAX || n->reduce == TC_RED_ARGMIN, first = true, empty = false;
  int64_t at = 0;
  out[0] = tc_kir_int(acc, n->reduce == TC_RED_PROD || n->reduce == TC_RED_ALL);
  out[1] = (tc_knum){.i = 0};
  for (int32_t k = n->n_par; k < n->n_par + n->n_red; k++) r->symbols[n->vars[k]->symbol] = 0, empty |= extents[k] == 0;
  if (empty) return TC_OK;
  do {
    TC_TRY(le_body(r, n, values));
    tc_knum v = values[n->body.results[0]], pair[2] = {out[0], tc_kir_cast(in, acc, v)};
    switch (n->reduce) {
    case TC_RED_SUM: tc_kir_eval(TC_K_ADD, acc, pair, &out[0]); break;
    case TC_RED_PROD: tc_kir_eval(TC_K_MUL, acc, pair, &out[0]); break;
    case TC_RED_ANY: out[0].i |= pair[1].i; break;
    case TC_RED_ALL: out[0].i &= pair[1].i; break;
    default: // the accumulator of an arg reduction holds the element
      if (arg) pair[1] = v;
      if (first || le_better(arg ? in : acc, pair[1], out[0], n->reduce == TC_RED_MAX || n->reduce == TC_RED_ARGMAX))
        out[0] = pair[1], out[1].i = at;
    }
    first = false;
    at++;
  } while (le_next(r, n, n->n_par, n->n_par + n->n_red, extents));
  if (arg && n->n_outs == 1) out[0] = out[1];
  else if (!arg) out[0] = tc_kir_cast(acc, d, out[0]);
  return TC_OK;
}

static inline tc_knum le_view(le_run *r, const tc_lview *v, const int64_t *index) {
  int64_t at[TC_MAX_RANK];
  for (int32_t d = 0; d < v->rank; d++) { r->symbols[v->index[d]->symbol] = index[d]; }
  for (int32_t d = 0; d < v->buf->rank; d++) at[d] = le_size(r, v->map[d]);
  return *le_at(r, v->buf, at);
}

// One element of the templates "matmul" and "small_matmul", whose b is not packed, at the loop variables.
static inline void le_matmul(le_run *r, const tc_lnode *n, tc_knum *out) {
  const tc_lview *x = &n->operands[0], *y = &n->operands[1];
  int32_t rank = n->n_par;
  bool packed = y->rank > rank;
  int64_t ix[TC_MAX_RANK], iy[TC_MAX_RANK + 1], depth = le_size(r, x->sizes[rank - 1]),
                                                panel = packed ? le_size(r, y->sizes[rank]) : 1;
  tc_dtype in = x->buf->dtype, d = n->outs[0]->dtype, acc = d == TC_F16 || d == TC_BF16 ? TC_F32 : d;
  for (int32_t k = 0; k < rank; k++) ix[k] = iy[k] = r->symbols[n->vars[k]->symbol];
  int64_t column = iy[rank - 1];
  *out = tc_kir_int(acc, 0);
  for (int64_t k = 0; k < depth; k++) {
    ix[rank - 1] = k;
    if (packed) iy[rank - 2] = column / panel, iy[rank - 1] = k, iy[rank] = column % panel;
    else iy[rank - 2] = k, iy[rank - 1] = column;
    tc_knum pair[2] = {tc_kir_cast(in, acc, le_view(r, x, ix)), tc_kir_cast(y->buf->dtype, acc, le_view(r, y, iy))},
            sum[2] = {*out};
    tc_kir_eval(TC_K_MUL, acc, pair, &sum[1]);
    tc_kir_eval(TC_K_ADD, acc, sum, out);
  }
  *out = tc_kir_cast(acc, d, *out);
}

// One element of the template "conv" (attributes: core/kernel/templates/conv.c); outside of the input is zero, or there
// is no product.
static inline void le_conv(le_run *r, const tc_lnode *n, tc_knum *out) {
  const tc_lview *x = &n->operands[0], *w = &n->operands[1];
  int32_t space = (int32_t)n->attrs[1]->value, lead = n->n_par - space;
  int64_t panel = le_size(r, w->sizes[4]), channels = le_size(r, w->sizes[2]), taps = le_size(r, w->sizes[3]);
  int64_t at[TC_MAX_RANK], ix[TC_MAX_RANK], group, o;
  enum { FIRST = 4 }; // of those by dimension
  bool skips = n->n_attrs > FIRST + 4 * space;
  tc_dtype d = n->outs[0]->dtype, acc = d == TC_F16 || d == TC_BF16 ? TC_F32 : d;
  for (int32_t k = 0; k < n->n_par; k++) at[k] = r->symbols[n->vars[k]->symbol];
  group = lead == 3 ? at[1] : 0, o = at[lead - 1];
  *out = tc_kir_int(acc, 0);
  for (int64_t tap = 0; tap < taps; tap++) {
    bool inside = true;
    int64_t rest = tap;
    for (int32_t i = space - 1; i >= 0; i--) {
      int64_t size = n->attrs[FIRST + 4 * i]->value, p = at[lead + i] * n->attrs[FIRST + 1 + 4 * i]->value,
              front = skips ? n->attrs[FIRST + 4 * space + 2 * i]->value : 0,
              back = skips ? n->attrs[FIRST + 1 + 4 * space + 2 * i]->value : 0;
      ix[2 + i] = p + rest % size * n->attrs[FIRST + 2 + 4 * i]->value - n->attrs[FIRST + 3 + 4 * i]->value;
      inside = inside && ix[2 + i] >= front && ix[2 + i] < le_size(r, x->sizes[2 + i]) - back;
      rest /= size;
    }
    for (int64_t c = 0; inside && c < channels; c++) {
      int64_t iw[5] = {group, o / panel, c, tap, o % panel};
      ix[0] = at[0], ix[1] = group * channels + c;
      tc_knum pair[2] = {tc_kir_cast(x->buf->dtype, acc, le_view(r, x, ix)),
                         tc_kir_cast(w->buf->dtype, acc, le_view(r, w, iw))},
              sum[2] = {*out};
      tc_kir_eval(TC_K_MUL, acc, pair, &sum[1]);
      tc_kir_eval(TC_K_ADD, acc, sum, out);
    }
  }
  *out = tc_kir_cast(acc, d, *out);
}

static inline void le_scan(le_run *r, const tc_lnode *n, tc_knum *out) {
  const tc_lview *x = &n->operands[0];
  int32_t rank = n->n_par;
  int64_t index[TC_MAX_RANK], kind = n->attrs[0]->value;
  tc_dtype in = x->buf->dtype, d = n->outs[0]->dtype, acc = d == TC_F16 || d == TC_BF16 ? TC_F32 : d;
  bool place = kind == TC_SCAN_MAX || kind == TC_SCAN_MIN;
  for (int32_t k = 0; k < rank; k++) index[k] = r->symbols[n->vars[k]->symbol];
  int64_t last = index[rank - 1], best = 0;
  tc_knum pair[2], held = {0};
  for (int64_t k = 0; k <= last; k++) {
    index[rank - 1] = k;
    tc_knum v = le_view(r, x, index);
    if (place) {
      bool nan = tc_dtype_is_float(in) && v.re != v.re;
      if (k == 0 || nan || !le_better(in, held, v, kind == TC_SCAN_MAX)) best = k, held = v;
      continue;
    }
    pair[0] = *out, pair[1] = tc_kir_cast(in, acc, v);
    if (k == 0) *out = pair[1];
    else if (kind != TC_SCAN_LOGSUM) tc_kir_eval(kind == TC_SCAN_SUM ? TC_K_ADD : TC_K_MUL, acc, pair, out);
    else out->re = log(exp(pair[0].re) + exp(pair[1].re));
  }
  if (place) out->i = best;
  else *out = tc_kir_cast(acc, d, *out);
}

// Word i of the order: how many words are less than it says where it stands.
static inline int64_t le_word(le_run *r, const tc_lnode *n, int64_t *index, int64_t k) {
  const tc_lview *x = &n->operands[0];
  int64_t part = n->attrs[0]->value, key;
  index[x->rank - 1] = k;
  tc_dtype d = x->buf->dtype;
  tc_knum v = le_view(r, x, index);
  if (v.re == 0) v.re = 0; // of either sign
  if (!tc_dtype_is_float(d)) key = v.i;
  else if (v.re != v.re) key = d == TC_F64 ? INT64_MAX : INT32_MAX;
  else {
    tc_dtype as = d == TC_F64 ? d : TC_F32;
    key = (int64_t)tc_kir_to_bits(as, (tc_knum){.re = fabs(v.re)});
    if (v.re < 0) key = -key - 1;
  }
  if (n->attrs[1]->value) key = ~key;
  if (part == TC_SORT_LOW) key = (key & UINT32_MAX) - (1ll << 31);
  if (part == TC_SORT_HIGH) key >>= 32;
  return (int64_t)((uint64_t)key << 32 | (uint64_t)k);
}
static inline void le_sort(le_run *r, const tc_lnode *n, tc_knum *out) {
  int32_t rank = n->n_par;
  int64_t index[TC_MAX_RANK], size = le_size(r, n->extents[rank - 1]), want = r->symbols[n->vars[rank - 1]->symbol];
  for (int32_t k = 0; k < rank - 2; k++) index[k] = r->symbols[n->vars[k]->symbol];
  for (int64_t i = 0; i < size; i++) {
    int64_t word = le_word(r, n, index, i), less = 0;
    for (int64_t k = 0; k < size; k++) less += le_word(r, n, index, k) < word;
    if (less == want) out->i = word;
  }
}

static inline void le_scatter(le_run *r, const tc_lnode *n, tc_knum *out) {
  const tc_lview *self = &n->operands[0], *p = &n->operands[1], *v = &n->operands[2];
  static const int32_t ops[] = {-1, TC_K_ADD, TC_K_MUL, TC_K_MAX, TC_K_MIN};
  int64_t index[TC_MAX_RANK], kind = n->attrs[0]->value;
  tc_dtype d = n->outs[0]->dtype;
  for (int32_t k = 0; k < n->n_par; k++) index[k] = r->symbols[n->vars[k]->symbol];
  int64_t own = index[0], size = le_size(r, n->extents[0]), count = le_size(r, p->sizes[0]);
  *out = tc_kir_cast(self->buf->dtype, d, le_view(r, self, index));
  for (int64_t k = 0; k < count; k++) {
    index[0] = k;
    int64_t at = le_view(r, p, index).i;
    if (at < 0 && at != INT64_MIN && n->attrs[2]->value) at += size;
    if (at != INT64_MIN && (at < 0 || at >= size)) le_fail(r, tc_error(TC_STATUS_OUT_OF_RANGE, "index out of range"));
    if (at != own) continue;
    tc_knum pair[2] = {*out, tc_kir_cast(v->buf->dtype, d, le_view(r, v, index))};
    if (kind == TC_SCATTER_SET) *out = pair[1];
    else tc_kir_eval(d == TC_BOOL ? TC_K_OR : ops[kind], d, pair, out);
  }
}

// The template "ctc": each path by itself, as a probability.
static inline double le_paths(le_run *r, const tc_lnode *n, int64_t sequence, int64_t step, int64_t state) {
  int64_t at[3] = {sequence, step, state}, from[2] = {sequence, state};
  if (state < 0) return 0;
  double p = exp(le_view(r, &n->operands[0], at).re);
  if (step == 0) return state < 2 ? p : 0;
  double before = le_paths(r, n, sequence, step - 1, state) + le_paths(r, n, sequence, step - 1, state - 1);
  if (le_view(r, &n->operands[1], from).i) before += le_paths(r, n, sequence, step - 1, state - 2);
  return p * before;
}
static inline void le_ctc(le_run *r, const tc_lnode *n, tc_knum *out) {
  int64_t at[3];
  for (int32_t k = 0; k < 3; k++) at[k] = r->symbols[n->vars[k]->symbol];
  *out = tc_kir_cast(TC_F64, n->outs[0]->dtype, (tc_knum){.re = log(le_paths(r, n, at[0], at[1], at[2]))});
}

// The template "iterate", by the references' functions.
static inline double le_shifted_t(double x, double n) { return tc_chebyshev_t(2 * x - 1, n); }
static inline double le_shifted_u(double x, double n) { return tc_chebyshev_u(2 * x - 1, n); }
static inline double le_shifted_v(double x, double n) { return tc_chebyshev_v(2 * x - 1, n); }
static inline double le_shifted_w(double x, double n) { return tc_chebyshev_w(2 * x - 1, n); }
static inline void le_iterate(le_run *r, const tc_lnode *n, tc_knum *out) {
  static double (*const of[])(double, double) = {
      [TC_ITERATE_T] = tc_chebyshev_t,
      [TC_ITERATE_U] = tc_chebyshev_u,
      [TC_ITERATE_V] = tc_chebyshev_v,
      [TC_ITERATE_W] = tc_chebyshev_w,
      [TC_ITERATE_SHIFTED_T] = le_shifted_t,
      [TC_ITERATE_SHIFTED_U] = le_shifted_u,
      [TC_ITERATE_SHIFTED_V] = le_shifted_v,
      [TC_ITERATE_SHIFTED_W] = le_shifted_w,
      [TC_ITERATE_H] = tc_hermite_h,
      [TC_ITERATE_HE] = tc_hermite_he,
      [TC_ITERATE_L] = tc_laguerre_l,
      [TC_ITERATE_P] = tc_legendre_p,
      [TC_ITERATE_ZETA] = tc_hurwitz_zeta,
      [TC_ITERATE_GAMMA_LOWER] = tc_gamma_lower,
      [TC_ITERATE_GAMMA_UPPER] = tc_gamma_upper,
  };
  int64_t at = r->symbols[n->vars[0]->symbol], kind = n->attrs[0]->value;
  tc_dtype from[2] = {n->operands[0].buf->dtype, n->operands[1].buf->dtype},
           type = kind < TC_ITERATE_GCD ? TC_F64 : TC_I64;
  tc_knum v[2] = {le_view(r, &n->operands[0], &at), le_view(r, &n->operands[1], &at)};
  for (int32_t i = 0; i < 2; i++) v[i] = tc_kir_cast(from[i], type, v[i]);
  if (kind < TC_ITERATE_GCD) {
    *out = (tc_knum){.re = of[kind](v[0].re, v[1].re)};
  } else {
    int64_t x = v[0].i < 0 ? -v[0].i : v[0].i, y = v[1].i < 0 ? -v[1].i : v[1].i, p = x, q = y;
    while (q) {
      int64_t rest = p % q;
      p = q, q = rest;
    }
    *out = (tc_knum){.i = kind == TC_ITERATE_GCD ? p : p ? x / p * y : 0};
  }
  *out = tc_kir_cast(type, n->outs[0]->dtype, *out);
}

static inline tc_status le_node(le_run *r, const tc_lnode *n) {
  int64_t extents[2 * TC_MAX_RANK], at = 0, count = 1;
  for (int32_t d = 0; d < n->n_par + n->n_red; d++) {
    extents[d] = le_size(r, n->extents[d]);
    r->symbols[n->vars[d]->symbol] = 0;
    if (d < n->n_par) count *= extents[d];
  }
  if (n->kind == TC_LN_CALL) return tc_error(TC_STATUS_UNIMPLEMENTED, "a library call has no loops");
  tc_knum *values = TC_NEW_ARRAY(r->arena, tc_knum, n->body.insts.count + 1), *made[2] = {0};
  for (int32_t i = 0; i < n->n_outs; i++) made[i] = TC_NEW_ARRAY(r->arena, tc_knum, count > 0 ? count : 1);
  for (; at < count; at++) {
    tc_knum out[2] = {{.i = 0}, {.i = 0}};
    if (n->kind == TC_LN_TEMPLATE) {
      static const struct {
        const char *name;
        void (*run)(le_run *r, const tc_lnode *n, tc_knum *out);
      } known[] = {{"matmul", le_matmul}, {"small_matmul", le_matmul}, {"scan", le_scan},       {"conv", le_conv},
                   {"sort", le_sort},     {"scatter", le_scatter},     {"iterate", le_iterate}, {"ctc", le_ctc}};
      size_t k = 0;
      while (k < sizeof known / sizeof *known && !tc_sv_is(n->tmpl->name, known[k].name)) k++;
      if (k == sizeof known / sizeof *known) return tc_error(TC_STATUS_UNIMPLEMENTED, "a template has no loops");
      known[k].run(r, n, &out[0]);
    } else if (n->kind == TC_LN_REDUCE) {
      TC_TRY(le_reduce(r, n, extents, values, out));
    } else {
      TC_TRY(le_body(r, n, values));
      out[0] = values[n->body.results[0]];
    }
    if (r->failed != TC_OK) return r->failed;
    for (int32_t i = 0; i < n->n_outs; i++) made[i][at] = out[i];
    le_next(r, n, 0, n->n_par, extents);
  }
  for (int32_t i = 0; i < n->n_outs; i++) r->data[n->outs[i]->id] = made[i];
  return TC_OK;
}

// Runs everything. `inputs` by number of the graph input; tensors of outputs are made with the declared strides.
static inline tc_status le_run_loops(tc_loops *l, const tc_allocator *a, const tc_tensor *inputs,
                                     const int64_t *symbols, int32_t n_symbols, tc_tensor *outputs) {
  le_run r = {.l = l, .arena = l->arena};
  r.symbols = TC_NEW_ARRAY(l->arena, int64_t, tc_sym_symbol_count(l->syms) + 1);
  if (n_symbols > 0) memcpy(r.symbols, symbols, sizeof *symbols * (size_t)n_symbols);
  r.data = TC_NEW_ARRAY(l->arena, tc_knum *, l->bufs.count);
  for (int32_t i = 0; i < l->bufs.count; i++) {
    const tc_buf *b = l->bufs.data[i];
    if (b->kind != TC_BUF_INPUT) continue;
    const tc_tensor *t = &inputs[b->input];
    int64_t index[TC_MAX_RANK] = {0}, n = tc_tensor_numel(t);
    r.data[i] = TC_NEW_ARRAY(l->arena, tc_knum, n > 0 ? n : 1);
    for (int64_t k = 0; k < n; k++) {
      tc_knum *v = &r.data[i][k];
      if (tc_dtype_is_float(t->dtype) || tc_dtype_is_complex(t->dtype)) tc_tensor_get(t, index, &v->re, &v->im);
      else v->i = tc_tensor_get_int(t, index);
      for (int32_t d = t->rank - 1; d >= 0 && ++index[d] >= t->sizes[d]; d--) index[d] = 0;
    }
  }
  for (int32_t i = 0; i < l->nodes.count; i++) TC_TRY(le_node(&r, l->nodes.data[i]), "in loop node %d", i);
  for (int32_t i = 0; i < l->outputs.count; i++) {
    const tc_loop_output *o = &l->outputs.data[i];
    if (!o->buf) continue;
    // Where each element of the buffer lies by its own strides; the output reads the storage by the promised ones.
    int64_t n = le_numel(&r, o->buf), sizes[TC_MAX_RANK], strides[TC_MAX_RANK], span = 1, index[TC_MAX_RANK] = {0};
    for (int32_t d = 0; d < o->buf->rank; d++)
      span += (le_size(&r, o->buf->sizes[d]) - 1) * le_size(&r, o->buf->strides[d]);
    int64_t base = le_size(&r, o->buf->offset), first = le_size(&r, o->type.offset);
    tc_knum *storage = TC_NEW_ARRAY(l->arena, tc_knum, (n > 0 ? span : 1) + base);
    for (int64_t k = 0; k < n; k++) {
      int64_t at = base;
      for (int32_t d = 0; d < o->buf->rank; d++) at += index[d] * le_size(&r, o->buf->strides[d]);
      storage[at] = r.data[o->buf->id][k];
      for (int32_t d = o->buf->rank - 1; d >= 0 && ++index[d] >= le_size(&r, o->buf->sizes[d]); d--) index[d] = 0;
    }
    for (int32_t d = 0; d < o->type.rank; d++)
      sizes[d] = le_size(&r, o->type.sizes[d]), strides[d] = le_size(&r, o->type.strides[d]);
    TC_TRY(tc_tensor_create(a, o->type.dtype, o->type.rank, sizes, &outputs[i]));
    memset(index, 0, sizeof index);
    for (int64_t k = 0, count = tc_tensor_numel(&outputs[i]); k < count; k++) {
      int64_t at = first;
      for (int32_t d = 0; d < o->type.rank; d++) at += index[d] * strides[d];
      if (at < 0 || at >= base + span)
        return tc_error(TC_STATUS_INTERNAL, "output %d reaches outside of its buffer", i);
      char *to = (char *)tc_tensor_data(&outputs[i]) + k * tc_dtype_size(o->type.dtype);
      if (tc_dtype_is_complex(o->type.dtype)) {
        tc_dtype part = tc_dtype_real(o->type.dtype);
        tc_kir_write(part, to, storage[at]);
        tc_kir_write(part, to + tc_dtype_size(part), (tc_knum){.re = storage[at].im});
      } else {
        tc_kir_write(o->type.dtype, to, storage[at]);
      }
      for (int32_t d = o->type.rank - 1; d >= 0 && ++index[d] >= sizes[d]; d--) index[d] = 0;
    }
  }
  return r.failed;
}

#endif
