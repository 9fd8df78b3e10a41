// Integers that ops take as symbols (SymInt), op by op: a captured function that gives numbers of its own there
// computes what a call with the values does. Where the op does with symbols one compilation serves all; where it does
// not each value is a guard, and what was compiled for it is right.
#include <math.h>

#include "tests/unit/api/backends.h"

enum { NUMBERS = 2, TURNS = 3, ARGUMENTS = 16, LISTS = 16, TENSORS = 6 };

// The arguments in order: tensors by letter (below), a and b the numbers, integers, [lists of those], - for none, true,
// false, 0.5 for a real.
typedef struct argument_case {
  const char *op, *arguments;
  int64_t values[TURNS][NUMBERS];
  int32_t compiles; // of three calls: 1, or for each value
} argument_case;

static const argument_case cases[] = {
    {"aten::slice.Tensor", "x 2 a b 1", {{0, 3}, {2, 6}, {1, 5}}, 1},
    {"aten::slice.Tensor", "x 3 a 8 b", {{0, 2}, {1, 3}, {3, 1}}, 3},
    {"aten::select.int", "x 2 a", {{0, 0}, {5, 0}, {-2, 0}}, 1},
    {"aten::narrow", "x 3 a b", {{0, 3}, {2, 6}, {1, 5}}, 1},
    {"aten::narrow_copy", "x 3 a b", {{0, 3}, {2, 6}, {1, 5}}, 1},
    {"aten::expand", "v [a,48]", {{2, 0}, {5, 0}, {3, 0}}, 1},
    {"aten::view", "v [a,b]", {{6, 8}, {4, 12}, {16, 3}}, 1},
    {"aten::reshape", "m [a,-1]", {{6, 0}, {4, 0}, {16, 0}}, 1},
    {"aten::unflatten.int", "v 0 [a,b]", {{6, 8}, {4, 12}, {16, 3}}, 1},
    {"aten::repeat", "m [a,b]", {{2, 1}, {1, 3}, {2, 2}}, 1},
    {"aten::roll", "m [a,b] [0,1]", {{2, 1}, {-1, 3}, {7, 9}}, 1},
    {"aten::as_strided", "v [a,b] [8,1] 1", {{2, 3}, {4, 5}, {3, 2}}, 1},
    {"aten::as_strided", "v [3,4] [a,b] 0", {{4, 1}, {8, 2}, {1, 3}}, 1},
    {"aten::as_strided", "v [3,4] [4,1] a", {{0, 0}, {8, 0}, {11, 0}}, 1},
    {"aten::as_strided_scatter", "v n [3,4] [4,1] a", {{0, 0}, {8, 0}, {11, 0}}, 1},
    {"aten::as_strided_scatter", "v n [3,4] [a,b] 0", {{4, 1}, {8, 2}, {12, 3}}, 1},
    {"aten::select_scatter", "m r 0 a", {{0, 0}, {5, 0}, {-2, 0}}, 1},
    {"aten::slice_scatter", "m m 0 a b 1", {{0, 6}, {0, 9}, {-7, 8}}, 1},
    {"aten::constant_pad_nd", "m [a,b] 0.5", {{1, 2}, {0, 3}, {2, -1}}, 1},
    {"aten::reflection_pad2d", "x [a,b,1,1]", {{1, 2}, {0, 3}, {2, 1}}, 1},
    {"aten::replication_pad2d", "x [a,b,1,1]", {{1, 2}, {0, 3}, {2, 1}}, 1},
    {"aten::new_zeros", "m [a,b]", {{1, 2}, {4, 3}, {2, 1}}, 1},
    {"aten::new_full", "m [a,b] 0.5", {{1, 2}, {4, 3}, {2, 1}}, 1},
    {"aten::topk", "m a 1 true true", {{2, 0}, {3, 0}, {5, 0}}, 1},
    {"aten::kthvalue", "m a 1 false", {{2, 0}, {3, 0}, {5, 0}}, 1},
    {"aten::repeat_interleave.self_int", "m a 1 -", {{2, 0}, {3, 0}, {1, 0}}, 1},
    {"aten::split_with_sizes", "m [a,b] 0", {{2, 4}, {3, 3}, {1, 5}}, 1},
    {"aten::unfold", "m 1 a b", {{2, 1}, {3, 2}, {4, 3}}, 3},
    {"aten::diagonal", "m a 0 1", {{0, 0}, {2, 0}, {-1, 0}}, 3},
    {"aten::tril", "m a", {{0, 0}, {2, 0}, {-1, 0}}, 1},
    {"aten::_adaptive_avg_pool2d", "x [a,b]", {{2, 3}, {3, 4}, {1, 2}}, 1},
    {"aten::adaptive_max_pool2d", "x [a,b]", {{2, 3}, {3, 4}, {1, 2}}, 3},
    {"aten::upsample_nearest2d", "x [a,b] - -", {{4, 3}, {9, 12}, {7, 8}}, 1},
    {"aten::upsample_bilinear2d", "x [a,b] false - -", {{4, 3}, {9, 12}, {7, 8}}, 1},
    {"aten::upsample_bilinear2d", "x [a,b] true - -", {{4, 3}, {9, 12}, {7, 8}}, 1},
    {"aten::upsample_bicubic2d", "x [a,b] false - -", {{4, 3}, {9, 12}, {7, 8}}, 1},
    {"aten::im2col", "x [2,2] [1,1] [0,0] [a,b]", {{1, 1}, {2, 1}, {1, 3}}, 3},
    {"aten::convolution", "x w - [a,b] [0,0] [1,1] false [0,0] 1", {{1, 1}, {2, 1}, {1, 3}}, 3},
    {"aten::convolution", "x w - [1,1] [a,b] [1,1] false [0,0] 1", {{1, 1}, {2, 1}, {0, 3}}, 1},
    {"aten::select_backward", "r [a,8] 0 b", {{6, 1}, {3, 2}, {9, 8}}, 1},
    {"aten::slice_backward", "n [a,4] 0 b 99 1", {{6, 3}, {5, 2}, {9, 6}}, 1},
};

// ---- arguments ----
typedef struct call_of {
  const argument_case *k;
  tc_tensor *tensors[TENSORS];
  int64_t values[NUMBERS];
  tc_context *c;
} call_of;

static const char letters[] = "xmvwnr";

typedef struct argument_list {
  tc_argument a[ARGUMENTS];
  int64_t ints[ARGUMENTS][LISTS];
  int32_t n;
} argument_list;

static int64_t integer(const char **at, const int64_t *numbers) {
  if (**at == 'a' || **at == 'b') return numbers[*(*at)++ - 'a'];
  char *end;
  int64_t v = strtoll(*at, &end, 10);
  assert_ptr_not_equal(end, *at);
  *at = end;
  return v;
}

static void read_list(argument_list *l, tc_argument *a, const char **at, const int64_t *numbers) {
  int64_t *list = l->ints[l->n];
  a->kind = TC_ARGUMENT_INTS, a->v.integers = list;
  for (++*at; **at != ']'; *at += **at == ',') list[a->n++] = integer(at, numbers);
  ++*at;
}

static void read_arguments(argument_list *l, const call_of *q, tc_tensor *const *tensors, const int64_t *numbers) {
  const char *at = q->k->arguments, *letter;
  *l = (argument_list){.n = 0};
  for (; *at; at += *at == ' ', l->n++) {
    tc_argument *a = &l->a[l->n];
    if (*at == '-' && (at[1] == ' ' || !at[1])) a->kind = TC_ARGUMENT_NONE, at++;
    else if (*at == '[') read_list(l, a, &at, numbers);
    else if (strncmp(at, "true", 4) == 0) a->kind = TC_ARGUMENT_BOOL, a->v.integer = 1, at += 4;
    else if (strncmp(at, "false", 5) == 0) a->kind = TC_ARGUMENT_BOOL, at += 5;
    else if (strncmp(at, "0.5", 3) == 0) *a = tc_scalar_real(0.5), at += 3;
    else if ((letter = strchr(letters, *at)))
      a->kind = TC_ARGUMENT_TENSOR, a->v.tensor = tensors[letter - letters], at++;
    else a->kind = TC_ARGUMENT_INT, a->v.integer = integer(&at, numbers);
  }
}

static int32_t apply(const call_of *q, tc_tensor *const *tensors, const int64_t *numbers, tc_tensor **out) {
  enum { RESULTS = 4 };
  argument_list l;
  tc_tensor *results[RESULTS];
  int32_t n;
  read_arguments(&l, q, tensors, numbers);
  int32_t code = tc_call_op(q->c, q->k->op, l.n, l.a, RESULTS, results, &n);
  if (code == TC_STATUS_OK) *out = tc_aten_clone(results[0], 0);
  return tc_last_code();
}

static int32_t body(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  const call_of *q = self;
  (void)n_in, (void)n_out;
  int64_t numbers[NUMBERS] = {tc_dynamic_int("a", &q->values[0], -99, 99).as_argument,
                              tc_dynamic_int("b", &q->values[1], -99, 99).as_argument};
  return apply(q, in, numbers, out);
}

// ---- tests ----
static tc_tensor *filled(tc_context *c, int32_t rank, const int64_t *sizes) {
  tc_tensor *t = tc_new_tensor(c, TC_F32, rank, sizes);
  for (int64_t i = 0; i < tc_numel_of(t); i++) ((float *)tc_data_of(t))[i] = 2.0f * (float)rand() / (float)RAND_MAX - 1;
  return t;
}

static void compare(const argument_case *k, int turn, tc_tensor *got, tc_tensor *want) {
  assert_int_equal(tc_rank_of(got), tc_rank_of(want));
  for (int32_t d = 0; d < tc_rank_of(want); d++)
    if (tc_size_of(got, d) != tc_size_of(want, d))
      fail_msg("%s(%s), values %d: size %d is %d, not %d", k->op, k->arguments, turn, d, (int)tc_size_of(got, d),
               (int)tc_size_of(want, d));
  const float *a = tc_data_of(got), *b = tc_data_of(want);
  for (int64_t i = 0; i < tc_numel_of(want); i++)
    if (!(fabsf(a[i] - b[i]) <= 1e-5f))
      fail_msg("%s(%s), values %d: %g, not %g", k->op, k->arguments, turn, a[i], b[i]);
}

static void each_op_takes_numbers(void **state) {
  (void)state;
  seed_rand();
  FOR_BACKENDS(c, "strict=true") {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      tc_scope *s = tc_scope_open();
      call_of q = {.k = &cases[i], .c = c};
      static const int64_t sizes[TENSORS][4] = {{2, 3, 6, 8}, {6, 8}, {48}, {4, 3, 2, 2}, {3, 4}, {8}};
      static const int32_t ranks[TENSORS] = {4, 2, 1, 4, 2, 1};
      for (int k = 0; k < TENSORS; k++) q.tensors[k] = filled(c, ranks[k], sizes[k]);
      tc_compile_options o = {.struct_size = sizeof o, .name = q.k->op, .n_inputs = TENSORS, .n_outputs = 1};
      tc_function *f;
      assert_int_equal(tc_compile(c, body, &q, &o, &f), TC_STATUS_OK);
      for (int turn = 0; turn < TURNS; turn++) {
        tc_tensor *got = NULL, *want = NULL;
        memcpy(q.values, q.k->values[turn], sizeof q.values);
        if (apply(&q, q.tensors, q.values, &want) != TC_STATUS_OK || tc_call(f, q.tensors, &got) != TC_STATUS_OK)
          fail_msg("%s(%s), values %d: %s", q.k->op, q.k->arguments, turn, tc_last_error());
        compare(q.k, turn, got, want);
      }
      int32_t compiles = (int32_t)tc_function_stats_of(f).compiles;
      if (compiles != q.k->compiles) fail_msg("%s(%s) is compiled %d times", q.k->op, q.k->arguments, compiles);
      tc_function_destroy(f);
      tc_scope_close(s);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_op_takes_numbers),
  };
  return TC_RUN(tests);
}
