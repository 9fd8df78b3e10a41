// Recorded runs beside ordinary ones, bit for bit: sizes that change, inputs that stay, move or come from the host,
// outputs that are held, indices out of range, calls, control flow, state written in place, recordings that fail,
// threads. The device is tests/unit/runtime/recorder.h.
#include <math.h>

#include "tests/unit/runtime/recorder.h"
#include "tests/unit/runtime/rig.h"

enum { MOST_IO = 8, LINE = 200 };

static tc_status open_rig_with(rig *r, const tc_allocator *a, const char *text, bool recorded_runs, bool products) {
  const char *const options[] = {
      "cache.enabled", "false", "strict", "true", "device_graph", recorded_runs ? "true" : "false", NULL};
  TC_TRY(rig_context(r, a, "cpu", options));
  if (recorded_runs) TC_TRY(rec_install(r->context->device, a));
  if (recorded_runs && !products) r->context->device->n_calls = 0;
  TC_TRY(rig_graph(r, text));
  return tc_session_create(r->context, r->graph, TC_STAGE_EXEC, &r->session);
}

static tc_status open_rig(rig *r, tc_arena *arena, const char *text, bool recorded_runs, bool products) {
  return open_rig_with(r, tc_arena_allocator(arena), text, recorded_runs, products);
}

static void close_recorder(rig *r) {
  rig_close(r);
  assert_int_equal(rec.faults, 0);
  assert_int_equal(rec.live_graphs, 0);
  assert_int_equal(rec.live_recordings, 0);
}

// ---- Programs ----
typedef struct program {
  const char *name, *text;
  int32_t n_inputs, index; // index: input of integers below 40, or -1
  bool products, graphs;   // graphs: all of it is one graph
} program;

// A kernel by hand that changes two of its arguments.
#define SWAPS                                                                                    \
  "op \"user::swap(Tensor x, Tensor z) -> (Tensor, Tensor)\" {\n"                                \
  "  x : f32[...]\n  z : f32[...]\n  result0 : f32[...]\n  result1 : f32[...]\n  mutates x, z\n" \
  "  let n = numel(x)\n  launch (x, z, n : i32) blocks (cdiv(n, 64)) lanes (64)\n"               \
  "  source \"kernel\" \"\"\"\n"                                                                 \
  "    %b = block\n"                                                                             \
  "    lanes {\n"                                                                                \
  "      %l = lane\n      %i = fma %b, 64, %l\n      %in = lt %i, %n\n"                          \
  "      %p = load %x[%i] if %in else 0.0\n      %q = load %z[%i] if %in else 0.0\n"             \
  "      %r = fma %q, 3.0, %p\n      store %x[%i], %q if %in\n      store %z[%i], %r if %in\n"   \
  "    }\n"                                                                                      \
  "  \"\"\"\n"                                                                                   \
  "}\n"

static const program programs[] = {
    {"pointwise and sums",
     "graph @p [s0 in [1, 300] hint 40] (%x : f32[s0, 24] = user \"x\", %w : f32[24] = user \"w\") {\n"
     "  %a : f32[s0, 24] = aten::mul.Tensor(%x, %w)\n"
     "  %c : f32[24] = aten::sum.dim_IntList(%a, [0])\n"
     "  %d : f32[s0, 24] = aten::sub.Tensor(%x, %c)\n"
     "  %e : f32[s0] = aten::amax(%d, [1])\n"
     "  %f : f32[24] = aten::sum.dim_IntList(%d, [0])\n"
     "  return user %d, user %e, user %f\n}\n",
     2, -1, false, true},
    {"a gather", // whose kernel checks
     "graph @p [s0 in [1, 300] hint 40] (%x : f32[40, 24] = user \"x\", %i : i64[s0] = user \"i\") {\n"
     "  %g : f32[s0, 24] = aten::index_select(%x, 0, %i)\n"
     "  %s : f32[s0] = aten::sum.dim_IntList(%g, [1])\n"
     "  %c : f32[24] = aten::sum.dim_IntList(%g, [0])\n"
     "  return user %s, user %c\n}\n",
     2, 1, false, true},
    {"products of a library",
     "graph @p [s0 in [1, 300] hint 40] (%x : f32[s0, 24] = user \"x\", %w : f32[24, 24] = user \"w\") {\n"
     "  %a : f32[s0, 24] = aten::mm(%x, %w)\n"
     "  %b : f32[s0, 24] = aten::tanh(%a)\n"
     "  %c : f32[s0, 24] = aten::mm(%b, %w)\n"
     "  %d : f32[24] = aten::sum.dim_IntList(%c, [0])\n"
     "  return user %c, user %d\n}\n",
     2, -1, true, true},
    {"a kernel by hand, tuned for each size",
     "op \"user::mix(Tensor x, Tensor w) -> Tensor\" {\n"
     "  x : f32[rows, columns]\n  w : f32[columns]\n  result : f32[rows, columns]\n"
     "  constant LANES = 8\n  autotune (rows) { LANES = 8 } { LANES = 16 }\n"
     "  launch (x, w, result, columns : i32) blocks (rows) lanes (LANES)\n"
     "  source \"kernel\" \"\"\"\n"
     "    %b = block\n"
     "    lanes {\n"
     "      %l = lane\n"
     "      for %j = 0 to %columns step LANES {\n"
     "        %c = add %j, %l\n        %in = lt %c, %columns\n        %i = fma %b, %columns, %c\n"
     "        %p = load %x[%i] if %in else 0.0\n        %q = load %w[%c] if %in else 0.0\n"
     "        %r = fma %p, %q, %q\n        store %result[%i], %r if %in\n"
     "      }\n"
     "    }\n"
     "  \"\"\"\n"
     "}\n"
     "graph @p [s0 in [1, 300] hint 40] (%x : f32[s0, 24] = user \"x\", %w : f32[24] = user \"w\") {\n"
     "  %a : f32[s0, 24] = aten::mul.Tensor(%x, %w)\n"
     "  %c : f32[s0, 24] = user::mix(%a, %w)\n"
     "  %d : f32[24] = aten::sum.dim_IntList(%c, [0])\n"
     "  return user %c, user %d\n}\n",
     2, -1, false, true},
    // An input, which is copied for it, and what nobody needs any more, which is changed where it lies.
    {"a kernel by hand that changes its arguments",
     SWAPS "graph @p [s0 in [1, 300] hint 40] (%x : f32[s0, 24] = user \"x\", %w : f32[24] = user \"w\") {\n"
           "  %a : f32[s0, 24] = aten::mul.Tensor(%x, %w)\n"
           "  %c : f32[s0, 24], %d : f32[s0, 24] = user::swap(%a, %x)\n"
           "  %e : f32[s0, 24], %f : f32[s0, 24] = user::swap(%c, %d)\n"
           "  %g : f32[24] = aten::sum.dim_IntList(%e, [0])\n"
           "  return user %e, user %f, user %g\n}\n",
     2, -1, false, true},
    {"a loop of kernels",
     "graph @p [s0 in [1, 300] hint 40] (%x : f32[s0, 3] = user \"x\", %w : f32[3] = user \"w\") {\n"
     "  %y : f32[s0, 3] = aten::add.Tensor(%x, %w)\n"
     "  %c : f32[3] = aten::sum.dim_IntList(%y, [0])\n"
     "  %last : f32[3], %sums : f32[s0, 3] = higher_order::scan(graph @step (\n"
     "      %h0 : f32[3] = operand \"h\", %e : f32[3] = operand \"e\") {\n"
     "    %g : f32[3] = aten::add.Tensor(%h0, %e)\n"
     "    %k : f32[3] = aten::mul.Tensor(%g, %e)\n"
     "    return user %g, user %k\n  }, [%c], [%y], [])\n"
     "  %z : f32[s0, 3] = aten::mul.Tensor(%sums, %last)\n"
     "  %t : f32[] = aten::sum(%z)\n"
     "  return user %z, user %t\n}\n",
     2, -1, false, true},
    {"a loop with a library's products between kernels",
     "graph @p [s0 in [1, 300] hint 40] (%x : f32[s0, 24] = user \"x\", %w : f32[24, 24] = user \"w\") {\n"
     "  %y : f32[s0, 24] = aten::neg(%x)\n"
     "  %c : f32[1, 24] = aten::sum.dim_IntList(%y, [0], true)\n"
     "  %last : f32[1, 24], %sums : f32[s0, 1, 24] = higher_order::scan(graph @step (\n"
     "      %h : f32[1, 24] = operand \"h\", %e : f32[24] = operand \"e\", %v : f32[24, 24] = operand \"v\") {\n"
     "    %g : f32[1, 24] = aten::mm(%h, %v)\n"
     "    %a : f32[1, 24] = aten::add.Tensor(%g, %e)\n"
     "    %t : f32[1, 24] = aten::tanh(%a)\n"
     "    return user %t, user %a\n  }, [%c], [%y], [%w])\n"
     "  return user %last, user %sums\n}\n",
     2, -1, true, false},
    {"a loop with checks between kernels",
     "graph @p [s0 in [1, 300] hint 40] (%x : f32[40] = user \"x\", %i : i64[s0] = user \"i\") {\n"
     "  %c : f32[40] = aten::neg(%x)\n"
     "  %last : f32[40], %sums : f32[s0, 40] = higher_order::scan(graph @step (\n"
     "      %h : f32[40] = operand \"h\", %e : i64[] = operand \"e\") {\n"
     "    %g : f32[1] = aten::index_select(%h, 0, %e)\n"
     "    %a : f32[40] = aten::add.Tensor(%h, %g)\n"
     "    %t : f32[40] = aten::tanh(%a)\n"
     "    return user %t, user %a\n  }, [%c], [%i], [])\n"
     "  return user %last, user %sums\n}\n",
     2, 1, false, false},
};
enum { N_PROGRAMS = sizeof programs / sizeof *programs };

static tc_status draw(const program *p, int32_t i, const tc_graph *g, int64_t s0, uint64_t *seed, tc_tensor *out) {
  const tc_tensor_type *t = &g->inputs.data[i].value->type;
  int64_t sizes[2], n = 1;
  for (int32_t d = 0; d < t->rank; d++) {
    sizes[d] = tc_sym_is_const(t->sizes[d]) ? t->sizes[d]->value : s0;
    n *= sizes[d];
  }
  TC_TRY(tc_tensor_create(tc_system_allocator(), t->dtype, t->rank, sizes, out));
  for (int64_t k = 0; k < n; k++) {
    if (i == p->index) ((int64_t *)tc_tensor_data(out))[k] = (int64_t)(tc_test_random(seed) % 40);
    else ((float *)tc_tensor_data(out))[k] = (float)(tc_test_random(seed) % 2001) / 1000 - 1;
  }
  return TC_OK;
}

static void release(tc_tensor *t, int32_t n) {
  for (int32_t i = 0; i < n; i++) tc_tensor_unref(&t[i]);
}

static void same_bits(const program *p, int32_t output, const tc_tensor *a, const tc_tensor *b) {
  int64_t n = tc_tensor_numel(a) * tc_dtype_size(a->dtype);
  assert_int_equal(n, tc_tensor_numel(b) * tc_dtype_size(b->dtype));
  if (n && memcmp(tc_tensor_data(a), tc_tensor_data(b), (size_t)n) != 0)
    fail_msg("%s: output %d differs", p->name, output);
}

// ---- Random runs ----
enum { HELD = 6, TURNS = 120 };
typedef struct kept { // outputs on the device, and what they must be
  tc_tensor outputs[MOST_IO], wanted[MOST_IO];
  int32_t n;
} kept;

static tc_status let_go(const program *p, tc_device *d, kept *k) {
  for (int32_t i = 0; i < k->n; i++) {
    tc_tensor host;
    TC_TRY(tc_tensor_to_host(d, &k->outputs[i], &host));
    same_bits(p, i, &host, &k->wanted[i]);
    tc_tensor_unref(&host);
  }
  release(k->outputs, k->n);
  release(k->wanted, k->n);
  k->n = 0;
  return TC_OK;
}

// Inputs of a size: on the host, and where runs find them.
typedef struct given {
  tc_tensor host[MOST_IO], used[MOST_IO];
} given;

static tc_status renew(const program *p, const rig *r, given *g, int32_t i, int64_t s0, uint64_t *seed) {
  tc_tensor_unref(&g->host[i]);
  tc_tensor_unref(&g->used[i]);
  g->host[i] = g->used[i] = (tc_tensor){0};
  TC_TRY(draw(p, i, r->graph, s0, seed, &g->host[i]));
  if (tc_test_random(seed) % 4) return tc_tensor_to_device(r->context->device, &g->host[i], &g->used[i]);
  g->used[i] = tc_tensor_ref(&g->host[i]);
  return TC_OK;
}

static tc_status random_runs(tc_arena *arena, const program *p, uint64_t *seed, bool safe) {
  static const int64_t sizes[] = {1, 40, 64, 96};
  rig plain, graphs;
  given g[4] = {{{{0}}, {{0}}}};
  kept held[HELD] = {{.n = 0}};
  TC_TRY(open_rig(&graphs, arena, p->text, true, p->products));
  rec_products.capture_safe = safe;
  recorder mine = rec;
  TC_TRY(open_rig(&plain, arena, p->text, false, false));
  rec = mine;
  int32_t n_out = graphs.graph->outputs.count, steady = 0;
  for (int32_t turn = 0; turn < TURNS; turn++) {
    int64_t which = (int64_t)(tc_test_random(seed) % 4), s0 = sizes[which];
    bool often = turn < TURNS / 2; // then inputs mostly stay
    for (int32_t i = 0; i < p->n_inputs; i++)
      if (!g[which].host[i].storage || tc_test_random(seed) % (often ? 2 : 9) == 0)
        TC_TRY(renew(p, &graphs, &g[which], i, s0, seed));
    tc_tensor wanted[MOST_IO], outputs[MOST_IO];
    // The processor's device has products of its own: those are held to a timed run, which is never recorded.
    const tc_session_run_options host = {0}, device = {.device_outputs = true};
    if (p->products) {
      tc_run_report report = {0};
      tc_launch_record records[64];
      report.launches = records, report.capacity = 64;
      tc_session_run_options timed = {.report = &report};
      TC_TRY(tc_session_run(graphs.session, g[which].used, wanted, &timed));
    } else {
      TC_TRY(tc_session_run(plain.session, g[which].host, wanted, &host));
    }
    bool stays = tc_test_random(seed) % 3 != 0;
    int32_t before = rec.graph_launches, launches = rec.launches;
    TC_TRY(tc_session_run(graphs.session, g[which].used, outputs, stays ? &device : &host));
    bool replayed = rec.graph_launches > before, whole = rec.launches == launches;
    steady += replayed;
    if (replayed && (safe || !p->products) && whole != p->graphs)
      fail_msg("%s: %s", p->name, whole ? "all of it was recorded" : "a part of it was launched");
    kept *k = &held[tc_test_random(seed) % HELD];
    if (stays) {
      TC_TRY(let_go(p, graphs.context->device, k));
      memcpy(k->outputs, outputs, sizeof outputs);
      memcpy(k->wanted, wanted, sizeof wanted);
      k->n = n_out;
      continue;
    }
    for (int32_t i = 0; i < n_out; i++) same_bits(p, i, &outputs[i], &wanted[i]);
    release(outputs, n_out);
    release(wanted, n_out);
  }
  if (steady < TURNS / 4) fail_msg("%s: only %d of %d runs were replayed", p->name, steady, TURNS);
  for (int32_t i = 0; i < HELD; i++) TC_TRY(let_go(p, graphs.context->device, &held[i]));
  for (int32_t i = 0; i < 4; i++) release(g[i].host, MOST_IO), release(g[i].used, MOST_IO);
  rig_close(&plain);
  close_recorder(&graphs);
  return TC_OK;
}

TC_TEST(like_ordinary_runs) {
  uint64_t seed = tc_test_seed(), share = seed;
  for (int32_t i = 0; i < N_PROGRAMS; i++) {
    if (!tc_run_takes(share, i)) continue;
    TC_TRY(random_runs(arena, &programs[i], &seed, true), "in %s", programs[i].name);
    if (programs[i].products) TC_TRY(random_runs(arena, &programs[i], &seed, false), "in %s", programs[i].name);
  }
  return TC_OK;
}

// ---- What is recorded, and when ----
static tc_status run_and_free(rig *r, const tc_tensor *inputs) {
  tc_tensor outputs[MOST_IO];
  TC_TRY(tc_session_run(r->session, inputs, outputs, &(tc_session_run_options){.device_outputs = true}));
  release(outputs, r->graph->outputs.count);
  return TC_OK;
}

static void note_line(void *self, int32_t artifact, tc_sv text) {
  assert_int_equal(artifact, TC_LOG_DEVICE_GRAPHS);
  snprintf(self, LINE, TC_SV_FMT, TC_SV_ARG(text));
}

// The first run of a size launches, the second one records, which is told, every further one is one launch of a graph.
TC_TEST(when_recorded) {
  const program *p = &programs[0];
  uint64_t seed = tc_test_seed();
  rig r;
  given g = {{{0}}, {{0}}};
  TC_TRY(open_rig(&r, arena, p->text, true, false));
  char line[LINE] = "", wanted[LINE];
  TC_TRY(tc_log_parse(TC_SV("device_graphs"), &r.context->logger));
  r.context->logger.write = note_line, r.context->logger.self = line;
  for (int32_t i = 0; i < 2; i++) {
    TC_TRY(draw(p, i, r.graph, 40, &seed, &g.host[i]));
    TC_TRY(tc_tensor_to_device(r.context->device, &g.host[i], &g.used[i]));
  }
  TC_TRY(run_and_free(&r, g.used));
  assert_int_equal(rec.graph_launches, 0);
  assert_string_equal(line, "");
  int32_t launches = rec.launches;
  assert_true(launches > 1);
  for (int32_t i = 1; i <= 10; i++) {
    TC_TRY(run_and_free(&r, g.used));
    assert_int_equal(rec.graph_launches, i);
    assert_int_equal(rec.live_graphs, 1);
  }
  assert_int_equal(rec.launches, launches);
  snprintf(wanted, sizeof wanted, "recorded %d operations as 1 pieces", launches);
  assert_string_equal(line, wanted);
  // Outputs that are held are not written: other graphs are recorded, up to a bound, and then runs are ordinary.
  tc_tensor outputs[9][MOST_IO];
  for (int32_t i = 0; i < 9; i++)
    TC_TRY(tc_session_run(r.session, g.used, outputs[i], &(tc_session_run_options){.device_outputs = true}));
  int32_t most = rec.live_graphs;
  assert_in_range(most, 2, 8);
  assert_true(rec.launches > launches);
  for (int32_t i = 0; i < 9; i++)
    for (int32_t k = 0; k < i; k++) assert_ptr_not_equal(outputs[i][0].storage, outputs[k][0].storage);
  for (int32_t i = 0; i < 9; i++) release(outputs[i], r.graph->outputs.count);
  // An input that is somewhere else every time gets a place in the end, and is copied there.
  launches = rec.launches;
  int32_t before = rec.graph_launches;
  for (int32_t i = 0; i < 40; i++) {
    tc_tensor moved[2] = {{0}, tc_tensor_ref(&g.used[1])}, pad;
    TC_TRY(draw(p, 0, r.graph, 40, &seed, &pad));
    TC_TRY(tc_tensor_to_device(r.context->device, &pad, &moved[0]));
    tc_tensor_unref(&g.host[2 + i % 3]), tc_tensor_unref(&g.used[2 + i % 3]);
    g.host[2 + i % 3] = pad;
    g.used[2 + i % 3] = tc_tensor_ref(&moved[0]); // keeps its memory from being used again at once
    TC_TRY(run_and_free(&r, moved));
    release(moved, 2);
  }
  if (rec.launches != launches) fail_msg("%d of 40 runs were not replayed", rec.graph_launches - before);
  assert_true(rec.live_graphs <= most + 1);
  release(g.host, MOST_IO), release(g.used, MOST_IO);
  close_recorder(&r);
  return TC_OK;
}

// What a library makes of weights is made once for each of them, and what was recorded with others is not replayed.
TC_TEST(constants_of_calls) {
  static const char text[] = "graph @p (%w : f32[24, 24] = parameter \"w\", %x : f32[40, 24] = user \"x\") {\n"
                             "  %a : f32[40, 24] = aten::mm(%x, %w)\n"
                             "  %b : f32[40, 24] = aten::tanh(%a)\n"
                             "  %c : f32[40, 24] = aten::mm(%b, %w)\n"
                             "  return user %c\n}\n";
  const program p = {"", text, 2, -1, true, true};
  uint64_t seed = tc_test_seed();
  rig graphs, plain;
  given g = {{{0}}, {{0}}};
  tc_tensor weights[2], got, want;
  TC_TRY(open_rig(&plain, arena, text, false, true));
  TC_TRY(open_rig(&graphs, arena, text, true, true));
  for (int32_t i = 0; i < 2; i++) TC_TRY(draw(&p, 0, graphs.graph, 40, &seed, &weights[i]));
  TC_TRY(draw(&p, 1, graphs.graph, 40, &seed, &g.host[1]));
  for (int32_t turn = 0; turn < 3; turn++) {
    g.host[0] = weights[turn % 2];
    TC_TRY(tc_session_run(plain.session, g.host, &want, NULL));
    for (int32_t run = 0; run < 4; run++) {
      TC_TRY(tc_session_run(graphs.session, g.host, &got, NULL));
      for (int64_t i = 0; i < tc_tensor_numel(&want); i++) {
        float a = ((const float *)tc_tensor_data(&got))[i], b = ((const float *)tc_tensor_data(&want))[i];
        if (!(fabsf(a - b) <= 1e-3F)) fail_msg("%g, not %g", (double)a, (double)b);
      }
      tc_tensor_unref(&got);
    }
    assert_int_equal(rec.library_keeps, 2 * (turn + 1));
    tc_tensor_unref(&want);
  }
  assert_true(rec.graph_launches >= 3);
  release(weights, 2), tc_tensor_unref(&g.host[1]);
  rig_close(&plain);
  close_recorder(&graphs);
  return TC_OK;
}

// An index out of range is an error in the same words, run after run, and the next run is right again.
TC_TEST(checks) {
  const program *p = &programs[1];
  uint64_t seed = tc_test_seed();
  rig r;
  given g = {{{0}}, {{0}}};
  char first[400] = "";
  TC_TRY(open_rig(&r, arena, p->text, true, false));
  for (int32_t i = 0; i < 2; i++) TC_TRY(draw(p, i, r.graph, 40, &seed, &g.host[i]));
  for (int32_t turn = 0; turn < 12; turn++) {
    int64_t *index = tc_tensor_data(&g.host[1]), right = index[7];
    if (turn % 3 == 2) index[7] = 1000;
    tc_tensor outputs[MOST_IO];
    tc_status s = tc_session_run(r.session, g.host, outputs, NULL);
    index[7] = right;
    if (turn % 3 != 2) {
      TC_TRY(s);
      release(outputs, r.graph->outputs.count);
      continue;
    }
    assert_int_equal(tc_status_code(s), TC_STATUS_INVALID_ARGUMENT);
    if (!strstr(tc_status_text(s), "out of range")) fail_msg("%s", tc_status_text(s));
    if (!first[0]) snprintf(first, sizeof first, "%s", tc_status_text(s));
    assert_string_equal(tc_status_text(s), first);
    tc_status_free(s);
  }
  assert_true(rec.graph_launches > 6);
  release(g.host, MOST_IO);
  close_recorder(&r);
  return TC_OK;
}

// State that kernels change in place, written back run after run.
static tc_status write_back(tc_arena *arena, const char *text) {
  rig r;
  tc_tensor inputs[2], outputs[2];
  int64_t n = 3;
  TC_TRY(open_rig(&r, arena, text, true, false));
  for (int32_t i = 0; i < 2; i++) {
    TC_TRY(tc_tensor_create(tc_system_allocator(), TC_F32, 1, &n, &inputs[i]));
    for (int64_t k = 0; k < n; k++) ((float *)tc_tensor_data(&inputs[i]))[k] = (float)(k + 1 + 9 * i);
  }
  for (int32_t turn = 1; turn <= 8; turn++) {
    TC_TRY(tc_session_run(r.session, inputs, outputs, &(tc_session_run_options){.write_back = true}));
    for (int64_t k = 0; k < n; k++) {
      float sum = (float)(k + 1) + (float)turn * (float)(k + 10);
      assert_true(((float *)tc_tensor_data(&inputs[0]))[k] == sum);
      assert_true(((float *)tc_tensor_data(&outputs[1]))[k] == sum * (float)(k + 10));
    }
    release(outputs, 2);
  }
  assert_true(rec.graph_launches > 3);
  release(inputs, 2);
  close_recorder(&r);
  return TC_OK;
}

TC_TEST(state) {
  return write_back(arena, "graph @forward (%b : f32[3] = user \"b\", %x : f32[3] = user \"x\") {\n"
                           "  %s : f32[3] = aten::add.Tensor(%b, %x)\n"
                           "  %t : f32[3] = aten::mul.Tensor(%s, %x)\n"
                           "  return input \"b\" %s, user %t\n}\n");
}

// The same by a kernel by hand that changes its first argument.
TC_TEST(state_of_a_kernel_by_hand) {
  return write_back(arena, "op \"user::increase(Tensor x, Tensor y) -> Tensor\" {\n"
                           "  x : f32[n]\n  y : f32[n]\n  result : f32[n]\n  mutates x\n"
                           "  launch (x, y, n : i32) blocks (cdiv(n, 64)) lanes (64)\n"
                           "  source \"kernel\" \"\"\"\n"
                           "    %b = block\n"
                           "    lanes {\n"
                           "      %l = lane\n      %i = fma %b, 64, %l\n      %in = lt %i, %n\n"
                           "      %p = load %x[%i] if %in else 0.0\n      %q = load %y[%i] if %in else 0.0\n"
                           "      %s = add %p, %q\n      store %x[%i], %s if %in\n"
                           "    }\n"
                           "  \"\"\"\n"
                           "}\n"
                           "graph @forward (%b : f32[3] = user \"b\", %x : f32[3] = user \"x\") {\n"
                           "  %s : f32[3] = user::increase(%b, %x)\n"
                           "  %t : f32[3] = aten::mul.Tensor(%s, %x)\n"
                           "  return input \"b\" %s, user %t\n}\n");
}

// A recording that fails leaves an ordinary run; after a few none are tried.
TC_TEST(failures) {
  const program *p = &programs[0];
  uint64_t seed = tc_test_seed();
  for (int32_t which = 0; which < 3; which++) {
    for (int32_t times = 1; times <= 4; times += 3) {
      rig r;
      given g = {{{0}}, {{0}}};
      TC_TRY(open_rig(&r, arena, p->text, true, false));
      for (int32_t i = 0; i < 2; i++) TC_TRY(draw(p, i, r.graph, 64, &seed, &g.host[i]));
      for (int32_t turn = 0; turn < 12; turn++) {
        if (turn >= 1 && turn <= times)
          *(which == 0 ? &rec.fail_begin : which == 1 ? &rec.fail_launch : &rec.fail_end) = 1;
        TC_TRY(run_and_free(&r, g.host));
      }
      if (times == 1) assert_int_equal(rec.graph_launches, 10);
      else assert_int_equal(rec.graph_launches, 0);
      release(g.host, MOST_IO);
      close_recorder(&r);
    }
  }
  return TC_OK;
}

// Every allocation of a run that records fails in turn: the run is an ordinary one then, or says that memory is short,
// and nothing stays.
TC_TEST(short_memory) {
  uint64_t seed = tc_test_seed();
  (void)arena;
  for (int32_t k = 0; k < N_PROGRAMS; k++) {
    const program *p = &programs[k];
    bool done = false;
    for (int64_t where = 1; !done; where++) {
      tc_fault_allocator f;
      rig r;
      given g = {{{0}}, {{0}}};
      tc_fault_allocator_init(&f, tc_system_allocator());
      TC_TRY(open_rig_with(&r, &f.iface, p->text, true, p->products));
      for (int32_t i = 0; i < p->n_inputs; i++) TC_TRY(draw(p, i, r.graph, 40, &seed, &g.host[i]));
      tc_tensor wanted[MOST_IO], outputs[MOST_IO];
      TC_TRY(tc_session_run(r.session, g.host, wanted, NULL));
      int64_t begin = f.count;
      f.fail_at = begin + where, f.fail_after = where % 2;
      tc_status s = tc_session_run(r.session, g.host, outputs, NULL);
      done = f.count < begin + where;
      f.fail_at = 0, f.fail_after = 0;
      if (s != TC_OK) {
        assert_int_equal(tc_status_code(s), TC_STATUS_OUT_OF_MEMORY);
        tc_status_free(s);
        TC_TRY(tc_session_run(r.session, g.host, outputs, NULL));
      }
      for (int32_t i = 0; i < r.graph->outputs.count; i++) same_bits(p, i, &outputs[i], &wanted[i]);
      release(outputs, r.graph->outputs.count);
      release(wanted, r.graph->outputs.count);
      release(g.host, MOST_IO);
      close_recorder(&r);
      if (f.live)
        fail_msg("%s: %lld blocks are left where allocation %lld failed", p->name, (long long)f.live, (long long)where);
    }
  }
  return TC_OK;
}

// A device without graphs runs as ever.
TC_TEST(without_graphs) {
  const program *p = &programs[0];
  uint64_t seed = tc_test_seed();
  rig r;
  given g = {{{0}}, {{0}}};
  TC_TRY(open_rig(&r, arena, p->text, false, false));
  for (int32_t i = 0; i < 2; i++) TC_TRY(draw(p, i, r.graph, 64, &seed, &g.host[i]));
  assert_false(tc_device_has_graphs(r.context->device));
  for (int32_t turn = 0; turn < 3; turn++) TC_TRY(run_and_free(&r, g.host));
  release(g.host, MOST_IO);
  rig_close(&r);
  return TC_OK;
}

// ---- Threads ----
enum { THREADS = 4 };
typedef struct worker {
  rig *r;
  const program *p;
  uint64_t seed;
  bool failed;
} worker;

static tc_status work(worker *w) {
  for (int32_t turn = 0; turn < 25; turn++) {
    tc_tensor host[2], a[MOST_IO], b[MOST_IO];
    int64_t s0 = tc_test_random(&w->seed) % 2 ? 40 : 64;
    for (int32_t i = 0; i < 2; i++) TC_TRY(draw(w->p, i, w->r->graph, s0, &w->seed, &host[i]));
    tc_run_report report = {0};
    tc_launch_record records[64];
    report.launches = records, report.capacity = 64;
    TC_TRY(tc_session_run(w->r->session, host, a, &(tc_session_run_options){.report = &report}));
    TC_TRY(tc_session_run(w->r->session, host, b, NULL));
    for (int32_t i = 0; i < w->r->graph->outputs.count; i++)
      w->failed |= memcmp(tc_tensor_data(&a[i]), tc_tensor_data(&b[i]),
                          (size_t)(tc_tensor_numel(&a[i]) * tc_dtype_size(a[i].dtype))) != 0;
    release(a, w->r->graph->outputs.count);
    release(b, w->r->graph->outputs.count);
    release(host, 2);
  }
  return TC_OK;
}

static void *thread(void *arg) {
  worker *w = arg;
  tc_status s = work(w);
  w->failed |= s != TC_OK;
  tc_status_free(s);
  return NULL;
}

// One session, several threads, the arena of all graphs shared.
TC_TEST(threads) {
  uint64_t seed = tc_test_seed();
  rig r;
  worker w[THREADS];
  pthread_t t[THREADS];
  TC_TRY(open_rig(&r, arena, programs[0].text, true, false));
  for (int32_t i = 0; i < THREADS; i++) {
    w[i] = (worker){&r, &programs[0], tc_test_random(&seed), false};
    assert_int_equal(pthread_create(&t[i], NULL, thread, &w[i]), 0);
  }
  for (int32_t i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
  for (int32_t i = 0; i < THREADS; i++) assert_false(w[i].failed);
  close_recorder(&r);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(like_ordinary_runs),
                                     cmocka_unit_test(when_recorded),
                                     cmocka_unit_test(constants_of_calls),
                                     cmocka_unit_test(checks),
                                     cmocka_unit_test(state),
                                     cmocka_unit_test(state_of_a_kernel_by_hand),
                                     cmocka_unit_test(failures),
                                     cmocka_unit_test(short_memory),
                                     cmocka_unit_test(without_graphs),
                                     cmocka_unit_test(threads)};
  return TC_RUN(tests);
}
