// PyTorch .pt2 archives: what `torch.export.save` writes, read without Python.
//
// An archive holds one or more exported programs (usually one, named "model"; several methods are common) with their
// weights. Each is imported into a module of its own, because symbols (s0, u0) and names of constants of two programs
// are unrelated although they may be spelt alike.
//
// Supported: schema major 8 (minors of torch 2.5 to 2.15; unknown members are skipped, unknown union tags are errors
// where they are used), the training, functional and core dialects, raw payloads (torch ≥ 2.9), torch.save payloads
// (torch ≤ 2.8) and the flat layout of torch ≤ 2.7.
//
// Fail closed: whatever is not understood is an error with its place, such as
// `graph.nodes[12].inputs[3].arg.as_foo`. Inputs are untrusted.
//
// Integers of the program (sizes, `_operator.*`, `torch.sym_*`, `aten.sym_size`) become symbolic expressions and never
// nodes. Conditions that inputs must meet (range constraints, guards, runtime asserts) are in tc_module.requires_; an
// assert about a number that comes from data stays a node. A lower bound of exactly 2 is what export records for "not
// specialised on 0 and 1"; PyTorch accepts 1 there and so do we: the range then starts at 1.
//
// Sub-graphs: cond, while_loop, scan and map stay nodes with graph arguments (integers among their operands are
// substituted into the regions). Regions that only change the grad mode, and shared regions (invoke_subgraph), are
// inlined; results that leave a no_grad region pass through aten::detach. with_effects is replaced by the op it wraps;
// tokens keep their places as inputs and outputs and are passed through.
#ifndef TC_CORE_FRONTENDS_PT2_PT2_H_
#define TC_CORE_FRONTENDS_PT2_PT2_H_

#include "core/ir/op.h"
#include "core/tensor/files.h"

typedef struct tc_pt2 tc_pt2;

typedef struct tc_pt2_options {
  const tc_allocator *allocator; // NULL: the system's; must outlive everything loaded
  bool check_meta;               // compare the type of every result with the archive's: tc_program.disagreements
  bool verify_weights;           // compare checksums of the weights (reads them whole)
} tc_pt2_options;

enum { TC_DIALECT_TRAINING, TC_DIALECT_FUNCTIONAL, TC_DIALECT_CORE };
const char *tc_dialect_name(int32_t dialect);

// A result whose type, as our meta function computes it, is not the archive's. Bits of `what`.
enum { TC_PT2_DTYPE = 1, TC_PT2_SIZES = 2, TC_PT2_STRIDES = 4, TC_PT2_OFFSET = 8 };
typedef struct tc_pt2_disagreement {
  int32_t what;
  bool harmless;       // only strides of dimensions of size 1, or of an empty tensor, differ
  tc_sv op;            // "aten::add.Tensor"
  tc_sv value, source; // name of the result; the model's source line
  tc_sv archive, meta; // both types as text
} tc_pt2_disagreement;

// One leaf of the user's inputs or outputs, in order.
typedef struct tc_program_leaf {
  tc_sv name;    // "x", "cache[0].key"; outputs: "0", "logits", "past[1][0]"; a single output is ""
  int32_t index; // in graph->inputs or graph->outputs
} tc_program_leaf;

// Everything lies in the module's arena.
typedef struct tc_program {
  tc_sv name;        // in the archive: "model"
  tc_module *module; // owned
  tc_graph *graph;   // its one entry point, called "forward" where the archive says "model", else as the program
  int32_t schema_major, schema_minor;
  tc_sv torch_version;       // "2.15.0+cu132"
  int32_t dialect;           // TC_DIALECT_*
  const tc_pytree *in_tree;  // a tuple: positional arguments (tuple), keyword arguments (dict); NULL if not recorded
  const tc_pytree *out_tree; // NULL if not recorded
  TC_VEC(tc_program_leaf) inputs;
  TC_VEC(tc_program_leaf) outputs;
  TC_VEC(tc_sv) warnings; // preconditions that could not be understood and are therefore not checked
  TC_VEC(tc_pt2_disagreement) disagreements;
} tc_program;

// Opens an archive: reads its directory only. `ops` must outlive the programs. A tc_pt2 is for one thread at a time.
TC_NODISCARD tc_status tc_pt2_open(const char *path, const tc_op_registry *ops, const tc_pt2_options *options,
                                   tc_pt2 **out);
// The same over memory (a reference is taken).
TC_NODISCARD tc_status tc_pt2_open_storage(tc_storage *bytes, const tc_op_registry *ops, const tc_pt2_options *options,
                                           tc_pt2 **out);
void tc_pt2_close(tc_pt2 *p); // programs loaded from it stay valid; NULL is ignored

int32_t tc_pt2_count(const tc_pt2 *p); // programs, in the archive's order; at least 1
tc_sv tc_pt2_name(const tc_pt2 *p, int32_t i);
int32_t tc_pt2_find(const tc_pt2 *p, tc_sv name); // -1 if absent

// Imports program `i`; weights are views of the mapped file (READ-ONLY memory: copy what is written).
// All targets without an op are collected into one UNIMPLEMENTED error.
TC_NODISCARD tc_status tc_pt2_load(tc_pt2 *p, int32_t i, tc_program **out);
void tc_program_destroy(tc_program *program); // NULL is ignored

// The example inputs that a program loaded from `p` was exported with: one tensor per leaf that is a tensor, under the
// leaf's name. NOT_FOUND if the archive has none. Strings are in the module's arena; free the list.
TC_NODISCARD tc_status tc_pt2_sample_inputs(tc_pt2 *p, tc_program *program, tc_tensor_list *out);

#endif
