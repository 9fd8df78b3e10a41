// What tests see of fake_nvrtc.c.
#ifndef TESTS_UNIT_CUDA_FAKE_NVRTC_H_
#define TESTS_UNIT_CUDA_FAKE_NVRTC_H_

enum { FAKE_COMPILATIONS = 8 };

typedef struct fake_result {
  int registers, spilled;
} fake_result;
typedef struct fake_compilation {
  int blocks, low; // of its launch bounds, 0: none; ptxas at its first level?
} fake_compilation;
typedef struct fake_nvrtc {
  fake_result free, bounded, low; // by how it is asked: without a bound, with one, at the first level
  fake_compilation made[FAKE_COMPILATIONS];
  int n_made, live;
  const void *object; // what is made; NULL: a header that names the number of the compilation
  unsigned long object_size;
} fake_nvrtc;
typedef fake_nvrtc *(*fake_nvrtc_fn)(void);

#endif
