// Copies between strided tensors with conversion.
//
// Dimensions of size 1 are dropped, the rest sorted so that the destination is walked in memory order, and neighbours
// merged where both sides allow; then the innermost dimension goes row by row: moved as bytes when the dtypes agree and
// no lazy bit differs, else through wide values (element.h). Overlapping source and destination give unspecified
// values.
#include <string.h>

#include "core/tensor/element.h"

enum { ROW = 256 }; // elements per pass through wide values: small enough for the stack and the first cache

typedef struct walk {
  int32_t rank;
  int64_t sizes[TC_MAX_RANK], to[TC_MAX_RANK], from[TC_MAX_RANK]; // strides in bytes
} walk;

static int64_t magnitude(int64_t v) { return v < 0 ? -v : v; }

static void make_walk(const tc_tensor *src, const tc_tensor *dst, walk *w) {
  w->rank = 0;
  for (int32_t i = 0; i < src->rank; i++) {
    if (src->sizes[i] == 1) continue;
    const int64_t to = dst->strides[i] * tc_dtype_size(dst->dtype), from = src->strides[i] * tc_dtype_size(src->dtype);
    int32_t at = w->rank++;
    while (at > 0 && magnitude(w->to[at - 1]) < magnitude(to)) { // insertion keeps equal strides in order
      w->sizes[at] = w->sizes[at - 1], w->to[at] = w->to[at - 1], w->from[at] = w->from[at - 1];
      at--;
    }
    w->sizes[at] = src->sizes[i], w->to[at] = to, w->from[at] = from;
  }
  int32_t kept = 0;
  for (int32_t i = 1; i < w->rank; i++) {
    if (w->to[kept] == w->sizes[i] * w->to[i] && w->from[kept] == w->sizes[i] * w->from[i]) {
      w->sizes[kept] *= w->sizes[i];
    } else {
      kept++;
      w->sizes[kept] = w->sizes[i];
    }
    w->to[kept] = w->to[i], w->from[kept] = w->from[i];
  }
  if (w->rank > 0) {
    w->rank = kept + 1;
  } else { // one element
    w->rank = 1, w->sizes[0] = 1, w->to[0] = 0, w->from[0] = 0;
  }
}

#define MOVE(type)                                                    \
  for (int64_t k = 0; k < n; k++, to += to_step, from += from_step) { \
    type v;                                                           \
    memcpy(&v, from, sizeof v);                                       \
    memcpy(to, &v, sizeof v);                                         \
  }                                                                   \
  break

typedef struct wide_pair {
  uint64_t lo, hi;
} wide_pair;

static void move_row(uint8_t *to, int64_t to_step, const uint8_t *from, int64_t from_step, int64_t n, int32_t item) {
  if (to_step == item && from_step == item) {
    memmove(to, from, (size_t)n * (size_t)item);
    return;
  }
  switch (item) {
  case 1: MOVE(uint8_t);
  case 2: MOVE(uint16_t);
  case 4: MOVE(uint32_t);
  case 8: MOVE(uint64_t);
  default: MOVE(wide_pair);
  }
}

typedef struct conversion {
  tc_dtype from, to;
  bool conj_in, neg_in, conj_out, neg_out; // bits of the source, and of the destination
} conversion;

static void convert_row(const conversion *c, uint8_t *to, int64_t to_step, const uint8_t *from, int64_t from_step,
                        int64_t n) {
  double re[ROW], im[ROW];
  int64_t ints[ROW];
  // Integers have theirs undone while they are integers: unsigned negation wraps at the source's width.
  const bool negate = (c->neg_in && !tc_dtype_is_wide_int(c->from)) != c->neg_out;
  for (int64_t at = 0; at < n; at += ROW) {
    const int32_t m = (int32_t)(n - at < ROW ? n - at : ROW);
    uint8_t *p = to + at * to_step;
    if (tc_dtype_is_wide_int(c->from)) {
      const bool to_int = tc_dtype_is_wide_int(c->to);
      tc_row_load_ints(c->from, from + at * from_step, from_step, m, ints);
      for (int32_t k = 0; c->neg_in && k < m; k++) ints[k] = tc_wide_negate(c->from, ints[k]);
      for (int32_t k = 0; c->neg_out && to_int && k < m; k++) ints[k] = tc_wide_negate(c->to, ints[k]);
      if (to_int || (!c->neg_out && !c->conj_out)) {
        tc_row_store_ints(c->to, p, to_step, m, ints, c->from == TC_U64);
        continue;
      }
      for (int32_t k = 0; k < m; k++) {
        re[k] = c->from == TC_U64 ? (double)(uint64_t)ints[k] : (double)ints[k];
        im[k] = 0;
      }
    } else {
      tc_row_load_floats(c->from, from + at * from_step, from_step, m, re, im);
    }
    for (int32_t k = 0; k < m; k++) { // lazy bits: undo the source's, apply the destination's
      if (c->conj_in != c->conj_out) im[k] = -im[k];
      if (negate) re[k] = -re[k], im[k] = -im[k];
    }
    tc_row_store_floats(c->to, p, to_step, m, re, im);
  }
}

static tc_status check_same_sizes(const tc_tensor *src, const tc_tensor *dst) {
  if (src->rank != dst->rank)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "copying a tensor of rank %d into one of rank %d", (int)src->rank,
                    (int)dst->rank);
  for (int32_t i = 0; i < src->rank; i++)
    if (src->sizes[i] != dst->sizes[i])
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "copying size %lld into size %lld in dimension %d",
                      (long long)src->sizes[i], (long long)dst->sizes[i], (int)i);
  if (src->storage->device != 0 || dst->storage->device != 0)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "a host copy of a tensor that lies on a device");
  return TC_OK;
}

tc_status tc_tensor_copy(const tc_tensor *src, const tc_tensor *dst) {
  TC_TRY(check_same_sizes(src, dst));
  const int64_t numel = tc_tensor_numel(src);
  if (numel == 0) return TC_OK;
  if (numel == INT64_MAX) return tc_error(TC_STATUS_OUT_OF_RANGE, "a copy of more than 2^63 elements");
  walk w;
  make_walk(src, dst, &w);
  // A lazy bit without meaning for its dtype (conj of a real tensor) is ignored; an integer destination's neg bit
  // negates the integer.
  const conversion c = {.from = src->dtype,
                        .to = dst->dtype,
                        .conj_in = src->conj && tc_dtype_is_complex(src->dtype),
                        .neg_in = src->neg && src->dtype != TC_BOOL,
                        .conj_out = dst->conj && tc_dtype_is_complex(dst->dtype),
                        .neg_out = dst->neg && dst->dtype != TC_BOOL};
  const bool plain = c.from == c.to && c.conj_in == c.conj_out && c.neg_in == c.neg_out;
  const int32_t last = w.rank - 1, item = tc_dtype_size(dst->dtype);
  int64_t index[TC_MAX_RANK] = {0};
  uint8_t *to = tc_tensor_data(dst);
  const uint8_t *from = tc_tensor_data(src);
  for (;;) {
    if (plain) move_row(to, w.to[last], from, w.from[last], w.sizes[last], item);
    else convert_row(&c, to, w.to[last], from, w.from[last], w.sizes[last]);
    int32_t i = last - 1;
    for (; i >= 0; i--) {
      to += w.to[i], from += w.from[i];
      if (++index[i] < w.sizes[i]) break;
      to -= w.to[i] * w.sizes[i], from -= w.from[i] * w.sizes[i];
      index[i] = 0;
    }
    if (i < 0) return TC_OK;
  }
}
