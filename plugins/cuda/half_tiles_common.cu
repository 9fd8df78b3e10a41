// Tiles of 16-bit floats in shared memory and their products on tensor cores, mma.m16n8k16 with f32 accumulators. A row has HEAD
// elements, whose 16-byte pieces are exchanged by exclusive or so that ldmatrix meets no bank twice.
// The text in front of this is attention_common.cu and half_common.cu.

constexpr int PIECES = HEAD / 8;

// The address of piece `c` of row `r` in a tile.
__device__ __forceinline__ unsigned piece(unsigned tile, int r, int c) {
  return tile + (unsigned)((r * PIECES + (c ^ (r & 7))) * 16);
}

__device__ __forceinline__ void load4(unsigned (&r)[4], unsigned at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at));
}

__device__ __forceinline__ void load4_transposed(unsigned (&r)[4], unsigned at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at));
}

__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." HALF ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// `rows` rows from `first` of a matrix with `count` rows. Where it does not lie at multiples of 16 bytes it is copied
// element by element.
template <int threads>
__device__ __forceinline__ void copy_tile(unsigned char *memory, unsigned tile, const half_bits *from, long long stride,
                                          int first, int count, int rows, int aligned) {
  for (int i = (int)threadIdx.x; i < rows * PIECES; i += threads) {
    const int r = i / PIECES, c = i % PIECES;
    const bool inside = first + r < count;
    const half_bits *at = from + (inside ? first + r : 0) * stride + c * 8;
    if (aligned) {
      copy_piece(piece(tile, r, c), at, inside);
    } else {
      half_bits *to = (half_bits *)(memory + (piece(tile, r, c) - shared_address(memory)));
      for (int e = 0; e < 8; e++) to[e] = inside ? at[e] : 0;
    }
  }
}
