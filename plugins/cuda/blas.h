// What this plugin uses of cuBLASLt (NVIDIA, "cuBLAS library", the cuBLASLt API), opened at run time.
#ifndef TC_PLUGINS_CUDA_BLAS_H_
#define TC_PLUGINS_CUDA_BLAS_H_

#include "driver.h"
#include "library.h"

typedef int lt_status; // 0 is success
typedef struct lt_handle_ *lt_handle;
typedef struct lt_desc_ *lt_desc;
typedef struct lt_layout_ *lt_layout;
typedef struct lt_preference_ *lt_preference;
typedef struct lt_algo {
  uint64_t data[8];
} lt_algo;
typedef struct lt_heuristic {
  lt_algo algo;
  size_t workspace;
  lt_status state;
  float waves;
  int reserved[4];
} lt_heuristic;

// cudaDataType_t, cublasComputeType_t, cublasLtEpilogue_t
enum { LT_R_32F = 0, LT_R_64F = 1, LT_R_16F = 2, LT_C_32F = 4, LT_C_64F = 5, LT_R_16BF = 14 };
enum { LT_COMPUTE_32F = 68, LT_COMPUTE_64F = 70 };
enum { LT_EPILOGUE_DEFAULT = 1, LT_EPILOGUE_BIAS = 4, LT_EPILOGUE_GELU = 32, LT_EPILOGUE_GELU_BIAS = 36 };
// Attributes of descriptions, layouts, preferences
enum { LT_DESC_TRANSPOSE_A = 3, LT_DESC_TRANSPOSE_B = 4, LT_DESC_EPILOGUE = 7, LT_DESC_BIAS_POINTER = 8 };
enum { LT_LAYOUT_BATCH_COUNT = 5, LT_LAYOUT_BATCH_STRIDE = 6 };
enum { LT_PREFERENCE_WORKSPACE = 1, LT_PREFERENCE_ALIGN_A = 5 /* B, C and D follow */ };

#define LT_FUNCTIONS(X)                                                                                                \
  X(create, "cublasLtCreate", (lt_handle * handle))                                                                    \
  X(destroy, "cublasLtDestroy", (lt_handle handle))                                                                    \
  X(desc_create, "cublasLtMatmulDescCreate", (lt_desc * desc, int compute, int scale))                                 \
  X(desc_set, "cublasLtMatmulDescSetAttribute", (lt_desc desc, int attribute, const void *value, size_t size))         \
  X(desc_destroy, "cublasLtMatmulDescDestroy", (lt_desc desc))                                                         \
  X(layout_create, "cublasLtMatrixLayoutCreate",                                                                       \
    (lt_layout * layout, int type, uint64_t rows, uint64_t cols, int64_t ld))                                          \
  X(layout_set, "cublasLtMatrixLayoutSetAttribute", (lt_layout layout, int attribute, const void *value, size_t size)) \
  X(layout_destroy, "cublasLtMatrixLayoutDestroy", (lt_layout layout))                                                 \
  X(preference_create, "cublasLtMatmulPreferenceCreate", (lt_preference * preference))                                 \
  X(preference_set, "cublasLtMatmulPreferenceSetAttribute",                                                            \
    (lt_preference preference, int attribute, const void *value, size_t size))                                         \
  X(preference_destroy, "cublasLtMatmulPreferenceDestroy", (lt_preference preference))                                 \
  X(heuristic, "cublasLtMatmulAlgoGetHeuristic",                                                                       \
    (lt_handle handle, lt_desc desc, lt_layout a, lt_layout b, lt_layout c, lt_layout d, lt_preference preference,     \
     int wanted, lt_heuristic *results, int *got))                                                                     \
  X(matmul, "cublasLtMatmul",                                                                                          \
    (lt_handle handle, lt_desc desc, const void *alpha, const void *a, lt_layout a_layout, const void *b,              \
     lt_layout b_layout, const void *beta, const void *c, lt_layout c_layout, void *d, lt_layout d_layout,             \
     const lt_algo *algo, void *workspace, size_t workspace_size, cu_stream stream))

// The first one for a type of elements (blas.c).
typedef struct cuda_question {
  tc_device_ *d;
  int32_t type, scale;
} cuda_question;
enum { LT_TYPES = 16 };

typedef struct cuda_blas {
  void *library;
  lt_handle handle; // of the context that was current at the opening
  uint32_t asked;   // bits of types; atomic
  cuda_question questions[LT_TYPES];
#define X(field, symbol, params) lt_status(*field) params;
  LT_FUNCTIONS(X)
#undef X
} cuda_blas;

extern const cuda_library_source cuda_blas_source;
extern const tc_call_table cuda_blas_calls;

#endif
