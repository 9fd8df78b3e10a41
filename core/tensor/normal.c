// Standard normals in single precision, by the block: Philox4x32-10 (see fill.c) and Box-Muller.
//
// Counter i of a block gives four values from its four words: each pair of words is a radius √(-2 ln u) and a
// direction, whose cosine and sine are two independent normals. Plain loops that compilers turn into vectors, of
// operations that IEEE 754 defines exactly, without contraction: every machine and vector width gives the same bits.
// The largest magnitude that can come out is √(2 ln 2³²) = 6.66.
#include <math.h>
#include <string.h>

#include "core/tensor/element.h"

#define INLINE static inline __attribute__((always_inline))

INLINE void round_of(uint32_t k0, uint32_t k1, uint32_t *c0, uint32_t *c1, uint32_t *c2, uint32_t *c3) {
  for (int i = 0; i < TC_NORMAL_BLOCK; i++) {
    const uint64_t p0 = (uint64_t)0xD2511F53u * c0[i], p1 = (uint64_t)0xCD9E8D57u * c2[i];
    c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
    c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
    c1[i] = (uint32_t)p1, c3[i] = (uint32_t)p0;
  }
}

// ln u for normal u in (0, 1]: u = m 2^e with m in [√½, √2), ln m = 2 atanh((m-1)/(m+1)), |argument| < 0.172.
INLINE float natural_log(float u) {
  uint32_t bits;
  memcpy(&bits, &u, sizeof bits);
  const uint32_t above = bits - 0x3f3504f3u; // the bits of √½
  const float e = (float)((int32_t)above >> 23);
  bits = (above & 0x007fffffu) + 0x3f3504f3u;
  float m;
  memcpy(&m, &bits, sizeof m);
  const float s = (m - 1) / (m + 1), s2 = s * s;
  const float sum = 1 + s2 * (1 / 3.0f + s2 * (1 / 5.0f + s2 * (1 / 7.0f + s2 * (1 / 9.0f))));
  return 2 * s * sum + e * 0.69314718f;
}

// Two normals of variance 1 from two words.
INLINE void pair(uint32_t a, uint32_t b, float *out_x, float *out_y) {
  const float u = ((float)(int32_t)(a >> 1) + 0.5f) * 0x1p-31f;
  const float radius = sqrtf(-2 * natural_log(u));
  // b / 2³² of a turn: the nearest quarter, and what is left of it in radians (|x| ≤ π/4).
  const uint32_t quarter = (b + 0x20000000u) >> 30;
  const float x = (float)(int32_t)(b - (quarter << 30)) * 1.4629181e-9f, x2 = x * x;
  const float c = 1 + x2 * (-1 / 2.0f + x2 * (1 / 24.0f + x2 * (-1 / 720.0f + x2 * (1 / 40320.0f))));
  const float s = x * (1 + x2 * (-1 / 6.0f + x2 * (1 / 120.0f + x2 * (-1 / 5040.0f))));
  const float first = quarter & 1 ? s : c, second = quarter & 1 ? c : s;
  *out_x = radius * ((quarter + 1) & 2 ? -first : first);
  *out_y = radius * (quarter & 2 ? -second : second);
}

INLINE void block(uint64_t seed, uint64_t counter, float *out) {
  uint32_t c0[TC_NORMAL_BLOCK], c1[TC_NORMAL_BLOCK], c2[TC_NORMAL_BLOCK], c3[TC_NORMAL_BLOCK];
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (uint32_t i = 0; i < TC_NORMAL_BLOCK; i++)
    c0[i] = (uint32_t)counter + i, c1[i] = (uint32_t)(counter >> 32), c2[i] = c3[i] = 0;
  for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) round_of(k0, k1, c0, c1, c2, c3);
  for (int i = 0; i < TC_NORMAL_BLOCK; i++) {
    pair(c0[i], c1[i], &out[4 * i], &out[4 * i + 1]);
    pair(c2[i], c3[i], &out[4 * i + 2], &out[4 * i + 3]);
  }
}

static void block_plain(uint64_t seed, uint64_t counter, float *out) { block(seed, counter, out); }

#ifdef __x86_64__
__attribute__((target("avx2"))) static void block_avx2(uint64_t seed, uint64_t counter, float *out) {
  block(seed, counter, out);
}
#endif

void tc_normals(uint64_t seed, uint64_t number, float *out) {
  const uint64_t counter = number * TC_NORMAL_BLOCK;
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) {
    block_avx2(seed, counter, out);
    return;
  }
#endif
  block_plain(seed, counter, out);
}
