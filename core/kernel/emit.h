// Emission: a scheduled group → one kernel, with what the plan must pass to it.
//
// Four shapes (emit_rows.c, emit_short.c, emit_columns.c, emit_stage.c):
//   rows     a block is one row, or a chunk of a row when nothing is reduced; lanes run along the row
//   short    lanes are threads and nothing is reduced: a block is several rows, a lane makes a run of elements
//   columns  lanes run along a parallel dimension; reductions are loops inside each lane
//   stage    a block is a template's tile; what feeds and follows it runs in its holes, row work over the tile after it
// All evaluate loop bodies through emit_body.c, which inlines producers and remembers values per scope.
#ifndef TC_CORE_KERNEL_EMIT_H_
#define TC_CORE_KERNEL_EMIT_H_

#include "core/kernel/kernel.h"
#include "core/schedule/schedule.h"

// An argument of the kernel, in order.
typedef struct tc_emit_param {
  const tc_buf *buf;    // memory, or
  const tc_sym *scalar; // a number that the host computes from the sizes
  tc_dtype dtype;
  bool writes;
} tc_emit_param;

typedef struct tc_emit_site {
  tc_sv text; // "index out of range in aten::embedding"
  tc_sv source;
} tc_emit_site;

typedef struct tc_emitted {
  tc_kernel *kernel; // legal and simplified, ready for a plugin
  int32_t code;      // where there is only machine code: its number in the plan
  TC_VEC(tc_emit_param) params;
  TC_VEC(tc_emit_site) sites; // by error site number
  const tc_sym *blocks;
  const tc_sym *grain; // blocks that are worth a thread
} tc_emitted;

typedef struct tc_emit_options {
  const tc_logger *logger;
  const tc_device_props *device;
  bool variants; // plans also get kernels for sizes of which more is known
  bool freeze;   // parameters, buffers and constants that nothing changes are the same in every run: calls are told
  bool over;     // results may have the place of what is read for the last time
  // Bytes to which inputs and outputs of the program are aligned, in front of their offsets; 0: inputs like their
  // elements, outputs like buffers of the arena.
  int32_t outside_align;
  // Which of a template's n configurations is taken, of those that fit, best first; `stage` tells in words what they
  // are for. NULL: the first.
  int32_t (*pick)(void *self, tc_sv name, tc_sv stage, int32_t n, const struct tc_stage_config *configs);
  void *pick_self;
} tc_emit_options;

// For the host functions that templates of plugins call: where a stage allocates, and the failure when that has run
// out.
struct tc_stage;
tc_arena *tc_stage_arena(const struct tc_stage *s);
void tc_stage_out_of_memory(const struct tc_stage *s);

TC_NODISCARD tc_status tc_emit_group(tc_schedule *s, tc_group *g, const tc_emit_options *o, tc_emitted *out);

#endif
