// Kernels that ask for all that a code generator must be able to do; what the tests of the printer and of plugins
// compile.
#ifndef TESTS_UNIT_SDK_KERNELS_H_
#define TESTS_UNIT_SDK_KERNELS_H_

#include "tests/unit/kernel/programs.h"

// Every opcode with plain or mathematical meaning on one type, in one kernel.
static inline tc_kernel *everything(tc_arena *arena, tc_dtype t, int32_t lanes) {
  tc_kb *b = tc_kb_create(arena, tc_sv_printf(arena, "everything_%s", tc_dtype_name(t)), lanes);
  tc_kmem x = tc_kb_global(b, TC_SV("x"), t, TC_MEM_READONLY, 16),
          y = tc_kb_global(b, TC_SV("y"), t, TC_MEM_WRITEONLY, 16);
  int32_t n = tc_kb_scalar(b, TC_SV("n"), TC_I32, 0, INT64_MAX, 1);
  tc_kmem shared = tc_kb_shared(b, TC_SV("s"), t, lanes);
  tc_kb_lanes(b);
  tc_kval i = tc_kb_op3(b, TC_K_FMA, tc_kb_block(b), tc_kb_int(b, TC_I32, lanes), tc_kb_lane(b));
  tc_kval ok = tc_kb_op2(b, TC_K_LT, i, tc_kb_param(b, n)), v = tc_kb_load1(b, x, i, ok, -1);
  tc_kval w[4], j = tc_kb_op2(b, TC_K_MUL, tc_kb_lane(b), tc_kb_int(b, TC_I32, 0)); // element 0 and its neighbours
  int32_t wide = lanes == 1 ? 1 : 4;
  tc_kb_load(b, x, j, wide, ok, NULL, w);
  tc_kval sum = v, out = -1;
  for (int32_t op = 0; op < TC_K_COUNT; op++) {
    char cls = (char)tc_k_op_class(op);
    tc_kval args[3] = {v, w[0], sum}, r;
    tc_dtype types[3] = {t, t, t}, type;
    int32_t arity = tc_kir_arity(op);
    if ((cls != 'a' && cls != 'c' && cls != 'm') || tc_kir_type_rule(op, arity, types, &type) || op == TC_K_RCP_APPROX)
      continue;
    if ((op == TC_K_DIV || op == TC_K_REM) && tc_kir_is_int(t)) args[1] = tc_kb_int(b, t, 3);
    if (op == TC_K_SHL || op == TC_K_SHR) args[1] = tc_kb_int(b, t, 2);
    r = tc_kb_op(b, op, arity, args);
    if (cls == 'c') r = tc_kb_op3(b, TC_K_SELECT, r, v, w[0]);
    // Results alternate between a sum and a difference, kept finite by a minimum.
    sum = tc_dtype_is_float(t)
              ? tc_kb_op2(b, TC_K_FMIN, tc_kb_op2(b, op % 2 ? TC_K_ADD : TC_K_SUB, sum, r), tc_kb_real(b, t, 1000))
              : tc_kb_op2(b, op % 2 ? TC_K_ADD : TC_K_XOR, sum, r);
  }
  tc_kb_store(b, shared, tc_kb_lane(b), 1, &sum, -1);
  tc_kb_end_lanes(b, 1, &sum, &out);
  tc_kval total = tc_kb_collective(b, TC_K_REDUCE_MAX, out, 0), first = tc_kb_collective(b, TC_K_BROADCAST, out, 0);
  tc_kb_barrier(b);
  tc_kb_lanes(b);
  tc_kval z[2] = {tc_kb_load1(b, shared, tc_kb_lane(b), -1, -1), tc_kb_op2(b, TC_K_MIN, total, first)}, both;
  both = tc_kb_op2(b, tc_dtype_is_float(t) ? TC_K_FMAX : TC_K_MAX, z[0], z[1]);
  i = tc_kb_op3(b, TC_K_FMA, tc_kb_block(b), tc_kb_int(b, TC_I32, lanes), tc_kb_lane(b));
  tc_kb_store(b, y, i, 1, &both, tc_kb_op2(b, TC_K_LT, i, tc_kb_param(b, n)));
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kernel *k;
  CHECK_OK(tc_kb_finish(b, &k));
  return legal(arena, k);
}

static const tc_dtype all_types[] = {TC_U8,  TC_I8,  TC_I16, TC_I32,  TC_I64, TC_U16,
                                     TC_U32, TC_U64, TC_F16, TC_BF16, TC_F32, TC_F64};
enum { TYPES = sizeof all_types / sizeof *all_types };

static inline tc_kernel *misc(tc_arena *arena) {
  return legal(
      arena,
      kernel_of(
          arena,
          "kernel @misc (%x : global f32 readonly noalias align 16, %y : global f32 noalias align 16, %c : global i64, "
          "%h : global bf16 align 16, %n : i32 in [0, inf] div 4, %alpha : f32)\n"
          "    blocks 1 lanes 96 {\n  table %t : i16 = [1, -2, 3]\n"
          "  %b = block\n  %neg = lt %b, 0\n  check %neg, 7\n"
          "  %q, %v = lanes {\n    %l = lane\n    %i = mul %l, 4\n    %ok = lt %i, %n\n    %a0, %a1, %a2, %a3 = "
          "load.v4 %x[%i] if %ok else 0.0\n"
          "    %u = load %t[1]\n    %uf = cast %u : f32\n    %s = fma %a0, %a1, %uf\n    %s2 = fma %a2, %a3, %alpha\n"
          "    %p, %r = for %j = 0 to 8 (%p0 = %s, %p1 = %s2) {\n      yield %p1, %p0\n    }\n"
          "    store.v4 %y[%i], %p, %r, inf, nan if %ok\n    %one = const 1 : i64\n    atomic_add %c[0], %one if %ok\n "
          "   atomic_add %y[1], %p\n"
          "    %h0, %h1 = load.v2 %h[%i]\n    %hf = cast %h0 : f32\n    %h2 = cast %p : bf16\n    store %h[%i], %h2\n  "
          "  %bits = bitcast %hf : i32\n    prefetch %x[%i]\n    prefetch %x[%i] far\n    yield %bits, %ok\n  }\n"
          "  %m = reduce.min %q\n  %any = reduce.or %v\n  %w = if %any {\n    %m2 = mul %m, 3\n    yield %m2\n  } else "
          "{\n    yield %m\n  }\n"
          "  lanes {\n    %wl = cast %w : i64\n    %l2 = lane\n    %is = eq %l2, 0\n    store %c[1], %wl if %is\n  "
          "}\n}\n"));
}

#endif
