// Device graphs and events.
//
// A recording is a capture (CUDA driver API, "Stream management": cuStreamBeginCapture) of a stream of its own, which
// only lives as long as the recording: what other threads do on the device's streams, allocations among it, is neither
// captured nor refused, since the capture is of the relaxed kind. The stream does not count where memory is allocated
// in the order of the one stream that there is.
#include "cuda.h"

static cu_stream stream_of(tc_handle h) { return (cu_stream)(uintptr_t)h; }
static cu_event event_of(tc_handle h) { return (cu_event)(uintptr_t)h; }

// ---- Graphs ----
int32_t cuda_graph_begin(tc_device_ *d, tc_handle *out_stream) {
  cu_stream stream = NULL;
  int32_t s = cuda_enter(d);
  if (s != TC_STATUS_OK) return s;
  if (d->sync)
    return cuda_report(d->host, TC_STATUS_UNIMPLEMENTED, "cuda.sync waits for every launch, which a recording cannot");
  s = cuda_check(d, "cuStreamCreate", d->driver.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  if (s != TC_STATUS_OK) return s;
  s = cuda_check(d, "cuStreamBeginCapture", d->driver.capture_begin(stream, CU_CAPTURE_RELAXED));
  if (s != TC_STATUS_OK) d->driver.stream_destroy(stream);
  else *out_stream = (tc_handle)(uintptr_t)stream;
  return s;
}

int32_t cuda_graph_end(tc_device_ *d, tc_handle stream, tc_handle *out) {
  cu_graph graph = NULL;
  cu_graph_exec made = NULL;
  int32_t s = cuda_enter(d);
  if (s != TC_STATUS_OK) return s;
  cu_result code = d->driver.capture_end(stream_of(stream), &graph);
  d->driver.stream_destroy(stream_of(stream));
  if (!out) { // a recording that failed may end in an error, which was told already
    if (graph) d->driver.graph_destroy(graph);
    return TC_STATUS_OK;
  }
  s = cuda_check(d, "cuStreamEndCapture", code);
  if (s == TC_STATUS_OK) s = cuda_check(d, "cuGraphInstantiateWithFlags", d->driver.graph_instantiate(&made, graph, 0));
  if (graph) d->driver.graph_destroy(graph);
  if (s == TC_STATUS_OK) *out = (tc_handle)(uintptr_t)made;
  return s;
}

int32_t cuda_graph_launch(tc_device_ *d, tc_handle stream, tc_handle graph) {
  int32_t s = cuda_enter(d);
  if (s != TC_STATUS_OK) return s;
  return cuda_check(d, "cuGraphLaunch", d->driver.graph_launch((cu_graph_exec)(uintptr_t)graph, stream_of(stream)));
}

void cuda_graph_destroy(tc_device_ *d, tc_handle graph) {
  if (graph && cuda_enter(d) == TC_STATUS_OK) d->driver.graph_exec_destroy((cu_graph_exec)(uintptr_t)graph);
}

// ---- Events ----
int32_t cuda_event_create(tc_device_ *d, tc_handle *out) {
  cu_event event = NULL;
  int32_t s = cuda_enter(d);
  if (s == TC_STATUS_OK) s = cuda_check(d, "cuEventCreate", d->driver.event_create(&event, CU_EVENT_DEFAULT));
  if (s == TC_STATUS_OK) *out = (tc_handle)(uintptr_t)event;
  return s;
}

void cuda_event_destroy(tc_device_ *d, tc_handle event) {
  if (event && cuda_enter(d) == TC_STATUS_OK) d->driver.event_destroy(event_of(event));
}

int32_t cuda_event_record(tc_device_ *d, tc_handle stream, tc_handle event) {
  int32_t s = cuda_enter(d);
  if (s != TC_STATUS_OK) return s;
  return cuda_check(d, "cuEventRecord", d->driver.event_record(event_of(event), stream_of(stream)));
}

int32_t cuda_event_elapsed(tc_device_ *d, tc_handle from, tc_handle to, double *out_ns) {
  float ms = 0;
  int32_t s = cuda_enter(d);
  if (s == TC_STATUS_OK) s = cuda_check(d, "cuEventSynchronize", d->driver.event_synchronize(event_of(to)));
  if (s == TC_STATUS_OK)
    s = cuda_check(d, "cuEventElapsedTime", d->driver.event_elapsed(&ms, event_of(from), event_of(to)));
  if (s == TC_STATUS_OK) *out_ns = (double)ms * 1e6;
  return s;
}
