// Files: whole reads, maps, and writes that are seen whole or not at all (temporary file, fsync, rename).
// Errors carry the path and the system's reason; a missing file is NOT_FOUND.
#ifndef TC_CORE_BASE_FS_H_
#define TC_CORE_BASE_FS_H_

#include "core/base/str.h"

typedef struct tc_mapping {
  const uint8_t *data;
  size_t size;
} tc_mapping;

// The error for what errno says: "cannot DOING 'PATH': reason".
TC_NODISCARD tc_status tc_fs_error(int error, const char *doing, const char *path) TC_NONNULL;
TC_NODISCARD tc_status tc_file_read(tc_arena *arena, const char *path, tc_sv *out); // NUL-terminated copy
TC_NODISCARD tc_status tc_file_map(const char *path, tc_mapping *out);              // read-only, private
void tc_file_unmap(tc_mapping *m);
// The memory of a mapping's pages around these bytes goes back to the system; it is read again where it is needed.
void tc_file_forget(const void *data, size_t size);
TC_NODISCARD tc_status tc_file_write(const char *path, const void *data, size_t size); // atomic replace
// The same for contents in pieces: `make` puts them one behind the other (tc_file_put takes the sink as void *, so that
// it fits where a function to put is asked for). Nothing is replaced if it fails; it must not unwind.
typedef struct tc_file_sink tc_file_sink;
TC_NODISCARD tc_status tc_file_write_by(const char *path, tc_status (*make)(void *self, tc_file_sink *to), void *self);
TC_NODISCARD tc_status tc_file_put(void *sink, const void *data, size_t size);

// A new file beside `path`, open for writing, under a name that no other thread or process has: for what is renamed to
// `path` when it is whole. The process's umask applies to `mode`. The descriptor, which is the caller's, or -1 and
// errno.
int tc_file_open_beside(const char *path, unsigned mode, char *name, size_t name_size);
TC_NODISCARD tc_status tc_dir_make(const char *path); // with parents, mode 0700
bool tc_file_exists(const char *path);
bool tc_dir_exists(const char *path);
// Sorted names; without "." and "..".
TC_NODISCARD tc_status tc_dir_list(tc_arena *arena, const char *path, tc_sv **out_names, int32_t *out_count);
TC_NODISCARD tc_status tc_path_real(tc_arena *arena, const char *path, tc_sv *out);
tc_sv tc_path_join(tc_arena *arena, tc_sv dir, tc_sv name);
tc_sv tc_path_dir(tc_sv path);
tc_sv tc_path_base(tc_sv path);
double tc_now_ms(void);               // monotonic
const char *tc_env(const char *name); // secure_getenv; NULL if unset or empty
// Size and time of last change, which tell one build of a program from another. 0 where there is no such file.
void tc_file_stamp(const char *path, int64_t *out_size, int64_t *out_ns);
TC_NODISCARD tc_status tc_self_file(tc_arena *arena, tc_sv *out); // the running program, or libtc.so
TC_NODISCARD tc_status tc_self_dir(tc_arena *arena, tc_sv *out);  // folder of the running program, or of libtc.so

#endif
