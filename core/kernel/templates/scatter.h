// What the two ways of scattering share.
#ifndef TC_CORE_KERNEL_TEMPLATES_SCATTER_H_
#define TC_CORE_KERNEL_TEMPLATES_SCATTER_H_

#include <stdbool.h>

#include "core/kernel/templates/templates.h"

#include "tc/lower.h"

enum { TC_SCATTER_KIND, TC_SCATTER_ACROSS, TC_SCATTER_NEGATIVE }; // attributes
// Parameters: rows of a block's share (0: all), positions of a chunk that are a lane's.
enum { TC_SCATTER_SHARE = 2, TC_SCATTER_PER_LANE };

typedef struct tc_scatter {
  tc_stage *s;
  tc_kb *b;
  int32_t rank;
  tc_dtype type;
  tc_kval column[TC_MAX_RANK]; // by dimension; the first is free
  tc_kval n;
} tc_scatter;

static inline tc_kval tc_scatter_i64(tc_scatter *t, int64_t v) { return tc_kb_int(t->b, TC_I64, v); }

bool tc_scatter_is_across(const tc_stage *s);
tc_kval tc_scatter_load(tc_scatter *t, int32_t operand, tc_kval at, tc_kval mask);
// An element of self in the result's type, and its copy to the result.
tc_kval tc_scatter_self(tc_scatter *t, tc_kval at, tc_kval mask);
void tc_scatter_copy(tc_scatter *t, tc_kval at, tc_kval mask);
tc_kval tc_scatter_combine(tc_scatter *t, tc_kval old, tc_kval v);
// Position k, checked where the mask allows; *out_inside: it is one, and the mask allows.
tc_kval tc_scatter_position(tc_scatter *t, tc_kval k, tc_kval mask, tc_kval *out_inside);

// scatter_shares.c. False: it is not for this device, or there are few positions.
bool tc_scatter_in_shares(const tc_stage *s, tc_stage_config *out);
void tc_scatter_emit_shares(tc_scatter *t, const tc_stage_config *c);

#endif
