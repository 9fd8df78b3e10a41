// The pt2 frontend over tests/data/pt2 (made for it, see make.py there) and tests/data/models (real ones).
#define DATA TC_SOURCE_DIR "/tests/data/"
#include "tests/unit/frontends/pt2_test.h"

// ---- programs ----
TC_TEST_TORTURED(reads_state) {
  tc_program *p;
  TC_TRY(load(arena, DATA "pt2/state.functional.pt2", &p));
  assert_int_equal(p->schema_minor, 20);
  assert_true(tc_sv_starts(p->torch_version, "2."));
  assert_int_equal(p->dialect, TC_DIALECT_FUNCTIONAL);
  assert_int_equal(p->disagreements.count, 0);
  assert_int_equal(p->warnings.count, 0);
  assert_int_equal(p->inputs.count, 2);
  assert_sv(p->inputs.data[0].name, "x");
  assert_sv(p->inputs.data[1].name, "y");
  assert_int_equal(p->inputs.data[1].index, 8);
  assert_int_equal(p->outputs.count, 1);
  assert_sv(p->outputs.data[0].name, "");
  const tc_graph *g = p->graph;
  assert_sv(g->name, "forward");
  assert_int_equal(g->inputs.data[4].kind, TC_IN_BUFFER);
  assert_true(g->inputs.data[4].persistent);
  assert_false(g->inputs.data[5].persistent);
  assert_int_equal(g->inputs.data[6].kind, TC_IN_CONSTANT);
  assert_int_equal(g->outputs.data[0].kind, TC_OUT_BUFFER_MUTATION);
  assert_sv(g->outputs.data[0].target, "count");
  assert_int_equal(g->outputs.data[1].kind, TC_OUT_INPUT_MUTATION);
  assert_sv(g->outputs.data[1].target, "y");
  assert_sv(g->first->source, "make.py:90 y.mul_(2)");
  tc_status s = graph_verify(p);
  tc_program_destroy(p);
  return s;
}

// The values of tests/data/pt2/state*.pt2: w[i][j] = 4*j + i, stored by columns; one storage for three names.
static tc_status check_state(tc_arena *arena, const char *path, bool mapped) {
  tc_program *p;
  TC_TRY(load(arena, path, &p), "while reading %s", path);
  const tc_binding *w = binding_of(p, "w"), *steps = binding_of(p, "steps"), *lifted = binding_of(p, "lifted_tensor_0");
  assert_true(w->is_parameter);
  assert_false(steps->is_parameter);
  assert_ptr_equal(w->tensor.storage, binding_of(p, "tied")->tensor.storage);
  assert_ptr_equal(w->tensor.storage, binding_of(p, "lin.weight")->tensor.storage);
  assert_int_equal(w->tensor.strides[0], 1);
  for (int64_t i = 0; i < 4; i++)
    for (int64_t k = 0; k < 4; k++) {
      double re, im;
      tc_tensor_get(&w->tensor, (int64_t[]){i, k}, &re, &im);
      assert_true(re == (double)(4 * k + i));
    }
  for (int64_t i = 0; i < 4; i++) {
    double re, im;
    tc_tensor_get(&lifted->tensor, &i, &re, &im);
    assert_true(re == (double)(i + 1));
  }
  if (mapped) assert_int_equal((uintptr_t)tc_tensor_data(&w->tensor) % 64, 0);
  assert_int_equal(p->disagreements.count, 0);
  tc_program_destroy(p);
  return TC_OK;
}

TC_TEST(reads_every_layout) {
  TC_TRY(check_state(arena, DATA "pt2/state.functional.pt2", true));
  TC_TRY(check_state(arena, DATA "pt2/state.pt2", true));
  TC_TRY(check_state(arena, DATA "pt2/state.deflated.pt2", true));
  TC_TRY(check_state(arena, DATA "pt2/state.big.pt2", true));
  TC_TRY(check_state(arena, DATA "pt2/state.flat.pt2", false));
  return TC_OK;
}

TC_TEST(flat_layout_says_its_version) {
  tc_program *p;
  TC_TRY(load(arena, DATA "pt2/state.flat.pt2", &p));
  assert_int_equal(p->schema_minor, 7);
  assert_sv(p->torch_version, "2.7.0");
  tc_program_destroy(p);
  return TC_OK;
}

TC_TEST(weights_outlive_the_archive) {
  tc_program *p;
  TC_TRY(load(arena, DATA "pt2/state.pt2", &p));
  tc_tensor w = tc_tensor_ref(&binding_of(p, "w")->tensor);
  tc_program_destroy(p);
  double re, im;
  tc_tensor_get(&w, (int64_t[]){3, 2}, &re, &im);
  assert_true(re == 11);
  tc_tensor_unref(&w);
  return TC_OK;
}

TC_TEST(reads_trees) {
  tc_program *p;
  TC_TRY(load(arena, DATA "pt2/tree.pt2", &p));
  const char *const inputs[] = {"x", "d.k[0]", "d.k[1]", "rest_0", "pair.p", "pair.q", "flag", "last"};
  const char *const outputs[] = {"a", "b[0]", "b[1].p", "b[1].q", "c", "n", "s", "i", "o.u"};
  assert_int_equal(p->inputs.count, 8);
  assert_int_equal(p->outputs.count, 9);
  for (int32_t i = 0; i < 8; i++) assert_sv(p->inputs.data[i].name, inputs[i]);
  for (int32_t i = 0; i < 9; i++) assert_sv(p->outputs.data[i].name, outputs[i]);
  const tc_graph_input *flag = &p->graph->inputs.data[p->inputs.data[6].index];
  assert_null(flag->value);
  assert_true(tc_sym_is_int(flag->constant.sym, 4));
  assert_int_equal(p->graph->outputs.data[5].arg.kind, TC_AK_NONE);
  assert_sv(p->graph->outputs.data[6].arg.text, "text");
  assert_int_equal(p->in_tree->kind, 't');
  assert_int_equal(p->in_tree->kids[1]->kind, 'd');
  assert_sv(p->in_tree->kids[1]->keys[0], "pair");
  assert_int_equal(p->in_tree->kids[1]->kids[0]->kind, 'n');
  assert_sv(p->in_tree->kids[1]->kids[0]->type, "Pair");
  assert_int_equal(p->out_tree->n, 7);
  tc_status s = graph_verify(p);
  tc_program_destroy(p);
  return s;
}

TC_TEST(reads_several_programs) {
  tc_pt2 *f;
  tc_program *encode, *decode;
  TC_TRY(tc_pt2_open(DATA "pt2/methods.pt2", registry,
                     &(tc_pt2_options){.allocator = tc_arena_allocator(arena), .verify_weights = true}, &f));
  assert_int_equal(tc_pt2_count(f), 2);
  assert_int_equal(tc_pt2_find(f, TC_SV("nothing")), -1);
  TC_TRY(tc_pt2_load(f, tc_pt2_find(f, TC_SV("encode")), &encode));
  TC_TRY(tc_pt2_load(f, tc_pt2_find(f, TC_SV("decode")), &decode));
  assert_error(tc_pt2_load(f, 2, &(tc_program *){NULL}), TC_STATUS_OUT_OF_RANGE, "no program 2");
  tc_tensor_list samples;
  TC_TRY(tc_pt2_sample_inputs(f, decode, &samples));
  assert_int_equal(samples.count, 1);
  assert_sv(samples.items[0].name, "x");
  assert_int_equal(samples.items[0].tensor.sizes[0], 3);
  tc_tensor_list_free(&samples);
  tc_pt2_close(f);
  assert_sv(encode->graph->name, "encode");
  assert_sv(decode->graph->name, "decode");
  assert_int_equal(tc_map_count(encode->module->bindings), 0);
  assert_int_equal(tc_map_count(decode->module->bindings), 2);
  tc_program_destroy(encode);
  tc_program_destroy(decode);
  return TC_OK;
}

// ---- symbols ----
TC_TEST(numbers_become_expressions) {
  tc_program *p;
  TC_TRY(load(arena, DATA "pt2/numbers.pt2", &p));
  assert_int_equal(p->warnings.count, 0);
  const char *text = graph_text(p);
  assert_null(strstr(text, "sym_size"));
  assert_null(strstr(text, "floordiv"));
  assert_contains(text, "require 0 <= s86");
  assert_contains(text, "require 2 <= s86*(s77//2)");
  assert_contains(text, "require s86 != 1");
  assert_contains(text, "aten::new_zeros(%x, [s86, s77//2]");
  assert_contains(text, "user \"1\" s86 + 1");
  const tc_graph_input *n = &p->graph->inputs.data[1];
  assert_int_equal(n->value->kind, TC_VALUE_SYM);
  assert_int_equal(tc_sym_info_of(p->module->syms, n->value->symbol)->hint, 5);
  const tc_graph_input *f = &p->graph->inputs.data[2];
  assert_true(f->value == NULL && f->constant.real == 2.5);
  tc_status s = graph_verify(p);
  tc_program_destroy(p);
  return s;
}

// k = item(n) is checked at run time, x[:k] has its size; f = item(sum(x)) is used as a number, f * 2 is computed.
TC_TEST(numbers_from_data) {
  tc_program *p;
  TC_TRY(load(arena, DATA "pt2/item.pt2", &p));
  int32_t asserts = 0, items = 0;
  for (const tc_node *n = p->graph->first; n; n = n->next) {
    asserts += tc_sv_is(n->op->full_name, "aten::_assert_scalar");
    items += tc_sv_is(n->op->full_name, "aten::item");
  }
  assert_int_equal(asserts, 2);
  assert_int_equal(items, 3);
  assert_int_equal(p->module->requires_.count, 0);
  const tc_value *first = p->graph->outputs.data[0].arg.value, *second = p->graph->outputs.data[1].arg.value;
  assert_int_equal(first->type.rank, 1);
  assert_int_equal(first->type.sizes[0]->kind, TC_SYM_SYMBOL);
  assert_ptr_equal(first->type.sizes[0], second->type.sizes[0]);
  const tc_sym_info *k = tc_sym_info_of(p->module->syms, first->type.sizes[0]);
  assert_int_equal(k->origin, TC_SYM_UNBACKED);
  tc_status s = graph_verify(p);
  tc_program_destroy(p);
  return s;
}

TC_TEST(branches_are_regions) {
  const char *const files[] = {DATA "pt2/branch.pt2", DATA "pt2/branch.functional.pt2"};
  for (int32_t i = 0; i < 2; i++) {
    tc_program *p;
    TC_TRY(load(arena, files[i], &p));
    assert_int_equal(p->dialect, i == 0 ? TC_DIALECT_TRAINING : TC_DIALECT_FUNCTIONAL);
    const tc_node *cond = p->graph->last;
    assert_sv(cond->op->full_name, "higher_order::cond");
    assert_int_equal(cond->n_args, 4);
    assert_int_equal(cond->args[0].kind, TC_AK_INT); // 5 <= s77
    assert_int_equal(cond->args[0].sym->kind, TC_SYM_LE);
    assert_int_equal(cond->args[1].kind, TC_AK_GRAPH);
    assert_int_equal(cond->args[1].graph->inputs.data[0].kind, TC_IN_OPERAND);
    assert_int_equal(cond->args[3].kind, TC_AK_TENSORS);
    assert_int_equal(cond->args[3].n, 1);
    TC_TRY(graph_verify(p));
    tc_program_destroy(p);
  }
  return TC_OK;
}

TC_TEST(tokens_pass_through) {
  tc_program *p;
  TC_TRY(load(arena, DATA "pt2/solve.core.pt2", &p));
  assert_int_equal(p->dialect, TC_DIALECT_CORE);
  assert_int_equal(p->graph->inputs.data[0].kind, TC_IN_TOKEN);
  assert_int_equal(p->graph->outputs.data[0].kind, TC_OUT_TOKEN);
  assert_ptr_equal(p->graph->outputs.data[0].arg.value, p->graph->inputs.data[0].value);
  assert_int_equal(p->inputs.count, 2);
  assert_int_equal(p->inputs.data[0].index, 1);
  int32_t checks = 0;
  for (const tc_node *n = p->graph->first; n; n = n->next)
    if (tc_sv_is(n->op->full_name, "aten::_linalg_check_errors")) {
      assert_sv(n->args[1].text, checks++ ? "linalg.inv" : "torch.linalg.solve");
      assert_int_equal(n->args[2].integer, 1);
    }
  assert_int_equal(checks, 2);
  tc_status s = graph_verify(p);
  tc_program_destroy(p);
  return s;
}

// ---- guards ----
typedef struct guard_case {
  const char *guard;
  const char *require; // what the graph then says; NULL: a warning
} guard_case;

TC_TEST(reads_guards) {
  static const guard_case cases[] = {
      {"L['n'] == 2 * L['x'].size()[0]", "require 2*s77 == s86"},
      {"not L['n'] == 7 and (L['x'].size()[0] % 3) == 0", "require Mod(s77, 3) == 0 && s86 != 7"},
      {"L['n'] > 3 or L['x'].stride()[0] != L['n']", "require s86 != 4 || 4 <= s86"},
      {"max(L['n'], 9) <= torch.sym_min(L['x'].size()[0], 40)", "require Max(s86, 9) <= Min(s77, 40)"},
      {"(L['n'] // 2)**2 >= 16", "require 16 <= (s86//2)**2"},
      {"2 <= L['n'] <= 9", NULL},
      {"L['n'].bit_length() > 2", NULL},
      {"L['z'].size()[0] == 1", NULL},
      {"L['x'].size()[7] == 1", NULL},
      {"f(L['n'])", NULL},
      {"L['n'] >= ", NULL},
      {"L['n'] >= 1)", NULL},
      {"((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((L['n']", NULL},
      {"", NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tc_storage *bytes;
    tc_program *p;
    const char *quoted = tc_sv_printf(arena, "\"guards_code\": [\"%s\", ", cases[i].guard).data;
    TC_TRY(edited(arena, DATA "pt2/numbers.pt2", "model.json", "\"guards_code\": [", quoted, &bytes));
    TC_TRY(load_storage(arena, bytes, 0, &p), "guard '%s'", cases[i].guard);
    if (p->warnings.count != (cases[i].require ? 0 : 1))
      fail_msg("'%s': %d warnings", cases[i].guard, p->warnings.count);
    if (cases[i].require) assert_contains(graph_text(p), cases[i].require);
    tc_program_destroy(p);
    tc_storage_unref(bytes);
  }
  return TC_OK;
}

// ---- inlined regions ----
// A program with a region without the outer graph's names: y = sin(x), wrapped by an op with some arguments in front of
// the region; then y + 1.
static tc_status load_wrapped(tc_arena *arena, const char *op, const char *arguments, tc_program **out) {
  static const char format[] =
      "{\"graph_module\": {\"graph\": {\"inputs\": [{\"as_tensor\": {\"name\": \"x\"}}], \"outputs\": [{\"as_tensor\": "
      "{\"name\": \"add\"}}], \"nodes\": ["
      "{\"target\": \"torch.ops.higher_order.%s\", \"inputs\": [%s, "
      "{\"name\": \"\", \"arg\": {\"as_graph\": {\"name\": \"sub\", \"graph\": "
      "{\"inputs\": [{\"as_tensor\": {\"name\": \"a\"}}], \"outputs\": [{\"as_tensor\": {\"name\": \"sin\"}}], "
      "\"nodes\": [{\"target\": \"torch.ops.aten.sin.default\", \"inputs\": [{\"name\": \"self\", \"arg\": "
      "{\"as_tensor\": {\"name\": \"a\"}}}], "
      "\"outputs\": [{\"as_tensor\": {\"name\": \"sin\"}}], \"metadata\": {}}], \"tensor_values\": {\"sin\": "
      "{\"dtype\": 7, \"sizes\": [{\"as_int\": 3}], \"strides\": [{\"as_int\": 1}]}}, \"sym_int_values\": {}, "
      "\"sym_bool_values\": {}}}}}, "
      "{\"name\": \"\", \"arg\": {\"as_tensor\": {\"name\": \"x\"}}}], \"outputs\": [{\"as_tensor\": {\"name\": "
      "\"y\"}}], \"metadata\": {}}, "
      "{\"target\": \"torch.ops.aten.add.Tensor\", \"inputs\": [{\"name\": \"self\", \"arg\": {\"as_tensor\": "
      "{\"name\": \"y\"}}}, {\"name\": \"other\", \"arg\": {\"as_float\": \"NaN\"}}], \"outputs\": [{\"as_tensor\": "
      "{\"name\": \"add\"}}], \"metadata\": {}}], "
      "\"tensor_values\": {\"x\": {\"dtype\": 7, \"sizes\": [{\"as_int\": 3}], \"strides\": [{\"as_int\": 1}]}, "
      "\"add\": {\"dtype\": 7, \"sizes\": [{\"as_int\": 3}], \"strides\": [{\"as_int\": 1}]}}, \"sym_int_values\": {}, "
      "\"sym_bool_values\": {}}, "
      "\"signature\": {\"input_specs\": [{\"user_input\": {\"arg\": {\"as_tensor\": {\"name\": \"x\"}}}}], "
      "\"output_specs\": [{\"user_output\": {\"arg\": {\"as_tensor\": {\"name\": \"add\"}}}}]}, \"module_call_graph\": "
      "[]}, "
      "\"range_constraints\": {}, \"schema_version\": {\"major\": 8, \"minor\": 5}, \"verifiers\": [\"TRAINING\"]}";
  tc_storage *bytes;
  TC_TRY(edited(arena, DATA "pt2/methods.pt2", "encode.json", NULL, tc_sv_printf(arena, format, op, arguments).data,
                &bytes));
  tc_status s = load_storage(arena, bytes, 0, out);
  tc_storage_unref(bytes);
  return s;
}

TC_TEST(no_grad_regions_are_inlined) {
  tc_program *p;
  TC_TRY(load_wrapped(arena, "wrap_with_set_grad_enabled", "{\"name\": \"\", \"arg\": {\"as_bool\": false}}", &p));
  const char *const ops[] = {"aten::sin", "aten::detach", "aten::add.Tensor"};
  int32_t i = 0;
  for (const tc_node *n = p->graph->first; n; n = n->next) assert_sv(n->op->full_name, ops[i++]);
  assert_int_equal(i, 3);
  assert_sv(p->inputs.data[0].name, "x"); // without a tree: the graph's own name
  assert_sv(p->outputs.data[0].name, "0");
  TC_TRY(graph_verify(p));
  tc_program_destroy(p);
  return TC_OK;
}

// autocast(device, dtype, on, cache) around a region, which is inlined: the casts are those of an op by name.
TC_TEST(autocast_regions) {
  static const char format[] =
      "{\"name\": \"\", \"arg\": {\"as_string\": \"%s\"}}, {\"name\": \"\", \"arg\": {\"as_scalar_type\": %d}}, "
      "{\"name\": \"\", \"arg\": {\"as_bool\": %s}}, {\"name\": \"\", \"arg\": {\"as_bool\": false}}";
  static const struct {
    const char *device, *on, *error;
    int32_t type;
  } cases[] = {{"cpu", "false", NULL, 13},
               {"cpu", "true", NULL, 13},
               {"cuda", "true", NULL, 6},
               {"cpu", "true", "autocast to f32", 7},
               {"cpu", "1", "expected a truth value", 13}};
  const char *const ops[] = {"aten::sin", "aten::add.Tensor"};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    tc_program *p;
    tc_sv arguments = tc_sv_printf(arena, format, cases[k].device, cases[k].type, cases[k].on);
    tc_status s = load_wrapped(arena, "wrap_with_autocast", arguments.data, &p);
    if (cases[k].error) {
      assert_contains(tc_status_text(s), cases[k].error);
      tc_status_free(s);
      continue;
    }
    TC_TRY(s);
    int32_t i = 0;
    for (const tc_node *n = p->graph->first; n; n = n->next) assert_sv(n->op->full_name, ops[i++]);
    assert_int_equal(i, 2);
    TC_TRY(graph_verify(p));
    tc_program_destroy(p);
  }
  return TC_OK;
}

// ---- meta ----
TC_TEST(notes_disagreements) {
  tc_storage *bytes;
  tc_program *p;
  TC_TRY(edited(arena, DATA "pt2/state.functional.pt2", "model.json",
                "\"add_3\": {\"dtype\": 7, \"sizes\": [{\"as_int\": 4}",
                "\"add_3\": {\"dtype\": 8, \"sizes\": [{\"as_int\": 5}", &bytes));
  TC_TRY(load_storage(arena, bytes, 0, &p));
  assert_int_equal(p->disagreements.count, 1);
  const tc_pt2_disagreement *d = &p->disagreements.data[0];
  assert_int_equal(d->what, TC_PT2_DTYPE | TC_PT2_SIZES);
  assert_false(d->harmless);
  assert_sv(d->op, "aten::add.Tensor");
  assert_sv(d->value, "add_3");
  assert_sv(d->archive, "f64[5, 4]{4, 1}+0");
  assert_sv(d->meta, "f32[4, 4]{4, 1}+0");
  tc_program_destroy(p);
  tc_storage_unref(bytes);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_state),
      cmocka_unit_test(reads_every_layout),
      cmocka_unit_test(flat_layout_says_its_version),
      cmocka_unit_test(weights_outlive_the_archive),
      cmocka_unit_test(reads_trees),
      cmocka_unit_test(reads_several_programs),
      cmocka_unit_test(numbers_become_expressions),
      cmocka_unit_test(numbers_from_data),
      cmocka_unit_test(branches_are_regions),
      cmocka_unit_test(tokens_pass_through),
      cmocka_unit_test(reads_guards),
      cmocka_unit_test(no_grad_regions_are_inlined),
      cmocka_unit_test(autocast_regions),
      cmocka_unit_test(notes_disagreements),
  };
  return cmocka_run_group_tests(tests, open_registry, close_registry);
}
