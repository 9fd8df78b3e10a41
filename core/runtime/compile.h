// From a graph to an executable, stage by stage; each stage can be had as text.
//
// This compiles one graph whole, or fails; core/runtime/session.h runs any graph, cutting it where it must.
#ifndef TC_CORE_RUNTIME_COMPILE_H_
#define TC_CORE_RUNTIME_COMPILE_H_

#include "core/runtime/context.h"
#include "core/runtime/exec.h"

enum {
  TC_STAGE_GRAPH,
  TC_STAGE_FUNCTIONAL,
  TC_STAGE_LOOP,
  TC_STAGE_SCHEDULE,
  TC_STAGE_KERNEL,
  TC_STAGE_PLAN,
  TC_STAGE_CODE,
  TC_STAGE_EXEC,
  TC_STAGE_COUNT
};
const char *tc_stage_name(int32_t stage); // "graph"
int32_t tc_stage_parse(tc_sv name);       // -1 if unknown

typedef struct tc_compiled {
  tc_graph *graph;
  const tc_tensor_type *const *results; // of a region: tc_lower_options.results
  int32_t fixed_from;                   // of a region: tc_loops.fixed_from
  tc_trial *trial;                      // what is to be tried; NULL: the choices are made
  tc_loops *loops;
  tc_schedule *schedule;
  tc_plan *plan;
  tc_exec *exec; // owned; NULL unless compiled to the end
  tc_sv choices; // a line for each choice between a kernel and a library call, for explain
  tc_compile_stats stats;
  double ms[TC_STAGE_COUNT];   // time of each stage
  tc_sv texts[TC_STAGE_COUNT]; // of stages that later ones change, as they were, where the context keeps them; or empty
} tc_compiled;

// Compiles up to and including `last`. Everything but the executable is in the module's arena. The context's backend
// must be open (a device is asked for its limits from SCHEDULE on). One thread per module.
TC_NODISCARD tc_status tc_compile_graph(tc_context *c, tc_graph *g, int32_t last, tc_compiled *out);
void tc_compiled_free(tc_compiled *x);
// The text of one stage that has been reached.
TC_NODISCARD tc_status tc_compiled_text(tc_context *c, const tc_compiled *x, int32_t stage, tc_sb *sb);

// How this context chooses between kernels and libraries.
tc_call_choice tc_call_choice_of(const tc_context *c);

// Mixed precision, if the context's options want it: before gradients are made of the graph, once. Under an open guard.
TC_NODISCARD tc_status tc_compile_autocast(const tc_context *c, tc_graph *g);
// The two halves: the mode's graph passes, and what follows them. They need an open guard of the module's arena.
TC_NODISCARD tc_status tc_compile_passes(tc_context *c, tc_graph *g);
// `out` comes with `graph`, and with `loops`, `schedule` or `plan` where these are given instead of made. `fuse` false:
// one group per loop node, whatever the mode says.
TC_NODISCARD tc_status tc_compile_lowered(tc_context *c, int32_t last, bool fuse, tc_compiled *out);

#endif
