// Delegates: plugins that compile parts of graphs themselves (level 0 of the interface).
//
// A session asks those that the option `delegates` names, in that order. What they claim becomes steps of its own; the
// rest is compiled, or left to the references, as ever.
#ifndef TC_CORE_RUNTIME_DELEGATE_H_
#define TC_CORE_RUNTIME_DELEGATE_H_

#include <pthread.h>

#include "core/runtime/context.h"

// A part that was taken.
typedef struct tc_delegate_part {
  const tc_plugin *plugin;
  int32_t number; // the plugin's own
} tc_delegate_part;

// Who takes which nodes: parts[of[id]] for a node's id, of[id] -1 for those that nobody takes. n_parts 0: nobody was
// asked or wanted anything. Memory is the module's arena.
typedef struct tc_delegation {
  int32_t *of;
  const tc_delegate_part *parts;
  int32_t n_parts;
} tc_delegation;
TC_NODISCARD tc_status tc_delegates_claim(tc_context *c, tc_graph *g, tc_delegation *out);

// A compiled part. Its graph's inputs and outputs are those of the runs.
typedef struct tc_delegated tc_delegated;
TC_NODISCARD tc_status tc_delegate_compile(const tc_plugin *p, tc_graph *g, const tc_allocator *a, tc_delegated **out);
void tc_delegate_destroy(tc_delegated *d); // NULL is ignored
// Tensors on the host, by input and output; thread-safe.
TC_NODISCARD tc_status tc_delegate_run(tc_delegated *d, int32_t n_inputs, const tc_tensor *inputs, int32_t n_outputs,
                                       const tc_tensor *outputs);

#endif
