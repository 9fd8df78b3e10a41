// What the plugin boundary's list (sdk/abi/abi.def) expands to: the tables of functions that the host lends to plugins,
// checks that every struct of the boundary is laid out as listed, and the hash of levels 2 and 3.
//
// Plugins rarely touch the tables: they call tc_k_*, tc_kb_*, tc_op_*, tc_int_*, tc_ex_*, tc_lo_* and tc_stage_* as
// declared, and link the SDK's dispatch, which forwards through the tables of the host passed to tc_sdk_init.
// Included by tc/plugin.h.
#ifndef TC_TABLES_H_
#define TC_TABLES_H_

#include "tc/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TC_ABI_FN(since, ret, name, params, args, doc) ret(*name) params;
#define TC_ABI_PROC(since, name, params, args, doc) void(*name) params;
#define TC_ABI_BY_HAND(since, ret, name, params, doc) ret(*name) params;
#define TC_ABI_WANT_KERNEL_READ
typedef struct tc_kernel_read_table {
  uint64_t struct_size;
#include "../../abi/abi.def"
} tc_kernel_read_table;

#define TC_ABI_FN(since, ret, name, params, args, doc) ret(*name) params;
#define TC_ABI_PROC(since, name, params, args, doc) void(*name) params;
#define TC_ABI_BY_HAND(since, ret, name, params, doc) ret(*name) params;
#define TC_ABI_WANT_KERNEL_BUILD
typedef struct tc_kernel_build_table {
  uint64_t struct_size;
#include "../../abi/abi.def"
} tc_kernel_build_table;

#define TC_ABI_FN(since, ret, name, params, args, doc) ret(*name) params;
#define TC_ABI_PROC(since, name, params, args, doc) void(*name) params;
#define TC_ABI_BY_HAND(since, ret, name, params, doc) ret(*name) params;
#define TC_ABI_WANT_OP
typedef struct tc_op_table {
  uint64_t struct_size;
#include "../../abi/abi.def"
} tc_op_table;

#define TC_ABI_FN(since, ret, name, params, args, doc) ret(*name) params;
#define TC_ABI_PROC(since, name, params, args, doc) void(*name) params;
#define TC_ABI_BY_HAND(since, ret, name, params, doc) ret(*name) params;
#define TC_ABI_WANT_EXPAND
typedef struct tc_expand_table {
  uint64_t struct_size;
#include "../../abi/abi.def"
} tc_expand_table;

#define TC_ABI_FN(since, ret, name, params, args, doc) ret(*name) params;
#define TC_ABI_PROC(since, name, params, args, doc) void(*name) params;
#define TC_ABI_BY_HAND(since, ret, name, params, doc) ret(*name) params;
#define TC_ABI_WANT_LOWER
typedef struct tc_lower_table {
  uint64_t struct_size;
#include "../../abi/abi.def"
} tc_lower_table;

#define TC_ABI_FN(since, ret, name, params, args, doc) ret(*name) params;
#define TC_ABI_PROC(since, name, params, args, doc) void(*name) params;
#define TC_ABI_WANT_STAGE
typedef struct tc_stage_table {
  uint64_t struct_size;
#include "../../abi/abi.def"
} tc_stage_table;

// The layout is part of the boundary: a compiler that lays a struct out differently, or an edit that moves a field,
// stops here.
#ifdef __cplusplus
#define TC_ABI_ASSERT static_assert
#else
#define TC_ABI_ASSERT _Static_assert
#endif
TC_ABI_ASSERT(sizeof(void *) == 8, "the plugin boundary needs 64-bit pointers");
TC_ABI_ASSERT(sizeof(tc_sv) == 16, "tc_sv");
#define TC_ABI_FIELD(strct, since, offset, field, doc) \
  TC_ABI_ASSERT(offsetof(strct, field) == (offset), #strct "." #field " has moved");
#define TC_ABI_SIZE(strct, size) TC_ABI_ASSERT(sizeof(strct) == (size), #strct " has another size");
#define TC_ABI_SLOT(strct, since, offset, need, ret, name, params, doc) \
  TC_ABI_ASSERT(offsetof(strct, name) == (offset), #strct "." #name " has moved");
#define TC_ABI_SLOT_PROC(strct, since, offset, need, name, params, doc) \
  TC_ABI_ASSERT(offsetof(strct, name) == (offset), #strct "." #name " has moved");
#define TC_ABI_WANT_ALL
#include "../../abi/abi.def"

// ---- The hash of levels 2 and 3 ----
// Opcodes, struct layouts and signatures as the including file sees them: plugins that were built before the levels
// were promised (TC_ABI_KERNELS_LOCKED), and experimental extensions, must agree with the host exactly. Code in caches
// belongs to it, too. Bump the revision when only a meaning changes.
#define TC_KERNEL_ABI_REVISION "1"

static inline uint64_t tc_kernel_abi_hash(void) {
  static const char *const parts[] = {"tc kernels " TC_KERNEL_ABI_REVISION,
#define X(name, text, arity, cls) "op " #name " " text " " #arity " " #cls,
                                      TC_KOP_LIST(X)
#undef X
#define X(name, number, text, bytes, cls, torch) "dtype " #name " " #number " " text,
                                          TC_DTYPE_LIST(X)
#undef X
#define TC_ABI_FIELD(strct, since, offset, field, doc) "field " #strct "." #field " " #offset,
#define TC_ABI_SIZE(strct, size) "size " #strct " " #size,
#define TC_ABI_SLOT(strct, since, offset, need, ret, name, params, doc) \
  "slot " #strct "." #name " " #offset " " #ret #params,
#define TC_ABI_FN(since, ret, name, params, args, doc) "fn " #name " " #ret #params,
#define TC_ABI_PROC(since, name, params, args, doc) "fn " #name " void" #params,
#define TC_ABI_BY_HAND(since, ret, name, params, doc) "fn " #name " " #ret #params,
#define TC_ABI_WANT_CODEGEN
#define TC_ABI_WANT_KERNEL
#define TC_ABI_WANT_KERNEL_READ
#define TC_ABI_WANT_KERNEL_BUILD
#define TC_ABI_WANT_EXPAND
#define TC_ABI_WANT_LOWER
#define TC_ABI_WANT_TEMPLATE
#define TC_ABI_WANT_STAGE
#include "../../abi/abi.def"
  };
  static const int32_t numbers[] = {
      TC_SPACE_GLOBAL,  TC_SPACE_SHARED, TC_SPACE_LANE, TC_SPACE_TABLE, TC_MEM_READONLY,
      TC_MEM_WRITEONLY, TC_MEM_NOALIAS,  TC_MEM_STREAM, TC_KI_UNROLL,   TC_KI_FAST,
      TC_KI_NOWRAP,     TC_RED_SUM,      TC_RED_PROD,   TC_RED_MAX,     TC_RED_MIN,
      TC_RED_ANY,       TC_RED_ALL,      TC_RED_ARGMAX, TC_RED_ARGMIN,  TC_RED_WELFORD,
  };
  uint64_t h = 0xcbf29ce484222325ull; // FNV-1a
  size_t i;
  for (i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    const char *p = parts[i];
    do h = (h ^ (uint8_t)*p) * 0x100000001b3ull;
    while (*p++);
  }
  for (i = 0; i < sizeof numbers / sizeof numbers[0]; i++) h = (h ^ (uint32_t)numbers[i]) * 0x100000001b3ull;
  return h;
}
#define TC_KERNEL_ABI_HASH (tc_kernel_abi_hash())

#ifdef __cplusplus
}
#endif
#endif
