// PyTorch's type promotion.
//
// Source: the tables of c10/core/ScalarType.h and the rules of ATen's result_type: operands fall into tensors with
// dimensions, rank-0 tensors and Python numbers; a lower category changes the result only if it is of a higher class
// (bool < integer < float < complex). Python floats count as f32, Python complex numbers as c64.
// bcomplex32 is not PyTorch's: it behaves as the pair of bf16 that it is.
#include "core/ir/opargs.h"

// Order within floats and within signed integers is the order of the dtype numbers, but f16 with bf16 gives f32.
static tc_dtype promote_floats(tc_dtype a, tc_dtype b) {
  if (a == b) return a;
  if (a + b == TC_F16 + TC_BF16 && a != b && a <= TC_BF16 && b <= TC_BF16) return TC_F32;
  return a > b ? a : b;
}

static tc_dtype promote_ints(tc_dtype a, tc_dtype b) {
  if (a == b) return a;
  if (a >= TC_U16 || b >= TC_U16) return TC_DTYPE_NONE; // PyTorch refuses u16, u32, u64 with other integers
  if (a == TC_U8 || b == TC_U8) return (a == TC_U8 ? b : a) == TC_I8 ? TC_I16 : (a == TC_U8 ? b : a);
  return a > b ? a : b;
}

tc_dtype tc_promote_types(tc_dtype a, tc_dtype b) {
  if (a == b || b == TC_DTYPE_NONE) return a;
  if (a == TC_DTYPE_NONE || a == TC_BOOL) return b;
  if (b == TC_BOOL) return a;
  bool complex = tc_dtype_is_complex(a) || tc_dtype_is_complex(b);
  tc_dtype x = tc_dtype_real(a), y = tc_dtype_real(b), r;
  bool fx = tc_dtype_is_float(x), fy = tc_dtype_is_float(y);
  if (fx && fy) r = promote_floats(x, y);
  else if (fx || fy) r = fx ? x : y;
  else r = promote_ints(x, y);
  if (r == TC_DTYPE_NONE || !complex) return r;
  // A bf16 tensor with a complex one: PyTorch knows no pair of bf16 and takes c64, unless the pair is already there.
  if (r == TC_BF16 && a != TC_BC32 && b != TC_BC32) return TC_C64;
  return tc_dtype_complex(r);
}

void tc_promotion_add(tc_promotion *p, const tc_tensor_type *t) {
  tc_dtype d = t->dtype, *slot = t->wrapped ? &p->wrapped : t->rank > 0 ? &p->dim : &p->zero;
  if (t->wrapped && tc_dtype_is_complex(d)) d = TC_C64;
  else if (t->wrapped && tc_dtype_is_float(d)) d = TC_F32;
  tc_dtype r = tc_promote_types(*slot, d);
  if (r == TC_DTYPE_NONE) p->bad = true;
  *slot = r;
}

static tc_dtype combine(tc_promotion *p, tc_dtype higher, tc_dtype lower) {
  if (tc_dtype_is_complex(higher)) return higher;
  if (tc_dtype_is_float(higher)) {
    if (!tc_dtype_is_complex(lower)) return higher;
    return higher == TC_BF16 ? TC_C64 : tc_dtype_complex(higher);
  }
  if (higher == TC_BOOL || higher == TC_DTYPE_NONE || tc_dtype_is_float(lower) || tc_dtype_is_complex(lower)) {
    tc_dtype r = tc_promote_types(higher, lower);
    if (r == TC_DTYPE_NONE && (higher || lower)) p->bad = true;
    return r;
  }
  return higher;
}

tc_dtype tc_promotion_result(const tc_promotion *p) {
  tc_promotion q = *p;
  tc_dtype r = combine(&q, q.dim, combine(&q, q.zero, q.wrapped));
  return q.bad ? TC_DTYPE_NONE : r;
}
