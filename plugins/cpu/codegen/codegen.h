// Kernel IR → LLVM IR, shared by the emit files. One tc_kernel becomes one function over a range of blocks.
//
// A uniform value is an LLVM scalar, a varying one a vector of `lanes` elements; bools are i1, bf16 is carried as i16
// (it is only stored and cast). For integers the emitter also tracks what addresses need: a varying value may be known
// as base + stride * lane with scalar base and stride, and every scalar has a known power of two that divides it.
// The affine form ignores overflow of signed index arithmetic: an index that overflows in its own type is out of range
// of any memory, so such lanes are masked off or invalid anyway. Values that are computed with always come from `v`.
//
// Failure: cg_fail keeps the first message, and emission goes on with poison until the caller looks at cg->status.
#ifndef TC_PLUGINS_CPU_CODEGEN_CODEGEN_H_
#define TC_PLUGINS_CPU_CODEGEN_CODEGEN_H_

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>
#include <stdbool.h>

#include "../cpu.h"

typedef struct cg_val {
  LLVMValueRef v; // scalar if uniform, else vector; NULL: not yet defined
  LLVMValueRef base,
      stride;    // integers: value = base + stride*lane; base NULL: not known. Uniform: base = v, stride NULL
  int32_t zeros; // low bits of base known to be zero
  // Integers: base = root + offset, so that addresses that differ by constants share a register; root NULL:
  // there is no offset. Overflow is ignored here, too.
  LLVMValueRef root;
  int64_t offset;
  bool is_bf16; // f32: every element is a bf16 number, so that rounding to bf16 changes nothing
} cg_val;

typedef struct cg_mem {
  tc_kmem_info info;
  LLVMValueRef ptr; // of element 0; lane arrays: of lane 0 of element 0
  LLVMTypeRef elem; // as stored: bool is i8
  int32_t size;     // bytes of an element
  int32_t align;    // bytes, of ptr
  int32_t order;    // apart.c: how lanes have come to it
  // overlap.c: shared memory that is there twice, and the distance; while blocks are emitted also the other half.
  bool twice;
  LLVMValueRef both, other;
  int64_t half;
} cg_mem;

// overlap.c: a value of the block that its last phase uses.
typedef struct cg_kept {
  tc_kval v;
  int32_t inst;     // makes it again; -1: phi
  LLVMValueRef phi; // the value of the block before
  cg_val other;     // the one of the two blocks that is not emitted at the moment
} cg_kept;

// How blocks are staggered; numbers of instructions are places in the body.
typedef struct cg_overlap {
  int32_t late, beside; // lanes regions; beside -1: they are not
  int32_t loops[2];     // of beside and late: places in these
  int32_t n_kept;
  cg_kept *kept;      // one for each value
  bool *outer;        // by instruction: the body has it in front of `late`
  LLVMValueRef block; // number of the block that is not emitted at the moment
} cg_overlap;

// A loop of a kernel, with the values that it carries to the next round; allocated.
typedef struct cg_loop {
  const tc_kinst *in;
  tc_kregion body;
  cg_val *carried;
  int32_t n;
} cg_loop;

enum { CG_MAX_LANES = 256 };

typedef struct cg {
  const tc_kernel *k;
  const tc_cpu_target *target;
  LLVMContextRef ctx;
  LLVMModuleRef mod;
  LLVMBuilderRef b, allocas;            // current place; entry block
  LLVMValueRef fn, block, errors, site; // site: where a failed check is kept until the block ends
  LLVMValueRef dummy;                   // 8 bytes that may be read where a mask is false
  cg_val *vals;
  bool *long_nans; // cg_long_nans
  cg_mem *mems;
  LLVMValueRef *scalars;
  int32_t lanes, n_vals, n_mems, n_scalars;
  int32_t vector_bytes;
  struct {
    bool on, fits;
    int32_t whole, masked; // accesses to bf16
  } apart;                 // apart.c
  cg_overlap overlap;
  bool avx512, streamed, has_checks, in_lanes;
  int32_t depth, maybe; // maybe: loads of the region, and not of those inside, that all lanes may leave out together
  int64_t emitted;      // kernel instructions emitted so far, against explosion by unrolling
  int32_t status;
  char message[256];
} cg;

void cg_fail(cg *g, int32_t code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

// ---- emit.c: control flow ----
// Emits a region; out[0…n_out) get what it yields.
void cg_region(cg *g, int32_t r, int32_t n_out, cg_val *out);
void cg_part(cg *g, const tc_kregion *region, int32_t from, int32_t to, int32_t n_out, cg_val *out); // from…to of it
void cg_inst(cg *g, int32_t number);
void cg_define(cg *g, tc_kval v, LLVMValueRef x, int32_t zeros);
// Two loops over the same rounds, of which the second belongs to the other block (cg_overlap_turn).
void cg_loop_beside(cg *g, const tc_kinst *in, const tc_kinst *late);

// ---- order.c: instructions that have no order but that of their operands ----
int32_t cg_straight(const cg *g, const tc_kregion *region, int32_t from, int32_t to); // where such a run ends, or from
void cg_put_in_order(cg *g, int32_t n, const int32_t *insts);                         // and emits them

// ---- overlap.c: the last phase of a block beside the next block ----
void cg_overlap_begin(cg *g);                            // decides
void cg_overlap_turn(cg *g);                             // changes to the other of the two blocks, and back
void cg_overlap_enter(cg *g);                            // at the start of a block, among its phis
void cg_overlap_body(cg *g, LLVMValueRef first);         // `first`: of the range
void cg_overlap_leave(cg *g, LLVMBasicBlockRef outside); // at the end of a block, which came from there or is repeated
void cg_overlap_end(cg *g);                              // behind the last block

// ---- function.c ----
// Adds kernel `k` to the module: function `NAME` and `NAME.meta`. On failure the module must be thrown away.
int32_t cg_kernel(LLVMContextRef ctx, LLVMModuleRef mod, const tc_cpu_target *t, const tc_kernel *k, char *why,
                  size_t why_size);

// ---- module.c ----
// Keeps AddressSanitizer from padding and registering a constant: it leaves sections of such names alone.
void cg_plain_data(const tc_cpu_target *t, LLVMValueRef global);

// ---- types.c: types, constants, intrinsics ----
LLVMTypeRef cg_scalar_type(cg *g, tc_dtype d);  // computing with it
LLVMTypeRef cg_storage_type(cg *g, tc_dtype d); // in memory
LLVMTypeRef cg_type(cg *g, tc_dtype d, bool varying);
LLVMTypeRef cg_like(LLVMValueRef x, LLVMTypeRef elem); // elem, or a vector of as many as x has
int32_t cg_count(LLVMValueRef x);                      // elements of a vector, 0 for scalars
int32_t cg_bits(tc_dtype d);
bool cg_is_float(tc_dtype d);
bool cg_is_signed(tc_dtype d);
LLVMValueRef cg_i32(cg *g, int64_t v);
LLVMValueRef cg_i64(cg *g, int64_t v);
LLVMValueRef cg_int_like(LLVMValueRef x, int64_t v); // a constant of x's type
LLVMValueRef cg_real_like(LLVMValueRef x, double v);
LLVMValueRef cg_const(cg *g, tc_dtype d, int64_t imm, double fimm);
bool cg_const_int(LLVMValueRef v, int64_t *out); // scalar constant
LLVMValueRef cg_splat(cg *g, LLVMValueRef scalar, int32_t n);
LLVMValueRef cg_vector(cg *g, tc_kval v);             // as a vector, also if uniform
LLVMValueRef cg_scalar(cg *g, tc_kval v);             // of a uniform value
LLVMValueRef cg_form(cg *g, tc_kval v, bool varying); // one or the other
bool cg_varying(cg *g, tc_kval v);
LLVMValueRef cg_call(cg *g, const char *intrinsic, LLVMTypeRef overload, int32_t n, LLVMValueRef *args);
LLVMValueRef cg_call2(cg *g, const char *intrinsic, LLVMTypeRef *overloads, int32_t n_overloads, int32_t n,
                      LLVMValueRef *args);
LLVMValueRef cg_alloca(cg *g, LLVMTypeRef t, int32_t align, const char *name);
LLVMBasicBlockRef cg_new_block(cg *g, const char *name);
LLVMValueRef cg_shuffle(cg *g, LLVMValueRef a, LLVMValueRef b, int32_t n, const int32_t *mask); // -1: any
LLVMValueRef cg_slice(cg *g, LLVMValueRef v, int32_t first, int32_t n);
// The i-th register of n elements; behind the last element is anything.
LLVMValueRef cg_register(cg *g, LLVMValueRef v, int32_t i, int32_t n);
LLVMValueRef cg_concat(cg *g, int32_t n, LLVMValueRef *parts);    // parts of one length, pairwise
LLVMValueRef cg_lane_numbers(cg *g, LLVMTypeRef elem, int32_t n); // constant <0, 1, …>
LLVMValueRef cg_any(cg *g, LLVMValueRef mask);                    // of a bool scalar or vector
LLVMValueRef cg_all(cg *g, LLVMValueRef mask);

// ---- scale.c ----
enum { CG_MAX_PARTS = 16 }; // registers that an operation on all lanes is cut into by hand
// What a multiplication makes if it is the last of those that scale by a power of two, for f32 and f64; else NULL.
LLVMValueRef cg_scaled(cg *g, const tc_kinst *in, tc_dtype d);

// ---- arith.c ----
LLVMValueRef cg_arith(cg *g, int32_t op, int32_t flags, tc_dtype d, LLVMValueRef *x); // operands of one form
LLVMValueRef cg_cast(cg *g, LLVMValueRef x, tc_dtype from, tc_dtype to);
void cg_pure(cg *g, const tc_kinst *in); // any opcode without memory or structure
LLVMValueRef cg_reduce(cg *g, int32_t op, tc_dtype d, LLVMValueRef v);

// ---- affine.c ----
void cg_track(cg *g, const tc_kinst *in, cg_val *out); // fills base, stride, zeros of an integer result
int32_t cg_zeros_of(int64_t v);

// ---- shuffle.c: registers ↔ memory order ----
#define CG_MAX_WIDTH 64
// in: w vectors of n that hold w*n elements in order; out[i]: elements i, i+w, i+2w, …
void cg_deinterleave(cg *g, int32_t w, LLVMValueRef *in, LLVMValueRef *out);
void cg_interleave(cg *g, int32_t w, LLVMValueRef *in, LLVMValueRef *out);
// elements indices[i] of the concatenation of n vectors
LLVMValueRef cg_pick(cg *g, int32_t n, LLVMValueRef *from, int32_t count, const int32_t *indices);
// The same where registers are of 32 bytes and instructions move elements well only inside their halves: element size
// in bytes; vector j of memory order has the parts of 16 bytes number j and w + j of what w vectors of n elements hold.
bool cg_in_halves(cg *g, int32_t w, int32_t n, int32_t size);
void cg_take_halves(cg *g, int32_t w, int32_t size, LLVMValueRef *in, LLVMValueRef *out);
void cg_put_halves(cg *g, int32_t w, int32_t size, LLVMValueRef *in, LLVMValueRef *out);
// w vectors of w elements of `size` bytes, w a power of two
void cg_transpose(cg *g, int32_t w, int32_t size, LLVMValueRef *rows);

// ---- nans.c ----
// By value of f32: may it be a NaN whose lower 16 bits are not zero? Allocated; NULL: no memory.
bool *cg_long_nans(const tc_kernel *k);

// ---- apart.c: even lanes before odd ones, see there ----
void cg_apart_begin(cg *g);                       // decides whether to try
bool cg_apart_fits(const cg *g);                  // after the kernel was emitted so
LLVMValueRef cg_put_apart(cg *g, LLVMValueRef v); // lanes in order; v itself where they are not held apart
// bf16 ↔ f32, of whose bits the upper half counts. NULL where lanes are not held apart.
LLVMValueRef cg_widen_pairs(cg *g, LLVMValueRef x);
LLVMValueRef cg_join_pairs(cg *g, LLVMValueRef x);
// f32 → bf16, to nearest even, of numbers and NaNs whose lower 16 bits are zero. NULL where that is not the shorter
// way.
LLVMValueRef cg_round_pairs(cg *g, LLVMValueRef x);
// An access by lanes, whose index has so many low zero bits, and one to a single element.
struct cg_access;
void cg_apart_access(cg *g, struct cg_access *a, int32_t zeros);
void cg_apart_scalar(cg *g, cg_mem *m);

// ---- memory.c, access.c ----
void cg_load(cg *g, const tc_kinst *in);
void cg_store(cg *g, const tc_kinst *in);
void cg_atomic_add(cg *g, const tc_kinst *in);
void cg_prefetch(cg *g, const tc_kinst *in);

// One access of w vectors: element i of lane l lies at index + i. `stride` NULL: not known; else the index of lane l is
// base + stride*l. mask NULL: all lanes.
typedef struct cg_access {
  cg_mem *m;
  LLVMValueRef base, stride, index; // base, stride: scalars (i64); index: vector (i32 signed or i64)
  LLVMValueRef mask;                // vector of i1
  const LLVMValueRef *other;        // reading with a mask: width vectors for where it is false
  int32_t width, align;             // align: bytes, of the element at base
} cg_access;
void cg_read(cg *g, const cg_access *a, LLVMValueRef *out); // storage types
void cg_write(cg *g, const cg_access *a, LLVMValueRef *values);
LLVMValueRef cg_address(cg *g, const cg_mem *m, LLVMValueRef index); // of a scalar index (i64)
void cg_mark_invariant(cg *g, const cg_mem *m, LLVMValueRef load);   // if nothing can write this memory meanwhile

// A loop over the lanes at run time, for what vectors cannot do. Between the two calls code is emitted that uses the
// lane number (i64); skip: lanes whose mask is false do not run it.
typedef struct cg_lane_loop {
  LLVMBasicBlockRef head, latch, done;
  LLVMValueRef lane;
} cg_lane_loop;
LLVMValueRef cg_lane_loop_begin(cg *g, cg_lane_loop *l, LLVMValueRef mask);
void cg_lane_loop_end(cg *g, cg_lane_loop *l);
LLVMValueRef cg_spill(cg *g, LLVMValueRef vector); // to a slot; elements by cg_slot (bool as i8)
LLVMValueRef cg_slot(cg *g, LLVMValueRef slot, LLVMTypeRef elem, LLVMValueRef lane);

#endif
