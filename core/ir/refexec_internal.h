// Shared by the files of the reference engine: refexec.c (runs graphs), refcall.c (one op), refwide.c (wide values).
#ifndef TC_CORE_IR_REFEXEC_INTERNAL_H_
#define TC_CORE_IR_REFEXEC_INTERNAL_H_

#include "core/ir/internal.h"
#include "core/ir/refexec.h"

// A buffer of wide elements. All live ones are in the run's list, so that an unwinding frees them.
typedef struct ref_buffer {
  struct ref_buffer *prev, *next;
  int32_t refs;
  tc_dtype wide; // what it was made for; views may see its components
  int64_t count; // elements of `wide`
  void *data;
} ref_buffer;

// A wide tensor: element (i) is data[offset + Σ i·stride].
typedef struct ref_tensor {
  ref_buffer *buffer;
  tc_dtype wide, nominal; // TC_F64, TC_C128 or TC_I64; what it stands for
  int32_t rank;
  int64_t sizes[TC_MAX_RANK], strides[TC_MAX_RANK], offset;
  bool conj;
} ref_tensor;

// What stands for a graph value.
typedef struct ref_slot {
  ref_tensor t; // TENSOR
  bool set;
  int64_t integer;  // SYM, BOOL
  double real;      // FLOAT
  int32_t last_use; // number of the last reading node; INT32_MAX for outputs
} ref_slot;

typedef struct ref_run {
  const tc_ref_options *options;
  uint64_t seed; // the options', in a loop the turn's
  const tc_allocator *allocator;
  tc_module *module;
  tc_arena *arena;  // of the run
  tc_sym_ctx *syms; // of the run: constants only
  int64_t *symbols; // values by number of the module's symbol
  uint8_t *bound;
  bool told; // a symbol became known since its range and what depends on it were checked
  int32_t n_symbols;
  ref_buffer *buffers; // all live ones
} ref_run;

// An input whose sizes are known once a node has told them: a cotangent of a result whose size comes from data.
typedef struct ref_waiting {
  const tc_graph_input *input;
  const tc_tensor *tensor;
  struct ref_waiting *next;
} ref_waiting;

// A graph that is being run.
typedef struct ref_scope {
  ref_run *run;
  tc_graph *graph;
  tc_map *slots;  // tc_value * → ref_slot *
  bool unwatched; // a region that the caller does not watch
  ref_waiting *waiting;
} ref_scope;

// refexec.c
ref_slot *ref_slot_of(void *self, tc_value *v); // self: a ref_scope
bool ref_all_bound(const ref_run *r, const tc_sym *e);
// e has the value v: binds the one symbol that is open if e is linear in it. False if nothing could be done.
bool ref_bind(ref_run *r, const tc_sym *e, int64_t v);
// A tensor becomes the value: its number, or a buffer of its own in the declared layout, rounded.
tc_status ref_store_result(ref_scope *s, tc_value *v, const ref_tensor *t);
tc_status ref_run_graph(ref_scope *s);
// refcontrol.c
tc_status ref_control(ref_scope *s, tc_node *n);

// refwide.c
tc_dtype ref_wide_of(tc_dtype d);
int64_t ref_numel(int32_t rank, const int64_t *sizes);
// Number of elements that the strides reach from element 0 on (strides ≥ 0); false on overflow.
bool ref_span(int32_t rank, const int64_t *sizes, const int64_t *strides, int64_t *out);
tc_status ref_new(ref_run *r, tc_dtype nominal, int32_t rank, const int64_t *sizes, const int64_t *strides,
                  ref_tensor *out); // strides NULL: row-major; zeroed
void ref_hold(ref_tensor *t);
void ref_drop(ref_run *r, ref_tensor *t); // leaves it empty
// Copies values between shapes of the same sizes: classes are converted; rounded to `to`'s nominal dtype unless wide.
void ref_copy(const ref_run *r, const ref_tensor *from, const ref_tensor *to, bool round);
void ref_load(const ref_tensor *t, int64_t at, tc_c128 *out); // at: element number in the buffer
void ref_store(const ref_tensor *t, int64_t at, tc_c128 v, int64_t i);
// conj: the buffer keeps conjugates, which is what views of a value with the lazy bit expect.
tc_status ref_from_tensor(ref_run *r, const tc_tensor *from, const int64_t *strides, int64_t offset, bool conj,
                          ref_tensor *out);
tc_status ref_to_tensor(ref_run *r, const ref_tensor *t, bool wide, tc_tensor *out);
// The next index of a shape in row-major order; false behind the last.
bool ref_next(int32_t rank, const int64_t *sizes, int64_t *index);

// refcall.c
// One op on values: runs the reference of `op` (the node's, or what it is the in-place form of). args: the node's, with
// numbers in place of symbols and number values.
tc_status ref_call(ref_run *r, const tc_node *n, const tc_op *op, ref_slot *(*slot)(void *self, tc_value *v),
                   void *self, ref_tensor *results);
tc_status ref_eval(ref_run *r, const tc_sym *e, int64_t *out);

#endif
