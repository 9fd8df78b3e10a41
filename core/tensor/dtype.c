// Data types: the tables made from TC_DTYPE_LIST, and the 16-bit floating formats.
//
// Narrowing rounds once, to nearest even, straight from the double's bits (IEEE 754-2019 §4.3.1); float sources widen
// exactly first, so there is one rounding routine for both formats and both source types.
#include <float.h>
#include <string.h>

#include "core/tensor/tensor.h"

typedef struct dtype_row {
  const char *name, *torch;
  int32_t size;
  char cls;
} dtype_row;

static const dtype_row rows[TC_DTYPE_COUNT] = {[TC_DTYPE_NONE] = {"none", "none", 0, '?'},
#define X(id, number, text, bytes, cls, torch) [TC_##id] = {text, torch, bytes, cls},
                                               TC_DTYPE_LIST(X)
#undef X
};

static const dtype_row *row_of(tc_dtype d) { return &rows[d > 0 && d < TC_DTYPE_COUNT ? d : TC_DTYPE_NONE]; }

int32_t tc_dtype_size(tc_dtype d) { return row_of(d)->size; }
int32_t tc_dtype_align(tc_dtype d) { return row_of(d)->size / (tc_dtype_is_complex(d) ? 2 : 1); }
const char *tc_dtype_name(tc_dtype d) { return row_of(d)->name; }
const char *tc_dtype_torch_name(tc_dtype d) { return row_of(d)->torch; }
char tc_dtype_class(tc_dtype d) { return row_of(d)->cls; }

tc_dtype tc_dtype_parse(tc_sv name) {
  for (tc_dtype d = 1; d < TC_DTYPE_COUNT; d++)
    if (tc_sv_is(name, rows[d].name)) return d;
  return TC_DTYPE_NONE;
}

tc_dtype tc_dtype_real(tc_dtype d) {
  switch (d) {
  case TC_C32: return TC_F16;
  case TC_BC32: return TC_BF16;
  case TC_C64: return TC_F32;
  case TC_C128: return TC_F64;
  default: return d;
  }
}

double tc_dtype_largest(tc_dtype d) {
  switch (tc_dtype_real(d)) {
  case TC_F64: return DBL_MAX;
  case TC_F32: return FLT_MAX;
  case TC_BF16: return 0x1.fep127;
  case TC_F16: return 65504;
  default: return 0;
  }
}

double tc_dtype_epsilon(tc_dtype d) {
  switch (tc_dtype_real(d)) {
  case TC_F64: return DBL_EPSILON;
  case TC_F32: return FLT_EPSILON;
  case TC_BF16: return 0x1p-7;
  case TC_F16: return 0x1p-10;
  default: return 0;
  }
}

tc_dtype tc_dtype_complex(tc_dtype d) {
  switch (d) {
  case TC_F16: return TC_C32;
  case TC_BF16: return TC_BC32;
  case TC_F32: return TC_C64;
  case TC_F64: return TC_C128;
  default: return tc_dtype_class(d) == 'c' ? d : TC_DTYPE_NONE;
  }
}

// A double's value in a 16-bit format of `mant` stored mantissa bits (the rest but the sign is exponent). NaNs keep
// their sign and upper payload bits and become quiet.
static uint16_t narrow(double value, int mant) {
  const int exp_bits = 15 - mant, bias = (1 << (exp_bits - 1)) - 1;
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint16_t sign = (uint16_t)(bits >> 63 << 15);
  const uint16_t inf = (uint16_t)(((1u << exp_bits) - 1u) << mant);
  const int exp = (int)(bits >> 52 & 0x7ff);
  uint64_t frac = bits & ((1ull << 52) - 1);
  if (exp == 0x7ff) {
    if (frac == 0) return (uint16_t)(sign | inf);
    return (uint16_t)(sign | inf | 1u << (mant - 1) | (uint16_t)(frac >> (52 - mant)));
  }
  if (exp == 0) return sign; // zero, and subnormal doubles lie far below half of the smallest result
  int e = exp - 1023 + bias;
  int drop = 52 - mant; // bits rounded away
  uint64_t m = frac | 1ull << 52;
  if (e <= 0) { // subnormal result: the mantissa is shifted further and the exponent field is 0
    drop += 1 - e;
    e = 0;
    if (drop > 54) return sign;
  }
  const uint64_t half = 1ull << (drop - 1), rest = m & (half * 2 - 1);
  m >>= drop;
  m += rest > half || (rest == half && (m & 1));
  // A normal result holds its leading one in m; adding it to the field below carries into the exponent, as does a
  // mantissa that rounded up to the next power of two, and a subnormal that rounded up to the smallest normal.
  const uint64_t field = ((uint64_t)(e > 0 ? e - 1 : 0) << mant) + m;
  return (uint16_t)(sign | (field >= inf ? inf : field));
}

uint16_t tc_f64_to_f16(double f) { return narrow(f, 10); }
uint16_t tc_f32_to_f16(float f) { return narrow((double)f, 10); }

uint16_t tc_f32_to_bf16(float f) { // the format is a prefix of f32's: weights come through here in bulk
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// What is a single-precision number, as most that come here are, takes the short way.
uint16_t tc_f64_to_bf16(double f) { return (double)(float)f == f ? tc_f32_to_bf16((float)f) : narrow(f, 7); }

float tc_bf16_to_f32(uint16_t h) {
  const uint32_t bits = (uint32_t)h << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

float tc_f16_to_f32(uint16_t h) {
  const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exp = h >> 10 & 0x1fu, frac = h & 0x3ffu;
  uint32_t bits;
  if (exp == 0) { // zero and subnormals: frac * 2^-24, exact in f32
    const float tiny = (float)frac * 0x1p-24f;
    memcpy(&bits, &tiny, sizeof bits);
  } else if (exp == 31) {
    bits = 0x7f800000u | frac << 13;
  } else {
    bits = (exp + 112u) << 23 | frac << 13;
  }
  bits |= sign;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}
