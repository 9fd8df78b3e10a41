// Shared by the files of the embedder's API (tc/tc.h): what handles are, the calling thread's state, captures.
#ifndef TC_CORE_API_INTERNAL_H_
#define TC_CORE_API_INTERNAL_H_

#include "core/runtime/eager.h"
#include "core/runtime/session.h"

typedef struct api_trace api_trace; // core/api/trace.h: a function that is being captured or followed

// What a tc_tensor * of the API points to.
typedef struct api_tensor {
  tc_tensor value; // first; recorded and not yet computed: dtype and rank, without storage
  int32_t refs;    // atomic
  int32_t slot;    // recorded: its number in the trace
  tc_context *context;
  api_trace *trace; // NULL for data from outside
  tc_tensor *base;  // a view: whose memory it looks at; a reference, of what is no view itself
  // On the tape (tape.h): a leaf, or result `output` of a node, whose memory was written `seen` times then.
  bool leaf;
  uint32_t seen;
  int32_t output;
  struct api_node *node; // a reference
  tc_tensor *grad;       // of a leaf: what tc_backward has added up; a reference
} api_tensor;

static inline api_tensor *api_of(const tc_tensor *t) { return (api_tensor *)(uintptr_t)t; }

// Errors: the first one of a thread stays until it is cleared. Takes the status; gives its code.
int32_t api_fail(tc_status s);
int32_t api_fail_text(int32_t code, const char *fmt, ...) TC_PRINTF(2, 3);

// A handle without a value and outside of scopes, the caller's. NULL and an error when memory is short.
api_tensor *api_new(tc_context *c);
// A result that lies in the memory of an operand is a view of what the operand is, or is a view of.
void api_note_sharing(tc_tensor *result, int32_t n, tc_tensor *const *operands);
// The calling thread's: is what it runs put on the tape? Nodes of the tape that it is to release.
typedef struct api_releases {
  struct api_node *first;
  bool running;
} api_releases;
bool *api_grad_enabled(void);
api_releases *api_thread_releases(void);
// A new handle over a value, which it takes over, also when memory is short (NULL and an error then).
tc_tensor *api_wrap(tc_context *c, tc_tensor value);
tc_tensor *api_wrap_recorded(api_trace *t, tc_context *c, int32_t slot, tc_dtype dtype, int32_t rank, bool conj);
// Gives a reference that the caller holds to the innermost scope; false when memory is short (it is released then).
bool api_adopt(tc_tensor *t);

// Gives a tensor that is being recorded its memory: a graph break. False and an error when it has none afterwards.
bool api_readable(const char *here, const char *reason, tc_tensor *t, bool writes);
// What everything that the context compiles depends on and what cannot change while it is open, a line each: the
// default device, the plugins that make and run code with their versions. Needs an open guard.
void api_print_environment(tc_sb *sb, const tc_context *c);
// Runs an op at once; results[capacity] get new handles.
int32_t api_run_op(tc_context *c, const char *here, const tc_op *op, int32_t n_args, const tc_argument *args,
                   int32_t capacity, tc_tensor **results, int32_t *n_results);
// The body of a function that runs op by op and has never asked for gradients (function_call.c). These are made of a
// graph: when it asks it is left, and called again to be recorded, unless it has done something that lasts.
typedef struct api_attempt {
  struct api_attempt *outer; // that it was called in
  bool keeps;                // it is known to do without, or has the tape
  bool lasts, asked;
} api_attempt;
api_attempt *api_current_attempt(void);
api_attempt *api_set_current_attempt(api_attempt *a); // gives the one before
void api_note_effect(void);                           // the calling thread does what a second call would do again
void api_note_write(const tc_tensor *t);              // … it writes to a tensor's memory
// The trace that the calling thread's ops are recorded into; NULL: none.
api_trace *api_current_trace(void);
api_trace *api_set_current_trace(api_trace *t); // gives the one before

#endif
