// Allocators, the arena, guards.
#include "core/base/failure.h"
#include "tests/unit/unit.h"

static void system_blocks_are_aligned(void **state) {
  (void)state;
  const tc_allocator *a = tc_system_allocator();
  for (size_t size = 0; size < 300; size += 7) {
    unsigned char *p = tc_alloc(a, size);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 64, 0);
    for (size_t i = 0; i < size; i++) assert_int_equal(p[i], 0);
    tc_free(a, p);
  }
  assert_null(tc_alloc(a, SIZE_MAX));
  assert_null(tc_alloc(a, SIZE_MAX - 70));
  tc_free(a, NULL);
}

static void sizes_multiply_with_a_check(void **state) {
  (void)state;
  size_t out = 0;
  assert_true(tc_mul_size(3, 5, &out));
  assert_int_equal(out, 15);
  assert_true(tc_mul_size(0, SIZE_MAX, &out));
  assert_false(tc_mul_size(SIZE_MAX, 2, &out));
  assert_false(tc_mul_size((size_t)1 << 33, (size_t)1 << 31, &out));
}

static void faults_come_when_asked(void **state) {
  (void)state;
  tc_fault_allocator f;
  tc_fault_allocator_init(&f, tc_system_allocator());
  f.fail_at = 2;
  void *a = tc_alloc(&f.iface, 10), *b = tc_alloc(&f.iface, 10), *c = tc_alloc(&f.iface, 30);
  assert_non_null(a);
  assert_null(b);
  assert_non_null(c);
  assert_int_equal(f.count, 3);
  assert_int_equal(f.live, 2);
  assert_int_equal(f.live_bytes, 40);
  tc_free(&f.iface, a);
  tc_free(&f.iface, NULL);
  assert_int_equal(f.live_bytes, 30);
  assert_int_equal(f.peak_bytes, 40);
  tc_free(&f.iface, c);
  f.fail_at = 4;
  f.fail_after = 1;
  assert_null(tc_alloc(&f.iface, 1));
  assert_null(tc_alloc(&f.iface, 1));
  assert_int_equal(f.live, 0);
  assert_int_equal(f.live_bytes, 0);
}

// Blocks keep what is written to them, do not overlap, are zeroed and aligned.
TC_TEST(blocks_are_apart) {
  enum { N = 3000 };
  unsigned char *block[N];
  size_t size[N], total = 0;
  uint64_t random = tc_test_seed();
  for (int i = 0; i < N; i++) {
    uint64_t r = tc_test_random(&random);
    size_t align = (size_t)1 << (r % 13);
    size[i] = r / 13 % 97 == 0 ? r / 1300 % 2000000 : r / 1300 % 600;
    if (total > 100000000) size[i] %= 64;
    block[i] = tc_arena_alloc_aligned(arena, size[i], align);
    assert_int_equal((uintptr_t)block[i] % (align < 16 ? 16 : align), 0);
    for (size_t k = 0; k < size[i]; k++)
      if (block[i][k] != 0) fail_msg("byte %zu of block %d is not zero", k, i);
    memset(block[i], i % 255 + 1, size[i]);
    total += size[i];
  }
  assert_int_equal(tc_arena_used(arena), total);
  for (int i = 0; i < N; i++)
    for (size_t k = 0; k < size[i]; k++)
      if (block[i][k] != i % 255 + 1) fail_msg("byte %zu of block %d was overwritten", k, i);
  return TC_OK;
}

typedef struct order {
  tc_arena *arena;
  char text[8];
  int n;
} order;
static void note_b(void *arg) { ((order *)arg)->text[((order *)arg)->n++] = 'b'; }
static void note_a(void *arg) { ((order *)arg)->text[((order *)arg)->n++] = 'a'; }

static tc_status register_both(void *arg) {
  order *o = arg;
  tc_arena_on_destroy(o->arena, note_a, o);
  tc_arena_on_destroy(o->arena, note_b, o);
  return TC_OK;
}

static void cleaning_goes_backwards(void **state) {
  (void)state;
  order o = {0};
  assert_ok(tc_arena_create(tc_system_allocator(), &o.arena));
  assert_ok(tc_arena_guard(o.arena, register_both, &o));
  assert_int_equal(o.n, 0);
  tc_arena_destroy(o.arena);
  assert_string_equal(o.text, "ba");
}

// What could not be registered is cleaned at once.
static void cleaning_survives_short_memory(void **state) {
  (void)state;
  tc_fault_allocator f;
  tc_fault_allocator_init(&f, tc_system_allocator());
  order o = {0};
  assert_ok(tc_arena_create(&f.iface, &o.arena));
  f.fail_at = 2;
  assert_error(tc_arena_guard(o.arena, register_both, &o), TC_STATUS_OUT_OF_MEMORY, "out of memory");
  assert_string_equal(o.text, "a");
  tc_arena_destroy(o.arena);
  assert_string_equal(o.text, "a");
  assert_int_equal(f.live, 0);
}

typedef struct depth {
  tc_arena *arena;
  int levels, unwound, passed;
} depth;

static tc_status too_much(void *arg) {
  depth *d = arg;
  if (d->levels-- == 0) {
    (void)tc_arena_array(d->arena, SIZE_MAX / 2, 3);
    d->passed = 1;
  }
  tc_status s = tc_arena_guard(d->arena, too_much, d);
  if (tc_status_code(s) == TC_STATUS_OUT_OF_MEMORY) d->unwound++;
  tc_status_free(s);
  (void)tc_arena_alloc(d->arena, 16); // the outer guard is open again
  return TC_OK;
}

TC_TEST(guards_nest) {
  depth d = {arena, 5, 0, 0};
  assert_ok(tc_arena_guard(arena, too_much, &d));
  assert_int_equal(d.unwound, 1);
  assert_int_equal(d.passed, 0);
  return TC_OK;
}

static tc_status give_back(void *arg) { return tc_error(TC_STATUS_MISMATCH, "%s", (char *)arg); }

TC_TEST(guards_pass_errors_on) {
  char text[] = "as it was";
  assert_error(tc_arena_guard(arena, give_back, text), TC_STATUS_MISMATCH, "as it was");
  return TC_OK;
}

// A failure that is kept while memory runs out is neither lost nor left behind.
TC_TEST_TORTURED(first_failures_are_kept) {
  tc_failure f = {0};
  assert_true(tc_failure_take(&f) == TC_OK);
  tc_failure_keep(&f, arena, TC_OK);
  assert_false(tc_failed(&f));
  for (int i = 0; i < 20; i++) {
    tc_failure_keep(&f, arena, tc_error(TC_STATUS_MISMATCH, "number %d", i));
    (void)tc_arena_alloc(arena, 5000);
    assert_true(tc_failed(&f));
  }
  tc_status s = tc_failure_take(&f);
  if (tc_status_code(s) == TC_STATUS_OUT_OF_MEMORY) return s; // there was no room for the text
  assert_error(s, TC_STATUS_MISMATCH, "number 0");
  assert_false(tc_failed(&f));
  tc_failure_keep(&f, arena, tc_error_out_of_memory());
  assert_error(tc_failure_take(&f), TC_STATUS_OUT_OF_MEMORY, "out of memory");
  return TC_OK;
}

TC_TEST_TORTURED(short_memory_unwinds) {
  for (size_t i = 1; i < 200000; i = i * 3 / 2 + 1) {
    char *p = tc_arena_copy(arena, "abc", 4);
    assert_string_equal(p, "abc");
    (void)tc_arena_alloc(arena, i);
    (void)TC_NEW_ARRAY(arena, double, i);
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(system_blocks_are_aligned),
      cmocka_unit_test(sizes_multiply_with_a_check),
      cmocka_unit_test(faults_come_when_asked),
      cmocka_unit_test(blocks_are_apart),
      cmocka_unit_test(cleaning_goes_backwards),
      cmocka_unit_test(cleaning_survives_short_memory),
      cmocka_unit_test(guards_nest),
      cmocka_unit_test(guards_pass_errors_on),
      cmocka_unit_test(first_failures_are_kept),
      cmocka_unit_test(short_memory_unwinds),
  };
  return TC_RUN(tests);
}
