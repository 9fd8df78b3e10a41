// What the templates of attention share. A lane has a row of one side (queries or keys), which lies transposed in
// shared memory, and goes over the rows of the other side, whose elements are the same for all lanes: scalar loads.
#ifndef TC_CORE_KERNEL_TEMPLATES_ATTENTION_H_
#define TC_CORE_KERNEL_TEMPLATES_ATTENTION_H_

#include <stdbool.h>

#include "core/kernel/templates/templates.h"

// Rows of the other side that are looked at together, and how many of them, or of the columns, at once in registers.
enum { TC_ATTENTION_ROWS = 32, TC_ATTENTION_UNROLL = 8 };
enum { TC_ATTENTION_FEW = 8 }; // rows of queries, at most, for which lanes are keys (attention_few.c)

typedef struct tc_attention {
  tc_stage *s;
  tc_kb *b;
  int32_t rank, lanes;
  tc_dtype type; // computed in
  double scale;
  bool causal;
  int32_t mask;                              // operand; -1: none
  tc_kval batch[TC_MAX_RANK], row0, row, ok; // of this block, its first row, this lane's row and whether it is there
} tc_attention;

tc_dtype tc_attention_type(const tc_stage *s); // computed in

// Configurations of one lane per row, each with `per_lane` elements of shared memory and `products` multiply-adds for a
// pair of rows. D and E, the lengths of rows, have to be known.
int32_t tc_attention_candidates(const tc_stage *s, int64_t d, int64_t e, int64_t per_lane, int64_t products,
                                int32_t other, int32_t max, tc_stage_config *out, int32_t *out_n);
// Reads the attributes that all have: the scale's bits, causal, mask (which is operand `mask_operand`).
void tc_attention_begin(tc_attention *t, tc_stage *s, const tc_stage_config *c, int32_t mask_operand);
// Opens the lanes.
void tc_attention_open(tc_attention *t);

static inline tc_kval tc_attention_i64(tc_attention *t, int64_t v) { return tc_kb_int(t->b, TC_I64, v); }
static inline tc_kval tc_attention_real(tc_attention *t, double v) { return tc_kb_real(t->b, t->type, v); }
static inline tc_kval tc_attention_add(tc_attention *t, tc_kval x, tc_kval y) {
  return tc_kb_op2(t->b, TC_K_ADD, x, y);
}
// Address of (i, this lane) in an array of rows of `lanes` elements.
tc_kval tc_attention_cell(tc_attention *t, tc_kval i);
// The indices of a row, but the column.
void tc_attention_index(const tc_attention *t, tc_kval row, tc_kval *index);
tc_kval tc_attention_load(tc_attention *t, int32_t operand, tc_kval row, tc_kval column, tc_kval mask);

// This lane's row of an operand, times a factor, into mem[n][lanes].
void tc_attention_read_row(tc_attention *t, int32_t operand, int64_t n, double factor, tc_kmem mem);
void tc_attention_zero(tc_attention *t, tc_kmem mem, int64_t n);
// out[j] = Σ_d operand[first + j, d] · mem[d] for j < n ≤ TC_ATTENTION_UNROLL.
void tc_attention_dots(tc_attention *t, int32_t operand, int64_t d, tc_kmem mem, tc_kval first, int32_t n,
                       tc_kval *out);
// The score of a pair: −inf where the query may not attend to the key.
tc_kval tc_attention_masked(tc_attention *t, tc_kval score, tc_kval query, tc_kval key);
// mem[e] = mem[e] · alpha + Σ_j factors[j] · operand[first + j, e] for all e < n and the `count` rows from `first`.
// alpha -1: 1.
void tc_attention_add_rows(tc_attention *t, int32_t operand, int64_t n, tc_kmem mem, tc_kmem factors, tc_kval first,
                           tc_kval count, tc_kval alpha);
// mem[0 … n-1] · factor is the result's row from column `at` on.
void tc_attention_write_row(tc_attention *t, tc_kmem mem, int64_t n, int64_t at, tc_kval factor);

// attention_few.c. False if there are more rows, or unknown numbers.
bool tc_attention_few_candidate(const tc_stage *s, int64_t d, int64_t e, tc_stage_config *out);
int32_t tc_attention_few_emit(tc_stage *s, const tc_stage_config *c);

#endif
