// What both attention kernels use. The text in front of this defines HEAD, the elements of a head, and the kernel's element
// type as `element`.

__device__ __forceinline__ unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void copy_piece(unsigned to, const void *from, bool inside) {
  const int bytes = inside ? 16 : 0; // what is outside becomes zeros
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}

__device__ __forceinline__ float power2(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

struct operand {
  element *data;
  long long batch, head, row; // strides in elements
};
