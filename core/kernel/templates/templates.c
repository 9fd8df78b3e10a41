// The list of the core's own templates.
#include "core/kernel/templates/templates.h"

tc_kval tc_template_zero(tc_kb *b, tc_dtype d) {
  if (d >= TC_C32) {
    tc_kval z = tc_kb_real(b, d == TC_C128 ? TC_F64 : TC_F32, 0);
    return tc_kb_op2(b, TC_K_COMPLEX, z, z);
  }
  return d >= TC_F16 ? tc_kb_real(b, d, 0) : tc_kb_int(b, d, 0);
}

void tc_templates_register_core(tc_arena *arena, tc_template_registry *r) {
  static const tc_template_table *const all[] = {&tc_template_matmul,
                                                 &tc_template_small_matmul,
                                                 &tc_template_attention,
                                                 &tc_template_scan,
                                                 &tc_template_conv,
                                                 &tc_template_scatter,
                                                 &tc_template_sort,
                                                 &tc_template_iterate,
                                                 &tc_template_compact,
                                                 &tc_template_ctc,
                                                 &tc_template_attention_logsumexp,
                                                 &tc_template_attention_backward_query,
                                                 &tc_template_attention_backward_pair};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) tc_template_register(arena, r, all[i]);
}
