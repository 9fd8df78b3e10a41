// Launches of kernels.
//
// From sm_90 on a kernel is launched when the blocks of the one in front of it have begun, so that its launch takes no
// time of its own, and itself waits until that one has ended and all it wrote is seen (CUDA C++ Programming Guide,
// "Programmatic Dependent Launch and Synchronization"). Kernels of at most TC_CUDA_DEPENDENT_BLOCKS blocks along x wait
// before they touch memory, so that each sees what all before it wrote; larger ones do not, and are not launched that
// way, nor are those of libraries. Recordings keep such launches as edges of their graphs.
#include <string.h>

#include "cuda.h"
#include "library.h"

#include "tc/cprint.h"

// Recordings with such edges.
enum { FIRST_DRIVER = 12030, FIRST_MAJOR = 9 };

int32_t cuda_can_depend(const tc_device_ *d, int64_t major) {
  char wish[8];
  int version = 0;
  if (major < FIRST_MAJOR || !d->driver.launch_as) return 0;
  if (d->driver.version(&version) != CU_OK || version < FIRST_DRIVER) return 0;
  return !cuda_config(d->host, "dependent", wish, sizeof wish) || strcmp(wish, "false") != 0;
}

cu_result cuda_start(const tc_device_ *d, cu_function function, cuda_grid g, cu_stream stream, void **params) {
  if (!d->dependent || g.blocks > TC_CUDA_DEPENDENT_BLOCKS)
    return d->driver.launch(function, g.blocks, g.blocks_y, 1, g.lanes, g.together, 1, g.shared_bytes, stream, params,
                            NULL);
  const cu_launch_attribute early = {.id = CU_LAUNCH_DEPENDENT, .value.allowed = 1};
  const cu_launch_config config = {.grid_x = g.blocks,
                                   .grid_y = g.blocks_y,
                                   .grid_z = 1,
                                   .block_x = g.lanes,
                                   .block_y = g.together,
                                   .block_z = 1,
                                   .shared_bytes = g.shared_bytes,
                                   .stream = stream,
                                   .attributes = &early,
                                   .n_attributes = 1};
  return d->driver.launch_as(&config, function, params, NULL);
}
