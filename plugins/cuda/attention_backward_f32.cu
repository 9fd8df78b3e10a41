// Tiles and products of attention's derivatives (attention_backward.cu) over f32: factors are split (tf32_common.cu). Rows are
// HEAD + 8 elements apart. That keeps reads of pairs along a row off each other's banks; so that reads of single elements down the
// columns meet none twice either, a score's column is another row than its number (column_of).

constexpr int OTHER = KEYS, APART = HEAD + 8, GROUP = HEAD <= 64 ? 4 : 2;

__device__ constexpr int tile_bytes(int rows) { return rows * APART * 4; }

// The row among eight whose score a lane holds as column n: of four neighbours, and of four that are two apart, no two rows are
// the same modulo 4.
__device__ __forceinline__ int column_of(int n) { return (n & 4) | (((n ^ (n >> 2)) & 1) << 1) | ((n >> 1) & 1); }

__device__ __forceinline__ void fetch(unsigned char *tile, const float *from, long long stride, int first, int count,
                                      int rows, int aligned) {
  copy_tile((float *)tile, APART, from, stride, first, count, rows, aligned);
}

// s = own * transposed other, of a warp's 16 rows from `row`.
__device__ __forceinline__ void dots(float (&s)[OTHER / 8][4], const unsigned char *own, int row,
                                     const unsigned char *other, int lane) {
  const int g = lane / 4, t = lane % 4;
  const float *const a = (const float *)own + (row + g) * APART + 2 * t,
                     *const b0 = (const float *)other + column_of(g) * APART + 2 * t;
#pragma unroll
  for (int i = 0; i < OTHER / 8; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) s[i][j] = 0.0f;
#pragma unroll 1
  for (int d = 0; d < HEAD; d += 8) {
    const float2 upper = *(const float2 *)(a + d), lower = *(const float2 *)(a + 8 * APART + d);
    unsigned ah[4], al[4];
    split(upper.x, ah[0], al[0]), split(lower.x, ah[1], al[1]);
    split(upper.y, ah[2], al[2]), split(lower.y, ah[3], al[3]);
#pragma unroll
    for (int i = 0; i < OTHER / 8; i += GROUP) {
      float b[GROUP][2];
#pragma unroll
      for (int j = 0; j < GROUP; j++) {
        const float2 pair = *(const float2 *)(b0 + (i + j) * 8 * APART + d);
        b[j][0] = pair.x, b[j][1] = pair.y;
      }
      multiply_group(s + i, ah, al, b);
    }
  }
}

// sum += p * other, of n times eight columns from column0
template <int n>
__device__ __forceinline__ void add(float (&sum)[n][4], const float (&p)[OTHER / 8][4], const unsigned char *other,
                                    int column0, int lane) {
  const int g = lane / 4, t = lane % 4;
  const float *const b0 = (const float *)other + column_of(2 * t) * APART + column0 + g,
                     *const b1 = (const float *)other + column_of(2 * t + 1) * APART + column0 + g;
#pragma unroll
  for (int c = 0; c < OTHER / 8; c++) {
    unsigned ah[4], al[4];
    split(p[c][0], ah[0], al[0]), split(p[c][2], ah[1], al[1]);
    split(p[c][1], ah[2], al[2]), split(p[c][3], ah[3], al[3]);
#pragma unroll
    for (int i = 0; i < n; i += GROUP) {
      float b[GROUP][2];
#pragma unroll
      for (int j = 0; j < GROUP; j++)
        b[j][0] = b0[c * 8 * APART + (i + j) * 8], b[j][1] = b1[c * 8 * APART + (i + j) * 8];
      multiply_group(sum + i, ah, al, b);
    }
  }
}

__device__ __forceinline__ void put_pair(float *to, float x, float y) { *(float2 *)to = make_float2(x, y); }
