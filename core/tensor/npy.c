// NumPy's .npy and .npz. Source: NumPy Enhancement Proposal 1 and the format versions 2 and 3 that followed it.
//
// A .npy file is "\x93NUMPY", a version, the length of a Python dict literal, the literal, the data. The literal is
// read by a parser of exactly that shape. NumPy has no bfloat16: it is written as two-byte void, as ml_dtypes does.
#include <string.h>

#include "core/tensor/files_internal.h"

static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

typedef struct descr_row {
  tc_dtype dtype;
  const char *text; // without the byte order
} descr_row;
static const descr_row descrs[] = {{TC_BOOL, "b1"}, {TC_U8, "u1"},  {TC_U16, "u2"}, {TC_U32, "u4"},   {TC_U64, "u8"},
                                   {TC_I8, "i1"},   {TC_I16, "i2"}, {TC_I32, "i4"}, {TC_I64, "i8"},   {TC_F16, "f2"},
                                   {TC_F32, "f4"},  {TC_F64, "f8"}, {TC_C64, "c8"}, {TC_C128, "c16"}, {TC_BF16, "V2"}};
enum { DESCRS = sizeof descrs / sizeof descrs[0] };

static const descr_row *descr_of(tc_dtype d) {
  for (int32_t i = 0; i < DESCRS; i++)
    if (descrs[i].dtype == d) return &descrs[i];
  return NULL;
}
bool tc_npy_has(tc_dtype d) { return descr_of(d) != NULL; }

// ---- the header literal

typedef struct header {
  tc_stored stored;
  bool fortran, swapped;
  bool has_descr, has_order, has_shape;
} header;

static tc_status bad_header(const char *what) { return tc_error(TC_STATUS_DATA_LOSS, "npy: the header %s", what); }

static void skip_space(tc_sv *s) {
  while (s->size && strchr(" \t\r\n", s->data[0]) && s->data[0]) s->data++, s->size--;
}
static bool eat(tc_sv *s, const char *token) {
  skip_space(s);
  if (!tc_sv_starts(*s, token)) return false;
  *s = tc_sv_sub(*s, strlen(token), s->size);
  return true;
}

static bool eat_string(tc_sv *s, tc_sv *out) { // no escapes: none of the format's strings has one
  skip_space(s);
  if (!s->size || (s->data[0] != '\'' && s->data[0] != '"')) return false;
  const char *close = memchr(s->data + 1, s->data[0], s->size - 1);
  if (!close) return false;
  *out = (tc_sv){s->data + 1, (size_t)(close - s->data - 1)};
  *s = tc_sv_sub(*s, out->size + 2, s->size);
  return true;
}

static bool eat_size(tc_sv *s, int64_t *out) {
  skip_space(s);
  size_t n = 0;
  while (n < s->size && s->data[n] >= '0' && s->data[n] <= '9') n++;
  if (!tc_sv_to_int(tc_sv_sub(*s, 0, n), out)) return false;
  *s = tc_sv_sub(*s, n, s->size);
  eat(s, "L"); // long integers of Python 2
  return true;
}

static tc_status read_descr(tc_sv *s, header *h) {
  tc_sv text;
  if (!eat_string(s, &text)) return tc_error(TC_STATUS_UNIMPLEMENTED, "npy: structured dtypes are not supported");
  const char order = text.size ? text.data[0] : 0;
  const tc_sv kind = tc_sv_sub(text, 1, text.size);
  for (int32_t i = 0; i < DESCRS && order && strchr("<>|=", order); i++)
    if (tc_sv_is(kind, descrs[i].text)) h->stored.dtype = descrs[i].dtype;
  if (h->stored.dtype == TC_DTYPE_NONE)
    return tc_error(TC_STATUS_UNIMPLEMENTED, "npy: dtype '" TC_SV_FMT "' is not supported",
                    TC_SV_ARG(tc_sv_sub(text, 0, 40)));
  h->swapped = order == '>';
  return TC_OK;
}

static tc_status read_shape(tc_sv *s, header *h) {
  tc_stored *t = &h->stored;
  bool comma = true;
  if (!eat(s, "(")) return bad_header("has no shape tuple");
  while (!eat(s, ")")) {
    if (t->rank > TC_MAX_RANK) return tc_error(TC_STATUS_INVALID_ARGUMENT, "npy: more than %d dimensions", TC_MAX_RANK);
    if (!comma || !eat_size(s, &t->sizes[t->rank])) return bad_header("has a shape that is no tuple of sizes");
    t->rank++;
    comma = eat(s, ",");
  }
  if (t->rank == 1 && !comma) return bad_header("has a shape that is no tuple");
  return TC_OK;
}

static tc_status read_header(tc_sv s, header *h) {
  bool comma = true;
  if (!eat(&s, "{")) return bad_header("is no dict");
  while (!eat(&s, "}")) {
    tc_sv key;
    if (!comma || !eat_string(&s, &key) || !eat(&s, ":")) return bad_header("is no dict literal");
    bool *seen = tc_sv_is(key, "descr")           ? &h->has_descr
                 : tc_sv_is(key, "fortran_order") ? &h->has_order
                 : tc_sv_is(key, "shape")         ? &h->has_shape
                                                  : NULL;
    if (!seen || *seen) return bad_header("has unknown or repeated keys");
    *seen = true;
    if (seen == &h->has_descr) {
      TC_TRY(read_descr(&s, h));
    } else if (seen == &h->has_shape) {
      TC_TRY(read_shape(&s, h));
    } else {
      h->fortran = eat(&s, "True");
      if (!h->fortran && !eat(&s, "False")) return bad_header("has a fortran_order that is no bool");
    }
    comma = eat(&s, ",");
  }
  skip_space(&s);
  if (s.size) return bad_header("has text after the dict");
  if (!h->has_descr || !h->has_order || !h->has_shape) return bad_header("lacks descr, fortran_order or shape");
  if (!tc_stored_measure(&h->stored))
    return tc_error(TC_STATUS_OUT_OF_RANGE, "npy: the array does not fit 63 bits of bytes");
  return TC_OK;
}

// ---- reading

// Big-endian values turned round into memory of our own, one real number at a time.
static tc_status swap_bytes(const tc_allocator *a, tc_tensor *t) {
  const size_t width = (size_t)tc_dtype_size(tc_dtype_real(t->dtype));
  const size_t size = t->storage->size;
  const uint8_t *from = t->storage->data;
  tc_storage *s;
  TC_TRY(tc_storage_create(a, size, &s));
  for (size_t i = 0; i < size; i += width)
    for (size_t b = 0; b < width; b++) ((uint8_t *)s->data)[i + b] = from[i + width - 1 - b];
  tc_storage_unref(t->storage);
  t->storage = s;
  return TC_OK;
}

static tc_status parse_npy(const tc_allocator *a, tc_storage *bytes, size_t offset, size_t size, tc_sv name,
                           tc_stored *out_stored, tc_tensor *out) {
  *out = (tc_tensor){0};
  if (offset > bytes->size || size > bytes->size - offset)
    return tc_error(TC_STATUS_OUT_OF_RANGE, "npy: the array lies outside its file");
  const uint8_t *p = (const uint8_t *)bytes->data + offset;
  if (size < 10 || memcmp(p, magic, sizeof magic) != 0) return tc_error(TC_STATUS_DATA_LOSS, "npy: not a .npy file");
  if (p[6] < 1 || p[6] > 3 || p[7] != 0)
    return tc_error(TC_STATUS_UNIMPLEMENTED, "npy: version %d.%d is not supported", (int)p[6], (int)p[7]);
  const size_t fixed = p[6] == 1 ? 10 : 12;
  if (size < fixed) return bad_header("is cut short");
  size_t length = (size_t)p[8] | (size_t)p[9] << 8;
  if (p[6] > 1) length |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
  if (length > size - fixed) return bad_header("is cut short");
  header h = {.stored = {.name = name}};
  TC_TRY(read_header((tc_sv){(const char *)p + fixed, length}, &h));
  if (h.stored.bytes != size - fixed - length)
    return tc_error(TC_STATUS_DATA_LOSS, "npy: %zu bytes of data where the shape needs %llu", size - fixed - length,
                    (unsigned long long)h.stored.bytes);
  // Fortran order is row-major over the reversed shape; joining pairs is for row-major arrays only.
  if (!h.fortran) tc_stored_join(&h.stored);
  tc_stored s = h.stored;
  for (int32_t i = 0; h.fortran && i < s.rank; i++) s.sizes[i] = h.stored.sizes[s.rank - 1 - i];
  TC_TRY(tc_stored_view(a, bytes, offset + fixed + length, &s, out));
  tc_status status = h.swapped ? swap_bytes(a, out) : TC_OK;
  if (status) tc_tensor_unref(out);
  for (int32_t i = 0; h.fortran && i < out->rank / 2; i++) {
    const int32_t j = out->rank - 1 - i;
    const int64_t size_i = out->sizes[i], stride_i = out->strides[i];
    out->sizes[i] = out->sizes[j], out->strides[i] = out->strides[j];
    out->sizes[j] = size_i, out->strides[j] = stride_i;
  }
  *out_stored = h.stored;
  return status;
}

tc_status tc_npy_parse(const tc_allocator *a, tc_arena *arena, tc_storage *bytes, size_t offset, size_t size,
                       tc_tensor *out) {
  tc_stored s;
  (void)arena; // nothing of an array is kept beside the tensor
  return parse_npy(a, bytes, offset, size, (tc_sv){0}, &s, out);
}

typedef struct npz_job {
  const tc_allocator *allocator;
  tc_arena *arena;
  tc_storage *bytes;
  tc_storage *unpacked; // of the member being read
  tc_tensor_list list;
} npz_job;

static tc_status read_member(npz_job *job, const tc_zip *z, const tc_zip_entry *e, tc_map *names) {
  tc_stored s;
  tc_tensor t;
  const tc_sv name = tc_sv_sub(e->name, 0, e->name.size - 4);
  if (e->method == 0) {
    tc_sv payload;
    TC_TRY(tc_zip_read(job->arena, z, e, 0, &payload));
    TC_TRY(parse_npy(job->allocator, job->bytes, (size_t)e->offset, (size_t)e->size, name, &s, &t));
  } else {
    if (e->size / 1032 <= e->stored_size) TC_TRY(tc_storage_create(job->allocator, (size_t)e->size, &job->unpacked));
    TC_TRY(tc_zip_read_into(job->allocator, z, e, job->unpacked ? job->unpacked->data : NULL));
    TC_TRY(parse_npy(job->allocator, job->unpacked, 0, (size_t)e->size, name, &s, &t));
    tc_storage_unref(job->unpacked);
    job->unpacked = NULL;
  }
  return tc_list_add(&job->list, names, s.name, &t);
}

static tc_status parse_npz(void *arg) {
  npz_job *job = arg;
  tc_zip z;
  TC_TRY(tc_zip_open(job->arena, job->bytes->data, job->bytes->size, &z));
  job->list.items = TC_NEW_ARRAY(job->arena, tc_named_tensor, z.count);
  tc_map *names = tc_map_create(job->arena);
  for (int32_t i = 0; i < z.count; i++) {
    const tc_zip_entry *e = &z.entries[i];
    if (!tc_sv_ends(e->name, ".npy")) continue;
    TC_TRY(read_member(job, &z, e, names), "while reading the member '" TC_SV_FMT "'",
           TC_SV_ARG(tc_sv_sub(e->name, 0, 80)));
  }
  return TC_OK;
}

tc_status tc_npz_parse(const tc_allocator *a, tc_arena *arena, tc_storage *bytes, tc_tensor_list *out) {
  npz_job job = {.allocator = a, .arena = arena, .bytes = bytes};
  *out = (tc_tensor_list){0};
  tc_status status = tc_arena_guard(arena, parse_npz, &job); // what the job owns outlives an unwinding arena
  tc_storage_unref(job.unpacked);
  if (status) tc_tensor_list_free(&job.list);
  else *out = job.list;
  return status;
}

// ---- writing

tc_status tc_npy_header(tc_arena *arena, const tc_stored *s, tc_sv *out) {
  const descr_row *row = descr_of(s->dtype);
  if (!row)
    return tc_error(TC_STATUS_UNIMPLEMENTED, "npy: there is no NumPy dtype for %s; write .npz or .safetensors",
                    tc_dtype_name(s->dtype));
  tc_sb sb = tc_sb_make(arena);
  tc_sb_put(&sb, (tc_sv){magic, sizeof magic});
  tc_sb_put(&sb, (tc_sv){"\x01\x00\x00\x00", 4}); // version 1.0; the length is set below
  tc_sb_printf(&sb, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", tc_dtype_size(s->dtype) > 1 ? '<' : '|',
               row->text);
  for (int32_t i = 0; i < s->rank; i++) tc_sb_printf(&sb, i + 1 < s->rank ? "%lld, " : "%lld", (long long)s->sizes[i]);
  tc_sb_putz(&sb, s->rank == 1 ? ",), }" : "), }");
  while ((sb.size + 1) % 64) tc_sb_putc(&sb, ' ');
  tc_sb_putc(&sb, '\n');
  const size_t length = sb.size - 10; // at most 17 sizes of 20 bytes: far below 2^16
  sb.text[8] = (char)(length & 0xff), sb.text[9] = (char)(length >> 8);
  *out = tc_sb_view(&sb);
  return TC_OK;
}

tc_status tc_npz_build(tc_arena *arena, const tc_tensor_list *list, uint8_t **out_file, size_t *out_size) {
  const tc_allocator *a = tc_arena_allocator(arena);
  tc_zip_item *items = TC_NEW_ARRAY(arena, tc_zip_item, list->count);
  tc_sv *headers = TC_NEW_ARRAY(arena, tc_sv, list->count);
  tc_map *seen = tc_map_create(arena);
  for (int32_t i = 0; i < list->count; i++) {
    tc_stored s;
    TC_TRY(tc_stored_of(arena, &list->items[i], tc_npy_has, &s));
    TC_TRY(tc_npy_header(arena, &s, &headers[i]));
    items[i] = (tc_zip_item){.name = tc_sv_printf(arena, TC_SV_FMT ".npy", TC_SV_ARG(s.name)),
                             .size = headers[i].size + s.bytes};
    bool fresh;
    tc_map_put(seen, items[i].name, &fresh);
    if (!fresh)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "npz: two tensors are named '" TC_SV_FMT "'", TC_SV_ARG(s.name));
  }
  TC_TRY(tc_zip_layout(items, list->count, out_size));
  *out_file = a->alloc(a->self, *out_size);
  if (!*out_file) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a file of %zu bytes", *out_size);
  for (int32_t i = 0; i < list->count; i++) {
    uint8_t *payload = *out_file + items[i].offset;
    memcpy(payload, headers[i].data, headers[i].size);
    TC_TRY(tc_stored_put(a, &list->items[i].tensor, payload + headers[i].size));
  }
  tc_zip_finish(*out_file, items, list->count);
  return TC_OK;
}
