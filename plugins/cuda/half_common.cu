// What kernels of 16-bit floats share. The text in front of this defines BF16 (1: bfloat16, 0: IEEE half precision).

typedef unsigned short half_bits;
#if BF16
#define HALF "bf16.bf16"
#else
#define HALF "f16.f16"
#endif
// Two floats, rounded to nearest, in a word.
__device__ __forceinline__ unsigned pack(float low, float high) {
  unsigned r;
#if BF16
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
#else
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
#endif
  return r;
}
