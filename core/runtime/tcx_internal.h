// Shared by tcx_write.c and tcx.c: what the index of an artifact says.
#ifndef TC_CORE_RUNTIME_TCX_INTERNAL_H_
#define TC_CORE_RUNTIME_TCX_INTERNAL_H_

#include "core/plan/blob.h"
#include "core/runtime/tcx.h"

//   index    := 'tcx' FORMAT 'tc' STRING 'abi' INT [ 'weights' STRING STRING ] { program }
//   program  := 'program' STRING '{' { field STRING | leaf } '}'
//   field    := 'backend' | 'plugin' | 'target' | 'device' | 'mode' | 'plan' | 'graph' | 'op' | 'takes' | 'sizes'
//   leaf     := 'input' STRING INT | 'tensor' STRING STRING
// `weights`: the file beside, and the mark of its table in hexadecimal. `plan`, `graph` and `tensor` name entries of
// the blob (a tensor's second string); `op` is the schema of an op that a library does; `takes` says in words what the
// program's inputs are, `sizes` which of the sizes that its graph leaves open it was compiled for.
// Format 1 had no `takes` and `sizes`, one program for each name and backend, each with a plan. It is still read.
enum { TCX_FORMAT = 2, TCX_OLDEST = 1 };
#define TCX_INDEX "tcx"

#endif
