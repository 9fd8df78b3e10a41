// The lines of cases.txt (cases.py says what they mean): reading them, making graphs of them.
#ifndef TC_TESTS_UNIT_OPS_CASES_H_
#define TC_TESTS_UNIT_OPS_CASES_H_

#include "core/ops/ops.h"
#include "tests/unit/unit.h"

typedef struct fixture {
  tc_arena *arena;
  tc_sv text; // the case's line
  int32_t line;
  int32_t n_inputs, n_results;
  tc_sv call, inputs[8], results[16];
} fixture;

static inline tc_sv trim(tc_sv s) {
  while (s.size && s.data[0] == ' ') s.data++, s.size--;
  while (s.size && s.data[s.size - 1] == ' ') s.size--;
  return s;
}

static inline int32_t split(tc_sv s, char by, int32_t max, tc_sv *out) {
  int32_t n = 0;
  while (n < max && trim(s).size) {
    tc_sv head;
    s = tc_sv_cut(s, by, &head);
    out[n++] = trim(head);
  }
  return n;
}

// "f32[2, 3]{1, 2}+ = 1 2": the type, and how it is filled.
typedef struct operand {
  tc_sv name, type, values;
  char fill; // 0, '+' positive, '/' inside (-1, 1), '=' as given
} operand;
static inline operand read_operand(tc_sv s) {
  operand o = {0};
  o.values = trim(tc_sv_cut(s, '=', &s));
  s = trim(tc_sv_cut(trim(s), ' ', &o.name));
  o.fill = o.values.size ? '=' : 0;
  char last = s.data[s.size - 1];
  if (last == '+' || last == '/') o.fill = last, s.size--;
  o.type = s;
  return o;
}

// A case's line in its parts; false: it has not three.
static inline bool read_fixture(fixture *f) {
  tc_sv parts[3];
  if (split(f->text, '|', 3, parts) != 3) return false;
  f->call = parts[0];
  f->n_inputs = split(parts[1], ';', 8, f->inputs);
  f->n_results = split(parts[2], ';', 16, f->results);
  return true;
}

static inline tc_status make_module(tc_arena *arena, tc_module **out) {
  tc_op_registry *ops;
  TC_TRY(tc_op_registry_create(arena, &ops));
  TC_TRY(tc_ops_register_core(ops));
  tc_module *m = TC_NEW(arena, tc_module);
  *m = (tc_module){.arena = arena, .ops = ops, .syms = tc_sym_create(arena), .bindings = tc_map_create(arena)};
  *out = m;
  return TC_OK;
}

static inline tc_status parse_case(const fixture *f, tc_module *m, tc_graph **out) {
  tc_sb sb = tc_sb_make(f->arena);
  tc_sb_putz(&sb, "graph @f (");
  for (int32_t i = 0; i < f->n_inputs; i++) {
    operand o = read_operand(f->inputs[i]);
    tc_sb_printf(&sb, "%s%%" TC_SV_FMT " : " TC_SV_FMT " = user \"" TC_SV_FMT "\"", i ? ", " : "", TC_SV_ARG(o.name),
                 TC_SV_ARG(o.type), TC_SV_ARG(o.name));
  }
  tc_sb_putz(&sb, ") {\n  ");
  for (int32_t i = 0; i < f->n_results; i++) tc_sb_printf(&sb, "%s%%r%d", i ? ", " : "", i);
  tc_sb_printf(&sb, " = aten::" TC_SV_FMT "\n  return ", TC_SV_ARG(f->call));
  for (int32_t i = 0; i < f->n_results; i++) tc_sb_printf(&sb, "%suser %%r%d", i ? ", " : "", i);
  tc_sb_putz(&sb, "\n}\n");
  tc_lexer lx;
  tc_lex_init(&lx, f->arena, TC_SV("case"), tc_sb_view(&sb));
  return tc_graph_parse(m, &lx, out);
}

// ---- inputs ----
static inline double fill_value(const operand *o, tc_dtype d, int32_t input, int64_t k) {
  double v = (double)((k * 7 + input * 3 + 1) % 13);
  char c = tc_dtype_class(d);
  if (c == 'b') return v < 6;
  if (o->fill == '+') return c == 'f' || c == 'c' ? (v + 1) / 4 : v + 1;
  if (c == 'u') return v;
  if (c == 'i') return v - 6;
  return o->fill == '/' ? (v - 6) / 8 : (v - 6) / 4;
}

#endif
