// tcrun ops --markdown: the page docs/ops.md, one line per op name, from what the rows declare. A test holds the page
// in the tree to it.
#include <stdio.h>
#include <stdlib.h>

#include "core/ir/control.h"
#include "core/ir/expand.h"
#include "tcrun/tcrun.h"

static const char head[] =
    "# Ops\n"
    "\n"
    "Made by `tcrun ops --markdown > docs/ops.md` from the rows in `core/ops` and in `plugins/fft` and from the "
    "plugins'\n"
    "manifests; a test holds it to them. Names without `::` are in `aten::`. In-place forms (`add_`) and forms with "
    "`out` follow\n"
    "from these and are not listed. `tcrun explain MODEL` says what a backend does with one, and why.\n"
    "\n"
    "- **dtypes**: *real* are all floats, integers and bool that the op has a meaning on; other ops fail at compile "
    "time on complex.\n"
    "- **ref** and the kinds of devices that plugins drive, what becomes of the op there:\n"
    "  *reference*: computed in plain C; *codegen*: part of a generated kernel; *view*: an index map, of no cost; "
    "*decomposition*: taken\n"
    "  apart into other ops; *library*: also, or only, a call, where the library is there and takes the sizes and "
    "dtypes; *fallback*:\n"
    "  the reference, on the host's memory, also where a library is not there or does not take them; *control*: plans "
    "inside plans.\n"
    "- **derivative**: *own*; *parts*: that of what it is made of; –: none.\n"
    "- **flops**: per use, two for a multiply and add; a name in front is PyTorch's FlopCounterMode's; *body*: the "
    "operations of its\n"
    "  text per element; *parts*: those of what it is made of; –: it moves, orders, makes or draws data.\n"
    "\n";

static int by_name(const void *a, const void *b) {
  const tc_op *x = *(const tc_op *const *)a, *y = *(const tc_op *const *)b;
  int c = tc_sv_cmp(x->schema.ns, y->schema.ns);
  if (c == 0) c = tc_sv_cmp(x->schema.name, y->schema.name);
  return c ? c : tc_sv_cmp(x->schema.overload, y->schema.overload);
}

static bool is_listed(const tc_op *op) {
  for (int32_t i = 0; i < op->schema.n_args; i++)
    if (op->schema.args[i].writes) return false;
  return true;
}

// ---- Support ----
tc_status tcrun_list_support(run_options *o, tc_plugins *plugins, tcrun_support **out, int32_t *out_n) {
  tc_plugin *list;
  tc_sv *kinds;
  int32_t n, n_kinds;
  TC_TRY(tc_plugins_list(plugins, o->arena, &list, &n));
  TC_TRY(tc_plugins_device_kinds(plugins, o->arena, &kinds, &n_kinds));
  tcrun_support *s = TC_NEW_ARRAY(o->arena, tcrun_support, n_kinds + 1);
  s[0] = (tcrun_support){.kind = TC_SV("ref")};
  for (int32_t k = 0; k < n_kinds; k++) s[k + 1] = (tcrun_support){.kind = kinds[k], .plugins = list, .n_plugins = n};
  *out = s;
  *out_n = n_kinds + 1;
  return TC_OK;
}

// Has a plugin for these devices that capability; with an op: are its libraries asked about it?
static bool has(const tcrun_support *s, uint64_t capability, const tc_op *op) {
  for (int32_t i = 0; i < s->n_plugins; i++) {
    const tc_plugin *p = &s->plugins[i];
    if (p->state == TC_PLUGIN_REFUSED || !(p->capabilities & capability) || !tc_plugin_serves(p, s->kind)) continue;
    if (!op || tc_plugin_calls(p, op->full_name)) return true;
  }
  return false;
}

const char *tcrun_support_text(const tcrun_support *s, const tc_op *op) {
  const tc_op_def *d = op->def;
  bool parts = !d->body && !d->lower && tc_op_can_expand(op);
  if (tc_op_control(op) != TC_CONTROL_NONE) return "control";
  if (d->traits & TC_OP_VIEW) return "view";
  if (!s->plugins) return parts ? "decomposition" : "reference";
  bool library = has(s, TC_CAP_CALLS, op);
  if (parts) return library ? "decomposition, library" : "decomposition";
  if ((d->body || d->lower) && has(s, TC_CAP_CODEGEN, NULL)) return library ? "codegen, library" : "codegen";
  return library ? "library, fallback" : "fallback";
}

// ---- The page ----

static const char *derivative_text(const run_options *o, const tcrun_support *s, const tc_op *op) {
  (void)o, (void)s;
  if (op->grad.n_results || op->forward.n_results) return "own";
  return tc_op_can_expand(op) ? "parts" : "–";
}

static const char *flops_text(const run_options *o, const tcrun_support *s, const tc_op *op) {
  (void)s;
  const tc_op_def *d = op->def;
  if (d->flops) return tc_sv_printf(o->arena, "`%s`", d->flops).data;
  return d->body ? "body" : tc_op_can_expand(op) ? "parts" : "–";
}

static bool same_op(const tc_op *a, const tc_op *b) {
  return tc_sv_eq(a->schema.ns, b->schema.ns) && tc_sv_eq(a->schema.name, b->schema.name);
}

// What a column says of an op; `s` is the backend's, of the columns that have one.
typedef const char *(*column_fn)(const run_options *o, const tcrun_support *s, const tc_op *op);

// A cell over the overloads first … end - 1: each text once.
static void cell(const run_options *o, const tc_op *const *first, const tc_op *const *end, const tcrun_support *s,
                 column_fn text) {
  tc_sb sb = tc_sb_make(o->arena);
  for (const tc_op *const *op = first; op < end; op++) {
    bool said = false;
    const char *t = text(o, s, *op);
    for (const tc_op *const *other = first; other < op && !said; other++) said = strcmp(text(o, s, *other), t) == 0;
    if (!said) tc_sb_printf(&sb, "%s%s", sb.size ? "; " : "", t);
  }
  printf(" %s |", sb.size ? sb.text : "");
}
static const char *dtypes_text(const run_options *o, const tcrun_support *s, const tc_op *op) {
  (void)o, (void)s;
  return op->def->traits & TC_OP_COMPLEX ? "real, complex" : "real";
}
static const char *support_text(const run_options *o, const tcrun_support *s, const tc_op *op) {
  (void)o;
  return tcrun_support_text(s, op);
}

void tcrun_print_ops_page(const run_options *o, const tc_op_registry *ops, const tcrun_support *support,
                          int32_t n_support) {
  int32_t n = 0, names = 0, all = tc_op_registry_count(ops);
  const tc_op **list = TC_NEW_ARRAY(o->arena, const tc_op *, all);
  for (int32_t i = 0; i < all; i++)
    if (is_listed(tc_op_registry_at(ops, i))) list[n++] = tc_op_registry_at(ops, i);
  qsort(list, (size_t)n, sizeof *list, by_name);
  fputs(head, stdout);
  printf("| op | overloads | dtypes |");
  for (int32_t i = 0; i < n_support; i++) printf(" " TC_SV_FMT " |", TC_SV_ARG(support[i].kind));
  printf(" derivative | flops |\n|---|---|---|");
  for (int32_t i = 0; i < n_support; i++) printf("---|");
  printf("---|---|\n");
  for (const tc_op *const *first = list, *const *end; first < list + n; first = end, names++) {
    for (end = first; end < list + n && same_op(*first, *end);) end++;
    bool aten = tc_sv_is((*first)->schema.ns, "aten");
    printf("| `" TC_SV_FMT "%s" TC_SV_FMT "` |", TC_SV_ARG(aten ? (tc_sv){0} : (*first)->schema.ns),
           aten ? "" : "::", TC_SV_ARG((*first)->schema.name));
    for (const tc_op *const *op = first; op < end; op++)
      if ((*op)->schema.overload.size || end - first > 1)
        printf(" " TC_SV_FMT, TC_SV_ARG((*op)->schema.overload.size ? (*op)->schema.overload : TC_SV("default")));
    printf(" |");
    cell(o, first, end, NULL, dtypes_text);
    for (int32_t i = 0; i < n_support; i++) cell(o, first, end, &support[i], support_text);
    cell(o, first, end, NULL, derivative_text);
    cell(o, first, end, NULL, flops_text);
    printf("\n");
  }
  printf("\n%d overloads of %d ops.\n", n, names);
}
