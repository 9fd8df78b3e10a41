// A program of an artifact, ready to run: what embedders load (tc/tc.h, tc/rt.h).
#ifndef TC_CORE_RUNTIME_ARTIFACT_H_
#define TC_CORE_RUNTIME_ARTIFACT_H_

#include "core/runtime/tcx.h"

// What compiles a program again: tc_tcx_compile, or NULL where there is no compiler.
typedef tc_status (*tc_artifact_compile)(tc_context *c, const tc_tcx_program *p, int32_t which, tc_module **out_module,
                                         tc_session **out);

typedef struct tc_artifact {
  tc_context *context;
  tc_tcx_program program; // with the tensors; image empty: it was compiled again
  tc_tcx_program *others; // the program's other executables
  int32_t n_others;
  tc_session *session; // of all
  tc_artifact_compile compile;
  tc_module *compiled, *late;          // what was compiled here: in place of its code, and in need; or NULL
  int32_t n_inputs, n_outputs;         // the user's; without inputs that were constants when the model was exported
  const tc_tcx_leaf *inputs, *outputs; // names end with a 0; numbers are those of the graph's inputs and outputs
  const tc_graph *graph;               // the signature
} tc_artifact;

// The program of that name ("": the first), in all its executables. With a compiler, one whose code is for another
// device, and sizes that none of its executables takes, are compiled again where it carries its text. A context without
// a backend gets the one that its configuration names, or, by `auto`, the first kind of device that the file has code
// for and that is there. The context must outlive it; one thread at a time per context.
TC_NODISCARD tc_status tc_artifact_open(tc_context *c, const char *path, tc_sv name, tc_artifact_compile compile,
                                        tc_artifact **out);
void tc_artifact_close(tc_artifact *a); // NULL is ignored
// inputs by the user's number; outputs, too: new tensors. What the program changes is stored if the options (NULL:
// none) say so: its state in the artifact, inputs in the tensors given. Thread-safe for programs that change nothing.
TC_NODISCARD tc_status tc_artifact_run(tc_artifact *a, const tc_tensor *inputs, tc_tensor *outputs,
                                       const tc_session_run_options *o);
bool tc_artifact_writes_inputs(const tc_artifact *a);
bool tc_artifact_changes_state(const tc_artifact *a);

#endif
