// Shared by the files of the embedder's API (tc/tc.h): what handles are, the calling thread's state, captures.
#ifndef TC_CORE_API_INTERNAL_H_
#define TC_CORE_API_INTERNAL_H_

#include "core/runtime/eager.h"
#include "core/runtime/session.h"

// A capture: ops on its tensors become nodes.
typedef struct api_trace {
  tc_context *context;
  tc_module *module;
  tc_graph *graph;
  TC_VEC(tc_tensor *) captured; // tensors from outside that became inputs behind the function's own; referenced
  TC_VEC(tc_value *) captured_values;
  tc_sv broken; // why this cannot be captured whole, with the place; "" while it can
} api_trace;

// What a tc_tensor * of the API points to.
typedef struct api_tensor {
  tc_tensor value; // first; while captured: dtype, rank and hints of the sizes, without storage
  int32_t refs;    // atomic
  tc_context *context;
  api_trace *trace; // NULL for data
  tc_value *node;   // captured
} api_tensor;

static inline api_tensor *api_of(const tc_tensor *t) { return (api_tensor *)(uintptr_t)t; }

// Errors: the first one of a thread stays until it is cleared. Takes the status; gives its code.
int32_t api_fail(tc_status s);
int32_t api_fail_text(int32_t code, const char *fmt, ...) TC_PRINTF(2, 3);

// A new handle over a value, which it takes over, also when memory is short (NULL and an error then).
tc_tensor *api_wrap(tc_context *c, tc_tensor value);
tc_tensor *api_wrap_traced(api_trace *t, tc_value *v);
// Gives a reference that the caller holds to the innermost scope; false when memory is short (it is released then).
bool api_adopt(tc_tensor *t);

// The graph's value of a handle: its own, or an input for data from outside. Needs an open guard of the module's arena.
tc_status api_trace_value(api_trace *t, tc_tensor *x, tc_value **out);
// Records an op. results[capacity] get new handles.
int32_t api_trace_op(api_trace *t, const char *here, const tc_op *op, int32_t n_args, const tc_argument *args,
                     int32_t capacity, tc_tensor **results, int32_t *n_results);
// Says that the capture cannot go on, with the caller's place; gives the code of the error that is set.
int32_t api_trace_break(api_trace *t, const char *here, const char *reason);
// A size as a number: the capture is specialised to its hint.
int64_t api_trace_size(api_trace *t, const tc_sym *size);
// The trace that an op of this thread records into where no operand tells, e.g. zeros; NULL: none.
api_trace *api_current_trace(void);
api_trace *api_set_current_trace(api_trace *t); // gives the one before

#endif
