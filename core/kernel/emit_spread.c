// Variances in the pass of their sums.
//
// A variance is the sum of (x - mean)², and the mean the sum of x, over the same row, by its length: two passes, the
// second of which waits for the first, and leaves memory nothing to do. Where lanes are elements of vectors both are
// made in one: each lane keeps up the mean m of its elements so far and their squares s about it (Welford, "Note on a
// method for calculating corrected sums of squares and products", 1962), of its k-th element with d = x - m
//
//   m + d / k  and  s + d² (k - 1) / k
//
// where k and what is divided by it are numbers of all lanes. Two sets of elements (the parts of a long row, and in the
// end each lane's and the row's) are put together as by Chan, Golub and LeVeque, "Algorithms for computing the sample
// variance", 1983. All is of x less the row's first element, the pivot: rounding m costs s as much as m is large, which
// would be a lot where all elements lie far from 0; where the pivot alone lies far from the others, its own square is
// as large as what that costs. Sums of squares about a pivot are no way: of n elements far from it they lose n² times
// what a rounding is.
//
// A residual and its layer norm of 1024 rows of 4096 take 0.8 of their time so, since the last phase then runs beside
// the next row's only other one. It is done where rows come from memory: in the caches two passes take 0.8 to 1.05 of
// what the divisions and the additions at the end do.
#include "core/kernel/emit_internal.h"

enum { MOST_COMPARED = 32 }; // instructions, of two ways to write the same element

// An instruction of a body, and what the variables of its node are here.
typedef struct value {
  const tc_lnode *n;
  const tc_binst *in;
  const tc_sym *at[TC_MAX_RANK];
} value;

static void place(tc_em *e, const tc_binst *load, const tc_lnode *n, const tc_sym *const *at, const tc_sym **out) {
  for (int32_t d = 0; d < load->buf->rank; d++)
    out[d] = tc_sym_replace(e->syms, load->index[d], n->n_par + n->n_red, n->vars, at);
}

// What makes a value of a body: where that loads what a pointwise step makes, the instruction of that step.
static value value_of(tc_em *e, const tc_lnode *n, int32_t number, const tc_sym *const *at) {
  value v = {n, &n->body.insts.data[number], {0}};
  for (int32_t d = 0; d < n->n_par + n->n_red; d++) v.at[d] = at[d];
  for (;;) {
    const tc_buf *b = v.in->op == TC_B_LOAD && !v.in->gather && !v.in->cond ? v.in->buf : NULL;
    const tc_lnode *def = b ? b->def : NULL;
    if (!def || def->kind != TC_LN_POINTWISE || def->store || (em_step_of(e, def) < 0 && b->strides)) return v;
    const tc_sym *index[TC_MAX_RANK];
    place(e, v.in, v.n, v.at, index);
    v.n = def;
    v.in = &def->body.insts.data[def->body.results[b->def_result]];
    for (int32_t d = 0; d < def->n_par; d++) v.at[d] = index[d];
  }
}

static value operand(tc_em *e, const value *v, int32_t i) { return value_of(e, v->n, v->in->args[i], v->at); }

static bool same_place(tc_em *e, const value *x, const value *y) {
  const tc_sym *a[TC_MAX_RANK], *b[TC_MAX_RANK];
  if (x->in->buf != y->in->buf || x->in->gather || y->in->gather || x->in->cond || y->in->cond) return false;
  place(e, x->in, x->n, x->at, a);
  place(e, y->in, y->n, y->at, b);
  for (int32_t d = 0; d < x->in->buf->rank; d++)
    if (a[d] != b[d]) return false;
  return true;
}

static bool same_variables(const value *x, const value *y) {
  bool all = x->n == y->n;
  for (int32_t d = 0; all && d < x->n->n_par + x->n->n_red; d++) all = x->at[d] == y->at[d];
  return all;
}

// The same operations on the same elements? `left`: of the instructions that are looked at.
static bool same(tc_em *e, const value *x, const value *y, int32_t *left) {
  const tc_binst *a = x->in, *b = y->in;
  if (a == b && same_variables(x, y)) return true;
  if (a->op != b->op || a->dtype != b->dtype || a->n_args != b->n_args || (*left)-- == 0) return false;
  if (a->op == TC_B_LOAD) return same_place(e, x, y);
  if (a->op == TC_K_CONST) return a->imm == b->imm && a->re == b->re && a->im == b->im;
  bool all = a->op < TC_K_COUNT && a->n_args > 0;
  for (int32_t i = 0; i < a->n_args && all; i++) {
    value s = operand(e, x, i), t = operand(e, y, i);
    all = same(e, &s, &t, left);
  }
  return all;
}

static bool length(tc_em *e, double *out) {
  const tc_sym *n = tc_product(e->l, e->n_red, e->extents + e->n_par);
  *out = tc_sym_is_const(n) ? (double)n->value : 0;
  return tc_sym_is_const(n);
}

static bool is_sum(const tc_lnode *n) {
  return n->kind == TC_LN_REDUCE && n->reduce == TC_RED_SUM &&
         (n->outs[0]->dtype == TC_F32 || n->outs[0]->dtype == TC_F64);
}

// The step of the sum that m is, divided by the row's length; -1: it is something else.
static int32_t sum_of_mean(tc_em *e, const value *m) {
  double n;
  if (m->in->op != TC_K_DIV || !length(e, &n)) return -1;
  value sum = operand(e, m, 0), by = operand(e, m, 1);
  if (by.in->op != TC_K_CONST || by.in->re != n || sum.in->op != TC_B_LOAD || !sum.in->buf->def) return -1;
  int32_t step = em_step_of(e, sum.in->buf->def);
  if (step < 0 || !is_sum(sum.in->buf->def) || e->g->steps.data[step].hold == TC_HOLD_COLUMN) return -1;
  const tc_sym *row[TC_MAX_RANK];
  place(e, sum.in, sum.n, sum.at, row);
  for (int32_t d = 0; d < sum.in->buf->rank; d++)
    if (row[d] != e->at[step][d]) return -1;
  return step;
}

int32_t em_spread_sum(tc_em *e, int32_t step) {
  const tc_lnode *n = e->g->steps.data[step].node;
  if (e->g->steps.data[step].hold == TC_HOLD_COLUMN) return -1; // parts of columns are of several rows
  if (!e->dev->simd_bytes || e->g->stage || e->tile_row >= 0 || !is_sum(n)) return -1;
  value square = value_of(e, n, n->body.results[0], e->at[step]);
  if (square.in->op != TC_K_MUL || square.in->args[0] != square.in->args[1]) return -1;
  value rest = operand(e, &square, 0);
  if (rest.in->op != TC_K_SUB || rest.in->dtype != n->outs[0]->dtype) return -1;
  value x = operand(e, &rest, 0), mean = operand(e, &rest, 1);
  int32_t sum = sum_of_mean(e, &mean);
  if (sum < 0) return -1;
  const tc_lnode *s = e->g->steps.data[sum].node;
  value y = value_of(e, s, s->body.results[0], e->at[sum]);
  int32_t left = MOST_COMPARED;
  return same(e, &x, &y, &left) && s->outs[0]->dtype == n->outs[0]->dtype ? sum : -1;
}

bool em_spread_fits(tc_em *e, int32_t lane_var) {
  double n;
  int64_t lanes = tc_kb_lanes_count(e->kb), extent;
  if (!em_large_reads(e) || lane_var < e->n_par || em_lane_width(e) != 1 || !length(e, &n)) return false;
  extent = e->extents[lane_var]->value;
  return extent >= lanes && (e->n_red == 1 || extent % lanes == 0); // else lanes would count differently
}

static tc_kval real_of(tc_em *e, tc_dtype t, tc_kval integer) { return tc_kb_cast(e->kb, t, integer); }

tc_kval em_spread_pivot(tc_em *e, int32_t sum) {
  int32_t mark = em_mark(e);
  const tc_lnode *n = e->g->steps.data[sum].node;
  for (int32_t d = e->n_par; d < e->n_par + e->n_red; d++) em_bind(e, e->vars[d], em_const(e, 0));
  tc_kval v = tc_kb_cast(e->kb, em_acc_type(n), em_body(e, n, e->at[sum]));
  em_leave(e, mark);
  return v;
}

void em_spread_add(tc_em *e, int32_t sum, tc_kval pivot, tc_kval number, const tc_kval *acc, tc_kval *next) {
  const tc_lnode *n = e->g->steps.data[sum].node;
  tc_kb *b = e->kb;
  tc_dtype t = em_acc_type(n);
  tc_kval x = tc_kb_cast(b, t, em_body(e, n, e->at[sum])), one = tc_kb_real(b, t, 1);
  tc_kval share = tc_kb_op2(b, TC_K_DIV, one, real_of(e, t, number)), rest = tc_kb_op2(b, TC_K_SUB, one, share);
  tc_kval d = tc_kb_op2(b, TC_K_SUB, tc_kb_op2(b, TC_K_SUB, x, pivot), acc[EM_SPREAD_MEAN]);
  if (e->mask >= 0) d = tc_kb_op3(b, TC_K_SELECT, e->mask, d, em_acc_init(e, n));
  next[EM_SPREAD_MEAN] = tc_kb_op3(b, TC_K_FMA, d, share, acc[EM_SPREAD_MEAN]);
  next[EM_SPREAD_SQUARES] = tc_kb_op3(b, TC_K_FMA, d, tc_kb_op2(b, TC_K_MUL, d, rest), acc[EM_SPREAD_SQUARES]);
}

void em_spread_join(tc_em *e, tc_kval before, tc_kval count, const tc_kval *acc, tc_kval *part) {
  tc_kb *b = e->kb;
  tc_dtype t = tc_kb_type(b, acc[EM_SPREAD_MEAN]);
  tc_kval share = tc_kb_op2(b, TC_K_DIV, real_of(e, t, count), real_of(e, t, em_add(e, before, count)));
  tc_kval d = tc_kb_op2(b, TC_K_SUB, part[EM_SPREAD_MEAN], acc[EM_SPREAD_MEAN]);
  tc_kval weight = tc_kb_op2(b, TC_K_MUL, share, real_of(e, t, before));
  tc_kval squares = tc_kb_op2(b, TC_K_ADD, acc[EM_SPREAD_SQUARES], part[EM_SPREAD_SQUARES]);
  part[EM_SPREAD_MEAN] = tc_kb_op3(b, TC_K_FMA, d, share, acc[EM_SPREAD_MEAN]);
  part[EM_SPREAD_SQUARES] = tc_kb_op3(b, TC_K_FMA, d, tc_kb_op2(b, TC_K_MUL, d, weight), squares);
}

// Elements of a row that a lane has.
static tc_kval elements_of_lane(tc_em *e, tc_dtype t, int32_t lane_var) {
  double all;
  length(e, &all);
  int64_t lanes = tc_kb_lanes_count(e->kb), extent = e->extents[lane_var]->value, rows = (int64_t)all / extent;
  tc_kval less = tc_kb_real(e->kb, t, (double)(rows * (extent / lanes)));
  if (extent % lanes == 0) return less;
  tc_kval more = tc_kb_real(e->kb, t, (double)(rows * (extent / lanes + 1)));
  tc_kval longer = tc_kb_op2(e->kb, TC_K_LT, tc_kb_lane(e->kb), tc_kb_int(e->kb, TC_I32, extent % lanes));
  return tc_kb_op3(e->kb, TC_K_SELECT, longer, more, less);
}

tc_kmem em_spread_keep(tc_em *e, int32_t step, const tc_kval *acc) {
  const tc_lnode *n = e->g->steps.data[step].node;
  tc_kmem kept = tc_kb_lane_array(e->kb, tc_sv_printf(e->arena, "spread%d", step), em_acc_type(n), EM_SPREAD_NUMBERS);
  for (int32_t i = 0; i < EM_SPREAD_NUMBERS; i++) tc_kb_store(e->kb, kept, em_const(e, i), 1, &acc[i], -1);
  return kept;
}

tc_kval em_spread_total(tc_em *e, tc_kval total, tc_kval pivot, tc_kmem kept, int32_t lane_var) {
  tc_kb *b = e->kb;
  tc_dtype t = tc_kb_type(b, total);
  double all;
  length(e, &all);
  tc_kval mean = tc_kb_op2(b, TC_K_DIV, total, tc_kb_real(b, t, all)), v[EM_SPREAD_NUMBERS], out;
  tc_kval shift = tc_kb_op2(b, TC_K_SUB, mean, pivot);
  tc_kb_lanes(b);
  for (int32_t i = 0; i < EM_SPREAD_NUMBERS; i++) v[i] = tc_kb_load1(b, kept, em_const(e, i), -1, -1);
  tc_kval n = elements_of_lane(e, t, lane_var), off = tc_kb_op2(b, TC_K_SUB, v[EM_SPREAD_MEAN], shift);
  tc_kval spread = tc_kb_op3(b, TC_K_FMA, tc_kb_op2(b, TC_K_MUL, n, off), off, v[EM_SPREAD_SQUARES]);
  tc_kb_end_lanes(b, 1, &spread, &out);
  return tc_kb_collective(b, TC_K_REDUCE_ADD, out, 0);
}
