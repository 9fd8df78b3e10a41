// Emission of pointwise work whose loads and stores are contiguous along different dimensions: packing, permuted
// copies.
//
// Lanes run along the stores' dimension; along the loads' dimension each lane reads `width` consecutive elements at
// once, which the code generator turns into row loads and a transpose in registers. A block does one run of `width` for
// one strip of lanes after the other.
#include "core/kernel/emit_internal.h"

static void element(tc_em *e, tc_kval first, const tc_sym *base, int32_t wide_var, int32_t width) {
  e->wide = (tc_em_wide){.var = e->vars[wide_var], .base = base, .width = width, .loads = tc_map_create(e->arena)};
  for (int32_t i = 0; i < width; i++) {
    int32_t mark = em_mark(e);
    e->wide.at = i;
    em_bind(e, e->vars[wide_var], em_add(e, first, em_const(e, i)));
    for (int32_t k = 0; k < e->g->steps.count; k++) {
      if (e->g->steps.data[k].stores) em_store_step(e, k);
    }
    em_leave(e, mark);
  }
  e->wide.var = NULL;
}

// Moving elements is a fraction of the work that em_grain reckons with, and whoever reads them next to the caller's own
// work finds those of other threads in their caches.
enum { MOVES_PER_ELEMENT = 8 };

void em_transpose(tc_em *e, int32_t lane_var, int32_t wide_var) {
  tc_sym_ctx *c = e->syms;
  int32_t width = e->dev->simd_bytes / 4, lanes = width, n = e->n_par + e->n_red;
  e->kb = tc_kb_create(e->arena, e->g->kernel, lanes);
  const tc_sym *runs = tc_sym_floordiv(c, e->extents[wide_var], tc_sym_int(c, width)), *blocks = runs;
  for (int32_t d = 0; d < n; d++) {
    if (d != lane_var && d != wide_var) blocks = tc_sym_mul(c, blocks, e->extents[d]);
  }
  em_grain(e, width * tc_sym_hint_or(c, e->extents[lane_var], 64) / MOVES_PER_ELEMENT);
  const tc_sym *block = em_bind_block(e, blocks), *base = tc_sym_fresh(c, "k", TC_SYM_LOCAL);
  tc_sym_info_of(c, base)->lo = 0;
  const tc_sym *run = tc_sym_mod(c, block, runs);
  em_bind_rows(e, tc_sym_floordiv(c, block, runs), n, lane_var, wide_var);
  tc_kval first = em_sym(e, tc_sym_muli(c, run, width));
  em_bind(e, base, first);
  const tc_sym *extent = e->extents[lane_var], *step = tc_sym_int(c, lanes);
  const tc_sym *main_hi = tc_sym_mul(c, tc_sym_floordiv(c, extent, step), step);
  tc_kval lo = em_const(e, 0), k_main = em_sym(e, main_hi), hi = em_sym(e, extent);
  tc_kb_lanes(e->kb);
  for (int32_t tail = 0; tail < 2; tail++) {
    if (tail ? main_hi == extent : tc_sym_is_int(main_hi, 0)) continue;
    int32_t mark = em_mark(e);
    tc_kval j = tc_kb_for(e->kb, tail ? k_main : lo, tail ? hi : k_main, lanes, 0, 0, NULL, NULL);
    tc_kval v = em_add(e, j, tc_kb_cast(e->kb, e->ity, tc_kb_lane(e->kb)));
    em_bind(e, e->vars[lane_var], v);
    e->mask = tail ? tc_kb_op2(e->kb, TC_K_LT, v, hi) : -1;
    element(e, first, base, wide_var, width);
    e->mask = -1;
    tc_kb_end_for(e->kb, 0, NULL, NULL);
    em_leave(e, mark);
  }
  tc_kb_end_lanes(e->kb, 0, NULL, NULL);
}
