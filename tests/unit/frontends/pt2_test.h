// What the tests of the pt2 frontend share: a registry (the core's ops, and rows for what archives of tests/data/pt2
// use beyond them), archives with edited members, loading with everything checked.
#ifndef TC_TESTS_UNIT_FRONTENDS_PT2_TEST_H_
#define TC_TESTS_UNIT_FRONTENDS_PT2_TEST_H_

#include <unistd.h>

#include "core/base/vec.h"
#include "core/frontends/pt2/pt2.h"
#include "core/ir/opargs.h"
#include "core/ops/ops.h"
#include "tests/unit/unit.h"

// ---- rows that the core may lack ----
static int32_t meta_item(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  if (tc_dtype_class(t->dtype) == 'i' || tc_dtype_class(t->dtype) == 'u')
    (void)tc_op_unbacked(a, -TC_SYM_INF, TC_SYM_INF);
  return tc_op_set_result(a, 0, t->dtype, 0, NULL, NULL);
}

static int32_t meta_nothing(tc_op_args *a) {
  (void)a;
  return TC_STATUS_OK;
}

static int32_t meta_cond(tc_op_args *a) {
  const tc_graph *branch = a->args[1].graph;
  int32_t code = tc_op_set_result_count(a, branch->outputs.count);
  for (int32_t i = 0; i < branch->outputs.count && code == TC_STATUS_OK; i++) {
    const tc_arg *out = &branch->outputs.data[i].arg;
    if (out->kind != TC_AK_TENSOR || out->value->kind != TC_VALUE_TENSOR)
      return tc_op_fail(a, "a branch gives something else than tensors");
    const tc_tensor_type *t = &out->value->type;
    code = tc_op_set_result(a, i, t->dtype, t->rank, t->sizes, t->strides);
  }
  return code;
}

// Matrices in the last two dimensions, stored by columns.
static int32_t column_major(tc_op_args *a, int32_t result, const tc_tensor_type *t) {
  tc_int swapped[TC_MAX_RANK], strides[TC_MAX_RANK];
  if (t->rank < 2) return tc_op_fail(a, "a matrix is wanted");
  for (int32_t i = 0; i < t->rank; i++) swapped[i] = t->sizes[i < t->rank - 2 ? i : 2 * t->rank - 3 - i];
  tc_strides_make_contiguous(a->syms, t->rank, swapped, strides);
  tc_int last = strides[t->rank - 1];
  strides[t->rank - 1] = strides[t->rank - 2], strides[t->rank - 2] = last;
  return tc_op_set_result(a, result, t->dtype, t->rank, t->sizes, strides);
}

static int32_t meta_solve(tc_op_args *a) {
  const tc_tensor_type *m = tc_op_tensor(a, 0);
  if (column_major(a, 0, tc_op_tensor(a, 1)) || column_major(a, 1, m)) return TC_STATUS_INVALID_ARGUMENT;
  tc_op_set_result(a, 2, TC_I32, m->rank - 1, m->sizes, NULL);
  return tc_op_set_result(a, 3, TC_I32, m->rank - 2, m->sizes, NULL);
}

static int32_t meta_inv(tc_op_args *a) {
  const tc_tensor_type *m = tc_op_tensor(a, 0);
  if (column_major(a, 0, m)) return TC_STATUS_INVALID_ARGUMENT;
  return tc_op_set_result(a, 1, TC_I32, m->rank - 2, m->sizes, NULL);
}

static const struct {
  const char *name;
  tc_op_def row;
} extra_rows[] = {
    {"aten::item", {.schema = "item(Tensor self) -> Scalar", .meta = meta_item}},
    {"aten::_assert_scalar",
     {.schema = "_assert_scalar(Scalar self, str assert_msg) -> ()", .traits = TC_OP_EFFECT, .meta = meta_nothing}},
    {"higher_order::cond", {.schema = "higher_order::cond(...) -> ...", .meta = meta_cond}},
    {"aten::_linalg_solve_ex",
     {.schema = "_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, "
                "Tensor LU, Tensor pivots, Tensor info)",
      .meta = meta_solve}},
    {"aten::linalg_inv_ex",
     {.schema = "linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
      .meta = meta_inv}},
    {"aten::_linalg_check_errors",
     {.schema = "_linalg_check_errors(Tensor info, str api_name, *, bool is_matrix) -> ()",
      .traits = TC_OP_EFFECT,
      .meta = meta_nothing}},
};

// One registry for all tests of a program: making it takes longer than most of them.
static tc_arena *registry_arena;
static tc_op_registry *registry;

static tc_status make_registry(void *arg) {
  (void)arg;
  TC_TRY(tc_op_registry_create(registry_arena, &registry));
  TC_TRY(tc_ops_register_core(registry));
  for (size_t i = 0; i < sizeof extra_rows / sizeof *extra_rows; i++)
    if (tc_op_find(registry, tc_sv_of(extra_rows[i].name)) == NULL)
      TC_TRY(tc_op_register(registry, &extra_rows[i].row, TC_SV("")));
  return TC_OK;
}

static inline int open_registry(void **state) {
  (void)state;
  assert_ok(tc_arena_create(tc_system_allocator(), &registry_arena));
  assert_ok(tc_arena_guard(registry_arena, make_registry, NULL));
  return 0;
}

static inline int close_registry(void **state) {
  (void)state;
  tc_arena_destroy(registry_arena);
  return 0;
}

// ---- loading ----
static inline tc_status load_storage(tc_arena *arena, tc_storage *bytes, int32_t index, tc_program **out) {
  tc_pt2 *p;
  *out = NULL;
  TC_TRY(tc_pt2_open_storage(bytes, registry,
                             &(tc_pt2_options){.allocator = tc_arena_allocator(arena), .check_meta = true}, &p));
  tc_status s = tc_pt2_load(p, index, out);
  tc_pt2_close(p);
  return s;
}

static inline tc_status load_named(tc_arena *arena, const char *path, const char *name, tc_program **out) {
  tc_pt2 *p;
  *out = NULL;
  TC_TRY(
      tc_pt2_open(path, registry, &(tc_pt2_options){.allocator = tc_arena_allocator(arena), .check_meta = true}, &p));
  int32_t i = name ? tc_pt2_find(p, tc_sv_of(name)) : 0;
  tc_status s = tc_pt2_load(p, i, out);
  tc_pt2_close(p);
  return s;
}

static inline tc_status load(tc_arena *arena, const char *path, tc_program **out) {
  return load_named(arena, path, NULL, out);
}

typedef struct in_module {
  tc_program *program;
  tc_arena *arena;
  const char *text;
} in_module;

static tc_status print_graph(void *arg) {
  in_module *m = arg;
  tc_sb sb = tc_sb_make(m->program->module->arena);
  tc_graph_print(&sb, m->program->graph);
  m->text = tc_sb_view(&sb).data;
  return TC_OK;
}

static tc_status verify_graph(void *arg) { return tc_graph_verify(((in_module *)arg)->program->graph); }

// Prints and verifies need the module's arena guarded.
static inline const char *graph_text(tc_program *p) {
  in_module m = {.program = p};
  assert_ok(tc_arena_guard(p->module->arena, print_graph, &m));
  return m.text;
}

static inline tc_status graph_verify(tc_program *p) {
  in_module m = {.program = p};
  return tc_arena_guard(p->module->arena, verify_graph, &m);
}

static inline const tc_binding *binding_of(const tc_program *p, const char *name) {
  const tc_map_entry *e = tc_map_find(p->module->bindings, tc_sv_of(name));
  if (e == NULL) fail_msg("no binding '%s'", name);
  return e->value.ptr;
}

#define assert_contains(text, part)                                                      \
  do {                                                                                   \
    const char *text_ = (text);                                                          \
    if (strstr(text_, (part)) == NULL) fail_msg("\"%s\" is not in:\n%s", (part), text_); \
  } while (0)

// ---- archives with an edited member ----
// The archive at `path` with the first `find` in the member that ends in `suffix` replaced (NULL: nothing; the member
// is left out if `replace` is NULL too).
static inline tc_status edited(tc_arena *arena, const char *path, const char *suffix, const char *find,
                               const char *replace, tc_storage **out) {
  const tc_allocator *a = tc_arena_allocator(arena);
  tc_storage *file;
  tc_zip zip;
  int32_t n = 0;
  size_t total;
  TC_TRY(tc_storage_map(a, path, &file));
  TC_TRY(tc_zip_open(arena, file->data, file->size, &zip));
  tc_zip_item *items = TC_NEW_ARRAY(arena, tc_zip_item, zip.count);
  tc_sv *contents = TC_NEW_ARRAY(arena, tc_sv, zip.count);
  for (int32_t i = 0; i < zip.count; i++) {
    const tc_zip_entry *e = &zip.entries[i];
    tc_sv content;
    TC_TRY(tc_zip_read(arena, &zip, e, UINT64_MAX, &content));
    if (suffix && tc_sv_ends(e->name, suffix)) {
      if (find == NULL && replace == NULL) continue;
      const char *hit = find ? memmem(content.data, content.size, find, strlen(find)) : NULL;
      if (find && hit == NULL) fail_msg("'%s' is not in %s", find, suffix);
      tc_sb sb = tc_sb_make(arena);
      if (hit) {
        tc_sb_put(&sb, tc_sv_sub(content, 0, (size_t)(hit - content.data)));
        tc_sb_putz(&sb, replace);
        tc_sb_put(&sb, tc_sv_sub(content, (size_t)(hit - content.data) + strlen(find), content.size));
      } else tc_sb_putz(&sb, replace);
      content = tc_sb_view(&sb);
    }
    items[n] = (tc_zip_item){e->name, content.size, 0};
    contents[n++] = content;
  }
  TC_TRY(tc_zip_layout(items, n, &total));
  TC_TRY(tc_storage_create(a, total, out));
  memset((*out)->data, 0, total);
  for (int32_t i = 0; i < n; i++)
    if (contents[i].size) memcpy((uint8_t *)(*out)->data + items[i].offset, contents[i].data, contents[i].size);
  tc_zip_finish((*out)->data, items, n);
  tc_storage_unref(file);
  return TC_OK;
}

#endif
