// Large inputs: a program of the size of a 24-layer transformer imports fast, value tables that nothing uses cost
// little, and the archives of the corpus (TC_CORPUS) are read.
#define DATA TC_SOURCE_DIR "/tests/data/"
#include "tests/unit/frontends/pt2_test.h"

// ---- a transformer's worth of nodes ----
typedef struct writer {
  tc_sb nodes, values;
  int32_t n;
  const char *trace; // metadata as long as real programs have it
} writer;

static void put_value(writer *w, const char *name, const char *sizes, const char *strides) {
  tc_sb_printf(&w->values,
               "%s\"%s\": {\"dtype\": 7, \"sizes\": [%s], \"requires_grad\": true, \"device\": {\"type\": \"cpu\", "
               "\"index\": null}, \"strides\": [%s], \"storage_offset\": {\"as_int\": 0}, \"layout\": 7}",
               w->values.size ? ", " : "", name, sizes, strides);
}

// One node; `arguments` is the JSON of its inputs. Returns its name.
static const char *put_node(tc_arena *arena, writer *w, const char *target, const char *arguments, const char *sizes,
                            const char *strides) {
  const char *name = tc_sv_printf(arena, "node_%d", w->n).data;
  tc_sb_printf(&w->nodes,
               "%s{\"target\": \"torch.ops.aten.%s\", \"inputs\": [%s], \"outputs\": [{\"as_tensor\": {\"name\": "
               "\"%s\"}}], \"metadata\": {%s}, \"is_hop_single_tensor_return\": null, \"name\": \"%s\"}",
               w->n++ ? ", " : "", target, arguments, name, w->trace, name);
  put_value(w, name, sizes, strides);
  return name;
}

#define TENSOR(argument) "{\"name\": \"" argument "\", \"arg\": {\"as_tensor\": {\"name\": \"%s\"}}, \"kind\": 1}"
#define FLAT                                                                                                \
  "{\"as_int\": 8}, {\"as_expr\": {\"expr_str\": \"Symbol('s0', positive=True, integer=True)\", \"hint\": " \
  "{\"as_int\": 128}}}, {\"as_int\": 64}"
#define FLAT_STRIDES                                                                                         \
  "{\"as_expr\": {\"expr_str\": \"Mul(Integer(64), Symbol('s0', positive=True, integer=True))\", \"hint\": " \
  "{\"as_int\": 8192}}}, {\"as_int\": 64}, {\"as_int\": 1}"

static tc_sv big_program(tc_arena *arena, int32_t layers) {
  writer w = {.nodes = tc_sb_make(arena), .values = tc_sb_make(arena)};
  tc_sb trace = tc_sb_make(arena);
  tc_sb_putz(&trace, "\"stack_trace\": \"");
  for (int32_t i = 0; i < 6; i++)
    tc_sb_printf(&trace,
                 "  File \\\"transformers/models/big/modeling_big.py\\\", line %d, in forward\\n    hidden_states = "
                 "self.layers[%d](hidden_states, attention_mask=causal_mask)\\n",
                 100 + i, i);
  tc_sb_putz(&trace, "\", \"nn_module_stack\": \"");
  for (int32_t i = 0; i < 6; i++)
    tc_sb_printf(&trace,
                 "L__self___model_layers_%d,model.layers.%d,transformers.models.big.modeling_big.BigDecoderLayer;", i,
                 i);
  tc_sb_putz(&trace, "\", \"source_fn_stack\": \"linear_1,<built-in function linear>\", \"torch_fn\": "
                     "\"linear_1;builtin_function_or_method.linear\"");
  w.trace = trace.text;
  const char *x = "x";
  put_value(&w, "x", FLAT, FLAT_STRIDES);
  put_value(&w, "p", "{\"as_int\": 64}, {\"as_int\": 64}", "{\"as_int\": 64}, {\"as_int\": 1}");
  for (int32_t layer = 0; layer < layers; layer++) {
    for (int32_t block = 0; block < 8; block++) {
      const char *y =
          put_node(arena, &w, "linear.default", tc_sv_printf(arena, TENSOR("input") ", " TENSOR("weight"), x, "p").data,
                   FLAT, FLAT_STRIDES);
      const char *size = put_node(
          arena, &w, "mul.Tensor",
          tc_sv_printf(arena, TENSOR("self") ", {\"name\": \"other\", \"arg\": {\"as_float\": 0.125}, \"kind\": 1}", y)
              .data,
          FLAT, FLAT_STRIDES);
      const char *e =
          put_node(arena, &w, "exp.default", tc_sv_printf(arena, TENSOR("self"), size).data, FLAT, FLAT_STRIDES);
      x = put_node(arena, &w, "add.Tensor", tc_sv_printf(arena, TENSOR("self") ", " TENSOR("other"), x, e).data, FLAT,
                   FLAT_STRIDES);
    }
  }
  return tc_sv_printf(
      arena,
      "{\"graph_module\": {\"graph\": {\"inputs\": [{\"as_tensor\": {\"name\": \"p\"}}, {\"as_tensor\": {\"name\": "
      "\"x\"}}], \"outputs\": [{\"as_tensor\": {\"name\": \"%s\"}}], \"nodes\": [%s], \"tensor_values\": {%s}, "
      "\"sym_int_values\": {}, \"sym_bool_values\": {}}, \"signature\": {\"input_specs\": [{\"user_input\": {\"arg\": "
      "{\"as_tensor\": {\"name\": \"p\"}}}}, {\"user_input\": {\"arg\": {\"as_tensor\": {\"name\": \"x\"}}}}], "
      "\"output_specs\": [{\"user_output\": {\"arg\": {\"as_tensor\": {\"name\": \"%s\"}}}}]}, \"module_call_graph\": "
      "[]}, \"range_constraints\": {\"s0\": {\"min_val\": 2, \"max_val\": 4096}}, "
      "\"schema_version\": {\"major\": 8, \"minor\": 20}, \"verifiers\": [\"ATEN\"], \"torch_version\": \"2.15.0\"}",
      x, w.nodes.text, w.values.text, x);
}

static tc_status time_load(tc_storage *bytes, double *out_ms, int32_t *out_nodes) {
  *out_ms = 1e9;
  for (int32_t i = 0; i < 7; i++) {
    tc_pt2 *f;
    tc_program *p;
    double start = tc_now_ms();
    TC_TRY(tc_pt2_open_storage(bytes, registry, NULL, &f));
    tc_status s = tc_pt2_load(f, 0, &p);
    double ms = tc_now_ms() - start;
    tc_pt2_close(f);
    if (s) return s;
    if (ms < *out_ms) *out_ms = ms;
    *out_nodes = p->graph->n_nodes;
    tc_program_destroy(p);
  }
  return TC_OK;
}

// Measured: 9 ms on a 2-core machine with others at work on it. Times are printed, not asserted.
TC_TEST(imports_a_large_program) {
  tc_storage *bytes, *half;
  double ms, half_ms;
  int32_t nodes;
  tc_sv program = big_program(arena, 24);
  TC_TRY(edited(arena, DATA "pt2/methods.pt2", "encode.json", NULL, program.data, &bytes));
  TC_TRY(edited(arena, DATA "pt2/methods.pt2", "encode.json", NULL, big_program(arena, 12).data, &half));
  TC_TRY(time_load(half, &half_ms, &nodes));
  TC_TRY(time_load(bytes, &ms, &nodes));
  print_message("%d nodes, %.1f MB of JSON: %.1f ms (half of it %.1f ms)\n", nodes, (double)program.size * 1e-6, ms,
                half_ms);
  assert_int_equal(nodes, 24 * 8 * 4);
  tc_storage_unref(bytes);
  tc_storage_unref(half);
  return TC_OK;
}

TC_TEST(unused_values_cost_little) {
  tc_sb extra = tc_sb_make(arena);
  tc_sb_putz(&extra, "\"tensor_values\": {");
  for (int32_t i = 0; i < 100000; i++)
    tc_sb_printf(&extra, "\"unused_%d\": {\"dtype\": 999, \"sizes\": [{\"as_int\": -1}], \"strides\": []}, ", i);
  tc_storage *bytes;
  double ms;
  int32_t nodes;
  TC_TRY(edited(arena, DATA "pt2/state.functional.pt2", "model.json", "\"tensor_values\": {", extra.text, &bytes));
  TC_TRY(time_load(bytes, &ms, &nodes));
  print_message("100000 unused values: %.1f ms\n", ms);
  tc_storage_unref(bytes);
  return TC_OK;
}

// ---- real archives ----
typedef struct tally {
  int32_t programs, unknown, refused, failed, disagreements, wrong, harmless; // wrong: dtype or sizes
} tally;

// What an op we lack makes impossible is counted, everything else fails. Programs that load are verified, printed, and
// agree with PyTorch about every dtype, size and stride.
static void load_all(tc_arena *arena, const char *path, bool complete, tally *t) {
  tc_pt2 *f;
  assert_ok(tc_pt2_open(
      path, registry,
      &(tc_pt2_options){.allocator = tc_arena_allocator(arena), .check_meta = true, .verify_weights = true}, &f));
  for (int32_t i = 0; i < tc_pt2_count(f); i++) {
    tc_program *p;
    tc_tensor_list samples;
    tc_status s = tc_pt2_load(f, i, &p);
    if (!complete && tc_status_code(s) == TC_STATUS_UNIMPLEMENTED && strstr(tc_status_text(s), "not known") != NULL) {
      t->unknown++;
      tc_status_free(s);
      continue;
    }
    if (s) {                                                                          // the others are of interest too
      if (!complete && tc_status_code(s) == TC_STATUS_INVALID_ARGUMENT) t->refused++; // by an op's meta function
      else t->failed++;
      print_message("%s: %s\n", path, tc_status_text(s));
      tc_status_free(s);
      continue;
    }
    t->programs++;
    for (int32_t k = 0; k < p->disagreements.count; k++) {
      const tc_pt2_disagreement *d = &p->disagreements.data[k];
      if (d->harmless) t->harmless++;
      else {
        t->disagreements++;
        t->wrong += (d->what & (TC_PT2_DTYPE | TC_PT2_SIZES)) != 0;
        print_message("%s [" TC_SV_FMT "]: " TC_SV_FMT " " TC_SV_FMT ": archive " TC_SV_FMT ", meta " TC_SV_FMT "\n",
                      path, TC_SV_ARG(p->name), TC_SV_ARG(d->op), TC_SV_ARG(d->value), TC_SV_ARG(d->archive),
                      TC_SV_ARG(d->meta));
      }
    }
    s = graph_verify(p);
    if (s) fail_msg("%s: %s", path, tc_status_text(s));
    assert_non_null(graph_text(p));
    s = tc_pt2_sample_inputs(f, p, &samples);
    if (s && tc_status_code(s) != TC_STATUS_NOT_FOUND && tc_status_code(s) != TC_STATUS_UNIMPLEMENTED)
      fail_msg("%s: %s", path, tc_status_text(s));
    tc_status_free(s);
    tc_tensor_list_free(&samples);
    tc_program_destroy(p);
  }
  tc_pt2_close(f);
}

static tc_status load_folder(tc_arena *arena, const char *folder, tally *t) {
  tc_sv *names;
  int32_t n;
  TC_TRY(tc_dir_list(arena, folder, &names, &n));
  for (int32_t i = 0; i < n; i++)
    if (tc_sv_ends(names[i], ".pt2"))
      load_all(arena, tc_sv_printf(arena, "%s/" TC_SV_FMT, folder, TC_SV_ARG(names[i])).data, false, t);
  print_message("%s: %d programs, %d with ops that are not known, %d that an op refuses, %d that fail, %d "
                "disagreements (%d harmless besides)\n",
                folder, t->programs, t->unknown, t->refused, t->failed, t->disagreements, t->harmless);
  return TC_OK;
}

TC_TEST(reads_the_models) {
  // These need no more ops than the core will always have.
  static const char *const complete[] = {"attention", "mlp", "compat_2_8_mlp", "compat_2_8_attention", "f16_mlp"};
  static const char *const dialects[] = {"", ".dyn", ".functional", ".core"};
  tally t = {0};
  for (size_t i = 0; i < sizeof complete / sizeof *complete; i++)
    for (size_t k = 0; k < sizeof dialects / sizeof *dialects; k++) {
      const char *path = tc_sv_printf(arena, DATA "models/%s%s.pt2", complete[i], dialects[k]).data;
      if (tc_file_exists(path)) load_all(arena, path, true, &t);
    }
  assert_int_equal(t.programs, 19);
  TC_TRY(load_folder(arena, DATA "models", &t));
  assert_int_equal(t.failed, 0);
  assert_int_equal(t.disagreements, 0);
  return TC_OK;
}

TC_TEST(reads_all_of_the_corpus) {
  const char *corpus = getenv("TC_CORPUS");
  tally t = {0};
  TC_TRY(load_folder(arena, tc_sv_printf(arena, "%s/conformance/models", corpus).data, &t));
  TC_TRY(load_folder(arena, tc_sv_printf(arena, "%s/conformance/ops", corpus).data, &t));
  assert_int_equal(t.failed, 0);
  assert_int_equal(t.wrong, 0); // strides of attention depend on the device that PyTorch exported on
  return TC_OK;
}

// Skipping leaves by a jump, so it is decided before there is anything to give back.
static void reads_the_corpus(void **state) {
  if (getenv("TC_CORPUS") == NULL) {
    print_message("TC_CORPUS is not set\n");
    skip();
  }
  reads_all_of_the_corpus(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(imports_a_large_program),
      cmocka_unit_test(unused_values_cost_little),
      cmocka_unit_test(reads_the_models),
      cmocka_unit_test(reads_the_corpus),
  };
  return cmocka_run_group_tests(tests, open_registry, close_registry);
}
