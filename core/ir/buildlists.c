// Functions of lists in the language of graph texts (expand.h): pure, no node is made.
//
// They let one text serve all ranks: lists of sizes and of dimensions are cut, joined and counted at build time.
#include "core/ir/internal.h"

typedef struct list {
  int32_t n;
  const tc_sym *const *syms;
} list;

static tc_status ints_of(tc_module *m, const tc_arg *v, list *out) {
  if (v->kind == TC_AK_INT || v->kind == TC_AK_BOOL) {
    const tc_sym **one = TC_NEW(m->arena, const tc_sym *);
    *one = v->kind == TC_AK_INT ? v->sym : tc_sym_int(m->syms, v->integer);
    *out = (list){1, one};
    return TC_OK;
  }
  if (v->kind != TC_AK_INTS && v->n != 0) return tc_error(TC_STATUS_INVALID_ARGUMENT, "a list of ints is wanted");
  *out = (list){v->n, v->syms};
  return TC_OK;
}

// A constant between lo and hi.
static tc_status constant(const tc_arg *v, int64_t lo, int64_t hi, int32_t *out) {
  if (v->kind != TC_AK_INT || !tc_sym_is_const(v->sym) || v->sym->value < lo || v->sym->value > hi)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "an int between %lld and %lld is wanted, known when the graph is built",
                    (long long)lo, (long long)hi);
  *out = (int32_t)v->sym->value;
  return TC_OK;
}

static tc_status inverse(tc_module *m, const tc_arg *v, tc_arg *out) {
  list l;
  TC_TRY(ints_of(m, v, &l));
  const tc_sym **to = TC_NEW_ARRAY(m->arena, const tc_sym *, l.n + 1);
  for (int32_t i = 0; i < l.n; i++) {
    if (!tc_sym_is_const(l.syms[i])) return tc_error(TC_STATUS_INVALID_ARGUMENT, "inverse takes known numbers");
    int64_t at = l.syms[i]->value < 0 ? l.syms[i]->value + l.n : l.syms[i]->value;
    if (at < 0 || at >= l.n || to[at]) return tc_error(TC_STATUS_INVALID_ARGUMENT, "inverse takes a permutation");
    to[at] = tc_sym_int(m->syms, i);
  }
  *out = tc_arg_syms(to, l.n);
  return TC_OK;
}

static tc_status negated(tc_module *m, const tc_arg *v, tc_arg *out) {
  list l;
  TC_TRY(ints_of(m, v, &l));
  const tc_sym **to = TC_NEW_ARRAY(m->arena, const tc_sym *, l.n + 1);
  for (int32_t i = 0; i < l.n; i++) to[i] = tc_sym_neg(m->syms, l.syms[i]);
  *out = tc_arg_syms(to, l.n);
  return TC_OK;
}

static tc_status counted(tc_module *m, int64_t from, int64_t to, tc_arg *out) {
  int32_t n = to > from ? (int32_t)(to - from) : 0;
  const tc_sym **l = TC_NEW_ARRAY(m->arena, const tc_sym *, n + 1);
  for (int32_t i = 0; i < n; i++) l[i] = tc_sym_int(m->syms, from + i);
  *out = tc_arg_syms(l, n);
  return TC_OK;
}

static tc_status last(tc_module *m, const tc_arg *v, tc_arg *out) {
  int32_t n;
  TC_TRY(constant(v, 0, TC_MAX_RANK, &n));
  return counted(m, -n, 0, out);
}

static tc_status range(tc_module *m, const tc_arg *v, tc_arg *out) {
  int32_t from, to;
  TC_TRY(constant(&v[0], -TC_MAX_RANK, 2 * TC_MAX_RANK, &from));
  TC_TRY(constant(&v[1], -TC_MAX_RANK, 2 * TC_MAX_RANK, &to));
  return counted(m, from, to, out);
}

static tc_status evens(tc_module *m, const tc_arg *v, tc_arg *out) {
  int32_t n;
  TC_TRY(constant(v, 0, TC_MAX_RANK, &n));
  const tc_sym **l = TC_NEW_ARRAY(m->arena, const tc_sym *, n + 1);
  for (int32_t i = 0; i < n; i++) l[i] = tc_sym_int(m->syms, 2 * i);
  *out = tc_arg_syms(l, n);
  return TC_OK;
}

static tc_status sizes_of(tc_module *m, const tc_arg *v, tc_arg *out) {
  int32_t dim;
  if (v[0].kind != TC_AK_TENSORS) return tc_error(TC_STATUS_INVALID_ARGUMENT, "sizes_of takes tensors and a dimension");
  TC_TRY(constant(&v[1], -TC_MAX_RANK, TC_MAX_RANK, &dim));
  const tc_sym **sizes = TC_NEW_ARRAY(m->arena, const tc_sym *, v[0].n + 1);
  for (int32_t i = 0; i < v[0].n; i++) {
    const tc_tensor_type *t = &v[0].values[i]->type;
    int32_t d = dim < 0 ? dim + t->rank : dim;
    // An empty tensor of rank 1 may stand anywhere in a list that is joined.
    sizes[i] = d >= 0 && d < t->rank ? t->sizes[d] : tc_sym_int(m->syms, 0);
  }
  *out = tc_arg_syms(sizes, v[0].n);
  return TC_OK;
}

// The tensors of a list that are there.
static tc_status given(tc_module *m, const tc_arg *v, tc_arg *out) {
  if (v->kind != TC_AK_TENSORS && v->n != 0) return tc_error(TC_STATUS_INVALID_ARGUMENT, "given takes tensors");
  tc_value **to = TC_NEW_ARRAY(m->arena, tc_value *, v->n + 1);
  int32_t n = 0;
  for (int32_t i = 0; i < v->n; i++)
    if (v->values[i]) to[n++] = v->values[i];
  *out = tc_arg_tensors(to, n);
  return TC_OK;
}

static tc_status part(tc_module *m, const tc_arg *v, tc_arg *out) {
  list l;
  int32_t from, to;
  TC_TRY(ints_of(m, &v[0], &l));
  TC_TRY(constant(&v[1], -l.n, l.n, &from));
  TC_TRY(constant(&v[2], -l.n, l.n, &to));
  if (from < 0) from += l.n;
  if (to < 0) to += l.n;
  *out = tc_arg_syms(l.syms + (from < to ? from : 0), from < to ? to - from : 0);
  return TC_OK;
}

static tc_status joined(tc_module *m, const tc_arg *v, tc_arg *out) {
  list a, b;
  TC_TRY(ints_of(m, &v[0], &a));
  TC_TRY(ints_of(m, &v[1], &b));
  const tc_sym **to = TC_NEW_ARRAY(m->arena, const tc_sym *, a.n + b.n + 1);
  for (int32_t i = 0; i < a.n; i++) to[i] = a.syms[i];
  for (int32_t i = 0; i < b.n; i++) to[a.n + i] = b.syms[i];
  *out = tc_arg_syms(to, a.n + b.n);
  return TC_OK;
}

static tc_status repeated(tc_module *m, const tc_arg *v, tc_arg *out) {
  list l;
  int32_t n;
  TC_TRY(ints_of(m, &v[0], &l));
  TC_TRY(constant(&v[1], 0, TC_MAX_RANK, &n));
  const tc_sym **to = TC_NEW_ARRAY(m->arena, const tc_sym *, n *l.n + 1);
  for (int32_t i = 0; i < n * l.n; i++) to[i] = l.syms[i % l.n];
  *out = tc_arg_syms(to, n * l.n);
  return TC_OK;
}

static tc_status product(tc_module *m, const tc_arg *v, tc_arg *out) {
  list l;
  TC_TRY(ints_of(m, v, &l));
  const tc_sym *p = tc_sym_int(m->syms, 1);
  for (int32_t i = 0; i < l.n; i++) p = tc_sym_mul(m->syms, p, l.syms[i]);
  *out = tc_arg_sym(p);
  return TC_OK;
}

static tc_status pairs(tc_module *m, const tc_arg *v, tc_arg *out) {
  list l[2];
  TC_TRY(ints_of(m, &v[0], &l[0]));
  TC_TRY(ints_of(m, &v[1], &l[1]));
  int32_t n = l[0].n > l[1].n ? l[0].n : l[1].n;
  const tc_sym **to = TC_NEW_ARRAY(m->arena, const tc_sym *, 2 * n + 1);
  for (int32_t i = 0; i < 2 * n; i++) {
    const list *from = &l[i % 2];
    int32_t k = i / 2 - (n - from->n);
    to[i] = k < 0 ? tc_sym_int(m->syms, 1) : from->syms[k];
  }
  *out = tc_arg_syms(to, 2 * n);
  return TC_OK;
}

// The number of elements that a tensor of these sizes and strides spans.
static tc_status span(tc_module *m, const tc_arg *v, tc_arg *out) {
  list sizes, strides;
  TC_TRY(ints_of(m, &v[0], &sizes));
  TC_TRY(ints_of(m, &v[1], &strides));
  if (sizes.n != strides.n) return tc_error(TC_STATUS_INVALID_ARGUMENT, "span takes as many sizes as strides");
  const tc_sym *one = tc_sym_int(m->syms, 1), *s = one;
  for (int32_t i = 0; i < sizes.n; i++)
    s = tc_sym_add(m->syms, s, tc_sym_mul(m->syms, tc_sym_sub(m->syms, sizes.syms[i], one), strides.syms[i]));
  *out = tc_arg_sym(s);
  return TC_OK;
}

const tc_build_list_row *tc_build_list_find(tc_sv name, int32_t n_args) {
  static const tc_build_list_row all[] = {
      {"inverse", 1, inverse}, {"negated", 1, negated}, {"last", 1, last},         {"range", 2, range},
      {"evens", 1, evens},     {"part", 3, part},       {"joined", 2, joined},     {"repeated", 2, repeated},
      {"product", 1, product}, {"pairs", 2, pairs},     {"sizes_of", 2, sizes_of}, {"span", 2, span},
      {"given", 1, given},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (tc_sv_is(name, all[i].name) && all[i].n_args == n_args) return &all[i];
  return NULL;
}
