// A program as text, at whichever stage it is: what `tcrun dump` prints, and what a .tc file holds.
//
// From LOOP on `graph` is a signature (core/ir/graph.h): it says what goes in and out, and a session runs the rest. The
// tensors that inputs name (parameters, buffers, constants) are not in the text; whoever reads it binds them in the
// module, or says where they are: a text may begin with `weights "FILE" program "NAME"`.
#ifndef TC_CORE_RUNTIME_SOURCE_H_
#define TC_CORE_RUNTIME_SOURCE_H_

#include "core/runtime/compile.h"

typedef struct tc_session tc_session;

// Asked once, by one thread, for one more executable where none takes the inputs of a run. *out stays NULL where there
// is none.
typedef struct tc_session_more {
  TC_NODISCARD tc_status (*make)(void *self, tc_session **out);
  void *self; // lives as long as the session
} tc_session_more;

// What a session runs, as files have it: one plan, or the segments of a program that is cut, and its steps.
typedef struct tc_image {
  tc_graph *steps; // NULL: the plan is all
  int32_t n_plans; // 0: there is nothing
  tc_plan *const *plans;
} tc_image;
tc_graph *tc_image_graph(const tc_image *x); // inputs and outputs; NULL: there is nothing

typedef struct tc_source {
  int32_t stage; // TC_STAGE_GRAPH (also FUNCTIONAL), LOOP, SCHEDULE or PLAN (also KERNEL)
  tc_graph *graph;
  tc_loops *loops;
  tc_schedule *schedule;
  tc_plan *plan;
  const tc_image *image;          // of the stage PLAN, in the place of `plan`
  tc_sv weights, weights_program; // or empty
  tc_sv name;                     // what people call the program; empty: as its graph is called
  int32_t n_others;               // of an image: the same program for other inputs, in modules of their own
  const tc_image *others;
  tc_session_more more; // of a plan; make NULL: there are no more
  bool stages;          // sessions are to have every stage's text and IR: no plan is taken from the cache
  bool by_op;           // the ops of a graph may run one at a time (core/runtime/session.h)
  bool by_op_always;    // … whatever the mode says: for a graph that runs once
  bool plan_only;       // of a graph: its compilation leaves nothing in its module but the plan, if one is all
  bool one_graph;       // an op that the backend does not do is an error (option `fullgraph`), not a step of the host
} tc_source;

// Reads the whole of a text into a fresh module. Errors name line and column. Under a guard of the module's arena.
TC_NODISCARD tc_status tc_source_parse(const tc_context *c, tc_module *m, tc_lexer *lx, tc_source *out);
// The line that says where the tensors are, or nothing.
void tc_source_print_weights(tc_sb *sb, const tc_source *s);
// The text again. `stage` KERNEL: a plan with its kernels in front; else that of the source.
void tc_source_print(tc_sb *sb, const tc_source *s, int32_t stage);

#endif
