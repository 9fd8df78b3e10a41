// Views forwards and backwards: making a view again of a new base, and the base that results when something is written
// through a view. The inverse of each view is known by its op; a view that is only described by its strides is undone
// by strided_put on the whole storage (as_strided_scatter where that is not row-major).
#include "core/ir/opargs.h"
#include "core/passes/functionalize.h"

typedef struct write_through {
  const tc_build *b;
  const tc_node *view;
  int32_t result;
  tc_value *base, *part;
  tc_tensor_type base_type; // of the view's own base, as the model had it
} write_through;

static tc_sym_ctx *syms(const tc_build *b) { return b->graph->module->syms; }
static tc_arg number(const write_through *w, int64_t v) { return tc_arg_sym(tc_sym_int(syms(w->b), v)); }

static tc_status call(const tc_build *b, const char *op, int32_t n, const tc_arg *args, tc_value **out) {
  tc_arg v;
  TC_TRY(tc_build_call(b, tc_sv_of(op), n, args, NULL, &v));
  if (v.kind != TC_AK_TENSOR) return tc_error(TC_STATUS_INTERNAL, "%s gives no tensor", op);
  *out = v.value;
  return TC_OK;
}

static int64_t const_arg(const tc_node *n, int32_t i, int64_t otherwise) {
  if (i >= n->n_args) return otherwise;
  return n->args[i].kind == TC_AK_INT && tc_sym_is_const(n->args[i].sym) ? n->args[i].sym->value : otherwise;
}

static int32_t wrap(int64_t dim, int32_t rank) { return (int32_t)(dim < 0 ? dim + rank : dim); }

// The dimension argument of split, unbind, chunk…: the one named dim; hsplit, vsplit and dsplit have theirs in the
// name.
static int32_t dim_arg(const tc_node *n) {
  if (tc_node_is(n, "hsplit")) return n->args[0].value->type.rank > 1;
  if (tc_node_is(n, "dsplit")) return 2;
  for (int32_t i = 0; i < n->op->schema.n_args; i++)
    if (tc_sv_is(n->op->schema.args[i].name, "dim")) return wrap(const_arg(n, i, 0), n->args[0].value->type.rank);
  return 0;
}

// An index as a slice has it: from the end if negative, clamped to the size.
static const tc_sym *clamped(tc_sym_ctx *s, const tc_sym *at, const tc_sym *size) {
  if (tc_sym_is_const(at) && at->value < 0) at = tc_sym_max(s, tc_sym_add(s, at, size), tc_sym_int(s, 0));
  return tc_sym_min(s, at, size);
}

// Where result i of a split begins: where it is cut, if by indices (such pieces may overlap), or after those before it.
static const tc_sym *split_start(const tc_build *b, const tc_node *n, int32_t i, int32_t dim) {
  bool cut =
      tc_node_is(n, "tensor_split") || tc_node_is(n, "hsplit") || tc_node_is(n, "vsplit") || tc_node_is(n, "dsplit");
  if (cut && n->op->schema.args[1].is_list && i)
    return clamped(syms(b), n->args[1].syms[i - 1], n->args[0].value->type.sizes[dim]);
  const tc_sym *at = tc_sym_int(syms(b), 0);
  for (int32_t k = 0; k < i; k++) at = tc_sym_add(syms(b), at, n->results[k]->type.sizes[dim]);
  return at;
}

// ---- backwards ----
static tc_status same(write_through *w, tc_value **out) { return *out = w->part, TC_OK; }

static tc_status reshape(write_through *w, tc_value **out) {
  return call(w->b, "aten::reshape", 2,
              (tc_arg[]){tc_arg_tensor(w->part), tc_arg_syms(w->base_type.sizes, w->base_type.rank)}, out);
}

// unsqueeze and squeeze are undone by each other, which keeps strides.
static tc_status squeeze_back(write_through *w, tc_value **out) {
  int64_t dim = const_arg(w->view, 1, 0);
  if (dim < 0) dim += w->base_type.rank + 1;
  return call(w->b, "aten::squeeze.dim", 2, (tc_arg[]){tc_arg_tensor(w->part), number(w, dim)}, out);
}

static tc_status unsqueeze_back(write_through *w, tc_value **out) {
  const tc_tensor_type *t = &w->view->results[0]->type;
  int32_t kept = 0;
  *out = w->part;
  for (int32_t d = 0; d < w->base_type.rank; d++) {
    // dimensions of size 1 are gone unless the view, at this place, still has one
    int32_t left_base = w->base_type.rank - d, left_view = t->rank - kept;
    bool gone = tc_sym_is_int(w->base_type.sizes[d], 1) && left_base > left_view &&
                !(kept < t->rank && tc_sym_is_int(t->sizes[kept], 1));
    if (gone) TC_TRY(call(w->b, "aten::unsqueeze", 2, (tc_arg[]){tc_arg_tensor(*out), number(w, d)}, out));
    else kept++;
  }
  return (*out)->type.rank == w->base_type.rank ? TC_OK : reshape(w, out);
}

static tc_status permute(write_through *w, tc_value **out) {
  int32_t rank = w->base_type.rank;
  const tc_sym **inverse = TC_NEW_ARRAY(w->b->graph->module->arena, const tc_sym *, rank);
  const tc_arg *dims = &w->view->args[1];
  for (int32_t i = 0; i < rank; i++) inverse[wrap(dims->syms[i]->value, rank)] = tc_sym_int(syms(w->b), i);
  return call(w->b, "aten::permute", 2, (tc_arg[]){tc_arg_tensor(w->part), tc_arg_syms(inverse, rank)}, out);
}

static tc_status transpose(write_through *w, tc_value **out) {
  return call(w->b, "aten::transpose.int", 3, (tc_arg[]){tc_arg_tensor(w->part), w->view->args[1], w->view->args[2]},
              out);
}

static tc_status transpose_last(write_through *w, tc_value **out) {
  if (w->base_type.rank < 2) return *out = w->part, TC_OK;
  return call(w->b, "aten::transpose.int", 3, (tc_arg[]){tc_arg_tensor(w->part), number(w, -2), number(w, -1)}, out);
}

static bool known(const write_through *w, const char *op) { return tc_op_find(w->b->graph->module->ops, tc_sv_of(op)); }

// `part` in place of [start, start + length) of dimension dim, as a concatenation: for registries without the scatter
// ops.
static tc_status join_around(write_through *w, int32_t dim, const tc_sym *start, tc_value *part, tc_value **out) {
  const tc_sym *end = tc_sym_add(syms(w->b), start, part->type.sizes[dim]);
  tc_value *parts[3] = {[1] = part};
  tc_arg base = tc_arg_tensor(w->base), d = number(w, dim), one = number(w, 1), zero = number(w, 0);
  TC_TRY(call(w->b, "aten::slice.Tensor", 5, (tc_arg[]){base, d, zero, tc_arg_sym(start), one}, &parts[0]));
  TC_TRY(
      call(w->b, "aten::slice.Tensor", 5, (tc_arg[]){base, d, tc_arg_sym(end), number(w, INT64_MAX), one}, &parts[2]));
  tc_value **list = tc_arena_copy(w->b->graph->module->arena, parts, sizeof parts);
  return call(w->b, "aten::cat", 2, (tc_arg[]){tc_arg_tensors(list, 3), d}, out);
}

// An argument that is an index; left out, it is the first.
static const tc_sym *index_of(const write_through *w, const tc_arg *g) {
  return g->kind == TC_AK_INT ? g->sym : tc_sym_int(syms(w->b), 0);
}

static tc_status select_at(write_through *w, int32_t dim, tc_arg index, tc_value **out) {
  if (known(w, "aten::select_scatter"))
    return call(w->b, "aten::select_scatter", 4,
                (tc_arg[]){tc_arg_tensor(w->base), tc_arg_tensor(w->part), number(w, dim), index}, out);
  tc_value *part;
  TC_TRY(call(w->b, "aten::unsqueeze", 2, (tc_arg[]){tc_arg_tensor(w->part), number(w, dim)}, &part));
  return join_around(w, dim, clamped(syms(w->b), index_of(w, &index), w->base_type.sizes[dim]), part, out);
}

static tc_status select(write_through *w, tc_value **out) {
  return select_at(w, wrap(const_arg(w->view, 1, 0), w->base_type.rank), w->view->args[2], out);
}

static tc_status slice(write_through *w, tc_value **out) {
  int32_t dim = wrap(const_arg(w->view, 1, 0), w->base_type.rank);
  if (!known(w, "aten::slice_scatter") && const_arg(w->view, 4, 0) == 1)
    return join_around(w, dim, clamped(syms(w->b), index_of(w, &w->view->args[2]), w->base_type.sizes[dim]), w->part,
                       out);
  tc_arg args[6] = {tc_arg_tensor(w->base), tc_arg_tensor(w->part)};
  for (int32_t i = 1; i < 5; i++) args[i + 1] = w->view->args[i];
  return call(w->b, "aten::slice_scatter", 6, args, out);
}

static tc_status slice_between(write_through *w, int32_t dim, const tc_sym *start, const tc_sym *length,
                               tc_value **out) {
  if (!known(w, "aten::slice_scatter")) return join_around(w, dim, start, w->part, out);
  return call(w->b, "aten::slice_scatter", 6,
              (tc_arg[]){tc_arg_tensor(w->base), tc_arg_tensor(w->part), number(w, dim), tc_arg_sym(start),
                         tc_arg_sym(tc_sym_add(syms(w->b), start, length)), number(w, 1)},
              out);
}

static tc_status narrow(write_through *w, tc_value **out) {
  int32_t dim = wrap(const_arg(w->view, 1, 0), w->base_type.rank);
  const tc_sym *start = w->view->args[2].kind == TC_AK_INT ? w->view->args[2].sym : NULL;
  if (!start) return tc_error(TC_STATUS_UNIMPLEMENTED, "a write through a view whose place comes from data");
  if (tc_sym_is_const(start) && start->value < 0) start = tc_sym_add(syms(w->b), start, w->base_type.sizes[dim]);
  return slice_between(w, dim, start, w->view->args[3].sym, out);
}

static tc_status unbind(write_through *w, tc_value **out) {
  return select_at(w, dim_arg(w->view), number(w, w->result), out);
}

static tc_status split(write_through *w, tc_value **out) {
  int32_t dim = dim_arg(w->view);
  return slice_between(w, dim, split_start(w->b, w->view, w->result, dim), w->view->results[w->result]->type.sizes[dim],
                       out);
}

static tc_status diagonal(write_through *w, tc_value **out) {
  return call(
      w->b, "aten::diagonal_scatter", 5,
      (tc_arg[]){tc_arg_tensor(w->base), tc_arg_tensor(w->part), w->view->args[1], w->view->args[2], w->view->args[3]},
      out);
}

// What is written to elements that are one place is the same value (core/ir/meta.c): the first stands for all.
static tc_status expand(write_through *w, tc_value **out) {
  const tc_tensor_type *t = &w->view->results[0]->type;
  for (int32_t i = 0; i < t->rank; i++) {
    int32_t k = i - (t->rank - w->base_type.rank);
    const tc_sym *base = k < 0 ? tc_sym_int(syms(w->b), 1) : w->base_type.sizes[k];
    if (tc_sym_eq(syms(w->b), base, t->sizes[i])) continue;
    if (tc_sym_is_int(t->sizes[i], 0)) return *out = w->base, TC_OK;
    TC_TRY(call(w->b, "aten::slice.Tensor", 5,
                (tc_arg[]){tc_arg_tensor(w->part), number(w, i), number(w, 0), number(w, 1), number(w, 1)}, &w->part));
  }
  return reshape(w, out);
}

static tc_status as_real(write_through *w, tc_value **out) {
  return call(w->b, "aten::view_as_complex", 1, (tc_arg[]){tc_arg_tensor(w->part)}, out);
}
static tc_status as_complex(write_through *w, tc_value **out) {
  return call(w->b, "aten::view_as_real", 1, (tc_arg[]){tc_arg_tensor(w->part)}, out);
}

static tc_status real(write_through *w, tc_value **out) {
  if (!tc_dtype_is_complex(w->base_type.dtype)) return same(w, out);
  tc_value *imag;
  TC_TRY(call(w->b, "aten::imag", 1, (tc_arg[]){tc_arg_tensor(w->base)}, &imag));
  return call(w->b, "aten::complex", 2, (tc_arg[]){tc_arg_tensor(w->part), tc_arg_tensor(imag)}, out);
}

static tc_status imag(write_through *w, tc_value **out) {
  tc_value *re;
  TC_TRY(call(w->b, "aten::real", 1, (tc_arg[]){tc_arg_tensor(w->base)}, &re));
  return call(w->b, "aten::complex", 2, (tc_arg[]){tc_arg_tensor(re), tc_arg_tensor(w->part)}, out);
}

static tc_status conjugate(write_through *w, tc_value **out) {
  if (!tc_dtype_is_complex(w->base_type.dtype)) return same(w, out);
  TC_TRY(call(w->b, "aten::_conj", 1, (tc_arg[]){tc_arg_tensor(w->part)}, out));
  return (*out)->type.conj == w->base_type.conj
             ? TC_OK
             : call(w->b, "aten::resolve_conj", 1, (tc_arg[]){tc_arg_tensor(*out)}, out);
}

static tc_status hermitian(write_through *w, tc_value **out) {
  TC_TRY(transpose_last(w, &w->part));
  return conjugate(w, out);
}

static tc_status negate(write_through *w, tc_value **out) {
  return call(w->b, "aten::neg", 1, (tc_arg[]){tc_arg_tensor(w->part)}, out);
}

static const struct {
  const char *name;
  tc_status (*write)(write_through *w, tc_value **out);
} inverses[] = {{"alias", same},
                {"detach", same},
                {"lift_fresh", same},
                {"to", same},
                {"contiguous", same},
                {"resolve_conj", same},
                {"resolve_neg", same},
                {"type_as", same},
                {"view", reshape},
                {"_unsafe_view", reshape},
                {"reshape", reshape},
                {"view_as", reshape},
                {"reshape_as", reshape},
                {"flatten", reshape},
                {"unflatten", reshape},
                {"unsqueeze", squeeze_back},
                {"squeeze", unsqueeze_back},
                {"_reshape_alias", reshape},
                {"ravel", reshape},
                {"atleast_1d", reshape},
                {"atleast_2d", reshape},
                {"permute", permute},
                {"transpose", transpose},
                {"swapaxes", transpose},
                {"swapdims", transpose},
                {"t", transpose_last},
                {"mT", transpose_last},
                {"select", select},
                {"slice", slice},
                {"narrow", narrow},
                {"unbind", unbind},
                {"split", split},
                {"split_with_sizes", split},
                {"chunk", split},
                {"unsafe_split", split},
                {"unsafe_split_with_sizes", split},
                {"unsafe_chunk", split},
                {"tensor_split", split},
                {"hsplit", split},
                {"vsplit", split},
                {"dsplit", split},
                {"diagonal", diagonal},
                {"expand", expand},
                {"expand_as", expand},
                {"view_as_real", as_real},
                {"view_as_complex", as_complex},
                {"real", real},
                {"imag", imag},
                {"_conj", conjugate},
                {"conj", conjugate},
                {"mH", hermitian},
                {"matrix_H", hermitian},
                {"adjoint", hermitian},
                {"_neg_view", negate}};

tc_status tc_view_write(const tc_build *b, const tc_node *view, int32_t i, tc_value *base, tc_value *root,
                        const tc_tensor_type *root_type, const tc_tensor_type *t, tc_value *part, bool *out_of_root,
                        tc_value **out) {
  const tc_value *seen = view->results[i];
  write_through w = {.b = b,
                     .view = view,
                     .result = i,
                     .base = base,
                     .part = part,
                     .base_type = view->args[seen->view_arg].value->type};
  *out_of_root = false;
  if (tc_node_is(view, "view") && seen->type.dtype != w.base_type.dtype) // view.dtype: the same bits
    return call(b, "aten::view.dtype", 2, (tc_arg[]){tc_arg_tensor(part), tc_arg_dtype(w.base_type.dtype)}, out);
  const tc_op *plain = tc_op_functional(b->graph->module->ops, view->op); // conj_ shows the same as conj
  tc_sv name = plain ? plain->schema.name : view->op->schema.name;
  for (size_t k = 0; k < sizeof inverses / sizeof *inverses && tc_sv_is(view->op->schema.ns, "aten"); k++)
    if (tc_sv_is(name, inverses[k].name)) return inverses[k].write(&w, out);
  if (t->dtype != root_type->dtype || t->conj || root_type->conj)
    return tc_error(TC_STATUS_UNIMPLEMENTED, "a write through the view " TC_SV_FMT " of another dtype",
                    TC_SV_ARG(view->op->full_name));
  tc_value *whole;
  TC_TRY(tc_match_gaps(b, root, root_type, &whole)); // places count by the storage's strides
  *out_of_root = true;
  const tc_sym *offset = tc_sym_add(syms(b), t->offset, tc_sym_sub(syms(b), whole->type.offset, root_type->offset));
  bool rows = tc_strides_contiguous(syms(b), root_type->rank, root_type->sizes, root_type->strides) &&
              tc_sym_is_int(whole->type.offset, 0) && tc_op_find(b->graph->module->ops, TC_SV("tc::strided_put"));
  return call(b, rows ? "tc::strided_put" : "aten::as_strided_scatter", 5,
              (tc_arg[]){tc_arg_tensor(whole), tc_arg_tensor(part), tc_arg_syms(t->sizes, t->rank),
                         tc_arg_syms(t->strides, t->rank), tc_arg_sym(offset)},
              out);
}

// ---- forwards ----
tc_status tc_view_count_from(const tc_build *b, const tc_node *view, const tc_tensor_type *was,
                             const tc_tensor_type *now, tc_arg *args) {
  for (int32_t i = 1; i < view->n_args; i++) {
    if (!tc_sv_is(view->op->schema.args[i].name, "storage_offset") || args[i].kind != TC_AK_INT) continue;
    const tc_sym *at = tc_sym_add(syms(b), args[i].sym, tc_sym_sub(syms(b), now->offset, was->offset));
    if (tc_sym_is_const(at) && at->value < 0)
      return tc_error(TC_STATUS_UNIMPLEMENTED, TC_SV_FMT " of what lies in front of a tensor that is written to",
                      TC_SV_ARG(view->op->full_name));
    args[i] = tc_arg_sym(at);
  }
  return TC_OK;
}

tc_status tc_view_again(const tc_build *b, const tc_node *view, int32_t i, tc_value *base, tc_value **out) {
  int32_t k = view->results[i]->view_arg;
  const tc_tensor_type *was = &view->args[k].value->type;
  if (view->n_results > 1) { // one part of several
    int32_t dim = dim_arg(view);
    if (tc_node_is(view, "unbind"))
      return call(
          b, "aten::select.int", 3,
          (tc_arg[]){tc_arg_tensor(base), tc_arg_sym(tc_sym_int(syms(b), dim)), tc_arg_sym(tc_sym_int(syms(b), i))},
          out);
    const tc_sym *start = split_start(b, view, i, dim);
    return call(b, "aten::slice.Tensor", 5,
                (tc_arg[]){tc_arg_tensor(base), tc_arg_sym(tc_sym_int(syms(b), dim)), tc_arg_sym(start),
                           tc_arg_sym(tc_sym_add(syms(b), start, view->results[i]->type.sizes[dim])),
                           tc_arg_sym(tc_sym_int(syms(b), 1))},
                out);
  }
  if (tc_counts_in_storage(view)) TC_TRY(tc_match_gaps(b, base, was, &base));
  else if (view->op->def->traits & TC_OP_VIEW) TC_TRY(tc_match_layout(b, base, was, &base)); // it may need the strides
  if (tc_node_is(view, "view") &&
      base->type.dtype == view->results[i]->type.dtype) { // never fails, whatever the strides
    const tc_tensor_type *t = &view->results[i]->type;
    return call(b, "aten::reshape", 2, (tc_arg[]){tc_arg_tensor(base), tc_arg_syms(t->sizes, t->rank)}, out);
  }
  tc_arg *args = tc_arena_copy(b->graph->module->arena, view->args, sizeof *args * (size_t)view->n_args);
  args[k] = tc_arg_tensor(base);
  TC_TRY(tc_view_count_from(b, view, was, &base->type, args));
  const tc_op *functional = tc_op_functional(b->graph->module->ops, view->op);
  tc_node *n;
  TC_TRY(tc_graph_add_node(b->graph, b->before, functional ? functional : view->op, view->n_args, args,
                           view->results[i]->name, b->source, &n));
  *out = n->results[i];
  return TC_OK;
}
