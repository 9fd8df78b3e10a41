// What the files of this plugin share: the device, the form of code objects, and the two tables.
//
// A device is a GPU with its primary context, or, when the config key `arch` names an architecture ("sm_90"), a device
// that kernels are compiled for and that runs nothing: it needs no driver. Memory handles are device addresses; stream
// handles are the driver's. All functions of the table may be called from any thread.
#ifndef TC_PLUGINS_CUDA_CUDA_H_
#define TC_PLUGINS_CUDA_CUDA_H_

#include <pthread.h>

#include "ahead.h"
#include "blas.h"
#include "dnn.h"
#include "driver.h"
#include "fft.h"
#include "nvrtc.h"

#include "tc/cprint.h"
#include "tc/hostmem.h"

enum { CUDA_STAGES = 2, CUDA_STAGE_BYTES = 4 << 20, CUDA_RECENT = 4, CUDA_ATTENTIONS = 48, CUDA_HALVES = 112 };

// A pinned buffer on its way to or from the device.
typedef struct cuda_stage {
  void *memory;
  cu_event done;
  int32_t busy;
} cuda_stage;

// Hand-written code, loaded on first use: attention or a derivative of it for a head size and type, and products
// by split numbers.
typedef struct cuda_attention {
  cu_module module;
  cu_function function;
  int32_t shared_bytes;
  unsigned lanes;
} cuda_attention;
typedef struct cuda_split {
  cu_module module;
  cu_function pack, multiply;
} cuda_split;

typedef struct cuda_turn {
  cu_module module;
  cu_function of_16, of_32; // bits
} cuda_turn;

// Products of 16-bit floats: of a function, a width, a type and two orders of storage.
typedef struct cuda_half {
  cu_module module;
  cu_function finish, plain, multiply;
} cuda_half;

// What is opened when it is first asked for.
typedef struct cuda_library {
  int32_t state;  // 0 not opened, 1 open, -1 cannot be opened
  char text[600]; // its version, or why not
} cuda_library;

struct tc_device_ {
  const tc_host *host;
  int32_t runs;      // 0: compiles only
  int32_t sync;      // config key `sync`: every launch is waited for, so that failures name their kernel
  int32_t dependent; // kernels are launched before those in front of them have ended (launch.c)
  cuda_driver driver;
  cu_device device;
  cu_context context;
  int32_t pools; // stream-ordered allocation
  char arch[16];
  tc_device_props props;

  cuda_ahead opening, asking; // the libraries are opened; cuBLASLt answers a first question
  int32_t blas_noted;         // an earlier process has used cuBLASLt

  pthread_mutex_t library_lock;
  cuda_library compiler_library, blas_library, dnn_library, fft_library; // under the lock
  cuda_nvrtc compiler;
  cuda_blas blas;
  cuda_dnn dnn;
  cuda_fft fft;

  pthread_mutex_t dnn_lock; // held while cuDNN's handle is used
  pthread_mutex_t fft_lock; // held while a plan of cuFFT's is made, told its stream and workspace, or run

  pthread_mutex_t own_lock;
  cuda_attention attention[CUDA_ATTENTIONS]; // under the lock
  cuda_split split;                          // too
  cuda_turn turn;                            // too
  cuda_half half[CUDA_HALVES];               // too

  pthread_mutex_t memory_lock;
  // Under the lock: what allocation is ordered on (the only stream, NULL if there are none or several), staging.
  cu_stream stream;
  int32_t n_streams, next_stage;
  cuda_stage stages[CUDA_STAGES];

  pthread_mutex_t recent_lock;
  char recent[CUDA_RECENT][80]; // names of the last launches, for messages; under the lock
  uint64_t n_launches;          // under the lock
};

// Reports through the host and returns the code.
int32_t cuda_report(const tc_host *h, int32_t code, const char *text);
// OK, or the failure `code` of the driver's function `what`, reported.
int32_t cuda_check(const tc_device_ *d, const char *what, cu_result code);
// Makes the device current on this thread. DEVICE, reported, if the device only compiles.
int32_t cuda_enter(tc_device_ *d);

// ahead.c
// Begins to open what will be needed.
void cuda_open_ahead(tc_device_ *d);
// Lets later processes open cuBLASLt early.
void cuda_note_blas(tc_device_ *d);

// memory.c
int32_t cuda_alloc(tc_device_ *d, uint64_t size, tc_handle *out);
void cuda_free(tc_device_ *d, tc_handle memory);
int32_t cuda_copy_in(tc_device_ *d, tc_handle stream, tc_handle dst, int64_t dst_offset, const void *src,
                     uint64_t size);
int32_t cuda_copy_out(tc_device_ *d, tc_handle stream, void *dst, tc_handle src, int64_t src_offset, uint64_t size);
int32_t cuda_copy(tc_device_ *d, tc_handle stream, tc_handle dst, int64_t dst_offset, tc_handle src, int64_t src_offset,
                  uint64_t size);
int32_t cuda_fill(tc_device_ *d, tc_handle stream, tc_handle dst, int64_t offset, uint8_t value, uint64_t size);
void cuda_memory_close(tc_device_ *d);
int32_t cuda_memory_stats(tc_device_ *d, tc_memory_stats *out);

// graph.c: recordings and events
int32_t cuda_graph_begin(tc_device_ *d, tc_handle *out_stream);
int32_t cuda_graph_end(tc_device_ *d, tc_handle stream, tc_handle *out);
int32_t cuda_graph_launch(tc_device_ *d, tc_handle stream, tc_handle graph);
void cuda_graph_destroy(tc_device_ *d, tc_handle graph);
int32_t cuda_event_create(tc_device_ *d, tc_handle *out);
void cuda_event_destroy(tc_device_ *d, tc_handle event);
int32_t cuda_event_record(tc_device_ *d, tc_handle stream, tc_handle event);
int32_t cuda_event_elapsed(tc_device_ *d, tc_handle from, tc_handle to, double *out_ns);

// launch.c
typedef struct cuda_grid {
  unsigned blocks, blocks_y, lanes, shared_bytes;
  unsigned together; // blocks of the kernel in one of the device, along y
} cuda_grid;
// Launches a kernel that begins as launch_common.cu says.
cu_result cuda_start(const tc_device_ *d, cu_function function, cuda_grid grid, cu_stream stream, void **params);
// May kernels be launched that way? The config key `dependent` (false) says no.
int32_t cuda_can_depend(const tc_device_ *d, int64_t major);

// pack.c
// Blocks of the kernel that may share one of the device's, at most; 1: none. Such a kernel has one parameter more, the
// number of its blocks.
int32_t cuda_pack_most(const tc_kernel *k);
void cuda_pack_dialect(int32_t most, int32_t lanes, tc_cdialect *dialect);
// The bounds of a launch, as a format of the lanes; so many blocks of the device are to fit a multiprocessor, or 0.
void cuda_pack_bounds(int32_t most, int32_t blocks, size_t size, char *out);
unsigned cuda_pack_at(const tc_device_ *d, int32_t most, int64_t blocks);

// module.c
int32_t cuda_module_load(tc_device_ *d, const void *blob, uint64_t size, tc_handle *out);
void cuda_module_unload(tc_device_ *d, tc_handle module);
int32_t cuda_module_function(tc_device_ *d, tc_handle module, tc_sv name, tc_handle *out);
int32_t cuda_launch(tc_device_ *d, tc_handle stream, const tc_launch *l);

// ---- Code objects ----
// A header, entries, then names and the compiler's objects at the offsets that the entries state (from the start).
#define CUDA_BLOB_MAGIC 0x324E494255434354ull
typedef struct cuda_blob_header {
  uint64_t magic, size; // of the whole
  char arch[16];
  int32_t n, reserved;
} cuda_blob_header;
typedef struct cuda_blob_entry {
  uint64_t name_at, name_size;     // the kernel's
  uint64_t symbol_at, symbol_size; // the compiler's name of it
  uint64_t code_at, code_size;
  int32_t lanes, n_params; // without the error block
  int64_t shared_bytes;    // dynamic
  int32_t most, reserved;  // of its blocks in one of the device's (pack.c)
} cuda_blob_entry;

extern const tc_device_table cuda_device;
extern const tc_codegen_table cuda_codegen;
extern const tc_call_table cuda_attention_calls, cuda_attention_backward_calls, cuda_dnn_attention_calls;
extern const tc_call_table cuda_split_calls, cuda_half_calls;
// What the tables of calls have in common, for files whose functions have these names.
#define CUDA_CALLS(text)                                                                                            \
  .struct_size = sizeof(tc_call_table), .name = {text, sizeof(text) - 1}, .supports = supports, .prepare = prepare, \
  .run = run, .thread_safe = 1, .capture_safe = 1, .preferred = 1
// Where a view lies on the device.
static inline cu_ptr cuda_address(const tc_view *v) { return v->memory + (uint64_t)v->offset; }
// The beginning of preparing one: `size` bytes of zeros of the host, at whose begin the device is noted.
int32_t cuda_prepare(const tc_host *h, tc_device_ *d, size_t size, void **out);
// For tables whose calls own nothing but that memory.
void cuda_destroy_call(void *prepared);
// The end of preparing a call: gives `prepared` (of the host's allocator) away, or frees it if the status is a failure.
int32_t cuda_prepared(const tc_host *h, int32_t status, void *prepared, uint64_t workspace, void **out,
                      uint64_t *out_workspace);
// Opens one of the device's libraries when it is first asked for; `open` writes the library's text. The code, reported
// with the reason, if it cannot be opened.
typedef int32_t (*cuda_opener)(tc_device_ *d, char *text, size_t size);
int32_t cuda_open_once(tc_device_ *d, cuda_library *library, cuda_opener open, int32_t code);
// The same in the device's context; UNIMPLEMENTED if it cannot be opened, or nothing can run.
int32_t cuda_open_running(tc_device_ *d, cuda_library *library, cuda_opener open);
// cuBLASLt, cuDNN and cuFFT so.
int32_t cuda_blas_ready(tc_device_ *d);
int32_t cuda_dnn_ready(tc_device_ *d);
int32_t cuda_fft_ready(tc_device_ *d);
// OK, or DEVICE, reported: what cuDNN was to do, and its status.
int32_t cuda_dnn_check(const tc_device_ *d, const char *what, dnn_status code);
// Opens the compiler; PLUGIN, reported, if it is not there.
int32_t cuda_compiler(tc_device_ *d);
// Definitions of the numbers of functions behind a product, as product_common.cu wants them in front; their length.
size_t cuda_function_numbers(char *text, size_t size);
// Compiles and loads hand-written code for an architecture. Its last function, which messages name, may use that much
// dynamic shared memory. On failure (PLUGIN, DEVICE, OUT_OF_MEMORY; reported) nothing is loaded. Under own_lock.
int32_t cuda_own_code(tc_device_ *d, const char *source, const char *arch, const char *const *names, int32_t n,
                      int32_t shared_bytes, cu_module *out_module, cu_function *out);
// Does the host keep what plugins give it?
int32_t cuda_has_cache(const tc_host *h);
// A perf hint, or, as the config key `spills` says, a failure, if the compiler's log tells of spilled registers.
int32_t cuda_judge_spills(tc_device_ *d, tc_sv name, const char *log);

#endif
