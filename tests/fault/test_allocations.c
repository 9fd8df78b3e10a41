// Every allocation that opening, loading, compiling and running a model makes through its allocator fails once: the
// call must come back with OUT_OF_MEMORY, or do without and give the right results, and nothing may stay behind.
//
// All of them would take an hour. Each run therefore tries every k-th from a random start, with k such that it ends
// after FAULT_SECONDS seconds (10 per test), and half of them fail all later allocations too. What plugins take from
// the system themselves does not come through this allocator.
#include "tests/fault/scene.h"

#define MODEL TC_SOURCE_DIR "/examples/attention.pt2"
#define CACHE TC_BINARY_DIR "/tests/fault-cache"

typedef struct attempt {
  tc_status status;
  int64_t wrong; // elements of the results, if there are any
  int64_t allocations, live;
} attempt;

// One passage with the fault at `at` (0: none). `want` has the results of one without; where it has none they go there.
static attempt pass(const scene_options *o, int64_t at, bool later_too, tc_tensor *want, tc_fault_allocator *f) {
  tc_tensor outputs[SCENE_MAX] = {0};
  attempt r = {0};
  scene x;
  tc_fault_allocator_init(f, tc_system_allocator());
  f->fail_at = at;
  f->fail_after = later_too;
  r.status = scene_open(&f->iface, o, &x);
  if (r.status == TC_OK) r.status = scene_run(&x, outputs);
  if (r.status == TC_OK && want) r.wrong = scene_all_differences(&x, outputs, want);
  scene_drop(outputs);
  scene_close(&x);
  r.allocations = f->count;
  r.live = f->live;
  return r;
}

// Results without faults, through the system's allocator.
static void results(const scene_options *o, scene *x, tc_tensor *out) {
  assert_ok(scene_open(tc_system_allocator(), o, x));
  assert_ok(scene_run(x, out));
}

static void torture(const scene_options *o) {
  const char *given = getenv("FAULT_SECONDS");
  double budget = 1000 * (given ? strtod(given, NULL) : 10);
  uint64_t seed = tc_test_seed();
  tc_fault_allocator f;
  scene x;
  tc_tensor want[SCENE_MAX] = {0};
  results(o, &x, want);
  double start = tc_now_ms();
  attempt whole = pass(o, 0, false, want, &f);
  double once = tc_now_ms() - start;
  assert_ok(whole.status);
  assert_int_equal(whole.wrong, 0);
  assert_int_equal(whole.live, 0);
  int64_t passes = (int64_t)(budget / (once + 0.01)) + 1, step = whole.allocations / passes + 1;
  int64_t tried = 0, refused = 0;
  start = tc_now_ms();
  for (int64_t at = 1 + (int64_t)(tc_test_random(&seed) % (uint64_t)step); at <= whole.allocations; at += step) {
    attempt a = pass(o, at, tc_test_random(&seed) & 1, want, &f);
    int32_t code = tc_status_code(a.status);
    if (code != TC_STATUS_OK && code != TC_STATUS_OUT_OF_MEMORY)
      fail_msg("allocation %lld failed%s, and the error is: %s", (long long)at,
               f.fail_after ? " and all later ones" : "", tc_status_text(a.status));
    if (a.live != 0)
      fail_msg("allocation %lld failed%s, and %lld blocks stay: %s", (long long)at,
               f.fail_after ? " and all later ones" : "", (long long)a.live,
               a.status == TC_OK ? "no error" : tc_status_text(a.status));
    if (a.wrong != 0) fail_msg("allocation %lld failed, and %lld results are wrong", (long long)at, (long long)a.wrong);
    tc_status_free(a.status);
    tried++;
    refused += code != TC_STATUS_OK;
    if (tc_now_ms() - start > 3 * budget) break; // a slower machine than it was at first
  }
  print_message("%s, %s: %lld of %lld allocations failed, %lld came back as errors\n", o->backend, o->mode,
                (long long)tried, (long long)whole.allocations, (long long)refused);
  assert_true(refused > 0);
  scene_drop(want);
  scene_close(&x);
}

static void references(void **state) {
  (void)state;
  torture(&(scene_options){.model = MODEL, .backend = "ref", .mode = "eager"});
}

static void compiled(void **state) {
  (void)state;
  torture(&(scene_options){.model = MODEL, .backend = "cpu", .mode = "inductor"});
}

static void compiled_with_cache(void **state) {
  (void)state;
  torture(&(scene_options){.model = MODEL, .backend = "cpu", .mode = "inductor", .cache = CACHE});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(references), cmocka_unit_test(compiled),
                                     cmocka_unit_test(compiled_with_cache)};
  return TC_RUN(tests);
}
