// What every kernel begins with, before it touches memory: from sm_90 on it may have been launched before those in front of it
// have ended (PTX ISA, "griddepcontrol"). Then the next one may be launched.
__device__ __forceinline__ void await_predecessors() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\ngriddepcontrol.launch_dependents;" ::: "memory");
#endif
}
