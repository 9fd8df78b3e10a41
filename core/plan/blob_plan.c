// Plans and tensors in executable blobs: what their entries hold (blob.h).
#include <stdio.h>
#include <string.h>

#include "core/plan/blob_internal.h"

static tc_sv key_name(tc_arena *arena, tc_hash128 key) {
  return tc_sv_printf(arena, "%016llx%016llx", (unsigned long long)key.hi, (unsigned long long)key.lo);
}

static void put(tc_sb *sb, const void *data, size_t size) { tc_sb_put(sb, (tc_sv){data, size}); }

static void put_zeros(tc_sb *sb, size_t up_to) {
  while (sb->size % up_to) tc_sb_putc(sb, 0);
}

// ---- plans ----
typedef struct code_head {
  uint32_t name_size, n_params;
} code_head;
typedef struct plan_head {
  uint32_t n_code, zero;
} plan_head;

static tc_status add_code(tc_blob_writer *w, const tc_plan_code *c) {
  tc_sv name = key_name(w->arena, c->key);
  if (blob_has(w, TC_BLOB_CODE, name)) return TC_OK;
  tc_sb sb = tc_sb_make(w->arena);
  put(&sb, &(code_head){(uint32_t)c->name.size, (uint32_t)c->n_params}, sizeof(code_head));
  tc_sb_put(&sb, c->name);
  put(&sb, c->scalar, (size_t)c->n_params);
  put_zeros(&sb, TC_BLOB_ALIGN);
  tc_sb_put(&sb, c->object);
  if (c->text.size) TC_TRY(tc_blob_add(w, TC_BLOB_TEXT, name, c->text));
  return tc_blob_add(w, TC_BLOB_CODE, name, tc_sb_view(&sb));
}

tc_status tc_blob_add_plan(tc_blob_writer *w, tc_sv name, tc_sv text, int32_t n, const tc_plan_code *code) {
  tc_sb sb = tc_sb_make(w->arena);
  put(&sb, &(plan_head){(uint32_t)n, 0}, sizeof(plan_head));
  for (int32_t i = 0; i < n; i++) {
    put(&sb, &code[i].key, sizeof code[i].key);
    TC_TRY(add_code(w, &code[i]));
  }
  tc_sb_put(&sb, text);
  return tc_blob_add(w, TC_BLOB_PLAN, name, tc_sb_view(&sb));
}

static tc_status bad(tc_sv name) {
  return tc_error(TC_STATUS_DATA_LOSS, "the blob is damaged: '" TC_SV_FMT "' is not what it should be",
                  TC_SV_ARG(name));
}

static tc_status get_code(const tc_blob *b, tc_arena *arena, tc_plan_code *c) {
  tc_sv name = key_name(arena, c->key), bytes;
  code_head h;
  TC_TRY(tc_blob_get(b, TC_BLOB_CODE, name, &bytes));
  if (bytes.size < sizeof h) return bad(name);
  memcpy(&h, bytes.data, sizeof h);
  size_t head = sizeof h + (size_t)h.name_size + h.n_params, at = (head + TC_BLOB_ALIGN - 1) / TC_BLOB_ALIGN;
  at *= TC_BLOB_ALIGN;
  if (at > bytes.size || h.n_params > INT32_MAX) return bad(name);
  c->name = tc_sv_sub(bytes, sizeof h, sizeof h + h.name_size);
  c->n_params = (int32_t)h.n_params;
  c->scalar = (const uint8_t *)bytes.data + sizeof h + h.name_size;
  c->object = tc_sv_sub(bytes, at, bytes.size);
  c->text = (tc_sv){0};
  return tc_blob_find(b, TC_BLOB_TEXT, name) ? tc_blob_get(b, TC_BLOB_TEXT, name, &c->text) : TC_OK;
}

tc_status tc_blob_get_plan(const tc_blob *b, tc_sv name, tc_module *m, tc_plan **out) {
  tc_sv bytes;
  plan_head h;
  TC_TRY(tc_blob_get(b, TC_BLOB_PLAN, name, &bytes));
  if (bytes.size < sizeof h) return bad(name);
  memcpy(&h, bytes.data, sizeof h);
  if (h.n_code > INT32_MAX || h.n_code > (bytes.size - sizeof h) / sizeof(tc_hash128)) return bad(name);
  tc_plan_code *code = TC_NEW_ARRAY(m->arena, tc_plan_code, h.n_code);
  for (uint32_t i = 0; i < h.n_code; i++) {
    memcpy(&code[i].key, bytes.data + sizeof h + i * sizeof code[i].key, sizeof code[i].key);
    TC_TRY(get_code(b, m->arena, &code[i]));
  }
  tc_lexer lx;
  tc_lex_init(&lx, m->arena, name, tc_sv_sub(bytes, sizeof h + h.n_code * sizeof(tc_hash128), bytes.size));
  TC_TRY(tc_plan_parse_coded(m, &lx, (int32_t)h.n_code, code, out));
  if (lx.tok.kind != TC_TOK_END) return bad(name);
  return tc_plan_verify(*out);
}

// ---- tensors ----
typedef struct tensor_head {
  int32_t dtype, rank;
  int64_t sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
  int64_t offset, bits, data;
} tensor_head;

tc_status tc_blob_add_tensor(tc_blob_writer *w, tc_sv name, const tc_tensor *t) {
  if (!t->storage || t->storage->device != 0)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "'" TC_SV_FMT "' is not on the host", TC_SV_ARG(name));
  tensor_head h = {.dtype = (int32_t)t->dtype, .rank = t->rank, .bits = (t->conj ? 1 : 0) | (t->neg ? 2 : 0)};
  int64_t lo = 0, hi = 1; // elements that it reaches, from its first
  for (int32_t d = 0; d < t->rank; d++) {
    h.sizes[d] = t->sizes[d], h.strides[d] = t->strides[d];
    int64_t far = (t->sizes[d] - 1) * t->strides[d];
    if (t->strides[d] < 0) lo += far;
    else hi += far;
  }
  if (tc_tensor_numel(t) == 0) lo = hi = 0;
  h.offset = -lo;
  int64_t size = tc_dtype_size(t->dtype);
  struct {
    const void *data;
    uint64_t size;
  } span = {(const char *)tc_tensor_data(t) + lo * size, (uint64_t)((hi - lo) * size)};
  bool fresh;
  tc_map_entry *e = tc_map_put(w->spans, (tc_sv){(const char *)&span, sizeof span}, &fresh);
  if (fresh) {
    e->value.num = tc_map_count(w->spans) - 1;
    tc_sv number = tc_sv_printf(w->arena, "%lld", (long long)e->value.num);
    TC_TRY(tc_blob_add(w, TC_BLOB_DATA, number, (tc_sv){span.data, span.size}));
  }
  h.data = e->value.num;
  return tc_blob_add(w, TC_BLOB_TENSOR, name, (tc_sv){tc_arena_copy(w->arena, &h, sizeof h), sizeof h});
}

tc_status tc_blob_get_tensor(const tc_blob *b, tc_storage *bytes, tc_sv name, bool check, tc_tensor *out) {
  tc_sv head;
  tensor_head h;
  char number[24];
  TC_TRY(tc_blob_get(b, TC_BLOB_TENSOR, name, &head));
  if (head.size != sizeof h) return bad(name);
  memcpy(&h, head.data, sizeof h);
  tc_sv data_name = {number, (size_t)snprintf(number, sizeof number, "%lld", (long long)h.data)}, data;
  const tc_blob_entry *e = tc_blob_find(b, TC_BLOB_DATA, data_name);
  int64_t size = h.dtype > 0 && h.dtype < TC_DTYPE_COUNT ? tc_dtype_size((tc_dtype)h.dtype) : 0;
  if (!e || size == 0 || h.rank < 0 || h.rank > TC_MAX_RANK) return bad(name);
  if (check) TC_TRY(tc_blob_get(b, TC_BLOB_DATA, data_name, &data));
  // The view is checked against its own bytes first, then made of the storage of all.
  int64_t at = e->contents.data - (const char *)bytes->data, count = (int64_t)e->contents.size / size;
  int64_t lo = h.offset, hi = h.offset;
  bool empty = false;
  for (int32_t d = 0; d < h.rank; d++) {
    int64_t far;
    if (h.sizes[d] < 0 || __builtin_mul_overflow(h.sizes[d] - 1, h.strides[d], &far)) return bad(name);
    empty |= h.sizes[d] == 0;
    if (__builtin_add_overflow(h.strides[d] < 0 ? lo : hi, far, h.strides[d] < 0 ? &lo : &hi)) return bad(name);
  }
  if ((!empty && (lo < 0 || hi >= count)) || at < 0 || at % size || h.offset < 0) return bad(name);
  TC_TRY(tc_tensor_view(bytes, (tc_dtype)h.dtype, h.rank, h.sizes, h.strides, at / size + h.offset, out));
  out->conj = (h.bits & 1) != 0, out->neg = (h.bits & 2) != 0;
  return TC_OK;
}
