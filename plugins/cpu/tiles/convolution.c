// Convolutions over bf16 in tiles of the matrix unit: an implicit product of positions by output channels, for inputs
// and results of any layout that has channels or positions as neighbours.
//
// The input of a unit (some rows of an image) is packed once: planes of 32 channels [phase][channels / 32][row][pixel]
// [32], with its padding. A phase has every stride-th pixel, so that neighbouring output positions are neighbouring
// pixels whatever the stride is, and a tap of the kernel is an offset (as in Georganas et al., "Anatomy of
// High-Performance Deep Learning Convolutions on SIMD Architectures", 2018, with positions where they have channels). A
// packed row may be longer than the output's: what lies between two output rows is computed and dropped.
//
//   s[32 positions, 32 channels] = Σ over taps and channels, f32      y = then(s · scale + shift + other), rounded once
//
// Where a kernel's row of all channels fills a step better than the channels do (images of three colours), the pixels
// hold that row (`rows`), and the kernel has one column.
//
// This file is compiled for processors that have the unit; convolution_calls.c asks before anything here runs.
#include "convolution.h"

#include <immintrin.h>
#include <string.h>

#include "pairs.h"
#include "vectors.h"

enum { SIDE = TILES_SIDE, DEPTH = TILES_DEPTH, BLOCK = 2 * SIDE, TILE = SIDE * DEPTH, SHORT = 8 };

static int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }

// ---- geometry ----
static int32_t phase_of(tiles_convolution *c, int64_t y, int64_t x) {
  for (int32_t i = 0; i < c->n_phases; i++)
    if (c->phase_y[i] == y && c->phase_x[i] == x) return i;
  c->phase_y[c->n_phases] = y, c->phase_x[c->n_phases] = x;
  return c->n_phases++;
}

bool tiles_convolution_plan(tiles_convolution *c, int64_t rows) {
  int64_t columns = c->rows ? 1 : c->kw, most = 0;
  if (columns * c->kh > TILES_TAPS) return false;
  c->n_phases = c->n_taps = 0, c->more = 0;
  for (int64_t i = 0; i < c->kh; i++)
    for (int64_t j = 0; j < columns; j++) {
      int64_t y = i * c->dy, x = j * c->dx;
      tiles_tap t = {phase_of(c, y % c->sy, c->rows ? 0 : x % c->sx), y / c->sy, x / c->sx};
      if (t.row > c->more) c->more = t.row;
      if (t.col > most) most = t.col;
      c->taps[c->n_taps++] = t;
    }
  c->pitch = c->ow + most;
  c->depth = ceil_div(c->rows ? c->kw * c->in : c->in, DEPTH);
  c->part = ceil_div(c->oh, rows), c->unit_rows = ceil_div(c->oh, c->part);
  c->unit_bytes = c->n_phases * c->depth * (c->unit_rows + c->more) * c->pitch * DEPTH * 2;
  return true;
}

static int64_t halves_of(const tiles_convolution *c) { return ceil_div(c->unit_rows * c->pitch, 2 * BLOCK) * 4; }

// Where a tile's positions go: which of them are the output's, and the first one's number.
typedef struct half {
  int64_t first;
  __mmask16 mask;
} half;

int64_t tiles_convolution_scratch(const tiles_convolution *c, int64_t n_units) {
  int64_t halves = ceil_div(halves_of(c) * (int64_t)sizeof(half), 64) * 64;
  // Behind the last plane a block of positions reads on.
  return BLOCK * BLOCK * 4 + n_units * (c->unit_bytes + halves) + 2 * BLOCK * DEPTH * 2;
}

// ---- packing ----
// Channels of a packed pixel of one input row.
typedef struct source {
  const tiles_convolution *c;
  const uint16_t *row; // of the group's first channel
  int64_t first, n;    // packed channels
  int64_t shift;       // the input's column that the first pixel of the first kernel column reads
} source;

static int64_t column_of(const source *s, int64_t channel) {
  return s->shift + (s->c->rows ? (s->first + channel) / s->c->in * s->c->dx : 0);
}

static const uint16_t *channel_of(const source *s, int64_t channel) {
  int64_t number = s->first + channel;
  return s->row + (s->c->rows ? number % s->c->in : number) * s->c->x_channel;
}

// 16 pixels of one channel as the low halves of 32 bits; columns lie side by side, the stride is 1 or 2.
static __m512i load_pixels(const source *s, int64_t channel, int64_t pixel) {
  const tiles_convolution *c = s->c;
  if (channel >= s->n) return _mm512_setzero_si512();
  int64_t at = column_of(s, channel) + pixel * c->sx, low = at < 0 ? -at : 0, high = c->w - at;
  if (low >= 32 || high <= 0) return _mm512_setzero_si512();
  uint32_t mask = (high >= 32 ? 0xffffffffu : (1u << high) - 1) & (0xffffffffu << low);
  const uint16_t *from = (const uint16_t *)((uintptr_t)channel_of(s, channel) + (uintptr_t)(at * 2));
  if (c->sx == 1) return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16((__mmask16)mask, from));
  return _mm512_and_si512(_mm512_maskz_loadu_epi16(mask, from), _mm512_set1_epi32(0xffff));
}

static void pack_columns(const source *s, uint16_t *to) {
  for (int64_t pixel = 0; pixel < s->c->pitch; pixel += SIDE) {
    __m512i r[SIDE];
    for (int64_t i = 0; i < SIDE; i++)
      r[i] = _mm512_or_si512(load_pixels(s, 2 * i, pixel), _mm512_slli_epi32(load_pixels(s, 2 * i + 1, pixel), 16));
    tiles_transpose(r);
    int64_t n = s->c->pitch - pixel;
    for (int64_t i = 0; i < SIDE && i < n; i++) _mm512_store_si512(to + (pixel + i) * DEPTH, r[i]);
  }
}

static void pack_pixels(const source *s, uint16_t *to) {
  const tiles_convolution *c = s->c;
  for (int64_t pixel = 0; pixel < c->pitch; pixel++) {
    int64_t at = s->shift + pixel * c->sx;
    _mm512_store_si512(to + pixel * DEPTH, at >= 0 && at < c->w ? tiles_row(s->row + at * c->x_col + s->first, s->n)
                                                                : _mm512_setzero_si512());
  }
}

static void pack_one_by_one(const source *s, uint16_t *to) {
  const tiles_convolution *c = s->c;
  memset(to, 0, (size_t)(c->pitch * DEPTH) * sizeof *to);
  for (int64_t i = 0; i < s->n; i++)
    for (int64_t pixel = 0; pixel < c->pitch; pixel++) {
      int64_t at = column_of(s, i) + pixel * c->sx;
      if (at >= 0 && at < c->w) to[pixel * DEPTH + i] = channel_of(s, i)[at * c->x_col];
    }
}

// Output rows y … y + rows - 1 of the image and group that x begins.
static void pack_unit(const tiles_convolution *c, const uint16_t *x, int64_t y, int64_t rows, uint16_t *to) {
  int64_t channels = c->rows ? c->kw * c->in : c->in;
  for (int32_t phase = 0; phase < c->n_phases; phase++)
    for (int64_t step = 0; step < c->depth; step++) {
      source s = {.c = c, .first = step * DEPTH, .shift = c->phase_x[phase] - c->px};
      s.n = channels - s.first < DEPTH ? channels - s.first : DEPTH;
      for (int64_t r = 0; r < rows + c->more; r++, to += c->pitch * DEPTH) {
        int64_t at = (y + r) * c->sy + c->phase_y[phase] - c->py;
        s.row = x + at * c->x_row;
        if (at < 0 || at >= c->h) memset(to, 0, (size_t)(c->pitch * DEPTH) * sizeof *to);
        else if (c->x_channel == 1 && !c->rows) pack_pixels(&s, to);
        else if (c->x_col == 1 && c->sx <= 2) pack_columns(&s, to);
        else pack_one_by_one(&s, to);
      }
    }
}

static void find_halves(const tiles_convolution *c, int64_t rows, half *out) {
  int64_t n = halves_of(c), number = 0;
  for (int64_t i = 0; i < n; i++) {
    out[i] = (half){number, 0};
    for (int64_t k = 0; k < SIDE; k++) {
      int64_t p = i * SIDE + k;
      bool inside = p % c->pitch < c->ow && p / c->pitch < rows;
      out[i].mask |= (__mmask16)(inside << k);
      number += inside;
    }
  }
}

// ---- the product ----
typedef struct product {
  const tiles_convolution *c;
  int64_t taps[TILES_TAPS]; // where each begins in the packed unit
  int64_t plane;            // elements from one step of channels to the next
} product;

static inline __attribute__((always_inline)) void begin_sums(void) {
  tiles_in_memory();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

// s[positions, channels] of `tall` × `wide` tiles; a: the first position's pixel.
static inline __attribute__((always_inline)) void multiply(const product *p, const uint16_t *a, const uint16_t *w,
                                                           int64_t panel, bool tall, bool wide, float *s) {
  int64_t depth = p->c->depth;
  begin_sums();
  for (int32_t t = 0; t < p->c->n_taps; t++) {
    const uint16_t *at = a + p->taps[t];
    for (int64_t i = 0; i < depth; i++, at += p->plane, w += TILE) {
      _tile_loadd(4, at, 64);
      _tile_loadd(6, w, 64);
      _tile_dpbf16ps(0, 4, 6);
      if (wide) {
        _tile_loadd(7, w + panel, 64);
        _tile_dpbf16ps(1, 4, 7);
      }
      if (!tall) continue;
      _tile_loadd(5, at + TILE, 64);
      _tile_dpbf16ps(2, 5, 6);
      if (wide) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, s, BLOCK * 4);
  if (wide) _tile_stored(1, s + SIDE, BLOCK * 4);
  if (tall) _tile_stored(2, s + SIDE * BLOCK, BLOCK * 4);
  if (tall && wide) _tile_stored(3, s + SIDE * BLOCK + SIDE, BLOCK * 4);
  tiles_in_memory();
}

// The same of up to four tiles of positions by one of channels, [64, 16].
static inline __attribute__((always_inline)) void multiply_column(const product *p, const uint16_t *a,
                                                                  const uint16_t *w, int64_t tiles, float *s) {
  int64_t depth = p->c->depth;
  begin_sums();
  for (int32_t t = 0; t < p->c->n_taps; t++) {
    const uint16_t *at = a + p->taps[t];
    for (int64_t i = 0; i < depth; i++, at += p->plane, w += TILE) {
      _tile_loadd(4, w, 64);
      _tile_loadd(5, at, 64);
      _tile_dpbf16ps(0, 5, 4);
      if (tiles > 1) _tile_loadd(6, at + TILE, 64);
      if (tiles > 1) _tile_dpbf16ps(1, 6, 4);
      if (tiles > 2) _tile_loadd(7, at + 2 * TILE, 64);
      if (tiles > 2) _tile_dpbf16ps(2, 7, 4);
      if (tiles > 3) _tile_loadd(5, at + 3 * TILE, 64);
      if (tiles > 3) _tile_dpbf16ps(3, 5, 4);
    }
  }
  _tile_stored(0, s, SIDE * 4);
  if (tiles > 1) _tile_stored(1, s + SIDE * SIDE, SIDE * 4);
  if (tiles > 2) _tile_stored(2, s + 2 * SIDE * SIDE, SIDE * 4);
  if (tiles > 3) _tile_stored(3, s + 3 * SIDE * SIDE, SIDE * 4);
  tiles_in_memory();
}

// ---- what follows it ----
static __m512 follow(int32_t then, __m512 y) { // NaN stays: the second operand of min and max
  __m512 zero = _mm512_setzero_ps(), six = _mm512_set1_ps(6);
  switch (then) {
  case TILES_THEN_RELU: return _mm512_max_ps(zero, y);
  case TILES_THEN_RELU6: return _mm512_min_ps(six, _mm512_max_ps(zero, y));
  case TILES_THEN_HARDSWISH: {
    __m512 gate = _mm512_min_ps(six, _mm512_max_ps(zero, _mm512_add_ps(y, _mm512_set1_ps(3))));
    return _mm512_mul_ps(_mm512_mul_ps(y, gate), _mm512_set1_ps(1.0f / 6));
  }
  case TILES_THEN_SILU: {
    __m512 power = tiles_power(_mm512_mul_ps(y, _mm512_set1_ps(-0x1.715476p+0f)));
    return _mm512_div_ps(y, _mm512_add_ps(_mm512_set1_ps(1), power));
  }
  default: return y;
  }
}

static __m512 load_bf16(__mmask16 mask, const uint16_t *from) {
  return (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from)), 16);
}

// 16 output channels of the group from `channel` on; `at`: the image's elements of these.
typedef struct place {
  const tiles_convolution *c;
  int64_t at;
  const uint16_t *other;
  uint16_t *y;
  int64_t n; // channels that there are
  __m512 scale, shift;
} place;

static place place_of(const tiles_convolution *c, const tiles_convolution_task *t, int64_t image, int64_t channel) {
  int64_t n = c->out - channel, first = t->group * c->out + channel;
  place p = {.c = c, .other = t->other, .y = t->y, .n = n < SIDE ? n : SIDE, .scale = _mm512_set1_ps(1)};
  p.at = image * c->y_image + first * c->y_channel;
  if (t->scale) p.scale = _mm512_maskz_loadu_ps(tiles_first(n), t->scale + first);
  if (t->shift) p.shift = _mm512_maskz_loadu_ps(tiles_first(n), t->shift + first);
  else p.shift = _mm512_setzero_ps();
  return p;
}

// Channels are neighbours.
static void write_pixels(const place *p, const half *h, const float *s) { // s: rows of BLOCK
  int64_t at = p->at + h->first * p->c->y_position;
  __mmask16 mask = tiles_first(p->n);
  for (int32_t i = 0; i < SIDE; i++, s += BLOCK) {
    if (!(h->mask >> i & 1)) continue;
    __m512 y = _mm512_fmadd_ps(_mm512_load_ps(s), p->scale, p->shift);
    if (p->other) y = _mm512_add_ps(y, load_bf16(mask, p->other + at));
    _mm256_mask_storeu_epi16(p->y + at, mask, tiles_round(follow(p->c->then, y)));
    at += p->c->y_position;
  }
}

// Positions are neighbours. s: rows of `step`.
static void write_rows(const place *p, const half *h, const float *s, int64_t step) {
  __m512i r[SIDE];
  int64_t at = p->at + h->first, n = __builtin_popcount(h->mask);
  bool whole = h->mask == 0xffff;
  for (int32_t i = 0; i < SIDE; i++) r[i] = (__m512i)_mm512_fmadd_ps(_mm512_load_ps(s + i * step), p->scale, p->shift);
  tiles_transpose(r);
  for (int64_t i = 0; i < SIDE && i < p->n; i++, at += p->c->y_channel) {
    __m512 y = whole ? (__m512)r[i] : _mm512_maskz_compress_ps(h->mask, (__m512)r[i]);
    if (p->other) y = _mm512_add_ps(y, load_bf16(tiles_first(n), p->other + at));
    _mm256_mask_storeu_epi16(p->y + at, tiles_first(n), tiles_round(follow(p->c->then, y)));
  }
}

// Asks for a line of the next block's result and what is added, which lie far from each other, while this one is
// computed.
static void fetch(const place *p, int64_t number) {
  const tiles_convolution *c = p->c;
  bool rows = c->y_position == 1;
  int64_t n = rows ? p->n : SIDE, step = rows ? c->y_channel : c->y_position, at = p->at + number * c->y_position;
  for (int64_t i = 0; i < n; i++, at += step) {
    if (p->other) _mm_prefetch((const char *)(p->other + at), _MM_HINT_T0);
    __builtin_prefetch(p->y + at, 1);
  }
}

// ---- a task ----
static void convolve_unit(const product *p, const tiles_convolution_task *t, int64_t unit, int64_t rows, int64_t block,
                          const uint16_t *packed, const half *halves, float *s) {
  const tiles_convolution *c = p->c;
  bool wide = block + 1 < t->block + t->n_blocks;
  int64_t panel = c->n_taps * c->depth * TILE, blocks = ceil_div(c->out, SIDE);
  int64_t positions = (rows - 1) * c->pitch + c->ow, first = unit % c->part * c->unit_rows * c->ow;
  const uint16_t *w = t->weights + (t->group * blocks + block) * panel;
  place places[2] = {place_of(c, t, unit / c->part, block * SIDE)};
  if (wide) places[1] = place_of(c, t, unit / c->part, (block + 1) * SIDE);
  for (int64_t at = 0; at < positions; at += BLOCK, packed += BLOCK * DEPTH, halves += 2) {
    bool tall = positions - at > SIDE;
    for (int32_t k = 0; k <= wide && positions - at > BLOCK; k++) fetch(&places[k], halves[2].first + first);
    if (tall && wide) multiply(p, packed, w, panel, true, true, s);
    else if (tall) multiply(p, packed, w, panel, true, false, s);
    else if (wide) multiply(p, packed, w, panel, false, true, s);
    else multiply(p, packed, w, panel, false, false, s);
    for (int32_t i = 0; i <= tall; i++)
      for (int32_t k = 0; k <= wide; k++) {
        half h = {halves[i].first + first, halves[i].mask};
        const float *from = s + i * SIDE * BLOCK + k * SIDE;
        if (c->y_position == 1) write_rows(&places[k], &h, from, BLOCK);
        else write_pixels(&places[k], &h, from);
      }
  }
}

// One block of channels, all of its unit: longer pieces of fewer planes are written at once. For short sums, whose time
// goes into that.
static void convolve_column(const product *p, const tiles_convolution_task *t, int64_t unit, int64_t rows,
                            int64_t block, const uint16_t *packed, const half *halves, float *s) {
  enum { TILES = 4 };
  const tiles_convolution *c = p->c;
  int64_t panel = c->n_taps * c->depth * TILE, blocks = ceil_div(c->out, SIDE);
  int64_t positions = (rows - 1) * c->pitch + c->ow, first = unit % c->part * c->unit_rows * c->ow;
  const uint16_t *w = t->weights + (t->group * blocks + block) * panel;
  place to = place_of(c, t, unit / c->part, block * SIDE);
  for (int64_t at = 0; at < positions; at += TILES * SIDE, packed += TILES * TILE, halves += TILES) {
    int64_t tiles = ceil_div(positions - at, SIDE);
    for (int64_t i = 0; i < TILES && tiles > TILES + i; i += 2) fetch(&to, halves[TILES + i].first + first);
    switch (tiles) {
    case 1: multiply_column(p, packed, w, 1, s); break;
    case 2: multiply_column(p, packed, w, 2, s); break;
    case 3: multiply_column(p, packed, w, 3, s); break;
    default: multiply_column(p, packed, w, TILES, s);
    }
    for (int64_t i = 0; i < TILES && i < tiles; i++)
      write_rows(&to, &(half){halves[i].first + first, halves[i].mask}, s + i * SIDE * SIDE, SIDE);
  }
}

static int64_t rows_of(const tiles_convolution *c, int64_t unit) {
  int64_t left = c->oh - unit % c->part * c->unit_rows;
  return left < c->unit_rows ? left : c->unit_rows;
}

void tiles_convolve(const tiles_convolution *c, const tiles_convolution_task *t, char *scratch) {
  float *s = (float *)(void *)scratch;
  uint16_t *packed = (uint16_t *)(void *)(scratch + BLOCK * BLOCK * 4);
  int64_t elements = c->unit_bytes / 2, n_halves = halves_of(c);
  half *halves = (half *)(void *)(packed + t->n_units * elements + 2 * BLOCK * DEPTH);
  for (int64_t i = 0; i < t->n_units; i++) {
    int64_t unit = t->unit + i, y = unit % c->part * c->unit_rows, rows = rows_of(c, unit);
    const uint16_t *x = t->x + unit / c->part * c->x_image + t->group * c->in * c->x_channel;
    pack_unit(c, x, y, rows, packed + i * elements);
    find_halves(c, rows, halves + i * n_halves);
  }
  bool column = c->y_position == 1 && c->n_taps * c->depth <= SHORT;
  for (int64_t block = t->block; block < t->block + t->n_blocks; block += column ? 1 : 2)
    for (int64_t i = 0; i < t->n_units; i++) {
      int64_t rows = rows_of(c, t->unit + i);
      product p = {.c = c, .plane = (rows + c->more) * c->pitch * DEPTH};
      for (int32_t k = 0; k < c->n_taps; k++)
        p.taps[k] = c->taps[k].phase * c->depth * p.plane + (c->taps[k].row * c->pitch + c->taps[k].col) * DEPTH;
      if (column) convolve_column(&p, t, t->unit + i, rows, block, packed + i * elements, halves + i * n_halves, s);
      else convolve_unit(&p, t, t->unit + i, rows, block, packed + i * elements, halves + i * n_halves, s);
    }
}
