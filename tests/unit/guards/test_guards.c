// Guards: each kind holds, misses, and says so in words; only symbols that sizes bind have a place in the check.
#include "core/guards/guards.h"
#include "core/ir/op.h"
#include "tests/unit/unit.h"

typedef struct rig {
  tc_op_registry *ops;
  tc_module *module;
  tc_sym_ctx *syms;
  tc_guard_input how[4];
  tc_tensor_type types[4];
} rig;

static const char *const input_names[] = {"x", "y", "z", "w"};

static tc_status rig_open(tc_arena *arena, rig *r) {
  *r = (rig){0};
  TC_TRY(tc_op_registry_create(arena, &r->ops));
  TC_TRY(tc_module_create(tc_system_allocator(), r->ops, &r->module));
  r->syms = r->module->syms;
  for (int32_t i = 0; i < 4; i++) r->how[i].name = tc_sv_of(input_names[i]);
  return TC_OK;
}

static tc_tensor make(tc_dtype dtype, int32_t rank, int64_t a, int64_t b) {
  tc_tensor t;
  assert_ok(tc_tensor_create(tc_system_allocator(), dtype, rank, (int64_t[]){a, b}, &t));
  return t;
}

// The same memory with the dimensions turned round.
static tc_tensor turned(const tc_tensor *t) {
  tc_tensor out = tc_tensor_ref(t);
  for (int32_t d = 0; d < t->rank; d++)
    out.sizes[d] = t->sizes[t->rank - 1 - d], out.strides[d] = t->strides[t->rank - 1 - d];
  return out;
}

typedef struct job {
  rig *r;
  int32_t n;
  const tc_tensor *inputs;
  tc_guards *g;
  const tc_guard_miss *miss;
  const char *text;
} job;

static tc_status create(void *arg) {
  job *j = arg;
  j->g = tc_guards_create(j->r->syms, j->n, j->inputs, j->r->how, j->r->types);
  return TC_OK;
}
static tc_status seal(void *arg) {
  job *j = arg;
  tc_guards_seal(j->g, j->r->module, TC_SV("an op"));
  return TC_OK;
}
static tc_status say(void *arg) {
  job *j = arg;
  tc_sb sb = tc_sb_make(j->r->module->arena);
  tc_guard_miss_print(&sb, j->g, j->miss);
  j->text = sb.text ? sb.text : "";
  return TC_OK;
}
static tc_status tell(void *arg) {
  job *j = arg;
  tc_sb sb = tc_sb_make(j->r->module->arena);
  tc_guards_print(&sb, j->g);
  j->text = sb.text;
  return TC_OK;
}

static tc_guards *guards_of(rig *r, int32_t n, const tc_tensor *inputs) {
  job j = {.r = r, .n = n, .inputs = inputs};
  assert_ok(tc_arena_guard(r->module->arena, create, &j));
  assert_ok(tc_arena_guard(r->module->arena, seal, &j));
  return j.g;
}

static const char *text_of(rig *r, tc_guards *g) {
  job j = {.r = r, .g = g};
  assert_ok(tc_arena_guard(r->module->arena, tell, &j));
  return j.text;
}

// Checks with room for exactly as many symbols as the guards say; what lies behind must stay.
static tc_guard_miss check(const tc_guards *g, const tc_tensor *inputs) {
  int64_t symbols[64];
  int32_t n = tc_guards_symbol_count(g);
  assert_true(n < 64);
  for (int32_t i = 0; i < 64; i++) symbols[i] = 12345;
  tc_guard_miss m = tc_guards_check(g, inputs, symbols);
  for (int32_t i = n; i < 64; i++) assert_int_equal(symbols[i], 12345);
  return m;
}

static void misses(rig *r, tc_guards *g, const tc_tensor *inputs, int32_t kind, const char *text) {
  tc_guard_miss m = check(g, inputs);
  job j = {.r = r, .g = g, .miss = &m};
  assert_int_equal(m.kind, kind);
  assert_ok(tc_arena_guard(r->module->arena, say, &j));
  assert_string_equal(j.text, text);
}

#define HOLDS(g, inputs) assert_int_equal(check(g, inputs).kind, TC_GUARD_HOLDS)

TC_TEST(each_kind_is_told_in_words) {
  rig r;
  TC_TRY(rig_open(arena, &r));
  tc_tensor x = make(TC_F32, 2, 4, 6), y = make(TC_F32, 2, 4, 6), d = make(TC_F64, 2, 4, 6), v = make(TC_F32, 1, 4, 0),
            s = make(TC_F32, 2, 4, 7), square = make(TC_F32, 2, 6, 4), t = turned(&square), c = make(TC_C64, 2, 4, 6);
  tc_tensor none = {0}, conj = tc_tensor_ref(&c);
  conj.conj = true;
  tc_guards *g = guards_of(&r, 2, (tc_tensor[]){x, y});
  HOLDS(g, ((tc_tensor[]){x, y}));
  misses(&r, g, (tc_tensor[]){none, y}, TC_GUARD_PRESENCE, "tensor 'x' is absent");
  misses(&r, g, (tc_tensor[]){x, d}, TC_GUARD_DTYPE, "tensor 'y' dtype mismatch. expected f32, actual f64");
  misses(&r, g, (tc_tensor[]){v, y}, TC_GUARD_RANK, "tensor 'x' rank mismatch. expected 2, actual 1");
  misses(&r, g, (tc_tensor[]){x, s}, TC_GUARD_SIZE, "tensor 'y' size mismatch at index 1. expected 6, actual 7");
  misses(&r, g, (tc_tensor[]){t, y}, TC_GUARD_STRIDE, "tensor 'x' stride mismatch at index 1. expected 1, actual 4");
  misses(&r, g, (tc_tensor[]){x, x}, TC_GUARD_ALIAS, "tensor 'y' shares memory with 'x'");
  tc_storage device = *y.storage;
  device.device = 1;
  tc_tensor away = y;
  away.storage = &device;
  misses(&r, g, (tc_tensor[]){x, away}, TC_GUARD_DEVICE, "tensor 'y' device mismatch. expected 0, actual 1");
  g = guards_of(&r, 2, (tc_tensor[]){x, x});
  misses(&r, g, (tc_tensor[]){x, y}, TC_GUARD_ALIAS, "tensor 'y' no longer shares memory with 'x'");
  g = guards_of(&r, 2, (tc_tensor[]){x, none});
  HOLDS(g, ((tc_tensor[]){x, none}));
  misses(&r, g, (tc_tensor[]){x, y}, TC_GUARD_PRESENCE, "tensor 'y' was absent and is given");
  assert_non_null(strstr(text_of(&r, g), "tensor 'y': absent"));
  g = guards_of(&r, 1, &c);
  misses(&r, g, &conj, TC_GUARD_BITS, "tensor 'x' is conjugated, expected plain");
  conj.conj = false, conj.neg = true;
  misses(&r, g, &conj, TC_GUARD_BITS, "tensor 'x' is negated, expected plain");
  g = guards_of(&r, 1, &conj);
  HOLDS(g, &conj);
  misses(&r, g, &c, TC_GUARD_BITS, "tensor 'x' is plain, expected negated");
  tc_tensor all[] = {x, y, d, v, s, square, t, c, conj};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) tc_tensor_unref(&all[i]);
  tc_module_destroy(r.module);
  return TC_OK;
}

TC_TEST(marked_sizes_share_symbols_and_have_ranges) {
  rig r;
  TC_TRY(rig_open(arena, &r));
  r.how[0].marks[0].dynamic = r.how[1].marks[0].dynamic = true;
  tc_tensor x = make(TC_F32, 2, 4, 3), y = make(TC_F32, 1, 4, 0), x9 = make(TC_F32, 2, 9, 3),
            y9 = make(TC_F32, 1, 9, 0), x1 = make(TC_F32, 2, 1, 3);
  tc_guards *g = guards_of(&r, 2, (tc_tensor[]){x, y});
  assert_int_equal(tc_guards_symbol_count(g), 1);
  HOLDS(g, ((tc_tensor[]){x9, y9}));
  misses(&r, g, (tc_tensor[]){x9, y}, TC_GUARD_SIZE, "tensor 'y' size mismatch at index 0. expected 9, actual 4");
  misses(&r, g, (tc_tensor[]){x1, y}, TC_GUARD_RANGE,
         "tensor 'x' size at index 0 lies outside what was compiled for: at least 2; actual 1");
  r.how[0].marks[0] = (tc_guard_mark){true, 4, 8, 2};
  g = guards_of(&r, 1, &x);
  misses(&r, g, &x9, TC_GUARD_RANGE,
         "tensor 'x' size at index 0 lies outside what was compiled for: at least 4, at most 8, a multiple of 2; "
         "actual 9");
  assert_non_null(strstr(text_of(&r, g), " >= 4, <= 8, a multiple of 2"));
  tc_tensor all[] = {x, y, x9, y9, x1};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) tc_tensor_unref(&all[i]);
  tc_module_destroy(r.module);
  return TC_OK;
}

// An element of a tensor that is not where its type wants it, as a file or another library may have it.
TC_TEST(alignment_is_guarded) {
  rig r;
  TC_TRY(rig_open(arena, &r));
  tc_tensor x = make(TC_F32, 1, 4, 0), c = make(TC_C64, 1, 4, 0), bytes = make(TC_I8, 1, 64, 0),
            empty = make(TC_F32, 1, 0, 0);
  tc_storage odd = *x.storage, half = *c.storage;
  odd.data = (char *)bytes.storage->data + 2, half.data = (char *)bytes.storage->data + 4;
  tc_tensor moved = x, parts = c, nothing = empty;
  moved.storage = &odd, parts.storage = &half;
  tc_guards *g = guards_of(&r, 1, &x);
  HOLDS(g, &x);
  misses(&r, g, &moved, TC_GUARD_ALIGNMENT,
         "tensor 'x' alignment mismatch. expected a multiple of 4 bytes, actual 2 behind one");
  assert_non_null(strstr(text_of(&r, g), "tensor 'x': f32[4], aligned to 4  # from the input"));
  odd.data = (char *)bytes.storage->data + 4;
  HOLDS(g, &moved);
  odd.data = (char *)bytes.storage->data + 2;
  g = guards_of(&r, 1, &moved); // made for less holds for more
  HOLDS(g, &moved);
  HOLDS(g, &x);
  g = guards_of(&r, 1, &c);
  HOLDS(g, &parts); // complex numbers are aligned as their parts are
  nothing.storage = &odd;
  g = guards_of(&r, 1, &empty);
  HOLDS(g, &nothing);
  odd.device = 1; // a handle, not an address
  g = guards_of(&r, 1, &moved);
  assert_non_null(strstr(text_of(&r, g), "f32[4], on device 1"));
  HOLDS(g, &moved);
  tc_tensor all[] = {x, c, bytes, empty};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) tc_tensor_unref(&all[i]);
  tc_module_destroy(r.module);
  return TC_OK;
}

typedef struct stating {
  tc_guards *g;
  const tc_guard_fact *facts;
  int32_t n;
} stating;
static tc_status state_facts(void *arg) {
  const stating *s = arg;
  for (int32_t i = 0; i < s->n; i++) tc_guards_add_fact(s->g, &s->facts[i]);
  return TC_OK;
}

TC_TEST(numbers_besides_tensors_are_guarded) {
  rig r;
  TC_TRY(rig_open(arena, &r));
  tc_tensor x = make(TC_F32, 1, 4, 0);
  int64_t width = 8, length = 3;
  int32_t causal = 1;
  void *bias = NULL;
  const tc_guard_fact facts[] = {
      {TC_FACT_INT, 8, &width, TC_SV("width"), TC_SV("a.c:1")},
      {TC_FACT_BOOL, 1, &causal, TC_SV("causal"), TC_SV("a.c:2")},
      {TC_FACT_LENGTH, 3, &length, TC_SV("layers"), TC_SV("a.c:3")},
      {TC_FACT_GIVEN, 0, &bias, TC_SV("bias"), TC_SV("a.c:4")},
  };
  tc_guards *g = guards_of(&r, 1, &x);
  stating s = {g, facts, 4};
  assert_ok(tc_arena_guard(r.module->arena, state_facts, &s));
  HOLDS(g, &x);
  width = 16;
  misses(&r, g, &x, TC_GUARD_FACT, "int 'width' mismatch. expected 8, actual 16");
  width = 8, causal = 0;
  misses(&r, g, &x, TC_GUARD_FACT, "bool 'causal' mismatch. expected true, actual false");
  causal = 7, length = 4; // any truth is the same
  misses(&r, g, &x, TC_GUARD_FACT, "list 'layers' length mismatch. expected 3, actual 4");
  length = 3, bias = &width;
  misses(&r, g, &x, TC_GUARD_FACT, "optional 'bias' mismatch. expected absent, actual given");
  bias = NULL;
  HOLDS(g, &x);
  const char *text = text_of(&r, g);
  assert_non_null(strstr(text, "int 'width': 8  # from a.c:1\n"));
  assert_non_null(strstr(text, "bool 'causal': true  # from a.c:2\n"));
  assert_non_null(strstr(text, "list 'layers': of length 3  # from a.c:3\n"));
  assert_non_null(strstr(text, "optional 'bias': absent  # from a.c:4\n"));
  tc_tensor_unref(&x);
  tc_module_destroy(r.module);
  return TC_OK;
}

typedef struct numbering {
  rig *r;
  tc_guards *g;
  const tc_tensor *input;
  const int64_t *at;
} numbering;
static tc_status add_number(void *arg) {
  numbering *q = arg;
  tc_guard_fact f = {.expected = *q->at, .at = q->at, .name = TC_SV("n"), .origin = TC_SV("a.c:5")};
  tc_tensor_type type;
  q->g = tc_guards_begin(q->r->syms);
  (void)tc_guards_add_number(q->g, &f, 1, 9, tc_guards_add(q->g, q->input, &q->r->how[0], &type));
  return TC_OK;
}

// A number that may be any in a range, read at its address, and from the input that has it.
TC_TEST(numbers_are_held_to_ranges) {
  rig r;
  TC_TRY(rig_open(arena, &r));
  int64_t n = 4;
  tc_tensor x = make(TC_I64, 0, 0, 0), real = make(TC_F64, 0, 0, 0);
  int64_t *in_tensor = tc_tensor_data(&x);
  *in_tensor = 5;
  numbering q = {&r, NULL, &x, &n};
  assert_ok(tc_arena_guard(r.module->arena, add_number, &q));
  int64_t symbols[1];
  assert_int_equal(tc_guards_check(q.g, &x, symbols).kind, TC_GUARD_HOLDS);
  assert_int_equal(symbols[0], 4);
  n = 0;
  misses(&r, q.g, &x, TC_GUARD_NUMBER, "int 'n' lies outside of what was compiled for: 1 to 9; actual 0");
  tc_guards_numbers_from_inputs(q.g);
  assert_int_equal(tc_guards_check(q.g, &x, symbols).kind, TC_GUARD_HOLDS);
  assert_int_equal(symbols[0], 5);
  *in_tensor = 10;
  misses(&r, q.g, &x, TC_GUARD_NUMBER, "int 'n' lies outside of what was compiled for: 1 to 9; actual 10");
  misses(&r, q.g, &real, TC_GUARD_DTYPE, "tensor 'x' dtype mismatch. expected i64, actual f64");
  assert_string_equal(text_of(&r, q.g), "int 'n': s0, 1 to 9  # from a.c:5\n");
  tc_tensor_unref(&x);
  tc_tensor_unref(&real);
  tc_module_destroy(r.module);
  return TC_OK;
}

typedef struct requiring {
  rig *r;
  tc_guards *g;
  const tc_tensor *x;
} requiring;
// Hundreds of loop variables, as a compilation makes them; a condition on the size, and one on what comes from data.
static tc_status require(void *arg) {
  requiring *q = arg;
  tc_sym_ctx *c = q->r->syms;
  for (int32_t i = 0; i < 3; i++) (void)tc_sym_fresh(c, "i", TC_SYM_LOOP); // these shift no places
  q->g = tc_guards_create(c, 1, q->x, q->r->how, q->r->types);
  const tc_sym *size = q->r->types[0].sizes[0], *data = tc_sym_fresh(c, "u", TC_SYM_UNBACKED);
  for (int32_t i = 0; i < 500; i++) (void)tc_sym_fresh(c, "i", TC_SYM_LOOP);
  tc_module_require(q->r->module, tc_sym_cmp(c, TC_SYM_LE, size, tc_sym_int(c, 10)));
  tc_module_require(q->r->module, tc_sym_cmp(c, TC_SYM_LE, data, size));
  tc_guards_seal(q->g, q->r->module, TC_SV("an op"));
  return TC_OK;
}

TC_TEST(only_bound_symbols_have_a_place) {
  rig r;
  TC_TRY(rig_open(arena, &r));
  r.how[0].marks[0].dynamic = true;
  tc_tensor x = make(TC_F32, 2, 4, 3), x9 = make(TC_F32, 2, 9, 3), x11 = make(TC_F32, 2, 11, 3);
  requiring q = {&r, NULL, &x};
  assert_ok(tc_arena_guard(r.module->arena, require, &q));
  assert_int_equal(tc_guards_symbol_count(q.g), 1);
  HOLDS(q.g, &x9);
  misses(&r, q.g, &x11, TC_GUARD_CONDITION, "the condition s0 <= 10 does not hold");
  assert_null(strstr(text_of(&r, q.g), "u0")); // left to the run
  tc_sym_code code;
  assert_true(tc_guards_compile(q.g, tc_sym_muli(r.syms, r.types[0].sizes[0], 3), &code));
  int64_t symbols[1], v;
  assert_int_equal(tc_guards_check(q.g, &x9, symbols).kind, TC_GUARD_HOLDS);
  assert_ok(tc_sym_run(code, symbols, &v));
  assert_int_equal(v, 27);
  assert_false(tc_guards_compile(q.g, tc_sym_fresh(r.syms, "i", TC_SYM_LOOP), &code));
  tc_tensor all[] = {x, x9, x11};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) tc_tensor_unref(&all[i]);
  tc_module_destroy(r.module);
  return TC_OK;
}

typedef struct many {
  rig *r;
  int32_t n;
  const tc_tensor *inputs;
  const tc_guard_input *how;
  tc_tensor_type *types;
  tc_guards *g;
} many;
static tc_status guard_many(void *arg) {
  many *m = arg;
  m->g = tc_guards_create(m->r->syms, m->n, m->inputs, m->how, m->types);
  tc_guards_seal(m->g, m->r->module, TC_SV("an op"));
  return TC_OK;
}

// Many inputs, some of which share memory: the check of all at once says what the check one by one says.
TC_TEST(sharing_among_many_inputs_is_seen) {
  enum { MANY = 48 };
  uint64_t seed = tc_test_seed();
  tc_tensor own[MANY], inputs[MANY];
  for (int32_t i = 0; i < MANY; i++) own[i] = make(TC_F32, 1, 4, 0);
  tc_sv name = TC_SV("x");
  for (int32_t round = 0; round < 50; round++) {
    rig r;
    TC_TRY(rig_open(arena, &r));
    tc_guard_input how[MANY] = {{.name = name}};
    tc_tensor_type types[MANY];
    for (int32_t i = 0; i < MANY; i++) how[i].name = name, inputs[i] = own[i];
    many m = {&r, MANY, inputs, how, types, NULL};
    assert_ok(tc_arena_guard(r.module->arena, guard_many, &m));
    HOLDS(m.g, inputs);
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    int32_t a = (int32_t)(seed >> 33) % MANY, b = (int32_t)(seed >> 12 & 0xFFFF) % MANY, first = a < b ? a : b;
    inputs[a].storage = inputs[b].storage;
    int64_t symbols[1];
    tc_guard_miss one = {0}, all = tc_guards_check(m.g, inputs, symbols);
    for (int32_t i = 0; i < MANY && one.kind == TC_GUARD_HOLDS; i++)
      one = tc_guards_check_input(m.g, i, inputs, symbols);
    assert_int_equal(all.kind, a == b ? TC_GUARD_HOLDS : TC_GUARD_ALIAS);
    assert_int_equal(one.kind, all.kind);
    if (a != b) {
      assert_int_equal(all.input, a < b ? b : a);
      assert_int_equal(all.actual, first);
      assert_int_equal(one.input, all.input);
    }
    tc_module_destroy(r.module);
  }
  for (int32_t i = 0; i < MANY; i++) tc_tensor_unref(&own[i]);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_kind_is_told_in_words),
      cmocka_unit_test(marked_sizes_share_symbols_and_have_ranges),
      cmocka_unit_test(alignment_is_guarded),
      cmocka_unit_test(numbers_besides_tensors_are_guarded),
      cmocka_unit_test(numbers_are_held_to_ranges),
      cmocka_unit_test(only_bound_symbols_have_a_place),
      cmocka_unit_test(sharing_among_many_inputs_is_seen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
