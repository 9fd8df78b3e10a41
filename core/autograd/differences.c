// The numerical gradient check: see differences.h.
//
// A direction perturbs all wanted inputs at once, as a random normal tensor; an error in any element shows in it almost
// surely. Central differences are taken for steps from 1e-2 down to 1e-6; where truncation and rounding balance two
// neighbouring steps agree best, and how well they agree bounds the error of the difference itself. Where x lies just
// at a kink (equal elements under a maximum) they agree on the mean of the slopes on both sides, at any step: these are
// compared, too, and how far they are apart bounds what may be missing. If the comparison fails, each input is
// perturbed by itself, so that the message names one.
#include "core/autograd/differences.h"

#include <float.h>
#include <math.h>

#include "core/autograd/autograd.h"
#include "core/ir/refexec.h"

enum { DIRECTIONS = 3, STEPS = 5 };
enum { HERE, UP, DOWN, SIDES };

typedef struct run_state {
  const tc_gradcheck *g;
  tc_graph *forward;
  tc_arena *arena; // the module's
  tc_joint joint;
  int32_t n_values; // inputs with a value; `at[i]`: the number among them of graph input i, or -1
  int32_t *at;
  bool *wanted;          // by graph input
  tc_tensor *x;          // by input with a value, wide and row-major
  tc_tensor *u;          // the direction: by input with a value
  tc_tensor *ct;         // by user output; without storage where it is not differentiable
  tc_tensor *grads;      // by graph input
  double **terms[SIDES]; // of the loss, by user output: at x, and on either side of it
  double **bends;        // how far the terms' slopes on both sides are apart
  int32_t n_outputs;
  uint64_t seed;
} run_state;

static int64_t parts_of(const tc_tensor *t) { return tc_tensor_numel(t) * (tc_dtype_is_complex(t->dtype) ? 2 : 1); }

static bool is_wide(const tc_tensor *t) { return t->storage && (t->dtype == TC_F64 || t->dtype == TC_C128); }

static tc_status random_like(run_state *r, const tc_tensor *like, tc_tensor *out) {
  TC_TRY(tc_tensor_create(r->g->allocator, like->dtype, like->rank, like->sizes, out));
  tc_tensor_fill_normal(&tc_executor_serial, out, r->seed++, 0, 1);
  return TC_OK;
}

// A direction for input i. Elements that lie in one place (strides of 0, windows) move together: the places are filled,
// and the elements read from there.
static tc_status direction(run_state *r, int32_t i, tc_tensor *out) {
  const tc_tensor_type *t = &r->forward->inputs.data[i].value->type;
  const tc_tensor *x = &r->x[r->at[i]];
  int64_t strides[TC_MAX_RANK], span = tc_tensor_numel(x) > 0;
  for (int32_t d = 0; d < t->rank; d++) {
    if (!tc_sym_is_const(t->strides[d])) return random_like(r, x, out);
    strides[d] = t->strides[d]->value;
    span += span ? (x->sizes[d] - 1) * strides[d] : 0;
  }
  tc_tensor places, seen;
  TC_TRY(tc_tensor_create(r->g->allocator, x->dtype, 1, &span, &places));
  tc_tensor_fill_normal(&tc_executor_serial, &places, r->seed++, 0, 1);
  tc_status s = tc_tensor_view(places.storage, x->dtype, x->rank, x->sizes, strides, 0, &seen);
  tc_tensor_unref(&places);
  TC_TRY(s);
  s = tc_tensor_create(r->g->allocator, x->dtype, x->rank, x->sizes, out);
  if (s == TC_OK) s = tc_tensor_copy(&seen, out);
  tc_tensor_unref(&seen);
  return s;
}

// Σ a·b over real parts and imaginary parts; *size: Σ |a·b|; terms: each a·b, or NULL.
static double dot(const tc_tensor *a, const tc_tensor *b, double *size, double *terms) {
  const double *p = tc_tensor_data(a), *q = tc_tensor_data(b);
  double sum = 0;
  for (int64_t i = 0; i < parts_of(a); i++) {
    sum += p[i] * q[i];
    *size += fabs(p[i] * q[i]);
    if (terms) terms[i] = p[i] * q[i];
  }
  return sum;
}

static tc_status widen(const run_state *r, const tc_tensor *from, tc_tensor *out) {
  char cls = tc_dtype_class(from->dtype);
  tc_dtype to = cls == 'f' ? TC_F64 : cls == 'c' ? TC_C128 : from->dtype;
  TC_TRY(tc_tensor_create(r->g->allocator, to, from->rank, from->sizes, out));
  return tc_tensor_copy(from, out);
}

static tc_status read_inputs(run_state *r, const tc_tensor *given) {
  tc_graph *g = r->forward;
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_graph_input *in = &g->inputs.data[i];
    if (r->at[i] < 0) continue;
    const tc_tensor *t = &given[i];
    const tc_map_entry *e = t->storage ? NULL : tc_map_find(g->module->bindings, in->target);
    if (e) t = &((const tc_binding *)e->value.ptr)->tensor;
    if (!t->storage)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "the input '" TC_SV_FMT "' is missing", TC_SV_ARG(in->target));
    TC_TRY(widen(r, t, &r->x[r->at[i]]));
  }
  return TC_OK;
}

typedef struct reference_run {
  run_state *r;
  tc_graph *graph;
  int32_t n;
  const tc_tensor *inputs;
  tc_tensor *outputs;
} reference_run;
static tc_status run_reference(void *arg) {
  reference_run *q = arg;
  tc_ref_options o = {.wide = true, .seed = q->r->g->seed};
  return tc_ref_run(q->graph, q->r->g->allocator, q->n, q->inputs, q->outputs, &o);
}

// The nth user output.
static const tc_tensor *user_output(const tc_graph *g, const tc_tensor *outputs, int32_t n) {
  for (int32_t i = 0; i < g->outputs.count; i++)
    if (g->outputs.data[i].kind == TC_OUT_USER && n-- == 0) return &outputs[i];
  return NULL;
}

static int32_t user_count(const tc_graph *g) {
  int32_t n = 0;
  for (int32_t i = 0; i < g->outputs.count; i++) n += g->outputs.data[i].kind == TC_OUT_USER;
  return n;
}

// Cotangents of an output, and room for its terms.
static tc_status start_output(run_state *r, const tc_tensor *v, int32_t k) {
  for (int32_t side = 0; side < SIDES; side++) r->terms[side][k] = TC_NEW_ARRAY(r->g->arena, double, parts_of(v) + 1);
  r->bends[k] = TC_NEW_ARRAY(r->g->arena, double, parts_of(v) + 1);
  return random_like(r, v, &r->ct[k]);
}

// The loss at r->x, its terms, and the sum of their sizes. Makes the cotangents in the first run.
static tc_status loss(run_state *r, bool first, int32_t side, double *out, double *size) {
  tc_graph *g = r->forward;
  int32_t n = g->outputs.count;
  tc_tensor *y = TC_NEW_ARRAY(r->g->arena, tc_tensor, n + 1);
  reference_run q = {r, g, r->n_values, r->x, y};
  TC_TRY(tc_arena_guard(r->arena, run_reference, &q));
  tc_status s = TC_OK;
  *out = 0, *size = 0;
  for (int32_t k = 0; k < user_count(g) && s == TC_OK; k++) {
    const tc_tensor *v = user_output(g, y, k);
    tc_tensor flat = {0};
    if (!is_wide(v) || r->joint.cotangents[k] < 0) continue;
    if (first) s = start_output(r, v, k);
    if (s == TC_OK) s = tc_tensor_contiguous(r->g->allocator, v, &flat);
    bool fits = s == TC_OK && parts_of(&flat) == parts_of(&r->ct[k]); // data may say another number of elements
    if (s == TC_OK) *out += fits ? dot(&flat, &r->ct[k], size, r->terms[side][k]) : NAN;
    tc_tensor_unref(&flat);
  }
  for (int32_t i = 0; i < n; i++) tc_tensor_unref(&y[i]);
  return s;
}

// What the joint graph says, as row-major tensors by graph input.
static tc_status run_joint(run_state *r) {
  tc_graph *g = r->joint.graph;
  int32_t n = g->outputs.count, count = r->n_values;
  tc_tensor *in = TC_NEW_ARRAY(r->g->arena, tc_tensor, g->inputs.count + 1),
            *y = TC_NEW_ARRAY(r->g->arena, tc_tensor, n + 1);
  for (int32_t i = 0; i < count; i++) in[i] = r->x[i];
  for (int32_t i = r->forward->inputs.count; i < g->inputs.count; i++)
    for (int32_t k = 0; k < user_count(r->forward); k++)
      if (r->joint.cotangents[k] == i) in[count++] = r->ct[k];
  reference_run q = {r, g, count, in, y};
  TC_TRY(tc_arena_guard(r->arena, run_reference, &q));
  tc_status s = TC_OK;
  for (int32_t i = 0; i < r->forward->inputs.count && s == TC_OK; i++)
    if (r->joint.gradients[i] >= 0) s = tc_tensor_contiguous(r->g->allocator, &y[r->joint.gradients[i]], &r->grads[i]);
  for (int32_t i = 0; i < n; i++) tc_tensor_unref(&y[i]);
  return s;
}

static void move(const run_state *r, int32_t only, double h, const double *const *start) {
  for (int32_t i = 0; i < r->forward->inputs.count; i++) {
    if (!r->wanted[i] || (only >= 0 && i != only)) continue;
    tc_tensor *x = &r->x[r->at[i]];
    double *p = tc_tensor_data(x);
    const double *u = tc_tensor_data(&r->u[r->at[i]]);
    for (int64_t k = 0; k < parts_of(x); k++) p[k] = start[i][k] + h * u[k];
  }
}

// How far the terms' slopes before x and behind it are apart, which differences across x take the mean of: in smooth
// ones by what shrinks with the step, in noise by what grows. `before`: those of the step before, ten times as long.
static double kinks(const run_state *r, double h, double *const *before) {
  double sum = 0;
  for (int32_t k = 0; k < user_count(r->forward); k++) {
    for (int64_t e = 0, n = r->ct[k].storage ? parts_of(&r->ct[k]) : 0; e < n; e++) {
      double up = r->terms[UP][k][e], here = r->terms[HERE][k][e], down = r->terms[DOWN][k][e];
      double bend = fabs(up - here - (here - down)) / h;
      double rounding = (fabs(up) + 2 * fabs(here) + fabs(down)) * DBL_EPSILON / h;
      if (bend > 10 * rounding && bend > 0.5 * before[k][e] && bend < 2 * before[k][e]) sum += bend;
      before[k][e] = bend;
    }
  }
  return sum;
}

// The slope along r->u by differences, how far it is to be trusted, and how far the slopes on both sides are apart.
static tc_status slope(run_state *r, int32_t only, const double *const *start, double *out, double *doubt,
                       double *kink) {
  static const double steps[STEPS] = {1e-2, 1e-3, 1e-4, 1e-5, 1e-6};
  double at[STEPS], near[STEPS];
  int32_t best = 0;
  *out = NAN, *doubt = INFINITY, *kink = 0;
  for (int32_t i = 0; i < STEPS; i++) {
    double up, down, size = 0, bent;
    move(r, only, steps[i], start);
    tc_status s = loss(r, false, UP, &up, &size);
    move(r, only, -steps[i], start);
    if (s == TC_OK) s = loss(r, false, DOWN, &down, &size);
    move(r, only, 0, start);
    TC_TRY(s);
    at[i] = (up - down) / (2 * steps[i]);
    // Terms of any size that do not depend on x (random integers) round the others away: steps that agree by chance.
    double rounding = size * DBL_EPSILON / steps[i];
    double apart = i ? fabs(at[i] - at[i - 1]) + rounding : INFINITY;
    bent = kinks(r, steps[i], r->bends);
    if (apart < *doubt) *doubt = apart, *out = at[i], *kink = bent, best = i;
    near[i] = apart;
  }
  // A staircase has one slope over many stairs and another one on each: what shorter steps agree on is nearer to the
  // limit. Noise agrees on nothing.
  for (int32_t i = best + 1; i < STEPS; i++)
    if (near[i] < 0.1 * fabs(at[i] - *out)) *doubt = fmax(*doubt, fabs(at[i] - *out));
  return TC_OK;
}

enum { AGREES, DIFFERS, OPEN };
static tc_status compare(run_state *r, int32_t only, const double *const *start, int32_t *verdict, double *error) {
  double want = 0, size = 0, have, doubt, kink;
  for (int32_t i = 0; i < r->forward->inputs.count; i++)
    if (r->wanted[i] && (only < 0 || i == only) && r->grads[i].storage)
      want += dot(&r->grads[i], &r->u[r->at[i]], &size, NULL);
  TC_TRY(slope(r, only, start, &have, &doubt, &kink));
  size += fabs(have);
  *error = fabs(have - want) / (size > 0 ? size : 1);
  // Rounding of the loss over the smallest step leaves 1e-9 or so of absolute noise.
  bool open = !isfinite(have) || !isfinite(want) || doubt > 1e-4 * (size + 1e-3);
  double off = fabs(have - want) - (1e-6 * size + 10 * doubt + 1e-8);
  *verdict = open || (off > 0 && off <= kink) ? OPEN : off <= 0 ? AGREES : DIFFERS;
  return TC_OK;
}

static tc_status make_joint(void *arg) {
  run_state *r = arg;
  return tc_autograd_joint(r->forward, r->wanted, &r->joint);
}

static tc_status name_the_input(run_state *r, const double *const *start, double error) {
  for (int32_t i = 0; i < r->forward->inputs.count; i++) {
    int32_t verdict;
    double own;
    if (!r->wanted[i]) continue;
    TC_TRY(compare(r, i, start, &verdict, &own));
    if (verdict == DIFFERS)
      return tc_error(TC_STATUS_MISMATCH,
                      "the gradient of input '" TC_SV_FMT "': relative error %.3g along a random direction",
                      TC_SV_ARG(r->forward->inputs.data[i].target), own);
  }
  return tc_error(TC_STATUS_MISMATCH, "the gradients: relative error %.3g along a random direction of all inputs",
                  error);
}

static tc_status check_prepared(run_state *r, const tc_tensor *given, tc_gradcheck_result *out) {
  tc_graph *g = r->forward;
  const double **start = TC_NEW_ARRAY(r->g->arena, const double *, g->inputs.count + 1);
  double value, size;
  int32_t decided = 0;
  bool any = false;
  TC_TRY(read_inputs(r, given));
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_tensor *x = r->at[i] >= 0 ? &r->x[r->at[i]] : NULL;
    r->wanted[i] =
        x && is_wide(x) && (g->inputs.data[i].kind == TC_IN_USER || g->inputs.data[i].kind == TC_IN_PARAMETER);
    any |= r->wanted[i];
    if (r->wanted[i]) start[i] = tc_arena_copy(r->g->arena, tc_tensor_data(x), (size_t)parts_of(x) * sizeof(double));
  }
  if (any) TC_TRY(tc_arena_guard(r->arena, make_joint, r));
  if (!any || r->joint.n_cotangents == 0) {
    out->undecided = "nothing is differentiable";
    return TC_OK;
  }
  TC_TRY(loss(r, true, HERE, &value, &size));
  if (!isfinite(value)) {
    out->undecided = "the results are not finite";
    return TC_OK;
  }
  TC_TRY(run_joint(r));
  for (int32_t k = 0; k < DIRECTIONS; k++) {
    int32_t verdict;
    double error;
    for (int32_t i = 0; i < g->inputs.count; i++) {
      if (!r->wanted[i]) continue;
      tc_tensor *u = &r->u[r->at[i]];
      tc_tensor_unref(u);
      TC_TRY(direction(r, i, u));
    }
    TC_TRY(compare(r, -1, start, &verdict, &error));
    if (verdict == DIFFERS) return name_the_input(r, start, error);
    decided += verdict == AGREES;
    if (verdict == AGREES) out->worst = fmax(out->worst, error);
  }
  if (decided) out->order++;
  else out->undecided = "it is not smooth here";
  return TC_OK;
}

static tc_status check_order(const tc_gradcheck *q, tc_graph *g, const tc_tensor *given, uint64_t seed, run_state *r,
                             tc_gradcheck_result *out) {
  int32_t n = g->inputs.count;
  *r = (run_state){.g = q, .forward = g, .arena = g->module->arena, .seed = seed};
  r->at = TC_NEW_ARRAY(q->arena, int32_t, n + 1);
  for (int32_t i = 0; i < n; i++) r->at[i] = g->inputs.data[i].value ? r->n_values++ : -1;
  r->wanted = TC_NEW_ARRAY(q->arena, bool, n + 1);
  r->x = TC_NEW_ARRAY(q->arena, tc_tensor, r->n_values + 1);
  r->u = TC_NEW_ARRAY(q->arena, tc_tensor, r->n_values + 1);
  r->grads = TC_NEW_ARRAY(q->arena, tc_tensor, n + 1);
  r->n_outputs = user_count(g);
  r->ct = TC_NEW_ARRAY(q->arena, tc_tensor, r->n_outputs + 1);
  for (int32_t side = 0; side < SIDES; side++) r->terms[side] = TC_NEW_ARRAY(q->arena, double *, r->n_outputs + 1);
  r->bends = TC_NEW_ARRAY(q->arena, double *, r->n_outputs + 1);
  return check_prepared(r, given, out);
}

static void release_all(tc_tensor *t, int32_t n) {
  for (int32_t i = 0; t && i < n; i++) tc_tensor_unref(&t[i]);
}

static void release(run_state *r) {
  release_all(r->x, r->n_values);
  release_all(r->u, r->n_values);
  release_all(r->ct, r->n_outputs);
  release_all(r->grads, r->forward->inputs.count);
}

// The joint graph's own inputs: those of the graph, then the cotangents.
static tc_status check_second(const tc_gradcheck *q, const run_state *first, tc_gradcheck_result *out) {
  tc_graph *g = first->joint.graph;
  tc_tensor *given = TC_NEW_ARRAY(q->arena, tc_tensor, g->inputs.count + 1);
  for (int32_t i = 0; i < first->forward->inputs.count; i++)
    if (first->at[i] >= 0) given[i] = first->x[first->at[i]];
  for (int32_t k = 0; k < first->n_outputs; k++)
    if (first->joint.cotangents[k] >= 0) given[first->joint.cotangents[k]] = first->ct[k];
  run_state second;
  tc_status s = check_order(q, g, given, q->seed + 1000, &second, out);
  release(&second);
  if (tc_status_code(s) != TC_STATUS_UNIMPLEMENTED) return tc_status_note(s, "in second order");
  tc_status_free(s);
  out->undecided = "an op has no derivative of second order";
  return TC_OK;
}

tc_status tc_gradcheck_run(const tc_gradcheck *q, int32_t order, tc_gradcheck_result *out) {
  run_state first;
  *out = (tc_gradcheck_result){0};
  tc_status s = check_order(q, q->graph, q->inputs, q->seed, &first, out);
  out->n_ops = first.joint.n_ops, out->ops = first.joint.ops;
  if (s == TC_OK && order > 1 && out->order == 1) s = check_second(q, &first, out);
  release(&first);
  return s;
}
