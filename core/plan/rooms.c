// When a run needs which memory: outputs from the op that first writes into them (or into a buffer that lies in them),
// and the arena in parts, each from the first op that uses it through the last.
//
// Buffers that overlap in the arena, at whatever times, are in one part, so that a part is a range of the arena that no
// buffer leaves. Neighbouring parts become one where the most that is there at once stays the same: few blocks are
// taken then. What is done once is left out: it has the whole arena to itself, before.
//
// Buffers whose sizes are symbols are a part where they lie at one place, which they take one after the other: as many
// bytes as the largest of them has in a run. Where a buffer of the arena is empty whatever the sizes, the arena is
// whole, and there from the beginning.
#include <stdlib.h>
#include <string.h>

#include "core/plan/plan_internal.h"

static int by_place(const void *a, const void *b) {
  const plan_span *x = a, *y = b;
  return x->at != y->at ? (x->at < y->at ? -1 : 1) : (x->buf > y->buf) - (x->buf < y->buf);
}

static int32_t lesser(int32_t a, int32_t b) { return a < b ? a : b; }
static int32_t greater(int32_t a, int32_t b) { return a > b ? a : b; }

static plan_span joined(const plan_span *a, const plan_span *b) {
  int64_t end = a->at + a->bytes > b->at + b->bytes ? a->at + a->bytes : b->at + b->bytes;
  return (plan_span){.buf = -1,
                     .at = a->at,
                     .bytes = end - a->at,
                     .first = lesser(a->first, b->first),
                     .last = greater(a->last, b->last)};
}

// Of spans that do not overlap, and of outputs.
static int64_t most_at_once(int64_t *alive, int32_t n_ops, int32_t n, const plan_span *spans, int32_t n_outputs,
                            const plan_span *outputs) {
  int64_t most = 0, sum = 0;
  memset(alive, 0, sizeof *alive * (size_t)(n_ops + 1)); // changes
  for (int32_t i = 0; i < n + n_outputs; i++) {
    const plan_span *s = i < n ? &spans[i] : &outputs[i - n];
    alive[s->first] += s->bytes, alive[s->last + 1] -= s->bytes;
  }
  for (int32_t i = 0; i < n_ops; i++) {
    sum += alive[i];
    if (sum > most) most = sum;
  }
  return most;
}

static void add(int64_t *alive, const plan_span *s, int64_t sign) {
  for (int32_t i = s->first; i <= s->last; i++) alive[i] += sign * s->bytes;
}

static int64_t most_of(const int64_t *alive, int32_t n) {
  int64_t most = 0;
  for (int32_t i = 0; i < n; i++)
    if (alive[i] > most) most = alive[i];
  return most;
}

// What overlaps is one; `spans`, sorted by place, become the parts.
static int32_t join_overlapping(plan_span *spans, int32_t n) {
  int32_t m = 0;
  for (int32_t i = 0; i < n; i++) {
    if (m && spans[i].at < spans[m - 1].at + spans[m - 1].bytes) spans[m - 1] = joined(&spans[m - 1], &spans[i]);
    else spans[m++] = spans[i];
  }
  return m;
}

static int32_t join_neighbours(plan_span *parts, int32_t n, int64_t *alive, int32_t n_ops, int64_t most) {
  int32_t m = 0;
  for (int32_t i = 0; i < n; i++) {
    if (!m) {
      parts[m++] = parts[i];
      continue;
    }
    plan_span both = joined(&parts[m - 1], &parts[i]);
    add(alive, &parts[m - 1], -1), add(alive, &parts[i], -1), add(alive, &both, 1);
    if (most_of(alive, n_ops) <= most) {
      parts[m - 1] = both;
    } else {
      add(alive, &both, -1), add(alive, &parts[m - 1], 1), add(alive, &parts[i], 1);
      parts[m++] = parts[i];
    }
  }
  return m;
}

int64_t plan_span_parts(int64_t *scratch, int32_t n_ops, int32_t n_outputs, const plan_span *outputs, plan_span *spans,
                        int32_t *n) {
  if (*n) qsort(spans, (size_t)*n, sizeof *spans, by_place);
  *n = join_overlapping(spans, *n);
  return most_at_once(scratch, n_ops, *n, spans, n_outputs, outputs);
}

static bool is_in_runs(const tc_plan *p, const tc_plan_buf *b) {
  return b->first <= b->last && b->last < p->ops.count && !p->ops.data[b->last].once;
}

static bool is_known(const tc_plan_buf *b) { return tc_sym_is_const(b->bytes) && tc_sym_is_const(b->place); }

static bool lies_in(const tc_plan_buf *b, const tc_plan_room *part) {
  if (part->place || !is_known(b)) return part->place == b->place && !is_known(b);
  return b->place->value >= part->at && b->place->value < part->at + part->bytes;
}

static void list_bufs(const tc_plan *p, tc_arena *arena, tc_plan_room *part) {
  int32_t *bufs = TC_NEW_ARRAY(arena, int32_t, p->bufs.count);
  for (int32_t i = 0; i < p->bufs.count; i++) {
    const tc_plan_buf *b = &p->bufs.data[i];
    if (b->kind != TC_PLAN_ARENA || !is_in_runs(p, b)) continue;
    bool within = part->output >= 0 ? b->host == part->output + 1 : !b->host && lies_in(b, part);
    if (within) bufs[part->n++] = i;
  }
  part->bufs = bufs;
}

// An output that something is written into, or that holds buffers which are.
static bool find_first(const tc_plan *p, int32_t output, int32_t *out) {
  const tc_plan_buf *o = &p->bufs.data[output];
  if (o->first > o->last || o->first >= p->ops.count) return false;
  *out = o->first;
  for (int32_t i = 0; i < p->bufs.count; i++) {
    const tc_plan_buf *b = &p->bufs.data[i];
    if (b->kind == TC_PLAN_ARENA && b->host == output + 1 && b->first < *out) *out = b->first;
  }
  return true;
}

static int32_t find_outputs(const tc_plan *p, plan_span *out) {
  int32_t n = 0;
  for (int32_t i = 0; i < p->bufs.count; i++) {
    const tc_plan_buf *b = &p->bufs.data[i];
    plan_span s = {.buf = i, .last = p->ops.count - 1};
    if (b->kind != TC_PLAN_OUTPUT || !find_first(p, i, &s.first)) continue;
    s.bytes = tc_sym_is_const(b->bytes) ? b->bytes->value : 0;
    out[n++] = s;
  }
  return n;
}

// The arena's buffers of constant size; -1 if there are some that are empty.
static int32_t find_spans(const tc_plan *p, plan_span *out) {
  int32_t n = 0;
  for (int32_t i = 0; i < p->bufs.count; i++) {
    const tc_plan_buf *b = &p->bufs.data[i];
    if (b->kind != TC_PLAN_ARENA || b->host || !is_in_runs(p, b)) continue;
    if (!is_known(b)) continue;
    if (b->bytes->value == 0) return -1;
    out[n++] = (plan_span){i, b->place->value, b->bytes->value, b->first, b->last};
  }
  return n;
}

// Those whose sizes are symbols, a part for each place.
static int32_t find_slots(const tc_plan *p, tc_plan_room *out) {
  int32_t n = 0;
  for (int32_t i = 0; i < p->bufs.count; i++) {
    const tc_plan_buf *b = &p->bufs.data[i];
    if (b->kind != TC_PLAN_ARENA || b->host || !is_in_runs(p, b) || is_known(b)) continue;
    int32_t k = 0;
    while (k < n && out[k].place != b->place) k++;
    if (k == n) out[n++] = (tc_plan_room){.output = -1, .place = b->place, .first = b->first, .last = b->last};
    out[k].first = lesser(out[k].first, b->first), out[k].last = greater(out[k].last, b->last);
  }
  return n;
}

static int64_t align(int64_t at) { return (at + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN; }

// `used` has room for all buffers and one more.
static void widen(const tc_plan *p, const tc_plan_rooms *rooms, int32_t room, int32_t op, plan_span *used,
                  tc_plan_gap *most) {
  const tc_plan_room *part = &rooms->rooms[room];
  int32_t n = 0;
  for (int32_t k = 0; k < part->n; k++) {
    const tc_plan_buf *b = &p->bufs.data[part->bufs[k]];
    if (b->first <= op && op <= b->last)
      used[n++] = (plan_span){part->bufs[k], b->place->value, b->bytes->value, b->first, b->last};
  }
  used[n++] = (plan_span){.at = part->at + part->bytes};
  qsort(used, (size_t)n, sizeof *used, by_place);
  int64_t free = part->at;
  for (int32_t k = 0; k < n; k++) {
    int64_t bytes = used[k].at - align(free), end = used[k].at + used[k].bytes;
    if (bytes > most->bytes) *most = (tc_plan_gap){room, align(free) - part->at, bytes};
    if (end > free) free = end;
  }
}

void tc_plan_gaps_of(const tc_plan *p, const tc_plan_rooms *rooms, tc_arena *arena, tc_plan_gap *out) {
  plan_span *used = TC_NEW_ARRAY(arena, plan_span, p->bufs.count + 1);
  for (int32_t op = 0; op < p->ops.count; op++) {
    out[op] = (tc_plan_gap){.room = -1};
    if (p->ops.data[op].kind != TC_PLAN_CALL) continue;
    for (int32_t i = 0; i < rooms->n; i++) {
      const tc_plan_room *part = &rooms->rooms[i];
      bool there = part->output < 0 && !part->place && part->first <= op && op <= part->last;
      if (there) widen(p, rooms, i, op, used, &out[op]);
    }
  }
}

static int by_first(const void *a, const void *b) {
  const tc_plan_room *x = a, *y = b;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  if (x->output != y->output) return x->output < y->output ? -1 : 1;
  return x->at != y->at ? (x->at < y->at ? -1 : 1) : (x->bufs[0] > y->bufs[0]) - (x->bufs[0] < y->bufs[0]);
}

tc_plan_rooms tc_plan_rooms_of(const tc_plan *p, tc_arena *arena) {
  plan_span *outputs = TC_NEW_ARRAY(arena, plan_span, p->bufs.count),
            *spans = TC_NEW_ARRAY(arena, plan_span, p->bufs.count);
  int32_t n_outputs = find_outputs(p, outputs), n = find_spans(p, spans);
  tc_plan_rooms v = {.whole = n < 0};
  if (n < 0) n = 0;
  int64_t *alive = TC_NEW_ARRAY(arena, int64_t, p->ops.count + 1);
  v.most = plan_span_parts(alive, p->ops.count, n_outputs, outputs, spans, &n);
  memset(alive, 0, sizeof *alive * (size_t)(p->ops.count + 1));
  for (int32_t i = 0; i < n; i++) add(alive, &spans[i], 1);
  for (int32_t i = 0; i < n_outputs; i++) add(alive, &outputs[i], 1);
  n = join_neighbours(spans, n, alive, p->ops.count, v.most);
  v.rooms = TC_NEW_ARRAY(arena, tc_plan_room, n + n_outputs + p->bufs.count);
  for (int32_t i = 0; i < n + n_outputs; i++) {
    const plan_span *s = i < n ? &spans[i] : &outputs[i - n];
    v.rooms[i] = (tc_plan_room){
        .output = i < n ? -1 : s->buf, .at = s->at, .bytes = s->bytes, .first = s->first, .last = s->last};
  }
  v.n = n + n_outputs;
  if (!v.whole) v.n += find_slots(p, v.rooms + v.n);
  for (int32_t i = 0; i < v.n; i++) list_bufs(p, arena, &v.rooms[i]);
  if (v.n) qsort(v.rooms, (size_t)v.n, sizeof *v.rooms, by_first);
  return v;
}
