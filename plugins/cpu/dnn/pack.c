// A right factor of bf16 whose columns lie in memory as rows (linear's weight) in blocks of pairs, as oneDNN's code for
// the matrix unit wants it: [n / width][k / 32][pair of k][column][2]. oneDNN's own reorder is slower,
// and weights that are inputs are packed in every run.
//
// This file is compiled for AVX-512; a plan has such a step only where oneDNN has chosen the matrix unit.
#include "../tiles/pairs.h"
#include "dnn.h"

enum { SIDE = 16, DEPTH = 32 };

static int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }

typedef struct packing {
  const dnn_pack *p;
  const uint16_t *from;
  uint16_t *to;
} packing;

// Blocks of columns begin … end-1.
static void pack_blocks(void *arg, int64_t begin, int64_t end) {
  const packing *x = arg;
  const dnn_pack *p = x->p;
  int64_t steps = ceil_div(p->k, DEPTH);
  for (int64_t block = begin; block < end; block++)
    for (int64_t step = 0; step < steps; step++) {
      uint16_t *to = x->to + (block * steps + step) * DEPTH * p->width;
      for (int64_t column = 0; column < p->width; column += SIDE) {
        __m512i r[SIDE];
        for (int64_t i = 0; i < SIDE; i++) {
          int64_t n = block * p->width + column + i;
          r[i] =
              n < p->n ? tiles_row(x->from + n * p->row + step * DEPTH, p->k - step * DEPTH) : _mm512_setzero_si512();
        }
        tiles_transpose(r);
        for (int64_t i = 0; i < SIDE; i++) _mm512_storeu_si512(to + (i * p->width + column) * 2, r[i]);
      }
    }
}

void dnn_pack_run(const dnn_plan *plan, const dnn_pack *p, const void *from, void *to) {
  enum { ELEMENTS = 1 << 16 }; // worth a thread
  packing x = {.p = p, .from = from, .to = to};
  int64_t block = p->width * p->k, grain = block > 0 && block < ELEMENTS ? ELEMENTS / block : 1;
  plan->host->parallel_for(plan->host->self, ceil_div(p->n, p->width), grain, pack_blocks, &x);
}
