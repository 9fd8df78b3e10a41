// Artifacts of the embedder's API (tc/tc.h): what was compiled ahead of time, on tensors of a context.
#include "core/runtime/artifact.h"

enum { STREAMS = 1 << 16 }; // of random numbers, more than a program has nodes that draw some

#include "core/api/internal.h"

int32_t tc_artifact_load(tc_context *c, const char *path, const char *program, tc_artifact **out) {
  return api_fail(tc_artifact_open(c, path, program ? tc_sv_of(program) : (tc_sv){0}, tc_tcx_compile, out));
}

void tc_artifact_unload(tc_artifact *a) { tc_artifact_close(a); }
int32_t tc_artifact_input_count(const tc_artifact *a) { return a->n_inputs; }
int32_t tc_artifact_output_count(const tc_artifact *a) { return a->n_outputs; }

static int32_t take(const char *here, const tc_artifact *a, tc_tensor *const *inputs, tc_tensor *values) {
  for (int32_t i = 0; i < a->n_inputs; i++) {
    const char *name = a->inputs[i].name.data;
    if (!inputs[i]) return api_fail_text(TC_STATUS_INVALID_ARGUMENT, "input '%s' is missing", name);
    if (!api_readable(here, "an artifact is called", inputs[i], tc_artifact_writes_inputs(a))) return tc_last_code();
    values[i] = *inputs[i]; // borrowed for the run
  }
  return TC_STATUS_OK;
}

int32_t tc_artifact_call_at(const char *here, tc_artifact *a, tc_tensor *const *inputs, tc_tensor **outputs) {
  tc_context *c = a->context;
  for (int32_t i = 0; i < a->n_outputs; i++) outputs[i] = NULL;
  tc_tensor *values = tc_alloc(c->allocator, (size_t)(a->n_inputs + a->n_outputs + 1) * sizeof *values);
  if (!values) return api_fail(tc_error_out_of_memory());
  tc_tensor *made = values + a->n_inputs;
  int32_t code = take(here, a, inputs, values);
  tc_session_run_options o = {.write_back = true};
  tc_context_draw(c, STREAMS, &o.seed, &o.stream);
  api_note_effect(); // it may have state
  if (code == TC_STATUS_OK) code = api_fail(tc_artifact_run(a, values, made, &o));
  for (int32_t i = 0; i < a->n_outputs; i++) {
    bool wanted = code == TC_STATUS_OK && made[i].storage;
    if (!wanted) tc_tensor_unref(&made[i]);
    else if (!(outputs[i] = api_wrap(c, made[i]))) code = tc_last_code();
  }
  for (int32_t i = 0; code != TC_STATUS_OK && i < a->n_outputs; i++) {
    tc_release(outputs[i]);
    outputs[i] = NULL;
  }
  tc_free(c->allocator, values);
  return code;
}
