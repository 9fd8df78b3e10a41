// Shared by the files of sessions: session.c (state), session_compile.c (from a graph), segment.c (cutting a graph),
// session_run.c (steps), session_control.c (control flow), session_ops.c (single ops).
#ifndef TC_CORE_RUNTIME_SESSION_INTERNAL_H_
#define TC_CORE_RUNTIME_SESSION_INTERNAL_H_

#include <pthread.h>
#include <stdatomic.h>

#include "core/ir/control.h"
#include "core/runtime/delegate.h"
#include "core/runtime/session.h"

// READ: a number out of a tensor, which the host must know (a size). OP: a node that the context's cache of single ops
// runs.
enum { STEP_EXEC, STEP_REF, STEP_CONTROL, STEP_READ, STEP_DELEGATE, STEP_OP };
struct tc_argument;
typedef struct session_env session_env;

typedef struct session_step {
  int32_t kind;
  tc_graph *graph;              // EXEC, REF: the segment; its inputs and outputs stand for the values below
  tc_compiled compiled;         // EXEC
  tc_value **inputs, **outputs; // values of the session's graph, by position; REF: inputs behind them are symbols
  int32_t n_inputs, n_outputs;
  const tc_sym **symbols; // REF: passed as numbers behind the inputs
  int32_t n_symbols;
  const tc_node *node; // CONTROL, READ, OP
  tc_control control;
  tc_session *regions[2];
  const tc_plugin *delegate; // DELEGATE: who takes the graph; what it made of it is owned
  tc_delegated *delegated;
  struct tc_argument *args;     // OP: with what does not change from run to run
  int32_t n_listed, n_integers; // OP: elements of its lists of tensors, of integers
} session_step;

struct tc_session {
  tc_context *context;
  tc_graph *graph;
  tc_sv name;
  tc_arena *arena; // the module's
  session_step *steps;
  int32_t n_steps;
  bool whole;         // one step that is the graph itself
  int32_t *last_step; // by value id: the last step that reads it; n_steps for outputs
  int32_t n_symbols;
  tc_tensor *state; // by graph input: parameters, buffers, constants
  bool *private_;   // by graph input: the state is the session's own copy
  bool mutates;
  bool apart;     // every node is a segment of its own
  bool one_graph; // tc_source
  // Not NULL: nodes that are calls of single ops are steps OP, which this runs (session_run_op; by pointer, as note_run
  // is).
  tc_status (*run_op)(session_env *e, session_step *step);
  tc_delegation delegation;
  tc_session_stats stats;
  TC_VEC(const char *) fallbacks;
  // Where this compilation left its folder (core/runtime/debug.h), NULL if nowhere; the first run is noted there.
  const char *debug_folder;
  tc_map *code_texts; // tc_kernel * → tc_sv *: printed for its page
  // tc_debug_note_run; by pointer, so that what only runs artifacts is linked without it. NULL: noted, or not wanted.
  tc_status (*note_run)(const tc_session *s, const char *folder, const tc_launch_record *launches, int32_t n_launches,
                        double ms);
  pthread_mutex_t lock; // reference steps; state; the folder; what is added
  // The same program for other inputs, the next of them (session_others.c); `more`: asked where none fits.
  tc_session *_Atomic next;
  tc_session_more more;
  bool asked;
  bool late; // made by `more`: taken if nothing else fits
};

// ---- session.c ----
// A session of the graph whose steps `build` makes, under the guard of the module's arena. `text_only`: without steps,
// to be looked at.
tc_status session_create(tc_context *c, tc_graph *g, tc_status (*build)(tc_session *s, void *arg), void *arg,
                         bool text_only, tc_session **out);
tc_status session_build_image(tc_session *s, void *arg); // image.c: tc_image
void session_add_stats(tc_session *s, const tc_compiled *x);
void session_free_steps(tc_session *s); // and what they add to the stats

// ---- segment.c ----
bool segment_reads(const tc_node *n); // a step READ: an integer out of a tensor
// tc_graph_extract as a step.
void segment_extract(tc_session *s, int32_t n, tc_node *const *nodes, bool symbols, session_step *out);
// Cuts the session's graph: bad[id] says which nodes cannot be in a compiled segment. Steps come without code.
void segment_cut(tc_session *s, const bool *bad);

// ---- session_run.c ----
struct session_env {
  tc_session *s;
  const tc_session_run_options *options;
  tc_tensor *slots; // by value id; numbers are tensors of rank 0
  int64_t *symbols; // INT64_MIN: not known
  int32_t step;
};
tc_status session_eval(const session_env *e, const tc_sym *x, int64_t *out);
tc_status session_bind_result(session_env *e, const tc_value *v);
// A tensor on the host; the same one if it is there.
tc_status session_to_host(const tc_session *s, const tc_tensor *t, tc_tensor *out);
// A region's run: symbols that are known outside are known inside.
tc_status session_run_symbols(tc_session *s, const tc_tensor *given, tc_tensor *outputs,
                              const tc_session_run_options *o, const int64_t *symbols, int32_t n_known);
tc_status session_run_control(session_env *e, session_step *step); // session_control.c
// ---- session_ops.c ----
bool session_runs_by_op(const tc_graph *g); // are all its nodes such that they can be steps of their own?
bool session_is_op(const tc_node *n); // can the cache of single ops run it, and keep what it makes for other sizes?
void session_make_op(tc_session *s, const tc_node *n, session_step *out); // its step
tc_status session_run_op(session_env *e, session_step *step);
// The state of input i becomes the session's own, together with all that shares its storage.
tc_status session_make_private(tc_session *s, int32_t i);
// A run of a session that others were added to (session_others.c).
tc_status session_run_fitting(tc_session *s, const tc_tensor *given, tc_tensor *outputs,
                              const tc_session_run_options *options);

#endif
