// Products of f32 by tensor cores of bf16 (wgmma, sm_90a), as accurate as those of f32: D = alpha X transpose(Y) + beta
// C + bias, where X has `rows` rows, Y `columns` rows, both of `k` elements, and D's columns lie together.
//
// Every f32 is the sum of three bf16 of falling size, so a product is the sum of nine; the six greatest give it to 24
// bits (Henry, Tang, Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
// Computations", 2019). Tensor cores round sums towards zero: they sum 32 elements, the small products first, and what
// they sum is added up in ordinary registers. tc_split_pack writes the parts as the products read them; complex factors
// become real ones: (re, im) pairs along k for X, and for each row of Y the two rows (re, -im) and (im, re), so that D
// has the pairs of the complex result. What does not split is left out, and seen by the greatest magnitude in its row
// of X or Y (`most`): a row with NaN gives NaN; rows with infinities, with the greatest numbers, or of nothing but the
// smallest are multiplied as they are.
//
// Packed: a block of 128 rows and 32 elements of k is three planes of 128 rows of 64 bytes, 16-byte pieces exchanged as
// PTX ISA, "Asynchronous warpgroup level matrix shared memory layout" wants (64-byte swizzling); blocks of the same
// rows lie behind each other. One bulk copy brings a block. A warpgroup copies, two multiply 64 rows each.
// The text in front of this is product_common.cu and warpgroup_common.cu.

constexpr int BLOCK = 128, DEPTH = 32, PLANES = 3, PLANE = BLOCK * DEPTH * 2, PACKED = PLANES * PLANE;
constexpr int STAGE = 2 * PACKED, STAGES = 4, GROUP = 8;
constexpr int MULTIPLIERS = 256, WARPS = MULTIPLIERS / 32;

// A factor as it lies in memory: strides in elements; kind 0: real, 1: complex X, 2: complex Y.
struct factor {
  const float *data;
  long long row, step, batch;
  int rows, k, kind; // of the real factor
};

__device__ __forceinline__ float value_of(const factor &f, int batch, int r, int k) {
  if (f.kind == 0) return f.data[batch * f.batch + r * f.row + k * f.step];
  const int row = f.kind == 2 ? r >> 1 : r, half = f.kind == 2 ? (r ^ k) & 1 : k & 1;
  const float v = f.data[2 * (batch * f.batch + row * f.row + (k >> 1) * f.step) + half];
  return f.kind == 2 && half && !(r & 1) ? -v : v;
}

// 2^126, since more may round to infinity; a row below 2^-90 loses its last bits below the smallest bf16.
constexpr unsigned HUGE_BITS = 253u << 23, TINY_BITS = 37u << 23;
enum { SPLITS, AS_IT_IS, NOT_A_NUMBER };
__device__ __forceinline__ int kind_of(unsigned most) {
  return most > 0x7f800000u ? NOT_A_NUMBER : most >= HUGE_BITS || (most && most < TINY_BITS) ? AS_IT_IS : SPLITS;
}

// ---- Packing: one block of 128 rows and 32 elements each ----
__device__ __forceinline__ unsigned round_16(float x) { // to nearest even; x is finite
  const unsigned b = __float_as_uint(x);
  return (b + 0x7fffu + (b >> 16 & 1)) & 0xffff0000u;
}

__device__ __forceinline__ void pack(const factor &f, unsigned char *to, unsigned *most, int chunk, int block,
                                     int batch) {
  __shared__ uint4 packed[PACKED / 16];
  const bool by_rows = f.step != 1; // neighbours in memory are read by neighbouring threads
  const int row = by_rows ? (int)threadIdx.x & 127 : (int)threadIdx.x >> 2;
  const int piece = by_rows ? (int)threadIdx.x >> 7 : (int)threadIdx.x & 3;
  const int r = block * BLOCK + row, k0 = chunk * DEPTH + piece * 8;
  unsigned high = 0, parts[PLANES][4];
  float v[8];
  const float *dense = f.data + batch * f.batch + r * f.row + k0;
  if (f.kind == 0 && !by_rows && r < f.rows && k0 + 8 <= f.k && ((u64)dense & 15) == 0) {
    const float4 low = *(const float4 *)dense, top = *(const float4 *)(dense + 4);
    v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w, v[4] = top.x, v[5] = top.y, v[6] = top.z, v[7] = top.w;
  } else {
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = r < f.rows && k0 + i < f.k ? value_of(f, batch, r, k0 + i) : 0.0f;
  }
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const unsigned bits = __float_as_uint(v[i]) & 0x7fffffffu;
    float left = bits < HUGE_BITS ? v[i] : 0.0f;
    high = max(high, bits);
#pragma unroll
    for (int p = 0; p < PLANES; p++) {
      const unsigned part = round_16(left);
      left = __fsub_rn(left, __uint_as_float(part));
      if (i & 1) parts[p][i >> 1] |= part;
      else parts[p][i >> 1] = part >> 16;
    }
  }
#pragma unroll
  for (int p = 0; p < PLANES; p++)
    packed[(p * PLANE + row * 64 >> 4) + (piece ^ (row >> 1 & 3))] =
        make_uint4(parts[p][0], parts[p][1], parts[p][2], parts[p][3]);
  most += (u64)batch * f.rows + r; // read first: most blocks have nothing greater
  if (r < f.rows && high > *(volatile unsigned *)most) atomicMax(most, high);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < PACKED / 16 / 512; i++) ((uint4 *)to)[i * 512 + threadIdx.x] = packed[i * 512 + threadIdx.x];
}

// Blocks of X and, behind them, of Y. `most` is 0 before: of the rows of all batches of X, and behind them of Y.
extern "C" __global__ void __launch_bounds__(512)
    tc_split_pack(factor x, factor y, unsigned char *xs, unsigned char *ys, unsigned *most, int chunks, int x_blocks,
                  int y_blocks, int x_batches, int y_batches) {
  await_predecessors();
  const int number = (int)blockIdx.x, n_x = x_blocks * chunks, batch = (int)blockIdx.y;
  if (number < n_x) {
    if (batch < x_batches)
      pack(x, xs + ((u64)batch * n_x + number) * PACKED, most, number % chunks, number / chunks, batch);
  } else if (batch < y_batches) {
    const int n = number - n_x;
    pack(y, ys + ((u64)batch * y_blocks * chunks + n) * PACKED, most + (u64)x_batches * x.rows, n % chunks, n / chunks,
           batch);
  }
}

// ---- Copies (PTX ISA, "cp.async.bulk") ----
__device__ __forceinline__ void arrive(unsigned at) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}
__device__ __forceinline__ void copy_block(unsigned to, const unsigned char *from, unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(PACKED), "r"(barrier)
               : "memory");
}

// ---- Products of 64 x 16 by 16 x 128 ----
__device__ __forceinline__ u64 matrix(unsigned at) {
  return (u64)((at & 0x3ffffu) >> 4) | 1ull << 16 | (u64)(8 * 64 >> 4) << 32 | 2ull << 62;
}
__device__ __forceinline__ void multiply(float (&c)[64], u64 a, u64 b, int more) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " REGISTERS_64
               ", %64, %65, p, 1, 1, 0, 0;\n}"
               : SIXTEEN(c, 0), SIXTEEN(c, 16), SIXTEEN(c, 32), SIXTEEN(c, 48)
               : "l"(a), "l"(b), "r"(more)
               : "memory");
}

// 32 elements of k: the small products first.
__device__ __forceinline__ void multiply_block(float (&c)[64], unsigned x, unsigned y) {
  constexpr int order[6][2] = {{1, 1}, {0, 2}, {2, 0}, {0, 1}, {1, 0}, {0, 0}};
  begin_products();
#pragma unroll
  for (int i = 0; i < 6; i++)
#pragma unroll
    for (int s = 0; s < 2; s++)
      multiply(c, matrix(x + order[i][0] * PLANE + s * 32), matrix(y + order[i][1] * PLANE + s * 32), i + s);
  commit_products();
}

struct result {
  float *data;
  const float *addend, *bias; // or NULL; bias: of the columns
  long long row, batch, addend_row, addend_batch;
  float alpha, beta;
  int rows, columns, function, after; // function: NONE or another; after: the addend is added behind it
};

__device__ __forceinline__ float apply(int function, float x) {
  switch (function) {
  case RELU: return x < 0.0f ? 0.0f : x; // NaN stays
  case GELU_ERF: return 0.5f * x * (1.0f + erff(x * 0.70710678f));
  case GELU_TANH: return 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
  case SIGMOID: return 1.0f / (1.0f + expf(-x));
  case TANH: return tanhf(x);
  case SILU: return x / (1.0f + expf(-x));
  default: return x;
  }
}

__device__ __forceinline__ float finish(const result &d, float v, const float *addend, const float *bias) {
  v *= d.alpha;
  if (addend && !d.after) v = __fmaf_rn(d.beta, *addend, v);
  if (bias) v += *bias;
  if (d.function != NONE) v = apply(d.function, v);
  if (addend && d.after) v = __fmaf_rn(d.beta, *addend, v);
  return v;
}

__device__ __forceinline__ void put(const result &d, int batch, int row, int column, float v) {
  const float *addend = d.addend ? d.addend + batch * d.addend_batch + row * d.addend_row + column : d.addend;
  d.data[batch * d.batch + row * d.row + column] = finish(d, v, addend, d.bias ? d.bias + column : d.bias);
}

// Numbers that do not split.
__device__ __noinline__ float multiply_plainly(const factor &x, const factor &y, int batch, int row, int column) {
  float v = 0.0f;
  for (int k = 0; k < x.k; k++) v = __fmaf_rn(value_of(x, batch, row, k), value_of(y, batch, column, k), v);
  return v;
}

extern "C" __global__ void __launch_bounds__(384, 1)
    tc_split_product(factor x, factor y, result d, const unsigned char *xs, const unsigned char *ys,
                     const unsigned *x_most, const unsigned *y_most, int chunks, int x_blocks, int y_blocks) {
  extern __shared__ __align__(1024) unsigned char memory[];
  __shared__ u64 barriers[2 * STAGES];
  const unsigned full = shared_address(barriers), empty = full + STAGES * 8;
  const unsigned stages = (shared_address(memory) + 1023u) & ~1023u;
  // Tiles in groups of rows, so that those under way share what they read.
  const int number = (int)blockIdx.x, batch = (int)blockIdx.y, size = GROUP * y_blocks;
  const int first = number / size * GROUP, high = min(GROUP, x_blocks - first);
  const int x_block = first + number % size % high, y_block = number % size / high, role = (int)threadIdx.x / 128;
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; s++) start_barrier(full + s * 8, 1), start_barrier(empty + s * 8, WARPS);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  await_predecessors();

  if (role == 2) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == MULTIPLIERS) {
      const unsigned char *xp = xs + ((u64)(x.batch ? batch : 0) * x_blocks + x_block) * chunks * PACKED;
      const unsigned char *yp = ys + ((u64)(y.batch ? batch : 0) * y_blocks + y_block) * chunks * PACKED;
      for (int i = 0; i < chunks; i++) {
        const int s = i % STAGES;
        const unsigned to = stages + s * STAGE, done = full + s * 8;
        wait(empty + s * 8, (i / STAGES & 1) ^ 1);
        expect(done, STAGE);
        copy_block(to, xp + (u64)i * PACKED, done);
        copy_block(to + PACKED, yp + (u64)i * PACKED, done);
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float sums[64], c[64];
#pragma unroll
    for (int i = 0; i < 64; i++) sums[i] = 0.0f;
    for (int i = 0; i < chunks; i++) {
      const int s = i % STAGES;
      const unsigned at = stages + s * STAGE;
      wait(full + s * 8, i / STAGES & 1);
      multiply_block(c, at + role * (PLANE / 2), at + PACKED);
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
      for (int j = 0; j < 64; j++) asm volatile("" : "+f"(c[j])::"memory");
      if ((threadIdx.x & 31) == 0) arrive(empty + s * 8);
#pragma unroll
      for (int j = 0; j < 64; j++) sums[j] = __fadd_rn(sums[j], c[j]);
    }
    // Through shared memory, where both warpgroups have read all, so that rows are written in whole pieces.
    asm volatile("bar.sync 1, 256;" ::: "memory");
    constexpr int PITCH = BLOCK + 8;
    const int lane = (int)threadIdx.x & 31, first_row = (int)threadIdx.x / 32 * 16;
    float *mine = (float *)(memory + (stages - shared_address(memory))) + first_row * PITCH;
#pragma unroll
    for (int i = 0; i < 64; i += 2)
      *(float2 *)(mine + (lane / 4 + (i >> 1 & 1) * 8) * PITCH + (i >> 2) * 8 + (lane & 3) * 2) =
          make_float2(sums[i], sums[i + 1]);
    __syncwarp();
    int kinds[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int column = y_block * BLOCK + j * 32 + lane;
      kinds[j] = column < d.columns ? kind_of(y_most[(u64)(y.batch ? batch : 0) * y.rows + column]) : SPLITS;
    }
#pragma unroll 1
    for (int i = 0; i < 16; i++) {
      const int row = x_block * BLOCK + first_row + i;
      if (row >= d.rows) break;
      const int kind = kind_of(x_most[(u64)(x.batch ? batch : 0) * x.rows + row]);
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const int column = y_block * BLOCK + j * 32 + lane;
        float v = mine[i * PITCH + j * 32 + lane];
        if (column >= d.columns) continue;
        if (kind | kinds[j])
          v = max(kind, kinds[j]) == NOT_A_NUMBER ? __int_as_float(0x7fc00000)
                                                  : multiply_plainly(x, y, batch, row, column);
        put(d, batch, row, column, v);
      }
    }
  }
}
