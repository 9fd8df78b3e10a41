// Shared by the files of the cache of single ops: eager.c (finding, keeping, running), eager_build.c (making entries).
#ifndef TC_CORE_RUNTIME_EAGER_INTERNAL_H_
#define TC_CORE_RUNTIME_EAGER_INTERNAL_H_

#include <pthread.h>

#include "core/guards/guards.h"
#include "core/runtime/eager.h"
#include "core/runtime/session.h"

enum { FEW_TENSORS = 8, FEW_SYMBOLS = 64, N_BUCKETS = 1024, N_STEPS = 256 };

// A result that shares the memory of an operand. The code is over the symbols of the guards.
typedef struct eager_view {
  int32_t operand; // flat number of the tensor
  tc_dtype dtype;
  int32_t rank;
  bool conj;
  bool absolute; // the offset counts from where the storage begins, not from where the operand does
  tc_sym_code sizes[TC_MAX_RANK], strides[TC_MAX_RANK], offset;
} eager_view;

typedef struct eager_entry {
  struct eager_entry *next;
  int32_t refs;  // atomic: the table's and one of each run
  uint64_t used; // atomic: the number of the last call that found it
  tc_module *module;
  tc_guards *guards;
  tc_session *session;     // NULL for views
  const eager_view *views; // views
  const int32_t *outputs;  // results as graph outputs: their numbers; -1: absent
  const int32_t *written;  // results that are operands written to: their numbers; -1: none
  int32_t n_results, n_graph_outputs, n_inputs;
  uint64_t n_random; // random nodes
} eager_entry;

// Entries of one op with the same arguments besides what they are given at the run.
typedef struct eager_bucket {
  struct eager_bucket *next, *next_of_op;
  struct eager_op *owner;
  uint64_t hash;
  void *key;
  size_t key_size;
  eager_entry *entries; // newest first
  bool by_value;        // numbers as operands do not work here: there are keys with their values
} eager_bucket;

typedef struct eager_op {
  struct eager_op *next;
  const tc_op *op;
  eager_bucket *buckets;
  int32_t n_entries;
  bool said; // that entries go
} eager_op;

struct tc_eager {
  tc_context *context;
  int32_t max_entries;     // of an op
  pthread_rwlock_t lock;   // of the tables: whoever reads may hold on to an entry by its reference only
  pthread_mutex_t compile; // one compilation at a time; alone changes the tables (under the lock)
  eager_bucket *buckets[N_BUCKETS];
  eager_op *ops[N_BUCKETS];
  int64_t calls, compiles;             // atomic
  int64_t kernels, hits;               // atomic: of what was compiled
  struct tc_grad_step *steps[N_STEPS]; // of gradients, by hash, newest first; under `compile`
};

// A call; tensors are flat: those of lists in their places, storage NULL where one is absent.
typedef struct eager_call {
  tc_eager *e;
  const tc_op *op;
  int32_t n_args, n_tensors;
  const tc_argument *args;
  const tc_tensor *tensors;
  bool numbers; // numbers among the arguments are operands, as tensors are: no part of the key
} eager_call;
// Is argument i an operand of the call that is a number?
bool eager_is_number(const eager_call *call, int32_t i);

// Does it count from where the storage of its first operand begins (a `storage_offset` is given)? Where that operand
// begins is then part of the key.
bool eager_counts_storage(const eager_call *call);

// The arguments besides operands, as bytes.
typedef struct eager_key {
  size_t size;
  bool full; // they are too long to be worth keeping
  unsigned char bytes[1024];
} eager_key;
void eager_key_of(eager_key *k, const eager_call *call);
void eager_key_put(eager_key *k, const void *data, size_t size);

// The call as a node of g: inputs "x0", … by flat number, those that are absent left out, then "n0", … by argument for
// numbers; guards on all tensors. Needs an open guard of the module's arena.
tc_status eager_make_node(const eager_call *call, bool dynamic, tc_graph *g, tc_guards **guards, tc_node **out);
void eager_steps_destroy(tc_eager *e);
// A new entry with one reference. `dynamic`: sizes are symbols.
tc_status eager_build(eager_call *call, bool dynamic, eager_entry **out);
void eager_entry_unref(tc_eager *e, eager_entry *x); // NULL is ignored

#endif
