// Products of f32 and complex64 by split numbers on tensor cores as a call (split.cu): about twice as fast as those of
// f32 by ordinary arithmetic, and nearer to the true ones, since less is rounded. sm_90 alone; the config key `split` =
// "false" leaves it out. A preferred call among others: the cheapest by the estimates is taken, or the fastest when
// measured.
#include <split_cu.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cuda.h"
#include "library.h"
#include "product.h"

// A block of 128 rows and 32 elements of k is packed into three planes of 16 bits (split.cu).
enum { BLOCK = 128, DEPTH = 32, PACKED = 3 * BLOCK * DEPTH * 2, STAGES = 4, SHARED = STAGES * 2 * PACKED + 1024 };
enum { PACK_LANES = 512, LANES = 384, ALIGN = 256, MOST = 1 << 30, MOST_BATCHES = 65535 };
// Three launches. What a multiprocessor takes for a pair of blocks beside what its f32 units would: measured on an
// H200.
enum { CALL_NS = 9000, TILE_NS = 7000, LEAST_FLOPS = 1 << 24, MOST_PADDING = 4 };
#define SPEED 1.75
#define PACK_SPEED 0.6 // of the memory's

// As split.cu has them.
typedef struct factor {
  cu_ptr data;
  int64_t row, step, batch;
  int32_t rows, k, kind;
} factor;
typedef struct result {
  cu_ptr data, addend, bias;
  int64_t row, batch, addend_row, addend_batch;
  float alpha, beta;
  int32_t rows, columns, function, after;
} result;

// Which factors are packed together, and where: first the greatest magnitudes of x and y, then what is packed of them.
typedef struct packed_factors {
  bool x, y;
  uint64_t x_most, most_bytes, x_bytes, bytes; // of x's magnitudes, of all, of x; of all with what aligns them
} packed_factors;
typedef struct packed_places {
  cu_ptr x_most, y_most, xs, ys;
} packed_places;

typedef struct prepared {
  tc_device_ *d;
  product p;
  factor x, y; // without addresses
  result out;
  int32_t chunks, x_blocks, y_blocks, x_batches, y_batches, batches, n_operands;
  packed_factors fresh, kept; // packed in each run, and once: the factor that is constant, or none
} prepared;

static int32_t refuse(const char **why, const char *text) {
  *why = text;
  return TC_STATUS_UNIMPLEMENTED;
}

static int32_t blocks_of(int64_t n, int32_t size) { return (int32_t)((n + size - 1) / size); }

// A column-major factor by its rows: of D's columns (`right`), or of D's rows.
static factor factor_of(const product *p, const product_matrix *m, bool right) {
  bool pairs = p->dtype == TC_C64, along = right == !m->transposed; // the elements of k lie together
  int64_t rows = right ? p->n : p->m;
  factor f = {.row = along ? m->ld : 1, .step = along ? 1 : m->ld, .batch = p->batch > 1 ? m->batch_stride : 0};
  f.kind = !pairs ? 0 : right ? 1 : 2;
  f.rows = (int32_t)(rows * (f.kind == 2 ? 2 : 1)), f.k = (int32_t)(p->k * (pairs ? 2 : 1));
  return f;
}

static packed_factors packed_of(const prepared *q, bool x, bool y) {
  packed_factors f = {.x = x, .y = y};
  if (!x && !y) return f;
  uint64_t y_most = y ? 4 * (uint64_t)q->y_batches * (uint64_t)q->y.rows : 0,
           y_bytes = y ? (uint64_t)q->y_batches * (uint64_t)q->y_blocks * (uint64_t)q->chunks * PACKED : 0;
  f.x_most = x ? 4 * (uint64_t)q->x_batches * (uint64_t)q->x.rows : 0, f.most_bytes = f.x_most + y_most;
  f.x_bytes = x ? (uint64_t)q->x_batches * (uint64_t)q->x_blocks * (uint64_t)q->chunks * PACKED : 0;
  f.bytes = f.most_bytes + 2 * ALIGN + f.x_bytes + y_bytes;
  return f;
}

static packed_places places_of(const packed_factors *f, cu_ptr memory) {
  cu_ptr most = (memory + ALIGN - 1) / ALIGN * ALIGN, xs = (most + f->most_bytes + ALIGN - 1) / ALIGN * ALIGN;
  return (packed_places){most, most + f->x_most, xs, xs + f->x_bytes};
}

static int32_t describe(const tc_call_node *n, prepared *x, const char **why) {
  int32_t s = product_of(n, PRODUCT_BY_US, &x->p, why);
  const product *p = &x->p;
  if (s != TC_STATUS_OK) return s;
  if (p->dtype != TC_F32 && p->dtype != TC_C64) return refuse(why, "a product of other than f32 and complex64");
  if (p->m > MOST || p->n > MOST || p->k > MOST || p->batch > MOST_BATCHES) return refuse(why, "a huge dimension");
  int64_t parts = p->dtype == TC_C64 ? 2 : 1;
  x->batches = (int32_t)p->batch;
  x->x = factor_of(p, &p->b, true), x->y = factor_of(p, &p->a, false);
  x->chunks = blocks_of(x->x.k, DEPTH);
  x->x_blocks = blocks_of(x->x.rows, BLOCK), x->y_blocks = blocks_of(x->y.rows, BLOCK);
  x->x_batches = x->x.batch ? x->batches : 1, x->y_batches = x->y.batch ? x->batches : 1;
  int64_t columns = (int64_t)x->x_blocks + x->y_blocks, tiles = (int64_t)x->x_blocks * x->y_blocks;
  if (columns * x->chunks > INT32_MAX || tiles > INT32_MAX) return refuse(why, "too many blocks");
  // Of two constant factors that of D's rows, which weights are.
  bool y = n->constant >> p->a.operand & 1, also_x = !y && n->constant >> p->b.operand & 1;
  x->n_operands = n->n_operands;
  x->kept = packed_of(x, also_x, y), x->fresh = packed_of(x, !also_x, !y);
  x->out = (result){.row = parts * p->d.ld,
                    .batch = parts * p->d.batch_stride,
                    .addend_row = parts * p->c.ld,
                    .addend_batch = parts * p->c.batch_stride,
                    .alpha = (float)p->alpha,
                    .beta = (float)p->beta,
                    .rows = x->x.rows,
                    .columns = x->y.rows,
                    .function = p->function,
                    .after = p->after};
  return TC_STATUS_OK;
}

// ---- The code ----
static int32_t compile(tc_device_ *d) {
  static const char *const names[] = {"tc_split_pack", "tc_split_product"};
  char text[sizeof split_cu + 256];
  cu_function f[2];
  size_t n = cuda_function_numbers(text, sizeof text);
  snprintf(text + n, sizeof text - n, "%s", split_cu);
  int32_t s = cuda_own_code(d, text, "sm_90a", names, 2, SHARED, &d->split.module, f);
  if (s == TC_STATUS_OK) d->split.pack = f[0], d->split.multiply = f[1];
  return s;
}

// Compiled on first use.
static int32_t find_code(tc_device_ *d) {
  int32_t s = cuda_compiler(d);
  if (s != TC_STATUS_OK) return s;
  pthread_mutex_lock(&d->own_lock);
  if (!d->split.multiply) s = compile(d);
  pthread_mutex_unlock(&d->own_lock);
  return s;
}

// ---- The table ----
static bool possible(tc_device_ *d) {
  char wish[8];
  if (!d->runs || strcmp(d->arch, "sm_90") != 0 || d->props.shared_bytes < SHARED) return false;
  if (cuda_config(d->host, "split", wish, sizeof wish) && strcmp(wish, "false") == 0) return false;
  return cuda_compiler(d) == TC_STATUS_OK;
}

static int32_t supports(const tc_host *h, tc_device_ *d, const tc_call_node *n, int64_t *out_cost) {
  prepared x = {0};
  const char *why = "";
  *out_cost = -1;
  int32_t s = describe(n, &x, &why);
  if (s != TC_STATUS_OK) {
    cuda_report(h, s, why);
    return TC_STATUS_OK;
  }
  // Of little work the packing is most, and of small matrices what pads their blocks.
  double flops = 2.0 * x.x.rows * x.y.rows * (double)x.x.k * x.batches;
  double padded = 2.0 * BLOCK * BLOCK * DEPTH * x.chunks * (double)x.x_blocks * x.y_blocks * x.batches;
  if (flops < LEAST_FLOPS || padded > MOST_PADDING * flops || !possible(d)) return TC_STATUS_OK;
  int32_t cores = d->props.cores > 0 ? d->props.cores : 1;
  double flops_per_ns = (double)d->props.flops_per_ns / cores + 1, bytes_per_ns = (double)d->props.bytes_per_ns + 1;
  int64_t tiles = (int64_t)x.x_blocks * x.y_blocks * x.batches, waves = (tiles + cores - 1) / cores;
  double tile = 2.0 * BLOCK * BLOCK * DEPTH * x.chunks / (flops_per_ns * SPEED) + TILE_NS;
  double moved = (double)(x.fresh.bytes + x.kept.bytes) * 10 / 6; // four bytes become six
  *out_cost = CALL_NS + (int64_t)(tile * (double)waves + moved / (bytes_per_ns * PACK_SPEED));
  return TC_STATUS_OK;
}

static int32_t prepare(const tc_host *h, tc_device_ *d, const tc_call_node *n, void **out, uint64_t *out_workspace) {
  const char *why = "";
  void *memory;
  int32_t s = cuda_prepare(h, d, sizeof(prepared), &memory);
  if (s != TC_STATUS_OK) return s;
  prepared *x = memory;
  s = describe(n, x, &why);
  if (s == TC_STATUS_OK && x->p.k == 0) s = refuse(&why, "a product over nothing");
  if (s != TC_STATUS_OK) cuda_report(h, s, why);
  else s = find_code(d);
  return cuda_prepared(h, s, x, x->fresh.bytes, out, out_workspace);
}

static bool is_empty(const product *p) { return p->m == 0 || p->n == 0 || p->batch == 0; }

// Packs those of the factors that go together. A factor that is left out has no blocks and no rows.
static int32_t pack(const prepared *q, const packed_factors *f, const tc_view *operands, cu_ptr memory, cu_stream st) {
  tc_device_ *d = q->d;
  factor x = q->x, y = q->y;
  packed_places at = places_of(f, memory);
  x.data = cuda_address(&operands[q->p.b.operand]), y.data = cuda_address(&operands[q->p.a.operand]);
  int32_t chunks = q->chunks, xb = f->x ? q->x_blocks : 0, yb = f->y ? q->y_blocks : 0, xn = f->x ? q->x_batches : 0,
          yn = f->y ? q->y_batches : 0;
  void *params[] = {&x, &y, &at.xs, &at.ys, &at.x_most, &chunks, &xb, &yb, &xn, &yn};
  cuda_grid grid = {(unsigned)((xb + yb) * chunks), (unsigned)(xn > yn ? xn : yn), PACK_LANES, 0, 1};
  int32_t s = cuda_check(d, "cuMemsetD8Async", d->driver.fill(at.x_most, 0, f->most_bytes, st));
  return s == TC_STATUS_OK ? cuda_check(d, "launching @tc_split_pack", cuda_start(d, d->split.pack, grid, st, params))
                           : s;
}

static int32_t run(void *prepared_call, tc_handle stream, const tc_view *operands, const tc_view *results,
                   tc_handle workspace, int64_t offset) {
  prepared *q = prepared_call;
  tc_device_ *d = q->d;
  const product *p = &q->p;
  if (is_empty(p)) return TC_STATUS_OK;
  int32_t s = cuda_enter(d);
  if (s != TC_STATUS_OK) return s;
  factor x = q->x, y = q->y;
  result out = q->out;
  cu_stream st = (cu_stream)(uintptr_t)stream;
  cu_ptr memory = workspace + (uint64_t)offset;
  x.data = cuda_address(&operands[p->b.operand]), y.data = cuda_address(&operands[p->a.operand]),
  out.data = cuda_address(results);
  if (p->has_c) out.addend = cuda_address(&operands[p->c.operand]);
  if (p->bias >= 0) out.bias = cuda_address(&operands[p->bias]);
  packed_places at = places_of(&q->fresh, memory);
  if (q->kept.bytes) {
    packed_places kept = places_of(&q->kept, cuda_address(&operands[q->n_operands]));
    if (q->kept.x) at.xs = kept.xs, at.x_most = kept.x_most;
    else at.ys = kept.ys, at.y_most = kept.y_most;
  }
  int32_t chunks = q->chunks, xb = q->x_blocks, yb = q->y_blocks;
  void *multiply[] = {&x, &y, &out, &at.xs, &at.ys, &at.x_most, &at.y_most, &chunks, &xb, &yb};
  s = pack(q, &q->fresh, operands, memory, st);
  if (s != TC_STATUS_OK) return s;
  cuda_grid tiles = {(unsigned)(xb * yb), (unsigned)q->batches, LANES, SHARED, 1};
  return cuda_check(d, "launching @tc_split_product", cuda_start(d, d->split.multiply, tiles, st, multiply));
}

// ---- Constant factors ----
static int32_t kept(void *prepared_call, uint64_t *out_bytes) {
  const prepared *q = prepared_call;
  *out_bytes = is_empty(&q->p) ? 0 : q->kept.bytes;
  return TC_STATUS_OK;
}

static int32_t keep(void *prepared_call, tc_handle stream, const tc_view *operands, const tc_view *to,
                    tc_handle workspace, int64_t offset) {
  const prepared *q = prepared_call;
  (void)workspace, (void)offset;
  int32_t s = cuda_enter(q->d);
  return s == TC_STATUS_OK ? pack(q, &q->kept, operands, cuda_address(to), (cu_stream)(uintptr_t)stream) : s;
}

const tc_call_table cuda_split_calls = {CUDA_CALLS("split"), .destroy = cuda_destroy_call, .kept = kept, .keep = keep};
