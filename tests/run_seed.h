// What the random tests and fuzzers of one run draw by.
//   TC_TESTING_SEED=N   repeats a run; CI gives the number of the commit, so that what it draws can be drawn before
//   TC_TESTING_SHARE=N  slow tests of many cases run every N-th of them, another share for another seed
#ifndef TC_TESTS_RUN_SEED_H_
#define TC_TESTS_RUN_SEED_H_

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

// The number given by TC_TESTING_SEED, else a fresh one.
static inline uint64_t tc_run_seed(void) {
  const char *given = getenv("TC_TESTING_SEED");
  struct timespec now;
  if (given && *given) return strtoull(given, NULL, 10);
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_nsec * 1000003u + (uint64_t)now.tv_sec;
}

// Is case i of a test in this run's share? seed: what the run, or the test, draws by.
static inline bool tc_run_takes(uint64_t seed, int64_t i) {
  const char *given = getenv("TC_TESTING_SHARE");
  uint64_t n = given && *given ? strtoull(given, NULL, 10) : 1;
  return n < 2 || (seed + (uint64_t)i) % n == 0;
}

#endif
