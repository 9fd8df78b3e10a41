// Random numbers of what makes random graphs: SplitMix64 (Steele, Lea, Flood 2014).
#ifndef TC_TESTS_FUZZ_GRAPHS_RANDOM_H_
#define TC_TESTS_FUZZ_GRAPHS_RANDOM_H_

#include <stdint.h>

static inline uint64_t fuzz_random(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

#endif
