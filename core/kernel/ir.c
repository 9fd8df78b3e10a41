// Kernel IR: opcode facts, typing rules, and the read accessors of tc/kernel.h.
//
// The typing rules stand here once; builder and verifier both ask them.
#include "core/kernel/ir.h"

typedef struct op_row {
  const char *text;
  int32_t arity;
  char cls;
} op_row;

static const op_row ops[TC_K_COUNT] = {
#define X(name, text, arity, cls) {text, arity, cls},
    TC_KOP_LIST(X)
#undef X
};

const char *tc_k_op_text(int32_t op) { return op >= 0 && op < TC_K_COUNT ? ops[op].text : "?"; }
int32_t tc_k_op_class(int32_t op) { return op >= 0 && op < TC_K_COUNT ? ops[op].cls : 0; }
int32_t tc_kir_arity(int32_t op) { return op >= 0 && op < TC_K_COUNT ? ops[op].arity : 0; }

int32_t tc_kir_find_op(tc_sv text) {
  for (int32_t i = 0; i < TC_K_COUNT; i++)
    if (tc_sv_is(text, ops[i].text)) return i;
  return -1;
}

bool tc_kir_is_int(tc_dtype d) {
  char c = tc_dtype_class(d);
  return c == 'i' || c == 'u';
}

int32_t tc_kir_bits(tc_dtype d) { return 8 * tc_dtype_size(d); }

bool tc_kir_is_pure(int32_t op) {
  char c = (char)tc_k_op_class(op);
  return c == 'a' || c == 'c' || c == 'm' || c == 't';
}

bool tc_kir_is_commutative(int32_t op) {
  switch (op) {
  case TC_K_ADD:
  case TC_K_MUL:
  case TC_K_MIN:
  case TC_K_MAX:
  case TC_K_AND:
  case TC_K_OR:
  case TC_K_XOR:
  case TC_K_EQ:
  case TC_K_NE:
  case TC_K_MULHI:
  case TC_K_FMIN:
  case TC_K_FMAX: return true;
  default: return false;
  }
}

// ---- Typing ----

// Operand classes that an opcode takes: letters of dtype classes. Not listed: functions, which take "fc".
// clang-format off
static const char *const classes_of[TC_K_COUNT] = {
    [TC_K_ADD] = "iufc", [TC_K_SUB] = "iufc", [TC_K_MUL] = "iufc", [TC_K_DIV] = "iufc", [TC_K_NEG] = "iufc",
    [TC_K_ABS] = "iufc", [TC_K_FMA] = "iufc", [TC_K_REAL] = "iufc", [TC_K_IMAG] = "iufc", [TC_K_CONJ] = "iufc",
    [TC_K_ABS2] = "iufc", [TC_K_MIN] = "iuf", [TC_K_MAX] = "iuf", [TC_K_REM] = "iuf", [TC_K_SQRT] = "fc",
    [TC_K_ANGLE] = "fc", [TC_K_FMIN] = "f", [TC_K_FMAX] = "f", [TC_K_FLOOR] = "f", [TC_K_CEIL] = "f",
    [TC_K_TRUNC] = "f", [TC_K_RINT] = "f", [TC_K_ROUND] = "f", [TC_K_COPYSIGN] = "f", [TC_K_RCP_APPROX] = "f",
    [TC_K_COMPLEX] = "f", [TC_K_AND] = "biu", [TC_K_OR] = "biu", [TC_K_XOR] = "biu", [TC_K_NOT] = "biu",
    [TC_K_SHL] = "iu", [TC_K_SHR] = "iu", [TC_K_MULHI] = "iu", [TC_K_EQ] = "biufc", [TC_K_NE] = "biufc",
    [TC_K_LT] = "biuf", [TC_K_LE] = "biuf", [TC_K_GT] = "biuf", [TC_K_GE] = "biuf", [TC_K_ATAN2] = "f",
    [TC_K_ERF] = "f", [TC_K_ERFC] = "f", [TC_K_HYPOT] = "f", [TC_K_FMOD] = "f", [TC_K_LGAMMA] = "f", [TC_K_CBRT] = "f"};
// clang-format on

static const char *class_words(const char *classes) {
  if (classes[0] == 'f') return classes[1] ? "operands must be floating or complex" : "operands must be floating";
  if (classes[0] == 'i' && !classes[2]) return "operands must be integers";
  if (classes[0] == 'b' && !classes[3]) return "operands must be bool or integers";
  if (classes[0] == 'b' && !classes[4]) return "operands must not be complex";
  return "operands must be numbers";
}

const char *tc_kir_type_rule(int32_t op, int32_t n, const tc_dtype *args, tc_dtype *out) {
  if (!tc_kir_is_pure(op) || tc_kir_arity(op) != n) return "wrong number of operands";
  for (int32_t i = 0; i < n; i++)
    if (args[i] <= TC_DTYPE_NONE || args[i] >= TC_DTYPE_COUNT) return "operand without a type";
  if (op == TC_K_SELECT) {
    if (args[0] != TC_BOOL) return "the condition must be bool";
    if (args[1] != args[2]) return "the two choices must have one type";
    *out = args[1];
    return NULL;
  }
  if (op == TC_K_DOT2) {
    if (args[0] != TC_I32 || args[1] != TC_I32 || args[2] != TC_F32) return "dot2 takes i32, i32 and f32";
    *out = TC_F32;
    return NULL;
  }
  if (n == 0) return "not an operation on values";
  for (int32_t i = 1; i < n; i++)
    if (args[i] != args[0]) return "operands must have one type";
  const char *classes = classes_of[op] ? classes_of[op] : tc_k_op_class(op) == 'm' ? "fc" : "", *c = classes;
  while (*c && *c != tc_dtype_class(args[0])) c++;
  if (!*c) return class_words(classes);
  if (tc_k_op_class(op) == 'c') *out = TC_BOOL;
  else if (op == TC_K_COMPLEX) *out = tc_dtype_complex(args[0]);
  else if (op == TC_K_REAL || op == TC_K_IMAG || op == TC_K_ABS2 || op == TC_K_ANGLE || op == TC_K_ABS)
    *out = tc_dtype_real(args[0]);
  else *out = args[0];
  return *out == TC_DTYPE_NONE ? "no complex type has parts of this type" : NULL;
}

bool tc_kir_is_mma(int32_t op) { return op == TC_K_MMA_BF16 || op == TC_K_MMA_F16; }

const char *tc_kir_mma_rule(int32_t lanes, const tc_dtype *args) {
  if (lanes % TC_MMA_LANES) return "the number of lanes must be a multiple of 32";
  for (int32_t i = 0; i < TC_KIR_MMA_ARGS; i++)
    if (args[i] != (i < TC_KIR_MMA_WORDS ? TC_I32 : TC_F32)) return "takes six i32 and four f32";
  return NULL;
}

bool tc_kir_varying(const tc_kinst *inst, const tc_kmem_info *mems, const tc_kvalue *values) {
  if (inst->op == TC_K_LANE || inst->op == TC_K_LANES || tc_kir_is_mma(inst->op)) return true;
  if (inst->op == TC_K_LOAD && mems[inst->mem].space == TC_SPACE_LANE) return true;
  if (inst->op >= TC_K_REDUCE_ADD && inst->op <= TC_K_BROADCAST) return false;
  for (int32_t i = 0; i < inst->n_args; i++)
    if (values[inst->args[i]].varying) return true;
  return false;
}

// ---- Accessors. Numbers out of range give zeroed results, so that a plugin's mistake is not a crash. ----

#define IN(i, n) ((i) >= 0 && (i) < (n))

tc_sv tc_k_name(const tc_kernel *k) { return k->name; }
int32_t tc_k_lanes(const tc_kernel *k) { return k->lanes; }
int32_t tc_k_param_count(const tc_kernel *k) { return k->n_params; }
int32_t tc_k_mem_count(const tc_kernel *k) { return k->n_mems; }
int32_t tc_k_scalar_count(const tc_kernel *k) { return k->n_scalars; }
int32_t tc_k_inst_count(const tc_kernel *k) { return k->n_insts; }
int32_t tc_k_value_count(const tc_kernel *k) { return k->n_values; }
int32_t tc_k_region_count(const tc_kernel *k) { return k->n_regions; }
int32_t tc_k_body(const tc_kernel *k) { return k->body; }
int32_t tc_k_source(const tc_kernel *k, tc_ksource *out) {
  *out = k->source;
  return k->source.language.size > 0;
}

void tc_k_param(const tc_kernel *k, int32_t i, tc_kparam *out) {
  *out = IN(i, k->n_params) ? k->params[i] : (tc_kparam){0};
}
void tc_k_mem(const tc_kernel *k, tc_kmem m, tc_kmem_info *out) {
  *out = IN(m, k->n_mems) ? k->mems[m] : (tc_kmem_info){0};
}
void tc_k_scalar(const tc_kernel *k, int32_t i, tc_kscalar_info *out) {
  *out = IN(i, k->n_scalars) ? k->scalars[i] : (tc_kscalar_info){0};
}
void tc_k_inst(const tc_kernel *k, int32_t i, tc_kinst *out) {
  *out = IN(i, k->n_insts) ? k->insts[i] : (tc_kinst){.op = -1, .mem = -1};
}
void tc_k_value(const tc_kernel *k, tc_kval v, tc_kvalue *out) {
  *out = IN(v, k->n_values) ? k->values[v] : (tc_kvalue){.inst = -1};
}
void tc_k_region(const tc_kernel *k, int32_t r, tc_kregion *out) {
  *out = (tc_kregion){0};
  if (!IN(r, k->n_regions)) return;
  const tc_kir_region *g = &k->regions[r];
  *out = (tc_kregion){g->n_params, g->insts.count, g->params, g->insts.data};
}
