// Artifacts of several executables: each run takes one whose sizes fit, on one state; what no executable takes is
// refused with a list of what there is, or compiled where there is a compiler. Files of other formats, for other plugin
// interfaces and other processors are refused in words, or compiled again.
#include <math.h>
#include <pthread.h>
#include <unistd.h>

#include "core/plan/blob.h"
#include "core/runtime/artifact.h"
#include "tests/unit/runtime/artifact_bytes.h"
#include "tests/unit/unit.h"

static const char counting[] = "graph @forward [s0 in [0, 64] hint 6] (\n"
                               "    %w : f32[8, 8] = parameter \"w\",\n"
                               "    %b : f32[8] = buffer \"sum\" persistent,\n"
                               "    %c : f32[8] = buffer \"like\" persistent,\n"
                               "    %x : f32[s0, 8] = user \"x\") {\n"
                               "  %m : f32[s0, 8] = aten::mm(%x, %w)\n"
                               "  %s : f32[8] = aten::sum.dim_IntList(%m, [0], false)\n"
                               "  %a : f32[8] = aten::add.Tensor(%b, %s)\n"
                               "  %z : f32[s0, 8] = aten::add.Tensor(%m, %a)\n"
                               "  return buffer \"sum\" %a, user \"z\" %z\n"
                               "}\n";
static const char plain[] = "graph @forward [s0 in [0, 64] hint 6] (\n"
                            "    %w : f32[8, 8] = parameter \"w\",\n"
                            "    %x : f32[s0, 8] = user \"x\") {\n"
                            "  %m : f32[s0, 8] = aten::mm(%x, %w)\n"
                            "  %z : f32[s0, 8] = aten::tanh(%m)\n"
                            "  return user \"z\" %z\n"
                            "}\n";

// Cut where the host reads how many rows there are; which ones is exact, so that all executables agree.
static const char picking[] = "graph @forward [s0 in [0, 64] hint 6, u0 unbacked in [0, inf]] (\n"
                              "    %w : f32[8, 8] = parameter \"w\",\n"
                              "    %b : f32[8] = buffer \"sum\" persistent,\n"
                              "    %c : f32[8] = buffer \"like\" persistent,\n"
                              "    %x : f32[s0, 8] = user \"x\") {\n"
                              "  %m : f32[s0, 8] = aten::mm(%x, %w)\n"
                              "  %f : f32[s0]{8} = aten::select.int(%x, 1, 0)\n"
                              "  %k : bool[s0] = aten::gt.Scalar(%f, 0)\n"
                              "  %p : f32[u0, 8] = aten::index.Tensor(%m, [%k])\n"
                              "  %s : f32[8] = aten::sum.dim_IntList(%p, [0], false)\n"
                              "  %a : f32[8] = aten::add.Tensor(%b, %s)\n"
                              "  %z : f32[u0, 8] = aten::add.Tensor(%p, %a)\n"
                              "  return buffer \"sum\" %a, user \"z\" %z\n"
                              "}\n";

enum { OPEN = -1, MOST = 4 };

typedef struct made {
  tc_module *module;
  tc_graph *graph;
  tc_session *session;
} made;

typedef struct rig {
  tc_arena *arena;
  const tc_allocator *allocator;
  const char *text;
  tc_context *context;
  int32_t n;
  made all[MOST];
  int64_t sizes[MOST];
  tc_sv texts[MOST]; // of several models: each with its own sizes
  bool models;
  uint64_t weights;
  char folder[256], path[300];
} rig;

static tc_status open_context(const tc_allocator *a, tc_context **out) {
  tc_config *config;
  TC_TRY(tc_config_create(a, &config));
  TC_TRY(tc_config_set(config, TC_SV("backend"), TC_SV("cpu"), "test"));
  TC_TRY(tc_config_set(config, TC_SV("cache.enabled"), TC_SV("false"), "test"));
  TC_TRY(tc_context_create(a, config, tc_logger_silent, out));
  return tc_context_open_backend(*out);
}

typedef struct reading {
  const rig *r;
  made *to;
  int64_t size;
} reading;

static tc_status read_text(void *arg) {
  const reading *q = arg;
  tc_module *m = q->to->module;
  uint64_t seed = q->r->weights;
  static const char *const names[] = {"w", "sum", "like"};
  for (int32_t i = 0; i < 3; i++) { // "like" begins as "sum" does
    tc_binding *b = TC_NEW(m->arena, tc_binding);
    b->name = tc_sv_of(names[i]);
    tc_map_put(m->bindings, b->name, NULL)->value.ptr = b;
    TC_TRY(tc_tensor_create(q->r->allocator, TC_F32, i ? 1 : 2, (int64_t[]){8, 8}, &b->tensor));
    tc_tensor_fill_normal(&tc_executor_serial, &b->tensor, i ? 7 : seed, 0, 1);
  }
  tc_lexer lx;
  tc_lex_init(&lx, m->arena, TC_SV("test"), tc_sv_of(q->r->text));
  if (q->size != OPEN) tc_sym_fix(m->syms, TC_SV("s0"), q->size);
  return tc_graph_parse(m, &lx, &q->to->graph);
}

static tc_status add(rig *r, int64_t size) {
  made *x = &r->all[r->n];
  r->sizes[r->n++] = size;
  TC_TRY(tc_module_create(r->allocator, r->context->ops, &x->module));
  TC_TRY(tc_arena_guard(x->module->arena, read_text, &(reading){r, x, size}));
  tc_sb text = tc_sb_make(r->arena);
  tc_graph_print(&text, x->graph);
  r->texts[r->n - 1] = tc_sb_view(&text);
  return tc_session_create(r->context, x->graph, TC_STAGE_EXEC, &x->session);
}

static tc_status write_all(rig *r, const char *beside) {
  static const tc_tcx_leaf leaf = {{"x", 1}, 1}, behind_state = {{"x", 1}, 3};
  tc_tcx_source s[MOST];
  for (int32_t i = 0; i < r->n; i++) {
    s[i] = (tc_tcx_source){.name = TC_SV("forward"), .context = r->context, .session = r->all[i].session};
    s[i].n_inputs = 1, s[i].inputs = r->text == plain ? &leaf : &behind_state, s[i].graph = tc_sv_of(r->text);
    if (r->models) s[i].graph = r->texts[i];
    else if (r->sizes[i] != OPEN) s[i].sizes = tc_sv_printf(r->arena, "s0=%lld", (long long)r->sizes[i]);
  }
  return tc_tcx_write(r->arena, r->path, beside, r->n, s);
}

// A file with an executable for each of the sizes.
static tc_status open_rig(rig *r, tc_arena *arena, const tc_allocator *a, const char *text, int32_t n,
                          const int64_t *sizes) {
  *r = (rig){.arena = arena, .allocator = a, .text = text, .weights = 5};
  const char *base = tc_env("TMPDIR");
  snprintf(r->folder, sizeof r->folder, "%s/tc-tcx-XXXXXX", base ? base : P_tmpdir);
  assert_non_null(mkdtemp(r->folder));
  snprintf(r->path, sizeof r->path, "%s/a.tcx", r->folder);
  TC_TRY(open_context(a, &r->context));
  for (int32_t i = 0; i < n; i++) TC_TRY(add(r, sizes[i]));
  return TC_OK;
}

static void close_rig(rig *r) {
  for (int32_t i = 0; i < r->n; i++) {
    tc_session_destroy(r->all[i].session);
    tc_module_destroy(r->all[i].module);
  }
  tc_context_destroy(r->context);
  unlink(r->path);
  unlink(tc_sv_printf(r->arena, "%s/a.tensors", r->folder).data);
  rmdir(r->folder);
}

static tc_status random_rows(const rig *r, int64_t rows, uint64_t *seed, tc_tensor *out) {
  TC_TRY(tc_tensor_create(r->allocator, TC_F32, 2, (int64_t[]){rows, 8}, out));
  tc_tensor_fill_normal(&tc_executor_serial, out, tc_test_random(seed), 0, 1);
  return TC_OK;
}

// Executables for other sizes may add in another order.
static void expect_close(const tc_tensor *a, const tc_tensor *b) {
  assert_int_equal(tc_tensor_numel(a), tc_tensor_numel(b));
  const float *x = tc_tensor_data(a), *y = tc_tensor_data(b);
  for (int64_t i = 0, n = tc_tensor_numel(a); i < n; i++) assert_float_equal(x[i], y[i], 1e-4 * (1 + fabsf(y[i])));
}

static const tc_graph_input *input_named(const tc_graph *g, const char *name, int32_t *out) {
  for (*out = 0; *out < g->inputs.count; ++*out)
    if (tc_sv_is(g->inputs.data[*out].target, name)) return &g->inputs.data[*out];
  return NULL;
}

// The session that has the open sizes, alone, is what the artifact is held to.
static tc_status run_both(rig *r, tc_artifact *f, tc_session *open, int64_t rows, uint64_t *seed) {
  tc_tensor in[8] = {{0}}, want[4] = {{0}}, got;
  int32_t at;
  assert_non_null(input_named(tc_session_graph(open), "x", &at));
  TC_TRY(random_rows(r, rows, seed, &in[at]));
  tc_session_run_options o = {.write_back = true};
  TC_TRY(tc_session_run(open, in, want, &o));
  TC_TRY(tc_artifact_run(f, &in[at], &got, &o));
  int32_t last = tc_session_graph(open)->outputs.count - 1;
  expect_close(&got, &want[last]);
  if (r->text != plain) {
    static const char *const state[] = {"sum", "like"};
    for (int32_t i = 0; i < 2; i++)
      expect_close(tc_session_state(f->session, tc_sv_of(state[i])), tc_session_state(open, tc_sv_of(state[i])));
  }
  for (int32_t i = 0; i <= last; i++) tc_tensor_unref(&want[i]);
  tc_tensor_unref(&got);
  tc_tensor_unref(&in[at]);
  return TC_OK;
}

static tc_status sizes_share_a_state(tc_arena *arena, const char *program, const char *beside) {
  uint64_t seed = tc_test_seed();
  rig r;
  tc_artifact *f;
  static const int64_t sizes[] = {6, OPEN, 1};
  TC_TRY(open_rig(&r, arena, tc_arena_allocator(arena), program, 3, sizes));
  TC_TRY(write_all(&r, beside));
  TC_TRY(tc_artifact_open(r.context, r.path, TC_SV(""), NULL, &f));
  assert_int_equal(f->n_others, 2);
  assert_false(tc_sym_is_const(f->graph->inputs.data[f->inputs[0].index].value->type.sizes[0]));
  for (int32_t i = 0; i < 24; i++) {
    static const int64_t rows[] = {6, 1, 0, 7, 64};
    TC_TRY(run_both(&r, f, r.all[1].session, rows[tc_test_random(&seed) % 5], &seed));
  }
  tc_session_reset(f->session);
  tc_session_reset(r.all[1].session);
  TC_TRY(run_both(&r, f, r.all[1].session, 1, &seed));
  tc_artifact_close(f);
  close_rig(&r);
  return TC_OK;
}

TC_TEST(executables_share_a_state) { return sizes_share_a_state(arena, counting, NULL); }
TC_TEST(with_tensors_beside) { return sizes_share_a_state(arena, counting, "a.tensors"); }
TC_TEST(programs_in_segments_share_a_state) { return sizes_share_a_state(arena, picking, NULL); }

static int32_t count_entries(tc_arena *arena, const char *path, int32_t kind) {
  tc_sv bytes;
  tc_blob *b;
  int32_t n = 0;
  assert_ok(tc_file_read(arena, path, &bytes));
  char *aligned = tc_arena_alloc_aligned(arena, bytes.size, 64);
  memcpy(aligned, bytes.data, bytes.size);
  assert_ok(tc_blob_open(arena, (tc_sv){aligned, bytes.size}, &b));
  for (int32_t i = 0; i < tc_blob_count(b); i++) n += tc_blob_at(b, i)->kind == kind;
  return n;
}

// Tensors and text are there once, although each executable was made with tensors of its own; and two that are equal
// now stay two.
TC_TEST(what_is_common_is_there_once) {
  rig r;
  static const int64_t sizes[] = {6, 1, OPEN};
  TC_TRY(open_rig(&r, arena, tc_arena_allocator(arena), counting, 3, sizes));
  TC_TRY(write_all(&r, NULL));
  assert_int_equal(count_entries(arena, r.path, TC_BLOB_DATA), 3);
  assert_int_equal(count_entries(arena, r.path, TC_BLOB_TENSOR), 3);
  assert_int_equal(count_entries(arena, r.path, TC_BLOB_PLAN), 3);
  assert_int_equal(count_entries(arena, r.path, TC_BLOB_TEXT), 2); // the index
  close_rig(&r);
  return TC_OK;
}

TC_TEST(other_programs_are_no_other_sizes) {
  rig r;
  static const int64_t sizes[] = {6, 1};
  TC_TRY(open_rig(&r, arena, tc_arena_allocator(arena), plain, 2, sizes));
  r.weights = 6;
  TC_TRY(add(&r, 2));
  assert_error(write_all(&r, NULL), TC_STATUS_INVALID_ARGUMENT, "the tensor 'w' is another one");
  r.n--;
  tc_session_destroy(r.all[2].session);
  tc_module_destroy(r.all[2].module);
  r.weights = 5;
  TC_TRY(add(&r, 6));
  assert_error(write_all(&r, NULL), TC_STATUS_INVALID_ARGUMENT, "is there twice for cpu");
  close_rig(&r);
  return TC_OK;
}

TC_TEST(sizes_that_cannot_be_fixed) {
  rig r;
  static const int64_t none = OPEN;
  TC_TRY(open_rig(&r, arena, tc_arena_allocator(arena), plain, 0, &none));
  tc_module *m;
  made x = {0};
  TC_TRY(tc_module_create(r.allocator, r.context->ops, &m));
  x.module = m;
  assert_error(tc_arena_guard(m->arena, read_text, &(reading){&r, &x, 65}), TC_STATUS_INVALID_ARGUMENT,
               "s0 = 65 lies outside of [0, 64]");
  tc_module_destroy(m);
  close_rig(&r);
  return TC_OK;
}

// ---- none fits ----
static tc_status none_takes(tc_arena *arena, const char *program) {
  uint64_t seed = tc_test_seed();
  rig r;
  tc_artifact *f;
  tc_tensor x, y;
  static const int64_t sizes[] = {6, 1, OPEN};
  TC_TRY(open_rig(&r, arena, tc_arena_allocator(arena), program, 3, sizes));
  r.n = 2;
  TC_TRY(write_all(&r, NULL));
  r.n = 3;
  TC_TRY(tc_artifact_open(r.context, r.path, TC_SV(""), NULL, &f));
  TC_TRY(random_rows(&r, 7, &seed, &x));
  assert_error(tc_artifact_run(f, &x, &y, NULL), TC_STATUS_INVALID_ARGUMENT, "none of the 2 executables of 'forward'");
  assert_error(tc_artifact_run(f, &x, &y, NULL), TC_STATUS_INVALID_ARGUMENT,
               "\n  x f32[1, 8]: input 'x' size mismatch at index 0. expected 1, actual 7");
  TC_TRY(run_both(&r, f, r.all[2].session, 1, &seed));
  tc_artifact_close(f);
  tc_session_reset(r.all[2].session); // as the next artifact begins
  // With a compiler the text has the other sizes, but no more than these.
  TC_TRY(tc_artifact_open(r.context, r.path, TC_SV(""), tc_tcx_compile, &f));
  for (int64_t rows = 0; rows < 9; rows++) TC_TRY(run_both(&r, f, r.all[2].session, rows, &seed));
  tc_tensor_unref(&x);
  TC_TRY(random_rows(&r, 65, &seed, &x));
  assert_error(tc_artifact_run(f, &x, &y, NULL), TC_STATUS_INVALID_ARGUMENT,
               program == plain ? "x f32[s0, 8] [s0 in [0, 64] hint 6]: size 65 at index 0 of input 'x' lies outside"
                                : "s0 = 65 lies outside the program's range [0, 64]");
  tc_tensor_unref(&x);
  tc_artifact_close(f);
  close_rig(&r);
  return TC_OK;
}

TC_TEST(what_none_takes) { return none_takes(arena, plain); }
TC_TEST(what_no_segments_take) { return none_takes(arena, picking); }

// ---- threads ----
typedef struct caller {
  pthread_t thread;
  tc_artifact *artifact;
  tc_tensor input, want;
  int32_t wrong;
} caller;

static void *call_often(void *arg) {
  caller *c = arg;
  for (int32_t i = 0; i < 50; i++) {
    tc_tensor out;
    tc_status s = tc_artifact_run(c->artifact, &c->input, &out, NULL);
    bool same = s == TC_OK && tc_tensor_numel(&out) == tc_tensor_numel(&c->want);
    const float *x = same ? tc_tensor_data(&out) : NULL, *y = tc_tensor_data(&c->want);
    for (int64_t k = 0; same && k < tc_tensor_numel(&out); k++) same = fabsf(x[k] - y[k]) < 1e-4f;
    c->wrong += !same;
    if (s == TC_OK) tc_tensor_unref(&out);
    tc_status_free(s);
  }
  return NULL;
}

// All of them at once, two of them with sizes that have to be compiled first. Counting allocators are for one thread.
static void threads_choose(const char *program) {
  enum { THREADS = 4 };
  static const int64_t sizes[] = {6, 1, OPEN}, rows[THREADS] = {6, 9, 1, 17};
  uint64_t seed = tc_test_seed();
  tc_arena *arena;
  rig r;
  tc_artifact *f;
  caller callers[THREADS] = {{0}};
  assert_ok(tc_arena_create(tc_system_allocator(), &arena));
  assert_ok(open_rig(&r, arena, tc_system_allocator(), program, 3, sizes));
  r.n = 2;
  assert_ok(write_all(&r, NULL));
  r.n = 3;
  assert_ok(tc_artifact_open(r.context, r.path, TC_SV(""), tc_tcx_compile, &f));
  for (int32_t i = 0; i < THREADS; i++) {
    tc_tensor in[8] = {{0}}, outputs[4] = {{0}};
    int32_t at;
    callers[i].artifact = f;
    assert_ok(random_rows(&r, rows[i], &seed, &callers[i].input));
    assert_non_null(input_named(tc_session_graph(r.all[2].session), "x", &at));
    in[at] = callers[i].input;
    assert_ok(tc_session_run(r.all[2].session, in, outputs, NULL));
    int32_t last = tc_session_graph(r.all[2].session)->outputs.count - 1;
    callers[i].want = outputs[last];
    for (int32_t k = 0; k < last; k++) tc_tensor_unref(&outputs[k]);
  }
  for (int32_t i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&callers[i].thread, NULL, call_often, &callers[i]), 0);
  for (int32_t i = 0; i < THREADS; i++) pthread_join(callers[i].thread, NULL);
  for (int32_t i = 0; i < THREADS; i++) {
    assert_int_equal(callers[i].wrong, 0);
    tc_tensor_unref(&callers[i].want);
    tc_tensor_unref(&callers[i].input);
  }
  tc_artifact_close(f);
  close_rig(&r);
  tc_arena_destroy(arena);
}

static void threads_choose_and_compile(void **state) {
  (void)state;
  threads_choose(plain);
}
static void threads_share_segments(void **state) {
  (void)state;
  threads_choose(picking);
}

// ---- other formats, interfaces, processors ----
static void replace(char *bytes, size_t size, const char *what, const char *by) {
  size_t n = strlen(what);
  assert_int_equal(n, strlen(by));
  int32_t found = 0;
  for (size_t i = 0; i + n <= size; i++)
    if (memcmp(bytes + i, what, n) == 0) memcpy(bytes + i, by, n), found++;
  assert_true(found > 0);
}

// The file again with some bytes replaced, and hashes that fit.
static tc_status rewrite(rig *r, const char *what, const char *by) {
  tc_sv bytes;
  TC_TRY(tc_file_read(r->arena, r->path, &bytes));
  char *copy = tc_arena_copy(r->arena, bytes.data, bytes.size);
  replace(copy, bytes.size, what, by);
  artifact_repair(copy, bytes.size);
  return tc_file_write(r->path, copy, bytes.size);
}

static tc_status open_changed(rig *r, const char *what, const char *by, tc_artifact_compile compile,
                              tc_artifact **out) {
  TC_TRY(write_all(r, NULL));
  TC_TRY(rewrite(r, what, by));
  return tc_artifact_open(r->context, r->path, TC_SV(""), compile, out);
}

TC_TEST(other_formats_and_interfaces) {
  uint64_t seed = tc_test_seed();
  rig r;
  tc_artifact *f;
  static const int64_t sizes[] = {6, OPEN};
  TC_TRY(open_rig(&r, arena, tc_arena_allocator(arena), counting, 2, sizes));
  assert_error(open_changed(&r, "tcx 4 tc", "tcx 5 tc", tc_tcx_compile, &f), TC_STATUS_INVALID_ARGUMENT,
               "the file is of format 5");
  assert_error(open_changed(&r, "tcx 4 tc", "tcx 0 tc", tc_tcx_compile, &f), TC_STATUS_INVALID_ARGUMENT,
               "which reads formats 1 to 4: compile the model again");
  assert_error(open_changed(&r, " abi 1\n", " abi 9\n", NULL, &f), TC_STATUS_INVALID_ARGUMENT,
               "was compiled for the plugin interface 9, this is interface 1");
  TC_TRY(open_changed(&r, " abi 1\n", " abi 9\n", tc_tcx_compile, &f));
  assert_int_equal(f->program.image.n_plans, 0);
  for (int64_t rows = 0; rows < 8; rows++) TC_TRY(run_both(&r, f, r.all[1].session, rows, &seed));
  tc_artifact_close(f);
  close_rig(&r);
  return TC_OK;
}

// One that was written by format 1.
TC_TEST(the_first_format_is_read) {
  tc_tcx *x;
  tc_tcx_program p;
  TC_TRY(tc_tcx_open(tc_arena_allocator(arena), TC_SOURCE_DIR "/tests/fuzz/corpus/runtime_tcx/sum.tcx", &x));
  assert_int_equal(tc_tcx_at(x, 0)->takes.size, 0);
  TC_TRY(tc_tcx_load(x, 0, TC_TCX_PLAN | TC_TCX_TENSORS, &p));
  assert_int_equal(p.image.n_plans, 1);
  tc_tcx_unload(&p);
  tc_tcx_close(x);
  return TC_OK;
}

// Code for a processor that has every feature there could be.
static tc_status for_another_processor(rig *r) {
  unsigned w[5];
  tc_sv bytes;
  const char *target = r->context->device->props.target, *features = strstr(target, "features ");
  assert_non_null(features);
  assert_int_equal(sscanf(features, "features %x %x %x %x %x", &w[0], &w[1], &w[2], &w[3], &w[4]), 5);
  TC_TRY(write_all(r, NULL));
  TC_TRY(rewrite(r, "x86_64 family", "x86_99 family"));
  TC_TRY(tc_file_read(r->arena, r->path, &bytes));
  char *copy = tc_arena_copy(r->arena, bytes.data, bytes.size);
  int32_t found = 0;
  for (size_t i = 0; i + sizeof w <= bytes.size; i++)
    if (memcmp(copy + i, w, sizeof w) == 0) memset(copy + i, 0xff, sizeof w), found++;
  assert_true(found > 0);
  artifact_repair(copy, bytes.size);
  return tc_file_write(r->path, copy, bytes.size);
}

TC_TEST(another_processor) {
  uint64_t seed = tc_test_seed();
  rig r;
  tc_artifact *f;
  static const int64_t sizes[] = {6, OPEN};
  TC_TRY(open_rig(&r, arena, tc_arena_allocator(arena), counting, 2, sizes));
  TC_TRY(for_another_processor(&r));
  tc_context *fresh; // which has not loaded these kernels
  TC_TRY(open_context(r.allocator, &fresh));
  tc_status s = tc_artifact_open(fresh, r.path, TC_SV(""), NULL, &f);
  assert_non_null(strstr(tc_status_text(s), "processor with features that this one lacks"));
  assert_non_null(strstr(tc_status_text(s), "was compiled for x86_99"));
  tc_status_free(s);
  TC_TRY(tc_artifact_open(fresh, r.path, TC_SV(""), tc_tcx_compile, &f));
  assert_non_null(f->compiled);
  for (int64_t rows = 0; rows < 8; rows++) TC_TRY(run_both(&r, f, r.all[1].session, rows, &seed));
  tc_artifact_close(f);
  tc_context_destroy(fresh);
  close_rig(&r);
  return TC_OK;
}

// Models with fixed sizes are one program, each with a text of its own: all of them are compiled where none of the code
// will do, on one state.
static tc_status several_models(tc_arena *arena, const char *program) {
  uint64_t seed = tc_test_seed();
  rig r;
  tc_artifact *f;
  tc_tensor x, y;
  static const int64_t sizes[] = {6, 1, 9, OPEN};
  TC_TRY(open_rig(&r, arena, tc_arena_allocator(arena), program, 4, sizes));
  r.n = 3, r.models = true;
  for (int32_t again = 0; again < 2; again++) {
    TC_TRY(write_all(&r, NULL));
    if (again) TC_TRY(rewrite(&r, " abi 1\n", " abi 9\n"));
    TC_TRY(tc_artifact_open(r.context, r.path, TC_SV(""), tc_tcx_compile, &f));
    assert_int_equal(f->compiled != NULL, again);
    for (int32_t i = 0; i < 12; i++) TC_TRY(run_both(&r, f, r.all[3].session, sizes[tc_test_random(&seed) % 3], &seed));
    TC_TRY(random_rows(&r, 7, &seed, &x));
    assert_error(tc_artifact_run(f, &x, &y, NULL), TC_STATUS_INVALID_ARGUMENT,
                 "none of the 3 executables of 'forward'");
    tc_tensor_unref(&x);
    tc_artifact_close(f);
    tc_session_reset(r.all[3].session);
  }
  r.n = 4;
  close_rig(&r);
  return TC_OK;
}
TC_TEST(several_models_of_fixed_sizes) { return several_models(arena, counting); }
TC_TEST(several_models_in_segments) { return several_models(arena, picking); }

// ---- damage ----
static tc_sv whole, cut; // files of two executables, made once; cut: in segments

static tc_status make_file(tc_arena *arena, const char *program, tc_sv *out) {
  rig r;
  tc_sv bytes;
  static const int64_t sizes[] = {6, OPEN};
  TC_TRY(open_rig(&r, arena, tc_arena_allocator(arena), program, 2, sizes));
  TC_TRY(write_all(&r, NULL));
  TC_TRY(tc_file_read(arena, r.path, &bytes));
  *out = (tc_sv){memcpy(malloc(bytes.size), bytes.data, bytes.size), bytes.size};
  close_rig(&r);
  return TC_OK;
}
static tc_status make_whole_body(tc_arena *arena) {
  TC_TRY(make_file(arena, counting, &whole));
  return make_file(arena, picking, &cut);
}

static int make_whole(void **state) {
  (void)state;
  tc_test_run(make_whole_body);
  return 0;
}
static int drop_whole(void **state) {
  (void)state;
  free((char *)(uintptr_t)whole.data);
  free((char *)(uintptr_t)cut.data);
  return 0;
}

TC_TEST_TORTURED(reading_survives_lack_of_memory) {
  return artifact_read_all(tc_arena_allocator(arena), whole.data, whole.size);
}

TC_TEST_TORTURED(reading_steps_survives_lack_of_memory) {
  return artifact_read_all(tc_arena_allocator(arena), cut.data, cut.size);
}

typedef struct fault {
  const char *what, *by, *message;
} fault;

static void refuses(tc_arena *arena, tc_sv file, size_t n, const fault *rows) {
  for (size_t i = 0; i < n; i++) {
    char *copy = tc_arena_copy(arena, file.data, file.size);
    replace(copy, file.size, rows[i].what, rows[i].by);
    artifact_repair(copy, file.size);
    tc_status s = artifact_read_all(tc_arena_allocator(arena), copy, file.size);
    if (!strstr(tc_status_text(s), rows[i].message)) fail_msg("%s: %s", rows[i].by, tc_status_text(s));
    tc_status_free(s);
  }
}

TC_TEST(damaged_steps_are_refused) {
  static const fault rows[] = {{"tc::segment(\"1\"", "tc::segment(\"7\"", "tc::segment names no plan"},
                               {"tc::segment(\"1\"", "tc::segment(\"0\"", "other inputs or outputs than its plan"},
                               {"tc::segment(\"1\"", "tc::segment(21.", "a string is wanted"},
                               {"tc::number(", "tc::numbes(", "tc::numbes"},
                               {"steps \"1\"", "steps \"7\"", "has no 'steps/7'"},
                               {"int u0 =", "float  =", "tc::number reads no number"}};
  refuses(arena, cut, sizeof rows / sizeof *rows, rows);
  return TC_OK;
}

TC_TEST(damaged_indices_are_refused) {
  const tc_allocator *a = tc_arena_allocator(arena);
  static const fault rows[] = {{"tensor \"w\" \"0/0\"", "tensor \"w\" \"0/1\"", "missing, or not what the plan says"},
                               {"tensor \"w\" \"0/0\"", "tensor \"v\" \"0/0\"", "missing, or not what the plan says"},
                               {"plan \"1\"", "mode \"1\"", "one of several executables has no plan"},
                               {"plan \"1\"", "plan \"7\"", "has no '7'"},
                               {"sizes \"s0=6\"", "sizEs \"s0=6\"", "expected what a program has"},
                               {"takes \"x f32[6, 8]\"", "takes [x f32[6, 8]]", "expected a string"}};
  refuses(arena, whole, sizeof rows / sizeof *rows, rows);
  // One executable's tensor alone is another entry.
  char *copy = tc_arena_copy(arena, whole.data, whole.size);
  for (size_t i = whole.size; i-- > 0;)
    if (i + 5 <= whole.size && memcmp(copy + i, "\"0/1\"", 5) == 0) {
      copy[i + 3] = '2';
      break;
    }
  artifact_repair(copy, whole.size);
  assert_error(artifact_read_all(a, copy, whole.size), TC_STATUS_DATA_LOSS, "have different tensors");
  return TC_OK;
}

// Damage is said, although there is a text that could be compiled.
TC_TEST(damage_is_not_mended) {
  rig r;
  tc_artifact *f;
  static const int64_t sizes[] = {6, OPEN};
  TC_TRY(open_rig(&r, arena, tc_arena_allocator(arena), counting, 2, sizes));
  assert_error(open_changed(&r, "plan \"0\"", "plan \"7\"", tc_tcx_compile, &f), TC_STATUS_NOT_FOUND, "has no '7'");
  assert_error(open_changed(&r, "plan \"0\"", "mode \"0\"", tc_tcx_compile, &f), TC_STATUS_DATA_LOSS,
               "one of several executables has no plan");
  close_rig(&r);
  return TC_OK;
}

static void damage_at_random(tc_arena *arena, tc_sv file, uint64_t seed) {
  char *copy = tc_arena_alloc(arena, file.size);
  for (int32_t i = 0; i < 200; i++) {
    memcpy(copy, file.data, file.size);
    for (uint64_t k = 0, n = 1 + tc_test_random(&seed) % 4; k < n; k++)
      copy[tc_test_random(&seed) % file.size] = (char)tc_test_random(&seed);
    artifact_repair(copy, file.size);
    tc_status_free(artifact_read_all(tc_arena_allocator(arena), copy, file.size));
  }
}

TC_TEST(repaired_damage_does_no_harm) {
  uint64_t seed = tc_test_seed();
  damage_at_random(arena, whole, seed);
  damage_at_random(arena, cut, seed);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(executables_share_a_state),
      cmocka_unit_test(with_tensors_beside),
      cmocka_unit_test(what_is_common_is_there_once),
      cmocka_unit_test(other_programs_are_no_other_sizes),
      cmocka_unit_test(sizes_that_cannot_be_fixed),
      cmocka_unit_test(what_none_takes),
      cmocka_unit_test(threads_choose_and_compile),
      cmocka_unit_test(other_formats_and_interfaces),
      cmocka_unit_test(the_first_format_is_read),
      cmocka_unit_test(another_processor),
      cmocka_unit_test(several_models_of_fixed_sizes),
      cmocka_unit_test(several_models_in_segments),
      cmocka_unit_test(damaged_indices_are_refused),
      cmocka_unit_test(repaired_damage_does_no_harm),
      cmocka_unit_test(damage_is_not_mended),
      cmocka_unit_test(reading_survives_lack_of_memory),
      cmocka_unit_test(programs_in_segments_share_a_state),
      cmocka_unit_test(what_no_segments_take),
      cmocka_unit_test(threads_share_segments),
      cmocka_unit_test(damaged_steps_are_refused),
      cmocka_unit_test(reading_steps_survives_lack_of_memory),
  };
  return cmocka_run_group_tests(tests, make_whole, drop_whole);
}
