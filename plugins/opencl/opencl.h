// What the files of this plugin share: the device and its tables.
//
// A device is a device of any installed OpenCL driver, with a context of its own. Memory handles are buffer objects
// (cl_mem): they are no addresses, so every access is a handle and a byte offset. Stream handles are in-order command
// queues, event handles markers in them. All functions of the tables may be called from any thread.
#ifndef TC_PLUGINS_OPENCL_OPENCL_H_
#define TC_PLUGINS_OPENCL_OPENCL_H_

#include <pthread.h>

#include "driver.h"

#include "tc/bundle.h"
#include "tc/cprint.h"
#include "tc/hostmem.h"

enum { OPENCL_RECENT = 4 };

struct tc_device_ {
  const tc_host *host;
  int32_t sync;      // config key `sync`: every launch is waited for, so that failures name their kernel
  int32_t profiling; // config key `profiling`: queues note times
  cl_driver driver;
  cl_device device;
  cl_context context;
  tc_cdialect dialect;    // kernels are printed in
  uint32_t what;          // TC_OPENCL_*: what the dialect has beside OpenCL C 1.2
  int32_t rounded_divide; // the compiler can be told to round f32 divisions and roots correctly
  size_t parameter_bytes, work_group, local_bytes;
  uint64_t most_bytes;   // that one buffer is given; 0: the driver says
  tc_device_props props; // .target says what code is good for
  pthread_mutex_t lock;
  // Under the lock:
  char recent[OPENCL_RECENT][80]; // names of the last launches, for messages
  uint64_t n_launches;
  int64_t used, peak; // bytes of buffers that are out
};

// The result of the driver's function `what` as a TC_STATUS_*, reported.
int32_t opencl_check(const tc_device_ *d, const char *what, cl_int code);
// Builds a program for the device, from source or from a binary. PLUGIN, reported with the compiler's words, if it
// refuses.
int32_t opencl_build(tc_device_ *d, cl_program p, const char *name);
// Chooses the dialect by what the device declares and its compiler takes; adds to the target's name.
void opencl_choose_dialect(tc_device_ *d);

// memory.c
int32_t opencl_alloc(tc_device_ *d, uint64_t size, tc_handle *out);
void opencl_free(tc_device_ *d, tc_handle memory);
int32_t opencl_copy_in(tc_device_ *d, tc_handle stream, tc_handle dst, int64_t dst_offset, const void *src,
                       uint64_t size);
int32_t opencl_copy_out(tc_device_ *d, tc_handle stream, void *dst, tc_handle src, int64_t src_offset, uint64_t size);
int32_t opencl_copy(tc_device_ *d, tc_handle stream, tc_handle dst, int64_t dst_offset, tc_handle src,
                    int64_t src_offset, uint64_t size);
int32_t opencl_fill(tc_device_ *d, tc_handle stream, tc_handle dst, int64_t offset, uint8_t value, uint64_t size);
int32_t opencl_memory_stats(tc_device_ *d, tc_memory_stats *out);

// event.c
int32_t opencl_event_create(tc_device_ *d, tc_handle *out);
void opencl_event_destroy(tc_device_ *d, tc_handle event);
int32_t opencl_event_record(tc_device_ *d, tc_handle stream, tc_handle event);
int32_t opencl_event_elapsed(tc_device_ *d, tc_handle from, tc_handle to, double *out_ns);

// module.c
int32_t opencl_module_load(tc_device_ *d, const void *blob, uint64_t size, tc_handle *out);
void opencl_module_unload(tc_device_ *d, tc_handle module);
int32_t opencl_module_function(tc_device_ *d, tc_handle module, tc_sv name, tc_handle *out);
int32_t opencl_launch(tc_device_ *d, tc_handle stream, const tc_launch *l);

extern const tc_device_table opencl_device;
extern const tc_codegen_table opencl_codegen;

#endif
