// Autotuning: the candidates for what a graph's nodes cost most are compiled, each by itself, and timed on the device;
// winners go to the device's tuning records (tuning.h), which later choices look up.
//
// What is tuned are nodes that templates or libraries do: every library that supports a node, in each of its ways, and
// kernels with each of the templates' configurations, together with the pointwise ops that alone read the result.
// Inputs are random, caches cold where the device has a clock of its own; the median of a few runs counts. Records name
// sizes by their hints, so a symbolic program is tuned for its example.
#ifndef TC_CORE_RUNTIME_TUNE_H_
#define TC_CORE_RUNTIME_TUNE_H_

#include "core/runtime/compile.h"

// Times what is not known yet, within the option tune.budget_ms; candidates that fail are left out. The graph is behind
// all passes and is not changed. Needs an open guard of the module's arena.
TC_NODISCARD tc_status tc_tune_graph(tc_context *c, tc_graph *g);

// What the records say (tc_tuned_fn).
int32_t tc_tuned_call(tc_device *d, tc_arena *arena, const tc_node *n, const tc_device_calls **out_calls,
                      int32_t *out_variant);
// Keeps a node's winner: a library's way, or (calls NULL) kernels.
void tc_tuned_keep(tc_device *d, tc_arena *arena, const tc_node *n, const tc_device_calls *calls, int32_t variant,
                   double ns);

// For tc_emit_options.pick.
typedef struct tc_config_pick {
  tc_device *device;
  tc_arena *arena;
  tc_trial *trial; // or NULL: the records decide
} tc_config_pick;
int32_t tc_tuned_config(void *self, tc_sv name, tc_sv stage, int32_t n, const struct tc_stage_config *configs);
// Keeps what a trial's templates had.
void tc_tuned_keep_configs(tc_device *d, const tc_trial *trial, double ns);

#endif
