// What each operation of a plan is a part of: the graph's nodes that it does, and where the values that it leaves in
// memory are. For people who look at a compilation (report.h) and for checks of its parts (self_check.h).
//
// The nodes of an operation are those that its values are made of, back to values that earlier operations have left in
// memory. So a node that is computed twice is in two parts, a view is in the part of whoever reads it, and a buffer
// that is no value of the graph (a packed operand, half of a split sum) belongs to the part of its reader.
#ifndef TC_CORE_RUNTIME_PARTS_H_
#define TC_CORE_RUNTIME_PARTS_H_

#include "core/plan/plan.h"

typedef struct tc_part_value {
  tc_value *value;
  int32_t buf;                  // of the plan
  const tc_sym *const *strides; // of the value, in elements of the buffer
  const tc_sym *offset;         // behind the buffer's first element
} tc_part_value;

typedef struct tc_part {
  TC_VEC(tc_node *) nodes; // in the graph's order
  TC_VEC(tc_part_value) values;
} tc_part;

// One for each operation of the plan, in the arena of its module, whose guard must be open. `loops` is what the plan
// was built from. One that was parsed says nothing of the graph: all parts are empty.
tc_part *tc_plan_parts(tc_loops *loops, const tc_plan *p);

#endif
