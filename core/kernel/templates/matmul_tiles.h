// What products whose lanes are threads share: a block's tile and what it needs of its operands, by ordinary arithmetic
// (matmul_tiles.c) and by products of tiles (matmul_mma.c).
#ifndef TC_CORE_KERNEL_TEMPLATES_MATMUL_TILES_H_
#define TC_CORE_KERNEL_TEMPLATES_MATMUL_TILES_H_

#include "core/kernel/templates/matmul.h"

enum { TC_TILES_RUN = 4 }; // elements that lie together in an operand or in the result

// What a step needs of an operand: lines (rows of a, columns of b) of `depth` elements.
typedef struct tc_tiles_slab {
  int32_t operand, lines, pitch; // pitch: elements between steps of K in shared memory
  bool along_k, together;        // runs lie along K, or across lines; four elements are in the matrix together, or not
  bool exact;                    // no line lies beyond the last one
  tc_kval first, end;            // of lines
  tc_kmem shared, next;          // what is multiplied; registers: the next step's elements
  tc_kmem scales;                // of lines, powers of two
} tc_tiles_slab;

typedef struct tc_tiles {
  tc_stage *s;
  tc_kb *b;
  int32_t rank, lanes;
  tc_dtype acc;
  int32_t rows, columns, lane_rows, lane_columns, depth; // of the tile, of a lane (or of 32), of a step
  int32_t row_lanes, column_lanes;                       // lanes along the tile's rows and columns
  int32_t planes, stages;                                // of 16-bit parts; steps that shared memory has room for
  bool runs_of_out;                                      // four elements of a row are in memory together, or not
  tc_tiles_slab left, right;                             // of a and of b
  tc_kmem sums;                                          // registers
  tc_kmem grows;                                         // shared: whether what was put exceeds its scales
  tc_kval row0, column0;
  tc_kval row_end, column_end; // sizes of the matrices
  tc_kval k_end;               // -1: no step goes beyond it
  tc_kval k_size;
  tc_kval batch[TC_MAX_RANK];
} tc_tiles;

// A configuration of such a tile; `together`: blocks that a core works on; `time`: of a multiply-add, beside one of the
// micro-tiles of matmul.c.
void tc_tiles_config(const tc_stage *s, int32_t rows, int32_t columns, int32_t together, double time,
                     tc_stage_config *c);
// The tile of a configuration. Slabs have no memory yet.
void tc_tiles_open(tc_stage *s, const tc_stage_config *c, tc_tiles *t);
void tc_tiles_clear_sums(tc_tiles *t, int32_t n);
// Number v of the lane's runs, of which a line has `per_line`: in line `out_line`, from element `out_at` on.
void tc_tiles_run_at(tc_tiles *t, int32_t v, int32_t per_line, tc_kval *out_line, tc_kval *out_at);
// Runs of a slab that a lane brings.
int32_t tc_tiles_runs(const tc_tiles *t, const tc_tiles_slab *x);
// Four elements of the operand along dimension `last`, of which those with `mask` and below `end` count (-1: all).
void tc_tiles_load_run(tc_tiles *t, const tc_tiles_slab *x, tc_kval *index, int32_t last, tc_kval mask, tc_kval end,
                       tc_kval *out);
// The mask of rows of the result that are there, or -1.
tc_kval tc_tiles_row_mask(tc_tiles *t, tc_kval row);
// Four elements of the result, as f32 or whatever sums are, at index, whose last one is that of the first.
void tc_tiles_store_run(tc_tiles *t, tc_kval *index, tc_kval mask, tc_kval *v);

// ---- Short names for the builder's calls ----
static inline tc_kval tc_tiles_i32(tc_tiles *t, int64_t v) { return tc_kb_int(t->b, TC_I32, v); }
static inline tc_kval tc_tiles_i64(tc_tiles *t, int64_t v) { return tc_kb_int(t->b, TC_I64, v); }
static inline tc_kval tc_tiles_wide(tc_tiles *t, tc_kval v) { return tc_kb_cast(t->b, TC_I64, v); }
static inline tc_kval tc_tiles_op(tc_tiles *t, int32_t o, tc_kval x, tc_kval y) { return tc_kb_op2(t->b, o, x, y); }
static inline tc_kval tc_tiles_add(tc_tiles *t, tc_kval x, tc_kval y) { return tc_tiles_op(t, TC_K_ADD, x, y); }
static inline tc_kval tc_tiles_times(tc_tiles *t, tc_kval x, int64_t y) {
  return tc_tiles_op(t, TC_K_MUL, x, tc_tiles_i32(t, y));
}
static inline tc_kval tc_tiles_over(tc_tiles *t, tc_kval x, int64_t y) {
  return tc_tiles_op(t, TC_K_DIV, x, tc_tiles_i32(t, y));
}
static inline tc_kval tc_tiles_rest(tc_tiles *t, tc_kval x, int64_t y) {
  return tc_tiles_op(t, TC_K_REM, x, tc_tiles_i32(t, y));
}
static inline tc_kval tc_tiles_both(tc_tiles *t, tc_kval x, tc_kval y) {
  return x < 0 ? y : y < 0 ? x : tc_tiles_op(t, TC_K_AND, x, y);
}

#endif
