// Recorded runs: a plan's launches as device graphs, one launch instead of many.
//
// A recording holds for one set of symbol values and for the addresses that it was made with. Its first run is an
// ordinary one, so that sizes seen once cost nothing; the second one records. An instance is a recording with the
// memory that it names: outputs and copies of its own, and an arena. What a run gives to its caller is the instance's
// memory; while the caller holds it the instance rests, and another one is recorded, up to a bound; beyond it runs are
// ordinary ones. An instance serves one run at a time.
//
// Inputs that lie where they lay are used there: weights and what a caller keeps. An input on the device that keeps
// moving gets a place of its own in later recordings, and is copied there; what kernels change in place is never moved.
//
// Calls that a library does not let record, and control flow that needs the host, stay between the graphs; the others
// share one arena per device, since nothing else can run between the launches of one graph.
#include <inttypes.h>
#include <string.h>

#include "core/runtime/exec_internal.h"

enum {
  MOST_PER_KEY = 4,  // instances for the same symbols
  MOST_RECYCLED = 8, // instances of a key that are given up because inputs moved
  MOST_FAILURES = 3, // recordings that failed; behind them none are tried
  ARENA_ALIGN = 256
};

// Operations [first, end): a graph, or, where there is none, one operation that is done by the host.
typedef struct piece {
  int32_t first, end;
  tc_handle graph;
} piece;

struct exec_instance {
  exec_instance *next;
  bool busy, recorded;
  // By buffer.
  int32_t *kinds; // EXEC_PLACE_*
  exec_address *address;
  tc_storage **storage;
  tc_pool_block **copies;
  tc_pool_block **error_blocks; // by number
  exec_prepared **held;         // by operation: calls that graphs contain
  tc_handle *kept;              // by number: what they had made of constants
  tc_scratch *scratch;          // or:
  tc_pool_block *arena;
  tc_handle memory; // of the arena
  int64_t workspace_at;
  int32_t n_pieces;
  piece *pieces;
};

typedef struct key {
  struct key *next;
  uint64_t stamp;
  exec_instance *instances;
  int32_t n, recycled;
  int64_t *symbols;
  uint8_t *moving; // by buffer
} key;

struct exec_replays {
  int32_t most;
  pthread_mutex_t lock;
  // Under the lock:
  key *keys;
  int32_t n_keys, n_instances, failures;
  uint64_t clock;
};

// ---- Creation, end ----
tc_status tc_exec_set_replays(tc_exec *e, int32_t most) {
  if (most <= 0 || e->replays || !tc_device_has_graphs(e->d)) return TC_OK;
  exec_replays *p = tc_alloc(e->d->allocator, sizeof *p);
  if (!p) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for recordings");
  *p = (exec_replays){.most = most};
  pthread_mutex_init(&p->lock, NULL);
  e->replays = p;
  return TC_OK;
}

// The device is done with it, and nobody runs it.
static void free_instance(tc_exec *e, exec_instance *x) {
  tc_device *d = e->d;
  for (int32_t i = 0; i < x->n_pieces; i++)
    if (x->pieces[i].graph) d->plugin->device->graph_destroy(d->handle, x->pieces[i].graph);
  for (int32_t i = 0; i < e->plan->bufs.count; i++) {
    tc_storage_unref(x->storage[i]);
    tc_pool_give(x->copies[i]);
  }
  for (int32_t i = 0; i < e->n_errors; i++) tc_pool_give(x->error_blocks[i]);
  for (int32_t i = 0; i < e->plan->ops.count; i++)
    if (x->held[i]) exec_call_drop(&e->ops[i], x->held[i]);
  tc_device_scratch_drop(d, x->scratch);
  tc_pool_give(x->arena);
  tc_free(d->allocator, x);
}

static void free_key(tc_exec *e, key *k) {
  if (k->instances) tc_status_free(exec_synchronize(e->d));
  for (exec_instance *x = k->instances, *next; x; x = next) {
    next = x->next;
    e->replays->n_instances--;
    free_instance(e, x);
  }
  e->replays->n_keys--;
  tc_free(e->d->allocator, k);
}

void exec_replay_destroy(tc_exec *e) {
  exec_replays *p = e->replays;
  if (!p) return;
  for (key *k = p->keys, *next; k; k = next) {
    next = k->next;
    free_key(e, k);
  }
  pthread_mutex_destroy(&p->lock);
  tc_free(e->d->allocator, p);
}

static exec_instance *make_instance(tc_exec *e) {
  size_t n = (size_t)e->plan->bufs.count, ops = (size_t)e->plan->ops.count, errors = (size_t)e->n_errors,
         kept = (size_t)e->n_kept;
  exec_instance *x =
      tc_alloc(e->d->allocator, sizeof *x + n * (sizeof *x->address + sizeof *x->storage + sizeof *x->copies) +
                                    errors * sizeof *x->error_blocks + ops * sizeof *x->held +
                                    (ops + 1) * sizeof *x->pieces + kept * sizeof *x->kept + n * sizeof *x->kinds);
  if (!x) return NULL;
  *x = (exec_instance){.busy = true};
  x->address = (exec_address *)(void *)(x + 1);
  x->storage = (tc_storage **)(void *)(x->address + n);
  x->copies = (tc_pool_block **)(void *)(x->storage + n);
  x->error_blocks = x->copies + n;
  x->held = (exec_prepared **)(void *)(x->error_blocks + errors);
  x->pieces = (piece *)(void *)(x->held + ops);
  x->kept = (tc_handle *)(void *)(x->pieces + ops + 1);
  x->kinds = (int32_t *)(void *)(x->kept + kept);
  return x;
}

// ---- Choosing, under the lock ----
static key *find_key(exec_replays *p, const int64_t *symbols, size_t n) {
  key *k = p->keys;
  while (k && n && memcmp(k->symbols, symbols, n * sizeof *symbols) != 0) k = k->next;
  return k;
}

static bool is_idle(const key *k) {
  for (const exec_instance *x = k->instances; x; x = x->next)
    if (x->busy) return false;
  return true;
}

// Drops the key that was not used for longest, other than `keep`. False: all are in use.
static bool evict(tc_exec *e, const key *keep) {
  key **oldest = NULL;
  for (key **at = &e->replays->keys; *at; at = &(*at)->next)
    if (*at != keep && is_idle(*at) && (!oldest || (*at)->stamp < (*oldest)->stamp)) oldest = at;
  if (!oldest) return false;
  key *k = *oldest;
  *oldest = k->next;
  free_key(e, k);
  return true;
}

static void add_key(tc_exec *e, const int64_t *symbols) {
  exec_replays *p = e->replays;
  if (p->n_keys >= p->most && !evict(e, NULL)) return;
  size_t n = (size_t)e->n_symbols, bufs = (size_t)e->plan->bufs.count;
  key *k = tc_alloc(e->d->allocator, sizeof *k + n * sizeof *symbols + bufs + 1);
  if (!k) return; // then the run is an ordinary one
  *k = (key){.next = p->keys, .stamp = ++p->clock};
  k->symbols = (int64_t *)(void *)(k + 1);
  k->moving = (uint8_t *)(k->symbols + n);
  if (n) memcpy(k->symbols, symbols, n * sizeof *symbols);
  memset(k->moving, 0, bufs);
  p->keys = k;
  p->n_keys++;
}

// Nobody but the instance holds its memory.
static bool is_free(const tc_exec *e, const exec_instance *x) {
  int32_t n = e->plan->bufs.count;
  for (int32_t i = 0; i < n; i++) {
    int32_t own = 0;
    if (!x->storage[i]) continue;
    for (int32_t k = 0; k < n; k++) own += x->storage[k] == x->storage[i];
    if (__atomic_load_n(&x->storage[i]->refs, __ATOMIC_ACQUIRE) != own) return false;
  }
  return true;
}

// Does a buffer lie where it lay? An input of another place that may be copied is no obstacle.
static bool fits_buffer(const tc_exec *e, const exec_instance *x, int32_t i, const exec_place *p) {
  bool same = x->address[i].memory == p->address.memory && x->address[i].offset == p->address.offset;
  if (x->kinds[i] == EXEC_PLACE_COPIED)
    return p->kind == EXEC_PLACE_COPIED || (p->kind == EXEC_PLACE_THERE && !e->bufs[i].written);
  if (x->kinds[i] != p->kind) return false;
  return p->kind == EXEC_PLACE_CHANGED || same;
}

static tc_handle kept_of(const run_state *r, int32_t k) {
  const tc_storage *s = r->frozen->storage[r->e->n_frozen + k];
  return s ? (tc_handle)(uintptr_t)s->data : 0;
}

enum { FITS_NOT, FITS_BY_COPIES, FITS };
static int32_t fits(run_state *r, const exec_instance *x, key *k, bool mark) {
  tc_exec *e = r->e;
  int32_t result = FITS;
  for (int32_t k = 0; k < e->n_kept; k++)
    if (x->kept[k] != kept_of(r, k)) return FITS_NOT; // made of other constants
  for (int32_t i = 0; i < e->plan->bufs.count; i++) {
    exec_place p;
    if (e->plan->bufs.data[i].kind == TC_PLAN_FROZEN && x->address[i].memory != exec_frozen_address(r, i).memory)
      return FITS_NOT; // the graph reads what was made of other constants
    if (e->plan->bufs.data[i].kind != TC_PLAN_INPUT || !e->bufs[i].often) continue;
    tc_status s = exec_find_place(r, i, &p);
    if (s != TC_OK) { // the run itself will say so
      tc_status_free(s);
      return FITS_NOT;
    }
    if (fits_buffer(e, x, i, &p)) {
      if (x->kinds[i] == EXEC_PLACE_COPIED && p.kind == EXEC_PLACE_THERE && result == FITS) result = FITS_BY_COPIES;
      continue;
    }
    if (mark && p.kind == EXEC_PLACE_THERE && !e->bufs[i].written) k->moving[i] = 1;
    result = FITS_NOT;
  }
  return result;
}

static exec_instance *add_instance(tc_exec *e, key *k) {
  exec_replays *p = e->replays;
  if (p->n_instances >= p->most && !evict(e, k)) return NULL;
  if (p->n_instances >= p->most) return NULL;
  exec_instance *x = make_instance(e);
  if (!x) return NULL;
  x->next = k->instances;
  k->instances = x;
  k->n++, p->n_instances++;
  return x;
}

static void remove_instance(tc_exec *e, const exec_instance *x) {
  for (key *k = e->replays->keys; k; k = k->next) {
    for (exec_instance **at = &k->instances; *at; at = &(*at)->next) {
      if (*at != x) continue;
      *at = x->next;
      k->n--, e->replays->n_instances--;
      return;
    }
  }
}

static exec_instance *choose(run_state *r) {
  tc_exec *e = r->e;
  key *k = find_key(e->replays, r->symbols, (size_t)e->n_symbols);
  if (!k) {
    add_key(e, r->symbols);
    return NULL;
  }
  k->stamp = ++e->replays->clock;
  exec_instance *best = NULL, *misfit = NULL;
  int32_t how = FITS_NOT;
  for (exec_instance *x = k->instances; x && how != FITS; x = x->next) {
    if (x->busy || !is_free(e, x)) continue;
    int32_t f = fits(r, x, k, false);
    if (f > how) best = x, how = f;
    if (f == FITS_NOT) misfit = x;
  }
  if (!best && k->n >= MOST_PER_KEY && misfit && k->recycled < MOST_RECYCLED) {
    k->recycled++;
    fits(r, misfit, k, true);
    remove_instance(e, misfit);
    tc_status_free(exec_synchronize(e->d));
    free_instance(e, misfit);
  }
  if (!best && k->n < MOST_PER_KEY) {
    best = add_instance(e, k);
    for (int32_t i = 0; best && i < e->plan->bufs.count; i++)
      best->kinds[i] = k->moving[i] ? EXEC_PLACE_COPIED : EXEC_PLACE_NONE;
  }
  if (best) best->busy = true;
  return best;
}

bool exec_replay_take(run_state *r) {
  exec_replays *p = r->e->replays;
  pthread_mutex_lock(&p->lock);
  exec_instance *x = p->failures < MOST_FAILURES ? choose(r) : NULL;
  pthread_mutex_unlock(&p->lock);
  r->instance = x;
  return x != NULL;
}

void exec_replay_release(run_state *r) {
  exec_replays *p = r->e->replays;
  pthread_mutex_lock(&p->lock);
  r->instance->busy = false;
  pthread_mutex_unlock(&p->lock);
  r->instance = NULL;
}

void exec_replay_drop(run_state *r, tc_status why) {
  tc_exec *e = r->e;
  exec_instance *x = r->instance;
  tc_log(e->d->logger, TC_LOG_DEVICE_GRAPHS, "a run is not recorded: %s", tc_status_text(why));
  tc_status_free(why);
  pthread_mutex_lock(&e->replays->lock);
  remove_instance(e, x);
  e->replays->failures++;
  pthread_mutex_unlock(&e->replays->lock);
  tc_status_free(exec_synchronize(e->d)); // copies into its memory may be under way
  free_instance(e, x);
  r->instance = NULL;
}

// ---- Recording ----
static bool can_record(const run_state *r, const exec_op *x) {
  if (x->control) return exec_control_can_record(r, x);
  return x->op->kind == TC_PLAN_LAUNCH || (x->op->kind == TC_PLAN_CALL && x->call->table->capture_safe);
}

static int64_t align(int64_t n) { return (n + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN; }

tc_status exec_replay_begin(run_state *r, int64_t arena) {
  tc_exec *e = r->e;
  exec_instance *x = r->instance;
  int64_t workspace = 0;
  bool whole = true;
  if (!x->recorded) {
    for (int32_t i = e->n_once; i < e->plan->ops.count; i++) {
      whole &= can_record(r, &e->ops[i]);
      if (e->plan->ops.data[i].kind != TC_PLAN_CALL || !can_record(r, &e->ops[i])) continue;
      int64_t bytes;
      TC_TRY(exec_call_hold(r, &e->ops[i], &x->held[i], &bytes));
      workspace = bytes > workspace ? bytes : workspace;
    }
    x->workspace_at = align(arena);
    int64_t bytes = x->workspace_at + workspace;
    if (whole) {
      TC_TRY(tc_device_scratch(e->d, bytes ? bytes : 1, &x->scratch));
      x->memory = x->scratch->block->memory;
    } else {
      TC_TRY(tc_pool_take(e->d->memory, bytes ? bytes : 1, &x->arena));
      x->memory = x->arena->memory;
    }
    for (int32_t i = 1; i < e->n_errors; i++)
      TC_TRY(tc_pool_take(e->d->memory, sizeof(tc_error_block), &x->error_blocks[i]));
  }
  r->arena_memory = x->memory;
  r->error_blocks = x->error_blocks;
  r->host_errors = (tc_error_block){.site = -1};
  return TC_OK;
}

exec_prepared *exec_replay_held(const run_state *r, const exec_op *x, tc_handle *memory, int64_t *offset) {
  *memory = r->instance->memory, *offset = r->instance->workspace_at;
  return r->instance->held[x - r->e->ops];
}

int32_t *exec_replay_kind(const run_state *r, int32_t buf) { return &r->instance->kinds[buf]; }
tc_storage **exec_replay_storage(const run_state *r, int32_t buf) { return &r->instance->storage[buf]; }
tc_pool_block **exec_replay_copy(const run_state *r, int32_t buf) { return &r->instance->copies[buf]; }

// The operations from `first` on that one graph can hold. In front of the first graph's, the error blocks are cleared.
static tc_status record_graph(run_state *r, int32_t first, int32_t end, tc_handle *out) {
  tc_exec *e = r->e;
  tc_device *d = e->d;
  const tc_device_table *t = d->plugin->device;
  TC_TRY(tc_plugin_status(d->plugin, t->graph_begin(d->handle, &r->recorder), "while beginning to record"));
  tc_status s = first == e->n_once ? exec_clear_errors(r) : TC_OK;
  for (int32_t i = first; i < end && s == TC_OK; i++) s = exec_run_op(r, &e->ops[i], &(int64_t){0});
  int32_t rc = t->graph_end(d->handle, r->recorder, s == TC_OK ? out : NULL);
  r->recorder = 0;
  return s == TC_OK ? tc_plugin_status(d->plugin, rc, "while ending a recording") : s;
}

static tc_status record(run_state *r) {
  tc_exec *e = r->e;
  exec_instance *x = r->instance;
  int32_t n = e->plan->ops.count, at = e->n_once;
  while (at < n || x->n_pieces == 0) {
    int32_t end = at;
    while (end < n && can_record(r, &e->ops[end])) end++;
    piece *p = &x->pieces[x->n_pieces];
    if (end > at || at == e->n_once) {
      *p = (piece){.first = at, .end = end};
      TC_TRY(record_graph(r, at, end, &p->graph));
      x->n_pieces++;
    }
    if (end < n) {
      tc_log(e->d->logger, TC_LOG_PERF_HINTS, "@" TC_SV_FMT " cannot be part of a device graph: %s",
             TC_SV_ARG(e->plan->ops.data[end].name),
             e->ops[end].control ? "the host takes part in what it does" : "the library does not let it be recorded");
      x->pieces[x->n_pieces++] = (piece){.first = end, .end = end + 1};
      end++;
    }
    at = end;
  }
  tc_log(e->d->logger, TC_LOG_DEVICE_GRAPHS, "recorded %d operations as %d pieces", n - e->n_once, x->n_pieces);
  return TC_OK;
}

tc_status exec_replay_ready(run_state *r) {
  tc_exec *e = r->e;
  exec_instance *x = r->instance;
  size_t bytes = (size_t)e->plan->bufs.count * sizeof *r->address;
  if (x->recorded) {
    for (int32_t i = 0; i < e->plan->bufs.count; i++) {
      if (r->address[i].memory != x->address[i].memory || r->address[i].offset != x->address[i].offset)
        return tc_error(TC_STATUS_DEVICE, "an input moved while the run began");
    }
    return TC_OK;
  }
  if (bytes) memcpy(x->address, r->address, bytes);
  for (int32_t k = 0; k < e->n_kept; k++) x->kept[k] = kept_of(r, k);
  TC_TRY(record(r));
  x->recorded = true;
  return TC_OK;
}

tc_status exec_replay_run(run_state *r) {
  tc_exec *e = r->e;
  tc_device *d = e->d;
  const exec_instance *x = r->instance;
  for (int32_t i = 0; i < x->n_pieces; i++) {
    const piece *p = &x->pieces[i];
    if (p->graph)
      TC_TRY(tc_plugin_status(d->plugin, d->plugin->device->graph_launch(d->handle, d->stream, p->graph),
                              "while launching a device graph"));
    else TC_TRY(exec_run_op(r, &e->ops[p->first], &(int64_t){0}));
  }
  return TC_OK;
}
