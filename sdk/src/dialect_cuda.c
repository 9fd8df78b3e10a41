// CUDA C++ for the C-like printer. Floating operations name their rounding, so that compiler options cannot contract
// them.
#include "tc/cprint.h"

// A kernel of few blocks may be launched before those in front of it have ended (PTX ISA, "griddepcontrol"): it waits
// until all that they wrote is seen, then the next one may be launched. What comes back is never 0, which compilers do
// not know: so they move no load of memory that a kernel does not write to a place in front of it.
_Static_assert(TC_CUDA_DEPENDENT_BLOCKS == 2048, "tc_start says so, too");
static const char prologue[] =
    "__device__ __forceinline__ unsigned tc_start() {\n"
    "  unsigned go = gridDim.x;\n"
    "#if __CUDA_ARCH__ >= 900\n"
    "  if (go <= 2048)\n"
    "    asm volatile(\"griddepcontrol.wait;\\ngriddepcontrol.launch_dependents;\\nmov.u32 %0, %%nctaid.x;\" : "
    "\"=r\"(go) :: "
    "\"memory\");\n"
    "#endif\n"
    "  return go;\n"
    "}\n"
    "template <typename T, int W> struct __align__(sizeof(T) * W) tc_vector { T v[W]; };\n"
    "template <typename T, int W, typename... V> __device__ __forceinline__ void tc_store(T *p, V... v) {\n"
    "  const tc_vector<T, W> t = {{v...}};\n"
    "  *(tc_vector<T, W> *)p = t;\n"
    "}\n"
    "__device__ __forceinline__ float tc_min(float a, float b) {\n"
    "#if __CUDA_ARCH__ >= 800\n"
    "  float r; asm(\"min.NaN.f32 %0, %1, %2;\" : \"=f\"(r) : \"f\"(a), \"f\"(b)); return r;\n"
    "#else\n"
    "  return a < b || a != a ? a : b;\n"
    "#endif\n"
    "}\n"
    "__device__ __forceinline__ float tc_max(float a, float b) {\n"
    "#if __CUDA_ARCH__ >= 800\n"
    "  float r; asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(r) : \"f\"(a), \"f\"(b)); return r;\n"
    "#else\n"
    "  return a > b || a != a ? a : b;\n"
    "#endif\n"
    "}\n"
    "__device__ __forceinline__ float tc_rcp(float a) { float r; asm(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(r) : "
    "\"f\"(a)); return r; }\n"
    "__device__ __forceinline__ float tc_quotient(float a, float b) { float r; asm(\"div.full.f32 %0, %1, %2;\" : "
    "\"=f\"(r) : \"f\"(a), \"f\"(b)); return r; }\n"
    "__device__ __forceinline__ float tc_from_f16(unsigned short h) { float r; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(r) "
    ": \"h\"(h)); return r; }\n"
    "__device__ __forceinline__ unsigned short tc_to_f16(float f) { unsigned short h; asm(\"cvt.rn.f16.f32 %0, %1;\" : "
    "\"=h\"(h) : \"f\"(f)); return h; }\n"
    "__device__ __forceinline__ float tc_from_bf16(unsigned short h) { return __int_as_float((int)h << 16); }\n"
    "__device__ __forceinline__ unsigned short tc_to_bf16(float f) {\n"
    "#if __CUDA_ARCH__ >= 800\n"
    "  unsigned short h; asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(f)); return h;\n"
    "#else\n"
    "  const unsigned b = __float_as_uint(f);\n"
    "  return f != f ? 0x7fc0 : (unsigned short)((b + 0x7fff + (b >> 16 & 1)) >> 16);\n"
    "#endif\n"
    "}\n"
    "template <typename F> __device__ __forceinline__ int tc_to_i32(F x) {\n"
    "  return x >= (F)-2147483648.0 && x < (F)2147483648.0 ? (int)x : -2147483647 - 1;\n"
    "}\n"
    "template <typename F> __device__ __forceinline__ long long tc_to_i64(F x) {\n"
    "  return x >= (F)-9223372036854775808.0 && x < (F)9223372036854775808.0 ? (long long)x : -9223372036854775807ll - "
    "1;\n"
    "}\n"
    "template <typename T> __device__ __forceinline__ void tc_atomic_add(T *p, T v) { atomicAdd(p, v); }\n"
    "__device__ __forceinline__ void tc_atomic_add(long long *p, long long v) { atomicAdd((unsigned long long *)p, "
    "(unsigned long long)v); }\n"
    "__device__ __noinline__ void tc_check(long long *errors, long long site) { atomicCAS((unsigned long long "
    "*)errors, ~0ull, (unsigned long long)site); }\n";

// PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions"; sm_80 and later.
#define MMA(name, type)                                                                                           \
  "__device__ __forceinline__ void " name "(float &d0, float &d1, float &d2, float &d3, int a0, int a1, int a2, " \
  "int a3, int b0, int b1, float c0, float c1, float c2, float c3) {\n"                                           \
  "  asm volatile(\"mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, {%4, %5, %6, "  \
  "%7}, {%8, %9}, {%10, %11, %12, %13};\" : \"=f\"(d0), \"=f\"(d1), \"=f\"(d2), \"=f\"(d3) : \"r\"(a0), "         \
  "\"r\"(a1), \"r\"(a2), \"r\"(a3), \"r\"(b0), \"r\"(b1), \"f\"(c0), \"f\"(c1), \"f\"(c2), \"f\"(c3));\n"         \
  "}\n"
static const char tiles[] = MMA("tc_mma_bf16", "bf16") MMA("tc_mma_f16", "f16");

const tc_cdialect tc_dialect_cuda = {
    .language = "cuda",
    .prologue = prologue,
    .kernel_prefix = "extern \"C\" __global__ void",
    .kernel_bounds = "__launch_bounds__(%d)",
    .shared = "__shared__",
    .table = "static __device__ const",
    .restrict_ = "__restrict__",
    .block = "(int)blockIdx.x",
    .lane = "(int)threadIdx.x",
    .barrier = "__syncthreads();",
    .unroll = "#pragma unroll",
    .type_names = {[TC_BOOL] = "bool",
                   [TC_U8] = "unsigned char",
                   [TC_I8] = "signed char",
                   [TC_I16] = "short",
                   [TC_I32] = "int",
                   [TC_I64] = "long long",
                   [TC_U16] = "unsigned short",
                   [TC_U32] = "unsigned",
                   [TC_U64] = "unsigned long long",
                   [TC_F16] = "unsigned short",
                   [TC_BF16] = "unsigned short",
                   [TC_F32] = "float",
                   [TC_F64] = "double"},
    .op_formats = {[TC_K_FMA] = {"__fmaf_rn($0, $1, $2)", "__fma_rn($0, $1, $2)"},
                   [TC_K_SQRT] = {"__fsqrt_rn($0)", "__dsqrt_rn($0)"},
                   [TC_K_ABS] = {"fabsf($0)", "fabs($0)"},
                   [TC_K_FLOOR] = {"floorf($0)", "floor($0)"},
                   [TC_K_CEIL] = {"ceilf($0)", "ceil($0)"},
                   [TC_K_TRUNC] = {"truncf($0)", "trunc($0)"},
                   [TC_K_RINT] = {"rintf($0)", "rint($0)"},
                   [TC_K_COPYSIGN] = {"copysignf($0, $1)", "copysign($0, $1)"},
                   [TC_K_FMIN] = {"fminf($0, $1)", "fmin($0, $1)"},
                   [TC_K_FMAX] = {"fmaxf($0, $1)", "fmax($0, $1)"},
                   [TC_K_MIN] = {"tc_min($0, $1)", NULL},
                   [TC_K_MAX] = {"tc_max($0, $1)", NULL},
                   [TC_K_RCP_APPROX] = {"tc_rcp($0)", "(1.0 / $0)"},
                   [TC_K_MULHI] = {NULL, "__umul64hi($0, $1)"}},
    .vector_load = "const tc_vector<$t, $w> $n = *(const tc_vector<$t, $w> *)($p)",
    .vector_element = "$n.v[$i]",
    .vector_store = "tc_store<$t, $w>($p, $v);",
    .vector_bytes = 16,
    .alignment = "__attribute__((aligned(64)))",
    .subgroup = 32,
    .shuffle_xor = "__shfl_xor_sync(0xffffffffu, $0, $1)",
    .pass_offsets = 0,
    .bitcast_f32_i32 = "__float_as_int($0)",
    .bitcast_i32_f32 = "__int_as_float($0)",
    .bitcast_f64_i64 = "__double_as_longlong($0)",
    .bitcast_i64_f64 = "__longlong_as_double($0)",
    .f16_load = "tc_from_f16($0)",
    .f16_store = "tc_to_f16($0)",
    .bf16_load = "tc_from_bf16($0)",
    .bf16_store = "tc_to_bf16($0)",
    .errors = "long long *errors",
    .check = "if (!($0)) tc_check(errors, $1);",
    .atomic_add = "tc_atomic_add($0, $1);",
    .inf_f32 = "__int_as_float(0x7f800000)",
    .nan_f32 = "__int_as_float(0x7fc00000)",
    .inf_f64 = "__longlong_as_double(0x7ff0000000000000ll)",
    .nan_f64 = "__longlong_as_double(0x7ff8000000000000ll)",
    .prefetch = "asm volatile(\"prefetch.L2 [%0];\" :: \"l\"($0));",
    .shared_dynamic = "extern __shared__ __align__(128) unsigned char tc_shared[];",
    .name_prefix = "tc_kernel_",
    // What processors and PyTorch's results there give for values out of range.
    .float_to_i32 = "tc_to_i32($0)",
    .float_to_i64 = "tc_to_i64($0)",
    .fast_div_f32 = "tc_quotient($0, $1)",
    .more = {tiles},
    .mma_bf16 = "tc_mma_bf16",
    .mma_f16 = "tc_mma_f16",
    .shared_static_bytes = 40960, // of 48 KiB: the scratch of collectives is static
    .start = "if (!tc_start()) return;",
};
