// Log artifacts (TC_LOGS=guards,+fusion,…). An artifact has three levels: off ("-name", wherever it stands in the
// list), on ("name"), and in detail ("+name"). A logger belongs to a context; writing is thread-safe, a line at a time.
// `tc_log_on` is one load and a test: call it before building a costly text.
#ifndef TC_CORE_BASE_LOG_H_
#define TC_CORE_BASE_LOG_H_

#include "core/base/str.h"

// X(NAME, text, what it shows)
#define TC_LOG_LIST(X)                                                                    \
  X(GUARDS, "guards", "guards of each compiled entry")                                    \
  X(RECOMPILES, "recompiles", "why a call was compiled again")                            \
  X(GRAPH_BREAKS, "graph_breaks", "where capture stopped, and why")                       \
  X(FUSION, "fusion", "rounds, candidates, merges and refusals of the scheduler")         \
  X(OUTPUT_CODE, "output_code", "plan, kernels and generated code")                       \
  X(SCHEDULE, "schedule", "groups, order, layouts, memory plan")                          \
  X(AOT_GRAPHS, "aot_graphs", "functional, joint, forward and backward graphs")           \
  X(PASSES, "passes", "the graph after each pass that made progress")                     \
  X(PERF_HINTS, "perf_hints", "what keeps the program from running faster")               \
  X(CACHE, "cache", "hits and misses with keys")                                          \
  X(DEVICE_GRAPHS, "device_graphs", "recordings, replays and what could not be captured") \
  X(AUTOTUNING, "autotuning", "candidates and their times")                               \
  X(PLUGINS, "plugins", "what was found, loaded and refused")

enum {
#define X(name, text, doc) TC_LOG_##name,
  TC_LOG_LIST(X)
#undef X
      TC_LOG_COUNT
};

typedef struct tc_logger {
  uint32_t mask; // bit TC_LOG_x
  void (*write)(void *self, int32_t artifact, tc_sv text);
  void *self;
  uint32_t detail; // bit TC_LOG_x: in detail; within `mask`
} tc_logger;

extern const tc_logger tc_logger_silent;
// Reads a list such as "+fusion,-cache,all" into the logger's masks; an unknown name is an error that names the nearest
// one and leaves them as they were.
TC_NODISCARD tc_status tc_log_parse(tc_sv list, tc_logger *out);
static inline bool tc_log_on(const tc_logger *lg, int32_t artifact) { return (lg->mask >> artifact) & 1u; }
static inline bool tc_log_in_detail(const tc_logger *lg, int32_t artifact) { return (lg->detail >> artifact) & 1u; }
void tc_log(const tc_logger *lg, int32_t artifact, const char *fmt, ...) TC_PRINTF(3, 4);
const char *tc_log_name(int32_t artifact);
// A logger's `write` where nobody else takes the lines: "[fusion] …" to stderr, whole lines also between threads.
void tc_log_to_stderr(void *self, int32_t artifact, tc_sv text);

#endif
