// Split reductions: when they are made, that they use the device, and that they compute what the whole would.
#include "tests/unit/schedule/pipeline.h"

static int32_t partials(const tc_plan *p) {
  int32_t n = 0;
  for (int32_t i = 0; i < p->bufs.count; i++) n += tc_sv_ends(p->bufs.data[i].name, "_partial");
  return n;
}

// Every device with 64 cores or more splits; blocks of the kernel that makes the partial results are at least `least`.
static tc_status check(tc_arena *arena, const char *text, tolerance tol, int64_t least) {
  pipeline p;
  tc_status s = pipeline_open(&p, arena, text);
  for (int32_t d = 1; d < N_DEVICES && s == TC_OK; d++) {
    for (int32_t fuse = 1; fuse >= 0 && s == TC_OK; fuse--) {
      tc_plan *plan;
      s = pipeline_compile(&p, &devices[d].props, fuse, &plan);
      if (s != TC_OK) break;
      if (!partials(plan)) s = tc_error(TC_STATUS_MISMATCH, "nothing was split on %s", devices[d].name);
      int64_t most = 0;
      for (int32_t i = 0; i < plan->ops.count && s == TC_OK; i++) {
        int64_t blocks;
        s = tc_sym_eval(plan->ops.data[i].blocks, p.symbols, &blocks);
        if (s == TC_OK && blocks > most) most = blocks;
      }
      if (s == TC_OK && most < least)
        s = tc_error(TC_STATUS_MISMATCH, "%lld blocks on %s", (long long)most, devices[d].name);
      if (s == TC_OK) s = pipeline_check(&p, plan, tol);
    }
  }
  pipeline_close(&p);
  return s;
}

TC_TEST(one_result_of_many_elements) {
  TC_TRY(
      check(arena,
            "graph @f (%x : f32[70001] = user \"x\") {\n  %s : f32[] = aten::sum(%x)\n  %m : f32[] = aten::amax(%x)\n"
            "  %n : f32[] = aten::amin(%x)\n  return user %s, user %m, user %n\n}\n",
            exactly, 32));
  TC_TRY(check(arena,
               "graph @f (%x : i32[3, 50000] = user \"x\") {\n  %s : i64[3] = aten::sum.dim_IntList(%x, [1])\n"
               "  %t : bool[3] = aten::any.dim(%x, 1)\n  %a : bool[3] = aten::all.dim(%x, 1)\n"
               "  %m : i32[3] = aten::amax(%x, [1])\n  %n : i32[3] = aten::amin(%x, [1])\n"
               "  return user %s, user %t, user %a, user %m, user %n\n}\n",
               exactly, 32));
  return check(
      arena,
      "graph @f (%x : bool[45007] = user \"x\", %y : u8[2, 40001] = user \"y\") {\n  %t : bool[] = aten::amin(%x)\n"
      "  %u : bool[] = aten::amax(%x)\n  %m : u8[2] = aten::amin(%y, [1])\n  %p : i64[2] = aten::prod.dim_int(%y, 1)\n"
      "  return user %t, user %u, user %m, user %p\n}\n",
      exactly, 16);
}

TC_TEST(sixteen_bits_are_rounded_once) {
  return check(arena,
               "graph @f (%x : bf16[2, 40000] = user \"x\") {\n  %a : bf16[2, 40000] = aten::abs(%x)\n"
               "  %s : bf16[2] = aten::sum.dim_IntList(%a, [1])\n  return user %s\n}\n",
               (tolerance){.eps = 4e-3}, 32);
}

TC_TEST(complex_sums) {
  return check(arena,
               "graph @f (%x : c64[2, 30001] = user \"x\") {\n  %s : c64[2] = aten::sum.dim_IntList(%x, [1])\n"
               "  %r = aten::real(%s)\n  %i = aten::imag(%s)\n  %t : f32[2] = aten::add.Tensor(%r, %i)\n"
               "  return user %t\n}\n",
               closely, 32);
}

TC_TEST(few_strips_of_columns) {
  return check(arena,
               "graph @f (%x : f32[4003, 24] = user \"x\") {\n  %a : f32[4003, 24] = aten::mul.Tensor(%x, %x)\n"
               "  %s : f32[24] = aten::sum.dim_IntList(%a, [0])\n  %m : f32[24] = aten::mean.dim(%x, [0])\n"
               "  return user %s, user %m\n}\n",
               closely, 32);
}

TC_TEST(symbolic_extents_are_guarded) {
  TC_TRY(
      check(arena,
            "graph @f [s0 in [0, inf] hint 40009] (%x : f32[2, s0] = user \"x\") {\n  %e : f32[2, s0] = aten::neg(%x)\n"
            "  %s : f32[2] = aten::sum.dim_IntList(%e, [1])\n  %y : f32[2, s0] = aten::softmax.int(%x, 1, none)\n"
            "  return user %s, user %y\n}\n",
            closely, 32));
  return check(
      arena,
      "graph @f [s0 in [1, inf] hint 3001] (%x : f32[s0, 17] = user \"x\") {\n  %m : f32[17] = aten::amax(%x, [0])\n"
      "  %s : f32[17] = aten::sum.dim_IntList(%x, [0])\n  return user %m, user %s\n}\n",
      exactly, 16);
}

// Compiled for one size, run with others: none, one, fewer than chunks, one more.
TC_TEST(other_sizes_than_hinted) {
  static const int64_t sizes[] = {0, 1, 3, 17, 199, 200, 201, 4095};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    pipeline p;
    tc_status s = pipeline_open(
        &p, arena,
        "graph @f [s0 in [0, inf] hint 50000] (%x : i64[s0, 2] = user \"x\") {\n"
        "  %s : i64[2] = aten::sum.dim_IntList(%x, [0])\n  %t : i64[] = aten::sum(%x)\n  return user %s, user %t\n}\n");
    tc_plan *plan = NULL;
    if (s == TC_OK) s = pipeline_compile(&p, &devices[2].props, true, &plan);
    if (s == TC_OK) assert_true(partials(plan) > 0);
    pipeline_close(&p);
    TC_TRY(s);
    for (int32_t i = 0; i < tc_sym_symbol_count(p.m->syms); i++) p.symbols[i] = 0;
    p.symbols[tc_sym_symbol(p.m->syms, TC_SV("s0"))->symbol] = sizes[k];
    TC_TRY(make_inputs(p.g, p.symbols, tc_test_seed(), p.in));
    tc_ref_options plain = {0}, wide = {.wide = true};
    TC_TRY(tc_ref_run(p.g, tc_system_allocator(), 1, p.in, p.narrow, &plain));
    TC_TRY(tc_ref_run(p.g, tc_system_allocator(), 1, p.in, p.wide, &wide));
    s = pipeline_check(&p, plan, exactly);
    pipeline_close(&p);
    TC_TRY(s, "with s0 = %lld", (long long)sizes[k]);
  }
  return TC_OK;
}

// Gathers and conditional loads inside a split reduction.
TC_TEST(gathers_and_pads_are_split_too) {
  return check(
      arena,
      "graph @f (%x : f32[40001] = user \"x\", %i : i64[40003] = user \"i\") {\n  %j : i64[40003] = aten::abs(%i)\n"
      "  %g : f32[40003] = aten::index_select(%x, 0, %j)\n  %p : f32[40010] = aten::constant_pad_nd(%g, [3, 4], 2)\n"
      "  %s : f32[] = aten::sum(%p)\n  return user %s\n}\n",
      exactly, 16);
}

TC_TEST(not_where_it_does_not_pay) {
  static const char *const texts[] = {
      "graph @f (%x : f32[300, 1000] = user \"x\") {\n  %s : f32[300] = aten::sum.dim_IntList(%x, [1])\n  return user "
      "%s\n}\n",
      "graph @f (%x : f32[4, 100] = user \"x\") {\n  %s : f32[4] = aten::sum.dim_IntList(%x, [1])\n  return user "
      "%s\n}\n",
      "graph @f (%x : f32[100000, 3] = user \"x\") {\n  %s : f32[100000] = aten::sum.dim_IntList(%x, [1])\n  return "
      "user %s\n}\n",
      "graph @f (%x : f32[8, 65536] = user \"x\") {\n  %s : f32[65536] = aten::sum.dim_IntList(%x, [0])\n  return user "
      "%s\n}\n",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    pipeline p;
    tc_status s = pipeline_open(&p, arena, texts[i]);
    for (int32_t d = 0; d < N_DEVICES && s == TC_OK; d++) {
      tc_plan *plan = NULL;
      s = pipeline_compile(&p, &devices[d].props, true, &plan);
      if (s == TC_OK && partials(plan))
        s = tc_error(TC_STATUS_MISMATCH, "graph %d is split on %s", (int)i, devices[d].name);
    }
    pipeline_close(&p);
    TC_TRY(s);
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_result_of_many_elements),
      cmocka_unit_test(sixteen_bits_are_rounded_once),
      cmocka_unit_test(complex_sums),
      cmocka_unit_test(few_strips_of_columns),
      cmocka_unit_test(symbolic_extents_are_guarded),
      cmocka_unit_test(other_sizes_than_hinted),
      cmocka_unit_test(gathers_and_pads_are_split_too),
      cmocka_unit_test(not_where_it_does_not_pay),
  };
  return TC_RUN(tests);
}
