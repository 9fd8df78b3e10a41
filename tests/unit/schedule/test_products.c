// Products of matrices where lanes are threads: every configuration, at sizes that fill tiles and at others, against
// the references, by the kernel interpreter (which refuses races in shared memory). Each test is of a device, which
// multiplies numbers or tiles of them.
#include "core/kernel/templates/matmul.h"
#include "tests/unit/schedule/pipeline.h"

enum { CONFIGURATIONS = 8, OF_TILES = 2, OF_HALVES = 3 }; // OF_TILES: of f32, whose parts are two

// Number `want` of the tiled configurations, counted as they are offered; by products of tiles, or others.
typedef struct choice {
  int32_t want, tiled;
  bool by_tiles;
} choice;
static int32_t pick(void *self, tc_sv name, tc_sv stage, int32_t n, const tc_stage_config *configs) {
  choice *c = self;
  int32_t wanted = 0;
  (void)stage;
  c->tiled = 0;
  for (int32_t i = 0; i < n && tc_sv_is(name, "matmul"); i++)
    if (configs[i].params[TC_MATMUL_DEPTH] && c->by_tiles == (configs[i].params[TC_MATMUL_PLANES] > 0) &&
        c->tiled++ == c->want)
      wanted = i;
  return wanted;
}

static tc_device_props threads(bool by_tiles) {
  int32_t d = 0;
  while (devices[d].props.simd_bytes) d++;
  tc_device_props p = devices[d].props;
  if (by_tiles) p.tiles = 1ull << TC_BF16 | 1ull << TC_F16, p.shared_bytes = 1 << 17;
  return p;
}

// What a block has on chip, the rows of results that are held for later phases among it, must be there.
static tc_status fits(const tc_plan *plan, int64_t room) {
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
static tc_status every_of(tc_arena *arena, const char *text, bool by_tiles, int32_t least, tolerance tol) {
  pipeline p;
  tc_status s = pipeline_open(&p, arena, text);
  choice c = {.tiled = 1, .by_tiles = by_tiles};
  tc_device_props device = threads(by_tiles);
  for (c.want = 0; c.want < c.tiled && s == TC_OK; c.want++) {
    tc_plan *plan = NULL;
    p.pick = pick, p.pick_self = &c;
    s = pipeline_compile(&p, &device, true, &plan);
    if (s == TC_OK) s = fits(plan, device.shared_bytes);
    if (s == TC_OK) s = pipeline_check(&p, plan, tol);
    s = tc_status_note(s, "with configuration %d of %d of\n%s", (int)c.want, (int)c.tiled, text);
  }
  if (s == TC_OK && c.tiled < least) s = tc_error(TC_STATUS_MISMATCH, "%d configurations for\n%s", (int)c.tiled, text);
  pipeline_close(&p);
  return s;
}

static tc_status every(tc_arena *arena, const char *text, int32_t least, tolerance tol) {
  return every_of(arena, text, false, least, tol);
}

static tc_status product_of(tc_arena *arena, const char *type, int64_t m, int64_t k, int64_t n, bool by_tiles,
                            int32_t least, tolerance tol) {
  char text[400];
  snprintf(text, sizeof text,
           "graph @f (%%x : %s[%lld, %lld] = user \"x\", %%y : %s[%lld, %lld] = user \"y\") {\n  %%z = "
           "aten::mm(%%x, %%y)\n  return user %%z\n}\n",
           type, (long long)m, (long long)k, type, (long long)k, (long long)n);
  return every_of(arena, text, by_tiles, least, tol);
}

static tc_status product(tc_arena *arena, const char *type, int64_t m, int64_t k, int64_t n, int32_t least,
                         tolerance tol) {
  return product_of(arena, type, m, k, n, false, least, tol);
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
  TC_TRY(product(arena, "c64", 33, 20, 47, 1, closely));
  TC_TRY(product(arena, "i64", 33, 20, 47, 1, exactly));
  TC_TRY(product(arena, "i32", 33, 20, 47, CONFIGURATIONS, exactly));
  TC_TRY(product(arena, "f16", 20, 24, 40, CONFIGURATIONS, half));
  TC_TRY(product(arena, "bf16", 20, 24, 40, CONFIGURATIONS, half));
  return product(arena, "u8", 20, 24, 40, 0, exactly);
}

// A bias is added to sums in f32, of factors that are multiplied as they are.
TC_TEST(halves_with_a_bias) {
  static const tolerance half = {.eps = 1e-2, .least = 1e-3};
  static const char *const types[] = {"f16", "bf16"};
  for (int32_t i = 0; i < 2; i++) {
    char text[500];
    const char *t = types[i];
    snprintf(text, sizeof text,
             "graph @f (%%x : %s[130, 48] = user \"x\", %%w : %s[70, 48] = user \"w\", %%b : %s[70] = user \"b\") {\n"
             "  %%r = aten::relu(%%x)\n  %%z = aten::linear(%%r, %%w, %%b)\n  return user %%z\n}\n",
             t, t, t);
    TC_TRY(every_of(arena, text, true, 2, half));
  }
  return TC_OK;
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
  static const int32_t columns[] = {31, 50, 100, 200}, tiled[] = {8, 2, 0, 0};
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

// ---- By products of tiles ----
static tc_status tiles(tc_arena *arena, const char *type, int64_t m, int64_t k, int64_t n, int32_t least,
                       tolerance tol) {
  return product_of(arena, type, m, k, n, true, least, tol);
}

TC_TEST(tiles_of_any_size) {
  static const tolerance half = {.eps = 1e-2, .least = 1e-3};
  uint64_t seed = tc_test_seed();
  TC_TRY(tiles(arena, "f32", 128, 64, 128, OF_TILES, closely));
  for (int32_t i = 0; i < 3; i++) {
    int64_t size[3];
    for (int32_t d = 0; d < 3; d++) size[d] = 1 + (int64_t)(tc_test_random(&seed) % (d == 1 ? 100 : 150));
    if (size[2] == 1) size[2] = 2;
    TC_TRY(tiles(arena, "f32", size[0], size[1], size[2], OF_TILES, closely));
  }
  TC_TRY(tiles(arena, "f32", 1, 1, 2, OF_TILES, closely));
  TC_TRY(tiles(arena, "bf16", 50, 72, 68, OF_HALVES, half));
  TC_TRY(tiles(arena, "f16", 33, 45, 70, OF_HALVES, half));
  return tiles(arena, "f64", 33, 20, 47, 0, exactly);
}

// What follows, batches, operands that lie otherwise, rows that are held, sizes that are symbols, nothing to sum.
TC_TEST(surroundings_of_tiles) {
  TC_TRY(every_of(
      arena,
      "graph @f (%x : f32[70, 36] = user \"x\", %y : f32[68, 36] = user \"y\", %b : f32[68] = user \"b\", %r : "
      "f32[70, 68] = user \"r\") {\n  %p = aten::linear(%x, %y, %b)\n  %g = aten::sigmoid(%p)\n  %z = "
      "aten::add.Tensor(%g, %r)\n  return user %z, user %p\n}\n",
      true, OF_TILES, closely));
  TC_TRY(every_of(arena,
                  "graph @f (%x : f32[36, 70]{1, 36} = user \"x\", %y : f32[70, 45]{1, 70} = user \"y\") {\n  %p = "
                  "aten::mm(%x, %y)\n  %z = aten::t(%p)\n  %c = aten::contiguous(%z)\n  return user %c\n}\n",
                  true, OF_TILES, closely));
  TC_TRY(every_of(arena,
                  "graph @f (%x : f32[2, 40, 17] = user \"x\", %y : f32[2, 17, 66] = user \"y\") {\n  %z = "
                  "aten::bmm(%x, %y)\n  return user %z\n}\n",
                  true, OF_TILES, closely));
  TC_TRY(every_of(arena,
                  "graph @f (%x : f32[50, 24] = user \"x\", %y : f32[24, 60] = user \"y\") {\n  %p = aten::mm(%x, "
                  "%y)\n  %z = aten::_softmax(%p, -1, false)\n  return user %z\n}\n",
                  true, 1, closely));
  return every_of(arena,
                  "graph @f [s0 in [0, 4096] hint 70, s1 in [0, 4096] hint 0, s2 in [0, 4096] hint 40] (%x : f32[s0, "
                  "s1] = user \"x\", %y : f32[s1, s2] = user \"y\") {\n  %z = aten::mm(%x, %y)\n  return user "
                  "%z\n}\n",
                  true, OF_TILES, closely);
}

// What f32 has and its parts do not: infinities and NaN; lines of tiny and of huge numbers, of nothing in their first
// steps, and of such as grow from step to step, whose scales change; and the error of what is split, beside the sums of
// the factors' magnitudes.
enum { SPECIAL_ROWS = 70, SPECIAL_K = 140, SPECIAL_COLUMNS = 66, SPECIAL_KINDS = 7 };

static void fill_special(float *x, int64_t lines, int64_t line_stride, int64_t k_stride, int32_t kind, uint64_t *seed) {
  for (int64_t i = 0; i < lines; i++)
    for (int64_t k = 0; k < SPECIAL_K; k++) {
      float v = (float)(tc_test_random(seed) >> 40) / (1 << 23) - 1;
      if (kind == 1 && i == 3) v = k == 5 ? INFINITY : v;
      if (kind == 1 && i == 60) v = k == 7 ? NAN : k == 8 ? -INFINITY : v;
      if (kind == 2 && i < 20) v *= 1e-36f;
      if (kind == 2 && i == 65) v *= k ? 1e-30f : 1; // one of them is large
      if (kind == 3) v *= 1e18f;
      if (kind == 4) v *= i % 3 ? ldexpf(1, (int)(k * (i % 7) / 16)) : k < 40 + i ? 0 : 1;
      if (kind == 5) v *= ldexpf(1, (int)(i % 5 * 12 - k / (1 + i % 3)));
      if (kind == 6) v *= i % 2 ? 0x1p-140f : 0x1p70f;
      x[i * line_stride + k * k_stride] = v;
    }
}

static const char special_text[] = "graph @f (%x : f32[70, 140] = user \"x\", %y : f32[140, 66] = user \"y\") {\n  "
                                   "%z = aten::mm(%x, %y)\n  return user %z\n}\n";

// Compiles and runs the product with one configuration.
static tc_status run_special(pipeline *p, choice *c, tc_arena *arena, tc_tensor *out) {
  tc_device_props device = threads(true);
  tc_plan *plan = NULL;
  p->pick = pick, p->pick_self = c;
  TC_TRY(pipeline_compile(p, &device, true, &plan));
  plan_run r = {.p = plan, .symbols = p->symbols, .inputs = p->in};
  return plan_run_all(&r, arena, out);
}

static tc_status special(tc_arena *arena, int32_t kind) {
  pipeline p;
  uint64_t seed = tc_test_seed();
  choice c = {.tiled = 1, .by_tiles = true};
  tc_status s = pipeline_open(&p, arena, special_text);
  for (c.want = 0; c.want < c.tiled && s == TC_OK; c.want++) {
    float *x = (float *)tc_tensor_data(&p.in[0]), *y = (float *)tc_tensor_data(&p.in[1]);
    fill_special(x, SPECIAL_ROWS, SPECIAL_K, 1, kind, &seed);
    fill_special(y, SPECIAL_COLUMNS, 1, SPECIAL_COLUMNS, kind == 1 ? 0 : kind == 2 ? 3 : kind == 6 ? 5 : kind, &seed);
    tc_tensor out[MOST_IO] = {0};
    s = run_special(&p, &c, arena, out);
    for (int64_t i = 0; i < SPECIAL_ROWS * SPECIAL_COLUMNS && s == TC_OK; i++) {
      int64_t row = i / SPECIAL_COLUMNS, column = i % SPECIAL_COLUMNS;
      double want = 0, size = 0;
      for (int64_t k = 0; k < SPECIAL_K; k++) {
        double product = (double)x[row * SPECIAL_K + k] * (double)y[k * SPECIAL_COLUMNS + column];
        want += product, size += fabs(product);
      }
      double got = (double)((const float *)tc_tensor_data(&out[0]))[i], most = 0x1p-21 * size + 0x1p-149;
      if (fabs(got - want) <= most || (isnan(want) && isnan(got)) || (isinf((float)want) && (float)want == (float)got))
        continue;
      s = tc_error(TC_STATUS_MISMATCH, "kind %d, configuration %d: element %lld is %.9g instead of %.9g", (int)kind,
                   (int)c.want, (long long)i, got, want);
    }
    tc_tensor_unref(&out[0]);
  }
  pipeline_close(&p);
  return s;
}

// NaN in one row leaves the others the bits that they have without it, although scales change behind it: nothing is
// multiplied once more.
TC_TEST(nan_is_remembered) {
  enum { ROW = 60, AT = 5 };
  pipeline p;
  uint64_t seed = tc_test_seed();
  choice c = {.tiled = 1, .by_tiles = true};
  tc_status s = pipeline_open(&p, arena, special_text);
  for (c.want = 0; c.want < c.tiled && s == TC_OK; c.want++) {
    float *x = (float *)tc_tensor_data(&p.in[0]), *y = (float *)tc_tensor_data(&p.in[1]);
    tc_tensor with[MOST_IO] = {0}, without[MOST_IO] = {0};
    fill_special(x, SPECIAL_ROWS, SPECIAL_K, 1, 4, &seed);
    fill_special(y, SPECIAL_COLUMNS, 1, SPECIAL_COLUMNS, 0, &seed);
    for (int32_t k = 0; k < SPECIAL_K; k++) x[ROW * SPECIAL_K + k] = 0;
    s = run_special(&p, &c, arena, without);
    x[ROW * SPECIAL_K + AT] = NAN;
    if (s == TC_OK) s = run_special(&p, &c, arena, with);
    for (int64_t i = 0; i < SPECIAL_ROWS * SPECIAL_COLUMNS && s == TC_OK; i++) {
      float a = ((const float *)tc_tensor_data(&with[0]))[i], b = ((const float *)tc_tensor_data(&without[0]))[i];
      if (i / SPECIAL_COLUMNS == ROW ? isnan(a) : memcmp(&a, &b, sizeof a) == 0) continue;
      s = tc_error(TC_STATUS_MISMATCH, "configuration %d: element %lld is %.9g, without NaN %.9g", (int)c.want,
                   (long long)i, (double)a, (double)b);
    }
    tc_tensor_unref(&with[0]);
    tc_tensor_unref(&without[0]);
  }
  pipeline_close(&p);
  return s;
}

TC_TEST(what_does_not_split) {
  for (int32_t kind = 0; kind < SPECIAL_KINDS; kind++) TC_TRY(special(arena, kind));
  return TC_OK;
}

// Lanes that bring an odd number of runs of a, or not equally many, and a tile of which they do: the first are refused
// by the table of shapes and by the emission alike.
typedef struct tile_shape {
  int32_t rows, columns, lane_rows, lane_columns, depth, lanes;
  bool fits;
} tile_shape;
static const tile_shape tile_shapes[] = {{64, 64, 16, 32, 16, 256, false}, // one run of a
                                         {96, 64, 32, 32, 16, 192, false}, // two of a, not as many of b for all
                                         {96, 32, 32, 32, 32, 96, false},  // of b as well
                                         {64, 64, 32, 32, 32, 128, true},
                                         {64, 64, 32, 32, 16, 128, true}};

static int32_t give_shape(void *self, tc_sv name, tc_sv stage, int32_t n, const tc_stage_config *configs) {
  const tile_shape *t = self;
  choice c = {.by_tiles = true};
  int32_t at = pick(&c, name, stage, n, configs);
  tc_stage_config *given = (tc_stage_config *)(uintptr_t)&configs[at];
  if (!tc_sv_is(name, "matmul")) return at;
  assert_int_equal(given->params[TC_MATMUL_PLANES], 2);
  given->tile[0] = t->rows, given->tile[1] = t->columns, given->lanes = t->lanes;
  given->params[TC_MATMUL_LANE_ROWS] = t->lane_rows, given->params[TC_MATMUL_LANE_COLUMNS] = t->lane_columns;
  given->params[TC_MATMUL_DEPTH] = t->depth, given->params[TC_MATMUL_STAGES] = 1;
  return at;
}

TC_TEST(lanes_that_bring_odd_runs) {
  static const char text[] = "graph @f (%x : f32[70, 40] = user \"x\", %y : f32[40, 66] = user \"y\") {\n  %z = "
                             "aten::mm(%x, %y)\n  return user %z\n}\n";
  tc_device_props device = threads(true);
  for (size_t i = 0; i < sizeof tile_shapes / sizeof *tile_shapes; i++) {
    const tile_shape *t = &tile_shapes[i];
    pipeline p;
    tc_plan *plan = NULL;
    assert_int_equal(tc_matmul_mma_fits(t->rows, t->columns, t->depth, t->lanes), t->fits);
    TC_TRY(pipeline_open(&p, arena, text));
    p.pick = give_shape, p.pick_self = (void *)(uintptr_t)t;
    tc_status s = pipeline_compile(&p, &device, true, &plan);
    assert_int_equal(s == TC_OK, t->fits);
    if (s == TC_OK) s = pipeline_check(&p, plan, closely);
    else tc_status_free(s), s = TC_OK;
    pipeline_close(&p);
    TC_TRY(s, "with the shape %d", (int)i);
  }
  return TC_OK;
}

// Long columns are taken in parts where a core's cache is known and holds few rows, be panels packed before or by
// blocks.
static int32_t note_part(void *self, tc_sv name, tc_sv stage, int32_t n, const tc_stage_config *configs) {
  (void)stage, (void)n;
  if (tc_sv_is(name, "matmul")) *(int64_t *)self = configs[0].params[TC_MATMUL_PART];
  return 0;
}

TC_TEST(long_columns) {
  static const struct {
    int32_t columns;
    int64_t cache;
    bool parts;
  } cases[] = {{64, 1 << 16, true}, {64, 1 << 24, false}, {64, 0, false},
               {10, 1 << 16, true}, {10, 1 << 24, false}, {10, 0, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tc_sv text = tc_sv_printf(arena,
                              "graph @f (%%x : f32[50, 2090] = user \"x\", %%y : f32[2090, %d] = user \"y\") {\n"
                              "  %%z = aten::mm(%%x, %%y)\n  return user %%z\n}\n",
                              cases[i].columns);
    tc_device_props device = devices[0].props;
    assert_true(device.simd_bytes > 0);
    device.l2_bytes = cases[i].cache, device.cores = 1;
    int64_t part = -1;
    pipeline p;
    tc_plan *plan;
    TC_TRY(pipeline_open(&p, arena, tc_sv_z(arena, text)));
    p.pick = note_part, p.pick_self = &part;
    TC_TRY(pipeline_compile(&p, &device, true, &plan));
    assert_true(part >= 0 && part < 2090 && (part > 0) == cases[i].parts);
    if (part) TC_TRY(pipeline_check(&p, plan, closely));
    pipeline_close(&p);
  }
  return TC_OK;
}

// A norm of a product's rows joins its kernel where a core's cache holds the factor that every tile reads, else not.
TC_TEST(norms_behind_products) {
  static const char text[] =
      "graph @f (%x : f32[8, 128] = user \"x\", %w : f32[512, 128] = user \"w\", %r : f32[8, 512] = user \"r\") {\n"
      "  %y = aten::linear(%x, %w, none)\n  %s = aten::add.Tensor(%y, %r)\n"
      "  %n = aten::layer_norm(%s, [512], none, none, 1e-05, false)\n  return user %n\n}\n";
  static const int64_t caches[] = {512 * 128 * 4 * 2, 512 * 128 * 4 * 2 - 64};
  int32_t launches[2];
  for (int32_t i = 0; i < 2; i++) {
    tc_device_props device = devices[0].props;
    assert_true(device.simd_bytes > 0);
    device.l2_bytes = caches[i];
    pipeline p;
    tc_plan *plan;
    TC_TRY(pipeline_open(&p, arena, text));
    TC_TRY(pipeline_compile(&p, &device, true, &plan));
    launches[i] = plan->ops.count;
    TC_TRY(pipeline_check(&p, plan, closely));
    pipeline_close(&p);
  }
  assert_int_equal(launches[1], launches[0] + 1);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(norms_behind_products),
                                     cmocka_unit_test(long_columns),
                                     cmocka_unit_test(sizes_that_fill_tiles),
                                     cmocka_unit_test(any_sizes),
                                     cmocka_unit_test(types),
                                     cmocka_unit_test(halves_with_a_bias),
                                     cmocka_unit_test(surroundings),
                                     cmocka_unit_test(symbolic_sizes),
                                     cmocka_unit_test(held_rows),
                                     cmocka_unit_test(tiles_of_any_size),
                                     cmocka_unit_test(surroundings_of_tiles),
                                     cmocka_unit_test(lanes_that_bring_odd_runs),
                                     cmocka_unit_test(nan_is_remembered),
                                     cmocka_unit_test(what_does_not_split)};
  return TC_RUN(tests);
}
