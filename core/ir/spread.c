// What moving the inputs changes: see the header. Each number moves by its own draw, in f64, so that two operands
// hardly ever move alike; zeros, infinities and NaN stay, as do integers and what the module itself binds.
#include "core/ir/spread.h"

#include <math.h>
#include <string.h>

enum { RUNS = 6 };

typedef struct moving {
  tc_graph *g;
  const tc_allocator *a;
  int32_t n_inputs, n_outputs;
  const tc_tensor *inputs, *wide;
  tc_tensor *moved, *outputs, *spread; // the first two in one block
} moving;

static double draw(uint64_t seed, uint64_t at) { // [-1, 1)
  return (double)(int64_t)tc_hash_mix(seed, at) * 0x1p-63;
}

static bool is_wide(const tc_tensor *t) { return t->storage && (t->dtype == TC_F64 || t->dtype == TC_C128); }
static int64_t parts_of(const tc_tensor *t) { return tc_tensor_numel(t) * (t->dtype == TC_C128 ? 2 : 1); }

static tc_status move(const moving *m, int32_t input, int32_t run) {
  const tc_tensor *t = &m->inputs[input];
  tc_tensor *out = &m->moved[input];
  double unit = 2 * tc_dtype_epsilon(t->dtype);
  if (!t->storage || unit == 0) {
    *out = t->storage ? tc_tensor_ref(t) : *t;
    return TC_OK;
  }
  TC_TRY(tc_tensor_create(m->a, tc_dtype_is_complex(t->dtype) ? TC_C128 : TC_F64, t->rank, t->sizes, out));
  TC_TRY(tc_tensor_copy(t, out)); // whoever asked releases it
  double *v = tc_tensor_data(out);
  uint64_t seed = (uint64_t)input * RUNS + (uint64_t)run;
  for (int64_t i = 0; i < parts_of(out); i++) v[i] *= 1 + unit * draw(seed, (uint64_t)i);
  return TC_OK;
}

static bool same_sizes(const tc_tensor *x, const tc_tensor *y) {
  bool same = x->storage && x->dtype == y->dtype && x->rank == y->rank;
  for (int32_t d = 0; same && d < x->rank; d++) same = x->sizes[d] == y->sizes[d];
  return same;
}

static tc_status widest(const moving *m, int32_t output) {
  const tc_tensor *other = &m->outputs[output], *base = &m->wide[output];
  tc_tensor *spread = &m->spread[output], x = {0}, y = {0};
  if (!spread->storage) return TC_OK;
  if (!same_sizes(other, base)) {
    tc_tensor_unref(spread);
    return TC_OK;
  }
  tc_status s = tc_tensor_contiguous(m->a, base, &x);
  if (s == TC_OK) s = tc_tensor_contiguous(m->a, other, &y);
  int32_t parts = base->dtype == TC_C128 ? 2 : 1;
  const double *p = x.storage ? tc_tensor_data(&x) : NULL, *q = y.storage ? tc_tensor_data(&y) : NULL;
  double *most = tc_tensor_data(spread);
  for (int64_t i = 0; s == TC_OK && i < tc_tensor_numel(spread); i++) {
    double d = parts == 2 ? hypot(q[2 * i] - p[2 * i], q[2 * i + 1] - p[2 * i + 1]) : fabs(q[i] - p[i]);
    if (isfinite(d) && d > most[i]) most[i] = d;
  }
  tc_tensor_unref(&x);
  tc_tensor_unref(&y);
  return s;
}

static void drop(tc_tensor *t, int32_t n) {
  for (int32_t i = 0; i < n; i++) tc_tensor_unref(&t[i]);
}

static tc_status run_moved(const moving *m, int32_t run, const tc_ref_options *options) {
  tc_status s = TC_OK;
  for (int32_t i = 0; i < m->n_inputs && s == TC_OK; i++) s = move(m, i, run);
  if (s == TC_OK) s = tc_ref_run(m->g, m->a, m->n_inputs, m->moved, m->outputs, options);
  for (int32_t i = 0; i < m->n_outputs && s == TC_OK; i++) s = widest(m, i);
  drop(m->outputs, m->n_outputs);
  drop(m->moved, m->n_inputs);
  return s;
}

static tc_status make_spread(const moving *m, int32_t output) {
  const tc_tensor *t = &m->wide[output];
  if (!is_wide(t)) return TC_OK;
  TC_TRY(tc_tensor_create(m->a, TC_F64, t->rank, t->sizes, &m->spread[output]));
  memset(tc_tensor_data(&m->spread[output]), 0, 8 * (size_t)tc_tensor_numel(t));
  return TC_OK;
}

tc_status tc_ref_spread(tc_graph *g, const tc_allocator *a, int32_t n_inputs, const tc_tensor *inputs,
                        const tc_tensor *wide, tc_tensor *spread, const tc_ref_options *options) {
  tc_ref_options o = options ? *options : (tc_ref_options){0};
  o.wide = true, o.write_back = false;
  moving m = {g, a, n_inputs, g->outputs.count, inputs, wide, NULL, NULL, spread};
  memset(spread, 0, sizeof *spread * (size_t)m.n_outputs);
  m.moved = tc_alloc(a, sizeof(tc_tensor) * ((size_t)n_inputs + (size_t)m.n_outputs));
  if (!m.moved) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for moved inputs");
  m.outputs = m.moved + n_inputs;
  tc_status s = TC_OK;
  for (int32_t i = 0; i < m.n_outputs && s == TC_OK; i++) s = make_spread(&m, i);
  for (int32_t run = 0; run < RUNS && s == TC_OK; run++) s = run_moved(&m, run, &o);
  if (s != TC_OK) drop(spread, m.n_outputs);
  tc_free(a, m.moved);
  return s;
}
