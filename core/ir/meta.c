// Meta: the types of an op's results from those of its arguments; and nodes, which are made by running it.
//
// Where a row has no meta function, in order: an in-place op runs its functional op's and takes the type of what it
// writes; a pointwise op promotes and broadcasts its Tensor arguments; an op with a decomposition is decomposed in a
// scratch graph.
#include <string.h>

#include "core/ir/internal.h"
#include "core/ir/writes.h"

// ---- describing results ----
static tc_op_result *result_at(tc_op_args *a, int32_t i) {
  if (i >= 0 && i < a->n_results) return &a->results[i];
  tc_op_fail(a, "meta function: there is no result %d of %d", i, a->n_results);
  return NULL;
}

int32_t tc_op_set_result_count(tc_op_args *a, int32_t n) {
  enum { MAX_RESULTS = 1 << 16 };
  if (n < 0 || n > MAX_RESULTS) return tc_op_fail(a, "%d results are too many", n);
  if (n > a->cap_results) {
    tc_op_result *more = TC_NEW_ARRAY(a->arena, tc_op_result, n);
    memcpy(more, a->results, sizeof *more * (size_t)a->cap_results);
    for (int32_t i = a->cap_results; i < n; i++) more[i].view_arg = -1;
    a->results = more, a->cap_results = n;
  }
  a->n_results = n;
  return TC_STATUS_OK;
}

// A size that somebody gives as a number, not one of a tensor: what symbols of tensors' sizes stand for is none.
static bool may_be_negative(tc_sym_ctx *c, const tc_sym *size) {
  int64_t lo, hi;
  if (size->kind != TC_SYM_SYMBOL) return false;
  tc_sym_range(c, size, &lo, &hi);
  return lo < 0;
}

static int32_t set_result(tc_op_args *a, int32_t result, int32_t view_arg, tc_dtype dtype, int32_t rank,
                          const tc_int *sizes, const tc_int *strides, tc_int offset) {
  tc_op_result *r = result_at(a, result);
  if (!r) return TC_STATUS_INVALID_ARGUMENT;
  if (rank < 0 || rank > TC_MAX_RANK)
    return tc_op_fail(a, "a result of rank %d; the largest rank is %d", rank, TC_MAX_RANK);
  if (dtype <= TC_DTYPE_NONE || dtype >= TC_DTYPE_COUNT)
    return tc_failed(&a->failure) ? TC_STATUS_INVALID_ARGUMENT
                                  : tc_op_fail(a, "meta function: result %d has no dtype", result);
  for (int32_t i = 0; i < rank; i++) {
    if (!sizes[i]) return tc_op_fail(a, "meta function: size %d of result %d is missing", i, result);
    if (tc_sym_is_const(sizes[i]) && sizes[i]->value < 0)
      return tc_op_fail(a, "size %d of the result would be %lld", i, (long long)sizes[i]->value);
    if (may_be_negative(a->syms, sizes[i])) {
      tc_int values[] = {tc_sym_int(a->syms, i), sizes[i]}, zero = tc_sym_int(a->syms, 0);
      if (tc_op_require(a, tc_sym_cmp(a->syms, TC_SYM_LE, zero, sizes[i]), "size {} of the result would be {}", 2,
                        values))
        return TC_STATUS_INVALID_ARGUMENT;
    }
  }
  tc_int *own = TC_NEW_ARRAY(a->arena, tc_int, 2 * rank);
  for (int32_t i = 0; i < rank; i++) own[i] = sizes[i];
  if (strides)
    for (int32_t i = 0; i < rank; i++) own[rank + i] = strides[i];
  else tc_strides_make_contiguous(a->syms, rank, sizes, own + rank);
  r->set = true, r->view_arg = view_arg;
  r->type = (tc_tensor_type){.dtype = dtype,
                             .rank = rank,
                             .sizes = own,
                             .strides = own + rank,
                             .offset = offset ? offset : tc_sym_int(a->syms, 0)};
  r->symbol = rank == 0 ? a->next_unbacked : NULL;
  return TC_STATUS_OK;
}

int32_t tc_op_set_result(tc_op_args *a, int32_t result, tc_dtype dtype, int32_t rank, const tc_int *sizes,
                         const tc_int *strides) {
  return set_result(a, result, -1, dtype, rank, sizes, strides, NULL);
}

int32_t tc_op_set_view(tc_op_args *a, int32_t result, int32_t arg, tc_dtype dtype, int32_t rank, const tc_int *sizes,
                       const tc_int *strides, tc_int offset) {
  const tc_tensor_type *src = tc_op_tensor(a, arg);
  if (!src) return tc_op_fail(a, "meta function: result %d is a view of argument %d, which is no tensor", result, arg);
  int32_t code = set_result(a, result, arg, dtype, rank, sizes, strides, offset ? offset : src->offset);
  if (code == TC_STATUS_OK && tc_dtype_is_complex(dtype)) a->results[result].type.conj = src->conj;
  return code;
}

int32_t tc_op_absent_result(tc_op_args *a, int32_t result) {
  tc_op_result *r = result_at(a, result);
  if (!r) return TC_STATUS_INVALID_ARGUMENT;
  *r = (tc_op_result){.set = true, .absent = true, .view_arg = -1};
  return TC_STATUS_OK;
}

int32_t tc_op_set_conj(tc_op_args *a, int32_t result, int32_t conj) {
  tc_op_result *r = result_at(a, result);
  if (!r) return TC_STATUS_INVALID_ARGUMENT;
  r->type.conj = conj;
  return TC_STATUS_OK;
}

tc_int tc_op_unbacked(tc_op_args *a, int64_t lo, int64_t hi) {
  const tc_sym *s = tc_sym_fresh(a->syms, "u", TC_SYM_UNBACKED);
  tc_sym_info *info = tc_sym_info_of(a->syms, s);
  info->lo = lo, info->hi = hi;
  a->next_unbacked = s;
  return s;
}

// ---- shared rules ----
tc_dtype tc_op_promote(tc_op_args *a, int32_t n, const int32_t *args) {
  tc_promotion p = {0};
  for (int32_t i = 0; i < n; i++) {
    if (tc_op_kind(a, args[i]) == TC_AK_TENSORS)
      for (int32_t k = 0; k < tc_op_count(a, args[i]); k++) {
        const tc_tensor_type *t = tc_op_tensor_at(a, args[i], k);
        if (t) tc_promotion_add(&p, t);
      }
    else if (tc_op_tensor(a, args[i])) tc_promotion_add(&p, tc_op_tensor(a, args[i]));
  }
  tc_dtype r = tc_promotion_result(&p);
  if (r != TC_DTYPE_NONE) return r;
  tc_sb sb = tc_sb_make(a->arena);
  for (int32_t i = 0; i < n; i++)
    if (tc_op_tensor(a, args[i])) tc_sb_printf(&sb, "%s%s", sb.size ? " and " : "", tc_op_shape_text(a, args[i]));
  tc_op_fail(a, "no dtype holds the values of %s", sb.size ? sb.text : "its arguments: none is a tensor or a number");
  return TC_DTYPE_NONE;
}

// One dimension of a broadcast; sets *ok false where the sizes cannot agree. Sizes that are not known to agree are
// required to: by their hints one of them is 1, or both are equal.
static tc_int broadcast_dim(tc_op_args *a, tc_int x, tc_int y, bool *ok) {
  tc_int one = tc_sym_int(a->syms, 1);
  if (x == y || y == one) return x;
  if (x == one) return y;
  int32_t equal = tc_int_eq(a, x, y), x1 = tc_int_eq(a, x, one), y1 = tc_int_eq(a, y, one);
  if (equal == 1) return tc_sym_is_const(y) ? y : x;
  if (x1 == 1) return y;
  if (y1 == 1) return x;
  int64_t hx = tc_int_hint(a, x, -1), hy = tc_int_hint(a, y, -1);
  if (x1 < 0 && hx == 1 && hy != 1) return tc_int_require_eq(a, x, one), y;
  if (y1 < 0 && hy == 1 && hx != 1) return tc_int_require_eq(a, y, one), x;
  if (equal == 0) {
    if (x1 < 0) return tc_int_require_eq(a, x, one), y;
    if (y1 < 0) return tc_int_require_eq(a, y, one), x;
    *ok = false;
    return x;
  }
  tc_int_require_eq(a, x, y);
  return tc_sym_is_const(y) ? y : x;
}

const tc_int *tc_op_broadcast(tc_op_args *a, int32_t n, const int32_t *args, int32_t *out_rank) {
  tc_int *sizes = TC_NEW_ARRAY(a->arena, tc_int, TC_MAX_RANK);
  int32_t rank = 0, first = -1;
  for (int32_t i = 0; i < n; i++) {
    const tc_tensor_type *t = tc_op_tensor(a, args[i]);
    if (!t) continue;
    bool ok = true;
    int32_t wide = rank > t->rank ? rank : t->rank;
    tc_int next[TC_MAX_RANK];
    for (int32_t d = 0; d < wide; d++) {
      int32_t mine = d - (wide - rank), its = d - (wide - t->rank);
      next[d] = mine < 0 ? t->sizes[its] : its < 0 ? sizes[mine] : broadcast_dim(a, sizes[mine], t->sizes[its], &ok);
      if (ok) continue;
      tc_sv name = args[i] < a->op->schema.n_args ? a->op->schema.args[args[i]].name : TC_SV("?");
      tc_sv other = first < a->op->schema.n_args ? a->op->schema.args[first].name : TC_SV("?");
      tc_op_fail(a,
                 "the shapes of '" TC_SV_FMT "' (%s) and '" TC_SV_FMT
                 "' (%s) do not broadcast: they differ in dimension %d from the right",
                 TC_SV_ARG(other), tc_op_shape_text(a, first), TC_SV_ARG(name), tc_op_shape_text(a, args[i]), wide - d);
      return NULL;
    }
    if (first < 0 || t->rank >= rank) first = args[i];
    rank = wide;
    memcpy(sizes, next, sizeof *sizes * (size_t)rank);
  }
  *out_rank = rank;
  return sizes;
}

int32_t tc_op_pointwise_result(tc_op_args *a, int32_t result, tc_dtype dtype, int32_t n, const int32_t *args) {
  return tc_op_converted_result(a, result, dtype, TC_DTYPE_NONE, n, args);
}

int32_t tc_op_converted_result(tc_op_args *a, int32_t result, tc_dtype dtype, tc_dtype common, int32_t n,
                               const int32_t *args) {
  enum { MAX_OPERANDS = 16 };
  const tc_tensor_type *operands[MAX_OPERANDS];
  tc_int strides[TC_MAX_RANK];
  int32_t rank;
  if (n > MAX_OPERANDS) return tc_op_fail(a, "a pointwise op of more than %d operands", MAX_OPERANDS);
  const tc_int *sizes = tc_op_broadcast(a, n, args, &rank);
  if (!sizes) return TC_STATUS_INVALID_ARGUMENT;
  for (int32_t i = 0; i < n; i++) {
    operands[i] = tc_op_tensor(a, args[i]);
    if (!operands[i] || common == TC_DTYPE_NONE || operands[i]->dtype == common || operands[i]->rank < 2) continue;
    tc_tensor_type *t = TC_NEW(a->arena, tc_tensor_type);
    tc_int *dense = TC_NEW_ARRAY(a->arena, tc_int, operands[i]->rank);
    *t = *operands[i];
    tc_strides_make_preserve(a->syms, t->rank, t->sizes, t->strides, dense);
    t->strides = dense, operands[i] = t;
  }
  tc_strides_make_pointwise(a->syms, n, operands, rank, sizes, strides);
  return tc_op_set_result(a, result, dtype, rank, sizes, strides);
}

int64_t tc_op_wrap_dim(tc_op_args *a, int64_t dim, int32_t rank) {
  int64_t n = rank > 0 ? rank : 1;
  if (dim >= -n && dim < n) return dim < 0 ? dim + n : dim;
  tc_op_fail(a, "dim %lld is out of range: a tensor of rank %d has dimensions %lld to %lld", (long long)dim, rank,
             (long long)-n, (long long)n - 1);
  return -1;
}

int32_t tc_op_format_result(tc_op_args *a, int32_t result, tc_dtype dtype, int32_t rank, const tc_int *sizes,
                            int32_t format, int32_t arg) {
  tc_int strides[TC_MAX_RANK];
  const tc_tensor_type *src = tc_op_tensor(a, arg);
  bool image = (format == TC_FORMAT_CHANNELS_LAST && rank == 4) || (format == TC_FORMAT_CHANNELS_LAST_3D && rank == 5);
  if (format == TC_FORMAT_PRESERVE && src && src->rank == rank)
    tc_strides_make_preserve(a->syms, rank, sizes, src->strides, strides);
  else if (image) tc_strides_make_channels_last(a->syms, rank, sizes, strides);
  else if (format == TC_FORMAT_CHANNELS_LAST || format == TC_FORMAT_CHANNELS_LAST_3D)
    return tc_op_fail(a, "memory format %s needs a tensor of rank %d, not %d",
                      format == TC_FORMAT_CHANNELS_LAST ? "channels_last" : "channels_last_3d",
                      format == TC_FORMAT_CHANNELS_LAST ? 4 : 5, rank);
  else tc_strides_make_contiguous(a->syms, rank, sizes, strides);
  return tc_op_set_result(a, result, dtype, rank, sizes, strides);
}

// ---- running meta ----
static int32_t pointwise_meta(tc_op_args *a, uint64_t traits) {
  int32_t args[16], n = 0;
  for (int32_t i = 0; i < a->op->schema.n_args && n < 16; i++)
    if (a->op->schema.args[i].type == TC_ST_TENSOR && !a->op->schema.args[i].is_list && tc_op_tensor(a, i))
      args[n++] = i;
  tc_dtype d = tc_op_promote(a, n, args);
  if ((traits & TC_OP_INT_TO_FLOAT) && d != TC_DTYPE_NONE && d < TC_F16) d = TC_F32;
  return tc_op_converted_result(a, 0, traits & TC_OP_COMPUTE_PROMOTED ? TC_BOOL : d, d, n, args);
}

// Is each element of tensor argument `arg` a place of its own? Fails the call if not, unless the op writes one value
// everywhere.
static bool lies_apart(tc_op_args *a, const tc_tensor_type *t, int32_t arg) {
  bool apart = tc_sv_is(a->op->schema.name, "fill_") || tc_sv_is(a->op->schema.name, "zero_");
  for (int32_t d = 0; d < t->rank; d++) apart |= tc_sym_is_int(t->sizes[d], 0);
  for (int32_t d = 0; d < t->rank && !apart; d++) {
    if (!tc_sym_is_int(t->strides[d], 0) || tc_int_require_eq(a, t->sizes[d], tc_sym_int(a->syms, 1)) == TC_STATUS_OK)
      continue;
    tc_op_fail(a,
               "unsupported operation: more than one element of the written-to tensor refers to a single memory "
               "location. Please clone() the tensor before performing the operation: %s",
               tc_op_shape_text(a, arg));
    return false;
  }
  return true;
}

// Can a result of type r be written to tensor argument `arg`? Fails the call if not.
static bool fits_into(tc_op_args *a, const tc_tensor_type *r, const tc_tensor_type *to_type, int32_t arg) {
  bool fits = r->rank == to_type->rank;
  for (int32_t i = 0; fits && i < r->rank; i++)
    fits = tc_int_require_eq(a, r->sizes[i], to_type->sizes[i]) == TC_STATUS_OK;
  if (!fits) {
    tc_sb sb = tc_sb_make(a->arena);
    tc_type_print(&sb, r);
    tc_op_fail(a, "the result %s does not fit into what is written, %s", sb.text, tc_op_shape_text(a, arg));
    return false;
  }
  if (!lies_apart(a, to_type, arg)) return false;
  char from = tc_dtype_class(r->dtype), to = tc_dtype_class(to_type->dtype);
  bool lossy = (from == 'c' && to != 'c') || (from == 'f' && to != 'f' && to != 'c') || (from != 'b' && to == 'b');
  bool own_dtype = tc_sv_is(a->op->schema.name, "copy_") || tc_sv_is(a->op->schema.name, "fill_");
  if (!lossy || own_dtype) return true;
  tc_op_fail(a, "a result of dtype %s cannot be written to a tensor of dtype %s", tc_dtype_name(r->dtype),
             tc_dtype_name(to_type->dtype));
  return false;
}

// What an in-place op writes keeps its type; the functional op's result must fit into it.
static int32_t inplace_result(tc_op_args *a) {
  bool view = tc_op_functional(a->module->ops, a->op)->def->traits & TC_OP_VIEW; // changes how self is seen
  for (int32_t i = 0; i < a->op->schema.n_returns; i++) {
    int32_t written = tc_op_written_argument(a->op, i), arg = written >= 0 ? written : 0;
    const tc_tensor_type *self = tc_op_tensor(a, arg), *r = tc_op_result_type(a, i);
    if (i > 0 && written < 0) continue;
    if (!self || !r)
      return tc_failed(&a->failure) ? TC_STATUS_INVALID_ARGUMENT
                                    : tc_op_fail(a, "an in-place op needs a tensor to write to");
    if (view) return TC_STATUS_OK;
    if (!fits_into(a, r, self, arg)) return TC_STATUS_INVALID_ARGUMENT;
    a->results[i].type = *self;
    a->results[i].view_arg = arg;
  }
  return TC_STATUS_OK;
}

// What is written into arguments keeps their types; the results must fit into them.
static tc_status out_meta(tc_op_args *a) {
  const tc_op *f = a->op->out_of;
  int32_t n = f->schema.n_args;
  tc_op_args own;
  tc_op_args_init(&own, TC_MOMENT_META, a->module, a->graph, f, n, a->args, a->source);
  TC_TRY(tc_op_meta(&own));
  for (int32_t i = 0; i < own.n_results && n + i < a->n_args; i++) {
    const tc_tensor_type *out = tc_op_tensor(a, n + i), *r = &own.results[i].type;
    if (!out) {
      tc_op_fail(a, "a tensor to write to is missing");
      break;
    }
    if (own.results[i].absent || !fits_into(a, r, out, n + i)) break;
    a->results[i].type = *out;
    a->results[i].set = true, a->results[i].view_arg = n + i;
  }
  return TC_OK;
}

// What is written beside the results has a place for each element, too.
static void check_beside(tc_op_args *a) {
  tc_writes w = tc_writes_beside(a->module->ops, a->op, a->n_args, a->args);
  for (int32_t k = 0; k < w.n && !tc_failed(&a->failure); k++)
    lies_apart(a, tc_op_tensor(a, w.written[k].arg), w.written[k].arg);
}

static void take_code(tc_op_args *a, int32_t code) {
  if (code != TC_STATUS_OK && !tc_failed(&a->failure))
    tc_op_keep(
        a, tc_error(code, TC_SV_FMT ": its meta function failed without a reason", TC_SV_ARG(a->called->full_name)));
}

tc_status tc_op_meta(tc_op_args *a) {
  const tc_op *inplace_of = a->op->def->meta && !a->op->functional ? NULL : tc_op_functional(a->module->ops, a->op);
  const tc_op *base = inplace_of ? inplace_of : a->op;
  const tc_op_def *def = base->def;
  a->op = base;
  if (!a->op->out_of && !tc_op_check_real(a, base)) tc_op_check_limits(a, base);
  if (tc_failed(&a->failure)) return tc_op_finish(a);
  if (a->op->out_of) tc_op_keep(a, out_meta(a));
  else if (def->meta) take_code(a, def->meta(a));
  else if (def->traits & TC_OP_POINTWISE) take_code(a, pointwise_meta(a, def->traits));
  else if (base->decompose.n_results || def->expand) tc_op_keep(a, tc_expand_meta(a, base));
  else if (a->op->schema.n_returns > 0) tc_op_fail(a, "the op has neither a meta function nor a decomposition");
  a->op = a->called;
  if (!tc_failed(&a->failure) && inplace_of) take_code(a, inplace_result(a));
  if (!tc_failed(&a->failure) && !inplace_of) check_beside(a);
  for (int32_t i = 0; i < a->n_results && !tc_failed(&a->failure); i++)
    if (!a->results[i].set) tc_op_fail(a, "meta function: result %d is not described", i);
  return tc_op_finish(a);
}

tc_status tc_op_run_meta(tc_graph *g, const tc_op *op, int32_t n_args, const tc_arg *args, tc_sv source, int32_t *out_n,
                         tc_tensor_type **out_types) {
  tc_arg *own;
  tc_op_args a;
  TC_TRY(tc_op_normalize(g->module, op, n_args, args, source, &n_args, &own));
  tc_op_args_init(&a, TC_MOMENT_META, g->module, g, op, n_args, own, source);
  TC_TRY(tc_op_meta(&a));
  *out_n = a.n_results;
  *out_types = TC_NEW_ARRAY(a.arena, tc_tensor_type, a.n_results);
  for (int32_t i = 0; i < a.n_results; i++) (*out_types)[i] = a.results[i].type;
  return TC_OK;
}

// ---- nodes ----
void tc_graph_link(tc_graph *g, tc_node *n, tc_node *before) {
  n->next = before;
  n->prev = before ? before->prev : g->last;
  if (n->prev) n->prev->next = n;
  else g->first = n;
  if (before) before->prev = n;
  else g->last = n;
  n->id = g->n_nodes++;
}

// What kind of value a result is: by the schema for fixed returns; by its dtype where that says Scalar.
static int32_t value_kind(const tc_op *op, int32_t i, const tc_op_result *r) {
  if (r->absent) return TC_VALUE_NONE;
  const tc_schema *s = &op->schema;
  int32_t type = i < s->n_returns && !s->returns[i].is_list ? s->returns[i].type
                 : s->n_returns                             ? s->returns[s->n_returns - 1].type
                                                            : TC_ST_TENSOR;
  switch (type) {
  case TC_ST_INT: return TC_VALUE_SYM;
  case TC_ST_FLOAT: return TC_VALUE_FLOAT;
  case TC_ST_BOOL: return TC_VALUE_BOOL;
  case TC_ST_SCALAR:
    return tc_dtype_class(r->type.dtype) == 'f' ? TC_VALUE_FLOAT
           : r->type.dtype == TC_BOOL           ? TC_VALUE_BOOL
                                                : TC_VALUE_SYM;
  default: return TC_VALUE_TENSOR;
  }
}

static tc_value *new_result(tc_node *n, int32_t i, const tc_op_result *r, tc_sv name) {
  int32_t kind = value_kind(n->op, i, r);
  tc_sym_ctx *c = n->graph->module->syms;
  const tc_sym *symbol = kind != TC_VALUE_SYM ? NULL : r->symbol ? r->symbol : tc_sym_fresh(c, "u", TC_SYM_UNBACKED);
  tc_value *v = tc_graph_new_value(n->graph, kind, name, kind == TC_VALUE_TENSOR ? &r->type : NULL, symbol);
  v->def = n, v->def_index = i, v->view_arg = r->view_arg, v->view_item = r->view_item;
  return v;
}

// The node, with what it gives in the args' results.
static tc_node *make_node(tc_op_args *a, tc_node *before, tc_sv name) {
  tc_graph *g = a->graph;
  tc_arena *arena = g->module->arena;
  const tc_op *op = a->op;
  tc_node *n = TC_NEW(arena, tc_node);
  *n = (tc_node){.op = op,
                 .graph = g,
                 .n_args = a->n_args,
                 .args = (tc_arg *)(uintptr_t)a->args,
                 .n_results = a->n_results,
                 .inplace = -1,
                 .source = tc_sv_copy(arena, a->source)};
  if (tc_node_draws(n) && !g->scratch) {
    n->stream = g->module->random_nodes + 1;
    g->module->random_nodes += tc_node_streams(n);
  }
  if (!name.size) name = op->schema.name;
  n->name = tc_sv_copy(arena, name);
  n->results = TC_NEW_ARRAY(arena, tc_value *, a->n_results);
  for (int32_t i = 0; i < a->n_results; i++) {
    tc_sv result = a->n_results == 1 ? name : tc_sv_printf(arena, TC_SV_FMT "_%d", TC_SV_ARG(name), i);
    n->results[i] = new_result(n, i, &a->results[i], result);
  }
  tc_graph_link(g, n, before);
  return n;
}

tc_status tc_graph_add_node(tc_graph *g, tc_node *before, const tc_op *op, int32_t n_args, const tc_arg *args,
                            tc_sv name, tc_sv source, tc_node **out) {
  tc_op_args a;
  tc_arg *own;
  if (out) *out = NULL;
  TC_TRY(tc_op_normalize(g->module, op, n_args, args, source, &n_args, &own));
  tc_op_args_init(&a, TC_MOMENT_META, g->module, g, op, n_args, own, source);
  TC_TRY(tc_op_meta(&a));
  tc_node *n = make_node(&a, before, name);
  if (out) *out = n;
  return TC_OK;
}

tc_status tc_graph_add_declared_node(tc_graph *g, const tc_op *op, int32_t n_args, const tc_arg *args,
                                     int32_t n_results, const tc_declared_result *results, tc_sv name, tc_sv source,
                                     tc_node **out) {
  tc_op_args a;
  tc_arg *own;
  TC_TRY(tc_op_normalize(g->module, op, n_args, args, source, &n_args, &own));
  tc_op_args_init(&a, TC_MOMENT_META, g->module, g, op, n_args, own, source);
  a.results = TC_NEW_ARRAY(g->module->arena, tc_op_result, n_results);
  a.n_results = a.cap_results = n_results;
  for (int32_t i = 0; i < n_results; i++)
    a.results[i] = (tc_op_result){.set = true, .view_arg = -1, .type = results[i].type, .symbol = results[i].symbol};
  *out = make_node(&a, NULL, name);
  for (int32_t i = 0; i < n_results; i++) // whatever its schema says of them
    (*out)->results[i]->kind = results[i].kind, (*out)->results[i]->symbol = results[i].symbol;
  return TC_OK;
}
