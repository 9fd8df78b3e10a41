// The context: symbols with what is known of them, and the table that makes equal expressions the same pointer
// (hash-consing; Filliâtre and Conchon, "Type-safe modular hash-consing", 2006).
//
// Hashes depend on structure and names only, never on addresses, so they are the same in every run.
// Epochs: memos in nodes (ranges, divisors, proofs) hold while no fact about a used symbol changes. Facts change
// through tc_sym_assume and through the pointer of tc_sym_info_of; the latter is noticed at the next building or asking
// step by comparing with what was seen last. Changing a symbol that no expression uses yet costs nothing.
#include <string.h>

#include "core/symbolic/internal.h"

tc_sym_ctx *tc_sym_create(tc_arena *arena) {
  tc_sym_ctx *c = TC_NEW(arena, tc_sym_ctx);
  c->arena = arena;
  c->table_size = 512;
  c->table = TC_NEW_ARRAY(arena, struct slot, c->table_size);
  c->by_name = tc_map_create(arena);
  c->fresh = tc_map_create(arena);
  c->facts = tc_map_create(arena);
  c->truths = tc_map_create(arena);
  c->cache_size = CACHE_SMALL;
  c->cache = TC_NEW_ARRAY(arena, cached, c->cache_size);
  c->epoch = 1;
  for (int64_t v = -1; v <= 128; v++) c->small[v + 1] = tc_sym_int(c, v);
  return c;
}

tc_arena *tc_sym_arena(tc_sym_ctx *c) { return c->arena; }

static void grow(tc_sym_ctx *c) {
  uint32_t size = c->table_size * 2;
  struct slot *table = TC_NEW_ARRAY(c->arena, struct slot, size);
  for (uint32_t i = 0; i < c->table_size; i++) {
    if (!c->table[i].sym) continue;
    uint32_t at = (uint32_t)c->table[i].hash & (size - 1);
    while (table[at].sym) at = (at + 1) & (size - 1);
    table[at] = c->table[i];
  }
  c->table = table;
  c->table_size = size;
  if (size >= CACHE_LARGE && c->cache_size < CACHE_LARGE) { // what the small one holds is found again
    c->cache_size = CACHE_LARGE;
    c->cache = TC_NEW_ARRAY(c->arena, cached, CACHE_LARGE);
  }
}

// Finds the node equal to `like` or puts a copy into the table.
static const tc_sym *intern(tc_sym_ctx *c, const tc_sym *like, bool raw) {
  uint32_t at = (uint32_t)like->hash & (c->table_size - 1);
  for (const tc_sym *e; (e = c->table[at].sym); at = (at + 1) & (c->table_size - 1))
    if (c->table[at].hash == like->hash && e->kind == like->kind && e->n == like->n && e->value == like->value &&
        e->symbol == like->symbol && nd(e)->raw == raw &&
        (like->n == 0 || !memcmp(e->kids, like->kids, sizeof *e->kids * (size_t)like->n)))
      return e;
  node *e = TC_NEW(c->arena, node);
  e->s = *like;
  e->id = c->node_count++;
  e->raw = raw;
  e->size = 1;
  if (like->n) e->s.kids = tc_arena_copy(c->arena, like->kids, sizeof *like->kids * (size_t)like->n);
  for (int32_t i = 0; i < like->n; i++) {
    const node *k = nd(like->kids[i]);
    if (k->depth >= e->depth) e->depth = k->depth + 1;
    e->size = e->size > UINT32_MAX - k->size ? UINT32_MAX : e->size + k->size;
    e->mask |= k->mask;
    if (k->s.kind == TC_SYM_SYMBOL) c->symbols.data[k->s.symbol]->used = true;
    if (like->kind == TC_SYM_MUL || like->kind == TC_SYM_POW) e->divides |= k->divides;
  }
  // There is no way to report from here: unwinds to the guard of the arena.
  if (e->depth > MAX_DEPTH) (void)tc_arena_array(c->arena, SIZE_MAX, 2);
  if (like->kind == TC_SYM_FLOORDIV || like->kind == TC_SYM_MOD) e->divides = 1;
  e->coeff = like->kind == TC_SYM_CONST ? like->value : 1;
  e->unit = like->kind == TC_SYM_CONST ? NULL : &e->s;
  if (like->kind == TC_SYM_SYMBOL) e->mask = 1ull << (like->symbol & 63);
  c->table[at] = (struct slot){&e->s, like->hash};
  if (c->node_count * 2 > c->table_size) grow(c);
  if (like->kind == TC_SYM_MUL && !raw && like->kids[0]->kind == TC_SYM_CONST) {
    e->coeff = like->kids[0]->value;
    e->unit = like->n == 2 ? like->kids[1] : tc_sym_make(c, TC_SYM_MUL, e->s.kids + 1, like->n - 1, false);
  }
  return &e->s;
}

const tc_sym *tc_sym_make(tc_sym_ctx *c, int32_t kind, const tc_sym *const *kids, int32_t n, bool raw) {
  tc_sym like = {.kind = kind, .n = n, .kids = kids, .hash = tc_hash_mix((uint64_t)kind * 2 + raw + 1, (uint64_t)n)};
  for (int32_t i = 0; i < n; i++) like.hash = tc_hash_mix(like.hash, kids[i]->hash);
  return intern(c, &like, raw);
}

const tc_sym *tc_sym_int(tc_sym_ctx *c, int64_t v) {
  if (v >= -1 && v <= 128 && c->small[v + 1]) return c->small[v + 1];
  tc_sym like = {.kind = TC_SYM_CONST, .value = v, .hash = tc_hash_mix(0x9e3779b97f4a7c15u, (uint64_t)v)};
  return intern(c, &like, false);
}

const tc_sym *tc_sym_symbol(tc_sym_ctx *c, tc_sv name) {
  bool made;
  tc_map_entry *entry = tc_map_put(c->by_name, name, &made);
  if (!made) return entry->value.ptr;
  tc_sym like = {.kind = TC_SYM_SYMBOL, .symbol = c->symbols.count};
  like.name = tc_sv_copy(c->arena, name);
  like.hash = tc_hash_mix(0x51ed270b7f4a7c15u, tc_hash(name.data, name.size));
  symbol_slot *slot = TC_NEW(c->arena, symbol_slot);
  slot->info = (tc_sym_info){
      .name = like.name, .origin = TC_SYM_BACKED, .lo = -TC_SYM_INF, .hi = TC_SYM_INF, .divisor = 1, .hint = INT64_MIN};
  slot->seen = slot->info;
  tc_vec_push(c->arena, &c->symbols, slot);
  slot->sym = intern(c, &like, false);
  entry->value.ptr = (void *)slot->sym;
  return slot->sym;
}

void tc_sym_fix(tc_sym_ctx *c, tc_sv name, int64_t value) {
  const tc_sym *number = tc_sym_int(c, value);
  tc_map_put(c->by_name, name, NULL)->value.ptr = (void *)(uintptr_t)number;
}

const tc_sym *tc_sym_fresh(tc_sym_ctx *c, const char *prefix, int32_t origin) {
  tc_map_entry *next = tc_map_put(c->fresh, tc_sv_of(prefix), NULL);
  tc_sv name;
  do name = tc_sv_printf(c->arena, "%s%lld", prefix, (long long)next->value.num++);
  while (tc_map_find(c->by_name, name));
  const tc_sym *s = tc_sym_symbol(c, name);
  c->symbols.data[s->symbol]->info.origin = origin;
  c->symbols.data[s->symbol]->seen.origin = origin;
  return s;
}

static const char *const seeds[TC_SYM_SEEDS + TC_SYM_STREAMS] = {"run_seed0", "run_seed1", "run_seed2", "run_stream0",
                                                                 "run_stream1"};

const tc_sym *tc_sym_seed(tc_sym_ctx *c, int32_t part) {
  const tc_sym *s = tc_sym_symbol(c, tc_sv_of(seeds[part]));
  tc_sym_info *info = tc_sym_info_of(c, s);
  info->origin = TC_SYM_UNBACKED;
  info->lo = 0, info->hi = (1 << TC_SYM_SEED_BITS) - 1;
  info->hint = 0;
  return s;
}

int32_t tc_sym_seed_part(const tc_sym *symbol) {
  for (int32_t i = 0; i < TC_SYM_SEEDS + TC_SYM_STREAMS; i++)
    if (tc_sv_is(symbol->name, seeds[i])) return i;
  return -1;
}

int32_t tc_sym_symbol_count(const tc_sym_ctx *c) { return c->symbols.count; }
const tc_sym *tc_sym_symbol_at(tc_sym_ctx *c, int32_t symbol) { return c->symbols.data[symbol]->sym; }

tc_sym_info *tc_sym_info_of(tc_sym_ctx *c, const tc_sym *symbol) {
  symbol_slot *slot = c->symbols.data[symbol->symbol];
  if (!slot->touched) {
    slot->touched = true;
    tc_vec_push(c->arena, &c->touched, slot);
  }
  return &slot->info;
}

const tc_sym_info *tc_sym_info_read(const tc_sym_ctx *c, const tc_sym *symbol) {
  return &c->symbols.data[symbol->symbol]->info;
}

void tc_sym_look(tc_sym_ctx *c) {
  for (int32_t i = 0; i < c->touched.count; i++) {
    symbol_slot *slot = c->touched.data[i];
    const tc_sym_info *a = &slot->info, *b = &slot->seen;
    if (a->lo == b->lo && a->hi == b->hi && a->lo_expr == b->lo_expr && a->hi_expr == b->hi_expr &&
        a->divisor == b->divisor)
      continue;
    slot->seen = slot->info;
    const tc_sym *ends[] = {a->lo_expr, a->hi_expr}; // whoever asks for this symbol now depends on those
    for (int32_t k = 0; k < 2; k++)
      if (ends[k] && ends[k]->kind == TC_SYM_SYMBOL) c->symbols.data[ends[k]->symbol]->used = true;
    if (slot->used) c->epoch++;
  }
  // The last one stays on the list: its pointer is likely still in the caller's hands.
  for (int32_t i = 0; i + 1 < c->touched.count; i++) c->touched.data[i]->touched = false;
  if (c->touched.count > 1) {
    c->touched.data[0] = tc_vec_last(&c->touched);
    c->touched.count = 1;
  }
}

static cached *slot_of(tc_sym_ctx *c, int32_t op, const tc_sym *a, const tc_sym *b) {
  return &c->cache[tc_hash_mix(a->hash + (uint64_t)op, b->hash) & (c->cache_size - 1)];
}

const tc_sym *tc_sym_cached(tc_sym_ctx *c, int32_t op, const tc_sym *a, const tc_sym *b) {
  const cached *e = slot_of(c, op, a, b);
  return e->a == a && e->b == b && e->op == op && e->epoch == c->epoch ? e->result : NULL;
}

void tc_sym_remember(tc_sym_ctx *c, int32_t op, const tc_sym *a, const tc_sym *b, const tc_sym *result) {
  if (c->proving == 0) *slot_of(c, op, a, b) = (cached){a, b, result, c->epoch, op};
}

// Products and powers first, then symbols by number, then the rest: "s0*s1 + s0 + s1//8".
static int32_t rank(const tc_sym *e) {
  switch (e->kind) {
  case TC_SYM_MUL:
  case TC_SYM_POW: return 0;
  case TC_SYM_SYMBOL: return 1;
  case TC_SYM_CONST: return 100;
  default: return 2 + e->kind;
  }
}

int32_t tc_sym_order(const tc_sym *a, const tc_sym *b) {
  while (a != b) {
    int32_t ra = rank(a), rb = rank(b);
    if (ra != rb) return ra < rb ? -1 : 1;
    if (a->kind == TC_SYM_CONST) return a->value < b->value ? -1 : 1;
    if (a->kind == TC_SYM_SYMBOL) return a->symbol < b->symbol ? -1 : 1;
    if (a->n != b->n) return a->n > b->n ? -1 : 1;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    int32_t i = 0;
    while (i < a->n && a->kids[i] == b->kids[i]) i++;
    if (i == a->n) return nd(a)->raw < nd(b)->raw ? -1 : 1;
    a = a->kids[i];
    b = b->kids[i];
  }
  return 0;
}
