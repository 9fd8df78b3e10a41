// Window functions and index triangles: new tensors from their position. Definitions: PyTorch's documentation.
//
// A periodic window is the symmetric one of one more point without its last. f32 is computed in f64: positions come
// from the index, so nothing is lost and windows match their definition.
#include "core/ops/ops.h"

#include "tc/lower.h"

#define OPTIONS "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
#define N "int window_length"
#define RESULT "let out = if(is_none(dtype), f32, dtype); "
// `u` runs over 0 … 1 for a symmetric window.
#define POSITIONS(periodic)                                                                                         \
  RESULT "let last = if(" periodic ", window_length, window_length - 1); let k = arange(window_length, dtype=f64);" \
         "let u = div(k, float(max(last, 1)));"
#define SHORT(x) "if(window_length <= 1, ones([window_length], dtype=out), to(" x ", out))"
#define COSINE "cos(mul(u, 6.283185307179586476925))"
#define HAMMING(alpha, beta) "rsub(mul(" COSINE ", " beta "), " alpha ")"
#define BLACKMAN "add(rsub(mul(" COSINE ", 0.5), 0.42), mul(cos(mul(u, 12.56637061435917295385)), 0.08))"
#define BARTLETT "rsub(abs(sub(mul(u, 2), 1)), 1)"
#define KAISER(beta)                                                                            \
  "let v = sub(mul(u, 2), 1); let w = div(i0(mul(sqrt(clamp_min(rsub(mul(v, v), 1), 0)), " beta \
  ")), i0(full([], " beta ", dtype=f64)));"
#define TEXT(s, d) {.schema = s, .decompose = d}
#define PAIR(name, x)                                                         \
  TEXT(name "(" N ", *, " OPTIONS ") -> Tensor", POSITIONS("true") SHORT(x)), \
      TEXT(name ".periodic(" N ", bool periodic, *, " OPTIONS ") -> Tensor", POSITIONS("periodic") SHORT(x))

// Pairs (row, column) of a triangle in row-major order: data decide nothing, so each place is found by counting.
typedef struct triangle {
  int64_t rows, columns, offset;
  bool upper;
} triangle;
static triangle triangle_of(tc_op_args *a) {
  return (triangle){tc_op_int(a, 0, 0), tc_op_int(a, 1, 0), tc_op_int(a, 2, 0),
                    tc_sv_is(a->op->schema.name, "triu_indices")};
}
static void span_of(const triangle *t, int64_t row, int64_t *from, int64_t *to) {
  int64_t edge = row + t->offset + !t->upper;
  edge = edge < 0 ? 0 : edge > t->columns ? t->columns : edge;
  *from = t->upper ? edge : 0, *to = t->upper ? t->columns : edge;
}
static int32_t triangle_meta(tc_op_args *a) {
  triangle t = triangle_of(a);
  enum { MOST = 1 << 30 };
  if (t.rows < 0 || t.columns < 0) return tc_op_fail(a, "row and col must be non-negative");
  if (t.rows > MOST || t.columns > MOST || t.offset > MOST || t.offset < -MOST)
    return tc_op_fail(a, "row, col and offset are out of range: %lld, %lld, %lld", (long long)t.rows,
                      (long long)t.columns, (long long)t.offset);
  // Rows from `grows` on have r + shift columns below the edge, from `full` on all.
  int64_t shift = t.offset + !t.upper, grows = shift < 0 ? -shift : 0, full = t.columns - shift;
  grows = grows < t.rows ? grows : t.rows;
  full = full < grows ? grows : full < t.rows ? full : t.rows;
  int64_t below = (full - grows) * (grows + full - 1 + 2 * shift) / 2 + (t.rows - full) * t.columns;
  int64_t n = t.upper ? t.rows * t.columns - below : below;
  tc_int sizes[2] = {tc_int_const(a, 2), tc_int_const(a, n)};
  return tc_op_set_result(a, 0, tc_op_dtype(a, 3, TC_I64), 2, sizes, NULL);
}
static int32_t triangle_ref(tc_op_args *a) {
  triangle t = triangle_of(a);
  const tc_ref_view *y = tc_op_result_data(a, 0);
  int64_t n = 0, from, to;
  for (int64_t r = 0; r < t.rows; r++) {
    span_of(&t, r, &from, &to);
    for (int64_t c = from; c < to; c++, n++) {
      tc_ref_put_i(y, n, r);
      tc_ref_put_i(y, y->strides[0] + n, c);
    }
  }
  return TC_STATUS_OK;
}

// Rows of growing length first, whole ones after them; an upper triangle is one from its end backwards. Place k lies in
// row i of the growing part where i·first + i(i-1)/2 ≤ k, found by a root in f64 and put right by one where that
// rounds.
static tc_bval whole(tc_op_args *a, int64_t v) { return tc_lo_const_int(a, TC_I64, v); }
static tc_bval op2(tc_op_args *a, int32_t op, tc_bval x, tc_bval y) { return tc_lo_op2(a, op, x, y); }
static tc_bval begin_of(tc_op_args *a, tc_bval i, int64_t first) {
  tc_bval half = op2(a, TC_K_SHR, op2(a, TC_K_MUL, i, op2(a, TC_K_SUB, i, whole(a, 1))), whole(a, 1));
  return op2(a, TC_K_ADD, op2(a, TC_K_MUL, i, whole(a, first)), half);
}
static int32_t triangle_lower(tc_op_args *a) {
  triangle t = triangle_of(a);
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  int64_t from, to, start = t.upper ? t.rows - 1 : 0, step = t.upper ? -1 : 1, first = 0, n = 0;
  for (int64_t row = start; row >= 0 && row < t.rows && !first; row += step) {
    span_of(&t, row, &from, &to);
    first = to - from, start = row;
  }
  if (!first) first = 1;
  int64_t growing = t.columns > first ? t.columns - first : 0, wide = growing * first + growing * (growing - 1) / 2;
  tc_int index[2];
  tc_int_is_const(r->sizes[1], &n);
  tc_lo_begin(a, 2, r->sizes, index);
  tc_bval one = whole(a, 1), k = tc_lo_index(a, index[1], TC_I64);
  if (t.upper) k = op2(a, TC_K_SUB, whole(a, n - 1), k);
  static const char *const names[] = {"k", "b"};
  tc_bval values[] = {tc_lo_cast(a, k, TC_F64), tc_lo_const(a, TC_F64, (double)(2 * first - 1), 0)};
  tc_bval i = tc_lo_cast(a, tc_lo_text(a, "trunc((sqrt(b * b + 8 * k) - b) * 0.5)", 2, names, values), TC_I64);
  i = tc_lo_op3(a, TC_K_SELECT, op2(a, TC_K_GT, begin_of(a, i, first), k), op2(a, TC_K_SUB, i, one), i);
  tc_bval next = op2(a, TC_K_ADD, i, one);
  i = tc_lo_op3(a, TC_K_SELECT, op2(a, TC_K_LE, begin_of(a, next, first), k), next, i);
  tc_bval rest = op2(a, TC_K_SUB, k, whole(a, wide)), columns = whole(a, t.columns > 0 ? t.columns : 1);
  tc_bval full = op2(a, TC_K_GE, rest, whole(a, 0)), q = op2(a, TC_K_DIV, rest, columns);
  tc_bval column = tc_lo_op3(a, TC_K_SELECT, full, op2(a, TC_K_SUB, rest, op2(a, TC_K_MUL, q, columns)),
                             op2(a, TC_K_SUB, k, begin_of(a, i, first)));
  i = tc_lo_op3(a, TC_K_SELECT, full, op2(a, TC_K_ADD, q, whole(a, growing)), i);
  tc_bval row = op2(a, t.upper ? TC_K_SUB : TC_K_ADD, whole(a, start), i);
  if (t.upper) column = op2(a, TC_K_SUB, whole(a, t.columns - 1), column);
  tc_bval is_row = op2(a, TC_K_EQ, tc_lo_index(a, index[0], TC_I64), whole(a, 0));
  tc_lo_result(a, 0, tc_lo_end(a, tc_lo_op3(a, TC_K_SELECT, is_row, row, column), r->dtype));
  return TC_STATUS_OK;
}

#define TRIANGLE(name)                                                                                               \
  {.schema =                                                                                                         \
       name "(int row, int col, int offset=0, *, ScalarType? dtype=long, Layout? layout=None, Device? device=None, " \
            "bool? pin_memory=None) -> Tensor",                                                                      \
   .meta = triangle_meta,                                                                                            \
   .lower = triangle_lower,                                                                                          \
   .ref = triangle_ref}
static const tc_op_def rows[] = {
    PAIR("hann_window", HAMMING("0.5", "0.5")),
    PAIR("hamming_window", HAMMING("0.54", "0.46")),
    TEXT("hamming_window.periodic_alpha(" N ", bool periodic, float alpha, *, " OPTIONS ") -> Tensor",
         POSITIONS("periodic") SHORT(HAMMING("alpha", "0.46"))),
    TEXT("hamming_window.periodic_alpha_beta(" N ", bool periodic, float alpha, float beta, *, " OPTIONS ") -> Tensor",
         POSITIONS("periodic") SHORT(HAMMING("alpha", "beta"))),
    PAIR("blackman_window", BLACKMAN),
    PAIR("bartlett_window", BARTLETT),
    TEXT("kaiser_window(" N ", *, " OPTIONS ") -> Tensor", POSITIONS("true") KAISER("12.0") SHORT("w")),
    TEXT("kaiser_window.periodic(" N ", bool periodic, *, " OPTIONS ") -> Tensor",
         POSITIONS("periodic") KAISER("12.0") SHORT("w")),
    TEXT("kaiser_window.beta(" N ", bool periodic, float beta, *, " OPTIONS ") -> Tensor",
         POSITIONS("periodic") KAISER("beta") SHORT("w")),
    TRIANGLE("tril_indices"),
    TRIANGLE("triu_indices"),
};
TC_OP_FAMILY(window);
