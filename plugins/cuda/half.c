// Products of 16-bit floats as a call (half.cu): sums in f32, with what follows on the way out. sm_90 and a driver that
// describes tensors (12.0) alone; the config key `half` = "false" leaves it out, "always" prefers it. A preferred call
// among others: the cheapest by the estimates is taken, or the fastest when measured; its ways are the width of its
// tiles and into how many parts k is cut.
#include <half_cu.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cuda.h"
#include "library.h"
#include "product.h"

enum { ROWS = 128, DEPTH = 64, CLUSTER = 2, LANES = 384, SHARED = (196608 + 1024), FINISH_LANES = 256 };
enum { CALL_NS = 7000, SUM_NS = 4500, LIBRARY_NS = 4000, LEAST_FLOPS = 1 << 24, MOST_PADDING = 4, LEAST_CHUNKS = 4 };
enum { MOST = 1 << 30, MOST_BATCHES = 65535, ALIGN = 256, KEEPS = 8 /* elements of 16 bytes */ };

// The ways: columns of a tile, parts of k; what a multiprocessor does as often as its f32 units, and what a tile takes
// besides: measured on an H200.
typedef struct way {
  int32_t columns, parts;
} way;
static const way ways[] = {{256, 1}, {128, 1}, {256, 2}, {128, 2}, {256, 4}, {128, 4}, {256, 8}, {128, 8}, {128, 16}};
enum { WAYS = sizeof ways / sizeof *ways, WIDE_TILE_NS = 2000, NARROW_TILE_NS = 1200, FUNCTION_NS = 3000 };
#define WIDE_SPEED 10.0
#define NARROW_SPEED 9.0
#define LIBRARY_SPEED 10.0

// As half.cu has them.
typedef struct tensor_map {
  _Alignas(64) uint64_t words[16];
} tensor_map;
typedef struct factor {
  cu_ptr data;
  int64_t row, step, batch;
} factor;
typedef struct result {
  cu_ptr data, addend, bias;
  int64_t row, batch, addend_row, addend_batch;
  float alpha, beta;
  int32_t rows, columns, after;
} result;
typedef struct work {
  int32_t tiles, chunks, chunks_each, parts, x_pairs, y_blocks, x_batched, y_batched;
  cu_ptr partial;
  int64_t pitch;
} work;

typedef struct prepared {
  tc_device_ *d;
  product p;
  factor x, y; // without addresses
  result out;
  work w;
  int32_t rows, columns, k, batches, function, tile_columns, wide;
  uint64_t workspace;
  cuda_half *code;
} prepared;

static int32_t refuse(const char **why, const char *text) {
  *why = text;
  return TC_STATUS_UNIMPLEMENTED;
}

static int32_t blocks_of(int64_t n, int64_t size) { return (int32_t)((n + size - 1) / size); }

// A column-major factor by its rows: of D's columns (`right`), or of D's rows.
static factor factor_of(const product *p, const product_matrix *m, bool right) {
  bool along = right == !m->transposed; // the elements of k lie together
  return (factor){.row = along ? m->ld : 1, .step = along ? 1 : m->ld, .batch = p->batch > 1 ? m->batch_stride : 0};
}

static bool lies_well(const factor *f) {
  return (f->step == 1 ? f->row : f->step) % KEEPS == 0 && f->batch % KEEPS == 0;
}

static int32_t describe(const tc_call_node *n, prepared *x, const char **why) {
  int32_t s = product_of(n, PRODUCT_BY_US, &x->p, why);
  const product *p = &x->p;
  if (s != TC_STATUS_OK) return s;
  if (p->dtype != TC_BF16 && p->dtype != TC_F16) return refuse(why, "a product of other than 16-bit floats");
  if (p->m > MOST || p->n > MOST || p->k > MOST || p->batch > MOST_BATCHES) return refuse(why, "a huge dimension");
  x->x = factor_of(p, &p->b, true), x->y = factor_of(p, &p->a, false);
  if (!lies_well(&x->x) || !lies_well(&x->y)) return refuse(why, "a factor whose rows do not keep 16 bytes");
  x->rows = (int32_t)p->n, x->columns = (int32_t)p->m, x->k = (int32_t)p->k, x->batches = (int32_t)p->batch;
  x->function = p->function;
  x->wide = p->m % KEEPS == 0 && p->d.ld % KEEPS == 0 && p->d.batch_stride % KEEPS == 0 && p->c.ld % KEEPS == 0 &&
            p->c.batch_stride % KEEPS == 0;
  x->out = (result){.row = p->d.ld,
                    .batch = p->d.batch_stride,
                    .addend_row = p->c.ld,
                    .addend_batch = p->c.batch_stride,
                    .alpha = (float)p->alpha,
                    .beta = (float)p->beta,
                    .rows = x->rows,
                    .columns = x->columns,
                    .after = p->after};
  return TC_STATUS_OK;
}

// ---- The ways ----
static int32_t chunks_of(const prepared *x) { return blocks_of(x->k, DEPTH); }

static bool is_possible(const prepared *x, const way *w) {
  int64_t tiles = (int64_t)blocks_of(x->rows, ROWS * CLUSTER) * blocks_of(x->columns, w->columns) * x->batches;
  if (tiles * w->parts > INT32_MAX / CLUSTER) return false;
  if (w->parts == 1) return true;
  // No part is empty.
  int32_t chunks = chunks_of(x), each = blocks_of(chunks, w->parts);
  return each >= LEAST_CHUNKS && (int64_t)each * (w->parts - 1) < chunks;
}

static int64_t cost_of(const tc_device_ *d, const prepared *x, const way *w) {
  int32_t cores = d->props.cores > CLUSTER ? d->props.cores / CLUSTER : 1; // pairs
  double flops = (double)d->props.flops_per_ns / cores + 1, bytes = (double)d->props.bytes_per_ns + 1;
  int64_t tiles =
      (int64_t)blocks_of(x->rows, ROWS * CLUSTER) * blocks_of(x->columns, w->columns) * x->batches * w->parts;
  double speed = w->columns == 256 ? WIDE_SPEED : NARROW_SPEED;
  double tile = 2.0 * ROWS * CLUSTER * w->columns * DEPTH * blocks_of(chunks_of(x), w->parts) / (flops * speed) +
                (w->columns == 256 ? WIDE_TILE_NS : NARROW_TILE_NS) +
                (x->function < 0 ? 0 : FUNCTION_NS * w->columns / 256);
  double sums =
      w->parts == 1 && x->wide ? 0 : SUM_NS + 8.0 * w->parts * x->rows * (double)x->columns * x->batches / bytes;
  return CALL_NS + (int64_t)(tile * (double)((tiles + cores - 1) / cores) + sums);
}

static const way *cheapest(const tc_device_ *d, const prepared *x) {
  const way *best = NULL;
  for (int32_t i = 0; i < WAYS; i++) {
    if (is_possible(x, &ways[i]) && (!best || cost_of(d, x, &ways[i]) < cost_of(d, x, best))) best = &ways[i];
  }
  return best;
}

static int32_t count_ways(const prepared *x) {
  int32_t n = 0;
  for (int32_t i = 0; i < WAYS; i++) n += is_possible(x, &ways[i]);
  return n;
}

// Possible way number `variant` from 1, or the cheapest.
static const way *way_of(const tc_device_ *d, const prepared *x, int32_t variant) {
  for (int32_t i = 0; i < WAYS && variant > 0; i++) {
    if (is_possible(x, &ways[i]) && --variant == 0) return &ways[i];
  }
  return cheapest(d, x);
}

static void go(prepared *x, const way *w) {
  x->tile_columns = w->columns;
  work *k = &x->w;
  *k = (work){.chunks = chunks_of(x), .parts = w->parts};
  k->chunks_each = blocks_of(k->chunks, w->parts);
  k->x_pairs = blocks_of(x->rows, ROWS * CLUSTER), k->y_blocks = blocks_of(x->columns, w->columns);
  k->tiles = k->x_pairs * k->y_blocks * x->batches * w->parts;
  k->x_batched = x->x.batch != 0, k->y_batched = x->y.batch != 0;
  k->pitch = (int64_t)k->y_blocks * w->columns;
  x->workspace = w->parts == 1 && x->wide
                     ? 0
                     : 4 * (uint64_t)x->batches * (uint64_t)(w->parts * (int64_t)x->rows * k->pitch) + ALIGN;
}

// ---- The code ----
static int32_t compile(tc_device_ *d, const prepared *x, cuda_half *c) {
  static const char *const names[] = {"tc_half_finish", "tc_half_plain", "tc_half_product"};
  enum { ROOM = sizeof half_cu + 512 };
  cu_function f[3];
  char *text = d->host->alloc(d->host->self, ROOM);
  if (!text) return TC_STATUS_OUT_OF_MEMORY;
  size_t n = cuda_function_numbers(text, ROOM);
  snprintf(text + n, ROOM - n,
           "#define COLUMNS %d\n#define BF16 %d\n#define X_ROWS %d\n#define Y_ROWS %d\n#define FUNCTION %d\n%s",
           (int)x->tile_columns, x->p.dtype == TC_BF16, x->x.step != 1, x->y.step != 1, (int)x->function, half_cu);
  int32_t s = cuda_own_code(d, text, "sm_90a", names, 3, SHARED, &c->module, f);
  if (s == TC_STATUS_OK) c->finish = f[0], c->plain = f[1], c->multiply = f[2];
  d->host->free(d->host->self, text);
  return s;
}

// Compiled on first use.
static int32_t find_code(tc_device_ *d, prepared *x) {
  int32_t s = cuda_compiler(d);
  if (s != TC_STATUS_OK) return s;
  int32_t number = ((x->function + 1) * 2 + (x->tile_columns == 256)) * 2 + (x->p.dtype == TC_BF16);
  cuda_half *c = &d->half[(number * 2 + (x->x.step != 1)) * 2 + (x->y.step != 1)];
  pthread_mutex_lock(&d->own_lock);
  if (!c->multiply) s = compile(d, x, c);
  pthread_mutex_unlock(&d->own_lock);
  x->code = c;
  return s;
}

// ---- The table ----
static bool wished(const tc_device_ *d, const char *what) {
  char wish[8];
  return cuda_config(d->host, "half", wish, sizeof wish) && strcmp(wish, what) == 0;
}

static bool possible(tc_device_ *d) {
  if (!d->runs || strcmp(d->arch, "sm_90") != 0 || !d->driver.tensor_map || d->props.shared_bytes < SHARED)
    return false;
  return !wished(d, "false") && cuda_compiler(d) == TC_STATUS_OK;
}

// What the library cannot do with a product it leaves to a kernel behind it, which reads and writes the result once
// more.
static int64_t cost_otherwise(const tc_device_ *d, const prepared *x, const tc_call_node *n, double flops) {
  product p;
  const char *why;
  if (product_of(n, PRODUCT_BY_LIBRARY, &p, &why) == TC_STATUS_OK) return INT64_MAX; // it speaks for itself
  double trip = 4.0 * x->rows * (double)x->columns * x->batches / ((double)d->props.bytes_per_ns + 1);
  return LIBRARY_NS + d->props.launch_ns +
         (int64_t)(flops / (LIBRARY_SPEED * (double)d->props.flops_per_ns + 1) + trip);
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
  const way *w = cheapest(d, &x);
  double flops = 2.0 * x.rows * (double)x.columns * x.k * x.batches;
  if (!w || flops < LEAST_FLOPS || !possible(d)) return TC_STATUS_OK;
  double columns = (double)blocks_of(x.columns, w->columns) * w->columns;
  if (2.0 * blocks_of(x.rows, ROWS) * ROWS * columns * x.k * x.batches > MOST_PADDING * flops) return TC_STATUS_OK;
  int64_t cost = cost_of(d, &x, w);
  bool always = wished(d, "always");
  if (always || cost <= cost_otherwise(d, &x, n, flops)) *out_cost = always ? 0 : cost;
  else cuda_report(h, TC_STATUS_UNIMPLEMENTED, "the library and a kernel behind it take less");
  return TC_STATUS_OK;
}

static int32_t variants(const tc_host *h, tc_device_ *d, const tc_call_node *n, int32_t *out_count) {
  prepared x = {0};
  const char *why = "";
  (void)d;
  *out_count = 0;
  int32_t s = describe(n, &x, &why);
  if (s != TC_STATUS_OK) return cuda_report(h, s, why);
  *out_count = count_ways(&x);
  return TC_STATUS_OK;
}

static int32_t prepare(const tc_host *h, tc_device_ *d, const tc_call_node *n, void **out, uint64_t *out_workspace) {
  const char *why = "";
  void *memory;
  int32_t s = cuda_prepare(h, d, sizeof(prepared), &memory);
  if (s != TC_STATUS_OK) return s;
  prepared *x = memory;
  s = describe(n, x, &why);
  const way *w = s == TC_STATUS_OK ? way_of(d, x, n->variant) : NULL;
  if (s == TC_STATUS_OK && (x->p.k == 0 || !w)) s = refuse(&why, "a product over nothing");
  if (s == TC_STATUS_OK && !d->driver.tensor_map) s = refuse(&why, "a driver that describes no tensors");
  if (s != TC_STATUS_OK) cuda_report(h, s, why);
  else go(x, w), s = find_code(d, x);
  return cuda_prepared(h, s, x, x->workspace, out, out_workspace);
}

// A factor as bulk copies see it: boxes of 64 elements that lie together, by `rows` rows of k, or by 64 of k.
static int32_t describe_tensor(const prepared *x, const factor *f, int32_t rows, uint32_t box_rows, tensor_map *out) {
  bool along = f->step == 1;
  uint64_t sizes[3] = {(uint64_t)(along ? x->k : rows), (uint64_t)(along ? rows : x->k),
                       f->batch ? (uint64_t)x->batches : 1};
  uint64_t strides[2] = {2 * (uint64_t)(along ? f->row : f->step), f->batch ? 2 * (uint64_t)f->batch : 16};
  uint32_t box[3] = {DEPTH, along ? box_rows : DEPTH, 1}, steps[3] = {1, 1, 1};
  enum { U16 = 1, PLAIN = 0, SWIZZLE_128 = 3, PROMOTE_256 = 3, ZEROS = 0 };
  return cuda_check(x->d, "cuTensorMapEncodeTiled",
                    x->d->driver.tensor_map(out, U16, 3, f->data, sizes, strides, box, steps, PLAIN, SWIZZLE_128,
                                            PROMOTE_256, ZEROS));
}

// One element a lane.
static cuda_grid grid_of(const prepared *q) {
  int64_t n = (int64_t)q->batches * q->rows * q->columns;
  return (cuda_grid){(unsigned)((n + FINISH_LANES - 1) / FINISH_LANES), 1, FINISH_LANES, 0, 1};
}

// At any address.
static int32_t run_plain(prepared *q, factor *x, factor *y, result *out, cu_stream st) {
  int32_t k = q->k, batches = q->batches;
  void *params[] = {x, y, out, &k, &batches};
  return cuda_check(q->d, "launching @tc_half_plain", cuda_start(q->d, q->code->plain, grid_of(q), st, params));
}

static int32_t run(void *prepared_call, tc_handle stream, const tc_view *operands, const tc_view *results,
                   tc_handle workspace, int64_t offset) {
  prepared *q = prepared_call;
  tc_device_ *d = q->d;
  const product *p = &q->p;
  if (p->m == 0 || p->n == 0 || p->batch == 0) return TC_STATUS_OK;
  int32_t s = cuda_enter(d);
  if (s != TC_STATUS_OK) return s;
  factor x = q->x, y = q->y;
  result out = q->out;
  work w = q->w;
  cu_stream st = (cu_stream)(uintptr_t)stream;
  x.data = cuda_address(&operands[p->b.operand]), y.data = cuda_address(&operands[p->a.operand]),
  out.data = cuda_address(results);
  if (p->has_c) out.addend = cuda_address(&operands[p->c.operand]);
  if (p->bias >= 0) out.bias = cuda_address(&operands[p->bias]);
  cu_ptr lies = x.data | y.data | (q->workspace ? 0 : out.data | out.addend | out.bias);
  if (lies % 16 != 0) return run_plain(q, &x, &y, &out, st);
  if (q->workspace) w.partial = (workspace + (uint64_t)offset + ALIGN - 1) / ALIGN * ALIGN;
  tensor_map xm, ym;
  s = describe_tensor(q, &x, q->rows, ROWS, &xm);
  if (s == TC_STATUS_OK) s = describe_tensor(q, &y, q->columns, (uint32_t)q->tile_columns / CLUSTER, &ym);
  if (s != TC_STATUS_OK) return s;
  int32_t pairs = d->props.cores / CLUSTER, blocks = CLUSTER * (w.tiles < pairs ? w.tiles : pairs > 0 ? pairs : 1);
  void *multiply[] = {&xm, &ym, &out, &w}, *finish[] = {&out, &w, &q->batches};
  cuda_grid tiles = {(unsigned)blocks, 1, LANES, SHARED, 1};
  s = cuda_check(d, "launching @tc_half_product", cuda_start(d, q->code->multiply, tiles, st, multiply));
  if (s != TC_STATUS_OK || !q->workspace) return s;
  return cuda_check(d, "launching @tc_half_finish", cuda_start(d, q->code->finish, grid_of(q), st, finish));
}

const tc_call_table cuda_half_calls = {CUDA_CALLS("half"), .destroy = cuda_destroy_call, .variants = variants};
