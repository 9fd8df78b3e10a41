// The plugin boundary: handshake, host services, and the tables a plugin may offer: a device, kernels (code
// generation), calls (libraries), ops, templates.
//
// A plugin is a shared object with one exported symbol, `tc_plugin_query`, and a manifest NAME.tc-plugin.toml beside
// it. The query is pure and repeatable and starts no device. Rules: functions return a TC_STATUS_* code, the detail
// goes to host->diag; what one side allocates that side frees; strings are borrowed for the call; no exception or
// longjmp crosses. Tables grow by appending only: readers look at struct_size. Unless stated otherwise a function may
// be called from several threads.
#ifndef TC_PLUGIN_H_
#define TC_PLUGIN_H_

#include "tc/kernel.h"
#include "tc/lower.h"
#include "tc/op.h"
#include "tc/template.h"
#include "tc/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TC_ABI_MAGIC 0x31494254434C5054ull
#define TC_ABI_MAJOR 1
#define TC_ABI_MINOR 10
#define TC_ABI_KERNELS_LOCKED 5 // the minor version from which levels 2 and 3 are promised

// ---- Host services ----
// Artifacts of host->log that plugins have something to say to.
enum { TC_ARTIFACT_OUTPUT_CODE = 4, TC_ARTIFACT_PERF_HINTS = 8, TC_ARTIFACT_DEVICE_GRAPHS = 10 };
typedef void (*tc_range_fn_abi)(void *arg, int64_t begin, int64_t end);

// Receives bytes; returns a TC_STATUS_*.
typedef struct tc_sink {
  void *self;
  int32_t (*write)(void *self, const void *data, uint64_t size);
} tc_sink;

typedef struct tc_host {
  uint64_t magic;
  uint32_t abi_major, abi_minor;
  uint64_t struct_size;
  void *self; // passed back as the first argument of every function below
  // Reports the detail of a failure or refusal; the text is copied.
  void (*diag)(void *self, int32_t code, tc_sv text);
  void (*log)(void *self, int32_t artifact, tc_sv text);
  // 64-byte aligned, zeroed; NULL when memory is short.
  void *(*alloc)(void *self, uint64_t size);
  void (*free)(void *self, void *ptr);
  int32_t (*threads)(void *self);
  void (*parallel_for)(void *self, int64_t n, int64_t grain, tc_range_fn_abi fn, void *arg);
  // A config value below the plugin's own section, as text; size 0 if unset. Borrowed until the context ends.
  tc_sv (*config)(void *self, tc_sv key);
  // Function tables behind tc_k_*, tc_kb_* and tc_op_* (tc/tables.h): the SDK's dispatch.c forwards to them. They live
  // as long as the process; a table may be NULL where the host lacks the part.
  const struct tc_kernel_read_table *kernel_read;
  const struct tc_kernel_build_table *kernel_build;
  const struct tc_op_table *op;
  const struct tc_expand_table *expand; // tc_ex_*
  const struct tc_lower_table *lower;   // tc_lo_*
  const struct tc_stage_table *stage;   // tc_stage_*

  // Since 1.6; a host may have struct_size below, or NULL for both.
  // What a plugin keeps from process to process, in the cache on disk: code that it compiled itself, mostly. The key is
  // any bytes, which say all that the contents depend on; entries of other plugins are others'. cache_get writes the
  // contents to `sink` as they were put, or returns NOT_FOUND: they may be gone at any time. cache_put may keep
  // nothing.
  int32_t (*cache_get)(void *self, tc_sv key, const tc_sink *sink);
  void (*cache_put)(void *self, tc_sv key, const void *data, uint64_t size);
} tc_host;

// ---- A device ----
typedef struct tc_device_ tc_device_; // the plugin's own struct
typedef uint64_t tc_handle;           // memory, stream, event, module, function, graph: the plugin's numbers; 0 is none

// What the scheduler needs to know. Zero means "not known" or "none".
typedef struct tc_device_props {
  uint64_t struct_size;
  char name[128];
  char target[256]; // identifies generated code: architecture and features; part of cache keys
  int64_t memory_bytes, largest_alloc;
  int64_t l1_bytes, l2_bytes, l3_bytes; // per core, per core, shared
  int32_t host_memory;                  // 1: memory handles are host addresses (no copies needed)
  int32_t cores;                        // cores or multiprocessors
  int32_t simd_bytes; // CPU-like: bytes of a vector register; lanes are SIMD elements. 0: lanes are threads
  int32_t simd_registers;
  int32_t max_lanes;    // lanes in a block
  int32_t subgroup;     // lanes that run in lock-step (GPUs)
  int64_t shared_bytes; // per block
  int64_t max_blocks;
  uint64_t dtypes;      // bit TC_x: loads and stores
  uint64_t arithmetic;  // bit TC_x: arithmetic
  uint64_t atomics;     // bit TC_x: atomic_add on global memory
  int64_t launch_ns;    // cost of one launch
  int64_t flops_per_ns; // f32, whole device, approximate
  int64_t bytes_per_ns; // memory, approximate
  uint64_t pairs;       // bit TC_x: has dot2 over pairs of x (bf16)
  uint64_t tiles;       // bit TC_x: has mma over tiles of x (bf16, f16), in blocks of a multiple of 32 lanes; since 1.7
  int64_t tile_flops_per_ns; // of mma, whole device, approximate; since 1.7
} tc_device_props;

enum { TC_ARG_MEMORY, TC_ARG_SCALAR };
typedef struct tc_launch_arg {
  int32_t kind, bytes; // SCALAR: 1, 2, 4 or 8 bytes
  uint64_t value;      // memory handle, or the scalar's bits
  // MEMORY: bytes from the memory's start to element 0 of the kernel's, whole elements. Negative where a program's
  // input begins inside a larger tensor, from whose beginning the kernel counts: what it reads and writes lies in the
  // memory.
  int64_t offset;
} tc_launch_arg;

// What a failed `check` leaves: written by the first failing lane.
typedef struct tc_error_block {
  int64_t site; // -1: none
  int64_t value;
} tc_error_block;

typedef struct tc_launch {
  uint64_t struct_size;
  tc_handle function;
  int64_t blocks;            // 0: nothing to do
  int64_t grain;             // blocks that are worth a thread's start
  const tc_launch_arg *args; // borrowed for the call: what is queued copies them
  int32_t n_args, reserved;
  tc_handle errors; // a tc_error_block in device memory, with site -1; 0 where the kernel checks nothing
} tc_launch;

// Memory of the device, of all its users and of this process' plugin; -1 where not known.
typedef struct tc_memory_stats {
  uint64_t struct_size;
  int64_t total_bytes, free_bytes; // of the device
  int64_t used_bytes, peak_bytes;  // given out by `alloc`: now, and the most at once
} tc_memory_stats;

typedef struct tc_device_table {
  uint64_t struct_size;
  int32_t (*enumerate)(const tc_host *h, int32_t *out_count);
  int32_t (*open)(const tc_host *h, int32_t index, tc_device_ **out);
  void (*close)(tc_device_ *d);
  int32_t (*properties)(tc_device_ *d, tc_device_props *out);
  // At least 64-byte aligned; size may be 0. What is in it is not defined.
  int32_t (*alloc)(tc_device_ *d, uint64_t size, tc_handle *out);
  void (*free)(tc_device_ *d, tc_handle memory); // queued work may still use it, and is done all the same
  int32_t (*stream_create)(tc_device_ *d, tc_handle *out);
  void (*stream_destroy)(tc_device_ *d, tc_handle stream);
  int32_t (*synchronize)(tc_device_ *d, tc_handle stream);
  int32_t (*copy_in)(tc_device_ *d, tc_handle stream, tc_handle dst, int64_t dst_offset, const void *src,
                     uint64_t size);
  int32_t (*copy_out)(tc_device_ *d, tc_handle stream, void *dst, tc_handle src, int64_t src_offset, uint64_t size);
  int32_t (*copy)(tc_device_ *d, tc_handle stream, tc_handle dst, int64_t dst_offset, tc_handle src, int64_t src_offset,
                  uint64_t size);
  int32_t (*fill)(tc_device_ *d, tc_handle stream, tc_handle dst, int64_t offset, uint8_t value, uint64_t size);
  // A module holds the kernels of one code object made by this plugin's code generator (possibly in another process).
  int32_t (*module_load)(tc_device_ *d, const void *blob, uint64_t size, tc_handle *out);
  void (*module_unload)(tc_device_ *d, tc_handle module);
  int32_t (*function)(tc_device_ *d, tc_handle module, tc_sv name, tc_handle *out);
  int32_t (*launch)(tc_device_ *d, tc_handle stream, const tc_launch *l);

  // Since 1.2, all optional.
  // Device graphs (the four together): what is put on the stream that graph_begin gives is recorded instead of done:
  // launches, fills, copies on the device, runs of libraries that are capture_safe. Nothing else may be done with that
  // stream. graph_end ends the recording, whose stream is gone then, and makes a graph that can be launched any number
  // of times, one after the other, on any stream; with out NULL the recording is thrown away. Memory that the recording
  // names must be there at every launch. A graph is destroyed when no launch of it is under way. Recordings of several
  // threads do not disturb each other, nor what is done on other streams meanwhile. UNIMPLEMENTED from graph_begin: not
  // in this configuration; the host then launches one by one.
  int32_t (*graph_begin)(tc_device_ *d, tc_handle *out_stream);
  int32_t (*graph_end)(tc_device_ *d, tc_handle stream, tc_handle *out);
  int32_t (*graph_launch)(tc_device_ *d, tc_handle stream, tc_handle graph);
  void (*graph_destroy)(tc_device_ *d, tc_handle graph);
  // Events (the four together): points in a stream that the device notes the time of. event_elapsed waits for the later
  // one and gives the nanoseconds between two events that were recorded.
  int32_t (*event_create)(tc_device_ *d, tc_handle *out);
  void (*event_destroy)(tc_device_ *d, tc_handle event);
  int32_t (*event_record)(tc_device_ *d, tc_handle stream, tc_handle event);
  int32_t (*event_elapsed)(tc_device_ *d, tc_handle from, tc_handle to, double *out_ns);
  // Fills at most out->struct_size bytes.
  int32_t (*memory_stats)(tc_device_ *d, tc_memory_stats *out);
  // Since 1.8, optional. Opens what is opened at run time, and writes a line for each such library, for people: its
  // name and version, or why it cannot be used. What does without one is no failure.
  int32_t (*libraries)(tc_device_ *d, const tc_sink *text);
} tc_device_table;

// ---- Level 2: kernels ----
typedef struct tc_codegen_table {
  uint64_t struct_size;
  // Compiles plain kernels into one code object, written to `sink`. If `text` is not NULL it gets the generated source
  // or assembly for people. Pure: the same kernels and target give the same object.
  int32_t (*compile)(const tc_host *h, tc_device_ *d, const tc_kernel *const *kernels, int32_t n, int32_t optimize,
                     const tc_sink *sink, const tc_sink *text);
  // A string that changes whenever the generator's output may change (its version, compiler version, target features).
  int32_t (*key)(const tc_host *h, tc_device_ *d, const tc_sink *sink);
  // The language in which users may write kernels for this device themselves ("opencl"): compile gets them, too, as
  // kernels with a tc_ksource of that language. Empty: none.
  tc_sv source_language;
} tc_codegen_table;

// ---- Level 1: calls ----
// What a call is asked about: an op of the graph with its arguments, and pointwise ops fused behind it.
typedef struct tc_view {
  tc_dtype dtype;
  int32_t rank;
  const int64_t *sizes, *strides; // elements; INT64_MIN where not known when asked
  tc_handle memory;               // run only
  int64_t offset;                 // bytes; run only
} tc_view;

// One step of an epilogue, applied in order to the call's result y.
enum {
  TC_EPI_RELU,
  TC_EPI_GELU_ERF,
  TC_EPI_GELU_TANH,
  TC_EPI_SIGMOID,
  TC_EPI_TANH,
  TC_EPI_SILU,
  TC_EPI_SCALE /* y*alpha */,
  TC_EPI_ADD /* y + operand */,
  TC_EPI_MUL /* y * operand */
};
typedef struct tc_epilogue {
  int32_t kind, operand; // operand: number in the operand list of the call
  double alpha;
} tc_epilogue;

typedef struct tc_call_node {
  uint64_t struct_size;
  tc_sv op;                // "aten::mm"
  const tc_op_args *args;  // its arguments, by tc_op_* of tc/op.h
  const tc_view *operands; // tensors read: the op's own in argument order, then the epilogue's
  int32_t n_operands;
  int32_t n_results;
  const tc_view *results;
  const tc_epilogue *epilogue;
  int32_t n_epilogue;
  int32_t
      variant; // prepare: which of the ways that `variants` counted, from 1; 0: the library's own choice (since 1.4)
  // prepare: bit k: operand k holds the same elements in every run, as weights do
  uint64_t constant; // since 1.8
} tc_call_node;

typedef struct tc_call_table {
  uint64_t struct_size;
  tc_sv name; // "onednn"
  // *out_cost: estimated nanoseconds, or < 0 with a reason through diag when not supported.
  int32_t (*supports)(const tc_host *h, tc_device_ *d, const tc_call_node *n, int64_t *out_cost);
  // For known sizes and strides. The result is immutable and used by many threads at once.
  int32_t (*prepare)(const tc_host *h, tc_device_ *d, const tc_call_node *n, void **out_prepared,
                     uint64_t *out_workspace);
  int32_t (*run)(void *prepared, tc_handle stream, const tc_view *operands, const tc_view *results, tc_handle workspace,
                 int64_t workspace_offset);
  void (*destroy)(void *prepared);
  // capture_safe: run may be recorded into a device graph, which then may be launched until `destroy`.
  int32_t thread_safe, capture_safe;
  // 1: where it supports a node it is taken instead of a lowering of the op; `supports` then says no where fusion with
  // the neighbours is worth more.
  int32_t preferred, reserved;
  // Since 1.4, optional: how many ways there are to do the node, which an autotuner then times (tc_call_node.variant).
  // The same number names the same way as long as device, driver and library are the same; all give right results.
  int32_t (*variants)(const tc_host *h, tc_device_ *d, const tc_call_node *n, int32_t *out_count);
  // Since 1.8, optional, both or neither: what a call makes of its constant operands (tc_call_node.constant) only once,
  // such as weights in another layout. `kept`: its bytes, 0: nothing. If it is something, the host calls `keep` before
  // the first run, again when these operands are others, and for other sizes, which share what is the same. `run` gets
  // it as one operand more, u8[bytes], behind the node's; several may at once. `keep` has a workspace as `run` has.
  int32_t (*kept)(void *prepared, uint64_t *out_bytes);
  int32_t (*keep)(void *prepared, tc_handle stream, const tc_view *operands, const tc_view *kept, tc_handle workspace,
                  int64_t workspace_offset);
  // Since 1.9, optional, with `keep`: bit k: `run` does not read operand k, a constant one, once `keep` has run. The
  // host may give that operand's memory back then; `run` gets a view of it whose memory is 0.
  int32_t (*spent)(void *prepared, uint64_t *out_operands);
} tc_call_table;

// ---- Level 0: delegates (since 1.3) ----
// A delegate is a compiler of its own for parts of graphs. It is asked when the configuration names its plugin (the
// option `delegates`), before anything else: what it claims is cut out, compiled and run by it, whatever the backend
// is; the rest goes the backend's way. It works on memory of the host; where the backend's memory is not that, the host
// copies.
typedef struct tc_delegate_node {
  uint64_t struct_size;    // the distance to the next node
  tc_sv op;                // "aten::mm"
  const tc_op_args *args;  // its arguments, by tc_op_* of tc/op.h
  const int32_t *operands; // tensors read, in argument order: numbers of values
  const int32_t *results;  // -1: no tensor
  int32_t n_operands, n_results;
} tc_delegate_node;

typedef struct tc_delegate_graph {
  uint64_t struct_size;
  const tc_delegate_node *nodes; // in an order in which they can be done
  const tc_view *values;         // types; sizes and strides INT64_MIN where they are known at the run only
  const int32_t *inputs;         // compile: what run gets, and makes; claim: none
  const int32_t *outputs;
  int32_t n_nodes, n_values, n_inputs, n_outputs;
} tc_delegate_graph;

typedef struct tc_delegate_table {
  uint64_t struct_size;
  // parts[i], -1 before, of node i: left at -1, or a number from 0 on. Nodes of one number are compiled together as far
  // as nothing lies between them: a part that depends on itself through others becomes several.
  int32_t (*claim)(const tc_host *h, const tc_delegate_graph *g, int32_t *parts);
  // A part: what was claimed must compile. The graph is gone when this returns.
  int32_t (*compile)(const tc_host *h, const tc_delegate_graph *g, void **out_compiled);
  // Actual sizes and strides, in elements; memory is an address. Outputs are not initialised.
  int32_t (*run)(void *compiled, const tc_view *inputs, const tc_view *outputs);
  void (*destroy)(void *compiled);
  int32_t thread_safe, reserved; // 0: one run of a part at a time
} tc_delegate_table;

// ---- The description ----
enum {
  TC_CAP_DEVICE = 1,
  TC_CAP_CODEGEN = 2,
  TC_CAP_CALLS = 4,
  TC_CAP_OPS = 8,
  TC_CAP_TEMPLATES = 16,
  TC_CAP_DELEGATE = 32
};

// What a plugin says beyond this interface: a list of structs that begin like this one. A host skips those whose id it
// does not know, so that a plugin may offer what only some hosts understand. Ids below TC_EXT_EXPERIMENTAL are given
// out with the interface (TC_EXT_…) and keep their meaning; those with that bit are anybody's, and count only
// where the headers of both sides are the same (header_hash).
#define TC_EXT_EXPERIMENTAL ((uint64_t)1 << 63)
typedef struct tc_extension {
  uint64_t id, struct_size;
  const struct tc_extension *next;
  uint64_t header_hash; // TC_KERNEL_ABI_HASH; experimental ones
} tc_extension;

// Ids of the interface.
enum { TC_EXT_DELEGATE = 1 }; // tc_delegate_extension; the capability `delegate` needs it
typedef struct tc_delegate_extension {
  tc_extension head;
  const tc_delegate_table *table;
} tc_delegate_extension;

typedef struct tc_plugin_desc {
  // Fixed prefix, never changed. The host fills magic, abi numbers and struct_size with what it knows; the plugin
  // answers with its own.
  uint64_t magic;
  uint32_t abi_major, abi_minor_low, abi_minor_high, reserved0;
  uint64_t struct_size;
  char refusal[256]; // why the plugin does not want to be loaded; "" if it does
  // Since 1.0.
  tc_sv name, vendor, version, build_id;
  tc_sv sanitizers;         // "" or "address", "thread"
  uint64_t capabilities;    // TC_CAP_*
  uint64_t kernel_abi_hash; // TC_KERNEL_ABI_HASH: looked at where levels 2 and 3 were not promised yet
  const tc_device_table *device;
  const tc_codegen_table *codegen;
  const tc_call_table *const *calls;
  const tc_op_def *ops;
  const struct tc_template_table *const *templates;
  int32_t n_calls, n_ops, n_templates, reserved1;
  // Since 1.1.
  const tc_extension *extensions; // a list, or NULL; it lives as long as the plugin
} tc_plugin_desc;

typedef int32_t (*tc_plugin_query_fn)(const tc_host *h, tc_plugin_desc *out);
#define TC_PLUGIN_EXPORT __attribute__((visibility("default")))
TC_PLUGIN_EXPORT int32_t tc_plugin_query(const tc_host *h, tc_plugin_desc *out); // what a plugin defines

// ---- Static helpers of the SDK (libtc_sdk.a) ----
// Makes tc_k_*, tc_kb_*, tc_op_*, tc_int_*, tc_ex_*, tc_lo_* and tc_stage_* of this plugin forward to the host's
// tables. To be called from tc_plugin_query before anything else; repeatable, from any thread. MISMATCH, with a text
// through diag, if the host is not one (magic, major version). A function that an older host lacks does nothing and
// gives zero.
int32_t tc_sdk_init(const tc_host *h);
// 1 if the host's kernel-read, kernel-build, op, expand, lower and stage tables hold all functions that this SDK knows.
int32_t tc_sdk_complete(void);
// Answers a query: tc_sdk_init, then `mine` (with struct_size, abi numbers, magic and, where none are named, the
// sanitizers of this build filled in here) is copied to as much of *out as the host has room for. Returns OK or
// MISMATCH. In tc_plugin_query:
//   tc_plugin_desc d = {.name = …, .capabilities = TC_CAP_DEVICE, .device = &table};
//   return tc_sdk_answer(h, &d, out);
int32_t tc_sdk_answer(const tc_host *h, const tc_plugin_desc *mine, tc_plugin_desc *out);

#ifdef __cplusplus
}
#endif

#include "tc/tables.h"
#endif
