// The cache of plans. See plan_cache.h.
#include "core/runtime/plan_cache.h"

#include "core/base/fs.h"
#include "core/ir/userop.h"
#include "core/plan/blob.h"

#define ENTRY "plan"

// ---- keys ----
static void put_file(tc_sb *sb, const char *path) {
  int64_t size, ns;
  tc_file_stamp(path, &size, &ns);
  tc_sb_printf(sb, "%s %lld %lld\n", path, (long long)size, (long long)ns);
}

// Whatever takes part in compiling: another build of it may make another plan.
static tc_status put_programs(tc_context *c, tc_sb *sb) {
  tc_sv self;
  tc_plugin *plugins;
  int32_t n;
  TC_TRY(tc_self_file(sb->arena, &self));
  put_file(sb, tc_sv_z(sb->arena, self));
  TC_TRY(tc_plugins_list(c->plugins, sb->arena, &plugins, &n));
  for (int32_t i = 0; i < n; i++) {
    const tc_plugin *p = &plugins[i];
    put_file(sb, tc_sv_z(sb->arena, p->file));
    for (int32_t k = 0; k < p->n_libraries; k++)
      put_file(sb, tc_sv_z(sb->arena, tc_path_join(sb->arena, tc_path_dir(p->manifest), p->libraries[k])));
  }
  return TC_OK;
}

static bool wants_logs(const tc_context *c) {
  static const int32_t about[] = {TC_LOG_FUSION,     TC_LOG_SCHEDULE, TC_LOG_OUTPUT_CODE, TC_LOG_PERF_HINTS,
                                  TC_LOG_AOT_GRAPHS, TC_LOG_PASSES,   TC_LOG_GRAPH_BREAKS};
  for (size_t i = 0; i < sizeof about / sizeof *about; i++)
    if (tc_log_on(&c->logger, about[i])) return true;
  return false;
}

static tc_status make_key(tc_context *c, const tc_graph *g, tc_hash128 *out) {
  tc_sb sb = tc_sb_make(g->module->arena);
  tc_sv generator;
  TC_TRY(tc_device_generator_key(c->device, sb.arena, &generator));
  tc_sb_printf(&sb, "plan %d %s\n", TC_BLOB_FORMAT, TC_CORE_VERSION);
  TC_TRY(put_programs(c, &sb));
  TC_TRY(tc_config_code_key(c->config, &sb));
  const tc_device_props *p = &c->device->props;
  tc_sb_printf(&sb, "\n" TC_SV_FMT " %s %s %d threads\n", TC_SV_ARG(c->backend), p->name, p->target,
               c->executor.threads(c->executor.self));
  tc_sb_put(&sb, generator);
  tc_sb_putc(&sb, '\n');
  tc_user_ops_print(&sb, g);
  tc_graph_print(&sb, g);
  *out = tc_hash_long(sb.text, sb.size);
  return TC_OK;
}

bool tc_plan_cache_key(tc_context *c, const tc_graph *g, tc_hash128 *out) {
  if (!c->device || !c->device->cache || wants_logs(c)) return false;
  if (tc_config_bool(c->config, TC_OPT_ID_AUTOTUNE) || tc_debug_wanted(c)) return false;
  tc_status s = make_key(c, g, out);
  if (s == TC_OK) return true;
  tc_log(&c->logger, TC_LOG_CACHE, "no plan is kept: %s", tc_status_text(s));
  tc_status_free(s);
  return false;
}

// ---- reading ----
// From here on the graph stands for its inputs and outputs, as one behind all passes does.
static void take_outputs(tc_graph *g, const tc_graph *signature) {
  g->first = g->last = NULL;
  g->n_nodes = 0;
  if (g->outputs.count == signature->outputs.count) return;
  g->outputs.count = 0;
  for (int32_t i = 0; i < signature->outputs.count; i++)
    tc_vec_push(g->module->arena, &g->outputs, signature->outputs.data[i]);
}

tc_status tc_plan_entry_read(tc_context *c, tc_sv entry, tc_graph *g, tc_compiled *out) {
  tc_blob *b;
  *out = (tc_compiled){.graph = g};
  TC_TRY(tc_blob_open(g->module->arena, entry, &b));
  TC_TRY(tc_blob_get_plan(b, TC_SV(ENTRY), g->module, &out->plan));
  const tc_graph *signature = out->plan->graph;
  if (signature->inputs.count != g->inputs.count || signature->outputs.count < g->outputs.count)
    return tc_error(TC_STATUS_DATA_LOSS, "the plan has other inputs or outputs than the graph");
  TC_TRY(tc_exec_create_late(c->device, out->plan, tc_device_load_texts, &out->exec, &out->stats));
  tc_status s = tc_exec_set_replays(out->exec, tc_context_replays(c));
  if (s == TC_OK) take_outputs(g, signature);
  else tc_exec_destroy(out->exec);
  return s;
}

bool tc_plan_cache_load(tc_context *c, tc_hash128 key, tc_graph *g, tc_compiled *out) {
  tc_sv entry;
  double start = tc_now_ms();
  bool hit = tc_cache_get(c->device->cache, g->module->arena, key, &entry);
  tc_log(&c->logger, TC_LOG_CACHE, "%s %016llx%016llx plan @" TC_SV_FMT, hit ? "hit" : "miss",
         (unsigned long long)key.hi, (unsigned long long)key.lo, TC_SV_ARG(g->name));
  if (!hit) return false;
  tc_status s = tc_plan_entry_read(c, entry, g, out);
  if (s != TC_OK) {
    tc_log(&c->logger, TC_LOG_CACHE, "the plan is made anew: %s", tc_status_text(s));
    tc_status_free(s);
    *out = (tc_compiled){0};
    return false;
  }
  out->ms[TC_STAGE_EXEC] = tc_now_ms() - start;
  return true;
}

// ---- writing ----
tc_status tc_plan_entry_write(tc_context *c, const tc_plan *p, bool texts, tc_sv *out) {
  tc_arena *arena = p->arena;
  tc_blob_writer *w = tc_blob_begin(arena);
  const tc_kernel *const *kernels;
  int32_t n;
  tc_sb text = tc_sb_make(arena);
  tc_plan_print_coded(&text, p, &n, &kernels);
  tc_plan_code *code = TC_NEW_ARRAY(arena, tc_plan_code, n);
  TC_TRY(tc_device_export(c->device, arena, n, kernels, false, code));
  for (int32_t i = 0; i < n && texts; i++) {
    tc_sb kernel = tc_sb_make(arena);
    tc_kernel_print(&kernel, kernels[i]);
    code[i].text = tc_sb_view(&kernel);
  }
  TC_TRY(tc_blob_add_plan(w, TC_SV(ENTRY), tc_sb_view(&text), n, code));
  *out = tc_blob_bytes(w);
  return TC_OK;
}

void tc_plan_cache_store(tc_context *c, tc_hash128 key, const tc_plan *p) {
  tc_sv entry;
  if (p->n_code) return;
  tc_status s = tc_plan_entry_write(c, p, false, &entry);
  if (s == TC_OK) tc_cache_put(c->device->cache, key, entry);
  else tc_log(&c->logger, TC_LOG_CACHE, "no plan is kept: %s", tc_status_text(s));
  tc_status_free(s);
}
