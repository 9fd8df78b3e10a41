// A session: a graph made ready to run on the context's backend, whatever is in it.
//
// The graph passes of the mode come first. If all that is left can be compiled, the session is one executable. Else it
// is cut into steps: segments that are compiled, single nodes that no backend of the choice can do and that the
// reference does (option `fallback`; an error under `strict`), and control flow (cond, while_loop, scan, map), whose
// regions are sessions of their own and which the host drives. Backend `ref` runs everything on the references.
//
// In modes that do one op at a time (option eager.by_op) a source that allows it is a step per op, which the context's
// cache of single ops compiles when it runs (core/runtime/eager.h) and keeps for other sizes and programs; where the
// device has memory of its own, or a folder of the compilation is wanted, the ops are launches of one plan instead.
//
// Sizes that depend on data are ordinary: a segment that needs them starts behind the step that knows them.
// The graph, its module and the context must outlive the session. Running is thread-safe; a session that has reference
// steps runs them one at a time.
#ifndef TC_CORE_RUNTIME_SESSION_H_
#define TC_CORE_RUNTIME_SESSION_H_

#include "core/runtime/source.h"

typedef struct tc_session_stats {
  tc_compile_stats compile;
  int32_t segments;  // compiled
  int32_t fallbacks; // nodes left to the references
  int32_t controls;  // control-flow nodes
  int32_t delegated; // parts left to delegates
  double ms[TC_STAGE_COUNT];
} tc_session_stats;

// Compiles up to `last` (TC_STAGE_EXEC to run). One thread per module.
TC_NODISCARD tc_status tc_session_create(tc_context *c, tc_graph *g, int32_t last, tc_session **out);
// The same for a program that was read from text. One of a later stage than the graph needs a backend with a device,
// and is run as it stands: the mode says no more than what is left to do.
TC_NODISCARD tc_status tc_session_create_from(tc_context *c, const tc_source *source, int32_t last, tc_session **out);
// Of plans that have their code, or their kernels: as one executable, or, with steps, cut into segments. Everything is
// of one module.
TC_NODISCARD tc_status tc_session_create_image(tc_context *c, const tc_image *x, tc_session **out);
void tc_session_destroy(tc_session *s); // with those that were added; NULL is ignored
// The program's graph as it is run: behind the passes, or a signature.
const tc_graph *tc_session_graph(const tc_session *s);

// ---- One program, several executables (session_others.c) ----
// `other` is the same program for other inputs, whose state stays unused: a run takes the first of those that were
// added, in their order, whose guards the inputs meet, else `s` itself, all with the state of `s`. It is owned by `s`
// from then on, whatever comes back. INVALID_ARGUMENT: it has other inputs or outputs. Thread-safe, also with runs.
TC_NODISCARD tc_status tc_session_add(tc_session *s, tc_session *other);
TC_NODISCARD tc_status tc_session_add_images(tc_session *s, int32_t n, const tc_image *images);
// Are these graphs of sessions one program for other inputs? INVALID_ARGUMENT in words if not.
TC_NODISCARD tc_status tc_session_check_alike(const tc_graph *a, const tc_graph *b);
void tc_session_set_more(tc_session *s, const tc_session_more *more); // before the first run
// What the session takes, in a line: "x f32[s0, 8], n 3 [s0 in [1, 64]]".
void tc_session_print_inputs(tc_sb *sb, const tc_graph *g);
// The plan of a session that is one executable, else NULL.
const tc_plan *tc_session_plan(const tc_session *s);
// What an image of it consists of: its plans, by the numbers that the steps have them under; `steps` NULL: it is one
// executable. Borrowed, and in `arena`. UNIMPLEMENTED in words: it is not all code.
typedef struct tc_session_code {
  const tc_graph *steps;
  TC_VEC(const tc_plan *) plans;
} tc_session_code;
TC_NODISCARD tc_status tc_session_code_of(const tc_session *s, tc_arena *arena, tc_session_code *out);
TC_NODISCARD tc_status tc_image_declare(tc_op_registry *ops); // the ops of steps, for reading them
TC_NODISCARD tc_status tc_image_verify(const tc_image *x);    // DATA_LOSS: the steps do not fit the plans
const tc_session_stats *tc_session_stats_of(const tc_session *s);
// The folder that the compilation left (core/runtime/debug.h), or NULL.
const char *tc_session_debug_folder(const tc_session *s);
// Launches and calls of all segments, regions not counted; the most that one of several executables has.
int32_t tc_session_op_count(const tc_session *s);
// The text of a stage: every segment's in order, behind what the references do.
TC_NODISCARD tc_status tc_session_text(const tc_session *s, int32_t stage, tc_sb *sb);
// What a run requires of its inputs, a line each: dtype, sizes, strides, then the conditions on the symbols in them.
void tc_session_guards(const tc_session *s, tc_sb *sb);
// Segments, for explain.
int32_t tc_session_segment_count(const tc_session *s);
const tc_compiled *tc_session_segment(const tc_session *s, int32_t i);
// Why the i-th fallback is one: "aten::foo (%x): reason". NULL behind the last.
const char *tc_session_fallback(const tc_session *s, int32_t i);

// Sees every compiled segment of a run: `begin` with what goes in, then `watch.after` behind each operation of its plan
// with `self`. Regions that the session runs itself are not seen.
typedef struct tc_session_watch {
  TC_NODISCARD tc_status (*begin)(void *self, int32_t segment, const tc_tensor *inputs);
  tc_exec_watch exec;
} tc_session_watch;

typedef struct tc_session_run_options {
  bool write_back;     // mutated state and inputs are stored: state in the session, inputs in the tensors given
  bool device_outputs; // leave outputs on the device
  uint64_t seed;       // of random ops
  uint64_t stream;     // added to the streams of their nodes: how many random ops ran before, with the same seed
  tc_run_report *report;
  const tc_session_watch *watch; // NULL: nobody watches
} tc_session_run_options;

// inputs[i] belongs to graph input i; one without storage is the session's state of that name (parameters, buffers,
// constants of the archive). Tensors of other strides than the program was compiled for are copied first. outputs[i]
// belongs to graph output i; release them with tc_tensor_unref. Options may be NULL. On failure no output is set.
TC_NODISCARD tc_status tc_session_run(tc_session *s, const tc_tensor *inputs, tc_tensor *outputs,
                                      const tc_session_run_options *o);

// The values of the symbols for these inputs, by symbol number; INT64_MIN where they do not tell.
int32_t tc_session_symbol_count(const tc_session *s);
void tc_session_symbols(tc_session *s, const tc_tensor *inputs, int64_t *out);
// x for these values; false if it uses a symbol that is not known.
bool tc_session_eval(const tc_session *s, const tc_sym *x, const int64_t *symbols, int64_t *out);

// The state by name (fully qualified): borrowed until the next run with write_back. NULL if there is none.
const tc_tensor *tc_session_state(const tc_session *s, tc_sv name);
void tc_session_reset(tc_session *s); // back to the archive's values

#endif
