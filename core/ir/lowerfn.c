// tc_lo_* of tc/lower.h: forwards to the hooks of core/loop; at another moment the call fails.
#include "core/ir/opargs.h"

static bool ready(tc_op_args *a) {
  if (a->lower) return true;
  tc_op_fail(a, "a function that builds loops was called when no loops are built");
  return false;
}

#define CALL(otherwise, hook, ...) return ready(a) ? a->lower->hook(a, __VA_ARGS__) : (otherwise)
#define RUN(hook, ...)                            \
  do {                                            \
    if (ready(a)) a->lower->hook(a, __VA_ARGS__); \
  } while (0)

tc_lt tc_lo_arg(tc_op_args *a, int32_t arg) { CALL(-1, arg, arg); }
tc_lt tc_lo_arg_at(tc_op_args *a, int32_t arg, int32_t k) { CALL(-1, arg_at, arg, k); }
tc_dtype tc_lo_dtype(tc_op_args *a, tc_lt t) { CALL(TC_DTYPE_NONE, dtype, t); }
int32_t tc_lo_rank(tc_op_args *a, tc_lt t) { CALL(0, rank, t); }
tc_int tc_lo_size(tc_op_args *a, tc_lt t, int32_t dim) { CALL(tc_sym_int(a->syms, 1), size, t, dim); }
void tc_lo_result(tc_op_args *a, int32_t result, tc_lt t) { RUN(result, result, t); }
tc_lt tc_lo_view(tc_op_args *a, tc_lt src, int32_t rank, const tc_int *sizes, const tc_int *index, const tc_int *map) {
  CALL(-1, view, src, rank, sizes, index, map);
}
tc_lt tc_lo_expand(tc_op_args *a, tc_lt src, int32_t rank, const tc_int *sizes) { CALL(-1, expand, src, rank, sizes); }
tc_lt tc_lo_reshape(tc_op_args *a, tc_lt src, int32_t rank, const tc_int *sizes) {
  CALL(-1, reshape, src, rank, sizes);
}
tc_bval tc_lo_load(tc_op_args *a, tc_lt t, const tc_int *index) { CALL(-1, load, t, index); }
tc_bval tc_lo_gather(tc_op_args *a, tc_lt t, const tc_int *index, const tc_bval *idx, int32_t wrap) {
  CALL(-1, gather, t, index, idx, wrap);
}
tc_bval tc_lo_load_if(tc_op_args *a, tc_lt t, const tc_int *index, tc_int condition, tc_bval otherwise) {
  CALL(-1, load_if, t, index, condition, otherwise);
}
tc_bval tc_lo_index(tc_op_args *a, tc_int e, tc_dtype dtype) { CALL(-1, index, e, dtype); }
tc_bval tc_lo_const(tc_op_args *a, tc_dtype dtype, double re, double im) { CALL(-1, constant, dtype, re, im); }
tc_bval tc_lo_const_int(tc_op_args *a, tc_dtype dtype, int64_t v) { CALL(-1, constant_int, dtype, v); }
tc_bval tc_lo_op1(tc_op_args *a, int32_t op, tc_bval x) { CALL(-1, op1, op, x); }
tc_bval tc_lo_op2(tc_op_args *a, int32_t op, tc_bval x, tc_bval y) { CALL(-1, op2, op, x, y); }
tc_bval tc_lo_op3(tc_op_args *a, int32_t op, tc_bval x, tc_bval y, tc_bval z) { CALL(-1, op3, op, x, y, z); }
tc_bval tc_lo_cast(tc_op_args *a, tc_bval x, tc_dtype dtype) { CALL(-1, cast, x, dtype); }
tc_bval tc_lo_text(tc_op_args *a, const char *body, int32_t n, const char *const *names, const tc_bval *values) {
  CALL(-1, text, body, n, names, values);
}
tc_lt tc_lo_end(tc_op_args *a, tc_bval value, tc_dtype dtype) { CALL(-1, end, value, dtype); }
tc_lt tc_lo_template(tc_op_args *a, const char *name, int32_t n, const tc_lt *operands, tc_dtype dtype, int32_t rank,
                     const tc_int *sizes, int32_t n_attrs, const tc_int *attrs) {
  CALL(-1, make_template, name, n, operands, dtype, rank, sizes, n_attrs, attrs);
}

void tc_lo_keep(tc_op_args *a) {
  if (ready(a)) a->lower->keep(a);
}

int32_t tc_lo_pairs(tc_op_args *a, tc_dtype dtype) { return ready(a) && a->lower->pairs(a, dtype); }

int32_t tc_lo_in_order(tc_op_args *a, tc_lt t) { return ready(a) ? a->lower->in_order(a, t) : 0; }

int32_t tc_lo_lies(tc_op_args *a, tc_lt t) { return ready(a) ? a->lower->lies(a, t) : 0; }

int32_t tc_lo_made(tc_op_args *a, tc_lt t) { return ready(a) ? a->lower->made(a, t) : 0; }

int32_t tc_lo_keep_by_rows(tc_op_args *a, tc_lt t) { return ready(a) && a->lower->keep_by_rows(a, t); }

int64_t tc_lo_on_chip(tc_op_args *a) { return ready(a) ? a->lower->on_chip(a) : 0; }

int32_t tc_lo_simd_bytes(tc_op_args *a) { return ready(a) ? a->lower->simd_bytes(a) : 0; }

int32_t tc_lo_in_place(tc_op_args *a) { return ready(a) && a->lower->in_place(a); }

void tc_lo_store_at(tc_op_args *a, const tc_int *index, const tc_bval *idx, int32_t wrap, tc_bval condition) {
  RUN(store_at, index, idx, wrap, condition);
}

tc_bval tc_lo_require(tc_op_args *a, tc_bval condition, tc_bval value, const char *text) {
  CALL(-1, require, condition, value, text);
}

void tc_lo_call(tc_op_args *a) {
  if (ready(a)) a->lower->call(a);
}

void tc_lo_end2(tc_op_args *a, tc_bval value, tc_dtype dtype, tc_lt out[2]) {
  out[0] = out[1] = -1;
  RUN(end2, value, dtype, out);
}

// Index symbols are zeros when there are none, so that a lowering may go on after a failure.
static void zero_index(tc_op_args *a, int32_t n, tc_int *out) {
  for (int32_t i = 0; i < n; i++) out[i] = tc_sym_int(a->syms, 0);
}

void tc_lo_indices(tc_op_args *a, int32_t rank, const tc_int *sizes, tc_int *out) {
  zero_index(a, rank, out);
  RUN(indices, rank, sizes, out);
}

void tc_lo_begin(tc_op_args *a, int32_t rank, const tc_int *sizes, tc_int *out_index) {
  zero_index(a, rank, out_index);
  RUN(begin, rank, sizes, out_index);
}

void tc_lo_begin_reduce(tc_op_args *a, int32_t kind, int32_t n_par, const tc_int *par_sizes, int32_t n_red,
                        const tc_int *red_sizes, tc_int *out_index) {
  zero_index(a, n_par + n_red, out_index);
  RUN(begin_reduce, kind, n_par, par_sizes, n_red, red_sizes, out_index);
}
void tc_lo_random(tc_op_args *a, tc_int element, tc_bval out[4]) {
  for (int32_t i = 0; i < 4; i++) out[i] = -1;
  RUN(random, element, out);
}
