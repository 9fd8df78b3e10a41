// Merging of groups by gain.
//
// Every node that is not inlined starts as a group. Candidate pairs share a buffer: one writes it and the other reads
// it (vertical), or both read it (horizontal); when nothing else merges, small groups over the same domain become
// pairs, to save launches. A heap gives the pair that saves most bytes; it is merged if it is legal now, or its refusal
// is noted. Merging maps the members of one group to the variables of the other, the finer factorisation of the common
// domain. Cost: each merge looks at the members of the smaller side and at paths between the two; near-linear for real
// graphs.
#include "core/schedule/internal.h"

typedef struct pair {
  int64_t gain;
  tc_lnode *producer, *consumer; // nodes, since groups change
  bool vertical;
} pair;

typedef struct heap {
  TC_VEC(pair) v;
} heap;

static void heap_push(tc_sched *x, heap *h, pair p) {
  tc_vec_push(x->arena, &h->v, p);
  int32_t i = h->v.count - 1;
  while (i > 0 && h->v.data[(i - 1) / 2].gain < h->v.data[i].gain) {
    pair t = h->v.data[i];
    h->v.data[i] = h->v.data[(i - 1) / 2];
    h->v.data[(i - 1) / 2] = t;
    i = (i - 1) / 2;
  }
}

static pair heap_pop(heap *h) {
  pair top = h->v.data[0];
  h->v.data[0] = h->v.data[--h->v.count];
  for (int32_t i = 0;;) {
    int32_t k = 2 * i + 1;
    if (k >= h->v.count) break;
    if (k + 1 < h->v.count && h->v.data[k + 1].gain > h->v.data[k].gain) k++;
    if (h->v.data[i].gain >= h->v.data[k].gain) break;
    pair t = h->v.data[i];
    h->v.data[i] = h->v.data[k];
    h->v.data[k] = t;
    i = k;
  }
  return top;
}

// How the text of the loops calls a node: what one op became has one name otherwise.
static tc_sv name_of(tc_sched *x, const tc_lnode *n) {
  if (!tc_log_on(x->o->logger, TC_LOG_FUSION)) return n->outs[0]->name;
  if (!x->names) x->names = tc_loops_names(x->arena, x->l);
  return tc_loops_name(x->names, n->outs[0]);
}

static void refuse(tc_sched *x, const pair *p, const char *fmt, ...) TC_PRINTF(3, 4);
static void refuse(tc_sched *x, const pair *p, const char *fmt, ...) {
  tc_sb sb = tc_sb_make(x->arena);
  va_list args;
  va_start(args, fmt);
  tc_sb_vprintf(&sb, fmt, args);
  va_end(args);
  tc_refusal r = {p->producer, p->consumer, tc_sb_view(&sb)};
  tc_vec_push(x->arena, &x->s->refusals, r);
  tc_log(x->o->logger, TC_LOG_FUSION, "not fusing " TC_SV_FMT " with " TC_SV_FMT ": " TC_SV_FMT,
         TC_SV_ARG(name_of(x, p->producer)), TC_SV_ARG(name_of(x, p->consumer)), TC_SV_ARG(r.reason));
}

// ---- domains ----
typedef struct domain {
  int32_t n_par, n_red;
  const tc_sym *const *vars, *const *extents;
  const tc_lnode *late; // late.c
  int64_t rows;         // of a block that makes parts of columns, too; 0: none
} domain;

static domain domain_of(const tc_group *g) {
  return (domain){g->n_par, g->n_red, g->vars, g->extents, tc_sched_late_stage(g), g->rows};
}
static const tc_sym *par(tc_sched *x, domain d) { return tc_product(x->l, d.n_par, d.extents); }
static const tc_sym *red(tc_sched *x, domain d) { return tc_product(x->l, d.n_red, d.extents + d.n_par); }

// Where the body of a mapped node reads a buffer of group `from`: is each such load in line with the variables of `to`?
// Sees through inlined producers. *out_bad names the first that is not.
static bool loads_aligned(tc_sched *x, const tc_lnode *n, const tc_sym *const *at, const tc_group *from, domain to,
                          const tc_buf **out_bad) {
  tc_sym_ctx *c = x->l->syms;
  int32_t n_vars = n->n_par + n->n_red;
  for (int32_t i = 0; i < n->body.insts.count; i++) {
    const tc_binst *b = &n->body.insts.data[i];
    if (b->op != TC_B_LOAD || !b->buf->def) continue;
    tc_lnode *def = b->buf->def;
    if (!x->inlined[def->id] && x->group_of[def->id] != from) continue;
    const tc_sym **index = TC_NEW_ARRAY(x->arena, const tc_sym *, b->buf->rank);
    for (int32_t d = 0; d < b->buf->rank; d++) index[d] = tc_sym_replace(c, b->index[d], n_vars, n->vars, at);
    if (x->inlined[def->id]) {
      if (!loads_aligned(x, def, index, from, to, out_bad)) return false;
      continue;
    }
    const tc_sym *flat = tc_row_major_index(x->l, b->buf->rank, b->buf->sizes, index);
    bool always = !b->cond || tc_sym_prove(c, tc_sym_replace(c, b->cond, n_vars, n->vars, at)) == 1;
    bool row = def->kind == TC_LN_REDUCE || tc_sym_eq(c, tc_product(x->l, b->buf->rank, b->buf->sizes), par(x, to));
    int32_t n_to = row ? to.n_par : to.n_par + to.n_red;
    const tc_sym *const *extents = tc_sched_is_late(to.late, def) ? def->extents : to.extents;
    if (b->gather || !always || flat != tc_row_major_index(x->l, n_to, extents, to.vars)) {
      *out_bad = b->buf;
      return false;
    }
  }
  return true;
}

// Is the buffer made in the group, or computed by inlined nodes from what is?
static bool comes_from(tc_sched *x, const tc_buf *b, const tc_group *g) {
  if (!b->def) return false;
  if (!x->inlined[b->def->id]) return x->group_of[b->def->id] == g;
  for (int32_t i = 0; i < b->def->body.insts.count; i++) {
    if (b->def->body.insts.data[i].buf && comes_from(x, b->def->body.insts.data[i].buf, g)) return true;
  }
  return false;
}

// Operands of the templates of g that are made in `from` must be local and read as they are, without work in front.
static bool operands_local(tc_sched *x, const tc_group *g, const tc_group *from) {
  for (int32_t i = 0; i < g->steps.count; i++) {
    const tc_lnode *n = g->steps.data[i].node;
    for (int32_t k = 0; k < n->n_operands; k++) {
      const tc_lview *v = &n->operands[k];
      if (!comes_from(x, v->buf, from)) continue;
      bool local = n->tmpl && (n->tmpl->local_operands >> k & 1);
      if (x->inlined[v->buf->def->id] || !local || !tc_lview_is_whole(v)) return false;
    }
  }
  return true;
}

// Is the buffer made from a reduction of one of the two groups, inside of them?
static bool from_reduction(tc_sched *x, const tc_buf *b, const tc_group *g, const tc_group *h) {
  const tc_lnode *n = b->def;
  if (!n) return false;
  bool member = !x->inlined[n->id] && (x->group_of[n->id] == g || x->group_of[n->id] == h);
  if (!x->inlined[n->id] && !member) return false;
  if (n->kind == TC_LN_REDUCE) return true;
  if (x->node_mark[n->id] == 2 * x->stamp) return false; // seen already
  x->node_mark[n->id] = 2 * x->stamp;
  for (int32_t i = 0; i < n->body.insts.count; i++) {
    if (n->body.insts.data[i].buf && from_reduction(x, n->body.insts.data[i].buf, g, h)) return true;
  }
  for (int32_t i = 0; i < n->n_operands; i++) {
    if (from_reduction(x, n->operands[i].buf, g, h)) return true;
  }
  return false;
}

// Templates come first in their kernel: none may wait for a reduction.
static bool stage_waits(tc_sched *x, const tc_group *a, const tc_group *b) {
  x->stamp++;
  for (int32_t side = 0; side < 2; side++) {
    const tc_group *g = side ? b : a;
    for (int32_t i = 0; i < g->steps.count; i++) {
      const tc_lnode *n = g->steps.data[i].node;
      for (int32_t k = 0; k < n->n_operands; k++) {
        if (from_reduction(x, n->operands[k].buf, a, b)) return true;
      }
    }
  }
  return false;
}

// Is the buffer made by the group g, or from what it makes by pointwise nodes that are not in it?
static bool made_from(tc_sched *x, const tc_buf *b, const tc_group *g, int32_t depth) {
  const tc_lnode *n = b->def;
  if (!n || depth > 16) return false;
  if (!x->inlined[n->id] && x->group_of[n->id] == g) return true;
  for (int32_t i = 0; n->kind == TC_LN_POINTWISE && i < n->body.insts.count; i++)
    if (n->body.insts.data[i].buf && made_from(x, n->body.insts.data[i].buf, g, depth + 1)) return true;
  return false;
}

// Does a template read what the group makes, or what pointwise steps of its own group make of that?
static bool feeds(tc_sched *x, const tc_group *g, const tc_lnode *stage) {
  for (int32_t k = 0; k < stage->n_operands; k++) {
    const tc_lnode *def = stage->operands[k].buf->def;
    if (def && !x->inlined[def->id] && made_from(x, stage->operands[k].buf, g, 0)) return true;
  }
  return false;
}

// Maps the steps of g to the variables of d; NULL if the domains do not line up.
static const tc_sym *const **map_steps(tc_sched *x, const tc_group *g, domain d) {
  const tc_sym *const **out = TC_NEW_ARRAY(x->arena, const tc_sym *const *, g->steps.count);
  const tc_sym *total = tc_sym_mul(x->l->syms, par(x, d), red(x, d));
  for (int32_t i = 0; i < g->steps.count; i++) {
    const tc_lnode *n = g->steps.data[i].node;
    int32_t count = n->n_par + n->n_red;
    const tc_sym **at = TC_NEW_ARRAY(x->arena, const tc_sym *, count);
    out[i] = at;
    if (tc_sched_is_late(d.late, n)) {
      for (int32_t k = 0; k < count; k++) at[k] = d.vars[k];
      continue;
    }
    if (d.rows && tc_column_part_of(x, n)) {
      if (!tc_columns_map(x->l, n, d.rows, d.n_par, d.n_red, d.vars, d.extents, at)) return NULL;
      continue;
    }
    bool full = tc_sym_eq(x->l->syms, tc_product(x->l, count, n->extents), total);
    int32_t n_to = full ? d.n_par + d.n_red : d.n_par;
    if (!tc_map_domain(x->l, n_to, d.vars, d.extents, count, n->extents, at)) return NULL;
  }
  return out;
}

// ---- legality ----
// Groups are kept in a topological order: x->pos by group, x->in_order by position (after Pearce and Kelly, "A dynamic
// topological sort algorithm for directed acyclic graphs", 2006). A search for a way from a to b then leaves out
// everything behind b, and a merge moves only what stands between the two.
typedef struct search {
  tc_sched *x;
  tc_group *from;
  const tc_group *to;
} search;

static bool group_reaches(const search *s, tc_group *g);

// Does a reader of the node's results, through inlined ones, lead to `to`? Readers in `to` itself do not count if
// `direct`.
static bool node_reaches(const search *s, const tc_lnode *n, const tc_group *self, bool direct) {
  tc_sched *x = s->x;
  for (int32_t k = 0; k < n->n_outs; k++) {
    const tc_users *u = &x->users[n->outs[k]->id];
    for (int32_t q = 0; q < u->nodes.count; q++) {
      const tc_lnode *user = u->nodes.data[q];
      if (x->inlined[user->id]) {
        int32_t seen = 2 * x->stamp + direct;
        if (x->node_mark[user->id] == seen) continue;
        x->node_mark[user->id] = seen;
        if (node_reaches(s, user, self, direct)) return true;
        continue;
      }
      tc_group *g = x->group_of[user->id];
      if (g == self || (g == s->to && direct)) continue;
      if (g == s->to || group_reaches(s, g)) return true;
    }
  }
  return false;
}

static bool group_reaches(const search *s, tc_group *g) {
  tc_sched *x = s->x;
  if (x->mark[g->id] == x->stamp || x->pos[g->id] > x->pos[s->to->id]) return false;
  x->mark[g->id] = x->stamp;
  for (int32_t i = 0; i < g->steps.count; i++) {
    if (node_reaches(s, g->steps.data[i].node, g, g == s->from)) return true;
  }
  return false;
}

// Is there a way between the two that goes through a third group? Merging would make a cycle. Marks what the first one
// in the order reaches.
static bool indirect_path(tc_sched *x, tc_group *a, tc_group *b) {
  bool first = x->pos[a->id] < x->pos[b->id];
  search s = {x, first ? a : b, first ? b : a};
  x->stamp++;
  return group_reaches(&s, s.from);
}

// a takes b in; the groups between them that the first one reaches (marked) go behind the merged one.
static void reorder(tc_sched *x, tc_group *a, tc_group *b) {
  int32_t lo = x->pos[a->id], hi = x->pos[b->id];
  if (lo > hi) lo = x->pos[b->id], hi = x->pos[a->id];
  int32_t at = lo;
  TC_VEC(tc_group *) behind = {0};
  for (int32_t i = lo; i <= hi; i++) {
    tc_group *g = x->in_order[i];
    if (g == a || g == b) continue;
    if (x->mark[g->id] == x->stamp) tc_vec_push(x->arena, &behind, g);
    else x->in_order[at++] = g;
  }
  x->in_order[at++] = a;
  for (int32_t i = 0; i < behind.count; i++) x->in_order[at++] = behind.data[i];
  x->in_order[at] = b;
  for (int32_t i = lo; i <= hi; i++) x->pos[x->in_order[i]->id] = i;
}

static int32_t count_kind(const tc_group *g, int32_t kind) {
  int32_t n = 0;
  for (int32_t i = 0; i < g->steps.count; i++) n += g->steps.data[i].node->kind == kind;
  return n;
}

// Two templates over the same rows, the second with rows of another length: the domain is that of the first, with the
// variables of the longer rows, whose ranges hold for both.
static bool two_lengths(const tc_group *a, const tc_group *b, domain *out) {
  if (!a->stage || !b->stage || count_kind(a, TC_LN_REDUCE) || count_kind(b, TC_LN_REDUCE)) return false;
  if (tc_sched_late_stage(a) || tc_sched_late_stage(b)) return false;
  if (a->n_par != b->n_par || a->n_red != 1 || b->n_red != 1) return false;
  for (int32_t d = 0; d < a->n_par; d++) {
    if (a->extents[d] != b->extents[d]) return false;
  }
  const tc_sym *la = a->extents[a->n_par], *lb = b->extents[b->n_par];
  if (!tc_sym_is_const(la) || !tc_sym_is_const(lb) || la->value < 2 || lb->value < 2) return false;
  for (int32_t i = 0; i < b->steps.count; i++) {
    const tc_lnode *n = b->steps.data[i].node;
    if (!tc_sched_is_late(b->stage, n) || (n->kind == TC_LN_TEMPLATE && n != b->stage)) return false;
  }
  *out = domain_of(a);
  if (lb->value > la->value) out->vars = b->vars;
  out->late = b->stage;
  return true;
}

// Points that follow the second of two templates with rows of different lengths.
static bool all_late(const tc_group *points, const tc_lnode *late) {
  for (int32_t i = 0; i < points->steps.count; i++) {
    if (!tc_sched_is_late(late, points->steps.data[i].node)) return false;
  }
  return late != NULL;
}

static int32_t count_parts(const tc_sched *x, const tc_group *g) {
  int32_t n = 0;
  for (int32_t i = 0; i < g->steps.count; i++) n += tc_column_part_of(x, g->steps.data[i].node) != NULL;
  return n;
}

// Parts of columns join rows that they are parts of: in the domain of the rows.
static bool join_rows(tc_sched *x, const pair *p, const tc_group *rows, const tc_group *columns, domain *out) {
  tc_sym_ctx *c = x->l->syms;
  const tc_column_part *part = tc_columns_of(x, columns);
  const tc_lnode *n = columns->steps.data[0].node;
  *out = domain_of(rows);
  if (rows->stage || !count_kind(rows, TC_LN_REDUCE)) {
    refuse(x, p, "columns join rows that something is reduced over");
    return false;
  }
  if ((out->rows && out->rows != part->rows) || !tc_sym_eq(c, par(x, *out), part->height) ||
      !tc_sym_eq(c, red(x, *out), tc_product(x->l, n->n_par - 1, n->extents + 1))) {
    refuse(x, p, "the columns are not those of the rows");
    return false;
  }
  out->rows = part->rows;
  return true;
}

// Decides the merged domain; false with a reason.
static bool merged_domain(tc_sched *x, const pair *p, tc_group *a, tc_group *b, domain *out) {
  enum { MOST_PARTS = 8 }; // all of them lie in the cache beside a row
  tc_sym_ctx *c = x->l->syms;
  domain da = domain_of(a), db = domain_of(b);
  if (count_parts(x, a) + count_parts(x, b) > MOST_PARTS) {
    refuse(x, p, "a block would make parts of more than %d columns", MOST_PARTS);
    return false;
  }
  bool columns_a = tc_columns_of(x, a) != NULL, columns_b = tc_columns_of(x, b) != NULL;
  if (columns_a != columns_b) return join_rows(x, p, columns_a ? b : a, columns_a ? a : b, out);
  if ((a->rows && b->rows && a->rows != b->rows) || ((a->rows || b->rows) && (a->stage || b->stage))) {
    refuse(x, p, "the rows of a block make parts of columns");
    return false;
  }
  bool rows_a = count_kind(a, TC_LN_REDUCE) || a->stage, rows_b = count_kind(b, TC_LN_REDUCE) || b->stage;
  if (rows_a && rows_b) {
    if (da.late || db.late) {
      refuse(x, p, "two templates with rows of different lengths are followed by element-wise work only");
      return false;
    }
    if (red(x, da) != red(x, db) && two_lengths(a, b, out)) return true;
    if (!tc_sym_eq(c, par(x, da), par(x, db)) || !tc_sym_eq(c, red(x, da), red(x, db))) {
      refuse(x, p, "their rows differ");
      return false;
    }
    bool first = da.n_par + da.n_red >= db.n_par + db.n_red;
    if (a->stage || b->stage) first = a->stage != NULL; // a stage's tiles are laid over its own dimensions
    *out = first ? da : db;
    out->rows = a->rows ? a->rows : b->rows;
    return true;
  }
  if (!rows_a && !rows_b) {
    if (!tc_sym_eq(c, par(x, da), par(x, db))) {
      refuse(x, p, "their iteration domains differ");
      return false;
    }
    *out = da.n_par >= db.n_par ? da : db;
    return true;
  }
  domain rows = rows_a ? da : db, points = rows_a ? db : da;
  const tc_sym *n = par(x, points);
  if (all_late(rows_a ? b : a, rows.late)) {
    *out = rows;
    return true;
  }
  if (!tc_sym_eq(c, n, par(x, rows)) && !tc_sym_eq(c, n, tc_sym_mul(c, par(x, rows), red(x, rows)))) {
    refuse(x, p, "the iteration domain is neither the rows nor the elements of the reduction");
    return false;
  }
  *out = rows;
  return true;
}

static bool enough_rows(tc_sched *x, domain d) {
  int64_t rows = tc_sym_hint_or(x->l->syms, par(x, d), 1 << 20), row = tc_sym_hint_or(x->l->syms, red(x, d), 1);
  return rows >= 2 * x->o->device->cores || rows * row <= 1 << 15;
}

// What a stage must hold on chip when a reduction over its rows follows: a tile with whole rows.
static bool rows_fit(tc_sched *x, domain d) {
  int64_t lo, row;
  tc_sym_range(x->l->syms, red(x, d), &lo, &row);
  int64_t bytes = x->o->device->shared_bytes ? x->o->device->shared_bytes : 65536;
  return row != TC_SYM_INF && row <= bytes / 64;
}

// Would tiles of whole rows leave most of the device idle, where others would not? So many rows a tile has at least,
// where lanes are threads. A template that needs operands only where it makes its result has such tiles anyway, and
// next to nothing is not worth a launch.
enum { TILE_ROWS = 4, NOTHING = 1024 };
static bool few_tiles(tc_sched *x, const tc_lnode *stage, domain d) {
  int64_t rows = tc_sym_hint_or(x->l->syms, par(x, d), 1 << 20), row = tc_sym_hint_or(x->l->syms, red(x, d), 1);
  return !x->o->device->simd_bytes && !stage->tmpl->local_operands && rows * row > NOTHING &&
         rows < (int64_t)TILE_ROWS * x->o->device->cores;
}

// Lanes that are threads make products by tiles of at most so many columns together; longer rows are made by single
// micro-tiles, which took 29 ms for 0.23 (1024 × 4096 × 1024 of f32 on an H200).
enum { TILE_COLUMNS = 128 };
static bool beyond_tiles(tc_sched *x, const tc_lnode *stage, domain d) {
  int64_t rows = tc_sym_hint_or(x->l->syms, par(x, d), 1 << 20), row = tc_sym_hint_or(x->l->syms, red(x, d), 1);
  bool product = stage->n_operands > 1 && !stage->tmpl->local_operands;
  return !x->o->device->simd_bytes && product && row > TILE_COLUMNS && rows * row > NOTHING;
}

// Where lanes are elements of registers, a tile of whole rows is low if rows are long, and every one of them reads all
// of the factor that it multiplies by, which other tiles read once for many rows: too slow, unless the factor stays in
// a core's own cache.
static bool streams_factor(tc_sched *x, const tc_lnode *stage, domain d) {
  enum { HIGH = 64, TILE_BYTES = 65536 };
  const tc_device_props *device = x->o->device;
  const tc_buf *out = stage->outs[0];
  int64_t matrices = 1, row = tc_sym_hint_or(x->l->syms, red(x, d), 1) * tc_dtype_size(out->dtype);
  if (!device->simd_bytes || !device->l2_bytes || row * HIGH <= TILE_BYTES) return false;
  for (int32_t i = 0; i + 2 < out->rank; i++) matrices *= tc_sym_hint_or(x->l->syms, out->sizes[i], 1);
  for (int32_t k = 1; k < stage->n_operands; k++)
    if (tc_buf_hint_bytes(x->l, stage->operands[k].buf) > matrices * device->l2_bytes / 2) return true;
  return false;
}

static bool owns_result(const tc_lnode *stage) { return stage->tmpl->flags & TC_TEMPLATE_OWN_RESULT; }

// Does the group write in place, or read what is written over later? Such groups keep their place in the order.
static bool is_bound(const tc_group *g) {
  for (int32_t i = 0; i < g->steps.count; i++) {
    const tc_lnode *n = g->steps.data[i].node;
    for (int32_t k = 0; k < n->n_outs; k++)
      if (n->outs[k]->inplace) return true;
    for (int32_t k = 0; k < n->body.insts.count; k++)
      if (n->body.insts.data[k].op == TC_B_LOAD && n->body.insts.data[k].buf->overwritten) return true;
    for (int32_t k = 0; k < n->n_operands; k++)
      if (n->operands[k].buf->overwritten) return true;
  }
  return false;
}

// Does the group reduce columns whose neighbours lie together in memory?
static bool reduces_columns(tc_sched *x, const tc_group *g) {
  const tc_sym *extent;
  bool any = false;
  for (int32_t i = 0; i < g->steps.count; i++) {
    const tc_lnode *n = g->steps.data[i].node;
    any |= n->kind == TC_LN_REDUCE && !tc_column_part_of(x, n) && tc_along_columns(x->l, n, &extent);
  }
  return any;
}

// Does it store elements one behind the other along what the domain reduces, in an order of its own choice?
static bool stores_rows(tc_sched *x, const tc_group *g, domain d) {
  bool any = false;
  for (int32_t i = 0; i < g->steps.count; i++) {
    const tc_lnode *n = g->steps.data[i].node;
    const tc_buf *b = n->outs[0];
    bool full =
        tc_sym_eq(x->l->syms, tc_product(x->l, n->n_par, n->extents), tc_sym_mul(x->l->syms, par(x, d), red(x, d)));
    any |= n->kind == TC_LN_POINTWISE && full && b->kind == TC_BUF_INTERNAL && !b->strides && !b->prefer;
  }
  return any;
}

// May lanes of vectors turn neighbours of their rows (core/kernel/emit_columns.c), and so do both in one pass? Each
// lane has a row: there must be many.
static bool turns_rows(tc_sched *x, domain d) {
  enum { LANES = 64 };
  int64_t rows = tc_sym_hint_or(x->l->syms, par(x, d), 1);
  return tc_turned_width(x->o->device, rows, red(x, d)) && rows / LANES >= 2 * x->o->device->cores;
}

static bool legal(tc_sched *x, const pair *p, tc_group *a, tc_group *b, domain *out, const tc_sym *const ***out_a,
                  const tc_sym *const ***out_b) {
  int32_t most = x->o->max_group ? x->o->max_group : 64;
  if (a->call || b->call) {
    refuse(x, p, "a library call is not fused");
    return false;
  }
  if (a->once != b->once) {
    refuse(x, p, "one of them depends on constants only, and is done once");
    return false;
  }
  if ((a->stage && owns_result(a->stage)) || (b->stage && owns_result(b->stage))) {
    refuse(x, p, "the template works on its result in memory");
    return false;
  }
  if (is_bound(a) || is_bound(b)) {
    refuse(x, p, "one of them writes in place, or reads what is written in place later");
    return false;
  }
  if (a->steps.count + b->steps.count > most) {
    refuse(x, p, "the group would have more than %d nodes", most);
    return false;
  }
  if (!operands_local(x, b, a) || !operands_local(x, a, b)) {
    refuse(x, p, "the template reads the buffer more than once");
    return false;
  }
  if (!p->vertical && (a->stage || b->stage)) {
    refuse(x, p, "templates share inputs only with what follows them");
    return false;
  }
  if (a->stage && b->stage && !feeds(x, a, b->stage)) {
    refuse(x, p, "two templates share a kernel only if one reads the other's tile");
    return false;
  }
  if (!merged_domain(x, p, a, b, out)) return false;
  if (b->stage && !a->stage && !count_kind(a, TC_LN_REDUCE) &&
      !tc_sym_eq(x->l->syms, par(x, domain_of(a)), tc_sym_mul(x->l->syms, par(x, *out), red(x, *out)))) {
    refuse(x, p, "work per row in front of a template has no place in its tiles");
    return false;
  }
  bool stage = a->stage || b->stage, reduces = count_kind(a, TC_LN_REDUCE) + count_kind(b, TC_LN_REDUCE) > 0;
  if (out->n_red && reduces && !stage && !enough_rows(x, *out)) {
    refuse(x, p, "too few rows to occupy the device");
    return false;
  }
  if (!stage && out->n_red && !turns_rows(x, *out) &&
      ((reduces_columns(x, a) && stores_rows(x, b, *out)) || (reduces_columns(x, b) && stores_rows(x, a, *out)))) {
    refuse(x, p, "one reduces columns along memory, the other stores rows");
    return false;
  }
  if (stage && reduces && stage_waits(x, a, b)) {
    refuse(x, p, "a template cannot follow a reduction in its kernel");
    return false;
  }
  if (stage && reduces && !rows_fit(x, *out)) {
    refuse(x, p, "the template's tile cannot hold whole rows");
    return false;
  }
  if (stage && reduces && out->n_red && few_tiles(x, a->stage ? a->stage : b->stage, *out)) {
    refuse(x, p, "too few rows to occupy the device");
    return false;
  }
  if (stage && reduces && out->n_red && beyond_tiles(x, a->stage ? a->stage : b->stage, *out)) {
    refuse(x, p, "rows are longer than the template's tiles");
    return false;
  }
  if (stage && reduces && out->n_red && streams_factor(x, a->stage ? a->stage : b->stage, *out)) {
    refuse(x, p, "every tile of whole rows would read a factor that is larger than a core's cache");
    return false;
  }
  *out_a = map_steps(x, a, *out);
  *out_b = map_steps(x, b, *out);
  if (!*out_a || !*out_b) {
    refuse(x, p, "their dimensions do not line up");
    return false;
  }
  // Either may read what the other makes, whichever the pair was found by.
  const tc_buf *bad = NULL;
  bool aligned = true;
  for (int32_t i = 0; i < b->steps.count && aligned; i++)
    aligned = loads_aligned(x, b->steps.data[i].node, (*out_b)[i], a, *out, &bad);
  for (int32_t i = 0; i < a->steps.count && aligned; i++)
    aligned = loads_aligned(x, a->steps.data[i].node, (*out_a)[i], b, *out, &bad);
  if (!aligned) {
    refuse(x, p, TC_SV_FMT " is read in another order than it is made", TC_SV_ARG(bad->name));
    return false;
  }
  if (indirect_path(x, a, b)) {
    refuse(x, p, "it would make a cycle");
    return false;
  }
  return true;
}

// ---- merging ----
static void merge(tc_sched *x, tc_group *a, tc_group *b, domain d, const tc_sym *const **at_a,
                  const tc_sym *const **at_b) {
  TC_VEC(tc_step) steps = {0};
  int32_t i = 0, j = 0;
  while (i < a->steps.count || j < b->steps.count) { // by node number, which is a topological order
    bool first = j == b->steps.count || (i < a->steps.count && a->steps.data[i].node->id < b->steps.data[j].node->id);
    tc_step s = first ? a->steps.data[i] : b->steps.data[j];
    s.at = first ? at_a[i++] : at_b[j++];
    tc_vec_push(x->arena, &steps, s);
  }
  a->n_par = d.n_par;
  a->n_red = d.n_red;
  a->rows = d.rows;
  a->vars = d.vars;
  a->extents = d.extents;
  a->steps.data = steps.data;
  a->steps.count = steps.count;
  a->steps.capacity = steps.capacity;
  a->stage = NULL;
  for (int32_t k = 0; k < steps.count; k++) {
    tc_lnode *n = steps.data[k].node;
    x->group_of[n->id] = a;
    if (n->kind == TC_LN_TEMPLATE && !a->stage) a->stage = n;
  }
  b->steps.count = 0;
}

static tc_group *new_group(tc_sched *x, tc_lnode *n) {
  tc_group *g = TC_NEW(x->arena, tc_group);
  *g = (tc_group){
      .id = x->s->groups.count, .n_par = n->n_par, .n_red = n->n_red, .vars = n->vars, .extents = n->extents};
  if (n->kind == TC_LN_TEMPLATE) {
    g->stage = n;
    if (n->n_par > 0) g->n_par = n->n_par - 1, g->n_red = 1; // the last dimension is the row
  }
  if (n->kind == TC_LN_CALL) g->call = n;
  g->once = x->once[n->id];
  tc_step s = {.node = n, .at = n->vars};
  tc_vec_push(x->arena, &g->steps, s);
  tc_vec_push(x->arena, &x->s->groups, g);
  x->group_of[n->id] = g;
  return g;
}

// The real producers behind a buffer, through inlined nodes, become candidates with the consumer.
static void vertical_pairs(tc_sched *x, heap *h, const tc_buf *b, tc_lnode *consumer, int32_t depth) {
  tc_lnode *def = b->def;
  if (!def || depth > 32 || tc_column_part_of(x, def))
    return; // parts of columns are put together by a kernel of its own
  if (x->inlined[def->id]) {
    for (int32_t i = 0; i < def->body.insts.count; i++) {
      if (def->body.insts.data[i].buf) vertical_pairs(x, h, def->body.insts.data[i].buf, consumer, depth + 1);
    }
    return;
  }
  int64_t bytes = tc_buf_hint_bytes(x->l, b);
  bool only = x->users[b->id].nodes.count == 1 && b->output < 0;
  int64_t launch = x->o->device->launch_ns * (x->o->device->bytes_per_ns ? x->o->device->bytes_per_ns : 10);
  heap_push(x, h,
            (pair){.gain = bytes * (only ? 2 : 1) + launch, .producer = def, .consumer = consumer, .vertical = true});
}

static void horizontal_pairs(tc_sched *x, heap *h, const tc_buf *b) {
  const tc_users *u = &x->users[b->id];
  for (int32_t i = 0; i + 1 < u->nodes.count; i++) {
    tc_lnode *p = u->nodes.data[i], *q = u->nodes.data[i + 1];
    if (x->inlined[p->id] || x->inlined[q->id] || p->kind > TC_LN_REDUCE || q->kind > TC_LN_REDUCE) continue;
    // Two layouts of what a caller gives, as a product and its derivative want it: either is made when it is needed, so
    // that it need not be kept from the one to the other.
    if (p->keep && q->keep && b->kind == TC_BUF_INPUT) continue;
    heap_push(x, h, (pair){.gain = tc_buf_hint_bytes(x->l, b) / 2, .producer = p, .consumer = q});
  }
}

// Parts of columns with the rows that they belong to, and what is made of the parts, in one or two steps, with each
// other.
static void column_pairs(tc_sched *x, heap *h) {
  int64_t launch = x->o->device->launch_ns * (x->o->device->bytes_per_ns ? x->o->device->bytes_per_ns : 10);
  tc_lnode *before[2] = {0};
  for (int32_t i = 0; x->o->fuse && i < x->l->nodes.count; i++) {
    tc_lnode *n = x->l->nodes.data[i];
    const tc_column_part *part = tc_column_part_of(x, n);
    if (!part) continue;
    heap_push(x, h, (pair){.gain = part->saved, .producer = part->beside, .consumer = n});
    for (int32_t k = 0, columns = n->n_par - 1; k < 2; k++) {
      n = x->users[n->outs[0]->id].nodes.data[0];
      if (before[k]) heap_push(x, h, (pair){.gain = launch, .producer = before[k], .consumer = n});
      before[k] = n;
      if (n->n_par == columns) break;
    }
  }
}

// Merges the groups of a pair if that is legal now; false if it was refused.
static bool try_pair(tc_sched *x, const pair *p) {
  tc_group *a = x->group_of[p->producer->id], *b = x->group_of[p->consumer->id];
  if (a == b) return true;
  domain d;
  const tc_sym *const **at_a, *const **at_b;
  if (!legal(x, p, a, b, &d, &at_a, &at_b)) return false;
  tc_log(x->o->logger, TC_LOG_FUSION, "fusing " TC_SV_FMT " with " TC_SV_FMT ": saves %lld bytes",
         TC_SV_ARG(name_of(x, p->producer)), TC_SV_ARG(name_of(x, p->consumer)), (long long)p->gain);
  reorder(x, a, b);
  merge(x, a, b, d, at_a, at_b);
  x->s->n_merges++;
  return true;
}

// Groups without templates that move less than a launch is worth, next to each other in the order, by domain. Domains
// that only have as many points would do, but not without divisions in every index.
static void small_pairs(tc_sched *x, heap *h) {
  enum { POINT_BYTES = 8 };               // about what a point reads and writes
  tc_map *last = tc_map_create(x->arena); // domain → node of the group before
  int64_t launch = x->o->device->launch_ns * (x->o->device->bytes_per_ns ? x->o->device->bytes_per_ns : 10);
  for (int32_t i = 0; i < x->s->groups.count; i++) {
    tc_group *g = x->in_order[i];
    if (!g->steps.count || g->stage || g->call) continue;
    domain d = domain_of(g);
    int64_t points = tc_sym_hint_or(x->l->syms, tc_sym_mul(x->l->syms, par(x, d), red(x, d)), INT64_MAX);
    if (points > launch / POINT_BYTES) continue;
    tc_sb key = tc_sb_make(x->arena);
    tc_sb_put(&key, (tc_sv){(const char *)&d.n_par, sizeof d.n_par});
    tc_sb_put(&key, (tc_sv){(const char *)d.extents, (size_t)(d.n_par + d.n_red) * sizeof *d.extents});
    tc_map_entry *e = tc_map_put(last, tc_sb_view(&key), NULL);
    tc_lnode *before = e->value.ptr, *node = g->steps.data[0].node;
    if (before) heap_push(x, h, (pair){.gain = launch, .producer = before, .consumer = node});
    e->value.ptr = node;
  }
}

// What is refused may become legal after other merges: rounds go on until one merges nothing.
static void merge_rounds(tc_sched *x, heap *h) {
  for (int32_t round = 1, before = -1; before != x->s->n_merges; round++) {
    before = x->s->n_merges;
    x->s->refusals.count = 0;
    heap refused = {0};
    int32_t candidates = h->v.count, groups = x->s->groups.count; // of which every merge takes one away
    while (h->v.count) {
      pair p = heap_pop(h);
      if (tc_log_in_detail(x->o->logger, TC_LOG_FUSION))
        tc_log(x->o->logger, TC_LOG_FUSION, "candidate " TC_SV_FMT " with " TC_SV_FMT ": %lld bytes",
               TC_SV_ARG(name_of(x, p.producer)), TC_SV_ARG(name_of(x, p.consumer)), (long long)p.gain);
      if (!try_pair(x, &p)) heap_push(x, &refused, p);
    }
    tc_log(x->o->logger, TC_LOG_FUSION, "round %d: %d candidates, %d merges: %d → %d nodes, %d pairs refused", round,
           candidates, x->s->n_merges - before, groups - before, groups - x->s->n_merges, refused.v.count);
    *h = refused;
  }
}

tc_status tc_sched_fuse(tc_sched *x) {
  x->group_of = TC_NEW_ARRAY(x->arena, tc_group *, x->l->nodes.count);
  for (int32_t i = 0; i < x->l->nodes.count; i++) {
    if (!x->inlined[i]) new_group(x, x->l->nodes.data[i]);
  }
  heap h = {0};
  for (int32_t i = 0; x->o->fuse && i < x->l->nodes.count; i++) {
    tc_lnode *n = x->l->nodes.data[i];
    if (x->inlined[i]) continue;
    for (int32_t k = 0; k < n->body.insts.count; k++) {
      if (n->body.insts.data[k].op == TC_B_LOAD) vertical_pairs(x, &h, n->body.insts.data[k].buf, n, 0);
    }
    for (int32_t k = 0; k < n->n_operands; k++) vertical_pairs(x, &h, n->operands[k].buf, n, 0);
  }
  column_pairs(x, &h);
  for (int32_t i = 0; x->o->fuse && i < x->l->bufs.count; i++) horizontal_pairs(x, &h, x->l->bufs.data[i]);
  x->s->n_candidates = h.v.count;
  int32_t n_groups = x->s->groups.count;
  x->mark = TC_NEW_ARRAY(x->arena, int32_t, n_groups);
  x->node_mark = TC_NEW_ARRAY(x->arena, int32_t, x->l->nodes.count);
  x->pos = TC_NEW_ARRAY(x->arena, int32_t, n_groups);
  x->in_order = TC_NEW_ARRAY(x->arena, tc_group *, n_groups);
  for (int32_t i = 0; i < n_groups; i++) { // of single nodes, in the nodes' order
    x->pos[i] = i;
    x->in_order[i] = x->s->groups.data[i];
  }
  merge_rounds(x, &h);
  if (x->o->fuse && x->o->horizontal) {
    int32_t others = h.v.count;
    small_pairs(x, &h);
    x->s->n_candidates += h.v.count - others;
    if (h.v.count > others) merge_rounds(x, &h);
  }
  int32_t kept = 0;
  for (int32_t i = 0; i < x->s->groups.count; i++) {
    if (x->s->groups.data[i]->steps.count) x->s->groups.data[kept++] = x->s->groups.data[i];
  }
  x->s->groups.count = kept;
  return TC_OK;
}
