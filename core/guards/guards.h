// Guards: what must hold of a call's inputs for a compiled entry to be right.
//
// They are made from the inputs of the call that is compiled, together with the types that the graph gets: a size is a
// constant, or a symbol; equal sizes of which the same is promised share one symbol, so that a mismatch between inputs
// is a miss in words. Sizes 0 and 1 are always constants (broadcasting and emptiness change the program). Strides
// follow from the sizes where the tensor is dense in some order of its dimensions, else they are constants; strides of
// dimensions of size 1 do not matter. After the graph is built the conditions that it asked for (tc_module.requires_)
// are added, and the numbers besides tensors that it depends on: these are read again, at their addresses, in every
// check.
//
// The values of the sizes' symbols, and of no others, have a place in the array that a check fills: a compilation makes
// hundreds of loop variables in the same context. A condition on a symbol that no input binds (it comes from data) is
// the run's to check, which knows it when the data is there.
//
// Checking is a straight walk without allocation. Immutable once sealed: any thread may check.
#ifndef TC_CORE_GUARDS_GUARDS_H_
#define TC_CORE_GUARDS_GUARDS_H_

#include "core/ir/graph.h"

// How a dimension is to be taken.
typedef struct tc_guard_mark {
  bool dynamic;
  int64_t lo, hi;  // DYNAMIC: the range promised; 0, 0: none
  int64_t divisor; // DYNAMIC: divides the size; 0: nothing known
} tc_guard_mark;

typedef struct tc_guard_input {
  tc_sv name;
  tc_guard_mark marks[TC_MAX_RANK];
} tc_guard_input;

typedef struct tc_guards tc_guards;

// For these inputs (storage NULL: an absent optional). types[i] is what the graph input gets; untouched where absent.
// Everything lies in the arena of `syms`, in which symbols are made; needs an open guard.
tc_guards *tc_guards_create(tc_sym_ctx *syms, int32_t n, const tc_tensor *inputs, const tc_guard_input *how,
                            tc_tensor_type *types);
// The same step by step, for inputs that are found one after the other. tc_guards_add gives the input's number; *type
// is as above. A check may be step by step, too (tc_guards_check_input).
tc_guards *tc_guards_begin(tc_sym_ctx *syms);
int32_t tc_guards_add(tc_guards *g, const tc_tensor *input, const tc_guard_input *how, tc_tensor_type *type);
void tc_guards_keep(tc_guards *g, int32_t n); // only the first n inputs are checked from now on; the others are fixed
// Adds what the module asks for, and did not before. `origin`: who asked, in words ("an op").
void tc_guards_seal(tc_guards *g, const tc_module *m, tc_sv origin);
// A number besides the tensors that must stay what it is. The address is read in every check (atomically, relaxed).
enum { TC_FACT_INT, TC_FACT_BOOL, TC_FACT_LENGTH, TC_FACT_GIVEN };
typedef struct tc_guard_fact {
  int32_t kind;       // TC_FACT_*
  int64_t expected;   // BOOL, GIVEN: 0 or 1
  const void *at;     // INT, LENGTH: int64_t; BOOL: int32_t; GIVEN: a pointer, which is NULL or not
  tc_sv name, origin; // in words: "width", "scale.c:12"
} tc_guard_fact;
int64_t tc_guard_fact_read(int32_t kind, const void *at);
void tc_guards_add_fact(tc_guards *g, const tc_guard_fact *f); // copies the texts
int32_t tc_guards_condition_count(const tc_guards *g);
bool tc_guards_share(const tc_guards *g); // do two of the inputs lie in one storage?
// Marks the dimensions of t that differ from what input i was compiled for, or are symbols there. False if i is not of
// t's rank.
bool tc_guards_mark_changes(const tc_guards *g, int32_t i, const tc_tensor *t, tc_guard_mark *marks);
int32_t tc_guards_symbol_count(const tc_guards *g); // that inputs bind
// Code for e over the symbols that a check gives; false if e uses others. Needs an open guard.
bool tc_guards_compile(const tc_guards *g, const tc_sym *e, tc_sym_code *out);

// A number at an address that may be any in [lo, hi]: a symbol. Of the fact, at, expected (now), name and origin are
// used. `input`: the one that has the number, too, as an i64 without dimensions; -1: none does.
const tc_sym *tc_guards_add_number(tc_guards *g, const tc_guard_fact *f, int64_t lo, int64_t hi,
                                   int32_t input); // copies the texts
// From now on numbers are read from these inputs, when they are checked, and not at their addresses: segments of a
// function that runs in each call.
void tc_guards_numbers_from_inputs(tc_guards *g);

enum {
  TC_GUARD_HOLDS,
  TC_GUARD_PRESENCE,
  TC_GUARD_DTYPE,
  TC_GUARD_RANK,
  TC_GUARD_BITS, // conj, neg
  TC_GUARD_DEVICE,
  TC_GUARD_ALIGNMENT, // of host memory: to an element
  TC_GUARD_ALIAS,
  TC_GUARD_SIZE,
  TC_GUARD_RANGE, // of a symbolic size
  TC_GUARD_STRIDE,
  TC_GUARD_CONDITION,
  TC_GUARD_FACT,
  TC_GUARD_NUMBER // outside of its range
};
typedef struct tc_guard_miss {
  int32_t kind;       // TC_GUARD_*
  int32_t input, dim; // CONDITION, FACT, NUMBER: `input` is its number
  int64_t expected, actual;
} tc_guard_miss;

// kind HOLDS if all hold; symbols[tc_guards_symbol_count] then has the values of the sizes' symbols, for
// tc_guards_compile's code. inputs[i] may have no storage. The number of inputs must be the one of the creation.
tc_guard_miss tc_guards_check(const tc_guards *g, const tc_tensor *inputs, int64_t *symbols);
// The parts of it. Before the first input all of `symbols` is INT64_MIN (tc_guards_clear); inputs in order; conditions
// [from, to) when the inputs that they need have been checked.
void tc_guards_clear(const tc_guards *g, int64_t *symbols);
tc_guard_miss tc_guards_check_input(const tc_guards *g, int32_t i, const tc_tensor *inputs, int64_t *symbols);
tc_guard_miss tc_guards_check_numbers(const tc_guards *g, int64_t *symbols);
tc_guard_miss tc_guards_check_conditions(const tc_guards *g, int32_t from, int32_t to, const int64_t *symbols);
// "tensor 'x' size mismatch at index 0. expected 8, actual 16".
void tc_guard_miss_print(tc_sb *sb, const tc_guards *g, const tc_guard_miss *m);
// One line per guard, each with where it came from.
void tc_guards_print(tc_sb *sb, const tc_guards *g);

#endif
