// Prints random calls of every op with what tc says of them before anything runs: the results' dtypes, sizes and
// strides, or that it refuses. In the format of tests/unit/ops/cases.txt, for tools/compare_calls.py, which asks
// PyTorch the same.
//
//   call_list [--seed=S] [--cases=N] [--op=NAME]       N calls of each op (10), half of them with arguments changed
#include "core/ir/refexec.h"
#include "tests/fuzz/graphs/calls.h"
#include "tests/fuzz/graphs/drive.h"

enum { SEARCH = 60, LARGEST = 1 << 12 };

static void put_type(tc_sb *sb, const tc_tensor_type *t) {
  tc_sb_printf(sb, "%s[", tc_dtype_name(t->dtype));
  for (int32_t d = 0; d < t->rank; d++) tc_sb_printf(sb, "%s%lld", d ? ", " : "", (long long)t->sizes[d]->value);
  tc_sb_putz(sb, "]{");
  for (int32_t d = 0; d < t->rank; d++) tc_sb_printf(sb, "%s%lld", d ? ", " : "", (long long)t->strides[d]->value);
  tc_sb_putz(sb, "}");
}

static bool is_known(const tc_tensor_type *t) {
  bool known = true;
  for (int32_t d = 0; d < t->rank; d++) known &= tc_sym_is_const(t->sizes[d]) && tc_sym_is_const(t->strides[d]);
  return known;
}

static void put_call(tc_sb *sb, const tc_graph *g, const call *c) {
  int32_t input = 0;
  tc_sb_printf(sb, TC_SV_FMT "(", TC_SV_ARG(c->op->full_name));
  for (int32_t i = 0; i < c->n_args; i++) {
    const call_arg *a = &c->args[i];
    bool list = a->plain.kind == TC_AK_TENSORS, named = i < c->op->schema.n_args && c->op->schema.args[i].kwarg_only;
    tc_sb_putz(sb, i ? ", " : "");
    if (named) tc_sb_printf(sb, TC_SV_FMT "=", TC_SV_ARG(c->op->schema.args[i].name));
    tc_sb_putz(sb, list ? "[" : "");
    for (int32_t k = 0; k < a->n; k++) {
      tc_sb_putz(sb, k ? ", " : "");
      if (a->types[k].absent) tc_sb_putz(sb, "none");
      else tc_sb_printf(sb, "%%x%d", input++);
    }
    tc_sb_putz(sb, list ? "]" : "");
    if (!a->n && !list)
      tc_arg_print(sb, &a->plain, i < c->op->schema.n_args ? c->op->schema.args[i].type : TC_ST_OTHER);
  }
  tc_sb_putz(sb, ") | ");
  for (int32_t i = 0; i < g->inputs.count; i++) {
    tc_sb_printf(sb, "%sx%d ", i ? " ; " : "", i);
    put_type(sb, &g->inputs.data[i].value->type);
  }
}

// Prints the call with its outcome. True if it is taken.
static bool try_call(tc_module *m, const call *c, bool refused_too) {
  tc_graph *g;
  tc_sb sb = tc_sb_make(m->arena);
  tc_status s = call_graph(m, c, &g);
  bool good = s == TC_OK && call_small(g, LARGEST) && call_modest(c, LARGEST);
  put_call(&sb, g, c);
  tc_sb_putz(&sb, " | ");
  if (s != TC_OK) tc_sb_printf(&sb, "! %s", tc_status_text(s));
  for (int32_t i = 0; s == TC_OK && i < g->outputs.count; i++) {
    const tc_tensor_type *t = &g->outputs.data[i].arg.value->type;
    tc_sb_putz(&sb, i ? " ; " : "");
    if (is_known(t)) put_type(&sb, t);
    else tc_sb_putz(&sb, "?");
  }
  for (size_t i = 0; sb.text[i]; i++)
    if (sb.text[i] == '\n') sb.text[i] = ' ';
  bool small = true;
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_tensor_type *t = &g->inputs.data[i].value->type;
    for (int32_t d = 0; d < t->rank; d++) small &= t->sizes[d]->value <= LARGEST;
  }
  if (good || (refused_too && s != TC_OK && small && call_modest(c, LARGEST))) printf("%s\n", sb.text);
  tc_status_free(s);
  return good;
}

typedef struct listing {
  fuzz_session *x;
  tc_arena *arena;
  const tc_op *op;
  uint64_t seed;
} listing;

static tc_status list_one(void *arg) {
  listing *l = arg;
  tc_module *m = TC_NEW(l->arena, tc_module);
  *m = (tc_module){
      .arena = l->arena, .ops = l->x->ops, .syms = tc_sym_create(l->arena), .bindings = tc_map_create(l->arena)};
  call_gen r = {.state = l->seed, .arena = l->arena, .syms = m->syms, .layouts = true};
  call c;
  bool good = false;
  for (int32_t i = 0; i < SEARCH && !good; i++) {
    call_any(&r, l->op, &c);
    good = try_call(m, &c, call_chance(&r, 5));
  }
  if (!good) return TC_OK;
  call_change(&r, &c);
  try_call(m, &c, true);
  return TC_OK;
}

static tc_status all(void *arg) {
  fuzz_session *x = arg;
  TC_TRY(fuzz_set_up(x));
  int64_t rounds = x->o.cases ? x->o.cases : 10;
  for (int32_t i = 0; i < tc_op_registry_count(x->ops); i++) {
    listing l = {.x = x, .op = tc_op_registry_at(x->ops, i)};
    if (!call_possible(l.op) || (x->o.op && !tc_sv_is(l.op->full_name, x->o.op))) continue;
    for (int64_t k = 0; k < rounds; k++) {
      l.seed = x->o.seed + (uint64_t)k * 1000003u + (uint64_t)i;
      TC_TRY(tc_arena_create(tc_system_allocator(), &l.arena));
      tc_status s = tc_arena_guard(l.arena, list_one, &l);
      tc_arena_destroy(l.arena);
      TC_TRY(s);
    }
  }
  return TC_OK;
}

int main(int argc, char **argv) { return fuzz_main(argc, argv, all); }
