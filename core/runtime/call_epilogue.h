// Calls that do what follows them: a product with its bias, a function of it and a sum, in one call of a library.
//
// The graph says _linear_then(input, weight, bias, function, other), which is lowered like other products where no
// library takes it; libraries are told "aten::linear" with a list of steps (tc_epilogue).
#ifndef TC_CORE_RUNTIME_CALL_EPILOGUE_H_
#define TC_CORE_RUNTIME_CALL_EPILOGUE_H_

#include "core/runtime/exec.h"

#define TC_THEN_OP "aten::_linear_then"
enum { TC_THEN_INPUT, TC_THEN_WEIGHT, TC_THEN_BIAS, TC_THEN_FUNCTION, TC_THEN_OTHER };

// Functions that libraries do behind a product.
typedef struct tc_call_step {
  const char *op, *approximate; // and its argument of that name, or NULL
  const char *name;             // in the op above
  int32_t kind;                 // TC_EPI_*
} tc_call_step;
enum { TC_CALL_STEPS = 5 };
extern const tc_call_step tc_call_steps[TC_CALL_STEPS];

// Joins linear with the function and the sum that alone read its result where one of the device's libraries is taken
// for the product and does them, too. Sweeps the graph. Needs an open guard.
TC_NODISCARD tc_status tc_join_call_epilogues(const tc_call_choice *choice, tc_graph *g);

// What a library is told of a node: its op and its epilogue, whose steps are put into `room`. (call_describe.c, which
// runs need, too.)
void tc_call_describe(const tc_node *n, tc_call_node *out, tc_epilogue room[2]);

#endif
