// Plugins as the core sees them: what the configured folders hold, loaded when asked for.
//
//   manifests ──scan──> available ──tc_plugins_find_*──> checks of file ──dlopen──> handshake ──> loaded | refused
//
// A manifest NAME.tc-plugin.toml lies beside the shared object and is read before anything of the plugin runs:
//
//   name = "dev"                          # unique; also the section of the configuration that the plugin may read
//   file = "libtc_dev.so"                 # a plain name in the manifest's folder
//   libraries = ["libtc_dev_blas.so"]     # files of that folder that it opens by itself; another build of one is
//                                         # another build of the plugin
//   abi = "1.0"                           # MAJOR.MINOR, or a range of minors MAJOR.LOW-HIGH
//   capabilities = ["device", "calls"]    # device, codegen, calls, ops, templates, delegate
//   devices = ["dev"]                     # kinds of devices that it drives, or works for; absent: any
//   ops = ["fft::*", "aten::_fft_c2c"]    # globs of the ops that it brings
//   calls = ["aten::mm", "aten::conv*"]   # globs of the ops that its libraries are asked about; absent: all
//   priority = 10                         # among plugins that offer the same; default 0
//   vendor = "…"   version = "…"   description = "…"
//
// Safety: folders, manifests and files that group or others may write to are refused; a file is loaded by its absolute
// real path; it may export `tc_plugin_query` and nothing else. Nothing is ever unloaded. A loaded plugin is trusted
// code.
//
// After the handshake the host works on tables of its own size: what the plugin gives is copied as far as both sides
// know it; missing optional functions are replaced by ones that return UNIMPLEMENTED, so slots are never tested for
// NULL; a missing function that a capability needs is a refusal that names it.
//
// Thread-safety: all functions may be called from several threads, except create and destroy. A tc_plugin lives as long
// as its tc_plugins; its fields below "after loading" are valid once a find function has returned it.
#ifndef TC_CORE_PLUGIN_PLUGIN_H_
#define TC_CORE_PLUGIN_PLUGIN_H_

#include "core/base/executor.h"
#include "core/base/log.h"

#include "tc/plugin.h"

typedef struct tc_plugins tc_plugins;

enum { TC_PLUGIN_AVAILABLE, TC_PLUGIN_LOADED, TC_PLUGIN_REFUSED };
const char *tc_plugin_state_name(int32_t state); // "available"

typedef struct tc_plugin {
  // From the manifest.
  tc_sv name;
  tc_sv manifest; // absolute path; "" for a shared object without one
  tc_sv file;     // absolute real path; as the manifest names it if there is no such file
  tc_sv vendor, version, description;
  uint32_t abi_major, abi_minor_low, abi_minor_high;
  int32_t priority;
  uint64_t capabilities; // TC_CAP_* bits
  const tc_sv *devices;
  const tc_sv *op_globs;
  const tc_sv *call_globs;
  const tc_sv *libraries; // plain names of files beside `file`
  int32_t n_devices, n_op_globs, n_call_globs, n_libraries;
  int32_t state; // TC_PLUGIN_*: read it through tc_plugins_list while other threads may load
  tc_sv reason;  // of the refusal

  // After loading.
  tc_sv build_id;
  const tc_host *host; // to be passed to the plugin's functions
  const tc_device_table *device;
  const tc_codegen_table *codegen;
  const tc_call_table *const *calls;
  const tc_delegate_table *delegate;
  const tc_op_def *ops; // rows of the host's size
  const struct tc_template_table *const *templates;
  int32_t n_calls, n_ops, n_templates;
  const tc_extension *extensions; // the plugin's own list; tc_plugin_extension finds
} tc_plugin;
// The extension of that id with at least so many bytes, or NULL. Experimental ones count only where they were built
// with the very headers of this program.
const tc_extension *tc_plugin_extension(const tc_plugin *p, uint64_t id, uint64_t least_size);

// Does the plugin work for devices of that kind, by its manifest? One that names no kinds works for any.
bool tc_plugin_serves(const tc_plugin *p, tc_sv kind);
// Are its libraries to be asked about an op ("aten::mm"), by its manifest? They are not asked about any other.
bool tc_plugin_calls(const tc_plugin *p, tc_sv op);

// Tables that plugins are lent; NULL where the program does not link the part. They must live as long as the process.
typedef struct tc_host_tables {
  const tc_kernel_read_table *kernel_read;
  const tc_kernel_build_table *kernel_build;
  const tc_op_table *op;
  const tc_expand_table *expand;
  const tc_lower_table *lower;
  const tc_stage_table *stage;
} tc_host_tables;
// All of the core's (host.c).
tc_host_tables tc_host_tables_core(void);

typedef struct tc_plugins_options {
  const tc_allocator *allocator; // required; plugins allocate from it too
  const tc_executor *executor;   // NULL: serial
  const tc_logger *logger;       // NULL: silent
  tc_host_tables tables;
  // Folders to scan, absolute; a missing one is an error. None: the program's own, ../plugins and ../lib/tc/plugins,
  // as far as they exist.
  const tc_sv *folders;
  int32_t n_folders;
  tc_sv prefer;   // comma-separated names: earlier ones win over later ones and over any priority
  tc_sv disabled; // comma-separated names
  // A value of the plugin's section of the configuration, "" if unset; must stay valid until the tc_plugins is
  // destroyed.
  tc_sv (*config)(void *self, tc_sv section, tc_sv key);
  void *config_self;
  // What plugins keep on disk; from any thread. NULL: nothing is kept. `get` writes to the sink what was put, or
  // returns NOT_FOUND.
  int32_t (*cache_get)(void *self, tc_hash128 key, const tc_sink *sink);
  void (*cache_put)(void *self, tc_hash128 key, tc_sv contents);
  void *cache_self;
} tc_plugins_options;

// Scans the folders; loads nothing. Bad manifests become refused entries, not errors.
TC_NODISCARD tc_status tc_plugins_create(const tc_plugins_options *options, tc_plugins **out);
// The shared objects stay in the process; nothing made by a plugin may be in use any more.
void tc_plugins_destroy(tc_plugins *ps);

// All entries, in order of folders and names: for `tcrun plugins`. Copies, taken at once; strings live as long as `ps`.
TC_NODISCARD tc_status tc_plugins_list(tc_plugins *ps, tc_arena *arena, tc_plugin **out, int32_t *out_count);
// Adds one file that no folder holds (tcrun conform --plugin): its manifest must lie beside it. Loads nothing.
TC_NODISCARD tc_status tc_plugins_add_file(tc_plugins *ps, const char *path, tc_plugin **out);

// The plugin that drives devices of this kind ("dev"), loaded. Of several the preferred one, else the one of highest
// priority; two of equal priority are an error unless the options prefer one. Refused ones are passed over. If none is
// left the error names the kinds that exist, and why plugins were refused.
TC_NODISCARD tc_status tc_plugins_find_device(tc_plugins *ps, tc_sv kind, tc_plugin **out);
// The same for the code generator of a device kind.
TC_NODISCARD tc_status tc_plugins_find_codegen(tc_plugins *ps, tc_sv kind, tc_plugin **out);
// The plugin that brings an op ("fft::roll"), by its manifest's globs, loaded. NOT_FOUND, without a text of its own
// making other than the name, if no plugin claims it.
TC_NODISCARD tc_status tc_plugins_find_op(tc_plugins *ps, tc_sv op, tc_plugin **out);
// All plugins with a capability (a TC_CAP_* bit) for a device kind ("": any), loaded, best first. Those that are
// refused are left out. The array is the arena's.
TC_NODISCARD tc_status tc_plugins_find_all(tc_plugins *ps, tc_arena *arena, uint64_t capability, tc_sv kind,
                                           tc_plugin ***out, int32_t *out_count);
// Loads one entry, whatever it is for. The error is the refusal.
TC_NODISCARD tc_status tc_plugins_load(tc_plugins *ps, tc_plugin *p);
// Device kinds that some plugin claims to drive, each once.
TC_NODISCARD tc_status tc_plugins_device_kinds(tc_plugins *ps, tc_arena *arena, tc_sv **out, int32_t *out_count);

// What a plugin's function returned, as a status: its code, what this thread reported through host->diag during the
// call, and the note. OK stays OK and costs nothing.
//   TC_TRY(tc_plugin_status(p, p->device->open(p->host, 0, &d), "while opening device %d", 0));
TC_NODISCARD tc_status tc_plugin_status(const tc_plugin *p, int32_t code, const char *fmt, ...) TC_PRINTF(3, 4);
// Takes what this thread reported last, without a failure (the reason why a call is not supported). "" if nothing.
tc_sv tc_plugin_take_diag(const tc_plugin *p, tc_arena *arena);

#endif
