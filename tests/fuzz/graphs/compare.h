// What the graph fuzzer and the scheduler's tests share: devices without a plugin, random inputs with the strides that
// a graph promises, comparison with the references.
#ifndef TC_TESTS_FUZZ_GRAPHS_COMPARE_H_
#define TC_TESTS_FUZZ_GRAPHS_COMPARE_H_

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/ir/graph.h"
#include "core/schedule/schedule.h"

typedef struct test_device {
  const char *name;
  tc_device_props props;
} test_device;
static const test_device devices[] = {
    {"cpu",
     {.simd_bytes = 64,
      .simd_registers = 32,
      .cores = 2,
      .l1_bytes = 32768,
      .l2_bytes = 1 << 20,
      .shared_bytes = 1 << 18,
      .launch_ns = 1000,
      .bytes_per_ns = 20}},
    {"cpu-many",
     {.simd_bytes = 32,
      .simd_registers = 16,
      .cores = 64,
      .l1_bytes = 32768,
      .l2_bytes = 1 << 20,
      .shared_bytes = 1 << 18,
      .launch_ns = 1000,
      .bytes_per_ns = 20}},
    {"gpu",
     {.max_lanes = 1024, .subgroup = 32, .cores = 100, .shared_bytes = 49152, .launch_ns = 3000, .bytes_per_ns = 2000}},
};
enum { N_DEVICES = sizeof devices / sizeof *devices, MOST_IO = 64 };

// ---- inputs ----
static inline tc_status make_inputs(const tc_graph *g, const int64_t *symbols, uint64_t seed, tc_tensor *out) {
  uint64_t state = seed * 977 + 5;
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_tensor_type *t = &g->inputs.data[i].value->type;
    int64_t sizes[TC_MAX_RANK], strides[TC_MAX_RANK], offset, span = 1;
    bool empty = false;
    for (int32_t d = 0; d < t->rank; d++) {
      TC_TRY(tc_sym_eval(t->sizes[d], symbols, &sizes[d]));
      TC_TRY(tc_sym_eval(t->strides[d], symbols, &strides[d]));
      span += (sizes[d] - 1) * strides[d];
      empty |= sizes[d] == 0;
    }
    TC_TRY(tc_sym_eval(t->offset, symbols, &offset));
    if (empty) span = 0;
    tc_storage *s;
    TC_TRY(tc_storage_create(tc_system_allocator(), (size_t)(offset + span) * (size_t)tc_dtype_size(t->dtype), &s));
    memset(s->data, 0xff, s->size);
    tc_status made = tc_tensor_view(s, t->dtype, t->rank, sizes, strides, offset, &out[i]);
    tc_storage_unref(s);
    TC_TRY(made);
    tc_tensor_fill_uniform_int(
        &tc_executor_serial, &out[i], (state = state * 6364136223846793005u + 1442695040888963407u),
        t->dtype == TC_BOOL || tc_dtype_class(t->dtype) == 'u' ? 0 : -3, t->dtype == TC_BOOL ? 2 : 4);
  }
  return TC_OK;
}

// ---- comparison ----
typedef struct tolerance {
  bool exact;
  double eps;   // of the coarsest type of the graph
  double least; // error of sums whose terms cancel
  // The same where every element should be smaller than `least`. The norm of constant rows is nothing but what its mean
  // rounds, in proportion to the rows' numbers and not to the result's. 0: no such allowance
  double cancelled;
} tolerance;

static inline void each(const tc_tensor *t, int64_t k, int64_t *index) {
  for (int32_t d = t->rank - 1; d >= 0; d--) {
    index[d] = k % t->sizes[d];
    k /= t->sizes[d];
  }
}

// `narrow` rounds as the program does, `wide` does not: what they differ by is what rounding does to this graph.
static inline tc_status compare(const tc_tensor *got, const tc_tensor *narrow, const tc_tensor *wide, tolerance tol,
                                int32_t output) {
  int64_t n = tc_tensor_numel(narrow), index[TC_MAX_RANK];
  if (got->dtype != narrow->dtype || got->rank != narrow->rank)
    return tc_error(TC_STATUS_MISMATCH, "output %d is %s of rank %d, expected %s of rank %d", output,
                    tc_dtype_name(got->dtype), got->rank, tc_dtype_name(narrow->dtype), narrow->rank);
  for (int32_t d = 0; d < got->rank; d++) {
    if (got->sizes[d] != narrow->sizes[d])
      return tc_error(TC_STATUS_MISMATCH, "output %d: size %d is %lld, expected %lld", output, d,
                      (long long)got->sizes[d], (long long)narrow->sizes[d]);
    if (narrow->sizes[d] > 1 && n > 0 && got->strides[d] != narrow->strides[d])
      return tc_error(TC_STATUS_MISMATCH, "output %d: stride %d is %lld, expected %lld", output, d,
                      (long long)got->strides[d], (long long)narrow->strides[d]);
  }
  double most = 0, drift = 0;
  for (int64_t k = 0; k < n; k++) {
    each(narrow, k, index);
    double a, b;
    tc_tensor_get(narrow, index, &a, NULL);
    tc_tensor_get(wide, index, &b, NULL);
    if (isfinite(b) && fabs(b) > most) most = fabs(b);
    if (isfinite(a) && isfinite(b) && fabs(a - b) > drift) drift = fabs(a - b);
  }
  double allowed =
      tol.exact ? 0 : 16 * drift + tol.eps * (most + 1e-3) + fmax(tol.least, most < tol.least ? tol.cancelled : 0);
  for (int64_t k = 0; k < n; k++) {
    each(narrow, k, index);
    double a, b, c;
    tc_tensor_get(narrow, index, &a, NULL);
    tc_tensor_get(wide, index, &b, NULL);
    tc_tensor_get(got, index, &c, NULL);
    if (isnan(a) && isnan(c)) continue;
    if (!tol.exact && (!isfinite(a) || !isfinite(b)) && (isfinite(a) != isfinite(b) || a == c)) continue;
    if (a == c || fabs(c - b) <= allowed) continue;
    char at[200] = "";
    for (int32_t d = 0; d < got->rank; d++)
      snprintf(at + strlen(at), sizeof at - strlen(at), "%s%lld", d ? ", " : "", (long long)index[d]);
    return tc_error(TC_STATUS_MISMATCH, "output %d[%s] is %.9g, expected %.9g (wide %.12g, allowed error %.3g%s)",
                    output, at, c, a, b, allowed, tol.exact ? ", exact" : "");
  }
  return TC_OK;
}

#endif
