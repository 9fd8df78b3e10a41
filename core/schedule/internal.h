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
  tc_group **group_of; // by node id
  // Of merging (fuse.c): the groups in topological order, and marks of the last search.
  int32_t *pos, *mark; // by group id
  tc_group **in_order; // by position
  int32_t *node_mark;  // by node id, inlined ones
  int32_t stamp;
} tc_sched;

void tc_sched_users(tc_sched *x);
void tc_sched_freeze(tc_sched *x);
void tc_sched_freeze_rest(tc_sched *x); // once it is known what is inlined
// Is it a parameter, buffer or constant of the program that no run changes?
bool tc_sched_constant_input(const tc_loops *l, const tc_buf *b);
void tc_sched_inline(tc_sched *x);
tc_status tc_sched_fuse(tc_sched *x);
void tc_sched_hold(tc_sched *x, tc_group *g);
// Which of a finished group's dear steps lie on chip: as many as there is room for, by the bound of a row's length.
void tc_group_hold_rows(tc_loops *l, const tc_device_props *device, tc_group *g);
void tc_sched_layout(tc_sched *x); // strides of what goes through memory
tc_status tc_sched_order(tc_sched *x);

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
