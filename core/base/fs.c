// Files and paths over POSIX.
//
// Arena allocation may unwind, and an open descriptor would then leak: whatever allocates while something is open runs
// in a guard of its own.
#include "core/base/fs.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/vec.h"

tc_status tc_fs_error(int error, const char *doing, const char *path) {
  char reason[128];
  const char *text = strerror_r(error, reason, sizeof reason); // the GNU one: may or may not use the buffer
  return tc_error(error == ENOENT || error == ENOTDIR ? TC_STATUS_NOT_FOUND
                  : error == ENOMEM                   ? TC_STATUS_OUT_OF_MEMORY
                                                      : TC_STATUS_IO,
                  "cannot %s '%s': %s", doing, path, text);
}

static int open_retry(const char *path, int flags, mode_t mode) {
  int fd;
  do fd = open(path, flags | O_CLOEXEC, mode);
  while (fd < 0 && errno == EINTR);
  return fd;
}

typedef struct read_args {
  tc_arena *arena;
  const char *path;
  int fd;
  size_t expect;
  tc_sv out;
} read_args;

static tc_status read_all(void *arg) {
  read_args *a = arg;
  tc_sb sb = {a->arena, tc_arena_alloc(a->arena, a->expect + 1), 0, a->expect + 1};
  char probe[4096];
  for (;;) {
    // The file may be longer than it was said to be: past the end of the buffer, bytes go through a small one.
    size_t room = sb.capacity - 1 - sb.size;
    ssize_t n = room ? read(a->fd, sb.text + sb.size, room) : read(a->fd, probe, sizeof probe);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return tc_fs_error(errno, "read", a->path);
    if (n == 0) break;
    if (room) sb.size += (size_t)n;
    else tc_sb_put(&sb, (tc_sv){probe, (size_t)n});
  }
  a->out = tc_sb_view(&sb);
  return TC_OK;
}

tc_status tc_file_read(tc_arena *arena, const char *path, tc_sv *out) {
  int fd = open_retry(path, O_RDONLY, 0);
  struct stat st;
  if (fd < 0 || fstat(fd, &st) != 0) {
    tc_status s = tc_fs_error(errno, "open", path);
    if (fd >= 0) close(fd);
    return s;
  }
  read_args a = {.arena = arena, .path = path, .fd = fd, .expect = S_ISREG(st.st_mode) ? (size_t)st.st_size : 0};
  tc_status s = S_ISDIR(st.st_mode) ? tc_fs_error(EISDIR, "read", path) : tc_arena_guard(arena, read_all, &a);
  close(fd);
  *out = a.out;
  return s;
}

tc_status tc_file_map(const char *path, tc_mapping *out) {
  *out = (tc_mapping){(const uint8_t *)"", 0};
  int fd = open_retry(path, O_RDONLY, 0);
  if (fd < 0) return tc_fs_error(errno, "open", path);
  struct stat st;
  tc_status s = TC_OK;
  if (fstat(fd, &st) != 0) s = tc_fs_error(errno, "open", path);
  else if (!S_ISREG(st.st_mode)) s = tc_error(TC_STATUS_IO, "cannot map '%s': not a regular file", path);
  else if (st.st_size > 0) {
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) s = tc_fs_error(errno, "map", path);
    else *out = (tc_mapping){p, (size_t)st.st_size};
  }
  close(fd);
  return s;
}

void tc_file_unmap(tc_mapping *m) {
  if (m->size > 0) munmap((void *)(uintptr_t)m->data, m->size);
  *m = (tc_mapping){0};
}

void tc_file_forget(const void *data, size_t size) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)data / page * page;
  uintptr_t end = ((uintptr_t)data + size + page - 1) / page * page;
  if (size > 0) (void)madvise((void *)begin, end - begin, MADV_DONTNEED); // advice: memory stays if it cannot be
}

static int write_all(int fd, const char *data, size_t size) {
  while (size > 0) {
    ssize_t n = write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    data += n;
    size -= (size_t)n;
  }
  return 0;
}

int tc_file_open_beside(const char *path, unsigned mode, char *name, size_t name_size) {
  for (int attempt = 0; attempt < 100; attempt++) {
    uint64_t salt;
    if (getrandom(&salt, sizeof salt, 0) != sizeof salt) salt = (uint64_t)getpid() << 32 | (uint32_t)attempt;
    if (snprintf(name, name_size, "%s.%016llx.tmp", path, (unsigned long long)salt) >= (int)name_size) {
      errno = ENAMETOOLONG;
      return -1;
    }
    int fd = open_retry(name, O_WRONLY | O_CREAT | O_EXCL, (mode_t)mode);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

struct tc_file_sink {
  int fd, error;
};

tc_status tc_file_put(void *sink, const void *data, size_t size) {
  tc_file_sink *f = sink;
  if (!f->error) f->error = write_all(f->fd, data, size);
  return f->error ? tc_fs_error(f->error, "write", "a part of it") : TC_OK;
}

// What failed first: the maker's own error, or one of writing.
static tc_status produced(tc_status s, int error, const char *path) {
  if (error == 0) return s;
  tc_status_free(s);
  return tc_fs_error(error, "write", path);
}

tc_status tc_file_write_by(const char *path, tc_status (*make)(void *self, tc_file_sink *to), void *self) {
  char target[PATH_MAX], temporary[PATH_MAX];
  struct stat st;
  bool exists = stat(path, &st) == 0;
  tc_file_sink f = {0};
  if (exists && !S_ISREG(st.st_mode)) { // a device or a pipe cannot be replaced, only written to
    f.fd = open_retry(path, O_WRONLY, 0);
    if (f.fd < 0) return tc_fs_error(errno, "write", path);
    tc_status s = make(self, &f);
    close(f.fd);
    return produced(s, f.error, path);
  }
  // A link keeps pointing to what it points to.
  const char *at = exists && realpath(path, target) != NULL ? target : path;
  f.fd = tc_file_open_beside(at, 0666, temporary, sizeof temporary);
  if (f.fd < 0) return tc_fs_error(errno, "write", path);
  tc_status s = make(self, &f);
  bool good = s == TC_OK && f.error == 0;
  if (good && exists && fchmod(f.fd, st.st_mode & 07777) != 0) f.error = errno;
  if (good && f.error == 0 && fsync(f.fd) != 0) f.error = errno;
  if (close(f.fd) != 0 && f.error == 0) f.error = errno;
  if (good && f.error == 0 && rename(temporary, at) != 0) f.error = errno;
  if (!good || f.error) unlink(temporary);
  return produced(s, f.error, path);
}

static tc_status put_whole(void *self, tc_file_sink *to) {
  const tc_sv *whole = self;
  return whole->size ? tc_file_put(to, whole->data, whole->size) : TC_OK;
}

tc_status tc_file_write(const char *path, const void *data, size_t size) {
  return tc_file_write_by(path, put_whole, &(tc_sv){data, size});
}

tc_status tc_dir_make(const char *path) {
  char part[PATH_MAX];
  size_t n = strlen(path);
  if (n == 0 || n >= sizeof part) return tc_fs_error(n ? ENAMETOOLONG : ENOENT, "make the folder", path);
  memcpy(part, path, n + 1);
  for (size_t i = 1; i <= n; i++) {
    if (path[i] != '/' && path[i] != 0) continue;
    part[i] = 0;
    if (mkdir(part, 0700) != 0 && errno != EEXIST && !tc_dir_exists(part))
      return tc_fs_error(errno, "make the folder", part);
    part[i] = path[i];
  }
  return tc_dir_exists(path) ? TC_OK : tc_fs_error(EEXIST, "make the folder", path);
}

bool tc_file_exists(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
}

bool tc_dir_exists(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

typedef struct list_args {
  tc_arena *arena;
  const char *path;
  DIR *dir;
  tc_sv *names;
  int32_t count;
} list_args;

static int by_name(const void *a, const void *b) { return tc_sv_cmp(*(const tc_sv *)a, *(const tc_sv *)b); }

static tc_status list_names(void *arg) {
  list_args *a = arg;
  TC_VEC(tc_sv) names = {0};
  for (;;) {
    errno = 0;
    struct dirent *e = readdir(a->dir);
    if (e == NULL && errno != 0) return tc_fs_error(errno, "list", a->path);
    if (e == NULL) break;
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    tc_sv name = tc_sv_copy(a->arena, tc_sv_of(e->d_name));
    tc_vec_push(a->arena, &names, name);
  }
  if (names.count > 1) qsort(names.data, (size_t)names.count, sizeof *names.data, by_name);
  a->names = names.data;
  a->count = names.count;
  return TC_OK;
}

tc_status tc_dir_list(tc_arena *arena, const char *path, tc_sv **out_names, int32_t *out_count) {
  *out_names = NULL;
  *out_count = 0;
  DIR *dir = opendir(path);
  if (dir == NULL) return tc_fs_error(errno, "list", path);
  list_args a = {.arena = arena, .path = path, .dir = dir};
  tc_status s = tc_arena_guard(arena, list_names, &a);
  closedir(dir);
  *out_names = a.names;
  *out_count = a.count;
  return s;
}

tc_status tc_path_real(tc_arena *arena, const char *path, tc_sv *out) {
  char real[PATH_MAX];
  if (realpath(path, real) == NULL) return tc_fs_error(errno, "find", path);
  *out = tc_sv_copy(arena, tc_sv_of(real));
  return TC_OK;
}

tc_sv tc_path_join(tc_arena *arena, tc_sv dir, tc_sv name) {
  if (dir.size == 0 || tc_sv_starts(name, "/")) return tc_sv_copy(arena, name);
  return tc_sv_printf(arena, TC_SV_FMT "%s" TC_SV_FMT, TC_SV_ARG(dir), tc_sv_ends(dir, "/") ? "" : "/",
                      TC_SV_ARG(name));
}

static tc_sv without_slashes(tc_sv path) {
  while (path.size > 1 && path.data[path.size - 1] == '/') path.size--;
  return path;
}

// Where the last component begins.
static size_t base_at(tc_sv path) {
  size_t i = path.size;
  while (i > 0 && path.data[i - 1] != '/') i--;
  return i;
}

tc_sv tc_path_dir(tc_sv path) {
  path = without_slashes(path);
  if (tc_sv_is(path, "/")) return path;
  size_t at = base_at(path);
  return at == 0 ? TC_SV(".") : without_slashes(tc_sv_sub(path, 0, at));
}

tc_sv tc_path_base(tc_sv path) {
  path = without_slashes(path);
  return tc_sv_is(path, "/") ? path : tc_sv_sub(path, base_at(path), path.size);
}

double tc_now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

const char *tc_env(const char *name) {
  const char *value = secure_getenv(name);
  return value && value[0] ? value : NULL;
}

void tc_file_stamp(const char *path, int64_t *out_size, int64_t *out_ns) {
  struct stat st;
  *out_size = *out_ns = 0;
  if (stat(path, &st) != 0) return;
  *out_size = st.st_size;
  *out_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
}

static const char self_anchor;
tc_status tc_self_file(tc_arena *arena, tc_sv *out) {
  // In a shared library its own folder counts: whoever loads it may lie anywhere.
  Dl_info info;
  bool library = dladdr(&self_anchor, &info) && info.dli_fname && strstr(info.dli_fname, ".so");
  return tc_path_real(arena, library ? info.dli_fname : "/proc/self/exe", out);
}

tc_status tc_self_dir(tc_arena *arena, tc_sv *out) {
  TC_TRY(tc_self_file(arena, out), "while looking for the running program's folder");
  *out = tc_sv_copy(arena, tc_path_dir(*out));
  return TC_OK;
}
