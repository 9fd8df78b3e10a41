// An opened device of a plugin, with its code generator and the cache of compiled code.
//
// A tc_device is created once per context and may be used from several threads.
#ifndef TC_CORE_RUNTIME_DEVICE_H_
#define TC_CORE_RUNTIME_DEVICE_H_

#include "core/base/vec.h"
#include "core/plugin/plugin.h"
#include "tc/kernel.h"

typedef struct tc_device {
  const tc_allocator *allocator;
  const tc_logger *logger;
  tc_plugin *plugin, *codegen; // codegen may be another plugin
  tc_device_ *handle;
  tc_device_props props;
  const char *cache_dir; // absolute folder for compiled code; NULL: no cache on disk
} tc_device;

// Opens device `index` of a kind. Ownership: the caller's arena holds the struct; close before it goes.
TC_NODISCARD tc_status tc_device_open(tc_arena *arena, const tc_allocator *a, tc_plugins *plugins, tc_sv kind, int32_t index, const char *cache_dir, const tc_logger *logger, tc_device **out);
void tc_device_close(tc_device *d);

typedef struct tc_compile_stats {
  int32_t kernels, hits; // asked for, found on disk
  double ms;             // in the code generator
} tc_compile_stats;
// Code objects of plain kernels, one each, from the cache or the code generator. blobs[i] lives in the arena.
TC_NODISCARD tc_status tc_device_compile(tc_device *d, tc_arena *arena, int32_t n, const tc_kernel *const *kernels, tc_sv *blobs, tc_compile_stats *stats);
// What the code generator would print for one kernel.
TC_NODISCARD tc_status tc_device_code_text(tc_device *d, tc_arena *arena, const tc_kernel *k, tc_sv *out);

#endif
