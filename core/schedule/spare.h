// What orders of groups need at their peak (spare.c), for who changes what groups read (again.c).
#ifndef TC_CORE_SCHEDULE_SPARE_H_
#define TC_CORE_SCHEDULE_SPARE_H_

#include "core/schedule/internal.h"

typedef struct tc_spare_value {
  const tc_buf *buf;
  int64_t bytes;
  int32_t writer;
  bool stays; // to the end of the run
  tc_ints readers;
} tc_spare_value;

typedef struct tc_spare {
  tc_arena *arena;
  const tc_flow *f;
  int32_t n, fixed; // the first `fixed` groups of an order stay there: what is done once
  TC_VEC(tc_spare_value) values;
  tc_ints *reads, *writes; // by group: values
  int64_t links;           // how many there are in all
  int32_t *pos;            // by group
  int64_t *alive;          // by position: bytes
  bool *mark;              // by group
  int64_t steps;           // that may still be taken
} tc_spare;

typedef struct tc_spare_cost {
  int64_t peak;
  double sum; // over time
} tc_spare_cost;

// Of the schedule's groups by their ids; false where a size is not known.
bool tc_spare_open(tc_sched *x, const tc_flow *f, tc_spare *out);
// What an order needs; `pos` and `alive` are then of that order.
tc_spare_cost tc_spare_measure(tc_spare *s, const int32_t *order);
// The best order that is found from the one given, in so many steps; it may be that one.
tc_spare_cost tc_spare_search(tc_spare *s, const int32_t *given, int64_t steps, int32_t *out);
// Is it so much less that something may be changed for it?
bool tc_spare_worth(int64_t peak, int64_t before);

#endif
