// Shared by the files of executables: exec.c (creation), exec_inputs.c (symbols, checks), exec_run.c (runs),
// exec_calls.c (libraries), exec_choice.c (kernels or libraries), exec_control.c (regions).
#ifndef TC_CORE_RUNTIME_EXEC_INTERNAL_H_
#define TC_CORE_RUNTIME_EXEC_INTERNAL_H_

#include <pthread.h>

#include "core/ir/opargs.h"
#include "core/runtime/exec.h"

// An expression, compiled, or its value.
typedef struct exec_number {
  bool fixed;
  int64_t value;
  tc_sym_code code;
} exec_number;

typedef struct exec_arg {
  int32_t buf;
  int32_t bytes; // scalars
  exec_number scalar;
} exec_arg;

typedef struct exec_shape {
  exec_number *sizes, *strides, offset; // elements
} exec_shape;

// A call made ready for one set of sizes.
typedef struct exec_prepared {
  struct exec_prepared *next;
  int64_t *key; // sizes and strides of all operands and results
  void *prepared;
  uint64_t workspace;
  int32_t users;
} exec_prepared;

typedef struct exec_call {
  const tc_plugin *plugin;
  const tc_call_table *table;
  tc_op_args *args;   // the node's
  exec_shape *shapes; // operands, then results; offsets are in the buffer
  int32_t n_numbers;  // of a key
  pthread_mutex_t lock;
  exec_prepared *prepared; // under the lock, the latest first
  int32_t n_prepared;
} exec_call;

typedef struct exec_control exec_control; // exec_control.c

// A launch, or one of its variants.
typedef struct exec_launch {
  int32_t fact;   // of variants: number among the executable's
  int32_t number; // of the kernel
  tc_loaded *kernel;
  exec_number blocks, grain;
  int32_t n_args;
  exec_arg *args;
} exec_launch;

typedef struct exec_op {
  const tc_plan_op *op;
  exec_number bytes, flops;
  int32_t n_launches;    // LAUNCH: variants, then the general one
  exec_launch *launches; //
  exec_arg *args;        // others
  exec_call *call;       // CALL
  exec_control *control; // IF, WHILE, SCAN
  int32_t errors;        // number of its error block
} exec_op;

typedef struct exec_buf {
  exec_number place, bytes, offset;
  bool written; // INPUT: in place
} exec_buf;

typedef struct symbol_source { // value = (size(input, dim) - rest) / coeff; dim -1: the number itself
  int32_t symbol, input, dim;
  int64_t coeff, rest;
} symbol_source;

// A host tensor that was copied to the device and does not change: a parameter or a constant.
typedef struct exec_resident {
  tc_storage *host; // referenced
  int64_t offset;
  tc_pool_block *block;
} exec_resident;

struct tc_exec {
  tc_device *d;
  const tc_plan *plan;
  tc_arena *arena;
  int32_t n_symbols; // the highest in use, + 1
  exec_op *ops;
  exec_buf *bufs;
  exec_shape *inputs, *outputs;
  TC_VEC(symbol_source) sources;
  TC_VEC(exec_number) requires_;
  const tc_sym **require_text;
  exec_number arena_bytes, largest_bytes;
  exec_number *facts; // what variants need, each once
  const tc_sym **fact_exprs;
  int32_t n_facts;
  int32_t n_errors; // error blocks: 0 for kernels without checks, one for each with
  tc_loaded **kernels;
  pthread_mutex_t lock;
  exec_resident *resident; // by input, under the lock; NULL where memory is the host's
};

typedef struct exec_address {
  tc_handle memory;
  int64_t offset; // bytes
} exec_address;

typedef struct run_state {
  tc_exec *e;
  const tc_run_options *options;
  int64_t *symbols;
  const tc_tensor *inputs;
  exec_address *address;  // by buffer
  tc_storage **storage;   // by buffer: OUTPUT's
  tc_pool_block **copies; // by buffer: inputs copied to the device for this run
  tc_pool_block *arena;
  uint64_t facts;        // bit k: fact k of the executable holds
  tc_pool_block *errors; // device memory: the error blocks
  tc_pool_block **error_blocks;
  tc_error_block host_errors;
} run_state;

exec_number exec_number_make(tc_exec *e, const tc_sym *x);
tc_status exec_value(const exec_number *n, const int64_t *symbols, int64_t *out);
// exec_inputs.c
void exec_find_sources(tc_exec *e);
tc_status exec_bind_symbols(const tc_exec *e, const tc_tensor *inputs, const tc_run_options *o, int64_t *symbols);
// exec_calls.c: what libraries are asked about a node
enum { EXEC_MOST_VIEWS = 32 };
typedef struct exec_question {
  tc_view views[EXEC_MOST_VIEWS];
  int64_t numbers[EXEC_MOST_VIEWS][2][TC_MAX_RANK];
  tc_call_node node;
} exec_question;
void exec_fill_view(exec_question *q, int32_t k, tc_sym_ctx *c, const tc_tensor_type *t);
void exec_fill_node(exec_question *q, const tc_node *n, const tc_op_args *args, int32_t n_operands, int32_t n_results);
// The cheapest library for the node and its estimate in nanoseconds (out_cost may be NULL), or NULL; of those that want
// to be preferred to lowerings, or of all.
const tc_device_calls *exec_cheapest(tc_device *d, const tc_call_node *n, bool preferred, int64_t *out_cost);
tc_status exec_call_create(tc_exec *e, exec_op *x);
void exec_call_destroy(tc_exec *e, exec_op *x);
tc_status exec_call_run(run_state *r, exec_op *x);
// exec_control.c
tc_status exec_control_create(tc_exec *e, exec_op *x, tc_compile_stats *stats);
void exec_control_destroy(exec_op *x);
tc_status exec_control_run(run_state *r, exec_op *x);
// exec_run.c: what a run of a region shares with a run
tc_status exec_place_errors(run_state *r);
tc_status exec_read_errors(run_state *r); // waits for a device with memory of its own
tc_status exec_run_ops(run_state *r);     // with the buffers placed
tc_status exec_synchronize(tc_device *d);

#endif
