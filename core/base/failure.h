// The first failure of something that goes on: a builder whose calls do nothing once one has failed.
//
// A status that lies in such a struct would be lost when an arena unwinds over it (alloc.h), so the failure is kept as
// a code and a text in the arena, and becomes a status again when it is handed out.
#ifndef TC_CORE_BASE_FAILURE_H_
#define TC_CORE_BASE_FAILURE_H_

#include "core/base/alloc.h"

// Zeroed: nothing has failed. Belongs to one thread.
typedef struct tc_failure {
  int32_t code;     // TC_STATUS_*
  const char *text; // in the arena; NULL where memory was short, or the reason is that it was
} tc_failure;

static inline bool tc_failed(const tc_failure *f) { return f->code != TC_STATUS_OK; }
// Keeps `status`, unless it is TC_OK or something has failed before. Takes `status`. Never unwinds.
void tc_failure_keep(tc_failure *f, tc_arena *arena, tc_status status);
// The failure as a status, or TC_OK; afterwards nothing has failed.
TC_NODISCARD tc_status tc_failure_take(tc_failure *f);

#endif
