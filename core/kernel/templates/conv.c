// Convolution: out[n, (g,) o, p…] = Σ_{c, k…} in[n, g·C + c, p·stride + k·dilation - pad] · weight, in two ways.
//
// Operand 1 is [g, o / P, c, k, P], zero behind the last channel, with the kernel's positions as one dimension.
//
// Channels along lanes: an implicit matrix product. A micro-tile is RY × RX
// positions by V vectors of output channels, held in registers over the whole reduction; per step V vector loads of
// weights and one broadcast load of the input per position feed RY·RX·V multiply-adds (the direct convolution of
// Georganas et al., "Anatomy of High-Performance Deep Learning Convolutions on SIMD Architectures", 2018, without
// blocked data). The input is taken as padded already. Where the output is row-major, a store is a run of RX elements
// per lane, which code generators transpose in registers.
//
// Positions along lanes (P = 1): for few channels in a group (depthwise). RO channels by RY
// rows by V vectors of positions; per step vector loads of the input and broadcast loads of weights. Padding is a mask
// where a run of positions touches the border, and a shorter loop over the kernel's rows.
//
// Either: a kernel of size 1 over one row of positions that are neighbours in memory can have both on lanes. Positions
// are better where channels would walk many planes by a few elements each: a run of positions stays in the core's cache
// while all output channels are made of it, and nothing is transposed.
//
// Own: channels along lanes, where the input is as it lies, and a block brings in what it needs of it, with zeros
// around (conv_own.c).
//
// Channels in pairs: where the device multiplies pairs of 16-bit numbers, C is half as many i32 of two channels each.
//
// Each: output channels along lanes, each of which reads its own input channel (depthwise, channels last). C is 1, and
// a step loads a vector of the input per position.
//
// Products with padding do not count in transposed convolutions, which are sums of products of the input's own
// elements: what a weight that is no number makes of a zero beside the input is left out.
//
// attrs: 0 way (0 channels, 1 positions, 2 channels in pairs, 3 either, 4 each, 5 own), 1 spatial dimensions n, 2
// groups (1: the output has no such dimension), 3 whether channels lie last in memory; then for each spatial dimension
// kernel size, stride, dilation, padding before; then, where products with padding do not count, for each spatial
// dimension the padding in front of and behind what operand 0 has of the input. params: 0 V, 1 RY, 2 RX (channels) or
// RO (positions), 3 P, 4 positions (of either).
#include "core/kernel/templates/conv.h"

enum { VECTORS, ROWS, COLUMNS, PANEL, BY_POSITION };
enum { WAY, SPACE, GROUPS, CHANNELS_LAST, OF_DIMENSIONS, PER_DIMENSION = 4 }; // attributes
enum { MAX_SPACE = TC_CONV_MAX_SPACE, MAX_ACC = 32, UNROLL = 8 };
// A row is long if it has so many positions; weights that all of a run's channels read must stay in the cache beside
// it.
enum { LONG_ROW = 1024, MOST_SHARED = 1 << 20, SHARED_CHANNELS = 8, SHARED_VECTORS = 3, FEW_PLANES = 16 };

typedef tc_conv_shape shape;

static shape shape_of(const tc_stage *s) {
  shape p = {.positions = tc_stage_attr(s, WAY, 0) == TC_CONV_POSITIONS,
             .n = (int32_t)tc_stage_attr(s, SPACE, 2),
             .groups = tc_stage_attr(s, GROUPS, 1),
             .rank = tc_stage_rank(s),
             .taps = 1};
  p.lead = p.rank - p.n;
  int32_t behind = OF_DIMENSIONS + PER_DIMENSION * p.n;
  for (int32_t i = 0; i < p.n; i++) {
    int32_t first = OF_DIMENSIONS + PER_DIMENSION * i;
    p.k[i] = tc_stage_attr(s, first, 1), p.stride[i] = tc_stage_attr(s, first + 1, 1);
    p.dilation[i] = tc_stage_attr(s, first + 2, 1), p.pad[i] = tc_stage_attr(s, first + 3, 0);
    p.taps *= p.k[i];
    p.skips = tc_stage_attr(s, behind, INT64_MIN) != INT64_MIN;
    p.front[i] = tc_stage_attr(s, behind + 2 * i, 0), p.back[i] = tc_stage_attr(s, behind + 2 * i + 1, 0);
  }
  p.per_group = tc_stage_out_size(s, p.lead - 1);
  p.channels = tc_stage_operand_size(s, 1, 2);
  return p;
}

static int64_t hint_at_least_1(int64_t v) { return v < 1 ? 1 : v; }

// Positions of a micro-tile: those with the fewest steps per position for rows of w and h rows of them. A step of a
// tile costs its multiply-adds and about two more; what a row leaves over is a narrower tile. Runs to store that are no
// powers of two are stored in pieces, each about 16 operations per vector. At least `least` positions are needed so
// that multiply-adds do not wait for each other. Gives the cost.
static double best_tile(int64_t w, int64_t h, int64_t most, int64_t least, double steps, int64_t *ry, int64_t *rx) {
  double best = 1e300;
  for (int64_t x = 1; x <= most && x <= w && x <= 16; x++) {
    for (int64_t y = 1; y * x <= most && y <= h && (y == 1 || w < 16); y++) {
      int64_t rest = w % x, tail = h % y, pieces = 0;
      for (int64_t b = x; b; b &= b - 1) pieces++;
      double row = (double)(w / x) * ((double)(x * y) + 2 + 16.0 * (double)(pieces * y) / steps) +
                   (rest ? (double)(rest * y < least ? least : rest * y) + 2 : 0);
      double last = tail ? (double)(w / x) * ((double)(x < least ? least : x) + 2) +
                               (rest ? (double)(rest < least ? least : rest) + 2 : 0)
                         : 0;
      double cost = (row * (double)(h / y) + last * (double)tail) / (double)(w * h) - 1e-6 * (double)(x * y);
      if (cost < best) best = cost, *ry = y, *rx = x;
    }
  }
  return best;
}

static int32_t bytes_of(tc_dtype d) { return d == TC_F64 || d == TC_C64 ? 8 : d == TC_C128 ? 16 : 4; }

// Rows of a tile of dimension d: all of them, unless that leaves cores without work.
static int64_t split_rows(const tc_stage *s, int32_t d, int64_t unit, int64_t blocks) {
  int64_t h = hint_at_least_1(tc_stage_out_hint(s, d)), cores = tc_stage_device(s)->cores, want = 4 * cores;
  if (cores <= 1 || blocks >= want) return h <= 4096 ? 0 : 4096 / unit * unit;
  int64_t parts = (want + blocks - 1) / blocks, rows = (h + parts - 1) / parts;
  rows = (rows + unit - 1) / unit * unit;
  return rows >= h ? 0 : rows;
}

// Bytes that blocks read of weights and input if they have one image each, and if they have all of them: the better.
static bool all_images(const tc_stage *s, const shape *p, int64_t channels, int32_t bytes) {
  const tc_device_props *dev = tc_stage_device(s);
  int64_t images = hint_at_least_1(tc_stage_out_hint(s, 0)),
          blocks = (p->per_group + channels - 1) / channels * p->groups;
  double steps = (double)(p->channels * p->taps * bytes), weights = steps * (double)(p->per_group * p->groups);
  double input = bytes;
  for (int32_t d = 1; d < 2 + p->n; d++) input *= (double)hint_at_least_1(tc_stage_operand_hint(s, 0, d));
  if (!dev->simd_bytes || images == 1 || blocks < 2 * dev->cores ||
      steps * (double)channels > (double)dev->l2_bytes / 2)
    return false;
  return 2 * input * (double)(images * blocks) < weights * (double)images;
}

// Vectors side by side share broadcasts, as whole panels of which none is left over. Four panels are better than two
// over channels that lie last, where the weights stay as near as those of two. Should the result be stored by planes
// after all, runs of few elements of many planes are slow to store, which does not show where each takes many steps.
static void choose_tile(const tc_stage *s, const shape *p, int64_t panels, int64_t registers, tc_stage_config *c) {
  enum { ALWAYS = 2, MOST = 4, FEWEST = 4, CHAIN = 8 }; // panels; positions beside; products that wait for each other
  enum { MANY_STEPS = 96 };
  const double load = 1.5; // of a position, in multiply-adds
  const tc_device_props *dev = tc_stage_device(s);
  bool many = dev->simd_bytes && tc_stage_attr(s, CHANNELS_LAST, 0) && p->channels * p->taps >= MANY_STEPS;
  int64_t panel = c->params[PANEL], most_panels = many ? MOST : ALWAYS;
  int64_t w = hint_at_least_1(tc_stage_out_hint(s, p->rank - 1)), ry = 1, rx = 1,
          h = p->n > 1 ? hint_at_least_1(tc_stage_out_hint(s, p->rank - 2)) : 1;
  double steps = (double)(p->channels * p->taps), best = 1e300;
  bool shared = false; // by all images, with fewer panels
  for (int64_t k = 1; k <= most_panels && panels % k == 0; k *= 2) {
    int64_t v = k * panel / c->lanes, most = (registers - v - 2) / v, least = CHAIN / v > 1 ? CHAIN / v : 1;
    int32_t bytes = bytes_of(tc_stage_dtype(s));
    bool all = all_images(s, p, k * panel, bytes);
    bool near = steps * (double)(k * panel * bytes) <= (double)dev->l2_bytes / 2;
    if (k > 1 && v * FEWEST >= registers) break;
    if (k > ALWAYS && (!near || (shared && !all))) break;
    if (most > MAX_ACC / v) most = MAX_ACC / v;
    double cost = best_tile(w, h, most < 1 ? 1 : most, least, steps, &ry, &rx) + load / (double)v;
    shared = all;
    if (k > ALWAYS && cost >= best) break;
    best = cost;
    c->params[VECTORS] = v, c->params[ROWS] = ry, c->params[COLUMNS] = rx;
    c->tile[p->lead - 1] = k * panel;
  }
}

// Fewer rows, or positions of one row, until the input that a block brings in for them fits.
static bool fit_own(const tc_stage *s, const shape *p, tc_stage_config *c) {
  int32_t d = p->n > 1 ? p->rank - 2 : p->rank - 1;
  int64_t unit = c->params[p->n > 1 ? ROWS : COLUMNS], most = tc_stage_device(s)->shared_bytes;
  if (most > TC_CONV_OWN_BYTES) most = TC_CONV_OWN_BYTES;
  int64_t tile = c->tile[d] ? c->tile[d] : tc_stage_out_size(s, d);
  while (tile > unit && tc_conv_own_bytes(s, p, c->tile) > most)
    c->tile[d] = tile = (tile / 2 + unit - 1) / unit * unit;
  c->shared_bytes = tc_conv_own_bytes(s, p, c->tile);
  return c->shared_bytes >= 0 && c->shared_bytes <= most;
}

static int32_t candidates(const tc_stage *s, int32_t max, tc_stage_config *out, int32_t *out_n) {
  const tc_device_props *dev = tc_stage_device(s);
  shape p = shape_of(s);
  *out_n = 0;
  if (p.n < 1 || p.n > MAX_SPACE || p.per_group < 1 || p.channels < 1) {
    tc_stage_refuse(s, "the channels or the kernel's sizes are not known");
    return TC_STATUS_OK;
  }
  int32_t bytes = bytes_of(tc_stage_dtype(s)),
          vector = tc_template_lanes(dev, dev->simd_bytes ? dev->simd_bytes / bytes : 32),
          registers = dev->simd_registers ? dev->simd_registers : 32;
  int64_t w = hint_at_least_1(tc_stage_out_hint(s, p.rank - 1)),
          h = p.n > 1 ? hint_at_least_1(tc_stage_out_hint(s, p.rank - 2)) : 1;
  double steps = (double)(p.channels * p.taps), work = steps;
  for (int32_t d = 0; d < p.rank; d++) work *= (double)hint_at_least_1(tc_stage_out_hint(s, d));
  tc_stage_config base = {.cost = work / (3.0 * vector)};
  for (int32_t d = 0; d < p.rank; d++) base.tile[d] = 1;
  int64_t outer = 1; // blocks from the dimensions that are split in single elements
  for (int32_t d = 0; d < p.rank - (p.n > 1 ? 2 : 1); d++)
    if (d != p.lead - 1) outer *= hint_at_least_1(tc_stage_out_hint(s, d));
  tc_stage_config c = base;
  if (p.positions) {
    if (vector > 1 && w <= vector / 2 && dev->simd_bytes) vector /= 2;
    int64_t v = (w + vector - 1) / vector, ro = p.per_group < 6 ? p.per_group : 6;
    v = v > 4 ? 4 : v;
    while (ro * v > registers - v - 4 && v > 1) v--;
    int64_t ry = p.n > 1 && ro * v <= 4 && h > 1 ? 2 : 1;
    c.lanes = vector;
    c.params[VECTORS] = v, c.params[ROWS] = ry, c.params[COLUMNS] = ro;
    c.tile[p.lead - 1] = ro;
    outer *= (p.per_group + ro - 1) / ro;
  } else {
    int64_t panel = tc_stage_operand_size(s, 1, 4), panels = tc_stage_operand_size(s, 1, 1);
    if (panel < 1 || panels < 1) {
      tc_stage_refuse(s, "the weights are not packed");
      return TC_STATUS_OK;
    }
    if (vector > panel) vector = (int32_t)panel;
    c.lanes = vector, c.params[PANEL] = panel;
    choose_tile(s, &p, panels, registers, &c);
    int64_t v = c.params[VECTORS];
    outer *= (p.per_group + v * vector - 1) / (v * vector);
  }
  bool own = tc_stage_attr(s, WAY, 0) == TC_CONV_OWN;
  if (!p.positions && all_images(s, &p, c.tile[p.lead - 1], bytes)) {
    c.tile[0] = 0;
    outer = outer / hint_at_least_1(tc_stage_out_hint(s, 0));
  }
  int64_t unit = p.positions ? 1 : c.params[COLUMNS];
  c.tile[p.rank - 1] = p.n > 1 ? 0 : split_rows(s, p.rank - 1, p.positions ? c.lanes * c.params[VECTORS] : unit, outer);
  if (p.n > 1) c.tile[p.rank - 2] = split_rows(s, p.rank - 2, c.params[ROWS], outer);
  if (own && !fit_own(s, &p, &c)) {
    tc_stage_refuse(s, "the part of the input that a block needs is not known to fit into what it has on chip");
    return TC_STATUS_OK;
  }
  if (tc_stage_attr(s, WAY, 0) == TC_CONV_EITHER && dev->simd_bytes && c.params[PANEL] % SHARED_CHANNELS == 0) {
    tc_stage_config shared = base;
    shared.lanes = vector;
    shared.params[VECTORS] = SHARED_VECTORS, shared.params[ROWS] = 1, shared.params[COLUMNS] = SHARED_CHANNELS;
    shared.params[PANEL] = c.params[PANEL], shared.params[BY_POSITION] = 1;
    // Fewer planes are written at once where the image can be read again from the core's cache.
    bool again = 2 * p.channels * w * bytes <= dev->l2_bytes && p.per_group > FEW_PLANES;
    shared.tile[p.lead - 1] = again ? FEW_PLANES : 0;
    int64_t blocks =
        hint_at_least_1(tc_stage_out_hint(s, 0)) * (again ? (p.per_group + FEW_PLANES - 1) / FEW_PLANES : 1);
    shared.tile[p.rank - 1] = split_rows(s, p.rank - 1, SHARED_VECTORS * vector, blocks);
    if (w >= LONG_ROW && p.channels * p.per_group * bytes <= MOST_SHARED) c.cost *= 1.2;
    else shared.cost *= 1.2;
    if (shared.cost < c.cost && max > 0) out[(*out_n)++] = shared;
    if (max > *out_n) out[(*out_n)++] = c;
    if (shared.cost > c.cost && max > *out_n) out[(*out_n)++] = shared;
    return TC_STATUS_OK;
  }
  if (max > 0) out[(*out_n)++] = c;
  if (*out_n < max && c.tile[p.rank - 1] != 0 && !own) { // whole rows, for what needs them
    c.tile[p.rank - 1] = 0, c.cost *= 1.1;
    out[(*out_n)++] = c;
  }
  return TC_STATUS_OK;
}

typedef struct cv {
  tc_stage *s;
  tc_kb *b;
  const tc_stage_config *c;
  shape p;
  tc_dtype acc;
  bool pairs; // of input channels, as i32 (dot2)
  bool owns;  // input that the block brought in
  tc_conv_own own;
  bool each;                     // a lane has an input channel of its own
  tc_kval image, group, channel; // of the block: n, g (-1: none), first output channel
  tc_kval lane;
  tc_kval place[MAX_SPACE]; // output position of the micro-tile
} cv;

static tc_kval i64(cv *t, int64_t v) { return tc_kb_int(t->b, TC_I64, v); }
static tc_kval add(cv *t, tc_kval x, tc_kval y) { return tc_kb_op2(t->b, TC_K_ADD, x, y); }
static tc_kval addi(cv *t, tc_kval x, int64_t y) { return y ? add(t, x, i64(t, y)) : x; }
static tc_kval muli(cv *t, tc_kval x, int64_t y) { return y == 1 ? x : tc_kb_op2(t->b, TC_K_MUL, x, i64(t, y)); }
static tc_kval min2(cv *t, tc_kval x, tc_kval y) { return tc_kb_op2(t->b, TC_K_MIN, x, y); }
static tc_kval max2(cv *t, tc_kval x, tc_kval y) { return tc_kb_op2(t->b, TC_K_MAX, x, y); }

static tc_kval zero(cv *t) { return tc_template_zero(t->b, t->acc); }

// ---- where the input is ----
// Index in the input of the place that is `off` further along dimension i.
static tc_kval source(cv *t, int32_t i, tc_kval place, tc_kval k) {
  const shape *p = &t->p;
  return addi(t, add(t, muli(t, place, p->stride[i]), muli(t, k, p->dilation[i])), -p->pad[i]);
}

static tc_kval inside_input(cv *t, tc_kval at, tc_kval size) {
  tc_kval low = tc_kb_op2(t->b, TC_K_GE, at, i64(t, 0)), high = tc_kb_op2(t->b, TC_K_LT, at, size);
  return tc_kb_op2(t->b, TC_K_AND, low, high);
}

static tc_kval both(cv *t, tc_kval x, tc_kval y) { return x < 0 ? y : y < 0 ? x : tc_kb_op2(t->b, TC_K_AND, x, y); }

// Does every output position of dimension i read the input, whatever the kernel's position?
static bool never_outside(cv *t, int32_t i) {
  const shape *p = &t->p;
  int64_t out = tc_stage_out_size(t->s, p->lead + i), in = tc_stage_operand_size(t->s, 0, 2 + i);
  return p->pad[i] == 0 && out >= 0 && in >= 0 && (out - 1) * p->stride[i] + (p->k[i] - 1) * p->dilation[i] < in;
}

// Is what output position `place` of dimension i meets at the kernel's position k an element of the input, and not
// padding that operand 0 has already? -1: it always is.
static tc_kval own_element(cv *t, int32_t i, tc_kval place, tc_kval k) {
  const shape *p = &t->p;
  int64_t front = p->front[i], back = p->back[i];
  if (front <= 0 && back <= 0 && never_outside(t, i)) return -1;
  tc_kval size = addi(t, tc_stage_operand_extent(t->s, 0, 2 + i), -front - back);
  return inside_input(t, addi(t, source(t, i, place, k), -front), size);
}

// ---- the reduction: loops over channels and the kernel ----
typedef struct step {
  tc_kval c, k[MAX_SPACE];
  int32_t unrolled; // number of the step in what is written out
} step;
typedef void step_fn(cv *t, const step *at, void *self, tc_kval *acc);

// Positions of a micro-tile whose channels lie along lanes.
typedef struct positions {
  int64_t ry, rx;
} positions;

// What products with padding added to `held` at one position of the kernel is taken back. A tile is all input if its
// first and last positions are.
static void leave_out_padding(cv *t, const positions *m, const step *at, const tc_kval *held, tc_kval *acc) {
  int32_t n = t->p.n, y_dim = n - 2, x_dim = n - 1;
  int64_t v_count = t->c->params[VECTORS];
  tc_kval outer = -1, row[MAX_ACC], column[MAX_ACC], all, kept[MAX_ACC];
  for (int32_t i = 0; i < y_dim; i++) outer = both(t, outer, own_element(t, i, t->place[i], at->k[i]));
  for (int64_t y = 0; y < m->ry; y++)
    row[y] = n > 1 ? own_element(t, y_dim, addi(t, t->place[y_dim], y), at->k[y_dim]) : -1;
  for (int64_t x = 0; x < m->rx; x++) column[x] = own_element(t, x_dim, addi(t, t->place[x_dim], x), at->k[x_dim]);
  all = both(t, both(t, outer, both(t, row[0], row[m->ry - 1])), both(t, column[0], column[m->rx - 1]));
  if (all < 0) return;
  tc_kb_if(t->b, all);
  tc_kb_else(t->b, (int32_t)(m->ry * m->rx * v_count), acc);
  for (int64_t y = 0; y < m->ry; y++) {
    for (int64_t x = 0; x < m->rx; x++) {
      tc_kval inside = both(t, both(t, outer, row[y]), column[x]);
      int64_t first = (y * m->rx + x) * v_count;
      for (int64_t v = first; v < first + v_count; v++)
        kept[v] = inside < 0 ? acc[v] : tc_kb_op3(t->b, TC_K_SELECT, inside, acc[v], held[v]);
    }
  }
  tc_kb_end_if(t->b, (int32_t)(m->ry * m->rx * v_count), kept, acc);
}

// Channels along lanes have the loop over input channels inside: positions share broadcasts between neighbours in the
// kernel, and a compiler that sees both keeps those instead of sums. Positions along lanes have it outside, and the
// last dimension of the kernel written out if it is short. bounds: of the loop over kernel rows i (NULL, or -1: all).
static void reduce(cv *t, int32_t n_acc, tc_kval *acc, tc_kval bounds[MAX_SPACE][2], step_fn *body, void *self) {
  const shape *p = &t->p;
  int32_t opened = 0, last = p->n - 1;
  bool written_out = p->positions && p->k[last] <= UNROLL;
  step at = {0};
  tc_kval inner[MAX_ACC], held[MAX_ACC];
  bool leaves_out = p->skips && !p->positions;
  for (int32_t j = 0; j <= p->n; j++) {
    int32_t i = p->positions ? j - 1 : j == p->n ? -1 : j; // -1: channels
    for (int32_t k = 0; leaves_out && i < 0 && k < n_acc; k++) held[k] = acc[k];
    int64_t size = i < 0 ? p->channels : p->k[i];
    bool bounded = i >= 0 && bounds && bounds[i][0] >= 0;
    tc_kval *to = i < 0 ? &at.c : &at.k[i];
    if (i == last && written_out) continue;
    if (size == 1 && !bounded) {
      *to = i64(t, 0);
      continue;
    }
    tc_kval lo = bounded ? bounds[i][0] : i64(t, 0), hi = bounded ? bounds[i][1] : i64(t, size);
    *to = tc_kb_for(t->b, lo, hi, 1, 0, n_acc, acc, inner);
    for (int32_t k = 0; k < n_acc; k++) acc[k] = inner[k];
    opened++;
  }
  for (int64_t k = 0; k < (written_out ? p->k[last] : 1); k++) {
    if (written_out) at.k[last] = i64(t, k);
    at.unrolled = (int32_t)k;
    body(t, &at, self, acc);
  }
  if (leaves_out && p->channels == 1) leave_out_padding(t, self, &at, held, acc);
  for (int32_t closed = 0; closed < opened; closed++) {
    tc_kval done[MAX_ACC];
    tc_kb_end_for(t->b, n_acc, acc, done);
    for (int32_t j = 0; j < n_acc; j++) acc[j] = done[j];
    if (leaves_out && closed == 0 && p->channels > 1) leave_out_padding(t, self, &at, held, acc);
  }
}

static tc_kval tap_of(cv *t, const step *at) {
  tc_kval tap = at->k[0];
  for (int32_t i = 1; i < t->p.n; i++) tap = add(t, muli(t, tap, t->p.k[i]), at->k[i]);
  return tap;
}

static int32_t input_index(cv *t, const step *at, tc_kval *index) {
  index[0] = t->image;
  index[1] = t->group < 0 ? at->c : add(t, muli(t, t->group, t->p.channels), at->c);
  for (int32_t i = 0; i < t->p.n; i++) index[2 + i] = source(t, i, t->place[i], at->k[i]);
  return 2 + t->p.n;
}
static int32_t output_index(cv *t, tc_kval channel, tc_kval *index) {
  int32_t d = 0;
  index[d++] = t->image;
  if (t->group >= 0) index[d++] = t->group;
  index[d++] = channel;
  for (int32_t i = 0; i < t->p.n; i++) index[d++] = t->place[i];
  return d;
}

// ---- channels along lanes ----
// Output channels of vector v.
static tc_kval channel_lanes(cv *t, int64_t v) { return addi(t, add(t, t->channel, t->lane), v * t->c->lanes); }

static void channel_step(cv *t, const step *at, void *self, tc_kval *acc) {
  const positions *m = self;
  const shape *p = &t->p;
  int64_t v_count = t->c->params[VECTORS], panel = t->c->params[PANEL];
  tc_kval w[8], iw[5], ix[2 + MAX_SPACE];
  iw[0] = t->group < 0 ? i64(t, 0) : t->group, iw[2] = at->c, iw[3] = tap_of(t, at);
  tc_kval first = tc_kb_op2(t->b, TC_K_DIV, t->channel, i64(t, panel));
  for (int64_t v = 0; v < v_count; v++) {
    int64_t column = v * t->c->lanes;
    iw[1] = addi(t, first, column / panel), iw[4] = addi(t, t->lane, column % panel);
    w[v] = tc_stage_load(t->s, 1, iw, -1);
    if (!t->pairs) w[v] = tc_kb_cast(t->b, t->acc, w[v]);
  }
  int32_t rank = input_index(t, at, ix);
  tc_kval x0 = ix[rank - 1], y0 = ix[rank - 2], place[MAX_SPACE];
  bool exact = p->per_group % (v_count * t->c->lanes) == 0;
  for (int32_t i = 0; i < p->n; i++) place[i] = t->place[i];
  for (int64_t y = 0; y < m->ry; y++) {
    if (y) ix[rank - 2] = addi(t, y0, y * p->stride[p->n - 2]);
    if (y) place[p->n - 2] = addi(t, t->place[p->n - 2], y);
    for (int64_t x = 0; x < m->rx; x++) {
      ix[rank - 1] = addi(t, x0, x * p->stride[p->n - 1]);
      place[p->n - 1] = addi(t, t->place[p->n - 1], x);
      tc_kval *row = acc + (y * m->rx + x) * v_count, in = -1;
      for (int64_t v = 0; v < v_count; v++) {
        tc_kval mask = -1;
        if (t->each) ix[1] = channel_lanes(t, v);
        if (t->each && !exact) mask = tc_kb_op2(t->b, TC_K_LT, ix[1], i64(t, p->per_group));
        if (t->owns && v == 0) in = tc_conv_own_load(t->s, p, &t->own, at->c, place, at->k);
        else if (t->each || v == 0) in = tc_stage_load(t->s, 0, ix, mask);
        if (!t->pairs && (t->each || v == 0)) in = tc_kb_cast(t->b, t->acc, in);
        row[v] = tc_kb_op3(t->b, t->pairs ? TC_K_DOT2 : TC_K_FMA, in, w[v], row[v]);
      }
    }
  }
}

static void channel_micro(cv *t, int64_t ry, int64_t rx) {
  const shape *p = &t->p;
  int64_t v_count = t->c->params[VECTORS], n = ry * rx * v_count;
  tc_kval acc[MAX_ACC], out[TC_MAX_RANK], run[16];
  positions m = {ry, rx};
  for (int64_t i = 0; i < n; i++) acc[i] = zero(t);
  reduce(t, (int32_t)n, acc, NULL, channel_step, &m);
  bool exact = p->per_group % (v_count * t->c->lanes) == 0;
  for (int64_t v = 0; v < v_count; v++) {
    tc_kval channel = channel_lanes(t, v);
    tc_kval mask = exact ? -1 : tc_kb_op2(t->b, TC_K_LT, channel, i64(t, p->per_group));
    int32_t rank = output_index(t, channel, out);
    tc_kval y0 = rank > 1 ? out[rank - 2] : -1, x0 = out[rank - 1];
    for (int64_t y = 0; y < ry; y++) {
      if (y) out[rank - 2] = addi(t, y0, y);
      for (int64_t x = 0, width; x < rx; x += width) { // runs of powers of two
        for (width = 16; width > rx - x; width /= 2) continue;
        for (int64_t i = 0; i < width; i++)
          run[i] = tc_kb_cast(t->b, tc_stage_dtype(t->s), acc[(y * rx + x + i) * v_count + v]);
        out[rank - 1] = addi(t, x0, x);
        tc_stage_store_n(t->s, out, (int32_t)width, run, mask);
      }
    }
  }
}

static void channel_columns(cv *t, int64_t ry, tc_kval lo, tc_kval hi) {
  int32_t last = t->p.n - 1, d = t->p.rank - 1;
  int64_t rx = t->c->params[COLUMNS], size = tc_stage_out_size(t->s, d);
  tc_kval whole =
      tc_kb_op2(t->b, TC_K_SUB, hi, tc_kb_op2(t->b, TC_K_REM, tc_kb_op2(t->b, TC_K_SUB, hi, lo), i64(t, rx)));
  t->place[last] = tc_kb_for(t->b, lo, whole, rx, 0, 0, NULL, NULL);
  channel_micro(t, ry, rx);
  tc_kb_end_for(t->b, 0, NULL, NULL);
  int64_t rest = size < 0 ? 1 : size % rx; // tiles are multiples of rx
  if (rx == 1 || rest == 0) return;
  t->place[last] = tc_kb_for(t->b, whole, hi, rest, 0, 0, NULL, NULL);
  channel_micro(t, ry, rest);
  tc_kb_end_for(t->b, 0, NULL, NULL);
}

// ---- positions along lanes ----
typedef struct run {
  int64_t ro, ry, v;
  bool border;
  tc_kval inside[UNROLL][8]; // by kernel column and vector, where the border is near
} run;

static tc_kval lane_place(cv *t, const run *m, int64_t v) {
  (void)m;
  return addi(t, add(t, t->place[t->p.n - 1], t->lane), v * t->c->lanes);
}

static void position_step(cv *t, const step *at, void *self, tc_kval *acc) {
  const run *m = self;
  const shape *p = &t->p;
  tc_kval ix[2 + MAX_SPACE], iw[5], w[8];
  int32_t last = p->n - 1;
  iw[0] = t->group < 0 ? i64(t, 0) : t->group, iw[2] = at->c, iw[3] = tap_of(t, at), iw[4] = i64(t, 0);
  int64_t panel = t->c->params[PANEL] ? t->c->params[PANEL] : 1;
  tc_kval first = panel == 1 ? t->channel : tc_kb_op2(t->b, TC_K_DIV, t->channel, i64(t, panel)),
          in_panel = panel == 1 ? iw[4] : tc_kb_op2(t->b, TC_K_REM, t->channel, i64(t, panel));
  for (int64_t o = 0; o < m->ro; o++) { // of one panel, if these are several
    iw[1] = panel == 1 ? addi(t, first, o) : first, iw[4] = panel == 1 ? iw[4] : addi(t, in_panel, o);
    w[o] = tc_kb_cast(t->b, t->acc, tc_stage_load(t->s, 1, iw, -1));
  }
  int32_t rank = input_index(t, at, ix);
  tc_kval y0 = ix[rank - 2];
  for (int64_t y = 0; y < m->ry; y++) {
    if (y) ix[rank - 2] = addi(t, y0, y * p->stride[p->n - 2]);
    for (int64_t v = 0; v < m->v; v++) {
      ix[rank - 1] = source(t, last, lane_place(t, m, v), at->k[last]);
      tc_kval mask = -1;
      if (m->border)
        mask = p->k[last] <= UNROLL ? m->inside[at->unrolled][v]
                                    : inside_input(t, ix[rank - 1], tc_stage_operand_extent(t->s, 0, rank - 1));
      if (m->ry > 1 && !never_outside(t, p->n - 2)) { // rows of the tile differ in what they may read
        tc_kval ok = inside_input(t, ix[rank - 2], tc_stage_operand_extent(t->s, 0, rank - 2));
        mask = mask < 0 ? ok : tc_kb_op2(t->b, TC_K_AND, mask, ok);
      }
      tc_kval in = tc_kb_cast(t->b, t->acc, tc_stage_load(t->s, 0, ix, mask));
      for (int64_t o = 0; o < m->ro; o++) {
        tc_kval *a = &acc[(o * m->ry + y) * m->v + v], sum = tc_kb_op3(t->b, TC_K_FMA, in, w[o], *a);
        *a = p->skips && mask >= 0 ? tc_kb_op3(t->b, TC_K_SELECT, mask, sum, *a) : sum;
      }
    }
  }
}

// Kernel positions of dimension i that meet the input for any of `rows` output positions from t->place[i] on.
static void kernel_bounds(cv *t, int32_t i, int64_t rows, tc_kval bounds[2]) {
  const shape *p = &t->p;
  bounds[0] = bounds[1] = -1;
  if (never_outside(t, i)) return;
  tc_kval first = addi(t, muli(t, t->place[i], p->stride[i]), -p->pad[i]), d = i64(t, p->dilation[i]);
  tc_kval size = tc_stage_operand_extent(t->s, 0, 2 + i), none = i64(t, 0);
  // ⌈-last / d⌉ and ⌈(size - first) / d⌉ for numbers that are not negative
  tc_kval before = max2(t, tc_kb_op2(t->b, TC_K_SUB, none, addi(t, first, (rows - 1) * p->stride[i])), none);
  tc_kval room = max2(t, tc_kb_op2(t->b, TC_K_SUB, size, first), none);
  bounds[0] = tc_kb_op2(t->b, TC_K_DIV, addi(t, before, p->dilation[i] - 1), d);
  bounds[1] = min2(t, tc_kb_op2(t->b, TC_K_DIV, addi(t, room, p->dilation[i] - 1), d), i64(t, p->k[i]));
  bounds[0] = min2(t, bounds[0], bounds[1]);
}

static void position_micro(cv *t, run m) {
  const shape *p = &t->p;
  int64_t n = m.ro * m.ry * m.v;
  tc_kval acc[MAX_ACC], bounds[MAX_SPACE][2], out[TC_MAX_RANK];
  int32_t last = p->n - 1;
  for (int64_t i = 0; i < n; i++) acc[i] = zero(t);
  for (int32_t i = 0; i < last; i++) kernel_bounds(t, i, i == last - 1 ? m.ry : 1, bounds[i]);
  bounds[last][0] = -1;
  tc_kval width = tc_stage_operand_extent(t->s, 0, 1 + p->n);
  for (int64_t k = 0; m.border && k < p->k[last] && k < UNROLL; k++)
    for (int64_t v = 0; v < m.v; v++)
      m.inside[k][v] = inside_input(t, source(t, last, lane_place(t, &m, v), i64(t, k)), width);
  reduce(t, (int32_t)n, acc, bounds, position_step, &m);
  for (int64_t o = 0; o < m.ro; o++) {
    int32_t rank = output_index(t, addi(t, t->channel, o), out);
    tc_kval y0 = out[rank - 2];
    for (int64_t y = 0; y < m.ry; y++) {
      if (y) out[rank - 2] = addi(t, y0, y);
      for (int64_t v = 0; v < m.v; v++) {
        out[rank - 1] = lane_place(t, &m, v);
        tc_kval mask = m.border ? tc_kb_op2(t->b, TC_K_LT, out[rank - 1], tc_stage_extent(t->s, p->rank - 1)) : -1;
        tc_stage_store(t->s, out, tc_kb_cast(t->b, tc_stage_dtype(t->s), acc[(o * m.ry + y) * m.v + v]), mask);
      }
    }
  }
}

// All channels of the block for a run of positions.
static void position_channels(cv *t, run m) {
  int64_t rest = t->p.per_group % m.ro;
  if (!t->c->params[BY_POSITION]) {
    position_micro(t, m);
    return;
  }
  tc_kval first = t->channel, whole = i64(t, t->p.per_group - rest),
          end = addi(t, first, t->c->tile[t->p.lead - 1] ? t->c->tile[t->p.lead - 1] : t->p.per_group);
  t->channel = tc_kb_for(t->b, first, min2(t, end, whole), m.ro, 0, 0, NULL, NULL);
  position_micro(t, m);
  tc_kb_end_for(t->b, 0, NULL, NULL);
  if (rest) {
    t->channel = tc_kb_for(t->b, whole, min2(t, end, i64(t, t->p.per_group)), rest, 0, 0, NULL, NULL);
    m.ro = rest;
    position_micro(t, m);
    tc_kb_end_for(t->b, 0, NULL, NULL);
  }
  t->channel = first;
}

// Runs of positions: those that see nothing but input, between those that may touch the border.
static void position_columns(cv *t, int64_t ro, int64_t ry, tc_kval lo, tc_kval hi) {
  const shape *p = &t->p;
  int32_t i = p->n - 1;
  run m = {.ro = ro, .ry = ry, .v = t->c->params[VECTORS], .border = true};
  int64_t chunk = m.v * t->c->lanes, stride = p->stride[i], reach = (p->k[i] - 1) * p->dilation[i];
  tc_kval width = tc_stage_operand_extent(t->s, 0, 1 + p->n), none = i64(t, 0);
  // From the first run that starts right of the padding to the last that ends left of the other.
  tc_kval from = p->pad[i] ? min2(t, addi(t, lo, (p->pad[i] + stride - 1) / stride <= chunk ? chunk : 0), hi) : lo;
  tc_kval room = addi(t, width, p->pad[i] - reach - (chunk - 1) * stride - 1); // last start · stride
  tc_kval end = add(t, tc_kb_op2(t->b, TC_K_DIV, max2(t, room, none), i64(t, stride)), i64(t, 1));
  end = min2(t, tc_kb_op3(t->b, TC_K_SELECT, tc_kb_op2(t->b, TC_K_LT, room, none), none, end), addi(t, hi, 1 - chunk));
  bool wide_pad = p->pad[i] > chunk * stride;
  tc_kval runs =
      tc_kb_op2(t->b, TC_K_DIV, max2(t, addi(t, tc_kb_op2(t->b, TC_K_SUB, end, from), chunk - 1), none), i64(t, chunk));
  tc_kval to = wide_pad ? from : add(t, from, muli(t, runs, chunk));
  for (int32_t part = 0; part < 3; part++) {
    m.border = part != 1;
    if (part == 0 && p->pad[i] == 0) continue;
    t->place[i] = tc_kb_for(t->b,
                            part == 0   ? lo
                            : part == 1 ? from
                                        : to,
                            part == 0   ? from
                            : part == 1 ? to
                                        : hi,
                            chunk, 0, 0, NULL, NULL);
    position_channels(t, m);
    tc_kb_end_for(t->b, 0, NULL, NULL);
  }
}

// ---- a block ----
static void columns(cv *t, int64_t ro, int64_t ry) {
  int32_t d = t->p.rank - 1;
  tc_kval lo = tc_stage_origin(t->s, d), hi = tc_stage_extent(t->s, d);
  if (t->c->tile[d]) hi = min2(t, addi(t, lo, t->c->tile[d]), hi);
  if (t->p.positions) position_columns(t, ro, ry, lo, hi);
  else channel_columns(t, ry, lo, hi);
}

static void rows(cv *t, int64_t ro) {
  const shape *p = &t->p;
  int32_t d = p->rank - 2, i = p->n - 2;
  if (p->n == 1) {
    columns(t, ro, 1);
    return;
  }
  int64_t ry = t->c->params[ROWS];
  tc_kval lo = tc_stage_origin(t->s, d), hi = tc_stage_extent(t->s, d);
  if (t->c->tile[d]) hi = min2(t, addi(t, lo, t->c->tile[d]), hi);
  tc_kval whole =
      tc_kb_op2(t->b, TC_K_SUB, hi, tc_kb_op2(t->b, TC_K_REM, tc_kb_op2(t->b, TC_K_SUB, hi, lo), i64(t, ry)));
  t->place[i] = tc_kb_for(t->b, lo, whole, ry, 0, 0, NULL, NULL);
  columns(t, ro, ry);
  tc_kb_end_for(t->b, 0, NULL, NULL);
  int64_t size = tc_stage_out_size(t->s, d);
  if (ry == 1 || (size >= 0 && size % ry == 0)) return;
  t->place[i] = tc_kb_for(t->b, whole, hi, 1, 0, 0, NULL, NULL);
  columns(t, ro, 1);
  tc_kb_end_for(t->b, 0, NULL, NULL);
}

static void open_lanes(cv *t) {
  tc_kb_lanes(t->b);
  t->lane = tc_kb_cast(t->b, TC_I64, tc_kb_lane(t->b));
}

// One image, or all of them, one after the other: in one region of lanes, or in two of its own each.
static void image(cv *t) {
  const shape *p = &t->p;
  int64_t ro = p->positions ? t->c->params[COLUMNS] : 1;
  bool all = t->c->tile[0] == 0;
  t->image = tc_stage_origin(t->s, 0);
  if (!t->owns) open_lanes(t);
  if (all) t->image = tc_kb_for(t->b, t->image, tc_stage_extent(t->s, 0), 1, 0, 0, NULL, NULL);
  if (t->owns) {
    tc_kb_barrier(t->b);
    tc_kb_lanes(t->b);
    tc_conv_own_bring(t->s, p, t->c, &t->own, t->image, t->group);
    tc_kb_end_lanes(t->b, 0, NULL, NULL);
    tc_kb_barrier(t->b);
    open_lanes(t);
  }
  if (p->positions && p->per_group % ro && !t->c->params[BY_POSITION]) {
    // the last block of channels has fewer: one at a time
    tc_kval first = t->channel, end = min2(t, addi(t, first, ro), i64(t, p->per_group));
    t->channel = tc_kb_for(t->b, first, end, 1, 0, 0, NULL, NULL);
    rows(t, 1);
    tc_kb_end_for(t->b, 0, NULL, NULL);
  } else {
    rows(t, ro);
  }
  if (t->owns) tc_kb_end_lanes(t->b, 0, NULL, NULL);
  if (all) tc_kb_end_for(t->b, 0, NULL, NULL);
  if (!t->owns) tc_kb_end_lanes(t->b, 0, NULL, NULL);
}

static int32_t emit(tc_stage *s, const tc_stage_config *c) {
  cv t = {.s = s,
          .b = tc_stage_builder(s),
          .c = c,
          .p = shape_of(s),
          .acc = tc_template_sums(tc_stage_dtype(s)),
          .group = -1};
  t.pairs = tc_stage_attr(s, WAY, 0) == TC_CONV_PAIRS, t.each = tc_stage_attr(s, WAY, 0) == TC_CONV_EACH;
  const shape *p = &t.p;
  t.p.positions |= c->params[BY_POSITION] != 0;
  if (p->lead == 3) t.group = tc_stage_origin(s, 1);
  t.channel = tc_stage_origin(s, p->lead - 1);
  for (int32_t i = 0; i + 2 < p->n; i++) t.place[i] = tc_stage_origin(s, p->lead + i);
  t.owns = tc_stage_attr(s, WAY, 0) == TC_CONV_OWN;
  if (t.owns) t.own = tc_conv_own_make(s, p, c);
  image(&t);
  return TC_STATUS_OK;
}

const tc_template_table tc_template_conv = {
    .struct_size = sizeof(tc_template_table),
    .name = {"conv", 4},
    .candidates = candidates,
    .emit = emit,
    .flops = "where(attr0 == 2, 4, 2) * out.numel * in1.size(2) * in1.size(3)",
    .flags = TC_TEMPLATE_PLANAR(1),
};
