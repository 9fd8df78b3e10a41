// What attention over f32 and its derivatives share: products on tensor cores with the accuracy of f32, by blocks of 256 lanes.
//
// A factor is split into two tf32 numbers, the nearest one and the rest, and a product is the sum of three products of
// such parts (Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32
// theoretical peak performance", 2022): what is left out is below 2^-22 of it, with either sign. The units drop bits
// when they accumulate, so each sum over eight products begins at zero and is added to the total by an ordinary
// addition; in it the parts' small products come first.
//
// Products are mma.m16n8k8. Its order of k is free as long as both factors agree: lane t of a group of four has k = 2t and
// 2t + 1, so that rows are read in pairs and one product's result is a factor of the next where it lies.
// The text in front of this is attention_common.cu.

constexpr int THREADS = 256;

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

// c[i] += (ah + al) b[i] for n factors b, each of two elements per lane.
template <int n>
__device__ __forceinline__ void multiply_group(float (*c)[4], const unsigned (&ah)[4], const unsigned (&al)[4],
                                               const float (&b)[n][2]) {
  const float zero[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  unsigned bh[n][2], bl[n][2];
  float sum[n][4];
#pragma unroll
  for (int i = 0; i < n; i++) split(b[i][0], bh[i][0], bl[i][0]), split(b[i][1], bh[i][1], bl[i][1]);
#pragma unroll
  for (int i = 0; i < n; i++) multiply(sum[i], al, bh[i], zero);
#pragma unroll
  for (int i = 0; i < n; i++) multiply(sum[i], ah, bl[i], sum[i]);
#pragma unroll
  for (int i = 0; i < n; i++) multiply(sum[i], ah, bh[i], sum[i]);
#pragma unroll
  for (int i = 0; i < n; i++)
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
