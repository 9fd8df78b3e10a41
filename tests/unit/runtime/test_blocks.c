// Arenas that are more than the device gives at once: the same program on a device without a bound and on one that is
// just large enough for each single buffer must give the same bits, for sizes with one block and with several, also
// where constants are prepared, control flow has buffers of its own, and runs would be recorded.
#include "tests/unit/runtime/recorder.h"
#include "tests/unit/runtime/rig.h"

enum { MOST_ROWS = 300, LARGEST = MOST_ROWS * 64 * 4, MOST_OUTPUTS = 4 };

static const char *const programs[] = {
    // Three products that all live until the last ones.
    "graph @p [s0 in [1, 300] hint 300] (%x : f32[s0, 64] = user \"x\", %w : f32[64, 64] = user \"w\") {\n"
    "  %a : f32[s0, 64] = aten::mm(%x, %w)\n"
    "  %b : f32[s0, 64] = aten::mm(%a, %w)\n"
    "  %c : f32[s0, 64] = aten::mm(%b, %w)\n"
    "  %at : f32[64, s0]{1, 64} = aten::t(%a)\n  %bt : f32[64, s0]{1, 64} = aten::t(%b)\n"
    "  %p : f32[64, 64] = aten::mm(%at, %c)\n  %q : f32[64, 64] = aten::mm(%bt, %c)\n"
    "  %y : f32[64, 64] = aten::add.Tensor(%p, %q)\n"
    "  return user %y\n}\n",
    // The same with constant sizes.
    "graph @p (%x : f32[300, 64] = user \"x\", %w : f32[64, 64] = user \"w\") {\n"
    "  %a : f32[300, 64] = aten::mm(%x, %w)\n"
    "  %b : f32[300, 64] = aten::mm(%a, %w)\n"
    "  %c : f32[300, 64] = aten::mm(%b, %w)\n"
    "  %at : f32[64, 300]{1, 64} = aten::t(%a)\n  %bt : f32[64, 300]{1, 64} = aten::t(%b)\n"
    "  %p : f32[64, 64] = aten::mm(%at, %c)\n  %q : f32[64, 64] = aten::mm(%bt, %c)\n"
    "  %y : f32[64, 64] = aten::add.Tensor(%p, %q)\n"
    "  return user %y\n}\n",
    // A loop between products.
    "graph @p [s0 in [1, 300] hint 300] (%x : f32[s0, 64] = user \"x\", %w : f32[64, 64] = user \"w\") {\n"
    "  %a : f32[s0, 64] = aten::mm(%x, %w)\n"
    "  %b : f32[s0, 64] = aten::mm(%a, %w)\n"
    "  %h : f32[64] = aten::sum.dim_IntList(%b, [0])\n"
    "  %last : f32[64], %sums : f32[s0, 64] = higher_order::scan(graph @step (\n"
    "      %h0 : f32[64] = operand \"h\", %e : f32[64] = operand \"e\") {\n"
    "    %g : f32[64] = aten::add.Tensor(%h0, %e)\n"
    "    %k : f32[64] = aten::mul.Tensor(%g, %e)\n"
    "    return user %g, user %k\n  }, [%h], [%b], [])\n"
    "  %at : f32[64, s0]{1, 64} = aten::t(%a)\n"
    "  %y : f32[64, 64] = aten::mm(%at, %sums)\n"
    "  return user %y, user %last\n}\n",
};
enum { N_PROGRAMS = sizeof programs / sizeof *programs };

static tc_status open_rig(rig *r, tc_arena *arena, const char *text, int64_t largest) {
  static const char *const options[] = {"cache.enabled", "false", "strict", "true", "device_graph", "true", NULL};
  const tc_allocator *a = tc_arena_allocator(arena);
  TC_TRY(rig_context(r, a, "cpu", options));
  TC_TRY(rec_install_small(r->context->device, a, largest));
  r->context->device->n_calls = 0;
  TC_TRY(rig_graph(r, text));
  return tc_session_create(r->context, r->graph, TC_STAGE_EXEC, &r->session);
}

static tc_status draw(const rig *r, int64_t rows, uint64_t seed, tc_tensor *inputs) {
  for (int32_t i = 0; i < r->graph->inputs.count; i++) {
    int64_t sizes[] = {i == 0 ? rows : 64, 64};
    TC_TRY(tc_tensor_create(r->allocator, TC_F32, 2, sizes, &inputs[i]));
    tc_tensor_fill_normal(&tc_executor_serial, &inputs[i], seed + (uint64_t)i, 0, 0.1);
  }
  return TC_OK;
}

// Three runs of each size, so that recorded ones are among them. The outputs of the last go to `out`, the arena's bytes
// to `out_arena`.
static tc_status run_thrice(rig *r, int64_t rows, uint64_t seed, tc_tensor *out, int64_t *out_arena) {
  tc_tensor inputs[2];
  TC_TRY(draw(r, rows, seed, inputs));
  for (int32_t i = 0; i < 3; i++) {
    tc_run_report report = {0};
    for (int32_t k = 0; i && k < r->graph->outputs.count; k++) tc_tensor_unref(&out[k]);
    TC_TRY(tc_session_run(r->session, inputs, out, &(tc_session_run_options){.report = &report}));
    *out_arena = report.arena_bytes;
  }
  for (int32_t i = 0; i < 2; i++) tc_tensor_unref(&inputs[i]);
  return TC_OK;
}

static tc_status run_program(tc_arena *arena, const char *text, int64_t largest, uint64_t seed, const int64_t *rows,
                             int32_t n, tc_tensor (*out)[MOST_OUTPUTS], int64_t *out_arena, int32_t *out_outputs) {
  rig r;
  TC_TRY(open_rig(&r, arena, text, largest));
  *out_outputs = r.graph->outputs.count;
  for (int32_t i = 0; i < n; i++) TC_TRY(run_thrice(&r, rows[i], seed, out[i], &out_arena[i]));
  rig_close(&r);
  assert_int_equal(rec.faults, 0);
  return TC_OK;
}

TC_TEST(split_arenas_compute_the_same) {
  enum { SIZES = 4 };
  for (int32_t p = 0; p < N_PROGRAMS; p++) {
    uint64_t seed = tc_test_seed();
    int64_t rows[SIZES] = {MOST_ROWS, 1, MOST_ROWS - (int64_t)(tc_test_random(&seed) % 100), MOST_ROWS}, bytes[SIZES];
    tc_tensor whole[SIZES][MOST_OUTPUTS], parts[SIZES][MOST_OUTPUTS];
    int32_t n = 0, sizes = strstr(programs[p], "s0") ? SIZES : 1;
    TC_TRY(run_program(arena, programs[p], 0, seed, rows, sizes, whole, bytes, &n));
    TC_TRY(run_program(arena, programs[p], LARGEST, seed, rows, sizes, parts, bytes, &n));
    assert_true(bytes[0] > LARGEST);
    for (int32_t i = 0; i < sizes; i++)
      for (int32_t k = 0; k < n; k++) {
        size_t size = (size_t)(tc_tensor_numel(&whole[i][k]) * (int64_t)sizeof(float));
        assert_memory_equal(tc_tensor_data(&whole[i][k]), tc_tensor_data(&parts[i][k]), size);
        tc_tensor_unref(&whole[i][k]);
        tc_tensor_unref(&parts[i][k]);
      }
  }
  return TC_OK;
}

// A single buffer that no allocation holds is an error in words.
TC_TEST(one_buffer_is_too_large) {
  rig r;
  tc_tensor inputs[2], out[MOST_OUTPUTS];
  TC_TRY(open_rig(&r, arena,
                  "graph @p (%x : f32[8, 64] = user \"x\", %w : f32[64, 64] = user \"w\") {\n"
                  "  %xt : f32[64, 8]{1, 64} = aten::t(%x)\n"
                  "  %a : f32[64, 64] = aten::mm(%xt, %x)\n  %b : f32[64, 64] = aten::mm(%a, %w)\n"
                  "  %c : f32[8, 64] = aten::mm(%x, %b)\n  return user %c\n}\n",
                  64 * 64 * 4));
  r.context->device->props.largest_alloc = 64 * 64 * 4 - 64;
  TC_TRY(draw(&r, 8, tc_test_seed(), inputs));
  assert_error(tc_session_run(r.session, inputs, out, NULL), TC_STATUS_OUT_OF_MEMORY, "one allocation of the device");
  for (int32_t i = 0; i < 2; i++) tc_tensor_unref(&inputs[i]);
  rig_close(&r);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(split_arenas_compute_the_same),
      cmocka_unit_test(one_buffer_is_too_large),
  };
  return TC_RUN(tests);
}
