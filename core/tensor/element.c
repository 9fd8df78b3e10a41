// Loading and storing rows of elements as wide values; single elements are rows of one.
//
// Conversions are those of C, as PyTorch has them: integers keep their low bits, floats truncate through int32 (int64
// for what has more bits), and what does not fit gives the smallest number there, like x86's conversion; bool is "not
// zero"; complex to real keeps the real part. 16-bit floats take integers through f32.
#include "core/tensor/element.h"

#include <string.h>

static int64_t to_int(double v) { return tc_float_to_int(TC_I64, v); }

int64_t tc_float_to_int(tc_dtype to, double v) {
  bool small = to == TC_I32 || to == TC_I16 || to == TC_I8 || to == TC_U8 || to == TC_U16;
  if (small) return v > -0x1p31 - 1 && v < 0x1p31 ? (int64_t)v : INT32_MIN;
  if (to == TC_U64 && v >= 0x1p63 && v < 0x1p64) return (int64_t)(uint64_t)v;
  return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
}

// LOOP runs `body` with `p` at each element.
#define LOOP(type, body)                       \
  for (int32_t k = 0; k < n; k++, p += step) { \
    type v;                                    \
    body;                                      \
  }                                            \
  break

#define LOAD(type, expr) LOOP(type, memcpy(&v, p, sizeof v); out[k] = (expr))

void tc_row_load_ints(tc_dtype d, const void *data, int64_t step, int32_t n, int64_t *out) {
  const uint8_t *p = data;
  switch (d) {
  case TC_BOOL: LOAD(uint8_t, v != 0);
  case TC_U8: LOAD(uint8_t, v);
  case TC_I8: LOAD(int8_t, v);
  case TC_I16: LOAD(int16_t, v);
  case TC_U16: LOAD(uint16_t, v);
  case TC_I32: LOAD(int32_t, v);
  case TC_U32: LOAD(uint32_t, v);
  case TC_I64: LOAD(int64_t, v);
  case TC_U64: LOAD(int64_t, v);
  default: break;
  }
}

#define LOAD_REAL(type, expr) LOOP(type, memcpy(&v, p, sizeof v); re[k] = (double)(expr); im[k] = 0)
#define LOAD_PAIR(type, get)                   \
  for (int32_t k = 0; k < n; k++, p += step) { \
    type v[2];                                 \
    memcpy(v, p, sizeof v);                    \
    re[k] = (double)get(v[0]);                 \
    im[k] = (double)get(v[1]);                 \
  }                                            \
  break

void tc_row_load_floats(tc_dtype d, const void *data, int64_t step, int32_t n, double *re, double *im) {
  const uint8_t *p = data;
  switch (d) {
  case TC_F16: LOAD_REAL(uint16_t, tc_f16_to_f32(v));
  case TC_BF16: LOAD_REAL(uint16_t, tc_bf16_to_f32(v));
  case TC_F32: LOAD_REAL(float, v);
  case TC_F64: LOAD_REAL(double, v);
  case TC_C32: LOAD_PAIR(uint16_t, tc_f16_to_f32);
  case TC_BC32: LOAD_PAIR(uint16_t, tc_bf16_to_f32);
  case TC_C64: LOAD_PAIR(float, );
  case TC_C128: LOAD_PAIR(double, );
  default: break;
  }
}

#define STORE(type, expr) LOOP(type, v = (expr); memcpy(p, &v, sizeof v))
#define STORE_PAIR(type, first, second)        \
  for (int32_t k = 0; k < n; k++, p += step) { \
    const type v[2] = {(first), (second)};     \
    memcpy(p, v, sizeof v);                    \
  }                                            \
  break

void tc_row_store_ints(tc_dtype d, void *data, int64_t step, int32_t n, const int64_t *values, bool is_u64) {
  uint8_t *p = data;
#define AS(type) (is_u64 ? (type)(uint64_t)values[k] : (type)values[k])
  switch (d) {
  case TC_BOOL: STORE(uint8_t, values[k] != 0);
  case TC_U8:
  case TC_I8: STORE(uint8_t, (uint8_t)values[k]);
  case TC_I16:
  case TC_U16: STORE(uint16_t, (uint16_t)values[k]);
  case TC_I32:
  case TC_U32: STORE(uint32_t, (uint32_t)values[k]);
  case TC_I64:
  case TC_U64: STORE(int64_t, values[k]);
  case TC_F16: STORE(uint16_t, tc_f32_to_f16(AS(float)));
  case TC_BF16: STORE(uint16_t, tc_f32_to_bf16(AS(float)));
  case TC_F32: STORE(float, AS(float));
  case TC_F64: STORE(double, AS(double));
  case TC_C32: STORE_PAIR(uint16_t, tc_f32_to_f16(AS(float)), 0);
  case TC_BC32: STORE_PAIR(uint16_t, tc_f32_to_bf16(AS(float)), 0);
  case TC_C64: STORE_PAIR(float, AS(float), 0);
  case TC_C128: STORE_PAIR(double, AS(double), 0);
  default: break;
  }
#undef AS
}

void tc_row_store_floats(tc_dtype d, void *data, int64_t step, int32_t n, const double *re, const double *im) {
  uint8_t *p = data;
  switch (d) {
  case TC_BOOL: STORE(uint8_t, re[k] != 0 || im[k] != 0);
  case TC_U8:
  case TC_I8: STORE(uint8_t, (uint8_t)tc_float_to_int(d, re[k]));
  case TC_I16:
  case TC_U16: STORE(uint16_t, (uint16_t)tc_float_to_int(d, re[k]));
  case TC_I32:
  case TC_U32: STORE(uint32_t, (uint32_t)tc_float_to_int(d, re[k]));
  case TC_I64: STORE(int64_t, to_int(re[k]));
  case TC_U64: STORE(uint64_t, (uint64_t)tc_float_to_int(d, re[k]));
  case TC_F16: STORE(uint16_t, tc_f64_to_f16(re[k]));
  case TC_BF16: STORE(uint16_t, tc_f64_to_bf16(re[k]));
  case TC_F32: STORE(float, (float)re[k]);
  case TC_F64: STORE(double, re[k]);
  case TC_C32: STORE_PAIR(uint16_t, tc_f64_to_f16(re[k]), tc_f64_to_f16(im[k]));
  case TC_BC32: STORE_PAIR(uint16_t, tc_f64_to_bf16(re[k]), tc_f64_to_bf16(im[k]));
  case TC_C64: STORE_PAIR(float, (float)re[k], (float)im[k]);
  case TC_C128: STORE_PAIR(double, re[k], im[k]);
  default: break;
  }
}

int64_t tc_wide_negate(tc_dtype d, int64_t v) {
  const int64_t n = (int64_t)(0u - (uint64_t)v);
  switch (d) {
  case TC_U8: return (uint8_t)n;
  case TC_I8: return (int8_t)n;
  case TC_I16: return (int16_t)n;
  case TC_U16: return (uint16_t)n;
  case TC_I32: return (int32_t)n;
  case TC_U32: return (uint32_t)n;
  default: return n;
  }
}

// Lazy bits of one element.
static void resolve(const tc_tensor *t, double *re, double *im) {
  if (t->conj) *im = -*im;
  if (t->neg) *re = -*re, *im = -*im;
}

void tc_tensor_get(const tc_tensor *t, const int64_t *index, double *re, double *im) {
  double r = 0, i = 0;
  if (tc_dtype_is_wide_int(t->dtype)) {
    const int64_t v = tc_tensor_get_int(t, index);
    r = t->dtype == TC_U64 ? (double)(uint64_t)v : (double)v;
  } else {
    tc_row_load_floats(t->dtype, tc_tensor_at(t, index), 0, 1, &r, &i);
    resolve(t, &r, &i);
  }
  if (re) *re = r;
  if (im) *im = i;
}

int64_t tc_tensor_get_int(const tc_tensor *t, const int64_t *index) {
  int64_t v = 0;
  if (!tc_dtype_is_wide_int(t->dtype)) {
    double re, im;
    tc_tensor_get(t, index, &re, &im);
    return to_int(re);
  }
  tc_row_load_ints(t->dtype, tc_tensor_at(t, index), 0, 1, &v);
  return t->neg && t->dtype != TC_BOOL ? tc_wide_negate(t->dtype, v) : v;
}
