// Kernel IR: the structs behind tc/kernel.h, and what the files of this folder share. Not seen outside core/kernel.
//
// Invariants of a finished kernel: instruction, value and region numbers are dense; a region's last instruction is a
// YIELD; every operand is defined earlier in the same region or in one that encloses it; `varying` is exact with
// respect to the rules of tc_kir_varying (it never says uniform for a value that can differ by lane).
#ifndef TC_CORE_KERNEL_IR_H_
#define TC_CORE_KERNEL_IR_H_

#include "core/kernel/kernel.h"
#include "core/tensor/tensor.h"

// What a region belongs to.
enum { TC_KIR_BODY, TC_KIR_FOR, TC_KIR_THEN, TC_KIR_ELSE, TC_KIR_LANES };

typedef struct tc_kir_region {
  int32_t kind, parent; // parent: the enclosing region, -1 for the body
  int32_t in_lanes;     // is, or lies in, a lanes region
  int32_t open;         // while building
  tc_kval *params;
  int32_t n_params;
  TC_VEC(int32_t) insts;
} tc_kir_region;

struct tc_kernel {
  tc_sv name;
  int32_t lanes, body;
  int32_t n_params, n_mems, n_scalars, n_insts, n_values, n_regions;
  const tc_kparam *params;
  const tc_kmem_info *mems;
  const tc_kscalar_info *scalars;
  tc_kinst *insts;
  tc_kvalue *values;
  const tc_sv *names;           // of values; empty: the printer numbers them
  const int32_t *value_regions; // region in which a value is defined
  const tc_kir_region *regions;
  tc_ksource source; // language empty: none
};

// A scalar value of any type: integers and bool sign- or zero-extended, floats as the exact double, complex as parts.
typedef struct tc_knum {
  union {
    int64_t i;
    double re;
  };
  double im;
} tc_knum;

// Result type of an opcode of class a, c, m or t (not CAST, BITCAST, CONST) from its operands' types.
// NULL, or what is wrong with the operands (static text).
const char *tc_kir_type_rule(int32_t op, int32_t n, const tc_dtype *args, tc_dtype *out);
int32_t tc_kir_arity(int32_t op);
bool tc_kir_is_int(tc_dtype d);  // signed or unsigned, not bool
int32_t tc_kir_bits(tc_dtype d); // width of an integer type
bool tc_kir_is_pure(int32_t op); // depends on its operands only (div and rem of integers may fault)
bool tc_kir_is_commutative(int32_t op);
// A product of tiles: TC_K_MMA_BF16 or TC_K_MMA_F16. What is wrong with its operands' types, or NULL (static text).
bool tc_kir_is_mma(int32_t op);
const char *tc_kir_mma_rule(int32_t lanes, const tc_dtype *args);
// Its operands are TC_KIR_MMA_WORDS i32, which hold two numbers each, and TC_KIR_MMA_SUMS f32; its results are as many.
enum { TC_KIR_MMA_WORDS = 6, TC_KIR_MMA_SUMS = 4, TC_KIR_MMA_ARGS = 10 };
int32_t tc_kir_find_op(tc_sv text); // -1 if there is none
// Does a pure instruction's or a load's result vary by lane, given its operands?
bool tc_kir_varying(const tc_kinst *inst, const tc_kmem_info *mems, const tc_kvalue *values);

// Brings an integer into the range of its type, a real to the nearest value of its type.
int64_t tc_kir_wrap(tc_dtype d, int64_t v);
double tc_kir_round(tc_dtype d, double v);
tc_knum tc_kir_int(tc_dtype d, int64_t v);           // an integer as a value of any type
tc_knum tc_kir_from_bits(tc_dtype d, uint64_t bits); // storage bits of a non-complex type
uint64_t tc_kir_to_bits(tc_dtype d, tc_knum v);
tc_knum tc_kir_read(tc_dtype d, const void *at); // one element in memory
void tc_kir_write(tc_dtype d, void *at, tc_knum v);
// Evaluates an opcode on values of `type` (that of the last operand, so that SELECT's is its result's): exact; class m
// through the C library. NULL, or what went wrong ("division by zero").
const char *tc_kir_eval(int32_t op, tc_dtype type, const tc_knum *args, tc_knum *out);
tc_knum tc_kir_cast(tc_dtype from, tc_dtype to, tc_knum v);
// The same for complex types (eval_complex.c).
void tc_kir_eval_complex(int32_t op, tc_dtype type, tc_knum x, tc_knum y, tc_knum z, tc_knum *out);

// ---- Builder, as the parser and the rewriting passes see it ----
// Raw: instructions are kept as given; nothing is folded, simplified or shared.
void tc_kb_set_raw(tc_kb *b, bool raw);
int32_t tc_kb_failed(const tc_kb *b); // the status code; 0: it has not
const char *tc_kb_reason(const tc_kb *b);
void tc_kb_set_source(tc_kb *b, const tc_ksource *source); // instead of a body
void tc_kb_name(tc_kb *b, tc_kval v, tc_sv name);          // the first name of a value stays
bool tc_kb_const_of(const tc_kb *b, tc_kval v, tc_knum *out);
const tc_kinst *tc_kb_inst_of(const tc_kb *b, tc_kval v); // NULL for region parameters
// A number of its type that a float never exceeds, be it NaN or not; HUGE_VAL: none is known.
double tc_kb_most(const tc_kb *b, tc_kval v);
// Whether an integer is known to be in [lo, hi], |lo|, |hi| ≤ 2^53: it was limited to that, maybe as a float.
bool tc_kb_is_within(const tc_kb *b, tc_kval v, int64_t lo, int64_t hi);
bool tc_kb_in_lanes(const tc_kb *b);
// The table of that name with these contents, declared at its first use.
tc_kmem tc_kb_constant_table(tc_kb *b, tc_sv name, tc_dtype dtype, int64_t count, const void *data);
void tc_kb_prefetch_from(tc_kb *b, tc_kmem m, tc_kval index, int32_t flags); // TC_KI_FAR or 0
const tc_kmem_info *tc_kb_mem(const tc_kb *b, tc_kmem m);                    // NULL if there is none

// ---- Rewriting: a kernel is copied through a builder, an instruction at a time ----
typedef struct tc_kir_copy tc_kir_copy;
typedef tc_status (*tc_kir_copy_fn)(tc_kir_copy *c, int32_t inst); // emits the instruction's replacement
struct tc_kir_copy {
  const tc_kernel *from;
  tc_kb *to;
  tc_kval *map, *map2; // old value → new one; map2: imaginary parts (complex expansion)
  tc_kmem *mems;       // old memory object → new one
  tc_kir_copy_fn visit;
  void *self;
};
// Copies name, parameters and memory objects (complex ones become their real type, twice as long, if `parts`), then
// the body by `visit`; tc_kir_copy_inst is the plain copy of one instruction with its regions.
TC_NODISCARD tc_status tc_kir_copy_kernel(tc_arena *arena, const tc_kernel *from, tc_kir_copy_fn visit, void *self,
                                          bool parts, tc_kernel **out);
TC_NODISCARD tc_status tc_kir_copy_inst(tc_kir_copy *c, int32_t inst);
// A pass over a whole kernel under the arena's guard; it leaves `k` as its result where there is nothing to do.
typedef tc_status (*tc_kir_pass_fn)(tc_arena *arena, tc_kernel *k, tc_kernel **out);
TC_NODISCARD tc_status tc_kir_pass(tc_arena *arena, tc_kernel *k, tc_kir_pass_fn pass, tc_kernel **out);
void tc_kir_keep_name(tc_kir_copy *c, tc_kval old,
                      tc_kval made); // names the new value as the old one; constants stay nameless
TC_NODISCARD tc_status tc_kir_copy_region(tc_kir_copy *c, int32_t region); // all but its yield, into the open region

#endif
