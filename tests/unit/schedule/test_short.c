// Pointwise work over short rows that cannot be joined: rows beside each other in one block where lanes are threads,
// runs of a row in each lane. What is stored must be right for any lengths, orders, conditions and types.
#include "core/kernel/ir.h"
#include "tests/unit/schedule/pipeline.h"

static int64_t between(int64_t lo, int64_t hi) { return lo + rand() % (hi - lo + 1); }

// Rotary embedding: products of complex numbers that are seen as pairs, in a narrow type.
static tc_sv rotary(tc_arena *arena, long long b, long long l, long long h, long long d, const char *more) {
  return tc_sv_printf(
      arena,
      "graph @rotary (%%x : bf16[%lld, %lld, %lld, %lld] = user \"x\", %%w : c64[%lld, 1, %lld] = user \"w\") {\n"
      "  %%a = aten::_to_copy(%%x, f32)\n  %%b = aten::view(%%a, [%lld, %lld, %lld, %lld, 2])\n"
      "  %%z = aten::view_as_complex(%%b)\n  %%y = aten::mul.Tensor(%%z, %%w)\n  %%r = aten::view_as_real(%%y)\n"
      "  %%f = aten::view(%%r, [%lld, %lld, %lld, %lld])\n  %%o = aten::_to_copy(%%f, bf16)\n"
      "  return user %%o%s\n}\n",
      b, l, h, 2 * d, l, d, b, l, h, d, b, l, h, 2 * d, more);
}

// Operands that are broadcast, strided, turned round, permuted, beside each other, and chosen by an index.
static const char *const others[] = {
    "%y = aten::add.Tensor(%x, %v)",
    "%a = aten::slice.Tensor(%w, 2, 0, 9223372036854775807, 2)\n  %y = aten::mul.Tensor(%x, %a)",
    "%a = aten::flip(%x, [2])\n  %y = aten::mul.Tensor(%a, %v)",
    "%a = aten::permute(%t, [0, 2, 1])\n  %y = aten::mul.Tensor(%a, %v)",
    "%a = aten::mul.Tensor(%x, %v)\n  %y = aten::cat([%a, %x, %a], 2)",
    "%a = aten::mul.Tensor(%x, %v)\n  %y = aten::constant_pad_nd(%a, [1, 2], 3.0)",
    "%c = aten::mul.Tensor(%j, 0.0)\n  %i = aten::_to_copy(%c, i64)\n  %a = aten::index_select(%x, 2, %i)\n"
    "  %y = aten::mul.Tensor(%a, %v)",
    "%a = aten::mul.Tensor(%x, %v)\n  %b = aten::slice_scatter(%w, %a, 2, 0, 9223372036854775807, 2)\n"
    "  %y = aten::relu(%b)",
    "%a = aten::gt.Tensor(%x, %v)\n  %b = aten::_to_copy(%x, f64)\n  %c = aten::mul.Tensor(%b, %v)\n"
    "  %y = aten::where.self(%a, %c, %b)",
};

static tc_sv program(tc_arena *arena, const char *body, long long b, long long r, long long n) {
  return tc_sv_printf(arena,
                      "graph @rows (%%x : f32[%lld, %lld, %lld] = user \"x\", %%v : f32[%lld, 1, %lld] = user \"v\", "
                      "%%w : f32[%lld, %lld, %lld] = user \"w\", %%t : f32[%lld, %lld, %lld] = user \"t\", "
                      "%%j : f32[%lld] = user \"j\") {\n  %s\n  return user %%y\n}\n",
                      b, r, n, b, n, b, r, 2 * n, b, n, r, n, body);
}

TC_TEST(pairs_of_reals) {
  srand((unsigned)tc_test_seed());
  for (int32_t i = 0; i < 12; i++) {
    tc_sv text =
        rotary(arena, between(1, 3), between(1, 5), between(1, 4), i ? between(1, 40) : 64, i % 3 ? "" : ", user %r");
    TC_TRY(pipeline_all(arena, text.data, closely, 0), TC_SV_FMT, TC_SV_ARG(text));
  }
  return TC_OK;
}

TC_TEST(operands_of_any_order) {
  srand((unsigned)tc_test_seed());
  for (int32_t i = 0; i < 3; i++) {
    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
      tc_sv text = program(arena, others[k], between(1, 4), between(1, 9), i ? between(1, 90) : 4 * between(1, 16));
      TC_TRY(pipeline_all(arena, text.data, closely, 0), TC_SV_FMT, TC_SV_ARG(text));
    }
  }
  return TC_OK;
}

// Rows of a number that only the run knows.
TC_TEST(rows_of_any_number) {
  srand((unsigned)tc_test_seed());
  for (int64_t rows = 0; rows < 40; rows += between(1, 9)) {
    pipeline p;
    tc_plan *plan = NULL;
    const tc_device_props threads = {.max_lanes = 1024, .cores = 2, .shared_bytes = 32768, .bytes_per_ns = 20};
    tc_status s = pipeline_open_at(&p, arena,
                                   "graph @rows [s0 in [0, 1000] hint 7] (%x : f32[s0, 3, 12] = user \"x\", "
                                   "%v : f32[s0, 1, 12] = user \"v\") {\n  %y = aten::mul.Tensor(%x, %v)\n"
                                   "  return user %y\n}\n",
                                   1, &rows);
    if (s == TC_OK) s = pipeline_compile(&p, &threads, true, &plan);
    if (s == TC_OK) s = pipeline_check(&p, plan, closely);
    pipeline_close(&p);
    TC_TRY(s, "%lld rows", (long long)rows);
  }
  return TC_OK;
}

// A lane takes 16 bytes of what is stored, and accesses are as wide.
TC_TEST(blocks_are_full) {
  pipeline p;
  tc_plan *plan = NULL;
  const tc_device_props threads = {
      .max_lanes = 1024, .subgroup = 32, .cores = 100, .shared_bytes = 232448, .launch_ns = 3000, .bytes_per_ns = 2000};
  TC_TRY(pipeline_open(&p, arena, rotary(arena, 2, 8, 4, 64, "").data));
  tc_status s = pipeline_compile(&p, &threads, true, &plan);
  if (s == TC_OK && plan->ops.count == 1) {
    const tc_kernel *k = plan->kernels.data[plan->ops.data[0].kernel]->kernel;
    int32_t narrow = 0;
    for (int32_t i = 0; i < k->n_insts; i++) {
      const tc_kinst *in = &k->insts[i];
      if (in->op == TC_K_STORE && in->width * tc_dtype_size(k->mems[in->mem].dtype) < 16) narrow++;
    }
    if (k->lanes < 128 || narrow) s = tc_error(TC_STATUS_MISMATCH, "%d lanes, %d narrow stores", k->lanes, narrow);
  } else if (s == TC_OK) {
    s = tc_error(TC_STATUS_MISMATCH, "%d kernels", plan->ops.count);
  }
  pipeline_close(&p);
  return s;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(pairs_of_reals), cmocka_unit_test(operands_of_any_order),
                                     cmocka_unit_test(rows_of_any_number), cmocka_unit_test(blocks_are_full)};
  return TC_RUN(tests);
}
