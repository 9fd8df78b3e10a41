// A convolution as cuDNN sees it: x of [n, c, …], a filter w of [k, c / groups, …], y of [n, k, …], of which one is
// made from the others. Pure arithmetic on sizes and strides.
#ifndef TC_PLUGINS_CUDA_CONVOLUTION_H_
#define TC_PLUGINS_CUDA_CONVOLUTION_H_

#include "tc/plugin.h"

// What is made: y; x, the gradient by the data, which is what transposed convolutions are; w, that by the filter.
typedef enum convolution_kind { CONVOLUTION_FORWARD, CONVOLUTION_DATA, CONVOLUTION_FILTER } convolution_kind;
enum { CONVOLUTION_RANK = 5, CONVOLUTION_SPACE = 3 };

typedef struct convolution_tensor {
  int32_t sizes[CONVOLUTION_RANK];
  int32_t operand; // number of the call's operand; -1: its result
} convolution_tensor;

typedef struct convolution {
  convolution_kind kind;
  tc_dtype dtype;
  int32_t rank; // 4, with a height of 1 where there is one dimension of space, or 5
  int32_t channels_last, groups;
  convolution_tensor x, w, y;
  int32_t padding[CONVOLUTION_SPACE], strides[CONVOLUTION_SPACE], dilations[CONVOLUTION_SPACE];
  // CONVOLUTION_FILTER: batch and channels change places, so that the result is [c, k, …], while the library makes a
  // filter, [k, c, …]; both without gaps.
  int32_t bias;  // operand, one number for each channel of the result, or -1
  int32_t empty; // there is nothing to make
  double flops, bytes;
} convolution;

// Describes a node of convolution, conv1d to conv3d or conv_transpose1d to 3d. UNIMPLEMENTED, with the reason in `why`
// (static text), for what does not fit.
int32_t convolution_of(const tc_call_node *n, convolution *out, const char **why);
// Strides of a tensor of such a convolution.
void convolution_strides(const convolution *c, const convolution_tensor *t, int32_t *out);

#endif
