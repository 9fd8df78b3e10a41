// Numbers as kernels mean them (tc/kernel.h): integers wrap, floats are IEEE 754, each operation rounded once in its
// own type; 16-bit floats are only stored.
#include <math.h>
#include <string.h>

#include "template.h"

enum { F16_MANTISSA = 10, F16_BIAS = 15, BF16_MANTISSA = 7, BF16_BIAS = 127 };

int32_t number_is_float(tc_dtype t) { return t == TC_F16 || t == TC_BF16 || t == TC_F32 || t == TC_F64; }
static int32_t is_unsigned(tc_dtype t) {
  return t == TC_BOOL || t == TC_U8 || t == TC_U16 || t == TC_U32 || t == TC_U64;
}

int32_t number_bytes(tc_dtype t) {
#define X(name, number, text, bytes, cls, torch) [TC_##name] = bytes,
  static const int32_t sizes[TC_DTYPE_COUNT] = {TC_DTYPE_LIST(X)};
#undef X
  return sizes[t];
}

static int64_t wrap(tc_dtype t, int64_t v) {
  switch (t) {
  case TC_BOOL: return v != 0;
  case TC_U8: return (uint8_t)v;
  case TC_I8: return (int8_t)(uint8_t)v;
  case TC_U16: return (uint16_t)v;
  case TC_I16: return (int16_t)(uint16_t)v;
  case TC_U32: return (uint32_t)v;
  case TC_I32: return (int32_t)(uint32_t)v;
  default: return v;
  }
}

// ---- 16-bit floats: a sign, an exponent, a mantissa; subnormal numbers have the smallest exponent ----
static double widen(uint16_t bits, int32_t mantissa, int32_t bias) {
  int32_t m = bits & ((1 << mantissa) - 1), e = (bits & 0x7fff) >> mantissa;
  double a = e == 2 * bias + 1 ? (m ? NAN : INFINITY)
             : e               ? ldexp(m + (1 << mantissa), e - bias - mantissa)
                               : ldexp(m, 1 - bias - mantissa);
  return bits & 0x8000 ? -a : a;
}

static uint16_t narrow(double v, int32_t mantissa, int32_t bias) {
  const int64_t infinity = (int64_t)(2 * bias + 1) << mantissa;
  uint16_t sign = signbit(v) ? 0x8000 : 0;
  double a = fabs(v);
  if (v != v) return (uint16_t)(sign | infinity | 1 << (mantissa - 1));
  if (a >= ldexp(1, bias + 1)) return (uint16_t)(sign | infinity);
  int32_t e = a < ldexp(1, 1 - bias) ? 1 - bias : ilogb(a);
  // The leading bit of `rint` counts as one of the exponent, and a carry goes there by itself.
  int64_t bits = (int64_t)rint(ldexp(a, mantissa - e)) + ((int64_t)(e + bias - 1) << mantissa);
  return (uint16_t)(sign | (bits < infinity ? bits : infinity));
}

// ---- Memory ----
number number_read(tc_dtype t, const void *at) {
  number v = {.i = 0};
  float f;
  uint16_t h;
  switch (t) {
  case TC_F64: memcpy(&v.f, at, 8); return v;
  case TC_F32: memcpy(&f, at, 4), v.f = f; return v;
  case TC_F16: memcpy(&h, at, 2), v.f = widen(h, F16_MANTISSA, F16_BIAS); return v;
  case TC_BF16: memcpy(&h, at, 2), v.f = widen(h, BF16_MANTISSA, BF16_BIAS); return v;
  default:
    memcpy(&v.i, at, (size_t)number_bytes(t)); // little-endian
    v.i = wrap(t, v.i);
    return v;
  }
}

void number_write(tc_dtype t, void *at, number v) {
  float f;
  uint16_t h;
  switch (t) {
  case TC_F64: memcpy(at, &v.f, 8); break;
  case TC_F32: f = (float)v.f, memcpy(at, &f, 4); break;
  case TC_F16: h = narrow(v.f, F16_MANTISSA, F16_BIAS), memcpy(at, &h, 2); break;
  case TC_BF16: h = narrow(v.f, BF16_MANTISSA, BF16_BIAS), memcpy(at, &h, 2); break;
  default: memcpy(at, &v.i, (size_t)number_bytes(t));
  }
}

// ---- Casts ----
static number round_to(tc_dtype t, double v) {
  number n = {.f = v};
  if (t == TC_F32) n.f = (float)v;
  if (t == TC_F16) n.f = widen(narrow(v, F16_MANTISSA, F16_BIAS), F16_MANTISSA, F16_BIAS);
  if (t == TC_BF16) n.f = widen(narrow(v, BF16_MANTISSA, BF16_BIAS), BF16_MANTISSA, BF16_BIAS);
  return n;
}

// Values out of range, for which there is no rule, give the smallest i32 or i64, as many processors do; narrower types,
// and u32, have the low bits of these.
static int64_t to_int(tc_dtype t, double v) {
  if ((t == TC_I32 || number_bytes(t) < 4) && !(v > -0x1p31 - 1 && v < 0x1p31)) return wrap(t, INT32_MIN);
  if (t == TC_U64 && v >= 0x1p63 && v < 0x1p64) return (int64_t)(uint64_t)v;
  return v >= -0x1p63 && v < 0x1p63 ? wrap(t, (int64_t)v) : wrap(t, INT64_MIN);
}

number number_cast(tc_dtype from, tc_dtype to, number v) {
  int32_t real = number_is_float(from);
  if (number_is_float(to)) {
    if (real) return round_to(to, v.f);
    if (to == TC_F32) return (number){.f = from == TC_U64 ? (float)(uint64_t)v.i : (float)v.i}; // rounded once
    return round_to(to, from == TC_U64 ? (double)(uint64_t)v.i : (double)v.i);
  }
  if (to == TC_BOOL) return (number){.i = real ? v.f != 0 : v.i != 0};
  return (number){.i = real ? to_int(to, v.f) : wrap(to, v.i)};
}

// ---- Operations ----
// The lesser of two that are no NaN; -0 is less than 0.
static double lesser(double x, double y) { return x < y || (x == y && signbit(x)) ? x : y; }

static double compute_double(int32_t op, double x, double y, double z) {
  int32_t nan_x = x != x, nan_y = y != y;
  switch (op) {
  case TC_K_ADD: return x + y;
  case TC_K_SUB: return x - y;
  case TC_K_MUL: return x * y;
  case TC_K_DIV: return x / y;
  case TC_K_REM: return fmod(x, y);
  case TC_K_FMA: return fma(x, y, z);
  case TC_K_NEG: return -x;
  case TC_K_ABS: return fabs(x);
  case TC_K_SQRT: return sqrt(x);
  case TC_K_RCP_APPROX: return 1 / x;
  case TC_K_FLOOR: return floor(x);
  case TC_K_CEIL: return ceil(x);
  case TC_K_TRUNC: return trunc(x);
  case TC_K_RINT: return rint(x);
  case TC_K_COPYSIGN: return copysign(x, y);
  case TC_K_MIN: return nan_x || nan_y ? NAN : lesser(x, y);
  case TC_K_MAX: return nan_x || nan_y ? NAN : -lesser(-x, -y);
  case TC_K_FMIN: return nan_x ? y : nan_y ? x : lesser(x, y);
  case TC_K_FMAX: return nan_x ? y : nan_y ? x : -lesser(-x, -y);
  default: return NAN;
  }
}

// One rounding to f64 and one to f32 are one to f32, except for what is fused.
static double compute_float(int32_t op, double x, double y, double z) {
  if (op == TC_K_FMA) return fmaf((float)x, (float)y, (float)z);
  return (float)compute_double(op, x, y, z);
}

static int64_t high_half(tc_dtype t, int64_t x, int64_t y) {
  __extension__ typedef unsigned __int128 wide;
  int32_t bits = 8 * number_bytes(t);
  wide product = (wide)(uint64_t)x * (uint64_t)y;
  uint64_t high = (uint64_t)(product >> 64);
  if (bits < 64) return (int64_t)((uint64_t)product >> bits); // factors are extended: the low 64 bits hold it all
  if (!is_unsigned(t)) high -= (x < 0 ? (uint64_t)y : 0) + (y < 0 ? (uint64_t)x : 0);
  return (int64_t)high;
}

static int64_t compute_integer(int32_t op, tc_dtype t, int64_t x, int64_t y, int64_t z) {
  const uint64_t a = (uint64_t)x, b = (uint64_t)y;
  const int32_t natural = is_unsigned(t);
  switch (op) {
  case TC_K_ADD: return (int64_t)(a + b);
  case TC_K_SUB: return (int64_t)(a - b);
  case TC_K_MUL: return (int64_t)(a * b);
  case TC_K_FMA: return (int64_t)(a * b + (uint64_t)z);
  case TC_K_NEG: return (int64_t)(0 - a);
  case TC_K_ABS: return natural || x >= 0 ? x : (int64_t)(0 - a);
  case TC_K_DIV:
    if (!y) return 0; // kernels do not
    if (natural) return (int64_t)(a / b);
    return y == -1 ? (int64_t)(0 - a) : x / y;
  case TC_K_REM:
    if (!y || (!natural && y == -1)) return 0;
    return natural ? (int64_t)(a % b) : x % y;
  case TC_K_MIN: return (natural ? a < b : x < y) ? x : y;
  case TC_K_MAX: return (natural ? a > b : x > y) ? x : y;
  case TC_K_AND: return x & y;
  case TC_K_OR: return x | y;
  case TC_K_XOR: return x ^ y;
  case TC_K_NOT: return t == TC_BOOL ? !x : ~x;
  case TC_K_SHL: return b < 64 ? (int64_t)(a << b) : 0;
  case TC_K_SHR: return natural ? (b < 64 ? (int64_t)(a >> b) : 0) : x >> (b < 63 ? b : 63);
  case TC_K_MULHI: return high_half(t, x, y);
  default: return 0;
  }
}

static int64_t compare(int32_t op, int32_t less, int32_t equal, int32_t greater) {
  switch (op) {
  case TC_K_EQ: return equal;
  case TC_K_NE: return !equal;
  case TC_K_LT: return less;
  case TC_K_LE: return less || equal;
  case TC_K_GT: return greater;
  default: return greater || equal;
  }
}

number number_compute(int32_t op, tc_dtype t, number x, number y, number z) {
  if (op == TC_K_SELECT) return x.i ? y : z;
  if (op >= TC_K_EQ && op <= TC_K_GE) {
    if (number_is_float(t)) return (number){.i = compare(op, x.f < y.f, x.f == y.f, x.f > y.f)};
    int32_t less = is_unsigned(t) ? (uint64_t)x.i < (uint64_t)y.i : x.i < y.i;
    return (number){.i = compare(op, less, x.i == y.i, !less && x.i != y.i)};
  }
  if (number_is_float(t))
    return (number){.f = t == TC_F64 ? compute_double(op, x.f, y.f, z.f) : compute_float(op, x.f, y.f, z.f)};
  return (number){.i = wrap(t, compute_integer(op, t, x.i, y.i, z.i))};
}
