// From graph text with fft ops to kernels that the interpreter runs: the core and the plugin's parts in one program.
#ifndef TC_TESTS_UNIT_FFT_FFT_TEST_H_
#define TC_TESTS_UNIT_FFT_FFT_TEST_H_

#include <complex.h>
#include <math.h>

#include "core/base/log.h"
#include "core/ir/expand.h"
#include "core/ir/op.h"
#include "core/ir/opargs.h"
#include "core/kernel/emit.h"
#include "core/kernel/templates/templates.h"
#include "core/ops/ops.h"
#include "plugins/fft/fft.h"
#include "tests/unit/unit.h"

typedef double complex cplx;

typedef struct compiled {
  tc_module *m;
  tc_loops *loops;
  tc_schedule *s;
  tc_emitted *kernels;
  void *mem[64]; // by buffer id
} compiled;

static const tc_device_props vector_device = {.simd_bytes = 64,
                                              .simd_registers = 32,
                                              .cores = 2,
                                              .l1_bytes = 32768,
                                              .l2_bytes = 1 << 20,
                                              .launch_ns = 1000,
                                              .bytes_per_ns = 20};
static const tc_device_props thread_device = {
    .max_lanes = 1024, .subgroup = 32, .cores = 100, .shared_bytes = 232448, .launch_ns = 3000, .bytes_per_ns = 2000};

// As an autotuner may choose: configurations with wide radices, where there are any. How often it did is counted.
static bool wish_wide;
static int32_t n_wide;
static inline int32_t pick_wide(void *self, tc_sv name, tc_sv stage, int32_t n, const tc_stage_config *configs) {
  (void)self, (void)name, (void)stage;
  int32_t at = 0;
  for (int32_t i = n - 1; i > 0 && wish_wide; i--)
    if (configs[i].params[0]) at = i;
  n_wide += at > 0;
  return at;
}

// Ops without a lowering of their own become what they are made of.
static inline tc_status expand_all(tc_graph *g) {
  for (tc_node *n = g->first, *before; n; n = before ? before->next : g->first) {
    before = n;
    if (n->dead || n->op->def->lower || n->op->body.n_results || !tc_op_can_expand(n->op)) continue;
    tc_build b = {.graph = g, .before = n, .source = n->source};
    int32_t count = 0;
    tc_arg *results;
    before = n->prev;
    TC_TRY(tc_expand_op(&b, n->op, n->n_args, n->args, &count, &results));
    tc_graph_forward(n->results[0], results[0].value);
    tc_node_kill(n);
  }
  tc_graph_sweep(g);
  return TC_OK;
}

static inline tc_status compile_graph(tc_arena *arena, const char *text, const tc_device_props *dev, compiled *p) {
  tc_op_registry *reg;
  TC_TRY(tc_op_registry_create(arena, &reg));
  const tc_op_family *families[] = {&tc_ops_arithmetic, &tc_ops_cast,   &tc_ops_view,
                                    &tc_ops_pad,        &tc_ops_reduce, &tc_ops_activation};
  for (size_t f = 0; f < sizeof families / sizeof *families; f++)
    for (int32_t i = 0; i < families[f]->n; i++) TC_TRY(tc_op_register(reg, &families[f]->rows[i], TC_SV("")));
  for (int32_t i = 0; i < fft_op_count; i++) TC_TRY(tc_op_register(reg, &fft_ops[i], TC_SV("fft")));
  TC_TRY(tc_module_create(tc_arena_allocator(arena), reg, &p->m));
  tc_arena_on_destroy(arena, (void (*)(void *))tc_module_destroy, p->m);
  tc_lexer lx;
  tc_lex_init(&lx, p->m->arena, TC_SV("test.tc"), tc_sv_of(text));
  tc_graph *g;
  TC_TRY(tc_graph_parse(p->m, &lx, &g));
  TC_TRY(expand_all(g));
  tc_template_registry templates = {0};
  tc_templates_register_core(arena, &templates);
  tc_template_register(arena, &templates, &fft_template);
  tc_lower_options lo = {.logger = &tc_logger_silent, .templates = &templates};
  TC_TRY(tc_lower_graph(g, &lo, &p->loops));
  tc_schedule_options so = {.logger = &tc_logger_silent, .device = dev, .fuse = true};
  TC_TRY(tc_schedule_loops(p->loops, &so, &p->s));
  p->kernels = TC_NEW_ARRAY(arena, tc_emitted, p->s->groups.count);
  if (getenv("TC_TEST_PRINT")) {
    tc_sb sb = tc_sb_make(arena);
    tc_schedule_print(&sb, p->s);
    fprintf(stderr, "%s\n", sb.text);
  }
  for (int32_t i = 0; i < p->s->groups.count; i++) {
    tc_emit_options eo = {.logger = &tc_logger_silent, .device = dev, .pick = pick_wide};
    TC_TRY(tc_emit_group(p->s, p->s->groups.data[i], &eo, &p->kernels[i]));
    if (!getenv("TC_TEST_PRINT")) continue;
    tc_sb sb = tc_sb_make(arena);
    tc_kernel_print(&sb, p->kernels[i].kernel);
    fprintf(stderr, "%s\n", sb.text);
  }
  return TC_OK;
}

static inline int64_t number_of(compiled *p, const tc_sym *x) {
  int64_t v = 0;
  assert_true(tc_sym_hint(p->m->syms, x, &v));
  return v;
}

// Inputs are buffers 0 …; returns the memory of output 0.
static inline tc_status interpret(tc_arena *arena, compiled *p, int32_t n_in, void *const *in, void **out) {
  for (int32_t i = 0; i < n_in; i++) p->mem[i] = in[i];
  for (int32_t i = 0; i < p->s->groups.count; i++) {
    tc_emitted *k = &p->kernels[i];
    tc_karg args[32] = {0};
    for (int32_t q = 0; q < k->params.count; q++) {
      const tc_emit_param *e = &k->params.data[q];
      if (!e->buf) {
        args[q].bits = number_of(p, e->scalar);
        continue;
      }
      int64_t bytes = number_of(p, tc_buf_bytes(p->loops, e->buf));
      void **mem = &p->mem[e->buf->id];
      if (!*mem) *mem = memset(tc_arena_alloc_aligned(arena, (size_t)bytes, 64), 0xff, (size_t)bytes);
      args[q] = (tc_karg){.data = *mem, .count = bytes / tc_dtype_size(tc_dtype_real(e->buf->dtype))};
    }
    int64_t site;
    TC_TRY(
        tc_kernel_interpret(tc_system_allocator(), k->kernel, number_of(p, k->blocks), args, k->params.count, &site));
    assert_int_equal(site, -1);
  }
  *out = p->mem[p->loops->outputs.data[0].buf->id];
  return TC_OK;
}

static inline float complex *random_c64(tc_arena *arena, int64_t n) {
  float complex *x = tc_arena_alloc_aligned(arena, (size_t)n * sizeof *x, 64);
  for (int64_t i = 0; i < n; i++)
    x[i] = (float)(rand() % 2001 - 1000) / 500.0f + I * ((float)(rand() % 2001 - 1000) / 500.0f);
  return x;
}

// By definition, in long double.
static inline void plain_dft(int64_t n, bool forward, const cplx *x, cplx *y) {
  long double complex *w = malloc((size_t)n * sizeof *w);
  for (int64_t t = 0; t < n; t++) {
    long double phi = (forward ? -2 : 2) * 3.14159265358979323846264338327950288L * (long double)t / (long double)n;
    w[t] = cosl(phi) + I * sinl(phi);
  }
  for (int64_t k = 0; k < n; k++) {
    long double complex s = 0;
    for (int64_t j = 0; j < n; j++) s += x[j] * w[j * k % n];
    y[k] = (cplx)s;
  }
  free(w);
}

// ‖got - want‖ / ‖want‖
static inline double distance(int64_t n, const cplx *got, const cplx *want) {
  double d = 0, w = 0;
  for (int64_t i = 0; i < n; i++) {
    double e = cabs(got[i] - want[i]), a = cabs(want[i]);
    if (!(e == e)) return INFINITY;
    d += e * e, w += a * a;
  }
  return sqrt(d / (w > 0 ? w : 1));
}

#endif
