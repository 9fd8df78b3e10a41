// See mixed.h.
//
// Source of the lists: PyTorch's autocast op reference (docs: torch.amp, "CPU ops" and "CUDA ops").
#include "core/ops/mixed.h"

#include "core/ir/op.h"

typedef enum policy { AS_THEY_ARE, LOWER, WIDE, WIDEST } policy;

// Names without overloads.
static const char *const lower_everywhere[] = {
    "conv1d",           "conv2d",           "conv3d", "convolution", "conv_tbc", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "bmm",    "mm",          "baddbmm",  "addmm",
    "addbmm",           "linear",           "matmul", "einsum",      "prelu",    "scaled_dot_product_attention"};
static const char *const lower_on_accelerators[] = {"addmv",       "addr", "mv", "linalg_vecdot", "linalg_multi_dot",
                                                    "chain_matmul"};
static const char *const wide_everywhere[] = {"prod",
                                              "cdist",
                                              "mse_loss",
                                              "nll_loss",
                                              "nll_loss2d",
                                              "nll_loss_nd",
                                              "cross_entropy_loss",
                                              "l1_loss",
                                              "smooth_l1_loss",
                                              "huber_loss",
                                              "kl_div",
                                              "poisson_nll_loss",
                                              "hinge_embedding_loss",
                                              "cosine_embedding_loss",
                                              "margin_ranking_loss",
                                              "soft_margin_loss",
                                              "triplet_margin_loss",
                                              "multi_margin_loss",
                                              "multilabel_margin_loss",
                                              "binary_cross_entropy_with_logits"};
static const char *const wide_on_processors[] = {"avg_pool3d",
                                                 "binary_cross_entropy",
                                                 "grid_sampler",
                                                 "grid_sampler_2d",
                                                 "grid_sampler_3d",
                                                 "polar",
                                                 "quantile",
                                                 "nanquantile",
                                                 "stft",
                                                 "trace",
                                                 "view_as_complex",
                                                 "cholesky",
                                                 "cholesky_inverse",
                                                 "cholesky_solve",
                                                 "inverse",
                                                 "lu_solve",
                                                 "orgqr",
                                                 "ormqr",
                                                 "pinverse",
                                                 "max_pool3d",
                                                 "max_unpool2d",
                                                 "max_unpool3d",
                                                 "adaptive_avg_pool3d",
                                                 "reflection_pad1d",
                                                 "reflection_pad2d",
                                                 "replication_pad1d",
                                                 "replication_pad2d",
                                                 "replication_pad3d",
                                                 "ctc_loss",
                                                 "fft_fft",
                                                 "fft_ifft",
                                                 "fft_fft2",
                                                 "fft_ifft2",
                                                 "fft_fftn",
                                                 "fft_ifftn",
                                                 "fft_rfft",
                                                 "fft_irfft",
                                                 "fft_rfft2",
                                                 "fft_irfft2",
                                                 "fft_rfftn",
                                                 "fft_irfftn",
                                                 "fft_hfft",
                                                 "fft_ihfft",
                                                 "linalg_cond",
                                                 "linalg_matrix_rank",
                                                 "linalg_solve",
                                                 "linalg_cholesky",
                                                 "linalg_svdvals",
                                                 "linalg_eigvals",
                                                 "linalg_eigvalsh",
                                                 "linalg_inv",
                                                 "linalg_householder_product",
                                                 "linalg_tensorinv",
                                                 "linalg_tensorsolve",
                                                 "geqrf",
                                                 "_lu_with_info",
                                                 "qr",
                                                 "svd",
                                                 "triangular_solve",
                                                 "fractional_max_pool2d",
                                                 "fractional_max_pool3d",
                                                 "adaptive_max_pool3d",
                                                 "multilabel_margin_loss_forward",
                                                 "linalg_qr",
                                                 "linalg_cholesky_ex",
                                                 "linalg_svd",
                                                 "linalg_eig",
                                                 "linalg_eigh",
                                                 "linalg_lstsq",
                                                 "linalg_inv_ex"};
static const char *const wide_on_accelerators[] = {"acos",
                                                   "asin",
                                                   "cosh",
                                                   "erfinv",
                                                   "exp",
                                                   "expm1",
                                                   "log",
                                                   "log10",
                                                   "log2",
                                                   "log1p",
                                                   "reciprocal",
                                                   "rsqrt",
                                                   "sinh",
                                                   "tan",
                                                   "pow",
                                                   "softplus",
                                                   "layer_norm",
                                                   "native_layer_norm",
                                                   "group_norm",
                                                   "cosine_similarity",
                                                   "dist",
                                                   "pdist",
                                                   "renorm",
                                                   "logsumexp",
                                                   "norm",
                                                   "frobenius_norm",
                                                   "nuclear_norm",
                                                   "softmax",
                                                   "log_softmax",
                                                   "cumprod",
                                                   "cumsum",
                                                   "linalg_vector_norm",
                                                   "linalg_matrix_norm",
                                                   "sum",
                                                   "upsample_nearest1d",
                                                   "_upsample_nearest_exact1d",
                                                   "upsample_nearest2d",
                                                   "_upsample_nearest_exact2d",
                                                   "upsample_nearest3d",
                                                   "_upsample_nearest_exact3d",
                                                   "upsample_linear1d",
                                                   "upsample_bilinear2d",
                                                   "_upsample_bilinear2d_aa",
                                                   "upsample_trilinear3d",
                                                   "upsample_bicubic2d",
                                                   "_upsample_bicubic2d_aa"};
static const char *const widest_everywhere[] = {"cat", "stack", "index_copy"};
static const char *const widest_on_accelerators[] = {"addcdiv",   "addcmul",   "atan2",      "bilinear",
                                                     "cross",     "dot",       "vdot",       "grid_sampler",
                                                     "index_put", "tensordot", "scatter_add"};

enum { EVERYWHERE, PROCESSORS, ACCELERATORS };
#define LIST(names) (names), (int32_t)(sizeof(names) / sizeof *(names))
static const struct {
  policy policy;
  int32_t where;
  const char *const *names;
  int32_t n;
} lists[] = {{LOWER, EVERYWHERE, LIST(lower_everywhere)},         {LOWER, ACCELERATORS, LIST(lower_on_accelerators)},
             {WIDE, EVERYWHERE, LIST(wide_everywhere)},           {WIDE, PROCESSORS, LIST(wide_on_processors)},
             {WIDE, ACCELERATORS, LIST(wide_on_accelerators)},    {WIDEST, EVERYWHERE, LIST(widest_everywhere)},
             {WIDEST, ACCELERATORS, LIST(widest_on_accelerators)}};

static policy policy_of(const tc_autocast_options *o, const tc_op *op) {
  if (!tc_sv_is(op->schema.ns, "aten") || tc_op_written_argument(op, 0) >= 0) return AS_THEY_ARE;
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    if (lists[i].where != EVERYWHERE && (lists[i].where == ACCELERATORS) != o->accelerator) continue;
    for (int32_t k = 0; k < lists[i].n; k++)
      if (tc_sv_is(op->schema.name, lists[i].names[k])) return lists[i].policy;
  }
  return AS_THEY_ARE;
}

bool tc_autocast_concerns(const tc_value *v) {
  return v && v->kind == TC_VALUE_TENSOR &&
         (v->type.dtype == TC_F32 || v->type.dtype == TC_F16 || v->type.dtype == TC_BF16);
}

static bool is_wide(const tc_value *v) {
  const tc_value *now = v ? tc_value_resolve((tc_value *)v) : NULL;
  return now && now->kind == TC_VALUE_TENSOR && now->type.dtype == TC_F32;
}

static bool any_wide(int32_t n, const tc_arg *args) {
  for (int32_t i = 0; i < n; i++) {
    if (args[i].kind == TC_AK_TENSOR && is_wide(args[i].value)) return true;
    for (int32_t k = 0; args[i].kind == TC_AK_TENSORS && k < args[i].n; k++)
      if (is_wide(args[i].values[k])) return true;
  }
  return false;
}

tc_dtype tc_autocast_dtype(const tc_autocast_options *o, const tc_op *op, int32_t n, const tc_arg *args) {
  switch (policy_of(o, op)) {
  case LOWER: return o->to;
  case WIDE: return TC_F32;
  case WIDEST: return any_wide(n, args) ? TC_F32 : o->to;
  default: return TC_DTYPE_NONE;
  }
}
