// Transforms as calls of cuFFT: what a library that does them by the definition is asked for, against the definition,
// for random lengths, rows and places in memory; that what is read stays as it is; recordings, threads, refusals,
// failures, and when it is taken.
#include <complex.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>

#include "tests/unit/cuda/rig.h"

enum { RANK = 3, GUARD = 64 };
typedef struct library {
  int (*live)(void), (*runs)(void);
  const char *(*fault)(void);
  void (*use)(fake_work_fn), (*fail_next)(int), (*clean)(void);
} library;

// The library works in the order of the fake driver's streams.
static library open_library(void) {
  library l;
  void *fake = dlopen(FAKE_FFT, RTLD_NOW | RTLD_LOCAL), *driver = dlopen(FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
  assert_non_null(fake);
  assert_non_null(driver);
  fake_work_fn work;
  *(void **)&work = symbol(driver, "fake_work");
  *(void **)&l.live = symbol(fake, "fake_fft_live"), *(void **)&l.runs = symbol(fake, "fake_fft_runs");
  *(void **)&l.fault = symbol(fake, "fake_fft_fault"), *(void **)&l.use = symbol(fake, "fake_fft_use");
  *(void **)&l.fail_next = symbol(fake, "fake_fft_fail"), *(void **)&l.clean = symbol(fake, "fake_fft_clean");
  l.use(work);
  return l;
}
static void close_library(const library *l) {
  if (l->fault()[0]) fail_msg("%s", l->fault());
  assert_int_equal(l->live(), 0);
  l->clean();
}

// ---- A node ----
typedef enum kind { C2C, R2C, C2R } kind;
typedef struct tensor {
  tc_view view;
  int64_t sizes[RANK], strides[RANK];
  uint64_t bytes; // with the guard behind it
} tensor;
typedef struct transform {
  kind kind;
  bool wide, forward;
  int64_t length;
  tensor in, out;
  rig_convolution args;
  tc_call_node node;
  unsigned char *data, *got; // what is put in; what came out
} transform;

static const char *const ops[] = {"aten::_fft_c2c", "aten::_fft_r2c", "aten::_fft_c2r"};

// `outer`: dimension 1 lies outside dimension 0; `gap`: elements behind each row; `shift`: elements in front.
static void place(tensor *t, tc_dtype dtype, int64_t a, int64_t b, int64_t row, bool outer, int64_t gap,
                  int64_t shift) {
  int64_t element = dtype == TC_F32 ? 4 : dtype == TC_C128 ? 16 : 8, distance = row + gap;
  t->sizes[0] = a, t->sizes[1] = b, t->sizes[2] = row;
  t->strides[2] = 1, t->strides[1] = outer ? distance * a : distance, t->strides[0] = outer ? distance : distance * b;
  t->view = (tc_view){.dtype = dtype, .rank = RANK, .sizes = t->sizes, .strides = t->strides};
  t->view.offset = shift * element;
  t->bytes = (uint64_t)((shift + a * b * distance) * element) + GUARD;
}

typedef struct form {
  kind kind;
  bool wide, forward, outer;
  int64_t a, b, length, gap, shift, out_shift;
} form;
static void make(transform *x, const form *f) {
  tc_dtype complex_type = f->wide ? TC_C128 : TC_C64, real = f->wide ? TC_F64 : TC_F32;
  int64_t half = f->length / 2 + 1;
  *x = (transform){.kind = f->kind, .wide = f->wide, .forward = f->forward, .length = f->length};
  place(&x->in, f->kind == R2C ? real : complex_type, f->a, f->b, f->kind == C2R ? half : f->length, f->outer, f->gap,
        f->shift);
  place(&x->out, f->kind == C2R ? real : complex_type, f->a, f->b, f->kind == R2C ? half : f->length, f->outer, 0,
        f->out_shift);
  x->args = (rig_convolution){.n = 1};
  x->args.lists[RIG_DIMS][0] = RANK - 1;
  x->args.lists[RIG_LAST][0] = f->kind == C2C ? f->forward : f->kind == R2C ? 1 : f->length;
  x->node = (tc_call_node){.struct_size = sizeof x->node,
                           .op = tc_sv_of(ops[f->kind]),
                           .args = (const tc_op_args *)&x->args,
                           .operands = &x->in.view,
                           .n_operands = 1,
                           .results = &x->out.view,
                           .n_results = 1};
}

static form draw(uint64_t *seed) {
  form f = {.kind = (kind)(tc_test_random(seed) % 3)};
  f.wide = tc_test_random(seed) % 2, f.forward = tc_test_random(seed) % 2, f.outer = tc_test_random(seed) % 2;
  f.a = 1 + (int64_t)(tc_test_random(seed) % 3), f.b = 1 + (int64_t)(tc_test_random(seed) % 4);
  f.length = tc_test_random(seed) % 2 ? 1 << tc_test_random(seed) % 6 : 1 + (int64_t)(tc_test_random(seed) % 40);
  f.gap = tc_test_random(seed) % 2 ? (int64_t)(tc_test_random(seed) % 3) % (f.length / 2 + 1) : 0;
  f.shift = (int64_t)(tc_test_random(seed) % 4), f.out_shift = (int64_t)(tc_test_random(seed) % 4);
  return f;
}

// ---- The definition ----
static double number(const tensor *t, const unsigned char *data, int64_t at) {
  const unsigned char *p = data + t->view.offset;
  bool wide = t->view.dtype == TC_F64 || t->view.dtype == TC_C128;
  return wide ? ((const double *)(const void *)p)[at] : (double)((const float *)(const void *)p)[at];
}
static double complex element(const tensor *t, const unsigned char *data, int64_t i, int64_t j, int64_t k) {
  int64_t at = i * t->strides[0] + j * t->strides[1] + k;
  if (t->view.dtype == TC_F32 || t->view.dtype == TC_F64) return number(t, data, at);
  return number(t, data, 2 * at) + I * number(t, data, 2 * at + 1);
}
static double complex wanted(const transform *x, int64_t i, int64_t j, int64_t k) {
  double complex sum = 0;
  double sign = x->kind == C2R || (x->kind == C2C && !x->forward) ? 1 : -1;
  for (int64_t m = 0; m < x->length; m++) {
    bool mirror = x->kind == C2R && m > x->length / 2;
    double complex v = element(&x->in, x->data, i, j, mirror ? x->length - m : m);
    if (mirror) v = conj(v);
    else if (x->kind == C2R && (m == 0 || 2 * m == x->length)) v = creal(v);
    sum += v * cexp(sign * 2 * I * M_PI * (double)(m * k % x->length) / (double)x->length);
  }
  return sum;
}
static void check_result(const transform *x) {
  for (int64_t i = 0; i < x->out.sizes[0]; i++)
    for (int64_t j = 0; j < x->out.sizes[1]; j++)
      for (int64_t k = 0; k < x->out.sizes[2]; k++) {
        double complex a = element(&x->out, x->got, i, j, k), b = wanted(x, i, j, k);
        if (!(cabs(a - b) <= (x->wide ? 1e-12 : 1e-5) * (double)x->length))
          fail_msg("transform %d of %d points: [%d, %d, %d] is %g%+gi, not %g%+gi", (int)x->kind, (int)x->length,
                   (int)i, (int)j, (int)k, creal(a), cimag(a), creal(b), cimag(b));
      }
}

// ---- Memory ----
static void fill(transform *x, uint64_t *seed) {
  bool wide = x->wide;
  for (uint64_t i = 0; i + 8 <= x->in.bytes; i += wide ? 8 : 4) {
    double v = (double)(tc_test_random(seed) % 2000) * 0.001 - 1;
    if (wide) memcpy(x->data + i, &v, 8);
    else memcpy(x->data + i, &(float){(float)v}, 4);
  }
}
static void open_memory(rig *q, transform *x) {
  rig r = *q;
  x->data = calloc(1, x->in.bytes), x->got = calloc(1, x->out.bytes);
  assert_true(x->data && x->got);
  OK(r.t->alloc(r.d, x->in.bytes, &x->in.view.memory));
  OK(r.t->alloc(r.d, x->out.bytes, &x->out.view.memory));
}
static void close_memory(rig *r, transform *x) {
  r->t->free(r->d, x->in.view.memory), r->t->free(r->d, x->out.view.memory);
  free(x->data), free(x->got);
}
// What was read is as it was; in front of the result and behind it nothing was written.
static void check(rig *q, transform *x, tc_handle stream) {
  rig r = *q;
  unsigned char *in = calloc(1, x->in.bytes);
  assert_non_null(in);
  OK(r.t->copy_out(r.d, stream, in, x->in.view.memory, 0, x->in.bytes));
  assert_memory_equal(in, x->data, x->in.bytes);
  OK(r.t->copy_out(r.d, stream, x->got, x->out.view.memory, 0, x->out.bytes));
  for (int64_t i = 0; i < x->out.view.offset; i++) assert_int_equal(x->got[i], 0xEE);
  for (uint64_t i = x->out.bytes - GUARD; i < x->out.bytes; i++) assert_int_equal(x->got[i], 0xEE);
  check_result(x);
  free(in);
}
static void begin(rig *q, transform *x, tc_handle stream, uint64_t *seed) {
  rig r = *q;
  fill(x, seed);
  OK(r.t->copy_in(r.d, stream, x->in.view.memory, 0, x->data, x->in.bytes));
  OK(r.t->fill(r.d, stream, x->out.view.memory, 0, 0xEE, x->out.bytes));
}
static tc_handle room(rig *q, uint64_t bytes) {
  rig r = *q;
  tc_handle memory = 0;
  if (bytes) OK(r.t->alloc(r.d, bytes + 256, &memory));
  return memory;
}

TC_TEST(transforms) {
  uint64_t seed = tc_test_seed();
  rig r;
  tc_handle stream;
  open_rig(&r);
  library l = open_library();
  OK(r.t->stream_create(r.d, &stream));
  int32_t taken = 0, before = l.runs();
  for (int32_t i = 0; i < 80; i++) {
    transform x;
    void *prepared = NULL;
    uint64_t workspace = 0;
    int64_t cost;
    form f = draw(&seed);
    make(&x, &f);
    OK(r.fft->supports(&r.host, r.d, &x.node, &cost));
    if (cost < 0) fail_msg("%s", r.diag);
    OK(r.fft->prepare(&r.host, r.d, &x.node, &prepared, &workspace));
    open_memory(&r, &x);
    tc_handle scratch = room(&r, workspace);
    for (int32_t turn = 0; turn < 2; turn++) {
      begin(&r, &x, stream, &seed);
      OK(r.fft->run(prepared, stream, &x.in.view, &x.out.view, scratch, workspace ? 256 : 0));
      check(&r, &x, stream);
      taken++;
    }
    r.fft->destroy(prepared);
    assert_int_equal(l.live(), 0);
    if (scratch) r.t->free(r.d, scratch);
    close_memory(&r, &x);
  }
  assert_int_equal(l.runs() - before, taken);
  OK(r.t->synchronize(r.d, stream));
  r.t->stream_destroy(r.d, stream);
  close_library(&l);
  close_rig(&r);
  return TC_OK;
}

// Each launch of a recording reads what is there then.
TC_TEST(recordings) {
  uint64_t seed = tc_test_seed();
  rig r;
  tc_handle stream, recorder, graph;
  open_rig(&r);
  library l = open_library();
  OK(r.t->stream_create(r.d, &stream));
  for (int32_t k = C2C; k <= C2R; k++) {
    transform x;
    void *prepared = NULL;
    uint64_t workspace = 0;
    make(&x, &(form){.kind = (kind)k, .forward = true, .a = 2, .b = 3, .length = 12, .shift = 1});
    OK(r.fft->prepare(&r.host, r.d, &x.node, &prepared, &workspace));
    open_memory(&r, &x);
    tc_handle scratch = room(&r, workspace);
    OK(r.t->graph_begin(r.d, &recorder));
    OK(r.fft->run(prepared, recorder, &x.in.view, &x.out.view, scratch, 0));
    OK(r.t->graph_end(r.d, recorder, &graph));
    for (int32_t turn = 0; turn < 3; turn++) {
      begin(&r, &x, stream, &seed);
      OK(r.t->graph_launch(r.d, stream, graph));
      check(&r, &x, stream);
    }
    r.t->graph_destroy(r.d, graph);
    r.fft->destroy(prepared);
    r.t->free(r.d, scratch);
    close_memory(&r, &x);
  }
  OK(r.t->synchronize(r.d, stream));
  r.t->stream_destroy(r.d, stream);
  close_library(&l);
  close_rig(&r);
  return TC_OK;
}

// ---- Several threads run what was prepared once, each on a stream and in a workspace of its own. ----
typedef struct worker {
  rig *r;
  transform x;
  void *prepared;
  tc_handle stream, scratch;
  pthread_t thread;
} worker;
static void *work(void *p) {
  worker *w = p;
  rig r = *w->r;
  for (int32_t i = 0; i < 50; i++) OK(r.fft->run(w->prepared, w->stream, &w->x.in.view, &w->x.out.view, w->scratch, 0));
  return NULL;
}
TC_TEST(threads) {
  enum { WORKERS = 4 };
  uint64_t seed = tc_test_seed(), workspace = 0;
  static worker workers[WORKERS];
  void *prepared = NULL;
  rig r;
  open_rig(&r);
  library l = open_library();
  for (int32_t i = 0; i < WORKERS; i++) {
    worker *w = &workers[i];
    *w = (worker){.r = &r};
    make(&w->x, &(form){.kind = C2R, .a = 2, .b = 2, .length = 10});
    if (!prepared) OK(r.fft->prepare(&r.host, r.d, &w->x.node, &prepared, &workspace));
    w->prepared = prepared;
    OK(r.t->stream_create(r.d, &w->stream));
    open_memory(&r, &w->x);
    w->scratch = room(&r, workspace);
    begin(&r, &w->x, w->stream, &seed);
  }
  for (int32_t i = 0; i < WORKERS; i++)
    assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  for (int32_t i = 0; i < WORKERS; i++) pthread_join(workers[i].thread, NULL);
  for (int32_t i = 0; i < WORKERS; i++) {
    worker *w = &workers[i];
    check(&r, &w->x, w->stream);
    r.t->free(r.d, w->scratch);
    close_memory(&r, &w->x);
  }
  for (int32_t i = 0; i < WORKERS; i++) {
    OK(r.t->synchronize(r.d, workers[i].stream));
    r.t->stream_destroy(r.d, workers[i].stream);
  }
  r.fft->destroy(prepared);
  close_library(&l);
  close_rig(&r);
  return TC_OK;
}

// ---- What is refused, and why ----
static void refused(rig *r, const transform *x, const char *why) {
  int64_t cost = 0;
  void *prepared = NULL;
  uint64_t workspace;
  assert_int_equal(r->fft->supports(&r->host, r->d, &x->node, &cost), TC_STATUS_OK);
  assert_true(cost < 0);
  if (!strstr(r->diag, why)) fail_msg("'%s' instead of '%s'", r->diag, why);
  assert_int_equal(r->fft->prepare(&r->host, r->d, &x->node, &prepared, &workspace), TC_STATUS_UNIMPLEMENTED);
}
TC_TEST(refusals) {
  const form dense = {.kind = C2C, .forward = true, .a = 2, .b = 3, .length = 8};
  rig r;
  transform x;
  open_rig(&r);
  library l = open_library();
  make(&x, &dense), x.args.lists[RIG_NORM][0] = 2;
  refused(&r, &x, "a transform with a factor (cuFFT)");
  make(&x, &dense), x.args.lists[RIG_DIMS][0] = 1;
  refused(&r, &x, "along other than the last dimension");
  make(&x, &dense), x.args.n = 2;
  refused(&r, &x, "along other than the last dimension");
  make(&x, &dense), x.node.n_epilogue = 1;
  refused(&r, &x, "something behind it");
  make(&x, &dense), x.in.view.dtype = x.out.view.dtype = TC_C32;
  refused(&r, &x, "other than f32, f64");
  make(&x, &dense), x.in.strides[2] = 6, x.in.strides[1] = 1;
  refused(&r, &x, "not neighbours");
  make(&x, &dense), x.in.strides[1] = 4;
  refused(&r, &x, "more than one distance");
  make(&x, &dense), x.in.strides[1] = 4, x.in.strides[0] = 12;
  refused(&r, &x, "over each other");
  make(&x, &dense), x.in.strides[0] = 0;
  refused(&r, &x, "more than one distance");
  make(&x, &dense), x.in.sizes[0] = x.out.sizes[0] = INT64_MIN;
  refused(&r, &x, "not known");
  make(&x, &dense), x.in.sizes[2] = x.out.sizes[2] = 0;
  refused(&r, &x, "a transform of nothing");
  form other = dense;
  other.kind = R2C;
  make(&x, &other), x.args.lists[RIG_LAST][0] = 0;
  refused(&r, &x, "both sides");
  other.gap = 20;
  make(&x, &other);
  refused(&r, &x, "far apart");
  make(&x, &dense), x.node.op = TC_SV("aten::mm");
  refused(&r, &x, "no transform");
  close_library(&l);
  close_rig(&r);
  return TC_OK;
}

// Without rows there is nothing to do, and nothing is asked of the library.
TC_TEST(no_rows) {
  rig r;
  open_rig(&r);
  library l = open_library();
  int32_t before = l.runs();
  for (int32_t k = C2C; k <= C2R; k++) {
    transform x;
    void *prepared = NULL;
    uint64_t workspace = 1;
    int64_t cost;
    make(&x, &(form){.kind = (kind)k, .a = 0, .b = 3, .length = 8});
    OK(r.fft->supports(&r.host, r.d, &x.node, &cost));
    assert_true(cost >= 0);
    OK(r.fft->prepare(&r.host, r.d, &x.node, &prepared, &workspace));
    assert_int_equal(workspace, 0);
    OK(r.fft->run(prepared, 0, &x.in.view, &x.out.view, 0, 0));
    r.fft->destroy(prepared);
  }
  assert_int_equal(l.runs(), before);
  close_library(&l);
  close_rig(&r);
  return TC_OK;
}

TC_TEST(failures) {
  static const int codes[][2] = {
      {2, TC_STATUS_OUT_OF_MEMORY}, {16, TC_STATUS_UNIMPLEMENTED}, {5, TC_STATUS_DEVICE}, {6, TC_STATUS_DEVICE}};
  rig r;
  transform x;
  void *prepared = NULL;
  uint64_t workspace;
  open_rig(&r);
  library l = open_library();
  make(&x, &(form){.kind = R2C, .a = 2, .b = 3, .length = 8});
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    l.fail_next(codes[i][0]);
    assert_int_equal(r.fft->prepare(&r.host, r.d, &x.node, &prepared, &workspace), codes[i][1]);
    assert_non_null(strstr(r.diag, "planning a transform of cuFFT failed"));
    assert_int_equal(l.live(), 0);
  }
  close_library(&l);
  close_rig(&r);
  return TC_OK;
}

// It is a candidate, wherever it is asked for it is preferred to kernels, and it is not there where ours are asked for,
// or the library is not.
TC_TEST(wishes) {
  rig r;
  transform x;
  int64_t cost;
  make(&x, &(form){.kind = C2C, .forward = true, .a = 200, .b = 300, .length = 1024});
  open_rig(&r);
  assert_int_equal(r.fft->preferred, 0);
  OK(r.fft->supports(&r.host, r.d, &x.node, &cost));
  // No estimate of a kernel is that high: that of its arithmetic, and that of its memory.
  double points = 200.0 * 300 * 1024;
  assert_true((double)cost > 5 * points * 10 / (double)r.d->props.flops_per_ns);
  assert_true((double)cost > 16 * points / (double)r.d->props.bytes_per_ns);
  r.fft_wish = "own";
  refused(&r, &x, "our own transforms are asked for (cuda.fft)");
  close_rig(&r);

  load(&r);
  r.cufft = "/nonexistent/libcufft.so";
  OK(r.t->open(&r.host, 0, &r.d));
  refused(&r, &x, "cannot open '/nonexistent/libcufft.so' (cuda.cufft)");
  close_rig(&r);

  load(&r);
  r.fft_wish = "cufft";
  tc_plugin_query_fn query;
  *(void **)&query = symbol(dlopen(CUDA_PLUGIN, RTLD_NOW | RTLD_LOCAL), "tc_plugin_query");
  tc_plugin_desc p = {.magic = TC_ABI_MAGIC, .abi_major = TC_ABI_MAJOR, .struct_size = sizeof p};
  OK(query(&r.host, &p));
  assert_int_equal(p.n_calls, 8);
  assert_int_equal(p.calls[7]->preferred, 1);
  OK(r.t->open(&r.host, 0, &r.d));
  OK(p.calls[7]->supports(&r.host, r.d, &x.node, &cost));
  assert_true(cost >= 0);
  close_rig(&r);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(transforms), cmocka_unit_test(recordings), cmocka_unit_test(threads), cmocka_unit_test(refusals),
      cmocka_unit_test(failures),   cmocka_unit_test(no_rows),    cmocka_unit_test(wishes)};
  return TC_RUN(tests);
}
