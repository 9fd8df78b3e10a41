// Products of 16-bit floats by warpgroup products (wgmma, sm_90a): D = f(alpha X transpose(Y) + beta C + bias), where X has
// `rows` rows, Y `columns` rows, both of `k` elements, and D's columns lie together. Sums are f32, rounded once.
//
// Factors come as they lie by bulk tensor copies into shared memory (PTX ISA, "cp.async.bulk.tensor"), 64 elements of k at a
// time, in the layout that the products read ("Asynchronous warpgroup level matrix shared memory layout", 128-byte swizzling):
// rows of k, or, where rows lie together, blocks of 64 rows. Two blocks that share columns of D are a cluster: each copies half
// of what both need of Y, to both. A warpgroup copies, two multiply 64 rows each; blocks stay and take one tile after another,
// so that the next is copied while one is written. Where D is small and k long, parts of k are summed apart, and
// tc_half_finish adds them up in their order; so it is, with one part, where rows of D do not keep 16 bytes.
// The text in front of this is product_common.cu, warpgroup_common.cu and half_common.cu, and defines COLUMNS (128 or 256), BF16 (1 or 0), X_ROWS and Y_ROWS (1: of that
// factor rows lie together), and FUNCTION, the number of the function that results go through, or NONE.

constexpr int ROWS = 128, DEPTH = 64, LINE = DEPTH * 2, CLUSTER = 2, GROUP = 8;
constexpr int X_BYTES = ROWS * LINE, Y_BYTES = COLUMNS * LINE, Y_HALF = Y_BYTES / CLUSTER, STAGE = X_BYTES + Y_BYTES;
constexpr int STAGES = COLUMNS == 256 ? 4 : 6, BLOCK_64 = 64 * LINE; // 64 rows, or 64 of k
constexpr int MULTIPLIERS = 256, RELEASES = MULTIPLIERS / 32 * CLUSTER, SUMS = COLUMNS / 2;

// The lower and the upper half of a word.
__device__ __forceinline__ float low_of(unsigned bits) {
#if BF16
  return __uint_as_float(bits << 16);
#else
  float v;
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.f32.f16 %0, low;\n}" : "=f"(v) : "r"(bits));
  return v;
#endif
}
__device__ __forceinline__ float high_of(unsigned bits) { return low_of(bits >> 16); }

struct result {
  half_bits *data;
  const half_bits *addend, *bias; // or NULL; bias: of the columns
  long long row, batch, addend_row, addend_batch;
  float alpha, beta;
  int rows, columns, after; // after: the addend is added behind the function
};

__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }

// To far more than 16 bits.
__device__ __forceinline__ float apply(float x) {
#if FUNCTION == RELU
  return x < 0.0f ? 0.0f : x; // NaN stays
#elif FUNCTION == GELU_ERF
  return 0.5f * x * (1.0f + erff(x * 0.70710678f));
#elif FUNCTION == GELU_TANH
  return x * sigmoid(1.59576912f * (x + 0.044715f * x * x * x));
#elif FUNCTION == SIGMOID
  return sigmoid(x);
#elif FUNCTION == TANH
  return tanhf(x);
#elif FUNCTION == SILU
  return x * sigmoid(x);
#else
  return x;
#endif
}

// Without an addend or a bias those are 0.
__device__ __forceinline__ float finish(const result &d, float v, float addend, float bias) {
  const float before = d.after ? 0.0f : addend, behind = d.after ? addend : 0.0f;
  return __fmaf_rn(d.beta, behind, apply(__fmaf_rn(d.beta, before, v * d.alpha) + bias));
}

struct __align__(64) tensor_map {
  u64 words[16];
};

struct work {
  int tiles, chunks, chunks_each, parts; // of all; of k; of a part's
  int x_pairs, y_blocks;                 // blocks of D, by pairs of rows
  int x_batched, y_batched;
  float *partial; // or NULL: parts is 1, and all that D and what is added to it is at multiples of 16 bytes
  long long pitch;
};

struct place {
  int batch, part, row, column, first, last;
};

// Tiles in groups of rows, so that those under way share what they read.
__device__ __forceinline__ place place_of(const work &w, int tile, int rank) {
  place p;
  const int each = w.x_pairs * w.y_blocks, size = GROUP * w.y_blocks, number = tile % each;
  const int first = number / size * GROUP, high = min(GROUP, w.x_pairs - first);
  p.part = tile / each % w.parts, p.batch = tile / each / w.parts;
  p.row = ((first + number % size % high) * CLUSTER + rank) * ROWS;
  p.column = number % size / high * COLUMNS;
  p.first = p.part * w.chunks_each;
  p.last = min(w.chunks, p.first + w.chunks_each);
  return p;
}

// ---- Clusters and copies ----
__device__ __forceinline__ int rank_in_cluster() {
  int r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
__device__ __forceinline__ void meet_cluster() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
__device__ __forceinline__ void arrive_at(unsigned barrier, int rank) {
  asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
               "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier), "r"(rank)
               : "memory");
}
__device__ __forceinline__ void copy_box(unsigned to, const tensor_map *map, int c0, int c1, int c2, unsigned barrier) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
               "[%1, {%2, %3, %4}], [%5];" ::"r"(to), "l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(barrier)
               : "memory");
}
__device__ __forceinline__ void copy_box_to_all(unsigned to, const tensor_map *map, int c0, int c1, int c2,
                                                unsigned barrier) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
               "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to), "l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(barrier),
               "h"((unsigned short)((1 << CLUSTER) - 1))
               : "memory");
}

__device__ __forceinline__ void copy_all(const tensor_map *x, const tensor_map *y, const work &w, unsigned stages,
                                         unsigned full, unsigned empty, int rank, int start, int step) {
  int at = 0;
  for (int tile = start; tile < w.tiles; tile += step) {
    const place p = place_of(w, tile, rank);
    const int x_batch = w.x_batched ? p.batch : 0, y_batch = w.y_batched ? p.batch : 0;
    const int y_row = p.column + rank * (COLUMNS / CLUSTER);
    for (int i = p.first; i < p.last; i++, at++) {
      const int s = at % STAGES, k = i * DEPTH;
      const unsigned to = stages + s * STAGE, half = to + X_BYTES + rank * Y_HALF, done = full + s * 8;
      wait(empty + s * 8, (at / STAGES & 1) ^ 1);
      expect(done, STAGE);
#if X_ROWS
      for (int b = 0; b < ROWS / 64; b++) copy_box(to + b * BLOCK_64, x, p.row + b * 64, k, x_batch, done);
#else
      copy_box(to, x, k, p.row, x_batch, done);
#endif
#if Y_ROWS
      for (int b = 0; b < COLUMNS / CLUSTER / 64; b++)
        copy_box_to_all(half + b * BLOCK_64, y, y_row + b * 64, k, y_batch, done);
#else
      copy_box_to_all(half, y, k, y_row, y_batch, done);
#endif
    }
  }
}

// ---- Products of 64 x 16 by 16 x COLUMNS ----
__device__ __forceinline__ u64 matrix(unsigned at, bool rows) { // 8 lines, and where rows lie together blocks of 64
  return (u64)((at & 0x3ffffu) >> 4) | (u64)((rows ? BLOCK_64 : 16) >> 4) << 16 | (u64)(8 * LINE >> 4) << 32 | 1ull << 62;
}
#if COLUMNS == 256
__device__ __forceinline__ void multiply(float (&c)[128], u64 a, u64 b, int more) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n256k16.f32." HALF " "
               "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
               "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
               "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, "
               "%59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, "
               "%78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, "
               "%97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, "
               "%113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
               "%128, %129, p, 1, 1, %131, %132;\n}"
               : SIXTEEN(c, 0), SIXTEEN(c, 16), SIXTEEN(c, 32), SIXTEEN(c, 48), SIXTEEN(c, 64), SIXTEEN(c, 80),
                 SIXTEEN(c, 96), SIXTEEN(c, 112)
               : "l"(a), "l"(b), "r"(more), "n"(X_ROWS), "n"(Y_ROWS)
               : "memory");
}
#else
__device__ __forceinline__ void multiply(float (&c)[64], u64 a, u64 b, int more) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n128k16.f32." HALF " " REGISTERS_64
               ", %64, %65, p, 1, 1, %67, %68;\n}"
               : SIXTEEN(c, 0), SIXTEEN(c, 16), SIXTEEN(c, 32), SIXTEEN(c, 48)
               : "l"(a), "l"(b), "r"(more), "n"(X_ROWS), "n"(Y_ROWS)
               : "memory");
}
#endif

// 64 elements of k.
__device__ __forceinline__ void multiply_block(float (&c)[SUMS], unsigned x, unsigned y, int more) {
  begin_products();
#pragma unroll
  for (int i = 0; i < DEPTH / 16; i++)
    multiply(c, matrix(x + i * (X_ROWS ? 16 * LINE : 32), X_ROWS), matrix(y + i * (Y_ROWS ? 16 * LINE : 32), Y_ROWS),
             more | i);
  commit_products();
}

// ---- What follows ----
// Eight columns of a row, at multiples of 16 bytes.
__device__ __forceinline__ void put(const result &d, int batch, int row, int column, float (&v)[8]) {
  const long long at = batch * d.batch + row * d.row + column;
  const half_bits *addend = d.addend ? d.addend + batch * d.addend_batch + row * d.addend_row + column : d.addend;
  const half_bits *bias = d.bias ? d.bias + column : d.bias;
  uint4 a = {0, 0, 0, 0}, b = a;
  if (addend) a = *(const uint4 *)addend;
  if (bias) b = *(const uint4 *)bias;
  const unsigned as[4] = {a.x, a.y, a.z, a.w}, bs[4] = {b.x, b.y, b.z, b.w};
  unsigned out[4];
#pragma unroll
  for (int i = 0; i < 4; i++)
    out[i] = pack(finish(d, v[2 * i], low_of(as[i]), low_of(bs[i])),
                  finish(d, v[2 * i + 1], high_of(as[i]), high_of(bs[i])));
  *(uint4 *)(d.data + at) = make_uint4(out[0], out[1], out[2], out[3]);
}
// One column.
__device__ __forceinline__ void put_one(const result &d, int batch, int row, int column, float v) {
  const float addend = d.addend ? low_of(d.addend[batch * d.addend_batch + row * d.addend_row + column]) : 0.0f;
  d.data[batch * d.batch + row * d.row + column] =
      (half_bits)pack(finish(d, v, addend, d.bias ? low_of(d.bias[column]) : 0.0f), 0.0f);
}

// Of four pieces of two columns each a lane of four has all of one: a transpose among them.
__device__ __forceinline__ void gather(float (&v)[8], int lane) {
#pragma unroll
  for (int s = 1; s < 4; s *= 2) {
    const bool upper = lane & s;
#pragma unroll
    for (int j = 0; j < 4; j++) {
      if (j & s) continue;
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float &low = v[2 * j + e], &high = v[2 * (j | s) + e];
        const float got = __shfl_xor_sync(0xffffffffu, upper ? low : high, s);
        if (upper) low = got;
        else high = got;
      }
    }
  }
}

__device__ __forceinline__ void write_tile(const result &d, const work &w, const place &p, float (&c)[SUMS]) {
  const int lane = (int)threadIdx.x & 31, row = p.row + (int)threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
  for (int g = 0; g < COLUMNS / 32; g++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float v[8];
#pragma unroll
      for (int i = 0; i < 8; i++) v[i] = c[(g * 4 + i / 2) * 4 + h * 2 + (i & 1)];
      gather(v, lane);
      const int column = p.column + g * 32 + (lane & 3) * 8, r = row + h * 8;
      if (r >= d.rows) continue;
      if (!w.partial) {
        if (column < d.columns) put(d, p.batch, r, column, v);
      } else {
        float *to = w.partial + (((long long)p.batch * w.parts + p.part) * d.rows + r) * w.pitch + column;
        *(float4 *)to = make_float4(v[0], v[1], v[2], v[3]);
        *(float4 *)(to + 4) = make_float4(v[4], v[5], v[6], v[7]);
      }
    }
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(384, 1)
    tc_half_product(const __grid_constant__ tensor_map x, const __grid_constant__ tensor_map y,
               const __grid_constant__ result d, const __grid_constant__ work w) {
  extern __shared__ __align__(1024) unsigned char memory[];
  __shared__ u64 barriers[2 * STAGES];
  const unsigned full = shared_address(barriers), empty = full + STAGES * 8;
  const unsigned stages = (shared_address(memory) + 1023u) & ~1023u;
  const int rank = rank_in_cluster(), role = (int)threadIdx.x / 128;
  const int start = (int)blockIdx.x / CLUSTER, step = (int)gridDim.x / CLUSTER;
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; s++) start_barrier(full + s * 8, 1), start_barrier(empty + s * 8, RELEASES);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  meet_cluster();
  await_predecessors();

  if (role == 2) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == MULTIPLIERS) copy_all(&x, &y, w, stages, full, empty, rank, start, step);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const int lane = (int)threadIdx.x & 31;
    float c[SUMS];
    int at = 0;
#pragma unroll 1
    for (int tile = start; tile < w.tiles; tile += step) {
      const place p = place_of(w, tile, rank);
#pragma unroll 1
      for (int i = p.first; i < p.last; i++, at++) {
        const int s = at % STAGES;
        const unsigned from = stages + s * STAGE;
        wait(full + s * 8, at / STAGES & 1);
        multiply_block(c, from + role * BLOCK_64, from + X_BYTES, i - p.first);
        if (i == p.first) continue;
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); // what was read before this may be overwritten
        if (lane < CLUSTER) arrive_at(empty + (at - 1) % STAGES * 8, lane);
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
      for (int j = 0; j < SUMS; j++) asm volatile("" : "+f"(c[j])::"memory");
      if (lane < CLUSTER) arrive_at(empty + (at - 1) % STAGES * 8, lane);
      write_tile(d, w, p, c);
    }
  }
  meet_cluster(); // nothing is sent to a block that has left
}

// The sum of the parts, in their order, one element a thread.
extern "C" __global__ void __launch_bounds__(256) tc_half_finish(const __grid_constant__ result d,
                                                                    const __grid_constant__ work w, int batches) {
  await_predecessors();
  const long long number = (long long)blockIdx.x * 256 + threadIdx.x;
  const int column = (int)(number % d.columns), row = (int)(number / d.columns % d.rows),
            batch = (int)(number / d.columns / d.rows);
  if (batch >= batches) return;
  float v = 0.0f;
  for (int part = 0; part < w.parts; part++)
    v += w.partial[(((long long)batch * w.parts + part) * d.rows + row) * w.pitch + column];
  put_one(d, batch, row, column, v);
}

// What does not lie at multiples of 16 bytes: one element of D a thread.
struct factor {
  const half_bits *data;
  long long row, step, batch;
};
extern "C" __global__ void __launch_bounds__(256)
    tc_half_plain(const __grid_constant__ factor x, const __grid_constant__ factor y,
                     const __grid_constant__ result d, int k, int batches) {
  await_predecessors();
  const long long number = (long long)blockIdx.x * 256 + threadIdx.x;
  const int column = (int)(number % d.columns), row = (int)(number / d.columns % d.rows),
            batch = (int)(number / d.columns / d.rows);
  if (batch >= batches) return;
  const half_bits *xp = x.data + batch * x.batch + row * x.row, *yp = y.data + batch * y.batch + column * y.row;
  float v = 0.0f;
  for (int i = 0; i < k; i++) v = __fmaf_rn(low_of(xp[i * x.step]), low_of(yp[i * y.step]), v);
  put_one(d, batch, row, column, v);
}
