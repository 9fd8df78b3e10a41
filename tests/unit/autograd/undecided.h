// The list of derivatives that no call decides, or that are not the function's at all arguments: undecided.txt, whose
// lines derivatives.h explains.
#ifndef TC_TESTS_UNIT_AUTOGRAD_UNDECIDED_H_
#define TC_TESTS_UNIT_AUTOGRAD_UNDECIDED_H_

#include "core/base/fs.h"
#include "core/base/vec.h"

// Its lines by what stands in front of the colon.
static inline tc_status undecided_read(tc_arena *arena, tc_map **out) {
  tc_sv text, line;
  *out = tc_map_create(arena);
  TC_TRY(tc_file_read(arena, TC_SOURCE_DIR "/tests/unit/autograd/undecided.txt", &text));
  while (text.size) {
    text = tc_sv_cut(text, '\n', &line);
    if (!line.size || line.data[0] == '#') continue;
    size_t at = 0;
    while (at + 1 < line.size && !(line.data[at] == ':' && line.data[at + 1] == ' ')) at++;
    if (at + 3 > line.size) return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ": no reason", TC_SV_ARG(line));
    tc_map_put(*out, tc_sv_sub(line, 0, at), NULL);
  }
  return TC_OK;
}

#endif
