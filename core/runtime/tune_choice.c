// What tuning records are asked, and how their keys are written.
//
// A node's key is its op, the types of its tensors (sizes by their hints) and its other arguments; a template's stage
// writes its own (core/kernel/emit_stage.c). Winners: "kernel", "call LIBRARY VARIANT", "config …".
#include "core/runtime/tune.h"

#include "tc/template.h"

#define CALLS_SITE "calls." // in front of the op's name: templates have plain names

// ---- Nodes ----
static void put_type(tc_sb *sb, tc_sym_ctx *c, const tc_tensor_type *t) {
  tc_sb_putz(sb, tc_dtype_name(t->dtype));
  for (int32_t d = 0; d < t->rank; d++) tc_sb_printf(sb, " %lld", (long long)tc_sym_hint_or(c, t->sizes[d], -1));
  for (int32_t d = 0; t->strides && d < t->rank; d++)
    tc_sb_printf(sb, ":%lld", (long long)tc_sym_hint_or(c, t->strides[d], -1));
  tc_sb_putc(sb, ';');
}

static tc_sv key_of(tc_arena *arena, const tc_node *n) {
  tc_sym_ctx *c = n->graph->module->syms;
  tc_sb sb = tc_sb_make(arena);
  tc_sb_put(&sb, n->op->full_name);
  tc_sb_putc(&sb, '(');
  for (int32_t i = 0; i < n->n_args; i++) {
    const tc_arg *a = &n->args[i];
    if (a->kind == TC_AK_TENSOR && a->value) put_type(&sb, c, &a->value->type);
    for (int32_t k = 0; a->kind == TC_AK_TENSORS && k < a->n; k++)
      if (a->values[k]) put_type(&sb, c, &a->values[k]->type);
    if (a->kind == TC_AK_TENSOR || a->kind == TC_AK_TENSORS) continue;
    tc_arg_print(&sb, a, i < n->op->schema.n_args ? n->op->schema.args[i].type : TC_ST_OTHER);
    tc_sb_putc(&sb, ';');
  }
  return tc_sb_view(&sb);
}

static tc_sv site_of(tc_arena *arena, const tc_node *n) {
  return tc_sv_printf(arena, CALLS_SITE TC_SV_FMT, TC_SV_ARG(n->op->full_name));
}

int32_t tc_tuned_call(tc_device *d, tc_arena *arena, const tc_node *n, const tc_device_calls **out_calls,
                      int32_t *out_variant) {
  tc_sv winner, word, name;
  int64_t variant;
  if (!d->tuning || !tc_tuning_find(d->tuning, arena, site_of(arena, n), key_of(arena, n), &winner))
    return TC_TUNED_NOT;
  if (tc_sv_is(winner, "kernel")) return TC_TUNED_KERNEL;
  tc_sv number = tc_sv_cut(tc_sv_cut(winner, ' ', &word), ' ', &name);
  if (!tc_sv_is(word, "call") || !tc_sv_to_int(number, &variant) || variant < 0 || variant > INT32_MAX)
    return TC_TUNED_NOT;
  for (int32_t i = 0; i < d->n_calls; i++) {
    if (!tc_sv_eq(d->calls[i].table->name, name)) continue;
    *out_calls = &d->calls[i];
    *out_variant = (int32_t)variant;
    return TC_TUNED_CALL;
  }
  return TC_TUNED_NOT;
}

void tc_tuned_keep(tc_device *d, tc_arena *arena, const tc_node *n, const tc_device_calls *calls, int32_t variant,
                   double ns) {
  tc_sv winner = TC_SV("kernel");
  if (calls) winner = tc_sv_printf(arena, "call " TC_SV_FMT " %d", TC_SV_ARG(calls->table->name), variant);
  tc_tuning_keep(d->tuning, site_of(arena, n), key_of(arena, n), winner, ns);
}

// ---- Configurations of templates ----
static tc_sv config_text(tc_arena *arena, const tc_stage_config *c) {
  tc_sb sb = tc_sb_make(arena);
  tc_sb_printf(&sb, "config %d %d", c->lanes, c->row_lanes);
  for (int32_t i = 0; i < TC_MAX_RANK; i++) tc_sb_printf(&sb, "%c%lld", i ? ',' : ' ', (long long)c->tile[i]);
  for (int32_t i = 0; i < 8; i++) tc_sb_printf(&sb, "%c%lld", i ? ',' : ' ', (long long)c->params[i]);
  return tc_sb_view(&sb);
}

int32_t tc_tuned_config(void *self, tc_sv name, tc_sv stage, int32_t n, const tc_stage_config *configs) {
  const tc_config_pick *p = self;
  if (p->trial) {
    tc_trial *t = p->trial;
    int32_t at = t->config < n ? t->config : 0;
    if (n > t->n_configs) t->n_configs = n;
    tc_vec_push(p->arena, &t->picked, tc_sv_copy(p->arena, name));
    tc_vec_push(p->arena, &t->picked, tc_sv_copy(p->arena, stage));
    tc_vec_push(p->arena, &t->picked, config_text(p->arena, &configs[at]));
    return at;
  }
  tc_sv winner;
  if (!tc_tuning_find(p->device->tuning, p->arena, name, stage, &winner)) return 0;
  for (int32_t i = 0; i < n; i++)
    if (tc_sv_eq(config_text(p->arena, &configs[i]), winner)) return i;
  return 0;
}

void tc_tuned_keep_configs(tc_device *d, const tc_trial *t, double ns) {
  for (int32_t i = 0; i + 2 < t->picked.count; i += 3)
    tc_tuning_keep(d->tuning, t->picked.data[i], t->picked.data[i + 1], t->picked.data[i + 2], ns);
}
