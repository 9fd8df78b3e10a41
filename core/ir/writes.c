// The functional forms of ops that write to arguments (writes.h).
#include "core/ir/writes.h"

#include <stdio.h>

#include "core/ir/opargs.h"

// What is written beside the results: the new values are the functional op's results from `first` on.
static const struct {
  const char *op, *training; // name of the flag that must be true; NULL: always
  const char *functional;
  int32_t first, keep;
} beside[] = {
    {"batch_norm", "training", "aten::_native_batch_norm_legit_functional", 3, 1},
    {"native_batch_norm", "training", "aten::_native_batch_norm_legit_functional", 3, 3},
    {"_native_batch_norm_legit", NULL, "aten::_native_batch_norm_legit_functional", 3, 3},
    {"_batch_norm_with_update", NULL, "aten::_batch_norm_with_update_functional", 4, 4},
    {"instance_norm", "use_input_stats", "tc::instance_norm_functional", 1, 1},
};

static int32_t named(const tc_op *op, tc_sv name) {
  for (int32_t i = 0; i < op->schema.n_args; i++)
    if (tc_sv_eq(op->schema.args[i].name, name)) return i;
  return -1;
}

// ---- beside the results ----
tc_writes tc_writes_beside(const tc_op_registry *ops, const tc_op *op, int32_t n_args, const tc_arg *args) {
  static const char *const statistics[] = {"running_mean", "running_var"};
  tc_writes w = {0};
  for (size_t r = 0; r < sizeof beside / sizeof *beside; r++) {
    if (!tc_sv_is(op->schema.name, beside[r].op) || !tc_sv_is(op->schema.ns, "aten")) continue;
    int32_t flag = beside[r].training ? named(op, tc_sv_of(beside[r].training)) : -1;
    if (flag >= 0 && !(args[flag].kind == TC_AK_BOOL && args[flag].integer)) continue;
    for (int32_t k = 0; k < 2; k++) {
      int32_t i = named(op, tc_sv_of(statistics[k]));
      if (i < 0 || i >= n_args || args[i].kind != TC_AK_TENSOR) continue;
      w.written[w.n].arg = i, w.written[w.n++].result = beside[r].first + k;
    }
    w.keep = beside[r].keep;
    if (w.n) w.functional = tc_op_find(ops, tc_sv_of(beside[r].functional));
  }
  return w;
}

// ---- into arguments ----
// Are the arguments of `s` those of `op` without the written ones?
static bool fits(const tc_schema *s, const tc_schema *op) {
  for (int32_t k = 0; k < s->n_args; k++)
    if (s->args[k].writes) return false;
  for (int32_t i = 0; i < op->n_args; i++) {
    const tc_schema_arg *a = &op->args[i];
    bool found = a->writes;
    for (int32_t k = 0; k < s->n_args && !found; k++)
      found = tc_sv_eq(s->args[k].name, a->name) && s->args[k].type == a->type && s->args[k].is_list == a->is_list;
    if (!found) return false;
  }
  return s->n_returns >= 1;
}

// The overload of the same base name without the written arguments.
static const tc_op *without_written(const tc_op_registry *r, const tc_op *op) {
  char base[256];
  int32_t count = 0;
  if (op->schema.ns.size + op->schema.name.size + 3 > sizeof base) return NULL;
  int n = snprintf(base, sizeof base, TC_SV_FMT "::" TC_SV_FMT, TC_SV_ARG(op->schema.ns), TC_SV_ARG(op->schema.name));
  const tc_op *const *all = tc_op_overloads(r, (tc_sv){base, (size_t)n}, &count);
  for (int32_t c = 0; c < count; c++)
    if (fits(&all[c]->schema, &op->schema)) return all[c];
  return NULL;
}

tc_writes tc_writes_of(const tc_node *n) {
  const tc_op_registry *ops = n->graph->module->ops;
  tc_writes w = tc_writes_beside(ops, n->op, n->n_args, n->args);
  if (w.n || tc_op_functional(ops, n->op)) return w;
  w = (tc_writes){0};
  for (int32_t i = 0; i < n->n_args && i < n->op->schema.n_args && w.n < TC_MOST_WRITTEN; i++) {
    if (!n->op->schema.args[i].writes) continue;
    w.written[w.n].arg = i, w.written[w.n].result = w.n;
    w.n++;
  }
  if (w.n) w.functional = n->op->out_of ? n->op->out_of : without_written(ops, n->op);
  return w;
}

tc_status tc_writes_call(const tc_writes *w, tc_graph *g, tc_node *before, const tc_node *n, tc_node **out) {
  const tc_op *f = w->functional;
  tc_arg *args = TC_NEW_ARRAY(g->module->arena, tc_arg, f->schema.n_args);
  for (int32_t i = 0; i < f->schema.n_args; i++) {
    const tc_schema_arg *s = &f->schema.args[i];
    int32_t k = named(n->op, s->name);
    args[i] = k >= 0 && k < n->n_args ? n->args[k]
              : s->has_default        ? tc_arg_of_preset(g->module, &s->preset)
                                      : tc_arg_none();
  }
  TC_TRY(tc_graph_add_node(g, before, f, f->schema.n_args, args, n->n_results ? n->results[0]->name : n->name,
                           n->source, out));
  (*out)->stream = n->stream;
  return TC_OK;
}
