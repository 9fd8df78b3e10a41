// What this plugin uses of OpenCL 1.2, declared here: types, constants and functions as "The OpenCL Specification,
// version 1.2" and its header state them. The loader of drivers (ICD loader) is opened at run time; nothing is linked.
#ifndef TC_PLUGINS_OPENCL_DRIVER_H_
#define TC_PLUGINS_OPENCL_DRIVER_H_

#include "tc/plugin.h"

typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint64_t cl_bits;
typedef struct cl_platform_ *cl_platform;
typedef struct cl_device_ *cl_device;
typedef struct cl_context_ *cl_context;
typedef struct cl_queue_ *cl_queue;
typedef struct cl_mem_ *cl_mem;
typedef struct cl_program_ *cl_program;
typedef struct cl_kernel_ *cl_kernel;
typedef struct cl_event_ *cl_event;

// Results. X(NAME, number)
#define CL_CODES(X)                   \
  X(SUCCESS, 0)                       \
  X(DEVICE_NOT_FOUND, -1)             \
  X(DEVICE_NOT_AVAILABLE, -2)         \
  X(COMPILER_NOT_AVAILABLE, -3)       \
  X(MEM_ALLOCATION_FAILURE, -4)       \
  X(OUT_OF_RESOURCES, -5)             \
  X(OUT_OF_HOST_MEMORY, -6)           \
  X(PROFILING_INFO_NOT_AVAILABLE, -7) \
  X(BUILD_PROGRAM_FAILURE, -11)       \
  X(EXEC_STATUS_ERROR, -14)           \
  X(INVALID_VALUE, -30)               \
  X(INVALID_DEVICE, -33)              \
  X(INVALID_CONTEXT, -34)             \
  X(INVALID_COMMAND_QUEUE, -36)       \
  X(INVALID_MEM_OBJECT, -38)          \
  X(INVALID_BINARY, -42)              \
  X(INVALID_BUILD_OPTIONS, -43)       \
  X(INVALID_PROGRAM, -44)             \
  X(INVALID_PROGRAM_EXECUTABLE, -45)  \
  X(INVALID_KERNEL_NAME, -46)         \
  X(INVALID_KERNEL, -48)              \
  X(INVALID_ARG_INDEX, -49)           \
  X(INVALID_ARG_VALUE, -50)           \
  X(INVALID_ARG_SIZE, -51)            \
  X(INVALID_KERNEL_ARGS, -52)         \
  X(INVALID_WORK_GROUP_SIZE, -54)     \
  X(INVALID_WORK_ITEM_SIZE, -55)      \
  X(INVALID_BUFFER_SIZE, -61)         \
  X(INVALID_GLOBAL_WORK_SIZE, -63)    \
  X(PLATFORM_NOT_FOUND, -1001)
enum {
#define X(name, number) CL_##name = number,
  CL_CODES(X)
#undef X
};

enum { CL_TRUE = 1 };
#define CL_DEVICE_TYPE_ALL 0xffffffffu
enum { CL_DEVICE_TYPE_CPU = 2, CL_DEVICE_TYPE_GPU = 4 };
// Questions.
enum {
  CL_PLATFORM_NAME = 0x0902,
  CL_DEVICE_TYPE = 0x1000,
  CL_DEVICE_COMPUTE_UNITS = 0x1002,
  CL_DEVICE_WORK_GROUP_SIZE = 0x1004,
  CL_DEVICE_WORK_ITEM_SIZES = 0x1005,
  CL_DEVICE_CLOCK_MHZ = 0x100C,
  CL_DEVICE_ADDRESS_BITS = 0x100D,
  CL_DEVICE_LARGEST_ALLOC = 0x1010,
  CL_DEVICE_PARAMETER_BYTES = 0x1017,
  CL_DEVICE_SINGLE_FP = 0x101B,
  CL_DEVICE_CACHE_BYTES = 0x101E,
  CL_DEVICE_MEMORY_BYTES = 0x101F,
  CL_DEVICE_LOCAL_BYTES = 0x1023,
  CL_DEVICE_LITTLE_ENDIAN = 0x1026,
  CL_DEVICE_AVAILABLE = 0x1027,
  CL_DEVICE_HAS_COMPILER = 0x1028,
  CL_DEVICE_NAME = 0x102B,
  CL_DEVICE_DRIVER_VERSION = 0x102D,
  CL_DEVICE_VERSION = 0x102F,
  CL_DEVICE_EXTENSIONS = 0x1030,
  CL_DEVICE_HALF_FP = 0x1033,
  CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV = 0x4000, // cl_nv_device_attribute_query
  CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV = 0x4001,
  CL_DEVICE_WARP_SIZE_NV = 0x4003,
  CL_DEVICE_WAVEFRONT_WIDTH_AMD = 0x4043, // cl_amd_device_attribute_query
  CL_PROGRAM_BINARY_SIZES = 0x1165,
  CL_PROGRAM_BINARIES = 0x1166,
  CL_PROGRAM_BUILD_LOG = 0x1183,
  CL_KERNEL_WORK_GROUP_SIZE = 0x11B0,
  CL_KERNEL_STATED_WORK_GROUP_SIZE = 0x11B1, // CL_KERNEL_COMPILE_WORK_GROUP_SIZE
  CL_KERNEL_LOCAL_BYTES = 0x11B2,
  CL_MEM_BYTES = 0x1102,
  CL_PROFILING_END = 0x1283
};
enum { CL_QUEUE_PROFILING = 2 };        // a property of a queue
enum { CL_FP_ROUNDED_DIVIDE = 1 << 7 }; // of CL_DEVICE_SINGLE_FP
enum { CL_MEM_READ_WRITE = 1 };

// X(result, field, symbol, parameters)
#define CL_FUNCTIONS(X)                                                                                                \
  X(cl_int, platforms, "clGetPlatformIDs", (cl_uint n, cl_platform * list, cl_uint * count))                           \
  X(cl_int, platform_info, "clGetPlatformInfo", (cl_platform p, cl_uint what, size_t room, void *value, size_t *size)) \
  X(cl_int, devices, "clGetDeviceIDs", (cl_platform p, cl_bits type, cl_uint n, cl_device * list, cl_uint * count))    \
  X(cl_int, device_info, "clGetDeviceInfo", (cl_device d, cl_uint what, size_t room, void *value, size_t *size))       \
  X(cl_context, context_create, "clCreateContext",                                                                     \
    (const intptr_t *properties, cl_uint n, const cl_device *devices, void *notify, void *user, cl_int *code))         \
  X(cl_int, context_release, "clReleaseContext", (cl_context c))                                                       \
  X(cl_queue, queue_create, "clCreateCommandQueue", (cl_context c, cl_device d, cl_bits properties, cl_int * code))    \
  X(cl_int, queue_release, "clReleaseCommandQueue", (cl_queue q))                                                      \
  X(cl_int, finish, "clFinish", (cl_queue q))                                                                          \
  X(cl_mem, buffer_create, "clCreateBuffer", (cl_context c, cl_bits flags, size_t size, void *host, cl_int *code))     \
  X(cl_int, buffer_release, "clReleaseMemObject", (cl_mem m))                                                          \
  X(cl_int, buffer_info, "clGetMemObjectInfo", (cl_mem m, cl_uint what, size_t room, void *value, size_t *size))       \
  X(cl_int, write, "clEnqueueWriteBuffer",                                                                             \
    (cl_queue q, cl_mem m, cl_uint block, size_t at, size_t size, const void *from, cl_uint n, const cl_event *wait,   \
     cl_event *event))                                                                                                 \
  X(cl_int, read, "clEnqueueReadBuffer",                                                                               \
    (cl_queue q, cl_mem m, cl_uint block, size_t at, size_t size, void *to, cl_uint n, const cl_event *wait,           \
     cl_event *event))                                                                                                 \
  X(cl_int, copy, "clEnqueueCopyBuffer",                                                                               \
    (cl_queue q, cl_mem from, cl_mem to, size_t from_at, size_t to_at, size_t size, cl_uint n, const cl_event *wait,   \
     cl_event *event))                                                                                                 \
  X(cl_int, fill, "clEnqueueFillBuffer",                                                                               \
    (cl_queue q, cl_mem m, const void *pattern, size_t pattern_size, size_t at, size_t size, cl_uint n,                \
     const cl_event *wait, cl_event *event))                                                                           \
  X(cl_program, program_source, "clCreateProgramWithSource",                                                           \
    (cl_context c, cl_uint n, const char **texts, const size_t *sizes, cl_int *code))                                  \
  X(cl_program, program_binary, "clCreateProgramWithBinary",                                                           \
    (cl_context c, cl_uint n, const cl_device *devices, const size_t *sizes, const unsigned char **binaries,           \
     cl_int *states, cl_int *code))                                                                                    \
  X(cl_int, program_build, "clBuildProgram",                                                                           \
    (cl_program p, cl_uint n, const cl_device *devices, const char *options, void *notify, void *user))                \
  X(cl_int, program_info, "clGetProgramInfo", (cl_program p, cl_uint what, size_t room, void *value, size_t *size))    \
  X(cl_int, build_info, "clGetProgramBuildInfo",                                                                       \
    (cl_program p, cl_device d, cl_uint what, size_t room, void *value, size_t *size))                                 \
  X(cl_int, program_release, "clReleaseProgram", (cl_program p))                                                       \
  X(cl_kernel, kernel_create, "clCreateKernel", (cl_program p, const char *name, cl_int *code))                        \
  X(cl_int, kernel_release, "clReleaseKernel", (cl_kernel k))                                                          \
  X(cl_int, kernel_info, "clGetKernelWorkGroupInfo",                                                                   \
    (cl_kernel k, cl_device d, cl_uint what, size_t room, void *value, size_t *size))                                  \
  X(cl_int, kernel_arg, "clSetKernelArg", (cl_kernel k, cl_uint i, size_t size, const void *value))                    \
  X(cl_int, launch, "clEnqueueNDRangeKernel",                                                                          \
    (cl_queue q, cl_kernel k, cl_uint dims, const size_t *offset, const size_t *global, const size_t *local,           \
     cl_uint n, const cl_event *wait, cl_event *event))                                                                \
  X(cl_int, marker, "clEnqueueMarkerWithWaitList", (cl_queue q, cl_uint n, const cl_event *wait, cl_event *event))     \
  X(cl_int, events_wait, "clWaitForEvents", (cl_uint n, const cl_event *events))                                       \
  X(cl_int, event_profile, "clGetEventProfilingInfo",                                                                  \
    (cl_event e, cl_uint what, size_t room, void *value, size_t *size))                                                \
  X(cl_int, event_release, "clReleaseEvent", (cl_event e))

typedef struct cl_driver {
  void *library;
#define X(result, field, symbol, params) result(*field) params;
  CL_FUNCTIONS(X)
#undef X
} cl_driver;

// Opens the ICD loader (config key `library`: a file; else libOpenCL.so.1 of the loader's path). DEVICE, reported, if
// it is not there or lacks a function of version 1.2.
int32_t cl_driver_open(const tc_host *h, cl_driver *out);
// "clBuildProgram: CL_BUILD_PROGRAM_FAILURE (-11)", reported; OUT_OF_MEMORY or DEVICE. OK for CL_SUCCESS.
int32_t cl_driver_check(const tc_host *h, const char *what, cl_int code);

#endif
