// Programs of the kit: contexts, inputs, runs, comparison.
//
// Programs run as the program runs any graph: by kernels, by the plugin's calls, or, where neither does a node, by the
// references, which is reported as not supported. What a code generator claims to do must compile. Delegates are asked
// with the references as the backend: what they do not claim is left to these. A plugin of ops runs on the references
// and on the best device that is there.
#include "tcrun/conform_program.h"

#include <math.h>
#include <string.h>

#include "tcrun/check_grad.h"

static bool is_delegate(const kit *k) { return (k->about.capabilities & TC_CAP_DELEGATE) != 0; }

static tc_status set(tc_config *c, const char *key, tc_sv value) {
  return tc_config_set(c, tc_sv_of(key), value, "the kit");
}

tc_status kit_configure(const kit *k, const char *mode, tc_config *c) {
  TC_TRY(tc_config_expect_plugin(c, k->about.name));
  tc_sv backend = k->about.n_devices ? k->about.devices[0] : is_delegate(k) ? TC_SV("ref") : TC_SV("auto");
  TC_TRY(set(c, "backend", backend));
  if (is_delegate(k)) TC_TRY(set(c, "delegates", k->about.name));
  TC_TRY(set(c, "plugins.prefer", k->about.name));
  TC_TRY(set(c, "cache.enabled", TC_SV("false")));
  if (mode) TC_TRY(set(c, "mode", tc_sv_of(mode)));
  return tc_config_apply_mode(c);
}

// The references run in one thread; a process without others can be forked.
static tc_status configure_references(const kit *k, const char *mode, tc_config *c) {
  (void)mode;
  TC_TRY(tc_config_expect_plugin(c, k->about.name));
  TC_TRY(set(c, "backend", TC_SV("ref")));
  TC_TRY(set(c, "cache.enabled", TC_SV("false")));
  TC_TRY(set(c, "threads", TC_SV("1")));
  return tc_config_apply_mode(c);
}

// With the configuration of the command line, read once more: a context takes it.
static tc_status open_context(kit *k, tc_status (*configure)(const kit *k, const char *mode, tc_config *c),
                              const char *mode, tc_context **out) {
  tc_plugin *p;
  run_options again;
  TC_TRY(tcrun_parse(k->o->arena, k->o->argc, k->o->argv, &again));
  tc_status s = configure(k, mode, again.config);
  if (s != TC_OK) {
    tc_config_destroy(again.config);
    return s;
  }
  TC_TRY(tc_context_create(tc_system_allocator(), again.config, tc_logger_silent, out));
  s = tc_context_add_plugin(*out, k->file, &p);
  if (s == TC_OK) s = tc_context_open_backend(*out);
  if (s == TC_OK) return TC_OK;
  tc_context_destroy(*out);
  *out = NULL;
  return s;
}

tc_status kit_context(kit *k, const char *mode, tc_context **out) {
  bool there = true;
  tc_context **kept = mode ? &k->recording : &k->context;
  *out = NULL;
  if (!(k->about.capabilities & (TC_CAP_CODEGEN | TC_CAP_CALLS | TC_CAP_DELEGATE | TC_CAP_OPS))) {
    kit_unsupported(k, "the plugin has neither a code generator, nor calls, nor a delegate, nor ops");
    return TC_OK;
  }
  if (k->about.n_devices) {
    TC_TRY(kit_open(k, &there));
    kit_close(k);
  }
  if (!there) return TC_OK;
  if (!*kept) {
    tc_status s = open_context(k, kit_configure, mode, kept);
    if (tc_status_code(s) == TC_STATUS_NOT_FOUND && !k->about.n_devices && !is_delegate(k)) { // there is no device
      tc_status_free(s);
      s = open_context(k, configure_references, mode, kept);
    }
    TC_TRY(s);
  }
  *out = *kept;
  return TC_OK;
}

tc_status kit_references(kit *k, tc_context **out) {
  if (!k->references) TC_TRY(open_context(k, configure_references, NULL, &k->references));
  *out = k->references;
  return TC_OK;
}

tc_status kit_judge_fallbacks(kit *k, tc_context *c, const tc_session *s) {
  const tc_session_stats *q = tc_session_stats_of(s);
  const char *reason = tc_session_fallback(s, 0);
  if (is_delegate(k) && !k->about.n_devices) {
    if (!q->delegated) kit_unsupported(k, "the delegate claims nothing of it");
    return TC_OK;
  }
  if (!q->fallbacks) return TC_OK;
  // What no device could do has a reason of the program's own; one that comes from a plugin is a claim that failed.
  for (int32_t i = 0; c->device && c->device->codegen && (reason = tc_session_fallback(s, i)); i++)
    KIT_CHECK(!strstr(reason, "plugin '"), "what the device claims does not compile: %s", reason);
  reason = tc_session_fallback(s, 0);
  if (!q->segments || (k->about.capabilities & TC_CAP_CODEGEN))
    kit_unsupported(k, "left to the references: %.200s", reason);
  return TC_OK;
}

// ---- A text in one context ----
tc_status kit_make_ready(tc_arena *arena, tc_context *c, const char *text, uint32_t flags, kit_ready *r) {
  tc_status s = tcrun_read_text(c, TC_SV("kit.tc"), tc_sv_of(text), &r->m);
  r->loaded = r->m.module != NULL; // a text that does not read leaves its module
  TC_TRY(s);
  if (flags & KIT_GRAD) TC_TRY(tcrun_differentiate(c->config, TC_SV("joint"), &r->m));
  TC_TRY(tc_session_create_from(c, &r->m.source, TC_STAGE_EXEC, &r->session));
  r->n = r->m.graph->outputs.count;
  r->outputs = TC_NEW_ARRAY(arena, tc_tensor, r->n);
  r->user = TC_NEW_ARRAY(arena, tc_tensor, r->n);
  return TC_OK;
}

static void release_outputs(kit_ready *r) {
  tcrun_free_tensors(r->outputs, r->n);
  memset(r->outputs, 0, (size_t)r->n * sizeof *r->outputs);
}

void kit_close_ready(kit_ready *r) {
  if (r->outputs) release_outputs(r);
  tc_session_destroy(r->session);
  if (r->loaded) tcrun_unload(&r->m);
  *r = (kit_ready){.n = 0};
}

tc_status kit_run_ready(kit_ready *r, const tc_tensor *inputs) {
  release_outputs(r);
  TC_TRY(tc_session_run(r->session, inputs, r->outputs, NULL));
  r->n_user = 0;
  for (int32_t i = 0; i < r->n; i++)
    if (r->m.graph->outputs.data[i].kind == TC_OUT_USER) r->user[r->n_user++] = r->outputs[i];
  return TC_OK;
}

// ---- Inputs ----
static void make_special(kit *k, tc_tensor *t) {
  static const float values[] = {INFINITY, -INFINITY, NAN, 0.0f, -0.0f};
  if (t->dtype != TC_F32 || !t->storage) return;
  float *at = tc_tensor_data(t);
  for (int64_t i = 0, n = tc_tensor_numel(t); i < n; i += 1 + (int64_t)(kit_random(k) % 9))
    at[i] = values[kit_random(k) % 5];
}

tc_status kit_inputs(kit *k, tc_context *c, kit_ready *r, uint32_t flags, tc_tensor **out) {
  const char *note;
  run_options o = *k->o;
  o.arena = k->arena, o.random = true, o.seed = kit_random(k) % 1000000;
  TC_TRY(tcrun_inputs(c, &o, &r->m, out, &note));
  for (int32_t i = 0; flags & KIT_SPECIAL && i < r->m.graph->inputs.count; i++) make_special(k, &(*out)[i]);
  return TC_OK;
}

// FNV-1a over the bytes of all inputs.
static uint64_t sum_of(const tc_tensor *t, int32_t n) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (int32_t i = 0; i < n; i++) {
    const uint8_t *at = t[i].storage ? t[i].storage->data : NULL;
    for (size_t b = 0; at && b < t[i].storage->size; b++) h = (h ^ at[b]) * 0x100000001b3ull;
  }
  return h;
}

// ---- Both ----
tc_status kit_compare(const kit_ready *mine, const kit_ready *ref) {
  difference d;
  KIT_CHECK(mine->n_user == ref->n_user, "%d outputs, the references have %d", mine->n_user, ref->n_user);
  for (int32_t i = 0; i < ref->n_user; i++) {
    tolerance t = tcrun_default_tolerance(ref->user[i].dtype);
    TC_TRY(tcrun_compare(tc_system_allocator(), &mine->user[i], &ref->user[i], NULL, &t, &d), "output %d", i);
    for (int32_t x = 0; x < ref->user[i].rank; x++)
      KIT_CHECK(mine->user[i].sizes[x] < 2 || mine->user[i].strides[x] == ref->user[i].strides[x] ||
                    tc_tensor_numel(&ref->user[i]) == 0,
                "output %d has stride %lld in dimension %d, %lld was promised", i, (long long)mine->user[i].strides[x],
                x, (long long)ref->user[i].strides[x]);
  }
  return TC_OK;
}

static tc_status compare_runs(kit_ready *mine, kit_ready *ref, const tc_tensor *inputs) {
  int32_t n = mine->m.graph->inputs.count;
  uint64_t sum = sum_of(inputs, n);
  TC_TRY(kit_run_ready(ref, inputs), "on the references");
  for (int32_t round = 0; round < 2; round++) {
    TC_TRY(kit_run_ready(mine, inputs));
    TC_TRY(kit_compare(mine, ref));
    KIT_CHECK(sum_of(inputs, n) == sum, "an input was written to; the schema says that it is only read");
  }
  return TC_OK;
}

static tc_status run_both(kit *k, tc_context *c, tc_context *references, const char *text, uint32_t flags) {
  kit_ready mine = {.n = 0}, ref = {.n = 0};
  tc_tensor *inputs = NULL;
  tc_status s = kit_make_ready(k->arena, c, text, flags, &mine);
  if (s == TC_OK) s = kit_judge_fallbacks(k, c, mine.session);
  if (s == TC_OK) s = kit_make_ready(k->arena, references, text, flags, &ref);
  if (s == TC_OK) s = kit_inputs(k, c, &mine, flags, &inputs);
  if (s == TC_OK) {
    s = compare_runs(&mine, &ref, inputs);
    tcrun_free_tensors(inputs, mine.m.graph->inputs.count);
  }
  kit_close_ready(&mine);
  kit_close_ready(&ref);
  return s;
}

tc_status kit_run_text(kit *k, const char *text, uint32_t flags) {
  tc_context *c, *references;
  TC_TRY(kit_context(k, NULL, &c));
  if (!c) return TC_OK;
  TC_TRY(kit_references(k, &references));
  return tc_status_note(run_both(k, c, references, text, flags), "in the program\n%s", text);
}
