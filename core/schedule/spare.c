// An order of groups that needs less memory at its peak.
//
// Alive are internal buffers from the group that writes them to the last that reads them, and results of the program
// from the group that writes them on, since others lie in their memory before (plan/offsets.c). Beside the order that
// is given, one is made from the end: among the groups whose readers are all placed, that one comes last which takes
// most from what is alive in front of it. The better one is then changed at its peak: a group that reads what is alive
// there moves in front of it with all that it needs, or one that makes it moves behind with all that needs it,
// whichever lowers the peak most, or the sum over time where the peak stays. The order that is given is kept if nothing
// comes to 1/64 less, or where a size has no example; effort is bounded, so that large programs cost no more than a few
// passes. Sizes that are symbols count as those of the example.
#include "core/schedule/spare.h"

#include <string.h>

enum { LOOK = 64, REACH = 4, MOST_STEPS = 1 << 21, LEAST_GAIN = 64 };

static bool is_less(tc_spare_cost a, tc_spare_cost b) { return a.peak < b.peak || (a.peak == b.peak && a.sum < b.sum); }

// false where a size has no example.
static bool find_values(tc_spare *s, tc_sched *x) {
  int32_t *value_of = TC_NEW_ARRAY(s->arena, int32_t, x->l->bufs.count); // + 1
  for (int32_t i = 0; i < s->n; i++) {
    const tc_group *g = x->s->groups.data[i];
    for (int32_t k = 0; k < g->writes.count && !g->once; k++) {
      const tc_buf *b = g->writes.data[k];
      int64_t bytes;
      if (!tc_sym_hint(x->l->syms, tc_buf_bytes(x->l, b), &bytes)) return false;
      if (b->inplace) continue;
      tc_spare_value v = {.buf = b, .bytes = bytes, .writer = i, .stays = b->output >= 0};
      tc_vec_push(s->arena, &s->writes[i], s->values.count);
      tc_vec_push(s->arena, &s->values, v);
      value_of[b->id] = s->values.count;
    }
  }
  for (int32_t i = 0; i < s->n; i++) {
    const tc_group *g = x->s->groups.data[i];
    for (int32_t k = 0; k < g->reads.count; k++) {
      int32_t v = value_of[g->reads.data[k]->id] - 1;
      if (v < 0 || s->values.data[v].writer == i) continue;
      tc_vec_push(s->arena, &s->reads[i], v);
      tc_vec_push(s->arena, &s->values.data[v].readers, i);
      s->links++;
    }
  }
  return true;
}

static int32_t last_use(const tc_spare *s, const tc_spare_value *v) {
  int32_t last = s->pos[v->writer];
  if (v->stays) return s->n - 1;
  for (int32_t k = 0; k < v->readers.count; k++)
    if (s->pos[v->readers.data[k]] > last) last = s->pos[v->readers.data[k]];
  return last;
}

tc_spare_cost tc_spare_measure(tc_spare *s, const int32_t *order) {
  tc_spare_cost c = {0, 0};
  s->steps -= 2 * (int64_t)s->n + s->values.count + s->links;
  memset(s->alive, 0, (size_t)(s->n + 1) * sizeof *s->alive);
  for (int32_t i = 0; i < s->n; i++) s->pos[order[i]] = i;
  for (int32_t i = 0; i < s->values.count; i++) {
    const tc_spare_value *v = &s->values.data[i];
    s->alive[s->pos[v->writer]] += v->bytes;
    s->alive[last_use(s, v) + 1] -= v->bytes;
  }
  for (int32_t i = 0; i < s->n; i++) {
    if (i) s->alive[i] += s->alive[i - 1];
    if (s->alive[i] > c.peak) c.peak = s->alive[i];
    c.sum += (double)s->alive[i];
  }
  return c;
}

// No order can do with less: what a group reads and writes, and all results.
static int64_t least_peak(const tc_spare *s) {
  int64_t least = 0, results = 0;
  for (int32_t i = 0; i < s->n; i++) {
    int64_t sum = 0;
    for (int32_t k = 0; k < s->reads[i].count; k++) sum += s->values.data[s->reads[i].data[k]].bytes;
    for (int32_t k = 0; k < s->writes[i].count; k++) sum += s->values.data[s->writes[i].data[k]].bytes;
    if (sum > least) least = sum;
  }
  for (int32_t i = 0; i < s->values.count; i++) results += s->values.data[i].stays ? s->values.data[i].bytes : 0;
  return results > least ? results : least;
}

// ---- from the end ----
// What placing the group takes from the bytes that are alive in front of it.
static int64_t relief(const tc_spare *s, int32_t g, const bool *needed) {
  int64_t sum = 0;
  for (int32_t k = 0; k < s->writes[g].count; k++) sum += s->values.data[s->writes[g].data[k]].bytes;
  for (int32_t k = 0; k < s->reads[g].count; k++) {
    const tc_spare_value *v = &s->values.data[s->reads[g].data[k]];
    if (!needed[s->reads[g].data[k]] && !v->stays) sum -= v->bytes;
  }
  return sum;
}

static void from_the_end(tc_spare *s, const int32_t *given, int32_t *out) {
  bool *needed = TC_NEW_ARRAY(s->arena, bool, s->values.count);
  int32_t *waiting = TC_NEW_ARRAY(s->arena, int32_t, s->n), done = s->n;
  tc_ints ready = {0}; // by rising position in the order that is given
  for (int32_t i = 0; i < s->n; i++) s->pos[given[i]] = i, waiting[i] = s->f->next[i].count;
  for (int32_t i = s->fixed; i < s->n; i++)
    if (!waiting[given[i]]) tc_vec_push(s->arena, &ready, given[i]);
  while (ready.count) {
    int32_t best = ready.count - 1, least = ready.count > LOOK ? ready.count - LOOK : 0;
    int64_t most = INT64_MIN;
    for (int32_t q = ready.count - 1; q >= least; q--) {
      int64_t r = relief(s, ready.data[q], needed);
      if (r > most) best = q, most = r;
    }
    int32_t g = ready.data[best];
    for (int32_t q = best; q + 1 < ready.count; q++) ready.data[q] = ready.data[q + 1];
    ready.count--;
    out[--done] = g;
    for (int32_t k = 0; k < s->reads[g].count; k++) needed[s->reads[g].data[k]] = true;
    for (int32_t k = 0; k < s->f->before[g].count; k++) {
      int32_t b = s->f->before[g].data[k];
      if (--waiting[b] || s->pos[b] < s->fixed) continue;
      tc_vec_push(s->arena, &ready, b);
      for (int32_t q = ready.count - 1; q > 0 && s->pos[ready.data[q - 1]] > s->pos[b]; q--)
        ready.data[q] = ready.data[q - 1], ready.data[q - 1] = b;
    }
  }
  memcpy(out, given, (size_t)s->fixed * sizeof *out);
}

// ---- at the peak ----
// The group and all that must come before (or behind) it moves to position `to`, in the order that they have.
static void move(tc_spare *s, const int32_t *order, int32_t group, int32_t to, bool forward, int32_t *out) {
  const tc_ints *link = forward ? s->f->before : s->f->next;
  int32_t at = s->pos[group], first = forward ? to : at, last = forward ? at : to, n = 0;
  memset(s->mark, 0, (size_t)s->n * sizeof *s->mark);
  s->mark[group] = true;
  for (int32_t i = forward ? last : first; i >= first && i <= last; i += forward ? -1 : 1) {
    for (int32_t k = 0; s->mark[order[i]] && k < link[order[i]].count; k++) s->mark[link[order[i]].data[k]] = true;
  }
  memcpy(out, order, (size_t)s->n * sizeof *out);
  for (int32_t pass = 0; pass < 2; pass++) {
    for (int32_t i = first; i <= last; i++)
      if (s->mark[order[i]] == (forward == (pass == 0))) out[first + n++] = order[i];
  }
}

typedef struct peak_search {
  tc_spare *s;
  int32_t *order, *trial, *best; // best: of the trials of a round
  tc_spare_cost now, least;
} peak_search;

static void try_moves(peak_search *p, int32_t group, int32_t peak, bool forward) {
  tc_spare *s = p->s;
  for (int32_t k = 0; k <= REACH && s->steps > 0; k++) {
    int32_t to = forward ? peak - k : peak + k;
    if (to < s->fixed || to >= s->n || s->pos[group] < s->fixed) continue;
    if (forward ? s->pos[group] <= to : s->pos[group] >= to) continue;
    move(s, p->order, group, to, forward, p->trial);
    tc_spare_cost c = tc_spare_measure(s, p->trial);
    for (int32_t i = 0; i < s->n; i++) s->pos[p->order[i]] = i;
    if (!is_less(c, p->least)) continue;
    p->least = c;
    memcpy(p->best, p->trial, (size_t)s->n * sizeof *p->best);
  }
}

static void lower_peak(peak_search *p, int64_t bound) {
  tc_spare *s = p->s;
  int32_t *tried = TC_NEW_ARRAY(s->arena, int32_t, s->n); // by group: 1 forward, 2 backward
  while (p->now.peak > bound && s->steps > 0) {
    int32_t peak = 0;
    tc_spare_measure(s, p->order);
    while (s->alive[peak] < p->now.peak) peak++;
    p->least = p->now;
    memset(tried, 0, (size_t)s->n * sizeof *tried);
    for (int32_t i = 0; i < s->values.count && s->steps > 0; i++) {
      const tc_spare_value *v = &s->values.data[i];
      if (s->pos[v->writer] > peak || last_use(s, v) < peak) continue;
      if (!(tried[v->writer] & 2)) try_moves(p, v->writer, peak, false);
      tried[v->writer] |= 2;
      for (int32_t k = 0; k < v->readers.count; k++) {
        if (!(tried[v->readers.data[k]] & 1)) try_moves(p, v->readers.data[k], peak, true);
        tried[v->readers.data[k]] |= 1;
      }
    }
    if (!is_less(p->least, p->now)) break;
    p->now = p->least;
    memcpy(p->order, p->best, (size_t)s->n * sizeof *p->order);
  }
}

bool tc_spare_open(tc_sched *x, const tc_flow *f, tc_spare *out) {
  tc_arena *a = x->arena;
  int32_t n = f->n;
  *out = (tc_spare){.arena = a, .f = f, .n = n, .pos = TC_NEW_ARRAY(a, int32_t, n), .mark = TC_NEW_ARRAY(a, bool, n)};
  out->reads = TC_NEW_ARRAY(a, tc_ints, n), out->writes = TC_NEW_ARRAY(a, tc_ints, n);
  out->alive = TC_NEW_ARRAY(a, int64_t, n + 1);
  for (int32_t i = 0; i < n; i++) out->fixed += x->s->groups.data[i]->once;
  return find_values(out, x);
}

tc_spare_cost tc_spare_search(tc_spare *s, const int32_t *given, int64_t steps, int32_t *out) {
  peak_search p = {.s = s, .order = out};
  p.trial = TC_NEW_ARRAY(s->arena, int32_t, s->n), p.best = TC_NEW_ARRAY(s->arena, int32_t, s->n);
  s->steps = steps;
  memcpy(out, given, (size_t)s->n * sizeof *out);
  p.now = tc_spare_measure(s, given);
  int64_t bound = least_peak(s);
  if (p.now.peak <= bound) return p.now;
  from_the_end(s, given, p.trial);
  tc_spare_cost end = tc_spare_measure(s, p.trial);
  if (is_less(end, p.now)) {
    p.now = end;
    memcpy(out, p.trial, (size_t)s->n * sizeof *out);
  }
  lower_peak(&p, bound);
  return p.now;
}

bool tc_spare_worth(int64_t peak, int64_t before) { return before - peak > before / LEAST_GAIN; }

void tc_sched_spare(tc_sched *x, const tc_flow *f, tc_group **order) {
  tc_spare s;
  if (!tc_spare_open(x, f, &s)) return;
  int32_t *given = TC_NEW_ARRAY(x->arena, int32_t, s.n), *out = TC_NEW_ARRAY(x->arena, int32_t, s.n);
  for (int32_t i = 0; i < s.n; i++) given[i] = order[i]->id;
  int64_t before = tc_spare_measure(&s, given).peak, peak = tc_spare_search(&s, given, MOST_STEPS, out).peak;
  if (!tc_spare_worth(peak, before)) return;
  tc_log(x->o->logger, TC_LOG_SCHEDULE, "another order of %d groups: at most %lld bytes alive, not %lld", s.n,
         (long long)peak, (long long)before);
  for (int32_t i = 0; i < s.n; i++) order[i] = x->s->groups.data[out[i]];
}
