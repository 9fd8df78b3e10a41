// Work in order. A stream does at once what it is given, or, while it records, keeps it as commands; a graph is such a
// list of commands, done one after the other at each launch. A driver's queue and its recordings take this file's
// place.
#include <string.h>
#include <time.h>

#include "template.h"

typedef struct command {
  struct command *next;
  int32_t kind, fill, n_args;
  tc_handle dst, src, errors;
  int64_t dst_at, src_at, blocks;
  uint64_t size;
  const function *f;
  tc_launch_arg args[];
} command;
enum { COPY, FILL, LAUNCH };

typedef struct stream {
  int32_t records;
  command *first, **last;
} stream;

static void free_commands(const tc_device_ *d, command *c) {
  for (command *next; c; c = next) {
    next = c->next;
    template_give(d, c);
  }
}

// ---- Doing ----
static int32_t perform(const tc_device_ *d, const command *c, const tc_launch_arg *args) {
  if (c->kind == LAUNCH) {
    char *errors = c->errors ? template_range(d, c->errors, 0, sizeof(tc_error_block)) : NULL;
    if (c->errors && !errors) return TC_STATUS_OUT_OF_RANGE;
    return template_run(d, c->f, c->blocks, args, (tc_error_block *)(void *)errors);
  }
  char *to = template_range(d, c->dst, c->dst_at, c->size);
  if (!to) return TC_STATUS_OUT_OF_RANGE;
  if (c->kind == FILL) {
    memset(to, c->fill, c->size);
    return TC_STATUS_OK;
  }
  const char *from = template_range(d, c->src, c->src_at, c->size);
  if (!from) return TC_STATUS_OUT_OF_RANGE;
  memmove(to, from, c->size);
  return TC_STATUS_OK;
}

static int32_t put(const tc_device_ *d, tc_handle handle, const command *c, const tc_launch_arg *args) {
  stream *s = (stream *)(uintptr_t)handle;
  if (!s->records) return perform(d, c, args);
  size_t bytes = (size_t)c->n_args * sizeof *args;
  command *kept = template_take(d, sizeof *kept + bytes);
  if (!kept) return TC_STATUS_OUT_OF_MEMORY;
  *kept = *c;
  if (args && bytes) memcpy(kept->args, args, bytes);
  *s->last = kept;
  s->last = &kept->next;
  return TC_STATUS_OK;
}

// ---- Streams ----
static int32_t new_stream(tc_device_ *d, int32_t records, tc_handle *out) {
  stream *s = template_take(d, sizeof *s);
  if (!s) return TC_STATUS_OUT_OF_MEMORY;
  s->records = records;
  s->last = &s->first;
  *out = (tc_handle)(uintptr_t)s;
  return TC_STATUS_OK;
}
int32_t template_stream_create(tc_device_ *d, tc_handle *out) { return new_stream(d, 0, out); }
void template_stream_destroy(tc_device_ *d, tc_handle s) { template_give(d, (stream *)(uintptr_t)s); }
int32_t template_synchronize(tc_device_ *d, tc_handle s) { return (void)d, (void)s, TC_STATUS_OK; }

int32_t template_copy_in(tc_device_ *d, tc_handle s, tc_handle dst, int64_t at, const void *src, uint64_t size) {
  char *to = template_range(d, dst, at, size);
  (void)s;
  if (to && size) memcpy(to, src, size);
  return to ? TC_STATUS_OK : TC_STATUS_OUT_OF_RANGE;
}

int32_t template_copy_out(tc_device_ *d, tc_handle s, void *dst, tc_handle src, int64_t at, uint64_t size) {
  const char *from = template_range(d, src, at, size);
  (void)s;
  if (from && size) memcpy(dst, from, size);
  return from ? TC_STATUS_OK : TC_STATUS_OUT_OF_RANGE;
}

int32_t template_copy(tc_device_ *d, tc_handle s, tc_handle dst, int64_t dst_at, tc_handle src, int64_t src_at,
                      uint64_t size) {
  const command c = {.kind = COPY, .dst = dst, .dst_at = dst_at, .src = src, .src_at = src_at, .size = size};
  return put(d, s, &c, NULL);
}

int32_t template_fill(tc_device_ *d, tc_handle s, tc_handle dst, int64_t at, uint8_t value, uint64_t size) {
  const command c = {.kind = FILL, .fill = value, .dst = dst, .dst_at = at, .size = size};
  return put(d, s, &c, NULL);
}

int32_t template_launch(tc_device_ *d, tc_handle s, const tc_launch *l) {
  const function *f = (const function *)(uintptr_t)l->function;
  if (l->blocks <= 0) return TC_STATUS_OK;
  if (l->n_args != f->p.head.n_params)
    return template_fail(d, TC_STATUS_INVALID_ARGUMENT, "@%.150s has %d arguments, it is launched with %d", f->name,
                         (int)f->p.head.n_params, (int)l->n_args);
  const command c = {.kind = LAUNCH, .f = f, .blocks = l->blocks, .n_args = l->n_args, .errors = l->errors};
  return put(d, s, &c, l->args);
}

// ---- Recording ----
int32_t template_graph_begin(tc_device_ *d, tc_handle *out_stream) { return new_stream(d, 1, out_stream); }

int32_t template_graph_end(tc_device_ *d, tc_handle handle, tc_handle *out) {
  stream *s = (stream *)(uintptr_t)handle;
  if (out) *out = handle; // the graph is the recording, which takes nothing more
  else {
    free_commands(d, s->first);
    template_give(d, s);
  }
  return TC_STATUS_OK;
}

int32_t template_graph_launch(tc_device_ *d, tc_handle stream_, tc_handle graph) {
  const stream *g = (const stream *)(uintptr_t)graph;
  (void)stream_;
  for (const command *c = g->first; c; c = c->next) {
    int32_t code = perform(d, c, c->args);
    if (code != TC_STATUS_OK) return code;
  }
  return TC_STATUS_OK;
}

void template_graph_destroy(tc_device_ *d, tc_handle graph) { template_graph_end(d, graph, NULL); }

// ---- Points in time ----
int32_t template_event_create(tc_device_ *d, tc_handle *out) {
  struct timespec *t = template_take(d, sizeof *t);
  *out = (tc_handle)(uintptr_t)t;
  return t ? TC_STATUS_OK : TC_STATUS_OUT_OF_MEMORY;
}
void template_event_destroy(tc_device_ *d, tc_handle event) { template_give(d, (void *)(uintptr_t)event); }

int32_t template_event_record(tc_device_ *d, tc_handle s, tc_handle event) {
  (void)d, (void)s;
  clock_gettime(CLOCK_MONOTONIC, (struct timespec *)(uintptr_t)event);
  return TC_STATUS_OK;
}

int32_t template_event_elapsed(tc_device_ *d, tc_handle from, tc_handle to, double *out_ns) {
  const struct timespec *a = (const struct timespec *)(uintptr_t)from, *b = (const struct timespec *)(uintptr_t)to;
  (void)d;
  *out_ns = (double)(b->tv_sec - a->tv_sec) * 1e9 + (double)(b->tv_nsec - a->tv_nsec);
  return TC_STATUS_OK;
}
