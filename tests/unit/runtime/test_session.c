// Sessions on the references and on a device: state that is written back, tied weights, numbers as outputs, symbols as
// inputs, threads.
#include <pthread.h>

#include "tests/unit/runtime/rig.h"

static tc_status open_rig_on(rig *r, tc_arena *arena, const char *text, const char *backend) {
  static const char *const options[] = {"cache.enabled", "false", NULL};
  TC_TRY(rig_context(r, tc_arena_allocator(arena), backend, options));
  r->arena = arena;
  return rig_graph(r, text);
}

static tc_status open_rig(rig *r, tc_arena *arena, const char *text) { return open_rig_on(r, arena, text, "ref"); }

static tc_status vector(rig *r, int64_t n, float first, tc_tensor *out) {
  TC_TRY(tc_tensor_create(tc_arena_allocator(r->arena), TC_F32, 1, &n, out));
  for (int64_t i = 0; i < n; i++) ((float *)tc_tensor_data(out))[i] = first + (float)i;
  return TC_OK;
}

static float at(const tc_tensor *t, int64_t i) {
  double v;
  tc_tensor_get(t, &i, &v, NULL);
  return (float)v;
}

// What an archive's weights are, for the module: the session must not write into it.
typedef struct binding_call {
  rig *r;
  const char *name;
  tc_tensor *t;
} binding_call;
static tc_status add_binding(void *arg) {
  binding_call *c = arg;
  tc_binding *b = TC_NEW(c->r->module->arena, tc_binding);
  *b = (tc_binding){.name = tc_sv_of(c->name), .tensor = tc_tensor_ref(c->t)};
  tc_map_put(c->r->module->bindings, b->name, NULL)->value.ptr = b;
  return TC_OK;
}
static tc_status bind(rig *r, const char *name, tc_tensor *t) {
  binding_call c = {r, name, t};
  return tc_arena_guard(r->module->arena, add_binding, &c);
}

static const char counting[] = "graph @forward (\n"
                               "    %b : f32[3] = buffer \"count\",\n"
                               "    %c : f32[3] = buffer \"tied\",\n"
                               "    %x : f32[3] = user \"x\") {\n"
                               "  %s : f32[3] = aten::add.Tensor(%b, %x)\n"
                               "  %t : f32[3] = aten::mul.Tensor(%c, %x)\n"
                               "  return buffer \"count\" %s, user %t\n"
                               "}\n";

// Run after run the buffer grows; the archive's own values stay; what is tied to it follows; reset forgets.
static tc_status count_up(tc_arena *arena, const char *backend) {
  rig r;
  tc_tensor w, x, outputs[2], inputs[3] = {{0}};
  TC_TRY(open_rig_on(&r, arena, counting, backend));
  TC_TRY(vector(&r, 3, 1, &w));
  TC_TRY(vector(&r, 3, 10, &x));
  TC_TRY(bind(&r, "count", &w));
  TC_TRY(bind(&r, "tied", &w));
  TC_TRY(tc_session_create(r.context, r.graph, TC_STAGE_EXEC, &r.session));
  inputs[2] = x;
  for (int32_t i = 1; i <= 3; i++) {
    TC_TRY(tc_session_run(r.session, inputs, outputs, &(tc_session_run_options){.write_back = true}));
    assert_float_equal(at(tc_session_state(r.session, TC_SV("count")), 0), 1 + 10 * i, 0);
    assert_float_equal(at(&outputs[1], 0), (1 + 10 * (i - 1)) * 10, 0); // the tied one, before this run
    tc_tensor_unref(&outputs[0]);
    tc_tensor_unref(&outputs[1]);
  }
  assert_float_equal(at(&w, 0), 1, 0);
  tc_session_reset(r.session);
  assert_float_equal(at(tc_session_state(r.session, TC_SV("count")), 0), 1, 0);
  assert_null(tc_session_state(r.session, TC_SV("nothing")));
  // Without write_back nothing stays.
  TC_TRY(tc_session_run(r.session, inputs, outputs, NULL));
  assert_float_equal(at(tc_session_state(r.session, TC_SV("count")), 0), 1, 0);
  tc_tensor_unref(&outputs[0]);
  tc_tensor_unref(&outputs[1]);
  tc_tensor_unref(&w);
  tc_tensor_unref(&x);
  rig_close(&r);
  return TC_OK;
}

TC_TEST(state_is_written_back) {
  TC_TRY(count_up(arena, "ref"));
  return count_up(arena, "cpu"); // where kernels write the buffer itself
}

// A cache that the caller owns: kernels write into it, but only where that is wanted, and not where another input would
// see it.
static const char caching[] = "graph @forward (\n"
                              "    %c : f32[4] = user \"c\",\n"
                              "    %x : f32[2] = user \"x\",\n"
                              "    %d : f32[4] = user \"d\") {\n"
                              "  %i : i64[2] = aten::arange.start_step(1, 3, 1)\n"
                              "  %a : f32[4] = aten::index_copy(%c, 0, %i, %x)\n"
                              "  %b : f32[4] = aten::select_scatter(%a, %s, 0, 3)\n"
                              "  %y : f32[4] = aten::add.Tensor(%b, %d)\n"
                              "  return input \"c\" %b, user %y\n"
                              "}\n";

static void expect(const tc_tensor *t, const float *want) {
  for (int64_t i = 0; i < 4; i++) assert_float_equal(at(t, i), want[i], 0);
}

TC_TEST(caches_are_changed_in_place) {
  static const char *const backends[] = {"ref", "cpu"};
  const char *sum = "  %s : f32[] = aten::sum(%x)\n  %b";
  const char *cut = strstr(caching, "  %b");
  const char *text = tc_sv_printf(arena, "%.*s%s%s", (int)(cut - caching), caching, sum, cut + 4).data;
  static const float old[] = {0, 1, 2, 3}, now[] = {0, 10, 11, 21}, apart[] = {0, 11, 13, 24};
  for (size_t k = 0; k < 2; k++) {
    rig r;
    tc_tensor c, x, d, outputs[2];
    TC_TRY(open_rig_on(&r, arena, text, backends[k]));
    TC_TRY(vector(&r, 4, 0, &c));
    TC_TRY(vector(&r, 2, 10, &x));
    TC_TRY(vector(&r, 4, 0, &d));
    TC_TRY(tc_session_create(r.context, r.graph, TC_STAGE_EXEC, &r.session));
    tc_tensor inputs[] = {c, x, d}, same[] = {c, x, c};
    for (int32_t round = 0; round < 3; round++) {
      bool keep = round == 0, shared = round == 2;
      tc_session_run_options o = {.write_back = !keep};
      for (int64_t i = 0; i < 4; i++) ((float *)tc_tensor_data(&c))[i] = (float)i;
      TC_TRY(tc_session_run(r.session, shared ? same : inputs, outputs, &o));
      expect(&outputs[0], now);
      expect(&outputs[1], apart); // d, or what c was, whose values are the same
      expect(&c, keep ? old : now);
      if (k == 1 && round == 1) assert_ptr_equal(tc_tensor_data(&outputs[0]), tc_tensor_data(&c)); // no copy
      tc_tensor_unref(&outputs[0]), tc_tensor_unref(&outputs[1]);
    }
    tc_tensor_unref(&c), tc_tensor_unref(&x), tc_tensor_unref(&d);
    rig_close(&r);
  }
  return TC_OK;
}

TC_TEST(missing_state_is_said) {
  rig r;
  tc_tensor x, outputs[2], inputs[3] = {{0}};
  TC_TRY(open_rig(&r, arena, counting));
  TC_TRY(vector(&r, 3, 10, &x));
  TC_TRY(tc_session_create(r.context, r.graph, TC_STAGE_EXEC, &r.session));
  inputs[2] = x;
  assert_error(tc_session_run(r.session, inputs, outputs, NULL), TC_STATUS_INVALID_ARGUMENT, "'count' is missing");
  tc_tensor_unref(&x);
  rig_close(&r);
  return TC_OK;
}

static const char sizes[] = "graph @forward [s0 in [2, 64] hint 4] (\n"
                            "    %x : f32[2*s0] = user \"x\") {\n"
                            "  %y : f32[2*s0] = aten::neg(%x)\n"
                            "  return user %y, user s0 + 1, user 2.5, user true\n"
                            "}\n";

TC_TEST(numbers_come_out) {
  rig r;
  tc_tensor x, outputs[4];
  TC_TRY(open_rig(&r, arena, sizes));
  TC_TRY(tc_session_create(r.context, r.graph, TC_STAGE_EXEC, &r.session));
  TC_TRY(vector(&r, 14, 0, &x));
  TC_TRY(tc_session_run(r.session, &x, outputs, NULL));
  assert_int_equal(tc_tensor_get_int(&outputs[1], NULL), 8);
  assert_float_equal(at(&outputs[2], 0), 2.5, 0);
  assert_int_equal(tc_tensor_get_int(&outputs[3], NULL), 1);
  for (int32_t i = 0; i < 4; i++) tc_tensor_unref(&outputs[i]);
  tc_tensor_unref(&x);
  // Sizes that do not fit: not even, beyond the range.
  TC_TRY(vector(&r, 13, 0, &x));
  tc_status s = tc_session_run(r.session, &x, outputs, NULL);
  assert_int_equal(tc_status_code(s), TC_STATUS_INVALID_ARGUMENT);
  tc_status_free(s);
  tc_tensor_unref(&x);
  TC_TRY(vector(&r, 200, 0, &x));
  s = tc_session_run(r.session, &x, outputs, NULL);
  assert_int_equal(tc_status_code(s), TC_STATUS_INVALID_ARGUMENT);
  tc_status_free(s);
  tc_tensor_unref(&x);
  rig_close(&r);
  return TC_OK;
}

// Tensors of other strides are copied into the program's.
TC_TEST(strides_are_conformed) {
  rig r;
  int64_t n[1] = {8}, stride[1] = {3};
  tc_tensor x, outputs[4];
  TC_TRY(open_rig(&r, arena, sizes));
  TC_TRY(tc_session_create(r.context, r.graph, TC_STAGE_EXEC, &r.session));
  TC_TRY(tc_tensor_create_strided(tc_arena_allocator(arena), TC_F32, 1, n, stride, &x));
  for (int64_t i = 0; i < 8; i++) ((float *)tc_tensor_data(&x))[3 * i] = (float)i;
  TC_TRY(tc_session_run(r.session, &x, outputs, NULL));
  for (int64_t i = 0; i < 8; i++) assert_float_equal(at(&outputs[0], i), -(float)i, 0);
  for (int32_t i = 0; i < 4; i++) tc_tensor_unref(&outputs[i]);
  tc_tensor_unref(&x);
  rig_close(&r);
  return TC_OK;
}

static void *run_often(void *arg) {
  rig *r = arg;
  for (int32_t i = 0; i < 50; i++) {
    tc_tensor x, outputs[4];
    tc_status s = vector(r, 6 + 2 * (i % 5), (float)i, &x);
    if (s == TC_OK) s = tc_session_run(r->session, &x, outputs, NULL);
    if (s != TC_OK || at(&outputs[0], 1) != -(float)(i + 1)) return r;
    for (int32_t k = 0; k < 4; k++) tc_tensor_unref(&outputs[k]);
    tc_tensor_unref(&x);
  }
  return NULL;
}

TC_TEST(threads_share_a_session) {
  rig r;
  pthread_t threads[4];
  TC_TRY(open_rig(&r, arena, sizes));
  TC_TRY(tc_session_create(r.context, r.graph, TC_STAGE_EXEC, &r.session));
  for (int32_t i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_often, &r), 0);
  for (int32_t i = 0; i < 4; i++) {
    void *bad;
    pthread_join(threads[i], &bad);
    assert_null(bad);
  }
  rig_close(&r);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(state_is_written_back), cmocka_unit_test(caches_are_changed_in_place),
      cmocka_unit_test(missing_state_is_said), cmocka_unit_test(numbers_come_out),
      cmocka_unit_test(strides_are_conformed), cmocka_unit_test(threads_share_a_session),
  };
  return TC_RUN(tests);
}
