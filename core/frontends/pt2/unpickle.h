// Restricted reader of torch.save files: weights, constants and sample inputs of PyTorch archives before schema 8.14.
//
// A torch.save file is a zip with a pickle `ROOT/data.pkl` (protocol 2) and one member `ROOT/data/KEY` per storage.
// Nothing is executed: the pickle may name only torch._utils._rebuild_tensor_v2, torch._utils._rebuild_parameter,
// collections.OrderedDict and the storage classes; every other name is refused with UNIMPLEMENTED and its text.
// Sources: the opcode documentation of Python's pickletools, PyTorch's serialization notes.
// Untrusted input: opcodes, nesting, memory and the size of the tree when written out (shared parts counted as often as
// they occur) are bounded; cycles are refused. So a consumer may walk the tree recursively.
#ifndef TC_CORE_FRONTENDS_PT2_UNPICKLE_H_
#define TC_CORE_FRONTENDS_PT2_UNPICKLE_H_

#include "core/tensor/files.h"

enum {
  TC_PICKLE_NONE,
  TC_PICKLE_BOOL,
  TC_PICKLE_INT,
  TC_PICKLE_FLOAT,
  TC_PICKLE_STR,
  TC_PICKLE_TENSOR,
  TC_PICKLE_TUPLE,
  TC_PICKLE_LIST,
  TC_PICKLE_DICT // also OrderedDict; insertion order; keys are strings or ints
};

// Deepest nesting of a tree that tc_pickle_read returns.
#define TC_PICKLE_MAX_DEPTH 64

typedef struct tc_pickle tc_pickle;
struct tc_pickle {
  int32_t kind;
  int32_t count; // TUPLE, LIST: items; DICT: pairs, items[2i] the key and items[2i+1] the value of pair i
  bool requires_grad, is_parameter; // TENSOR
  union {
    bool b;
    int64_t i;
    double f;
    tc_sv s;           // UTF-8 as the file has it
    tc_tensor *tensor; // a reference that the tc_pickle_file holds
    tc_pickle **items;
  };
  void *state; // the reader's
};

typedef struct tc_pickle_file {
  const tc_pickle *root;
  tc_tensor **tensors; // of the tree, each once
  int32_t tensor_count;
} tc_pickle_file;

// Reads the torch.save file in `size` bytes of `bytes` from `offset`. Tree and names lie in the arena; tensors view
// `bytes` where stored and aligned (they keep it alive) and share storages as they did when saved. Release with
// tc_pickle_free. Not thread-safe with regard to the arena.
TC_NODISCARD tc_status tc_pickle_read(const tc_allocator *a, tc_arena *arena, tc_storage *bytes, size_t offset,
                                      size_t size, tc_pickle_file *out);
void tc_pickle_free(tc_pickle_file *file);
// The value of a string key; NULL if absent or not a dict.
const tc_pickle *tc_pickle_get(const tc_pickle *dict, tc_sv key);
const char *tc_pickle_kind_name(int32_t kind); // "tuple"

#endif
