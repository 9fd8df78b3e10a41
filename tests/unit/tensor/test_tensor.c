// Tensors: shapes, bounds, copies between every pair of dtypes, printing, fills.
#include <math.h>
#include <pthread.h>

#include "core/tensor/tensor.h"
#include "tests/unit/unit.h"

static tc_tensor make(tc_arena *arena, tc_dtype d, int32_t rank, const int64_t *sizes) {
  tc_tensor t;
  assert_ok(tc_tensor_create(tc_arena_allocator(arena), d, rank, sizes, &t));
  return t;
}

static bool next(const tc_tensor *t, int64_t *index) {
  for (int32_t i = t->rank - 1; i >= 0; i--) {
    if (++index[i] < t->sizes[i]) return true;
    index[i] = 0;
  }
  return false;
}

TC_TEST_TORTURED(create_and_release) {
  const tc_allocator *a = tc_arena_allocator(arena);
  tc_tensor t, u;
  TC_TRY(tc_tensor_create(a, TC_F32, 3, (int64_t[]){2, 3, 4}, &t));
  assert_int_equal((uintptr_t)tc_tensor_data(&t) % 64, 0);
  assert_int_equal(t.storage->size, 96);
  assert_int_equal(t.strides[0], 12);
  assert_true(tc_tensor_is_contiguous(&t));
  u = tc_tensor_ref(&t);
  tc_tensor_unref(&t);
  assert_null(t.storage);
  assert_int_equal(u.storage->refs, 1);
  tc_tensor_unref(&u);
  TC_TRY(tc_tensor_create(a, TC_C128, 0, NULL, &t));
  assert_int_equal(tc_tensor_numel(&t), 1);
  tc_tensor_unref(&t);
  TC_TRY(tc_tensor_create(a, TC_F64, 3, (int64_t[]){2, 0, 3}, &t)); // strides as PyTorch has them
  assert_true(t.strides[0] == 3 && t.strides[1] == 3 && t.strides[2] == 1 && t.storage->size == 0);
  assert_int_equal(tc_tensor_numel(&t), 0);
  tc_tensor_unref(&t);
  TC_TRY(tc_tensor_create_strided(a, TC_I16, 2, (int64_t[]){3, 4}, (int64_t[]){1, 10}, &t));
  assert_int_equal(t.storage->size, 2 * (2 + 30 + 1));
  assert_false(tc_tensor_is_contiguous(&t));
  tc_tensor_unref(&t);
  TC_TRY(tc_tensor_create_strided(a, TC_F32, 2, (int64_t[]){1000, 1000}, (int64_t[]){0, 0}, &t));
  assert_int_equal(t.storage->size, 4);
  assert_int_equal(tc_tensor_numel(&t), 1000000);
  tc_tensor_unref(&t);
  return TC_OK;
}

TC_TEST(bad_shapes_are_refused) {
  const tc_allocator *a = tc_arena_allocator(arena);
  int64_t many[20] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const int64_t huge = INT64_C(1) << 40;
  tc_tensor t;
  assert_error(tc_tensor_create(a, TC_F32, 17, many, &t), TC_STATUS_INVALID_ARGUMENT, "rank 17");
  assert_error(tc_tensor_create(a, TC_F32, -1, many, &t), TC_STATUS_INVALID_ARGUMENT, "rank -1");
  assert_error(tc_tensor_create(a, 99, 1, many, &t), TC_STATUS_INVALID_ARGUMENT, "dtype");
  assert_error(tc_tensor_create(a, TC_F32, 1, (int64_t[]){-2}, &t), TC_STATUS_INVALID_ARGUMENT, "negative");
  assert_error(tc_tensor_create(a, TC_U8, 2, (int64_t[]){huge, huge}, &t), TC_STATUS_OUT_OF_RANGE, "63 bits");
  assert_error(tc_tensor_create(a, TC_F64, 2, (int64_t[]){huge, 1 << 21}, &t), TC_STATUS_OUT_OF_RANGE, "63 bits");
  assert_error(tc_tensor_create(a, TC_F64, 1, (int64_t[]){INT64_MAX}, &t), TC_STATUS_OUT_OF_RANGE, "63 bits");
  assert_error(tc_tensor_create_strided(a, TC_F64, 1, (int64_t[]){3}, (int64_t[]){-1}, &t), TC_STATUS_INVALID_ARGUMENT,
               "negative");
  assert_error(tc_tensor_create_strided(a, TC_U8, 2, (int64_t[]){3, 3}, (int64_t[]){INT64_MAX / 2, INT64_MAX / 2}, &t),
               TC_STATUS_OUT_OF_RANGE, "63 bits");
  assert_null(t.storage);

  tc_storage *s;
  TC_TRY(tc_storage_create(a, 100, &s));
  static const struct {
    int64_t size, stride, offset;
    bool ok;
  } rows[] = {
      {25, 1, 0, true},         {26, 1, 0, false},        {25, 1, 1, false},           {13, 2, 0, true},
      {13, 2, 1, false},        {25, -1, 24, true},       {25, -1, 23, false},         {3, -5, 10, true},
      {3, -5, 9, false},        {1000, 0, 24, true},      {1000, 0, 25, false},        {1, 99, 0, true},
      {0, 1, 1000, true},       {0, 1, -1, false},        {1, 1, -1, false},           {2, INT64_MAX, 0, false},
      {2, INT64_MIN, 0, false}, {2, INT64_MAX, 1, false}, {INT64_MAX, 1, 0, false},    {INT64_MAX, INT64_MAX, 0, false},
      {1, 1, INT64_MAX, false}, {0, 1, INT64_MAX, false}, {1, 1, INT64_MAX / 4, false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tc_status got = tc_tensor_view(s, TC_F32, 1, &rows[i].size, &rows[i].stride, rows[i].offset, &t);
    if ((got == TC_OK) != rows[i].ok) fail_msg("row %d: %s", (int)i, tc_status_text(got));
    if (got) assert_int_equal(tc_status_code(got), TC_STATUS_OUT_OF_RANGE);
    tc_status_free(got);
    tc_tensor_unref(&t);
  }
  assert_int_equal(s->refs, 1);
  tc_storage_unref(s);
  tc_storage_unref(NULL);
  return TC_OK;
}

static void count_release(void *owner, void *data) {
  assert_string_equal(data, "data");
  ++*(int *)owner;
}

TC_TEST(wrapped_storages_release_once) {
  char data[] = "data";
  int released = 0;
  tc_storage *s;
  TC_TRY(tc_storage_wrap(tc_arena_allocator(arena), data, 5, count_release, &released, &s));
  tc_tensor t, u;
  TC_TRY(tc_tensor_view(s, TC_U8, 1, (int64_t[]){2}, (int64_t[]){1}, 1, &t));
  tc_storage_unref(s);
  assert_int_equal(*(char *)tc_tensor_data(&t), 'a');
  u = tc_tensor_ref(&t);
  tc_tensor_unref(&t);
  assert_int_equal(released, 0);
  tc_tensor_unref(&u);
  assert_int_equal(released, 1);
  return TC_OK;
}

static void *take_and_drop(void *arg) {
  for (int i = 0; i < 100000; i++) {
    tc_storage_ref(arg);
    tc_storage_unref(arg);
  }
  tc_storage_unref(arg);
  return NULL;
}

TC_TEST(reference_counts_are_atomic) {
  char data[] = "data";
  int released = 0;
  tc_storage *s;
  pthread_t threads[4];
  TC_TRY(tc_storage_wrap(tc_arena_allocator(arena), data, 5, count_release, &released, &s));
  for (int i = 0; i < 4; i++) {
    tc_storage_ref(s);
    assert_int_equal(pthread_create(&threads[i], NULL, take_and_drop, s), 0);
  }
  tc_storage_unref(s);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  assert_int_equal(released, 1);
  return TC_OK;
}

// ---- copies

static double narrowed(tc_dtype real, double v) {
  switch (real) {
  case TC_F16: return tc_f16_to_f32(tc_f64_to_f16(v));
  case TC_BF16: return tc_bf16_to_f32(tc_f64_to_bf16(v));
  case TC_F32: return (float)v;
  default: return v;
  }
}

static int64_t wrapped(tc_dtype d, int64_t v) {
  switch (d) {
  case TC_BOOL: return v != 0;
  case TC_U8: return (uint8_t)v;
  case TC_I8: return (int8_t)v;
  case TC_U16: return (uint16_t)v;
  case TC_I16: return (int16_t)v;
  case TC_U32: return (uint32_t)v;
  case TC_I32: return (int32_t)v;
  default: return v;
  }
}

// A tensor with shuffled strides, gaps, and an offset.
static tc_tensor make_shuffled(tc_arena *arena, tc_dtype d, int32_t rank, const int64_t *sizes, uint64_t *seed) {
  int64_t strides[TC_MAX_RANK], step = 1 + (int64_t)(tc_test_random(seed) % 2), span = 1;
  int32_t order[TC_MAX_RANK];
  for (int32_t i = 0; i < rank; i++) order[i] = i;
  for (int32_t i = rank - 1; i > 0; i--) {
    const int32_t j = (int32_t)(tc_test_random(seed) % (uint64_t)(i + 1)), k = order[i];
    order[i] = order[j], order[j] = k;
  }
  for (int32_t i = 0; i < rank; i++) {
    strides[order[i]] = step;
    step = step * sizes[order[i]] + (int64_t)(tc_test_random(seed) % 3);
    if (sizes[order[i]] == 0) step = 1;
  }
  for (int32_t i = 0; i < rank; i++) span += sizes[i] > 0 ? (sizes[i] - 1) * strides[i] : 0;
  int64_t offset = (int64_t)(tc_test_random(seed) % 4);
  tc_storage *s;
  tc_tensor t;
  assert_ok(tc_storage_create(tc_arena_allocator(arena), (size_t)(span + offset) * (size_t)tc_dtype_size(d), &s));
  for (int32_t i = 0; i < rank; i++) { // some dimensions run backwards
    if (sizes[i] < 2 || tc_test_random(seed) % 4) continue;
    offset += (sizes[i] - 1) * strides[i];
    strides[i] = -strides[i];
  }
  assert_ok(tc_tensor_view(s, d, rank, sizes, strides, offset, &t));
  tc_storage_unref(s);
  return t;
}

static void check_copied(const tc_tensor *src, const tc_tensor *dst) {
  int64_t index[TC_MAX_RANK] = {0};
  for (bool more = tc_tensor_numel(src) > 0; more; more = next(src, index)) {
    const bool from_int = src->dtype < TC_F16, to_int = dst->dtype < TC_F16;
    double re, im, got_re, got_im;
    tc_tensor_get(src, index, &re, &im);
    tc_tensor_get(dst, index, &got_re, &got_im);
    if (to_int) {
      const int64_t v = from_int                ? tc_tensor_get_int(src, index)
                        : dst->dtype == TC_BOOL ? re != 0 || im != 0
                                                : (int64_t)re;
      const int64_t want = wrapped(dst->dtype, v), got = wrapped(dst->dtype, tc_tensor_get_int(dst, index));
      if (want != got)
        fail_msg("%s to %s: %lld instead of %lld", tc_dtype_name(src->dtype), tc_dtype_name(dst->dtype), (long long)got,
                 (long long)want);
    } else {
      const tc_dtype real = tc_dtype_real(dst->dtype);
      const double want_im = tc_dtype_is_complex(dst->dtype) ? narrowed(real, im) : 0;
      if (narrowed(real, re) != got_re || want_im != got_im)
        fail_msg("%s to %s: %g%+gi instead of %g%+gi", tc_dtype_name(src->dtype), tc_dtype_name(dst->dtype), got_re,
                 got_im, re, im);
    }
  }
}

TC_TEST(copies_between_all_dtypes) {
  uint64_t seed = tc_test_seed();
  for (tc_dtype from = 1; from < TC_DTYPE_COUNT; from++) {
    for (tc_dtype to = 1; to < TC_DTYPE_COUNT; to++) {
      for (int round = 0; round < 6; round++) {
        int64_t sizes[5];
        const int32_t rank = (int32_t)(tc_test_random(&seed) % 6);
        for (int32_t i = 0; i < rank; i++) sizes[i] = (int64_t)(tc_test_random(&seed) % 8) - (i > 1 ? 1 : 0);
        for (int32_t i = 0; i < rank; i++) sizes[i] = sizes[i] < 0 ? 1 : sizes[i];
        if (rank == 1) sizes[0] += 300; // beyond one row of the converter
        tc_tensor src = make_shuffled(arena, from, rank, sizes, &seed),
                  dst = make_shuffled(arena, to, rank, sizes, &seed);
        src.neg = from != TC_BOOL && tc_test_random(&seed) % 3 == 0;
        dst.neg = to != TC_BOOL && tc_test_random(&seed) % 3 == 0;
        src.conj = tc_dtype_is_complex(from) && tc_test_random(&seed) % 2;
        dst.conj = tc_dtype_is_complex(to) && tc_test_random(&seed) % 2;
        if (from < TC_F16) tc_tensor_fill_uniform_int(&tc_executor_serial, &src, tc_test_random(&seed), -100, 100);
        else tc_tensor_fill_normal(&tc_executor_serial, &src, tc_test_random(&seed), 0, 40);
        assert_ok(tc_tensor_copy(&src, &dst));
        check_copied(&src, &dst);
        tc_tensor_unref(&src);
        tc_tensor_unref(&dst);
      }
    }
  }
  return TC_OK;
}

TC_TEST(copies_of_special_values) {
  const int64_t three[] = {3};
  tc_tensor f = make(arena, TC_F64, 1, three), i = make(arena, TC_I64, 1, three), u = make(arena, TC_U64, 1, three),
            s = make(arena, TC_F32, 1, three), b = make(arena, TC_BOOL, 1, three), i8 = make(arena, TC_I8, 1, three);
  memcpy(f.storage->data, (double[]){NAN, 1e30, -1e30}, 24);
  TC_TRY(tc_tensor_copy(&f, &i));
  TC_TRY(tc_tensor_copy(&f, &b));
  for (int k = 0; k < 3; k++) {
    assert_true(((int64_t *)i.storage->data)[k] == INT64_MIN);
    assert_int_equal(((uint8_t *)b.storage->data)[k], 1);
  }
  memcpy(f.storage->data, (double[]){0x1p63, 1.8e19, -1.5}, 24); // unsigned beyond the signed range; towards zero
  TC_TRY(tc_tensor_copy(&f, &u));
  assert_true(((uint64_t *)u.storage->data)[0] == UINT64_C(1) << 63);
  assert_true(((uint64_t *)u.storage->data)[1] == UINT64_C(18000000000000000000));
  assert_true(((uint64_t *)u.storage->data)[2] == UINT64_MAX);
  memcpy(u.storage->data, (uint64_t[]){UINT64_MAX, UINT64_C(1) << 63, 5}, 24);
  TC_TRY(tc_tensor_copy(&u, &f));
  assert_true(((double *)f.storage->data)[0] == 0x1p64 && ((double *)f.storage->data)[1] == 0x1p63);
  // One rounding from int64 to f32: through f64 this would be a tie to even downwards.
  memcpy(i.storage->data, (int64_t[]){(INT64_C(1) << 60) + (INT64_C(1) << 36) + 1, INT64_MAX, -7}, 24);
  TC_TRY(tc_tensor_copy(&i, &s));
  assert_true(((float *)s.storage->data)[0] == 0x1p60f + 0x1p37f);
  memcpy(i.storage->data, (int64_t[]){300, -129, 128}, 24);
  TC_TRY(tc_tensor_copy(&i, &i8));
  assert_memory_equal(i8.storage->data, ((int8_t[]){44, 127, -128}), 3);
  i.neg = true; // exact where doubles are not
  memcpy(i.storage->data, (int64_t[]){INT64_MAX, INT64_MIN, 3}, 24);
  TC_TRY(tc_tensor_copy(&i, &u));
  assert_true(((int64_t *)u.storage->data)[0] == -INT64_MAX && ((int64_t *)u.storage->data)[1] == INT64_MIN);
  tc_tensor *all[] = {&f, &i, &u, &s, &b, &i8};
  for (int k = 0; k < 6; k++) tc_tensor_unref(all[k]);
  return TC_OK;
}

TC_TEST(signs_and_nans_survive_plain_copies) {
  tc_tensor a = make(arena, TC_F16, 2, (int64_t[]){256, 256}), b, c;
  for (uint32_t i = 0; i < 65536; i++) ((uint16_t *)a.storage->data)[i] = (uint16_t)i;
  b = make(arena, TC_F16, 2, (int64_t[]){256, 256});
  c = a; // transposed there and back
  c.strides[0] = 1, c.strides[1] = 256;
  TC_TRY(tc_tensor_copy(&c, &b));
  assert_int_equal(((uint16_t *)b.storage->data)[1], 256);
  c = b;
  c.strides[0] = 1, c.strides[1] = 256;
  tc_tensor d;
  TC_TRY(tc_tensor_contiguous(tc_arena_allocator(arena), &c, &d));
  assert_memory_equal(a.storage->data, d.storage->data, 131072);
  tc_tensor_unref(&a);
  tc_tensor_unref(&b);
  tc_tensor_unref(&d);
  return TC_OK;
}

TC_TEST_TORTURED(contiguous_resolves) {
  const tc_allocator *a = tc_arena_allocator(arena);
  tc_tensor t, u;
  TC_TRY(tc_tensor_create(a, TC_C64, 1, (int64_t[]){2}, &t));
  memcpy(t.storage->data, (float[]){1, 2, -0.0f, 4}, 16);
  tc_status s = tc_tensor_contiguous(a, &t, &u);
  if (s == TC_OK) {
    assert_ptr_equal(u.storage, t.storage);
    tc_tensor_unref(&u);
    t.conj = true;
    s = tc_tensor_contiguous(a, &t, &u);
  }
  if (s == TC_OK) {
    assert_memory_equal(u.storage->data, ((float[]){1, -2, -0.0f, -4}), 16);
    tc_tensor_unref(&u);
    t.neg = true;
    s = tc_tensor_contiguous(a, &t, &u);
  }
  if (s == TC_OK) {
    assert_memory_equal(u.storage->data, ((float[]){-1, 2, 0, 4}), 16);
    assert_false(u.conj || u.neg);
    tc_tensor_unref(&u);
  }
  tc_tensor_unref(&t);
  return s;
}

TC_TEST(copies_refuse_what_does_not_match) {
  tc_tensor a = make(arena, TC_F32, 2, (int64_t[]){2, 3}), b = make(arena, TC_F32, 2, (int64_t[]){3, 2}),
            c = make(arena, TC_F32, 1, (int64_t[]){6});
  assert_error(tc_tensor_copy(&a, &b), TC_STATUS_INVALID_ARGUMENT, "size 2 into size 3 in dimension 0");
  assert_error(tc_tensor_copy(&a, &c), TC_STATUS_INVALID_ARGUMENT, "rank 2 into one of rank 1");
  b.storage->device = 1;
  b.sizes[0] = 2, b.sizes[1] = 3;
  assert_error(tc_tensor_copy(&a, &b), TC_STATUS_INVALID_ARGUMENT, "device");
  tc_tensor huge;
  const int64_t sizes[] = {INT64_C(1) << 40, INT64_C(1) << 40}, none[] = {0, 0};
  TC_TRY(tc_tensor_create_strided(tc_arena_allocator(arena), TC_F32, 2, sizes, none, &huge));
  assert_error(tc_tensor_copy(&huge, &huge), TC_STATUS_OUT_OF_RANGE, "elements");
  tc_tensor_unref(&huge);
  tc_tensor_unref(&a);
  tc_tensor_unref(&b);
  tc_tensor_unref(&c);
  return TC_OK;
}

// ---- printing and fills

static void check_print(tc_arena *arena, const tc_tensor *t, int32_t most, const char *want) {
  tc_sb sb = tc_sb_make(arena);
  tc_tensor_print(&sb, TC_SV("x"), t, most);
  assert_sv(tc_sb_view(&sb), want);
}

TC_TEST(prints_for_people) {
  tc_tensor f = make(arena, TC_F32, 2, (int64_t[]){2, 2});
  memcpy(f.storage->data, (float[]){0.1f, -2, INFINITY, 1e-20f}, 16);
  check_print(arena, &f, 10, "x: f32[2, 2] [0.1, -2.0, inf, 1e-20]");
  check_print(arena, &f, 2, "x: f32[2, 2] [0.1, -2.0, …]");
  check_print(arena, &f, 0, "x: f32[2, 2] […]");
  f.strides[0] = 1, f.strides[1] = 2;
  f.neg = true;
  check_print(arena, &f, 2, "x: f32[2, 2] strides [1, 2] neg [-0.1, -inf, …]");
  tc_tensor c = make(arena, TC_C32, 0, NULL);
  memcpy(c.storage->data, (uint16_t[]){tc_f32_to_f16(1.5f), tc_f32_to_f16(-0.1f)}, 4);
  check_print(arena, &c, 3, "x: c32[] [1.5-0.1j]");
  c.conj = true;
  check_print(arena, &c, 3, "x: c32[] conj [1.5+0.1j]");
  tc_tensor u = make(arena, TC_U64, 1, (int64_t[]){1}), b = make(arena, TC_BOOL, 1, (int64_t[]){2}),
            e = make(arena, TC_I8, 1, (int64_t[]){0});
  memset(u.storage->data, 0xff, 8);
  memcpy(b.storage->data, (uint8_t[]){0, 1}, 2);
  check_print(arena, &u, 3, "x: u64[1] [18446744073709551615]");
  check_print(arena, &b, 3, "x: bool[2] [false, true]");
  check_print(arena, &e, 3, "x: i8[0] []");
  tc_tensor *all[] = {&f, &c, &u, &b, &e};
  for (int k = 0; k < 5; k++) tc_tensor_unref(all[k]);
  return TC_OK;
}

TC_TEST(fills_have_their_moments) {
  const int64_t n = 200000;
  for (int i = 0; i < 4; i++) {
    const int k = i & 1;
    static const tc_dtype dtypes[] = {TC_F64, TC_C128, TC_F32, TC_C64};
    tc_tensor t = make(arena, dtypes[i], 1, &n);
    tc_tensor_fill_normal(&tc_executor_serial, &t, tc_test_seed(), 3, 2);
    double sum = 0, square = 0, cube = 0, fourth = 0, im_square = 0, cross = 0;
    for (int64_t j = 0; j < n; j++) {
      double re, im;
      tc_tensor_get(&t, &j, &re, &im);
      re = (re - 3) / 2, im /= 2;
      sum += re, square += re * re, cube += re * re * re, fourth += re * re * re * re, im_square += im * im,
          cross += re * im;
    }
    const double var = k ? 0.5 : 1, tolerance = 6 / sqrt((double)n); // six standard errors of the mean
    assert_true(fabs(sum / (double)n) < tolerance);
    assert_true(fabs(square / (double)n - var) < 1.5 * tolerance);
    assert_true(fabs(cube / (double)n) < 4 * tolerance);
    assert_true(fabs(fourth / (double)n - 3 * var * var) < 10 * tolerance);
    if (k) assert_true(fabs(im_square / (double)n - var) < 1.5 * tolerance && fabs(cross / (double)n) < tolerance);
    tc_tensor_unref(&t);
  }
  return TC_OK;
}

TC_TEST(fills_are_the_same_everywhere) {
  // The first block of Philox4x32-10 under key and counter 0 is 6627e8d5 e169c58d bc57ac4c 9b00dbd8 (Random123's
  // known answers). The draw of the widest range is the first two words times (2^64-1) / 2^64.
  const int64_t n = 1, zero = 0;
  tc_tensor i = make(arena, TC_I64, 1, &n), f = make(arena, TC_F64, 1, &n);
  tc_tensor_fill_uniform_int(&tc_executor_serial, &i, 0, INT64_MIN, INT64_MAX);
  assert_true((uint64_t)tc_tensor_get_int(&i, &zero) + (UINT64_C(1) << 63) == UINT64_C(0x6627e8d5e169c58d) - 1);
  tc_tensor_fill_normal(&tc_executor_serial, &f, 0, 0, 1);
  const double u = (double)(UINT64_C(0x6627e8d5e169c58d) >> 11) * 0x1p-53,
               v = (double)(UINT64_C(0xbc57ac4c9b00dbd8) >> 11) * 0x1p-53;
  double got;
  tc_tensor_get(&f, &zero, &got, NULL);
  const double want = sqrt(-2 * log1p(-u)) * cos(6.283185307179586 * v);
  assert_true(fabs(got - want) < 1e-14);
  tc_tensor_unref(&i);
  tc_tensor_unref(&f);
  // Single precision makes four from a counter: a radius from one word, a direction from the next, twice.
  const int64_t four = 4;
  const uint32_t words[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  tc_tensor s = make(arena, TC_F32, 1, &four);
  tc_tensor_fill_normal(&tc_executor_serial, &s, 0, 0, 1);
  for (int64_t k = 0; k < four; k++) {
    const double radius = sqrt(-2 * log(words[k & 2] * 0x1p-32)), turn = 6.283185307179586 * 0x1p-32 * words[k | 1];
    tc_tensor_get(&s, &k, &got, NULL);
    assert_true(fabs(got - radius * (k & 1 ? sin(turn) : cos(turn))) < 1e-6);
  }
  tc_tensor_unref(&s);

  uint64_t seed = tc_test_seed();
  const int64_t sizes[] = {7, 5, 6};
  for (tc_dtype d = 1; d < TC_DTYPE_COUNT; d++) { // strides and lazy bits do not change what is read back
    tc_tensor a = make(arena, d, 3, sizes), b = make_shuffled(arena, d, 3, sizes, &seed);
    b.neg = d != TC_BOOL, b.conj = tc_dtype_is_complex(d);
    for (int k = 0; k < 2; k++) {
      if (k)
        tc_tensor_fill_uniform_int(&tc_executor_serial, &a, 11, -3, 9),
            tc_tensor_fill_uniform_int(&tc_executor_serial, &b, 11, -3, 9);
      else
        tc_tensor_fill_normal(&tc_executor_serial, &a, 11, 0, 4),
            tc_tensor_fill_normal(&tc_executor_serial, &b, 11, 0, 4);
      int64_t index[3] = {0};
      do {
        double ar, ai, br, bi;
        tc_tensor_get(&a, index, &ar, &ai);
        tc_tensor_get(&b, index, &br, &bi);
        assert_true(ar == br && ai == bi);
        if (k && d >= TC_I8 && d <= TC_I64) assert_true(ar >= -3 && ar < 9);
      } while (next(&a, index));
    }
    tc_tensor_unref(&a);
    tc_tensor_unref(&b);
  }
  return TC_OK;
}

// Threads share the blocks; sizes around a block's end, and offsets of parts, must not matter.
TC_TEST(fills_do_not_depend_on_threads) {
  uint64_t seed = tc_test_seed();
  tc_executor pool;
  TC_TRY(tc_executor_pthread(3, &pool));
  for (tc_dtype d = 1; d < TC_DTYPE_COUNT; d++) {
    const int64_t sizes[] = {300 + (int64_t)(tc_test_random(&seed) % 3), 257};
    for (int k = 0; k < 2; k++) {
      tc_tensor a = make(arena, d, 2, sizes), b = make(arena, d, 2, sizes);
      const tc_executor *e[] = {&tc_executor_serial, &pool};
      for (int i = 0; i < 2; i++) {
        if (k) tc_tensor_fill_uniform_int(e[i], i ? &b : &a, seed, -3, 100);
        else tc_tensor_fill_normal(e[i], i ? &b : &a, seed, 1, 2);
      }
      const size_t bytes = (size_t)(tc_tensor_numel(&a) * tc_dtype_size(d));
      assert_memory_equal(tc_tensor_data(&a), tc_tensor_data(&b), bytes);
      tc_tensor_unref(&a);
      tc_tensor_unref(&b);
    }
  }
  tc_executor_destroy(&pool);
  return TC_OK;
}

TC_TEST(uniform_ints_cover_their_range) {
  const int64_t n = 60000;
  int64_t seen[6] = {0};
  tc_tensor t = make(arena, TC_I32, 1, &n);
  tc_tensor_fill_uniform_int(&tc_executor_serial, &t, tc_test_seed(), -2, 4);
  for (int64_t i = 0; i < n; i++) {
    const int64_t v = tc_tensor_get_int(&t, &i);
    assert_true(v >= -2 && v < 4);
    seen[v + 2]++;
  }
  for (int k = 0; k < 6; k++) assert_true(llabs(seen[k] - 10000) < 600);
  tc_tensor_fill_uniform_int(&tc_executor_serial, &t, 1, 5, 5);
  assert_int_equal(tc_tensor_get_int(&t, (int64_t[]){77}), 5);
  tc_tensor_unref(&t);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(create_and_release),
      cmocka_unit_test(bad_shapes_are_refused),
      cmocka_unit_test(wrapped_storages_release_once),
      cmocka_unit_test(reference_counts_are_atomic),
      cmocka_unit_test(copies_between_all_dtypes),
      cmocka_unit_test(copies_of_special_values),
      cmocka_unit_test(signs_and_nans_survive_plain_copies),
      cmocka_unit_test(contiguous_resolves),
      cmocka_unit_test(copies_refuse_what_does_not_match),
      cmocka_unit_test(prints_for_people),
      cmocka_unit_test(fills_have_their_moments),
      cmocka_unit_test(fills_are_the_same_everywhere),
      cmocka_unit_test(fills_do_not_depend_on_threads),
      cmocka_unit_test(uniform_ints_cover_their_range),
  };
  return TC_RUN(tests);
}
