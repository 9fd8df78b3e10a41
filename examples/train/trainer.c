// The training loop (trainer.h).
//
//   PROGRAM [FILE] [--steps=N] [--backend=NAME] [--threads=N]
//   [--checkpoint=FILE.safetensors [--every=N]] [--losses=FILE.csv]
//           [--export=FILE.safetensors] [--quiet]
//
// A checkpoint that is there is gone on from; it is written at the end, and
// every N steps. --export writes the data and the first parameters, and trains
// nothing: what a program in another framework begins with (compare.py).
#define _POSIX_C_SOURCE 200809L
#include "trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_PARAMETERS = 64, MAX_INPUTS = TRAIN_MAX_DATA + 1 + MAX_PARAMETERS, MAX_STATE = 1 + 2 * MAX_PARAMETERS };
enum { MAX_SAVED = MAX_PARAMETERS + MAX_STATE + 1, NAME = 64 };

typedef struct train_options {
  const char *file, *backend, *threads, *checkpoint, *losses, *export;
  int64_t steps, every;
  int quiet;
} train_options;

typedef struct training {
  const train_program *program;
  const train_options *options;
  tc_context *context;
  tc_tensor *in[MAX_INPUTS]; // data, the batch's numbers, parameters
  int32_t n_in;
  int64_t n_examples, step;
  tc_optimizer *optimizer;
  tc_function *function;
} training;

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, tc_last_error());
  return 1;
}

// ---- numbers (Steele, Lea and Flood 2014: splitmix64) ----
static uint64_t mixed(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
double train_random(uint64_t *state) {
  *state += 0x9e3779b97f4a7c15u;
  return (double)(mixed(*state) >> 11) / (double)(1ull << 52) - 1;
}

// ---- ops ----
tc_tensor *train_add(tc_tensor *x, tc_tensor *y) { return tc_aten_add_Tensor(x, y, tc_scalar_int(1)); }
tc_tensor *train_layer_norm(tc_tensor *x, int64_t size, tc_tensor *weight, tc_tensor *bias) {
  return tc_aten_layer_norm(x, &size, 1, weight, bias, 1e-5, 0);
}

// ---- what is trained ----
static tc_tensor **parameters_of(training *t) { return t->in + t->program->n_data + 1; }

static int make_inputs(training *t) {
  const train_program *p = t->program;
  uint64_t state = 1;
  t->n_examples = p->make_data(t->context, t->options->file, t->in);
  if (t->n_examples < 1) return tc_last_code() == TC_STATUS_OK ? 1 : failed("the data");
  t->in[p->n_data] = tc_new_tensor(t->context, TC_I64, 1, &p->batch);
  for (int32_t i = 0; i < p->n_parameters; i++) {
    const train_parameter *q = &p->parameters[i];
    tc_tensor *x = tc_new_tensor(t->context, TC_F32, q->rank, q->sizes);
    float *at = tc_data_of(x);
    for (int64_t k = 0; at && k < tc_numel_of(x); k++) at[k] = (float)(q->mean + q->range * train_random(&state));
    parameters_of(t)[i] = x;
  }
  t->n_in = p->n_data + 1 + p->n_parameters;
  return tc_last_code() == TC_STATUS_OK ? 0 : failed("the parameters");
}

static void choose_batch(training *t) {
  const train_program *p = t->program;
  int64_t *at = tc_data_of(t->in[p->n_data]);
  for (int64_t i = 0; at && i < p->batch; i++)
    at[i] = (int64_t)(mixed((uint64_t)(t->step * p->batch + i + 1) * 0x9e3779b97f4a7c15u) % (uint64_t)t->n_examples);
}

// All of a step.
static int32_t step(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  const training *t = self;
  const train_program *p = t->program;
  tc_tensor *gradients[MAX_PARAMETERS];
  if (p->loss(NULL, in, n_in, out, n_out) != TC_STATUS_OK) return tc_last_code();
  if (tc_grad(1, out, NULL, p->n_parameters, in + p->n_data + 1, 0, gradients) != TC_STATUS_OK) return tc_last_code();
  return tc_optimizer_step(t->optimizer, gradients);
}

// ---- checkpoints ----
// Parameters by their names, then the optimizer's state, then the number of
// steps done.
static int with_checkpoint(training *t, int save) {
  static char names[MAX_SAVED][NAME];
  const char *list[MAX_SAVED];
  tc_tensor *tensors[MAX_SAVED];
  int32_t n = t->program->n_parameters, n_state;
  tc_scope *scope = tc_scope_open();
  for (int32_t i = 0; i < n; i++) {
    snprintf(names[i], NAME, "%s", t->program->parameters[i].name);
    tensors[i] = parameters_of(t)[i];
  }
  tc_optimizer_state(t->optimizer, MAX_STATE, tensors + n, &n_state);
  for (int32_t i = 0; i < n_state; i++) snprintf(names[n + i], NAME, "optimizer.%d", i);
  n += n_state;
  tensors[n] = tc_tensor_from(t->context, TC_I64, 0, NULL, &t->step);
  snprintf(names[n++], NAME, "step");
  for (int32_t i = 0; i < n; i++) list[i] = names[i];
  const char *path = t->options->checkpoint;
  int32_t code = save ? tc_save_tensors(path, n, list, tensors) : tc_load_tensors(path, n, list, tensors);
  if (code == TC_STATUS_OK && !save) tc_item_i64(tensors[n - 1], &t->step);
  tc_scope_close(scope);
  return code == TC_STATUS_OK ? 0 : failed(path);
}

static int export_start(training *t) {
  const char *names[MAX_INPUTS];
  int32_t n = t->program->n_data;
  for (int32_t i = 0; i < n; i++) names[i] = t->program->data_names[i];
  for (int32_t i = 0; i < t->program->n_parameters; i++) names[n + i] = t->program->parameters[i].name;
  for (int32_t i = n; i + 1 < t->n_in; i++) t->in[i] = t->in[i + 1]; // the numbers of a batch are no part of it
  if (tc_save_tensors(t->options->export, t->n_in - 1, names, t->in) != TC_STATUS_OK) return failed("--export");
  return 0;
}

// ---- what is shown ----
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// A bar that is drawn over itself on a terminal, else a line for each tenth.
static void show(const train_options *o, int64_t done, double loss, double rate, double *shown) {
  enum { WIDTH = 30 };
  int terminal = isatty(2), last = done == o->steps;
  if (o->quiet || (terminal ? !last && now() - *shown < 0.1 : !last && done % (o->steps / 10 + 1) != 0)) return;
  char bar[WIDTH + 1] = {0};
  for (int i = 0; i < WIDTH; i++) bar[i] = i * o->steps < done * WIDTH ? '#' : '.';
  fprintf(stderr, "%s[%s] %lld/%lld  loss %.4f  %.0f steps/s%s", terminal ? "\r" : "", bar, (long long)done,
          (long long)o->steps, loss, rate, terminal && !last ? "" : "\n");
  *shown = now();
}

// ---- the loop ----
static int run(training *t, FILE *losses) {
  const train_options *o = t->options;
  double first = 0, value = 0, start = 0, shown = 0;
  int64_t from = t->step;
  while (t->step < o->steps) {
    tc_tensor *out;
    tc_scope *scope = tc_scope_open();
    choose_batch(t);
    if (tc_call(t->function, t->in, &out) != TC_STATUS_OK) return failed("a step");
    tc_item_f64(out, &value, NULL);
    tc_scope_close(scope);
    if (!isfinite(value)) return fprintf(stderr, "the loss is no finite number at step %lld\n", (long long)t->step), 1;
    if (losses) fprintf(losses, "%lld,%.9g\n", (long long)t->step, value);
    if (t->step++ == from) first = value, start = now(); // what the first step compiles is not timed
    int64_t timed = t->step - from - 1;
    show(o, t->step, value, timed ? (double)timed / (now() - start) : 0, &shown);
    if (o->checkpoint && o->every && t->step % o->every == 0 && with_checkpoint(t, 1)) return 1;
  }
  int64_t timed = t->step - from - 1;
  printf("%s: steps %lld to %lld, loss %.5f to %.5f, %.1f steps/s\n", t->program->name, (long long)from,
         (long long)t->step, first, value, timed > 0 ? (double)timed / (now() - start) : 0);
  return o->checkpoint ? with_checkpoint(t, 1) : 0;
}

static int train(training *t) {
  const train_program *p = t->program;
  const train_options *o = t->options;
  tc_optimizer_options q = p->optimizer;
  q.struct_size = sizeof q;
  if (make_inputs(t)) return 1;
  if (o->export) return export_start(t);
  if (tc_optimizer_create(t->context, &q, p->n_parameters, parameters_of(t), &t->optimizer) != TC_STATUS_OK)
    return failed("the optimizer");
  if (o->checkpoint && access(o->checkpoint, F_OK) == 0 && with_checkpoint(t, 0)) return 1;
  tc_compile_options how = {.struct_size = sizeof how, .name = p->name, .n_inputs = t->n_in, .n_outputs = 1};
  if (tc_compile(t->context, step, t, &how, &t->function) != TC_STATUS_OK) return failed("tc_compile");
  FILE *losses = o->losses ? fopen(o->losses, t->step ? "a" : "w") : NULL;
  if (o->losses && !losses) return perror(o->losses), 1;
  int code = run(t, losses);
  if (losses && fclose(losses) != 0) return perror(o->losses), 1;
  return code;
}

// ---- the command line ----
static const char *value_of(const char *arg, const char *name) {
  size_t n = strlen(name);
  return strncmp(arg, name, n) == 0 ? arg + n : NULL;
}

static int read_options(int argc, char **argv, train_options *o) {
  for (int i = 1; i < argc; i++) {
    const char *v;
    if ((v = value_of(argv[i], "--steps="))) o->steps = strtoll(v, NULL, 10);
    else if ((v = value_of(argv[i], "--every="))) o->every = strtoll(v, NULL, 10);
    else if ((v = value_of(argv[i], "--backend="))) o->backend = v;
    else if ((v = value_of(argv[i], "--threads="))) o->threads = v;
    else if ((v = value_of(argv[i], "--checkpoint="))) o->checkpoint = v;
    else if ((v = value_of(argv[i], "--losses="))) o->losses = v;
    else if ((v = value_of(argv[i], "--export="))) o->export = v;
    else if (strcmp(argv[i], "--quiet") == 0) o->quiet = 1;
    else if (argv[i][0] != '-') o->file = argv[i];
    else return fprintf(stderr, "there is no option %s\n", argv[i]), 1;
  }
  return o->steps > 0 ? 0 : (fprintf(stderr, "--steps is a number above 0\n"), 1);
}

int train_main(const train_program *p, int argc, char **argv) {
  train_options o = {.backend = "cpu", .steps = p->steps};
  char backend[NAME], threads[NAME];
  if (read_options(argc, argv, &o)) return 2;
  snprintf(backend, sizeof backend, "backend=%s", o.backend);
  snprintf(threads, sizeof threads, "threads=%s", o.threads ? o.threads : "");
  training t = {.program = p, .options = &o};
  if (tc_open((const char *const[]){backend, threads}, o.threads ? 2 : 1, &t.context) != TC_STATUS_OK)
    return failed("tc_open");
  tc_scope *scope = tc_scope_open();
  int code = train(&t);
  tc_function_destroy(t.function);
  tc_optimizer_destroy(t.optimizer);
  tc_scope_close(scope);
  tc_close(t.context);
  return code;
}
