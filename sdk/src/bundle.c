// Bundles: how code objects are written and read (tc/bundle.h).
//
// The checksum is FNV-1a over everything, the header with a zero in its place. It is no defence against somebody, who
// may as well change the plugin; it catches files that a full disk or a crash cut short.
#include "tc/bundle.h"

#include <stdlib.h>
#include <string.h>

enum { TARGET = 256, CODE_ALIGN = 64 };
#define MAGIC 0x454C444E55424354ull // "TCBUNDLE"

typedef struct header {
  uint64_t magic, size, sum;
  char target[TARGET];
  int32_t n, reserved;
} header;
typedef struct entry {
  uint64_t name_at, name_size, symbol_at, symbol_size, code_at, code_size;
  int32_t lanes, n_params;
  int64_t shared_bytes;
} entry;

void tc_bytes_put(void *self, const char *data, size_t size) {
  tc_bytes *b = self;
  if (b->failed) return;
  if (size >= b->capacity - b->size) {
    size_t capacity = (b->size + size + 1) * 2 + 4096;
    char *more = realloc(b->data, capacity);
    if (!more) {
      b->failed = 1;
      return;
    }
    b->data = more, b->capacity = capacity;
  }
  if (size) memcpy(b->data + b->size, data, size);
  b->size += size;
  b->data[b->size] = 0;
}

void tc_bytes_free(tc_bytes *b) {
  free(b->data);
  *b = (tc_bytes){0};
}

int32_t tc_host_config(const tc_host *h, const char *key, char *text, size_t size) {
  tc_sv value = h->config(h->self, (tc_sv){key, strlen(key)});
  if (!value.size || value.size >= size) return 0;
  memcpy(text, value.data, value.size);
  text[value.size] = 0;
  return 1;
}

int32_t tc_host_report(const tc_host *h, int32_t code, const char *text) {
  h->diag(h->self, code, (tc_sv){text, strlen(text)});
  return code;
}

static uint64_t add_sum(uint64_t h, const char *data, uint64_t size) {
  for (uint64_t i = 0; i < size; i++) h = (h ^ (uint8_t)data[i]) * 0x100000001b3ull;
  return h;
}

// Of the header and what lies behind it.
static uint64_t sum_of(header h, const char *behind, uint64_t size) {
  h.sum = 0;
  return add_sum(add_sum(0xcbf29ce484222325ull, (const char *)&h, sizeof h), behind, size);
}

// ---- Writing ----
static void put_text(tc_bytes *b, tc_sv text, uint64_t *at, uint64_t *size) {
  *at = b->size, *size = text.size;
  tc_bytes_put(b, text.data, text.size);
}

int32_t tc_bundle_write(const char *target, int32_t n, const tc_bundle_kernel *kernels, const tc_sink *sink) {
  static const char zeros[CODE_ALIGN];
  tc_bytes b = {0};
  header h = {.magic = MAGIC, .n = n};
  if (n < 0 || strlen(target) >= TARGET) return TC_STATUS_INVALID_ARGUMENT;
  memcpy(h.target, target, strlen(target));
  tc_bytes_put(&b, (const char *)&h, sizeof h);
  for (int32_t i = 0; i < n; i++) tc_bytes_put(&b, (const char *)&(entry){0}, sizeof(entry));
  for (int32_t i = 0; i < n; i++) {
    const tc_bundle_kernel *k = &kernels[i];
    entry e = {.lanes = k->lanes, .n_params = k->n_params, .shared_bytes = k->shared_bytes};
    put_text(&b, k->name, &e.name_at, &e.name_size);
    put_text(&b, k->symbol, &e.symbol_at, &e.symbol_size);
    tc_bytes_put(&b, zeros, (CODE_ALIGN - b.size % CODE_ALIGN) % CODE_ALIGN);
    put_text(&b, k->code, &e.code_at, &e.code_size);
    if (!b.failed) memcpy(b.data + sizeof h + (size_t)i * sizeof e, &e, sizeof e);
  }
  int32_t s = TC_STATUS_OUT_OF_MEMORY;
  if (!b.failed) {
    h.size = b.size;
    h.sum = sum_of(h, b.data + sizeof h, b.size - sizeof h);
    memcpy(b.data, &h, sizeof h);
    s = sink->write(sink->self, b.data, b.size);
  }
  tc_bytes_free(&b);
  return s;
}

// ---- Reading ----
static int32_t inside(uint64_t at, uint64_t size, uint64_t all) { return at <= all && size <= all - at; }

static const char *fault_of(const char *data, uint64_t size, const char *target, header *h) {
  if (size < sizeof *h) return "it is too short";
  memcpy(h, data, sizeof *h);
  if (h->magic != MAGIC || h->size != size) return "its header";
  if (sum_of(*h, data + sizeof *h, size - sizeof *h) != h->sum) return "its checksum";
  h->target[TARGET - 1] = 0;
  if (strcmp(h->target, target) != 0) return "it is for another device or compiler";
  if (h->n < 0 || !inside(sizeof *h, (uint64_t)h->n * sizeof(entry), size)) return "its entries";
  for (int32_t i = 0; i < h->n; i++) {
    entry e;
    memcpy(&e, data + sizeof *h + (size_t)i * sizeof e, sizeof e);
    if (!inside(e.name_at, e.name_size, size) || !inside(e.symbol_at, e.symbol_size, size) ||
        !inside(e.code_at, e.code_size, size) || e.lanes < 1 || e.n_params < 0 || e.shared_bytes < 0)
      return "an entry";
  }
  return NULL;
}

int32_t tc_bundle_check(const void *data, uint64_t size, const char *target, int32_t *out_n, const char **out_reason) {
  header h = {0};
  const char *fault = fault_of(data, size, target, &h);
  *out_n = fault ? 0 : h.n;
  *out_reason = fault;
  return fault ? TC_STATUS_DATA_LOSS : TC_STATUS_OK;
}

void tc_bundle_get(const void *data, int32_t i, tc_bundle_kernel *out) {
  const char *p = data;
  entry e;
  memcpy(&e, p + sizeof(header) + (size_t)i * sizeof e, sizeof e);
  *out = (tc_bundle_kernel){.name = {p + e.name_at, e.name_size},
                            .symbol = {p + e.symbol_at, e.symbol_size},
                            .code = {p + e.code_at, e.code_size},
                            .lanes = e.lanes,
                            .n_params = e.n_params,
                            .shared_bytes = e.shared_bytes};
}
