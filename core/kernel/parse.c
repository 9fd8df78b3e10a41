// The parser of kernel text.
//
//   kernel := 'kernel' @name '(' [ param { ',' param } ] ')' [ 'blocks' 1 ] 'lanes' INT '{' { decl } { inst } '}'
//   param  := %name ':' 'global' dtype { 'readonly' | 'writeonly' | 'noalias' | 'stream' | 'align' INT }
//           | %name ':' dtype [ 'in' '[' bound ',' bound ']' ] [ 'div' INT ]        bound := INT | 'inf' | '-inf'
//   decl   := ('shared' | 'lane_array') %name ':' dtype '[' INT ']' | 'table' %name ':' dtype '=' '[' number, … ']'
//   inst   := [ %name { ',' %name } '=' ] op
//   op     := 'const' literal ':' dtype | 'block' | 'lane' | 'barrier'
//           | ('load' | 'store' | 'atomic_add' | 'prefetch') [ '.vN' ] %mem '[' operand ']' { ',' operand }
//             [ 'if' operand [ 'else' operand, … ] ]
//           | 'for' %name '=' operand 'to' operand [ 'step' INT ] [ 'unroll' ]
//             [ '(' %name '=' operand [ ':' dtype ], … ')' ] block
//           | 'if' operand block [ 'else' block ] | 'lanes' block | 'yield' operand, …
//           | ('check' | 'broadcast') operand ',' INT | 'reduce' '.' IDENT operand
//           | ('cast' | 'bitcast') operand ':' dtype | OPCODE operand, … [ ':' dtype ] { 'fast' | 'nowrap' }
//           | 'mma' '.' IDENT operand, … | 'select' operand, … [ ':' dtype ] 'rare'
//           | 'prefetch' %mem '[' operand ']' 'far'
//   block  := '{' { inst } '}'          operand := %name | literal          literal := number | 'true' | 'false'
//
// A literal has the type of the other operands, of the memory, i32 as an index or bound, or what stands behind ':'.
// Every name is defined once in a kernel; all digits is no name (the printer numbers such values again).
#include <string.h>

#include "core/kernel/ir.h"

enum { MAX_OPERANDS = 4096 };

typedef struct operand {
  tc_kval value; // -1: a literal
  bool is_int;   // the literal was written as an integer (or bool)
  bool is_bool;
  int64_t integer;
  double real;
  tc_lexer at; // where it stands
} operand;

typedef struct parser {
  tc_arena *arena;
  tc_lexer *lx;
  tc_kb *b;
  tc_map *names; // %name → (kind << 32 | number)
  tc_lexer inst; // the instruction being read, for messages
  bool yielded;  // the last instruction of the region was a yield
  TC_VEC(tc_kval) yields;
} parser;

enum { NAME_VALUE, NAME_MEM, NAME_SCALAR };
typedef TC_VEC(operand) operands;
typedef TC_VEC(tc_sv) name_list;

// What the builder refused, at the instruction.
static tc_status built(parser *p) {
  int32_t code = tc_kb_failed(p->b);
  if (code && code != TC_STATUS_INVALID_ARGUMENT)
    return tc_error(code, "%s", tc_kb_reason(p->b)); // not the text's fault
  return code ? tc_lex_error(&p->inst, "%s", tc_kb_reason(p->b)) : TC_OK;
}

static tc_status define(parser *p, tc_sv name, int32_t kind, int32_t number) {
  bool fresh;
  tc_map_entry *e = tc_map_put(p->names, name, &fresh);
  if (!fresh) return tc_lex_error(&p->inst, "%%" TC_SV_FMT " is defined a second time", TC_SV_ARG(name));
  e->value.num = ((int64_t)kind << 32) | number;
  return TC_OK;
}

static tc_status define_value(parser *p, tc_sv name, tc_kval v) {
  TC_TRY(define(p, name, NAME_VALUE, v));
  bool digits = true;
  for (size_t i = 0; i < name.size; i++) digits &= name.data[i] >= '0' && name.data[i] <= '9';
  if (!digits) tc_kb_name(p->b, v, name);
  return TC_OK;
}

static tc_status find(parser *p, const char *what, int32_t kind, int32_t *out) {
  tc_lexer at = *p->lx;
  tc_sv name;
  TC_TRY(tc_lex_sigil(p->lx, '%', &name));
  tc_map_entry *e = tc_map_find(p->names, name);
  if (!e) {
    int32_t n = tc_map_count(p->names);
    tc_sv *all = TC_NEW_ARRAY(p->arena, tc_sv, n + 1);
    for (int32_t i = 0; i < n; i++) all[i] = tc_map_at(p->names, i)->key;
    tc_sv near = tc_sv_nearest(name, all, n);
    if (near.size)
      return tc_lex_error(&at, "%%" TC_SV_FMT " is not defined; did you mean %%" TC_SV_FMT "?", TC_SV_ARG(name),
                          TC_SV_ARG(near));
    return tc_lex_error(&at, "%%" TC_SV_FMT " is not defined", TC_SV_ARG(name));
  }
  int32_t found = (int32_t)(e->value.num >> 32);
  *out = (int32_t)e->value.num;
  if (found == NAME_SCALAR && kind == NAME_VALUE) {
    *out = tc_kb_param(p->b, *out);
    return built(p);
  }
  if (found != kind) return tc_lex_error(&at, "%%" TC_SV_FMT " is no %s", TC_SV_ARG(name), what);
  return TC_OK;
}

static tc_status read_dtype(parser *p, tc_dtype *out) {
  tc_lexer at = *p->lx;
  tc_sv name;
  TC_TRY(tc_lex_ident(p->lx, &name));
  *out = tc_dtype_parse(name);
  return *out ? TC_OK : tc_lex_error(&at, "'" TC_SV_FMT "' is no dtype", TC_SV_ARG(name));
}

// ---- Operands ----

static tc_status read_literal(parser *p, operand *o) {
  tc_lexer *lx = p->lx;
  o->value = -1;
  bool yes = tc_lex_at(lx, "true");
  if (yes || tc_lex_at(lx, "false")) {
    tc_lex_next(lx);
    o->is_int = o->is_bool = true, o->integer = yes, o->real = yes;
    return TC_OK;
  }
  tc_lexer ahead = *lx;
  tc_lex_eat(&ahead, "-");
  if (ahead.tok.kind == TC_TOK_INT) {
    o->is_int = true;
    TC_TRY(tc_lex_int(lx, &o->integer));
    o->real = (double)o->integer;
    return TC_OK;
  }
  if (ahead.tok.kind == TC_TOK_FLOAT || tc_lex_at(&ahead, "inf") || tc_lex_at(&ahead, "nan"))
    return tc_lex_double(lx, &o->real);
  return tc_lex_error(lx, "expected a value: %%name, a number, true or false");
}

static tc_status read_operand(parser *p, operand *o) {
  *o = (operand){.at = *p->lx};
  if (p->lx->tok.kind == TC_TOK_SIGIL) return find(p, "value", NAME_VALUE, &o->value);
  return read_literal(p, o);
}

static tc_status read_operands(parser *p, operands *out) {
  do {
    operand o;
    TC_TRY(read_operand(p, &o));
    if (out->count >= MAX_OPERANDS) return tc_lex_error(&o.at, "too many operands");
    tc_vec_push(p->arena, out, o);
  } while (tc_lex_eat(p->lx, ","));
  return TC_OK;
}

static tc_status check_literal(const operand *o, tc_dtype type) {
  if (tc_dtype_is_complex(type))
    return tc_lex_error(&o->at, "a literal cannot be %s; use complex", tc_dtype_name(type));
  if (tc_dtype_is_float(type))
    return o->is_bool ? tc_lex_error(&o->at, "expected %s, not a bool", tc_dtype_name(type)) : TC_OK;
  if (!o->is_int) return tc_lex_error(&o->at, "expected %s, not a real number", tc_dtype_name(type));
  if ((type == TC_BOOL) != o->is_bool)
    return tc_lex_error(&o->at, "expected %s", type == TC_BOOL ? "bool (true or false)" : tc_dtype_name(type));
  int32_t bits = tc_kir_bits(type);
  bool fits = type == TC_U64 || tc_kir_wrap(type, o->integer) == o->integer ||
              (o->integer >= 0 && bits < 64 && o->integer >> bits == 0);
  return fits ? TC_OK : tc_lex_error(&o->at, "%lld does not fit %s", (long long)o->integer, tc_dtype_name(type));
}

// The operand as a value; a literal becomes a constant of the type.
static tc_status value_of(parser *p, operand *o, tc_dtype type) {
  if (o->value >= 0) return TC_OK;
  TC_TRY(check_literal(o, type));
  o->value = tc_dtype_is_float(type) ? tc_kb_real(p->b, type, o->real) : tc_kb_int(p->b, type, o->integer);
  return built(p);
}

// ---- Instructions ----

static tc_status read_block(parser *p);

static tc_status read_op(parser *p, int32_t op, tc_kval *out) {
  operands v = {0};
  TC_TRY(read_operands(p, &v));
  tc_dtype given = TC_DTYPE_NONE;
  if (tc_lex_eat(p->lx, ":")) TC_TRY(read_dtype(p, &given));
  int32_t flags = 0;
  for (;;) {
    if (tc_lex_eat(p->lx, "fast")) flags |= TC_KI_FAST;
    else if (tc_lex_eat(p->lx, "nowrap")) flags |= TC_KI_NOWRAP;
    else if (tc_lex_eat(p->lx, "rare")) flags |= TC_KI_RARE;
    else break;
  }
  int32_t first = op == TC_K_SELECT;
  if (v.count != tc_kir_arity(op))
    return tc_lex_error(&p->inst, "%s takes %d operands, not %d", tc_k_op_text(op), (int)tc_kir_arity(op),
                        (int)v.count);
  if (op == TC_K_CAST || op == TC_K_BITCAST) {
    if (!given) return tc_lex_error(p->lx, "expected ': dtype' behind %s", tc_k_op_text(op));
    if (v.data[0].value < 0) return tc_lex_error(&v.data[0].at, "the operand of %s must be a value", tc_k_op_text(op));
    *out = op == TC_K_CAST ? tc_kb_cast(p->b, given, v.data[0].value) : tc_kb_bitcast(p->b, given, v.data[0].value);
    return built(p);
  }
  tc_dtype type = given;
  for (int32_t i = first; i < v.count && !type; i++)
    if (v.data[i].value >= 0) type = tc_kb_type(p->b, v.data[i].value);
  if (!type) return tc_lex_error(p->lx, "expected ': dtype': all operands are literals");
  tc_kval args[3];
  for (int32_t i = 0; i < v.count; i++) {
    TC_TRY(value_of(p, &v.data[i], i < first ? TC_BOOL : type));
    args[i] = v.data[i].value;
  }
  tc_kb_set_flags(p->b, flags);
  *out = tc_kb_op(p->b, op, v.count, args);
  tc_kb_set_flags(p->b, 0);
  return built(p);
}

static tc_status read_const(parser *p, tc_kval *out) {
  operand o = {.at = *p->lx};
  tc_dtype type;
  TC_TRY(read_literal(p, &o));
  TC_TRY(tc_lex_expect(p->lx, ":"));
  TC_TRY(read_dtype(p, &type));
  TC_TRY(value_of(p, &o, type));
  *out = o.value;
  return TC_OK;
}

typedef struct access {
  tc_kmem mem;
  int32_t width;
  operand index, mask;
  bool has_mask;
} access;

static tc_status read_access(parser *p, access *a) {
  tc_lexer *lx = p->lx;
  *a = (access){.width = 1, .mask = {.value = -1}};
  if (tc_lex_eat(lx, ".")) {
    tc_lexer at = *lx;
    tc_sv width;
    int64_t n = 0;
    TC_TRY(tc_lex_ident(lx, &width));
    if (width.size < 2 || width.data[0] != 'v' || !tc_sv_to_int(tc_sv_sub(width, 1, width.size), &n) || n < 1 || n > 64)
      return tc_lex_error(&at, "expected a width, .v1 to .v64");
    a->width = (int32_t)n;
  }
  TC_TRY(find(p, "memory object", NAME_MEM, &a->mem));
  TC_TRY(tc_lex_expect(lx, "["));
  TC_TRY(read_operand(p, &a->index));
  TC_TRY(value_of(p, &a->index, TC_I32));
  return tc_lex_expect(lx, "]");
}

static tc_status read_mask(parser *p, access *a) {
  if (!tc_lex_eat(p->lx, "if")) return TC_OK;
  a->has_mask = true;
  TC_TRY(read_operand(p, &a->mask));
  return value_of(p, &a->mask, TC_BOOL);
}

static tc_status typed_values(parser *p, operands *v, tc_dtype type, tc_kval **out) {
  *out = TC_NEW_ARRAY(p->arena, tc_kval, v->count + 1);
  for (int32_t i = 0; i < v->count; i++) {
    TC_TRY(value_of(p, &v->data[i], type));
    (*out)[i] = v->data[i].value;
  }
  return TC_OK;
}

static tc_status read_load(parser *p, tc_kval *results, int32_t *n) {
  access a;
  operands other = {0};
  tc_kval *values = NULL;
  TC_TRY(read_access(p, &a));
  TC_TRY(read_mask(p, &a));
  if (a.has_mask && tc_lex_eat(p->lx, "else")) {
    // One value for all elements, or one each. Names that follow a comma belong to the load as long as it needs them.
    do {
      operand o;
      TC_TRY(read_operand(p, &o));
      tc_vec_push(p->arena, &other, o);
    } while (other.count < a.width && tc_lex_eat(p->lx, ","));
    bool one = other.count == 1;
    for (int32_t i = 1; one && i < a.width; i++) {
      operand o = other.data[0];
      tc_vec_push(p->arena, &other, o);
    }
    if (other.count != a.width)
      return tc_lex_error(&p->inst, "load.v%d takes 1 or %d values behind else, not %d", (int)a.width, (int)a.width,
                          (int)other.count);
    TC_TRY(typed_values(p, &other, tc_kb_mem(p->b, a.mem)->dtype, &values));
  }
  *n = a.width;
  tc_kb_load(p->b, a.mem, a.index.value, a.width, a.mask.value, values, results);
  return built(p);
}

static tc_status read_store(parser *p, int32_t op) {
  access a;
  operands v = {0};
  tc_kval *values;
  TC_TRY(read_access(p, &a));
  TC_TRY(tc_lex_expect(p->lx, ","));
  TC_TRY(read_operands(p, &v));
  TC_TRY(read_mask(p, &a));
  if (v.count != a.width)
    return tc_lex_error(&p->inst, "%s of width %d takes as many values, not %d", tc_k_op_text(op), (int)a.width,
                        (int)v.count);
  TC_TRY(typed_values(p, &v, tc_kb_mem(p->b, a.mem)->dtype, &values));
  if (op == TC_K_STORE) tc_kb_store(p->b, a.mem, a.index.value, a.width, values, a.mask.value);
  else tc_kb_atomic_add(p->b, a.mem, a.index.value, values[0], a.mask.value);
  return built(p);
}

// The values that the block just read has yielded.
static tc_kval *take_yields(parser *p, int32_t *n) {
  *n = p->yields.count;
  tc_kval *copy = TC_NEW_ARRAY(p->arena, tc_kval, *n + 1);
  for (int32_t i = 0; i < *n; i++) copy[i] = p->yields.data[i];
  p->yields.count = 0;
  return copy;
}

static tc_status read_for(parser *p, tc_kval **results, int32_t *n) {
  tc_lexer *lx = p->lx;
  tc_lexer start = p->inst;
  tc_sv iv, name;
  operand lo, hi;
  int64_t step = 1;
  name_list names = {0};
  TC_VEC(tc_kval) init = {0};
  TC_TRY(tc_lex_sigil(lx, '%', &iv));
  TC_TRY(tc_lex_expect(lx, "="));
  TC_TRY(read_operand(p, &lo));
  TC_TRY(tc_lex_expect(lx, "to"));
  TC_TRY(read_operand(p, &hi));
  tc_dtype type = lo.value >= 0 ? tc_kb_type(p->b, lo.value) : hi.value >= 0 ? tc_kb_type(p->b, hi.value) : TC_I32;
  TC_TRY(value_of(p, &lo, type));
  TC_TRY(value_of(p, &hi, type));
  if (tc_lex_eat(lx, "step")) TC_TRY(tc_lex_int(lx, &step));
  int32_t flags = tc_lex_eat(lx, "unroll") ? TC_KI_UNROLL : 0;
  if (tc_lex_eat(lx, "(")) {
    do {
      operand o;
      TC_TRY(tc_lex_sigil(lx, '%', &name));
      TC_TRY(tc_lex_expect(lx, "="));
      TC_TRY(read_operand(p, &o));
      tc_dtype given = TC_DTYPE_NONE;
      if (tc_lex_eat(lx, ":")) TC_TRY(read_dtype(p, &given));
      if (o.value < 0 && !given) return tc_lex_error(lx, "expected ': dtype' behind the literal");
      TC_TRY(value_of(p, &o, given));
      tc_vec_push(p->arena, &names, name);
      tc_vec_push(p->arena, &init, o.value);
    } while (tc_lex_eat(lx, ","));
    TC_TRY(tc_lex_expect(lx, ")"));
  }
  tc_kval *carried = TC_NEW_ARRAY(p->arena, tc_kval, init.count + 1);
  tc_kval v = tc_kb_for(p->b, lo.value, hi.value, step, flags, init.count, init.data, carried);
  TC_TRY(built(p));
  TC_TRY(define_value(p, iv, v));
  for (int32_t i = 0; i < init.count; i++) TC_TRY(define_value(p, names.data[i], carried[i]));
  TC_TRY(read_block(p));
  tc_kval *next = take_yields(p, n);
  *results = TC_NEW_ARRAY(p->arena, tc_kval, *n + 1);
  p->inst = start;
  tc_kb_end_for(p->b, *n, next, *results);
  return built(p);
}

static tc_status read_if(parser *p, tc_kval **results, int32_t *n) {
  tc_lexer start = p->inst;
  operand cond;
  TC_TRY(read_operand(p, &cond));
  TC_TRY(value_of(p, &cond, TC_BOOL));
  tc_kb_if(p->b, cond.value);
  TC_TRY(built(p));
  TC_TRY(read_block(p));
  tc_kval *yields = take_yields(p, n);
  p->inst = start;
  if (tc_lex_at(p->lx, "else") || *n) {
    TC_TRY(tc_lex_expect(p->lx, "else"));
    tc_kb_else(p->b, *n, yields);
    TC_TRY(built(p));
    TC_TRY(read_block(p));
    yields = take_yields(p, n);
    p->inst = start;
  }
  *results = TC_NEW_ARRAY(p->arena, tc_kval, *n + 1);
  tc_kb_end_if(p->b, *n, yields, *results);
  return built(p);
}

static tc_status read_lanes(parser *p, tc_kval **results, int32_t *n) {
  tc_lexer start = p->inst;
  tc_kb_lanes(p->b);
  TC_TRY(built(p));
  TC_TRY(read_block(p));
  tc_kval *yields = take_yields(p, n);
  *results = TC_NEW_ARRAY(p->arena, tc_kval, *n + 1);
  p->inst = start;
  tc_kb_end_lanes(p->b, *n, yields, *results);
  return built(p);
}

static tc_status read_yield(parser *p) {
  operands v = {0};
  TC_TRY(read_operands(p, &v));
  p->yields.count = 0;
  for (int32_t i = 0; i < v.count; i++) {
    if (v.data[i].value < 0) return tc_lex_error(&v.data[i].at, "yield takes values; name the constant first");
    tc_vec_push(p->arena, &p->yields, v.data[i].value);
  }
  if (!tc_lex_at(p->lx, "}")) return tc_lex_error(p->lx, "a yield must be the last instruction of its region");
  return TC_OK;
}

// Reads the opcode; "reduce" is followed by ".add" and the like, "mma" by ".bf16".
static tc_status read_opcode(parser *p, int32_t *op) {
  tc_sv word;
  TC_TRY(tc_lex_ident(p->lx, &word));
  if (tc_sv_is(word, "reduce") || tc_sv_is(word, "mma")) {
    tc_sv kind;
    TC_TRY(tc_lex_expect(p->lx, "."));
    TC_TRY(tc_lex_ident(p->lx, &kind));
    word = tc_sv_printf(p->arena, TC_SV_FMT "." TC_SV_FMT, TC_SV_ARG(word), TC_SV_ARG(kind));
  }
  *op = tc_kir_find_op(word);
  if (*op >= 0 && *op != TC_K_SCALAR) return TC_OK;
  tc_sv all[TC_K_COUNT];
  for (int32_t i = 0; i < TC_K_COUNT; i++) all[i] = tc_sv_of(tc_k_op_text(i));
  tc_sv near = tc_sv_nearest(word, all, TC_K_COUNT);
  if (near.size && *op < 0)
    return tc_lex_error(&p->inst, "there is no operation '" TC_SV_FMT "'; did you mean '" TC_SV_FMT "'?",
                        TC_SV_ARG(word), TC_SV_ARG(near));
  return tc_lex_error(&p->inst, "there is no operation '" TC_SV_FMT "'", TC_SV_ARG(word));
}

static tc_status read_collective(parser *p, int32_t op, tc_kval *out) {
  int32_t v;
  int64_t imm = 0;
  TC_TRY(find(p, "value", NAME_VALUE, &v));
  if (op == TC_K_BROADCAST) {
    TC_TRY(tc_lex_expect(p->lx, ","));
    TC_TRY(tc_lex_int(p->lx, &imm));
  }
  *out = tc_kb_collective(p->b, op, v, imm);
  return built(p);
}

static tc_status read_mma(parser *p, int32_t op, tc_kval *out, int32_t *n) {
  operands v = {0};
  tc_kval args[TC_KIR_MMA_ARGS];
  TC_TRY(read_operands(p, &v));
  if (v.count != TC_KIR_MMA_ARGS)
    return tc_lex_error(&p->inst, "%s takes %d operands, not %d", tc_k_op_text(op), (int)TC_KIR_MMA_ARGS, (int)v.count);
  for (int32_t i = 0; i < v.count; i++) {
    TC_TRY(value_of(p, &v.data[i], i < TC_KIR_MMA_WORDS ? TC_I32 : TC_F32));
    args[i] = v.data[i].value;
  }
  *n = TC_KIR_MMA_SUMS;
  tc_kb_mma(p->b, op, args, args + 4, args + TC_KIR_MMA_WORDS, out);
  return built(p);
}

static tc_status read_check(parser *p) {
  operand cond;
  int64_t site;
  TC_TRY(read_operand(p, &cond));
  TC_TRY(value_of(p, &cond, TC_BOOL));
  TC_TRY(tc_lex_expect(p->lx, ","));
  TC_TRY(tc_lex_int(p->lx, &site));
  tc_kb_check(p->b, cond.value, site);
  return built(p);
}

static tc_status read_inst(parser *p) {
  tc_lexer *lx = p->lx;
  name_list names = {0};
  if (lx->tok.kind == TC_TOK_SIGIL) {
    do {
      tc_sv name;
      TC_TRY(tc_lex_sigil(lx, '%', &name));
      tc_vec_push(p->arena, &names, name);
    } while (tc_lex_eat(lx, ","));
    TC_TRY(tc_lex_expect(lx, "="));
  }
  p->inst = *lx;
  tc_lexer start = *lx;
  int32_t op, n = 1;
  tc_kval own[64], *results = own;
  TC_TRY(read_opcode(p, &op));
  if (!tc_kir_is_pure(op) && (op < TC_K_REDUCE_ADD || op > TC_K_BROADCAST)) n = 0;
  switch (op) {
  case TC_K_CONST: TC_TRY(read_const(p, own)); break;
  case TC_K_BLOCK: own[0] = tc_kb_block(p->b); break;
  case TC_K_LANE: own[0] = tc_kb_lane(p->b); break;
  case TC_K_LOAD: TC_TRY(read_load(p, own, &n)); break;
  case TC_K_STORE:
  case TC_K_ATOMIC_ADD: TC_TRY(read_store(p, op)); break;
  case TC_K_PREFETCH: {
    access a;
    TC_TRY(read_access(p, &a));
    tc_kb_prefetch_from(p->b, a.mem, a.index.value, tc_lex_eat(lx, "far") ? TC_KI_FAR : 0);
    break;
  }
  case TC_K_MMA_BF16:
  case TC_K_MMA_F16: TC_TRY(read_mma(p, op, own, &n)); break;
  case TC_K_CHECK: TC_TRY(read_check(p)); break;
  case TC_K_FOR: TC_TRY(read_for(p, &results, &n)); break;
  case TC_K_IF: TC_TRY(read_if(p, &results, &n)); break;
  case TC_K_LANES: TC_TRY(read_lanes(p, &results, &n)); break;
  case TC_K_YIELD: TC_TRY(read_yield(p)); break;
  case TC_K_BARRIER: tc_kb_barrier(p->b); break;
  case TC_K_REDUCE_ADD:
  case TC_K_REDUCE_MUL:
  case TC_K_REDUCE_MIN:
  case TC_K_REDUCE_MAX:
  case TC_K_REDUCE_AND:
  case TC_K_REDUCE_OR:
  case TC_K_BROADCAST: TC_TRY(read_collective(p, op, own)); break;
  default: TC_TRY(read_op(p, op, own));
  }
  p->inst = start;
  TC_TRY(built(p));
  if (n != names.count)
    return tc_lex_error(&start, "%s has %d results, %d are named", tc_k_op_text(op), (int)n, (int)names.count);
  for (int32_t i = 0; i < n; i++) TC_TRY(define_value(p, names.data[i], results[i]));
  return TC_OK;
}

static tc_status read_block(parser *p) {
  TC_TRY(tc_lex_expect(p->lx, "{"));
  p->yields.count = 0;
  while (!tc_lex_at(p->lx, "}")) TC_TRY(read_inst(p));
  return tc_lex_expect(p->lx, "}");
}

// ---- Declarations ----

static tc_status read_bound(parser *p, int64_t *out) {
  tc_lexer ahead = *p->lx;
  bool minus = tc_lex_eat(&ahead, "-");
  if (!tc_lex_at(&ahead, "inf")) return tc_lex_int(p->lx, out);
  tc_lex_next(&ahead);
  *p->lx = ahead;
  *out = minus ? INT64_MIN : INT64_MAX;
  return TC_OK;
}

static tc_status read_align(parser *p, int32_t *out) {
  tc_lexer at = *p->lx;
  int64_t n;
  TC_TRY(tc_lex_int(p->lx, &n));
  if (n < 1 || n > 4096 || (n & (n - 1))) return tc_lex_error(&at, "an alignment is a power of two up to 4096");
  *out = (int32_t)n;
  return TC_OK;
}

static tc_status read_global(parser *p, tc_sv name) {
  static const char *const words[] = {"readonly", "writeonly", "noalias", "stream"};
  tc_dtype type;
  int32_t flags = 0, align = 0;
  TC_TRY(read_dtype(p, &type));
  for (bool more = true; more;) {
    more = false;
    for (int32_t i = 0; i < 4; i++)
      if (tc_lex_eat(p->lx, words[i])) flags |= 1 << i, more = true;
    if (tc_lex_eat(p->lx, "align")) {
      TC_TRY(read_align(p, &align));
      more = true;
    }
  }
  tc_kmem m = tc_kb_global(p->b, name, type, flags, align);
  TC_TRY(built(p));
  return define(p, name, NAME_MEM, m);
}

static tc_status read_param(parser *p) {
  tc_lexer *lx = p->lx;
  p->inst = *lx;
  tc_sv name;
  TC_TRY(tc_lex_sigil(lx, '%', &name));
  TC_TRY(tc_lex_expect(lx, ":"));
  if (tc_lex_eat(lx, "global")) return read_global(p, name);
  tc_dtype type;
  int64_t lo = INT64_MIN, hi = INT64_MAX, divisor = 1;
  TC_TRY(read_dtype(p, &type));
  if (tc_lex_eat(lx, "in")) {
    TC_TRY(tc_lex_expect(lx, "["));
    TC_TRY(read_bound(p, &lo));
    TC_TRY(tc_lex_expect(lx, ","));
    TC_TRY(read_bound(p, &hi));
    TC_TRY(tc_lex_expect(lx, "]"));
  }
  if (tc_lex_eat(lx, "div")) TC_TRY(tc_lex_int(lx, &divisor));
  int32_t s = tc_kb_scalar(p->b, name, type, lo, hi, divisor);
  TC_TRY(built(p));
  return define(p, name, NAME_SCALAR, s);
}

static tc_status read_table(parser *p, tc_sv name, tc_dtype type, tc_kmem *out) {
  TC_VEC(uint64_t) bits = {0};
  tc_dtype part = tc_dtype_real(type);
  size_t size = (size_t)tc_dtype_size(part);
  TC_TRY(tc_lex_expect(p->lx, "="));
  TC_TRY(tc_lex_expect(p->lx, "["));
  do {
    operand o = {.at = *p->lx};
    TC_TRY(read_literal(p, &o));
    TC_TRY(check_literal(&o, part));
    tc_knum v = {.re = o.real};
    if (!tc_dtype_is_float(part)) v = tc_kir_int(part, o.integer);
    tc_vec_push(p->arena, &bits, tc_kir_to_bits(part, v));
  } while (tc_lex_eat(p->lx, ","));
  TC_TRY(tc_lex_expect(p->lx, "]"));
  int32_t parts = tc_dtype_is_complex(type) ? 2 : 1;
  if (bits.count % parts) return tc_lex_error(&p->inst, "a complex table needs pairs of numbers");
  char *data = tc_arena_array(p->arena, size, (size_t)bits.count);
  for (int32_t i = 0; i < bits.count; i++) memcpy(data + size * (size_t)i, &bits.data[i], size);
  *out = tc_kb_table(p->b, name, type, bits.count / parts, data);
  return TC_OK;
}

static tc_status read_decl(parser *p) {
  tc_lexer *lx = p->lx;
  p->inst = *lx;
  bool shared = tc_lex_at(lx, "shared"), table = tc_lex_at(lx, "table");
  tc_lex_next(lx);
  tc_sv name;
  tc_dtype type;
  tc_kmem m = -1;
  int64_t count;
  TC_TRY(tc_lex_sigil(lx, '%', &name));
  TC_TRY(tc_lex_expect(lx, ":"));
  TC_TRY(read_dtype(p, &type));
  if (table) TC_TRY(read_table(p, name, type, &m));
  else {
    TC_TRY(tc_lex_expect(lx, "["));
    TC_TRY(tc_lex_int(lx, &count));
    TC_TRY(tc_lex_expect(lx, "]"));
    m = shared ? tc_kb_shared(p->b, name, type, count) : tc_kb_lane_array(p->b, name, type, count);
  }
  TC_TRY(built(p));
  return define(p, name, NAME_MEM, m);
}

tc_status tc_kernel_parse(tc_arena *arena, tc_lexer *lx, tc_kernel **out) {
  *out = NULL;
  parser p = {.arena = arena, .lx = lx, .names = tc_map_create(arena), .inst = *lx};
  tc_sv name;
  TC_TRY(tc_lex_expect(lx, "kernel"));
  TC_TRY(tc_lex_sigil(lx, '@', &name));
  // The lanes stand behind the parameters, but the builder wants them first.
  tc_lexer ahead = *lx;
  int64_t lanes = 1;
  while (ahead.tok.kind != TC_TOK_END && !tc_lex_at(&ahead, "{") && !tc_lex_at(&ahead, "lanes")) tc_lex_next(&ahead);
  if (tc_lex_eat(&ahead, "lanes") && ahead.tok.kind == TC_TOK_INT) lanes = ahead.tok.integer;
  if (lanes < 1 || lanes > 4096) return tc_lex_error(&ahead, "a kernel has 1 to 4096 lanes");
  p.b = tc_kb_create(arena, name, (int32_t)lanes);
  tc_kb_set_raw(p.b, true);
  TC_TRY(tc_lex_expect(lx, "("));
  if (!tc_lex_at(lx, ")")) {
    do TC_TRY(read_param(&p));
    while (tc_lex_eat(lx, ","));
  }
  TC_TRY(tc_lex_expect(lx, ")"));
  if (tc_lex_eat(lx, "blocks")) {
    tc_lexer at = *lx;
    int64_t rank;
    TC_TRY(tc_lex_int(lx, &rank));
    if (rank != 1) return tc_lex_error(&at, "the grid has one dimension: blocks 1");
  }
  TC_TRY(tc_lex_expect(lx, "lanes"));
  TC_TRY(tc_lex_int(lx, &lanes));
  if (tc_lex_eat(lx, "source")) {
    tc_ksource source = {0};
    tc_sv *const texts[] = {&source.language, &source.declarations, &source.body};
    for (int32_t i = 0; i < 3; i++) {
      tc_lexer at = *lx;
      TC_TRY(tc_lex_string(lx, texts[i]));
      if (!source.language.size) return tc_lex_error(&at, "the language of the source has no name");
      *texts[i] = tc_sv_copy(arena, *texts[i]);
    }
    tc_kb_set_source(p.b, &source);
    return tc_kb_finish(p.b, out);
  }
  TC_TRY(tc_lex_expect(lx, "{"));
  while (tc_lex_at(lx, "shared") || tc_lex_at(lx, "lane_array") || tc_lex_at(lx, "table")) TC_TRY(read_decl(&p));
  while (!tc_lex_at(lx, "}")) TC_TRY(read_inst(&p));
  if (p.yields.count) return tc_lex_error(lx, "the body of a kernel yields nothing");
  TC_TRY(tc_lex_expect(lx, "}"));
  return tc_kb_finish(p.b, out);
}
