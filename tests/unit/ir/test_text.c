// The text form: print → parse → print is the identity; damaged texts are refused with a place; the verifier.
#include "tests/unit/ir/test_ops.h"

static const char *const graphs[] = {
    "graph @forward [s0 in [2, 64] hint 2] (\n    %p_q : f32[64, 64] = parameter \"q.weight\",\n    %x : f32[s0, 64] = "
    "user \"x\") {\n"
    "  %linear : f32[s0, 64] = aten::linear(%x, %p_q, none) @ \"model.py:12 q = self.q(x)\"\n"
    "  return user %linear\n}\n",
    "graph @views (\n    %x : f32[4, 3]{1, 4} = user \"x\",\n    %c : i64[] = buffer \"count\" persistent,\n    "
    "const(true) = user \"flag\",\n    const(3) = user \"n\",\n    const(\"sum\") = user \"mode\") {\n"
    "  %t : f32[3, 4] = aten::permute(%x, [1, 0])\n"
    "  %s : f32[2, 4]{4, 1}+4 = aten::slice.Tensor(%t, 0, 1, 3, 1)\n"
    "  %e : f32[4]{1}+4 = aten::select.int(%t, 0, 1)\n"
    "  %u : f32[4]{1}+4, %u_1 : f32[4]{1}+8 = aten::unbind.int(%s, 0)\n"
    "  %a : i64[] = aten::add.Tensor(%c, 1, 1)\n"
    "  return user \"y\" %s, user %e, user %u_1, buffer \"count\" %a, user 3, user none, user \"text\", user 1.5\n}\n",
    "graph @numbers [s0 in [1, 128] div 4 hint 8, u0 unbacked in [0, inf], u1 unbacked in [-inf, inf], require s0 <= "
    "128] (\n    %x : f32[s0] = user \"x\",\n    %n : int s0 = user \"n\",\n    %i : i64[] = user \"i\") {\n"
    "  %nz : i64[u0, 1] = aten::nonzero(%x)\n"
    "  %k : int u1 = aten::item(%i)\n"
    "  %f : float = aten::item(%x)\n"
    "  %full : f32[s0, 2] = aten::full([s0, 2], -inf, f32, none, none, none)\n"
    "  %c : c64[u0] = aten::full([u0], complex(1.0, -2.5), c64, layout(0), \"dev:0\", false)\n"
    "  %cc : c64[u0] conj = aten::_conj(%c)\n"
    "  %g : f32[s0, 2] = aten::mul.Scalar(%full, %f)\n"
    "  %m : f32[s0, 2] = aten::clone(%full, contiguous_format)\n"
    "  %h : f32[s0, 2] = aten::mul.Scalar(%m, 1e-30) inplace 0\n"
    "  return user %nz, user u1, user %cc, user %g, user %h, user %f\n}\n",
};

static tc_status reprint(tc_arena *arena, const char *text, const char **out) {
  tc_module *m;
  tc_graph *g;
  TC_TRY(test_module(arena, &m));
  TC_TRY(test_parse(m, text, &g));
  TC_TRY(tc_graph_verify(g));
  *out = test_print(g);
  return TC_OK;
}

// A condition stays one that inputs are checked for, although the range or the divisor beside it says the same: that is
// how a range comes out that a condition has narrowed.
TC_TEST(conditions_survive_what_they_follow_from) {
  static const struct {
    const char *symbols, *again;
  } cases[] = {
      {"s0 in [2, 64] div 2 hint 2, require Mod(s0, 2) == 0", NULL},
      {"s0 in [64, 64] hint 2, require Mod(s0, 2) == 0", "s0 in [64, 64] div 2 hint 2, require Mod(s0, 2) == 0"},
      {"s0 in [2, 64] hint 2, require Mod(s0, 2) == 0, require s0 == 64",
       "s0 in [64, 64] div 2 hint 2, require Mod(s0, 2) == 0, require s0 == 64"},
      {"s0 in [2, 64] div 2, require Mod(s0, 3) == 0", "s0 in [2, 64] div 6, require Mod(s0, 3) == 0"},
      {"require s0 <= 8, s0 in [2, 64]", "s0 in [2, 8], require s0 <= 8"},
      {"s0 in [0, 7], require s0//8 == 0", NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    static const char form[] = "graph @f [%s] (\n    %%x : f32[s0] = user \"x\") {\n  return user %%x\n}\n";
    char text[256], want[256];
    const char *once, *twice;
    snprintf(text, sizeof text, form, cases[i].symbols);
    snprintf(want, sizeof want, form, cases[i].again ? cases[i].again : cases[i].symbols);
    TC_TRY(reprint(arena, text, &once));
    assert_string_equal(once, want);
    TC_TRY(reprint(arena, once, &twice));
    assert_string_equal(twice, want);
  }
  return TC_OK;
}

TC_TEST(print_is_the_inverse_of_parse) {
  for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
    const char *once;
    TC_TRY(reprint(arena, graphs[i], &once));
    assert_string_equal(once, graphs[i]);
  }
  return TC_OK;
}

TC_TEST(clones_print_the_same) {
  for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
    tc_module *m;
    tc_graph *g;
    TC_TRY(test_module(arena, &m));
    TC_TRY(test_parse(m, graphs[i], &g));
    tc_graph *copy = tc_graph_clone(g, g->name);
    TC_TRY(tc_graph_verify(copy));
    assert_string_equal(test_print(copy), graphs[i]);
  }
  return TC_OK;
}

TC_TEST(damage_is_named_with_its_place) {
  static const struct {
    const char *text, *part;
  } cases[] = {
      {"graph forward () { return }", "test.tc:1:7"},
      {"graph @f (%x : f33[2] = user \"x\") { return }", "test.tc:1:16: expected a type"},
      {"graph @f (%x : f32[2] = usr \"x\") { return }", "test.tc:1:25: expected the kind of an input"},
      {"graph @f (%x : f32[2]{1, 2} = user \"x\") { return }", "2 strides for 1 sizes"},
      {"graph @f (%x : f32[2] = user \"x\") {\n  %y = aten::relu(%z)\n  return user %y }",
       "test.tc:2:19: %z is not defined here"},
      {"graph @f (%x : f32[2] = user \"x\") {\n  %y = aten::rleu(%x)\n  return user %y }", "test.tc:2:8"},
      {"graph @f (%x : f32[2] = user \"x\") {\n  %y = aten::rleu(%x)\n  return user %y }",
       "nearest known one is 'aten::relu'"},
      {"graph @f (%x : f32[2] = user \"x\") {\n  %y : f32[3] = aten::relu(%x)\n  return user %y }",
       "f32[3] is declared, the op gives f32[2]"},
      {"graph @f (%x : f32[2] = user \"x\") {\n  %y, %z = aten::relu(%x)\n  return user %y }",
       "has 1 results, 2 are named"},
      {"graph @f (%x : f32[2] = user \"x\") {\n  %x = aten::relu(%x)\n  return user %x }", "%x is defined twice"},
      {"graph @f (%x : f32[2] = user \"x\") {\n  %y = aten::relu(%x, 1)\n  return user %y }", "takes 1 arguments"},
      {"graph @f (%x : f32[2] = user \"x\") {\n  %y = aten::relu(self=%x, self=%x)\n  return user %y }", "given twice"},
      {"graph @f (%x : f32[2] = user \"x\") {\n  %y = aten::relu(%x) inplace 3\n  return user %y }", "inplace 3"},
      {"graph @f (%x : f32[2] = user \"x\") {\n  %y = aten::cat([%x, 1])\n  return user %y }", "mixes kinds"},
      {"graph @f (%x : f32[2] = user \"x\") {\n  %y = aten::sum.dim_IntList(%x, [0], False)\n  return user %y }",
       "test.tc:2:39: expected true or false"},
      {"graph @f [s0 in [5, 2]] () { return }", "range of 's0' is empty"},
      {"graph @f [s0 in [2, 64] div 0] () { return }", "a divisor is at least 1"},
      {"graph @f [s0 in [64, 64], require Mod(s0, 2) == 1, s1] () { return }",
       "test.tc:1:50: this condition holds for no such sizes"},
      {"graph @f [s0 in [2, 8], s1 in [9, 20], require s0 == s1] () { return }", "holds for no such sizes"},
      {"graph @f [s0 in [2, 8], require s0 != 2, require s0 <= 3, require s0 != 3] () { return }",
       "holds for no such sizes"},
      {"graph @f () { return user %q }", "%q is not defined"},
      {"graph @f () {", "test.tc:1:"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tc_module *m;
    tc_graph *g;
    TC_TRY(test_module(arena, &m));
    tc_status s = test_parse(m, cases[i].text, &g);
    if (!s) fail_msg("case %d went through", (int)i);
    if (!strstr(tc_status_text(s), cases[i].part))
      fail_msg("case %d: no '%s' in: %s", (int)i, cases[i].part, tc_status_text(s));
    tc_status_free(s);
  }
  return TC_OK;
}

// Random damage: never a crash; what parses and verifies prints and parses again to the same text.
TC_TEST(random_damage) {
  uint64_t seed = tc_test_seed();
  static const char glyphs[] = "%@()[]{},:+-*/.\"0129abfnsux =\n";
  int32_t parsed = 0;
  for (int32_t round = 0; round < 600; round++) {
    const char *base = graphs[tc_test_random(&seed) % 3];
    size_t n = strlen(base);
    char *text = tc_arena_copy(arena, base, n + 1);
    for (uint64_t k = 1 + tc_test_random(&seed) % 3; k > 0; k--) {
      size_t at = tc_test_random(&seed) % n;
      if (tc_test_random(&seed) % 3 == 0) memmove(text + at, text + at + 1, n - at);
      else text[at] = glyphs[tc_test_random(&seed) % (sizeof glyphs - 1)];
    }
    tc_module *m;
    tc_graph *g;
    TC_TRY(test_module(arena, &m));
    tc_status s = test_parse(m, text, &g);
    if (!s) s = tc_graph_verify(g);
    if (!s) {
      const char *once = test_print(g), *twice;
      TC_TRY(reprint(arena, once, &twice), "of:\n%s", once);
      assert_string_equal(once, twice);
      parsed++;
    }
    tc_status_free(s);
  }
  assert_true(parsed > 0);
  return TC_OK;
}

// ---- the verifier, on graphs that no text gives ----
TC_TEST(the_verifier_finds_faults) {
  tc_module *m;
  tc_graph *g;
#define FRESH                                                                                                  \
  TC_TRY(test_module(arena, &m));                                                                              \
  TC_TRY(test_parse(m,                                                                                         \
                    "graph @f (%x : f32[2, 3] = user \"x\") {\n%a = aten::relu(%x)\n%b = aten::neg(%a)\n%c = " \
                    "aten::add.Tensor(%a, %b)\nreturn user %c }",                                              \
                    &g))
  FRESH;
  tc_node *a = g->first, *b = a->next, *c = b->next;
  assert_int_equal(a->results[0]->n_uses, 2);
  a->args[0].value = b->results[0];
  assert_error(tc_graph_verify(g), TC_STATUS_INTERNAL, "read before it is defined");
  FRESH;
  a = g->first, b = a->next, c = b->next;
  tc_graph_forward(b->results[0], a->results[0]);
  assert_error(tc_graph_verify(g), TC_STATUS_INTERNAL, "a sweep is missing");
  tc_node_kill(b);
  tc_graph_sweep(g);
  TC_TRY(tc_graph_verify(g));
  assert_ptr_equal(c->args[1].value, a->results[0]);
  assert_int_equal(g->n_nodes, 2);
  FRESH;
  c = g->last;
  tc_tensor_type t = c->results[0]->type;
  t.dtype = TC_F16;
  tc_value_set_type(c->results[0], &t);
  assert_error(tc_graph_verify(g), TC_STATUS_MISMATCH, "f16[2, 3] is declared, the op gives f32[2, 3]");
  FRESH;
  b = g->first->next;
  b->inplace = 0; // %a is read later by %c
  assert_error(tc_graph_verify(g), TC_STATUS_INTERNAL, "overwritten in place");
  FRESH;
  tc_node_kill(g->first->next);
  tc_graph_sweep(g);
  assert_error(tc_graph_verify(g), TC_STATUS_INTERNAL, "read before it is defined");
#undef FRESH
  return TC_OK;
}

TC_TEST(names_are_unique) {
  tc_module *m;
  TC_TRY(test_module(arena, &m));
  tc_graph *g = tc_graph_create(m, TC_SV("f"));
  tc_tensor_type t = {.dtype = TC_F32, .sizes = (tc_int[]){0}, .offset = tc_sym_int(m->syms, 0)};
  static const char *const want[] = {"x", "x_1", "x_2", "x_1_1", "a_b"};
  static const char *const given[] = {"x", "x", "x", "x_1", "a b"};
  for (int32_t i = 0; i < 5; i++)
    assert_sv(tc_graph_add_input(g, TC_IN_USER, tc_sv_of(given[i]), TC_SV("t"), &t)->name, want[i]);
  return tc_graph_verify(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(conditions_survive_what_they_follow_from),
                                     cmocka_unit_test(print_is_the_inverse_of_parse),
                                     cmocka_unit_test(clones_print_the_same),
                                     cmocka_unit_test(damage_is_named_with_its_place),
                                     cmocka_unit_test(random_damage),
                                     cmocka_unit_test(the_verifier_finds_faults),
                                     cmocka_unit_test(names_are_unique)};
  return TC_RUN(tests);
}
