// TOML: the copied tree, places, errors.
#include <math.h>

#include "core/base/toml.h"
#include "tests/unit/unit.h"

static const char sample[] = "zeta = 1\n"
                             "name = \"tc\"\n"
                             "[mode.inductor]\n"
                             "fuse = true\n"
                             "ratio = 2.5\n"
                             "sizes = [1, 2, [3, \"x\"], {k = -4}]\n"
                             "[alpha]\n"
                             "big = inf\n"
                             "a.b.c = 0x10\n"
                             "[[list]]\n"
                             "v = 1\n"
                             "[[list]]\n"
                             "v = 2\n";

TC_TEST_TORTURED(trees_keep_the_order_of_the_file) {
  const tc_toml *root;
  TC_TRY(tc_toml_parse(arena, TC_SV("a.toml"), tc_sv_of(sample), &root));
  const char *keys[] = {"zeta", "name", "mode", "alpha", "list"};
  assert_int_equal(root->n, 5);
  for (int i = 0; i < 5; i++) assert_sv(root->kids[i].key, keys[i]);
  assert_int_equal(tc_toml_get(root, "zeta")->integer, 1);
  assert_int_equal(tc_toml_get(root, "name")->kind, TC_TOML_STRING);
  assert_sv(tc_toml_get(root, "name")->text, "tc");
  assert_int_equal(tc_toml_get(root, "name")->line, 2);
  assert_int_equal(tc_toml_get(root, "name")->column, 1);
  const tc_toml *mode = tc_toml_get(tc_toml_get(root, "mode"), "inductor");
  assert_int_equal(mode->kind, TC_TOML_TABLE);
  const tc_toml *fuse = tc_toml_get(mode, "fuse");
  assert_int_equal(fuse->kind, TC_TOML_BOOL);
  assert_int_equal(fuse->integer, 1);
  assert_int_equal(fuse->line, 4);
  assert_true(tc_toml_get(mode, "ratio")->kind == TC_TOML_FLOAT && tc_toml_get(mode, "ratio")->real == 2.5);
  const tc_toml *sizes = tc_toml_get(mode, "sizes");
  assert_int_equal(sizes->kind, TC_TOML_ARRAY);
  assert_int_equal(sizes->n, 4);
  assert_int_equal(sizes->kids[1].integer, 2);
  assert_int_equal(sizes->kids[1].line, 6);
  assert_sv(sizes->kids[2].kids[1].text, "x");
  assert_int_equal(tc_toml_get(&sizes->kids[3], "k")->integer, -4);
  const tc_toml *alpha = tc_toml_get(root, "alpha");
  assert_true(isinf(tc_toml_get(alpha, "big")->real));
  assert_int_equal(tc_toml_get(tc_toml_get(tc_toml_get(alpha, "a"), "b"), "c")->integer, 16);
  assert_int_equal(tc_toml_get(&tc_toml_get(root, "list")->kids[1], "v")->integer, 2);
  assert_null(tc_toml_get(root, "nothing"));
  assert_null(tc_toml_get(alpha->kids, "nothing"));
  assert_null(tc_toml_get(NULL, "nothing"));
  return TC_OK;
}

TC_TEST(empty_texts_are_tables) {
  const tc_toml *root;
  TC_TRY(tc_toml_parse(arena, TC_SV("a.toml"), (tc_sv){NULL, 0}, &root));
  assert_int_equal(root->kind, TC_TOML_TABLE);
  assert_int_equal(root->n, 0);
  return TC_OK;
}

TC_TEST(errors_name_the_place) {
  const tc_toml *root;
  tc_sv name = TC_SV("conf.toml");
  assert_error(tc_toml_parse(arena, name, TC_SV("a = 1\nb = = 2\n"), &root), TC_STATUS_INVALID_ARGUMENT,
               "conf.toml:2:");
  assert_null(root);
  assert_error(tc_toml_parse(arena, name, TC_SV("a = 1\na = 2\n"), &root), TC_STATUS_INVALID_ARGUMENT, "conf.toml:2:");
  assert_error(tc_toml_parse(arena, name, TC_SV("[t]\nday = 1979-05-27\n"), &root), TC_STATUS_INVALID_ARGUMENT,
               "conf.toml:2:1: dates");
  assert_error(tc_toml_parse(arena, name, TC_SV("a¡ = 1\n"), &root), TC_STATUS_INVALID_ARGUMENT, "conf.toml:1:");
  assert_error(tc_toml_parse(arena, name, TC_SV("a = +\"\xca\xa0"), &root), TC_STATUS_INVALID_ARGUMENT, "conf.toml:1:");
  assert_error(tc_toml_parse(arena, name, TC_SV("a = 'é\nb҅ = 1\n"), &root), TC_STATUS_INVALID_ARGUMENT, "conf.toml:1:");
  TC_TRY(tc_toml_parse(arena, name, TC_SV("\xef\xbb\xbf\"é\" = 'ü' # ñ\n"), &root));
  assert_sv(root->kids[0].key, "é");
  assert_error(tc_toml_parse(arena, name, TC_SV("a = \"\xff\"\n"), &root), TC_STATUS_INVALID_ARGUMENT, "conf.toml:1");
  return TC_OK;
}

TC_TEST(depth_is_bounded) {
  enum { N = 200000 };
  char *text = tc_arena_alloc(arena, N + 8);
  const tc_toml *root;
  memcpy(text, "a = ", 4);
  memset(text + 4, '[', N);
  assert_error(tc_toml_parse(arena, TC_SV("x"), (tc_sv){text, N + 4}, &root), TC_STATUS_INVALID_ARGUMENT, "x:1:");
  for (int i = 0; i < N; i += 2) text[i] = 'a', text[i + 1] = '.';
  memcpy(text + N, "b = 1\n", 6);
  assert_error(tc_toml_parse(arena, TC_SV("x"), (tc_sv){text, N + 6}, &root), TC_STATUS_RESOURCE_EXHAUSTED, "dots");
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(trees_keep_the_order_of_the_file),
      cmocka_unit_test(empty_texts_are_tables),
      cmocka_unit_test(errors_name_the_place),
      cmocka_unit_test(depth_is_bounded),
  };
  return TC_RUN(tests);
}
