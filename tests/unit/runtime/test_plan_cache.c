// Plans from the cache: a second context makes no plan and computes the same; other options, other graphs and damaged
// or incomplete entries lead to new ones; what a program writes and its sizes survive.
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/runtime/recorder.h"
#include "tests/unit/runtime/rig.h"

// A rig that has run.
typedef struct ran {
  rig rig;
  int32_t n_outputs;
  tc_tensor outputs[RIG_MOST];
} ran;

static tc_status run_once(ran *r, const char *text, const char *folder, const char *option, const char *value,
                          uint64_t seed) {
  const char *const options[] = {"cache.dir", folder, option, value, NULL};
  *r = (ran){0};
  TC_TRY(rig_context(&r->rig, tc_system_allocator(), "cpu", options));
  TC_TRY(rig_graph(&r->rig, text));
  TC_TRY(rig_inputs(&r->rig, seed));
  TC_TRY(tc_session_create(r->rig.context, r->rig.graph, TC_STAGE_EXEC, &r->rig.session));
  r->n_outputs = r->rig.graph->outputs.count;
  return tc_session_run(r->rig.session, r->rig.inputs, r->outputs, NULL);
}

static void done(ran *r) {
  for (int32_t i = 0; i < r->n_outputs; i++) tc_tensor_unref(&r->outputs[i]);
  rig_close(&r->rig);
}

// The plan was read, not made.
static bool was_read(const ran *r) { return tc_session_plan(r->rig.session)->n_code > 0; }

static void same(const ran *a, const ran *b) {
  assert_int_equal(a->n_outputs, b->n_outputs);
  for (int32_t i = 0; i < a->n_outputs; i++) {
    assert_int_equal(a->rig.graph->outputs.data[i].kind, b->rig.graph->outputs.data[i].kind);
    assert_true(tc_sv_eq(a->rig.graph->outputs.data[i].target, b->rig.graph->outputs.data[i].target));
    assert_int_equal(tc_tensor_numel(&a->outputs[i]), tc_tensor_numel(&b->outputs[i]));
    assert_memory_equal(tc_tensor_data(&a->outputs[i]), tc_tensor_data(&b->outputs[i]),
                        (size_t)tc_tensor_numel(&a->outputs[i]) * sizeof(float));
  }
}

// ---- the folder ----
typedef struct folder {
  char path[512];
} folder;

static folder make_folder(void) {
  folder f;
  const char *base = tc_env("TMPDIR");
  snprintf(f.path, sizeof f.path, "%s/tc-plans-XXXXXX", base ? base : P_tmpdir);
  assert_non_null(mkdtemp(f.path));
  return f;
}

static void each_entry(const char *path, void (*f)(const char *path, void *arg), void *arg, bool remove_all) {
  DIR *d = opendir(path);
  for (struct dirent *e; d && (e = readdir(d));) {
    char inner[600];
    struct stat st;
    if (e->d_name[0] == '.') continue;
    if (snprintf(inner, sizeof inner, "%s/%s", path, e->d_name) >= (int)sizeof inner) fail_msg("%s is too deep", path);
    if (lstat(inner, &st) != 0) continue;
    if (S_ISDIR(st.st_mode)) each_entry(inner, f, arg, remove_all);
    else if (f) f(inner, arg);
    if (remove_all && remove(inner) != 0) fail_msg("%s stays", inner);
  }
  if (d) closedir(d);
}

static void remove_folder(const folder *f) {
  each_entry(f->path, NULL, NULL, true);
  assert_int_equal(rmdir(f->path), 0);
}

// Entries of plans have the blob's mark behind the cache's header; the others are code.
static bool is_plan(const char *path) {
  char bytes[40] = {0};
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  size_t n = fread(bytes, 1, sizeof bytes, f);
  fclose(f);
  return n == sizeof bytes && memcmp(bytes + 32, "tc blob\n", 8) == 0;
}

static void remove_code(const char *path, void *arg) {
  (void)arg;
  if (!is_plan(path)) assert_int_equal(unlink(path), 0);
}

static void damage_plan(const char *path, void *arg) {
  uint64_t *seed = arg;
  if (!is_plan(path)) return;
  FILE *f = fopen(path, "r+b");
  assert_non_null(f);
  assert_int_equal(fseek(f, 0, SEEK_END), 0);
  long at = (long)(tc_test_random(seed) % (uint64_t)ftell(f));
  if (at >= 24 && at < 32) at = 0; // the header's spare word
  assert_int_equal(fseek(f, at, SEEK_SET), 0);
  int byte = fgetc(f);
  assert_int_equal(fseek(f, at, SEEK_SET), 0);
  fputc(byte ^ 1 << tc_test_random(seed) % 8, f);
  fclose(f);
}

// ---- tests ----
static const char program[] = "graph @forward [s0 in [2, 64] hint 12, require Mod(s0, 4) == 0] (\n"
                              "    %w : f32[32, 16] = parameter \"w\",\n"
                              "    %c : f32[16] = buffer \"c\",\n"
                              "    %x : f32[s0, 16] = user \"x\") {\n"
                              "  %d : f32[16] = aten::add_.Tensor(%c, 1.5)\n"
                              "  %y : f32[s0, 16] = aten::mul.Tensor(%x, %d)\n"
                              "  %h : f32[s0, 32] = aten::linear(%y, %w, none)\n"
                              "  %s : f32[s0, 32] = aten::softmax.int(%h, -1)\n"
                              "  return user %s\n"
                              "}\n";

TC_TEST(a_second_process_makes_no_plan) {
  uint64_t seed = tc_test_seed();
  folder f = make_folder();
  ran first, second, other, again;
  TC_TRY(run_once(&first, program, f.path, NULL, NULL, seed));
  TC_TRY(run_once(&second, program, f.path, NULL, NULL, seed));
  assert_false(was_read(&first));
  assert_true(was_read(&second));
  assert_int_equal(tc_session_stats_of(second.rig.session)->compile.hits,
                   tc_session_stats_of(second.rig.session)->compile.kernels);
  assert_true(tc_session_stats_of(second.rig.session)->ms[TC_STAGE_LOOP] == 0);
  assert_int_equal(first.n_outputs, 2); // the buffer is changed
  same(&first, &second);
  // Its conditions hold, too.
  tc_tensor keep = second.rig.inputs[2], wrong;
  int64_t sizes[2] = {6, 16};
  TC_TRY(tc_tensor_create(tc_arena_allocator(arena), TC_F32, 2, sizes, &wrong));
  memset(tc_tensor_data(&wrong), 0, sizeof(float) * 96);
  second.rig.inputs[2] = wrong;
  tc_tensor none[RIG_MOST];
  assert_error(tc_session_run(second.rig.session, second.rig.inputs, none, NULL), TC_STATUS_INVALID_ARGUMENT,
               "Mod(s0, 4)");
  second.rig.inputs[2] = keep;
  tc_tensor_unref(&wrong);
  // Another option that changes code, another graph: other entries.
  TC_TRY(run_once(&other, program, f.path, "fuse", "false", seed));
  assert_false(was_read(&other));
  TC_TRY(run_once(&again, "graph @forward (%x : f32[3] = user \"x\") { %y : f32[3] = aten::exp(%x) return user %y }",
                  f.path, NULL, NULL, seed));
  assert_false(was_read(&again));
  done(&first), done(&second), done(&other), done(&again);
  remove_folder(&f);
  return TC_OK;
}

// What is read from the cache is recorded and replayed as what was just made is.
TC_TEST(kept_plans_are_recorded) {
  uint64_t seed = tc_test_seed();
  static const char sums[] = "graph @sums (%x : f32[8, 24] = user \"x\") {\n"
                             "  %c : f32[24] = aten::sum.dim_IntList(%x, [0])\n"
                             "  %d : f32[8, 24] = aten::sub.Tensor(%x, %c)\n"
                             "  return user %d\n}\n";
  folder f = make_folder();
  const char *const options[] = {"cache.dir", f.path, "device_graph", "true", NULL};
  for (int32_t process = 0; process < 2; process++) {
    rig r = {0};
    tc_tensor output;
    TC_TRY(rig_context(&r, tc_system_allocator(), "cpu", options));
    TC_TRY(rec_install(r.context->device, tc_system_allocator()));
    TC_TRY(rig_graph(&r, sums));
    TC_TRY(rig_inputs(&r, seed));
    TC_TRY(tc_session_create(r.context, r.graph, TC_STAGE_EXEC, &r.session));
    assert_int_equal(tc_session_plan(r.session)->n_code > 0, process);
    for (int32_t i = 0; i < 6; i++) {
      TC_TRY(tc_session_run(r.session, r.inputs, &output, NULL));
      tc_tensor_unref(&output);
    }
    assert_true(rec.graph_launches >= 3);
    rig_close(&r);
    assert_int_equal(rec.faults, 0);
  }
  remove_folder(&f);
  return TC_OK;
}

TC_TEST(damaged_entries_are_made_anew) {
  uint64_t seed = tc_test_seed(), damage = seed;
  folder f = make_folder();
  ran first, next;
  TC_TRY(run_once(&first, program, f.path, NULL, NULL, seed));
  for (int32_t round = 0; round < 10; round++) {
    each_entry(f.path, damage_plan, &damage, false);
    TC_TRY(run_once(&next, program, f.path, NULL, NULL, seed));
    assert_false(was_read(&next));
    done(&next);
    TC_TRY(run_once(&next, program, f.path, NULL, NULL, seed));
    assert_true(was_read(&next));
    same(&first, &next);
    done(&next);
  }
  each_entry(f.path, remove_code, NULL, false);
  for (int32_t round = 0; round < 2; round++) {
    TC_TRY(run_once(&next, program, f.path, NULL, NULL, seed));
    assert_int_equal(was_read(&next), round);
    done(&next);
  }
  done(&first);
  remove_folder(&f);
  return TC_OK;
}

static void put_file(const folder *f, const char *name, const char *text) {
  char path[600];
  snprintf(path, sizeof path, "%s/%s", f->path, name);
  FILE *out = fopen(path, "w");
  assert_non_null(out);
  fputs(text, out);
  assert_int_equal(fclose(out), 0);
  assert_int_equal(chmod(path, 0644), 0);
}

// The folder that the backend's plugin came from.
static tc_status backend_folder(tc_arena *arena, tc_sv *out) {
  rig r;
  tc_plugin *list;
  int32_t n;
  TC_TRY(rig_context(&r, tc_system_allocator(), "cpu", NULL));
  TC_TRY(tc_plugins_list(r.context->plugins, arena, &list, &n));
  for (int32_t i = 0; i < n; i++)
    if (tc_sv_is(list[i].name, "cpu")) *out = tc_sv_copy(arena, tc_path_dir(list[i].file));
  tc_context_destroy(r.context);
  return TC_OK;
}

TC_TEST(libraries_of_plugins_are_part_of_the_key) {
  static const char manifest[] = "name = \"beside\"\nfile = \"libbeside.so\"\nlibraries = [\"libmaths.so\"]\n"
                                 "abi = \"1.0\"\ncapabilities = [\"calls\"]\ndevices = [\"none\"]\n";
  uint64_t seed = tc_test_seed();
  folder cache = make_folder(), plugins = make_folder();
  tc_sv backend = {0};
  TC_TRY(backend_folder(arena, &backend));
  tc_sv path = tc_sv_printf(arena, TC_SV_FMT ":%s", TC_SV_ARG(backend), plugins.path);
  put_file(&plugins, "beside.tc-plugin.toml", manifest);
  for (int32_t build = 0; build < 2; build++) {
    put_file(&plugins, "libmaths.so", build ? "another build" : "a build");
    for (int32_t round = 0; round < 2; round++) {
      ran r;
      TC_TRY(run_once(&r, program, cache.path, "plugins.path", path.data, seed));
      assert_int_equal(was_read(&r), round);
      done(&r);
    }
  }
  remove_folder(&cache);
  remove_folder(&plugins);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_second_process_makes_no_plan),
      cmocka_unit_test(kept_plans_are_recorded),
      cmocka_unit_test(damaged_entries_are_made_anew),
      cmocka_unit_test(libraries_of_plugins_are_part_of_the_key),
  };
  return TC_RUN(tests);
}
