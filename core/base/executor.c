// Executors: serial, an OpenMP team, an own pthread pool.
//
// A loop over [0, n) becomes min(threads, n / grain) shares whose sizes differ by one at most; which thread has which
// is fixed, so that memory touched first by a thread stays near it. A thread takes half of what is left of its share at
// a time, from the front; one that has done its own takes from the back of others': cores are not equally fast where
// others use them, too, or by design. (Affinity scheduling: Markatos and LeBlanc, Supercomputing '92.) A team that is
// busy (a nested or a concurrent call) is not waited for: the caller runs its loop inline.
//
// Compilers without OpenMP (clang without its runtime package) get the pool in its place.
#include "core/base/executor.h"

#ifdef _OPENMP
#include <omp.h>
#endif
#include <pthread.h>
#include <unistd.h>

#include "core/base/alloc.h"

enum { MOST_THREADS = 4096, LEAST_PART = 16 }; // of a share that is taken at once

// What is left of a thread's share in units of the loop: the first one in the upper 32 bits, the end in the lower.
typedef struct share {
  _Alignas(64) uint64_t left; // atomic
} share;

typedef struct loop {
  int64_t n, unit;
  uint32_t least; // units that are taken at once, if so many are left
  int32_t shares;
  tc_range_fn fn;
  void *arg;
} loop;

static loop loop_of(int64_t n, int64_t grain, int32_t threads, tc_range_fn fn, void *arg) {
  if (grain < 1) grain = 1;
  int64_t unit = 1 + n / INT32_MAX, shares = n / grain;
  loop l = {.n = n, .unit = unit, .fn = fn, .arg = arg};
  l.shares = shares < 1 ? 1 : shares < threads ? (int32_t)shares : threads;
  int64_t least = n / unit / l.shares / LEAST_PART;
  l.least = (uint32_t)(least > grain / unit ? least : grain / unit + (grain % unit > 0));
  return l;
}

static void put_shares(const loop *l, share *all) {
  int64_t units = l->n / l->unit + (l->n % l->unit > 0), size = units / l->shares, longer = units % l->shares;
  for (int64_t i = 0; i < l->shares; i++) {
    int64_t begin = size * i + (i < longer ? i : longer), end = begin + size + (i < longer);
    __atomic_store_n(&all[i].left, (uint64_t)begin << 32 | (uint64_t)end, __ATOMIC_RELAXED);
  }
}

// Half of what is left, of so little all of it; what stays is no less than `least`.
static bool take(const loop *l, share *s, bool front, uint32_t *begin, uint32_t *end) {
  uint64_t left = __atomic_load_n(&s->left, __ATOMIC_RELAXED), then;
  do {
    uint32_t first = (uint32_t)(left >> 32), last = (uint32_t)left, size = last - first;
    if (size == 0) return false;
    uint32_t half = size / 2 + size % 2, part = size - half < l->least ? size : half;
    *begin = front ? first : last - part, *end = *begin + part;
    then = front ? (uint64_t)*end << 32 | last : (uint64_t)first << 32 | *begin;
  } while (!__atomic_compare_exchange_n(&s->left, &left, then, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return true;
}

// What thread i of the team does.
static void run_shares(const loop *l, share *all, int32_t i) {
  for (int32_t k = 0; k < l->shares; k++) {
    share *s = &all[(i + k) % l->shares];
    for (uint32_t begin, end; take(l, s, k == 0, &begin, &end);) {
      int64_t to = end * l->unit;
      l->fn(l->arg, begin * l->unit, to < l->n ? to : l->n);
    }
  }
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
  share shares[];
} team;

static int32_t team_threads(void *self) { return ((team *)self)->threads; }

static void team_for(void *self, int64_t n, int64_t grain, tc_range_fn fn, void *arg) {
  team *t = self;
  if (n <= 0) return;
  loop l = loop_of(n, grain, t->threads, fn, arg);
  if (l.shares == 1 || omp_in_parallel() || __atomic_exchange_n(&t->busy, 1, __ATOMIC_ACQUIRE)) {
    fn(arg, 0, n);
    return;
  }
  put_shares(&l, t->shares);
#pragma omp parallel for num_threads(l.shares) schedule(static, 1)
  for (int32_t i = 0; i < l.shares; i++) run_shares(&l, t->shares, i);
  __atomic_store_n(&t->busy, 0, __ATOMIC_RELEASE);
}

tc_status tc_executor_openmp(int32_t threads, tc_executor *out) {
  TC_TRY(check_threads(threads));
  if (threads == 0) threads = omp_get_max_threads();
  team *t = tc_alloc(tc_system_allocator(), sizeof *t + sizeof(share) * (size_t)threads);
  if (t == NULL) return tc_error(TC_STATUS_OUT_OF_MEMORY, "out of memory (executor)");
  t->threads = threads;
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

// Workers wait for `round` to change, run the share of their number and report. The caller has share 0.
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
  int32_t left;
  bool stop;
  loop loop;
  share *shares; // of atomics
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
    if (w->number >= p->loop.shares) continue;
    loop l = p->loop;
    pthread_mutex_unlock(&p->mutex);
    run_shares(&l, p->shares, w->number);
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
  loop l = loop_of(n, grain, p->threads, fn, arg);
  if (l.shares == 1 || __atomic_exchange_n(&p->busy, 1, __ATOMIC_ACQUIRE)) {
    fn(arg, 0, n);
    return;
  }
  pthread_mutex_lock(&p->mutex);
  put_shares(&l, p->shares);
  p->loop = l;
  p->left = l.shares - 1;
  p->round++;
  pthread_cond_broadcast(&p->work);
  pthread_mutex_unlock(&p->mutex);
  run_shares(&l, p->shares, 0);
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
  tc_free(tc_system_allocator(), p->shares);
  tc_free(tc_system_allocator(), p);
}

tc_status tc_executor_pthread(int32_t threads, tc_executor *out) {
  TC_TRY(check_threads(threads));
  if (threads == 0) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    threads = online < 1 ? 1 : online < MOST_THREADS ? (int32_t)online : MOST_THREADS;
  }
  pool *p = tc_alloc(tc_system_allocator(), sizeof *p + sizeof(worker) * (size_t)(threads - 1));
  share *shares = tc_alloc(tc_system_allocator(), sizeof *shares * (size_t)threads);
  if (p == NULL || shares == NULL) {
    tc_free(tc_system_allocator(), p);
    tc_free(tc_system_allocator(), shares);
    return tc_error(TC_STATUS_OUT_OF_MEMORY, "out of memory (executor)");
  }
  p->threads = threads, p->shares = shares;
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
