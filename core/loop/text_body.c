// The scalar environment of the expression language: texts of op rows become loop bodies.
//
// Names are arguments of the op or lets. Operands are brought to the compute type when an operator needs them, so that
// conditions stay bool and a bare `self` keeps its dtype. Functions are the opcodes of kernel IR by their text names,
// and the few below, clamp(x, lo, hi), bits_of(x) of an f64 as an i64, cis(x) = e^(ix), and horner(x, c0, c1, …) for
// polynomials. A `none` operand of min or max (clamp without a bound) leaves the other operand.
#include <math.h>
#include <string.h>

#include "core/loop/lo.h"

typedef struct env {
  tc_lo *lo;
  tc_dtype compute;
  const tc_scalar_name *names;
  int32_t n_names;
  TC_VEC(tc_scalar_name) lets;
} env;

enum { NONE = -2 }; // a `none` value; -1 is a failure

static int32_t eval(env *e, const tc_ex *x);

static int32_t to_compute(env *e, int32_t v) { return v < 0 ? v : tc_body_cast(e->lo, v, e->compute); }

static int32_t to_bool(env *e, int32_t v) {
  if (v < 0 || tc_body_type(e->lo, v) == TC_BOOL) return v;
  int32_t zero = tc_body_const(e->lo, tc_body_type(e->lo, v), 0, 0, 0);
  return tc_body_op(e->lo, TC_K_NE, 2, (int32_t[]){v, zero});
}

static int32_t number(env *e, double re) {
  return tc_body_const(e->lo, e->compute, re, 0, e->compute == TC_BOOL ? re != 0 : tc_float_to_int(TC_I64, re));
}

static int32_t find_opcode(tc_sv name) {
  for (int32_t op = 0; op < TC_K_COUNT; op++) {
    if (tc_k_op_class(op) != 's' && tc_sv_is(name, tc_k_op_text(op))) return op;
  }
  return -1;
}

static int32_t op(env *e, int32_t opcode, int32_t n, int32_t *v) {
  bool logic = opcode == TC_K_AND || opcode == TC_K_OR || opcode == TC_K_XOR || opcode == TC_K_NOT;
  bool bools = logic && tc_body_type(e->lo, v[0]) == TC_BOOL && (n == 1 || tc_body_type(e->lo, v[1]) == TC_BOOL);
  bool part = opcode == TC_K_REAL || opcode == TC_K_IMAG || opcode == TC_K_ABS2 || opcode == TC_K_ANGLE ||
              opcode == TC_K_COMPLEX || opcode == TC_K_CONJ || opcode == TC_K_ABS;
  if (part) { // these read or make complex values: the compute type's class does not decide
    return tc_body_op(e->lo, opcode, n, v);
  }
  for (int32_t i = 0; i < n; i++) v[i] = bools ? v[i] : to_compute(e, v[i]);
  return tc_body_op(e->lo, opcode, n, v);
}

// Functions beyond opcodes, as texts over their parameters a, b, c.
static const struct {
  const char *name, *text;
  int32_t n;
} macros[] = {
    {"relu", "max(a, 0)", 1},
    {"square", "a * a", 1},
    {"recip", "1 / a", 1},
    {"isnan", "a != a", 1},
    {"isinf", "abs(a) == inf", 1},
    {"isfinite", "abs(a) < inf", 1},
    {"sign", "where(a > 0, 1, where(a < 0, -1, 0))", 1},
    {"frac", "a - trunc(a)", 1},
    {"gelu_erf", "0.5 * a * (1 + erf(a * 0.70710678118654752440))", 1},
    // 0.5 (1 + tanh v) as sigmoid(2 v): one exponential, and nothing cancels for negative v; 2 v is √(8/π) (a +
    // 0.044715 a³)
    {"gelu_tanh", "a * sigmoid(a * horner(a * a, 1.59576912160573071176, 0.07135481627260025))", 1},
    {"softplus", "where(a * b > c, a, log1p(exp(a * b)) / b)", 3},
};

static int32_t call_macro(env *e, int32_t m, int32_t n, const int32_t *v) {
  static const char *const params[] = {"a", "b", "c"};
  tc_scalar_name names[3];
  if (n != macros[m].n) {
    tc_lo_fail(e->lo, "%s takes %d arguments, not %d", macros[m].name, macros[m].n, n);
    return -1;
  }
  for (int32_t i = 0; i < n; i++)
    names[i] = (tc_scalar_name){tc_sv_of(params[i]), v[i] == NONE ? -1 : to_compute(e, v[i])};
  tc_ex_program p;
  tc_status s = tc_ex_parse_program(e->lo->l->arena, tc_sv_of(macros[m].name), tc_sv_of(macros[m].text), &p);
  if (s != TC_OK) {
    tc_lo_fail(e->lo, "%s", tc_status_text(s));
    tc_status_free(s);
    return -1;
  }
  return tc_body_text(e->lo, p.results[0], e->compute, &p, names, n);
}

// horner(x, c0, c1, …): c0 + x·(c1 + x·(…)), one fused product and sum for each.
static int32_t horner(env *e, const tc_ex *x) {
  int32_t at = to_compute(e, eval(e, x->kids[1])), sum = to_compute(e, eval(e, x->kids[x->n - 1]));
  for (int32_t i = x->n - 2; i >= 2 && at >= 0 && sum >= 0; i--) {
    int32_t c = to_compute(e, eval(e, x->kids[i]));
    if (c < 0) return -1;
    sum = tc_body_op(e->lo, TC_K_FMA, 3, (int32_t[]){sum, at, c});
  }
  return at < 0 ? -1 : sum;
}

// cos(x) + i sin(x) of a real x, which stays real: the complex functions would cost twice as much.
static int32_t cis(env *e, int32_t x) {
  if (tc_dtype_is_complex(tc_body_type(e->lo, x))) {
    tc_lo_fail(e->lo, "cis takes a real angle");
    return -1;
  }
  x = tc_body_cast(e->lo, x, tc_dtype_real(e->compute));
  int32_t parts[2] = {tc_body_op(e->lo, TC_K_COS, 1, &x), tc_body_op(e->lo, TC_K_SIN, 1, &x)};
  return tc_body_op(e->lo, TC_K_COMPLEX, 2, parts);
}

// min(max(x, lo), hi), where a bound may be absent. Integers meet bounds that they cannot be: those of u8 at -1 and 300
// say nothing. 64-bit unsigned ones are not integers of i64: of these the bounds are brought to 0 first.
static int32_t clamp(env *e, const int32_t v[3]) {
  char cls = tc_dtype_class(e->compute);
  bool wide = e->compute == TC_U64;
  tc_dtype d = (cls == 'i' || cls == 'u') && !wide ? TC_I64 : e->compute;
  int32_t x = tc_body_cast(e->lo, v[0], d);
  for (int32_t k = 1; k <= 2; k++) {
    if (v[k] == NONE) continue;
    int32_t bound = v[k];
    if (wide && tc_body_type(e->lo, bound) != TC_U64) {
      int32_t zero = tc_body_const(e->lo, TC_I64, 0, 0, 0);
      bound = tc_body_op(e->lo, TC_K_MAX, 2, (int32_t[]){tc_body_cast(e->lo, bound, TC_I64), zero});
    }
    x = tc_body_op(e->lo, k == 1 ? TC_K_MAX : TC_K_MIN, 2, (int32_t[]){x, tc_body_cast(e->lo, bound, d)});
  }
  return tc_body_cast(e->lo, x, e->compute);
}

static int32_t call(env *e, const tc_ex *x) {
  tc_sv name = x->kids[0]->text;
  if (x->kids[0]->kind == TC_EX_NAME && tc_sv_is(name, "horner") && x->n > 2) return horner(e, x);
  int32_t n = x->n - 1, v[3] = {-1, -1, -1};
  if (x->kids[0]->kind != TC_EX_NAME || n > 3) {
    tc_lo_fail(e->lo, "'" TC_SV_FMT "' is no scalar function", TC_SV_ARG(name));
    return -1;
  }
  for (int32_t i = 0; i < n; i++) {
    v[i] = eval(e, x->kids[i + 1]);
    if (v[i] == -1) return -1;
  }
  if (tc_sv_is(name, "where") && n == 3) {
    v[0] = to_bool(e, v[0]);
    bool same = tc_body_type(e->lo, v[1]) == tc_body_type(e->lo, v[2]);
    if (!same) v[1] = to_compute(e, v[1]), v[2] = to_compute(e, v[2]);
    return tc_body_op(e->lo, TC_K_SELECT, 3, v);
  }
  if ((tc_sv_is(name, "min") || tc_sv_is(name, "max")) && n == 2) {
    if (v[0] == NONE) return v[1];
    if (v[1] == NONE) return v[0];
  }
  if (tc_sv_is(name, "clamp") && n == 3 && v[0] >= 0) return clamp(e, v);
  if (tc_sv_is(name, "bits_of") && n == 1) return tc_body_bits(e->lo, v[0]);
  if (tc_sv_is(name, "cis") && n == 1) return cis(e, v[0]);
  tc_dtype cast = tc_dtype_parse(name);
  if (cast != TC_DTYPE_NONE && n == 1) return cast == TC_BOOL ? to_bool(e, v[0]) : tc_body_cast(e->lo, v[0], cast);
  if (tc_sv_is(name, "bool") && n == 1) return to_bool(e, v[0]);
  for (size_t m = 0; m < sizeof macros / sizeof *macros; m++) {
    if (tc_sv_is(name, macros[m].name)) return call_macro(e, (int32_t)m, n, v);
  }
  int32_t opcode = find_opcode(name);
  if (opcode < 0) {
    tc_lo_fail(e->lo, "'" TC_SV_FMT "' is no scalar function", TC_SV_ARG(name));
    return -1;
  }
  return op(e, opcode, n, v);
}

static int32_t binary(env *e, const tc_ex *x) {
  static const struct {
    const char *text;
    int32_t opcode;
  } ops[] = {{"+", TC_K_ADD}, {"-", TC_K_SUB}, {"*", TC_K_MUL}, {"/", TC_K_DIV},  {"%", TC_K_REM}, {"**", TC_K_POW},
             {"==", TC_K_EQ}, {"!=", TC_K_NE}, {"<", TC_K_LT},  {"<=", TC_K_LE},  {">", TC_K_GT},  {">=", TC_K_GE},
             {"&", TC_K_AND}, {"|", TC_K_OR},  {"^", TC_K_XOR}, {"<<", TC_K_SHL}, {">>", TC_K_SHR}};
  int32_t v[2] = {eval(e, x->kids[0]), eval(e, x->kids[1])};
  if (v[0] < 0 || v[1] < 0) return -1;
  if (tc_sv_is(x->text, "&&") || tc_sv_is(x->text, "||")) {
    v[0] = to_bool(e, v[0]), v[1] = to_bool(e, v[1]);
    return tc_body_op(e->lo, tc_sv_is(x->text, "&&") ? TC_K_AND : TC_K_OR, 2, v);
  }
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    if (tc_sv_is(x->text, ops[i].text)) return op(e, ops[i].opcode, 2, v);
  }
  tc_lo_fail(e->lo, "'" TC_SV_FMT "' is no scalar operator", TC_SV_ARG(x->text));
  return -1;
}

static int32_t unary(env *e, const tc_ex *x) {
  const tc_ex *kid = x->kids[0];
  if (tc_sv_is(x->text, "-") && kid->kind == TC_EX_INT) // of truth values, too, which have no negative ones
    return tc_body_const(e->lo, e->compute, -(double)kid->integer, 0, e->compute == TC_BOOL ? 1 : -kid->integer);
  int32_t v = eval(e, kid);
  if (v < 0) return -1;
  if (tc_sv_is(x->text, "!")) return tc_body_op(e->lo, TC_K_NOT, 1, (int32_t[]){to_bool(e, v)});
  if (tc_sv_is(x->text, "~")) return op(e, TC_K_NOT, 1, &v);
  return op(e, TC_K_NEG, 1, &v);
}

static int32_t name_value(env *e, tc_sv name) {
  for (int32_t i = e->lets.count - 1; i >= 0; i--) {
    if (tc_sv_eq(e->lets.data[i].name, name)) return e->lets.data[i].value;
  }
  for (int32_t i = 0; i < e->n_names; i++) {
    if (tc_sv_eq(e->names[i].name, name)) return e->names[i].value < 0 ? NONE : e->names[i].value;
  }
  if (tc_sv_is(name, "pi")) return number(e, 3.14159265358979323846);
  if (tc_sv_is(name, "inf")) return number(e, INFINITY);
  if (tc_sv_is(name, "nan")) return number(e, NAN);
  tc_lo_fail(e->lo, "'" TC_SV_FMT "' is not an argument", TC_SV_ARG(name));
  return -1;
}

static int32_t eval(env *e, const tc_ex *x) {
  switch (x->kind) {
  case TC_EX_INT: return tc_body_const(e->lo, e->compute, (double)x->integer, 0, x->integer);
  case TC_EX_FLOAT: return number(e, x->real);
  case TC_EX_BOOL: return tc_body_const(e->lo, TC_BOOL, 0, 0, x->integer);
  case TC_EX_NONE: return NONE;
  case TC_EX_NAME: return name_value(e, x->text);
  case TC_EX_CALL: return call(e, x);
  case TC_EX_UNARY: return unary(e, x);
  case TC_EX_BINARY: return binary(e, x);
  default: tc_lo_fail(e->lo, "this expression has no meaning in a scalar body"); return -1;
  }
}

int32_t tc_body_text(tc_lo *lo, const tc_ex *x, tc_dtype compute, const tc_ex_program *p, const tc_scalar_name *names,
                     int32_t n) {
  env e = {.lo = lo, .compute = compute, .names = names, .n_names = n};
  for (int32_t i = 0; p && i < p->n_lets; i++) {
    int32_t v = eval(&e, p->lets[i].value);
    if (v == -1) return -1;
    tc_scalar_name let = {p->lets[i].names[0], v};
    tc_vec_push(lo->l->arena, &e.lets, let);
  }
  int32_t v = eval(&e, x);
  if (v == NONE) tc_lo_fail(lo, "the body's value is none");
  return v < 0 ? -1 : v;
}
