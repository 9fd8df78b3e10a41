// Schedules as text (schedule.h shows it, parse.c has the grammar). Left out is what follows: the group's template or
// call, the number of its phases, its bytes (which stand there as a comment).
#include "core/schedule/internal.h"

const char *tc_hold_text(int32_t hold) {
  static const char *const texts[TC_HOLD_COUNT] = {"memory", "inline", "row", "tile", "column"};
  return texts[hold];
}

static void put_dims(tc_sb *sb, const tc_group *g, int32_t from, int32_t to) {
  for (int32_t d = from; d < to; d++) {
    if (d > from) tc_sb_putz(sb, ", ");
    tc_sym_print(sb, g->vars[d]);
    tc_sb_putz(sb, " : ");
    tc_sym_print(sb, g->extents[d]);
  }
}

static void put_buf(tc_sb *sb, tc_map *names, const tc_buf *b) {
  tc_sb_printf(sb, "%%" TC_SV_FMT, TC_SV_ARG(tc_loops_name(names, b)));
}

static void put_step(tc_sb *sb, tc_map *names, const tc_step *s) {
  const tc_lnode *n = s->node;
  tc_sb_printf(sb, "    phase %d: ", (int)s->phase);
  put_buf(sb, names, n->outs[0]);
  tc_sb_putc(sb, '[');
  for (int32_t k = 0; k < n->n_par + n->n_red; k++) {
    if (k) tc_sb_putz(sb, ", ");
    tc_sym_print(sb, s->at[k]);
  }
  tc_sb_printf(sb, "] %s%s%s\n", tc_hold_text(s->hold), s->dear ? ", dear" : "", s->stores ? ", stored" : "");
}

static void put_group(tc_sb *sb, tc_map *names, const tc_schedule *s, const tc_group *g) {
  tc_sb_printf(sb, "  group @" TC_SV_FMT " kernel @" TC_SV_FMT "%s [", TC_SV_ARG(g->name), TC_SV_ARG(g->kernel),
               g->once ? " once" : "");
  put_dims(sb, g, 0, g->n_par);
  tc_sb_putc(sb, ']');
  if (g->rows) tc_sb_printf(sb, " by %lld", (long long)g->rows);
  if (g->n_red) {
    tc_sb_putz(sb, " over [");
    put_dims(sb, g, g->n_par, g->n_par + g->n_red);
    tc_sb_putc(sb, ']');
  }
  tc_sb_putz(sb, " {\n");
  for (int32_t k = 0; k < g->steps.count; k++) put_step(sb, names, &g->steps.data[k]);
  tc_sb_putz(sb, "    reads");
  for (int32_t k = 0; k < g->reads.count; k++) {
    tc_sb_putc(sb, ' ');
    put_buf(sb, names, g->reads.data[k]);
  }
  tc_sb_putz(sb, "\n    writes");
  for (int32_t k = 0; k < g->writes.count; k++) {
    tc_sb_putc(sb, ' ');
    put_buf(sb, names, g->writes.data[k]);
  }
  tc_sb_putz(sb, "\n    # bytes ");
  tc_sym_print(sb, tc_group_bytes((tc_schedule *)(uintptr_t)s, g));
  tc_sb_putz(sb, "\n  }\n");
}

void tc_schedule_print(tc_sb *sb, const tc_schedule *s) {
  tc_map *names = tc_map_create(sb->arena);
  tc_loops_print_named(sb, s->loops, names);
  tc_sb_printf(sb, "schedule candidates %d merges %d {\n", (int)s->n_candidates, (int)s->n_merges);
  for (int32_t i = 0; i < s->groups.count; i++) put_group(sb, names, s, s->groups.data[i]);
  for (int32_t i = 0; i < s->refusals.count; i++) {
    const tc_refusal *r = &s->refusals.data[i];
    tc_sb_putz(sb, "  refused ");
    put_buf(sb, names, r->producer->outs[0]);
    tc_sb_putz(sb, " with ");
    put_buf(sb, names, r->consumer->outs[0]);
    tc_sb_putz(sb, ": ");
    tc_sb_quoted(sb, r->reason);
    tc_sb_putc(sb, '\n');
  }
  tc_sb_putz(sb, "}\n");
}
