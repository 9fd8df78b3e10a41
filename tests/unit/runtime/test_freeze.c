// What is done once: weights are packed in the first run only, and the results are those of every run; other weights
// are packed anew; what a program changes is never kept; several threads run at once.
#include <math.h>
#include <pthread.h>

#include "tests/unit/runtime/rig.h"

static tc_status open_called(rig *r, tc_arena *arena, const char *text, const char *freeze, const char *calls,
                             uint64_t seed) {
  const char *const options[] = {"freeze", freeze, "calls", calls, "cache.enabled", "false", NULL};
  TC_TRY(rig_context(r, tc_arena_allocator(arena), "cpu", options));
  r->arena = arena;
  TC_TRY(rig_graph(r, text));
  TC_TRY(rig_inputs(r, seed));
  return tc_session_create(r->context, r->graph, TC_STAGE_EXEC, &r->session);
}

static tc_status open_rig(rig *r, tc_arena *arena, const char *text, const char *freeze, uint64_t seed) {
  return open_called(r, arena, text, freeze, "auto", seed);
}

// Runs once: *out is output 0, the result the number of launches.
static int32_t launches(rig *r, tc_tensor *out, const tc_session_run_options *o) {
  tc_launch_record records[64];
  tc_run_report report = {.launches = records, .capacity = 64};
  tc_tensor outputs[RIG_MOST];
  tc_session_run_options all = o ? *o : (tc_session_run_options){0};
  all.report = &report;
  assert_ok(tc_session_run(r->session, r->inputs, outputs, &all));
  *out = outputs[0];
  for (int32_t i = 1; i < r->graph->outputs.count; i++) tc_tensor_unref(&outputs[i]);
  return report.n_launches;
}

static void same(const tc_tensor *a, const tc_tensor *b) {
  assert_int_equal(tc_tensor_numel(a), tc_tensor_numel(b));
  assert_memory_equal(tc_tensor_data(a), tc_tensor_data(b), (size_t)tc_tensor_numel(a) * sizeof(float));
}

static const char block[] = "graph @forward (\n"
                            "    %w : f32[96, 64] = parameter \"w\",\n"
                            "    %b : f32[96] = parameter \"b\",\n"
                            "    %v : f32[64, 96] = parameter \"v\",\n"
                            "    %s : f32[64] = buffer \"s\",\n"
                            "    %x : f32[24, 64] = user \"x\") {\n"
                            "  %h : f32[24, 96] = aten::linear(%x, %w, %b)\n"
                            "  %g : f32[24, 96] = aten::gelu(%h)\n"
                            "  %e : f32[64] = aten::exp(%s)\n"
                            "  %o : f32[24, 64] = aten::linear(%g, %v, %e)\n"
                            "  return user %o\n"
                            "}\n";

TC_TEST(weights_are_packed_once) {
  uint64_t seed = tc_test_seed();
  rig once, always;
  tc_tensor first, second, want;
  TC_TRY(open_rig(&once, arena, block, "true", seed));
  TC_TRY(open_rig(&always, arena, block, "false", seed));
  int32_t all = launches(&always, &want, NULL);
  int32_t n = launches(&once, &first, NULL), again = launches(&once, &second, NULL);
  assert_int_equal(again, 2); // two products
  assert_true(n > again && all >= n - 1);
  same(&first, &want);
  same(&second, &want);
  tc_tensor_unref(&first);
  tc_tensor_unref(&second);
  tc_tensor_unref(&want);
  // Another weight: packed anew, and only then.
  tc_tensor other, old = once.inputs[0];
  TC_TRY(tc_tensor_create(tc_arena_allocator(arena), TC_F32, 2, old.sizes, &other));
  tc_tensor_fill_normal(&tc_executor_serial, &other, seed + 100, 0, 1);
  tc_tensor_unref(&always.inputs[0]);
  once.inputs[0] = always.inputs[0] = other;
  assert_int_equal(launches(&once, &first, NULL), n);
  assert_int_equal(launches(&once, &second, NULL), 2);
  (void)launches(&always, &want, NULL);
  same(&first, &want);
  same(&second, &want);
  once.inputs[0] = old;
  always.inputs[0] = tc_tensor_ref(&old);
  tc_tensor_unref(&other);
  tc_tensor_unref(&first);
  tc_tensor_unref(&second);
  tc_tensor_unref(&want);
  assert_int_equal(launches(&once, &first, NULL), n);
  tc_tensor_unref(&first);
  rig_close(&once);
  rig_close(&always);
  return TC_OK;
}

// What the program itself changes is no constant, nor is what lies in the same memory.
static const char changing[] = "graph @forward (\n"
                               "    %w : f32[64, 64] = parameter \"w\",\n"
                               "    %c : f32[64, 64] = buffer \"c\",\n"
                               "    %x : f32[8, 64] = user \"x\") {\n"
                               "  %p : f32[8, 64] = aten::linear(%x, %c, none)\n"
                               "  %q : f32[8, 64] = aten::linear(%p, %w, none)\n"
                               "  %d : f32[64, 64] = aten::mul.Tensor(%c, 0.5)\n"
                               "  return user %q, buffer \"c\" %d\n"
                               "}\n";

TC_TEST(what_changes_is_not_kept) {
  uint64_t seed = tc_test_seed();
  rig once, always;
  tc_tensor got, want;
  tc_session_run_options o = {.write_back = true};
  for (int32_t tied = 0; tied < 2; tied++) {
    TC_TRY(open_rig(&once, arena, changing, "true", seed));
    TC_TRY(open_rig(&always, arena, changing, "false", seed));
    for (int32_t side = 0; tied && side < 2; side++) {
      rig *r = side ? &always : &once;
      tc_tensor_unref(&r->inputs[0]);
      r->inputs[0] = tc_tensor_ref(&r->inputs[1]);
    }
    for (int32_t run = 0; run < 4; run++) {
      int32_t n = launches(&once, &got, &o), all = launches(&always, &want, &o);
      assert_int_equal(n, run && !tied ? all - 1 : all);
      same(&got, &want);
      tc_tensor_unref(&got);
      tc_tensor_unref(&want);
    }
    rig_close(&once);
    rig_close(&always);
  }
  return TC_OK;
}

// A result that is much larger than what it is made of is made again; sizes that vary keep nothing that has them.
static const char growing[] = "graph @forward [s0 in [2, 64] hint 24] (\n"
                              "    %a : f32[3000, 1] = parameter \"a\",\n"
                              "    %b : f32[1, 3000] = parameter \"b\",\n"
                              "    %w : f32[3000, 16] = parameter \"w\",\n"
                              "    %x : f32[s0, 16] = user \"x\") {\n"
                              "  %o : f32[3000, 3000] = aten::mul.Tensor(%a, %b)\n"
                              "  %t : f32[3000] = aten::sum.dim_IntList(%o, [1])\n"
                              "  %e : f32[s0, 3000] = aten::linear(%x, %w, %t)\n"
                              "  return user %e\n"
                              "}\n";

TC_TEST(sizes_are_bounded) {
  rig r;
  tc_tensor out;
  tc_launch_record records[64];
  tc_run_report report = {.launches = records, .capacity = 64};
  TC_TRY(open_rig(&r, arena, growing, "true", tc_test_seed()));
  TC_TRY(tc_session_run(r.session, r.inputs, &out, &(tc_session_run_options){.report = &report}));
  assert_true(report.frozen_bytes > 0 && report.frozen_bytes < 2 << 20); // not the square
  tc_tensor_unref(&out);
  assert_true(launches(&r, &out, NULL) < report.n_launches);
  tc_tensor_unref(&out);
  rig_close(&r);
  return TC_OK;
}

// ---- threads ----
typedef struct worker {
  rig *r;
  const tc_tensor *weights; // two, in turns
  const tc_tensor *want;
} worker;

static void *work(void *arg) {
  worker *w = arg;
  for (int32_t i = 0; i < 20; i++) {
    tc_tensor inputs[RIG_MOST], out;
    memcpy(inputs, w->r->inputs, sizeof inputs);
    inputs[0] = w->weights[i % 2];
    tc_status s = tc_session_run(w->r->session, inputs, &out, NULL);
    if (s != TC_OK) return s;
    bool fine = memcmp(tc_tensor_data(&out), tc_tensor_data(&w->want[i % 2]),
                       (size_t)tc_tensor_numel(&out) * sizeof(float)) == 0;
    tc_tensor_unref(&out);
    if (!fine) return tc_error(TC_STATUS_MISMATCH, "other numbers in run %d", i);
  }
  return NULL;
}

TC_TEST(threads_with_other_weights) {
  rig r;
  uint64_t seed = tc_test_seed();
  tc_tensor weights[2], want[2];
  pthread_t threads[4];
  TC_TRY(open_rig(&r, arena, block, "true", seed));
  tc_tensor own = r.inputs[0];
  for (int32_t i = 0; i < 2; i++) {
    TC_TRY(tc_tensor_create(tc_arena_allocator(arena), TC_F32, 2, own.sizes, &weights[i]));
    tc_tensor_fill_normal(&tc_executor_serial, &weights[i], seed + 50 + (uint64_t)i, 0, 1);
    r.inputs[0] = weights[i];
    (void)launches(&r, &want[i], NULL);
  }
  r.inputs[0] = own;
  worker w = {&r, weights, want};
  for (int32_t i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, &w), 0);
  for (int32_t i = 0; i < 4; i++) {
    void *result;
    pthread_join(threads[i], &result);
    assert_ok((tc_status)result);
  }
  for (int32_t i = 0; i < 2; i++) tc_tensor_unref(&weights[i]), tc_tensor_unref(&want[i]);
  rig_close(&r);
  return TC_OK;
}

// ---- libraries, sizes that vary ----
// oneDNN has other layouts for few rows than for many where there are few columns (the second factor).
static const char called[] = "graph @forward [s0 in [1, 512] hint 24] (\n"
                             "    %w : bf16[512, 100] = parameter \"w\",\n"
                             "    %b : bf16[512] = parameter \"b\",\n"
                             "    %v : bf16[77, 512] = parameter \"v\",\n"
                             "    %x : bf16[s0, 100] = user \"x\") {\n"
                             "  %h : bf16[s0, 512] = aten::linear(%x, %w, %b)\n"
                             "  %o : bf16[s0, 77] = aten::linear(%h, %v, none)\n"
                             "  return user %o\n"
                             "}\n";
enum { ROWS = 7, SETS = 2 };
static const int64_t rows_of[ROWS] = {90, 1, 4, 33, 1, 200, 24};

typedef struct many {
  rig kept, anew; // what is constant is said to be so, or not
  tc_tensor x[ROWS], weights[SETS], want[SETS][ROWS];
} many;

static tc_status run_rows(rig *r, const many *m, int32_t set, int32_t rows, tc_tensor *out, tc_run_report *report) {
  tc_tensor inputs[RIG_MOST];
  memcpy(inputs, r->inputs, sizeof inputs);
  inputs[0] = m->weights[set], inputs[3] = m->x[rows];
  return tc_session_run(r->session, inputs, out, &(tc_session_run_options){.report = report});
}

static tc_status compare_rows(const many *m, int32_t set, int32_t rows, const tc_tensor *got) {
  const tc_tensor *want = &m->want[set][rows];
  double worst = 0, largest = 1;
  for (int64_t i = 0; i < tc_tensor_numel(want); i++) {
    double w = rig_bf16(want, i), d = fabs(rig_bf16(got, i) - w);
    if (!(d <= worst)) worst = d;
    if (fabs(w) > largest) largest = fabs(w);
  }
  if (worst <= largest / 64) return TC_OK;
  return tc_error(TC_STATUS_MISMATCH, "%g beside %g for %d rows", worst, largest, (int)rows_of[rows]);
}

static tc_status check_rows(many *m, int32_t set, int32_t rows, tc_run_report *report) {
  tc_tensor out;
  TC_TRY(run_rows(&m->kept, m, set, rows, &out, report));
  tc_status s = compare_rows(m, set, rows, &out);
  tc_tensor_unref(&out);
  return s;
}

static void *check_all_rows(void *arg) {
  for (int32_t i = 0; i < 4 * ROWS; i++) {
    tc_status s = check_rows(arg, i / ROWS % SETS, i % ROWS, NULL);
    if (s != TC_OK) return s;
  }
  return NULL;
}

TC_TEST(libraries_keep_for_all_sizes) {
  many m = {0};
  uint64_t seed = tc_test_seed();
  int64_t kept = -1;
  pthread_t threads[4];
  TC_TRY(open_called(&m.kept, arena, called, "true", "always", seed));
  TC_TRY(open_called(&m.anew, arena, called, "false", "always", seed));
  for (int32_t i = 0; i < ROWS; i++) {
    TC_TRY(tc_tensor_create(m.kept.allocator, TC_BF16, 2, (int64_t[]){rows_of[i], 100}, &m.x[i]));
    tc_tensor_fill_normal(&tc_executor_serial, &m.x[i], seed + 10 + (uint64_t)i, 0, 1);
  }
  for (int32_t set = 0; set < SETS; set++) {
    TC_TRY(tc_tensor_create(m.kept.allocator, TC_BF16, 2, m.kept.inputs[0].sizes, &m.weights[set]));
    tc_tensor_fill_normal(&tc_executor_serial, &m.weights[set], seed + 20 + (uint64_t)set, 0, 1);
    for (int32_t i = 0; i < ROWS; i++) TC_TRY(run_rows(&m.anew, &m, set, i, &m.want[set][i], NULL));
  }
  for (int32_t i = 0; i < SETS * ROWS; i++) {
    tc_run_report report = {0};
    TC_TRY(check_rows(&m, i / ROWS, i % ROWS, &report), "in run %d", i);
    assert_true(kept < 0 || report.frozen_bytes == kept); // once, whatever the sizes
    kept = report.frozen_bytes;
  }
  for (int32_t i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, check_all_rows, &m), 0);
  for (int32_t i = 0; i < 4; i++) {
    void *result;
    pthread_join(threads[i], &result);
    assert_ok((tc_status)result);
  }
  for (int32_t i = 0; i < ROWS; i++) tc_tensor_unref(&m.x[i]);
  for (int32_t set = 0; set < SETS; set++) {
    tc_tensor_unref(&m.weights[set]);
    for (int32_t i = 0; i < ROWS; i++) tc_tensor_unref(&m.want[set][i]);
  }
  rig_close(&m.kept);
  rig_close(&m.anew);
  return TC_OK;
}

// What only a library reads, which keeps it in another layout, is given back; what anything else reads stays.
static const char folded[] =
    "graph @forward (\n"
    "    %w : f32[32, 16, 3, 3] = parameter \"w\",\n"
    "    %s : f32[32, 1, 1, 1] = parameter \"s\",\n"
    "    %u : f32[1] = user \"u\",\n"
    "    %x : f32[2, 16, 12, 12] = user \"x\") {\n"
    "  %f : f32[32, 16, 3, 3] = aten::mul.Tensor(%w, %s)\n"
    "  %y : f32[2, 32, 12, 12] = aten::convolution(%x, %f, none, [1, 1], [1, 1], [1, 1], false, "
    "[0, 0], 1)\n";
static const char folded_alone[] = "  return user %y\n}\n";
static const char folded_read[] = "  %t : f32[32, 16, 3, 3] = aten::add.Tensor(%f, %u)\n"
                                  "  return user %y, user %t\n}\n";

TC_TEST(what_a_library_has_used_up_is_given_back) {
  static const char *const cases[] = {folded_alone, folded_read};
  int64_t frozen[2] = {-1, -1};
  const int64_t bytes = INT64_C(32) * 16 * 9 * (int64_t)sizeof(float);
  uint64_t seed = tc_test_seed();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    rig kept, anew;
    const char *text = tc_sv_printf(arena, "%s%s", folded, cases[i]).data;
    TC_TRY(open_called(&kept, arena, text, "true", "always", seed));
    TC_TRY(open_called(&anew, arena, text, "false", "always", seed));
    for (int32_t run = 0; run < 4; run++) {
      tc_run_report report = {0};
      tc_tensor got[RIG_MOST], want[RIG_MOST];
      if (run == 2) { // other weights
        tc_tensor_fill_normal(&tc_executor_serial, &anew.inputs[0], seed + 100, 0, 1);
        tc_tensor_unref(&kept.inputs[0]);
        kept.inputs[0] = tc_tensor_ref(&anew.inputs[0]);
      }
      TC_TRY(tc_session_run(kept.session, kept.inputs, got, &(tc_session_run_options){.report = &report}));
      TC_TRY(tc_session_run(anew.session, anew.inputs, want, NULL));
      assert_true(run == 0 || report.frozen_bytes == frozen[i]);
      frozen[i] = report.frozen_bytes;
      for (int32_t k = 0; k < kept.graph->outputs.count; k++) {
        same(&got[k], &want[k]);
        tc_tensor_unref(&got[k]);
        tc_tensor_unref(&want[k]);
      }
    }
    rig_close(&kept);
    rig_close(&anew);
  }
  assert_true(frozen[0] >= bytes && frozen[1] >= frozen[0] + bytes);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(weights_are_packed_once),
      cmocka_unit_test(what_changes_is_not_kept),
      cmocka_unit_test(sizes_are_bounded),
      cmocka_unit_test(threads_with_other_weights),
      cmocka_unit_test(libraries_keep_for_all_sizes),
      cmocka_unit_test(what_a_library_has_used_up_is_given_back),
  };
  return TC_RUN(tests);
}
