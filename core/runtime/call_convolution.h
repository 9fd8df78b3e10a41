// Convolutions that a library does over packed weights, with what follows them, in one call.
//
// The graph says _convolution_packed(input, _pack_convolution(weight), scale, shift, other, function, …): the weights
// are packed by a node of their own, which is done once where they are constants; a batch norm with given statistics is
// the factor and the summand by channels.
#ifndef TC_CORE_RUNTIME_CALL_CONVOLUTION_H_
#define TC_CORE_RUNTIME_CALL_CONVOLUTION_H_

#include "core/runtime/exec.h"

// Joins convolutions with the norm, the sum and the function that alone read their results where one of the device's
// libraries is taken for all that. Sweeps the graph. Needs an open guard.
TC_NODISCARD tc_status tc_join_convolutions(const tc_call_choice *choice, tc_graph *g);

#endif
