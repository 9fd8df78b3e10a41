// Tiles and products of attention's derivatives (attention_backward.cu) over 16-bit floats: half_tiles_common.cu.

constexpr int OTHER = KEYS, THREADS = 256;

__device__ constexpr int tile_bytes(int rows) { return rows * HEAD * 2; }

// The row among eight whose score a lane holds as column n.
__device__ __forceinline__ int column_of(int n) { return n; }

__device__ __forceinline__ void fetch(unsigned char *tile, const half_bits *from, long long stride, int first, int count,
                                      int rows, int aligned) {
  copy_tile<THREADS>(tile, shared_address(tile), from, stride, first, count, rows, aligned);
}

// s = own * transposed other, of a warp's 16 rows from `row`.
__device__ __forceinline__ void dots(float (&s)[OTHER / 8][4], const unsigned char *own, int row,
                                     const unsigned char *other, int lane) {
  const unsigned at = shared_address(own), bt = shared_address(other);
#pragma unroll
  for (int i = 0; i < OTHER / 8; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) s[i][j] = 0.0f;
#pragma unroll
  for (int d = 0; d < HEAD / 16; d++) {
    unsigned a[4];
    load4(a, piece(at, row + (lane & 15), d * 2 + (lane >> 4)));
#pragma unroll
    for (int n = 0; n < OTHER / 16; n++) {
      unsigned b[4];
      load4(b, piece(bt, n * 16 + (lane & 7) + ((lane >> 4) << 3), d * 2 + ((lane >> 3) & 1)));
      multiply(s[2 * n], a, b[0], b[1]);
      multiply(s[2 * n + 1], a, b[2], b[3]);
    }
  }
}

// sum += p * other, of n times eight columns from column0
template <int n>
__device__ __forceinline__ void add(float (&sum)[n][4], const float (&p)[OTHER / 8][4], const unsigned char *other,
                                    int column0, int lane) {
  const unsigned bt = shared_address(other);
#pragma unroll
  for (int k = 0; k < OTHER / 16; k++) {
    unsigned a[4];
#pragma unroll
    for (int j = 0; j < 4; j++) a[j] = pack(p[2 * k + (j >> 1)][(j & 1) * 2], p[2 * k + (j >> 1)][(j & 1) * 2 + 1]);
#pragma unroll
    for (int d = 0; d < n / 2; d++) {
      unsigned b[4];
      load4_transposed(b, piece(bt, k * 16 + (lane & 15), column0 / 8 + d * 2 + (lane >> 4)));
      multiply(sum[2 * d], a, b[0], b[1]);
      multiply(sum[2 * d + 1], a, b[2], b[3]);
    }
  }
}

__device__ __forceinline__ void put_pair(half_bits *to, float x, float y) { *(unsigned *)to = pack(x, y); }
