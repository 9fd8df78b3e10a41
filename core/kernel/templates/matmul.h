// What the ways of the template "matmul" share: micro-tiles of vectors (matmul.c), and tiles of a block of threads, by
// ordinary arithmetic (matmul_tiles.c), small ones whose lanes share K (matmul_shares.c), and by products of tiles
// (matmul_mma.c).
#ifndef TC_CORE_KERNEL_TEMPLATES_MATMUL_H_
#define TC_CORE_KERNEL_TEMPLATES_MATMUL_H_

#include <stdbool.h>

#include "core/kernel/templates/templates.h"

#include "tc/plugin.h"

// params: rows of a micro-tile; columns of a packed panel; rows and columns of a lane (of 32, where they multiply
// tiles), and elements of K in a step, all 0 in configurations of micro-tiles; parts of 16 bits that an element has, 0
// by ordinary arithmetic, and steps that are in shared memory, or of micro-tiles the elements of K that all rows of a
// block's tile take before the next ones, 0 for all; groups of lanes that share K, 0 in all but those of
// matmul_shares.c.
enum {
  TC_MATMUL_ROWS,
  TC_MATMUL_PANEL,
  TC_MATMUL_LANE_ROWS,
  TC_MATMUL_LANE_COLUMNS,
  TC_MATMUL_DEPTH,
  TC_MATMUL_PLANES,
  TC_MATMUL_STAGES,
  TC_MATMUL_GROUPS,
  TC_MATMUL_PART = TC_MATMUL_STAGES // of micro-tiles
};

// Rows of a panel's columns on chip: elements of the type of sums, or their two parts, or pairs.
typedef struct tc_matmul_own {
  tc_kmem part[2];
  int32_t parts;
} tc_matmul_own;
// The element in a row, for each lane that in its column; the latter stores it.
tc_kval tc_matmul_own_load(tc_stage *s, const tc_matmul_own *o, tc_kval row, tc_kval column);
void tc_matmul_own_store(tc_stage *s, const tc_matmul_own *o, tc_kval row, tc_kval column, tc_kval v, tc_kval mask);
// Sums of that many rows.
tc_matmul_own tc_matmul_own_sums(tc_stage *s, int64_t rows);
int64_t tc_matmul_own_sum_bytes(const tc_stage *s, int64_t rows);

// A panel of b, or `depth` of its rows, that a block packs for itself (matmul_pack.c).
// Does the block pack? Where lanes are SIMD elements and b is not packed: attribute 1 has a panel's columns.
bool tc_matmul_packs(const tc_stage *s);
// Are two neighbours of K one i32 in b's panels (dot2), and these two as one: 16-bit numbers, the first one low.
bool tc_matmul_in_pairs(const tc_stage *s);
tc_kval tc_matmul_pair(tc_kb *b, const tc_kval half[2]);
// Bytes on chip; -1: not known, or no panel is full.
int64_t tc_matmul_own_bytes(const tc_stage *s, int64_t depth);
tc_matmul_own tc_matmul_own_make(tc_stage *s, int64_t depth);
// Inside lanes regions, with a barrier between them: makes rows from `first` on of panel number `panel` of the matrix
// that `batch` names, which then has an element (or pair) of row first + k in its row k (of pairs k / 2).
void tc_matmul_own_pack(tc_stage *s, const tc_stage_config *c, const tc_matmul_own *o, const tc_kval *batch,
                        tc_kval panel, tc_kval first, int64_t depth);

// Columns of a panel of b, packed or not; 0: its size is not known.
int64_t tc_matmul_panel(const tc_stage *s);
// Does b come as […, N, K]?
bool tc_matmul_turned(const tc_stage *s);
// Nanoseconds that one core takes for an element of the result by micro-tiles.
double tc_matmul_element_ns(const tc_stage *s);
// Configurations for a block of threads, at most `max`; the count.
int32_t tc_matmul_tiles(const tc_stage *s, int32_t max, tc_stage_config *out);
int32_t tc_matmul_emit_tiles(tc_stage *s, const tc_stage_config *c);
// The same for devices that multiply tiles of 16-bit numbers (tc_device_props.tiles).
int32_t tc_matmul_mma(const tc_stage *s, int32_t max, tc_stage_config *out);
// Do all lanes of a block bring equally many runs of a step's elements, those of a, which go by two, an even number?
bool tc_matmul_mma_fits(int32_t rows, int32_t columns, int32_t depth, int32_t lanes);
// UNIMPLEMENTED for a configuration that does not fit.
int32_t tc_matmul_emit_mma(tc_stage *s, const tc_stage_config *c);
int32_t tc_matmul_shares(const tc_stage *s, int32_t max, tc_stage_config *out);
int32_t tc_matmul_emit_shares(tc_stage *s, const tc_stage_config *c);
// For both: is that of use? Bytes of an element on chip, and the type of sums.
bool tc_matmul_threads(const tc_stage *s);
int32_t tc_matmul_bytes(const tc_stage *s);
tc_dtype tc_matmul_sums(const tc_stage *s);

#endif
