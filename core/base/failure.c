// First failures, kept as text in an arena.
#include "core/base/failure.h"

#include <string.h>

void tc_failure_keep(tc_failure *f, tc_arena *arena, tc_status status) {
  if (status == TC_OK) return;
  if (!tc_failed(f)) {
    f->code = tc_status_code(status);
    size_t size = strlen(tc_status_text(status)) + 1;
    char *text = f->code == TC_STATUS_OUT_OF_MEMORY ? NULL : tc_arena_try_alloc(arena, size);
    if (text != NULL) memcpy(text, tc_status_text(status), size);
    f->text = text;
  }
  tc_status_free(status);
}

tc_status tc_failure_take(tc_failure *f) {
  tc_failure kept = *f;
  *f = (tc_failure){0};
  if (!tc_failed(&kept)) return TC_OK;
  return kept.text ? tc_error(kept.code, "%s", kept.text) : tc_error_out_of_memory();
}
