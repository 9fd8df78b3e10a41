// Templates known to the lowering, by name: the core's own (core/schedule/templates) and plugins'. Filled once, then
// read-only.
#ifndef TC_CORE_LOOP_TEMPLATE_H_
#define TC_CORE_LOOP_TEMPLATE_H_

#include "core/base/vec.h"

#include "tc/template.h"

typedef struct tc_template_registry {
  TC_VEC(const tc_template_table *) tables;
} tc_template_registry;

// A plugin's table of the same name replaces the core's.
void tc_template_register(tc_arena *arena, tc_template_registry *r, const tc_template_table *t);
const tc_template_table *tc_template_find(const tc_template_registry *r, tc_sv name); // NULL if absent

#endif
