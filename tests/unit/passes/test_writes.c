// What ops write to arguments other than as in-place forms: the reference engine gives the same for a graph as it is
// and made functional, also where what is written is a view, and what was written is not what was there.
#include "core/ir/refexec.h"
#include "core/ops/ops.h"
#include "core/passes/passes.h"
#include "tests/unit/unit.h"

enum { INPUTS = 3, OUTPUTS = 8 };

// %a[2, 3, 4] and %all[6], of which every second element is %m; %v[3].
#define CALL(results, call)                                                                               \
  "graph @f (%a : f32[2, 3, 4] = user \"a\", %all : f32[6] = user \"all\", %v : f32[3] = user \"v\") {\n" \
  "  %m = aten::slice.Tensor(%all, 0, 0, 6, 2)\n  " results " = " call "\n"                               \
  "  %read = aten::mul.Tensor(%all, 2)\n  return user %all, user %v, user %read, user %y }"

static const char *const graphs[] = {
    CALL("%y", "aten::batch_norm(%a, none, none, %m, %v, true, 0.25, 1e-05, false)"),
    CALL("%y, %s, %i", "aten::native_batch_norm(%a, none, none, %m, %v, true, 1.0, 0.5)"),
    CALL("%y, %s, %i", "aten::_native_batch_norm_legit(%a, %v, none, %m, %v, true, 0.25, 1e-05)"),
    CALL("%y, %s, %i, %r", "aten::_batch_norm_with_update(%a, none, %m, %m, %v, 0.25, 1e-05)"),
    CALL("%y", "aten::instance_norm(%a, none, none, %m, %v, true, 0.25, 1e-05, false)"),
    CALL("%y", "aten::sum.IntList_out(%a, [0, 2], out=%m)"),
    CALL("%y, %i", "aten::var_mean.correction_out(%a, [0, 2], out0=%v, out1=%m)"),
};

static tc_status make_graph(tc_arena *arena, const char *text, tc_graph **out) {
  tc_lexer lx;
  tc_module *m = TC_NEW(arena, tc_module);
  *m = (tc_module){.arena = arena, .syms = tc_sym_create(arena), .bindings = tc_map_create(arena)};
  tc_op_registry *ops;
  TC_TRY(tc_op_registry_create(arena, &ops));
  TC_TRY(tc_ops_register_core(ops));
  m->ops = ops;
  tc_lex_init(&lx, arena, TC_SV("test"), tc_sv_of(text));
  return tc_graph_parse(m, &lx, out);
}

static tc_status make_inputs(tc_tensor *in) {
  static const int64_t sizes[INPUTS][3] = {{2, 3, 4}, {6}, {3}};
  static const int32_t ranks[INPUTS] = {3, 1, 1};
  for (int32_t i = 0; i < INPUTS; i++) {
    TC_TRY(tc_tensor_create(tc_system_allocator(), TC_F32, ranks[i], sizes[i], &in[i]));
    tc_tensor_fill_uniform_int(&tc_executor_serial, &in[i], 5 + (uint64_t)i, 1, 9);
  }
  return TC_OK;
}

// Elements, whatever lies between them.
static bool same(const tc_tensor *a, const tc_tensor *b) {
  int64_t index[TC_MAX_RANK], n = tc_tensor_numel(a);
  bool equal = n == tc_tensor_numel(b);
  for (int64_t e = 0; e < n && equal; e++) {
    double x, y;
    int64_t rest = e;
    for (int32_t d = a->rank - 1; d >= 0; d--) index[d] = rest % a->sizes[d], rest /= a->sizes[d];
    tc_tensor_get(a, index, &x, NULL), tc_tensor_get(b, index, &y, NULL);
    equal = x == y;
  }
  return equal;
}

TC_TEST(what_is_written_is_read) {
  for (size_t k = 0; k < sizeof graphs / sizeof *graphs; k++) {
    tc_graph *g;
    tc_tensor in[INPUTS] = {0}, plain[OUTPUTS] = {0}, functional[OUTPUTS] = {0};
    bool progress;
    TC_TRY(make_inputs(in));
    TC_TRY(make_graph(arena, graphs[k], &g), "of\n%s", graphs[k]);
    int32_t n = g->outputs.count;
    TC_TRY(tc_ref_run(g, tc_system_allocator(), INPUTS, in, plain, NULL), "of\n%s", graphs[k]);
    TC_TRY(tc_pass_functionalize.run(g, &progress));
    TC_TRY(tc_ref_run(g, tc_system_allocator(), INPUTS, in, functional, NULL));
    if (same(&plain[0], &in[1])) fail_msg("nothing was written by\n%s", graphs[k]);
    for (int32_t i = 0, more = g->outputs.count - n; i < n; i++)
      if (!same(&plain[i], &functional[i + more])) fail_msg("output %d differs of\n%s", (int)i, graphs[k]);
    for (int32_t i = 0; i < OUTPUTS; i++) tc_tensor_unref(&plain[i]), tc_tensor_unref(&functional[i]);
    for (int32_t i = 0; i < INPUTS; i++) tc_tensor_unref(&in[i]);
  }
  return TC_OK;
}

// Statistics of all channels in one place would be overwritten by each other; without training they are only read.
TC_TEST(one_place_for_all_is_refused) {
  for (int32_t training = 0; training < 2; training++) {
    tc_graph *g;
    tc_sv text =
        tc_sv_printf(arena,
                     "graph @f (%%a : f32[2, 3, 4] = user \"a\", %%m : f32[1] = user \"m\") {\n"
                     "  %%e = aten::expand(%%m, [3])\n  %%v = aten::clone(%%m)\n  %%w = aten::expand(%%v, [3])\n"
                     "  %%y = aten::batch_norm(%%a, none, none, %%e, %%w, %s, 0.25, 1e-05, false)\n"
                     "  return user %%y }",
                     training ? "true" : "false");
    tc_status s = make_graph(arena, text.data, &g);
    assert_int_equal(s != TC_OK, training);
    if (s) assert_non_null(strstr(tc_status_text(s), "aten::batch_norm"));
    if (s) assert_non_null(strstr(tc_status_text(s), "refers to a single memory location"));
    tc_status_free(s);
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_written_is_read),
                                     cmocka_unit_test(one_place_for_all_is_refused)};
  return TC_RUN(tests);
}
