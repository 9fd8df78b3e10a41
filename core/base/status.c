// Errors: one heap block per error, which holds the code and a text that notes are appended to.
//
// Invariant: a function here never fails for lack of memory; it then gives back the shared static error, to which notes
// cannot be added and which freeing leaves alone.
#include "core/base/status.h"

#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"

struct tc_status_rep {
  int32_t code;
  bool shared;
  size_t size, capacity; // of text, without and with its NUL
  char *text;            // behind this struct
};

static char out_of_memory_text[] = "out of memory";
static struct tc_status_rep out_of_memory = {TC_STATUS_OUT_OF_MEMORY, true, sizeof out_of_memory_text - 1,
                                             sizeof out_of_memory_text, out_of_memory_text};

static tc_status make(int32_t code, size_t capacity) {
  const tc_allocator *a = tc_system_allocator();
  tc_status s = a->alloc(a->self, sizeof *s + capacity);
  if (s == NULL) return NULL;
  *s = (struct tc_status_rep){.code = code, .capacity = capacity, .text = (char *)(s + 1)};
  s->text[0] = 0;
  return s;
}

// Appends prefix and the formatted text, moving to a larger block when needed; `*s` stays valid in any case.
static void append(tc_status *s, const char *prefix, const char *fmt, va_list args) {
  va_list again;
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, fmt, again);
  va_end(again);
  if (length < 0) return;
  size_t prefix_size = strlen(prefix), want = (*s)->size + prefix_size + (size_t)length + 1;
  if (want > (*s)->capacity) {
    tc_status larger = make((*s)->code, want + want / 2);
    if (larger == NULL) return;
    memcpy(larger->text, (*s)->text, (*s)->size + 1);
    larger->size = (*s)->size;
    tc_status_free(*s);
    *s = larger;
  }
  memcpy((*s)->text + (*s)->size, prefix, prefix_size);
  vsnprintf((*s)->text + (*s)->size + prefix_size, (size_t)length + 1, fmt, args);
  (*s)->size = want - 1;
}

tc_status tc_errorv(int32_t code, const char *fmt, va_list args) {
  tc_status s = make(code == TC_STATUS_OK ? TC_STATUS_INTERNAL : code, 256);
  if (s == NULL) return &out_of_memory;
  append(&s, "", fmt, args);
  return s;
}

tc_status tc_error_out_of_memory(void) { return &out_of_memory; }

tc_status tc_error(int32_t code, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  tc_status s = tc_errorv(code, fmt, args);
  va_end(args);
  return s;
}

static tc_status note(tc_status status, const char *fmt, va_list args) {
  if (status != TC_OK && !status->shared) append(&status, "\n  ", fmt, args);
  return status;
}

tc_status tc_status_note(tc_status status, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  status = note(status, fmt, args);
  va_end(args);
  return status;
}

tc_status tc_status_note_error(tc_status error, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  error = note(error, fmt, args);
  va_end(args);
  return error;
}

int32_t tc_status_code(tc_status status) { return status ? status->code : TC_STATUS_OK; }
const char *tc_status_text(tc_status status) { return status ? status->text : "ok"; }

void tc_status_free(tc_status status) {
  if (status != TC_OK && !status->shared) tc_free(tc_system_allocator(), status);
}

const char *tc_status_name(int32_t code) {
  switch (code) {
#define X(name, number, text) \
  case number: return text;
    TC_STATUS_LIST(X)
#undef X
  default: return "unknown status";
  }
}
