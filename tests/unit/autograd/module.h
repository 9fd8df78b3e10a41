// A module with the core's ops, for tests of gradients.
#ifndef TC_TESTS_UNIT_AUTOGRAD_MODULE_H_
#define TC_TESTS_UNIT_AUTOGRAD_MODULE_H_

#include "core/ops/ops.h"
#include "tests/unit/unit.h"

// In a registry of the test's arena; the module outlives the call.
static inline tc_status open_module(tc_arena *arena, tc_module **out) {
  tc_op_registry *ops;
  TC_TRY(tc_op_registry_create(arena, &ops));
  TC_TRY(tc_ops_register_core(ops));
  return tc_module_create(tc_arena_allocator(arena), ops, out);
}

// Under an open guard of the module's arena.
static inline tc_status graph_of(tc_module *m, const char *text, tc_graph **out) {
  tc_lexer lx;
  tc_lex_init(&lx, m->arena, TC_SV("test"), tc_sv_of(text));
  return tc_graph_parse(m, &lx, out);
}

// A tensor of a value's type, whose sizes are constants.
static inline tc_status tensor_of(const tc_allocator *a, const tc_value *v, tc_tensor *out) {
  int64_t sizes[TC_MAX_RANK];
  for (int32_t d = 0; d < v->type.rank; d++) sizes[d] = v->type.sizes[d]->value;
  return tc_tensor_create(a, v->type.dtype, v->type.rank, sizes, out);
}

#endif
