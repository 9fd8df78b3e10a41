// State of one lowering: what stands behind the tc_lo_* functions of tc/lower.h.
#ifndef TC_CORE_LOOP_LO_H_
#define TC_CORE_LOOP_LO_H_

#include "core/ir/opargs.h"
#include "core/loop/loop.h"
#include "core/loop/template.h"

typedef struct tc_lo {
  tc_loops *l;
  const tc_lower_options *options;
  tc_map *values;                 // tc_value * → tc_lview *
  TC_VEC(const tc_lview *) views; // by tc_lt
  const tc_node *node;            // being lowered
  // The open loop node.
  bool open;
  tc_lnode *cur;
  // Results of the node being lowered, by result number.
  const tc_lview **results;
  tc_failure failure; // the first one
} tc_lo;

// The lowering behind an args object (set by the driver).
tc_lo *tc_lo_of(tc_op_args *a);
int32_t tc_lo_add_view(tc_lo *lo, const tc_lview *v);
void tc_lo_fail(tc_lo *lo, const char *fmt, ...) TC_PRINTF(2, 3);
// A view that is the whole buffer.
const tc_lview *tc_lview_whole(tc_loops *l, const tc_buf *b);
const tc_sym *tc_loop_var(tc_loops *l, const char *prefix, const tc_sym *extent);
void tc_loop_var_range(tc_loops *l, const tc_sym *var, const tc_sym *extent); // makes a symbol run over 0 … extent - 1

// What tc_lo_* of tc/lower.h do here (build.c, lower.c); core/ir forwards to them through the hooks.
extern const tc_lower_hooks tc_lo_hooks;
tc_lt lo_arg(tc_op_args *a, int32_t arg);
tc_lt lo_arg_at(tc_op_args *a, int32_t arg, int32_t k);
void lo_result(tc_op_args *a, int32_t result, tc_lt t);
tc_lt lo_expand(tc_op_args *a, tc_lt src, int32_t rank, const tc_int *sizes);
void lo_begin(tc_op_args *a, int32_t rank, const tc_int *sizes, tc_int *out_index);
tc_bval lo_load(tc_op_args *a, tc_lt t, const tc_int *index);
tc_bval lo_index(tc_op_args *a, tc_int e, tc_dtype dtype);
tc_lt lo_end(tc_op_args *a, tc_bval value, tc_dtype dtype);
void lo_call(tc_op_args *a);
void lo_random(tc_op_args *a, tc_int element, tc_bval out[4]);

// What lowering the graph shares with lowering control flow (lower.c).
const tc_lview *lo_value(tc_lo *lo, const tc_value *v); // NULL after a failure
// The strides with which a buffer has the wanted ones when seen through this view. NULL: the view is no permutation of
// its dimensions and of parts of them.
const tc_sym *const *lo_strides_behind(tc_loops *l, const tc_lview *v, const tc_sym *const *want);
// A fresh buffer with the strides of the type, filled by a pointwise copy; NULL after a failure.
// The value as a view that is affine in memory: as it lies, or copied. Affine means that its buffer's strides, once
// they are settled, give it strides and an offset.
tc_status lo_affine(tc_lo *lo, tc_value *value, tc_lview *out);
const tc_lview *lo_copy_out(tc_lo *lo, const tc_lview *v, const tc_tensor_type *t, tc_sv name);
// The buffer whose storage the node being lowered may take over (its mark, and what this graph writes back), or NULL.
const tc_buf *lo_in_place_of(tc_lo *lo);
void lo_take_storage(tc_buf *b, const tc_buf *old); // b is in place of old from now on
// The value in a layout with the strides of `want`: of an element of what is scanned, else of the whole (control.c).
tc_status lo_laid_out(tc_lo *lo, tc_value *value, const tc_tensor_type *want, bool scanned, tc_lview *out);
tc_status lo_user(tc_lo *lo, tc_node *n); // an op with a kernel by hand becomes a call (user.c)
// A node with regions becomes a call (control.c).
tc_status lo_control(tc_lo *lo, tc_node *n);
// A call of the node being lowered: operands as given, a buffer per tensor result with the strides of its type.
void lo_call_with(tc_lo *lo, int32_t n, const tc_lview *operands);

// Demanded ranges (demand.c): may a node make the first elements of its dimensions only? It is then cut to `need` of
// each (TC_SYM_INF: all).
bool lo_may_be_cut(const tc_lnode *n);
void lo_cut(tc_loops *l, tc_lnode *n, const int64_t *need);

// Body building on the open node.
int32_t tc_body_const(tc_lo *lo, tc_dtype d, double re, double im, int64_t imm);
int32_t tc_body_op(tc_lo *lo, int32_t op, int32_t n, const int32_t *args);
int32_t tc_body_cast(tc_lo *lo, int32_t v, tc_dtype d);
int32_t tc_body_bits(tc_lo *lo, int32_t v); // of a float, as a signed integer of its size
tc_dtype tc_body_type(const tc_lo *lo, int32_t v);

// Names of a scalar text: body values, or `none`.
typedef struct tc_scalar_name {
  tc_sv name;
  int32_t value; // -1: none
} tc_scalar_name;
// Evaluates a parsed scalar expression; arithmetic is done in `compute`.
int32_t tc_body_text(tc_lo *lo, const tc_ex *e, tc_dtype compute, const tc_ex_program *p, const tc_scalar_name *names,
                     int32_t n);

#endif
