// Where the members of a finished group keep their values, and in which phase they run.
//
// Phase 0 needs nothing from inside the group. What needs a row value (a reduction's result) runs in a later phase than
// the reduction; what follows a template at the same elements runs in its stores, in its phase; a reduction over, or
// a second template behind, what a template made runs one phase later, from an on-chip tile.
#include "core/schedule/internal.h"

enum { DEAR = 10 }; // scalar operations from which holding a row on chip beats computing it again

static tc_step *step_of(const tc_group *g, const tc_lnode *n) {
  for (int32_t i = 0; i < g->steps.count; i++) {
    if (g->steps.data[i].node == n) return &g->steps.data[i];
  }
  return NULL;
}

static bool escapes(tc_sched *x, const tc_buf *b, const tc_group *g) {
  if (b->output >= 0 || b->inplace) return true;
  const tc_users *u = &x->users[b->id];
  for (int32_t i = 0; i < u->nodes.count; i++) {
    const tc_lnode *n = u->nodes.data[i];
    if (x->inlined[n->id] ? escapes(x, n->outs[0], g) : x->group_of[n->id] != g) return true;
  }
  return false;
}

typedef struct dep {
  int32_t phase;   // the least phase that this read allows
  bool from_stage; // the value comes from a template of the group
} dep;

static dep depend(tc_sched *x, const tc_group *g, const tc_lnode *n, const bool *from_stage, int32_t kind) {
  dep out = {0, false};
  int32_t n_reads = n->body.insts.count + n->n_operands;
  for (int32_t i = 0; i < n_reads; i++) {
    const tc_buf *b = i < n->body.insts.count ? n->body.insts.data[i].buf : n->operands[i - n->body.insts.count].buf;
    if (!b || !b->def) continue;
    dep d = {0, false};
    if (x->inlined[b->def->id]) {
      d = depend(x, g, b->def, from_stage, kind);
    } else {
      const tc_step *s = step_of(g, b->def);
      if (!s) continue;
      bool staged = from_stage[s - g->steps.data];
      bool later = b->def->kind == TC_LN_REDUCE || (staged && kind != TC_LN_POINTWISE);
      d = (dep){s->phase + later, staged && b->def->kind != TC_LN_REDUCE};
    }
    if (d.phase > out.phase) out.phase = d.phase;
    out.from_stage |= d.from_stage;
  }
  return out;
}

// The last phase in which a step of the group reads the buffer, through inlined nodes too; -1: never.
static int32_t last_use(tc_sched *x, const tc_group *g, const tc_buf *b) {
  int32_t last = -1;
  const tc_users *u = &x->users[b->id];
  for (int32_t i = 0; i < u->nodes.count; i++) {
    const tc_lnode *n = u->nodes.data[i];
    const tc_step *s = x->inlined[n->id] ? NULL : step_of(g, n);
    int32_t phase = x->inlined[n->id] ? last_use(x, g, n->outs[0]) : s ? s->phase : -1;
    // A pointwise value that is itself inlined is read where its own users run.
    if (s && n->kind == TC_LN_POINTWISE && s->hold == TC_HOLD_INLINE && !s->stores) {
      int32_t through = last_use(x, g, n->outs[0]);
      if (through > phase) phase = through;
    }
    if (phase > last) last = phase;
  }
  return last;
}

// Does the node's result have an element for every point of the group's domain?
static bool is_full(tc_sched *x, const tc_group *g, const tc_lnode *n) {
  if (tc_sched_is_late(tc_sched_late_stage(g), n)) return true;
  return tc_sym_eq(x->l->syms, tc_product(x->l, n->n_par, n->extents),
                   tc_product(x->l, g->n_par + g->n_red, g->extents));
}

// The bytes that one element of the node reads by itself, through inlined nodes; single values that rows share cost
// nothing.
static int64_t bytes_read(tc_sched *x, const tc_lnode *n) {
  int64_t bytes = 0;
  for (int32_t i = 0; i < n->body.insts.count; i++) {
    const tc_binst *b = &n->body.insts.data[i];
    if (b->op != TC_B_LOAD) continue;
    if (b->buf->def && x->inlined[b->buf->def->id]) bytes += bytes_read(x, b->buf->def);
    else if (tc_buf_hint_bytes(x->l, b->buf) > tc_dtype_size(b->buf->dtype)) bytes += tc_dtype_size(b->buf->dtype);
  }
  return bytes;
}

// Is a row better held on chip than computed again in the `times` later phases that read it? Where lanes are SIMD
// elements each phase loads what it reads: then also a cheap sum of two long rows is, half of what it is made of.
static bool is_dear(tc_sched *x, const tc_group *g, const tc_lnode *n, int32_t times) {
  enum { LONG = 8192 }; // bytes
  if (x->cost[n->id] >= DEAR) return true;
  int64_t read = bytes_read(x, n), size = tc_dtype_size(n->outs[0]->dtype);
  int64_t row = tc_sym_hint_or(x->l->syms, tc_product(x->l, g->n_red, g->extents + g->n_par), 0);
  return x->o->device->simd_bytes && row * read >= LONG && read * times > size * (times + 1);
}

static void note_read(tc_sched *x, tc_group *g, const tc_buf *b) {
  if (b->def && x->inlined[b->def->id]) {
    for (int32_t i = 0; i < b->def->body.insts.count; i++) {
      if (b->def->body.insts.data[i].buf) note_read(x, g, b->def->body.insts.data[i].buf);
    }
    return;
  }
  if (b->def && x->group_of[b->def->id] == g) return;
  for (int32_t i = 0; i < g->reads.count; i++) {
    if (g->reads.data[i] == b) return;
  }
  tc_vec_push(x->arena, &g->reads, b);
}

static tc_sv kernel_name(tc_sched *x, const tc_group *g) {
  tc_sb sb = tc_sb_make(x->arena);
  tc_sv last = {0};
  int32_t shown = 0;
  for (int32_t i = 0; i < g->steps.count && shown < 5; i++) {
    const tc_lnode *n = g->steps.data[i].node;
    tc_sv op = n->op.size ? n->op : n->tmpl ? n->tmpl->name : n->name;
    if (op.size == 0 || tc_sv_eq(op, last)) continue;
    if (sb.size) tc_sb_putc(&sb, '_');
    for (size_t k = 0; k < op.size; k++)
      tc_sb_putc(&sb, (op.data[k] >= '0' && op.data[k] <= '9') || (op.data[k] >= 'a' && op.data[k] <= 'z') ||
                              (op.data[k] >= 'A' && op.data[k] <= 'Z')
                          ? op.data[k]
                          : '_');
    last = op;
    shown++;
  }
  if (!sb.size) tc_sb_putz(&sb, "kernel");
  return tc_sb_view(&sb);
}

// Phases from what each step reads; reductions start in `first`. Returns the last phase with a template, or -1.
static int32_t assign_phases(tc_sched *x, tc_group *g, int32_t first, bool *from_stage) {
  int32_t last_stage = -1;
  const tc_lnode *late = tc_sched_late_stage(g);
  g->n_phases = 0;
  for (int32_t i = 0; i < g->steps.count; i++) {
    tc_step *s = &g->steps.data[i];
    const tc_lnode *n = s->node;
    dep d = depend(x, g, n, from_stage, n->kind);
    s->phase = n->kind == TC_LN_REDUCE && d.phase < first ? first : d.phase;
    if (late && n != late && tc_sched_is_late(late, n)) { // in the stores of that template, whatever it reads
      for (int32_t k = 0; k < g->steps.count; k++) {
        const tc_step *other = &g->steps.data[k];
        if (other->node == late && other->phase > s->phase) s->phase = other->phase;
      }
    }
    from_stage[i] = n->kind == TC_LN_TEMPLATE || (n->kind == TC_LN_POINTWISE && d.from_stage);
    if (n->kind == TC_LN_TEMPLATE && s->phase > last_stage) last_stage = s->phase;
    if (s->phase + 1 > g->n_phases) g->n_phases = s->phase + 1;
  }
  return last_stage;
}

static void note_memory(tc_sched *x, tc_group *g, tc_step *s) {
  const tc_lnode *n = s->node;
  s->stores = false;
  for (int32_t k = 0; k < n->body.insts.count; k++) {
    if (n->body.insts.data[k].buf) note_read(x, g, n->body.insts.data[k].buf);
  }
  for (int32_t k = 0; k < n->n_operands; k++) note_read(x, g, n->operands[k].buf);
  for (int32_t k = 0; k < n->n_outs; k++) {
    if (!escapes(x, n->outs[k], g)) continue;
    s->stores = true;
    tc_vec_push(x->arena, &g->writes, n->outs[k]);
  }
}

void tc_group_hold_rows(tc_loops *l, const tc_device_props *device, tc_group *g) {
  int64_t on_chip = device->shared_bytes ? device->shared_bytes : device->l1_bytes ? device->l1_bytes : 32768;
  int64_t room = on_chip * 3 / 4, lo, row;
  tc_sym_range(l->syms, tc_product(l, g->n_red, g->extents + g->n_par), &lo, &row);
  for (int32_t i = g->steps.count - 1; i >= 0; i--) { // users first
    tc_step *s = &g->steps.data[i];
    if (!s->dear) continue;
    int32_t size = tc_dtype_size(s->node->outs[0]->dtype);
    bool fits = row > 1 && row <= room && row * size <= room; // a row without a bound does not
    s->hold = fits ? TC_HOLD_TILE : TC_HOLD_INLINE;
    if (fits) room -= row * size;
  }
}

void tc_sched_hold(tc_sched *x, tc_group *g) {
  bool *from_stage = TC_NEW_ARRAY(x->arena, bool, g->steps.count);
  int32_t last_stage = assign_phases(x, g, 0, from_stage);
  // In a template's phase everything runs inside its stores, element by element: reductions, and what is stored once
  // per row, wait until the tile is complete.
  if (last_stage >= 0) assign_phases(x, g, last_stage + 1, from_stage);
  for (int32_t i = 0; i < g->steps.count; i++) {
    tc_step *s = &g->steps.data[i];
    note_memory(x, g, s);
    if (s->node->kind != TC_LN_POINTWISE || !s->stores || s->phase > last_stage || is_full(x, g, s->node)) continue;
    s->phase = last_stage + 1;
    if (s->phase + 1 > g->n_phases) g->n_phases = s->phase + 1;
  }
  for (int32_t i = g->steps.count - 1; i >= 0; i--) { // users first
    tc_step *s = &g->steps.data[i];
    const tc_lnode *n = s->node;
    int32_t stage_phase = -1; // of the last template up to this step
    for (int32_t k = 0; k <= i; k++)
      stage_phase = g->steps.data[k].node->kind == TC_LN_TEMPLATE ? g->steps.data[k].phase : stage_phase;
    bool full = n->n_par + n->n_red > 0 && is_full(x, g, n);
    int32_t times = last_use(x, g, n->outs[0]) - s->phase;
    bool later = times > 0;
    s->dear = full && later && g->n_red && n->kind == TC_LN_POINTWISE && is_dear(x, g, n, times);
    if (n->kind == TC_LN_REDUCE) s->hold = g->rows && tc_column_part_of(x, n) ? TC_HOLD_COLUMN : TC_HOLD_ROW;
    else if (n->kind == TC_LN_TEMPLATE) s->hold = later ? TC_HOLD_TILE : TC_HOLD_INLINE;
    else if (n->kind == TC_LN_CALL) s->hold = TC_HOLD_MEMORY;
    else if (full && later && from_stage[i] && s->phase == stage_phase)
      s->hold = TC_HOLD_TILE, s->dear = false;              // cannot be computed again
    else s->hold = s->dear ? TC_HOLD_TILE : TC_HOLD_INLINE; // what only a held value needs is not dear itself
  }
  tc_group_hold_rows(x->l, x->o->device, g);
  g->kernel = kernel_name(x, g);
  g->name = tc_sv_printf(x->arena, TC_SV_FMT "_%d", TC_SV_ARG(g->kernel), g->id);
}
