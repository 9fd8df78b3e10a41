// Shared by tcx_write.c and tcx.c: what the index of an artifact says.
#ifndef TC_CORE_RUNTIME_TCX_INTERNAL_H_
#define TC_CORE_RUNTIME_TCX_INTERNAL_H_

#include "core/plan/blob.h"
#include "core/runtime/tcx.h"

//   index    := 'tcx' FORMAT 'tc' STRING 'abi' INT [ 'weights' STRING STRING ] { program }
//   program  := 'program' STRING '{' { field STRING | leaf } '}'
//   field    := 'backend' | 'plugin' | 'target' | 'device' | 'mode' | 'plan' | 'steps' | 'graph' | 'op' | 'takes'
//               | 'sizes'
//   leaf     := 'input' STRING INT | 'tensor' STRING STRING
//
// `weights`: the file beside, and the mark of its table in hexadecimal. `plan`, `graph` and `tensor` name entries of
// the blob (a tensor's second string); `op` is the schema of an op that a library does; `takes` says in words what the
// program's inputs are, `sizes` which of the sizes that its graph leaves open it was compiled for.
// `steps` N: the program is cut; the text "steps/N" has its steps (image.c), whose plans are "N.0", "N.1", …
// Format 2 had no `steps`. Format 1 had no `takes` and `sizes`, one program for each name and backend, each with a
// plan. Both are still read.
enum { TCX_FORMAT = 4, TCX_OLDEST = 1 };
#define TCX_INDEX "tcx"

#endif
