// The small runtime (tc/rt.h): a context without ops, templates and passes, and artifacts run in it.
#include "tc/rt.h"

#include <stdio.h>
#include <string.h>

#include "core/plugin/host.h"
#include "core/runtime/artifact.h"

struct tc_rt {
  tc_context *context;
};
struct tc_rt_program {
  tc_artifact *artifact;
};

const char *tc_rt_version(void) { return TC_CORE_VERSION; }

// ---- errors ----
// As errno, it belongs to the thread.
static _Thread_local char last_error[2048];

static int32_t fail(tc_status s) {
  int32_t code = tc_status_code(s);
  if (code != TC_STATUS_OK) snprintf(last_error, sizeof last_error, "%s", tc_status_text(s));
  tc_status_free(s);
  return code;
}

const char *tc_rt_last_error(void) { return last_error; }

// ---- opening ----
static tc_status configure(tc_config *c, const char *const *settings, int32_t n) {
  TC_TRY(tc_config_read_environment(c, NULL));
  for (int32_t i = 0; i < n; i++) TC_TRY(tc_config_set_pair(c, tc_sv_of(settings[i]), "tc_rt_open"));
  // Code is in the artifacts: nothing is looked for on disk, nothing is left there.
  return tc_config_set(c, TC_SV("cache.enabled"), TC_SV("false"), "libtc_rt");
}

static tc_status open_context(const char *const *settings, int32_t n, tc_context **out) {
  tc_config *config;
  TC_TRY(tc_config_create(tc_system_allocator(), &config));
  tc_status s = configure(config, settings, n);
  if (s != TC_OK) {
    tc_config_destroy(config);
    return s;
  }
  tc_context_parts parts = {.tables = {.op = &tc_host_op}};
  return tc_context_create_with(tc_system_allocator(), config, (tc_logger){.write = tc_log_to_stderr}, &parts, out);
}

int32_t tc_rt_open(const char *const *settings, int32_t n, tc_rt **out) {
  tc_rt *rt = tc_alloc(tc_system_allocator(), sizeof *rt);
  if (!rt) return fail(tc_error_out_of_memory());
  int32_t code = fail(open_context(settings, n, &rt->context));
  if (code != TC_STATUS_OK) {
    tc_free(tc_system_allocator(), rt);
    return code;
  }
  *out = rt;
  return code;
}

void tc_rt_close(tc_rt *rt) {
  if (!rt) return;
  tc_context_destroy(rt->context);
  tc_free(tc_system_allocator(), rt);
}

// ---- programs ----
int32_t tc_rt_load(tc_rt *rt, const char *path, const char *name, tc_rt_program **out) {
  tc_rt_program *p = tc_alloc(tc_system_allocator(), sizeof *p);
  if (!p) return fail(tc_error_out_of_memory());
  int32_t code = fail(tc_artifact_open(rt->context, path, name ? tc_sv_of(name) : (tc_sv){0}, NULL, &p->artifact));
  if (code != TC_STATUS_OK) {
    tc_free(tc_system_allocator(), p);
    return code;
  }
  *out = p;
  return code;
}

void tc_rt_unload(tc_rt_program *p) {
  if (!p) return;
  tc_artifact_close(p->artifact);
  tc_free(tc_system_allocator(), p);
}

int32_t tc_rt_changes_state(const tc_rt_program *p) { return tc_artifact_changes_state(p->artifact); }
int32_t tc_rt_input_count(const tc_rt_program *p) { return p->artifact->n_inputs; }
int32_t tc_rt_output_count(const tc_rt_program *p) { return p->artifact->n_outputs; }

static void describe(const tc_artifact *a, const tc_tensor_type *t, tc_rt_info *out) {
  out->dtype = t->dtype, out->rank = t->rank;
  for (int32_t d = 0; d < t->rank; d++) {
    out->sizes[d] = tc_sym_is_const(t->sizes[d]) ? t->sizes[d]->value : -1;
    out->example[d] = tc_sym_hint_or(a->program.module->syms, t->sizes[d], -1);
  }
}

// Another executable of the program: where its sizes are others, the caller chooses.
static void describe_too(const tc_tensor_type *t, tc_rt_info *out) {
  for (int32_t d = 0; d < t->rank && d < out->rank; d++)
    if (!tc_sym_is_const(t->sizes[d]) || t->sizes[d]->value != out->sizes[d]) out->sizes[d] = -1;
}

// Numbers are tensors without dimensions.
static tc_dtype number_dtype(int32_t kind) {
  return kind == TC_VALUE_FLOAT ? TC_F64 : kind == TC_VALUE_BOOL ? TC_BOOL : TC_I64;
}

int32_t tc_rt_input(const tc_rt_program *p, int32_t i, tc_rt_info *out) {
  const tc_artifact *a = p->artifact;
  if (i < 0 || i >= a->n_inputs) return fail(tc_error(TC_STATUS_OUT_OF_RANGE, "input %d of %d", i, a->n_inputs));
  const tc_value *v = a->graph->inputs.data[a->inputs[i].index].value;
  *out = (tc_rt_info){.name = a->inputs[i].name.data};
  if (v->kind == TC_VALUE_TENSOR) describe(a, &v->type, out);
  else out->dtype = number_dtype(v->kind);
  for (int32_t k = 0; k < a->n_others; k++) {
    v = tc_image_graph(&a->others[k].image)->inputs.data[a->inputs[i].index].value;
    if (v->kind == TC_VALUE_TENSOR) describe_too(&v->type, out);
  }
  return TC_STATUS_OK;
}

static bool is_tensor(const tc_arg *o) { return o->value && o->value->kind == TC_VALUE_TENSOR; }

int32_t tc_rt_output(const tc_rt_program *p, int32_t i, tc_rt_info *out) {
  const tc_artifact *a = p->artifact;
  if (i < 0 || i >= a->n_outputs) return fail(tc_error(TC_STATUS_OUT_OF_RANGE, "output %d of %d", i, a->n_outputs));
  const tc_arg *o = &a->graph->outputs.data[a->outputs[i].index].arg;
  *out = (tc_rt_info){.name = a->outputs[i].name.data};
  if (is_tensor(o)) describe(a, &o->value->type, out);
  else if (o->value) out->dtype = number_dtype(o->value->kind);
  else out->dtype = o->kind == TC_AK_FLOAT ? TC_F64 : o->kind == TC_AK_BOOL ? TC_BOOL : TC_I64;
  for (int32_t k = 0; k < a->n_others; k++) {
    o = &tc_image_graph(&a->others[k].image)->outputs.data[a->outputs[i].index].arg;
    if (is_tensor(o)) describe_too(&o->value->type, out);
  }
  return TC_STATUS_OK;
}

// ---- runs ----
void tc_rt_row_major(tc_rt_tensor *t) {
  if (t->rank >= 0 && t->rank <= TC_MAX_RANK) tc_contiguous_strides(t->rank, t->sizes, t->strides);
}

static tc_status take(const tc_rt_tensor *t, tc_tensor *out) {
  int64_t last = 0, size = tc_dtype_size(t->dtype);
  bool empty = false;
  if (t->rank < 0 || t->rank > TC_MAX_RANK || size == 0)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "dtype %d of rank %d is no tensor", t->dtype, t->rank);
  for (int32_t d = 0; d < t->rank; d++) {
    int64_t far;
    if (t->sizes[d] < 0 || t->strides[d] < 0)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "a negative size or stride at index %d", d);
    empty |= t->sizes[d] == 0;
    if (!empty &&
        (__builtin_mul_overflow(t->sizes[d] - 1, t->strides[d], &far) || __builtin_add_overflow(last, far, &last)))
      return tc_error(TC_STATUS_OUT_OF_RANGE, "its sizes and strides overflow");
  }
  int64_t bytes = 0;
  if (!empty && (__builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, size, &bytes)))
    return tc_error(TC_STATUS_OUT_OF_RANGE, "its sizes and strides overflow");
  if (!t->data && bytes) return tc_error(TC_STATUS_INVALID_ARGUMENT, "it has no data");
  tc_storage *s;
  TC_TRY(tc_storage_wrap(tc_system_allocator(), t->data, (size_t)bytes, NULL, NULL, &s));
  tc_status status = tc_tensor_view(s, t->dtype, t->rank, t->sizes, t->strides, 0, out);
  tc_storage_unref(s);
  return status;
}

// Lazy bits are resolved: C has no place for them.
static tc_status give(tc_tensor *t, tc_rt_tensor *out) {
  tc_tensor plain;
  if (!t->storage) return TC_OK; // nothing, in the model's own words
  if (t->conj || t->neg) {
    TC_TRY(tc_tensor_contiguous(tc_system_allocator(), t, &plain));
    tc_tensor_unref(t);
    *t = plain;
  }
  *out = (tc_rt_tensor){.dtype = t->dtype, .rank = t->rank, .data = tc_tensor_data(t), .owner = t->storage};
  for (int32_t d = 0; d < t->rank; d++) out->sizes[d] = t->sizes[d], out->strides[d] = t->strides[d];
  *t = (tc_tensor){0};
  return TC_OK;
}

static tc_status run(tc_artifact *a, const tc_rt_tensor *inputs, tc_rt_tensor *outputs, uint64_t seed, tc_tensor *in,
                     tc_tensor *out) {
  for (int32_t i = 0; i < a->n_inputs; i++)
    TC_TRY(take(&inputs[i], &in[i]), "input '" TC_SV_FMT "'", TC_SV_ARG(a->inputs[i].name));
  TC_TRY(tc_artifact_run(a, in, out, &(tc_session_run_options){.write_back = true, .seed = seed}));
  for (int32_t i = 0; i < a->n_outputs; i++) TC_TRY(give(&out[i], &outputs[i]));
  return TC_OK;
}

int32_t tc_rt_run(tc_rt_program *p, const tc_rt_tensor *inputs, tc_rt_tensor *outputs, uint64_t seed) {
  tc_artifact *a = p->artifact;
  int32_t n = a->n_inputs + a->n_outputs;
  tc_tensor *all = tc_alloc(tc_system_allocator(), (size_t)(n + 1) * sizeof *all);
  if (!all) return fail(tc_error_out_of_memory());
  for (int32_t i = 0; i < a->n_outputs; i++) outputs[i] = (tc_rt_tensor){0};
  int32_t code = fail(run(a, inputs, outputs, seed, all, all + a->n_inputs));
  for (int32_t i = 0; i < n; i++) tc_tensor_unref(&all[i]);
  for (int32_t i = 0; code != TC_STATUS_OK && i < a->n_outputs; i++) tc_rt_release(&outputs[i]);
  tc_free(tc_system_allocator(), all);
  return code;
}

void tc_rt_release(tc_rt_tensor *t) {
  if (!t || !t->owner) return;
  tc_storage_unref(t->owner);
  *t = (tc_rt_tensor){0};
}
