// Level 3: templates. A template is a loop-IR node whose code is written by a function instead of a scalar body: the
// inside of a matrix product, a Fourier transform along a line, attention over a tile. The op's lowering makes one or
// more such nodes (stages), joined by ordinary buffers; grouping, inlining of what feeds and follows them, tiles and
// launches are the scheduler's.
//
// A stage produces an output of rank r. `candidates` offers configurations with a tile: how much of each output
// dimension one block makes (0: the whole dimension). `emit` writes the block's code through the kernel builder. It
// never touches memory of operands or results itself: it calls holes with logical indices, and the host puts there
// whatever feeds the operand (a load, or the producer's whole body) and whatever follows the result (more arithmetic, a
// reduction over the tile's rows, on-chip buffers, stores).
//
// Rules for emit: holes are called inside lanes regions; indices are i32 or i64 values, one per logical dimension;
// every output element of the tile is stored exactly once; between a store hole and the end of emit nothing may rely on
// lanes regions still being open. Masks: where the mask is false nothing is read or written.
#ifndef TC_TEMPLATE_H_
#define TC_TEMPLATE_H_

#include "tc/kernel.h"
#include "tc/op.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tc_device_props;

typedef struct tc_stage tc_stage; // one use of a template, while it is asked about or emitted

// What the stage computes. Sizes: constants where known, else -1 (use tc_stage_size inside emit).
int32_t tc_stage_operand_count(const tc_stage *s);
tc_dtype tc_stage_operand_dtype(const tc_stage *s, int32_t operand);
int32_t tc_stage_operand_rank(const tc_stage *s, int32_t operand);
int64_t tc_stage_operand_size(const tc_stage *s, int32_t operand, int32_t dim); // -1: symbolic
int64_t tc_stage_operand_hint(const tc_stage *s, int32_t operand, int32_t dim);
tc_dtype tc_stage_dtype(const tc_stage *s);
int32_t tc_stage_rank(const tc_stage *s);
int64_t tc_stage_out_size(const tc_stage *s, int32_t dim); // -1: symbolic
int64_t tc_stage_out_hint(const tc_stage *s, int32_t dim);
int64_t tc_stage_attr(const tc_stage *s, int32_t i, int64_t otherwise);
const struct tc_device_props *tc_stage_device(const tc_stage *s);

typedef struct tc_stage_config {
  int32_t lanes;
  int32_t row_lanes;         // 1: lanes are neighbouring rows of the tile; on-chip tiles are laid out for that
  int64_t tile[TC_MAX_RANK]; // per output dimension; 0: whole
  int64_t params[8];         // the template's own
  int64_t shared_bytes;      // that emit will ask for
  double cost;               // nanoseconds for the whole stage, estimated; smaller is better
} tc_stage_config;

// Inside emit.
tc_kb *tc_stage_builder(tc_stage *s);
tc_kval tc_stage_origin(tc_stage *s, int32_t dim); // first index of this block's tile, i64, uniform
tc_kval tc_stage_extent(tc_stage *s, int32_t dim); // size of the output dimension as a value, i64, uniform
tc_kval tc_stage_operand_extent(tc_stage *s, int32_t operand, int32_t dim);
int32_t tc_stage_exact(tc_stage *s, int32_t dim); // 1: tiles divide the dimension, so no masks are needed for it
// Holes. Complex operands give complex values. mask -1: none; the value is then 0 where it is false.
tc_kval tc_stage_load(tc_stage *s, int32_t operand, const tc_kval *index, tc_kval mask);
// width values at consecutive indices of the last dimension, starting at index.
void tc_stage_load_n(tc_stage *s, int32_t operand, const tc_kval *index, int32_t width, tc_kval mask, tc_kval *out);
// Asks for the line of an element to come into the second-level cache, where lanes are SIMD elements and the operand is
// memory that is not two planes; else nothing happens. The element need not be there: behind the last one is nothing to
// ask for, and nothing is wrong. Since 1.10.
void tc_stage_fetch(tc_stage *s, int32_t operand, const tc_kval *index);
void tc_stage_store(tc_stage *s, const tc_kval *index, tc_kval value, tc_kval mask);
void tc_stage_store_n(tc_stage *s, const tc_kval *index, int32_t width, const tc_kval *values, tc_kval mask);

enum {
  // The result stays in memory, where the block reads and writes its tile as it likes, through tc_stage_result_load and
  // tc_stage_result_store in place of the store holes. Nothing runs behind it in its kernel. A barrier orders these
  // accesses among the lanes of the block.
  TC_TEMPLATE_OWN_RESULT = 1,
  // The result may be cut: where only its first rows, or the first elements of its rows, are read, its sizes are
  // smaller
  // than the op says, in any dimension. The template has the length of a row from an attribute or an operand, and
  // stores only what has a place.
  TC_TEMPLATE_LEADING = 2,
  // Rows of operand 0, which has the result's indices in all dimensions but the last, that are zero make rows of zeros.
  TC_TEMPLATE_ZERO_ROWS = 4
};
// Operand k < 8 is read by neighbouring lanes along its last dimension: if it is complex and the host places it, its
// parts may lie in two planes, so that lanes need not take pairs apart.
#define TC_TEMPLATE_PLANAR(k) (1u << (8 + (k)))
enum { TC_TEMPLATE_PLANAR_OPERANDS = 8 };

// TC_TEMPLATE_OWN_RESULT: an element of the result, of its dtype (complex ones too).
tc_kval tc_stage_result_load(tc_stage *s, const tc_kval *index, tc_kval mask);
void tc_stage_result_store(tc_stage *s, const tc_kval *index, tc_kval value, tc_kval mask);
// Where the condition is false the run fails with the text and the model's source line; execution goes on.
void tc_stage_check(tc_stage *s, tc_kval cond, const char *text);

typedef struct tc_template_table {
  uint64_t struct_size;
  tc_sv name; // "matmul", "fft"
  // Fills at most `max` configurations, best first; *out_n 0 with a reason through tc_stage_refuse: not possible.
  int32_t (*candidates)(const tc_stage *s, int32_t max, tc_stage_config *out, int32_t *out_n);
  int32_t (*emit)(tc_stage *s, const tc_stage_config *config);
  // Bit k: an output tile needs operand k only at the same indices (same sizes; whole where the tile is whole), each
  // element loaded once. Such an operand may be another stage's tile, still on chip.
  uint64_t local_operands;
  // Symbolic expression in out.numel, out.last, out.size(i), in<k>.…, attr<k> and nlog2n(n, m) (of the larger one):
  // floating operations, complex ones where the result is complex.
  const char *flops;
  uint64_t flags; // TC_TEMPLATE_*
} tc_template_table;
void tc_stage_refuse(const tc_stage *s, const char *reason);

#ifdef __cplusplus
}
#endif
#endif
