// The gradients of one case: see check_grad.h.
#include "tcrun/check_grad.h"

#include <math.h>
#include <string.h>

#include "core/autograd/partition.h"

typedef struct gradients {
  const gradient_check *g;
  tc_graph *forward;
  const tc_tensor **stored; // by graph input
  tc_sv *keys;
  bool *wanted;
  tc_joint joint;
  tc_partition part;
  tc_session *session, *backward; // backward NULL: one graph
  tc_tensor *taped;               // by graph input: what the tape gave; NULL: there is none
  tc_tensor *inputs, *outputs, *saved,
      *later; // saved: the forward graph's outputs; later: the backward's inputs, borrowed
  int32_t n_inputs, n_outputs, n_saved;
  double largest; // norm of the stored gradients
} gradients;

static int32_t leaf_of(const model *m, int32_t input) {
  for (int32_t leaf = 0; leaf < m->n_in; leaf++)
    if (m->in[leaf] == input) return leaf;
  return -1;
}

static double norm_of(const tc_tensor *t) {
  double sum = 0;
  int64_t index[TC_MAX_RANK] = {0};
  for (int64_t left = tc_tensor_numel(t); left > 0; left--) {
    double re = 0, im = 0;
    tc_tensor_get(t, index, &re, &im);
    if (isfinite(re)) sum += re * re;
    if (isfinite(im)) sum += im * im;
    for (int32_t d = t->rank - 1; d >= 0 && ++index[d] == t->sizes[d]; d--) index[d] = 0;
  }
  return sqrt(sum);
}

// Do two parameters lie in one place? What flows to either is then the gradient of both.
static bool are_tied(const gradients *x, int32_t i, int32_t k) {
  const tc_graph_input *in[2] = {&x->forward->inputs.data[i], &x->forward->inputs.data[k]};
  const tc_tensor *t[2];
  for (int32_t j = 0; j < 2; j++) {
    const tc_map_entry *e =
        in[j]->kind == TC_IN_PARAMETER ? tc_map_find(x->forward->module->bindings, in[j]->target) : NULL;
    t[j] = e ? &((const tc_binding *)e->value.ptr)->tensor : NULL;
    if (!t[j] || !t[j]->storage) return false;
  }
  bool same = t[0]->storage == t[1]->storage && t[0]->offset == t[1]->offset && t[0]->rank == t[1]->rank;
  for (int32_t d = 0; same && d < t[0]->rank; d++)
    same = t[0]->sizes[d] == t[1]->sizes[d] && t[0]->strides[d] == t[1]->strides[d];
  return same;
}

// Which inputs have stored gradients.
static bool find_stored(gradients *x) {
  const gradient_check *g = x->g;
  bool any = false;
  for (int32_t i = 0; i < x->forward->inputs.count; i++) {
    const tc_graph_input *in = &x->forward->inputs.data[i];
    int32_t leaf = leaf_of(g->m, i);
    if (leaf >= 0) {
      x->keys[i] = tc_sv_printf(g->arena, "grad.%d", leaf);
      x->stored[i] = g->find(g->self, x->keys[i]);
      if (!x->stored[i]) {
        x->keys[i] = tc_sv_printf(g->arena, "grad.in.%d", leaf);
        x->stored[i] = g->find(g->self, x->keys[i]);
      }
    } else if (in->kind == TC_IN_PARAMETER) {
      x->keys[i] = tc_sv_printf(g->arena, "grad.param." TC_SV_FMT, TC_SV_ARG(in->target));
      x->stored[i] = g->find(g->self, x->keys[i]);
    }
    x->wanted[i] = x->stored[i] != NULL;
    any |= x->wanted[i];
    if (x->stored[i]) x->largest = fmax(x->largest, norm_of(x->stored[i]));
  }
  for (int32_t i = 0; i < x->forward->inputs.count; i++)
    for (int32_t k = 0; k < x->forward->inputs.count && !x->wanted[i]; k++)
      x->wanted[i] = x->stored[k] && are_tied(x, i, k);
  return any;
}

// The gradient of input i as the run made it; NULL: none was made.
static const tc_tensor *made_gradient(const gradients *x, int32_t i) {
  if (x->taped) return x->taped[i].storage ? &x->taped[i] : NULL;
  int32_t at = x->joint.gradients[i], nth = 0;
  const tc_graph *g = x->joint.graph;
  if (at < 0) return NULL;
  // User outputs keep their order, the passes may put others in front. Alone, the gradients are all there is.
  for (int32_t k = 0; k < at; k++) nth += g->outputs.data[k].kind == TC_OUT_USER;
  if (x->backward) nth -= x->part.n_user_outputs;
  const tc_graph *from = x->backward ? x->part.backward : g;
  for (int32_t k = 0; k < from->outputs.count; k++)
    if (from->outputs.data[k].kind == TC_OUT_USER && nth-- == 0) return &x->outputs[k];
  return NULL;
}

static void log_graphs(const gradients *x) {
  const tc_partition *p = &x->part;
  const tc_graph *graphs[] = {x->joint.graph, p->forward, p->backward};
  for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
    tc_sb sb = tc_sb_make(x->forward->module->arena);
    tc_graph_print(&sb, graphs[i]);
    tc_log(&x->g->c->logger, TC_LOG_AOT_GRAPHS, "%s", sb.text ? sb.text : "");
  }
  tc_log(&x->g->c->logger, TC_LOG_AOT_GRAPHS, "saved: %d values of %lld bytes; %d nodes are computed again", p->n_saved,
         (long long)p->saved_bytes, p->n_recomputed);
}

// How a joint graph is cut in two.
static tc_partition_options partition_options(const tc_config *c) {
  return (tc_partition_options){tc_sv_is(tc_config_text(c, TC_OPT_ID_GRAD_GRAPHS), "all"),
                                tc_config_real(c, TC_OPT_ID_GRAD_BUDGET)};
}

static tc_status make_joint(void *arg) {
  gradients *x = arg;
  const tc_config *c = x->g->c->config;
  tc_sv graphs = tc_config_text(c, TC_OPT_ID_GRAD_GRAPHS);
  TC_TRY(tc_autograd_joint(x->forward, x->wanted, &x->joint));
  if (tc_sv_is(graphs, "joint") || x->joint.n_cotangents == 0) return TC_OK;
  tc_partition_options o = partition_options(c);
  TC_TRY(tc_autograd_partition(&x->joint, &o, &x->part));
  if (tc_log_on(&x->g->c->logger, TC_LOG_AOT_GRAPHS)) log_graphs(x);
  return TC_OK;
}

// Zeros of output `leaf`'s sizes, which the stored output has.
static tc_status zero_cotangent(const gradients *x, int32_t leaf, tc_tensor *out) {
  const gradient_check *g = x->g;
  const tc_tensor *like = g->find(g->self, tc_sv_printf(g->arena, "out.%d", leaf));
  if (!like) return tc_error(TC_STATUS_INVALID_ARGUMENT, "there is neither a cotangent nor a value of output %d", leaf);
  TC_TRY(tc_tensor_create(g->c->allocator, like->dtype, like->rank, like->sizes, out));
  memset(tc_tensor_data(out), 0, (size_t)(tc_tensor_numel(out) * tc_dtype_size(out->dtype)));
  return TC_OK;
}

static tc_status read_inputs(gradients *x) {
  const gradient_check *g = x->g;
  int32_t n = x->forward->inputs.count;
  for (int32_t i = 0; i < n; i++) {
    if (g->inputs[i].storage) x->inputs[i] = tc_tensor_ref(&g->inputs[i]);
  }
  for (int32_t leaf = 0; leaf < tcrun_user_outputs(g->m); leaf++) {
    int32_t at = x->joint.cotangents[leaf];
    if (at < 0) continue;
    const tc_tensor *ct = g->find(g->self, tc_sv_printf(g->arena, "ct.%d", leaf));
    // Of an output that PyTorch does not differentiate (statistics, pivots) the stored loss takes nothing.
    if (ct) x->inputs[at] = tc_tensor_ref(ct);
    else TC_TRY(zero_cotangent(x, leaf, &x->inputs[at]));
  }
  return TC_OK;
}

static tc_status compare(gradients *x, int32_t i) {
  const tc_tensor *want = x->stored[i];
  tc_dtype real = tc_dtype_real(want->dtype);
  double limit = real == TC_F64 ? 1e-6 : real == TC_F32 ? 1e-3 : 3e-2;
  double norm = norm_of(want), floor = 1e-6 * x->largest;
  const tc_tensor **parts = TC_NEW_ARRAY(x->g->arena, const tc_tensor *, x->forward->inputs.count);
  int32_t n = 0;
  for (int32_t k = 0; k < x->forward->inputs.count; k++) {
    const tc_tensor *part = k == i || are_tied(x, i, k) ? made_gradient(x, k) : NULL;
    if (!part) continue;
    if (!part->storage) return tc_error(TC_STATUS_INTERNAL, "the gradient was not made");
    bool same = part->rank == want->rank && part->dtype == want->dtype;
    for (int32_t d = 0; same && d < part->rank; d++) same = part->sizes[d] == want->sizes[d];
    if (!same)
      return tc_error(TC_STATUS_MISMATCH, TC_SV_FMT " has another shape or dtype (%s)", TC_SV_ARG(x->keys[i]),
                      tc_dtype_name(part->dtype));
    parts[n++] = part;
  }
  if (n == 0)
    return norm <= floor ? TC_OK
                         : tc_error(TC_STATUS_MISMATCH, TC_SV_FMT " has no gradient here", TC_SV_ARG(x->keys[i]));
  double sum = 0, worst = 0;
  bool finite = true;
  int64_t index[TC_MAX_RANK] = {0};
  for (int64_t left = tc_tensor_numel(want); left > 0; left--) {
    double a[2] = {0, 0}, b[2] = {0, 0};
    for (int32_t k = 0; k < n; k++) {
      double part[2] = {0, 0};
      tc_tensor_get(parts[k], index, &part[0], &part[1]);
      a[0] += part[0], a[1] += part[1];
    }
    tc_tensor_get(want, index, &b[0], &b[1]);
    for (int32_t k = 0; k < 2; k++) {
      if (isfinite(a[k]) && isfinite(b[k])) {
        sum += (a[k] - b[k]) * (a[k] - b[k]);
        worst = fmax(worst, fabs(a[k] - b[k]));
      } else if (!(isnan(a[k]) && isnan(b[k])) && a[k] != b[k]) {
        finite = false;
      }
    }
    for (int32_t d = want->rank - 1; d >= 0 && ++index[d] == want->sizes[d]; d--) index[d] = 0;
  }
  difference diff = {.max_abs = worst, .rel_l2 = norm > 0 ? sqrt(sum) / norm : sqrt(sum)};
  x->g->report(x->g->self, x->keys[i], &diff);
  if (finite && sqrt(sum) <= fmax(limit * norm, floor)) return TC_OK;
  return tc_error(TC_STATUS_MISMATCH, TC_SV_FMT ": relative L2 error %.3g, at most %.3g is allowed%s",
                  TC_SV_ARG(x->keys[i]), diff.rel_l2, limit,
                  finite ? "" : "; some values are not finite where others are");
}

// Forward, then backward on what was saved.
static tc_status run_two(gradients *x) {
  const gradient_check *g = x->g;
  const tc_partition *p = &x->part;
  TC_TRY(tc_session_create(g->c, p->forward, TC_STAGE_EXEC, &x->session));
  TC_TRY(tc_session_create(g->c, p->backward, TC_STAGE_EXEC, &x->backward));
  if (g->compile_only) return TC_OK;
  int32_t n = p->forward->outputs.count, first = n;
  x->saved = TC_NEW_ARRAY(g->arena, tc_tensor, n + 1);
  x->later = TC_NEW_ARRAY(g->arena, tc_tensor, p->backward->inputs.count + 1);
  x->n_outputs = p->backward->outputs.count;
  x->outputs = TC_NEW_ARRAY(g->arena, tc_tensor, x->n_outputs + 1);
  const tc_session_run_options how = {.seed = g->seed};
  TC_TRY(tc_session_run(x->session, x->inputs, x->saved, &how));
  x->n_saved = n;
  for (int32_t k = 0; k < p->n_saved; first--) k += p->forward->outputs.data[first - 1].kind == TC_OUT_USER;
  for (int32_t i = 0; i < p->n_sources; i++) {
    int32_t from = p->sources[i];
    x->later[i] = from >= 0 ? x->inputs[from] : x->saved[first - 1 - from];
  }
  return tc_session_run(x->backward, x->later, x->outputs, &how);
}

static tc_status run_one(gradients *x) {
  TC_TRY(tc_session_create(x->g->c, x->joint.graph, TC_STAGE_EXEC, &x->session));
  x->n_outputs = x->joint.graph->outputs.count;
  x->outputs = TC_NEW_ARRAY(x->g->arena, tc_tensor, x->n_outputs + 1);
  if (x->g->compile_only) return TC_OK;
  return tc_session_run(x->session, x->inputs, x->outputs, &(tc_session_run_options){.seed = x->g->seed});
}

static tc_status run(gradients *x) {
  const gradient_check *g = x->g;
  if (g->tape) {
    x->taped = TC_NEW_ARRAY(g->arena, tc_tensor, x->forward->inputs.count + 1);
    TC_TRY(tcrun_tape_gradients(g, x->wanted, x->taped));
    for (int32_t i = 0; i < x->forward->inputs.count; i++)
      if (x->stored[i]) TC_TRY(compare(x, i));
    return TC_OK;
  }
  TC_TRY(tc_arena_guard(x->forward->module->arena, make_joint, x));
  x->n_inputs = x->joint.graph->inputs.count;
  x->inputs = TC_NEW_ARRAY(g->arena, tc_tensor, x->n_inputs + 1);
  if (!g->compile_only) TC_TRY(read_inputs(x));
  TC_TRY(x->part.forward ? run_two(x) : run_one(x));
  for (int32_t i = 0; i < x->forward->inputs.count && !g->compile_only; i++)
    if (x->stored[i]) TC_TRY(compare(x, i));
  return TC_OK;
}

tc_status tcrun_check_gradients(const gradient_check *g, bool *out_none) {
  int32_t n = g->m->graph->inputs.count;
  gradients x = {.g = g, .forward = g->m->graph};
  x.stored = TC_NEW_ARRAY(g->arena, const tc_tensor *, n + 1);
  x.keys = TC_NEW_ARRAY(g->arena, tc_sv, n + 1);
  x.wanted = TC_NEW_ARRAY(g->arena, bool, n + 1);
  *out_none = !find_stored(&x);
  if (*out_none) return tc_error(TC_STATUS_NOT_FOUND, "there are no stored gradients");
  tc_status s = run(&x);
  if (x.inputs) tcrun_free_tensors(x.inputs, x.n_inputs);
  if (x.outputs) tcrun_free_tensors(x.outputs, x.n_outputs);
  if (x.saved) tcrun_free_tensors(x.saved, x.n_saved);
  if (x.taped) tcrun_free_tensors(x.taped, n);
  tc_session_destroy(x.session);
  tc_session_destroy(x.backward);
  return s;
}

// ---- run, bench, dump ----
static const char *const parts[] = {"joint", "forward", "backward"};
enum { JOINT, FORWARD, BACKWARD, N_PARTS };

bool tcrun_is_gradient_stage(tc_sv stage) {
  int32_t i = 0;
  while (i < N_PARTS && !tc_sv_is(stage, parts[i])) i++;
  return i < N_PARTS;
}

typedef struct differentiation {
  model *m;
  const tc_config *config;
  tc_sv part; // of `parts`
} differentiation;

// One of the two graphs that the joint graph is cut into, in its place.
static tc_status cut(const differentiation *d, const tc_joint *joint) {
  model *m = d->m;
  tc_partition part;
  if (joint->n_cotangents == 0)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "no output has a gradient: there is nothing to cut in two");
  tc_partition_options o = partition_options(d->config);
  TC_TRY(tc_autograd_partition(joint, &o, &part));
  m->graph = tc_sv_is(d->part, parts[FORWARD]) ? part.forward : part.backward;
  m->source.graph = m->graph;
  m->n_in = 0; // the backward's own, and those that the forward still reads
  m->in = TC_NEW_ARRAY(m->module->arena, int32_t, m->graph->inputs.count + 1);
  for (int32_t i = 0; i < m->graph->inputs.count; i++)
    if (m->graph->inputs.data[i].kind == TC_IN_USER) m->in[m->n_in++] = i;
  return TC_OK;
}

static tc_status differentiate(void *arg) {
  const differentiation *d = arg;
  model *m = d->m;
  tc_graph *g = m->graph;
  int32_t n = g->inputs.count;
  bool *wanted = TC_NEW_ARRAY(m->module->arena, bool, n + 1);
  for (int32_t i = 0; i < n; i++)
    wanted[i] = g->inputs.data[i].kind == TC_IN_PARAMETER || g->inputs.data[i].kind == TC_IN_USER;
  tc_joint joint;
  TC_TRY(tc_autograd_joint(g, wanted, &joint));
  m->graph = joint.graph;
  m->source = (tc_source){.stage = TC_STAGE_GRAPH, .graph = m->graph};
  m->n_out_types = 0; // the archive says nothing of gradients
  int32_t *in = TC_NEW_ARRAY(m->module->arena, int32_t, m->n_in + joint.n_cotangents + 1);
  for (int32_t i = 0; i < m->n_in; i++) in[i] = m->in[i];
  for (int32_t i = n; i < joint.graph->inputs.count; i++) in[m->n_in++] = i;
  m->in = in;
  return tc_sv_is(d->part, parts[JOINT]) ? TC_OK : cut(d, &joint);
}

tc_status tcrun_differentiate(const tc_config *config, tc_sv part, model *m) {
  if (m->source.stage != TC_STAGE_GRAPH)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "only programs at the graph stage have gradients");
  return tc_arena_guard(m->module->arena, differentiate, &(differentiation){m, config, part});
}

tc_status tcrun_load_asked(tc_context *c, run_options *o, const char *path, model *m) {
  TC_TRY(tcrun_load(c, o, path, m));
  if (!o->grad) return TC_OK;
  tc_status s = tcrun_differentiate(c->config, o->gradients.size ? o->gradients : TC_SV("joint"), m);
  if (s != TC_OK) tcrun_unload(m);
  return tc_status_note(s, "while differentiating %s", path);
}
