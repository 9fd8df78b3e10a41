// What the fake driver (fake_driver.c) tells the tests, and what they can ask of it. Its functions are found with
// dlsym.
#ifndef TESTS_UNIT_CUDA_FAKE_H_
#define TESTS_UNIT_CUDA_FAKE_H_

#include <stddef.h>
#include <stdint.h>

// Live objects, and how often the driver was used wrongly: a handle that does not live, no current context, a copy
// beyond an allocation, a pinned buffer that is written while a copy from it is under way.
typedef struct fake_state {
  int32_t contexts, streams, events, modules, allocations, pinned, async_allocations;
  int32_t faults;
  char fault[200]; // the first one
  int32_t graphs, executables;
  int32_t launches;  // done at once or by graphs
  int32_t dependent; // launches, at once or recorded, that need not wait for those in front of them
  int32_t version;   // of the driver, as fake_be_of said; 0: 13000
  int32_t graph_launches;
  // The last launch.
  uint32_t grid, grid_y, lanes, lanes_y, shared_bytes;
  uint64_t words[64]; // its parameters, as many as fake_set_params said
  char kernel[128];
  int32_t dynamic_shared; // as set by cuFuncSetAttribute
  int32_t tensor_maps;    // described; the last one:
  uint64_t map_sizes[3];
  uint32_t map_box[3];
} fake_state;

typedef const fake_state *(*fake_state_fn)(void);
// Parameters that every kernel has; bytes of each.
typedef void (*fake_params_fn)(int32_t n, const int32_t *bytes);
// The call number `after` from now of the named function fails with the code; NULL: none.
typedef void (*fake_fail_fn)(const char *function, int32_t after, int32_t code);
typedef void (*fake_be_of_fn)(int32_t version);
// What a library puts into a stream: done when the stream is waited for, as copies are, or by each launch of the graph
// that it is recorded in.
typedef struct fake_work_part {
  void (*work)(void *self);
  void *self, *to;
  const void *from;
  size_t writes, reads; // bytes
} fake_work_part;
typedef int (*fake_work_fn)(void *stream, fake_work_part part);

#endif
