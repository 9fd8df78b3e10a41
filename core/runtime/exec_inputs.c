// What a run is given: the symbols' values are read off the inputs' sizes, then the inputs are checked against what the
// graph promises.
#include "core/runtime/exec_internal.h"

// size = coeff·symbol + rest with constant coeff and rest?
static bool is_source(tc_sym_ctx *c, const tc_sym *size, const tc_sym *symbol, symbol_source *out) {
  const tc_sym *coeff, *rest;
  if (!tc_sym_uses(size, symbol) || !tc_sym_linear(c, size, symbol, &coeff, &rest)) return false;
  if (!tc_sym_is_const(coeff) || !tc_sym_is_const(rest) || coeff->value == 0) return false;
  out->coeff = coeff->value;
  out->rest = rest->value;
  return true;
}

// The first input that is the symbol, or has a size that is a multiple of it plus a constant.
static bool find_source(tc_exec *e, const tc_sym *symbol, symbol_source *out) {
  const tc_plan *p = e->plan;
  for (int32_t i = 0; p->graph && i < p->graph->inputs.count; i++) {
    const tc_value *v = p->graph->inputs.data[i].value;
    if (!v) continue;
    *out = (symbol_source){.symbol = symbol->symbol, .input = i, .dim = -1};
    if (v->kind == TC_VALUE_SYM && is_source(p->syms, v->symbol, symbol, out)) return true;
    for (int32_t d = 0; v->kind == TC_VALUE_TENSOR && d < v->type.rank; d++) {
      out->dim = d;
      if (is_source(p->syms, v->type.sizes[d], symbol, out)) return true;
    }
  }
  for (int32_t i = 0; p->graph && i < p->graph->inputs.count; i++) { // where a tensor starts, if no size tells
    const tc_value *v = p->graph->inputs.data[i].value;
    *out = (symbol_source){.symbol = symbol->symbol, .input = i, .dim = SOURCE_OFFSET};
    if (v && v->kind == TC_VALUE_TENSOR && is_source(p->syms, v->type.offset, symbol, out)) return true;
  }
  return false;
}

void exec_find_sources(tc_exec *e) {
  for (int32_t s = 0; s < e->n_symbols; s++) {
    const tc_sym *symbol = tc_sym_symbol_at(e->plan->syms, s);
    int32_t origin = tc_sym_info_read(e->plan->syms, symbol)->origin;
    symbol_source q = {.symbol = s, .input = -1, .dim = tc_sym_seed_part(symbol)};
    if (q.dim >= 0) tc_vec_push(e->arena, &e->sources, q);
    else if ((origin == TC_SYM_BACKED || origin == TC_SYM_UNBACKED) && find_source(e, symbol, &q))
      tc_vec_push(e->arena, &e->sources, q);
  }
}

// `strides`: they matter, too.
static tc_status check_input(const tc_exec *e, int32_t i, const tc_tensor *t, const int64_t *symbols, bool strides) {
  const tc_graph_input *in = &e->plan->graph->inputs.data[i];
  const tc_tensor_type *type = &in->value->type;
  tc_sv name = in->target.size ? in->target : in->value->name;
  if (!t->storage) return tc_error(TC_STATUS_INVALID_ARGUMENT, "input '" TC_SV_FMT "' is missing", TC_SV_ARG(name));
  if (t->dtype != type->dtype)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "input '" TC_SV_FMT "' is %s; the program takes %s", TC_SV_ARG(name),
                    tc_dtype_name(t->dtype), tc_dtype_name(type->dtype));
  if (t->rank != type->rank)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "input '" TC_SV_FMT "' has rank %d; the program takes rank %d",
                    TC_SV_ARG(name), t->rank, type->rank);
  if (strides && (t->neg || t->conj != (type->conj != 0)))
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "input '" TC_SV_FMT "' is %s; the program takes it %s", TC_SV_ARG(name),
                    t->neg    ? "negated"
                    : t->conj ? "conjugated"
                              : "as it is",
                    type->conj ? "conjugated" : "as it is");
  bool empty = tc_tensor_numel(t) == 0;
  for (int32_t d = 0; d < t->rank; d++) {
    int64_t want, stride;
    TC_TRY(exec_value(&e->inputs[i].sizes[d], symbols, &want));
    if (t->sizes[d] != want)
      return tc_error(TC_STATUS_INVALID_ARGUMENT,
                      "input '" TC_SV_FMT "' size mismatch at index %d. expected %lld, actual %lld", TC_SV_ARG(name), d,
                      (long long)want, (long long)t->sizes[d]);
    if (!strides || empty || t->sizes[d] <= 1) continue;
    TC_TRY(exec_value(&e->inputs[i].strides[d], symbols, &stride));
    if (t->strides[d] != stride)
      return tc_error(TC_STATUS_INVALID_ARGUMENT,
                      "input '" TC_SV_FMT "' stride mismatch at index %d. expected %lld, actual %lld", TC_SV_ARG(name),
                      d, (long long)stride, (long long)t->strides[d]);
  }
  return TC_OK;
}

static tc_status read_integer(const tc_graph_input *in, const tc_tensor *t, int64_t *out) {
  if (!t->storage || t->rank != 0 || t->storage->device != 0 || tc_dtype_is_float(t->dtype) ||
      tc_dtype_is_complex(t->dtype))
    return tc_error(TC_STATUS_INVALID_ARGUMENT,
                    "input '" TC_SV_FMT "' must be an integer (a tensor of rank 0 on the host)", TC_SV_ARG(in->target));
  *out = tc_tensor_get_int(t, NULL);
  return TC_OK;
}

// An integer that the program was compiled for.
static tc_status check_number(const tc_graph_input *in, const tc_tensor *t) {
  int64_t want = in->value->symbol->value, have;
  TC_TRY(read_integer(in, t, &have));
  if (have == want) return TC_OK;
  return tc_error(TC_STATUS_INVALID_ARGUMENT, "input '" TC_SV_FMT "' is %lld; the program was compiled for %lld",
                  TC_SV_ARG(in->target), (long long)have, (long long)want);
}

static tc_status read_source(const tc_exec *e, const symbol_source *s, const tc_tensor *t, int64_t *out) {
  const tc_graph_input *in = &e->plan->graph->inputs.data[s->input];
  int64_t have;
  if (s->dim == SOURCE_OFFSET) {
    if (!t->storage) return TC_OK; // check_input says so
    have = t->offset;
  } else if (s->dim >= 0) {
    if (!t->storage || s->dim >= t->rank) return TC_OK; // check_input says so
    have = t->sizes[s->dim];
  } else {
    TC_TRY(read_integer(in, t, &have));
  }
  if ((have - s->rest) % s->coeff)
    return tc_error(TC_STATUS_INVALID_ARGUMENT,
                    "size %lld at index %d of input '" TC_SV_FMT "' does not fit the program's %lld*s + %lld",
                    (long long)have, s->dim, TC_SV_ARG(in->target), (long long)s->coeff, (long long)s->rest);
  *out = (have - s->rest) / s->coeff;
  const tc_sym_info *info = tc_sym_info_read(e->plan->syms, tc_sym_symbol_at(e->plan->syms, s->symbol));
  if (*out < info->lo || *out > info->hi)
    return tc_error(TC_STATUS_INVALID_ARGUMENT,
                    "size %lld at index %d of input '" TC_SV_FMT "' lies outside the program's range [%lld, %lld]",
                    (long long)have, s->dim, TC_SV_ARG(in->target), (long long)info->lo, (long long)info->hi);
  return TC_OK;
}

// A condition that the inputs break, in words. The text needs memory; without any the number must do.
typedef struct condition_text {
  tc_arena *arena;
  const tc_sym *condition;
  tc_status status;
} condition_text;
static tc_status print_condition(void *arg) {
  condition_text *c = arg;
  tc_sb sb = tc_sb_make(c->arena);
  tc_sym_print(&sb, c->condition);
  c->status = tc_error(TC_STATUS_INVALID_ARGUMENT, "the inputs do not meet the program's condition %s", sb.text);
  return TC_OK;
}

static tc_status broken(const tc_exec *e, int32_t k) {
  condition_text c = {.condition = e->require_text[k]};
  tc_status s = tc_arena_create(e->d->allocator, &c.arena);
  if (s == TC_OK) s = tc_arena_guard(c.arena, print_condition, &c);
  tc_arena_destroy(c.arena);
  tc_status_free(s);
  return c.status != TC_OK
             ? c.status
             : tc_error(TC_STATUS_INVALID_ARGUMENT, "the inputs do not meet the program's condition number %d", k);
}

// Symbols that are not known stay INT64_MIN; a condition on one of them is not checked here.
static bool all_known(const tc_sym *x, const int64_t *symbols) {
  if (x->kind == TC_SYM_SYMBOL) return symbols[x->symbol] != INT64_MIN;
  for (int32_t i = 0; i < x->n; i++) {
    if (!all_known(x->kids[i], symbols)) return false;
  }
  return true;
}

static int64_t part_of(uint64_t whole, int32_t part) {
  return (int64_t)(whole >> (part * TC_SYM_SEED_BITS) & ((1 << TC_SYM_SEED_BITS) - 1));
}

bool exec_seed_of(const tc_exec *e, const int64_t *symbols, uint64_t *out) {
  bool any = false;
  *out = 0;
  for (int32_t k = 0; k < e->sources.count; k++) {
    const symbol_source *s = &e->sources.data[k];
    if (s->input >= 0 || s->dim >= TC_SYM_SEEDS) continue;
    *out |= (uint64_t)symbols[s->symbol] << (s->dim * TC_SYM_SEED_BITS);
    any = true;
  }
  return any;
}

void exec_set_seed(const tc_exec *e, uint64_t seed, int64_t *symbols) {
  for (int32_t k = 0; k < e->sources.count; k++) {
    const symbol_source *s = &e->sources.data[k];
    if (s->input < 0 && s->dim < TC_SYM_SEEDS) symbols[s->symbol] = part_of(seed, s->dim);
  }
}

static tc_status bind(const tc_exec *e, const tc_tensor *inputs, const tc_run_options *o, int64_t *symbols,
                      bool strides) {
  for (int32_t i = 0; i < e->n_symbols; i++) symbols[i] = o->symbols && i < o->n_symbols ? o->symbols[i] : INT64_MIN;
  for (int32_t k = 0; k < e->sources.count; k++) {
    const symbol_source *s = &e->sources.data[k];
    if (s->input < 0) {
      bool seed = s->dim < TC_SYM_SEEDS;
      symbols[s->symbol] = part_of(seed ? o->seed : o->stream, seed ? s->dim : s->dim - TC_SYM_SEEDS);
      continue;
    }
    TC_TRY(read_source(e, s, &inputs[s->input], &symbols[s->symbol]));
  }
  for (int32_t i = 0; e->plan->graph && i < e->plan->graph->inputs.count; i++) {
    const tc_value *v = e->plan->graph->inputs.data[i].value;
    if (v && v->kind == TC_VALUE_TENSOR) TC_TRY(check_input(e, i, &inputs[i], symbols, strides));
    if (v && v->kind == TC_VALUE_SYM && tc_sym_is_const(v->symbol))
      TC_TRY(check_number(&e->plan->graph->inputs.data[i], &inputs[i]));
  }
  for (int32_t k = 0; k < e->requires_.count; k++) {
    int64_t ok;
    if (!all_known(e->require_text[k], symbols)) continue;
    TC_TRY(exec_value(&e->requires_.data[k], symbols, &ok));
    if (!ok) return broken(e, k);
  }
  return e->plan->graph ? tc_graph_check(e->plan->graph, e->n_symbols, symbols, NULL) : TC_OK;
}

tc_status exec_bind_symbols(const tc_exec *e, const tc_tensor *inputs, const tc_run_options *o, int64_t *symbols) {
  return bind(e, inputs, o, symbols, true);
}

tc_status tc_exec_takes(const tc_exec *e, const tc_tensor *inputs, const tc_run_options *o) {
  enum { FEW_SYMBOLS = 64 };
  int64_t few[FEW_SYMBOLS], *symbols = few;
  if (e->n_symbols > FEW_SYMBOLS) symbols = tc_alloc(e->d->allocator, (size_t)e->n_symbols * sizeof *symbols);
  if (!symbols) return tc_error_out_of_memory();
  tc_status s = bind(e, inputs, o, symbols, false);
  if (symbols != few) tc_free(e->d->allocator, symbols);
  return s;
}
