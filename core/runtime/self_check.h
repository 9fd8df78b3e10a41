// Holding a program to the references part by part: behind each operation of a run the graph's nodes that it does
// (parts.h) are run on the references, too, with the very values that earlier operations left in memory. So the first
// operation that goes wrong is found, whatever its error becomes later on, and with it the inputs that show it.
#ifndef TC_CORE_RUNTIME_SELF_CHECK_H_
#define TC_CORE_RUNTIME_SELF_CHECK_H_

#include "core/runtime/session.h"

typedef struct tc_self_check tc_self_check;

typedef struct tc_self_check_options {
  // Is `got` what the references make of it, `want`, or in wider types (f64, c128, i64) `wide`? MISMATCH says in words
  // what differs. It is then asked once more, with what moving the operation's inputs by their rounding changes
  // (core/ir/spread.h); `spread` is NULL the first time, and has no storage for what is not floating.
  TC_NODISCARD tc_status (*compare)(void *self, const tc_tensor *got, const tc_tensor *want, const tc_tensor *wide,
                                    const tc_tensor *spread);
  void *self;
  tc_sv stem; // what differs is written to STEM.tc and STEM.safetensors (in.I, out.I); empty: nowhere
} tc_self_check_options;

// The session must have been made with its stages (tc_source.stages) and must outlive the check, which lies in its
// module's arena. One run at a time.
TC_NODISCARD tc_status tc_self_check_create(tc_session *s, const tc_self_check_options *o, tc_self_check **out);
void tc_self_check_destroy(tc_self_check *k); // NULL is ignored
// For tc_session_run_options.watch. The run of a program that differs ends with MISMATCH, which names the operation,
// its nodes with the model's source lines, and the files. `seed` and `stream` are those of the run.
const tc_session_watch *tc_self_check_watch(tc_self_check *k, uint64_t seed, uint64_t stream);
// How many operations the last run compared, and how many it had: those whose results are no values of the graph are
// compared by their readers.
void tc_self_check_counts(const tc_self_check *k, int32_t *out_compared, int32_t *out_all);

#endif
