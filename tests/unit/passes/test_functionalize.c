// functionalize: what single writes become, and random programs that must compute the same before and after all passes.
#include "core/ops/ops.h"
#include "tests/unit/passes/pass_test.h"

#define X "graph @f (%x : f32[2, 3] = user \"x\", %b : f32[3] = buffer \"b\" persistent) {\n"

TC_TEST(writes_become_values) {
  EXPECT(functionalize,
         X "%y = aten::add.Tensor(%x, 1)\n%z = aten::relu_(%y)\n%w = aten::neg(%y)\nreturn user %w, user %z }",
         "  %y : f32[2, 3] = aten::add.Tensor(%x, 1, 1)\n  %z_1 : f32[2, 3] = aten::relu(%y)\n  %w : f32[2, 3] = "
         "aten::neg(%z_1)\n  return user %w, user %z_1\n");
  EXPECT(functionalize, X "%y = aten::add_.Tensor(%b, %b)\n%z = aten::neg(%b)\nreturn user %z }",
         "  %y_1 : f32[3] = aten::add.Tensor(%b, %b, 1)\n  %z : f32[3] = aten::neg(%y_1)\n  return buffer \"b\" %y_1, "
         "user %z\n");
  EXPECT(functionalize, X "%y = aten::mul_.Scalar(%x, 2)\nreturn user %x }",
         "  %y_1 : f32[2, 3] = aten::mul.Scalar(%x, 2)\n  return input \"x\" %y_1, user %y_1\n");
  // copy_ does not read what it overwrites
  EXPECT(functionalize, X "%y = aten::neg(%b)\n%z = aten::copy_(%b, %y)\nreturn user %x }",
         "  %y : f32[3] = aten::neg(%b)\n  return buffer \"b\" %y, user %x\n");
  EXPECT(functionalize, X "%y = aten::select.int(%x, 0, 1)\n%z = aten::mul_.Tensor(%y, %b)\nreturn user %x, user %y }",
         "  %y : f32[3]{1}+3 = aten::select.int(%x, 0, 1)\n  %z_1 : f32[3] = aten::mul.Tensor(%y, %b)\n"
         "  %select_scatter : f32[2, 3] = aten::select_scatter(%x, %z_1, 0, 1)\n  %y_1 : f32[3]{1}+3 = "
         "aten::select.int(%select_scatter, 0, 1)\n"
         "  return input \"x\" %select_scatter, user %select_scatter, user %y_1\n");
  return TC_OK;
}

TC_TEST(views_are_made_again_after_a_write) {
  EXPECT(
      functionalize,
      X "%c = aten::clone(%x)\n%t = aten::permute(%c, [1, 0])\n%s = aten::slice.Tensor(%c, 1, 0, 2)\n%z = "
        "aten::relu_(%s)\n%n = aten::neg(%t)\nreturn user %n }",
      "  %c : f32[2, 3] = aten::clone(%x, none)\n  %t : f32[3, 2]{1, 3} = aten::permute(%c, [1, 0])\n  %s : f32[2, "
      "2]{3, 1} = aten::slice.Tensor(%c, 1, 0, 2, 1)\n"
      "  %z_1 : f32[2, 2] = aten::relu(%s)\n  %slice_scatter : f32[2, 3] = aten::slice_scatter(%c, %z_1, 1, 0, 2, 1)\n"
      "  %t_1 : f32[3, 2]{1, 3} = aten::permute(%slice_scatter, [1, 0])\n  %n : f32[3, 2]{1, 3} = aten::neg(%t_1)\n  "
      "return user %n\n");
  return TC_OK;
}

// Where the registry has no scatter ops, parts are put in place by cat.
TC_TEST(writes_without_scatter_ops) {
  tc_module *m;
  tc_graph *g;
  tc_op_registry *r;
  tc_tensor in, out[2];
  TC_TRY(test_module(arena, &m));
  TC_TRY(tc_op_registry_create(arena, &r));
  for (size_t i = 0; i < sizeof test_rows / sizeof *test_rows; i++)
    if (!strstr(test_rows[i].schema, "_scatter(")) TC_TRY(tc_op_register(r, &test_rows[i], TC_SV("")));
  m->ops = r;
  TC_TRY(
      test_parse(m,
                 "graph @f (%x : f32[3, 2] = user \"x\") {\n%c = aten::clone(%x)\n%s = aten::slice.Tensor(%c, 0, -2, "
                 "9223372036854775807)\n%a = aten::mul_.Tensor(%s, 10.0)\n%e = aten::select.int(%c, 0, 0)\n"
                 "%b = aten::neg_(%e)\nreturn user %c }",
                 &g));
  TC_TRY(tc_tensor_create(tc_system_allocator(), TC_F32, 2, (int64_t[]){3, 2}, &in));
  for (int32_t i = 0; i < 6; i++) ((float *)tc_tensor_data(&in))[i] = (float)(i + 1);
  TC_TRY(run_checked(g, (const tc_pass *const[]){&tc_pass_functionalize}, 1));
  TC_TRY(tc_ref_run(g, tc_system_allocator(), 1, &in, out, NULL));
  static const float want[] = {-1, -2, 30, 40, 50, 60};
  assert_memory_equal(tc_tensor_data(&out[0]), want, sizeof want);
  tc_tensor_unref(&in), tc_tensor_unref(&out[0]);
  return TC_OK;
}

TC_TEST(out_arguments_and_hidden_writes) {
  EXPECT(functionalize,
         X "%o = aten::clone(%x)\n%r = aten::sub.out(%x, %b, alpha=1, out=%o)\nreturn user %o, user %r }",
         "  %o : f32[2, 3] = aten::clone(%x, none)\n  %r_1 : f32[2, 3] = aten::sub.Tensor(%x, %b, 1)\n  return user "
         "%r_1, user %r_1\n");
  EXPECT(functionalize,
         X "%v = aten::add.Tensor(%b, 1)\n%y = aten::batch_norm(%x, none, none, %b, %v, true, 0.1, 1e-05, "
           "false)\nreturn user %y }",
         "  %v : f32[3] = aten::add.Tensor(%b, 1, 1)\n"
         "  %y_0 : f32[2, 3], %y_1 : f32[3], %y_2 : f32[3], %y_3 : f32[3], %y_4 : f32[3] = "
         "aten::_native_batch_norm_legit_functional(%x, none, none, %b, %v, true, 0.1, 1e-05)\n"
         "  return buffer \"b\" %y_3, user %y_0\n");
  return TC_OK;
}

TC_TEST(what_cannot_be_is_refused) {
  static const struct {
    const char *text, *part;
  } cases[] = {
      {X "%e = aten::expand(%b, [2, 3])\n%z = aten::relu_(%e) @ \"m.py:7 e.relu_()\"\nreturn user %b }",
       "more than one element of the written-to tensor refers to a single memory location"},
      {X "%e = aten::expand(%b, [2, 3])\n%z = aten::relu_(%e) @ \"m.py:7 e.relu_()\"\nreturn user %b }",
       "at m.py:7 e.relu_()"},
      {"graph @f (%x : f32[2] = constant \"c\") {\n%z = aten::relu_(%x)\nreturn user %z }",
       "the constant 'c' is written to"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tc_module *m;
    tc_graph *g;
    bool progress;
    TC_TRY(test_module(arena, &m));
    tc_status s = test_parse(m, cases[i].text, &g);
    if (!s) s = tc_pass_functionalize.run(g, &progress);
    if (!s || !strstr(tc_status_text(s), cases[i].part))
      fail_msg("no '%s' in %s", cases[i].part, s ? tc_status_text(s) : "ok");
    tc_status_free(s);
  }
  return TC_OK;
}

// ---- random programs ----
typedef struct program {
  tc_module *m;
  tc_graph *g;
  tc_value *values[64];
  int32_t n;
  uint64_t *seed;
} program;

static uint64_t pick(program *p, uint64_t n) { return n ? tc_test_random(p->seed) % n : 0; }
static tc_arg ints(program *p, int32_t n, const int64_t *v) {
  const tc_sym **e = TC_NEW_ARRAY(p->m->arena, const tc_sym *, n);
  for (int32_t i = 0; i < n; i++) e[i] = tc_sym_int(p->m->syms, v[i]);
  return tc_arg_syms(e, n);
}
static tc_arg one(program *p, int64_t v) { return tc_arg_sym(tc_sym_int(p->m->syms, v)); }

// Adds a node if the op takes the arguments.
static void add(program *p, const char *op, int32_t n, const tc_arg *args) {
  tc_node *made;
  const tc_op *o = tc_op_find(p->m->ops, tc_sv_of(op));
  tc_status s = tc_graph_add_node(p->g, NULL, o, n, args, (tc_sv){0}, (tc_sv){0}, &made);
  if (s) {
    tc_status_free(s);
    return;
  }
  for (int32_t i = 0; i < made->n_results && p->n < 64; i++) p->values[p->n++] = made->results[i];
}

static void random_view(program *p, tc_value *x) {
  int32_t rank = x->type.rank;
  int64_t d = rank ? (int64_t)pick(p, (uint64_t)rank) : 0, size = rank ? x->type.sizes[d]->value : 1;
  tc_arg t = tc_arg_tensor(x);
  int64_t perm[TC_MAX_RANK], flat[2] = {-1, 2};
  switch (pick(p, 10)) {
  case 0:
    for (int32_t i = 0; i < rank; i++) perm[i] = rank - 1 - i;
    add(p, "aten::permute", 2, (tc_arg[]){t, ints(p, rank, perm)});
    break;
  case 1: add(p, "aten::transpose.int", 3, (tc_arg[]){t, one(p, d), one(p, -1)}); break;
  case 2:
    add(p, "aten::select.int", 3,
        (tc_arg[]){t, one(p, d), one(p, (int64_t)pick(p, (uint64_t)size) - (pick(p, 2) ? size : 0))});
    break;
  case 3:
    add(p, "aten::slice.Tensor", 5,
        (tc_arg[]){t, one(p, d), one(p, (int64_t)pick(p, (uint64_t)size)), one(p, pick(p, 2) ? INT64_MAX : size - 1),
                   one(p, 1 + (int64_t)pick(p, 2))});
    break;
  case 4: add(p, "aten::unsqueeze", 2, (tc_arg[]){t, one(p, d)}); break;
  case 5: add(p, "aten::view", 2, (tc_arg[]){t, ints(p, 1 + (int32_t)pick(p, 2), flat)}); break;
  case 6: add(p, "aten::unbind.int", 2, (tc_arg[]){t, one(p, d)}); break;
  case 7: add(p, "aten::reshape", 2, (tc_arg[]){t, ints(p, 1, flat)}); break;
  case 8: add(p, "aten::squeeze.dim", 2, (tc_arg[]){t, one(p, d)}); break;
  default:
    // diagonal-like: strides that no other view says; of roots only
    if (!x->def && rank == 2)
      add(p, "aten::as_strided", 4,
          (tc_arg[]){t, ints(p, 1, (int64_t[]){2}), ints(p, 1, (int64_t[]){x->type.sizes[1]->value + 1}),
                     one(p, (int64_t)pick(p, 2))});
    else add(p, "aten::alias", 1, &t);
  }
}

static void random_step(program *p) {
  tc_value *x = p->values[pick(p, (uint64_t)p->n)], *y = p->values[pick(p, (uint64_t)p->n)];
  tc_arg two[] = {tc_arg_tensor(x), tc_arg_tensor(y)};
  bool number = pick(p, 4) == 0;
  if (number) two[1] = tc_arg_float(0.5);
  switch (pick(p, 12)) {
  case 0: add(p, "aten::add.Tensor", 2, two); break;
  case 1: add(p, "aten::mul.Tensor", 2, two); break;
  case 2: add(p, "aten::relu", 1, two); break;
  case 3: add(p, "aten::add_.Tensor", 2, two); break;
  case 4: add(p, "aten::mul_.Tensor", 2, (tc_arg[]){two[0], tc_arg_float(0.5)}); break;
  case 5: add(p, "aten::copy_", 2, (tc_arg[]){two[0], tc_arg_tensor(y)}); break;
  case 6: add(p, "aten::neg_", 1, two); break;
  case 7: add(p, "aten::fill_.Scalar", 2, (tc_arg[]){two[0], tc_arg_float((double)pick(p, 5))}); break;
  case 8: add(p, "aten::clone", 1, two); break;
  default: random_view(p, x);
  }
}

typedef struct outcome {
  tc_tensor out[64];
  int32_t n;
} outcome;

// User outputs only: mutations are seen because inputs are outputs too.
static tc_status compute(tc_graph *g, const tc_tensor *in, int32_t n_in, outcome *o) {
  tc_tensor all[80];
  TC_TRY(tc_ref_run(g, tc_system_allocator(), n_in, in, all, NULL));
  o->n = 0;
  for (int32_t i = 0; i < g->outputs.count; i++) {
    if (g->outputs.data[i].kind == TC_OUT_USER) o->out[o->n++] = all[i];
    else tc_tensor_unref(&all[i]);
  }
  return TC_OK;
}

static void compare(const outcome *a, const outcome *b, const char *before, const char *after) {
  assert_int_equal(a->n, b->n);
  for (int32_t i = 0; i < a->n; i++) {
    assert_int_equal(a->out[i].rank, b->out[i].rank);
    int64_t index[TC_MAX_RANK] = {0};
    for (int64_t e = 0; e < tc_tensor_numel(&a->out[i]); e++) {
      double x, y, im;
      int64_t rest = e;
      for (int32_t d = a->out[i].rank - 1; d >= 0; d--)
        index[d] = rest % a->out[i].sizes[d], rest /= a->out[i].sizes[d];
      tc_tensor_get(&a->out[i], index, &x, &im);
      tc_tensor_get(&b->out[i], index, &y, &im);
      if (x != y)
        fail_msg("output %d, element %d: %g, after the passes %g\n%s\n%s", (int)i, (int)e, x, y, before, after);
    }
  }
}

static void release(outcome *o) {
  for (int32_t i = 0; i < o->n; i++) tc_tensor_unref(&o->out[i]);
}

static tc_status random_program(tc_arena *arena, const tc_op_registry *ops, uint64_t *seed, int32_t steps,
                                int32_t *writes, int32_t *marks) {
  program p = {.seed = seed};
  TC_TRY(test_module(arena, &p.m));
  p.m->ops = ops;
  p.g = tc_graph_create(p.m, TC_SV("f"));
  tc_tensor in[2];
  static const int64_t sizes[] = {3, 4};
  for (int32_t i = 0; i < 2; i++) {
    const tc_sym *dims[] = {tc_sym_int(p.m->syms, 3), tc_sym_int(p.m->syms, 4)};
    tc_tensor_type t = {.dtype = TC_F32, .rank = 2, .sizes = dims, .offset = tc_sym_int(p.m->syms, 0)};
    p.values[p.n++] =
        tc_graph_add_input(p.g, i ? TC_IN_BUFFER : TC_IN_USER, TC_SV("x"), i ? TC_SV("b") : TC_SV("x"), &t);
    TC_TRY(tc_tensor_create(tc_system_allocator(), TC_F32, 2, sizes, &in[i]));
    tc_tensor_fill_uniform_int(&tc_executor_serial, &in[i], tc_test_random(seed), -8, 9);
  }
  while (steps-- > 0 && p.n < 56) random_step(&p);
  for (int32_t i = 0; i < p.n; i++)
    if (i < 2 || pick(&p, 3) == 0) tc_graph_add_output(p.g, TC_OUT_USER, tc_arg_tensor(p.values[i]), (tc_sv){0});
  tc_graph_sweep(p.g);
  for (tc_node *n = p.g->first; n; n = n->next) *writes += tc_node_writes(n);
  TC_TRY(tc_graph_verify(p.g));
  const char *before = test_print(p.g);
  outcome a, b, c;
  TC_TRY(compute(p.g, in, 2, &a), "of\n%s", before);
  tc_status s = run_checked(p.g, (const tc_pass *const[]){&tc_pass_functionalize}, 1);
  if (s) fprintf(stderr, "%s\n%s\n", before, test_print(p.g));
  TC_TRY(s);
  for (tc_node *n = p.g->first; n; n = n->next) assert_false(tc_node_writes(n));
  TC_TRY(compute(p.g, in, 2, &b), "of\n%s", before);
  compare(&a, &b, before, test_print(p.g));
  int32_t n_passes;
  const tc_pass *const *all = tc_standard_passes(&n_passes);
  TC_TRY(run_checked(p.g, all, n_passes), "of\n%s", before);
  TC_TRY(run_checked(p.g, (const tc_pass *const[]){&tc_pass_reinplace}, 1), "of\n%s", before);
  for (tc_node *n = p.g->first; n; n = n->next) *marks += n->inplace >= 0;
  TC_TRY(compute(p.g, in, 2, &c), "of\n%s", before);
  compare(&a, &c, before, test_print(p.g));
  release(&a), release(&b), release(&c);
  for (int32_t i = 0; i < 2; i++) tc_tensor_unref(&in[i]);
  return TC_OK;
}

TC_TEST(random_programs_mean_the_same) {
  uint64_t seed = tc_test_seed();
  int32_t writes = 0, marks = 0;
  tc_op_registry *ops; // layouts with gaps are made by ops that the test's own rows lack
  TC_TRY(tc_op_registry_create(arena, &ops));
  TC_TRY(tc_ops_register_core(ops));
  for (int32_t i = 0; i < 300; i++) TC_TRY(random_program(arena, ops, &seed, 4 + i % 24, &writes, &marks));
  print_message("%d writes, %d nodes in place\n", writes, marks);
  assert_true(writes > 300);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(writes_become_values),       cmocka_unit_test(views_are_made_again_after_a_write),
      cmocka_unit_test(writes_without_scatter_ops), cmocka_unit_test(out_arguments_and_hidden_writes),
      cmocka_unit_test(what_cannot_be_is_refused),  cmocka_unit_test(random_programs_mean_the_same)};
  return TC_RUN(tests);
}
