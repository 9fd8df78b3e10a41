// Attention over bf16 on the processor's matrix unit against the references: sizes that fill no tile, heads in groups
// and broadcast, masks of every kind, strides of every order, rows without a key. Where there is no such unit the same
// programs go through the template.
#include <math.h>

#include "tests/unit/runtime/rig.h"

enum { CASES = 40, OPTION_CAUSAL = 1, MASKS = 6, LAYOUTS = 3 };

typedef struct attention {
  int64_t b, h, group, l, s, d, e;
  int32_t mask, layout[3];
  bool logs; // and the logarithms of the rows' sums
} attention;

static int64_t draw(uint64_t *seed, int64_t low, int64_t high) {
  return low + (int64_t)(tc_test_random(seed) % (uint64_t)(high - low + 1));
}

static attention draw_case(uint64_t *seed) {
  attention a = {.b = draw(seed, 1, 2), .h = draw(seed, 1, 3), .group = draw(seed, 1, 3), .l = draw(seed, 16, 150)};
  a.s = draw(seed, 0, 3) ? draw(seed, 1, 300) : draw(seed, 1, 4) * 32;
  a.d = draw(seed, 0, 1) ? draw(seed, 1, 80) : draw(seed, 1, 4) * 32;
  a.e = draw(seed, 0, 1) ? a.d : draw(seed, 1, 80);
  a.mask = (int32_t)draw(seed, 0, MASKS - 1);
  for (int32_t i = 0; i < 3; i++) a.layout[i] = (int32_t)draw(seed, 0, LAYOUTS - 1);
  a.logs = draw(seed, 0, 1);
  if (a.logs) a.group = 1;
  return a;
}

// %NAME of sizes [b, h, n, w] from an input of another order; the first text declares it, the second makes it.
static void put_operand(tc_sb *inputs, tc_sb *body, char name, int32_t layout, const int64_t z[4]) {
  static const struct {
    int32_t order[4];
    const char *view;
  } ways[LAYOUTS] = {{{0, 1, 2, 3}, "aten::transpose.int(%%%c0, 0, 0)"},
                     {{0, 2, 1, 3}, "aten::transpose.int(%%%c0, 1, 2)"},
                     {{0, 1, 3, 2}, "aten::transpose.int(%%%c0, -1, -2)"}};
  const int32_t *o = ways[layout].order;
  tc_sb_printf(inputs, "%%%c0 : bf16[%lld, %lld, %lld, %lld] = user \"%c\"", name, (long long)z[o[0]],
               (long long)z[o[1]], (long long)z[o[2]], (long long)z[o[3]], name);
  char view[80];
  snprintf(view, sizeof view, ways[layout].view, name);
  tc_sb_printf(body, "  %%%c = %s\n", name, view);
}

static tc_sv graph_of(tc_arena *arena, const attention *a) {
  tc_sb inputs = tc_sb_make(arena), body = tc_sb_make(arena);
  int64_t heads = a->h * a->group, q[4] = {a->b, heads, a->l, a->d}, k[4] = {a->b, a->h, a->s, a->d},
          v[4] = {a->b, a->h, a->s, a->e};
  put_operand(&inputs, &body, 'q', a->layout[0], q);
  tc_sb_putz(&inputs, ", ");
  put_operand(&inputs, &body, 'k', a->layout[1], k);
  tc_sb_putz(&inputs, ", ");
  put_operand(&inputs, &body, 'v', a->layout[2], v);
  const char *mask = "none";
  long long l = a->l, s = a->s;
  switch (a->mask) {
  case 2: // by position; some rows have no key
    tc_sb_printf(&inputs, ", %%m0 : f32[%lld, %lld] = user \"m\"", l, s);
    tc_sb_putz(&body, "  %m1 = aten::slice.Tensor(%m0, 1, 0, 1)\n  %m2 = aten::gt.Scalar(%m0, 0.0)\n"
                      "  %m3 = aten::lt.Scalar(%m1, 1.0)\n  %m = aten::logical_and(%m2, %m3)\n");
    mask = "%m";
    break;
  case 3: // added, for each batch
    tc_sb_printf(&inputs, ", %%m : bf16[%lld, 1, %lld, %lld] = user \"m\"", (long long)a->b, l, s);
    mask = "%m";
    break;
  case 4: // the same for all rows
    tc_sb_printf(&inputs, ", %%m0 : f32[%lld, 1, 1, %lld] = user \"m\"", (long long)a->b, s);
    tc_sb_putz(&body, "  %m = aten::gt.Scalar(%m0, -0.5)\n");
    mask = "%m";
    break;
  case 5: // the same for all keys, of every head
    tc_sb_printf(&inputs, ", %%m : bf16[%lld, %lld, 1] = user \"m\"", (long long)heads, l);
    mask = "%m";
    break;
  default: break;
  }
  if (a->logs)
    return tc_sv_printf(arena,
                        "graph @g (%s) {\n%s  %%o, %%l = aten::_attention(%%q, %%k, %%v, %s, %s, %s)\n"
                        "  %%s = aten::_to_copy(%%l, dtype=bf16)\n  %%a = aten::flatten.using_ints(%%o)\n"
                        "  %%b = aten::flatten.using_ints(%%s)\n  %%y = aten::cat([%%a, %%b])\n  return user %%y\n}\n",
                        inputs.text, body.text, mask, a->mask == OPTION_CAUSAL ? "true" : "false",
                        a->d % 2 ? "0.3" : "0.1");
  return tc_sv_printf(arena,
                      "graph @g (%s) {\n%s  %%y = aten::scaled_dot_product_attention(%%q, %%k, %%v, %s, 0.0, %s, "
                      "scale=%s, enable_gqa=%s)\n  return user %%y\n}\n",
                      inputs.text, body.text, mask, a->mask == OPTION_CAUSAL ? "true" : "false",
                      a->d % 2 ? "0.3" : "none", a->group > 1 ? "true" : "false");
}

static tc_status compare(tc_arena *arena, const attention *a, uint64_t seed, int32_t *calls) {
  tc_sv text = graph_of(arena, a);
  tc_tensor got, want;
  bool call = false;
  TC_TRY(rig_run_on("cpu", "always", text.data, seed, NULL, &got, &call), "of\n%s", text.data);
  TC_TRY(rig_run_on("ref", "always", text.data, seed, NULL, &want, NULL), "of\n%s", text.data);
  *calls += call;
  double error = 0, norm = 0;
  assert_int_equal(tc_tensor_numel(&got), tc_tensor_numel(&want));
  for (int64_t i = 0; i < tc_tensor_numel(&want); i++) {
    double x = rig_bf16(&got, i), y = rig_bf16(&want, i);
    if (isinf(y) && x == y) continue; // the logarithm of nothing
    // Shares and the result are rounded to 9 bits; elements of the values are a few units large.
    if (!(fabs(x - y) <= 0x1p-6 * (1 + fabs(y))))
      fail_msg("element %lld is %g, not %g, of\n%s", (long long)i, x, y, text.data);
    error += (x - y) * (x - y), norm += y * y;
  }
  if (!(sqrt(error) <= 0x1p-7 * sqrt(norm))) fail_msg("%g of %g is wrong in\n%s", sqrt(error), sqrt(norm), text.data);
  tc_tensor_unref(&got), tc_tensor_unref(&want);
  return TC_OK;
}

TC_TEST(attention_is_the_references) {
  uint64_t seed = tc_test_seed();
  uint64_t share = seed;
  int32_t calls = 0, programs = 0;
  for (int32_t i = 0; i < CASES; i++) {
    attention a = draw_case(&seed);
    if (!tc_run_takes(share, i)) continue;
    programs++;
    if (i < 2 * MASKS) a.mask = i % MASKS, a.logs = i < MASKS, a.group = a.logs ? 1 : a.group;
    TC_TRY(compare(arena, &a, seed, &calls));
  }
  if (calls != 0 && calls != programs) fail_msg("%d of %d programs had a call", calls, programs);
  return TC_OK;
}

// What is long has several blocks of keys and several tasks of a head.
TC_TEST(long_rows) {
  uint64_t seed = tc_test_seed();
  int32_t calls = 0;
  for (int32_t i = 0; i < 3; i++) {
    attention a = {.b = 1, .h = 1, .group = 1, .l = 1100 - i, .s = 700 + i, .d = 32, .e = 24, .mask = i};
    TC_TRY(compare(arena, &a, seed, &calls));
  }
  return TC_OK;
}

// Infinite scores: a key that outweighs all others, NaN where PyTorch has it.
TC_TEST(not_finite) {
  static const char text[] =
      "graph @g (%q : bf16[1, 1, 32, 16] = user \"q\", %k : bf16[1, 1, 40, 16] = user \"k\", %v : bf16[1, 1, 40, 16] = "
      "user \"v\") {\n  %a = aten::mul.Scalar(%q, 1e30)\n  %b = aten::mul.Scalar(%k, 1e30)\n"
      "  %y = aten::scaled_dot_product_attention(%a, %b, %v)\n  %z = aten::isnan(%y)\n"
      "  %c = aten::_to_copy(%z, dtype=bf16)\n  return user %c\n}\n";
  uint64_t seed = tc_test_seed();
  tc_tensor got, want;
  TC_TRY(rig_run_on("cpu", "always", text, seed, NULL, &got, NULL));
  TC_TRY(rig_run_on("ref", "always", text, seed, NULL, &want, NULL));
  (void)want;
  for (int64_t i = 0; i < tc_tensor_numel(&got); i++) assert_true(rig_bf16(&got, i) == 1);
  tc_tensor_unref(&got), tc_tensor_unref(&want);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(attention_is_the_references), cmocka_unit_test(long_rows),
                                     cmocka_unit_test(not_finite)};
  return TC_RUN(tests);
}
