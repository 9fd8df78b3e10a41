// What an executable's sizes came to in its last run, for the runs that come with the same ones.
//
// A run of symbolic sizes checks its inputs, solves for the symbols and evaluates dozens of expressions over them:
// where blocks begin, how many there are, what kernels get as scalars. All of that follows from the sizes and strides
// of its inputs, and most runs come with those of the run before. So an executable remembers one set: a key (what was
// checked of the inputs), the symbols and the expressions' values by slot; a run whose key is equal takes them over.
// What a run did not need to know (INT64_MIN) is evaluated by the next that does.
//
// Not for plans with symbols from elsewhere than sizes: seeds, numbers among the inputs, numbers that are read while
// they run.
//
// The set is a seqlock: `sequence` is odd while one thread writes; readers copy and look whether it was the same before
// and behind. Words are loaded with acquire and stored with release, so that whoever sees a new word sees the odd
// sequence, too. Who finds it being written does without.
#include "core/runtime/exec_internal.h"

struct exec_last {
  uint32_t sequence;
  int32_t n_key;
  bool offsets;   // where tensors start tells symbols, too
  int64_t *words; // the key, the symbols by source, the numbers
};

static bool from_sizes(const tc_exec *e, int32_t symbol) {
  int32_t origin = tc_sym_info_read(e->plan->syms, tc_sym_symbol_at(e->plan->syms, symbol))->origin;
  if (origin != TC_SYM_BACKED && origin != TC_SYM_UNBACKED) return true; // of no run
  for (int32_t k = 0; k < e->sources.count; k++)
    if (e->sources.data[k].symbol == symbol) return true;
  return false;
}

static bool suits(const tc_exec *e) {
  const tc_plan *p = e->plan;
  for (int32_t i = 0; i < p->ops.count; i++)
    if (e->ops[i].control) return false;
  for (int32_t k = 0; k < e->sources.count; k++)
    if (e->sources.data[k].input < 0 || e->sources.data[k].dim == -1) return false;
  for (int32_t i = 0; i < p->graph->inputs.count; i++) {
    const tc_value *v = p->graph->inputs.data[i].value;
    if (v && v->kind != TC_VALUE_TENSOR && v->kind != TC_VALUE_TOKEN) return false;
  }
  for (int32_t s = 0; s < e->n_symbols; s++)
    if (!from_sizes(e, s)) return false;
  return true;
}

static const tc_tensor_type *type_of(const tc_exec *e, int32_t input) {
  const tc_value *v = e->plan->graph->inputs.data[input].value;
  return v && v->kind == TC_VALUE_TENSOR ? &v->type : NULL;
}

void exec_last_prepare(tc_exec *e) {
  if (!e->plan->graph || !suits(e)) return;
  exec_last *x = TC_NEW(e->arena, exec_last);
  for (int32_t i = 0; i < e->plan->graph->inputs.count; i++)
    if (type_of(e, i)) x->n_key += 2 + 2 * type_of(e, i)->rank;
  for (int32_t k = 0; k < e->sources.count; k++) x->offsets |= e->sources.data[k].dim == SOURCE_OFFSET;
  x->words = TC_NEW_ARRAY(e->arena, int64_t, x->n_key + e->sources.count + e->n_numbers + 1);
  e->last = x;
}

int32_t exec_last_numbers(const tc_exec *e) { return e->last ? e->n_numbers : 0; }

void exec_last_begin(run_state *r) {
  for (int32_t i = 0; r->numbers && i < r->e->n_numbers; i++) r->numbers[i] = INT64_MIN;
}

// ---- The key ----
static int64_t kind_of(const tc_tensor *t) {
  return (int64_t)t->dtype | (int64_t)t->rank << 16 | (int64_t)t->conj << 32 | (int64_t)t->neg << 33 | INT64_C(1) << 34;
}
static int64_t start_of(const exec_last *x, const tc_tensor *t) { return x->offsets ? t->offset : 0; }

static int64_t load_word(const int64_t *at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }
static void store_word(int64_t *at, int64_t v) { __atomic_store_n(at, v, __ATOMIC_RELEASE); }

static bool has_key(const tc_exec *e, const tc_tensor *inputs) {
  const exec_last *x = e->last;
  const int64_t *at = x->words;
  for (int32_t i = 0; i < e->plan->graph->inputs.count; i++) {
    const tc_tensor_type *type = type_of(e, i);
    const tc_tensor *t = &inputs[i];
    if (!type) continue;
    if (!t->storage || t->rank != type->rank) return false;
    if (load_word(at) != kind_of(t) || load_word(at + 1) != start_of(x, t)) return false;
    at += 2;
    for (int32_t d = 0; d < t->rank; d++, at += 2)
      if (load_word(at) != t->sizes[d] || load_word(at + 1) != t->strides[d]) return false;
  }
  return true;
}

static void store_key(const tc_exec *e, const tc_tensor *inputs) {
  int64_t *at = e->last->words;
  for (int32_t i = 0; i < e->plan->graph->inputs.count; i++) {
    const tc_tensor *t = &inputs[i];
    if (!type_of(e, i)) continue;
    store_word(at++, kind_of(t));
    store_word(at++, start_of(e->last, t));
    for (int32_t d = 0; d < t->rank; d++) {
      store_word(at++, t->sizes[d]);
      store_word(at++, t->strides[d]);
    }
  }
}

// ---- Taking and leaving ----
bool exec_last_take(run_state *r) {
  const tc_exec *e = r->e;
  const exec_last *x = e->last;
  if (!x) return false;
  uint32_t before = __atomic_load_n(&x->sequence, __ATOMIC_ACQUIRE);
  if (before == 0 || before & 1 || !has_key(e, r->inputs)) return false;
  const int64_t *at = x->words + x->n_key;
  for (int32_t i = 0; i < e->n_symbols; i++) r->symbols[i] = INT64_MIN;
  for (int32_t k = 0; k < e->sources.count; k++) r->symbols[e->sources.data[k].symbol] = load_word(at++);
  for (int32_t i = 0; i < e->n_numbers; i++) r->numbers[i] = load_word(at++);
  return __atomic_load_n(&x->sequence, __ATOMIC_RELAXED) == before;
}

void exec_last_leave(const run_state *r) {
  const tc_exec *e = r->e;
  exec_last *x = e->last;
  if (!x) return;
  uint32_t before = __atomic_load_n(&x->sequence, __ATOMIC_RELAXED);
  if (before & 1 ||
      !__atomic_compare_exchange_n(&x->sequence, &before, before + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
    return;
  store_key(e, r->inputs);
  int64_t *at = x->words + x->n_key;
  for (int32_t k = 0; k < e->sources.count; k++) store_word(at++, r->symbols[e->sources.data[k].symbol]);
  for (int32_t i = 0; i < e->n_numbers; i++) store_word(at++, r->numbers[i]);
  __atomic_store_n(&x->sequence, before + 2, __ATOMIC_RELEASE);
}
