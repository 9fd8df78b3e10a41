// tcrun run, dump, explain.
#include <stdio.h>

#include "tcrun/tcrun.h"

static tc_status one_model(const run_options *o) {
  if (o->args.count == 1) return TC_OK;
  return tc_error(TC_STATUS_INVALID_ARGUMENT, "one model is expected, %d are given", o->args.count);
}

static void print_outputs(const run_options *o, const model *m, const tc_tensor *outputs) {
  for (int32_t i = 0, k = 0; i < m->graph->outputs.count; i++) {
    const tc_graph_output *out = &m->graph->outputs.data[i];
    if (!outputs[i].storage) continue;
    tc_sb sb = tc_sb_make(o->arena);
    tc_sv name = out->kind == TC_OUT_USER ? tc_sv_printf(o->arena, "out.%d", k++) : out->target;
    tc_tensor_print(&sb, name, &outputs[i], 8);
    printf("%s\n", sb.text);
  }
}

static tc_status write_outputs(const run_options *o, const model *m, const tc_tensor *outputs) {
  tc_tensor_list list = {.items = TC_NEW_ARRAY(o->arena, tc_named_tensor, m->graph->outputs.count)};
  for (int32_t i = 0, k = 0; i < m->graph->outputs.count; i++) {
    if (!outputs[i].storage) continue;
    tc_sv name = m->graph->outputs.data[i].kind == TC_OUT_USER ? tc_sv_printf(o->arena, "out.%d", k++)
                                                               : m->graph->outputs.data[i].target;
    list.items[list.count++] = (tc_named_tensor){name, outputs[i]};
  }
  return tc_tensors_write(o->arena, tc_sv_z(o->arena, o->output), &list);
}

static tc_status run_model(run_options *o, tc_context *c, model *m) {
  runner r;
  tc_tensor *inputs;
  double start = tc_now_ms();
  TC_TRY(tcrun_prepare(c, m, &r));
  double compiled = tc_now_ms();
  tc_status s = tcrun_inputs(c, o, m, &inputs);
  if (s != TC_OK) {
    tcrun_finish(&r);
    return s;
  }
  tc_tensor *outputs = TC_NEW_ARRAY(o->arena, tc_tensor, m->graph->outputs.count);
  double ready = tc_now_ms();
  s = tcrun_execute(&r, inputs, outputs, NULL);
  double done = tc_now_ms();
  if (s == TC_OK && !o->quiet) {
    print_outputs(o, m, outputs);
    printf("backend " TC_SV_FMT ": compiled in %.2f ms (%d kernels, %d from the cache), ran in %.3f ms\n",
           TC_SV_ARG(c->backend), compiled - start, r.compiled.stats.kernels, r.compiled.stats.hits, done - ready);
  }
  if (s == TC_OK && o->output.size) s = write_outputs(o, m, outputs);
  tcrun_free_tensors(outputs, m->graph->outputs.count);
  tcrun_free_tensors(inputs, m->graph->inputs.count);
  tcrun_finish(&r);
  return s;
}

static tc_status dump_model(run_options *o, tc_context *c, model *m) {
  int32_t stage = tc_stage_parse(o->stage.size ? o->stage : TC_SV("graph"));
  if (stage < 0 || stage == TC_STAGE_EXEC)
    return tc_error(TC_STATUS_INVALID_ARGUMENT,
                    "no stage '" TC_SV_FMT "': graph, functional, loop, schedule, kernel, plan, code",
                    TC_SV_ARG(o->stage));
  tc_compiled x;
  TC_TRY(tc_compile_graph(c, m->graph, stage, &x));
  tc_sb sb = tc_sb_make(m->module->arena);
  TC_TRY(tc_compiled_text(c, &x, stage, &sb));
  fputs(sb.text, stdout);
  return TC_OK;
}

static tc_status explain_model(run_options *o, tc_context *c, model *m) {
  (void)o;
  tc_compiled x;
  TC_TRY(tc_compile_graph(c, m->graph, TC_STAGE_PLAN, &x));
  tc_sb sb = tc_sb_make(m->module->arena);
  tc_schedule_print(&sb, x.schedule);
  tc_plan_print(&sb, x.plan);
  fputs(sb.text, stdout);
  return TC_OK;
}

static tc_status with_model(run_options *o, tc_status (*f)(run_options *o, tc_context *c, model *m)) {
  TC_TRY(one_model(o));
  tc_context *c;
  model m;
  TC_TRY(tcrun_open(o, &c));
  tc_status s = tcrun_load(c, o, tc_sv_z(o->arena, o->args.data[0]), &m);
  if (s == TC_OK) s = f(o, c, &m);
  tcrun_unload(&m);
  tc_context_destroy(c);
  return s;
}

tc_status cmd_run(run_options *o) { return with_model(o, run_model); }
tc_status cmd_dump(run_options *o) { return with_model(o, dump_model); }
tc_status cmd_explain(run_options *o) { return with_model(o, explain_model); }
