// Normalisation by channels: batch_norm with running statistics (inference), group_norm.
//
// batch_norm: (x - mean[c]) / sqrt(var[c] + eps) · weight[c] + bias[c]. group_norm takes mean and variance of each
// group of channels of a sample, in two passes like layer_norm.
#include <math.h>

#include "core/ops/ops.h"

// ---- batch_norm ----
static int32_t batch_norm_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int32_t training = tc_op_arg_index(a, "training");
  if (training >= 0 && tc_op_bool(a, training, 0)) return tc_op_fail(a, "batch_norm in training mode is not available");
  if (t->rank < 2)
    return tc_op_fail(a, "batch_norm needs an input with a channel dimension: %s", tc_op_shape_text(a, 0));
  if (!tc_op_tensor(a, 3) || !tc_op_tensor(a, 4))
    return tc_op_fail(a, "running_mean and running_var must be given in inference");
  for (int32_t i = 1; i <= 4; i++) {
    const tc_tensor_type *p = tc_op_tensor(a, i);
    if (p && (p->rank != 1 || tc_int_require_eq(a, p->sizes[0], t->sizes[1])))
      return tc_op_fail(a, "argument %d (%s) does not match the channels of %s", i, tc_op_shape_text(a, i),
                        tc_op_shape_text(a, 0));
  }
  int32_t format = tc_suggested_format(a, t);
  if (tc_op_format_result(a, 0, t->dtype, t->rank, t->sizes, format, 0) || a->n_results == 1)
    return a->status ? TC_STATUS_INVALID_ARGUMENT : TC_STATUS_OK;
  tc_int none = tc_int_const(a, 0); // statistics are not saved in inference
  return tc_op_set_result(a, 1, t->dtype, 1, &none, NULL) || tc_op_set_result(a, 2, t->dtype, 1, &none, NULL);
}
static double eps_of(tc_op_args *a) { return tc_op_float(a, tc_op_arg_index(a, "eps"), 1e-5); }

static int32_t batch_norm_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_dtype compute = tc_op_math_type(r->dtype);
  tc_int index[TC_MAX_RANK];
  tc_lt x = tc_lo_arg(a, 0), p[4];
  for (int32_t i = 0; i < 4; i++) p[i] = tc_op_tensor(a, 1 + i) ? tc_lo_arg(a, 1 + i) : -1;
  tc_lo_begin(a, r->rank, r->sizes, index);
  tc_bval v[4];
  for (int32_t i = 0; i < 4; i++) v[i] = p[i] < 0 ? -1 : tc_lo_cast(a, tc_lo_load(a, p[i], &index[1]), compute);
  tc_bval inv = tc_lo_op1(a, TC_K_RSQRT, tc_lo_op2(a, TC_K_ADD, v[3], tc_lo_const(a, compute, eps_of(a), 0)));
  tc_bval y =
      tc_lo_op2(a, TC_K_MUL, tc_lo_op2(a, TC_K_SUB, tc_lo_cast(a, tc_lo_load(a, x, index), compute), v[2]), inv);
  if (v[0] >= 0) y = tc_lo_op2(a, TC_K_MUL, y, v[0]);
  if (v[1] >= 0) y = tc_lo_op2(a, TC_K_ADD, y, v[1]);
  tc_lo_result(a, 0, tc_lo_end(a, y, r->dtype));
  for (int32_t i = 1; i < tc_op_result_count(a); i++) {
    const tc_tensor_type *s = tc_op_result_type(a, i);
    tc_lo_begin(a, 1, s->sizes, index);
    tc_lo_result(a, i, tc_lo_end(a, tc_lo_const(a, s->dtype, 0, 0), s->dtype));
  }
  return TC_STATUS_OK;
}
static int32_t batch_norm_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0), *p[4];
  int64_t index[TC_MAX_RANK] = {0};
  for (int32_t i = 0; i < 4; i++) p[i] = tc_op_data(a, 1 + i);
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, index)) {
    int64_t c = index[1];
    double v = (tc_ref_f(x, tc_ref_offset(x, index)) - tc_ref_f(p[2], c * p[2]->strides[0])) /
               sqrt(tc_ref_f(p[3], c * p[3]->strides[0]) + eps_of(a));
    if (p[0]) v *= tc_ref_f(p[0], c * p[0]->strides[0]);
    if (p[1]) v += tc_ref_f(p[1], c * p[1]->strides[0]);
    tc_ref_put(y, tc_ref_offset(y, index), (tc_c128){v, 0});
  }
  return TC_STATUS_OK;
}

// ---- group_norm: the channels of a group and the space are rows that layer_norm's statistics are taken of ----
typedef struct grouping {
  int32_t weight, bias;
  tc_int groups, per_group; // channels in each
} grouping;
static int32_t read_groups(tc_op_args *a, grouping *g) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int64_t n = tc_op_int(a, tc_sv_is(a->op->schema.name, "group_norm") ? 1 : 6, 0);
  g->weight = tc_op_arg_index(a, "weight"), g->bias = tc_op_arg_index(a, "bias");
  if (t->rank < 2 || n < 1) return tc_op_fail(a, "group_norm: %lld groups of %s", (long long)n, tc_op_shape_text(a, 0));
  g->groups = tc_int_const(a, n);
  if (tc_int_require_eq(a, tc_int_mod(a, t->sizes[1], g->groups), tc_int_const(a, 0)))
    return tc_op_fail(a, "the channels of %s must be divisible by %lld groups", tc_op_shape_text(a, 0), (long long)n);
  g->per_group = tc_int_floordiv(a, t->sizes[1], g->groups);
  return TC_STATUS_OK;
}
static int32_t group_norm_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  grouping g;
  if (read_groups(a, &g)) return TC_STATUS_INVALID_ARGUMENT;
  if (!tc_dtype_is_float(t->dtype))
    return tc_op_fail(a, "group_norm is not implemented for %s", tc_dtype_torch_name(t->dtype));
  if (tc_op_format_result(a, 0, t->dtype, t->rank, t->sizes, tc_suggested_format(a, t), 0))
    return TC_STATUS_INVALID_ARGUMENT;
  tc_int sizes[2] = {t->sizes[0], g.groups};
  return a->n_results > 1 &&
         (tc_op_set_result(a, 1, t->dtype, 2, sizes, NULL) || tc_op_set_result(a, 2, t->dtype, 2, sizes, NULL));
}

// f per (sample, group): text in s (sum), n (count), e (epsilon).
static tc_lt row_text(tc_op_args *a, tc_lt s, tc_int n, const char *text, tc_dtype compute, tc_dtype out) {
  static const char *const names[] = {"s", "n", "e"};
  tc_int sizes[2] = {tc_lo_size(a, s, 0), tc_lo_size(a, s, 1)}, index[2];
  tc_lo_begin(a, 2, sizes, index);
  tc_bval v[3] = {tc_lo_cast(a, tc_lo_load(a, s, index), compute), tc_lo_index(a, n, compute),
                  tc_lo_const(a, compute, eps_of(a), 0)};
  return tc_lo_end(a, tc_lo_text(a, text, 3, names, v), out);
}

static int32_t group_norm_lower(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *r = tc_op_result_type(a, 0);
  grouping g;
  if (read_groups(a, &g)) return TC_STATUS_INVALID_ARGUMENT;
  tc_dtype compute = tc_op_math_type(r->dtype);
  tc_int wide[TC_MAX_RANK + 1] = {t->sizes[0], g.groups, g.per_group}, index[TC_MAX_RANK], at[2], n = g.per_group;
  for (int32_t d = 2; d < t->rank; d++) wide[d + 1] = t->sizes[d], n = tc_int_mul(a, n, t->sizes[d]);
  bool reduced[TC_MAX_RANK] = {0};
  if (t->rank + 1 > TC_MAX_RANK) return tc_op_fail(a, "group_norm of rank %d", t->rank);
  for (int32_t d = 2; d <= t->rank; d++) reduced[d] = true;
  tc_lt whole = tc_lo_arg(a, 0), x = tc_lo_reshape(a, whole, t->rank + 1, wide);
  tc_lt mean = row_text(a, tc_lower_reduced(a, x, TC_RED_SUM, reduced, false, NULL, compute, compute), n, "s / n",
                        compute, compute);
  tc_int cells[TC_MAX_RANK];
  tc_lo_begin(a, t->rank + 1, wide, cells);
  tc_bval d = tc_lo_op2(a, TC_K_SUB, tc_lo_cast(a, tc_lo_load(a, x, cells), compute), tc_lo_load(a, mean, cells));
  tc_lt diff = tc_lo_end(a, d, compute);
  tc_lt rstd = row_text(a, tc_lower_reduced(a, diff, TC_RED_SUM, reduced, false, "v * v", compute, compute), n,
                        "rsqrt(s / n + e)", compute, compute);
  tc_lt w = tc_op_tensor(a, g.weight) ? tc_lo_arg(a, g.weight) : -1,
        b = tc_op_tensor(a, g.bias) ? tc_lo_arg(a, g.bias) : -1;
  tc_lo_begin(a, r->rank, r->sizes, index);
  at[0] = index[0], at[1] = tc_int_floordiv(a, index[1], g.per_group);
  tc_bval y = tc_lo_op2(
      a, TC_K_MUL, tc_lo_op2(a, TC_K_SUB, tc_lo_cast(a, tc_lo_load(a, whole, index), compute), tc_lo_load(a, mean, at)),
      tc_lo_load(a, rstd, at));
  if (w >= 0) y = tc_lo_op2(a, TC_K_MUL, y, tc_lo_cast(a, tc_lo_load(a, w, &index[1]), compute));
  if (b >= 0) y = tc_lo_op2(a, TC_K_ADD, y, tc_lo_cast(a, tc_lo_load(a, b, &index[1]), compute));
  tc_lo_result(a, 0, tc_lo_end(a, y, r->dtype));
  if (tc_op_result_count(a) > 1) {
    tc_lo_result(a, 1, row_text(a, mean, n, "s", compute, r->dtype));
    tc_lo_result(a, 2, row_text(a, rstd, n, "s", compute, r->dtype));
  }
  return TC_STATUS_OK;
}

static int32_t group_norm_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  grouping g;
  if (read_groups(a, &g)) return TC_STATUS_INVALID_ARGUMENT;
  const tc_ref_view *w = tc_op_data(a, g.weight), *b = tc_op_data(a, g.bias);
  int64_t groups = g.groups->value, per = g.per_group->value;
  for (int64_t s = 0; s < x->sizes[0] * groups; s++) {
    int64_t part[TC_MAX_RANK], n = 1;
    double mean = 0, m2 = 0;
    part[0] = 1, part[1] = per;
    for (int32_t d = 2; d < x->rank; d++) part[d] = x->sizes[d];
    for (int32_t d = 0; d < x->rank; d++) n *= part[d];
    for (int32_t pass = 0; pass < 3; pass++) {
      int64_t i[TC_MAX_RANK] = {0};
      double rstd = 1 / sqrt(m2 / (double)n + eps_of(a));
      for (bool more = n > 0; more; more = tc_ref_next(x->rank, part, i)) {
        int64_t at[TC_MAX_RANK];
        for (int32_t d = 0; d < x->rank; d++) at[d] = i[d];
        at[0] = s / groups, at[1] += s % groups * per;
        double v = tc_ref_f(x, tc_ref_offset(x, at));
        if (pass == 0) mean += v / (double)n;
        else if (pass == 1) m2 += (v - mean) * (v - mean);
        else
          tc_ref_put(y, tc_ref_offset(y, at),
                     (tc_c128){(v - mean) * rstd * (w ? tc_ref_f(w, at[1] * w->strides[0]) : 1) +
                                   (b ? tc_ref_f(b, at[1] * b->strides[0]) : 0),
                               0});
      }
    }
    if (tc_op_result_count(a) > 1) {
      tc_ref_put(tc_op_result_data(a, 1), s, (tc_c128){mean, 0});
      tc_ref_put(tc_op_result_data(a, 2), s, (tc_c128){1 / sqrt(m2 / (double)n + eps_of(a)), 0});
    }
  }
  return TC_STATUS_OK;
}

#define BATCH(s) \
  {.schema = s, .meta = batch_norm_meta, .lower = batch_norm_lower, .ref = batch_norm_ref, .flops = "4 * input.numel"}
#define GROUP(s)              \
  {.schema = s,               \
   .traits = TC_OP_REDUCTION, \
   .meta = group_norm_meta,   \
   .lower = group_norm_lower, \
   .ref = group_norm_ref,     \
   .flops = "8 * input.numel"}
static const tc_op_def rows[] = {
    BATCH("batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool "
          "training, float momentum, float eps, bool cudnn_enabled) -> Tensor"),
    BATCH("_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
          "Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)"),
    GROUP("group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float "
          "eps=1.0000000000000001e-05, bool cudnn_enabled=True) -> Tensor"),
    GROUP("native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, "
          "float eps) -> (Tensor, Tensor, Tensor)"),
};
TC_OP_FAMILY(batch_norm);
