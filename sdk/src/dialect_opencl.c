// OpenCL C 1.2 for the C-like printer (The OpenCL C Specification, version 1.2).
//
// Nothing optional is needed but what a kernel itself uses: f64 needs cl_khr_fp64, atomics of 64 bits need
// cl_khr_int64_base_atomics. 16-bit floats are integers in memory and are converted by integer arithmetic, since
// vload_half may flush subnormal numbers. A failed check is recorded through 32-bit atomics: the site is -1 until then,
// so that its low word alone decides who is first (devices are little-endian).
#include "tc/cprint.h"

static const char prologue[] =
    "#pragma OPENCL FP_CONTRACT OFF\n"
    "#ifdef cl_khr_fp64\n"
    "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
    "#endif\n"
    "float tc_from_f16(ushort h);\n"
    "float tc_from_f16(ushort h) {\n"
    "  const uint sign = (uint)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;\n"
    "  if (e == 31) return as_float(sign | 0x7f800000u | m << 13);\n"
    "  if (e) return as_float(sign | (e + 112) << 23 | m << 13);\n"
    "  return as_float(sign | as_uint((float)m * 5.9604644775390625e-8f));\n"
    "}\n"
    "ushort tc_to_f16(float f);\n"
    "ushort tc_to_f16(float f) {\n"
    "  const uint b = as_uint(f), sign = b >> 16 & 0x8000, a = b & 0x7fffffff;\n"
    "  if (a > 0x7f800000u) return (ushort)(sign | 0x7e00);\n"
    "  if (a >= 0x477ff000u) return (ushort)(sign | 0x7c00);\n"
    "  if (a >= 0x38800000u) return (ushort)(sign | (((a + 0xfff + (a >> 13 & 1)) >> 13) - 0x1c000));\n"
    "  if (a < 0x33000000u) return (ushort)sign;\n"
    "  const uint shift = 126 - (a >> 23), m = (a & 0x7fffff) | 0x800000, low = m & ((1u << shift) - 1);\n"
    "  const uint r = m >> shift, tie = 1u << (shift - 1);\n"
    "  return (ushort)(sign | (r + (low > tie || (low == tie && (r & 1)) ? 1 : 0)));\n"
    "}\n"
    "float tc_from_bf16(ushort h);\n"
    "float tc_from_bf16(ushort h) { return as_float((uint)h << 16); }\n"
    "ushort tc_to_bf16(float f);\n"
    "ushort tc_to_bf16(float f) {\n"
    "  const uint b = as_uint(f);\n"
    "  return (b & 0x7fffffff) > 0x7f800000u ? (ushort)0x7fc0 : (ushort)((b + 0x7fff + (b >> 16 & 1)) >> 16);\n"
    "}\n"
    "#define tc_to_i32(x) ((x) >= -2147483648.0f && (x) < 2147483648.0f ? (int)(x) : -2147483647 - 1)\n"
    "#define tc_to_i64(x) ((x) >= -9223372036854775808.0f && (x) < 9223372036854775808.0f ? (long)(x) : \\\n"
    "  -9223372036854775807L - 1)\n"
    "#define tc_atomic_add_int(p, v) atomic_add(p, v)\n"
    "#define tc_atomic_add_uint(p, v) atomic_add(p, v)\n"
    "#define TC_ATOMIC_ADD(space, type, word, exchange) \\\n"
    "  __attribute__((overloadable)) void tc_atomic_add_##type(volatile space type *p, type v); \\\n"
    "  __attribute__((overloadable)) void tc_atomic_add_##type(volatile space type *p, type v) { \\\n"
    "    word old = *(volatile space word *)p, seen; \\\n"
    "    while ((seen = exchange((volatile space word *)p, old, as_##word(as_##type(old) + v))) != old) old = seen; "
    "\\\n"
    "  }\n"
    "TC_ATOMIC_ADD(__global, float, uint, atomic_cmpxchg)\n"
    "TC_ATOMIC_ADD(__local, float, uint, atomic_cmpxchg)\n"
    "#ifdef cl_khr_int64_base_atomics\n"
    "#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable\n"
    "#define tc_atomic_add_long(p, v) atom_add(p, v)\n"
    "#define tc_atomic_add_ulong(p, v) atom_add(p, v)\n"
    "#ifdef cl_khr_fp64\n"
    "TC_ATOMIC_ADD(__global, double, ulong, atom_cmpxchg)\n"
    "TC_ATOMIC_ADD(__local, double, ulong, atom_cmpxchg)\n"
    "#endif\n"
    "#endif\n"
    "void tc_check(__global long *errors, long site);\n"
    "void tc_check(__global long *errors, long site) {\n"
    "  volatile __global int *w = (volatile __global int *)errors;\n"
    "  if (atomic_cmpxchg(w, -1, (int)site) == -1) w[1] = (int)(site >> 32);\n"
    "}\n";

const tc_cdialect tc_dialect_opencl = {
    .language = "opencl",
    .prologue = prologue,
    .kernel_prefix = "__kernel void",
    .kernel_bounds = "__attribute__((reqd_work_group_size(%d, 1, 1)))",
    .global = "__global",
    .shared = "__local",
    .table = "__constant",
    .restrict_ = "restrict",
    .unroll = "#pragma unroll",
    .block = "(int)get_group_id(0)",
    .lane = "(int)get_local_id(0)",
    .barrier = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
    // bool is no type of memory in OpenCL C.
    .type_names = {[TC_BOOL] = "uchar",
                   [TC_U8] = "uchar",
                   [TC_I8] = "char",
                   [TC_I16] = "short",
                   [TC_I32] = "int",
                   [TC_I64] = "long",
                   [TC_U16] = "ushort",
                   [TC_U32] = "uint",
                   [TC_U64] = "ulong",
                   [TC_F16] = "ushort",
                   [TC_BF16] = "ushort",
                   [TC_F32] = "float",
                   [TC_F64] = "double"},
    .op_formats = {[TC_K_FMA] = {"fma($0, $1, $2)", "fma($0, $1, $2)"},
                   [TC_K_SQRT] = {"sqrt($0)", "sqrt($0)"},
                   [TC_K_ABS] = {"fabs($0)", "fabs($0)"},
                   [TC_K_FLOOR] = {"floor($0)", "floor($0)"},
                   [TC_K_CEIL] = {"ceil($0)", "ceil($0)"},
                   [TC_K_TRUNC] = {"trunc($0)", "trunc($0)"},
                   [TC_K_RINT] = {"rint($0)", "rint($0)"},
                   [TC_K_COPYSIGN] = {"copysign($0, $1)", "copysign($0, $1)"},
                   [TC_K_RCP_APPROX] = {"(1.0f / $0)", "(1.0 / $0)"},
                   [TC_K_MULHI] = {"mul_hi((uint)$0, (uint)$1)", "mul_hi((ulong)$0, (ulong)$1)"}},
    // vloadn and vstoren promise the alignment of an element only: drivers make accesses of single elements of them.
    .vector_load = "const $t$w $n = *(const $q $t$w *)($p)",
    .vector_element = "((const $t *)&$n)[$i]",
    .vector_store = "*($q $t$w *)($p) = ($t$w)($v);",
    .vector_bytes = 16,
    .alignment = "__attribute__((aligned(64)))",
    .pass_offsets = 1,
    .bitcast_f32_i32 = "as_int($0)",
    .bitcast_i32_f32 = "as_float($0)",
    .bitcast_f64_i64 = "as_long($0)",
    .bitcast_i64_f64 = "as_double($0)",
    .f16_load = "tc_from_f16($0)",
    .f16_store = "tc_to_f16($0)",
    .bf16_load = "tc_from_bf16($0)",
    .bf16_store = "tc_to_bf16($0)",
    .errors = "__global long *errors",
    .check = "if (!($0)) tc_check(errors, $1);",
    .atomic_add = "tc_atomic_add_$t($0, $1);",
    .inf_f32 = "INFINITY",
    .nan_f32 = "NAN",
    .inf_f64 = "(double)INFINITY",
    .nan_f64 = "(double)NAN",
    .name_prefix = "tc_kernel_",
    .float_to_i32 = "tc_to_i32($0)",
    .float_to_i64 = "tc_to_i64($0)",
};
