// Gradients of single ops, for tapes: each op's joint graph, cut into what runs forward and what runs backward, is
// compiled once for its arguments and sizes, and found again (eager.h does so for the op itself).
//
// A step knows how an op, or a graph, is differentiated. Its backward is itself a graph over the step's inputs and the
// cotangents, of which there is a step in turn: that gives gradients of gradients, to any order.
//
// Thread-safe.
#ifndef TC_CORE_RUNTIME_GRADIENT_H_
#define TC_CORE_RUNTIME_GRADIENT_H_

#include "core/runtime/eager.h"

typedef struct tc_grad_step tc_grad_step;

// The step of a call. `tensors` are flat: those of lists in their places, storage NULL where one is absent; wanted[i]:
// tensor i's gradient is. *out is a reference. UNIMPLEMENTED names an op that has no derivative.
TC_NODISCARD tc_status tc_grad_step_of(tc_eager *e, const tc_op *op, int32_t n_args, const tc_argument *args,
                                       int32_t n_tensors, const tc_tensor *tensors, const bool *wanted,
                                       tc_grad_step **out);
// The step of what gives s's gradients: its inputs are those of s, then the cotangents; its results the gradients that
// there are, in the order of the inputs. It lives as long as s does: a reference to it is one to s.
TC_NODISCARD tc_status tc_grad_step_again(tc_grad_step *s, tc_grad_step **out);
tc_grad_step *tc_grad_step_ref(tc_grad_step *s);
void tc_grad_step_unref(tc_grad_step *s); // NULL is ignored

const tc_op *tc_grad_step_op(const tc_grad_step *s); // that it, or what it is the gradient of, is made of
int32_t tc_grad_step_inputs(const tc_grad_step *s);  // flat
int32_t tc_grad_step_results(const tc_grad_step *s); // tensors and absent ones
int32_t tc_grad_step_saved(const tc_grad_step *s);   // values that the backward takes besides inputs and results
bool tc_grad_step_flows(const tc_grad_step *s, int32_t result);        // does any gradient flow back from it?
bool tc_grad_step_reads(const tc_grad_step *s, int32_t input);         // does a backward read the value of the input?
bool tc_grad_step_reads_result(const tc_grad_step *s, int32_t result); // … of the result?
int32_t tc_grad_step_gradient(const tc_grad_step *s, int32_t input);   // its number among the gradients, or -1
int32_t tc_grad_step_cotangent(const tc_grad_step *s, int32_t result); // its number among the cotangents, or -1

// Random numbers of a run, so that what is computed again draws the same ones.
typedef struct tc_grad_draw {
  uint64_t seed, stream;
} tc_grad_draw;
bool tc_grad_step_is_random(const tc_grad_step *s);
tc_grad_draw tc_grad_step_draw(const tc_grad_step *s);

// inputs[tc_grad_step_inputs], results[tc_grad_step_results] (absent ones without storage), saved[tc_grad_step_saved]:
// new tensors. An op that writes does not: its result is a new tensor, too.
TC_NODISCARD tc_status tc_grad_step_forward(tc_grad_step *s, const tc_tensor *inputs, const tc_grad_draw *draw,
                                            tc_tensor *results, tc_tensor *saved);
// cotangents[i] of result i, row-major; without storage where nothing flows. gradients[tc_grad_step_inputs]: new
// tensors; without storage where there is none.
TC_NODISCARD tc_status tc_grad_step_backward(tc_grad_step *s, const tc_tensor *inputs, const tc_tensor *results,
                                             const tc_tensor *saved, const tc_tensor *cotangents,
                                             const tc_grad_draw *draw, tc_tensor *gradients);

#endif
