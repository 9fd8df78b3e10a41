// Losses, as texts over other ops. Definitions: PyTorch's documentation of torch.nn.functional.
//
// reduction: 0 none, 1 mean, 2 sum.
#include "core/ops/ops.h"

#define TEXT(s, d) {.schema = s, .decompose = d}
#define CTEXT(s, d) {.schema = s, .traits = TC_OP_COMPLEX, .decompose = d}
// Differences of integers are no losses for PyTorch.
#define FLOATS "let of = if(is_int(self) && is_int(target), fail(\"not implemented for integers\"), self); "
// `l` holds the loss of each element.
#define REDUCED "if(reduction == 1, mean(l), if(reduction == 2, sum(l), l))"
// A vector of one number per class, times x, whose classes are dimension c.
#define PER_CLASS(x) "movedim(mul(movedim(" x ", c, -1), weight), -1, c)"
// The class dimension, the elements that count, and targets that can be indexed with.
#define CLASSES                                                                                                 \
  "let c = if(self.rank == 1, 0, 1); let counts = ne(target, ignore_index);"                                    \
  "let fits = if(self.rank < 2, target.rank < 2 && target.numel == 1, if(target.rank != self.rank - 1, false, " \
  "if(self.rank == 2, self.size(0) == "                                                                         \
  "target.size(0), self.size(0) == target.size(0) && self.size(2) == target.size(1) && self.size(-1) == "       \
  "target.size(-1)))); let t = to(if(fits, where(counts, target, 0), "                                          \
  "fail(\"the target does not have the input's size without the classes\")), i64);"
#define PICKED(x) "squeeze(gather(" x ", c, unsqueeze(t, c)), c)"

// Of a text over x (log-probabilities), the negative log-likelihood of classes t.
#define NLL(x)                                                                                                        \
  "let w = if(is_none(weight), to(counts, self.dtype), where(counts, index(weight, [t]), 0)); let l = where(counts, " \
  "neg(mul(" PICKED(x) ", w)), 0);"
#define NLL_REDUCED "if(reduction == 1, div(sum(l), sum(w)), if(reduction == 2, sum(l), l))"

// Classes as indices: the loss of the class, and of all classes by label_smoothing. As probabilities: of each by its
// own.
#define CROSS_ENTROPY_OF_INDICES                                                                               \
  CLASSES "let x = log_softmax(self, c);" NLL(                                                                 \
      "x") "let hard = " NLL_REDUCED ";"                                                                       \
           "let all = where(counts, neg(sum(if(is_none(weight), x, " PER_CLASS(                                \
               "x") "), [c])), 0);"                                                                            \
                    "let soft = if(reduction == 1, div(sum(all), sum(w)), if(reduction == 2, sum(all), all));" \
                    "if(label_smoothing == 0.0, hard, add(mul(hard, 1.0 - label_smoothing), mul(soft, "        \
                    "label_smoothing / self.size(c))))"
#define CROSS_ENTROPY_OF_SHARES                                                                               \
  "let c = if(self.rank == 1, 0, 1);"                                                                         \
  "let share = if(label_smoothing == 0.0, target, add(mul(target, 1.0 - label_smoothing), label_smoothing / " \
  "self.size(c))); let x = mul(log_softmax(self, c), share);"                                                 \
  "let l = neg(sum(if(is_none(weight), x, " PER_CLASS(                                                        \
      "x") "), [c]));"                                                                                        \
           "if(reduction == 1, div(sum(l), float(self.numel // self.size(c))), if(reduction == 2, sum(l), l))"

static const tc_op_def rows[] = {
    TEXT("mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
         FLOATS "let d = sub(of, target); let l = mul(d, d); " REDUCED),
    CTEXT("l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", "let l = abs(sub(self, target)); " REDUCED),
    TEXT("smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.) -> Tensor", FLOATS
         "let d = abs(sub(of, target)); let l = if(beta == 0.0, d, where(lt(d, beta), mul(mul(d, d), 0.5 / beta), "
         "sub(d, 0.5 * beta))); " REDUCED),
    TEXT("huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.) -> Tensor", FLOATS
         "let d = abs(sub(of, target)); let e = where(le(d, delta), mul(mul(d, d), 0.5), mul(sub(d, 0.5 * delta), "
         "delta)); let l = if(reduction == 0 && e.sizes == self.sizes, copy(zeros_like(self), e), e); " REDUCED),
    TEXT("kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor",
         "let l = if(log_target, mul(exp(target), sub(target, self)), sub(xlogy(target, target), mul(target, "
         "self))); " REDUCED),
    TEXT("binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor",
         "let x = to(self, wide(self.dtype)); let t = to(target, wide(self.dtype));"
         "let u = sub(mul(sub(t, 1), clamp(log1p(neg(x)), -100)), mul(t, clamp(log(x), -100)));"
         "let l = copy(self, if(is_none(weight), u, mul(u, weight))); " REDUCED),
    TEXT("binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, "
         "int reduction=1) -> Tensor",
         "let s = log_sigmoid(self); let u = sub(mul(rsub(target, 1), self), if(is_none(pos_weight), s, "
         "mul(add(mul(sub(pos_weight, 1), target), 1), s))); let l = if(is_none(weight), u, mul(u, weight)); " REDUCED),
    CTEXT(
        "poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) -> Tensor",
        "let u = if(log_input, sub(exp(input), mul(target, input)), sub(input, mul(target, log(add(input, eps)))));"
        "let l = if(full, add(u, where(le(target, 1), 0, add(sub(mul(target, log(target)), target), "
        "mul(log(mul(target, 6.283185307179586476925)), 0.5)))), u); " REDUCED),
    CTEXT("soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
          "let l = log1p(exp(neg(mul(self, target)))); if(reduction == 0, l, if(reduction == 1, mean(l), sum(l)))"),
    TEXT("hinge_embedding_loss(Tensor self, Tensor target, float margin=1., int reduction=1) -> Tensor",
         "let d = self.dtype; let w = wide(d); let x = to(self, w); let m = to(full([], margin), w); let l = "
         "to(add(where(ne(target, 1), clamp_min(sub(m, x), 0), 0), where(ne(target, -1), x, 0)), d); " REDUCED),
    // The other classes' distances from the margin, without the right class.
    TEXT("multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int "
         "reduction=1) -> Tensor",
         "let n = if(self.rank == 0, 1, self.size(-1)); let x = reshape(self, [-1, n]); let t = reshape(target, [-1, "
         "1]);"
         "let z = clamp_min(add(sub(x, gather(x, 1, t)), margin), 0); let q = if(float(p) == 1.0, z, mul(z, z));"
         "let u = if(is_none(weight), q, mul(q, unsqueeze(index_select(weight, 0, reshape(t, [-1])), 1)));"
         "let r = div(sum(where(eq(t, arange(n)), 0, u), [1]), n); let l = if(self.rank < 2, reshape(r, []), "
         "r); " REDUCED),
    TEXT("margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1) -> Tensor",
         "let l = clamp_min(add(mul(neg(target), sub(input1, input2)), margin), 0); " REDUCED),
    TEXT("cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1) -> "
         "Tensor",
         "let d = if(target.rank == 1, 1, 0); let p = sum(mul(input1, input2), [d]); let q = add(sum(mul(input1, "
         "input1), [d]), 0.000000000001); let r = add(sum(mul(input2, input2), [d]), 0.000000000001);"
         "let s = div(p, sqrt(mul(q, r)));"
         "let l = add(where(eq(target, 1), rsub(s, 1), 0), where(eq(target, -1), clamp_min(sub(s, margin), 0), "
         "0)); " REDUCED),
    CTEXT(
        "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1., float p=2., float "
        "eps=1e-06, bool swap=False, int reduction=1) -> Tensor",
        "let near = pairwise_distance(anchor, positive, p, eps); let far = pairwise_distance(anchor, negative, p, eps);"
        "let other = if(swap, minimum(far, pairwise_distance(positive, negative, p, eps)), far);"
        "let l = clamp_min(sub(add(near, margin), other), 0); " REDUCED),
    TEXT("nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> "
         "Tensor",
         CLASSES NLL("self") NLL_REDUCED),
    TEXT("nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> "
         "Tensor",
         CLASSES NLL("self") NLL_REDUCED),
    TEXT("nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor "
         "output, Tensor total_weight)",
         CLASSES NLL("self") NLL_REDUCED ", if(reduction == 0, zeros([], dtype=self.dtype), sum(w))"),
    TEXT("cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt "
         "ignore_index=-100, float label_smoothing=0.) -> Tensor",
         "if(is_float(target), _cross_entropy_of_shares(self, target, weight, reduction, label_smoothing), "
         "_cross_entropy_of_indices(self, target, weight, reduction, ignore_index, label_smoothing))"),
    TEXT("_cross_entropy_of_indices(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index, "
         "float "
         "label_smoothing) -> Tensor",
         CROSS_ENTROPY_OF_INDICES),
    TEXT(
        "_cross_entropy_of_shares(Tensor self, Tensor target, Tensor? weight, int reduction, float label_smoothing) -> "
        "Tensor",
        CROSS_ENTROPY_OF_SHARES),
};
TC_OP_FAMILY(loss);
