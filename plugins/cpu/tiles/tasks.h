// What the tables of calls on the processor's matrix unit share: whether it may be used, refusals, and runs as tasks
// that threads take in turn.
#ifndef TC_PLUGINS_CPU_TILES_TASKS_H_
#define TC_PLUGINS_CPU_TILES_TASKS_H_

#include <stdbool.h>
#include <stdint.h>

#include "tc/plugin.h"

// The beginning of what a call prepares.
typedef struct tiles_call {
  const tc_host *host;
  int32_t threads;
  int64_t tasks, scratch; // of a run; bytes of one thread
} tiles_call;

int32_t tiles_refuse(const tc_host *h, const char *why); // UNIMPLEMENTED
bool tiles_is_named(tc_sv text, const char *name);
// Is there a unit for bf16 that this process may use? If not, the host is told why.
bool tiles_usable(const tc_host *h, tc_device_ *d);
// Fills a call for a node; the host is told of a refusal.
typedef int32_t (*tiles_describe)(const tc_host *h, const tc_call_node *n, tiles_call *c);
// tc_call_table.prepare for calls of `size` bytes, and what ends it.
int32_t tiles_prepare(const tc_host *h, const tc_call_node *n, size_t size, tiles_describe describe, void **out,
                      uint64_t *out_workspace);
void tiles_destroy(void *call);
// Does tasks 0 … tasks - 1 in about that order, each with a thread's scratch memory out of `workspace`.
typedef void (*tiles_do)(const void *run, int64_t task, char *scratch);
void tiles_run(const tiles_call *c, tiles_do task, const void *run, tc_handle workspace, int64_t offset);

#endif
