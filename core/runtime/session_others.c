// One program in several executables: which of them takes the inputs of a run, and what to say where none does.
//
// A session keeps the state; those that were added to it are executables only, and are given all that they read. They
// are a list that only grows, at its end and under the lock, so that runs read it without one.
#include <stdatomic.h>
#include <stdio.h>

#include "core/runtime/session_internal.h"

static tc_session *next_of(const tc_session *s) {
  return atomic_load_explicit(&((tc_session *)(uintptr_t)s)->next, memory_order_acquire);
}

static bool is_state(const tc_graph_input *in) {
  return in->value && (in->kind == TC_IN_PARAMETER || in->kind == TC_IN_BUFFER || in->kind == TC_IN_CONSTANT);
}

// ---- The list ----
static bool same_input(const tc_graph_input *a, const tc_graph_input *b) {
  bool same = a->kind == b->kind && !a->value == !b->value && tc_sv_eq(a->target, b->target);
  if (!same || !a->value || a->value->kind != b->value->kind) return same && !a->value;
  if (a->value->kind != TC_VALUE_TENSOR) return true;
  return a->value->type.rank == b->value->type.rank && a->value->type.dtype == b->value->type.dtype;
}

tc_status tc_session_check_alike(const tc_graph *a, const tc_graph *b) {
  if (a->inputs.count != b->inputs.count || a->outputs.count != b->outputs.count)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "the programs have %d and %d inputs, %d and %d outputs",
                    a->inputs.count, b->inputs.count, a->outputs.count, b->outputs.count);
  for (int32_t i = 0; i < a->inputs.count; i++)
    if (!same_input(&a->inputs.data[i], &b->inputs.data[i]))
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "input %d ('" TC_SV_FMT "') differs by more than its sizes", i,
                      TC_SV_ARG(a->inputs.data[i].target));
  for (int32_t i = 0; i < a->outputs.count; i++) {
    const tc_graph_output *x = &a->outputs.data[i], *y = &b->outputs.data[i];
    if (x->kind != y->kind || (x->kind != TC_OUT_USER && !tc_sv_eq(x->target, y->target)))
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "output %d is another", i);
  }
  return TC_OK;
}

static void append(tc_session *s, tc_session *other) {
  tc_session *last = s;
  while (next_of(last)) last = next_of(last);
  atomic_store_explicit(&last->next, other, memory_order_release);
}

tc_status tc_session_add(tc_session *s, tc_session *other) {
  tc_status status = tc_session_check_alike(s->graph, other->graph);
  if (status != TC_OK) {
    tc_session_destroy(other);
    return status;
  }
  pthread_mutex_lock(&s->lock);
  append(s, other);
  pthread_mutex_unlock(&s->lock);
  return TC_OK;
}

tc_status tc_session_add_images(tc_session *s, int32_t n, const tc_image *images) {
  for (int32_t i = 0; i < n; i++) {
    tc_session *other;
    TC_TRY(tc_session_create_image(s->context, &images[i], &other));
    TC_TRY(tc_session_add(s, other));
  }
  return TC_OK;
}

void tc_session_set_more(tc_session *s, const tc_session_more *more) { s->more = *more; }

// ---- Words ----
static void print_number(tc_sb *sb, const tc_value *v) {
  static const char *const kinds[] = {
      [TC_VALUE_FLOAT] = "float", [TC_VALUE_BOOL] = "truth", [TC_VALUE_TOKEN] = "token", [TC_VALUE_NONE] = "none"};
  if (v->kind == TC_VALUE_SYM) tc_sym_print(sb, v->symbol);
  else tc_sb_putz(sb, kinds[v->kind]);
}

void tc_session_print_inputs(tc_sb *sb, const tc_graph *g) {
  const char *between = "";
  uint8_t *used = TC_NEW_ARRAY(sb->arena, uint8_t, tc_sym_symbol_count(g->module->syms) + 1);
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_graph_input *in = &g->inputs.data[i];
    if (in->kind != TC_IN_USER || !in->value) continue;
    tc_sb_printf(sb, "%s" TC_SV_FMT " ", between, TC_SV_ARG(in->target.size ? in->target : in->value->name));
    if (in->value->kind == TC_VALUE_TENSOR) tc_type_print(sb, &in->value->type);
    else print_number(sb, in->value);
    between = ", ";
  }
  tc_inputs_mark(used, g);
  tc_symbols_print(sb, g->module, used);
}

// ---- Choosing ----
typedef struct choice {
  tc_session *s;
  tc_tensor *all; // by graph input: what is given, else the state; borrowed
  const tc_session_run_options *options;
} choice;

static bool is_one_executable(const tc_session *x) { return x->whole && x->steps->kind == STEP_EXEC; }

// Of a session that is cut, or that the references run: what its inputs promise. The rest is said by the run.
static tc_status takes_sizes(const choice *c, const tc_session *x, const int64_t *symbols) {
  const tc_graph *g = x->graph;
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_value *v = g->inputs.data[i].value;
    const tc_tensor *t = &c->all[i];
    tc_sv name = g->inputs.data[i].target;
    if (!v || v->kind != TC_VALUE_TENSOR || !t->storage) continue;
    if (t->dtype != v->type.dtype || t->rank != v->type.rank)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "input '" TC_SV_FMT "' is %s of rank %d; the program takes %s of %d",
                      TC_SV_ARG(name), tc_dtype_name(t->dtype), t->rank, tc_dtype_name(v->type.dtype), v->type.rank);
    for (int32_t d = 0; d < t->rank; d++) {
      int64_t want;
      if (tc_session_eval(x, v->type.sizes[d], symbols, &want) && want != t->sizes[d])
        return tc_error(TC_STATUS_INVALID_ARGUMENT,
                        "input '" TC_SV_FMT "' size mismatch at index %d. expected %lld, actual %lld", TC_SV_ARG(name),
                        d, (long long)want, (long long)t->sizes[d]);
    }
  }
  for (int32_t i = 0; i < x->n_symbols; i++) {
    const tc_sym_info *info = tc_sym_info_read(g->module->syms, tc_sym_symbol_at(g->module->syms, i));
    if (symbols[i] != INT64_MIN && (symbols[i] < info->lo || symbols[i] > info->hi))
      return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT " = %lld lies outside the program's range [%lld, %lld]",
                      TC_SV_ARG(info->name), (long long)symbols[i], (long long)info->lo, (long long)info->hi);
  }
  return TC_OK;
}

static tc_status takes(const choice *c, tc_session *x) {
  enum { FEW_SYMBOLS = 64 };
  int64_t few[FEW_SYMBOLS];
  int64_t *symbols = few;
  if (x->n_symbols > FEW_SYMBOLS) symbols = tc_alloc(x->context->allocator, (size_t)x->n_symbols * sizeof *symbols);
  if (!symbols) return tc_error_out_of_memory();
  tc_session_symbols(x, c->all, symbols);
  tc_run_options o = {.symbols = symbols, .n_symbols = x->n_symbols};
  tc_status s = is_one_executable(x) ? tc_exec_takes(x->steps->compiled.exec, c->all, &o) : takes_sizes(c, x, symbols);
  if (symbols != few) tc_free(x->context->allocator, symbols);
  return s;
}

static bool fits(const choice *c, tc_session *x) {
  tc_status s = takes(c, x);
  bool yes = s == TC_OK;
  tc_status_free(s);
  return yes;
}

static tc_session *find_added(const choice *c, bool late) {
  for (tc_session *x = next_of(c->s); x; x = next_of(x))
    if (x->late == late && fits(c, x)) return x;
  return NULL;
}

// What was made in need takes most, and comes last.
static tc_session *find(const choice *c) {
  tc_session *x = find_added(c, false);
  if (!x && fits(c, c->s)) x = c->s;
  return x ? x : find_added(c, true);
}

// Whoever comes first asks; the others wait, and find what was made.
static tc_status ask(const choice *c) {
  tc_session *s = c->s, *made = NULL;
  tc_status status = TC_OK;
  pthread_mutex_lock(&s->lock);
  if (s->more.make && !s->asked) {
    s->asked = true;
    status = s->more.make(s->more.self, &made);
    if (status == TC_OK && made) status = tc_session_check_alike(s->graph, made->graph);
    if (status == TC_OK && made) made->late = true, append(s, made), made = NULL;
  }
  pthread_mutex_unlock(&s->lock);
  tc_session_destroy(made);
  return tc_status_note(status, "while compiling the program for inputs that none of its executables takes");
}

typedef struct words {
  const choice *choice;
  tc_arena *arena;
  tc_status status;
} words;
static tc_status say(void *arg) {
  words *w = arg;
  const choice *c = w->choice;
  int32_t n = 0;
  tc_sb sb = tc_sb_make(w->arena);
  for (tc_session *x = c->s; x; x = next_of(x), n++) {
    tc_sb_putz(&sb, "\n  ");
    tc_session_print_inputs(&sb, x->graph);
    tc_status why = takes(c, x); // kept by nobody while the text grows: it may unwind
    char reason[256];
    snprintf(reason, sizeof reason, "%s", tc_status_text(why));
    tc_status_free(why);
    tc_sb_printf(&sb, ": %s", reason);
  }
  w->status =
      tc_error(TC_STATUS_INVALID_ARGUMENT, "none of the %d executables of '" TC_SV_FMT "' takes these inputs:%s", n,
               TC_SV_ARG(c->s->name), sb.text);
  return TC_OK;
}

static tc_status refuse(const choice *c) {
  words w = {.choice = c};
  tc_status s = tc_arena_create(c->s->context->allocator, &w.arena);
  if (s == TC_OK) s = tc_arena_guard(w.arena, say, &w);
  tc_arena_destroy(w.arena);
  return s == TC_OK ? w.status : s;
}

// ---- Running ----
// What x changes of the state is the session's own, and is handed to it like any tensor of a caller.
static tc_status own_state(const choice *c, const tc_session *x, const tc_tensor *given) {
  const tc_graph *g = x->graph;
  for (int32_t i = 0; i < g->inputs.count; i++) {
    if (given[i].storage || !is_state(&g->inputs.data[i]) || !c->s->state[i].storage) continue;
    bool changes = is_one_executable(x) && tc_exec_writes_input(x->steps->compiled.exec, i);
    for (int32_t k = 0; k < g->outputs.count; k++) {
      const tc_graph_output *o = &g->outputs.data[k];
      changes |= (o->kind == TC_OUT_BUFFER_MUTATION || o->kind == TC_OUT_PARAMETER_MUTATION) &&
                 tc_sv_eq(o->target, g->inputs.data[i].target);
    }
    if (changes) TC_TRY(session_make_private(c->s, i));
  }
  for (int32_t i = 0; i < g->inputs.count; i++)
    if (!given[i].storage && is_state(&g->inputs.data[i])) c->all[i] = c->s->state[i];
  return TC_OK;
}

static tc_status run_found(const choice *c, const tc_tensor *given, tc_tensor *outputs) {
  tc_session *x = find(c);
  if (!x) {
    TC_TRY(ask(c));
    x = find(c);
  }
  if (!x) return refuse(c);
  if (x == c->s) return session_run_symbols(x, given, outputs, c->options, NULL, 0);
  if (c->options && c->options->write_back && x->mutates) TC_TRY(own_state(c, x, given));
  return session_run_symbols(x, c->all, outputs, c->options, NULL, 0);
}

tc_status session_run_fitting(tc_session *s, const tc_tensor *given, tc_tensor *outputs,
                              const tc_session_run_options *options) {
  const tc_allocator *a = s->context->allocator;
  int32_t n = s->graph->inputs.count;
  if (options && options->watch) return session_run_symbols(s, given, outputs, options, NULL, 0); // of its parts
  choice c = {.s = s, .options = options, .all = tc_alloc(a, (size_t)(n + 1) * sizeof *c.all)};
  if (!c.all) return tc_error_out_of_memory();
  for (int32_t i = 0; i < n; i++)
    c.all[i] = given[i].storage || !is_state(&s->graph->inputs.data[i]) ? given[i] : s->state[i];
  tc_status status = run_found(&c, given, outputs);
  tc_free(a, c.all);
  return status;
}
