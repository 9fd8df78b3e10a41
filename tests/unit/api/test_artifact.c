// Artifacts through the embedder's API: loaded, called, refused.
#include <unistd.h>

#include "core/runtime/tcx.h"
#include "tests/unit/unit.h"

#include "tc/ops.h"

static const char text[] = "graph @forward (\n"
                           "    %x : f32[2, 3] = user \"x\",\n"
                           "    %c : f32[3] = user \"c\") {\n"
                           "  %a : f32[2, 3] = aten::relu(%x)\n"
                           "  %y : f32[2, 3] = aten::add.Tensor(%a, %c)\n"
                           "  %d : f32[3] = aten::mul.Scalar(%c, 2)\n"
                           "  return input \"c\" %d, user %y\n"
                           "}\n";

typedef struct source {
  tc_module *module;
  tc_graph *graph;
} source;

static tc_status parse(void *arg) {
  source *s = arg;
  tc_lexer lx;
  tc_lex_init(&lx, s->module->arena, TC_SV("test"), tc_sv_of(text));
  return tc_graph_parse(s->module, &lx, &s->graph);
}

static tc_status write_artifact(tc_arena *arena, tc_context *c, const char *path) {
  static const tc_tcx_leaf leaves[] = {{{"x", 1}, 0}, {{"c", 1}, 1}};
  source s = {0};
  tc_session *session;
  TC_TRY(tc_module_create(c->allocator, c->ops, &s.module));
  TC_TRY(tc_arena_guard(s.module->arena, parse, &s));
  TC_TRY(tc_session_create(c, s.graph, TC_STAGE_EXEC, &session));
  tc_tcx_source one = {.name = TC_SV("forward"), .context = c, .session = session, .n_inputs = 2, .inputs = leaves};
  TC_TRY(tc_tcx_write(arena, path, NULL, 1, &one));
  tc_session_destroy(session);
  tc_module_destroy(s.module);
  return TC_OK;
}

static tc_tensor *range(tc_context *c, int32_t rank, const int64_t *sizes) {
  tc_tensor *t = tc_new_tensor(c, TC_F32, rank, sizes);
  for (int64_t i = 0; t && i < tc_numel_of(t); i++) ((float *)tc_data_of(t))[i] = (float)i - 2;
  return t;
}

// A function that calls one is cut there: the reason and the place are told, the results are the artifact's.
static int32_t calls_artifact(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  tc_tensor *y[1], *given[] = {tc_aten_mul_Scalar(in[0], tc_scalar_int(2)), in[1]};
  (void)n_in, (void)n_out;
  if (tc_artifact_call(self, given, y) != TC_STATUS_OK) return tc_last_code();
  out[0] = tc_aten_neg(y[0]);
  return tc_last_code();
}

static void keep_line(void *self, const char *artifact, tc_sv line) {
  (void)artifact;
  if (!*(char *)self) snprintf(self, 256, "%.*s", (int)line.size, line.data);
}

static void breaks_functions(tc_context *c, tc_artifact *a) {
  char line[256] = "";
  tc_function *f;
  tc_compile_options o = {.struct_size = sizeof o, .name = "it", .n_inputs = 2, .n_outputs = 1};
  assert_int_equal(tc_set_logs(c, "graph_breaks", keep_line, line), TC_STATUS_OK);
  assert_int_equal(tc_compile(c, calls_artifact, a, &o, &f), TC_STATUS_OK);
  for (int k = 0; k < 3; k++) {
    tc_tensor *in[] = {range(c, 2, (int64_t[]){2, 3}), range(c, 1, (int64_t[]){3})}, *out[1];
    static const float want[] = {2, 1, 0, 0, -3, -6};
    if (tc_call(f, in, out) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
    for (int32_t i = 0; i < 6; i++) assert_float_equal(((float *)tc_data_of(out[0]))[i], want[i], 0);
  }
  if (!strstr(line, "an artifact is called at ") || !strstr(line, "test_artifact.c:")) fail_msg("%s", line);
  assert_int_equal(tc_set_logs(c, "", NULL, NULL), TC_STATUS_OK);
  tc_function_destroy(f);
}

// Where functions are to be one graph that is an error, with the same words and place.
static void is_refused_in_one_graph(tc_artifact *a) {
  static const char *const settings[] = {"backend=cpu", "cache.enabled=false", "fullgraph=true"};
  tc_context *c;
  tc_function *f;
  tc_tensor *out[1];
  tc_compile_options o = {.struct_size = sizeof o, .name = "it", .n_inputs = 2, .n_outputs = 1};
  assert_int_equal(tc_open(settings, 3, &c), TC_STATUS_OK);
  assert_int_equal(tc_compile(c, calls_artifact, a, &o, &f), TC_STATUS_OK);
  tc_scope *s = tc_scope_open();
  tc_tensor *in[] = {range(c, 2, (int64_t[]){2, 3}), range(c, 1, (int64_t[]){3})};
  assert_int_equal(tc_call(f, in, out), TC_STATUS_CANCELLED);
  const char *said = tc_last_error();
  if (!strstr(said, "graph break: an artifact is called at ") || !strstr(said, "test_artifact.c:"))
    fail_msg("%s", said);
  tc_clear_error();
  tc_scope_close(s);
  tc_function_destroy(f);
  tc_close(c);
}

TC_TEST(loads_and_calls) {
  const char *base = tc_env("TMPDIR"), *settings[] = {"backend=cpu", "cache.enabled=false"};
  char folder[256];
  tc_context *c;
  tc_artifact *a = NULL;
  snprintf(folder, sizeof folder, "%s/tc-api-XXXXXX", base ? base : P_tmpdir);
  assert_non_null(mkdtemp(folder));
  const char *path = tc_sv_printf(arena, "%s/a.tcx", folder).data;
  if (tc_open(settings, 2, &c) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
  TC_TRY(write_artifact(arena, c, path));
  tc_scope *s = tc_scope_open();
  assert_int_equal(tc_artifact_load(c, path, "other", &a), TC_STATUS_NOT_FOUND);
  assert_non_null(strstr(tc_last_error(), "no program 'other'"));
  tc_clear_error();
  assert_int_equal(tc_artifact_load(c, path, NULL, &a), TC_STATUS_OK);
  assert_int_equal(tc_artifact_input_count(a), 2);
  assert_int_equal(tc_artifact_output_count(a), 1);
  tc_tensor *in[] = {range(c, 2, (int64_t[]){2, 3}), range(c, 1, (int64_t[]){3})}, *out[1];
  if (tc_artifact_call(a, in, out) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
  static const float want[] = {-2, -1, 0, -1, 1, 3}, doubled[] = {-4, -2, 0};
  for (int32_t i = 0; i < 6; i++) assert_float_equal(((float *)tc_data_of(out[0]))[i], want[i], 0);
  for (int32_t i = 0; i < 3; i++) assert_float_equal(((float *)tc_data_of(in[1]))[i], doubled[i], 0); // written back
  breaks_functions(c, a);
  is_refused_in_one_graph(a);
  in[0] = range(c, 2, (int64_t[]){2, 4});
  assert_int_equal(tc_artifact_call(a, in, out), TC_STATUS_INVALID_ARGUMENT);
  assert_non_null(strstr(tc_last_error(), "input 'x' size mismatch at index 1. expected 3, actual 4"));
  assert_null(out[0]);
  tc_clear_error();
  in[0] = NULL;
  assert_int_equal(tc_artifact_call(a, in, out), TC_STATUS_INVALID_ARGUMENT);
  tc_clear_error();
  tc_scope_close(s);
  tc_artifact_unload(a);
  tc_close(c);
  unlink(path);
  rmdir(folder);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(loads_and_calls)};
  return TC_RUN(tests);
}
