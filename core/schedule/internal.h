// What the files of the scheduler share.
#ifndef TC_CORE_SCHEDULE_INTERNAL_H_
#define TC_CORE_SCHEDULE_INTERNAL_H_

#include "core/ir/op.h"
#include "core/loop/template.h"
#include "core/schedule/schedule.h"

// Who reads a buffer.
typedef struct tc_users {
  TC_VEC(tc_lnode *) nodes; // each once
  int32_t loads;            // load instructions and template or call operands
} tc_users;

// What a partial reduction over rows, column by column, was cut from (columns.c). Its variables are the number of the
// chunk, the columns, and the row inside the chunk.
typedef struct tc_column_part {
  int64_t rows;         // of a chunk
  const tc_sym *height; // rows in all
  tc_lnode *beside;     // a row reduction of the same elements
  int64_t saved;        // bytes that need not be read again with it
} tc_column_part;

// Which groups must come behind (next) and in front of (before) which, by group id.
typedef TC_VEC(int32_t) tc_ints;
typedef struct tc_flow {
  int32_t n;
  tc_ints *next, *before;
} tc_flow;

typedef struct tc_sched {
  tc_schedule *s;
  tc_loops *l;
  tc_arena *arena;
  const tc_schedule_options *o;
  tc_users *users;     // by buffer id
  bool *once;          // by node id: made of constants only, and done once (freeze.c)
  bool *constant;      // by node id: could be; NULL: none is
  bool *inlined;       // by node id: computed in every user, never stored
  int32_t *cost;       // by node id: scalar operations per element, with what is inlined into it
  tc_map *columns;     // tc_lnode * → const tc_column_part *
  tc_map *again;       // tc_lnode *: computed in every reader to save memory (again.c); NULL: none is
  tc_group **group_of; // by node id
  // Of merging (fuse.c): the groups in topological order, and marks of the last search.
  int32_t *pos, *mark; // by group id
  tc_group **in_order; // by position
  int32_t *node_mark;  // by node id, inlined ones
  int32_t stamp;
  tc_map *names; // of buffers, for the log; NULL: nothing was told
} tc_sched;

// Loop-level rewriting before grouping: reductions with few results become two, so that all cores take part, and those
// over columns of what is reduced by rows as well, so that both may share a kernel; `columns` gets the latter's parts.
TC_NODISCARD tc_status tc_split_reductions(tc_loops *l, const tc_device_props *device, const tc_logger *logger,
                                           tc_map *columns);
bool tc_can_split(const tc_lnode *n);
// Is the largest buffer that the node reads contiguous along a parallel variable? Then that one's extent.
bool tc_along_columns(tc_loops *l, const tc_lnode *n, const tc_sym **lane_extent);
// By position of the node: how it is cut if it reduces columns of what other nodes reduce by rows; else NULL.
const tc_column_part *const *tc_columns_beside_rows(tc_loops *l, const tc_device_props *device);
const tc_column_part *tc_column_part_of(const tc_sched *x, const tc_lnode *n); // NULL: it is none
// The part that every step of a group is one of, alike; NULL: the group is another one.
const tc_column_part *tc_columns_of(const tc_sched *x, const tc_group *g);
// Where the variables of such a part are in a group of so many rows; false if its columns do not line up with the rows.
bool tc_columns_map(tc_loops *l, const tc_lnode *n, int64_t rows, int32_t n_par, int32_t n_red,
                    const tc_sym *const *vars, const tc_sym *const *extents, const tc_sym **out);
void tc_sched_users(tc_sched *x);
void tc_sched_freeze(tc_sched *x);
void tc_sched_freeze_rest(tc_sched *x); // once it is known what is inlined
void tc_sched_inline(tc_sched *x);
tc_status tc_sched_fuse(tc_sched *x);
void tc_sched_hold(tc_sched *x, tc_group *g);
// Which of a finished group's dear steps lie on chip: as many as there is room for, by the bound of a row's length.
void tc_group_hold_rows(tc_loops *l, const tc_device_props *device, tc_group *g);
void tc_sched_layout(tc_sched *x); // strides of what goes through memory
tc_status tc_sched_order(tc_sched *x);
void tc_sched_flow(tc_sched *x, tc_flow *out); // numbers the groups
// Puts the groups into an order that needs less memory at its peak, if one is found (spare.c).
void tc_sched_spare(tc_sched *x, const tc_flow *f, tc_group **order);
// Schedules the loops again, by `arrange`, with values computed again by their late readers, if that takes less memory
// (again.c). `at_first`: how buffers lay before they were scheduled.
TC_NODISCARD tc_status tc_sched_again(tc_sched *x, const void *at_first, tc_status (*arrange)(tc_sched *x));
const void *tc_sched_lies(tc_loops *l);

// The second template of a group if its rows have another length than the group's (late.c); NULL: there is none.
const tc_lnode *tc_sched_late_stage(const tc_group *g);
// Has the node the sizes of that template, so that it runs in its stores? false if `late` is NULL.
bool tc_sched_is_late(const tc_lnode *late, const tc_lnode *n);

// Does the load of instruction `b` of a node with variables `vars` read its buffer element by element in the node's own
// order, over the first `n` variables?
bool tc_load_aligned(tc_loops *l, const tc_binst *b, int32_t n, const tc_sym *const *vars,
                     const tc_sym *const *extents);
int64_t tc_buf_hint_bytes(tc_loops *l, const tc_buf *b);

#endif
