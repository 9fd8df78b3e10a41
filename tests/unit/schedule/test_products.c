// Products of matrices where lanes are threads: every configuration, at sizes that fill tiles and at others, against
// the references, by the kernel interpreter (which refuses races in shared memory).
#include "core/kernel/templates/matmul.h"
#include "tests/unit/schedule/pipeline.h"

enum { CONFIGURATIONS = 5 };

// Number `want` of the tiled configurations, counted as they are offered.
typedef struct choice {
  int32_t want, tiled;
} choice;
static int32_t pick(void *self, tc_sv name, tc_sv stage, int32_t n, const tc_stage_config *configs) {
  choice *c = self;
  int32_t wanted = 0;
  (void)stage;
  c->tiled = 0;
  for (int32_t i = 0; i < n && tc_sv_is(name, "matmul"); i++)
    if (configs[i].params[TC_MATMUL_DEPTH] && c->tiled++ == c->want) wanted = i;
  return wanted;
}

static const test_device *threads(void) {
  for (int32_t d = 0; d < N_DEVICES; d++)
    if (!devices[d].props.simd_bytes) return &devices[d];
  return NULL;
}

// What a block has on chip, the rows of results that are held for later phases among it, must be there.
static tc_status fits(const tc_plan *plan) {
  int64_t room = threads()->props.shared_bytes;
  for (int32_t i = 0; i < plan->kernels.count; i++) {
    tc_kernel_stats stats;
    tc_kernel_count(plan->kernels.data[i]->kernel, &stats);
    if (stats.shared_bytes > room)
      return tc_error(TC_STATUS_MISMATCH, "kernel %d has %lld bytes on chip, of %lld", (int)i,
                      (long long)stats.shared_bytes, (long long)room);
  }
  return TC_OK;
}

// With each of the configurations; there must be `least` of them.
static tc_status every(tc_arena *arena, const char *text, int32_t least, tolerance tol) {
  pipeline p;
  tc_status s = pipeline_open(&p, arena, text);
  choice c = {.tiled = 1};
  for (c.want = 0; c.want < c.tiled && s == TC_OK; c.want++) {
    tc_plan *plan = NULL;
    p.pick = pick, p.pick_self = &c;
    s = pipeline_compile(&p, &threads()->props, true, &plan);
    if (s == TC_OK) s = fits(plan);
    if (s == TC_OK) s = pipeline_check(&p, plan, tol);
    s = tc_status_note(s, "with configuration %d of %d of\n%s", (int)c.want, (int)c.tiled, text);
  }
  if (s == TC_OK && c.tiled < least) s = tc_error(TC_STATUS_MISMATCH, "%d configurations for\n%s", (int)c.tiled, text);
  pipeline_close(&p);
  return s;
}

static tc_status product(tc_arena *arena, const char *type, int64_t m, int64_t k, int64_t n, int32_t least,
                         tolerance tol) {
  char text[400];
  snprintf(text, sizeof text,
           "graph @f (%%x : %s[%lld, %lld] = user \"x\", %%y : %s[%lld, %lld] = user \"y\") {\n  %%z = "
           "aten::mm(%%x, %%y)\n  return user %%z\n}\n",
           type, (long long)m, (long long)k, type, (long long)k, (long long)n);
  return every(arena, text, least, tol);
}

TC_TEST(sizes_that_fill_tiles) { return product(arena, "f32", 128, 32, 128, CONFIGURATIONS, closely); }

TC_TEST(any_sizes) {
  uint64_t seed = tc_test_seed();
  for (int32_t i = 0; i < 4; i++) {
    int64_t size[3];
    for (int32_t d = 0; d < 3; d++) size[d] = 1 + (int64_t)(tc_test_random(&seed) % (d == 1 ? 40 : 150));
    if (size[2] == 1) size[2] = 2; // one column is no work for the template
    TC_TRY(product(arena, "f32", size[0], size[1], size[2], CONFIGURATIONS, closely));
  }
  return product(arena, "f32", 1, 1, 2, CONFIGURATIONS, closely);
}

TC_TEST(types) {
  static const tolerance half = {.eps = 1e-2, .least = 1e-3};
  TC_TRY(product(arena, "f64", 33, 20, 47, 1, closely));
  TC_TRY(product(arena, "i64", 33, 20, 47, 1, exactly));
  TC_TRY(product(arena, "i32", 33, 20, 47, CONFIGURATIONS, exactly));
  TC_TRY(product(arena, "f16", 20, 24, 40, CONFIGURATIONS, half));
  TC_TRY(product(arena, "bf16", 20, 24, 40, CONFIGURATIONS, half));
  return product(arena, "u8", 20, 24, 40, 0, exactly);
}

// What follows the product at the same elements; operands that lie otherwise; batches.
TC_TEST(surroundings) {
  TC_TRY(
      every(arena,
            "graph @f (%x : f32[70, 36] = user \"x\", %y : f32[36, 68] = user \"y\", %b : f32[68] = user \"b\", %r : "
            "f32[70, 68] = user \"r\") {\n  %p = aten::addmm(%b, %x, %y)\n  %g = aten::sigmoid(%p)\n  %z = "
            "aten::add.Tensor(%g, %r)\n  return user %z, user %p\n}\n",
            CONFIGURATIONS, closely));
  TC_TRY(every(arena,
               "graph @f (%x : f32[36, 70]{1, 36} = user \"x\", %y : f32[70, 45]{1, 70} = user \"y\") {\n  %p = "
               "aten::mm(%x, %y)\n  %z = aten::t(%p)\n  %c = aten::contiguous(%z)\n  return user %c\n}\n",
               CONFIGURATIONS, closely));
  return every(arena,
               "graph @f (%x : f32[3, 40, 17] = user \"x\", %y : f32[3, 17, 66] = user \"y\") {\n  %z = aten::bmm(%x, "
               "%y)\n  return user %z\n}\n",
               CONFIGURATIONS, closely);
}

// Rows of a result that are held for what follows: the largest tiles have no room for long ones.
TC_TEST(held_rows) {
  static const int32_t columns[] = {31, 50, 100, 200}, tiled[] = {5, 2, 0, 0};
  char text[500];
  for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
    snprintf(text, sizeof text,
             "graph @f (%%x : f32[50, 24] = user \"x\", %%y : f32[24, %d] = user \"y\") {\n  %%p = aten::mm(%%x, "
             "%%y)\n  %%z = aten::_softmax(%%p, -1, false)\n  return user %%z\n}\n",
             (int)columns[i]);
    TC_TRY(every(arena, text, tiled[i], closely));
  }
  return every(arena,
               "graph @f (%x : f32[50, 60] = user \"x\", %y : f32[60, 50] = user \"y\") {\n  %p = aten::mm(%x, %y)\n  "
               "%b = aten::_softmax(%p, -1, false)\n  %c = aten::mm(%b, %x)\n  return user %c\n}\n",
               CONFIGURATIONS, closely);
}

TC_TEST(symbolic_sizes) {
  uint64_t seed = tc_test_seed();
  for (int32_t i = 0; i < 4; i++) {
    char text[500];
    int64_t m = i ? 1 + (int64_t)(tc_test_random(&seed) % 90) : 0,
            k = i == 1 ? 0 : 1 + (int64_t)(tc_test_random(&seed) % 40),
            n = i == 2 ? 0 : 1 + (int64_t)(tc_test_random(&seed) % 90);
    snprintf(
        text, sizeof text,
        "graph @f [s0 in [0, 4096] hint %lld, s1 in [0, 4096] hint %lld, s2 in [0, 4096] hint %lld] (%%x : f32[s0, "
        "s1] = user \"x\", %%y : f32[s1, s2] = user \"y\") {\n  %%z = aten::mm(%%x, %%y)\n  return user %%z\n}\n",
        (long long)m, (long long)k, (long long)n);
    TC_TRY(every(arena, text, CONFIGURATIONS, closely));
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_that_fill_tiles), cmocka_unit_test(any_sizes),      cmocka_unit_test(types),
      cmocka_unit_test(surroundings),          cmocka_unit_test(symbolic_sizes), cmocka_unit_test(held_rows)};
  return TC_RUN(tests);
}
