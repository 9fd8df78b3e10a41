// The memory of a run's internal buffers, and of its results.
//
// The arena is in parts, each taken in front of the first operation that uses it and given back behind the last one
// (core/plan/rooms.c), and results are taken when something is first written into them, so that no more is there at
// once than is needed. What is done once, and devices that queue work have the arena as one block, in which buffers lie
// where the plan says. A device may not give so much at once
// (tc_device_props.largest_alloc): then they are laid out anew, for the sizes of this run, in as many blocks as it
// takes. Recorded runs keep all their memory.
//
// The workspace of a library call lies in the arena, too, where there is room beside what lives then.
#include "core/runtime/exec_internal.h"

struct exec_blocks {
  tc_arena *arena; // of what follows
  const run_state *r;
  tc_plan_blocks where;
  tc_pool_block **memory; // by block
};

static tc_status take_blocks(void *self) {
  exec_blocks *x = self;
  const tc_device *d = x->r->e->d;
  TC_TRY(tc_plan_blocks_of(x->r->e->plan, x->arena, x->r->symbols, d->props.largest_alloc, &x->where));
  x->memory = TC_NEW_ARRAY(x->arena, tc_pool_block *, x->where.n);
  for (int32_t i = 0; i < x->where.n; i++) TC_TRY(tc_pool_take(d->memory, x->where.bytes[i], &x->memory[i]));
  tc_log(d->logger, TC_LOG_PERF_HINTS, "an arena is more than the device gives at once: it lies in %d blocks",
         x->where.n);
  return TC_OK;
}

static tc_status take_apart(run_state *r) {
  exec_blocks *x = tc_alloc(r->e->d->allocator, sizeof *x);
  if (!x) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a run");
  *x = (exec_blocks){.r = r};
  r->blocks = x;
  TC_TRY(tc_arena_create(r->e->d->allocator, &x->arena));
  return tc_arena_guard(x->arena, take_blocks, x);
}

tc_status exec_arena_take(run_state *r, int64_t bytes) {
  const tc_device *d = r->e->d;
  const int64_t largest = d->props.largest_alloc;
  tc_status s = largest > 0 && bytes > largest ? take_apart(r) : tc_pool_take(d->memory, bytes + !bytes, &r->arena);
  if (s == TC_OK && r->arena) r->arena_memory = r->arena->memory;
  return tc_status_note(s, "while allocating an arena of %lld bytes", (long long)bytes);
}

tc_status exec_arena_address(const run_state *r, int32_t buf, exec_address *out) {
  const exec_blocks *x = r->blocks;
  if (x) {
    *out = (exec_address){x->memory[x->where.block[buf]]->memory, x->where.at[buf]};
    return TC_OK;
  }
  *out = (exec_address){.memory = r->arena_memory};
  return exec_number_of(r, &r->e->bufs[buf].place, &out->offset);
}

void exec_arena_give(run_state *r) {
  exec_blocks *x = r->blocks;
  tc_pool_give(r->arena);
  r->arena = NULL, r->blocks = NULL;
  if (!x) return;
  for (int32_t i = 0; x->memory && i < x->where.n; i++) tc_pool_give(x->memory[i]);
  tc_arena_destroy(x->arena);
  tc_free(r->e->d->allocator, x);
}

// ---- In parts ----
void exec_rooms_prepare(tc_exec *e) {
  e->rooms = tc_plan_rooms_of(e->plan, e->arena);
  e->given = TC_NEW_ARRAY(e->arena, int32_t, e->rooms.n);
  for (int32_t i = 0; i < e->rooms.n; i++) {
    const tc_plan_room *p = &e->rooms.rooms[i];
    if (p->output >= 0) {
      e->bufs[p->output].late = true;
      continue;
    }
    int32_t k = e->n_given++;
    for (; k > 0 && e->rooms.rooms[e->given[k - 1]].last > p->last; k--) e->given[k] = e->given[k - 1];
    e->given[k] = i;
  }
  e->gaps = TC_NEW_ARRAY(e->arena, tc_plan_gap, e->plan->ops.count);
  tc_plan_gaps_of(e->plan, &e->rooms, e->arena, e->gaps);
}

// Where work is queued, memory that is given back in the middle of a run could go to another run's work beside it.
bool exec_rooms_are_late(const run_state *r, int64_t arena_bytes) {
  const tc_device_props *d = &r->e->d->props;
  return d->host_memory && !r->once && r->e->rooms.n > 0 && !(d->largest_alloc > 0 && arena_bytes > d->largest_alloc);
}

// Of a part whose size is the run's.
static tc_status largest_in(const run_state *r, const tc_plan_room *p, int64_t *out) {
  *out = 0;
  for (int32_t i = 0; i < p->n; i++) {
    int64_t bytes;
    TC_TRY(exec_number_of(r, &r->e->bufs[p->bufs[i]].bytes, &bytes));
    if (bytes > *out) *out = bytes;
  }
  return TC_OK;
}

static tc_status take_room(run_state *r, const tc_plan_room *p) {
  exec_address base = {0};
  int64_t bytes = p->bytes;
  if (p->output >= 0) {
    TC_TRY(exec_take_output(r, p->output));
    base = r->address[p->output];
  } else {
    tc_pool_block **block = &r->copies[p->bufs[0]];
    if (p->place) TC_TRY(largest_in(r, p, &bytes));
    TC_TRY(tc_pool_take(r->e->d->memory, bytes, block), "while allocating %lld bytes of an arena", (long long)bytes);
    base = (exec_address){(*block)->memory, -p->at};
  }
  for (int32_t i = 0; i < p->n; i++) {
    int64_t at = p->place ? 0 : r->e->bufs[p->bufs[i]].place.value;
    r->address[p->bufs[i]] = (exec_address){base.memory, base.offset + at};
  }
  return TC_OK;
}

tc_status exec_rooms_take(run_state *r, int32_t op) {
  const tc_plan_rooms *v = &r->e->rooms;
  for (; r->next_room < v->n && v->rooms[r->next_room].first <= op; r->next_room++)
    TC_TRY(take_room(r, &v->rooms[r->next_room]));
  return TC_OK;
}

void exec_rooms_give(run_state *r, int32_t op) {
  const tc_plan_rooms *v = &r->e->rooms;
  for (; r->next_given < r->e->n_given; r->next_given++) {
    const tc_plan_room *p = &v->rooms[r->e->given[r->next_given]];
    if (p->last > op) return;
    tc_pool_give(r->copies[p->bufs[0]]);
    r->copies[p->bufs[0]] = NULL;
  }
}

bool exec_rooms_spare(const run_state *r, const exec_op *x, int64_t bytes, exec_address *out) {
  const tc_plan_gap *g = &r->e->gaps[x - r->e->ops];
  if (!r->late || g->bytes < bytes) return false;
  const tc_plan_room *p = &r->e->rooms.rooms[g->room];
  *out = (exec_address){r->copies[p->bufs[0]]->memory, g->at};
  return true;
}
