// Every tensor file of a corpus of conformance files: TC_CORPUS names its folder; without it there is nothing to do.
#include "core/tensor/files.h"
#include "tests/unit/unit.h"

typedef struct totals {
  int64_t files, tensors, complex, bytes;
} totals;

static const char *join(tc_arena *arena, const char *dir, tc_sv name) {
  return tc_sv_z(arena, tc_path_join(arena, tc_sv_of(dir), name));
}

static void read_one(tc_arena *arena, const char *path, totals *sum) {
  tc_tensor_list l;
  assert_ok(tc_tensors_read(tc_arena_allocator(arena), arena, path, &l));
  for (int32_t i = 0; i < l.count; i++) {
    const tc_tensor *t = &l.items[i].tensor;
    const tc_sv name = l.items[i].name;
    if (tc_sv_ends(name, ".c128") || tc_sv_ends(name, ".c32"))
      fail_msg("%s: suffix left on " TC_SV_FMT, path, TC_SV_ARG(name));
    // Touches every element once, through the copier.
    tc_tensor wide;
    assert_ok(tc_tensor_create(tc_arena_allocator(arena), TC_C128, t->rank, t->sizes, &wide));
    assert_ok(tc_tensor_copy(t, &wide));
    tc_tensor_unref(&wide);
    sum->tensors++;
    sum->complex += tc_dtype_is_complex(t->dtype);
    sum->bytes += tc_tensor_numel(t) * tc_dtype_size(t->dtype);
  }
  tc_tensor_list_free(&l);
  sum->files++;
}

static tc_status read_corpus(tc_arena *arena) {
  const char *corpus = tc_env("TC_CORPUS");
  totals sum = {0};
  static const char *const folders[] = {"models", "ops"};
  for (int k = 0; k < 2; k++) {
    const char *dir = join(arena, corpus, tc_sv_of(folders[k]));
    tc_sv *names;
    int32_t count;
    TC_TRY(tc_dir_list(arena, dir, &names, &count));
    for (int32_t i = 0; i < count; i++)
      if (tc_sv_ends(names[i], ".safetensors")) read_one(arena, join(arena, dir, names[i]), &sum);
  }
  print_message("%lld files, %lld tensors, %lld of them complex, %lld bytes\n", (long long)sum.files,
                (long long)sum.tensors, (long long)sum.complex, (long long)sum.bytes);
  assert_true(sum.files > 0);
  return TC_OK;
}

static void every_file_of_the_corpus(void **state) {
  (void)state;
  if (!tc_env("TC_CORPUS")) skip();
  tc_test_run(read_corpus);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_file_of_the_corpus)};
  return TC_RUN(tests);
}
