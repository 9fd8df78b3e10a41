// tcrun check --replays=N: N runs in turns over several sets of inputs, on the host and on the device, bit for bit like
// ordinary runs of the same sets. What is recorded and replayed is thereby held to what is not.
#ifndef TC_TCRUN_REPLAYS_H_
#define TC_TCRUN_REPLAYS_H_

#include "tcrun/tcrun.h"

// `inputs`: one per graph input, on the host. MISMATCH, with the turn and the output, where a run differs.
TC_NODISCARD tc_status tcrun_check_replays(tc_context *c, run_options *o, const model *m, tc_session *session,
                                           const tc_tensor *inputs);

#endif
