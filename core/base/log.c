// Log artifacts: names, masks and the one place that formats a line.
#include "core/base/log.h"

#include <stdio.h>

static const tc_sv artifact_names[] = {
#define X(name, text, doc) {text, sizeof(text) - 1},
    TC_LOG_LIST(X)
#undef X
        {"all", 3}};

static void write_nothing(void *self, int32_t artifact, tc_sv text) { (void)self, (void)artifact, (void)text; }
const tc_logger tc_logger_silent = {.write = write_nothing};

// What is named with '-' is off wherever it stands in the list.
tc_status tc_log_parse(tc_sv list, tc_logger *out) {
  uint32_t on = 0, off = 0, detail = 0;
  for (tc_sv word; list.size > 0;) {
    list = tc_sv_cut(list, ',', &word);
    word = tc_sv_trim(word);
    if (word.size == 0) continue;
    bool minus = word.data[0] == '-', plus = word.data[0] == '+';
    tc_sv name = tc_sv_sub(word, minus || plus, word.size);
    int32_t i = 0;
    while (i <= TC_LOG_COUNT && !tc_sv_eq(name, artifact_names[i])) i++;
    if (i > TC_LOG_COUNT) {
      tc_sv near = tc_sv_nearest(name, artifact_names, TC_LOG_COUNT + 1);
      return near.size ? tc_error(TC_STATUS_INVALID_ARGUMENT,
                                  "unknown log artifact '" TC_SV_FMT "'; did you mean '" TC_SV_FMT "'?",
                                  TC_SV_ARG(name), TC_SV_ARG(near))
                       : tc_error(TC_STATUS_INVALID_ARGUMENT,
                                  "unknown log artifact '" TC_SV_FMT "'; there are: all"
#define X(name, text, doc) ", " text
                                  TC_LOG_LIST(X),
#undef X
                                  TC_SV_ARG(name));
    }
    uint32_t bits = i == TC_LOG_COUNT ? (1u << TC_LOG_COUNT) - 1 : 1u << i;
    if (minus) off |= bits;
    else on |= bits;
    if (plus) detail |= bits;
  }
  out->mask = on & ~off;
  out->detail = detail & ~off;
  return TC_OK;
}

void tc_log(const tc_logger *lg, int32_t artifact, const char *fmt, ...) {
  if (!tc_log_on(lg, artifact)) return;
  char line[1024], *text = line;
  va_list args, again;
  va_start(args, fmt);
  va_copy(again, args);
  int length = vsnprintf(line, sizeof line, fmt, args);
  va_end(args);
  if (length >= (int)sizeof line) {
    const tc_allocator *a = tc_system_allocator();
    text = a->alloc(a->self, (size_t)length + 1);
    if (text != NULL) vsnprintf(text, (size_t)length + 1, fmt, again);
    else text = line, length = sizeof line - 1; // cut short rather than lost
  }
  va_end(again);
  if (length >= 0) lg->write(lg->self, artifact, (tc_sv){text, (size_t)length});
  if (text != line) tc_free(tc_system_allocator(), text);
}

const char *tc_log_name(int32_t artifact) {
  return artifact >= 0 && artifact < TC_LOG_COUNT ? artifact_names[artifact].data : "unknown";
}

void tc_log_to_stderr(void *self, int32_t artifact, tc_sv text) {
  char head[64];
  (void)self;
  snprintf(head, sizeof head, "[%s] ", tc_log_name(artifact));
  flockfile(stderr);
  fputs(head, stderr);
  fwrite(text.data, 1, text.size, stderr);
  fputc('\n', stderr);
  funlockfile(stderr);
}
