// What the random tests and fuzzers of one run draw by.
//   TC_TESTING_SEED=N   repeats a run; CI gives the number of the commit, so that what it draws can be drawn before
#ifndef TC_TESTS_RUN_SEED_H_
#define TC_TESTS_RUN_SEED_H_

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

#endif
