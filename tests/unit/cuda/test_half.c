// Products of 16-bit floats as a call: what it takes, into which tiles and parts it cuts, what it asks of the device,
// and that its code compiles.
#include "tests/unit/cuda/products.h"

enum { SHARED = 196608 + 1024, CORES = 132 };

static const row rows[] = {
    {"aten::mm", TC_BF16, 2, {304, 200}, {200, 504}, {304, 504}, {0}, 0, true},
    {"aten::bmm", TC_F16, 3, {4, 304, 200}, {4, 200, 504}, {4, 304, 504}, {0}, 0, true},
    {"aten::linear", TC_F16, 2, {300, 200}, {501, 200}, {300, 501}, {TC_EPI_GELU_ERF}, 1, true}, // odd results
    {"aten::linear", TC_BF16, 2, {304, 200}, {504, 200}, {304, 504}, {TC_EPI_SILU, TC_EPI_ADD}, 2, true},
    {"aten::mm", TC_BF16, 2, {64, 16384}, {16384, 128}, {64, 128}, {0}, 0, true}, // in parts
    {"aten::mm", TC_BF16, 2, {304, 201}, {201, 504}, {304, 504}, {0}, 0, false},  // rows of 402 bytes
    {"aten::linear", TC_BF16, 2, {304, 200}, {504, 200}, {304, 504}, {TC_EPI_TANH, TC_EPI_SILU}, 2, false},
    {"aten::mm", TC_F32, 2, {304, 200}, {200, 504}, {304, 504}, {0}, 0, false},
    {"aten::mm", TC_BF16, 2, {304, 0}, {0, 504}, {304, 504}, {0}, 0, false},
    {"aten::mm", TC_BF16, 2, {32, 200}, {200, 48}, {32, 48}, {0}, 0, false},               // too little
    {"aten::bmm", TC_BF16, 3, {40000, 8, 8}, {40000, 8, 8}, {40000, 8, 8}, {0}, 0, false}, // mostly padding
    {"aten::add", TC_BF16, 2, {304, 200}, {304, 200}, {304, 200}, {0}, 0, false},
};

static bool has_compiler(rig *r) {
  product_node p;
  int64_t cost;
  make(&rows[0], 0, &p);
  assert_int_equal(r->half->supports(&r->host, r->d, &p.node, &cost), TC_STATUS_OK);
  if (cost < 0) assert_non_null(strstr(r->diag, "libnvrtc")); // where it is not installed, that is said
  return cost >= 0;
}

static int64_t cost_with(const char *wish, const row *w) {
  rig r;
  product_node p;
  int64_t cost;
  load(&r);
  r.half_wish = wish;
  OK(r.t->open(&r.host, 0, &r.d));
  make(w, 0, &p);
  OK(r.half->supports(&r.host, r.d, &p.node, &cost));
  close_rig(&r);
  return cost;
}

TC_TEST(what_is_taken) {
  rig r;
  open_rig(&r);
  bool compiler = has_compiler(&r);
  close_rig(&r);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    int64_t cost = cost_with("always", &rows[i]);
    if (cost != (rows[i].taken && compiler ? 0 : -1)) fail_msg("row %d: cost %lld", (int)i, (long long)cost);
  }
  assert_int_equal(cost_with("false", &rows[0]), -1);
  // By the estimates: the library speaks for itself where it does what is asked; where it does not, a kernel behind it
  // counts.
  row w = {"aten::linear", TC_BF16, 2, {256, 16384}, {512, 16384}, {256, 512}, {TC_EPI_GELU_TANH}, 1, true};
  int64_t own = cost_with(NULL, &w);
  assert_int_equal(own > 0, compiler);
  w.steps[0] = TC_EPI_GELU_ERF;
  assert_int_equal(cost_with(NULL, &w), -1);
  return TC_OK;
}

// One way, with all that it asks of the device: tiles of so many columns in so many parts.
static void run_way(rig *r, const row *w, int32_t variant, tc_handle stream, tc_handle memory) {
  product_node p;
  void *prepared = NULL;
  uint64_t workspace = 0;
  tc_handle scratch = 0;
  make(w, memory, &p);
  p.node.variant = variant;
  if (r->half->prepare(&r->host, r->d, &p.node, &prepared, &workspace) != TC_STATUS_OK) fail_msg("%s", r->diag);
  if (r->t->alloc(r->d, workspace + 100, &scratch) != TC_STATUS_OK) fail_msg("%s", r->diag);
  const fake_state *f = r->state();
  int32_t launches = f->launches, maps = f->tensor_maps;
  int64_t batch = w->rank == 3 ? w->d[0] : 1, m = w->d[w->rank - 2], n = w->d[w->rank - 1];
  if (r->half->run(prepared, stream, p.views, &p.out, scratch, 100) != TC_STATUS_OK) fail_msg("%s", r->diag);
  assert_int_equal(f->tensor_maps - maps, 2);
  int64_t columns = 2 * (int64_t)f->map_box[1];
  if (w->op[6] != 'l') columns = columns == 128 && f->map_sizes[0] == (uint64_t)n ? 0 : columns; // by 64 of k
  assert_int_equal(f->map_sizes[2], batch > 1 ? batch : 1);
  assert_int_equal(f->shared_bytes, workspace ? 0 : SHARED);
  assert_int_equal(f->dynamic_shared, SHARED);
  assert_int_equal(f->launches - launches, workspace ? 2 : 1);
  assert_string_equal(f->kernel, workspace ? "tc_half_finish" : "tc_half_product");
  assert_int_equal(f->lanes, workspace ? 256 : 384);
  if (workspace) {
    assert_int_equal(f->grid, (batch * m * n + 255) / 256);
    assert_true(workspace >= (uint64_t)(4 * batch * m * n)); // sums in f32
  } else {
    int64_t pairs = (m + 255) / 256, wide = batch * pairs * ((n + 255) / 256),
            narrow = batch * pairs * ((n + 127) / 128);
    if (columns) assert_int_equal(f->grid, 2 * (columns == 256 ? wide : narrow));
    else assert_true(f->grid == 2 * wide || f->grid == 2 * narrow);
    assert_true(f->grid <= CORES);
  }
  r->make_fail("cuTensorMapEncodeTiled", 1, 700);
  assert_int_equal(r->half->run(prepared, stream, p.views, &p.out, scratch, 100), TC_STATUS_DEVICE);
  assert_non_null(strstr(r->diag, "cuTensorMapEncodeTiled"));
  r->make_fail("cuLaunchKernelEx", 0, 700);
  assert_int_equal(r->half->run(prepared, stream, p.views, &p.out, scratch, 100), TC_STATUS_DEVICE);
  assert_non_null(strstr(r->diag, "@tc_half_"));
  r->make_fail(NULL, 0, 0);
  // Bulk copies want multiples of 16 bytes.
  p.views[0].offset = 2, launches = f->launches, maps = f->tensor_maps;
  if (r->half->run(prepared, stream, p.views, &p.out, scratch, 100) != TC_STATUS_OK) fail_msg("%s", r->diag);
  assert_int_equal(f->launches - launches, 1);
  assert_int_equal(f->tensor_maps, maps);
  assert_string_equal(f->kernel, "tc_half_plain");
  assert_int_equal(f->grid, (batch * m * n + 255) / 256);
  r->half->destroy(prepared);
  r->t->free(r->d, scratch);
}

// Every way of what is taken, over code that compiles without spilled registers.
TC_TEST(launches) {
  rig r;
  product_node p;
  load(&r);
  r.spills = "error", r.half_wish = "always";
  OK(r.t->open(&r.host, 0, &r.d));
  tc_handle stream, memory;
  OK(r.t->stream_create(r.d, &stream));
  OK(r.t->alloc(r.d, 64 << 20, &memory));
  r.params(0, NULL); // kernels differ in theirs
  for (size_t i = 0; i < sizeof rows / sizeof *rows && has_compiler(&r); i++) {
    void *prepared = NULL;
    uint64_t workspace;
    int32_t n = 0;
    make(&rows[i], memory, &p);
    if (!rows[i].taken) {
      if (r.half->prepare(&r.host, r.d, &p.node, &prepared, &workspace) == TC_STATUS_OK) r.half->destroy(prepared);
      continue;
    }
    OK(r.half->variants(&r.host, r.d, &p.node, &n));
    assert_true(n >= 2);
    if (rows[i].a[1] == 16384) assert_int_equal(n, 9);
    for (int32_t v = 0; v <= n; v++) run_way(&r, &rows[i], v, stream, memory);
  }
  r.t->free(r.d, memory);
  r.t->stream_destroy(r.d, stream);
  close_rig(&r);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_taken), cmocka_unit_test(launches)};
  return TC_RUN(tests);
}
