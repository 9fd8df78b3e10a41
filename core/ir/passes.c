// The pass manager: every pass runs through here, so that each can be printed, skipped, verified and bisected.
#include "core/ir/op.h"

static tc_sv print(const tc_graph *g) {
  tc_sb sb = tc_sb_make(g->module->arena);
  tc_graph_print(&sb, g);
  return tc_sb_view(&sb);
}

static bool skipped(tc_sv list, const char *name) {
  tc_sv head;
  while (list.size) {
    list = tc_sv_cut(list, ',', &head);
    if (tc_sv_is(tc_sv_trim(head), name)) return true;
  }
  return false;
}

static tc_status run_one(tc_graph *g, const tc_pass *p, const tc_pass_options *o, int32_t round, bool *progress) {
  bool log = o->logger && tc_log_on(o->logger, TC_LOG_PASSES);
  tc_sv before = o->verify || log ? print(g) : (tc_sv){0};
  *progress = false;
  TC_TRY(p->run(g, progress), "in the pass '%s'", p->name);
  if (!o->verify && !log) return TC_OK;
  tc_sv after = print(g);
  if (log && *progress)
    tc_log(o->logger, TC_LOG_PASSES, "after '%s', round %d:\n" TC_SV_FMT, p->name, round, TC_SV_ARG(after));
  if (!o->verify) return TC_OK;
  TC_TRY(tc_graph_verify(g), "after the pass '%s'", p->name);
  if (*progress == tc_sv_eq(before, after))
    return tc_error(TC_STATUS_INTERNAL, "the pass '%s' says that it made %s, the graph says otherwise", p->name,
                    *progress ? "progress" : "no progress");
  return TC_OK;
}

tc_status tc_run_passes(tc_graph *g, const tc_pass *const *passes, int32_t n, int32_t rounds,
                        const tc_pass_options *options) {
  static const tc_pass_options plain = {0};
  const tc_pass_options *o = options ? options : &plain;
  int32_t runs = 0;
  if (o->verify) TC_TRY(tc_graph_verify(g), "before the first pass");
  for (int32_t round = 0; round < rounds; round++) {
    bool any = false, progress;
    for (int32_t i = 0; i < n; i++) {
      if (skipped(o->skip, passes[i]->name)) continue;
      if (o->stop_after > 0 && runs == o->stop_after) return TC_OK;
      runs++;
      TC_TRY(run_one(g, passes[i], o, round, &progress));
      any = any || progress;
    }
    if (!any) break;
  }
  return TC_OK;
}
