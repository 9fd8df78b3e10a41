// Rows of 16-bit elements brought into the order that the matrix unit wants of a right factor: pairs of neighbouring
// elements of the summed dimension, for 16 columns side by side. For files that are compiled for AVX-512.
#ifndef TC_PLUGINS_CPU_TILES_PAIRS_H_
#define TC_PLUGINS_CPU_TILES_PAIRS_H_

#include <immintrin.h>
#include <stdint.h>

// The first n elements of a row, at most 32, zeros behind them.
static inline __m512i tiles_row(const uint16_t *row, int64_t n) {
  __mmask32 mask = n >= 32 ? 0xffffffffu : n <= 0 ? 0 : (__mmask32)((1u << n) - 1);
  return _mm512_maskz_loadu_epi16(mask, row);
}

// 16 rows of 16 pairs of elements, transposed.
static inline void tiles_transpose(__m512i r[16]) {
  __m512i t[16];
  for (int32_t i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int32_t i = 0; i < 16; i += 4)
    for (int32_t h = 0; h < 2; h++) {
      r[i + 2 * h] = _mm512_unpacklo_epi64(t[i + h], t[i + 2 + h]);
      r[i + 2 * h + 1] = _mm512_unpackhi_epi64(t[i + h], t[i + 2 + h]);
    }
  for (int32_t i = 0; i < 16; i += 8)
    for (int32_t h = 0; h < 4; h++) {
      t[i + h] = _mm512_shuffle_i32x4(r[i + h], r[i + 4 + h], 0x88);
      t[i + 4 + h] = _mm512_shuffle_i32x4(r[i + h], r[i + 4 + h], 0xdd);
    }
  for (int32_t h = 0; h < 8; h++) {
    r[h] = _mm512_shuffle_i32x4(t[h], t[8 + h], 0x88);
    r[8 + h] = _mm512_shuffle_i32x4(t[h], t[8 + h], 0xdd);
  }
}

#endif
