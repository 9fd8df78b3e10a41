// What the commands of tcrun share: the parsed command line, the context, loaded models.
#ifndef TC_TCRUN_TCRUN_H_
#define TC_TCRUN_TCRUN_H_

#include "core/frontends/pt2/pt2.h"
#include "core/runtime/compile.h"

// Exit codes.
enum { EXIT_OK = 0, EXIT_WRONG = 1, EXIT_BAD_USE = 2, EXIT_DEVICE = 3 };

typedef struct run_options {
  tc_arena *arena;
  tc_config *config;
  TC_VEC(tc_sv) args; // what is no option: models, patterns
  tc_sv inputs, output, expect, stage, method, filter, report, skip_list;
  TC_VEC(tc_sv) named_inputs; // NAME=FILE.npy
  bool random, json, quiet, help;
  uint64_t seed;
  int64_t runs;
  double rtol, atol; // < 0: not given
  int32_t jobs;
} run_options;

// Reads the command line after the command's name.
TC_NODISCARD tc_status tcrun_parse(tc_arena *arena, int argc, char **argv, run_options *out);
// Opens the context and its backend from the options.
TC_NODISCARD tc_status tcrun_open(run_options *o, tc_context **out);

// A model: one program of an archive, or a graph of a .tc file.
typedef struct model {
  tc_sv path, name;  // name: the file's without folder and ending
  tc_module *module; // owned through `program` or by itself
  tc_graph *graph;
  tc_pt2 *archive;
  tc_program *program; // NULL for .tc
} model;
TC_NODISCARD tc_status tcrun_load(tc_context *c, run_options *o, const char *path, model *out);
void tcrun_unload(model *m);

// Tensors for every graph input (weights from the module, user inputs from files, samples or random numbers).
// `out` has one entry per graph input; release with tcrun_free_tensors.
TC_NODISCARD tc_status tcrun_inputs(tc_context *c, const run_options *o, model *m, tc_tensor **out);
void tcrun_free_tensors(tc_tensor *t, int32_t n);

// Runs a compiled model or the references.
typedef struct runner {
  tc_context *context;
  model *m;
  tc_compiled compiled;
} runner;
TC_NODISCARD tc_status tcrun_prepare(tc_context *c, model *m, runner *out);
TC_NODISCARD tc_status tcrun_execute(runner *r, const tc_tensor *inputs, tc_tensor *outputs, tc_run_report *report);
void tcrun_finish(runner *r);

// Commands return a status; wrong results are MISMATCH.
tc_status cmd_run(run_options *o);
tc_status cmd_bench(run_options *o);
tc_status cmd_dump(run_options *o);
tc_status cmd_check(run_options *o);
tc_status cmd_explain(run_options *o);
tc_status cmd_backends(run_options *o);
tc_status cmd_plugins(run_options *o);
tc_status cmd_ops(run_options *o);
tc_status cmd_modes(run_options *o);
tc_status cmd_config(run_options *o);

#endif
