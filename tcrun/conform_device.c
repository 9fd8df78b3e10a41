// tcrun conform, group device: properties, memory, copies, streams, failures. And group fault: memory of the host
// that runs short.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tcrun/conform.h"

#define CASE(name) KIT_CASE(kit_with_device, name)

static const tc_device_table *table_of(const kit *k) { return k->plugin->device; }

// ---- Opening ----
CASE(properties) {
  const tc_device_table *t = table_of(k);
  const tc_device_props *p = &k->props;
  KIT_CHECK(memchr(p->name, 0, sizeof p->name) && p->name[0], "properties: the name is empty or not ended");
  KIT_CHECK(memchr(p->target, 0, sizeof p->target), "properties: the target is not ended");
  KIT_CHECK(p->cores >= 0 && p->max_lanes >= 0 && p->shared_bytes >= 0 && p->max_blocks >= 0 && p->launch_ns >= 0,
            "properties: a negative number");
  KIT_CHECK(!p->memory_bytes || !p->largest_alloc || p->largest_alloc <= p->memory_bytes,
            "properties: largest_alloc is more than memory_bytes");
  KIT_CHECK(!(p->arithmetic & ~p->dtypes) || !p->dtypes, "properties: arithmetic on types that are not loaded");
  KIT_CHECK(!(k->about.capabilities & TC_CAP_CODEGEN) || p->target[0],
            "properties: the target is empty; it identifies generated code");
  // A host that knows less must not be written behind.
  struct {
    tc_device_props p;
  } less;
  memset(&less, 0x5a, sizeof less);
  less.p.struct_size = offsetof(tc_device_props, memory_bytes);
  KIT_OK(k, t->properties(k->device, &less.p));
  const unsigned char *bytes = (const unsigned char *)&less;
  for (size_t i = offsetof(tc_device_props, memory_bytes); i < sizeof less; i++)
    KIT_CHECK(bytes[i] == 0x5a, "properties writes behind out->struct_size, at byte %zu", i);
  return TC_OK;
}

CASE(no_such_device) {
  const tc_device_table *t = table_of(k);
  int32_t n = 0;
  tc_device_ *other = NULL;
  KIT_OK(k, t->enumerate(&k->services.host, &n));
  k->services.n_diags = 0;
  TC_TRY(kit_must_fail(k, "open of a device behind the last", t->open(&k->services.host, n + 1000, &other)));
  k->services.n_diags = 0;
  return kit_must_fail(k, "open of device -1", t->open(&k->services.host, -1, &other));
}

CASE(second_instance) {
  const tc_device_table *t = table_of(k);
  tc_device_ *other = NULL;
  tc_handle a = 0, b = 0, stream = 0;
  uint8_t got[64] = {0};
  KIT_OK(k, t->open(&k->services.host, 0, &other));
  KIT_OK(k, t->stream_create(other, &stream));
  KIT_OK(k, t->alloc(k->device, 64, &a));
  KIT_OK(k, t->alloc(other, 64, &b));
  KIT_OK(k, t->fill(k->device, k->stream, a, 0, 1, 64));
  KIT_OK(k, t->fill(other, stream, b, 0, 2, 64));
  KIT_OK(k, t->copy_out(k->device, k->stream, got, a, 0, 64));
  KIT_CHECK(got[0] == 1 && got[63] == 1, "two instances of a device share memory");
  t->free(other, b);
  t->stream_destroy(other, stream);
  t->close(other);
  KIT_OK(k, t->copy_out(k->device, k->stream, got, a, 0, 64)); // the first one still works
  t->free(k->device, a);
  return TC_OK;
}

// ---- Memory ----
CASE(allocations) {
  const tc_device_table *t = table_of(k);
  static const uint64_t sizes[] = {1, 3, 64, 65, 4096, 1000003, 1 << 24};
  tc_handle m[7];
  for (int32_t i = 0; i < 7; i++) {
    KIT_OK(k, t->alloc(k->device, sizes[i], &m[i]));
    KIT_CHECK(m[i] != 0, "alloc gives the handle 0, which is none");
    KIT_CHECK(!k->props.host_memory || m[i] % 64 == 0, "memory is not aligned to 64 bytes");
    for (int32_t j = 0; j < i; j++) KIT_CHECK(m[i] != m[j], "two allocations have one handle");
  }
  for (int32_t i = 0; i < 7; i++) { // the last byte is there
    uint8_t v = (uint8_t)(i + 1), got = 0;
    KIT_OK(k, t->copy_in(k->device, k->stream, m[i], (int64_t)sizes[i] - 1, &v, 1));
    KIT_OK(k, t->copy_out(k->device, k->stream, &got, m[i], (int64_t)sizes[i] - 1, 1));
    KIT_CHECK(got == v, "the last byte of %llu reads %d, %d was written", (unsigned long long)sizes[i], got, v);
  }
  for (int32_t i = 0; i < 7; i++) t->free(k->device, m[i]);
  return TC_OK;
}

CASE(too_much) {
  const tc_device_table *t = table_of(k);
  tc_handle m = 0;
  k->services.n_diags = 0;
  int32_t code = t->alloc(k->device, (uint64_t)1 << 56, &m);
  KIT_CHECK(code == TC_STATUS_OUT_OF_MEMORY || code == TC_STATUS_RESOURCE_EXHAUSTED,
            "an allocation of 2^56 bytes gives the code %d; OUT_OF_MEMORY is expected", code);
  KIT_OK(k, t->alloc(k->device, 64, &m));
  t->free(k->device, m);
  return TC_OK;
}

// Copies at odd places and sizes, checked against a copy on the host.
CASE(copies) {
  const tc_device_table *t = table_of(k);
  enum { SIZE = 5000, ROUNDS = 200 };
  uint8_t *want[2], *data = tc_arena_alloc(k->arena, SIZE);
  tc_handle m[2];
  for (int32_t i = 0; i < 2; i++) {
    want[i] = tc_arena_alloc(k->arena, SIZE);
    for (int32_t b = 0; b < SIZE; b++) want[i][b] = (uint8_t)kit_random(k);
    KIT_OK(k, t->alloc(k->device, SIZE, &m[i]));
    KIT_OK(k, t->copy_in(k->device, k->stream, m[i], 0, want[i], SIZE));
  }
  for (int32_t r = 0; r < ROUNDS; r++) {
    int32_t to = (int32_t)(kit_random(k) % 2);
    uint64_t size = kit_random(k) % (SIZE / 2);
    int64_t at = (int64_t)(kit_random(k) % (SIZE - size + 1)), from = (int64_t)(kit_random(k) % (SIZE - size + 1));
    switch (kit_random(k) % 3) {
    case 0:
      for (uint64_t b = 0; b < size; b++) data[b] = (uint8_t)kit_random(k);
      KIT_OK(k, t->copy_in(k->device, k->stream, m[to], at, data, size));
      memcpy(want[to] + at, data, size);
      memset(data, 0xee, SIZE); // the bytes were taken when copy_in returned
      break;
    case 1:
      KIT_OK(k, t->copy(k->device, k->stream, m[to], at, m[1 - to], from, size));
      memcpy(want[to] + at, want[1 - to] + from, size);
      break;
    default: {
      uint8_t v = (uint8_t)kit_random(k);
      KIT_OK(k, t->fill(k->device, k->stream, m[to], at, v, size));
      memset(want[to] + at, v, size);
    }
    }
  }
  for (int32_t i = 0; i < 2; i++) {
    KIT_OK(k, t->copy_out(k->device, k->stream, data, m[i], 0, SIZE));
    for (int32_t b = 0; b < SIZE; b++)
      KIT_CHECK(data[b] == want[i][b], "after %d copies and fills byte %d of %d is %d, it should be %d", ROUNDS, b,
                SIZE, data[b], want[i][b]);
    t->free(k->device, m[i]);
  }
  KIT_OK(k, t->synchronize(k->device, k->stream));
  return TC_OK;
}

// Memory freed behind queued work must be good until the work is done.
CASE(order) {
  const tc_device_table *t = table_of(k);
  enum { SIZE = 1 << 20 };
  uint8_t *got = tc_arena_alloc(k->arena, SIZE);
  tc_handle a = 0, b = 0;
  KIT_OK(k, t->alloc(k->device, SIZE, &a));
  KIT_OK(k, t->alloc(k->device, SIZE, &b));
  for (int32_t i = 1; i <= 20; i++) {
    KIT_OK(k, t->fill(k->device, k->stream, a, 0, (uint8_t)i, SIZE));
    KIT_OK(k, t->copy(k->device, k->stream, b, 0, a, 0, SIZE));
    KIT_OK(k, t->fill(k->device, k->stream, a, 0, 0, SIZE));
    KIT_OK(k, t->copy_out(k->device, k->stream, got, b, 0, SIZE));
    KIT_CHECK(got[0] == i && got[SIZE / 2] == i && got[SIZE - 1] == i, "work of one stream is done out of order");
  }
  KIT_OK(k, t->fill(k->device, k->stream, a, 0, 7, SIZE));
  KIT_OK(k, t->copy(k->device, k->stream, b, 0, a, 0, SIZE));
  t->free(k->device, a);
  KIT_OK(k, t->copy_out(k->device, k->stream, got, b, 0, SIZE));
  KIT_CHECK(got[0] == 7 && got[SIZE - 1] == 7, "memory that was freed behind queued work was lost to it");
  t->free(k->device, b);
  return TC_OK;
}

CASE(streams) {
  const tc_device_table *t = table_of(k);
  tc_handle stream[3], m[3];
  uint8_t got[1000];
  for (int32_t i = 0; i < 3; i++) {
    KIT_OK(k, t->stream_create(k->device, &stream[i]));
    KIT_OK(k, t->alloc(k->device, sizeof got, &m[i]));
    KIT_OK(k, t->fill(k->device, stream[i], m[i], 0, (uint8_t)(40 + i), sizeof got));
  }
  for (int32_t i = 0; i < 3; i++) {
    KIT_OK(k, t->synchronize(k->device, stream[i]));
    KIT_OK(k, t->copy_out(k->device, k->stream, got, m[i], 0, sizeof got));
    KIT_CHECK(got[0] == 40 + i && got[999] == 40 + i, "what stream %d did is not there after synchronize", i);
    t->free(k->device, m[i]);
    t->stream_destroy(k->device, stream[i]);
  }
  return TC_OK;
}

typedef struct worker {
  kit *k;
  uint8_t number;
  int32_t code;
  bool wrong;
} worker;
static void *work(void *arg) {
  worker *w = arg;
  const tc_device_table *t = table_of(w->k);
  tc_device_ *d = w->k->device;
  tc_handle stream = 0;
  if ((w->code = t->stream_create(d, &stream))) return NULL;
  for (int32_t i = 0; i < 50 && !w->code; i++) {
    uint8_t got[300] = {0};
    tc_handle m = 0;
    w->code = t->alloc(d, sizeof got, &m);
    if (!w->code) w->code = t->fill(d, stream, m, 0, w->number, sizeof got);
    if (!w->code) w->code = t->copy_out(d, stream, got, m, 0, sizeof got);
    for (size_t b = 0; b < sizeof got; b++) w->wrong |= !w->code && got[b] != w->number;
    if (m) t->free(d, m);
  }
  t->stream_destroy(d, stream);
  return NULL;
}
CASE(threads) {
  pthread_t id[4];
  worker w[4];
  for (int32_t i = 0; i < 4; i++) {
    w[i] = (worker){.k = k, .number = (uint8_t)(i + 1)};
    KIT_CHECK(pthread_create(&id[i], NULL, work, &w[i]) == 0, "the kit could not start a thread");
  }
  for (int32_t i = 0; i < 4; i++) pthread_join(id[i], NULL);
  for (int32_t i = 0; i < 4; i++) {
    if (w[i].code) return kit_failed(k, "a function called from several threads", w[i].code);
    KIT_CHECK(!w[i].wrong, "threads with streams and memory of their own see each other's bytes");
  }
  return TC_OK;
}

// ---- What a device may have ----
// Times between events are nanoseconds of the device's work: never more than the host's clock counts around it.
CASE(events) {
  const tc_device_table *t = table_of(k);
  enum { SIZE = 1 << 24, FILLS = 8, POINTS = 3 };
  tc_handle event[POINTS], m = 0;
  double first = -1, second = -1, both = -1, start;
  for (int32_t i = 0; i < POINTS; i++) {
    int32_t code = t->event_create(k->device, &event[i]);
    if (i == 0 && code == TC_STATUS_UNIMPLEMENTED) {
      kit_unsupported(k, "the device notes no times");
      return TC_OK;
    }
    KIT_CHECK(code == TC_STATUS_OK && event[i], "event_create returned %d with event %llu", (int)code,
              (unsigned long long)event[i]);
  }
  KIT_OK(k, t->alloc(k->device, SIZE, &m));
  for (int32_t round = 0; round < 2; round++) { // a recorded event may be recorded again
    KIT_OK(k, t->synchronize(k->device, k->stream));
    start = tc_now_ms();
    for (int32_t i = 0; i < POINTS; i++) {
      for (int32_t f = 0; f < i * FILLS; f++) KIT_OK(k, t->fill(k->device, k->stream, m, 0, (uint8_t)f, SIZE));
      KIT_OK(k, t->event_record(k->device, k->stream, event[i]));
    }
    KIT_OK(k, t->event_elapsed(k->device, event[0], event[2], &both));
    double wall = (tc_now_ms() - start) * 1e6;
    KIT_OK(k, t->event_elapsed(k->device, event[0], event[1], &first));
    KIT_OK(k, t->event_elapsed(k->device, event[1], event[2], &second));
    KIT_CHECK(first >= 0 && second >= 0, "%.0f and %.0f ns between events: they were not noted in order", first,
              second);
    KIT_CHECK(fabs(first + second - both) <= 1e-3 * both + 2000,
              "%.0f and %.0f ns between events are not %.0f together", first, second, both);
    KIT_CHECK(
        both <= 1.01 * wall + 1e5 && both >= 1e-3 * wall,
        "%.0f ns between two events, of the host's clock %.0f: that is another unit, or not the work between them",
        both, wall);
  }
  t->free(k->device, m);
  for (int32_t i = 0; i < POINTS; i++) t->event_destroy(k->device, event[i]);
  return TC_OK;
}

CASE(memory_stats) {
  const tc_device_table *t = table_of(k);
  enum { SIZE = 1 << 20 };
  tc_memory_stats before = {.struct_size = sizeof before}, after = before, less;
  tc_handle m = 0;
  int32_t code = t->memory_stats(k->device, &before);
  if (code == TC_STATUS_UNIMPLEMENTED) {
    kit_unsupported(k, "the device does not say what is in use");
    return TC_OK;
  }
  if (code != TC_STATUS_OK) return kit_failed(k, "memory_stats", code);
  KIT_OK(k, t->alloc(k->device, SIZE, &m));
  KIT_OK(k, t->memory_stats(k->device, &after));
  t->free(k->device, m);
  KIT_CHECK(before.used_bytes < 0 || after.used_bytes >= before.used_bytes + SIZE,
            "memory_stats: %lld bytes in use, and %lld with %d more", (long long)before.used_bytes,
            (long long)after.used_bytes, (int)SIZE);
  KIT_CHECK(after.peak_bytes < 0 || after.peak_bytes >= after.used_bytes,
            "memory_stats: at most %lld bytes were in use, and now %lld are", (long long)after.peak_bytes,
            (long long)after.used_bytes);
  KIT_CHECK(after.total_bytes < 0 || after.free_bytes <= after.total_bytes, "memory_stats: more is free than there is");
  memset(&less, 0x5a, sizeof less);
  less.struct_size = offsetof(tc_memory_stats, used_bytes);
  KIT_OK(k, t->memory_stats(k->device, &less));
  const unsigned char *bytes = (const unsigned char *)&less;
  for (size_t i = offsetof(tc_memory_stats, used_bytes); i < sizeof less; i++)
    KIT_CHECK(bytes[i] == 0x5a, "memory_stats writes behind out->struct_size, at byte %zu", i);
  return TC_OK;
}

// ---- Short of memory ----
static tc_status open_with_faults(kit *k) {
  bool there;
  TC_TRY(kit_open(k, &there));
  int64_t most = atomic_load(&k->services.count);
  kit_close(k);
  if (!there) return TC_OK;
  const tc_device_table *t = k->plugin->device;
  for (int64_t n = 1; n <= most + 1 && n <= 200; n++) {
    kit_host h;
    tc_device_ *d = NULL;
    tc_handle stream = 0;
    kit_host_init(&h, k);
    atomic_store(&h.fail_at, n);
    int32_t code = t->open(&h.host, 0, &d);
    if (code == TC_STATUS_OK) {
      code = t->stream_create(d, &stream);
      if (code == TC_STATUS_OK) t->stream_destroy(d, stream);
      t->close(d);
    }
    KIT_CHECK(code == TC_STATUS_OK || code == TC_STATUS_OUT_OF_MEMORY,
              "with allocation %lld failing, open gives the code %d; OUT_OF_MEMORY is expected", (long long)n, code);
    TC_TRY(kit_host_balanced(&h, "after a failed allocation"));
  }
  return TC_OK;
}

static const kit_case cases[] = {
    {"device", "properties", "the device says what it is, in the room that it is given", properties},
    {"device", "no_such_device", "a device that is not there is an error with words", no_such_device},
    {"device", "second_instance", "a device can be opened twice", second_instance},
    {"device", "allocations", "memory has an own handle, its size, and alignment", allocations},
    {"device", "too_much", "too much memory is OUT_OF_MEMORY, and no more than that", too_much},
    {"device", "copies", "copies and fills at any place touch what they name", copies},
    {"device", "order", "one stream does its work in order", order},
    {"device", "streams", "several streams work", streams},
    {"device", "threads", "several threads work", threads},
    {"device", "events", "events note when the device reached them, in nanoseconds", events},
    {"device", "memory_stats", "the device counts what it gave out, in the room that it is given", memory_stats},
    {"fault", "open", "each failing allocation of the host is OUT_OF_MEMORY and leaves nothing", open_with_faults},
};
const kit_cases kit_device_cases = {cases, sizeof cases / sizeof *cases};
