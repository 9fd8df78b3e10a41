// An opened device of a plugin: its code generator, its libraries, memory pools, compiled code and loaded kernels.
//
// A tc_device is created once per context and may be used from several threads.
#ifndef TC_CORE_RUNTIME_DEVICE_H_
#define TC_CORE_RUNTIME_DEVICE_H_

#include "core/base/vec.h"
#include "core/plan/plan.h"
#include "core/plugin/plugin.h"
#include "core/runtime/cache.h"
#include "core/runtime/pool.h"
#include "core/runtime/tuning.h"

#include "tc/kernel.h"

// A library's table of calls and the plugin that it is from.
typedef struct tc_device_calls {
  const tc_plugin *plugin;
  const tc_call_table *table;
} tc_device_calls;

struct tc_modules; // loaded code (device.c)
struct tc_device;

// What tuning says of a node that libraries may do (tune_choice.c).
enum { TC_TUNED_NOT, TC_TUNED_KERNEL, TC_TUNED_CALL };
typedef int32_t (*tc_tuned_fn)(struct tc_device *d, tc_arena *arena, const tc_node *n,
                               const tc_device_calls **out_calls, int32_t *out_variant);

typedef struct tc_device {
  const tc_allocator *allocator;
  const tc_logger *logger;
  const tc_executor *executor;
  struct tc_profile *profile;  // of runs and generated code; NULL: none
  tc_plugin *plugin, *codegen; // codegen may be another plugin, or NULL: the device has routines only
  tc_device_ *handle;
  tc_device_props props;
  tc_cache *cache;   // owned; NULL: no cache on disk
  tc_tuning *tuning; // owned; NULL: choices are not tuned
  tc_tuned_fn tuned; // not NULL where `tuning` is not
  int32_t optimize;
  const tc_device_calls *calls; // best first
  int32_t n_calls;
  tc_handle stream; // of all runs
  tc_pool *host;    // outputs
  tc_pool *memory;  // arenas and buffers; the same as `host` where memory handles are host addresses
  struct tc_modules *modules;
} tc_device;

typedef struct tc_device_options {
  const tc_allocator *allocator;
  const tc_logger *logger;
  const tc_executor *executor; // NULL: serial
  struct tc_profile *profile;  // or NULL
  const char *cache_dir;       // absolute; compiled code goes to its folder `code`. NULL: no cache on disk
  int64_t cache_bytes;         // its bound; 0: none
  int64_t idle_bytes;          // most memory that is kept for later; 0: 1 GiB
  int32_t optimize;            // effort of the code generator
  bool calls;                  // use libraries
  tc_tuned_fn tuned;           // not NULL: choices are tuned, records go to the cache's folder `tuning`
} tc_device_options;

// Opens device `index` of a kind. Ownership: the caller's arena holds the struct; close before it goes.
TC_NODISCARD tc_status tc_device_open(tc_arena *arena, tc_plugins *plugins, tc_sv kind, int32_t index,
                                      const tc_device_options *options, tc_device **out);
// NULL is ignored. No executable may be left; storages that runs gave out stay good if memory is the host's.
void tc_device_close(tc_device *d);

typedef struct tc_compile_stats {
  int32_t kernels, hits; // asked for; found loaded, among the others, or on disk
  double ms;             // in the code generator, on all threads together
} tc_compile_stats;
// A kernel's code as a device loads it.
typedef struct tc_object {
  tc_sv name;     // of the function in it
  tc_hash128 key; // equal keys are equal code
  tc_sv code;
} tc_object;
// Objects of plain kernels, one each, from the cache or the code generator (several threads). They lie in the arena.
TC_NODISCARD tc_status tc_device_compile(tc_device *d, tc_arena *arena, int32_t n, const tc_kernel *const *kernels,
                                         tc_object *objects, tc_compile_stats *stats);
// What makes code: the generator, its version, the device's features and the effort.
TC_NODISCARD tc_status tc_device_generator_key(tc_device *d, tc_arena *arena, tc_sv *out);
// What the code generator would print for one kernel.
TC_NODISCARD tc_status tc_device_code_text(tc_device *d, tc_arena *arena, const tc_kernel *k, tc_sv *out);

// A kernel ready to launch. Equal kernels are loaded once per device and shared.
typedef struct tc_loaded {
  struct tc_loaded *next;
  tc_hash128 key;
  tc_handle module, function;
  int64_t users; // executables that hold it
} tc_loaded;
// The kernels, compiled and loaded. out[i], NULL before, is held by the caller as soon as it is set: whatever is set
// when this fails or unwinds is to be released too.
TC_NODISCARD tc_status tc_device_load(tc_device *d, tc_arena *arena, int32_t n, const tc_kernel *const *kernels,
                                      tc_loaded **out, tc_compile_stats *stats);
// The same for code that is there; what out[i] has already stays. Needs no code generator. An object that the device
// cannot run (made for another one) is an error.
TC_NODISCARD tc_status tc_device_load_objects(tc_device *d, int32_t n, const tc_object *objects, tc_loaded **out);
// The same of a plan's code; what is not loaded and has no object comes from the cache, NOT_FOUND if it is not there.
TC_NODISCARD tc_status tc_device_load_code(tc_device *d, tc_arena *arena, int32_t n, const tc_plan_code *code,
                                           tc_loaded **out);
// What stands for the kernels in a plan without them: keys, names, parameters and, if `objects`, the objects, from the
// cache or the code generator.
TC_NODISCARD tc_status tc_device_export(tc_device *d, tc_arena *arena, int32_t n, const tc_kernel *const *kernels,
                                        bool objects, tc_plan_code *out);
// The same of kernels that are texts. Takes no memory of the caller's, so that it may be called in runs.
TC_NODISCARD tc_status tc_device_load_texts(tc_device *d, int32_t n, const tc_plan_code *code, tc_loaded **out,
                                            tc_compile_stats *stats);
tc_loaded *tc_device_find_loaded(tc_device *d, tc_hash128 key); // held by the caller; NULL if it is not loaded
void tc_device_release(tc_device *d, tc_loaded *k);             // NULL is ignored

// Can runs be recorded as device graphs? Says so once in the log if not.
bool tc_device_has_graphs(tc_device *d);

// Memory for what recorded runs keep nowhere: all of them share it, since their graphs run one after the other. It
// grows by a new block, and a block goes with its last user. Thread-safe.
typedef struct tc_scratch {
  tc_pool_block *block;
  int64_t users;
} tc_scratch;
TC_NODISCARD tc_status tc_device_scratch(tc_device *d, int64_t bytes, tc_scratch **out);
void tc_device_scratch_drop(tc_device *d, tc_scratch *s); // NULL is ignored

#endif
