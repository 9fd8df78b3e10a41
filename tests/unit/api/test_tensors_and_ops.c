// The embedder's API: handles, scopes, errors, DLPack, ops one at a time, on the references and on a device.
#include <pthread.h>

#include "core/runtime/eager.h"
#include "tests/unit/api/backends.h"

static tc_tensor *range(tc_context *c, int32_t rank, const int64_t *sizes, float first) {
  tc_tensor *t = tc_new_tensor(c, TC_F32, rank, sizes);
  assert_non_null(t);
  for (int64_t i = 0; i < tc_numel_of(t); i++) ((float *)tc_data_of(t))[i] = first + (float)i;
  return t;
}

static void expect(tc_tensor *t, int64_t n, const float *want) {
  if (!t) fail_msg("%s", tc_last_error());
  assert_int_equal(tc_numel_of(t), n);
  const float *have = tc_data_of(t);
  for (int64_t i = 0; i < n; i++)
    if (have[i] != want[i]) fail_msg("element %d is %g, not %g", (int)i, (double)have[i], (double)want[i]);
}

static void ops_give_new_tensors(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    tc_tensor *x = range(c, 1, (int64_t[]){4}, 1), *y = range(c, 1, (int64_t[]){4}, 10);
    tc_tensor *z = tc_aten_add_Tensor(tc_aten_mul_Tensor(x, y), x, tc_scalar_int(2));
    expect(z, 4, (float[]){12, 26, 42, 60});
    expect(tc_aten_mul_Scalar(x, tc_scalar_real(0.5)), 4, (float[]){.5f, 1, 1.5f, 2});
    expect(tc_aten_sum_dim_IntList(tc_aten_mul_Tensor(x, x), (int64_t[]){0}, 1, 0, 0), 1, (float[]){30});
    tc_scope_close(s);
  }
}

static void views_share_memory(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    tc_tensor *x = range(c, 2, (int64_t[]){2, 3}, 0);
    tc_tensor *t = tc_aten_t(x);
    assert_int_equal(tc_size_of(t, 0), 3);
    assert_int_equal(tc_stride_of(t, -1), 3);
    assert_ptr_equal(tc_data_of(t), tc_data_of(x));
    tc_tensor *row = tc_aten_select_int(x, 0, 1);
    expect(row, 3, (float[]){3, 4, 5});
    tc_tensor *tail = tc_aten_select_int(tc_aten_t(row), 0, 2); // a view of a view with an offset
    expect(tail, 1, (float[]){5});
    assert_ptr_equal(tc_data_of(tail), (float *)tc_data_of(x) + 5);
    // An offset that is given counts from where the storage begins, as PyTorch's does; else the view begins where its
    // base does.
    expect(tc_aten_as_strided(row, (int64_t[]){2}, 1, (int64_t[]){1}, 1, (int64_t[]){1}), 2, (float[]){1, 2});
    assert_ptr_equal(tc_data_of(tc_aten_as_strided(row, (int64_t[]){2}, 1, (int64_t[]){1}, 1, NULL)), tc_data_of(row));
    // So it does where the result is a copy.
    tc_tensor *head = tc_aten_select_int(x, 0, 0), *other = tc_aten_slice_Tensor(row, 0, NULL, (int64_t[]){2}, 1);
    expect(tc_aten_as_strided_copy(row, (int64_t[]){2}, 1, (int64_t[]){1}, 1, (int64_t[]){4}), 2, (float[]){4, 5});
    expect(tc_aten_as_strided_copy(head, (int64_t[]){2}, 1, (int64_t[]){1}, 1, (int64_t[]){1}), 2, (float[]){1, 2});
    expect(tc_aten_as_strided_copy(row, (int64_t[]){2}, 1, (int64_t[]){1}, 1, NULL), 2, (float[]){3, 4});
    expect(tc_aten_as_strided_scatter(row, other, (int64_t[]){2}, 1, (int64_t[]){1}, 1, (int64_t[]){4}), 3,
           (float[]){3, 3, 4});
    expect(tc_aten_as_strided_scatter(head, other, (int64_t[]){2}, 1, (int64_t[]){1}, 1, (int64_t[]){1}), 3,
           (float[]){0, 3, 4});
    expect(tc_aten_as_strided_scatter(row, other, (int64_t[]){2}, 1, (int64_t[]){1}, 1, (int64_t[]){2}), 3,
           (float[]){4, 4, 5});
    // Kernels read views with an offset and with strides right.
    expect(tc_aten_add_Tensor(row, row, tc_scalar_int(1)), 3, (float[]){6, 8, 10});
    expect(tc_aten_clone(tc_aten_reshape(t, (int64_t[]){6}, 1), 1), 6, (float[]){0, 3, 1, 4, 2, 5});
    tc_scope_close(s);
  }
}

static void ops_in_place_write(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    tc_tensor *x = range(c, 2, (int64_t[]){2, 2}, 1);
    tc_tensor *second = tc_aten_select_int(x, 1, 1);
    tc_tensor *same = tc_aten_mul__Scalar(second, tc_scalar_int(10));
    if (!same) fail_msg("%s", tc_last_error());
    assert_ptr_equal(tc_data_of(same), tc_data_of(second));
    expect(x, 4, (float[]){1, 20, 3, 40});
    tc_scope_close(s);
  }
}

static void several_results(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    tc_tensor *x = range(c, 2, (int64_t[]){2, 3}, 0), *values, *indices, *parts[4];
    int32_t n;
    assert_int_equal(tc_aten_max_dim(x, 1, 0, &values, &indices), TC_STATUS_OK);
    expect(values, 2, (float[]){2, 5});
    assert_int_equal(tc_dtype_of(indices), TC_I64);
    assert_int_equal(((int64_t *)tc_data_of(indices))[1], 2);
    assert_int_equal(tc_aten_split_Tensor(x, 2, 1, 4, parts, &n), TC_STATUS_OK);
    assert_int_equal(n, 2);
    assert_int_equal(tc_size_of(parts[1], 1), 1);
    tc_scope_close(s);
  }
}

static void sizes_do_not_compile_again(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    for (int64_t n = 2; n < 40; n += 3) {
      tc_scope *s = tc_scope_open();
      tc_tensor *x = range(c, 2, (int64_t[]){n, n + 1}, 1);
      tc_tensor *y = tc_aten_sub_Tensor(x, x, tc_scalar_int(1));
      if (!y) fail_msg("%s", tc_last_error());
      for (int64_t i = 0; i < n * (n + 1); i++) assert_true(((float *)tc_data_of(y))[i] == 0);
      tc_scope_close(s);
    }
  }
}

static int64_t compiles(tc_context *c) { return tc_eager_stats_of(c->eager).compiles; }

// Ops whose compilation makes many loop variables: these have no part in the guards. No two sizes are equal by chance.
static void large_ops_compile_once(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    for (int64_t n = 5; n < 9; n++) {
      tc_scope *s = tc_scope_open();
      tc_tensor *x = range(c, 4, (int64_t[]){n, 3, 6 + n, 7 + n}, 0);
      tc_tensor *w = range(c, 4, (int64_t[]){4, 3, 3, 3}, 0);
      int64_t one[] = {1, 1}, zero[] = {0, 0};
      tc_tensor *y = tc_aten_convolution(x, w, NULL, one, 2, one, 2, one, 2, 0, zero, 2, 1);
      if (!y) fail_msg("%s", tc_last_error());
      assert_int_equal(tc_size_of(y, 2), 6 + n);
      tc_tensor *q = range(c, 4, (int64_t[]){n, 2, n + 3, 16}, -1);
      tc_tensor *a = tc_aten_scaled_dot_product_attention(q, q, q, NULL, 0, 0, NULL, 0);
      if (!a) fail_msg("%s", tc_last_error());
      tc_tensor *l = tc_aten_layer_norm(a, (int64_t[]){16}, 1, NULL, NULL, 1e-5, 0);
      if (!l) fail_msg("%s", tc_last_error());
      tc_scope_close(s);
    }
    if (compiles(c) != 3) fail_msg("%d compilations for 3 ops", (int)compiles(c));
  }
}

// What differs in a value that is no tensor is compiled again, but only so much is kept; what goes may be in use.
static void entries_of_an_op_are_bounded(void **state) {
  (void)state;
  const char *settings[] = {"backend=ref", "cache.enabled=false", "eager.max_entries=4"};
  tc_context *c;
  if (tc_open(settings, 3, &c) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
  tc_scope *s = tc_scope_open();
  tc_tensor *x = range(c, 2, (int64_t[]){3, 12}, 0);
  for (int round = 0; round < 2; round++)
    for (int64_t k = 1; k < 7; k++) assert_int_equal(tc_numel_of(tc_aten_unfold(x, 1, k, k)) > 0, 1);
  int64_t before = compiles(c);
  if (before != 12) fail_msg("%d compilations of 12", (int)before);
  assert_non_null(tc_aten_unfold(x, 1, 6, 6)); // the last ones are there
  assert_non_null(tc_aten_unfold(x, 1, 3, 3));
  assert_int_equal(compiles(c), before);
  assert_non_null(tc_aten_unfold(x, 1, 2, 2)); // drives out 4, which was not used for longest
  assert_int_equal(compiles(c), before + 1);
  assert_non_null(tc_aten_unfold(x, 1, 3, 3));
  assert_int_equal(compiles(c), before + 1);
  tc_scope_close(s);
  tc_close(c);
}

static tc_tensor *drawn(tc_tensor *like) { return tc_aten_rand_like(like, TC_DTYPE_NONE, NULL, -1); }

static void random_calls_differ(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    tc_tensor *x = range(c, 1, (int64_t[]){64}, 0);
    size_t bytes = 64 * sizeof(float);
    tc_tensor *a = drawn(x), *b = drawn(x);
    if (!a || !b) fail_msg("%s", tc_last_error());
    assert_memory_not_equal(tc_data_of(a), tc_data_of(b), bytes);
    tc_manual_seed(c, 17);
    tc_tensor *first = drawn(x), *second = drawn(x);
    tc_manual_seed(c, 17);
    (void)tc_aten_relu(x); // draws nothing
    assert_memory_equal(tc_data_of(drawn(x)), tc_data_of(first), bytes);
    assert_memory_equal(tc_data_of(drawn(x)), tc_data_of(second), bytes);
    tc_manual_seed(c, 18);
    assert_memory_not_equal(tc_data_of(drawn(x)), tc_data_of(first), bytes);
    assert_int_equal(compiles(c), 2); // of rand_like and relu
    tc_scope_close(s);
  }
}

static void errors_are_kept_and_passed_on(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    tc_tensor *x = range(c, 1, (int64_t[]){3}, 0), *y = range(c, 1, (int64_t[]){4}, 0);
    tc_tensor *bad = tc_aten_relu(tc_aten_add_Tensor(x, y, tc_scalar_int(1)));
    assert_null(bad);
    assert_int_equal(tc_last_code(), TC_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(tc_last_error(), "test_tensors_and_ops.c:"));
    tc_clear_error();
    assert_string_equal(tc_last_error(), "");
    assert_int_equal(tc_call_op(c, "aten::no_such_op", 0, NULL, 0, NULL, NULL), TC_STATUS_NOT_FOUND);
    tc_clear_error();
    assert_null(tc_new_tensor(c, TC_F32, 1, (int64_t[]){-1}));
    tc_clear_error();
    assert_null(tc_new_tensor(c, TC_F64, 2, (int64_t[]){INT64_MAX, 4}));
    tc_clear_error();
    tc_scope_close(s);
  }
}

static int released;
static void count_release(void *owner, void *data) {
  (void)data;
  (*(int *)owner)++;
}

static void borrowed_memory_and_dlpack(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    float data[6] = {0, 1, 2, 3, 4, 5};
    released = 0;
    tc_tensor *t = tc_tensor_borrow(c, TC_F32, 2, (int64_t[]){3, 2}, (int64_t[]){1, 3}, data, count_release, &released);
    tc_tensor *back = tc_from_dlpack(c, tc_to_dlpack(t));
    tc_release(t);
    assert_int_equal(released, 0);
    assert_ptr_equal(tc_data_of(back), data);
    assert_int_equal(tc_stride_of(back, 1), 3);
    tc_tensor *sum = tc_aten_sum(back, 0);
    expect(sum, 1, (float[]){15});
    tc_release(sum);
    tc_release(back);
    assert_int_equal(released, 1);
    // Strides that leave the memory are refused, and the memory is given back.
    assert_null(tc_tensor_borrow(c, TC_F32, 1, (int64_t[]){3}, (int64_t[]){-1}, data, count_release, &released));
    assert_int_equal(released, 2);
    tc_clear_error();
  }
}

static void scopes_release(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    float data[2] = {1, 2};
    released = 0;
    tc_scope *outer = tc_scope_open();
    tc_tensor *kept;
    (void)tc_scope_open();
    kept = tc_retain(tc_tensor_borrow(c, TC_F32, 1, (int64_t[]){2}, NULL, data, count_release, &released));
    (void)tc_tensor_borrow(c, TC_F32, 1, (int64_t[]){2}, NULL, data, count_release, &released);
    tc_scope_close(outer); // with the inner one
    assert_int_equal(released, 1);
    tc_release(kept);
    assert_int_equal(released, 2);
  }
}

static void items(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    int64_t seven = 7, out = 0;
    double re = 0;
    tc_tensor *t = tc_tensor_from(c, TC_I64, 0, NULL, &seven);
    assert_int_equal(tc_item_i64(t, &out), TC_STATUS_OK);
    assert_int_equal(out, 7);
    assert_int_equal(tc_item_f64(t, &re, NULL), TC_STATUS_OK);
    assert_true(re == 7);
    assert_int_not_equal(tc_item_i64(range(c, 1, (int64_t[]){2}, 0), &out), TC_STATUS_OK);
    tc_clear_error();
    tc_scope_close(s);
  }
}

typedef struct worker {
  tc_context *c;
  int64_t seed;
  int bad;
} worker;

static void *work(void *arg) {
  worker *w = arg;
  for (int64_t n = 2; n < 12; n++) {
    tc_scope *s = tc_scope_open();
    tc_tensor *x = range(w->c, 1, (int64_t[]){n + w->seed}, 1);
    tc_tensor *y = tc_aten_add_Tensor(tc_aten_relu(x), x, tc_scalar_int(1));
    for (int64_t i = 0; y && i < n + w->seed; i++) w->bad += ((float *)tc_data_of(y))[i] != 2 * (float)(i + 1);
    w->bad += !y;
    tc_scope_close(s);
  }
  return NULL;
}

static void threads_share_a_context(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    enum { N = 8 };
    pthread_t threads[N];
    worker workers[N];
    for (int i = 0; i < N; i++) {
      workers[i] = (worker){c, i, 0};
      assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < N; i++) {
      pthread_join(threads[i], NULL);
      assert_int_equal(workers[i].bad, 0);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ops_give_new_tensors),
      cmocka_unit_test(views_share_memory),
      cmocka_unit_test(ops_in_place_write),
      cmocka_unit_test(several_results),
      cmocka_unit_test(sizes_do_not_compile_again),
      cmocka_unit_test(large_ops_compile_once),
      cmocka_unit_test(entries_of_an_op_are_bounded),
      cmocka_unit_test(random_calls_differ),
      cmocka_unit_test(errors_are_kept_and_passed_on),
      cmocka_unit_test(borrowed_memory_and_dlpack),
      cmocka_unit_test(scopes_release),
      cmocka_unit_test(items),
      cmocka_unit_test(threads_share_a_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
