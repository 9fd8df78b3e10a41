// What the parts of the template "conv" share (conv.c), and the input that a block brings in for itself (conv_own.c).
#ifndef TC_CORE_KERNEL_TEMPLATES_CONV_H_
#define TC_CORE_KERNEL_TEMPLATES_CONV_H_

#include <stdbool.h>

#include "core/kernel/templates/templates.h"

#include "tc/plugin.h"

// Ways, attribute 0.
enum { TC_CONV_POSITIONS = 1, TC_CONV_PAIRS = 2, TC_CONV_EITHER = 3, TC_CONV_EACH = 4, TC_CONV_OWN = 5 };
enum { TC_CONV_MAX_SPACE = 3 };
// Most bytes of the input that a block brings in: they stay near beside the weights.
enum { TC_CONV_OWN_BYTES = 1 << 16 };

typedef struct tc_conv_shape {
  bool positions;
  int32_t n, lead, rank;                     // spatial dimensions, dimensions before them, all
  int64_t groups, per_group, channels, taps; // output channels in a group, input channels in a group
  int64_t k[TC_CONV_MAX_SPACE], stride[TC_CONV_MAX_SPACE], dilation[TC_CONV_MAX_SPACE], pad[TC_CONV_MAX_SPACE];
  bool skips;                                                // products with padding do not count
  int64_t front[TC_CONV_MAX_SPACE], back[TC_CONV_MAX_SPACE]; // padding that the operand has already, where they do not
} tc_conv_shape;

// [channel of the group, places that the block's positions meet…], zero where there is no input, in the type that is
// computed in.
typedef struct tc_conv_own {
  tc_kmem memory;
  int64_t size[TC_CONV_MAX_SPACE];
  tc_kval first[TC_CONV_MAX_SPACE]; // the block's first position
} tc_conv_own;

// Bytes of it for blocks of these tiles; -1: sizes are not known.
int64_t tc_conv_own_bytes(const tc_stage *s, const tc_conv_shape *p, const int64_t *tile);
tc_conv_own tc_conv_own_make(tc_stage *s, const tc_conv_shape *p, const tc_stage_config *c);
// Inside lanes regions, with a barrier between them: brings in what the block needs of this image and group (-1: there
// is one); the element of input channel `channel` for output position `place` and the kernel's position k.
void tc_conv_own_bring(tc_stage *s, const tc_conv_shape *p, const tc_stage_config *c, const tc_conv_own *o,
                       tc_kval image, tc_kval group);
tc_kval tc_conv_own_load(tc_stage *s, const tc_conv_shape *p, const tc_conv_own *o, tc_kval channel,
                         const tc_kval *place, const tc_kval *k);

#endif
