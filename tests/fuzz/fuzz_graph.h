// The core's ops for fuzz targets that read graphs, made once; and modules that live in the input's arena.
#ifndef TC_TESTS_FUZZ_FUZZ_GRAPH_H_
#define TC_TESTS_FUZZ_FUZZ_GRAPH_H_

#include "core/ops/ops.h"
#include "tests/fuzz/fuzz_text.h"

static tc_op_registry *tc_fuzz_registry;

static inline tc_status tc_fuzz_make_registry(void *arg) {
  TC_TRY(tc_op_registry_create(arg, &tc_fuzz_registry));
  return tc_ops_register_core(tc_fuzz_registry);
}

static inline const tc_op_registry *tc_fuzz_ops(void) {
  if (tc_fuzz_registry) return tc_fuzz_registry;
  tc_arena *arena;
  tc_fuzz_ok(tc_arena_create(tc_system_allocator(), &arena), "the arena");
  tc_fuzz_ok(tc_arena_guard(arena, tc_fuzz_make_registry, arena), "the ops");
  return tc_fuzz_registry;
}

static inline tc_module *tc_fuzz_module(tc_arena *arena) {
  const tc_op_registry *ops = tc_fuzz_ops();
  tc_module *m = TC_NEW(arena, tc_module);
  *m = (tc_module){.arena = arena, .ops = ops, .syms = tc_sym_create(arena), .bindings = tc_map_create(arena)};
  return m;
}

#endif
