// Types shared by the core, plugins and embedders: status codes, dtypes, strings.
//
// Everything here crosses the plugin boundary: fixed-width integers, no enums by value in structs, no padding holes.
// Numbers are append-only once an ABI version is locked (sdk/abi/abi.def).
#ifndef TC_TYPES_H_
#define TC_TYPES_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TC_MAX_RANK 16

// Status codes. X(name, number, text). Functions of the boundary return one of these as int32_t.
#define TC_STATUS_LIST(X)                         \
  X(OK, 0, "ok")                                  \
  X(INVALID_ARGUMENT, 1, "invalid argument")      \
  X(NOT_FOUND, 2, "not found")                    \
  X(OUT_OF_RANGE, 3, "out of range")              \
  X(OUT_OF_MEMORY, 4, "out of memory")            \
  X(UNIMPLEMENTED, 5, "unimplemented")            \
  X(DATA_LOSS, 6, "corrupt data")                 \
  X(IO, 7, "input/output error")                  \
  X(DEVICE, 8, "device failure")                  \
  X(PLUGIN, 9, "plugin failure")                  \
  X(MISMATCH, 10, "mismatch")                     \
  X(RESOURCE_EXHAUSTED, 11, "resource exhausted") \
  X(CANCELLED, 12, "cancelled")                   \
  X(INTERNAL, 13, "internal error")

enum {
#define X(name, number, text) TC_STATUS_##name = number,
  TC_STATUS_LIST(X)
#undef X
};

// Data types. X(NAME, number, text in .tc files, bytes, class, PyTorch's name). Classes: b bool, i signed, u unsigned,
// f real floating, c complex. The numbers are tc's own (pt2 numbers are mapped by the frontend).
#define TC_DTYPE_LIST(X)                        \
  X(BOOL, 1, "bool", 1, 'b', "torch.bool")      \
  X(U8, 2, "u8", 1, 'u', "torch.uint8")         \
  X(I8, 3, "i8", 1, 'i', "torch.int8")          \
  X(I16, 4, "i16", 2, 'i', "torch.int16")       \
  X(I32, 5, "i32", 4, 'i', "torch.int32")       \
  X(I64, 6, "i64", 8, 'i', "torch.int64")       \
  X(U16, 7, "u16", 2, 'u', "torch.uint16")      \
  X(U32, 8, "u32", 4, 'u', "torch.uint32")      \
  X(U64, 9, "u64", 8, 'u', "torch.uint64")      \
  X(F16, 10, "f16", 2, 'f', "torch.float16")    \
  X(BF16, 11, "bf16", 2, 'f', "torch.bfloat16") \
  X(F32, 12, "f32", 4, 'f', "torch.float32")    \
  X(F64, 13, "f64", 8, 'f', "torch.float64")    \
  X(C32, 14, "c32", 4, 'c', "torch.complex32")  \
  X(BC32, 15, "bc32", 4, 'c', "bcomplex32")     \
  X(C64, 16, "c64", 8, 'c', "torch.complex64")  \
  X(C128, 17, "c128", 16, 'c', "torch.complex128")

enum {
  TC_DTYPE_NONE = 0,
#define X(name, number, text, bytes, cls, torch) TC_##name = number,
  TC_DTYPE_LIST(X)
#undef X
      TC_DTYPE_COUNT
};
typedef int32_t tc_dtype;

// A borrowed string: not NUL-terminated, valid for the call unless stated otherwise.
typedef struct tc_sv {
  const char *data;
  size_t size;
} tc_sv;

#ifdef __cplusplus
}
#endif
#endif
