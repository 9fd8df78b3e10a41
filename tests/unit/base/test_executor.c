// Executors: every index exactly once, whatever the size, grain, nesting and concurrency.
#include <pthread.h>

#include "core/base/executor.h"
#include "tests/unit/unit.h"

enum { MOST = 10000 };

typedef struct job {
  int32_t hits[MOST];       // atomic
  int32_t ranges, smallest; // atomic
  const tc_executor *inner;
} job;

static void hit(void *arg, int64_t begin, int64_t end) {
  job *j = arg;
  __atomic_add_fetch(&j->ranges, 1, __ATOMIC_RELAXED);
  int32_t size = (int32_t)(end - begin), smallest = __atomic_load_n(&j->smallest, __ATOMIC_RELAXED);
  while (size < smallest &&
         !__atomic_compare_exchange_n(&j->smallest, &smallest, size, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
  for (int64_t i = begin; i < end; i++) __atomic_add_fetch(&j->hits[i], 1, __ATOMIC_RELAXED);
}

static void check(job *j, int64_t n, int32_t times) {
  for (int64_t i = 0; i < MOST; i++)
    if (j->hits[i] != (i < n ? times : 0)) fail_msg("index %d of %d was hit %d times", (int)i, (int)n, j->hits[i]);
}

static job *new_job(void) {
  job *j = calloc(1, sizeof *j);
  j->smallest = INT32_MAX;
  return j;
}

static void cover(const tc_executor *e) {
  uint64_t random = tc_test_seed();
  for (int round = 0; round < 200; round++) {
    job *j = new_job();
    int64_t n = (int64_t)(tc_test_random(&random) % MOST), grain = (int64_t)(tc_test_random(&random) % 3000);
    if (round < 5) n = round;
    e->parallel_for(e->self, n, grain, hit, j);
    check(j, n, 1);
    if (n > 0) {
      assert_true(j->ranges >= 1);
      assert_true(j->smallest >= (grain < n ? grain : n)); // no range is smaller than the grain
    } else assert_int_equal(j->ranges, 0);
    free(j);
  }
}

// A thread that is held up keeps no more than what it has taken: the others do the rest of its share.
typedef struct slow {
  pthread_mutex_t lock;
  pthread_cond_t change;
  int64_t done; // under the lock
  bool held;    // a thread took the very first part, and waits for what others can do
} slow;

static void wait_for_others(void *arg, int64_t begin, int64_t end) {
  slow *s = arg;
  pthread_mutex_lock(&s->lock);
  if (begin == 0) {
    int64_t others = MOST - end;
    s->held = true;
    while (s->done < others) pthread_cond_wait(&s->change, &s->lock);
  }
  s->done += end - begin;
  pthread_cond_broadcast(&s->change);
  pthread_mutex_unlock(&s->lock);
}

static void help(const tc_executor *e) {
  slow s = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};
  e->parallel_for(e->self, MOST, 1, wait_for_others, &s);
  assert_true(s.held);
  assert_int_equal(s.done, MOST);
}

// More indices than 32 bits count.
static void add_size(void *arg, int64_t begin, int64_t end) {
  assert_true(begin < end);
  __atomic_add_fetch((int64_t *)arg, end - begin, __ATOMIC_RELAXED);
}

static void count_many(const tc_executor *e) {
  int64_t n = ((int64_t)1 << 40) + 12345, sum = 0;
  e->parallel_for(e->self, n, 1, add_size, &sum);
  assert_int_equal(sum, n);
  sum = 0, n = ((int64_t)INT32_MAX << 2) + 1;
  e->parallel_for(e->self, n, 7, add_size, &sum);
  assert_int_equal(sum, n);
}

static void nested(void *arg, int64_t begin, int64_t end) {
  job *j = arg;
  for (int64_t i = begin; i < end; i++) j->inner->parallel_for(j->inner->self, 100, 1, hit, j);
}

static void nest(const tc_executor *e) {
  job *j = new_job();
  j->inner = e;
  e->parallel_for(e->self, 64, 1, nested, j);
  check(j, 100, 64);
  free(j);
}

static void *call_often(void *arg) {
  const tc_executor *e = arg;
  for (int i = 0; i < 50; i++) {
    job *j = new_job();
    e->parallel_for(e->self, 997, 1, hit, j);
    check(j, 997, 1);
    free(j);
  }
  return NULL;
}

static void concur(tc_executor *e) {
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, call_often, e), 0);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

static void exercise(tc_status (*make)(int32_t, tc_executor *)) {
  int32_t counts[] = {1, 2, 3, 8, 0};
  for (int i = 0; i < 5; i++) {
    tc_executor e;
    assert_ok(make(counts[i], &e));
    assert_true(counts[i] ? e.threads(e.self) == counts[i] : e.threads(e.self) >= 1);
    cover(&e);
    if (e.threads(e.self) > 1) help(&e);
    count_many(&e);
    nest(&e);
    concur(&e);
    tc_executor_destroy(&e);
    assert_ptr_equal(e.self, NULL);
  }
  tc_executor e;
  assert_error(make(-1, &e), TC_STATUS_INVALID_ARGUMENT, "-1 threads");
  assert_error(make(1 << 20, &e), TC_STATUS_INVALID_ARGUMENT, "threads");
}

// The thread sanitizer does not see the synchronisation inside libgomp.
#if !defined(__SANITIZE_THREAD__)
static void openmp(void **state) {
  (void)state;
  exercise(tc_executor_openmp);
}
#endif

static void pthreads(void **state) {
  (void)state;
  exercise(tc_executor_pthread);
}

static void serial(void **state) {
  (void)state;
  tc_executor e = tc_executor_serial;
  assert_int_equal(e.threads(e.self), 1);
  cover(&e);
  nest(&e);
  concur(&e);
  tc_executor_destroy(&e);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(serial),
      cmocka_unit_test(pthreads),
#if !defined(__SANITIZE_THREAD__)
      cmocka_unit_test(openmp),
#endif
  };
  return TC_RUN(tests);
}
