// The cache on disk: whole entries or none, damage, folders that cannot be used, its bound, several processes.
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/runtime/cache.h"
#include "core/runtime/plugin_cache.h"
#include "tests/unit/unit.h"

static char folder[256];

static int make_folder(void **state) {
  (void)state;
  const char *base = tc_env("TMPDIR");
  snprintf(folder, sizeof folder, "%s/tc-cache-XXXXXX", base ? base : P_tmpdir);
  return mkdtemp(folder) ? 0 : -1;
}

static void remove_cache(const char *where) {
  char command[400];
  tc_cache_size removed;
  tc_status_free(tc_cache_shrink(tc_system_allocator(), where, 0, &removed));
  snprintf(command, sizeof command, "%s/shrunk", where);
  unlink(command);
  for (int32_t i = 0; i < 256; i++) {
    snprintf(command, sizeof command, "%s/%02x", where, (unsigned)i);
    rmdir(command);
  }
  rmdir(where);
}

static int remove_folder(void **state) {
  (void)state;
  remove_cache(folder);
  return 0;
}

static tc_hash128 key_of(uint64_t i) { return (tc_hash128){i * 0x9e3779b97f4a7c15u, (i + 1) * 0xbf58476d1ce4e5b9u}; }

static tc_cache *open_cache(tc_arena *arena, int64_t bound) {
  tc_cache *c = tc_cache_open(tc_arena_allocator(arena), folder, bound, &tc_logger_silent);
  assert_non_null(c);
  return c;
}

static void path_of(tc_hash128 key, char out[400]) {
  snprintf(out, 400, "%s/%02x/%016llx%016llx", folder, (unsigned)(key.hi >> 56), (unsigned long long)key.hi,
           (unsigned long long)key.lo);
}

TC_TEST(gives_back_what_was_put) {
  tc_cache *c = open_cache(arena, 0);
  tc_sv got;
  assert_false(tc_cache_get(c, arena, key_of(1), &got));
  tc_cache_put(c, key_of(1), TC_SV("one"));
  tc_cache_put(c, key_of(2), (tc_sv){NULL, 0});
  assert_true(tc_cache_get(c, arena, key_of(1), &got));
  assert_sv(got, "one");
  assert_true(tc_cache_get(c, arena, key_of(2), &got));
  assert_int_equal(got.size, 0);
  tc_cache_put(c, key_of(1), TC_SV("other"));
  assert_true(tc_cache_get(c, arena, key_of(1), &got));
  assert_sv(got, "other");
  tc_cache_close(c);
  return TC_OK;
}

TC_TEST(without_a_cache_nothing_happens) {
  tc_sv got;
  assert_false(tc_cache_get(NULL, arena, key_of(1), &got));
  tc_cache_put(NULL, key_of(1), TC_SV("one"));
  tc_cache_close(NULL);
  return TC_OK;
}

// Every single damaged byte, and every length, is found.
TC_TEST(finds_damage) {
  tc_cache *c = open_cache(arena, 0);
  tc_sv whole, got;
  char path[400];
  path_of(key_of(3), path);
  tc_cache_put(c, key_of(3), TC_SV("the contents of an entry"));
  TC_TRY(tc_file_read(arena, path, &whole));
  for (size_t i = 0; i < whole.size; i++) {
    if (i >= 24 && i < 32) continue; // reserved
    char *text = tc_arena_copy(arena, whole.data, whole.size);
    text[i] ^= 0x40;
    TC_TRY(tc_file_write(path, text, whole.size));
    assert_false(tc_cache_get(c, arena, key_of(3), &got));
    assert_false(tc_file_exists(path)); // removed, so that it is made again
    TC_TRY(tc_file_write(path, whole.data, i));
    assert_false(tc_cache_get(c, arena, key_of(3), &got));
  }
  tc_cache_close(c);
  return TC_OK;
}

TC_TEST(needs_a_folder_of_ones_own) {
  char inner[400];
  snprintf(inner, sizeof inner, "%s/00", folder);
  mkdir(inner, 0700);
  assert_int_equal(chmod(inner, 0777), 0);
  assert_null(tc_cache_open(tc_arena_allocator(arena), inner, 0, &tc_logger_silent));
  assert_int_equal(chmod(inner, 0700), 0);
  assert_null(tc_cache_open(tc_arena_allocator(arena), "/proc/nowhere/at/all", 0, &tc_logger_silent));
  return TC_OK;
}

TC_TEST(survives_a_folder_that_vanishes) {
  tc_cache *c = open_cache(arena, 0);
  char gone[300], path[400];
  tc_sv got;
  snprintf(gone, sizeof gone, "%s.gone", folder);
  assert_int_equal(rename(folder, gone), 0);
  tc_cache_put(c, key_of(4), TC_SV("lost"));
  assert_false(tc_cache_get(c, arena, key_of(4), &got));
  assert_int_equal(rename(gone, folder), 0);
  // What is in the way of an entry is not an entry.
  path_of(key_of(5), path);
  TC_TRY(tc_dir_make(path));
  tc_cache_put(c, key_of(5), TC_SV("blocked"));
  assert_false(tc_cache_get(c, arena, key_of(5), &got));
  rmdir(path);
  tc_cache_close(c);
  return TC_OK;
}

// The least recently used go first.
TC_TEST(shrinks_from_the_oldest) {
  tc_cache_size size, removed;
  char path[400], text[1000] = {0};
  TC_TRY(tc_cache_shrink(tc_arena_allocator(arena), folder, 0, &removed));
  tc_cache *c = open_cache(arena, 0);
  for (uint64_t i = 0; i < 10; i++) {
    tc_cache_put(c, key_of(100 + i), (tc_sv){text, sizeof text});
    path_of(key_of(100 + i), path);
    struct timespec times[2] = {{.tv_sec = (time_t)(1000000 + 1000 * (i * 7 % 10))},
                                {.tv_sec = (time_t)(1000000 + 1000 * (i * 7 % 10))}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
  }
  TC_TRY(tc_cache_measure(tc_arena_allocator(arena), folder, &size));
  assert_int_equal(size.entries, 10);
  TC_TRY(tc_cache_shrink(tc_arena_allocator(arena), folder, size.bytes / 10 * 4, &removed));
  assert_int_equal(removed.entries, 6);
  for (uint64_t i = 0; i < 10; i++) {
    tc_sv got;
    assert_int_equal(tc_cache_get(c, arena, key_of(100 + i), &got), i * 7 % 10 >= 6);
  }
  tc_cache_close(c);
  return TC_OK;
}

// A full bound is met when the cache is closed.
TC_TEST(is_bounded_on_closing) {
  tc_cache_size size;
  char text[5000] = {0}, stamp[400];
  snprintf(stamp, sizeof stamp, "%s/shrunk", folder);
  unlink(stamp);
  tc_cache *c = open_cache(arena, 20000);
  for (uint64_t i = 0; i < 20; i++) tc_cache_put(c, key_of(200 + i), (tc_sv){text, sizeof text});
  tc_cache_close(c);
  TC_TRY(tc_cache_measure(tc_arena_allocator(arena), folder, &size));
  assert_true(size.bytes <= 20000);
  assert_true(size.entries > 0);
  return TC_OK;
}

// Contexts of one process have caches of their own over one folder: no write of one gets in another's way.
typedef struct writer {
  tc_cache *cache;
  tc_sv text;
} writer;

static void *write_often(void *arg) {
  const writer *w = arg;
  for (uint64_t i = 0; i < 400; i++) tc_cache_put(w->cache, key_of(400 + i % 4), w->text);
  return NULL;
}

static void count_lines(void *self, int32_t artifact, tc_sv text) {
  (void)artifact, (void)text;
  atomic_fetch_add((atomic_int *)self, 1);
}

TC_TEST(serves_caches_of_one_process) {
  enum { WRITERS = 4 };
  atomic_int complaints = 0;
  tc_logger logger = {.mask = 1u << TC_LOG_CACHE, .write = count_lines, .self = &complaints};
  pthread_t threads[WRITERS];
  writer writers[WRITERS];
  for (int i = 0; i < WRITERS; i++) {
    writers[i].cache = tc_cache_open(tc_arena_allocator(arena), folder, 0, &logger);
    writers[i].text = tc_sv_printf(arena, "%0*d", 3000, 1);
  }
  for (int i = 0; i < WRITERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, write_often, &writers[i]), 0);
  for (int i = 0; i < WRITERS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  assert_int_equal(complaints, 0);
  for (uint64_t i = 0; i < 4; i++) {
    tc_sv got;
    assert_true(tc_cache_get(writers[0].cache, arena, key_of(400 + i), &got));
    assert_sv(got, writers[0].text.data);
  }
  for (int i = 0; i < WRITERS; i++) tc_cache_close(writers[i].cache);
  return TC_OK;
}

enum { PROCESSES = 4, ENTRIES = 50 };

// Puts and reads what others put; 0 if all that was found was right.
static int hammer(tc_arena *arena, int32_t process) {
  tc_cache *c = tc_cache_open(tc_arena_allocator(arena), folder, 0, &tc_logger_silent);
  for (int32_t round = 0; c && round < 20; round++) {
    for (uint64_t i = 0; i < ENTRIES; i++) {
      tc_sv got, want = tc_sv_printf(arena, "entry %llu %0*d", (unsigned long long)i, (int)(100 * i), 1);
      if ((i + (uint64_t)process) % 2) tc_cache_put(c, key_of(300 + i), want);
      else if (tc_cache_get(c, arena, key_of(300 + i), &got) && !tc_sv_eq(got, want)) return 1;
    }
  }
  return c ? 0 : 2;
}

// What a plugin's sink gets: some bytes, or a failure.
typedef struct got {
  char text[32];
  size_t size;
  int32_t code;
} got;
static int32_t write_got(void *self, const void *data, uint64_t size) {
  got *g = self;
  assert_true(g->size + size <= sizeof g->text);
  if (size) memcpy(g->text + g->size, data, size);
  g->size += size;
  return g->code;
}

TC_TEST_TORTURED(keeps_what_plugins_put) {
  char where[300];
  snprintf(where, sizeof where, "%s/code", folder);
  tc_plugin_cache *c = tc_plugin_cache_create(tc_arena_allocator(arena), folder, 0, &tc_logger_silent);
  if (!c) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no cache of plugins");
  got g = {0};
  tc_sink sink = {&g, write_got};
  int32_t absent = tc_plugin_cache_get(c, key_of(7), &sink);
  tc_plugin_cache_put(c, key_of(7), TC_SV("seven"));
  int32_t there = tc_plugin_cache_get(c, key_of(7), &sink);
  got refusing = {.code = TC_STATUS_DATA_LOSS};
  int32_t refused = tc_plugin_cache_get(c, key_of(7), &(tc_sink){&refusing, write_got});
  tc_plugin_cache_destroy(c);
  remove_cache(where);
  // Short of memory the folder is not opened, or the entry not read: what is given then is nothing.
  if (absent != TC_STATUS_NOT_FOUND || there != TC_STATUS_OK || refused != TC_STATUS_DATA_LOSS) {
    assert_true(absent == TC_STATUS_NOT_FOUND || absent == TC_STATUS_OUT_OF_MEMORY);
    assert_true(there == TC_STATUS_OK ? g.size == 5 : g.size == 0);
    return tc_error(TC_STATUS_OUT_OF_MEMORY, "%d, %d, %d", absent, there, refused);
  }
  assert_int_equal(g.size, 5);
  assert_memory_equal(g.text, "seven", 5);
  assert_int_equal(refusing.size, 5);
  return TC_OK;
}

TC_TEST(serves_processes) {
  pid_t pids[PROCESSES];
  for (int32_t i = 0; i < PROCESSES; i++) {
    pids[i] = fork();
    assert_true(pids[i] >= 0);
    if (pids[i] == 0) _exit(hammer(arena, i));
  }
  for (int32_t i = 0; i < PROCESSES; i++) {
    int status;
    assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gives_back_what_was_put),
      cmocka_unit_test(without_a_cache_nothing_happens),
      cmocka_unit_test(finds_damage),
      cmocka_unit_test(needs_a_folder_of_ones_own),
      cmocka_unit_test(survives_a_folder_that_vanishes),
      cmocka_unit_test(shrinks_from_the_oldest),
      cmocka_unit_test(is_bounded_on_closing),
      cmocka_unit_test(serves_caches_of_one_process),
      cmocka_unit_test(keeps_what_plugins_put),
      cmocka_unit_test(serves_processes),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
