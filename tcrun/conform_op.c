// tcrun conform, groups op and rows: small programs on the plugin's device against the references, and what an op
// plugin's rows must have.
//
// Programs run as the program runs any graph: by kernels, by the plugin's calls, or, where neither does a node, by the
// references, which is reported as not supported. What a code generator claims to do must compile. Delegates are asked
// with the references as the backend: what they do not claim is left to these.
#include <math.h>
#include <string.h>

#include "tcrun/conform.h"

typedef struct op_program {
  const char *text;
  bool special; // NaN and infinities among the inputs
} op_program;

static bool is_delegate(const kit *k) { return (k->about.capabilities & TC_CAP_DELEGATE) != 0; }

static tc_status open_context(kit *k, tc_context **out) {
  if (!k->context) {
    tc_config *c = k->o->config;
    tc_sv backend = k->about.n_devices ? k->about.devices[0] : TC_SV("ref");
    TC_TRY(tc_config_set(c, TC_SV("backend"), backend, "the kit"));
    if (is_delegate(k)) TC_TRY(tc_config_set(c, TC_SV("delegates"), k->about.name, "the kit"));
    TC_TRY(tc_config_set(c, TC_SV("plugins.prefer"), k->about.name, "the kit"));
    TC_TRY(tc_config_set(c, TC_SV("cache.enabled"), TC_SV("false"), "the kit"));
    TC_TRY(tc_config_apply_mode(c));
    k->o->config = NULL; // the context's
    TC_TRY(tc_context_create(tc_system_allocator(), c, tc_logger_silent, &k->context));
    tc_plugin *p;
    TC_TRY(tc_plugins_add_file(k->context->plugins, k->file, &p));
  }
  if (!k->context->device && !k->context->is_ref) TC_TRY(tc_context_open_backend(k->context));
  *out = k->context;
  return TC_OK;
}

static void make_special(kit *k, tc_tensor *t) {
  static const float values[] = {INFINITY, -INFINITY, NAN, 0.0f, -0.0f};
  if (t->dtype != TC_F32 || !t->storage) return;
  float *at = tc_tensor_data(t);
  for (int64_t i = 0, n = tc_tensor_numel(t); i < n; i += 1 + (int64_t)(kit_random(k) % 9))
    at[i] = values[kit_random(k) % 5];
}

// Nodes that were left to the references: the reason of the first that the device should have done.
static tc_status judge_fallbacks(kit *k, const tc_session *s) {
  const tc_session_stats *q = tc_session_stats_of(s);
  const char *reason = tc_session_fallback(s, 0);
  if (k->context->is_ref) {
    if (!q->delegated) kit_unsupported(k, "the delegate claims nothing of it");
    return TC_OK;
  }
  if (!q->fallbacks) return TC_OK;
  if (k->about.capabilities & TC_CAP_CODEGEN) {
    for (int32_t i = 0; (reason = tc_session_fallback(s, i)); i++)
      KIT_CHECK(strstr(reason, "lacks the dtype"), "what the device claims does not compile: %s", reason);
    reason = tc_session_fallback(s, 0);
  }
  if (!q->segments || (k->about.capabilities & TC_CAP_CODEGEN))
    kit_unsupported(k, "left to the references: %.200s", reason);
  return TC_OK;
}

// A text made ready to run in one context; what of it is there is to be closed whatever happened.
typedef struct ready {
  model m;
  tc_session *session;
  bool loaded;
  tc_tensor *outputs, *user; // user: by leaf
  int32_t n, n_user;
} ready;

static tc_status make_ready(tc_arena *arena, tc_context *c, const char *text, ready *r) {
  TC_TRY(tcrun_read_text(c, TC_SV("kit.tc"), tc_sv_of(text), &r->m));
  r->loaded = true;
  TC_TRY(tc_session_create_from(c, &r->m.source, TC_STAGE_EXEC, &r->session));
  r->n = r->m.graph->outputs.count;
  r->outputs = TC_NEW_ARRAY(arena, tc_tensor, r->n);
  r->user = TC_NEW_ARRAY(arena, tc_tensor, r->n);
  return TC_OK;
}

static void release_outputs(ready *r) {
  tcrun_free_tensors(r->outputs, r->n);
  memset(r->outputs, 0, (size_t)r->n * sizeof *r->outputs);
}

static void close_ready(ready *r) {
  if (r->outputs) release_outputs(r);
  tc_session_destroy(r->session);
  if (r->loaded) tcrun_unload(&r->m);
}

static tc_status run_ready(ready *r, const tc_tensor *inputs) {
  TC_TRY(tc_session_run(r->session, inputs, r->outputs, NULL));
  r->n_user = 0;
  for (int32_t i = 0; i < r->n; i++)
    if (r->m.graph->outputs.data[i].kind == TC_OUT_USER) r->user[r->n_user++] = r->outputs[i];
  return TC_OK;
}

static tc_status compare_runs(ready *mine, ready *ref, const tc_tensor *inputs) {
  difference d;
  TC_TRY(run_ready(ref, inputs), "on the references");
  for (int32_t round = 0; round < 2; round++) { // the second run finds everything as the first one left it
    TC_TRY(run_ready(mine, inputs));
    KIT_CHECK(mine->n_user == ref->n_user, "%d outputs, the references have %d", mine->n_user, ref->n_user);
    for (int32_t i = 0; i < ref->n_user; i++) {
      tolerance t = tcrun_default_tolerance(ref->user[i].dtype);
      TC_TRY(tcrun_compare(tc_system_allocator(), &mine->user[i], &ref->user[i], NULL, &t, &d), "output %d", i);
    }
    release_outputs(mine);
  }
  return TC_OK;
}

static tc_status run_text(kit *k, tc_context *c, const op_program *p) {
  ready mine = {.n = 0}, ref = {.n = 0};
  tc_tensor *inputs = NULL;
  run_options o = *k->o;
  const char *note;
  o.arena = k->arena, o.random = true, o.seed = kit_random(k) % 1000000;
  if (!k->references) TC_TRY(tcrun_open_ref(false, &k->references));
  tc_status s = make_ready(k->arena, c, p->text, &mine);
  if (s == TC_OK) s = judge_fallbacks(k, mine.session);
  if (s == TC_OK) s = make_ready(k->arena, k->references, p->text, &ref);
  if (s == TC_OK) s = tcrun_inputs(c, &o, &mine.m, &inputs, &note);
  if (s == TC_OK) {
    for (int32_t i = 0; p->special && i < mine.m.graph->inputs.count; i++) make_special(k, &inputs[i]);
    s = compare_runs(&mine, &ref, inputs);
    tcrun_free_tensors(inputs, mine.m.graph->inputs.count);
  }
  close_ready(&mine);
  close_ready(&ref);
  return s;
}

static tc_status run_program(kit *k, const op_program *p) {
  bool there;
  tc_context *c;
  if (!is_delegate(k) || k->about.n_devices) {
    TC_TRY(kit_open(k, &there));
    kit_close(k);
    if (!there) return TC_OK;
  }
  if (!(k->about.capabilities & (TC_CAP_CODEGEN | TC_CAP_CALLS | TC_CAP_DELEGATE))) {
    kit_unsupported(k, "the plugin has neither a code generator, nor calls, nor a delegate");
    return TC_OK;
  }
  TC_TRY(open_context(k, &c));
  return tc_status_note(run_text(k, c, p), "in the program\n%s", p->text);
}

// ---- Programs. X(name, special, text) ----
#define PROGRAMS(X)                                                                                                    \
  X(add, true,                                                                                                         \
    "(%x : f32[33, 7] = user \"x\", %y : f32[33, 7] = user \"y\") {\n  %z : f32[33, 7] = aten::add.Tensor(%x, %y)\n  " \
    "return user %z\n}\n")                                                                                             \
  X(mul_broadcast, true,                                                                                               \
    "(%x : f32[5, 1, 9] = user \"x\", %y : f32[4, 1] = user \"y\") {\n  %z : f32[5, 4, 9] = aten::mul.Tensor(%x, "     \
    "%y)\n  return user %z\n}\n")                                                                                      \
  X(relu, true, "(%x : f32[1000] = user \"x\") {\n  %z : f32[1000] = aten::relu(%x)\n  return user %z\n}\n")           \
  X(gelu, true, "(%x : f32[1000] = user \"x\") {\n  %z : f32[1000] = aten::gelu(%x)\n  return user %z\n}\n")           \
  X(chain, false,                                                                                                      \
    "(%x : f32[64, 50] = user \"x\") {\n  %a : f32[64, 50] = aten::sin(%x)\n  %b : f32[64, 50] = aten::exp(%a)\n  "    \
    "%c : f32[64, 50] = aten::mul.Tensor(%b, %x)\n  %d : f32[64, 50] = aten::tanh(%c)\n  return user %d\n}\n")         \
  X(integers, false,                                                                                                   \
    "(%x : i64[37] = user \"x\", %y : i32[37] = user \"y\") {\n  %z : i64[37] = aten::mul.Tensor(%x, %y)\n  %w : "     \
    "i64[37] = aten::sub.Tensor(%z, %x)\n  return user %w\n}\n")                                                       \
  X(compare_and_select, true,                                                                                          \
    "(%x : f32[200] = user \"x\", %y : f32[200] = user \"y\") {\n  %c : bool[200] = aten::lt.Tensor(%x, %y)\n  %z : "  \
    "f32[200] = aten::where.self(%c, %x, %y)\n  return user %z, user %c\n}\n")                                         \
  X(doubles, false, "(%x : f64[40, 3] = user \"x\") {\n  %z : f64[40, 3] = aten::exp(%x)\n  return user %z\n}\n")      \
  X(halves, false,                                                                                                     \
    "(%x : f16[300] = user \"x\", %y : bf16[300] = user \"y\") {\n  %z : f16[300] = aten::mul.Tensor(%x, %x)\n  %w : " \
    "bf16[300] = aten::add.Tensor(%y, %y)\n  return user %z, user %w\n}\n")                                            \
  X(complex_numbers, false,                                                                                            \
    "(%x : c64[30] = user \"x\", %y : c64[30] = user \"y\") {\n  %z : c64[30] = aten::mul.Tensor(%x, %y)\n  return "   \
    "user %z\n}\n")                                                                                                    \
  X(strided_input, false,                                                                                              \
    "(%x : f32[6, 8]{1, 6} = user \"x\", %y : f32[6, 8] = user \"y\") {\n  %z : f32[6, 8] = aten::add.Tensor(%y, "     \
    "%x)\n  return user %z\n}\n")                                                                                      \
  X(empty, false,                                                                                                      \
    "(%x : f32[0, 4] = user \"x\") {\n  %z : f32[0, 4] = aten::exp(%x)\n  %s : f32[4] = aten::sum.dim_IntList(%x, "    \
    "[0])\n  return user %z, user %s\n}\n")                                                                            \
  X(sum, false,                                                                                                        \
    "(%x : f32[17, 129] = user \"x\") {\n  %z : f32[17] = aten::sum.dim_IntList(%x, [1])\n  %w : f32[129] = "          \
    "aten::sum.dim_IntList(%x, [0])\n  return user %z, user %w\n}\n")                                                  \
  X(extremes, false,                                                                                                   \
    "(%x : f32[17, 129] = user \"x\") {\n  %z : f32[17] = aten::amax(%x, [1])\n  %w : i64[17] = aten::argmax(%x, 1)\n" \
    "  return user %z, user %w\n}\n")                                                                                  \
  X(softmax, true,                                                                                                     \
    "(%x : f32[20, 70] = user \"x\") {\n  %z : f32[20, 70] = aten::_softmax(%x, -1, false)\n  return user %z\n}\n")    \
  X(layer_norm, false,                                                                                                 \
    "(%x : f32[12, 65] = user \"x\", %w : f32[65] = user \"w\", %b : f32[65] = user \"b\") {\n  %z : f32[12, 65] = "   \
    "aten::layer_norm(%x, [65], %w, %b)\n  return user %z\n}\n")                                                       \
  X(mm, false,                                                                                                         \
    "(%x : f32[33, 20] = user \"x\", %y : f32[20, 47] = user \"y\") {\n  %z : f32[33, 47] = aten::mm(%x, %y)\n  "      \
    "return user %z\n}\n")                                                                                             \
  X(mm_relu, false,                                                                                                    \
    "(%x : f32[33, 20] = user \"x\", %y : f32[20, 47] = user \"y\") {\n  %z : f32[33, 47] = aten::mm(%x, %y)\n  %w : " \
    "f32[33, 47] = aten::relu(%z)\n  return user %w\n}\n")                                                             \
  X(bmm, false,                                                                                                        \
    "(%x : f32[3, 9, 20] = user \"x\", %y : f32[3, 20, 5] = user \"y\") {\n  %z : f32[3, 9, 5] = aten::bmm(%x, %y)\n " \
    " return user %z\n}\n")                                                                                            \
  X(convolution, false,                                                                                                \
    "(%x : f32[2, 3, 12, 11] = user \"x\", %w : f32[5, 3, 3, 3] = user \"w\") {\n  %z : f32[2, 5, 12, 11] = "          \
    "aten::conv2d(%x, %w, none, [1, 1], [1, 1])\n  return user %z\n}\n")                                               \
  X(attention, false,                                                                                                  \
    "(%q : f32[1, 2, 9, 16] = user \"q\", %k : f32[1, 2, 9, 16] = user \"k\", %v : f32[1, 2, 9, 16] = user \"v\") {\n" \
    "  %z : f32[1, 2, 9, 16] = aten::scaled_dot_product_attention(%q, %k, %v)\n  return user %z\n}\n")                 \
  X(cat_and_permute, false,                                                                                            \
    "(%x : f32[3, 4] = user \"x\", %y : f32[5, 4] = user \"y\") {\n  %z : f32[8, 4] = aten::cat([%x, %y])\n  %w : "    \
    "f32[4, 8]{1, 4} = aten::permute(%z, [1, 0])\n  %c : f32[4, 8] = aten::contiguous(%w)\n  "                         \
    "return user %c\n}\n")                                                                                             \
  X(cumsum, false, "(%x : f32[6, 80] = user \"x\") {\n  %z : f32[6, 80] = aten::cumsum(%x, 1)\n  return user %z\n}\n") \
  X(sort, false,                                                                                                       \
    "(%x : f32[4, 77] = user \"x\") {\n  %z : f32[4, 77], %i : i64[4, 77] = aten::sort(%x, -1, true)\n  return user "  \
    "%z\n}\n")                                                                                                         \
  X(two_kernels, false,                                                                                                \
    "(%x : f32[50, 60] = user \"x\", %y : f32[60, 50] = user \"y\") {\n  %a : f32[50, 50] = aten::mm(%x, %y)\n  %b : " \
    "f32[50, 50] = aten::_softmax(%a, -1, false)\n  %c : f32[50, 60] = aten::mm(%b, %x)\n  return user %c\n}\n")

#define X(name, special_, text_)                                                                  \
  static tc_status op_##name(kit *k) {                                                            \
    return run_program(k, &(op_program){.text = "graph @" #name " " text_, .special = special_}); \
  }
PROGRAMS(X)
#undef X

// ---- Rows of ops ----
static tc_status rows(kit *k) {
  TC_TRY(kit_load(k));
  const tc_plugin *p = k->plugin;
  if (!(p->capabilities & TC_CAP_OPS)) {
    kit_unsupported(k, "the plugin brings no ops");
    return TC_OK;
  }
  KIT_CHECK(p->n_ops > 0, "the capability 'ops' comes without rows");
  for (int32_t i = 0; i < p->n_ops; i++) {
    const tc_op_def *d = &p->ops[i];
    KIT_CHECK(d->scalar_ref || d->ref || d->decompose || d->expand,
              "op '%s' has no reference and no decomposition: nothing says what is right", d->schema);
    KIT_CHECK(d->meta || d->decompose || d->expand || d->body, "op '%s' has nothing that says what its results are",
              d->schema);
    tc_sv name, rest = tc_sv_cut(tc_sv_of(d->schema), '(', &name);
    bool claimed = false;
    for (int32_t g = 0; g < p->n_op_globs && !claimed; g++) {
      tc_sv plain;
      tc_sv_cut(name, '.', &plain);
      claimed = tc_sv_glob(name, p->op_globs[g]) || tc_sv_glob(plain, p->op_globs[g]);
    }
    KIT_CHECK(rest.size > 0, "'%s' is no schema", d->schema);
    KIT_CHECK(claimed, "op '" TC_SV_FMT "' is under none of the manifest's globs", TC_SV_ARG(name));
  }
  return TC_OK;
}

static const kit_case cases[] = {
    {"rows", "rows", "every op has a reference, a shape and a place in the manifest", rows},
#define X(name, special, text) {"op", #name, "the device computes what the references compute", op_##name},
    PROGRAMS(X)
#undef X
};
const kit_cases kit_op_cases = {cases, sizeof cases / sizeof *cases};
