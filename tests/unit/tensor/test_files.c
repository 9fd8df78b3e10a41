// Tensor files: round trips, files of other programs, and everything that must be refused.
#include <unistd.h>

#include "core/tensor/files.h"
#include "tests/unit/unit.h"

#define DATA TC_SOURCE_DIR "/tests/data/torch/"

static const char *scratch(tc_arena *arena, const char *name) {
  return tc_sv_z(arena, tc_sv_printf(arena, "%s/scratch-%d-%s", TC_BINARY_DIR, (int)getpid(), name));
}

// Bytes of `text` and `data` behind a header length, as a storage.
static tc_storage *safetensors_of(tc_arena *arena, const char *header, size_t data) {
  tc_storage *s;
  const size_t n = strlen(header);
  assert_ok(tc_storage_create(tc_arena_allocator(arena), 8 + n + data, &s));
  uint8_t *p = s->data;
  memset(p, 0, s->size);
  for (int i = 0; i < 8; i++) p[i] = (uint8_t)((uint64_t)n >> 8 * i);
  memcpy(p + 8, header, n);
  for (size_t i = 0; i < data; i++) p[8 + n + i] = (uint8_t)i;
  return s;
}

static tc_status parse(tc_arena *arena, tc_storage *s, tc_tensor_list *out) {
  return tc_safetensors_parse(tc_arena_allocator(arena), arena, s, out);
}

static double value(const tc_tensor_list *l, const char *name, int64_t i, int64_t j) {
  const tc_tensor *t = tc_tensor_list_find(l, tc_sv_of(name));
  if (!t) fail_msg("no tensor '%s'", name);
  double re;
  tc_tensor_get(t, (int64_t[]){i, j}, &re, NULL);
  return re;
}

static void check_equal(const tc_tensor *a, const tc_tensor *b) {
  assert_int_equal(a->dtype, b->dtype);
  assert_int_equal(a->rank, b->rank);
  for (int32_t i = 0; i < a->rank; i++) assert_int_equal(a->sizes[i], b->sizes[i]);
  int64_t index[TC_MAX_RANK] = {0};
  bool more = tc_tensor_numel(a) > 0;
  while (more) {
    double ar, ai, br, bi;
    tc_tensor_get(a, index, &ar, &ai);
    tc_tensor_get(b, index, &br, &bi);
    assert_true(ar == br && ai == bi && tc_tensor_get_int(a, index) == tc_tensor_get_int(b, index));
    more = false;
    for (int32_t i = a->rank - 1; i >= 0 && !more; i--) {
      more = ++index[i] < a->sizes[i];
      if (!more) index[i] = 0;
    }
  }
}

// One tensor of each dtype, some strided, empty, 0-d or with lazy bits.
static tc_status make_list(tc_arena *arena, tc_tensor_list *out) {
  static const int64_t shapes[][3] = {{3, 0, 0}, {2, 5, 0}, {4, 0, 3}, {1, 2, 3}};
  out->items = TC_NEW_ARRAY(arena, tc_named_tensor, TC_DTYPE_COUNT);
  for (tc_dtype d = 1; d < TC_DTYPE_COUNT; d++) {
    tc_named_tensor *item = &out->items[out->count];
    const int32_t rank = d % 4;
    item->name = tc_sv_printf(arena, "t/%s \"quoted\" \xc3\xa9.%d", tc_dtype_name(d), (int)d);
    tc_tensor *t = &item->tensor;
    TC_TRY(tc_tensor_create(tc_arena_allocator(arena), d, rank, shapes[(d / 4 + d) % 4], t));
    out->count++;
    if (d < TC_F16) tc_tensor_fill_uniform_int(&tc_executor_serial, t, (uint64_t)d, -100, 100);
    else tc_tensor_fill_normal(&tc_executor_serial, t, (uint64_t)d, 0, 3);
    t->conj = d == TC_C64 || d == TC_C32;
    t->neg = d == TC_C64 || d == TC_F32;
    if (rank == 2) { // transposed
      const int64_t size = t->sizes[0], stride = t->strides[0];
      t->sizes[0] = t->sizes[1], t->strides[0] = t->strides[1];
      t->sizes[1] = size, t->strides[1] = stride;
    }
  }
  return TC_OK;
}

typedef struct trip {
  tc_arena *arena;
  const char *path;
  tc_tensor_list list, back;
} trip;

static tc_status make_trip(void *arg) {
  trip *t = arg;
  TC_TRY(make_list(t->arena, &t->list));
  TC_TRY(tc_tensors_write(t->arena, t->path, &t->list));
  TC_TRY(tc_tensors_read(tc_arena_allocator(t->arena), t->arena, t->path, &t->back));
  assert_int_equal(t->back.count, t->list.count);
  for (int32_t i = 0; i < t->list.count; i++) {
    assert_true(tc_sv_eq(t->list.items[i].name, t->back.items[i].name));
    check_equal(&t->list.items[i].tensor, &t->back.items[i].tensor);
    const tc_tensor *found = tc_tensor_list_find(&t->back, t->list.items[i].name);
    assert_ptr_equal(found, &t->back.items[i].tensor);
    assert_int_equal((uintptr_t)tc_tensor_data(found) % (uintptr_t)tc_dtype_size(found->dtype), 0);
  }
  return TC_OK;
}

static tc_status round_trip(tc_arena *arena, const char *name) {
  trip t = {.arena = arena, .path = scratch(arena, name)};
  tc_status s = tc_arena_guard(arena, make_trip, &t);
  tc_tensor_list_free(&t.list);
  tc_tensor_list_free(&t.back);
  unlink(t.path);
  return s;
}
TC_TEST_TORTURED(safetensors_round_trip) { return round_trip(arena, "a.safetensors"); }
TC_TEST_TORTURED(npz_round_trip) { return round_trip(arena, "a.npz"); }

static tc_status npy_trip(void *arg) {
  trip *t = arg;
  TC_TRY(make_list(t->arena, &t->list));
  for (int32_t i = 0; i < t->list.count; i++) {
    const tc_tensor *a = &t->list.items[i].tensor;
    if (a->dtype == TC_C32 || a->dtype == TC_BC32) { // no name for these, and no place for a suffix
      assert_error(tc_npy_write(t->arena, t->path, a), TC_STATUS_UNIMPLEMENTED, "no NumPy dtype");
      continue;
    }
    tc_tensor b;
    TC_TRY(tc_npy_write(t->arena, t->path, a));
    TC_TRY(tc_npy_read(tc_arena_allocator(t->arena), t->arena, t->path, &b));
    check_equal(a, &b);
    tc_tensor_unref(&b);
  }
  return tc_tensors_read(tc_arena_allocator(t->arena), t->arena, t->path, &t->back);
}

TC_TEST(npy_round_trip) {
  trip t = {.arena = arena, .path = scratch(arena, "a.npy")};
  TC_TRY(npy_trip(&t));
  assert_int_equal(t.back.count, 1);
  assert_true(tc_sv_ends(t.back.items[0].name, "-a"));
  tc_tensor_list_free(&t.list);
  tc_tensor_list_free(&t.back);
  unlink(t.path);
  return TC_OK;
}

TC_TEST(suffixes_are_undone) {
  tc_tensor_list l;
  tc_storage *s = safetensors_of(arena,
                                 "{\"a.c128\":{\"dtype\":\"F64\",\"shape\":[1,2],\"data_offsets\":[0,16]},"
                                 "\"b.c128\":{\"dtype\":\"F64\",\"shape\":[2,1],\"data_offsets\":[16,32]},"
                                 "\"c.c128\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[32,40]},"
                                 "\"d.c32\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[40,44]},"
                                 "\"e.bc32\":{\"dtype\":\"BF16\",\"shape\":[0,2],\"data_offsets\":[44,44]},"
                                 "\".c32\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[44,48]}}",
                                 48);
  TC_TRY(parse(arena, s, &l));
  assert_int_equal(l.count, 6);
  static const struct {
    const char *name;
    tc_dtype dtype;
    int32_t rank;
  } rows[] = {{"a", TC_C128, 1}, {"b.c128", TC_F64, 2}, {"c.c128", TC_F32, 1},
              {"d", TC_C32, 0},  {"e", TC_BC32, 1},     {"", TC_C32, 0}};
  for (int i = 0; i < 6; i++) {
    assert_sv(l.items[i].name, rows[i].name);
    assert_int_equal(l.items[i].tensor.dtype, rows[i].dtype);
    assert_int_equal(l.items[i].tensor.rank, rows[i].rank);
  }
  tc_tensor_list_free(&l);
  tc_storage_unref(s);
  return TC_OK;
}

// Whatever the shift of the data, aligned tensors view the file and the others are copies.
TC_TEST(misaligned_data_is_copied) {
  for (int pad = 0; pad < 16; pad++) {
    tc_tensor_list l;
    tc_storage *s = safetensors_of(
        arena,
        tc_sv_z(arena, tc_sv_printf(arena,
                                    "%*s{\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                                    "\"f\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[3,11]},"
                                    "\"z.c128\":{\"dtype\":\"F64\",\"shape\":[1,2],\"data_offsets\":[11,27]}}",
                                    pad, "")),
        27);
    TC_TRY(parse(arena, s, &l));
    const uint8_t *first = s->data, *past = first + s->size, *begin = past - 27;
    static const int at[] = {0, 3, 11}, size[] = {3, 8, 16};
    int32_t views = 0;
    for (int i = 0; i < 3; i++) {
      const tc_tensor *t = &l.items[i].tensor;
      const uint8_t *p = tc_tensor_data(t);
      const bool view = p >= first && p < past;
      views += view;
      assert_int_equal(view, (uintptr_t)(begin + at[i]) % (uintptr_t)tc_dtype_size(t->dtype) == 0);
      assert_memory_equal(p, begin + at[i], size[i]);
      assert_int_equal((uintptr_t)p % (uintptr_t)tc_dtype_size(t->dtype), 0);
    }
    assert_int_equal(s->refs, 1 + views);
    tc_storage_unref(s); // the views keep it
    assert_true(value(&l, "b", 2, 0) == 2);
    tc_tensor_list_free(&l);
  }
  return TC_OK;
}

TC_TEST(malformed_safetensors_are_refused) {
#define T(dtype, shape, offsets) "{\"t\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
  static const struct {
    const char *header;
    size_t data;
    int32_t code;
    const char *message;
  } rows[] = {
      {T("\"F32\"", "[2]", "[0,8]"), 7, TC_STATUS_DATA_LOSS, "cut short"},
      {T("\"F32\"", "[2]", "[0,8]"), 9, TC_STATUS_DATA_LOSS, "belongs to no tensor"},
      {T("\"F32\"", "[2]", "[1,9]"), 9, TC_STATUS_DATA_LOSS, "belongs to no tensor"},
      {T("\"F32\"", "[2]", "[0,4]"), 4, TC_STATUS_DATA_LOSS, "4 bytes of data where its shape needs 8"},
      {T("\"F32\"", "[2]", "[8,0]"), 8, TC_STATUS_DATA_LOSS, "data_offsets"},
      {T("\"F32\"", "[2]", "[-8,0]"), 8, TC_STATUS_DATA_LOSS, "data_offsets"},
      {T("\"F32\"", "[2]", "[0]"), 8, TC_STATUS_DATA_LOSS, "data_offsets"},
      {T("\"F32\"", "[2]", "[0,8,8]"), 8, TC_STATUS_DATA_LOSS, "data_offsets"},
      {T("\"F32\"", "[2]", "\"0,8\""), 8, TC_STATUS_DATA_LOSS, "data_offsets"},
      {T("\"F32\"", "[2]", "[0,18446744073709551615]"), 8, TC_STATUS_DATA_LOSS, "data_offsets"},
      {T("\"F32\"", "[2]", "[9223372036854775800,9223372036854775807]"), 8, TC_STATUS_DATA_LOSS, "cut short"},
      {T("\"F32\"", "[-2]", "[0,8]"), 8, TC_STATUS_DATA_LOSS, "non-negative"},
      {T("\"F32\"", "[2.0]", "[0,8]"), 8, TC_STATUS_DATA_LOSS, "non-negative"},
      {T("\"F32\"", "2", "[0,8]"), 8, TC_STATUS_DATA_LOSS, "no shape"},
      {T("\"F32\"", "[4294967296,4294967296]", "[0,0]"), 0, TC_STATUS_DATA_LOSS, "63 bits"},
      {T("\"F32\"", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, TC_STATUS_INVALID_ARGUMENT, "17 dimensions"},
      {T("\"F32\"", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, TC_STATUS_DATA_LOSS, "18 dimensions"},
      {T("\"F8_E4M3\"", "[8]", "[0,8]"), 8, TC_STATUS_UNIMPLEMENTED, "'F8_E4M3'"},
      {T("7", "[8]", "[0,8]"), 8, TC_STATUS_DATA_LOSS, "no dtype"},
      {"{\"t\":7}", 0, TC_STATUS_DATA_LOSS, "no dtype"},
      {"[]", 0, TC_STATUS_DATA_LOSS, "JSON object"},
      {"{", 0, TC_STATUS_DATA_LOSS, "safetensors header"},
      {"", 0, TC_STATUS_DATA_LOSS, "safetensors header"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_"
       "offsets\":[1,3]}}",
       3, TC_STATUS_DATA_LOSS, "overlap at data byte 1"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_"
       "offsets\":[0,2]}}",
       2, TC_STATUS_DATA_LOSS, "overlap"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_"
       "offsets\":[2,3]}}",
       3, TC_STATUS_DATA_LOSS, "byte 1 of 3 belongs to no tensor"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_"
       "offsets\":[1,2]}}",
       2, TC_STATUS_DATA_LOSS, "two tensors are named 'a'"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_"
       "offsets\":[1,1]}}",
       2, TC_STATUS_DATA_LOSS, "overlap"},
  };
#undef T
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tc_tensor_list l;
    tc_storage *s = safetensors_of(arena, rows[i].header, rows[i].data);
    assert_error(parse(arena, s, &l), rows[i].code, rows[i].message);
    assert_int_equal(s->refs, 1);
    assert_true(l.count == 0 && l.items == NULL);
    tc_storage_unref(s);
  }
  // Header lengths beyond the file, and files too short to have one.
  for (size_t n = 0; n < 12; n++) {
    tc_storage *s;
    tc_tensor_list l;
    TC_TRY(tc_storage_create(tc_arena_allocator(arena), n, &s));
    memset(s->data, 0xff, n);
    assert_error(parse(arena, s, &l), TC_STATUS_DATA_LOSS, "header");
    tc_storage_unref(s);
  }
  // Empty tensors may share the place of others; metadata is skipped; no tensors at all are fine.
  tc_storage *s =
      safetensors_of(arena,
                     "{\"__metadata__\":{\"x\":\"y\"},\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[2,2]},"
                     "\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                     "\"f\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,0],\"data_offsets\":[0,0]}}   ",
                     2);
  tc_tensor_list l;
  TC_TRY(parse(arena, s, &l));
  assert_int_equal(l.count, 3);
  tc_tensor_list_free(&l);
  tc_storage_unref(s);
  s = safetensors_of(arena, "{}", 0);
  TC_TRY(parse(arena, s, &l));
  assert_int_equal(l.count, 0);
  tc_storage_unref(s);
  return TC_OK;
}

// Truncations and flipped bits of a real file: an error or a list, nothing else (run under sanitizers).
static void check_damage(tc_arena *arena, const char *path, tc_status (*read)(tc_arena *, tc_storage *),
                         uint64_t seed) {
  tc_sv text;
  assert_ok(tc_file_read(arena, path, &text));
  for (size_t n = 0; n < text.size; n++) {
    tc_storage *s;
    assert_ok(tc_storage_create(tc_arena_allocator(arena), n, &s));
    memcpy(s->data, text.data, n);
    tc_status got = read(arena, s);
    if (got == TC_OK) fail_msg("%s is read when cut to %d bytes", path, (int)n);
    tc_status_free(got);
    assert_int_equal(s->refs, 1);
    tc_storage_unref(s);
  }
  for (int round = 0; round < 3000; round++) {
    tc_storage *s;
    assert_ok(tc_storage_create(tc_arena_allocator(arena), text.size, &s));
    memcpy(s->data, text.data, text.size);
    for (int i = 0; i <= round % 3; i++)
      ((uint8_t *)s->data)[tc_test_random(&seed) % text.size] ^= (uint8_t)(1 << tc_test_random(&seed) % 8);
    tc_status_free(read(arena, s));
    assert_int_equal(s->refs, 1);
    tc_storage_unref(s);
  }
}
static tc_status read_safetensors(tc_arena *arena, tc_storage *s) {
  tc_tensor_list l;
  TC_TRY(parse(arena, s, &l));
  tc_tensor_list_free(&l);
  return TC_OK;
}
static tc_status read_npz(tc_arena *arena, tc_storage *s) {
  tc_tensor_list l;
  TC_TRY(tc_npz_parse(tc_arena_allocator(arena), arena, s, &l));
  tc_tensor_list_free(&l);
  return TC_OK;
}
static tc_status read_npy(tc_arena *arena, tc_storage *s) {
  tc_tensor t;
  TC_TRY(tc_npy_parse(tc_arena_allocator(arena), arena, s, 0, s->size, &t));
  tc_tensor_unref(&t);
  return TC_OK;
}
TC_TEST(damaged_files_never_crash) {
  check_damage(arena, DATA "some.safetensors", read_safetensors, tc_test_seed());
  check_damage(arena, DATA "plain.npz", read_npz, tc_test_seed());
  check_damage(arena, DATA "packed.npz", read_npz, tc_test_seed());
  check_damage(arena, DATA "fortran.npy", read_npy, tc_test_seed());
  return TC_OK;
}

TC_TEST(files_of_other_writers) {
  const tc_allocator *a = tc_arena_allocator(arena);
  tc_tensor_list l;
  TC_TRY(tc_tensors_read(a, arena, DATA "some.safetensors", &l));
  assert_int_equal(l.count, 6);
  assert_true(value(&l, "half", 0, 1) == -2 && value(&l, "flag", 0, 0) == 1 && value(&l, "brain", 0, 0) == 3 &&
              value(&l, "u16", 0, 0) == 65535);
  double re, im;
  tc_tensor_get(tc_tensor_list_find(&l, TC_SV("complex")), (int64_t[]){0}, &re, &im);
  assert_true(re == 1 && im == 2);
  assert_int_equal(tc_tensor_list_find(&l, TC_SV("empty"))->sizes[1], 4);
  assert_null(tc_tensor_list_find(&l, TC_SV("none")));
  tc_tensor_list_free(&l);

  TC_TRY(tc_tensors_read(a, arena, DATA "plain.npz", &l));
  assert_int_equal(l.count, 3);
  for (int i = 0; i < 6; i++) assert_true(value(&l, "numbers", i / 3, i % 3) == i);
  assert_true(value(&l, "flags", 0, 0) == 1 && value(&l, "flags", 1, 0) == 0);
  assert_int_equal(tc_tensor_list_find(&l, TC_SV("empty"))->dtype, TC_I16);
  tc_tensor_list_free(&l);

  TC_TRY(tc_tensors_read(a, arena, DATA "packed.npz", &l));
  assert_int_equal(l.count, 6);
  for (int i = 0; i < 6; i++) {
    assert_true(value(&l, "numbers", i / 3, i % 3) == i && value(&l, "fortran", i / 3, i % 3) == i &&
                value(&l, "big", i / 3, i % 3) == i);
  }
  assert_int_equal(tc_tensor_list_find(&l, TC_SV("fortran"))->strides[1], 2);
  assert_int_equal(tc_tensor_list_find(&l, TC_SV("big"))->dtype, TC_F64);
  assert_true(value(&l, "scalar", 0, 0) == -5);
  assert_int_equal(tc_tensor_list_find(&l, TC_SV("zeros"))->sizes[0], 4000);
  tc_tensor_get(tc_tensor_list_find(&l, TC_SV("complex")), (int64_t[]){2}, &re, &im);
  assert_true(re == 2 && im == 5);
  tc_tensor_list_free(&l);

  tc_tensor t;
  TC_TRY(tc_npy_read(a, arena, DATA "fortran.npy", &t));
  assert_true(t.rank == 2 && t.sizes[0] == 3 && t.strides[0] == 1 && t.strides[1] == 3);
  tc_tensor_get(&t, (int64_t[]){2, 1}, &re, NULL);
  assert_true(re == 5);
  tc_tensor_unref(&t);
  TC_TRY(tc_npy_read(a, arena, DATA "bfloat16.npy", &t));
  assert_int_equal(t.dtype, TC_BF16);
  tc_tensor_get(&t, (int64_t[]){1}, &re, NULL);
  assert_true(re == -2);
  tc_tensor_unref(&t);
  return TC_OK;
}

TC_TEST_TORTURED(packed_npz_survives_short_memory) {
  tc_tensor_list l;
  TC_TRY(tc_tensors_read(tc_arena_allocator(arena), arena, DATA "packed.npz", &l));
  tc_tensor_list_free(&l);
  return TC_OK;
}

static tc_status parse_npy_header(tc_arena *arena, int version, const char *text, size_t data, tc_tensor *out) {
  tc_storage *s;
  const size_t n = strlen(text), fixed = version == 1 ? 10 : 12;
  TC_TRY(tc_storage_create(tc_arena_allocator(arena), fixed + n + data, &s));
  uint8_t *p = s->data;
  memset(p, 0, s->size);
  memcpy(p, "\x93NUMPY", 6);
  p[6] = (uint8_t)version;
  p[8] = (uint8_t)n, p[9] = (uint8_t)(n >> 8);
  memcpy(p + fixed, text, n);
  tc_status status = tc_npy_parse(tc_arena_allocator(arena), arena, s, 0, s->size, out);
  tc_storage_unref(s);
  return status;
}

TC_TEST(npy_headers) {
  static const struct {
    const char *text;
    size_t data;
    int32_t code, version;
    const char *message;
  } rows[] = {
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24, 0, 1, ""},
      {"{'shape': (2L, 3L), \"descr\": \"<f4\", 'fortran_order': True}  \n", 24, 0, 2, ""},
      {"{'descr': '>i2', 'fortran_order': False, 'shape': (3,)}", 6, 0, 3, ""},
      {"{'descr': '|b1', 'fortran_order': False, 'shape': ()}", 1, 0, 1, ""},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 23, TC_STATUS_DATA_LOSS, 1, "23 bytes"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 25, TC_STATUS_DATA_LOSS, 1, "25 bytes"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24, TC_STATUS_UNIMPLEMENTED, 4, "version 4.0"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3)}", 12, TC_STATUS_DATA_LOSS, 1, "no tuple"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}", 12, TC_STATUS_DATA_LOSS, 1, "tuple of sizes"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,,)}", 12, TC_STATUS_DATA_LOSS, 1, "tuple of sizes"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3", 12, TC_STATUS_DATA_LOSS, 1, "tuple of sizes"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", 12, TC_STATUS_DATA_LOSS, 1,
       "tuple of sizes"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", 12, TC_STATUS_OUT_OF_RANGE, 1,
       "63 bits"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}", 4,
       TC_STATUS_INVALID_ARGUMENT, 1, "dimensions"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}", 4,
       TC_STATUS_INVALID_ARGUMENT, 1, "dimensions"},
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}", 12, TC_STATUS_DATA_LOSS, 1, "bool"},
      {"{'descr': '<f4', 'shape': (3,)}", 12, TC_STATUS_DATA_LOSS, 1, "lacks"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", 12, TC_STATUS_DATA_LOSS, 1,
       "repeated"},
      {"{'what': '<f4', 'fortran_order': False, 'shape': (3,)}", 12, TC_STATUS_DATA_LOSS, 1, "unknown"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} x", 12, TC_STATUS_DATA_LOSS, 1, "after the dict"},
      {"{'descr': '<U4', 'fortran_order': False, 'shape': (3,)}", 48, TC_STATUS_UNIMPLEMENTED, 1, "'<U4'"},
      {"{'descr': '', 'fortran_order': False, 'shape': (3,)}", 48, TC_STATUS_UNIMPLEMENTED, 1, "''"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}", 12, TC_STATUS_UNIMPLEMENTED, 1,
       "structured"},
      {"{'descr", 12, TC_STATUS_DATA_LOSS, 1, "dict"},
      {"", 12, TC_STATUS_DATA_LOSS, 1, "dict"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tc_tensor t;
    tc_status s = parse_npy_header(arena, rows[i].version, rows[i].text, rows[i].data, &t);
    if (tc_status_code(s) != rows[i].code || (s && !strstr(tc_status_text(s), rows[i].message)))
      fail_msg("row %d: %s", (int)i, tc_status_text(s));
    tc_status_free(s);
    tc_tensor_unref(&t);
  }
  return TC_OK;
}

TC_TEST(writers_refuse) {
  tc_tensor_list l = {TC_NEW_ARRAY(arena, tc_named_tensor, 2), 2};
  for (int i = 0; i < 2; i++) {
    l.items[i].name = TC_SV("same");
    TC_TRY(tc_tensor_create(tc_arena_allocator(arena), TC_F32, 0, NULL, &l.items[i].tensor));
  }
  const char *st = scratch(arena, "refused.safetensors"), *npz = scratch(arena, "refused.npz");
  assert_error(tc_tensors_write(arena, st, &l), TC_STATUS_INVALID_ARGUMENT, "'same' is taken");
  assert_error(tc_tensors_write(arena, npz, &l), TC_STATUS_INVALID_ARGUMENT, "named 'same'");
  l.items[1].name = TC_SV("__metadata__");
  assert_error(tc_tensors_write(arena, st, &l), TC_STATUS_INVALID_ARGUMENT, "taken");
  l.items[1].name = TC_SV("../up");
  assert_error(tc_tensors_write(arena, npz, &l), TC_STATUS_DATA_LOSS, "leaves the archive");
  assert_error(tc_tensors_write(arena, "x.pkl", &l), TC_STATUS_INVALID_ARGUMENT, "'x.pkl'");
  assert_error(tc_tensors_write(arena, "/nowhere/x.npz", &(tc_tensor_list){0}), TC_STATUS_NOT_FOUND, "/nowhere/x.npz");
  tc_tensor_list back;
  assert_error(tc_tensors_read(tc_arena_allocator(arena), arena, "/nowhere/x.npz", &back), TC_STATUS_NOT_FOUND,
               "/nowhere/x.npz");
  assert_error(tc_tensors_read(tc_arena_allocator(arena), arena, "x.pt", &back), TC_STATUS_INVALID_ARGUMENT, "x.pt");
  assert_false(tc_file_exists(st) || tc_file_exists(npz));
  tc_tensor_list_free(&l);
  return TC_OK;
}

TC_TEST(slices_stay_inside) {
  const tc_allocator *a = tc_arena_allocator(arena);
  tc_storage *s, *t;
  TC_TRY(tc_storage_create(a, 100, &s));
  assert_error(tc_storage_slice(a, s, 101, 0, 1, &t), TC_STATUS_OUT_OF_RANGE, "100 bytes");
  assert_error(tc_storage_slice(a, s, 99, 2, 1, &t), TC_STATUS_OUT_OF_RANGE, "100 bytes");
  assert_error(tc_storage_slice(a, s, 1, SIZE_MAX, 1, &t), TC_STATUS_OUT_OF_RANGE, "100 bytes");
  TC_TRY(tc_storage_slice(a, s, 100, 0, 64, &t));
  tc_storage_unref(t);
  TC_TRY(tc_storage_slice(a, s, 64, 36, 64, &t));
  assert_ptr_equal(t->data, (uint8_t *)s->data + 64);
  tc_storage_unref(t);
  TC_TRY(tc_storage_slice(a, s, 8, 36, 64, &t));
  assert_ptr_not_equal(t->data, (uint8_t *)s->data + 8);
  tc_storage_unref(t);
  tc_storage_unref(s);
  return TC_OK;
}

static int64_t resident_file_pages(void) {
  long long size = 0, resident = 0, shared = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f || fscanf(f, "%lld %lld %lld", &size, &resident, &shared) != 3) fail_msg("no /proc/self/statm");
  fclose(f);
  return shared;
}

TC_TEST(forgotten_files_are_read_again) {
  enum { BYTES = 4 << 20, FIRST = 100000, PART = 3 << 20 };
  const tc_allocator *a = tc_arena_allocator(arena);
  const char *path = scratch(arena, "forgotten");
  uint8_t *bytes = tc_arena_alloc(arena, BYTES);
  uint64_t seed = tc_test_seed();
  for (int64_t i = 0; i < BYTES; i++) bytes[i] = (uint8_t)tc_test_random(&seed);
  TC_TRY(tc_file_write(path, bytes, BYTES));
  tc_storage *file, *part, *own;
  TC_TRY(tc_storage_map(a, path, &file));
  TC_TRY(tc_storage_slice(a, file, FIRST, PART, 1, &part));
  TC_TRY(tc_storage_create(a, 100, &own));
  memset(own->data, 7, 100);
  assert_memory_equal(file->data, bytes, BYTES);
  int64_t before = resident_file_pages();
  tc_storage_forget(part);
  tc_storage_forget(own); // is no file's
  assert_true(before - resident_file_pages() >= PART / 65536);
  assert_memory_equal(file->data, bytes, BYTES);
  assert_int_equal(((uint8_t *)own->data)[99], 7);
  tc_storage_unref(own), tc_storage_unref(part), tc_storage_unref(file);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(forgotten_files_are_read_again),
      cmocka_unit_test(safetensors_round_trip),
      cmocka_unit_test(npz_round_trip),
      cmocka_unit_test(npy_round_trip),
      cmocka_unit_test(suffixes_are_undone),
      cmocka_unit_test(misaligned_data_is_copied),
      cmocka_unit_test(malformed_safetensors_are_refused),
      cmocka_unit_test(damaged_files_never_crash),
      cmocka_unit_test(files_of_other_writers),
      cmocka_unit_test(packed_npz_survives_short_memory),
      cmocka_unit_test(npy_headers),
      cmocka_unit_test(writers_refuse),
      cmocka_unit_test(slices_stay_inside),
  };
  return TC_RUN(tests);
}
