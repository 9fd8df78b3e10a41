// The other passes, one by one, text to text; and the pass manager.
#include "tests/unit/passes/pass_test.h"

#define X                                                                                                             \
  "graph @f [s0 in [2, 64] hint 4] (%x : f32[2, 3] = user \"x\", %b : f32[3] = buffer \"b\" persistent, %i : i32[3] " \
  "= user \"i\", %c : c64[3] = user \"c\", %s : f32[s0, 3] = user \"s\") {\n"

TC_TEST(decompose_to_what_is_there) {
  EXPECT(decompose, X "%y = aten::linear(%x, %x, none) @ \"m.py:1 y\"\nreturn user %y }",
         "  %permute : f32[3, 2]{1, 3} = aten::permute(%x, [1, 0]) @ \"m.py:1 y\"\n  %y_1 : f32[2, 2] = aten::mm(%x, "
         "%permute) @ \"m.py:1 y\"\n  return user %y_1\n");
  EXPECT(decompose, X "%y = aten::linear(%s, %x)\n%m = aten::mean.dim(%y, [0])\nreturn user %m }",
         "  %permute : f32[3, 2]{1, 3} = aten::permute(%x, [1, 0])\n  %y_1 : f32[s0, 2] = aten::mm(%s, %permute)\n  "
         "%sum : f32[2] = aten::sum.dim_IntList(%y_1, [0], false, none)\n"
         "  %m_1 : f32[2] = aten::div.Tensor(%sum, s0)\n  return user %m_1\n");
  EXPECT(decompose, X "%y = aten::abs(%b)\nreturn user %y }",
         "  %neg : f32[3] = aten::neg(%b)\n  %relu : f32[3] = aten::relu(%b)\n  %relu_1 : f32[3] = aten::relu(%neg)\n  "
         "%y_1 : f32[3] = aten::add.Tensor(%relu, %relu_1, 1)\n  return user %y_1\n");
  return TC_OK;
}

static bool keep_linear(void *self, const tc_node *n) { return (*(int32_t *)self)++, tc_node_is(n, "linear"); }

TC_TEST(decompose_by_a_predicate) {
  tc_module *m;
  tc_graph *g;
  int32_t asked = 0;
  bool progress;
  TC_TRY(test_module(arena, &m));
  TC_TRY(test_parse(m, X "%y = aten::linear(%x, %x)\n%z = aten::abs(%y)\nreturn user %z }", &g));
  TC_TRY(tc_decompose(g, keep_linear, &asked, false, &progress));
  assert_true(progress && asked >= 2 && tc_node_is(g->first, "linear") && g->n_nodes == 5);
  return tc_graph_verify(g);
}

// The op's meta function promises another layout than its decomposition ends in: a copy keeps the promise.
TC_TEST(decompose_keeps_layouts) {
  static const tc_op_def row = {
      .schema = "swap(Tensor self) -> Tensor", .meta = m_self, .decompose = "neg(permute(self, [1, 0]))"};
  tc_module *m;
  tc_graph *g;
  TC_TRY(test_module(arena, &m));
  TC_TRY(tc_op_register((tc_op_registry *)m->ops, &row, TC_SV("")));
  TC_TRY(test_parse(m, "graph @f (%x : f32[3, 3] = user \"x\") {\n%y = aten::swap(%x)\nreturn user %y }", &g));
  TC_TRY(run_checked(g, (const tc_pass *const[]){&tc_pass_decompose}, 1));
  assert_true(tc_type_is_row_major(m, &g->outputs.data[0].arg.value->type));
  assert_true(tc_node_is(g->last, "clone"));
  return TC_OK;
}

TC_TEST(dce_drops_what_nothing_needs) {
  EXPECT(dce, X "%y = aten::relu(%x)\n%z = aten::neg(%y)\n%w = aten::exp(%x)\nreturn user %w }",
         "  %w : f32[2, 3] = aten::exp(%x)\n  return user %w\n");
  // writes stay, and so does what gives a size that is used
  EXPECT(dce, X "%y = aten::clone(%x)\n%z = aten::relu_(%y)\n%w = aten::neg(%y)\nreturn user %x }",
         "  %y : f32[2, 3] = aten::clone(%x, none)\n  %z : f32[2, 3] = aten::relu_(%y)\n  return user %x\n");
  tc_module *m;
  tc_graph *g;
  TC_TRY(test_module(arena, &m));
  TC_TRY(test_parse(m,
                    "graph @f [u0 unbacked in [0, inf], u1 unbacked in [0, inf]] (%x : f32[3] = user \"x\") {\n%n : "
                    "i64[u0, 1] = aten::nonzero(%x)\n%k : i64[u1, 1] = aten::nonzero(%x)\n"
                    "%y = aten::full([u0], 1.0)\nreturn user %y }",
                    &g));
  TC_TRY(run_checked(g, (const tc_pass *const[]){&tc_pass_dce, &tc_pass_cse}, 2));
  assert_int_equal(g->n_nodes, 2);
  return TC_OK;
}

TC_TEST(cse_merges_equal_nodes) {
  EXPECT2(cse, dce,
          X
          "%y = aten::relu(%x)\n%z = aten::relu(%x)\n%a = aten::add.Tensor(%y, %z)\n%p = aten::add.Tensor(%y, 1.0)\n%q "
          "= aten::add.Tensor(%y, 1)\n%r = aten::add.Tensor(%z, 1.0)\nreturn user %a, user %p, user %q, user %r }",
          "  %y : f32[2, 3] = aten::relu(%x)\n  %a : f32[2, 3] = aten::add.Tensor(%y, %y, 1)\n  %p : f32[2, 3] = "
          "aten::add.Tensor(%y, 1.0, 1)\n  %q : f32[2, 3] = aten::add.Tensor(%y, 1, 1)\n"
          "  return user %a, user %p, user %q, user %p\n");
  EXPECT2(cse, dce, X "%y, %yi = aten::max.dim(%x, 1)\n%z, %zi = aten::max.dim(%x, 1)\nreturn user %y, user %zi }",
          "  %y : f32[2], %yi : i64[2] = aten::max.dim(%x, 1, false)\n  return user %y, user %yi\n");
  return TC_OK;
}

TC_TEST(views_that_show_what_is_there) {
  // there and back; full slices; aliases
  EXPECT2(views, dce,
          X "%p = aten::permute(%x, [1, 0])\n%q = aten::transpose.int(%p, 0, 1)\n%r = aten::relu(%q)\nreturn user %r }",
          "  %r : f32[2, 3] = aten::relu(%x)\n  return user %r\n");
  EXPECT2(views, dce,
          X "%p = aten::slice.Tensor(%s, 0, 0, 9223372036854775807)\n%q = aten::alias(%p)\n%e = aten::expand(%q, [s0, "
            "3])\n%r = aten::relu(%e)\nreturn user %r }",
          "  %r : f32[s0, 3] = aten::relu(%s)\n  return user %r\n");
  EXPECT2(views, dce,
          X "%u = aten::unsqueeze(%x, 0)\n%q = aten::squeeze.dim(%u, 0)\n%r = aten::relu(%q)\nreturn user %r }",
          "  %r : f32[2, 3] = aten::relu(%x)\n  return user %r\n");
  // the same view twice, said differently
  EXPECT2(views, dce,
          X "%p = aten::permute(%x, [1, 0])\n%q = aten::transpose.int(%x, 1, 0)\n%r = aten::mul.Tensor(%p, %q)\nreturn "
            "user %r }",
          "  %p : f32[3, 2]{1, 3} = aten::permute(%x, [1, 0])\n  %r : f32[3, 2]{1, 3} = aten::mul.Tensor(%p, %p)\n  "
          "return user %r\n");
  // another offset or stride is another view
  EXPECT2(views, dce,
          X "%p = aten::slice.Tensor(%x, 0, 0, 1)\n%q = aten::slice.Tensor(%x, 0, 1, 2)\n%r = aten::mul.Tensor(%p, "
            "%q)\nreturn user %r }",
          "  %p : f32[1, 3] = aten::slice.Tensor(%x, 0, 0, 1, 1)\n  %q : f32[1, 3]{3, 1}+3 = aten::slice.Tensor(%x, 0, "
          "1, 2, 1)\n  %r : f32[1, 3] = aten::mul.Tensor(%p, %q)\n  return user %r\n");
  EXPECT2(views, dce,
          X "%p = aten::reshape(%x, [6])\n%q = aten::view(%p, [3, 2])\n%r = aten::relu(%q)\nreturn user %r }",
          "  %q_1 : f32[3, 2] = aten::view(%x, [3, 2])\n  %r : f32[3, 2] = aten::relu(%q_1)\n  return user %r\n");
  EXPECT2(views, dce,
          X "%p = aten::_conj(%c)\n%q = aten::_conj(%p)\n%v = aten::view_as_real(%q)\n%w = "
            "aten::view_as_complex(%v)\n%r = aten::mul.Tensor(%w, %w)\nreturn user %r }",
          "  %r : c64[3] = aten::mul.Tensor(%c, %c)\n  return user %r\n");
  return TC_OK;
}

TC_TEST(copies_that_nobody_can_tell) {
  EXPECT2(views, dce, X "%y = aten::clone(%x)\n%r = aten::relu(%y)\nreturn user %r }",
          "  %r : f32[2, 3] = aten::relu(%x)\n  return user %r\n");
  EXPECT2(views, dce, X "%y = aten::relu(%x)\n%r = aten::clone(%y)\nreturn user %r }",
          "  %y : f32[2, 3] = aten::relu(%x)\n  return user %y\n");
  // an output that must not be the input, two outputs that must not be one, a copy in another layout
  EXPECT2(views, dce, X "%y = aten::clone(%x)\nreturn user %y }",
          "  %y : f32[2, 3] = aten::clone(%x, none)\n  return user %y\n");
  EXPECT2(views, dce, X "%y = aten::relu(%x)\n%r = aten::clone(%y)\nreturn user %y, user %r }",
          "  %y : f32[2, 3] = aten::relu(%x)\n  %r : f32[2, 3] = aten::clone(%y, none)\n  return user %y, user %r\n");
  EXPECT2(views, dce, X "%y = aten::clone(%x)\n%v = aten::view(%y, [6])\nreturn user %v }",
          "  %y : f32[2, 3] = aten::clone(%x, none)\n  %v : f32[6] = aten::view(%y, [6])\n  return user %v\n");
  EXPECT2(
      views, dce,
      X
      "%p = aten::permute(%x, [1, 0])\n%y = aten::clone(%p, contiguous_format)\n%r = aten::relu(%y)\nreturn user %r }",
      "  %p : f32[3, 2]{1, 3} = aten::permute(%x, [1, 0])\n  %y : f32[3, 2] = aten::clone(%p, contiguous_format)\n  %r "
      ": f32[3, 2] = aten::relu(%y)\n  return user %r\n");
  return TC_OK;
}

#define FOLD(in, want) \
  TC_TRY(expect_body(arena, (const tc_pass *const[]){&tc_pass_fold, &tc_pass_views, &tc_pass_dce}, 3, in, want))

TC_TEST(fold_what_is_known) {
  FOLD(X "%o = aten::full([3], 2)\n%p = aten::mul.Tensor(%o, 3.5)\n%q = aten::expand(%p, [2, 3])\n%r = "
         "aten::neg(%q)\n%e = aten::add.Tensor(%x, %r)\nreturn user %e }",
       "  %r_1 : f32[2, 3] = aten::full([2, 3], -7.0, f32, none, none, none)\n  %e : f32[2, 3] = aten::add.Tensor(%x, "
       "%r_1, 1)\n  return user %e\n");
  FOLD(X "%o = aten::full([3], 200, u8)\n%p = aten::add.Tensor(%o, %o)\nreturn user %p }",
       "  %p_1 : u8[3] = aten::full([3], 144, u8, none, none, none)\n  return user %p_1\n"); // wraps
  FOLD(X "%o = aten::full([3], 0.1, f16)\n%p = aten::_to_copy(%o, f64)\nreturn user %p }",
       "  %p_1 : f64[3] = aten::full([3], 0.0999755859375, f64, none, none, none)\n  return user %p_1\n"); // rounds
  // neutral elements
  FOLD(X "%y = aten::mul.Tensor(%x, 1)\n%z = aten::add.Tensor(%y, 0.0)\n%w = aten::div.Tensor(%z, 1)\n%o = "
         "aten::full([2, 3], 1)\n%v = aten::mul.Tensor(%o, %w)\n%r = aten::relu(%v)\nreturn user %r }",
       "  %r : f32[2, 3] = aten::relu(%x)\n  return user %r\n");
  // not neutral: broadcasts, changes the dtype, divides ints
  FOLD(X "%o = aten::full([2, 3], 1.0)\n%v = aten::mul.Tensor(%b, %o)\nreturn user %v }",
       "  %o : f32[2, 3] = aten::full([2, 3], 1.0, none, none, none, none)\n  %v : f32[2, 3] = aten::mul.Tensor(%b, "
       "%o)\n  return user %v\n");
  FOLD(X "%v = aten::mul.Tensor(%i, 1.0)\nreturn user %v }",
       "  %v : f32[3] = aten::mul.Tensor(%i, 1.0)\n  return user %v\n");
  FOLD(X "%v = aten::div.Tensor(%i, 1)\nreturn user %v }",
       "  %v : f32[3] = aten::div.Tensor(%i, 1)\n  return user %v\n");
  // 0 times a float may be NaN; times an int it is 0
  FOLD(X "%v = aten::mul.Tensor(%x, 0)\nreturn user %v }",
       "  %v : f32[2, 3] = aten::mul.Tensor(%x, 0)\n  return user %v\n");
  FOLD(X "%v = aten::mul.Tensor(%i, 0)\nreturn user %v }",
       "  %v_1 : i32[3] = aten::full([3], 0, i32, none, none, none)\n  return user %v_1\n");
  // x*1 as an output is still a tensor of its own
  FOLD(X "%v = aten::mul.Tensor(%x, 1)\nreturn user %v }",
       "  %v_1 : f32[2, 3] = aten::clone(%x, none)\n  return user %v_1\n");
  FOLD(X "%t = aten::full([2, 3], true, bool)\n%r = aten::where.self(%t, %x, %b)\n%q = aten::neg(%r)\nreturn user %q }",
       "  %q : f32[2, 3] = aten::neg(%x)\n  return user %q\n");
  return TC_OK;
}

TC_TEST(fold_casts) {
  FOLD(X "%y = aten::to.dtype(%x, f64)\n%z = aten::to.dtype(%y, f32)\n%r = aten::relu(%z)\nreturn user %r }",
       "  %r : f32[2, 3] = aten::relu(%x)\n  return user %r\n");
  FOLD(X "%y = aten::_to_copy(%x, f64)\n%z = aten::_to_copy(%y, f16)\nreturn user %z }",
       "  %z_1 : f16[2, 3] = aten::_to_copy(%x, f16, none, none, none, false, none)\n  return user %z_1\n");
  // rounds on the way
  FOLD(X "%y = aten::_to_copy(%x, f16)\n%z = aten::_to_copy(%y, f32)\nreturn user %z }",
       "  %y : f16[2, 3] = aten::_to_copy(%x, f16, none, none, none, false, none)\n  %z : f32[2, 3] = "
       "aten::_to_copy(%y, f32, none, none, none, false, none)\n  return user %z\n");
  // i32 does not fit into f32, but into f64
  FOLD(X "%y = aten::_to_copy(%i, f32)\n%z = aten::_to_copy(%y, i32)\nreturn user %z }",
       "  %y : f32[3] = aten::_to_copy(%i, f32, none, none, none, false, none)\n  %z : i32[3] = aten::_to_copy(%y, "
       "i32, none, none, none, false, none)\n  return user %z\n");
  FOLD(X "%y = aten::_to_copy(%i, f64)\n%z = aten::_to_copy(%y, i32)\n%r = aten::neg(%z)\nreturn user %r }",
       "  %r : i32[3] = aten::neg(%i)\n  return user %r\n");
  FOLD(X "%y = aten::copy(%x, %b)\n%r = aten::neg(%y)\nreturn user %r }",
       "  %expand : f32[2, 3]{0, 1} = aten::expand(%b, [2, 3], false)\n  %y_1 : f32[2, 3] = aten::clone(%expand, "
       "contiguous_format)\n  %r : f32[2, 3] = aten::neg(%y_1)\n  return user %r\n");
  return TC_OK;
}

TC_TEST(conjugations_that_mean_nothing) {
  tc_module *m;
  tc_graph *g;
  TC_TRY(test_module(arena, &m));
  TC_TRY(test_parse(m,
                    X "%r = aten::resolve_conj(%c)\n%p = aten::_conj(%r)\n%q = aten::_conj(%p)\n%y = "
                      "aten::mul.Tensor(%q, %q)\nreturn user %y }",
                    &g));
  TC_TRY(run_checked(g, (const tc_pass *const[]){&tc_pass_conj, &tc_pass_views, &tc_pass_dce}, 3));
  assert_int_equal(g->n_nodes, 1);
  EXPECT(conj, X "%p = aten::_conj(%c)\n%r = aten::resolve_conj(%p)\nreturn user %r }",
         "  %p : c64[3] conj = aten::_conj(%c)\n  %r : c64[3] = aten::resolve_conj(%p)\n  return user %r\n");
  return TC_OK;
}

TC_TEST(updates_in_place) {
  // a counter; a cache written twice; a scatter into a value of the graph's own
  EXPECT(reinplace, X "%y = aten::add.Tensor(%b, 1)\nreturn buffer \"b\" %y }",
         "  %y : f32[3] = aten::add.Tensor(%b, 1, 1) inplace 0\n  return buffer \"b\" %y\n");
  EXPECT(reinplace,
         X "%r = aten::neg(%b)\n%y = aten::select_scatter(%x, %r, 0, 0)\n%z = aten::select_scatter(%y, %b, 0, "
           "1)\nreturn input \"x\" %z }",
         "  %r : f32[3] = aten::neg(%b)\n  %y : f32[2, 3] = aten::select_scatter(%x, %r, 0, 0) inplace 0\n  %z : "
         "f32[2, 3] = aten::select_scatter(%y, %b, 0, 1) inplace 0\n  return input \"x\" %z\n");
  EXPECT(reinplace, X "%e = aten::exp(%x)\n%y = aten::select_scatter(%e, %b, 0, 0)\nreturn user %y }",
         "  %e : f32[2, 3] = aten::exp(%x)\n  %y : f32[2, 3] = aten::select_scatter(%e, %b, 0, 0) inplace 0\n  return "
         "user %y\n");
  return TC_OK;
}

TC_TEST(updates_that_need_the_old_value) {
#define SAME(in, body) EXPECT(reinplace, X in " }", body)
  // read later; read later through a view; an output; an input that is not mutated; the source lies in the target
  SAME(
      "%y = aten::add.Tensor(%b, 1)\n%z = aten::neg(%b)\nreturn buffer \"b\" %y, user %z",
      "  %y : f32[3] = aten::add.Tensor(%b, 1, 1)\n  %z : f32[3] = aten::neg(%b)\n  return buffer \"b\" %y, user %z\n");
  SAME("%v = aten::view(%b, [3])\n%y = aten::add.Tensor(%b, 1)\n%z = aten::neg(%v)\nreturn buffer \"b\" %y, user %z",
       "  %v : f32[3] = aten::view(%b, [3])\n  %y : f32[3] = aten::add.Tensor(%b, 1, 1)\n  %z : f32[3] = "
       "aten::neg(%v)\n  return buffer \"b\" %y, user %z\n");
  SAME("%y = aten::add.Tensor(%b, 1)\nreturn buffer \"b\" %y, user %b",
       "  %y : f32[3] = aten::add.Tensor(%b, 1, 1)\n  return buffer \"b\" %y, user %b\n");
  SAME("%y = aten::add.Tensor(%b, 1)\nreturn buffer \"b\" %y, user %y",
       "  %y : f32[3] = aten::add.Tensor(%b, 1, 1)\n  return buffer \"b\" %y, user %y\n");
  SAME("%y = aten::select_scatter(%x, %b, 0, 0)\nreturn user %y",
       "  %y : f32[2, 3] = aten::select_scatter(%x, %b, 0, 0)\n  return user %y\n");
  SAME("%v = aten::select.int(%x, 0, 1)\n%y = aten::select_scatter(%x, %v, 0, 0)\nreturn input \"x\" %y",
       "  %v : f32[3]{1}+3 = aten::select.int(%x, 0, 1)\n  %y : f32[2, 3] = aten::select_scatter(%x, %v, 0, 0)\n  "
       "return input \"x\" %y\n");
#undef SAME
  return TC_OK;
}

// ---- the manager ----
static tc_status liar_run(tc_graph *g, bool *out_progress) {
  (void)g;
  *out_progress = true;
  return TC_OK;
}
static tc_status breaker_run(tc_graph *g, bool *out_progress) {
  tc_node_kill(g->first);
  tc_graph_sweep(g);
  *out_progress = true;
  return TC_OK;
}
static const tc_pass liar = {"liar", liar_run}, breaker = {"breaker", breaker_run};

static void collect(void *self, int32_t artifact, tc_sv text) {
  (void)artifact;
  tc_sb_put(self, text);
}

TC_TEST(the_manager_checks_skips_and_stops) {
  tc_module *m;
  tc_graph *g;
  const tc_pass_options checked = {.verify = true};
#define FRESH                     \
  TC_TRY(test_module(arena, &m)); \
  TC_TRY(test_parse(m, X "%y = aten::mul.Tensor(%x, 1)\n%z = aten::relu(%y)\n%d = aten::neg(%y)\nreturn user %z }", &g))
  FRESH;
  assert_error(tc_run_passes(g, (const tc_pass *const[]){&liar}, 1, 1, &checked), TC_STATUS_INTERNAL,
               "the pass 'liar' says that it made progress");
  assert_error(tc_run_passes(g, (const tc_pass *const[]){&breaker}, 1, 1, &checked), TC_STATUS_INTERNAL,
               "after the pass 'breaker'");
  FRESH;
  const tc_pass *const all[] = {&tc_pass_fold, &tc_pass_views, &tc_pass_dce};
  TC_TRY(tc_run_passes(g, all, 3, 8, &(tc_pass_options){.verify = true, .skip = TC_SV("dce, fold")}));
  assert_int_equal(g->n_nodes, 3);
  TC_TRY(tc_run_passes(g, all, 3, 8, &(tc_pass_options){.verify = true, .stop_after = 1}));
  assert_int_equal(g->n_nodes, 3);
  assert_true(tc_node_is(g->first, "clone")); // fold only
  tc_sb log = tc_sb_make(arena);
  tc_logger logger = {.mask = 1u << TC_LOG_PASSES, .write = collect, .self = &log};
  TC_TRY(tc_run_passes(g, all, 3, 8, &(tc_pass_options){.verify = true, .logger = &logger}));
  assert_int_equal(g->n_nodes, 1);
  assert_non_null(strstr(log.text, "after 'views', round 0"));
#undef FRESH
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(decompose_to_what_is_there),
                                     cmocka_unit_test(decompose_by_a_predicate),
                                     cmocka_unit_test(decompose_keeps_layouts),
                                     cmocka_unit_test(dce_drops_what_nothing_needs),
                                     cmocka_unit_test(cse_merges_equal_nodes),
                                     cmocka_unit_test(views_that_show_what_is_there),
                                     cmocka_unit_test(copies_that_nobody_can_tell),
                                     cmocka_unit_test(fold_what_is_known),
                                     cmocka_unit_test(fold_casts),
                                     cmocka_unit_test(conjugations_that_mean_nothing),
                                     cmocka_unit_test(updates_in_place),
                                     cmocka_unit_test(updates_that_need_the_old_value),
                                     cmocka_unit_test(the_manager_checks_skips_and_stops)};
  return TC_RUN(tests);
}
