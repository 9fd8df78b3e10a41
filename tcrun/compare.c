// Comparison of results.
//
// Floating: |got - ref| ≤ atol + rtol·|ref| for each element, NaN equal to NaN, infinities equal; complex by the
// modulus of the difference, values that are not finite by component. Where a wider reference is given the whole must
// also be about as near to it as the stored output is: relL2(got, ref) ≤ max(4·relL2(out, ref), 4 eps). An element that
// misses the reference but meets the stored output is right where these two disagree; of complex arithmetic on awkward
// values (`either`) the stored output is as good as the reference. Integers and bool: equal.
//
// By the norm (`scaled`): an element of a transform or a sum carries the rounding of all that went into it, however
// small it is itself. What is asked of it is then atol times the root mean square of the wider reference, where that is
// above 1; what is asked of the whole stays.
//
// By the condition (`spread`): what is compared with the references and differs is looked at once more, beside the
// references in f64. An element may then be off by SPREADS times what rounding the operands changes in it, which is an
// error relative to the operands' scale: the logarithm of a power that is nearly zero has hardly a right digit in any
// program. So may the whole, by the norm of these changes: the stored output is then the references' own, which sum in
// f64, so that a sum of many terms in f32 is several times as far from the wider reference as they are. A tolerance
// that is given is meant as it is.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/ir/spread.h"
#include "tcrun/check_grad.h"
#include "tcrun/tcrun.h"

// Of six draws the largest is sometimes far below what is usual.
static const double SPREADS = 8;

typedef struct c128 {
  double re, im;
} c128;

tolerance tcrun_default_tolerance(tc_dtype d) {
  double eps = tc_dtype_epsilon(d);
  return eps == 0     ? (tolerance){0}
         : eps > 1e-5 ? (tolerance){.rtol = 16 * eps, .atol = 16 * eps, .either = true}
                      : (tolerance){.rtol = 64 * eps, .atol = 64 * eps, .either = true};
}

tolerance tcrun_tolerance(const run_options *o, tc_dtype d) {
  tolerance t = tcrun_default_tolerance(d);
  t.scaled = o->by_norms && o->rtol < 0 && o->atol < 0;
  if (o->rtol >= 0) t.rtol = o->rtol;
  if (o->atol >= 0) t.atol = o->atol;
  return t;
}

static tc_status widen(const tc_allocator *a, const tc_tensor *t, tc_dtype to, tc_tensor *out) {
  TC_TRY(tc_tensor_create(a, to, t->rank, t->sizes, out));
  tc_status s = tc_tensor_copy(t, out);
  if (s != TC_OK) tc_tensor_unref(out);
  return s;
}

// What a wide number is in the narrower type, as far as its range goes.
static double clip(double x, double largest) { return isfinite(x) && fabs(x) > largest ? copysign(INFINITY, x) : x; }

static bool same_part(double a, double b) { return (isnan(a) && isnan(b)) || a == b; }

static bool is_close(c128 got, c128 want, const tolerance *t) {
  bool finite = isfinite(got.re) && isfinite(got.im) && isfinite(want.re) && isfinite(want.im);
  if (!finite) {
    tolerance part = *t;
    bool re = same_part(got.re, want.re), im = same_part(got.im, want.im);
    if (!re && isfinite(got.re) && isfinite(want.re))
      re = fabs(got.re - want.re) <= part.atol + part.rtol * fabs(want.re);
    if (!im && isfinite(got.im) && isfinite(want.im))
      im = fabs(got.im - want.im) <= part.atol + part.rtol * fabs(want.im);
    return re && im;
  }
  return hypot(got.re - want.re, got.im - want.im) <= t->atol + t->rtol * hypot(want.re, want.im);
}

static bool is_finite(c128 x) { return isfinite(x.re) && isfinite(x.im); }

// Over the elements that are finite.
static double root_mean_square(const c128 *a, int64_t n) {
  double sum = 0;
  int64_t count = 0;
  for (int64_t i = 0; i < n; i++) {
    if (!is_finite(a[i])) continue;
    sum += a[i].re * a[i].re + a[i].im * a[i].im;
    count++;
  }
  return count ? sqrt(sum / (double)count) : 0;
}

// relL2(a, b) over the elements where both are finite.
static double rel_l2(const c128 *a, const c128 *b, int64_t n) {
  double top = 0, bottom = 0;
  for (int64_t i = 0; i < n; i++) {
    if (!is_finite(a[i]) || !is_finite(b[i])) continue;
    double re = a[i].re - b[i].re, im = a[i].im - b[i].im;
    top += re * re + im * im;
    bottom += b[i].re * b[i].re + b[i].im * b[i].im;
  }
  if (top == 0) return 0;
  return bottom > 0 ? sqrt(top / bottom) : INFINITY;
}

// The norm of what rounding the operands changes, beside the norm of the values.
static double relative_spread(const double *spread, const c128 *base, int64_t n) {
  double top = 0, bottom = 0;
  for (int64_t i = 0; i < n; i++) {
    if (!is_finite(base[i])) continue;
    top += spread[i] * spread[i];
    bottom += base[i].re * base[i].re + base[i].im * base[i].im;
  }
  return bottom > 0 ? sqrt(top / bottom) : 0;
}

static void put_value(char *text, size_t size, c128 v, bool complex) {
  if (complex) snprintf(text, size, "%.9g%+.9gi", v.re, v.im);
  else snprintf(text, size, "%.9g", v.re);
}

static void index_of(const tc_tensor *t, int64_t at, char *text, size_t size) {
  int64_t index[TC_MAX_RANK];
  size_t used = 0;
  for (int32_t d = t->rank - 1; d >= 0; d--) index[d] = at % t->sizes[d], at /= t->sizes[d];
  text[0] = 0;
  for (int32_t d = 0; d < t->rank && used + 24 < size; d++)
    used += (size_t)snprintf(text + used, size - used, "%s%lld", d ? ", " : "", (long long)index[d]);
}

static tc_status report(const tc_tensor *t, const c128 *got, const c128 *want, int64_t at, const difference *d) {
  char where[400], a[64], b[64];
  bool complex = tc_dtype_is_complex(t->dtype);
  index_of(t, at, where, sizeof where);
  put_value(a, sizeof a, got[at], complex);
  put_value(b, sizeof b, want[at], complex);
  return tc_error(TC_STATUS_MISMATCH,
                  "%lld of %lld values differ, at [%s]: %s instead of %s (largest difference %.3g, relative L2 %.3g)",
                  (long long)d->count, (long long)tc_tensor_numel(t), where, a, b, d->max_abs, d->rel_l2);
}

static tc_status compare_floats(const tc_tensor *t, const c128 *got, const c128 *want, const c128 *ref,
                                const tolerance *asked, difference *out) {
  int64_t n = tc_tensor_numel(t), first = -1, worst = 0;
  const c128 *base = ref ? ref : want;
  tolerance scaled = *asked, *tol = &scaled;
  if (asked->scaled) scaled.atol *= fmax(1, root_mean_square(base, n));
  const double *spread = asked->spread && asked->spread->storage ? tc_tensor_data(asked->spread) : NULL,
               atol = tol->atol;
  for (int64_t i = 0; i < n; i++) {
    if (spread) tol->atol = atol + SPREADS * spread[i];
    double diff = is_finite(got[i]) && is_finite(base[i]) ? hypot(got[i].re - base[i].re, got[i].im - base[i].im) : 0;
    if (diff > out->max_abs) out->max_abs = diff, worst = i;
    bool ok = is_close(got[i], base[i], tol);
    if (!ok && ref) ok = (tol->either || !is_close(want[i], ref[i], tol)) && is_close(got[i], want[i], tol);
    if (ok) continue;
    out->count++;
    if (first < 0) first = i;
  }
  out->rel_l2 = rel_l2(got, base, n);
  if (first >= 0) return report(t, got, base, is_finite(got[first]) && is_finite(base[first]) ? worst : first, out);
  if (!ref) return TC_OK;
  double allowed = fmax(4 * rel_l2(want, ref, n), 4 * tc_dtype_epsilon(t->dtype));
  if (spread) allowed = fmax(allowed, SPREADS * relative_spread(spread, base, n));
  if (out->rel_l2 <= allowed) return TC_OK;
  return tc_error(TC_STATUS_MISMATCH, "the relative L2 error is %.3g, %.3g is allowed (largest difference %.3g)",
                  out->rel_l2, allowed, out->max_abs);
}

static tc_status compare_integers(const tc_tensor *t, const int64_t *got, const int64_t *want, difference *out) {
  int64_t n = tc_tensor_numel(t), first = -1;
  for (int64_t i = 0; i < n; i++) {
    if (got[i] == want[i]) continue;
    double diff = fabs((double)got[i] - (double)want[i]);
    if (diff > out->max_abs) out->max_abs = diff;
    if (first < 0) first = i;
    out->count++;
  }
  if (first < 0) return TC_OK;
  char where[400];
  index_of(t, first, where, sizeof where);
  return tc_error(TC_STATUS_MISMATCH, "%lld of %lld values differ, at [%s]: %lld instead of %lld",
                  (long long)out->count, (long long)n, where, (long long)got[first], (long long)want[first]);
}

static tc_status check_shape(const tc_tensor *got, const tc_tensor *want, bool dtypes) {
  if (dtypes && got->dtype != want->dtype)
    return tc_error(TC_STATUS_MISMATCH, "the dtype is %s instead of %s", tc_dtype_name(got->dtype),
                    tc_dtype_name(want->dtype));
  bool same = got->rank == want->rank;
  for (int32_t d = 0; same && d < got->rank; d++) same = got->sizes[d] == want->sizes[d];
  if (same) return TC_OK;
  char a[400] = "", b[400] = "";
  size_t at = 0, bt = 0;
  for (int32_t d = 0; d < got->rank; d++)
    at += (size_t)snprintf(a + at, sizeof a - at, "%s%lld", d ? ", " : "", (long long)got->sizes[d]);
  for (int32_t d = 0; d < want->rank; d++)
    bt += (size_t)snprintf(b + bt, sizeof b - bt, "%s%lld", d ? ", " : "", (long long)want->sizes[d]);
  return tc_error(TC_STATUS_MISMATCH, "the shape is [%s] instead of [%s]", a, b);
}

tc_status tcrun_compare(const tc_allocator *a, const tc_tensor *got, const tc_tensor *want, const tc_tensor *ref,
                        const tolerance *tol, difference *out) {
  *out = (difference){0};
  TC_TRY(check_shape(got, want, true));
  if (ref) TC_TRY(check_shape(got, ref, false), "while comparing with the reference");
  char cls = tc_dtype_class(got->dtype);
  bool floats = cls == 'f' || cls == 'c';
  tc_dtype wide = floats ? TC_C128 : TC_I64;
  tc_tensor x = {0}, y = {0}, z = {0};
  tc_status s = widen(a, got, wide, &x);
  if (s == TC_OK) s = widen(a, want, wide, &y);
  if (s == TC_OK && ref && floats) s = widen(a, ref, wide, &z);
  if (s == TC_OK && z.storage) {
    c128 *v = tc_tensor_data(&z);
    double largest = tc_dtype_largest(got->dtype);
    for (int64_t i = 0; i < tc_tensor_numel(&z); i++) v[i] = (c128){clip(v[i].re, largest), clip(v[i].im, largest)};
  }
  if (s == TC_OK && floats)
    s = compare_floats(got, tc_tensor_data(&x), tc_tensor_data(&y), z.storage ? tc_tensor_data(&z) : NULL, tol, out);
  else if (s == TC_OK) s = compare_integers(got, tc_tensor_data(&x), tc_tensor_data(&y), out);
  tc_tensor_unref(&x);
  tc_tensor_unref(&y);
  tc_tensor_unref(&z);
  return s;
}

// ---- With the references ----
// One graph on the references, by output: as they are, without rounding, and what rounding the inputs changes.
typedef struct ref_results {
  tc_graph *graph;
  int32_t n, n_inputs;
  tc_tensor *want, *wide, *spread, *inputs; // inputs: those of values
  bool tried, known;                        // the second and the third
} ref_results;

static ref_results results_of(tc_arena *arena, tc_graph *g, const tc_tensor *inputs) {
  int32_t n = g->outputs.count;
  ref_results r = {g,
                   n,
                   0,
                   TC_NEW_ARRAY(arena, tc_tensor, n),
                   TC_NEW_ARRAY(arena, tc_tensor, n),
                   TC_NEW_ARRAY(arena, tc_tensor, n),
                   TC_NEW_ARRAY(arena, tc_tensor, g->inputs.count),
                   false,
                   false};
  for (int32_t i = 0; i < g->inputs.count; i++)
    if (g->inputs.data[i].value) r.inputs[r.n_inputs++] = inputs[i];
  return r;
}

static bool find_spread(tc_context *c, const run_options *o, ref_results *r) {
  if (r->tried) return r->known;
  r->tried = true;
  tc_ref_options wide = {.wide = true, .seed = o->seed};
  tc_status s = tc_ref_run(r->graph, c->allocator, r->n_inputs, r->inputs, r->wide, &wide);
  if (s == TC_OK) s = tc_ref_spread(r->graph, c->allocator, r->n_inputs, r->inputs, r->wide, r->spread, &wide);
  r->known = s == TC_OK;
  tc_status_free(s); // what cannot be told does not excuse a difference
  return r->known;
}

static tc_status compare_one(tc_context *c, const run_options *o, ref_results *r, const tc_tensor *got, int32_t output,
                             difference *d) {
  tolerance t = tcrun_tolerance(o, got->dtype);
  tc_status s = tcrun_compare(c->allocator, got, &r->want[output], NULL, &t, d);
  if (tc_status_code(s) != TC_STATUS_MISMATCH || o->rtol >= 0 || o->atol >= 0) return s;
  if (!find_spread(c, o, r) || !r->spread[output].storage) return s;
  tc_status_free(s);
  t.spread = &r->spread[output];
  return tcrun_compare(c->allocator, got, &r->want[output], &r->wide[output], &t, d);
}

static tc_status run_ref(tc_context *c, run_options *o, const model *m, const tc_tensor *inputs,
                         const tc_tensor *outputs, difference *worst) {
  model own;
  tc_session *session = NULL;
  run_options plain = *o;
  if (m->program) plain.method = m->program->name;
  TC_TRY(tcrun_load_asked(c, &plain, m->path.data, &own));
  ref_results r = {0};
  tc_status s = tc_session_create(c, own.graph, TC_STAGE_EXEC, &session);
  if (s == TC_OK) {
    r = results_of(o->arena, own.graph, inputs);
    // The graph's inputs are the same, in order: passes do not touch them.
    s = tc_session_run(session, inputs, r.want, &(tc_session_run_options){.seed = o->seed});
  }
  for (int32_t leaf = 0; s == TC_OK && leaf < tcrun_user_outputs(m); leaf++) {
    const tc_tensor *got = &outputs[leaf];
    int32_t output = tcrun_output_of(&own, leaf);
    if (!got->storage || !r.want[output].storage) continue;
    difference d;
    s = tc_status_note(compare_one(c, o, &r, got, output, &d), "while comparing output %d with the references", leaf);
    if (d.rel_l2 > worst->rel_l2) *worst = d;
  }
  tcrun_free_tensors(r.want, r.n);
  tcrun_free_tensors(r.wide, r.n);
  tcrun_free_tensors(r.spread, r.n);
  tc_session_destroy(session);
  tcrun_unload(&own);
  return s;
}

bool tcrun_has_graph(const model *m) { return m->source.stage == TC_STAGE_GRAPH || !tc_sv_ends(m->path, ".tc"); }

tc_status tcrun_compare_with_ref(run_options *o, const model *m, const tc_tensor *inputs, const tc_tensor *outputs,
                                 difference *worst) {
  tc_context *c;
  *worst = (difference){0};
  if (!tcrun_has_graph(m))
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "a text of this stage holds no graph that the references could run");
  TC_TRY(tcrun_open_ref(o, &c));
  tc_status s = run_ref(c, o, m, inputs, outputs, worst);
  tc_context_destroy(c);
  return s;
}
