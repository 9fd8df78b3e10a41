// Artifacts (.tcx): any bytes are read or refused with an error, and what is read lies inside. Hashes are made to fit
// first, else nearly all inputs would end there.
#include "core/runtime/tcx.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/runtime/artifact_bytes.h"

static void touch_state(const tc_allocator *a, const tc_tcx_program *p) {
  const tc_graph *g = tc_image_graph(&p->image);
  if (!g) return;
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_map_entry *e = tc_map_find(p->module->bindings, g->inputs.data[i].target);
    if (e) tc_fuzz_touch(a, &((const tc_binding *)e->value.ptr)->tensor);
  }
}

static tc_status body(tc_arena *arena, tc_storage *bytes) {
  const tc_allocator *a = tc_arena_allocator(arena);
  tc_tcx *x;
  artifact_repair(bytes->data, bytes->size);
  TC_TRY(tc_tcx_open_storage(a, bytes, TC_SV("/nowhere"), &x));
  tc_status s = TC_OK;
  for (int32_t i = 0; s == TC_OK && i < tc_tcx_count(x); i++) {
    tc_tcx_program p;
    s = tc_tcx_load(x, i, TC_TCX_PLAN | TC_TCX_TENSORS, &p);
    if (s != TC_OK) break;
    touch_state(a, &p);
    tc_tcx_program *others;
    int32_t n;
    s = tc_tcx_load_others(x, i, &others, &n);
    if (s == TC_OK) tc_tcx_unload_all(a, others, n);
    tc_tcx_unload(&p);
  }
  tc_tcx_close(x);
  return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return tc_fuzz_run(data, size, body); }
