// Tensors on the host side of the runtime: dtype, sizes, strides, offset over a reference-counted storage, with lazy
// conjugate and negate bits, as PyTorch has them. Sizes, strides and the offset count elements.
//
// A tensor struct is a value that borrows nothing: copy with tc_tensor_ref, release with tc_tensor_unref. Reference
// counts are atomic; the contents are not guarded.
#ifndef TC_CORE_TENSOR_TENSOR_H_
#define TC_CORE_TENSOR_TENSOR_H_

#include "core/base/executor.h"
#include "core/base/str.h"

typedef struct tc_storage {
  int32_t refs;     // atomic
  uint32_t version; // atomic: raised by writes that gradients have to know of (core/api/tape.h)
  int32_t device;   // index in the context's device table; 0 is the host
  void *data;       // host pointer, or the device's handle
  size_t size;      // bytes
  void (*release)(void *owner, void *data);
  void *owner;
  const tc_allocator *allocator; // of this struct
} tc_storage;

typedef struct tc_tensor {
  tc_storage *storage;
  tc_dtype dtype;
  int32_t rank;
  int64_t sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
  int64_t offset;
  bool conj, neg;
} tc_tensor;

// dtypes
int32_t tc_dtype_size(tc_dtype d);     // bytes; 0 for NONE
int32_t tc_dtype_align(tc_dtype d);    // bytes that an element's address is a multiple of: one part of complex numbers
const char *tc_dtype_name(tc_dtype d); // "f32"
const char *tc_dtype_torch_name(tc_dtype d); // "torch.float32"
char tc_dtype_class(tc_dtype d);             // 'b' 'i' 'u' 'f' 'c'
tc_dtype tc_dtype_parse(tc_sv name);         // NONE if unknown
tc_dtype tc_dtype_real(tc_dtype d);          // c64 → f32; others unchanged
tc_dtype tc_dtype_complex(tc_dtype d);       // f32 → c64; NONE for integers
double tc_dtype_largest(tc_dtype d);         // the largest finite value of floating types and of parts of complex ones
double tc_dtype_epsilon(tc_dtype d);         // from 1 to the next value of those; both 0 for others
static inline bool tc_dtype_is_complex(tc_dtype d) { return d >= TC_C32; }
static inline bool tc_dtype_is_float(tc_dtype d) { return d >= TC_F16 && d <= TC_F64; }

// Scalar conversions between storage and double / int64 / bits (round to nearest even; saturating nothing: as C casts,
// floats to ints through int64).
float tc_f16_to_f32(uint16_t h);
uint16_t tc_f32_to_f16(float f);
float tc_bf16_to_f32(uint16_t h);
uint16_t tc_f32_to_bf16(float f);
uint16_t tc_f64_to_f16(double f);  // one rounding
uint16_t tc_f64_to_bf16(double f); // one rounding
// Truncated, as x86 converts: through int32 to what has up to 32 bits (u32 aside), else through int64 (u64: or the
// unsigned number's bits); what does not fit there gives the smallest number. The caller drops high bits.
int64_t tc_float_to_int(tc_dtype to, double v);

// Takes no reference to `data` unless release is given. On failure nothing is released.
TC_NODISCARD tc_status tc_storage_wrap(const tc_allocator *a, void *data, size_t size, void (*release)(void *, void *),
                                       void *owner, tc_storage **out);
TC_NODISCARD tc_status tc_storage_create(const tc_allocator *a, size_t size,
                                         tc_storage **out); // host, 64-byte aligned, uninitialised
void tc_storage_ref(tc_storage *s);
void tc_storage_unref(tc_storage *s); // NULL is ignored

// New row-major tensor, uninitialised; sizes checked for overflow.
TC_NODISCARD tc_status tc_tensor_create(const tc_allocator *a, tc_dtype d, int32_t rank, const int64_t *sizes,
                                        tc_tensor *out);
// The same with strides given (non-negative; the storage spans what they reach).
TC_NODISCARD tc_status tc_tensor_create_strided(const tc_allocator *a, tc_dtype d, int32_t rank, const int64_t *sizes,
                                                const int64_t *strides, tc_tensor *out);
// A view of a storage, which it references; every reachable element must lie inside it (overflow-checked). Strides may
// be negative; an empty view may have any non-negative offset.
TC_NODISCARD tc_status tc_tensor_view(tc_storage *s, tc_dtype d, int32_t rank, const int64_t *sizes,
                                      const int64_t *strides, int64_t offset, tc_tensor *out);
tc_tensor tc_tensor_ref(const tc_tensor *t);
void tc_tensor_unref(tc_tensor *t); // leaves it zeroed
int64_t tc_tensor_numel(const tc_tensor *t);
void *tc_tensor_data(const tc_tensor *t); // address of element 0 (host)
bool tc_tensor_is_contiguous(const tc_tensor *t);
void tc_contiguous_strides(int32_t rank, const int64_t *sizes, int64_t *out_strides);
// Copies values with conversion (dtype, strides, conj and neg bits resolved); same sizes. Host only.
TC_NODISCARD tc_status tc_tensor_copy(const tc_tensor *src, const tc_tensor *dst);
// The tensor itself (a reference) if it is row-major without lazy bits, else a row-major copy with them resolved.
TC_NODISCARD tc_status tc_tensor_contiguous(const tc_allocator *a, const tc_tensor *src, tc_tensor *out);
// One element as wide scalars, lazy bits resolved; complex as re, im (either may be NULL); integers exact through *_int
// (u64 as its bits). Host only.
void tc_tensor_get(const tc_tensor *t, const int64_t *index, double *re, double *im);
int64_t tc_tensor_get_int(const tc_tensor *t, const int64_t *index);
// Prints name, dtype, sizes and the first `max_values` values.
void tc_tensor_print(tc_sb *sb, tc_sv name, const tc_tensor *t, int32_t max_values);

// Random fills for tests and benchmarks (Philox; the same numbers on every machine, whatever the strides and the
// executor's threads, which share the work). A complex value has real mean `mean` and variance std², half of it in each
// part. An empty range gives `low`.
void tc_tensor_fill_normal(const tc_executor *e, const tc_tensor *t, uint64_t seed, double mean, double std);
void tc_tensor_fill_uniform_int(const tc_executor *e, const tc_tensor *t, uint64_t seed, int64_t low,
                                int64_t high); // [low, high)

#endif
