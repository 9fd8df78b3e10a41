// The core's functions through the boundary: ops and kernels of a real plugin, with memory running short anywhere.
#include "core/ir/expand.h"
#include "core/ir/op.h"
#include "core/kernel/kernel.h"
#include "core/plugin/host.h"
#include "tests/unit/unit.h"

// Every slot of every table is filled.
static void assert_full(const void *table, size_t size, const char *what) {
  const void *const *slots = table;
  uint64_t claimed;
  memcpy(&claimed, table, sizeof claimed);
  assert_int_equal(claimed, size);
  for (size_t i = 1; i < size / sizeof *slots; i++)
    if (!slots[i]) fail_msg("slot %zu of %s is empty", i, what);
}

TC_TEST(tables_are_full) {
  assert_full(&tc_host_kernel_read, sizeof tc_host_kernel_read, "kernel_read");
  assert_full(&tc_host_kernel_build, sizeof tc_host_kernel_build, "kernel_build");
  assert_full(&tc_host_op, sizeof tc_host_op, "op");
  assert_full(&tc_host_expand, sizeof tc_host_expand, "expand");
  assert_full(&tc_host_lower, sizeof tc_host_lower, "lower");
  return TC_OK;
}

static tc_status load(tc_arena *arena, tc_plugins **out_ps, tc_plugin **out) {
  const tc_sv folder = TC_SV(TC_BINARY_DIR "/tests/plugins/none");
  tc_plugins_options o = {
      .allocator = tc_arena_allocator(arena), .tables = tc_host_tables_core(), .folders = &folder, .n_folders = 1};
  TC_TRY(tc_plugins_create(&o, out_ps));
  tc_status s = tc_plugins_find_op(*out_ps, TC_SV("sample::two"), out);
  if (s == TC_OK) return TC_OK;
  tc_plugins_destroy(*out_ps);
  return s;
}

typedef struct use {
  tc_plugin *p;
  tc_arena *arena;
  tc_module *m;
} use;

// %b = sample::one(%x, 4); %c = sample::two(%b); then two is taken apart.
static tc_status build(void *arg) {
  use *u = arg;
  tc_op_registry *ops;
  TC_TRY(tc_op_registry_create(u->arena, &ops));
  for (int32_t i = 0; i < u->p->n_ops; i++) TC_TRY(tc_op_register(ops, &u->p->ops[i], u->p->name));
  TC_TRY(tc_module_create(tc_arena_allocator(u->arena), ops, &u->m));
  return TC_OK;
}

static tc_status run_ops(void *arg) {
  use *u = arg;
  tc_module *m = u->m;
  tc_graph *g = tc_graph_create(m, TC_SV("forward"));
  tc_int sizes[2] = {tc_sym_int(m->syms, 5), tc_sym_int(m->syms, 3)};
  tc_tensor_type t = {.dtype = TC_F32,
                      .rank = 2,
                      .sizes = sizes,
                      .strides = tc_row_major(m, 2, sizes),
                      .offset = tc_sym_int(m->syms, 0)};
  tc_value *x = tc_graph_add_input(g, TC_IN_USER, TC_SV("x"), TC_SV("x"), &t);
  tc_node *one, *two;
  const tc_arg args[] = {tc_arg_tensor(x), tc_arg_sym(tc_sym_int(m->syms, 4))};
  TC_TRY(tc_graph_add_node(g, NULL, tc_op_find(m->ops, TC_SV("sample::one")), 2, args, TC_SV("b"), TC_SV(""), &one));
  int64_t n;
  assert_int_equal(tc_int_is_const(one->results[0]->type.sizes[0], &n), 1);
  assert_int_equal(n, 20);
  const tc_arg again[] = {tc_arg_tensor(one->results[0])};
  TC_TRY(tc_graph_add_node(g, NULL, tc_op_find(m->ops, TC_SV("sample::two")), 1, again, TC_SV("c"), TC_SV(""), &two));
  tc_build b = {.graph = g};
  tc_arg *results;
  int32_t n_results;
  TC_TRY(tc_expand_op(&b, two->op, two->n_args, two->args, &n_results, &results));
  assert_int_equal(n_results, 1);
  assert_int_equal(tc_int_is_const(results[0].value->type.sizes[0], &n), 1);
  assert_int_equal(n, 120);
  return TC_OK;
}

TC_TEST_TORTURED(ops_of_plugins_use_the_core) {
  use u = {.arena = arena};
  tc_plugins *ps;
  TC_TRY(load(arena, &ps, &u.p));
  tc_status s = tc_arena_guard(arena, build, &u);
  if (s == TC_OK) s = tc_arena_guard(u.m->arena, run_ops, &u);
  tc_module_destroy(u.m);
  tc_plugins_destroy(ps);
  return s;
}

static tc_status fail_op(void *arg) {
  use *u = arg;
  tc_graph *g = tc_graph_create(u->m, TC_SV("forward"));
  tc_tensor_type t = {.dtype = TC_F32, .offset = tc_sym_int(u->m->syms, 0)};
  tc_value *x = tc_graph_add_input(g, TC_IN_USER, TC_SV("x"), TC_SV("x"), &t);
  const tc_arg args[] = {tc_arg_tensor(x), tc_arg_sym(tc_sym_int(u->m->syms, 4))};
  tc_node *one;
  return tc_graph_add_node(g, NULL, tc_op_find(u->m->ops, TC_SV("sample::one")), 2, args, TC_SV("b"),
                           TC_SV("model.py:3"), &one);
}

TC_TEST(failures_of_plugins_carry_their_words) {
  use u = {.arena = arena};
  tc_plugins *ps;
  TC_TRY(load(arena, &ps, &u.p));
  TC_TRY(tc_arena_guard(arena, build, &u));
  tc_status s = tc_arena_guard(u.m->arena, fail_op, &u);
  if (s == TC_OK || !strstr(tc_status_text(s), "'x' (f32[]) has no dimension to repeat along it") ||
      !strstr(tc_status_text(s), "sample::one") || !strstr(tc_status_text(s), "model.py:3"))
    fail_msg("%s", tc_status_text(s));
  tc_status_free(s);
  tc_module_destroy(u.m);
  tc_plugins_destroy(ps);
  return TC_OK;
}

static int32_t append(void *self, const void *data, uint64_t size) {
  tc_sb_put(self, (tc_sv){data, size});
  return TC_STATUS_OK;
}

TC_TEST(kernels_are_read_through_the_boundary) {
  tc_plugins *ps;
  tc_plugin *p;
  TC_TRY(load(arena, &ps, &p));
  tc_kb *b = tc_kb_create(arena, TC_SV("empty"), 8);
  tc_kernel *k;
  TC_TRY(tc_kb_finish(b, &k));
  tc_sb sb = tc_sb_make(arena);
  tc_sink sink = {&sb, append};
  const tc_kernel *kernels[] = {k};
  assert_int_equal(p->codegen->compile(p->host, NULL, kernels, 1, 2, &sink, NULL), TC_STATUS_OK);
  assert_string_equal(sb.text, "empty/8;");
  tc_plugins_destroy(ps);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tables_are_full),
      cmocka_unit_test(ops_of_plugins_use_the_core),
      cmocka_unit_test(failures_of_plugins_carry_their_words),
      cmocka_unit_test(kernels_are_read_through_the_boundary),
  };
  return TC_RUN(tests);
}
