// Normalisation by channels: batch_norm with running or own statistics, instance_norm, group_norm.
//
// batch_norm: (x - mean[c]) / sqrt(var[c] + eps) · weight[c] + bias[c]. Own statistics are taken in two passes like
// layer_norm's; the new running ones are momentum · own + (1 - momentum) · old, with the unbiased variance.
// instance_norm takes them for each sample, group_norm for each group of channels of a sample. What writes running
// statistics in PyTorch is made functional before it gets here (core/passes/functionalize.c).
#include <math.h>

#include "core/ops/ops.h"

// ---- batch_norm, instance_norm ----
// What a use of one of these ops asks for. Results beyond the normalised tensor are found by number; -1: none.
typedef struct use {
  bool own_stats;                  // mean and variance of the input itself, not the running ones
  bool by_sample;                  // instance_norm: statistics for each sample
  int32_t weight, bias, mean, var; // arguments
  int32_t save, reserve, running;  // results: mean and 1/σ, scratch for the derivative, new running statistics
  bool reduced[TC_MAX_RANK];
} use;

static int32_t read_use(tc_op_args *a, use *u) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  tc_sv name = a->op->schema.name;
  *u = (use){.by_sample = tc_sv_starts(name, "instance_norm"), .save = -1, .reserve = -1, .running = -1};
  u->weight = tc_op_arg_index(a, "weight"), u->bias = tc_op_arg_index(a, "bias");
  u->mean = tc_op_arg_index(a, "running_mean"), u->var = tc_op_arg_index(a, "running_var");
  int32_t flag = tc_op_arg_index(a, u->by_sample ? "use_input_stats" : "training"), n = 1;
  u->own_stats = flag >= 0 ? tc_op_bool(a, flag, 0) : tc_sv_starts(name, "_batch_norm_with_update");
  if (a->n_results >= 3 && !u->by_sample) u->save = n, n += 2;
  if (tc_sv_starts(name, "_batch_norm")) u->reserve = n++;
  if (tc_sv_ends(name, "_functional")) u->running = n;
  if (t->rank < 2)
    return tc_op_fail(a, "batch_norm needs an input with a channel dimension: %s", tc_op_shape_text(a, 0));
  if (!tc_dtype_is_float(t->dtype))
    return tc_op_fail(a, "batch_norm is not implemented for %s", tc_dtype_torch_name(t->dtype));
  if (u->mean >= 0 && u->var >= 0 && !tc_op_tensor(a, u->mean) != !tc_op_tensor(a, u->var))
    return tc_op_fail(a, "running_mean and running_var must either both be None or neither be None");
  bool running = u->mean >= 0 && tc_op_tensor(a, u->mean) && tc_op_tensor(a, u->var);
  if (!u->own_stats && !running && u->by_sample) u->own_stats = true;
  if (!u->own_stats && !running)
    return tc_op_fail(a, "running_mean and running_var must be given where the input's own statistics are not used");
  if (u->running >= 0 && !running) return tc_op_fail(a, "running_mean and running_var must be given");
  for (int32_t d = 0; d < t->rank; d++) u->reduced[d] = u->by_sample ? d >= 2 : d != 1;
  return TC_STATUS_OK;
}

static int32_t batch_norm_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  use u;
  if (read_use(a, &u)) return TC_STATUS_INVALID_ARGUMENT;
  const int32_t by_channel[] = {u.weight, u.bias, u.mean, u.var};
  tc_dtype save = t->dtype;
  // instance_norm has running statistics for each sample made of these, in its input's dtype
  if (tc_norm_parameters(a, u.by_sample ? 2 : 4, by_channel)) return TC_STATUS_INVALID_ARGUMENT;
  for (int32_t k = 0; k < 4; k++) {
    const tc_tensor_type *p = by_channel[k] < 0 ? NULL : tc_op_tensor(a, by_channel[k]);
    if (!p) continue;
    if (p->rank != 1 || tc_int_require_eq(a, p->sizes[0], t->sizes[1]))
      return tc_op_fail(a, "argument %d (%s) does not match the channels of %s", by_channel[k],
                        tc_op_shape_text(a, by_channel[k]), tc_op_shape_text(a, 0));
    save = p->dtype;
  }
  if (tc_op_format_result(a, 0, t->dtype, t->rank, t->sizes,
                          u.by_sample ? TC_FORMAT_CONTIGUOUS : tc_suggested_format(a, t), 0))
    return TC_STATUS_INVALID_ARGUMENT;
  tc_int none = tc_int_const(a, 0), channels = t->sizes[1];
  for (int32_t i = 0; i < 2; i++) { // what is not saved is empty
    if (u.save >= 0 && tc_op_set_result(a, u.save + i, save, 1, u.own_stats ? &channels : &none, NULL))
      return TC_STATUS_INVALID_ARGUMENT;
    if (u.running >= 0 && tc_op_set_result(a, u.running + i, tc_op_tensor(a, u.mean + i)->dtype, 1, &channels, NULL))
      return TC_STATUS_INVALID_ARGUMENT;
  }
  return u.reserve >= 0 ? tc_op_set_result(a, u.reserve, TC_U8, 1, &none, NULL) : TC_STATUS_OK;
}
static double eps_of(tc_op_args *a) { return tc_op_float(a, tc_op_arg_index(a, "eps"), 1e-5); }
static double momentum_of(tc_op_args *a) { return tc_op_float(a, tc_op_arg_index(a, "momentum"), 0.1); }

// A scalar text over statistics of one shape: names[i] is x[i]; n stands for the number of elements behind each.
static tc_lt stat_text(tc_op_args *a, const char *text, tc_lt x, tc_lt y, tc_int n, double c, tc_dtype compute,
                       tc_dtype out) {
  static const char *const names[] = {"x", "y", "n", "c"};
  int32_t rank = tc_lo_rank(a, x);
  tc_int sizes[TC_MAX_RANK], index[TC_MAX_RANK];
  for (int32_t d = 0; d < rank; d++) sizes[d] = tc_lo_size(a, x, d);
  tc_lo_begin(a, rank, sizes, index);
  tc_bval v[4] = {tc_lo_cast(a, tc_lo_load(a, x, index), compute), tc_lo_cast(a, tc_lo_load(a, y, index), compute),
                  tc_lo_index(a, n, compute), tc_lo_const(a, compute, c, 0)};
  return tc_lo_end(a, tc_lo_text(a, text, 4, names, v), out);
}

// Running statistics of channels seen as those of samples and channels.
static tc_lt by_sample(tc_op_args *a, const use *u, tc_lt running) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  return u->by_sample ? tc_lo_expand(a, running, 2, t->sizes) : running;
}

// momentum · statistic + (1 - momentum) · running; over samples the mean of that.
static void lower_running(tc_op_args *a, const use *u, int32_t which, tc_lt stat, tc_int n, const char *text,
                          tc_dtype compute) {
  tc_dtype out = tc_op_result_type(a, u->running + which)->dtype;
  tc_lt old = by_sample(a, u, tc_lo_arg(a, u->mean + which));
  tc_lt v = stat_text(a, text, stat, old, n, momentum_of(a), compute, u->by_sample ? compute : out);
  if (u->by_sample) {
    const bool samples[2] = {true, false};
    v = tc_lower_reduced(a, v, TC_RED_SUM, samples, false, NULL, compute, compute);
    v = stat_text(a, "x / n", v, v, tc_op_tensor(a, 0)->sizes[0], 0, compute, out);
  }
  tc_lo_result(a, u->running + which, v);
}

static int32_t batch_norm_lower(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *r = tc_op_result_type(a, 0);
  tc_dtype compute = tc_op_math_type(r->dtype);
  tc_int index[TC_MAX_RANK], n = tc_int_const(a, 1);
  use u;
  if (read_use(a, &u)) return TC_STATUS_INVALID_ARGUMENT;
  tc_lt x = tc_lo_arg(a, 0), mean, rstd;
  for (int32_t d = 0; d < t->rank; d++)
    if (u.reduced[d]) n = tc_int_mul(a, n, t->sizes[d]);
  if (u.own_stats) {
    mean = tc_lower_reduced(a, x, TC_RED_SUM, u.reduced, false, NULL, compute, compute);
    mean = stat_text(a, "x / n", mean, mean, n, 0, compute, compute);
    tc_lo_begin(a, t->rank, t->sizes, index);
    tc_bval d = tc_lo_op2(a, TC_K_SUB, tc_lo_cast(a, tc_lo_load(a, x, index), compute),
                          tc_lo_load(a, mean, u.by_sample ? index : &index[1]));
    tc_lt m2 = tc_lower_reduced(a, tc_lo_end(a, d, compute), TC_RED_SUM, u.reduced, false, "v * v", compute, compute);
    rstd = stat_text(a, "rsqrt(x / n + c)", m2, m2, n, eps_of(a), compute, compute);
    if (u.running >= 0) {
      lower_running(a, &u, 0, mean, n, "c * x + (1 - c) * y", compute);
      lower_running(a, &u, 1, m2, n, "c * (x / (n - 1)) + (1 - c) * y", compute);
    }
  } else {
    mean = by_sample(a, &u, tc_lo_arg(a, u.mean));
    rstd = by_sample(a, &u, tc_lo_arg(a, u.var)); // its root is taken where it is used: no kernel for a few numbers
    for (int32_t i = 0; u.running >= 0 && i < 2; i++)
      tc_lo_result(a, u.running + i,
                   stat_text(a, "x", tc_lo_arg(a, u.mean + i), tc_lo_arg(a, u.mean + i), n, 0, compute,
                             tc_op_result_type(a, u.running + i)->dtype));
  }
  tc_lt w = tc_op_tensor(a, u.weight) ? tc_lo_arg(a, u.weight) : -1,
        b = tc_op_tensor(a, u.bias) ? tc_lo_arg(a, u.bias) : -1;
  tc_lo_begin(a, r->rank, r->sizes, index);
  const tc_int *at = u.by_sample ? index : &index[1];
  tc_bval y = tc_lo_op2(a, TC_K_SUB, tc_lo_cast(a, tc_lo_load(a, x, index), compute),
                        tc_lo_cast(a, tc_lo_load(a, mean, at), compute));
  tc_bval scale = tc_lo_cast(a, tc_lo_load(a, rstd, at), compute);
  if (!u.own_stats)
    scale = tc_lo_op1(a, TC_K_RSQRT, tc_lo_op2(a, TC_K_ADD, scale, tc_lo_const(a, compute, eps_of(a), 0)));
  y = tc_lo_op2(a, TC_K_MUL, y, scale);
  if (w >= 0) y = tc_lo_op2(a, TC_K_MUL, y, tc_lo_cast(a, tc_lo_load(a, w, &index[1]), compute));
  if (b >= 0) y = tc_lo_op2(a, TC_K_ADD, y, tc_lo_cast(a, tc_lo_load(a, b, &index[1]), compute));
  tc_lo_result(a, 0, tc_lo_end(a, y, r->dtype));
  for (int32_t i = 1; i < tc_op_result_count(a); i++) {
    const tc_tensor_type *s = tc_op_result_type(a, i);
    if (u.running >= 0 && i >= u.running) break;
    if (u.own_stats && i != u.reserve) {
      tc_lt from = i == u.save ? mean : rstd;
      tc_lo_result(a, i, stat_text(a, "x", from, from, n, 0, compute, s->dtype));
      continue;
    }
    tc_lo_begin(a, 1, s->sizes, index);
    tc_lo_result(a, i, tc_lo_end(a, tc_lo_const_int(a, s->dtype, 0), s->dtype));
  }
  return TC_STATUS_OK;
}

// Mean and sum of squared differences of the elements that share `at` in the dimensions that are not reduced.
static void ref_moments(const use *u, const tc_ref_view *x, const int64_t *at, double *mean, double *m2, int64_t *n) {
  int64_t part[TC_MAX_RANK];
  *n = 1, *mean = *m2 = 0;
  for (int32_t d = 0; d < x->rank; d++) *n *= part[d] = u->reduced[d] ? x->sizes[d] : 1;
  for (int32_t pass = 0; pass < 2; pass++) {
    int64_t i[TC_MAX_RANK] = {0}, to[TC_MAX_RANK];
    for (bool more = *n > 0; more; more = tc_ref_next(x->rank, part, i)) {
      for (int32_t d = 0; d < x->rank; d++) to[d] = u->reduced[d] ? i[d] : at[d];
      double v = tc_ref_f(x, tc_ref_offset(x, to));
      if (pass == 0) *mean += v;
      else *m2 += (v - *mean) * (v - *mean);
    }
    if (pass == 0) *mean /= (double)*n;
  }
}
static double ref_channel(const tc_ref_view *v, int64_t c, double otherwise) {
  return v ? tc_ref_f(v, c * v->strides[0]) : otherwise;
}
static void put_real(tc_op_args *a, int32_t result, int64_t at, double v) {
  tc_ref_put(tc_op_result_data(a, result), at, (tc_c128){v, 0});
}

static int32_t batch_norm_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  use u;
  if (read_use(a, &u)) return TC_STATUS_INVALID_ARGUMENT;
  const tc_ref_view *w = tc_op_data(a, u.weight), *b = tc_op_data(a, u.bias),
                    *rm = u.mean < 0 ? NULL : tc_op_data(a, u.mean), *rv = u.var < 0 ? NULL : tc_op_data(a, u.var);
  int64_t samples = u.by_sample ? x->sizes[0] : 1, part[TC_MAX_RANK];
  double eps = eps_of(a), m = momentum_of(a);
  for (int32_t d = 0; d < x->rank; d++) part[d] = u.reduced[d] ? x->sizes[d] : 1;
  for (int64_t c = 0; c < x->sizes[1]; c++) {
    double new_mean = 0, new_var = 0;
    for (int64_t s = 0; s < samples; s++) {
      int64_t at[TC_MAX_RANK] = {s, c}, i[TC_MAX_RANK] = {0}, n = 1;
      double mean = ref_channel(rm, c, 0), var = ref_channel(rv, c, 0);
      if (u.own_stats) {
        double m2;
        ref_moments(&u, x, at, &mean, &m2, &n);
        var = m2 / (double)n;
        new_mean += (m * mean + (1 - m) * ref_channel(rm, c, 0)) / (double)samples;
        new_var += (m * (m2 / (double)(n - 1)) + (1 - m) * ref_channel(rv, c, 0)) / (double)samples;
        if (u.save >= 0) put_real(a, u.save, c, mean), put_real(a, u.save + 1, c, 1 / sqrt(var + eps));
      } else {
        new_mean = mean, new_var = var;
      }
      double scale = ref_channel(w, c, 1) / sqrt(var + eps), shift = ref_channel(b, c, 0);
      for (bool more = tc_ref_numel(x) > 0; more; more = tc_ref_next(x->rank, part, i)) {
        int64_t to[TC_MAX_RANK];
        for (int32_t d = 0; d < x->rank; d++) to[d] = u.reduced[d] ? i[d] : at[d];
        double v = (tc_ref_f(x, tc_ref_offset(x, to)) - mean) * scale + shift;
        tc_ref_put(y, tc_ref_offset(y, to), (tc_c128){v, 0});
      }
    }
    if (u.running >= 0) put_real(a, u.running, c, new_mean), put_real(a, u.running + 1, c, new_var);
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
  const int32_t affine[2] = {g->weight, g->bias};
  for (int32_t i = 0; i < 2; i++) {
    const tc_tensor_type *p = tc_op_tensor(a, affine[i]);
    if (p && (p->rank != 1 || tc_int_require_eq(a, p->sizes[0], t->sizes[1])))
      return tc_op_fail(a, "expected a value of %s for each channel of %s: %s", i ? "bias" : "weight",
                        tc_op_shape_text(a, 0), tc_op_shape_text(a, affine[i]));
  }
  return TC_STATUS_OK;
}
static int32_t group_norm_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  grouping g;
  if (read_groups(a, &g)) return TC_STATUS_INVALID_ARGUMENT;
  if (!tc_dtype_is_float(t->dtype))
    return tc_op_fail(a, "group_norm is not implemented for %s", tc_dtype_torch_name(t->dtype));
  if (tc_norm_parameters(a, 2, (const int32_t[]){g.weight, g.bias})) return TC_STATUS_INVALID_ARGUMENT;
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

#define BATCH(s)              \
  {.schema = s,               \
   .traits = TC_OP_REDUCTION, \
   .meta = batch_norm_meta,   \
   .lower = batch_norm_lower, \
   .ref = batch_norm_ref,     \
   .flops = "4 * input.numel"}
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
    BATCH("native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
          "bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)"),
    BATCH("_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) "
          "running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)"),
    BATCH("_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float "
          "momentum, float eps) -> (Tensor, Tensor, Tensor)"),
    BATCH("_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
          "Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)"),
    BATCH("_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor "
          "running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor "
          "running_mean_out, Tensor running_var_out)"),
    BATCH("_batch_norm_with_update(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) "
          "running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)"),
    BATCH("_batch_norm_with_update_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor "
          "running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor running_mean_out, "
          "Tensor running_var_out)"),
    BATCH("_batch_norm_no_update(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? "
          "running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)"),
    BATCH("instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool "
          "use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor"),
    BATCH("tc::instance_norm_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor "
          "running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> (Tensor, Tensor "
          "running_mean_out, Tensor running_var_out)"),
    GROUP("group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float "
          "eps=1.0000000000000001e-05, bool cudnn_enabled=True) -> Tensor"),
    GROUP("native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, "
          "float eps) -> (Tensor, Tensor, Tensor)"),
};
TC_OP_FAMILY(batch_norm);
