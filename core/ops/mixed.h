// Mixed precision by PyTorch's lists of ops (torch.autocast): in which type an op is done.
//
// Three lists say what happens to operands of f32 or less (f64, complex numbers and integers stay): of ops that are
// done in the lower type, of those that are done in f32, and of those that are done in f32 if any operand is. All
// others take their operands as they come.
#ifndef TC_CORE_OPS_MIXED_H_
#define TC_CORE_OPS_MIXED_H_

#include "core/ir/graph.h"

typedef struct tc_autocast_options {
  tc_dtype to;      // TC_BF16 or TC_F16
  bool accelerator; // PyTorch's lists for GPUs, which keep more in f32, instead of those for processors
} tc_autocast_options;

bool tc_autocast_concerns(const tc_value *v); // a tensor that is cast at all
// The type that those operands of a call are cast to; TC_DTYPE_NONE if they stay as they are.
tc_dtype tc_autocast_dtype(const tc_autocast_options *o, const tc_op *op, int32_t n, const tc_arg *args);

#endif
