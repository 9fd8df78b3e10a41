// Attention on the processor's matrix unit (AMX): what the call (calls.c) and the inner code (attention.c) share.
#ifndef TC_PLUGINS_CPU_TILES_TILES_H_
#define TC_PLUGINS_CPU_TILES_TILES_H_

#include <stdbool.h>
#include <stdint.h>

#include "tc/plugin.h"

// Queries that are multiplied at once, and keys that are packed at once.
enum { TILES_ROWS = 32, TILES_KEYS = 128 };

typedef struct tiles_matrix {
  int64_t at;       // bytes: the matrix's first element, behind the address of the tensor
  int64_t row, col; // strides in elements
} tiles_matrix;

// Rows of one head: queries first … first + rows - 1 and all keys.
typedef struct tiles_task {
  const uint16_t *q, *k, *v;
  const char *mask; // NULL: none
  uint16_t *out;
  float *logs; // the logarithms of the rows' sums; NULL: not wanted
  int64_t q_row, q_col, k_row, k_col, v_row, v_col, mask_row, mask_col, out_row, out_col,
      log_row; // strides in elements
  int64_t first, rows, keys, d, e;
  float scale; // times log2(e): shares are powers of two
  tc_dtype mask_type;
  bool causal;
} tiles_task;

// Bytes of scratch memory, 64-byte aligned, for tasks of at most `rows` rows.
int64_t tiles_scratch_bytes(int64_t rows, int64_t d, int64_t e);
// Prepares the calling thread's matrix unit, and leaves it. What runs tasks lies between the two.
void tiles_enter(void);
void tiles_leave(void);
void tiles_attention(const tiles_task *t, char *scratch);

#endif
