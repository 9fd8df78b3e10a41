// Executable blobs: what goes in comes out; every damaged byte is found, or was in a gap; plans with their code;
// tensors with odd strides and shared data.
#include "core/plan/blob.h"
#include "tests/unit/plan/plan_test.h"

static tc_sv bytes_of(tc_arena *arena, tc_sv b) { // at a multiple of 64, and of its exact size for the sanitizers
  char *copy = tc_arena_alloc_aligned(arena, b.size + 1, TC_BLOB_ALIGN);
  memcpy(copy, b.data, b.size);
  return (tc_sv){copy, b.size};
}

TC_TEST(entries_come_back) {
  tc_blob_writer *w = tc_blob_begin(arena);
  tc_sv text = TC_SV("some text"), out;
  TC_TRY(tc_blob_add(w, TC_BLOB_TEXT, TC_SV("a"), text));
  TC_TRY(tc_blob_add(w, TC_BLOB_DATA, TC_SV("a"), TC_SV(""))); // another kind
  TC_TRY(tc_blob_add(w, TC_BLOB_TEXT, TC_SV(""), TC_SV("nameless")));
  assert_error(tc_blob_add(w, TC_BLOB_TEXT, TC_SV("a"), text), TC_STATUS_INVALID_ARGUMENT, "twice");
  tc_sv all = tc_blob_bytes(w);
  assert_int_equal(all.size, tc_blob_size(w));
  tc_blob *b;
  TC_TRY(tc_blob_open(arena, all, &b));
  assert_int_equal(tc_blob_count(b), 3);
  TC_TRY(tc_blob_get(b, TC_BLOB_TEXT, TC_SV("a"), &out));
  assert_true(tc_sv_eq(out, text));
  assert_int_equal((uintptr_t)(out.data - all.data) % TC_BLOB_ALIGN, 0);
  TC_TRY(tc_blob_get(b, TC_BLOB_DATA, TC_SV("a"), &out));
  assert_int_equal(out.size, 0);
  TC_TRY(tc_blob_get(b, TC_BLOB_TEXT, TC_SV(""), &out));
  assert_true(tc_sv_is(out, "nameless"));
  assert_error(tc_blob_get(b, TC_BLOB_PLAN, TC_SV("a"), &out), TC_STATUS_NOT_FOUND, "no 'a'");
  assert_null(tc_blob_find(b, TC_BLOB_CODE, TC_SV("a")));
  return TC_OK;
}

static tc_status append(void *self, const void *data, size_t size) {
  tc_sb_put(self, (tc_sv){data, size});
  return TC_OK;
}

static tc_status refuse(void *self, const void *data, size_t size) {
  (void)self, (void)data, (void)size;
  return tc_error(TC_STATUS_IO, "full");
}

TC_TEST(written_in_pieces_it_is_the_same) {
  tc_blob_writer *w = tc_blob_begin(arena);
  tc_sb sb = tc_sb_make(arena);
  TC_TRY(tc_blob_add(w, TC_BLOB_TEXT, TC_SV("one"), TC_SV("1")));
  TC_TRY(tc_blob_add(w, TC_BLOB_TEXT, TC_SV("two"), TC_SV("22")));
  TC_TRY(tc_blob_write(w, append, &sb));
  assert_true(tc_sv_eq(tc_sb_view(&sb), tc_blob_bytes(w)));
  assert_error(tc_blob_write(w, refuse, NULL), TC_STATUS_IO, "full");
  tc_blob *b;
  tc_sv none = tc_blob_bytes(tc_blob_begin(arena));
  TC_TRY(tc_blob_open(arena, none, &b));
  assert_int_equal(tc_blob_count(b), 0);
  return TC_OK;
}

// Reads everything there is; the first error.
static tc_status read_all(tc_arena *arena, tc_sv all) {
  tc_blob *b;
  TC_TRY(tc_blob_open(arena, all, &b));
  for (int32_t i = 0; i < tc_blob_count(b); i++) {
    const tc_blob_entry *e = tc_blob_at(b, i);
    tc_sv contents;
    TC_TRY(tc_blob_get(b, e->kind, e->name, &contents));
  }
  return TC_OK;
}

TC_TEST(damage_is_found) {
  tc_blob_writer *w = tc_blob_begin(arena);
  char long_name[200];
  memset(long_name, 'n', sizeof long_name);
  TC_TRY(tc_blob_add(w, TC_BLOB_TEXT, (tc_sv){long_name, sizeof long_name}, TC_SV("0123456789")));
  TC_TRY(tc_blob_add(w, TC_BLOB_DATA, TC_SV("x"), TC_SV("abc")));
  tc_sv good = bytes_of(arena, tc_blob_bytes(w));
  TC_TRY(read_all(arena, good));
  for (size_t size = 0; size < good.size; size++)
    assert_error(read_all(arena, bytes_of(arena, tc_sv_sub(good, 0, size))),
                 size < 64 ? TC_STATUS_INVALID_ARGUMENT : TC_STATUS_DATA_LOSS, "blob");
  uint64_t seed = tc_test_seed();
  int32_t unseen = 0;
  for (size_t at = 0; at < good.size; at++) {
    tc_sv bad = bytes_of(arena, good);
    ((char *)(uintptr_t)bad.data)[at] ^= (char)(1 << (tc_test_random(&seed) % 8));
    tc_status s = read_all(arena, bad);
    unseen += s == TC_OK;
    tc_status_free(s);
  }
  // Gaps in front of contents, and the header's spare words.
  assert_true(unseen < 2 * TC_BLOB_ALIGN + 24);
  return TC_OK;
}

// Headers and tables that lie, with hashes that fit.
TC_TEST(lies_are_found) {
  tc_blob_writer *w = tc_blob_begin(arena);
  TC_TRY(tc_blob_add(w, TC_BLOB_TEXT, TC_SV("a"), TC_SV("text")));
  TC_TRY(tc_blob_add(w, TC_BLOB_TEXT, TC_SV("b"), TC_SV("text")));
  tc_sv good = tc_blob_bytes(w);
  uint64_t seed = tc_test_seed();
  for (int32_t round = 0; round < 2000; round++) {
    tc_sv bad = bytes_of(arena, good);
    uint64_t *words = (uint64_t *)(void *)(uintptr_t)bad.data, head;
    static const uint64_t values[] = {0, 1, 63, 64, 65, 192, 1u << 31, UINT64_MAX, UINT64_MAX - 63, INT64_MAX};
    size_t at = 8 + tc_test_random(&seed) % 16, pick = tc_test_random(&seed) % 10;
    words[at] = values[pick];
    if (round % 3 == 0) words[3] = values[tc_test_random(&seed) % 10]; // the head's size
    if (round % 5 == 0) ((uint32_t *)(void *)words)[3] = (uint32_t)values[tc_test_random(&seed) % 10];
    head = words[3];
    if (head >= 64 && head <= bad.size) words[4] = tc_hash(bad.data + 64, head - 64);
    tc_status_free(read_all(arena, bad)); // no crash, which the sanitizers hold it to
  }
  return TC_OK;
}

// ---- plans ----
static const char plan_text[] = "plan @p [s0 in [1, 64] hint 4] (\n    %x : f32[s0] = user \"x\") arena 4*s0 {\n"
                                "  %x : f32[s0]{1} = input 0;\n"
                                "  %h : f32[s0]{1} = arena 0 size 4*s0;\n"
                                "  %y : f32[s0]{1} = output size 4*s0;\n"
                                "  launch @a_0 kernel 1 blocks 1 grain 1 : (%x, out %h, s0 : i32) bytes 0 flops 0\n"
                                "    site \"index out of range\"\n"
                                "  launch @a_1 kernel 0 blocks 1 grain 1 : (%h, out %y) bytes 0 flops 0\n"
                                "  return user %y as f32[s0]{1}\n}\n";

static const tc_plan_code code[2] = {{{7, 8}, {"a", 1}, 2, (const uint8_t *)"\0\0", {"machine code", 12}, {"", 0}},
                                     {{7, 9}, {"bb", 2}, 3, (const uint8_t *)"\0\0\1", {"", 0}, {"", 0}}};

static tc_status open_plan(tc_arena *arena, tc_sv text, int32_t n, const tc_plan_code *of, tc_module **m,
                           tc_plan **out) {
  tc_op_registry *ops;
  tc_blob_writer *w = tc_blob_begin(arena);
  tc_blob *b;
  TC_TRY(tc_op_registry_create(arena, &ops));
  TC_TRY(tc_blob_add_plan(w, TC_SV("p"), text, n, of));
  TC_TRY(tc_blob_open(arena, tc_blob_bytes(w), &b));
  if (!*m) TC_TRY(tc_module_create(tc_arena_allocator(arena), ops, m));
  return tc_blob_get_plan(b, TC_SV("p"), *m, out);
}

TC_TEST(plans_come_back_with_their_code) {
  tc_module *m = NULL;
  tc_plan *p;
  TC_TRY(open_plan(arena, tc_sv_of(plan_text), 2, code, &m, &p));
  assert_int_equal(p->n_code, 2);
  assert_int_equal(p->kernels.data[0]->code, 1);
  assert_int_equal(p->kernels.data[0]->sites.count, 1);
  for (int32_t i = 0; i < 2; i++) {
    const tc_plan_code *c = &p->code[i];
    assert_true(tc_sv_eq(c->name, code[i].name) && tc_sv_eq(c->object, code[i].object));
    assert_true(c->key.lo == code[i].key.lo && c->key.hi == code[i].key.hi);
    assert_int_equal(c->n_params, code[i].n_params);
    assert_memory_equal(c->scalar, code[i].scalar, (size_t)c->n_params);
  }
  tc_sb sb = tc_sb_make(arena);
  int32_t n;
  const tc_kernel *const *kernels;
  tc_plan_print_coded(&sb, p, &n, &kernels);
  assert_int_equal(n, 0);
  assert_string_equal(sb.text, plan_text);
  tc_module_destroy(m);
  return TC_OK;
}

TC_TEST(plans_must_fit_their_code) {
  tc_module *m = NULL;
  tc_plan *p;
  tc_plan_code other[2] = {code[0], code[0]}; // takes no number
  other[1].key.lo = 10;
  assert_error(open_plan(arena, tc_sv_of(plan_text), 1, code, &m, &p), TC_STATUS_INVALID_ARGUMENT, "no code for @a_0");
  assert_error(open_plan(arena, tc_sv_of(plan_text), 2, other, &m, &p), TC_STATUS_INTERNAL, "number of arguments");
  assert_error(open_plan(arena, TC_SV("plan @p"), 0, code, &m, &p), TC_STATUS_INVALID_ARGUMENT, "arena");
  tc_module_destroy(m);
  return TC_OK;
}

// ---- tensors ----
static tc_status wrap(tc_sv bytes, tc_storage **out) {
  return tc_storage_wrap(tc_system_allocator(), (void *)(uintptr_t)bytes.data, bytes.size, NULL, NULL, out);
}

static void same_values(const tc_tensor *a, const tc_tensor *b) {
  assert_int_equal(a->rank, b->rank);
  assert_int_equal(a->dtype, b->dtype);
  int64_t index[TC_MAX_RANK] = {0};
  for (int32_t d = 0; d < a->rank; d++) {
    assert_int_equal(a->sizes[d], b->sizes[d]);
    assert_int_equal(a->strides[d], b->strides[d]);
  }
  for (int64_t i = 0, n = tc_tensor_numel(a); i < n; i++) {
    int64_t rest = i;
    for (int32_t d = a->rank - 1; d >= 0; d--) index[d] = rest % a->sizes[d], rest /= a->sizes[d];
    assert_int_equal(tc_tensor_get_int(a, index), tc_tensor_get_int(b, index));
  }
}

TC_TEST(tensors_come_back) {
  uint64_t seed = tc_test_seed();
  tc_blob_writer *w = tc_blob_begin(arena);
  enum { N = 24 };
  tc_tensor t[N], got;
  int64_t size[1] = {1000};
  static const tc_dtype dtypes[] = {TC_I8, TC_I32, TC_I64, TC_U8};
  for (int32_t i = 0; i < N; i++) {
    tc_tensor all;
    TC_TRY(tc_tensor_create(tc_system_allocator(), dtypes[i % 4], 1, size, &all));
    tc_tensor_fill_uniform_int(&tc_executor_serial, &all, seed + (uint64_t)i, 0, 100);
    int64_t sizes[3], strides[3] = {100, 3, (int64_t)(tc_test_random(&seed) % 3)};
    for (int32_t d = 0; d < 3; d++) sizes[d] = (int64_t)(tc_test_random(&seed) % 6) + (i > 5);
    TC_TRY(
        tc_tensor_view(all.storage, all.dtype, i % 4, sizes, strides, (int64_t)(tc_test_random(&seed) % 300), &t[i]));
    tc_tensor_unref(&all);
    TC_TRY(tc_blob_add_tensor(w, tc_sv_printf(arena, "t%d", i), &t[i]));
  }
  TC_TRY(tc_blob_add_tensor(w, TC_SV("tied"), &t[N - 1]));
  tc_sv bytes = tc_blob_bytes(w);
  tc_blob *b;
  tc_storage *whole;
  TC_TRY(tc_blob_open(arena, bytes, &b));
  TC_TRY(wrap(bytes, &whole));
  for (int32_t i = 0; i < N; i++) {
    TC_TRY(tc_blob_get_tensor(b, whole, tc_sv_printf(arena, "t%d", i), i % 2, &got));
    same_values(&t[i], &got);
    tc_tensor_unref(&got);
  }
  tc_tensor tied;
  TC_TRY(tc_blob_get_tensor(b, whole, TC_SV("tied"), true, &tied));
  TC_TRY(tc_blob_get_tensor(b, whole, tc_sv_printf(arena, "t%d", N - 1), true, &got));
  assert_ptr_equal(tc_tensor_data(&tied), tc_tensor_data(&got));
  tc_tensor_unref(&tied);
  tc_tensor_unref(&got);
  for (int32_t i = 0; i < N; i++) tc_tensor_unref(&t[i]);
  tc_storage_unref(whole);
  return TC_OK;
}

TC_TEST(tensors_do_not_reach_beyond_their_data) {
  uint64_t seed = tc_test_seed();
  tc_tensor t, got;
  int64_t sizes[2] = {4, 5};
  TC_TRY(tc_tensor_create(tc_system_allocator(), TC_I32, 2, sizes, &t));
  tc_tensor_fill_uniform_int(&tc_executor_serial, &t, 1, 0, 9);
  for (int32_t round = 0; round < 500; round++) {
    tc_blob_writer *w = tc_blob_begin(arena);
    TC_TRY(tc_blob_add_tensor(w, TC_SV("t"), &t));
    tc_sv bytes = tc_blob_bytes(w);
    // The head of the tensor, changed behind its hash's back: written anew as an entry of its own.
    tc_blob *b;
    TC_TRY(tc_blob_open(arena, bytes, &b));
    tc_sv head = tc_blob_find(b, TC_BLOB_TENSOR, TC_SV("t"))->contents;
    char *changed = tc_arena_copy(arena, head.data, head.size);
    static const int64_t values[] = {-1, 0, 1, 5, 6, 21, INT64_MAX, INT64_MIN, 1 << 30};
    size_t words[] = {0, 1, 2, 17, 18, 33, 34, 35};
    int64_t v = values[tc_test_random(&seed) % 9];
    memcpy(changed + 8 * words[tc_test_random(&seed) % 8], &v, sizeof v);
    TC_TRY(tc_blob_add(w, TC_BLOB_TENSOR, TC_SV("u"), (tc_sv){changed, head.size}));
    bytes = bytes_of(arena, tc_blob_bytes(w));
    TC_TRY(tc_blob_open(arena, bytes, &b));
    tc_storage *whole;
    TC_TRY(wrap(bytes, &whole));
    tc_status s = tc_blob_get_tensor(b, whole, TC_SV("u"), false, &got);
    if (s == TC_OK) {
      int64_t n = tc_tensor_numel(&got), zero[TC_MAX_RANK] = {0};
      if (n > 0) (void)tc_tensor_get_int(&got, zero);
      tc_tensor_unref(&got);
    }
    tc_status_free(s);
    tc_storage_unref(whole);
  }
  tc_tensor_unref(&t);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(entries_come_back),
      cmocka_unit_test(written_in_pieces_it_is_the_same),
      cmocka_unit_test(damage_is_found),
      cmocka_unit_test(lies_are_found),
      cmocka_unit_test(plans_come_back_with_their_code),
      cmocka_unit_test(plans_must_fit_their_code),
      cmocka_unit_test(tensors_come_back),
      cmocka_unit_test(tensors_do_not_reach_beyond_their_data),
  };
  return TC_RUN(tests);
}
