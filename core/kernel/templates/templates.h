// The core's own templates. Each is written against tc/template.h alone, as a plugin's would be.
#ifndef TC_CORE_KERNEL_TEMPLATES_H_
#define TC_CORE_KERNEL_TEMPLATES_H_

#include "core/loop/template.h"

#include "tc/plugin.h"

extern const tc_template_table tc_template_matmul;
extern const tc_template_table tc_template_small_matmul;
extern const tc_template_table tc_template_attention;
extern const tc_template_table tc_template_attention_logsumexp;
extern const tc_template_table tc_template_attention_backward_query;
extern const tc_template_table tc_template_attention_backward_pair;
extern const tc_template_table tc_template_conv;
extern const tc_template_table tc_template_scan;
extern const tc_template_table tc_template_scatter;
extern const tc_template_table tc_template_sort;
extern const tc_template_table tc_template_iterate;
extern const tc_template_table tc_template_compact;
extern const tc_template_table tc_template_ctc;

// The most lanes up to `want`, a power of two, that a block of the device may have.
static inline int32_t tc_template_lanes(const tc_device_props *d, int32_t want) {
  int32_t lanes = 1;
  if (!d->max_lanes || want <= d->max_lanes) return want;
  while (2 * lanes <= d->max_lanes) lanes *= 2;
  return lanes;
}

// The type in which products of numbers of type d are summed.
static inline tc_dtype tc_template_sums(tc_dtype d) {
  return d == TC_F16 || d == TC_BF16 ? TC_F32 : d == TC_C32 || d == TC_BC32 ? TC_C64 : d;
}
tc_kval tc_template_zero(tc_kb *b, tc_dtype d);

// Registers all of them.
void tc_templates_register_core(tc_arena *arena, tc_template_registry *r);

#endif
