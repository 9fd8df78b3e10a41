// One op of the reference engine: its arguments as tc_op_args of the moment REF, then the row's reference.
//
// A pointwise row's scalar functions are applied elementwise to the broadcast arguments, in the widest class among the
// result and the arguments (bool and integers, floats, complex). They get the Tensor and number arguments in the order
// of the schema; arguments behind the function's arity must have their default value.
#include <math.h>
#include <string.h>

#include "core/ir/refexec_internal.h"

enum { MAX_SCALAR_ARGS = 3 };

typedef struct ref_frame {
  ref_run *run;
  uint64_t stream;
  ref_tensor *args;   // resolved tensors by argument; buffer NULL: none
  ref_tensor **elems; // by argument of kind TENSORS
  tc_ref_view *views, **elem_views;
  ref_tensor *results; // row-major, wide
  tc_ref_view *result_views;
  TC_VEC(void *) scratch;
} ref_frame;

tc_status ref_eval(ref_run *r, const tc_sym *e, int64_t *out) {
  if (tc_sym_is_const(e)) return *out = e->value, TC_OK;
  return tc_sym_eval(e, r->symbols, out);
}

bool tc_op_ref_rounds(const tc_op_args *a) { return !((const ref_frame *)a->state)->run->options->wide; }

// ---- data hooks ----
static tc_ref_view view_of(ref_frame *f, const ref_tensor *t) {
  int64_t *dims = TC_NEW_ARRAY(f->run->arena, int64_t, 2 * t->rank);
  memcpy(dims, t->sizes, sizeof *dims * (size_t)t->rank);
  memcpy(dims + t->rank, t->strides, sizeof *dims * (size_t)t->rank);
  char *data = t->buffer->data;
  return (tc_ref_view){.dtype = t->wide,
                       .rank = t->rank,
                       .sizes = dims,
                       .strides = dims + t->rank,
                       .data = data + t->offset * (t->wide == TC_C128 ? 16 : 8),
                       .nominal = t->nominal};
}

static const tc_ref_view *hook_data(const tc_op_args *a, int32_t arg, int32_t k) {
  ref_frame *f = a->state;
  if (arg < 0 || arg >= a->n_args) return NULL;
  if (a->args[arg].kind == TC_AK_TENSORS)
    return k >= 0 && k < a->args[arg].n && f->elems[arg][k].buffer ? &f->elem_views[arg][k] : NULL;
  return k <= 0 && f->args[arg].buffer ? &f->views[arg] : NULL;
}

static const tc_ref_view *hook_alloc(tc_op_args *a, int32_t result, int32_t rank, const int64_t *sizes) {
  ref_frame *f = a->state;
  if (result < 0 || result >= a->n_results || rank < 0 || rank > TC_MAX_RANK) {
    tc_op_fail(a, "reference: there is no result %d of rank %d", result, rank);
    return NULL;
  }
  for (int32_t i = 0; i < rank; i++)
    if (sizes[i] < 0)
      return tc_op_fail(a, "reference: size %d of result %d is %lld", i, result, (long long)sizes[i]), NULL;
  ref_drop(f->run, &f->results[result]);
  tc_status s = ref_new(f->run, a->results[result].type.dtype, rank, sizes, NULL, &f->results[result]);
  if (s) return tc_op_keep(a, s), NULL;
  f->result_views[result] = view_of(f, &f->results[result]);
  return &f->result_views[result];
}

static const tc_ref_view *hook_result(tc_op_args *a, int32_t result) {
  ref_frame *f = a->state;
  if (result < 0 || result >= a->n_results) return tc_op_fail(a, "reference: there is no result %d", result), NULL;
  if (f->results[result].buffer) return &f->result_views[result];
  const tc_tensor_type *t = &a->results[result].type;
  int64_t sizes[TC_MAX_RANK];
  for (int32_t i = 0; i < t->rank; i++) {
    if (!tc_sym_is_const(t->sizes[i]))
      return tc_op_fail(a, "reference: the size of result %d is not known before it is allocated", result), NULL;
    sizes[i] = t->sizes[i]->value;
  }
  return hook_alloc(a, result, t->rank, sizes);
}

static void *hook_scratch(tc_op_args *a, uint64_t size) {
  ref_frame *f = a->state;
  if (size > SIZE_MAX / 2) return tc_op_keep(a, tc_error_out_of_memory()), NULL;
  // in the run's list of buffers, so that nothing is lost when memory runs out
  ref_tensor t;
  int64_t words = (int64_t)(size / 8 + 1);
  tc_status s = ref_new(f->run, TC_I64, 1, &words, NULL, &t);
  if (s) return tc_op_keep(a, s), NULL;
  tc_vec_push(f->run->arena, &f->scratch, t.buffer);
  return t.buffer->data;
}

static const tc_ref_hooks hooks = {
    .data = hook_data, .result = hook_result, .alloc = hook_alloc, .scratch = hook_scratch};

void tc_ref_seed(const tc_op_args *a, uint64_t *out_seed, uint64_t *out_node) {
  const ref_frame *f = a->state;
  *out_seed = f->run->seed;
  *out_node = f->stream + f->run->options->stream;
}

// ---- arguments ----
// Numbers in place of symbols and of values that are numbers.
static tc_status concrete_arg(ref_run *r, const tc_arg *g, ref_slot *(*slot)(void *, tc_value *), void *self,
                              tc_arg *out) {
  int64_t v;
  *out = *g;
  switch (g->kind) {
  case TC_AK_INT:
    TC_TRY(ref_eval(r, g->sym, &v));
    out->sym = tc_sym_int(r->syms, v);
    break;
  case TC_AK_INTS: {
    const tc_sym **list = TC_NEW_ARRAY(r->arena, const tc_sym *, g->n);
    for (int32_t i = 0; i < g->n; i++) {
      TC_TRY(ref_eval(r, g->syms[i], &v));
      list[i] = tc_sym_int(r->syms, v);
    }
    out->syms = list;
    break;
  }
  case TC_AK_FLOAT:
  case TC_AK_BOOL:
    if (!g->value) break;
    out->real = slot(self, g->value)->real, out->integer = slot(self, g->value)->integer, out->value = NULL;
    break;
  default: break;
  }
  return TC_OK;
}

static const tc_tensor_type *concrete_type(ref_run *r, const ref_tensor *t) {
  tc_tensor_type *out = TC_NEW(r->arena, tc_tensor_type);
  tc_int *dims = TC_NEW_ARRAY(r->arena, tc_int, 2 * t->rank);
  for (int32_t i = 0; i < t->rank; i++)
    dims[i] = tc_sym_int(r->syms, t->sizes[i]), dims[t->rank + i] = tc_sym_int(r->syms, t->strides[i]);
  *out = (tc_tensor_type){.dtype = t->nominal,
                          .rank = t->rank,
                          .sizes = dims,
                          .strides = dims + t->rank,
                          .offset = tc_sym_int(r->syms, t->offset)};
  return out;
}

// A value as references see it: conj resolved. Holds its buffer.
static tc_status resolved(ref_run *r, const ref_tensor *t, ref_tensor *out) {
  *out = *t;
  if (!t->conj) return ref_hold(out), TC_OK;
  TC_TRY(ref_new(r, t->nominal, t->rank, t->sizes, NULL, out));
  ref_copy(r, t, out, false);
  return TC_OK;
}

static tc_status number_tensor(ref_run *r, const tc_arg *g, ref_tensor *out) {
  TC_TRY(ref_new(r, tc_arg_number_dtype(g), 0, NULL, NULL, out));
  int64_t i = g->kind == TC_AK_INT ? g->sym->value : g->integer;
  ref_store(out, 0, (tc_c128){g->real, g->imag}, i);
  return TC_OK;
}

static tc_status take_args(ref_frame *f, tc_op_args *a, const tc_node *n, ref_slot *(*slot)(void *, tc_value *),
                           void *self) {
  ref_run *r = f->run;
  tc_arg *args = TC_NEW_ARRAY(r->arena, tc_arg, n->n_args);
  a->args = args;
  for (int32_t i = 0; i < n->n_args; i++) {
    TC_TRY(concrete_arg(r, &n->args[i], slot, self, &args[i]));
    bool number_slot = i < n->op->schema.n_args &&
                       (n->op->schema.args[i].type == TC_ST_TENSOR || n->op->schema.args[i].type == TC_ST_SCALAR);
    if (args[i].kind == TC_AK_TENSOR) {
      TC_TRY(resolved(r, &slot(self, args[i].value)->t, &f->args[i]));
    } else if (args[i].kind == TC_AK_TENSORS) {
      int32_t count = args[i].n;
      f->elems[i] = TC_NEW_ARRAY(r->arena, ref_tensor, count);
      f->elem_views[i] = TC_NEW_ARRAY(r->arena, tc_ref_view, count);
      a->elem_types[i] = TC_NEW_ARRAY(r->arena, const tc_tensor_type *, count);
      for (int32_t k = 0; k < count; k++) {
        if (!args[i].values[k]) continue;
        TC_TRY(resolved(r, &slot(self, args[i].values[k])->t, &f->elems[i][k]));
        f->elem_views[i][k] = view_of(f, &f->elems[i][k]);
        a->elem_types[i][k] = concrete_type(r, &f->elems[i][k]);
      }
    } else if (number_slot && tc_arg_number_dtype(&args[i]) != TC_DTYPE_NONE) {
      TC_TRY(number_tensor(r, &args[i], &f->args[i]));
    }
    if (!f->args[i].buffer) continue;
    f->views[i] = view_of(f, &f->args[i]);
    tc_tensor_type *t = (tc_tensor_type *)concrete_type(r, &f->args[i]);
    t->wrapped = args[i].kind != TC_AK_TENSOR;
    a->arg_types[i] = t;
  }
  return TC_OK;
}

// Declared types of results with sizes as numbers; unbacked ones stay symbols. An in-place op computes what `op`, its
// functional form, does, in that one's dtype: what is written is converted afterwards.
static tc_status take_results(ref_frame *f, tc_op_args *a, const tc_node *n, const tc_op *op) {
  ref_run *r = f->run;
  int32_t n_computed = 0;
  tc_tensor_type *computed = NULL;
  if (op != n->op) TC_TRY(tc_op_run_meta(n->graph, op, n->n_args, n->args, n->source, &n_computed, &computed));
  a->n_results = a->cap_results = n->n_results;
  a->results = TC_NEW_ARRAY(r->arena, tc_op_result, n->n_results);
  f->results = TC_NEW_ARRAY(r->arena, ref_tensor, n->n_results);
  f->result_views = TC_NEW_ARRAY(r->arena, tc_ref_view, n->n_results);
  for (int32_t i = 0; i < n->n_results; i++) {
    const tc_value *v = n->results[i];
    tc_op_result *out = &a->results[i];
    out->set = true, out->view_arg = v->view_arg, out->absent = v->kind == TC_VALUE_NONE;
    static const tc_dtype number_dtypes[] = {[TC_VALUE_SYM] = TC_I64,
                                             [TC_VALUE_FLOAT] = TC_F64,
                                             [TC_VALUE_BOOL] = TC_BOOL,
                                             [TC_VALUE_TOKEN] = TC_BOOL,
                                             [TC_VALUE_NONE] = TC_BOOL};
    out->type = v->kind != TC_VALUE_TENSOR ? (tc_tensor_type){.dtype = number_dtypes[v->kind]}
                : i < n_computed           ? computed[i]
                                           : v->type;
    tc_int *dims = TC_NEW_ARRAY(r->arena, tc_int, 2 * out->type.rank);
    for (int32_t d = 0; d < out->type.rank; d++) {
      int64_t size;
      dims[d] = out->type.sizes[d], dims[out->type.rank + d] = out->type.strides[d];
      if (v->kind != TC_VALUE_TENSOR) continue;
      tc_status s = ref_eval(r, out->type.sizes[d], &size);
      bool bound = s == TC_OK;
      tc_status_free(s);
      if (bound && out->type.sizes[d]->kind == TC_SYM_SYMBOL) bound = r->bound[out->type.sizes[d]->symbol];
      if (bound) dims[d] = tc_sym_int(r->syms, size);
    }
    out->type.sizes = dims, out->type.strides = dims + out->type.rank;
  }
  return TC_OK;
}

// ---- scalar references ----
static int32_t class_rank(tc_dtype d) { return tc_dtype_class(d) == 'c' ? 2 : tc_dtype_class(d) == 'f' ? 1 : 0; }

typedef struct scalar_call {
  const tc_op *op;
  const tc_scalar_ref *ref;
  int32_t arity, cls; // 0 ints, 1 floats, 2 complex
  bool by_zero;       // an integer was divided by 0 (TC_OP_DIVIDES)
  uint64_t turned;    // the bits of integers that are handed over the other way (TC_OP_ORDERS)
  ref_tensor in[MAX_SCALAR_ARGS], out;
} scalar_call;

static int32_t arity_of(const tc_scalar_ref *s, int32_t cls) {
  if (cls == 2) return s->c3 ? 3 : s->c2 ? 2 : s->c1 ? 1 : 0;
  if (cls == 1) return s->f3 ? 3 : s->f2 ? 2 : s->f1 ? 1 : 0;
  return s->i3 ? 3 : s->i2 ? 2 : s->i1 ? 1 : 0;
}

// One element: n in class 0, z in the others (class 1: the real parts).
static void apply_one(const tc_scalar_ref *s, int32_t cls, int32_t arity, const int64_t *n, const tc_c128 *z,
                      tc_c128 *out, int64_t *out_int) {
  *out = (tc_c128){0};
  *out_int = 0;
  switch (cls) {
  case 0: *out_int = arity == 1 ? s->i1(n[0]) : arity == 2 ? s->i2(n[0], n[1]) : s->i3(n[0], n[1], n[2]); break;
  case 1:
    out->re = arity == 1 ? s->f1(z[0].re) : arity == 2 ? s->f2(z[0].re, z[1].re) : s->f3(z[0].re, z[1].re, z[2].re);
    break;
  default: *out = arity == 1 ? s->c1(z[0]) : arity == 2 ? s->c2(z[0], z[1]) : s->c3(z[0], z[1], z[2]);
  }
}

static bool divides_by_zero(const tc_op *op, int32_t cls, const int64_t *n) {
  return cls == 0 && (op->def->traits & TC_OP_DIVIDES) && n[1] == 0;
}

static uint64_t turned_bits(const tc_op *op, tc_dtype operand) {
  return operand == TC_U64 && (op->def->traits & TC_OP_ORDERS) ? 1ull << 63 : 0;
}

static void apply(scalar_call *c, const int64_t *at, int64_t o) {
  int64_t n[MAX_SCALAR_ARGS] = {0}, r;
  tc_c128 z[MAX_SCALAR_ARGS] = {{0}}, v;
  for (int32_t k = 0; k < c->arity; k++) {
    if (c->cls == 0) n[k] = (int64_t)(((const uint64_t *)c->in[k].buffer->data)[at[k]] ^ c->turned);
    else ref_load(&c->in[k], at[k], &z[k]);
  }
  c->by_zero |= divides_by_zero(c->op, c->cls, n);
  apply_one(c->ref, c->cls, c->arity, n, z, &v, &r);
  ref_store(&c->out, o, v, (int64_t)((uint64_t)r ^ c->turned));
}

bool tc_ref_fold(const tc_op *op, tc_dtype result, int32_t n, const tc_ref_number *args, tc_ref_number *out) {
  const tc_scalar_ref *s = op->def->scalar_ref;
  int32_t cls = class_rank(result);
  if (!s || n > MAX_SCALAR_ARGS) return false;
  for (int32_t i = 0; i < n; i++)
    if (class_rank(args[i].dtype) > cls) cls = class_rank(args[i].dtype);
  if (cls == 0 && !arity_of(s, 0)) cls = 1;
  if (arity_of(s, cls) != n || n == 0) return false;
  int64_t ints[MAX_SCALAR_ARGS], r;
  tc_c128 z[MAX_SCALAR_ARGS], v;
  uint64_t turned = turned_bits(op, result);
  for (int32_t i = 0; i < n; i++) {
    bool integer = class_rank(args[i].dtype) == 0;
    ints[i] = (int64_t)((uint64_t)args[i].integer ^ turned);
    z[i] = integer ? (tc_c128){(double)args[i].integer, 0} : args[i].value;
  }
  if (divides_by_zero(op, cls, ints)) return false;
  apply_one(s, cls, n, ints, z, &v, &r);
  tc_dtype computed = cls == 0 ? TC_I64 : cls == 1 ? TC_F64 : TC_C128;
  *out = tc_ref_convert((tc_ref_number){computed, v, (int64_t)((uint64_t)r ^ turned)}, result);
  return true;
}

static bool fits(const ref_tensor *in, const ref_tensor *out) {
  int32_t lead = out->rank - in->rank;
  for (int32_t d = 0; d < in->rank && lead >= 0; d++)
    if (in->sizes[d] != 1 && in->sizes[d] != out->sizes[d + lead]) return false;
  return lead >= 0;
}

// The dtype that operands are brought to before the op sees them: what is computed in, where 16-bit floats take part as
// f32, or the promoted one itself. TC_DTYPE_NONE: they are taken as they are.
static tc_dtype operand_dtype(tc_op_args *a, const tc_op *op, int32_t n, const int32_t *args) {
  uint64_t traits = op->def->traits;
  if (traits & TC_OP_COMPUTE_WIDE) return TC_DTYPE_NONE;
  tc_dtype d = traits & TC_OP_COMPUTE_PROMOTED ? tc_op_promote(a, n, args) : a->results[0].type.dtype;
  if ((traits & TC_OP_INT_TO_FLOAT) && class_rank(d) == 0) return TC_F32;
  if (traits & TC_OP_COMPUTE_PROMOTED) return d;
  return d == TC_F16 || d == TC_BF16 ? TC_F32 : d == TC_C32 || d == TC_BC32 ? TC_C64 : d;
}

// An operand in that dtype: a number always (its bits are those of the dtype, 0.5 is a true bool), a tensor where it
// loses no part of what it is.
static tc_status bring(ref_run *r, const ref_tensor *in, bool number, tc_dtype to, int32_t cls, ref_tensor *out) {
  if (cls == 2) to = tc_dtype_complex(to);
  bool keeps = to == TC_DTYPE_NONE || to == in->nominal || (r->options->wide && class_rank(to) > 0) ||
               (!number && (to == TC_BOOL || class_rank(to) < class_rank(in->nominal)));
  if (keeps) {
    *out = *in;
    ref_hold(out);
    return TC_OK;
  }
  TC_TRY(ref_new(r, to, in->rank, in->sizes, NULL, out));
  ref_copy(r, in, out, true);
  return TC_OK;
}

// The result in the compute class, then copied to the result's own.
static tc_status run_scalar(ref_frame *f, tc_op_args *a, const tc_node *n, const tc_op *op) {
  static const tc_dtype class_dtypes[] = {TC_I64, TC_F64, TC_C128};
  ref_run *r = f->run;
  const tc_schema *schema = &op->schema;
  int32_t picked[64], count = 0;
  for (int32_t i = 0; i < n->n_args && i < schema->n_args && count < 64; i++)
    if (f->args[i].buffer || tc_arg_number_dtype(&a->args[i]) != TC_DTYPE_NONE) picked[count++] = i;
  scalar_call c = {.op = op, .ref = op->def->scalar_ref, .cls = class_rank(a->results[0].type.dtype)};
  bool promoted = (op->def->traits & TC_OP_COMPUTE_PROMOTED) != 0; // a number takes part: i64 == 1.5
  for (int32_t i = 0; i < count; i++)
    if (a->arg_types[picked[i]] && (!a->arg_types[picked[i]]->wrapped || c.cls == 0) &&
        (schema->args[picked[i]].type == TC_ST_TENSOR || promoted)) {
      int32_t its = class_rank(a->arg_types[picked[i]]->dtype);
      if (its > c.cls) c.cls = its;
    }
  if (c.cls == 0 && !arity_of(c.ref, 0)) c.cls = 1; // floats hold what the op needs
  c.arity = arity_of(c.ref, c.cls);
  if (!c.arity)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT " has no meaning on dtype %s", TC_SV_ARG(op->full_name),
                    tc_dtype_name(a->results[0].type.dtype));
  if (c.arity > count)
    return tc_error(TC_STATUS_UNIMPLEMENTED, TC_SV_FMT ": its reference wants %d arguments, %d are given",
                    TC_SV_ARG(op->full_name), c.arity, count);
  for (int32_t i = c.arity; i < count; i++) {
    const tc_schema_arg *s = &schema->args[picked[i]];
    tc_number v;
    bool is_default = tc_op_number(a, picked[i], &v) && s->has_default &&
                      (s->preset.kind == TC_AK_INT || s->preset.kind == TC_AK_BOOL ? v.re == (double)s->preset.integer
                                                                                   : v.re == s->preset.real) &&
                      v.im == 0;
    if (!is_default)
      return tc_error(TC_STATUS_UNIMPLEMENTED, TC_SV_FMT ": its reference does not take '" TC_SV_FMT "'",
                      TC_SV_ARG(op->full_name), TC_SV_ARG(s->name));
  }
  if (!hook_result(a, 0)) return tc_failed(&a->failure) ? tc_op_finish(a) : tc_error(TC_STATUS_INTERNAL, "no result");
  ref_tensor *out = &f->results[0];
  tc_dtype operand = operand_dtype(a, op, count, picked);
  c.turned = turned_bits(op, operand);
  tc_status s = ref_new(r, class_dtypes[c.cls], out->rank, out->sizes, NULL, &c.out);
  for (int32_t k = 0; k < c.arity && !s; k++) { // in the compute class
    ref_tensor number = {0}, brought = {0};
    const ref_tensor *in = &f->args[picked[k]];
    if (!in->buffer) {
      s = number_tensor(r, &a->args[picked[k]], &number);
      in = &number;
    }
    if (!s && !fits(in, out))
      s = tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ": argument %d does not broadcast to the result",
                   TC_SV_ARG(a->called->full_name), picked[k]);
    if (!s) s = bring(r, in, a->args[picked[k]].kind != TC_AK_TENSOR, operand, c.cls, &brought);
    if (!s) s = ref_new(r, class_dtypes[c.cls], in->rank, in->sizes, NULL, &c.in[k]);
    if (!s) ref_copy(r, &brought, &c.in[k], false);
    ref_drop(r, &brought);
    ref_drop(r, &number);
  }
  int64_t index[TC_MAX_RANK] = {0}, at[MAX_SCALAR_ARGS], o = 0;
  if (!s && ref_numel(out->rank, out->sizes) > 0) do {
      for (int32_t k = 0; k < c.arity; k++) {
        int32_t lead = out->rank - c.in[k].rank;
        at[k] = 0;
        for (int32_t d = lead; d < out->rank; d++)
          if (c.in[k].sizes[d - lead] != 1) at[k] += index[d] * c.in[k].strides[d - lead];
      }
      apply(&c, at, o++);
    } while (ref_next(out->rank, out->sizes, index));
  if (!s) ref_copy(r, &c.out, out, false);
  for (int32_t k = 0; k < c.arity; k++) ref_drop(r, &c.in[k]);
  ref_drop(r, &c.out);
  if (!s && c.by_zero) {
    tc_op_fail(a, "ZeroDivisionError");
    return tc_op_finish(a);
  }
  return s;
}

// ---- the call ----
static bool known_size(const tc_tensor_type *t) {
  for (int32_t i = 0; i < t->rank; i++)
    if (!tc_sym_is_const(t->sizes[i])) return false;
  return true;
}

tc_status ref_call(ref_run *r, const tc_node *n, const tc_op *op, ref_slot *(*slot)(void *, tc_value *), void *self,
                   ref_tensor *results) {
  ref_frame f = {.run = r, .stream = n->stream};
  tc_op_args a = {.moment = TC_MOMENT_REF,
                  .op = op,
                  .called = n->op,
                  .syms = r->syms,
                  .arena = r->arena,
                  .n_args = n->n_args,
                  .source = n->source,
                  .ref = &hooks,
                  .state = &f};
  f.args = TC_NEW_ARRAY(r->arena, ref_tensor, n->n_args), f.elems = TC_NEW_ARRAY(r->arena, ref_tensor *, n->n_args);
  f.views = TC_NEW_ARRAY(r->arena, tc_ref_view, n->n_args),
  f.elem_views = TC_NEW_ARRAY(r->arena, tc_ref_view *, n->n_args);
  a.arg_types = TC_NEW_ARRAY(r->arena, const tc_tensor_type *, n->n_args),
  a.elem_types = TC_NEW_ARRAY(r->arena, const tc_tensor_type **, n->n_args);
  tc_status s = take_args(&f, &a, n, slot, self);
  if (!s) s = take_results(&f, &a, n, op);
  // Results of known size are there before the reference runs, so that it need not expect a failure.
  for (int32_t i = 0; i < n->n_results && !s; i++)
    if (n->results[i]->kind != TC_VALUE_NONE && known_size(&a.results[i].type) && !hook_result(&a, i))
      s = tc_op_finish(&a);
  if (!s && op->def->ref) {
    int32_t code = op->def->ref(&a);
    if (code != TC_STATUS_OK && !tc_failed(&a.failure))
      tc_op_keep(&a, tc_error(code, TC_SV_FMT ": its reference failed without a reason", TC_SV_ARG(n->op->full_name)));
    s = tc_op_finish(&a);
    for (int32_t i = 0; i < n->n_results && !s; i++)
      if (n->results[i]->kind != TC_VALUE_NONE && !hook_result(&a, i)) s = tc_op_finish(&a);
  } else if (!s) {
    s = run_scalar(&f, &a, n, op);
  }
  for (int32_t i = 0; i < n->n_args; i++) {
    ref_drop(r, &f.args[i]);
    for (int32_t k = 0; f.elems[i] && k < n->args[i].n; k++) ref_drop(r, &f.elems[i][k]);
  }
  for (int32_t i = 0; i < f.scratch.count; i++) ref_drop(r, &(ref_tensor){.buffer = f.scratch.data[i]});
  for (int32_t i = 0; f.results && i < n->n_results; i++) {
    if (s) ref_drop(r, &f.results[i]);
    else results[i] = f.results[i];
  }
  return s;
}
