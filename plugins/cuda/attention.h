// What attention and its derivatives share as calls: how operands lie, and code that is compiled for a head size and a
// type.
#ifndef TC_PLUGINS_CUDA_ATTENTION_H_
#define TC_PLUGINS_CUDA_ATTENTION_H_

#include <stdbool.h>

#include "cuda.h"

// Rows of a block of queries, or of one of keys that has their derivatives.
enum { ATTENTION_ROWS = 128, ATTENTION_CALL_NS = 4000, ATTENTION_LEAST_FLOPS = 1 << 22 };
// What a device has code for; each for every head size and type.
enum { ATTENTION_PLAIN, ATTENTION_WITH_LOGS, ATTENTION_BY_QUERIES, ATTENTION_BY_KEYS };

// As `operand` and `numbers` in attention_common.cu; strides in elements.
typedef struct attention_side {
  cu_ptr data;
  int64_t batch, head, row;
} attention_side;

// What is asked for; strides, addresses come with the run.
typedef struct attention_problem {
  attention_side sides[5]; // q, k, v, out, logarithms
  int32_t batches, heads, group, queries, keys, causal, head_size, results;
  double scale;
} attention_problem;

// A way to do it: a text that begins with what it is told about head size and type, and the kernel's name in it.
typedef struct attention_version {
  const char *text, *name, *arch;
  int64_t shared; // bytes
  unsigned lanes;
  int32_t keys, parts, keys_own, logs; // KEYS and so on in the text
} attention_version;

// UNIMPLEMENTED with the reason.
static inline int32_t attention_refuse(const char **why, const char *text) {
  *why = text;
  return TC_STATUS_UNIMPLEMENTED;
}
// Sizes and strides of a [batch, head, rows, elements] tensor, whose pieces of 16 bytes have to lie at multiples of 16;
// and of one with a number per row, [batch, head, rows]. The batch may be missing. Without the address.
int32_t attention_read_side(const tc_view *v, attention_side *out, int64_t sizes[4], const char **why);
int32_t attention_read_numbers(const tc_view *v, attention_side *out, int64_t sizes[3], const char **why);
// The attention of a node.
int32_t attention_describe(const tc_call_node *n, attention_problem *x, const char **why);
double attention_flops(const attention_problem *x);
// Do the kernels take heads of that size?
bool attention_fits(tc_dtype type, int64_t head_size);
// May the device run such code, and is it enough work?
bool attention_possible(tc_device_ *d, int64_t shared, double flops);
// The code for a head size and a type, compiled on first use: the first of n versions that compiler and driver take.
int32_t attention_code(tc_device_ *d, int32_t what, const attention_version *v, int32_t n, int32_t head_size,
                       tc_dtype type, cuda_attention **out);

#endif
