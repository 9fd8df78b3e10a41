// Comparing gradients with stored ones.
#ifndef TC_TCRUN_CHECK_GRAD_H_
#define TC_TCRUN_CHECK_GRAD_H_

#include "tcrun/tcrun.h"

typedef struct gradient_check {
  tc_context *c;
  tc_arena *arena;
  model *m;
  const tc_tensor *inputs; // by graph input; state without storage
  // The stored tensor of a key ("ct.0", "grad.1", "grad.in.0", "grad.param.a.b"), or NULL.
  const tc_tensor *(*find)(void *self, tc_sv key);
  void (*report)(void *self, tc_sv name, const difference *d);
  void *self;
  uint64_t seed; // of what the program draws, compiled or on the tape
  bool compile_only;
  bool tape; // op by op on the tape of the embedder's API, not as a joint graph
} gradient_check;

// Builds the joint graph of the program, runs it with the stored cotangents, and compares every stored gradient:
// relative L2 error per tensor ≤ 1e-6 (f64), 1e-3 (f32), 3e-2 (16 bits), with a floor of 1e-6 of the largest gradient's
// norm. *out_none: no gradients are stored, there is nothing to compare (NOT_FOUND); any other error, whatever its
// code, is a gradient that should have been made.
TC_NODISCARD tc_status tcrun_check_gradients(const gradient_check *g, bool *out_none);

// tcrun_load; under --grad the joint graph takes the program's place: the gradients of all parameters and user inputs
// that have one are further outputs, the cotangents of the outputs further user inputs ("ct_0"). What the archive
// promised of outputs is forgotten then.
TC_NODISCARD tc_status tcrun_load_asked(tc_context *c, run_options *o, const char *path, model *m);

// Puts the joint graph of a model at the graph stage in its place, as above; or, as `part` says, the "forward" or
// "backward" graph that it is cut into by the options grad.graphs and grad.budget.
TC_NODISCARD tc_status tcrun_differentiate(const tc_config *config, tc_sv part, model *m);
bool tcrun_is_gradient_stage(tc_sv stage); // one of those parts
// gradients[i] of graph input i where it is wanted and has one: new tensors (check_tape.c).
TC_NODISCARD tc_status tcrun_tape_gradients(const gradient_check *g, const bool *wanted, tc_tensor *gradients);

#endif
