// The cache on disk: entries by content key, shared by all processes of a user.
//
// An entry is FOLDER/HH/HASH: a 32-byte header (magic, format, size, hash of the contents), then the contents. It is
// written to a temporary file and renamed, so readers see it whole or not at all; a damaged one is removed and counts
// as absent. A cache that cannot be read or written costs time, never the run: failures are log lines (artifact cache).
// The folder must belong to the user and be closed to others' writing, since what is in it is run.
// Thread-safe; several processes may use one folder.
#ifndef TC_CORE_RUNTIME_CACHE_H_
#define TC_CORE_RUNTIME_CACHE_H_

#include "core/base/log.h"

typedef struct tc_cache tc_cache;

// NULL, with a log line, if the folder cannot be used. `folder` is made. `max_bytes` 0: no bound.
tc_cache *tc_cache_open(const tc_allocator *a, const char *folder, int64_t max_bytes, const tc_logger *logger);
// Removes the entries that were used least recently, down to the bound, if this process has written and nobody did so
// within the hour. NULL is ignored.
void tc_cache_close(tc_cache *c);
// The contents, in the arena. False if there is no good entry, or `c` is NULL.
bool tc_cache_get(tc_cache *c, tc_arena *arena, tc_hash128 key, tc_sv *out);
void tc_cache_put(tc_cache *c, tc_hash128 key, tc_sv contents); // `c` NULL: nothing

// For `tcrun cache`: entries and their bytes; removes entries until at most `bytes` are left (0: all).
typedef struct tc_cache_size {
  int64_t entries, bytes;
} tc_cache_size;
TC_NODISCARD tc_status tc_cache_measure(const tc_allocator *a, const char *folder, tc_cache_size *out);
TC_NODISCARD tc_status tc_cache_shrink(const tc_allocator *a, const char *folder, int64_t bytes,
                                       tc_cache_size *out_removed);

#endif
