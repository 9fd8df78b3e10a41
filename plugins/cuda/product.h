// A matrix product as cuBLASLt sees it: column-major, one batch dimension. Pure arithmetic on sizes and strides.
#ifndef TC_PLUGINS_CUDA_PRODUCT_H_
#define TC_PLUGINS_CUDA_PRODUCT_H_

#include "tc/plugin.h"

typedef struct product_matrix {
  int64_t rows, cols, ld; // as stored
  int64_t batch_stride;   // elements
  int32_t transposed;     // the product takes it transposed
  int32_t operand;        // number of the call's operand; -1: its result
} product_matrix;

// D = f(alpha · A · B + beta · C + bias), column-major. The names are cuBLASLt's: what the op calls
// its second factor may be A here.
typedef struct product {
  tc_dtype dtype;
  int64_t m, n, k, batch; // of D; k may be 0, and so may the others
  product_matrix a, b, c, d;
  int32_t has_c, bias; // bias: operand, a dense vector of m elements, or -1
  double alpha, beta;
  int32_t function; // -1, or TC_EPI_RELU … TC_EPI_SILU: of all that
  int32_t after;    // 1: beta · C is added behind the function
  int32_t aligned;  // 1: leading dimensions and batch strides keep 16 bytes
} product;

// Who multiplies: the library, or our own code, which has all functions behind a product and complex biases.
typedef enum product_by { PRODUCT_BY_LIBRARY, PRODUCT_BY_US } product_by;

// Describes a node of mm, bmm, addmm, baddbmm, matmul or linear. UNIMPLEMENTED, with the reason in `why` (static text),
// for what does not fit. Sizes that are not known count as 64.
int32_t product_of(const tc_call_node *n, product_by by, product *out, const char **why);

#endif
