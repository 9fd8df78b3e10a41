// A timeline in Chrome's trace format (chrome://tracing, Perfetto): an array of events, microseconds of the monotonic
// clock. It is written as it comes, so that what a crash leaves can be opened, too (the closing bracket is optional in
// that format). Thread-safe; all functions ignore NULL, which is a timeline that nobody wants.
// Format: "Trace Event Format", events X (complete) and C (counter).
#ifndef TC_CORE_BASE_PROFILE_H_
#define TC_CORE_BASE_PROFILE_H_

#include "core/base/str.h"

typedef struct tc_profile tc_profile;

TC_NODISCARD tc_status tc_profile_open(const tc_allocator *a, const char *path, tc_profile **out);
void tc_profile_close(tc_profile *p);
// Work of this thread from `start` to `end` (tc_now_ms).
void tc_profile_span(tc_profile *p, const char *category, tc_sv name, double start, double end);
// What there is of something from `at` on: bytes of an arena.
void tc_profile_counter(tc_profile *p, const char *name, double at, const char *unit, int64_t value);

#endif
