// Numbers that are used as indices, lengths and sizes: what is known at a run only is held to the dimension then, on
// the references and on a device, in words that name op, index and size; what is in range gives PyTorch's elements.
#include <math.h>

#include "tests/unit/runtime/rig.h"

typedef struct program {
  const char *body;                    // of a graph over %x : f32[s0, 4] and the number
  bool (*takes)(int64_t n, int64_t i); // is i allowed where s0 is n?
  const char *message;                 // else: a part of the error
} program;

static bool is_index(int64_t n, int64_t i) { return -n <= i && i < n; }
static bool is_any(int64_t n, int64_t i) { return (void)n, (void)i, true; }
static bool is_start(int64_t n, int64_t i) { return -n <= i && i <= n && (i < 0 ? i + n : i) + 2 <= n; }
static bool is_length(int64_t n, int64_t i) { return 0 <= i && i + 1 <= n; }
static bool is_count(int64_t n, int64_t i) { return 0 <= i && i <= n; }
static bool is_size(int64_t n, int64_t i) { return (void)n, i >= 0; }
static bool is_pad(int64_t n, int64_t i) { return n > 1 && -n <= i + 1 && i < n; }
static bool is_offset(int64_t n, int64_t i) { return 0 <= i && i + 5 <= 4 * n; }
static bool is_index_or_large(int64_t n, int64_t i) { return -n <= i; }
static bool is_small(int64_t n, int64_t i) { return i < n; }

#define WRAPPED "Where(s1 < 0, s0 + s1, s1)"
static const program programs[] = {
    {"%y : f32[4]{1}+(4*" WRAPPED ") = aten::select.int(%x, 0, s1)\n%z : f32[4] = aten::mul.Tensor(%y, 2)", is_index,
     "aten::select.int: index %lld is out of range for dimension 0 of size %lld"},
    {"%y : f32[4] = aten::select_copy.int(%x, 0, s1)\n%z : f32[4] = aten::mul.Tensor(%y, 2)", is_index,
     "index %lld is out of range for dimension 0 of size %lld"},
    {"%y : f32[2, 4]{4, 1}+(4*" WRAPPED ") = aten::narrow(%x, 0, s1, 2)\n%z : f32[2, 4] = aten::exp(%y)", is_start,
     "aten::narrow: start %lld "},
    {"%y : f32[s1, 4]{4, 1}+(4) = aten::narrow(%x, 0, 1, s1)\n%z : f32[s1, 4] = aten::exp(%y)", is_length,
     "aten::narrow: "},
    {"%v : f32[4] = aten::sum.dim_IntList(%x, [0])\n%z : f32[s0, 4] = aten::select_scatter(%x, %v, 0, s1)", is_index,
     "aten::select_scatter: index %lld is out of range for dimension 0 of size %lld"},
    {"%v : f32[4] = aten::sum.dim_IntList(%x, [0])\n%z : f32[s0, 4] = aten::select_backward(%v, [s0, 4], 0, s1)",
     is_index, "index %lld is out of range for dimension 0 of size %lld"},
    {"%y : f32[4, s0]{1, 4} = aten::permute(%x, [1, 0])\n%z : f32[4, s0 + s1 + 1] = aten::reflection_pad1d(%y, [s1, "
     "1])",
     is_pad, "reflection_pad1d"},
    {"%z : f32[s1, 4], %k : i64[s1, 4] = aten::topk(%x, s1, 0)", is_count,
     "aten::topk: k = %lld is out of range for dimension 0 of size %lld"},
    {"%y : f32[2]{4}+(s1) = aten::as_strided(%x, [2], [4], s1)\n%z : f32[2] = aten::exp(%y)", is_offset, ""},
    {"%z : f32[s1] = aten::full([s1], 0.5)", is_size, "aten::full: size 0 of the result would be %lld"},
    {"%z : f32[s0, 4] = higher_order::cond(s1 < s0, graph @some (%a : f32[s0, 4] = operand \"a\") {\n"
     "%b : f32[4]{1}+(4*" WRAPPED ") = aten::select.int(%a, 0, s1)\n%c : f32[s0, 4] = aten::mul.Tensor(%a, %b)\n"
     "return user %c\n}, graph @none (%a : f32[s0, 4] = operand \"a\") {\n%c : f32[s0, 4] = aten::exp(%a)\n"
     "return user %c\n}, [%x])",
     is_index_or_large, "aten::select.int: index %lld is out of range for dimension 0 of size %lld"},
    {"aten::_assert_scalar(s1 < s0, \"less than all\")\n%z : f32[s0, 4] = aten::exp(%x)", is_small,
     "assertion failed: less than all"},
    {"%z : f32[Max(0, s0 - Max(0, Min(s0, " WRAPPED "))), 4] = aten::slice_copy.Tensor(%x, 0, s1)", is_any, ""},
};
// The number is an input, or comes out of a tensor.
static const char *text_of(tc_arena *arena, const program *p, bool data) {
  tc_sv text = tc_sv_printf(arena,
                            "graph @forward [s0 in [1, 512] hint 5, s1 %sin [%s]] (%%x : f32[s0, 4] = user \"x\", %s = "
                            "user \"i\") {\n%s%s\nreturn user %%z\n}",
                            data ? "unbacked " : "", data ? "-inf, inf" : "-100, 100",
                            data ? "%i : i64[]" : "%i : int s1", data ? "%n : int s1 = aten::item(%i)\n" : "", p->body);
  return text.data;
}

typedef struct mode {
  const char *backend;
  bool by_op;
  const char *options[5];
} mode;
static const mode modes[] = {
    {"ref", false, {"cache.enabled", "false"}},
    {"cpu", false, {"cache.enabled", "false", "mode", "inductor"}},
    {"cpu", true, {"cache.enabled", "false", "mode", "eager"}},
    {"cpu", false, {"cache.enabled", "false", "mode", "eager"}},
};
enum { N_MODES = sizeof modes / sizeof *modes };

static tc_status open_mode(tc_arena *arena, const mode *m, const char *text, rig *r) {
  TC_TRY(rig_context(r, tc_arena_allocator(arena), m->backend, m->options));
  TC_TRY(rig_graph(r, text));
  const tc_source source = {.stage = TC_STAGE_GRAPH, .graph = r->graph, .by_op = m->by_op};
  return tc_session_create_from(r->context, &source, TC_STAGE_EXEC, &r->session);
}

static void expect_equal(const tc_tensor *a, const tc_tensor *b) {
  assert_int_equal(a->rank, b->rank);
  for (int32_t d = 0; d < a->rank; d++) assert_int_equal(a->sizes[d], b->sizes[d]);
  int64_t at[TC_MAX_RANK] = {0}, n = tc_tensor_numel(a);
  for (int64_t i = 0; i < n; i++) {
    double x, y;
    int64_t rest = i;
    for (int32_t d = a->rank; d-- > 0; rest /= a->sizes[d]) at[d] = rest % a->sizes[d];
    tc_tensor_get(a, at, &x, NULL);
    tc_tensor_get(b, at, &y, NULL);
    if (fabs(x - y) > 1e-4 * (1 + fabs(y))) fail_msg("element %lld: %g instead of %g", (long long)i, x, y);
  }
}

static void expect_message(const program *p, int64_t n, int64_t i, tc_status s) {
  char want[256];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  snprintf(want, sizeof want, p->message, (long long)i, (long long)n);
#pragma GCC diagnostic pop
  if (s == TC_OK) fail_msg("%s\n takes %lld where there are %lld", p->body, (long long)i, (long long)n);
  if (!strstr(tc_status_text(s), want)) fail_msg("'%s' lacks '%s'", tc_status_text(s), want);
  tc_status_free(s);
}

static tc_status try_number(rig *r, const program *p, int64_t n, int64_t i, uint64_t seed) {
  tc_tensor in[2], out[N_MODES] = {0};
  bool fits = p->takes(n, i);
  TC_TRY(tc_tensor_create(r->allocator, TC_F32, 2, (int64_t[]){n, 4}, &in[0]));
  tc_tensor_fill_normal(&tc_executor_serial, &in[0], seed, 0, 1);
  TC_TRY(tc_tensor_create(r->allocator, TC_I64, 0, NULL, &in[1]));
  memcpy(tc_tensor_data(&in[1]), &i, sizeof i);
  for (int32_t m = 0; m < N_MODES; m++) {
    tc_tensor all[2] = {{0}};
    tc_status s = tc_session_run(r[m].session, in, all, NULL);
    out[m] = all[0];
    if (fits) TC_TRY(s, "%s\n with %lld where there are %lld", p->body, (long long)i, (long long)n);
    else expect_message(p, n, i, s);
    if (fits && m > 0) expect_equal(&out[m], &out[0]);
  }
  for (int32_t m = 0; m < N_MODES; m++) tc_tensor_unref(&out[m]);
  tc_tensor_unref(&in[0]), tc_tensor_unref(&in[1]);
  return TC_OK;
}

static tc_status try_program(tc_arena *arena, const program *p, bool data, uint64_t seed) {
  rig r[N_MODES];
  const char *text = text_of(arena, p, data);
  for (int32_t m = 0; m < N_MODES; m++) TC_TRY(open_mode(arena, &modes[m], text, &r[m]), "%s", text);
  for (int32_t k = 0; k < 40; k++) {
    int64_t n = 1 + (int64_t)(tc_test_random(&seed) % 12),
            i = (int64_t)(tc_test_random(&seed) % (2 * (uint64_t)n + 5)) - n - 2;
    TC_TRY(try_number(r, p, n, i, seed));
  }
  for (int32_t m = 0; m < N_MODES; m++) rig_close(&r[m]);
  return TC_OK;
}

TC_TEST(numbers_that_are_given) {
  uint64_t seed = tc_test_seed();
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
    TC_TRY(try_program(arena, &programs[i], false, tc_test_random(&seed)));
  return TC_OK;
}

TC_TEST(numbers_out_of_tensors) {
  uint64_t seed = tc_test_seed();
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
    TC_TRY(try_program(arena, &programs[i], true, tc_test_random(&seed)));
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_that_are_given),
      cmocka_unit_test(numbers_out_of_tensors),
  };
  return TC_RUN(tests);
}
