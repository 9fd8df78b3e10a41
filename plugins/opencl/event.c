// Events: points in a queue that the device notes the time of.
//
// A recorded event is a marker ("The OpenCL Specification, version 1.2", 5.10): it ends when all that was queued before
// it has ended, and its profile says when that was. Queues note times unless the config key `profiling` is false.
#include "opencl.h"

typedef struct event {
  cl_event marker; // of the last record; NULL: none yet
} event;

int32_t opencl_event_create(tc_device_ *d, tc_handle *out) {
  *out = 0;
  if (!d->profiling)
    return tc_host_report(d->host, TC_STATUS_UNIMPLEMENTED, "opencl.profiling is false: queues note no times");
  event *e = d->host->alloc(d->host->self, sizeof *e);
  *out = (tc_handle)(uintptr_t)e;
  return e ? TC_STATUS_OK : TC_STATUS_OUT_OF_MEMORY;
}

void opencl_event_destroy(tc_device_ *d, tc_handle handle) {
  event *e = (event *)(uintptr_t)handle;
  if (!e) return;
  if (e->marker) d->driver.event_release(e->marker);
  d->host->free(d->host->self, e);
}

int32_t opencl_event_record(tc_device_ *d, tc_handle stream, tc_handle handle) {
  event *e = (event *)(uintptr_t)handle;
  cl_event marker = NULL;
  int32_t s =
      opencl_check(d, "clEnqueueMarkerWithWaitList", d->driver.marker((cl_queue)(uintptr_t)stream, 0, NULL, &marker));
  if (s != TC_STATUS_OK) return s;
  if (e->marker) d->driver.event_release(e->marker);
  e->marker = marker;
  return TC_STATUS_OK;
}

static int32_t time_of(tc_device_ *d, const event *e, uint64_t *out_ns) {
  if (!e->marker)
    return tc_host_report(d->host, TC_STATUS_INVALID_ARGUMENT, "the time of an event that was never recorded");
  int32_t s = opencl_check(d, "clWaitForEvents", d->driver.events_wait(1, &e->marker));
  if (s != TC_STATUS_OK) return s;
  return opencl_check(d, "clGetEventProfilingInfo",
                      d->driver.event_profile(e->marker, CL_PROFILING_END, sizeof *out_ns, out_ns, NULL));
}

int32_t opencl_event_elapsed(tc_device_ *d, tc_handle from, tc_handle to, double *out_ns) {
  uint64_t begin = 0, end = 0;
  int32_t s = time_of(d, (const event *)(uintptr_t)to, &end);
  if (s == TC_STATUS_OK) s = time_of(d, (const event *)(uintptr_t)from, &begin);
  if (s == TC_STATUS_OK) *out_ns = (double)(int64_t)(end - begin);
  return s;
}
