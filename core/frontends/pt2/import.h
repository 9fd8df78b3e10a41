// Inside of the pt2 frontend: the state of one import and the functions its files share.
//
//   archive.c  members of the zip, programs, layouts          where.c   places in the JSON, for errors
//   program.c  one program from start to end                  types.c   dtypes, tensor types
//   symbols.c  symbolic integers, aliases, ranges             args.c    Argument unions → tc_arg
//   node.c     nodes and their results                        asserts.c conditions, sym_* queries
//   numbers.c  functions on numbers                           region.c  higher-order ops
//   signature.c inputs, outputs                               pytree.c  pytrees and leaf names
//   guards.c   guards_code                                    weights.c payloads → tensors
#ifndef TC_CORE_FRONTENDS_PT2_IMPORT_H_
#define TC_CORE_FRONTENDS_PT2_IMPORT_H_

#include "core/base/json.h"
#include "core/frontends/pt2/pt2.h"
#include "core/ir/opargs.h"
#include "core/ops/mixed.h"

// ---- where.c: a place in the document, linked through the stack ----
typedef struct at {
  const struct at *up; // NULL: the root, whose key names the document
  tc_sv key;           // a member; data NULL: an element
  int64_t index;
} at;
static inline at at_key(const at *up, const char *key) { return (at){up, tc_sv_of(key), 0}; }
static inline at at_name(const at *up, tc_sv key) { return (at){up, key, 0}; }
static inline at at_item(const at *up, int64_t index) { return (at){up, {NULL, 0}, index}; }
TC_NODISCARD tc_status pt2_bad(const at *where, const char *fmt, ...) TC_PRINTF(2, 3);    // DATA_LOSS
TC_NODISCARD tc_status pt2_refuse(const at *where, const char *fmt, ...) TC_PRINTF(2, 3); // UNIMPLEMENTED
TC_NODISCARD tc_status pt2_note(tc_status status, const at *where);                       // "  at graph.nodes[3]"
// Members that must be there; a wrong kind is an error.
TC_NODISCARD tc_status pt2_str(const at *where, tc_json object, const char *key, tc_sv *out);
TC_NODISCARD tc_status pt2_int(const at *where, tc_json object, const char *key, int64_t *out);
TC_NODISCARD tc_status pt2_array(const at *where, tc_json object, const char *key, tc_json *out);
TC_NODISCARD tc_status pt2_object(const at *where, tc_json object, const char *key, tc_json *out);
TC_NODISCARD tc_status pt2_as_str(const at *where, tc_json v, tc_sv *out);
TC_NODISCARD tc_status pt2_as_int(const at *where, tc_json v, int64_t *out);
// A union: exactly one member.
TC_NODISCARD tc_status pt2_union(const at *where, tc_json v, tc_sv *out_tag, tc_json *out_value);
// {"name": …} of TensorArgument and others.
TC_NODISCARD tc_status pt2_named(const at *where, tc_json v, tc_sv *out_name);

// ---- archive.c ----
typedef struct pt2_entry {
  tc_sv name;
  const tc_zip_entry *json;
} pt2_entry;

struct tc_pt2 {
  const tc_allocator *allocator;
  const tc_op_registry *ops;
  tc_pt2_options options;
  tc_arena *arena;
  tc_storage *bytes;
  tc_zip zip;
  tc_sv root;      // "name/" or "" (flat layout)
  bool flat;       // torch ≤ 2.7
  bool big_endian; // payloads
  TC_VEC(pt2_entry) programs;
};
// The member ROOT + printf text; NULL if absent.
const tc_zip_entry *pt2_member(tc_pt2 *p, tc_arena *scratch, const char *fmt, ...) TC_PRINTF(3, 4);
// Parses a JSON member; the document is freed with the scratch arena.
TC_NODISCARD tc_status pt2_json(tc_pt2 *p, tc_arena *scratch, const tc_zip_entry *e, tc_sv *out_text, tc_json *out);

// ---- The state of one import ----
typedef struct pt2_import {
  tc_pt2 *file;
  tc_program *program;
  tc_module *module;
  tc_sym_ctx *syms;
  tc_arena *arena, *scratch; // the module's; freed when the import ends
  tc_json root;              // ExportedProgram
  tc_map *targets;           // "torch.ops.…" → const tc_op *
  tc_map *sources;           // a stack trace → the model's own line in it, const tc_sv *
  int32_t depth;             // of sub-graphs
  // Symbols of the archive have the numbers below n_symbols. An unbacked one is bound when the node that makes it has
  // been imported: it is then an alias of what our meta function made.
  int32_t n_symbols, n_unbound;
  bool *bound;
  TC_VEC(const tc_sym *) alias_from;
  TC_VEC(const tc_sym *) alias_to;
  tc_map *texts; // srepr text → const tc_sym *, before aliases
} pt2_import;

// What a name stands for in a graph.
typedef struct pt2_name {
  tc_arg arg;      // TENSOR (a tensor or a token), INT, FLOAT, BOOL; NONE: see `why`
  const char *why; // the name exists, but cannot be used: the reason
} pt2_name;

typedef struct pt2_scope {
  struct tc_graph *graph;
  tc_map *names;                           // → pt2_name *
  tc_json json;                            // Graph
  tc_map *tensors, *ints, *bools, *floats; // of the value tables: name → place in the document
  tc_autocast_options autocast;            // of the region around; TC_DTYPE_NONE: it is off
} pt2_scope;

// ---- symbols.c ----
TC_NODISCARD tc_status pt2_symbols_begin(pt2_import *im, tc_sv text,
                                         const at *where); // finds symbols, backs them, reads ranges
TC_NODISCARD tc_status pt2_expr(pt2_import *im, const at *where, tc_sv text,
                                const tc_sym **out); // srepr, aliases applied
// A SymInt; *out_hint (may be NULL) INT64_MIN if none.
TC_NODISCARD tc_status pt2_symint(pt2_import *im, const at *where, tc_json v, const tc_sym **out, int64_t *out_hint);
void pt2_set_hint(pt2_import *im, const tc_sym *e, int64_t hint); // solves for one symbol without a hint
// `ours` is what we computed where the archive says `theirs`: binds an unbacked symbol of the archive.
const tc_sym *pt2_unify(pt2_import *im, const tc_sym *theirs, const tc_sym *ours);
TC_NODISCARD tc_status pt2_check_bound(pt2_import *im, const at *where,
                                       const tc_sym *e); // no symbol without a definition
bool pt2_uses_unbacked(pt2_import *im, const tc_sym *e);
void pt2_warn(pt2_import *im, const char *fmt, ...) TC_PRINTF(2, 3);

// ---- types.c ----
TC_NODISCARD tc_status pt2_dtype(const at *where, int64_t number, tc_dtype *out);
// TensorMeta. `hints` (may be NULL): TC_MAX_RANK entries for the sizes.
TC_NODISCARD tc_status pt2_type(pt2_import *im, const at *where, tc_json v, tc_tensor_type *out, int64_t *hints);
// Compares, and notes a disagreement.
void pt2_compare(pt2_import *im, const tc_op *op, tc_sv value, tc_sv source, const tc_tensor_type *archive,
                 const tc_tensor_type *meta);

// ---- args.c ----
TC_NODISCARD tc_status pt2_arg(pt2_import *im, pt2_scope *s, const at *where, tc_json v, tc_arg *out);
TC_NODISCARD tc_status pt2_lookup(pt2_scope *s, const at *where, tc_sv name, tc_arg *out);
TC_NODISCARD tc_status pt2_define(pt2_import *im, pt2_scope *s, const at *where, tc_sv name, tc_arg arg);
// A name whose use is an error that says why; `why` is not copied.
TC_NODISCARD tc_status pt2_define_useless(pt2_import *im, pt2_scope *s, const at *where, tc_sv name, const char *why);
// From a name's entry in sym_int_values, sym_bool_values or sym_float_values (chosen by the tag as_sym_*).
TC_NODISCARD tc_status pt2_define_number(pt2_import *im, pt2_scope *s, const at *where, tc_sv tag, tc_sv name);
// The same as single values, for operands that mix tensors and numbers; *out_list false: `v` is no list, *out_n is 1.
TC_NODISCARD tc_status pt2_arg_elements(pt2_import *im, pt2_scope *s, const at *where, tc_json v, bool *out_list,
                                        int32_t *out_n, tc_arg **out);
// The tc_arg of a literal or a name: {"as_name"} | {"as_int"} | …
TC_NODISCARD tc_status pt2_number_arg(pt2_import *im, pt2_scope *s, const at *where, tc_json v, tc_arg *out);

// ---- node.c ----
typedef struct pt2_node {
  tc_sv target, name, source;
  tc_json inputs, outputs;
} pt2_node;
TC_NODISCARD tc_status pt2_node_read(pt2_import *im, const at *where, tc_json v, pt2_node *out);
TC_NODISCARD tc_status pt2_import_node(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n);
// Arguments by name to the schema's places, inputs from number `first` on.
TC_NODISCARD tc_status pt2_match_args(pt2_import *im, pt2_scope *s, const at *where, const tc_op *op, tc_json inputs,
                                      int32_t first, int32_t *out_n, tc_arg **out);
// Gives results the names of the outputs from number `first` on.
TC_NODISCARD tc_status pt2_name_results(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n, int32_t first,
                                        tc_node *made);
// A number that comes from data: `value` names it, `v` is the result; the archive's symbol becomes an alias of the
// result's.
TC_NODISCARD tc_status pt2_name_number(pt2_import *im, pt2_scope *s, const at *where, tc_sv tag, tc_json value,
                                       tc_value *v);
// All targets of a program to ops; collects the unknown ones into one error.
TC_NODISCARD tc_status pt2_resolve_targets(pt2_import *im, const at *where, tc_json graph);
bool pt2_is_number_target(tc_sv target); // _operator.*, torch.sym_*, math.*: a function on numbers

// ---- numbers.c ----
TC_NODISCARD tc_status pt2_import_number_node(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n);

// ---- asserts.c ----
// Handles sym_* queries and asserts that are no nodes; *out_done false if the target is none of them.
TC_NODISCARD tc_status pt2_import_special(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n,
                                          bool *out_done);
bool pt2_is_special(tc_sv target);
TC_NODISCARD tc_status pt2_condition(pt2_import *im, pt2_scope *s, const at *where, const tc_sym *condition,
                                     tc_sv message, tc_sv source);

// ---- region.c ----
bool pt2_is_inlined(tc_sv target); // needs no op of its own
TC_NODISCARD tc_status pt2_import_higher_order(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n);

// ---- signature.c ----
// `outer` (NULL: the program's own graph): the scope around, whose autocast goes on.
void pt2_scope_open(pt2_import *im, pt2_scope *s, const pt2_scope *outer, struct tc_graph *graph, tc_json json);
TC_NODISCARD tc_status pt2_import_inputs(pt2_import *im, pt2_scope *s, const at *where, tc_json signature);
TC_NODISCARD tc_status pt2_import_nodes(pt2_import *im, pt2_scope *s, const at *where);
TC_NODISCARD tc_status pt2_import_outputs(pt2_import *im, pt2_scope *s, const at *where, tc_json signature);
// The type of a name in tensor_values.
TC_NODISCARD tc_status pt2_value_type(pt2_import *im, pt2_scope *s, const at *where, tc_sv name, tc_tensor_type *out,
                                      int64_t *hints);

// ---- pytree.c ----
// Reads in_spec and out_spec of the root module's signature; names of leaves in *out_inputs, *out_outputs.
typedef struct pt2_leaves {
  tc_sv *names;
  int32_t n;
} pt2_leaves;
TC_NODISCARD tc_status pt2_import_trees(pt2_import *im, const at *where, tc_json graph_module, pt2_leaves *out_inputs,
                                        pt2_leaves *out_outputs);

// ---- guards.c ----
TC_NODISCARD tc_status pt2_import_guards(pt2_import *im);

// ---- weights.c ----
TC_NODISCARD tc_status pt2_import_weights(pt2_import *im);

#endif
