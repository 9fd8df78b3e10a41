// Runs that take over what the run before found out about its sizes (exec_last.c): in any order of sizes, layouts and
// refused inputs each run must compute what the references do, also while other threads run the same session.
#include <math.h>
#include <pthread.h>

#include "tests/unit/runtime/rig.h"

static const char program[] = "graph @f [s0 in [1, 64] hint 5, s1 in [1, 64] hint 7] (\n"
                              "    %x : f32[s0, s1] = user \"x\",\n"
                              "    %y : f32[2*s1 + 1] = user \"y\") {\n"
                              "  %z : f32[s1] = aten::slice.Tensor(%y, 0, 0, s1)\n"
                              "  %a : f32[s0, s1] = aten::add.Tensor(%x, %z)\n"
                              "  %b : f32[s0, s1] = aten::_softmax(%a, 1, false)\n"
                              "  %t : f32[s1, s0]{1, s1} = aten::t(%b)\n"
                              "  %m : f32[s0] = aten::sum.dim_IntList(%a, [1], false)\n"
                              "  return user %t, user %m\n"
                              "}\n";

enum { OUTPUTS = 2, THREADS = 4 };

typedef struct both {
  rig device, ref; // the same program
} both;

static tc_status open_both(both *b, const tc_allocator *a) {
  static const char *const options[] = {"cache.enabled", "false", NULL};
  rig *rigs[] = {&b->device, &b->ref};
  for (int32_t i = 0; i < 2; i++) {
    TC_TRY(rig_context(rigs[i], a, i ? "ref" : "cpu", options));
    TC_TRY(rig_graph(rigs[i], program));
    TC_TRY(tc_session_create(rigs[i]->context, rigs[i]->graph, TC_STAGE_EXEC, &rigs[i]->session));
  }
  return TC_OK;
}

static void close_both(both *b) {
  rig_close(&b->device);
  rig_close(&b->ref);
}

// As it comes, turned, or a part of something larger that starts somewhere.
static tc_status make_matrix(const tc_allocator *a, uint64_t *seed, int64_t rows, int64_t cols, tc_tensor *out) {
  int64_t how = (int64_t)(tc_test_random(seed) % 3), lead = how == 2 ? 3 : 0;
  int64_t strides[] = {how == 1 ? 1 : cols, how == 1 ? rows : 1}, room = rows * cols + lead;
  tc_tensor whole;
  TC_TRY(tc_tensor_create(a, TC_F32, 1, &room, &whole));
  tc_tensor_fill_normal(&tc_executor_serial, &whole, tc_test_random(seed), 0, 1);
  tc_status s = tc_tensor_view(whole.storage, TC_F32, 2, (int64_t[]){rows, cols}, strides, lead, out);
  tc_tensor_unref(&whole);
  return s;
}

static bool alike(const tc_tensor *x, const tc_tensor *y) {
  if (x->rank != y->rank) return false;
  for (int32_t d = 0; d < x->rank; d++)
    if (x->sizes[d] != y->sizes[d] || x->strides[d] != y->strides[d]) return false;
  for (int64_t i = 0, n = tc_tensor_numel(x); i < n; i++) {
    int64_t at[2] = {x->rank > 1 ? i / x->sizes[1] : i, x->rank > 1 ? i % x->sizes[1] : 0};
    double a, b;
    tc_tensor_get(x, at, &a, NULL);
    tc_tensor_get(y, at, &b, NULL);
    if (!(fabs(a - b) <= 1e-4)) return false;
  }
  return true;
}

// One run of each; with a second input that fits no size they must both refuse it.
static bool run_both(const both *b, const tc_allocator *a, uint64_t *seed, int64_t rows, int64_t cols, int64_t length) {
  tc_tensor in[2], got[OUTPUTS], want[OUTPUTS];
  if (make_matrix(a, seed, rows, cols, &in[0]) != TC_OK) return false;
  if (tc_tensor_create(a, TC_F32, 1, &length, &in[1]) != TC_OK) return false;
  tc_tensor_fill_normal(&tc_executor_serial, &in[1], tc_test_random(seed), 0, 1);
  tc_status s = tc_session_run(b->device.session, in, got, NULL);
  tc_status r = tc_session_run(b->ref.session, in, want, NULL);
  bool ok = (s == TC_OK) == (length == 2 * cols + 1) && (r == TC_OK || s != TC_OK);
  for (int32_t i = 0; s == TC_OK && r == TC_OK && i < OUTPUTS; i++) ok = ok && alike(&got[i], &want[i]);
  for (int32_t i = 0; i < OUTPUTS; i++) {
    if (s == TC_OK) tc_tensor_unref(&got[i]);
    if (r == TC_OK) tc_tensor_unref(&want[i]);
    tc_tensor_unref(&in[i]);
  }
  tc_status_free(s);
  tc_status_free(r);
  return ok;
}

// Few sizes, so that many runs are like the last.
static bool run_many(const both *b, const tc_allocator *a, uint64_t seed, int32_t n) {
  static const int64_t sizes[][2] = {{5, 7}, {7, 5}, {1, 16}, {33, 17}};
  for (int32_t i = 0; i < n; i++) {
    const int64_t *size = sizes[tc_test_random(&seed) % 4];
    int64_t wrong = tc_test_random(&seed) % 8 == 0;
    for (int32_t again = 0; again < 2; again++)
      if (!run_both(b, a, &seed, size[0], size[1], 2 * size[1] + 1 + (again ? wrong : 0))) return false;
  }
  return true;
}

TC_TEST(sizes_in_any_order) {
  both b;
  TC_TRY(open_both(&b, tc_arena_allocator(arena)));
  assert_true(run_many(&b, tc_arena_allocator(arena), tc_test_seed(), 100));
  close_both(&b);
  return TC_OK;
}

typedef struct caller {
  pthread_t thread;
  const both *both;
  uint64_t seed;
} caller;
static void *call(void *arg) {
  const caller *c = arg;
  return run_many(c->both, tc_system_allocator(), c->seed, 100) ? NULL : arg;
}

static void threads_with_sizes_of_their_own(void **state) {
  both b;
  caller callers[THREADS];
  uint64_t seed = tc_test_seed();
  (void)state;
  assert_ok(open_both(&b, tc_system_allocator()));
  for (int32_t i = 0; i < THREADS; i++) {
    callers[i] = (caller){.both = &b, .seed = tc_test_random(&seed)};
    assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
  }
  for (int32_t i = 0; i < THREADS; i++) {
    void *bad;
    pthread_join(callers[i].thread, &bad);
    assert_null(bad);
  }
  close_both(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_in_any_order),
      cmocka_unit_test(threads_with_sizes_of_their_own),
  };
  return TC_RUN(tests);
}
