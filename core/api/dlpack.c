// DLPack: tensors of other libraries without a copy. The structs are those of DLPack's specification
// (dmlc/dlpack, include/dlpack/dlpack.h, before versioning), whose layout is its ABI.
#include <string.h>

#include "core/api/internal.h"

typedef struct dl_device {
  int32_t type, id; // type 1: host memory
} dl_device;
typedef struct dl_dtype {
  uint8_t code, bits;
  uint16_t lanes;
} dl_dtype;
typedef struct dl_tensor {
  void *data;
  dl_device device;
  int32_t rank;
  dl_dtype dtype;
  int64_t *sizes, *strides; // elements; strides NULL: row-major
  uint64_t byte_offset;
} dl_tensor;
typedef struct DLManagedTensor {
  dl_tensor t;
  void *owner;
  void (*deleter)(struct DLManagedTensor *self);
} dl_managed;

enum { DL_HOST = 1, DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_COMPLEX = 5, DL_BOOL = 6 };

static const struct {
  tc_dtype dtype;
  uint8_t code, bits;
} dtypes[] = {
    {TC_BOOL, DL_BOOL, 8},  {TC_U8, DL_UINT, 8},      {TC_U16, DL_UINT, 16},    {TC_U32, DL_UINT, 32},
    {TC_U64, DL_UINT, 64},  {TC_I8, DL_INT, 8},       {TC_I16, DL_INT, 16},     {TC_I32, DL_INT, 32},
    {TC_I64, DL_INT, 64},   {TC_F16, DL_FLOAT, 16},   {TC_BF16, DL_BFLOAT, 16}, {TC_F32, DL_FLOAT, 32},
    {TC_F64, DL_FLOAT, 64}, {TC_C32, DL_COMPLEX, 32}, {TC_C64, DL_COMPLEX, 64}, {TC_C128, DL_COMPLEX, 128},
};
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

typedef struct exported {
  dl_managed m;
  tc_tensor *tensor;
  const tc_allocator *allocator;
  int64_t sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
} exported;

static void drop_export(dl_managed *m) {
  exported *e = m->owner;
  const tc_allocator *a = e->allocator;
  tc_release(e->tensor);
  tc_free(a, e);
}

dl_managed *tc_to_dlpack_at(const char *here, tc_tensor *t) {
  if (!t) return NULL;
  if (!api_readable(here, "a tensor is exported (tc_to_dlpack)", t, true)) return NULL;
  if (t->conj || t->neg) {
    api_fail_text(TC_STATUS_INVALID_ARGUMENT, "DLPack has no conjugate or negative bit: make it contiguous first");
    return NULL;
  }
  int32_t k = 0;
  while (k < N_DTYPES && dtypes[k].dtype != t->dtype) k++;
  if (k == N_DTYPES) {
    api_fail_text(TC_STATUS_UNIMPLEMENTED, "DLPack has no %s", tc_dtype_name(t->dtype));
    return NULL;
  }
  const tc_allocator *a = api_of(t)->context->allocator;
  exported *e = tc_alloc(a, sizeof *e);
  if (!e) {
    api_fail(tc_error_out_of_memory());
    return NULL;
  }
  e->allocator = a;
  e->tensor = tc_retain(t);
  memcpy(e->sizes, t->sizes, sizeof e->sizes);
  memcpy(e->strides, t->strides, sizeof e->strides);
  e->m = (dl_managed){.t = {.data = tc_tensor_data(t),
                            .device = {DL_HOST, 0},
                            .rank = t->rank,
                            .dtype = {dtypes[k].code, dtypes[k].bits, 1},
                            .sizes = e->sizes,
                            .strides = e->strides},
                      .owner = e,
                      .deleter = drop_export};
  return &e->m;
}

static void drop_import(void *owner, void *data) {
  dl_managed *m = owner;
  (void)data;
  if (m->deleter) m->deleter(m);
}

tc_tensor *tc_from_dlpack(tc_context *c, dl_managed *m) {
  if (!m) return NULL;
  int32_t k = 0;
  while (k < N_DTYPES && (dtypes[k].code != m->t.dtype.code || dtypes[k].bits != m->t.dtype.bits)) k++;
  if (m->t.device.type != DL_HOST)
    api_fail_text(TC_STATUS_UNIMPLEMENTED, "a DLPack tensor on device type %d: only host memory", m->t.device.type);
  else if (k == N_DTYPES || m->t.dtype.lanes != 1)
    api_fail_text(TC_STATUS_UNIMPLEMENTED, "a DLPack dtype of code %d, %d bits, %d lanes", m->t.dtype.code,
                  m->t.dtype.bits, m->t.dtype.lanes);
  else
    return tc_tensor_borrow(c, dtypes[k].dtype, m->t.rank, m->t.sizes, m->t.strides,
                            (char *)m->t.data + m->t.byte_offset, drop_import, m);
  drop_import(m, NULL);
  return NULL;
}
