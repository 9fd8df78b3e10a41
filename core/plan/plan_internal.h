// Shared by the files of core/plan.
#ifndef TC_CORE_PLAN_PLAN_INTERNAL_H_
#define TC_CORE_PLAN_PLAN_INTERNAL_H_

#include "core/plan/plan.h"

// build.c
typedef struct plan_builder {
  tc_plan *p;
  tc_schedule *s;
  const tc_plan_regions *regions;
  tc_map *bufs;  // tc_buf * → number + 1
  tc_map *names; // of buffers → the next number to try behind it
} plan_builder;
// An argument of the next op; the buffer lives at least until then.
tc_plan_arg plan_touch(plan_builder *w, const tc_buf *b, bool writes);
// A view of a buffer as sizes, strides and an offset. A library takes no others.
TC_NODISCARD tc_status plan_affine(plan_builder *w, const tc_lview *v, tc_tensor_type *out);
// A buffer of the arena that only the next op uses.
int32_t plan_scratch(plan_builder *w, tc_sv name, const tc_plan_buf *like);
// Operands and results of a call as args and views.
tc_status plan_call_args(plan_builder *w, const tc_lnode *n, tc_plan_op *op);
// control.c
tc_status plan_add_control(plan_builder *w, tc_group *g);
// tc_plan.fixed_from of an op's region, where the op's operands are known.
int32_t plan_fixed_from(const tc_plan_op *op, int32_t region);
// build.c: what is made once and read later is frozen, or in a loop's body there to the end.
void plan_keep_once(tc_plan *p);

// over.c: finds results that may have the place of an operand (tc_buf.over).
void plan_find_over(tc_schedule *s);

// variants.c: the kernels for known facts, of an op whose general kernel is in the plan.
tc_status plan_add_variants(plan_builder *w, tc_group *g, const tc_emit_options *o, tc_plan_op *op);

// user.c: a launch of what somebody wrote by hand.
bool plan_is_user(const tc_lnode *n);
tc_status plan_add_user(plan_builder *w, tc_group *g, const tc_emit_options *o);

// memory.c: the buffer whose own place this one has; gives all of them such places; when each is used last, with what
// lies over it.
int32_t plan_place_of(const tc_plan *p, int32_t buf);
void plan_take_places(tc_plan *p);
int32_t *plan_last_uses(const tc_plan *p, tc_arena *arena);
// offsets.c: host and place of these buffers of constant size, which are used until the ops `last` (by buffer); returns
// the bytes of the arena. `shared`: they may lie in outputs until those are written.
enum { PLAN_ALIGN = 64 }; // of every offset
int64_t plan_place_constant(tc_plan *p, const int32_t *bufs, int32_t n, const int32_t *last, bool shared);

// rooms.c: what lies at `at` of the arena while ops first to last run. The spans are sorted, and those that overlap are
// joined; returns the most bytes that are there at once, outputs included. `scratch` has a number for each op, and one.
typedef struct plan_span {
  int32_t buf; // number of the buffer, or -1
  int64_t at, bytes;
  int32_t first, last;
} plan_span;
int64_t plan_span_parts(int64_t *scratch, int32_t n_ops, int32_t n_outputs, const plan_span *outputs, plan_span *spans,
                        int32_t *n);

// flops.c: operations of one node, by its declaration; 0 if it says nothing.
const tc_sym *plan_template_flops(tc_plan *p, const tc_lnode *n);

#endif
