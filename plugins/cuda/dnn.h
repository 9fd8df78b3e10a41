// What this plugin uses of cuDNN (NVIDIA, "cuDNN library", the API of descriptors), opened at run time.
#ifndef TC_PLUGINS_CUDA_DNN_H_
#define TC_PLUGINS_CUDA_DNN_H_

#include "driver.h"

typedef int dnn_status; // 0 is success
typedef struct dnn_handle_ *dnn_handle;
typedef struct dnn_desc_ *dnn_desc; // of a tensor, a filter, a convolution or a function
typedef struct dnn_choice {         // cudnnConvolutionFwdAlgoPerf_t, and those of the gradients
  int algorithm;
  dnn_status status;
  float ms;
  size_t workspace;
  int deterministic, math, reserved[3];
} dnn_choice;

// cudnnDataType_t, cudnnTensorFormat_t, cudnnMathType_t, cudnnActivationMode_t
enum { DNN_FLOAT = 0, DNN_HALF = 2, DNN_BFLOAT16 = 9 };
enum { DNN_CHANNELS_FIRST = 0, DNN_CHANNELS_LAST = 1 };
enum { DNN_MATH_TENSOR_CORES = 1, DNN_MATH_F32 = 3 };
enum { DNN_CROSS_CORRELATION = 1 };
enum { DNN_RELU = 1, DNN_IDENTITY = 5, DNN_PROPAGATE_NAN = 1 };
enum { DNN_IMPLICIT_PRECOMPUTED_GEMM = 1 }; // the algorithm that has no function behind it, too
enum { DNN_NOT_SUPPORTED_8 = 9, DNN_NOT_SUPPORTED = 3000, DNN_NOT_SUPPORTED_END = 4000 }; // of version 8; since 9

// a, b, c: x, w, y of a convolution; w, dy, dx of its gradient by the data; x, dy, dw of that by the filter.
#define DNN_CHOOSE \
  (dnn_handle handle, dnn_desc a, dnn_desc b, dnn_desc conv, dnn_desc c, int wanted, int *got, dnn_choice *results)
#define DNN_WORKSPACE \
  (dnn_handle handle, dnn_desc a, dnn_desc b, dnn_desc conv, dnn_desc c, int algorithm, size_t *bytes)
#define DNN_RUN                                                                                          \
  (dnn_handle handle, const void *alpha, dnn_desc a_desc, const void *a, dnn_desc b_desc, const void *b, \
   dnn_desc conv, int algorithm, void *workspace, size_t bytes, const void *beta, dnn_desc c_desc, void *c)

#define DNN_FUNCTIONS(X)                                                                                            \
  X(create, "cudnnCreate", (dnn_handle * handle))                                                                   \
  X(destroy, "cudnnDestroy", (dnn_handle handle))                                                                   \
  X(set_stream, "cudnnSetStream", (dnn_handle handle, cu_stream stream))                                            \
  X(tensor_create, "cudnnCreateTensorDescriptor", (dnn_desc * desc))                                                \
  X(tensor_set, "cudnnSetTensorNdDescriptor",                                                                       \
    (dnn_desc desc, int type, int rank, const int *sizes, const int *strides))                                      \
  X(tensor_destroy, "cudnnDestroyTensorDescriptor", (dnn_desc desc))                                                \
  X(filter_create, "cudnnCreateFilterDescriptor", (dnn_desc * desc))                                                \
  X(filter_set, "cudnnSetFilterNdDescriptor", (dnn_desc desc, int type, int format, int rank, const int *sizes))    \
  X(filter_destroy, "cudnnDestroyFilterDescriptor", (dnn_desc desc))                                                \
  X(conv_create, "cudnnCreateConvolutionDescriptor", (dnn_desc * desc))                                             \
  X(conv_set, "cudnnSetConvolutionNdDescriptor",                                                                    \
    (dnn_desc desc, int rank, const int *padding, const int *strides, const int *dilations, int mode, int type))    \
  X(conv_math, "cudnnSetConvolutionMathType", (dnn_desc desc, int math))                                            \
  X(conv_groups, "cudnnSetConvolutionGroupCount", (dnn_desc desc, int groups))                                      \
  X(conv_destroy, "cudnnDestroyConvolutionDescriptor", (dnn_desc desc))                                             \
  X(function_create, "cudnnCreateActivationDescriptor", (dnn_desc * desc))                                          \
  X(function_set, "cudnnSetActivationDescriptor", (dnn_desc desc, int mode, int nan, double limit))                 \
  X(function_destroy, "cudnnDestroyActivationDescriptor", (dnn_desc desc))                                          \
  X(choose_forward, "cudnnGetConvolutionForwardAlgorithm_v7", DNN_CHOOSE)                                           \
  X(choose_data, "cudnnGetConvolutionBackwardDataAlgorithm_v7", DNN_CHOOSE)                                         \
  X(choose_filter, "cudnnGetConvolutionBackwardFilterAlgorithm_v7", DNN_CHOOSE)                                     \
  X(workspace_forward, "cudnnGetConvolutionForwardWorkspaceSize", DNN_WORKSPACE)                                    \
  X(workspace_data, "cudnnGetConvolutionBackwardDataWorkspaceSize", DNN_WORKSPACE)                                  \
  X(workspace_filter, "cudnnGetConvolutionBackwardFilterWorkspaceSize", DNN_WORKSPACE)                              \
  X(run_forward, "cudnnConvolutionForward", DNN_RUN)                                                                \
  X(run_data, "cudnnConvolutionBackwardData", DNN_RUN)                                                              \
  X(run_filter, "cudnnConvolutionBackwardFilter", DNN_RUN)                                                          \
  X(run_then, "cudnnConvolutionBiasActivationForward",                                                              \
    (dnn_handle handle, const void *alpha, dnn_desc x_desc, const void *x, dnn_desc w_desc, const void *w,          \
     dnn_desc conv, int algorithm, void *workspace, size_t bytes, const void *beta, dnn_desc z_desc, const void *z, \
     dnn_desc bias_desc, const void *bias, dnn_desc function, dnn_desc y_desc, void *y))                            \
  X(add, "cudnnAddTensor",                                                                                          \
    (dnn_handle handle, const void *alpha, dnn_desc a_desc, const void *a, const void *beta, dnn_desc c_desc,       \
     void *c))

typedef struct cuda_dnn {
  void *library;
  dnn_handle handle; // of the context that was current at the opening; one user at a time
#define X(field, symbol, params) dnn_status(*field) params;
  DNN_FUNCTIONS(X)
#undef X
} cuda_dnn;

extern const tc_call_table cuda_dnn_calls;

#endif
