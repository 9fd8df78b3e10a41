// OpenCL C with what some devices have besides version 1.2: subgroups (The OpenCL Extension Specification,
// cl_khr_subgroups and cl_khr_subgroup_shuffle), 16-bit floats (cl_khr_fp16), and on NVIDIA's devices what CUDA has
// (the PTX ISA), as assembly. Values are those of tc_dialect_opencl but for the bits of NaN, and but for quotients and
// reciprocals that a kernel says may be approximate.
#include "tc/cprint.h"

// Shuffles need no pragma; compilers warn of one.
static const char subgroups[] = "#pragma OPENCL EXTENSION cl_khr_subgroups : enable\n";

static const char fp16[] = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
                           "float tc_half_load(ushort h);\n"
                           "float tc_half_load(ushort h) { return (float)as_half(h); }\n"
                           "ushort tc_half_store(float f);\n"
                           "ushort tc_half_store(float f) { return as_ushort(convert_half_rte(f)); }\n";

// Words are exchanged one at a time; a wider value is two.
#define SHUFFLE_WORD(type)                                                              \
  "__attribute__((overloadable)) " type " tc_shuffle_xor(" type " v, int distance);\n"  \
  "__attribute__((overloadable)) " type " tc_shuffle_xor(" type " v, int distance) {\n" \
  "  return as_" type "(tc_shuffle_word(as_uint(v), distance));\n"                      \
  "}\n"
#define SHUFFLE_PAIR(type)                                                                           \
  "__attribute__((overloadable)) " type " tc_shuffle_xor(" type " v, int distance);\n"               \
  "__attribute__((overloadable)) " type " tc_shuffle_xor(" type " v, int distance) {\n"              \
  "  const uint2 w = as_uint2(v);\n"                                                                 \
  "  return as_" type "((uint2)(tc_shuffle_word(w.x, distance), tc_shuffle_word(w.y, distance)));\n" \
  "}\n"
static const char nvidia[] =
    "uint tc_shuffle_word(uint v, int distance);\n"
    "uint tc_shuffle_word(uint v, int distance) {\n"
    "  uint r;\n"
    "  __asm__ volatile(\"shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;\" : \"=r\"(r) : \"r\"(v), \"r\"(distance));\n"
    "  return r;\n"
    "}\n" SHUFFLE_WORD("int") SHUFFLE_WORD("uint") SHUFFLE_WORD("float") SHUFFLE_PAIR("long")
        SHUFFLE_PAIR("ulong") "#ifdef cl_khr_fp64\n" SHUFFLE_PAIR(
            "double") "#endif\n"
                      "float tc_rcp(float a);\n"
                      "float tc_rcp(float a) { float r; __asm__(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(r) : "
                      "\"f\"(a)); return r; }\n"
                      "float tc_quotient(float a, float b);\n"
                      "float tc_quotient(float a, float b) {\n"
                      "  float r;\n"
                      "  __asm__(\"div.full.f32 %0, %1, %2;\" : \"=f\"(r) : \"f\"(a), \"f\"(b));\n"
                      "  return r;\n"
                      "}\n"
                      "float tc_half_load(ushort h);\n"
                      "float tc_half_load(ushort h) { float r; __asm__(\"cvt.f32.f16 %0, %1;\" : \"=f\"(r) : "
                      "\"h\"(h)); return r; }\n"
                      "ushort tc_half_store(float f);\n"
                      "ushort tc_half_store(float f) { ushort h; __asm__(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h) : "
                      "\"f\"(f)); return h; "
                      "}\n";

// Macros: results are variables, which a function would need the addresses of.
#define MMA(name, type)                                                                                              \
  "#define " name "(d0, d1, d2, d3, a0, a1, a2, a3, b0, b1, c0, c1, c2, c3) \\\n"                                    \
  "  __asm__ volatile(\"mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, {%4, %5, %6, " \
  "%7}, {%8, %9}, {%10, %11, %12, %13};\" \\\n"                                                                      \
  "    : \"=f\"(d0), \"=f\"(d1), \"=f\"(d2), \"=f\"(d3) : \"r\"(a0), \"r\"(a1), \"r\"(a2), \"r\"(a3), \\\n"          \
  "      \"r\"(b0), \"r\"(b1), \"f\"(c0), \"f\"(c1), \"f\"(c2), \"f\"(c3))\n"
#define EXTREME(name)                                                                                                \
  "float tc_" name "(float a, float b);\n"                                                                           \
  "float tc_" name "(float a, float b) { float r; __asm__(\"" name ".NaN.f32 %0, %1, %2;\" : \"=f\"(r) : \"f\"(a), " \
  "\"f\"(b)); return r; }\n"
static const char tiles[] = MMA("tc_mma_bf16", "bf16") MMA("tc_mma_f16", "f16") EXTREME("min") EXTREME("max");

void tc_dialect_opencl_with(uint32_t what, tc_cdialect *out) {
  *out = tc_dialect_opencl;
  if (what & TC_OPENCL_NVIDIA) {
    out->more[0] = nvidia;
    out->subgroup = 32;
    out->shuffle_xor = "tc_shuffle_xor($0, $1)";
    out->op_formats[TC_K_RCP_APPROX][0] = "tc_rcp($0)";
    out->fast_div_f32 = "tc_quotient($0, $1)";
    out->f16_load = "tc_half_load($0)", out->f16_store = "tc_half_store($0)";
    if (what & TC_OPENCL_TILES) {
      out->more[1] = tiles, out->mma_bf16 = "tc_mma_bf16", out->mma_f16 = "tc_mma_f16";
      out->op_formats[TC_K_MIN][0] = "tc_min($0, $1)", out->op_formats[TC_K_MAX][0] = "tc_max($0, $1)";
    }
    return;
  }
  if (what & TC_OPENCL_SUBGROUPS) {
    out->more[1] = subgroups;
    out->shuffle_xor = "sub_group_shuffle_xor($0, (uint)($1))";
    out->subgroup_size = "get_sub_group_size()", out->subgroup_lane = "get_sub_group_local_id()";
    out->subgroup_number = "get_sub_group_id()", out->subgroup_count = "get_num_sub_groups()";
  }
  if (what & TC_OPENCL_FP16) {
    out->more[2] = fp16;
    out->f16_load = "tc_half_load($0)", out->f16_store = "tc_half_store($0)";
  }
}
