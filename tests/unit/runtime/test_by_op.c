// Programs that run op by op: each op is compiled when it is first used, for any size; what is compiled serves other
// sizes and other programs; results, what is written back, and outputs that share memory are as of a whole program.
#include <math.h>

#include "core/runtime/eager.h"
#include "tests/unit/runtime/rig.h"

static const char *const by_op[] = {"cache.enabled", "false", "eager.by_op", "true", "fuse", "false", NULL};

static tc_status open_session(rig *r, const char *text) {
  TC_TRY(rig_graph(r, text));
  return tc_session_create_from(r->context, &(tc_source){.stage = TC_STAGE_GRAPH, .graph = r->graph, .by_op = true},
                                TC_STAGE_EXEC, &r->session);
}

// The program op by op on a device, and on the references.
static tc_status open_both(tc_arena *arena, const char *text, rig *r, rig *ref) {
  TC_TRY(rig_context(r, tc_arena_allocator(arena), "cpu", by_op));
  TC_TRY(rig_context(ref, tc_arena_allocator(arena), "ref", by_op));
  TC_TRY(open_session(r, text));
  return open_session(ref, text);
}

static void close_session(rig *r) {
  tc_session_destroy(r->session);
  tc_module_destroy(r->module);
}

static tc_status matrix(const rig *r, int64_t n, int64_t m, uint64_t seed, tc_tensor *out) {
  TC_TRY(tc_tensor_create(r->allocator, TC_F32, 2, (int64_t[]){n, m}, out));
  tc_tensor_fill_normal(&tc_executor_serial, out, seed, 0, 1);
  return TC_OK;
}

static void expect_equal(const tc_tensor *a, const tc_tensor *b) {
  assert_int_equal(a->rank, b->rank);
  for (int32_t d = 0; d < a->rank; d++) assert_int_equal(a->sizes[d], b->sizes[d]);
  int64_t at[TC_MAX_RANK] = {0}, n = tc_tensor_numel(a);
  for (int64_t i = 0; i < n; i++) {
    double x, y;
    int64_t rest = i;
    for (int32_t d = a->rank; d-- > 0; rest /= a->sizes[d]) at[d] = rest % a->sizes[d];
    tc_tensor_get(a, at, &x, NULL);
    tc_tensor_get(b, at, &y, NULL);
    if (fabs(x - y) > 1e-4 * (1 + fabs(y))) fail_msg("element %lld: %g instead of %g", (long long)i, x, y);
  }
}

// The same program on both, with fresh numbers. Sizes of x: n × m, of w: m × k.
static tc_status run_both(rig *r, rig *ref, int64_t n, int64_t m, int64_t k, uint64_t seed) {
  tc_tensor in[2], out[2], want[2];
  TC_TRY(matrix(r, n, m, seed, &in[0]));
  TC_TRY(matrix(r, m, k, seed + 1, &in[1]));
  TC_TRY(tc_session_run(r->session, in, out, NULL), "sizes %lld, %lld, %lld", (long long)n, (long long)m, (long long)k);
  TC_TRY(tc_session_run(ref->session, in, want, NULL));
  for (int32_t i = 0; i < 2; i++) {
    expect_equal(&out[i], &want[i]);
    tc_tensor_unref(&out[i]), tc_tensor_unref(&want[i]), tc_tensor_unref(&in[i]);
  }
  return TC_OK;
}

static const char any_size[] = "graph @forward [n in [0, 512] hint 5, m in [2, 512] hint 7, k in [2, 512] hint 9] (\n"
                               "    %x : f32[n, m] = user \"x\",\n"
                               "    %w : f32[m, k] = user \"w\") {\n"
                               "  %a : f32[n, m] = aten::mul.Tensor(%x, 0.5)\n"
                               "  %p : f32[n, k] = aten::mm(%a, %w)\n"
                               "  %s : f32[n, k] = aten::_softmax(%p, 1, false)\n"
                               "  %l : f32[n, 2 * k] = aten::cat([%s, %p], 1)\n"
                               "  %t : f32[2 * k, n]{1, 2 * k} = aten::t(%l)\n"
                               "  %y : f32[2 * k, n]{1, 2 * k} = aten::relu(%t)\n"
                               "  %r : f32[n] = aten::sum.dim_IntList(%y, [0])\n"
                               "  return user %y, user %r\n"
                               "}\n";

TC_TEST(other_sizes_compile_nothing) {
  static const int64_t sizes[][3] = {{5, 7, 9}, {6, 11, 13}, {64, 128, 96}, {17, 2, 257}, {31, 33, 2}};
  uint64_t seed = tc_test_seed();
  rig r, ref;
  TC_TRY(open_both(arena, any_size, &r, &ref));
  tc_eager_stats before = {0};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    TC_TRY(run_both(&r, &ref, sizes[i][0], sizes[i][1], sizes[i][2], seed + 2 * i));
    tc_eager_stats now = tc_eager_stats_of(r.context->eager);
    assert_int_equal(now.calls, 7 * (i + 1));
    if (i > 0) {
      assert_int_equal(now.compiles, before.compiles);
      assert_int_equal(now.kernels, before.kernels);
    } else assert_int_equal(now.compiles, 7);
    before = now;
  }
  close_session(&r);
  close_session(&ref);
  // Nor does another program: one of sizes that are known, as most are.
  static const char known[] = "graph @other (%x : f32[12, 20] = user \"x\", %w : f32[20, 24] = user \"w\") {\n"
                              "  %p : f32[12, 24] = aten::mm(%x, %w)\n"
                              "  %s : f32[12, 24] = aten::_softmax(%p, 1, false)\n"
                              "  %a : f32[12, 24] = aten::mul.Tensor(%s, 3.5)\n"
                              "  return user %a, user %s\n"
                              "}\n";
  TC_TRY(open_session(&r, known));
  TC_TRY(open_session(&ref, known));
  TC_TRY(run_both(&r, &ref, 12, 20, 24, seed));
  tc_eager_stats now = tc_eager_stats_of(r.context->eager);
  assert_int_equal(now.compiles, before.compiles);
  assert_int_equal(now.kernels, before.kernels);
  rig_close(&r);
  rig_close(&ref);
  return TC_OK;
}

// What compiling makes is gone: an entry is its guards and its plan.
TC_TEST(entries_are_small) {
  enum { MOST_BYTES = 512 << 10 }; // of an entry and of memory for results that are gone
  const tc_fault_allocator *f = tc_arena_allocator(arena)->self;
  rig r, ref;
  TC_TRY(open_both(arena, any_size, &r, &ref));
  int64_t before = f->live_bytes;
  TC_TRY(run_both(&r, &ref, 5, 7, 9, tc_test_seed()));
  int64_t entries = tc_eager_stats_of(r.context->eager).compiles, bytes = (f->live_bytes - before) / entries;
  if (bytes > MOST_BYTES) fail_msg("%lld bytes for each of %lld entries", (long long)bytes, (long long)entries);
  rig_close(&r);
  rig_close(&ref);
  return TC_OK;
}

// Sizes among the arguments of views make no code either.
TC_TEST(views_have_no_code) {
  static const char text[] = "graph @forward [n in [2, 512] hint 5, m in [2, 512] hint 7, k in [2, 9] hint 3] (\n"
                             "    %x : f32[n, m] = user \"x\", %w : f32[m, k] = user \"w\") {\n"
                             "  %v : f32[n * m] = aten::view(%x, [n * m])\n"
                             "  %u : f32[m, n] = aten::view(%v, [m, n])\n"
                             "  %y : f32[m, n] = aten::neg(%u)\n"
                             "  return user %y, user %u\n"
                             "}\n";
  uint64_t seed = tc_test_seed();
  rig r, ref;
  TC_TRY(open_both(arena, text, &r, &ref));
  TC_TRY(run_both(&r, &ref, 5, 7, 3, seed));
  int64_t kernels = tc_eager_stats_of(r.context->eager).kernels;
  TC_TRY(run_both(&r, &ref, 8, 6, 4, seed + 2));
  assert_int_equal(tc_eager_stats_of(r.context->eager).kernels, kernels);
  rig_close(&r);
  rig_close(&ref);
  return TC_OK;
}

// A transform is compiled for its length, and for any number of rows.
TC_TEST(lengths_of_transforms_are_known) {
  static const char text[] = "graph @forward [n in [2, 512] hint 5, m in [2, 512] hint 8, k in [2, 9] hint 3] (\n"
                             "    %x : f32[n, m] = user \"x\", %w : f32[m, k] = user \"w\") {\n"
                             "  %f : c64[n, m // 2 + 1] = aten::_fft_r2c(%x, [1], 0, true)\n"
                             "  %a : f32[n, m // 2 + 1] = aten::abs(%f)\n"
                             "  return user %a, user %x\n"
                             "}\n";
  static const int64_t sizes[][2] = {{4, 12}, {9, 12}, {4, 16}};
  static const int64_t made[] = {2, 0, 1}; // entries: both ops; none; the transform's
  uint64_t seed = tc_test_seed();
  rig r, ref;
  TC_TRY(open_both(arena, text, &r, &ref));
  int64_t before = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    TC_TRY(run_both(&r, &ref, sizes[i][0], sizes[i][1], 3, seed + 2 * i));
    int64_t now = tc_eager_stats_of(r.context->eager).compiles;
    assert_int_equal(now - before, made[i]);
    before = now;
  }
  rig_close(&r);
  rig_close(&ref);
  return TC_OK;
}

// An output that is a view of what the run writes to keeps what it was.
TC_TEST(outputs_outlive_what_is_written_back) {
  static const char text[] = "graph @forward (%c : f32[2, 3] = user \"c\", %x : f32[2, 3] = user \"x\") {\n"
                             "  %old : f32[3, 2]{1, 3} = aten::t(%c)\n"
                             "  %new : f32[2, 3] = aten::add.Tensor(%c, %x)\n"
                             "  return input \"c\" %new, user %old\n"
                             "}\n";
  rig r;
  tc_tensor in[2], out[2];
  TC_TRY(rig_context(&r, tc_arena_allocator(arena), "cpu", by_op));
  TC_TRY(open_session(&r, text));
  for (int32_t i = 0; i < 2; i++) {
    TC_TRY(tc_tensor_create(r.allocator, TC_F32, 2, (int64_t[]){2, 3}, &in[i]));
    for (int32_t k = 0; k < 6; k++) ((float *)tc_tensor_data(&in[i]))[k] = (float)(i ? 10 : k);
  }
  for (int32_t round = 0; round < 3; round++) {
    TC_TRY(tc_session_run(r.session, in, out, &(tc_session_run_options){.write_back = true}));
    for (int32_t k = 0; k < 6; k++) {
      double old;
      tc_tensor_get(&out[1], (int64_t[]){k % 3, k / 3}, &old, NULL);
      assert_float_equal(old, k + 10 * round, 0);
      assert_float_equal(((float *)tc_tensor_data(&in[0]))[k], k + 10 * (round + 1), 0);
    }
    tc_tensor_unref(&out[0]), tc_tensor_unref(&out[1]);
  }
  tc_tensor_unref(&in[0]), tc_tensor_unref(&in[1]);
  rig_close(&r);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(other_sizes_compile_nothing),
      cmocka_unit_test(entries_are_small),
      cmocka_unit_test(views_have_no_code),
      cmocka_unit_test(lengths_of_transforms_are_known),
      cmocka_unit_test(outputs_outlive_what_is_written_back),
  };
  return TC_RUN(tests);
}
