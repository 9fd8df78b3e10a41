// The driver of scheduling.
#include "core/schedule/internal.h"

// A group whose results have no elements, whatever the symbols are, has nothing to do.
static void drop_empty(tc_schedule *s) {
  int32_t kept = 0;
  for (int32_t i = 0; i < s->groups.count; i++) {
    tc_group *g = s->groups.data[i];
    bool empty = g->writes.count > 0;
    for (int32_t k = 0; k < g->writes.count && empty; k++)
      empty = tc_sym_is_int(tc_product(s->loops, g->writes.data[k]->rank, g->writes.data[k]->sizes), 0);
    if (!empty) s->groups.data[kept++] = g;
  }
  s->groups.count = kept;
}

static tc_status arrange(tc_sched *x) {
  tc_schedule *s = x->s;
  for (int32_t i = 0; i < x->l->nodes.count; i++) x->l->nodes.data[i]->id = i;
  tc_sched_users(x);
  tc_sched_freeze(x);
  tc_sched_inline(x);
  tc_sched_freeze_rest(x);
  TC_TRY(tc_sched_fuse(x));
  for (int32_t i = 0; i < s->groups.count; i++) {
    s->groups.data[i]->id = i;
    tc_sched_hold(x, s->groups.data[i]);
  }
  tc_sched_layout(x);
  drop_empty(s);
  return tc_sched_order(x);
}

// Groups are numbered in execution order and names end with the number, so names are made last.
tc_status tc_schedule_loops(tc_loops *l, const tc_schedule_options *o, tc_schedule **out) {
  tc_schedule *s = TC_NEW(l->arena, tc_schedule);
  s->loops = l;
  tc_sched x = {.s = s, .l = l, .arena = l->arena, .o = o};
  x.columns = tc_map_create(l->arena);
  TC_TRY(tc_split_reductions(l, o->device, o->logger, x.columns));
  const void *lies = tc_sched_lies(l);
  TC_TRY(arrange(&x));
  if (o->fuse) TC_TRY(tc_sched_again(&x, lies, arrange));
  tc_log(o->logger, TC_LOG_FUSION, "%d candidates, %d merges: %d → %d nodes", s->n_candidates, s->n_merges,
         l->nodes.count, s->groups.count);
  if (tc_log_on(o->logger, TC_LOG_SCHEDULE)) {
    tc_sb sb = tc_sb_make(l->arena);
    tc_schedule_print(&sb, s);
    tc_log(o->logger, TC_LOG_SCHEDULE, "%s", sb.text);
  }
  *out = s;
  return TC_OK;
}
