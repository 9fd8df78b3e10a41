// Attention as a call: what it takes and what it leaves to the template, and the launch that it makes.
#include "tests/unit/cuda/rig.h"

typedef struct row {
  tc_dtype dtype;
  int32_t rank;
  int64_t q[4], k[4], v[4];
  int32_t n_operands;
  bool taken;
} row;
static const row rows[] = {
    {TC_BF16, 4, {2, 8, 300, 128}, {2, 8, 200, 128}, {2, 8, 200, 128}, 3, true},
    {TC_F16, 4, {2, 8, 300, 64}, {2, 2, 200, 64}, {2, 2, 200, 64}, 3, true}, // groups of heads
    {TC_F16, 3, {8, 300, 64}, {8, 200, 64}, {8, 200, 64}, 3, true},
    {TC_F32, 4, {2, 8, 300, 64}, {2, 8, 200, 64}, {2, 8, 200, 64}, 3, true},
    {TC_F32, 3, {8, 300, 32}, {8, 200, 32}, {8, 200, 32}, 3, true},
    {TC_F32, 4, {2, 8, 300, 96}, {2, 4, 200, 96}, {2, 4, 200, 96}, 3, true},
    {TC_F32, 4, {2, 8, 300, 128}, {2, 8, 200, 128}, {2, 8, 200, 128}, 3, true},
    {TC_F32, 4, {2, 8, 300, 48}, {2, 8, 200, 48}, {2, 8, 200, 48}, 3, false},
    {TC_F32, 4, {2, 8, 300, 160}, {2, 8, 200, 160}, {2, 8, 200, 160}, 3, false},
    {TC_F64, 4, {2, 8, 300, 64}, {2, 8, 200, 64}, {2, 8, 200, 64}, 3, false},
    {TC_BF16, 4, {2, 8, 300, 80}, {2, 8, 200, 80}, {2, 8, 200, 80}, 3, false},
    {TC_BF16, 4, {2, 8, 300, 64}, {2, 8, 200, 64}, {2, 8, 200, 128}, 3, false},
    {TC_BF16, 4, {2, 8, 300, 64}, {2, 8, 200, 64}, {2, 8, 200, 64}, 4, false}, // a mask
    {TC_BF16, 4, {2, 8, 300, 64}, {2, 8, 0, 64}, {2, 8, 0, 64}, 3, false},
    {TC_BF16, 4, {2, 8, 300, 64}, {1, 8, 200, 64}, {1, 8, 200, 64}, 3, false},
    {TC_BF16, 4, {2, 8, 300, 64}, {2, 3, 200, 64}, {2, 3, 200, 64}, 3, false},
    {TC_BF16, 4, {1, 1, 3, 64}, {1, 1, 3, 64}, {1, 1, 3, 64}, 3, false}, // too little
    {TC_BF16, 2, {300, 64}, {200, 64}, {200, 64}, 3, false},
};

enum { LOGS = 5, VIEWS };
typedef struct tensors {
  tc_view views[VIEWS];
  int64_t strides[VIEWS][4];
  tc_call_node node;
} tensors;

static void make(const row *w, tensors *t) {
  const int64_t *sizes[VIEWS] = {w->q, w->k, w->v, w->k, w->q, w->q};
  for (int32_t i = 0; i < VIEWS; i++) {
    int32_t rank = i == LOGS ? w->rank - 1 : w->rank;
    int64_t stride = 1;
    for (int32_t d = rank - 1; d >= 0; d--) t->strides[i][d] = stride, stride *= sizes[i][d];
    t->views[i] = (tc_view){.dtype = w->dtype, .rank = rank, .sizes = sizes[i], .strides = t->strides[i]};
  }
  t->views[LOGS].dtype = TC_F32;
  t->node = (tc_call_node){.struct_size = sizeof t->node, .op = TC_SV("aten::scaled_dot_product_attention")};
  t->node.operands = t->views, t->node.n_operands = w->n_operands, t->node.results = &t->views[4],
  t->node.n_results = 1;
}

// The same with the logarithms of the rows' sums as a second result.
static void want_logs(tensors *t) { t->node.op = TC_SV("aten::_attention"), t->node.n_results = 2; }

static bool has_compiler(rig *r, tensors *t) {
  int64_t cost;
  make(&rows[0], t);
  assert_int_equal(r->attention->supports(&r->host, r->d, &t->node, &cost), TC_STATUS_OK);
  if (cost < 0) assert_non_null(strstr(r->diag, "libnvrtc")); // where it is not installed, that is said
  return cost >= 0;
}

TC_TEST(what_is_taken) {
  rig r;
  tensors t;
  open_rig(&r);
  bool compiler = has_compiler(&r, &t);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    int64_t cost;
    make(&rows[i], &t);
    OK(r.attention->supports(&r.host, r.d, &t.node, &cost));
    if ((cost >= 0) != (rows[i].taken && compiler)) fail_msg("row %d: cost %lld, %s", (int)i, (long long)cost, r.diag);
    want_logs(&t);
    OK(r.attention->supports(&r.host, r.d, &t.node, &cost));
    assert_int_equal(cost >= 0, rows[i].taken && compiler);
    if (!rows[i].taken || rows[i].rank < 3) continue;
    // Rows at odd places, and elements that do not follow each other, cannot be copied in pieces.
    t.strides[1][rows[i].rank - 2] += 1;
    OK(r.attention->supports(&r.host, r.d, &t.node, &cost));
    assert_true(cost < 0);
    make(&rows[i], &t);
    t.strides[0][rows[i].rank - 1] = 2;
    OK(r.attention->supports(&r.host, r.d, &t.node, &cost));
    assert_true(cost < 0);
  }
  close_rig(&r);
  return TC_OK;
}

TC_TEST(launch) {
  rig r;
  tensors t;
  open_rig(&r);
  void *prepared = NULL;
  uint64_t workspace = 1;
  tc_handle stream, memory;
  OK(r.t->stream_create(r.d, &stream));
  OK(r.t->alloc(r.d, 1 << 20, &memory));
  if (has_compiler(&r, &t)) {
    make(&rows[1], &t);
    OK(r.attention->prepare(&r.host, r.d, &t.node, &prepared, &workspace));
    assert_int_equal(workspace, 0);
    for (int32_t odd = 0; odd < 2; odd++) {
      for (int32_t i = 0; i < VIEWS; i++) t.views[i].memory = memory, t.views[i].offset = 4096 * i + 2 * odd;
      r.params(13, (int32_t[]){8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4});
      OK(r.attention->run(prepared, stream, t.views, &t.views[4], 0, 0));
      const fake_state *s = r.state();
      assert_string_equal(s->kernel, "tc_attention");
      assert_int_equal(s->grid, 3 * 2 * 8); // 300 rows are three tiles
      assert_int_equal(s->lanes, 256);      // by warpgroup products
      assert_int_equal(s->shared_bytes, (128 + 4 * 128) * 64 * 2 + 1024);
      assert_int_equal(s->words[1], memory + 4096 + 2 * (uint64_t)odd);
      assert_int_equal(s->words[3], memory + 4 * 4096 + 2 * (uint64_t)odd);
      assert_int_equal(s->words[4], 0);                        // no logarithms are wanted
      const uint64_t numbers[] = {300, 200, 8, 4, 3, 0, !odd}; // unaligned tensors are copied element by element
      for (int32_t i = 0; i < 7; i++) assert_int_equal(s->words[5 + i], numbers[i]);
    }
    r.attention->destroy(prepared);
    want_logs(&t);
    OK(r.attention->prepare(&r.host, r.d, &t.node, &prepared, &workspace));
    OK(r.attention->run(prepared, stream, t.views, &t.views[4], 0, 0));
    assert_int_equal(r.state()->words[4], memory + (uint64_t)t.views[LOGS].offset);
    r.attention->destroy(prepared);
  }
  r.t->free(r.d, memory);
  r.t->stream_destroy(r.d, stream);
  close_rig(&r);
  return TC_OK;
}

// Every code that is taken compiles, without spilled registers, and has the shared memory that it is launched with.
TC_TEST(every_code) {
  rig r;
  tensors t;
  load(&r);
  r.spills = "error";
  OK(r.t->open(&r.host, 0, &r.d));
  if (has_compiler(&r, &t)) {
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
      const row *w = &rows[i / 2];
      bool logs = i % 2;
      void *prepared = NULL;
      uint64_t workspace;
      if (!w->taken) continue;
      make(w, &t);
      if (logs) want_logs(&t);
      OK(r.attention->prepare(&r.host, r.d, &t.node, &prepared, &workspace));
      int64_t head = w->q[w->rank - 1], keys = head == 128 && logs ? 16 : head == 96 || logs ? 32 : 64;
      if (w->dtype == TC_F32)
        assert_int_equal(r.state()->dynamic_shared, (128 * (head + 8) + 2 * keys * (2 * head + 12)) * 4);
      r.attention->destroy(prepared);
    }
  }
  close_rig(&r);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_taken), cmocka_unit_test(launch),
                                     cmocka_unit_test(every_code)};
  return TC_RUN(tests);
}
