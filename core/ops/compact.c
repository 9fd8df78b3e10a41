// What sizes from data are made of: the places where a mask is true, and the steps of a running sum.
//
// An op whose result is as large as the data says is a text over these and `item`, which makes the count a symbol: the
// run is cut where it is read (core/runtime), and what follows is launched for that size. The places are the template
// "compact": counts of the mask's chunks are a reduction and a scan, then blocks write ranges of the result.
#include "core/ops/ops.h"

enum { CHUNK = 256 }; // of a mask, counted as one

static tc_int one_of(tc_op_args *a) { return tc_int_const(a, 1); }

// ---- how many are true up to the end of each chunk ----
static int32_t ends_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  if (t->rank != 1 || t->dtype != TC_BOOL) return tc_op_fail(a, "a flat mask is wanted: %s", tc_op_shape_text(a, 0));
  tc_int n = tc_int_floordiv(a, tc_int_add(a, t->sizes[0], tc_int_const(a, CHUNK - 1)), tc_int_const(a, CHUNK));
  n = tc_int_max(a, n, one_of(a));
  return tc_op_set_result(a, 0, TC_I64, 1, &n, NULL);
}
static int32_t ends_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_lt x = tc_lo_arg(a, 0);
  tc_int length = tc_int_const(a, CHUNK), index[2], n = tc_op_tensor(a, 0)->sizes[0];
  tc_lo_begin_reduce(a, TC_RED_SUM, 1, r->sizes, 1, &length, index);
  tc_int at = tc_int_add(a, tc_int_mul(a, index[0], length), index[1]), inside = tc_sym_cmp(a->syms, TC_SYM_LT, at, n);
  tc_bval v = tc_lo_load_if(a, x, &at, inside, tc_lo_const_int(a, TC_BOOL, 0));
  tc_lt counts = tc_lo_end(a, tc_lo_cast(a, v, TC_I64), TC_I64);
  tc_int attrs[3] = {tc_int_const(a, TC_SCAN_SUM), tc_int_const(a, 0), tc_int_const(a, 0)};
  tc_lo_result(a, 0, tc_lo_template(a, "scan", 1, &counts, TC_I64, 1, r->sizes, 3, attrs));
  return TC_STATUS_OK;
}
static int32_t ends_ref(tc_op_args *a) {
  const tc_ref_view *m = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t count = 0, n = tc_ref_numel(m);
  for (int64_t c = 0, k = 0; c < y->sizes[0]; c++) {
    for (; k < n && k < (c + 1) * CHUNK; k++) count += tc_ref_i(m, k * m->strides[0]) != 0;
    tc_ref_put_i(y, c, count);
  }
  return TC_STATUS_OK;
}

// ---- the places of the first n that are true; -1 behind the last ----
static int32_t places_meta(tc_op_args *a) {
  tc_int n = tc_op_sym(a, 2);
  if (tc_op_tensor(a, 0)->rank != 1) return tc_op_fail(a, "a flat mask is wanted: %s", tc_op_shape_text(a, 0));
  return tc_op_set_result(a, 0, TC_I64, 1, &n, NULL);
}
static int32_t places_lower(tc_op_args *a) {
  tc_lt operands[2] = {tc_lo_arg(a, 0), tc_lo_arg(a, 1)};
  tc_int length = tc_int_const(a, CHUNK), n = tc_op_sym(a, 2);
  tc_lo_result(a, 0, tc_lo_template(a, "compact", 2, operands, TC_I64, 1, &n, 1, &length));
  return TC_STATUS_OK;
}
static int32_t places_ref(tc_op_args *a) {
  const tc_ref_view *m = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t count = 0, n = tc_ref_numel(m);
  for (int64_t k = 0; k < n && count < y->sizes[0]; k++)
    if (tc_ref_i(m, k * m->strides[0])) tc_ref_put_i(y, count++, k);
  for (; count < y->sizes[0]; count++) tc_ref_put_i(y, count, -1);
  return TC_STATUS_OK;
}

// ---- flat places as one row of indices per dimension; those below 0 stay, and a size below 1 counts as 1 ----
static int32_t unravel_meta(tc_op_args *a) {
  if (tc_op_tensor(a, 0)->rank != 1) return tc_op_fail(a, "expected a vector of places: %s", tc_op_shape_text(a, 0));
  tc_int sizes[2] = {tc_int_const(a, tc_op_count(a, 1)), tc_op_tensor(a, 0)->sizes[0]};
  return tc_op_set_result(a, 0, TC_I64, 2, sizes, NULL);
}
static int32_t unravel_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_int index[2], step = one_of(a);
  tc_lt p = tc_lo_arg(a, 0);
  tc_lo_begin(a, 2, r->sizes, index);
  tc_bval at = tc_lo_load(a, p, &index[1]), out = at;
  for (int32_t d = tc_op_count(a, 1) - 1; d >= 0; d--) {
    tc_int size = tc_int_max(a, tc_op_sym_at(a, 1, d), one_of(a));
    tc_bval v = tc_lo_op2(a, TC_K_DIV, at, tc_lo_index(a, step, TC_I64));
    if (d > 0) v = tc_lo_op2(a, TC_K_REM, v, tc_lo_index(a, size, TC_I64));
    tc_bval here = tc_lower_condition(a, tc_sym_cmp(a->syms, TC_SYM_EQ, index[0], tc_int_const(a, d)));
    out = tc_lo_op3(a, TC_K_SELECT, here, v, out);
    step = tc_int_mul(a, step, size);
  }
  out = tc_lo_op3(a, TC_K_SELECT, tc_lo_op2(a, TC_K_LT, at, tc_lo_const_int(a, TC_I64, 0)), at, out);
  tc_lo_result(a, 0, tc_lo_end(a, out, TC_I64));
  return TC_STATUS_OK;
}
static int32_t unravel_ref(tc_op_args *a) {
  const tc_ref_view *p = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  for (int64_t k = 0; k < y->sizes[1]; k++) {
    int64_t at = tc_ref_i(p, k * p->strides[0]);
    for (int32_t d = (int32_t)y->sizes[0] - 1; d >= 0; d--) {
      int64_t size = tc_op_int_at(a, 1, d, 1);
      if (size < 1) size = 1;
      tc_ref_put_i(y, d * y->strides[0] + k * y->strides[1], at < 0 || d == 0 ? at : at % size);
      at = at < 0 ? at : at / size;
    }
  }
  return TC_STATUS_OK;
}

// ---- how many elements of a rising sequence are ≤ k, for k = 0 … n - 1: bisection, as deep as the sequence is long
// ----
static int32_t steps_meta(tc_op_args *a) {
  tc_int n = tc_op_sym(a, 1);
  if (tc_op_tensor(a, 0)->rank != 1) return tc_op_fail(a, "a sequence is wanted: %s", tc_op_shape_text(a, 0));
  return tc_op_set_result(a, 0, TC_I64, 1, &n, NULL);
}
static int32_t steps_lower(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *r = tc_op_result_type(a, 0);
  tc_int index[1], origin = tc_int_const(a, 0);
  int64_t length, depth = 48;
  if (tc_int_is_const(t->sizes[0], &length))
    for (depth = 0; depth < 48 && length >> depth; depth++) continue;
  tc_lt ends = tc_lo_arg(a, 0);
  tc_lo_begin(a, 1, r->sizes, index);
  tc_bval k = tc_lo_index(a, index[0], TC_I64), lo = tc_lo_const_int(a, TC_I64, 0), one = tc_lo_const_int(a, TC_I64, 1),
          hi = tc_lo_index(a, t->sizes[0], TC_I64), last = tc_lo_op2(a, TC_K_SUB, hi, one);
  for (int64_t i = 0; i < depth; i++) {
    tc_bval open = tc_lo_op2(a, TC_K_LT, lo, hi), m = tc_lo_op2(a, TC_K_SHR, tc_lo_op2(a, TC_K_ADD, lo, hi), one);
    tc_bval at = tc_lo_op2(a, TC_K_MIN, m, last);
    tc_bval below = tc_lo_op2(a, TC_K_LE, tc_lo_gather(a, ends, &origin, &at, 0), k);
    tc_bval next = tc_lo_op3(a, TC_K_SELECT, tc_lo_op2(a, TC_K_AND, open, below), tc_lo_op2(a, TC_K_ADD, m, one), lo);
    hi = tc_lo_op3(a, TC_K_SELECT, tc_lo_op2(a, TC_K_AND, open, tc_lo_op1(a, TC_K_NOT, below)), m, hi);
    lo = next;
  }
  tc_lo_result(a, 0, tc_lo_end(a, lo, TC_I64));
  return TC_STATUS_OK;
}
static int32_t steps_ref(tc_op_args *a) {
  const tc_ref_view *ends = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t at = 0;
  for (int64_t k = 0; k < y->sizes[0]; k++) {
    while (at < ends->sizes[0] && tc_ref_i(ends, at * ends->strides[0]) <= k) at++;
    tc_ref_put_i(y, k, at);
  }
  return TC_STATUS_OK;
}

#define ROW(s, name) {.schema = s, .meta = name##_meta, .lower = name##_lower, .ref = name##_ref}
static const tc_op_def rows[] = {
    ROW("tc::mask_ends(Tensor mask) -> Tensor", ends),
    ROW("tc::mask_places(Tensor mask, Tensor ends, SymInt n) -> Tensor", places),
    ROW("tc::unravel(Tensor places, SymInt[] sizes) -> Tensor", unravel),
    ROW("tc::steps(Tensor ends, SymInt n) -> Tensor", steps),
};
TC_OP_FAMILY(compact);
