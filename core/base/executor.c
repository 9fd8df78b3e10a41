// Executors: serial, an OpenMP team, an own pthread pool.
//
// A loop over [0, n) becomes min(threads, n / grain) ranges whose sizes differ by one at most; which thread runs which
// is fixed, so that memory touched first by a thread stays near it. A team that is busy (a nested or a concurrent call)
// is not waited for: the caller runs its loop inline.
//
// Compilers without OpenMP (clang without its runtime package) get the pool in its place.
#include "core/base/executor.h"

#ifdef _OPENMP
#include <omp.h>
#endif
#include <pthread.h>
#include <unistd.h>

#include "core/base/alloc.h"

enum { MOST_THREADS = 4096 };

static int32_t count_ranges(int64_t n, int64_t grain, int32_t threads) {
  if (grain < 1) grain = 1;
  int64_t ranges = n / grain;
  return ranges < 1 ? 1 : ranges < threads ? (int32_t)ranges : threads;
}

static void run_range(int64_t n, int32_t ranges, int32_t i, tc_range_fn fn, void *arg) {
  int64_t size = n / ranges, longer = n % ranges, begin = size * i + (i < longer ? i : longer);
  fn(arg, begin, begin + size + (i < longer));
}

static tc_status check_threads(int32_t threads) {
  if (threads >= 0 && threads <= MOST_THREADS) return TC_OK;
  return tc_error(TC_STATUS_INVALID_ARGUMENT, "cannot run with %d threads: 0 (all) to %d are possible", threads,
                  MOST_THREADS);
}

static void serial_for(void *self, int64_t n, int64_t grain, tc_range_fn fn, void *arg) {
  (void)self, (void)grain;
  if (n > 0) fn(arg, 0, n);
}

static int32_t serial_threads(void *self) {
  (void)self;
  return 1;
}

const tc_executor tc_executor_serial = {NULL, serial_threads, serial_for};

// ---- OpenMP

#ifdef _OPENMP
typedef struct team {
  int32_t threads;
  int32_t busy; // atomic
} team;

static int32_t team_threads(void *self) { return ((team *)self)->threads; }

static void team_for(void *self, int64_t n, int64_t grain, tc_range_fn fn, void *arg) {
  team *t = self;
  if (n <= 0) return;
  int32_t ranges = count_ranges(n, grain, t->threads);
  if (ranges == 1 || omp_in_parallel() || __atomic_exchange_n(&t->busy, 1, __ATOMIC_ACQUIRE)) {
    fn(arg, 0, n);
    return;
  }
#pragma omp parallel for num_threads(ranges) schedule(static, 1)
  for (int32_t i = 0; i < ranges; i++) run_range(n, ranges, i, fn, arg);
  __atomic_store_n(&t->busy, 0, __ATOMIC_RELEASE);
}

tc_status tc_executor_openmp(int32_t threads, tc_executor *out) {
  TC_TRY(check_threads(threads));
  team *t = tc_alloc(tc_system_allocator(), sizeof *t);
  if (t == NULL) return tc_error(TC_STATUS_OUT_OF_MEMORY, "out of memory (executor)");
  t->threads = threads ? threads : omp_get_max_threads();
  *out = (tc_executor){t, team_threads, team_for};
  return TC_OK;
}

static void team_destroy(const tc_executor *e) {
  if (e->parallel_for == team_for) tc_free(tc_system_allocator(), e->self);
}
#else
tc_status tc_executor_openmp(int32_t threads, tc_executor *out) { return tc_executor_pthread(threads, out); }
static void team_destroy(const tc_executor *e) { (void)e; }
#endif

// ---- pthreads

// Workers wait for `round` to change, take the range of their number and report. The caller runs range 0.
typedef struct pool pool;
typedef struct worker {
  pool *pool;
  int32_t number;
  pthread_t thread;
} worker;

struct pool {
  int32_t threads; // with the caller
  int32_t busy;    // atomic
  pthread_mutex_t mutex;
  pthread_cond_t work, done;
  // Guarded by the mutex:
  int64_t round;
  int32_t left, ranges;
  bool stop;
  int64_t n;
  tc_range_fn fn;
  void *arg;
  worker workers[];
};

static void *worker_main(void *self) {
  worker *w = self;
  pool *p = w->pool;
  int64_t seen = 0;
  pthread_mutex_lock(&p->mutex);
  for (;;) {
    while (!p->stop && p->round == seen) pthread_cond_wait(&p->work, &p->mutex);
    if (p->stop) break;
    seen = p->round;
    if (w->number >= p->ranges) continue;
    int64_t n = p->n;
    int32_t ranges = p->ranges;
    tc_range_fn fn = p->fn;
    void *arg = p->arg;
    pthread_mutex_unlock(&p->mutex);
    run_range(n, ranges, w->number, fn, arg);
    pthread_mutex_lock(&p->mutex);
    if (--p->left == 0) pthread_cond_signal(&p->done);
  }
  pthread_mutex_unlock(&p->mutex);
  return NULL;
}

static int32_t pool_threads(void *self) { return ((pool *)self)->threads; }

static void pool_for(void *self, int64_t n, int64_t grain, tc_range_fn fn, void *arg) {
  pool *p = self;
  if (n <= 0) return;
  int32_t ranges = count_ranges(n, grain, p->threads);
  if (ranges == 1 || __atomic_exchange_n(&p->busy, 1, __ATOMIC_ACQUIRE)) {
    fn(arg, 0, n);
    return;
  }
  pthread_mutex_lock(&p->mutex);
  p->n = n, p->fn = fn, p->arg = arg;
  p->ranges = ranges;
  p->left = ranges - 1;
  p->round++;
  pthread_cond_broadcast(&p->work);
  pthread_mutex_unlock(&p->mutex);
  run_range(n, ranges, 0, fn, arg);
  pthread_mutex_lock(&p->mutex);
  while (p->left > 0) pthread_cond_wait(&p->done, &p->mutex);
  pthread_mutex_unlock(&p->mutex);
  __atomic_store_n(&p->busy, 0, __ATOMIC_RELEASE);
}

// Stops and joins the first `started` workers.
static void pool_stop(pool *p, int32_t started) {
  pthread_mutex_lock(&p->mutex);
  p->stop = true;
  pthread_cond_broadcast(&p->work);
  pthread_mutex_unlock(&p->mutex);
  for (int32_t i = 0; i < started; i++) pthread_join(p->workers[i].thread, NULL);
  pthread_cond_destroy(&p->done);
  pthread_cond_destroy(&p->work);
  pthread_mutex_destroy(&p->mutex);
  tc_free(tc_system_allocator(), p);
}

tc_status tc_executor_pthread(int32_t threads, tc_executor *out) {
  TC_TRY(check_threads(threads));
  if (threads == 0) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    threads = online < 1 ? 1 : online < MOST_THREADS ? (int32_t)online : MOST_THREADS;
  }
  pool *p = tc_alloc(tc_system_allocator(), sizeof *p + sizeof(worker) * (size_t)(threads - 1));
  if (p == NULL) return tc_error(TC_STATUS_OUT_OF_MEMORY, "out of memory (executor)");
  p->threads = threads;
  pthread_mutex_init(&p->mutex, NULL);
  pthread_cond_init(&p->work, NULL);
  pthread_cond_init(&p->done, NULL);
  for (int32_t i = 0; i < threads - 1; i++) {
    p->workers[i] = (worker){.pool = p, .number = i + 1};
    if (pthread_create(&p->workers[i].thread, NULL, worker_main, &p->workers[i]) != 0) {
      pool_stop(p, i);
      return tc_error(TC_STATUS_RESOURCE_EXHAUSTED, "the system refused thread %d of %d", i + 2, threads);
    }
  }
  *out = (tc_executor){p, pool_threads, pool_for};
  return TC_OK;
}

void tc_executor_destroy(tc_executor *e) {
  team_destroy(e);
  if (e->parallel_for == pool_for) pool_stop(e->self, ((pool *)e->self)->threads - 1);
  *e = tc_executor_serial;
}
