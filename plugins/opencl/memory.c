// Memory: buffer objects and what they come to, copies, fills.
//
// Copies from the host have taken the bytes when they return, copies to the host have delivered them: both wait for the
// queue, which is in order.
#include "opencl.h"

static cl_queue queue_of(tc_handle h) { return (cl_queue)(uintptr_t)h; }
static cl_mem buffer_of(tc_handle h) { return (cl_mem)(uintptr_t)h; }

int32_t opencl_check(const tc_device_ *d, const char *what, cl_int code) {
  return cl_driver_check(d->host, what, code);
}

static void count(tc_device_ *d, int64_t bytes) {
  pthread_mutex_lock(&d->lock);
  d->used += bytes;
  if (d->peak < d->used) d->peak = d->used;
  pthread_mutex_unlock(&d->lock);
}

int32_t opencl_alloc(tc_device_ *d, uint64_t size, tc_handle *out) {
  cl_int code = CL_SUCCESS;
  *out = 0;
  if (d->most_bytes && size > d->most_bytes) return opencl_check(d, "clCreateBuffer", CL_INVALID_BUFFER_SIZE);
  cl_mem m = d->driver.buffer_create(d->context, CL_MEM_READ_WRITE, size + !size, NULL, &code);
  *out = (tc_handle)(uintptr_t)m;
  if (m) count(d, (int64_t)size + !size);
  return opencl_check(d, "clCreateBuffer", code);
}

// The driver keeps a buffer for as long as queued work uses it.
void opencl_free(tc_device_ *d, tc_handle memory) {
  size_t size = 0;
  if (!memory) return;
  d->driver.buffer_info(buffer_of(memory), CL_MEM_BYTES, sizeof size, &size, NULL);
  count(d, -(int64_t)size);
  d->driver.buffer_release(buffer_of(memory));
}

// OpenCL does not say what is free.
int32_t opencl_memory_stats(tc_device_ *d, tc_memory_stats *out) {
  tc_memory_stats m = {.total_bytes = d->props.memory_bytes, .free_bytes = -1};
  pthread_mutex_lock(&d->lock);
  m.used_bytes = d->used, m.peak_bytes = d->peak;
  pthread_mutex_unlock(&d->lock);
  tc_answer_struct(&m, sizeof m, out);
  return TC_STATUS_OK;
}

int32_t opencl_copy_in(tc_device_ *d, tc_handle stream, tc_handle dst, int64_t dst_offset, const void *src,
                       uint64_t size) {
  if (!size) return TC_STATUS_OK;
  return opencl_check(
      d, "clEnqueueWriteBuffer",
      d->driver.write(queue_of(stream), buffer_of(dst), CL_TRUE, (size_t)dst_offset, size, src, 0, NULL, NULL));
}

int32_t opencl_copy_out(tc_device_ *d, tc_handle stream, void *dst, tc_handle src, int64_t src_offset, uint64_t size) {
  if (!size) return TC_STATUS_OK;
  return opencl_check(
      d, "clEnqueueReadBuffer",
      d->driver.read(queue_of(stream), buffer_of(src), CL_TRUE, (size_t)src_offset, size, dst, 0, NULL, NULL));
}

int32_t opencl_copy(tc_device_ *d, tc_handle stream, tc_handle dst, int64_t dst_offset, tc_handle src,
                    int64_t src_offset, uint64_t size) {
  if (!size) return TC_STATUS_OK;
  return opencl_check(d, "clEnqueueCopyBuffer",
                      d->driver.copy(queue_of(stream), buffer_of(src), buffer_of(dst), (size_t)src_offset,
                                     (size_t)dst_offset, size, 0, NULL, NULL));
}

int32_t opencl_fill(tc_device_ *d, tc_handle stream, tc_handle dst, int64_t offset, uint8_t value, uint64_t size) {
  if (!size) return TC_STATUS_OK;
  return opencl_check(d, "clEnqueueFillBuffer",
                      d->driver.fill(queue_of(stream), buffer_of(dst), &value, 1, (size_t)offset, size, 0, NULL, NULL));
}
