// Options from every source: types, precedence, origins, modes, sections of plugins, and what bad input is told.
#include <sys/stat.h>
#include <unistd.h>

#include "core/config/config.h"
#include "tests/unit/unit.h"

static tc_config *make(tc_arena *arena) {
  tc_config *c;
  assert_ok(tc_config_create(tc_arena_allocator(arena), &c));
  return c;
}

static void read_text(tc_config *c, const char *text) {
  assert_ok(tc_config_read_text(c, TC_SV("my.toml"), tc_sv_of(text)));
}

TC_TEST_TORTURED(weaker_sources_give_way) {
  tc_config *c;
  TC_TRY(tc_config_create(tc_arena_allocator(arena), &c));
  assert_int_equal(tc_config_int(c, TC_OPT_ID_THREADS), 0);
  assert_sv(tc_config_origin(c, TC_OPT_ID_THREADS), "built-in");
  // In an order that is not that of precedence.
  static const char *const env[] = {
      "HOME=/", "TC_THREADS=3", "TC_FUSION_MAX_NODES=7", "TC_LOGS=fusion,guards", "TC_CACHE_DIR=", NULL};
  tc_status s = tc_config_set(c, TC_SV("threads"), TC_SV("4"), "--threads");
  if (s == TC_OK) s = tc_config_read_environment(c, env);
  if (s == TC_OK)
    s = tc_config_read_text(c, TC_SV("my.toml"),
                            TC_SV("threads = 2\nstrict = true\n\n[fusion]\nmax_nodes = 6\nfuse = 1\n"));
  if (tc_status_code(s) == TC_STATUS_INVALID_ARGUMENT) {
    assert_non_null(strstr(tc_status_text(s), "my.toml:6: unknown key 'fusion.fuse'"));
    tc_status_free(s);
    s = TC_OK;
  }
  if (s == TC_OK) {
    assert_int_equal(tc_config_int(c, TC_OPT_ID_THREADS), 4);
    assert_sv(tc_config_origin(c, TC_OPT_ID_THREADS), "command line --threads");
    assert_int_equal(tc_config_int(c, TC_OPT_ID_FUSION_MAX_NODES), 7);
    assert_sv(tc_config_origin(c, TC_OPT_ID_FUSION_MAX_NODES), "environment TC_FUSION_MAX_NODES");
    assert_true(tc_config_bool(c, TC_OPT_ID_STRICT));
    assert_sv(tc_config_origin(c, TC_OPT_ID_STRICT), "my.toml:2");
    assert_int_equal(tc_config_level(c, TC_OPT_ID_STRICT), TC_FROM_FILE);
    assert_sv(tc_config_text(c, TC_OPT_ID_LOGS), "fusion,guards");
    assert_int_equal(tc_config_level(c, TC_OPT_ID_CACHE_DIR), TC_FROM_BUILTIN); // an empty variable is unset
  }
  tc_config_destroy(c);
  return s;
}

TC_TEST(reads_every_type) {
  tc_config *c = make(arena);
  read_text(
      c, "cache.max_bytes = \"3M\"\nmemory.limit = 12\ndynamic = true\nprecision.complex_matmul = 3\nfallback = \"\"\n"
         "pass.skip = [\"cse\", \"fold\"]\nplugins.path = [\"/a b\", \"/c\"]\nseed = -9223372036854775808\n");
  assert_int_equal(tc_config_int(c, TC_OPT_ID_CACHE_MAX), 3 << 20);
  assert_int_equal(tc_config_int(c, TC_OPT_ID_MEMORY_LIMIT), 12);
  assert_int_equal(tc_config_choice(c, TC_OPT_ID_DYNAMIC), 1);
  assert_sv(tc_config_text(c, TC_OPT_ID_DYNAMIC), "true");
  assert_int_equal(tc_config_choice(c, TC_OPT_ID_PRECISION_COMPLEX), 2);
  assert_sv(tc_config_text(c, TC_OPT_ID_FALLBACK), "");
  assert_true(tc_config_int(c, TC_OPT_ID_SEED) == INT64_MIN);
  const tc_sv *list;
  assert_int_equal(tc_config_list(c, TC_OPT_ID_PASS_SKIP, &list), 2);
  assert_sv(list[1], "fold");
  assert_int_equal(tc_config_list(c, TC_OPT_ID_PLUGINS_PATH, &list), 2);
  assert_sv(list[0], "/a b");
  assert_ok(tc_config_set_pair(c, TC_SV("plugins.path=/x:/y:/z"), "--set"));
  assert_int_equal(tc_config_list(c, TC_OPT_ID_PLUGINS_PATH, &list), 3);
  assert_ok(tc_config_set_pair(c, TC_SV("pass.skip="), "--set"));
  assert_int_equal(tc_config_list(c, TC_OPT_ID_PASS_SKIP, &list), 0);
  assert_ok(tc_config_set_pair(c, TC_SV("pass.skip= a,, b"), "--set"));
  assert_sv(tc_config_text(c, TC_OPT_ID_PASS_SKIP), "a,b");
  assert_ok(tc_config_set_pair(c, TC_SV("threads=007"), "--set"));
  assert_sv(tc_config_text(c, TC_OPT_ID_THREADS), "7");
  assert_ok(tc_config_set_pair(c, TC_SV("strict=on"), "--set"));
  assert_true(tc_config_bool(c, TC_OPT_ID_STRICT));
  assert_ok(tc_config_set_pair(c, TC_SV("debug_dir=/a=b"), "--set")); // the first '=' counts
  assert_sv(tc_config_text(c, TC_OPT_ID_DEBUG_DIR), "/a=b");
  tc_config_destroy(c);
  return TC_OK;
}

TC_TEST(bad_input_is_told_where_and_what) {
  static const char *const files[][2] = {
      {"bakend = \"cpu\"", "my.toml:1: unknown key 'bakend'; did you mean 'backend'?"},
      {"\n[cache]\nenable = true", "my.toml:3: unknown key 'cache.enable'; did you mean 'cache.enabled'?"},
      {"zzzzzzzzzzzz = 1", "`tcrun config` lists the keys"},
      {"threads = \"four\"", "a value of type integer is expected"},
      {"threads = -1", "-1 is not within 0 … 65536"},
      {"strict = 1", "a value of type bool is expected"},
      {"dynamic = \"maybe\"", "'maybe' is none of auto,true,false"},
      {"plugins.path = [\"rel\"]", "'rel' is not an absolute path"},
      {"pass.skip = [\"a,b\"]", "element 1 is not a text without ','"},
      {"pass.skip = \"x\"\npass.skip = \"y\"", "my.toml:2"},
      {"cache.max_bytes = \"5X\"", "not a number of bytes"},
      {"cache.max_bytes = \"99999999999T\"", "not a number of bytes"},
      {"threads", "my.toml:1"},
      {"extends = 3", "'extends' is the name of a mode"},
      {"extends = \"inducter\"", "did you mean 'inductor'?"},
      {"[backend]\nx = 1", "'backend' is an option, not a table"},
      {"[pass.skip]\nx = 1", "unknown key 'pass.skip'"},
      {"[cpu]\nx = [{a = 1}]", "tables inside lists"},
      {"description = 4", "'description' is a text"},
      {"threads = 1979-05-27", "my.toml:1"},
      {"[`cache]\nx = 1", "my.toml:1"},
  };
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    tc_config *c = make(arena);
    tc_status s = tc_config_read_text(c, TC_SV("my.toml"), tc_sv_of(files[i][0]));
    if (s == TC_OK || !strstr(tc_status_text(s), files[i][1])) fail_msg("%s: %s", files[i][0], tc_status_text(s));
    tc_status_free(s);
    tc_config_destroy(c);
  }
  tc_config *c = make(arena);
  assert_error(tc_config_set_pair(c, TC_SV("threads"), "--set"), TC_STATUS_INVALID_ARGUMENT,
               "--set: 'threads' is not key=value");
  assert_error(tc_config_set_pair(c, TC_SV("thread=3"), "--set"), TC_STATUS_INVALID_ARGUMENT,
               "command line --set: unknown key 'thread'; did you mean 'threads'?");
  assert_error(tc_config_set_pair(c, TC_SV("threads=x"), "--set"), TC_STATUS_INVALID_ARGUMENT, "'x' is not an integer");
  assert_error(tc_config_set_pair(c, TC_SV("=x"), "--set"), TC_STATUS_INVALID_ARGUMENT, "unknown key ''");
  assert_error(tc_config_read_file(c, "/no/such/file.toml"), TC_STATUS_NOT_FOUND, "/no/such/file.toml");
  tc_config_destroy(c);
  return TC_OK;
}

TC_TEST(sections_belong_to_plugins) {
  tc_config *c = make(arena);
  static const char *const env[] = {"TC_MY_DEV_ISA=avx512", "TC_UNRELATED_THING=1", NULL};
  assert_ok(tc_config_set_pair(c, TC_SV("my-dev.width=16"), "--set")); // first, and still the strongest
  read_text(
      c, "[my-dev]\nisa = \"avx2\"\nwidth = 8\nratio = 0.5\nnames = [\"a\", \"b\"]\ndeep.er = true\n[other]\nx = 1\n");
  assert_ok(tc_config_set_pair(c, TC_SV("other.x=2"), "--set"));
  assert_ok(tc_config_read_environment(c, env));
  const tc_sv plugins[] = {TC_SV("my-dev"), TC_SV("other")};
  assert_ok(tc_config_check_sections(c, plugins, 2));
  assert_sv(tc_config_section(c, TC_SV("my-dev"), TC_SV("isa")), "avx512");
  assert_sv(tc_config_section(c, TC_SV("my-dev"), TC_SV("width")), "16");
  assert_sv(tc_config_section(c, TC_SV("my-dev"), TC_SV("ratio")), "0.5");
  assert_sv(tc_config_section(c, TC_SV("my-dev"), TC_SV("names")), "[\"a\", \"b\"]");
  assert_sv(tc_config_section(c, TC_SV("my-dev"), TC_SV("deep.er")), "true");
  assert_sv(tc_config_section(c, TC_SV("other"), TC_SV("x")), "2");
  assert_sv(tc_config_section(c, TC_SV("other"), TC_SV("y")), "");
  assert_error(tc_config_check_sections(c, plugins, 1), TC_STATUS_INVALID_ARGUMENT,
               "'other' (in 'other.x') is neither a group of options nor a plugin");
  assert_ok(tc_config_expect_plugin(c, TC_SV("other"))); // added by its file later
  assert_ok(tc_config_check_sections(c, plugins, 1));
  tc_config_destroy(c);

  c = make(arena);
  read_text(c, "threads = 1\n[cach]\ndir = \"/tmp\"\n");
  assert_error(tc_config_check_sections(c, plugins, 2), TC_STATUS_INVALID_ARGUMENT,
               "my.toml:3: 'cach' (in 'cach.dir') is neither a group of options nor a plugin; did you mean 'cache'?");
  tc_config_destroy(c);

  c = make(arena);
  static const char *const slip[] = {"TC_BACKENDS=cpu", NULL};
  assert_ok(tc_config_read_environment(c, slip));
  assert_error(tc_config_check_sections(c, plugins, 2), TC_STATUS_INVALID_ARGUMENT,
               "unknown variable 'TC_BACKENDS'; did you mean 'TC_BACKEND'?");
  tc_config_destroy(c);
  return TC_OK;
}

TC_TEST(modes_lie_below_all_but_the_built_in) {
  static const struct {
    const char *mode;
    int fuse, functionalize, device_graph, autotune;
  } cases[] = {
      {"default", 1, 1, 0, 0},      {"inductor", 1, 1, 0, 0},
      {"eager", 0, 0, 0, 0},        {"aot_eager", 0, 1, 0, 0},
      {"cudagraphs", 0, 1, 1, 0},   {"reduce-overhead", 1, 1, 1, 0},
      {"max-autotune", 1, 1, 1, 1}, {"max-autotune-no-cudagraphs", 1, 1, 0, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tc_config *c = make(arena);
    assert_ok(tc_config_set(c, TC_SV("mode"), tc_sv_of(cases[i].mode), "--mode"));
    assert_ok(tc_config_apply_mode(c));
    assert_int_equal(tc_config_bool(c, TC_OPT_ID_FUSE), cases[i].fuse);
    assert_int_equal(tc_config_bool(c, TC_OPT_ID_FUNCTIONALIZE), cases[i].functionalize);
    assert_int_equal(tc_config_bool(c, TC_OPT_ID_DEVICE_GRAPH), cases[i].device_graph);
    assert_int_equal(tc_config_bool(c, TC_OPT_ID_AUTOTUNE), cases[i].autotune);
    tc_config_destroy(c);
  }
  tc_config *c = make(arena);
  read_text(c, "mode = \"max-autotune\"\ntune.rounds = 3\n");
  assert_ok(tc_config_apply_mode(c));
  assert_int_equal(tc_config_int(c, TC_OPT_ID_TUNE_ROUNDS), 3);     // the file's
  assert_int_equal(tc_config_int(c, TC_OPT_ID_TUNE_BUDGET), 15000); // the mode's
  assert_non_null(strstr(tc_config_origin(c, TC_OPT_ID_TUNE_BUDGET).data,
                         "mode max-autotune-no-cudagraphs, max-autotune-no-cudagraphs.toml:"));
  tc_config_destroy(c);
  c = make(arena);
  assert_ok(tc_config_set(c, TC_SV("mode"), TC_SV("inducktor"), "--mode"));
  assert_error(tc_config_apply_mode(c), TC_STATUS_NOT_FOUND, "unknown mode 'inducktor'; did you mean 'inductor'?");
  tc_config_destroy(c);
  const tc_mode_info *modes;
  int32_t n;
  c = make(arena);
  assert_ok(tc_config_modes(c, &modes, &n));
  assert_true(n >= 8);
  for (int32_t i = 0; i < n; i++) assert_true(modes[i].description.size > 10);
  tc_config_destroy(c);
  return TC_OK;
}

TC_TEST(own_modes_extend_and_are_bounded) {
  char folder[] = TC_BINARY_DIR "/tests/tmp-config-XXXXXX";
  assert_non_null(mkdtemp(folder));
  static const char *const files[][2] = {
      {"mine.toml", "description = \"mine\"\nextends = \"eager\"\nthreads = 5\n[dev]\nx = 1\n"},
      {"round.toml", "extends = \"trip\"\n"},
      {"trip.toml", "extends = \"round\"\n"},
      {"eager.toml", "description = \"shadows\"\noptimize = 1\n"},
      {"chooser.toml", "mode = \"eager\"\n"},
      {"broken.toml", "threads = \n"},
  };
  enum { N = sizeof files / sizeof files[0] };
  for (int i = 0; i < N; i++)
    assert_ok(tc_file_write(tc_sv_printf(arena, "%s/%s", folder, files[i][0]).data, files[i][1], strlen(files[i][1])));
  static const char *const errors[][2] = {{"round", "in a circle"},
                                          {"chooser", "a mode cannot choose a mode"},
                                          {"broken", "broken.toml:1"},
                                          {"nowhere.toml", "nowhere.toml"},
                                          {"/dev/zero", "not a regular file"}};
  for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
    tc_config *c = make(arena);
    assert_ok(tc_config_set(c, TC_SV("configs.path"), tc_sv_of(folder), "--set"));
    assert_ok(tc_config_set(c, TC_SV("mode"), tc_sv_of(errors[i][0]), "--mode"));
    tc_status s = tc_config_apply_mode(c);
    if (s == TC_OK || !strstr(tc_status_text(s), errors[i][1])) fail_msg("%s: %s", errors[i][0], tc_status_text(s));
    tc_status_free(s);
    tc_config_destroy(c);
  }
  tc_config *c = make(arena);
  assert_ok(tc_config_set(c, TC_SV("configs.path"), tc_sv_of(folder), "--set"));
  assert_ok(tc_config_set(c, TC_SV("mode"), TC_SV("mine"), "--mode"));
  assert_ok(tc_config_apply_mode(c));
  assert_int_equal(tc_config_int(c, TC_OPT_ID_THREADS), 5);
  assert_int_equal(tc_config_int(c, TC_OPT_ID_OPTIMIZE), 1); // the folder's own 'eager' comes first
  assert_sv(tc_config_section(c, TC_SV("dev"), TC_SV("x")), "1");
  const tc_mode_info *modes;
  int32_t n, broken = 0;
  assert_ok(tc_config_modes(c, &modes, &n));
  for (int32_t i = 0; i < n; i++)
    broken += tc_sv_is(modes[i].name, "broken") && strstr(modes[i].description.data, "broken.toml:1");
  assert_int_equal(broken, 1);
  tc_config_destroy(c);
  // A path instead of a name.
  c = make(arena);
  assert_ok(tc_config_set(c, TC_SV("mode"), tc_sv_printf(arena, "%s/eager.toml", folder), "--mode"));
  assert_ok(tc_config_apply_mode(c));
  assert_int_equal(tc_config_int(c, TC_OPT_ID_OPTIMIZE), 1);
  tc_config_destroy(c);
  for (int i = 0; i < N; i++) unlink(tc_sv_printf(arena, "%s/%s", folder, files[i][0]).data);
  assert_int_equal(rmdir(folder), 0);
  return TC_OK;
}

TC_TEST(what_is_printed_reads_back) {
  tc_config *c = make(arena), *back = make(arena);
  read_text(c, "backend = \"a \\\"b\\\\\\u0007\"\ncache.max_bytes = \"7K\"\npass.skip = [\"x\", \"y\"]\ndynamic = "
               "false\n[dev]\nt = \"1\"\nn = 1\nl = [1, \"a\"]\n\"odd key\".\"x.y\" = 2\n");
  assert_ok(tc_config_set_pair(c, TC_SV("plugins.path=/a:/b"), "--set"));
  tc_sb first = tc_sb_make(arena), keys[2] = {tc_sb_make(arena), tc_sb_make(arena)};
  assert_ok(tc_config_print(c, &first));
  assert_non_null(strstr(first.text, "cache.max_bytes = \"7K\""));
  assert_non_null(strstr(first.text, "# my.toml:2"));
  assert_non_null(strstr(first.text, "# command line --set"));
  read_text(back, first.text);
  for (int32_t i = 0; i < TC_OPT_COUNT; i++) {
    assert_sv(tc_config_text(back, i), tc_sv_copy(arena, tc_config_text(c, i)).data);
    assert_int_equal(tc_config_level(back, i), TC_FROM_FILE);
  }
  assert_sv(tc_config_section(back, TC_SV("dev"), TC_SV("l")), "[1, \"a\"]");
  assert_sv(tc_config_section(back, TC_SV("dev"), TC_SV("odd key.x.y")), "2");
  assert_ok(tc_config_code_key(c, &keys[0]));
  assert_ok(tc_config_code_key(back, &keys[1]));
  assert_string_equal(keys[0].text, keys[1].text);
  // What changes no code is not part of the key; what does is.
  assert_ok(tc_config_set_pair(back, TC_SV("logs=all"), "--set"));
  keys[1] = tc_sb_make(arena);
  assert_ok(tc_config_code_key(back, &keys[1]));
  assert_string_equal(keys[0].text, keys[1].text);
  assert_ok(tc_config_set_pair(back, TC_SV("fuse=false"), "--set"));
  keys[1] = tc_sb_make(arena);
  assert_ok(tc_config_code_key(back, &keys[1]));
  assert_string_not_equal(keys[0].text, keys[1].text);
  tc_config_destroy(c);
  tc_config_destroy(back);
  return TC_OK;
}

// Random edits of a real file: an answer, never a crash; what is read is printed and reads back.
TC_TEST(survives_random_edits) {
  static const char seed_text[] =
      "mode = \"eager\"\nthreads = 3\nstrict = true\n[cache]\nmax_bytes = \"1G\"\n[dev]\nx = [1, 2.5, \"a\"]\n";
  static const char letters[] = "abz=\"[]{}.\n#\\0179 -_,\x80\xff";
  uint64_t seed = tc_test_seed();
  for (int i = 0; i < 3000; i++) {
    char text[sizeof seed_text + 8];
    size_t n = sizeof seed_text - 1;
    memcpy(text, seed_text, n);
    for (int e = 0; e < 1 + (int)(tc_test_random(&seed) % 4); e++)
      text[tc_test_random(&seed) % n] = letters[tc_test_random(&seed) % (sizeof letters - 1)];
    tc_config *c = make(arena);
    tc_status s = tc_config_read_text(c, TC_SV("f"), (tc_sv){text, n});
    if (s == TC_OK) {
      tc_sb sb = tc_sb_make(arena);
      assert_ok(tc_config_print(c, &sb));
    }
    tc_status_free(s);
    tc_config_destroy(c);
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(weaker_sources_give_way),
      cmocka_unit_test(reads_every_type),
      cmocka_unit_test(bad_input_is_told_where_and_what),
      cmocka_unit_test(sections_belong_to_plugins),
      cmocka_unit_test(modes_lie_below_all_but_the_built_in),
      cmocka_unit_test(own_modes_extend_and_are_bounded),
      cmocka_unit_test(what_is_printed_reads_back),
      cmocka_unit_test(survives_random_edits),
  };
  return TC_RUN(tests);
}
