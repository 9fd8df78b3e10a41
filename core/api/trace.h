// A call of a compiled function whose body is being run: captured for the first time, or followed.
//
// What the body calls is recorded, not run: each op is encoded as words (the op, its arguments, its operands as numbers
// of earlier results or of inputs), and its results are handles without memory. A read of a value (a graph break) ends
// the segment so far: it is run, and recording goes on. If nothing was read by the end, the one segment is the
// function's graph.
//
// A *line* is a segment that was met before: its words, guards on its inputs, the types of its results over the guards'
// symbols, and its executable. Following is comparing words: all lines together are a trie, of which each is one path
// from the root (a place behind a break) to a leaf (the next break), and `trace_advance` moves along the line that
// fits, changing to another one where calls or guards differ. Where none fits, a new one is built from the records and
// goes on as a graph. New lines run op by op in the call that makes them; when it has ended it is known which of their
// results were used behind the break, and they are compiled for these only. Others are computed again, op by op, should
// a later call want them after all; that is right as long as nothing wrote to what they depend on, so that a write
// first computes what it would spoil (trace_pin).
//
// A trace belongs to one thread. Lines are immutable once published, apart from being unlinked at the function's end.
#ifndef TC_CORE_API_TRACE_H_
#define TC_CORE_API_TRACE_H_

#include "core/api/internal.h"
#include "core/guards/guards.h"

// Lists outside of arenas: calls that follow take no arena.
#define API_LIST(type) TC_VEC(type)
// False when memory is short.
bool api_grow(tc_context *c, void **data, size_t size, int32_t count, int32_t *capacity, int32_t more);
#define api_reserve(c, list, more) \
  api_grow((c), (void **)&(list)->data, sizeof *(list)->data, (list)->count, &(list)->capacity, (more))
#define api_push(c, list, v) (api_reserve((c), (list), 1) && ((list)->data[(list)->count++] = (v), true))

// Operands: results of the segment from 0 on, TRACE_ABSENT, inputs of the segment as TRACE_INPUT(i).
enum { TRACE_ABSENT = -1 };
#define TRACE_INPUT(i) (-2 - (int64_t)(i))
enum { TRACE_TAKEN = 64 }; // arguments of ops in which numbers are looked for

typedef struct line_slot {
  tc_value *value; // while the line is built; NULL: no result
  int32_t record, result;
  tc_dtype dtype;
  int32_t rank;
  bool conj;
  bool is_view, is_written; // shares the memory of the operand `of`; is what the op wrote to, the operand `of`
  int64_t of;
  const tc_sym_code *sizes, *strides; // over the guards' symbols; NULL: known when the data is
  bool needed;                        // used behind the segment
  int32_t output;                     // of the executable; -1: none
} line_slot;

typedef struct line_record {
  int32_t words, inputs, conditions, slots; // so many up to behind it
} line_record;

typedef struct api_line {
  struct api_line *next;
  int32_t id;
  tc_module *module;
  tc_graph *graph;
  tc_guards *guards;
  tc_session *session; // NULL: runs op by op
  TC_VEC(uint64_t) words;
  TC_VEC(line_record) records;
  TC_VEC(line_slot) slots;
  TC_VEC(tc_value *) inputs;      // NULL: absent
  TC_VEC(const tc_sym *) numbers; // by input: the symbol that it is; NULL: a tensor
  int32_t n_graph_outputs;
  uint64_t n_random;      // random nodes
  bool control;           // has control flow: not found again, its words do not tell what is in the regions
  bool writes, keeps_all; // keeps_all: nothing in it may be computed a second time
  bool gradients;         // asks for some, of ops that it has to have (request.c)
  bool idle;              // nothing of it is needed
  bool fresh;             // of the call under way: not compiled, not published
} api_line;

typedef struct trace_record {
  const tc_op *op;
  const char *here;
  int32_t word, n_words, n_args, slot, n_slots, inputs; // inputs: of the segment up to behind it
  bool writes;
} trace_record;

typedef struct trace_slot {
  tc_tensor *handle; // a reference; NULL: no result
  int32_t record;
  bool wanted; // used behind its segment
} trace_slot;

typedef struct trace_segment {
  int32_t word, record, slot, input; // where it begins
  int32_t n_records, n_slots, n_inputs;
  api_line *line; // that it followed or made; NULL: ran op by op
  bool writes, missed;
} trace_segment;

typedef struct trace_read { // of a size, in a graph without breaks: it holds for this size only
  const tc_sym *condition;
  const char *here;
} trace_read;

typedef struct trace_number { // of tc_dynamic_int
  const int64_t *at;
  tc_sv name;
  const char *here;
  int64_t lo, hi, value;
  tc_tensor *handle; // that has the value: an input of the segments that use it, which retain it
} trace_number;

struct api_trace {
  tc_context *context;
  tc_function *function;
  API_LIST(uint64_t) words;
  API_LIST(trace_record) records;
  API_LIST(trace_slot) slots;
  API_LIST(tc_tensor *) handles;    // inputs of segments; references
  API_LIST(tc_tensor) inputs;       // their values
  API_LIST(trace_segment) segments; // the last one is under way
  API_LIST(int64_t) symbols;        // of the line's guards
  API_LIST(tc_argument) args;       // of the record that is read
  API_LIST(tc_tensor *) tensors;    // in lists among them
  api_trace *outer;                 // of a region of control flow, which is recorded into `graph`; NULL: of a call
  tc_graph *graph;
  API_LIST(tc_value *) values; // of a region's slots
  int32_t n_given;             // the function's inputs, which the first segment begins with
  const tc_guard_input *how;   // how they are to be taken
  api_line *line;              // that the segment follows or builds
  api_line *fresh;             // made by this call
  API_LIST(trace_read) reads;
  API_LIST(tc_guard_fact) facts; // numbers that were read (tc_guard_int and its kin), for a graph without breaks
  API_LIST(trace_number) numbers;
  API_LIST(int64_t) ints;       // in lists of the op that is recorded
  bool symbolic, plain;         // it has symbols for numbers; it is to have their values
  bool building, broke, direct; // direct: ops run at once, the limit is reached
};

// ---- function.c: what a trace asks of its function ----
tc_sv trace_function_name(const api_trace *t);
int32_t trace_function_id(const api_trace *t);
api_line *trace_function_lines(const api_trace *t);
bool trace_function_has_room(api_trace *t); // for another line; says once that there is none
bool trace_function_is_auto(const api_trace *t);
bool trace_function_is_always(const api_trace *t);
bool trace_function_is_never(const api_trace *t);
// Ops that turned out to take no symbols for numbers, in this function.
bool trace_function_refuses(const api_trace *t, const tc_op *op);
void trace_function_note_refusal(const api_trace *t, const tc_op *op);

// ---- dynamic.c ----
// The number that v stands for; NULL: none.
const trace_number *trace_number_of(const api_trace *t, int64_t v);
// The number that input i of the segment is; NULL: a tensor.
const trace_number *trace_number_at(const api_trace *t, const trace_segment *s, int32_t input);
// An op's integer as it is recorded: what stands for a number becomes what stands for an input of the segment, or,
// where the op takes no symbol, its value, for good. In a region the input is that of the graph around; where ops run
// at once it is always the value.
tc_status trace_take_int(api_trace *t, const char *here, const tc_op *op, int32_t arg, int64_t *v);
// All integers of an op. Lists are good until the next call.
tc_status trace_take_ints(api_trace *t, const char *here, const tc_op *op, int32_t n, const tc_argument *given,
                          tc_argument *own);
// What became of recording an op, s: where symbols for numbers may be to blame it is done once more with their values.
tc_status trace_plainly(api_trace *t, const tc_op *op, tc_status s, tc_status (*again)(void *arg), void *arg);
// What was recorded for a number: its symbol in the line's graph (needs an open guard), or its value in this call.
void trace_symbols_in(const api_line *x, tc_arg *a);
int64_t trace_value_in(const api_trace *t, const trace_segment *s, int64_t v);

// ---- record.c ----
// The operand as words have it; it becomes an input of the segment if it is none.
tc_status trace_operand(api_trace *t, tc_tensor *x, int64_t *out);
// Appends a record to the segment.
tc_status trace_encode(api_trace *t, const char *here, const tc_op *op, int32_t n_args, const tc_argument *args);
// The arguments of a record into t->args; operands are handles.
tc_status trace_decode(api_trace *t, const trace_segment *s, const trace_record *r);
// One argument of a record: gives the words behind it. *refs: operands of TENSOR and TENSORS.
const uint64_t *trace_read_argument(const uint64_t *word, tc_argument *out, const int64_t **refs);
static inline trace_segment *trace_now(api_trace *t) { return &tc_vec_last(&t->segments); }

// ---- line.c ----
tc_status line_create(api_trace *t, api_line **out);
void line_destroy(tc_context *c, api_line *x); // NULL is ignored
// Appends the record to the graph that is built.
tc_status line_add(api_trace *t, api_line *x, const trace_segment *s, const trace_record *r);
tc_status line_add_inputs(api_trace *t, api_line *x, const trace_segment *s, int32_t n);
// Appends a record of a node that is in the line's graph already.
tc_status line_add_control(api_trace *t, api_line *x, const trace_record *r, const tc_node *n);
// Does the line begin with the segment so far, guards included? Fills t->symbols.
bool line_begins(api_trace *t, const api_line *x);
// … and the next record, when it began with all before it?
bool line_goes_on(api_trace *t, const api_line *x);
// … and ends here?
bool line_ends(api_trace *t, const api_line *x);
// Compiles a line for the slots that are needed.
tc_status line_compile(tc_context *c, api_line *x);
// Results that the body made apart may have become one value, or an input, on the way: results[at] gets memory of its
// own where it lies in that of an input or of another result. Results that may share are not among `results`: their
// storage is NULL.
tc_status line_separate(tc_context *c, int32_t n_inputs, const tc_tensor *inputs, int32_t n, tc_tensor *results);
// The slot whose memory slot i is in; -1: an input's.
int32_t line_root(const api_line *x, int32_t i);

// ---- trace.c ----
// The function's inputs are those of the first segment; `how` as long as the trace.
tc_status trace_begin(api_trace *t, int32_t n, tc_tensor *const *inputs, const tc_guard_input *how);
tc_status trace_build(api_trace *t); // begins a new line before anything is recorded
// Ends the segment: runs what is recorded.
tc_status trace_flush(api_trace *t);
// Gives a recorded tensor its memory, running what it needs.
tc_status trace_compute(api_trace *t, tc_tensor *x);
void trace_want(api_trace *t, const tc_tensor *x); // it is used behind its segment
// Handles of others that outlive the trace get their memory; everything is released.
tc_status trace_end(api_trace *t, bool keep);

// Is what is recorded, up to now, the one segment of a function without breaks?
bool trace_is_one_graph(const api_trace *t);
// The value of an operand in the graph of the line that is built; it becomes an input if it is none.
tc_status trace_value(api_trace *t, tc_tensor *x, tc_value **out);
// Records a node that is in the line's graph already. Handles for its results, all of which are tensors.
tc_status trace_add_node(api_trace *t, const char *here, const tc_node *n, tc_tensor **results);
// Records a request for gradients (request.c). results[n_inputs] get new handles.
int32_t trace_gradients(api_trace *t, int32_t n_outputs, tc_tensor *const *outputs, tc_tensor *const *cotangents,
                        int32_t n_inputs, tc_tensor *const *inputs, tc_tensor **results);
// An op of a region (control.c).
int32_t control_region_op(api_trace *r, const char *here, const tc_op *op, int32_t n_args, const tc_argument *args,
                          int32_t capacity, tc_tensor **results, int32_t *n_results);
// Records an op. results[capacity] get new handles.
int32_t api_trace_op(api_trace *t, const char *here, const tc_op *op, int32_t n_args, const tc_argument *args,
                     int32_t capacity, tc_tensor **results, int32_t *n_results);
// A graph break: gives the code of the error that is set where breaks are errors.
int32_t api_trace_break(api_trace *t, const char *here, const char *reason);
// A tensor's memory is to be read, or written: a break. It has memory afterwards.
int32_t api_trace_read(api_trace *t, const char *here, const char *reason, tc_tensor *x, bool writes);
// A size or stride as a number; a graph without breaks is specialised to it. -1 and an error when it fails.
int64_t api_trace_size(api_trace *t, const char *here, tc_tensor *x, int32_t dim, bool stride);
// A number besides the tensors, likewise.
int32_t api_trace_fact(api_trace *t, const tc_guard_fact *f);

#endif
