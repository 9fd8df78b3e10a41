// Tuning records: in memory, on disk, from several processes, damaged.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/fs.h"
#include "core/runtime/tuning.h"
#include "tests/unit/unit.h"

static char folder[256];
static const char *const device = "a device / with a name";

static int make_folder(void **state) {
  (void)state;
  const char *base = tc_env("TMPDIR");
  snprintf(folder, sizeof folder, "%s/tc-tuning-XXXXXX", base ? base : P_tmpdir);
  return mkdtemp(folder) ? 0 : -1;
}

static tc_status remove_files(tc_arena *arena) {
  tc_sv *devices, *files;
  int32_t n, m;
  TC_TRY(tc_dir_list(arena, folder, &devices, &n));
  for (int32_t i = 0; i < n; i++) {
    tc_sv inner = tc_path_join(arena, tc_sv_of(folder), devices[i]);
    TC_TRY(tc_dir_list(arena, inner.data, &files, &m));
    for (int32_t k = 0; k < m; k++) unlink(tc_path_join(arena, inner, files[k]).data);
    rmdir(inner.data);
  }
  rmdir(folder);
  return TC_OK;
}

static tc_tuning *open_records(tc_arena *arena, const char *where) {
  tc_tuning *t = NULL;
  tc_status s = tc_tuning_open(tc_arena_allocator(arena), where, tc_sv_of(device), &tc_logger_silent, &t);
  assert_true(s == TC_OK);
  return t;
}

static tc_sv site_path(tc_arena *arena, const char *site) {
  tc_sv *devices;
  int32_t n = 0;
  tc_status s = tc_dir_list(arena, folder, &devices, &n);
  assert_true(s == TC_OK && n == 1);
  return tc_path_join(arena, tc_path_join(arena, tc_sv_of(folder), devices[0]), tc_sv_of(site));
}

TC_TEST(finds_what_was_kept) {
  for (int32_t on_disk = 0; on_disk < 2; on_disk++) {
    tc_tuning *t = open_records(arena, on_disk ? folder : NULL);
    tc_sv got;
    assert_false(tc_tuning_find(t, arena, TC_SV("matmul"), TC_SV("f32 4 4"), &got));
    tc_tuning_keep(t, TC_SV("matmul"), TC_SV("f32 4 4"), TC_SV("config 1"), 1234.5);
    tc_tuning_keep(t, TC_SV("matmul"), TC_SV("f32 8 8"), TC_SV("config 2"), 1);
    tc_tuning_keep(t, TC_SV("../calls: x"), TC_SV("f32 4 4"), TC_SV("call a 3"), 1);
    tc_tuning_keep(t, TC_SV("matmul"), TC_SV("f32 8 8"), TC_SV("config 3"), 1);
    tc_tuning_keep(t, TC_SV("matmul"), TC_SV("never"), TC_SV("two\nlines"), 1);
    for (int32_t again = 0; again < 2; again++) {
      assert_true(tc_tuning_find(t, arena, TC_SV("matmul"), TC_SV("f32 4 4"), &got));
      assert_sv(got, "config 1");
      assert_true(tc_tuning_find(t, arena, TC_SV("matmul"), TC_SV("f32 8 8"), &got));
      assert_sv(got, "config 3");
      assert_true(tc_tuning_find(t, arena, TC_SV("../calls: x"), TC_SV("f32 4 4"), &got));
      assert_sv(got, "call a 3");
      assert_false(tc_tuning_find(t, arena, TC_SV("matmul"), TC_SV("never"), &got));
      if (again || !on_disk) break;
      tc_tuning_close(t);
      t = open_records(arena, folder);
    }
    tc_tuning_close(t);
  }
  assert_false(tc_tuning_find(NULL, arena, TC_SV("matmul"), TC_SV("f32 4 4"), &(tc_sv){0}));
  tc_tuning_keep(NULL, TC_SV("matmul"), TC_SV("f32 4 4"), TC_SV("config 1"), 1);
  return remove_files(arena);
}

// Damage costs the lines that it hits.
TC_TEST(reads_what_is_whole) {
  uint64_t seed = tc_test_seed();
  tc_tuning *t = open_records(arena, folder);
  for (int32_t i = 0; i < 20; i++)
    tc_tuning_keep(t, TC_SV("fft"), tc_sv_printf(arena, "key %d", i), tc_sv_printf(arena, "config %d", i), i);
  tc_tuning_close(t);
  tc_sv path = site_path(arena, "fft"), text;
  TC_TRY(tc_file_read(arena, path.data, &text));
  for (int32_t round = 0; round < 200; round++) {
    char *bytes = tc_arena_copy(arena, text.data, text.size);
    size_t size = text.size, at = tc_test_random(&seed) % text.size;
    if (round % 3 == 0) size = at;
    else bytes[at] = (char)tc_test_random(&seed);
    TC_TRY(tc_file_write(path.data, bytes, size));
    t = open_records(arena, folder);
    int32_t found = 0;
    for (int32_t i = 0; i < 20; i++) {
      tc_sv got;
      found += tc_tuning_find(t, arena, TC_SV("fft"), tc_sv_printf(arena, "key %d", i), &got);
    }
    assert_true(round % 3 == 0 || found == 0 || found >= 18); // the first line is the format's
    tc_tuning_close(t);
  }
  return remove_files(arena);
}

// What another process kept meanwhile stays.
TC_TEST(keeps_others_records) {
  tc_tuning *a = open_records(arena, folder), *b = open_records(arena, folder);
  tc_sv got;
  tc_tuning_keep(a, TC_SV("scan"), TC_SV("one"), TC_SV("config 1"), 1);
  assert_false(tc_tuning_find(b, arena, TC_SV("sort"), TC_SV("one"), &got));
  tc_tuning_keep(b, TC_SV("scan"), TC_SV("two"), TC_SV("config 2"), 1);
  tc_tuning_keep(a, TC_SV("scan"), TC_SV("three"), TC_SV("config 3"), 1);
  tc_tuning_close(a);
  tc_tuning_close(b);
  a = open_records(arena, folder);
  for (int32_t i = 0; i < 3; i++) {
    static const char *const keys[] = {"one", "two", "three"};
    assert_true(tc_tuning_find(a, arena, TC_SV("scan"), tc_sv_of(keys[i]), &got));
    assert_true(got.data[7] == '1' + i);
  }
  tc_tuning_close(a);
  return remove_files(arena);
}

// A folder that cannot be written costs the records on disk only.
TC_TEST(does_without_a_folder) {
  tc_sv file = tc_path_join(arena, tc_sv_of(folder), TC_SV("file")), got;
  TC_TRY(tc_file_write(file.data, "x", 1));
  tc_tuning *t = open_records(arena, file.data);
  tc_tuning_keep(t, TC_SV("conv"), TC_SV("k"), TC_SV("config 7"), 1);
  assert_true(tc_tuning_find(t, arena, TC_SV("conv"), TC_SV("k"), &got));
  assert_sv(got, "config 7");
  tc_tuning_close(t);
  unlink(file.data);
  rmdir(folder);
  return TC_OK;
}

typedef struct search {
  tc_tuning *t;
  tc_arena *arena;
  bool found;
} search;
static tc_status look(void *arg) {
  search *x = arg;
  tc_sv got;
  x->found = tc_tuning_find(x->t, x->arena, TC_SV("conv"), TC_SV("k"), &got);
  return TC_OK;
}

TC_TEST_TORTURED(without_memory) {
  search x = {.arena = arena};
  TC_TRY(tc_tuning_open(tc_arena_allocator(arena), NULL, TC_SV("d"), &tc_logger_silent, &x.t));
  tc_tuning_keep(x.t, TC_SV("conv"), TC_SV("k"), TC_SV("config 7"), 1);
  tc_status s = tc_arena_guard(arena, look, &x);
  tc_tuning_close(x.t);
  TC_TRY(s);
  return x.found ? TC_OK : tc_error(TC_STATUS_OUT_OF_MEMORY, "the record was lost");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup(finds_what_was_kept, make_folder),
                                     cmocka_unit_test_setup(reads_what_is_whole, make_folder),
                                     cmocka_unit_test_setup(keeps_others_records, make_folder),
                                     cmocka_unit_test_setup(does_without_a_folder, make_folder),
                                     cmocka_unit_test(without_memory)};
  return TC_RUN(tests);
}
