// Vectors and maps, against plain models.
#include "core/base/str.h"
#include "core/base/vec.h"
#include "tests/unit/unit.h"

TC_TEST_TORTURED(vectors_keep_order) {
  TC_VEC(int64_t) v = {0};
  for (int64_t i = 0; i < 1000; i++) tc_vec_push(arena, &v, i * i);
  assert_int_equal(v.count, 1000);
  for (int64_t i = 0; i < 1000; i++) assert_int_equal(v.data[i], i * i);
  assert_int_equal(tc_vec_last(&v), 999 * 999);
  return TC_OK;
}

TC_TEST(reserving_keeps_contents) {
  TC_VEC(char) v = {0};
  tc_vec_push(arena, &v, 'x');
  tc_vec_reserve(arena, &v, 100);
  assert_int_equal(v.capacity, 100);
  char *data = v.data;
  for (int i = 1; i < 100; i++) tc_vec_push(arena, &v, 'y');
  assert_ptr_equal(data, v.data);
  assert_int_equal(v.data[0], 'x');
  tc_vec_reserve(arena, &v, 10);
  assert_int_equal(v.capacity, 100);
  return TC_OK;
}

// Random puts and finds with few distinct keys, checked against an array.
TC_TEST(maps_agree_with_a_model) {
  enum { KEYS = 5000, STEPS = 40000 };
  int64_t *value = TC_NEW_ARRAY(arena, int64_t, KEYS), *order = TC_NEW_ARRAY(arena, int64_t, KEYS);
  tc_map_entry **entry = TC_NEW_ARRAY(arena, tc_map_entry *, KEYS);
  int32_t n = 0;
  tc_map *map = tc_map_create(arena);
  uint64_t random = tc_test_seed();
  for (int step = 0; step < STEPS; step++) {
    uint64_t r = tc_test_random(&random);
    int64_t k = (int64_t)(r % KEYS);
    char key[32];
    int size = snprintf(key, sizeof key, "key%d.%d", (int)(k % 7), (int)k);
    tc_sv sv = {key, (size_t)size};
    if (r >> 40 & 1) {
      bool is_new;
      tc_map_entry *e = tc_map_put(map, sv, &is_new);
      assert_int_equal(is_new, value[k] == 0);
      if (is_new) order[n++] = k, entry[k] = e;
      assert_ptr_equal(e, entry[k]); // entries do not move
      assert_int_equal(e->value.num, value[k]);
      e->value.num = value[k] = step + 1;
    } else {
      tc_map_entry *e = tc_map_find(map, sv);
      assert_int_equal(e != NULL, value[k] != 0);
      if (e) assert_int_equal(e->value.num, value[k]);
    }
    memset(key, 0, sizeof key); // the map has a copy
  }
  assert_int_equal(tc_map_count(map), n);
  for (int32_t i = 0; i < n; i++) assert_ptr_equal(tc_map_at(map, i), entry[order[i]]);
  return TC_OK;
}

TC_TEST_TORTURED(maps_take_integers_and_pointers) {
  tc_map *ints = tc_map_create(arena), *ptrs = tc_map_create(arena);
  int64_t keys[] = {0, -1, 1, INT64_MIN, INT64_MAX, 1ll << 32};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    tc_map_put_int(ints, keys[i], NULL)->value.num = (int64_t)i;
    tc_map_put_ptr(ptrs, &keys[i], NULL)->value.ptr = &keys[i];
  }
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    assert_int_equal(tc_map_find_int(ints, keys[i])->value.num, i);
    assert_ptr_equal(tc_map_find_ptr(ptrs, &keys[i])->value.ptr, &keys[i]);
  }
  assert_null(tc_map_find_int(ints, 7));
  assert_null(tc_map_find_ptr(ptrs, NULL));
  return TC_OK;
}

TC_TEST(keys_are_bytes) {
  tc_map *map = tc_map_create(arena);
  assert_null(tc_map_find(map, TC_SV("")));
  bool is_new;
  tc_map_put(map, TC_SV(""), &is_new)->value.num = 1;
  assert_true(is_new);
  tc_map_put(map, TC_SV("a\0b"), &is_new)->value.num = 2;
  tc_map_put(map, TC_SV("a\0c"), &is_new)->value.num = 3;
  tc_map_put(map, TC_SV("a"), &is_new)->value.num = 4;
  tc_map_put(map, (tc_sv){NULL, 0}, &is_new);
  assert_false(is_new);
  assert_int_equal(tc_map_find(map, TC_SV(""))->value.num, 1);
  assert_int_equal(tc_map_find(map, TC_SV("a\0b"))->value.num, 2);
  assert_int_equal(tc_map_find(map, TC_SV("a\0c"))->value.num, 3);
  assert_int_equal(tc_map_find(map, TC_SV("a"))->value.num, 4);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(vectors_keep_order),      cmocka_unit_test(reserving_keeps_contents),
      cmocka_unit_test(maps_agree_with_a_model), cmocka_unit_test(maps_take_integers_and_pointers),
      cmocka_unit_test(keys_are_bytes),
  };
  return TC_RUN(tests);
}
