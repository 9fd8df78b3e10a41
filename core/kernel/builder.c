// The kernel builder: declarations, emission, and operations without regions (those are in builder_flow.c).
//
// Unless raw, operations are folded (fold.c) and shared: a pure instruction that was already made in a region that is
// still open is returned again (value numbering; open regions are exactly those whose values dominate the point of
// insertion). Loads are shared when their memory is read only and nothing global was stored between.
#include "core/kernel/builder.h"

#include <stdio.h>
#include <string.h>

// ---- Failure and memory ----

void tc_kbi_fail(tc_kb *b, int32_t code, const char *fmt, ...) {
  if (b->fail_code) return;
  b->fail_code = code;
  va_list args;
  va_start(args, fmt);
  vsnprintf(b->fail, sizeof b->fail, fmt, args);
  va_end(args);
}

void tc_kb_fail(tc_kb *b, const char *fmt, ...) {
  if (b->fail_code) return;
  b->fail_code = TC_STATUS_INVALID_ARGUMENT;
  va_list args;
  va_start(args, fmt);
  vsnprintf(b->fail, sizeof b->fail, fmt, args);
  va_end(args);
}

#define bad(b, ...) tc_kbi_fail((b), TC_STATUS_INVALID_ARGUMENT, __VA_ARGS__)

int32_t tc_kb_failed(const tc_kb *b) { return b->fail_code; }
const char *tc_kb_reason(const tc_kb *b) { return b->fail; }
tc_arena *tc_kb_arena(tc_kb *b) { return b->arena; }
void tc_kb_set_raw(tc_kb *b, bool raw) {
  if (!b->fail_code) b->raw = raw;
}
void tc_kb_set_flags(tc_kb *b, int32_t flags) {
  if (!b->fail_code) b->flags = flags;
}

void tc_kb_set_source(tc_kb *b, const tc_ksource *source) {
  if (!b->fail_code) b->source = *source;
}

int32_t tc_kb_flags(const tc_kb *b) { return b->flags; }

enum { SPARE = 16 }; // instructions, values and lists that one call may add, besides its own operands

typedef struct room {
  tc_kb *b;
  int32_t items;
} room;

// More than what is needed now, or a short vector would be copied for every instruction.
#define GROW(vec, need)                                                                                       \
  do {                                                                                                        \
    if ((vec).capacity - (vec).count < (need))                                                                \
      tc_vec_reserve(b->arena, &(vec), (vec).count + (need) + ((vec).count > (need) ? (vec).count : (need))); \
  } while (0)

static void rehash(tc_kb *b);

static tc_status grow(void *arg) {
  room *r = arg;
  tc_kb *b = r->b;
  int32_t need = SPARE + r->items;
  GROW(b->insts, need);
  GROW(b->values, need);
  GROW(b->names, need);
  GROW(b->value_regions, need);
  GROW(b->regions, 4);
  GROW(b->frames, 2);
  GROW(b->params, 1);
  GROW(b->mems, 1);
  GROW(b->scalars, 1);
  for (int32_t i = b->frames.count - 1; i >= 0 && i >= b->frames.count - 2; i--)
    GROW(b->regions.data[b->frames.data[i].region].insts, SPARE);
  if (b->pool_left < 8 * need) {
    int32_t size = 16 * need + 1024;
    b->pool = TC_NEW_ARRAY(b->arena, int32_t, size);
    b->pool_left = size;
  }
  if (2 * (b->shared_used + SPARE) > b->shared_size) rehash(b);
  return TC_OK;
}

bool tc_kbi_ready(tc_kb *b, int32_t items) {
  if (b->fail_code) return false;
  if (items < 0 || items > 1 << 20) {
    bad(b, "too many operands");
    return false;
  }
  if (b->insts.count > (1 << 26)) {
    tc_kbi_fail(b, TC_STATUS_RESOURCE_EXHAUSTED, "the kernel has too many instructions");
    return false;
  }
  int32_t need = SPARE + items;
  bool room_left = b->insts.capacity - b->insts.count >= need && b->values.capacity - b->values.count >= need &&
                   b->names.capacity - b->names.count >= need &&
                   b->value_regions.capacity - b->value_regions.count >= need &&
                   b->regions.capacity - b->regions.count >= 4 && b->frames.capacity - b->frames.count >= 2 &&
                   b->params.capacity > b->params.count && b->mems.capacity > b->mems.count &&
                   b->scalars.capacity > b->scalars.count && b->pool_left >= 8 * need &&
                   2 * (b->shared_used + SPARE) <= b->shared_size;
  for (int32_t i = b->frames.count - 1; room_left && i >= 0 && i >= b->frames.count - 2; i--) {
    const tc_kir_region *g = &b->regions.data[b->frames.data[i].region];
    room_left = g->insts.capacity - g->insts.count >= SPARE;
  }
  if (room_left) return true;
  room r = {b, items};
  tc_status s = tc_arena_guard(b->arena, grow, &r);
  if (!s) return true;
  tc_kbi_fail(b, tc_status_code(s), "%s", tc_status_text(s));
  tc_status_free(s);
  return false;
}

int32_t *tc_kbi_list(tc_kb *b, int32_t n) {
  int32_t *at = b->pool;
  b->pool += n, b->pool_left -= n;
  return at;
}

tc_kir_region *tc_kbi_region(tc_kb *b) { return &b->regions.data[b->frames.data[b->frames.count - 1].region]; }

// ---- Values and instructions ----

tc_kval tc_kbi_value(tc_kb *b, tc_dtype type, bool varying, int32_t inst, int32_t result) {
  b->values.data[b->values.count] = (tc_kvalue){type, varying, inst, result};
  b->names.data[b->names.count++] = (tc_sv){0};
  b->value_regions.data[b->value_regions.count++] = b->frames.data[b->frames.count - 1].region;
  return b->values.count++;
}

int32_t tc_kbi_emit(tc_kb *b, tc_kinst in, int32_t n_results, const tc_dtype *types) {
  int32_t number = b->insts.count++;
  int32_t *args = tc_kbi_list(b, in.n_args), *results = tc_kbi_list(b, n_results);
  for (int32_t i = 0; i < in.n_args; i++) args[i] = in.args[i];
  in.args = args;
  bool varying = tc_kir_varying(&in, b->mems.data, b->values.data);
  for (int32_t i = 0; i < n_results; i++) results[i] = tc_kbi_value(b, types[i], varying, number, i);
  in.results = results, in.n_results = n_results;
  b->insts.data[number] = in;
  tc_kir_region *g = tc_kbi_region(b);
  g->insts.data[g->insts.count++] = number;
  return number;
}

static uint64_t inst_hash(const tc_kinst *in, tc_dtype type, uint64_t salt) {
  int64_t head[9] = {in->op, in->flags, in->width, in->mem, in->has_mask, type, in->imm, 0, (int64_t)salt};
  memcpy(&head[7], &in->fimm, sizeof in->fimm);
  uint64_t h = tc_hash(head, sizeof head);
  return tc_hash_mix(h, tc_hash(in->args, sizeof *in->args * (size_t)in->n_args));
}

static bool inst_equal(const tc_kinst *a, const tc_kinst *b) {
  return a->op == b->op && a->flags == b->flags && a->width == b->width && a->mem == b->mem &&
         a->has_mask == b->has_mask && a->n_args == b->n_args && a->imm == b->imm &&
         memcmp(&a->fimm, &b->fimm, 8) == 0 &&
         (a->n_args == 0 || memcmp(a->args, b->args, sizeof *a->args * (size_t)a->n_args) == 0);
}

// Each entry is a pair: instruction number + 1, low half of the hash.
static void table_put(tc_kb *b, int32_t number, uint64_t h) {
  int32_t mask = b->shared_size - 1, at = (int32_t)(h & (uint64_t)mask);
  while (b->shared[2 * at]) at = (at + 1) & mask;
  b->shared[2 * at] = number + 1;
  b->shared[2 * at + 1] = (int32_t)(uint32_t)h;
  b->shared_used++;
}

static void rehash(tc_kb *b) {
  int32_t *old = b->shared, old_size = b->shared_size, live = 0;
  for (int32_t i = 0; i < old_size; i++)
    live += old[2 * i] && b->regions.data[b->value_regions.data[b->insts.data[old[2 * i] - 1].results[0]]].open;
  int32_t size = 256;
  while (size < 4 * (live + SPARE)) size *= 2;
  b->shared = TC_NEW_ARRAY(b->arena, int32_t, 2 * size);
  b->shared_size = size, b->shared_used = 0;
  for (int32_t i = 0; i < old_size; i++) {
    if (!old[2 * i] || !b->regions.data[b->value_regions.data[b->insts.data[old[2 * i] - 1].results[0]]].open) continue;
    table_put(b, old[2 * i] - 1, (uint64_t)(uint32_t)old[2 * i + 1]);
  }
}

int32_t tc_kbi_emit_shared(tc_kb *b, tc_kinst in, int32_t n_results, const tc_dtype *types, uint64_t salt) {
  if (b->raw) return tc_kbi_emit(b, in, n_results, types);
  uint64_t h = inst_hash(&in, types[0], salt) & 0xffffffffu;
  int32_t mask = b->shared_size - 1;
  for (int32_t at = (int32_t)(h & (uint64_t)mask); b->shared[2 * at]; at = (at + 1) & mask) {
    int32_t number = b->shared[2 * at] - 1;
    if ((uint32_t)b->shared[2 * at + 1] != (uint32_t)h || !inst_equal(&b->insts.data[number], &in)) continue;
    tc_kval v = b->insts.data[number].results[0];
    if (b->regions.data[b->value_regions.data[v]].open && b->values.data[v].dtype == types[0]) return number;
  }
  int32_t number = tc_kbi_emit(b, in, n_results, types);
  table_put(b, number, h);
  return number;
}

bool tc_kbi_usable(tc_kb *b, tc_kval v, const char *what) {
  if (b->fail_code) return false;
  if (v < 0 || v >= b->values.count) {
    bad(b, "%s: an operand is not a value", what);
    return false;
  }
  if (!b->regions.data[b->value_regions.data[v]].open) {
    bad(b, "%s: an operand belongs to a region that is closed", what);
    return false;
  }
  int32_t def = b->values.data[v].inst;
  if (def >= 0 && b->insts.data[def].op == TC_K_LANES) {
    bad(b, "%s: what a lanes region yields may only be used by collectives", what);
    return false;
  }
  return true;
}

bool tc_kb_const_of(const tc_kb *b, tc_kval v, tc_knum *out) {
  const tc_kinst *in = tc_kb_inst_of(b, v);
  if (!in || in->op != TC_K_CONST) return false;
  *out = (tc_knum){.i = in->imm};
  if (tc_dtype_is_float(b->values.data[v].dtype)) out->re = in->fimm;
  return true;
}

const tc_kinst *tc_kb_inst_of(const tc_kb *b, tc_kval v) {
  if (v < 0 || v >= b->values.count || b->values.data[v].inst < 0) return NULL;
  return &b->insts.data[b->values.data[v].inst];
}

const tc_kmem_info *tc_kb_mem(const tc_kb *b, tc_kmem m) {
  return m >= 0 && m < b->mems.count ? &b->mems.data[m] : NULL;
}

bool tc_kb_in_lanes(const tc_kb *b) {
  return b->frames.count && b->regions.data[b->frames.data[b->frames.count - 1].region].in_lanes;
}

tc_dtype tc_kb_type(const tc_kb *b, tc_kval x) {
  return x >= 0 && x < b->values.count ? b->values.data[x].dtype : TC_DTYPE_NONE;
}

// ---- Declarations ----

typedef struct declaration {
  tc_kb *b;
  tc_sv name;
  const void *data;
  size_t size;
  void *copy;
} declaration;

static tc_status keep(void *arg) {
  declaration *d = arg;
  d->name = tc_sv_copy(d->b->arena, d->name);
  if (d->data) {
    d->copy = tc_arena_alloc_aligned(d->b->arena, d->size ? d->size : 1, 64);
    memcpy(d->copy, d->data, d->size);
  }
  return TC_OK;
}

// Copies a name and data into the arena.
static bool keep_text(tc_kb *b, declaration *d) {
  if (!tc_kbi_ready(b, 0)) return false;
  d->b = b;
  tc_status s = tc_arena_guard(b->arena, keep, d);
  if (!s) return true;
  tc_kbi_fail(b, tc_status_code(s), "%s", tc_status_text(s));
  tc_status_free(s);
  return false;
}

void tc_kb_name(tc_kb *b, tc_kval v, tc_sv name) {
  declaration d = {.name = name};
  if (v >= 0 && v < b->values.count && !b->names.data[v].size && keep_text(b, &d)) b->names.data[v] = d.name;
}

static tc_kmem add_mem(tc_kb *b, tc_kmem_info m, const void *data) {
  if (b->fail_code) return -1;
  if (m.dtype <= TC_DTYPE_NONE || m.dtype >= TC_DTYPE_COUNT) {
    bad(b, "memory %%" TC_SV_FMT " has no type", TC_SV_ARG(m.name));
    return -1;
  }
  int32_t size = tc_dtype_size(m.dtype);
  if (m.space != TC_SPACE_GLOBAL && (m.count <= 0 || m.count > (INT64_C(1) << 30) / size)) {
    bad(b, "memory %%" TC_SV_FMT " has %lld elements: 1 to %lld are possible", TC_SV_ARG(m.name), (long long)m.count,
        (long long)((INT64_C(1) << 30) / size));
    return -1;
  }
  if (m.align < size || (m.align & (m.align - 1))) m.align = size;
  declaration d = {.name = m.name, .data = data, .size = data ? (size_t)m.count * (size_t)size : 0};
  if (!keep_text(b, &d)) return -1;
  m.name = d.name, m.data = d.copy;
  b->mems.data[b->mems.count++] = m;
  if (m.space == TC_SPACE_GLOBAL)
    b->params.data[b->params.count++] = (tc_kparam){.is_scalar = 0, .index = b->mems.count - 1};
  return b->mems.count - 1;
}

tc_kmem tc_kb_global(tc_kb *b, tc_sv name, tc_dtype dtype, int32_t flags, int32_t align) {
  return add_mem(
      b,
      (tc_kmem_info){
          .name = name, .space = TC_SPACE_GLOBAL, .flags = flags, .dtype = dtype, .align = align, .count = -1},
      NULL);
}

tc_kmem tc_kb_shared(tc_kb *b, tc_sv name, tc_dtype dtype, int64_t count) {
  return add_mem(b, (tc_kmem_info){.name = name, .space = TC_SPACE_SHARED, .dtype = dtype, .align = 64, .count = count},
                 NULL);
}

tc_kmem tc_kb_lane_array(tc_kb *b, tc_sv name, tc_dtype dtype, int64_t count) {
  return add_mem(b, (tc_kmem_info){.name = name, .space = TC_SPACE_LANE, .dtype = dtype, .align = 16, .count = count},
                 NULL);
}

// A table that is there already is used again: two stages of one kernel often need the same numbers.
tc_kmem tc_kb_table(tc_kb *b, tc_sv name, tc_dtype dtype, int64_t count, const void *data) {
  if (!data) {
    bad(b, "table %%" TC_SV_FMT " has no data", TC_SV_ARG(name));
    return -1;
  }
  for (tc_kmem m = 0; m < b->mems.count && !b->fail_code; m++) {
    const tc_kmem_info *t = &b->mems.data[m];
    bool like = t->space == TC_SPACE_TABLE && t->dtype == dtype && t->count == count && tc_sv_eq(t->name, name);
    if (like && memcmp(t->data, data, (size_t)count * (size_t)tc_dtype_size(dtype)) == 0) return m;
  }
  return add_mem(
      b,
      (tc_kmem_info){
          .name = name, .space = TC_SPACE_TABLE, .flags = TC_MEM_READONLY, .dtype = dtype, .align = 64, .count = count},
      data);
}

tc_kmem tc_kb_constant_table(tc_kb *b, tc_sv name, tc_dtype dtype, int64_t count, const void *data) {
  for (tc_kmem m = 0; m < b->mems.count && !b->fail_code; m++)
    if (b->mems.data[m].space == TC_SPACE_TABLE && tc_sv_eq(b->mems.data[m].name, name)) return m;
  return tc_kb_table(b, name, dtype, count, data);
}

int32_t tc_kb_scalar(tc_kb *b, tc_sv name, tc_dtype dtype, int64_t lo, int64_t hi, int64_t divisor) {
  if (b->fail_code) return -1;
  if (dtype <= TC_DTYPE_NONE || dtype >= TC_DTYPE_COUNT || tc_dtype_is_complex(dtype)) {
    bad(b, "scalar %%" TC_SV_FMT " must be bool, an integer or a real", TC_SV_ARG(name));
    return -1;
  }
  if (lo > hi || divisor < 1) {
    bad(b, "scalar %%" TC_SV_FMT " has impossible facts", TC_SV_ARG(name));
    return -1;
  }
  declaration d = {.name = name};
  if (!keep_text(b, &d)) return -1;
  b->scalars.data[b->scalars.count++] = (tc_kscalar_info){d.name, dtype, 0, lo, hi, divisor};
  b->params.data[b->params.count++] = (tc_kparam){.is_scalar = 1, .index = b->scalars.count - 1};
  return b->scalars.count - 1;
}

int32_t tc_kb_lanes_count(const tc_kb *b) { return b->lanes; }

// ---- Constants and coordinates ----

static tc_kval leaf(tc_kb *b, int32_t op, tc_dtype type, int64_t imm, double fimm) {
  tc_kinst in = {.op = op, .mem = -1, .imm = imm, .fimm = fimm};
  return b->insts.data[tc_kbi_emit_shared(b, in, 1, &type, 0)].results[0];
}

tc_kval tc_kbi_const(tc_kb *b, tc_dtype type, tc_knum v) {
  return tc_dtype_is_float(type) ? leaf(b, TC_K_CONST, type, 0, v.re) : leaf(b, TC_K_CONST, type, v.i, 0);
}

tc_kval tc_kb_int(tc_kb *b, tc_dtype dtype, int64_t v) {
  if (tc_dtype_is_float(dtype) || tc_dtype_is_complex(dtype)) return tc_kb_real(b, dtype, (double)v);
  if (!tc_kbi_ready(b, 0)) return -1;
  if (!tc_kir_is_int(dtype) && dtype != TC_BOOL) return bad(b, "const: no such type"), -1;
  return tc_kbi_const(b, dtype, tc_kir_int(dtype, v));
}

tc_kval tc_kb_real(tc_kb *b, tc_dtype dtype, double v) {
  if (tc_dtype_is_complex(dtype)) {
    tc_dtype part = tc_dtype_real(dtype);
    return tc_kb_op2(b, TC_K_COMPLEX, tc_kb_real(b, part, v), tc_kb_real(b, part, 0));
  }
  if (!tc_kbi_ready(b, 0)) return -1;
  if (!tc_dtype_is_float(dtype)) {
    if (v != v || v < -0x1p63 || v >= 0x1p63) return bad(b, "const: %g is no integer", v), -1;
    return tc_kb_int(b, dtype, (int64_t)v);
  }
  return tc_kbi_const(b, dtype, (tc_knum){.re = tc_kir_round(dtype, v)});
}

tc_kval tc_kb_block(tc_kb *b) { return tc_kbi_ready(b, 0) ? leaf(b, TC_K_BLOCK, TC_I32, 0, 0) : -1; }

tc_kval tc_kb_lane(tc_kb *b) {
  if (!tc_kbi_ready(b, 0)) return -1;
  if (!tc_kb_in_lanes(b)) return bad(b, "lane: only inside a lanes region"), -1;
  return leaf(b, TC_K_LANE, TC_I32, 0, 0);
}

tc_kval tc_kb_param(tc_kb *b, int32_t scalar) {
  if (!tc_kbi_ready(b, 0)) return -1;
  if (scalar < 0 || scalar >= b->scalars.count) return bad(b, "scalar: no such parameter"), -1;
  return leaf(b, TC_K_SCALAR, b->scalars.data[scalar].dtype, scalar, 0);
}

// ---- Operations ----

tc_kval tc_kbi_pure(tc_kb *b, int32_t op, tc_dtype type, int32_t n, const tc_kval *args) {
  int32_t flags = 0;
  tc_dtype in_type = n ? b->values.data[args[n - 1]].dtype : type;
  if ((op == TC_K_DIV || op == TC_K_SQRT || op == TC_K_RSQRT) && !tc_kir_is_int(in_type)) flags = b->flags & TC_KI_FAST;
  if (op == TC_K_DIV && flags) flags |= b->flags & TC_KI_NOWRAP;
  if (tc_k_op_class(op) == 'a' && tc_kir_is_int(in_type)) flags = b->flags & TC_KI_NOWRAP;
  if (op == TC_K_SELECT) flags = b->flags & TC_KI_RARE;
  tc_kinst in = {.op = op, .flags = flags, .mem = -1, .n_args = n, .args = args};
  return b->insts.data[tc_kbi_emit_shared(b, in, 1, &type, 0)].results[0];
}

tc_kval tc_kb_op(tc_kb *b, int32_t op, int32_t n, const tc_kval *args) {
  if (!tc_kbi_ready(b, 4)) return -1;
  if (n < 1 || n > 3) return bad(b, "%s: %d operands", tc_k_op_text(op), n), -1;
  tc_dtype types[3], out;
  tc_kval v[3];
  for (int32_t i = 0; i < n; i++) {
    if (!tc_kbi_usable(b, args[i], tc_k_op_text(op))) return -1;
    v[i] = args[i], types[i] = b->values.data[v[i]].dtype;
  }
  const char *wrong = op == TC_K_CAST || op == TC_K_BITCAST ? "needs a type" : tc_kir_type_rule(op, n, types, &out);
  if (wrong) {
    char list[48] = "";
    for (int32_t i = 0; i < n; i++) {
      size_t used = strlen(list);
      snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", tc_dtype_name(types[i]));
    }
    bad(b, "%s (%s): %s", tc_k_op_text(op), list, wrong);
    return -1;
  }
  if (!b->raw) {
    tc_kval known = tc_kbi_fold(b, &op, types[n - 1], n, v);
    if (known >= 0 || b->fail_code) return known;
    n = tc_kir_arity(op); // a fold may have made it a simpler operation
  }
  return tc_kbi_pure(b, op, out, n, v);
}

tc_kval tc_kb_op1(tc_kb *b, int32_t op, tc_kval x) { return tc_kb_op(b, op, 1, &x); }
tc_kval tc_kb_op2(tc_kb *b, int32_t op, tc_kval x, tc_kval y) { return tc_kb_op(b, op, 2, (tc_kval[]){x, y}); }
tc_kval tc_kb_op3(tc_kb *b, int32_t op, tc_kval x, tc_kval y, tc_kval z) {
  return tc_kb_op(b, op, 3, (tc_kval[]){x, y, z});
}

static bool type_given(tc_kb *b, tc_dtype dtype, const char *what) {
  if (dtype > TC_DTYPE_NONE && dtype < TC_DTYPE_COUNT) return true;
  bad(b, "%s: no such type", what);
  return false;
}

tc_kval tc_kb_cast(tc_kb *b, tc_dtype dtype, tc_kval x) {
  if (!tc_kbi_ready(b, 4) || !tc_kbi_usable(b, x, "cast") || !type_given(b, dtype, "cast")) return -1;
  if (!b->raw) {
    tc_kval known = tc_kbi_fold_cast(b, dtype, x);
    if (known >= 0) return known;
  }
  return tc_kbi_pure(b, TC_K_CAST, dtype, 1, &x);
}

tc_kval tc_kb_bitcast(tc_kb *b, tc_dtype dtype, tc_kval x) {
  if (!tc_kbi_ready(b, 4) || !tc_kbi_usable(b, x, "bitcast") || !type_given(b, dtype, "bitcast")) return -1;
  tc_dtype from = b->values.data[x].dtype;
  if (tc_dtype_size(from) != tc_dtype_size(dtype) || tc_dtype_is_complex(from) || tc_dtype_is_complex(dtype) ||
      (from == TC_BOOL) != (dtype == TC_BOOL)) {
    bad(b, "bitcast: %s and %s do not have the same bits", tc_dtype_name(from), tc_dtype_name(dtype));
    return -1;
  }
  tc_knum v;
  if (!b->raw && from == dtype) return x;
  if (!b->raw && tc_kb_const_of(b, x, &v) && !(v.re != v.re && tc_dtype_is_float(from)))
    return tc_kbi_const(b, dtype, tc_kir_from_bits(dtype, tc_kir_to_bits(from, v)));
  return tc_kbi_pure(b, TC_K_BITCAST, dtype, 1, &x);
}

// ---- Memory ----

// Checks memory, index and mask of an access.
static bool access_ok(tc_kb *b, const char *what, tc_kmem m, tc_kval index, tc_kval mask, bool write) {
  if (b->fail_code) return false;
  if (m < 0 || m >= b->mems.count) return bad(b, "%s: no such memory object", what), false;
  const tc_kmem_info *info = &b->mems.data[m];
  if (!tc_kbi_usable(b, index, what)) return false;
  if (!tc_kir_is_int(tc_kb_type(b, index)) || tc_kir_bits(tc_kb_type(b, index)) < 32)
    return bad(b, "%s: the index must be an integer of 32 or 64 bits, not %s", what,
               tc_dtype_name(tc_kb_type(b, index))),
           false;
  if (mask != -1) {
    if (!tc_kbi_usable(b, mask, what)) return false;
    if (tc_kb_type(b, mask) != TC_BOOL) return bad(b, "%s: the mask must be bool", what), false;
  }
  if (!tc_kb_in_lanes(b) && (write || info->space == TC_SPACE_LANE))
    return bad(b, "%s %%" TC_SV_FMT ": only inside a lanes region", what, TC_SV_ARG(info->name)), false;
  if (write && (info->space == TC_SPACE_TABLE || info->flags & TC_MEM_READONLY))
    return bad(b, "%s %%" TC_SV_FMT ": the memory is read only", what, TC_SV_ARG(info->name)), false;
  if (!write && info->flags & TC_MEM_WRITEONLY)
    return bad(b, "%s %%" TC_SV_FMT ": the memory is write only", what, TC_SV_ARG(info->name)), false;
  return true;
}

static bool values_ok(tc_kb *b, const char *what, tc_kmem m, int32_t n, const tc_kval *values) {
  for (int32_t i = 0; i < n; i++) {
    if (!tc_kbi_usable(b, values[i], what)) return false;
    if (tc_kb_type(b, values[i]) != b->mems.data[m].dtype)
      return bad(b, "%s %%" TC_SV_FMT ": a value is %s, the memory %s", what, TC_SV_ARG(b->mems.data[m].name),
                 tc_dtype_name(tc_kb_type(b, values[i])), tc_dtype_name(b->mems.data[m].dtype)),
             false;
  }
  return true;
}

enum { MAX_WIDTH = 64 };

void tc_kb_load(tc_kb *b, tc_kmem m, tc_kval index, int32_t width, tc_kval mask, const tc_kval *other, tc_kval *out) {
  for (int32_t i = 0; i < width && i < MAX_WIDTH; i++) out[i] = -1;
  if (width < 1 || width > MAX_WIDTH) {
    bad(b, "load: a width of %d is not possible (1 to %d are)", width, MAX_WIDTH);
    return;
  }
  if (!tc_kbi_ready(b, 2 * width + 2) || !access_ok(b, "load", m, index, mask, false)) return;
  tc_kval args[MAX_WIDTH + 2] = {index, mask};
  tc_dtype types[MAX_WIDTH];
  tc_dtype type = b->mems.data[m].dtype;
  tc_kval zero = mask != -1 && !other ? tc_kb_real(b, type, 0) : -1;
  for (int32_t i = 0; i < width; i++) types[i] = type, args[2 + i] = other ? other[i] : zero;
  if (mask != -1 && !values_ok(b, "load", m, width, args + 2)) return;
  tc_knum on;
  if (!b->raw && mask != -1 && tc_kb_const_of(b, mask, &on)) {
    if (!on.i) {
      memcpy(out, args + 2, sizeof *out * (size_t)width);
      return;
    }
    mask = -1;
  }
  tc_kinst in = {.op = TC_K_LOAD,
                 .width = width,
                 .mem = m,
                 .has_mask = mask != -1,
                 .n_args = mask != -1 ? 2 + width : 1,
                 .args = args};
  const tc_kmem_info *info = &b->mems.data[m];
  bool stable = info->space == TC_SPACE_TABLE || (info->flags & TC_MEM_READONLY);
  bool alone = info->space == TC_SPACE_TABLE || (info->flags & TC_MEM_NOALIAS);
  int32_t number = stable ? tc_kbi_emit_shared(b, in, width, types, alone ? 0 : (uint64_t)b->epoch + 1)
                          : tc_kbi_emit(b, in, width, types);
  memcpy(out, b->insts.data[number].results, sizeof *out * (size_t)width);
}

tc_kval tc_kb_load1(tc_kb *b, tc_kmem m, tc_kval index, tc_kval mask, tc_kval other) {
  tc_kval out;
  tc_kb_load(b, m, index, 1, mask, other == -1 ? NULL : &other, &out);
  return out;
}

void tc_kb_store(tc_kb *b, tc_kmem m, tc_kval index, int32_t width, const tc_kval *values, tc_kval mask) {
  if (width < 1 || width > MAX_WIDTH) {
    bad(b, "store: a width of %d is not possible (1 to %d are)", width, MAX_WIDTH);
    return;
  }
  if (!tc_kbi_ready(b, width + 2) || !access_ok(b, "store", m, index, mask, true) ||
      !values_ok(b, "store", m, width, values))
    return;
  tc_knum on;
  if (!b->raw && mask != -1 && tc_kb_const_of(b, mask, &on)) {
    if (!on.i) return;
    mask = -1;
  }
  tc_kval args[MAX_WIDTH + 2] = {index};
  memcpy(args + 1, values, sizeof *values * (size_t)width);
  args[1 + width] = mask;
  tc_kinst in = {.op = TC_K_STORE,
                 .width = width,
                 .mem = m,
                 .has_mask = mask != -1,
                 .n_args = 1 + width + (mask != -1),
                 .args = args};
  tc_kbi_emit(b, in, 0, NULL);
  if (b->mems.data[m].space == TC_SPACE_GLOBAL) b->epoch++;
}

void tc_kb_atomic_add(tc_kb *b, tc_kmem m, tc_kval index, tc_kval value, tc_kval mask) {
  if (!tc_kbi_ready(b, 4) || !access_ok(b, "atomic_add", m, index, mask, true) ||
      !values_ok(b, "atomic_add", m, 1, &value))
    return;
  if (b->mems.data[m].space == TC_SPACE_LANE) {
    bad(b, "atomic_add %%" TC_SV_FMT ": only global or shared memory", TC_SV_ARG(b->mems.data[m].name));
    return;
  }
  tc_kval args[3] = {index, value, mask};
  tc_kinst in = {
      .op = TC_K_ATOMIC_ADD, .width = 1, .mem = m, .has_mask = mask != -1, .n_args = 2 + (mask != -1), .args = args};
  tc_kbi_emit(b, in, 0, NULL);
  if (b->mems.data[m].space == TC_SPACE_GLOBAL) b->epoch++;
}

void tc_kb_prefetch(tc_kb *b, tc_kmem m, tc_kval index) { tc_kb_prefetch_from(b, m, index, 0); }

void tc_kb_prefetch_from(tc_kb *b, tc_kmem m, tc_kval index, int32_t flags) {
  if (!tc_kbi_ready(b, 1) || !access_ok(b, "prefetch", m, index, -1, false)) return;
  tc_kinst in = {.op = TC_K_PREFETCH, .width = 1, .flags = flags, .mem = m, .n_args = 1, .args = &index};
  tc_kbi_emit(b, in, 0, NULL);
}

void tc_kb_mma(tc_kb *b, int32_t op, const tc_kval *a, const tc_kval *x, const tc_kval *c, tc_kval *out) {
  tc_kval args[TC_KIR_MMA_ARGS] = {a[0], a[1], a[2], a[3], x[0], x[1], c[0], c[1], c[2], c[3]};
  tc_dtype types[TC_KIR_MMA_ARGS];
  for (int32_t i = 0; i < TC_KIR_MMA_SUMS; i++) out[i] = -1;
  if (!tc_kbi_ready(b, TC_KIR_MMA_ARGS + TC_KIR_MMA_SUMS)) return;
  if (!tc_kir_is_mma(op)) {
    bad(b, "%s multiplies no tiles", tc_k_op_text(op));
    return;
  }
  if (!tc_kb_in_lanes(b)) {
    bad(b, "%s: only inside a lanes region", tc_k_op_text(op));
    return;
  }
  for (int32_t i = 0; i < TC_KIR_MMA_ARGS; i++) {
    if (!tc_kbi_usable(b, args[i], tc_k_op_text(op))) return;
    types[i] = tc_kb_type(b, args[i]);
  }
  const char *wrong = tc_kir_mma_rule(b->lanes, types);
  if (wrong) {
    bad(b, "%s: %s", tc_k_op_text(op), wrong);
    return;
  }
  tc_kinst in = {.op = op, .mem = -1, .n_args = TC_KIR_MMA_ARGS, .args = args};
  int32_t number = tc_kbi_emit(b, in, TC_KIR_MMA_SUMS, types + TC_KIR_MMA_WORDS);
  memcpy(out, b->insts.data[number].results, sizeof *out * TC_KIR_MMA_SUMS);
}

void tc_kb_check(tc_kb *b, tc_kval cond, int64_t site) {
  if (!tc_kbi_ready(b, 1) || !tc_kbi_usable(b, cond, "check")) return;
  if (tc_kb_type(b, cond) != TC_BOOL) {
    bad(b, "check: the condition must be bool");
    return;
  }
  tc_kbi_emit(b, (tc_kinst){.op = TC_K_CHECK, .mem = -1, .n_args = 1, .args = &cond, .imm = site}, 0, NULL);
}
