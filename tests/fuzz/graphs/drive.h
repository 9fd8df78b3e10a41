// The command line of fuzzers of graphs, and their loop over cases: case k of seed S has the seed S + k, so that any
// failure is repeated by --seed=<its seed> --cases=1. A crash says the seed of its case.
#ifndef TC_TESTS_FUZZ_GRAPHS_DRIVE_H_
#define TC_TESTS_FUZZ_GRAPHS_DRIVE_H_

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/fs.h"
#include "core/ops/ops.h"
#include "tests/run_seed.h"

typedef struct fuzz_options {
  uint64_t seed;
  int64_t cases;
  double seconds;
  bool keep_going, print, grad;
  const char *op;                // one op only; fuzzers of calls
  const char *graph;             // a file with the text of the graph; only its inputs are drawn
  const char *backend, *plugins; // where it runs; folders with plugins, NULL: those beside the program
  tc_dtype dtype;                // what their tensors have in common
} fuzz_options;

typedef struct fuzz_session {
  fuzz_options o;
  tc_arena *arena;
  tc_op_registry *ops; // the core's
  int64_t done, failed, skipped;
  tc_map *reasons; // of skipped cases: first line → how often
  void *self;      // of the fuzzer
  // Runs a case; false if it failed.
  bool (*run)(struct fuzz_session *x, uint64_t seed);
} fuzz_session;

// A case of so many seconds hangs: the largest take a minute and more under a sanitizer, on a busy machine several.
enum { FUZZ_HANGS = 900 };
static volatile uint64_t fuzz_current_seed;

static void fuzz_on_signal(int number) {
  char text[64];
  int n =
      snprintf(text, sizeof text, "signal %d in the case --seed=%llu\n", number, (unsigned long long)fuzz_current_seed);
  if (write(2, text, (size_t)n) < 0) _exit(4);
  _exit(3);
}

// A case that cannot be judged, for this reason.
static inline void fuzz_skip(fuzz_session *x, const char *reason) {
  tc_sv line;
  tc_sv_cut(tc_sv_of(reason), '\n', &line);
  x->skipped++;
  tc_map_put(x->reasons, tc_sv_copy(x->arena, line), NULL)->value.num++;
}

static inline tc_status fuzz_loop(fuzz_session *x) {
  const fuzz_options *o = &x->o;
  printf("--seed=%llu\n", (unsigned long long)o->seed);
  fflush(stdout);
  double end = tc_now_ms() + o->seconds * 1000;
  while ((o->cases ? x->done < o->cases : tc_now_ms() < end) && (o->keep_going || !x->failed)) {
    fuzz_current_seed = o->seed + (uint64_t)x->done++;
    alarm(FUZZ_HANGS);
    x->failed += !x->run(x, fuzz_current_seed);
  }
  alarm(0);
  for (int32_t i = 0; i < tc_map_count(x->reasons); i++) {
    const tc_map_entry *e = tc_map_at(x->reasons, i);
    printf("%lld skipped: " TC_SV_FMT "\n", (long long)e->value.num, TC_SV_ARG(e->key));
  }
  printf("%lld cases, %lld failed, %lld skipped\n", (long long)x->done, (long long)x->failed, (long long)x->skipped);
  return TC_OK;
}

static inline bool fuzz_option(fuzz_options *o, const char *text) {
  if (strncmp(text, "--seconds=", 10) == 0) o->seconds = strtod(text + 10, NULL);
  else if (strncmp(text, "--seed=", 7) == 0) o->seed = strtoull(text + 7, NULL, 10);
  else if (strncmp(text, "--cases=", 8) == 0) o->cases = strtoll(text + 8, NULL, 10);
  else if (strncmp(text, "--op=", 5) == 0) o->op = text + 5;
  else if (strncmp(text, "--graph=", 8) == 0) o->graph = text + 8;
  else if (strncmp(text, "--backend=", 10) == 0) o->backend = text + 10;
  else if (strncmp(text, "--plugins=", 10) == 0) o->plugins = text + 10;
  else if (strncmp(text, "--dtype=", 8) == 0) return (o->dtype = tc_dtype_parse(tc_sv_of(text + 8))) != TC_DTYPE_NONE;
  else if (strcmp(text, "--keep-going") == 0) o->keep_going = true;
  else if (strcmp(text, "--print") == 0) o->print = true;
  else if (strcmp(text, "--grad") == 0) o->grad = true;
  else return false;
  return true;
}

// The whole program; `body` (a fuzz_session) runs under the guard of its arena and calls fuzz_loop. Returns its exit
// code.
static inline int fuzz_main(int argc, char **argv, tc_status (*body)(void *session)) {
  fuzz_session x = {.o = {.seconds = 30, .seed = tc_run_seed(), .backend = "cpu"}};
  for (int i = 1; i < argc; i++) {
    if (fuzz_option(&x.o, argv[i])) continue;
    fprintf(stderr,
            "%s [--seconds=N] [--seed=S] [--cases=N] [--op=NAME] [--dtype=NAME] [--graph=FILE] [--grad] "
            "[--backend=NAME] [--plugins=FOLDERS] [--keep-going] [--print]\n",
            argv[0]);
    return 2;
  }
  setvbuf(stdout, NULL, _IOLBF, 1 << 16);
  static const int signals[] = {SIGSEGV, SIGABRT, SIGFPE, SIGALRM};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) signal(signals[i], fuzz_on_signal);
  tc_status s = tc_arena_create(tc_system_allocator(), &x.arena);
  if (s == TC_OK) s = tc_arena_guard(x.arena, body, &x);
  if (s != TC_OK) fprintf(stderr, "%s\n", tc_status_text(s));
  bool ok = s == TC_OK && !x.failed;
  tc_status_free(s);
  tc_arena_destroy(x.arena);
  return ok ? 0 : 1;
}

// At the start of a body.
static inline tc_status fuzz_set_up(fuzz_session *x) {
  x->reasons = tc_map_create(x->arena);
  TC_TRY(tc_op_registry_create(x->arena, &x->ops));
  return tc_ops_register_core(x->ops);
}

#endif
