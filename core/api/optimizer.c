// Optimizers of the embedder's API (tc/tc.h): one compiled function that takes parameters, gradients and state, and
// writes parameters and state in place.
//
// Sources: SGD with momentum as in PyTorch (Sutskever et al. 2013 without damping); Kingma and Ba (2015) for Adam with
// bias correction; Loshchilov and Hutter (2019) for decay by itself; clipping by the norm of all gradients (Pascanu et
// al. 2013); scaling of the loss by powers of two that follow what overflows (Micikevicius et al. 2018; intervals as in
// torch.amp.GradScaler). The rate, the number of steps and the scale are tensors, so that none makes a second program.
#include <string.h>

#include "core/api/internal.h"

#include "tc/ops.h"

struct tc_optimizer {
  tc_context *context;
  tc_optimizer_options options;
  int32_t n, n_moments; // per parameter
  int32_t n_behind;     // RATE and STEPS, with scaling SCALE and GOOD
  tc_tensor **inputs;   // parameters, gradients, moments (n_moments × n), what is behind
  tc_function *function;
};

enum { RATE, STEPS, SCALE, GOOD /* steps since the scale was changed */ };
static int32_t input_count(const tc_optimizer *o) { return (2 + o->n_moments) * o->n + o->n_behind; }
static tc_tensor *behind(const tc_optimizer *o, int32_t which) {
  return o->inputs[input_count(o) - o->n_behind + which];
}

// x·k by ops; numbers are wrapped.
static tc_tensor *times(tc_tensor *x, double k) { return k == 1 ? x : tc_aten_mul_Scalar(x, tc_scalar_real(k)); }
static tc_tensor *plus(tc_tensor *x, tc_tensor *y) { return tc_aten_add_Tensor(x, y, tc_scalar_int(1)); }

// What is stored; where the gradients have overflowed (`valid` is false) all stays as it was.
static void store(tc_tensor *to, tc_tensor *x, tc_tensor *valid) {
  if (valid) x = tc_aten_where_self(valid, tc_aten_to_dtype(x, tc_dtype_of(to), 0, 0, 0), to);
  tc_aten_copy_(to, x, 0);
}
static void take(tc_tensor *from, tc_tensor *change, tc_tensor *valid) {
  if (valid) store(from, tc_aten_sub_Tensor(from, change, tc_scalar_int(1)), valid);
  else tc_aten_sub__Tensor(from, change, tc_scalar_int(1));
}

// The factor that brings the norm of all gradients, each times `by` (NULL: 1), down to the limit; with that factor.
static tc_tensor *clip_factor(const tc_optimizer *o, tc_tensor *const *gradients, tc_tensor *by) {
  tc_tensor *sum = NULL;
  for (int32_t i = 0; i < o->n; i++) {
    tc_tensor *g = tc_aten_to_dtype(gradients[i], TC_F32, 0, 0, 0);
    if (by) g = tc_aten_mul_Tensor(g, by);
    tc_tensor *square = tc_aten_sum(tc_aten_mul_Tensor(g, g), TC_DTYPE_NONE);
    sum = sum ? plus(sum, square) : square;
  }
  tc_tensor *norm = tc_aten_add_Scalar(tc_aten_sqrt(sum), tc_scalar_real(1e-6), tc_scalar_int(1));
  tc_tensor *factor = tc_aten_clamp_max(tc_aten_mul_Scalar(tc_aten_reciprocal(norm), tc_scalar_real(o->options.clip)),
                                        tc_scalar_real(1));
  return by ? tc_aten_mul_Tensor(factor, by) : factor;
}

static void sgd(const tc_optimizer *o, tc_tensor *p, tc_tensor *g, tc_tensor *momentum, tc_tensor *rate,
                tc_tensor *valid) {
  if (momentum) {
    tc_tensor *next = plus(times(momentum, o->options.momentum), g);
    store(momentum, next, valid);
    g = o->options.nesterov ? plus(g, times(next, o->options.momentum)) : next;
  }
  take(p, tc_aten_mul_Tensor(g, rate), valid);
}

// Bias corrections are 1 - βⁿ for step n.
static void adam(const tc_optimizer *o, tc_tensor *p, tc_tensor *g, tc_tensor *m, tc_tensor *v, tc_tensor *rate,
                 tc_tensor *step, tc_tensor *valid) {
  const tc_optimizer_options *q = &o->options;
  tc_tensor *m1 = plus(times(m, q->beta1), times(g, 1 - q->beta1));
  tc_tensor *v1 = plus(times(v, q->beta2), times(tc_aten_mul_Tensor(g, g), 1 - q->beta2));
  store(m, m1, valid);
  store(v, v1, valid);
  tc_tensor *c1 = tc_aten_rsub_Scalar(tc_aten_pow_Scalar(o->context, tc_scalar_real(q->beta1), step), tc_scalar_int(1),
                                      tc_scalar_int(1)),
            *c2 = tc_aten_rsub_Scalar(tc_aten_pow_Scalar(o->context, tc_scalar_real(q->beta2), step), tc_scalar_int(1),
                                      tc_scalar_int(1));
  tc_tensor *size =
      tc_aten_add_Scalar(tc_aten_sqrt(tc_aten_div_Tensor(v1, c2)), tc_scalar_real(q->epsilon), tc_scalar_int(1));
  tc_tensor *change = tc_aten_mul_Tensor(tc_aten_div_Tensor(tc_aten_div_Tensor(m1, c1), size), rate);
  if (q->kind == TC_ADAMW && q->decay != 0)
    change = plus(change, tc_aten_mul_Tensor(times(tc_aten_to_dtype(p, tc_dtype_of(m), 0, 0, 0), q->decay), rate));
  take(p, change, valid);
}

// Are all elements of all gradients finite?
static tc_tensor *all_finite(const tc_optimizer *o, tc_tensor *const *gradients) {
  tc_tensor *all = NULL;
  for (int32_t i = 0; i < o->n; i++) {
    tc_tensor *x = tc_aten_all(tc_aten_isfinite(gradients[i]));
    all = all ? tc_aten_logical_and(all, x) : x;
  }
  return all;
}

// Halved where something overflowed, doubled after so many steps in which nothing did.
static void change_scale(const tc_optimizer *o, tc_tensor *scale, tc_tensor *good, tc_tensor *valid) {
  tc_tensor *next = tc_aten_add_Scalar(good, tc_scalar_int(1), tc_scalar_int(1));
  tc_tensor *grows = tc_aten_ge_Scalar(next, tc_scalar_int(o->options.interval));
  tc_tensor *larger = tc_aten_where_self(grows, times(scale, 2), scale);
  tc_tensor *zero = tc_aten_mul_Scalar(good, tc_scalar_int(0));
  tc_tensor *count = tc_aten_where_self(tc_aten_logical_or(grows, tc_aten_logical_not(valid)), zero, next);
  tc_tensor *to = tc_aten_where_self(valid, larger, times(scale, 0.5));
  tc_aten_copy_(scale, to, 0);
  tc_aten_copy_(good, count, 0);
}

static int32_t body(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  const tc_optimizer *o = self;
  (void)n_out;
  tc_tensor *const *p = in, *const *g = in + o->n, *const *moments = g + o->n, *const *rest = in + n_in - o->n_behind;
  tc_tensor *step = tc_aten_add_Scalar(rest[STEPS], tc_scalar_int(1), tc_scalar_int(1));
  tc_tensor *valid = o->options.scale > 0 ? all_finite(o, g) : NULL, *by = NULL;
  if (valid) by = tc_aten_reciprocal(rest[SCALE]);
  tc_tensor *factor = o->options.clip > 0 ? clip_factor(o, g, by) : by;
  for (int32_t i = 0; i < o->n; i++) {
    tc_dtype wide = tc_dtype_of(p[i]) == TC_F64 ? TC_F64 : TC_F32;
    tc_tensor *x = tc_aten_to_dtype(g[i], wide, 0, 0, 0);
    if (factor) x = tc_aten_mul_Tensor(x, factor);
    if (o->options.kind != TC_ADAMW && o->options.decay != 0)
      x = plus(x, times(tc_aten_to_dtype(p[i], wide, 0, 0, 0), o->options.decay));
    if (o->options.kind == TC_SGD) sgd(o, p[i], x, o->n_moments ? moments[i] : NULL, rest[RATE], valid);
    else adam(o, p[i], x, moments[i], moments[o->n + i], rest[RATE], step, valid);
  }
  store(rest[STEPS], step, valid);
  if (valid) change_scale(o, rest[SCALE], rest[GOOD], valid);
  out[0] = step;
  return tc_last_code();
}

static tc_tensor *zeros(tc_context *c, tc_dtype dtype, int32_t rank, const int64_t *sizes) {
  tc_tensor *t = tc_new_tensor(c, dtype, rank, sizes);
  if (t) memset(tc_data_of(t), 0, (size_t)(tc_numel_of(t) * tc_dtype_size(dtype)));
  return t;
}

// Keeps a reference of its own.
static bool keep(tc_tensor **place, tc_tensor *t) {
  *place = t ? tc_retain(t) : NULL;
  return t != NULL;
}

static int32_t make_state(tc_optimizer *o, tc_tensor *const *parameters) {
  int32_t n = o->n, all = input_count(o);
  for (int32_t i = 0; i < n; i++) {
    tc_tensor *p = parameters[i];
    if (!p || !tc_dtype_is_float(tc_dtype_of(p)))
      return api_fail_text(TC_STATUS_INVALID_ARGUMENT, "parameter %d is no tensor of floats", i);
    tc_dtype wide = tc_dtype_of(p) == TC_F64 ? TC_F64 : TC_F32;
    keep(&o->inputs[i], p);
    for (int32_t k = 0; k < o->n_moments; k++)
      if (!keep(&o->inputs[(2 + k) * n + i], zeros(o->context, wide, p->rank, p->sizes))) return tc_last_code();
  }
  for (int32_t i = all - o->n_behind; i < all; i++)
    if (!keep(&o->inputs[i], zeros(o->context, TC_F32, 0, NULL))) return tc_last_code();
  float *scale = o->options.scale > 0 ? tc_data_of(behind(o, SCALE)) : NULL;
  if (scale) *scale = (float)o->options.scale;
  return tc_optimizer_set_rate(o, o->options.rate);
}

int32_t tc_optimizer_create(tc_context *c, const tc_optimizer_options *q, int32_t n, tc_tensor *const *parameters,
                            tc_optimizer **out) {
  *out = NULL;
  if (!q || q->struct_size != sizeof *q || q->kind < TC_SGD || q->kind > TC_ADAMW || n < 1)
    return api_fail_text(TC_STATUS_INVALID_ARGUMENT, "tc_optimizer_create: the options are not those of this version");
  tc_optimizer *o = tc_alloc(c->allocator, sizeof *o);
  if (!o) return api_fail(tc_error_out_of_memory());
  *o = (tc_optimizer){.context = c, .options = *q, .n = n};
  if (o->options.beta1 == 0) o->options.beta1 = 0.9;
  if (o->options.beta2 == 0) o->options.beta2 = 0.999;
  if (o->options.epsilon == 0) o->options.epsilon = 1e-8;
  if (o->options.interval == 0) o->options.interval = 2000;
  o->n_behind = q->scale > 0 ? 4 : 2;
  o->n_moments = q->kind != TC_SGD ? 2 : q->momentum != 0 ? 1 : 0;
  size_t size = (size_t)input_count(o) * sizeof(*o->inputs);
  o->inputs = tc_alloc(c->allocator, size);
  if (o->inputs) memset(o->inputs, 0, size);
  tc_scope *scope = o->inputs ? tc_scope_open() : NULL;
  int32_t code = scope ? make_state(o, parameters) : api_fail(tc_error_out_of_memory());
  tc_scope_close(scope);
  tc_compile_options how = {.struct_size = sizeof how,
                            .name = "optimizer",
                            .n_inputs = input_count(o),
                            .n_outputs = 1,
                            .dynamic = TC_DYNAMIC_NEVER};
  if (code == TC_STATUS_OK) code = tc_compile(c, body, o, &how, &o->function);
  if (code == TC_STATUS_OK) *out = o;
  else tc_optimizer_destroy(o);
  return code;
}

int32_t tc_optimizer_step(tc_optimizer *o, tc_tensor *const *gradients) {
  if (tc_last_code() != TC_STATUS_OK) return tc_last_code();
  for (int32_t i = 0; i < o->n; i++) {
    if (!gradients[i]) return api_fail_text(TC_STATUS_INVALID_ARGUMENT, "the gradient of parameter %d is missing", i);
    o->inputs[o->n + i] = gradients[i];
  }
  tc_scope *scope = tc_scope_open();
  if (!scope) return tc_last_code();
  tc_tensor *step;
  int32_t before = tc_set_grad_enabled(0), code = tc_call(o->function, o->inputs, &step);
  tc_set_grad_enabled(before);
  tc_scope_close(scope);
  for (int32_t i = 0; i < o->n; i++) api_note_write(o->inputs[i]);
  for (int32_t i = 0; i < o->n; i++) o->inputs[o->n + i] = NULL;
  return code;
}

int32_t tc_optimizer_set_rate(tc_optimizer *o, double rate) {
  float *at = tc_data_of(behind(o, RATE));
  if (!at) return tc_last_code();
  *at = (float)rate;
  return TC_STATUS_OK;
}

// Steps, moments, and with scaling the scale and the steps it has held.
int32_t tc_optimizer_state(tc_optimizer *o, int32_t capacity, tc_tensor **tensors, int32_t *n) {
  int32_t moments = o->n * o->n_moments, count = 1 + moments + o->n_behind - SCALE;
  *n = count;
  for (int32_t i = 0; tensors && i < count && i < capacity; i++) {
    tc_tensor *t = i == 0         ? behind(o, STEPS)
                   : i <= moments ? o->inputs[2 * o->n + i - 1]
                                  : behind(o, SCALE + i - 1 - moments);
    tensors[i] = tc_retain(t);
    if (!api_adopt(tensors[i])) return tc_last_code();
  }
  return TC_STATUS_OK;
}

tc_tensor *tc_optimizer_scale(tc_optimizer *o) {
  if (o->options.scale <= 0) {
    api_fail_text(TC_STATUS_INVALID_ARGUMENT, "tc_optimizer_scale: the optimizer was made without one");
    return NULL;
  }
  tc_tensor *t = tc_retain(behind(o, SCALE));
  return api_adopt(t) ? t : NULL;
}

void tc_optimizer_destroy(tc_optimizer *o) {
  if (!o) return;
  tc_function_destroy(o->function);
  for (int32_t i = 0; o->inputs && i < input_count(o); i++) tc_release(o->inputs[i]);
  tc_free(o->context->allocator, (void *)o->inputs);
  tc_free(o->context->allocator, o);
}
