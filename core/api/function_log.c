// What compiled functions tell: guards, what made an entry fail, segments, that calls run op by op. The arena that a
// text is made in is its entry's, so that logging happens under the function's lock.
#include "core/api/function.h"

typedef struct log_text {
  tc_function *f;
  const function_entry *x;
  const tc_guard_miss *miss;
} log_text;

typedef struct line_text {
  const tc_function *f;
  const api_line *x;
} line_text;

void function_print_guards(tc_sb *sb, const tc_function *f, const tc_guards *g) {
  tc_guards_print(sb, g);
  for (int32_t i = 0; i < f->n_wrt; i++)
    tc_sb_printf(sb, "%s%d", i ? ", " : "gradient with respect to inputs ", f->wrt[i]);
  tc_sb_putz(sb, f->n_wrt ? "  # from tc_value_and_grad\n" : "no gradient  # from tc_compile\n");
  api_print_environment(sb, f->context);
}

static tc_status log_guards(void *arg) {
  log_text *l = arg;
  tc_arena *arena = l->x->module->arena;
  tc_sb sb = tc_sb_make(arena);
  function_print_guards(&sb, l->f, l->x->guards);
  tc_log(&l->f->context->logger, TC_LOG_GUARDS, TC_SV_FMT " [%d/%d]\n%s", TC_SV_ARG(l->f->name), l->f->id, l->x->id,
         sb.text);
  return TC_OK;
}

void function_log_guards(tc_function *f, const function_entry *x) {
  log_text l = {.f = f, .x = x};
  if (tc_log_on(&f->context->logger, TC_LOG_GUARDS)) tc_status_free(tc_arena_guard(x->module->arena, log_guards, &l));
}

static tc_status log_miss(void *arg) {
  log_text *l = arg;
  tc_sb sb = tc_sb_make(l->x->module->arena);
  tc_guard_miss_print(&sb, l->x->guards, l->miss);
  tc_log(&l->f->context->logger, TC_LOG_RECOMPILES, "recompiling " TC_SV_FMT " [%d/%d]: %s", TC_SV_ARG(l->f->name),
         l->f->id, l->f->n_entries, sb.text);
  return TC_OK;
}

// What made each entry fail; the newest first. Under the lock, which keeps the arenas to one thread.
void function_log_misses(tc_function *f, const tc_tensor *inputs) {
  int64_t symbols[FUNCTION_SYMBOLS];
  if (!tc_log_on(&f->context->logger, TC_LOG_RECOMPILES)) return;
  for (const function_entry *x = f->entries; x; x = x->next) {
    tc_guard_miss m = tc_guards_check(x->guards, inputs, symbols);
    log_text l = {f, x, &m};
    tc_status_free(tc_arena_guard(x->module->arena, log_miss, &l));
  }
}

void function_say_once(tc_function *f, const char *why) {
  if (__atomic_exchange_n(&f->said, true, __ATOMIC_RELAXED)) return;
  static const int32_t artifacts[] = {TC_LOG_GRAPH_BREAKS, TC_LOG_PERF_HINTS};
  for (int32_t i = 0; i < 2; i++)
    tc_log(&f->context->logger, artifacts[i], TC_SV_FMT " [%d]: %s op by op", TC_SV_ARG(f->name), f->id, why);
}

// A new segment: what was captured, by op, and what its guards are.
static tc_status log_line_guarded(void *arg) {
  const line_text *l = arg;
  const tc_logger *lg = &l->f->context->logger;
  tc_sb sb = tc_sb_make(l->x->module->arena);
  for (int32_t i = 0, word = 0; i < l->x->records.count; i++) {
    const tc_op *op = (const tc_op *)(uintptr_t)l->x->words.data[word];
    tc_sb_printf(&sb, "%s" TC_SV_FMT, i ? ", " : "", TC_SV_ARG(op->full_name));
    word = l->x->records.data[i].words;
  }
  const char *how = l->x->session ? "compiled" : l->x->idle ? "not needed" : "op by op";
  tc_log(lg, TC_LOG_GRAPH_BREAKS, TC_SV_FMT " [%d] segment s%d, %s: %s", TC_SV_ARG(l->f->name), l->f->id, l->x->id, how,
         sb.text ? sb.text : "");
  if (!tc_log_on(lg, TC_LOG_GUARDS)) return TC_OK;
  tc_sb guards = tc_sb_make(l->x->module->arena);
  function_print_guards(&guards, l->f, l->x->guards);
  tc_log(lg, TC_LOG_GUARDS, TC_SV_FMT " [%d/s%d]\n%s", TC_SV_ARG(l->f->name), l->f->id, l->x->id,
         guards.text ? guards.text : "");
  return TC_OK;
}

void function_log_line(const tc_function *f, const api_line *x) {
  const tc_logger *lg = &f->context->logger;
  line_text l = {f, x};
  if (tc_log_on(lg, TC_LOG_GRAPH_BREAKS) || tc_log_on(lg, TC_LOG_GUARDS))
    tc_status_free(tc_arena_guard(x->module->arena, log_line_guarded, &l));
}
