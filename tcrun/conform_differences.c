// tcrun conform: derivatives against central differences in double precision, on the references.
//
// Of L = Re Σ conj(ct)·y, with cotangents from the kit's seed, the joint graph gives ∂L/∂x (for complex x the pair of
// ∂L/∂Re x and ∂L/∂Im x); a few elements of each input are moved by ±h. With h = 1e-5 the quotient is off by h² and by
// the rounding of L over h, both near 1e-10; kinks that lie between the two points would show, and random inputs have
// none there.
#include <math.h>

#include "tcrun/conform_program.h"

enum { ELEMENTS = 6 };
static const double STEP = 1e-5, ALLOWED = 1e-5;

static bool has_gradient(tc_dtype d) { return d == TC_F64 || d == TC_C128; }

static tc_status loss_of(kit_ready *forward, const tc_tensor *inputs, const tc_tensor *cotangents, double *out) {
  TC_TRY(kit_run_ready(forward, inputs));
  *out = 0;
  for (int32_t i = 0, n = 0; i < forward->n_user; i++) {
    const tc_tensor *y = &forward->user[i], *ct = &cotangents[n];
    int64_t index[TC_MAX_RANK] = {0};
    if (!has_gradient(y->dtype)) continue;
    n++;
    for (int64_t left = tc_tensor_numel(y); left > 0; left--) {
      double a[2] = {0, 0}, b[2] = {0, 0};
      tc_tensor_get(y, index, &a[0], &a[1]);
      tc_tensor_get(ct, index, &b[0], &b[1]);
      *out += a[0] * b[0] + a[1] * b[1];
      for (int32_t d = y->rank - 1; d >= 0 && ++index[d] == y->sizes[d]; d--) index[d] = 0;
    }
  }
  return TC_OK;
}

// One component of one element of a contiguous input: moved, the loss taken, and put back.
static tc_status difference_at(kit_ready *forward, tc_tensor *inputs, int32_t input, int64_t at, const tc_tensor *ct,
                               double *out) {
  double *x = tc_tensor_data(&inputs[input]), keep = x[at], up, down;
  x[at] = keep + STEP;
  tc_status s = loss_of(forward, inputs, ct, &up);
  x[at] = keep - STEP;
  if (s == TC_OK) s = loss_of(forward, inputs, ct, &down);
  x[at] = keep;
  if (s == TC_OK) *out = (up - down) / (2 * STEP);
  return s;
}

static tc_status compare_input(kit *k, kit_ready *forward, tc_tensor *inputs, int32_t input, const tc_tensor *ct,
                               const tc_tensor *gradient) {
  int32_t parts = inputs[input].dtype == TC_C128 ? 2 : 1;
  int64_t n = tc_tensor_numel(&inputs[input]) * parts;
  tc_tensor flat;
  if (!n) return TC_OK;
  TC_TRY(tc_tensor_contiguous(tc_system_allocator(), gradient, &flat));
  const double *have = tc_tensor_data(&flat);
  tc_status s = TC_OK;
  for (int32_t i = 0; i < ELEMENTS && s == TC_OK; i++) {
    int64_t at = (int64_t)(kit_random(k) % (uint64_t)n);
    double want = 0;
    s = difference_at(forward, inputs, input, at, ct, &want);
    if (s == TC_OK && !(fabs(have[at] - want) <= ALLOWED * (1 + fabs(want))))
      s = tc_error(TC_STATUS_MISMATCH, "the derivative by input %d is %.9g at element %lld, by differences %.9g",
                   (int)input, have[at], (long long)(at / parts), want);
  }
  tc_tensor_unref(&flat);
  return s;
}

static tc_status compare_all(kit *k, tc_context *c, kit_ready *forward, kit_ready *joint, tc_tensor **out_inputs) {
  tc_tensor *inputs;
  TC_TRY(kit_inputs(k, c, joint, 0, out_inputs));
  inputs = *out_inputs;
  TC_TRY(kit_run_ready(forward, inputs)); // the joint graph's first inputs are its inputs
  TC_TRY(kit_run_ready(joint, inputs));
  int32_t n = forward->m.graph->inputs.count, gradient = forward->n_user;
  for (int32_t i = 0; i < n; i++) {
    if (!has_gradient(inputs[i].dtype)) continue;
    KIT_CHECK(gradient < joint->n_user, "input %d has no derivative", (int)i);
    TC_TRY(compare_input(k, forward, inputs, i, &inputs[n], &joint->user[gradient++]));
  }
  return TC_OK;
}

tc_status kit_differences(kit *k, const char *text) {
  kit_ready forward = {.n = 0}, joint = {.n = 0};
  tc_tensor *inputs = NULL;
  tc_context *c;
  TC_TRY(kit_references(k, &c));
  tc_status s = kit_make_ready(k->arena, c, text, 0, &forward);
  if (s == TC_OK) s = kit_make_ready(k->arena, c, text, KIT_GRAD, &joint);
  if (s == TC_OK) s = compare_all(k, c, &forward, &joint, &inputs);
  if (inputs) tcrun_free_tensors(inputs, joint.m.graph->inputs.count);
  kit_close_ready(&forward);
  kit_close_ready(&joint);
  return tc_status_note(s, "in the program\n%s", text);
}
