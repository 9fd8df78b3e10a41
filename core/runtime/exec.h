// An executable: a plan made ready for one device. Immutable and re-entrant: several threads may run it at once; each
// run checks out an arena of its own.
#ifndef TC_CORE_RUNTIME_EXEC_H_
#define TC_CORE_RUNTIME_EXEC_H_

#include "core/plan/plan.h"
#include "core/runtime/device.h"
#include "core/tensor/tensor.h"

typedef struct tc_exec tc_exec;

// Compiles the plan's kernels (or finds them in the cache) and loads them; chooses a library for every call. The plan
// and the device must outlive it.
TC_NODISCARD tc_status tc_exec_create(tc_device *d, const tc_plan *plan, tc_exec **out, tc_compile_stats *out_stats);
// A way of doing things that is tried: a library's way (calls not NULL) for the plan's calls, or kernels alone.
typedef struct tc_trial {
  const tc_device_calls *calls; // NULL: the nodes become kernels
  int32_t variant;              // of the call
  int32_t config;               // number of the templates' configuration, counted among those that fit
  int32_t n_configs;            // out: the most configurations that a template had
  TC_VEC(tc_sv) picked;         // out: for each template the texts of its stage and of the configuration taken
} tc_trial;
// The same with the calls of a trial, or NULL.
TC_NODISCARD tc_status tc_exec_create_for(tc_device *d, const tc_plan *plan, const tc_trial *trial, tc_exec **out,
                                          tc_compile_stats *out_stats);
// The same of a plan whose code has texts of kernels (tc_plan_code.text): `load` makes the code of those that the first
// of each launch's variants is, which is the one for the sizes of the example, and of others when they are launched.
typedef tc_status (*tc_exec_load)(tc_device *d, int32_t n, const tc_plan_code *code, tc_loaded **out,
                                  tc_compile_stats *stats);
TC_NODISCARD tc_status tc_exec_create_late(tc_device *d, const tc_plan *plan, tc_exec_load load, tc_exec **out,
                                           tc_compile_stats *out_stats);
// Writes into the plan, which the executable was made of, who does its calls: so that one that is kept and read again
// is done by the same libraries, or refused.
void tc_exec_name_calls(const tc_exec *e, tc_plan *plan);
void tc_exec_destroy(tc_exec *e); // NULL is ignored
// From now on runs that come again are recorded as device graphs and replayed (exec_replay.c), at most `most` of them.
// Does nothing where the device has none. To be called before the first run. A run gives the same results either way.
TC_NODISCARD tc_status tc_exec_set_replays(tc_exec *e, int32_t most);

// Where memory is not the host's, buffers from outside are handed to kernels at multiples of so many bytes (in front of
// the offset that the program states); what lies elsewhere is copied.
enum { EXEC_ALIGN = 16 };

enum { TC_CALLS_AUTO, TC_CALLS_NEVER, TC_CALLS_ALWAYS };
typedef struct tc_call_choice {
  tc_device *device;
  int32_t policy;
  const tc_trial *trial; // not NULL: it decides
  tc_sb *notes;          // gets a line for each choice, and its reason; NULL: none
  tc_sv refused;         // what a library said why it does not do the last node that was asked about; may be empty
} tc_call_choice;
// May the node be a call of one of the device's libraries? For tc_lower_options.call_supported; `choice` is a
// tc_call_choice.
bool tc_exec_call_supported(void *choice, const tc_node *n);
// … and shall it be one although it could be generated? For tc_lower_options.call_preferred. TC_CALLS_AUTO compares the
// library's estimate with one for a kernel: its operations at the device's rate, or its bytes, and for the call what
// its neighbours cannot fuse. A library that says that it is preferred is taken wherever it can.
bool tc_exec_call_preferred(void *choice, const tc_node *n);

// Does the library do the node, and in how many ways besides its own choice? Needs an open guard of the module's arena.
bool tc_exec_call_ways(tc_device *d, const tc_device_calls *c, const tc_node *n, int32_t *out_n);

// What a run did, for bench, explain and tests; filled when asked for.
typedef struct tc_launch_record {
  tc_sv name;
  double ms; // with the wait for its end
  int64_t bytes, flops, blocks;
  bool call;
} tc_launch_record;
typedef struct tc_run_report {
  tc_launch_record *launches; // room for `capacity` records, given by the caller; NULL: no times
  int32_t n_launches;
  int64_t arena_bytes, largest_bytes;
  int64_t frozen_bytes; // kept from run to run
  int32_t capacity;     // 0: tc_exec_op_count of the one executable that is run
} tc_run_report;
// Called behind each operation of a run, when what it wrote is there; an error ends the run. What regions do is not
// seen. Such a run is never recorded.
typedef struct tc_exec_moment tc_exec_moment;
typedef struct tc_exec_watch {
  TC_NODISCARD tc_status (*after)(void *self, const tc_exec_moment *m, int32_t op);
  void *self;
} tc_exec_watch;
// The bytes of a buffer of the plan at that moment, from its first element to its last, on the host: a storage that the
// caller owns.
TC_NODISCARD tc_status tc_exec_read(const tc_exec_moment *m, int32_t buf, tc_storage **out);
// The value of an expression over the run's sizes.
TC_NODISCARD tc_status tc_exec_eval(const tc_exec_moment *m, const tc_sym *x, int64_t *out);

// Do kernels write into the tensor of the graph input?
bool tc_exec_writes_input(const tc_exec *e, int32_t input);
int32_t tc_exec_op_count(const tc_exec *e);

typedef struct tc_run_options {
  // Values of symbols that no input's size tells, by symbol number (tc_sym.symbol), n_symbols of them; INT64_MIN where
  // not known.
  const int64_t *symbols;
  int32_t n_symbols;
  uint64_t seed;       // of random ops
  uint64_t stream;     // added to the streams of their nodes; below 2^44
  bool device_outputs; // leave outputs where they are (tc_storage.device 1) instead of copying them to the host
  // Inputs that kernels change in place may be changed: they are the caller's, writable and of nobody else. Otherwise
  // kernels change copies, and the outputs are these.
  bool in_place;
  bool write_back; // (implies in_place) store mutated inputs, parameters and buffers into the inputs' own memory, which
                   // must be writable
  tc_run_report *report;
  const tc_exec_watch *watch; // NULL: nobody watches
} tc_run_options;

// inputs[i]: the tensor of graph input i (ignored where the graph has a constant there): on the host or on the device
// (tc_storage.device 1), with the sizes, strides and dtypes that the graph promises; others are an error in words.
// Numbers are tensors of rank 0 on the host. outputs[i]: graph output i, new tensors owned by the caller (outputs that
// are inputs share their storage); numbers come as rank-0 tensors. On failure no output is set.
TC_NODISCARD tc_status tc_exec_run_with(tc_exec *e, const tc_tensor *inputs, tc_tensor *outputs,
                                        const tc_run_options *options);
// The same if the inputs have the dtypes, sizes and strides of the last run's, which need not be checked again; for
// others *out_done is false, and nothing was done. inputs[i] may have no storage.
TC_NODISCARD tc_status tc_exec_run_like_last(tc_exec *e, const tc_tensor *inputs, tc_tensor *outputs,
                                             const tc_run_options *options, bool *out_done);
// Are these inputs what the program was compiled for, but for their strides? An error in words if not. Thread-safe.
TC_NODISCARD tc_status tc_exec_takes(const tc_exec *e, const tc_tensor *inputs, const tc_run_options *options);
// The same with nothing but a report, which may be NULL.
TC_NODISCARD tc_status tc_exec_run(tc_exec *e, const tc_tensor *inputs, tc_tensor *outputs, tc_run_report *report);

// Copies between the host and the device; `out` has the same sizes and strides. A device whose memory is the host's
// gives the tensor itself.
TC_NODISCARD tc_status tc_tensor_to_device(tc_device *d, const tc_tensor *t, tc_tensor *out);
TC_NODISCARD tc_status tc_tensor_to_host(tc_device *d, const tc_tensor *t, tc_tensor *out);

#endif
