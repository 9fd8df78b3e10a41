// The cache of single ops. A bucket holds the entries of one op with the same arguments besides tensors; an entry is a
// graph of one node behind guards, either compiled or, for views, the expressions of the results' sizes and strides.
#include "core/runtime/eager.h"

#include <pthread.h>
#include <string.h>

#include "core/guards/guards.h"
#include "core/runtime/session.h"

enum { MAX_ENTRIES = 64, FEW_TENSORS = 8, FEW_SYMBOLS = 64, N_BUCKETS = 1024 };

// A result that shares the memory of an operand.
typedef struct view_result {
  int32_t operand; // flat number of the tensor
  tc_dtype dtype;
  int32_t rank;
  bool conj;
  tc_sym_code sizes[TC_MAX_RANK], strides[TC_MAX_RANK], offset;
} view_result;

typedef struct entry {
  struct entry *next;
  tc_module *module;
  tc_guards *guards;
  tc_session *session;      // NULL for views
  const view_result *views; // views
  const int32_t *outputs;   // results as graph outputs: their numbers; -1: absent
  const int32_t *written;   // results that are operands written to: their numbers; -1: none
  int32_t n_results, n_graph_outputs, n_inputs;
} entry;

typedef struct bucket {
  struct bucket *next;
  uint64_t hash;
  const tc_op *op;
  void *key;
  size_t key_size;
  entry *entries; // published with release order
  int32_t n_entries;
} bucket;

struct tc_eager {
  tc_context *context;
  pthread_rwlock_t lock; // of the table
  pthread_mutex_t compile;
  bucket *buckets[N_BUCKETS];
  int64_t calls, compiles; // atomic
};

tc_status tc_eager_create(tc_context *c, tc_eager **out) {
  tc_eager *e = tc_alloc(c->allocator, sizeof *e);
  if (!e) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for the cache of ops");
  e->context = c;
  pthread_rwlock_init(&e->lock, NULL);
  pthread_mutex_init(&e->compile, NULL);
  *out = e;
  return TC_OK;
}

static void entry_destroy(tc_eager *e, entry *x) {
  if (!x) return;
  tc_session_destroy(x->session);
  if (x->module) tc_module_destroy(x->module);
  tc_free(e->context->allocator, x);
}

void tc_eager_destroy(tc_eager *e) {
  if (!e) return;
  for (int32_t i = 0; i < N_BUCKETS; i++) {
    for (bucket *b = e->buckets[i], *next; b; b = next) {
      next = b->next;
      for (entry *x = b->entries, *after; x; x = after) {
        after = x->next;
        entry_destroy(e, x);
      }
      tc_free(e->context->allocator, b->key);
      tc_free(e->context->allocator, b);
    }
  }
  pthread_rwlock_destroy(&e->lock);
  pthread_mutex_destroy(&e->compile);
  tc_free(e->context->allocator, e);
}

// ---- keys ----
// The arguments besides tensors, as bytes.
typedef struct key_text {
  size_t size;
  bool full;
  unsigned char bytes[1024];
} key_text;

static void key_put(key_text *k, const void *data, size_t size) {
  if (k->size + size > sizeof k->bytes) {
    k->full = true;
    return;
  }
  if (size) memcpy(k->bytes + k->size, data, size);
  k->size += size;
}

static void key_of(key_text *k, int32_t n_args, const tc_argument *args) {
  k->size = 0, k->full = false;
  for (int32_t i = 0; i < n_args; i++) {
    const tc_argument *a = &args[i];
    int32_t head[2] = {a->kind, a->n};
    key_put(k, head, sizeof head);
    size_t n = (size_t)(a->n > 0 ? a->n : 0);
    switch (a->kind) {
    case TC_ARGUMENT_INTS: key_put(k, a->v.integers, n * sizeof(int64_t)); break;
    case TC_ARGUMENT_REALS: key_put(k, a->v.reals, n * sizeof(double)); break;
    case TC_ARGUMENT_BOOLS: key_put(k, a->v.bools, n); break;
    case TC_ARGUMENT_TEXT: key_put(k, a->v.text, strlen(a->v.text) + 1); break;
    case TC_ARGUMENT_REAL:
    case TC_ARGUMENT_COMPLEX: key_put(k, a->v.parts, sizeof a->v.parts); break;
    case TC_ARGUMENT_INT:
    case TC_ARGUMENT_BOOL:
    case TC_ARGUMENT_DTYPE:
    case TC_ARGUMENT_MEMORY_FORMAT: key_put(k, &a->v.integer, sizeof a->v.integer); break;
    default: break;
    }
  }
}

// ---- arguments of graphs ----
static tc_status list_too_long(const tc_argument *a) {
  return tc_error(TC_STATUS_INVALID_ARGUMENT, "a list of %d elements", a->n);
}

tc_status tc_argument_to_arg(tc_module *m, const tc_argument *a, const tc_schema_arg *schema, tc_arg *out) {
  *out = tc_arg_none();
  if (a->n < 0 || a->n > 1 << 20) return list_too_long(a);
  switch (a->kind) {
  case TC_ARGUMENT_NONE:
  case TC_ARGUMENT_TENSOR:
  case TC_ARGUMENT_TENSORS: return TC_OK;
  case TC_ARGUMENT_INT: *out = tc_arg_sym(tc_sym_int(m->syms, a->v.integer)); return TC_OK;
  case TC_ARGUMENT_INTS: {
    const tc_sym **e = TC_NEW_ARRAY(m->arena, const tc_sym *, a->n + 1);
    for (int32_t i = 0; i < a->n; i++) e[i] = tc_sym_int(m->syms, a->v.integers[i]);
    *out = tc_arg_syms(e, a->n);
    return TC_OK;
  }
  case TC_ARGUMENT_REAL: *out = tc_arg_float(a->v.parts[0]); return TC_OK;
  case TC_ARGUMENT_COMPLEX: *out = tc_arg_complex(a->v.parts[0], a->v.parts[1]); return TC_OK;
  case TC_ARGUMENT_REALS:
    *out = tc_arg_floats(tc_arena_copy(m->arena, a->v.reals, (size_t)a->n * sizeof(double)), a->n);
    return TC_OK;
  case TC_ARGUMENT_BOOL: *out = tc_arg_bool(a->v.integer != 0); return TC_OK;
  case TC_ARGUMENT_BOOLS:
    *out = (tc_arg){.kind = TC_AK_BOOLS, .n = a->n, .bools = tc_arena_copy(m->arena, a->v.bools, (size_t)a->n)};
    return TC_OK;
  case TC_ARGUMENT_TEXT: *out = tc_arg_string(tc_sv_copy(m->arena, tc_sv_of(a->v.text))); return TC_OK;
  case TC_ARGUMENT_DTYPE:
    if (a->v.integer != TC_DTYPE_NONE) *out = tc_arg_dtype((tc_dtype)a->v.integer);
    return TC_OK;
  case TC_ARGUMENT_MEMORY_FORMAT: *out = (tc_arg){.kind = TC_AK_MEMORY_FORMAT, .integer = a->v.integer}; return TC_OK;
  default:
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "argument '" TC_SV_FMT "' is of no known kind (%d)",
                    TC_SV_ARG(schema->name), a->kind);
  }
}

// ---- building entries ----
typedef struct building {
  tc_eager *e;
  const tc_op *op;
  int32_t n_args, n_tensors;
  const tc_argument *args;
  const tc_tensor *tensors; // flat; storage NULL: absent
  bool dynamic;
  entry *x;
} building;

static tc_status make_inputs(building *b, tc_graph *g, tc_value **values) {
  tc_module *m = b->x->module;
  tc_guard_input *how = TC_NEW_ARRAY(m->arena, tc_guard_input, b->n_tensors);
  tc_tensor_type *types = TC_NEW_ARRAY(m->arena, tc_tensor_type, b->n_tensors);
  for (int32_t i = 0; i < b->n_tensors; i++) {
    for (int32_t d = 0; d < TC_MAX_RANK; d++) how[i].marks[d].dynamic = b->dynamic;
    if (b->tensors[i].neg) return tc_error(TC_STATUS_UNIMPLEMENTED, "an operand with the negative bit");
  }
  b->x->guards = tc_guards_create(m->syms, b->n_tensors, b->tensors, how, types);
  for (int32_t i = 0; i < b->n_tensors; i++) {
    if (!b->tensors[i].storage) continue;
    tc_sv name = tc_sv_printf(m->arena, "x%d", i);
    values[i] = tc_graph_add_input(g, TC_IN_USER, name, name, &types[i]);
  }
  return TC_OK;
}

static tc_status make_node(building *b, tc_graph *g, tc_value **values, tc_node **out) {
  tc_module *m = b->x->module;
  const tc_schema *schema = &b->op->schema;
  tc_arg *args = TC_NEW_ARRAY(m->arena, tc_arg, b->n_args + 1);
  int32_t flat = 0;
  for (int32_t i = 0; i < b->n_args; i++) {
    const tc_argument *a = &b->args[i];
    TC_TRY(tc_argument_to_arg(m, a, &schema->args[i], &args[i]));
    if (a->kind == TC_ARGUMENT_TENSOR) {
      if (values[flat]) args[i] = tc_arg_tensor(values[flat]);
      flat++;
    } else if (a->kind == TC_ARGUMENT_TENSORS) {
      args[i] = tc_arg_tensors(values + flat, a->n);
      flat += a->n;
    }
  }
  return tc_graph_add_node(g, NULL, b->op, b->n_args, args, TC_SV(""), TC_SV(""), out);
}

// The flat number of the tensor argument `arg` starts at.
static int32_t flat_of(const building *b, int32_t arg) {
  int32_t flat = 0;
  for (int32_t i = 0; i < arg; i++) {
    if (b->args[i].kind == TC_ARGUMENT_TENSOR) flat++;
    else if (b->args[i].kind == TC_ARGUMENT_TENSORS) flat += b->args[i].n;
  }
  return flat;
}

static bool all_views(const tc_node *n) {
  for (int32_t i = 0; i < n->n_results; i++) {
    if (n->results[i]->kind != TC_VALUE_TENSOR || n->results[i]->view_arg < 0) return false;
    if (n->args[n->results[i]->view_arg].kind != TC_AK_TENSOR) return false;
  }
  return n->n_results > 0;
}

static void make_views(building *b, const tc_node *n) {
  tc_arena *arena = b->x->module->arena;
  view_result *views = TC_NEW_ARRAY(arena, view_result, n->n_results);
  for (int32_t i = 0; i < n->n_results; i++) {
    const tc_tensor_type *t = &n->results[i]->type;
    view_result *v = &views[i];
    v->operand = flat_of(b, n->results[i]->view_arg);
    v->dtype = t->dtype, v->rank = t->rank, v->conj = t->conj != 0;
    for (int32_t d = 0; d < t->rank; d++) {
      v->sizes[d] = tc_sym_compile(arena, t->sizes[d]);
      v->strides[d] = tc_sym_compile(arena, t->strides[d]);
    }
    v->offset = tc_sym_compile(arena, t->offset);
  }
  b->x->views = views;
}

// An op that writes: each result is the operand of its alias set.
static bool find_written(building *b, int32_t n_results, int32_t *written) {
  const tc_schema *s = &b->op->schema;
  bool any = false;
  for (int32_t i = 0; i < n_results; i++) {
    written[i] = -1;
    for (int32_t k = 0; i < s->n_returns && k < s->n_args && k < b->n_args; k++) {
      if (!s->args[k].writes || s->args[k].alias == 0 || s->args[k].alias != s->returns[i].alias) continue;
      written[i] = flat_of(b, k);
      any = true;
    }
  }
  return any;
}

static tc_status build_guarded(void *arg) {
  building *b = arg;
  entry *x = b->x;
  tc_module *m = x->module;
  tc_graph *g = tc_graph_create(m, TC_SV("forward"));
  tc_value **values = TC_NEW_ARRAY(m->arena, tc_value *, b->n_tensors + 1);
  tc_node *n;
  TC_TRY(make_inputs(b, g, values));
  TC_TRY(make_node(b, g, values, &n));
  x->n_results = n->n_results;
  x->n_inputs = g->inputs.count;
  int32_t *written = TC_NEW_ARRAY(m->arena, int32_t, n->n_results + 1);
  int32_t *outputs = TC_NEW_ARRAY(m->arena, int32_t, n->n_results + 1);
  bool writes = find_written(b, n->n_results, written);
  x->written = written, x->outputs = outputs;
  if (!writes && all_views(n)) {
    make_views(b, n);
    tc_guards_seal(x->guards, m);
    return TC_OK;
  }
  for (int32_t i = 0; i < n->n_results; i++) {
    tc_value *v = n->results[i];
    if (v->kind == TC_VALUE_SYM || v->kind == TC_VALUE_FLOAT || v->kind == TC_VALUE_BOOL)
      return tc_error(TC_STATUS_UNIMPLEMENTED, TC_SV_FMT " gives a number, not a tensor: read it with tc_item_*",
                      TC_SV_ARG(b->op->full_name));
    if (v->kind == TC_VALUE_TENSOR && written[i] < 0)
      tc_graph_add_output(g, TC_OUT_USER, tc_arg_tensor(v), tc_sv_printf(m->arena, "%d", i));
  }
  tc_graph_sweep(g);
  TC_TRY(tc_session_create(b->e->context, g, TC_STAGE_EXEC, &x->session));
  // The passes may have put outputs for what is written before the user's.
  x->n_graph_outputs = g->outputs.count;
  int32_t next = 0;
  for (int32_t i = 0; i < n->n_results; i++) {
    outputs[i] = -1;
    if (written[i] >= 0 || n->results[i]->kind != TC_VALUE_TENSOR) continue;
    while (next < g->outputs.count && g->outputs.data[next].kind != TC_OUT_USER) next++;
    outputs[i] = next++;
  }
  tc_guards_seal(x->guards, m);
  return TC_OK;
}

static tc_status build(building *b, entry **out) {
  tc_context *c = b->e->context;
  entry *x = tc_alloc(c->allocator, sizeof *x);
  if (!x) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for an op");
  b->x = x;
  tc_status s = tc_module_create(c->allocator, c->ops, &x->module);
  if (s == TC_OK) s = tc_arena_guard(x->module->arena, build_guarded, b);
  if (s != TC_OK) {
    entry_destroy(b->e, x);
    return s;
  }
  __atomic_fetch_add(&b->e->compiles, 1, __ATOMIC_RELAXED);
  *out = x;
  return TC_OK;
}

// ---- running ----
static tc_status run_views(const entry *x, const tc_tensor *tensors, const int64_t *symbols, tc_tensor *out) {
  for (int32_t i = 0; i < x->n_results; i++) {
    const view_result *v = &x->views[i];
    const tc_tensor *t = &tensors[v->operand];
    int64_t sizes[TC_MAX_RANK], strides[TC_MAX_RANK], offset;
    for (int32_t d = 0; d < v->rank; d++) {
      TC_TRY(tc_sym_run(v->sizes[d], symbols, &sizes[d]));
      TC_TRY(tc_sym_run(v->strides[d], symbols, &strides[d]));
    }
    TC_TRY(tc_sym_run(v->offset, symbols, &offset));
    int64_t from = tc_dtype_size(t->dtype), to = tc_dtype_size(v->dtype);
    TC_TRY(tc_tensor_view(t->storage, v->dtype, v->rank, sizes, strides, offset + t->offset * from / to, &out[i]));
    out[i].conj = v->conj, out[i].neg = t->neg;
  }
  return TC_OK;
}

static tc_status run_session(const tc_eager *e, const entry *x, const tc_tensor *tensors, int32_t n_tensors,
                             uint64_t seed, tc_tensor *out) {
  tc_tensor few[FEW_TENSORS], *all = few;
  int32_t need = x->n_inputs + x->n_graph_outputs, k = 0;
  if (need > FEW_TENSORS && !(all = tc_alloc(e->context->allocator, (size_t)need * sizeof *all)))
    return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a call");
  for (int32_t i = 0; i < n_tensors; i++) {
    if (tensors[i].storage) all[k++] = tensors[i];
  }
  tc_tensor *made = all + x->n_inputs;
  tc_status s = tc_session_run(x->session, all, made, &(tc_session_run_options){.write_back = true, .seed = seed});
  for (int32_t i = 0; i < x->n_results && s == TC_OK; i++) {
    if (x->written[i] >= 0) out[i] = tc_tensor_ref(&tensors[x->written[i]]);
    else if (x->outputs[i] >= 0) out[i] = tc_tensor_ref(&made[x->outputs[i]]);
  }
  for (int32_t i = 0; i < x->n_graph_outputs && s == TC_OK; i++) tc_tensor_unref(&made[i]);
  if (all != few) tc_free(e->context->allocator, all);
  return s;
}

static tc_status run_entry(const tc_eager *e, const entry *x, const tc_tensor *tensors, int32_t n_tensors,
                           const int64_t *symbols, uint64_t seed, tc_tensor **out, int32_t *out_n) {
  tc_tensor *made = tc_alloc(e->context->allocator, (size_t)(x->n_results + 1) * sizeof *made);
  if (!made) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a call");
  tc_status s = x->session ? run_session(e, x, tensors, n_tensors, seed, made) : run_views(x, tensors, symbols, made);
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
static bucket *find_bucket(const tc_eager *e, uint64_t hash, const tc_op *op, const key_text *k) {
  for (bucket *b = e->buckets[hash % N_BUCKETS]; b; b = b->next) {
    if (b->hash == hash && b->op == op && b->key_size == k->size && memcmp(b->key, k->bytes, k->size) == 0) return b;
  }
  return NULL;
}

static tc_status make_bucket(tc_eager *e, uint64_t hash, const tc_op *op, const key_text *k, bucket **out) {
  const tc_allocator *a = e->context->allocator;
  bucket *b = tc_alloc(a, sizeof *b);
  void *key = b ? tc_alloc(a, k->size + 1) : NULL;
  if (!key) {
    tc_free(a, b);
    return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for an op");
  }
  memcpy(key, k->bytes, k->size);
  *b = (bucket){.hash = hash, .op = op, .key = key, .key_size = k->size};
  pthread_rwlock_wrlock(&e->lock);
  b->next = e->buckets[hash % N_BUCKETS];
  e->buckets[hash % N_BUCKETS] = b;
  pthread_rwlock_unlock(&e->lock);
  *out = b;
  return TC_OK;
}

static const entry *find_entry(const bucket *b, const tc_tensor *tensors, int64_t *symbols, int32_t room) {
  for (const entry *x = __atomic_load_n(&b->entries, __ATOMIC_ACQUIRE); x; x = x->next) {
    if (tc_guards_symbol_count(x->guards) > room) continue;
    if (tc_guards_check(x->guards, tensors, symbols).kind == TC_GUARD_HOLDS) return x;
  }
  return NULL;
}

// Builds an entry for these operands with symbolic sizes; where an op cannot do with them, for these sizes.
static tc_status add_entry(tc_eager *e, bucket *b, building *what, int64_t *symbols, int32_t room, const entry **out) {
  entry *x = NULL;
  pthread_mutex_lock(&e->compile);
  *out = find_entry(b, what->tensors, symbols, room); // another thread may have been first
  tc_status s = TC_OK;
  if (!*out) {
    what->dynamic = b->n_entries < MAX_ENTRIES;
    s = build(what, &x);
    bool again = s != TC_OK && tc_status_code(s) != TC_STATUS_OUT_OF_MEMORY && what->dynamic;
    if (s == TC_OK && (tc_guards_symbol_count(x->guards) > room ||
                       tc_guards_check(x->guards, what->tensors, symbols).kind != TC_GUARD_HOLDS)) {
      entry_destroy(e, x);
      again = true;
    }
    if (again) {
      tc_status_free(s);
      what->dynamic = false;
      s = build(what, &x);
    }
  }
  if (s == TC_OK && x) {
    x->next = b->entries;
    b->n_entries++;
    __atomic_store_n(&b->entries, x, __ATOMIC_RELEASE);
    (void)tc_guards_check(x->guards, what->tensors, symbols);
    *out = x;
  }
  pthread_mutex_unlock(&e->compile);
  return s;
}

// An entry that is not kept: for keys that are too long to be worth it.
static tc_status run_once(tc_eager *e, building *what, uint64_t seed, tc_tensor **out, int32_t *out_n) {
  entry *x;
  int64_t symbols[FEW_SYMBOLS];
  what->dynamic = false;
  TC_TRY(build(what, &x));
  tc_status s = run_entry(e, x, what->tensors, what->n_tensors, symbols, seed, out, out_n);
  entry_destroy(e, x);
  return s;
}

static tc_status run_flat(tc_eager *e, building *what, uint64_t seed, tc_tensor **out, int32_t *out_n) {
  key_text k;
  int64_t symbols[FEW_SYMBOLS];
  key_of(&k, what->n_args, what->args);
  if (k.full) return run_once(e, what, seed, out, out_n);
  uint64_t hash = tc_hash_mix(tc_hash(k.bytes, k.size), (uint64_t)(uintptr_t)what->op);
  pthread_rwlock_rdlock(&e->lock);
  bucket *b = find_bucket(e, hash, what->op, &k);
  pthread_rwlock_unlock(&e->lock);
  if (!b) {
    pthread_mutex_lock(&e->compile);
    b = find_bucket(e, hash, what->op, &k);
    tc_status s = b ? TC_OK : make_bucket(e, hash, what->op, &k, &b);
    pthread_mutex_unlock(&e->compile);
    TC_TRY(s);
  }
  const entry *x = find_entry(b, what->tensors, symbols, FEW_SYMBOLS);
  if (!x) TC_TRY(add_entry(e, b, what, symbols, FEW_SYMBOLS, &x));
  return run_entry(e, x, what->tensors, what->n_tensors, symbols, seed, out, out_n);
}

tc_status tc_eager_run(tc_eager *e, const tc_op *op, int32_t n_args, const tc_argument *args, uint64_t seed,
                       tc_tensor **out, int32_t *out_n) {
  if (n_args > op->schema.n_args)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT " takes %d arguments, %d are given", TC_SV_ARG(op->full_name),
                    op->schema.n_args, n_args);
  __atomic_fetch_add(&e->calls, 1, __ATOMIC_RELAXED);
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
  building what = {.e = e, .op = op, .n_args = n_args, .args = args, .n_tensors = (int32_t)n, .tensors = flat};
  tc_status s = run_flat(e, &what, seed, out, out_n);
  if (flat != few) tc_free(e->context->allocator, flat);
  return s;
}

tc_eager_stats tc_eager_stats_of(tc_eager *e) {
  return (tc_eager_stats){__atomic_load_n(&e->calls, __ATOMIC_RELAXED),
                          __atomic_load_n(&e->compiles, __ATOMIC_RELAXED)};
}
