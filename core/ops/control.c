// Control flow: ops with regions (core/ir/control.h says what they mean). They are no kernels: plans have steps for
// them, the reference engine runs the regions itself. Here: the types of results, and what one is in terms of another.
#include "core/ir/control.h"

#include "core/ops/ops.h"

static int32_t read_control(tc_op_args *a, tc_control *c) {
  return tc_op_keep(a, tc_control_read(a->arena, a->op, a->n_args, a->args, c));
}

static const tc_tensor_type *output_type(tc_op_args *a, const tc_graph *region, int32_t i) {
  const tc_arg *out = &region->outputs.data[i].arg;
  if (out->kind == TC_AK_TENSOR && out->value->kind == TC_VALUE_TENSOR) return &out->value->type;
  tc_op_fail(a, "output %d of the region @" TC_SV_FMT " is no tensor", i, TC_SV_ARG(region->name));
  return NULL;
}

// Do the types go together, so that one may stand where the other is expected? Sizes that differ only at run time are
// required to be equal.
static int32_t agree(tc_op_args *a, const tc_tensor_type *x, const tc_tensor_type *y, const char *what, int32_t i) {
  bool same = x->dtype == y->dtype && x->rank == y->rank;
  for (int32_t d = 0; same && d < x->rank; d++) same = tc_int_eq(a, x->sizes[d], y->sizes[d]) != 0;
  return same ? TC_STATUS_OK : tc_op_fail(a, "%s %d changes its dtype or its sizes", what, i);
}

static int32_t cond_meta(tc_op_args *a) {
  tc_control c;
  if (read_control(a, &c)) return TC_STATUS_INVALID_ARGUMENT;
  int32_t n = c.regions[0]->outputs.count;
  if (tc_op_set_result_count(a, n)) return TC_STATUS_INVALID_ARGUMENT;
  for (int32_t i = 0; i < n; i++) {
    if (c.regions[0]->outputs.data[i].arg.kind == TC_AK_NONE && c.regions[1]->outputs.data[i].arg.kind == TC_AK_NONE) {
      if (tc_op_absent_result(a, i)) return TC_STATUS_INVALID_ARGUMENT;
      continue;
    }
    const tc_tensor_type *x = output_type(a, c.regions[0], i), *y = output_type(a, c.regions[1], i);
    if (!x || !y || agree(a, x, y, "result", i)) return TC_STATUS_INVALID_ARGUMENT;
    if (tc_op_set_result(a, i, x->dtype, x->rank, x->sizes, x->strides)) return TC_STATUS_INVALID_ARGUMENT;
  }
  return TC_STATUS_OK;
}

// Results [0, n): what the region takes there is what it gives, and what comes out in the end.
static int32_t carried_results(tc_op_args *a, const tc_graph *body, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    const tc_tensor_type *out = output_type(a, body, i), *in = &body->inputs.data[i].value->type;
    if (!out || agree(a, in, out, "the carried tensor", i)) return TC_STATUS_INVALID_ARGUMENT;
    if (tc_op_set_result(a, i, in->dtype, in->rank, in->sizes, in->strides)) return TC_STATUS_INVALID_ARGUMENT;
  }
  return TC_STATUS_OK;
}

static int32_t while_meta(tc_op_args *a) {
  tc_control c;
  if (read_control(a, &c)) return TC_STATUS_INVALID_ARGUMENT;
  const tc_tensor_type *go = output_type(a, c.regions[0], 0);
  if (!go) return TC_STATUS_INVALID_ARGUMENT;
  if (go->dtype != TC_BOOL) return tc_op_fail(a, "the condition gives %s, not bool", tc_dtype_name(go->dtype));
  if (tc_op_set_result_count(a, c.n_carry)) return TC_STATUS_INVALID_ARGUMENT;
  return carried_results(a, c.regions[1], c.n_carry);
}

// The number of turns: dimension 0 of what is scanned.
static tc_int length_of(tc_op_args *a, const tc_control *c) {
  tc_int n = NULL;
  for (int32_t i = 0; i < c->n_xs; i++) {
    const tc_tensor_type *x = &c->operands[c->n_carry + i]->type;
    if (x->rank < 1) return tc_op_fail(a, "what is scanned has no dimension"), NULL;
    if (n && tc_int_require_eq(a, n, x->sizes[0])) return NULL;
    if (!n) n = x->sizes[0];
  }
  return n;
}

static int32_t scan_meta(tc_op_args *a) { // map_impl: nothing is carried
  tc_control c;
  if (read_control(a, &c)) return TC_STATUS_INVALID_ARGUMENT;
  const tc_graph *body = c.regions[0];
  tc_int length = length_of(a, &c);
  if (!length || tc_op_set_result_count(a, body->outputs.count) || carried_results(a, body, c.n_carry))
    return TC_STATUS_INVALID_ARGUMENT;
  for (int32_t i = c.n_carry; i < body->outputs.count; i++) {
    const tc_tensor_type *y = output_type(a, body, i);
    tc_int sizes[TC_MAX_RANK];
    if (!y) return TC_STATUS_INVALID_ARGUMENT;
    if (y->rank == TC_MAX_RANK) return tc_op_fail(a, "a result of rank %d cannot be stacked", y->rank);
    sizes[0] = length;
    for (int32_t d = 0; d < y->rank; d++) sizes[d + 1] = y->sizes[d];
    if (tc_op_set_result(a, i, y->dtype, y->rank + 1, sizes, NULL)) return TC_STATUS_INVALID_ARGUMENT;
  }
  return TC_STATUS_OK;
}

static int32_t associative_meta(tc_op_args *a) {
  tc_control c;
  if (read_control(a, &c) || !length_of(a, &c) || tc_op_set_result_count(a, c.n_xs)) return TC_STATUS_INVALID_ARGUMENT;
  for (int32_t i = 0; i < c.n_xs; i++) {
    const tc_tensor_type *x = &c.operands[i]->type, *y = output_type(a, c.regions[0], i);
    tc_int strides[TC_MAX_RANK];
    if (!y) return TC_STATUS_INVALID_ARGUMENT;
    tc_tensor_type slice = {.dtype = x->dtype, .rank = x->rank - 1, .sizes = x->sizes + 1};
    if (agree(a, &slice, y, "the scanned tensor", i)) return TC_STATUS_INVALID_ARGUMENT;
    tc_strides_make_preserve(a->syms, x->rank, x->sizes, x->strides, strides);
    if (tc_op_set_result(a, i, x->dtype, x->rank, x->sizes, strides)) return TC_STATUS_INVALID_ARGUMENT;
  }
  return TC_STATUS_OK;
}

// Requests for gradients. A list of nothing may have come as one of numbers.
static bool is_tensor_list(const tc_arg *g) {
  return g->kind == TC_AK_TENSORS || (g->n == 0 && g->kind != TC_AK_TENSOR);
}
static bool is_differentiable(const tc_value *v) {
  return v && v->kind == TC_VALUE_TENSOR && (tc_dtype_is_float(v->type.dtype) || tc_dtype_is_complex(v->type.dtype));
}

static int32_t check_output(tc_op_args *a, int32_t i, const tc_value *y, const tc_value *ct) {
  if (!is_differentiable(y)) return tc_op_fail(a, "output %d is no tensor of floats", i);
  if (ct && ct->kind == TC_VALUE_TENSOR) return agree(a, &y->type, &ct->type, "the cotangent of output", i);
  bool one = tc_dtype_is_float(y->type.dtype);
  for (int32_t d = 0; one && d < y->type.rank; d++) one = tc_int_eq(a, y->type.sizes[d], tc_int_const(a, 1)) == 1;
  return one && !ct ? TC_STATUS_OK : tc_op_fail(a, "output %d is not one real number: it needs a cotangent", i);
}

static int32_t grad_meta(tc_op_args *a) {
  bool formed = a->n_args == 3;
  for (int32_t i = 0; formed && i < 3; i++) formed = is_tensor_list(&a->args[i]);
  if (!formed) return tc_op_fail(a, "lists of outputs, cotangents and inputs are taken");
  const tc_arg *outputs = &a->args[TC_GRAD_OUTPUTS], *cts = &a->args[TC_GRAD_COTANGENTS],
               *inputs = &a->args[TC_GRAD_INPUTS];
  if (outputs->n < 1 || inputs->n < 1) return tc_op_fail(a, "there is no output, or no input");
  if (cts->n && cts->n != outputs->n) return tc_op_fail(a, "%d cotangents for %d outputs", cts->n, outputs->n);
  for (int32_t i = 0; i < outputs->n; i++)
    if (check_output(a, i, outputs->values[i], cts->n ? cts->values[i] : NULL)) return TC_STATUS_INVALID_ARGUMENT;
  if (tc_op_set_result_count(a, inputs->n)) return TC_STATUS_INVALID_ARGUMENT;
  for (int32_t i = 0; i < inputs->n; i++) {
    const tc_value *x = inputs->values[i];
    if (!is_differentiable(x)) return tc_op_fail(a, "input %d is no tensor of floats", i);
    if (tc_op_set_result(a, i, x->type.dtype, x->type.rank, x->type.sizes, NULL)) return TC_STATUS_INVALID_ARGUMENT;
  }
  return TC_STATUS_OK;
}

// cat(x[:1], ys of a scan that carries y, over x[1:]): the body's results are both what is carried and y.
static int32_t associative_expand(tc_op_args *a) {
  tc_control c;
  if (read_control(a, &c)) return TC_STATUS_INVALID_ARGUMENT;
  tc_gv first[TC_MAX_RANK * 4], rest[TC_MAX_RANK * 4], ys[TC_MAX_RANK * 8];
  int32_t n = c.n_xs, most = (int32_t)(sizeof first / sizeof *first);
  if (n > most) return tc_op_fail(a, "a scan over more than %d tensors", most);
  tc_graph *body = tc_graph_clone(c.regions[0], c.regions[0]->name);
  for (int32_t i = 0; i < n; i++) {
    tc_graph_output again = body->outputs.data[i];
    tc_vec_push(a->arena, &body->outputs, again);
  }
  tc_graph_sweep(body);
  for (int32_t i = 0; i < n; i++) {
    tc_gv x = tc_ex_arg_at(a, 1, i);
    tc_ex_begin(a, "aten::select.int");
    tc_ex_push(a, x), tc_ex_push_int(a, tc_int_const(a, 0)), tc_ex_push_int(a, tc_int_const(a, 0));
    first[i] = tc_ex_make(a, 0, NULL);
    tc_ex_begin(a, "aten::slice.Tensor");
    tc_ex_push(a, x), tc_ex_push_int(a, tc_int_const(a, 0)), tc_ex_push_int(a, tc_int_const(a, 1));
    rest[i] = tc_ex_make(a, 0, NULL);
  }
  tc_ex_begin(a, "higher_order::scan");
  tc_ex_push_graph(a, body);
  tc_ex_push_list(a, n, first), tc_ex_push_list(a, n, rest);
  if (a->n_args > 2) tc_ex_push_arg(a, 2);
  tc_ex_make(a, 2 * n, ys);
  for (int32_t i = 0; i < n; i++) {
    tc_ex_begin(a, "aten::unsqueeze");
    tc_ex_push(a, first[i]), tc_ex_push_int(a, tc_int_const(a, 0));
    tc_gv parts[2] = {tc_ex_make(a, 0, NULL), ys[n + i]};
    tc_ex_begin(a, "aten::cat");
    tc_ex_push_list(a, 2, parts);
    tc_ex_result(a, i, tc_ex_make(a, 0, NULL));
  }
  return TC_STATUS_OK;
}

static const tc_op_def rows[] = {
    {.schema = "higher_order::cond(...) -> ...", .traits = TC_OP_COMPLEX, .meta = cond_meta},
    {.schema = "higher_order::while_loop(...) -> ...", .traits = TC_OP_COMPLEX, .meta = while_meta},
    {.schema = "higher_order::scan(...) -> ...", .traits = TC_OP_COMPLEX, .meta = scan_meta},
    {.schema = "higher_order::map_impl(...) -> ...", .traits = TC_OP_COMPLEX, .meta = scan_meta},
    {.schema = "higher_order::grad(...) -> ...", .traits = TC_OP_COMPLEX, .meta = grad_meta},
    {.schema = "higher_order::associative_scan(...) -> ...",
     .traits = TC_OP_COMPLEX,
     .meta = associative_meta,
     .expand = associative_expand},
};
TC_OP_FAMILY(control);
