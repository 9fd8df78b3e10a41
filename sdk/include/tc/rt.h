// libtc_rt: runs artifacts (.tcx files, made by `tcrun compile`) without the compiler. C11 and C++.
//
// The library has no frontends, no passes and no code generator; the plugin of the device does the rest. What it
// loads is what tcrun and libtc load, and gives the same bits.
//
// Errors. Functions return a TC_STATUS_* code; tc_rt_last_error tells the calling thread's last failure in words.
//
// Threads. Programs of one tc_rt may be run by several threads at once, a program that changes state (caches, counters:
// tc_rt_changes_state) by one at a time. Opening, loading and unloading are for one thread at a time.
#ifndef TC_RT_H_
#define TC_RT_H_

#include "tc/types.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

typedef struct tc_rt tc_rt;
typedef struct tc_rt_program tc_rt_program;

const char *tc_rt_version(void); // "MAJOR.MINOR.PATCH"

// ---- Errors of the calling thread ----
const char *tc_rt_last_error(void); // "" if nothing failed so far; valid until the thread's next failure

// ---- Opening ----
// `settings` are "key=value": threads=N, backend=cpu, device=N, plugins.path=FOLDER, logs=…; they are applied over the
// environment (TC_THREADS, …). Without a backend it is the first kind of device for which an artifact has code and that
// is there; it is opened with the first program. *out is set only on success.
int32_t tc_rt_open(const char *const *settings, int32_t n_settings, tc_rt **out);
void tc_rt_close(tc_rt *rt); // with no program loaded and no output unreleased; NULL is ignored

// ---- Programs ----
// The program of that name in the file (NULL: the first). DATA_LOSS: the file is damaged; INVALID_ARGUMENT: of another
// version, or for another device; the words say which. Of a program in several executables each run takes one whose
// sizes fit; those of the file's first device that is there are loaded, all of them. The file may be replaced
// afterwards, not changed.
int32_t tc_rt_load(tc_rt *rt, const char *path, const char *name, tc_rt_program **out);
void tc_rt_unload(tc_rt_program *p);                 // outputs stay valid; NULL is ignored
int32_t tc_rt_changes_state(const tc_rt_program *p); // 1: runs change buffers that later runs see

// What goes in and comes out. Sizes count elements; -1 is one that the caller chooses (among those that the executables
// of the program are for), or that depends on such sizes.
typedef struct tc_rt_info {
  const char *name; // as long as the program; "" where there is none
  tc_dtype dtype;
  int32_t rank;
  int64_t sizes[TC_MAX_RANK];
  int64_t example[TC_MAX_RANK]; // sizes that the program was tuned for
} tc_rt_info;
int32_t tc_rt_input_count(const tc_rt_program *p);
int32_t tc_rt_output_count(const tc_rt_program *p);
int32_t tc_rt_input(const tc_rt_program *p, int32_t i, tc_rt_info *out);  // OUT_OF_RANGE if there is none
int32_t tc_rt_output(const tc_rt_program *p, int32_t i, tc_rt_info *out); //

// A tensor in host memory. Numbers are tensors of rank 0 (i64, f64 or bool).
typedef struct tc_rt_tensor {
  tc_dtype dtype;
  int32_t rank;
  int64_t sizes[TC_MAX_RANK];
  int64_t strides[TC_MAX_RANK]; // elements; inputs: ≥ 0
  void *data;                   // of the first element
  void *owner;                  // outputs: what tc_rt_release releases; inputs: not read
} tc_rt_tensor;
// Row-major strides for its rank and sizes.
void tc_rt_row_major(tc_rt_tensor *t);
// inputs[tc_rt_input_count], whose memory is the caller's; the guards on dtypes, sizes and conditions are checked, and
// strides that the program does not take are copied. outputs[tc_rt_output_count] are new: release each. What a program
// writes into its inputs is written there. `seed` is for random ops.
int32_t tc_rt_run(tc_rt_program *p, const tc_rt_tensor *inputs, tc_rt_tensor *outputs, uint64_t seed);
void tc_rt_release(tc_rt_tensor *t); // an output; leaves it zeroed. Others, and zeroed ones, are ignored

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
