// What the tensor formats share: pairs for complex dtypes without a name, views of a file's bytes, lists.
#include <string.h>

#include "core/tensor/files_internal.h"

typedef struct pair_row {
  tc_dtype complex;
  const char *suffix;
} pair_row;
static const pair_row pairs[] = {{TC_C128, ".c128"}, {TC_C32, ".c32"}, {TC_BC32, ".bc32"}};
enum { PAIRS = sizeof pairs / sizeof pairs[0] };

bool tc_stored_measure(tc_stored *s) {
  uint64_t bytes = (uint64_t)tc_dtype_size(s->dtype);
  bool empty = false, fits = true;
  for (int32_t i = 0; i < s->rank; i++) {
    empty |= s->sizes[i] == 0;
    fits &= !__builtin_mul_overflow(bytes, (uint64_t)s->sizes[i], &bytes) && bytes <= INT64_MAX;
  }
  s->bytes = empty ? 0 : bytes;
  return empty || fits;
}

tc_status tc_stored_of(tc_arena *arena, const tc_named_tensor *item, bool (*has)(tc_dtype), tc_stored *out) {
  const tc_tensor *t = &item->tensor;
  *out = (tc_stored){.name = item->name, .dtype = t->dtype, .rank = t->rank};
  for (int32_t i = 0; i < t->rank; i++) out->sizes[i] = t->sizes[i];
  if (!has(t->dtype)) {
    const pair_row *row = NULL;
    for (int32_t i = 0; i < PAIRS; i++)
      if (pairs[i].complex == t->dtype) row = &pairs[i];
    if (!row)
      return tc_error(TC_STATUS_UNIMPLEMENTED, "'" TC_SV_FMT "' has dtype %s, which this file format cannot hold",
                      TC_SV_ARG(item->name), tc_dtype_name(t->dtype));
    out->name = tc_sv_printf(arena, TC_SV_FMT "%s", TC_SV_ARG(item->name), row->suffix);
    out->dtype = tc_dtype_real(t->dtype);
    out->sizes[out->rank++] = 2;
  }
  if (!tc_stored_measure(out))
    return tc_error(TC_STATUS_OUT_OF_RANGE, "'" TC_SV_FMT "' is too large for a file", TC_SV_ARG(item->name));
  return TC_OK;
}

void tc_stored_join(tc_stored *s) {
  for (int32_t i = 0; i < PAIRS; i++) {
    if (!tc_sv_ends(s->name, pairs[i].suffix) || s->dtype != tc_dtype_real(pairs[i].complex)) continue;
    if (s->rank == 0 || s->sizes[s->rank - 1] != 2) continue;
    s->name.size -= strlen(pairs[i].suffix);
    s->dtype = pairs[i].complex;
    s->rank--;
    return;
  }
}

tc_status tc_stored_view(const tc_allocator *a, tc_storage *bytes, size_t offset, const tc_stored *s, tc_tensor *out) {
  tc_storage *slice;
  int64_t strides[TC_MAX_RANK];
  *out = (tc_tensor){0};
  if (s->rank > TC_MAX_RANK)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "'" TC_SV_FMT "' has %d dimensions; at most %d are supported",
                    TC_SV_ARG(s->name), (int)s->rank, TC_MAX_RANK);
  TC_TRY(tc_storage_slice(a, bytes, offset, (size_t)s->bytes, (size_t)tc_dtype_size(s->dtype), &slice));
  tc_contiguous_strides(s->rank, s->sizes, strides);
  tc_status status = tc_tensor_view(slice, s->dtype, s->rank, s->sizes, strides, 0, out);
  tc_storage_unref(slice); // the tensor has its own reference
  return status;
}

tc_status tc_stored_put(const tc_allocator *a, const tc_tensor *t, uint8_t *to) {
  const int64_t numel = tc_tensor_numel(t);
  if (numel == 0) return TC_OK;
  tc_storage *s;
  tc_tensor row_major;
  int64_t strides[TC_MAX_RANK];
  TC_TRY(tc_storage_wrap(a, to, (size_t)numel * (size_t)tc_dtype_size(t->dtype), NULL, NULL, &s));
  tc_contiguous_strides(t->rank, t->sizes, strides);
  tc_status status = tc_tensor_view(s, t->dtype, t->rank, t->sizes, strides, 0, &row_major);
  tc_storage_unref(s);
  if (status) return status;
  status = tc_tensor_copy(t, &row_major);
  tc_tensor_unref(&row_major);
  return status;
}

tc_status tc_list_add(tc_tensor_list *list, tc_map *names, tc_sv name, tc_tensor *t) {
  tc_named_tensor *item = &list->items[list->count++]; // owned by the list before anything can fail
  item->tensor = *t;
  *t = (tc_tensor){0};
  bool fresh;
  tc_map_entry *e = tc_map_put(names, name, &fresh);
  item->name = e->key;
  if (!fresh) return tc_error(TC_STATUS_DATA_LOSS, "two tensors are named '" TC_SV_FMT "'", TC_SV_ARG(name));
  return TC_OK;
}

void tc_tensor_list_free(tc_tensor_list *list) {
  for (int32_t i = 0; i < list->count; i++) tc_tensor_unref(&list->items[i].tensor);
  *list = (tc_tensor_list){0};
}

const tc_tensor *tc_tensor_list_find(const tc_tensor_list *list, tc_sv name) {
  for (int32_t i = 0; i < list->count; i++)
    if (tc_sv_eq(list->items[i].name, name)) return &list->items[i].tensor;
  return NULL;
}
