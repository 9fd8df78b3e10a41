// Emission of a group with templates: a block makes one tile of the first template's result.
//
// Its load holes give whatever feeds the operand; its store hole computes every step that follows at the same elements,
// stores those that leave the group and keeps those that later phases need in on-chip tiles. A second template of the
// group runs on the same tile, its local operand coming from there. Row work (reductions) then runs over the tile's
// rows.
#include "core/kernel/emit_internal.h"
#include "core/kernel/ir.h"

enum { CANDIDATES = 24, MAX_OPERANDS = 16, THREAD_NS = 20000 };

// What a template sees (tc/template.h).
struct tc_stage {
  tc_em *e; // NULL while it is only asked
  const tc_loops *l;
  const tc_lnode *node;
  const tc_device_props *dev;
  const tc_stage_config *config;
  int32_t phase;
  tc_kval origin[TC_MAX_RANK];
  const tc_sym *store_index[TC_MAX_RANK];  // symbols that stand for the indices of a store
  const tc_sym **load_index[MAX_OPERANDS]; // by operand: of a load, with the operand's sizes as their ranges
  const bool *in_store;                    // by step: runs inside the stores
  tc_sv refused;
};

static int64_t constant_or(const tc_sym *x, int64_t otherwise) { return tc_sym_is_const(x) ? x->value : otherwise; }

int32_t tc_stage_operand_count(const tc_stage *s) { return s->node->n_operands; }
tc_dtype tc_stage_operand_dtype(const tc_stage *s, int32_t k) { return s->node->operands[k].buf->dtype; }
int32_t tc_stage_operand_rank(const tc_stage *s, int32_t k) { return s->node->operands[k].rank; }
int64_t tc_stage_operand_size(const tc_stage *s, int32_t k, int32_t dim) {
  return constant_or(s->node->operands[k].sizes[dim], -1);
}
int64_t tc_stage_operand_hint(const tc_stage *s, int32_t k, int32_t dim) {
  return tc_sym_hint_or(s->l->syms, s->node->operands[k].sizes[dim], 256);
}
tc_dtype tc_stage_dtype(const tc_stage *s) { return s->node->outs[0]->dtype; }
int32_t tc_stage_rank(const tc_stage *s) { return s->node->n_par; }
int64_t tc_stage_out_size(const tc_stage *s, int32_t dim) { return constant_or(s->node->extents[dim], -1); }
int64_t tc_stage_out_hint(const tc_stage *s, int32_t dim) {
  return tc_sym_hint_or(s->l->syms, s->node->extents[dim], 256);
}
int64_t tc_stage_attr(const tc_stage *s, int32_t i, int64_t otherwise) {
  return i < s->node->n_attrs ? constant_or(s->node->attrs[i], otherwise) : otherwise;
}
const tc_device_props *tc_stage_device(const tc_stage *s) { return s->dev; }
void tc_stage_refuse(const tc_stage *s, const char *reason) {
  ((tc_stage *)s)->refused = tc_sv_copy(s->l->arena, tc_sv_of(reason));
}

tc_arena *tc_stage_arena(const tc_stage *s) { return s->l->arena; }
void tc_stage_out_of_memory(const tc_stage *s) {
  if (s->e) tc_failure_keep(&s->e->failure, s->e->arena, tc_error_out_of_memory());
}

tc_kb *tc_stage_builder(tc_stage *s) { return s->e ? s->e->kb : NULL; }
tc_kval tc_stage_origin(tc_stage *s, int32_t dim) { return tc_kb_cast(s->e->kb, TC_I64, s->origin[dim]); }
tc_kval tc_stage_extent(tc_stage *s, int32_t dim) {
  return tc_kb_cast(s->e->kb, TC_I64, em_sym(s->e, s->node->extents[dim]));
}
tc_kval tc_stage_operand_extent(tc_stage *s, int32_t k, int32_t dim) {
  return tc_kb_cast(s->e->kb, TC_I64, em_sym(s->e, s->node->operands[k].sizes[dim]));
}
int32_t tc_stage_exact(tc_stage *s, int32_t dim) {
  int64_t tile = s->config->tile[dim];
  return tile == 0 || tc_sym_is_int(tc_sym_mod(s->l->syms, s->node->extents[dim], tc_sym_int(s->l->syms, tile)), 0);
}

// Row number inside the tile, row-major over the tile's parallel dimensions, of an index given by symbols; -1: one row.
static tc_kval local_row(const tc_stage *s, const tc_sym *const *symbols) {
  tc_em *e = s->e;
  tc_kval row = -1;
  for (int32_t d = 0; d < e->g->n_par; d++) {
    int64_t tile = s->config->tile[d] ? s->config->tile[d] : constant_or(s->node->extents[d], 1);
    if (tile == 1) continue;
    tc_kval here = tc_kb_op2(e->kb, TC_K_SUB, em_sym(e, symbols[d]), s->origin[d]);
    row = row < 0 ? here : em_add(e, em_mul(e, row, em_const(e, tile)), here);
  }
  return row;
}

static void bind_index(tc_em *e, int32_t n, const tc_sym *const *symbols, const tc_kval *index, int64_t last_offset) {
  for (int32_t d = 0; d < n; d++) {
    tc_kval v = tc_kb_cast(e->kb, e->ity, index[d]);
    if (d == n - 1 && last_offset) v = em_add(e, v, em_const(e, last_offset));
    em_bind(e, symbols[d], v);
  }
}

// False after a failure, which an operand that is not there is.
static bool holds_operand(const tc_stage *s, int32_t operand) {
  if (operand < 0 || operand >= s->node->n_operands || operand >= MAX_OPERANDS)
    em_fail(s->e, "the template " TC_SV_FMT " loads an operand %d", TC_SV_ARG(s->node->tmpl->name), operand);
  return !tc_failed(&s->e->failure);
}

void tc_stage_load_n(tc_stage *s, int32_t operand, const tc_kval *index, int32_t width, tc_kval mask, tc_kval *out) {
  tc_em *e = s->e;
  for (int32_t i = 0; i < width; i++) out[i] = -1;
  if (!holds_operand(s, operand)) return;
  const tc_lview *v = &s->node->operands[operand];
  const tc_sym *const *at = s->load_index[operand];
  const tc_sym *mapped[TC_MAX_RANK];
  for (int32_t d = 0; d < v->buf->rank; d++) mapped[d] = tc_sym_replace(e->syms, v->map[d], v->rank, v->index, at);
  tc_kval outer = e->mask;
  e->mask = mask;
  // Plain memory in order: one wide load.
  bool memory = v->buf->strides && !tc_map_find_ptr(e->tiles, v->buf) && !tc_map_find_ptr(e->rows, v->buf);
  const tc_sym *address = memory ? em_address(e, v->buf, mapped) : NULL, *coeff, *rest;
  if (width > 1 && memory && v->rank > 0 && tc_sym_linear(e->syms, address, at[v->rank - 1], &coeff, &rest) &&
      tc_sym_is_int(coeff, 1)) {
    int32_t mark = em_mark(e);
    bind_index(e, v->rank, at, index, 0);
    em_mem_load(e, v->buf, address, width, out);
    em_leave(e, mark);
  } else {
    for (int32_t i = 0; i < width; i++) {
      int32_t mark = em_mark(e);
      bind_index(e, v->rank, at, index, i);
      bool local = s->node->tmpl->local_operands >> operand & 1;
      e->tile_row = local && e->tiles_used ? local_row(s, at) : -1;
      out[i] = em_load(e, v->buf, mapped, NULL);
      e->tile_row = -1;
      em_leave(e, mark);
    }
  }
  e->mask = outer;
}

void tc_stage_fetch(tc_stage *s, int32_t operand, const tc_kval *index) {
  tc_em *e = s->e;
  if (!holds_operand(s, operand)) return;
  const tc_lview *v = &s->node->operands[operand];
  const tc_sym *const *at = s->load_index[operand], *mapped[TC_MAX_RANK];
  if (!e->dev->simd_bytes || !v->buf->strides || v->buf->planar || tc_map_find_ptr(e->tiles, v->buf)) return;
  for (int32_t d = 0; d < v->buf->rank; d++) mapped[d] = tc_sym_replace(e->syms, v->map[d], v->rank, v->index, at);
  int32_t mark = em_mark(e);
  bind_index(e, v->rank, at, index, 0);
  tc_kval place = em_sym(e, em_address(e, v->buf, mapped));
  tc_kb_prefetch_from(e->kb, em_mem(e, v->buf, false), place, TC_KI_FAR);
  em_leave(e, mark);
}

tc_kval tc_stage_load(tc_stage *s, int32_t operand, const tc_kval *index, tc_kval mask) {
  tc_kval v;
  tc_stage_load_n(s, operand, index, 1, mask, &v);
  return v;
}

// From here on, what a step reads beside the stored values at `width` consecutive elements from `first` on is read in
// one load: lanes of vectors then read runs of memory where one element each would be a gather.
static void read_runs(const tc_stage *s, int32_t width, tc_kval first) {
  tc_em *e = s->e;
  if (!e->dev->simd_bytes) return;
  const tc_sym *base = tc_sym_fresh(e->syms, "k", TC_SYM_LOCAL);
  tc_sym_info_of(e->syms, base)->lo = 0;
  em_bind(e, base, tc_kb_cast(e->kb, e->ity, first));
  e->wide = (tc_em_wide){
      .var = s->store_index[s->node->n_par - 1], .base = base, .width = width, .loads = tc_map_create(e->arena)};
}

// Everything that one store of the template sets off, for `width` values at consecutive indices of the last dimension.
static void store_values(tc_stage *s, const tc_kval *index, int32_t width, const tc_kval *values, tc_kval mask,
                         const tc_sym *const *const *at) {
  tc_em *e = s->e;
  int32_t rank = s->node->n_par;
  tc_kval outer_mask = e->mask, outer_row = e->tile_row, v[16];
  const tc_buf *outer_hole = e->hole;
  const tc_sym *const **outer_at = e->at;
  e->mask = mask;
  e->hole = s->node->outs[0];
  e->at = (const tc_sym *const **)at;
  for (int32_t k = 0; k < e->g->steps.count; k++) {
    if (!s->in_store[k]) continue;
    const tc_buf *b = e->g->steps.data[k].node->outs[0];
    const tc_sym *coeff = NULL, *rest, *address = b->strides && rank ? em_address(e, b, at[k]) : NULL;
    bool wide = width > 1 && e->g->steps.data[k].hold != TC_HOLD_TILE && address &&
                tc_sym_linear(e->syms, address, s->store_index[rank - 1], &coeff, &rest) && tc_sym_is_int(coeff, 1);
    int32_t outer_mark = em_mark(e);
    if (width > 1 && !e->g->steps.data[k].node->store) read_runs(s, width, index[rank - 1]);
    for (int32_t i = 0; i < width; i++) {
      int32_t mark = em_mark(e);
      bind_index(e, rank, s->store_index, index, i);
      e->hole_value = values[i];
      e->tile_row = e->tiles_used ? local_row(s, s->store_index) : -1;
      e->wide.at = i;
      if (wide) v[i] = em_load(e, b, at[k], NULL);
      else em_store_step(e, k);
      em_leave(e, mark);
    }
    e->wide = (tc_em_wide){0};
    if (wide) {
      bind_index(e, rank, s->store_index, index, 0);
      em_mem_store(e, b, address, width, v);
    }
    em_leave(e, outer_mark);
  }
  e->at = outer_at;
  e->mask = outer_mask;
  e->hole = outer_hole;
  e->tile_row = outer_row;
}

// The maps of all steps with the group's variables replaced by the symbols of the store's index.
static const tc_sym *const **store_maps(tc_stage *s) {
  tc_em *e = s->e;
  const tc_sym *const **at = TC_NEW_ARRAY(e->arena, const tc_sym *const *, e->g->steps.count);
  int32_t n_vars = e->g->n_par + e->g->n_red;
  for (int32_t i = 0; i < e->g->steps.count; i++) {
    const tc_lnode *n = e->g->steps.data[i].node;
    const tc_sym **to = TC_NEW_ARRAY(e->arena, const tc_sym *, n->n_par + n->n_red);
    for (int32_t k = 0; k < n->n_par + n->n_red; k++)
      to[k] = tc_sym_replace(e->syms, e->g->steps.data[i].at[k], n_vars, e->g->vars, s->store_index);
    at[i] = to;
  }
  return at;
}

void tc_stage_store_n(tc_stage *s, const tc_kval *index, int32_t width, const tc_kval *values, tc_kval mask) {
  const tc_sym *const **at = store_maps(s);
  for (int32_t i = 0; i < width; i += 16) {
    tc_kval from[TC_MAX_RANK];
    for (int32_t d = 0; d < s->node->n_par; d++) from[d] = index[d];
    if (i)
      from[s->node->n_par - 1] = em_add(s->e, index[s->node->n_par - 1],
                                        tc_kb_int(s->e->kb, tc_kb_type(s->e->kb, index[s->node->n_par - 1]), i));
    store_values(s, from, width - i < 16 ? width - i : 16, values + i, mask, at);
  }
}

void tc_stage_store(tc_stage *s, const tc_kval *index, tc_kval value, tc_kval mask) {
  tc_stage_store_n(s, index, 1, &value, mask);
}

// ---- results that stay in memory ----
static tc_kval bind_result(tc_stage *s, const tc_kval *index) {
  const tc_buf *b = s->node->outs[0];
  bind_index(s->e, s->node->n_par, s->store_index, index, 0);
  return em_sym(s->e, em_address(s->e, b, s->store_index));
}

static bool owns_result(tc_stage *s) {
  bool owns = s->node->tmpl->flags & TC_TEMPLATE_OWN_RESULT;
  if (!owns) em_fail(s->e, "the template " TC_SV_FMT " does not own its result", TC_SV_ARG(s->node->tmpl->name));
  return owns && !tc_failed(&s->e->failure);
}

tc_kval tc_stage_result_load(tc_stage *s, const tc_kval *index, tc_kval mask) {
  if (!owns_result(s)) return -1;
  int32_t mark = em_mark(s->e);
  tc_kval v = tc_kb_load1(s->e->kb, em_mem(s->e, s->node->outs[0], true), bind_result(s, index), mask, -1);
  em_leave(s->e, mark);
  return v;
}

void tc_stage_result_store(tc_stage *s, const tc_kval *index, tc_kval value, tc_kval mask) {
  if (!owns_result(s)) return;
  int32_t mark = em_mark(s->e);
  tc_kb_store(s->e->kb, em_mem(s->e, s->node->outs[0], true), bind_result(s, index), 1, &value, mask);
  em_leave(s->e, mark);
}

void tc_stage_check(tc_stage *s, tc_kval cond, const char *text) {
  tc_em *e = s->e;
  tc_emit_site site = {.source = s->node->source};
  site.text = tc_sv_printf(e->arena, "%s in %%" TC_SV_FMT, text, TC_SV_ARG(s->node->name));
  tc_kb_check(e->kb, cond, e->out->sites.count);
  tc_vec_push(e->arena, &e->out->sites, site);
}

// ---- choosing a configuration ----
static bool tile_is_whole(const tc_stage *s, const tc_stage_config *c, int32_t dim) {
  return c->tile[dim] == 0 || (tc_sym_is_const(s->node->extents[dim]) && c->tile[dim] >= s->node->extents[dim]->value);
}

// What a configuration depends on, in words.
static tc_sv stage_text(const tc_stage *s) {
  tc_sb sb = tc_sb_make(s->l->arena);
  tc_sb_printf(&sb, "%s", tc_dtype_name(tc_stage_dtype(s)));
  for (int32_t d = 0; d < s->node->n_par; d++) tc_sb_printf(&sb, " %lld", (long long)tc_stage_out_hint(s, d));
  for (int32_t k = 0; k < s->node->n_operands; k++) {
    tc_sb_printf(&sb, "; %s", tc_dtype_name(tc_stage_operand_dtype(s, k)));
    for (int32_t d = 0; d < tc_stage_operand_rank(s, k); d++)
      tc_sb_printf(&sb, " %lld", (long long)tc_stage_operand_hint(s, k, d));
  }
  for (int32_t i = 0; i < s->node->n_attrs; i++) tc_sb_printf(&sb, "; %lld", (long long)tc_stage_attr(s, i, INT64_MIN));
  return tc_sb_view(&sb);
}

// Bytes on chip of a block with this configuration of the first template, `before` being those of templates in front of
// it: what the template asks for, and the rows that later phases need.
static int64_t bytes_on_chip(const tc_em *e, const tc_stage *s, const tc_stage_config *c, int64_t before) {
  int64_t rows = 1, held = 0, lo, row;
  for (int32_t d = 0; d < e->g->n_par; d++)
    rows *= d < s->node->n_par && c->tile[d] ? c->tile[d] : constant_or(e->g->extents[d], 1);
  tc_sym_range(e->syms, tc_product(e->l, e->g->n_red, e->g->extents + e->g->n_par), &lo, &row);
  for (int32_t i = 0; i < e->g->steps.count; i++) {
    const tc_step *st = &e->g->steps.data[i];
    if (st->hold == TC_HOLD_TILE) held += tc_dtype_size(st->node->outs[0]->dtype);
  }
  bool fits = held == 0 || (row > 0 && rows > 0 && row <= INT64_MAX / 64 / rows / held);
  return fits ? before + c->shared_bytes + held * rows * row : INT64_MAX;
}

// Leaves out configurations whose block needs more than a device of threads has on chip; of none that fits the least
// stays. Returns how many there are.
static int32_t within_budget(const tc_em *e, const tc_stage *s, const tc_stage_config *like, int32_t n,
                             tc_stage_config *all) {
  int32_t kept = 0, least = 0;
  int64_t before = like ? like->shared_bytes : 0, fewest = INT64_MAX;
  for (int32_t i = 0; i < n; i++) {
    int64_t bytes = bytes_on_chip(e, s, &all[i], before);
    if (bytes < fewest) fewest = bytes, least = i;
    if (bytes > e->dev->shared_bytes) continue;
    if (kept != i) all[kept] = all[i];
    kept++;
  }
  if (kept || !n) return kept;
  all[0] = all[least];
  return 1;
}

// What was measured of a template by itself tells nothing of several in one kernel.
static bool is_alone(const tc_em *e) {
  int32_t n = 0;
  for (int32_t i = 0; i < e->g->steps.count; i++) n += e->g->steps.data[i].node->kind == TC_LN_TEMPLATE;
  return n == 1;
}

static tc_status choose(tc_em *e, tc_stage *s, bool whole_rows, const tc_stage_config *like, tc_stage_config *out) {
  tc_stage_config all[CANDIDATES] = {0};
  int32_t n = 0, status = s->node->tmpl->candidates(s, CANDIDATES, all, &n);
  if (status != TC_STATUS_OK)
    return tc_error(status, "the template " TC_SV_FMT " failed to offer configurations for %%" TC_SV_FMT,
                    TC_SV_ARG(s->node->tmpl->name), TC_SV_ARG(s->node->name));
  int32_t rank = s->node->n_par, kept = 0;
  for (int32_t i = 0; i < n; i++) {
    bool fits = !whole_rows || tile_is_whole(s, &all[i], rank - 1);
    for (int32_t d = 0; like && d < rank; d++) fits &= all[i].tile[d] == like->tile[d];
    if (like) fits &= all[i].lanes == like->lanes && all[i].row_lanes == like->row_lanes;
    if (fits) all[kept++] = all[i];
  }
  if (e->dev->shared_bytes && !e->dev->simd_bytes) kept = within_budget(e, s, like, kept, all);
  if (kept) {
    bool picks = kept > 1 && e->o->pick && is_alone(e);
    int32_t at = picks ? e->o->pick(e->o->pick_self, s->node->tmpl->name, stage_text(s), kept, all) : 0;
    *out = all[at];
    return TC_OK;
  }
  return tc_error(
      TC_STATUS_UNIMPLEMENTED, "the template " TC_SV_FMT " has no configuration for %%" TC_SV_FMT "%s" TC_SV_FMT,
      TC_SV_ARG(s->node->tmpl->name), TC_SV_ARG(s->node->name), s->refused.size ? ": " : "", TC_SV_ARG(s->refused));
}

// Steps that run inside the stores: the template itself and pointwise ones of its phase, over elements.
static const bool *steps_in_store(tc_em *e, const tc_stage *s) {
  bool *in = TC_NEW_ARRAY(e->arena, bool, e->g->steps.count);
  bool short_rows = tc_sym_is_int(tc_product(e->l, e->g->n_red, e->g->extents + e->g->n_par), 1);
  for (int32_t i = 0; i < e->g->steps.count; i++) {
    const tc_step *st = &e->g->steps.data[i];
    // Rows of one element are no different from elements.
    bool element = st->node == s->node || (st->node->kind == TC_LN_POINTWISE && (short_rows || !em_step_is_row(e, i)));
    in[i] = st->phase == s->phase && (st->stores || st->hold == TC_HOLD_TILE) && element;
  }
  return in;
}

static void make_symbols(tc_em *e, const char *prefix, int32_t n, const tc_sym *const *sizes, const tc_sym **out) {
  for (int32_t d = 0; d < n; d++) {
    out[d] = tc_sym_fresh(e->syms, prefix, TC_SYM_LOCAL);
    tc_sym_info *info = tc_sym_info_of(e->syms, out[d]);
    info->lo = 0;
    info->hi_expr = tc_sym_addi(e->syms, sizes[d], -1);
  }
}

// ---- the kernel ----
static void bind_block(tc_em *e, tc_stage *first) {
  tc_sym_ctx *c = e->syms;
  int32_t rank = first->node->n_par;
  const tc_sym *counts[TC_MAX_RANK], *blocks = tc_sym_int(c, 1);
  for (int32_t d = 0; d < rank; d++) {
    int64_t tile = first->config->tile[d];
    counts[d] = tile ? tc_sym_ceildiv(c, first->node->extents[d], tc_sym_int(c, tile)) : tc_sym_int(c, 1);
    blocks = tc_sym_mul(c, blocks, counts[d]);
  }
  // Blocks that are worth a thread's start, by the template's estimate of the whole.
  int64_t n_blocks = tc_sym_hint_or(c, blocks, 1);
  double block_ns = first->config->cost / (double)(n_blocks > 0 ? n_blocks : 1);
  e->out->grain = tc_sym_int(c, block_ns > 0 && block_ns < THREAD_NS ? (int64_t)(THREAD_NS / block_ns) + 1 : 1);
  const tc_sym *block = em_bind_block(e, blocks);
  const tc_sym *left = block;
  for (int32_t d = rank - 1; d >= 0; d--) {
    const tc_sym *coord = d == 0 ? left : tc_sym_mod(c, left, counts[d]);
    left = tc_sym_floordiv(c, left, counts[d]);
    first->origin[d] = em_sym(e, tc_sym_muli(c, coord, first->config->tile[d]));
  }
}

// Phases after the templates run row by row over the tile.
static void tile_rows(tc_em *e, tc_stage *first, int32_t from_phase) {
  tc_sym_ctx *c = e->syms;
  int32_t n_par = e->g->n_par;
  int32_t mark = em_mark(e), opened = 0;
  tc_kval row = -1;
  for (int32_t d = 0; d < n_par; d++) {
    int64_t tile = first->config->tile[d];
    tc_kval v = first->origin[d];
    if (tile != 1) {
      if (!tile) tile = constant_or(first->node->extents[d], 1);
      tc_kval end = em_const(e, tile);
      if (!tc_stage_exact(first, d))
        end = tc_kb_op2(e->kb, TC_K_MIN, end, tc_kb_op2(e->kb, TC_K_SUB, em_sym(e, first->node->extents[d]), v));
      tc_kval r = tc_kb_for(e->kb, em_const(e, 0), end, 1, 0, 0, NULL, NULL);
      opened++;
      row = row < 0 ? r : em_add(e, em_mul(e, row, em_const(e, tile)), r);
      v = em_add(e, v, r);
    }
    em_bind(e, e->g->vars[d], v);
  }
  e->tile_row = row;
  int32_t n = n_par + e->g->n_red;
  em_row_phases(e, from_phase, n - 1, tc_sym_int(c, 0), e->g->extents[n - 1]);
  e->tile_row = -1;
  tc_kb_barrier(e->kb); // a row's tiles are read before the next row's are written
  while (opened--) tc_kb_end_for(e->kb, 0, NULL, NULL);
  em_leave(e, mark);
}

void em_stage_group(tc_em *e) {
  tc_group *g = e->g;
  bool row_work = false;
  int32_t last_stage_phase = 0;
  for (int32_t i = 0; i < g->steps.count; i++) {
    row_work |= g->steps.data[i].node->kind == TC_LN_REDUCE;
    if (g->steps.data[i].node->kind == TC_LN_TEMPLATE) last_stage_phase = g->steps.data[i].phase;
  }
  tc_stage_config configs[8];
  tc_stage stages[8];
  int32_t n = 0;
  for (int32_t i = 0; i < g->steps.count && !tc_failed(&e->failure); i++) {
    const tc_step *st = &g->steps.data[i];
    if (st->node->kind != TC_LN_TEMPLATE) continue;
    if (n == 8) {
      em_fail(e, "more than 8 templates in one group");
      return;
    }
    stages[n] =
        (tc_stage){.e = e, .l = e->l, .node = st->node, .dev = e->dev, .config = &configs[n], .phase = st->phase};
    tc_failure_keep(&e->failure, e->arena, choose(e, &stages[n], row_work, n ? &configs[0] : NULL, &configs[n]));
    n++;
  }
  if (tc_failed(&e->failure)) return;
  e->kb = tc_kb_create(e->arena, g->kernel, configs[0].lanes);
  bind_block(e, &stages[0]);
  int64_t rows = 1;
  for (int32_t d = 0; d < g->n_par; d++)
    rows *= configs[0].tile[d] ? configs[0].tile[d] : constant_or(stages[0].node->extents[d], 1);
  e->tile_lanes = configs[0].row_lanes ? (int32_t)rows : 0;
  em_make_tiles(e, rows);
  for (int32_t i = 0; i < n && !tc_failed(&e->failure); i++) {
    tc_stage *s = &stages[i];
    e->phase = s->phase;
    s->in_store = steps_in_store(e, s);
    for (int32_t d = 0; d < s->node->n_par; d++) s->origin[d] = stages[0].origin[d];
    make_symbols(e, "o", s->node->n_par, s->node->extents, s->store_index);
    for (int32_t k = 0; k < s->node->n_operands && k < MAX_OPERANDS; k++) {
      const tc_lview *v = &s->node->operands[k];
      s->load_index[k] = TC_NEW_ARRAY(e->arena, const tc_sym *, v->rank);
      make_symbols(e, "q", v->rank, v->sizes, s->load_index[k]);
    }
    int32_t status = s->node->tmpl->emit(s, s->config);
    if (status != TC_STATUS_OK)
      em_fail(e, "the template " TC_SV_FMT " failed to emit %%" TC_SV_FMT, TC_SV_ARG(s->node->tmpl->name),
              TC_SV_ARG(s->node->name));
    tc_kb_barrier(e->kb);
  }
  if (g->n_phases > last_stage_phase + 1 && !tc_failed(&e->failure)) tile_rows(e, &stages[0], last_stage_phase + 1);
}
