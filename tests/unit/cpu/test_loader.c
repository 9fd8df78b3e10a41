// The device outside of kernels' semantics: properties, memory, damaged and foreign objects, launches over threads.
#include <elf.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

static const char text[] =
    "kernel @k (%x : global f32, %o : global f32, %n : i32) blocks 1 lanes 16 {\n  shared %t : f32[100000]\n  table %w "
    ": f32 = [1.0, 2.0, 3.0, 4.0]\n  %b = block\n"
    "  lanes {\n    %l = lane\n    %i = fma %b, 16, %l\n    %q = and %l, 3\n    %c = load %w[%q]\n    %m = lt %i, %n\n "
    "   check %m, 5\n    %v = load %x[%i] if %m else 0.0\n    %r = mul %v, %c\n    store %t[%l], %r\n    %r2 = load "
    "%t[%l]\n    store %o[%i], %r2 if %m\n  }\n}\n";

static rig r;

static int open_rig(void **state) {
  (void)state;
  return rig_open(&r, "native") ? 0 : -1;
}

static int close_rig(void **state) {
  (void)state;
  rig_close(&r);
  return 0;
}

TC_TEST(properties) {
  tc_device_props p = {.struct_size = sizeof p}, small;
  assert_int_equal(r.plugin.device->properties(r.device, &p), TC_STATUS_OK);
  assert_true(p.host_memory == 1 && p.cores >= 1 && (p.simd_bytes == 32 || p.simd_bytes == 64) && p.memory_bytes > 0);
  assert_true(p.l1_bytes > 0 && p.l2_bytes >= p.l1_bytes && p.name[0] && p.target[0]);
  memset(&small, 0x5a, sizeof small);
  small.struct_size = offsetof(tc_device_props, cores); // an older host
  assert_int_equal(r.plugin.device->properties(r.device, &small), TC_STATUS_OK);
  assert_int_equal(small.cores, 0x5a5a5a5a);
  rig_blob key = {0};
  tc_sink sink = {&key, rig_write};
  assert_int_equal(r.plugin.codegen->key(&r.host, r.device, &sink), TC_STATUS_OK);
  assert_non_null(strstr(key.data, "LLVM"));
  assert_non_null(strstr(key.data, p.target));
  free(key.data);
  int32_t count;
  assert_int_equal(r.plugin.device->enumerate(&r.host, &count), TC_STATUS_OK);
  assert_int_equal(count, 1);
  tc_device_ *d;
  r.isa = "sse2";
  assert_int_equal(r.plugin.device->open(&r.host, 0, &d), TC_STATUS_INVALID_ARGUMENT);
  assert_non_null(strstr(r.diag, "cpu.isa"));
  r.isa = "native";
  assert_int_equal(r.plugin.device->open(&r.host, 1, &d), TC_STATUS_NOT_FOUND);
  static const char *const sizes[] = {"64k", "0", "-1", "1048577", "99999999999999999999"};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    r.l2_kib = sizes[i];
    assert_int_equal(r.plugin.device->open(&r.host, 0, &d), TC_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(r.diag, "cpu.l2_kib"));
  }
  r.l2_kib = "64";
  assert_int_equal(r.plugin.device->open(&r.host, 0, &d), TC_STATUS_OK);
  assert_int_equal(r.plugin.device->properties(d, &p), TC_STATUS_OK);
  assert_int_equal(p.l2_bytes, 65536);
  assert_non_null(strstr(p.target, " l2 64"));
  r.plugin.device->close(d);
  return TC_OK;
}

TC_TEST(memory) {
  const tc_device_table *t = r.plugin.device;
  tc_handle a, b;
  char out[8];
  assert_int_equal(t->alloc(r.device, 0, &a), TC_STATUS_OK);
  t->free(r.device, a);
  assert_int_equal(t->alloc(r.device, 100, &a), TC_STATUS_OK);
  assert_int_equal(t->alloc(r.device, 100, &b), TC_STATUS_OK);
  assert_int_equal(a % 64, 0);
  assert_int_equal(t->copy_in(r.device, 0, a, 10, "abcdefg", 8), TC_STATUS_OK);
  assert_int_equal(t->copy(r.device, 0, b, 20, a, 10, 8), TC_STATUS_OK);
  assert_int_equal(t->fill(r.device, 0, b, 22, 'x', 2), TC_STATUS_OK);
  assert_int_equal(t->copy_out(r.device, 0, out, b, 20, 8), TC_STATUS_OK);
  assert_string_equal(out, "abxxefg");
  t->free(r.device, a);
  t->free(r.device, b);
  return TC_OK;
}

// Bytes of an object are changed and cut at random: loading must refuse or go through, never crash or touch memory that
// is not its own.
TC_TEST(damaged_objects) {
  const tc_kernel *k;
  rig_blob code;
  uint64_t seed = tc_test_seed();
  TC_TRY(rig_parse(arena, tc_sv_of(text), &k));
  assert_int_equal(rig_compile(&r, &k, 1, &code, NULL), TC_STATUS_OK);
  tc_handle m, f;
  int32_t refused = 0, rounds = 20000;
  char *copy = malloc(code.size);
  for (int32_t i = 0; i < rounds; i++) {
    size_t size = code.size, changes = 1 + tc_test_random(&seed) % 4;
    memcpy(copy, code.data, size);
    if (i % 5 == 0) size = tc_test_random(&seed) % code.size;
    for (size_t c = 0; c < changes && size; c++) {
      uint64_t x = tc_test_random(&seed);
      size_t at = (size_t)(x >> 16) % size;
      if (i % 3 == 0)
        at = i % 2 ? (size_t)(x >> 16) % (size < 64 ? size : 64)
                   : size - 1 - (size_t)(x >> 16) % (size < 1600 ? size : 1600); // headers lie at both ends
      copy[at] = x & 1 ? (char)(x >> 56) : x & 2 ? -1 : (char)(copy[at] + 1);
    }
    if (r.plugin.device->module_load(r.device, copy, size, &m) != TC_STATUS_OK) refused++;
    else {
      r.plugin.device->function(r.device, m, tc_sv_of("k"), &f);
      r.plugin.device->module_unload(r.device, m);
    }
  }
  assert_true(refused > rounds / 10);
  free(copy);
  assert_int_equal(r.plugin.device->module_load(r.device, "", 0, &m), TC_STATUS_DATA_LOSS);
  assert_int_equal(r.plugin.device->module_load(
                       r.device, "\177ELF something else that is long enough to be looked at by the loader", 70, &m),
                   TC_STATUS_DATA_LOSS);
  free(code.data);
  return TC_OK;
}

// Sections whose bytes lie outside the object are refused whatever their type is: one without a type, too, which is
// loaded when its flags say so.
TC_TEST(untyped_sections) {
  const tc_kernel *k;
  rig_blob code;
  tc_handle m;
  Elf64_Ehdr e;
  TC_TRY(rig_parse(arena, tc_sv_of(text), &k));
  assert_int_equal(rig_compile(&r, &k, 1, &code, NULL), TC_STATUS_OK);
  memcpy(&e, code.data, sizeof e);
  int32_t seen = 0;
  for (int32_t i = 0; i < e.e_shnum; i++) {
    Elf64_Shdr h, changed;
    char *at = code.data + e.e_shoff + (size_t)i * sizeof h;
    memcpy(&h, at, sizeof h);
    if (!(h.sh_flags & SHF_ALLOC) || h.sh_size == 0) continue;
    changed = h;
    changed.sh_type = SHT_NULL;
    changed.sh_offset = UINT64_C(1) << 40;
    memcpy(at, &changed, sizeof h);
    assert_int_equal(r.plugin.device->module_load(r.device, code.data, code.size, &m), TC_STATUS_DATA_LOSS);
    memcpy(at, &h, sizeof h);
    seen++;
  }
  assert_true(seen > 0);
  free(code.data);
  return TC_OK;
}

// An object that needs something from outside is refused by name; one for wider registers is refused where they lack.
TC_TEST(foreign_objects) {
  const tc_kernel *k;
  rig_blob code;
  tc_handle m;
  TC_TRY(rig_parse(arena, tc_sv_of(text), &k));
  assert_int_equal(rig_compile(&r, &k, 1, &code, NULL), TC_STATUS_OK);
  rig narrow;
  tc_device_props p = {.struct_size = sizeof p};
  r.plugin.device->properties(r.device, &p);
  if (rig_open(&narrow, "avx2")) {
    int32_t s = narrow.plugin.device->module_load(narrow.device, code.data, code.size, &m);
    if (p.simd_bytes == 64) {
      assert_int_equal(s, TC_STATUS_MISMATCH);
      assert_non_null(strstr(narrow.diag, "lacks"));
      free(code.data);
      assert_int_equal(rig_compile(&narrow, &k, 1, &code, NULL), TC_STATUS_OK);
      assert_int_equal(r.plugin.device->module_load(r.device, code.data, code.size, &m), TC_STATUS_OK);
    }
    r.plugin.device->module_unload(r.device, m);
    rig_close(&narrow);
  }
  free(code.data);
  return TC_OK;
}

// Blocks over a team of threads, with scratch memory for each, and the first failed check kept.
TC_TEST(threads) {
  const tc_kernel *k;
  TC_TRY(rig_parse(arena, tc_sv_of(text), &k));
  tc_executor team;
  TC_TRY(tc_executor_pthread(3, &team));
  r.executor = team;
  rig_function f = rig_load(&r, k);
  enum { N = 16 * 1000 };
  float *x = rig_alloc(NULL, N * 4), *o = rig_alloc(NULL, N * 4);
  for (int32_t i = 0; i < N; i++) x[i] = (float)i;
  for (int32_t round = 0; round < 20; round++) {
    int32_t n = round % 2 ? N : N - 100;
    tc_error_block errors = {-1, 0};
    tc_launch_arg args[] = {{.kind = TC_ARG_MEMORY, .value = (uintptr_t)x},
                            {.kind = TC_ARG_MEMORY, .value = (uintptr_t)o},
                            {.kind = TC_ARG_SCALAR, .bytes = 4, .value = (uint64_t)n}};
    tc_launch l = {.struct_size = sizeof l,
                   .function = f.function,
                   .blocks = N / 16,
                   .grain = 7,
                   .args = args,
                   .n_args = 3,
                   .errors = (uintptr_t)&errors};
    assert_int_equal(r.plugin.device->launch(r.device, 0, &l), TC_STATUS_OK);
    assert_int_equal(errors.site, n == N ? -1 : 5);
    if (n != N) assert_true(errors.value >= n / 16);
    for (int32_t i = 0; i < n; i++) assert_true(o[i] == (float)i * (float)(i % 4 + 1));
  }
  tc_launch none = {.struct_size = sizeof none, .function = f.function};
  assert_int_equal(r.plugin.device->launch(r.device, 0, &none), TC_STATUS_OK);
  rig_free(NULL, x), rig_free(NULL, o);
  r.plugin.device->module_unload(r.device, f.module);
  r.executor = tc_executor_serial;
  tc_executor_destroy(&team);
  return TC_OK;
}

// Compilations in several threads at once give what one alone gives.
typedef struct job {
  const tc_kernel *k;
  const rig_blob *want;
  int32_t bad;
} job;

static void *compile_often(void *arg) {
  job *j = arg;
  for (int32_t i = 0; i < 8; i++) {
    rig_blob code = {0};
    tc_sink sink = {&code, rig_write};
    if (r.plugin.codegen->compile(&r.host, r.device, &j->k, 1, 1, &sink, NULL) != TC_STATUS_OK ||
        code.size != j->want->size || memcmp(code.data, j->want->data, code.size) != 0)
      j->bad++;
    free(code.data);
  }
  return NULL;
}

TC_TEST(concurrent_compilations) {
  const tc_kernel *k;
  rig_blob want;
  pthread_t threads[3];
  job jobs[3];
  TC_TRY(rig_parse(arena, tc_sv_of(text), &k));
  assert_int_equal(rig_compile(&r, &k, 1, &want, NULL), TC_STATUS_OK);
  for (int32_t i = 0; i < 3; i++) {
    jobs[i] = (job){k, &want, 0};
    assert_int_equal(pthread_create(&threads[i], NULL, compile_often, &jobs[i]), 0);
  }
  for (int32_t i = 0; i < 3; i++) pthread_join(threads[i], NULL), assert_int_equal(jobs[i].bad, 0);
  free(want.data);
  return TC_OK;
}

#ifdef __SANITIZE_ADDRESS__
// In a build with AddressSanitizer generated code is instrumented too: writing one element too many ends the process.
TC_TEST(overruns_are_seen) {
  const tc_kernel *k;
  TC_TRY(rig_parse(arena,
                   TC_SV("kernel @k (%o : global f32, %n : i32) blocks 1 lanes 16 {\n  lanes {\n    %l = lane\n    %m "
                         "= lt %l, %n\n    store %o[%l], 1.0 if %m\n  }\n}\n"),
                   &k));
  rig_function f = rig_load(&r, k);
  for (int32_t n = 5; n <= 6; n++) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
      freopen("/dev/null", "w", stderr);
      float *o = malloc(5 * sizeof *o);
      tc_launch_arg args[] = {{.kind = TC_ARG_MEMORY, .value = (uintptr_t)o},
                              {.kind = TC_ARG_SCALAR, .bytes = 4, .value = (uint64_t)n}};
      tc_launch l = {.struct_size = sizeof l, .function = f.function, .blocks = 1, .args = args, .n_args = 2};
      r.plugin.device->launch(r.device, 0, &l);
      _exit(0);
    }
    int state;
    assert_int_equal(waitpid(child, &state, 0), child);
    assert_true((WIFEXITED(state) && WEXITSTATUS(state) == 0) == (n == 5));
  }
  r.plugin.device->module_unload(r.device, f.module);
  return TC_OK;
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(properties),
      cmocka_unit_test(memory),
      cmocka_unit_test(damaged_objects),
      cmocka_unit_test(untyped_sections),
      cmocka_unit_test(foreign_objects),
      cmocka_unit_test(threads),
      cmocka_unit_test(concurrent_compilations),
#ifdef __SANITIZE_ADDRESS__
      cmocka_unit_test(overruns_are_seen),
#endif
  };
  return cmocka_run_group_tests(tests, open_rig, close_rig);
}
