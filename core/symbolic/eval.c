// Evaluation of trees and of compiled code, both over one function per operation.
//
// Values are 128 bit wide inside, so that only results that do not fit int64 are out of range, not intermediate sums.
// An operation without a value (division by zero, overflow beyond 128 bits) gives a special value that passes through
// arithmetic; And, Or and Where look at the operands that count only, so "n != 0 && m % n == 0" has a value for n = 0.
//
// Code: word 0 is the stack depth | temporaries << 32, then instructions: op | argument << 8, CONST followed by its
// value. A node that occurs several times is computed once and kept in a temporary.
#include <string.h>

#include "core/symbolic/internal.h"

enum { LOCAL = 64, TREE = 512 };
enum { OP_CONST = 100, OP_SYMBOL, OP_LOAD, OP_STORE }; // the others are the kinds of tc_sym

#define WIDE ((i128)1 << 125)
#define BY_ZERO (-WIDE - 1)
#define TOO_LARGE (-WIDE - 2)
#define BAD_POWER (-WIDE - 3)
static bool special(i128 v) { return v < -WIDE; }

static i128 mul(i128 a, i128 b) {
  if (a == 0 || b == 0) return 0;
  i128 x = a < 0 ? -a : a, y = b < 0 ? -b : b;
  return x > WIDE / y ? TOO_LARGE : a * b;
}

static i128 limit(i128 v) { return v > WIDE || v < -WIDE ? TOO_LARGE : v; }

static i128 power(i128 a, i128 k) {
  if (k < 0) return BAD_POWER;
  i128 r = 1;
  for (;;) {
    if (k & 1) r = mul(r, a);
    k >>= 1;
    if (k == 0 || special(r)) return r;
    a = mul(a, a);
    if (special(a)) return TOO_LARGE;
  }
}

static i128 apply(int32_t kind, i128 a, i128 b) {
  if (kind == TC_SYM_AND || kind == TC_SYM_OR) {
    bool settles = kind == TC_SYM_OR;
    if (!special(a) && (a != 0) == settles) return settles;
    if (!special(b) && (b != 0) == settles) return settles;
    return special(a) ? a : special(b) ? b : !settles;
  }
  if (special(a)) return a;
  if (special(b)) return b;
  switch (kind) {
  case TC_SYM_ADD: return limit(a + b);
  case TC_SYM_MUL: return mul(a, b);
  case TC_SYM_FLOORDIV:
  case TC_SYM_MOD: {
    if (b == 0) return BY_ZERO;
    // Nearly always 64 bits do, and dividing 128 is a call.
    bool narrow = a == (int64_t)a && b == (int64_t)b && b != -1;
    i128 q = narrow ? (i128)((int64_t)a / (int64_t)b) : a / b, r = a - q * b;
    bool down = r != 0 && (r < 0) != (b < 0);
    return kind == TC_SYM_MOD ? r + (down ? b : 0) : q - down;
  }
  case TC_SYM_MIN: return a < b ? a : b;
  case TC_SYM_MAX: return a > b ? a : b;
  case TC_SYM_POW: return power(a, b);
  case TC_SYM_EQ: return a == b;
  case TC_SYM_NE: return a != b;
  case TC_SYM_LT: return a < b;
  case TC_SYM_LE: return a <= b;
  case TC_SYM_NOT: return a == 0;
  default: return TOO_LARGE;
  }
}

static i128 choose(i128 cond, i128 a, i128 b) { return special(cond) ? cond : cond ? a : b; }

bool tc_sym_fold(int32_t kind, int64_t a, int64_t b, int64_t *out) {
  i128 v = apply(kind, a, b);
  *out = (int64_t)v;
  return v >= INT64_MIN && v <= INT64_MAX;
}

static tc_status result(i128 v, int64_t *out) {
  if (v == BY_ZERO) return tc_error(TC_STATUS_INVALID_ARGUMENT, "division by zero in a symbolic expression");
  if (v == BAD_POWER) return tc_error(TC_STATUS_INVALID_ARGUMENT, "negative exponent in a symbolic expression");
  if (v < INT64_MIN || v > INT64_MAX)
    return tc_error(TC_STATUS_OUT_OF_RANGE, "a symbolic expression has a value beyond 64 bits");
  *out = (int64_t)v;
  return TC_OK;
}

// ---- trees

static i128 value_of(const tc_sym *e, const int64_t *values) {
  if (e->kind == TC_SYM_CONST) return e->value;
  if (e->kind == TC_SYM_SYMBOL) return values[e->symbol];
  i128 a = value_of(e->kids[0], values);
  if (e->kind == TC_SYM_WHERE) return special(a) ? a : value_of(e->kids[a ? 1 : 2], values);
  if (e->n == 1) return apply(e->kind, a, 0);
  for (int32_t i = 1; i < e->n; i++) a = apply(e->kind, a, value_of(e->kids[i], values));
  return a;
}

typedef struct compiled_run {
  const tc_sym *e;
  const int64_t *values;
  tc_arena *arena;
  int64_t out;
} compiled_run;

static tc_status compile_and_run(void *arg) {
  compiled_run *r = arg;
  return tc_sym_run(tc_sym_compile(r->arena, r->e), r->values, &r->out);
}

tc_status tc_sym_eval(const tc_sym *e, const int64_t *values, int64_t *out) {
  if (nd(e)->size <= TREE) return result(value_of(e, values), out);
  // Large trees share most of their nodes: compiled code computes each once.
  compiled_run r = {e, values, NULL, 0};
  TC_TRY(tc_arena_create(tc_system_allocator(), &r.arena));
  tc_status st = tc_arena_guard(r.arena, compile_and_run, &r);
  tc_arena_destroy(r.arena);
  *out = r.out;
  return st;
}

static bool all_hints(tc_sym_ctx *c, int64_t *values, const tc_sym *e) {
  if (e->kind == TC_SYM_CONST) return true;
  if (e->kind == TC_SYM_SYMBOL) {
    values[e->symbol] = c->symbols.data[e->symbol]->info.hint;
    return values[e->symbol] != INT64_MIN;
  }
  for (int32_t i = 0; i < e->n; i++)
    if (nd(e->kids[i])->mask && !all_hints(c, values, e->kids[i])) return false;
  return true;
}

bool tc_sym_hint(tc_sym_ctx *c, const tc_sym *e, int64_t *out) {
  if (e->kind == TC_SYM_CONST) {
    *out = e->value;
    return true;
  }
  int64_t local[LOCAL];
  int64_t *values = c->symbols.count <= LOCAL ? local : TC_NEW_ARRAY(c->arena, int64_t, c->symbols.count);
  if (nd(e)->size > TREE) {
    for (int32_t i = 0; i < c->symbols.count; i++) {
      values[i] = c->symbols.data[i]->info.hint;
      if (values[i] == INT64_MIN && tc_sym_uses(e, c->symbols.data[i]->sym)) return false;
    }
  } else if (!all_hints(c, values, e)) {
    return false;
  }
  tc_status st = tc_sym_eval(e, values, out);
  tc_status_free(st);
  return st == TC_OK;
}

int64_t tc_sym_hint_or(tc_sym_ctx *c, const tc_sym *e, int64_t otherwise) {
  int64_t v;
  return tc_sym_hint(c, e, &v) ? v : otherwise;
}

// ---- code

typedef struct compiler {
  tc_arena *arena;
  TC_VEC(int64_t) code;
  tc_map *uses;  // node → number of parents seen (DAG), for nodes with kids
  tc_map *temps; // node → temporary
  int32_t depth, deepest, n_temps;
  int32_t n_places; // places given for symbols; -1: each has its number
  const int32_t *places;
  bool missing; // a symbol has no place
} compiler;

static void count_uses(compiler *k, const tc_sym *e) {
  if (e->n == 0) return;
  bool made;
  tc_map_entry *entry = tc_map_put_ptr(k->uses, e, &made);
  entry->value.num++;
  if (!made) return;
  for (int32_t i = 0; i < e->n; i++) count_uses(k, e->kids[i]);
}

static void emit(compiler *k, int32_t op, int64_t arg, int32_t effect) {
  tc_vec_push(k->arena, &k->code, (int64_t)((uint64_t)op | (uint64_t)arg << 8));
  k->depth += effect;
  if (k->depth > k->deepest) k->deepest = k->depth;
}

static void compile(compiler *k, const tc_sym *e) {
  if (e->kind == TC_SYM_CONST) {
    emit(k, OP_CONST, 0, 1);
    tc_vec_push(k->arena, &k->code, e->value);
    return;
  }
  if (e->kind == TC_SYM_SYMBOL) {
    int32_t place = k->n_places < 0 ? e->symbol : e->symbol < k->n_places ? k->places[e->symbol] : -1;
    k->missing |= place < 0;
    emit(k, OP_SYMBOL, place < 0 ? 0 : place, 1);
    return;
  }
  tc_map_entry *temp = tc_map_find_ptr(k->temps, e);
  if (temp) {
    emit(k, OP_LOAD, temp->value.num, 1);
    return;
  }
  compile(k, e->kids[0]);
  if (e->kind == TC_SYM_WHERE) {
    compile(k, e->kids[1]);
    compile(k, e->kids[2]);
    emit(k, TC_SYM_WHERE, 0, -2);
  } else if (e->n == 1) {
    emit(k, e->kind, 0, 0);
  }
  for (int32_t i = 1; i < e->n && e->kind != TC_SYM_WHERE; i++) {
    compile(k, e->kids[i]);
    emit(k, e->kind, 0, -1);
  }
  tc_map_entry *uses = tc_map_find_ptr(k->uses, e);
  if (uses && uses->value.num > 1) {
    tc_map_put_ptr(k->temps, e, NULL)->value.num = k->n_temps;
    emit(k, OP_STORE, k->n_temps++, 0); // keeps the value on the stack
  }
}

static tc_sym_code finish_code(compiler *k, const tc_sym *e) {
  k->uses = tc_map_create(k->arena), k->temps = tc_map_create(k->arena);
  tc_vec_push(k->arena, &k->code, 0);
  count_uses(k, e);
  compile(k, e);
  k->code.data[0] = (int64_t)((uint64_t)k->deepest | (uint64_t)k->n_temps << 32);
  return (tc_sym_code){k->code.count, k->code.data};
}

tc_sym_code tc_sym_compile(tc_arena *arena, const tc_sym *e) {
  return finish_code(&(compiler){.arena = arena, .n_places = -1}, e);
}

bool tc_sym_compile_places(tc_arena *arena, const tc_sym *e, int32_t n, const int32_t *places, tc_sym_code *out) {
  compiler k = {.arena = arena, .n_places = n, .places = places};
  *out = finish_code(&k, e);
  return !k.missing;
}

static int32_t op_of(int64_t word) { return (int32_t)(word & 0xff); }
static int64_t arg_of(int64_t word) { return (int64_t)((uint64_t)word >> 8); }
static int32_t operands(int32_t op) { return op == TC_SYM_WHERE ? 3 : op == TC_SYM_NOT ? 1 : 2; }

tc_status tc_sym_code_check(tc_sym_code code, int32_t n_values) {
  const char *why = "is empty";
  if (code.n < 2) goto bad;
  int64_t stack = code.code[0] & 0xffffffff, temps = arg_of(code.code[0]) >> 24, depth = 0, stored = 0;
  why = "asks for too much space";
  if (stack > code.n || temps > code.n) goto bad;
  for (int32_t i = 1; i < code.n; i++) {
    int32_t op = op_of(code.code[i]);
    int64_t arg = arg_of(code.code[i]);
    why = "ends within an instruction";
    if (op == OP_CONST && ++i >= code.n) goto bad;
    why = "has an unknown symbol, temporary or operation";
    if (op == OP_SYMBOL && arg >= n_values) goto bad;
    if (op == OP_LOAD && arg >= stored) goto bad;
    if (op == OP_STORE && arg != stored++) goto bad;
    if (op < OP_CONST && (op < TC_SYM_ADD || op > TC_SYM_WHERE)) goto bad;
    if (op > OP_STORE) goto bad;
    why = "uses its stack wrongly";
    if (op == OP_STORE) {
      if (depth < 1) goto bad;
    } else if (op >= OP_CONST) {
      if (++depth > stack) goto bad;
    } else {
      if (depth < operands(op)) goto bad;
      depth -= operands(op) - 1;
    }
  }
  if (depth == 1 && stored == temps) return TC_OK;
bad:
  return tc_error(TC_STATUS_DATA_LOSS, "compiled symbolic expression %s", why);
}

tc_status tc_sym_run(tc_sym_code code, const int64_t *values, int64_t *out) {
  size_t depth = (size_t)(code.code[0] & 0xffffffff), temps = (size_t)(arg_of(code.code[0]) >> 24);
  i128 local[LOCAL], *stack = local, *top, *temp;
  if (depth + temps > LOCAL) {
    stack = tc_alloc(tc_system_allocator(), (depth + temps) * sizeof *stack);
    if (!stack) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory to evaluate a symbolic expression");
  }
  stack[0] = 0;
  temp = stack + depth;
  top = stack;
  for (int32_t i = 1; i < code.n; i++) {
    int32_t op = op_of(code.code[i]);
    switch (op) {
    case OP_CONST: *top++ = code.code[++i]; break;
    case OP_SYMBOL: *top++ = values[arg_of(code.code[i])]; break;
    case OP_LOAD: *top++ = temp[arg_of(code.code[i])]; break;
    case OP_STORE: temp[arg_of(code.code[i])] = top[-1]; break;
    case TC_SYM_WHERE:
      top -= 2;
      top[-1] = choose(top[-1], top[0], top[1]);
      break;
    case TC_SYM_NOT: top[-1] = apply(op, top[-1], 0); break;
    default: top--; top[-1] = apply(op, top[-1], top[0]);
    }
  }
  i128 v = stack[0];
  if (stack != local) tc_free(tc_system_allocator(), stack);
  return result(v, out);
}
