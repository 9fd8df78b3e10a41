// autocast: products in 16 bits and what loses too much there in f32, as torch.autocast decides op by op.
//
// The nodes are walked in order. Three lists of ops say what happens to their operands of f32 or less (f64, complex
// numbers and integers stay): those that are done in the lower type, those that are done in f32, and those that are
// done in f32 if any operand is. All others take their operands as they come. A node whose operands have changed is
// made again, so that its meta function says what its results are. What cannot be made again - control flow, requests
// for gradients, sizes that come from data, ops that refuse the type - gets its operands as they were. Writes to the
// caller's memory and what regions give keep their types; the program's own results do not, as in PyTorch.
//
// Source of the lists: PyTorch's autocast op reference (docs: torch.amp, "CPU ops" and "CUDA ops").
#include "core/passes/autocast.h"

#include "core/passes/passes.h"
#include "core/passes/remake.h"

typedef enum policy { AS_THEY_ARE, LOWER, WIDE, WIDEST } policy;

typedef struct autocast {
  tc_remake remake; // first
  tc_autocast_options o;
  bool is_region;
  bool writes;               // casts are not shared where memory changes in between
  tc_map *lowered, *widened; // value → its cast
  policy policy;             // for the node that is made again
  tc_dtype to;
} autocast;

// ---- the lists: names without overloads ----
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

static policy policy_of(const autocast *x, const tc_node *n) {
  if (!tc_sv_is(n->op->schema.ns, "aten") || tc_node_writes(n)) return AS_THEY_ARE;
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    if (lists[i].where != EVERYWHERE && (lists[i].where == ACCELERATORS) != x->o.accelerator) continue;
    for (int32_t k = 0; k < lists[i].n; k++)
      if (tc_sv_is(n->op->schema.name, lists[i].names[k])) return lists[i].policy;
  }
  return AS_THEY_ARE;
}

// ---- casts ----
static bool is_tensor(const tc_value *v) { return v && v->kind == TC_VALUE_TENSOR; }
static bool is_eligible(const tc_value *v) {
  return is_tensor(v) && (v->type.dtype == TC_F32 || v->type.dtype == TC_F16 || v->type.dtype == TC_BF16);
}

static tc_status cast(autocast *x, tc_node *before, tc_dtype to, tc_value **v) {
  tc_map *shared = to == x->o.to ? x->lowered : to == TC_F32 ? x->widened : NULL;
  if ((*v)->type.dtype == to) return TC_OK;
  const tc_map_entry *e = shared && !x->writes ? tc_map_find_ptr(shared, *v) : NULL;
  tc_arg args[] = {tc_arg_tensor(*v), tc_arg_dtype(to)}, made;
  tc_build b = {.graph = x->remake.graph, .before = before, .source = before ? before->source : TC_SV("")};
  if (!e) TC_TRY(tc_build_call(&b, TC_SV("aten::to.dtype"), 2, args, NULL, &made));
  tc_value *result = e ? e->value.ptr : made.value;
  if (shared && !e) tc_map_put_ptr(shared, *v, NULL)->value.ptr = result;
  *v = result;
  return TC_OK;
}

static tc_status read_cast(tc_remake *r, tc_node *n, tc_value **v) {
  autocast *x = (autocast *)(void *)r;
  (void)n;
  return x->policy != AS_THEY_ARE && is_eligible(*v) ? cast(x, n, x->to, v) : TC_OK;
}

static tc_status cast_back(tc_remake *r, tc_node *before, const tc_tensor_type *was, tc_value **v) {
  return cast((autocast *)(void *)r, before, was->dtype, v);
}

static void see_wide(void *self, tc_value **v) {
  bool *any = self;
  const tc_value *now = *v ? tc_value_resolve(*v) : NULL;
  *any |= is_tensor(now) && now->type.dtype == TC_F32;
}

static tc_dtype dtype_for(const autocast *x, tc_node *n, policy p) {
  bool any = false;
  if (p == WIDEST) tc_node_each_value(n, see_wide, &any);
  return p == LOWER || (p == WIDEST && !any) ? x->o.to : TC_F32;
}

// ---- nodes ----
static tc_status autocast_region(const autocast *x, tc_graph *region);

static tc_status autocast_node(autocast *x, tc_node *n) {
  for (int32_t i = 0; i < n->n_args; i++)
    if (n->args[i].kind == TC_AK_GRAPH && n->args[i].graph) TC_TRY(autocast_region(x, n->args[i].graph));
  x->policy = policy_of(x, n), x->to = dtype_for(x, n, x->policy);
  return tc_remake_node(&x->remake, n);
}

static bool keeps_type(const tc_remake *r, const tc_graph_output *out) {
  const autocast *x = (const autocast *)(const void *)r;
  return x->is_region || (out->kind != TC_OUT_USER && out->kind != TC_OUT_LOSS);
}

static tc_status autocast_graph(tc_graph *g, const tc_autocast_options *o, bool is_region) {
  tc_arena *arena = g->module->arena;
  autocast x = {.remake = {.read = read_cast, .restore = cast_back}, .o = *o, .is_region = is_region};
  tc_remake_begin(&x.remake, g);
  x.writes = tc_graph_writes(g), x.lowered = tc_map_create(arena), x.widened = tc_map_create(arena);
  for (tc_node *n = g->first; n; n = n->next)
    if (!n->dead) TC_TRY(autocast_node(&x, n), "while casting for " TC_SV_FMT, TC_SV_ARG(n->op->full_name));
  return tc_remake_end(&x.remake, keeps_type);
}

static tc_status autocast_region(const autocast *x, tc_graph *region) { return autocast_graph(region, &x->o, true); }

tc_status tc_autocast(tc_graph *g, const tc_autocast_options *o) { return autocast_graph(g, o, false); }
