// Normalisation over the last dimensions: layer_norm, native_layer_norm, rms_norm. Two passes: the mean, then the mean
// of squared differences, both in f32 or wider.
#include <math.h>

#include "core/base/complex_parts.h"
#include "core/ops/ops.h"

typedef struct norm {
  int32_t rank, n_norm; // the last n_norm dimensions are normalised
  bool reduced[TC_MAX_RANK];
} norm;

int32_t tc_norm_parameters(tc_op_args *a, int32_t n, const int32_t *args) {
  tc_dtype own = tc_op_tensor(a, 0)->dtype, shared = TC_DTYPE_NONE;
  for (int32_t i = 0; i < n; i++) {
    const tc_tensor_type *p = tc_op_tensor(a, args[i]);
    if (!p) continue;
    if (!shared) shared = p->dtype;
    bool wide = p->dtype == TC_F32 && (own == TC_F16 || own == TC_BF16);
    if (p->dtype == shared && (p->dtype == own || wide)) continue;
    return tc_op_fail(a,
                      "mixed dtype: all inputs must share same datatype, or the parameters be Float where the "
                      "input is Half or BFloat16: %s and %s",
                      tc_op_shape_text(a, 0), tc_op_shape_text(a, args[i]));
  }
  return TC_STATUS_OK;
}

static int32_t read_norm(tc_op_args *a, norm *m) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  *m = (norm){.rank = t->rank, .n_norm = tc_op_count(a, 1)};
  if (m->n_norm < 1 || m->n_norm > t->rank)
    return tc_op_fail(a, "normalized_shape has %d dimensions; the input is %s", m->n_norm, tc_op_shape_text(a, 0));
  for (int32_t d = 0; d < m->n_norm; d++) {
    int32_t at = t->rank - m->n_norm + d;
    m->reduced[at] = true;
    if (tc_int_require_eq(a, t->sizes[at], tc_op_sym_at(a, 1, d)))
      return tc_op_fail(a, "normalized_shape does not match the last sizes of the input (%s)", tc_op_shape_text(a, 0));
  }
  const int32_t affine[2] = {tc_op_arg_index(a, "weight"), tc_op_arg_index(a, "bias")};
  for (int32_t i = 0; i < 2; i++) {
    const tc_tensor_type *p = affine[i] < 0 ? NULL : tc_op_tensor(a, affine[i]);
    bool same = !p || p->rank == m->n_norm;
    for (int32_t d = 0; p && same && d < m->n_norm; d++)
      same = !tc_int_require_eq(a, p->sizes[d], t->sizes[t->rank - m->n_norm + d]);
    if (!same)
      return tc_op_fail(a, "expected %s of the shape normalized_shape, but got %s for the input %s",
                        i ? "bias" : "weight", tc_op_shape_text(a, affine[i]), tc_op_shape_text(a, 0));
  }
  return TC_STATUS_OK;
}

static int32_t layer_norm_meta(tc_op_args *a) {
  norm m;
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  if (read_norm(a, &m)) return TC_STATUS_INVALID_ARGUMENT;
  if (!tc_dtype_is_float(t->dtype))
    return tc_op_fail(a, "layer_norm is not implemented for %s", tc_dtype_torch_name(t->dtype));
  if (tc_norm_parameters(a, 2, (const int32_t[]){2, 3})) return TC_STATUS_INVALID_ARGUMENT;
  if (tc_op_set_result(a, 0, t->dtype, t->rank, t->sizes, NULL)) return TC_STATUS_INVALID_ARGUMENT;
  if (a->n_results < 3) return TC_STATUS_OK;
  tc_dtype stat = tc_op_math_type(t->dtype);
  const tc_tensor_type *w = tc_op_tensor(a, 2);
  if (!w || w->dtype == t->dtype) stat = t->dtype;
  return tc_meta_reduced(a, 1, stat, m.reduced, true) || tc_meta_reduced(a, 2, stat, m.reduced, true);
}
static int32_t rms_norm_meta(tc_op_args *a) {
  norm m;
  if (read_norm(a, &m)) return TC_STATUS_INVALID_ARGUMENT;
  if (!tc_dtype_is_float(tc_op_tensor(a, 0)->dtype) && !tc_dtype_is_complex(tc_op_tensor(a, 0)->dtype))
    return tc_op_fail(a, "rms_norm is not implemented for %s", tc_dtype_torch_name(tc_op_tensor(a, 0)->dtype));
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  return tc_op_format_result(a, 0, t->dtype, m.rank, t->sizes, tc_suggested_format(a, t), 0);
}

// f(stat) per row: text in s (sum), n (count), e (epsilon).
static tc_lt row_text(tc_op_args *a, tc_lt s, tc_int n, double eps, const char *text, tc_dtype compute) {
  int32_t rank = tc_lo_rank(a, s);
  static const char *const names[] = {"s", "n", "e"};
  tc_int sizes[TC_MAX_RANK], index[TC_MAX_RANK];
  for (int32_t d = 0; d < rank; d++) sizes[d] = tc_lo_size(a, s, d);
  tc_lo_begin(a, rank, sizes, index);
  tc_bval v[3] = {tc_lo_load(a, s, index), tc_lo_index(a, n, compute), tc_lo_const(a, compute, eps, 0)};
  return tc_lo_end(a, tc_lo_text(a, text, 3, names, v), compute);
}

static int32_t lower_norm(tc_op_args *a, bool center) {
  norm m;
  if (read_norm(a, &m)) return TC_STATUS_INVALID_ARGUMENT;
  tc_lt x = tc_lo_arg(a, 0);
  tc_dtype out = tc_op_result_type(a, 0)->dtype, compute = tc_op_math_type(out);
  tc_int n = tc_int_const(a, 1);
  for (int32_t d = m.rank - m.n_norm; d < m.rank; d++) n = tc_int_mul(a, n, tc_lo_size(a, x, d));
  static const char *const names[] = {"x", "m", "r", "w", "b"};
  tc_lt mean = -1, diff = x, sq;
  double eps = tc_op_float(a, tc_op_arg_index(a, "eps"),
                           tc_dtype_real(compute) == TC_F64 ? 2.220446049250313e-16 : 1.1920928955078125e-07);
  if (center) {
    tc_int some = tc_int_max(a, n, tc_int_const(a, 1)); // the mean of no elements is 0
    mean = row_text(a, tc_lower_reduced(a, x, TC_RED_SUM, m.reduced, true, NULL, compute, compute), some, eps, "s / n",
                    compute);
    tc_lt pair[2] = {x, mean};
    diff = tc_lower_text(a, "x - m", 2, names, pair, compute, compute);
  }
  sq = tc_lower_reduced(a, diff, TC_RED_SUM, m.reduced, true, "v * v", compute, compute);
  tc_lt rstd = row_text(a, sq, n, eps, "rsqrt(s / n + e)", compute);
  bool w = tc_op_tensor(a, 2) != NULL, b = center && tc_op_tensor(a, 3) != NULL;
  tc_lt all[5] = {diff, rstd, rstd, w ? tc_lo_arg(a, 2) : rstd, b ? tc_lo_arg(a, 3) : rstd};
  const char *text = w && b ? "x * r * w + b" : w ? "x * r * w" : b ? "x * r + b" : "x * r";
  tc_lo_result(a, 0, tc_lower_text(a, text, 5, names, all, compute, out));
  if (tc_op_result_count(a) == 3) {
    const char *v = "v";
    tc_lo_result(a, 1, tc_lower_text(a, "v", 1, &v, &mean, compute, tc_op_result_type(a, 1)->dtype));
    tc_lo_result(a, 2, tc_lower_text(a, "v", 1, &v, &rstd, compute, tc_op_result_type(a, 2)->dtype));
  }
  return TC_STATUS_OK;
}
static int32_t lower_layer_norm(tc_op_args *a) { return lower_norm(a, true); }
static int32_t lower_rms_norm(tc_op_args *a) { return lower_norm(a, false); }

// Complex numbers have their squares (not those of their moduli) averaged, and the root's main branch.
static int32_t ref_complex_norm(tc_op_args *a, const norm *m) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0), *w = tc_op_data(a, 2);
  int32_t lead = m->rank - m->n_norm;
  int64_t row[TC_MAX_RANK] = {0}, n = 1;
  double eps =
      tc_op_float(a, tc_op_arg_index(a, "eps"), x->nominal == TC_C128 ? 2.220446049250313e-16 : 1.1920928955078125e-07);
  for (int32_t d = lead; d < m->rank; d++) n *= x->sizes[d];
  for (bool more = tc_ref_numel(x) > 0; more; more = tc_ref_next(lead, x->sizes, row)) {
    double complex sum = 0, scale = 0;
    for (int32_t pass = 0; pass < 2; pass++) {
      int64_t index[TC_MAX_RANK] = {0};
      do {
        int64_t from = 0, to = 0, q = 0;
        for (int32_t d = 0; d < m->rank; d++) {
          int64_t i = d < lead ? row[d] : index[d - lead];
          from += i * x->strides[d], to += i * y->strides[d];
          if (w && d >= lead) q += i * w->strides[d - lead];
        }
        tc_c128 v = tc_ref_c(x, from), g = w ? tc_ref_c(w, q) : (tc_c128){1, 0};
        double complex z = CMPLX(v.re, v.im), r = z * scale * CMPLX(g.re, g.im);
        if (pass == 0) sum += z * z;
        else tc_ref_put(y, to, (tc_c128){creal(r), cimag(r)});
      } while (tc_ref_next(m->n_norm, x->sizes + lead, index));
      scale = 1 / csqrt(sum / (double)n + eps);
    }
  }
  return TC_STATUS_OK;
}

static int32_t ref_norm(tc_op_args *a, bool center) {
  norm m;
  if (read_norm(a, &m)) return TC_STATUS_INVALID_ARGUMENT;
  if (tc_op_data(a, 0)->dtype == TC_C128) return ref_complex_norm(a, &m);
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0), *w = tc_op_data(a, 2),
                    *b = center ? tc_op_data(a, 3) : NULL;
  int32_t lead = m.rank - m.n_norm;
  int64_t row[TC_MAX_RANK] = {0}, n = 1, rows = 1;
  double eps =
      tc_op_float(a, tc_op_arg_index(a, "eps"), x->nominal == TC_F64 ? 2.220446049250313e-16 : 1.1920928955078125e-07);
  for (int32_t d = 0; d < m.rank; d++) *(d < lead ? &rows : &n) *= x->sizes[d];
  for (int64_t r = 0; r < rows; r++, tc_ref_next(lead, x->sizes, row)) {
    int64_t at = 0, to = 0, index[TC_MAX_RANK] = {0};
    for (int32_t d = 0; d < lead; d++) at += row[d] * x->strides[d], to += row[d] * y->strides[d];
    double mean = 0, m2 = 0;
    for (int32_t pass = center ? 0 : 1; pass < 3 && n > 0; pass++) {
      double rstd = 1 / sqrt(m2 / (double)n + eps);
      do {
        int64_t o = at, p = to, q = 0, s = 0;
        for (int32_t d = 0; d < m.n_norm; d++) {
          o += index[d] * x->strides[lead + d], p += index[d] * y->strides[lead + d];
          if (w) q += index[d] * w->strides[d];
          if (b) s += index[d] * b->strides[d];
        }
        double v = tc_ref_f(x, o) - mean;
        if (pass == 0) m2 += tc_ref_f(x, o);
        else if (pass == 1) m2 += v * v;
        else tc_ref_put(y, p, (tc_c128){v * rstd * (w ? tc_ref_f(w, q) : 1) + (b ? tc_ref_f(b, s) : 0), 0});
      } while (tc_ref_next(m.n_norm, x->sizes + lead, index));
      if (pass == 0) mean = m2 / (double)n, m2 = 0;
    }
    if (tc_op_result_count(a) == 3) {
      tc_ref_put(tc_op_result_data(a, 1), r, (tc_c128){mean, 0});
      tc_ref_put(tc_op_result_data(a, 2), r, (tc_c128){1 / sqrt(m2 / (double)n + eps), 0});
    }
  }
  return TC_STATUS_OK;
}
static int32_t ref_layer_norm(tc_op_args *a) { return ref_norm(a, true); }
static int32_t ref_rms_norm(tc_op_args *a) { return ref_norm(a, false); }

static const tc_op_def rows[] = {
    {.schema = "layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float "
               "eps=1e-05, bool cudnn_enable=True) -> Tensor",
     .traits = TC_OP_REDUCTION,
     .meta = layer_norm_meta,
     .lower = lower_layer_norm,
     .ref = ref_layer_norm,
     .flops = "8 * numel"},
    {.schema = "native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> "
               "(Tensor, Tensor, Tensor)",
     .traits = TC_OP_REDUCTION,
     .meta = layer_norm_meta,
     .lower = lower_layer_norm,
     .ref = ref_layer_norm,
     .flops = "8 * numel"},
    {.schema = "rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
     .traits = TC_OP_REDUCTION | TC_OP_COMPLEX,
     .meta = rms_norm_meta,
     .lower = lower_rms_norm,
     .ref = ref_rms_norm,
     .flops = "5 * numel"},
};
// Derivatives; see docs/ADDING_AN_OP.md for what the texts can name.
static const tc_op_derivative derivatives[] = {
    {"layer_norm",
     "let d = last(len(normalized_shape)); let c = sub(input, mean(input, d, true)); let r = rsqrt(add(mean(mul(c, c), "
     "d, true), eps)); let h = mul(c, r); let g = if(is_none(weight), grad, mul(grad, weight)); input: mul(r, "
     "sub(sub(g, mean(g, d, true)), mul(h, mean(mul(g, h), d, true)))); weight: mul(grad, h); bias: grad"},
    {"rms_norm", // of complex numbers, too, the mean is that of squares
     "let d = last(len(normalized_shape)); let w = wide(input.dtype); let x = to(input, w); let r = "
     "rsqrt(add(mean(mul(x, x), d, true), if(is_none(eps), eps(w), eps))); let h = mul(x, r); let g = "
     "if(is_none(weight), to(grad, w), mul(to(grad, w), conj(weight))); input: to(mul(conj(r), sub(g, mul(conj(h), "
     "mean(mul(g, conj(h)), d, true)))), input.dtype); weight: to(mul(grad, conj(h)), weight.dtype)"},
    {"native_layer_norm", "let d = last(len(normalized_shape)); let c = sub(input, result1); let h = mul(c, result2); "
                          "let g = if(is_none(weight), grad, mul(grad, weight)); input: mul(result2, sub(sub(g, "
                          "mean(g, d, true)), mul(h, mean(mul(g, h), d, true)))); weight: mul(grad, h); bias: grad"},
};
TC_OP_FAMILY_WITH_DERIVATIVES(norm);
