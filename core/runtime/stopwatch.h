// Times of device work by the device's own clock.
//
// A measurement stands between two events, behind a fill of so much memory that nothing is left in the device's caches,
// and the host runs ahead. That is what triton.testing.do_bench measures. Where memory is the host's, or the device has
// no events, there is no such clock (`device` false): the caller measures wall time.
// One thread at a time; the device must outlive it.
#ifndef TC_CORE_RUNTIME_STOPWATCH_H_
#define TC_CORE_RUNTIME_STOPWATCH_H_

#include "core/runtime/device.h"

enum { TC_STOPWATCH_SLOTS = 16 }; // measurements under way

typedef struct tc_stopwatch {
  tc_device *d;
  bool device; // it has the device's clock
  tc_pool_block *flush;
  tc_handle events[2 * TC_STOPWATCH_SLOTS];
  int32_t n_events;
} tc_stopwatch;

// `*out` is to be closed also after a failure.
TC_NODISCARD tc_status tc_stopwatch_open(tc_device *d, tc_stopwatch *out);
void tc_stopwatch_close(tc_stopwatch *w);
// What lies between them in the device's stream is measured. Only with a clock.
TC_NODISCARD tc_status tc_stopwatch_start(tc_stopwatch *w, int32_t slot);
TC_NODISCARD tc_status tc_stopwatch_stop(tc_stopwatch *w, int32_t slot);
TC_NODISCARD tc_status tc_stopwatch_read(tc_stopwatch *w, int32_t slot, double *out_ms); // waits for its end
// Waits until the device has done everything; nothing to do where memory is the host's.
TC_NODISCARD tc_status tc_device_wait(tc_device *d);

#endif
