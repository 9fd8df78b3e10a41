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

#include "core/ir/control.h"
#include "core/passes/passes.h"

typedef enum policy { AS_THEY_ARE, LOWER, WIDE, WIDEST } policy;

typedef struct autocast {
  tc_graph *g;
  tc_autocast_options o;
  bool writes;               // casts are not shared where memory changes in between
  tc_map *lowered, *widened; // value → its cast
  tc_map *was;               // value whose type has changed → the dtype it had
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
  tc_build b = {.graph = x->g, .before = before, .source = before ? before->source : TC_SV("")};
  if (!e) TC_TRY(tc_build_call(&b, TC_SV("aten::to.dtype"), 2, args, NULL, &made));
  tc_value *result = e ? e->value.ptr : made.value;
  if (shared && !e) tc_map_put_ptr(shared, *v, NULL)->value.ptr = result;
  *v = result;
  return TC_OK;
}

// What is done with each tensor that a node reads.
typedef struct rewrite {
  autocast *x;
  tc_node *n;
  policy policy;
  tc_dtype to;
  bool back;    // to the type it had
  bool changed; // is any operand another one than when the node was made, or of another type?
} rewrite;

static tc_status rewrite_value(rewrite *r, tc_value **v) {
  if (!is_tensor(*v)) return TC_OK;
  const tc_map_entry *was = tc_map_find_ptr(r->x->was, *v);
  if (r->back) return was ? cast(r->x, r->n, (tc_dtype)was->value.num, v) : TC_OK;
  const tc_value *old = *v;
  if (r->policy != AS_THEY_ARE && is_eligible(*v)) TC_TRY(cast(r->x, r->n, r->to, v));
  r->changed = r->changed || was || *v != old;
  return TC_OK;
}

// The arguments of the node, cast; lists are copied.
static tc_status rewrite_args(rewrite *r, tc_arg *args) {
  tc_arena *arena = r->x->g->module->arena;
  for (int32_t i = 0; i < r->n->n_args; i++) {
    tc_arg *a = &args[i];
    *a = r->n->args[i];
    if (a->kind == TC_AK_TENSOR) TC_TRY(rewrite_value(r, &a->value));
    if (a->kind != TC_AK_TENSORS) continue;
    a->values = tc_arena_copy(arena, a->values, sizeof(*a->values) * (size_t)a->n);
    for (int32_t k = 0; k < a->n; k++) TC_TRY(rewrite_value(r, &a->values[k]));
  }
  return TC_OK;
}

static void resolve_place(void *self, tc_value **v) {
  (void)self;
  *v = tc_value_resolve(*v);
}

static void see_wide(void *self, tc_value **v) {
  bool *any = self;
  *any |= is_tensor(*v) && (*v)->type.dtype == TC_F32;
}

static tc_dtype dtype_for(const autocast *x, tc_node *n, policy p) {
  bool any = false;
  if (p == WIDEST) tc_node_each_value(n, see_wide, &any);
  return p == LOWER || (p == WIDEST && !any) ? x->o.to : TC_F32;
}

// ---- nodes ----
static tc_status autocast_region(const autocast *x, tc_graph *region);

static bool can_be_made_again(const tc_node *n) {
  if (tc_op_control(n->op) != TC_CONTROL_NONE || !tc_sv_is(n->op->schema.ns, "aten")) return false;
  for (int32_t i = 0; i < n->n_results; i++)
    if (n->results[i]->kind != TC_VALUE_TENSOR && n->results[i]->kind != TC_VALUE_NONE) return false;
  return !(n->op->def->traits & TC_OP_DATA_DEPENDENT);
}

static tc_status keep_types(rewrite *r) {
  r->back = true;
  tc_arg *args = TC_NEW_ARRAY(r->x->g->module->arena, tc_arg, r->n->n_args);
  TC_TRY(rewrite_args(r, args));
  for (int32_t i = 0; i < r->n->n_args; i++) r->n->args[i] = args[i];
  return TC_OK;
}

static void take_place(autocast *x, tc_node *n, tc_node *made) {
  made->stream = n->stream;
  for (int32_t i = 0; i < n->n_results; i++) {
    tc_value *old = n->results[i], *v = made->results[i];
    if (is_tensor(old) && is_tensor(v) && old->type.dtype != v->type.dtype)
      tc_map_put_ptr(x->was, v, NULL)->value.num = old->type.dtype;
    tc_graph_forward(old, v);
  }
  tc_node_kill(n);
}

static tc_status autocast_node(autocast *x, tc_node *n) {
  tc_node_each_value(n, resolve_place, NULL);
  for (int32_t i = 0; i < n->n_args; i++)
    if (n->args[i].kind == TC_AK_GRAPH && n->args[i].graph) TC_TRY(autocast_region(x, n->args[i].graph));
  rewrite r = {.x = x, .n = n, .policy = policy_of(x, n)};
  r.to = dtype_for(x, n, r.policy);
  if (!can_be_made_again(n)) return keep_types(&r);
  tc_arg *args = TC_NEW_ARRAY(x->g->module->arena, tc_arg, n->n_args);
  tc_node *made;
  TC_TRY(rewrite_args(&r, args));
  if (!r.changed) return TC_OK;
  tc_status s = tc_graph_add_node(x->g, n, n->op, n->n_args, args, n->name, n->source, &made);
  int32_t code = tc_status_code(s);
  if (code == TC_STATUS_INVALID_ARGUMENT || code == TC_STATUS_UNIMPLEMENTED) {
    tc_status_free(s);
    return keep_types(&r);
  }
  TC_TRY(s);
  take_place(x, n, made);
  return TC_OK;
}

static tc_status autocast_graph(tc_graph *g, const tc_autocast_options *o, bool is_region) {
  tc_arena *arena = g->module->arena;
  autocast x = {.g = g, .o = *o, .writes = tc_graph_writes(g)};
  x.lowered = tc_map_create(arena), x.widened = tc_map_create(arena), x.was = tc_map_create(arena);
  for (tc_node *n = g->first; n; n = n->next)
    if (!n->dead) TC_TRY(autocast_node(&x, n), "while casting for " TC_SV_FMT, TC_SV_ARG(n->op->full_name));
  for (int32_t i = 0; i < g->outputs.count; i++) {
    tc_graph_output *out = &g->outputs.data[i];
    if (out->arg.kind != TC_AK_TENSOR) continue;
    out->arg.value = tc_value_resolve(out->arg.value);
    const tc_map_entry *was = tc_map_find_ptr(x.was, out->arg.value);
    bool fixed = is_region || (out->kind != TC_OUT_USER && out->kind != TC_OUT_LOSS);
    if (was && fixed) TC_TRY(cast(&x, NULL, (tc_dtype)was->value.num, &out->arg.value));
  }
  tc_graph_sweep(g);
  return TC_OK;
}

static tc_status autocast_region(const autocast *x, tc_graph *region) { return autocast_graph(region, &x->o, true); }

tc_status tc_autocast(tc_graph *g, const tc_autocast_options *o) { return autocast_graph(g, o, false); }
