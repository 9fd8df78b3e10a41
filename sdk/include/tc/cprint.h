// The C-like printer: a plain kernel → source text for any C-like device language, from a dialect table. A static
// helper that plugins link; it reads kernels only through tc/kernel.h.
//
// Lanes become threads; a new device is a table and a compiler call. Everything a table entry does not give is printed
// as C99. Source text is header-free. The dialect's compiler must not contract or reassociate floating arithmetic.
// Formats: $0, $1, $2 stand for operands (already in parentheses where needed).
// Lanes of the block run the block scope redundantly; `lanes` regions are plain blocks of statements.
// Each text is a source file of its own: the prologue and the kernel's tables, whose names other kernels have as well,
// stand in front of it.
#ifndef TC_CPRINT_H_
#define TC_CPRINT_H_

#include "tc/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tc_cdialect {
  const char *prologue;                   // typedefs and helper functions, printed first
  const char *kernel_prefix;              // "extern \"C\" __global__ void", "__kernel void"
  const char *kernel_bounds;              // printf format with the lanes: "__launch_bounds__(%d)",
                                          // "__attribute__((reqd_work_group_size(%d,1,1)))"
  const char *global, *shared, *table;    // address space qualifiers; NULL: none
  const char *restrict_;                  // "__restrict__", "restrict"
  const char *block, *lane;               // expressions: "blockIdx.x", "get_group_id(0)"
  const char *barrier;                    // "__syncthreads();"
  const char *unroll;                     // "#pragma unroll"
  const char *type_names[TC_DTYPE_COUNT]; // by dtype
  const char *op_formats[TC_K_COUNT][2];  // [op][0: 32-bit, 1: 64-bit floats]: "fmaf($0, $1, $2)"; NULL: C's operator
  const char *vector_load;                // how to load width elements at once, or NULL: element-wise
  // Reductions over the block: expression from the value, with the shared scratch the printer declares.
  int32_t subgroup;        // lanes that can shuffle; 0: tree in shared memory
  const char *shuffle_xor; // "__shfl_xor_sync(0xffffffffu, $0, $1)"
  int32_t pass_offsets;    // each buffer argument comes with a 64-bit byte offset
  const char *bitcast_f32_i32, *bitcast_i32_f32, *bitcast_f64_i64, *bitcast_i64_f64;
  const char *f16_load, *f16_store, *bf16_load, *bf16_store; // conversions "$0" when the storage type is 16 bits wide
  // What vector_load makes of $t (element type), $w (width), $n (name of a variable to declare), $p (address) and $q
  // (qualifier of its memory), and how element $i of it is read; vector_store stores the list of values $v. Used where
  // the address is known to be aligned to width elements, which together are at most vector_bytes wide.
  const char *vector_element, *vector_store;
  int32_t vector_bytes;
  int32_t reserved;
  const char *alignment; // of shared memory and tables, behind the type: "__align__(64)"; NULL: none
  const char *errors;    // declaration of the last parameter, the error block; NULL: none, and `check` is unimplemented
  const char *check;     // statement: condition $0, site $1
  const char *atomic_add; // statement: address $0, value $1, element type $t; NULL: unimplemented
  const char *prefetch;   // statement: address $0; NULL: nothing is printed
  const char *inf_f32, *nan_f32, *inf_f64, *nan_f64; // NULL: 1.0f/0.0f and the like
  // Shared memory beyond shared_static_bytes (0: no bound) becomes pieces of one buffer of chars named tc_shared,
  // declared by this text; tc_cprint_dynamic_shared says how large it must be at the launch.
  const char *shared_dynamic;
  int64_t shared_static_bytes;
  const char *name_prefix; // of a kernel's name, so that it is none of the language's; NULL: none
  // Casts of real floats to integers, where C's would not do for values out of range: "$0" as i32 and as i64 (narrower
  // types, and u32, keep the low bits of these). NULL: C's casts.
  const char *float_to_i32, *float_to_i64;
  const char *language;     // of kernels given as source that are printed as they stand: "opencl"; NULL: none are
  const char *fast_div_f32; // f32 quotients within 2 ulp, for divisions marked `fast`; NULL: as others
  const char *more[3];      // printed behind the prologue; NULL: nothing
  // Subgroups whose number of lanes, a power of two, is known only when a kernel runs (`subgroup` is 0): expressions of
  // this number, of the lane's place in its subgroup, of the subgroup's, and of how many there are. shuffle_xor is then
  // used in blocks of a power of two of lanes. NULL: there are none.
  const char *subgroup_size, *subgroup_lane, *subgroup_number, *subgroup_count;
  // Products of tiles: a function or macro of the four results and the ten operands, in their order; NULL: there is
  // none.
  const char *mma_bf16, *mma_f16;
  const char *start; // statement that every kernel begins with; NULL: none
  // Blank tables: of each only {1} is printed, so that it has a place in the object's data, where the user of the text
  // puts the numbers, which compilers take long to read. Its qualifier must not say that it is constant, so that loads
  // say it: of the element at address $p, and, as vector_load does, of several. NULL: tables are printed whole.
  const char *table_load, *table_vector_load;
} tc_cdialect;

// Receives the text in pieces.
typedef void (*tc_write_fn)(void *self, const char *text, size_t size);
// 0, or UNIMPLEMENTED with the opcode's text (or what else is missing; static text) in `out_reason` (may be NULL).
// Nothing is allocated. Values become variables v<number>, in the order of the kernel; memory keeps its name.
// Thread-safe.
int32_t tc_cprint(const tc_kernel *k, const tc_cdialect *dialect, tc_write_fn write, void *self, tc_sv *out_reason);
// Bytes of dynamic shared memory that a launch of the printed kernel needs; 0 where all is declared statically.
int64_t tc_cprint_dynamic_shared(const tc_kernel *k, const tc_cdialect *dialect);
// Writes the name that the printed kernel has: the prefix, then the kernel's with what is no letter or digit replaced.
void tc_cprint_name(const tc_kernel *k, const tc_cdialect *dialect, tc_write_fn write, void *self);
// Writes the name that a memory object has in the text. Returns its bytes there where its number of elements is known,
// as a table's is, else 0.
int64_t tc_cprint_memory(const tc_kernel *k, tc_kmem m, tc_write_fn write, void *self);

// ---- Dialects that come with the SDK ----
// CUDA C++ as NVRTC compiles it, without headers. Options that it needs: --fmad=false, -std=c++17.
// From sm_90 on a kernel whose grid has at most TC_CUDA_DEPENDENT_BLOCKS blocks along x waits for those in front of it,
// and may be launched before they have ended (cudaLaunchAttributeProgrammaticStreamSerialization); a larger one may
// not, since it does not wait: asking costs each block a microsecond, more than many short ones take.
#define TC_CUDA_DEPENDENT_BLOCKS 2048
extern const tc_cdialect tc_dialect_cuda;
// OpenCL C 1.2. Options that it needs: -cl-std=CL1.2, and -cl-fp32-correctly-rounded-divide-sqrt where the device has
// it. Buffers are passed as an object and a byte offset.
extern const tc_cdialect tc_dialect_opencl;
// The same with what a device has besides. TC_OPENCL_SUBGROUPS: cl_khr_subgroups and cl_khr_subgroup_shuffle; needs
// -cl-std=CL3.0. TC_OPENCL_FP16: cl_khr_fp16 with subnormal numbers, infinities and rounding to nearest, for
// conversions. TC_OPENCL_NVIDIA: a compiler that takes PTX of version 6.0 in asm, and lanes in lock-step by 32:
// shuffles, and the device's own conversions, reciprocals and quotients, as in CUDA. TC_OPENCL_TILES, with
// TC_OPENCL_NVIDIA: PTX of version 7.0 for sm_80 or later: products of tiles.
enum { TC_OPENCL_SUBGROUPS = 1, TC_OPENCL_FP16 = 2, TC_OPENCL_NVIDIA = 4, TC_OPENCL_TILES = 8 };
void tc_dialect_opencl_with(uint32_t what, tc_cdialect *out);

#ifdef __cplusplus
}
#endif
#endif
