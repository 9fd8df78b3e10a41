// Kernel IR: one launch, backend-neutral. What level-2 plugins read (tc_k_*) and level-3 templates write (tc_kb_*).
//
// A kernel is a grid of independent blocks. A block has a fixed number of lanes and two scopes:
//   block scope    uniform values, for, if, barriers, collectives, `lanes` regions
//   lanes { … }    varying values (one per lane), for and if with uniform bounds and conditions; no barriers, no
//                  collectives. What varies by lane is selected or masked, never branched on.
// A value made in a lanes region is seen inside it only; the region may yield values, which only collectives may use.
// Other ways across are lane arrays (registers per lane) and shared memory. Between two lanes regions that touch the
// same shared memory there must be a barrier.
//
// Text (printed and parsed by the core; `tcrun dump --stage=kernel`):
//
//   kernel @rms (%x : global f32 readonly, %y : global f32 writeonly, %rows : i32, %n : i32 in [1, 16384] div 4)
//       blocks 1 lanes 256 {
//     shared %t : f32[256]
//     lane_array %v : f32[16]
//     table %w : f32 = [1.0, 0.5]
//     %b = block
//     %q = lanes {
//       %l = lane
//       %z = const 0.0 : f32
//       %acc = for %j = 0 to %n step 256 unroll (%s = %z) {
//         %k = add %j, %l
//         %ok = lt %k, %n
//         %i = fma %b, %n, %k
//         %e = load %x[%i] if %ok else %z
//         %s1 = fma %e, %e, %s
//         yield %s1
//       }
//       yield %acc
//     }
//     %sum = reduce.add %q
//     barrier
//   }
//
// A kernel in a device's own language has `source "opencl" "DECLARATIONS" "BODY"` instead of the braces (tc_ksource).
//
// Integer constants may be written in place of operands (`add %j, 4`; their type is the other operand's).
//
// Semantics. Integers wrap. Floating arithmetic is IEEE 754 round-to-nearest-even of the stated type; nothing is
// contracted or reassociated; fma is explicit. 16-bit floats are storage types: arithmetic on them is not legal in what
// plugins see (the core widens to f32 and rounds with `cast`). `min`/`max` propagate NaN (PyTorch's minimum/maximum);
// `fmin`/`fmax` ignore it (IEEE minNum); which zero these four give of two zeros of unlike sign is unspecified. Float
// to integer casts of values out of range give an unspecified value, no trap. `div` and `rem` on integers round towards
// zero and must not divide by zero. Comparisons give bool (0 or 1).
// `dot2 a, b, c` is c + lo(a)·lo(b) + hi(a)·hi(b), where the halves of the i32 a and b are the bits of bf16 numbers;
// how the sums are rounded and whether subnormal numbers count is the device's choice, and only devices that say so
// (`pairs`) get it.
//
// `d0, d1, d2, d3 = mma.bf16 a0, a1, a2, a3, b0, b1, c0, c1, c2, c3` (and `mma.f16`) is a product of tiles that 32
// neighbouring lanes make together: D = A·B + C, where A has 16 rows of 16 numbers, B 16 rows of 8, C and D 16 rows of
// 8. Lane l of the 32 has, with g = l / 4 and t = l mod 4, in the halves of the i32 a and b numbers of 16 bits, the
// first of each pair low: a0 row g and a1 row g + 8 of A at columns 2t and 2t + 1, a2 and a3 the same rows at columns
// 2t + 8 and 2t + 9; b0 rows 2t and 2t + 1 and b1 rows 2t + 8 and 2t + 9 of B at column g; c0, c1 row g and c2, c3 row
// g + 8 of C at columns 2t and 2t + 1, as f32, and so D. All lanes of the block run it, whose number is a multiple
// of 32. Products are exact; how the sums are rounded is the device's choice (many cut bits off), and only devices that
// say so (`tiles`) get it. This is the layout of PTX's mma.m16n8k16.
//
// Loads and stores with `if mask` touch no memory where the mask is false; the load then gives
// `else`.
//
// Thread-safety: a finished kernel is immutable and may be read from several threads. A builder belongs to one.
// Source of the design: docs/architecture.md, "Kernel IR".
#ifndef TC_KERNEL_H_
#define TC_KERNEL_H_

#include "tc/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tc_kernel tc_kernel;
typedef struct tc_kb tc_kb;
typedef int32_t tc_kval; // a value; -1 is none
typedef int32_t tc_kmem; // a memory object of the kernel: global parameter, shared, lane array or table

// Opcodes. X(NAME, text, arity, class)
// Classes: a  arithmetic, result type = operand type      c  comparison → bool       s  structural / memory (see below)
//          m  mathematical function, lowered by the core before plugins see it       t  result type given
// clang-format off
#define TC_KOP_LIST(X)                                                                                                \
  /* constants and coordinates */                                                                                     \
  X(CONST, "const", 0, 't')   /* fimm (floats) or imm (integers, bool) */                                             \
  X(BLOCK, "block", 0, 't')   /* i32, uniform: number of this block in the grid */                                    \
  X(LANE, "lane", 0, 't')     /* i32, varying: 0 … lanes-1 */                                                         \
  X(SCALAR, "scalar", 0, 't') /* the value of scalar parameter imm */                                                 \
  /* arithmetic */                                                                                                    \
  X(ADD, "add", 2, 'a')                                                                                               \
  X(SUB, "sub", 2, 'a')                                                                                               \
  X(MUL, "mul", 2, 'a')                                                                                               \
  X(DIV, "div", 2, 'a') X(REM, "rem", 2, 'a') X(NEG, "neg", 1, 'a') X(ABS, "abs", 1, 'a') X(MIN, "min", 2, 'a')       \
      X(MAX, "max", 2, 'a') X(FMIN, "fmin", 2, 'a') X(FMAX, "fmax", 2, 'a')                                           \
          X(FMA, "fma", 3, 'a') /* a*b + c; integers too */                                                           \
      X(SQRT, "sqrt", 1, 'a') X(FLOOR, "floor", 1, 'a') X(CEIL, "ceil", 1, 'a') X(TRUNC, "trunc", 1, 'a')             \
          X(RINT, "rint", 1, 'a') /* to nearest even */ X(COPYSIGN, "copysign", 2, 'a')                               \
              X(RCP_APPROX, "rcp_approx", 1, 'a') /* relative error ≤ 2^-12 or better */                              \
      X(AND, "and", 2, 'a') X(OR, "or", 2, 'a') X(XOR, "xor", 2, 'a') X(NOT, "not", 1, 'a') X(SHL, "shl", 2, 'a')     \
          X(SHR, "shr", 2, 'a') /* arithmetic for signed types */                                                     \
      X(MULHI, "mulhi", 2, 'a') /* high half of the product */                                                        \
      X(DOT2, "dot2", 3, 't')   /* i32, i32, f32: two products of bf16 and a sum, see above */                        \
      X(EQ, "eq", 2, 'c') X(NE, "ne", 2, 'c') X(LT, "lt", 2, 'c') X(LE, "le", 2, 'c') X(GT, "gt", 2, 'c')             \
          X(GE, "ge", 2, 'c') X(SELECT, "select", 3, 't') /* cond ? a : b */                                          \
      X(CAST, "cast", 1, 't')                             /* value conversion; to bool: x != 0 */                     \
      X(BITCAST, "bitcast", 1, 't') /* same size */       /* memory */                                                \
      X(LOAD, "load", -1, 's')   /* args: index [, mask, else × width]; width consecutive elements are the results */ \
      X(STORE, "store", -1, 's') /* args: index, values × width [, mask] */                                           \
      X(ATOMIC_ADD, "atomic_add", -1, 's') /* args: index, value [, mask]; no result */                               \
      X(PREFETCH, "prefetch", 1, 's')      /* args: index */                                                          \
      X(CHECK, "check", 1,                                                                                            \
        's') /* args: cond; records error site imm where cond is false; execution goes on */ /* structure */          \
      X(FOR, "for", -1, 's')    /* args: lo, hi, inits…; step imm; region(iv, carried…) ends in yield; flag unroll */ \
      X(IF, "if", 1, 's')       /* args: uniform cond; regions then, else; both end in yield */                       \
      X(LANES, "lanes", 0, 's') /* region ends in yield */                                                            \
      X(YIELD, "yield", -1, 's')                                                                                      \
          X(BARRIER, "barrier", 0,                                                                                    \
            's') /* orders shared memory, and global memory that the block wrote, among the lanes of the block */ /* collectives: block scope, arg is a value  \
                                                                            yielded by a lanes region */              \
      X(REDUCE_ADD, "reduce.add", 1, 's') X(REDUCE_MUL, "reduce.mul", 1, 's') X(REDUCE_MIN, "reduce.min", 1, 's')     \
          X(REDUCE_MAX, "reduce.max", 1, 's') X(REDUCE_AND, "reduce.and", 1, 's') X(REDUCE_OR, "reduce.or", 1, 's')   \
              X(BROADCAST, "broadcast", 1,                                                                            \
                's') /* the value of lane imm */ /* mathematical functions: PyTorch's/C's definitions; lowered by     \
                                                    core/kernel/maths before the ABI */                               \
      X(EXP, "exp", 1, 'm') X(EXP2, "exp2", 1, 'm') X(EXPM1, "expm1", 1, 'm') X(LOG, "log", 1, 'm')                   \
          X(LOG2, "log2", 1, 'm') X(LOG10, "log10", 1, 'm') X(LOG1P, "log1p", 1, 'm') X(SIN, "sin", 1, 'm')           \
              X(COS, "cos", 1, 'm') X(TAN, "tan", 1, 'm') X(ASIN, "asin", 1, 'm') X(ACOS, "acos", 1, 'm')             \
                  X(ATAN, "atan", 1, 'm') X(ATAN2, "atan2", 2, 'm') X(SINH, "sinh", 1, 'm') X(COSH, "cosh", 1, 'm')   \
                      X(TANH, "tanh", 1, 'm') X(ASINH, "asinh", 1, 'm') X(ACOSH, "acosh", 1, 'm') X(                  \
                          ATANH, "atanh", 1, 'm') X(ERF, "erf", 1, 'm') X(ERFC, "erfc", 1, 'm') X(POW, "pow", 2, 'm') \
                          X(RSQRT, "rsqrt", 1, 'm') X(HYPOT, "hypot", 2, 'm') X(FMOD, "fmod", 2, 'm')                 \
                              X(SIGMOID, "sigmoid", 1, 'm') X(ROUND, "round", 1, 'm') X(LGAMMA, "lgamma", 1, 'm')     \
                                  X(CBRT, "cbrt", 1, 'm') /* complex: parts and composition; arithmetic above also    \
                                                             takes complex types until core/kernel expands it */      \
      X(COMPLEX, "complex", 2, 't') X(REAL, "real", 1, 't') X(IMAG, "imag", 1, 't') X(CONJ, "conj", 1, 'm')           \
          X(ABS2, "abs2", 1, 't') /* re² + im² */ X(ANGLE, "angle", 1, 't')                                               \
  /* since 1.7: products of tiles by 32 lanes, see above; args: a × 4, b × 2, c × 4; results: d × 4 */                 \
  X(MMA_BF16, "mma.bf16", 10, 's') X(MMA_F16, "mma.f16", 10, 's')
// clang-format on

enum {
#define X(name, text, arity, cls) TC_K_##name,
  TC_KOP_LIST(X)
#undef X
      TC_K_COUNT
};

enum { TC_MMA_LANES = 32 }; // that multiply tiles together

// Memory spaces.
enum { TC_SPACE_GLOBAL, TC_SPACE_SHARED, TC_SPACE_LANE, TC_SPACE_TABLE };
// Flags of memory objects.
enum {
  TC_MEM_READONLY = 1,
  TC_MEM_WRITEONLY = 2,
  TC_MEM_NOALIAS = 4,
  TC_MEM_STREAM = 8 /* written once, not read soon */
};
// Flags of instructions.
enum {
  TC_KI_UNROLL = 1,
  TC_KI_FAST = 2 /* div, sqrt: ≤ 2 ulp suffices */,
  TC_KI_NOWRAP =
      4 /* integer result in range; fast div: of finite numbers, the divisor normal and at most 2^127 (f64: 2^1023) */,
  TC_KI_RARE =
      8 /* select: the last operand is seldom taken, so that what only it needs is worth a branch of threads */,
  TC_KI_FAR = 16 /* prefetch: much is read before it, so that the first cache is no place for it */
};

typedef struct tc_kmem_info {
  tc_sv name;
  int32_t space, flags;
  tc_dtype dtype;   // never complex in what plugins see
  int32_t align;    // bytes, of element 0 (GLOBAL: promised; others: demanded)
  int64_t count;    // elements; GLOBAL: -1
  const void *data; // TABLE: count elements
} tc_kmem_info;

typedef struct tc_kscalar_info {
  tc_sv name;
  tc_dtype dtype;
  int32_t reserved;
  int64_t lo, hi, divisor; // facts; INT64_MIN/MAX and 1 when nothing is known
} tc_kscalar_info;

// Parameters in argument order; each is a memory object (GLOBAL) or a scalar.
typedef struct tc_kparam {
  int32_t is_scalar;
  int32_t index; // tc_kmem, or number for SCALAR's imm and tc_k_scalar
} tc_kparam;

typedef struct tc_kinst {
  int32_t op, flags;
  int32_t width;    // LOAD, STORE: consecutive elements, ≥ 1
  tc_kmem mem;      // LOAD, STORE, ATOMIC_ADD, PREFETCH; else -1
  int32_t has_mask; // LOAD, STORE, ATOMIC_ADD
  int32_t n_args, n_results, n_regions;
  const tc_kval *args, *results;
  const int32_t *regions;
  int64_t imm;
  double fimm;
} tc_kinst;

typedef struct tc_kregion {
  int32_t n_params, n_insts;
  const tc_kval *params; // FOR: induction variable, then carried values
  const int32_t *insts;  // instruction numbers in order; the last is YIELD
} tc_kregion;

typedef struct tc_kvalue {
  tc_dtype dtype;
  int32_t varying; // may differ by lane
  int32_t inst;    // defining instruction, or -1 for a region's parameter
  int32_t result;  // which result or parameter
} tc_kvalue;

// A kernel that somebody wrote in a device's own language. It has parameters and lanes, and an empty body; the texts
// stand for that. Memory and scalars have the parameters' names in them, elements of parameter x have the type x_t, and
// `block`, `lane` and `lanes` are numbers of type int (the SDK's printer declares all that).
typedef struct tc_ksource {
  tc_sv language;     // "opencl": tc_codegen_table.source_language
  tc_sv declarations; // in front of the kernel: constants, helper functions
  tc_sv body;         // its statements
} tc_ksource;

// ---- Reading. Numbers run from 0 to the count; pointers live as long as the kernel. ----
tc_sv tc_k_name(const tc_kernel *k);
int32_t tc_k_lanes(const tc_kernel *k);
int32_t tc_k_param_count(const tc_kernel *k);
void tc_k_param(const tc_kernel *k, int32_t i, tc_kparam *out);
int32_t tc_k_mem_count(const tc_kernel *k);
void tc_k_mem(const tc_kernel *k, tc_kmem m, tc_kmem_info *out);
int32_t tc_k_scalar_count(const tc_kernel *k);
void tc_k_scalar(const tc_kernel *k, int32_t i, tc_kscalar_info *out);
int32_t tc_k_inst_count(const tc_kernel *k);
void tc_k_inst(const tc_kernel *k, int32_t i, tc_kinst *out);
int32_t tc_k_value_count(const tc_kernel *k);
void tc_k_value(const tc_kernel *k, tc_kval v, tc_kvalue *out);
int32_t tc_k_region_count(const tc_kernel *k);
void tc_k_region(const tc_kernel *k, int32_t r, tc_kregion *out);
int32_t tc_k_body(const tc_kernel *k); // the block-scope region
const char *tc_k_op_text(int32_t op);
int32_t tc_k_op_class(int32_t op);
int32_t tc_k_source(const tc_kernel *k, tc_ksource *out); // 1 if the kernel is given as source, else 0

// The first opcode of a kernel that these headers do not have, or -1. A host of a later version may use some: a plugin
// refuses such a kernel (TC_STATUS_UNIMPLEMENTED) before it looks anything up by opcode.
static inline int32_t tc_k_later_op(const tc_kernel *k) {
  int32_t n = tc_k_inst_count(k), i;
  for (i = 0; i < n; i++) {
    tc_kinst in;
    tc_k_inst(k, i, &in);
    if (in.op < 0 || in.op >= TC_K_COUNT) return in.op;
  }
  return -1;
}

// ---- Writing. A failed call (wrong types, out of memory) marks the builder: later calls do nothing and return -1, and
// tc_kb_finish reports the first failure. ----
tc_kmem tc_kb_global(tc_kb *b, tc_sv name, tc_dtype dtype, int32_t flags, int32_t align);
int32_t tc_kb_scalar(tc_kb *b, tc_sv name, tc_dtype dtype, int64_t lo, int64_t hi, int64_t divisor); // parameter number
tc_kmem tc_kb_shared(tc_kb *b, tc_sv name, tc_dtype dtype, int64_t count);
tc_kmem tc_kb_lane_array(tc_kb *b, tc_sv name, tc_dtype dtype, int64_t count);
tc_kmem tc_kb_table(tc_kb *b, tc_sv name, tc_dtype dtype, int64_t count, const void *data);
int32_t tc_kb_lanes_count(const tc_kb *b);

tc_kval tc_kb_int(tc_kb *b, tc_dtype dtype, int64_t v);
tc_kval tc_kb_real(tc_kb *b, tc_dtype dtype, double v);
tc_kval tc_kb_block(tc_kb *b);
tc_kval tc_kb_lane(tc_kb *b);
tc_kval tc_kb_param(tc_kb *b, int32_t scalar);
// Any opcode of class a, c or m, and SELECT. Constants are folded, identities simplified.
tc_kval tc_kb_op(tc_kb *b, int32_t op, int32_t n, const tc_kval *args);
tc_kval tc_kb_op1(tc_kb *b, int32_t op, tc_kval x);
tc_kval tc_kb_op2(tc_kb *b, int32_t op, tc_kval x, tc_kval y);
tc_kval tc_kb_op3(tc_kb *b, int32_t op, tc_kval x, tc_kval y, tc_kval z);
tc_kval tc_kb_cast(tc_kb *b, tc_dtype dtype, tc_kval x);
tc_kval tc_kb_bitcast(tc_kb *b, tc_dtype dtype, tc_kval x);
tc_dtype tc_kb_type(const tc_kb *b, tc_kval x);
// width consecutive elements from `index` into out[]. mask -1: none; other[] (or NULL: zeros) where the mask is false.
void tc_kb_load(tc_kb *b, tc_kmem m, tc_kval index, int32_t width, tc_kval mask, const tc_kval *other, tc_kval *out);
tc_kval tc_kb_load1(tc_kb *b, tc_kmem m, tc_kval index, tc_kval mask, tc_kval other);
void tc_kb_store(tc_kb *b, tc_kmem m, tc_kval index, int32_t width, const tc_kval *values, tc_kval mask);
void tc_kb_atomic_add(tc_kb *b, tc_kmem m, tc_kval index, tc_kval value, tc_kval mask);
void tc_kb_prefetch(tc_kb *b, tc_kmem m, tc_kval index);
void tc_kb_check(tc_kb *b, tc_kval cond, int64_t site);
// TC_K_MMA_BF16 or TC_K_MMA_F16: a[4], x[2] (i32) and c[4] (f32) into out[4]. Since 1.7.
void tc_kb_mma(tc_kb *b, int32_t op, const tc_kval *a, const tc_kval *x, const tc_kval *c, tc_kval *out);
void tc_kb_barrier(tc_kb *b);
tc_kval tc_kb_collective(tc_kb *b, int32_t op, tc_kval lane_value, int64_t imm);

// for iv = lo to hi step (> 0): opens the region and returns the induction variable; carried[i] receive the values of
// this round. tc_kb_end_for closes it with the next round's values; results[i] are the last ones.
tc_kval tc_kb_for(tc_kb *b, tc_kval lo, tc_kval hi, int64_t step, int32_t flags, int32_t n, const tc_kval *init,
                  tc_kval *carried);
void tc_kb_end_for(tc_kb *b, int32_t n, const tc_kval *next, tc_kval *results);
void tc_kb_if(tc_kb *b, tc_kval cond); // then region opens
void tc_kb_else(tc_kb *b, int32_t n, const tc_kval *yields);
void tc_kb_end_if(tc_kb *b, int32_t n, const tc_kval *yields, tc_kval *results); // without else: n must be 0
void tc_kb_lanes(tc_kb *b);
void tc_kb_end_lanes(tc_kb *b, int32_t n, const tc_kval *yields, tc_kval *results);

#ifdef __cplusplus
}
#endif
#endif
