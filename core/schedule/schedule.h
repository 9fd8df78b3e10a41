// The schedule: which loop nodes share a launch, where every buffer lives, and in which order groups run.
//
// A group has a domain of parallel dimensions (rows) and reduced dimensions; all its members are mapped to the group's
// variables (`at`). Kinds of members by domain: reductions over the rows, pointwise work over rows × reduced, pointwise
// work per row, template stages over rows × reduced. A buffer used only inside its group never reaches memory: it is a
// row value, computed again where it is used, or held in an on-chip tile. Reductions over the rows themselves, column
// by column, share the kernel, too (columns.c): a block takes several rows and makes a part of each column's result.
//
// Method: cheap pointwise producers are first inlined into every user (inline.c). Then pairs of groups are merged by
// estimated gain (bytes saved against recomputation and lost parallelism) with a heap, best first (fuse.c); every
// refusal keeps its reason for `explain`. Then holds are decided (hold.c) and groups ordered for little live memory
// (order.c).
//
// Text form (round trips; `tcrun dump --stage=schedule`), behind the loops:
//   schedule candidates 4 merges 1 {
//     group @softmax_0 kernel @softmax [i0 : s0] over [r0 : 64] {
//       phase 0: %max[i0, r0] row
//       phase 1: %y[i0, r0] inline, stored
//       reads %x
//       writes %y
//     }
//     refused %y with %z: "no common domain"
//   }
// Where blocks make parts of columns, the number of their rows stands behind the first brackets: `[i0 : s0] by 32
// over`.
#ifndef TC_CORE_SCHEDULE_SCHEDULE_H_
#define TC_CORE_SCHEDULE_SCHEDULE_H_

#include "core/base/log.h"
#include "core/loop/loop.h"

#include "tc/plugin.h"

enum {
  TC_HOLD_MEMORY, // a buffer in global memory
  TC_HOLD_INLINE, // computed where it is used
  TC_HOLD_ROW,    // one value per row, in registers
  TC_HOLD_TILE,   // an on-chip array over the block's tile
  TC_HOLD_COLUMN, // a reduction over the block's rows, row by row: one value per column of a block, in memory
  TC_HOLD_COUNT
};
const char *tc_hold_text(int32_t hold); // "memory", "inline", "row", "tile", "column"

typedef struct tc_step {
  tc_lnode *node;
  const tc_sym *const *at; // node->vars[k] as an expression over the group's variables
  int32_t hold;            // of the node's results, if they do not leave the group
  bool stores;             // some result is used outside the group
  bool dear;               // held in a tile wherever a row has room on chip, since computing it again costs more
  int32_t phase;           // steps of one phase share their loops; later phases need row values of earlier ones
} tc_step;

typedef struct tc_group {
  int32_t id;
  tc_sv kernel; // after what it computes: "softmax_add"; equal groups have equal names, so that their code is shared
  tc_sv name;   // the same with the group's number
  int32_t n_par, n_red;
  int64_t rows;              // that a block takes, in row-major order; 0: the kernel decides
  const tc_sym *const *vars; // n_par + n_red, symbols of origin LOOP
  const tc_sym *const *extents;
  TC_VEC(tc_step) steps; // in dependency order; inlined pointwise nodes of several groups appear in each
  tc_lnode *stage;       // the first template among them, or NULL
  tc_lnode *call;        // a library call: the group's only node, or NULL
  bool once;             // depends on the program's constants only: run when they are new, not in every run; in a
                         // loop's body on what is the same in every turn: run in the first
  int32_t n_phases;
  TC_VEC(const tc_buf *) reads, writes; // memory
} tc_group;

typedef struct tc_refusal {
  const tc_lnode *producer, *consumer;
  tc_sv reason;
} tc_refusal;

typedef struct tc_schedule {
  tc_loops *loops;
  TC_VEC(tc_group *) groups; // in order of execution
  TC_VEC(tc_refusal) refusals;
  int32_t n_candidates, n_merges;
} tc_schedule;

typedef struct tc_schedule_options {
  const tc_logger *logger;
  const tc_device_props *device;
  bool fuse;         // false: one group per node (aot_eager)
  bool horizontal;   // small groups that have nothing in common may share a launch, too
  bool freeze;       // parameters, buffers and constants that nothing changes are constant from run to run
  int32_t max_group; // most nodes in a group; 0: 64
} tc_schedule_options;

TC_NODISCARD tc_status tc_schedule_loops(tc_loops *l, const tc_schedule_options *o, tc_schedule **out);
// The loops as they are scheduled, then the groups in order of execution (parse.c has the grammar). What is printed
// parses back to the same text.
void tc_schedule_print(tc_sb *sb, const tc_schedule *s);
// At "schedule", behind the loops. The result has been verified. Errors name line and column.
TC_NODISCARD tc_status tc_schedule_parse(tc_loops *l, tc_lexer *lx, tc_schedule **out);
// Variables and ranks of steps, what is read is an input, written by an earlier group or made in this one, what leaves
// a group has a place in memory, every output is written.
TC_NODISCARD tc_status tc_schedule_verify(const tc_schedule *s);

// Is it a parameter, buffer or constant of the program that no run changes, or what no turn of a loop does?
bool tc_sched_constant_input(const tc_loops *l, const tc_buf *b);

// Bytes and operations that a group moves and does, as expressions of the size symbols.
const tc_sym *tc_buf_bytes(tc_loops *l, const tc_buf *b);
const tc_sym *tc_group_bytes(tc_schedule *s, const tc_group *g);
const tc_sym *tc_group_flops(tc_schedule *s, const tc_group *g);

const tc_sym *tc_product(tc_loops *l, int32_t n, const tc_sym *const *v);
// Neighbours in a row that lanes of vectors turn at once, where each has a row of its own (core/kernel/emit_columns.c)
// and as many rows stay in the core's own cache; 0: none. Code for it is long: of few elements it is not worth making.
int32_t tc_turned_width(const tc_device_props *device, int64_t rows, const tc_sym *row);
const tc_sym *tc_row_major_index(tc_loops *l, int32_t rank, const tc_sym *const *sizes, const tc_sym *const *index);
// node->vars as expressions over a domain with the same number of elements (row-major order), or false if the sizes do
// not line up.
bool tc_map_domain(tc_loops *l, int32_t n_from, const tc_sym *const *from_vars, const tc_sym *const *from_extents,
                   int32_t n_to, const tc_sym *const *to_extents, const tc_sym **out);
// The group as it is where the size symbols from[i] are to[i] (numbers, or symbols of which more is known), with nodes
// and buffers of its own; `originals` gets the buffer that each copy stands for. Rows of dear steps lie on chip where
// the device has room for what is known of their length.
tc_group *tc_group_assume(tc_schedule *s, const tc_group *g, const tc_device_props *device, int32_t n,
                          const tc_sym *const *from, const tc_sym *const *to, tc_map *originals);

#endif
