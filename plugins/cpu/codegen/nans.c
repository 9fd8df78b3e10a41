// What NaNs of a kernel may look like. Rounding f32 to bf16 by integer arithmetic carries into the exponent where the
// lower half of a NaN's bits is not zero, and such NaNs need an operation of their own; but arithmetic hands on the NaN
// that it got, or makes one whose lower bits are zero, so that only what is loaded as f32 or put together from integers
// can be such a number. Found by going over the kernel until nothing changes, since loops carry values.
#include <stdlib.h>

#include "codegen.h"

enum { MOST_DEPTH = 100 };

typedef struct nans {
  const tc_kernel *k;
  bool *values, *mems; // by number: the lower half may differ from zero in a NaN (f32), or at all (integers)
  bool changed;
} nans;

static void mark(nans *n, bool *at, bool is) {
  if (is && !*at) *at = n->changed = true;
}

static tc_dtype type_of(const nans *n, tc_kval v) {
  tc_kvalue info;
  tc_k_value(n->k, v, &info);
  return info.dtype;
}

static bool is_constant(const nans *n, tc_kval v, int64_t *out) {
  tc_kvalue info;
  tc_kinst in = {.op = -1};
  tc_k_value(n->k, v, &info);
  if (info.inst >= 0) tc_k_inst(n->k, info.inst, &in);
  *out = in.imm;
  return in.op == TC_K_CONST;
}

static bool any(const nans *n, const tc_kinst *in, int32_t first) {
  bool found = false;
  for (int32_t i = first; i < in->n_args; i++) found |= n->values[in->args[i]];
  return found;
}

static bool of_integers(const nans *n, const tc_kinst *in) {
  int64_t by;
  switch (in->op) {
  case TC_K_CONST: return in->imm & 0xffff;
  case TC_K_SHL: return !is_constant(n, in->args[1], &by) || by < 16;
  case TC_K_SELECT: return any(n, in, 1);
  default: return true;
  }
}

static bool of_f32(const nans *n, const tc_kinst *in) {
  switch (in->op) {
  case TC_K_CONST: return in->fimm != in->fimm;
  case TC_K_CAST: return cg_is_float(type_of(n, in->args[0])) && type_of(n, in->args[0]) != TC_BF16;
  case TC_K_BITCAST: return n->values[in->args[0]];
  case TC_K_SELECT: return any(n, in, 1);
  case TC_K_DOT2: return n->values[in->args[2]];
  case TC_K_REDUCE_ADD:
  case TC_K_REDUCE_MUL:
  case TC_K_REDUCE_MIN:
  case TC_K_REDUCE_MAX:
  case TC_K_BROADCAST: return any(n, in, 0);
  default: return tc_k_op_class(in->op) != 'a' || any(n, in, 0);
  }
}

static void go_over(nans *n, int32_t region, const tc_kval *out, int32_t n_out, const tc_kval *carried, int32_t depth);

static void structure(nans *n, const tc_kinst *in, int32_t depth) {
  for (int32_t r = 0; r < in->n_regions; r++) {
    tc_kregion region;
    tc_k_region(n->k, in->regions[r], &region);
    bool loop = in->op == TC_K_FOR;
    for (int32_t i = 0; loop && i < in->n_results && 2 + i < in->n_args && 1 + i < region.n_params; i++) {
      bool is = n->values[in->args[2 + i]];
      mark(n, &n->values[region.params[1 + i]], is);
      mark(n, &n->values[in->results[i]], is);
    }
    go_over(n, in->regions[r], in->results, in->n_results,
            loop && region.n_params > in->n_results ? region.params + 1 : NULL, depth + 1);
  }
}

static void memory(nans *n, const tc_kinst *in) {
  tc_kmem_info m;
  if (in->mem < 0 || in->mem >= tc_k_mem_count(n->k)) return; // such a kernel is refused
  tc_k_mem(n->k, in->mem, &m);
  bool global = m.space == TC_SPACE_GLOBAL || m.space == TC_SPACE_TABLE;
  int32_t first = in->op == TC_K_LOAD ? 1 + (in->has_mask != 0) : 1, last = in->n_args;
  if (in->op != TC_K_LOAD) last -= in->has_mask != 0;
  bool others = false;
  for (int32_t i = first; i < last; i++) others |= n->values[in->args[i]];
  if (in->op != TC_K_LOAD) mark(n, &n->mems[in->mem], others);
  for (int32_t i = 0; i < in->n_results; i++) mark(n, &n->values[in->results[i]], global || others || n->mems[in->mem]);
}

static void instruction(nans *n, const tc_kinst *in, int32_t depth) {
  if (in->op == TC_K_LOAD || in->op == TC_K_STORE || in->op == TC_K_ATOMIC_ADD) {
    memory(n, in);
  } else if (in->n_regions > 0) {
    structure(n, in, depth);
  } else if (in->n_results == 1) {
    bool is_f32 = type_of(n, in->results[0]) == TC_F32;
    mark(n, &n->values[in->results[0]], is_f32 ? of_f32(n, in) : of_integers(n, in));
  } else {
    for (int32_t i = 0; i < in->n_results; i++) mark(n, &n->values[in->results[i]], true);
  }
}

// out, carried: what the region yields goes there.
static void go_over(nans *n, int32_t region, const tc_kval *out, int32_t n_out, const tc_kval *carried, int32_t depth) {
  tc_kregion r;
  tc_k_region(n->k, region, &r);
  for (int32_t i = 0; i < r.n_insts && depth < MOST_DEPTH; i++) {
    tc_kinst in;
    tc_k_inst(n->k, r.insts[i], &in);
    if (in.op != TC_K_YIELD) instruction(n, &in, depth);
    for (int32_t j = 0; in.op == TC_K_YIELD && j < n_out && j < in.n_args; j++) {
      bool is = n->values[in.args[j]];
      mark(n, &n->values[out[j]], is);
      if (carried) mark(n, &n->values[carried[j]], is);
    }
  }
}

bool *cg_long_nans(const tc_kernel *k) {
  nans n = {.k = k, .changed = true};
  n.values = calloc((size_t)tc_k_value_count(k) + 1, sizeof *n.values);
  n.mems = calloc((size_t)tc_k_mem_count(k) + 1, sizeof *n.mems);
  while (n.changed && n.values && n.mems) {
    n.changed = false;
    go_over(&n, tc_k_body(k), NULL, 0, NULL, 0);
  }
  if (!n.mems) {
    free(n.values);
    n.values = NULL;
  }
  free(n.mems);
  return n.values;
}
