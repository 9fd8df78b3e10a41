// Kernels that embedders write by hand, and the question whether a backend is there.
#include "core/api/internal.h"
#include "core/ir/userop.h"

typedef struct definition {
  tc_context *c;
  const char *text;
} definition;

static tc_status define(void *arg) {
  const definition *d = arg;
  tc_user_device device = tc_context_user_device(d->c);
  tc_lexer lx;
  tc_lex_init(&lx, d->c->arena, TC_SV("definition"), tc_sv_of(d->text));
  if (!tc_lex_at(&lx, "op")) return tc_lex_error(&lx, "expected a definition: op \"user::name(…) -> …\" { … }");
  TC_TRY(tc_user_ops_define(d->c->ops, &lx, &device));
  return lx.tok.kind == TC_TOK_END ? TC_OK : tc_lex_error(&lx, "the definitions end before this");
}

int32_t tc_kernel_define(tc_context *c, const char *text) {
  definition d = {c, text};
  return api_fail(tc_arena_guard(c->arena, define, &d));
}

int32_t tc_has_backend(const tc_context *c, const char *name) {
  tc_plugin *p;
  int32_t count = 0;
  if (tc_sv_is(TC_SV("ref"), name)) return 1;
  if (!*name) return 0;
  tc_status s = tc_plugins_find_device(c->plugins, tc_sv_of(name), &p);
  if (s == TC_OK)
    s = tc_plugin_status(p, p->device->enumerate(p->host, &count), "while looking for devices of '%s'", name);
  bool there = s == TC_OK && count > 0;
  tc_status_free(s);
  return there;
}
