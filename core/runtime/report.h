// A compilation as one HTML page without scripts or anything from a network: the pipeline with its times and the files
// of its stages, where a run's time went, the graph with its groups in colours, memory over time, and every kernel with
// what it does, its code, and what was not fused.
#ifndef TC_CORE_RUNTIME_REPORT_H_
#define TC_CORE_RUNTIME_REPORT_H_

#include "core/runtime/session.h"

typedef struct tc_report_file {
  const char *name, *title; // beside the page
  int32_t stage;            // TC_STAGE_* whose text it is, or -1
  int64_t lines;
} tc_report_file;

typedef struct tc_report {
  const tc_session *session;
  tc_sv name;
  const tc_report_file *files;
  int32_t n_files;
  const tc_launch_record *launches; // of a run, in order over all segments; NULL: there was none
  int32_t n_launches;
  double run_ms; // of that run
} tc_report;

// Under a guard of the module's arena, in which `sb` may lie.
TC_NODISCARD tc_status tc_report_print(const tc_report *r, tc_sb *sb);

#endif
