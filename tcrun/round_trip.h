// tcrun check --round-trip: programs as text at every stage (round_trip.c says what is held).
#ifndef TC_TCRUN_ROUND_TRIP_H_
#define TC_TCRUN_ROUND_TRIP_H_

#include "tcrun/tcrun.h"

typedef struct round_trip {
  tc_context *c;
  run_options *o;
  const tc_module *tensors; // whose bindings the texts' inputs take
  // Inputs of a run, one per graph input, the same at every call; the caller releases them.
  tc_status (*inputs)(void *self, model *m, tc_tensor **out);
  void *self;
  const tc_tensor *outputs; // what the program gave, by graph output; NULL: nothing is run
  int32_t n_outputs;
  bool shapes_only; // its values are random
} round_trip;

// `graph` is the program's text before any pass, `session` the program compiled.
TC_NODISCARD tc_status tcrun_round_trip(const round_trip *t, tc_sv graph, const tc_session *session);

#endif
