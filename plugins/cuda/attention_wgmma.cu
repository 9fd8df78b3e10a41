// Attention by warpgroup products (wgmma, sm_90a) for 16-bit floats: one block makes 128 query rows of one head, each of its
// two warpgroups 64, over tiles of 128 keys with an online softmax. What overlaps is Shah et al., "FlashAttention-3"
// (2024), section 3.2: the scores of the next tile are multiplied and their exponentials taken while the values of this one are
// added up. Queries, keys and values come by cp.async into shared memory in the layout that the products read (PTX ISA,
// "Asynchronous warpgroup level matrix operations": rows of 128 bytes whose 16-byte pieces are exchanged by exclusive or
// with the row), two stages of keys and of values.
// The text in front of this is attention_common.cu, half_common.cu and warpgroup_common.cu,
// and defines HEAD (64 or 128), KEYS (128), LOGS and BF16 (1 or 0).

constexpr int ROWS = 128, THREADS = 256, PIECES = HEAD / 8, STEPS = HEAD / 16;
static_assert(KEYS == ROWS, "tiles are alike");
constexpr unsigned BLOCK = 64 * 2; // bytes of a row in a block of 64 columns

// The address of piece `c` of row `r` in a tile of `rows` rows: blocks of 64 columns lie behind each other.
__device__ __forceinline__ unsigned piece(unsigned tile, int rows, int r, int c) {
  return tile + (unsigned)(c >> 3) * rows * BLOCK + (unsigned)r * BLOCK + (unsigned)(((c & 7) ^ (r & 7)) << 4);
}

// A matrix in shared memory with the 128-byte exchange; `lead` and `stride` are distances in bytes.
__device__ __forceinline__ unsigned long long matrix(unsigned at, unsigned lead, unsigned stride) {
  return (unsigned long long)((at & 0x3ffffu) >> 4) | (unsigned long long)(lead >> 4) << 16 |
         (unsigned long long)(stride >> 4) << 32 | 1ull << 62;
}

#define REGISTERS_32 \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, " \
  "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"

// c += a * b: 64 x 16 times 16 x 128, both by rows of the inner dimension; begins at zero where `more` is 0.
__device__ __forceinline__ void scores_of(float (&c)[64], unsigned long long a, unsigned long long b, int more) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n128k16.f32." HALF " " REGISTERS_64 ", %64, %65, p, 1, 1, 0, 0;\n}"
               : SIXTEEN(c, 0), SIXTEEN(c, 16), SIXTEEN(c, 32), SIXTEEN(c, 48)
               : "l"(a), "l"(b), "r"(more)
               : "memory");
}

// c += a * b: a in registers, b (16 x HEAD) by columns.
__device__ __forceinline__ void add_values(float (&c)[64], const unsigned (&a)[4], unsigned long long b) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n128k16.f32." HALF " " REGISTERS_64
               ", {%64, %65, %66, %67}, %68, p, 1, 1, 1;\n}"
               : SIXTEEN(c, 0), SIXTEEN(c, 16), SIXTEEN(c, 32), SIXTEEN(c, 48)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)
               : "memory");
}
__device__ __forceinline__ void add_values(float (&c)[32], const unsigned (&a)[4], unsigned long long b) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n64k16.f32." HALF " " REGISTERS_32
               ", {%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}"
               : SIXTEEN(c, 0), SIXTEEN(c, 16)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)
               : "memory");
}

// Until at most `left` groups are under way.
template <int left> __device__ __forceinline__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}
// Nothing that uses the registers moves across.
template <int n> __device__ __forceinline__ void hold(float (&c)[n]) {
#pragma unroll
  for (int i = 0; i < n; i++) asm volatile("" : "+f"(c[i])::"memory");
}

// 128 rows from `first` of a matrix with `count` rows. A lane copies the same piece of every so many rows, so that pieces
// change places alike. Where the matrix does not lie at multiples of 16 bytes it is copied element by element.
__device__ __forceinline__ void copy_tile(unsigned char *memory, unsigned tile, const half_bits *from, long long stride,
                                          int first, int count, int aligned) {
  constexpr int EVERY = THREADS / PIECES;
  const int c = (int)threadIdx.x % PIECES, row = (int)threadIdx.x / PIECES;
  const unsigned to = piece(tile, ROWS, row, c);
  const half_bits *at = from + (first + row) * stride + c * 8;
#pragma unroll
  for (int i = 0; i < ROWS / EVERY; i++) {
    const bool inside = first + row + i * EVERY < count;
    const half_bits *here = inside ? at + i * EVERY * stride : from;
    if (aligned) {
      copy_piece(to + i * EVERY * BLOCK, here, inside);
    } else {
      half_bits *place = (half_bits *)(memory + (to + i * EVERY * BLOCK - shared_address(memory)));
      for (int e = 0; e < 8; e++) place[e] = inside ? here[e] : 0;
    }
  }
}

__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// What all threads have copied is there, and the products see it.
template <int left> __device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;\nfence.proxy.async.shared::cta;" ::"n"(left) : "memory");
  __syncthreads();
}

__device__ __forceinline__ void start_scores(float (&s)[64], unsigned q, unsigned k) {
  begin_products();
#pragma unroll
  for (int d = 0; d < STEPS; d++)
    scores_of(s, matrix(q + (d >> 2) * ROWS * BLOCK + (d & 3) * 32, 16, 8 * BLOCK),
              matrix(k + (d >> 2) * KEYS * BLOCK + (d & 3) * 32, 16, 8 * BLOCK), d);
  commit_products();
}

template <int n> __device__ __forceinline__ void start_values(float (&out)[n], const unsigned (&p)[KEYS / 16][4],
                                                               unsigned v) {
  begin_products();
#pragma unroll
  for (int i = 0; i < KEYS / 16; i++) add_values(out, p[i], matrix(v + i * 16 * BLOCK, KEYS * BLOCK, 8 * BLOCK));
  commit_products();
}

__device__ __forceinline__ void pack_all(unsigned (&p)[KEYS / 16][4], const float (&s)[64]) {
#pragma unroll
  for (int i = 0; i < KEYS / 16; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) p[i][j] = pack(s[8 * i + 2 * j], s[8 * i + 2 * j + 1]);
}

struct rows_state {
  float high[2], total[2], keep[2];
};

// Scores to exponentials, in place; what was summed up before is to be multiplied by `keep`.
__device__ __forceinline__ void soften(float (&s)[64], rows_state &x, bool edge, int key0, int row0, int keys,
                                       int causal, float scale) {
  if (edge) {
#pragma unroll
    for (int i = 0; i < 64; i++) {
      const int key = key0 + (i >> 2) * 8 + (i & 1), row = row0 + ((i >> 1) & 1) * 8;
      if (key >= keys || (causal && key > row)) s[i] = __int_as_float(0xff800000);
    }
  }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float most = x.high[h];
#pragma unroll
    for (int i = 0; i < 16; i++) most = fmaxf(most, fmaxf(s[4 * i + 2 * h], s[4 * i + 2 * h + 1]));
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
    const float shift = most * scale;
    float sum = 0.0f;
    x.keep[h] = power2(__fmaf_rn(x.high[h], scale, -shift));
#pragma unroll
    for (int i = 0; i < 16; i++)
#pragma unroll
      for (int j = 0; j < 2; j++) {
        float &v = s[4 * i + 2 * h + j];
        v = power2(__fmaf_rn(v, scale, -shift));
        sum += v;
      }
    x.high[h] = most;
    x.total[h] = __fmaf_rn(x.total[h], x.keep[h], sum);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    tc_attention(operand q, operand k, operand v, operand o, numbers logs, int queries, int keys, int heads, int group,
                 int tiles, int causal, int aligned, float scale) {
  await_predecessors();
  extern __shared__ __align__(1024) unsigned char memory[];
  constexpr unsigned TILE = KEYS * HEAD * 2; // bytes
  const unsigned qt = (shared_address(memory) + 1023u) & ~1023u, kt = qt + ROWS * HEAD * 2, vt = kt + 2 * TILE;
  const int lane = (int)threadIdx.x % 32, half = (int)threadIdx.x / 128;
  const int number = (int)blockIdx.x / tiles, tile = tiles - 1 - (int)blockIdx.x % tiles; // long rows first
  const int batch = number / heads, head = number % heads, first_row = tile * ROWS;
  const half_bits *kp = k.data + batch * k.batch + head / group * k.head,
                  *vp = v.data + batch * v.batch + head / group * v.head;
  const int row0 = first_row + (int)threadIdx.x / 32 * 16 + lane / 4; // and the one 8 behind it
  const int column0 = (lane & 3) * 2;
  int last = (keys + KEYS - 1) / KEYS;
  if (causal && (first_row + ROWS + KEYS - 1) / KEYS < last) last = (first_row + ROWS + KEYS - 1) / KEYS;

  float out[HEAD / 2], s[64];
  unsigned p[KEYS / 16][4];
  rows_state x;
#pragma unroll
  for (int i = 0; i < HEAD / 2; i++) out[i] = 0.0f;
#pragma unroll
  for (int h = 0; h < 2; h++) x.high[h] = __int_as_float(0xff800000), x.total[h] = 0.0f;

  copy_tile(memory, qt, q.data + batch * q.batch + head * q.head, q.row, first_row, queries, aligned);
  copy_tile(memory, kt, kp, k.row, 0, keys, aligned);
  commit_copies();
  copy_tile(memory, vt, vp, v.row, 0, keys, aligned);
  if (last > 1) copy_tile(memory, kt + TILE, kp, k.row, KEYS, keys, aligned);
  commit_copies();
  wait_copies<1>();
  const unsigned my_queries = qt + (unsigned)half * 64 * BLOCK;
  start_scores(s, my_queries, kt);
  wait_products<0>();
  hold(s);
  soften(s, x, KEYS > keys || (causal && KEYS > first_row), column0, row0, keys, causal, scale);
  pack_all(p, s);

  for (int t = 0; t + 1 < last; t++) {
    wait_copies<0>(); // keys of the next tile, values of this one; all have read what is overwritten now
    if (t + 2 < last) copy_tile(memory, kt + (t & 1) * TILE, kp, k.row, (t + 2) * KEYS, keys, aligned);
    copy_tile(memory, vt + ((t + 1) & 1) * TILE, vp, v.row, (t + 1) * KEYS, keys, aligned);
    commit_copies();
    start_scores(s, my_queries, kt + ((t + 1) & 1) * TILE);
    start_values(out, p, vt + (t & 1) * TILE);
    wait_products<1>();
    hold(s);
    const int key0 = (t + 1) * KEYS;
    soften(s, x, key0 + KEYS > keys || (causal && key0 + KEYS > first_row), key0 + column0, row0, keys, causal, scale);
    hold(s); // softened before the values are waited for
    wait_products<0>();
    hold(out);
#pragma unroll
    for (int i = 0; i < HEAD / 2; i++) out[i] *= x.keep[(i >> 1) & 1];
    pack_all(p, s);
  }
  wait_copies<0>();
  start_values(out, p, vt + ((last - 1) & 1) * TILE);
  wait_products<0>();
  hold(out);

#pragma unroll
  for (int h = 0; h < 2; h++) {
    float sum = x.total[h];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    const float by = 1.0f / sum;
    const int row = row0 + h * 8;
    if (row >= queries) continue;
    if (LOGS && (lane & 3) == 0) put_logarithm(logs, batch, head, row, x.high[h], scale, sum);
    half_bits *to = o.data + batch * o.batch + head * o.head + row * o.row + column0;
#pragma unroll
    for (int i = 0; i < HEAD / 8; i++)
      *(unsigned *)(to + i * 8) = pack(out[4 * i + 2 * h] * by, out[4 * i + 2 * h + 1] * by);
  }
}
