// A context: configuration, plugins, registries, devices, threads. Everything that tc does happens in one; nothing is
// global. Created once per program (or per thread of independent work); the functions below may be called from several
// threads unless stated otherwise.
#ifndef TC_CORE_RUNTIME_CONTEXT_H_
#define TC_CORE_RUNTIME_CONTEXT_H_

#include "core/config/config.h"
#include "core/ir/op.h"
#include "core/loop/template.h"
#include "core/runtime/device.h"

typedef struct tc_context {
  const tc_allocator *allocator;
  tc_arena *arena; // of the context's own life
  tc_config *config;
  tc_logger logger;
  tc_executor executor;
  tc_plugins *plugins;
  tc_op_registry *ops;
  tc_template_registry templates;
  const char *cache_dir;        // NULL: caches are off
  struct tc_plugin_cache *kept; // what plugins keep there; owned, NULL: nothing
  tc_device *device;            // the backend's; NULL for the references
  bool is_ref;
  tc_sv backend;              // resolved name
  struct tc_eager *eager;     // the cache of single ops (core/runtime/eager.h); owned, NULL until an embedder opens it
  int32_t n_functions;        // compiled functions so far: their ids in logs; atomic
  uint64_t n_nodes;           // of tapes so far; atomic
  uint64_t seed, drawn;       // of random ops that an embedder runs: the option or tc_manual_seed, how many ran; atomic
  struct tc_profile *profile; // the timeline (core/base/profile.h); owned, NULL: none is wanted
  tc_tuned_fn tuned;          // of its parts
  void (*close)(struct tc_context *c);       // the same; NULL: nothing
  tc_status (*opened)(struct tc_context *c); // the same
} tc_context;

// What a context can do besides running what is compiled.
typedef struct tc_context_parts {
  tc_host_tables tables; // lent to plugins
  // Ops and templates, also those of the plugins that were found; under the guard of the arena. NULL: there are none.
  TC_NODISCARD tc_status (*set_up)(tc_context *c, int32_t n_plugins, const tc_plugin *plugins);
  // What waits for the backend to be open; under that guard, too. NULL: nothing does.
  TC_NODISCARD tc_status (*opened)(tc_context *c);
  void (*close)(tc_context *c);
  tc_tuned_fn tuned; // NULL: nothing is tuned, whatever the mode
} tc_context_parts;
// Takes over the config, which must have been read and its mode applied. Log lines go to `logger.write`.
TC_NODISCARD tc_status tc_context_create_with(const tc_allocator *a, tc_config *config, tc_logger logger,
                                              const tc_context_parts *parts, tc_context **out);
// The same with the whole compiler.
TC_NODISCARD tc_status tc_context_create(const tc_allocator *a, tc_config *config, tc_logger logger, tc_context **out);
// Adds a plugin that lies in no folder, with its ops and templates, to a context of the whole compiler. Not
// thread-safe.
TC_NODISCARD tc_status tc_context_add_plugin(tc_context *c, const char *path, tc_plugin **out);
void tc_context_destroy(tc_context *c); // with its config; nothing made by it may be in use
// Opens the backend that the config names ("auto": the best device plugin that finds a device). Not thread-safe.
TC_NODISCARD tc_status tc_context_open_backend(tc_context *c);
// How many runs an executable may keep recorded as device graphs (tc_exec_set_replays); 0: none are wanted.
int32_t tc_context_replays(const tc_context *c);
// What a run of n random nodes draws from: numbers are those of (seed, stream + the node's own stream, element), so
// that the same random ops give the same numbers in one program or in several, one after the other.
void tc_context_draw(tc_context *c, uint64_t n, uint64_t *out_seed, uint64_t *out_stream);
void tc_context_set_seed(tc_context *c, uint64_t seed);
// For which device kernels by hand are, and whether the backend generates code. Its backend should be open.
struct tc_user_device tc_context_user_device(const tc_context *c);
// Reads definitions of ops with kernels by hand, one or more and nothing else; errors name `name`, line and column.
// Under the guard of the context's arena, which the text outlives. Not while others use the context.
TC_NODISCARD tc_status tc_context_define(tc_context *c, tc_sv name, tc_sv text, const struct tc_user_device *device);
// Is every compilation to leave a folder (core/runtime/debug.h)?
bool tc_debug_wanted(const tc_context *c);
// How this context opens devices.
tc_device_options tc_context_device_options(const tc_context *c);

#endif
