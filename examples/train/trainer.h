// What the programs of this folder share: a training loop around one compiled step (loss, gradients and optimizer are
// one graph; parameters and the optimizer's state are updated in place), its progress bar, and checkpoints.
//
// Which examples a batch has depends on the number of the step alone, so that a run which goes on from a checkpoint
// computes bit for bit what it would have computed without a stop.
#ifndef TRAINER_H_
#define TRAINER_H_

#include "tc/ops.h"

enum { TRAIN_MAX_RANK = 4, TRAIN_MAX_DATA = 4 };

typedef struct train_parameter {
  const char *name;
  int32_t rank;
  int64_t sizes[TRAIN_MAX_RANK];
  double mean, range; // uniform in mean ± range
} train_parameter;

typedef struct train_program {
  const char *name;
  int32_t n_data;
  const char *const *data_names;
  // Makes the data[n_data], of which a batch takes some; `path` is the program's FILE argument, or NULL. Gives how many
  // examples there are; 0: it failed, and has said why.
  int64_t (*make_data)(tc_context *c, const char *path, tc_tensor **data);
  int64_t batch; // examples in it
  int32_t n_parameters;
  const train_parameter *parameters;
  tc_function_body loss; // of the data, the numbers of the batch's examples (i64), and the parameters
  tc_optimizer_options optimizer;
  int64_t steps;
} train_program;

// Reads the command line (trainer.c says what there is) and trains; gives the exit code.
int train_main(const train_program *p, int argc, char **argv);

// Uniform in [-1, 1): the same sequence for the same state, on every machine.
double train_random(uint64_t *state);
// Shorter names for what all three use.
tc_tensor *train_add(tc_tensor *x, tc_tensor *y);
tc_tensor *train_layer_norm(tc_tensor *x, int64_t size, tc_tensor *weight, tc_tensor *bias);

#endif
