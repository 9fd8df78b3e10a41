// What tcrun is doing, on a terminal: one line of standard error once the work has taken a second, with the time since
// its beginning; it is erased before anything else is written there and at the end. Where standard error is no terminal
// there is none of this: functions ignore NULL.
#ifndef TC_TCRUN_PROGRESS_H_
#define TC_TCRUN_PROGRESS_H_

#include <stdbool.h>

#include "core/base/status.h"

typedef struct tcrun_progress tcrun_progress;

// NULL without a terminal, or without memory. `threaded`: a thread keeps the time; without one (a process that forks)
// the line is drawn when there is something to say.
tcrun_progress *tcrun_progress_start(bool threaded);
void tcrun_progress_stop(tcrun_progress *p); // erases the line; nothing is drawn from then on
void tcrun_progress_free(tcrun_progress *p);
// "compiling model.pt2"; cut to the terminal's width.
void tcrun_progress_say(tcrun_progress *p, const char *fmt, ...) TC_PRINTF(2, 3);
// Between the two the caller writes: the line is away, and nobody draws.
void tcrun_progress_hide(tcrun_progress *p);
void tcrun_progress_show(tcrun_progress *p);

#endif
