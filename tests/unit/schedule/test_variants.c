// Kernels chosen by facts about sizes: whichever facts hold, each kernel gives what the references give.
#include "core/plan/plan.h"
#include "tests/unit/schedule/pipeline.h"

static tc_status compile(pipeline *p, const tc_device_props *device, tc_plan **out) {
  tc_lower_options lo = {.logger = &tc_logger_silent, .templates = &p->templates};
  tc_schedule_options so = {.logger = &tc_logger_silent, .device = device, .fuse = true};
  tc_emit_options eo = {.logger = &tc_logger_silent, .device = device, .variants = true};
  tc_loops *l;
  tc_schedule *s;
  TC_TRY(tc_lower_graph(p->g, &lo, &l));
  TC_TRY(tc_schedule_loops(l, &so, &s));
  TC_TRY(tc_plan_build(s, &eo, out));
  return tc_plan_verify(*out);
}

// The plan with its variants prints, reads and prints the same.
static tc_status round_trip(pipeline *p, tc_arena *arena, const tc_plan *plan) {
  tc_sb first = tc_sb_make(arena), second = tc_sb_make(arena);
  tc_plan_print(&first, plan);
  tc_module *m = TC_NEW(arena, tc_module);
  *m = (tc_module){.arena = arena, .ops = p->m->ops, .syms = tc_sym_create(arena), .bindings = tc_map_create(arena)};
  tc_lexer lx;
  tc_plan *read;
  tc_lex_init(&lx, arena, TC_SV("plan.tc"), tc_sb_view(&first));
  TC_TRY(tc_plan_parse(m, &lx, &read), "%s", first.text);
  tc_plan_print(&second, read);
  assert_string_equal(first.text, second.text);
  return tc_plan_verify(read);
}

typedef struct shape {
  const char *text;
  int32_t n;       // symbols
  int64_t most[2]; // of each
  int32_t least;   // variants on the first device, of one kernel
} shape;

static tc_status one_size(tc_arena *arena, const shape *x, const int64_t *values, int32_t *picked, int32_t *have) {
  pipeline p;
  tc_status s = pipeline_open_at(&p, arena, x->text, x->n, values);
  for (int32_t d = 0; d < N_DEVICES && s == TC_OK; d++) {
    tc_plan *plan = NULL;
    s = compile(&p, &devices[d].props, &plan);
    if (s == TC_OK && d == 0) s = round_trip(&p, arena, plan);
    for (int32_t i = 0; s == TC_OK && d == 0 && i < plan->ops.count; i++)
      if (plan->ops.data[i].n_variants > *have) *have = plan->ops.data[i].n_variants;
    for (int32_t only = 0; only <= TC_PLAN_VARIANTS + 1 && s == TC_OK; only++) { // the last: general kernels alone
      plan_run r = {.p = plan, .symbols = p.symbols, .inputs = p.in, .only = only};
      tc_tensor out[MOST_IO] = {0};
      s = plan_run_all(&r, arena, out);
      for (int32_t i = 0; i < plan->outputs.count && s == TC_OK; i++)
        s = compare(&out[i], &p.narrow[i], &p.wide[i], closely, i);
      for (int32_t i = 0; i < plan->outputs.count; i++) tc_tensor_unref(&out[i]);
      for (int32_t i = 0; i < TC_PLAN_VARIANTS; i++) {
        if (d == 0) picked[i] += r.picked[i];
      }
    }
    if (s != TC_OK) s = tc_status_note(s, "on %s with sizes %d, %d", devices[d].name, (int)values[0], (int)values[1]);
  }
  pipeline_close(&p);
  return s;
}

TC_TEST(every_variant_is_right) {
  static const shape shapes[] = {
      {"graph @f [s0 in [1, 512] hint 12] (%x : f32[s0, 40] = user \"x\") {\n"
       "  %y : f32[s0, 40] = aten::softmax.int(%x, 1, none)\n  return user %y\n}\n",
       1,
       {70, 0},
       0},
      {"graph @f [s0 in [1, 512] hint 24] (%x : f32[8, s0] = user \"x\") {\n"
       "  %y : f32[8, s0] = aten::softmax.int(%x, 1, none)\n  return user %y\n}\n",
       1,
       {90, 0},
       1},
      {"graph @f [s0 in [1, 512] hint 9] (%x : f32[s0, 20] = user \"x\", %w : f32[20, 33] = user \"w\") {\n"
       "  %y : f32[s0, 33] = aten::mm(%x, %w)\n  %z : f32[s0, 33] = aten::relu(%y)\n  return user %z\n}\n",
       1,
       {60, 0},
       3},
      {"graph @f [s0 in [1, 512] hint 5, s1 in [1, 512] hint 6] (%x : f32[s0, s1] = user \"x\", %y : f32[s0, s1] = "
       "user \"y\") {\n  %a : f32[s0, s1] = aten::add.Tensor(%x, %y)\n"
       "  %s : f32[s1] = aten::sum.dim_IntList(%a, [0])\n  return user %a, user %s\n}\n",
       2,
       {40, 40},
       1},
      {"graph @f [s0 in [1, 100000] hint 7, s1 in [1, 100000] hint 40] (%x : f32[2, s0, s1] = user \"x\") {\n"
       "  %y : f32[2, s0, s1] = aten::cumsum(%x, 2)\n  return user %y\n}\n",
       2,
       {20, 60},
       3},
  };
  uint64_t seed = tc_test_seed();
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const shape *x = &shapes[i];
    int32_t picked[TC_PLAN_VARIANTS] = {0}, have = 0;
    for (int32_t round = 0; round < 7; round++) {
      pipeline hints;
      int64_t values[2];
      TC_TRY(pipeline_open(&hints, arena, x->text));
      for (int32_t k = 0; k < 2; k++) { // the example, one row, multiples of 16, anything
        values[k] = 1 + (int64_t)(tc_test_random(&seed) % (uint64_t)(x->most[k] ? x->most[k] : 1));
        if (round == 0 && k < x->n) values[k] = hints.symbols[k];
        if (round == 1) values[k] = 1;
        if (round == 2) values[k] = 16 * (1 + (int64_t)(tc_test_random(&seed) % 3));
        if (round == 3) values[k] = 17 + 2 * k;
      }
      pipeline_close(&hints);
      TC_TRY(one_size(arena, x, values, picked, &have), "%s", x->text);
    }
    if (have < x->least) fail_msg("%d variants, expected %d: %s", (int)have, (int)x->least, x->text);
    for (int32_t k = 0; k < have; k++)
      if (!picked[k]) fail_msg("variant %d of %d was never picked: %s", (int)k, (int)have, x->text);
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_variant_is_right)};
  return TC_RUN(tests);
}
