// What this plugin uses of the CUDA driver, declared here: types, constants and functions as the driver's reference
// manual ("CUDA Driver API") states them. The library is opened at run time; nothing is linked.
#ifndef TC_PLUGINS_CUDA_DRIVER_H_
#define TC_PLUGINS_CUDA_DRIVER_H_

#include "tc/plugin.h"

typedef int cu_result; // CUresult: 0 is success
typedef int cu_device;
typedef uint64_t cu_ptr; // CUdeviceptr
typedef struct cu_context_ *cu_context;
typedef struct cu_stream_ *cu_stream;
typedef struct cu_event_ *cu_event;
typedef struct cu_module_ *cu_module;
typedef struct cu_function_ *cu_function;
typedef struct cu_pool_ *cu_pool;
typedef struct cu_graph_ *cu_graph;
typedef struct cu_graph_exec_ *cu_graph_exec;

enum { CU_OK = 0, CU_OUT_OF_MEMORY = 2, CU_NO_DEVICE = 100 };
// CUdevice_attribute
enum {
  CU_ATTR_MAX_THREADS = 1,
  CU_ATTR_MAX_GRID_X = 5,
  CU_ATTR_CLOCK_KHZ = 13,
  CU_ATTR_SMS = 16,
  CU_ATTR_MEMORY_KHZ = 36,
  CU_ATTR_BUS_BITS = 37,
  CU_ATTR_L2_BYTES = 38,
  CU_ATTR_MAJOR = 75,
  CU_ATTR_MINOR = 76,
  CU_ATTR_SHARED_OPTIN = 97,
  CU_ATTR_POOLS = 115
};
enum { CU_STREAM_NON_BLOCKING = 1, CU_EVENT_NO_TIMING = 2, CU_EVENT_DEFAULT = 0, CU_CAPTURE_RELAXED = 2 };
enum { CU_POOL_RELEASE_THRESHOLD = 4, CU_POOL_USED = 7, CU_POOL_USED_MOST = 8 };
enum { CU_FUNC_DYNAMIC_SHARED = 8 };
enum { CU_LAUNCH_DEPENDENT = 6 }; // CUlaunchAttributeID: programmatic stream serialization

// CUlaunchAttribute and CUlaunchConfig.
typedef struct cu_launch_attribute {
  int32_t id, reserved;
  union {
    int32_t allowed;
    char bytes[64];
  } value;
} cu_launch_attribute;
typedef struct cu_launch_config {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  cu_stream stream;
  const cu_launch_attribute *attributes;
  unsigned n_attributes;
} cu_launch_config;

// X(field, symbol, parameters). The suffixed names are those that the driver's headers map the plain ones to.
#define CU_FUNCTIONS(X)                                                                                           \
  X(init, "cuInit", (unsigned flags))                                                                             \
  X(version, "cuDriverGetVersion", (int *version))                                                                \
  X(error_name, "cuGetErrorName", (cu_result code, const char **text))                                            \
  X(error_text, "cuGetErrorString", (cu_result code, const char **text))                                          \
  X(device_count, "cuDeviceGetCount", (int *count))                                                               \
  X(device_get, "cuDeviceGet", (cu_device * device, int index))                                                   \
  X(device_name, "cuDeviceGetName", (char *name, int size, cu_device device))                                     \
  X(device_memory, "cuDeviceTotalMem_v2", (size_t *bytes, cu_device device))                                      \
  X(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, cu_device device))                      \
  X(context_retain, "cuDevicePrimaryCtxRetain", (cu_context * context, cu_device device))                         \
  X(context_release, "cuDevicePrimaryCtxRelease_v2", (cu_device device))                                          \
  X(context_set, "cuCtxSetCurrent", (cu_context context))                                                         \
  X(pool_get, "cuDeviceGetDefaultMemPool", (cu_pool * pool, cu_device device))                                    \
  X(pool_set, "cuMemPoolSetAttribute", (cu_pool pool, int attribute, void *value))                                \
  X(pool_read, "cuMemPoolGetAttribute", (cu_pool pool, int attribute, void *value))                               \
  X(memory_alloc, "cuMemAlloc_v2", (cu_ptr * memory, size_t bytes))                                               \
  X(memory_free, "cuMemFree_v2", (cu_ptr memory))                                                                 \
  X(memory_alloc_async, "cuMemAllocAsync", (cu_ptr * memory, size_t bytes, cu_stream stream))                     \
  X(memory_free_async, "cuMemFreeAsync", (cu_ptr memory, cu_stream stream))                                       \
  X(host_alloc, "cuMemHostAlloc", (void **memory, size_t bytes, unsigned flags))                                  \
  X(host_free, "cuMemFreeHost", (void *memory))                                                                   \
  X(stream_create, "cuStreamCreate", (cu_stream * stream, unsigned flags))                                        \
  X(stream_destroy, "cuStreamDestroy_v2", (cu_stream stream))                                                     \
  X(stream_synchronize, "cuStreamSynchronize", (cu_stream stream))                                                \
  X(event_create, "cuEventCreate", (cu_event * event, unsigned flags))                                            \
  X(event_destroy, "cuEventDestroy_v2", (cu_event event))                                                         \
  X(event_record, "cuEventRecord", (cu_event event, cu_stream stream))                                            \
  X(event_synchronize, "cuEventSynchronize", (cu_event event))                                                    \
  X(event_elapsed, "cuEventElapsedTime", (float *milliseconds, cu_event from, cu_event to))                       \
  X(memory_info, "cuMemGetInfo_v2", (size_t *unused, size_t *total))                                              \
  X(capture_begin, "cuStreamBeginCapture_v2", (cu_stream stream, int mode))                                       \
  X(capture_end, "cuStreamEndCapture", (cu_stream stream, cu_graph * graph))                                      \
  X(graph_instantiate, "cuGraphInstantiateWithFlags",                                                             \
    (cu_graph_exec * executable, cu_graph graph, unsigned long long flags))                                       \
  X(graph_launch, "cuGraphLaunch", (cu_graph_exec executable, cu_stream stream))                                  \
  X(graph_exec_destroy, "cuGraphExecDestroy", (cu_graph_exec executable))                                         \
  X(graph_destroy, "cuGraphDestroy", (cu_graph graph))                                                            \
  X(copy_in, "cuMemcpyHtoDAsync_v2", (cu_ptr to, const void *from, size_t bytes, cu_stream stream))               \
  X(copy_out, "cuMemcpyDtoHAsync_v2", (void *to, cu_ptr from, size_t bytes, cu_stream stream))                    \
  X(copy, "cuMemcpyDtoDAsync_v2", (cu_ptr to, cu_ptr from, size_t bytes, cu_stream stream))                       \
  X(fill, "cuMemsetD8Async", (cu_ptr to, unsigned char value, size_t bytes, cu_stream stream))                    \
  X(module_load, "cuModuleLoadData", (cu_module * module, const void *image))                                     \
  X(module_unload, "cuModuleUnload", (cu_module module))                                                          \
  X(module_function, "cuModuleGetFunction", (cu_function * function, cu_module module, const char *name))         \
  X(function_set, "cuFuncSetAttribute", (cu_function function, int attribute, int value))                         \
  X(launch, "cuLaunchKernel",                                                                                     \
    (cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
     unsigned block_z, unsigned shared_bytes, cu_stream stream, void **params, void **extra))

typedef struct cuda_driver {
  void *library;
#define X(field, symbol, params) cu_result(*field) params;
  CU_FUNCTIONS(X)
#undef X
  // cuTensorMapEncodeTiled: describes a tensor for bulk copies in 128 bytes at a multiple of 64. NULL: a driver
  // before 12.0.
  cu_result (*tensor_map)(void *map, int type, uint32_t rank, cu_ptr address, const uint64_t *sizes,
                          const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
                          int swizzle, int promotion, int fill);
  // cuLaunchKernelEx. NULL: a driver before 11.8.
  cu_result (*launch_as)(const cu_launch_config *config, cu_function function, void **params, void **extra);
} cuda_driver;

// Opens the driver (config key `driver`: a file; else libcuda.so.1 of the loader's path) and starts it. DEVICE, with a
// text in `why`, if it is not there, lacks a function, or does not start.
int32_t cuda_driver_open(const tc_host *h, cuda_driver *out, char *why, size_t why_size);
// "cuLaunchKernel: CUDA_ERROR_INVALID_VALUE (invalid argument)"; the result is a TC_STATUS_*.
int32_t cuda_driver_error(const cuda_driver *d, const char *what, cu_result code, char *text, size_t size);

#endif
