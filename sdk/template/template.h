// template: a whole backend to start from. What runs the kernels is an interpreter, so that nothing else is needed;
// around it is everything that a device has: memory behind handles, streams, recorded work, times, modules, launches,
// failures that name their kernel. Replace, file by file, what is the interpreter's by your driver's.
//
//   plugin.c    the handshake
//   device.c    the device, its memory and properties, the table
//   stream.c    work in order: copies, fills, launches; recording it; points in time
//   program.c   kernels to bytes and back: what a compiler call becomes
//   machine.c   runs a program, block by block; number.c knows the types
//
// All functions may be called from any thread; what two threads share has a lock or does not change.
#ifndef TC_SDK_TEMPLATE_H_
#define TC_SDK_TEMPLATE_H_

#include <pthread.h>

#include "tc/bundle.h"
#include "tc/hostmem.h"
#include "tc/plugin.h"

#define TEMPLATE_TARGET "template 1" // what code is good for; changes with the format of programs
#define TEMPLATE_VERSION "1.0"

struct tc_device_ {
  const tc_host *host;
  pthread_mutex_t lock;
  int64_t used, peak; // bytes given out; under the lock
};

// Reports the words and gives the code.
int32_t template_fail(const tc_device_ *d, int32_t code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void *template_take(const tc_device_ *d, uint64_t size); // NULL when memory is short
void template_give(const tc_device_ *d, void *p);

// ---- Memory: a handle names a block, which knows its size ----
typedef struct block {
  int64_t size;
  char pad[56];
  char bytes[];
} block;
// The bytes [offset, offset + size) of a block, or NULL, reported.
char *template_range(const tc_device_ *d, tc_handle memory, int64_t offset, uint64_t size);

// ---- Programs (program.c) ----
// Indices into `words` say where an instruction's operands, results and regions are.
typedef struct inst {
  int32_t op, width, mem, has_mask, n_args, n_results, n_regions, words;
  int64_t imm; // SCALAR: the number of its parameter
  double fimm;
} inst;
typedef struct memory {
  int32_t space, dtype;
  int64_t count, at; // TABLE: where its elements are in the program's tables
} memory;
typedef struct value {
  int32_t dtype, varying;
} value;
typedef struct region {
  int32_t n_params, n_insts, words, reserved;
} region;
typedef struct parameter {
  int32_t is_scalar, index; // of a memory; scalars: not used
} parameter;
typedef struct program_head {
  int32_t lanes, n_params, n_mems, n_insts, n_values, n_regions, n_words, body;
  int64_t table_bytes;
} program_head;
typedef struct program {
  program_head head;
  const memory *mems;
  const inst *insts;
  const value *values;
  const region *regions;
  const parameter *params;
  const int32_t *words;
  const char *tables;
} program;
extern const tc_codegen_table template_codegen;
int32_t template_module_load(tc_device_ *d, const void *blob, uint64_t size, tc_handle *out);
void template_module_unload(tc_device_ *d, tc_handle module);
int32_t template_module_function(tc_device_ *d, tc_handle module, tc_sv name, tc_handle *out);
typedef struct function {
  const char *name;
  program p;
} function;

// ---- The machine (machine.c) ----
// Runs blocks [0, blocks). DEVICE, reported with the kernel's name, where it leaves its memory.
int32_t template_run(const tc_device_ *d, const function *f, int64_t blocks, const tc_launch_arg *args,
                     tc_error_block *errors);

// ---- Numbers (number.c) ----
typedef union number {
  int64_t i; // integers and bool, extended to 64 bits
  double f;  // floats, exactly
} number;
int32_t number_is_float(tc_dtype t);
int32_t number_bytes(tc_dtype t);
number number_read(tc_dtype t, const void *at);
void number_write(tc_dtype t, void *at, number v);
number number_cast(tc_dtype from, tc_dtype to, number v);
// An opcode of class a or c, or SELECT, on operands of type t.
number number_compute(int32_t op, tc_dtype t, number x, number y, number z);

// ---- Streams (stream.c) ----
int32_t template_stream_create(tc_device_ *d, tc_handle *out);
void template_stream_destroy(tc_device_ *d, tc_handle stream);
int32_t template_synchronize(tc_device_ *d, tc_handle stream);
int32_t template_copy_in(tc_device_ *d, tc_handle s, tc_handle dst, int64_t at, const void *src, uint64_t size);
int32_t template_copy_out(tc_device_ *d, tc_handle s, void *dst, tc_handle src, int64_t at, uint64_t size);
int32_t template_copy(tc_device_ *d, tc_handle s, tc_handle dst, int64_t dst_at, tc_handle src, int64_t src_at,
                      uint64_t size);
int32_t template_fill(tc_device_ *d, tc_handle s, tc_handle dst, int64_t at, uint8_t value, uint64_t size);
int32_t template_launch(tc_device_ *d, tc_handle s, const tc_launch *l);
int32_t template_graph_begin(tc_device_ *d, tc_handle *out_stream);
int32_t template_graph_end(tc_device_ *d, tc_handle stream, tc_handle *out);
int32_t template_graph_launch(tc_device_ *d, tc_handle stream, tc_handle graph);
void template_graph_destroy(tc_device_ *d, tc_handle graph);
int32_t template_event_create(tc_device_ *d, tc_handle *out);
void template_event_destroy(tc_device_ *d, tc_handle event);
int32_t template_event_record(tc_device_ *d, tc_handle stream, tc_handle event);
int32_t template_event_elapsed(tc_device_ *d, tc_handle from, tc_handle to, double *out_ns);

extern const tc_device_table template_device;

#endif
