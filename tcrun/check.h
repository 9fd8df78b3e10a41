// tcrun check: cmd_check.c finds the files, feeds workers and adds up; check_case.c runs the cases of one file.
#ifndef TC_TCRUN_CHECK_H_
#define TC_TCRUN_CHECK_H_

#include <stdio.h>

#include "tcrun/tcrun.h"

// An archive (or .tc file), with what lies beside it.
typedef struct check_file {
  tc_sv path, file, name, dialect; // "…/attention.dyn.pt2", "attention.dyn", "attention", "dyn"
  tc_sv tensors;                   // NAME.safetensors beside it, "" if there is none
  const line_index *index;         // of the folder, or NULL
} check_file;

typedef struct check_run {
  run_options *o;
  tc_sv backend, mode; // as asked for, for the report
  check_file *files;
  int32_t n_files;
} check_run;

// Factorisations that are fixed only up to sign, phase or order, by what they stand for; *out_known is false for other
// ops, and then nothing was compared. `input` is the program's first.
TC_NODISCARD tc_status tcrun_compare_factors(const tc_allocator *a, tc_sv op, const tc_tensor *input, int32_t n,
                                             const tc_tensor *const *got, const tc_tensor *const *want,
                                             bool *out_known);
// Of ops that give values and where they stand: along some dimension, the input has these values at these places.
bool tcrun_places_hold(tc_sv op, const tc_tensor *input, const tc_tensor *values, const tc_tensor *places);

// Runs the cases of a file from number `first` on. For each it writes "B NUMBER LABEL\n", then "R {json}\n"; at the end
// "E\n". The context is opened on the first call and kept in *c.
TC_NODISCARD tc_status check_run_file(const check_run *r, tc_context **c, int32_t file, int32_t first, FILE *to);

#endif
