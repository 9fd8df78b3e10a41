// The device: its memory, what it says of itself, the table.
#include <stdarg.h>
#include <stdio.h>

#include "template.h"

// ---- Words and memory of the host ----
int32_t template_fail(const tc_device_ *d, int32_t code, const char *fmt, ...) {
  char text[300];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return tc_host_report(d->host, code, text);
}

void *template_take(const tc_device_ *d, uint64_t size) { return d->host->alloc(d->host->self, size); }
void template_give(const tc_device_ *d, void *p) { d->host->free(d->host->self, p); }

// ---- Opening ----
static int32_t enumerate(const tc_host *h, int32_t *out_count) {
  (void)h;
  *out_count = 1;
  return TC_STATUS_OK;
}

static int32_t open_device(const tc_host *h, int32_t index, tc_device_ **out) {
  if (index != 0) return tc_host_report(h, TC_STATUS_OUT_OF_RANGE, "there is one device, number 0");
  tc_device_ *d = h->alloc(h->self, sizeof *d);
  if (!d) return TC_STATUS_OUT_OF_MEMORY;
  d->host = h;
  pthread_mutex_init(&d->lock, NULL);
  *out = d;
  return TC_STATUS_OK;
}

static void close_device(tc_device_ *d) {
  pthread_mutex_destroy(&d->lock);
  template_give(d, d);
}

#define BIT(type) (1ull << TC_##type)
static int32_t properties(tc_device_ *d, tc_device_props *out) {
  const uint64_t arithmetic = BIT(BOOL) | BIT(U8) | BIT(I8) | BIT(I16) | BIT(I32) | BIT(I64) | BIT(U16) | BIT(U32) |
                              BIT(U64) | BIT(F32) | BIT(F64);
  const tc_device_props p = {.name = "template",
                             .target = TEMPLATE_TARGET,
                             .cores = 1,
                             .max_lanes = 64,
                             .shared_bytes = 32768,
                             .max_blocks = INT32_MAX,
                             .dtypes = arithmetic | BIT(F16) | BIT(BF16),
                             .arithmetic = arithmetic,
                             .atomics = BIT(I32) | BIT(U32) | BIT(I64) | BIT(U64) | BIT(F32) | BIT(F64),
                             .launch_ns = 1000,
                             .flops_per_ns = 1,
                             .bytes_per_ns = 1};
  (void)d;
  tc_answer_struct(&p, sizeof p, out);
  return TC_STATUS_OK;
}

// ---- Memory ----
static int32_t alloc(tc_device_ *d, uint64_t size, tc_handle *out) {
  block *b = size < (uint64_t)1 << 46 ? template_take(d, sizeof *b + size) : NULL;
  if (!b) return template_fail(d, TC_STATUS_OUT_OF_MEMORY, "there are no %llu bytes", (unsigned long long)size);
  b->size = (int64_t)size;
  pthread_mutex_lock(&d->lock);
  d->used += b->size;
  if (d->peak < d->used) d->peak = d->used;
  pthread_mutex_unlock(&d->lock);
  *out = (tc_handle)(uintptr_t)b;
  return TC_STATUS_OK;
}

// Work is done when its function returns, so that nothing queued can still want the memory.
static void free_memory(tc_device_ *d, tc_handle memory) {
  block *b = (block *)(uintptr_t)memory;
  if (!b) return;
  pthread_mutex_lock(&d->lock);
  d->used -= b->size;
  pthread_mutex_unlock(&d->lock);
  template_give(d, b);
}

char *template_range(const tc_device_ *d, tc_handle memory, int64_t offset, uint64_t size) {
  block *b = (block *)(uintptr_t)memory;
  if (b && offset >= 0 && offset <= b->size && size <= (uint64_t)(b->size - offset)) return b->bytes + offset;
  template_fail(d, TC_STATUS_OUT_OF_RANGE, "bytes %lld to %lld of a memory of %lld", (long long)offset,
                (long long)(offset + (int64_t)size), b ? (long long)b->size : 0);
  return NULL;
}

static int32_t memory_stats(tc_device_ *d, tc_memory_stats *out) {
  tc_memory_stats s = {.total_bytes = -1, .free_bytes = -1};
  pthread_mutex_lock(&d->lock);
  s.used_bytes = d->used, s.peak_bytes = d->peak;
  pthread_mutex_unlock(&d->lock);
  tc_answer_struct(&s, sizeof s, out);
  return TC_STATUS_OK;
}

const tc_device_table template_device = {.struct_size = sizeof(tc_device_table),
                                         .enumerate = enumerate,
                                         .open = open_device,
                                         .close = close_device,
                                         .properties = properties,
                                         .alloc = alloc,
                                         .free = free_memory,
                                         .stream_create = template_stream_create,
                                         .stream_destroy = template_stream_destroy,
                                         .synchronize = template_synchronize,
                                         .copy_in = template_copy_in,
                                         .copy_out = template_copy_out,
                                         .copy = template_copy,
                                         .fill = template_fill,
                                         .module_load = template_module_load,
                                         .module_unload = template_module_unload,
                                         .function = template_module_function,
                                         .launch = template_launch,
                                         .graph_begin = template_graph_begin,
                                         .graph_end = template_graph_end,
                                         .graph_launch = template_graph_launch,
                                         .graph_destroy = template_graph_destroy,
                                         .event_create = template_event_create,
                                         .event_destroy = template_event_destroy,
                                         .event_record = template_event_record,
                                         .event_elapsed = template_event_elapsed,
                                         .memory_stats = memory_stats};
