// Contexts of the embedder's API for tests that hold on every backend.
#ifndef TC_TESTS_UNIT_API_BACKENDS_H_
#define TC_TESTS_UNIT_API_BACKENDS_H_

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "tests/unit/unit.h"

#include "tc/ops.h"

// `more`: a further setting, or NULL. Caches on disk are off.
static inline tc_context *open_backend(const char *backend, const char *more) {
  char setting[64];
  snprintf(setting, sizeof setting, "backend=%s", backend);
  const char *settings[] = {setting, "cache.enabled=false", more};
  tc_context *c = NULL;
  if (tc_open(settings, more ? 3 : 2, &c) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
  return c;
}

// Log lines, one after the other; for tc_set_logs.
typedef struct log_lines {
  char text[8192];
} log_lines;
static inline void keep_line(void *self, const char *artifact, tc_sv text) {
  log_lines *l = self;
  size_t n = strlen(l->text);
  snprintf(l->text + n, sizeof l->text - n, "[%s] %.*s\n", artifact, (int)text.size, text.data);
}

static const char *const backends[] = {"ref", "cpu"};

// A thread for each of n callers of `size` bytes, joined again.
static inline void run_threads(int n, void *(*body)(void *caller), void *callers, size_t size) {
  pthread_t threads[16];
  assert_true(n <= 16);
  for (int i = 0; i < n; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, body, (char *)callers + (size_t)i * size), 0);
  for (int i = 0; i < n; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
}

// Fresh numbers from rand(); TC_TEST_SEED repeats a run.
static inline void seed_rand(void) { srand((unsigned)tc_test_seed()); }

// A function whose control flow uses a tensor (`self`) that is no input of its regions.
static inline int32_t stranger(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)n_in, (void)n_out;
  out[0] = tc_aten_add_Tensor(in[0], self, tc_scalar_int(1));
  return tc_last_code();
}
static inline int32_t with_stranger(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)n_in, (void)n_out;
  tc_tensor *truth = tc_aten_gt_Scalar(tc_aten_sum(in[0], TC_DTYPE_NONE), tc_scalar_int(0));
  return tc_cond(truth, stranger, stranger, self, 1, in, 1, out);
}

// Runs the statement behind it with a context of each backend.
#define FOR_BACKENDS(c, more)    \
  for (int b_ = 0; b_ < 2; b_++) \
    for (tc_context *c = open_backend(backends[b_], more); c; tc_close(c), c = NULL)

#endif
