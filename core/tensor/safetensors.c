// safetensors: an 8-byte little-endian header length, a JSON object {name: {dtype, shape, data_offsets}}, then the
// data, row-major and little-endian. Source: the format section of the safetensors README.
//
// As the format demands, the tensors' extents must tile the data without overlap or hole; the header is at most 100 MB.
// Written files start their data at a multiple of 64 and put wider elements first, so that all are aligned.
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/tensor/files_internal.h"

static const uint64_t max_header = 100u * 1000u * 1000u;

typedef struct name_row {
  const char *name;
  tc_dtype dtype;
} name_row;
static const name_row names[] = {{"BOOL", TC_BOOL}, {"U8", TC_U8},   {"I8", TC_I8},   {"I16", TC_I16}, {"U16", TC_U16},
                                 {"I32", TC_I32},   {"U32", TC_U32}, {"I64", TC_I64}, {"U64", TC_U64}, {"F16", TC_F16},
                                 {"BF16", TC_BF16}, {"F32", TC_F32}, {"F64", TC_F64}, {"C64", TC_C64}};
enum { NAMES = sizeof names / sizeof names[0] };

static tc_dtype dtype_of(tc_sv name) {
  for (int32_t i = 0; i < NAMES; i++)
    if (tc_sv_is(name, names[i].name)) return names[i].dtype;
  return TC_DTYPE_NONE;
}
static const char *name_of(tc_dtype d) {
  for (int32_t i = 0; i < NAMES; i++)
    if (names[i].dtype == d) return names[i].name;
  return NULL;
}
static bool has_dtype(tc_dtype d) { return name_of(d) != NULL; }

// ---- reading

typedef struct parse_job {
  const tc_allocator *allocator;
  tc_arena *arena;
  tc_storage *bytes;
  tc_json_doc *doc;
  tc_tensor_list list;
} parse_job;

typedef struct extent {
  uint64_t begin, end;
} extent;

static int by_begin(const void *a, const void *b) {
  const extent *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return x->end < y->end ? -1 : x->end > y->end; // empty tensors come before the one that starts at the same place
}

#define CORRUPT(name, text, ...) \
  tc_error(TC_STATUS_DATA_LOSS, "safetensors: '" TC_SV_FMT "' " text, TC_SV_ARG(tc_sv_sub(name, 0, 200)), __VA_ARGS__)

static tc_status read_shape(tc_json shape, tc_sv name, tc_stored *s) {
  const int64_t rank = tc_json_count(shape);
  if (tc_json_kind(shape) != TC_JSON_ARRAY) return CORRUPT(name, "has %s", "no shape");
  if (rank > TC_MAX_RANK + 1)
    return CORRUPT(name, "has %lld dimensions; at most %d are supported", (long long)rank, TC_MAX_RANK);
  for (tc_json_iter it = tc_json_begin(shape); tc_json_next(&it);) {
    int64_t size;
    if (!tc_json_int(it.value, &size) || size < 0)
      return CORRUPT(name, "has a size in dimension %d that is no non-negative integer", (int)s->rank);
    s->sizes[s->rank++] = size;
  }
  return TC_OK;
}

static tc_status read_tensor(const parse_job *job, tc_sv name, tc_json info, uint64_t data_begin, tc_stored *s,
                             extent *at) {
  tc_sv dtype;
  *s = (tc_stored){.name = name};
  if (!tc_json_str(tc_json_get(info, "dtype"), &dtype)) return CORRUPT(name, "has %s", "no dtype");
  s->dtype = dtype_of(dtype);
  if (s->dtype == TC_DTYPE_NONE)
    return tc_error(TC_STATUS_UNIMPLEMENTED,
                    "safetensors: '" TC_SV_FMT "' has dtype '" TC_SV_FMT "', which is not supported",
                    TC_SV_ARG(tc_sv_sub(name, 0, 200)), TC_SV_ARG(tc_sv_sub(dtype, 0, 40)));
  TC_TRY(read_shape(tc_json_get(info, "shape"), name, s));
  if (!tc_stored_measure(s)) return CORRUPT(name, "is larger than %s", "63 bits of bytes");
  int64_t bounds[2], n = 0;
  tc_json offsets = tc_json_get(info, "data_offsets");
  if (tc_json_kind(offsets) == TC_JSON_ARRAY && tc_json_count(offsets) == 2)
    for (tc_json_iter it = tc_json_begin(offsets); n < 2 && tc_json_next(&it);) n += tc_json_int(it.value, &bounds[n]);
  if (n != 2 || bounds[0] < 0 || bounds[1] < bounds[0]) return CORRUPT(name, "has %s", "no valid data_offsets");
  *at = (extent){(uint64_t)bounds[0], (uint64_t)bounds[1]};
  if (at->end > job->bytes->size - data_begin)
    return CORRUPT(name, "ends at byte %llu of %llu bytes of data: the file is cut short or damaged",
                   (unsigned long long)at->end, (unsigned long long)(job->bytes->size - data_begin));
  if (at->end - at->begin != s->bytes)
    return CORRUPT(name, "has %llu bytes of data where its shape needs %llu", (unsigned long long)(at->end - at->begin),
                   (unsigned long long)s->bytes);
  tc_stored_join(s);
  return TC_OK;
}

// No overlap and no hole: what the format demands against files that mean two things.
static tc_status check_extents(extent *extents, int32_t count, uint64_t data_size) {
  uint64_t at = 0;
  if (count) qsort(extents, (size_t)count, sizeof *extents, by_begin);
  for (int32_t i = 0; i < count; i++) {
    if (extents[i].begin < at)
      return tc_error(TC_STATUS_DATA_LOSS, "safetensors: two tensors overlap at data byte %llu",
                      (unsigned long long)extents[i].begin);
    if (extents[i].begin > at) break;
    at = extents[i].end;
  }
  if (at == data_size) return TC_OK;
  return tc_error(TC_STATUS_DATA_LOSS, "safetensors: data byte %llu of %llu belongs to no tensor",
                  (unsigned long long)at, (unsigned long long)data_size);
}

static tc_status parse(void *arg) {
  parse_job *job = arg;
  const uint8_t *data = job->bytes->data;
  const uint64_t size = job->bytes->size;
  if (size < 8)
    return tc_error(TC_STATUS_DATA_LOSS, "safetensors: a file of %llu bytes has no header", (unsigned long long)size);
  uint64_t header = 0;
  for (int i = 0; i < 8; i++) header |= (uint64_t)data[i] << 8 * i;
  if (header > size - 8 || header > max_header)
    return tc_error(TC_STATUS_DATA_LOSS, "safetensors: a header of %llu bytes in a file of %llu",
                    (unsigned long long)header, (unsigned long long)size);
  tc_json root;
  TC_TRY(tc_json_parse(job->allocator, (tc_sv){(const char *)data + 8, (size_t)header}, &job->doc, &root),
         "while reading the safetensors header");
  if (tc_json_kind(root) != TC_JSON_OBJECT)
    return tc_error(TC_STATUS_DATA_LOSS, "safetensors: the header is not a JSON object");
  const int64_t members = tc_json_count(root);
  if (members > INT32_MAX) return tc_error(TC_STATUS_DATA_LOSS, "safetensors: too many tensors");
  job->list.items = TC_NEW_ARRAY(job->arena, tc_named_tensor, members);
  extent *extents = TC_NEW_ARRAY(job->arena, extent, members);
  tc_map *by_name = tc_map_create(job->arena);
  for (tc_json_iter it = tc_json_begin(root); tc_json_next(&it);) {
    if (tc_sv_is(it.key, "__metadata__")) continue;
    tc_stored s;
    tc_tensor t;
    extent *at = &extents[job->list.count];
    TC_TRY(read_tensor(job, it.key, it.value, 8 + header, &s, at));
    TC_TRY(tc_stored_view(job->allocator, job->bytes, (size_t)(8 + header + at->begin), &s, &t));
    TC_TRY(tc_list_add(&job->list, by_name, s.name, &t));
  }
  return check_extents(extents, job->list.count, size - 8 - header);
}

tc_status tc_safetensors_parse(const tc_allocator *a, tc_arena *arena, tc_storage *bytes, tc_tensor_list *out) {
  parse_job job = {.allocator = a, .arena = arena, .bytes = bytes};
  *out = (tc_tensor_list){0};
  tc_status status = tc_arena_guard(arena, parse, &job); // what the job owns outlives an unwinding arena
  tc_json_free(job.doc);
  if (status) tc_tensor_list_free(&job.list);
  else *out = job.list;
  return status;
}

// ---- writing

typedef struct order_row {
  int32_t item, width; // index in the list, bytes of an element
} order_row;

static int wide_first(const void *a, const void *b) {
  const order_row *x = a, *y = b;
  return x->width != y->width ? y->width - x->width : x->item - y->item;
}

tc_status tc_safetensors_build(tc_arena *arena, const tc_tensor_list *list, uint8_t **out_file, size_t *out_size) {
  const tc_allocator *a = tc_arena_allocator(arena);
  tc_stored *stored = TC_NEW_ARRAY(arena, tc_stored, list->count);
  order_row *order = TC_NEW_ARRAY(arena, order_row, list->count);
  uint64_t *begin = TC_NEW_ARRAY(arena, uint64_t, list->count), total = 0;
  tc_map *seen = tc_map_create(arena);
  for (int32_t i = 0; i < list->count; i++) {
    TC_TRY(tc_stored_of(arena, &list->items[i], has_dtype, &stored[i]));
    bool fresh;
    tc_map_put(seen, stored[i].name, &fresh);
    if (!fresh || tc_sv_is(stored[i].name, "__metadata__"))
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "safetensors: the name '" TC_SV_FMT "' is taken",
                      TC_SV_ARG(list->items[i].name));
    order[i] = (order_row){i, tc_dtype_size(list->items[i].tensor.dtype)};
  }
  if (list->count) qsort(order, (size_t)list->count, sizeof *order, wide_first);
  for (int32_t i = 0; i < list->count; i++) {
    begin[order[i].item] = total;
    if (__builtin_add_overflow(total, stored[order[i].item].bytes, &total) || total > INT64_MAX / 2)
      return tc_error(TC_STATUS_OUT_OF_RANGE, "safetensors: the file would be too large");
  }
  tc_sb sb = tc_sb_make(arena);
  tc_sb_putc(&sb, '{');
  for (int32_t i = 0; i < list->count; i++) {
    if (i) tc_sb_putc(&sb, ',');
    tc_json_quote(&sb, stored[i].name);
    tc_sb_printf(&sb, ":{\"dtype\":\"%s\",\"shape\":[", name_of(stored[i].dtype));
    for (int32_t d = 0; d < stored[i].rank; d++) {
      if (d) tc_sb_putc(&sb, ',');
      tc_sb_int(&sb, stored[i].sizes[d]);
    }
    tc_sb_printf(&sb, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin[i],
                 (unsigned long long)(begin[i] + stored[i].bytes));
  }
  tc_sb_putc(&sb, '}');
  while ((8 + sb.size) % 64) tc_sb_putc(&sb, ' ');
  if (sb.size > max_header) return tc_error(TC_STATUS_OUT_OF_RANGE, "safetensors: the header would be too large");

  *out_size = 8 + sb.size + (size_t)total;
  *out_file = a->alloc(a->self, *out_size);
  if (!*out_file) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a file of %zu bytes", *out_size);
  for (int i = 0; i < 8; i++) (*out_file)[i] = (uint8_t)((uint64_t)sb.size >> 8 * i);
  memcpy(*out_file + 8, sb.text, sb.size);
  for (int32_t i = 0; i < list->count; i++)
    TC_TRY(tc_stored_put(a, &list->items[i].tensor, *out_file + 8 + sb.size + begin[i]));
  return TC_OK;
}
