// Attention where gradients are wanted: its result with the logarithm of each row's sum, and derivatives that make the
// shares again from that, so that no matrix of all pairs is kept (Dao et al., "FlashAttention", 2022). The texts are
// the same by parts: for the references, and for derivatives of derivatives.
//
// Heads are those of the queries here; what groups share was expanded before (attention.c).
#include <string.h>

#include "core/ops/ops.h"

// Sizes before the last two, of tensors of one rank: equal, or 1.
static bool leading(tc_op_args *a, int32_t arg, tc_int *sizes) {
  const tc_tensor_type *t = tc_op_tensor(a, arg);
  tc_int one = tc_int_const(a, 1);
  for (int32_t d = 0; d < t->rank - 2; d++) {
    if (tc_int_eq(a, t->sizes[d], one) == 1) continue;
    if (tc_int_eq(a, sizes[d], one) == 1) sizes[d] = t->sizes[d];
    else if (tc_int_require_eq(a, sizes[d], t->sizes[d])) return false;
  }
  return true;
}

// Floats of one dtype and rank, at least 2.
static bool alike(tc_op_args *a, int32_t n, const int32_t *args) {
  const tc_tensor_type *q = tc_op_tensor(a, args[0]);
  for (int32_t i = 0; i < n; i++) {
    const tc_tensor_type *t = tc_op_tensor(a, args[i]);
    if (!tc_dtype_is_float(t->dtype) || t->dtype != q->dtype || t->rank != q->rank || t->rank < 2) {
      tc_op_fail(a, "expected floats of one dtype and rank, at least 2: %s, %s", tc_op_shape_text(a, args[0]),
                 tc_op_shape_text(a, args[i]));
      return false;
    }
  }
  return true;
}

static int32_t mask_fits(tc_op_args *a, int32_t mask, int32_t rank, const tc_int *sizes) {
  const tc_tensor_type *m = tc_op_tensor(a, mask);
  if (!m) return TC_STATUS_OK;
  if (m->dtype != TC_BOOL && !tc_dtype_is_float(m->dtype))
    return tc_op_fail(a, "the mask has to be of bool or floats: %s", tc_op_shape_text(a, mask));
  return tc_op_fits(a, mask, rank, sizes);
}

// The operand of a template with the leading sizes given.
static tc_lt wide(tc_op_args *a, tc_lt t, int32_t rank, const tc_int *lead, tc_int rows, tc_int columns) {
  tc_int sizes[TC_MAX_RANK];
  for (int32_t d = 0; d < rank - 2; d++) sizes[d] = lead[d];
  sizes[rank - 2] = rows, sizes[rank - 1] = columns;
  return tc_lo_expand(a, t, rank, sizes);
}

static tc_lt wide_arg(tc_op_args *a, int32_t arg, const tc_int *lead) {
  const tc_tensor_type *t = tc_op_tensor(a, arg);
  return wide(a, tc_lo_arg(a, arg), t->rank, lead, t->sizes[t->rank - 2], t->sizes[t->rank - 1]);
}

// A number per query as a column.
static tc_lt column(tc_op_args *a, int32_t arg, const tc_int *lead) {
  const tc_tensor_type *t = tc_op_tensor(a, arg);
  tc_int sizes[TC_MAX_RANK], one = tc_int_const(a, 1);
  for (int32_t d = 0; d < t->rank; d++) sizes[d] = t->sizes[d];
  sizes[t->rank] = one;
  return wide(a, tc_lo_reshape(a, tc_lo_arg(a, arg), t->rank + 1, sizes), t->rank + 1, lead, t->sizes[t->rank - 1],
              one);
}

static void attributes(tc_op_args *a, int32_t scale, int32_t causal, bool mask, tc_int attrs[3]) {
  double f = tc_op_float(a, scale, 1);
  int64_t bits;
  memcpy(&bits, &f, sizeof bits);
  attrs[0] = tc_int_const(a, bits), attrs[1] = tc_int_const(a, tc_op_bool(a, causal, 0));
  attrs[2] = tc_int_const(a, mask);
}

// ---- the logarithms of the sums ----
enum { L_QUERY, L_KEY, L_MASK, L_CAUSAL, L_SCALE };

static int32_t logsumexp_meta(tc_op_args *a) {
  const tc_tensor_type *q = tc_op_tensor(a, L_QUERY), *k = tc_op_tensor(a, L_KEY);
  int32_t r = q->rank;
  tc_int sizes[TC_MAX_RANK];
  if (!alike(a, 2, (int32_t[]){L_QUERY, L_KEY})) return TC_STATUS_INVALID_ARGUMENT;
  for (int32_t d = 0; d < r - 1; d++) sizes[d] = q->sizes[d];
  if (tc_int_require_eq(a, q->sizes[r - 1], k->sizes[r - 1]) || !leading(a, L_KEY, sizes))
    return tc_op_fail(a, "the shapes do not fit: %s, %s", tc_op_shape_text(a, L_QUERY), tc_op_shape_text(a, L_KEY));
  sizes[r - 1] = k->sizes[r - 2];
  if (mask_fits(a, L_MASK, r, sizes)) return TC_STATUS_INVALID_ARGUMENT;
  return tc_op_set_result(a, 0, tc_op_math_type(q->dtype), r - 1, sizes, NULL);
}

// A template over the first n arguments and the mask, behind which come causal and scale.
static tc_lt lower_rows(tc_op_args *a, const char *name, int32_t n, int32_t mask, tc_dtype type, int32_t rank,
                        const tc_int *sizes) {
  bool masked = tc_op_tensor(a, mask) != NULL;
  tc_int attrs[3], keys = tc_op_tensor(a, L_KEY)->sizes[rank - 2];
  tc_lt operands[4];
  for (int32_t i = 0; i < n; i++) operands[i] = wide_arg(a, i, sizes);
  if (masked) operands[n] = wide(a, tc_lo_arg(a, mask), rank, sizes, sizes[rank - 2], keys);
  attributes(a, mask + 2, mask + 1, masked, attrs);
  return tc_lo_template(a, name, n + masked, operands, type, rank, sizes, 3, attrs);
}

static void lower_logsumexp(tc_op_args *a, int32_t mask, int32_t result) {
  const tc_tensor_type *y = tc_op_result_type(a, result);
  tc_int sizes[TC_MAX_RANK];
  for (int32_t d = 0; d < y->rank; d++) sizes[d] = y->sizes[d];
  sizes[y->rank] = tc_int_const(a, 1);
  tc_lt t = lower_rows(a, "attention_logsumexp", 2, mask, y->dtype, y->rank + 1, sizes);
  tc_lo_result(a, result, tc_lo_reshape(a, t, y->rank, y->sizes));
}

static int32_t logsumexp_lower(tc_op_args *a) {
  lower_logsumexp(a, L_MASK, 0);
  return TC_STATUS_OK;
}

static int32_t attention_lower(tc_op_args *a) {
  enum { VALUES = 3, A_MASK = 3 };
  const tc_tensor_type *y = tc_op_result_type(a, 0);
  tc_lo_result(a, 0, lower_rows(a, "attention", VALUES, A_MASK, y->dtype, y->rank, y->sizes));
  lower_logsumexp(a, A_MASK, 1);
  return TC_STATUS_OK;
}

// ---- derivatives ----
enum { GRAD, QUERY, KEY, VALUE, LOGSUMEXP, DELTA, MASK, CAUSAL, SCALE };

// The sizes of the scores, which all arguments have to fit. 0: a failure.
static int32_t score_sizes(tc_op_args *a, tc_int *sizes) {
  const tc_tensor_type *g = tc_op_tensor(a, GRAD), *q = tc_op_tensor(a, QUERY), *k = tc_op_tensor(a, KEY),
                       *v = tc_op_tensor(a, VALUE);
  int32_t r = q->rank;
  if (!alike(a, 4, (int32_t[]){QUERY, KEY, VALUE, GRAD})) return 0;
  for (int32_t d = 0; d < r - 1; d++) sizes[d] = g->sizes[d];
  bool fit = !tc_int_require_eq(a, q->sizes[r - 1], k->sizes[r - 1]) &&
             !tc_int_require_eq(a, k->sizes[r - 2], v->sizes[r - 2]) &&
             !tc_int_require_eq(a, g->sizes[r - 2], q->sizes[r - 2]) &&
             !tc_int_require_eq(a, g->sizes[r - 1], v->sizes[r - 1]) && leading(a, QUERY, sizes) &&
             leading(a, KEY, sizes) && leading(a, VALUE, sizes);
  if (!fit)
    return tc_op_fail(a, "the shapes do not fit: %s, %s, %s, %s", tc_op_shape_text(a, GRAD), tc_op_shape_text(a, QUERY),
                      tc_op_shape_text(a, KEY), tc_op_shape_text(a, VALUE)),
           0;
  for (int32_t d = 0; d < r - 2; d++)
    if (tc_int_eq(a, sizes[d], g->sizes[d]) != 1)
      return tc_op_fail(a, "the gradient does not have the sizes of the result: %s", tc_op_shape_text(a, GRAD)), 0;
  for (int32_t i = LOGSUMEXP; i <= DELTA; i++) {
    const tc_tensor_type *t = tc_op_tensor(a, i);
    if (t->rank != r - 1 || t->dtype != tc_op_math_type(q->dtype))
      return tc_op_fail(a, "expected a number of the type of arithmetic per query: %s", tc_op_shape_text(a, i)), 0;
    if (tc_op_fits(a, i, r - 1, sizes) || tc_int_require_eq(a, t->sizes[r - 2], q->sizes[r - 2]))
      return tc_op_fail(a, "expected a number per query: %s", tc_op_shape_text(a, i)), 0;
  }
  sizes[r - 1] = k->sizes[r - 2];
  return mask_fits(a, MASK, r, sizes) ? 0 : r;
}

static int32_t query_meta(tc_op_args *a) {
  tc_int sizes[TC_MAX_RANK];
  int32_t r = score_sizes(a, sizes);
  if (!r) return TC_STATUS_INVALID_ARGUMENT;
  const tc_tensor_type *q = tc_op_tensor(a, QUERY);
  sizes[r - 1] = q->sizes[r - 1];
  bool same = true;
  for (int32_t d = 0; d < r; d++) same = same && tc_int_eq(a, sizes[d], q->sizes[d]) == 1;
  return tc_op_format_result(a, 0, q->dtype, r, sizes, same ? TC_FORMAT_PRESERVE : TC_FORMAT_CONTIGUOUS, QUERY);
}

static int32_t pair_meta(tc_op_args *a) {
  tc_int sizes[TC_MAX_RANK];
  int32_t r = score_sizes(a, sizes);
  if (!r) return TC_STATUS_INVALID_ARGUMENT;
  const tc_tensor_type *k = tc_op_tensor(a, KEY), *v = tc_op_tensor(a, VALUE);
  sizes[r - 2] = k->sizes[r - 2];
  sizes[r - 1] = tc_int_add(a, k->sizes[r - 1], v->sizes[r - 1]);
  return tc_op_set_result(a, 0, k->dtype, r, sizes, NULL);
}

static int32_t lower_backward(tc_op_args *a, const char *name) {
  const tc_tensor_type *y = tc_op_result_type(a, 0), *q = tc_op_tensor(a, QUERY), *k = tc_op_tensor(a, KEY);
  int32_t r = y->rank;
  bool mask = tc_op_tensor(a, MASK) != NULL;
  const tc_int *lead = y->sizes;
  tc_lt operands[7] = {wide_arg(a, QUERY, lead),
                       wide_arg(a, KEY, lead),
                       wide_arg(a, VALUE, lead),
                       wide_arg(a, GRAD, lead),
                       column(a, LOGSUMEXP, lead),
                       column(a, DELTA, lead),
                       -1};
  if (mask) operands[6] = wide(a, tc_lo_arg(a, MASK), r, lead, q->sizes[r - 2], k->sizes[r - 2]);
  tc_int attrs[3];
  attributes(a, SCALE, CAUSAL, mask, attrs);
  tc_lo_result(a, 0, tc_lo_template(a, name, mask ? 7 : 6, operands, y->dtype, r, y->sizes, 3, attrs));
  return TC_STATUS_OK;
}
static int32_t query_lower(tc_op_args *a) { return lower_backward(a, "attention_backward_query"); }
static int32_t pair_lower(tc_op_args *a) { return lower_backward(a, "attention_backward_pair"); }

// s: the scores; p: the shares, with rows without any key at 0; ds: the scores' derivative.
#define SCORES                                                                                                 \
  "let w = wide(query.dtype); let q = to(query, w); let k = to(key, w); let a = mul(matmul(q, mT(k)), scale);" \
  "let b = if(is_none(attn_mask), a, if(is_int(attn_mask), where(attn_mask, a, -inf), add(a, attn_mask)));"    \
  "let s = if(is_causal, where(ge(unsqueeze(arange(query.size(-2)), 1), arange(key.size(-2))), b, -inf), b);"
#define SHARES                                                                                                \
  SCORES "let p = exp(sub(s, unsqueeze(where(eq(logsumexp, -inf), 0, logsumexp), -1))); let g = to(grad, w);" \
         "let ds = mul(p, sub(matmul(g, mT(to(value, w))), unsqueeze(delta, -1)));"
#define BACKWARD                                                                                                   \
  "(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor logsumexp, Tensor delta, Tensor? attn_mask, bool " \
  "is_causal, float scale) -> Tensor"
#define BACK(what) "_attention_backward_" what "(grad, query, key, value, result1, delta, attn_mask, is_causal, scale)"
static const tc_op_def rows[] = {
    {.schema = "_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool is_causal, float scale) -> "
               "(Tensor, Tensor)",
     .decompose =
         "if(query.rank == key.rank && query.rank == value.rank, scaled_dot_product_attention(query, key, value, "
         "attn_mask, 0.0, is_causal, scale=scale), fail(\"query, key and value have to be of one rank\")), "
         "_attention_logsumexp(query, key, attn_mask, is_causal, scale)",
     .lower = attention_lower,
     .flops = "4 * query.numel * key.size(-2) + 2 * numel * key.size(-2)",
     // delta is the mean of what flows to a query's shares; several values that see the same shares share grad1.
     .grad = "let w = wide(query.dtype); let mean = sum(mul(to(grad, w), to(result, w)), [-1]);"
             "let delta = sub(mean, if(mean.sizes == grad1.sizes, grad1, div(grad1, mean.numel // grad1.numel)));"
             "let pair = " BACK("pair") "; let logsumexp = result1;" SHARES "query: " BACK(
                 "query") "; key: contiguous(slice(pair, -1, 0, query.size(-1))); value: contiguous(slice(pair, -1, "
                          "query.size(-1))); "
                          "attn_mask: ds"},
    {.schema = "_attention_logsumexp(Tensor query, Tensor key, Tensor? attn_mask, bool is_causal, float scale) -> "
               "Tensor",
     .meta = logsumexp_meta,
     .decompose = SCORES "if(key.size(-2) == 0, sub(sum(s, [-1]), inf), logsumexp(s, [-1]))",
     .lower = logsumexp_lower,
     .flops = "2 * query.numel * key.size(-2)"},
    {.schema = "_attention_backward_query" BACKWARD,
     .meta = query_meta,
     .decompose = SHARES "to(mul(matmul(ds, k), scale), query.dtype)",
     .lower = query_lower,
     .flops = "(4 * query.numel + 2 * grad.numel) * key.size(-2)"},
    {.schema = "_attention_backward_pair" BACKWARD,
     .meta = pair_meta,
     .decompose = SHARES "to(cat([mul(matmul(mT(ds), q), scale), matmul(mT(p), g)], -1), query.dtype)",
     .lower = pair_lower,
     .flops = "4 * numel * query.size(-2)"},
};
TC_OP_FAMILY(attention_backward);
