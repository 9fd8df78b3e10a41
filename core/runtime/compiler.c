// What makes a context one that compiles: the ops and templates of the core and of plugins, and all that plugins are
// lent.
#include "core/base/fs.h"
#include "core/ir/userop.h"
#include "core/kernel/templates/templates.h"
#include "core/ops/ops.h"
#include "core/runtime/eager.h"
#include "core/runtime/tune.h"

static tc_status take_rows(tc_context *c, const tc_plugin *p) {
  for (int32_t q = 0; q < p->n_ops; q++) TC_TRY(tc_op_register(c->ops, &p->ops[q], p->name));
  for (int32_t q = 0; q < p->n_templates; q++) tc_template_register(c->arena, &c->templates, p->templates[q]);
  return TC_OK;
}

static tc_status set_up(tc_context *c, int32_t n, const tc_plugin *list) {
  TC_TRY(tc_op_registry_create(c->arena, &c->ops));
  TC_TRY(tc_ops_register_core(c->ops));
  tc_templates_register_core(c->arena, &c->templates);
  // Ops and templates of plugins that claim some in their manifests.
  for (int32_t i = 0; i < n; i++) {
    if (!(list[i].capabilities & (TC_CAP_OPS | TC_CAP_TEMPLATES)) || list[i].state == TC_PLUGIN_REFUSED) continue;
    tc_plugin **loaded;
    int32_t count;
    TC_TRY(tc_plugins_find_all(c->plugins, c->arena, list[i].capabilities & TC_CAP_OPS ? TC_CAP_OPS : TC_CAP_TEMPLATES,
                               TC_SV(""), &loaded, &count));
    for (int32_t k = 0; k < count; k++)
      if (tc_sv_eq(loaded[k]->name, list[i].name)) TC_TRY(take_rows(c, loaded[k]));
  }
  return TC_OK;
}

tc_user_device tc_context_user_device(const tc_context *c) {
  tc_user_device d = {.generates = c->device && c->device->codegen};
  if (d.generates) d.language = c->device->codegen->codegen->source_language;
  return d;
}

tc_status tc_context_define(tc_context *c, tc_sv name, tc_sv text, const tc_user_device *device) {
  tc_lexer lx;
  tc_lex_init(&lx, c->arena, name, text);
  if (!tc_lex_at(&lx, "op")) return tc_lex_error(&lx, "expected a definition: op \"user::name(…) -> …\" { … }");
  TC_TRY(tc_user_ops_define(c->ops, &lx, device));
  return lx.tok.kind == TC_TOK_END ? TC_OK : tc_lex_error(&lx, "the definitions end before this");
}

// Kernels by hand for programs that carry none: which source of them is taken depends on the device.
static tc_status opened(tc_context *c) {
  const tc_sv *files;
  int32_t n = tc_config_list(c->config, TC_OPT_ID_KERNELS, &files);
  tc_user_device device = tc_context_user_device(c);
  for (int32_t i = 0; i < n; i++) {
    tc_sv text;
    TC_TRY(tc_file_read(c->arena, tc_sv_z(c->arena, files[i]), &text), "while reading kernels by hand");
    TC_TRY(tc_context_define(c, files[i], text, &device));
  }
  return TC_OK;
}

static void close_eager(tc_context *c) { tc_eager_destroy(c->eager); }

tc_status tc_context_create(const tc_allocator *a, tc_config *config, tc_logger logger, tc_context **out) {
  tc_context_parts parts = {.tables = tc_host_tables_core(),
                            .set_up = set_up,
                            .opened = opened,
                            .close = close_eager,
                            .tuned = tc_tuned_call};
  return tc_context_create_with(a, config, logger, &parts, out);
}

typedef struct addition {
  tc_context *c;
  tc_plugin *p;
} addition;
static tc_status add_rows(void *arg) {
  const addition *x = arg;
  return take_rows(x->c, x->p);
}

tc_status tc_context_add_plugin(tc_context *c, const char *path, tc_plugin **out) {
  addition x = {.c = c};
  TC_TRY(tc_plugins_add_file(c->plugins, path, &x.p));
  *out = x.p;
  bool known = x.p->state == TC_PLUGIN_LOADED; // it lay in one of the folders
  if (known || !(x.p->capabilities & (TC_CAP_OPS | TC_CAP_TEMPLATES))) return TC_OK;
  TC_TRY(tc_plugins_load(c->plugins, x.p));
  return tc_arena_guard(c->arena, add_rows, &x);
}
