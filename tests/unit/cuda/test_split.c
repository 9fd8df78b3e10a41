// Products by split numbers as a call: what it takes, what it asks of the device, and that its code compiles.
#include "tests/unit/cuda/products.h"

enum { PACKED = 3 * 128 * 32 * 2, SHARED = 8 * PACKED + 1024 };

static const row rows[] = {
    {"aten::mm", TC_F32, 2, {300, 200}, {200, 500}, {300, 500}, {0}, 0, true},
    {"aten::mm", TC_C64, 2, {300, 200}, {200, 500}, {300, 500}, {0}, 0, true},
    {"aten::bmm", TC_F32, 3, {4, 300, 200}, {4, 200, 500}, {4, 300, 500}, {0}, 0, true},
    {"aten::linear", TC_F32, 2, {300, 200}, {500, 200}, {300, 500}, {TC_EPI_GELU_ERF}, 1, true},
    {"aten::linear", TC_F32, 2, {300, 200}, {500, 200}, {300, 500}, {TC_EPI_SILU, TC_EPI_ADD}, 2, true},
    {"aten::linear", TC_C64, 2, {300, 200}, {500, 200}, {300, 500}, {TC_EPI_ADD}, 1, true},
    {"aten::linear", TC_C64, 2, {300, 200}, {500, 200}, {300, 500}, {TC_EPI_TANH}, 1, false},
    {"aten::linear", TC_F32, 2, {300, 200}, {500, 200}, {300, 500}, {TC_EPI_TANH, TC_EPI_SILU}, 2, false},
    {"aten::linear", TC_F32, 2, {300, 200}, {500, 200}, {300, 500}, {TC_EPI_SCALE}, 1, false},
    {"aten::mm", TC_F64, 2, {300, 200}, {200, 500}, {300, 500}, {0}, 0, false},
    {"aten::mm", TC_BF16, 2, {300, 200}, {200, 500}, {300, 500}, {0}, 0, false},
    {"aten::mm", TC_F32, 2, {300, 0}, {0, 500}, {300, 500}, {0}, 0, false},
    {"aten::mm", TC_F32, 2, {30, 200}, {200, 50}, {30, 50}, {0}, 0, false},                  // too little
    {"aten::bmm", TC_C64, 3, {100000, 4, 4}, {100000, 4, 4}, {100000, 4, 4}, {0}, 0, false}, // mostly padding
    {"aten::add", TC_F32, 2, {300, 200}, {300, 200}, {300, 200}, {0}, 0, false},
};

static bool has_compiler(rig *r) {
  product_node p;
  int64_t cost;
  make(&rows[0], 0, &p);
  assert_int_equal(r->split->supports(&r->host, r->d, &p.node, &cost), TC_STATUS_OK);
  if (cost < 0) assert_non_null(strstr(r->diag, "libnvrtc")); // where it is not installed, that is said
  return cost >= 0;
}

TC_TEST(what_is_taken) {
  rig r;
  product_node p;
  open_rig(&r);
  bool compiler = has_compiler(&r);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    int64_t cost;
    make(&rows[i], 0, &p);
    OK(r.split->supports(&r.host, r.d, &p.node, &cost));
    if ((cost >= 0) != (rows[i].taken && compiler)) fail_msg("row %d: cost %lld, %s", (int)i, (long long)cost, r.diag);
  }
  close_rig(&r);
  load(&r);
  r.split_wish = "false";
  OK(r.t->open(&r.host, 0, &r.d));
  int64_t cost;
  make(&rows[0], 0, &p);
  OK(r.split->supports(&r.host, r.d, &p.node, &cost));
  assert_true(cost < 0);
  close_rig(&r);
  return TC_OK;
}

// The library computes small products sooner, this large ones: the packing is of the sides, the product of their area.
TC_TEST(costs) {
  rig r;
  product_node p;
  open_rig(&r);
  if (has_compiler(&r)) {
    for (int32_t n = 512; n <= 8192; n *= 16) {
      row w = {"aten::mm", TC_F32, 2, {n, n}, {n, n}, {n, n}, {0}, 0, true};
      int64_t own, library;
      make(&w, 0, &p);
      OK(r.split->supports(&r.host, r.d, &p.node, &own));
      OK(r.calls->supports(&r.host, r.d, &p.node, &library));
      assert_true(own > 0 && library > 0);
      assert_int_equal(own < library, n == 8192);
    }
  }
  close_rig(&r);
  return TC_OK;
}

// Two launches of code that compiles without spilled registers, over a workspace that was asked for.
TC_TEST(launches) {
  rig r;
  product_node p;
  load(&r);
  r.spills = "error";
  OK(r.t->open(&r.host, 0, &r.d));
  tc_handle stream, memory, scratch;
  OK(r.t->stream_create(r.d, &stream));
  OK(r.t->alloc(r.d, 64 << 20, &memory));
  for (size_t i = 0; i < sizeof rows / sizeof *rows && has_compiler(&r); i++) {
    void *prepared = NULL;
    uint64_t workspace = 0;
    const row *w = &rows[i];
    make(w, memory, &p);
    int32_t s = r.split->prepare(&r.host, r.d, &p.node, &prepared, &workspace);
    if (w->taken) OK(s);
    if (!w->taken) {
      if (s == TC_STATUS_OK) r.split->destroy(prepared);
      continue;
    }
    int64_t parts = w->dtype == TC_C64 ? 2 : 1, batch = w->rank == 3 ? 4 : 1;
    uint64_t x = (uint64_t)batch * 3 * (uint64_t)((200 * parts + 31) / 32) * PACKED,
             y = (uint64_t)batch * (uint64_t)((500 * parts + 127) / 128) * (uint64_t)((200 * parts + 31) / 32) * PACKED;
    assert_int_equal(workspace, x + y + 512 + 4 * (uint64_t)batch * (300 + 500 * (uint64_t)parts));
    OK(r.t->alloc(r.d, workspace + 100, &scratch));
    int32_t before = r.state()->launches;
    r.params(0, NULL); // the two kernels differ in theirs
    OK(r.split->run(prepared, stream, p.views, &p.out, scratch, 100));
    const fake_state *f = r.state();
    assert_int_equal(f->launches - before, 2);
    assert_string_equal(f->kernel, "tc_split_product");
    assert_int_equal(f->grid, 3 * ((500 * parts + 127) / 128));
    assert_int_equal(f->grid_y, batch);
    assert_int_equal(f->lanes, 384);
    assert_int_equal(f->shared_bytes, SHARED);
    assert_int_equal(f->dynamic_shared, SHARED);
    r.make_fail("cuLaunchKernelEx", 1, 700);
    assert_int_equal(r.split->run(prepared, stream, p.views, &p.out, scratch, 100), TC_STATUS_DEVICE);
    assert_non_null(strstr(r.diag, "@tc_split_"));
    r.make_fail(NULL, 0, 0);
    r.split->destroy(prepared);
    r.t->free(r.d, scratch);
  }
  r.t->free(r.d, memory);
  r.t->stream_destroy(r.d, stream);
  close_rig(&r);
  return TC_OK;
}

// A constant factor is packed once: runs pack the other one, and read what was kept.
TC_TEST(constant_factors) {
  enum { PLACE = 256 };
  rig r;
  product_node p;
  open_rig(&r);
  tc_handle stream, memory, scratch, store;
  OK(r.t->stream_create(r.d, &stream));
  OK(r.t->alloc(r.d, 64 << 20, &memory));
  for (uint64_t constant = 1; constant < 4 && has_compiler(&r); constant++) { // bit 0: of 300 rows; 1: of 500 columns
    void *prepared = NULL;
    uint64_t workspace = 0, kept = 0;
    make(&rows[0], memory, &p);
    p.node.constant = constant;
    OK(r.split->prepare(&r.host, r.d, &p.node, &prepared, &workspace));
    OK(r.split->kept(prepared, &kept));
    bool columns = constant != 1;
    uint64_t row_bytes = 3 * 7 * PACKED + 4 * 300 + 2 * PLACE, column_bytes = 4 * 7 * PACKED + 4 * 500 + 2 * PLACE;
    assert_int_equal(kept, columns ? column_bytes : row_bytes);
    assert_int_equal(workspace, columns ? row_bytes : column_bytes);
    OK(r.t->alloc(r.d, workspace, &scratch));
    OK(r.t->alloc(r.d, kept, &store));
    int64_t size = (int64_t)kept, one = 1;
    tc_view to = {.dtype = TC_U8, .rank = 1, .sizes = &size, .strides = &one, .memory = store};
    const fake_state *f = r.state();
    int32_t before = f->launches;
    r.params(0, NULL);
    OK(r.split->keep(prepared, stream, p.views, &to, 0, 0));
    assert_int_equal(f->launches - before, 1);
    assert_string_equal(f->kernel, "tc_split_pack");
    assert_int_equal(f->grid, (columns ? 4 : 3) * 7);
    p.views[p.node.n_operands] = to;
    r.make_fail("cuLaunchKernelEx", 1, 700); // the second launch of a run is the product
    assert_int_equal(r.split->run(prepared, stream, p.views, &p.out, scratch, 0), TC_STATUS_DEVICE);
    r.make_fail(NULL, 0, 0);
    assert_string_equal(f->kernel, "tc_split_pack");
    assert_int_equal(f->grid, (columns ? 3 : 4) * 7);
    r.params(7, (const int32_t[]){8, 8, 8, 8, 8, 4, 4}); // what both kernels have; of magnitudes the low halves
    OK(r.split->run(prepared, stream, p.views, &p.out, scratch, 0));
    assert_string_equal(f->kernel, "tc_split_product");
    const uint64_t *v = f->words; // of x, y and the result the addresses; packed x and y, their magnitudes
    uint64_t own = columns ? 0 : 1, aligned = (store + PLACE - 1) / PLACE * PLACE,
             packed = (aligned + 4 * (columns ? 500 : 300) + PLACE - 1) / PLACE * PLACE;
    assert_int_equal(v[4 - own], packed);
    assert_int_equal(v[6 - own], (uint32_t)aligned);
    assert_true(v[3 + own] >= scratch && v[3 + own] < scratch + workspace);
    assert_int_equal(v[5 + own], (uint32_t)((scratch + PLACE - 1) / PLACE * PLACE));
    r.split->destroy(prepared);
    r.t->free(r.d, scratch), r.t->free(r.d, store);
  }
  r.params(0, NULL);
  r.t->free(r.d, memory);
  r.t->stream_destroy(r.d, stream);
  close_rig(&r);
  return TC_OK;
}

// A preparation on a device of its own.
static void prepare_anew(rig *r) {
  product_node p;
  void *prepared = NULL;
  uint64_t workspace = 0;
  if (r->t->open(&r->host, 0, &r->d) != TC_STATUS_OK) fail_msg("%s", r->diag);
  make(&rows[0], 0, &p);
  if (r->split->prepare(&r->host, r->d, &p.node, &prepared, &workspace) != TC_STATUS_OK) fail_msg("%s", r->diag);
  r->split->destroy(prepared);
  close_rig(r);
}

// A second process takes the code from the cache; damaged code, other code and a host without a cache compile.
TC_TEST(code_is_kept) {
  rig r;
  open_rig(&r);
  bool compiler = has_compiler(&r);
  close_rig(&r);
  if (!compiler) return TC_OK;
  load(&r);
  rig_give_cache(&r);
  prepare_anew(&r); // asks for the code, and whether cuBLASLt was used
  assert_int_equal(r.n_asked, 2);
  assert_int_equal(r.n_kept, 1);
  assert_memory_equal(r.kept[0].data, "\177ELF", 4);
  assert_non_null(strstr(r.kept[0].key, "sm_90a"));
  prepare_anew(&r);
  assert_int_equal(r.n_asked, 4);
  assert_int_equal(r.n_kept, 1);
  r.kept[0].data[0] = 'x'; // the driver refuses it
  prepare_anew(&r);
  assert_int_equal(r.n_asked, 6);
  assert_int_equal(r.n_kept, 2);
  assert_memory_equal(r.kept[1].data + 1, r.kept[0].data + 1, 64);
  r.spills = "error"; // what is kept does not tell
  prepare_anew(&r);
  assert_int_equal(r.n_asked, 7);
  assert_int_equal(r.n_kept, 2);
  r.spills = NULL;
  r.host.struct_size = offsetof(tc_host, cache_get); // of an earlier version
  prepare_anew(&r);
  assert_int_equal(r.n_asked, 7);
  rig_drop_cache(&r);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_taken), cmocka_unit_test(costs),
                                     cmocka_unit_test(launches), cmocka_unit_test(constant_factors),
                                     cmocka_unit_test(code_is_kept)};
  return TC_RUN(tests);
}
