// --flops: the operations of a model by op. First what PyTorch's FlopCounterMode counts, under its names and by its
// rules (two operations per multiply and add; complex ones as one), with its total; then all other arithmetic, with
// the bytes that each op would move by itself. Symbolic sizes count as the program's examples.
#include <stdio.h>

#include "core/plan/plan.h"
#include "tcrun/tcrun.h"

typedef struct counted {
  const model *m;
  int32_t n;
  tc_counted_op *ops;
} counted;

static tc_status count(void *arg) {
  counted *x = arg;
  return tc_graph_count(x->m->graph, &x->n, &x->ops);
}

static int64_t at_hint(const model *m, const tc_sym *e) { return tc_sym_hint_or(m->module->syms, e, 0); }

static void print_part(const model *m, const counted *x, bool products) {
  int64_t calls = 0, flops = 0, bytes = 0;
  for (int32_t i = 0; i < x->n; i++) {
    const tc_counted_op *op = &x->ops[i];
    if (op->product != products) continue;
    int64_t f = at_hint(m, op->flops), b = at_hint(m, op->bytes);
    calls += op->calls, flops += f, bytes += b;
    printf("  %-53.*s %6lld %16lld %14lld\n", (int)op->name.size, op->name.data, (long long)op->calls, (long long)f,
           (long long)b);
  }
  printf("  %-53s %6lld %16lld %14lld\n", "total", (long long)calls, (long long)flops, (long long)bytes);
}

static void print_object(const model *m, const counted *x, bool products, tc_sb *sb) {
  bool first = true;
  tc_sb_putc(sb, '{');
  for (int32_t i = 0; i < x->n; i++) {
    if (x->ops[i].product != products) continue;
    tc_sb_putz(sb, first ? "" : ", ");
    tc_json_quote(sb, x->ops[i].name);
    tc_sb_printf(sb, ": %lld", (long long)at_hint(m, x->ops[i].flops));
    first = false;
  }
  tc_sb_putc(sb, '}');
}

tc_status tcrun_print_flops(const run_options *o, const model *m) {
  counted x = {.m = m};
  TC_TRY(tc_arena_guard(m->module->arena, count, &x), "while counting operations");
  if (o->json) {
    tc_sb sb = tc_sb_make(o->arena);
    tc_sb_putz(&sb, "{\"name\": ");
    tc_json_quote(&sb, m->file);
    tc_sb_putz(&sb, ", \"products\": ");
    print_object(m, &x, true, &sb);
    tc_sb_putz(&sb, ", \"others\": ");
    print_object(m, &x, false, &sb);
    printf("%s}\n", sb.text);
    return TC_OK;
  }
  printf("%-55s %6s %16s %14s\n", "as PyTorch's FlopCounterMode counts", "calls", "flops", "bytes");
  print_part(m, &x, true);
  printf("%-55s %6s %16s %14s\n", "other arithmetic", "calls", "flops", "bytes");
  print_part(m, &x, false);
  return TC_OK;
}
