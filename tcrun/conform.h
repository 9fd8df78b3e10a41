// tcrun conform: a vendor's test suite. cmd_conform.c runs the cases in processes of their own and reports;
// conform_host.c is the host that cases put before the plugin; the cases are in conform_abi.c, conform_device.c,
// conform_kernel.c, conform_op.c, conform_check.c and conform_run.c.
//
// A case returns OK, or an error whose text names the rule that is broken. It may call kit_unsupported and return OK:
// the plugin does not claim what the case is about.
#ifndef TC_TCRUN_CONFORM_H_
#define TC_TCRUN_CONFORM_H_

#include <pthread.h>
#include <stdatomic.h>

#include "tcrun/tcrun.h"

// The host services of a case: allocations are counted, walled in, and can be made to fail.
struct kit;
typedef struct kit_host {
  tc_host host;
  const struct kit *kit;
  pthread_mutex_t lock;
  char diag[1000]; // the last one; under the lock
  int32_t n_diags; // under the lock
  atomic_llong live, count;
  atomic_llong fail_at; // the allocation of that number fails; 0: none does
  atomic_int damaged;   // blocks that were written behind
} kit_host;

typedef struct kit {
  run_options *o;
  tc_config *config;                            // of the plugin's section, too
  tc_context *context, *recording, *references; // of programs; NULL until the first case that runs any
  tc_arena *arena;                              // of the case
  const char *file;                             // the shared object, absolute
  tc_plugin about;                              // what its manifest says
  tc_plugins *loader;                           // NULL until a case loads the plugin
  tc_plugin *plugin;
  tc_plugin_query_fn query; // its one symbol
  uint64_t seed;
  char unsupported[300]; // "": supported
  char note[200];        // what a case that passes has to say
  // Set by kit_open.
  kit_host services;
  tc_device_ *device;
  tc_handle stream;
  tc_device_props props;
} kit;

typedef struct kit_case {
  const char *group, *name, *rule;
  tc_status (*run)(kit *k);
} kit_case;
typedef struct kit_cases {
  const kit_case *cases;
  int32_t n;
} kit_cases;
extern const kit_cases kit_abi_cases, kit_device_cases, kit_kernel_cases, kit_op_cases, kit_check_cases, kit_run_cases;

void kit_unsupported(kit *k, const char *fmt, ...) TC_PRINTF(2, 3);
void kit_note(kit *k, const char *fmt, ...) TC_PRINTF(2, 3);
// MISMATCH with the words, unless the condition holds.
#define KIT_CHECK(cond, ...)                                       \
  do {                                                             \
    if (!(cond)) return tc_error(TC_STATUS_MISMATCH, __VA_ARGS__); \
  } while (0)
// The plugin's function must return OK.
#define KIT_OK(k, expr)                                                      \
  do {                                                                       \
    int32_t kit_code_ = (expr);                                              \
    if (kit_code_ != TC_STATUS_OK) return kit_failed((k), #expr, kit_code_); \
  } while (0)
tc_status kit_failed(kit *k, const char *what, int32_t code);
// ... must fail, with words through diag.
tc_status kit_must_fail(kit *k, const char *what, int32_t code);

// ---- conform_host.c ----
// Services whose config values are those of the plugin's section.
void kit_host_init(kit_host *h, const kit *k);
// OK if all that was taken was given back and nothing was written behind.
tc_status kit_host_balanced(kit_host *h, const char *when);
// Loads the plugin as the program does; and finds its one symbol.
tc_status kit_load(kit *k);
tc_status kit_find_query(kit *k);
// Opens the first device with a stream, in k->services. Unsupported if the plugin has no device, or finds none:
// *out_there says. To be closed on every way out.
tc_status kit_open(kit *k, bool *out_there);
void kit_close(kit *k);
// Opens, runs, closes; nothing of the host's memory may be left.
tc_status kit_with_device(kit *k, tc_status (*run)(kit *k));
// The head of a case whose body runs inside `with`: kit_with_device, or what does more before.
#define KIT_CASE(with, name)                                     \
  static tc_status name##_open(kit *k);                          \
  static tc_status name(kit *k) { return with(k, name##_open); } \
  static tc_status name##_open(kit *k)
uint64_t kit_random(kit *k); // from the seed that the report states

#endif
