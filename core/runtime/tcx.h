// Ahead-of-time artifacts, `.tcx` files: programs compiled for a device, with their tensors, which are loaded without
// passes, code generator or frontends (docs/formats.md has the layout).
//
// A file is an executable blob (core/plan/blob.h) with an index, the TEXT entry "tcx". It may hold several programs,
// each for several kinds of devices, and for each of these in several executables: for sizes, and for what these leave.
// Tensors are in the file or in a second one beside it, and are used where they lie: the file is mapped. Everything is
// checked against hashes before it is used; what is damaged, cut, of another format or for another device is refused in
// words. Hashes find damage, not malice: who loads code trusts where it is from.
#ifndef TC_CORE_RUNTIME_TCX_H_
#define TC_CORE_RUNTIME_TCX_H_

#include "core/runtime/session.h"

// The user's input of a program: its name, and the number of the graph's input that it is.
typedef struct tc_tcx_leaf {
  tc_sv name;
  int32_t index;
} tc_tcx_leaf;

// ---- writing ----
typedef struct tc_tcx_source {
  tc_sv name;
  const tc_context *context; // that it was compiled in
  const tc_session *session; // compiled to the end, all of it code (tc_session_code_of)
  int32_t n_inputs;
  const tc_tcx_leaf *inputs;
  tc_sv graph; // the program's text before any pass: for devices that its code is not for; "": none
  tc_sv sizes; // which of the text's symbols were fixed: "s0=16, s1=4"; "": none
} tc_tcx_source;
// Writes the programs to `path`, replacing it at once or not at all, and their tensors there, too, or to a file
// `weights` of the same folder (its plain name; NULL: none). Under a guard of `arena`, which holds all but the tensors'
// contents for so long. Tensors and texts that programs of one name have in common are there once. Those of one name
// and device are one program for other inputs: they have the same inputs but for their sizes, and the same tensors. One
// for the references has no plan, but a text.
TC_NODISCARD tc_status tc_tcx_write(tc_arena *arena, const char *path, const char *weights, int32_t n,
                                    const tc_tcx_source *programs);

// ---- reading ----
typedef struct tc_tcx tc_tcx;
typedef struct tc_tcx_info {
  tc_sv name, backend, plugin_version, target, device, mode; // device: the name of the one that it was compiled on
  tc_sv takes, sizes; // what its inputs are, in words; the sizes that it was compiled for, "": as its text
  bool has_graph, has_plan;
} tc_tcx_info;
// Reads the index; contents are checked when they are used. DATA_LOSS: damaged; INVALID_ARGUMENT: no such file, or of
// another version. Thread-safe from then on.
TC_NODISCARD tc_status tc_tcx_open(const tc_allocator *a, const char *path, tc_tcx **out);
// The same over memory, aligned to 64 bytes (a reference is taken); tensors beside it are looked for in `folder`.
TC_NODISCARD tc_status tc_tcx_open_storage(const tc_allocator *a, tc_storage *bytes, tc_sv folder, tc_tcx **out);
void tc_tcx_close(tc_tcx *x); // programs loaded from it stay valid; NULL is ignored
int32_t tc_tcx_count(const tc_tcx *x);
const tc_tcx_info *tc_tcx_at(const tc_tcx *x, int32_t i);
// The program of that name ("": the first) for that kind of device ("": the first), of several executables the first
// that leaves sizes open, if one does; -1 if there is none.
int32_t tc_tcx_find(const tc_tcx *x, tc_sv name, tc_sv backend);
// The next executable of the program that i is one of, behind `after` (-1: from the start) and other than i; -1: none.
int32_t tc_tcx_other(const tc_tcx *x, int32_t i, int32_t after);
// What is in the file, in lines: name, kind of device, what it takes.
void tc_tcx_list(const tc_tcx *x, tc_sb *sb);
// May the context's device run it? An error in words if not: another kind of device, another version of its plugin or
// of the plugin interface. Its
// code says itself which features it needs, when a session loads it (tc_tcx_refused makes that an error in words, too).
TC_NODISCARD tc_status tc_tcx_check(const tc_tcx *x, int32_t i, const tc_context *c);
tc_status tc_tcx_refused(const tc_tcx *x, int32_t i, const tc_context *c, tc_status s);

// A program before any pass. `whole`: there is an executable of it that leaves open whatever it leaves open.
typedef struct tc_tcx_text {
  tc_sv graph, entry;
  bool whole;
} tc_tcx_text;

typedef struct tc_tcx_program {
  tc_module *module; // owned, with the tensors
  tc_image image;    // of the module: plans with their code. Empty: not wanted, or there is none
  tc_sv graph;       // the text before any pass, or ""; of the module
  int32_t n_texts;   // the texts of all its executables, each once, its own first
  const tc_tcx_text *texts;
  int32_t n_inputs;
  const tc_tcx_leaf *inputs;
} tc_tcx_program;
// Reads program i: plan with code, tensors, or both. Sessions are made of its image (tc_session_create_image).
enum { TC_TCX_PLAN = 1, TC_TCX_TENSORS = 2 };
TC_NODISCARD tc_status tc_tcx_load(const tc_tcx *x, int32_t i, int32_t parts, tc_tcx_program *out);
// The images of its other executables, which run with the tensors of i: (*out)[*out_n], in the file's order, to be
// unloaded and freed with tc_tcx_unload_all.
TC_NODISCARD tc_status tc_tcx_load_others(const tc_tcx *x, int32_t i, tc_tcx_program **out, int32_t *out_n);
void tc_tcx_unload(tc_tcx_program *p);
void tc_tcx_unload_all(const tc_allocator *a, tc_tcx_program *p, int32_t n);
// Its own text; those of its other executables (wanted where the code of none is for this device); those for which no
// executable leaves open what they do.
enum { TC_TCX_OWN_TEXT, TC_TCX_OTHER_TEXTS, TC_TCX_OPEN_TEXTS };
bool tc_tcx_text_is(const tc_tcx_program *p, int32_t text, int32_t which);
bool tc_tcx_has_text(const tc_tcx_program *p, int32_t which); // one of that kind
// Compiles these texts for the context, with the program's tensors (tcx_compile.c: this needs the whole compiler).
// *out_module is the sessions'; both are NULL where there is no such text.
TC_NODISCARD tc_status tc_tcx_compile(tc_context *c, const tc_tcx_program *p, int32_t which, tc_module **out_module,
                                      tc_session **out);

#endif
