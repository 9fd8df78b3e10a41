// The reference engine: binds symbols to the inputs' sizes, runs the nodes in order, frees values after their last use.
#include "core/ir/refexec.h"

#include <string.h>

#include "core/ir/control.h"
#include "core/ir/expand.h"
#include "core/ir/refexec_internal.h"
#include "core/ir/writes.h"

ref_slot *ref_slot_of(void *self, tc_value *v) {
  ref_scope *s = self;
  bool fresh;
  tc_map_entry *e = tc_map_put_ptr(s->slots, v, &fresh);
  if (fresh) e->value.ptr = TC_NEW(s->run->arena, ref_slot);
  return e->value.ptr;
}

// ---- symbols ----
bool ref_all_bound(const ref_run *r, const tc_sym *e) {
  if (e->kind == TC_SYM_SYMBOL) return e->symbol < r->n_symbols && r->bound[e->symbol];
  for (int32_t i = 0; i < e->n; i++)
    if (!ref_all_bound(r, e->kids[i])) return false;
  return true;
}

static const tc_sym *sole_unbound(const ref_run *r, const tc_sym *e, bool *many) {
  if (e->kind == TC_SYM_SYMBOL) return r->bound[e->symbol] ? NULL : e;
  const tc_sym *found = NULL;
  for (int32_t i = 0; i < e->n && !*many; i++) {
    const tc_sym *s = sole_unbound(r, e->kids[i], many);
    if (s && found && s != found) *many = true;
    if (s) found = s;
  }
  return found;
}

// e has the value v: binds the one symbol that is open if e is linear in it. False if nothing could be done.
bool ref_bind(ref_run *r, const tc_sym *e, int64_t v) {
  bool many = false;
  const tc_sym *s = sole_unbound(r, e, &many), *coeff, *rest;
  int64_t c, k;
  if (!s || many || !tc_sym_linear(r->module->syms, e, s, &coeff, &rest)) return false;
  if (!tc_sym_is_const(coeff) || coeff->value == 0 || !ref_all_bound(r, rest)) return false;
  tc_status bad = ref_eval(r, rest, &k);
  if (bad) return tc_status_free(bad), false;
  c = coeff->value;
  if ((v - k) % c) return false;
  r->symbols[s->symbol] = (v - k) / c, r->bound[s->symbol] = 1, r->told = true;
  return true;
}

static tc_status check_input(ref_run *r, const tc_graph_input *in, const tc_tensor *t) {
  const tc_tensor_type *want = &in->value->type;
  bool same = t->dtype == want->dtype || (r->options->wide && t->dtype == ref_wide_of(want->dtype));
  if (!same || t->rank != want->rank) {
    tc_sb sb = tc_sb_make(r->arena);
    tc_type_print(&sb, want);
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "the input '" TC_SV_FMT "' is %s of rank %d, %s is wanted",
                    TC_SV_ARG(in->value->name), tc_dtype_name(t->dtype), t->rank, sb.text);
  }
  for (int32_t d = 0; d < t->rank; d++) {
    int64_t v;
    if (!ref_all_bound(r, want->sizes[d]))
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "the input '" TC_SV_FMT "': the sizes do not determine dimension %d",
                      TC_SV_ARG(in->value->name), d);
    TC_TRY(ref_eval(r, want->sizes[d], &v));
    if (v == t->sizes[d]) continue;
    tc_sb sb = tc_sb_make(r->arena);
    tc_sym_print(&sb, want->sizes[d]);
    return tc_error(TC_STATUS_INVALID_ARGUMENT,
                    "the input '" TC_SV_FMT "': size mismatch at index %d. expected %s = %lld, actual %lld",
                    TC_SV_ARG(in->value->name), d, sb.text, (long long)v, (long long)t->sizes[d]);
  }
  return TC_OK;
}

static tc_status check_ranges(const ref_run *r) {
  tc_module *m = r->module;
  for (int32_t i = 0; i < r->n_symbols && i < tc_sym_symbol_count(m->syms); i++) {
    const tc_sym_info *info = tc_sym_info_of(m->syms, tc_sym_symbol_at(m->syms, i));
    if (r->bound[i] && (r->symbols[i] < info->lo || r->symbols[i] > info->hi))
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "the size " TC_SV_FMT " = %lld is outside of [%lld, %lld]",
                      TC_SV_ARG(info->name), (long long)r->symbols[i], (long long)info->lo, (long long)info->hi);
  }
  return TC_OK;
}

static tc_status check_symbols(ref_run *r) {
  tc_module *m = r->module;
  TC_TRY(check_ranges(r));
  for (int32_t i = 0; i < m->requires_.count; i++) {
    int64_t v;
    if (!ref_all_bound(r, m->requires_.data[i])) continue; // on data: checked where it is known
    TC_TRY(ref_eval(r, m->requires_.data[i], &v));
    if (v) continue;
    tc_sb sb = tc_sb_make(r->arena);
    tc_sym_print(&sb, m->requires_.data[i]);
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "the inputs do not meet the requirement %s", sb.text);
  }
  return TC_OK;
}

static tc_status check_graph(const ref_scope *s) {
  return tc_graph_check(s->graph, s->run->n_symbols, s->run->symbols, s->run->bound);
}

// ---- inputs ----
static tc_status eval_strides(ref_run *r, const tc_tensor_type *t, int64_t *out) {
  for (int32_t d = 0; d < t->rank; d++) TC_TRY(ref_eval(r, t->strides[d], &out[d]));
  return TC_OK;
}

static tc_status take_number(ref_run *r, ref_slot *s, const tc_value *v, const tc_tensor *t) {
  double re, im;
  if (t->rank != 0 || !t->storage)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "the input '" TC_SV_FMT "' must be a number (a tensor of rank 0)",
                    TC_SV_ARG(v->name));
  tc_tensor_get(t, NULL, &re, &im);
  s->real = re, s->integer = tc_dtype_is_float(t->dtype) ? (int64_t)re : tc_tensor_get_int(t, NULL), s->set = true;
  if (v->kind == TC_VALUE_SYM && v->symbol->kind == TC_SYM_SYMBOL)
    r->symbols[v->symbol->symbol] = s->integer, r->bound[v->symbol->symbol] = 1;
  return TC_OK;
}

static tc_status take_tensor(ref_scope *s, const tc_graph_input *in, const tc_tensor *given) {
  ref_run *r = s->run;
  int64_t strides[TC_MAX_RANK];
  TC_TRY(check_input(r, in, given));
  TC_TRY(eval_strides(r, &in->value->type, strides));
  int64_t offset; // views of the input count from its storage's start
  TC_TRY(ref_eval(r, in->value->type.offset, &offset));
  ref_slot *slot = ref_slot_of(s, in->value);
  TC_TRY(ref_from_tensor(r, given, strides, offset, in->value->type.conj, &slot->t));
  slot->t.nominal = in->value->type.dtype; // also where it was given wide
  return TC_OK;
}

static bool only_data_is_open(const ref_run *r, const tc_sym *e) {
  if (e->kind == TC_SYM_SYMBOL && e->symbol < r->n_symbols && !r->bound[e->symbol])
    return tc_sym_info_of(r->module->syms, e)->origin == TC_SYM_UNBACKED;
  for (int32_t i = 0; i < e->n; i++)
    if (!only_data_is_open(r, e->kids[i])) return false;
  return true;
}

static bool sizes_known(const ref_run *r, const tc_tensor_type *t) {
  for (int32_t d = 0; d < t->rank; d++)
    if (!ref_all_bound(r, t->sizes[d])) return false;
  return true;
}

// Do all sizes that are not known come from data?
static bool waits(const ref_run *r, const tc_tensor_type *t) {
  for (int32_t d = 0; d < t->rank; d++)
    if (!only_data_is_open(r, t->sizes[d])) return false;
  return !sizes_known(r, t);
}

// Takes the waiting inputs whose sizes are known by now.
static tc_status take_waiting(ref_scope *s) {
  for (ref_waiting **w = &s->waiting; *w;) {
    if (!sizes_known(s->run, &(*w)->input->value->type)) {
      w = &(*w)->next;
      continue;
    }
    TC_TRY(take_tensor(s, (*w)->input, (*w)->tensor));
    *w = (*w)->next;
  }
  return TC_OK;
}

static tc_status take_inputs(ref_scope *s, int32_t n, const tc_tensor *given, tc_tensor *own) {
  ref_run *r = s->run;
  tc_graph *g = s->graph;
  int32_t k = 0;
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_graph_input *in = &g->inputs.data[i];
    if (!in->value) continue;
    if (k >= n) return tc_error(TC_STATUS_INVALID_ARGUMENT, "the graph has more inputs than the %d given", n);
    own[k] = given[k];
    if (!own[k].storage && in->kind != TC_IN_USER) {
      const tc_map_entry *e = tc_map_find(g->module->bindings, in->target);
      if (e) own[k] = ((const tc_binding *)e->value.ptr)->tensor;
    }
    if (!own[k].storage && in->value->kind == TC_VALUE_TENSOR)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "the input '" TC_SV_FMT "' is missing",
                      TC_SV_ARG(in->target.size ? in->target : in->value->name));
    if (in->value->kind == TC_VALUE_TENSOR)
      for (int32_t d = 0; d < own[k].rank && d < in->value->type.rank; d++)
        ref_bind(r, in->value->type.sizes[d], own[k].sizes[d]);
    else if (in->value->kind != TC_VALUE_TOKEN) TC_TRY(take_number(r, ref_slot_of(s, in->value), in->value, &own[k]));
    k++;
  }
  if (k != n) return tc_error(TC_STATUS_INVALID_ARGUMENT, "the graph has %d inputs, %d are given", k, n);
  // sizes such as 2*s0 may wait for a symbol of a later input
  k = 0;
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_graph_input *in = &g->inputs.data[i];
    if (!in->value) continue;
    if (in->value->kind == TC_VALUE_TENSOR)
      for (int32_t d = 0; d < own[k].rank && d < in->value->type.rank; d++)
        ref_bind(r, in->value->type.sizes[d], own[k].sizes[d]);
    k++;
  }
  k = 0;
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_graph_input *in = &g->inputs.data[i];
    if (!in->value) continue;
    if (in->value->kind == TC_VALUE_TENSOR) {
      for (int32_t d = 0; d < own[k].rank && d < in->value->type.rank; d++)
        ref_bind(r, in->value->type.strides[d], own[k].strides[d]);
      ref_bind(r, in->value->type.offset, own[k].offset);
    }
    k++;
  }
  k = 0;
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_graph_input *in = &g->inputs.data[i];
    if (!in->value) continue;
    if (in->value->kind == TC_VALUE_TENSOR && own[k].rank == in->value->type.rank && waits(r, &in->value->type)) {
      ref_waiting *w = TC_NEW(r->arena, ref_waiting);
      *w = (ref_waiting){in, &own[k], s->waiting};
      s->waiting = w;
    } else if (in->value->kind == TC_VALUE_TENSOR) {
      TC_TRY(take_tensor(s, in, &own[k]));
    }
    k++;
  }
  return check_symbols(r);
}

// ---- nodes ----
// A view: the same buffer seen by the declared sizes and strides. Complex and real views of one another count
// components.
static tc_status make_view(ref_run *r, const tc_value *v, const ref_tensor *base, ref_tensor *out) {
  const tc_tensor_type *t = &v->type;
  *out = (ref_tensor){
      .buffer = base->buffer, .wide = ref_wide_of(t->dtype), .nominal = t->dtype, .rank = t->rank, .conj = t->conj};
  bool same = out->wide == base->wide, parts = out->wide != TC_I64 && base->wide != TC_I64;
  if (!same && !parts) return tc_error(TC_STATUS_UNIMPLEMENTED, "a view of another dtype needs a reference");
  for (int32_t d = 0; d < t->rank; d++) TC_TRY(ref_eval(r, t->sizes[d], &out->sizes[d]));
  TC_TRY(eval_strides(r, t, out->strides));
  TC_TRY(ref_eval(r, t->offset, &out->offset));
  int64_t span, count = base->buffer->count;
  if (out->wide != base->buffer->wide) count = out->wide == TC_F64 ? count * 2 : count / 2;
  if (!ref_span(out->rank, out->sizes, out->strides, &span) || out->offset < 0 || (span && out->offset + span > count))
    return tc_error(TC_STATUS_OUT_OF_RANGE, "the view %%" TC_SV_FMT " reaches outside of its storage",
                    TC_SV_ARG(v->name));
  ref_hold(out);
  return TC_OK;
}

static tc_status bind_result(ref_run *r, const tc_value *v, const ref_tensor *t) {
  for (int32_t d = 0; d < t->rank && d < v->type.rank; d++) {
    int64_t want;
    if (!ref_all_bound(r, v->type.sizes[d]) && !ref_bind(r, v->type.sizes[d], t->sizes[d]))
      return tc_error(TC_STATUS_INTERNAL, "size %d of %%" TC_SV_FMT " cannot be bound", d, TC_SV_ARG(v->name));
    TC_TRY(ref_eval(r, v->type.sizes[d], &want));
    if (want != t->sizes[d])
      return tc_error(TC_STATUS_INTERNAL, "size %d of %%" TC_SV_FMT " is %lld, its type says %lld", d,
                      TC_SV_ARG(v->name), (long long)t->sizes[d], (long long)want);
  }
  return TC_OK;
}

// A result (row-major, not rounded) becomes the value: its number, or a buffer in the declared layout.
tc_status ref_store_result(ref_scope *s, tc_value *v, const ref_tensor *t) {
  ref_run *r = s->run;
  ref_slot *slot = ref_slot_of(s, v);
  slot->set = true;
  if (v->kind == TC_VALUE_NONE || v->kind == TC_VALUE_TOKEN) return TC_OK;
  if (v->kind != TC_VALUE_TENSOR) {
    if (t->wide == TC_I64) slot->integer = ((int64_t *)t->buffer->data)[0], slot->real = (double)slot->integer;
    else slot->real = ((double *)t->buffer->data)[0], slot->integer = (int64_t)slot->real;
    if (v->kind == TC_VALUE_SYM && v->symbol->kind == TC_SYM_SYMBOL)
      r->symbols[v->symbol->symbol] = slot->integer, r->bound[v->symbol->symbol] = 1, r->told = true;
    return TC_OK;
  }
  if (t->rank != v->type.rank)
    return tc_error(TC_STATUS_INTERNAL, "the reference gave %%" TC_SV_FMT " rank %d, its type says %d",
                    TC_SV_ARG(v->name), t->rank, v->type.rank);
  TC_TRY(bind_result(r, v, t));
  int64_t strides[TC_MAX_RANK];
  TC_TRY(eval_strides(r, &v->type, strides));
  TC_TRY(ref_new(r, v->type.dtype, t->rank, t->sizes, strides, &slot->t));
  slot->t.conj = v->type.conj;
  ref_copy(r, t, &slot->t, true);
  return TC_OK;
}

static tc_status lies_as_declared(ref_run *r, const tc_value *v, const ref_tensor *t, bool *out) {
  int64_t offset, stride;
  *out = true;
  if (t->rank != v->type.rank) return TC_OK;
  TC_TRY(bind_result(r, v, t));
  TC_TRY(ref_eval(r, v->type.offset, &offset));
  *out = offset == t->offset;
  for (int32_t d = 0; d < t->rank && *out; d++) {
    TC_TRY(ref_eval(r, v->type.strides[d], &stride));
    *out = t->sizes[d] < 2 || stride == t->strides[d];
  }
  return TC_OK;
}

// A result goes into the storage of what is written.
static tc_status write_into(ref_run *r, const ref_tensor *self, ref_tensor *result) {
  ref_tensor rounded = {0};
  bool fits = result->rank == self->rank;
  for (int32_t d = 0; d < self->rank && fits; d++) fits = result->sizes[d] == self->sizes[d];
  if (!fits) return tc_error(TC_STATUS_INVALID_ARGUMENT, "the result does not have the sizes of what is written");
  if (result->nominal != self->nominal || result->buffer == self->buffer) { // first to the functional op's own dtype
    TC_TRY(ref_new(r, result->nominal, result->rank, result->sizes, NULL, &rounded));
    ref_copy(r, result, &rounded, true);
  }
  ref_copy(r, rounded.buffer ? &rounded : result, self, true);
  if (rounded.buffer) ref_drop(r, &rounded);
  return TC_OK;
}

// Result i of the node is what its argument `arg` sees.
static void take_written(ref_scope *s, const tc_node *n, int32_t i, int32_t arg) {
  ref_slot *out = ref_slot_of(s, n->results[i]);
  out->t = ref_slot_of(s, n->args[arg].value)->t, out->set = true;
  ref_hold(&out->t);
}

static tc_status write_through(ref_scope *s, tc_node *n, int32_t i, int32_t arg, ref_tensor *result) {
  TC_TRY(write_into(s->run, &ref_slot_of(s, n->args[arg].value)->t, result));
  take_written(s, n, i, arg);
  return TC_OK;
}

// Which argument of the node result i of its functional op is written to; -1: none.
static int32_t written_argument(const tc_node *n, const tc_op *functional, int32_t i) {
  if (functional == n->op) return -1;
  return i == 0 ? 0 : tc_op_written_argument(n->op, i);
}

// What a graph made for the node gave for its result i.
static tc_status take_made(ref_scope *s, tc_node *n, int32_t i, const tc_arg *out) {
  ref_slot *to = ref_slot_of(s, n->results[i]);
  to->set = true;
  if (out->kind == TC_AK_TENSOR) {
    ref_tensor *made = &ref_slot_of(s, out->value)->t;
    bool same = true;
    if (n->results[i]->view_arg < 0) TC_TRY(lies_as_declared(s->run, n->results[i], made, &same));
    // a view for the decomposition, a tensor of its own by the op's type, or laid out in another order
    if (!same) return ref_store_result(s, n->results[i], made);
    to->t = *made;
    ref_hold(&to->t);
  } else if (out->value) {
    to->real = ref_slot_of(s, out->value)->real, to->integer = ref_slot_of(s, out->value)->integer;
  } else if (out->kind == TC_AK_INT) {
    TC_TRY(ref_eval(s->run, out->sym, &to->integer));
    to->real = (double)to->integer;
  }
  return TC_OK;
}

// A graph for what stands for the node, on the values of this scope.
static tc_status open_scratch(ref_scope *s, ref_scope *out) {
  tc_graph *scratch = tc_graph_create(s->graph->module, TC_SV("reference"));
  scratch->scratch = s->graph->scratch + 1;
  *out = (ref_scope){.run = s->run, .graph = scratch, .slots = s->slots}; // values of both graphs: keys are pointers
  return scratch->scratch > 32 ? tc_error(TC_STATUS_INVALID_ARGUMENT, "the decomposition does not end") : TC_OK;
}

// Runs the op's decomposition.
static tc_status run_expanded(ref_scope *s, tc_node *n, const tc_op *op) {
  ref_scope inner;
  int32_t n_out;
  tc_arg *out;
  TC_TRY(open_scratch(s, &inner));
  const tc_build b = tc_build_for(n, inner.graph, NULL);
  TC_TRY(tc_expand_op(&b, op, n->n_args, n->args, &n_out, &out));
  if (n_out != n->n_results)
    return tc_error(TC_STATUS_INTERNAL, "the decomposition has %d results, the op %d", n_out, n->n_results);
  for (int32_t i = 0; i < n_out; i++) tc_graph_add_output(inner.graph, TC_OUT_USER, out[i], TC_SV(""));
  TC_TRY(ref_run_graph(&inner));
  for (int32_t i = 0; i < n_out; i++) {
    int32_t written = written_argument(n, op, i);
    if (written >= 0) TC_TRY(write_through(s, n, i, written, &ref_slot_of(s, out[i].value)->t));
    else TC_TRY(take_made(s, n, i, &out[i]));
  }
  return TC_OK;
}

// Runs the functional form, and writes what it gives into the arguments.
static tc_status run_functional(ref_scope *s, tc_node *n, const tc_writes *w) {
  ref_scope inner;
  tc_node *made;
  if (!w->functional)
    return tc_error(TC_STATUS_UNIMPLEMENTED, "the op writes to its arguments and no functional form of it is known");
  TC_TRY(open_scratch(s, &inner));
  TC_TRY(tc_writes_call(w, inner.graph, NULL, n, &made));
  TC_TRY(ref_run_graph(&inner));
  for (int32_t i = 0; i < n->n_results && i < w->keep; i++) {
    tc_arg out = tc_arg_tensor(made->results[i]);
    TC_TRY(take_made(s, n, i, &out));
  }
  for (int32_t k = 0; k < w->n && w->written[k].result < made->n_results; k++)
    TC_TRY(write_into(s->run, &ref_slot_of(s, n->args[w->written[k].arg].value)->t,
                      &ref_slot_of(s, made->results[w->written[k].result])->t));
  for (int32_t i = w->keep; i < n->n_results && i < w->n; i++) take_written(s, n, i, w->written[i].arg);
  return TC_OK;
}

// Views need no reference; a row may have one for the cases in which it copies, or changes the dtype.
static bool is_view(const tc_node *n) {
  if (tc_op_functional(n->graph->module->ops, n->op) || n->n_results == 0 || n->results[0]->kind != TC_VALUE_TENSOR ||
      n->results[0]->view_arg < 0)
    return false;
  const tc_arg *base = &n->args[n->results[0]->view_arg];
  if (base->kind != TC_AK_TENSOR) return false;
  tc_dtype from = base->value->type.dtype, to = n->results[0]->type.dtype;
  return from == to || tc_dtype_real(from) == to || tc_dtype_real(to) == from;
}

static tc_status run_node(ref_scope *s, tc_node *n) {
  ref_run *r = s->run;
  tc_writes writes = tc_writes_of(n);
  if (writes.n) return run_functional(s, n, &writes);
  const tc_op *inplace_of = tc_op_functional(r->module->ops, n->op);
  const tc_op *base = inplace_of ? inplace_of : n->op;
  if (n->n_results > 0 && (is_view(n) || (inplace_of && (base->def->traits & TC_OP_VIEW)))) {
    for (int32_t i = 0; i < n->n_results; i++) {
      tc_value *v = n->results[i];
      TC_TRY(make_view(r, v, &ref_slot_of(s, n->args[v->view_arg].value)->t, &ref_slot_of(s, v)->t));
    }
    return TC_OK;
  }
  if (n->n_results == 0 && (base->def->traits & TC_OP_VIEW)) return TC_OK; // the parts of nothing
  if (tc_op_control(base) != TC_CONTROL_NONE && !base->def->expand) return ref_control(s, n);
  bool has_ref = base->def->ref || base->def->scalar_ref;
  if ((!has_ref || tc_node_draws_by_parts(n)) && tc_op_can_expand(base)) return run_expanded(s, n, base);
  if (!has_ref) return tc_error(TC_STATUS_UNIMPLEMENTED, TC_SV_FMT " has no reference", TC_SV_ARG(n->op->full_name));
  ref_tensor *results = TC_NEW_ARRAY(r->arena, ref_tensor, n->n_results);
  TC_TRY(ref_call(r, n, base, ref_slot_of, s, results));
  tc_status status = TC_OK;
  for (int32_t i = 0; i < n->n_results; i++) {
    int32_t written = written_argument(n, base, i);
    if (!status)
      status =
          written >= 0 ? write_through(s, n, i, written, &results[i]) : ref_store_result(s, n->results[i], &results[i]);
    ref_drop(r, &results[i]);
  }
  return status;
}

static tc_status watch(ref_scope *s, const tc_node *n) {
  const tc_ref_options *o = s->run->options;
  if (!o->watch || (s->graph->scratch && !o->watch_parts) || s->unwatched) return TC_OK;
  tc_tensor *t = TC_NEW_ARRAY(s->run->arena, tc_tensor, n->n_results);
  tc_status status = TC_OK;
  for (int32_t i = 0; i < n->n_results && !status; i++)
    if (n->results[i]->kind == TC_VALUE_TENSOR)
      status = ref_to_tensor(s->run, &ref_slot_of(s, n->results[i])->t, o->wide, &t[i]);
  if (!status) o->watch(o->watch_self, n, n->n_results, t);
  for (int32_t i = 0; i < n->n_results && !status && o->watch_moves; i++) {
    ref_tensor moved;
    if (!t[i].storage) continue;
    status = ref_from_tensor(s->run, &t[i], t[i].strides, 0, false, &moved);
    if (status) break;
    ref_copy(s->run, &moved, &ref_slot_of(s, n->results[i])->t, true);
    ref_drop(s->run, &moved);
  }
  for (int32_t i = 0; i < n->n_results; i++) tc_tensor_unref(&t[i]);
  return status;
}

typedef struct use_marker {
  ref_scope *scope;
  int32_t at;
} use_marker;

static void mark_use(void *arg, tc_value **v) {
  use_marker *m = arg;
  ref_slot *s = ref_slot_of(m->scope, *v);
  if (s->last_use < m->at) s->last_use = m->at;
}

static void release_use(void *arg, tc_value **v) {
  use_marker *m = arg;
  ref_slot *s = ref_slot_of(m->scope, *v);
  if (s->last_use == m->at) ref_drop(m->scope->run, &s->t);
}

typedef struct wait_search {
  const ref_scope *scope;
  const tc_graph_input *found;
} wait_search;

static void find_waiting(void *self, tc_value **v) {
  wait_search *q = self;
  for (const ref_waiting *w = q->scope->waiting; w; w = w->next)
    if (w->input->value == *v) q->found = w->input;
}

// Nothing may be read of an input that waits.
static tc_status check_waiting(const ref_scope *s, tc_node *n) {
  wait_search q = {.scope = s};
  if (s->waiting) tc_node_each_value(n, find_waiting, &q);
  return q.found ? tc_error(TC_STATUS_UNIMPLEMENTED,
                            "the input '" TC_SV_FMT "' is read before the data that tells its sizes",
                            TC_SV_ARG(q.found->value->name))
                 : TC_OK;
}

// Values of this graph live until their last reader; those of a graph around (scratch graphs) are not touched.
tc_status ref_run_graph(ref_scope *s) {
  int32_t at = 1;
  bool frees = s->graph->scratch == 0;
  if (frees) {
    for (tc_node *n = s->graph->first; n; n = n->next) {
      if (n->dead) continue;
      tc_node_each_value(n, mark_use, &(use_marker){s, at++});
      for (int32_t i = 0; i < n->n_results; i++) ref_slot_of(s, n->results[i]);
    }
    for (int32_t i = 0; i < s->graph->outputs.count; i++)
      if (s->graph->outputs.data[i].arg.value)
        ref_slot_of(s, s->graph->outputs.data[i].arg.value)->last_use = INT32_MAX;
  }
  at = 1;
  TC_TRY(check_graph(s));
  for (tc_node *n = s->graph->first; n; n = n->next) {
    if (n->dead) continue;
    tc_status status = check_waiting(s, n);
    if (!status) status = run_node(s, n);
    if (!status) status = take_waiting(s);
    if (!status && s->run->told) {
      s->run->told = false;
      status = check_ranges(s->run);
      if (!status) status = check_graph(s);
    }
    if (!status) status = watch(s, n);
    if (status) {
      status = tc_status_note(status, "while running %%" TC_SV_FMT " = " TC_SV_FMT,
                              TC_SV_ARG(n->n_results ? n->results[0]->name : n->name), TC_SV_ARG(n->op->full_name));
      return n->source.size && !strstr(tc_status_text(status), "at ")
                 ? tc_status_note(status, "at " TC_SV_FMT, TC_SV_ARG(n->source))
                 : status;
    }
    if (frees) tc_node_each_value(n, release_use, &(use_marker){s, at});
    at++;
    for (int32_t i = 0; frees && i < n->n_results; i++)
      if (ref_slot_of(s, n->results[i])->last_use == 0) ref_drop(s->run, &ref_slot_of(s, n->results[i])->t);
  }
  for (const ref_waiting *w = s->waiting; w; w = w->next) TC_TRY(check_input(s->run, w->input, w->tensor)); // says why
  return TC_OK;
}

// ---- outputs ----
static tc_status number_output(ref_run *r, tc_dtype d, double real, int64_t integer, tc_tensor *out) {
  TC_TRY(tc_tensor_create(r->allocator, d, 0, NULL, out));
  if (d == TC_F64) *(double *)tc_tensor_data(out) = real;
  else if (d == TC_I64) *(int64_t *)tc_tensor_data(out) = integer;
  else *(uint8_t *)tc_tensor_data(out) = integer != 0;
  return TC_OK;
}

static tc_status make_output(ref_scope *s, const tc_graph_output *o, tc_tensor *out) {
  ref_run *r = s->run;
  const tc_arg *g = &o->arg;
  int64_t v;
  switch (g->kind) {
  case TC_AK_TENSOR: {
    ref_slot *slot = ref_slot_of(s, g->value);
    if (g->value->kind == TC_VALUE_TENSOR) return ref_to_tensor(r, &slot->t, r->options->wide, out);
    if (g->value->kind == TC_VALUE_NONE || g->value->kind == TC_VALUE_TOKEN) return TC_OK;
    return number_output(r,
                         g->value->kind == TC_VALUE_FLOAT  ? TC_F64
                         : g->value->kind == TC_VALUE_BOOL ? TC_BOOL
                                                           : TC_I64,
                         slot->real, slot->integer, out);
  }
  case TC_AK_INT: TC_TRY(ref_eval(r, g->sym, &v)); return number_output(r, TC_I64, 0, v, out);
  case TC_AK_FLOAT: return number_output(r, TC_F64, g->value ? ref_slot_of(s, g->value)->real : g->real, 0, out);
  case TC_AK_BOOL: return number_output(r, TC_BOOL, 0, g->value ? ref_slot_of(s, g->value)->integer : g->integer, out);
  default: return TC_OK;
  }
}

static tc_status write_back(ref_scope *s, const tc_tensor *inputs, const tc_tensor *outputs) {
  for (int32_t i = 0; i < s->graph->outputs.count; i++) {
    const tc_graph_output *o = &s->graph->outputs.data[i];
    if (o->kind < TC_OUT_BUFFER_MUTATION || o->kind > TC_OUT_PARAMETER_MUTATION) continue;
    int32_t k = 0;
    for (int32_t j = 0; j < s->graph->inputs.count; j++) {
      const tc_graph_input *in = &s->graph->inputs.data[j];
      if (!in->value) continue;
      if (tc_sv_eq(in->target, o->target) && (o->kind == TC_OUT_INPUT_MUTATION) == (in->kind == TC_IN_USER))
        TC_TRY(tc_tensor_copy(&outputs[i], &inputs[k]));
      k++;
    }
  }
  return TC_OK;
}

typedef struct run_call {
  ref_run *run;
  tc_graph *graph;
  int32_t n_inputs;
  const tc_tensor *inputs;
  tc_tensor *outputs;
} run_call;

static tc_status do_run(void *p) {
  run_call *c = p;
  ref_run *r = c->run;
  r->syms = tc_sym_create(r->arena);
  // decompositions may make symbols while running
  r->n_symbols = tc_sym_symbol_count(r->module->syms) + 4096;
  r->symbols = TC_NEW_ARRAY(r->arena, int64_t, r->n_symbols);
  r->bound = TC_NEW_ARRAY(r->arena, uint8_t, r->n_symbols);
  ref_scope s = {.run = r, .graph = c->graph, .slots = tc_map_create(r->arena)};
  tc_tensor *inputs = TC_NEW_ARRAY(r->arena, tc_tensor, c->n_inputs);
  TC_TRY(take_inputs(&s, c->n_inputs, c->inputs, inputs));
  TC_TRY(ref_run_graph(&s));
  for (int32_t i = 0; i < c->graph->outputs.count; i++)
    TC_TRY(make_output(&s, &c->graph->outputs.data[i], &c->outputs[i]));
  return r->options->write_back ? write_back(&s, inputs, c->outputs) : TC_OK;
}

static tc_status run_guarded(void *p) { return tc_arena_guard(((run_call *)p)->run->arena, do_run, p); }

tc_status tc_ref_run(tc_graph *g, const tc_allocator *a, int32_t n_inputs, const tc_tensor *inputs, tc_tensor *outputs,
                     const tc_ref_options *options) {
  static const tc_ref_options plain = {0};
  if (!options) options = &plain;
  ref_run r = {.options = options, .seed = options->seed, .allocator = a, .module = g->module};
  run_call c = {.run = &r, .graph = g, .n_inputs = n_inputs, .inputs = inputs, .outputs = outputs};
  memset(outputs, 0, sizeof *outputs * (size_t)g->outputs.count);
  TC_TRY(tc_arena_create(a, &r.arena));
  // Decompositions build graphs in the module's arena, which may be short too. Its guard is the outer one: unwinding to
  // it leaves the run's arena with a guard that is gone, and that arena is destroyed here.
  tc_status s = tc_arena_guard(g->module->arena, run_guarded, &c);
  while (r.buffers) {
    r.buffers->refs = 1;
    ref_drop(&r, &(ref_tensor){.buffer = r.buffers});
  }
  tc_arena_destroy(r.arena);
  for (int32_t i = 0; s && i < g->outputs.count; i++) tc_tensor_unref(&outputs[i]);
  return s;
}
