// Shared by the files of core/plan.
#ifndef TC_CORE_PLAN_PLAN_INTERNAL_H_
#define TC_CORE_PLAN_PLAN_INTERNAL_H_

#include "core/plan/plan.h"

// flops.c: operations of one node, by its declaration; 0 if it says nothing.
const tc_sym *plan_template_flops(tc_plan *p, const tc_lnode *n);
const tc_sym *plan_call_flops(tc_plan *p, const tc_lnode *call);

#endif
