// Nodes of matrix products with dense factors, as calls are asked about them.
#ifndef TESTS_UNIT_CUDA_PRODUCTS_H_
#define TESTS_UNIT_CUDA_PRODUCTS_H_

#include "tests/unit/cuda/rig.h"

typedef struct row {
  const char *op;
  tc_dtype dtype;
  int32_t rank;
  int64_t a[3], b[3], d[3]; // dense
  int32_t steps[2], n_steps;
  bool taken;
} row;

typedef struct product_node {
  tc_view views[4], out; // factors, addend
  int64_t strides[4][3];
  tc_epilogue steps[2];
  tc_call_node node;
} product_node;

static inline void view_of(tc_view *v, const row *w, const int64_t *sizes, int64_t *strides, tc_handle memory) {
  int64_t stride = 1;
  for (int32_t d = w->rank - 1; d >= 0; d--) strides[d] = stride, stride *= sizes[d];
  *v = (tc_view){.dtype = w->dtype, .rank = w->rank, .sizes = sizes, .strides = strides, .memory = memory};
}

static inline void make(const row *w, tc_handle memory, product_node *p) {
  *p = (product_node){.node = {.struct_size = sizeof p->node, .op = {w->op, strlen(w->op)}, .n_operands = 2}};
  view_of(&p->views[0], w, w->a, p->strides[0], memory), view_of(&p->views[1], w, w->b, p->strides[1], memory);
  view_of(&p->views[2], w, w->d, p->strides[2], memory), view_of(&p->out, w, w->d, p->strides[3], memory);
  for (int32_t i = 0; i < w->n_steps; i++) {
    bool adds = w->steps[i] == TC_EPI_ADD;
    p->steps[i] = (tc_epilogue){.kind = w->steps[i], .operand = adds ? 2 : -1};
    p->node.n_operands += adds;
  }
  p->views[2].offset = 4096, p->out.offset = 8192;
  p->node.operands = p->views, p->node.results = &p->out, p->node.n_results = 1;
  p->node.epilogue = p->steps, p->node.n_epilogue = w->n_steps;
}

#endif
