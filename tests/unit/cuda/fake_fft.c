// A cuFFT for tests: the functions that the plugin uses, by the definition, over host memory and in the order of the
// fake driver's streams, if the test gives it that driver.
//
// It tells of wrong use: plans that do not live, also when a recording with them is launched; a run without stream or
// workspace, or with what another thread has set meanwhile; reals that do not lie as complex numbers do. As the library
// does it overwrites what transforms to reals read; and its workspace.
#include <complex.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

#define EXPORT __attribute__((visibility("default")))
enum { OK = 0, INVALID_PLAN = 1, INVALID = 4, FIRST = 7, PLANS = 256, WORK = 96 };
enum { C2C = 0x29, R2C, C2R = 0x2c, Z2Z = 0x69, D2Z, Z2D = 0x6c };

typedef struct plan {
  int live, made, own_memory, type;
  long long length, rows, in_distance, out_distance;
  size_t needs;
  void *stream, *work;
  pthread_t setter;
} plan;
typedef struct job {
  struct job *next;
  plan p;
  int number, direction;
  void *in, *out;
} job;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static plan plans[PLANS];
static job *jobs;
static int created, live, runs, fails;
static char fault[120];
static fake_work_fn enqueue;

EXPORT int fake_fft_live(void) { return live; }
EXPORT int fake_fft_runs(void) { return runs; }
EXPORT const char *fake_fft_fault(void) { return fault; }
EXPORT void fake_fft_use(fake_work_fn driver) { enqueue = driver; }
EXPORT void fake_fft_fail(int status) { fails = status; } // the next plan's
EXPORT void fake_fft_clean(void) {
  for (job *j = jobs, *next; j; j = next) next = j->next, free(j);
  jobs = NULL, created = 0;
}

static int wrong(const char *text) {
  if (!fault[0]) snprintf(fault, sizeof fault, "%s", text);
  return INVALID;
}
static plan *find(int number) {
  int at = number - FIRST;
  if (at >= 0 && at < created && plans[at].live) return &plans[at];
  wrong("a plan that does not live");
  return NULL;
}

EXPORT int cufftGetVersion(int *v) { return *v = 11401, OK; }
EXPORT int cufftCreate(int *out) {
  pthread_mutex_lock(&lock);
  int at = created < PLANS ? created++ : -1;
  if (at >= 0) plans[at] = (plan){.live = 1, .own_memory = 1}, live++, *out = at + FIRST;
  pthread_mutex_unlock(&lock);
  return at >= 0 ? OK : INVALID;
}
EXPORT int cufftDestroy(int number) {
  pthread_mutex_lock(&lock);
  plan *p = find(number);
  if (p) p->live = 0, live--;
  pthread_mutex_unlock(&lock);
  return p ? OK : INVALID_PLAN;
}
EXPORT int cufftSetAutoAllocation(int number, int on) {
  plan *p = find(number);
  if (!p) return INVALID_PLAN;
  return p->own_memory = on, p->made ? wrong("too late for memory of its own") : OK;
}
static long long half(const plan *p) { return p->length / 2 + 1; }
EXPORT int cufftMakePlanMany64(int number, int rank, long long *n, long long *in_embed, long long in_stride,
                               long long in_distance, long long *out_embed, long long out_stride,
                               long long out_distance, int type, long long rows, size_t *needs) {
  plan *p = find(number);
  if (!p) return INVALID_PLAN;
  if (fails) return rank = fails, fails = 0, rank;
  if (p->made || rank != 1 || n[0] < 1 || rows < 1 || !in_embed != !out_embed) return wrong("a plan for nothing");
  p->made = 1, p->length = n[0], p->rows = rows, p->type = type;
  long long in = type == C2R || type == Z2D ? half(p) : n[0], out = type == R2C || type == D2Z ? half(p) : n[0];
  p->in_distance = in_embed ? in_distance : in, p->out_distance = in_embed ? out_distance : out;
  if (in_embed && (in_stride != 1 || out_stride != 1 || in_distance < in || out_distance < out))
    return wrong("rows over each other");
  p->needs = n[0] & (n[0] - 1) ? WORK : 0;
  return *needs = p->needs, OK;
}
EXPORT int cufftSetStream(int number, void *stream) {
  plan *p = find(number);
  return p ? p->stream = stream, p->setter = pthread_self(), OK : INVALID_PLAN;
}
EXPORT int cufftSetWorkArea(int number, void *work) {
  plan *p = find(number);
  if (!p) return INVALID_PLAN;
  if (!p->setter || !pthread_equal(p->setter, pthread_self())) return wrong("two threads at a plan");
  return p->work = work, OK;
}

// ---- The work ----
static int is_wide(int type) { return type >= Z2Z; }
static double real_at(const job *j, long long i) {
  return is_wide(j->p.type) ? ((const double *)j->in)[i] : (double)((const float *)j->in)[i];
}
static void put_real(const job *j, long long i, double v) {
  if (is_wide(j->p.type)) ((double *)j->out)[i] = v;
  else ((float *)j->out)[i] = (float)v;
}
// Number k of a row, of all `length`.
static double complex input(const job *j, long long row, long long k) {
  long long at = row * j->p.in_distance, n = j->p.length;
  switch (j->p.type) {
  case R2C:
  case D2Z: return real_at(j, at + k);
  case C2R:
  case Z2D:
    if (k > n / 2) return conj(input(j, row, n - k));
    return real_at(j, 2 * (at + k)) + (k == 0 || 2 * k == n ? 0 : I * real_at(j, 2 * (at + k) + 1));
  default: return real_at(j, 2 * (at + k)) + I * real_at(j, 2 * (at + k) + 1);
  }
}
static size_t in_bytes(const plan *p) {
  int reals = p->type == R2C || p->type == D2Z, inverse = p->type == C2R || p->type == Z2D;
  long long elements = (p->rows - 1) * p->in_distance + (inverse ? half(p) : p->length);
  return (size_t)elements * (is_wide(p->type) ? 8 : 4) * (reals ? 1 : 2);
}
static size_t out_bytes(const plan *p) {
  int reals = p->type == C2R || p->type == Z2D, forward = p->type == R2C || p->type == D2Z;
  long long elements = (p->rows - 1) * p->out_distance + (forward ? half(p) : p->length);
  return (size_t)elements * (is_wide(p->type) ? 8 : 4) * (reals ? 1 : 2);
}

static void transform(void *self) {
  const job *j = self;
  const plan *p = &j->p;
  if (!find(j->number)) return;
  int reals = p->type == C2R || p->type == Z2D, forward = p->type == R2C || p->type == D2Z;
  for (long long r = 0; r < p->rows; r++) {
    for (long long k = 0; k < (forward ? half(p) : p->length); k++) {
      double complex sum = 0;
      for (long long i = 0; i < p->length; i++)
        sum += input(j, r, i) * cexp(j->direction * 2 * I * M_PI * (double)(i * k % p->length) / (double)p->length);
      long long at = r * p->out_distance + k;
      put_real(j, reals ? at : 2 * at, creal(sum));
      if (!reals) put_real(j, 2 * at + 1, cimag(sum));
    }
  }
  if (reals) memset(j->in, 0x55, in_bytes(p));
  if (p->needs) memset(p->work, 0x66, p->needs);
}

static int execute(int number, int type, void *in, void *out, int direction) {
  plan *p = find(number);
  if (!p) return INVALID_PLAN;
  size_t pair = is_wide(type) ? 16 : 8;
  if (!p->made || p->type != type || p->own_memory) return wrong("another plan than that of the run");
  if (!p->stream || !pthread_equal(p->setter, pthread_self())) return wrong("a run on nobody's stream");
  if (p->needs && !p->work) return wrong("a run without its workspace");
  if ((uintptr_t)in % pair || (uintptr_t)out % pair) return wrong("numbers that do not lie as complex ones do");
  job *j = malloc(sizeof *j);
  pthread_mutex_lock(&lock);
  *j = (job){.next = jobs, .p = *p, .number = number, .direction = direction, .in = in, .out = out};
  jobs = j, runs++;
  pthread_mutex_unlock(&lock);
  p->stream = p->work = NULL; // each run is to say them
  if (!enqueue) return OK;
  fake_work_part part = {
      .work = transform, .self = j, .to = out, .from = in, .writes = out_bytes(&j->p), .reads = in_bytes(&j->p)};

  return enqueue(j->p.stream, part);
}
EXPORT int cufftExecC2C(int plan, void *in, void *out, int direction) { return execute(plan, C2C, in, out, direction); }
EXPORT int cufftExecZ2Z(int plan, void *in, void *out, int direction) { return execute(plan, Z2Z, in, out, direction); }
EXPORT int cufftExecR2C(int plan, void *in, void *out) { return execute(plan, R2C, in, out, -1); }
EXPORT int cufftExecD2Z(int plan, void *in, void *out) { return execute(plan, D2Z, in, out, -1); }
EXPORT int cufftExecC2R(int plan, void *in, void *out) { return execute(plan, C2R, in, out, 1); }
EXPORT int cufftExecZ2D(int plan, void *in, void *out) { return execute(plan, Z2D, in, out, 1); }
