// Domains: products, row-major indices, mapping one factorisation of a domain to another.
#include "core/schedule/internal.h"

const tc_sym *tc_product(tc_loops *l, int32_t n, const tc_sym *const *v) {
  const tc_sym *p = tc_sym_int(l->syms, 1);
  for (int32_t i = 0; i < n; i++) p = tc_sym_mul(l->syms, p, v[i]);
  return p;
}

int32_t tc_turned_width(const tc_device_props *device, int64_t rows, const tc_sym *row) {
  enum { LEAST_WIDTH = 4, LEAST_ELEMENTS = 1 << 16 };
  int32_t lanes = device->simd_bytes / 4, width = lanes;
  if (!lanes || !tc_sym_is_const(row) || row->value * 4 * lanes > device->l2_bytes / 2) return 0;
  if (row->value < 1 || rows < LEAST_ELEMENTS / row->value) return 0;
  while (width > 1 && row->value % width) width /= 2;
  return width >= LEAST_WIDTH ? width : 0;
}

const tc_sym *tc_row_major_index(tc_loops *l, int32_t rank, const tc_sym *const *sizes, const tc_sym *const *index) {
  const tc_sym *flat = tc_sym_int(l->syms, 0);
  for (int32_t d = 0; d < rank; d++) flat = tc_sym_add(l->syms, tc_sym_mul(l->syms, flat, sizes[d]), index[d]);
  return flat;
}

bool tc_load_aligned(tc_loops *l, const tc_binst *b, int32_t n, const tc_sym *const *vars,
                     const tc_sym *const *extents) {
  if (b->gather || b->cond) return false;
  if (!tc_sym_eq(l->syms, tc_product(l, b->buf->rank, b->buf->sizes), tc_product(l, n, extents))) return false;
  return tc_row_major_index(l, b->buf->rank, b->buf->sizes, b->index) == tc_row_major_index(l, n, extents, vars);
}

bool tc_map_domain(tc_loops *l, int32_t n_from, const tc_sym *const *from_vars, const tc_sym *const *from_extents,
                   int32_t n_to, const tc_sym *const *to_extents, const tc_sym **out) {
  tc_sym_ctx *c = l->syms;
  int32_t i = 0, j = 0;
  while (i < n_from || j < n_to) {
    int32_t i0 = i, j0 = j;
    const tc_sym *f = i < n_from ? from_extents[i++] : tc_sym_int(c, 1);
    const tc_sym *t = j < n_to ? to_extents[j++] : tc_sym_int(c, 1);
    while (!tc_sym_eq(c, f, t)) {
      int64_t fh = tc_sym_hint_or(c, f, 1), th = tc_sym_hint_or(c, t, 1);
      if (i < n_from && (fh < th || j == n_to)) f = tc_sym_mul(c, f, from_extents[i++]);
      else if (j < n_to) t = tc_sym_mul(c, t, to_extents[j++]);
      else return false;
    }
    // A run of dimensions on both sides with equal products.
    const tc_sym *flat = tc_row_major_index(l, i - i0, from_extents + i0, from_vars + i0);
    for (int32_t d = j - 1; d >= j0; d--) {
      if (j - j0 > 1 && tc_sym_is_int(to_extents[d], 0)) return false; // no points, and nothing to divide by
      out[d] = d == j0 ? flat : tc_sym_mod(c, flat, to_extents[d]);
      flat = tc_sym_floordiv(c, flat, to_extents[d]);
    }
  }
  return true;
}

const tc_sym *tc_buf_bytes(tc_loops *l, const tc_buf *b) {
  return tc_sym_muli(l->syms, tc_product(l, b->rank, b->sizes), tc_dtype_size(b->dtype));
}

int64_t tc_buf_hint_bytes(tc_loops *l, const tc_buf *b) { return tc_sym_hint_or(l->syms, tc_buf_bytes(l, b), 1 << 20); }

const tc_sym *tc_group_bytes(tc_schedule *s, const tc_group *g) {
  const tc_sym *total = tc_sym_int(s->loops->syms, 0);
  for (int32_t i = 0; i < g->reads.count; i++)
    total = tc_sym_add(s->loops->syms, total, tc_buf_bytes(s->loops, g->reads.data[i]));
  for (int32_t i = 0; i < g->writes.count; i++) {
    const tc_buf *b = g->writes.data[i];
    const tc_lnode *n = b->def; // in place: only what the node writes
    total = tc_sym_add(
        s->loops->syms, total,
        n && n->store ? tc_sym_muli(s->loops->syms, tc_product(s->loops, n->n_par, n->extents), tc_dtype_size(b->dtype))
                      : tc_buf_bytes(s->loops, b));
  }
  return total;
}

const tc_sym *tc_group_flops(tc_schedule *s, const tc_group *g) {
  tc_sym_ctx *c = s->loops->syms;
  const tc_sym *total = tc_sym_int(c, 0);
  for (int32_t i = 0; i < g->steps.count; i++) {
    const tc_lnode *n = g->steps.data[i].node;
    const tc_sym *points = tc_product(s->loops, n->n_par + n->n_red, n->extents);
    int32_t per = tc_body_cost(&n->body) + (n->kind == TC_LN_REDUCE);
    total = tc_sym_add(c, total, tc_sym_muli(c, points, per));
  }
  return total;
}
