// State of one emission.
#ifndef TC_CORE_KERNEL_EMIT_INTERNAL_H_
#define TC_CORE_KERNEL_EMIT_INTERNAL_H_

#include "core/base/failure.h"
#include "core/kernel/emit.h"

#include "tc/template.h"

typedef struct tc_em_undo {
  tc_map_entry *entry;
  int64_t old;
} tc_em_undo;

// How memory of a group-internal buffer is addressed on chip: mem[Σ (index − origin)·stride].
typedef struct tc_em_tile {
  tc_kmem mem;
  int64_t row;          // room for one row of the tile, elements
  const tc_sym *extent; // elements that a row has
} tc_em_tile;

// Loads that each lane makes of several consecutive elements at once (emit_transpose.c, emit_rows.c): along `var`, from
// `base`, the element that is evaluated now is number `at`. With `stores`, stores are collected likewise, and only
// accesses that are aligned to `width` elements are made at once.
typedef struct tc_em_wide {
  const tc_sym *var; // NULL: off
  const tc_sym *base;
  int32_t width, at;
  tc_map *loads;           // (buffer, address without var, mask) → tc_kval[width]
  tc_map *stores;          // the same, or NULL
  struct tc_em_runs *runs; // emit_short.c, in place of all but `var` and `width`; or NULL
} tc_em_wide;
typedef struct tc_em_runs tc_em_runs;

// Neighbours that a lane makes together: the lanes' variable counts groups of `n`, `part` is the number in one.
typedef struct tc_em_neighbours {
  const tc_sym *group, *part;
  int32_t n; // 0: off
} tc_em_neighbours;

// Wide loads of a row that later phases of the same lane read again: they stay in registers (lane arrays), where the
// row is short enough. On while the phases' main loops over the row are alike.
typedef struct tc_em_kept {
  tc_map *arrays; // (buffer, address without the row's variable, mask) → tc_em_kept_array *; NULL: off
  int32_t trips;  // of the main loop
  int32_t words;  // registers that may still be taken
  tc_kval slot;   // of this trip's first element; -1: outside of the main loop
} tc_em_kept;
typedef struct tc_em_kept_array {
  tc_kmem mem;
  int32_t phase; // that fills it
} tc_em_kept_array;

// Elements that are fetched before they are read: those at the next value of a variable, the rows', or further on in
// the lanes'; NULL: none.
enum { EM_NARROW_TRIPS = 8 };        // elements of a lane, at most
enum { EM_MOST_WRITTEN_OUT = 4096 }; // elements of a lane times what one costs (em_cost)
typedef struct tc_em_ahead {
  const tc_sym *var;
  bool rows;
  int64_t step;   // of the variable, wherever it occurs; 0: as it suits what is read
  tc_map *phases; // tc_buf * → phase + 1 in which its elements are fetched
} tc_em_ahead;

typedef struct tc_em {
  tc_schedule *s;
  tc_group *g;
  tc_loops *l;
  tc_sym_ctx *syms;
  tc_arena *arena;
  const tc_emit_options *o;
  const tc_device_props *dev;
  tc_emitted *out;
  tc_kb *kb;
  tc_dtype ity; // index type: i32 where every index fits, else i64
  // Variables after merging dimensions, and each step's map in terms of them.
  int32_t n_par, n_red;
  const tc_sym **vars, **extents;
  const tc_sym *const **at; // by step

  tc_map *values; // of integer expressions and body values → kernel value + 1; scoped by the undo log
  TC_VEC(tc_em_undo) undo;
  tc_map *scalars; // expression → scalar parameter + 1
  tc_map *mems;    // tc_buf * → tc_kmem + 1
  tc_map *tiles;   // tc_buf * → tc_em_tile *
  bool tiles_used;
  int32_t phase;      // that is being emitted: tiles hold what earlier ones made
  tc_map *rows;       // tc_buf * → kernel value + 1: reductions' results for the current row
  const tc_buf *hole; // the template result that is being stored, and its value
  tc_kval hole_value;
  tc_kval mask;           // of what is evaluated now, or -1
  tc_kval tile_row;       // number of the current row inside the tile, or -1 (0)
  int32_t tile_lanes;     // rows of a tile that lie side by side, element by element; 0: they lie behind each other
  const tc_sym *red_flat; // the reduced variables as one row-major index
  const tc_sym *part;     // number of the block, where it makes parts of columns
  tc_em_wide wide;
  tc_em_neighbours neighbours;
  tc_em_kept kept;
  tc_em_ahead ahead;
  int32_t turned;     // elements of a row that a lane reads and writes at once, along columns; 0: one by one
  bool narrow;        // lanes are a subgroup, whose rows' elements are written out
  tc_failure failure; // the first one
} tc_em;

void em_fail(tc_em *e, const char *fmt, ...) TC_PRINTF(2, 3);
// Scopes: values made since the mark are forgotten when it is left.
int32_t em_mark(tc_em *e);
void em_leave(tc_em *e, int32_t mark);
void em_bind(tc_em *e, const tc_sym *symbol, tc_kval v); // in the current scope
// The number of this block, as a symbol bound to its value; also sets the kernel's number of blocks.
const tc_sym *em_bind_block(tc_em *e, const tc_sym *blocks);
// Binds the variables 0 … n-1 but two (-1: none) to the coordinates of a row-major number.
void em_bind_rows(tc_em *e, const tc_sym *row, int32_t n, int32_t except1, int32_t except2);
tc_kval em_sym(tc_em *e, const tc_sym *expr); // an integer expression as a value of type ity
// Does an expression that varies inside the kernel have a part that i32 may not hold?
bool em_is_wide(tc_em *e, const tc_sym *expr);
tc_kval em_const(tc_em *e, int64_t v);
tc_kval em_add(tc_em *e, tc_kval a, tc_kval b);
tc_kval em_mul(tc_em *e, tc_kval a, tc_kval b);

// Buffers that the group reads and that the core's own caches do not hold.
int32_t em_large_reads(const tc_em *e);
tc_kmem em_mem(tc_em *e, const tc_buf *b, bool writes);
// `width` consecutive elements of a buffer from `address` on, under the current mask; parts in planes are put together
// and taken apart here.
void em_mem_load(tc_em *e, const tc_buf *b, const tc_sym *address, int32_t width, tc_kval *out);
void em_mem_store(tc_em *e, const tc_buf *b, const tc_sym *address, int32_t width, const tc_kval *values);
// From here on, until e->wide is cleared, `width` consecutive elements along the variable from `first` on (a multiple
// of `width`) are loaded and stored at once; e->wide.at says which is evaluated.
void em_wide_open(tc_em *e, const tc_sym *var, int32_t width, tc_kval first);
// The value of a buffer's element: from a row value, a tile, a hole, by computing it, or from memory.
tc_kval em_load(tc_em *e, const tc_buf *b, const tc_sym *const *index, const tc_sym *cond_or_null);
// The value of a node's body with its variables replaced.
tc_kval em_body(tc_em *e, const tc_lnode *n, const tc_sym *const *at);
// Stores the result of a pointwise step (to memory if it leaves the group, to its tile if held).
void em_store_step(tc_em *e, int32_t step);
// Where the node's element goes; dimensions whose index comes from data count as 0.
const tc_sym *const *em_store_index(tc_em *e, const tc_lnode *n, const tc_sym *const *at);
void em_store(tc_em *e, const tc_buf *b, const tc_sym *const *index, tc_kval value);
const tc_sym *em_address(tc_em *e, const tc_buf *b, const tc_sym *const *index);

// Reductions: accumulator type, neutral value, combination, and the collective over lanes.
typedef struct tc_em_acc {
  const tc_lnode *node;
  tc_dtype dtype;
  int32_t step;
} tc_em_acc;
tc_dtype em_acc_type(const tc_lnode *n);
tc_kval em_acc_init(tc_em *e, const tc_lnode *n);
tc_kval em_acc_combine(tc_em *e, const tc_lnode *n, tc_kval acc, tc_kval v);
int32_t em_acc_collective(const tc_lnode *n);
// Long sums of floats are made in parts that start from 0 and are added up: the error grows with the length of a part
// and the number of parts, not with their product (Higham, "The accuracy of floating point summation", 1993, §4).
// steps: the reductions by number. Opening gives the values that a part starts with, closing what the whole is then.
enum { EM_PART = 64 }; // additions in a part, and parts in a larger one
static inline int32_t em_part_levels(int64_t n) {
  return n > 2 * EM_PART * EM_PART ? 2 : n > 2 * EM_PART;
} // for n additions
static inline int64_t em_part_length(int32_t levels) { return levels == 2 ? EM_PART * EM_PART : levels ? EM_PART : 1; }
void em_part_open(tc_em *e, int32_t n, const int32_t *steps, const tc_kval *acc, tc_kval *part);
void em_part_close(tc_em *e, int32_t n, const int32_t *steps, const tc_kval *acc, tc_kval *part);

// Variances in the pass of their sums (emit_spread.c). The step of the sum whose mean a step's squares are about, of
// the same elements; -1: it is no such step.
int32_t em_spread_sum(tc_em *e, int32_t step);
bool em_spread_fits(tc_em *e, int32_t lane_var); // do rows come from memory, of a known length?
// Of a sum's step: the row's first element. What a lane keeps up, 0 at first, is of elements less that: their mean, and
// the sum of their squares about it.
tc_kval em_spread_pivot(tc_em *e, int32_t sum);
enum { EM_SPREAD_MEAN, EM_SPREAD_SQUARES, EM_SPREAD_NUMBERS };
// Takes in the current element of a sum's step, of which there are `number` with it.
void em_spread_add(tc_em *e, int32_t sum, tc_kval pivot, tc_kval number, const tc_kval *acc, tc_kval *next);
// Puts a part of `count` elements behind the `before` ones in front of it (a `part` of all then).
void em_spread_join(tc_em *e, tc_kval before, tc_kval count, const tc_kval *acc, tc_kval *part);
// What lanes have is kept until the row's sum is known, which then gives the sum of squares.
tc_kmem em_spread_keep(tc_em *e, int32_t step, const tc_kval *acc);
tc_kval em_spread_total(tc_em *e, tc_kval total, tc_kval pivot, tc_kmem kept, int32_t lane_var);

// Stores a part of a column, or the reduction's neutral value, or takes the current element into it.
bool em_is_column(const tc_em *e, const tc_buf *b); // made by such a step?
void em_column_start(tc_em *e, int32_t step);
void em_column_add(tc_em *e, int32_t step);

// Is a step computed per row (only parallel variables), or per element?
bool em_step_is_row(tc_em *e, int32_t step);
int64_t em_cost(const tc_em *e); // of an element: what the steps of the group compute (emit_dims.c)
// Runs phase by phase over one row: opens its own lanes regions. `lane_var` is the variable along lanes.
void em_row_phases(tc_em *e, int32_t first_phase, int32_t lane_var, const tc_sym *lo, const tc_sym *hi);
// Makes on-chip arrays for the steps that are held; `rows` rows each.
void em_make_tiles(tc_em *e, int64_t rows);
// In the maps of all steps.
void em_replace_vars(tc_em *e, int32_t n_vars, const tc_sym *const *from, const tc_sym *const *to);
// Joins neighbouring variables where every address allows it, and returns the variable to run lanes along.
int32_t em_merge_dims(tc_em *e);
// A variable other than the lanes' along which some access that depends on both is contiguous; -1: none.
int32_t em_transposed_dim(tc_em *e, int32_t lane_var);
enum { EM_AT_ONCE = 16 }; // bytes of an access that makes several elements
// How many neighbouring elements along the variable share an index, or alternate (both parts of a complex number that
// is seen as a pair of reals): 1 for none.
int32_t em_together(tc_em *e, int32_t lane_var);

// Elements that a lane of a row takes at a time: as many as 16 bytes hold of the widest type in memory where lanes are
// threads; 1 where they are elements of vectors, and where the program's buffers may lie anywhere.
int32_t em_lane_width(tc_em *e);
int32_t em_step_of(const tc_em *e, const tc_lnode *n); // its number among the group's steps; -1: none of them
// Sets how many blocks are worth a thread, from the elements that one block works on.
void em_grain(tc_em *e, int64_t elements);

void em_rows(tc_em *e, int32_t lane_var);
// Pointwise work over short rows (emit_short.c): lanes of a block, `rows` times the `runs` of `run` elements of a row.
typedef struct tc_em_short {
  int32_t run, runs, rows, lanes;
} tc_em_short;
bool em_short_rows_of(tc_em *e, int32_t lane_var, tc_em_short *out); // false: not to be emitted like that
void em_short_rows(tc_em *e, int32_t lane_var, const tc_em_short *s);
// Lets the lanes' variable count groups of such neighbours; does nothing where there are none, or work that is not
// pointwise.
void em_join_neighbours(tc_em *e, int32_t lane_var);
// The steps' elements of the current group.
void em_store_neighbours(tc_em *e, int32_t n, const int32_t *steps);
// False: the element is no part of a run.
bool em_run_load(tc_em *e, const tc_buf *b, const tc_sym *address, tc_kval *out);
bool em_run_store(tc_em *e, const tc_buf *b, const tc_sym *address, tc_kval value);
void em_columns(tc_em *e, int32_t lane_var);
bool em_strips(tc_em *e, int32_t lane_var); // several strips of columns in a block, where that pays: else false
// Binds what is parallel but the lanes' variable, for blocks of `width` columns; returns the number of the first
// column.
const tc_sym *em_bind_columns(tc_em *e, int32_t lane_var, int64_t width);
// Stores reductions of the phase before, and what follows from them, for the current column.
void em_column_results(tc_em *e, int32_t phase);
void em_transpose(tc_em *e, int32_t lane_var, int32_t wide_var);
void em_stage_group(tc_em *e);

#endif
