// Plans as text (plan.h shows it, parse.c has the grammar). What is printed parses back to the same text. Kernels are
// printed by themselves (tc_kernel_print) and may follow the plan.
#include "core/plan/plan_internal.h"

static void put_list(tc_sb *sb, char open, char close, int32_t n, const tc_sym *const *v) {
  tc_sb_putc(sb, open);
  for (int32_t d = 0; d < n; d++) {
    if (d) tc_sb_putz(sb, ", ");
    tc_sym_print(sb, v[d]);
  }
  tc_sb_putc(sb, close);
}

static void put_word(tc_sb *sb, const char *word, const tc_sym *x) {
  tc_sb_putz(sb, word);
  tc_sym_print(sb, x);
}

static void put_offset(tc_sb *sb, const tc_sym *offset) {
  if (!offset || tc_sym_is_int(offset, 0)) return;
  put_word(sb, "+(", offset);
  tc_sb_putc(sb, ')');
}

static void put_buf(tc_sb *sb, const tc_plan_buf *b) {
  tc_sb_printf(sb, "  %%" TC_SV_FMT " : %s", TC_SV_ARG(b->name), tc_dtype_name(b->dtype));
  put_list(sb, '[', ']', b->rank, b->sizes);
  put_list(sb, '{', '}', b->rank, b->strides);
  put_offset(sb, b->offset);
  if (b->kind == TC_PLAN_INPUT) {
    tc_sb_printf(sb, " = input %d", b->input);
  } else {
    if (b->kind == TC_PLAN_OUTPUT) tc_sb_putz(sb, " = output");
    else put_word(sb, " = arena ", b->place);
    put_word(sb, " size ", b->bytes);
  }
  tc_sb_putz(sb, ";\n");
}

static void put_op(tc_sb *sb, const tc_plan *p, const tc_plan_op *op) {
  tc_sb_printf(sb, "  %s @" TC_SV_FMT, op->kind == TC_PLAN_LAUNCH ? "launch" : "call", TC_SV_ARG(op->name));
  if (op->kind == TC_PLAN_LAUNCH) {
    put_word(sb, " blocks ", op->blocks);
    put_word(sb, " grain ", op->grain);
  }
  tc_sb_putz(sb, " : (");
  for (int32_t i = 0; i < op->n_args; i++) {
    const tc_plan_arg *a = &op->args[i];
    if (i) tc_sb_putz(sb, ", ");
    if (a->buf >= 0) {
      tc_sb_printf(sb, "%s%%" TC_SV_FMT, a->writes ? "out " : "", TC_SV_ARG(p->bufs.data[a->buf].name));
    } else {
      tc_sym_print(sb, a->scalar);
      tc_sb_printf(sb, " : %s", tc_dtype_name(a->dtype));
    }
  }
  tc_sb_putc(sb, ')');
  put_word(sb, " bytes ", op->bytes);
  put_word(sb, " flops ", op->flops);
  if (op->source.size) {
    tc_sb_putz(sb, " @ ");
    tc_sb_quoted(sb, op->source);
  }
  tc_sb_putc(sb, '\n');
}

static void put_output(tc_sb *sb, const tc_plan *p, const tc_plan_output *o) {
  tc_sb_printf(sb, " %s ", tc_output_kind_text(o->kind));
  if (o->target.size) {
    tc_sb_quoted(sb, o->target);
    tc_sb_putc(sb, ' ');
  }
  if (o->buf >= 0) {
    tc_sb_printf(sb, "%%" TC_SV_FMT " as %s", TC_SV_ARG(p->bufs.data[o->buf].name), tc_dtype_name(o->type.dtype));
    put_list(sb, '[', ']', o->type.rank, o->type.sizes);
    put_list(sb, '{', '}', o->type.rank, o->type.strides);
    put_offset(sb, o->type.offset);
    if (o->type.conj) tc_sb_putz(sb, " conj");
    return;
  }
  bool plain = o->number.kind == TC_AK_INT ||
               (!o->number.value && (o->number.kind == TC_AK_FLOAT || o->number.kind == TC_AK_BOOL));
  if (plain) tc_arg_print(sb, &o->number, 0);
  else tc_sb_putz(sb, "none"); // a text, or a number that the plan does not hold
}

// ---- symbols in use ----
static void mark(uint8_t *used, const tc_sym *x) {
  if (!x) return;
  if (x->kind == TC_SYM_SYMBOL) used[x->symbol] = 1;
  for (int32_t i = 0; i < x->n; i++) mark(used, x->kids[i]);
}

static void mark_all(uint8_t *used, int32_t n, const tc_sym *const *v) {
  for (int32_t i = 0; i < n; i++) mark(used, v[i]);
}

static void put_symbols(tc_sb *sb, const tc_plan *p) {
  uint8_t *used = TC_NEW_ARRAY(sb->arena, uint8_t, tc_sym_symbol_count(p->syms));
  mark(used, p->arena_bytes);
  for (int32_t i = 0; i < p->bufs.count; i++) {
    const tc_plan_buf *b = &p->bufs.data[i];
    mark_all(used, b->rank, b->sizes), mark_all(used, b->rank, b->strides);
    mark(used, b->offset), mark(used, b->place), mark(used, b->bytes);
  }
  for (int32_t i = 0; i < p->ops.count; i++) {
    const tc_plan_op *op = &p->ops.data[i];
    mark(used, op->blocks), mark(used, op->grain), mark(used, op->bytes), mark(used, op->flops);
    for (int32_t k = 0; k < op->n_args; k++) mark(used, op->args[k].buf < 0 ? op->args[k].scalar : NULL);
  }
  for (int32_t i = 0; i < p->outputs.count; i++) {
    const tc_plan_output *o = &p->outputs.data[i];
    if (o->buf < 0) {
      mark(used, o->number.kind == TC_AK_INT ? o->number.sym : NULL);
      continue;
    }
    mark_all(used, o->type.rank, o->type.sizes), mark_all(used, o->type.rank, o->type.strides),
        mark(used, o->type.offset);
  }
  tc_symbols_print(sb, p->module, used);
}

void tc_plan_print(tc_sb *sb, const tc_plan *p) {
  tc_sb_printf(sb, "plan @" TC_SV_FMT, TC_SV_ARG(p->name));
  put_symbols(sb, p);
  put_word(sb, " arena ", p->arena_bytes);
  tc_sb_putz(sb, " {\n");
  for (int32_t i = 0; i < p->bufs.count; i++) put_buf(sb, &p->bufs.data[i]);
  for (int32_t i = 0; i < p->ops.count; i++) put_op(sb, p, &p->ops.data[i]);
  tc_sb_putz(sb, "  return");
  for (int32_t i = 0; i < p->outputs.count; i++) {
    if (i) tc_sb_putc(sb, ',');
    put_output(sb, p, &p->outputs.data[i]);
  }
  tc_sb_putz(sb, "\n}\n");
}
