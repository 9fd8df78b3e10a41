// The driver of emission: index width, lanes, shape of the kernel; then legalisation.
#include "core/kernel/emit_internal.h"

static bool has_wide_values(tc_em *e) {
  for (int32_t i = 0; i < e->g->steps.count; i++) {
    const tc_body *body = &e->g->steps.data[i].node->body;
    for (int32_t k = 0; k < body->insts.count; k++)
      if (body->insts.data[k].op == TC_B_INDEX && em_is_wide(e, body->insts.data[k].expr)) return true;
  }
  return false;
}

// Every element number of every buffer must fit, and every value that is made of them.
static tc_dtype index_type(tc_em *e) {
  for (int32_t side = 0; side < 2; side++) {
    int32_t n = side ? e->g->writes.count : e->g->reads.count;
    for (int32_t i = 0; i < n; i++) {
      const tc_buf *b = side ? e->g->writes.data[i] : e->g->reads.data[i];
      const tc_sym *last = b->offset ? b->offset : tc_sym_int(e->syms, 0);
      for (int32_t d = 0; d < b->rank && b->strides; d++)
        last = tc_sym_add(e->syms, last, tc_sym_mul(e->syms, tc_sym_addi(e->syms, b->sizes[d], -1), b->strides[d]));
      int64_t lo, hi;
      tc_sym_range(e->syms, last, &lo, &hi);
      if (hi >= 1ll << 30 || lo < -(1ll << 30)) return TC_I64;
    }
  }
  int64_t lo, hi;
  tc_sym_range(e->syms, tc_product(e->l, e->g->n_par + e->g->n_red, e->g->extents), &lo, &hi);
  return hi >= 1ll << 30 || has_wide_values(e) ? TC_I64 : TC_I32;
}

int32_t em_lane_width(tc_em *e) {
  int32_t widest = 1;
  if (e->dev->simd_bytes || e->o->outside_align < 16) return 1;
  for (int32_t side = 0; side < 2; side++) {
    int32_t n = side ? e->g->writes.count : e->g->reads.count;
    for (int32_t i = 0; i < n; i++) {
      int32_t size = tc_dtype_size((side ? e->g->writes.data : e->g->reads.data)[i]->dtype);
      if (size > widest) widest = size;
    }
  }
  return widest >= 16 ? 1 : widest < 2 ? 8 : 16 / widest;
}

// Lanes on a device with vectors: four vectors of elements, whose chains of operations hide each other's latency (a
// processor looks ahead by a few hundred instructions only, less than two elements of a function have). Two where an
// element is two numbers, or so much is computed that code grows more than it gains.
static int32_t choose_lanes(tc_em *e, int32_t lane_var, bool columns) {
  int64_t lo, extent = 1;
  if (lane_var >= 0) tc_sym_range(e->syms, e->extents[lane_var], &lo, &extent);
  if (!e->dev->simd_bytes) {
    // Rows that are read in several phases stay in registers, if there are enough lanes.
    int32_t most = e->g->n_phases < 2 || columns || extent <= 8192 || extent == INT64_MAX ? 256
                   : extent <= 16384                                                      ? 512
                                                                                          : 1024;
    if (e->dev->max_lanes && most > e->dev->max_lanes) most = e->dev->max_lanes;
    int32_t lanes = most, width = em_lane_width(e);
    if (e->narrow) return e->dev->subgroup;
    while (lanes > 32 && lanes / 2 >= extent) lanes /= 2;
    // Lanes that come out even with wide elements, so that nothing is left to be done one by one.
    for (int32_t n = most; n >= (most < 192 ? most : 96) && width > 1 && !columns; n -= 32) {
      if (extent % ((int64_t)n * width) != 0) continue;
      lanes = n;
      break;
    }
    return e->dev->max_lanes && lanes > e->dev->max_lanes ? e->dev->max_lanes : lanes;
  }
  enum { LIGHT = 8, LARGE = 120 };
  int32_t widest = 4, cost = 0, reduces = 0;
  bool pairs = false;
  for (int32_t i = 0; i < e->g->steps.count; i++) {
    const tc_lnode *n = e->g->steps.data[i].node;
    cost += tc_body_cost(&n->body);
    reduces += n->kind == TC_LN_REDUCE;
    pairs |= tc_dtype_is_complex(n->outs[0]->dtype);
    tc_dtype d = tc_dtype_real(n->outs[0]->dtype);
    if (tc_dtype_size(d) > widest) widest = tc_dtype_size(d);
  }
  int32_t vector = e->dev->simd_bytes / widest, lanes = vector * 4;
  if (!columns && cost > (pairs ? LIGHT : LARGE)) lanes = vector * 2;
  if (columns && reduces == 1 && cost <= LIGHT) lanes *= 2; // longer runs of each row, which registers still hold
  while (lanes > 4 && lanes / 2 >= extent) lanes /= 2;
  return lanes > 1 ? lanes : 1;
}

void em_grain(tc_em *e, int64_t elements) {
  enum { WORTH = 8192 };
  e->out->grain = tc_sym_int(e->syms, elements >= WORTH ? 1 : WORTH / (elements > 0 ? elements : 1));
}

// A group without reduced dimensions is walked as rows too: the lanes' variable is the row.
static int32_t lane_last(tc_em *e, int32_t lane_var) {
  const tc_sym *v = e->vars[lane_var], *x = e->extents[lane_var];
  int32_t last = e->n_par + e->n_red - 1;
  for (int32_t k = lane_var; k < last; k++) {
    e->vars[k] = e->vars[k + 1];
    e->extents[k] = e->extents[k + 1];
  }
  e->vars[last] = v;
  e->extents[last] = x;
  return last;
}

// Many rows of so few elements that a subgroup is enough for one: what it adds up needs no shared memory, nor what it
// keeps, and its blocks may share one of the device's.
static bool is_narrow(tc_em *e, int32_t lane_var) {
  enum { MANY = 8192 };
  int32_t group = e->dev->subgroup;
  if (e->dev->simd_bytes || group < 32 || (e->dev->max_lanes && group > e->dev->max_lanes) || e->g->rows) return false;
  const tc_sym *row = e->extents[lane_var];
  if (!tc_sym_is_const(row) || row->value > (int64_t)EM_NARROW_TRIPS * group) return false;
  if ((row->value + group - 1) / group * em_cost(e) > EM_MOST_WRITTEN_OUT) return false;
  return tc_sym_hint_or(e->syms, tc_product(e->l, e->n_par, e->extents), 1) >= MANY;
}

static tc_status emit(tc_em *e) {
  tc_group *g = e->g;
  int32_t n = g->n_par + g->n_red;
  e->n_par = g->n_par;
  e->n_red = g->n_red;
  e->vars = TC_NEW_ARRAY(e->arena, const tc_sym *, n + 1);
  e->extents = TC_NEW_ARRAY(e->arena, const tc_sym *, n + 1);
  for (int32_t d = 0; d < n; d++) {
    e->vars[d] = g->vars[d];
    e->extents[d] = g->extents[d];
  }
  e->at = TC_NEW_ARRAY(e->arena, const tc_sym *const *, g->steps.count);
  for (int32_t i = 0; i < g->steps.count; i++) e->at[i] = g->steps.data[i].at;
  e->ity = index_type(e);
  if (g->stage) {
    em_stage_group(e);
    return tc_failure_take(&e->failure);
  }
  int32_t lane_var = em_merge_dims(e);
  bool reduces = false;
  for (int32_t i = 0; i < g->steps.count; i++) reduces |= g->steps.data[i].node->kind == TC_LN_REDUCE;
  int32_t wide = !reduces && e->dev->simd_bytes && lane_var >= 0 ? em_transposed_dim(e, lane_var) : -1;
  if (wide >= 0 &&
      tc_sym_is_int(tc_sym_mod(e->syms, e->extents[wide], tc_sym_int(e->syms, e->dev->simd_bytes / 4)), 0)) {
    em_transpose(e, lane_var, wide);
    return tc_failure_take(&e->failure);
  }
  bool columns = reduces && lane_var >= 0 && lane_var < e->n_par && e->n_red > 0 && !g->rows;
  if (lane_var >= 0 && !columns) {
    if (!reduces) {
      lane_var = lane_last(e, lane_var);
      e->n_par = lane_var;
      e->n_red = 1;
    } else if (lane_var >= e->n_par) {
      lane_var = lane_last(e, lane_var);
    } else {
      lane_var = e->n_par + e->n_red - 1;
    }
  }
  if (reduces && e->n_red == 0) { // all reduced extents are 1: give the row one element
    e->vars[e->n_par] = tc_sym_fresh(e->syms, "w", TC_SYM_LOOP);
    e->extents[e->n_par] = tc_sym_int(e->syms, 1);
    e->n_red = 1;
    lane_var = e->n_par;
    columns = false;
  }
  if (e->dev->simd_bytes && !reduces && lane_var >= 0) em_join_neighbours(e, lane_var);
  tc_em_short rows;
  bool short_rows = !reduces && em_short_rows_of(e, lane_var, &rows);
  e->narrow = reduces && !columns && lane_var >= 0 && is_narrow(e, lane_var);
  int32_t lanes = short_rows ? rows.lanes : e->turned ? e->dev->simd_bytes / 4 : choose_lanes(e, lane_var, columns);
  e->kb = tc_kb_create(e->arena, g->kernel, lanes);
  if (short_rows) em_short_rows(e, lane_var, &rows);
  else if (columns) em_columns(e, lane_var);
  else em_rows(e, lane_var);
  return tc_failure_take(&e->failure);
}

tc_status tc_emit_group(tc_schedule *s, tc_group *g, const tc_emit_options *o, tc_emitted *out) {
  tc_loops *l = s->loops;
  *out = (tc_emitted){0};
  tc_em e = {.s = s,
             .g = g,
             .l = l,
             .syms = l->syms,
             .arena = l->arena,
             .o = o,
             .dev = o->device,
             .out = out,
             .mask = -1,
             .tile_row = -1};
  e.values = tc_map_create(e.arena);
  e.scalars = tc_map_create(e.arena);
  e.mems = tc_map_create(e.arena);
  e.tiles = tc_map_create(e.arena);
  e.rows = tc_map_create(e.arena);
  tc_kernel *raw = NULL;
  tc_status failed = emit(&e);
  if (failed != TC_OK) { // values that do not exist are often the builder's failure: its own reason is the better one
    tc_status builder = e.kb ? tc_kb_failure(e.kb) : TC_OK;
    if (builder != TC_OK) {
      tc_status_free(failed);
      failed = builder;
    }
    return tc_status_note(failed, "while making the kernel " TC_SV_FMT, TC_SV_ARG(g->name));
  }
  TC_TRY(tc_kb_finish(e.kb, &raw), "while making the kernel " TC_SV_FMT, TC_SV_ARG(g->name));
  tc_kernel *plain;
  TC_TRY(tc_kernel_legalise(e.arena, raw, e.dev->simd_bytes, &plain));
  if (!e.dev->simd_bytes) {
    TC_TRY(tc_kernel_forward(e.arena, plain, &plain));
    TC_TRY(tc_kernel_simplify(e.arena, plain, &plain));
    TC_TRY(tc_kernel_split_borders(e.arena, plain, &plain));
    TC_TRY(tc_kernel_join_loads(e.arena, plain, &plain));
  }
  return tc_kernel_simplify(e.arena, plain, &out->kernel);
}
