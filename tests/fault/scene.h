// A model from archive to results through one allocator, step by step, so that tests can fail any step and see what
// stays behind. Programs that use this lie in build/tests: plugins and modes are found beside them as users' are.
#ifndef TC_TESTS_FAULT_SCENE_H_
#define TC_TESTS_FAULT_SCENE_H_

#include <math.h>

#include "core/frontends/pt2/pt2.h"
#include "core/runtime/session.h"
#include "tests/unit/unit.h"

enum { SCENE_MAX = 64 }; // inputs, outputs

typedef struct scene {
  tc_context *context;
  tc_pt2 *archive;
  tc_program *program;
  tc_tensor_list samples;
  tc_session *session;
  tc_tensor inputs[SCENE_MAX];
} scene;

typedef struct scene_options {
  const char *model, *backend, *mode;
  const char *cache;   // NULL: caches are off
  const char *plugins; // absolute folders with plugins; NULL: those beside the program
} scene_options;

static inline tc_status scene_configure(const scene_options *o, tc_config *config) {
  TC_TRY(tc_config_set(config, TC_SV("backend"), tc_sv_of(o->backend), "test"));
  TC_TRY(tc_config_set(config, TC_SV("mode"), tc_sv_of(o->mode), "test"));
  TC_TRY(tc_config_set(config, TC_SV("threads"), TC_SV("2"), "test"));
  if (o->cache) TC_TRY(tc_config_set(config, TC_SV("cache.dir"), tc_sv_of(o->cache), "test"));
  else TC_TRY(tc_config_set(config, TC_SV("cache.enabled"), TC_SV("false"), "test"));
  if (o->plugins) TC_TRY(tc_config_set(config, TC_SV("plugins.path"), tc_sv_of(o->plugins), "test"));
  return tc_config_apply_mode(config);
}

static inline tc_status scene_context(const tc_allocator *a, const scene_options *o, tc_context **out) {
  tc_config *config;
  TC_TRY(tc_config_create(a, &config));
  tc_status s = scene_configure(o, config);
  if (s != TC_OK) {
    tc_config_destroy(config);
    return s;
  }
  TC_TRY(tc_context_create(a, config, tc_logger_silent, out)); // owns the config, also when it fails
  return tc_context_open_backend(*out);
}

// Everything up to a session that can run. Whatever comes of it, scene_close must follow.
static inline tc_status scene_open(const tc_allocator *a, const scene_options *o, scene *x) {
  *x = (scene){0};
  TC_TRY(scene_context(a, o, &x->context));
  tc_pt2_options po = {.allocator = a};
  TC_TRY(tc_pt2_open(o->model, x->context->ops, &po, &x->archive));
  TC_TRY(tc_pt2_load(x->archive, 0, &x->program));
  TC_TRY(tc_pt2_sample_inputs(x->archive, x->program, &x->samples));
  const tc_program *p = x->program;
  if (p->graph->inputs.count > SCENE_MAX || p->graph->outputs.count > SCENE_MAX)
    return tc_error(TC_STATUS_OUT_OF_RANGE, "more inputs or outputs than these tests have room for");
  for (int32_t i = 0; i < p->inputs.count; i++) {
    const tc_tensor *t = tc_tensor_list_find(&x->samples, p->inputs.data[i].name);
    if (t) x->inputs[p->inputs.data[i].index] = *t; // borrowed from the list
  }
  return tc_session_create(x->context, p->graph, TC_STAGE_EXEC, &x->session);
}

// outputs: SCENE_MAX, zeroed; to be given to scene_drop.
static inline tc_status scene_run(scene *x, tc_tensor *outputs) {
  return tc_session_run(x->session, x->inputs, outputs, NULL);
}

static inline void scene_drop(tc_tensor *outputs) {
  for (int i = 0; i < SCENE_MAX; i++) tc_tensor_unref(&outputs[i]);
}

static inline void scene_close(scene *x) {
  tc_session_destroy(x->session);
  tc_tensor_list_free(&x->samples);
  tc_program_destroy(x->program);
  tc_pt2_close(x->archive);
  tc_context_destroy(x->context);
}

// The number of elements that differ by more than rounding; -1 if the shapes do.
static inline int64_t scene_differences(const tc_tensor *got, const tc_tensor *want) {
  if (got->rank != want->rank || got->dtype != want->dtype) return -1;
  for (int32_t d = 0; d < got->rank; d++)
    if (got->sizes[d] != want->sizes[d]) return -1;
  int64_t n = tc_tensor_numel(got), wrong = 0;
  for (int64_t k = 0; k < n; k++) {
    int64_t index[TC_MAX_RANK], rest = k;
    for (int32_t d = got->rank - 1; d >= 0; d--) index[d] = rest % got->sizes[d], rest /= got->sizes[d];
    double re, im, re0, im0;
    tc_tensor_get(got, index, &re, &im);
    tc_tensor_get(want, index, &re0, &im0);
    wrong += !(hypot(re - re0, im - im0) <= 1e-4 * (1 + hypot(re0, im0)));
  }
  return wrong;
}

static inline int64_t scene_all_differences(const scene *x, const tc_tensor *got, const tc_tensor *want) {
  int64_t wrong = 0;
  for (int32_t i = 0; i < x->program->graph->outputs.count; i++) {
    if (!got[i].storage != !want[i].storage) return -1;
    int64_t here = got[i].storage ? scene_differences(&got[i], &want[i]) : 0;
    if (here < 0) return -1;
    wrong += here;
  }
  return wrong;
}

#endif
