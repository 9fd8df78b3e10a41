// Attention over f32 on tensor cores: one block makes 128 query rows of one head, its 8 warps 16 each, over tiles of KEYS
// keys with an online softmax, as attention.cu does.
//
// A factor is split into two tf32 numbers, the nearest one and the rest, and a product is the sum of three products of
// such parts (Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32
// theoretical peak performance", 2022): what is left out is below 2^-22 of it, with either sign. The units drop bits
// when they accumulate, so each sum over eight products begins at zero and is added to the total by an ordinary
// addition; in it the parts' small products come first.
//
// Products are mma.m16n8k8. Its order of k is free as long as both factors agree: lane t has k = 2t and 2t + 1, so that
// keys are read in pairs and the scores are factors of the second product where they lie. Rows of keys are HEAD + 8
// elements apart, rows of values HEAD + 4, which keeps these reads off each other's banks.
// The text in front of this is attention_common.cu, HEAD (32, 64, 96 or 128) and KEYS (64; 32 for heads of 96).

constexpr int ROWS = 128, THREADS = 256, GROUP = HEAD <= 64 ? 4 : HEAD == 96 ? 2 : 1; // what registers suffice for
constexpr int QS = HEAD + 8, KS = HEAD + 8, VS = HEAD + 4; // elements from row to row

__device__ __forceinline__ void split(float x, unsigned &high, unsigned &low) {
  high = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
  low = __float_as_uint(x - __uint_as_float(high)) + 0x1000u; // the unit drops the bits behind
}

// a b + c
__device__ __forceinline__ void multiply(float (&out)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                                         const float (&c)[4]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %11, %12, %13};"
      : "=f"(out[0]), "=f"(out[1]), "=f"(out[2]), "=f"(out[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

// c[i] += (ah + al) b[i] for GROUP factors b, each of two elements per lane.
__device__ __forceinline__ void multiply_group(float (*c)[4], const unsigned (&ah)[4], const unsigned (&al)[4],
                                               const float (&b)[GROUP][2]) {
  const float zero[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  unsigned bh[GROUP][2], bl[GROUP][2];
  float sum[GROUP][4];
#pragma unroll
  for (int i = 0; i < GROUP; i++) split(b[i][0], bh[i][0], bl[i][0]), split(b[i][1], bh[i][1], bl[i][1]);
#pragma unroll
  for (int i = 0; i < GROUP; i++) multiply(sum[i], al, bh[i], zero);
#pragma unroll
  for (int i = 0; i < GROUP; i++) multiply(sum[i], ah, bl[i], sum[i]);
#pragma unroll
  for (int i = 0; i < GROUP; i++) multiply(sum[i], ah, bh[i], sum[i]);
#pragma unroll
  for (int i = 0; i < GROUP; i++)
#pragma unroll
    for (int e = 0; e < 4; e++) c[i][e] += sum[i][e];
}

// `rows` rows from `first` of a matrix with `count` rows, to rows `apart` elements from each other.
__device__ __forceinline__ void copy_tile(float *to, int apart, const float *from, long long stride, int first,
                                          int count, int rows, int aligned) {
  constexpr int PIECES = HEAD / 4;
  for (int i = (int)threadIdx.x; i < rows * PIECES; i += THREADS) {
    const int r = i / PIECES, c = i % PIECES;
    const bool inside = first + r < count;
    const float *at = from + (inside ? first + r : 0) * stride + c * 4;
    float *place = to + r * apart + c * 4;
    if (aligned) {
      copy_piece(shared_address(place), at, inside);
    } else {
      for (int e = 0; e < 4; e++) place[e] = inside ? at[e] : 0.0f;
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    tc_attention(operand q, operand k, operand v, operand o, int queries, int keys, int heads, int group, int tiles,
                 int causal, int aligned, float scale) {
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
    float *to = o.data + batch * o.batch + head * o.head + row * o.row + t * 2;
#pragma unroll
    for (int i = 0; i < HEAD / 8; i++) *(float2 *)(to + i * 8) = make_float2(out[i][2 * h] * by, out[i][2 * h + 1] * by);
  }
}
