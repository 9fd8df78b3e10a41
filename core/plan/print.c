// Plans as text.
#include "core/plan/plan.h"

static void put_list(tc_sb *sb, char open, char close, int32_t n, const tc_sym *const *v) {
  tc_sb_putc(sb, open);
  for (int32_t d = 0; d < n; d++) {
    if (d) tc_sb_putz(sb, ", ");
    tc_sym_print(sb, v[d]);
  }
  tc_sb_putc(sb, close);
}

static void put_buf(tc_sb *sb, const tc_plan_buf *b) {
  tc_sb_printf(sb, "  %%" TC_SV_FMT " : %s", TC_SV_ARG(b->name), tc_dtype_name(b->dtype));
  put_list(sb, '[', ']', b->rank, b->sizes);
  put_list(sb, '{', '}', b->rank, b->strides);
  if (b->kind == TC_PLAN_INPUT) tc_sb_printf(sb, " = input %d", b->input);
  else if (b->kind == TC_PLAN_OUTPUT) tc_sb_putz(sb, " = output");
  else {
    tc_sb_putz(sb, " = arena ");
    tc_sym_print(sb, b->place);
    tc_sb_putz(sb, " size ");
    tc_sym_print(sb, b->bytes);
  }
  tc_sb_putc(sb, '\n');
}

static void put_op(tc_sb *sb, const tc_plan *p, const tc_plan_op *op) {
  tc_sb_printf(sb, "  %s @" TC_SV_FMT, op->kind == TC_PLAN_LAUNCH ? "launch" : "call", TC_SV_ARG(op->name));
  if (op->kind == TC_PLAN_LAUNCH) {
    tc_sb_putz(sb, " blocks ");
    tc_sym_print(sb, op->blocks);
    tc_sb_putz(sb, " grain ");
    tc_sym_print(sb, op->grain);
  }
  tc_sb_putz(sb, " (");
  for (int32_t i = 0; i < op->n_args; i++) {
    const tc_plan_arg *a = &op->args[i];
    if (i) tc_sb_putz(sb, ", ");
    if (a->buf >= 0) tc_sb_printf(sb, "%s%%" TC_SV_FMT, a->writes ? "out " : "", TC_SV_ARG(p->bufs.data[a->buf].name));
    else tc_sym_print(sb, a->scalar);
  }
  tc_sb_putz(sb, ")\n");
}

void tc_plan_print(tc_sb *sb, const tc_plan *p) {
  static const char *const kinds[] = {"user", "buffer", "input", "parameter", "token", "loss"};
  tc_sb_printf(sb, "plan @" TC_SV_FMT " arena ", TC_SV_ARG(p->name));
  tc_sym_print(sb, p->arena_bytes);
  tc_sb_putz(sb, " {\n");
  for (int32_t i = 0; i < p->bufs.count; i++) put_buf(sb, &p->bufs.data[i]);
  for (int32_t i = 0; i < p->ops.count; i++) put_op(sb, p, &p->ops.data[i]);
  tc_sb_putz(sb, "  return");
  for (int32_t i = 0; i < p->outputs.count; i++) {
    const tc_plan_output *o = &p->outputs.data[i];
    tc_sb_printf(sb, "%s %s ", i ? "," : "", kinds[o->kind]);
    if (o->buf < 0) {
      tc_sb_putz(sb, "number");
      continue;
    }
    tc_sb_printf(sb, "%%" TC_SV_FMT, TC_SV_ARG(p->bufs.data[o->buf].name));
    put_list(sb, '[', ']', o->type.rank, o->type.sizes);
    put_list(sb, '{', '}', o->type.rank, o->type.strides);
    tc_sb_putc(sb, '+');
    tc_sym_print(sb, o->type.offset);
  }
  tc_sb_putz(sb, "\n}\n");
}
