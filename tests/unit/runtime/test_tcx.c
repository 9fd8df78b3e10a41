// Artifacts: what is written reads back and computes the same bits, also with state, open sizes and library calls;
// damage of any kind is an error; failing allocations leave nothing behind.
#include <pthread.h>
#include <unistd.h>

#include "core/runtime/artifact.h"
#include "tests/unit/runtime/artifact_bytes.h"
#include "tests/unit/unit.h"

static const char text[] = "graph @forward [s0 in [0, 64] hint 6] (\n"
                           "    %w : f32[8, 8] = parameter \"w\",\n"
                           "    %v : f32[8, 8] = parameter \"v\",\n"
                           "    %b : f32[8] = buffer \"sum\" persistent,\n"
                           "    %x : f32[s0, 8] = user \"x\",\n"
                           "    const(true) = user \"flag\",\n"
                           "    %y : f32[s0, 8] = user \"y\") {\n"
                           "  %m : f32[s0, 8] = aten::mm(%x, %w) @ \"model.py:3 x @ w\"\n"
                           "  %e : f32[s0, 8] = aten::tanh(%m)\n"
                           "  %n : f32[s0, 8] = aten::mm(%e, %v)\n"
                           "  %s : f32[8] = aten::sum.dim_IntList(%n, [0], false)\n"
                           "  %a : f32[8] = aten::add.Tensor(%b, %s)\n"
                           "  %z : f32[s0, 8] = aten::add.Tensor(%n, %y)\n"
                           "  return buffer \"sum\" %a, user \"z\" %z, user 2\n"
                           "}\n";

typedef struct rig {
  tc_arena *arena;
  tc_context *context;
  tc_module *module;
  tc_graph *graph;
  tc_session *session;
  const char *text;
  char folder[256], path[300];
} rig;

static tc_status add_binding(rig *r, const char *name, int32_t rank, uint64_t *seed) {
  tc_binding *b = TC_NEW(r->module->arena, tc_binding);
  b->name = tc_sv_of(name);
  tc_map_put(r->module->bindings, b->name, NULL)->value.ptr = b;
  TC_TRY(tc_tensor_create(tc_arena_allocator(r->arena), TC_F32, rank, (int64_t[]){8, 8}, &b->tensor));
  tc_tensor_fill_normal(&tc_executor_serial, &b->tensor, tc_test_random(seed), 0, 1);
  return TC_OK;
}

static tc_status parse(void *arg) {
  rig *r = arg;
  uint64_t seed = 5;
  tc_lexer lx;
  tc_lex_init(&lx, r->module->arena, TC_SV("test"), tc_sv_of(r->text));
  TC_TRY(add_binding(r, "w", 2, &seed));
  TC_TRY(add_binding(r, "v", 2, &seed));
  TC_TRY(add_binding(r, "sum", 1, &seed));
  return tc_graph_parse(r->module, &lx, &r->graph);
}

// calls: "always" asks libraries for the products, where there are some.
static tc_status open_rig_of(rig *r, tc_arena *arena, const char *program, const char *calls) {
  tc_config *config;
  const tc_allocator *a = tc_arena_allocator(arena);
  *r = (rig){.arena = arena, .text = program};
  const char *base = tc_env("TMPDIR");
  snprintf(r->folder, sizeof r->folder, "%s/tc-tcx-XXXXXX", base ? base : P_tmpdir);
  assert_non_null(mkdtemp(r->folder));
  snprintf(r->path, sizeof r->path, "%s/a.tcx", r->folder);
  TC_TRY(tc_config_create(a, &config));
  TC_TRY(tc_config_set(config, TC_SV("backend"), TC_SV("cpu"), "test"));
  TC_TRY(tc_config_set(config, TC_SV("cache.enabled"), TC_SV("false"), "test"));
  TC_TRY(tc_config_set(config, TC_SV("calls"), tc_sv_of(calls), "test"));
  TC_TRY(tc_context_create(a, config, tc_logger_silent, &r->context));
  TC_TRY(tc_context_open_backend(r->context));
  TC_TRY(tc_module_create(a, r->context->ops, &r->module));
  TC_TRY(tc_arena_guard(r->module->arena, parse, r));
  return tc_session_create(r->context, r->graph, TC_STAGE_EXEC, &r->session);
}

static tc_status open_rig(rig *r, tc_arena *arena, const char *calls) { return open_rig_of(r, arena, text, calls); }

static void close_rig(rig *r) {
  tc_session_destroy(r->session);
  tc_module_destroy(r->module);
  tc_context_destroy(r->context);
  unlink(r->path);
  unlink(tc_sv_printf(r->arena, "%s/a.tensors", r->folder).data);
  rmdir(r->folder);
}

static tc_status write_artifact(rig *r, const char *weights) {
  static const tc_tcx_leaf leaves[] = {{{"x", 1}, 3}, {{"flag", 4}, 4}, {{"y", 1}, 5}};
  tc_tcx_source s = {.name = TC_SV("forward"), .context = r->context, .session = r->session, .n_inputs = 3};
  s.inputs = leaves, s.graph = tc_sv_of(text);
  return tc_tcx_write(r->arena, r->path, weights, 1, &s);
}

static void expect_same(const tc_tensor *a, const tc_tensor *b) {
  assert_int_equal(tc_tensor_numel(a), tc_tensor_numel(b));
  size_t n = (size_t)(tc_tensor_numel(a) * tc_dtype_size(a->dtype));
  if (n) assert_memory_equal(tc_tensor_data(a), tc_tensor_data(b), n);
}

// Both forget nothing between runs: the state grows alike.
static tc_status run_both(rig *r, tc_artifact *f, int64_t rows, uint64_t *seed) {
  tc_tensor in[6] = {{0}}, mine[2], theirs[3];
  const tc_allocator *a = tc_arena_allocator(r->arena);
  for (int32_t i = 0; i < 2; i++) {
    tc_tensor *t = &in[i ? 5 : 3];
    TC_TRY(tc_tensor_create(a, TC_F32, 2, (int64_t[]){rows, 8}, t));
    tc_tensor_fill_normal(&tc_executor_serial, t, tc_test_random(seed), 0, 1);
  }
  TC_TRY(tc_session_run(r->session, in, theirs, &(tc_session_run_options){.write_back = true}));
  TC_TRY(tc_artifact_run(f, (tc_tensor[]){in[3], in[5]}, mine, &(tc_session_run_options){.write_back = true}));
  expect_same(&mine[0], &theirs[1]);
  expect_same(&mine[1], &theirs[2]);
  expect_same(tc_session_state(f->session, TC_SV("sum")), tc_session_state(r->session, TC_SV("sum")));
  for (int32_t i = 0; i < 3; i++) tc_tensor_unref(&theirs[i]);
  for (int32_t i = 0; i < 2; i++) tc_tensor_unref(&mine[i]);
  tc_tensor_unref(&in[3]);
  tc_tensor_unref(&in[5]);
  return TC_OK;
}

static tc_status compare(tc_arena *arena, const char *calls, const char *weights) {
  uint64_t seed = tc_test_seed();
  rig r;
  tc_artifact *f;
  TC_TRY(open_rig(&r, arena, calls));
  TC_TRY(write_artifact(&r, weights));
  TC_TRY(tc_artifact_open(r.context, r.path, TC_SV(""), NULL, &f));
  assert_int_equal(f->n_inputs, 2);
  assert_int_equal(f->n_outputs, 2);
  assert_true(tc_artifact_changes_state(f));
  assert_sv(f->inputs[1].name, "y");
  static const int64_t sizes[] = {6, 1, 0, 7, 16, 17, 64};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) TC_TRY(run_both(&r, f, sizes[i], &seed));
  tc_tensor bad[2], out[2];
  for (int32_t i = 0; i < 2; i++)
    TC_TRY(tc_tensor_create(tc_arena_allocator(arena), TC_F32, 2, (int64_t[]){65, 8}, &bad[i]));
  assert_error(tc_artifact_run(f, bad, out, NULL), TC_STATUS_INVALID_ARGUMENT,
               "lies outside the program's range [0, 64]");
  for (int32_t i = 0; i < 2; i++) tc_tensor_unref(&bad[i]);
  tc_artifact_close(f);
  close_rig(&r);
  return TC_OK;
}

TC_TEST(runs_as_the_session) { return compare(arena, "never", NULL); }
TC_TEST(libraries_are_found_again) { return compare(arena, "always", NULL); }
TC_TEST(tensors_lie_beside) { return compare(arena, "never", "a.tensors"); }

TC_TEST(says_what_it_is_for) {
  rig r;
  tc_tcx *x;
  tc_artifact *f;
  TC_TRY(open_rig(&r, arena, "never"));
  TC_TRY(write_artifact(&r, NULL));
  TC_TRY(tc_tcx_open(r.context->allocator, r.path, &x));
  assert_int_equal(tc_tcx_count(x), 1);
  assert_sv(tc_tcx_at(x, 0)->backend, "cpu");
  assert_true(tc_tcx_at(x, 0)->has_graph);
  assert_int_equal(tc_tcx_find(x, TC_SV("forward"), TC_SV("cpu")), 0);
  assert_int_equal(tc_tcx_find(x, TC_SV("forward"), TC_SV("gpu")), -1);
  assert_int_equal(tc_tcx_find(x, TC_SV("other"), TC_SV("")), -1);
  TC_TRY(tc_tcx_check(x, 0, r.context));
  tc_context other = *r.context;
  other.backend = TC_SV("gpu");
  assert_error(tc_tcx_check(x, 0, &other), TC_STATUS_INVALID_ARGUMENT,
               "compiled for the backend 'cpu', this one is 'gpu'");
  tc_device device = *r.context->device;
  tc_plugin plugin = *device.plugin;
  plugin.version = TC_SV("9.9.9"), device.plugin = &plugin;
  other = *r.context, other.device = &device;
  assert_error(tc_tcx_check(x, 0, &other), TC_STATUS_INVALID_ARGUMENT, "this is version 9.9.9");
  snprintf(device.props.target, sizeof device.props.target, "another");
  assert_error(tc_tcx_refused(x, 0, &other, tc_error(TC_STATUS_PLUGIN, "the code needs more")), TC_STATUS_PLUGIN,
               "this device is another");
  tc_tcx_close(x);
  assert_error(tc_artifact_open(r.context, r.path, TC_SV("other"), NULL, &f), TC_STATUS_NOT_FOUND,
               "no program 'other'");
  assert_error(tc_artifact_open(r.context, "/nowhere.tcx", TC_SV(""), NULL, &f), TC_STATUS_NOT_FOUND, "/nowhere.tcx");
  close_rig(&r);
  return TC_OK;
}

// ---- threads ----
static const char stateless[] = "graph @forward [s0 in [1, 64] hint 6] (\n"
                                "    %w : f32[8, 8] = parameter \"w\",\n"
                                "    %x : f32[s0, 8] = user \"x\") {\n"
                                "  %m : f32[s0, 8] = aten::mm(%x, %w)\n"
                                "  %e : f32[s0, 8] = aten::tanh(%m)\n"
                                "  return user %e\n"
                                "}\n";

typedef struct caller {
  pthread_t thread;
  tc_artifact *artifact;
  const tc_tensor *input;
  tc_tensor want;
  int32_t wrong;
} caller;

static void *call_often(void *arg) {
  caller *c = arg;
  for (int32_t i = 0; i < 200; i++) {
    tc_tensor out;
    tc_status s = tc_artifact_run(c->artifact, c->input, &out, NULL);
    size_t n = (size_t)(tc_tensor_numel(&c->want) * 4);
    c->wrong += s != TC_OK || memcmp(tc_tensor_data(&out), tc_tensor_data(&c->want), n) != 0;
    if (s == TC_OK) tc_tensor_unref(&out);
    tc_status_free(s);
  }
  return NULL;
}

// Counting allocators are for one thread.
static void threads_share_a_program(void **state) {
  (void)state;
  enum { THREADS = 4 };
  tc_arena *arena;
  rig r;
  tc_artifact *f;
  caller callers[THREADS] = {{0}};
  tc_tensor inputs[THREADS];
  uint64_t seed = tc_test_seed();
  assert_ok(tc_arena_create(tc_system_allocator(), &arena));
  assert_ok(open_rig_of(&r, arena, stateless, "never"));
  static const tc_tcx_leaf leaf = {{"x", 1}, 1};
  tc_tcx_source s = {
      .name = TC_SV("forward"), .context = r.context, .session = r.session, .n_inputs = 1, .inputs = &leaf};
  assert_ok(tc_tcx_write(arena, r.path, NULL, 1, &s));
  assert_ok(tc_artifact_open(r.context, r.path, TC_SV("forward"), NULL, &f));
  for (int32_t i = 0; i < THREADS; i++) {
    assert_ok(tc_tensor_create(tc_system_allocator(), TC_F32, 2, (int64_t[]){1 + 9 * i, 8}, &inputs[i]));
    tc_tensor_fill_normal(&tc_executor_serial, &inputs[i], tc_test_random(&seed), 0, 1);
    callers[i].artifact = f, callers[i].input = &inputs[i];
    assert_ok(tc_artifact_run(f, &inputs[i], &callers[i].want, NULL));
  }
  for (int32_t i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&callers[i].thread, NULL, call_often, &callers[i]), 0);
  for (int32_t i = 0; i < THREADS; i++) {
    pthread_join(callers[i].thread, NULL);
    assert_int_equal(callers[i].wrong, 0);
    tc_tensor_unref(&callers[i].want);
    tc_tensor_unref(&inputs[i]);
  }
  tc_artifact_close(f);
  close_rig(&r);
  tc_arena_destroy(arena);
}

// ---- damage ----
static char *whole; // an artifact's bytes, made once
static size_t whole_size;

static tc_status make_whole_body(tc_arena *arena) {
  rig r;
  tc_sv bytes;
  TC_TRY(open_rig(&r, arena, "always"));
  TC_TRY(write_artifact(&r, NULL));
  TC_TRY(tc_file_read(arena, r.path, &bytes));
  whole = malloc(bytes.size), whole_size = bytes.size;
  memcpy(whole, bytes.data, bytes.size);
  close_rig(&r);
  return TC_OK;
}

static int make_whole(void **state) {
  (void)state;
  tc_test_run(make_whole_body);
  return 0;
}
static int drop_whole(void **state) {
  (void)state;
  free(whole);
  return 0;
}

static void expect_refusal(tc_status s, const char *what, size_t at) {
  int32_t code = tc_status_code(s);
  if (code != TC_STATUS_DATA_LOSS && code != TC_STATUS_INVALID_ARGUMENT)
    fail_msg("%s at %zu: %s", what, at, s == TC_OK ? "it is read" : tc_status_text(s));
  tc_status_free(s);
}

TC_TEST(cut_files_are_refused) {
  const tc_allocator *a = tc_arena_allocator(arena);
  uint64_t seed = tc_test_seed();
  for (size_t n = 0; n < 256; n++) expect_refusal(artifact_read_all(a, whole, n), "cut", n);
  for (int32_t i = 0; i < 200; i++) {
    size_t n = tc_test_random(&seed) % whole_size;
    expect_refusal(artifact_read_all(a, whole, n), "cut", n);
  }
  return TC_OK;
}

// Between contents lie zeros, of which nothing depends.
static bool matters(size_t at) {
  uint32_t count;
  memcpy(&count, whole + 12, sizeof count);
  if (at < 40 || at < artifact_u64(whole + 24)) return at < 40 || at >= ARTIFACT_HEADER;
  for (uint32_t i = 0; i < count; i++) {
    const char *row = whole + ARTIFACT_HEADER + (size_t)i * ARTIFACT_ROW;
    uint64_t from = artifact_u64(row + 24);
    if (at >= from && at - from < artifact_u64(row + 32)) return true;
  }
  return false;
}

TC_TEST(flipped_bits_are_found) {
  const tc_allocator *a = tc_arena_allocator(arena);
  uint64_t seed = tc_test_seed();
  char *copy = tc_arena_alloc(arena, whole_size);
  for (int32_t i = 0; i < 400; i++) {
    size_t at = i < 128 ? (size_t)i : tc_test_random(&seed) % whole_size;
    if (!matters(at)) continue;
    memcpy(copy, whole, whole_size);
    copy[at] ^= (char)(1u << tc_test_random(&seed) % 8);
    expect_refusal(artifact_read_all(a, copy, whole_size), "flip", at);
  }
  return TC_OK;
}

// With hashes that fit, what is read may be anything, and must be an error or a program.
TC_TEST(repaired_damage_does_no_harm) {
  const tc_allocator *a = tc_arena_allocator(arena);
  uint64_t seed = tc_test_seed();
  char *copy = tc_arena_alloc(arena, whole_size);
  int32_t refused = 0;
  for (int32_t i = 0; i < 400; i++) {
    memcpy(copy, whole, whole_size);
    for (uint64_t k = 0, n = 1 + tc_test_random(&seed) % 4; k < n; k++)
      copy[tc_test_random(&seed) % whole_size] = (char)tc_test_random(&seed);
    artifact_repair(copy, whole_size);
    tc_status s = artifact_read_all(a, copy, whole_size);
    refused += s != TC_OK;
    tc_status_free(s);
  }
  assert_true(refused > 0);
  return TC_OK;
}

TC_TEST_TORTURED(reading_survives_lack_of_memory) {
  return artifact_read_all(tc_arena_allocator(arena), whole, whole_size);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs_as_the_session),
      cmocka_unit_test(libraries_are_found_again),
      cmocka_unit_test(tensors_lie_beside),
      cmocka_unit_test(says_what_it_is_for),
      cmocka_unit_test(threads_share_a_program),
      cmocka_unit_test(cut_files_are_refused),
      cmocka_unit_test(flipped_bits_are_found),
      cmocka_unit_test(repaired_damage_does_no_harm),
      cmocka_unit_test(reading_survives_lack_of_memory),
  };
  return cmocka_run_group_tests(tests, make_whole, drop_whole);
}
