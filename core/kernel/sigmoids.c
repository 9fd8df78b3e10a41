// Forms of sigmoids. A product of two is one quotient where neither is used elsewhere: sigmoid(x) sigmoid(y), and the
// same with x sigmoid(x) or x sigmoid(cubic of x) (gelu by tanh) for either; aten::silu is a quotient by itself.
// Another factor in place of that x could be so large that the product were a number where both sigmoids together are
// below the least one; x itself is not, since its sigmoid falls faster than x grows.
#include "core/kernel/sigmoids.h"

#include "core/kernel/builder.h"
#include "core/kernel/linear.h"
#include "core/kernel/maths/maths.h"

int32_t *tc_kir_uses(tc_arena *arena, const tc_kernel *k) {
  int32_t *uses = TC_NEW_ARRAY(arena, int32_t, (int64_t)k->n_values + 1);
  for (int32_t i = 0; i < k->n_insts; i++)
    for (int32_t a = 0; a < k->insts[i].n_args; a++) uses[k->insts[i].args[a]]++;
  return uses;
}

// v = x (c0 + c1 x²)?
static bool is_cubic(const tc_kernel *k, tc_kval v, tc_km_sigmoid *out) {
  const tc_kinst *product = tc_kir_made_by_op(k, v, TC_K_MUL);
  for (int32_t i = 0; product && i < 2; i++) {
    const tc_kinst *sum = tc_kir_made_by_op(k, product->args[i], TC_K_FMA),
                   *c0 = sum ? tc_kir_made_by_op(k, sum->args[2], TC_K_CONST) : NULL;
    tc_kval x = product->args[1 - i];
    for (int32_t j = 0; c0 && j < 2; j++) {
      const tc_kinst *c1 = tc_kir_made_by_op(k, sum->args[j], TC_K_CONST),
                     *square = tc_kir_made_by_op(k, sum->args[1 - j], TC_K_MUL);
      if (!c1 || !square || square->args[0] != x || square->args[1] != x) continue;
      *out = (tc_km_sigmoid){x, true, c0->fimm, c1->fimm};
      return tc_km_cubic_fits(out->c0, out->c1);
    }
  }
  return false;
}

// v = sigmoid(x)? Of f32 or f64; out->x is a value of k.
static bool is_sigmoid(const tc_kernel *k, tc_kval v, tc_km_sigmoid *out) {
  tc_dtype t = k->values[v].dtype;
  const tc_kinst *in = t == TC_F32 || t == TC_F64 ? tc_kir_made_by_op(k, v, TC_K_SIGMOID) : NULL;
  if (in && !is_cubic(k, in->args[0], out)) *out = (tc_km_sigmoid){.x = in->args[0]};
  return in != NULL;
}

typedef struct factor {
  tc_km_sigmoid sigmoid;
  bool times_x;
} factor;

static bool is_factor(const tc_kernel *k, const int32_t *uses, tc_kval v, factor *out) {
  out->times_x = false;
  if (uses[v] != 1) return false;
  if (is_sigmoid(k, v, &out->sigmoid)) return true;
  const tc_kinst *in = tc_kir_made_by_op(k, v, TC_K_MUL);
  for (int32_t i = 0; in && i < 2; i++) {
    if (uses[in->args[i]] != 1 || !is_sigmoid(k, in->args[i], &out->sigmoid)) continue;
    out->times_x = true;
    return out->sigmoid.x == in->args[1 - i];
  }
  return false;
}

static tc_kval product(tc_kir_copy *c, const tc_kinst *in, const factor *f) {
  tc_kb *b = c->to;
  tc_km_sigmoid sigmoids[2];
  tc_kval times[2];
  int32_t n = 0;
  for (int32_t i = 0; i < 2; i++) {
    sigmoids[i] = f[i].sigmoid;
    sigmoids[i].x = c->map[f[i].sigmoid.x];
    if (f[i].times_x) times[n++] = sigmoids[i].x;
  }
  tc_kval r = tc_km_sigmoid_product(b, 2, sigmoids);
  if (n == 2) r = tc_kb_op2(b, TC_K_MUL, r, times[1]);
  if (in->op == TC_K_MUL) return n ? tc_kb_op2(b, TC_K_MUL, r, times[0]) : r;
  tc_kval added = c->map[in->args[2]];
  return n ? tc_kb_op3(b, TC_K_FMA, r, times[0], added) : tc_kb_op2(b, TC_K_ADD, r, added);
}

tc_kval tc_kir_sigmoids(tc_kir_copy *c, const int32_t *uses, const tc_kinst *in) {
  const tc_kernel *k = c->from;
  factor f[2];
  if ((in->op == TC_K_MUL || in->op == TC_K_FMA) && is_factor(k, uses, in->args[0], &f[0]) &&
      is_factor(k, uses, in->args[1], &f[1]))
    return product(c, in, f);
  tc_km_sigmoid s;
  if (in->op != TC_K_SIGMOID || !is_sigmoid(k, in->results[0], &s) || !s.of_cubic) return -1;
  s.x = c->map[s.x];
  return tc_km_sigmoid_product(c->to, 1, &s);
}
