// Runs a plan on the host: every kernel by the interpreter, every buffer with as many bytes as the plan says, so that a
// store or load outside is an error and not luck. Arena memory and outputs start as NaN patterns.
#ifndef TC_TESTS_FUZZ_GRAPHS_EXECUTE_H_
#define TC_TESTS_FUZZ_GRAPHS_EXECUTE_H_

#include <stdlib.h>
#include <string.h>

#include "core/plan/plan.h"

typedef struct plan_run {
  const tc_plan *p;
  const int64_t *symbols;  // by number
  const tc_tensor *inputs; // by graph input
  uint8_t *arena;
  void **data;     // by buffer: element 0 of the storage
  int64_t *counts; // elements
  int32_t only;    // of variants only this one, counted from 1; 0: the first whose fact holds
  int32_t picked[TC_PLAN_VARIANTS];
} plan_run;

static inline tc_status plan_value(const plan_run *r, const tc_sym *e, int64_t *out) {
  return tc_sym_eval(e, r->symbols, out);
}

static inline tc_status plan_place(plan_run *r, tc_arena *arena) {
  int64_t total;
  TC_TRY(plan_value(r, r->p->arena_bytes, &total));
  r->arena = tc_arena_alloc_aligned(arena, (size_t)total + 64, 64);
  memset(r->arena, 0xff, (size_t)total);
  r->data = TC_NEW_ARRAY(arena, void *, r->p->bufs.count);
  r->counts = TC_NEW_ARRAY(arena, int64_t, r->p->bufs.count);
  TC_TRY(tc_plan_check_memory(r->p, r->symbols));
  for (int32_t i = 0; i < r->p->bufs.count; i++) {
    const tc_plan_buf *b = &r->p->bufs.data[i];
    int64_t at, bytes;
    if (b->kind == TC_PLAN_INPUT) {
      const tc_tensor *t = &r->inputs[b->input];
      r->data[i] = t->storage->data;
      r->counts[i] = (int64_t)t->storage->size / tc_dtype_size(t->dtype);
      TC_TRY(plan_value(r, b->offset, &at));
      if (at != t->offset)
        return tc_error(TC_STATUS_INTERNAL, "input %d has offset %lld, the plan %lld", b->input, (long long)t->offset,
                        (long long)at);
      continue;
    }
    TC_TRY(plan_value(r, b->bytes, &bytes));
    r->counts[i] = bytes / tc_dtype_size(b->dtype);
    if (b->kind == TC_PLAN_ARENA) {
      TC_TRY(plan_value(r, b->place, &at));
      r->data[i] = r->arena + at;
    } else {
      r->data[i] = tc_arena_alloc_aligned(arena, (size_t)bytes + 64, 64);
      memset(r->data[i], 0xff, (size_t)bytes);
    }
  }
  for (int32_t i = 0; i < r->p->bufs.count; i++) {
    const tc_plan_buf *b = &r->p->bufs.data[i];
    int64_t at;
    if (!b->host) continue;
    TC_TRY(plan_value(r, b->place, &at));
    r->data[i] = (char *)r->data[b->host - 1] + at;
  }
  return TC_OK;
}

// Kernels see complex memory as its components.
static inline int64_t plan_parts(tc_dtype d) { return tc_dtype_is_complex(d) ? 2 : 1; }

// With a variant, as the op would be if that were its only kernel.
static inline tc_status plan_launch(plan_run *r, tc_arena *arena, const tc_plan_op *op);
static inline tc_status plan_launch_variant(plan_run *r, tc_arena *arena, const tc_plan_op *op, int32_t variant) {
  const tc_plan_variant *v = &op->variants[variant];
  tc_plan_op as = *op;
  as.n_variants = 0, as.kernel = v->kernel, as.blocks = v->blocks, as.n_args = v->n_args, as.args = v->args;
  r->picked[variant]++;
  return plan_launch(r, arena, &as);
}

static inline tc_status plan_launch(plan_run *r, tc_arena *arena, const tc_plan_op *op) {
  int64_t blocks, site = -1, holds = 0;
  if (op->kind != TC_PLAN_LAUNCH) return tc_error(TC_STATUS_UNIMPLEMENTED, "a call cannot be interpreted");
  for (int32_t i = 0; i < op->n_variants; i++) {
    TC_TRY(plan_value(r, op->variants[i].when, &holds));
    if (holds && (r->only == 0 || r->only == i + 1)) return plan_launch_variant(r, arena, op, i);
  }
  TC_TRY(plan_value(r, op->blocks, &blocks));
  tc_karg *args = TC_NEW_ARRAY(arena, tc_karg, op->n_args); // where there are no blocks the scalars may divide by 0
  for (int32_t k = 0; k < op->n_args; k++) {
    const tc_plan_arg *a = &op->args[k];
    if (a->buf >= 0)
      args[k] =
          (tc_karg){.data = r->data[a->buf], .count = r->counts[a->buf] * plan_parts(r->p->bufs.data[a->buf].dtype)};
    else if (blocks > 0) TC_TRY(plan_value(r, a->scalar, &args[k].bits));
  }
  if (blocks <= 0) return TC_OK;
  TC_TRY(tc_kernel_interpret(tc_system_allocator(), r->p->kernels.data[op->kernel]->kernel, blocks, args, op->n_args,
                             &site));
  return site < 0 ? TC_OK : tc_error(TC_STATUS_OUT_OF_RANGE, "the kernel reports its error site %lld", (long long)site);
}

// outputs[i] borrows memory of the arena; release with tc_tensor_unref.
static inline tc_status plan_run_all(plan_run *r, tc_arena *arena, tc_tensor *outputs) {
  TC_TRY(plan_place(r, arena));
  for (int32_t i = 0; i < r->p->ops.count; i++)
    TC_TRY(plan_launch(r, arena, &r->p->ops.data[i]), "while running the kernel " TC_SV_FMT,
           TC_SV_ARG(r->p->ops.data[i].name));
  for (int32_t i = 0; i < r->p->outputs.count; i++) {
    const tc_plan_output *o = &r->p->outputs.data[i];
    outputs[i] = (tc_tensor){0};
    if (o->buf < 0) continue;
    int64_t sizes[TC_MAX_RANK], strides[TC_MAX_RANK], offset;
    for (int32_t d = 0; d < o->type.rank; d++) {
      TC_TRY(plan_value(r, o->type.sizes[d], &sizes[d]));
      TC_TRY(plan_value(r, o->type.strides[d], &strides[d]));
    }
    TC_TRY(plan_value(r, o->type.offset, &offset));
    tc_storage *s;
    TC_TRY(tc_storage_wrap(tc_system_allocator(), r->data[o->buf],
                           (size_t)(r->counts[o->buf] * tc_dtype_size(o->type.dtype)), NULL, NULL, &s));
    tc_status made = tc_tensor_view(s, o->type.dtype, o->type.rank, sizes, strides, offset, &outputs[i]);
    tc_storage_unref(s);
    TC_TRY(made, "while making output %d", i);
  }
  return TC_OK;
}

#endif
