// What a device has of products: pairs and tiles. Products of pairs (dot2) for devices that have none: the halves
// become single-precision numbers, and two multiply-adds take the place of the instruction. A half's bits are the upper
// ones of the number that it is.
#include "core/kernel/ir.h"

static tc_kval half_of(tc_kb *b, tc_kval pair, int32_t half) {
  tc_kval bits = half ? tc_kb_op2(b, TC_K_AND, pair, tc_kb_int(b, TC_I32, -0x10000))
                      : tc_kb_op2(b, TC_K_SHL, pair, tc_kb_int(b, TC_I32, 16));
  return tc_kb_bitcast(b, TC_F32, bits);
}

static tc_status visit(tc_kir_copy *c, int32_t inst) {
  const tc_kinst *in = &c->from->insts[inst];
  if (in->op != TC_K_DOT2) return tc_kir_copy_inst(c, inst);
  tc_kval sum = c->map[in->args[2]];
  for (int32_t half = 0; half < 2; half++) {
    tc_kval x = half_of(c->to, c->map[in->args[0]], half), y = half_of(c->to, c->map[in->args[1]], half);
    sum = tc_kb_op3(c->to, TC_K_FMA, x, y, sum);
  }
  c->map[in->results[0]] = sum, c->map2[in->results[0]] = -1;
  tc_kir_keep_name(c, in->results[0], sum);
  return TC_OK;
}

tc_status tc_kernel_expand_pairs(tc_arena *arena, tc_kernel *k, tc_kernel **out) {
  *out = k;
  bool any = false;
  for (int32_t i = 0; i < k->n_insts && !any; i++) any = k->insts[i].op == TC_K_DOT2;
  if (!any) return TC_OK;
  return tc_kir_copy_kernel(arena, k, visit, NULL, false, out);
}

tc_status tc_kernel_fit(tc_arena *arena, uint64_t pairs, uint64_t tiles, tc_kernel *k, tc_kernel **out) {
  for (int32_t i = 0; i < k->n_insts; i++) {
    int32_t op = k->insts[i].op;
    if (tc_kir_is_mma(op) && !(tiles >> (op == TC_K_MMA_BF16 ? TC_BF16 : TC_F16) & 1))
      return tc_error(TC_STATUS_UNIMPLEMENTED, "kernel @" TC_SV_FMT " multiplies tiles (%s), which the device does not",
                      TC_SV_ARG(k->name), tc_k_op_text(op));
  }
  *out = k;
  return pairs >> TC_BF16 & 1 ? TC_OK : tc_kernel_expand_pairs(arena, k, out);
}
