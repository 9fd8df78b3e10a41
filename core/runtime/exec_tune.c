// Launches with several kernels to choose from: each is timed on the device once for each value of the launch's key,
// and the fastest is launched from then on.
//
// Timing happens in an ordinary run, on the run's own buffers, just before the launch: what the kernels write is saved
// and restored around it, so that a kernel which changes its argument finds it as it was. Results are kept in the cache
// on disk by the code of all candidates, the device and the key. A candidate that fails is out. While a run is being
// recorded nothing is timed: the run before it, of the same sizes, has decided.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/fs.h"
#include "core/runtime/exec_internal.h"

enum { ROUNDS = 5, MOST_DECISIONS = 1024, MOST_KEY = 16, MOST_SAVED = 16 };

struct exec_decision {
  exec_decision *next;
  int64_t key[MOST_KEY + 1]; // the last: which candidates there were
  int32_t choice;
};

static bool is_candidate(const run_state *r, const exec_op *x, int32_t i) {
  return i < x->n_launches - 1 && exec_fact_holds(r, x->launches[i].fact);
}

static tc_status find_key(run_state *r, exec_op *x, int64_t *key) {
  memset(key, 0, sizeof(int64_t) * (MOST_KEY + 1));
  for (int32_t i = 0; i < x->op->n_key && i < MOST_KEY; i++) TC_TRY(exec_number_of(r, &x->key[i], &key[i]));
  for (int32_t i = 0; i < x->n_launches - 1; i++)
    if (is_candidate(r, x, i)) key[MOST_KEY] |= (int64_t)((uint64_t)1 << i);
  return TC_OK;
}

static int32_t decided(tc_exec *e, const exec_op *x, const int64_t *key) {
  int32_t choice = -1;
  pthread_mutex_lock(&e->lock);
  for (const exec_decision *q = x->decisions; q && choice < 0; q = q->next)
    if (memcmp(q->key, key, sizeof q->key) == 0) choice = q->choice;
  pthread_mutex_unlock(&e->lock);
  return choice;
}

// Beyond the bound decisions are made anew each time from what is on disk.
static tc_status decide(tc_exec *e, exec_op *x, const int64_t *key, int32_t choice) {
  exec_decision *q = tc_alloc(e->d->allocator, sizeof *q);
  if (!q) return tc_error_out_of_memory();
  memcpy(q->key, key, sizeof q->key);
  q->choice = choice;
  pthread_mutex_lock(&e->lock);
  bool room = x->n_decisions < MOST_DECISIONS;
  if (room) q->next = x->decisions, x->decisions = q, x->n_decisions++;
  pthread_mutex_unlock(&e->lock);
  if (!room) tc_free(e->d->allocator, q);
  return TC_OK;
}

void exec_tune_destroy(tc_exec *e, exec_op *x) {
  while (x->decisions) {
    exec_decision *q = x->decisions;
    x->decisions = q->next;
    tc_free(e->d->allocator, q);
  }
}

// ---- what the kernels write ----
typedef struct saved {
  int32_t buf;
  int64_t bytes;
  tc_pool_block *copy;
} saved;
typedef struct saved_all {
  saved one[MOST_SAVED];
  int32_t n;
} saved_all;

static tc_status bytes_of(run_state *r, int32_t buf, int64_t *out) {
  const tc_plan_buf *b = &r->e->plan->bufs.data[buf];
  if (b->kind != TC_PLAN_INPUT) return exec_number_of(r, &r->e->bufs[buf].bytes, out);
  *out = exec_span_of(&r->inputs[b->input]) * tc_dtype_size(b->dtype);
  return TC_OK;
}

static tc_status copy(run_state *r, const saved *s, bool back) {
  tc_device *d = r->e->d;
  exec_address a = r->address[s->buf];
  if (s->bytes == 0) return TC_OK;
  tc_handle from = back ? s->copy->memory : a.memory, to = back ? a.memory : s->copy->memory;
  return tc_plugin_status(d->plugin,
                          d->plugin->device->copy(d->handle, d->stream, to, back ? a.offset : 0, from,
                                                  back ? 0 : a.offset, (uint64_t)s->bytes),
                          "while keeping what is written during the timing of kernels");
}

static tc_status save(run_state *r, const exec_op *x, saved_all *all) {
  for (int32_t i = 0; i < x->op->n_args; i++) {
    const tc_plan_arg *a = &x->op->args[i];
    if (a->buf < 0 || !a->writes) continue;
    if (all->n == MOST_SAVED)
      return tc_error(TC_STATUS_UNIMPLEMENTED, "a kernel that is tuned writes too many buffers");
    saved *s = &all->one[all->n];
    *s = (saved){.buf = a->buf};
    TC_TRY(bytes_of(r, a->buf, &s->bytes));
    TC_TRY(tc_pool_take(r->e->d->memory, s->bytes > 0 ? s->bytes : 1, &s->copy));
    all->n++;
    TC_TRY(copy(r, s, false));
  }
  return TC_OK;
}

static tc_status restore(run_state *r, const saved_all *all) {
  for (int32_t i = 0; i < all->n; i++) TC_TRY(copy(r, &all->one[i], true));
  return TC_OK;
}

// ---- timing ----
static tc_status time_once(run_state *r, exec_op *x, int32_t i, double *best) {
  int64_t blocks;
  TC_TRY(exec_synchronize(r->e->d));
  double start = tc_now_ms();
  TC_TRY(exec_launch_one(r, x, &x->launches[i], &blocks));
  TC_TRY(exec_synchronize(r->e->d));
  double ms = tc_now_ms() - start;
  if (ms < *best) *best = ms;
  return TC_OK;
}

static void log_time(const tc_exec *e, const exec_op *x, const int64_t *key, int32_t i, double ms, const char *why) {
  if (!tc_log_on(e->d->logger, TC_LOG_AUTOTUNING)) return;
  char values[200] = "";
  size_t at = 0;
  for (int32_t k = 0; k < x->op->n_key && k < MOST_KEY && at + 24 < sizeof values; k++)
    at += (size_t)snprintf(values + at, sizeof values - at, "%s%lld", k ? ", " : "", (long long)key[k]);
  tc_log(e->d->logger, TC_LOG_AUTOTUNING, "@" TC_SV_FMT " (%s): kernel %d: %.3f us%s", TC_SV_ARG(x->op->name), values,
         (int)i, ms * 1e3, why);
}

// The fastest of the candidates; the error of the first if all fail. What is written is as it was afterwards.
static tc_status fastest(run_state *r, exec_op *x, const int64_t *key, const saved_all *all, int32_t *out) {
  double least = 1e300;
  tc_status failed = TC_OK;
  *out = -1;
  for (int32_t i = 0; i < x->n_launches - 1; i++) {
    if (!is_candidate(r, x, i)) continue;
    double best = 1e300, warm = 1e300;
    tc_status s = time_once(r, x, i, &warm);
    for (int32_t k = 0; k < ROUNDS && s == TC_OK; k++) s = time_once(r, x, i, &best);
    log_time(r->e, x, key, i, s == TC_OK ? best : 0, s == TC_OK ? "" : ", failed");
    if (s != TC_OK && failed == TC_OK) failed = s;
    else tc_status_free(s);
    if (best < least && s == TC_OK) least = best, *out = i;
    s = restore(r, all);
    if (s != TC_OK) {
      tc_status_free(failed);
      return s;
    }
  }
  if (*out < 0) return failed;
  tc_status_free(failed);
  log_time(r->e, x, key, *out, least, ", taken");
  return TC_OK;
}

// ---- the cache on disk ----
typedef struct lookup {
  tc_arena *arena;
  tc_exec *e;
  const exec_op *x;
  const int64_t *key;
  int32_t choice; // to put; -1: to find
} lookup;

static tc_status look_up(void *arg) {
  lookup *q = arg;
  tc_device *d = q->e->d;
  tc_sb sb = tc_sb_make(q->arena);
  tc_sb_printf(&sb, "tuned %s %s\n", d->props.name, d->props.target);
  for (int32_t i = 0; i < q->x->n_launches - 1; i++)
    tc_sb_printf(&sb, "%016llx%016llx ", (unsigned long long)q->e->kernels[q->x->launches[i].number]->key.hi,
                 (unsigned long long)q->e->kernels[q->x->launches[i].number]->key.lo);
  for (int32_t i = 0; i <= MOST_KEY; i++) tc_sb_printf(&sb, "%lld ", (long long)q->key[i]);
  tc_hash128 key = tc_hash_long(sb.text, sb.size);
  tc_sv text;
  if (q->choice >= 0) {
    tc_cache_put(d->cache, key, tc_sv_printf(q->arena, "%d", (int)q->choice));
  } else if (tc_cache_get(d->cache, q->arena, key, &text)) {
    int32_t choice = (int32_t)strtol(tc_sv_z(q->arena, text), NULL, 10);
    bool was = choice >= 0 && choice < q->x->n_launches - 1 && (q->key[MOST_KEY] >> choice & 1);
    if (was) q->choice = choice;
  }
  return TC_OK;
}

// The cache saves time, nothing else: what goes wrong with it does not stop a run.
static int32_t on_disk(tc_exec *e, const exec_op *x, const int64_t *key, int32_t choice) {
  lookup q = {.e = e, .x = x, .key = key, .choice = choice};
  if (!e->d->cache) return choice;
  tc_status s = tc_arena_create(e->d->allocator, &q.arena);
  if (s == TC_OK) s = tc_arena_guard(q.arena, look_up, &q);
  tc_status_free(s);
  tc_arena_destroy(q.arena);
  return q.choice;
}

static tc_status time_all(run_state *r, exec_op *x, const int64_t *key, int32_t *out) {
  saved_all all = {.n = 0};
  tc_status s = save(r, x, &all);
  if (s == TC_OK) s = fastest(r, x, key, &all, out);
  for (int32_t i = 0; i < all.n; i++) tc_pool_give(all.one[i].copy);
  return s;
}

tc_status exec_tune(run_state *r, exec_op *x, const exec_launch **out) {
  tc_exec *e = r->e;
  int64_t key[MOST_KEY + 1];
  TC_TRY(find_key(r, x, key));
  uint64_t among = (uint64_t)key[MOST_KEY];
  *out = &x->launches[x->n_launches - 1];
  if (among == 0)
    return tc_error(TC_STATUS_INTERNAL, "no kernel of @" TC_SV_FMT " is for these sizes", TC_SV_ARG(x->op->name));
  int32_t choice = decided(e, x, key);
  if (choice < 0 && ((among & (among - 1)) == 0 || r->recorder)) {
    choice = __builtin_ctzll(among);
  } else if (choice < 0) {
    choice = on_disk(e, x, key, -1);
    bool fresh = choice < 0;
    if (fresh) TC_TRY(time_all(r, x, key, &choice), "while timing the kernels of @" TC_SV_FMT, TC_SV_ARG(x->op->name));
    if (fresh) on_disk(e, x, key, choice);
    TC_TRY(decide(e, x, key, choice));
  }
  *out = &x->launches[choice];
  return TC_OK;
}
