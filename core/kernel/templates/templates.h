// The core's own templates. Each is written against tc/template.h alone, as a plugin's would be.
#ifndef TC_CORE_KERNEL_TEMPLATES_H_
#define TC_CORE_KERNEL_TEMPLATES_H_

#include "core/loop/template.h"

extern const tc_template_table tc_template_matmul;
extern const tc_template_table tc_template_attention;
extern const tc_template_table tc_template_conv;
extern const tc_template_table tc_template_scan;
extern const tc_template_table tc_template_scatter;
extern const tc_template_table tc_template_sort;
extern const tc_template_table tc_template_iterate;
extern const tc_template_table tc_template_compact;

// Registers all of them.
void tc_templates_register_core(tc_arena *arena, tc_template_registry *r);

#endif
