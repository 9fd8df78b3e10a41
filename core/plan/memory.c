// The arena: where internal buffers lie during a run.
//
// Constant sizes: offsets.c. Symbolic sizes: in order of first use, each takes a free slot whose size provably
// suffices, else a new slot behind the others. Every offset is a multiple of 64 bytes.
//
// Buffers that lie over each other have one place, from the first's first use to the last's last.
#include "core/plan/plan_internal.h"

enum { ALIGN = PLAN_ALIGN };

static bool alive_together(const tc_plan_buf *a, const tc_plan_buf *b) {
  return a->first <= b->last && b->first <= a->last;
}

static const tc_sym *round_up(tc_sym_ctx *c, const tc_sym *bytes) {
  return tc_sym_muli(c, tc_sym_ceildiv(c, bytes, tc_sym_int(c, ALIGN)), ALIGN);
}

typedef struct slot {
  const tc_sym *place, *bytes;
  int32_t free_after; // op after which it is free
} slot;

static void place_symbolic(tc_plan *p, const int32_t *order, int32_t n, const int32_t *last) {
  tc_sym_ctx *c = p->syms;
  TC_VEC(slot) slots = {0};
  for (int32_t i = 0; i < n; i++) { // order: by first use
    tc_plan_buf *b = &p->bufs.data[order[i]];
    const tc_sym *need = round_up(c, b->bytes);
    slot *found = NULL;
    for (int32_t k = 0; k < slots.count && !found; k++) {
      slot *s = &slots.data[k];
      if (s->free_after < b->first && tc_sym_prove(c, tc_sym_cmp(c, TC_SYM_LE, need, s->bytes)) == 1) found = s;
    }
    if (!found) {
      slot s = {p->arena_bytes, need, -1};
      tc_vec_push(p->arena, &slots, s);
      found = &tc_vec_last(&slots);
      p->arena_bytes = tc_sym_add(c, p->arena_bytes, need);
    }
    found->free_after = last[order[i]];
    b->place = found->place;
  }
}

int32_t plan_place_of(const tc_plan *p, int32_t buf) {
  while (p->bufs.data[buf].over) buf = p->bufs.data[buf].over - 1;
  return buf;
}

void plan_take_places(tc_plan *p) {
  for (int32_t i = 0; i < p->bufs.count; i++) {
    const tc_plan_buf *b = &p->bufs.data[plan_place_of(p, i)];
    p->bufs.data[i].place = b->place, p->bufs.data[i].host = b->host;
  }
}

int32_t *plan_last_uses(const tc_plan *p, tc_arena *arena) {
  int32_t *last = TC_NEW_ARRAY(arena, int32_t, p->bufs.count);
  for (int32_t i = 0; i < p->bufs.count; i++) last[i] = p->bufs.data[i].last;
  for (int32_t i = 0; i < p->bufs.count; i++) {
    int32_t at = plan_place_of(p, i);
    if (p->bufs.data[i].last > last[at]) last[at] = p->bufs.data[i].last;
  }
  return last;
}

static void place_all(tc_plan *p, bool shared) {
  tc_sym_ctx *c = p->syms;
  int32_t n = 0, m = 0, *last = plan_last_uses(p, p->arena);
  int32_t *constant = TC_NEW_ARRAY(p->arena, int32_t, p->bufs.count),
          *symbolic = TC_NEW_ARRAY(p->arena, int32_t, p->bufs.count);
  p->arena_bytes = p->largest_bytes = tc_sym_int(c, 0);
  for (int32_t i = 0; i < p->bufs.count; i++) {
    const tc_plan_buf *b = &p->bufs.data[i];
    if (b->kind != TC_PLAN_ARENA || b->over) continue;
    p->largest_bytes = tc_sym_max(c, p->largest_bytes, b->bytes);
    if (tc_sym_is_const(b->bytes)) constant[n++] = i;
    else symbolic[m++] = i;
  }
  p->arena_bytes = tc_sym_int(c, plan_place_constant(p, constant, n, last, shared));
  for (int32_t i = 1; i < m; i++) { // by first use
    int32_t id = symbolic[i], k = i;
    for (; k > 0 && p->bufs.data[symbolic[k - 1]].first > p->bufs.data[id].first; k--) symbolic[k] = symbolic[k - 1];
    symbolic[k] = id;
  }
  place_symbolic(p, symbolic, m, last);
  plan_take_places(p);
}

void tc_plan_memory(tc_plan *p) { place_all(p, false); }
void tc_plan_memory_shared(tc_plan *p) { place_all(p, true); }

void tc_plan_memory_apart(tc_plan *p) {
  p->arena_bytes = tc_sym_int(p->syms, 0);
  for (int32_t i = 0; i < p->bufs.count; i++) {
    tc_plan_buf *b = &p->bufs.data[i];
    if (b->kind != TC_PLAN_ARENA) continue;
    b->place = p->arena_bytes, b->host = b->over = 0;
    p->arena_bytes = tc_sym_add(p->syms, p->arena_bytes, round_up(p->syms, b->bytes));
  }
}

// The regions of an op fit into what they are given.
static tc_status check_regions(const tc_plan *p, const tc_plan_op *op, const int64_t *values) {
  int64_t given = 0, wanted;
  if (op->scratch >= 0) TC_TRY(tc_sym_eval(p->bufs.data[op->scratch].bytes, values, &given));
  for (int32_t r = 0; r < tc_plan_region_count(op->kind); r++) {
    const tc_plan *region = op->regions[r];
    const tc_sym *end = tc_sym_add(p->syms, tc_plan_region_offset(op, r), region->arena_bytes);
    TC_TRY(tc_sym_eval(end, values, &wanted));
    if (wanted > given && !tc_sym_is_int(region->arena_bytes, 0))
      return tc_error(TC_STATUS_INTERNAL, "@" TC_SV_FMT " gives a region %lld bytes of %lld", TC_SV_ARG(op->name),
                      (long long)given, (long long)wanted);
    TC_TRY(tc_plan_check_memory(op->regions[r], values));
  }
  return TC_OK;
}

// What a buffer lies in: bytes, or an error.
static tc_status room_of(const tc_plan *p, const tc_plan_buf *b, const int64_t *values, int64_t *out) {
  if (!b->host) return tc_sym_eval(p->arena_bytes, values, out);
  const tc_plan_buf *o = b->host > 0 && b->host <= p->bufs.count ? &p->bufs.data[b->host - 1] : NULL;
  if (!o || o->kind != TC_PLAN_OUTPUT)
    return tc_error(TC_STATUS_INTERNAL, "%%" TC_SV_FMT " lies in what is no output", TC_SV_ARG(b->name));
  if (o->first <= b->last || (b->first <= b->last && p->ops.data[b->first].once))
    return tc_error(TC_STATUS_INTERNAL, "%%" TC_SV_FMT " lies in the output %%" TC_SV_FMT ", which is in use then",
                    TC_SV_ARG(b->name), TC_SV_ARG(o->name));
  return tc_sym_eval(o->bytes, values, out);
}

static bool is_over(const tc_plan *p, const tc_plan_buf *a, const tc_plan_buf *b) {
  const tc_plan_buf *later = a->first > b->first ? a : b, *earlier = later == a ? b : a;
  return later->over && &p->bufs.data[later->over - 1] == earlier && earlier->last == later->first;
}

tc_status tc_plan_check_memory(const tc_plan *p, const int64_t *values) {
  for (int32_t i = 0; i < p->ops.count; i++)
    if (tc_plan_region_count(p->ops.data[i].kind)) TC_TRY(check_regions(p, &p->ops.data[i], values));
  for (int32_t i = 0; i < p->bufs.count; i++) {
    const tc_plan_buf *a = &p->bufs.data[i];
    int64_t at, size, room;
    if (a->kind != TC_PLAN_ARENA) continue;
    TC_TRY(room_of(p, a, values, &room));
    TC_TRY(tc_sym_eval(a->place, values, &at));
    TC_TRY(tc_sym_eval(a->bytes, values, &size));
    if (at < 0 || size < 0 || at + size > room)
      return tc_error(TC_STATUS_INTERNAL, "%%" TC_SV_FMT " lies outside the %s", TC_SV_ARG(a->name),
                      a->host ? "output that holds it" : "arena");
    for (int32_t k = 0; k < i; k++) {
      const tc_plan_buf *b = &p->bufs.data[k];
      int64_t b_at, b_size;
      if (b->kind != TC_PLAN_ARENA || a->host != b->host || !alive_together(a, b) || is_over(p, a, b)) continue;
      TC_TRY(tc_sym_eval(b->place, values, &b_at));
      TC_TRY(tc_sym_eval(b->bytes, values, &b_size));
      if (at < b_at + b_size && b_at < at + size)
        return tc_error(TC_STATUS_INTERNAL, "%%" TC_SV_FMT " and %%" TC_SV_FMT " overlap in the arena",
                        TC_SV_ARG(a->name), TC_SV_ARG(b->name));
    }
  }
  return TC_OK;
}
