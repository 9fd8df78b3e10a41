// Values during emission: integer expressions, loads, bodies.
//
// Everything is remembered by the identity of its symbolic form: an expression by its pointer (expressions are
// hash-consed), a node's value by node and index expressions. Entering a loop or region opens a scope; leaving it
// forgets what was made inside, so a remembered value is always visible where it is found.
#include <math.h>
#include <string.h>

#include "core/kernel/emit_internal.h"
#include "core/kernel/ir.h"

void em_fail(tc_em *e, const char *fmt, ...) {
  if (tc_failed(&e->failure)) return;
  va_list args;
  va_start(args, fmt);
  tc_failure_keep(&e->failure, e->arena, tc_errorv(TC_STATUS_INTERNAL, fmt, args));
  va_end(args);
}

// ---- scopes ----
int32_t em_mark(tc_em *e) { return e->undo.count; }

void em_leave(tc_em *e, int32_t mark) {
  while (e->undo.count > mark) {
    tc_em_undo u = e->undo.data[--e->undo.count];
    u.entry->value.num = u.old;
  }
}

static void remember(tc_em *e, tc_map_entry *entry, tc_kval v) {
  tc_em_undo u = {entry, entry->value.num};
  tc_vec_push(e->arena, &e->undo, u);
  entry->value.num = v < 0 ? 0 : (int64_t)v + 1;
}

void em_bind(tc_em *e, const tc_sym *symbol, tc_kval v) { remember(e, tc_map_put_ptr(e->values, symbol, NULL), v); }

const tc_sym *em_bind_block(tc_em *e, const tc_sym *blocks) {
  const tc_sym *block = tc_sym_fresh(e->syms, "b", TC_SYM_LOCAL);
  tc_sym_info *info = tc_sym_info_of(e->syms, block);
  info->lo = 0;
  info->hi_expr = tc_sym_addi(e->syms, blocks, -1);
  e->out->blocks = blocks;
  em_bind(e, block, tc_kb_cast(e->kb, e->ity, tc_kb_block(e->kb)));
  return block;
}

void em_bind_rows(tc_em *e, const tc_sym *row, int32_t n, int32_t except1, int32_t except2) {
  for (int32_t d = n - 1; d >= 0; d--) {
    if (d == except1 || d == except2) continue;
    em_bind(e, e->vars[d], em_sym(e, tc_sym_mod(e->syms, row, e->extents[d])));
    row = tc_sym_floordiv(e->syms, row, e->extents[d]);
  }
}

// ---- integers ----
tc_kval em_const(tc_em *e, int64_t v) { return tc_kb_int(e->kb, e->ity, v); }
tc_kval em_add(tc_em *e, tc_kval a, tc_kval b) { return tc_kb_op2(e->kb, TC_K_ADD, a, b); }
tc_kval em_mul(tc_em *e, tc_kval a, tc_kval b) { return tc_kb_op2(e->kb, TC_K_MUL, a, b); }

static bool has_loop_symbol(tc_em *e, const tc_sym *x) {
  if (x->kind == TC_SYM_SYMBOL) {
    int32_t origin = tc_sym_info_of(e->syms, x)->origin;
    return origin == TC_SYM_LOOP || origin == TC_SYM_LOCAL;
  }
  for (int32_t i = 0; i < x->n; i++) {
    if (has_loop_symbol(e, x->kids[i])) return true;
  }
  return false;
}

static bool fits_i32(tc_em *e, const tc_sym *x) {
  int64_t lo, hi;
  tc_sym_range(e->syms, x, &lo, &hi);
  return lo >= INT32_MIN && hi <= INT32_MAX;
}

static bool has_wide_part(tc_em *e, const tc_sym *x) {
  if (!fits_i32(e, x)) return true;
  for (int32_t i = 0; i < x->n; i++)
    if (has_wide_part(e, x->kids[i])) return true;
  return false;
}

bool em_is_wide(tc_em *e, const tc_sym *x) { return has_loop_symbol(e, x) && has_wide_part(e, x); }

// What does not change inside the kernel is computed by the host and passed, as i64 where i32 may not hold it. The
// parameter is made once; its value is an instruction like any other and belongs to the scope where it is made.
static tc_kval scalar_param(tc_em *e, const tc_sym *x) {
  tc_map_entry *entry = tc_map_put_ptr(e->scalars, x, NULL);
  if (!entry->value.num) {
    int64_t lo, hi, divisor = tc_sym_divisor(e->syms, x);
    tc_dtype type = fits_i32(e, x) ? e->ity : TC_I64;
    tc_sym_range(e->syms, x, &lo, &hi);
    lo = lo == -TC_SYM_INF ? INT64_MIN : lo;
    hi = hi == TC_SYM_INF ? INT64_MAX : hi;
    tc_sv name = tc_sv_printf(e->arena, "n%d", e->out->params.count);
    entry->value.num = (int64_t)tc_kb_scalar(e->kb, name, type, lo, hi, divisor > 0 ? divisor : 1) + 1;
    tc_emit_param param = {.scalar = x, .dtype = type};
    tc_vec_push(e->arena, &e->out->params, param);
  }
  return tc_kb_param(e->kb, (int32_t)entry->value.num - 1);
}

static bool never_negative(tc_em *e, const tc_sym *x) {
  int64_t lo, hi;
  tc_sym_range(e->syms, x, &lo, &hi);
  return lo >= 0;
}

// Python's // and % on values that may be negative: C's with a correction.
static tc_kval floor_div(tc_em *e, const tc_sym *x, tc_kval a, tc_kval b) {
  tc_kval q = tc_kb_op2(e->kb, TC_K_DIV, a, b);
  if (never_negative(e, x->kids[0]) && never_negative(e, x->kids[1])) return q;
  tc_kval r = tc_kb_op2(e->kb, TC_K_REM, a, b), zero = em_const(e, 0);
  tc_kval off = tc_kb_op2(e->kb, TC_K_NE, r, zero);
  tc_kval sign = tc_kb_op2(e->kb, TC_K_LT, tc_kb_op2(e->kb, TC_K_XOR, r, b), zero);
  return tc_kb_op3(e->kb, TC_K_SELECT, tc_kb_op2(e->kb, TC_K_AND, off, sign),
                   tc_kb_op2(e->kb, TC_K_SUB, q, em_const(e, 1)), q);
}

static tc_kval floor_mod(tc_em *e, const tc_sym *x, tc_kval a, tc_kval b) {
  tc_kval r = tc_kb_op2(e->kb, TC_K_REM, a, b);
  if (never_negative(e, x->kids[0]) && never_negative(e, x->kids[1])) return r;
  return tc_kb_op2(e->kb, TC_K_SUB, a, em_mul(e, floor_div(e, x, a, b), b));
}

static tc_kval sym_value(tc_em *e, const tc_sym *x);

static tc_kval fold_kids(tc_em *e, const tc_sym *x, int32_t op) {
  tc_kval v = em_sym(e, x->kids[0]);
  for (int32_t i = 1; i < x->n; i++) v = tc_kb_op2(e->kb, op, v, em_sym(e, x->kids[i]));
  return v;
}

// A power with a constant exponent.
static tc_kval power(tc_em *e, const tc_sym *x) {
  int64_t times = tc_sym_is_const(x->kids[1]) ? x->kids[1]->value : -1;
  tc_kval base = em_sym(e, x->kids[0]), v = em_const(e, 1);
  if (times < 0 || times > 64) em_fail(e, "an index has a power that is not a small constant");
  for (int64_t i = 0; i < times && times <= 64; i++) v = em_mul(e, v, base);
  return v;
}

static tc_kval sym_value(tc_em *e, const tc_sym *x) {
  switch (x->kind) {
  case TC_SYM_CONST: return em_const(e, x->value);
  case TC_SYM_ADD: return fold_kids(e, x, TC_K_ADD);
  case TC_SYM_MUL: return fold_kids(e, x, TC_K_MUL);
  case TC_SYM_POW: return power(e, x);
  case TC_SYM_MIN: return fold_kids(e, x, TC_K_MIN);
  case TC_SYM_MAX: return fold_kids(e, x, TC_K_MAX);
  case TC_SYM_FLOORDIV: return floor_div(e, x, em_sym(e, x->kids[0]), em_sym(e, x->kids[1]));
  case TC_SYM_MOD: return floor_mod(e, x, em_sym(e, x->kids[0]), em_sym(e, x->kids[1]));
  case TC_SYM_EQ: return fold_kids(e, x, TC_K_EQ);
  case TC_SYM_NE: return fold_kids(e, x, TC_K_NE);
  case TC_SYM_LT: return fold_kids(e, x, TC_K_LT);
  case TC_SYM_LE: return fold_kids(e, x, TC_K_LE);
  case TC_SYM_AND: return fold_kids(e, x, TC_K_AND);
  case TC_SYM_OR: return fold_kids(e, x, TC_K_OR);
  case TC_SYM_NOT: return tc_kb_op1(e->kb, TC_K_NOT, em_sym(e, x->kids[0]));
  case TC_SYM_WHERE:
    return tc_kb_op3(e->kb, TC_K_SELECT, em_sym(e, x->kids[0]), em_sym(e, x->kids[1]), em_sym(e, x->kids[2]));
  default: em_fail(e, "an index uses the symbol " TC_SV_FMT ", which has no value here", TC_SV_ARG(x->name)); return -1;
  }
}

tc_kval em_sym(tc_em *e, const tc_sym *x) {
  if (tc_failed(&e->failure)) return -1;
  if (x->kind == TC_SYM_CONST) return em_const(e, x->value);
  tc_map_entry *entry = tc_map_put_ptr(e->values, x, NULL);
  if (entry->value.num) return (tc_kval)(entry->value.num - 1);
  // Not remembered: templates open scopes of their own.
  if (!has_loop_symbol(e, x)) return tc_kb_cast(e->kb, e->ity, scalar_param(e, x));
  tc_kval v = sym_value(e, x);
  remember(e, entry, v);
  return v;
}

// An expression as a value of any integer type: what is known before the kernel runs is as wide as it must be.
static tc_kval number(tc_em *e, const tc_sym *x) {
  if (tc_failed(&e->failure)) return -1;
  if (x->kind == TC_SYM_CONST) return tc_kb_int(e->kb, fits_i32(e, x) ? e->ity : TC_I64, x->value);
  return has_loop_symbol(e, x) ? em_sym(e, x) : scalar_param(e, x);
}

// ---- memory ----
int32_t em_step_of(const tc_em *e, const tc_lnode *n) {
  for (int32_t i = 0; i < e->g->steps.count; i++) {
    if (e->g->steps.data[i].node == n) return i;
  }
  return -1;
}

// Does a result of the group lie where the buffer lies, or the buffer where an operand does?
static bool shares_place(const tc_em *e, const tc_buf *b) {
  for (int32_t i = 0; i < e->g->writes.count; i++) {
    const tc_buf *o = e->g->writes.data[i];
    if (o->over && (o == b || o->over == b)) return true;
  }
  return false;
}

static int64_t bytes_of(const tc_em *e, const tc_buf *b) { return tc_sym_hint_or(e->syms, tc_buf_bytes(e->l, b), 0); }

// A large result that leaves the program is not read again soon: it need not push other data out of the caches. Unless
// all of the kernel's data have room in the half of the last one that its cores may count on: stores of whole lines
// take twice as long past it, and where memory is slow four times (9 MB of image columns on Zen 5, 32 MB: 0.053 and
// 0.11 ms).
static bool is_streamed(const tc_em *e, const tc_buf *b) {
  enum { SHARE = 16 << 20 }; // of a core
  int64_t share = (int64_t)SHARE * e->dev->cores, room = e->dev->l3_bytes < share ? e->dev->l3_bytes : share, all = 0;
  for (int32_t i = 0; i < e->g->reads.count; i++) all += bytes_of(e, e->g->reads.data[i]);
  for (int32_t i = 0; i < e->g->writes.count; i++) all += bytes_of(e, e->g->writes.data[i]);
  return bytes_of(e, b) > 4 * e->dev->l2_bytes && all > room / 2;
}

tc_kmem em_mem(tc_em *e, const tc_buf *b, bool writes) {
  tc_map_entry *entry = tc_map_put_ptr(e->mems, b, NULL);
  if (entry->value.num) return (tc_kmem)(entry->value.num - 1);
  int32_t flags = TC_MEM_NOALIAS | (writes ? TC_MEM_WRITEONLY : TC_MEM_READONLY);
  if (b->inplace) flags = 0;
  bool own = writes && b->def && b->def->kind == TC_LN_TEMPLATE && (b->def->tmpl->flags & TC_TEMPLATE_OWN_RESULT);
  if (own) flags = b->inplace ? 0 : TC_MEM_NOALIAS;
  if (em_is_column(e, b)) flags = TC_MEM_NOALIAS;
  if (b->overwritten || shares_place(e, b)) flags &= ~TC_MEM_NOALIAS;
  if (writes && !own && !b->inplace && b->output >= 0 && is_streamed(e, b)) flags |= TC_MEM_STREAM;
  tc_sv name = tc_sv_printf(e->arena, "%s%d", writes ? "out" : "in", e->out->params.count);
  bool outside = b->kind == TC_BUF_INPUT || b->output >= 0;
  tc_dtype dtype = b->planar ? tc_dtype_real(b->dtype) : b->dtype;
  int32_t size = tc_dtype_size(dtype), align = b->kind == TC_BUF_INTERNAL && !b->inplace && !b->placed ? 64 : size;
  if (outside && !b->inplace && !b->placed && e->o->outside_align)
    align = size > e->o->outside_align ? size : e->o->outside_align;
  tc_kmem m = tc_kb_global(e->kb, name, dtype, flags, align);
  entry->value.num = (int64_t)m + 1;
  tc_emit_param p = {.buf = b, .dtype = dtype, .writes = writes};
  tc_vec_push(e->arena, &e->out->params, p);
  return m;
}

// The place of an element's imaginary part, for buffers whose parts lie in planes.
static tc_kval imaginary(tc_em *e, const tc_buf *b, const tc_sym *address) {
  return em_sym(e, tc_sym_add(e->syms, address, tc_product(e->l, b->rank, b->sizes)));
}

void em_mem_load(tc_em *e, const tc_buf *b, const tc_sym *address, int32_t width, tc_kval *out) {
  tc_kmem m = em_mem(e, b, false);
  tc_kb_load(e->kb, m, em_sym(e, address), width, e->mask, NULL, out);
  if (!b->planar) return;
  tc_kval *im = TC_NEW_ARRAY(e->arena, tc_kval, width);
  tc_kb_load(e->kb, m, imaginary(e, b, address), width, e->mask, NULL, im);
  for (int32_t i = 0; i < width; i++) out[i] = tc_kb_op2(e->kb, TC_K_COMPLEX, out[i], im[i]);
}

void em_mem_store(tc_em *e, const tc_buf *b, const tc_sym *address, int32_t width, const tc_kval *values) {
  tc_kmem m = em_mem(e, b, true);
  if (!b->planar) {
    tc_kb_store(e->kb, m, em_sym(e, address), width, values, e->mask);
    return;
  }
  tc_kval *parts = TC_NEW_ARRAY(e->arena, tc_kval, 2 * (int64_t)width);
  for (int32_t i = 0; i < width; i++) {
    parts[i] = tc_kb_op1(e->kb, TC_K_REAL, values[i]);
    parts[width + i] = tc_kb_op1(e->kb, TC_K_IMAG, values[i]);
  }
  tc_kb_store(e->kb, m, em_sym(e, address), width, parts, e->mask);
  tc_kb_store(e->kb, m, imaginary(e, b, address), width, parts + width, e->mask);
}

const tc_sym *em_address(tc_em *e, const tc_buf *b, const tc_sym *const *index) {
  const tc_sym *a = b->offset ? b->offset : tc_sym_int(e->syms, 0);
  for (int32_t d = 0; d < b->rank; d++) a = tc_sym_add(e->syms, a, tc_sym_mul(e->syms, index[d], b->strides[d]));
  return a;
}

static tc_map_entry *value_entry(tc_em *e, const void *what, int32_t n, const tc_sym *const *index) {
  const void *key[TC_MAX_RANK + 1] = {what};
  for (int32_t d = 0; d < n && d < TC_MAX_RANK; d++) key[d + 1] = index[d];
  return tc_map_put(e->values, (tc_sv){(const char *)key, (size_t)(n + 1) * sizeof *key}, NULL);
}

static tc_kval and_mask(tc_em *e, tc_kval a, tc_kval b) {
  return a < 0 ? b : b < 0 ? a : tc_kb_op2(e->kb, TC_K_AND, a, b);
}

static tc_kval tile_address(tc_em *e, const tc_em_tile *t, const tc_buf *b, const tc_sym *const *index) {
  const tc_sym *flat = tc_sym_int(e->syms, 0); // inside the row: the row-major index modulo the row
  for (int32_t d = 0; d < b->rank; d++) flat = tc_sym_add(e->syms, tc_sym_mul(e->syms, flat, b->sizes[d]), index[d]);
  flat = tc_sym_mod(e->syms, flat, t->extent);
  tc_kval a = em_sym(e, flat);
  if (e->tile_row < 0) return a;
  return e->tile_lanes ? em_add(e, em_mul(e, a, em_const(e, e->tile_lanes)), e->tile_row)
                       : em_add(e, em_mul(e, e->tile_row, em_const(e, t->row)), a);
}

void em_wide_open(tc_em *e, const tc_sym *var, int32_t width, tc_kval first) {
  const tc_sym *base = tc_sym_fresh(e->syms, "k", TC_SYM_LOCAL);
  tc_sym_info *info = tc_sym_info_of(e->syms, base);
  info->lo = 0, info->divisor = width;
  em_bind(e, base, first);
  e->wide = (tc_em_wide){
      .var = var, .base = base, .width = width, .loads = tc_map_create(e->arena), .stores = tc_map_create(e->arena)};
}

// The entry of a buffer, an address without the wide variable, and a mask.
static tc_map_entry *wide_entry(tc_map *of, const tc_buf *b, const tc_sym *rest, tc_kval mask) {
  intptr_t key[3] = {(intptr_t)b, (intptr_t)rest, mask};
  return tc_map_put(of, (tc_sv){(const char *)key, sizeof key}, NULL);
}

// The registers of a wide load, where there are some; made by the first phase that loads it.
static const tc_em_kept_array *kept_of(tc_em *e, const tc_buf *b, const tc_sym *rest) {
  int32_t size = tc_dtype_size(b->dtype), words = e->kept.trips * e->wide.width * (size > 4 ? size / 4 : 1);
  if (!e->kept.arrays || e->kept.slot < 0 || e->mask >= 0) return NULL;
  tc_map_entry *entry = wide_entry(e->kept.arrays, b, rest, e->mask);
  if (entry->value.ptr || words > e->kept.words || e->phase + 1 >= e->g->n_phases) return entry->value.ptr;
  tc_em_kept_array *a = TC_NEW(e->arena, tc_em_kept_array);
  tc_sv name = tc_sv_printf(e->arena, "row%d", tc_map_count(e->kept.arrays));
  *a = (tc_em_kept_array){tc_kb_lane_array(e->kb, name, b->dtype, (int64_t)e->kept.trips * e->wide.width), e->phase};
  e->kept.words -= words;
  return entry->value.ptr = a;
}

static tc_kval *load_row(tc_em *e, const tc_buf *b, const tc_sym *rest) {
  tc_kval *v = TC_NEW_ARRAY(e->arena, tc_kval, e->wide.width);
  const tc_em_kept_array *kept = kept_of(e, b, rest);
  bool again = kept && kept->phase < e->phase;
  if (!again) em_mem_load(e, b, tc_sym_add(e->syms, rest, e->wide.base), e->wide.width, v);
  for (int32_t i = 0; kept && i < e->wide.width; i++) {
    tc_kval at = em_add(e, e->kept.slot, em_const(e, i));
    if (again) v[i] = tc_kb_load1(e->kb, kept->mem, at, -1, -1);
    else tc_kb_store(e->kb, kept->mem, at, 1, &v[i], -1);
  }
  return v;
}

static tc_kval load_wide(tc_em *e, const tc_buf *b, const tc_sym *rest) {
  tc_map_entry *entry = wide_entry(e->wide.loads, b, rest, e->mask);
  if (!entry->value.ptr) entry->value.ptr = load_row(e, b, rest);
  return ((const tc_kval *)entry->value.ptr)[e->wide.at];
}

// Is the access contiguous along the wide variable (and, where threads collect stores, aligned)?
static bool is_wide(tc_em *e, const tc_sym *address, const tc_sym **rest) {
  const tc_sym *coeff;
  if (!e->wide.var || e->wide.runs || !tc_sym_linear(e->syms, address, e->wide.var, &coeff, rest) ||
      !tc_sym_is_int(coeff, 1))
    return false;
  return !e->wide.stores || e->dev->simd_bytes ||
         tc_sym_is_int(tc_sym_mod(e->syms, *rest, tc_sym_int(e->syms, e->wide.width)), 0);
}

static bool is_large(const tc_em *e, const tc_buf *b) { return bytes_of(e, b) > e->dev->l2_bytes; }

int32_t em_large_reads(const tc_em *e) {
  int32_t n = 0;
  for (int32_t i = 0; i < e->g->reads.count; i++) n += is_large(e, e->g->reads.data[i]);
  return n;
}

// Rows to fetch ahead of this one: of short rows of a buffer that is the only large one two, since what is asked for so
// shortly before comes too late (an RMS norm of 1024 rows of 4096 in bf16 takes 0.53 ms so, with one 0.72).
static int64_t rows_ahead(const tc_em *e, const tc_buf *b, const tc_sym *row) {
  enum { SHORT = 16384 }; // bytes
  return em_large_reads(e) == 1 && tc_sym_is_const(row) && row->value < SHORT / tc_dtype_size(b->dtype) ? 2 : 1;
}

// Bytes to fetch ahead of what is read once: a page (two numbers of 8 MB each in a chain of gelu and sigmoid take 0.9
// of the time so that they take by a kilobyte), but of all buffers together no more than a part of the first cache.
static int64_t bytes_ahead(const tc_em *e) {
  enum { LEAST = 1024, MOST = 4096, LINE = 64, SHARE = 4 };
  int32_t large = em_large_reads(e);
  int64_t room = e->dev->l1_bytes / SHARE / (large > 0 ? large : 1) / LINE * LINE;
  return room < LEAST ? LEAST : room > MOST ? MOST : room;
}

// Each buffer is fetched once, of several one by a phase after the other, whose memory was idle, too (a residual and
// its layer norm take 1.01 ms so, 1.13 with both rows fetched by the second phase: 1024 rows of 4096).
static bool is_turn_of(tc_em *e, const tc_buf *b) {
  tc_map_entry *entry = tc_map_put_ptr(e->ahead.phases, b, NULL);
  if (!entry->value.num) {
    int64_t turn = e->ahead.rows ? 1 + (tc_map_count(e->ahead.phases) - 1) % (e->g->n_phases - 1) : e->phase;
    entry->value.num = (turn > e->phase ? turn : e->phase) + 1;
  }
  return entry->value.num == (int64_t)e->phase + 1;
}

// While a row is read again, from the cache, memory is idle: the same element of a row to come is fetched meanwhile.
// What is read once in a row is fetched some time before, since the processor's own guesses end with a page. What lies
// at the same place for every row needs it not.
static void fetch_ahead(tc_em *e, const tc_buf *b, const tc_sym *address) {
  const tc_sym *var = e->ahead.var, *coeff, *rest;
  if (!var || (e->ahead.rows && e->phase < 1) || e->mask >= 0 || b->planar || !is_large(e, b)) return;
  bool linear = tc_sym_linear(e->syms, address, var, &coeff, &rest);
  int64_t step = e->ahead.step;
  if (!step && e->ahead.rows) step = linear ? rows_ahead(e, b, coeff) : 1;
  else if (!step && linear && tc_sym_is_int(coeff, 1)) step = bytes_ahead(e) / tc_dtype_size(b->dtype);
  const tc_sym *next = tc_sym_addi(e->syms, var, step), *then = tc_sym_replace(e->syms, address, 1, &var, &next);
  if (then == address || (!e->ahead.step && !is_turn_of(e, b))) return;
  tc_kb_prefetch_from(e->kb, em_mem(e, b, false), em_sym(e, then), e->ahead.rows ? TC_KI_FAR : 0);
}

// Of a row that is held on chip later phases read no more: what it was made of is fetched where the row is read.
static void fetch_origins(tc_em *e, const tc_lnode *n, const tc_sym *const *at) {
  if (!e->ahead.var || !e->ahead.rows || n->kind != TC_LN_POINTWISE) return;
  for (int32_t i = 0; i < n->body.insts.count; i++) {
    const tc_binst *b = &n->body.insts.data[i];
    if (b->op != TC_B_LOAD || b->gather || b->cond) continue;
    const tc_sym *index[TC_MAX_RANK];
    for (int32_t d = 0; d < b->buf->rank; d++) index[d] = tc_sym_replace(e->syms, b->index[d], n->n_par, n->vars, at);
    bool in_group = b->buf->def && (em_step_of(e, b->buf->def) >= 0 || !b->buf->strides);
    if (in_group) fetch_origins(e, b->buf->def, index);
    else fetch_ahead(e, b->buf, em_address(e, b->buf, index));
  }
}

static tc_kval load_fresh(tc_em *e, const tc_buf *b, const tc_sym *const *index) {
  tc_map_entry *entry;
  if (b == e->hole) return e->hole_value;
  if ((entry = tc_map_find_ptr(e->rows, b)) && entry->value.num) return (tc_kval)(entry->value.num - 1);
  int32_t own = b->def ? em_step_of(e, b->def) : -1;
  bool made = own >= 0 && (e->g->steps.data[own].phase < e->phase || b->def->kind == TC_LN_TEMPLATE);
  if (made && (entry = tc_map_find_ptr(e->tiles, b)) && entry->value.ptr) {
    const tc_em_tile *t = entry->value.ptr;
    tc_kval v = tc_kb_load1(e->kb, t->mem, tile_address(e, t, b, index), e->mask, -1);
    fetch_origins(e, b->def, index);
    return v;
  }
  bool here = own >= 0 || (b->def && !b->strides);
  if (here && b->def->kind == TC_LN_POINTWISE) return em_body(e, b->def, index);
  if (own >= 0) {
    em_fail(e, "%%" TC_SV_FMT " is used before it is made", TC_SV_ARG(b->name));
    return -1;
  }
  const tc_sym *address = em_address(e, b, index), *rest;
  tc_kval v = -1;
  if (em_run_load(e, b, address, &v)) return v;
  if (is_wide(e, address, &rest)) return load_wide(e, b, rest);
  em_mem_load(e, b, address, 1, &v);
  fetch_ahead(e, b, address);
  return v;
}

tc_kval em_load(tc_em *e, const tc_buf *b, const tc_sym *const *index, const tc_sym *cond) {
  if (tc_failed(&e->failure)) return -1;
  (void)cond;
  tc_map_entry *entry = value_entry(e, b, b->rank, index);
  if (entry->value.num) return (tc_kval)(entry->value.num - 1);
  tc_kval v = load_fresh(e, b, index);
  remember(e, entry, v);
  return v;
}

// ---- bodies ----
static tc_kval zero_of(tc_em *e, tc_dtype d) {
  char c = tc_dtype_class(d);
  if (c != 'c') return c == 'f' ? tc_kb_real(e->kb, d, 0) : tc_kb_int(e->kb, d, 0);
  tc_kval z = tc_kb_real(e->kb, tc_dtype_real(d), 0);
  return tc_kb_op2(e->kb, TC_K_COMPLEX, z, z);
}

static tc_kval constant(tc_em *e, const tc_binst *b) {
  char c = tc_dtype_class(b->dtype);
  if (c == 'f') return tc_kb_real(e->kb, b->dtype, b->re);
  if (c != 'c') return tc_kb_int(e->kb, b->dtype, b->imm);
  tc_dtype part = tc_dtype_real(b->dtype);
  return tc_kb_op2(e->kb, TC_K_COMPLEX, tc_kb_real(e->kb, part, b->re), tc_kb_real(e->kb, part, b->im));
}

// An error of the run where `ok` is false and the lane is not masked.
static void check(tc_em *e, tc_kval ok, tc_sv text, tc_sv source) {
  if (e->mask >= 0) ok = tc_kb_op2(e->kb, TC_K_OR, ok, tc_kb_op1(e->kb, TC_K_NOT, e->mask));
  tc_kb_check(e->kb, ok, e->out->sites.count);
  tc_vec_push(e->arena, &e->out->sites, ((tc_emit_site){.text = text, .source = source}));
}

// An index that comes from data: wrapped if negative, checked, clamped, so that nothing is ever read out of bounds;
// where the data were limited to the size before, nothing of it is to do.
static tc_kval gathered(tc_em *e, const tc_lnode *n, const tc_buf *b, int32_t d, bool wrap, tc_sv source, tc_kval v) {
  int64_t known = tc_sym_is_const(b->sizes[d]) ? b->sizes[d]->value : 0;
  if (tc_kb_is_within(e->kb, v, 0, known - 1)) return tc_kb_cast(e->kb, e->ity, v);
  tc_kval size = tc_kb_cast(e->kb, TC_I64, em_sym(e, b->sizes[d])), zero = tc_kb_int(e->kb, TC_I64, 0);
  if (wrap)
    v = tc_kb_op3(e->kb, TC_K_SELECT, tc_kb_op2(e->kb, TC_K_LT, v, zero), tc_kb_op2(e->kb, TC_K_ADD, v, size), v);
  tc_kval ok = tc_kb_op2(e->kb, TC_K_AND, tc_kb_op2(e->kb, TC_K_GE, v, zero), tc_kb_op2(e->kb, TC_K_LT, v, size));
  check(e, ok,
        tc_sv_printf(e->arena, "index out of range in %%" TC_SV_FMT " (dimension %d of %%" TC_SV_FMT ")",
                     TC_SV_ARG(n->name), d, TC_SV_ARG(b->name)),
        source);
  tc_kval last = tc_kb_op2(e->kb, TC_K_SUB, size, tc_kb_int(e->kb, TC_I64, 1));
  v = tc_kb_op2(e->kb, TC_K_MIN, tc_kb_op2(e->kb, TC_K_MAX, v, zero), last);
  return tc_kb_cast(e->kb, e->ity, tc_kb_op2(e->kb, TC_K_MAX, v, zero));
}

static const tc_sym *gathered_index(tc_em *e, const tc_lnode *n, const tc_buf *b, int32_t d, bool wrap, tc_sv source,
                                    tc_kval v) {
  const tc_sym *index = tc_sym_fresh(e->syms, "g", TC_SYM_LOCAL);
  tc_sym_info *info = tc_sym_info_of(e->syms, index);
  info->lo = 0;
  info->hi_expr = tc_sym_addi(e->syms, b->sizes[d], -1);
  em_bind(e, index, gathered(e, n, b, d, wrap, source, v));
  return index;
}

static tc_kval load_inst(tc_em *e, const tc_lnode *n, const tc_binst *b, const tc_sym *const *at,
                         const tc_kval *values) {
  int32_t n_vars = n->n_par + n->n_red;
  const tc_sym *index[TC_MAX_RANK];
  for (int32_t d = 0; d < b->buf->rank; d++) index[d] = tc_sym_replace(e->syms, b->index[d], n_vars, n->vars, at);
  int32_t mark = em_mark(e);
  for (int32_t d = 0; b->gather && d < b->buf->rank; d++) {
    if (b->gather[d] < 0) continue;
    index[d] = gathered_index(e, n, b->buf, d, b->wrap, b->source, values[b->gather[d]]);
  }
  if (!b->cond) return em_load(e, b->buf, index, NULL);
  // A conditional load: what is false is not touched.
  const tc_sym *cond = tc_sym_replace(e->syms, b->cond, n_vars, n->vars, at);
  int32_t known = tc_sym_prove(e->syms, cond);
  if (known == 0) return values[b->args[0]];
  if (known == 1) return em_load(e, b->buf, index, NULL);
  tc_kval ok = em_sym(e, cond), outer = e->mask;
  if (tc_kb_type(e->kb, ok) != TC_BOOL) ok = tc_kb_cast(e->kb, TC_BOOL, ok);
  e->mask = and_mask(e, outer, ok);
  const tc_sym *wide = e->wide.var; // one load of several elements has one condition, and reads all of them
  if (e->wide.stores || e->wide.runs || (wide && tc_sym_uses(cond, wide))) e->wide.var = NULL;
  tc_kval v = load_fresh(e, b->buf, index);
  e->mask = outer, e->wide.var = wide;
  em_leave(e, mark); // values loaded under the condition are not values without it
  return tc_kb_op3(e->kb, TC_K_SELECT, ok, v, values[b->args[0]]);
}

// x · x. Of a modulus it is re² + im², without the root and the scaling that keeps the root from overflowing: the
// square overflows just where theirs does. As C's hypot has it, an infinite part is stronger than a NaN.
static tc_kval square(tc_em *e, tc_kval x) {
  const tc_kinst *in = tc_kb_inst_of(e->kb, x);
  tc_dtype part = tc_kb_type(e->kb, x);
  bool modulus = in && in->op == TC_K_ABS && tc_dtype_is_complex(tc_kb_type(e->kb, in->args[0]));
  if (!modulus || (part != TC_F32 && part != TC_F64)) return em_mul(e, x, x);
  tc_kval z = in->args[0], re = tc_kb_op1(e->kb, TC_K_ABS, tc_kb_op1(e->kb, TC_K_REAL, z)),
          im = tc_kb_op1(e->kb, TC_K_ABS, tc_kb_op1(e->kb, TC_K_IMAG, z)), inf = tc_kb_real(e->kb, part, INFINITY);
  return tc_kb_op3(e->kb, TC_K_SELECT, tc_kb_op2(e->kb, TC_K_EQ, tc_kb_op2(e->kb, TC_K_FMAX, re, im), inf), inf,
                   tc_kb_op1(e->kb, TC_K_ABS2, z));
}

// Arithmetic that does not tell a number from its neighbour: without comparisons, steps and the like.
static bool is_smooth(const tc_body *body) {
  for (int32_t i = 0; i < body->insts.count; i++) {
    switch (body->insts.data[i].op) {
    case TC_K_CONST:
    case TC_B_LOAD:
    case TC_K_CAST:
    case TC_K_ADD:
    case TC_K_SUB:
    case TC_K_MUL:
    case TC_K_DIV:
    case TC_K_FMA:
    case TC_K_NEG:
    case TC_K_ABS:
    case TC_K_MIN:
    case TC_K_MAX:
    case TC_K_SQRT:
    case TC_K_RSQRT:
    case TC_K_TANH:
    case TC_K_SIGMOID:
    case TC_K_ERF: break;
    default: return false;
    }
  }
  return true;
}

// Does the node go on with what was rounded to a bf16 that it reads?
static bool takes_unrounded(const tc_lnode *n) {
  return n->kind == TC_LN_POINTWISE && n->outs[0]->dtype == TC_BF16 && is_smooth(&n->body);
}

// Does a node of the group see the values of the buffer rounded?
static bool seen_rounded(const tc_em *e, const tc_buf *buf) {
  for (int32_t i = 0; i < e->g->steps.count; i++) {
    const tc_lnode *n = e->g->steps.data[i].node;
    if (takes_unrounded(n)) continue;
    for (int32_t k = 0; k < n->body.insts.count; k++)
      if (n->body.insts.data[k].op == TC_B_LOAD && n->body.insts.data[k].buf == buf) return true;
  }
  return false;
}

// Chains of operations on bf16 are rounded once: where a smooth node with a result in bf16 widens the result of another
// that is made in registers, it goes on with what was rounded to that. The error is smaller so, and bf16 has the range
// of f32, so nothing overflows that did not. Casts to f32 that the program asks for see rounded values, and so does all
// of a group where one node does: what is left of a number less a mean would be its rounding.
static tc_kval widened(tc_em *e, const tc_lnode *n, const tc_binst *cast, tc_kval v) {
  const tc_kinst *made = tc_kb_inst_of(e->kb, v);
  bool rounded = made && made->op == TC_K_CAST && tc_kb_type(e->kb, v) == TC_BF16 && cast->dtype == TC_F32 &&
                 tc_kb_type(e->kb, made->args[0]) == TC_F32;
  const tc_binst *load = &n->body.insts.data[cast->args[0]];
  if (rounded && load->op == TC_B_LOAD && takes_unrounded(n) && !seen_rounded(e, load->buf)) v = made->args[0];
  return tc_kb_cast(e->kb, cast->dtype, v);
}

// All values of the body; NULL after a failure.
static const tc_kval *body_values(tc_em *e, const tc_lnode *n, const tc_sym *const *at) {
  if (tc_failed(&e->failure)) return NULL;
  int32_t count = n->body.insts.count;
  tc_kval *v = TC_NEW_ARRAY(e->arena, tc_kval, count);
  for (int32_t i = 0; i < count; i++) {
    const tc_binst *b = &n->body.insts.data[i];
    tc_kval args[3] = {-1, -1, -1};
    for (int32_t k = 0; k < b->n_args; k++) args[k] = v[b->args[k]];
    switch (b->op) {
    case TC_K_CONST: v[i] = constant(e, b); break;
    case TC_B_LOAD: v[i] = load_inst(e, n, b, at, v); break;
    case TC_B_INDEX: {
      const tc_sym *x = tc_sym_replace(e->syms, b->expr, n->n_par + n->n_red, n->vars, at);
      v[i] = tc_kb_cast(e->kb, b->dtype, number(e, x));
      break;
    }
    case TC_B_CHECK:
      check(e, args[0], tc_sv_printf(e->arena, TC_SV_FMT " in %%" TC_SV_FMT, TC_SV_ARG(b->text), TC_SV_ARG(n->name)),
            b->source);
      v[i] = args[1];
      break;
    case TC_K_CAST: v[i] = widened(e, n, b, args[0]); break;
    case TC_K_BITCAST: v[i] = tc_kb_bitcast(e->kb, b->dtype, args[0]); break;
    case TC_K_MUL:
      v[i] = b->args[0] == b->args[1] ? square(e, args[0]) : tc_kb_op(e->kb, b->op, b->n_args, args);
      break;
    default: v[i] = tc_kb_op(e->kb, b->op, b->n_args, args); break;
    }
    if (v[i] < 0)
      em_fail(e, "the body of %%" TC_SV_FMT " cannot be emitted (%s)", TC_SV_ARG(n->name),
              b->op < TC_K_COUNT ? tc_k_op_text(b->op) : "load");
    if (tc_failed(&e->failure)) return NULL;
  }
  return v;
}

tc_kval em_body(tc_em *e, const tc_lnode *n, const tc_sym *const *at) {
  const tc_kval *v = body_values(e, n, at);
  if (!v) return -1;
  return n->body.n_results ? v[n->body.results[0]] : zero_of(e, n->outs[0]->dtype);
}

// ---- stores ----
void em_store(tc_em *e, const tc_buf *b, const tc_sym *const *index, tc_kval value) {
  if (tc_failed(&e->failure)) return;
  const tc_sym *address = em_address(e, b, index), *rest;
  if (em_run_store(e, b, address, value)) return;
  if (e->wide.stores && is_wide(e, address, &rest)) {
    // Kept until the last of the elements is there.
    tc_map_entry *entry = wide_entry(e->wide.stores, b, rest, -1);
    if (!entry->value.ptr) entry->value.ptr = TC_NEW_ARRAY(e->arena, tc_kval, e->wide.width);
    tc_kval *v = entry->value.ptr;
    v[e->wide.at] = value;
    if (e->wide.at + 1 < e->wide.width) return;
    em_mem_store(e, b, tc_sym_add(e->syms, rest, e->wide.base), e->wide.width, v);
    return;
  }
  em_mem_store(e, b, address, 1, &value);
}

const tc_sym *const *em_store_index(tc_em *e, const tc_lnode *n, const tc_sym *const *at) {
  if (!n->store) return at;
  const tc_sym **index = TC_NEW_ARRAY(e->arena, const tc_sym *, n->outs[0]->rank);
  for (int32_t d = 0; d < n->outs[0]->rank; d++) index[d] = tc_sym_replace(e->syms, n->store[d], n->n_par, n->vars, at);
  return index;
}

// Into a buffer in place, at an index of its own.
static void store_in_place(tc_em *e, const tc_lnode *n, const tc_sym *const *at) {
  const tc_kval *v = body_values(e, n, at);
  const tc_sym **index = (const tc_sym **)(uintptr_t)em_store_index(e, n, at);
  tc_kval outer = e->mask;
  if (!v) return;
  if (n->store_if >= 0) e->mask = and_mask(e, outer, v[n->store_if]);
  for (int32_t d = 0; n->store_gather && d < n->outs[0]->rank; d++)
    if (n->store_gather[d] >= 0)
      index[d] = gathered_index(e, n, n->outs[0], d, n->store_wrap, n->source, v[n->store_gather[d]]);
  em_store(e, n->outs[0], index, v[n->body.results[0]]);
  e->mask = outer;
}

void em_store_step(tc_em *e, int32_t step) {
  const tc_step *s = &e->g->steps.data[step];
  const tc_lnode *n = s->node;
  const tc_sym *const *at = e->at[step];
  if (n->store) {
    store_in_place(e, n, at);
    return;
  }
  tc_kval v = em_load(e, n->outs[0], at, NULL);
  if (tc_failed(&e->failure)) return;
  if (s->hold == TC_HOLD_TILE) {
    const tc_em_tile *t = tc_map_find_ptr(e->tiles, n->outs[0])->value.ptr;
    tc_kb_store(e->kb, t->mem, tile_address(e, t, n->outs[0], at), 1, &v, e->mask);
  }
  if (s->stores) em_store(e, n->outs[0], at, v);
}

// ---- reductions ----
tc_dtype em_acc_type(const tc_lnode *n) {
  tc_dtype d = n->outs[0]->dtype;
  if (d == TC_F16 || d == TC_BF16) return TC_F32;
  if (d == TC_C32 || d == TC_BC32) return TC_C64;
  return d;
}

static tc_kval extreme(tc_em *e, tc_dtype d, bool highest) {
  char c = tc_dtype_class(d);
  if (c == 'f') return tc_kb_real(e->kb, d, highest ? __builtin_inf() : -__builtin_inf());
  if (c == 'b') return tc_kb_int(e->kb, d, highest);
  int32_t bits = tc_dtype_size(d) * 8;
  if (c == 'u') return tc_kb_int(e->kb, d, highest ? (int64_t)(bits == 64 ? UINT64_MAX : (1ull << bits) - 1) : 0);
  int64_t max = bits == 64 ? INT64_MAX : (1ll << (bits - 1)) - 1;
  return tc_kb_int(e->kb, d, highest ? max : -max - 1);
}

tc_kval em_acc_init(tc_em *e, const tc_lnode *n) {
  tc_dtype d = em_acc_type(n);
  switch (n->reduce) {
  case TC_RED_PROD: {
    char c = tc_dtype_class(d);
    if (c == 'c')
      return tc_kb_op2(e->kb, TC_K_COMPLEX, tc_kb_real(e->kb, tc_dtype_real(d), 1),
                       tc_kb_real(e->kb, tc_dtype_real(d), 0));
    return c == 'f' ? tc_kb_real(e->kb, d, 1) : tc_kb_int(e->kb, d, 1);
  }
  case TC_RED_MAX: return extreme(e, d, false);
  case TC_RED_MIN: return extreme(e, d, true);
  case TC_RED_ALL: return tc_kb_int(e->kb, TC_BOOL, 1);
  default: return zero_of(e, d);
  }
}

static const struct {
  int32_t combine, collective;
} reductions[TC_RED_COUNT] = {
    [TC_RED_SUM] = {TC_K_ADD, TC_K_REDUCE_ADD}, [TC_RED_PROD] = {TC_K_MUL, TC_K_REDUCE_MUL},
    [TC_RED_MAX] = {TC_K_MAX, TC_K_REDUCE_MAX}, [TC_RED_MIN] = {TC_K_MIN, TC_K_REDUCE_MIN},
    [TC_RED_ANY] = {TC_K_OR, TC_K_REDUCE_OR},   [TC_RED_ALL] = {TC_K_AND, TC_K_REDUCE_AND},
};

// Extremes, sums and products of bools are logic.
static int32_t bool_kind(const tc_lnode *n) {
  if (em_acc_type(n) != TC_BOOL) return n->reduce;
  if (n->reduce == TC_RED_MAX || n->reduce == TC_RED_SUM) return TC_RED_ANY;
  return n->reduce == TC_RED_MIN || n->reduce == TC_RED_PROD ? TC_RED_ALL : n->reduce;
}

// Of `x == x ? x : -inf` (a maximum's start; +inf, a minimum's) x: the extreme of numbers, which is never NaN. -1: it
// is something else.
static tc_kval number_of(tc_em *e, const tc_lnode *n, tc_kval v) {
  if (n->reduce != TC_RED_MAX && n->reduce != TC_RED_MIN) return -1;
  const tc_kinst *in = tc_kb_inst_of(e->kb, v);
  if (!in || in->op != TC_K_SELECT || in->args[2] != em_acc_init(e, n)) return -1;
  const tc_kinst *same = tc_kb_inst_of(e->kb, in->args[0]);
  bool is = same && same->op == TC_K_EQ && same->args[0] == in->args[1] && same->args[1] == in->args[1];
  return is ? in->args[1] : -1;
}

// Vectors choose the first of two by one comparison: NaN there is not chosen.
static tc_kval larger_number(tc_em *e, const tc_lnode *n, tc_kval acc, tc_kval x) {
  bool max = n->reduce == TC_RED_MAX;
  if (!e->dev->simd_bytes) return tc_kb_op2(e->kb, max ? TC_K_FMAX : TC_K_FMIN, acc, x);
  return tc_kb_op3(e->kb, TC_K_SELECT, tc_kb_op2(e->kb, max ? TC_K_GT : TC_K_LT, x, acc), x, acc);
}

tc_kval em_acc_combine(tc_em *e, const tc_lnode *n, tc_kval acc, tc_kval v) {
  int32_t op = reductions[bool_kind(n)].combine;
  if (!op) {
    em_fail(e, "%%" TC_SV_FMT ": this reduction has no emission", TC_SV_ARG(n->name));
    return acc;
  }
  v = tc_kb_cast(e->kb, em_acc_type(n), v);
  tc_kval number = number_of(e, n, v);
  if (number >= 0) {
    if (e->mask >= 0) number = tc_kb_op3(e->kb, TC_K_SELECT, e->mask, number, em_acc_init(e, n));
    return larger_number(e, n, acc, number);
  }
  if (e->mask >= 0) v = tc_kb_op3(e->kb, TC_K_SELECT, e->mask, v, em_acc_init(e, n));
  return tc_kb_op2(e->kb, op, acc, v);
}

int32_t em_acc_collective(const tc_lnode *n) { return reductions[bool_kind(n)].collective; }

// ---- parts of columns ----
bool em_is_column(const tc_em *e, const tc_buf *b) {
  int32_t step = b->def ? em_step_of(e, b->def) : -1;
  return step >= 0 && e->g->steps.data[step].hold == TC_HOLD_COLUMN;
}

static void column_index(const tc_em *e, int32_t step, const tc_sym **index) {
  const tc_lnode *n = e->g->steps.data[step].node;
  for (int32_t d = 0; d < n->n_par; d++) index[d] = d ? e->at[step][d] : e->part;
}

void em_column_start(tc_em *e, int32_t step) {
  const tc_sym *index[TC_MAX_RANK];
  const tc_lnode *n = e->g->steps.data[step].node;
  column_index(e, step, index);
  em_store(e, n->outs[0], index, em_acc_init(e, n));
}

void em_column_add(tc_em *e, int32_t step) {
  const tc_sym *index[TC_MAX_RANK], *rest;
  const tc_lnode *n = e->g->steps.data[step].node;
  const tc_buf *b = n->outs[0];
  tc_kval v = em_body(e, n, e->at[step]), one;
  if (tc_failed(&e->failure)) return;
  column_index(e, step, index);
  const tc_sym *address = em_address(e, b, index);
  if (!e->wide.stores || !is_wide(e, address, &rest)) {
    em_mem_load(e, b, address, 1, &one);
    v = em_acc_combine(e, n, one, v);
    em_mem_store(e, b, address, 1, &v);
    return;
  }
  tc_map_entry *entry = wide_entry(e->wide.stores, b, rest, -1);
  if (!entry->value.ptr) entry->value.ptr = TC_NEW_ARRAY(e->arena, tc_kval, 2 * (int64_t)e->wide.width);
  tc_kval *all = entry->value.ptr, *old = all + e->wide.width;
  all[e->wide.at] = v;
  if (e->wide.at + 1 < e->wide.width) return;
  address = tc_sym_add(e->syms, rest, e->wide.base);
  em_mem_load(e, b, address, e->wide.width, old);
  for (int32_t i = 0; i < e->wide.width; i++) all[i] = em_acc_combine(e, n, old[i], all[i]);
  em_mem_store(e, b, address, e->wide.width, all);
}

static bool in_parts(const tc_em *e, int32_t step) {
  const tc_lnode *n = e->g->steps.data[step].node;
  char cls = tc_dtype_class(em_acc_type(n));
  return n->reduce == TC_RED_SUM && (cls == 'f' || cls == 'c');
}

void em_part_open(tc_em *e, int32_t n, const int32_t *steps, const tc_kval *acc, tc_kval *part) {
  for (int32_t i = 0; i < n; i++)
    part[i] = in_parts(e, steps[i]) ? em_acc_init(e, e->g->steps.data[steps[i]].node) : acc[i];
}

void em_part_close(tc_em *e, int32_t n, const int32_t *steps, const tc_kval *acc, tc_kval *part) {
  for (int32_t i = 0; i < n; i++)
    if (in_parts(e, steps[i])) part[i] = tc_kb_op2(e->kb, TC_K_ADD, acc[i], part[i]);
}
