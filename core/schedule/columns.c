// Row and column reductions of one tensor in one kernel: the backward of a norm sums over its rows for the gradient of
// its input, and over all rows, column by column, for those of its weights.
//
// A column reduction beside row reductions is cut into parts of so many rows in order (split.c). A group of rows takes
// such a part in (fuse.c): a block walks that many rows, and where it is at an element it adds it to the column's part,
// which only this block touches. What is left is a small reduction over the parts, in an order that does not depend on
// the number of threads.
//
// Chosen are reductions that read, through pointwise nodes, some element of the rows that a row reduction of the same
// elements reads, or makes. The longer a part, the less memory parts take (two transfers of a result per part and
// column, against one of each element that is read once instead of twice); but there must be blocks for every core, and
// sums of few elements are the more exact ones. A part stays in the cache beside a row.
#include "core/schedule/internal.h"

enum {
  MOST_ROWS = 128, // additions one after the other
  LEAST_ROWS = 8,
  SMALL = 1 << 15, // elements that one core is done with sooner than others are woken
  MOST_SEEN = 64,  // pointwise nodes behind a reduction
  MOST_BESIDE = 4, // row reductions that are remembered for a buffer
};

typedef struct beside {
  tc_lnode *nodes[MOST_BESIDE];
  int32_t count;
} beside;

typedef struct finder {
  tc_loops *l;
  const tc_device_props *dev;
  beside *rows;  // by buffer id: row reductions that read it element by element
  int32_t *seen; // by buffer id: number of the last search that saw it
  int32_t stamp;
  // Of one search: the node, its number of elements, and what it reads with as many.
  const tc_lnode *node;
  const tc_sym *points;
  TC_VEC(const tc_buf *) full;
} finder;

static const tc_sym *par(tc_loops *l, const tc_lnode *n) { return tc_product(l, n->n_par, n->extents); }
static const tc_sym *red(tc_loops *l, const tc_lnode *n) { return tc_product(l, n->n_red, n->extents + n->n_par); }

static void collect(finder *f, const tc_lnode *n) {
  for (int32_t i = 0; i < n->body.insts.count && f->full.count < MOST_SEEN; i++) {
    const tc_buf *b = n->body.insts.data[i].buf;
    if (!b || f->seen[b->id] == f->stamp || !tc_sym_eq(f->l->syms, tc_product(f->l, b->rank, b->sizes), f->points))
      continue;
    f->seen[b->id] = f->stamp;
    tc_vec_push(f->l->arena, &f->full, b);
    if (b->def && b->def->kind == TC_LN_POINTWISE) collect(f, b->def);
  }
}

static void search(finder *f, const tc_lnode *n) {
  f->stamp++;
  f->node = n;
  f->full.count = 0;
  f->points = tc_sym_mul(f->l->syms, par(f->l, n), red(f->l, n));
  collect(f, n);
}

// A row reduction of the same elements that reads some of what was found, and the bytes that both read.
static tc_lnode *row_beside(const finder *f, int64_t *out_bytes) {
  tc_lnode *first = NULL;
  int64_t bytes = 0;
  const tc_sym *rows = red(f->l, f->node), *columns = par(f->l, f->node);
  for (int32_t i = 0; i < f->full.count; i++) {
    const beside *b = &f->rows[f->full.data[i]->id];
    for (int32_t k = 0; k < b->count; k++) {
      tc_lnode *n = b->nodes[k];
      if (!tc_sym_eq(f->l->syms, par(f->l, n), rows) || !tc_sym_eq(f->l->syms, red(f->l, n), columns)) continue;
      int64_t here = tc_buf_hint_bytes(f->l, f->full.data[i]);
      if (!first) first = n;
      bytes = bytes > INT64_MAX - here ? INT64_MAX : bytes + here;
      break;
    }
  }
  *out_bytes = bytes;
  return first;
}

// A number of rows that divides the height, not much below the one wanted; else that one.
static int64_t dividing(const tc_sym *height, int64_t rows) {
  for (int64_t r = rows; tc_sym_is_const(height) && r > rows / 2 && r >= LEAST_ROWS; r--) {
    if (height->value % r == 0) return r;
  }
  return rows;
}

static const tc_column_part *part_of(finder *f, const tc_lnode *n) {
  const tc_sym *lane_extent, *height = red(f->l, n);
  tc_sym_ctx *c = f->l->syms;
  int64_t rows = tc_sym_hint_or(c, height, 1 << 12), columns = tc_sym_hint_or(c, par(f->l, n), 1 << 10);
  if (!tc_can_split(n) || n->n_par == 0 || !tc_along_columns(f->l, n, &lane_extent)) return NULL;
  search(f, n);
  int64_t saved, size = tc_dtype_size(n->outs[0]->dtype);
  tc_lnode *beside = row_beside(f, &saved);
  if (!beside || rows < 2 * LEAST_ROWS || columns < 2 || columns > INT64_MAX / 64 / rows) return NULL;
  size = size < 4 ? 4 : size;
  if (f->dev->l2_bytes && columns * size > f->dev->l2_bytes / 4) return NULL;
  int64_t wanted = (int64_t)f->dev->cores * (f->dev->simd_bytes ? 2 : 4), most = MOST_ROWS;
  bool small = f->dev->simd_bytes && rows * columns <= SMALL;
  if (!small && wanted > 0 && rows / wanted < most) most = rows / wanted;
  if (most > rows) most = rows;
  if (most < LEAST_ROWS) return NULL;
  most = dividing(height, most);
  if (2 * ((rows + most - 1) / most) * columns * size > saved / 2) return NULL;
  tc_column_part *part = TC_NEW(f->l->arena, tc_column_part);
  *part = (tc_column_part){most, height, beside, saved};
  return part;
}

const tc_column_part *const *tc_columns_beside_rows(tc_loops *l, const tc_device_props *device) {
  finder f = {.l = l, .dev = device};
  const tc_sym *lane_extent;
  const tc_column_part **out = TC_NEW_ARRAY(l->arena, const tc_column_part *, l->nodes.count);
  f.rows = TC_NEW_ARRAY(l->arena, beside, l->bufs.count);
  f.seen = TC_NEW_ARRAY(l->arena, int32_t, l->bufs.count);
  for (int32_t i = 0; i < l->nodes.count; i++) {
    tc_lnode *n = l->nodes.data[i];
    if (n->kind != TC_LN_REDUCE || n->n_red == 0 || tc_along_columns(l, n, &lane_extent)) continue;
    search(&f, n);
    for (int32_t k = 0; k < f.full.count; k++) {
      beside *b = &f.rows[f.full.data[k]->id];
      if (b->count < MOST_BESIDE) b->nodes[b->count++] = n;
    }
  }
  for (int32_t i = 0; i < l->nodes.count; i++) out[i] = part_of(&f, l->nodes.data[i]);
  return out;
}

const tc_column_part *tc_column_part_of(const tc_sched *x, const tc_lnode *n) {
  tc_map_entry *e = tc_map_find_ptr(x->columns, n);
  return e ? e->value.ptr : NULL;
}

const tc_column_part *tc_columns_of(const tc_sched *x, const tc_group *g) {
  const tc_column_part *first = NULL;
  if (g->rows) return NULL;
  for (int32_t i = 0; i < g->steps.count; i++) {
    const tc_column_part *p = tc_column_part_of(x, g->steps.data[i].node);
    if (!p) return NULL;
    if (!first) first = p;
    if (p->rows != first->rows || p->height != first->height) return NULL;
  }
  return first;
}

bool tc_columns_map(tc_loops *l, const tc_lnode *n, int64_t rows, int32_t n_par, int32_t n_red,
                    const tc_sym *const *vars, const tc_sym *const *extents, const tc_sym **out) {
  const tc_sym *row = tc_row_major_index(l, n_par, extents, vars), *size = tc_sym_int(l->syms, rows);
  out[0] = tc_sym_floordiv(l->syms, row, size);
  out[n->n_par] = tc_sym_mod(l->syms, row, size);
  return tc_map_domain(l, n_red, vars + n_par, extents + n_par, n->n_par - 1, n->extents + 1, out + 1);
}
