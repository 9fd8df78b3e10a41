// Archives of exported programs. An input that is no zip archive is taken as the JSON of a program, so that the fuzzer
// need not find CRCs; weights are then two payloads of 64 bytes.
#include "core/frontends/pt2/pt2.h"
#include "core/ops/ops.h"
#include "tests/fuzz/fuzz.h"

static tc_arena *registry_arena;
static tc_op_registry *registry;

static tc_status make_registry(void *arg) {
  (void)arg;
  TC_TRY(tc_op_registry_create(registry_arena, &registry));
  return tc_ops_register_core(registry);
}

static const char config[] =
    "{\"config\": {\"w\": {\"path_name\": \"weight_0\", \"is_param\": true, \"use_pickle\": false, \"tensor_meta\": "
    "{\"dtype\": 7, \"sizes\": [{\"as_int\": 4}, {\"as_int\": 4}], \"strides\": [{\"as_int\": 1}, {\"as_int\": 4}], "
    "\"storage_offset\": {\"as_int\": 0}, \"layout\": 7}}}}";

static tc_status pack(const tc_allocator *a, tc_storage *json, tc_storage **out) {
  tc_zip_item items[] = {
      {TC_SV("a/models/model.json"), json->size, 0},
      {TC_SV("a/archive_format"), 3, 0},
      {TC_SV("a/data/weights/model_weights_config.json"), sizeof config - 1, 0},
      {TC_SV("a/data/weights/weight_0"), 64, 0},
  };
  const void *contents[] = {json->data, "pt2", config, NULL};
  size_t total;
  TC_TRY(tc_zip_layout(items, 4, &total));
  TC_TRY(tc_storage_create(a, total, out));
  memset((*out)->data, 0, total);
  for (int32_t i = 0; i < 4; i++)
    if (contents[i] && items[i].size)
      memcpy((uint8_t *)(*out)->data + items[i].offset, contents[i], (size_t)items[i].size);
  tc_zip_finish((*out)->data, items, 4);
  return TC_OK;
}

static tc_status print_graph(void *arg) {
  tc_program *p = arg;
  tc_sb sb = tc_sb_make(p->module->arena);
  tc_graph_print(&sb, p->graph);
  return tc_graph_verify(p->graph);
}

static tc_status body(tc_arena *arena, tc_storage *bytes) {
  const tc_allocator *a = tc_arena_allocator(arena);
  tc_storage *file = bytes;
  tc_pt2 *f = NULL;
  if (bytes->size < 2 || memcmp(bytes->data, "PK", 2) != 0) TC_TRY(pack(a, bytes, &file));
  tc_status s = tc_pt2_open_storage(file, registry,
                                    &(tc_pt2_options){.allocator = a, .check_meta = true, .verify_weights = true}, &f);
  for (int32_t i = 0; s == TC_OK && i < tc_pt2_count(f); i++) {
    tc_program *p;
    tc_tensor_list samples;
    s = tc_pt2_load(f, i, &p);
    if (s) break;
    tc_fuzz_require(tc_arena_guard(p->module->arena, print_graph, p) == TC_OK);
    for (int32_t k = 0; k < tc_map_count(p->module->bindings); k++) {
      const tc_binding *b = tc_map_at(p->module->bindings, k)->value.ptr;
      if (b->tensor.storage) tc_fuzz_touch(a, &b->tensor);
    }
    tc_status_free(tc_pt2_sample_inputs(f, p, &samples));
    tc_tensor_list_free(&samples);
    tc_program_destroy(p);
  }
  tc_pt2_close(f);
  if (file != bytes) tc_storage_unref(file);
  return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (registry == NULL) {
    tc_fuzz_require(tc_arena_create(tc_system_allocator(), &registry_arena) == TC_OK);
    tc_fuzz_require(tc_arena_guard(registry_arena, make_registry, NULL) == TC_OK);
  }
  return tc_fuzz_run(data, size, body);
}
