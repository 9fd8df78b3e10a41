// tcrun minify: from a model that fails on a backend to a few ops that still do, as a .tc file with their inputs.
//
// The functional graph is run once on the references, and all values are kept. Then any set of its nodes is a program
// of its own: what it reads from outside are inputs, with the values that were kept. Sets are made smaller by delta
// debugging (Zeller, Hildebrandt: Simplifying and Isolating Failure-Inducing Input, 2002) while the failure stays of
// one kind: wrong values, an error of the same code, a crash by the same signal. Each is tried in a process of its own,
// from its text, so crashes and hangs are failures like others and what is found reproduces from the file.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/ir/refexec.h"
#include "core/passes/passes.h"
#include "tcrun/tcrun.h"

enum { TRY_SECONDS = 120, MOST_TEXT = 4000 };

// How a program ended. `code`: the error's, or the signal's number.
enum { AGREES, DIFFERS, FAILS, CRASHES, HANGS, UNUSABLE };
typedef struct verdict {
  int32_t kind, code;
  char text[MOST_TEXT];
} verdict;

// A set of nodes as text, and its inputs by position.
typedef struct candidate {
  tc_sv text;
  tc_tensor *inputs; // borrowed
  int32_t n_inputs;
} candidate;

typedef struct text_run {
  model m;
  tc_session *session;
  tc_tensor *outputs;
  int32_t n_outputs;
} text_run;

typedef struct minification {
  run_options *o;
  tc_context *ref; // of the references
  model m;
  tc_map *values; // tc_value * → tc_tensor *: what the references gave
  tc_node **nodes;
  int32_t n_nodes, tries;
  verdict first;  // of the whole graph
  text_run shown; // on the references, of what is left
} minification;

// ---- Values ----
static void keep_value(minification *k, const tc_value *v, const tc_tensor *t) {
  tc_tensor *kept = TC_NEW(k->o->arena, tc_tensor);
  tc_map_entry *e = tc_map_put_ptr(k->values, v, NULL);
  e->value.ptr = kept;
  *kept = tc_tensor_ref(t);
}

// All results of all nodes as outputs of the graph, behind its own.
static void show_all(tc_graph *g, tc_value ***out_values, int32_t *out_n) {
  TC_VEC(tc_value *) values = {0};
  for (tc_node *n = g->first; n; n = n->next)
    for (int32_t i = 0; i < n->n_results; i++)
      if (n->results[i]->kind != TC_VALUE_NONE && n->results[i]->kind != TC_VALUE_TOKEN)
        tc_vec_push(g->module->arena, &values, n->results[i]);
  for (int32_t i = 0; i < values.count; i++)
    tc_graph_add_output(g, TC_OUT_USER, tc_arg_tensor(values.data[i]), values.data[i]->name);
  *out_values = values.data, *out_n = values.count;
}

static tc_status give_inputs(minification *k, const tc_tensor *inputs, const tc_tensor **dense) {
  const tc_graph *g = k->m.graph;
  tc_tensor *all = TC_NEW_ARRAY(k->o->arena, tc_tensor, g->inputs.count);
  int32_t n = 0;
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_graph_input *in = &g->inputs.data[i];
    if (!in->value) continue;
    const tc_map_entry *e = tc_map_find(k->m.module->bindings, in->target);
    const tc_binding *b = e ? e->value.ptr : NULL;
    const tc_tensor *t = inputs[i].storage ? &inputs[i] : b ? &b->tensor : NULL;
    if (t && t->storage) keep_value(k, in->value, t);
    else if (in->value->kind != TC_VALUE_TOKEN)
      return tc_error(TC_STATUS_NOT_FOUND, "input '" TC_SV_FMT "' has no value", TC_SV_ARG(in->target));
    if (t) all[n] = *t;
    n++;
  }
  *dense = all;
  return TC_OK;
}

// Runs the graph on the references.
static tc_status record(minification *k) {
  tc_graph *g = k->m.graph;
  static const tc_pass *const pass = &tc_pass_functionalize;
  TC_TRY(tc_run_passes(g, &pass, 1, 1, &(tc_pass_options){0}));
  tc_graph_sweep(g);
  k->nodes = TC_NEW_ARRAY(k->o->arena, tc_node *, g->n_nodes);
  for (tc_node *n = g->first; n; n = n->next) k->nodes[k->n_nodes++] = n;
  tc_tensor *inputs;
  const tc_tensor *dense;
  tc_value **values;
  int32_t own = g->outputs.count, n_inputs = 0, n_values;
  TC_TRY(tcrun_inputs(k->ref, k->o, &k->m, &inputs, NULL));
  tc_status s = give_inputs(k, inputs, &dense);
  tcrun_free_tensors(inputs, g->inputs.count);
  TC_TRY(s);
  show_all(g, &values, &n_values);
  for (int32_t i = 0; i < g->inputs.count; i++) n_inputs += g->inputs.data[i].value != NULL;
  tc_tensor *outputs = TC_NEW_ARRAY(k->o->arena, tc_tensor, g->outputs.count);
  TC_TRY(tc_ref_run(g, k->ref->allocator, n_inputs, dense, outputs, &(tc_ref_options){.seed = k->o->seed}),
         "while running the model on the references");
  for (int32_t i = 0; i < n_values; i++)
    if (outputs[own + i].storage) keep_value(k, values[i], &outputs[own + i]);
  tcrun_free_tensors(outputs, g->outputs.count);
  g->outputs.count = own;
  return TC_OK;
}

// ---- Candidates ----
// Everything that it reads is the user's; false if a value was not kept.
static bool make_candidate(minification *k, int32_t n, tc_node *const *nodes, candidate *out) {
  tc_extract x;
  tc_arena *arena = k->o->arena;
  tc_graph_extract(k->m.graph, n, nodes, false, &x);
  *out = (candidate){.inputs = TC_NEW_ARRAY(arena, tc_tensor, x.n_inputs), .n_inputs = x.n_inputs};
  for (int32_t i = 0; i < x.n_inputs; i++) {
    tc_graph_input *in = &x.graph->inputs.data[i];
    const tc_map_entry *e = tc_map_find_ptr(k->values, x.inputs[i]);
    if (!e) return false;
    out->inputs[i] = *(const tc_tensor *)e->value.ptr;
    in->kind = TC_IN_USER, in->target = in->value->name;
  }
  tc_sb sb = tc_sb_make(arena);
  tc_graph_print(&sb, x.graph);
  out->text = tc_sb_view(&sb);
  return x.n_outputs > 0;
}

// ---- A try, in a process of its own ----
static tc_status run_text(tc_context *c, const candidate *x, const run_options *o, text_run *r) {
  *r = (text_run){0};
  TC_TRY(tcrun_read_text(c, TC_SV("candidate"), x->text, &r->m));
  TC_TRY(tc_session_create_from(c, &r->m.source, TC_STAGE_EXEC, &r->session));
  tc_tensor *outputs = TC_NEW_ARRAY(o->arena, tc_tensor, r->m.graph->outputs.count);
  TC_TRY(tc_session_run(r->session, x->inputs, outputs, &(tc_session_run_options){.seed = o->seed}));
  r->outputs = outputs, r->n_outputs = r->m.graph->outputs.count;
  return TC_OK;
}

static void end_run(text_run *r) {
  tcrun_free_tensors(r->outputs, r->n_outputs);
  tc_session_destroy(r->session);
  tcrun_unload(&r->m);
}

static tc_status compare(run_options *o, int32_t n, const tc_tensor *got, const tc_tensor *want) {
  for (int32_t i = 0; i < n; i++) {
    if (!got[i].storage || !want[i].storage) continue;
    tolerance t = tcrun_default_tolerance(got[i].dtype);
    if (o->rtol >= 0) t.rtol = o->rtol;
    if (o->atol >= 0) t.atol = o->atol;
    difference d;
    TC_TRY(tcrun_compare(tc_system_allocator(), &got[i], &want[i], NULL, &t, &d), "output %d", i);
  }
  return TC_OK;
}

typedef struct attempt {
  run_options *o;
  const candidate *x;
  verdict *v;
} attempt;

static void judge(verdict *v, int32_t kind, tc_status s) {
  v->kind = kind, v->code = tc_status_code(s);
  snprintf(v->text, sizeof v->text, "%s", tc_status_text(s));
  tc_status_free(s);
}

// The child's work; what it takes goes with the process.
static tc_status try_here(void *arg) {
  attempt *a = arg;
  tc_context *c, *ref;
  text_run mine, theirs;
  tc_status s = tcrun_open_ref(a->o, &ref);
  if (s == TC_OK) s = run_text(ref, a->x, a->o, &theirs);
  if (s != TC_OK) {
    judge(a->v, UNUSABLE, s); // not a program by itself
    return TC_OK;
  }
  s = tcrun_open(a->o, &c);
  if (s == TC_OK) s = run_text(c, a->x, a->o, &mine);
  if (s != TC_OK) {
    judge(a->v, FAILS, s);
    return TC_OK;
  }
  int32_t n = mine.n_outputs < theirs.n_outputs ? mine.n_outputs : theirs.n_outputs;
  s = compare(a->o, n, mine.outputs, theirs.outputs);
  if (s != TC_OK) judge(a->v, DIFFERS, s);
  return TC_OK;
}

static void child(run_options *o, const candidate *x, int to) {
  verdict v = {.kind = AGREES};
  attempt a = {o, x, &v};
  tc_status s = tc_arena_guard(o->arena, try_here, &a);
  if (s != TC_OK) judge(&v, FAILS, s);
  for (size_t at = 0; at < sizeof v;) {
    ssize_t n = write(to, (const char *)&v + at, sizeof v - at);
    if (n <= 0) break;
    at += (size_t)n;
  }
  _exit(0);
}

// Reads the verdict; false: the child ended, or took too long, before it had one.
static bool hear(int from, verdict *v, bool *out_late) {
  double end = tc_now_ms() + TRY_SECONDS * 1000.0;
  *out_late = false;
  for (size_t at = 0; at < sizeof *v;) {
    double left = end - tc_now_ms();
    struct pollfd fd = {.fd = from, .events = POLLIN};
    int ready = left > 0 ? poll(&fd, 1, (int)left + 1) : 0;
    if (ready < 0 && errno == EINTR) continue;
    *out_late = ready == 0;
    if (ready <= 0) return false;
    ssize_t n = read(from, (char *)v + at, sizeof *v - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += (size_t)n;
  }
  return true;
}

static tc_status try_candidate(minification *k, const candidate *x, verdict *v) {
  int ends[2], status = 0;
  bool late;
  if (pipe(ends) != 0) return tc_fs_error(errno, "make", "a pipe");
  fflush(stdout), fflush(stderr);
  pid_t pid = fork();
  if (pid < 0) {
    close(ends[0]), close(ends[1]);
    return tc_fs_error(errno, "start", "a process");
  }
  if (pid == 0) {
    close(ends[0]);
    child(k->o, x, ends[1]);
  }
  close(ends[1]);
  *v = (verdict){0};
  bool heard = hear(ends[0], v, &late);
  close(ends[0]);
  if (!heard) kill(pid, SIGKILL);
  waitpid(pid, &status, 0);
  if (!heard) {
    *v = (verdict){.kind = late ? HANGS : CRASHES, .code = WIFSIGNALED(status) ? WTERMSIG(status) : 0};
    if (late) snprintf(v->text, sizeof v->text, "it takes more than %d seconds", TRY_SECONDS);
    else snprintf(v->text, sizeof v->text, "crashed: %s", WIFSIGNALED(status) ? strsignal(v->code) : "it ended");
  }
  k->tries++;
  return TC_OK;
}

// ---- Shrinking ----
static tc_status still_fails(minification *k, int32_t n, tc_node *const *nodes, bool *out) {
  candidate x;
  verdict v;
  *out = false;
  if (n == 0 || !make_candidate(k, n, nodes, &x)) return TC_OK;
  TC_TRY(try_candidate(k, &x, &v));
  *out = v.kind == k->first.kind && v.code == k->first.code;
  return TC_OK;
}

// Takes away runs of nodes, long ones first, until no single node can go.
static tc_status shrink(minification *k) {
  tc_node **rest = TC_NEW_ARRAY(k->o->arena, tc_node *, k->n_nodes);
  bool progress = !k->o->quiet && isatty(STDERR_FILENO);
  for (int32_t size = k->n_nodes / 2 > 0 ? k->n_nodes / 2 : 1, gone = 0;; gone = 0) {
    for (int32_t at = 0; at < k->n_nodes && k->n_nodes > 1;) {
      int32_t n = at + size < k->n_nodes ? size : k->n_nodes - at, left = k->n_nodes - n;
      bool fails;
      memcpy(rest, k->nodes, (size_t)at * sizeof(*rest));
      memcpy(rest + at, k->nodes + at + n, (size_t)(left - at) * sizeof(*rest));
      TC_TRY(still_fails(k, left, rest, &fails));
      if (fails) {
        memcpy(k->nodes, rest, (size_t)left * sizeof(*rest));
        k->n_nodes = left, gone += n;
        if (progress) fprintf(stderr, "\r%d nodes after %d tries ", k->n_nodes, k->tries);
      } else {
        at += n;
      }
    }
    if (size == 1 && gone == 0) break;
    if (size > 1) size /= 2;
  }
  if (progress) fprintf(stderr, "\r%40s\r", "");
  return TC_OK;
}

// ---- Files ----
// The inputs, and what the references make of them, so that `tcrun check` of the text says the same again.
static tc_status write_tensors(minification *k, const candidate *x, const char *path) {
  tc_arena *arena = k->o->arena;
  const tc_graph *g = k->shown.m.graph;
  tc_tensor_list list = {.items = TC_NEW_ARRAY(arena, tc_named_tensor, x->n_inputs + k->shown.n_outputs)};
  for (int32_t i = 0, leaf = 0; i < x->n_inputs + k->shown.n_outputs; i++) {
    int32_t output = i - x->n_inputs;
    if (output >= 0 && g->outputs.data[output].kind != TC_OUT_USER) continue;
    const tc_tensor *t = output < 0 ? &x->inputs[i] : &k->shown.outputs[output];
    tc_sv name = output < 0 ? tc_sv_printf(arena, "in.%d", i) : tc_sv_printf(arena, "out.%d", leaf++);
    if (t->storage) list.items[list.count++] = (tc_named_tensor){name, *t};
  }
  return tc_tensors_write(arena, path, &list);
}

static tc_status write_files(minification *k) {
  tc_arena *arena = k->o->arena;
  candidate x;
  verdict v;
  if (!make_candidate(k, k->n_nodes, k->nodes, &x))
    return tc_error(TC_STATUS_INTERNAL, "the nodes that are left are no program");
  TC_TRY(try_candidate(k, &x, &v));
  tc_sv out = k->o->output.size ? k->o->output : tc_sv_printf(arena, TC_SV_FMT ".min.tc", TC_SV_ARG(k->m.file)),
        stem = out;
  if (tc_sv_ends(out, ".tc")) stem = tc_sv_sub(out, 0, out.size - 3);
  const char *tensors = tc_sv_printf(arena, TC_SV_FMT ".safetensors", TC_SV_ARG(stem)).data;
  TC_TRY(tc_file_write(tc_sv_z(arena, out), x.text.data, x.text.size));
  TC_TRY(run_text(k->ref, &x, k->o, &k->shown));
  TC_TRY(write_tensors(k, &x, tensors));
  printf("%d of %d nodes, after %d tries: %s\n", k->n_nodes, k->m.graph->n_nodes, k->tries, v.text);
  for (int32_t i = 0; i < k->n_nodes; i++)
    printf("  " TC_SV_FMT "%s" TC_SV_FMT "\n", TC_SV_ARG(k->nodes[i]->op->full_name),
           k->nodes[i]->source.size ? "  # " : "", TC_SV_ARG(k->nodes[i]->source));
  tc_sb again = tc_sb_make(arena);
  tc_sb_printf(&again, "tcrun check " TC_SV_FMT " --backend=" TC_SV_FMT " --mode=" TC_SV_FMT, TC_SV_ARG(out),
               TC_SV_ARG(tc_config_text(k->o->config, TC_OPT_ID_BACKEND)),
               TC_SV_ARG(tc_config_text(k->o->config, TC_OPT_ID_MODE)));
  if (k->o->rtol >= 0) tc_sb_printf(&again, " --rtol=%g", k->o->rtol);
  if (k->o->atol >= 0) tc_sb_printf(&again, " --atol=%g", k->o->atol);
  if (tc_config_bool(k->o->config, TC_OPT_ID_STRICT)) tc_sb_putz(&again, " --strict");
  printf("written: " TC_SV_FMT ", %s\nagain: %s\n", TC_SV_ARG(out), tensors, again.text);
  return TC_OK;
}

// Under the guards of the command's arena and of the module's.
static tc_status minify_loaded(void *arg) {
  minification *k = arg;
  candidate x;
  TC_TRY(record(k));
  if (!make_candidate(k, k->n_nodes, k->nodes, &x))
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "the model has no nodes whose results are used");
  TC_TRY(try_candidate(k, &x, &k->first));
  if (k->first.kind == UNUSABLE)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "the references do not run it: %s", k->first.text);
  if (k->first.kind == AGREES) {
    printf("nothing fails: the backend agrees with the references\n");
    return TC_OK;
  }
  if (!k->o->quiet) fprintf(stderr, "%d nodes: %s\n", k->n_nodes, k->first.text);
  TC_TRY(shrink(k));
  return write_files(k);
}

static tc_status minify(void *arg) {
  minification *k = arg;
  TC_TRY(tcrun_load(k->ref, k->o, tc_sv_z(k->o->arena, k->o->args.data[0]), &k->m));
  if (k->m.source.stage > TC_STAGE_FUNCTIONAL)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "only graphs can be made smaller");
  return tc_arena_guard(k->m.module->arena, minify_loaded, k);
}

tc_status cmd_minify(run_options *o) {
  minification k = {.o = o, .values = tc_map_create(o->arena)};
  if (o->args.count != 1)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "one model is expected, %d are given", o->args.count);
  // The backend is opened by the tries alone: a process with its threads cannot be forked.
  TC_TRY(tcrun_open_ref(o, &k.ref));
  tc_status s = tc_arena_guard(o->arena, minify, &k);
  end_run(&k.shown);
  for (int32_t i = 0; i < tc_map_count(k.values); i++)
    if (tc_map_at(k.values, i)->value.ptr) tc_tensor_unref(tc_map_at(k.values, i)->value.ptr);
  tcrun_unload(&k.m);
  tc_context_destroy(k.ref);
  return s;
}
