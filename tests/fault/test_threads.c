// One session, called by four threads at once: all get the results of a call by itself. For the thread sanitizer above
// all, but wrong results show without it too.
#include <pthread.h>

#include "tests/fault/scene.h"

#define MODEL TC_SOURCE_DIR "/examples/attention.pt2"

enum { THREADS = 4, CALLS = 8 };

typedef struct caller {
  scene *x;
  const tc_tensor *want;
  tc_status status;
  int64_t wrong;
} caller;

static void *call(void *arg) {
  caller *c = arg;
  for (int i = 0; i < CALLS && c->status == TC_OK && c->wrong == 0; i++) {
    tc_tensor outputs[SCENE_MAX] = {0};
    c->status = scene_run(c->x, outputs);
    if (c->status == TC_OK) c->wrong = scene_all_differences(c->x, outputs, c->want);
    scene_drop(outputs);
  }
  return NULL;
}

static void together(const char *backend, const char *mode) {
  scene x;
  scene_options o = {.model = MODEL, .backend = backend, .mode = mode};
  tc_tensor want[SCENE_MAX] = {0};
  assert_ok(scene_open(tc_system_allocator(), &o, &x));
  assert_ok(scene_run(&x, want));
  pthread_t threads[THREADS];
  caller callers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    callers[i] = (caller){.x = &x, .want = want};
    assert_int_equal(pthread_create(&threads[i], NULL, call, &callers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++) {
    assert_ok(callers[i].status);
    assert_int_equal(callers[i].wrong, 0);
  }
  scene_drop(want);
  scene_close(&x);
}

static void references(void **state) {
  (void)state;
  together("ref", "eager");
}

static void fused(void **state) {
  (void)state;
  together("cpu", "inductor");
}

static void op_by_op(void **state) {
  (void)state;
  together("cpu", "eager");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(references), cmocka_unit_test(fused), cmocka_unit_test(op_by_op)};
  return TC_RUN(tests);
}
