// Recurrent layers: lstm, gru and plain ones over sequences, and their cells. Definitions: PyTorch's documentation of
// torch.nn.LSTM, GRU and RNN.
//
// A layer in one direction is a scan over the steps, or these themselves where there are only a few. What does not
// depend on the state, the product of all inputs with their weights, is one product in front of them.
#include "core/ops/ops.h"

enum { INPUT, STATE, PARAMS, BIASES, LAYERS, DROPOUT, TRAIN, BOTH_WAYS, BATCH_FIRST };
enum { FEW_STEPS = 4 };

// The parameters of one layer in one direction; -1 where there is none.
typedef struct weights {
  tc_gv w_input, w_state, b_input, b_state, project;
} weights;

typedef struct layer {
  const char *step; // "aten::_lstm_step", …
  bool lstm, gated; // two states; the step takes both products apart
  int64_t n, dirs;  // steps, 0: not known; directions
  bool biases, projected;
} layer;

static tc_gv on(tc_op_args *a, const char *op, int32_t n, const tc_gv *x) {
  tc_ex_begin(a, op);
  for (int32_t i = 0; i < n; i++)
    if (x[i] >= 0) tc_ex_push(a, x[i]);
    else tc_ex_push_none(a);
  return tc_ex_make(a, 1, NULL);
}
static tc_gv with_ints(tc_op_args *a, const char *op, tc_gv x, int32_t n, const int64_t *v) {
  tc_ex_begin(a, op);
  tc_ex_push(a, x);
  for (int32_t i = 0; i < n; i++) tc_ex_push_int(a, tc_int_const(a, v[i]));
  return tc_ex_make(a, 1, NULL);
}
static tc_gv listed(tc_op_args *a, const char *op, int32_t n, const tc_gv *v, int64_t dim) {
  tc_ex_begin(a, op);
  tc_ex_push_list(a, n, v);
  tc_ex_push_int(a, tc_int_const(a, dim));
  return tc_ex_make(a, 1, NULL);
}
static tc_gv linear(tc_op_args *a, tc_gv x, tc_gv w, tc_gv b) {
  return on(a, "aten::linear", 3, (const tc_gv[]){x, w, b});
}
static tc_gv at(tc_op_args *a, tc_gv x, int64_t k) { return with_ints(a, "aten::select.int", x, 2, (int64_t[]){0, k}); }

static weights weights_of(tc_op_args *a, const layer *l, int64_t which) {
  int32_t per = 2 + 2 * l->biases + l->projected, first = (int32_t)which * per;
  weights w = {tc_ex_arg_at(a, PARAMS, first), tc_ex_arg_at(a, PARAMS, first + 1), -1, -1, -1};
  if (l->biases) w.b_input = tc_ex_arg_at(a, PARAMS, first + 2), w.b_state = tc_ex_arg_at(a, PARAMS, first + 3);
  if (l->projected) w.project = tc_ex_arg_at(a, PARAMS, first + per - 1);
  return w;
}

// One step: the new states from the product of its input and the old ones.
static void make_step(tc_op_args *a, const layer *l, const weights *w, tc_gv from_x, tc_gv *h, tc_gv *c) {
  tc_gv from_h = linear(a, *h, w->w_state, w->b_state);
  if (l->gated) {
    *h = on(a, l->step, 3, (const tc_gv[]){from_x, from_h, *h});
    return;
  }
  tc_gv gates = on(a, "aten::add.Tensor", 2, (const tc_gv[]){from_x, from_h}), both[2] = {-1, -1};
  if (l->lstm) {
    tc_ex_begin(a, l->step);
    tc_ex_push(a, gates), tc_ex_push(a, *c);
    tc_ex_make(a, 2, both);
    *h = w->project >= 0 ? linear(a, both[0], w->project, -1) : both[0], *c = both[1];
  } else {
    *h = on(a, l->step, 1, &gates);
  }
}

static tc_gv few_steps(tc_op_args *a, const layer *l, const weights *w, tc_gv ahead, bool back, tc_gv *h, tc_gv *c) {
  tc_gv out[FEW_STEPS];
  for (int64_t k = 0; k < l->n; k++) {
    int64_t t = back ? l->n - 1 - k : k;
    make_step(a, l, w, at(a, ahead, t), h, c);
    out[t] = *h;
  }
  return listed(a, "aten::stack", (int32_t)l->n, out, 0);
}

static tc_gv scanned_steps(tc_op_args *a, const layer *l, const weights *w, tc_gv ahead, bool back, tc_gv *h,
                           tc_gv *c) {
  tc_gv states[2] = {*h, *c}, next[3], others[3], results[3], x;
  int32_t n_states = 1 + l->lstm, n_others = 0;
  weights in = {-1, -1, -1, -1, -1};
  tc_graph *body = tc_ex_begin_region(a, "step");
  for (int32_t i = 0; i < n_states; i++) next[i] = tc_ex_region_input(a, i ? "c" : "h", tc_ex_type(a, states[i]), 0);
  x = tc_ex_region_input(a, "x", tc_ex_type(a, ahead), 1);
  const struct {
    tc_gv outer, *inner;
    const char *name;
  } fixed[] = {{w->w_state, &in.w_state, "w"}, {w->b_state, &in.b_state, "b"}, {w->project, &in.project, "p"}};
  for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
    if (fixed[i].outer < 0) continue;
    *fixed[i].inner = tc_ex_region_input(a, fixed[i].name, tc_ex_type(a, fixed[i].outer), 0);
    others[n_others++] = fixed[i].outer;
  }
  make_step(a, l, &in, x, &next[0], &next[1]);
  next[n_states] = next[0];
  tc_ex_end_region(a, n_states + 1, next);
  tc_ex_begin(a, "higher_order::scan");
  tc_ex_push_graph(a, body);
  tc_ex_push_list(a, n_states, states), tc_ex_push_list(a, 1, &ahead), tc_ex_push_list(a, n_others, others);
  tc_ex_push_bool(a, back);
  tc_ex_make(a, n_states + 1, results);
  *h = results[0], *c = l->lstm ? results[1] : -1;
  return results[n_states];
}

// One direction of one layer: what each step gives, as a sequence; the states become the last ones.
static tc_gv run_steps(tc_op_args *a, const layer *l, const weights *w, tc_gv x, bool back, tc_gv *h, tc_gv *c) {
  tc_gv ahead = linear(a, x, w->w_input, w->b_input);
  return l->n && l->n <= FEW_STEPS ? few_steps(a, l, w, ahead, back, h, c) : scanned_steps(a, l, w, ahead, back, h, c);
}

static int32_t layers_expand(tc_op_args *a, const char *step, bool lstm, bool gated) {
  const tc_tensor_type *x = tc_op_tensor(a, INPUT);
  bool batch_first = tc_op_bool(a, BATCH_FIRST, 0);
  layer l = {.step = step, .lstm = lstm, .gated = gated, .dirs = 1 + tc_op_bool(a, BOTH_WAYS, 0)};
  l.biases = tc_op_bool(a, BIASES, 1);
  int64_t layers = tc_op_int(a, LAYERS, 1), all = layers > 0 && layers < INT32_MAX ? layers * l.dirs : 0;
  if (x->rank != 3) return tc_op_fail(a, "the input must have 3 dimensions: %s", tc_op_shape_text(a, INPUT));
  if (!tc_int_is_const(x->sizes[batch_first], &l.n)) l.n = 0;
  else if (l.n < 1) return tc_op_fail(a, "expected sequence length to be larger than 0 in RNN");
  if (lstm && tc_op_count(a, STATE) != 2) return tc_op_fail(a, "lstm expects two hidden states");
  if (lstm) {
    const tc_tensor_type *h = tc_op_tensor_at(a, STATE, 0), *c = tc_op_tensor_at(a, STATE, 1);
    if (h->rank != 3 || c->rank != 3) return tc_op_fail(a, "the hidden states must have 3 dimensions");
    l.projected = tc_int_eq(a, h->sizes[2], c->sizes[2]) != 1;
  } else if (tc_op_tensor(a, STATE)->rank != 3) {
    return tc_op_fail(a, "the hidden state must have 3 dimensions: %s", tc_op_shape_text(a, STATE));
  }
  if (all == 0 || tc_op_count(a, PARAMS) != all * (2 + 2 * l.biases + l.projected))
    return tc_op_fail(a, "%lld layers do not go with %d parameters", (long long)layers, tc_op_count(a, PARAMS));
  tc_gv *h = TC_NEW_ARRAY(a->arena, tc_gv, all), *c = TC_NEW_ARRAY(a->arena, tc_gv, all), y = tc_ex_arg(a, INPUT);
  if (batch_first) y = with_ints(a, "aten::transpose.int", y, 2, (int64_t[]){0, 1});
  for (int64_t i = 0; i < layers; i++) {
    tc_gv way[2] = {-1, -1};
    for (int64_t d = 0; d < l.dirs; d++) {
      int64_t k = i * l.dirs + d;
      weights w = weights_of(a, &l, k);
      h[k] = at(a, lstm ? tc_ex_arg_at(a, STATE, 0) : tc_ex_arg(a, STATE), k);
      c[k] = lstm ? at(a, tc_ex_arg_at(a, STATE, 1), k) : -1;
      way[d] = run_steps(a, &l, &w, y, d == 1, &h[k], &c[k]);
    }
    y = l.dirs == 2 ? listed(a, "aten::cat", 2, way, -1) : way[0];
    if (i + 1 == layers || !tc_op_bool(a, TRAIN, 0) || tc_op_float(a, DROPOUT, 0) == 0) continue;
    tc_ex_begin(a, "aten::dropout");
    tc_ex_push(a, y);
    tc_ex_push_float(a, tc_op_float(a, DROPOUT, 0));
    tc_ex_push_bool(a, true);
    y = tc_ex_make(a, 1, NULL);
  }
  if (batch_first) y = with_ints(a, "aten::transpose.int", y, 2, (int64_t[]){0, 1});
  tc_ex_result(a, 0, y);
  tc_ex_result(a, 1, listed(a, "aten::stack", (int32_t)all, h, 0));
  if (lstm) tc_ex_result(a, 2, listed(a, "aten::stack", (int32_t)all, c, 0));
  return TC_STATUS_OK;
}
static int32_t lstm_expand(tc_op_args *a) { return layers_expand(a, "aten::_lstm_step", true, false); }
static int32_t gru_expand(tc_op_args *a) { return layers_expand(a, "aten::_gru_step", false, true); }
static int32_t rnn_tanh_expand(tc_op_args *a) { return layers_expand(a, "aten::tanh", false, false); }
static int32_t rnn_relu_expand(tc_op_args *a) { return layers_expand(a, "aten::relu", false, false); }

#define REST \
  "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first)"
#define LAYERS_ROW(name, t, hx, out, f) \
  {.schema = name ".input(Tensor input, " hx " hx, " REST " -> " out, .traits = t, .expand = f}
#define CELL "Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None)"
#define SUM(h) "add(linear(input, w_ih, b_ih), linear(" h ", w_hh, b_hh))"
#define TEXT(s, d) {.schema = s, .traits = TC_OP_COMPLEX, .decompose = d}
enum { R = TC_OP_RANDOM, RC = TC_OP_RANDOM | TC_OP_COMPLEX };
static const tc_op_def rows[] = {
    LAYERS_ROW("lstm", RC, "Tensor[]", "(Tensor, Tensor, Tensor)", lstm_expand),
    LAYERS_ROW("gru", RC, "Tensor", "(Tensor, Tensor)", gru_expand),
    LAYERS_ROW("rnn_tanh", RC, "Tensor", "(Tensor, Tensor)", rnn_tanh_expand),
    LAYERS_ROW("rnn_relu", R, "Tensor", "(Tensor, Tensor)", rnn_relu_expand),
    // Gates stand in the order input, forget, cell, output.
    TEXT("_lstm_step(Tensor gates, Tensor c) -> (Tensor, Tensor)",
         "let p = chunk(gates, 4, 1); let n = add(mul(sigmoid(p[1]), c), mul(sigmoid(p[0]), tanh(p[2])));"
         "mul(sigmoid(p[3]), tanh(n)), n"),
    // In the order reset, update, new; what is new is gated before it meets the input's part.
    TEXT("_gru_step(Tensor x, Tensor g, Tensor h) -> Tensor",
         "let p = chunk(x, 3, 1); let q = chunk(g, 3, 1); let z = sigmoid(add(p[1], q[1]));"
         "let n = tanh(add(p[2], mul(sigmoid(add(p[0], q[0])), q[2]))); add(n, mul(z, sub(h, n)))"),
    TEXT("lstm_cell(Tensor input, Tensor[] hx, " CELL " -> (Tensor, Tensor)",
         "let h, c = _lstm_step(" SUM("hx[0]") ", hx[1]); h, c"),
    TEXT("gru_cell(Tensor input, Tensor hx, " CELL " -> Tensor",
         "_gru_step(linear(input, w_ih, b_ih), linear(hx, w_hh, b_hh), hx)"),
    TEXT("rnn_tanh_cell(Tensor input, Tensor hx, " CELL " -> Tensor", "tanh(" SUM("hx") ")"),
    {.schema = "rnn_relu_cell(Tensor input, Tensor hx, " CELL " -> Tensor", .decompose = "relu(" SUM("hx") ")"},
};
TC_OP_FAMILY(recurrent);
