// Every op with arguments that do not fit: wrong dtypes, ranks, sizes, dimensions, lengths, kinds. An op either takes
// them, and then its reference gives what its meta function said, or refuses in words that name it; it never crashes,
// and never asks for more memory than such small calls can need. Calls come from the schemas alone
// (tests/fuzz/graphs/calls.h). The slowest call is printed.
#include <time.h>

#include "core/ir/refexec.h"
#include "tests/fuzz/graphs/compare.h"
#include "tests/unit/ops/rounds.h"

enum { SEARCH = 60, CHANGES = 5, LARGEST = 1 << 14, MOST_BYTES = 1 << 30 };

typedef struct trial {
  const tc_op_registry *ops;
  const tc_op *op;
  uint64_t seed;
  int32_t good, refused, ran, failed; // counts
  char text[400];                     // of the call, for a failure
  double slowest;                     // processor's seconds of a call
  char slowest_text[400];
  tc_fault_allocator memory;
} trial;

// Memory up to MOST_BYTES, counted.
static void *bounded_alloc(void *self, size_t size) {
  tc_fault_allocator *f = self;
  return size > (size_t)(MOST_BYTES - f->live_bytes) ? NULL : f->iface.alloc(f, size);
}
static tc_allocator bounded(trial *t) { return (tc_allocator){&t->memory, bounded_alloc, t->memory.iface.free}; }

static void describe(trial *t, tc_arena *arena, const call *c) {
  tc_sb sb = tc_sb_make(arena);
  tc_sb_put(&sb, c->op->full_name);
  for (int32_t i = 0; i < c->n_args; i++) {
    const call_arg *a = &c->args[i];
    tc_sb_putz(&sb, i ? ", " : "(");
    for (int32_t k = 0; k < a->n; k++) {
      tc_sb_printf(&sb, "%s[", tc_dtype_name(a->types[k].dtype));
      for (int32_t d = 0; d < a->types[k].rank; d++)
        tc_sb_printf(&sb, "%s%d", d ? ", " : "", (int)a->types[k].sizes[d]);
      tc_sb_putz(&sb, "] ");
    }
    if (!a->n) tc_arg_print(&sb, &a->plain, i < c->op->schema.n_args ? c->op->schema.args[i].type : TC_ST_OTHER);
  }
  tc_sb_putz(&sb, ")");
  snprintf(t->text, sizeof t->text, "%s", sb.text);
}

static tc_status run_reference(trial *t, tc_graph *g) {
  tc_tensor in[MOST_IO] = {0}, out[MOST_IO] = {0};
  tc_status s = make_inputs(g, NULL, t->seed, in);
  tc_allocator a = bounded(t);
  if (s == TC_OK) s = tc_ref_run(g, &a, g->inputs.count, in, out, NULL);
  for (int32_t i = 0; i < MOST_IO; i++) tc_tensor_unref(&in[i]), tc_tensor_unref(&out[i]);
  return s;
}

static void judge(trial *t, tc_status s, const char *when) {
  int32_t code = tc_status_code(s);
  const char *text = tc_status_text(s);
  char name[128];
  snprintf(name, sizeof name, TC_SV_FMT, TC_SV_ARG(t->op->schema.name));
  const char *wrong = code == TC_STATUS_INTERNAL        ? "an internal error"
                      : code == TC_STATUS_OUT_OF_MEMORY ? "it wants too much memory"
                      : !strstr(text, name)             ? "the error does not name the op"
                                                        : NULL;
  t->failed += wrong != NULL;
  if (wrong) print_error("%s, %s: %s: %s\n", t->text, when, wrong, text);
}

static tc_status attempt(trial *t, tc_module *m, const call *c, bool *out_good) {
  tc_graph *g;
  describe(t, m->arena, c);
  tc_status s = call_graph(m, c, &g);
  *out_good = s == TC_OK;
  if (getenv("TC_TEST_SHOW")) fprintf(stderr, "%s\n", t->text);
  if (s != TC_OK) {
    judge(t, s, "compiling");
    t->refused++;
    tc_status_free(s);
    return TC_OK;
  }
  TC_TRY(tc_graph_verify(g), "%s", t->text);
  if (!call_small(g, LARGEST) || g->inputs.count > MOST_IO || g->outputs.count > MOST_IO || !call_modest(c, LARGEST))
    return TC_OK;
  t->ran++;
  s = run_reference(t, g);
  if (s != TC_OK) judge(t, s, "running");
  tc_status_free(s);
  return TC_OK;
}

static tc_status timed_attempt(trial *t, tc_module *m, const call *c, bool *out_good) {
  clock_t start = clock();
  tc_status s = attempt(t, m, c, out_good);
  double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
  if (seconds > t->slowest) {
    t->slowest = seconds;
    memcpy(t->slowest_text, t->text, sizeof t->text);
  }
  return s;
}

static tc_status body(void *arg) {
  trial *t = ((void **)arg)[0];
  tc_arena *arena = ((void **)arg)[1];
  call_gen r;
  tc_module *m = rounds_module(arena, t->ops, t->seed, &r);
  call good;
  bool found = false;
  for (int32_t i = 0; i < SEARCH && !found; i++) {
    call_any(&r, t->op, &good);
    TC_TRY(timed_attempt(t, m, &good, &found));
  }
  t->good += found;
  for (int32_t i = 0; i < CHANGES; i++) {
    call bad = good;
    bool ignored;
    call_change(&r, &bad);
    TC_TRY(timed_attempt(t, m, &bad, &ignored));
  }
  return TC_OK;
}

static void run_rounds(const rounds *r) {
  tc_arena *own;
  int32_t possible = 0, good = 0, refused = 0, ran = 0, failed = 0;
  double slowest = 0;
  char slowest_text[400] = "";
  for (int32_t i = 0; i < tc_op_registry_count(r->ops); i++) {
    trial t = {.ops = r->ops, .op = tc_op_registry_at(r->ops, i)};
    if (!rounds_take(r, t.op)) continue;
    for (int64_t k = 0; k < r->count; k++) {
      tc_fault_allocator_init(&t.memory, tc_system_allocator());
      tc_allocator a = bounded(&t);
      t.seed = rounds_seed(r, i, k);
      assert_ok(tc_arena_create(&a, &own));
      void *args[2] = {&t, own};
      tc_status s = tc_arena_guard(own, body, args);
      t.failed += s != TC_OK;
      if (s != TC_OK) print_error("%s: %s\n", t.text, tc_status_text(s));
      tc_status_free(s);
      tc_arena_destroy(own);
      assert_int_equal(t.memory.live, 0);
    }
    if (t.slowest > slowest) {
      slowest = t.slowest;
      memcpy(slowest_text, t.slowest_text, sizeof slowest_text);
    }
    possible++, good += t.good > 0, refused += t.refused, ran += t.ran, failed += t.failed;
    if (!t.good && getenv("TC_TEST_SHOW")) print_message("no good call of " TC_SV_FMT "\n", TC_SV_ARG(t.op->full_name));
  }
  print_message("%d ops, %d with a call that is taken; %d calls refused, %d run; %.2f s at most, for %s\n", possible,
                good, refused, ran, slowest, slowest_text);
  assert_int_equal(failed, 0);
  if (!r->only) assert_true(good > possible / 2 && refused > possible);
}
