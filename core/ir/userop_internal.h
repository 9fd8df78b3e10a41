// Shared by the files of ops with kernels by hand.
#ifndef TC_CORE_IR_USEROP_INTERNAL_H_
#define TC_CORE_IR_USEROP_INTERNAL_H_

#include "core/ir/userop.h"

enum { TC_USER_CONFIGS = 32 }; // at most, of one definition

typedef TC_VEC(const tc_ex *) tc_ex_list;

int32_t user_meta(tc_op_args *a); // userop.c: results as the shapes say

#endif
