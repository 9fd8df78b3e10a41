// tcrun conform: small programs on the plugin and on the references. What the groups op, grad, opcheck, support,
// capture, fault and perf share (conform_program.c).
#ifndef TC_TCRUN_CONFORM_PROGRAM_H_
#define TC_TCRUN_CONFORM_PROGRAM_H_

#include "tcrun/conform.h"

enum {
  KIT_SPECIAL = 1, // NaN and infinities among the inputs
  KIT_GRAD = 2     // the gradients of the inputs, too
};

// A text made ready to run in one context; what of it is there is to be closed whatever happened.
typedef struct kit_ready {
  model m;
  tc_session *session;
  bool loaded;
  tc_tensor *outputs, *user; // user: by leaf; borrowed
  int32_t n, n_user;
} kit_ready;
tc_status kit_make_ready(tc_arena *arena, tc_context *c, const char *text, uint32_t flags, kit_ready *r);
tc_status kit_run_ready(kit_ready *r, const tc_tensor *inputs); // outputs of an earlier run are released
void kit_close_ready(kit_ready *r);
// Random inputs from the kit's seed; by graph input, to be freed.
tc_status kit_inputs(kit *k, tc_context *c, kit_ready *r, uint32_t flags, tc_tensor **out);

// The context whose backend the plugin is, and that of the references. A context of its own for each mode; opened once.
// Unsupported, with *out NULL, if the plugin has nothing that runs programs or finds no device.
tc_status kit_context(kit *k, const char *mode, tc_context **out);
tc_status kit_references(kit *k, tc_context **out);
// What is set in any context of the kit: the backend, its delegate.
tc_status kit_configure(const kit *k, const char *mode, tc_config *c);

// Runs the text in both and compares; twice, since the second run finds everything as the first one left it. Inputs
// must stay as they are, results must have the types that were promised.
tc_status kit_run_text(kit *k, const char *text, uint32_t flags);
// Derivatives of a text in double precision against central differences, on the references.
tc_status kit_differences(kit *k, const char *text);
tc_status kit_compare(const kit_ready *mine, const kit_ready *ref);
// Fails where a code generator does not compile what the device claims; notes what else is left to the references.
tc_status kit_judge_fallbacks(kit *k, tc_context *c, const tc_session *s);

#endif
