// Programs of artifacts for embedders: finding a device, opening, running by the user's inputs and outputs.
#include "core/runtime/artifact.h"

#include <string.h>

static tc_status set_backend(tc_context *c, tc_sv kind) {
  TC_TRY(tc_config_set(c->config, TC_SV("backend"), kind, "the artifact"));
  return tc_context_open_backend(c);
}

typedef struct listing {
  const tc_tcx *x;
  tc_sv name;
  tc_arena *arena;
  tc_status status;
} listing;
static tc_status list(void *arg) {
  listing *l = arg;
  tc_sb sb = tc_sb_make(l->arena);
  tc_tcx_list(l->x, &sb);
  l->status =
      tc_error(TC_STATUS_NOT_FOUND, "the file has no program '" TC_SV_FMT "'; it has:%s", TC_SV_ARG(l->name), sb.text);
  return TC_OK;
}
static tc_status not_there(const tc_allocator *a, const tc_tcx *x, tc_sv name) {
  listing l = {.x = x, .name = name};
  tc_status s = tc_arena_create(a, &l.arena);
  if (s == TC_OK) s = tc_arena_guard(l.arena, list, &l);
  tc_arena_destroy(l.arena);
  return s == TC_OK ? l.status : s;
}

static tc_status find_device(const tc_artifact *a, const tc_tcx *x, tc_sv name) {
  tc_context *c = a->context;
  if (c->device || c->is_ref) return TC_OK;
  if (!tc_sv_is(tc_config_text(c->config, TC_OPT_ID_BACKEND), "auto")) return tc_context_open_backend(c);
  tc_status s = not_there(c->allocator, x, name);
  for (int32_t i = 0; i < tc_tcx_count(x); i++) {
    const tc_tcx_info *p = tc_tcx_at(x, i);
    if ((name.size && !tc_sv_eq(p->name, name)) || (!a->compile && !p->has_plan)) continue;
    tc_status_free(s);
    s = set_backend(c, p->backend);
    if (s == TC_OK) return TC_OK;
  }
  return s;
}

static tc_status describe(void *arg) {
  tc_artifact *a = arg;
  tc_arena *arena = a->program.module->arena;
  const tc_graph *g = a->graph = tc_session_graph(a->session);
  tc_tcx_leaf *inputs = TC_NEW_ARRAY(arena, tc_tcx_leaf, a->program.n_inputs);
  tc_tcx_leaf *outputs = TC_NEW_ARRAY(arena, tc_tcx_leaf, g->outputs.count);
  for (int32_t i = 0; i < a->program.n_inputs; i++) {
    const tc_value *v = g->inputs.data[a->program.inputs[i].index].value;
    if (v && v->kind != TC_VALUE_TOKEN)
      inputs[a->n_inputs++] =
          (tc_tcx_leaf){tc_sv_of(tc_sv_z(arena, a->program.inputs[i].name)), a->program.inputs[i].index};
  }
  for (int32_t i = 0; i < g->outputs.count; i++)
    if (g->outputs.data[i].kind == TC_OUT_USER)
      outputs[a->n_outputs++] = (tc_tcx_leaf){tc_sv_of(tc_sv_z(arena, g->outputs.data[i].target)), i};
  a->inputs = inputs, a->outputs = outputs;
  return TC_OK;
}

// ---- sessions ----
static tc_status of_images(tc_artifact *a, const tc_tcx *x, int32_t i) {
  tc_context *c = a->context;
  TC_TRY(tc_tcx_refused(x, i, c, tc_session_create_image(c, &a->program.image, &a->session)));
  for (int32_t k = 0; k < a->n_others; k++) TC_TRY(tc_session_add_images(a->session, 1, &a->others[k].image));
  return TC_OK;
}

static int32_t what_more(const tc_artifact *a) { return a->compiled ? TC_TCX_OTHER_TEXTS : TC_TCX_OPEN_TEXTS; }

static tc_status make_more(void *self, tc_session **out) {
  tc_artifact *a = self;
  tc_log(&a->context->logger, TC_LOG_PERF_HINTS, "compiled again: no executable of the artifact takes these inputs");
  return a->compile(a->context, &a->program, what_more(a), &a->late, out);
}

static tc_status compile_text(tc_artifact *a, tc_status why) {
  if (why != TC_OK) tc_log(&a->context->logger, TC_LOG_PERF_HINTS, "compiled again: %s", tc_status_text(why));
  tc_status_free(why);
  tc_session_destroy(a->session);
  a->session = NULL;
  return a->compile(a->context, &a->program, TC_TCX_OWN_TEXT, &a->compiled, &a->session);
}

static tc_status open_program(tc_artifact *a, const tc_tcx *x, tc_sv name) {
  tc_context *c = a->context;
  TC_TRY(find_device(a, x, name));
  int32_t i = tc_tcx_find(x, name, c->backend);
  if (i < 0) i = tc_tcx_find(x, name, TC_SV("")); // the check says which there is
  if (i < 0) return not_there(c->allocator, x, name);
  bool again = a->compile && tc_tcx_at(x, i)->has_graph;
  tc_status s = tc_tcx_check(x, i, c);
  if (s == TC_OK && !again && !tc_tcx_at(x, i)->has_plan)
    s = tc_error(TC_STATUS_UNIMPLEMENTED,
                 "the program '" TC_SV_FMT "' for " TC_SV_FMT " is a text: only the whole compiler runs it",
                 TC_SV_ARG(name), TC_SV_ARG(c->backend));
  if (s != TC_OK && !again) return s;
  tc_status read = tc_tcx_load(x, i, (s == TC_OK ? TC_TCX_PLAN : 0) | TC_TCX_TENSORS, &a->program);
  // Damage is said, not mended by compiling.
  if (read == TC_OK && a->program.image.n_plans) read = tc_tcx_load_others(x, i, &a->others, &a->n_others);
  if (read != TC_OK) {
    tc_status_free(s);
    return read;
  }
  if (a->program.image.n_plans) s = of_images(a, x, i);
  if (again && (s != TC_OK || !a->program.image.n_plans) && tc_status_code(s) != TC_STATUS_OUT_OF_MEMORY)
    s = compile_text(a, s);
  TC_TRY(s);
  if (again && tc_tcx_has_text(&a->program, what_more(a)))
    tc_session_set_more(a->session, &(tc_session_more){make_more, a});
  return tc_arena_guard(a->program.module->arena, describe, a);
}

tc_status tc_artifact_open(tc_context *c, const char *path, tc_sv name, tc_artifact_compile compile,
                           tc_artifact **out) {
  tc_tcx *x;
  TC_TRY(tc_tcx_open(c->allocator, path, &x));
  tc_artifact *a = tc_alloc(c->allocator, sizeof *a);
  tc_status s = a ? TC_OK : tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for an artifact");
  if (a) {
    a->context = c, a->compile = compile;
    s = tc_status_note(open_program(a, x, name), "while loading '%s'", path);
  }
  tc_tcx_close(x);
  if (s != TC_OK) {
    tc_artifact_close(a);
    return s;
  }
  *out = a;
  return TC_OK;
}

void tc_artifact_close(tc_artifact *a) {
  if (!a) return;
  tc_session_destroy(a->session);
  tc_module_destroy(a->compiled);
  tc_module_destroy(a->late);
  tc_tcx_unload_all(a->context->allocator, a->others, a->n_others);
  tc_tcx_unload(&a->program);
  tc_free(a->context->allocator, a);
}

tc_status tc_artifact_run(tc_artifact *a, const tc_tensor *inputs, tc_tensor *outputs,
                          const tc_session_run_options *o) {
  size_t n_in = (size_t)a->graph->inputs.count, n_out = (size_t)a->graph->outputs.count;
  tc_tensor *all = tc_alloc(a->context->allocator, (n_in + n_out + 1) * sizeof *all), *results = all + n_in;
  if (!all) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a run");
  for (int32_t i = 0; i < a->n_inputs; i++) all[a->inputs[i].index] = inputs[i];
  tc_status s = tc_session_run(a->session, all, results, o);
  if (s == TC_OK) {
    for (int32_t i = 0; i < a->n_outputs; i++) {
      outputs[i] = results[a->outputs[i].index];
      results[a->outputs[i].index] = (tc_tensor){0};
    }
    for (size_t i = 0; i < n_out; i++) tc_tensor_unref(&results[i]);
  }
  tc_free(a->context->allocator, all);
  return s;
}

static bool has_output(const tc_artifact *a, int32_t kind, int32_t or_kind) {
  for (int32_t i = 0; i < a->graph->outputs.count; i++) {
    int32_t k = a->graph->outputs.data[i].kind;
    if (k == kind || k == or_kind) return true;
  }
  return false;
}

bool tc_artifact_changes_state(const tc_artifact *a) {
  return has_output(a, TC_OUT_BUFFER_MUTATION, TC_OUT_PARAMETER_MUTATION);
}
bool tc_artifact_writes_inputs(const tc_artifact *a) {
  return has_output(a, TC_OUT_INPUT_MUTATION, TC_OUT_INPUT_MUTATION);
}
