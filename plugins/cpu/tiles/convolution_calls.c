// The table of convolutions on the processor's matrix unit: _convolution_packed over bf16 in one or two dimensions.
//
// A run is cut into tasks, some units (rows of an image) by some output channels each, which threads take in turn. What
// a task multiplies stays in its core's own cache; weights that do not fit there are read by as few tasks as threads
// allow.
//
// The call is preferred to a kernel wherever it is worth a start and tiles are not mostly empty: it does what follows,
// too, and the unit is an order of magnitude faster than the vectors.
#include "convolution.h"
#include "tasks.h"
#include "tiles.h"

enum { INPUT, WEIGHT, FACTOR, SHIFT, OTHER, THEN, KERNEL, STRIDE, PADDING, DILATION, GROUPS };
enum { CALL_NS = 4000, GFLOPS = 1200, PACKED_PER_NS = 8, WRITTEN_PER_NS = 4, WEIGHTS_PER_NS = 12 }; // of one thread
enum { LEAST_FLOPS = 4000000, MOST_EMPTY = 6 }; // operations of a call; times of what is asked for that tiles compute
enum { UNIT_BYTES = 1 << 20, TASK_BYTES = 1 << 20, FEW_WEIGHTS = 512 << 10, LEAST_POSITIONS = 128, WIDE_ROW = 96 };

typedef struct prepared {
  tiles_call call;
  int32_t n_operands, factor, shift, other; // numbers of operands; -1: none
  int64_t task_units, task_blocks;          // units and blocks of 16 channels of a task
  int64_t unit_tasks, block_tasks;
  tiles_convolution c;
} prepared;

static int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }
static int64_t known(int64_t size) { return size == INT64_MIN ? 64 : size; }

static int64_t number_at(const tc_call_node *n, int32_t arg, int32_t i) {
  int32_t count = tc_op_count(n->args, arg);
  return tc_op_int_at(n->args, arg, count == 1 ? 0 : i, INT64_MIN);
}

static int32_t read_then(const tc_call_node *n, int32_t *out) {
  static const char *const names[] = {"", "relu", "relu6", "hardswish", "silu"};
  tc_sv name = tc_op_string(n->args, THEN);
  for (*out = 0; *out < (int32_t)(sizeof names / sizeof *names); ++*out)
    if (tiles_is_named(name, names[*out])) return TC_STATUS_OK;
  return TC_STATUS_UNIMPLEMENTED;
}

// Sizes and the kernel. One dimension is two, of which the first has one row.
static int32_t read_sizes(const tc_host *h, const tc_call_node *n, tiles_convolution *c) {
  const tc_view *x = &n->operands[INPUT], *y = n->results, *w = &n->operands[WEIGHT];
  bool flat = x->rank == 3;
  c->images = known(x->sizes[0]), c->groups = tc_op_int(n->args, GROUPS, 0);
  c->h = flat ? 1 : known(x->sizes[2]), c->w = known(x->sizes[x->rank - 1]);
  c->oh = flat ? 1 : known(y->sizes[2]), c->ow = known(y->sizes[y->rank - 1]);
  c->kh = flat ? 1 : number_at(n, KERNEL, 0), c->kw = number_at(n, KERNEL, 1 - flat);
  c->sy = flat ? 1 : number_at(n, STRIDE, 0), c->sx = number_at(n, STRIDE, 1 - flat);
  c->dy = flat ? 1 : number_at(n, DILATION, 0), c->dx = number_at(n, DILATION, 1 - flat);
  c->py = flat ? 0 : number_at(n, PADDING, 0), c->px = number_at(n, PADDING, 1 - flat);
  if (c->groups < 1 || c->kh < 1 || c->kw < 1 || c->sy < 1 || c->sx < 1 || c->dy < 1 || c->dx < 1 || c->py < 0 ||
      c->px < 0 || x->sizes[1] == INT64_MIN || y->sizes[1] == INT64_MIN)
    return tiles_refuse(h, "a convolution whose channels or kernel are not known");
  c->in = x->sizes[1] / c->groups, c->out = y->sizes[1] / c->groups;
  int64_t taps = w->sizes[2];
  c->rows = taps == c->kh && c->kw > 1;
  if (w->rank != 6 || (taps != c->kh * c->kw && !c->rows)) return tiles_refuse(h, "weights that are not packed");
  return TC_STATUS_OK;
}

static int64_t stride_or(const tc_view *v, int32_t d, int64_t otherwise) {
  return v->strides && v->strides[d] != INT64_MIN ? v->strides[d] : otherwise;
}

// Strides that are not known are taken as row-major.
static int32_t read_layout(const tc_host *h, const tc_call_node *n, tiles_convolution *c) {
  const tc_view *x = &n->operands[INPUT], *y = n->results;
  int32_t last = x->rank - 1;
  c->x_col = stride_or(x, last, 1), c->x_row = last == 3 ? stride_or(x, 2, c->w) : 0;
  c->x_channel = stride_or(x, 1, c->h * c->w), c->x_image = stride_or(x, 0, c->in * c->groups * c->h * c->w);
  int64_t row = last == 3 ? stride_or(y, 2, c->ow) : 0;
  c->y_position = stride_or(y, last, 1);
  if (c->ow == 1 && last == 3) c->y_position = row;
  c->y_channel = stride_or(y, 1, c->oh * c->ow), c->y_image = stride_or(y, 0, c->out * c->groups * c->oh * c->ow);
  if (c->oh > 1 && row != c->ow * c->y_position) return tiles_refuse(h, "a result whose rows do not join");
  if (c->oh * c->ow == 1) c->y_position = 1;
  if (c->y_position != 1 && c->y_channel != 1) return tiles_refuse(h, "a result with no neighbours");
  return TC_STATUS_OK;
}

// Is the tensor at `operand` laid out as the result is?
static bool is_like_result(const tc_call_node *n, int32_t operand) {
  const tc_view *a = &n->operands[operand], *b = n->results;
  if (a->dtype != b->dtype || a->rank != b->rank) return false;
  for (int32_t d = 0; d < a->rank; d++)
    if (a->sizes[d] != b->sizes[d] || (a->sizes[d] != 1 && stride_or(a, d, INT64_MIN) != stride_or(b, d, INT64_MIN)))
      return false;
  return true;
}

static int32_t read_operands(const tc_host *h, const tc_call_node *n, prepared *p) {
  int32_t *numbers[] = {&p->factor, &p->shift, &p->other};
  p->n_operands = 2;
  for (int32_t i = 0; i < 3; i++) *numbers[i] = tc_op_kind(n->args, FACTOR + i) == TC_AK_TENSOR ? p->n_operands++ : -1;
  if (p->n_operands != n->n_operands || n->n_results != 1)
    return tiles_refuse(h, "other operands than a convolution has");
  for (int32_t i = 0; i < 2; i++) {
    const tc_view *v = *numbers[i] < 0 ? NULL : &n->operands[*numbers[i]];
    if (v && (v->dtype != TC_F32 || v->rank != 1 || (v->sizes[0] != 1 && stride_or(v, 0, 1) != 1)))
      return tiles_refuse(h, "a factor by channels that is not one dense row");
  }
  if (p->other >= 0 && !is_like_result(n, p->other))
    return tiles_refuse(h, "a sum with what does not lie as the result");
  return TC_STATUS_OK;
}

// Rows of a kernel of size 1 join, as long as there are several to share out.
static void join_rows(tiles_convolution *c) {
  if (c->kh * c->kw * c->sy * c->sx != 1 || c->py || c->px || c->x_row != c->w * c->x_col) return;
  int64_t times = 1;
  while (times < c->h && (c->h % times || times * c->w < WIDE_ROW)) times++;
  c->h /= times, c->w *= times, c->x_row *= times;
  c->oh = c->h, c->ow = c->w;
}

static bool divide(prepared *p) {
  tiles_convolution *c = &p->c;
  int64_t rows = c->oh, blocks = ceil_div(c->out, TILES_SIDE), all = c->images * c->groups;
  for (;; rows = ceil_div(rows, 2)) {
    if (!tiles_convolution_plan(c, rows)) return false;
    bool shared = all * c->part >= 2 * p->call.threads || rows * c->ow <= LEAST_POSITIONS;
    if (rows == 1 || (c->unit_bytes <= UNIT_BYTES && shared)) break;
  }
  int64_t units = c->images * c->part, weights = blocks * c->n_taps * c->depth * TILES_SIDE * TILES_DEPTH * 2;
  p->task_units = 1, p->task_blocks = blocks;
  if (weights > FEW_WEIGHTS) {
    int64_t share = ceil_div(units * c->groups, p->call.threads), most = TASK_BYTES / c->unit_bytes;
    p->task_units = share > most ? most : share;
    if (p->task_units > units) p->task_units = units;
    if (p->task_units < 1) p->task_units = 1;
  }
  p->unit_tasks = ceil_div(units, p->task_units);
  int64_t tasks = p->unit_tasks * c->groups;
  if (tasks < p->call.threads) p->task_blocks = ceil_div(ceil_div(blocks, ceil_div(p->call.threads, tasks)), 2) * 2;
  p->block_tasks = ceil_div(blocks, p->task_blocks);
  p->call.tasks = tasks * p->block_tasks;
  p->call.scratch = tiles_convolution_scratch(c, p->task_units);
  return true;
}

static int32_t describe(const tc_host *h, const tc_call_node *n, tiles_call *call) {
  prepared *p = (prepared *)(void *)call;
  tiles_convolution *c = &p->c;
  *p = (prepared){.call = {.host = h, .threads = h->threads(h->self) > 0 ? h->threads(h->self) : 1}};
  if (!tiles_is_named(n->op, "aten::_convolution_packed"))
    return tiles_refuse(h, "this unit is used for packed convolutions");
  if (n->n_operands < 2 || n->operands[INPUT].dtype != TC_BF16 || n->operands[WEIGHT].dtype != TC_BF16)
    return tiles_refuse(h, "a convolution in another type than bf16");
  if (n->operands[INPUT].rank != 3 && n->operands[INPUT].rank != 4)
    return tiles_refuse(h, "a convolution of other than one or two dimensions");
  if (read_then(n, &c->then) != TC_STATUS_OK) return tiles_refuse(h, "a function that is not known");
  if (read_operands(h, n, p) != TC_STATUS_OK || read_sizes(h, n, c) != TC_STATUS_OK ||
      read_layout(h, n, c) != TC_STATUS_OK)
    return TC_STATUS_UNIMPLEMENTED;
  if (!c->images || !c->in || !c->out || !c->oh || !c->ow) return TC_STATUS_OK;
  join_rows(c);
  return divide(p) ? TC_STATUS_OK : tiles_refuse(h, "a kernel of too many positions");
}

static int64_t estimate(const prepared *p) {
  const tiles_convolution *c = &p->c;
  double units = (double)(c->images * c->part * c->groups), blocks = (double)ceil_div(c->out, TILES_SIDE);
  double positions = (double)ceil_div(c->unit_rows * c->pitch, TILES_SIDE) * TILES_SIDE;
  double steps = (double)(c->n_taps * c->depth * TILES_DEPTH), channels = blocks * TILES_SIDE;
  double ns = units * (2 * positions * channels * steps / GFLOPS + positions * channels / WRITTEN_PER_NS +
                       (double)c->unit_bytes / 2 * (double)p->block_tasks / PACKED_PER_NS);
  double read = (double)p->unit_tasks * channels * steps * (double)c->groups * 2 / WEIGHTS_PER_NS;
  return CALL_NS + (int64_t)((ns + read) / p->call.threads);
}

// Operations that are asked for, and those of whole tiles.
static bool is_worth(const tiles_convolution *c) {
  double outputs = (double)(c->images * c->groups) * (double)(c->oh * c->ow);
  double asked = 2 * outputs * (double)(c->out * c->in * c->kh * c->kw);
  double whole = 2 * outputs * (double)(ceil_div(c->out, TILES_SIDE) * TILES_SIDE * c->n_taps * c->depth * TILES_DEPTH);
  return asked >= LEAST_FLOPS && whole <= MOST_EMPTY * asked;
}

static int32_t supports(const tc_host *h, tc_device_ *d, const tc_call_node *n, int64_t *out_cost) {
  prepared p;
  *out_cost = -1;
  if (!tiles_usable(h, d) || describe(h, n, &p.call) != TC_STATUS_OK) return TC_STATUS_OK;
  if (is_worth(&p.c)) *out_cost = estimate(&p);
  else tiles_refuse(h, "a convolution that fills few tiles");
  return TC_STATUS_OK;
}

static int32_t prepare(const tc_host *h, tc_device_ *d, const tc_call_node *n, void **out, uint64_t *out_workspace) {
  (void)d;
  return tiles_prepare(h, n, sizeof(prepared), describe, out, out_workspace);
}

// ---- a run ----
typedef struct convolution_run {
  const prepared *p;
  tiles_convolution_task task;
} convolution_run;

static void do_task(const void *arg, int64_t number, char *scratch) {
  const convolution_run *r = arg;
  const prepared *p = r->p;
  tiles_convolution_task t = r->task;
  int64_t blocks = ceil_div(p->c.out, TILES_SIDE), units = p->c.images * p->c.part;
  t.block = number % p->block_tasks * p->task_blocks, number /= p->block_tasks;
  t.unit = number % p->unit_tasks * p->task_units, t.group = number / p->unit_tasks;
  t.n_blocks = blocks - t.block < p->task_blocks ? blocks - t.block : p->task_blocks;
  t.n_units = units - t.unit < p->task_units ? units - t.unit : p->task_units;
  tiles_convolve(&p->c, &t, scratch);
}

static void *address_of(const tc_view *v) { return (char *)(uintptr_t)v->memory + v->offset; }

static int32_t run(void *prepared_call, tc_handle stream, const tc_view *operands, const tc_view *results,
                   tc_handle workspace, int64_t offset) {
  const prepared *p = prepared_call;
  (void)stream;
  if (!p->call.tasks) return TC_STATUS_OK;
  convolution_run r = {.p = p};
  r.task.x = address_of(&operands[INPUT]), r.task.weights = address_of(&operands[WEIGHT]);
  r.task.y = address_of(results);
  if (p->factor >= 0) r.task.scale = address_of(&operands[p->factor]);
  if (p->shift >= 0) r.task.shift = address_of(&operands[p->shift]);
  if (p->other >= 0) r.task.other = address_of(&operands[p->other]);
  tiles_run(&p->call, do_task, &r, workspace, offset);
  return TC_STATUS_OK;
}

const tc_call_table tc_cpu_tile_convolutions = {
    .struct_size = sizeof tc_cpu_tile_convolutions,
    .name = {"tile_convolutions", 17},
    .supports = supports,
    .prepare = prepare,
    .run = run,
    .destroy = tiles_destroy,
    .thread_safe = 1,
    .capture_safe = 1,
    .preferred = 1,
};
