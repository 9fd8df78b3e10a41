// Attention's derivatives as calls: what they take and what they leave to the templates, and the launches that they
// make.
#include "tests/unit/cuda/rig.h"

enum { GRAD, QUERY, KEY, VALUE, LOGARITHM, DELTA, RESULT, VIEWS, WORDS = 14 };

typedef struct row {
  tc_dtype dtype;
  int32_t rank;
  int64_t q[4], k[4];
  bool taken;
} row;
static const row rows[] = {
    {TC_F32, 4, {2, 8, 300, 64}, {2, 8, 200, 64}, true},
    {TC_F32, 4, {2, 8, 300, 32}, {2, 8, 200, 32}, true},
    {TC_F32, 4, {2, 8, 300, 96}, {2, 8, 200, 96}, true},
    {TC_F32, 3, {8, 300, 128}, {8, 200, 128}, true},
    {TC_F16, 4, {2, 8, 300, 64}, {2, 8, 200, 64}, true},
    {TC_BF16, 3, {8, 300, 64}, {8, 200, 64}, true},
    {TC_F16, 4, {2, 8, 300, 128}, {2, 8, 200, 128}, true},
    {TC_BF16, 4, {2, 8, 300, 128}, {2, 8, 200, 128}, true},
    {TC_F32, 4, {2, 8, 300, 48}, {2, 8, 200, 48}, false},
    {TC_F32, 4, {2, 8, 300, 160}, {2, 8, 200, 160}, false},
    {TC_BF16, 4, {2, 8, 300, 32}, {2, 8, 200, 32}, false},
    {TC_F64, 4, {2, 8, 300, 64}, {2, 8, 200, 64}, false},
    {TC_F32, 4, {2, 8, 300, 64}, {2, 4, 200, 64}, false}, // groups of heads are expanded before
    {TC_F32, 4, {2, 8, 300, 64}, {1, 8, 200, 64}, false},
    {TC_F32, 4, {2, 8, 300, 64}, {2, 8, 0, 64}, false},
    {TC_F32, 4, {1, 1, 3, 64}, {1, 1, 3, 64}, false}, // too little
    {TC_F32, 2, {300, 64}, {200, 64}, false},
};

typedef struct tensors {
  tc_view views[VIEWS];
  int64_t sizes[VIEWS][4], strides[VIEWS][4];
  tc_call_node node;
} tensors;

static void make(const row *w, bool by_keys, tensors *t) {
  for (int32_t i = 0; i < VIEWS; i++) {
    bool number = i == LOGARITHM || i == DELTA, key = i == KEY || i == VALUE || (i == RESULT && by_keys);
    int32_t rank = number ? w->rank - 1 : w->rank;
    int64_t stride = 1;
    memcpy(t->sizes[i], key ? w->k : w->q, sizeof w->q);
    if (i == RESULT && by_keys) t->sizes[i][rank - 1] *= 2;
    for (int32_t d = rank - 1; d >= 0; d--) t->strides[i][d] = stride, stride *= t->sizes[i][d];
    t->views[i] = (tc_view){.dtype = number ? TC_F32 : w->dtype, .rank = rank};
    t->views[i].sizes = t->sizes[i], t->views[i].strides = t->strides[i];
  }
  t->node = (tc_call_node){.struct_size = sizeof t->node, .operands = t->views, .n_operands = RESULT};
  t->node.op = by_keys ? TC_SV("aten::_attention_backward_pair") : TC_SV("aten::_attention_backward_query");
  t->node.results = &t->views[RESULT], t->node.n_results = 1;
}

static int64_t cost_of(rig *r, const tensors *t) {
  int64_t cost;
  assert_int_equal(r->attention_backward->supports(&r->host, r->d, &t->node, &cost), TC_STATUS_OK);
  return cost;
}

static bool has_compiler(rig *r, tensors *t) {
  make(&rows[0], false, t);
  bool has = cost_of(r, t) >= 0;
  if (!has) assert_non_null(strstr(r->diag, "libnvrtc")); // where it is not installed, that is said
  return has;
}

TC_TEST(what_is_taken) {
  rig r;
  tensors t;
  open_rig(&r);
  bool compiler = has_compiler(&r, &t);
  for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
    const row *w = &rows[i / 2];
    make(w, i % 2, &t);
    if ((cost_of(&r, &t) >= 0) != (w->taken && compiler)) fail_msg("row %d: %s", (int)i / 2, r.diag);
    if (!w->taken) continue;
    t.node.n_operands++; // a mask
    assert_true(cost_of(&r, &t) < 0);
    // Rows at odd places, elements that do not follow each other, numbers of another type or of other rows.
    for (int32_t k = GRAD; k <= RESULT; k++) {
      if (k == LOGARITHM || k == DELTA) continue;
      make(w, i % 2, &t);
      t.strides[k][w->rank - 2]++;
      assert_true(cost_of(&r, &t) < 0);
      make(w, i % 2, &t);
      t.strides[k][w->rank - 1] = 2;
      assert_true(cost_of(&r, &t) < 0);
    }
    make(w, i % 2, &t);
    t.views[DELTA].dtype = TC_F64;
    assert_true(cost_of(&r, &t) < 0);
    make(w, i % 2, &t);
    t.sizes[LOGARITHM][w->rank - 2] = 1;
    assert_true(cost_of(&r, &t) < 0);
    make(w, i % 2, &t);
    t.strides[LOGARITHM][w->rank - 2] = 3; // they may lie anywhere
    assert_int_equal(cost_of(&r, &t) >= 0, compiler);
  }
  close_rig(&r);
  return TC_OK;
}

// Rows of the other side in a tile.
static int32_t others_of(const row *w, bool by_keys) {
  int64_t head = w->q[w->rank - 1];
  if (w->dtype == TC_F32 && by_keys) return head == 32 ? 64 : head == 96 ? 16 : 32;
  return head <= 64 ? 64 : 32;
}
static int32_t shared_of(const row *w, bool by_keys) {
  int64_t head = w->q[w->rank - 1], row = w->dtype == TC_F32 ? (head + 8) * 4 : head * 2;
  return (int32_t)(2 * 128 * row + 2 * others_of(w, by_keys) * (2 * row + 2 * 4));
}

static void launches(rig *r, tensors *t, tc_handle stream, tc_handle memory, const row *w, bool by_keys) {
  static const int32_t own[2][4] = {{QUERY, GRAD, KEY, VALUE}, {KEY, VALUE, QUERY, GRAD}};
  void *prepared = NULL;
  uint64_t workspace = 1;
  make(w, by_keys, t);
  assert_int_equal(r->attention_backward->prepare(&r->host, r->d, &t->node, &prepared, &workspace), TC_STATUS_OK);
  assert_int_equal(workspace, 0);
  r->params(WORDS, (int32_t[]){8, 8, 8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4});
  for (int32_t odd = 0; odd < 2; odd++) {
    for (int32_t i = 0; i < VIEWS; i++)
      t->views[i].memory = memory, t->views[i].offset = 4096 * i + (i == VALUE && odd ? 4 : 0);
    assert_int_equal(r->attention_backward->run(prepared, stream, t->views, &t->views[RESULT], 0, 0), TC_STATUS_OK);
    const fake_state *s = r->state();
    assert_string_equal(s->kernel, by_keys ? "tc_attention_by_keys" : "tc_attention_by_queries");
    int32_t tiles = by_keys ? 2 : 3; // of 128 rows
    assert_int_equal(s->grid, tiles * 8 * (w->rank == 4 ? 2 : 1));
    assert_int_equal(s->grid_y, by_keys && w->q[w->rank - 1] == 128 ? 2 : 1);
    assert_int_equal(s->lanes, 256);
    assert_int_equal(s->shared_bytes, shared_of(w, by_keys));
    for (int32_t i = 0; i < 4; i++) assert_int_equal(s->words[i], memory + (uint64_t)t->views[own[by_keys][i]].offset);
    for (int32_t i = LOGARITHM; i <= RESULT; i++) assert_int_equal(s->words[i], memory + (uint64_t)t->views[i].offset);
    const uint64_t numbers[] = {by_keys ? 200 : 300, by_keys ? 300 : 200, 8, (uint64_t)tiles, 0, !odd};
    for (int32_t i = 0; i < 6; i++) assert_int_equal(s->words[7 + i], numbers[i]);
  }
  r->attention_backward->destroy(prepared);
}

TC_TEST(launch) {
  rig r;
  tensors t;
  open_rig(&r);
  tc_handle stream, memory;
  OK(r.t->stream_create(r.d, &stream));
  OK(r.t->alloc(r.d, 1 << 20, &memory));
  for (int32_t i = 0; i < 4 && has_compiler(&r, &t); i++) launches(&r, &t, stream, memory, &rows[i & 2 ? 3 : 0], i & 1);
  r.t->free(r.d, memory);
  r.t->stream_destroy(r.d, stream);
  close_rig(&r);
  return TC_OK;
}

// Every code that is taken compiles, without spilled registers, and may use the shared memory that it is launched with.
TC_TEST(every_code) {
  rig r;
  tensors t;
  load(&r);
  r.spills = "error";
  OK(r.t->open(&r.host, 0, &r.d));
  bool compiler = has_compiler(&r, &t);
  for (size_t i = 0; compiler && i < 2 * sizeof rows / sizeof *rows; i++) {
    const row *w = &rows[i / 2];
    void *prepared = NULL;
    uint64_t workspace;
    if (!w->taken) continue;
    make(w, i % 2, &t);
    OK(r.attention_backward->prepare(&r.host, r.d, &t.node, &prepared, &workspace));
    assert_int_equal(r.state()->dynamic_shared, shared_of(w, i % 2));
    r.attention_backward->destroy(prepared);
  }
  close_rig(&r);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_taken), cmocka_unit_test(launch),
                                     cmocka_unit_test(every_code)};
  return TC_RUN(tests);
}
