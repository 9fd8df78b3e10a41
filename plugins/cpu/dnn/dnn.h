// oneDNN calls: what their files share, and the differences between oneDNN 2.6+ and 3.x, which end here.
//
// A prepared call is a plan: a few primitives (reorders into layouts that the main one wants, the main one, a reorder
// back) over slots, each a memory descriptor and where its bytes lie: an operand, the result, the workspace, or what is
// made of constant operands once and kept.
// Plans are immutable; a run makes its own memory objects, so several threads may run one plan.
#ifndef TC_PLUGINS_CPU_DNN_DNN_H_
#define TC_PLUGINS_CPU_DNN_DNN_H_

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>

#include "tc/plugin.h"

#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t dnn_desc; // a borrowed descriptor
#define DNN_DESC(md) (md)
#else
typedef const dnnl_memory_desc_t *dnn_desc;
#define DNN_DESC(md) (&(md))
#endif

enum { DNN_MAX_DIMS = 6, DNN_MAX_SLOTS = 24, DNN_MAX_STEPS = 8, DNN_MAX_ARGS = 16, DNN_MAX_POST = 8 };
enum { DNN_OPERAND, DNN_RESULT, DNN_WORKSPACE, DNN_KEPT };

typedef struct dnn_slot {
  dnnl_memory_desc_t md;
  bool made;
  int32_t where;
  int64_t at; // OPERAND: number; WORKSPACE, KEPT: offset in bytes
} dnn_slot;

// A matrix [k, n] of bf16, whose columns lie in memory as rows, in blocks of `width` columns (pack.c).
typedef struct dnn_pack {
  int64_t k, n, row, width; // row: elements from one column to the next; width 0: none
} dnn_pack;

typedef struct dnn_step {
  dnnl_primitive_t primitive; // NULL: `pack` from slot 0 to slot 1
  dnn_pack pack;
  bool once; // makes something that is kept
  int32_t n_args;
  int32_t args[DNN_MAX_ARGS], slots[DNN_MAX_ARGS];
} dnn_step;

typedef struct dnn_plan {
  const tc_host *host;
  dnnl_engine_t engine;
  int32_t n_slots, n_steps, threads;
  bool empty;               // the result has no elements
  uint64_t workspace, kept; // bytes
  int32_t n_operands;
  uint64_t constant; // of the node
  dnn_slot slots[DNN_MAX_SLOTS];
  dnn_step steps[DNN_MAX_STEPS];
} dnn_plan;

// A tensor as a primitive sees it.
typedef struct dnn_tensor {
  tc_dtype dtype;
  int32_t rank, operand; // operand -1: the result
  int64_t sizes[DNN_MAX_DIMS], strides[DNN_MAX_DIMS];
} dnn_tensor;

// One question or preparation: the node, the plan that is being made, why it cannot be.
typedef struct dnn_call {
  const tc_host *host;
  const tc_call_node *node;
  dnn_plan *plan;
  bool asking;  // nothing is generated: only whether it could be
  bool unknown; // some size is not known yet
  bool tiles;   // the processor's matrix unit does it
  bool keeping; // what is made now is made of constants, and kept
  bool images;  // matrices are images of one column
  double flops, bytes;
  int32_t status;
  char why[256];
} dnn_call;

int32_t dnn_refuse(dnn_call *c, const char *fmt, ...) __attribute__((format(printf, 2, 3))); // UNIMPLEMENTED
// OK, or a refusal that says what oneDNN thought.
int32_t dnn_check(dnn_call *c, dnnl_status_t s, const char *doing);

// ---- plan.c ----
bool dnn_dtype(tc_dtype d, dnnl_data_type_t *out);
// A view as a tensor; refuses ranks above DNN_MAX_DIMS and other dtypes than the result's. Strides that are not known
// are taken as row-major.
int32_t dnn_view(dnn_call *c, int32_t operand, dnn_tensor *out);
int64_t dnn_count(const dnn_tensor *t);
// A new slot with the tensor's own layout. Returns its number, or -1.
int32_t dnn_slot_of(dnn_call *c, const dnn_tensor *t);
int32_t dnn_slot_like(dnn_call *c, dnn_desc md);              // in the workspace, or kept
bool dnn_is_constant(const dnn_call *c, const dnn_tensor *t); // the same in every run
// A new slot at the place of another one, whose bytes are those of t.
int32_t dnn_slot_seen_as(dnn_call *c, int32_t slot, const dnn_tensor *t);
// A slot that holds what slot `from` holds, in layout md: `from` itself if they are equal, else by a reorder.
int32_t dnn_slot_in_layout(dnn_call *c, int32_t from, dnn_desc md);
int32_t dnn_add_reorder(dnn_call *c, int32_t from, int32_t to);
// dnn_slot_in_layout for a right factor t, which is packed by our own code where that knows the layout.
int32_t dnn_slot_packed(dnn_call *c, int32_t from, const dnn_tensor *t, dnn_desc md);
// Makes `out` a descriptor that leaves the layout to the primitive.
int32_t dnn_any(dnn_call *c, const dnn_tensor *t, dnnl_memory_desc_t *out);
void dnn_md_free(dnnl_memory_desc_t *md);
// Adds the primitive of pd as a step: args and slots as pairs; scratch memory is added here.
dnn_step *dnn_add_step(dnn_call *c, const_dnnl_primitive_desc_t pd, int32_t n, const int32_t *args,
                       const int32_t *slots);
bool dnn_is_reference(const_dnnl_primitive_desc_t pd);
bool dnn_is_image_product(const_dnnl_primitive_desc_t pd); // AVX2's convolution with windows of 1×1
// [m, n] as [1, n, m, 1] with channels last.
void dnn_as_image(dnn_tensor *t);
// Where a plan was, to go on from there when a way of doing it has been refused.
typedef struct dnn_mark {
  int32_t n_slots, n_steps;
  uint64_t workspace, kept;
} dnn_mark;
dnn_mark dnn_mark_of(const dnn_call *c);
void dnn_go_back(dnn_call *c, dnn_mark m);
bool dnn_has_tiles(const_dnnl_primitive_desc_t pd); // by the processor's matrix unit (AMX)

// Attributes with the node's epilogue behind `scale` and `add` (addmm's), for a result of shape `result`. slots[i] is
// the slot that post-operation i reads, or -1.
typedef struct dnn_epilogue {
  dnnl_primitive_attr_t attr;
  int32_t n, slots[DNN_MAX_POST], algs[DNN_MAX_POST]; // algs: of functions, else 0
  double alphas[DNN_MAX_POST];
} dnn_epilogue;
int32_t dnn_epilogue_make(dnn_call *c, const dnn_tensor *result, double scale, int32_t add_operand, dnn_epilogue *out);
void dnn_epilogue_free(dnn_epilogue *e);

// ---- pack.c ----
void dnn_pack_run(const dnn_plan *plan, const dnn_pack *p, const void *from, void *to);

// ---- matmul.c, conv.c: fill c->plan, c->flops, c->bytes ----
int32_t dnn_plan_matmul(dnn_call *c);
int32_t dnn_plan_convolution(dnn_call *c);

// ---- compat.c ----
dnnl_status_t dnn_md_strides(dnnl_memory_desc_t *out, int32_t rank, const int64_t *sizes, dnnl_data_type_t t,
                             const int64_t *strides);
dnnl_status_t dnn_md_tag(dnnl_memory_desc_t *out, int32_t rank, const int64_t *sizes, dnnl_data_type_t t,
                         dnnl_format_tag_t tag);
dnnl_status_t dnn_md_copy(dnnl_memory_desc_t *out, dnn_desc md);
dnnl_status_t dnn_post_eltwise(dnnl_post_ops_t p, dnnl_alg_kind_t alg, double alpha, double beta);
// tiles: code for the processor's matrix unit may be taken.
dnnl_status_t dnn_matmul_desc(dnnl_primitive_desc_t *out, dnnl_engine_t e, dnn_desc src, dnn_desc weights,
                              dnn_desc bias, dnn_desc dst, const_dnnl_primitive_attr_t attr, bool tiles);
typedef struct dnn_conv_dims {
  dnnl_dims_t strides, dilates, pad_left, pad_right;
} dnn_conv_dims;
dnnl_status_t dnn_conv_desc(dnnl_primitive_desc_t *out, dnnl_engine_t e, bool transposed, dnn_desc src,
                            dnn_desc weights, dnn_desc bias, dnn_desc dst, const dnn_conv_dims *d,
                            const_dnnl_primitive_attr_t attr);

#endif
