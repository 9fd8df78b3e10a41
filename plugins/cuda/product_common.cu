// What products by split numbers (split.cu) and of 16-bit floats (half.cu) share: barriers, and functions behind a product.
// The text in front of this defines RELU and so on, the numbers of the functions that results may go through.

typedef unsigned long long u64;

// ---- Barriers (PTX ISA, "mbarrier") ----
__device__ __forceinline__ unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void start_barrier(unsigned at, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count) : "memory");
}
__device__ __forceinline__ void expect(unsigned at, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}
__device__ __forceinline__ void wait(unsigned at, int phase) {
  asm volatile("{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra again;\n}" ::"r"(at), "r"(phase)
               : "memory");
}
