// The cache of plans on disk: a process that compiles what another one has compiled neither runs passes nor lowers,
// schedules and emits.
//
// An entry is an executable blob (core/plan/blob.h) with one plan and, instead of objects, the keys of its kernels,
// which the same cache holds. Its key is the hash of the graph as it was imported, the options that may change code,
// the device and its generator, and the files of the core and of every plugin. Values of constants are not in it: no
// pass reads them. An entry that is damaged, or whose kernels are gone, is passed over and written anew.
//
// Kept are sessions of one executable. All functions are called under a guard of the module's arena.
#ifndef TC_CORE_RUNTIME_PLAN_CACHE_H_
#define TC_CORE_RUNTIME_PLAN_CACHE_H_

#include "core/runtime/compile.h"

// The key for a graph before any pass. False: nothing is to be kept (no cache, an autotuned mode, or logs are wanted
// of what a plan from the cache would not do).
bool tc_plan_cache_key(tc_context *c, const tc_graph *g, tc_hash128 *out);
// Makes the executable of the entry: `out->plan` and `out->exec`; the graph then has the plan's outputs and no nodes.
// False: there is none, and nothing is changed.
bool tc_plan_cache_load(tc_context *c, tc_hash128 key, tc_graph *g, tc_compiled *out);
void tc_plan_cache_store(tc_context *c, tc_hash128 key, const tc_plan *p);

// The two halves: a plan as an entry, in the plan's arena, and what an entry makes of a graph. The entry's bytes have
// to stay as long as the plan that is read. `texts`: with the texts of kernels, whose code need not be there, and is
// made when a launch wants it.
TC_NODISCARD tc_status tc_plan_entry_write(tc_context *c, const tc_plan *p, bool texts, tc_sv *out);
TC_NODISCARD tc_status tc_plan_entry_read(tc_context *c, tc_sv entry, tc_graph *g, tc_compiled *out);

#endif
