// A gradient by the filter as cuDNN makes it, of [k, c, ...] or [k, ..., c], as the convolution that it is has it: [c, k, ...].
// The text in front of this is launch_common.cu.

// `count` elements of the result, of k times `positions` for each c; strides of `from` in elements.
template <class T>
__device__ __forceinline__ void turn(const T *from, T *to, long long count, int k, int positions, long long k_stride,
                                     long long c_stride, long long stride) {
  await_predecessors();
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const int row = (int)(i / positions), p = (int)(i % positions);
  to[i] = from[row % k * k_stride + row / k * c_stride + p * stride];
}

extern "C" __global__ void __launch_bounds__(256)
    tc_turn_16(const unsigned short *from, unsigned short *to, long long count, int k, int positions,
               long long k_stride, long long c_stride, long long stride) {
  turn(from, to, count, k, positions, k_stride, c_stride, stride);
}
extern "C" __global__ void __launch_bounds__(256)
    tc_turn_32(const unsigned *from, unsigned *to, long long count, int k, int positions, long long k_stride,
               long long c_stride, long long stride) {
  turn(from, to, count, k, positions, k_stride, c_stride, stride);
}
