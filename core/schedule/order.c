// Execution order: what is done once comes first; else topological; among the ready groups the one that frees most
// memory for what it allocates comes first, ties by the program's order. What reads nothing but what the caller gives
// frees nothing whenever it runs: it then moves to where it is first needed. Where another order needs less memory at
// its peak, that one is taken (spare.c).
#include "core/schedule/internal.h"

static int32_t min_id(const tc_group *g) {
  int32_t id = INT32_MAX;
  for (int32_t i = 0; i < g->steps.count; i++) {
    if (g->steps.data[i].node->id < id) id = g->steps.data[i].node->id;
  }
  return id;
}

// Does the group read only memory that is there before and after the run, and write what nobody else sees?
static bool is_free_to_wait(const tc_group *g) {
  if (g->call || g->once || g->reads.count == 0) return false;
  for (int32_t k = 0; k < g->reads.count; k++)
    if (g->reads.data[k]->kind != TC_BUF_INPUT || g->reads.data[k]->overwritten) return false;
  for (int32_t k = 0; k < g->writes.count; k++)
    if (g->writes.data[k]->output >= 0 || g->writes.data[k]->inplace) return false;
  return true;
}

// order[0 … n-1] with the groups that may wait in front of their first readers. Those read what is made here, so they
// do not wait themselves.
static void delay(tc_sched *x, tc_group **order, int32_t n) {
  int32_t *first = TC_NEW_ARRAY(x->arena, int32_t, n), *waits = TC_NEW_ARRAY(x->arena, int32_t, x->l->bufs.count);
  for (int32_t i = 0; i < n; i++) {
    first[i] = i;
    for (int32_t k = 0; is_free_to_wait(order[i]) && k < order[i]->writes.count; k++)
      waits[order[i]->writes.data[k]->id] = i + 1;
  }
  for (int32_t i = n - 1; i >= 0; i--) {
    for (int32_t k = 0; k < order[i]->reads.count; k++) {
      int32_t w = waits[order[i]->reads.data[k]->id];
      if (w && w - 1 != i) first[w - 1] = i;
    }
  }
  tc_group **moved = TC_NEW_ARRAY(x->arena, tc_group *, n);
  int32_t *next = TC_NEW_ARRAY(x->arena, int32_t, n), *head = TC_NEW_ARRAY(x->arena, int32_t, n), done = 0;
  for (int32_t i = n - 1; i >= 0; i--)
    if (first[i] != i) next[i] = head[first[i]], head[first[i]] = i + 1;
  for (int32_t i = 0; i < n; i++) {
    for (int32_t k = head[i]; k; k = next[k - 1]) moved[done++] = order[k - 1];
    if (first[i] == i) moved[done++] = order[i];
  }
  for (int32_t i = 0; i < n; i++) order[i] = moved[i];
}

static void follow(tc_sched *x, tc_flow *f, int32_t first, int32_t then) {
  tc_vec_push(x->arena, &f->next[first], then);
  tc_vec_push(x->arena, &f->before[then], first);
}

void tc_sched_flow(tc_sched *x, tc_flow *f) {
  tc_schedule *s = x->s;
  int32_t n = f->n = s->groups.count;
  tc_group **writer = TC_NEW_ARRAY(x->arena, tc_group *, x->l->bufs.count);
  f->next = TC_NEW_ARRAY(x->arena, tc_ints, n), f->before = TC_NEW_ARRAY(x->arena, tc_ints, n);
  for (int32_t i = 0; i < n; i++) {
    tc_group *g = s->groups.data[i];
    g->id = i;
    for (int32_t k = 0; k < g->writes.count; k++) writer[g->writes.data[k]->id] = g;
  }
  for (int32_t i = 0; i < n; i++) {
    const tc_group *g = s->groups.data[i];
    for (int32_t k = 0; k < g->reads.count; k++) {
      const tc_group *w = writer[g->reads.data[k]->id];
      if (w && w != g) follow(x, f, w->id, i);
    }
    // What is written in place: behind all that reads the old elements, and behind what made them.
    for (int32_t k = 0; k < g->writes.count; k++) {
      const tc_buf *old = g->writes.data[k]->inplace;
      for (int32_t j = 0; j < n && old; j++) {
        const tc_group *o = s->groups.data[j];
        bool before = writer[old->id] == o;
        for (int32_t q = 0; q < o->reads.count; q++) before |= o->reads.data[q] == old;
        if (before && o != g) follow(x, f, j, i);
      }
    }
  }
}

tc_status tc_sched_order(tc_sched *x) {
  tc_schedule *s = x->s;
  tc_flow f;
  tc_sched_flow(x, &f);
  int32_t n = f.n;
  int32_t *waiting = TC_NEW_ARRAY(x->arena, int32_t, n), *readers = TC_NEW_ARRAY(x->arena, int32_t, x->l->bufs.count);
  for (int32_t i = 0; i < n; i++) {
    waiting[i] = f.before[i].count;
    for (int32_t k = 0; k < s->groups.data[i]->reads.count; k++) readers[s->groups.data[i]->reads.data[k]->id]++;
  }
  tc_ints ready = {0};
  for (int32_t i = 0; i < n; i++) {
    if (!waiting[i]) tc_vec_push(x->arena, &ready, i);
  }
  tc_group **order = TC_NEW_ARRAY(x->arena, tc_group *, n);
  int32_t done = 0, once = 0;
  for (int32_t i = 0; i < n; i++) once += s->groups.data[i]->once;
  while (ready.count) {
    int32_t best = 0;
    int64_t best_gain = INT64_MIN;
    int32_t look = ready.count < 32 || once ? ready.count : 32; // a bounded look keeps this linear
    for (int32_t q = 0; q < look; q++) {
      const tc_group *g = s->groups.data[ready.data[q]];
      int64_t gain = 0;
      for (int32_t k = 0; k < g->reads.count; k++) {
        const tc_buf *b = g->reads.data[k];
        if (b->kind == TC_BUF_INTERNAL && b->output < 0 && readers[b->id] == 1) gain += tc_buf_hint_bytes(x->l, b);
      }
      for (int32_t k = 0; k < g->writes.count; k++) {
        if (g->writes.data[k]->output < 0) gain -= tc_buf_hint_bytes(x->l, g->writes.data[k]);
      }
      if (g->once) gain += INT64_MAX / 2; // they wait for each other only
      bool earlier = gain == best_gain && min_id(g) < min_id(s->groups.data[ready.data[best]]);
      if (gain > best_gain || earlier) best = q, best_gain = gain;
    }
    int32_t i = ready.data[best];
    ready.data[best] = ready.data[--ready.count];
    tc_group *g = s->groups.data[i];
    order[done++] = g;
    once -= g->once;
    for (int32_t k = 0; k < g->reads.count; k++) readers[g->reads.data[k]->id]--;
    for (int32_t k = 0; k < f.next[i].count; k++) {
      if (--waiting[f.next[i].data[k]] == 0) tc_vec_push(x->arena, &ready, f.next[i].data[k]);
    }
  }
  if (done != n)
    return tc_error(TC_STATUS_INTERNAL, "the schedule has a cycle: %d of %d groups could be ordered", done, n);
  delay(x, order, n);
  tc_sched_spare(x, &f, order);
  for (int32_t i = 0; i < n; i++) s->groups.data[i] = order[i];
  return TC_OK;
}
