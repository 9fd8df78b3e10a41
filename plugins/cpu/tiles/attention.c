// softmax(scale · q kᵀ + mask) v over bf16 in tiles of the matrix unit (Intel's Architecture Instruction Set Extensions
// Programming Reference, chapter "AMX": TDPBF16PS), with online softmax between the two products (Milakov and
// Gimelshein, 2018; Dao et al., "FlashAttention", 2022).
//
// Keys are walked in blocks of TILES_KEYS. A block's keys and values are packed once as the unit wants its right factor
// (pairs of neighbouring elements of the summed dimension) and multiplied with all rows of the task, 32 at a time:
//
//   s[32, KEYS] = q kᵀ, f32      p = 2^(s − m) as bf16, with the row's running maximum m and sum l
//   o[32, E] = o · 2^(m' − m) + p v, f32, which stays in memory between the blocks
//
// Dimensions that are no multiple of a tile are filled with zeros; keys that do not exist, or that a row may not attend
// to, have no share. A row without any key gives zeros.
//
// This file is compiled for processors that have the unit; calls.c asks before anything here runs.
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "pairs.h"
#include "tiles.h"
#include "vectors.h"

enum { ROWS = TILES_ROWS, KEYS = TILES_KEYS, SIDE = 16, DEPTH = 32, TILE = SIDE * DEPTH };

static int64_t padded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// ---- scratch ----
typedef struct state {
  const tiles_task *t;
  int64_t dp, ep;  // d and e, padded
  int64_t key0, n; // the block's keys
  uint16_t *q, *k, *v, *p;
  float *s, *o, *m, *l, *add;
} state;

static char *take(char **at, int64_t bytes) {
  char *p = *at;
  *at += padded(bytes, 64);
  return p;
}

// Places the parts behind `at`; the end.
static char *place(state *x, char *at, int64_t rows, int64_t d, int64_t e) {
  int64_t r = padded(rows, ROWS);
  x->dp = padded(d, DEPTH), x->ep = padded(e, 2 * SIDE);
  x->q = (uint16_t *)(void *)take(&at, r * x->dp * 2);
  x->k = (uint16_t *)(void *)take(&at, KEYS * x->dp * 2);
  x->v = (uint16_t *)(void *)take(&at, KEYS * x->ep * 2);
  x->p = (uint16_t *)(void *)take(&at, ROWS * KEYS * 2);
  x->s = (float *)(void *)take(&at, ROWS * KEYS * 4);
  x->o = (float *)(void *)take(&at, r * x->ep * 4);
  x->m = (float *)(void *)take(&at, r * 4);
  x->l = (float *)(void *)take(&at, r * 4);
  x->add = (float *)(void *)take(&at, KEYS * 4);
  return at;
}

int64_t tiles_scratch_bytes(int64_t rows, int64_t d, int64_t e) {
  state x;
  return place(&x, NULL, rows, d, e) - (char *)NULL;
}

// ---- the unit ----
void tiles_enter(void) {
  // Palette 1: eight tiles, here all of 16 rows of 64 bytes.
  static const struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
  } config = {.palette = 1,
              .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
              .rows = {SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, SIDE}};
  _tile_loadconfig(&config);
}

void tiles_leave(void) { _tile_release(); }

// ---- packing ----
// n ≤ 32 elements of a row, zeros behind them.
static __m512i load_row(const uint16_t *row, int64_t col, int64_t n) {
  if (col == 1) return tiles_row(row, n);
  uint16_t some[32] = {0};
  for (int64_t i = 0; i < n && i < 32; i++) some[i] = row[i * col];
  return _mm512_loadu_si512(some);
}

static void pack_queries(state *x) {
  const tiles_task *t = x->t;
  int64_t r = padded(t->rows, ROWS);
  for (int64_t i = 0; i < r; i++)
    for (int64_t c = 0; c < x->dp; c += 32)
      _mm512_store_si512(x->q + i * x->dp + c, i < t->rows
                                                   ? load_row(t->q + i * t->q_row + c * t->q_col, t->q_col, t->d - c)
                                                   : _mm512_setzero_si512());
}

// Tiles [key / 16][d / 32] of [pair of d][key].
static void pack_keys(state *x) {
  const tiles_task *t = x->t;
  uint16_t *to = x->k;
  for (int64_t j = 0; j < padded(x->n, 2 * SIDE); j += SIDE)
    for (int64_t c = 0; c < x->dp; c += DEPTH, to += TILE) {
      __m512i r[SIDE];
      for (int64_t i = 0; i < SIDE; i++)
        r[i] = j + i < x->n ? load_row(t->k + (x->key0 + j + i) * t->k_row + c * t->k_col, t->k_col, t->d - c)
                            : _mm512_setzero_si512();
      tiles_transpose(r);
      for (int32_t i = 0; i < SIDE; i++) _mm512_store_si512(to + i * 32, r[i]);
    }
}

static __m512i wide_row(const state *x, int64_t key, int64_t c) {
  const tiles_task *t = x->t;
  if (key >= x->n) return _mm512_setzero_si512();
  __m512i row = load_row(t->v + (x->key0 + key) * t->v_row + c * t->v_col, t->v_col, t->e - c < SIDE ? t->e - c : SIDE);
  return _mm512_cvtepu16_epi32(_mm512_castsi512_si256(row));
}

// Tiles [key / 32][e / 16] of [pair of keys][e].
static void pack_values(state *x) {
  uint16_t *to = x->v;
  for (int64_t j = 0; j < padded(x->n, DEPTH); j += DEPTH)
    for (int64_t c = 0; c < x->ep; c += SIDE, to += TILE)
      for (int64_t i = 0; i < SIDE; i++) {
        __m512i low = wide_row(x, j + 2 * i, c), high = wide_row(x, j + 2 * i + 1, c);
        _mm512_store_si512(to + i * 32, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
      }
}

// ---- the two products ----
// s[32, columns] of the rows that q begins with; columns a multiple of 32.
static void multiply_keys(const state *x, const uint16_t *q, int64_t columns) {
  int64_t steps = x->dp / DEPTH, bytes = x->dp * 2;
  tiles_in_memory();
  for (int64_t j = 0; j < columns; j += 2 * SIDE) {
    const uint16_t *k = x->k + j / SIDE * steps * TILE;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t i = 0; i < steps; i++) {
      _tile_loadd(4, q + i * DEPTH, bytes);
      _tile_loadd(6, k + i * TILE, 64);
      _tile_loadd(7, k + (steps + i) * TILE, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(5, q + SIDE * x->dp + i * DEPTH, bytes);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    float *s = x->s + j;
    _tile_stored(0, s, KEYS * 4);
    _tile_stored(1, s + SIDE, KEYS * 4);
    _tile_stored(2, s + SIDE * KEYS, KEYS * 4);
    _tile_stored(3, s + SIDE * KEYS + SIDE, KEYS * 4);
  }
  tiles_in_memory();
}

// o[32, E] += p[32, columns] · v
static void multiply_values(const state *x, float *o, int64_t columns) {
  int64_t bytes = x->ep * 4;
  tiles_in_memory();
  for (int64_t c = 0; c < x->ep; c += 2 * SIDE) {
    float *at = o + c, *below = at + SIDE * x->ep;
    _tile_loadd(0, at, bytes);
    _tile_loadd(1, at + SIDE, bytes);
    _tile_loadd(2, below, bytes);
    _tile_loadd(3, below + SIDE, bytes);
    for (int64_t j = 0; j < columns; j += DEPTH) {
      const uint16_t *v = x->v + (j / DEPTH * (x->ep / SIDE) + c / SIDE) * TILE;
      _tile_loadd(4, x->p + j, KEYS * 2);
      _tile_loadd(6, v, 64);
      _tile_loadd(7, v + TILE, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(5, x->p + SIDE * KEYS + j, KEYS * 2);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, at, bytes);
    _tile_stored(1, at + SIDE, bytes);
    _tile_stored(2, below, bytes);
    _tile_stored(3, below + SIDE, bytes);
  }
  tiles_in_memory();
}

// ---- softmax ----
static __m512 infinity(void) { return _mm512_set1_ps(INFINITY); }

// What the mask adds to the scores of the block's keys, times log2(e): one row of it.
static void read_mask(const state *x, int64_t row) {
  const tiles_task *t = x->t;
  int64_t at = row * t->mask_row + x->key0 * t->mask_col, col = t->mask_col;
  for (int64_t j = 0; j < x->n; j++, at += col) {
    float a;
    uint32_t bits;
    switch (t->mask_type) {
    case TC_BOOL: a = t->mask[at] ? 0 : -INFINITY; break;
    case TC_F32: memcpy(&a, t->mask + at * 4, 4); break;
    default: bits = (uint32_t)((const uint16_t *)(const void *)t->mask)[at] << 16, memcpy(&a, &bits, 4);
    }
    x->add[j] = a * 0x1.715476p+0f;
  }
}

// Scores of a row that takes part in `n` keys, scaled, with the mask's row; nothing behind them is touched.
static void add_mask(const state *x, float *s, int64_t n) {
  __m512 c = _mm512_set1_ps(x->t->scale), low = _mm512_sub_ps(_mm512_setzero_ps(), infinity());
  bool select = x->t->mask_type == TC_BOOL;
  for (int64_t j = 0; j < n; j += SIDE) {
    __m512 a = _mm512_load_ps(x->add + j), y = _mm512_fmadd_ps(_mm512_load_ps(s + j), c, a);
    if (select) y = _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(a, low, _CMP_EQ_OQ), low);
    _mm512_store_ps(s + j, y);
  }
}

static float largest(const float *s, int64_t n) {
  __m512 low = _mm512_sub_ps(_mm512_setzero_ps(), infinity()), m = low;
  for (int64_t j = 0; j < n; j += SIDE) {
    __m512 y = _mm512_mask_load_ps(low, tiles_first(n - j), s + j);
    m = _mm512_max_ps(y, m); // m if y is NaN, whose share is NaN anyway
  }
  return _mm512_reduce_max_ps(m);
}

// Shares of n of `columns` keys as bf16, zeros behind them; their sum. `max` is scaled.
static float shares(const float *s, uint16_t *p, int64_t n, int64_t columns, float scale, float max) {
  __m512 sum = _mm512_setzero_ps(), c = _mm512_set1_ps(scale), m = _mm512_set1_ps(max);
  for (int64_t j = 0; j < columns; j += SIDE) {
    __m512 y = _mm512_setzero_ps();
    if (j < n) {
      y = tiles_power(_mm512_fmsub_ps(_mm512_load_ps(s + j), c, m));
      if (n - j < SIDE) y = _mm512_maskz_mov_ps(tiles_first(n - j), y);
      sum = _mm512_add_ps(sum, y);
    }
    _mm256_store_si256((__m256i *)(void *)(p + j), (__m256i)_mm512_cvtneps_pbh(y));
  }
  return _mm512_reduce_add_ps(sum);
}

// From scores to shares for 32 rows from `row` on: m, l and o are brought to the new maximum.
static void softmax(state *x, int64_t row, int64_t columns) {
  const tiles_task *t = x->t;
  float max[ROWS], alpha[ROWS], sum[ROWS], scale = t->mask ? 1 : t->scale;
  int64_t n[ROWS];
  for (int64_t i = 0; i < ROWS; i++) {
    float *s = x->s + i * KEYS;
    n[i] = row + i < t->rows ? x->n : 0;
    int64_t last = t->first + row + i + 1 - x->key0; // causal: keys up to the query
    if (t->causal && n[i] > last) n[i] = last > 0 ? last : 0;
    if (t->mask && n[i]) {
      if (i == 0 || t->mask_row) read_mask(x, t->first + row + i);
      add_mask(x, s, n[i]);
    }
    max[i] = largest(s, n[i]);
  }
  for (int64_t i = 0; i < ROWS; i += SIDE) {
    __m512 before = _mm512_load_ps(x->m + row + i), y = _mm512_mul_ps(_mm512_loadu_ps(max + i), _mm512_set1_ps(scale));
    y = _mm512_max_ps(y, before);
    _mm512_store_ps(x->m + row + i, y);
    // −inf − −inf is NaN: rows without a key yet stay at zero.
    __mmask16 none = _mm512_cmp_ps_mask(y, _mm512_sub_ps(_mm512_setzero_ps(), infinity()), _CMP_EQ_OQ);
    y = _mm512_mask_mov_ps(y, none, _mm512_setzero_ps());
    _mm512_storeu_ps(max + i, y);
    _mm512_storeu_ps(alpha + i, tiles_power(_mm512_sub_ps(before, y)));
  }
  for (int64_t i = 0; i < ROWS; i++) sum[i] = shares(x->s + i * KEYS, x->p + i * KEYS, n[i], columns, scale, max[i]);
  for (int64_t i = 0; i < ROWS; i += SIDE)
    _mm512_store_ps(x->l + row + i, _mm512_fmadd_ps(_mm512_load_ps(x->l + row + i), _mm512_loadu_ps(alpha + i),
                                                    _mm512_loadu_ps(sum + i)));
  for (int64_t i = 0; i < ROWS; i++) {
    if (alpha[i] == 1) continue;
    float *o = x->o + (row + i) * x->ep;
    for (int64_t c = 0; c < x->ep; c += SIDE)
      _mm512_store_ps(o + c, _mm512_mul_ps(_mm512_load_ps(o + c), _mm512_set1_ps(alpha[i])));
  }
}

// ---- results ----
static void write_rows(const state *x) {
  const tiles_task *t = x->t;
  for (int64_t i = 0; i < t->rows; i++) {
    float share = x->l[i] == 0 ? 0 : 1 / x->l[i];
    const float *o = x->o + i * x->ep;
    uint16_t *to = t->out + i * t->out_row, some[SIDE];
    if (t->logs) t->logs[i * t->log_row] = (x->m[i] + log2f(x->l[i])) * 0x1.62e43p-1f; // -inf of rows without a key
    for (int64_t c = 0; c < t->e; c += SIDE) {
      __m256i y = tiles_round(_mm512_mul_ps(_mm512_load_ps(o + c), _mm512_set1_ps(share)));
      if (t->out_col == 1) {
        _mm256_mask_storeu_epi16(to + c, tiles_first(t->e - c), y);
        continue;
      }
      _mm256_storeu_si256((__m256i *)(void *)some, y);
      for (int64_t j = 0; j < SIDE && c + j < t->e; j++) to[(c + j) * t->out_col] = some[j];
    }
  }
}

void tiles_attention(const tiles_task *t, char *scratch) {
  state x = {.t = t};
  place(&x, scratch, t->rows, t->d, t->e);
  int64_t rows = padded(t->rows, ROWS), keys = t->keys;
  if (t->causal && keys > t->first + t->rows) keys = t->first + t->rows;
  pack_queries(&x);
  memset(x.o, 0, (size_t)(rows * x.ep) * sizeof *x.o);
  for (int64_t i = 0; i < rows; i++) x.m[i] = -INFINITY, x.l[i] = 0;
  for (x.key0 = 0; x.key0 < keys; x.key0 += KEYS) {
    x.n = keys - x.key0 < KEYS ? keys - x.key0 : KEYS;
    pack_keys(&x);
    pack_values(&x);
    for (int64_t row = 0; row < rows; row += ROWS) {
      int64_t columns = x.n, last = t->first + row + ROWS - x.key0;
      if (t->causal && columns > last) columns = last;
      if (columns <= 0) continue;
      columns = padded(columns, 2 * SIDE);
      multiply_keys(&x, x.q + row * x.dp, columns);
      softmax(&x, row, columns);
      multiply_values(&x, x.o + row * x.ep, columns);
    }
  }
  write_rows(&x);
}
