// Attention's derivatives on tensor cores without a matrix of all pairs (Dao et al., "FlashAttention", 2022). The shares are
// made again from the scores and the logarithm of each query's sum, p = exp(s - logarithm); with dp = g v^T and delta, the mean of
// dp by the shares, the scores' derivative is ds = p (dp - delta). Then
//     dq = scale ds k                         a block has 128 queries, and goes over keys     (KEYS_OWN 0)
//     dk = scale ds^T q,  dv = p^T g          a block has 128 keys, and goes over queries     (KEYS_OWN 1)
// The two are one code: s = own1 other1^T, dp = own2 other2^T, out = ds other1 and, of keys, p other2 behind it, where own1,
// own2 are q, g and other1, other2 are k, v, or the other way round. A warp has 16 own rows, sums in registers; tiles of OTHER
// rows come by cp.async in two stages. Every sum has one order, so results do not depend on how blocks are scheduled.
//
// The text in front of this is attention_common.cu, what its type needs, and attention_backward_f32.cu or _half.cu, which has the
// products; it defines NAME, HEAD, KEYS (rows of the other side in a tile), KEYS_OWN, and PARTS: so many blocks (blockIdx.y)
// share the columns of the sums where registers do not suffice for all.

constexpr int OWN = 128, COLUMNS = HEAD / PARTS, OWN_BYTES = tile_bytes(OWN), OTHER_BYTES = tile_bytes(OTHER);
// A stage: a tile of each, then logarithms and deltas of its rows, where these are queries.
constexpr int STAGE_BYTES = 2 * OTHER_BYTES + 2 * OTHER * 4;

// In powers of two. A row without any key has shares of 0, not NaN.
__device__ __forceinline__ float power_of(float logarithm) {
  return logarithm == __int_as_float(0xff800000) ? 0.0f : logarithm * LOG2_E;
}

__device__ __forceinline__ void copy_number(float *to, const float *from, bool inside) {
  const int bytes = inside ? 4 : 0; // what is outside becomes zeros
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes));
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    NAME(operand own1, operand own2, operand other1, operand other2, numbers logs, numbers deltas, operand out, int rows,
         int others, int heads, int tiles, int causal, int aligned, float scale) {
  await_predecessors();
  extern __shared__ __align__(128) unsigned char memory[];
  unsigned char *const mine1 = memory, *const mine2 = memory + OWN_BYTES, *const stages = memory + 2 * OWN_BYTES;
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int number = (int)blockIdx.x / tiles, turn = (int)blockIdx.x % tiles;
  const int tile = KEYS_OWN ? turn : tiles - 1 - turn; // where it is causal, much work first
  const int batch = number / heads, head = number % heads, row0 = tile * OWN, band = warp * 16, my_row = row0 + band + g;
  const int column0 = PARTS == 1 ? 0 : (int)blockIdx.y * COLUMNS;
  const element *const from1 = other1.data + batch * other1.batch + head * other1.head,
                       *const from2 = other2.data + batch * other2.batch + head * other2.head;
  const float *const log_at = logs.data + batch * logs.batch + head * logs.head,
                     *const delta_at = deltas.data + batch * deltas.batch + head * deltas.head;
  int first = 0, last = (others + OTHER - 1) / OTHER;
  if (causal && KEYS_OWN) first = row0 / OTHER;
  if (causal && !KEYS_OWN && (row0 + OWN + OTHER - 1) / OTHER < last) last = (row0 + OWN + OTHER - 1) / OTHER;

  auto fetch_stage = [&](int n) {
    unsigned char *const to = stages + (n & 1) * STAGE_BYTES;
    fetch(to, from1, other1.row, n * OTHER, others, OTHER, aligned);
    fetch(to + OTHER_BYTES, from2, other2.row, n * OTHER, others, OTHER, aligned);
    const int i = (int)threadIdx.x % OTHER, row = n * OTHER + i;
    const long long at = row < others ? row : 0;
    float *const place = (float *)(to + 2 * OTHER_BYTES) + threadIdx.x;
    if (KEYS_OWN && threadIdx.x < OTHER) copy_number(place, log_at + at * logs.row, row < others);
    else if (KEYS_OWN && threadIdx.x < 2 * OTHER) copy_number(place, delta_at + at * deltas.row, row < others);
    asm volatile("cp.async.commit_group;" ::: "memory");
  };

  float sum1[COLUMNS / 8][4], sum2[COLUMNS / 8][4], log[2], delta[2];
#pragma unroll
  for (int i = 0; i < COLUMNS / 8; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) sum1[i][j] = sum2[i][j] = 0.0f;
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const int row = my_row + h * 8;
    const bool has = !KEYS_OWN && row < rows;
    log[h] = has ? power_of(log_at[row * logs.row]) : 0.0f, delta[h] = has ? delta_at[row * deltas.row] : 0.0f;
  }
  fetch(mine1, own1.data + batch * own1.batch + head * own1.head, own1.row, row0, rows, OWN, aligned);
  fetch(mine2, own2.data + batch * own2.batch + head * own2.head, own2.row, row0, rows, OWN, aligned);
  fetch_stage(first);
  for (int n = first; n < last; n++) {
    const unsigned char *const tile1 = stages + (n & 1) * STAGE_BYTES, *const tile2 = tile1 + OTHER_BYTES;
    const float *const column_logs = (const float *)(tile2 + OTHER_BYTES), *const column_deltas = column_logs + OTHER;
    if (n + 1 < last) {
      fetch_stage(n + 1);
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
    __syncthreads();

    float p[OTHER / 8][4], ds[OTHER / 8][4];
    dots(p, mine1, band, tile1, lane);
    const bool edge = KEYS_OWN ? causal && n * OTHER < row0 + band + 15
                               : (n + 1) * OTHER > others || (causal && (n + 1) * OTHER > row0 + band);
#pragma unroll
    for (int i = 0; i < OTHER / 8; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const int at = i * 8 + column_of(t * 2 + (j & 1)), column = n * OTHER + at, row = my_row + (j >> 1) * 8;
        const float share = power2(__fmaf_rn(p[i][j], scale * LOG2_E, -(KEYS_OWN ? power_of(column_logs[at]) : log[j >> 1])));
        const bool out_of = KEYS_OWN ? causal && row > column : column >= others || (causal && column > row);
        p[i][j] = edge && out_of ? 0.0f : share;
      }
    if (KEYS_OWN) add(sum2, p, tile2, column0, lane);
    dots(ds, mine2, band, tile2, lane);
#pragma unroll
    for (int i = 0; i < OTHER / 8; i++)
#pragma unroll
      for (int j = 0; j < 4; j++)
        ds[i][j] = p[i][j] * (ds[i][j] - (KEYS_OWN ? column_deltas[i * 8 + column_of(t * 2 + (j & 1))] : delta[j >> 1]));
    add(sum1, ds, tile1, column0, lane);
    __syncthreads();
  }
  asm volatile("cp.async.wait_group 0;" ::: "memory"); // also of blocks without a turn

#pragma unroll
  for (int h = 0; h < 2; h++) {
    const int row = my_row + h * 8;
    if (row >= rows) continue;
    element *const to = out.data + batch * out.batch + head * out.head + row * out.row + column0 + t * 2;
#pragma unroll
    for (int i = 0; i < COLUMNS / 8; i++) {
      put_pair(to + i * 8, sum1[i][2 * h] * scale, sum1[i][2 * h + 1] * scale);
      if (KEYS_OWN) put_pair(to + HEAD + i * 8, sum2[i][2 * h], sum2[i][2 * h + 1]);
    }
  }
}
