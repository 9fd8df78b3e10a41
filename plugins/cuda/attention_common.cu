// What kernels of attention use. The text in front of this defines HEAD, the elements of a head, and the kernel's element
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

// A number per query.
struct numbers {
  float *data;
  long long batch, head, row;
};

constexpr float LOG2_E = 1.4426950408889634f, LOG_2 = 0.6931471805599453f;

// The logarithm of a row's sum: `high` is the greatest score, `sum` of powers of two of scores times `scale` minus its.
__device__ __forceinline__ void put_logarithm(const numbers &to, int batch, int head, int row, float high, float scale,
                                              float sum) {
  to.data[batch * to.batch + head * to.head + row * to.row] = __fmaf_rn(high, scale, __log2f(sum)) * LOG_2;
}
