// Contractions over named or listed dimensions: einsum, tensordot, and products made of them.
//
// einsum: the subscripts are read into one letter per dimension. Operands are multiplied from left to right; a letter
// that no later operand and not the output has is summed at once. A product of two operands is one batched matrix
// product: letters of both that stay are the batch, letters of both that go are summed. Dimensions are kept in the
// order of the output, as PyTorch does, since that decides the strides of the result.
#include <ctype.h>
#include <string.h>

#include "core/ops/ops.h"

enum { MAX_OPERANDS = 16, LETTERS = 64 };

static tc_gv make1(tc_op_args *a, const char *op, tc_gv x, int32_t n, const tc_int *list) {
  tc_ex_begin(a, op);
  tc_ex_push(a, x);
  if (list) tc_ex_push_ints(a, n, list);
  return tc_ex_make(a, 1, NULL);
}
static tc_gv make2(tc_op_args *a, const char *op, tc_gv x, tc_gv y) {
  tc_ex_begin(a, op);
  tc_ex_push(a, x);
  tc_ex_push(a, y);
  return tc_ex_make(a, 1, NULL);
}
static tc_gv permuted(tc_op_args *a, tc_gv x, int32_t n, const int32_t *order) {
  tc_int list[TC_MAX_RANK];
  bool same = true;
  for (int32_t i = 0; i < n; i++) list[i] = tc_int_const(a, order[i]), same = same && order[i] == i;
  return same ? x : make1(a, "aten::permute", x, n, list);
}

// A value whose dimensions have letters.
typedef struct term {
  tc_gv v;
  int32_t n;
  int8_t letters[TC_MAX_RANK];
} term;
static int32_t place_of(const term *t, int32_t letter) {
  for (int32_t i = 0; i < t->n; i++)
    if (t->letters[i] == letter) return i;
  return -1;
}
static tc_int size_of(tc_op_args *a, const term *t, int32_t i) {
  const tc_tensor_type *type = tc_ex_type(a, t->v);
  return type ? type->sizes[i] : tc_int_const(a, 1);
}

// Sums the letters that are not wanted.
static void sum_out(tc_op_args *a, term *t, const bool *wanted) {
  tc_int dims[TC_MAX_RANK];
  int32_t n = 0, kept = 0;
  for (int32_t i = 0; i < t->n; i++) {
    if (wanted[t->letters[i]]) t->letters[kept++] = t->letters[i];
    else dims[n++] = tc_int_const(a, i);
  }
  t->n = kept;
  if (n) t->v = make1(a, "aten::sum.dim_IntList", t->v, n, dims);
}

// A letter that stands twice in one operand means its diagonal.
static void take_diagonals(tc_op_args *a, term *t) {
  for (int32_t i = 0; i < t->n; i++) {
    for (int32_t k = i + 1; k < t->n; k++) {
      if (t->letters[i] != t->letters[k]) continue;
      int8_t letter = t->letters[i];
      tc_ex_begin(a, "aten::diagonal");
      tc_ex_push(a, t->v);
      tc_ex_push_int(a, tc_int_const(a, 0));
      tc_ex_push_int(a, tc_int_const(a, i));
      tc_ex_push_int(a, tc_int_const(a, k));
      t->v = tc_ex_make(a, 1, NULL);
      memmove(t->letters + k, t->letters + k + 1, (size_t)(t->n - k - 1));
      memmove(t->letters + i, t->letters + i + 1, (size_t)(t->n - i - 2));
      t->letters[t->n - 2] = letter;
      t->n--, i = -1;
      break;
    }
  }
}

// Dimensions in the order of `rank`.
static void reorder(tc_op_args *a, term *t, const int32_t *rank) {
  int32_t order[TC_MAX_RANK];
  int8_t letters[TC_MAX_RANK];
  for (int32_t i = 0; i < t->n; i++) {
    int32_t k = i;
    for (; k > 0 && rank[t->letters[order[k - 1]]] > rank[t->letters[i]]; k--) order[k] = order[k - 1];
    order[k] = i;
  }
  t->v = permuted(a, t->v, t->n, order);
  for (int32_t i = 0; i < t->n; i++) letters[i] = t->letters[order[i]];
  memcpy(t->letters, letters, sizeof letters);
}

// A dimension of size 1 that meets a larger one of the other operand has no letter there.
static void drop_ones(tc_op_args *a, term *t, const term *other) {
  tc_int one = tc_int_const(a, 1);
  for (int32_t i = 0; i < t->n; i++) {
    int32_t k = place_of(other, t->letters[i]);
    if (k < 0 || tc_int_eq(a, size_of(a, t, i), one) != 1 || tc_int_eq(a, size_of(a, other, k), one) == 1) continue;
    tc_ex_begin(a, "aten::squeeze.dim");
    tc_ex_push(a, t->v);
    tc_ex_push_int(a, tc_int_const(a, i));
    t->v = tc_ex_make(a, 1, NULL);
    memmove(t->letters + i, t->letters + i + 1, (size_t)(t->n - i - 1));
    t->n--, i--;
  }
}

static tc_int product(tc_op_args *a, int32_t n, const tc_int *sizes) {
  tc_int p = tc_int_const(a, 1);
  for (int32_t i = 0; i < n; i++) p = tc_int_mul(a, p, sizes[i]);
  return p;
}

// The product of elements, dimensions in the order of `rank`, then the sum.
static term by_elements(tc_op_args *a, const term *x, const term *y, const bool *wanted, const int32_t *rank) {
  term all = {0}, copies[2] = {*x, *y}, *in[2] = {&copies[0], &copies[1]};
  for (int32_t l = 0; l < LETTERS; l++) {
    if (place_of(x, l) < 0 && place_of(y, l) < 0) continue;
    if (all.n == TC_MAX_RANK) return tc_op_fail(a, "the product has more than %d dimensions", TC_MAX_RANK), all;
    int32_t k = all.n++;
    for (; k > 0 && rank[all.letters[k - 1]] > rank[l]; k--) all.letters[k] = all.letters[k - 1];
    all.letters[k] = (int8_t)l;
  }
  for (int32_t i = 0; i < 2; i++) {
    reorder(a, in[i], rank);
    for (int32_t k = 0; k < all.n; k++) {
      if (place_of(in[i], all.letters[k]) >= 0) continue;
      tc_ex_begin(a, "aten::unsqueeze");
      tc_ex_push(a, in[i]->v);
      tc_ex_push_int(a, tc_int_const(a, k));
      in[i]->v = tc_ex_make(a, 1, NULL);
    }
  }
  all.v = make2(a, "aten::mul.Tensor", in[0]->v, in[1]->v);
  sum_out(a, &all, wanted);
  return all;
}

// x·y summed over the letters that are not wanted. Where sizes are not known to be equal they might broadcast, so such
// operands are multiplied by elements. `matrices`: no letter is both's and wanted, so that there is no batch (PyTorch
// makes tensordot so, einsum of batches always).
static term multiply(tc_op_args *a, term x, term y, const bool *wanted, const int32_t *rank, bool matrices) {
  drop_ones(a, &x, &y);
  drop_ones(a, &y, &x);
  bool in_y[LETTERS] = {0}, in_x[LETTERS] = {0}, keep[LETTERS];
  for (int32_t i = 0; i < x.n; i++) in_x[x.letters[i]] = true;
  for (int32_t i = 0; i < y.n; i++) in_y[y.letters[i]] = true;
  for (int32_t l = 0; l < LETTERS; l++) keep[l] = wanted[l] || in_y[l];
  sum_out(a, &x, keep);
  for (int32_t l = 0; l < LETTERS; l++) keep[l] = wanted[l] || in_x[l];
  sum_out(a, &y, keep);
  bool broadcast = false;
  int32_t contracted = 0;
  for (int32_t i = 0; i < x.n; i++) {
    int32_t k = place_of(&y, x.letters[i]);
    if (k < 0) continue;
    contracted += !wanted[x.letters[i]];
    broadcast = broadcast || tc_int_eq(a, size_of(a, &x, i), size_of(a, &y, k)) != 1;
  }
  if (contracted == 0 || broadcast) return by_elements(a, &x, &y, wanted, rank);
  // dimensions in the order batch, rows of x, summed | batch, summed, columns of y
  int32_t px[TC_MAX_RANK], py[TC_MAX_RANK], nx = 0, ny = 0;
  tc_int batch[TC_MAX_RANK], rows[TC_MAX_RANK], summed[TC_MAX_RANK], columns[TC_MAX_RANK];
  int32_t nb = 0, nr = 0, ns = 0, nc = 0;
  term out = {0};
  for (int32_t i = 0; i < x.n; i++) {
    int32_t k = place_of(&y, x.letters[i]);
    if (k < 0 || !wanted[x.letters[i]]) continue;
    px[nx++] = i, py[ny++] = k, batch[nb++] = size_of(a, &x, i);
    out.letters[out.n++] = x.letters[i];
  }
  for (int32_t i = 0; i < x.n; i++) {
    if (place_of(&y, x.letters[i]) >= 0) continue;
    px[nx++] = i, rows[nr++] = size_of(a, &x, i);
    out.letters[out.n++] = x.letters[i];
  }
  for (int32_t i = 0; i < x.n; i++) {
    int32_t k = place_of(&y, x.letters[i]);
    if (k < 0 || wanted[x.letters[i]]) continue;
    px[nx++] = i, py[ny++] = k, summed[ns++] = size_of(a, &x, i);
  }
  for (int32_t k = 0; k < y.n; k++) {
    if (place_of(&x, y.letters[k]) >= 0) continue;
    py[ny++] = k, columns[nc++] = size_of(a, &y, k);
    if (out.n == TC_MAX_RANK) return tc_op_fail(a, "the product has more than %d dimensions", TC_MAX_RANK), out;
    out.letters[out.n++] = y.letters[k];
  }
  tc_gv u = permuted(a, x.v, nx, px), w = permuted(a, y.v, ny, py);
  tc_int sx[3] = {product(a, nb, batch), product(a, nr, rows), product(a, ns, summed)},
         sy[3] = {sx[0], sx[2], product(a, nc, columns)}, back[TC_MAX_RANK];
  int32_t first = matrices ? 1 : 0; // of the sizes; without the batch's
  tc_gv p = make2(a, matrices ? "aten::mm" : "aten::bmm", make1(a, "aten::reshape", u, 3 - first, sx + first),
                  make1(a, "aten::reshape", w, 3 - first, sy + first));
  int32_t n = 0;
  for (int32_t i = 0; i < nb; i++) back[n++] = batch[i];
  for (int32_t i = 0; i < nr; i++) back[n++] = rows[i];
  for (int32_t i = 0; i < nc; i++) back[n++] = columns[i];
  out.v = make1(a, "aten::reshape", p, n, back);
  return out;
}

// ---- reading the equation ----
typedef struct equation {
  int32_t n, dots; // operands; the most dimensions that an ellipsis stands for
  bool has_dots, in_dots, explicit_output;
  term operand[MAX_OPERANDS], output;
} equation;

// Letters: a-z are 0–25, A-Z 26–51, and dimensions of an ellipsis, counted from the right, from 52 on.
static int32_t letter_of(char c) { return islower((unsigned char)c) ? c - 'a' : c - 'A' + 26; }
enum { DOT = 52, MAX_DOTS = LETTERS - DOT };

static int32_t read_term(tc_op_args *a, tc_sv s, int32_t rank, term *t, int32_t dots, bool *has_dots) {
  int32_t n = 0;
  *has_dots = false;
  for (size_t i = 0; i < s.size; i++) {
    char c = s.data[i];
    if (c == ' ') continue;
    if (c == '.') {
      if (i + 2 >= s.size || s.data[i + 1] != '.' || s.data[i + 2] != '.' || *has_dots)
        return tc_op_fail(a, "an ellipsis must be three dots, once in an operand");
      int32_t named = 0;
      for (size_t k = 0; k < s.size; k++) named += isalpha((unsigned char)s.data[k]) != 0;
      int32_t stands = rank >= 0 ? rank - named : dots;
      if (stands < 0 || stands > MAX_DOTS || n + stands > TC_MAX_RANK)
        return tc_op_fail(a, "an ellipsis stands for %d dimensions", stands);
      for (int32_t d = 0; d < stands; d++) t->letters[n++] = (int8_t)(DOT + stands - 1 - d);
      *has_dots = true;
      i += 2;
    } else if (isalpha((unsigned char)c)) {
      if (n == TC_MAX_RANK) return tc_op_fail(a, "an operand has more than %d subscripts", TC_MAX_RANK);
      t->letters[n++] = (int8_t)letter_of(c);
    } else {
      return tc_op_fail(a, "the character '%c' is no subscript", c);
    }
  }
  t->n = n;
  return TC_STATUS_OK;
}

static int32_t read_equation(tc_op_args *a, equation *q) {
  tc_sv text = tc_op_string(a, 0), inputs = text, rest = {0};
  int32_t count[LETTERS] = {0};
  *q = (equation){0};
  for (size_t i = 0; i + 1 < text.size; i++) {
    if (text.data[i] != '-' || text.data[i + 1] != '>') continue;
    inputs = tc_sv_sub(text, 0, i), rest = tc_sv_sub(text, i + 2, text.size), q->explicit_output = true;
    break;
  }
  int32_t given = tc_op_count(a, 1);
  for (size_t start = 0, i = 0; i <= inputs.size; i++) {
    if (i < inputs.size && inputs.data[i] != ',') continue;
    if (q->n == MAX_OPERANDS) return tc_op_fail(a, "more than %d operands", MAX_OPERANDS);
    const tc_tensor_type *t = tc_op_tensor_at(a, 1, q->n);
    if (q->n >= given || !t) return tc_op_fail(a, "the equation has more operands than the %d given", given);
    term *x = &q->operand[q->n++];
    bool dots;
    if (read_term(a, tc_sv_sub(inputs, start, i), t->rank, x, 0, &dots)) return TC_STATUS_INVALID_ARGUMENT;
    if (x->n != t->rank)
      return tc_op_fail(a, "operand %d has %d subscripts and %d dimensions", q->n - 1, x->n, t->rank);
    for (int32_t k = 0; k < x->n; k++) {
      count[x->letters[k]]++;
      if (x->letters[k] >= DOT && x->letters[k] - DOT + 1 > q->dots) q->dots = x->letters[k] - DOT + 1;
    }
    start = i + 1;
  }
  if (q->n != given) return tc_op_fail(a, "the equation has %d operands, %d are given", q->n, given);
  if (q->explicit_output) return read_term(a, rest, -1, &q->output, q->dots, &q->in_dots);
  for (int32_t d = q->dots - 1; d >= 0; d--) q->output.letters[q->output.n++] = (int8_t)(DOT + d);
  static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  for (const char *c = alphabet; *c; c++)
    if (count[letter_of(*c)] == 1 && q->output.n < TC_MAX_RANK)
      q->output.letters[q->output.n++] = (int8_t)letter_of(*c);
  return TC_STATUS_OK;
}

static int32_t einsum_expand(tc_op_args *a) {
  equation q;
  if (read_equation(a, &q)) return TC_STATUS_INVALID_ARGUMENT;
  term acc = {0};
  int32_t rank[LETTERS];
  for (int32_t l = 0; l < LETTERS; l++) rank[l] = LETTERS + l;
  for (int32_t k = 0; k < q.output.n; k++) rank[q.output.letters[k]] = k;
  for (int32_t i = 0; i < q.n; i++) {
    bool wanted[LETTERS] = {0};
    for (int32_t k = 0; k < q.output.n; k++) wanted[q.output.letters[k]] = true;
    for (int32_t later = i + 1; later < q.n; later++)
      for (int32_t k = 0; k < q.operand[later].n; k++) wanted[q.operand[later].letters[k]] = true;
    term x = q.operand[i];
    x.v = tc_ex_arg_at(a, 1, i);
    take_diagonals(a, &x);
    reorder(a, &x, rank);
    if (i == 0) {
      sum_out(a, &x, wanted);
      acc = x;
    } else {
      acc = multiply(a, acc, x, wanted, rank, false);
      reorder(a, &acc, rank);
    }
    if (tc_failed(&a->failure)) return TC_STATUS_INVALID_ARGUMENT;
  }
  int32_t order[TC_MAX_RANK];
  for (int32_t k = 0; k < q.output.n; k++) {
    order[k] = place_of(&acc, q.output.letters[k]);
    if (order[k] < 0) return tc_op_fail(a, "the output has a subscript that no operand has, or one twice");
  }
  tc_ex_result(a, 0, permuted(a, acc.v, q.output.n, order));
  return TC_STATUS_OK;
}

// tensordot: the listed dimensions of both are summed; what is left of self comes first.
static int32_t tensordot_expand(tc_op_args *a) {
  int32_t n = tc_op_count(a, 2);
  const tc_tensor_type *t[2] = {tc_op_tensor(a, 0), tc_op_tensor(a, 1)};
  if (n != tc_op_count(a, 3)) return tc_op_fail(a, "both dimension lists should have same length");
  term x[2] = {{0}};
  int32_t next = 0;
  bool wanted[LETTERS] = {0};
  for (int32_t k = 0; k < 2; k++) {
    x[k].v = tc_ex_arg(a, k), x[k].n = t[k]->rank;
    for (int32_t d = 0; d < t[k]->rank; d++) x[k].letters[d] = -1;
    for (int32_t i = 0; i < n; i++) {
      int64_t d = tc_op_wrap_dim(a, tc_op_int_at(a, 2 + k, i, 0), t[k]->rank);
      if (d < 0) return TC_STATUS_INVALID_ARGUMENT;
      x[k].letters[d] = (int8_t)i;
    }
    next = next > n ? next : n;
    for (int32_t d = 0; d < t[k]->rank; d++)
      if (x[k].letters[d] < 0) wanted[next] = true, x[k].letters[d] = (int8_t)next++;
  }
  int32_t rank[LETTERS]; // what is left of self, of other, what is summed
  for (int32_t l = 0; l < LETTERS; l++) rank[l] = wanted[l] ? l : LETTERS + l;
  tc_gv y = multiply(a, x[0], x[1], wanted, rank, true).v;
  if (tc_op_count(a, 2) == 0) { // a product without sums, which PyTorch does as a matrix product, too
    tc_ex_begin(a, "aten::_row_major");
    tc_ex_push(a, y);
    y = tc_ex_make(a, 1, NULL);
  }
  tc_ex_result(a, 0, y);
  return TC_STATUS_OK;
}

// multi_dot: the order of the products with the fewest multiplications (Cormen et al., chapter 15.2), by what is known
// about the sizes. Vectors at the ends are a row and a column.
typedef struct chain {
  tc_gv v[MAX_OPERANDS];
  int32_t split[MAX_OPERANDS][MAX_OPERANDS];
} chain;
static tc_gv chain_product(tc_op_args *a, const chain *c, int32_t i, int32_t j) {
  if (i == j) return c->v[i];
  return make2(a, "aten::matmul", chain_product(a, c, i, c->split[i][j]), chain_product(a, c, c->split[i][j] + 1, j));
}
static int32_t copy_of_one(tc_op_args *a) {
  tc_gv x = tc_ex_arg_at(a, 0, 0);
  if (tc_op_tensor_at(a, 0, 0)->rank != 2) return tc_op_fail(a, "tensor 0 must be a matrix");
  tc_ex_begin(a, "aten::clone");
  tc_ex_push(a, x);
  tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
  return TC_STATUS_OK;
}
static int32_t multi_dot_expand(tc_op_args *a) {
  int32_t n = tc_op_count(a, 0);
  if (n == 1 && tc_sv_is(a->op->schema.name, "chain_matmul")) return copy_of_one(a);
  if (n < 2 || n > MAX_OPERANDS) return tc_op_fail(a, "expected 2 to %d tensors but got %d", MAX_OPERANDS, n);
  chain c = {0};
  double size[MAX_OPERANDS + 1], cost[MAX_OPERANDS][MAX_OPERANDS] = {{0}};
  size[0] = size[n] = 1;
  for (int32_t i = 0; i < n; i++) {
    const tc_tensor_type *t = tc_op_tensor_at(a, 0, i);
    bool vector = t->rank == 1 && (i == 0 || i == n - 1);
    if (t->rank != 2 && !vector) return tc_op_fail(a, "tensor %d must be a matrix; only the ends may be vectors", i);
    if (!vector || i == n - 1) size[i] = (double)tc_int_hint(a, t->sizes[0], 1);
    if (!vector) size[i + 1] = (double)tc_int_hint(a, t->sizes[1], 1);
    c.v[i] = tc_ex_arg_at(a, 0, i);
  }
  for (int32_t length = 2; length <= n; length++) {
    for (int32_t i = 0, j = length - 1; j < n; i++, j++) {
      for (int32_t k = i; k < j; k++) {
        double all = cost[i][k] + cost[k + 1][j] + size[i] * size[k + 1] * size[j + 1];
        if (k == i || all < cost[i][j]) cost[i][j] = all, c.split[i][j] = k;
      }
    }
  }
  tc_ex_result(a, 0, chain_product(a, &c, 0, n - 1));
  return TC_STATUS_OK;
}

// kron: every element of self times the whole of other, shapes aligned at the right.
static int32_t kron_expand(tc_op_args *a) {
  const tc_tensor_type *t[2] = {tc_op_tensor(a, 0), tc_op_tensor(a, 1)};
  int32_t rank = t[0]->rank > t[1]->rank ? t[0]->rank : t[1]->rank;
  tc_int sizes[2][TC_MAX_RANK], out[TC_MAX_RANK], one = tc_int_const(a, 1);
  if (2 * rank > TC_MAX_RANK) return tc_op_fail(a, "rank %d is too large", rank);
  for (int32_t k = 0; k < 2; k++) {
    for (int32_t d = 0; d < rank; d++) {
      int32_t own = d - (rank - t[k]->rank);
      sizes[k][2 * d + k] = own < 0 ? one : t[k]->sizes[own];
      sizes[k][2 * d + 1 - k] = one;
    }
  }
  for (int32_t d = 0; d < rank; d++) out[d] = tc_int_mul(a, sizes[0][2 * d], sizes[1][2 * d + 1]);
  tc_gv x = make1(a, "aten::reshape", tc_ex_arg(a, 0), 2 * rank, sizes[0]),
        y = make1(a, "aten::reshape", tc_ex_arg(a, 1), 2 * rank, sizes[1]);
  tc_ex_result(a, 0, make1(a, "aten::reshape", make2(a, "aten::mul.Tensor", x, y), rank, out));
  return TC_STATUS_OK;
}

// cross without a dimension: the first one of size 3.
static int32_t cross_expand(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int64_t dim = tc_op_int(a, 2, 0);
  if (tc_op_kind(a, 2) == TC_AK_NONE) {
    for (dim = 0; dim < t->rank && !tc_sym_is_int(t->sizes[dim], 3); dim++) {}
    if (dim == t->rank) return tc_op_fail(a, "no dimension of size 3 in input: %s", tc_op_shape_text(a, 0));
  }
  tc_ex_begin(a, "aten::linalg_cross");
  tc_ex_push_arg(a, 0);
  tc_ex_push_arg(a, 1);
  tc_ex_push_int(a, tc_int_const(a, dim));
  tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
  return TC_STATUS_OK;
}

enum { C = TC_OP_COMPLEX };
#define TEXT(s, d) {.schema = s, .traits = C, .decompose = d}
#define CODE(s, f) {.schema = s, .traits = C, .expand = f}
static const tc_op_def rows[] = {
    CODE("einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor", einsum_expand),
    CODE("tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor", tensordot_expand),
    CODE("linalg_multi_dot(Tensor[] tensors) -> Tensor", multi_dot_expand),
    CODE("chain_matmul(Tensor[] matrices) -> Tensor", multi_dot_expand),
    CODE("kron(Tensor self, Tensor other) -> Tensor", kron_expand),
    CODE("cross(Tensor self, Tensor other, int? dim=None) -> Tensor", cross_expand),
    TEXT("linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor",
         "if(self.dtype == other.dtype && self.dtype != bool, sub(mul(roll(self, [-1], [dim]), roll(other, [-2], "
         "[dim])), "
         "mul(roll(self, [-2], [dim]), roll(other, [-1], [dim]))), fail(\"the vectors must have the same dtype, which "
         "is "
         "not bool\"))"),
    TEXT(
        "addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
        "let s = if(self.dtype == batch1.dtype, expand(self, [batch1.size(1), batch2.size(2)]), fail(\"self and batch1 "
        "must have the same dtype\")); let p = mul(sum(bmm(batch1, batch2), [0], false, dtype=self.dtype), alpha); "
        "if(!is_complex(beta) && float(beta) == 0.0, p, add(mul(s, beta), p))"),
    TEXT("addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
         "let d = promote(self, vec1, vec2); let s = to(expand(self, [vec1.size(0), vec2.size(0)]), d); let u = "
         "unsqueeze(to(vec1, d), 1); let v = unsqueeze(to(vec2, d), 0); if(d == bool, _addr_bool(s, u, v, float(beta), "
         "float(alpha)), addmm(s, u, v, beta=beta, alpha=alpha))"),
    TEXT("_addr_bool(Tensor self, Tensor vec1, Tensor vec2, float beta, float alpha) -> Tensor",
         "let p = logical_and(vec1, vec2); let q = if(alpha == 0.0, zeros_like(p), p); if(beta == 0.0, q, "
         "logical_or(self, q))"),
    TEXT("bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
         "let x = if(input1.rank == input2.rank && input1.dtype == input2.dtype && input1.dtype == weight.dtype, "
         "input1, "
         "fail(\"the inputs and the weight must have the same dtype, and the inputs as many dimensions\"));"
         "let p = einsum(\"...i,oij,...j->...o\", [x, weight, input2]); if(is_none(bias), p, if(bias.dtype == p.dtype, "
         "add(p, bias), fail(\"the bias must have the dtype of the inputs\")))"),
    TEXT("linalg_matmul(Tensor self, Tensor other) -> Tensor", "matmul(self, other)"),
};
TC_OP_FAMILY(contract);
