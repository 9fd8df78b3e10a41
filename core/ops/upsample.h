// Resampling: what the files of the family share.
#ifndef TC_CORE_OPS_UPSAMPLE_H_
#define TC_CORE_OPS_UPSAMPLE_H_

#include "core/ops/ops.h"

enum { TC_RESIZE_MAX_SPACE = 3 };
enum { TC_RESIZE_NEAREST, TC_RESIZE_LINEAR, TC_RESIZE_CUBIC };

// A call: `n` spatial dimensions from `in` to `out` elements; kind: TC_RESIZE_*.
typedef struct tc_resize {
  int32_t n, kind;
  bool exact, align, aa;
  tc_int in[TC_RESIZE_MAX_SPACE], out[TC_RESIZE_MAX_SPACE];
  double scale[TC_RESIZE_MAX_SPACE]; // 0: by the sizes
} tc_resize;

// num / den: how far the source moves for one step of the output.
void tc_resize_ratio(tc_op_args *a, const tc_resize *r, int32_t i, tc_int *num, tc_int *den);
// The same as a double, of sizes that are known.
double tc_resize_factor(const tc_resize *r, int32_t i);
// Keys' kernel with parameter k.
double tc_resize_cubic(double x, double k);

// What antialiasing weighs for output o (an index) of dimension i, in units of 1 / (2·den).
typedef struct tc_resize_window {
  tc_int size;       // of the largest window
  tc_int first, end; // the source positions of this one
  tc_int center, half,
      stretch; // position p lies (2·den·p + den - center) from the center; one kernel unit is `stretch`
} tc_resize_window;
void tc_resize_window_at(tc_op_args *a, const tc_resize *r, int32_t i, tc_int o, tc_resize_window *w);

// x / total of dtype d, and x itself where the total is zero: a window may lie behind the last element.
tc_bval tc_resize_share(tc_op_args *a, tc_bval x, tc_bval total, tc_dtype d);

// Images of bytes (upsample_bytes.c): argument 0, resampled along its last two dimensions.
tc_lt tc_resize_bytes_lower(tc_op_args *a, const tc_resize *r);
int32_t tc_resize_bytes_ref(tc_op_args *a, const tc_resize *r);

#endif
