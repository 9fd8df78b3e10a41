// Views on the tape: what a write through one of the handles of a memory means for the others (tape.h).
//
// Views know their base, the handle whose memory they look at; the base has none. What is written into a part makes the
// base the result of strided_put over what it was and the part. A view whose memory was written since it got its
// place on the tape is taken from its base again, by as_strided, when it is next used. Both are put on the tape only:
// the memory is as it is.
//
// Strides count elements of a row-major base. One that lies otherwise is permuted first; a real view of a complex base,
// or the other way round, goes by the view of all of the base in that dtype.
#include <string.h>

#include "core/api/tape.h"

static tc_status call(tc_context *c, const char *op, int32_t n, const tc_argument *args, tc_tensor **out) {
  if (tc_call_op(c, op, n, args, 1, out, NULL) == TC_STATUS_OK) return TC_OK;
  return tc_error(tc_last_code(), "%s", tc_last_error());
}

static tc_argument tensor(tc_tensor *t) { return (tc_argument){.kind = TC_ARGUMENT_TENSOR, .v.tensor = t}; }
static tc_argument integers(int32_t n, const int64_t *v) {
  return (tc_argument){.kind = TC_ARGUMENT_INTS, .n = n, .v.integers = v};
}

static tc_status unary(tc_context *c, const char *op, tc_tensor *t, tc_tensor **out) {
  tc_argument arg = tensor(t);
  return call(c, op, 1, &arg, out);
}

// The dimensions of the base from the slowest on.
static bool slowest_first(const tc_tensor *base, int64_t *order) {
  bool sorted = true;
  for (int32_t i = 0; i < base->rank; i++) {
    int32_t k = i;
    for (; k > 0 && base->strides[order[k - 1]] < base->strides[i]; k--) order[k] = order[k - 1], sorted = false;
    order[k] = i;
  }
  return sorted;
}

// All of the base as the elements that the view's strides count.
static tc_status opened(tc_context *c, tc_tensor *base, const tc_tensor *view, tc_tensor **out) {
  int64_t order[TC_MAX_RANK], pairs[] = {-1, 2};
  *out = base;
  if (!tc_tensor_is_contiguous(base)) {
    slowest_first(base, order);
    tc_argument args[] = {tensor(base), integers(base->rank, order)};
    TC_TRY(call(c, "aten::permute", 2, args, out));
  }
  if (!tc_tensor_is_contiguous(*out) || base->offset || base->conj || base->neg || view->neg)
    return tc_error(TC_STATUS_UNIMPLEMENTED, "gradients do not flow through writing into a part of a tensor with gaps");
  if (base->dtype == view->dtype) return TC_OK;
  if (tc_dtype_real(base->dtype) == view->dtype) return unary(c, "aten::view_as_real", *out, out);
  if (tc_dtype_real(view->dtype) != base->dtype)
    return tc_error(TC_STATUS_UNIMPLEMENTED, "gradients do not flow through writing into the bits of another dtype");
  tc_argument args[] = {tensor(*out), integers(2, pairs)};
  TC_TRY(call(c, "aten::view", 2, args, out));
  return unary(c, "aten::view_as_complex", *out, out);
}

// The base again.
static tc_status closed(tc_context *c, const tc_tensor *base, const tc_tensor *view, tc_tensor *t, tc_tensor **out) {
  int64_t order[TC_MAX_RANK], inverse[TC_MAX_RANK], sizes[TC_MAX_RANK];
  bool sorted = tc_tensor_is_contiguous(base);
  slowest_first(base, order);
  for (int32_t i = 0; i < base->rank; i++) {
    int64_t d = sorted ? i : order[i];
    inverse[d] = i, sizes[i] = base->sizes[d];
  }
  *out = t;
  if (tc_dtype_real(base->dtype) == view->dtype && base->dtype != view->dtype)
    TC_TRY(unary(c, "aten::view_as_complex", t, out));
  if (tc_dtype_real(view->dtype) == base->dtype && base->dtype != view->dtype) {
    TC_TRY(unary(c, "aten::view_as_real", t, out));
    tc_argument args[] = {tensor(*out), integers(base->rank, sizes)};
    TC_TRY(call(c, "aten::view", 2, args, out));
  }
  if (sorted) return TC_OK;
  tc_argument args[] = {tensor(*out), integers(base->rank, inverse)};
  return call(c, "aten::permute", 2, args, out);
}

static bool same_place(const tc_tensor *a, const tc_tensor *b) {
  bool same = a->dtype == b->dtype && a->rank == b->rank && a->offset == b->offset && a->conj == b->conj;
  for (int32_t d = 0; same && d < a->rank; d++) same = a->sizes[d] == b->sizes[d] && a->strides[d] == b->strides[d];
  return same;
}

static tc_status taken_again(tc_tensor *t) {
  tc_context *c = api_of(t)->context;
  tc_tensor *all, *view;
  TC_TRY(opened(c, api_of(t)->base, t, &all));
  tc_argument args[] = {tensor(all), integers(t->rank, t->sizes), integers(t->rank, t->strides),
                        tc_scalar_int(t->offset)};
  TC_TRY(call(c, "aten::as_strided", 4, args, &view));
  if (t->conj) TC_TRY(unary(c, "aten::_conj", view, &view));
  api_tape_place(t, api_of(view)->node, api_of(view)->output);
  return TC_OK;
}

static tc_status put_back(tc_tensor *t) {
  tc_context *c = api_of(t)->context;
  tc_tensor *base = api_of(t)->base, *all, *part = t, *whole;
  api_of(base)->seen = api_tape_version(base); // what it has become is being said
  TC_TRY(opened(c, base, t, &all));
  if (t->conj) TC_TRY(unary(c, "aten::_conj", t, &part));
  tc_argument args[] = {tensor(all), tensor(part), integers(t->rank, t->sizes), integers(t->rank, t->strides),
                        tc_scalar_int(t->offset)};
  TC_TRY(api_tape_note(c, "tc::strided_put", 5, args, all, &whole));
  if (whole) TC_TRY(closed(c, base, t, whole, &whole));
  api_tape_place(base, whole ? api_of(whole)->node : NULL, whole ? api_of(whole)->output : 0);
  return TC_OK;
}

// On the tape, whether or not the thread records.
static tc_status taped(tc_status (*f)(tc_tensor *t), tc_tensor *t) {
  bool *enabled = api_grad_enabled(), before = *enabled;
  tc_scope *scope = tc_scope_open();
  *enabled = true;
  tc_status s = scope ? f(t) : tc_error_out_of_memory();
  *enabled = before;
  tc_scope_close(scope);
  return s;
}

tc_status api_tape_freshen(tc_tensor *t) {
  api_tensor *x = api_of(t);
  if (x->leaf || x->seen == api_tape_version(t)) return TC_OK;
  if (!x->base && x->node)
    return tc_error(TC_STATUS_INVALID_ARGUMENT,
                    "the memory of a tensor that gradients flow to was written where they do not follow: through a "
                    "detached tensor, or with gradients off");
  if (!x->base) return TC_OK;
  TC_TRY(api_tape_freshen(x->base));
  if (api_of(x->base)->leaf || api_of(x->base)->node) return taped(taken_again, t);
  api_tape_place(t, NULL, 0);
  return TC_OK;
}

tc_status api_tape_written(tc_tensor *t) {
  const api_tensor *x = api_of(t);
  if (!x->base || (!x->node && !api_of(x->base)->node)) return TC_OK;
  if (!same_place(t, x->base)) return taped(put_back, t);
  api_tape_place(x->base, x->node, x->output);
  return TC_OK;
}
