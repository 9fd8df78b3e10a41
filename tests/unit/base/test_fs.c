// Files and paths, in a folder of their own.
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/fs.h"
#include "tests/unit/unit.h"

static char folder[256];

static int make_folder(void **state) {
  (void)state;
  const char *base = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/tc-fs-XXXXXX", base && base[0] ? base : P_tmpdir);
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  char command[300];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

static const char *in_folder(tc_arena *arena, const char *name) {
  return tc_path_join(arena, tc_sv_of(folder), tc_sv_of(name)).data;
}

TC_TEST_TORTURED(what_is_written_is_read) {
  const char *path = in_folder(arena, "a.bin");
  size_t sizes[] = {0, 1, 4095, 4096, 100000};
  for (int i = 0; i < 5; i++) {
    char *data = tc_arena_alloc(arena, sizes[i] + 1);
    for (size_t k = 0; k < sizes[i]; k++) data[k] = (char)(k * 7 + 1);
    TC_TRY(tc_file_write(path, data, sizes[i]));
    tc_sv got;
    TC_TRY(tc_file_read(arena, path, &got));
    assert_int_equal(got.size, sizes[i]);
    assert_memory_equal(got.data, data, sizes[i]);
    assert_int_equal(got.data[got.size], 0);
    tc_mapping m;
    TC_TRY(tc_file_map(path, &m));
    assert_int_equal(m.size, sizes[i]);
    assert_non_null(m.data);
    assert_memory_equal(m.data, data, sizes[i]);
    tc_file_unmap(&m);
    assert_null(m.data);
  }
  return TC_OK;
}

TC_TEST(missing_files_say_so) {
  const char *path = in_folder(arena, "nowhere/x");
  tc_sv text;
  tc_mapping m;
  tc_sv *names;
  int32_t n;
  assert_error(tc_file_read(arena, path, &text), TC_STATUS_NOT_FOUND, "nowhere/x': No such file");
  assert_error(tc_file_map(path, &m), TC_STATUS_NOT_FOUND, "nowhere/x");
  assert_error(tc_file_write(path, "", 0), TC_STATUS_NOT_FOUND, "nowhere/x");
  assert_error(tc_dir_list(arena, path, &names, &n), TC_STATUS_NOT_FOUND, "nowhere/x");
  assert_error(tc_path_real(arena, path, &text), TC_STATUS_NOT_FOUND, "nowhere/x");
  assert_error(tc_file_read(arena, folder, &text), TC_STATUS_IO, "Is a directory");
  assert_error(tc_file_map(folder, &m), TC_STATUS_IO, "not a regular file");
  assert_error(tc_file_write(folder, "", 0), TC_STATUS_IO, "directory");
  assert_false(tc_file_exists(path));
  assert_false(tc_file_exists(folder));
  assert_true(tc_dir_exists(folder));
  return TC_OK;
}

TC_TEST(devices_are_not_replaced) {
  TC_TRY(tc_file_write("/dev/null", "abc", 3));
  struct stat st;
  assert_int_equal(stat("/dev/null", &st), 0);
  assert_true(S_ISCHR(st.st_mode));
  tc_sv text;
  TC_TRY(tc_file_read(arena, "/dev/null", &text));
  assert_int_equal(text.size, 0);
  TC_TRY(tc_file_read(arena, "/proc/self/status", &text)); // says it is empty, and is not
  assert_true(tc_sv_starts(text, "Name:"));
  return TC_OK;
}

TC_TEST(links_and_modes_stay) {
  const char *real = in_folder(arena, "real"), *link = in_folder(arena, "link");
  TC_TRY(tc_file_write(real, "1", 1));
  assert_int_equal(chmod(real, 0751), 0);
  assert_int_equal(symlink("real", link), 0);
  TC_TRY(tc_file_write(link, "22", 2));
  struct stat st;
  assert_int_equal(lstat(link, &st), 0);
  assert_true(S_ISLNK(st.st_mode));
  assert_int_equal(stat(real, &st), 0);
  assert_int_equal(st.st_size, 2);
  assert_int_equal(st.st_mode & 07777, 0751);
  return TC_OK;
}

TC_TEST_TORTURED(folders_list_sorted) {
  const char *deep = in_folder(arena, "x/y//z/");
  TC_TRY(tc_dir_make(deep));
  TC_TRY(tc_dir_make(deep));
  struct stat st;
  assert_int_equal(stat(deep, &st), 0);
  assert_int_equal(st.st_mode & 0777, 0700);
  const char *names[] = {"b", "a", "c.txt", "aa"};
  for (int i = 0; i < 4; i++) {
    tc_sv path = tc_path_join(arena, tc_sv_of(deep), tc_sv_of(names[i]));
    TC_TRY(tc_file_write(path.data, "x", 1));
    assert_error(tc_dir_make(path.data), TC_STATUS_IO, "File exists");
  }
  tc_sv *got;
  int32_t n;
  TC_TRY(tc_dir_list(arena, deep, &got, &n));
  assert_int_equal(n, 4); // no temporary file stays
  assert_sv(got[0], "a");
  assert_sv(got[1], "aa");
  assert_sv(got[2], "b");
  assert_sv(got[3], "c.txt");
  assert_error(tc_dir_make(""), TC_STATUS_NOT_FOUND, "folder");
  return TC_OK;
}

// Writers and a reader at once: the reader sees one writer's whole file, never a mix.
typedef struct writer {
  const char *path;
  char letter;
  int failures;
} writer;

static void *write_many(void *arg) {
  writer *w = arg;
  char data[20000];
  memset(data, w->letter, sizeof data);
  for (int i = 0; i < 60; i++) {
    tc_status s = tc_file_write(w->path, data, sizeof data - (size_t)(w->letter - 'a') * 100);
    w->failures += s != TC_OK;
    tc_status_free(s);
  }
  return NULL;
}

TC_TEST(replacing_is_atomic) {
  const char *path = in_folder(arena, "shared");
  TC_TRY(tc_file_write(path, "a", 1));
  writer w[2] = {{path, 'a', 0}, {path, 'b', 0}};
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, write_many, &w[i]), 0);
  for (int i = 0; i < 300; i++) {
    tc_mapping m;
    assert_ok(tc_file_map(path, &m));
    assert_true(m.size == 1 || m.size == 20000 - (size_t)(m.data[0] - 'a') * 100);
    for (size_t k = 1; k < m.size; k++)
      if (m.data[k] != m.data[0]) fail_msg("byte %zu is another writer's", k);
    tc_file_unmap(&m);
  }
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  assert_int_equal(w[0].failures + w[1].failures, 0);
  return TC_OK;
}

TC_TEST(paths_come_apart) {
  static const struct {
    const char *path, *dir, *base;
  } rows[] = {{"a/b", "a", "b"},  {"a", ".", "a"}, {"/a", "/", "a"},  {"/", "/", "/"},  {"a/b//", "a", "b"},
              {"a//b", "a", "b"}, {"", ".", ""},   {"./x", ".", "x"}, {"//", "/", "/"}, {"/a/b/c", "/a/b", "c"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    assert_sv(tc_path_dir(tc_sv_of(rows[i].path)), rows[i].dir);
    assert_sv(tc_path_base(tc_sv_of(rows[i].path)), rows[i].base);
  }
  assert_sv(tc_path_join(arena, TC_SV("a"), TC_SV("b")), "a/b");
  assert_sv(tc_path_join(arena, TC_SV("a/"), TC_SV("b")), "a/b");
  assert_sv(tc_path_join(arena, TC_SV(""), TC_SV("b")), "b");
  assert_sv(tc_path_join(arena, TC_SV("a"), TC_SV("/b")), "/b");
  tc_sv self;
  TC_TRY(tc_self_dir(arena, &self));
  assert_sv(self, tc_sv_z(arena, self));
  assert_true(tc_file_exists(tc_path_join(arena, self, TC_SV("unit_base_test_fs")).data));
  return TC_OK;
}

TC_TEST(environment_and_time) {
  setenv("TC_TEST_VALUE", "7", 1);
  assert_string_equal(tc_env("TC_TEST_VALUE"), "7");
  setenv("TC_TEST_VALUE", "", 1);
  assert_null(tc_env("TC_TEST_VALUE"));
  unsetenv("TC_TEST_VALUE");
  assert_null(tc_env("TC_TEST_VALUE"));
  double before = tc_now_ms();
  usleep(2000);
  double passed = tc_now_ms() - before;
  assert_true(passed >= 1.9 && passed < 60000);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_written_is_read),  cmocka_unit_test(missing_files_say_so),
      cmocka_unit_test(devices_are_not_replaced), cmocka_unit_test(links_and_modes_stay),
      cmocka_unit_test(folders_list_sorted),      cmocka_unit_test(replacing_is_atomic),
      cmocka_unit_test(paths_come_apart),         cmocka_unit_test(environment_and_time),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
