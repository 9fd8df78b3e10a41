// Connectionist temporal classification: the loss of sequences of labels whose places in time are not known, and its
// gradient. Definition: Graves et al., "Connectionist Temporal Classification", 2006, and PyTorch's documentation of
// torch.nn.CTCLoss. As there, the gradient is that of a loss of log_softmax's results, whatever made them.
//
// A target of n labels has 2n + 1 states, a blank before, between and behind them. `_ctc_paths` sums over all paths to
// each state, forwards (alpha); backwards (beta) is the same of sequences whose steps and states are turned round. All
// else is gathering. What lies behind a sequence's own length is computed and left out.
#include <math.h>

#include "core/ops/ops.h"

enum { LOG_PROBS, TARGETS, INPUT_LENGTHS, TARGET_LENGTHS, BLANK, ZERO_INFINITY };

// ---- All paths: x [n, steps, states], jumps [n, states] ----
static int32_t paths_meta(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0), *jumps = tc_op_tensor(a, 1);
  if (x->dtype != TC_F32 && x->dtype != TC_F64)
    return tc_op_fail(a, "\"ctc_loss\" not implemented for %s", tc_dtype_torch_name(x->dtype));
  if (x->rank != 3 || jumps->rank != 2 || jumps->dtype != TC_BOOL ||
      tc_int_require_eq(a, jumps->sizes[0], x->sizes[0]) || tc_int_require_eq(a, jumps->sizes[1], x->sizes[2]))
    return tc_op_fail(a, "%s and %s are no states of sequences", tc_op_shape_text(a, 0), tc_op_shape_text(a, 1));
  return tc_op_set_result(a, 0, x->dtype, 3, x->sizes, NULL);
}
static int32_t paths_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_lt operands[2] = {tc_lo_arg(a, 0), tc_lo_arg(a, 1)};
  tc_lo_result(a, 0, tc_lo_template(a, "ctc", 2, operands, r->dtype, 3, r->sizes, 0, NULL));
  return TC_STATUS_OK;
}
static int32_t paths_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *jumps = tc_op_data(a, 1), *y = tc_op_result_data(a, 0);
  int64_t index[3] = {0}, states = x->sizes[2];
  const double *out = y->data;
  if (tc_ref_numel(y) == 0) return TC_STATUS_OK;
  do {
    int64_t to = tc_ref_offset(y, index), s = index[2];
    double p[3] = {-INFINITY, -INFINITY, -INFINITY}, top = -INFINITY, sum = 0;
    for (int64_t k = 0; k < 3 && k <= s; k++) {
      bool allowed = k < 2 || tc_ref_i(jumps, tc_ref_offset(jumps, (int64_t[]){index[0], s}));
      if (!allowed) continue;
      p[k] = index[1] ? out[to - states - k] : s == k ? 0 : -INFINITY;
      top = fmax(top, p[k]);
    }
    for (int64_t k = 0; k < 3; k++) sum += top == -INFINITY && p[k] == top ? 0 : exp(p[k] - top);
    tc_ref_put(y, to, (tc_c128){log(sum) + top + tc_ref_f(x, tc_ref_offset(x, index)), 0});
  } while (tc_ref_next(3, y->sizes, index));
  return TC_STATUS_OK;
}

// ---- A list of integers as a tensor ----
static int32_t list_meta(tc_op_args *a) {
  tc_int n = tc_int_const(a, tc_op_count(a, 0));
  return tc_op_set_result(a, 0, TC_I64, 1, &n, NULL);
}
static int32_t list_lower(tc_op_args *a) {
  int32_t n = tc_op_count(a, 0);
  tc_int size = tc_int_const(a, n), index[1];
  tc_lo_begin(a, 1, &size, index);
  tc_bval at = tc_lo_index(a, index[0], TC_I64), v = tc_lo_const_int(a, TC_I64, 0);
  for (int32_t k = 0; k < n; k++) {
    tc_bval here = tc_lo_op2(a, TC_K_EQ, at, tc_lo_const_int(a, TC_I64, k));
    v = tc_lo_op3(a, TC_K_SELECT, here, tc_lo_index(a, tc_op_sym_at(a, 0, k), TC_I64), v);
  }
  tc_lo_result(a, 0, tc_lo_end(a, v, TC_I64));
  return TC_STATUS_OK;
}
static int32_t list_ref(tc_op_args *a) {
  const tc_ref_view *y = tc_op_result_data(a, 0);
  for (int32_t k = 0; k < tc_op_count(a, 0); k++) tc_ref_put_i(y, k, tc_op_int_at(a, 0, k, 0));
  return TC_STATUS_OK;
}

// ---- Lengths that are given as numbers: PyTorch's checks, and what is left to the op over tensors ----
static tc_gv listed(tc_op_args *a, int32_t arg) {
  tc_ex_begin(a, "aten::_int_list");
  tc_ex_push_arg(a, arg);
  return tc_ex_make(a, 1, NULL);
}
// Each of a list of lengths is from 0 to `most`; their sum and the largest of them.
static int32_t check_lengths(tc_op_args *a, int32_t arg, const char *name, tc_int batch, tc_int most, tc_int *sum,
                             tc_int *longest) {
  int32_t n = tc_op_count(a, arg);
  *sum = *longest = tc_int_const(a, 0);
  if (tc_int_require_eq(a, tc_int_const(a, n), batch)) return tc_op_fail(a, "%s must be of size batch_size", name);
  for (int32_t k = 0; k < n; k++) {
    tc_int v = tc_op_sym_at(a, arg, k);
    int64_t value = tc_op_int_at(a, arg, k, 0), bound = tc_int_hint(a, most ? most : v, 0);
    if (tc_int_lt(a, v, tc_int_const(a, 0)) == 1)
      return tc_op_fail(a, "Expected %s to have value at least 0, but got value %lld", name, (long long)value);
    if (most && tc_int_lt(a, most, v) == 1)
      return tc_op_fail(a, "Expected %s to have value at most %lld, but got value %lld", name, (long long)bound,
                        (long long)value);
    *sum = tc_int_add(a, *sum, v);
    *longest = tc_int_max(a, *longest, v);
  }
  return TC_STATUS_OK;
}
static int32_t listed_expand(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, LOG_PROBS), *t = tc_op_tensor(a, TARGETS);
  tc_int sum, longest;
  if (x->rank != 3)
    return tc_op_fail(a, "the probabilities must have 3 dimensions: %s", tc_op_shape_text(a, LOG_PROBS));
  if (t->rank != 1 && t->rank != 2)
    return tc_op_fail(a, "the targets must have 1 or 2 dimensions: %s", tc_op_shape_text(a, TARGETS));
  if (check_lengths(a, INPUT_LENGTHS, "input_lengths", x->sizes[1], x->sizes[0], &sum, &longest) ||
      check_lengths(a, TARGET_LENGTHS, "target_lengths", x->sizes[1], NULL, &sum, &longest))
    return TC_STATUS_INVALID_ARGUMENT;
  if (t->rank == 1 && tc_int_require_eq(a, t->sizes[0], sum))
    return tc_op_fail(a,
                      "Expected tensor to have size %lld at dimension 0, but got size %lld for argument #2 'targets'",
                      (long long)tc_int_hint(a, sum, 0), (long long)tc_int_hint(a, t->sizes[0], 0));
  if (t->rank == 2 && tc_int_lt(a, t->sizes[1], longest) == 1)
    return tc_op_fail(a,
                      "Expected tensor to have size at least %lld at dimension 1, but got size %lld for argument #2 "
                      "'targets'",
                      (long long)tc_int_hint(a, longest, 0), (long long)tc_int_hint(a, t->sizes[1], 0));
  tc_gv lengths[2] = {listed(a, INPUT_LENGTHS), listed(a, TARGET_LENGTHS)}, out[2];
  tc_ex_begin(a, "aten::_ctc_alpha");
  tc_ex_push_arg(a, LOG_PROBS);
  tc_ex_push_arg(a, TARGETS);
  tc_ex_push(a, lengths[0]);
  tc_ex_push(a, lengths[1]);
  tc_ex_push_int(a, tc_int_add(a, tc_int_mul(a, longest, tc_int_const(a, 2)), tc_int_const(a, 1)));
  tc_ex_push_arg(a, BLANK);
  tc_ex_push_arg(a, ZERO_INFINITY);
  tc_ex_make(a, 2, out);
  for (int32_t i = 0; i < 2; i++) tc_ex_result(a, i, out[i]);
  return TC_STATUS_OK;
}

// Where lengths are data, so is the number of states. What the parts refuse is refused here.
static int32_t data_meta(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, LOG_PROBS), *t = tc_op_tensor(a, TARGETS);
  if (x->dtype != TC_F32 && x->dtype != TC_F64)
    return tc_op_fail(a, "\"ctc_loss\" not implemented for %s", tc_dtype_torch_name(x->dtype));
  if (x->rank != 3)
    return tc_op_fail(a, "the probabilities must have 3 dimensions: %s", tc_op_shape_text(a, LOG_PROBS));
  if (t->rank != 1 && (t->rank != 2 || tc_int_require_eq(a, t->sizes[0], x->sizes[1])))
    return tc_op_fail(a, "the targets must have as many rows as there are sequences: %s", tc_op_shape_text(a, TARGETS));
  for (int32_t k = INPUT_LENGTHS; k <= TARGET_LENGTHS; k++) {
    const tc_tensor_type *l = tc_op_tensor(a, k);
    if (tc_dtype_is_float(l->dtype) || tc_dtype_is_complex(l->dtype))
      return tc_op_fail(a, "the lengths must be integral: %s", tc_op_shape_text(a, k));
    if (tc_int_require_eq(a, tc_op_numel(a, l), x->sizes[1]))
      return tc_op_fail(a, "the lengths must be of size batch_size: %s", tc_op_shape_text(a, k));
  }
  int64_t blank = tc_op_int(a, BLANK, 0);
  if (blank < 0 || tc_int_lt(a, tc_int_const(a, blank), x->sizes[2]) == 0)
    return tc_op_fail(a, "blank must be in label range");
  tc_int sizes[3] = {x->sizes[1], x->sizes[0], tc_op_unbacked(a, 1, INT64_MAX)};
  return tc_op_set_result(a, 0, x->dtype, 1, sizes, NULL) || tc_op_set_result(a, 1, x->dtype, 3, sizes, NULL);
}

// ---- Texts ----
// The states of each sequence [n, k], and what the steps give them: x [n, steps, k]. Behind a target's end are blanks.
#define STATES                                                                                                 \
  "let c = if(log_probs.rank == 3, log_probs.size(2), fail(\"the probabilities must have 3 dimensions\"));"    \
  "let n = log_probs.size(1); let steps = log_probs.size(0);"                                                  \
  "let in_range = if(blank >= 0 && blank < c, true, fail(\"blank must be in label range\"));"                  \
  "let il = reshape(to(input_lengths, i64), [-1]); let tl = reshape(to(target_lengths, i64), [-1]);"           \
  "let fits = if(il.size(0) == n && tl.size(0) == n, true, fail(\"the lengths must be of size batch_size\"));" \
  "let t = to(targets, i64); let place = unsqueeze(arange(k), 0); let end = mul(unsqueeze(tl, 1), 2);"         \
  "let labelled = logical_and(lt(place, end), eq(remainder(place, 2), 1));"                                    \
  "let first = if(t.rank == 1, unsqueeze(sub(cumsum(tl, 0), tl), 1), 0);"                                      \
  "let from = where(labelled, add(floor_divide(place, 2), first), 0);"                                         \
  "let states = if(t.rank == 2 && t.size(0) != n, fail(\"the targets must have as many rows as there are "     \
  "sequences\"), if(t.numel == 0, full([n, k], blank, dtype=i64), where(labelled, if(t.rank == 1, index(t, "   \
  "[from]), gather(t, 1, from)), blank)));"                                                                    \
  "let x = gather(transpose(log_probs, 0, 1), 2, expand(unsqueeze(states, 1), [n, steps, k]));"
// A path may leave a blank out, but not between equal labels.
#define JUMPS(states) "ne(" states ", slice(constant_pad_nd(" states ", [2, 0], blank), 1, 0, k))"

// The last step's two last states; a sequence of no steps has a path if its target has no labels.
#define ALPHA                                                                                                   \
  STATES "let alpha = _ctc_paths(x, " JUMPS(                                                                    \
      "states") ");"                                                                                            \
                "let last = reshape(where(gt(il, 0), sub(il, 1), il), [n, 1, 1]);"                              \
                "let row = if(steps == 0, full([n, k], -inf, dtype=log_probs.dtype), squeeze(gather(alpha, 1, " \
                "expand(last, [n, 1, k])), 1));"                                                                \
                "let some = gt(tl, 0); let a = squeeze(gather(row, 1, end), 1);"                                \
                "let b = squeeze(gather(row, 1, where(unsqueeze(some, 1), sub(end, 1), 0)), 1);"                \
                "neg(where(gt(il, 0), where(some, logaddexp(a, b), a), where(some, -inf, 0))), alpha"

// exp(x) - (the share of all paths that go through the label at this step).
#define TURNED(v)                                                              \
  "gather(gather(" v ", 1, expand(unsqueeze(back_steps, 2), [n, steps, k])), " \
  "2, expand(unsqueeze(back_states, 1), [n, steps, k]))"
#define GRADIENT                                                                                                       \
  STATES "let step = unsqueeze(arange(steps), 0);"                                                                     \
         "let back_steps = remainder(sub(unsqueeze(il, 1), add(step, 1)), max(steps, 1));"                             \
         "let back_states = remainder(sub(end, place), k);"                                                            \
         "let turned = gather(states, 1, back_states); let y = _ctc_paths(" TURNED("x") ", " JUMPS(                    \
             "turned") ");"                                                                                            \
                       "let beta = " TURNED(                                                                           \
                           "y") "; let within = lt(step, unsqueeze(il, 1));"                                           \
                                "let inside = logical_and(unsqueeze(within, 2), unsqueeze(le(unsqueeze(arange(k), "    \
                                "0), end), 1));"                                                                       \
                                "let loss = reshape(neg_log_likelihood, [n, 1, 1]); let never = eq(loss, inf);"        \
                                "let share = where(inside, exp(add(sub(add(log_alpha, beta), x), loss)), 0);"          \
                                "let shares = scatter_add(zeros([n, steps, c], dtype=share.dtype), 2, "                \
                                "expand(unsqueeze(states, 1), [n, "                                                    \
                                "steps, k]), share);"                                                                  \
                                "let p = transpose(log_probs, 0, 1); let none_left = logical_or(eq(p, -inf), never);"  \
                                "let g = mul(sub(exp(p), where(none_left, nan, shares)), reshape(grad, [n, 1, 1]));"   \
                                "let keep = if(zero_infinity, logical_and(unsqueeze(within, 2), logical_not(never)), " \
                                "unsqueeze(within, 2));"                                                               \
                                "contiguous(transpose(where(keep, g, 0), 0, 1))"

#define BATCHED "if(log_probs.rank == 3, log_probs, unsqueeze(log_probs, 1))"
// `loss` of each sequence; `lengths` of targets.
#define REDUCED(lengths)                                                                                         \
  "let r = if(zero_infinity, where(eq(loss, inf), 0, loss), loss);"                                              \
  "if(reduction == 1, mean(div(r, clamp_min(" lengths ", 1))), if(reduction == 2, sum(r), if(log_probs.rank == " \
  "3, r, squeeze(r, 0))))"
#define INTEGRAL                                                                       \
  "let whole = if(is_float(input_lengths), fail(\"input_lengths must be integral\"), " \
  "if(is_float(target_lengths), fail(\"target_lengths must be integral\"), "           \
  "if(is_float(targets), fail(\"targets must be integral\"), true)));"
#define LENGTHS_ARE(type) "Tensor log_probs, Tensor targets, " type " input_lengths, " type " target_lengths, "
#define AFTER "Tensor neg_log_likelihood, Tensor log_alpha, "
#define ARGS "log_probs, targets, input_lengths, target_lengths, "
#define TEXT(s, d) {.schema = s, .decompose = d}

static const tc_op_def rows[] = {
    {.schema = "_ctc_paths(Tensor self, Tensor jumps) -> Tensor",
     .meta = paths_meta,
     .lower = paths_lower,
     .ref = paths_ref,
     .flops = "10 * numel"},
    {.schema = "_int_list(SymInt[] values) -> Tensor", .meta = list_meta, .lower = list_lower, .ref = list_ref},
    // Sequences of at most k // 2 labels.
    {.schema = "_ctc_alpha(" LENGTHS_ARE("Tensor") "SymInt k, int blank, bool zero_infinity) -> (Tensor, Tensor)",
     .decompose = INTEGRAL ALPHA,
     .grad = "log_probs: _ctc_gradient(grad, " ARGS "result, result1, k, blank, zero_infinity)"},
    TEXT("_ctc_gradient(Tensor grad, " LENGTHS_ARE("Tensor") AFTER "SymInt k, int blank, bool zero_infinity) -> "
                                                                   "Tensor",
         GRADIENT),
    {.schema = "_ctc_loss(" LENGTHS_ARE("int[]") "int blank=0, bool zero_infinity=False) -> (Tensor, Tensor)",
     .expand = listed_expand},
    {.schema = "_ctc_loss.Tensor(" LENGTHS_ARE("Tensor") "int blank=0, bool zero_infinity=False) -> (Tensor, Tensor)",
     .traits = TC_OP_DATA_DEPENDENT,
     .meta = data_meta,
     .decompose = INTEGRAL
     "_ctc_alpha(" ARGS
     "item(add(mul(amax(cat([reshape(to(target_lengths, i64), [-1]), full([1], 0, dtype=i64)]), [0]), 2), 1)), blank, "
     "zero_infinity)"},
    TEXT("_ctc_loss_backward(Tensor grad, " LENGTHS_ARE("int[]") AFTER "int blank, bool zero_infinity=False) -> Tensor",
         "_ctc_gradient(grad, log_probs, targets, _int_list(input_lengths), _int_list(target_lengths), "
         "neg_log_likelihood, log_alpha, log_alpha.size(2), blank, zero_infinity)"),
    TEXT("_ctc_loss_backward.Tensor(Tensor grad, " LENGTHS_ARE("Tensor") AFTER
         "int blank, bool zero_infinity=False) -> Tensor",
         "_ctc_gradient(grad, " ARGS "neg_log_likelihood, log_alpha, log_alpha.size(2), blank, zero_infinity)"),
    TEXT("ctc_loss.IntList(" LENGTHS_ARE("int[]") "int blank=0, int reduction=1, bool zero_infinity=False) -> Tensor",
         "let loss, alpha = _ctc_loss(" BATCHED
         ", targets, input_lengths, target_lengths, blank, zero_infinity);" REDUCED("_int_list(target_lengths)")),
    // The longest target is not known; none has more labels than there is room for.
    TEXT("ctc_loss.Tensor(" LENGTHS_ARE("Tensor") "int blank=0, int reduction=1, bool zero_infinity=False) -> Tensor",
         "let loss, alpha = _ctc_alpha(" BATCHED
         ", targets, input_lengths, target_lengths, 2 * targets.size(-1) + 1, blank, zero_infinity);"
         "let tl = reshape(target_lengths, [-1]);" REDUCED("tl")),
};
TC_OP_FAMILY(ctc);
