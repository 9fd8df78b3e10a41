// The cache of single ops. A bucket holds the entries of one op with the same arguments besides operands; an entry is a
// graph of one node behind guards, either compiled or, for views, the expressions of the results' sizes and strides.
//
// Numbers are operands where an op does nothing but arithmetic with them, which its row says: it is a scalar text, or
// fills with a number. Should such an entry not come about, the bucket says so, and the values are part of the key.
//
// An op keeps a bounded number of entries (option eager.max_entries). Beyond it the one that was not used for longest
// goes; a run holds a reference, so that what goes stays until the last run of it ends.
#include <math.h>
#include <string.h>

#include "core/runtime/eager_internal.h"

tc_status tc_eager_create(tc_context *c, tc_eager **out) {
  tc_eager *e = tc_alloc(c->allocator, sizeof *e);
  if (!e) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for the cache of ops");
  e->context = c;
  e->max_entries = (int32_t)tc_config_int(c->config, TC_OPT_ID_EAGER_ENTRIES);
  pthread_rwlock_init(&e->lock, NULL);
  pthread_mutex_init(&e->compile, NULL);
  *out = e;
  return TC_OK;
}

static void free_bucket(tc_eager *e, eager_bucket *b) {
  tc_free(e->context->allocator, b->key);
  tc_free(e->context->allocator, b);
}

void tc_eager_destroy(tc_eager *e) {
  if (!e) return;
  eager_steps_destroy(e);
  for (int32_t i = 0; i < N_BUCKETS; i++) {
    for (eager_bucket *b = e->buckets[i], *next; b; b = next) {
      next = b->next;
      for (eager_entry *x = b->entries, *after; x; x = after) {
        after = x->next;
        eager_entry_unref(e, x);
      }
      free_bucket(e, b);
    }
    for (eager_op *o = e->ops[i], *next; o; o = next) {
      next = o->next;
      tc_free(e->context->allocator, o);
    }
  }
  pthread_rwlock_destroy(&e->lock);
  pthread_mutex_destroy(&e->compile);
  tc_free(e->context->allocator, e);
}

// ---- keys ----
void eager_key_put(eager_key *k, const void *data, size_t size) {
  if (k->size + size > sizeof k->bytes) {
    k->full = true;
    return;
  }
  if (size) memcpy(k->bytes + k->size, data, size);
  k->size += size;
}

// The smallest and the largest integer stand for "unknown" and "no bound" where integers are symbols.
static bool can_be_symbol(int64_t v) { return v > INT64_MIN && v < INT64_MAX; }

static bool holds(tc_dtype d, double v) {
  char c = tc_dtype_class(d);
  int32_t bits = tc_dtype_size(d) * 8;
  if (c == 'f' || c == 'c') return isinf(v) || isnan(v) || fabs(v) <= tc_dtype_largest(d);
  return c == 'b' || (c == 'i' ? v >= -ldexp(1, bits - 1) && v < ldexp(1, bits - 1) : v >= 0 && v < ldexp(1, bits));
}

// A number that some dtype of the call cannot hold is a constant: whether it wraps or is refused is the op's to say,
// and its meta function sees constants only.
static bool all_hold(const eager_call *call, double v) {
  enum { ANY_HOLDS = 127 };
  if (v >= 0 && v <= ANY_HOLDS) return true;
  for (int32_t i = 0; i < call->n_tensors; i++)
    if (call->tensors[i].storage && !holds(call->tensors[i].dtype, v)) return false;
  for (int32_t i = 0; i < call->n_args; i++)
    if (call->args[i].kind == TC_ARGUMENT_DTYPE && !holds((tc_dtype)call->args[i].v.integer, v)) return false;
  return true;
}

bool eager_is_number(const eager_call *call, int32_t i) {
  const tc_argument *a = &call->args[i];
  const tc_schema_arg *s = &call->op->schema.args[i];
  if (!call->numbers || s->is_list) return false;
  bool any = s->type == TC_ST_SCALAR || s->type == TC_ST_TENSOR; // a number in a tensor's place, too
  if (a->kind == TC_ARGUMENT_REAL) return (any || s->type == TC_ST_FLOAT) && all_hold(call, a->v.parts[0]);
  return a->kind == TC_ARGUMENT_INT && any && can_be_symbol(a->v.integer) && all_hold(call, (double)a->v.integer);
}

// May the numbers of a call be operands? Reals are to meet floats, or to fill: what integers make of a real depends on
// its value.
static bool takes_numbers(eager_call *call) {
  bool any = false, real = false, floats = false;
  call->numbers = true;
  for (int32_t i = 0; i < call->n_args; i++) {
    bool number = eager_is_number(call, i);
    any |= number, real |= number && call->args[i].kind == TC_ARGUMENT_REAL;
  }
  for (int32_t i = 0; i < call->n_tensors; i++) {
    const tc_tensor *t = &call->tensors[i];
    floats |= t->storage && (tc_dtype_is_float(t->dtype) || tc_dtype_is_complex(t->dtype));
  }
  if (!any) return false;
  const tc_op *of = tc_op_functional(call->e->context->ops, call->op);
  if (!of) of = call->op;
  return tc_op_takes_numbers(of) && (!real || floats || !of->body.n_results);
}

bool eager_counts_storage(const eager_call *call) {
  for (int32_t i = 0; i < call->n_args; i++)
    if (call->args[i].kind != TC_ARGUMENT_NONE && tc_sv_is(call->op->schema.args[i].name, "storage_offset"))
      return call->n_tensors > 0 && call->tensors[0].storage;
  return false;
}

void eager_key_of(eager_key *k, const eager_call *call) {
  k->size = 0, k->full = false;
  if (eager_counts_storage(call)) eager_key_put(k, &call->tensors[0].offset, sizeof call->tensors[0].offset);
  for (int32_t i = 0; i < call->n_args; i++) {
    const tc_argument *a = &call->args[i];
    int32_t head[2] = {a->kind, a->n};
    bool operand = eager_is_number(call, i);
    if (operand) head[1] = -1; // another key than that of a value
    eager_key_put(k, head, sizeof head);
    if (operand) continue;
    size_t n = (size_t)(a->n > 0 ? a->n : 0);
    switch (a->kind) {
    case TC_ARGUMENT_INTS: eager_key_put(k, a->v.integers, n * sizeof(int64_t)); break;
    case TC_ARGUMENT_REALS: eager_key_put(k, a->v.reals, n * sizeof(double)); break;
    case TC_ARGUMENT_BOOLS: eager_key_put(k, a->v.bools, n); break;
    case TC_ARGUMENT_TEXT: eager_key_put(k, a->v.text, strlen(a->v.text) + 1); break;
    case TC_ARGUMENT_REAL:
    case TC_ARGUMENT_COMPLEX: eager_key_put(k, a->v.parts, sizeof a->v.parts); break;
    case TC_ARGUMENT_INT:
    case TC_ARGUMENT_BOOL:
    case TC_ARGUMENT_DTYPE:
    case TC_ARGUMENT_MEMORY_FORMAT: eager_key_put(k, &a->v.integer, sizeof a->v.integer); break;
    default: break;
    }
  }
}

// ---- running ----
static tc_status run_views(const eager_entry *x, const tc_tensor *tensors, const int64_t *symbols, tc_tensor *out) {
  for (int32_t i = 0; i < x->n_results; i++) {
    const eager_view *v = &x->views[i];
    const tc_tensor *t = &tensors[v->operand];
    int64_t sizes[TC_MAX_RANK], strides[TC_MAX_RANK], offset;
    for (int32_t d = 0; d < v->rank; d++) {
      TC_TRY(tc_sym_run(v->sizes[d], symbols, &sizes[d]));
      TC_TRY(tc_sym_run(v->strides[d], symbols, &strides[d]));
    }
    TC_TRY(tc_sym_run(v->offset, symbols, &offset));
    int64_t from = tc_dtype_size(t->dtype), to = tc_dtype_size(v->dtype);
    if (t->offset * from % to)
      return tc_error(TC_STATUS_INVALID_ARGUMENT,
                      "a view as %s: the tensor begins %lld bytes behind a multiple of %lld",
                      tc_dtype_torch_name(v->dtype), (long long)(t->offset * from % to), (long long)to);
    TC_TRY(tc_tensor_view(t->storage, v->dtype, v->rank, sizes, strides,
                          offset + (v->absolute ? 0 : t->offset * from / to), &out[i]));
    out[i].conj = v->conj, out[i].neg = t->neg;
  }
  return TC_OK;
}

// The numbers that are operands, as tensors of no dimensions behind the call's tensors. They share one storage, of
// which *numbers is a reference; NULL: there are none.
static tc_status put_numbers(const eager_call *call, int32_t n, tc_tensor *inputs, tc_storage **numbers) {
  enum { APART = 16 }; // bytes: what kernels want inputs to be aligned to
  int32_t k = 0;
  *numbers = NULL;
  if (n == 0) return TC_OK;
  TC_TRY(tc_storage_create(call->e->context->allocator, (size_t)n * APART, numbers));
  for (int32_t i = 0; i < call->n_args; i++) {
    const tc_argument *a = &call->args[i];
    if (!eager_is_number(call, i)) continue;
    bool real = a->kind == TC_ARGUMENT_REAL;
    memcpy((char *)(*numbers)->data + (size_t)k * APART, real ? (const void *)&a->v.parts[0] : &a->v.integer, 8);
    inputs[k] = (tc_tensor){.storage = *numbers, .dtype = real ? TC_F64 : TC_I64, .offset = k * (APART / 8)};
    k++;
  }
  return TC_OK;
}

// What is no view by its schema has memory of its own, also where the graph found that nothing was to be done (a
// clone).
static tc_status own_memory(const eager_call *call, int32_t result, tc_tensor *t) {
  bool shared = false;
  if (result < call->op->schema.n_returns && call->op->schema.returns[result].alias) return TC_OK;
  for (int32_t i = 0; i < call->n_tensors && t->storage; i++) shared |= call->tensors[i].storage == t->storage;
  if (!shared) return TC_OK;
  tc_tensor copy;
  TC_TRY(tc_tensor_create_strided(call->e->context->allocator, t->dtype, t->rank, t->sizes, t->strides, &copy));
  tc_status s = tc_tensor_copy(t, &copy);
  tc_tensor_unref(s == TC_OK ? t : &copy);
  if (s == TC_OK) *t = copy;
  return s;
}

static tc_status run_session(const eager_call *call, const eager_entry *x, tc_session_run_options o, tc_tensor *out) {
  const tc_eager *e = call->e;
  tc_tensor few[FEW_TENSORS], *all = few;
  tc_storage *numbers;
  int32_t need = x->n_inputs + x->n_graph_outputs, k = 0;
  if (need > FEW_TENSORS && !(all = tc_alloc(e->context->allocator, (size_t)need * sizeof *all)))
    return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a call");
  for (int32_t i = 0; i < call->n_tensors; i++) {
    if (call->tensors[i].storage) all[k++] = call->tensors[i];
  }
  tc_tensor *made = all + x->n_inputs;
  tc_status s = put_numbers(call, x->n_inputs - k, all + k, &numbers);
  if (s == TC_OK) s = tc_session_run(x->session, all, made, &o);
  for (int32_t i = 0; i < x->n_results && s == TC_OK; i++) {
    if (x->written[i] >= 0) out[i] = tc_tensor_ref(&call->tensors[x->written[i]]);
    else if (x->outputs[i] >= 0) out[i] = tc_tensor_ref(&made[x->outputs[i]]);
    if (x->written[i] < 0 && out[i].storage) s = own_memory(call, i, &out[i]);
  }
  for (int32_t i = 0; i < x->n_graph_outputs && s == TC_OK; i++) tc_tensor_unref(&made[i]);
  tc_storage_unref(numbers);
  if (all != few) tc_free(e->context->allocator, all);
  return s;
}

static tc_status run_entry(const eager_call *call, const eager_entry *x, const int64_t *symbols, tc_tensor **out,
                           int32_t *out_n) {
  const tc_eager *e = call->e;
  tc_tensor *made = tc_alloc(e->context->allocator, (size_t)(x->n_results + 1) * sizeof *made);
  if (!made) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a call");
  tc_session_run_options o = {.write_back = true};
  // A view, too, that others of the op's calls are not: in a graph its node has a place among those that draw.
  if (x->n_random) tc_context_draw(e->context, x->n_random, &o.seed, &o.stream);
  tc_status s = x->session ? run_session(call, x, o, made) : run_views(x, call->tensors, symbols, made);
  if (s != TC_OK) {
    for (int32_t i = 0; i < x->n_results; i++) tc_tensor_unref(&made[i]);
    tc_free(e->context->allocator, made);
    return s;
  }
  *out = made;
  *out_n = x->n_results;
  return TC_OK;
}

// ---- finding ----
static eager_bucket *find_bucket(const tc_eager *e, uint64_t hash, const tc_op *op, const eager_key *k) {
  for (eager_bucket *b = e->buckets[hash % N_BUCKETS]; b; b = b->next) {
    bool same = b->hash == hash && b->owner->op == op && b->key_size == k->size;
    if (same && memcmp(b->key, k->bytes, k->size) == 0) return b;
  }
  return NULL;
}

// A call's key, and the hash of both.
typedef struct call_key {
  eager_key key;
  uint64_t hash;
} call_key;

static void key_of(call_key *k, const eager_call *call) {
  eager_key_of(&k->key, call);
  k->hash = tc_hash_mix(tc_hash(k->key.bytes, k->key.size), (uint64_t)(uintptr_t)call->op);
}

// The entry for a call, with a reference; NULL: none. `symbols` gets its values. Where numbers turned out not to be
// operands, the call and its key are changed.
static eager_entry *find_entry(eager_call *call, call_key *k, uint64_t now, int64_t *symbols) {
  tc_eager *e = call->e;
  pthread_rwlock_rdlock(&e->lock);
  eager_bucket *b = find_bucket(e, k->hash, call->op, &k->key);
  if (b && b->by_value) {
    call->numbers = false;
    key_of(k, call);
    b = find_bucket(e, k->hash, call->op, &k->key);
  }
  eager_entry *x = b ? b->entries : NULL;
  while (x && tc_guards_check(x->guards, call->tensors, symbols).kind != TC_GUARD_HOLDS) x = x->next;
  if (x) {
    __atomic_fetch_add(&x->refs, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&x->used, now, __ATOMIC_RELAXED);
  }
  pthread_rwlock_unlock(&e->lock);
  return x;
}

// ---- keeping ----
// What follows changes the tables: by the thread that holds `compile`, under the lock.
static eager_op *op_of(tc_eager *e, const tc_op *op) {
  eager_op **at = &e->ops[(uintptr_t)op / sizeof *op % N_BUCKETS];
  for (eager_op *o = *at; o; o = o->next)
    if (o->op == op) return o;
  eager_op *o = tc_alloc(e->context->allocator, sizeof *o);
  if (!o) return NULL;
  *o = (eager_op){.next = *at, .op = op};
  return *at = o;
}

static eager_bucket *bucket_of(tc_eager *e, eager_op *o, uint64_t hash, const eager_key *k) {
  eager_bucket *b = find_bucket(e, hash, o->op, k);
  if (b) return b;
  b = tc_alloc(e->context->allocator, sizeof *b);
  void *key = b ? tc_alloc(e->context->allocator, k->size + 1) : NULL;
  if (!key) {
    tc_free(e->context->allocator, b);
    return NULL;
  }
  memcpy(key, k->bytes, k->size);
  *b = (eager_bucket){.owner = o, .hash = hash, .key = key, .key_size = k->size};
  b->next = e->buckets[hash % N_BUCKETS], e->buckets[hash % N_BUCKETS] = b;
  b->next_of_op = o->buckets, o->buckets = b;
  return b;
}

static void remove_bucket(tc_eager *e, eager_bucket *b) {
  eager_bucket **at = &e->buckets[b->hash % N_BUCKETS];
  while (*at != b) at = &(*at)->next;
  *at = b->next;
  at = &b->owner->buckets;
  while (*at != b) at = &(*at)->next_of_op;
  *at = b->next_of_op;
  free_bucket(e, b);
}

// Takes the entry of the op that was not used for longest out of the tables.
static eager_entry *take_oldest(tc_eager *e, eager_op *o) {
  eager_bucket *of = NULL;
  eager_entry **oldest = NULL;
  for (eager_bucket *b = o->buckets; b; b = b->next_of_op) {
    for (eager_entry **x = &b->entries; *x; x = &(*x)->next) {
      if (oldest && (*oldest)->used <= __atomic_load_n(&(*x)->used, __ATOMIC_RELAXED)) continue;
      oldest = x, of = b;
    }
  }
  if (!oldest) return NULL;
  eager_entry *x = *oldest;
  *oldest = x->next;
  o->n_entries--;
  if (!of->entries) remove_bucket(e, of);
  return x;
}

// Puts a new entry into the tables, which take a reference of their own. Where memory is short it is run once only.
static void keep(const eager_call *call, const call_key *k, eager_entry *x) {
  tc_eager *e = call->e;
  eager_entry *gone = NULL;
  bool say = false;
  pthread_rwlock_wrlock(&e->lock);
  eager_op *o = op_of(e, call->op);
  if (o && o->n_entries >= e->max_entries) {
    gone = take_oldest(e, o);
    say = !o->said;
    o->said = true;
  }
  eager_bucket *b = o ? bucket_of(e, o, k->hash, &k->key) : NULL;
  if (b) {
    x->refs = 2; // nobody else has it yet
    x->next = b->entries, b->entries = x;
    o->n_entries++;
  }
  pthread_rwlock_unlock(&e->lock);
  eager_entry_unref(e, gone);
  if (say)
    tc_log(&e->context->logger, TC_LOG_PERF_HINTS,
           TC_SV_FMT " is used in more than %d ways (eager.max_entries): it is compiled again and again",
           TC_SV_ARG(call->op->full_name), e->max_entries);
}

// Does the entry hold for the call that it was made for, within the room that there is?
static bool fits(const eager_entry *x, const eager_call *call, int64_t *symbols) {
  return tc_guards_symbol_count(x->guards) <= FEW_SYMBOLS &&
         tc_guards_check(x->guards, call->tensors, symbols).kind == TC_GUARD_HOLDS;
}

// An entry with symbolic sizes; where an op cannot do with them, for the sizes of the call.
static tc_status build(eager_call *call, int64_t *symbols, eager_entry **out) {
  tc_status s = eager_build(call, true, out);
  if (s == TC_OK && fits(*out, call, symbols)) return TC_OK;
  if (tc_status_code(s) == TC_STATUS_OUT_OF_MEMORY) return s;
  if (s == TC_OK) eager_entry_unref(call->e, *out);
  tc_status_free(s);
  TC_TRY(eager_build(call, false, out));
  if (fits(*out, call, symbols)) return TC_OK;
  eager_entry_unref(call->e, *out);
  return tc_error(TC_STATUS_INTERNAL, "what was compiled for a call of " TC_SV_FMT " does not hold for it",
                  TC_SV_ARG(call->op->full_name));
}

// The same with numbers as operands. *out NULL: the device does not do it so.
static tc_status build_with_numbers(eager_call *call, int64_t *symbols, eager_entry **out) {
  tc_status s = eager_build(call, true, out);
  if (s != TC_OK) {
    *out = NULL;
    if (tc_status_code(s) == TC_STATUS_OUT_OF_MEMORY) return s;
    tc_status_free(s);
    return TC_OK;
  }
  const tc_session *run = (*out)->session;
  bool left = run && tc_session_stats_of(run)->fallbacks > 0 && !call->e->context->is_ref;
  if (!left && fits(*out, call, symbols)) return TC_OK;
  eager_entry_unref(call->e, *out);
  *out = NULL;
  return TC_OK;
}

static void mark_by_value(const eager_call *call, const call_key *k) {
  tc_eager *e = call->e;
  pthread_rwlock_wrlock(&e->lock);
  eager_op *o = op_of(e, call->op);
  eager_bucket *b = o ? bucket_of(e, o, k->hash, &k->key) : NULL;
  if (b) b->by_value = true;
  pthread_rwlock_unlock(&e->lock);
}

// Makes the entry for a call and keeps it.
static tc_status make_entry(eager_call *call, call_key *k, uint64_t now, int64_t *symbols, eager_entry **out) {
  *out = NULL;
  if (call->numbers) TC_TRY(build_with_numbers(call, symbols, out));
  if (!*out) {
    bool tried = call->numbers;
    call->numbers = false;
    TC_TRY(build(call, symbols, out));
    if (tried) { // it was not the call's fault
      mark_by_value(call, k);
      key_of(k, call);
    }
  }
  (*out)->used = now;
  keep(call, k, *out);
  return TC_OK;
}

// The entry for a call, with a reference that is the caller's.
static tc_status entry_for(eager_call *call, uint64_t now, int64_t *symbols, eager_entry **out) {
  call_key k;
  key_of(&k, call);
  if (k.key.full) { // too long to be worth keeping
    call->numbers = false;
    return build(call, symbols, out);
  }
  *out = find_entry(call, &k, now, symbols);
  if (*out) return TC_OK;
  tc_status s = TC_OK;
  pthread_mutex_lock(&call->e->compile);
  *out = find_entry(call, &k, now, symbols); // another thread may have been first
  if (!*out) s = make_entry(call, &k, now, symbols, out);
  pthread_mutex_unlock(&call->e->compile);
  return s;
}

static tc_status run_flat(eager_call *call, uint64_t now, tc_tensor **out, int32_t *out_n) {
  int64_t symbols[FEW_SYMBOLS];
  eager_entry *x;
  TC_TRY(entry_for(call, now, symbols, &x));
  tc_status s = run_entry(call, x, symbols, out, out_n);
  eager_entry_unref(call->e, x);
  return s;
}

tc_status tc_eager_run(tc_eager *e, const tc_op *op, int32_t n_args, const tc_argument *args, tc_tensor **out,
                       int32_t *out_n) {
  if (n_args > op->schema.n_args)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT " takes %d arguments, %d are given", TC_SV_ARG(op->full_name),
                    op->schema.n_args, n_args);
  uint64_t now = (uint64_t)__atomic_add_fetch(&e->calls, 1, __ATOMIC_RELAXED);
  int64_t n = 0;
  for (int32_t i = 0; i < n_args; i++) {
    if (args[i].kind == TC_ARGUMENT_TENSOR) n++;
    else if (args[i].kind == TC_ARGUMENT_TENSORS) n += args[i].n;
  }
  tc_tensor few[FEW_TENSORS], *flat = few;
  if (n > FEW_TENSORS && !(flat = tc_alloc(e->context->allocator, (size_t)n * sizeof *flat)))
    return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a call");
  int32_t k = 0;
  for (int32_t i = 0; i < n_args; i++) {
    if (args[i].kind == TC_ARGUMENT_TENSOR) {
      if (args[i].v.tensor) flat[k] = *args[i].v.tensor;
      else flat[k].storage = NULL;
      k++;
    }
    for (int32_t j = 0; args[i].kind == TC_ARGUMENT_TENSORS && j < args[i].n; j++, k++) {
      if (args[i].v.tensors[j]) flat[k] = *args[i].v.tensors[j];
      else flat[k].storage = NULL;
    }
  }
  eager_call call = {.e = e, .op = op, .n_args = n_args, .args = args, .n_tensors = (int32_t)n, .tensors = flat};
  call.numbers = takes_numbers(&call);
  tc_status s = run_flat(&call, now, out, out_n);
  if (flat != few) tc_free(e->context->allocator, flat);
  return s;
}

tc_eager_stats tc_eager_stats_of(tc_eager *e) {
  return (tc_eager_stats){__atomic_load_n(&e->calls, __ATOMIC_RELAXED), __atomic_load_n(&e->compiles, __ATOMIC_RELAXED),
                          __atomic_load_n(&e->kernels, __ATOMIC_RELAXED), __atomic_load_n(&e->hits, __ATOMIC_RELAXED)};
}
