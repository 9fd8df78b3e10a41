// From an op's operands to a column-major product.
//
// A row-major D = A · B is the column-major Dᵀ = Bᵀ · Aᵀ, so the factors change places; where D itself is stored by
// columns they do not. A factor needs one inner stride of 1; the other is its leading dimension. Leading dimensions of
// a factor that meets a plain matrix join its rows where strides nest; otherwise all batch dimensions must be one.
#include "product.h"

#include <stdbool.h>
#include <string.h>

enum { UNKNOWN_SIZE = 64 };

typedef struct tensor {
  int32_t rank;
  int64_t sizes[16], strides[16];
} tensor;

static int32_t refuse(const char **why, const char *text) {
  *why = text;
  return TC_STATUS_UNIMPLEMENTED;
}

static int32_t read_view(const tc_view *v, tensor *t, const char **why) {
  int64_t dense = 1;
  if (v->rank > 8) return refuse(why, "more than eight dimensions");
  t->rank = v->rank;
  for (int32_t i = v->rank - 1; i >= 0; i--) {
    int64_t size = v->sizes[i], stride = v->strides ? v->strides[i] : INT64_MIN;
    if (size == INT64_MIN) size = UNKNOWN_SIZE;
    if (stride == INT64_MIN) stride = dense;
    if (size < 0 || stride < 0) return refuse(why, "a negative size or stride");
    t->sizes[i] = size;
    t->strides[i] = size == 1 ? dense : stride; // the stride of one element is free
    dense = size * (t->strides[i] > 0 ? t->strides[i] : dense);
  }
  return TC_STATUS_OK;
}

// Leading dimensions of size 1, up to a rank; an expanded or single batch dimension has stride 0.
static void widen(tensor *t, int32_t rank) {
  int32_t more = rank - t->rank;
  if (more > 0) {
    memmove(t->sizes + more, t->sizes, (size_t)t->rank * sizeof *t->sizes);
    memmove(t->strides + more, t->strides, (size_t)t->rank * sizeof *t->strides);
    for (int32_t i = 0; i < more; i++) t->sizes[i] = 1;
    t->rank = rank;
  }
  for (int32_t i = 0; i < rank - 2; i++) {
    if (t->sizes[i] == 1) t->strides[i] = 0;
  }
}

// Rows and what stands before them as one dimension?
static int32_t rows_nest(const tensor *t) {
  for (int32_t i = 0; i + 2 < t->rank; i++) {
    if (t->sizes[i] != 1 && t->strides[i] != t->strides[i + 1] * t->sizes[i + 1]) return 0;
  }
  return 1;
}

static void join_rows(tensor *t) {
  int32_t r = t->rank;
  int64_t rows = 1, stride = t->strides[r - 2];
  for (int32_t i = 0; i + 1 < r; i++) rows *= t->sizes[i];
  for (int32_t i = r - 2; i >= 0; i--) { // of the innermost dimension that has more than one element
    if (t->sizes[i] == 1) continue;
    stride = t->strides[i];
    break;
  }
  t->sizes[0] = rows, t->strides[0] = stride;
  t->sizes[1] = t->sizes[r - 1], t->strides[1] = t->strides[r - 1];
  t->rank = 2;
}

// The stride of all batch dimensions as one: 0 where the tensor is the same for all; -1 if there is none.
static int64_t batch_stride(const tensor *t, const tensor *d) {
  int64_t stride = 0, count = 1;
  int32_t seen = 0;
  for (int32_t i = t->rank - 3; i >= 0; i--) {
    int64_t size = d->sizes[i], s = t->sizes[i] == 1 ? 0 : t->strides[i];
    if (size == 1) continue;
    if (!seen) stride = s, seen = 1;
    else if (s != stride * count) return -1;
    count *= size;
  }
  return stride;
}

// Rows × columns of a tensor's last dimensions as a column-major matrix that is wanted as rows × columns.
static int32_t matrix_of(const tensor *t, int64_t rows, int64_t cols, int32_t row_dim, product_matrix *out) {
  int64_t rs = t->strides[row_dim], cs = t->strides[row_dim == t->rank - 1 ? t->rank - 2 : t->rank - 1];
  if (rows == 1 && cs >= 1) rs = 1; // of one row the stride is free
  if (cols == 1 && rs == 1) cs = rows;
  if (rs == 1 && cs >= (rows > 1 ? rows : 1)) {
    *out = (product_matrix){.rows = rows, .cols = cols, .ld = cs};
    return 1;
  }
  if (cols == 1) cs = 1;
  if (cs == 1 && rs >= (cols > 1 ? cols : 1)) {
    *out = (product_matrix){.rows = cols, .cols = rows, .ld = rs, .transposed = 1};
    return 1;
  }
  return 0;
}

static int32_t named(const tc_call_node *n, const char *name) {
  return n->op.size == strlen(name) && memcmp(n->op.data, name, n->op.size) == 0;
}

static int32_t bytes_of(tc_dtype t) {
  return t == TC_F16 || t == TC_BF16 ? 2 : t == TC_F32 ? 4 : t == TC_F64 || t == TC_C64 ? 8 : t == TC_C128 ? 16 : 0;
}

static bool complex_type(tc_dtype t) { return t == TC_C64 || t == TC_C128; }

typedef struct request {
  tensor a, b, d, c;
  int32_t first, bias, add; // operands: the first factor; or -1
  int32_t function, after;
  double alpha, beta;
} request;

static int32_t steps_operands(const tc_call_node *n) {
  int32_t count = 0;
  for (int32_t i = 0; i < n->n_epilogue; i++) count += n->epilogue[i].operand >= 0;
  return count;
}

// What may stand behind a product: a function, and a sum with a tensor like the result, before or behind it. The
// library has one of the two, and of functions gelu_tanh, to the accuracy of 16 bits.
static int32_t read_epilogue(const tc_call_node *n, product_by by, request *q, const char **why) {
  tc_dtype t = n->results->dtype;
  if (by == PRODUCT_BY_LIBRARY && n->n_epilogue > 1) return refuse(why, "an epilogue of several steps");
  for (int32_t i = 0; i < n->n_epilogue; i++) {
    const tc_epilogue *e = &n->epilogue[i];
    if (e->kind == TC_EPI_ADD && q->add < 0 && e->operand >= 0 && e->operand < n->n_operands) {
      q->add = e->operand, q->beta = 1, q->after = q->function >= 0;
      continue;
    }
    bool known = by == PRODUCT_BY_US ? e->kind >= TC_EPI_RELU && e->kind <= TC_EPI_SILU && !complex_type(t)
                                     : e->kind == TC_EPI_GELU_TANH && (t == TC_BF16 || t == TC_F16);
    if (!known || q->function >= 0) return refuse(why, "an epilogue that is not done with a product");
    q->function = e->kind;
  }
  return TC_STATUS_OK;
}

static int32_t read_scale(const tc_call_node *n, int32_t arg, double *out, const char **why) {
  tc_number v;
  *out = 1;
  if (!tc_op_number(n->args, arg, &v)) return TC_STATUS_OK;
  *out = v.re;
  return v.im == 0 ? TC_STATUS_OK : refuse(why, "a complex alpha or beta");
}

static int32_t read_request(const tc_call_node *n, product_by by, request *q, const char **why) {
  int32_t linear = named(n, "aten::linear"), adds = named(n, "aten::addmm") || named(n, "aten::baddbmm");
  if (!linear && !adds && !named(n, "aten::mm") && !named(n, "aten::bmm") && !named(n, "aten::matmul"))
    return refuse(why, "no matrix product");
  *q = (request){.first = adds, .bias = -1, .add = -1, .function = -1, .alpha = 1};
  if (n->n_operands < q->first + 2 || n->n_results != 1) return refuse(why, "an operand is missing");
  for (int32_t i = 0; i < n->n_operands; i++) {
    if (n->operands[i].dtype != n->results->dtype) return refuse(why, "operands of different dtypes");
  }
  if (adds) {
    int32_t s = read_scale(n, 3, &q->beta, why);
    if (s == TC_STATUS_OK) s = read_scale(n, 4, &q->alpha, why);
    if (s != TC_STATUS_OK) return s;
    if (q->beta != 0) q->add = 0;
  } else if (linear && n->n_operands - steps_operands(n) > 2) {
    q->bias = 2;
  }
  int32_t s = read_epilogue(n, by, q, why);
  if (s != TC_STATUS_OK) return s;
  s = read_view(&n->operands[q->first], &q->a, why);
  if (s == TC_STATUS_OK) s = read_view(&n->operands[q->first + 1], &q->b, why);
  if (s == TC_STATUS_OK) s = read_view(n->results, &q->d, why);
  if (s == TC_STATUS_OK && q->add >= 0) s = read_view(&n->operands[q->add], &q->c, why);
  if (s != TC_STATUS_OK) return s;
  if (q->a.rank < 2 || q->b.rank < 2 || q->d.rank < 2) return refuse(why, "vectors");
  if (linear) { // the weight is stored transposed
    int64_t *z = q->b.sizes + q->b.rank - 2, *t = q->b.strides + q->b.rank - 2, keep = z[0];
    z[0] = z[1], z[1] = keep;
    keep = t[0], t[0] = t[1], t[1] = keep;
  }
  return TC_STATUS_OK;
}

// A row that is added to every row is a bias; anything else must have the result's shape.
static int32_t place_addend(request *q, const char **why) {
  if (q->add < 0) return TC_STATUS_OK;
  if (q->add > 0) return q->c.rank == q->d.rank ? TC_STATUS_OK : refuse(why, "an addend of another rank");
  int64_t columns = q->d.sizes[q->d.rank - 1];
  if (q->c.rank == 1 && q->c.sizes[0] == columns && columns > 1 && q->alpha == 1 && q->beta == 1) {
    q->bias = 0, q->add = -1, q->beta = 0;
    return TC_STATUS_OK;
  }
  if (q->c.rank != q->d.rank) return refuse(why, "an addend that is broadcast");
  for (int32_t i = 0; i < q->c.rank; i++) {
    if (q->c.sizes[i] != q->d.sizes[i]) return refuse(why, "an addend that is broadcast");
  }
  return TC_STATUS_OK;
}

static int32_t keeps_16(const product_matrix *x, int64_t batch, int32_t bytes) {
  return x->ld * bytes % 16 == 0 && (batch == 1 || x->batch_stride * bytes % 16 == 0);
}

// Every factor is asked for as the column-major product needs it; `flip`: D is stored by rows.
static int32_t place(const request *q, int32_t flip, product *p, const char **why) {
  int32_t r = q->d.rank;
  int64_t rows = q->d.sizes[r - 2], cols = q->d.sizes[r - 1], k = q->a.sizes[q->a.rank - 1];
  const tensor *left = flip ? &q->b : &q->a, *right = flip ? &q->a : &q->b;
  p->m = flip ? cols : rows, p->n = flip ? rows : cols, p->k = k;
  int32_t row_dim = flip ? r - 1 : r - 2;
  if (!matrix_of(left, p->m, k, row_dim, &p->a) || !matrix_of(right, k, p->n, row_dim, &p->b))
    return refuse(why, "a factor without an inner stride of 1");
  if (!matrix_of(&q->d, p->m, p->n, row_dim, &p->d) || p->d.transposed)
    return refuse(why, "a result without an inner stride of 1");
  p->a.operand = q->first + flip, p->b.operand = q->first + !flip, p->d.operand = -1;
  p->c = p->d;
  p->has_c = q->add >= 0;
  if (p->has_c && (!matrix_of(&q->c, p->m, p->n, row_dim, &p->c) || p->c.transposed))
    return refuse(why, "an addend without an inner stride of 1");
  p->c.operand = p->has_c ? q->add : -1;
  p->batch = 1;
  for (int32_t i = 0; i + 2 < r; i++) p->batch *= q->d.sizes[i];
  p->a.batch_stride = batch_stride(left, &q->d), p->b.batch_stride = batch_stride(right, &q->d);
  p->d.batch_stride = batch_stride(&q->d, &q->d);
  p->c.batch_stride = p->has_c ? batch_stride(&q->c, &q->d) : p->d.batch_stride;
  if (p->a.batch_stride < 0 || p->b.batch_stride < 0 || p->c.batch_stride < 0 || p->d.batch_stride < 0)
    return refuse(why, "batch dimensions that are not one");
  return TC_STATUS_OK;
}

int32_t product_of(const tc_call_node *n, product_by by, product *out, const char **why) {
  request q;
  *out = (product){.dtype = n->results->dtype, .bias = -1};
  int32_t bytes = bytes_of(out->dtype);
  if (!bytes) return refuse(why, "a dtype that the library does not multiply");
  int32_t s = read_request(n, by, &q, why);
  if (s == TC_STATUS_OK) s = place_addend(&q, why);
  if (s != TC_STATUS_OK) return s;
  if (q.a.rank > q.d.rank || q.b.rank > q.d.rank) return refuse(why, "factors of more dimensions than the result");
  widen(&q.a, q.d.rank);
  int32_t plain = q.b.rank == 2 && q.d.rank > 2;
  widen(&q.b, q.d.rank);
  if (plain && (q.add < 0 || rows_nest(&q.c)) && rows_nest(&q.a) && rows_nest(&q.d)) {
    join_rows(&q.a), join_rows(&q.d);
    if (q.add >= 0) join_rows(&q.c);
    memmove(q.b.sizes, q.b.sizes + q.b.rank - 2, 2 * sizeof *q.b.sizes);
    memmove(q.b.strides, q.b.strides + q.b.rank - 2, 2 * sizeof *q.b.strides);
    q.b.rank = 2;
  }
  int32_t r = q.d.rank;
  if (q.a.sizes[r - 2] != q.d.sizes[r - 2] || q.b.sizes[r - 1] != q.d.sizes[r - 1] ||
      q.b.sizes[r - 2] != q.a.sizes[r - 1])
    return refuse(why, "sizes that do not fit");
  out->alpha = q.alpha, out->beta = q.beta, out->bias = q.bias;
  out->function = q.function, out->after = q.after;
  int32_t by_rows = q.d.strides[r - 1] == 1 || q.d.sizes[r - 1] == 1;
  s = place(&q, by_rows, out, why);
  if (s != TC_STATUS_OK) return s;
  if (q.bias >= 0) {
    const tc_view *v = &n->operands[q.bias];
    if (!by_rows || v->rank != 1 || (v->strides && v->strides[0] != 1 && v->strides[0] != INT64_MIN))
      return refuse(why, "a bias that is no dense row");
    if (by == PRODUCT_BY_LIBRARY && complex_type(out->dtype)) return refuse(why, "a complex bias");
  }
  out->aligned = keeps_16(&out->a, out->batch, bytes) && keeps_16(&out->b, out->batch, bytes) &&
                 keeps_16(&out->c, out->batch, bytes) && keeps_16(&out->d, out->batch, bytes);
  return TC_STATUS_OK;
}
