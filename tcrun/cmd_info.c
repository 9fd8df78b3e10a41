// tcrun backends, plugins, ops, modes, config.
#include <stddef.h>
#include <stdio.h>

#include "tcrun/tcrun.h"

static tc_status open_context(run_options *o, tc_context **out) {
  tc_config *config = o->config;
  TC_TRY(tc_config_apply_mode(config));
  o->config = NULL;
  return tc_context_create(tc_system_allocator(), config, tc_logger_silent, out);
}

// Writes lines below the device's, indented.
static int32_t put_line(void *self, const void *data, uint64_t size) {
  const char *at = data;
  (void)self;
  for (uint64_t begin = 0, end; begin < size; begin = end + 1) {
    for (end = begin; end < size && at[end] != '\n';) end++;
    printf("%-10s %.*s\n", "", (int)(end - begin), at + begin);
  }
  return TC_STATUS_OK;
}

static void print_device(tc_sv kind, const tc_device *d) {
  const tc_device_table *t = d->plugin->device;
  printf("%-10.*s %s [%s]\n", (int)kind.size, kind.data, d->props.name, d->props.target);
  if (t->struct_size >= offsetof(tc_device_table, libraries) + sizeof t->libraries && t->libraries)
    t->libraries(d->handle, &(tc_sink){NULL, put_line});
}

tc_status cmd_backends(run_options *o) {
  tc_context *c;
  TC_TRY(open_context(o, &c));
  printf("ref        built in: every op on its reference\n");
  tc_sv *kinds;
  int32_t n;
  tc_status s = tc_plugins_device_kinds(c->plugins, o->arena, &kinds, &n);
  for (int32_t i = 0; s == TC_OK && i < n; i++) {
    tc_device *d = NULL;
    tc_device_options options = tc_context_device_options(c);
    options.cache_dir = NULL;
    tc_status bad = tc_device_open(c->arena, c->plugins, kinds[i], 0, &options, &d);
    if (bad == TC_OK) print_device(kinds[i], d);
    else printf("%-10.*s not usable: %s\n", (int)kinds[i].size, kinds[i].data, tc_status_text(bad));
    tc_status_free(bad);
    tc_device_close(d);
  }
  tc_context_destroy(c);
  return s;
}

tc_status cmd_plugins(run_options *o) {
  tc_context *c;
  TC_TRY(open_context(o, &c));
  tc_plugin *list;
  int32_t n;
  tc_status s = tc_plugins_list(c->plugins, o->arena, &list, &n);
  for (int32_t i = 0; s == TC_OK && i < n; i++) {
    const tc_plugin *p = &list[i];
    printf("%-12.*s %-10s " TC_SV_FMT " abi %u.%u priority %d%s" TC_SV_FMT "\n", (int)p->name.size, p->name.data,
           tc_plugin_state_name(p->state), TC_SV_ARG(p->version), p->abi_major, p->abi_minor_high, p->priority,
           p->reason.size ? ": " : "", TC_SV_ARG(p->reason));
  }
  tc_context_destroy(c);
  return s;
}

tc_status cmd_ops(run_options *o) {
  tc_context *c;
  tcrun_support *support = NULL;
  int32_t n_support = 0;
  TC_TRY(open_context(o, &c));
  tc_status s = tcrun_list_support(o, c->plugins, &support, &n_support);
  if (s != TC_OK || o->markdown) {
    if (s == TC_OK) tcrun_print_ops_page(o, c->ops, support, n_support);
    tc_context_destroy(c);
    return s;
  }
  tc_sv pattern = o->args.count ? o->args.data[0] : TC_SV("*");
  for (int32_t i = 0; i < tc_op_registry_count(c->ops); i++) {
    const tc_op *op = tc_op_registry_at(c->ops, i);
    const tc_op_def *d = op->def;
    if (!tc_sv_glob(op->full_name, pattern) && !tc_sv_glob(op->schema.name, pattern)) continue;
    const char *how = d->body                     ? "body"
                      : d->lower                  ? "lowering"
                      : d->decompose || d->expand ? "decomposition"
                                                  : "reference only";
    printf("%-48.*s %-14s %-8s", (int)op->full_name.size, op->full_name.data, how,
           op->plugin.size ? tc_sv_z(o->arena, op->plugin) : "core");
    for (int32_t k = 0; k < n_support; k++)
      printf("%s " TC_SV_FMT ": %s", k ? ";" : "", TC_SV_ARG(support[k].kind), tcrun_support_text(&support[k], op));
    printf("\n");
  }
  tc_context_destroy(c);
  return TC_OK;
}

tc_status cmd_modes(run_options *o) {
  const tc_mode_info *modes;
  int32_t n;
  TC_TRY(tc_config_modes(o->config, &modes, &n));
  for (int32_t i = 0; i < n; i++)
    printf("%-28.*s " TC_SV_FMT "\n", (int)modes[i].name.size, modes[i].name.data, TC_SV_ARG(modes[i].description));
  return TC_OK;
}

tc_status cmd_config(run_options *o) {
  TC_TRY(tc_config_apply_mode(o->config));
  tc_sb sb = tc_sb_make(o->arena);
  TC_TRY(tc_config_print(o->config, &sb));
  fputs(sb.text, stdout);
  return TC_OK;
}

// ---- cache ----
tc_status cmd_cache(run_options *o) {
  tc_context *c;
  tc_cache_size size, removed;
  TC_TRY(open_context(o, &c));
  tc_status s = TC_OK;
  if (!c->cache_dir) {
    printf("caches are off\n");
  } else {
    const char *folder = tc_path_join(o->arena, tc_sv_of(c->cache_dir), TC_SV("code")).data;
    tc_sv action = o->args.count ? o->args.data[0] : TC_SV("list");
    if (tc_sv_is(action, "list")) {
      s = tc_cache_measure(c->allocator, folder, &size);
      if (s == TC_OK) printf("%s: %lld entries, %lld bytes\n", folder, (long long)size.entries, (long long)size.bytes);
    } else if (tc_sv_is(action, "clear") || tc_sv_is(action, "bound")) {
      int64_t keep = tc_sv_is(action, "clear") ? 0 : tc_config_int(c->config, TC_OPT_ID_CACHE_MAX);
      s = tc_cache_shrink(c->allocator, folder, keep, &removed);
      if (s == TC_OK)
        printf("%s: removed %lld entries, %lld bytes\n", folder, (long long)removed.entries, (long long)removed.bytes);
    } else {
      s = tc_error(TC_STATUS_INVALID_ARGUMENT, "tcrun cache list, clear or bound, not '" TC_SV_FMT "'",
                   TC_SV_ARG(action));
    }
  }
  tc_context_destroy(c);
  return s;
}
