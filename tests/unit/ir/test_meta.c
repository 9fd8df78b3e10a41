// Meta: promotion, broadcasting and strides as PyTorch has them, messages, in-place ops, decompositions.
#include "core/ir/expand.h"
#include "tests/unit/ir/test_ops.h"

// ---- promotion ----
static tc_tensor_type operand(tc_dtype d, int32_t rank, bool wrapped) {
  return (tc_tensor_type){.dtype = d, .rank = rank, .wrapped = wrapped};
}

static tc_dtype promote2(tc_tensor_type x, tc_tensor_type y) {
  tc_promotion p = {0};
  tc_promotion_add(&p, &x);
  tc_promotion_add(&p, &y);
  return tc_promotion_result(&p);
}

TC_TEST(promotion_of_types) {
  static const struct {
    tc_dtype a, b, r;
  } cases[] = {{TC_U8, TC_I8, TC_I16},    {TC_U8, TC_I32, TC_I32},   {TC_BOOL, TC_U8, TC_U8},
               {TC_I64, TC_F16, TC_F16},  {TC_F16, TC_BF16, TC_F32}, {TC_BF16, TC_F32, TC_F32},
               {TC_F64, TC_F32, TC_F64},  {TC_F16, TC_C32, TC_C32},  {TC_F32, TC_C32, TC_C64},
               {TC_F64, TC_C64, TC_C128}, {TC_BF16, TC_C32, TC_C64}, {TC_BF16, TC_BC32, TC_BC32},
               {TC_C32, TC_BC32, TC_C64}, {TC_I64, TC_C64, TC_C64},  {TC_U16, TC_I32, TC_DTYPE_NONE},
               {TC_U16, TC_F32, TC_F32},  {TC_U16, TC_BOOL, TC_U16}, {TC_I16, TC_I8, TC_I16}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (tc_promote_types(cases[i].a, cases[i].b) != cases[i].r ||
        tc_promote_types(cases[i].b, cases[i].a) != cases[i].r)
      fail_msg("%s with %s", tc_dtype_name(cases[i].a), tc_dtype_name(cases[i].b));
  }
  return TC_OK;
}

TC_TEST(promotion_by_category) {
  // tensors with dimensions win over rank 0 over numbers, unless of a lower class
  assert_int_equal(promote2(operand(TC_F16, 1, 0), operand(TC_F64, 0, 0)), TC_F16);
  assert_int_equal(promote2(operand(TC_I32, 1, 0), operand(TC_F64, 0, 0)), TC_F64);
  assert_int_equal(promote2(operand(TC_I32, 1, 0), operand(TC_F64, 0, 1)), TC_F32);
  assert_int_equal(promote2(operand(TC_F64, 1, 0), operand(TC_F64, 0, 1)), TC_F64);
  assert_int_equal(promote2(operand(TC_U8, 1, 0), operand(TC_I64, 0, 1)), TC_U8);
  assert_int_equal(promote2(operand(TC_BOOL, 1, 0), operand(TC_I64, 0, 1)), TC_I64);
  assert_int_equal(promote2(operand(TC_F16, 1, 0), operand(TC_C128, 0, 1)), TC_C32);
  assert_int_equal(promote2(operand(TC_BF16, 1, 0), operand(TC_C128, 0, 1)), TC_C64);
  assert_int_equal(promote2(operand(TC_F64, 2, 0), operand(TC_C128, 0, 1)), TC_C128);
  assert_int_equal(promote2(operand(TC_I64, 2, 0), operand(TC_C128, 0, 1)), TC_C64);
  assert_int_equal(promote2(operand(TC_F32, 0, 0), operand(TC_F64, 0, 1)), TC_F32);
  assert_int_equal(promote2(operand(TC_I64, 0, 0), operand(TC_I32, 3, 0)), TC_I32);
  assert_int_equal(promote2(operand(TC_C64, 0, 0), operand(TC_F64, 3, 0)), TC_C128);
  return TC_OK;
}

// ---- strides: expected values from PyTorch 2.x (torch.empty_strided, then the op) ----
typedef struct {
  int32_t rank;
  int64_t sizes[4], strides[4];
} layout;

static tc_tensor_type strided(tc_sym_ctx *c, tc_arena *arena, const layout *l) {
  tc_int *e = TC_NEW_ARRAY(arena, tc_int, 8);
  for (int32_t i = 0; i < l->rank; i++) e[i] = tc_sym_int(c, l->sizes[i]), e[4 + i] = tc_sym_int(c, l->strides[i]);
  return (tc_tensor_type){.dtype = TC_F32, .rank = l->rank, .sizes = e, .strides = e + 4, .offset = tc_sym_int(c, 0)};
}

TC_TEST(strides_of_pointwise_results) {
  static const struct {
    int32_t n;
    layout in[2];
    layout out;
  } cases[] = {
      {1, {{3, {2, 3, 4}, {12, 4, 1}}}, {3, {2, 3, 4}, {12, 4, 1}}},
      {1, {{3, {2, 3, 4}, {1, 8, 2}}}, {3, {2, 3, 4}, {1, 8, 2}}}, // dense: kept
      {1, {{2, {4, 3}, {1, 8}}}, {2, {4, 3}, {1, 4}}},             // gaps: packed in the same order
      {2, {{4, {2, 8, 4, 4}, {128, 1, 32, 8}}, {4, {2, 8, 4, 4}, {128, 1, 32, 8}}}, {4, {2, 8, 4, 4}, {128, 1, 32, 8}}},
      {2,
       {{4, {2, 8, 4, 4}, {128, 1, 32, 8}}, {4, {2, 8, 4, 4}, {128, 16, 4, 1}}},
       {4, {2, 8, 4, 4}, {128, 1, 32, 8}}}, // the first decides
      {2, {{4, {2, 8, 4, 4}, {128, 16, 4, 1}}, {4, {2, 8, 4, 4}, {128, 1, 32, 8}}}, {4, {2, 8, 4, 4}, {128, 16, 4, 1}}},
      {2,
       {{4, {2, 8, 4, 4}, {128, 1, 32, 8}}, {4, {1, 8, 1, 1}, {8, 1, 1, 1}}},
       {4, {2, 8, 4, 4}, {128, 1, 32, 8}}}, // bias
      {2, {{4, {1, 8, 1, 1}, {8, 1, 1, 1}}, {4, {2, 8, 4, 4}, {128, 1, 32, 8}}}, {4, {2, 8, 4, 4}, {128, 1, 32, 8}}},
      {2, {{2, {4, 3}, {1, 4}}, {1, {3}, {1}}}, {2, {4, 3}, {1, 4}}},
      {2, {{2, {4, 1}, {1, 1}}, {2, {1, 3}, {3, 1}}}, {2, {4, 3}, {3, 1}}},
      {1, {{3, {4, 1, 5}, {5, 1, 1}}}, {3, {4, 1, 5}, {5, 5, 1}}},                // contiguous although a stride is odd
      {2, {{3, {4, 1, 5}, {5, 1, 1}}, {0, {0}, {0}}}, {3, {4, 1, 5}, {5, 1, 1}}}, // with a rank-0 operand it is not
      {2, {{2, {0, 3}, {1, 1}}, {1, {3}, {1}}}, {2, {0, 3}, {1, 0}}},
      {2, {{3, {2, 3, 4}, {3, 1, 6}}, {1, {4}, {1}}}, {3, {2, 3, 4}, {3, 1, 6}}},
      {2, {{3, {2, 1, 3}, {3, 7, 1}}, {1, {1}, {1}}}, {3, {2, 1, 3}, {3, 6, 1}}},
      {1, {{2, {3, 4}, {0, 1}}}, {2, {3, 4}, {4, 1}}}, // expanded
  };
  tc_sym_ctx *c = tc_sym_create(arena);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tc_tensor_type t[2];
    const tc_tensor_type *operands[2];
    for (int32_t k = 0; k < cases[i].n; k++) t[k] = strided(c, arena, &cases[i].in[k]), operands[k] = &t[k];
    tc_tensor_type want = strided(c, arena, &cases[i].out);
    tc_int got[4];
    tc_strides_make_pointwise(c, cases[i].n, operands, want.rank, want.sizes, got);
    for (int32_t d = 0; d < want.rank; d++)
      if (got[d] != want.strides[d])
        fail_msg("case %d: stride %d is %d, expected %d", (int)i, (int)d, (int)got[d]->value,
                 (int)want.strides[d]->value);
  }
  return TC_OK;
}

TC_TEST(strides_that_are_preserved) {
  static const struct {
    layout in;
    int64_t out[4];
  } cases[] = {{{3, {2, 3, 4}, {1, 8, 2}}, {1, 8, 2}}, // dense
               {{2, {4, 3}, {1, 8}}, {1, 4}},
               {{2, {3, 4}, {0, 1}}, {4, 1}},
               {{3, {2, 1, 3}, {3, 7, 1}}, {3, 7, 1}}, // dense: a stride that means nothing is kept too
               {{3, {2, 3, 4}, {24, 8, 2}}, {12, 4, 1}},
               {{2, {0, 3}, {1, 1}}, {1, 1}},
               {{3, {4, 1, 5}, {5, 1, 2}}, {5, 1, 1}}};
  tc_sym_ctx *c = tc_sym_create(arena);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tc_tensor_type t = strided(c, arena, &cases[i].in);
    tc_int got[4];
    tc_strides_make_preserve(c, t.rank, t.sizes, t.strides, got);
    for (int32_t d = 0; d < t.rank; d++) assert_int_equal(got[d]->value, cases[i].out[d]);
  }
  return TC_OK;
}

TC_TEST(symbolic_sizes_broadcast) {
  tc_module *m;
  tc_graph *g;
  TC_TRY(test_module(arena, &m));
  TC_TRY(test_parse(m,
                    "graph @f [s0 in [2, 64] hint 8, s1 in [2, 64] hint 8] (%x : f32[s0, 4] = user \"x\", %b : f32[4] "
                    "= user \"b\", %y : f32[s1, 4]{1, s1} = user \"y\") {\n"
                    "%a : f32[s0, 4] = aten::add.Tensor(%x, %b)\n"
                    "%c = aten::mul.Tensor(%a, %y)\n"
                    "%d = aten::add.Tensor(%y, 2.0)\n"
                    "return user %c, user %d }",
                    &g));
  assert_int_equal(m->requires_.count, 1); // s0 == s1
  tc_sb sb = tc_sb_make(arena);
  tc_sym_print(&sb, m->requires_.data[0]);
  assert_true(strstr(sb.text, "s0") && strstr(sb.text, "s1") && strstr(sb.text, "=="));
  const tc_tensor_type *d = &g->outputs.data[1].arg.value->type;
  assert_true(tc_sym_is_int(d->strides[0], 1)); // column-major is kept
  assert_sv(d->strides[1]->name, "s1");
  return tc_graph_verify(g);
}

// ---- messages ----
TC_TEST(errors_say_what_and_where) {
  tc_module *m;
  tc_graph *g;
  TC_TRY(test_module(arena, &m));
#define HEAD "graph @f (%x : f32[2, 3] = user \"x\", %y : f32[4] = user \"y\", %z : i32[2, 3] = user \"z\") {\n"
  tc_status s = test_parse(m, HEAD "%a = aten::add.Tensor(%x, %y) @ \"model.py:12 h = x + y\"\nreturn user %a }", &g);
  assert_non_null(s);
  const char *text = tc_status_text(s);
  static const char *const parts[] = {"aten::add.Tensor", "'self' (f32[2, 3])", "'other' (f32[4])",
                                      "model.py:12 h = x + y", "test.tc:2:6"};
  for (size_t i = 0; i < 5; i++)
    if (!strstr(text, parts[i])) fail_msg("no '%s' in:\n%s", parts[i], text);
  tc_status_free(s);
  assert_error(test_parse(m, HEAD "%a = aten::mm(%x, %x)\nreturn user %a }", &g), TC_STATUS_INVALID_ARGUMENT,
               "columns of 'self' (f32[2, 3]) and rows of 'mat2' (f32[2, 3]) differ");
  assert_error(test_parse(m, HEAD "%a = aten::add_.Tensor(%y, %x)\nreturn user %a }", &g), TC_STATUS_INVALID_ARGUMENT,
               "do not broadcast");
  assert_error(
      test_parse(m, HEAD "%b = aten::expand(%y, [2, 4])\n%a = aten::add_.Tensor(%y, %b)\nreturn user %a }", &g),
      TC_STATUS_INVALID_ARGUMENT, "f32[2, 4] does not fit into what is written, f32[4]");
  assert_error(test_parse(m, HEAD "%a = aten::mul_.Tensor(%z, %x)\nreturn user %a }", &g), TC_STATUS_INVALID_ARGUMENT,
               "dtype f32 cannot be written to a tensor of dtype i32");
  assert_error(test_parse(m, HEAD "%a = aten::sum.dim_IntList(%x, [5])\nreturn user %a }", &g),
               TC_STATUS_INVALID_ARGUMENT, "dim 5 is out of range");
  assert_error(test_parse(m, HEAD "%a = aten::mm(%x)\nreturn user %a }", &g), TC_STATUS_INVALID_ARGUMENT,
               "the argument 'mat2' is missing");
  assert_error(test_parse(m, HEAD "%a = aten::mm(%x, \"a\")\nreturn user %a }", &g), TC_STATUS_INVALID_ARGUMENT,
               "the argument 'mat2' is a string, a tensor is wanted");
  assert_error(test_parse(m, HEAD "%a = aten::linear(%x, %y)\nreturn user %a }", &g), TC_STATUS_INVALID_ARGUMENT,
               "aten::permute");
#undef HEAD
  const tc_op *op;
  assert_error(tc_op_find_target(m->ops, TC_SV("torch.ops.aten.addd.Tensor"), &op), TC_STATUS_NOT_FOUND,
               "aten::add.Tensor");
  assert_error(tc_op_find_target(m->ops, TC_SV("torch.ops.aten.fft_rfft.default"), &op), TC_STATUS_NOT_FOUND,
               "unknown; the fft plugin has it");
  assert_error(tc_op_find_target(m->ops, TC_SV("torch.ops.aten.stft.center"), &op), TC_STATUS_NOT_FOUND,
               "unknown; the fft plugin has it");
  assert_ok(tc_op_find_target(m->ops, TC_SV("torch.ops.aten.add_.Tensor"), &op));
  assert_non_null(op->functional);
  assert_ok(tc_op_find_target(m->ops, TC_SV("aten.relu.default"), &op));
  assert_sv(op->full_name, "aten::relu");
  return TC_OK;
}

TC_TEST(two_rows_of_a_name_are_refused) {
  tc_op_registry *r;
  static const tc_op_def row = {.schema = "f(Tensor self) -> Tensor", .meta = m_same},
                         inplace = {.schema = "f_(Tensor(a!) self) -> Tensor(a!)", .meta = m_same},
                         text = {.schema = "g(Tensor self) -> Tensor", .decompose = "relu("};
  TC_TRY(tc_op_registry_create(arena, &r));
  TC_TRY(tc_op_register(r, &row, TC_SV("")));
  TC_TRY(tc_op_register(r, &inplace, TC_SV(""))); // takes the place of the derived one
  assert_null(tc_op_find(r, TC_SV("aten::f_"))->functional);
  assert_error(tc_op_register(r, &row, TC_SV("")), TC_STATUS_INVALID_ARGUMENT, "declared twice");
  assert_error(tc_op_register(r, &text, TC_SV("")), TC_STATUS_INVALID_ARGUMENT, "decomposition of aten::g");
  assert_int_equal(tc_op_registry_count(r), 2);
  return TC_OK;
}

// ---- conversions, decompositions ----
TC_TEST(arguments_are_made_to_fit) {
  tc_module *m;
  tc_graph *g;
  TC_TRY(test_module(arena, &m));
  TC_TRY(test_parse(m,
                    "graph @f (%x : i32[2, 3] = user \"x\") {\n"
                    "%a : i32[3] = aten::sum.dim_IntList(%x, 0)\n" // an int for int[1]
                    "%b : f32[3] = aten::add.Tensor(%a, 2.5)\n"    // a number in a Tensor slot
                    "%c : f32[3] = aten::div.Tensor(%a, 2)\n"
                    "%d : f32[1] = aten::mean.dim(%b, [], keepdim=true)\n"
                    "%e : f32[3] = aten::abs(%b)\n"
                    "return user %c, user %d, user %e }",
                    &g));
  return tc_graph_verify(g);
}

TC_TEST(a_decomposition_without_end_is_refused) {
  static const tc_op_def row = {.schema = "loop(Tensor self) -> Tensor", .decompose = "loop(self)"};
  tc_module *m;
  tc_graph *g;
  TC_TRY(test_module(arena, &m));
  TC_TRY(tc_op_register((tc_op_registry *)m->ops, &row, TC_SV("")));
  assert_error(test_parse(m, "graph @f (%x : f32[2] = user \"x\") { %a = aten::loop(%x) return user %a }", &g),
               TC_STATUS_INVALID_ARGUMENT, "does not end");
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(promotion_of_types),
                                     cmocka_unit_test(promotion_by_category),
                                     cmocka_unit_test(strides_of_pointwise_results),
                                     cmocka_unit_test(strides_that_are_preserved),
                                     cmocka_unit_test(symbolic_sizes_broadcast),
                                     cmocka_unit_test(errors_say_what_and_where),
                                     cmocka_unit_test(two_rows_of_a_name_are_refused),
                                     cmocka_unit_test(arguments_are_made_to_fit),
                                     cmocka_unit_test(a_decomposition_without_end_is_refused)};
  return TC_RUN(tests);
}
