// The cache on disk. See cache.h.
//
// No fsync: a torn entry is found by its hash. The time of last use is the file's modification time, refreshed when it
// is more than a day old.
#include "core/runtime/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/fs.h"
#include "core/base/vec.h"

enum { MAGIC = 0x43434354, FORMAT = 1, HOUR = 3600, DAY = 24 * HOUR };

typedef struct header {
  uint32_t magic, format;
  uint64_t size, hash, reserved;
} header;

struct tc_cache {
  const tc_allocator *allocator;
  const tc_logger *logger;
  int64_t max_bytes;
  atomic_int written;
  char folder[];
};

static bool usable(const char *folder, const tc_logger *lg) {
  struct stat st;
  tc_status s = tc_dir_make(folder);
  if (s == TC_OK && stat(folder, &st) != 0) s = tc_fs_error(errno, "look at", folder);
  if (s == TC_OK && (st.st_uid != geteuid() || (st.st_mode & 022)))
    s = tc_error(TC_STATUS_IO, "'%s' can be written to by others", folder);
  if (s != TC_OK) tc_log(lg, TC_LOG_CACHE, "no cache: %s", tc_status_text(s));
  bool ok = s == TC_OK;
  tc_status_free(s);
  return ok;
}

tc_cache *tc_cache_open(const tc_allocator *a, const char *folder, int64_t max_bytes, const tc_logger *lg) {
  size_t n = strlen(folder);
  if (n + 64 > PATH_MAX || !usable(folder, lg)) return NULL;
  tc_cache *c = tc_alloc(a, sizeof *c + n + 1);
  if (!c) return NULL;
  c->allocator = a;
  c->logger = lg;
  c->max_bytes = max_bytes;
  memcpy(c->folder, folder, n + 1);
  return c;
}

static void entry_path(const tc_cache *c, tc_hash128 key, char out[PATH_MAX]) {
  snprintf(out, PATH_MAX, "%s/%02x/%016llx%016llx", c->folder, (unsigned)(key.hi >> 56), (unsigned long long)key.hi,
           (unsigned long long)key.lo);
}

static void touch(const char *path) {
  struct stat st;
  if (stat(path, &st) == 0 && st.st_mtime + DAY < time(NULL)) (void)utimensat(AT_FDCWD, path, NULL, 0);
}

bool tc_cache_get(tc_cache *c, tc_arena *arena, tc_hash128 key, tc_sv *out) {
  if (!c) return false;
  char path[PATH_MAX];
  entry_path(c, key, path);
  tc_sv text;
  tc_status s = tc_file_read(arena, path, &text);
  if (s != TC_OK) {
    if (tc_status_code(s) != TC_STATUS_NOT_FOUND) tc_log(c->logger, TC_LOG_CACHE, "not read: %s", tc_status_text(s));
    tc_status_free(s);
    return false;
  }
  header h = {0};
  if (text.size >= sizeof h) memcpy(&h, text.data, sizeof h);
  tc_sv body = tc_sv_sub(text, sizeof h, text.size);
  if (h.magic != MAGIC || h.format != FORMAT || h.size != body.size || h.hash != tc_hash(body.data, body.size)) {
    tc_log(c->logger, TC_LOG_CACHE, "damaged entry removed: %s", path);
    unlink(path);
    return false;
  }
  touch(path);
  if (tc_log_in_detail(c->logger, TC_LOG_CACHE)) tc_log(c->logger, TC_LOG_CACHE, "read %zu bytes: %s", body.size, path);
  *out = body;
  return true;
}

static bool write_all(int fd, const void *data, size_t size) {
  for (const char *at = data; size;) {
    ssize_t n = write(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n, size -= (size_t)n;
  }
  return true;
}

void tc_cache_put(tc_cache *c, tc_hash128 key, tc_sv body) {
  if (!c) return;
  char path[PATH_MAX], temporary[PATH_MAX + 64];
  entry_path(c, key, path);
  char *slash = strrchr(path, '/');
  *slash = 0;
  int made = mkdir(path, 0700);
  *slash = '/';
  if (made == 0 || errno == EEXIST) {
    int fd = tc_file_open_beside(path, 0600, temporary, sizeof temporary);
    if (fd >= 0) {
      header h = {.magic = MAGIC, .format = FORMAT, .size = body.size, .hash = tc_hash(body.data, body.size)};
      bool ok = write_all(fd, &h, sizeof h) && write_all(fd, body.data, body.size);
      int error = errno;
      ok = close(fd) == 0 && ok;
      if (ok && rename(temporary, path) == 0) {
        atomic_store(&c->written, 1);
        if (tc_log_in_detail(c->logger, TC_LOG_CACHE))
          tc_log(c->logger, TC_LOG_CACHE, "kept %zu bytes: %s", body.size, path);
        return;
      }
      if (!ok) errno = error;
      error = errno;
      unlink(temporary);
      errno = error;
    }
  }
  tc_status s = tc_fs_error(errno, "write", path);
  tc_log(c->logger, TC_LOG_CACHE, "not written: %s", tc_status_text(s));
  tc_status_free(s);
}

// ---- Size ----
typedef struct file {
  tc_sv path;
  int64_t bytes, used; // used: seconds since the epoch
} file;
typedef struct walk {
  tc_arena *arena;
  const char *folder;
  TC_VEC(file) files;
  int64_t bytes;
  int64_t keep; // < 0: remove nothing
  tc_cache_size removed;
} walk;

static tc_status list_files(walk *w) {
  tc_sv *folders, *names;
  int32_t n_folders, n;
  TC_TRY(tc_dir_list(w->arena, w->folder, &folders, &n_folders));
  for (int32_t i = 0; i < n_folders; i++) {
    tc_sv folder = tc_path_join(w->arena, tc_sv_of(w->folder), folders[i]);
    if (folders[i].size != 2 || !tc_dir_exists(tc_sv_z(w->arena, folder))) continue;
    tc_status s = tc_dir_list(w->arena, tc_sv_z(w->arena, folder), &names, &n);
    if (s != TC_OK) { // another process may have removed it
      tc_status_free(s);
      continue;
    }
    for (int32_t k = 0; k < n; k++) {
      struct stat st;
      file f = {.path = tc_path_join(w->arena, folder, names[k])};
      if (stat(tc_sv_z(w->arena, f.path), &st) != 0 || !S_ISREG(st.st_mode)) continue;
      f.bytes = st.st_size;
      f.used = st.st_mtime;
      w->bytes += f.bytes;
      tc_vec_push(w->arena, &w->files, f);
    }
  }
  return TC_OK;
}

static int by_use(const void *a, const void *b) {
  int64_t x = ((const file *)a)->used, y = ((const file *)b)->used;
  return x < y ? -1 : x > y;
}

static tc_status walk_files(void *arg) {
  walk *w = arg;
  TC_TRY(list_files(w));
  if (w->keep < 0 || w->files.count == 0) return TC_OK;
  qsort(w->files.data, (size_t)w->files.count, sizeof *w->files.data, by_use);
  int64_t left = w->bytes;
  for (int32_t i = 0; i < w->files.count && left > w->keep; i++) {
    if (unlink(w->files.data[i].path.data) != 0) continue;
    left -= w->files.data[i].bytes;
    w->removed.entries++;
    w->removed.bytes += w->files.data[i].bytes;
  }
  return TC_OK;
}

static tc_status go_over(const tc_allocator *a, const char *folder, int64_t keep, tc_cache_size *out_all,
                         tc_cache_size *out_removed) {
  walk w = {.folder = folder, .keep = keep};
  if (out_all) *out_all = (tc_cache_size){0};
  if (out_removed) *out_removed = (tc_cache_size){0};
  if (!tc_dir_exists(folder)) return TC_OK;
  TC_TRY(tc_arena_create(a, &w.arena));
  tc_status s = tc_arena_guard(w.arena, walk_files, &w);
  if (out_all) *out_all = (tc_cache_size){w.files.count, w.bytes};
  if (out_removed) *out_removed = w.removed;
  tc_arena_destroy(w.arena);
  return s;
}

tc_status tc_cache_measure(const tc_allocator *a, const char *folder, tc_cache_size *out) {
  return go_over(a, folder, -1, out, NULL);
}

tc_status tc_cache_shrink(const tc_allocator *a, const char *folder, int64_t bytes, tc_cache_size *out_removed) {
  return go_over(a, folder, bytes, NULL, out_removed);
}

// True for one process in an hour: the one that renews the stamp.
static bool is_due(const tc_cache *c) {
  char path[PATH_MAX];
  struct stat st;
  snprintf(path, sizeof path, "%s/shrunk", c->folder);
  if (stat(path, &st) == 0 && st.st_mtime + HOUR > time(NULL)) return false;
  int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  bool ok = futimens(fd, NULL) == 0;
  close(fd);
  return ok;
}

void tc_cache_close(tc_cache *c) {
  if (!c) return;
  if (c->max_bytes > 0 && atomic_load(&c->written) && is_due(c)) {
    tc_cache_size removed;
    // A tenth below the bound, so that the next ones need not.
    tc_status s = tc_cache_measure(c->allocator, c->folder, &removed);
    if (s == TC_OK && removed.bytes > c->max_bytes)
      s = tc_cache_shrink(c->allocator, c->folder, c->max_bytes / 10 * 9, &removed);
    if (s != TC_OK) tc_log(c->logger, TC_LOG_CACHE, "not bounded: %s", tc_status_text(s));
    tc_status_free(s);
  }
  tc_free(c->allocator, c);
}
