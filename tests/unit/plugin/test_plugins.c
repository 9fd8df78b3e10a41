// The loader on real shared objects: one that is right, and one for each way of being wrong. They are built from
// samples/sample.c into build/tests/plugins/FAULT.
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/plugin/plugin.h"
#include "tests/unit/unit.h"

#define PLUGINS TC_BINARY_DIR "/tests/plugins/"

static tc_sv config_value(void *self, tc_sv section, tc_sv key) {
  (void)self;
  return tc_sv_is(section, "sample") && tc_sv_is(key, "devices") ? TC_SV("3") : TC_SV("");
}

static tc_status open_folders(tc_arena *arena, const char *const *folders, int32_t n, tc_plugins_options *o,
                              tc_plugins **out) {
  tc_sv list[4];
  assert_true(n <= 4);
  for (int32_t i = 0; i < n; i++) list[i] = tc_sv_of(folders[i]);
  o->allocator = tc_arena_allocator(arena);
  o->folders = list;
  o->n_folders = n;
  return tc_plugins_create(o, out);
}

static tc_status open_fault(tc_arena *arena, const char *fault, tc_plugins **out) {
  tc_plugins_options o = {.config = config_value};
  const char *folder = tc_sv_printf(arena, PLUGINS "%s", fault).data;
  return open_folders(arena, &folder, 1, &o, out);
}

// ---- what is right ----
TC_TEST_TORTURED(loads_what_is_asked_for) {
  tc_plugins *ps;
  TC_TRY(open_fault(arena, "none", &ps));
  tc_plugin *list, *p = NULL;
  int32_t n;
  tc_status s = tc_plugins_list(ps, arena, &list, &n);
  if (s != TC_OK) goto done;
  assert_int_equal(n, 1);
  assert_int_equal(list[0].state, TC_PLUGIN_AVAILABLE); // nothing has run yet
  assert_int_equal(list[0].capabilities, TC_CAP_DEVICE | TC_CAP_CODEGEN | TC_CAP_CALLS | TC_CAP_OPS);
  s = tc_plugins_find_device(ps, TC_SV("sample"), &p);
  if (s != TC_OK) goto done;
  assert_sv(p->name, "sample");
  assert_sv(p->version, "7.8");
  assert_sv(p->build_id, "b1");
  assert_sv(p->vendor, "tests");
  assert_int_equal(p->state, TC_PLUGIN_LOADED);
  assert_int_equal(p->n_calls, 1);
  assert_sv(p->calls[0]->name, "sample library");
  assert_int_equal(p->calls[0]->thread_safe, 1);
  assert_int_equal(p->n_ops, 2);
  assert_string_equal(p->ops[1].schema, "sample::two(Tensor x) -> Tensor");
  tc_plugin *again;
  s = tc_plugins_find_op(ps, TC_SV("sample::two"), &again);
  if (s != TC_OK) goto done;
  assert_ptr_equal(again, p);
done:
  tc_plugins_destroy(ps);
  return s;
}

static void *report_failure(void *arg) {
  tc_plugin *p = arg;
  tc_device_ *d;
  int32_t code = p->device->open(p->host, 5, &d);
  assert_error(tc_plugin_status(p, code, "while %s %d", "opening", 5), TC_STATUS_OUT_OF_RANGE, "no device 5, only 3");
  return NULL;
}

TC_TEST(works_through_the_host) {
  tc_plugins *ps;
  tc_plugin *p;
  assert_ok(open_fault(arena, "none", &ps));
  assert_ok(tc_plugins_find_device(ps, TC_SV("sample"), &p));
  tc_device_ *d;
  int32_t n;
  assert_int_equal(p->device->enumerate(p->host, &n), TC_STATUS_OK);
  assert_int_equal(n, 3); // from the configuration
  int32_t code = p->device->open(p->host, 9, &d);
  pthread_t other;
  assert_int_equal(pthread_create(&other, NULL, report_failure, p), 0);
  pthread_join(other, NULL);
  // The other thread's failure has not touched this thread's.
  assert_error(tc_plugin_status(p, code, "while opening %d", 9), TC_STATUS_OUT_OF_RANGE,
               "plugin 'sample': there is no device 9, only 3");
  assert_ok(tc_plugin_status(p, p->device->open(p->host, 1, &d), NULL));
  assert_error(tc_plugin_status(p, p->device->synchronize(d, 1), NULL), TC_STATUS_DEVICE, "it gives no detail");

  tc_device_props props = {.struct_size = offsetof(tc_device_props, largest_alloc)};
  props.cores = -5;
  assert_int_equal(p->device->properties(d, &props), TC_STATUS_OK);
  assert_string_equal(props.name, "sample 1");
  assert_int_equal(props.cores, -5); // behind what was asked for
  tc_handle m;
  assert_int_equal(p->device->alloc(d, 1000, &m), TC_STATUS_OK);
  assert_int_equal(p->device->fill(d, 1, m, 10, 7, 900), TC_STATUS_OK);
  uint8_t got[1000];
  assert_int_equal(p->device->copy_out(d, 1, got, m, 0, 1000), TC_STATUS_OK);
  for (int i = 0; i < 1000; i++) assert_int_equal(got[i], i >= 10 && i < 910 ? 7 : 0);
  p->device->free(d, m);
  p->device->close(d);

  int64_t cost;
  tc_call_node node = {.struct_size = sizeof node};
  assert_int_equal(p->calls[0]->supports(p->host, NULL, &node, &cost), TC_STATUS_OK);
  assert_int_equal(cost, -1);
  assert_sv(tc_plugin_take_diag(p, arena), "sizes are odd");
  assert_sv(tc_plugin_take_diag(p, arena), "");
  tc_plugins_destroy(ps);
  return TC_OK;
}

// Kernels as the test makes them: the plugin's calls must arrive here.
static tc_sv fake_name(const tc_kernel *k) { return *(const int *)(const void *)k == 1 ? TC_SV("one") : TC_SV("two"); }
static int32_t fake_lanes(const tc_kernel *k) { return 10 * *(const int *)(const void *)k; }
static int32_t append(void *self, const void *data, uint64_t size) {
  tc_sb_put(self, (tc_sv){data, size});
  return TC_STATUS_OK;
}

TC_TEST(reads_kernels_through_the_tables) {
  static const tc_kernel_read_table read = {
      .struct_size = sizeof read, .tc_k_name = fake_name, .tc_k_lanes = fake_lanes};
  // A host that is older than the SDK: its table ends before tc_k_lanes.
  static const tc_kernel_read_table shorter = {
      .struct_size = offsetof(tc_kernel_read_table, tc_k_lanes), .tc_k_name = fake_name, .tc_k_lanes = fake_lanes};
  const char *folder = PLUGINS "none";
  const struct {
    const tc_kernel_read_table *table;
    const char *text;
  } cases[] = {{&read, "one/10;two/20;"}, {&shorter, "one/0;two/0;"}, {NULL, "/0;/0;"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tc_plugins_options o = {.tables = {.kernel_read = cases[i].table}};
    tc_plugins *ps;
    tc_plugin *p;
    assert_ok(open_folders(arena, &folder, 1, &o, &ps));
    assert_ok(tc_plugins_find_codegen(ps, TC_SV("sample"), &p));
    int numbers[2] = {1, 2};
    const tc_kernel *kernels[] = {(const tc_kernel *)(void *)&numbers[0], (const tc_kernel *)(void *)&numbers[1]};
    tc_sb sb = tc_sb_make(arena);
    tc_sink sink = {&sb, append};
    assert_int_equal(p->codegen->compile(p->host, NULL, kernels, 2, 2, &sink, NULL), TC_STATUS_OK);
    assert_string_equal(sb.text, cases[i].text);
    tc_plugins_destroy(ps);
  }
  return TC_OK;
}

TC_TEST(takes_longer_structs_of_a_later_minor) {
  tc_plugins *ps;
  tc_plugin *p;
  assert_ok(open_fault(arena, "long", &ps));
  assert_ok(tc_plugins_find_device(ps, TC_SV("sample"), &p));
  assert_int_equal(p->n_ops, 2);
  assert_string_equal(p->ops[1].schema, "sample::two(Tensor x) -> Tensor"); // rows lie further apart
  assert_int_equal(p->ops[1].struct_size, sizeof(tc_op_def));
  tc_plugins_destroy(ps);
  return TC_OK;
}

TC_TEST(fills_missing_optional_slots) {
  tc_plugins *ps;
  tc_plugin *p;
  assert_ok(open_fault(arena, "table", &ps));
  assert_ok(tc_plugins_find_device(ps, TC_SV("sample"), &p));
  tc_handle m;
  assert_int_equal(p->device->struct_size, sizeof(tc_device_table));
  assert_int_equal(p->device->module_load(NULL, "", 0, &m), TC_STATUS_UNIMPLEMENTED);
  assert_int_equal(p->device->launch(NULL, 0, NULL), TC_STATUS_UNIMPLEMENTED);
  p->device->module_unload(NULL, 0);
  tc_plugins_destroy(ps);
  return TC_OK;
}

TC_TEST(skips_unknown_extensions) {
  tc_plugins *ps;
  tc_plugin *p;
  assert_ok(open_fault(arena, "none", &ps));
  assert_ok(tc_plugins_find_device(ps, TC_SV("sample"), &p));
  assert_null(tc_plugin_extension(p, 7, 0));
  tc_plugins_destroy(ps);
  assert_ok(open_fault(arena, "extends", &ps));
  assert_ok(tc_plugins_find_device(ps, TC_SV("sample"), &p));
  const tc_extension *x = tc_plugin_extension(p, 7, sizeof *x + 16);
  assert_non_null(x);
  assert_int_equal(x->struct_size, sizeof *x + 16);
  assert_null(tc_plugin_extension(p, 7, sizeof *x + 24)); // shorter than asked for
  assert_null(tc_plugin_extension(p, 8, 0));              // without the bit it is another
  assert_non_null(tc_plugin_extension(p, TC_EXT_EXPERIMENTAL | 8, 0));
  assert_null(tc_plugin_extension(p, TC_EXT_EXPERIMENTAL | 9, 0)); // of other headers
  tc_plugins_destroy(ps);
  return TC_OK;
}

// Other kernel headers of a version that promises them: opcodes may have come since.
TC_TEST(loads_kernels_of_other_headers) {
  tc_plugins *ps;
  tc_plugin *p;
  assert_ok(open_fault(arena, "later", &ps));
  assert_ok(tc_plugins_find_device(ps, TC_SV("sample"), &p));
  assert_non_null(p->codegen);
  tc_plugins_destroy(ps);
  return TC_OK;
}

// A shared object of the day when the interface was locked.
TC_TEST(loads_what_was_built_for_1_0) {
#if !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  skip(); // it is of another kind than this program
#endif
  tc_plugins *ps;
  tc_plugin *p;
  tc_device_ *d;
  tc_handle m;
  int64_t cost = 0;
  assert_ok(open_fault(arena, "kept_sample_1_0", &ps));
  assert_ok(tc_plugins_find_device(ps, TC_SV("sample"), &p));
  assert_sv(p->version, "7.8");
  assert_int_equal(p->n_calls, 1);
  assert_int_equal(p->n_ops, 2);
  assert_string_equal(p->ops[1].schema, "sample::two(Tensor x) -> Tensor");
  assert_null(p->extensions);
  assert_ok(tc_plugin_status(p, p->device->open(p->host, 0, &d), NULL));
  assert_int_equal(p->device->alloc(d, 100, &m), TC_STATUS_OK);
  assert_int_equal(p->device->fill(d, 1, m, 0, 9, 100), TC_STATUS_OK);
  assert_int_equal(*(uint8_t *)(uintptr_t)(m + 99), 9);
  p->device->free(d, m);
  p->device->close(d);
  tc_call_node node = {.struct_size = sizeof node};
  assert_int_equal(p->calls[0]->supports(p->host, NULL, &node, &cost), TC_STATUS_OK);
  assert_int_equal(cost, -1);
  tc_plugins_destroy(ps);
  return TC_OK;
}

// ---- what is wrong ----
static void assert_refused(tc_arena *arena, const char *fault, const char *reason) {
  tc_plugins *ps;
  tc_plugin *p, *list;
  int32_t n;
  assert_ok(open_fault(arena, fault, &ps));
  assert_error(tc_plugins_find_device(ps, TC_SV("sample"), &p), TC_STATUS_NOT_FOUND, reason);
  assert_ok(tc_plugins_list(ps, arena, &list, &n));
  assert_int_equal(list[0].state, TC_PLUGIN_REFUSED);
  if (!strstr(list[0].reason.data, reason)) fail_msg("%s: %s", fault, list[0].reason.data);
  tc_plugins_destroy(ps);
}

#define TEXT(x) #x
#define VERSION(major, minor) TEXT(major) "." TEXT(minor)
#define THIS_PROGRAM "this program " VERSION(TC_ABI_MAJOR, TC_ABI_MINOR)

TC_TEST(refuses_with_the_reason) {
  static const char *const cases[][2] = {
      {"old", "version 0.0 of the plugin interface, " THIS_PROGRAM ": the plugin is too old"},
      {"new", "version 1.999 of the plugin interface, " THIS_PROGRAM ": the program is too old"},
      {"short", "the description has 384 bytes, version 1.0 has 440"},
      {"slot", "tc_device_table.copy_in is missing; the capability 'device' needs it"},
      {"template", "tc_template_table.emit is missing; the capability 'templates' needs it"},
      {"destroy", "tc_call_table.destroy is missing; the capability 'calls' needs it"},
      {"delegate", "the capability 'delegate' has no extension TC_EXT_DELEGATE with a table"},
      {"unsized", "tc_device_table.struct_size is 0; it is the table's size, sizeof(tc_device_table)"},
      {"cut",
       "tc_device_table.module_load is missing (struct_size, 112, ends before it); the capabilities 'device|codegen' "
       "together need it"},
      {"unnamed", "tc_plugin_query gave no name"},
      {"claim", "tc_delegate_table.compile is missing; the capability 'delegate' needs it"},
      {"ring", "more than 64 extensions, or their list is a ring"},
      {"hash",
       "the capability 'codegen' of a plugin for version 1.4 of the plugin interface needs the very kernel headers"},
      {"extra", "exports the symbol 'sample_extra'"},
      {"refuses", "the plugin refuses: not on this machine"},
      {"overrun", "wrote behind the description's end"},
      {"name", "the plugin calls itself 'other', its manifest says 'sample'"},
      {"promise", "the manifest promises 'calls', the plugin does not offer it"},
      {"code", "the driver is missing"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) assert_refused(arena, cases[i][0], cases[i][1]);
  return TC_OK;
}

// ---- files, folders, manifests made here ----
static const char *make_folder(tc_arena *arena) {
  char *path = (char *)(uintptr_t)tc_sv_printf(arena, "%s/tests/tmp-plugins-XXXXXX", TC_BINARY_DIR).data;
  assert_non_null(mkdtemp(path));
  assert_int_equal(chmod(path, 0755), 0);
  return path;
}

static void remove_folder(tc_arena *arena, const char *path) {
  tc_sv *names;
  int32_t n;
  assert_ok(tc_dir_list(arena, path, &names, &n));
  for (int32_t i = 0; i < n; i++) unlink(tc_path_join(arena, tc_sv_of(path), names[i]).data);
  assert_int_equal(rmdir(path), 0);
}

static const char *put(tc_arena *arena, const char *folder, const char *name, tc_sv data, mode_t mode) {
  const char *path = tc_sv_printf(arena, "%s/%s", folder, name).data;
  assert_ok(tc_file_write(path, data.data, data.size));
  assert_int_equal(chmod(path, mode), 0);
  return path;
}

static void put_plugin(tc_arena *arena, const char *folder, const char *file, mode_t mode) {
  tc_sv data;
  assert_ok(tc_file_read(arena, PLUGINS "none/libsample_none.so", &data));
  put(arena, folder, file, data, mode);
}

static tc_sv manifest(tc_arena *arena, const char *name, const char *file, const char *rest) {
  return tc_sv_printf(
      arena, "name = \"%s\"\nfile = \"%s\"\nabi = \"1.0\"\ncapabilities = [\"device\"]\ndevices = [\"sample\"]\n%s\n",
      name, file, rest);
}

// The one entry of a folder is refused for this reason.
static void assert_folder_refused(tc_arena *arena, const char *folder, const char *reason) {
  tc_plugins_options o = {0};
  tc_plugins *ps;
  tc_plugin *list;
  int32_t n;
  assert_ok(open_folders(arena, &folder, 1, &o, &ps));
  assert_ok(tc_plugins_list(ps, arena, &list, &n));
  assert_int_equal(n, 1);
  if (list[0].state == TC_PLUGIN_AVAILABLE) {
    tc_plugin *p;
    assert_error(tc_plugins_find_device(ps, TC_SV("sample"), &p), TC_STATUS_NOT_FOUND, reason);
    assert_ok(tc_plugins_list(ps, arena, &list, &n));
  }
  assert_int_equal(list[0].state, TC_PLUGIN_REFUSED);
  if (!strstr(list[0].reason.data, reason)) fail_msg("'%s', expected '%s'", list[0].reason.data, reason);
  tc_plugins_destroy(ps);
}

TC_TEST(refuses_what_others_may_write_to) {
  const char *folder = make_folder(arena);
  tc_sv text = manifest(arena, "sample", "libs.so", "");
  put_plugin(arena, folder, "libs.so", 0775);
  put(arena, folder, "s.tc-plugin.toml", text, 0644);
  assert_folder_refused(arena, folder, "can be written by its group (mode 0775)");
  put_plugin(arena, folder, "libs.so", 0757);
  assert_folder_refused(arena, folder, "can be written by everyone");
  put_plugin(arena, folder, "libs.so", 0755);
  put(arena, folder, "s.tc-plugin.toml", text, 0664);
  assert_folder_refused(arena, folder, "s.tc-plugin.toml' can be written by its group");
  put(arena, folder, "s.tc-plugin.toml", text, 0644);
  assert_int_equal(chmod(folder, 0777), 0);
  assert_folder_refused(arena, folder, "can be written by everyone (mode 0777)");
  assert_int_equal(chmod(folder, 0755), 0);
  // A link to a file elsewhere is judged by the file.
  unlink(tc_sv_printf(arena, "%s/libs.so", folder).data);
  const char *elsewhere = make_folder(arena);
  put_plugin(arena, elsewhere, "libs.so", 0777);
  assert_int_equal(
      symlink(tc_sv_printf(arena, "%s/libs.so", elsewhere).data, tc_sv_printf(arena, "%s/libs.so", folder).data), 0);
  assert_folder_refused(arena, folder, "can be written by everyone");
  remove_folder(arena, elsewhere);
  assert_folder_refused(arena, folder, "cannot open");
  remove_folder(arena, folder);
  return TC_OK;
}

TC_TEST(refuses_files_that_are_no_plugins) {
  const char *folder = make_folder(arena);
  put_plugin(arena, folder, "libs.so", 0644);
  assert_folder_refused(arena, folder, "no manifest");
  put(arena, folder, "s.tc-plugin.toml", manifest(arena, "sample", "libs.so", ""), 0644);
  put(arena, folder, "libs.so", TC_SV("not an object"), 0644);
  assert_folder_refused(arena, folder, "is not an ELF file");
  tc_sv data;
  assert_ok(tc_file_read(arena, PLUGINS "none/libsample_none.so", &data));
  // Cut anywhere, or with a byte changed in the headers: an answer, never a crash.
  uint64_t seed = tc_test_seed();
  for (int i = 0; i < 60; i++) {
    char *bytes = tc_arena_copy(arena, data.data, data.size);
    size_t size = i < 20 ? tc_test_random(&seed) % data.size : data.size;
    if (i >= 20) bytes[tc_test_random(&seed) % 64] ^= (char)(1 + tc_test_random(&seed) % 255);
    const char *path = put(arena, folder, "libs.so", (tc_sv){bytes, size}, 0644);
    extern tc_status tc_elf_check(const char *path);
    tc_status s = tc_elf_check(path);
    if (i < 20) assert_true(s != TC_OK);
    tc_status_free(s);
  }
  remove_folder(arena, folder);
  return TC_OK;
}

TC_TEST(refuses_bad_manifests) {
  const char *folder = make_folder(arena);
  put_plugin(arena, folder, "libs.so", 0644);
  static const char *const good =
      "name = \"sample\"\nfile = \"libs.so\"\nabi = \"1.0\"\ncapabilities = [\"device\"]\ndevices = [\"sample\"]\n";
  static const char *const cases[][2] = {
      {"name = 3\n", "s.tc-plugin.toml:1: a text"},
      {"name = \"Sample One\"\n", "a name of at most 64"},
      {"name = \"s\"\nfile = \"../libs.so\"\n", "the plain name of a file"},
      {"name = \"s\"\nlibraries = [\"b.so\", \"../a.so\"]\n", "the plain name of a file"},
      {"name = \"s\"\nfile = \"libs.so\"\n", "the key 'abi' is missing"},
      {"name = \"s\"\nabi = \"one\"\n", "'abi' is MAJOR.MINOR"},
      {"name = \"s\"\nabi = 1.2\n", "s.tc-plugin.toml:2: a text in quotes"},
      {"name = \"s\"\nabi = \"1.3-2\"\n", "'abi' is MAJOR.MINOR"},
      {"name = \"s\"\ndevise = [\"x\"]\n", "s.tc-plugin.toml:2: unknown key 'devise'; did you mean 'devices'?"},
      {"capabilities = [\"devices\"]\n", "capabilities are device, codegen"},
      {"priority = 1.5\n", "'priority' is an integer"},
      {"name = \"s\"\nfile = \"libs.so\"\nabi = \"1.0\"\ncapabilities = [\"device\"]\n",
       "the capability 'device' needs the key 'devices', the kinds of device"},
      {"name = \"s\"\nfile = \"libs.so\"\nabi = \"1.0\"\ncapabilities = [\"ops\"]\n",
       "the capability 'ops' needs the key 'ops', globs of its ops' names"},
      {"name = \"s\"\nfile = \"libs.so\"\nabi = \"1.0\"\ncapabilities = []\n", "offers nothing"},
      {"calls = \"aten::mm\"\n", "a list of at most 4096 texts"},
      {"name = \"s\"\nfile = \"libs.so\"\nabi = \"1.0\"\ncapabilities = [\"ops\"]\nops = [\"x::*\"]\ncalls = "
       "[\"x::y\"]\n",
       "'calls' needs the capability 'calls'"},
      {"name = \"s\"\nfile = \"libs.so\"\nabi = \"2.0\"\ncapabilities = [\"calls\"]\n", "needs version 2.0"},
      {"name = \"s\"\nfile = \"libs.so\"\nabi = \"1.1000-1001\"\ncapabilities = [\"calls\"]\n", "needs version 1.1000"},
      {"name = \"s\nfile", "s.tc-plugin.toml:1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    put(arena, folder, "s.tc-plugin.toml", tc_sv_of(cases[i][0]), 0644);
    tc_plugins_options o = {0};
    tc_plugins *ps;
    tc_plugin *list;
    int32_t n;
    assert_ok(open_folders(arena, &folder, 1, &o, &ps));
    assert_ok(tc_plugins_list(ps, arena, &list, &n));
    assert_int_equal(list[0].state, TC_PLUGIN_REFUSED);
    if (!strstr(list[0].reason.data, cases[i][1])) fail_msg("'%s', expected '%s'", list[0].reason.data, cases[i][1]);
    tc_plugins_destroy(ps);
  }
  put(arena, folder, "s.tc-plugin.toml", tc_sv_of(good), 0644);
  tc_plugins_options o = {0};
  tc_plugins *ps;
  tc_plugin *p;
  assert_ok(open_folders(arena, &folder, 1, &o, &ps));
  assert_ok(tc_plugins_find_device(ps, TC_SV("sample"), &p));
  tc_plugins_destroy(ps);
  o = (tc_plugins_options){.disabled = TC_SV("other, sample")};
  assert_ok(open_folders(arena, &folder, 1, &o, &ps));
  assert_error(tc_plugins_find_device(ps, TC_SV("sample"), &p), TC_STATUS_NOT_FOUND, "disabled by plugins.disabled");
  tc_plugins_destroy(ps);
  remove_folder(arena, folder);
  return TC_OK;
}

// What a manifest says of libraries: the ops that they are asked about, and for whose devices.
TC_TEST(knows_what_libraries_are_asked) {
  const char *folder = make_folder(arena);
  put_plugin(arena, folder, "libs.so", 0644);
  static const char *const head = "name = \"s\"\nfile = \"libs.so\"\nabi = \"1.0\"\ncapabilities = [\"calls\"]\n";
  static const struct {
    const char *rest;
    bool mm, conv1d, sample, other;
  } cases[] = {{"", true, true, true, true},
               {"calls = []\n", true, true, true, true},
               {"devices = [\"sample\"]\ncalls = [\"aten::mm\"]\n", true, false, true, false},
               {"devices = [\"a\", \"other\"]\ncalls = [\"aten::b\", \"aten::conv*\"]\n", false, true, false, true}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    put(arena, folder, "s.tc-plugin.toml", tc_sv_printf(arena, "%s%s", head, cases[i].rest), 0644);
    tc_plugins_options o = {0};
    tc_plugins *ps;
    tc_plugin *list;
    int32_t n;
    assert_ok(open_folders(arena, &folder, 1, &o, &ps));
    assert_ok(tc_plugins_list(ps, arena, &list, &n));
    assert_int_equal(n, 1);
    assert_int_equal(tc_plugin_calls(&list[0], TC_SV("aten::mm")), cases[i].mm);
    assert_int_equal(tc_plugin_calls(&list[0], TC_SV("aten::conv1d")), cases[i].conv1d);
    assert_int_equal(tc_plugin_serves(&list[0], TC_SV("sample")), cases[i].sample);
    assert_int_equal(tc_plugin_serves(&list[0], TC_SV("other")), cases[i].other);
    tc_plugins_destroy(ps);
  }
  tc_plugin no_libraries = {.capabilities = TC_CAP_DEVICE};
  assert_false(tc_plugin_calls(&no_libraries, TC_SV("aten::mm")));
  remove_folder(arena, folder);
  return TC_OK;
}

// ---- choosing ----
TC_TEST(chooses_by_preference_then_priority) {
  const char *folder = make_folder(arena);
  // The files call themselves 'sample', so those under other names are refused once they are opened.
  put_plugin(arena, folder, "liba.so", 0644);
  put_plugin(arena, folder, "libs.so", 0644);
  put(arena, folder, "a.tc-plugin.toml", manifest(arena, "a", "liba.so", "priority = 9"), 0644);
  put(arena, folder, "s.tc-plugin.toml", manifest(arena, "sample", "libs.so", "priority = 1"), 0644);
  tc_plugins_options o = {0};
  tc_plugins *ps;
  tc_plugin *p, **all, *list;
  int32_t n;
  assert_ok(open_folders(arena, &folder, 1, &o, &ps));
  assert_ok(tc_plugins_find_device(ps, TC_SV("sample"), &p));
  assert_sv(p->name, "sample"); // 'a' comes first, and is refused
  assert_ok(tc_plugins_list(ps, arena, &list, &n));
  assert_int_equal(n, 2);
  assert_int_equal(list[0].state, TC_PLUGIN_REFUSED);
  tc_sv *kinds;
  assert_ok(tc_plugins_device_kinds(ps, arena, &kinds, &n));
  assert_int_equal(n, 1);
  assert_sv(kinds[0], "sample");
  assert_error(tc_plugins_find_device(ps, TC_SV("none"), &p), TC_STATUS_NOT_FOUND,
               "no plugin drives devices of kind 'none'; plugins are there for: sample");
  assert_error(tc_plugins_find_codegen(ps, TC_SV("sample"), &p), TC_STATUS_NOT_FOUND, "generates code");
  assert_error(tc_plugins_find_op(ps, TC_SV("sample::one"), &p), TC_STATUS_NOT_FOUND, "sample::one");
  tc_plugins_destroy(ps);

  o = (tc_plugins_options){.prefer = TC_SV("b , sample")};
  assert_ok(open_folders(arena, &folder, 1, &o, &ps));
  assert_ok(tc_plugins_find_device(ps, TC_SV("sample"), &p));
  assert_ok(tc_plugins_list(ps, arena, &list, &n));
  assert_int_equal(list[0].state, TC_PLUGIN_AVAILABLE); // never opened
  assert_ok(tc_plugins_find_all(ps, arena, TC_CAP_DEVICE, TC_SV(""), &all, &n));
  assert_int_equal(n, 1);
  assert_ptr_equal(all[0], p);
  tc_plugins_destroy(ps);
  remove_folder(arena, folder);
  return TC_OK;
}

// Two that load: 'sample' and 'other', whose file is the one that calls itself so.
TC_TEST(chooses_between_equals_only_if_told) {
  const char *folder = make_folder(arena);
  tc_sv other;
  assert_ok(tc_file_read(arena, PLUGINS "name/libsample_name.so", &other));
  put(arena, folder, "libother.so", other, 0644);
  put_plugin(arena, folder, "libs.so", 0644);
  tc_plugins *ps;
  tc_plugin *p, **all, *list;
  int32_t n;
  static const struct {
    int priority; // of 'sample'; that of 'other', which comes first, is 5
    const char *prefer, *found;
  } cases[] = {{4, "", "other"}, {6, "", "sample"}, {4, "sample", "sample"}, {6, "other", "other"}, {5, "", NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    put(arena, folder, "a.tc-plugin.toml", manifest(arena, "other", "libother.so", "priority = 5"), 0644);
    const char *rest = tc_sv_printf(arena, "priority = %d", cases[i].priority).data;
    put(arena, folder, "s.tc-plugin.toml", manifest(arena, "sample", "libs.so", rest), 0644);
    tc_plugins_options o = {.prefer = tc_sv_of(cases[i].prefer)};
    assert_ok(open_folders(arena, &folder, 1, &o, &ps));
    if (!cases[i].found) {
      assert_error(tc_plugins_find_device(ps, TC_SV("sample"), &p), TC_STATUS_PLUGIN,
                   "'other' and 'sample' offer the same (drives devices of kind 'sample') with equal priority");
    } else {
      assert_ok(tc_plugins_find_device(ps, TC_SV("sample"), &p));
      assert_sv(p->name, cases[i].found);
      assert_ok(tc_plugins_list(ps, arena, &list, &n));
      assert_int_equal(list[0].state + list[1].state, TC_PLUGIN_LOADED); // the other one is not opened
    }
    assert_ok(tc_plugins_find_all(ps, arena, TC_CAP_DEVICE, TC_SV("sample"), &all, &n));
    assert_int_equal(n, 2);
    if (cases[i].found) assert_sv(all[0]->name, cases[i].found);
    tc_plugins_destroy(ps);
  }
  remove_folder(arena, folder);
  return TC_OK;
}

TC_TEST(refuses_a_second_plugin_of_one_name) {
  const char *folders[] = {PLUGINS "none", PLUGINS "long"};
  tc_plugins_options o = {0};
  tc_plugins *ps;
  tc_plugin *list;
  int32_t n;
  assert_ok(open_folders(arena, folders, 2, &o, &ps));
  assert_ok(tc_plugins_list(ps, arena, &list, &n));
  assert_int_equal(n, 2);
  assert_int_equal(list[1].state, TC_PLUGIN_REFUSED);
  assert_non_null(strstr(list[1].reason.data, "another plugin has this name"));
  tc_plugins_destroy(ps);
  return TC_OK;
}

TC_TEST(takes_folders_and_files_as_given) {
  tc_plugins_options o = {0};
  tc_plugins *ps;
  const char *missing = PLUGINS "no-such-folder", *relative = "plugins";
  assert_error(open_folders(arena, &missing, 1, &o, &ps), TC_STATUS_NOT_FOUND, "no-such-folder");
  assert_error(open_folders(arena, &relative, 1, &o, &ps), TC_STATUS_INVALID_ARGUMENT, "not an absolute path");
  // By file: its manifest lies beside it.
  const char *folder = make_folder(arena);
  assert_ok(open_folders(arena, &folder, 1, &o, &ps));
  tc_plugin *p, *again;
  assert_ok(tc_plugins_add_file(ps, PLUGINS "none/libsample_none.so", &p));
  assert_int_equal(p->state, TC_PLUGIN_AVAILABLE);
  assert_ok(tc_plugins_load(ps, p));
  assert_ok(tc_plugins_add_file(ps, PLUGINS "none/../none/libsample_none.so", &again));
  assert_ptr_equal(p, again);
  put_plugin(arena, folder, "libx.so", 0644);
  assert_error(tc_plugins_add_file(ps, tc_sv_printf(arena, "%s/libx.so", folder).data, &p), TC_STATUS_NOT_FOUND,
               "no manifest");
  tc_plugins_destroy(ps);
  remove_folder(arena, folder);
  // Without folders the program's own are looked through, as far as they exist.
  assert_ok(open_folders(arena, NULL, 0, &o, &ps));
  tc_plugins_destroy(ps);
  return TC_OK;
}

// A file whose manifest is wrong: what is wrong is told, whether or not its folder was looked through before.
TC_TEST(says_what_is_wrong_with_a_files_manifest) {
  static const struct {
    const char *name, *rest, *error, *refusal; // one of the two
  } cases[] = {
      {"\"stranger\"", "prioritty = 3", "unknown key 'prioritty'; did you mean 'priority'?", NULL},
      {"", "", "s.tc-plugin.toml:1", NULL},
      {"\"stranger\"", "", NULL, "needs version 1.999 of the plugin interface"},
  };
  const char *folder = make_folder(arena);
  const char *file = put(arena, folder, "libs.so", TC_SV(""), 0644);
  put_plugin(arena, folder, "libs.so", 0644);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tc_sv text = tc_sv_printf(arena,
                              "name = %s\nfile = \"libs.so\"\nabi = \"%s\"\ncapabilities = [\"device\"]\n"
                              "devices = [\"sample\"]\n%s\n",
                              cases[i].name, cases[i].refusal ? "1.999" : "1.0", cases[i].rest);
    put(arena, folder, "s.tc-plugin.toml", text, 0644);
    for (int32_t scanned = 0; scanned < 2; scanned++) {
      const char *elsewhere = PLUGINS "long";
      tc_plugins_options o = {0};
      tc_plugins *ps;
      tc_plugin *p = NULL;
      assert_ok(open_folders(arena, scanned ? &folder : &elsewhere, 1, &o, &ps));
      tc_status s = tc_plugins_add_file(ps, file, &p);
      if (s == TC_OK) s = tc_error(TC_STATUS_PLUGIN, TC_SV_FMT, TC_SV_ARG(p->reason));
      const char *expected = cases[i].error ? cases[i].error : cases[i].refusal;
      if (!strstr(tc_status_text(s), expected)) fail_msg("'%s', expected '%s'", tc_status_text(s), expected);
      tc_status_free(s);
      tc_plugins_destroy(ps);
    }
  }
  remove_folder(arena, folder);
  return TC_OK;
}

// Whichever allocation fails, lack of memory is what is told: a manifest that is longer than an arena's block takes one
// of its own while it is read.
TC_TEST(tells_lack_of_memory_while_a_files_manifest_is_read) {
  const char *folder = make_folder(arena);
  put_plugin(arena, folder, "libs.so", 0644);
  const char *comment = tc_sv_printf(arena, "# %300000d", 0).data;
  put(arena, folder, "s.tc-plugin.toml", manifest(arena, "s", "libs.so", comment), 0644);
  const char *file = tc_sv_printf(arena, "%s/libs.so", folder).data;
  tc_sv elsewhere = TC_SV(PLUGINS "long");
  bool failed = true;
  for (int64_t at = 1; failed; at++) {
    tc_fault_allocator f;
    tc_plugins *ps;
    tc_plugin *p;
    tc_fault_allocator_init(&f, tc_system_allocator());
    f.fail_at = at;
    tc_plugins_options o = {.allocator = &f.iface, .folders = &elsewhere, .n_folders = 1};
    tc_status s = tc_plugins_create(&o, &ps);
    if (s == TC_OK) {
      s = tc_plugins_add_file(ps, file, &p);
      tc_plugins_destroy(ps);
    }
    failed = s != TC_OK;
    assert_true(failed || at > f.count);
    if (failed && tc_status_code(s) != TC_STATUS_OUT_OF_MEMORY)
      fail_msg("with allocation %lld failing: %s", (long long)at, tc_status_text(s));
    assert_int_equal(f.live, 0);
    tc_status_free(s);
  }
  remove_folder(arena, folder);
  return TC_OK;
}

// Folders that are given stand in the place of the program's own, and a plugin that is missing may be there.
TC_TEST(says_which_folder_was_not_looked_in) {
  tc_plugins_options o = {0};
  tc_plugins *ps;
  tc_plugin *p;
  const char *folder = make_folder(arena), *own = TC_BINARY_DIR "/plugins";
  assert_ok(open_folders(arena, &folder, 1, &o, &ps));
  assert_error(tc_plugins_find_device(ps, TC_SV("nothing"), &p), TC_STATUS_NOT_FOUND,
               tc_sv_printf(arena, "plugins.path stands in the place of '%s'", own).data);
  tc_plugins_destroy(ps);
  remove_folder(arena, folder);
  return TC_OK;
}

static void *find_sample(void *arg) {
  tc_plugin *p;
  assert_ok(tc_plugins_find_device(arg, TC_SV("sample"), &p));
  return p;
}

TC_TEST(finds_from_many_threads) {
  tc_plugins *ps;
  pthread_t threads[8];
  void *got[8];
  assert_ok(open_fault(arena, "none", &ps));
  for (int i = 0; i < 8; i++) assert_int_equal(pthread_create(&threads[i], NULL, find_sample, ps), 0);
  for (int i = 0; i < 8; i++) pthread_join(threads[i], &got[i]);
  for (int i = 1; i < 8; i++) assert_ptr_equal(got[i], got[0]);
  tc_plugins_destroy(ps);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loads_what_is_asked_for),
      cmocka_unit_test(works_through_the_host),
      cmocka_unit_test(reads_kernels_through_the_tables),
      cmocka_unit_test(takes_longer_structs_of_a_later_minor),
      cmocka_unit_test(skips_unknown_extensions),
      cmocka_unit_test(loads_kernels_of_other_headers),
      cmocka_unit_test(loads_what_was_built_for_1_0),
      cmocka_unit_test(fills_missing_optional_slots),
      cmocka_unit_test(refuses_with_the_reason),
      cmocka_unit_test(refuses_what_others_may_write_to),
      cmocka_unit_test(refuses_files_that_are_no_plugins),
      cmocka_unit_test(refuses_bad_manifests),
      cmocka_unit_test(knows_what_libraries_are_asked),
      cmocka_unit_test(chooses_by_preference_then_priority),
      cmocka_unit_test(chooses_between_equals_only_if_told),
      cmocka_unit_test(refuses_a_second_plugin_of_one_name),
      cmocka_unit_test(takes_folders_and_files_as_given),
      cmocka_unit_test(says_what_is_wrong_with_a_files_manifest),
      cmocka_unit_test(tells_lack_of_memory_while_a_files_manifest_is_read),
      cmocka_unit_test(says_which_folder_was_not_looked_in),
      cmocka_unit_test(finds_from_many_threads),
  };
  return TC_RUN(tests);
}
