// What only data can tell: positions that lie outside, and integers that are divided by zero. Every op that takes such
// operands is refused in words, by the references and by the cpu backend op by op and compiled; nothing is read or
// written out of bounds (the sanitizers run this, too), and the same program then runs with good values.
#include "tests/unit/runtime/rig.h"

// A call, its inputs, and what the one named `i` may hold: [low, high]. Every other integer breaks the call.
typedef struct row {
  const char *call, *inputs;
  int64_t low, high;
} row;

#define TABLE "%x : f32[4, 3]"
#define VECTOR "%x : f32[4]"
#define FEW ", %i : i64[2]"
#define SOME ", %i : i64[2, 3]"
static const row rows[] = {
    {"gather(%x, 0, %i)", TABLE SOME, 0, 3},
    {"gather(%x, 0, %i)", TABLE ", %i : i32[2, 3]", 0, 3},
    {"index_select(%x, 0, %i)", TABLE FEW, 0, 3},
    {"index_select(%x, 0, %i)", TABLE ", %i : i32[2]", 0, 3},
    {"index.Tensor(%x, [%i])", TABLE FEW, -4, 3},
    {"index.Tensor(%x, [none, %i])", TABLE FEW, -3, 2},
    {"_unsafe_index.Tensor(%x, [%i])", TABLE FEW, -4, 3},
    {"take(%x, %i)", VECTOR FEW, -4, 3},
    {"put(%x, %i, %s)", VECTOR FEW ", %s : f32[2]", -4, 3},
    {"put(%x, %i, %s, true)", VECTOR FEW ", %s : f32[2]", -4, 3},
    {"index_put(%x, [%i], %s)", TABLE FEW ", %s : f32[2, 3]", -4, 3},
    {"index_put(%x, [%i], %s, true)", TABLE FEW ", %s : f32[2, 3]", -4, 3},
    {"_unsafe_index_put(%x, [%i], %s, true)", TABLE FEW ", %s : f32[2, 3]", -4, 3},
    {"scatter.src(%x, 0, %i, %s)", TABLE SOME ", %s : f32[2, 3]", 0, 3},
    {"scatter.value(%x, 0, %i, 1.5)", TABLE SOME, 0, 3},
    {"scatter.reduce(%x, 0, %i, %s, reduce=\"add\")", TABLE SOME ", %s : f32[2, 3]", 0, 3},
    {"scatter.value_reduce(%x, 0, %i, 2, reduce=\"multiply\")", TABLE SOME, 0, 3},
    {"scatter_add(%x, 0, %i, %s)", TABLE SOME ", %s : f32[2, 3]", 0, 3},
    {"scatter_reduce.two(%x, 0, %i, %s, \"sum\")", TABLE SOME ", %s : f32[2, 3]", 0, 3},
    {"scatter_reduce.two(%x, 0, %i, %s, \"prod\")", TABLE SOME ", %s : f32[2, 3]", 0, 3},
    {"scatter_reduce.two(%x, 0, %i, %s, \"mean\")", TABLE SOME ", %s : f32[2, 3]", 0, 3},
    {"scatter_reduce.two(%x, 0, %i, %s, \"amax\", include_self=false)", TABLE SOME ", %s : f32[2, 3]", 0, 3},
    {"index_add(%x, 0, %i, %s)", TABLE FEW ", %s : f32[2, 3]", 0, 3},
    {"index_copy(%x, 0, %i, %s)", TABLE FEW ", %s : f32[2, 3]", 0, 3},
    {"index_fill.int_Scalar(%x, 0, %i, 2)", TABLE FEW, -4, 3},
    {"index_fill.int_Tensor(%x, 0, %i, %s)", TABLE FEW ", %s : f32[]", -4, 3},
    {"index_reduce(%x, 0, %i, %s, \"prod\")", TABLE FEW ", %s : f32[2, 3]", 0, 3},
    {"index_reduce(%x, 0, %i, %s, \"amin\")", TABLE FEW ", %s : f32[2, 3]", 0, 3},
    {"index_select_backward(%s, [4, 3], 0, %i)", "%s : f32[2, 3]" FEW, 0, 3},
    {"value_selecting_reduction_backward(%s, 0, %i, [4, 3], false)", "%s : f32[3], %i : i64[3]", 0, 3},
    {"embedding(%x, %i)", TABLE FEW, 0, 3},
    {"embedding_dense_backward(%s, %i, 4, -1, false)", "%s : f32[2, 3]" FEW, 0, 3},
    {"%r, %r1, %r2, %r3 = aten::embedding_bag(%x, %i, %o)", TABLE FEW ", %o : i64[1]", 0, 3},
    {"%r, %r1, %r2, %r3 = aten::embedding_bag(%x, %i, %o, false, 1)", TABLE FEW ", %o : i64[1]", 0, 3},
    {"%r, %r1, %r2, %r3 = aten::embedding_bag(%x, %i, %o, false, 2)", TABLE FEW ", %o : i64[1]", 0, 3},
    {"%r, %r1 = aten::nll_loss_forward(%x, %i, none, 1, -100)", "%x : f32[3, 4], %i : i64[3]", 0, 3},
    {"%r, %r1 = aten::nll_loss_forward(%x, %i, %w, 0, -100)", "%x : f32[3, 4], %i : i64[3], %w : f32[4]", 0, 3},
    {"nll_loss_nd(%x, %i, none, 2)", "%x : f32[2, 4, 2, 2], %i : i64[2, 2, 2]", 0, 3},
    {"nll_loss_backward(%g, %x, %i, none, 1, -100, %g)", "%g : f32[], %x : f32[3, 4], %i : i64[3]", 0, 3},
    {"cross_entropy_loss(%x, %i)", "%x : f32[3, 4], %i : i64[3]", 0, 3},
    {"multi_margin_loss(%x, %i)", "%x : f32[3, 4], %i : i64[3]", 0, 3},
    {"multilabel_margin_loss(%x, %i)", "%x : f32[2, 3]" SOME, -1, 2},
    {"one_hot(%i, 4)", "%i : i64[3]", 0, 3},
    {"max_unpool2d(%x, %i, [2, 2])", "%x : f32[1, 1, 2], %i : i64[1, 1, 2]", 0, 3},
    {"max_unpool3d(%x, %i, [1, 2, 2], [1, 1, 1], [0, 0, 0])", "%x : f32[1, 1, 1, 2], %i : i64[1, 1, 1, 2]", 0, 3},
    {"searchsorted.Tensor(%x, %s, sorter=%i)", VECTOR ", %s : f32[2], %i : i64[4]", 0, 3},
    {"%r, %r1, %r2 = aten::lu_unpack(%x, %i)", "%x : f32[4, 4], %i : i32[4]", 1, 4},
    {"linalg_lu_solve(%x, %i, %s)", "%x : f32[4, 4], %i : i32[4], %s : f32[4, 2]", 1, 4},
    {"adaptive_max_pool2d_backward(%g, %x, %i)", "%g : f32[1, 1, 1], %x : f32[1, 2, 2], %i : i64[1, 1, 1]", 0, 3},
    {"max_pool2d_with_indices_backward(%g, %x, [2, 2], [2, 2], [0, 0], [1, 1], false, %i)",
     "%g : f32[1, 1, 1], %x : f32[1, 2, 2], %i : i64[1, 1, 1]", 0, 3},
    {"fractional_max_pool2d_backward(%g, %x, [2, 2], [1, 1], %i)",
     "%g : f32[1, 1, 1], %x : f32[1, 2, 2], %i : i64[1, 1, 1]", 0, 3},
};

// Divisors: any integer but 0. The dtype takes the place of the $.
static const char *const divisions[] = {
    "floor_divide(%x, %i)",         "div.Tensor_mode(%x, %i, rounding_mode=\"floor\")",
    "remainder.Tensor(%x, %i)",     "div.Tensor_mode(%x, %i, rounding_mode=\"trunc\")",
    "fmod.Tensor(%x, %i)",          "remainder.Scalar_Tensor(7, %i)",
    "floor_divide_.Tensor(%x, %i)", "remainder_.Tensor(%x, %i)",
    "fmod_.Tensor(%x, %i)",         "div_.Tensor_mode(%x, %i, rounding_mode=\"floor\")",
};

typedef struct way {
  const char *backend, *mode;
} way;
static const way ways[] = {{"ref", "eager"}, {"cpu", "eager"}, {"cpu", "inductor"}};

static bool is_integer(tc_dtype d) { return tc_dtype_class(d) == 'i' || tc_dtype_class(d) == 'u'; }

// Inputs are row-major, and integers of any width begin with their low bytes here.
static void put(tc_tensor *t, int64_t k, int64_t v) {
  size_t size = (size_t)tc_dtype_size(t->dtype);
  memcpy((char *)tc_tensor_data(t) + (size_t)k * size, &v, size);
}

// Inputs with numbers that any call takes: floats of 1, other integers 0 (offsets) or 5, `i` in its range.
static tc_status fill(rig *r, int64_t low, int64_t high, uint64_t *state, int32_t *out_i) {
  *out_i = -1;
  for (int32_t k = 0; k < r->n_inputs; k++) {
    tc_tensor *t = &r->inputs[k];
    bool named = tc_sv_is(r->graph->inputs.data[k].value->name, "i");
    if (named) *out_i = k;
    for (int64_t e = 0; e < tc_tensor_numel(t) && is_integer(t->dtype); e++)
      put(t, e,
          named ? low + (int64_t)(tc_test_random(state) % (uint64_t)(high - low + 1))
          : tc_sv_is(r->graph->inputs.data[k].value->name, "o") ? 0
                                                                : 5);
  }
  return *out_i < 0 ? tc_error(TC_STATUS_INTERNAL, "no input is called i") : TC_OK;
}

static tc_status run_once(rig *r) {
  tc_tensor outputs[RIG_MOST] = {{0}};
  tc_status s = tc_session_run(r->session, r->inputs, outputs, NULL);
  for (int32_t i = 0; i < RIG_MOST; i++) tc_tensor_unref(&outputs[i]);
  return s;
}

typedef struct trial {
  const char *text, *words; // what the error says, or NULL for any
  int64_t low, high;
  int32_t n_bad;
  int64_t bad[6];
} trial;

static tc_status refuses(rig *r, const trial *t, int32_t at, int64_t bad, uint64_t *state) {
  tc_tensor *i = &r->inputs[at];
  if (i->dtype == TC_I32) bad = bad > INT32_MAX ? INT32_MAX : bad < INT32_MIN ? INT32_MIN : bad;
  put(i, (int64_t)(tc_test_random(state) % (uint64_t)tc_tensor_numel(i)), bad);
  tc_status s = run_once(r);
  bool fine = tc_status_code(s) != TC_STATUS_INTERNAL && (!t->words || strstr(tc_status_text(s), t->words));
  if (s != TC_OK && !fine) return s;
  bool taken = s == TC_OK;
  tc_status_free(s);
  if (taken) return tc_error(TC_STATUS_INTERNAL, "%lld is taken", (long long)bad);
  TC_TRY(fill(r, t->low, t->high, state, &at));
  return run_once(r);
}

static tc_status try_values(rig *r, const trial *t, uint64_t *state) {
  int32_t at;
  TC_TRY(rig_graph(r, t->text));
  TC_TRY(rig_inputs(r, 1));
  TC_TRY(fill(r, t->low, t->high, state, &at));
  TC_TRY(tc_session_create(r->context, r->graph, TC_STAGE_EXEC, &r->session));
  TC_TRY(run_once(r));
  for (int32_t k = 0; k < t->n_bad; k++)
    TC_TRY(refuses(r, t, at, t->bad[k], state), "with %lld in it", (long long)t->bad[k]);
  return TC_OK;
}

// All ways; returns how many failed.
static int32_t failures(tc_arena *arena, const trial *t, uint64_t *state) {
  int32_t n = 0;
  for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
    const char *const options[] = {"cache.enabled", "false", "mode", ways[w].mode, NULL};
    rig r;
    assert_ok(rig_context(&r, tc_arena_allocator(arena), ways[w].backend, options));
    tc_status s = try_values(&r, t, state);
    rig_close(&r);
    n += s != TC_OK;
    if (s != TC_OK) print_error("%s, %s: %s\n%s\n", ways[w].backend, ways[w].mode, tc_status_text(s), t->text);
    tc_status_free(s);
  }
  return n;
}

static const char *program(tc_arena *arena, const char *inputs, const char *call) {
  tc_sb sb = tc_sb_make(arena);
  tc_sb_putz(&sb, "graph @forward (");
  for (const char *c = inputs; *c;) { // %x : f32[4] → %x : f32[4] = user "x"
    const char *end = strstr(c, ", %");
    size_t n = end ? (size_t)(end - c) : strlen(c);
    tc_sb_printf(&sb, "%.*s = user \"%.1s\"%s", (int)n, c, c + 1, end ? ", " : "");
    c += n + (end ? 2 : 0);
  }
  tc_sb_printf(&sb, ") {\n  %s%s\n  return user %%r\n}\n", *call == '%' ? "" : "%r = aten::", call);
  return sb.text;
}

TC_TEST(positions_lie_inside) {
  uint64_t state = tc_test_seed();
  int32_t failed = 0;
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    const row *r = &rows[k];
    trial t = {.text = program(arena, r->inputs, r->call), .low = r->low, .high = r->high, .n_bad = 6};
    enum { IGNORED = -100 }; // by losses, whatever the low end is
    int64_t further = (int64_t)(2 + tc_test_random(&state) % 1000);
    further += r->low - further == IGNORED;
    const int64_t bad[] = {r->low - 1, r->high + 1, INT64_MIN, INT64_MAX, r->low - further, r->high + further};
    memcpy(t.bad, bad, sizeof bad);
    failed += failures(arena, &t, &state);
  }
  assert_int_equal(failed, 0);
  return TC_OK;
}

TC_TEST(integers_are_not_divided_by_zero) {
  static const tc_dtype dtypes[] = {TC_U8, TC_I8, TC_I16, TC_I32, TC_I64};
  uint64_t state = tc_test_seed();
  int32_t failed = 0;
  for (size_t k = 0; k < sizeof divisions / sizeof *divisions; k++) {
    const char *d = tc_dtype_name(dtypes[tc_test_random(&state) % 5]);
    int32_t n = (int32_t)(1 + tc_test_random(&state) % 40); // whole vectors and rests
    trial t = {.low = 1, .high = 100, .n_bad = 3, .words = "ZeroDivisionError"};
    t.text =
        program(arena, tc_sv_printf(arena, "%%x : %s[2, %d], %%i : %s[%d]", d, (int)n, d, (int)n).data, divisions[k]);
    failed += failures(arena, &t, &state);
  }
  assert_int_equal(failed, 0);
  return TC_OK;
}

// The error tells where in the model it happened, also behind what was fused with the division; what nobody asks for,
// lanes behind the end and padding, is no divisor.
TC_TEST(only_divisors_that_are_asked_for_count) {
  static const char text[] = "graph @forward (%x : i64[3, 37] = user \"x\", %i : i64[3, 37] = user \"i\") {\n"
                             "  %a = aten::remainder.Tensor(%x, %i) @ \"model.py:7 a = x % i\"\n"
                             "  %b = aten::constant_pad_nd(%a, [2, 3], 0)\n"
                             "  %c = aten::sum.dim_IntList(%b, [1])\n"
                             "  %d = aten::sum(%a)\n"
                             "  return user %c, user %d\n"
                             "}\n";
  uint64_t state = tc_test_seed();
  const trial t = {text, "model.py:7", 1, 9, 2, {0}};
  assert_int_equal(failures(arena, &t, &state), 0);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(positions_lie_inside),
                                     cmocka_unit_test(integers_are_not_divided_by_zero),
                                     cmocka_unit_test(only_divisors_that_are_asked_for_count)};
  return TC_RUN(tests);
}
