// Where buffers of constant size lie: in the arena or, where outputs are shared, in an output that is written after
// their last use, if one has room.
//
// One layout takes the buffers one after the other and gives each a gap between those that are placed already and live
// at the same time. What it comes to depends on the order and on which gap is taken, so several are tried: by falling
// size (first fit decreasing on intervals), by falling size × lifetime, by first use; the lowest gap or the tightest.
// Then those that reach the top of the arena come first the next time (after Joslin and Clements, "Squeaky wheel
// optimization", 1999). The smallest arena is kept, the first of equals; nothing is tried beyond what must be alive at
// once, nor beyond a bounded number of steps. Where outputs are shared it is the layout with which a run has least at
// once, outputs counted from where they are first written (rooms.c), then the one with the smallest arena; layouts that
// leave outputs alone are tried, too, since an output that holds something is there earlier.
//
// A run whose arena is more than one allocation of its device may have lays its buffers out anew (tc_plan_blocks_of):
// the arena is then blocks of one size, one behind the other, and no buffer reaches from one into the next.
#include <stdlib.h>
#include <string.h>

#include "core/plan/plan_internal.h"

enum { ALIGN = PLAN_ALIGN, MOST_TRIES = 36, MOST_NESTED = 200, MOST_STEPS = 1 << 22 };

typedef struct item {
  int32_t buf, first, last;
  int64_t bytes, size; // size: rounded up
} item;

typedef struct place {
  int32_t item;
  int64_t at;
} place;
typedef TC_VEC(place) places; // by rising offset

typedef struct layout {
  int64_t cost, top; // cost: bytes at once in a run where outputs are shared, else the top
  int32_t *order;    // in which the items were taken
  int32_t *host;     // by item: 0 is the arena, else as tc_plan_buf.host
  int64_t *at;       // by item
} layout;

typedef struct packer {
  tc_arena *arena;
  const tc_plan *p;
  int64_t block; // bytes; 0: all of the arena is one
  int32_t n;
  item *items;
  int32_t n_hosts;
  int32_t *hosts;     // numbers of outputs that may hold buffers
  places *placed;     // by host: 0 is the arena, then in the order of `hosts`
  bool shared;        // outputs may hold buffers
  bool apart, nested; // of the layout that is tried: they hold none; places are chosen by crossings
  plan_span *spans, *outputs;
  int64_t *scratch; // by op
} packer;

static bool alive_together(const item *a, const item *b) { return a->first <= b->last && b->first <= a->last; }

// The first place from there on at which the buffer lies in one block.
static int64_t in_one_block(const packer *k, int64_t at, int64_t size) {
  if (!k->block || at / k->block == (at + size - 1) / k->block) return at;
  return (at / k->block + 1) * k->block;
}

// The lowest gap among what is placed there, or the tightest; the last one has no end.
static int64_t find_gap(const packer *k, const places *v, const item *b, bool tightest) {
  int64_t end = 0, best = -1, best_room = INT64_MAX;
  for (int32_t i = 0; i < v->count; i++) {
    const item *o = &k->items[v->data[i].item];
    if (!alive_together(b, o)) continue;
    int64_t at = in_one_block(k, end, b->size), room = v->data[i].at - at;
    if (room >= b->size && !tightest) return at;
    if (room >= b->size && room < best_room) best = at, best_room = room;
    if (v->data[i].at + o->size > end) end = v->data[i].at + o->size;
  }
  return best >= 0 ? best : in_one_block(k, end, b->size);
}

// How many of those that are placed it would lie in half: neither inside of them nor around them.
static int32_t crossings(const packer *k, const places *v, const item *b, int64_t at) {
  int32_t n = 0;
  for (int32_t i = 0; i < v->count; i++) {
    const item *o = &k->items[v->data[i].item];
    int64_t from = v->data[i].at, to = from + o->size, end = at + b->size;
    if (at >= to || from >= end) continue;
    if (alive_together(b, o)) return INT32_MAX;
    n += !(at >= from && end <= to) && !(from >= at && to <= end);
  }
  return n;
}

// Where it begins or ends with one that is placed, or at the bottom: the place that raises the top least, then the one
// with the fewest crossings, so that the arena falls into parts.
static int64_t find_nest(const packer *k, const places *v, const item *b) {
  int64_t best = -1, top = 0, best_end = INT64_MAX;
  int32_t least = INT32_MAX;
  for (int32_t i = 0; i < v->count; i++) {
    int64_t end = v->data[i].at + k->items[v->data[i].item].size;
    if (end > top) top = end;
  }
  for (int32_t i = 0; i <= 3 * v->count; i++) {
    int64_t from = i < 3 * v->count ? v->data[i / 3].at : 0;
    int64_t to = i < 3 * v->count ? from + k->items[v->data[i / 3].item].size : 0;
    int64_t at = i % 3 == 0 ? from : i % 3 == 1 ? to : to - b->size, end = at + b->size > top ? at + b->size : top;
    int32_t n = at < 0 || end > best_end ? INT32_MAX : crossings(k, v, b, at);
    if (n == INT32_MAX || (best >= 0 && end == best_end && n >= least)) continue;
    best = at, best_end = end, least = n;
  }
  return best;
}

static void put(packer *k, places *v, place q) {
  tc_vec_push(k->arena, v, q);
  int32_t i = v->count - 1;
  for (; i > 0 && v->data[i - 1].at > q.at; i--) v->data[i] = v->data[i - 1];
  v->data[i] = q;
}

// Runs of what is done once have no outputs.
static bool may_lie_in(const packer *k, const item *b, const tc_plan_buf *output) {
  return b->last < output->first && b->first <= b->last && !k->p->ops.data[b->first].once &&
         b->bytes <= output->bytes->value;
}

// Of the outputs with room that which is written first, since few others can lie there; 0: the arena.
static int32_t choose_host(const packer *k, const item *b, bool tightest, int64_t *out_at) {
  int32_t host = 0;
  for (int32_t i = 0; i < k->n_hosts && b->bytes > 0 && !k->apart; i++) {
    const tc_plan_buf *o = &k->p->bufs.data[k->hosts[i]], *best = host ? &k->p->bufs.data[k->hosts[host - 1]] : NULL;
    if (!may_lie_in(k, b, o)) continue;
    if (best && (best->first < o->first || (best->first == o->first && best->bytes->value <= o->bytes->value)))
      continue;
    int64_t at = find_gap(k, &k->placed[i + 1], b, tightest);
    if (at + b->bytes <= o->bytes->value) host = i + 1, *out_at = at;
  }
  return host;
}

static bool is_once(const packer *k, const item *b) {
  return b->first <= b->last && b->last < k->p->ops.count && k->p->ops.data[b->last].once;
}

// The most that a run has at once. Without outputs to share: the arena.
static int64_t cost_of(packer *k, const layout *l) {
  int32_t n = 0;
  if (!k->shared) return l->top;
  for (int32_t i = 0; i < k->n_hosts; i++) {
    const tc_plan_buf *o = &k->p->bufs.data[k->hosts[i]];
    k->outputs[i] = (plan_span){.bytes = o->bytes->value, .first = o->first, .last = k->p->ops.count - 1};
    for (int32_t q = 0; q < k->placed[i + 1].count; q++) {
      const item *b = &k->items[k->placed[i + 1].data[q].item];
      if (b->first < k->outputs[i].first) k->outputs[i].first = b->first;
    }
  }
  for (int32_t i = 0; i < k->n; i++) {
    const item *b = &k->items[i];
    if (l->host[i] || b->bytes == 0 || b->first > b->last || b->last >= k->p->ops.count || is_once(k, b)) continue;
    k->spans[n++] = (plan_span){b->buf, l->at[i], b->bytes, b->first, b->last};
  }
  return plan_span_parts(k->scratch, k->p->ops.count, k->n_hosts, k->outputs, k->spans, &n);
}

static void lay_out(packer *k, bool tightest, layout *out) {
  const int32_t *order = out->order;
  out->top = 0;
  for (int32_t i = 0; i <= k->n_hosts; i++) k->placed[i].count = 0;
  for (int32_t i = 0; i < k->n; i++) {
    const item *b = &k->items[order[i]];
    place q = {order[i], 0};
    int32_t host = choose_host(k, b, tightest, &q.at);
    if (!host) q.at = k->nested ? find_nest(k, &k->placed[0], b) : find_gap(k, &k->placed[0], b, tightest);
    if (!host && q.at + b->size > out->top) out->top = q.at + b->size;
    put(k, &k->placed[host], q);
    out->host[order[i]] = host ? k->hosts[host - 1] + 1 : 0;
    out->at[order[i]] = q.at;
  }
  out->cost = cost_of(k, out);
}

// What no layout can do with less: what is alive at once, outputs that are written included.
static int64_t least(const packer *k) {
  int32_t n_ops = k->p->ops.count;
  int64_t *change = TC_NEW_ARRAY(k->arena, int64_t, n_ops + 1), most = 0, sum = 0;
  for (int32_t i = 0; i < k->n; i++) {
    const item *b = &k->items[i];
    int64_t bytes = k->shared ? b->bytes : b->size;
    if (b->first > b->last || b->last >= n_ops || (k->shared && is_once(k, b))) continue;
    change[b->first] += bytes, change[b->last + 1] -= bytes;
  }
  for (int32_t i = 0; i < k->n_hosts; i++) {
    const tc_plan_buf *o = &k->p->bufs.data[k->hosts[i]];
    change[o->first] += o->bytes->value;
  }
  for (int32_t i = 0; i < n_ops; i++) {
    sum += change[i];
    if (sum > most) most = sum;
  }
  return most;
}

typedef struct ranked {
  int32_t item;
  int64_t key, then;
} ranked;

static int by_rank(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? 1 : -1;
  if (x->then != y->then) return x->then < y->then ? 1 : -1;
  return x->item < y->item ? -1 : x->item > y->item;
}

enum { BY_SIZE, BY_AREA, BY_START, N_ORDERS };
static void make_order(const packer *k, int32_t kind, ranked *ranks, int32_t *out) {
  for (int32_t i = 0; i < k->n; i++) {
    const item *b = &k->items[i];
    int64_t size = b->bytes, life = b->last < b->first ? 1 : (int64_t)b->last - b->first + 1;
    ranks[i] = (ranked){i, size, 0};
    if (kind == BY_AREA) ranks[i].key = (b->size / ALIGN) * life, ranks[i].then = size;
    if (kind == BY_START) ranks[i].key = -(int64_t)b->first, ranks[i].then = size;
  }
  if (k->n) qsort(ranks, (size_t)k->n, sizeof *ranks, by_rank);
  for (int32_t i = 0; i < k->n; i++) out[i] = ranks[i].item;
}

// The order in which those that reach the top come first; false if they did already.
static bool complain(const packer *k, const layout *l, int32_t *out) {
  int32_t n = 0, top = 0;
  for (int32_t pass = 0; pass < 2; pass++) {
    for (int32_t i = 0; i < k->n; i++) {
      int32_t b = l->order[i];
      bool reaches = !l->host[b] && l->at[b] + k->items[b].size == l->top;
      if (reaches == (pass == 0)) out[n++] = b;
    }
    if (!pass) top = n;
  }
  return memcmp(l->order, out, (size_t)top * sizeof *out) != 0;
}

static void swap(layout *a, layout *b) {
  layout c = *a;
  *a = *b, *b = c;
}

static layout new_layout(const packer *k) {
  return (layout){0, 0, TC_NEW_ARRAY(k->arena, int32_t, k->n), TC_NEW_ARRAY(k->arena, int32_t, k->n),
                  TC_NEW_ARRAY(k->arena, int64_t, k->n)};
}

static bool is_better(const layout *a, const layout *b) {
  return a->cost < b->cost || (a->cost == b->cost && a->top < b->top);
}

static layout find_layout(packer *k) {
  layout best = new_layout(k), before = new_layout(k), now = new_layout(k);
  ranked *ranks = TC_NEW_ARRAY(k->arena, ranked, k->n);
  int64_t bound = least(k), tries = MOST_STEPS / ((int64_t)k->n * k->n + 1);
  if (tries > MOST_TRIES) tries = MOST_TRIES;
  make_order(k, BY_SIZE, ranks, best.order);
  lay_out(k, false, &best);
  int32_t t = 1;
  for (int32_t way = 0; way < (k->n_hosts ? 4 : 1); way++) {
    k->apart = way & 1, k->nested = way & 2;
    if (k->nested && k->n > MOST_NESTED) continue;
    for (int32_t i = way == 0; i < 2 * N_ORDERS && t < tries && best.cost > bound; i += 1 + k->nested, t++) {
      make_order(k, i / 2, ranks, now.order);
      lay_out(k, i & 1, &now);
      if (is_better(&now, &best)) swap(&best, &now);
    }
  }
  k->apart = k->nested = false;
  for (const layout *last = &best; t < tries && best.cost > bound && complain(k, last, now.order); t++) {
    lay_out(k, t & 1, &now);
    if (is_better(&now, &best)) swap(&best, &now), last = &best;
    else swap(&before, &now), last = &before;
  }
  return best;
}

static void add_item(packer *k, int32_t buf, int32_t last, int64_t bytes) {
  const tc_plan_buf *b = &k->p->bufs.data[buf];
  k->items[k->n++] = (item){buf, b->first, last, bytes, (bytes + ALIGN - 1) / ALIGN * ALIGN};
}

int64_t plan_place_constant(tc_plan *p, const int32_t *bufs, int32_t n, const int32_t *last, bool shared) {
  packer k = {.arena = p->arena, .p = p, .items = TC_NEW_ARRAY(p->arena, item, n), .shared = shared};
  k.spans = TC_NEW_ARRAY(p->arena, plan_span, n), k.scratch = TC_NEW_ARRAY(p->arena, int64_t, p->ops.count + 1);
  for (int32_t i = 0; i < n; i++) add_item(&k, bufs[i], last[bufs[i]], p->bufs.data[bufs[i]].bytes->value);
  k.hosts = TC_NEW_ARRAY(p->arena, int32_t, p->bufs.count);
  for (int32_t i = 0; shared && i < p->bufs.count; i++) {
    const tc_plan_buf *o = &p->bufs.data[i];
    if (o->kind == TC_PLAN_OUTPUT && tc_sym_is_const(o->bytes) && o->first <= o->last && o->first < p->ops.count)
      k.hosts[k.n_hosts++] = i;
  }
  k.outputs = TC_NEW_ARRAY(p->arena, plan_span, k.n_hosts);
  k.placed = TC_NEW_ARRAY(p->arena, places, k.n_hosts + 1);
  layout best = find_layout(&k);
  for (int32_t i = 0; i < n; i++) {
    tc_plan_buf *b = &p->bufs.data[bufs[i]];
    b->host = best.host[i];
    b->place = tc_sym_int(p->syms, best.at[i]);
  }
  return best.top;
}

// By falling size, each at its lowest place: it is done in a run.
static void place_in_blocks(packer *k, tc_plan_blocks *out) {
  layout l = new_layout(k);
  make_order(k, BY_SIZE, TC_NEW_ARRAY(k->arena, ranked, k->n), l.order);
  lay_out(k, false, &l);
  out->n = (int32_t)((l.top + k->block - 1) / k->block);
  out->bytes = TC_NEW_ARRAY(k->arena, int64_t, out->n);
  for (int32_t i = 0; i < k->n; i++) {
    const item *b = &k->items[i];
    int32_t block = (int32_t)(l.at[i] / k->block);
    int64_t at = l.at[i] % k->block;
    out->block[b->buf] = block, out->at[b->buf] = at;
    if (out->bytes[block] < at + b->size) out->bytes[block] = at + b->size;
  }
}

tc_status tc_plan_blocks_of(const tc_plan *p, tc_arena *arena, const int64_t *values, int64_t largest,
                            tc_plan_blocks *out) {
  int32_t n = p->bufs.count, *last = plan_last_uses(p, arena);
  packer k = {.arena = arena, .p = p, .block = largest / ALIGN * ALIGN, .items = TC_NEW_ARRAY(arena, item, n)};
  *out = (tc_plan_blocks){.block = TC_NEW_ARRAY(arena, int32_t, n), .at = TC_NEW_ARRAY(arena, int64_t, n)};
  for (int32_t i = 0; i < n; i++) {
    const tc_plan_buf *b = &p->bufs.data[i];
    int64_t bytes;
    if (b->kind != TC_PLAN_ARENA || b->host || b->over) continue;
    TC_TRY(tc_sym_eval(b->bytes, values, &bytes));
    if (bytes > k.block)
      return tc_error(TC_STATUS_OUT_OF_MEMORY,
                      "%%" TC_SV_FMT " has %lld bytes, one allocation of the device at most %lld", TC_SV_ARG(b->name),
                      (long long)bytes, (long long)largest);
    if (bytes > 0) add_item(&k, i, last[i], bytes);
  }
  k.placed = TC_NEW_ARRAY(arena, places, 1);
  place_in_blocks(&k, out);
  for (int32_t i = 0; i < n; i++) {
    int32_t at = plan_place_of(p, i);
    out->block[i] = out->block[at], out->at[i] = out->at[at];
  }
  return TC_OK;
}
