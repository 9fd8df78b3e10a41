// The table of mathematical functions, and the small steps that they share.
#include "core/kernel/maths/maths.h"

#include "core/kernel/kernel.h"

tc_kval tc_km_scaled_poly(const tc_km *m, tc_kval x, int32_t n, const double *c, double scale) {
  tc_kval y = k_real(m, c[n - 1] * scale);
  for (int32_t i = n - 2; i >= 0; i--) y = k_fma(m, y, x, k_real(m, c[i] * scale));
  return y;
}

tc_kval tc_km_poly(const tc_km *m, tc_kval x, int32_t n, const double *c) { return tc_km_scaled_poly(m, x, n, c, 1); }

static tc_kval flagged(const tc_km *m, int32_t with, int32_t op, int32_t n, const tc_kval *args) {
  int32_t flags = tc_kb_flags(m->b);
  tc_kb_set_flags(m->b, flags | with);
  tc_kval r = tc_kb_op(m->b, op, n, args);
  tc_kb_set_flags(m->b, flags);
  return r;
}

tc_kval k_quotient(const tc_km *m, tc_kval x, tc_kval y) {
  return flagged(m, TC_KI_FAST, TC_K_DIV, 2, (tc_kval[]){x, y});
}
tc_kval k_plain_quotient(const tc_km *m, tc_kval x, tc_kval y) {
  return flagged(m, TC_KI_FAST | TC_KI_NOWRAP, TC_K_DIV, 2, (tc_kval[]){x, y});
}
tc_kval k_unless(const tc_km *m, tc_kval usual, tc_kval x, tc_kval rare) {
  return flagged(m, TC_KI_RARE, TC_K_SELECT, 3, (tc_kval[]){usual, x, rare});
}

tc_kval tc_km_power(const tc_km *m, tc_kval n) {
  return k_from_bits(m, k_shl(m, k_add(m, n, k_int(m, m->bias)), k_int(m, m->mantissa)));
}

tc_kval tc_km_scale(const tc_km *m, tc_kval x, tc_kval n) {
  tc_kval half = k_shr(m, n, k_int(m, 1)); // two steps: neither factor leaves the normal range, and the first is exact
  return k_mul(m, k_mul(m, x, tc_km_power(m, half)), tc_km_power(m, k_sub(m, n, half)));
}

tc_kval tc_km_to_real(const tc_km *m, tc_kval n) {
  if (!m->wide) return tc_kb_cast(m->b, m->t, n);
  // 64-bit integers convert slowly on CPUs: add to the bits of 1.5·2^52 instead.
  tc_kval magic = k_real(m, 0x1.8p52);
  return k_sub(m, k_from_bits(m, k_add(m, k_bits(m, magic), n)), magic);
}

tc_kval tc_km_if_finite(const tc_km *m, tc_kval x, tc_kval r, tc_kval other) {
  return k_select(m, k_lt(m, k_abs(m, x), k_real(m, __builtin_inf())), r, other);
}

tc_km_sum tc_km_two_sum(const tc_km *m, tc_kval a, tc_kval b) {
  tc_kval hi = k_add(m, a, b);
  return (tc_km_sum){hi, k_add(m, k_sub(m, a, hi), b)};
}

tc_km_sum tc_km_two_prod(const tc_km *m, tc_kval a, tc_kval b) {
  tc_kval hi = k_mul(m, a, b);
  return (tc_km_sum){hi, k_fma(m, a, b, k_neg(m, hi))};
}

typedef struct row {
  tc_kval (*one)(const tc_km *m, tc_kval x);
  tc_kval (*two)(const tc_km *m, tc_kval x, tc_kval y);
} row;

static const row rows[TC_K_COUNT] = {
#define X(op, name) [TC_K_##op] = {.one = tc_km_op_##name},
    TC_KM_LIST(X)
#undef X
#define X(op, name) [TC_K_##op] = {.two = tc_km_op_##name},
        TC_KM_LIST2(X)
#undef X
};

static tc_km maths_of(tc_kb *b, tc_dtype t) {
  bool wide = t == TC_F64;
  return (tc_km){b, t, wide ? TC_I64 : TC_I32, wide ? TC_U64 : TC_U32, wide, wide ? 52 : 23, wide ? 1023 : 127};
}

tc_kval tc_km_lower(tc_kb *b, int32_t op, int32_t n, const tc_kval *args) {
  tc_dtype t = tc_kb_type(b, args[0]);
  const row *r = op >= 0 && op < TC_K_COUNT ? &rows[op] : &rows[0];
  if ((t != TC_F32 && t != TC_F64) || (n == 1 ? !r->one : n == 2 ? !r->two : true)) {
    tc_kb_fail(b, "%s of %s has no lowering", tc_k_op_text(op), tc_dtype_name(t));
    return -1;
  }
  tc_km m = maths_of(b, t);
  return n == 1 ? r->one(&m, args[0]) : r->two(&m, args[0], args[1]);
}

tc_kval tc_km_erf_in_sum(tc_kb *b, tc_kval x) {
  tc_km m = maths_of(b, TC_F32);
  return tc_km_short_erf(&m, x);
}

tc_kval tc_km_sigmoid_product(tc_kb *b, int32_t n, const tc_km_sigmoid *factors) {
  tc_km m = maths_of(b, tc_kb_type(b, factors[0].x));
  return tc_km_sigmoids(&m, n, factors);
}
