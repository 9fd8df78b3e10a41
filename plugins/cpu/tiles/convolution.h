// Convolutions over bf16 on the processor's matrix unit (AMX): what the call (convolution_calls.c) and the inner code
// (convolution.c) share.
#ifndef TC_PLUGINS_CPU_TILES_CONVOLUTION_H_
#define TC_PLUGINS_CPU_TILES_CONVOLUTION_H_

#include <stdbool.h>
#include <stdint.h>

// Output channels and positions of a tile, input channels of a step; most positions of a kernel.
enum { TILES_SIDE = 16, TILES_DEPTH = 32, TILES_TAPS = 128 };

// Functions behind a convolution, by their names in the op.
enum { TILES_THEN_NONE, TILES_THEN_RELU, TILES_THEN_RELU6, TILES_THEN_HARDSWISH, TILES_THEN_SILU };

typedef struct tiles_tap {
  int32_t phase;    // which plane of every stride-th pixel it reads
  int64_t row, col; // and where that begins
} tiles_tap;

// One convolution of known sizes; a group of channels is one of its own. Strides are in elements.
typedef struct tiles_convolution {
  int64_t images, groups, in, out; // in, out: channels of a group
  int64_t h, w, oh, ow, kh, kw, sy, sx, dy, dx, py, px;
  int64_t x_image, x_channel, x_row, x_col;
  int64_t y_image, y_channel, y_position; // of the result, whose positions lie in one row, and of what is added
  bool rows; // packed weights have the channels of all the kernel's columns as one dimension
  int32_t then;
  // What tiles_convolution_plan finds:
  int64_t depth;           // steps of TILES_DEPTH packed channels
  int64_t pitch, more;     // pixels of a packed row; packed rows beyond those of the output
  int64_t unit_rows, part; // output rows of a unit; units of an image
  int64_t unit_bytes;
  int32_t n_phases, n_taps;
  int64_t phase_y[TILES_TAPS], phase_x[TILES_TAPS];
  tiles_tap taps[TILES_TAPS];
} tiles_convolution;

// Units (some rows of an image) unit … unit + n_units - 1 of one group, blocks of 16 output channels block … block +
// n_blocks - 1.
typedef struct tiles_convolution_task {
  const uint16_t *x, *weights, *other; // other: what is added, or NULL
  const float *scale, *shift;          // by output channel, or NULL
  uint16_t *y;
  int64_t group, unit, n_units, block, n_blocks;
} tiles_convolution_task;

// Fills in the rest, for units of at most `rows` output rows. false: it has too many taps.
bool tiles_convolution_plan(tiles_convolution *c, int64_t rows);
// Bytes of scratch memory, 64-byte aligned, for tasks of at most n_units.
int64_t tiles_convolution_scratch(const tiles_convolution *c, int64_t n_units);
// Between tiles_enter and tiles_leave.
void tiles_convolve(const tiles_convolution *c, const tiles_convolution_task *t, char *scratch);

#endif
