// What emission and planning take for granted about a schedule, checked group by group in order of execution.
#include "core/schedule/internal.h"

typedef struct checker {
  const tc_schedule *s;
  const tc_group *g;
  bool *written; // by buffer id: in memory
  bool *made;    // by buffer id: by an earlier step of the group
  bool *once;    // by buffer id: in memory, by a group that is run once
  bool rest;     // groups that are run every time have begun
} checker;

static tc_status bad(const checker *c, const char *fmt, ...) TC_PRINTF(2, 3);
static tc_status bad(const checker *c, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  tc_status s = tc_errorv(TC_STATUS_INVALID_ARGUMENT, fmt, args);
  va_end(args);
  return c->g ? tc_status_note(s, "in the group @" TC_SV_FMT, TC_SV_ARG(c->g->name)) : s;
}

static bool is_among(const tc_group *g, const tc_buf *b) {
  for (int32_t i = 0; i < g->reads.count; i++) {
    if (g->reads.data[i] == b) return true;
  }
  return false;
}

static tc_status check_expr(const checker *c, const tc_sym *e) {
  if (e->kind == TC_SYM_SYMBOL) {
    int32_t origin = tc_sym_info_of(c->s->loops->syms, e)->origin;
    if (origin == TC_SYM_BACKED || origin == TC_SYM_UNBACKED) return TC_OK;
    for (int32_t i = 0; i < c->g->n_par + c->g->n_red; i++) {
      if (c->g->vars[i] == e) return TC_OK;
    }
    return bad(c, TC_SV_FMT " is no variable of the group", TC_SV_ARG(e->name));
  }
  for (int32_t i = 0; i < e->n; i++) TC_TRY(check_expr(c, e->kids[i]));
  return TC_OK;
}

static tc_status check_reads(const checker *c, const tc_step *s, const tc_lnode *n, int32_t depth);

// Pointwise work that no step names is computed where it is used, from what it reads itself.
static tc_status check_read(const checker *c, const tc_step *s, const tc_buf *b, int32_t depth) {
  if (c->made[b->id] || is_among(c->g, b)) return TC_OK;
  if (b->def && b->def->kind == TC_LN_POINTWISE && !c->written[b->id] && depth < c->s->loops->nodes.count)
    return check_reads(c, s, b->def, depth + 1);
  for (int32_t d = 0; d < b->rank; d++) { // what has no elements is never read
    if (tc_sym_is_int(b->sizes[d], 0)) return TC_OK;
  }
  return bad(c, "%%" TC_SV_FMT " uses %%" TC_SV_FMT ", which the group neither reads nor makes before it",
             TC_SV_ARG(s->node->outs[0]->name), TC_SV_ARG(b->name));
}

static tc_status check_reads(const checker *c, const tc_step *s, const tc_lnode *n, int32_t depth) {
  for (int32_t i = 0; i < n->body.insts.count; i++) {
    if (n->body.insts.data[i].op == TC_B_LOAD) TC_TRY(check_read(c, s, n->body.insts.data[i].buf, depth));
  }
  for (int32_t i = 0; i < n->n_operands; i++) TC_TRY(check_read(c, s, n->operands[i].buf, depth));
  return TC_OK;
}

// A part of a column: of the rows that the block takes.
static tc_status check_column(const checker *c, const tc_step *s) {
  const tc_lnode *n = s->node;
  tc_loops *l = c->s->loops;
  const tc_group *g = c->g;
  bool fits = n->kind == TC_LN_REDUCE && n->n_outs == 1 && n->n_par > 0 && n->n_red == 1 && g->rows > 0 && !g->stage;
  const tc_sym **at = TC_NEW_ARRAY(l->arena, const tc_sym *, n->n_par + n->n_red);
  fits = fits && tc_columns_map(l, n, g->rows, g->n_par, g->n_red, g->vars, g->extents, at);
  for (int32_t k = 0; fits && k < n->n_par + n->n_red; k++) fits = at[k] == s->at[k];
  const tc_sym *height = tc_product(l, g->n_par, g->extents), *rows = tc_sym_int(l->syms, g->rows);
  if (fits && s->stores && tc_sym_eq(l->syms, n->extents[0], tc_sym_ceildiv(l->syms, height, rows))) return TC_OK;
  return bad(c, "%%" TC_SV_FMT " is no part of the columns of the group's rows", TC_SV_ARG(n->outs[0]->name));
}

static tc_status check_step(checker *c, const tc_step *s) {
  const tc_lnode *n = s->node;
  if (s->hold < 0 || s->hold >= TC_HOLD_COUNT || s->phase < 0 || s->phase >= c->g->n_phases)
    return bad(c, "%%" TC_SV_FMT " has a place or phase that does not exist", TC_SV_ARG(n->outs[0]->name));
  if (s->dear && (n->kind != TC_LN_POINTWISE || (s->hold != TC_HOLD_INLINE && s->hold != TC_HOLD_TILE)))
    return bad(c, "%%" TC_SV_FMT " cannot be computed again and is dear", TC_SV_ARG(n->outs[0]->name));
  for (int32_t k = 0; k < n->n_par + n->n_red; k++) TC_TRY(check_expr(c, s->at[k]));
  if (s->hold == TC_HOLD_COLUMN) TC_TRY(check_column(c, s));
  TC_TRY(check_reads(c, s, n, 0));
  for (int32_t i = 0; i < n->n_outs; i++) c->made[n->outs[i]->id] = true;
  return TC_OK;
}

// What may be read once: it is the same in every run.
static bool is_kept(const checker *c, const tc_buf *b) {
  return b->kind == TC_BUF_INPUT ? tc_sched_constant_input(c->s->loops, b) : c->once[b->id];
}

static tc_status check_group(checker *c) {
  const tc_group *g = c->g;
  if (g->steps.count == 0) return bad(c, "it has no steps");
  if (g->once && c->rest) return bad(c, "what is done once comes first");
  c->rest |= !g->once;
  if (g->rows && (g->stage || g->call)) return bad(c, "only kernels of rows take several of them in a block");
  if (g->call && g->steps.count > 1) return bad(c, "a library call stands alone");
  for (int32_t i = 0; i < g->n_par + g->n_red; i++) TC_TRY(check_expr(c, g->extents[i]));
  for (int32_t i = 0; i < g->reads.count; i++) {
    const tc_buf *b = g->reads.data[i];
    if (b->kind != TC_BUF_INPUT && !c->written[b->id])
      return bad(c, "%%" TC_SV_FMT " is read before it is written", TC_SV_ARG(b->name));
    if (!b->strides) return bad(c, "%%" TC_SV_FMT " has no strides", TC_SV_ARG(b->name));
    if (g->once && !is_kept(c, b)) return bad(c, "%%" TC_SV_FMT " is read once, and may change", TC_SV_ARG(b->name));
  }
  for (int32_t i = 0; i < g->steps.count; i++) TC_TRY(check_step(c, &g->steps.data[i]));
  for (int32_t i = 0; i < g->writes.count; i++) {
    const tc_buf *b = g->writes.data[i];
    if (!c->made[b->id]) return bad(c, "%%" TC_SV_FMT " is written and never made", TC_SV_ARG(b->name));
    if (!b->strides) return bad(c, "%%" TC_SV_FMT " has no strides", TC_SV_ARG(b->name));
    c->written[b->id] = true, c->once[b->id] = g->once;
    if (g->once && (b->output >= 0 || b->inplace))
      return bad(c, "%%" TC_SV_FMT " is made once, and leaves the program", TC_SV_ARG(b->name));
  }
  for (int32_t i = 0; i < g->steps.count; i++) {
    const tc_lnode *n = g->steps.data[i].node;
    for (int32_t k = 0; k < n->n_outs; k++) c->made[n->outs[k]->id] = false;
  }
  return TC_OK;
}

tc_status tc_schedule_verify(const tc_schedule *s) {
  const tc_loops *l = s->loops;
  checker c = {.s = s,
               .written = TC_NEW_ARRAY(l->arena, bool, l->bufs.count),
               .once = TC_NEW_ARRAY(l->arena, bool, l->bufs.count),
               .made = TC_NEW_ARRAY(l->arena, bool, l->bufs.count)};
  for (int32_t i = 0; i < s->groups.count; i++) {
    c.g = s->groups.data[i];
    TC_TRY(check_group(&c));
  }
  c.g = NULL;
  for (int32_t i = 0; i < l->outputs.count; i++) {
    const tc_buf *b = l->outputs.data[i].buf;
    bool empty = false;
    for (int32_t d = 0; b && d < b->rank; d++) empty |= tc_sym_is_int(b->sizes[d], 0);
    if (b && b->kind != TC_BUF_INPUT && !c.written[b->id] && !empty)
      return bad(&c, "the output %%" TC_SV_FMT " is never written", TC_SV_ARG(b->name));
  }
  return TC_OK;
}
