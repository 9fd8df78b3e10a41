// Variants of a launch: kernels for sizes of which more is known, behind the one for all sizes.
//
// A fact replaces the size symbols of a group (assume.c), and the kernel that comes out is kept if it is simpler. The
// facts, in the order in which they are tried at run time:
//   the sizes of the example   the program as if it had been exported without symbols
//   one row                    where a product may have a single row (tiles of one row, no rows left over)
//   multiples of 16            no lanes are left over; where that does not matter nothing is gained, and it is dropped
//   numbers from 0 up to 2^k   indices of 32 bits, where the general kernel needs 64
#include "core/plan/plan_internal.h"

enum { MOST_SYMBOLS = 6, MULTIPLE = 16 };

typedef struct fact {
  int32_t n;
  const tc_sym *from[MOST_SYMBOLS], *to[MOST_SYMBOLS];
  const tc_sym *when;
} fact;

// ---- which symbols ----
static bool note(tc_sym_ctx *c, const tc_sym *x, fact *f) {
  if (!x) return true;
  if (x->kind == TC_SYM_SYMBOL) {
    const tc_sym_info *info = tc_sym_info_read(c, x);
    if (info->origin == TC_SYM_LOOP || info->origin == TC_SYM_LOCAL) return true;
    for (int32_t i = 0; i < f->n; i++) {
      if (f->from[i] == x) return true;
    }
    if (f->n == MOST_SYMBOLS || info->origin != TC_SYM_BACKED || info->hint == INT64_MIN) return false;
    f->from[f->n++] = x;
  }
  for (int32_t i = 0; i < x->n; i++) {
    if (!note(c, x->kids[i], f)) return false;
  }
  return true;
}

static bool note_emitted(tc_sym_ctx *c, const tc_emitted *k, fact *f) {
  bool ok = note(c, k->blocks, f);
  for (int32_t i = 0; i < k->params.count && ok; i++) {
    const tc_buf *b = k->params.data[i].buf;
    if (!b) ok = note(c, k->params.data[i].scalar, f);
    for (int32_t d = 0; b && d < b->rank && ok; d++) ok = note(c, b->sizes[d], f);
  }
  return ok && f->n > 0;
}

// ---- facts ----
static const tc_sym *both(tc_sym_ctx *c, const tc_sym *x, const tc_sym *y) { return x ? tc_sym_and(c, x, y) : y; }

static bool allowed(tc_sym_ctx *c, const tc_sym *symbol, int64_t v) {
  const tc_sym_info *info = tc_sym_info_read(c, symbol);
  return v >= info->lo && v <= info->hi && v % info->divisor == 0;
}

static bool as_numbers(tc_sym_ctx *c, fact *f, int64_t all) {
  for (int32_t i = 0; i < f->n; i++) {
    int64_t v = all ? all : tc_sym_info_read(c, f->from[i])->hint;
    if (!allowed(c, f->from[i], v)) return false;
    f->to[i] = tc_sym_int(c, v);
    f->when = both(c, f->when, tc_sym_cmp(c, TC_SYM_EQ, f->from[i], f->to[i]));
  }
  return true;
}

// Multiples of `divisor` (1: any) from 0 up to `most`.
static bool as_symbols(tc_sym_ctx *c, fact *f, int64_t divisor, int64_t most) {
  for (int32_t i = 0; i < f->n; i++) {
    tc_sym_info info = *tc_sym_info_read(c, f->from[i]);
    int64_t lo = (info.lo > 0 ? info.lo + divisor - 1 : 0) / divisor * divisor, hint = info.hint / divisor * divisor;
    bool tighter = divisor % info.divisor == 0 && divisor > info.divisor;
    if (info.hi < lo || (divisor > 1 && info.hi < divisor)) return false;
    f->to[i] = f->from[i];
    if (!tighter && info.hi <= most) continue;
    f->to[i] = tc_sym_fresh(c, "u", TC_SYM_BACKED);
    tc_sym_info *u = tc_sym_info_of(c, f->to[i]);
    u->lo = lo, u->hi = info.hi < most ? info.hi : most;
    u->divisor = tighter ? divisor : info.divisor;
    u->hint = hint < lo ? lo : hint > u->hi ? u->hi : hint;
    if (u->hint < divisor && u->hi >= divisor) u->hint = divisor;
    if (tighter) {
      const tc_sym *rest = tc_sym_mod(c, f->from[i], tc_sym_int(c, divisor));
      f->when = both(c, f->when, tc_sym_cmp(c, TC_SYM_EQ, rest, tc_sym_int(c, 0)));
    }
    if (info.lo < 0) f->when = both(c, f->when, tc_sym_cmp(c, TC_SYM_LE, tc_sym_int(c, 0), f->from[i]));
    if (info.hi > most) f->when = both(c, f->when, tc_sym_cmp(c, TC_SYM_LE, f->from[i], tc_sym_int(c, most)));
  }
  return f->when != NULL;
}

// ---- one variant ----
static int32_t weight(const tc_emitted *k) { return tc_k_inst_count(k->kernel) + k->params.count; }

static bool is_wide(const tc_emitted *k) {
  for (int32_t i = 0; i < k->params.count; i++) {
    if (!k->params.data[i].buf && k->params.data[i].dtype == TC_I64) return true;
  }
  return false;
}

// In terms of the program's symbols again.
static const tc_sym *back(tc_sym_ctx *c, const fact *f, const tc_sym *x) {
  const tc_sym *from[MOST_SYMBOLS], *to[MOST_SYMBOLS];
  int32_t n = 0;
  for (int32_t i = 0; i < f->n; i++) {
    if (f->to[i]->kind == TC_SYM_SYMBOL && f->to[i] != f->from[i]) from[n] = f->to[i], to[n++] = f->from[i];
  }
  return tc_sym_replace(c, x, n, from, to);
}

static bool fits(tc_sym_ctx *c, const fact *f, const tc_emitted *k) {
  for (int32_t i = 0; i < k->params.count; i++) {
    const tc_buf *b = k->params.data[i].buf;
    const tc_sym *n = tc_sym_int(c, 1);
    for (int32_t d = 0; b && d < b->rank; d++)
      n = tc_sym_mul(c, n, tc_sym_replace(c, b->sizes[d], f->n, f->from, f->to));
    int64_t lo, hi;
    tc_sym_range(c, n, &lo, &hi);
    if (hi >= 1ll << 30) return false;
  }
  return true;
}

static tc_status add_variant(plan_builder *w, tc_group *g, const tc_emit_options *o, const fact *f, tc_plan_op *op,
                             tc_plan_variant *all) {
  tc_plan *p = w->p;
  tc_sym_ctx *c = p->syms;
  const tc_emitted *general = p->kernels.data[op->kernel];
  tc_map *originals = tc_map_create(p->arena);
  tc_group *as = tc_group_assume(w->s, g, o->device, f->n, f->from, f->to, originals);
  tc_emitted *k = TC_NEW(p->arena, tc_emitted);
  tc_status s = tc_emit_group(w->s, as, o, k);
  if (s != TC_OK) { // a template may have no configuration for it: the general kernel serves
    tc_status_free(s);
    return TC_OK;
  }
  bool narrower = is_wide(general) && !is_wide(k), numbers = tc_sym_is_const(k->blocks) && !tc_sym_is_const(op->blocks);
  if (!narrower && !numbers && weight(k) * 10 > weight(general) * 9) return TC_OK;
  tc_plan_variant v = {.when = f->when, .blocks = back(c, f, k->blocks), .grain = k->grain, .n_args = k->params.count};
  tc_plan_arg *args = TC_NEW_ARRAY(p->arena, tc_plan_arg, v.n_args);
  for (int32_t i = 0; i < v.n_args; i++) {
    tc_emit_param *q = &k->params.data[i];
    if (q->buf) q->buf = tc_map_find_ptr(originals, q->buf)->value.ptr;
    else q->scalar = back(c, f, q->scalar);
    args[i] =
        q->buf ? plan_touch(w, q->buf, q->writes) : (tc_plan_arg){.buf = -1, .scalar = q->scalar, .dtype = q->dtype};
  }
  k->blocks = v.blocks;
  v.args = args;
  v.kernel = p->kernels.count;
  tc_vec_push(p->arena, &p->kernels, k);
  tc_vec_push(p->arena, &p->kernel_names, g->name);
  all[op->n_variants++] = v;
  op->variants = all;
  return TC_OK;
}

tc_status plan_add_variants(plan_builder *w, tc_group *g, const tc_emit_options *o, tc_plan_op *op) {
  tc_sym_ctx *c = w->p->syms;
  const tc_emitted *general = w->p->kernels.data[op->kernel];
  fact base = {0};
  if (!note_emitted(c, general, &base)) return TC_OK;
  tc_plan_variant *all = TC_NEW_ARRAY(w->p->arena, tc_plan_variant, TC_PLAN_VARIANTS);
  fact f = base;
  if (as_numbers(c, &f, 0)) TC_TRY(add_variant(w, g, o, &f, op, all));
  f = base;
  bool product = g->stage && tc_sv_is(g->stage->tmpl->name, "matmul"), hinted_one = true;
  for (int32_t i = 0; i < base.n; i++) hinted_one &= tc_sym_info_read(c, base.from[i])->hint == 1;
  if (product && base.n == 1 && !hinted_one && as_numbers(c, &f, 1)) TC_TRY(add_variant(w, g, o, &f, op, all));
  f = base;
  int64_t most = TC_SYM_INF; // the largest bound with which every element number fits
  for (int32_t bits = 28; is_wide(general) && most == TC_SYM_INF && bits >= 8; bits--) {
    fact bound = base;
    if (as_symbols(c, &bound, 1, 1ll << bits) && fits(c, &bound, general)) most = 1ll << bits;
  }
  if (as_symbols(c, &f, MULTIPLE, most)) TC_TRY(add_variant(w, g, o, &f, op, all));
  f = base;
  bool room = op->n_variants < TC_PLAN_VARIANTS;
  if (room && most != TC_SYM_INF && as_symbols(c, &f, 1, most)) TC_TRY(add_variant(w, g, o, &f, op, all));
  return TC_OK;
}
