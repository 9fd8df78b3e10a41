// tcrun run, dump, explain.
#include <stdio.h>
#include <stdlib.h>

#include "core/runtime/eager.h"
#include "core/runtime/self_check.h"
#include "tcrun/check_grad.h"
#include "tcrun/tcrun.h"

static tc_status one_model(const run_options *o) {
  if (o->args.count == 1) return TC_OK;
  return tc_error(TC_STATUS_INVALID_ARGUMENT, "one model is expected, %d are given", o->args.count);
}

// Says where the tensors are that the program's texts name, so that they run as they are, and what it is called.
static void name_source(const run_options *o, model *m) {
  m->source.name = m->name;
  if (!m->program) return;
  char *whole = realpath(m->path.data, NULL);
  m->source.weights = whole ? tc_sv_copy(o->arena, tc_sv_of(whole)) : m->path;
  m->source.weights_program = tc_pt2_count(m->archive) > 1 ? m->program->name : (tc_sv){0};
  free(whole);
}

// ---- run ----
typedef struct named_outputs {
  tc_tensor_list list;
  tc_tensor *user; // by leaf
} named_outputs;

static tc_sv output_name(const run_options *o, const tc_graph_output *out, int32_t leaf) {
  if (out->kind == TC_OUT_LOSS) return TC_SV("loss");
  return out->kind == TC_OUT_USER ? tc_sv_printf(o->arena, "out.%d", leaf) : out->target;
}

static void name_outputs(const run_options *o, const model *m, const tc_tensor *outputs, named_outputs *x) {
  int32_t n = m->graph->outputs.count, leaf = 0;
  x->list.items = TC_NEW_ARRAY(o->arena, tc_named_tensor, n);
  x->user = TC_NEW_ARRAY(o->arena, tc_tensor, n);
  for (int32_t i = 0; i < n; i++) {
    const tc_graph_output *out = &m->graph->outputs.data[i];
    tc_sv name = output_name(o, out, leaf);
    if (out->kind == TC_OUT_USER) x->user[leaf++] = outputs[i];
    if (outputs[i].storage) x->list.items[x->list.count++] = (tc_named_tensor){name, outputs[i]};
  }
}

static void print_outputs(const run_options *o, const named_outputs *x) {
  for (int32_t i = 0; i < x->list.count; i++) {
    tc_sb sb = tc_sb_make(o->arena);
    tc_tensor_print(&sb, x->list.items[i].name, &x->list.items[i].tensor, 8);
    printf("%s\n", sb.text);
  }
}

// --expect: every tensor of the file that is called like an output.
static tc_status compare_expected(const run_options *o, tc_context *c, const named_outputs *x) {
  tc_tensor_list want;
  TC_TRY(tc_tensors_read(c->allocator, o->arena, tc_sv_z(o->arena, o->expect), &want));
  tc_status s = TC_OK;
  int32_t compared = 0;
  for (int32_t i = 0; i < x->list.count && s == TC_OK; i++) {
    const tc_tensor *t = tc_tensor_list_find(&want, x->list.items[i].name);
    if (!t) continue;
    tolerance tol = tcrun_tolerance(o, t->dtype);
    difference d;
    s = tc_status_note(tcrun_compare(c->allocator, &x->list.items[i].tensor, t, NULL, &tol, &d),
                       "while comparing '" TC_SV_FMT "'", TC_SV_ARG(x->list.items[i].name));
    compared++;
  }
  tc_tensor_list_free(&want);
  if (s == TC_OK && compared == 0)
    s = tc_error(TC_STATUS_NOT_FOUND, TC_SV_FMT " has none of the outputs", TC_SV_ARG(o->expect));
  if (s == TC_OK && !o->quiet) printf("as expected: %d outputs\n", compared);
  return s;
}

static void print_times(const run_options *o, tc_context *c, const tc_session *s, double load, double compile,
                        double run, const char *note) {
  const tc_session_stats *q = tc_session_stats_of(s);
  printf("backend " TC_SV_FMT ", mode " TC_SV_FMT ", inputs: %s\n", TC_SV_ARG(c->backend),
         TC_SV_ARG(tc_config_text(c->config, TC_OPT_ID_MODE)), note);
  if (tc_config_bool(c->config, TC_OPT_ID_DEVICE_GRAPH) && (!c->device || !tc_device_has_graphs(c->device)))
    puts("note: this device records no graphs, so launches are made one by one");
  tc_eager_stats ops = c->eager ? tc_eager_stats_of(c->eager) : (tc_eager_stats){0};
  printf("loaded in %.2f ms, compiled in %.2f ms (%lld kernels, %lld from the cache), ran in %.3f ms\n", load, compile,
         (long long)(q->compile.kernels + ops.kernels), (long long)(q->compile.hits + ops.hits), run);
  if (ops.calls)
    printf("%lld ops ran one by one; they were compiled for %lld ways of use\n", (long long)ops.calls,
           (long long)ops.compiles);
  if (q->fallbacks)
    printf("%d node%s left to the references; `tcrun explain` says why\n", q->fallbacks,
           q->fallbacks == 1 ? " was" : "s were");
  (void)o;
}

// ---- --self-check ----
static tc_status compare_part(void *self, const tc_tensor *got, const tc_tensor *want, const tc_tensor *wide,
                              const tc_tensor *spread) {
  const run_options *o = self;
  tolerance t = tcrun_tolerance(o, got->dtype);
  if (o->rtol < 0 && o->atol < 0) t.spread = spread;
  difference d;
  return tcrun_compare(tc_system_allocator(), got, want, wide, &t, &d);
}

// The run with every group compared; without, where no group has its part of the graph (the references, later stages).
static tc_status run_checked(run_options *o, tc_session *s, const model *m, const tc_tensor *inputs,
                             tc_tensor *outputs) {
  tc_self_check *k;
  int32_t compared, all;
  o->by_norms = true;
  tc_self_check_options options = {
      .compare = compare_part, .self = o, .stem = tc_sv_printf(o->arena, TC_SV_FMT ".differs", TC_SV_ARG(m->file))};
  TC_TRY(tc_self_check_create(s, &options, &k));
  tc_status status = tc_session_run(
      s, inputs, outputs, &(tc_session_run_options){.seed = o->seed, .watch = tc_self_check_watch(k, o->seed, 0)});
  tc_self_check_counts(k, &compared, &all);
  tc_self_check_destroy(k);
  o->by_norms = false; // --expect is another comparison
  tcrun_progress_stop(o->progress);
  if (status == TC_OK && !o->quiet && all)
    printf("each of %d groups agrees with the references (%d more: with those that read them)\n", compared,
           all - compared);
  return status;
}

static tc_status compare_outputs(run_options *o, const model *m, const tc_tensor *inputs, const tc_tensor *outputs) {
  difference worst;
  tc_status s = tcrun_compare_with_ref(o, m, inputs, outputs, &worst);
  if (tc_status_code(s) == TC_STATUS_MISMATCH) s = tc_status_note(s, "`tcrun minify` finds the ops that differ");
  if (s == TC_OK && !o->quiet)
    printf("agrees with the references: relative L2 difference at most %.3g\n", worst.rel_l2);
  return s;
}

static tc_status run_model(run_options *o, tc_context *c, model *m, double load_ms) {
  tc_session *session;
  tc_tensor *inputs;
  const char *note;
  bool check = tc_config_bool(c->config, TC_OPT_ID_SELF_CHECK);
  tcrun_progress_say(o->progress, "compiling " TC_SV_FMT, TC_SV_ARG(m->file));
  m->source.stages |= check;
  m->source.by_op = true;
  double start = tc_now_ms();
  TC_TRY(tc_session_create_from(c, &m->source, TC_STAGE_EXEC, &session));
  double compiled = tc_now_ms();
  if (tc_log_on(&c->logger, TC_LOG_GUARDS)) {
    tc_sb guards = tc_sb_make(o->arena);
    tc_session_guards(session, &guards);
    tc_sv lines = tc_sv_trim(tc_sb_view(&guards));
    tc_log(&c->logger, TC_LOG_GUARDS, TC_SV_FMT "\n" TC_SV_FMT, TC_SV_ARG(m->file), TC_SV_ARG(lines));
  }
  tc_status s = tcrun_inputs(c, o, m, &inputs, &note);
  if (s != TC_OK) {
    tc_session_destroy(session);
    return s;
  }
  int32_t n = m->graph->outputs.count;
  tc_tensor *outputs = TC_NEW_ARRAY(o->arena, tc_tensor, n);
  named_outputs named = {0};
  tcrun_progress_say(o->progress, "running " TC_SV_FMT, TC_SV_ARG(m->file));
  double ready = tc_now_ms();
  if (check) s = run_checked(o, session, m, inputs, outputs);
  else s = tc_session_run(session, inputs, outputs, &(tc_session_run_options){.seed = o->seed});
  double done = tc_now_ms();
  if (!check) tcrun_progress_stop(o->progress);
  if (s == TC_OK) name_outputs(o, m, outputs, &named);
  if (s == TC_OK && !o->quiet) {
    print_outputs(o, &named);
    print_times(o, c, session, load_ms, compiled - start, done - ready, note);
  }
  if (s == TC_OK && !o->quiet && tc_session_debug_folder(session))
    printf("stages, code and report: %s/report.html\n", tc_session_debug_folder(session));
  if (s == TC_OK && o->output.size) s = tc_tensors_write(o->arena, tc_sv_z(o->arena, o->output), &named.list);
  if (s == TC_OK && o->expect.size) s = compare_expected(o, c, &named);
  o->by_norms = check;
  if (s == TC_OK && check) s = compare_outputs(o, m, inputs, named.user);
  tcrun_free_tensors(outputs, n);
  tcrun_free_tensors(inputs, m->graph->inputs.count);
  tc_session_destroy(session);
  return s;
}

// ---- dump, explain ----

static tc_status dump_model(run_options *o, tc_context *c, model *m, double load_ms) {
  (void)load_ms;
  tcrun_progress_say(o->progress, "compiling " TC_SV_FMT, TC_SV_ARG(m->file));
  int32_t stage = tc_stage_parse(o->stage.size ? o->stage : TC_SV("graph"));
  if (stage < 0 || stage == TC_STAGE_EXEC)
    return tc_error(TC_STATUS_INVALID_ARGUMENT,
                    "no stage '" TC_SV_FMT
                    "': graph, functional, joint, forward, backward, loop, schedule, kernel, plan, code",
                    TC_SV_ARG(o->stage));
  tc_session *session;
  TC_TRY(tc_session_create_from(c, &m->source, stage, &session));
  tc_sb sb = tc_sb_make(o->arena);
  if (stage < TC_STAGE_CODE) tc_source_print_weights(&sb, &m->source);
  tc_status s = tc_session_text(session, stage, &sb);
  tcrun_progress_stop(o->progress);
  if (s == TC_OK) fputs(sb.text, stdout);
  tc_session_destroy(session);
  return s;
}

// The text's lines, each behind the prefix; how many there are.
static int32_t put_lines(tc_sb *sb, const char *prefix, tc_sv rest) {
  int32_t n = 0;
  for (tc_sv line; rest.size; n++) {
    rest = tc_sv_cut(rest, '\n', &line);
    tc_sb_printf(sb, "%s" TC_SV_FMT "\n", prefix, TC_SV_ARG(line));
  }
  return n;
}

static void explain_guards(run_options *o, const tc_session *s, tc_sb *sb) {
  tc_sb guards = tc_sb_make(o->arena), lines = tc_sb_make(o->arena);
  tc_session_guards(s, &guards);
  int32_t n = put_lines(&lines, "  ", tc_sb_view(&guards));
  tc_sb_printf(sb, "guards, checked in every run: %d\n", n);
  tc_sb_put(sb, tc_sb_view(&lines));
}

// Kernels that reduce by rows and by columns.
static void explain_columns(const tc_group *g, tc_sb *sb) {
  if (!g->rows) return;
  tc_sb_printf(sb, "  rows and columns in one kernel: @" TC_SV_FMT " makes", TC_SV_ARG(g->name));
  for (int32_t i = 0; i < g->steps.count; i++) {
    const tc_step *s = &g->steps.data[i];
    if (s->hold == TC_HOLD_COLUMN) tc_sb_printf(sb, " %%" TC_SV_FMT, TC_SV_ARG(s->node->outs[0]->name));
  }
  tc_sb_printf(sb, " for each %lld rows\n", (long long)g->rows);
}

static void explain_segment(const tc_compiled *x, int32_t number, tc_sb *sb) {
  const tc_plan *p = x->plan;
  if (!x->schedule || !p) return;
  tc_sb_printf(sb, "segment %d: %d launches and calls, %d merges out of %d candidates, arena ", number, p->ops.count,
               x->schedule->n_merges, x->schedule->n_candidates);
  tc_sym_print(sb, p->arena_bytes);
  tc_sb_putz(sb, " bytes\n");
  for (int32_t i = 0; i < p->ops.count; i++) {
    const tc_plan_op *op = &p->ops.data[i];
    tc_sb_printf(sb, "  %s @" TC_SV_FMT ": ", op->kind == TC_PLAN_LAUNCH ? "kernel" : tc_plan_op_word(op->kind),
                 TC_SV_ARG(op->name));
    tc_sym_print(sb, op->bytes);
    tc_sb_putz(sb, " bytes, ");
    tc_sym_print(sb, op->flops);
    tc_sb_printf(sb, " flops%s" TC_SV_FMT "\n", op->source.size ? "  # " : "", TC_SV_ARG(op->source));
    for (int32_t v = 0; v < op->n_variants; v++) {
      tc_sb_putz(sb, "    another kernel when ");
      tc_sym_print(sb, op->variants[v].when);
      tc_sb_putc(sb, '\n');
    }
  }
  for (int32_t i = 0; i < x->schedule->groups.count; i++) explain_columns(x->schedule->groups.data[i], sb);
  put_lines(sb, "  choice: ", x->choices);
  tc_map *names = tc_loops_names(sb->arena, x->schedule->loops);
  for (int32_t i = 0; i < x->schedule->refusals.count; i++) {
    const tc_refusal *r = &x->schedule->refusals.data[i];
    tc_sb_printf(sb, "  not fused: %%" TC_SV_FMT " with %%" TC_SV_FMT ": " TC_SV_FMT "\n",
                 TC_SV_ARG(tc_loops_name(names, r->producer->outs[0])),
                 TC_SV_ARG(tc_loops_name(names, r->consumer->outs[0])), TC_SV_ARG(r->reason));
  }
}

static tc_status explain_model(run_options *o, tc_context *c, model *m, double load_ms) {
  (void)load_ms;
  tcrun_progress_say(o->progress, "compiling " TC_SV_FMT, TC_SV_ARG(m->file));
  tc_session *session;
  TC_TRY(tc_session_create_from(c, &m->source, c->is_ref ? TC_STAGE_EXEC : TC_STAGE_PLAN, &session));
  const tc_session_stats *q = tc_session_stats_of(session);
  tc_sb sb = tc_sb_make(o->arena);
  tc_sb_printf(&sb, TC_SV_FMT ": %d nodes, %d compiled segments, %d nodes left to the references, %d of control flow\n",
               TC_SV_ARG(m->name), m->graph->n_nodes, q->segments, q->fallbacks, q->controls);
  explain_guards(o, session, &sb);
  for (int32_t i = 0; tc_session_fallback(session, i); i++)
    tc_sb_printf(&sb, "fallback: %s\n", tc_session_fallback(session, i));
  for (int32_t i = 0; i < tc_session_segment_count(session); i++)
    explain_segment(tc_session_segment(session, i), i, &sb);
  tcrun_progress_stop(o->progress);
  fputs(sb.text, stdout);
  tc_session_destroy(session);
  return TC_OK;
}

static tc_status with_model(run_options *o, tc_status (*f)(run_options *o, tc_context *c, model *m, double load_ms)) {
  TC_TRY(one_model(o));
  tc_context *c;
  model m;
  TC_TRY(tcrun_open(o, &c));
  double start = tc_now_ms();
  const char *path = tc_sv_z(o->arena, o->args.data[0]);
  tcrun_progress_say(o->progress, "loading %s", path);
  tc_status s = tcrun_load_asked(c, o, path, &m);
  if (s == TC_OK) {
    double load_ms = tc_now_ms() - start;
    name_source(o, &m);
    if (o->flops) {
      tcrun_progress_hide(o->progress);
      s = tcrun_print_flops(o, &m);
      tcrun_progress_show(o->progress);
    }
    if (s == TC_OK) s = f(o, c, &m, load_ms);
    tcrun_unload(&m);
  }
  tc_context_destroy(c);
  return s;
}

tc_status cmd_run(run_options *o) { return with_model(o, run_model); }
// The gradient stages are graphs: the one that the program becomes is printed.
tc_status cmd_dump(run_options *o) {
  if (tcrun_is_gradient_stage(o->stage)) o->grad = true, o->gradients = o->stage, o->stage = TC_SV("graph");
  return with_model(o, dump_model);
}
tc_status cmd_explain(run_options *o) { return with_model(o, explain_model); }
