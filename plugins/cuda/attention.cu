// Attention on tensor cores for 16-bit floats: one block makes 128 query rows of one head, its 4 warps 32 each, over tiles
// of 64 keys with an online softmax (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao,
// "FlashAttention-2", 2023). Products are mma.m16n8k16 with f32 accumulators; keys and values come by cp.async into two
// stages of shared memory.
// The text in front of this is attention_common.cu, half_common.cu and half_tiles_common.cu,
// and defines HEAD (64 or 128), KEYS, LOGS (1: the logarithms of the rows' sums are a result, too) and BF16 (1 or 0).

constexpr int ROWS = 128, THREADS = 128, BANDS = 2; // of 16 rows, that a warp has

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    tc_attention(operand q, operand k, operand v, operand o, numbers logs, int queries, int keys, int heads, int group,
                 int tiles, int causal, int aligned, float scale) {
  await_predecessors();
  extern __shared__ __align__(128) unsigned char memory[];
  const unsigned qt = shared_address(memory), base = qt + ROWS * HEAD * 2;
  constexpr unsigned TILE = KEYS * HEAD * 2; // bytes; a stage is a tile of keys and a tile of values
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  const int number = (int)blockIdx.x / tiles, tile = tiles - 1 - (int)blockIdx.x % tiles; // long rows first
  const int batch = number / heads, head = number % heads, row0 = tile * ROWS;
  const half_bits *kp = k.data + batch * k.batch + head / group * k.head,
                  *vp = v.data + batch * v.batch + head / group * v.head;

  float out[BANDS][HEAD / 8][4], high[BANDS][2], total[BANDS][2];
#pragma unroll
  for (int m = 0; m < BANDS; m++) {
#pragma unroll
    for (int i = 0; i < HEAD / 8; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) out[m][i][j] = 0.0f;
    high[m][0] = high[m][1] = __int_as_float(0xff800000);
    total[m][0] = total[m][1] = 0.0f;
  }

  int last = (keys + KEYS - 1) / KEYS;
  if (causal && (row0 + ROWS + KEYS - 1) / KEYS < last) last = (row0 + ROWS + KEYS - 1) / KEYS;
  const int my_row = row0 + warp * 32 + lane / 4; // and those 8, 16 and 24 behind it
  copy_tile<THREADS>(memory, qt, q.data + batch * q.batch + head * q.head, q.row, row0, queries, ROWS, aligned);
  copy_tile<THREADS>(memory, base, kp, k.row, 0, keys, KEYS, aligned);
  copy_tile<THREADS>(memory, base + TILE, vp, v.row, 0, keys, KEYS, aligned);
  asm volatile("cp.async.commit_group;" ::: "memory");
  for (int t = 0; t < last; t++) {
    const unsigned kt = base + (t & 1) * 2 * TILE, vt = kt + TILE, next = base + ((t + 1) & 1) * 2 * TILE;
    if (t + 1 < last) {
      copy_tile<THREADS>(memory, next, kp, k.row, (t + 1) * KEYS, keys, KEYS, aligned);
      copy_tile<THREADS>(memory, next + TILE, vp, v.row, (t + 1) * KEYS, keys, KEYS, aligned);
      asm volatile("cp.async.commit_group;\ncp.async.wait_group 1;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
    __syncthreads();

    float s[BANDS][KEYS / 8][4];
#pragma unroll
    for (int m = 0; m < BANDS; m++)
#pragma unroll
      for (int i = 0; i < KEYS / 8; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) s[m][i][j] = 0.0f;
#pragma unroll
    for (int d = 0; d < HEAD / 16; d++) {
      unsigned a[BANDS][4];
#pragma unroll
      for (int m = 0; m < BANDS; m++)
        load4(a[m], piece(qt, warp * 32 + m * 16 + (lane & 15), d * 2 + (lane >> 4)));
#pragma unroll
      for (int n = 0; n < KEYS / 16; n++) {
        unsigned b[4];
        load4(b, piece(kt, n * 16 + (lane & 7) + ((lane >> 4) << 3), d * 2 + ((lane >> 3) & 1)));
#pragma unroll
        for (int m = 0; m < BANDS; m++) {
          multiply(s[m][2 * n], a[m], b[0], b[1]);
          multiply(s[m][2 * n + 1], a[m], b[2], b[3]);
        }
      }
    }

    const bool edge = (t + 1) * KEYS > keys || (causal && (t + 1) * KEYS > row0 + warp * 32);
#pragma unroll
    for (int m = 0; m < BANDS; m++) {
      if (edge) {
#pragma unroll
        for (int i = 0; i < KEYS / 8; i++)
#pragma unroll
          for (int j = 0; j < 4; j++) {
            const int key = t * KEYS + i * 8 + (lane & 3) * 2 + (j & 1), row = my_row + m * 16 + (j >> 1) * 8;
            if (key >= keys || (causal && key > row)) s[m][i][j] = __int_as_float(0xff800000);
          }
      }
#pragma unroll
      for (int h = 0; h < 2; h++) {
        float most = high[m][h];
#pragma unroll
        for (int i = 0; i < KEYS / 8; i++) most = fmaxf(most, fmaxf(s[m][i][2 * h], s[m][i][2 * h + 1]));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
        const float shift = most * scale, keep = power2(__fmaf_rn(high[m][h], scale, -shift));
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < KEYS / 8; i++)
#pragma unroll
          for (int j = 0; j < 2; j++) {
            s[m][i][2 * h + j] = power2(__fmaf_rn(s[m][i][2 * h + j], scale, -shift));
            sum += s[m][i][2 * h + j];
          }
        high[m][h] = most;
        total[m][h] = __fmaf_rn(total[m][h], keep, sum);
#pragma unroll
        for (int i = 0; i < HEAD / 8; i++) out[m][i][2 * h] *= keep, out[m][i][2 * h + 1] *= keep;
      }
    }
#pragma unroll
    for (int n = 0; n < KEYS / 16; n++) {
      unsigned p[BANDS][4];
#pragma unroll
      for (int m = 0; m < BANDS; m++) {
        p[m][0] = pack(s[m][2 * n][0], s[m][2 * n][1]), p[m][1] = pack(s[m][2 * n][2], s[m][2 * n][3]);
        p[m][2] = pack(s[m][2 * n + 1][0], s[m][2 * n + 1][1]), p[m][3] = pack(s[m][2 * n + 1][2], s[m][2 * n + 1][3]);
      }
#pragma unroll
      for (int d = 0; d < HEAD / 16; d++) {
        unsigned b[4];
        load4_transposed(b, piece(vt, n * 16 + (lane & 15), d * 2 + (lane >> 4)));
#pragma unroll
        for (int m = 0; m < BANDS; m++) {
          multiply(out[m][2 * d], p[m], b[0], b[1]);
          multiply(out[m][2 * d + 1], p[m], b[2], b[3]);
        }
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int m = 0; m < BANDS; m++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float sum = total[m][h];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      const float by = 1.0f / sum;
      const int row = my_row + m * 16 + h * 8;
      if (row >= queries) continue;
      if (LOGS && (lane & 3) == 0) put_logarithm(logs, batch, head, row, high[m][h], scale, sum);
      half_bits *to = o.data + batch * o.batch + head * o.head + row * o.row + (lane & 3) * 2;
#pragma unroll
      for (int i = 0; i < HEAD / 8; i++)
        *(unsigned *)(to + i * 8) = pack(out[m][i][2 * h] * by, out[m][i][2 * h + 1] * by);
    }
}
