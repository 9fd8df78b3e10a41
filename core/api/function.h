// Shared by the files of compiled functions: function.c (what one is), function_capture.c (entries are made),
// function_call.c (they are found and run), function_log.c (they are told of).
#ifndef TC_CORE_API_FUNCTION_H_
#define TC_CORE_API_FUNCTION_H_

#include <pthread.h>

#include "core/api/trace.h"

enum { FUNCTION_SYMBOLS = 256 }; // that guards may have
enum { FUNCTION_REFUSALS = 16 }; // ops that are remembered

typedef struct function_number {
  const int64_t *at;
  int32_t input; // of the graph
} function_number;

typedef struct function_entry {
  struct function_entry *next;
  int32_t id;
  tc_module *module;
  tc_guards *guards;
  tc_session *session;
  int32_t n_inputs; // of the graph: the function's that are there, then captured ones
  int32_t n_graph_outputs;
  const int32_t *outputs; // of the function: their numbers among the graph's
  const bool *apart;      // of the function's outputs: shares memory with no input and no other output
  const int32_t *through; // there is nothing to run: by output, the graph's input that it is; else NULL
  uint64_t n_random;      // random nodes
  int32_t n_captured;
  tc_tensor **captured; // referenced
  int32_t n_numbers;    // among what is captured: read anew for each run
  const function_number *numbers;
  bool writes; // without a session: what is written is seen through another input, calls run op by op
} function_entry;

typedef struct function_dims { // of the first call, to see what changes
  bool seen;
  int32_t rank;
  int64_t sizes[TC_MAX_RANK];
  bool dynamic[TC_MAX_RANK];
} function_dims;

struct tc_function {
  tc_context *context;
  tc_arena *arena;
  tc_function_body body;
  void *self;
  tc_sv name;
  int32_t id, n_inputs, n_outputs, dynamic, limit;
  int32_t n_values, n_wrt; // outputs: the body's, then the gradients of the first one with respect to inputs wrt
  const int32_t *wrt;      // n_wrt 0: none, an ordinary function
  tc_guard_input *how;     // names and marks
  function_dims *seen;
  pthread_mutex_t lock;    // of compiling
  function_entry *entries; // published with release order, newest first
  int32_t n_entries;
  bool follows;                           // atomic: it reads values, and is run in each call
  api_line *lines;                        // segments of it; published with release order, newest first
  int32_t n_lines;                        // atomic
  bool given_up, said;                    // atomic: calls run op by op; `said` also of segments
  const tc_op *refuse[FUNCTION_REFUSALS]; // atomic: take no symbols for numbers
  bool gradients;          // atomic: it asks for gradients, which need a graph: calls op by op make one each
  int64_t calls, compiles; // atomic
};

typedef struct function_call {
  tc_function *f;
  tc_tensor *const *inputs;
  const tc_tensor *values; // of the inputs
  tc_tensor **outputs;
  bool done;  // the outputs are there
  bool ran;   // ops of it have run, or what it does between two segments
  bool once;  // there may be no more entries: the one that is made is this call's alone, and its ops run one by one
  bool again; // the body asked for gradients, and was left: it needs a graph
} function_call;

// ---- function_capture.c ----
// Runs the body and records. `first` (under the lock): what has no break becomes *out, and is not run; else the call is
// done when this returns.
TC_NODISCARD tc_status function_record(function_call *call, const tc_guard_input *how, bool first,
                                       function_entry **out);
// The first run of a body that no entry holds for, with the sizes as symbols that have changed since. Under the lock.
TC_NODISCARD tc_status function_capture(function_call *call, function_entry **out);
// What becomes no entry of the function (call->once): for just these sizes. The caller destroys it. Under the lock.
TC_NODISCARD tc_status function_capture_once(function_call *call, function_entry **out);
void function_entry_destroy(tc_function *f, function_entry *x); // NULL is ignored
tc_status function_no_gradients(const char *of);                // the error

// ---- function_log.c ----
// The guards of an entry or a segment, then what holds as long as there is the function. Needs an open guard.
void function_print_guards(tc_sb *sb, const tc_function *f, const tc_guards *g);
void function_log_guards(tc_function *f, const function_entry *x); // of a new entry
void function_log_misses(tc_function *f, const tc_tensor *inputs); // what made each entry fail
void function_log_line(const tc_function *f, const api_line *x);   // a new segment
void function_say_once(tc_function *f, const char *why);           // that it runs op by op, and why

#endif
