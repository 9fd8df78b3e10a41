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
    "Made by `tcrun ops --markdown > docs/ops.md` from the rows in `core/ops` and in `plugins/fft`; a test holds it to "
    "them.\n"
    "Names without `::` are in `aten::`. In-place forms (`add_`) and forms with `out` follow from these and are not "
    "listed.\n"
    "Every op has a reference, directly or through its parts; `tcrun explain MODEL` says what a backend does with "
    "one.\n"
    "\n"
    "- **dtypes**: *real* are all floats, integers and bool that the op has a meaning on; other ops fail at compile "
    "time "
    "on complex.\n"
    "- **how**: *kernel*: generated on every backend that generates code; *view*: an index map; *parts*: taken apart "
    "into "
    "other ops,\n"
    "  in any mode; *library*: a call where the device has one (`cpu`: LAPACK), else the reference; *control*: plans "
    "inside plans.\n"
    "- **derivative**: *own*; *parts*: that of what it is made of; –: none.\n"
    "- **flops**: per use, two for a multiply and add; a name in front is PyTorch's FlopCounterMode's; *body*: the "
    "operations of its\n"
    "  text per element; *parts*: those of what it is made of; –: it moves, orders, makes or draws data.\n"
    "\n"
    "| op | overloads | dtypes | how | derivative | flops |\n"
    "|---|---|---|---|---|---|\n";

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

static const char *how_of(const tc_op *op) {
  const tc_op_def *d = op->def;
  if (tc_op_control(op) != TC_CONTROL_NONE) return "control";
  if (d->traits & TC_OP_VIEW) return "view";
  if (d->body || d->lower) return "kernel";
  if (tc_op_can_expand(op)) return "parts";
  return "library";
}

static const char *derivative_of(const tc_op *op) {
  if (op->grad.n_results || op->forward.n_results) return "own";
  return tc_op_can_expand(op) ? "parts" : "–";
}

static const char *flops_of(const run_options *o, const tc_op *op) {
  const tc_op_def *d = op->def;
  if (d->flops) return tc_sv_printf(o->arena, "`%s`", d->flops).data;
  return d->body ? "body" : tc_op_can_expand(op) ? "parts" : "–";
}

static bool same_op(const tc_op *a, const tc_op *b) {
  return tc_sv_eq(a->schema.ns, b->schema.ns) && tc_sv_eq(a->schema.name, b->schema.name);
}

// A cell over the overloads first … end - 1: each text once.
static void cell(const run_options *o, const tc_op *const *first, const tc_op *const *end,
                 const char *(*text)(const run_options *o, const tc_op *op)) {
  tc_sb sb = tc_sb_make(o->arena);
  for (const tc_op *const *op = first; op < end; op++) {
    bool said = false;
    const char *t = text(o, *op);
    for (const tc_op *const *other = first; other < op && !said; other++) said = strcmp(text(o, *other), t) == 0;
    if (!said) tc_sb_printf(&sb, "%s%s", sb.size ? ", " : "", t);
  }
  printf(" %s |", sb.size ? sb.text : "");
}
static const char *dtypes_text(const run_options *o, const tc_op *op) {
  (void)o;
  return op->def->traits & TC_OP_COMPLEX ? "real, complex" : "real";
}
static const char *how_text(const run_options *o, const tc_op *op) {
  (void)o;
  return how_of(op);
}
static const char *derivative_text(const run_options *o, const tc_op *op) {
  (void)o;
  return derivative_of(op);
}

void tcrun_print_ops_page(const run_options *o, const tc_op_registry *ops) {
  int32_t n = 0, names = 0, all = tc_op_registry_count(ops);
  const tc_op **list = TC_NEW_ARRAY(o->arena, const tc_op *, all);
  for (int32_t i = 0; i < all; i++)
    if (is_listed(tc_op_registry_at(ops, i))) list[n++] = tc_op_registry_at(ops, i);
  qsort(list, (size_t)n, sizeof *list, by_name);
  fputs(head, stdout);
  for (const tc_op *const *first = list, *const *end; first < list + n; first = end, names++) {
    for (end = first; end < list + n && same_op(*first, *end);) end++;
    bool aten = tc_sv_is((*first)->schema.ns, "aten");
    printf("| `" TC_SV_FMT "%s" TC_SV_FMT "` |", TC_SV_ARG(aten ? (tc_sv){0} : (*first)->schema.ns),
           aten ? "" : "::", TC_SV_ARG((*first)->schema.name));
    for (const tc_op *const *op = first; op < end; op++)
      if ((*op)->schema.overload.size || end - first > 1)
        printf(" " TC_SV_FMT, TC_SV_ARG((*op)->schema.overload.size ? (*op)->schema.overload : TC_SV("default")));
    printf(" |");
    cell(o, first, end, dtypes_text);
    cell(o, first, end, how_text);
    cell(o, first, end, derivative_text);
    cell(o, first, end, flops_of);
    printf("\n");
  }
  printf("\n%d overloads of %d ops.\n", n, names);
}
