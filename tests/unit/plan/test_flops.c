// Which ops have formulas of their operations: every op whose loops do arithmetic on data counts some. Calls come from
// the schemas alone (tests/fuzz/graphs/calls.h), with a fixed seed. What does no arithmetic is not listed anywhere: it
// shows in the loops that the op is lowered to.
//   TC_TEST_OP=aten::round   one op only
#include "core/ir/expand.h"
#include "core/kernel/templates/templates.h"
#include "core/loop/loop.h"
#include "core/ops/ops.h"
#include "core/plan/plan_internal.h"
#include "tests/fuzz/graphs/calls.h"
#include "tests/unit/unit.h"

enum { SEARCH = 60, CALLS = 4, LARGEST = 1 << 10 };

typedef struct trial {
  const tc_op_registry *ops;
  const tc_op *op;
  uint64_t seed;
  int32_t good;
  bool counted, arithmetic;
} trial;

// Numbers that are made of floats: comparing, choosing, converting and moving them is no arithmetic.
static bool is_arithmetic(const tc_binst *i) {
  char c = tc_dtype_class(i->dtype);
  if (c != 'f' && c != 'c') return false;
  switch (i->op) {
  case TC_K_ADD:
  case TC_K_SUB:
  case TC_K_MUL:
  case TC_K_DIV:
  case TC_K_REM:
  case TC_K_FMA:
  case TC_K_SQRT:
  case TC_K_FLOOR:
  case TC_K_CEIL:
  case TC_K_TRUNC:
  case TC_K_RINT:
  case TC_K_ABS2:
  case TC_K_ANGLE: return true;
  default: return i->op >= TC_K_EXP && i->op <= TC_K_CBRT;
  }
}

static bool does_arithmetic(const tc_loops *l) {
  for (int32_t k = 0; k < l->nodes.count; k++) {
    const tc_lnode *n = l->nodes.data[k];
    bool data = false, some = n->kind == TC_LN_REDUCE && (n->reduce == TC_RED_SUM || n->reduce == TC_RED_PROD) &&
                              tc_dtype_is_float(n->outs[0]->dtype);
    for (int32_t i = 0; i < n->body.insts.count; i++) {
      data |= n->body.insts.data[i].op == TC_B_LOAD;
      some |= is_arithmetic(&n->body.insts.data[i]);
    }
    if (data && some) return true;
  }
  return false;
}

static bool is_empty(const tc_value *v) {
  bool empty = false;
  for (int32_t d = 0; d < v->type.rank; d++) empty |= tc_sym_is_int(v->type.sizes[d], 0);
  return empty;
}

static tc_status attempt(trial *t, tc_arena *arena, tc_module *m, const call *c) {
  tc_graph *g;
  tc_loops *loops;
  tc_template_registry templates = {0};
  tc_templates_register_core(arena, &templates);
  TC_TRY(call_graph(m, c, &g));
  if (!g->first || g->first->next || !call_small(g, LARGEST)) return TC_OK;
  for (int32_t i = 0; i < g->inputs.count; i++)
    if (is_empty(g->inputs.data[i].value)) return TC_OK;
  for (int32_t i = 0; i < g->outputs.count; i++)
    if (is_empty(g->outputs.data[i].arg.value)) return TC_OK;
  t->good++;
  t->counted |= !tc_sym_is_int(tc_plan_node_flops(arena, m->syms, g->first), 0);
  if (t->counted) return TC_OK;
  TC_TRY(tc_lower_graph(g, &(tc_lower_options){.templates = &templates}, &loops));
  t->arithmetic |= does_arithmetic(loops);
  return TC_OK;
}

static tc_status body(void *arg) {
  trial *t = ((void **)arg)[0];
  tc_arena *arena = ((void **)arg)[1];
  tc_module *m = TC_NEW(arena, tc_module);
  *m = (tc_module){.arena = arena, .ops = t->ops, .syms = tc_sym_create(arena), .bindings = tc_map_create(arena)};
  call_gen r = {.state = t->seed, .arena = arena, .syms = m->syms};
  for (int32_t i = 0; i < SEARCH && t->good < CALLS && !t->counted; i++) {
    call c;
    call_any(&r, t->op, &c);
    tc_status_free(attempt(t, arena, m, &c)); // the call, or its lowering without a library, is refused
  }
  return TC_OK;
}

// What has parts is counted by them; views have no loops; drawing numbers is no arithmetic on data.
static bool is_asked(const tc_op *op) {
  const tc_op_def *d = op->def;
  return call_possible(op) && d->lower && !tc_op_can_expand(op) &&
         !(d->traits & (TC_OP_VIEW | TC_OP_RANDOM | TC_OP_EFFECT));
}

static void arithmetic_is_counted(void **state) {
  (void)state;
  tc_arena *arena, *own;
  tc_op_registry *ops;
  const char *only = getenv("TC_TEST_OP");
  int32_t asked = 0, taken = 0, missing = 0;
  assert_ok(tc_arena_create(tc_system_allocator(), &arena));
  assert_ok(tc_op_registry_create(arena, &ops));
  assert_ok(tc_ops_register_core(ops));
  for (int32_t i = 0; i < tc_op_registry_count(ops); i++) {
    trial t = {.ops = ops, .op = tc_op_registry_at(ops, i), .seed = 1 + (uint64_t)i};
    if (!is_asked(t.op) || (only && !tc_sv_is(t.op->full_name, only))) continue;
    assert_ok(tc_arena_create(tc_system_allocator(), &own));
    assert_ok(tc_arena_guard(own, body, (void *[]){&t, own}));
    tc_arena_destroy(own);
    asked++, taken += t.good > 0;
    bool bad = t.arithmetic && !t.counted;
    missing += bad;
    if (bad) print_error(TC_SV_FMT " does arithmetic but counts no operations\n", TC_SV_ARG(t.op->full_name));
  }
  tc_arena_destroy(arena);
  print_message("%d ops with loops, %d with a call that is taken\n", asked, taken);
  assert_int_equal(missing, 0);
  if (!only) assert_true(taken > asked / 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(arithmetic_is_counted)};
  return TC_RUN(tests);
}
