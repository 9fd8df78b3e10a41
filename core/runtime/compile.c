// The pipeline: graph passes, loops, schedule, kernels and plan, executable. What a mode leaves out is decided here,
// from the options that its file sets (DESIGN: modes).
#include "core/runtime/compile.h"

#include "core/autograd/autograd.h"
#include "core/base/fs.h"
#include "core/base/profile.h"
#include "core/ir/userop.h"
#include "core/passes/autocast.h"
#include "core/passes/passes.h"
#include "core/runtime/call_convolution.h"
#include "core/runtime/call_epilogue.h"
#include "core/runtime/tune.h"

static const char *const stage_names[TC_STAGE_COUNT] = {"graph",  "functional", "loop", "schedule",
                                                        "kernel", "plan",       "code", "exec"};
const char *tc_stage_name(int32_t stage) { return stage_names[stage]; }
int32_t tc_stage_parse(tc_sv name) {
  for (int32_t i = 0; i < TC_STAGE_COUNT; i++) {
    if (tc_sv_is(name, stage_names[i])) return i;
  }
  return -1;
}

// Passes that lowering needs in every mode. The others improve the graph, which a mode that runs it as it is leaves
// out.
static bool is_needed(const tc_pass *p) {
  return p == &tc_pass_functionalize || p == &tc_pass_storage || p == &tc_pass_decompose;
}

tc_status tc_compile_autocast(const tc_context *c, tc_graph *g) {
  tc_sv to = tc_config_text(c->config, TC_OPT_ID_AUTOCAST), lists = tc_config_text(c->config, TC_OPT_ID_AUTOCAST_LISTS);
  if (tc_sv_is(to, "off")) return TC_OK;
  tc_autocast_options o = {.to = tc_sv_is(to, "f16") ? TC_F16 : TC_BF16};
  o.accelerator = tc_sv_is(lists, "accelerator");
  return tc_autocast(g, &o);
}

static tc_status choose_layouts(const tc_context *c, tc_graph *g) {
  tc_sv layouts = tc_config_text(c->config, TC_OPT_ID_LAYOUTS);
  bool always = tc_sv_is(layouts, "channels_last"), simd = c->device && c->device->props.simd_bytes;
  return always || (simd && tc_sv_is(layouts, "auto")) ? tc_channels_last(g, always) : TC_OK;
}

tc_status tc_compile_passes(tc_context *c, tc_graph *g) {
  int32_t n, kept = 0;
  TC_TRY(tc_autograd_requests(g));
  const tc_pass *const *all = tc_standard_passes(&n);
  const tc_pass **passes = TC_NEW_ARRAY(g->module->arena, const tc_pass *, n);
  bool improve = tc_config_bool(c->config, TC_OPT_ID_FUNCTIONALIZE);
  bool freeze = tc_config_bool(c->config, TC_OPT_ID_FREEZE);
  for (int32_t i = 0; i < n; i++) {
    if (all[i] == &tc_pass_weights && !freeze) continue;
    if (improve || is_needed(all[i])) passes[kept++] = all[i];
  }
  tc_pass_options o = {.logger = &c->logger, .verify = tc_config_bool(c->config, TC_OPT_ID_VERIFY)};
  o.skip = tc_config_text(c->config, TC_OPT_ID_PASS_SKIP);
  o.stop_after = (int32_t)tc_config_int(c->config, TC_OPT_ID_PASS_STOP);
  TC_TRY(tc_run_passes(g, passes, kept, 4, &o));
  if (o.stop_after == 0) TC_TRY(choose_layouts(c, g));
  static const tc_pass *const last = &tc_pass_reinplace; // behind it no node is moved
  if (o.stop_after == 0) TC_TRY(tc_run_passes(g, &last, 1, 1, &o));
  for (tc_node *n = g->first; n; n = n->next)
    for (int32_t i = 0; i < n->n_args; i++)
      if (n->args[i].kind == TC_AK_GRAPH && n->args[i].graph)
        TC_TRY(tc_compile_passes(c, n->args[i].graph), "in the region @" TC_SV_FMT, TC_SV_ARG(n->args[i].graph->name));
  return TC_OK;
}

static void tick(const tc_context *c, tc_compiled *x, int32_t stage, double *t) {
  double now = tc_now_ms();
  x->ms[stage] = now - *t;
  tc_profile_span(c->profile, "compile", tc_sv_of(stage_names[stage]), *t, now);
  *t = now;
}

// For the folder of a compilation: what the next stage works on is not what this one made.
static tc_status keep_text(tc_context *c, tc_compiled *x, int32_t stage, double *t) {
  if (!tc_debug_wanted(c)) return TC_OK;
  tc_sb sb = tc_sb_make(x->graph->module->arena);
  TC_TRY(tc_compiled_text(c, x, stage, &sb));
  x->texts[stage] = tc_sb_view(&sb);
  *t = tc_now_ms();
  return TC_OK;
}

static bool verifies(const tc_context *c) { return tc_config_bool(c->config, TC_OPT_ID_VERIFY); }

tc_call_choice tc_call_choice_of(const tc_context *c) {
  tc_sv policy = tc_config_text(c->config, TC_OPT_ID_CALLS);
  tc_call_choice q = {.device = c->device, .policy = TC_CALLS_AUTO};
  if (!c->device || tc_sv_is(policy, "never")) q.policy = TC_CALLS_NEVER;
  else if (tc_sv_is(policy, "always") || !c->device->codegen) q.policy = TC_CALLS_ALWAYS;
  return q;
}

static tc_status make_loops(tc_context *c, tc_compiled *x) {
  tc_call_choice choice = tc_call_choice_of(c);
  tc_sb notes = tc_sb_make(x->graph->module->arena);
  choice.notes = &notes, choice.trial = x->trial;
  tc_lower_options lo = {.logger = &c->logger, .templates = &c->templates, .results = x->results, .self = &choice};
  lo.fixed_from = x->fixed_from;
  if (choice.policy != TC_CALLS_NEVER)
    lo.call_supported = tc_exec_call_supported, lo.call_preferred = tc_exec_call_preferred;
  lo.calls_only = c->device && !c->device->codegen;
  lo.pairs = c->device ? c->device->props.pairs : 0;
  lo.simd_bytes = c->device ? c->device->props.simd_bytes : 0;
  lo.on_chip = lo.simd_bytes ? c->device->props.shared_bytes : 0;
  lo.lock_step = c->device && !c->device->props.simd_bytes && c->device->props.subgroup > 1;
  TC_TRY(tc_lower_graph(x->graph, &lo, &x->loops));
  x->choices = tc_sb_view(&notes);
  return verifies(c) ? tc_status_note(tc_loops_verify(x->loops), "after the stage 'loop'") : TC_OK;
}

// A region keeps nothing from run to run, a loop's body something from turn to turn.
static bool is_frozen(const tc_context *c, const tc_compiled *x) {
  return (!x->results || x->fixed_from) && tc_config_bool(c->config, TC_OPT_ID_FREEZE);
}

static tc_status make_schedule(tc_context *c, bool fuse, tc_compiled *x) {
  tc_schedule_options so = {
      .logger = &c->logger, .device = &c->device->props, .fuse = fuse && tc_config_bool(c->config, TC_OPT_ID_FUSE)};
  so.horizontal = tc_config_bool(c->config, TC_OPT_ID_FUSION_HORIZONTAL);
  so.freeze = is_frozen(c, x);
  so.max_group = (int32_t)tc_config_int(c->config, TC_OPT_ID_FUSION_MAX_NODES);
  TC_TRY(tc_schedule_loops(x->loops, &so, &x->schedule));
  if (!verifies(c)) return TC_OK;
  TC_TRY(tc_loops_verify(x->loops), "after the stage 'schedule'");
  return tc_status_note(tc_schedule_verify(x->schedule), "after the stage 'schedule'");
}

typedef struct regions {
  tc_context *c;
  bool fuse;
} regions;
// A plan's symbols are known before it runs.
static tc_status make_region(void *self, tc_graph *g, const tc_tensor_type *const *results, int32_t fixed_from,
                             tc_plan **out) {
  const regions *r = self;
  tc_compiled x = {.graph = g, .results = results, .fixed_from = fixed_from};
  tc_graph_sweep(g);
  for (const tc_node *n = g->first; n; n = n->next)
    if (n->n_results == 1 && n->results[0]->kind == TC_VALUE_SYM)
      return tc_error(TC_STATUS_UNIMPLEMENTED, TC_SV_FMT ": the host reads a size within a region",
                      TC_SV_ARG(n->op->full_name));
  TC_TRY(tc_compile_lowered(r->c, TC_STAGE_PLAN, r->fuse, &x));
  *out = x.plan;
  return TC_OK;
}

// A device without a code generator takes plans of calls alone.
static tc_status check_calls_only(const tc_context *c, const tc_plan *p) {
  if (c->device->codegen) return TC_OK;
  if (p->kernels.count)
    return tc_error(TC_STATUS_UNIMPLEMENTED, "the device generates no code, and none of its libraries does @" TC_SV_FMT,
                    TC_SV_ARG(p->kernel_names.data[0]));
  for (int32_t i = 0; i < p->ops.count; i++)
    for (int32_t r = 0; r < tc_plan_region_count(p->ops.data[i].kind); r++)
      TC_TRY(check_calls_only(c, p->ops.data[i].regions[r]));
  return TC_OK;
}

static tc_status make_plan(tc_context *c, bool fuse, tc_compiled *x) {
  regions within = {c, fuse};
  tc_emit_options eo = {.logger = &c->logger, .device = &c->device->props, .variants = fuse};
  eo.freeze = is_frozen(c, x);
  eo.over = fuse && c->device->props.simd_bytes && tc_config_bool(c->config, TC_OPT_ID_MEMORY_PLAN);
  // Where memory is the device's own, runs place what comes from outside; the buffers of regions are pieces of others.
  if (!c->device->props.host_memory) eo.outside_align = x->results ? 1 : EXEC_ALIGN;
  tc_config_pick pick = {c->device, x->schedule->loops->arena, x->trial};
  if (c->device->tuning) eo.pick = tc_tuned_config, eo.pick_self = &pick;
  TC_TRY(tc_plan_build_with(x->schedule, &eo, &(tc_plan_regions){make_region, &within}, &x->plan));
  if (!tc_config_bool(c->config, TC_OPT_ID_MEMORY_PLAN)) tc_plan_memory_apart(x->plan);
  else if (!x->results) tc_plan_memory_shared(x->plan); // else they are places that the plan around gives
  TC_TRY(tc_plan_verify(x->plan), "after the stage 'plan'");
  TC_TRY(check_calls_only(c, x->plan));
  if (!verifies(c)) return TC_OK;
  for (int32_t i = 0; i < x->plan->kernels.count; i++) {
    const tc_kernel *k = x->plan->kernels.data[i]->kernel;
    TC_TRY(tc_kernel_verify(k), "after the stage 'kernel', in @" TC_SV_FMT, TC_SV_ARG(x->plan->kernel_names.data[i]));
    TC_TRY(tc_kernel_verify_plain(k), "after the stage 'kernel', in @" TC_SV_FMT,
           TC_SV_ARG(x->plan->kernel_names.data[i]));
  }
  return tc_status_note(tc_plan_check_random(x->plan, 1, 8), "after the stage 'plan'");
}

// Kernels that somebody wrote may use what plugins, or this device, do not take.
static tc_status make_kernels_fit(tc_plan *p, const tc_device_props *device) {
  for (int32_t i = 0; i < p->kernels.count; i++) {
    tc_emitted *k = (tc_emitted *)(uintptr_t)p->kernels.data[i];
    tc_kernel *plain;
    if (!k->kernel) continue;
    tc_status s = tc_kernel_verify_plain(k->kernel);
    bool is_plain = s == TC_OK;
    tc_status_free(s);
    if (!is_plain) {
      TC_TRY(tc_kernel_legalise(p->arena, k->kernel, device->simd_bytes, &plain),
             "while making the kernel @" TC_SV_FMT " plain", TC_SV_ARG(p->kernel_names.data[i]));
      TC_TRY(tc_kernel_simplify(p->arena, plain, &k->kernel));
    }
    TC_TRY(tc_kernel_fit(p->arena, device->pairs, device->tiles, k->kernel, &k->kernel));
  }
  for (int32_t i = 0; i < p->ops.count; i++)
    for (int32_t r = 0; r < tc_plan_region_count(p->ops.data[i].kind); r++)
      TC_TRY(make_kernels_fit(p->ops.data[i].regions[r], device));
  return TC_OK;
}

static bool joins_epilogues(const tc_context *c) {
  return c->device && c->device->n_calls && tc_config_bool(c->config, TC_OPT_ID_FUSE) &&
         tc_config_bool(c->config, TC_OPT_ID_FUSION_EPILOGUE);
}

tc_status tc_compile_lowered(tc_context *c, int32_t last, bool fuse, tc_compiled *x) {
  double t = tc_now_ms();
  bool given = x->plan != NULL;
  if (!x->loops && !x->plan && !x->trial && fuse && joins_epilogues(c)) {
    tc_call_choice choice = tc_call_choice_of(c);
    TC_TRY(tc_join_convolutions(&choice, x->graph));
    TC_TRY(tc_join_call_epilogues(&choice, x->graph));
  }
  if (last == TC_STAGE_EXEC && !x->loops && !x->plan && !x->trial && c->device && c->device->tuning)
    TC_TRY(tc_tune_graph(c, x->graph));
  if (!x->loops && !x->plan) TC_TRY(make_loops(c, x));
  tick(c, x, TC_STAGE_LOOP, &t);
  if (x->loops) TC_TRY(keep_text(c, x, TC_STAGE_LOOP, &t));
  if (last == TC_STAGE_LOOP) return TC_OK;
  if (!c->device)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "the backend '" TC_SV_FMT "' has no stage '%s'", TC_SV_ARG(c->backend),
                    stage_names[last]);
  if (!x->schedule && !x->plan) TC_TRY(make_schedule(c, fuse, x));
  tick(c, x, TC_STAGE_SCHEDULE, &t);
  if (x->schedule) TC_TRY(keep_text(c, x, TC_STAGE_SCHEDULE, &t));
  if (last == TC_STAGE_SCHEDULE) return TC_OK;
  if (!x->plan) TC_TRY(make_plan(c, fuse, x));
  tick(c, x, TC_STAGE_PLAN, &t);
  if (tc_log_on(&c->logger, TC_LOG_OUTPUT_CODE)) {
    tc_sb sb = tc_sb_make(x->graph->module->arena);
    tc_sb_printf(&sb,
                 "@" TC_SV_FMT ": what follows is a program; saved as plan.tc it is timed by\n"
                 "# tcrun bench plan.tc --random --unchecked --backend=" TC_SV_FMT "\n",
                 TC_SV_ARG(x->plan->name), TC_SV_ARG(c->backend));
    tc_plan_print(&sb, x->plan);
    tc_log(&c->logger, TC_LOG_OUTPUT_CODE, "%s", sb.text);
    if (tc_log_in_detail(&c->logger, TC_LOG_OUTPUT_CODE) && c->device->codegen) {
      tc_sb code = tc_sb_make(sb.arena);
      TC_TRY(tc_compiled_text(c, x, TC_STAGE_CODE, &code));
      tc_log(&c->logger, TC_LOG_OUTPUT_CODE, "@" TC_SV_FMT ", as generated for %s:\n%s", TC_SV_ARG(x->plan->name),
             c->device->props.name, code.text ? code.text : "");
    }
  }
  if (last < TC_STAGE_CODE) return TC_OK;
  if (given) TC_TRY(make_kernels_fit(x->plan, &c->device->props));
  if (last < TC_STAGE_EXEC) return TC_OK;
  TC_TRY(tc_exec_create_for(c->device, x->plan, x->trial, &x->exec, &x->stats));
  if (!x->trial) tc_exec_name_calls(x->exec, x->plan);
  if (!x->trial) TC_TRY(tc_exec_set_replays(x->exec, tc_context_replays(c)));
  tick(c, x, TC_STAGE_EXEC, &t);
  return TC_OK;
}

typedef struct job {
  tc_context *c;
  tc_graph *g;
  int32_t last;
  tc_compiled *out;
} job;

static tc_status compile(void *arg) {
  job *j = arg;
  double t = tc_now_ms();
  if (j->last == TC_STAGE_GRAPH) return TC_OK;
  TC_TRY(tc_compile_passes(j->c, j->g));
  tick(j->c, j->out, TC_STAGE_FUNCTIONAL, &t);
  return j->last == TC_STAGE_FUNCTIONAL ? TC_OK : tc_compile_lowered(j->c, j->last, true, j->out);
}

tc_status tc_compile_graph(tc_context *c, tc_graph *g, int32_t last, tc_compiled *out) {
  *out = (tc_compiled){.graph = g};
  job j = {c, g, last, out};
  tc_status s = tc_arena_guard(g->module->arena, compile, &j);
  if (s != TC_OK) tc_compiled_free(out);
  return s;
}

void tc_compiled_free(tc_compiled *x) {
  tc_exec_destroy(x->exec);
  x->exec = NULL;
}

static tc_status no_text(tc_context *c, int32_t stage) {
  return tc_error(TC_STATUS_INVALID_ARGUMENT, "the backend '" TC_SV_FMT "' has no stage '%s'", TC_SV_ARG(c->backend),
                  stage_names[stage]);
}

// Also of the regions' kernels.
static tc_status kernel_texts(tc_context *c, const tc_plan *p, int32_t stage, tc_sb *sb) {
  for (int32_t i = 0; i < p->kernels.count; i++) {
    const tc_kernel *k = p->kernels.data[i]->kernel;
    if (stage == TC_STAGE_KERNEL) {
      tc_kernel_print(sb, k);
      continue;
    }
    tc_sv text;
    TC_TRY(tc_device_code_text(c->device, sb->arena, k, &text));
    tc_sb_put(sb, text);
    if (!tc_sv_ends(text, "\n")) tc_sb_putc(sb, '\n');
  }
  for (int32_t i = 0; i < p->ops.count; i++)
    for (int32_t r = 0; r < tc_plan_region_count(p->ops.data[i].kind); r++)
      TC_TRY(kernel_texts(c, p->ops.data[i].regions[r], stage, sb));
  return TC_OK;
}

tc_status tc_compiled_text(tc_context *c, const tc_compiled *x, int32_t stage, tc_sb *sb) {
  if (x->texts[stage].size) return tc_sb_put(sb, x->texts[stage]), TC_OK;
  if (!x->graph) return no_text(c, stage); // left to the references
  if (stage <= TC_STAGE_SCHEDULE) tc_user_ops_print(sb, x->graph);
  if (stage <= TC_STAGE_FUNCTIONAL) {
    tc_graph_print(sb, x->graph);
    return TC_OK;
  }
  if (stage == TC_STAGE_LOOP && x->loops) {
    tc_loops_print(sb, x->loops);
    return TC_OK;
  }
  if (stage == TC_STAGE_SCHEDULE && x->schedule) {
    tc_schedule_print(sb, x->schedule);
    return TC_OK;
  }
  if (!x->plan) return no_text(c, stage);
  if (stage == TC_STAGE_PLAN) {
    tc_plan_print(sb, x->plan);
    return TC_OK;
  }
  if (stage == TC_STAGE_KERNEL) {
    tc_plan_print_kernels_first(sb, x->plan);
    return TC_OK;
  }
  return kernel_texts(c, x->plan, stage, sb);
}
