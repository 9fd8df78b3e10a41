// Contexts, errors and scopes of the embedder's API.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/tape.h"

// ---- errors ----
// The state of a thread that uses the API: as errno, it belongs to the thread and to no context.
typedef struct thread_state {
  int32_t code;
  char text[2048];
  tc_scope *scope; // the innermost
  api_trace *trace;
  api_attempt *attempt;
  bool grad_enabled;
  api_releases releases;
} thread_state;
static _Thread_local thread_state state = {.grad_enabled = true};

int32_t api_fail(tc_status s) {
  int32_t code = tc_status_code(s);
  if (code != TC_STATUS_OK && state.code == TC_STATUS_OK) {
    state.code = code;
    snprintf(state.text, sizeof state.text, "%s", tc_status_text(s));
  }
  tc_status_free(s);
  return code;
}

int32_t api_fail_text(int32_t code, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  tc_status s = tc_errorv(code, fmt, args);
  va_end(args);
  return api_fail(s);
}

int32_t tc_last_code(void) { return state.code; }
const char *tc_last_error(void) { return state.code == TC_STATUS_OK ? "" : state.text; }
void tc_clear_error(void) { state.code = TC_STATUS_OK; }

bool *api_grad_enabled(void) { return &state.grad_enabled; }
api_releases *api_thread_releases(void) { return &state.releases; }

api_trace *api_current_trace(void) { return state.trace; }
api_trace *api_set_current_trace(api_trace *t) {
  api_trace *before = state.trace;
  state.trace = t;
  return before;
}

api_attempt *api_current_attempt(void) { return state.attempt; }
api_attempt *api_set_current_attempt(api_attempt *a) {
  api_attempt *before = state.attempt;
  state.attempt = a;
  return before;
}

void api_note_effect(void) {
  if (state.attempt) state.attempt->lasts = true;
}

void api_note_write(const tc_tensor *t) {
  __atomic_add_fetch(&t->storage->version, 1, __ATOMIC_RELAXED);
  api_note_effect();
}

// ---- scopes ----
struct tc_scope {
  tc_scope *outer;
  tc_tensor **tensors;
  size_t count, capacity;
};

tc_scope *tc_scope_open(void) {
  tc_scope *s = calloc(1, sizeof *s);
  if (!s) {
    api_fail(tc_error_out_of_memory());
    return NULL;
  }
  s->outer = state.scope;
  return state.scope = s;
}

static void close_one(tc_scope *s) {
  for (size_t i = 0; i < s->count; i++) tc_release(s->tensors[i]);
  free(s->tensors);
  free(s);
}

void tc_scope_close(tc_scope *s) {
  bool open = false;
  for (tc_scope *x = state.scope; x; x = x->outer) open |= x == s;
  while (open && state.scope) {
    tc_scope *x = state.scope;
    state.scope = x->outer;
    close_one(x);
    if (x == s) break;
  }
}

// The innermost scope takes over the new handle's reference.
static bool enter_scope(api_tensor *t) {
  tc_scope *s = state.scope;
  if (!s) return true;
  if (s->count == s->capacity) {
    size_t more = s->capacity ? 2 * s->capacity : 16;
    tc_tensor **fresh = realloc(s->tensors, more * sizeof(*fresh));
    if (!fresh) return false;
    s->tensors = fresh, s->capacity = more;
  }
  s->tensors[s->count++] = &t->value;
  return true;
}

bool api_adopt(tc_tensor *t) {
  if (enter_scope(api_of(t))) return true;
  tc_release(t);
  api_fail(tc_error_out_of_memory());
  return false;
}

static tc_tensor *finish(api_tensor *t) { return api_adopt(&t->value) ? &t->value : NULL; }

api_tensor *api_new(tc_context *c) {
  api_tensor *t = tc_alloc(c->allocator, sizeof *t);
  if (!t) {
    api_fail(tc_error_out_of_memory());
    return NULL;
  }
  t->refs = 1, t->context = c;
  return t;
}

tc_tensor *api_wrap(tc_context *c, tc_tensor value) {
  api_tensor *t = api_new(c);
  if (!t) {
    tc_tensor_unref(&value);
    return NULL;
  }
  t->value = value;
  return finish(t);
}

tc_tensor *api_wrap_recorded(api_trace *trace, tc_context *c, int32_t slot, tc_dtype dtype, int32_t rank, bool conj) {
  api_tensor *t = api_new(c);
  if (!t) return NULL;
  t->trace = trace, t->slot = slot;
  t->value.dtype = dtype, t->value.rank = rank, t->value.conj = conj;
  return finish(t);
}

void api_note_sharing(tc_tensor *result, int32_t n, tc_tensor *const *operands) {
  api_tensor *r = api_of(result);
  for (int32_t i = 0; i < n && !r->base; i++) {
    tc_tensor *t = operands[i];
    if (!t || !result->storage || t->storage != result->storage) continue;
    r->base = tc_retain(api_of(t)->base ? api_of(t)->base : t);
    r->seen = __atomic_load_n(&result->storage->version, __ATOMIC_RELAXED);
  }
}

tc_tensor *tc_retain(tc_tensor *t) {
  if (t) __atomic_fetch_add(&api_of(t)->refs, 1, __ATOMIC_RELAXED);
  return t;
}

void tc_release(tc_tensor *t) {
  api_tensor *a = api_of(t);
  if (!t || __atomic_sub_fetch(&a->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  const tc_allocator *allocator = a->context->allocator;
  struct api_node *node = a->node;
  tc_tensor *grad = a->grad, *base = a->base;
  tc_tensor_unref(&a->value);
  tc_free(allocator, a);
  tc_release(grad);
  tc_release(base);
  api_node_unref(node);
}

// ---- contexts ----
static tc_status configure(tc_config *c, const char *const *settings, int32_t n) {
  TC_TRY(tc_config_read_environment(c, NULL));
  for (int32_t i = 0; i < n; i++) {
    tc_sv setting = tc_sv_of(settings[i]), key, value = tc_sv_cut(setting, '=', &key);
    if (tc_sv_is(key, "config") && setting.size > key.size) TC_TRY(tc_config_read_file(c, value.data));
    else TC_TRY(tc_config_set_pair(c, setting, "tc_open"));
  }
  return tc_config_apply_mode(c);
}

static tc_status open_context(const char *const *settings, int32_t n, tc_context **out) {
  tc_config *config;
  tc_context *c;
  TC_TRY(tc_config_create(tc_system_allocator(), &config));
  tc_status s = configure(config, settings, n);
  if (s != TC_OK) {
    tc_config_destroy(config);
    return s;
  }
  TC_TRY(tc_context_create(tc_system_allocator(), config, (tc_logger){.write = tc_log_to_stderr}, &c));
  s = tc_context_open_backend(c);
  if (s == TC_OK) s = tc_eager_create(c, &c->eager);
  if (s != TC_OK) {
    tc_context_destroy(c);
    return s;
  }
  *out = c;
  return TC_OK;
}

int32_t tc_open(const char *const *settings, int32_t n_settings, tc_context **out) {
  return api_fail(open_context(settings, n_settings, out));
}

void tc_manual_seed(tc_context *c, uint64_t seed) { tc_context_set_seed(c, seed); }

void tc_close(tc_context *c) { tc_context_destroy(c); }

static void print_plugin(tc_sb *sb, const char *what, const tc_plugin *p) {
  if (!p) return;
  tc_sb_printf(sb, "%s: plugin " TC_SV_FMT " " TC_SV_FMT ", interface %u  # from the context\n", what,
               TC_SV_ARG(p->name), TC_SV_ARG(p->version), p->abi_major);
}

void api_print_environment(tc_sb *sb, const tc_context *c) {
  tc_sv backend = tc_config_text(c->config, TC_OPT_ID_BACKEND);
  tc_sb_printf(sb, "default device: " TC_SV_FMT " %lld  # from the context\n", TC_SV_ARG(backend),
               (long long)tc_config_int(c->config, TC_OPT_ID_DEVICE));
  if (!c->device) return;
  print_plugin(sb, "runs by", c->device->plugin);
  if (c->device->codegen != c->device->plugin) print_plugin(sb, "code by", c->device->codegen);
}

typedef struct log_target {
  void (*write)(void *self, const char *artifact, tc_sv text);
  void *self;
} log_target;

static void forward_log(void *self, int32_t artifact, tc_sv text) {
  const log_target *t = self;
  t->write(t->self, tc_log_name(artifact), text);
}

typedef struct log_change {
  tc_context *c;
  log_target target;
  const char *artifacts;
} log_change;

static tc_status change_logs(void *arg) {
  log_change *x = arg;
  tc_logger l = {.write = tc_log_to_stderr};
  TC_TRY(tc_log_parse(tc_sv_of(x->artifacts), &l));
  if (x->target.write) {
    l.write = forward_log;
    l.self = tc_arena_copy(x->c->arena, &x->target, sizeof x->target);
  }
  x->c->logger = l;
  return TC_OK;
}

int32_t tc_set_logs(tc_context *c, const char *artifacts, void (*write)(void *self, const char *artifact, tc_sv text),
                    void *self) {
  log_change x = {c, {write, self}, artifacts};
  return api_fail(tc_arena_guard(c->arena, change_logs, &x));
}
