// Matrix products. mm, bmm and linear are lowered to the template "matmul" over a packed second operand; the others are
// expanded into them.
#include <math.h>
#include <stdio.h>

#include "core/ops/ops.h"

enum { PANEL = 64, SMALL = 32 }; // the most columns of a packed panel; sizes of matrices that are not packed
// What is no constant would be packed in every run. It is read where it lies if it is packed already, or if its panels
// stay near in the cache although they are no runs of memory; small ones that are turned, whose rows are gathers, if
// they are tiny and no more rows go past them than keep their sums in registers.
enum { NEAR = 16384, TINY = 64, FEW_ROWS = 14 }; // bytes, elements
// Others are packed by the blocks that multiply by them, a panel at a time, if a panel is no more than these bytes.
enum { OWN_PANEL = 1 << 19 };

// ---- meta ----
static bool same_dtype(tc_op_args *a, int32_t x, int32_t y) {
  if (tc_op_tensor(a, x)->dtype == tc_op_tensor(a, y)->dtype) return true;
  tc_op_fail(a, "expected the operands to have the same dtype, but got: %s and %s",
             tc_dtype_torch_name(tc_op_tensor(a, x)->dtype), tc_dtype_torch_name(tc_op_tensor(a, y)->dtype));
  return false;
}

// a[…, m, k] · b[…, k, n] of rank `rank`; b transposed for linear.
static int32_t product_meta(tc_op_args *a, int32_t ia, int32_t ib, int32_t rank) {
  const tc_tensor_type *x = tc_op_tensor(a, ia), *y = tc_op_tensor(a, ib);
  if (x->rank != rank || y->rank != rank)
    return tc_op_fail(a, "both operands must have rank %d: %s and %s", rank, tc_op_shape_text(a, ia),
                      tc_op_shape_text(a, ib));
  if (!same_dtype(a, ia, ib) || !same_dtype(a, 0, ia)) return TC_STATUS_INVALID_ARGUMENT;
  bool differ = tc_int_require_eq(a, x->sizes[rank - 1], y->sizes[rank - 2]) != 0;
  if (rank == 3) differ |= tc_int_require_eq(a, x->sizes[0], y->sizes[0]) != 0;
  if (differ)
    return tc_op_fail(a, "the shapes cannot be multiplied (%s and %s)", tc_op_shape_text(a, ia),
                      tc_op_shape_text(a, ib));
  tc_int sizes[3];
  for (int32_t d = 0; d < rank - 1; d++) sizes[d] = x->sizes[d];
  sizes[rank - 1] = y->sizes[rank - 1];
  if (ia > 0 && tc_op_fits(a, 0, rank, sizes)) return TC_STATUS_INVALID_ARGUMENT;
  return tc_op_set_result(a, 0, x->dtype, rank, sizes, NULL);
}
static int32_t mm_meta(tc_op_args *a) { return product_meta(a, 0, 1, 2); }
static int32_t bmm_meta(tc_op_args *a) { return product_meta(a, 0, 1, 3); }
static int32_t addmm_meta(tc_op_args *a) { return product_meta(a, 1, 2, 2); }
static int32_t baddbmm_meta(tc_op_args *a) { return product_meta(a, 1, 2, 3); }

static int32_t linear_meta(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0), *w = tc_op_tensor(a, 1), *b = tc_op_tensor(a, 2);
  if (x->rank < 1 || w->rank < 1 || w->rank > 2)
    return tc_op_fail(a, "linear: %s and %s", tc_op_shape_text(a, 0), tc_op_shape_text(a, 1));
  if (!same_dtype(a, 0, 1) || (b && !same_dtype(a, 0, 2))) return TC_STATUS_INVALID_ARGUMENT;
  if (tc_int_require_eq(a, x->sizes[x->rank - 1], w->sizes[w->rank - 1]))
    return tc_op_fail(a, "the shapes cannot be multiplied (%s and %s transposed)", tc_op_shape_text(a, 0),
                      tc_op_shape_text(a, 1));
  tc_int sizes[TC_MAX_RANK];
  int32_t n = x->rank - 1;
  for (int32_t d = 0; d < n; d++) sizes[d] = x->sizes[d];
  if (w->rank == 2) sizes[n++] = w->sizes[0];
  if (b && b->rank == 1 && w->rank == 2 && tc_int_require_eq(a, b->sizes[0], w->sizes[0]))
    return tc_op_fail(a, "linear: the bias (%s) does not match the weight (%s)", tc_op_shape_text(a, 2),
                      tc_op_shape_text(a, 1));
  if (b && tc_op_fits(a, 2, n, sizes)) return TC_STATUS_INVALID_ARGUMENT;
  return tc_op_set_result(a, 0, x->dtype, n, sizes, NULL);
}

// ---- lowering ----
tc_bval tc_lower_pair(tc_op_args *a, const tc_bval halves[2]) {
  static const char *const x[] = {"x"};
  tc_bval bits[2];
  for (int32_t i = 0; i < 2; i++) bits[i] = tc_lo_cast(a, tc_lo_text(a, "bits_of(x)", 1, x, &halves[i]), TC_I32);
  tc_bval low = tc_lo_op2(a, TC_K_AND, bits[0], tc_lo_const_int(a, TC_I32, 0xffff)),
          high = tc_lo_op2(a, TC_K_SHL, bits[1], tc_lo_const_int(a, TC_I32, 16));
  return tc_lo_op2(a, TC_K_OR, low, high);
}

// Columns of a panel: what lies behind the last column is multiplied, too, and takes memory, but narrow panels need
// more loads for each multiply-add (as the template's own costs have it).
static int64_t panel_of(tc_int columns) {
  enum { FEWEST = 16 };
  if (!tc_sym_is_const(columns)) return PANEL;
  int64_t best = PANEL;
  double least = INFINITY;
  for (int64_t p = PANEL; p >= FEWEST; p /= 2) {
    double cost = (double)((columns->value + p - 1) / p * p) * (1 + 0.3 * FEWEST / (double)p);
    if (cost < least) best = p, least = cost;
  }
  return best;
}

// b, seen as […, k, n], packed in panels: […, ⌈n/P⌉, k, P], zero behind the last column. In pairs: […, ⌈n/P⌉, k/2, P]
// of i32, whose halves are the bits of rows 2i (low) and 2i+1 (high).
static tc_lt pack(tc_op_args *a, tc_lt b, bool pairs) {
  int32_t rank = tc_lo_rank(a, b);
  tc_int sizes[TC_MAX_RANK], index[TC_MAX_RANK], at[TC_MAX_RANK], n = tc_lo_size(a, b, rank - 1);
  int64_t panel = panel_of(n);
  tc_int p = tc_int_const(a, panel);
  for (int32_t d = 0; d < rank - 2; d++) sizes[d] = tc_lo_size(a, b, d);
  sizes[rank - 2] = tc_int_floordiv(a, tc_int_add(a, n, tc_int_const(a, panel - 1)), p);
  tc_int two = tc_int_const(a, 2), depth = tc_lo_size(a, b, rank - 2);
  sizes[rank - 1] = pairs ? tc_int_floordiv(a, depth, two) : depth;
  sizes[rank] = p;
  tc_lo_begin(a, rank + 1, sizes, index);
  for (int32_t d = 0; d < rank - 2; d++) at[d] = index[d];
  at[rank - 1] = tc_int_add(a, tc_int_mul(a, index[rank - 2], p), index[rank]);
  tc_bval zero = tc_lo_const(a, tc_lo_dtype(a, b), 0, 0), element[2];
  tc_int inside = tc_sym_cmp(a->syms, TC_SYM_LT, at[rank - 1], n);
  for (int32_t half = 0; half <= pairs; half++) {
    at[rank - 2] = pairs ? tc_int_add(a, tc_int_mul(a, index[rank - 1], two), tc_int_const(a, half)) : index[rank - 1];
    element[half] = tc_lo_load_if(a, b, at, inside, zero);
  }
  tc_lo_keep(a);
  if (!pairs) return tc_lo_end(a, element[0], tc_lo_dtype(a, b));
  return tc_lo_end(a, tc_lower_pair(a, element), TC_I32);
}

// Do products of this depth pay in pairs on this device?
static bool in_pairs(tc_op_args *a, tc_dtype x, tc_int depth) {
  return tc_lo_pairs(a, x) && tc_sym_is_int(tc_int_mod(a, depth, tc_int_const(a, 2)), 0);
}

// Products that are no work for the template: one column is a reduction of rows, and what is empty is zeros.
static tc_lt multiply_rows(tc_op_args *a, tc_lt x, tc_lt y, tc_dtype out, int32_t rank, const tc_int *sizes) {
  tc_dtype compute = tc_op_math_type(out);
  tc_int index[TC_MAX_RANK + 1], ix[TC_MAX_RANK], iy[TC_MAX_RANK], depth = tc_lo_size(a, x, rank - 1);
  tc_lo_begin_reduce(a, TC_RED_SUM, rank, sizes, 1, &depth, index);
  for (int32_t d = 0; d < rank; d++) ix[d] = iy[d] = index[d];
  ix[rank - 1] = iy[rank - 2] = index[rank];
  tc_bval p = tc_lo_cast(a, tc_lo_load(a, x, ix), compute), q = tc_lo_cast(a, tc_lo_load(a, y, iy), compute);
  return tc_lo_end(a, tc_lo_op2(a, TC_K_MUL, p, q), out);
}

static tc_lt swapped(tc_op_args *a, tc_lt w) { // the last two dimensions
  int32_t rank = tc_lo_rank(a, w);
  tc_int sizes[TC_MAX_RANK], index[TC_MAX_RANK], map[TC_MAX_RANK];
  for (int32_t d = 0; d < rank; d++) sizes[d] = tc_lo_size(a, w, d);
  sizes[rank - 2] = tc_lo_size(a, w, rank - 1), sizes[rank - 1] = tc_lo_size(a, w, rank - 2);
  tc_lo_indices(a, rank, sizes, index);
  for (int32_t d = 0; d < rank; d++) map[d] = index[d];
  map[rank - 2] = index[rank - 1], map[rank - 1] = index[rank - 2];
  return tc_lo_view(a, w, rank, sizes, index, map);
}

// Many products of small matrices, or many rows times one: all sizes but the first are known and small.
static bool is_small(tc_op_args *a, tc_lt x, tc_lt y) {
  int32_t rank = tc_lo_rank(a, x);
  const tc_sym *sizes[3] = {tc_lo_size(a, x, rank - 1), tc_lo_size(a, y, rank - 1), tc_lo_size(a, x, rank - 2)};
  if (rank != 3 && rank != 2) return false;
  for (int32_t i = 0; i < rank; i++) {
    if (!tc_sym_is_const(sizes[i]) || sizes[i]->value > SMALL) return false;
  }
  return !tc_sym_is_int(tc_lo_size(a, x, 0), 1);
}

// A copy of matrices in the order of their rows.
static tc_lt in_row_order(tc_op_args *a, tc_lt y) {
  int32_t rank = tc_lo_rank(a, y);
  tc_int sizes[TC_MAX_RANK], index[TC_MAX_RANK];
  for (int32_t d = 0; d < rank; d++) sizes[d] = tc_lo_size(a, y, d);
  tc_lo_begin(a, rank, sizes, index);
  tc_bval v = tc_lo_load(a, y, index);
  tc_lo_keep(a);
  return tc_lo_end(a, v, tc_lo_dtype(a, y));
}

// How operands lie, as the template wants to know it: bits 0 and 1, neighbouring matrices (or rows) of x and y lie
// together; bit 3, neighbouring columns of y do not. ix, iy: the op's arguments; -1: nothing is known of it.
static int64_t small_strides(tc_op_args *a, int32_t rank, int32_t ix, int32_t iy) {
  int64_t bits = 0;
  for (int32_t k = 0; k < 2; k++) {
    const tc_tensor_type *t = (k ? iy : ix) < 0 ? NULL : tc_op_tensor(a, k ? iy : ix);
    if (!t || t->rank != rank) continue;
    if (tc_sym_is_int(t->strides[0], 1)) bits |= 1 << k;
    if (!tc_sym_is_int(t->strides[rank - 1], 1)) bits |= 4 << k;
  }
  return rank == 2 ? bits & 1 : bits; // one matrix y has been brought in order
}

// The template goes along rows of x, once for each panel of y. Where x lies by columns each step is another line of the
// cache, often of one set, and a copy costs less from two panels on.
static bool lies_by_columns(tc_op_args *a, int32_t ix, int32_t rank, tc_int columns) {
  const tc_tensor_type *t = ix < 0 ? NULL : tc_op_tensor(a, ix);
  if (!t || t->rank != rank || (tc_sym_is_const(columns) && columns->value < 2 * PANEL)) return false;
  return tc_sym_is_int(t->strides[rank - 2], 1) && !tc_sym_is_int(t->strides[rank - 1], 1);
}

// The panels of a matrix in the order of its rows, where they lie; -1: they are to be packed.
static tc_lt panels_of(tc_op_args *a, tc_lt b) {
  int32_t rank = tc_lo_rank(a, b);
  tc_int sizes[TC_MAX_RANK], index[TC_MAX_RANK], map[TC_MAX_RANK], n = tc_lo_size(a, b, rank - 1),
                                                                   k = tc_lo_size(a, b, rank - 2);
  tc_dtype dtype = tc_lo_dtype(a, b);
  if (rank + 1 > TC_MAX_RANK || !tc_sym_is_const(n) || tc_dtype_is_complex(dtype)) return -1;
  int64_t panel = panel_of(n);
  bool near = tc_sym_is_const(k) && k->value * n->value * tc_dtype_size(dtype) <= NEAR;
  if (n->value % panel || (n->value != panel && !near)) return -1;
  if (tc_lo_lies(a, b) != 1 && !tc_lo_keep_by_rows(a, b)) return -1;
  for (int32_t d = 0; d < rank - 2; d++) sizes[d] = tc_lo_size(a, b, d);
  sizes[rank - 2] = tc_int_const(a, n->value / panel), sizes[rank - 1] = k, sizes[rank] = tc_int_const(a, panel);
  tc_lo_indices(a, rank + 1, sizes, index);
  for (int32_t d = 0; d < rank - 2; d++) map[d] = index[d];
  map[rank - 2] = index[rank - 1];
  map[rank - 1] = tc_int_add(a, tc_int_mul(a, index[rank - 2], sizes[rank]), index[rank]);
  return tc_lo_view(a, b, rank + 1, sizes, index, map);
}

// Is a panel packed by the block that multiplies by it? 1, 2: neighbours along the rows of y, or along its columns; 0:
// no. What is neither an input in memory nor the result of a template, which stores its tiles as they are, is packed by
// what makes it.
static int32_t packed_by_blocks(tc_op_args *a, tc_lt y, tc_int columns, bool pairs) {
  tc_int depth = tc_lo_size(a, y, tc_lo_rank(a, y) - 2);
  tc_dtype element = pairs ? tc_lo_dtype(a, y) : tc_op_math_type(tc_lo_dtype(a, y));
  if (!tc_sym_is_const(depth) || depth->value > OWN_PANEL || !tc_sym_is_const(columns)) return 0;
  if (columns->value < panel_of(columns)) return 0;
  int64_t bytes = depth->value * panel_of(columns) * tc_dtype_size(element);
  if (bytes > OWN_PANEL || bytes > tc_lo_on_chip(a)) return 0;
  tc_lt turned = swapped(a, y);
  if (tc_lo_lies(a, y) == 1 || tc_lo_made(a, y) == 1) return 1;
  return tc_lo_lies(a, turned) == 1 || tc_lo_made(a, turned) == 1 ? 2 : 0;
}

// One matrix of known sizes, and few rows.
static bool is_tiny(tc_op_args *a, tc_lt y, tc_int rows) {
  tc_int k = tc_lo_size(a, y, 0), n = tc_lo_size(a, y, 1);
  if (!tc_sym_is_const(k) || !tc_sym_is_const(n) || !tc_sym_is_const(rows)) return false;
  return k->value * n->value <= TINY && rows->value <= FEW_ROWS;
}

static tc_lt multiply(tc_op_args *a, tc_lt x, tc_lt y, tc_dtype out, int32_t ix, int32_t iy) {
  int32_t rank = tc_lo_rank(a, x);
  tc_int sizes[TC_MAX_RANK];
  bool empty = tc_sym_is_int(tc_lo_size(a, x, rank - 1), 0);
  for (int32_t d = 0; d < rank; d++) {
    sizes[d] = tc_lo_size(a, d == rank - 1 ? y : x, d);
    empty = empty || tc_sym_is_int(sizes[d], 0);
  }
  tc_dtype dtype = tc_lo_dtype(a, y);
  if (empty || tc_sym_is_int(sizes[rank - 1], 1) || dtype == TC_BOOL) return multiply_rows(a, x, y, out, rank, sizes);
  bool tiled = !tc_dtype_is_complex(dtype) || (dtype == TC_C64 && !is_small(a, x, y));
  int32_t unpacked = tc_lo_in_order(a, y), order = tiled ? unpacked : 0;
  if (order) {
    tc_lt operands[2] = {x, order == 2 ? swapped(a, y) : y};
    tc_int turned = tc_int_const(a, order == 2);
    return tc_lo_template(a, "matmul", 2, operands, out, rank, sizes, 1, &turned);
  }
  bool pairs = in_pairs(a, tc_lo_dtype(a, x), tc_lo_size(a, x, rank - 1));
  if (!pairs && is_small(a, x, y)) {
    int32_t how = rank == 2 ? tc_lo_lies(a, y) : 0;
    bool there = rank == 3 || how == 1 || (how == 2 && is_tiny(a, y, sizes[0])) || tc_lo_keep_by_rows(a, y);
    tc_int strides = tc_int_const(a, small_strides(a, rank, ix, iy) | (there && how == 2 ? 8 : 0));
    tc_lt small[2] = {x, there ? y : in_row_order(a, y)};
    return tc_lo_template(a, "small_matmul", 2, small, out, rank, sizes, 1, &strides);
  }
  if (!unpacked && lies_by_columns(a, ix, rank, sizes[rank - 1])) x = in_row_order(a, x);
  tc_lt panels = pairs || unpacked ? -1 : panels_of(a, y);
  int32_t how = panels >= 0 ? 0 : packed_by_blocks(a, y, sizes[rank - 1], pairs);
  if (how) {
    tc_lt there[2] = {x, how == 2 ? swapped(a, y) : y};
    tc_int attrs[3] = {tc_int_const(a, how == 2), tc_int_const(a, panel_of(sizes[rank - 1])), tc_int_const(a, pairs)};
    return tc_lo_template(a, "matmul", 2, there, out, rank, sizes, pairs ? 3 : 2, attrs);
  }
  tc_lt operands[2] = {x, panels >= 0 ? panels : pack(a, y, pairs)};
  return tc_lo_template(a, "matmul", 2, operands, out, rank, sizes, 0, NULL);
}

static int32_t lower_product(tc_op_args *a) {
  tc_lo_result(a, 0, multiply(a, tc_lo_arg(a, 0), tc_lo_arg(a, 1), tc_op_result_type(a, 0)->dtype, 0, 1));
  return TC_STATUS_OK;
}

// In the result's type: of bool any number but 0 is 1.
static tc_c128 factor(tc_op_args *a, const char *name) {
  tc_number v = {.re = 1};
  tc_op_number(a, tc_op_arg_index(a, name), &v);
  if (tc_op_result_type(a, 0)->dtype == TC_BOOL) return (tc_c128){v.re != 0 || v.im != 0, 0};
  return (tc_c128){v.re, v.im};
}

// beta·self + alpha·product
static int32_t lower_addmm(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_dtype compute = tc_op_math_type(r->dtype);
  tc_lt xy = multiply(a, tc_lo_arg(a, 1), tc_lo_arg(a, 2), compute, 1, 2),
        self = tc_lo_expand(a, tc_lo_arg(a, 0), r->rank, r->sizes);
  tc_c128 beta = factor(a, "beta"), alpha = factor(a, "alpha");
  tc_int index[TC_MAX_RANK];
  tc_lo_begin(a, r->rank, r->sizes, index);
  tc_bval p = tc_lo_load(a, xy, index);
  if (alpha.re != 1 || alpha.im != 0) p = tc_lo_op2(a, TC_K_MUL, p, tc_lo_const(a, compute, alpha.re, alpha.im));
  if (beta.re != 0 || beta.im != 0) { // beta 0: self is not read, so its NaNs do not count
    tc_bval s = tc_lo_cast(a, tc_lo_load(a, self, index), compute);
    if (beta.re != 1 || beta.im != 0) s = tc_lo_op2(a, TC_K_MUL, s, tc_lo_const(a, compute, beta.re, beta.im));
    p = tc_lo_op2(a, TC_K_ADD, p, s);
  }
  tc_lo_result(a, 0, tc_lo_end(a, p, r->dtype));
  return TC_STATUS_OK;
}

// Leading dimensions become rows; the bias is not yet added.
static tc_lt linear_product(tc_op_args *a, tc_dtype compute) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_lt x = tc_lo_arg(a, 0), w = tc_lo_arg(a, 1);
  int32_t rank = tc_lo_rank(a, x);
  tc_int one = tc_int_const(a, 1), rows = one;
  for (int32_t d = 0; d < rank - 1; d++) rows = tc_int_mul(a, rows, tc_lo_size(a, x, d));
  tc_int flat[2] = {rows, tc_lo_size(a, x, rank - 1)}, row[2] = {one, tc_lo_size(a, w, tc_lo_rank(a, w) - 1)};
  if (tc_lo_rank(a, w) == 1) w = tc_lo_reshape(a, w, 2, row);
  return tc_lo_reshape(a, multiply(a, tc_lo_reshape(a, x, 2, flat), swapped(a, w), compute, -1, -1), r->rank, r->sizes);
}

static int32_t lower_linear(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_dtype compute = tc_op_tensor(a, 2) ? tc_op_math_type(r->dtype) : r->dtype;
  tc_lt y = linear_product(a, compute);
  if (tc_op_tensor(a, 2)) {
    tc_lt pair[2] = {y, tc_lo_arg(a, 2)};
    static const char *const names[] = {"y", "b"};
    y = tc_lower_text(a, "y + b", 2, names, pair, compute, r->dtype);
  }
  tc_lo_result(a, 0, y);
  return TC_STATUS_OK;
}

// ---- linear with what follows it ----
// Libraries do these in one call with the product. The names are the op's; a text in v, and the function itself.
typedef struct follower {
  const char *name, *text;
  double (*value)(double v);
} follower;
static double value_gelu_tanh(double v) {
  return 0.5 * v * (1 + tanh(0.79788456080286535588 * (v + 0.044715 * v * v * v)));
}
static double value_gelu_erf(double v) { return 0.5 * v * erfc(-v * 0.70710678118654752440); }
static double value_sigmoid(double v) { return 1 / (1 + exp(-v)); }
static double value_silu(double v) { return v / (1 + exp(-v)); }
static double value_none(double v) { return v; }
static const follower followers[] = {{"", "(v)", value_none},
                                     {"gelu_tanh", "gelu_tanh(v)", value_gelu_tanh},
                                     {"gelu_erf", "gelu_erf(v)", value_gelu_erf},
                                     {"sigmoid", "sigmoid(v)", value_sigmoid},
                                     {"tanh", "tanh(v)", tanh},
                                     {"silu", "v * sigmoid(v)", value_silu}};
static const follower *follower_of(tc_op_args *a) {
  for (size_t i = 0; i < sizeof followers / sizeof *followers; i++)
    if (tc_sv_is(tc_op_string(a, 3), followers[i].name)) return &followers[i];
  return NULL;
}

static int32_t linear_then_meta(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0), *other = tc_op_tensor(a, 4), *r;
  if (!follower_of(a)) return tc_op_fail(a, "_linear_then has no function of this name");
  if (!tc_dtype_is_float(x->dtype))
    return tc_op_fail(a, "_linear_then is not implemented for %s", tc_dtype_torch_name(x->dtype));
  int32_t s = linear_meta(a);
  if (s != TC_STATUS_OK || !other) return s;
  r = tc_op_result_type(a, 0);
  bool same = other->dtype == x->dtype && other->rank == r->rank;
  for (int32_t d = 0; same && d < r->rank; d++) same = tc_int_require_eq(a, other->sizes[d], r->sizes[d]) == 0;
  if (same) return TC_STATUS_OK;
  return tc_op_fail(a, "what _linear_then adds (%s) is not like its result", tc_op_shape_text(a, 4));
}

static int32_t lower_linear_then(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_dtype compute = tc_op_math_type(r->dtype);
  const char *names[3] = {"y"};
  tc_lt values[3] = {linear_product(a, compute)};
  int32_t n = 1;
  char text[80];
  bool bias = tc_op_tensor(a, 2) != NULL, other = tc_op_tensor(a, 4) != NULL;
  if (bias) names[n] = "b", values[n++] = tc_lo_arg(a, 2);
  if (other) names[n] = "o", values[n++] = tc_lo_arg(a, 4);
  snprintf(text, sizeof text, "let v = %s; %s%s", bias ? "y + b" : "y", follower_of(a)->text, other ? " + o" : "");
  tc_lo_result(a, 0, tc_lower_text(a, text, n, names, values, compute, r->dtype));
  return TC_STATUS_OK;
}

// ---- matmul: PyTorch's rules for ranks, in terms of mm, bmm and views ----
static void push_sizes(tc_op_args *a, int32_t n, const tc_int *sizes) { tc_ex_push_ints(a, n, sizes); }
static tc_gv op1(tc_op_args *a, const char *op, tc_gv x, int32_t n, const tc_int *sizes) {
  tc_ex_begin(a, op);
  tc_ex_push(a, x);
  push_sizes(a, n, sizes);
  return tc_ex_make(a, 1, NULL);
}
static tc_gv op2(tc_op_args *a, const char *op, tc_gv x, tc_gv y) {
  tc_ex_begin(a, op);
  tc_ex_push(a, x);
  tc_ex_push(a, y);
  return tc_ex_make(a, 1, NULL);
}
static tc_gv unsqueeze(tc_op_args *a, tc_gv x, int64_t dim) {
  tc_ex_begin(a, "aten::unsqueeze");
  tc_ex_push(a, x);
  tc_ex_push_int(a, tc_int_const(a, dim));
  return tc_ex_make(a, 1, NULL);
}

static int32_t matmul_shape(tc_op_args *a, int32_t *rank, tc_int *sizes) {
  const tc_tensor_type *x = tc_op_tensor(a, 0), *y = tc_op_tensor(a, 1);
  if (x->rank == 0 || y->rank == 0)
    return tc_op_fail(a, "both arguments to matmul need to be at least 1D, but they are %dD and %dD", x->rank, y->rank);
  if (!same_dtype(a, 0, 1)) return TC_STATUS_INVALID_ARGUMENT;
  int32_t bx = x->rank > 2 ? x->rank - 2 : 0, by = y->rank > 2 ? y->rank - 2 : 0, n = bx > by ? bx : by;
  tc_int one = tc_int_const(a, 1);
  for (int32_t d = 0; d < n; d++) {
    tc_int p = d - (n - bx) >= 0 ? x->sizes[d - (n - bx)] : one, q = d - (n - by) >= 0 ? y->sizes[d - (n - by)] : one;
    bool p1 = tc_int_eq(a, p, one) == 1, q1 = tc_int_eq(a, q, one) == 1;
    if (!p1 && !q1 && tc_int_require_eq(a, p, q))
      return tc_op_fail(a, "the batch dimensions do not broadcast (%s and %s)", tc_op_shape_text(a, 0),
                        tc_op_shape_text(a, 1));
    sizes[d] = p1 ? q : p;
  }
  tc_int kx = x->sizes[x->rank - 1], ky = y->sizes[y->rank == 1 ? 0 : y->rank - 2];
  if (tc_int_require_eq(a, kx, ky))
    return tc_op_fail(a, "the shapes cannot be multiplied (%s and %s)", tc_op_shape_text(a, 0), tc_op_shape_text(a, 1));
  if (x->rank > 1) sizes[n++] = x->sizes[x->rank - 2];
  if (y->rank > 1) sizes[n++] = y->sizes[y->rank - 1];
  *rank = n;
  return TC_STATUS_OK;
}
static int32_t matmul_meta(tc_op_args *a) {
  int32_t rank;
  tc_int sizes[TC_MAX_RANK];
  if (matmul_shape(a, &rank, sizes)) return TC_STATUS_INVALID_ARGUMENT;
  return tc_op_set_result(a, 0, tc_op_tensor(a, 0)->dtype, rank, sizes, NULL);
}
static int32_t matmul_expand(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0), *y = tc_op_tensor(a, 1);
  int32_t rank;
  tc_int sizes[TC_MAX_RANK], batch[TC_MAX_RANK + 2], flat[3];
  if (matmul_shape(a, &rank, sizes)) return TC_STATUS_INVALID_ARGUMENT;
  tc_gv u = tc_ex_arg(a, 0), v = tc_ex_arg(a, 1);
  int32_t bx = x->rank > 2 ? x->rank - 2 : 0, by = y->rank > 2 ? y->rank - 2 : 0, nb = bx > by ? bx : by;
  if (x->rank == 1) u = unsqueeze(a, u, 0);
  if (y->rank == 1) v = unsqueeze(a, v, -1);
  tc_int m = x->rank == 1 ? tc_int_const(a, 1) : x->sizes[x->rank - 2], k = x->sizes[x->rank - 1],
         n = y->rank == 1 ? tc_int_const(a, 1) : y->sizes[y->rank - 1];
  tc_gv p;
  if (by == 0) { // rows of a batch times one matrix
    tc_int rows = m;
    for (int32_t d = 0; d < bx; d++) rows = tc_int_mul(a, rows, x->sizes[d]);
    flat[0] = rows, flat[1] = k;
    if (bx) u = op1(a, "aten::reshape", u, 2, flat);
    p = op2(a, "aten::mm", u, v);
  } else {
    tc_int count = tc_int_const(a, 1);
    for (int32_t d = 0; d < nb; d++) batch[d] = sizes[d], count = tc_int_mul(a, count, sizes[d]);
    batch[nb] = m, batch[nb + 1] = k;
    flat[0] = count, flat[1] = m, flat[2] = k;
    u = op1(a, "aten::reshape", op1(a, "aten::expand", u, nb + 2, batch), 3, flat);
    batch[nb] = k, batch[nb + 1] = n;
    flat[1] = k, flat[2] = n;
    v = op1(a, "aten::reshape", op1(a, "aten::expand", v, nb + 2, batch), 3, flat);
    p = op2(a, "aten::bmm", u, v);
  }
  tc_ex_result(a, 0, op1(a, "aten::reshape", p, rank, sizes));
  return TC_STATUS_OK;
}

// What linear is made of where it is taken apart. As in PyTorch the rows of a batch are those of one matrix, if they
// lie so that nothing is copied.
static int32_t linear_expand(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0), *w = tc_op_tensor(a, 1);
  tc_ex_begin(a, "aten::t");
  tc_ex_push(a, tc_ex_arg(a, 1));
  tc_gv turned = tc_ex_make(a, 1, NULL), y;
  if (tc_op_kind(a, 2) == TC_AK_NONE) {
    y = op2(a, "aten::matmul", tc_ex_arg(a, 0), turned);
  } else if (x->rank < 2 || w->rank < 2 ||
             (x->rank > 2 && !tc_strides_contiguous(a->syms, x->rank, x->sizes, x->strides))) {
    y = op2(a, "aten::add.Tensor", op2(a, "aten::matmul", tc_ex_arg(a, 0), turned), tc_ex_arg(a, 2));
  } else {
    tc_int flat[2] = {tc_int_const(a, 1), w->sizes[1]};
    for (int32_t d = 0; d + 1 < x->rank; d++) flat[0] = tc_int_mul(a, flat[0], x->sizes[d]);
    tc_gv rows = x->rank > 2 ? op1(a, "aten::reshape", tc_ex_arg(a, 0), 2, flat) : tc_ex_arg(a, 0);
    tc_ex_begin(a, "aten::addmm");
    tc_ex_push(a, tc_ex_arg(a, 2));
    tc_ex_push(a, rows);
    tc_ex_push(a, turned);
    y = tc_ex_make(a, 1, NULL);
    tc_int sizes[TC_MAX_RANK];
    for (int32_t d = 0; d + 1 < x->rank; d++) sizes[d] = x->sizes[d];
    sizes[x->rank - 1] = w->sizes[0];
    if (x->rank > 2) y = op1(a, "aten::reshape", y, x->rank, sizes);
  }
  tc_ex_result(a, 0, y);
  return TC_STATUS_OK;
}

// ---- references ----
// A real factor leaves infinities alone.
static tc_c128 times(tc_c128 x, tc_c128 y) {
  if (x.im == 0) return (tc_c128){x.re * y.re, x.re * y.im};
  return (tc_c128){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
// Σᵢ x[xo + i·sxk] · y[yo + i·syk], in the views' class.
static void ref_dot(const tc_ref_view *x, int64_t xo, int64_t sxk, const tc_ref_view *y, int64_t yo, int64_t syk,
                    int64_t k, tc_c128 *sum, int64_t *isum) {
  *sum = (tc_c128){0, 0};
  *isum = 0;
  for (int64_t i = 0; i < k; i++) {
    if (x->dtype == TC_I64) {
      *isum = (int64_t)((uint64_t)*isum + (uint64_t)tc_ref_i(x, xo + i * sxk) * (uint64_t)tc_ref_i(y, yo + i * syk));
      continue;
    }
    tc_c128 p = tc_ref_c(x, xo + i * sxk), q = tc_ref_c(y, yo + i * syk);
    sum->re += p.re * q.re - p.im * q.im;
    sum->im += p.re * q.im + p.im * q.re;
  }
}

// out[…] = Σ over x's last dimension; y as [k, n] or, for linear, [n, k]; `add` (or NULL) is broadcast.
static int32_t ref_product(tc_op_args *a, const tc_ref_view *x, const tc_ref_view *y, bool transpose,
                           const tc_ref_view *add, tc_c128 alpha, tc_c128 beta) {
  const tc_ref_view *r = tc_op_result_data(a, 0);
  int64_t index[TC_MAX_RANK] = {0}, k = x->sizes[x->rank - 1];
  if (tc_ref_numel(r) == 0) return TC_STATUS_OK;
  bool vector = transpose && y->rank == 1;
  int32_t kd = transpose ? y->rank - 1 : y->rank - 2, nd = transpose ? y->rank - 2 : y->rank - 1;
  do {
    int64_t xo = 0, yo = vector ? 0 : index[r->rank - 1] * y->strides[nd], ao = 0;
    for (int32_t d = 0; d < x->rank - 1; d++) xo += index[d] * x->strides[d];
    for (int32_t d = 0; d < y->rank - 2; d++) yo += index[d] * y->strides[d];
    for (int32_t d = 0; add && d < add->rank; d++)
      ao += add->sizes[d] == 1 ? 0 : index[d + r->rank - add->rank] * add->strides[d];
    tc_c128 s;
    int64_t is;
    ref_dot(x, xo, x->strides[x->rank - 1], y, yo, y->strides[kd], k, &s, &is);
    int64_t to = tc_ref_offset(r, index);
    bool adds = add && (beta.re != 0 || beta.im != 0); // beta 0: what is added is not read
    if (r->dtype == TC_I64) {
      uint64_t sum = (uint64_t)(int64_t)alpha.re * (uint64_t)is; // modulo 2^64, as everywhere
      if (adds) sum += (uint64_t)(int64_t)beta.re * (uint64_t)tc_ref_i(add, ao);
      tc_ref_put_i(r, to, (int64_t)sum);
    } else {
      tc_c128 b = adds ? tc_ref_c(add, ao) : (tc_c128){0, 0}, p = times(alpha, s), q = times(beta, b);
      tc_ref_put(r, to, adds ? (tc_c128){p.re + q.re, p.im + q.im} : p);
    }
  } while (tc_ref_next(r->rank, r->sizes, index));
  return TC_STATUS_OK;
}
static const tc_c128 one = {1, 0};
static int32_t ref_mm(tc_op_args *a) {
  return ref_product(a, tc_op_data(a, 0), tc_op_data(a, 1), false, NULL, one, one);
}
static int32_t ref_addmm(tc_op_args *a) {
  return ref_product(a, tc_op_data(a, 1), tc_op_data(a, 2), false, tc_op_data(a, 0), factor(a, "alpha"),
                     factor(a, "beta"));
}
static int32_t ref_linear(tc_op_args *a) {
  return ref_product(a, tc_op_data(a, 0), tc_op_data(a, 1), true, tc_op_data(a, 2), one, one);
}

static int32_t ref_linear_then(tc_op_args *a) {
  const tc_ref_view *r = tc_op_result_data(a, 0), *other = tc_op_data(a, 4);
  const follower *f = follower_of(a);
  int64_t index[TC_MAX_RANK] = {0};
  int32_t s = ref_linear(a);
  if (s != TC_STATUS_OK || tc_ref_numel(r) == 0) return s;
  do {
    int64_t at = tc_ref_offset(r, index);
    double v = f->value(tc_ref_f(r, at));
    tc_ref_put(r, at, (tc_c128){other ? v + tc_ref_f(other, tc_ref_offset(other, index)) : v, 0});
  } while (tc_ref_next(r->rank, r->sizes, index));
  return TC_STATUS_OK;
}

static const tc_op_def rows[] = {
    {.schema = "mm(Tensor self, Tensor mat2) -> Tensor",
     .traits = TC_OP_COMPLEX,
     .meta = mm_meta,
     .lower = lower_product,
     .ref = ref_mm,
     .flops = "mm: 2 * numel * self.size(1)"},
    {.schema = "bmm(Tensor self, Tensor mat2) -> Tensor",
     .traits = TC_OP_COMPLEX,
     .meta = bmm_meta,
     .lower = lower_product,
     .ref = ref_mm,
     .flops = "bmm: 2 * numel * self.size(2)"},
    {.schema = "addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     .traits = TC_OP_COMPLEX,
     .meta = addmm_meta,
     .lower = lower_addmm,
     .ref = ref_addmm,
     .flops = "addmm: 2 * numel * mat1.size(1)"},
    {.schema = "baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     .traits = TC_OP_COMPLEX,
     .meta = baddbmm_meta,
     .lower = lower_addmm,
     .ref = ref_addmm,
     .flops = "baddbmm: 2 * numel * batch1.size(2)"},
    {.schema = "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
     .traits = TC_OP_COMPLEX,
     .meta = linear_meta,
     .expand = linear_expand,
     .lower = lower_linear,
     .ref = ref_linear,
     .flops = "2 * numel * weight.size(1)"},
    // Of the compiler's own making: a function of linear's result, and a sum with a tensor like it.
    {.schema = "_linear_then(Tensor input, Tensor weight, Tensor? bias, str then, Tensor? other=None) -> Tensor",
     .meta = linear_then_meta,
     .lower = lower_linear_then,
     .ref = ref_linear_then,
     .flops = "2 * numel * weight.size(1)"},
    {.schema = "matmul(Tensor self, Tensor other) -> Tensor",
     .traits = TC_OP_COMPLEX,
     .meta = matmul_meta,
     .expand = matmul_expand,
     // FlopCounterMode leaves out products with vectors.
     .flops = "-: 2 * max(self.numel, other.numel) * max(1 / self.rank, 1 / other.rank)"},
};
// Derivatives; see docs/ADDING_AN_OP.md for what the texts can name.
static const tc_op_derivative derivatives[] = {
    {"mm", "self: mm(grad, conj(t(mat2))); mat2: mm(conj(t(self)), grad)"},
    {"bmm", "self: bmm(grad, conj(transpose(mat2, 1, 2))); mat2: bmm(conj(transpose(self, 1, 2)), grad)"},
    {"addmm", "self: mul(grad, conj(beta)); mat1: mul(mm(grad, conj(t(mat2))), conj(alpha)); mat2: "
              "mul(mm(conj(t(mat1)), grad), conj(alpha))"},
    {"baddbmm",
     "self: mul(grad, conj(beta)); batch1: mul(bmm(grad, conj(transpose(batch2, 1, 2))), conj(alpha)); batch2: "
     "mul(bmm(conj(transpose(batch1, 1, 2)), grad), conj(alpha))"},
    {"linear",
     "let m = if(weight.rank == 1, unsqueeze(weight, 0), weight); let o = m.size(0); let i = m.size(1); let g = "
     "reshape(grad, [if(o == 0, if(i == 0, 0, input.numel // i), -1), o]); let x = reshape(input, [if(i == 0, if(o == "
     "0, 0, grad.numel // o), -1), i]); input: reshape(mm(g, conj(m)), input.sizes); weight: mm(t(g), conj(x)); bias: "
     "if(bias.rank > 1, grad, sum(g, [0]))"},
};
TC_OP_FAMILY_WITH_DERIVATIVES(matmul);
