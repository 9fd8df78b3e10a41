// The list of the core's own templates.
#include "core/kernel/templates/templates.h"

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
