// Making, checking and telling guards.
#include "core/guards/guards.h"

#include <string.h>

typedef struct guard_dim {
  int32_t place;  // of the size's symbol; -1: the size is a constant
  int64_t size;   // of the constant
  int64_t stride; // where the tensor is not dense
} guard_dim;

typedef struct guard_symbol {
  const tc_sym *symbol;
  int64_t lo, hi, divisor;
  bool number; // not a size
} guard_symbol;

typedef struct guard_number {
  const int64_t *at;
  tc_sv name, origin;
  int32_t place;
  int32_t input; // that has it, too; -1: none
} guard_number;

typedef struct guard_tensor {
  tc_sv name;
  bool present, conj, neg, dense;
  tc_dtype dtype;
  int32_t rank, device, alias; // alias: the first input on the same storage, itself if none
  int32_t number;              // that it is, too; -1: none
  uint32_t align;              // of host memory, bytes
  int32_t order[TC_MAX_RANK];  // dense: dimensions from the fastest on
  guard_dim dims[TC_MAX_RANK];
} guard_tensor;

typedef struct guard_sized {
  int64_t size;
  int32_t place;
} guard_sized;

typedef struct guard_condition {
  tc_sym_code code;
  tc_sv text, origin;
} guard_condition;

struct tc_guards {
  tc_sym_ctx *syms;
  int32_t n; // of the tensors that are checked
  TC_VEC(guard_tensor) tensors;
  TC_VEC(const tc_storage *) storages; // of the inputs while these are added, to see which share memory; not read later
  TC_VEC(guard_sized) seen;            // sizes that have symbols
  int32_t n_sealed;                    // conditions of the module that were looked at
  TC_VEC(guard_symbol) symbols;        // by place
  TC_VEC(int32_t) places;              // by the symbol's number; -1: none
  TC_VEC(guard_condition) conditions;
  TC_VEC(tc_guard_fact) facts;
  TC_VEC(guard_number) numbers;
  bool from_inputs; // numbers are read there
};

// ---- making ----
// What is left when the address of the first element is divided by `align`; 0 for memory of a device.
static uint32_t beyond(const tc_tensor *t, uint32_t align) {
  if (t->storage->device != 0) return 0;
  uintptr_t at = (uintptr_t)t->storage->data + (uintptr_t)t->offset * (uintptr_t)tc_dtype_size(t->dtype);
  return (uint32_t)(at & (align - 1));
}

// Dimensions sorted by stride; dense if each stride is the product of the sizes below it.
static bool find_order(const tc_tensor *t, int32_t *order) {
  int32_t n = 0;
  for (int32_t d = t->rank - 1; d >= 0; d--) {
    int32_t at = n++;
    for (; at > 0 && t->strides[order[at - 1]] > t->strides[d] && t->sizes[d] > 1; at--) order[at] = order[at - 1];
    order[at] = d;
  }
  int64_t expected = 1;
  for (int32_t k = 0; k < n; k++) {
    int64_t size = t->sizes[order[k]];
    if (size > 1 && t->strides[order[k]] != expected) return false;
    expected *= size > 1 ? size : 1;
  }
  return true;
}

// A new symbol of that kind, with its place.
static int32_t add_symbol(tc_guards *g, guard_symbol q, int64_t now) {
  tc_arena *arena = tc_sym_arena(g->syms);
  q.symbol = tc_sym_fresh(g->syms, "s", TC_SYM_BACKED);
  tc_sym_info *info = tc_sym_info_of(g->syms, q.symbol);
  info->lo = q.lo, info->hi = q.hi, info->divisor = q.divisor, info->hint = now;
  int32_t place = g->symbols.count;
  tc_vec_push(arena, &g->symbols, q);
  while (g->places.count <= q.symbol->symbol) tc_vec_push(arena, &g->places, -1);
  g->places.data[q.symbol->symbol] = place;
  return place;
}

// The place of the symbol for a size. Equal sizes share it where nothing, or the same, is promised of them.
static int32_t place_for(tc_guards *g, int64_t size, const tc_guard_mark *mark) {
  tc_arena *arena = tc_sym_arena(g->syms);
  guard_symbol q = {0};
  q.lo = mark->lo > 2 ? mark->lo : 2;
  q.hi = mark->hi ? mark->hi : TC_SYM_INF;
  q.divisor = mark->divisor > 1 ? mark->divisor : 1;
  for (int32_t i = 0; i < g->seen.count; i++) {
    const guard_symbol *have = &g->symbols.data[g->seen.data[i].place];
    if (g->seen.data[i].size == size && have->lo == q.lo && have->hi == q.hi && have->divisor == q.divisor)
      return g->seen.data[i].place;
  }
  int32_t place = add_symbol(g, q, size);
  tc_vec_push(arena, &g->seen, ((guard_sized){size, place}));
  return place;
}

static bool fits_mark(int64_t size, const tc_guard_mark *m) {
  return size > 1 && size >= m->lo && (!m->hi || size <= m->hi) && (m->divisor <= 1 || size % m->divisor == 0);
}

static void make_tensor(tc_guards *made, guard_tensor *g, const tc_tensor *t, const tc_guard_input *how,
                        tc_tensor_type *type) {
  tc_sym_ctx *c = made->syms;
  bool empty = tc_tensor_numel(t) == 0;
  g->present = true;
  g->dtype = t->dtype, g->rank = t->rank, g->conj = t->conj, g->neg = t->neg, g->device = t->storage->device;
  g->align = (uint32_t)tc_dtype_align(t->dtype);
  while (!empty && beyond(t, g->align)) g->align /= 2;
  g->dense = empty || find_order(t, g->order);
  tc_int *sizes = TC_NEW_ARRAY(tc_sym_arena(c), tc_int, 2 * t->rank + 1), *strides = sizes + t->rank;
  if (empty) { // strides of nothing: row-major
    for (int32_t k = 0; k < t->rank; k++) g->order[k] = t->rank - 1 - k;
  }
  for (int32_t d = 0; d < t->rank; d++) {
    const tc_guard_mark *mark = &how->marks[d];
    guard_dim *q = &g->dims[d];
    *q = (guard_dim){.place = -1, .size = t->sizes[d], .stride = t->strides[d]};
    sizes[d] = tc_sym_int(c, t->sizes[d]);
    if (!mark->dynamic || !fits_mark(t->sizes[d], mark)) continue;
    q->place = place_for(made, t->sizes[d], mark);
    sizes[d] = made->symbols.data[q->place].symbol;
  }
  const tc_sym *running = tc_sym_int(c, 1);
  for (int32_t k = 0; k < t->rank; k++) {
    int32_t d = g->dense ? g->order[k] : k;
    strides[d] = g->dense ? running : tc_sym_int(c, t->strides[d]);
    if (g->dense && !tc_sym_is_int(sizes[d], 0)) running = tc_sym_mul(c, running, sizes[d]);
  }
  *type = (tc_tensor_type){.dtype = t->dtype,
                           .rank = t->rank,
                           .sizes = sizes,
                           .strides = strides,
                           .offset = tc_sym_int(c, 0),
                           .conj = t->conj};
}

tc_guards *tc_guards_begin(tc_sym_ctx *syms) {
  tc_guards *g = TC_NEW(tc_sym_arena(syms), tc_guards);
  g->syms = syms;
  return g;
}

int32_t tc_guards_add(tc_guards *g, const tc_tensor *input, const tc_guard_input *how, tc_tensor_type *type) {
  tc_arena *arena = tc_sym_arena(g->syms);
  int32_t i = g->n;
  guard_tensor t = {.alias = i, .number = -1};
  t.name = how->name.size ? tc_sv_copy(arena, how->name) : tc_sv_printf(arena, "in.%d", i);
  for (int32_t k = i - 1; k >= 0 && input->storage; k--)
    if (g->storages.data[k] == input->storage) t.alias = k;
  if (input->storage) make_tensor(g, &t, input, how, type);
  tc_vec_push(arena, &g->storages, input->storage);
  tc_vec_push(arena, &g->tensors, t);
  return g->n++;
}

tc_guards *tc_guards_create(tc_sym_ctx *syms, int32_t n, const tc_tensor *inputs, const tc_guard_input *how,
                            tc_tensor_type *types) {
  tc_guards *g = tc_guards_begin(syms);
  for (int32_t i = 0; i < n; i++) (void)tc_guards_add(g, &inputs[i], &how[i], &types[i]);
  return g;
}

void tc_guards_keep(tc_guards *g, int32_t n) { g->n = n; }
int32_t tc_guards_condition_count(const tc_guards *g) { return g->conditions.count; }

bool tc_guards_share(const tc_guards *g) {
  for (int32_t i = 0; i < g->n; i++)
    if (g->tensors.data[i].alias != i) return true;
  return false;
}

bool tc_guards_mark_changes(const tc_guards *g, int32_t i, const tc_tensor *t, tc_guard_mark *marks) {
  const guard_tensor *q = i < g->n ? &g->tensors.data[i] : NULL;
  if (!q || !q->present || q->rank != t->rank) return false;
  for (int32_t d = 0; d < t->rank; d++) marks[d].dynamic |= q->dims[d].place >= 0 || q->dims[d].size != t->sizes[d];
  return true;
}

bool tc_guards_compile(const tc_guards *g, const tc_sym *e, tc_sym_code *out) {
  return tc_sym_compile_places(tc_sym_arena(g->syms), e, g->places.count, g->places.data, out);
}

void tc_guards_seal(tc_guards *g, const tc_module *m, tc_sv origin) {
  tc_arena *arena = tc_sym_arena(g->syms);
  for (; g->n_sealed < m->requires_.count; g->n_sealed++) {
    const tc_sym *e = m->requires_.data[g->n_sealed];
    guard_condition q;
    if (!tc_guards_compile(g, e, &q.code)) continue; // on data: the run's to check
    tc_sb sb = tc_sb_make(arena);
    tc_sym_print(&sb, e);
    q.text = tc_sb_view(&sb), q.origin = tc_sv_copy(arena, origin);
    tc_vec_push(arena, &g->conditions, q);
  }
}

int64_t tc_guard_fact_read(int32_t kind, const void *at) {
  switch (kind) {
  case TC_FACT_BOOL: return __atomic_load_n((const int32_t *)at, __ATOMIC_RELAXED) != 0;
  case TC_FACT_GIVEN: return __atomic_load_n((void *const *)at, __ATOMIC_RELAXED) != NULL;
  default: return __atomic_load_n((const int64_t *)at, __ATOMIC_RELAXED);
  }
}

void tc_guards_add_fact(tc_guards *g, const tc_guard_fact *f) {
  tc_arena *arena = tc_sym_arena(g->syms);
  tc_guard_fact copy = *f;
  copy.name = tc_sv_copy(arena, f->name), copy.origin = tc_sv_copy(arena, f->origin);
  tc_vec_push(arena, &g->facts, copy);
}

const tc_sym *tc_guards_add_number(tc_guards *g, const tc_guard_fact *f, int64_t lo, int64_t hi, int32_t input) {
  tc_arena *arena = tc_sym_arena(g->syms);
  if (lo == INT64_MIN) lo = -TC_SYM_INF;
  int32_t place = add_symbol(g, (guard_symbol){.lo = lo, .hi = hi, .divisor = 1, .number = true}, f->expected);
  guard_number q = {f->at, tc_sv_copy(arena, f->name), tc_sv_copy(arena, f->origin), place, input};
  if (input >= 0) g->tensors.data[input].number = g->numbers.count;
  tc_vec_push(arena, &g->numbers, q);
  return g->symbols.data[place].symbol;
}

void tc_guards_numbers_from_inputs(tc_guards *g) { g->from_inputs = true; }

int32_t tc_guards_symbol_count(const tc_guards *g) { return g->symbols.count; }

// ---- checking ----
static tc_guard_miss miss(int32_t kind, int32_t input, int32_t dim, int64_t expected, int64_t actual) {
  return (tc_guard_miss){kind, input, dim, expected, actual};
}

static tc_guard_miss check_size(const tc_guards *g, const guard_dim *q, int32_t i, int32_t d, int64_t size,
                                int64_t *symbols) {
  if (q->place < 0) {
    if (size != q->size) return miss(TC_GUARD_SIZE, i, d, q->size, size);
    return miss(TC_GUARD_HOLDS, 0, 0, 0, 0);
  }
  const guard_symbol *s = &g->symbols.data[q->place];
  int64_t *bound = &symbols[q->place];
  if (*bound == INT64_MIN) {
    bool divides = s->divisor == 1 || size % s->divisor == 0; // dividing takes longer than all the rest
    if (size < s->lo || size > s->hi || !divides) return miss(TC_GUARD_RANGE, i, d, s->lo, size);
    *bound = size;
  } else if (*bound != size) {
    return miss(TC_GUARD_SIZE, i, d, *bound, size);
  }
  return miss(TC_GUARD_HOLDS, 0, 0, 0, 0);
}

// The first input that has the storage of this one.
static int32_t alias_of(const tc_tensor *inputs, int32_t i) {
  int32_t k = 0;
  while (k < i && inputs[k].storage != inputs[i].storage) k++;
  return k;
}

static tc_guard_miss check_number(const tc_guards *g, int32_t i, int64_t v, int64_t *symbols) {
  const guard_number *q = &g->numbers.data[i];
  const guard_symbol *s = &g->symbols.data[q->place];
  if (v < s->lo || v > s->hi) return miss(TC_GUARD_NUMBER, i, 0, s->lo, v);
  symbols[q->place] = v;
  return miss(TC_GUARD_HOLDS, 0, 0, 0, 0);
}

static tc_guard_miss check_input(const tc_guards *g, int32_t i, const tc_tensor *inputs, int32_t alias,
                                 int64_t *symbols) {
  const guard_tensor *q = &g->tensors.data[i];
  const tc_tensor *t = &inputs[i];
  if (q->present != (t->storage != NULL)) return miss(TC_GUARD_PRESENCE, i, 0, q->present, !q->present);
  if (!q->present) return miss(TC_GUARD_HOLDS, 0, 0, 0, 0);
  if (t->dtype != q->dtype) return miss(TC_GUARD_DTYPE, i, 0, q->dtype, t->dtype);
  if (t->rank != q->rank) return miss(TC_GUARD_RANK, i, 0, q->rank, t->rank);
  if (t->conj != q->conj || t->neg != q->neg)
    return miss(TC_GUARD_BITS, i, 0, q->conj | q->neg << 1, t->conj | t->neg << 1);
  if (t->storage->device != q->device) return miss(TC_GUARD_DEVICE, i, 0, q->device, t->storage->device);
  if (beyond(t, q->align) && tc_tensor_numel(t) > 0)
    return miss(TC_GUARD_ALIGNMENT, i, 0, q->align, beyond(t, q->align));
  if (alias != q->alias) return miss(TC_GUARD_ALIAS, i, 0, q->alias, alias);
  bool empty = false;
  for (int32_t d = 0; d < t->rank; d++) {
    tc_guard_miss m = check_size(g, &q->dims[d], i, d, t->sizes[d], symbols);
    if (m.kind != TC_GUARD_HOLDS) return m;
    empty |= t->sizes[d] == 0;
  }
  int64_t running = 1;
  for (int32_t k = 0; k < t->rank && !empty; k++) {
    int32_t d = q->dense ? q->order[k] : k;
    int64_t expected = q->dense ? running : q->dims[d].stride;
    if (t->sizes[d] > 1 && t->strides[d] != expected) return miss(TC_GUARD_STRIDE, i, d, expected, t->strides[d]);
    running *= t->sizes[d];
  }
  if (q->number >= 0 && g->from_inputs) return check_number(g, q->number, *(int64_t *)tc_tensor_data(t), symbols);
  return miss(TC_GUARD_HOLDS, 0, 0, 0, 0);
}

tc_guard_miss tc_guards_check_input(const tc_guards *g, int32_t i, const tc_tensor *inputs, int64_t *symbols) {
  return check_input(g, i, inputs, alias_of(inputs, i), symbols);
}

void tc_guards_clear(const tc_guards *g, int64_t *symbols) {
  for (int32_t i = 0; i < g->symbols.count; i++) symbols[i] = INT64_MIN;
}

tc_guard_miss tc_guards_check_conditions(const tc_guards *g, int32_t from, int32_t to, const int64_t *symbols) {
  for (int32_t i = from; i < to; i++) {
    int64_t v = 0;
    tc_status s = tc_sym_run(g->conditions.data[i].code, symbols, &v);
    bool ok = s == TC_OK && v != 0;
    tc_status_free(s);
    if (!ok) return miss(TC_GUARD_CONDITION, i, 0, 1, 0);
  }
  return miss(TC_GUARD_HOLDS, 0, 0, 0, 0);
}

static tc_guard_miss check_facts(const tc_guards *g) {
  for (int32_t i = 0; i < g->facts.count; i++) {
    const tc_guard_fact *f = &g->facts.data[i];
    int64_t now = tc_guard_fact_read(f->kind, f->at);
    if (now != f->expected) return miss(TC_GUARD_FACT, i, 0, f->expected, now);
  }
  return miss(TC_GUARD_HOLDS, 0, 0, 0, 0);
}

tc_guard_miss tc_guards_check_numbers(const tc_guards *g, int64_t *symbols) {
  for (int32_t i = 0; i < g->numbers.count && !g->from_inputs; i++) {
    tc_guard_miss m = check_number(g, i, tc_guard_fact_read(TC_FACT_INT, g->numbers.data[i].at), symbols);
    if (m.kind != TC_GUARD_HOLDS) return m;
  }
  return miss(TC_GUARD_HOLDS, 0, 0, 0, 0);
}

enum { MET_WORDS = 8 };

tc_guard_miss tc_guards_check(const tc_guards *g, const tc_tensor *inputs, int64_t *symbols) {
  // Bits of storages that were met: without the bit it is a new one, and the inputs in front need not be looked at.
  uint64_t met[MET_WORDS] = {0};
  tc_guards_clear(g, symbols);
  for (int32_t i = 0; i < g->n; i++) {
    uint64_t hash = (uint64_t)(uintptr_t)inputs[i].storage * UINT64_C(0x9E3779B97F4A7C15) >> 32;
    uint64_t *word = &met[hash / 64 % MET_WORDS], bit = UINT64_C(1) << hash % 64;
    int32_t alias = *word & bit ? alias_of(inputs, i) : i;
    *word |= bit;
    tc_guard_miss m = check_input(g, i, inputs, alias, symbols);
    if (m.kind != TC_GUARD_HOLDS) return m;
  }
  tc_guard_miss m = check_facts(g);
  if (m.kind == TC_GUARD_HOLDS && g->numbers.count) m = tc_guards_check_numbers(g, symbols);
  return m.kind != TC_GUARD_HOLDS ? m : tc_guards_check_conditions(g, 0, g->conditions.count, symbols);
}

// ---- in words ----
static const char *bits_text(int64_t bits) {
  static const char *const names[] = {"plain", "conjugated", "negated", "conjugated and negated"};
  return names[bits & 3];
}

// What a number is, as its value is told.
static const char *fact_text(int32_t kind, int64_t value) {
  if (kind == TC_FACT_BOOL) return value ? "true" : "false";
  return value ? "given" : "absent";
}

static const char *const fact_words[] = {"int", "bool", "list", "optional"};

static void print_fact_miss(tc_sb *sb, const tc_guard_fact *f, const tc_guard_miss *m) {
  tc_sb_printf(sb, "%s '" TC_SV_FMT "' ", fact_words[f->kind], TC_SV_ARG(f->name));
  if (f->kind == TC_FACT_BOOL || f->kind == TC_FACT_GIVEN)
    tc_sb_printf(sb, "mismatch. expected %s, actual %s", fact_text(f->kind, m->expected),
                 fact_text(f->kind, m->actual));
  else
    tc_sb_printf(sb, "%smismatch. expected %lld, actual %lld", f->kind == TC_FACT_LENGTH ? "length " : "",
                 (long long)m->expected, (long long)m->actual);
}

static void print_range(tc_sb *sb, const guard_symbol *q) {
  if (q->lo == -TC_SYM_INF && q->hi == TC_SYM_INF) tc_sb_putz(sb, "any");
  else if (q->hi == TC_SYM_INF) tc_sb_printf(sb, "at least %lld", (long long)q->lo);
  else if (q->lo == -TC_SYM_INF) tc_sb_printf(sb, "at most %lld", (long long)q->hi);
  else tc_sb_printf(sb, "%lld to %lld", (long long)q->lo, (long long)q->hi);
}

void tc_guard_miss_print(tc_sb *sb, const tc_guards *g, const tc_guard_miss *m) {
  if (m->kind == TC_GUARD_HOLDS) return;
  if (m->kind == TC_GUARD_CONDITION) {
    tc_sb_printf(sb, "the condition " TC_SV_FMT " does not hold", TC_SV_ARG(g->conditions.data[m->input].text));
    return;
  }
  if (m->kind == TC_GUARD_FACT) {
    print_fact_miss(sb, &g->facts.data[m->input], m);
    return;
  }
  if (m->kind == TC_GUARD_NUMBER) {
    const guard_number *q = &g->numbers.data[m->input];
    tc_sb_printf(sb, "int '" TC_SV_FMT "' lies outside of what was compiled for: ", TC_SV_ARG(q->name));
    print_range(sb, &g->symbols.data[q->place]);
    tc_sb_printf(sb, "; actual %lld", (long long)m->actual);
    return;
  }
  const guard_tensor *t = &g->tensors.data[m->input];
  tc_sb_printf(sb, "tensor '" TC_SV_FMT "' ", TC_SV_ARG(t->name));
  long long expected = (long long)m->expected, actual = (long long)m->actual;
  switch (m->kind) {
  case TC_GUARD_PRESENCE: tc_sb_putz(sb, t->present ? "is absent" : "was absent and is given"); break;
  case TC_GUARD_DTYPE:
    tc_sb_printf(sb, "dtype mismatch. expected %s, actual %s", tc_dtype_name((tc_dtype)m->expected),
                 tc_dtype_name((tc_dtype)m->actual));
    break;
  case TC_GUARD_RANK: tc_sb_printf(sb, "rank mismatch. expected %lld, actual %lld", expected, actual); break;
  case TC_GUARD_BITS: tc_sb_printf(sb, "is %s, expected %s", bits_text(m->actual), bits_text(m->expected)); break;
  case TC_GUARD_DEVICE: tc_sb_printf(sb, "device mismatch. expected %lld, actual %lld", expected, actual); break;
  case TC_GUARD_ALIGNMENT:
    tc_sb_printf(sb, "alignment mismatch. expected a multiple of %lld bytes, actual %lld behind one", expected, actual);
    break;
  case TC_GUARD_ALIAS:
    if (m->expected == m->input)
      tc_sb_printf(sb, "shares memory with '" TC_SV_FMT "'", TC_SV_ARG(g->tensors.data[m->actual].name));
    else tc_sb_printf(sb, "no longer shares memory with '" TC_SV_FMT "'", TC_SV_ARG(g->tensors.data[m->expected].name));
    break;
  case TC_GUARD_SIZE:
    tc_sb_printf(sb, "size mismatch at index %d. expected %lld, actual %lld", m->dim, expected, actual);
    break;
  case TC_GUARD_RANGE: {
    const guard_symbol *q = &g->symbols.data[t->dims[m->dim].place];
    tc_sb_printf(sb, "size at index %d lies outside what was compiled for: at least %lld", m->dim, (long long)q->lo);
    if (q->hi != TC_SYM_INF) tc_sb_printf(sb, ", at most %lld", (long long)q->hi);
    if (q->divisor > 1) tc_sb_printf(sb, ", a multiple of %lld", (long long)q->divisor);
    tc_sb_printf(sb, "; actual %lld", actual);
    break;
  }
  default: tc_sb_printf(sb, "stride mismatch at index %d. expected %lld, actual %lld", m->dim, expected, actual);
  }
}

static void print_size(tc_sb *sb, const tc_guards *g, const guard_dim *q) {
  if (q->place < 0) tc_sb_int(sb, q->size);
  else tc_sb_put(sb, g->symbols.data[q->place].symbol->name);
}

void tc_guards_print(tc_sb *sb, const tc_guards *g) {
  for (int32_t i = 0; i < g->n; i++) {
    const guard_tensor *t = &g->tensors.data[i];
    if (t->number >= 0) continue;
    tc_sb_printf(sb, "tensor '" TC_SV_FMT "': ", TC_SV_ARG(t->name));
    if (!t->present) {
      tc_sb_putz(sb, "absent  # from the input\n");
      continue;
    }
    tc_sb_printf(sb, "%s[", tc_dtype_name(t->dtype));
    for (int32_t d = 0; d < t->rank; d++) {
      if (d) tc_sb_putz(sb, ", ");
      print_size(sb, g, &t->dims[d]);
    }
    tc_sb_putc(sb, ']');
    bool row_major = t->dense;
    for (int32_t k = 0; k < t->rank; k++) row_major &= t->order[k] == t->rank - 1 - k;
    if (!t->dense) {
      for (int32_t d = 0; d < t->rank; d++)
        tc_sb_printf(sb, "%s%lld", d ? ", " : " strides ", (long long)t->dims[d].stride);
    } else if (!row_major) {
      for (int32_t d = 0; d < t->rank; d++)
        tc_sb_printf(sb, "%s%d", d ? ", " : " dense, fastest dimension first ", t->order[d]);
    }
    if (t->conj || t->neg) tc_sb_printf(sb, ", %s", bits_text(t->conj | t->neg << 1));
    if (t->device) tc_sb_printf(sb, ", on device %d", t->device);
    else tc_sb_printf(sb, ", aligned to %u", t->align);
    if (t->alias != i)
      tc_sb_printf(sb, ", shares memory with '" TC_SV_FMT "'", TC_SV_ARG(g->tensors.data[t->alias].name));
    tc_sb_printf(sb, "  # from the input\n");
  }
  for (int32_t i = 0; i < g->symbols.count; i++) {
    const guard_symbol *q = &g->symbols.data[i];
    if (q->number) continue;
    tc_sb_printf(sb, TC_SV_FMT " >= %lld", TC_SV_ARG(q->symbol->name), (long long)q->lo);
    if (q->hi != TC_SYM_INF) tc_sb_printf(sb, ", <= %lld", (long long)q->hi);
    if (q->divisor > 1) tc_sb_printf(sb, ", a multiple of %lld", (long long)q->divisor);
    tc_sb_putz(sb, "  # from the sizes\n");
  }
  for (int32_t i = 0; i < g->conditions.count; i++)
    tc_sb_printf(sb, TC_SV_FMT "  # from " TC_SV_FMT "\n", TC_SV_ARG(g->conditions.data[i].text),
                 TC_SV_ARG(g->conditions.data[i].origin));
  for (int32_t i = 0; i < g->numbers.count; i++) {
    const guard_number *q = &g->numbers.data[i];
    const guard_symbol *s = &g->symbols.data[q->place];
    tc_sb_printf(sb, "int '" TC_SV_FMT "': " TC_SV_FMT ", ", TC_SV_ARG(q->name), TC_SV_ARG(s->symbol->name));
    print_range(sb, s);
    tc_sb_printf(sb, "  # from " TC_SV_FMT "\n", TC_SV_ARG(q->origin));
  }
  for (int32_t i = 0; i < g->facts.count; i++) {
    const tc_guard_fact *f = &g->facts.data[i];
    tc_sb_printf(sb, "%s '" TC_SV_FMT "': ", fact_words[f->kind], TC_SV_ARG(f->name));
    if (f->kind == TC_FACT_BOOL || f->kind == TC_FACT_GIVEN) tc_sb_putz(sb, fact_text(f->kind, f->expected));
    else tc_sb_printf(sb, "%s%lld", f->kind == TC_FACT_LENGTH ? "of length " : "", (long long)f->expected);
    tc_sb_printf(sb, "  # from " TC_SV_FMT "\n", TC_SV_ARG(f->origin));
  }
}
