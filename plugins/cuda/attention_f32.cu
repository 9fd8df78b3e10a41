// Attention over f32 on tensor cores: one block makes 128 query rows of one head, its 8 warps 16 each, over tiles of KEYS
// keys with an online softmax, as attention.cu does. Factors are split (tf32_common.cu). Rows of keys are HEAD + 8
// elements apart, rows of values HEAD + 4, which keeps reads of pairs and of columns off each other's banks.
// The text in front of this is attention_common.cu and tf32_common.cu, HEAD (32, 64, 96 or 128), KEYS and LOGS.

constexpr int ROWS = 128, GROUP = HEAD <= 64 ? 4 : HEAD == 96 ? 2 : 1; // what registers suffice for
constexpr int QS = HEAD + 8, KS = HEAD + 8, VS = HEAD + 4;             // elements from row to row

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    tc_attention(operand q, operand k, operand v, operand o, numbers logs, int queries, int keys, int heads, int group,
                 int tiles, int causal, int aligned, float scale) {
  await_predecessors();
  extern __shared__ __align__(128) float memory[];
  float *const qt = memory, *const stages = memory + ROWS * QS;
  constexpr int STAGE = KEYS * (KS + VS);
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int number = (int)blockIdx.x / tiles, tile = tiles - 1 - (int)blockIdx.x % tiles; // long rows first
  const int batch = number / heads, head = number % heads, row0 = tile * ROWS;
  const float *kp = k.data + batch * k.batch + head / group * k.head,
              *vp = v.data + batch * v.batch + head / group * v.head;
  const float *const qw = qt + (warp * 16 + g) * QS + 2 * t;

  float out[HEAD / 8][4], high[2], total[2] = {0.0f, 0.0f};
#pragma unroll
  for (int i = 0; i < HEAD / 8; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) out[i][j] = 0.0f;
  high[0] = high[1] = __int_as_float(0xff800000);

  int last = (keys + KEYS - 1) / KEYS;
  if (causal && (row0 + ROWS + KEYS - 1) / KEYS < last) last = (row0 + ROWS + KEYS - 1) / KEYS;
  const int my_row = row0 + warp * 16 + g; // and the eighth behind it
  copy_tile(qt, QS, q.data + batch * q.batch + head * q.head, q.row, row0, queries, ROWS, aligned);
  copy_tile(stages, KS, kp, k.row, 0, keys, KEYS, aligned);
  copy_tile(stages + KEYS * KS, VS, vp, v.row, 0, keys, KEYS, aligned);
  asm volatile("cp.async.commit_group;" ::: "memory");
  for (int n = 0; n < last; n++) {
    float *const kt = stages + (n & 1) * STAGE, *const vt = kt + KEYS * KS, *const next = stages + ((n + 1) & 1) * STAGE;
    if (n + 1 < last) {
      copy_tile(next, KS, kp, k.row, (n + 1) * KEYS, keys, KEYS, aligned);
      copy_tile(next + KEYS * KS, VS, vp, v.row, (n + 1) * KEYS, keys, KEYS, aligned);
      asm volatile("cp.async.commit_group;\ncp.async.wait_group 1;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
    __syncthreads();

    float s[KEYS / 8][4];
#pragma unroll
    for (int i = 0; i < KEYS / 8; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) s[i][j] = 0.0f;
#pragma unroll 1
    for (int d = 0; d < HEAD; d += 8) {
      const float2 upper = *(const float2 *)(qw + d), lower = *(const float2 *)(qw + 8 * QS + d);
      unsigned ah[4], al[4];
      split(upper.x, ah[0], al[0]), split(lower.x, ah[1], al[1]);
      split(upper.y, ah[2], al[2]), split(lower.y, ah[3], al[3]);
#pragma unroll
      for (int i = 0; i < KEYS / 8; i += GROUP) {
        float b[GROUP][2];
#pragma unroll
        for (int j = 0; j < GROUP; j++) {
          const float2 pair = *(const float2 *)(kt + ((i + j) * 8 + g) * KS + d + 2 * t);
          b[j][0] = pair.x, b[j][1] = pair.y;
        }
        multiply_group(s + i, ah, al, b);
      }
    }

    const bool edge = (n + 1) * KEYS > keys || (causal && (n + 1) * KEYS > row0 + warp * 16);
    if (edge) {
#pragma unroll
      for (int i = 0; i < KEYS / 8; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
          const int key = n * KEYS + i * 8 + t * 2 + (j & 1), row = my_row + (j >> 1) * 8;
          if (key >= keys || (causal && key > row)) s[i][j] = __int_as_float(0xff800000);
        }
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float m = high[h];
#pragma unroll
      for (int i = 0; i < KEYS / 8; i++) m = fmaxf(m, fmaxf(s[i][2 * h], s[i][2 * h + 1]));
      m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
      m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
      const float shift = m * scale, keep = power2(__fmaf_rn(high[h], scale, -shift));
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < KEYS / 8; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
          s[i][2 * h + j] = power2(__fmaf_rn(s[i][2 * h + j], scale, -shift));
          sum += s[i][2 * h + j];
        }
      high[h] = m;
      total[h] = __fmaf_rn(total[h], keep, sum);
#pragma unroll
      for (int i = 0; i < HEAD / 8; i++) out[i][2 * h] *= keep, out[i][2 * h + 1] *= keep;
    }
#pragma unroll
    for (int c = 0; c < KEYS / 8; c++) {
      unsigned ah[4], al[4];
      split(s[c][0], ah[0], al[0]), split(s[c][2], ah[1], al[1]);
      split(s[c][1], ah[2], al[2]), split(s[c][3], ah[3], al[3]);
      const float *const at = vt + (c * 8 + 2 * t) * VS + g;
#pragma unroll
      for (int i = 0; i < HEAD / 8; i += GROUP) {
        float b[GROUP][2];
#pragma unroll
        for (int j = 0; j < GROUP; j++) b[j][0] = at[(i + j) * 8], b[j][1] = at[VS + (i + j) * 8];
        multiply_group(out + i, ah, al, b);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int h = 0; h < 2; h++) {
    float sum = total[h];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    const float by = 1.0f / sum;
    const int row = my_row + h * 8;
    if (row >= queries) continue;
    if (LOGS && t == 0) put_logarithm(logs, batch, head, row, high[h], scale, sum);
    float *to = o.data + batch * o.batch + head * o.head + row * o.row + t * 2;
#pragma unroll
    for (int i = 0; i < HEAD / 8; i++) *(float2 *)(to + i * 8) = make_float2(out[i][2 * h] * by, out[i][2 * h + 1] * by);
  }
}
