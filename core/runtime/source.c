// Programs as text (source.h). The first word tells the stage.
//
//   source := { definition } [ 'weights' STRING [ 'program' STRING ] ] { definition }
//             ( graph | loops [ schedule ] | plan with kernels )
#include "core/runtime/source.h"

#include "core/ir/userop.h"

static tc_status read_weights(tc_lexer *lx, tc_source *out) {
  if (!tc_lex_eat(lx, "weights")) return TC_OK;
  TC_TRY(tc_lex_string(lx, &out->weights));
  return tc_lex_eat(lx, "program") ? tc_lex_string(lx, &out->weights_program) : TC_OK;
}

static tc_status read_loops(const tc_context *c, tc_module *m, tc_lexer *lx, tc_source *out) {
  TC_TRY(tc_loops_parse_with(m, &c->templates, lx, &out->loops));
  out->stage = TC_STAGE_LOOP;
  out->graph = (tc_graph *)(uintptr_t)out->loops->graph;
  if (!tc_lex_at(lx, "schedule")) return TC_OK;
  out->stage = TC_STAGE_SCHEDULE;
  return tc_schedule_parse(out->loops, lx, &out->schedule);
}

static tc_status read_plan(tc_module *m, tc_lexer *lx, tc_source *out) {
  tc_lexer at = *lx;
  TC_TRY(tc_plan_parse(m, lx, &out->plan));
  out->stage = TC_STAGE_PLAN;
  out->graph = (tc_graph *)(uintptr_t)out->plan->graph;
  tc_status s = tc_plan_verify(out->plan);
  if (s == TC_OK) return TC_OK;
  tc_status placed = tc_lex_error(&at, "%s", tc_status_text(s)); // a fault of the text, not of the compiler
  tc_status_free(s);
  return placed;
}

static tc_status read_graph(tc_module *m, tc_lexer *lx, tc_source *out) {
  tc_lexer at = *lx;
  out->stage = TC_STAGE_GRAPH;
  TC_TRY(tc_graph_parse(m, lx, &out->graph));
  TC_TRY(tc_graph_verify(out->graph), "in the graph at " TC_SV_FMT ":%d:%d", TC_SV_ARG(at.name), at.tok.line,
         at.tok.column);
  return TC_OK;
}

tc_status tc_source_parse(const tc_context *c, tc_module *m, tc_lexer *lx, tc_source *out) {
  *out = (tc_source){0};
  tc_user_device device = tc_context_user_device(c);
  TC_TRY(tc_user_ops_define(c->ops, lx, &device));
  TC_TRY(read_weights(lx, out));
  TC_TRY(tc_user_ops_define(c->ops, lx, &device));
  if (tc_lex_at(lx, "loops")) TC_TRY(read_loops(c, m, lx, out));
  else if (tc_lex_at(lx, "plan") || tc_lex_at(lx, "kernel")) TC_TRY(read_plan(m, lx, out));
  else if (tc_lex_at(lx, "graph")) TC_TRY(read_graph(m, lx, out));
  else return tc_lex_error(lx, "expected a program: graph, loops, plan or kernel");
  return lx->tok.kind == TC_TOK_END ? TC_OK : tc_lex_error(lx, "the program ends before this");
}

void tc_source_print_weights(tc_sb *sb, const tc_source *s) {
  if (!s->weights.size) return;
  tc_sb_putz(sb, "weights ");
  tc_sb_quoted(sb, s->weights);
  if (s->weights_program.size) {
    tc_sb_putz(sb, " program ");
    tc_sb_quoted(sb, s->weights_program);
  }
  tc_sb_putc(sb, '\n');
}

void tc_source_print(tc_sb *sb, const tc_source *s, int32_t stage) {
  if (s->graph && s->stage <= TC_STAGE_FUNCTIONAL) tc_user_ops_print(sb, s->graph);
  tc_source_print_weights(sb, s);
  switch (s->stage) {
  case TC_STAGE_LOOP: tc_loops_print(sb, s->loops); break;
  case TC_STAGE_SCHEDULE: tc_schedule_print(sb, s->schedule); break;
  case TC_STAGE_PLAN:
    if (s->image) tc_graph_print(sb, tc_image_graph(s->image));
    else if (stage == TC_STAGE_KERNEL) tc_plan_print_kernels_first(sb, s->plan);
    else tc_plan_print(sb, s->plan);
    break;
  default: tc_graph_print(sb, s->graph);
  }
}
