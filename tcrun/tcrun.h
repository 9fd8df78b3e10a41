// What the commands of tcrun share: the parsed command line, the context, loaded models, inputs, comparison of results.
#ifndef TC_TCRUN_TCRUN_H_
#define TC_TCRUN_TCRUN_H_

#include "core/base/json.h"
#include "core/frontends/pt2/pt2.h"
#include "core/runtime/session.h"
#include "core/runtime/tcx.h"
#include "tcrun/progress.h"

// Exit codes.
enum { EXIT_OK = 0, EXIT_WRONG = 1, EXIT_BAD_USE = 2, EXIT_DEVICE = 3 };

typedef TC_VEC(tc_sv) option_list;
typedef struct run_options {
  tc_arena *arena;
  tc_config *config;
  TC_VEC(tc_sv) args; // what is no option: models, patterns
  int argc;           // the command line, to be read again
  char **argv;
  tc_sv gradients; // dump: which graph of the gradients, "": the joint one
  tc_sv inputs, output, expect, stage, method, filter, report, skip_list, weights, plugin;
  option_list named_inputs; // NAME=FILE.npy
  option_list backends;     // each --backend, the last of which is in force
  option_list sizes;        // compile: each --sizes
  bool random, json, quiet, help, wall, unchecked, grad, compile_only, flops, round_trip, beside, markdown, gradcheck,
      tape;
  uint64_t seed;
  int64_t runs, replays;
  int64_t limit;     // check, conform: seconds that a case may take
  double rtol, atol; // < 0: not given
  bool by_norms;     // results are held to the references by their norms, unless rtol or atol is given
  int32_t jobs;
  tcrun_progress *progress; // NULL: nobody watches
} run_options;

// Reads the command line after the command's name.
TC_NODISCARD tc_status tcrun_parse(tc_arena *arena, int argc, char **argv, run_options *out);
// Opens the context and its backend from the options (twice is an error: the context takes the configuration).
TC_NODISCARD tc_status tcrun_open(run_options *o, tc_context **out);
// A context of the references, silent, with no cache, and with the plugins that the command line names.
TC_NODISCARD tc_status tcrun_open_ref(const run_options *o, tc_context **out);

// ---- Models (model.c) ----
// A model: one program of an archive or of an artifact, or a .tc file of any stage.
typedef struct model {
  tc_sv path, file, name; // file: without folder and ".pt2"; name: also without the dialect
  tc_module *module;      // owned through `program` or by itself
  tc_graph *graph;
  tc_source source; // what sessions are made from; its graph is `graph`
  tc_pt2 *archive;
  tc_program *program;    // of a .pt2
  tc_tcx_program packed;  // of a .tcx: owns the module, unless the program was compiled again from its text
  tc_tcx_program *others; // the same program's other executables
  int32_t n_others;
  tc_program *weights;       // .tc: the program of `archive` whose tensors it uses, or NULL
  tc_tensor_type *out_types; // by graph output, as the program promises them (passes may change the graph)
  tc_sv *out_names;          // names of the values behind them
  int32_t n_out_types;       // the passes may put more in front
  int32_t n_in;              // user inputs (leaves)
  int32_t *in;               // leaf → graph input
} model;
TC_NODISCARD tc_status tcrun_load(tc_context *c, run_options *o, const char *path, model *out);
// The user's input `leaf` by the name that the model gives it.
tc_sv tcrun_input_name(const model *m, int32_t leaf);
// What a .tcx file holds for the context's device, compiled again from the text in it where its code is for another one
// (artifact.c).
TC_NODISCARD tc_status tcrun_load_artifact(tc_context *c, run_options *o, model *m);
// The backend of the first program of a .tcx file among the arguments, for `auto`; "" if there is none.
TC_NODISCARD tc_status tcrun_artifact_backend(const run_options *o, tc_sv *out);
// Program i of an opened archive; `m` keeps the archive, which it owns.
TC_NODISCARD tc_status tcrun_load_program(tc_context *c, run_options *o, const char *path, tc_pt2 *archive, int32_t i,
                                          model *m);
void tcrun_unload(model *m);
// Reads a text into a model of its own: `m` gets its module, graph and source. `name` is for messages.
TC_NODISCARD tc_status tcrun_read_text(tc_context *c, tc_sv name, tc_sv text, model *m);
// The same with sizes fixed: names[i] stands for values[i].
typedef struct fixed_sizes {
  int32_t n;
  tc_sv *names;
  int64_t *values;
} fixed_sizes;
TC_NODISCARD tc_status tcrun_read_fixed(tc_context *c, tc_sv name, tc_sv text, const fixed_sizes *sizes, model *m);
// Notes what the graph promises, before any pass, and which of its inputs are the user's.
TC_NODISCARD tc_status tcrun_note_promises(model *m);
// Gives the inputs of `m` that stand for tensors those that `from` has under their names.
TC_NODISCARD tc_status tcrun_bind(model *m, const tc_module *from);
// Graph output number of user output `leaf` after the session's passes, or -1.
int32_t tcrun_output_of(const model *m, int32_t leaf);
int32_t tcrun_user_outputs(const model *m);
// "attention.dyn.pt2" → file "attention.dyn", name "attention".
void tcrun_split_name(tc_sv base, tc_sv *out_file, tc_sv *out_name, tc_sv *out_dialect);

// ---- Inputs (inputs.c) ----
// Tensors for every user input, from files, samples or random numbers; `out` has one entry per graph input (state stays
// empty: the session has it). Release with tcrun_free_tensors. *out_note, if not NULL: where they are from.
TC_NODISCARD tc_status tcrun_inputs(tc_context *c, const run_options *o, model *m, tc_tensor **out,
                                    const char **out_note);
void tcrun_free_tensors(tc_tensor *t, int32_t n);

// An index.jsonl: lines by name, file, or file and method.
typedef struct line_index {
  tc_map *lines; // "NAME" or "FILE/METHOD" → tc_json *
} line_index;
// *out is NULL if the folder has none. Documents live as long as the arena.
TC_NODISCARD tc_status tcrun_index_read(tc_arena *arena, tc_sv folder, line_index **out);
tc_json tcrun_index_find(const line_index *x, tc_sv key); // absent if there is none; `x` may be NULL

// ---- Comparison (compare.c) ----
typedef struct tolerance {
  double rtol, atol;
  bool either;             // where the reference and the stored output disagree, either will do
  bool scaled;             // by the norm: see compare.c
  const tc_tensor *spread; // what rounding the operands changes (core/ir/spread.h), or NULL; see compare.c
} tolerance;
typedef struct difference {
  double max_abs, rel_l2; // against the reference if there is one
  int64_t count;          // elements beyond the tolerance
} difference;
// Compares `got` with `want` (stored or by another backend) and, if given, with `ref` (wider). Same sizes and dtype
// (`ref`: same sizes). MISMATCH says how much and where. `out` is set in any case.
TC_NODISCARD tc_status tcrun_compare(const tc_allocator *a, const tc_tensor *got, const tc_tensor *want,
                                     const tc_tensor *ref, const tolerance *t, difference *out);
tolerance tcrun_default_tolerance(tc_dtype d);               // between backends
tolerance tcrun_tolerance(const run_options *o, tc_dtype d); // the same, but for what the options say
// Can the references run the model? A text behind the graph stages says only what goes in and out.
bool tcrun_has_graph(const model *m);
// Runs the model on the references with these inputs (one per graph input) and compares. `outputs` by user output.
TC_NODISCARD tc_status tcrun_compare_with_ref(run_options *o, const model *m, const tc_tensor *inputs,
                                              const tc_tensor *outputs, difference *out_worst);

// --flops (flops.c): the operations of the model as it was imported, by op, before any pass runs. With --json an
// object.
TC_NODISCARD tc_status tcrun_print_flops(const run_options *o, const model *m);

// What runs ops: the references, and each kind of device that plugins drive (ops_page.c). From manifests alone: nothing
// is loaded, so it is the same on machines without the devices.
typedef struct tcrun_support {
  tc_sv kind;
  const tc_plugin *plugins; // all there are; NULL: the references
  int32_t n_plugins;
} tcrun_support;
TC_NODISCARD tc_status tcrun_list_support(run_options *o, tc_plugins *plugins, tcrun_support **out, int32_t *out_n);
const char *tcrun_support_text(const tcrun_support *s, const tc_op *op); // "codegen, library"
// docs/ops.md from the declarations of all ops, those of plugins, too.
void tcrun_print_ops_page(const run_options *o, const tc_op_registry *ops, const tcrun_support *support,
                          int32_t n_support);

// Commands return a status; wrong results are MISMATCH.
tc_status cmd_run(run_options *o);
tc_status cmd_compile(run_options *o);
tc_status cmd_bench(run_options *o);
tc_status cmd_minify(run_options *o);
tc_status cmd_dump(run_options *o);
tc_status cmd_check(run_options *o);
tc_status cmd_explain(run_options *o);
tc_status cmd_backends(run_options *o);
tc_status cmd_plugins(run_options *o);
tc_status cmd_conform(run_options *o);
tc_status cmd_ops(run_options *o);
tc_status cmd_modes(run_options *o);
tc_status cmd_config(run_options *o);
tc_status cmd_cache(run_options *o);

#endif
