// Reductions with few results and many elements become two, so that all cores take part.
//
// One reduced variable r of extent E is cut into C chunks of S = ⌈E / C⌉: r = c·S + s. The first node makes a partial
// result per chunk (c is parallel there), the second reduces these. Where C·S > E the last chunk is guarded: its loads
// have a condition, and beyond E the value is the reduction's neutral element. Partial results are kept in the
// accumulator's type, so that nothing is rounded twice.
//
// Blocks of a reduction along rows are its results; where memory is contiguous along a parallel variable a block is a
// strip of lanes (core/kernel/emit_columns.c), and the chunks become the outermost dimension so that it stays so.
//
// Columns of what is reduced by rows as well (columns.c) are cut by rows: a chunk is so many of them in order, whatever
// dimensions they have, so that a kernel that walks the rows makes the chunk's partial results on its way.
#include <math.h>

#include "core/loop/lo.h"
#include "core/schedule/internal.h"

enum {
  SMALL = 1 << 15,   // elements that one core is done with sooner than others are woken
  LEAST_ROW = 2048,  // elements of a chunk along a row
  GOOD_ROW = 8192,   // the same where threads read many chunks side by side: memory likes them near each other (1.3 %
  MANY_ROWS = 32,    // on an H100); so many of them a core
  LEAST_COLUMN = 16, // rows of a chunk of columns
};

typedef struct split {
  tc_loops *l;
  tc_lnode *n;
  bool columns;
  int32_t var;          // number of the reduced variable that is cut
  bool rows;            // all of them are, as one
  const tc_sym *chunks; // how many
  const tc_sym *size;   // of a chunk
  const tc_sym *c, *s;  // the two variables in its place
  // The variables that are gone, and what they are.
  int32_t n_from;
  const tc_sym *const *from, **to;
  const tc_sym *guard; // NULL: chunks divide the extent
} split;

// ---- what and how ----
bool tc_can_split(const tc_lnode *n) {
  return n->kind == TC_LN_REDUCE && n->n_outs == 1 && n->n_red > 0 && n->n_par < TC_MAX_RANK &&
         (n->reduce <= TC_RED_ALL) && !n->outs[0]->inplace;
}

bool tc_along_columns(tc_loops *l, const tc_lnode *n, const tc_sym **lane_extent) {
  int64_t most = -1;
  bool columns = false;
  for (int32_t i = 0; i < n->body.insts.count; i++) {
    const tc_binst *b = &n->body.insts.data[i];
    if (b->op != TC_B_LOAD || b->gather || tc_buf_hint_bytes(l, b->buf) <= most) continue;
    const tc_sym *const *strides = b->buf->strides ? b->buf->strides : b->buf->prefer;
    if (!strides) strides = tc_row_major(l->module, b->buf->rank, b->buf->sizes);
    const tc_sym *address = tc_sym_int(l->syms, 0);
    for (int32_t d = 0; d < b->buf->rank; d++)
      address = tc_sym_add(l->syms, address, tc_sym_mul(l->syms, b->index[d], strides[d]));
    most = tc_buf_hint_bytes(l, b->buf);
    columns = false;
    for (int32_t d = 0; d < n->n_par; d++) {
      const tc_sym *coeff, *rest;
      if (tc_sym_is_int(n->extents[d], 1) || !tc_sym_linear(l->syms, address, n->vars[d], &coeff, &rest)) continue;
      if (!tc_sym_is_int(coeff, 1)) continue;
      columns = true;
      *lane_extent = n->extents[d];
    }
  }
  return columns;
}

// The reduced variable with most values, the outermost of equals.
static int32_t longest(tc_loops *l, const tc_lnode *n) {
  int32_t best = n->n_par;
  for (int32_t d = n->n_par + 1; d < n->n_par + n->n_red; d++) {
    if (tc_sym_hint_or(l->syms, n->extents[d], 1) > tc_sym_hint_or(l->syms, n->extents[best], 1)) best = d;
  }
  return best;
}

// A number of chunks that divides the extent, not much above the one wanted; else that one.
static int64_t dividing(const tc_sym *extent, int64_t chunks) {
  if (!tc_sym_is_const(extent)) return chunks;
  for (int64_t c = chunks; c < 2 * chunks && c <= extent->value; c++) {
    if (extent->value % c == 0) return c;
  }
  return chunks;
}

static int64_t fewer(int64_t a, int64_t b) { return a < b ? a : b; }

// How many chunks of the extent have `least` elements, of which there are `inner` for each of its values.
static int64_t chunks_of(int64_t extent, int64_t inner, int64_t least) {
  int64_t values = inner > 0 ? (least + inner - 1) / inner : 1;
  return extent / (values > 0 ? values : 1);
}

static bool worthwhile(split *x, const tc_device_props *dev, int64_t *out_chunks) {
  tc_sym_ctx *c = x->l->syms;
  const tc_lnode *n = x->n;
  int64_t results = tc_sym_hint_or(c, tc_product(x->l, n->n_par, n->extents), 1 << 20);
  int64_t row = tc_sym_hint_or(c, tc_product(x->l, n->n_red, n->extents + n->n_par), 1);
  if (dev->cores < 2 || results < 1 || row < 2 || results > INT64_MAX / row || results * row <= SMALL) return false;
  const tc_sym *lane_extent = NULL;
  x->columns = tc_along_columns(x->l, n, &lane_extent);
  int64_t blocks = results, wanted = 2 * (int64_t)dev->cores, least = LEAST_ROW;
  if (x->columns) {
    int64_t lanes = dev->simd_bytes ? dev->simd_bytes : 256, along = tc_sym_hint_or(c, lane_extent, 1);
    blocks = results / (along > 0 ? along : 1) * ((along + lanes - 1) / lanes);
    wanted = dev->cores; // strips are long: no core needs two to be busy
    least = LEAST_COLUMN;
  }
  if (blocks >= wanted) return false;
  x->var = longest(x->l, n);
  int64_t extent = tc_sym_hint_or(c, n->extents[x->var], 1), inner = row / (extent > 0 ? extent : 1);
  int64_t chunks = fewer((wanted + blocks - 1) / blocks, chunks_of(extent, inner, least));
  if (chunks < 2) return false;
  if (!x->columns && !dev->simd_bytes) {
    int64_t many = fewer(MANY_ROWS * (int64_t)dev->cores / blocks, chunks_of(extent, inner, GOOD_ROW));
    if (many > chunks) chunks = many;
  }
  *out_chunks = dividing(n->extents[x->var], chunks);
  return true;
}

// ---- bodies ----
static int32_t push(split *x, tc_body *b, tc_binst inst) {
  tc_vec_push(x->l->arena, &b->insts, inst);
  return b->insts.count - 1;
}

static tc_binst neutral(int32_t kind, tc_dtype d) {
  tc_binst b = {.op = TC_K_CONST, .dtype = d};
  char cls = tc_dtype_class(d);
  int32_t bits = tc_dtype_size(d) * 8;
  bool highest = kind == TC_RED_MIN;
  switch (kind) {
  case TC_RED_PROD: b.re = cls == 'f' || cls == 'c', b.imm = cls != 'f' && cls != 'c'; break;
  case TC_RED_ALL: b.imm = 1; break;
  case TC_RED_MAX:
  case TC_RED_MIN:
    if (cls == 'f') b.re = highest ? INFINITY : -INFINITY;
    else if (cls == 'b') b.imm = highest;
    else if (cls == 'u') b.imm = !highest ? 0 : bits == 64 ? -1 : (int64_t)((1ull << bits) - 1);
    else b.imm = highest ? (int64_t)(~0ull >> (65 - bits)) : -(int64_t)(~0ull >> (65 - bits)) - 1;
    break;
  default: break;
  }
  return b;
}

// The guard as a bool of the body.
static int32_t guard(split *x, tc_body *out) {
  int32_t in = push(x, out, (tc_binst){.op = TC_B_INDEX, .dtype = TC_I64, .expr = x->guard});
  return push(x, out, (tc_binst){.op = TC_K_CAST, .dtype = TC_BOOL, .n_args = 1, .args = {in}});
}

// The body over the cut variable; loads and the value are guarded where chunks reach beyond the end.
static tc_body partial_body(split *x) {
  tc_sym_ctx *c = x->l->syms;
  const tc_body *old = &x->n->body;
  tc_body out = {.n_results = 1};
  int32_t *number = TC_NEW_ARRAY(x->l->arena, int32_t, old->insts.count);
  for (int32_t i = 0; i < old->insts.count; i++) {
    tc_binst b = old->insts.data[i];
    for (int32_t k = 0; k < b.n_args; k++) b.args[k] = number[b.args[k]];
    if (b.op == TC_B_INDEX) b.expr = tc_sym_replace(c, b.expr, x->n_from, x->from, x->to);
    if (b.op == TC_B_LOAD) {
      const tc_sym **index = TC_NEW_ARRAY(x->l->arena, const tc_sym *, b.buf->rank);
      int32_t *gather = b.gather ? TC_NEW_ARRAY(x->l->arena, int32_t, b.buf->rank) : NULL;
      for (int32_t d = 0; d < b.buf->rank; d++) {
        index[d] = tc_sym_replace(c, b.index[d], x->n_from, x->from, x->to);
        if (gather) gather[d] = b.gather[d] < 0 ? -1 : number[b.gather[d]];
      }
      b.index = index;
      b.gather = gather;
      if (b.cond) b.cond = tc_sym_replace(c, b.cond, x->n_from, x->from, x->to);
      if (x->guard) {
        if (!b.cond) b.args[0] = push(x, &out, (tc_binst){.op = TC_K_CONST, .dtype = b.dtype}), b.n_args = 1;
        b.cond = b.cond ? tc_sym_and(c, x->guard, b.cond) : x->guard;
      }
    }
    if (b.op == TC_B_CHECK && x->guard) {
      int32_t no = push(x, &out, (tc_binst){.op = TC_K_NOT, .dtype = TC_BOOL, .n_args = 1, .args = {guard(x, &out)}});
      b.args[0] = push(x, &out, (tc_binst){.op = TC_K_OR, .dtype = TC_BOOL, .n_args = 2, .args = {b.args[0], no}});
    }
    number[i] = push(x, &out, b);
  }
  int32_t v = number[old->results[0]];
  if (x->guard) {
    tc_dtype d = out.insts.data[v].dtype;
    int32_t yes = guard(x, &out);
    int32_t other = push(x, &out, neutral(x->n->reduce, d));
    v = push(x, &out, (tc_binst){.op = TC_K_SELECT, .dtype = d, .n_args = 3, .args = {yes, v, other}});
  }
  out.results[0] = v;
  return out;
}

// ---- nodes ----
static tc_dtype accumulator(tc_dtype d) {
  switch (d) {
  case TC_F16:
  case TC_BF16: return TC_F32;
  case TC_C32:
  case TC_BC32: return TC_C64;
  default: return d;
  }
}

// par …, c (or c, par …): the domain of the partial results; then the reduced variables with s in the place of r.
static tc_lnode *partial_node(split *x) {
  tc_loops *l = x->l;
  const tc_lnode *n = x->n;
  tc_lnode *p = TC_NEW(l->arena, tc_lnode);
  *p = *n;
  p->n_par = n->n_par + 1;
  if (x->rows) p->n_red = 1;
  const tc_sym **vars = TC_NEW_ARRAY(l->arena, const tc_sym *, p->n_par + p->n_red);
  const tc_sym **extents = TC_NEW_ARRAY(l->arena, const tc_sym *, p->n_par + p->n_red);
  int32_t c_at = x->columns ? 0 : n->n_par;
  for (int32_t d = 0; d < n->n_par + p->n_red; d++) {
    int32_t to = d < n->n_par && d < c_at ? d : d + 1;
    bool cut = d == x->var;
    vars[to] = cut ? x->s : n->vars[d];
    extents[to] = cut ? x->size : n->extents[d];
  }
  vars[c_at] = x->c;
  extents[c_at] = x->chunks;
  p->vars = vars;
  p->extents = extents;
  p->body = partial_body(x);
  tc_sv name = tc_sv_printf(l->arena, TC_SV_FMT "_partial", TC_SV_ARG(n->outs[0]->name));
  p->outs = TC_NEW_ARRAY(l->arena, tc_buf *, 1);
  p->outs[0] = tc_loops_buf(l, name, accumulator(n->outs[0]->dtype), p->n_par, extents);
  p->outs[0]->def = p;
  return p;
}

// The node itself now reduces the partial results, with variables of its own.
static void reduce_partials(split *x, const tc_lnode *p) {
  tc_loops *l = x->l;
  tc_lnode *n = x->n;
  const tc_sym **vars = TC_NEW_ARRAY(l->arena, const tc_sym *, n->n_par + 1);
  const tc_sym **extents = TC_NEW_ARRAY(l->arena, const tc_sym *, n->n_par + 1);
  const tc_sym **index = TC_NEW_ARRAY(l->arena, const tc_sym *, n->n_par + 1);
  for (int32_t d = 0; d <= n->n_par; d++) {
    extents[d] = d < n->n_par ? n->extents[d] : x->chunks;
    vars[d] = tc_loop_var(l, d < n->n_par ? "i" : "r", extents[d]);
  }
  for (int32_t d = 0; d <= n->n_par; d++) index[d] = !x->columns ? vars[d] : d == 0 ? vars[n->n_par] : vars[d - 1];
  n->vars = vars;
  n->extents = extents;
  n->n_red = 1;
  n->body = (tc_body){.n_results = 1};
  push(x, &n->body, (tc_binst){.op = TC_B_LOAD, .dtype = p->outs[0]->dtype, .buf = p->outs[0], .index = index});
}

// x has chunks and size; `flat` numbers what is cut, of `extent` values.
static tc_lnode *split_node(split *x, const tc_sym *extent) {
  tc_sym_ctx *c = x->l->syms;
  x->c = tc_loop_var(x->l, "i", x->chunks);
  x->s = tc_loop_var(x->l, "r", x->size);
  const tc_sym *flat = tc_sym_add(c, tc_sym_mul(c, x->c, x->size), x->s);
  x->guard = NULL;
  if (!tc_sym_eq(c, tc_sym_mul(c, x->size, x->chunks), extent)) x->guard = tc_sym_cmp(c, TC_SYM_LT, flat, extent);
  for (int32_t k = x->n_from - 1; k >= 0; k--) { // row by row, the last variable fastest
    const tc_sym *size = x->n->extents[x->var + k];
    x->to[k] = k ? tc_sym_mod(c, flat, size) : flat;
    flat = tc_sym_floordiv(c, flat, size);
  }
  tc_lnode *p = partial_node(x);
  reduce_partials(x, p);
  return p;
}

static tc_lnode *split_variable(split *x, int64_t chunks) {
  const tc_sym *extent = x->n->extents[x->var];
  x->chunks = tc_sym_int(x->l->syms, chunks);
  x->size = tc_sym_ceildiv(x->l->syms, extent, x->chunks);
  x->n_from = 1;
  x->from = &x->n->vars[x->var];
  x->to = TC_NEW_ARRAY(x->l->arena, const tc_sym *, 1);
  return split_node(x, extent);
}

static tc_lnode *split_rows(split *x, const tc_column_part *part) {
  tc_sym_ctx *c = x->l->syms;
  x->rows = x->columns = true;
  x->var = x->n->n_par;
  x->size = tc_sym_int(c, part->rows);
  x->chunks = tc_sym_ceildiv(c, part->height, x->size);
  x->n_from = x->n->n_red;
  x->from = x->n->vars + x->n->n_par;
  x->to = TC_NEW_ARRAY(x->l->arena, const tc_sym *, x->n_from);
  return split_node(x, part->height);
}

tc_status tc_split_reductions(tc_loops *l, const tc_device_props *device, const tc_logger *logger, tc_map *columns) {
  TC_VEC(tc_lnode *) nodes = {0};
  const tc_column_part *const *parts = tc_columns_beside_rows(l, device);
  for (int32_t i = 0; i < l->nodes.count; i++) {
    split x = {.l = l, .n = l->nodes.data[i]};
    int64_t chunks;
    if (parts[i]) {
      tc_lnode *p = split_rows(&x, parts[i]);
      tc_map_put_ptr(columns, p, NULL)->value.ptr = (void *)(uintptr_t)parts[i];
      tc_vec_push(l->arena, &nodes, p);
      tc_log(logger, TC_LOG_FUSION, "splitting the columns " TC_SV_FMT " into parts of %lld rows",
             TC_SV_ARG(x.n->outs[0]->name), (long long)parts[i]->rows);
      x = (split){.l = l, .n = x.n};
    }
    if (tc_can_split(x.n) && worthwhile(&x, device, &chunks)) {
      tc_vec_push(l->arena, &nodes, split_variable(&x, chunks));
      tc_log(logger, TC_LOG_FUSION, "splitting the reduction " TC_SV_FMT " into %lld parts of each result",
             TC_SV_ARG(x.n->outs[0]->name), (long long)chunks);
    }
    tc_vec_push(l->arena, &nodes, x.n);
  }
  l->nodes.data = nodes.data;
  l->nodes.count = nodes.count;
  l->nodes.capacity = nodes.capacity;
  for (int32_t i = 0; i < nodes.count; i++) nodes.data[i]->id = i;
  return TC_OK;
}
