// Evaluation of single opcodes on scalars: what constant folding and the host interpreter compute.
//
// f32 and f64 arithmetic is the host's IEEE arithmetic; 16-bit floats are computed in f32 and rounded. Mathematical
// functions of f32 are the C library's double functions, rounded: an oracle, not what devices run. Integers wrap.
#include <math.h>
#include <string.h>

#include "core/kernel/ir.h"

int64_t tc_kir_wrap(tc_dtype d, int64_t v) {
  switch (d) {
  case TC_BOOL: return v != 0;
  case TC_U8: return (uint8_t)v;
  case TC_I8: return (int8_t)(uint8_t)v;
  case TC_I16: return (int16_t)(uint16_t)v;
  case TC_U16: return (uint16_t)v;
  case TC_I32: return (int32_t)(uint32_t)v;
  case TC_U32: return (uint32_t)v;
  default: return v;
  }
}

double tc_kir_round(tc_dtype d, double v) {
  switch (tc_dtype_real(d)) {
  case TC_F16: return tc_f16_to_f32(tc_f64_to_f16(v));
  case TC_BF16: return tc_bf16_to_f32(tc_f64_to_bf16(v));
  case TC_F32: return (float)v;
  default: return v;
  }
}

tc_knum tc_kir_from_bits(tc_dtype d, uint64_t bits) {
  tc_knum v = {0};
  float f;
  uint32_t low = (uint32_t)bits;
  switch (d) {
  case TC_F16: v.re = tc_f16_to_f32((uint16_t)bits); break;
  case TC_BF16: v.re = tc_bf16_to_f32((uint16_t)bits); break;
  case TC_F32: memcpy(&f, &low, 4), v.re = f; break;
  case TC_F64: memcpy(&v.re, &bits, 8); break;
  default: v.i = tc_kir_wrap(d, (int64_t)bits);
  }
  return v;
}

uint64_t tc_kir_to_bits(tc_dtype d, tc_knum v) {
  float f = 0;
  uint32_t low;
  uint64_t bits;
  switch (d) {
  case TC_F16: return tc_f64_to_f16(v.re);
  case TC_BF16: return tc_f64_to_bf16(v.re);
  case TC_F32: f = (float)v.re, memcpy(&low, &f, 4); return low;
  case TC_F64: memcpy(&bits, &v.re, 8); return bits;
  default: return (uint64_t)v.i & (tc_kir_bits(d) >= 64 ? ~0ull : (1ull << tc_kir_bits(d)) - 1);
  }
}

tc_knum tc_kir_read(tc_dtype d, const void *at) {
  tc_dtype part = tc_dtype_real(d);
  size_t size = (size_t)tc_dtype_size(part);
  uint64_t bits[2] = {0, 0};
  memcpy(&bits[0], at, size); // little-endian hosts
  tc_knum v = tc_kir_from_bits(part, bits[0]);
  if (part != d) memcpy(&bits[1], (const char *)at + size, size), v.im = tc_kir_from_bits(part, bits[1]).re;
  return v;
}

void tc_kir_write(tc_dtype d, void *at, tc_knum v) {
  tc_dtype part = tc_dtype_real(d);
  size_t size = (size_t)tc_dtype_size(part);
  uint64_t bits = tc_kir_to_bits(part, v);
  memcpy(at, &bits, size);
  if (part == d) return;
  bits = tc_kir_to_bits(part, (tc_knum){.re = v.im});
  memcpy((char *)at + size, &bits, size);
}

tc_knum tc_kir_int(tc_dtype d, int64_t v) {
  tc_knum out = {0};
  if (tc_dtype_is_float(d) || tc_dtype_is_complex(d)) out.re = tc_kir_round(d, (double)v);
  else out.i = tc_kir_wrap(d, v);
  return out;
}

tc_knum tc_kir_cast(tc_dtype from, tc_dtype to, tc_knum v) {
  tc_knum out = {0};
  bool from_real = tc_dtype_is_float(from) || tc_dtype_is_complex(from);
  if (tc_dtype_is_float(to) || tc_dtype_is_complex(to)) {
    if (from_real) out.re = tc_kir_round(to, v.re);
    else if (from == TC_U64 && v.i < 0) { // to float directly: one rounding
      double wide = (double)(uint64_t)v.i;
      out.re = tc_dtype_real(to) == TC_F32 ? (double)(float)(uint64_t)v.i : tc_kir_round(to, wide);
    } else out.re = tc_dtype_real(to) == TC_F32 ? (double)(float)v.i : tc_kir_round(to, (double)v.i);
    if (tc_dtype_is_complex(to) && tc_dtype_is_complex(from)) out.im = tc_kir_round(to, v.im);
  } else if (to == TC_BOOL) out.i = from_real ? v.re != 0 || (tc_dtype_is_complex(from) && v.im != 0) : v.i != 0;
  else if (from_real)
    out.i = to == TC_U64 && v.re >= 0x1p63 ? (v.re < 0x1p64 ? (int64_t)(uint64_t)v.re : -1)
                                           : tc_kir_wrap(to, tc_float_to_int(to, v.re));
  else out.i = tc_kir_wrap(to, v.i);
  return out;
}

static int64_t mulhi(tc_dtype d, int64_t a, int64_t b) {
  int32_t bits = tc_kir_bits(d);
  __extension__ typedef __int128 wide;
  __extension__ typedef unsigned __int128 uwide;
  if (tc_dtype_class(d) == 'u') return tc_kir_wrap(d, (int64_t)(((uwide)(uint64_t)a * (uint64_t)b) >> bits));
  return tc_kir_wrap(d, (int64_t)(((wide)a * b) >> bits));
}

// Wrapping arithmetic is unsigned.
#define U(x) ((uint64_t)(x))

static const char *eval_int(int32_t op, tc_dtype d, tc_knum x, tc_knum y, tc_knum z, tc_knum *out) {
  int64_t a = x.i, b = y.i, r = 0;
  bool u = tc_dtype_class(d) != 'i';
  switch (op) {
  case TC_K_ADD: r = (int64_t)(U(a) + U(b)); break;
  case TC_K_SUB: r = (int64_t)(U(a) - U(b)); break;
  case TC_K_MUL: r = (int64_t)(U(a) * U(b)); break;
  case TC_K_FMA: r = (int64_t)(U(a) * U(b) + U(z.i)); break;
  case TC_K_DIV:
  case TC_K_REM:
    if (b == 0) return "division by zero";
    if (u) r = (int64_t)(op == TC_K_DIV ? U(a) / U(b) : U(a) % U(b));
    else if (b == -1) r = op == TC_K_DIV ? (int64_t)(0 - U(a)) : 0;
    else r = op == TC_K_DIV ? a / b : a % b;
    break;
  case TC_K_NEG: r = (int64_t)(0 - U(a)); break;
  case TC_K_ABS: r = u || a >= 0 ? a : (int64_t)(0 - U(a)); break;
  case TC_K_MIN: r = (u ? U(a) < U(b) : a < b) ? a : b; break;
  case TC_K_MAX: r = (u ? U(a) > U(b) : a > b) ? a : b; break;
  case TC_K_AND: r = a & b; break;
  case TC_K_OR: r = a | b; break;
  case TC_K_XOR: r = a ^ b; break;
  case TC_K_NOT: r = d == TC_BOOL ? !a : ~a; break;
  case TC_K_SHL: r = U(b) < 64 ? (int64_t)(U(a) << b) : 0; break;
  case TC_K_SHR: r = U(b) < 64 ? (u ? (int64_t)(U(a) >> b) : a >> b) : (!u && a < 0 ? -1 : 0); break;
  case TC_K_MULHI: r = mulhi(d, a, b); break;
  case TC_K_EQ: r = a == b; break;
  case TC_K_NE: r = a != b; break;
  case TC_K_LT: r = u ? U(a) < U(b) : a < b; break;
  case TC_K_LE: r = u ? U(a) <= U(b) : a <= b; break;
  case TC_K_GT: r = u ? U(a) > U(b) : a > b; break;
  case TC_K_GE: r = u ? U(a) >= U(b) : a >= b; break;
  case TC_K_SELECT: r = x.i ? y.i : z.i; break;
  case TC_K_REAL:
  case TC_K_CONJ: r = a; break;
  case TC_K_IMAG: r = 0; break;
  case TC_K_ABS2: r = (int64_t)(U(a) * U(a)); break;
  default: return "not an integer operation";
  }
  out->i = tc_k_op_class(op) == 'c' ? r : tc_kir_wrap(d, r);
  return NULL;
}
#undef U

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double min_nan(double a, double b) { return a != a || b != b ? NAN : a < b || (a == b && signbit(a)) ? a : b; }
static double max_nan(double a, double b) { return a != a || b != b ? NAN : a > b || (a == b && !signbit(a)) ? a : b; }

// The C library's function of each class-m opcode; of two arguments, the second may be unused.
static double eval_math(int32_t op, double a, double b) {
  switch (op) {
  case TC_K_EXP: return exp(a);
  case TC_K_EXP2: return exp2(a);
  case TC_K_EXPM1: return expm1(a);
  case TC_K_LOG: return log(a);
  case TC_K_LOG2: return log2(a);
  case TC_K_LOG10: return log10(a);
  case TC_K_LOG1P: return log1p(a);
  case TC_K_SIN: return sin(a);
  case TC_K_COS: return cos(a);
  case TC_K_TAN: return tan(a);
  case TC_K_ASIN: return asin(a);
  case TC_K_ACOS: return acos(a);
  case TC_K_ATAN: return atan(a);
  case TC_K_ATAN2: return atan2(a, b);
  case TC_K_SINH: return sinh(a);
  case TC_K_COSH: return cosh(a);
  case TC_K_TANH: return tanh(a);
  case TC_K_ASINH: return asinh(a);
  case TC_K_ACOSH: return acosh(a);
  case TC_K_ATANH: return atanh(a);
  case TC_K_ERF: return erf(a);
  case TC_K_ERFC: return erfc(a);
  case TC_K_POW: return pow(a, b);
  case TC_K_RSQRT: return 1 / sqrt(a);
  case TC_K_HYPOT: return hypot(a, b);
  case TC_K_FMOD: return fmod(a, b);
  case TC_K_SIGMOID: return sigmoid(a);
  case TC_K_ROUND: return round(a);
  case TC_K_CBRT: return cbrt(a);
  case TC_K_LGAMMA: { // lgamma writes a global sign; the reentrant form does not
    int sign;
    return lgamma_r(a, &sign);
  }
  case TC_K_ANGLE: return a != a ? a : signbit(a) && a < 0 ? 0x1.921fb54442d18p+1 : 0;
  default: return NAN;
  }
}

// The products are exact in double, and so are most of their sums.
static double dot2(int64_t a, int64_t b, double sum) {
  for (int32_t half = 0; half < 2; half++)
    sum += (double)tc_bf16_to_f32((uint16_t)(a >> (16 * half))) * (double)tc_bf16_to_f32((uint16_t)(b >> (16 * half)));
  return sum;
}

// Exact operations and comparisons are the same in double; the rest is rounded once, in the type.
static const char *eval_real(int32_t op, tc_dtype d, tc_knum x, tc_knum y, tc_knum z, tc_knum *out) {
  double a = x.re, b = y.re, r = 0;
  bool narrow = d != TC_F64;
  float fa = (float)a, fb = (float)b;
  switch (op) {
  case TC_K_ADD: r = narrow ? (double)(fa + fb) : a + b; break;
  case TC_K_SUB: r = narrow ? (double)(fa - fb) : a - b; break;
  case TC_K_MUL: r = narrow ? (double)(fa * fb) : a * b; break;
  case TC_K_DIV: r = narrow ? (double)(fa / fb) : a / b; break;
  case TC_K_FMA: r = narrow ? (double)fmaf(fa, fb, (float)z.re) : fma(a, b, z.re); break;
  case TC_K_SQRT: r = narrow ? (double)sqrtf(fa) : sqrt(a); break;
  case TC_K_ABS2: r = narrow ? (double)(fa * fa) : a * a; break;
  case TC_K_RCP_APPROX: r = narrow ? (double)(1 / fa) : 1 / a; break;
  case TC_K_REM: r = fmod(a, b); break;
  case TC_K_NEG: r = -a; break;
  case TC_K_ABS: r = fabs(a); break;
  case TC_K_MIN: r = min_nan(a, b); break;
  case TC_K_MAX: r = max_nan(a, b); break;
  case TC_K_FMIN: r = a != a ? b : b != b ? a : min_nan(a, b); break;
  case TC_K_FMAX: r = a != a ? b : b != b ? a : max_nan(a, b); break;
  case TC_K_FLOOR: r = floor(a); break;
  case TC_K_CEIL: r = ceil(a); break;
  case TC_K_TRUNC: r = trunc(a); break;
  case TC_K_RINT: r = rint(a); break;
  case TC_K_COPYSIGN: r = copysign(a, b); break;
  case TC_K_EQ: out->i = a == b; return NULL;
  case TC_K_NE: out->i = a != b; return NULL;
  case TC_K_LT: out->i = a < b; return NULL;
  case TC_K_LE: out->i = a <= b; return NULL;
  case TC_K_GT: out->i = a > b; return NULL;
  case TC_K_GE: out->i = a >= b; return NULL;
  case TC_K_SELECT: r = x.i ? y.re : z.re; break;
  case TC_K_COMPLEX: out->re = a, out->im = b; return NULL;
  case TC_K_REAL:
  case TC_K_CONJ: r = a; break;
  case TC_K_IMAG: r = 0; break;
  case TC_K_DOT2: r = dot2(x.i, y.i, z.re); break;
  default: r = eval_math(op, a, b);
  }
  out->re = tc_kir_round(d, r);
  return NULL;
}

const char *tc_kir_eval(int32_t op, tc_dtype type, const tc_knum *args, tc_knum *out) {
  int32_t n = tc_kir_arity(op);
  tc_knum none = {.i = 0}, x = n > 0 ? args[0] : none, y = n > 1 ? args[1] : none, z = n > 2 ? args[2] : none;
  *out = none;
  if (tc_dtype_is_complex(type)) {
    tc_kir_eval_complex(op, type, x, y, z, out);
    return NULL;
  }
  return tc_dtype_is_float(type) ? eval_real(op, type, x, y, z, out) : eval_int(op, type, x, y, z, out);
}
