// What moving bytes costs on this machine: the least and the median time of copying a buffer (the better of memcpy and
// streaming stores), and of reading one, by as many threads as OMP_NUM_THREADS says, over the same buffers again and
// again as tcrun bench does it. bench/compare --floors holds workloads to it.
//   ninja -C build floors && build/bin/floors copy|read BYTES
// BYTES are all that move: a copy reads half of them and writes half.
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "core/base/fs.h"

enum { MOST_RUNS = 2000, FEWEST_RUNS = 20, LIMIT_MS = 500, LINE = 64 };

typedef float lanes __attribute__((vector_size(LINE)));
static volatile float sink;

static void copy(char *to, const char *from, size_t n) { memcpy(to, from, n); }

static void stream(char *to, const char *from, size_t n) {
#ifdef __SSE2__
  for (size_t i = 0; i < n; i += sizeof(__m128i))
    _mm_stream_si128((__m128i *)(void *)(to + i), _mm_load_si128((const __m128i *)(const void *)(from + i)));
  _mm_sfence();
#else
  memcpy(to, from, n);
#endif
}

// Eight sums hide the latency of an addition.
#ifdef __x86_64__
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static void
sum(char *unused, const char *from, size_t n) {
  (void)unused;
  lanes s[8] = {0};
  const lanes *v = (const lanes *)(const void *)from;
  for (size_t i = 0; i + 8 <= n / LINE; i += 8) {
    for (size_t k = 0; k < 8; k++) s[k] += v[i + k];
  }
  lanes all = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
  sink = all[0];
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

typedef void work(char *to, const char *from, size_t n);

// Times of whole calls: each thread has a part of whole lines.
static void measure(work *f, char *to, const char *from, size_t n, double *out_least, double *out_median) {
  static double ms[MOST_RUNS];
  double total = 0;
  int runs = 0;
  while (runs < MOST_RUNS && (runs < FEWEST_RUNS || total < LIMIT_MS)) {
    double start = tc_now_ms();
#pragma omp parallel
    {
      size_t all = (size_t)omp_get_num_threads(), me = (size_t)omp_get_thread_num(), lines = n / LINE;
      size_t begin = lines * me / all * LINE, end = lines * (me + 1) / all * LINE;
      f(to + begin, from + begin, end - begin);
    }
    ms[runs] = tc_now_ms() - start;
    total += ms[runs++];
  }
  qsort(ms, (size_t)runs, sizeof *ms, by_value);
  *out_least = ms[0], *out_median = ms[runs / 2];
}

int main(int argc, char **argv) {
  size_t bytes = argc == 3 ? strtoull(argv[2], NULL, 10) / LINE * LINE : 0;
  bool read = argc == 3 && !strcmp(argv[1], "read");
  if (!bytes || (!read && strcmp(argv[1], "copy"))) {
    fprintf(stderr, "use: floors copy|read BYTES\n");
    return 2;
  }
  size_t n = read ? bytes : bytes / 2 / LINE * LINE;
  char *from = aligned_alloc(LINE, n), *to = aligned_alloc(LINE, n);
  if (!from || !to) return 1;
  memset(from, 0, n), memset(to, 0, n);
  work *ways[2] = {read ? sum : copy, read ? sum : stream};
  double least[2], median[2];
  for (int i = 0; i < 2; i++) measure(ways[i], to, from, n, &least[i], &median[i]);
  int best = median[1] < median[0];
  printf("{\"median_ms\": %.6f, \"min_ms\": %.6f}\n", median[best], least[0] < least[1] ? least[0] : least[1]);
  free(from), free(to);
  return 0;
}
