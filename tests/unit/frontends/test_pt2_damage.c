// What is wrong in an archive is an error that says where; no damage crashes.
#define DATA TC_SOURCE_DIR "/tests/data/"
#include "tests/unit/frontends/pt2_test.h"

#define PROGRAM "models/model.json"
#define WEIGHTS "model_weights_config.json"

typedef struct damage {
  const char *member, *find, *replace;
  int32_t code;
  const char *message;
} damage;

// In tests/data/pt2/state.functional.pt2.
static const damage damages[] = {
    // arguments
    {PROGRAM, "\"arg\": {\"as_int\": 2}", "\"arg\": {\"as_foo\": 2}", TC_STATUS_UNIMPLEMENTED,
     "model.json: graph_module.graph.nodes[0].inputs[1].arg.as_foo: unknown tag"},
    {PROGRAM, "\"arg\": {\"as_int\": 2}", "\"arg\": {\"as_int\": \"2\"}", TC_STATUS_DATA_LOSS,
     "nodes[0].inputs[1].arg.as_int: expected an integer, found a string"},
    {PROGRAM, "\"arg\": {\"as_int\": 2}", "\"arg\": {\"as_int\": 2, \"as_float\": 1}", TC_STATUS_DATA_LOSS,
     "a union with more than one member"},
    {PROGRAM, "\"arg\": {\"as_int\": 2}", "\"arg\": {}", TC_STATUS_DATA_LOSS, "a union without a member"},
    {PROGRAM, "\"arg\": {\"as_int\": 2}", "\"arg\": 2", TC_STATUS_DATA_LOSS, "expected a union, found an integer"},
    {PROGRAM, "\"arg\": {\"as_int\": 2}", "\"arg\": {\"as_int\": 99999999999999999999}", TC_STATUS_DATA_LOSS,
     "malformed JSON"},
    {PROGRAM, "\"arg\": {\"as_int\": 2}", "\"arg\": {\"as_string\": \"two\"}", TC_STATUS_INVALID_ARGUMENT,
     "aten::mul.Tensor: the argument 'other' is a string"},
    {PROGRAM, "\"arg\": {\"as_int\": 2}", "\"arg\": {\"as_scalar_type\": 29}", TC_STATUS_UNIMPLEMENTED,
     "torch.float8_e4m3fn is not supported"},
    {PROGRAM, "\"arg\": {\"as_int\": 2}", "\"arg\": {\"as_scalar_type\": 999}", TC_STATUS_DATA_LOSS,
     "unknown dtype number 999"},
    {PROGRAM, "\"arg\": {\"as_int\": 2}", "\"arg\": {\"as_custom_obj\": {\"name\": \"a\", \"class_fqn\": \"b\"}}",
     TC_STATUS_UNIMPLEMENTED, "as_custom_obj"},
    {PROGRAM, "\"arg\": {\"as_int\": 2}", "\"arg\": {\"as_sym_int\": {\"as_name\": \"zzz\"}}", TC_STATUS_DATA_LOSS,
     "'zzz' is used, but no input or earlier node defines it"},
    {PROGRAM, "\"name\": \"other\"", "\"name\": \"othr\"", TC_STATUS_DATA_LOSS,
     "'aten::mul.Tensor' has no argument 'othr'"},
    {PROGRAM, "\"name\": \"other\"", "\"name\": \"self\"", TC_STATUS_DATA_LOSS, "'self' is given twice"},
    {PROGRAM, "{\"name\": \"other\", \"arg\": {\"as_int\": 2}, \"kind\": 1}", "{\"name\": \"self\"}",
     TC_STATUS_DATA_LOSS, "given twice"},
    // nodes
    {PROGRAM, "torch.ops.aten.mul.Tensor", "torch.ops.aten.mulx.Tensor", TC_STATUS_UNIMPLEMENTED,
     "torch.ops.aten.mulx.Tensor, used 1 time, first at node 'mul', make.py:90 y.mul_(2)"},
    {PROGRAM, "torch.ops.aten.mul.Tensor", "os.system", TC_STATUS_UNIMPLEMENTED, "os.system"},
    {PROGRAM, "\"outputs\": [{\"as_tensor\": {\"name\": \"mul\"}}]",
     "\"outputs\": [{\"as_tensor\": {\"name\": \"y\"}}]", TC_STATUS_DATA_LOSS, "'y' is defined twice"},
    {PROGRAM, "\"outputs\": [{\"as_tensor\": {\"name\": \"mul\"}}]", "\"outputs\": []", TC_STATUS_DATA_LOSS,
     "gives 1 results, but the node names 0"},
    {PROGRAM, "\"outputs\": [{\"as_tensor\": {\"name\": \"mul\"}}]",
     "\"outputs\": [{\"as_tensors\": [{\"name\": \"mul\"}, {\"name\": \"b\"}]}]", TC_STATUS_DATA_LOSS,
     "gives only 1 results"},
    {PROGRAM, "\"outputs\": [{\"as_tensor\": {\"name\": \"mul\"}}]",
     "\"outputs\": [{\"as_sym_int\": {\"as_name\": \"mul\"}}]", TC_STATUS_DATA_LOSS, "is a number here"},
    {PROGRAM, "\"as_tensor\": {\"name\": \"p_lin_weight\"}}, \"kind\"",
     "\"as_tensor\": {\"name\": \"later\"}}, \"kind\"", TC_STATUS_DATA_LOSS,
     "nodes[2].inputs[1].arg.as_tensor: 'later' is used"},
    // types
    {PROGRAM, "\"p_w\": {\"dtype\": 7, \"sizes\": [{\"as_int\": 4}",
     "\"p_w\": {\"dtype\": 7, \"sizes\": [{\"as_int\": -4}", TC_STATUS_DATA_LOSS,
     "tensor_values.p_w.sizes[0]: a negative size"},
    {PROGRAM, "\"p_w\": {\"dtype\": 7, \"sizes\": [{\"as_int\": 4}",
     "\"p_w\": {\"dtype\": 7, \"sizes\": [{\"as_int\": 5}", TC_STATUS_DATA_LOSS,
     "'w' has another dtype or shape than the program says (f32[5, 4])"},
    {PROGRAM, "\"p_w\": {\"dtype\": 7, \"sizes\": [{\"as_int\": 4}",
     "\"p_w\": {\"dtype\": 7, \"sizes\": [{\"as_int\": 4}, {\"as_int\": 4}", TC_STATUS_DATA_LOSS,
     "p_w.strides: expected 3 entries"},
    {PROGRAM, "\"p_w\": {\"dtype\": 7, \"sizes\": [{\"as_int\": 4}, ", "\"p_w\": {\"dtype\": 7, \"sizes\": [",
     TC_STATUS_DATA_LOSS, "p_w.strides: expected 1 entries"},
    {PROGRAM, "\"p_w\": {\"dtype\": 7, \"sizes\": [{\"as_int\": 4}",
     "\"p_w\": {\"dtype\": 7, \"sizes\": [{\"as_expr\": {\"expr_str\": \"__import__('os')\"}}",
     TC_STATUS_INVALID_ARGUMENT, "p_w.sizes[0].as_expr"},
    {PROGRAM, "\"p_w\": {\"dtype\": 7, ", "\"p_w\": {\"dtype\": 31, ", TC_STATUS_UNIMPLEMENTED,
     "torch.float8_e4m3fnuz"},
    {PROGRAM, "\"p_w\": {", "\"p_v\": {", TC_STATUS_DATA_LOSS, "'p_w' is missing in tensor_values"},
    // signature
    {PROGRAM, "\"input_specs\": [{\"parameter\"", "\"input_specs\": [{\"secret\"", TC_STATUS_UNIMPLEMENTED,
     "inputs of the kind 'secret'"},
    {PROGRAM, "\"input_specs\": [", "\"input_specs\": [{\"user_input\": {}}, ", TC_STATUS_DATA_LOSS,
     "signature.input_specs: 10 entries for a graph of 9 inputs"},
    {PROGRAM, "\"parameter_name\": \"w\"", "\"parameter_nome\": \"w\"", TC_STATUS_DATA_LOSS,
     "input_specs[0].parameter.parameter_name: expected a string, found nothing"},
    {PROGRAM, "\"parameter_name\": \"w\"", "\"parameter_name\": \"unknown\"", TC_STATUS_DATA_LOSS,
     "the parameter 'unknown' is neither among the weights"},
    {PROGRAM, "\"output_specs\": [{\"buffer_mutation\"", "\"output_specs\": [{\"magic\"", TC_STATUS_UNIMPLEMENTED,
     "outputs of the kind 'magic'"},
    {PROGRAM, "\"user_input_name\": \"y\"", "\"user_input_name\": \"q\"", TC_STATUS_DATA_LOSS,
     "the mutated input 'q' is no input"},
    {PROGRAM, "\"in_spec\": \"[1,", "\"in_spec\": \"[2,", TC_STATUS_UNIMPLEMENTED,
     "in_spec: a tree of an unknown protocol"},
    {PROGRAM, "\"in_spec\": \"[1,", "\"in_spec\": \"[1", TC_STATUS_DATA_LOSS, "in_spec: not a tree"},
    // the document
    {PROGRAM, "\"major\": 8", "\"major\": 9", TC_STATUS_UNIMPLEMENTED, "schema version 9.20"},
    {PROGRAM, "\"schema_version\"", "\"schema_versiom\"", TC_STATUS_DATA_LOSS,
     "schema_version: expected an object, found nothing"},
    {PROGRAM, "{\"graph_module\"", "[\"graph_module\"", TC_STATUS_DATA_LOSS, "malformed JSON"},
    {PROGRAM, NULL, "[]", TC_STATUS_DATA_LOSS, "model.json: expected an object"},
    {PROGRAM, NULL, "", TC_STATUS_DATA_LOSS, "malformed JSON"},
    // weights
    {WEIGHTS, "\"w\": {\"path_name\": \"weight_0\"", "\"w\": {\"path_name\": \"../weight_0\"", TC_STATUS_DATA_LOSS,
     "'../weight_0' has a slash"},
    {WEIGHTS, "\"w\": {\"path_name\": \"weight_0\"", "\"w\": {\"path_name\": \"weight_77\"", TC_STATUS_DATA_LOSS,
     "the payload 'data/weights/weight_77' is missing"},
    {WEIGHTS, "\"use_pickle\": false", "\"use_pickle\": true", TC_STATUS_UNIMPLEMENTED,
     "'w' is stored as a pickled object"},
    {WEIGHTS, "\"sizes\": [{\"as_int\": 4}", "\"sizes\": [{\"as_int\": 9223372036854775807}", TC_STATUS_OUT_OF_RANGE,
     "config.w"},
    {WEIGHTS, "\"strides\": [{\"as_int\": 1}", "\"strides\": [{\"as_int\": 1000}", TC_STATUS_OUT_OF_RANGE, "config.w"},
    {WEIGHTS, "\"storage_offset\": {\"as_int\": 0}", "\"storage_offset\": {\"as_int\": 1}", TC_STATUS_OUT_OF_RANGE,
     "config.w"},
    {WEIGHTS, "\"storage_offset\": {\"as_int\": 0}", "\"storage_offset\": {\"as_int\": -1}", TC_STATUS_OUT_OF_RANGE,
     "config.w"},
    {WEIGHTS, "\"tied\"", "\"w\"", TC_STATUS_DATA_LOSS, "'w' is there twice"},
    {WEIGHTS, NULL, NULL, TC_STATUS_DATA_LOSS, "the parameter 'w' is neither"},
    {"weight_0", NULL, NULL, TC_STATUS_DATA_LOSS, "the payload 'data/weights/weight_0' is missing"},
    // the archive
    {PROGRAM, NULL, NULL, TC_STATUS_DATA_LOSS, "the archive holds no program"},
    {"archive_format", NULL, "pt3", TC_STATUS_INVALID_ARGUMENT, "archive_format is 'pt3'"},
    {"archive_format", NULL, NULL, TC_STATUS_INVALID_ARGUMENT, "not a .pt2 archive"},
    {"archive_version", NULL, "1", TC_STATUS_UNIMPLEMENTED, "archive_version is '1'"},
    {"byteorder", NULL, "middle", TC_STATUS_DATA_LOSS, "byteorder is 'middle'"},
};

static tc_status expect(tc_arena *arena, const char *path, const damage *d) {
  tc_storage *bytes;
  tc_program *p = NULL;
  TC_TRY(edited(arena, path, d->member, d->find, d->replace, &bytes));
  tc_status s = load_storage(arena, bytes, 0, &p);
  const char *what = d->replace ? d->replace : d->member;
  if (s == TC_OK) fail_msg("%s went through", what);
  if (tc_status_code(s) != d->code || strstr(tc_status_text(s), d->message) == NULL)
    fail_msg("%s: error %s: \"%s\", expected %s: \"%s\"", what, tc_status_name(tc_status_code(s)), tc_status_text(s),
             tc_status_name(d->code), d->message);
  tc_status_free(s);
  assert_null(p);
  assert_int_equal(bytes->refs, 1);
  tc_storage_unref(bytes);
  return TC_OK;
}

TC_TEST(says_what_is_wrong) {
  for (size_t i = 0; i < sizeof damages / sizeof *damages; i++)
    TC_TRY(expect(arena, DATA "pt2/state.functional.pt2", &damages[i]));
  return TC_OK;
}

TC_TEST(names_all_unknown_ops) {
  tc_storage *once, *twice;
  tc_program *p;
  TC_TRY(edited(arena, DATA "pt2/state.functional.pt2", PROGRAM, "torch.ops.aten.mul.Tensor",
                "torch.ops.mine.mul.Tensor", &once));
  const char *path = tc_sv_printf(arena, "%s/pt2_damage_%d.pt2", TC_BINARY_DIR, (int)getpid()).data;
  TC_TRY(tc_file_write(path, once->data, once->size));
  TC_TRY(edited(arena, path, PROGRAM, "torch.ops.aten.linear.default", "torch.ops.mine.linear.default", &twice));
  remove(path);
  tc_status s = load_storage(arena, twice, 0, &p);
  assert_int_equal(tc_status_code(s), TC_STATUS_UNIMPLEMENTED);
  assert_contains(tc_status_text(s), "2 ops are not known");
  assert_contains(tc_status_text(s), "torch.ops.mine.mul.Tensor");
  assert_contains(tc_status_text(s),
                  "torch.ops.mine.linear.default, used 1 time, first at node 'linear', make.py:92 return self.lin(x)");
  tc_status_free(s);
  tc_storage_unref(once);
  tc_storage_unref(twice);
  return TC_OK;
}

// ---- symbols ----
static const damage symbol_damages[] = {
    {PROGRAM, "\"range_constraints\": {\"s77\": {\"min_val\": 2",
     "\"range_constraints\": {\"s77\": {\"min_val\": 2, \"max_val\": 1}, \"s9\": {\"min_val\": 3", TC_STATUS_DATA_LOSS,
     "range_constraints.s77: an empty range"},
    {PROGRAM, "\"range_constraints\": {\"s77\": {", "\"range_constraints\": {\"s77\": 7, \"s8\": {",
     TC_STATUS_DATA_LOSS, "range_constraints.s77"},
    {PROGRAM, "L['n'] >= 0", "2 * L['n'] == 2 * L['n'] + 1", TC_STATUS_INVALID_ARGUMENT, "never holds"},
};

TC_TEST(symbols_need_definitions) {
  for (size_t i = 0; i < sizeof symbol_damages / sizeof *symbol_damages; i++)
    TC_TRY(expect(arena, DATA "pt2/numbers.pt2", &symbol_damages[i]));
  // An expression that no input defines.
  damage unbound = {PROGRAM, "\"add_1\": {\"as_expr\": {\"expr_str\": \"Add(Symbol('s86', integer=True)",
                    "\"add_1\": {\"as_expr\": {\"expr_str\": \"Add(Symbol('u5', integer=True)", TC_STATUS_DATA_LOSS,
                    "'u5' is used, but neither an input nor an earlier node defines it"};
  return expect(arena, DATA "pt2/numbers.pt2", &unbound);
}

// ---- weights left out ----
TC_TEST(weights_may_be_missing) {
  tc_storage *bytes;
  tc_program *p;
  TC_TRY(edited(arena, DATA "pt2/state.functional.pt2", "weight_0", NULL, "", &bytes));
  TC_TRY(load_storage(arena, bytes, 0, &p));
  assert_null(binding_of(p, "w")->tensor.storage);
  assert_non_null(binding_of(p, "lin.bias")->tensor.storage);
  tc_program_destroy(p);
  tc_storage_unref(bytes);
  return TC_OK;
}

// ---- random damage ----
static void try_bytes(tc_arena *arena, const uint8_t *data, size_t size) {
  tc_storage *bytes;
  assert_ok(tc_storage_create(tc_arena_allocator(arena), size, &bytes));
  if (size) memcpy(bytes->data, data, size);
  tc_pt2 *f = NULL;
  tc_status s = tc_pt2_open_storage(bytes, registry,
                                    &(tc_pt2_options){.allocator = tc_arena_allocator(arena), .check_meta = true}, &f);
  for (int32_t i = 0; s == TC_OK && i < tc_pt2_count(f); i++) {
    tc_program *p;
    s = tc_pt2_load(f, i, &p);
    if (s) break;
    tc_tensor_list samples;
    tc_status_free(tc_pt2_sample_inputs(f, p, &samples));
    tc_tensor_list_free(&samples);
    (void)graph_text(p);
    tc_program_destroy(p);
  }
  tc_status_free(s);
  tc_pt2_close(f);
  assert_int_equal(bytes->refs, 1);
  tc_storage_unref(bytes);
}

static const char *const victims[] = {
    DATA "pt2/state.functional.pt2", DATA "pt2/state.flat.pt2", DATA "pt2/item.pt2",
    DATA "pt2/branch.pt2",           DATA "pt2/numbers.pt2",    DATA "pt2/methods.pt2"};

TC_TEST(survives_truncation) {
  uint64_t random = tc_test_seed();
  for (size_t v = 0; v < sizeof victims / sizeof *victims; v++) {
    tc_sv file;
    TC_TRY(tc_file_read(arena, victims[v], &file));
    for (int32_t i = 0; i < 30; i++) try_bytes(arena, (const uint8_t *)file.data, tc_test_random(&random) % file.size);
  }
  return TC_OK;
}

TC_TEST(survives_flipped_bytes) {
  uint64_t random = tc_test_seed();
  for (size_t v = 0; v < sizeof victims / sizeof *victims; v++) {
    tc_sv file;
    TC_TRY(tc_file_read(arena, victims[v], &file));
    for (int32_t i = 0; i < 60; i++) {
      uint8_t *copy = tc_arena_copy(arena, file.data, file.size);
      for (int32_t k = 0; k < 3; k++) copy[tc_test_random(&random) % file.size] = (uint8_t)tc_test_random(&random);
      try_bytes(arena, copy, file.size);
    }
  }
  return TC_OK;
}

// Checksums stop most of the above: this damages the program's text and packs it again.
TC_TEST(survives_changed_programs) {
  static const char *const words[] = {"{",
                                      "}",
                                      "[",
                                      "]",
                                      "null",
                                      "-1",
                                      "0",
                                      "9223372036854775807",
                                      "\"\"",
                                      "true",
                                      "\"x\"",
                                      "\"as_tensor\"",
                                      "\"as_int\"",
                                      "\"as_tensors\"",
                                      "\"as_none\"",
                                      "\"u0\"",
                                      "\"Symbol('s77', integer=True)\"",
                                      "\"Mul(Integer(9223372036854775807), Symbol('s77'))\"",
                                      "1e308",
                                      "\"name\"",
                                      "\"torch.ops.higher_order.cond\"",
                                      "\"torch.ops.aten.sym_size.int\""};
  uint64_t random = tc_test_seed();
  for (size_t v = 0; v < sizeof victims / sizeof *victims; v++) {
    tc_storage *file;
    tc_zip zip;
    tc_sv text = {0};
    TC_TRY(tc_storage_map(tc_arena_allocator(arena), victims[v], &file));
    TC_TRY(tc_zip_open(arena, file->data, file->size, &zip));
    const char *suffix = NULL;
    for (int32_t i = 0; i < zip.count; i++)
      if (tc_sv_ends(zip.entries[i].name, "model.json") || tc_sv_ends(zip.entries[i].name, "program.json") ||
          tc_sv_ends(zip.entries[i].name, "decode.json")) {
        suffix = tc_sv_z(arena, zip.entries[i].name);
        TC_TRY(tc_zip_read(arena, &zip, &zip.entries[i], UINT64_MAX, &text));
      }
    for (int32_t i = 0; i < 60; i++) {
      // Puts a word in the place of a JSON token.
      size_t at = tc_test_random(&random) % text.size, end = at;
      while (at > 0 && !strchr("{}[],: ", text.data[at])) at--;
      end = at + 1;
      while (end < text.size && !strchr("{}[],: ", text.data[end])) end++;
      const char *word = words[tc_test_random(&random) % (sizeof words / sizeof *words)];
      tc_sv changed = tc_sv_printf(arena, TC_SV_FMT "%s" TC_SV_FMT, (int)at + 1, text.data, word,
                                   (int)(text.size - end), text.data + end);
      tc_storage *bytes;
      TC_TRY(edited(arena, victims[v], suffix, NULL, changed.data, &bytes));
      try_bytes(arena, bytes->data, bytes->size);
      tc_storage_unref(bytes);
    }
    tc_storage_unref(file);
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(says_what_is_wrong),        cmocka_unit_test(names_all_unknown_ops),
      cmocka_unit_test(symbols_need_definitions),  cmocka_unit_test(weights_may_be_missing),
      cmocka_unit_test(survives_truncation),       cmocka_unit_test(survives_flipped_bytes),
      cmocka_unit_test(survives_changed_programs),
  };
  return cmocka_run_group_tests(tests, open_registry, close_registry);
}
