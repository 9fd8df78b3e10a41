// The pipeline.
#include "core/runtime/compile.h"

#include "core/base/fs.h"
#include "core/passes/passes.h"

static const char *const stage_names[TC_STAGE_COUNT] = {"graph", "functional", "loop", "schedule", "kernel", "plan", "code", "exec"};
const char *tc_stage_name(int32_t stage) { return stage_names[stage]; }
int32_t tc_stage_parse(tc_sv name) {
  for (int32_t i = 0; i < TC_STAGE_COUNT; i++) {
    if (tc_sv_is(name, stage_names[i])) return i;
  }
  return -1;
}

static tc_status run_passes(tc_context *c, tc_graph *g) {
  static const tc_pass *const passes[] = {&tc_pass_decompose};
  tc_pass_options o = {.logger = &c->logger, .verify = tc_config_bool(c->config, TC_OPT_ID_VERIFY), .skip = tc_config_text(c->config, TC_OPT_ID_PASS_SKIP)};
  o.stop_after = (int32_t)tc_config_int(c->config, TC_OPT_ID_PASS_STOP);
  return tc_run_passes(g, passes, sizeof passes / sizeof *passes, 4, &o);
}

typedef struct job {
  tc_context *c;
  tc_graph *g;
  int32_t last;
  tc_compiled *out;
} job;

static void tick(job *j, int32_t stage, double *t) {
  double now = tc_now_ms();
  j->out->ms[stage] = now - *t;
  *t = now;
}

static tc_status compile(void *arg) {
  job *j = arg;
  tc_context *c = j->c;
  tc_compiled *x = j->out;
  double t = tc_now_ms();
  x->graph = j->g;
  if (j->last == TC_STAGE_GRAPH) return TC_OK;
  TC_TRY(run_passes(c, j->g));
  tick(j, TC_STAGE_FUNCTIONAL, &t);
  if (j->last == TC_STAGE_FUNCTIONAL) return TC_OK;
  tc_lower_options lo = {.logger = &c->logger, .templates = &c->templates};
  TC_TRY(tc_lower_graph(j->g, &lo, &x->loops));
  tick(j, TC_STAGE_LOOP, &t);
  if (j->last == TC_STAGE_LOOP) return TC_OK;
  if (!c->device) return tc_error(TC_STATUS_INVALID_ARGUMENT, "the backend '" TC_SV_FMT "' has no stage '%s'", TC_SV_ARG(c->backend), stage_names[j->last]);
  tc_schedule_options so = {.logger = &c->logger, .device = &c->device->props, .fuse = tc_config_bool(c->config, TC_OPT_ID_FUSE), .max_group = (int32_t)tc_config_int(c->config, TC_OPT_ID_FUSION_MAX_NODES)};
  TC_TRY(tc_schedule_loops(x->loops, &so, &x->schedule));
  tick(j, TC_STAGE_SCHEDULE, &t);
  if (j->last == TC_STAGE_SCHEDULE) return TC_OK;
  tc_emit_options eo = {.logger = &c->logger, .device = &c->device->props};
  TC_TRY(tc_plan_build(x->schedule, &eo, &x->plan));
  tick(j, TC_STAGE_PLAN, &t);
  if (j->last < TC_STAGE_EXEC) return TC_OK;
  TC_TRY(tc_exec_create(c->device, x->plan, &x->exec, &x->stats));
  tick(j, TC_STAGE_EXEC, &t);
  return TC_OK;
}

tc_status tc_compile_graph(tc_context *c, tc_graph *g, int32_t last, tc_compiled *out) {
  *out = (tc_compiled){0};
  job j = {c, g, last, out};
  tc_status s = tc_arena_guard(g->module->arena, compile, &j);
  if (s != TC_OK) tc_compiled_free(out);
  return s;
}

void tc_compiled_free(tc_compiled *x) {
  tc_exec_destroy(x->exec);
  x->exec = NULL;
}

tc_status tc_compiled_text(tc_context *c, const tc_compiled *x, int32_t stage, tc_sb *sb) {
  switch (stage) {
  case TC_STAGE_GRAPH: case TC_STAGE_FUNCTIONAL: tc_graph_print(sb, x->graph); return TC_OK;
  case TC_STAGE_LOOP: tc_loops_print(sb, x->loops); return TC_OK;
  case TC_STAGE_SCHEDULE: tc_schedule_print(sb, x->schedule); return TC_OK;
  case TC_STAGE_PLAN: tc_plan_print(sb, x->plan); return TC_OK;
  case TC_STAGE_KERNEL:
    for (int32_t i = 0; i < x->plan->kernels.count; i++) tc_kernel_print(sb, x->plan->kernels.data[i]->kernel);
    return TC_OK;
  case TC_STAGE_CODE:
    for (int32_t i = 0; i < x->plan->kernels.count; i++) {
      tc_sv text;
      TC_TRY(tc_device_code_text(c->device, sb->arena, x->plan->kernels.data[i]->kernel, &text));
      tc_sb_put(sb, text);
    }
    return TC_OK;
  default: return tc_error(TC_STATUS_UNIMPLEMENTED, "stage '%s' has no text form", stage_names[stage]);
  }
}
