// Pools of memory: what is reused, what is bounded, who may outlive whom.
#include <pthread.h>

#include "core/runtime/pool.h"
#include "tests/unit/unit.h"

TC_TEST(reuses_what_comes_back) {
  tc_pool *p;
  tc_pool_block *a, *b;
  tc_pool_stats stats;
  TC_TRY(tc_pool_create_host(tc_arena_allocator(arena), 1 << 20, &p));
  TC_TRY(tc_pool_take(p, 1000, &a));
  uint64_t memory = a->memory;
  assert_true(a->size >= 1000);
  assert_int_equal(memory % 64, 0);
  tc_pool_give(a);
  TC_TRY(tc_pool_take(p, a->size, &b));
  assert_int_equal(b->memory, memory);
  tc_pool_give(b);
  tc_pool_read_stats(p, &stats);
  assert_int_equal(stats.fresh, 1);
  assert_int_equal(stats.reused, 1);
  assert_int_equal(stats.taken_bytes, 0);
  tc_pool_close(p);
  return TC_OK;
}

// As they were asked for, not as classes round them; the most at once counts from the mark.
TC_TEST(counts_what_is_asked_for) {
  tc_pool *p;
  tc_pool_block *a, *b;
  tc_pool_stats stats;
  TC_TRY(tc_pool_create_host(tc_arena_allocator(arena), 1 << 20, &p));
  TC_TRY(tc_pool_take(p, 1001, &a));
  TC_TRY(tc_pool_take(p, 5, &b));
  tc_pool_give(b);
  tc_pool_read_stats(p, &stats);
  assert_int_equal(stats.asked_bytes, 1001);
  assert_int_equal(stats.most_asked, 1006);
  tc_pool_mark(p);
  TC_TRY(tc_pool_take(p, 3, &b));
  tc_pool_give(a);
  TC_TRY(tc_pool_take(p, 999, &a));
  tc_pool_read_stats(p, &stats);
  assert_int_equal(stats.reused, 2);
  assert_int_equal(stats.asked_bytes, 1002);
  assert_int_equal(stats.most_asked, 1004);
  tc_pool_give(a);
  tc_pool_give(b);
  tc_pool_read_stats(p, &stats);
  assert_int_equal(stats.asked_bytes, 0);
  tc_pool_close(p);
  return TC_OK;
}

TC_TEST(classes_waste_an_eighth_at_most) {
  uint64_t seed = tc_test_seed();
  tc_pool *p;
  TC_TRY(tc_pool_create_host(tc_arena_allocator(arena), 0, &p));
  for (int32_t i = 0; i < 500; i++) {
    int64_t size = (int64_t)(tc_test_random(&seed) % (1u << (6 + i % 14)));
    tc_pool_block *b;
    TC_TRY(tc_pool_take(p, size, &b));
    assert_true(b->size >= size);
    assert_true(b->size <= (size < 64 ? 64 : size + size / 8 + 8));
    memset((void *)(uintptr_t)b->memory, 7, (size_t)b->size);
    tc_pool_give(b);
  }
  tc_pool_close(p);
  return TC_OK;
}

// What the source gives at most is asked for where the class would be more, and is used again by all of its class.
static tc_status take_some(void *self, size_t size, uint64_t *out) {
  *(size_t *)self = size;
  *out = 64;
  return TC_OK;
}
static void take_back(void *self, uint64_t memory) { (void)self, (void)memory; }
TC_TEST(asks_for_no_more_than_the_source_gives) {
  tc_pool *p;
  tc_pool_block *b;
  size_t asked = 0;
  TC_TRY(tc_pool_create(tc_arena_allocator(arena), (tc_pool_source){&asked, take_some, take_back, 1000}, 1 << 20, &p));
  static const int64_t sizes[] = {1000, 970, 999}; // their class has 1024
  for (int32_t i = 0; i < 3; i++) {
    TC_TRY(tc_pool_take(p, sizes[i], &b));
    assert_int_equal(b->size, 1000);
    tc_pool_give(b);
  }
  assert_int_equal(asked, 1000);
  TC_TRY(tc_pool_take(p, 1001, &b)); // the source says what it thinks of that
  assert_int_equal(asked, 1024);
  tc_pool_give(b);
  TC_TRY(tc_pool_take(p, 100, &b));
  assert_int_equal(asked, 104);
  tc_pool_give(b);
  tc_pool_close(p);
  return TC_OK;
}

TC_TEST(keeps_no_more_than_the_bound) {
  tc_pool *p;
  tc_pool_block *b[8];
  tc_pool_stats stats;
  TC_TRY(tc_pool_create_host(tc_arena_allocator(arena), 4096, &p));
  for (int32_t i = 0; i < 8; i++) TC_TRY(tc_pool_take(p, 1024, &b[i]));
  for (int32_t i = 0; i < 8; i++) tc_pool_give(b[i]);
  tc_pool_read_stats(p, &stats);
  assert_int_equal(stats.idle_bytes, 4096);
  assert_int_equal(stats.peak_bytes, 8192);
  tc_pool_close(p);
  return TC_OK;
}

TC_TEST(storages_outlive_the_pool) {
  tc_pool *p;
  tc_storage *s;
  TC_TRY(tc_pool_create_host(tc_arena_allocator(arena), 1 << 20, &p));
  TC_TRY(tc_pool_storage(p, 256, 0, &s));
  tc_pool_close(p);
  memset(s->data, 1, s->size);
  tc_storage_unref(s);
  return TC_OK;
}

TC_TEST(refuses_impossible_sizes) {
  tc_pool *p;
  tc_pool_block *b;
  TC_TRY(tc_pool_create_host(tc_arena_allocator(arena), 1 << 20, &p));
  assert_error(tc_pool_take(p, -1, &b), TC_STATUS_OUT_OF_MEMORY, "");
  assert_error(tc_pool_take(p, INT64_MAX, &b), TC_STATUS_OUT_OF_MEMORY, "");
  tc_pool_close(p);
  return TC_OK;
}

TC_TEST_TORTURED(survives_short_memory) {
  tc_pool *p;
  tc_storage *s;
  TC_TRY(tc_pool_create_host(tc_arena_allocator(arena), 1 << 20, &p));
  tc_status status = TC_OK;
  for (int32_t i = 0; i < 3 && status == TC_OK; i++) {
    status = tc_pool_storage(p, 100 * (i + 1), 0, &s);
    if (status == TC_OK) tc_storage_unref(s);
  }
  tc_pool_close(p);
  return status;
}

static void *take_and_give(void *arg) {
  tc_pool *p = arg;
  uint64_t seed = (uint64_t)(uintptr_t)&p;
  for (int32_t i = 0; i < 2000; i++) {
    tc_pool_block *b;
    tc_status s = tc_pool_take(p, 64 + (int64_t)(tc_test_random(&seed) % 4096), &b);
    if (s != TC_OK) return (void *)s;
    uint64_t mark = tc_test_random(&seed);
    memcpy((void *)(uintptr_t)b->memory, &mark, sizeof mark);
    if (memcmp((void *)(uintptr_t)b->memory, &mark, sizeof mark) != 0) return p; // someone else has it, too
    tc_pool_give(b);
  }
  return NULL;
}

TC_TEST(serves_threads) {
  tc_pool *p;
  pthread_t threads[4];
  TC_TRY(tc_pool_create_host(tc_arena_allocator(arena), 1 << 16, &p));
  for (int32_t i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, p), 0);
  for (int32_t i = 0; i < 4; i++) {
    void *bad;
    pthread_join(threads[i], &bad);
    assert_null(bad);
  }
  tc_pool_close(p);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reuses_what_comes_back),
      cmocka_unit_test(counts_what_is_asked_for),
      cmocka_unit_test(classes_waste_an_eighth_at_most),
      cmocka_unit_test(asks_for_no_more_than_the_source_gives),
      cmocka_unit_test(keeps_no_more_than_the_bound),
      cmocka_unit_test(storages_outlive_the_pool),
      cmocka_unit_test(refuses_impossible_sizes),
      cmocka_unit_test(survives_short_memory),
      cmocka_unit_test(serves_threads),
  };
  return TC_RUN(tests);
}
