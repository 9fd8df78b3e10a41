// Sums of products. See linear.h.
#include "core/kernel/linear.h"

enum { STEPS = 256 }; // values are shared: sums of sums of them could go on for long

const tc_kinst *tc_kir_made_by(const tc_kernel *k, tc_kval v) {
  return k->values[v].inst < 0 ? NULL : &k->insts[k->values[v].inst];
}

const tc_kinst *tc_kir_made_by_op(const tc_kernel *k, tc_kval v, int32_t op) {
  const tc_kinst *in = tc_kir_made_by(k, v);
  return in && in->op == op ? in : NULL;
}

typedef struct walk {
  const tc_kernel *k;
  int32_t left; // steps
} walk;

bool tc_linear_add(tc_linear *sum, const tc_linear *x, int64_t by) {
  tc_linear r = {.c = sum->c + by * x->c};
  for (int32_t i = 0, j = 0; i < sum->n || j < x->n;) {
    bool first = j == x->n || (i < sum->n && sum->terms[i].v <= x->terms[j].v);
    bool second = i == sum->n || (j < x->n && x->terms[j].v <= sum->terms[i].v);
    tc_kval v = first ? sum->terms[i].v : x->terms[j].v;
    int64_t n = (first ? sum->terms[i++].by : 0) + (second ? by * x->terms[j++].by : 0);
    if (!n) continue;
    if (r.n == TC_LINEAR_TERMS) return false;
    r.terms[r.n].v = v, r.terms[r.n++].by = n;
  }
  *sum = r;
  return true;
}

bool tc_linear_same_terms(const tc_linear *x, const tc_linear *y) {
  if (x->n != y->n) return false;
  for (int32_t i = 0; i < x->n; i++)
    if (x->terms[i].v != y->terms[i].v || x->terms[i].by != y->terms[i].by) return false;
  return true;
}

bool tc_kir_is_constant(const tc_kernel *k, tc_kval v, int64_t *c) {
  const tc_kinst *in = tc_kir_made_by(k, v);
  if (!in || in->op != TC_K_CONST || in->imm > INT32_MAX || in->imm < INT32_MIN) return false;
  *c = in->imm;
  return true;
}

static bool add_value(walk *w, tc_kval v, int64_t by, tc_linear *sum);

static bool add_product(walk *w, tc_kval x, tc_kval y, int64_t by, tc_linear *sum, bool *done) {
  int64_t c;
  *done = true;
  if (tc_kir_is_constant(w->k, y, &c)) return add_value(w, x, by * c, sum);
  if (tc_kir_is_constant(w->k, x, &c)) return add_value(w, y, by * c, sum);
  *done = false;
  return true;
}

static bool add_value(walk *w, tc_kval v, int64_t by, tc_linear *sum) {
  if (w->left-- <= 0 || by > INT32_MAX || by < INT32_MIN) return false;
  const tc_kinst *in = tc_kir_made_by(w->k, v);
  int64_t c;
  bool done = false;
  switch (in ? in->op : TC_K_LANE) {
  case TC_K_CONST: sum->c += by * in->imm; return true;
  case TC_K_ADD: return add_value(w, in->args[0], by, sum) && add_value(w, in->args[1], by, sum);
  case TC_K_SUB: return add_value(w, in->args[0], by, sum) && add_value(w, in->args[1], -by, sum);
  case TC_K_NEG: return add_value(w, in->args[0], -by, sum);
  case TC_K_CAST:
    if (tc_kir_is_int(w->k->values[in->args[0]].dtype)) return add_value(w, in->args[0], by, sum);
    break;
  case TC_K_SHL:
    if (tc_kir_is_constant(w->k, in->args[1], &c) && c >= 0 && c < 31)
      return add_value(w, in->args[0], by * (1LL << c), sum);
    break;
  case TC_K_MUL:
    if (!add_product(w, in->args[0], in->args[1], by, sum, &done)) return false;
    if (done) return true;
    break;
  case TC_K_FMA:
    if (!add_product(w, in->args[0], in->args[1], by, sum, &done)) return false;
    if (done) return add_value(w, in->args[2], by, sum);
    break;
  default: break;
  }
  tc_linear leaf = {.n = 1, .terms = {{v, 1}}};
  return tc_linear_add(sum, &leaf, by);
}

bool tc_linear_of(const tc_kernel *k, tc_kval v, tc_linear *out) {
  walk w = {k, STEPS};
  *out = (tc_linear){0};
  return tc_kir_is_int(k->values[v].dtype) && add_value(&w, v, 1, out);
}
