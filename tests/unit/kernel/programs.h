// y = ifft(fft(x) * h) along rows of 4096 complex numbers, built for lanes that are threads (512) and for lanes that
// are vector elements (16): what the tests interpret and print as device code.
//
// Stockham, radix 8, four passes each way. The elements that a lane holds after the last forward pass are those that it
// needs in the first inverse one, so the product with h happens in registers.
#ifndef TESTS_UNIT_KERNEL_PROGRAMS_H_
#define TESTS_UNIT_KERNEL_PROGRAMS_H_

#include <math.h>
#include <stdlib.h>

#include "tests/unit/kernel/kernel_test.h"

enum { ROW = 4096, RADIX = 8, GROUPS = ROW / RADIX, PASSES = 4 };

typedef struct complex_value {
  tc_kval re, im;
} complex_value;

typedef struct fft_builder {
  tc_kb *b;
  tc_kmem table;           // exp(-2πik/ROW), interleaved
  tc_kmem shared[2], held; // shared[1] and held: whichever the variant uses
} fft_builder;

static inline tc_kval i2(tc_kb *b, int32_t op, tc_kval x, int64_t c) {
  return tc_kb_op2(b, op, x, tc_kb_int(b, TC_I32, c));
}

static inline complex_value c_add(tc_kb *b, complex_value x, complex_value y) {
  return (complex_value){tc_kb_op2(b, TC_K_ADD, x.re, y.re), tc_kb_op2(b, TC_K_ADD, x.im, y.im)};
}
static inline complex_value c_sub(tc_kb *b, complex_value x, complex_value y) {
  return (complex_value){tc_kb_op2(b, TC_K_SUB, x.re, y.re), tc_kb_op2(b, TC_K_SUB, x.im, y.im)};
}
static inline complex_value c_mul(tc_kb *b, complex_value x, complex_value y) {
  tc_kval n = tc_kb_op1(b, TC_K_NEG, x.im);
  return (complex_value){tc_kb_op3(b, TC_K_FMA, x.re, y.re, tc_kb_op2(b, TC_K_MUL, n, y.im)),
                         tc_kb_op3(b, TC_K_FMA, x.re, y.im, tc_kb_op2(b, TC_K_MUL, x.im, y.re))};
}
// x times -i (forward) or i (inverse)
static inline complex_value c_turn(tc_kb *b, complex_value x, bool inverse) {
  return inverse ? (complex_value){tc_kb_op1(b, TC_K_NEG, x.im), x.re}
                 : (complex_value){x.im, tc_kb_op1(b, TC_K_NEG, x.re)};
}
// x times (1 ∓ i) / √2
static inline complex_value c_eighth(tc_kb *b, complex_value x, bool inverse) {
  tc_kval h = tc_kb_real(b, TC_F32, 0.70710678118654752440);
  complex_value t = c_turn(b, x, inverse), s = c_add(b, x, t);
  return (complex_value){tc_kb_op2(b, TC_K_MUL, s.re, h), tc_kb_op2(b, TC_K_MUL, s.im, h)};
}

static inline void dft4(tc_kb *b, complex_value *x, bool inverse) { // in order
  complex_value s02 = c_add(b, x[0], x[2]), d02 = c_sub(b, x[0], x[2]), s13 = c_add(b, x[1], x[3]),
                d13 = c_turn(b, c_sub(b, x[1], x[3]), inverse);
  x[0] = c_add(b, s02, s13), x[1] = c_add(b, d02, d13), x[2] = c_sub(b, s02, s13), x[3] = c_sub(b, d02, d13);
}

static inline void dft8(tc_kb *b, complex_value *x, bool inverse) {
  complex_value e[4] = {x[0], x[2], x[4], x[6]}, o[4] = {x[1], x[3], x[5], x[7]};
  dft4(b, e, inverse);
  dft4(b, o, inverse);
  o[1] = c_eighth(b, o[1], inverse);
  o[2] = c_turn(b, o[2], inverse);
  o[3] = c_turn(b, c_eighth(b, o[3], inverse), inverse);
  for (int32_t i = 0; i < 4; i++) x[i] = c_add(b, e[i], o[i]), x[i + 4] = c_sub(b, e[i], o[i]);
}

static inline complex_value load_pair(tc_kb *b, tc_kmem m, tc_kval index) {
  tc_kval v[2];
  tc_kb_load(b, m, i2(b, TC_K_MUL, index, 2), 2, -1, NULL, v);
  return (complex_value){v[0], v[1]};
}

static inline void store_pair(tc_kb *b, tc_kmem m, tc_kval index, complex_value x) {
  tc_kval v[2] = {x.re, x.im};
  tc_kb_store(b, m, i2(b, TC_K_MUL, index, 2), 2, v, -1);
}

static inline int64_t stride_of(int32_t pass) { return pass == 0 ? 1 : 8 * stride_of(pass - 1); }

// Turns and transforms the eight values of group j.
static inline void butterfly(fft_builder *f, tc_kval j, int32_t pass, bool inverse, complex_value *x) {
  int64_t s = stride_of(pass);
  tc_kval low = i2(f->b, TC_K_AND, j, s - 1);
  for (int32_t r = 1; r < RADIX && s > 1; r++) {
    complex_value w = load_pair(f->b, f->table, i2(f->b, TC_K_MUL, low, r * (ROW / (s * RADIX))));
    if (inverse) w.im = tc_kb_op1(f->b, TC_K_NEG, w.im);
    x[r] = c_mul(f->b, x[r], w);
  }
  dft8(f->b, x, inverse);
}

static inline void read_shared(fft_builder *f, tc_kmem m, tc_kval j, complex_value *x) {
  for (int32_t r = 0; r < RADIX; r++) x[r] = load_pair(f->b, m, i2(f->b, TC_K_ADD, j, r * GROUPS));
}

static inline void write_shared(fft_builder *f, tc_kmem m, tc_kval j, int32_t pass, const complex_value *x) {
  int64_t s = stride_of(pass);
  tc_kval low = i2(f->b, TC_K_AND, j, s - 1), high = tc_kb_op2(f->b, TC_K_SUB, j, low);
  tc_kval base = tc_kb_op3(f->b, TC_K_FMA, high, tc_kb_int(f->b, TC_I32, RADIX), low);
  for (int32_t r = 0; r < RADIX; r++) store_pair(f->b, m, i2(f->b, TC_K_ADD, base, r * s), x[r]);
}

typedef struct filter_io {
  tc_kmem x, h, y;
  tc_kval start; // first element of the row
} filter_io;

// The global side of a group: reading x, the product with h between the transforms, writing y.
static inline void read_global(fft_builder *f, tc_kmem m, tc_kval base, tc_kval j, complex_value *x) {
  for (int32_t r = 0; r < RADIX; r++) {
    tc_kval k = i2(f->b, TC_K_ADD, j, r * GROUPS);
    x[r] = load_pair(f->b, m, base >= 0 ? tc_kb_op2(f->b, TC_K_ADD, base, k) : k);
  }
}

static inline void filter_values(fft_builder *f, const filter_io *io, tc_kval j, complex_value *x) {
  complex_value h[RADIX];
  read_global(f, io->h, -1, j, h);
  for (int32_t r = 0; r < RADIX; r++) x[r] = c_mul(f->b, x[r], h[r]);
}

static inline void write_global(fft_builder *f, const filter_io *io, tc_kval j, const complex_value *x) {
  tc_kval n = tc_kb_real(f->b, TC_F32, 1.0 / ROW);
  for (int32_t r = 0; r < RADIX; r++) {
    complex_value v = {tc_kb_op2(f->b, TC_K_MUL, x[r].re, n), tc_kb_op2(f->b, TC_K_MUL, x[r].im, n)};
    store_pair(f->b, io->y, tc_kb_op2(f->b, TC_K_ADD, io->start, i2(f->b, TC_K_ADD, j, r * GROUPS)), v);
  }
}

// What one stage does with a group before and after its passes. Stages: 0, 1, 2 forward; 3 the last forward pass, h and
// the first inverse one; 4, 5, 6 inverse. `out` receives the values, which belong to `*out_pass`'s write (-1: to y).
static inline void stage(fft_builder *f, const filter_io *io, tc_kmem in, int32_t number, tc_kval j, complex_value *x,
                         int32_t *out_pass) {
  if (number == 0) read_global(f, io->x, io->start, j, x);
  else read_shared(f, in, j, x);
  butterfly(f, j, number < PASSES ? number : number - 3, number >= PASSES, x);
  *out_pass = number < 3 ? number : number == 3 ? 0 : number == 6 ? -1 : number - 3;
  if (number != 3) return;
  filter_values(f, io, j, x);
  butterfly(f, j, 0, true, x);
}

static inline tc_kernel *build_rows_filter(tc_arena *arena, int32_t lanes) {
  bool threads = lanes == GROUPS;
  tc_kb *b = tc_kb_create(arena, threads ? TC_SV("rows_filter_4096_threads") : TC_SV("rows_filter_4096_vector"), lanes);
  filter_io io;
  io.x = tc_kb_global(b, TC_SV("x"), TC_F32, TC_MEM_READONLY | TC_MEM_NOALIAS, 16);
  io.h = tc_kb_global(b, TC_SV("h"), TC_F32, TC_MEM_READONLY | TC_MEM_NOALIAS, 16);
  io.y = tc_kb_global(b, TC_SV("y"), TC_F32, TC_MEM_WRITEONLY | TC_MEM_NOALIAS, 16);
  float *w = tc_arena_alloc(arena, sizeof *w * 2 * ROW);
  for (int32_t k = 0; k < ROW; k++)
    w[2 * k] = (float)cos(2 * M_PI * k / ROW), w[2 * k + 1] = (float)-sin(2 * M_PI * k / ROW);
  fft_builder f = {.b = b, .table = tc_kb_table(b, TC_SV("w"), TC_F32, 2 * ROW, w)};
  f.shared[0] = tc_kb_shared(b, TC_SV("row"), TC_F32, 2 * ROW);
  if (threads) f.held = tc_kb_lane_array(b, TC_SV("held"), TC_F32, 2 * RADIX);
  else f.shared[1] = tc_kb_shared(b, TC_SV("other"), TC_F32, 2 * ROW);
  io.start = i2(b, TC_K_MUL, tc_kb_block(b), ROW);
  complex_value x[RADIX];
  int32_t pass;
  for (int32_t number = 0; number < 7; number++) {
    if (number) tc_kb_barrier(b);
    tc_kb_lanes(b);
    tc_kval j = tc_kb_lane(b);
    if (!threads) { // groups in turn, from one shared row to the other
      tc_kval g = tc_kb_for(b, tc_kb_int(b, TC_I32, 0), tc_kb_int(b, TC_I32, GROUPS), lanes, 0, 0, NULL, NULL);
      j = tc_kb_op2(b, TC_K_ADD, g, j);
      stage(&f, &io, f.shared[(number + 1) % 2], number, j, x, &pass);
      if (pass < 0) write_global(&f, &io, j, x);
      else write_shared(&f, f.shared[number % 2], j, pass, x);
      tc_kb_end_for(b, 0, NULL, NULL);
    } else { // one group per lane; its values wait in registers until all have read
      stage(&f, &io, f.shared[0], number, j, x, &pass);
      if (pass < 0) write_global(&f, &io, j, x);
      else if (number == 0) write_shared(&f, f.shared[0], j, pass, x);
      else {
        for (int32_t r = 0; r < RADIX; r++) store_pair(b, f.held, tc_kb_int(b, TC_I32, r), x[r]);
        tc_kb_end_lanes(b, 0, NULL, NULL);
        tc_kb_barrier(b);
        tc_kb_lanes(b);
        for (int32_t r = 0; r < RADIX; r++) x[r] = load_pair(b, f.held, tc_kb_int(b, TC_I32, r));
        write_shared(&f, f.shared[0], tc_kb_lane(b), pass, x);
      }
    }
    tc_kb_end_lanes(b, 0, NULL, NULL);
  }
  tc_kernel *k, *plain;
  CHECK_OK(tc_kb_finish(b, &k));
  CHECK_OK(tc_kernel_legalise(arena, k, 32, &plain));
  return plain;
}

// The kernel in a file of examples/.
static inline tc_kernel *example(tc_arena *arena, const char *path) {
  tc_sv text;
  tc_kernel *k;
  CHECK_OK(tc_file_read(arena, path, &text));
  CHECK_OK(parse_text(arena, text.data, &k));
  CHECK_OK(tc_kernel_verify(k));
  return k;
}

static inline tc_kernel *legal(tc_arena *arena, const tc_kernel *k) {
  tc_kernel *plain;
  CHECK_OK(tc_kernel_legalise(arena, k, 32, &plain));
  return plain;
}

#endif
