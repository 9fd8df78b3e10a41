// The folder of a compilation (TC_COMPILE_DEBUG=1, --debug-dir=DIR): each stage's text, the generated code, guards, the
// configuration, times, a harness that times the plan, and report.html (report.h).
//
// Each compilation has a folder of its own, DIR/NAME.0, DIR/NAME.1 and so on, also with several processes at once; DIR
// is tc_compile_debug in the working directory where nothing names one.
#ifndef TC_CORE_RUNTIME_DEBUG_H_
#define TC_CORE_RUNTIME_DEBUG_H_

#include "core/runtime/session.h"

// Of a session that was compiled; `imported` is the text of its graph before any pass, `source` what it was made from.
// *out_folder lies in the module's arena, whose guard must be open.
TC_NODISCARD tc_status tc_debug_write(tc_session *s, tc_sv imported, const tc_source *source, const char **out_folder);
// The page again, now with where a run's time went. Opens the guard itself.
TC_NODISCARD tc_status tc_debug_note_run(const tc_session *s, const char *folder, const tc_launch_record *launches,
                                         int32_t n_launches, double ms);

#endif
