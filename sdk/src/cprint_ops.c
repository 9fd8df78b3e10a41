// Expressions of the C-like printer.
//
// An opcode is printed by the dialect's format if there is one, else by C's operator. Integer arithmetic that may wrap
// is done in the unsigned type of the same width, because signed overflow is undefined in C.
#include <math.h>
#include <stdlib.h>

#include "cprint.h"

static bool is_float(tc_dtype t) { return t >= TC_F16 && t <= TC_F64; }
static bool is_signed(tc_dtype t) { return t == TC_I8 || t == TC_I16 || t == TC_I32 || t == TC_I64; }

static tc_dtype unsigned_of(tc_dtype t) {
  switch (t) {
  case TC_I8: return TC_U8;
  case TC_I16: return TC_U16;
  case TC_I32: return TC_U32;
  case TC_I64: return TC_U64;
  default: return t;
  }
}

// ---- Literals ----

static void put_real(printer *p, bool wide, double v) {
  char text[48];
  const char *inf = wide ? p->d->inf_f64 : p->d->inf_f32, *nan = wide ? p->d->nan_f64 : p->d->nan_f32;
  if (isnan(v)) put(p, nan ? nan : wide ? "(0.0/0.0)" : "(0.0f/0.0f)");
  else if (isinf(v)) {
    put(p, v < 0 ? "(-" : "(");
    put(p, inf ? inf : wide ? "1.0/0.0" : "1.0f/0.0f");
    put(p, ")");
  } else {
    for (int32_t digits = 1; digits <= 17; digits++) { // the shortest that reads back equal
      snprintf(text, sizeof text, "%.*g", (int)digits, v);
      double back = strtod(text, NULL);
      if (wide ? back == v : (float)back == (float)v) break;
    }
    for (char *c = text; *c; c++)
      if (*c == ',') *c = '.'; // the process's locale may say so
    bool negative = v < 0 || (v == 0 && signbit(v));
    if (negative) put(p, "(");
    put(p, text);
    if (!strpbrk(text, ".e")) put(p, ".0");
    put(p, wide ? "" : "f");
    if (negative) put(p, ")");
  }
}

void put_literal(printer *p, tc_dtype t, int64_t imm, double fimm) {
  char text[64];
  const char *type = p->d->type_names[t] ? p->d->type_names[t] : "";
  switch (t) {
  case TC_F64: put_real(p, true, fimm); return;
  case TC_F32: put_real(p, false, fimm); return;
  case TC_F16:
  case TC_BF16: {
    const char *store = t == TC_F16 ? p->d->f16_store : p->d->bf16_store;
    if (!store) {
      missing(p, "constants of 16-bit floats");
      return;
    }
    const char *hole = strstr(store, "$0"); // the conversion of an f32 literal
    put_sv(p, (tc_sv){store, hole ? (size_t)(hole - store) : strlen(store)});
    put_real(p, false, fimm);
    if (hole) put(p, hole + 2);
    return;
  }
  case TC_BOOL: put(p, imm ? "1" : "0"); return;
  case TC_U32: snprintf(text, sizeof text, "%uu", (unsigned)imm); break;
  case TC_U64: snprintf(text, sizeof text, "(%s)%lluu", type, (unsigned long long)imm); break;
  case TC_I64:
    if (imm == INT64_MIN) snprintf(text, sizeof text, "((%s)-9223372036854775807 - 1)", type);
    else snprintf(text, sizeof text, imm < 0 ? "((%s)%lld)" : "(%s)%lld", type, (long long)imm);
    break;
  case TC_I32:
    if (imm == INT32_MIN) snprintf(text, sizeof text, "(-2147483647 - 1)");
    else snprintf(text, sizeof text, imm < 0 ? "(%lld)" : "%lld", (long long)imm);
    break;
  default: snprintf(text, sizeof text, "(%s)%lld", type, (long long)imm);
  }
  put(p, text);
}

// ---- Operations ----

static const char *const c_operators[TC_K_COUNT] = {
    [TC_K_ADD] = "$0 + $1", [TC_K_SUB] = "$0 - $1",        [TC_K_MUL] = "$0 * $1",  [TC_K_DIV] = "$0 / $1",
    [TC_K_NEG] = "-$0",     [TC_K_REM] = "$0 % $1",        [TC_K_AND] = "$0 & $1",  [TC_K_OR] = "$0 | $1",
    [TC_K_XOR] = "$0 ^ $1", [TC_K_SHL] = "$0 << $1",       [TC_K_SHR] = "$0 >> $1", [TC_K_EQ] = "$0 == $1",
    [TC_K_NE] = "$0 != $1", [TC_K_LT] = "$0 < $1",         [TC_K_LE] = "$0 <= $1",  [TC_K_GT] = "$0 > $1",
    [TC_K_GE] = "$0 >= $1", [TC_K_SELECT] = "$0 ? $1 : $2"};

// Of integers, besides the operators.
static const char *const integer_forms[TC_K_COUNT] = {
    [TC_K_ABS] = "$0 < 0 ? -$0 : $0", [TC_K_MIN] = "$0 < $1 ? $0 : $1", [TC_K_MAX] = "$0 > $1 ? $0 : $1"};

static bool wraps(int32_t op) {
  return op == TC_K_ADD || op == TC_K_SUB || op == TC_K_MUL || op == TC_K_NEG || op == TC_K_SHL || op == TC_K_FMA;
}

// High half of a product: through the type of twice the width, or in four parts.
static void put_mulhi(printer *p, tc_dtype t, const operand *v) {
  bool s = is_signed(t);
  tc_dtype wide = s ? TC_I64 : TC_U64;
  if (size_of(t) == 8) {
    missing(p, "mulhi"); // 64 bits need an intrinsic
    return;
  }
  put(p, "(");
  put_type(p, t);
  put(p, ")(((");
  put_type(p, wide);
  put(p, ")");
  put_operand(p, v[0]);
  put(p, " * ");
  put_operand(p, v[1]);
  put(p, size_of(t) == 4 ? ") >> 32)" : size_of(t) == 2 ? ") >> 16)" : ") >> 8)");
}

static void put_integer(printer *p, int32_t op, int32_t flags, tc_dtype t, int32_t n, const operand *v) {
  if (t == TC_BOOL && op == TC_K_NOT) {
    put_format(p, "!$0", 1, v);
    return;
  }
  if (op == TC_K_MULHI) {
    put_mulhi(p, t, v);
    return;
  }
  const char *form = op == TC_K_NOT    ? "~$0"
                     : op == TC_K_FMA  ? "$0 * $1 + $2"
                     : c_operators[op] ? c_operators[op]
                                       : integer_forms[op];
  if (op == TC_K_ABS && !is_signed(t)) form = "$0";
  if (!form) {
    missing(p, tc_k_op_text(op));
    return;
  }
  bool small = size_of(t) < 4, wrapping = is_signed(t) && wraps(op) && !(flags & TC_KI_NOWRAP) && size_of(t) >= 4;
  if (!small && !wrapping) {
    put_format(p, form, n, v);
    return;
  }
  put(p, "("); // back to the type, after promotion or unsigned arithmetic
  put_type(p, t);
  put(p, ")(");
  // Each operand in the unsigned type: $0 becomes (unsigned)$0.
  char cast[256];
  size_t at = 0;
  const char *type = wrapping ? p->d->type_names[unsigned_of(t)] : NULL;
  for (const char *c = form; *c && at + 64 < sizeof cast; c++) {
    if (*c == '$' && type) at += (size_t)snprintf(cast + at, sizeof cast - at, "(%s)", type);
    cast[at++] = *c;
  }
  cast[at] = 0;
  put_format(p, cast, n, v);
  put(p, ")");
}

void put_op(printer *p, int32_t op, int32_t flags, tc_dtype type, int32_t n, const operand *args) {
  const char *format = is_float(type) || type == TC_I64 || type == TC_U64 || type == TC_I32 || type == TC_U32
                           ? p->d->op_formats[op][size_of(type) == 8]
                           : NULL;
  if (op == TC_K_DIV && type == TC_F32 && flags & TC_KI_FAST && p->d->fast_div_f32) format = p->d->fast_div_f32;
  bool c_class = tc_k_op_class(op) == 'c' || op == TC_K_SELECT;
  if (c_class) put_format(p, c_operators[op], n, args);
  else if (is_float(type)) {
    if (format) put_format(p, format, n, args);
    else if (c_operators[op] && op != TC_K_REM) put_format(p, c_operators[op], n, args);
    else if (op == TC_K_FMIN || op == TC_K_FMAX || op == TC_K_MIN || op == TC_K_MAX) {
      bool least = op == TC_K_MIN || op == TC_K_FMIN, ignore = op == TC_K_FMIN || op == TC_K_FMAX;
      // minimum: NaN wins; minNum: NaN loses.
      put_format(p,
                 ignore ? (least ? "$0 < $1 || $1 != $1 ? $0 : $1" : "$0 > $1 || $1 != $1 ? $0 : $1")
                        : (least ? "$0 < $1 || $0 != $0 ? $0 : $1" : "$0 > $1 || $0 != $0 ? $0 : $1"),
                 n, args);
    } else missing(p, tc_k_op_text(op));
  } else if (format && op == TC_K_MULHI && is_signed(type)) {
    put(p, "("); // the dialect's form is for unsigned numbers: hi(a, b) - (a<0 ? b : 0) - (b<0 ? a : 0)
    put_type(p, type);
    put(p, ")(");
    put_format(p, format, n, args);
    put_format(p, " - ($0 < 0 ? $1 : 0) - ($1 < 0 ? $0 : 0))", n, args);
  } else if (format && op == TC_K_MULHI) put_format(p, format, n, args);
  else put_integer(p, op, flags, type, n, args);
}

static void put_cast(printer *p, tc_dtype from, tc_dtype to, tc_kval x) {
  operand v = {.value = x};
  const char *load = from == TC_F16 ? p->d->f16_load : from == TC_BF16 ? p->d->bf16_load : "$0";
  const char *store = to == TC_F16 ? p->d->f16_store : to == TC_BF16 ? p->d->bf16_store : NULL;
  if (!load || ((to == TC_F16 || to == TC_BF16) && !store)) {
    missing(p, "16-bit floats");
    return;
  }
  if (to == TC_BOOL) {
    put_format(p, load, 1, &v);
    put(p, " != 0");
    return;
  }
  if (store) { // the conversion takes an f32: its text is written around
    const char *hole = strstr(store, "$0");
    put_sv(p, (tc_sv){store, hole ? (size_t)(hole - store) : strlen(store)});
    put(p, "(float)(");
    put_format(p, load, 1, &v);
    put(p, ")");
    if (hole) put(p, hole + 2);
    return;
  }
  put(p, "(");
  put_type(p, to);
  put(p, ")");
  const char *whole = !is_float(from) || is_float(to) || to == TC_U64 ? NULL
                      : to == TC_I64 || to == TC_U32                  ? p->d->float_to_i64
                                                                      : p->d->float_to_i32;
  bool conversion = whole || load[0] != '$';
  const char *hole = whole ? strstr(whole, "$0") : NULL;
  if (conversion) put(p, "(");
  if (hole) put_sv(p, (tc_sv){whole, (size_t)(hole - whole)});
  put_format(p, load, 1, &v);
  if (hole) put(p, hole + 2);
  if (conversion) put(p, ")");
}

static void put_bitcast(printer *p, tc_dtype from, tc_dtype to, tc_kval x) {
  operand v = {.value = x};
  if (!is_float(from) && !is_float(to)) {
    put(p, "(");
    put_type(p, to);
    put(p, ")");
    put_value(p, x);
    return;
  }
  const char *format = NULL;
  if (from == TC_F32) format = p->d->bitcast_f32_i32;
  if (from == TC_F64) format = p->d->bitcast_f64_i64;
  if (to == TC_F32) format = p->d->bitcast_i32_f32;
  if (to == TC_F64) format = p->d->bitcast_i64_f64;
  if (from == TC_F16 || from == TC_BF16 || to == TC_F16 || to == TC_BF16)
    format = "$0"; // the storage type is an integer
  if (!format) missing(p, "bitcast");
  else if (is_float(from)) {
    put(p, "(");
    put_type(p, to);
    put(p, ")");
    put_format(p, format, 1, &v);
  } else put_format(p, format, 1, &v);
}

void put_pure(printer *p, const tc_kinst *in) {
  operand v[3] = {{0}};
  tc_dtype from = in->n_args ? type_of(p, in->args[in->n_args - 1]) : TC_DTYPE_NONE, to = type_of(p, in->results[0]);
  for (int32_t i = 0; i < in->n_args && i < 3; i++) v[i].value = in->args[i];
  switch (in->op) {
  case TC_K_BLOCK: put(p, p->d->block); return;
  case TC_K_LANE: put(p, p->d->lane); return;
  case TC_K_CAST: put_cast(p, from, to, in->args[0]); return;
  case TC_K_BITCAST: put_bitcast(p, from, to, in->args[0]); return;
  default: put_op(p, in->op, in->flags, from, in->n_args, v);
  }
}

// ---- Alignment of indices ----

static int64_t gcd(int64_t a, int64_t b) {
  a = a < 0 ? -(a + 1) + 1 : a, b = b < 0 ? -(b + 1) + 1 : b;
  while (b) {
    int64_t t = a % b;
    a = b, b = t;
  }
  return a;
}

enum { LARGE = 1 << 20 }; // stands for "any power of two that matters"

int64_t divisor_of(const printer *p, tc_kval v, int32_t depth) {
  tc_kvalue value;
  tc_k_value(p->k, v, &value);
  if (depth > 10 || value.inst < 0) {
    if (value.inst >= 0 || depth > 10) return 1;
    // A loop's variable: lo and the step.
    for (int32_t i = 0; i < tc_k_inst_count(p->k); i++) {
      tc_kinst in;
      tc_k_inst(p->k, i, &in);
      tc_kregion g;
      if (in.op != TC_K_FOR) continue;
      tc_k_region(p->k, in.regions[0], &g);
      if (g.n_params && g.params[0] == v) return gcd(divisor_of(p, in.args[0], depth + 1), in.imm);
    }
    return 1;
  }
  tc_kinst in;
  tc_k_inst(p->k, value.inst, &in);
  switch (in.op) {
  case TC_K_CONST: return in.imm == 0 ? LARGE : gcd(in.imm, LARGE);
  case TC_K_SCALAR: {
    tc_kscalar_info s;
    tc_k_scalar(p->k, (int32_t)in.imm, &s);
    return gcd(s.divisor, LARGE);
  }
  case TC_K_ADD:
  case TC_K_SUB: return gcd(divisor_of(p, in.args[0], depth + 1), divisor_of(p, in.args[1], depth + 1));
  case TC_K_MUL:
  case TC_K_FMA: {
    int64_t d = divisor_of(p, in.args[0], depth + 1) * divisor_of(p, in.args[1], depth + 1);
    d = gcd(d, LARGE);
    return in.op == TC_K_MUL ? d : gcd(d, divisor_of(p, in.args[2], depth + 1));
  }
  case TC_K_SHL: {
    tc_kvalue amount;
    tc_kinst c;
    tc_k_value(p->k, in.args[1], &amount);
    if (amount.inst < 0) return divisor_of(p, in.args[0], depth + 1);
    tc_k_inst(p->k, amount.inst, &c);
    int64_t d = divisor_of(p, in.args[0], depth + 1);
    return c.op == TC_K_CONST && c.imm >= 0 && c.imm < 20 ? gcd(d << c.imm, LARGE) : d;
  }
  case TC_K_CAST: {
    tc_dtype from = type_of(p, in.args[0]);
    return is_float(from) || from == TC_BOOL ? 1 : divisor_of(p, in.args[0], depth + 1);
  }
  case TC_K_SELECT: return gcd(divisor_of(p, in.args[1], depth + 1), divisor_of(p, in.args[2], depth + 1));
  default: return 1;
  }
}
