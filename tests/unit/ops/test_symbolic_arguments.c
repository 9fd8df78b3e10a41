// Integers that schemas call symbolic (SymInt), given as symbols to every op: its meta function refuses them, or says
// of its results what it says of calls with the symbols' values. Calls come from the schemas alone
// (tests/fuzz/graphs/calls.h).
#include "tests/unit/ops/rounds.h"

enum { SEARCH = 60, CALLS = 6, RANGE = 99 };

typedef struct trial {
  const tc_op_registry *ops;
  const tc_op *op;
  uint64_t seed;
  int32_t taken, refused, failed;
} trial;

static bool takes_symbols(const tc_op *op) {
  for (int32_t i = 0; i < op->schema.n_args; i++)
    if (op->schema.args[i].symbolic) return true;
  return false;
}

// Negative ones stay: -1 among sizes is no size.
static const tc_sym *symbol_for(tc_module *m, const tc_sym *number) {
  if (!tc_sym_is_const(number) || number->value < 0 || number->value > RANGE) return number;
  const tc_sym *s = tc_sym_fresh(m->syms, "n", TC_SYM_BACKED);
  tc_sym_info *info = tc_sym_info_of(m->syms, s);
  info->lo = -RANGE, info->hi = RANGE, info->hint = number->value;
  return s;
}

// The same call with symbols; false if it has no such number.
static bool with_symbols(tc_module *m, call *c) {
  bool any = false;
  for (int32_t i = 0; i < c->n_args && i < c->op->schema.n_args; i++) {
    tc_arg *a = &c->args[i].plain;
    if (!c->op->schema.args[i].symbolic || c->args[i].n) continue;
    if (a->kind == TC_AK_INT && !a->value) *a = tc_arg_sym(symbol_for(m, a->sym)), any = true;
    if (a->kind != TC_AK_INTS) continue;
    const tc_sym **list = TC_NEW_ARRAY(m->arena, const tc_sym *, a->n + 1);
    for (int32_t k = 0; k < a->n; k++) list[k] = symbol_for(m, a->syms[k]), any = true;
    *a = tc_arg_syms(list, a->n);
  }
  return any;
}

static void print_call(tc_module *m, const tc_graph *g, const char *what) {
  tc_sb sb = tc_sb_make(m->arena);
  tc_graph_print(&sb, g);
  print_error("%s:\n%s", what, sb.text);
}

// A size or stride with values in place of symbols; what comes from data is nobody's.
static bool same_number(tc_module *m, const tc_sym *constant, const tc_sym *symbolic) {
  return !tc_sym_is_const(constant) || tc_sym_hint_or(m->syms, symbolic, constant->value) == constant->value;
}

// Strides of views, too; what may be a view or a copy is a copy where nobody knows.
static bool same_types(tc_module *m, const tc_graph *a, const tc_graph *b) {
  bool view = a->first->op->def->traits & TC_OP_VIEW;
  if (a->outputs.count != b->outputs.count) return false;
  for (int32_t i = 0; i < a->outputs.count; i++) {
    const tc_tensor_type *x = &a->outputs.data[i].arg.value->type, *y = &b->outputs.data[i].arg.value->type;
    if (x->dtype != y->dtype || x->rank != y->rank) return false;
    bool strided = view;
    for (int32_t d = 0; d < x->rank; d++) strided &= !tc_sym_is_const(x->sizes[d]) || x->sizes[d]->value > 1;
    for (int32_t d = 0; d < x->rank; d++)
      if (!same_number(m, x->sizes[d], y->sizes[d]) || (strided && !same_number(m, x->strides[d], y->strides[d])))
        return false;
  }
  return true;
}

static tc_status compare(trial *t, tc_module *m, const call *c) {
  tc_graph *known, *open;
  call symbols = *c;
  if (!with_symbols(m, &symbols)) return TC_OK;
  TC_TRY(call_graph(m, c, &known));
  tc_status s = call_graph(m, &symbols, &open);
  if (s != TC_OK) {
    bool good = tc_status_code(s) != TC_STATUS_INTERNAL;
    if (!good) print_error(TC_SV_FMT ": %s\n", TC_SV_ARG(t->op->full_name), tc_status_text(s));
    t->refused++, t->failed += !good;
    tc_status_free(s);
    return TC_OK;
  }
  t->taken++;
  if (same_types(m, known, open)) return TC_OK;
  print_call(m, known, "with numbers");
  print_call(m, open, "with symbols for them");
  t->failed++;
  return TC_OK;
}

static tc_status body(void *arg) {
  trial *t = ((void **)arg)[0];
  tc_arena *arena = ((void **)arg)[1];
  call_gen r;
  tc_module *m = rounds_module(arena, t->ops, t->seed, &r);
  for (int32_t i = 0, found = 0; i < SEARCH && found < CALLS; i++) {
    call c;
    tc_graph *g;
    call_any(&r, t->op, &c);
    tc_status s = call_graph(m, &c, &g);
    bool good = s == TC_OK;
    tc_status_free(s);
    found += good;
    if (good) TC_TRY(compare(t, m, &c));
  }
  return TC_OK;
}

static void run_rounds(const rounds *r) {
  tc_arena *own;
  int32_t possible = 0, some = 0, taken = 0, refused = 0, failed = 0;
  for (int32_t i = 0; i < tc_op_registry_count(r->ops); i++) {
    trial t = {.ops = r->ops, .op = tc_op_registry_at(r->ops, i)};
    if (!rounds_take(r, t.op) || !takes_symbols(t.op)) continue;
    for (int64_t k = 0; k < r->count; k++) {
      t.seed = rounds_seed(r, i, k);
      assert_ok(tc_arena_create(tc_system_allocator(), &own));
      void *args[2] = {&t, own};
      assert_ok(tc_arena_guard(own, body, args));
      tc_arena_destroy(own);
    }
    if (getenv("TC_TEST_SHOW") && t.taken + t.refused)
      print_message("%-50.*s %d taken, %d refused\n", (int)t.op->full_name.size, t.op->full_name.data, t.taken,
                    t.refused);
    possible++, some += t.taken > 0, taken += t.taken, refused += t.refused, failed += t.failed;
  }
  print_message("%d ops, %d with a call that takes symbols; %d calls taken, %d refused\n", possible, some, taken,
                refused);
  assert_int_equal(failed, 0);
  if (!r->only) assert_true(some > possible / 2);
}
