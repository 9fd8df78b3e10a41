// Two devices of the cuda plugin over the fake driver, which faults where what belongs to one is used on the other: in
// turns from one thread, from a thread each, and, as a user says it, by number.
#include <pthread.h>

#include "tests/unit/cuda/rig.h"

enum { DEVICES = 2, BYTES = 4096, ROUNDS = 50 };

// All that a device gives out.
typedef struct side {
  tc_device_ *d;
  tc_handle stream, module, function, a, b, graph, from, to;
  unsigned char in[BYTES], out[BYTES];
} side;

#define TRY(expr)                      \
  do {                                 \
    int32_t s_ = (expr);               \
    if (s_ != TC_STATUS_OK) return s_; \
  } while (0)

static int32_t begin_side(rig *r, int32_t number, side *x) {
  object o;
  TRY(r->t->open(&r->host, number, &x->d));
  make_object(&o, 1);
  TRY(r->t->stream_create(x->d, &x->stream));
  TRY(r->t->alloc(x->d, BYTES, &x->a));
  TRY(r->t->alloc(x->d, BYTES, &x->b));
  TRY(r->t->module_load(x->d, o.data, o.size, &x->module));
  TRY(r->t->function(x->d, x->module, TC_SV("mul_0"), &x->function));
  TRY(r->t->event_create(x->d, &x->from));
  return r->t->event_create(x->d, &x->to);
}

static int32_t launch_on(rig *r, side *x, tc_handle stream) {
  tc_launch_arg arg = {.kind = TC_ARG_MEMORY, .value = x->a};
  tc_launch l = {.struct_size = sizeof l, .function = x->function, .blocks = 3, .grain = 1, .args = &arg, .n_args = 1};
  return r->t->launch(x->d, stream, &l);
}

static int32_t record(rig *r, side *x) {
  tc_handle recorder;
  TRY(r->t->graph_begin(x->d, &recorder));
  TRY(launch_on(r, x, recorder));
  TRY(r->t->copy(x->d, recorder, x->b, 0, x->a, 0, BYTES));
  return r->t->graph_end(x->d, recorder, &x->graph);
}

// In, through a recording, and out again.
static int32_t round_of(rig *r, side *x, uint64_t *seed) {
  double ns;
  for (int32_t i = 0; i < BYTES; i++) x->in[i] = (unsigned char)tc_test_random(seed);
  TRY(r->t->event_record(x->d, x->stream, x->from));
  TRY(r->t->copy_in(x->d, x->stream, x->a, 0, x->in, BYTES));
  TRY(r->t->graph_launch(x->d, x->stream, x->graph));
  TRY(launch_on(r, x, x->stream));
  TRY(r->t->event_record(x->d, x->stream, x->to));
  TRY(r->t->copy_out(x->d, x->stream, x->out, x->b, 0, BYTES));
  TRY(r->t->event_elapsed(x->d, x->from, x->to, &ns));
  return memcmp(x->in, x->out, BYTES) ? TC_STATUS_MISMATCH : r->t->synchronize(x->d, x->stream);
}

static void end_side(rig *r, side *x) {
  r->t->graph_destroy(x->d, x->graph);
  r->t->event_destroy(x->d, x->from), r->t->event_destroy(x->d, x->to);
  r->t->module_unload(x->d, x->module);
  r->t->free(x->d, x->a), r->t->free(x->d, x->b);
  r->t->stream_destroy(x->d, x->stream);
}

TC_TEST(in_turns) {
  rig r;
  side x[DEVICES];
  uint64_t seed = tc_test_seed();
  memset(x, 0, sizeof x);
  load(&r);
  r.params(2, (int32_t[]){8, 8});
  for (int32_t i = 0; i < DEVICES; i++) {
    tc_device_props p = {.struct_size = sizeof p};
    OK(begin_side(&r, i, &x[i]));
    OK(r.t->properties(x[i].d, &p));
    assert_string_equal(p.name, i ? "Fake GPU 1" : "Fake GPU 0");
  }
  for (int32_t i = 0; i < DEVICES; i++) OK(record(&r, &x[i]));
  for (int32_t i = 0; i < ROUNDS; i++) OK(round_of(&r, &x[tc_test_random(&seed) % DEVICES], &seed));
  // Each counts its own memory.
  tc_handle more;
  tc_memory_stats m = {.struct_size = sizeof m};
  OK(r.t->alloc(x[1].d, 1 << 20, &more));
  OK(r.t->memory_stats(x[0].d, &m));
  assert_int_equal(m.used_bytes, 2 * BYTES);
  OK(r.t->memory_stats(x[1].d, &m));
  assert_int_equal(m.used_bytes, 2 * BYTES + (1 << 20));
  r.t->free(x[1].d, more);
  // What one made goes while the other was used last.
  for (int32_t i = 0; i < DEVICES; i++) end_side(&r, &x[i]);
  r.t->close(x[0].d);
  r.d = x[1].d;
  close_rig(&r);
  return TC_OK;
}

// The fake driver itself sees what is used where it does not belong.
TC_TEST(mistakes_are_seen) {
  rig r;
  side x[DEVICES];
  memset(x, 0, sizeof x);
  load(&r);
  for (int32_t i = 0; i < DEVICES; i++) OK(begin_side(&r, i, &x[i]));
  int32_t before = r.state()->faults;
  OK(r.t->fill(x[0].d, x[0].stream, x[1].a, 0, 1, BYTES));
  assert_int_equal(r.state()->faults, before + 1);
  assert_string_equal(r.state()->fault, "what belongs to one device is used on the other");
  for (int32_t i = 0; i < DEVICES; i++) {
    end_side(&r, &x[i]);
    r.t->close(x[i].d);
  }
  assert_int_equal(r.state()->contexts, 0);
  return TC_OK;
}

typedef struct worker {
  rig *r;
  side *x;
  uint64_t seed;
  int32_t status;
} worker;

static void *work(void *self) {
  worker *w = self;
  w->status = record(w->r, w->x);
  for (int32_t i = 0; i < ROUNDS && w->status == TC_STATUS_OK; i++) w->status = round_of(w->r, w->x, &w->seed);
  return NULL;
}

TC_TEST(a_thread_each) {
  rig r;
  side x[DEVICES];
  worker w[DEVICES];
  pthread_t threads[DEVICES];
  memset(x, 0, sizeof x);
  load(&r);
  r.params(2, (int32_t[]){8, 8});
  for (int32_t i = 0; i < DEVICES; i++) {
    OK(begin_side(&r, i, &x[i]));
    w[i] = (worker){.r = &r, .x = &x[i], .seed = tc_test_seed() + (uint64_t)i};
  }
  for (int32_t i = 0; i < DEVICES; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, &w[i]), 0);
  for (int32_t i = 0; i < DEVICES; i++) pthread_join(threads[i], NULL);
  for (int32_t i = 0; i < DEVICES; i++) OK(w[i].status);
  for (int32_t i = 0; i < DEVICES; i++) end_side(&r, &x[i]);
  r.t->close(x[0].d);
  r.d = x[1].d;
  close_rig(&r);
  return TC_OK;
}

int main(void) {
  // The last one leaves a fault behind.
  const struct CMUnitTest tests[] = {cmocka_unit_test(in_turns), cmocka_unit_test(a_thread_each),
                                     cmocka_unit_test(mistakes_are_seen)};
  return TC_RUN(tests);
}
