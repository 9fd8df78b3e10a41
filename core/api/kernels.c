// Kernels that embedders write by hand, and the question whether a backend is there.
#include "core/api/internal.h"
#include "core/ir/opargs.h"
#include "core/ir/userop.h"

// ---- functions on the host ----
// What the definitions of one call of tc_kernel_define_on_host share; in the context's arena.
typedef struct host_kernel {
  tc_context *c;
  tc_host_kernel run;
  void *self;
} host_kernel;

// The references' wide values as a tensor, which lasts as long as they do.
static tc_status as_tensor(const tc_context *c, const tc_ref_view *v, tc_tensor *out) {
  tc_storage *s;
  size_t bytes = (size_t)tc_dtype_size(v->dtype);
  for (int32_t d = 0; d < v->rank; d++) {
    if (v->sizes[d] == 0) bytes = 0;
    else if (bytes) bytes += (size_t)(v->sizes[d] - 1) * (size_t)v->strides[d] * (size_t)tc_dtype_size(v->dtype);
  }
  TC_TRY(tc_storage_wrap(c->allocator, v->data, bytes, NULL, NULL, &s));
  tc_status status = tc_tensor_view(s, v->dtype, v->rank, v->sizes, v->strides, 0, out);
  tc_storage_unref(s);
  return status;
}

// A tensor of the op's own dtype beside wide values, with them in it or to be filled; the scope's.
static tc_status own_tensor(tc_context *c, const tc_ref_view *v, bool filled, tc_tensor **out) {
  tc_tensor wide, own;
  *out = NULL;
  TC_TRY(as_tensor(c, v, &wide));
  tc_status s = tc_tensor_create(c->allocator, v->nominal, v->rank, v->sizes, &own);
  if (s == TC_OK) {
    s = filled ? tc_tensor_copy(&wide, &own) : TC_OK;
    if (s != TC_OK) tc_tensor_unref(&own);
    else if (!(*out = api_wrap(c, own))) s = tc_error_out_of_memory();
  }
  tc_tensor_unref(&wide);
  return s;
}

static tc_status give_back(tc_context *c, const tc_tensor *own, const tc_ref_view *v) {
  tc_tensor wide;
  TC_TRY(as_tensor(c, v, &wide));
  tc_status s = tc_tensor_copy(own, &wide);
  tc_tensor_unref(&wide);
  return s;
}

// Arguments of ops with kernels by hand are tensors and numbers.
static tc_status take_argument(tc_context *c, const tc_op_args *a, int32_t i, tc_argument *out) {
  const tc_ref_view *view = tc_op_data(a, i);
  *out = tc_arg_nothing();
  switch (tc_op_kind(a, i)) {
  case TC_AK_INT: *out = tc_scalar_int(tc_op_int(a, i, 0)); return TC_OK;
  case TC_AK_BOOL: *out = tc_scalar_bool(tc_op_bool(a, i, 0)); return TC_OK;
  case TC_AK_FLOAT: *out = tc_scalar_real(tc_op_float(a, i, 0)); return TC_OK;
  default:
    out->kind = TC_ARGUMENT_TENSOR;
    return view ? own_tensor(c, view, true, &out->v.tensor) : tc_error_out_of_memory();
  }
}

static tc_status call_host(const host_kernel *h, tc_op_args *a, tc_argument *args, tc_tensor **results) {
  tc_context *c = h->c;
  int32_t n = tc_op_result_count(a);
  for (int32_t i = 0; i < a->n_args; i++) TC_TRY(take_argument(c, a, i, &args[i]));
  for (int32_t i = 0; i < n; i++) {
    const tc_ref_view *view = tc_op_result_data(a, i);
    if (!view) return tc_error_out_of_memory();
    TC_TRY(own_tensor(c, view, false, &results[i]));
  }
  // What the function reads are values, also where its op is part of what a thread records.
  api_trace *trace = api_set_current_trace(NULL);
  int32_t code = h->run(h->self, a->op->full_name.data, a->n_args, args, n, results);
  api_set_current_trace(trace);
  if (code != TC_STATUS_OK)
    return tc_error(code, "the function on the host for " TC_SV_FMT " failed", TC_SV_ARG(a->op->full_name));
  for (int32_t i = 0; i < n; i++) TC_TRY(give_back(c, results[i], tc_op_result_data(a, i)));
  return TC_OK;
}

// Its tensors are a scope's of its own: none is left, also when it fails.
static int32_t run_host(tc_op_args *a) {
  const host_kernel *h = a->op->user->host;
  const tc_allocator *allocator = h->c->allocator;
  tc_argument *args = tc_alloc(allocator, sizeof *args * (size_t)(a->n_args + 1));
  tc_tensor **results = tc_alloc(allocator, sizeof *results * (size_t)(tc_op_result_count(a) + 1));
  tc_scope *scope = args && results ? tc_scope_open() : NULL;
  tc_status s = scope ? call_host(h, a, args, results) : tc_error_out_of_memory();
  if (scope) tc_scope_close(scope);
  tc_free(allocator, args);
  tc_free(allocator, results);
  return s == TC_OK ? TC_STATUS_OK : tc_op_keep(a, s);
}

// ---- definitions ----
typedef struct definition {
  tc_context *c;
  const char *text;
  const host_kernel *host; // NULL: none
} definition;

static tc_status define(void *arg) {
  const definition *d = arg;
  tc_user_device device = tc_context_user_device(d->c);
  if (d->host) {
    device.host = tc_arena_copy(d->c->arena, d->host, sizeof *d->host);
    device.reference = run_host;
  }
  return tc_context_define(d->c, TC_SV("definition"), tc_sv_of(d->text), &device);
}

int32_t tc_kernel_define(tc_context *c, const char *text) {
  definition d = {c, text, NULL};
  return api_fail(tc_arena_guard(c->arena, define, &d));
}

int32_t tc_kernel_define_on_host(tc_context *c, const char *text, tc_host_kernel run, void *self) {
  if (!run) return api_fail_text(TC_STATUS_INVALID_ARGUMENT, "tc_kernel_define_on_host: there is no function");
  const host_kernel host = {c, run, self};
  definition d = {c, text, &host};
  return api_fail(tc_arena_guard(c->arena, define, &d));
}

int32_t tc_has_backend(const tc_context *c, const char *name) {
  tc_plugin *p;
  int32_t count = 0;
  if (tc_sv_is(TC_SV("ref"), name)) return 1;
  if (!*name) return 0;
  tc_status s = tc_plugins_find_device(c->plugins, tc_sv_of(name), &p);
  if (s == TC_OK)
    s = tc_plugin_status(p, p->device->enumerate(p->host, &count), "while looking for devices of '%s'", name);
  bool there = s == TC_OK && count > 0;
  tc_status_free(s);
  return there;
}
