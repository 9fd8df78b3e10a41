// How much of a result is rounding: the references are run again with every floating number of the inputs moved by up
// to two units in its last place. What that changes cannot be asked of any way of computing it, whatever the size of
// the number itself: an element of a transform, or of a sum that cancels, is as uncertain as its operands are large,
// and its logarithm as that divided by the element. (The condition number, sampled: Higham, "Accuracy and Stability of
// Numerical Algorithms", 2nd ed., 2002, §1.6.)
#ifndef TC_CORE_IR_SPREAD_H_
#define TC_CORE_IR_SPREAD_H_

#include "core/ir/refexec.h"

// spread[i]: for output i, whose value with the inputs as they are is wide[i] (f64 or c128, of a wide run), an f64
// tensor of its sizes with the most that any of six runs changed each number (complex: the modulus of the change); 0
// where it is not finite. Without storage where wide[i] has none, is neither f64 nor c128, or its sizes depend on the
// numbers. Release them with tc_tensor_unref; on failure none is made. The moves are the same every time. Inputs,
// options and what is said of threads: as in tc_ref_run; `wide` and `write_back` of the options are not looked at.
TC_NODISCARD tc_status tc_ref_spread(tc_graph *g, const tc_allocator *a, int32_t n_inputs, const tc_tensor *inputs,
                                     const tc_tensor *wide, tc_tensor *spread, const tc_ref_options *options);

#endif
