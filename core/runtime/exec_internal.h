// Shared by the files of executables: exec.c (creation), exec_inputs.c (symbols, checks), exec_run.c (runs),
// exec_arena.c (memory of runs), exec_frozen.c (what is done once), exec_last.c (the last run's sizes), exec_calls.c
// (libraries), exec_tune.c (several kernels to choose from), exec_choice.c (kernels or libraries), exec_control.c
// (regions).
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
  int32_t slot; // of its value in a run; equal expressions have one. -1: none, runs seldom ask
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
  int64_t set;  // of constants, where sizes vary and something is kept: the number of the set that it was compared with
  void *prepared;
  uint64_t workspace;
  int32_t users;
} exec_prepared;

typedef struct exec_call {
  const tc_plugin *plugin;
  const tc_call_table *table;
  int32_t variant; // of the library's ways; 0: its own choice
  tc_epilogue epilogue[2];
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
  exec_number blocks, grain;
  int32_t n_args;
  exec_arg *args;
} exec_launch;

typedef struct exec_decision exec_decision; // exec_tune.c

typedef struct exec_op {
  const tc_plan_op *op;
  exec_number bytes, flops;
  int32_t n_launches;       // LAUNCH: variants, then the general one
  exec_launch *launches;    //
  exec_number *key;         // of a tuned launch
  exec_decision *decisions; // under the executable's lock
  int32_t n_decisions;
  exec_arg *args;        // others
  exec_call *call;       // CALL
  int32_t kept;          // CALL: number of what it makes of its constant operands once, or -1
  bool kept_varies;      // CALL: the others' sizes vary
  exec_control *control; // IF, WHILE, SCAN
  int32_t errors;        // number of its error block
} exec_op;

typedef struct exec_buf {
  exec_number place, bytes, offset;
  bool written;   // INPUT: in place
  bool once;      // INPUT: read by what is done once
  bool often;     // INPUT: used by what is done in every run
  int32_t frozen; // FROZEN: number among them
  int32_t reads;  // FROZEN: how many constant operands of calls of known sizes it is, if nothing else reads it; or -1
  bool late;      // OUTPUT: memory is taken behind the beginning of a run
} exec_buf;

// What is done once, done for certain constants: kept as long as runs are given the same (exec_frozen.c).
typedef struct exec_frozen {
  int32_t refs;        // under the executable's lock
  int64_t number;      // each set has its own
  tc_storage **inputs; // referenced, by number of once_inputs
  int64_t *offsets;    // of the tensors in them
  tc_storage *
      *storage;   // by number of the FROZEN buffer; owned, NULL if spent. Behind them what calls keep, NULL if nothing
  int32_t *reads; // by number of the FROZEN buffer: of exec_buf.reads those whose calls have not made what they keep
} exec_frozen;

// value = (size(input, dim) - rest) / coeff; dim -1: the number itself, SOURCE_OFFSET: where the tensor starts; input
// -1: part `dim` of the run's seed and stream.
enum { SOURCE_OFFSET = -2 };
typedef struct symbol_source {
  int32_t symbol, input, dim;
  int64_t coeff, rest;
} symbol_source;

// A host tensor that was copied to the device and does not change: a parameter or a constant.
typedef struct exec_resident {
  tc_storage *host; // referenced
  int64_t offset;
  tc_pool_block *block;
} exec_resident;

typedef struct exec_last exec_last;         // exec_last.c
typedef struct exec_replays exec_replays;   // exec_replay.c
typedef struct exec_instance exec_instance; //
typedef struct exec_blocks exec_blocks;     // exec_arena.c

struct tc_exec {
  tc_device *d;
  const tc_plan *plan;
  const tc_trial *trial; // while it is made, or NULL
  tc_arena *arena;
  int32_t n_symbols; // the highest in use, + 1
  int32_t n_numbers; // slots
  tc_map *numbers;   // while it is made: expression → exec_number
  exec_last *last;   // NULL: runs look at everything anew
  exec_op *ops;
  exec_buf *bufs;
  exec_shape *inputs, *outputs;
  TC_VEC(symbol_source) sources;
  TC_VEC(exec_number) requires_;
  const tc_sym **require_text;
  exec_number arena_bytes, largest_bytes;
  tc_plan_rooms rooms;
  tc_plan_gap *gaps;       // by operation: memory that the workspace of a call may have
  int32_t *given, n_given; // parts of the arena by rising last op
  exec_number *facts;      // what variants need, each once
  const tc_sym **fact_exprs;
  int32_t n_facts;
  int32_t n_errors;    // error blocks: 0 for kernels without checks, one for each with
  tc_loaded **kernels; // atomic where `load` is; NULL: not wanted yet
  tc_exec_load load;   // NULL: all are there
  pthread_mutex_t lock;
  exec_resident *resident;     // by input, under the lock; NULL where memory is the host's
  exec_replays *replays;       // NULL: runs are not recorded
  int32_t n_once;              // ops that are done once, the first ones
  int32_t n_frozen;            // FROZEN buffers
  int32_t n_kept;              // calls that may keep something
  int64_t n_sets;              // of constants, so far; under the lock
  TC_VEC(int32_t) once_inputs; // graph inputs that they read
  exec_frozen *frozen;         // under the lock; of the latest constants, or NULL
};

typedef struct exec_address {
  tc_handle memory;
  int64_t offset; // bytes
} exec_address;

// Where the elements of an input's buffer are for a run.
enum {
  EXEC_PLACE_NONE,
  EXEC_PLACE_THERE,    // where the tensor is
  EXEC_PLACE_RESIDENT, // in a copy on the device that stays
  EXEC_PLACE_COPIED,   // in a copy of this run
  EXEC_PLACE_CHANGED   // in a copy of this run that kernels change, and that becomes an output
};
typedef struct exec_place {
  int32_t kind;
  exec_address address; // THERE, RESIDENT; memory 0: not there yet
  int64_t first;        // the offset that the program states, in elements
} exec_place;

typedef struct run_state {
  tc_exec *e;
  const tc_run_options *options;
  int64_t *symbols;
  int64_t *numbers; // by slot, INT64_MIN: not evaluated yet; NULL: all are evaluated each time
  const tc_tensor *inputs;
  exec_address *address; // by buffer
  tc_storage **storage;  // by buffer: OUTPUT's
  // By buffer: inputs copied to the device for this run; parts of the arena, at the first buffer in each.
  tc_pool_block **copies;
  tc_pool_block *arena;
  tc_handle arena_memory;
  exec_blocks *blocks; // where the arena is several
  uint64_t facts;      // bit k: fact k of the executable holds
  exec_frozen *frozen; // NULL: nothing is done once
  bool once;           // what is done once is being done
  bool late;           // results and parts of the arena are taken when they are needed
  int32_t next_room, next_given;
  tc_pool_block **error_blocks;
  tc_error_block host_errors;
  exec_instance *instance; // of a recorded run: whose memory this run uses
  tc_handle recorder;      // stream that records; 0: the device's stream is used
} run_state;

struct tc_exec_moment {
  run_state *r;
};

exec_number exec_number_make(tc_exec *e, const tc_sym *x);
tc_status exec_value(const exec_number *n, const int64_t *symbols, int64_t *out);
tc_status exec_number_of(const run_state *r, const exec_number *n, int64_t *out); // in a run; evaluated once
// exec_inputs.c
void exec_find_sources(tc_exec *e);
// The seed that symbols hold, false where the program draws nothing; puts another one in its place.
bool exec_seed_of(const tc_exec *e, const int64_t *symbols, uint64_t *out);
void exec_set_seed(const tc_exec *e, uint64_t seed, int64_t *symbols);
tc_status exec_bind_symbols(const tc_exec *e, const tc_tensor *inputs, const tc_run_options *o, int64_t *symbols);
// exec_last.c. Inputs like the last run's: its symbols and numbers are taken over (true), and nothing is left to check
// of them. Behind a run that had to look at everything, what it found is left for the next.
void exec_last_prepare(tc_exec *e);
int32_t exec_last_numbers(const tc_exec *e); // room for r->numbers; 0: there are to be none
void exec_last_begin(run_state *r);
bool exec_last_take(run_state *r);
void exec_last_leave(const run_state *r);
// exec_tune.c: the kernel to launch of several that are timed where that has not been decided yet.
tc_status exec_tune(run_state *r, exec_op *x, const exec_launch **out);
void exec_tune_destroy(tc_exec *e, exec_op *x);
// exec_arena.c: memory for the arena, in several blocks where it is more than one allocation may have; where a buffer
// of it lies.
tc_status exec_arena_take(run_state *r, int64_t bytes);
tc_status exec_arena_address(const run_state *r, int32_t buf, exec_address *out);
void exec_arena_give(run_state *r);
// Results and parts of the arena, where runs take them late: in front of the operation that needs them first, and back
// behind the last one.
void exec_rooms_prepare(tc_exec *e);
bool exec_rooms_are_late(const run_state *r, int64_t arena_bytes);
tc_status exec_rooms_take(run_state *r, int32_t op);
void exec_rooms_give(run_state *r, int32_t op);
// Is there so much in the arena that nothing needs while x runs?
bool exec_rooms_spare(const run_state *r, const exec_op *x, int64_t bytes, exec_address *out);
// exec_frozen.c
void exec_frozen_prepare(tc_exec *e);
tc_status exec_frozen_take(run_state *r, int64_t arena); // r->frozen, for the inputs of the run
// Gives memory of mapped files back that nothing reads any more once the operation, which depends on constants only, is
// done; `kept`: once the call keeps what it makes of its constant operands.
void exec_frozen_forget(const run_state *r, const exec_op *x, bool kept);
// The call keeps what it makes of its constant operands, and reads those of `spent` no more: what only such calls read
// is given back.
void exec_frozen_spend(run_state *r, const exec_op *x, uint64_t spent);
exec_address exec_frozen_address(const run_state *r, int32_t buf); // of a FROZEN buffer; memory 0 if it is spent
void exec_frozen_give(run_state *r);
void exec_frozen_destroy(tc_exec *e);
// What the call keeps, for the run; NULL: nothing.
const tc_storage *exec_frozen_kept(const run_state *r, const exec_op *x);
// exec_calls.c: what libraries are asked about a node
enum { EXEC_MOST_VIEWS = 32 };
typedef struct exec_question {
  tc_view views[EXEC_MOST_VIEWS];
  int64_t numbers[EXEC_MOST_VIEWS][2][TC_MAX_RANK];
  tc_call_node node;
  tc_epilogue epilogue[2];
} exec_question;
void exec_fill_view(exec_question *q, int32_t k, tc_sym_ctx *c, const tc_tensor_type *t);
void exec_fill_node(exec_question *q, const tc_node *n, const tc_op_args *args, int32_t n_operands, int32_t n_results);
// Does the library do the node, and what does it estimate?
bool exec_ask(tc_device *d, const tc_device_calls *c, const tc_call_node *n, int64_t *out_cost);
// The cheapest library for the node and its estimate in nanoseconds (out_cost may be NULL), or NULL; of those that want
// to be preferred to lowerings, or of all.
const tc_device_calls *exec_cheapest(tc_device *d, const tc_call_node *n, bool preferred, int64_t *out_cost);
// What the first of the libraries that was just asked in vain said why not, copied to the arena; empty if nothing.
tc_sv exec_refusal(const tc_device *d, tc_arena *arena);
tc_status exec_call_create(tc_exec *e, exec_op *x);
void exec_call_destroy(tc_exec *e, exec_op *x);
tc_status exec_call_run(run_state *r, exec_op *x);
tc_status exec_call_keep(run_state *r, exec_op *x); // what it makes of its constant operands, into r->frozen
// The call made ready for this run's sizes, which stays so until it is dropped, and the bytes of its workspace.
tc_status exec_call_hold(run_state *r, exec_op *x, exec_prepared **out, int64_t *out_workspace);
void exec_call_drop(exec_op *x, exec_prepared *p);
// exec_control.c
tc_status exec_control_create(tc_exec *e, exec_op *x, tc_compile_stats *stats);
void exec_control_destroy(exec_op *x);
const tc_exec *exec_control_region(const exec_op *x, int32_t region);
// Can a device graph hold the turns of the op, one behind the other? A scan of launches that check nothing.
bool exec_control_can_record(const run_state *r, const exec_op *x);
tc_status exec_control_run(run_state *r, exec_op *x);
// exec_run.c: what a run of a region shares with a run
tc_status exec_place_errors(run_state *r);
tc_status exec_read_errors(run_state *r); // waits for a device with memory of its own
tc_status exec_clear_errors(run_state *r);
tc_status exec_kernel(tc_exec *e, const exec_launch *v, tc_loaded **out); // loaded now if it was not
void exec_find_facts(run_state *r);
bool exec_fact_holds(const run_state *r, int32_t fact);
tc_status exec_launch_one(run_state *r, exec_op *x, const exec_launch *v, int64_t *out_blocks);
int64_t exec_span_of(const tc_tensor *t);             // elements from the tensor's first to its last, strides counted
tc_status exec_run_ops(run_state *r);                 // with the buffers placed
tc_status exec_run_turn(run_state *r, bool first);    // … of a region, and in the first turn what is done once
tc_status exec_run_once(run_state *r, int64_t arena); // the ops that are done once, into r->frozen
tc_status exec_run_op(run_state *r, exec_op *x, int64_t *out_blocks);
tc_status exec_find_place(run_state *r, int32_t buf, exec_place *out);
tc_status exec_take_output(run_state *r, int32_t buf); // its memory, and what lies in it
tc_status exec_synchronize(tc_device *d);
// exec_replay.c. A run that takes an instance (true) begins with it, which says where the arena and the error blocks
// are, places its buffers, lets it get ready, which records in the instance's first run, and runs it; then the
// instance is released. Where getting ready fails the instance is dropped, and the run begins anew without one.
bool exec_replay_take(run_state *r);
tc_status exec_replay_begin(run_state *r, int64_t arena_bytes);
tc_status exec_replay_ready(run_state *r);
tc_status exec_replay_run(run_state *r);
void exec_replay_release(run_state *r);
void exec_replay_drop(run_state *r, tc_status why); // takes the status
void exec_replay_destroy(tc_exec *e);
// What the run's instance has, by buffer: EXEC_PLACE_*, storages, copies; by operation: a call and its workspace.
int32_t *exec_replay_kind(const run_state *r, int32_t buf);
tc_storage **exec_replay_storage(const run_state *r, int32_t buf);
tc_pool_block **exec_replay_copy(const run_state *r, int32_t buf);
exec_prepared *exec_replay_held(const run_state *r, const exec_op *x, tc_handle *memory, int64_t *offset);

#endif
