// Creating sessions: passes, the attempt to compile the graph whole, and the search for what must be left out.
//
// When a segment fails to compile its nodes are tried one by one; those that fail alone are left to the references, and
// the graph is cut again. If all compile alone, every node becomes a segment of its own.
#include <string.h>

#include "core/autograd/autograd.h"
#include "core/base/fs.h"
#include "core/base/profile.h"
#include "core/ir/control.h"
#include "core/ir/userop.h"
#include "core/passes/passes.h"
#include "core/runtime/debug.h"
#include "core/runtime/eager.h"
#include "core/runtime/plan_cache.h"
#include "core/runtime/session.h"
#include "core/runtime/session_internal.h"

// ---- What can be compiled ----
static bool dtype_fits(const tc_session *s, const tc_value *v) {
  const tc_device *d = s->context->device;
  if (!d || v->kind != TC_VALUE_TENSOR || !d->props.dtypes) return true;
  return d->props.dtypes >> tc_dtype_real(v->type.dtype) & 1;
}

static const char *node_reason(tc_session *s, const tc_node *n) {
  const tc_op_def *def = n->op->def;
  if (tc_op_control(n->op) != TC_CONTROL_NONE) return NULL; // a plan has steps for it, or the session cuts there
  for (int32_t i = 0; i < n->n_args; i++) {
    const tc_arg *a = &n->args[i];
    if (a->kind == TC_AK_GRAPH) return "it has a region";
    bool number = a->value && a->value->kind != TC_VALUE_TENSOR && a->kind != TC_AK_INT;
    if (number && !tc_op_takes_numbers(n->op)) return "a number that comes from data";
    if (a->value && !dtype_fits(s, a->value)) return "the device lacks the dtype";
  }
  for (int32_t i = 0; i < n->n_results; i++) {
    int32_t kind = n->results[i]->kind;
    bool value = kind == TC_VALUE_FLOAT || kind == TC_VALUE_BOOL; // a tensor of no dimensions to kernels
    if (kind != TC_VALUE_TENSOR && kind != TC_VALUE_NONE && !(value && def->lower)) return "its result is a number";
    if (!dtype_fits(s, n->results[i])) return "the device lacks the dtype";
  }
  bool generates = !s->context->device || s->context->device->codegen;
  if (generates && (def->lower || n->op->body.n_results)) return NULL;
  tc_call_choice choice = tc_call_choice_of(s->context);
  if (choice.policy != TC_CALLS_NEVER && tc_exec_call_supported(&choice, n)) return NULL;
  if (n->op->user) return "none of its kernels is for this device";
  const char *why = generates ? "it has no lowering" : "the device generates no code, and no library of it does this";
  if (!choice.refused.size) return why;
  return tc_sv_printf(s->arena, "%s (" TC_SV_FMT ")", why, TC_SV_ARG(choice.refused)).data;
}

static bool falls_back(const tc_session *s) {
  return !tc_config_bool(s->context->config, TC_OPT_ID_STRICT) &&
         tc_sv_is(tc_config_text(s->context->config, TC_OPT_ID_FALLBACK), "ref");
}

// Where a step ends for the host: the reason, the node, and the model's line.
static void log_break(const tc_session *s, const tc_node *n, const char *why) {
  tc_log(&s->context->logger, TC_LOG_GRAPH_BREAKS,
         "@" TC_SV_FMT ": segments end at %%" TC_SV_FMT " = " TC_SV_FMT ": %s%s" TC_SV_FMT,
         TC_SV_ARG(s->name.size ? s->name : s->graph->name), TC_SV_ARG(n->n_results ? n->results[0]->name : n->name),
         TC_SV_ARG(n->op->full_name), why, n->source.size ? "\n  at " : "", TC_SV_ARG(n->source));
}

// Leaves a node to the references, or refuses to.
static tc_status give_up(tc_session *s, const tc_node *n, const char *reason) {
  tc_sv text = tc_sv_printf(s->arena, TC_SV_FMT " (%%" TC_SV_FMT "): %s", TC_SV_ARG(n->op->full_name),
                            TC_SV_ARG(n->n_results ? n->results[0]->name : n->name), reason);
  bool own = n->op->user && n->op->def->ref; // its author's: no fallback
  if (!falls_back(s) && !own)
    return tc_error(TC_STATUS_UNIMPLEMENTED,
                    "backend '" TC_SV_FMT "' cannot do " TC_SV_FMT ", and a fallback is not allowed%s" TC_SV_FMT,
                    TC_SV_ARG(s->context->backend), TC_SV_ARG(text), n->source.size ? "\n  at " : "",
                    TC_SV_ARG(n->source));
  bool can = n->op->def->traits & TC_OP_VIEW || n->op->def->ref || n->op->def->scalar_ref || tc_op_can_expand(n->op);
  if (!can)
    return tc_error(TC_STATUS_UNIMPLEMENTED, "no backend does " TC_SV_FMT "%s" TC_SV_FMT, TC_SV_ARG(text),
                    n->source.size ? "\n  at " : "", TC_SV_ARG(n->source));
  if (s->one_graph && !own)
    return tc_error(TC_STATUS_CANCELLED, "graph break: unsupported op " TC_SV_FMT "%s" TC_SV_FMT, TC_SV_ARG(text),
                    n->source.size ? " at " : "", TC_SV_ARG(n->source));
  tc_vec_push(s->arena, &s->fallbacks, text.data);
  log_break(s, n, tc_sv_printf(s->arena, "unsupported op, %s", reason).data);
  tc_log(&s->context->logger, TC_LOG_PERF_HINTS, "left to the references, with copies: " TC_SV_FMT, TC_SV_ARG(text));
  return TC_OK;
}

static bool is_delegated(const tc_session *s, const tc_node *n) {
  return s->delegation.n_parts && s->delegation.of[n->id] >= 0;
}

// ---- Compiling ----
// Compiles what there is; what fails is tried again without fusion, which asks less of the code behind it.
static tc_status compile_from(tc_session *s, const tc_compiled *from, int32_t last, tc_compiled *out) {
  *out = *from;
  tc_status first = tc_compile_lowered(s->context, last, true, out);
  if (first == TC_OK || tc_status_code(first) == TC_STATUS_OUT_OF_MEMORY || last < TC_STAGE_SCHEDULE) return first;
  if (!s->context->device || !tc_config_bool(s->context->config, TC_OPT_ID_FUSE) || from->schedule || from->plan)
    return first;
  *out = *from;
  tc_status second = tc_compile_lowered(s->context, last, false, out);
  if (second == TC_OK) {
    tc_log(&s->context->logger, TC_LOG_PERF_HINTS, "compiled without fusion: %s", tc_status_text(first));
    tc_status_free(first);
    return TC_OK;
  }
  tc_status_free(second);
  return first;
}

static tc_status compile_graph(tc_session *s, tc_graph *g, int32_t last, tc_compiled *out) {
  return compile_from(s, &(tc_compiled){.graph = g}, last, out);
}

// Marks what cannot be compiled alone. *found: some node.
static tc_status find_culprits(tc_session *s, bool *bad, tc_status why, bool *found) {
  *found = false;
  for (tc_node *n = s->graph->first; n; n = n->next) {
    session_step alone = {0};
    tc_compiled x = {0};
    if (bad[n->id] || is_delegated(s, n)) continue;
    segment_extract(s, 1, &n, false, &alone);
    x.graph = alone.graph;
    tc_status status = tc_compile_lowered(s->context, TC_STAGE_PLAN, true, &x);
    if (status == TC_OK) continue;
    bool no_memory = tc_status_code(status) == TC_STATUS_OUT_OF_MEMORY;
    // A kernel that somebody wrote and that is wrong is to be mended, not to be replaced by the graph.
    if (!no_memory && !(n->op->user && n->op->def->lower)) {
      tc_sv reason, rest = tc_sv_cut(tc_sv_of(tc_status_text(status)), '\n', &reason);
      (void)rest;
      const char *text = tc_sv_z(s->arena, reason);
      tc_status_free(status);
      status = give_up(s, n, text);
    }
    if (status != TC_OK) {
      tc_status_free(why);
      return status;
    }
    bad[n->id] = *found = true;
  }
  if (!*found && s->apart) return why;
  if (!*found) { // each compiles alone, but not together
    tc_log(&s->context->logger, TC_LOG_PERF_HINTS, "compiled node by node: %s", tc_status_text(why));
    s->apart = *found = true;
  }
  tc_status_free(why);
  return TC_OK;
}

static tc_status compile_steps(tc_session *s, int32_t last, bool *out_again, bool *bad) {
  *out_again = false;
  for (int32_t i = 0; i < s->n_steps; i++) {
    session_step *step = &s->steps[i];
    if (step->kind == STEP_DELEGATE && last == TC_STAGE_EXEC)
      TC_TRY(tc_delegate_compile(step->delegate, step->graph, s->context->allocator, &step->delegated));
    if (step->kind == STEP_DELEGATE) s->stats.delegated++;
    if (step->kind != STEP_EXEC) continue;
    tc_status status = compile_graph(s, step->graph, last, &step->compiled);
    if (status == TC_OK) {
      session_add_stats(s, &step->compiled);
      continue;
    }
    if (tc_status_code(status) == TC_STATUS_OUT_OF_MEMORY || !falls_back(s)) return status;
    tc_log(&s->context->logger, TC_LOG_PERF_HINTS, "a segment does not compile, its parts are tried: %s",
           tc_status_text(status));
    return find_culprits(s, bad, status, out_again);
  }
  return TC_OK;
}

static tc_status create_region(const tc_session *s, tc_graph *g, int32_t last, tc_session **out);
static tc_status compile_regions(tc_session *s, int32_t last) {
  for (int32_t i = 0; i < s->n_steps; i++) {
    session_step *step = &s->steps[i];
    if (step->kind != STEP_CONTROL) continue;
    s->stats.controls++;
    TC_TRY(tc_control_read(s->arena, step->node->op, step->node->n_args, step->node->args, &step->control));
    for (int32_t k = 0; k < step->control.n_regions; k++)
      TC_TRY(create_region(s, step->control.regions[k], last, &step->regions[k]));
  }
  return TC_OK;
}

// One step that is the graph itself.
static tc_status try_whole(tc_session *s, int32_t last) {
  s->steps = TC_NEW(s->arena, session_step);
  s->n_steps = 1;
  s->whole = true;
  session_step *step = s->steps;
  step->kind = s->context->is_ref ? STEP_REF : STEP_EXEC;
  step->graph = s->graph;
  if (step->kind == STEP_REF) return TC_OK;
  TC_TRY(compile_graph(s, s->graph, last, &step->compiled));
  session_add_stats(s, &step->compiled);
  return TC_OK;
}

// Nodes that cannot be in a compiled segment; `cut`: nodes with regions are none of it, too.
static tc_status find_bad(tc_session *s, bool cut, bool *bad, bool *any) {
  *any = false;
  for (tc_node *n = s->graph->first; n; n = n->next) {
    if (is_delegated(s, n)) {
      *any = true;
      continue;
    }
    bool read = !s->context->is_ref && segment_reads(n);
    const char *reason = s->context->is_ref || read ? NULL : node_reason(s, n);
    if (reason) TC_TRY(give_up(s, n, reason));
    bool control = cut && tc_op_control(n->op) != TC_CONTROL_NONE;
    bad[n->id] = reason || read || control;
    if (read || control) log_break(s, n, read ? "the host reads a size" : "the host drives its regions");
    *any |= bad[n->id];
  }
  return TC_OK;
}

static tc_status compile_cut(tc_session *s, int32_t last, bool *bad) {
  for (bool again = true; again;) {
    segment_cut(s, bad);
    TC_TRY(compile_steps(s, last, &again, bad));
    if (again) session_free_steps(s);
  }
  return compile_regions(s, last);
}

static bool has_control(const tc_graph *g) {
  for (const tc_node *n = g->first; n; n = n->next)
    if (tc_op_control(n->op) != TC_CONTROL_NONE) return true;
  return false;
}

static tc_status compile(tc_session *s, int32_t last) {
  bool *bad = TC_NEW_ARRAY(s->arena, bool, s->graph->n_nodes), any, control = has_control(s->graph);
  TC_TRY(tc_delegates_claim(s->context, s->graph, &s->delegation));
  TC_TRY(find_bad(s, false, bad, &any));
  if (s->run_op && s->delegation.n_parts == 0 && session_runs_by_op(s->graph)) {
    s->apart = true;
    return compile_cut(s, last, bad);
  }
  s->run_op = NULL;
  tc_status status = any ? compile_cut(s, last, bad) : try_whole(s, last);
  if (status != TC_OK && tc_status_code(status) != TC_STATUS_OUT_OF_MEMORY && control && !s->context->is_ref) {
    // A region that no plan takes: the session runs it, in segments of its own.
    tc_log(&s->context->logger, TC_LOG_PERF_HINTS, "cut at control flow: %s", tc_status_text(status));
    tc_status_free(status);
    session_free_steps(s);
    s->whole = false, s->fallbacks.count = 0;
    TC_TRY(find_bad(s, true, bad, &any));
    status = compile_cut(s, last, bad);
  } else if (status != TC_OK && !any && tc_status_code(status) != TC_STATUS_OUT_OF_MEMORY && falls_back(s)) {
    session_free_steps(s);
    s->whole = false;
    tc_log(&s->context->logger, TC_LOG_PERF_HINTS, "the graph does not compile whole: %s", tc_status_text(status));
    TC_TRY(find_culprits(s, bad, status, &any));
    status = compile_cut(s, last, bad);
  }
  s->stats.fallbacks = s->fallbacks.count;
  return status;
}

// ---- Creation ----
// The references run a graph as it is, but what it writes must be among its outputs for the session to store it.
static tc_status make_functional(tc_context *c, tc_graph *g) {
  static const tc_pass *const pass = &tc_pass_functionalize;
  tc_pass_options o = {.logger = &c->logger};
  return tc_run_passes(g, &pass, 1, 1, &o);
}

// What is read from text behind the graph is one step, whatever the mode would make of it.
static tc_status compile_source(tc_session *s, const tc_source *source, int32_t last) {
  if (last < source->stage && !(last == TC_STAGE_KERNEL && source->stage == TC_STAGE_PLAN))
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "the text is of the stage '%s', which is behind '%s'",
                    tc_stage_name(source->stage), tc_stage_name(last));
  if (source->image) return session_build_image(s, (void *)(uintptr_t)source->image);
  s->steps = TC_NEW(s->arena, session_step);
  s->n_steps = 1;
  s->whole = true;
  s->steps->kind = STEP_EXEC;
  s->steps->graph = source->graph;
  tc_compiled from = {
      .graph = source->graph, .loops = source->loops, .schedule = source->schedule, .plan = source->plan};
  TC_TRY(compile_from(s, &from, last, &s->steps->compiled));
  session_add_stats(s, &s->steps->compiled);
  return TC_OK;
}

// One step that is the plan of the cache.
static bool load_plan(tc_session *s, tc_hash128 key) {
  session_step *step = TC_NEW(s->arena, session_step);
  if (!tc_plan_cache_load(s->context, key, s->graph, &step->compiled)) return false;
  step->kind = STEP_EXEC;
  step->graph = s->graph;
  s->steps = step, s->n_steps = 1, s->whole = true;
  session_add_stats(s, &step->compiled);
  return true;
}

// ---- Keeping the plan alone ----
// A copy of the graph is compiled in a module of its own, and its plan is read into the graph's module, as one of the
// cache is: what a compilation leaves in its arena is many times what a run needs. The plan's kernels come as texts:
// most are for other sizes than those of the first run, and a launch that wants one has its code made.
typedef struct copying {
  tc_session *s;
  tc_module *module; // the copy's
  tc_session *made;
  tc_sv entry;     // of its plan; empty: it is more than a plan
  bool read;       // the copy could be made
  bool anew;       // whatever the cache has
  bool from_cache; // the entry is
} copying;

static tc_status compile_copy(void *arg) {
  copying *x = arg;
  tc_context *c = x->s->context;
  tc_sb text = tc_sb_make(x->module->arena);
  tc_lexer lx;
  tc_source source;
  tc_hash128 key = {0};
  tc_graph_print(&text, x->s->graph);
  tc_lex_init(&lx, x->module->arena, x->s->graph->name, tc_sb_view(&text));
  TC_TRY(tc_source_parse(c, x->module, &lx, &source));
  x->read = true;
  source.one_graph = x->s->one_graph;
  bool keep = tc_plan_cache_key(c, source.graph, &key);
  key.lo = ~key.lo; // with the kernels' texts
  x->from_cache = keep && !x->anew && tc_cache_get(c->device->cache, x->module->arena, key, &x->entry);
  if (x->from_cache) return TC_OK;
  TC_TRY(tc_session_create_from(c, &source, TC_STAGE_PLAN, &x->made));
  const tc_plan *plan = tc_session_plan(x->made);
  if (plan) TC_TRY(tc_plan_entry_write(c, plan, true, &x->entry));
  if (plan && keep) tc_cache_put(c->device->cache, key, x->entry);
  return TC_OK;
}

static tc_status read_copied(void *arg) {
  const copying *x = arg;
  tc_session *s = x->s;
  session_step *step = TC_NEW(s->arena, session_step);
  tc_sv entry = tc_sv_copy(s->arena, x->entry);
  TC_TRY(tc_plan_entry_read(s->context, entry, s->graph, &step->compiled));
  step->kind = STEP_EXEC;
  step->graph = s->graph;
  s->steps = step, s->n_steps = 1, s->whole = true;
  if (x->made) memcpy(step->compiled.ms, x->made->stats.ms, sizeof step->compiled.ms);
  session_add_stats(s, &step->compiled);
  return TC_OK;
}

static bool can_copy(const tc_session *s) {
  const tc_context *c = s->context;
  if (!c->device || !c->device->codegen || tc_debug_wanted(c)) return false;
  if (tc_config_bool(c->config, TC_OPT_ID_AUTOTUNE)) return false;
  for (const tc_node *n = s->graph->first; n; n = n->next)
    if (n->op->user) return false; // a function of the host is in no text
  return true;
}

static tc_status copy_once(copying *x, bool *out_done) {
  const tc_context *c = x->s->context;
  x->module = NULL, x->made = NULL, x->entry = (tc_sv){0}, x->read = false, *out_done = false;
  TC_TRY(tc_module_create(c->allocator, c->ops, &x->module));
  tc_status status = tc_arena_guard(x->module->arena, compile_copy, x);
  bool fails = x->read; // else it is the text's fault
  if (status == TC_OK && x->entry.size) {
    status = tc_arena_guard(x->s->arena, read_copied, x);
    *out_done = status == TC_OK;
    fails = false;
  }
  tc_session_destroy(x->made);
  tc_module_destroy(x->module);
  if (status == TC_OK || fails || tc_status_code(status) == TC_STATUS_OUT_OF_MEMORY) return status;
  tc_log(&c->logger, TC_LOG_CACHE, "the plan is made anew: %s", tc_status_text(status));
  tc_status_free(status);
  return TC_OK;
}

// *out_done false: the graph is to be compiled where it is.
static tc_status compile_for_plan(tc_session *s, bool *out_done) {
  copying x = {.s = s};
  *out_done = false;
  if (!can_copy(s)) return TC_OK;
  TC_TRY(copy_once(&x, out_done));
  if (*out_done || !x.from_cache) return TC_OK;
  x.anew = true;
  return copy_once(&x, out_done);
}

static void log_graph(const tc_session *s, const char *what) {
  tc_sb sb = tc_sb_make(s->arena);
  tc_graph_print(&sb, s->graph);
  tc_log(&s->context->logger, TC_LOG_AOT_GRAPHS, "%s:\n%s", what, sb.text);
}

// Is there to be a step for each op? The context's cache of them is opened where it is not yet.
static tc_status choose_ops(tc_session *s, const tc_source *source, int32_t last) {
  tc_context *c = s->context;
  bool wanted = source->by_op_always || (source->by_op && tc_config_bool(c->config, TC_OPT_ID_EAGER_BY_OP));
  if (!wanted || source->stages || last != TC_STAGE_EXEC || tc_debug_wanted(c)) return TC_OK;
  if (!c->device || !c->device->props.host_memory || !c->device->codegen) return TC_OK;
  s->run_op = session_run_op;
  tc_eager *made, *none = NULL;
  if (__atomic_load_n(&c->eager, __ATOMIC_ACQUIRE)) return TC_OK;
  TC_TRY(tc_eager_create(c, &made));
  if (!__atomic_compare_exchange_n(&c->eager, &none, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    tc_eager_destroy(made); // another session was first
  return TC_OK;
}

typedef struct compilation {
  const tc_source *source;
  int32_t last;
} compilation;
static tc_status compile_all(tc_session *s, void *arg) {
  const compilation *c = arg;
  tc_graph *g = s->graph;
  s->one_graph = c->source->one_graph;
  if (c->source->stage > TC_STAGE_FUNCTIONAL) return compile_source(s, c->source, c->last);
  tc_graph_sweep(g);
  TC_TRY(choose_ops(s, c->source, c->last));
  if (c->source->plan_only) {
    bool done;
    TC_TRY(compile_for_plan(s, &done));
    if (done) return TC_OK;
  }
  tc_hash128 key;
  bool keep = c->last == TC_STAGE_EXEC && !c->source->stages && !s->run_op && tc_plan_cache_key(s->context, g, &key);
  if (keep && load_plan(s, key)) return TC_OK;
  const tc_logger *lg = &s->context->logger;
  if (tc_log_in_detail(lg, TC_LOG_AOT_GRAPHS)) log_graph(s, "as imported");
  double start = tc_now_ms();
  if (c->last > TC_STAGE_GRAPH && s->context->is_ref) TC_TRY(tc_autograd_requests(g));
  if (c->last > TC_STAGE_GRAPH && !s->context->is_ref) TC_TRY(tc_compile_passes(s->context, g));
  else if (c->last > TC_STAGE_GRAPH && tc_graph_writes(g)) TC_TRY(make_functional(s->context, g));
  s->stats.ms[TC_STAGE_FUNCTIONAL] = tc_now_ms() - start;
  tc_profile_span(s->context->profile, "compile", TC_SV("functional"), start, tc_now_ms());
  if (c->last > TC_STAGE_GRAPH && tc_log_on(lg, TC_LOG_AOT_GRAPHS)) log_graph(s, "functional");
  if (c->last <= TC_STAGE_FUNCTIONAL) return TC_OK;
  tc_graph_sweep(g);
  TC_TRY(compile(s, c->last));
  const tc_plan *plan = keep ? tc_session_plan(s) : NULL;
  if (plan) tc_plan_cache_store(s->context, key, plan);
  return TC_OK;
}

static tc_status create_region(const tc_session *s, tc_graph *g, int32_t last, tc_session **out) {
  tc_source source = {.stage = TC_STAGE_GRAPH, .graph = g, .one_graph = s->one_graph};
  return session_create(s->context, g, compile_all, &(compilation){&source, last}, last <= TC_STAGE_FUNCTIONAL, out);
}

// The same, and the folder of the compilation.
static tc_status compile_and_tell(tc_session *s, void *arg) {
  const compilation *c = arg;
  tc_sb imported = tc_sb_make(s->arena);
  s->name = c->source->name.size ? c->source->name : s->graph->name;
  bool tells = c->last == TC_STAGE_EXEC && tc_debug_wanted(s->context);
  if (tells) tc_graph_print(&imported, s->graph);
  TC_TRY(compile_all(s, arg));
  if (!tells) return TC_OK;
  s->note_run = tc_debug_note_run;
  return tc_debug_write(s, tc_sb_view(&imported), c->source, &s->debug_folder);
}

tc_status tc_session_create(tc_context *c, tc_graph *g, int32_t last, tc_session **out) {
  return tc_session_create_from(c, &(tc_source){.stage = TC_STAGE_GRAPH, .graph = g}, last, out);
}

tc_status tc_session_create_from(tc_context *c, const tc_source *source, int32_t last, tc_session **out) {
  compilation x = {source, last};
  TC_TRY(session_create(c, source->graph, compile_and_tell, &x, last <= TC_STAGE_FUNCTIONAL, out));
  tc_session_set_more(*out, &source->more);
  tc_status status = last == TC_STAGE_EXEC ? tc_session_add_images(*out, source->n_others, source->others) : TC_OK;
  if (status != TC_OK) {
    tc_session_destroy(*out);
    *out = NULL;
  }
  return status;
}

// ---- Showing ----
tc_status tc_session_text(const tc_session *s, int32_t stage, tc_sb *sb) {
  if (stage <= TC_STAGE_FUNCTIONAL) {
    tc_user_ops_print(sb, s->graph);
    tc_graph_print(sb, s->graph);
    return TC_OK;
  }
  for (int32_t i = 0; i < s->n_steps; i++) {
    const session_step *step = &s->steps[i];
    if (s->n_steps > 1) tc_sb_printf(sb, "%s# step %d of %d\n", i ? "\n" : "", i + 1, s->n_steps);
    if (step->kind == STEP_EXEC || s->context->is_ref) TC_TRY(tc_compiled_text(s->context, &step->compiled, stage, sb));
    if (step->kind == STEP_DELEGATE) tc_sb_printf(sb, "# left to " TC_SV_FMT "\n", TC_SV_ARG(step->delegate->name));
    if ((step->kind == STEP_REF && !s->context->is_ref) || step->kind == STEP_DELEGATE) tc_graph_print(sb, step->graph);
    if (step->kind != STEP_CONTROL) continue;
    for (int32_t k = 0; k < 2 && step->regions[k]; k++) {
      tc_sb_printf(sb, "# region %d of %%" TC_SV_FMT "\n", k, TC_SV_ARG(step->node->name));
      TC_TRY(tc_session_text(step->regions[k], stage, sb));
    }
  }
  return TC_OK;
}

void tc_session_guards(const tc_session *s, tc_sb *sb) {
  const tc_graph *g = s->graph;
  tc_module *m = g->module;
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_graph_input *in = &g->inputs.data[i];
    if (!in->value || in->value->kind != TC_VALUE_TENSOR) continue;
    const tc_tensor_type *t = &in->value->type;
    tc_sb_printf(sb, "%%" TC_SV_FMT ": %s, sizes [", TC_SV_ARG(in->value->name), tc_dtype_name(t->dtype));
    for (int32_t k = 0; k < 2 * t->rank; k++) {
      if (k == t->rank) tc_sb_putz(sb, "], strides [");
      else if (k) tc_sb_putz(sb, ", ");
      tc_sym_print(sb, k < t->rank ? t->sizes[k] : t->strides[k - t->rank]);
    }
    if (t->rank == 0) tc_sb_putz(sb, "], strides [");
    tc_sb_putz(sb, "]\n");
  }
  for (int32_t i = 0; i < m->requires_.count; i++) {
    tc_sym_print(sb, m->requires_.data[i]);
    tc_sb_putc(sb, '\n');
  }
}
