// Device graphs, events and memory statistics of the cuda plugin over the fake driver: what is recorded is done by
// launches of the graph only, in order, as often as it is launched; recordings leave other streams alone; failures
// leave nothing behind.
#include "tests/unit/cuda/rig.h"

enum { BYTES = 4096 };

static void fill_random(unsigned char *p, uint64_t *seed) {
  for (int32_t i = 0; i < BYTES; i++) p[i] = (unsigned char)tc_test_random(seed);
}

TC_TEST(recording) {
  rig r;
  object o;
  open_rig(&r);
  make_object(&o, 1);
  uint64_t seed = tc_test_seed();
  tc_handle stream, recorder, graph, module, function, a, b, c, other;
  unsigned char in[BYTES], out[BYTES];
  OK(r.t->stream_create(r.d, &stream));
  OK(r.t->alloc(r.d, BYTES, &a));
  OK(r.t->alloc(r.d, BYTES, &b));
  OK(r.t->alloc(r.d, BYTES, &c));
  OK(r.t->module_load(r.d, o.data, o.size, &module));
  OK(r.t->function(r.d, module, TC_SV("mul_0"), &function));
  r.params(2, (int32_t[]){8, 8});
  tc_launch_arg arg = {.kind = TC_ARG_MEMORY, .value = a};
  tc_launch l = {.struct_size = sizeof l, .function = function, .blocks = 3, .grain = 1, .args = &arg, .n_args = 1};
  OK(r.t->fill(r.d, stream, b, 0, 1, BYTES));
  int32_t async = r.state()->async_allocations;

  OK(r.t->graph_begin(r.d, &recorder));
  assert_int_not_equal(recorder, stream);
  OK(r.t->copy(r.d, recorder, b, 0, a, 0, BYTES));
  OK(r.t->launch(r.d, recorder, &l));
  OK(r.t->fill(r.d, recorder, b, 16, 0x5C, 16));
  // Meanwhile the stream works as ever, and memory is still allocated in its order.
  OK(r.t->alloc(r.d, BYTES, &other));
  assert_int_equal(r.state()->async_allocations, async + 1);
  OK(r.t->copy_out(r.d, stream, out, b, 0, BYTES));
  for (int32_t i = 0; i < BYTES; i++) assert_int_equal(out[i], 1);
  OK(r.t->graph_end(r.d, recorder, &graph));
  assert_int_equal(r.state()->launches, 0);
  assert_int_equal(r.state()->graphs, 0); // only what can be launched is kept
  OK(r.t->copy_out(r.d, stream, out, b, 0, BYTES));
  for (int32_t i = 0; i < BYTES; i++) assert_int_equal(out[i], 1);

  for (int32_t turn = 0; turn < 20; turn++) {
    fill_random(in, &seed);
    OK(r.t->copy_in(r.d, stream, a, 0, in, BYTES));
    OK(r.t->graph_launch(r.d, stream, graph));
    OK(r.t->copy(r.d, stream, c, 0, b, 0, BYTES));
    OK(r.t->copy_out(r.d, stream, out, c, 0, BYTES));
    memset(in + 16, 0x5C, 16);
    assert_memory_equal(out, in, BYTES);
  }
  assert_int_equal(r.state()->graph_launches, 20);
  assert_int_equal(r.state()->launches, 20);
  r.t->graph_destroy(r.d, graph);
  // Thrown away, empty, and with nothing on the stream meanwhile.
  OK(r.t->graph_begin(r.d, &recorder));
  OK(r.t->fill(r.d, recorder, b, 0, 2, BYTES));
  OK(r.t->graph_end(r.d, recorder, NULL));
  OK(r.t->graph_begin(r.d, &recorder));
  OK(r.t->graph_end(r.d, recorder, &graph));
  OK(r.t->graph_launch(r.d, stream, graph));
  r.t->graph_destroy(r.d, graph);
  r.t->module_unload(r.d, module);
  r.t->free(r.d, a), r.t->free(r.d, b), r.t->free(r.d, c), r.t->free(r.d, other);
  OK(r.t->synchronize(r.d, stream));
  r.t->stream_destroy(r.d, stream);
  close_rig(&r);
  return TC_OK;
}

// What waits for every launch cannot be recorded.
TC_TEST(synchronous) {
  rig r;
  tc_handle recorder;
  load(&r);
  r.sync = "true";
  OK(r.t->open(&r.host, 0, &r.d));
  assert_int_equal(r.t->graph_begin(r.d, &recorder), TC_STATUS_UNIMPLEMENTED);
  assert_non_null(strstr(r.diag, "cuda.sync"));
  close_rig(&r);
  return TC_OK;
}

TC_TEST(failures) {
  static const char *const functions[] = {"cuStreamCreate",     "cuStreamBeginCapture_v2",     "cuMemsetD8Async",
                                          "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch"};
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    rig r;
    tc_handle stream, recorder = 0, graph = 0, memory;
    open_rig(&r);
    OK(r.t->stream_create(r.d, &stream));
    OK(r.t->alloc(r.d, BYTES, &memory));
    r.make_fail(functions[i], 0, 700);
    int32_t s = r.t->graph_begin(r.d, &recorder);
    if (s == TC_STATUS_OK) {
      s = r.t->fill(r.d, recorder, memory, 0, 1, BYTES);
      if (s != TC_STATUS_OK) OK(r.t->graph_end(r.d, recorder, NULL));
      else s = r.t->graph_end(r.d, recorder, &graph);
    }
    if (s == TC_STATUS_OK) s = r.t->graph_launch(r.d, stream, graph);
    r.make_fail(NULL, 0, 0);
    assert_int_equal(s, TC_STATUS_DEVICE);
    char bare[64];
    snprintf(bare, sizeof bare, "%s", functions[i]);
    if (strstr(bare, "_v2")) *strstr(bare, "_v2") = 0;
    if (!strstr(r.diag, bare)) fail_msg("%s gave %s", bare, r.diag);
    if (graph) r.t->graph_destroy(r.d, graph);
    r.t->free(r.d, memory);
    r.t->stream_destroy(r.d, stream);
    close_rig(&r);
  }
  return TC_OK;
}

TC_TEST(events) {
  rig r;
  tc_handle stream, from, to, memory;
  double ns = -1;
  open_rig(&r);
  OK(r.t->stream_create(r.d, &stream));
  OK(r.t->alloc(r.d, BYTES, &memory));
  OK(r.t->event_create(r.d, &from));
  OK(r.t->event_create(r.d, &to));
  OK(r.t->fill(r.d, stream, memory, 0, 1, BYTES));
  OK(r.t->event_record(r.d, stream, from));
  for (int32_t i = 0; i < 3; i++) OK(r.t->fill(r.d, stream, memory, 0, 1, BYTES));
  OK(r.t->event_record(r.d, stream, to));
  OK(r.t->event_elapsed(r.d, from, to, &ns));
  assert_true(ns == 3e6);
  r.make_fail("cuEventElapsedTime", 0, 700);
  assert_int_equal(r.t->event_elapsed(r.d, from, to, &ns), TC_STATUS_DEVICE);
  r.t->event_destroy(r.d, from);
  r.t->event_destroy(r.d, to);
  r.t->free(r.d, memory);
  r.t->stream_destroy(r.d, stream);
  close_rig(&r);
  return TC_OK;
}

TC_TEST(statistics) {
  rig r;
  tc_handle stream, first, second;
  tc_memory_stats m = {.struct_size = sizeof m};
  open_rig(&r);
  OK(r.t->stream_create(r.d, &stream));
  OK(r.t->alloc(r.d, 1 << 20, &first));
  OK(r.t->alloc(r.d, 3 << 20, &second));
  OK(r.t->memory_stats(r.d, &m));
  assert_int_equal(m.total_bytes, (int64_t)8 << 30);
  assert_int_equal(m.free_bytes, (int64_t)7 << 30);
  assert_int_equal(m.used_bytes, 4 << 20);
  assert_true(m.peak_bytes >= 4 << 20);
  r.t->free(r.d, second);
  // An asker with less room gets as much.
  memset(&m, 0x5A, sizeof m);
  m.struct_size = offsetof(tc_memory_stats, peak_bytes);
  OK(r.t->memory_stats(r.d, &m));
  assert_int_equal(m.used_bytes, 1 << 20);
  assert_int_equal(m.peak_bytes, 0x5A5A5A5A5A5A5A5A);
  r.t->free(r.d, first);
  r.t->stream_destroy(r.d, stream);
  close_rig(&r);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(recording), cmocka_unit_test(synchronous),
                                     cmocka_unit_test(failures), cmocka_unit_test(events),
                                     cmocka_unit_test(statistics)};
  return TC_RUN(tests);
}
