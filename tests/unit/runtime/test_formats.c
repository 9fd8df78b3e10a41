// The examples of docs/formats.md: every indented text that starts with graph, loops, kernel or plan reads, and what it
// prints reads back to the same text.
#include "core/ops/ops.h"
#include "core/runtime/source.h"
#include "tests/unit/unit.h"

static tc_module *fresh_module(tc_arena *arena, const tc_op_registry *ops) {
  tc_module *m = TC_NEW(arena, tc_module);
  *m = (tc_module){.arena = arena, .ops = ops, .syms = tc_sym_create(arena), .bindings = tc_map_create(arena)};
  return m;
}

static tc_status reprint(tc_arena *arena, const tc_op_registry *ops, tc_sv text, tc_sv *out) {
  tc_lexer lx;
  tc_lex_init(&lx, arena, TC_SV("docs/formats.md"), text);
  tc_sb sb = tc_sb_make(arena);
  if (tc_lex_at(&lx, "kernel")) { // by itself, without a plan
    tc_kernel *k;
    TC_TRY(tc_kernel_parse(arena, &lx, &k));
    TC_TRY(tc_kernel_verify(k));
    tc_kernel_print(&sb, k);
  } else {
    tc_context c = {.ops = (tc_op_registry *)(uintptr_t)ops};
    tc_source source;
    TC_TRY(tc_source_parse(&c, fresh_module(arena, ops), &lx, &source));
    tc_source_print(&sb, &source, source.stage);
  }
  *out = tc_sb_view(&sb);
  return TC_OK;
}

static bool starts(tc_sv line) {
  return tc_sv_starts(line, "    graph ") || tc_sv_starts(line, "    loops ") || tc_sv_starts(line, "    kernel ") ||
         tc_sv_starts(line, "    plan ");
}

TC_TEST(the_examples_hold) {
  tc_op_registry *ops;
  tc_sv file, line, once, twice;
  int32_t found = 0;
  TC_TRY(tc_op_registry_create(arena, &ops));
  TC_TRY(tc_ops_register_core(ops));
  TC_TRY(tc_file_read(arena, TC_SOURCE_DIR "/docs/formats.md", &file));
  while (file.size) {
    file = tc_sv_cut(file, '\n', &line);
    if (!starts(line)) continue;
    tc_sb sb = tc_sb_make(arena);
    for (; tc_sv_starts(line, "    "); file = tc_sv_cut(file, '\n', &line)) {
      tc_sb_put(&sb, tc_sv_sub(line, 4, line.size));
      tc_sb_putc(&sb, '\n');
    }
    TC_TRY(reprint(arena, ops, tc_sb_view(&sb), &once), "in the example\n%s", sb.text);
    TC_TRY(reprint(arena, ops, once, &twice));
    if (!tc_sv_eq(once, twice)) fail_msg(TC_SV_FMT "\nis read as\n" TC_SV_FMT, TC_SV_ARG(once), TC_SV_ARG(twice));
    found++;
  }
  assert_int_equal(found, 5);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_examples_hold)};
  return TC_RUN(tests);
}
