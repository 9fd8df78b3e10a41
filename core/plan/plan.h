// Plan IR: the host program of one graph: which buffers there are and where they live, which kernels are launched with
// what, which library calls are made, what is returned. It is what an executable runs, what a saved artifact holds and
// what is replayed; it names no device.
//
// Buffers: FROZEN (made by the ops that are done once, at the beginning, and kept from run to run), INPUT (a graph
// input's tensor), OUTPUT (allocated for the caller at each run), ARENA (a range of the run's arena: offset and size
// are expressions of the size symbols; or a range of an output's memory, as long as that is not written yet). Offsets
// and sizes are bytes.
//
// Text form (round trips; `tcrun dump --stage=plan`; parse.c has the grammar):
//   plan @forward [s0 in [2, 64] hint 2] (
//       %x : f32[s0, 64] = user "x") arena 256*s0 {
//     %x : f32[s0, 64]{64, 1} = input 0;
//     %h : f32[s0, 64]{64, 1} = arena 0 size 256*s0;
//     %y : f32[s0, 64]{64, 1} = output size 256*s0;
//     %t : f32[64]{1} = within %y 0 size 256;
//     %w : f32[64, 64]{64, 1} = frozen size 16384;
//     launch @pack_2 once kernel 2 blocks 1 grain 1 : (%v, out %w) bytes 32768 flops 0
//     launch @softmax_0 kernel 0 blocks s0 grain 16 : (%x, out %h, s0 : i32) bytes 512*s0 flops 320*s0 @ "model.py:7"
//     launch @add_1 kernel 1 blocks 1 grain 1 : (%h, out %y) bytes 512*s0 flops 64*s0
//     return user %y as f32[s0, 64]{64, 1}
//   }
//   call @linear_4 by "onednn" "0.1.0" constant 6 : (%x, %w, %b, out %y) bytes … flops … graph @call (…) { … }
//   launch @add_3 kernel 2 blocks … grain … : (…) bytes … flops … tune (s0) when 1 kernel 2 … when 1 kernel 3 …
//   launch @add_2 kernel 2 blocks … grain … : (…) bytes … flops …
//     when s0 == 16 kernel 3 blocks 1 grain 4 : (%x, out %y)
//   if %p : (%p, %x, out %y) in %a bytes 0 flops 0 then plan @true (…) … { … } else plan @false (…) … { … }
//   while : (%i, %x, %w, out %i1, out %x1) carry 2 spare (%i2, %x2) in %a bytes … flops … test plan … do plan …
//   scan turns s0 reversed : (%h, %xs, %w, out %h1, out %ys) carry 1 over 1 spare (%h2) in %a bytes … flops … do …
//   kernel @softmax (…) … { … }
//   kernel @add (…) … { … }
#ifndef TC_CORE_PLAN_PLAN_H_
#define TC_CORE_PLAN_PLAN_H_

#include "core/kernel/emit.h"
#include "core/schedule/schedule.h"

enum { TC_PLAN_INPUT, TC_PLAN_OUTPUT, TC_PLAN_ARENA, TC_PLAN_FROZEN };
typedef struct tc_plan_buf {
  int32_t kind, id;
  tc_sv name;
  tc_dtype dtype;
  int32_t rank;
  const tc_sym *const *sizes, *const *strides; // elements
  const tc_sym *offset;                        // INPUT: elements within the storage, as the graph promises
  int32_t input;                               // INPUT: graph input number; kernels may write it (mutation in place)
  const tc_sym *place;                         // ARENA: byte offset
  int32_t host;         // ARENA: 1 + the number of the OUTPUT that it lies in until that is written; 0: the run's arena
  int32_t over;         // ARENA: 1 + the number of the ARENA buffer whose place it has, which its first op is the
                        // last to read; 0: its place is its own
  const tc_sym *bytes;  // OUTPUT, ARENA, FROZEN: size with strides counted
  int32_t first, last;  // ops that touch it: first writer, last reader
  const tc_buf *origin; // of the loops; NULL where the plan was parsed
} tc_plan_buf;

typedef struct tc_plan_arg {
  int32_t buf; // number of the buffer, or -1
  bool writes;
  const tc_sym *scalar; // when buf is -1
  tc_dtype dtype;       // of the scalar
} tc_plan_arg;

// Another kernel for a launch, where a fact about the sizes holds. It reads and writes the same buffers.
enum { TC_PLAN_VARIANTS = 3 };    // at most, besides the general kernel
enum { TC_PLAN_CANDIDATES = 64 }; // at most, of kernels by hand
typedef struct tc_plan_variant {
  const tc_sym *when;
  int32_t kernel;
  const tc_sym *blocks, *grain;
  int32_t n_args;
  const tc_plan_arg *args;
} tc_plan_variant;

// IF, WHILE and SCAN run regions: plans of their own, whose inputs are the op's operands and whose outputs are the op's
// results, at places that the op gives them. They lie in the module of the plan and read its symbols.
enum { TC_PLAN_LAUNCH, TC_PLAN_CALL, TC_PLAN_IF, TC_PLAN_WHILE, TC_PLAN_SCAN };
typedef struct tc_plan_op {
  int32_t kind;
  tc_sv name;
  bool once; // depends on the program's constants only; such launches come first. They are run when the constants are
             // new, and what they leave in FROZEN buffers stays; in a loop's body in the first turn (fixed_from)
  int32_t kernel; // LAUNCH: number in `kernels`
  const tc_sym *blocks, *grain;
  int32_t n_args; // LAUNCH: kernel arguments; else operands, then results
  const tc_plan_arg *args;
  int32_t n_variants; // LAUNCH: the first whose fact holds is launched, the op's own kernel if none does
  const tc_plan_variant *variants;
  // LAUNCH: the variants whose facts hold are timed, once for each value of the key, and the fastest is launched; the
  // op's own kernel is one of them.
  bool tuned;
  int32_t n_key;
  const tc_sym *const *key;
  const tc_lnode *call; // CALL
  // CALL, once it was chosen: the library by its table's name, the version of the plugin that it is from, and in which
  // of its ways it does the node (0: its own choice). Empty: whoever makes the plan ready for a device chooses.
  tc_sv by, by_version;
  int32_t way;
  uint64_t constant;           // CALL: bit k: operand k is the same in every run, as far as its caller promises
  int32_t n_operands;          // not LAUNCH
  const tc_tensor_type *views; // not LAUNCH: args as the library or the region sees them: elements of the buffers
  // IF: regions then, else. The predicate is an expression, or NULL: operand 0, one element, which no region sees.
  // WHILE: regions test, do. SCAN: region do, once for each element of the operands behind the carried ones, n_xs of
  // them, from the last one on if `reverse`; results behind the carried ones are stacks of what the region gives.
  struct tc_plan *regions[2];
  const tc_sym *predicate, *turns; // IF; SCAN
  int32_t n_carry, n_xs;           // WHILE, SCAN
  bool reverse;                    // SCAN
  int32_t scratch;                 // the buffer that is the regions' arena, or -1
  const int32_t *spares;           // n_carry buffers: where the carried tensors are in every second turn
  const tc_sym *bytes, *flops;     // moved and done, for explain and bench
  tc_sv source;
} tc_plan_op;

typedef struct tc_plan_output {
  int32_t kind;        // TC_OUT_*
  int32_t buf;         // or -1: a number
  tc_tensor_type type; // as the caller sees it: a view of the buffer
  tc_arg number;
  tc_sv target;
} tc_plan_output;

// The machine code of a kernel, for plans that come without kernels (core/plan/blob.h).
typedef struct tc_plan_code {
  tc_hash128 key;        // of the kernel's text and the code generator, as the cache of code has it
  tc_sv name;            // of the function
  int32_t n_params;      // arguments
  const uint8_t *scalar; // of each: 1 a number, 0 memory
  tc_sv object;          // empty: to be found by its key
  tc_sv text;            // of the kernel, where its code is not made before a launch wants it; or empty
} tc_plan_code;

typedef struct tc_plan {
  tc_module *module;
  tc_sym_ctx *syms;
  tc_arena *arena;
  tc_sv name;
  const tc_graph *graph; // a signature when parsed from text
  // Of the region do of a loop: inputs from this number on are the same in every turn. What is done once is done in the
  // first, and leaves what later turns read in ARENA buffers that nothing else overlaps. 0: it is none.
  int32_t fixed_from;
  TC_VEC(tc_plan_buf) bufs;
  TC_VEC(tc_plan_op) ops;
  TC_VEC(tc_plan_output) outputs;
  TC_VEC(const tc_emitted *) kernels; // equal kernels are shared
  TC_VEC(tc_sv) kernel_names;
  int32_t n_code;           // of code; 0 where the kernels are there
  const tc_plan_code *code; // by tc_emitted.code; shared by the regions
  const tc_sym *arena_bytes;
  const tc_sym *largest_bytes; // the largest single arena buffer
} tc_plan;

// Emits every group and lays the buffers out.
TC_NODISCARD tc_status tc_plan_build(tc_schedule *s, const tc_emit_options *o, tc_plan **out);
// The same where there are regions: `make` gives the plan of one, whose results are as tc_lower_options.results says.
typedef struct tc_plan_regions {
  TC_NODISCARD tc_status (*make)(void *self, tc_graph *g, const tc_tensor_type *const *results, int32_t fixed_from,
                                 tc_plan **out);
  void *self;
} tc_plan_regions;
TC_NODISCARD tc_status tc_plan_build_with(tc_schedule *s, const tc_emit_options *o, const tc_plan_regions *regions,
                                          tc_plan **out);
// The number of regions of an op, and what stands before each in text: "then".
int32_t tc_plan_region_count(int32_t kind);
const char *tc_plan_region_word(int32_t kind, int32_t region);
const char *tc_plan_op_word(int32_t kind); // "launch"; NULL beyond the last
// Where a region's arena begins in the regions' buffer: that of a while's body lies behind that of its test if it has
// something to keep.
const tc_sym *tc_plan_region_offset(const tc_plan_op *op, int32_t region);
// Arena offsets (the best of several packings for constant sizes; slots reused where an expression provably fits).
void tc_plan_memory(tc_plan *p);
// The same where each run's outputs have memory of their own, which nobody sees before the run ends: buffers of
// constant size also lie in outputs that are written later. Not for regions, whose outputs are places of other plans.
void tc_plan_memory_shared(tc_plan *p);
// The same without reuse: every buffer has its own range.
void tc_plan_memory_apart(tc_plan *p);
// Where the buffers of the run's arena lie, for given sizes, if no allocation may be larger than `largest` bytes: in
// blocks of their own, by number of the buffer. What lies in outputs stays there. All of it is in `arena`, which must
// be guarded. OUT_OF_MEMORY, in words, if a single buffer is larger.
typedef struct tc_plan_blocks {
  int32_t n;
  int64_t *bytes; // of each block
  int32_t *block;
  int64_t *at; // byte offset in the block
} tc_plan_blocks;
TC_NODISCARD tc_status tc_plan_blocks_of(const tc_plan *p, tc_arena *arena, const int64_t *symbol_values,
                                         int64_t largest, tc_plan_blocks *out);
// When runs need which memory, without what is done once: outputs, and the arena in parts that no buffer leaves
// (rooms.c). By rising first op; in `arena`, which must be guarded.
typedef struct tc_plan_room {
  int32_t output;      // number of the OUTPUT; -1: a part of the arena
  int64_t at, bytes;   // in the arena
  const tc_sym *place; // of a part whose buffers all lie there: `at` and `bytes` are 0, it has the bytes of the largest
  int32_t first, last; // ops that it must be there for; results stay
  int32_t n;
  const int32_t *bufs; // ARENA buffers that lie in it
} tc_plan_room;
typedef struct tc_plan_rooms {
  bool whole; // the arena is not in parts: a buffer in it is empty
  int32_t n;
  tc_plan_room *rooms;
  int64_t most; // bytes of constant size that are there at once
} tc_plan_rooms;
tc_plan_rooms tc_plan_rooms_of(const tc_plan *p, tc_arena *arena);
// The largest range of constant size in a part of the arena that is there while an op runs and that no buffer needs
// then: out[ops], found for library calls.
typedef struct tc_plan_gap {
  int32_t room;      // number of the part among the rooms, or -1
  int64_t at, bytes; // in the part
} tc_plan_gap;
void tc_plan_gaps_of(const tc_plan *p, const tc_plan_rooms *rooms, tc_arena *arena, tc_plan_gap *out);
// Structure: numbers of buffers, kernels and arguments are in range, kernels get what they declare, every buffer is
// written before it is read, inputs are written only where that is their mutation, ranges of the arena hold for example
// sizes.
TC_NODISCARD tc_status tc_plan_verify(const tc_plan *p);
// Every buffer lies inside the arena or an output that nothing touches as long as it lives, and no two that live at
// once overlap, for the values given.
TC_NODISCARD tc_status tc_plan_check_memory(const tc_plan *p, const int64_t *symbol_values);
// Reads the text form into the module, at "plan" or at a kernel in front of it; without its kernels a plan can be
// looked at, but not run. Kernels are verified, the plan is not. Errors name line and column.
TC_NODISCARD tc_status tc_plan_parse(tc_module *m, tc_lexer *lx, tc_plan **out);
// The same for a text without kernels, at "plan": every launch has the number of its code.
TC_NODISCARD tc_status tc_plan_parse_coded(tc_module *m, tc_lexer *lx, int32_t n_code, const tc_plan_code *code,
                                           tc_plan **out);
// tc_plan_check_memory for random sizes that the program's conditions allow.
TC_NODISCARD tc_status tc_plan_check_random(const tc_plan *p, uint64_t seed, int32_t rounds);
// The plan and behind it its kernels, each once; or the kernels in front. What is printed is a whole program but for
// the tensors that its inputs name.
void tc_plan_print(tc_sb *sb, const tc_plan *p);
void tc_plan_print_kernels_first(tc_sb *sb, const tc_plan *p);
// The plan alone, for tc_plan_parse_coded. Launches have the numbers of *out_kernels, which are the plan's and its
// regions' without repetition; none for a plan that was read so: there the numbers are those of its code.
void tc_plan_print_coded(tc_sb *sb, const tc_plan *p, int32_t *out_n, const tc_kernel *const **out_kernels);

// Operations of one use of an op, by the formula of its row; 0 if that says nothing. Complex ones are counted as what
// they are made of; `torch`: as one, as PyTorch's FlopCounterMode does.
const tc_sym *tc_plan_node_flops(tc_arena *arena, tc_sym_ctx *syms, const tc_node *n);
const tc_sym *tc_plan_node_flops_as(tc_arena *arena, tc_sym_ctx *syms, const tc_node *n, bool torch);
// The name under which FlopCounterMode counts the op ("addmm"); empty if it does not.
tc_sv tc_plan_flops_label(const tc_op *op);

// Operations and bytes (of arguments and results) of a graph by op (count.c).
typedef struct tc_counted_op {
  tc_sv name;   // "aten.addmm", without overload
  bool product; // FlopCounterMode counts it, too, and `flops` are counted as there
  int64_t calls;
  const tc_sym *flops, *bytes;
} tc_counted_op;
// In the order of their first use; in the module's arena, which must be guarded. Makes scratch graphs.
TC_NODISCARD tc_status tc_graph_count(const tc_graph *g, int32_t *out_n, tc_counted_op **out);

#endif
