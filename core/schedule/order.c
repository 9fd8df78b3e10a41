// Execution order: what is done once comes first; else topological; among the ready groups the one that frees most
// memory for what it allocates comes first, ties by the program's order.
#include "core/schedule/internal.h"

static int32_t min_id(const tc_group *g) {
  int32_t id = INT32_MAX;
  for (int32_t i = 0; i < g->steps.count; i++) {
    if (g->steps.data[i].node->id < id) id = g->steps.data[i].node->id;
  }
  return id;
}

tc_status tc_sched_order(tc_sched *x) {
  tc_schedule *s = x->s;
  int32_t n = s->groups.count;
  tc_group **writer = TC_NEW_ARRAY(x->arena, tc_group *, x->l->bufs.count);
  int32_t *waiting = TC_NEW_ARRAY(x->arena, int32_t, n), *readers = TC_NEW_ARRAY(x->arena, int32_t, x->l->bufs.count);
  for (int32_t i = 0; i < n; i++) {
    tc_group *g = s->groups.data[i];
    g->id = i;
    for (int32_t k = 0; k < g->writes.count; k++) writer[g->writes.data[k]->id] = g;
  }
  typedef TC_VEC(int32_t) ints;
  ints *next = TC_NEW_ARRAY(x->arena, ints, n);
  for (int32_t i = 0; i < n; i++) {
    tc_group *g = s->groups.data[i];
    for (int32_t k = 0; k < g->reads.count; k++) {
      readers[g->reads.data[k]->id]++;
      tc_group *w = writer[g->reads.data[k]->id];
      if (!w || w == g) continue;
      waiting[i]++;
      tc_vec_push(x->arena, &next[w->id], i);
    }
  }
  // What is written in place: behind all that reads the old elements, and behind what made them.
  for (int32_t i = 0; i < n; i++) {
    const tc_group *g = s->groups.data[i];
    for (int32_t k = 0; k < g->writes.count; k++) {
      const tc_buf *old = g->writes.data[k]->inplace;
      for (int32_t j = 0; j < n && old; j++) {
        const tc_group *o = s->groups.data[j];
        bool before = writer[old->id] == o;
        for (int32_t q = 0; q < o->reads.count; q++) before |= o->reads.data[q] == old;
        if (!before || o == g) continue;
        waiting[i]++;
        tc_vec_push(x->arena, &next[j], i);
      }
    }
  }
  ints ready = {0};
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
    for (int32_t k = 0; k < next[i].count; k++) {
      if (--waiting[next[i].data[k]] == 0) tc_vec_push(x->arena, &ready, next[i].data[k]);
    }
  }
  if (done != n)
    return tc_error(TC_STATUS_INTERNAL, "the schedule has a cycle: %d of %d groups could be ordered", done, n);
  for (int32_t i = 0; i < n; i++) s->groups.data[i] = order[i];
  return TC_OK;
}
