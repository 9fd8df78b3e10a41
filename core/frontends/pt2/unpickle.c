// Restricted unpickler: a stack machine over the opcodes that Python's protocol-2 pickler emits for the types we take.
//
// The machine has a value stack, a stack of marks and a memo, as pickletools describes them. Values are tree nodes in
// the arena; besides the public kinds there are three that only live during reading: globals (names from a fixed list),
// storages (what a persistent id gives) and none other; finding one in the finished tree is an error.
// Bounds: every opcode costs the file at least one byte, so work and memory are linear in the file's size except for
// shared nodes, which check_tree measures: depth, cycles, and size when written out.
#include "core/frontends/pt2/unpickle.h"

#include <string.h>

enum { KIND_GLOBAL = TC_PICKLE_DICT + 1, KIND_STORAGE };
enum {
  MAX_PICKLE = 64 << 20, // bytes of data.pkl
  MAX_NODES = 1 << 24,   // of the tree written out
  MAX_GLOBAL = 256,      // bytes of a module's or class's name
  MAX_KEY = 255          // bytes of a storage's key
};

enum { GLOBAL_REBUILD_TENSOR, GLOBAL_REBUILD_PARAMETER, GLOBAL_ORDERED_DICT, GLOBAL_STORAGE };
typedef struct global_row {
  const char *module, *name;
  int32_t what;
  tc_dtype dtype; // of a storage class
} global_row;
static const global_row globals[] = {
    {"torch._utils", "_rebuild_tensor_v2", GLOBAL_REBUILD_TENSOR, TC_DTYPE_NONE},
    {"torch._utils", "_rebuild_parameter", GLOBAL_REBUILD_PARAMETER, TC_DTYPE_NONE},
    {"collections", "OrderedDict", GLOBAL_ORDERED_DICT, TC_DTYPE_NONE},
    {"torch", "BoolStorage", GLOBAL_STORAGE, TC_BOOL},
    {"torch", "ByteStorage", GLOBAL_STORAGE, TC_U8},
    {"torch", "CharStorage", GLOBAL_STORAGE, TC_I8},
    {"torch", "ShortStorage", GLOBAL_STORAGE, TC_I16},
    {"torch", "IntStorage", GLOBAL_STORAGE, TC_I32},
    {"torch", "LongStorage", GLOBAL_STORAGE, TC_I64},
    {"torch", "HalfStorage", GLOBAL_STORAGE, TC_F16},
    {"torch", "BFloat16Storage", GLOBAL_STORAGE, TC_BF16},
    {"torch", "FloatStorage", GLOBAL_STORAGE, TC_F32},
    {"torch", "DoubleStorage", GLOBAL_STORAGE, TC_F64},
    {"torch", "ComplexFloatStorage", GLOBAL_STORAGE, TC_C64},
    {"torch", "ComplexDoubleStorage", GLOBAL_STORAGE, TC_C128},
};

// What `state` of a node points to, by kind.
typedef struct sequence_state { // LIST and DICT: growing
  int32_t capacity;             // of items
  tc_map *keys;                 // DICT: string keys to pair numbers
} sequence_state;
typedef struct storage_state { // KIND_STORAGE
  int32_t index;               // in the reader's storages
  tc_dtype dtype;
} storage_state;
typedef struct tree_state { // while and after check_tree visits a node
  int32_t depth;            // -1: being visited
  int64_t nodes;            // written out
} tree_state;

typedef struct reader {
  const tc_allocator *allocator;
  tc_arena *arena;
  tc_storage *bytes;
  size_t offset, size;
  tc_zip zip; // the inner archive
  tc_sv root; // its folder
  tc_sv pickle;
  size_t at; // in the pickle
  TC_VEC(tc_pickle *) stack;
  TC_VEC(tc_pickle *) memo;
  TC_VEC(int32_t) marks; // heights of the stack
  tc_map *storage_of;    // key to index
  TC_VEC(tc_storage *) storages;
  TC_VEC(tc_tensor *) tensors;
  const tc_pickle *result;
} reader;

#define BAD(...) tc_error(TC_STATUS_DATA_LOSS, "pickle: " __VA_ARGS__)

static const tc_pickle constants[] = {
    {.kind = TC_PICKLE_NONE}, {.kind = TC_PICKLE_BOOL}, {.kind = TC_PICKLE_BOOL, .b = true}};

const char *tc_pickle_kind_name(int32_t kind) {
  static const char *const names[] = {"None", "bool", "int", "float", "str", "tensor", "tuple", "list", "dict"};
  return kind >= 0 && kind <= TC_PICKLE_DICT ? names[kind] : "object";
}

// ---- bytes

static tc_status take(reader *r, uint64_t n, const uint8_t **out) {
  if (n > r->pickle.size - r->at) return BAD("cut short at byte %zu", r->at);
  *out = (const uint8_t *)r->pickle.data + r->at;
  r->at += (size_t)n;
  return TC_OK;
}

static tc_status take_uint(reader *r, int bytes, uint64_t *out) {
  const uint8_t *p = NULL;
  TC_TRY(take(r, (uint64_t)bytes, &p));
  *out = 0;
  for (int i = 0; i < bytes; i++) *out |= (uint64_t)p[i] << 8 * i;
  return TC_OK;
}

static tc_status take_line(reader *r, tc_sv *out) {
  const char *p = r->pickle.data + r->at;
  const char *end = memchr(p, '\n', r->pickle.size - r->at);
  if (!end || end - p > MAX_GLOBAL) return BAD("a name at byte %zu has no end", r->at);
  *out = (tc_sv){p, (size_t)(end - p)};
  r->at += out->size + 1;
  return TC_OK;
}

// ---- values

static tc_pickle *make(reader *r, int32_t kind) {
  tc_pickle *v = TC_NEW(r->arena, tc_pickle);
  v->kind = kind;
  return v;
}
static void push(reader *r, tc_pickle *v) { tc_vec_push(r->arena, &r->stack, v); }
static void push_constant(reader *r, int32_t i) {
  tc_pickle *v = make(r, constants[i].kind);
  v->b = constants[i].b;
  push(r, v);
}

// Pops may not reach below the innermost mark.
static int32_t floor_of(const reader *r) { return r->marks.count ? tc_vec_last(&r->marks) : 0; }
static tc_status pop(reader *r, tc_pickle **out) {
  if (r->stack.count <= floor_of(r)) return BAD("the stack is empty before byte %zu", r->at);
  *out = r->stack.data[--r->stack.count];
  return TC_OK;
}
// The values above the innermost mark, which is removed; they stay readable until the next push.
static tc_status pop_mark(reader *r, tc_pickle ***out, int32_t *out_count) {
  *out = NULL, *out_count = 0;
  if (!r->marks.count) return BAD("no mark before byte %zu", r->at);
  const int32_t base = r->marks.data[--r->marks.count];
  *out = r->stack.data + base;
  *out_count = r->stack.count - base;
  r->stack.count = base;
  return TC_OK;
}
static tc_status top_of_kind(reader *r, int32_t kind, tc_pickle **out) {
  if (r->stack.count <= floor_of(r)) return BAD("the stack is empty before byte %zu", r->at);
  *out = tc_vec_last(&r->stack);
  if ((*out)->kind != kind)
    return BAD("byte %zu: a %s where a %s is needed", r->at, tc_pickle_kind_name((*out)->kind),
               tc_pickle_kind_name(kind));
  return TC_OK;
}

static tc_pickle *make_tuple(reader *r, tc_pickle **items, int32_t count) {
  tc_pickle *v = make(r, TC_PICKLE_TUPLE);
  v->count = count;
  v->items = tc_arena_copy(r->arena, items, (size_t)count * sizeof *items);
  return v;
}
static tc_pickle *make_growing(reader *r, int32_t kind) {
  tc_pickle *v = make(r, kind);
  v->state = TC_NEW(r->arena, sequence_state);
  return v;
}

static void append_item(reader *r, tc_pickle *list, int32_t used, tc_pickle *item) {
  sequence_state *s = list->state;
  list->items = tc_vec_grow_(r->arena, list->items, sizeof *list->items, used, &s->capacity);
  list->items[used] = item;
}
static void append(reader *r, tc_pickle *list, tc_pickle *item) {
  append_item(r, list, list->count, item);
  list->count++;
}

static tc_status set_item(reader *r, tc_pickle *dict, tc_pickle *key, tc_pickle *value) {
  sequence_state *s = dict->state;
  if (key->kind != TC_PICKLE_STR && key->kind != TC_PICKLE_INT)
    return BAD("a dict key is a %s; strings and ints are supported", tc_pickle_kind_name(key->kind));
  if (dict->count >= INT32_MAX / 2 - 1) return BAD("a dict is too large");
  if (!s->keys) s->keys = tc_map_create(r->arena);
  // Ints are filed under their text after a byte that no UTF-8 text begins with.
  bool fresh;
  const tc_sv name = key->kind == TC_PICKLE_STR ? key->s : tc_sv_printf(r->arena, "\xff%lld", (long long)key->i);
  tc_map_put(s->keys, name, &fresh)->value.num = dict->count;
  if (!fresh) return BAD("a dict has the key '" TC_SV_FMT "' twice", TC_SV_ARG(tc_sv_sub(name, 0, 80)));
  append_item(r, dict, 2 * dict->count, key);
  append_item(r, dict, 2 * dict->count + 1, value);
  dict->count++;
  return TC_OK;
}

static tc_status set_items(reader *r) {
  tc_pickle **items, *dict;
  int32_t n;
  TC_TRY(pop_mark(r, &items, &n));
  TC_TRY(top_of_kind(r, TC_PICKLE_DICT, &dict));
  if (n % 2) return BAD("a key without value before byte %zu", r->at);
  for (int32_t i = 0; i < n; i += 2) TC_TRY(set_item(r, dict, items[i], items[i + 1]));
  return TC_OK;
}

// ---- globals, storages, tensors

static tc_status push_global(reader *r) {
  tc_sv module, name;
  TC_TRY(take_line(r, &module));
  TC_TRY(take_line(r, &name));
  for (size_t i = 0; i < sizeof globals / sizeof globals[0]; i++) {
    if (!tc_sv_is(module, globals[i].module) || !tc_sv_is(name, globals[i].name)) continue;
    tc_pickle *v = make(r, KIND_GLOBAL);
    v->i = (int64_t)i;
    push(r, v);
    return TC_OK;
  }
  return tc_error(TC_STATUS_UNIMPLEMENTED,
                  "pickle: the file names '" TC_SV_FMT "." TC_SV_FMT
                  "'; only plain tensors, parameters and containers are read, and no code is ever run",
                  TC_SV_ARG(module), TC_SV_ARG(name));
}
static const global_row *global_of(const tc_pickle *v) { return v->kind == KIND_GLOBAL ? &globals[v->i] : NULL; }

// The bytes of a storage record: a slice of the file where they are stored, else unpacked.
static tc_status load_storage(reader *r, const tc_zip_entry *e, tc_storage **out) {
  if (e->method == 0) {
    tc_sv checked; // CRC
    TC_TRY(tc_zip_read(r->arena, &r->zip, e, 0, &checked));
    return tc_storage_slice(r->allocator, r->bytes, r->offset + (size_t)e->offset, (size_t)e->size, 16, out);
  }
  if (e->size / 1032 > e->stored_size) return BAD("a storage claims an impossible size");
  TC_TRY(tc_storage_create(r->allocator, (size_t)e->size, out));
  return tc_zip_read_into(r->allocator, &r->zip, e, (*out)->data);
}

// ("storage", class, key, location, number of elements)
static tc_status push_persistent(reader *r) {
  tc_pickle *id;
  TC_TRY(pop(r, &id));
  const bool shaped = id->kind == TC_PICKLE_TUPLE && id->count == 5 && id->items[0]->kind == TC_PICKLE_STR &&
                      tc_sv_is(id->items[0]->s, "storage") && id->items[2]->kind == TC_PICKLE_STR &&
                      id->items[3]->kind == TC_PICKLE_STR && id->items[4]->kind == TC_PICKLE_INT;
  const global_row *cls = shaped ? global_of(id->items[1]) : NULL;
  if (!cls || cls->what != GLOBAL_STORAGE) return BAD("a persistent id before byte %zu is no storage", r->at);
  const tc_sv key = id->items[2]->s;
  if (key.size == 0 || key.size > MAX_KEY || memchr(key.data, '/', key.size))
    return BAD("a storage has an invalid key");
  bool fresh;
  tc_map_entry *known = tc_map_put(r->storage_of, key, &fresh);
  if (fresh) {
    known->value.num = r->storages.count;
    tc_vec_push(r->arena, &r->storages, (tc_storage *)NULL); // the slot owns before the storage exists
    const tc_sv path = tc_sv_printf(r->arena, TC_SV_FMT "/data/" TC_SV_FMT, TC_SV_ARG(r->root), TC_SV_ARG(key));
    const tc_zip_entry *e = tc_zip_find(&r->zip, path);
    if (!e) return BAD("the file has no storage '" TC_SV_FMT "'", TC_SV_ARG(key));
    TC_TRY(load_storage(r, e, &tc_vec_last(&r->storages)), "while reading the storage '" TC_SV_FMT "'", TC_SV_ARG(key));
  }
  const tc_storage *s = r->storages.data[known->value.num];
  const int64_t numel = id->items[4]->i;
  if (numel < 0 || (uint64_t)numel > s->size / (uint64_t)tc_dtype_size(cls->dtype))
    return BAD("the storage '" TC_SV_FMT "' has %zu bytes, fewer than its %lld elements need", TC_SV_ARG(key), s->size,
               (long long)numel);
  tc_pickle *v = make(r, KIND_STORAGE);
  storage_state *state = TC_NEW(r->arena, storage_state);
  *state = (storage_state){(int32_t)known->value.num, cls->dtype};
  v->state = state;
  push(r, v);
  return TC_OK;
}

static tc_status read_dims(const tc_pickle *v, int64_t *out, int32_t *out_rank) {
  if (v->kind != TC_PICKLE_TUPLE || v->count > TC_MAX_RANK)
    return BAD("a tensor's sizes or strides are no tuple of at most %d ints", TC_MAX_RANK);
  for (int32_t i = 0; i < v->count; i++) {
    if (v->items[i]->kind != TC_PICKLE_INT || v->items[i]->i < 0)
      return BAD("a tensor has a size or stride that is no count");
    out[i] = v->items[i]->i;
  }
  *out_rank = v->count;
  return TC_OK;
}

static bool is_no_hooks(const tc_pickle *v) {
  return v->kind == TC_PICKLE_NONE || (v->kind == TC_PICKLE_DICT && v->count == 0);
}

// The optional last argument: {"conj": True, "neg": True}, each present only when set.
static tc_status read_lazy_bits(const tc_pickle *v, tc_tensor *t) {
  if (v->kind == TC_PICKLE_NONE) return TC_OK;
  if (v->kind != TC_PICKLE_DICT) return BAD("a tensor's metadata is no dict");
  for (int32_t i = 0; i < v->count; i++) {
    const tc_pickle *key = v->items[2 * i], *value = v->items[2 * i + 1];
    bool *bit = key->kind != TC_PICKLE_STR ? NULL
                : tc_sv_is(key->s, "conj") ? &t->conj
                : tc_sv_is(key->s, "neg")  ? &t->neg
                                           : NULL;
    if (!bit || value->kind != TC_PICKLE_BOOL) return BAD("a tensor has metadata other than the conj and neg bits");
    *bit = value->b;
  }
  return TC_OK;
}

// (storage, storage offset, size, stride, requires_grad, hooks[, metadata])
static tc_status rebuild_tensor(reader *r, const tc_pickle *args, tc_pickle **out) {
  int64_t sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
  int32_t rank, stride_rank;
  if ((args->count != 6 && args->count != 7) || args->items[0]->kind != KIND_STORAGE ||
      args->items[1]->kind != TC_PICKLE_INT || args->items[4]->kind != TC_PICKLE_BOOL || !is_no_hooks(args->items[5]))
    return BAD("_rebuild_tensor_v2 before byte %zu has unexpected arguments", r->at);
  TC_TRY(read_dims(args->items[2], sizes, &rank));
  TC_TRY(read_dims(args->items[3], strides, &stride_rank));
  if (rank != stride_rank) return BAD("a tensor has %d sizes and %d strides", (int)rank, (int)stride_rank);
  const storage_state *s = args->items[0]->state;
  tc_pickle *v = make(r, TC_PICKLE_TENSOR);
  v->tensor = TC_NEW(r->arena, tc_tensor);
  v->requires_grad = args->items[4]->b;
  tc_vec_push(r->arena, &r->tensors, v->tensor);
  TC_TRY(tc_tensor_view(r->storages.data[s->index], s->dtype, rank, sizes, strides, args->items[1]->i, v->tensor),
         "while rebuilding a tensor");
  if (args->count == 7) TC_TRY(read_lazy_bits(args->items[6], v->tensor));
  *out = v;
  return TC_OK;
}

// (tensor, requires_grad, hooks): the parameter is a new node for the same tensor.
static tc_status rebuild_parameter(reader *r, const tc_pickle *args, tc_pickle **out) {
  if (args->count != 3 || args->items[0]->kind != TC_PICKLE_TENSOR || args->items[1]->kind != TC_PICKLE_BOOL ||
      !is_no_hooks(args->items[2]))
    return BAD("_rebuild_parameter before byte %zu has unexpected arguments", r->at);
  *out = make(r, TC_PICKLE_TENSOR);
  (*out)->tensor = args->items[0]->tensor;
  (*out)->requires_grad = args->items[1]->b;
  (*out)->is_parameter = true;
  return TC_OK;
}

static tc_status reduce(reader *r) {
  tc_pickle *args, *callee, *result;
  TC_TRY(pop(r, &args));
  TC_TRY(pop(r, &callee));
  const global_row *g = global_of(callee);
  if (!g || args->kind != TC_PICKLE_TUPLE) return BAD("a call before byte %zu has no callable or no arguments", r->at);
  switch (g->what) {
  case GLOBAL_REBUILD_TENSOR: TC_TRY(rebuild_tensor(r, args, &result)); break;
  case GLOBAL_REBUILD_PARAMETER: TC_TRY(rebuild_parameter(r, args, &result)); break;
  case GLOBAL_ORDERED_DICT:
    if (args->count != 0) return BAD("OrderedDict before byte %zu has arguments", r->at);
    result = make_growing(r, TC_PICKLE_DICT);
    break;
  default: return BAD("%s.%s before byte %zu is called", g->module, g->name, r->at);
  }
  push(r, result);
  return TC_OK;
}

// State set on an object: state dicts carry `_metadata`, module versions that nothing here needs.
static tc_status build(reader *r) {
  tc_pickle *state, *target;
  TC_TRY(pop(r, &state));
  TC_TRY(top_of_kind(r, TC_PICKLE_DICT, &target));
  return state->kind == TC_PICKLE_DICT ? TC_OK : BAD("an object's state before byte %zu is no dict", r->at);
}

// ---- opcodes

static tc_status memo_put(reader *r, uint64_t index) {
  if (r->stack.count <= floor_of(r)) return BAD("the stack is empty before byte %zu", r->at);
  tc_pickle *v = tc_vec_last(&r->stack);
  // Picklers number their memo densely; a gap would let a few bytes ask for gigabytes.
  if (index > (uint64_t)r->memo.count) return BAD("memo index %llu skips", (unsigned long long)index);
  if (index == (uint64_t)r->memo.count) tc_vec_push(r->arena, &r->memo, v);
  else r->memo.data[index] = v;
  return TC_OK;
}
static tc_status memo_get(reader *r, uint64_t index) {
  if (index >= (uint64_t)r->memo.count) return BAD("memo index %llu is not set", (unsigned long long)index);
  push(r, r->memo.data[index]);
  return TC_OK;
}

static void push_int(reader *r, int64_t i) {
  tc_pickle *v = make(r, TC_PICKLE_INT);
  v->i = i;
  push(r, v);
}

// Little-endian two's complement of n bytes.
static tc_status push_long(reader *r, uint64_t n) {
  const uint8_t *p = NULL;
  uint64_t v = 0;
  TC_TRY(take(r, n, &p));
  if (n > 8) return tc_error(TC_STATUS_UNIMPLEMENTED, "pickle: an int beyond 64 bits");
  for (uint64_t i = 0; i < n; i++) v |= (uint64_t)p[i] << 8 * i;
  if (n > 0 && n < 8 && (p[n - 1] & 0x80)) v |= UINT64_MAX << 8 * n;
  push_int(r, (int64_t)v);
  return TC_OK;
}

static tc_status push_float(reader *r) {
  const uint8_t *p = NULL;
  uint64_t bits = 0;
  TC_TRY(take(r, 8, &p));
  for (int i = 0; i < 8; i++) bits = bits << 8 | p[i]; // big-endian
  tc_pickle *v = make(r, TC_PICKLE_FLOAT);
  memcpy(&v->f, &bits, sizeof bits);
  push(r, v);
  return TC_OK;
}

static tc_status push_string(reader *r, uint64_t n) {
  const uint8_t *p = NULL;
  TC_TRY(take(r, n, &p));
  tc_pickle *v = make(r, TC_PICKLE_STR);
  v->s = tc_sv_copy(r->arena, (tc_sv){(const char *)p, (size_t)n});
  push(r, v);
  return TC_OK;
}

static tc_status push_small_tuple(reader *r, int32_t n) {
  if (r->stack.count - floor_of(r) < n) return BAD("the stack is empty before byte %zu", r->at);
  r->stack.count -= n;
  push(r, make_tuple(r, r->stack.data + r->stack.count, n));
  return TC_OK;
}

static tc_status push_tuple(reader *r) {
  tc_pickle **items;
  int32_t n;
  TC_TRY(pop_mark(r, &items, &n));
  push(r, make_tuple(r, items, n));
  return TC_OK;
}

static tc_status append_one(reader *r) {
  tc_pickle *item, *list;
  TC_TRY(pop(r, &item));
  TC_TRY(top_of_kind(r, TC_PICKLE_LIST, &list));
  append(r, list, item);
  return TC_OK;
}

static tc_status append_many(reader *r) {
  tc_pickle **items, *list;
  int32_t n;
  TC_TRY(pop_mark(r, &items, &n));
  TC_TRY(top_of_kind(r, TC_PICKLE_LIST, &list));
  for (int32_t i = 0; i < n; i++) append(r, list, items[i]);
  return TC_OK;
}

static tc_status set_one(reader *r) {
  tc_pickle *key, *value, *dict;
  TC_TRY(pop(r, &value));
  TC_TRY(pop(r, &key));
  TC_TRY(top_of_kind(r, TC_PICKLE_DICT, &dict));
  return set_item(r, dict, key, value);
}

// Letters as in pickletools. `n` reads the operand of `bytes` bytes.
static tc_status step(reader *r, bool *out_stop) {
  const uint8_t *op = NULL;
  uint64_t n = 0;
  TC_TRY(take(r, 1, &op));
  switch (*op) {
  case 0x80: // PROTO
    TC_TRY(take_uint(r, 1, &n));
    if (n != 2) return tc_error(TC_STATUS_UNIMPLEMENTED, "pickle: protocol %d; torch.save writes 2", (int)n);
    return TC_OK;
  case '.': *out_stop = true; return TC_OK;
  case '(': tc_vec_push(r->arena, &r->marks, r->stack.count); return TC_OK;
  case 'N': push_constant(r, 0); return TC_OK;
  case 0x89: push_constant(r, 1); return TC_OK;
  case 0x88: push_constant(r, 2); return TC_OK;
  case 'J':
    TC_TRY(take_uint(r, 4, &n));
    push_int(r, (int32_t)(uint32_t)n);
    return TC_OK;
  case 'K':
    TC_TRY(take_uint(r, 1, &n));
    push_int(r, (int64_t)n);
    return TC_OK;
  case 'M':
    TC_TRY(take_uint(r, 2, &n));
    push_int(r, (int64_t)n);
    return TC_OK;
  case 0x8a: TC_TRY(take_uint(r, 1, &n)); return push_long(r, n);
  case 0x8b: TC_TRY(take_uint(r, 4, &n)); return push_long(r, n);
  case 'G': return push_float(r);
  case 'X': TC_TRY(take_uint(r, 4, &n)); return push_string(r, n);
  case '}': push(r, make_growing(r, TC_PICKLE_DICT)); return TC_OK;
  case ']': push(r, make_growing(r, TC_PICKLE_LIST)); return TC_OK;
  case ')': push(r, make(r, TC_PICKLE_TUPLE)); return TC_OK;
  case 't': return push_tuple(r);
  case 0x85: return push_small_tuple(r, 1);
  case 0x86: return push_small_tuple(r, 2);
  case 0x87: return push_small_tuple(r, 3);
  case 'a': return append_one(r);
  case 'e': return append_many(r);
  case 's': return set_one(r);
  case 'u': return set_items(r);
  case 'q': TC_TRY(take_uint(r, 1, &n)); return memo_put(r, n);
  case 'r': TC_TRY(take_uint(r, 4, &n)); return memo_put(r, n);
  case 'h': TC_TRY(take_uint(r, 1, &n)); return memo_get(r, n);
  case 'j': TC_TRY(take_uint(r, 4, &n)); return memo_get(r, n);
  case 'c': return push_global(r);
  case 'Q': return push_persistent(r);
  case 'R': return reduce(r);
  case 'b': return build(r);
  default:
    return tc_error(TC_STATUS_UNIMPLEMENTED, "pickle: opcode 0x%02x at byte %zu is not supported", (unsigned)*op,
                    r->at - 1);
  }
}

// ---- the finished tree

// Depth-first over the shared graph, each node once; depth and written-out size come from the children. The recursion
// is bounded by the depth that is allowed.
static tc_status check_tree(reader *r, tc_pickle *v, int32_t above, tc_map *seen, tree_state *out) {
  *out = (tree_state){0, 1};
  if (v->kind > TC_PICKLE_DICT) return BAD("the tree holds a class or storage that belongs to no tensor");
  if (v->kind < TC_PICKLE_TUPLE) return TC_OK;
  if (above >= TC_PICKLE_MAX_DEPTH) return BAD("containers nest deeper than %d", TC_PICKLE_MAX_DEPTH);
  bool fresh;
  tc_map_entry *e = tc_map_put_ptr(seen, v, &fresh);
  if (fresh) {
    tree_state *s = e->value.ptr = TC_NEW(r->arena, tree_state);
    s->depth = -1;
    const int32_t n = v->kind == TC_PICKLE_DICT ? 2 * v->count : v->count;
    tree_state sum = {1, 1};
    for (int32_t i = 0; i < n; i++) {
      tree_state child;
      TC_TRY(check_tree(r, v->items[i], above + 1, seen, &child));
      if (child.depth + 1 > sum.depth) sum.depth = child.depth + 1;
      sum.nodes += child.nodes;
      if (sum.nodes > MAX_NODES) return BAD("the tree has more than %d nodes", (int)MAX_NODES);
    }
    *s = sum;
    *out = sum;
    return TC_OK;
  }
  *out = *(const tree_state *)e->value.ptr;
  if (out->depth < 0) return BAD("a container contains itself");
  if (above + out->depth > TC_PICKLE_MAX_DEPTH) return BAD("containers nest deeper than %d", TC_PICKLE_MAX_DEPTH);
  return TC_OK;
}

static tc_status run(reader *r) {
  bool stop = false;
  tc_vec_reserve(r->arena, &r->stack, 64);
  while (!stop) TC_TRY(step(r, &stop));
  if (r->stack.count != 1 || r->marks.count != 0) return BAD("%d values are left at the end", (int)r->stack.count);
  tree_state ignored;
  TC_TRY(check_tree(r, r->stack.data[0], 0, tc_map_create(r->arena), &ignored));
  r->result = r->stack.data[0];
  return TC_OK;
}

static tc_status member(reader *r, const char *name, uint64_t limit, tc_sv *out) {
  const tc_zip_entry *e = tc_zip_find(&r->zip, tc_sv_printf(r->arena, TC_SV_FMT "/%s", TC_SV_ARG(r->root), name));
  *out = (tc_sv){0};
  if (!e) return tc_error(TC_STATUS_NOT_FOUND, "pickle: the torch.save file has no '%s'", name);
  if (e->size > limit) return tc_error(TC_STATUS_RESOURCE_EXHAUSTED, "pickle: '%s' is too large", name);
  return tc_zip_read(r->arena, &r->zip, e, limit, out);
}

static tc_status read_file(void *arg) {
  reader *r = arg;
  tc_sv order;
  if (r->offset > r->bytes->size || r->size > r->bytes->size - r->offset)
    return BAD("the file lies outside its archive");
  TC_TRY(tc_zip_open(r->arena, (const uint8_t *)r->bytes->data + r->offset, r->size, &r->zip),
         "while opening a torch.save file");
  if (r->zip.count == 0) return BAD("the torch.save file is empty");
  tc_sv_cut(r->zip.entries[0].name, '/', &r->root);
  // Files before PyTorch 2.1 have no byte order record; they were written on little-endian machines.
  tc_status status = member(r, "byteorder", 16, &order);
  if (status && tc_status_code(status) != TC_STATUS_NOT_FOUND) return status;
  if (!status && !tc_sv_is(tc_sv_trim(order), "little"))
    return tc_error(TC_STATUS_UNIMPLEMENTED, "pickle: the file was written on a big-endian machine");
  tc_status_free(status);
  TC_TRY(member(r, "data.pkl", MAX_PICKLE, &r->pickle));
  r->storage_of = tc_map_create(r->arena);
  return run(r);
}

tc_status tc_pickle_read(const tc_allocator *a, tc_arena *arena, tc_storage *bytes, size_t offset, size_t size,
                         tc_pickle_file *out) {
  reader r = {.allocator = a, .arena = arena, .bytes = bytes, .offset = offset, .size = size};
  *out = (tc_pickle_file){0};
  tc_status status = tc_arena_guard(arena, read_file, &r); // what the reader owns outlives an unwinding arena
  for (int32_t i = 0; i < r.storages.count; i++)
    tc_storage_unref(r.storages.data[i]); // tensors have their own references
  tc_pickle_file file = {r.result, r.tensors.data, r.tensors.count};
  if (status) tc_pickle_free(&file);
  else *out = file;
  return status;
}

void tc_pickle_free(tc_pickle_file *file) {
  for (int32_t i = 0; i < file->tensor_count; i++) tc_tensor_unref(file->tensors[i]);
  *file = (tc_pickle_file){0};
}

const tc_pickle *tc_pickle_get(const tc_pickle *dict, tc_sv key) {
  if (!dict || dict->kind != TC_PICKLE_DICT) return NULL;
  const sequence_state *s = dict->state;
  const tc_map_entry *e = s->keys ? tc_map_find(s->keys, key) : NULL;
  return e ? dict->items[2 * e->value.num + 1] : NULL;
}
