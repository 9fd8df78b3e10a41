// What a compiled function is held to besides its tensors, and each reason for which a graph ends: numbers that the
// body reads, the list of guards, functions that cannot be compiled, and graph breaks by reason and place.
#include <ftw.h>

#include "tests/unit/api/backends.h"

static tc_tensor *row(tc_context *c, int64_t n, const float *v) { return tc_tensor_from(c, TC_F32, 1, &n, v); }
static float at(tc_tensor *t, int64_t i) { return ((float *)tc_data_of(t))[i]; }

static tc_function *compiled(tc_context *c, tc_function_body body, void *self, int32_t n_inputs) {
  tc_compile_options o = {.struct_size = sizeof o, .name = "it", .n_inputs = n_inputs, .n_outputs = 1};
  tc_function *f;
  assert_int_equal(tc_compile(c, body, self, &o, &f), TC_STATUS_OK);
  return f;
}

static float call(tc_function *f, tc_tensor *x) {
  tc_tensor *out[1];
  if (tc_call(f, &x, out) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
  return at(out[0], 0);
}

static void count(const char *text, const char *part, int n) {
  for (const char *p = text; (p = strstr(p, part)); p++) n--;
  if (n) fail_msg("'%s' is there %d times less than it should be in\n%s", part, n, text);
}

// ---- numbers besides tensors ----
typedef struct layer {
  int64_t width;
  int32_t negate;
  int64_t n_terms;
  tc_tensor *terms[3], *bias;
  int bodies;
} layer;

// ±(x·width + Σ terms + bias).
static int32_t apply(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  layer *l = self;
  (void)n_in, (void)n_out;
  l->bodies++;
  tc_tensor *y = tc_aten_mul_Scalar(in[0], tc_scalar_int(tc_guard_int("width", &l->width)));
  for (int64_t i = 0, n = tc_guard_length("terms", &l->n_terms); i < n; i++)
    y = tc_aten_add_Tensor(y, l->terms[i], tc_scalar_int(1));
  if (tc_guard_given("bias", &l->bias)) y = tc_aten_add_Tensor(y, l->bias, tc_scalar_int(1));
  out[0] = tc_guard_bool("negate", &l->negate) ? tc_aten_neg(y) : y;
  return tc_last_code();
}

static float expected(const layer *l, float x) {
  float y = x * (float)l->width;
  for (int64_t i = 0; i < l->n_terms; i++) y += at(l->terms[i], 0);
  if (l->bias) y += at(l->bias, 0);
  return l->negate ? -y : y;
}

static void numbers_that_are_read_are_guarded(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    log_lines lines = {0};
    tc_scope *s = tc_scope_open();
    assert_int_equal(tc_set_logs(c, "recompiles,guards", keep_line, &lines), TC_STATUS_OK);
    layer l = {.width = 2};
    for (int i = 0; i < 3; i++) l.terms[i] = row(c, 1, (float[]){(float)(10 * i + 1)});
    tc_tensor *bias = row(c, 1, (float[]){100}), *x = row(c, 1, (float[]){3});
    tc_function *f = compiled(c, apply, &l, 1);
    static const struct {
      int64_t width, n_terms;
      int32_t negate, bias;
      const char *words;
    } turns[] = {{2, 0, 0, 0, NULL},
                 {5, 0, 0, 0, "recompiling it [0/1]: int 'width' mismatch. expected 2, actual 5"},
                 {5, 2, 0, 0, "list 'terms' length mismatch. expected 0, actual 2"},
                 {5, 2, 1, 0, "bool 'negate' mismatch. expected false, actual true"},
                 {5, 2, 1, 1, "optional 'bias' mismatch. expected absent, actual given"}};
    for (int32_t k = 0; k < 5; k++) {
      l.width = turns[k].width, l.n_terms = turns[k].n_terms, l.negate = turns[k].negate;
      l.bias = turns[k].bias ? bias : NULL;
      for (int again = 0; again < 2; again++) assert_true(call(f, x) == expected(&l, 3));
      assert_int_equal(l.bodies, k + 1);
      if (turns[k].words) assert_non_null(strstr(lines.text, turns[k].words));
    }
    l = (layer){.width = 2, .bodies = l.bodies}; // what was met before is found again
    assert_true(call(f, x) == 6);
    assert_int_equal(l.bodies, 5);
    char *guards = tc_function_guards(f);
    assert_non_null(strstr(guards, "int 'width': 5  # from "));
    assert_non_null(strstr(guards, "test_captures.c:"));
    assert_non_null(strstr(guards, "optional 'bias': given"));
    tc_text_free(guards);
    tc_reset(f);
    assert_true(call(f, x) == 6);
    assert_int_equal(l.bodies, 6);
    tc_function_destroy(f);
    tc_scope_close(s);
  }
}

// Inside of another function it is that one's guard; op by op it is the number.
static int32_t outer(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)n_in, (void)n_out;
  return tc_call(self, in, out);
}

static void guarded_numbers_of_inner_functions(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    layer l = {.width = 2};
    tc_tensor *x = row(c, 1, (float[]){3}), *y;
    tc_function *f = compiled(c, apply, &l, 1), *g = compiled(c, outer, f, 1);
    assert_true(call(g, x) == 6);
    l.width = 4;
    assert_true(call(g, x) == 12);
    assert_int_equal(tc_function_stats_of(g).compiles, 2);
    assert_int_equal(apply(&l, &x, 1, &y, 1), TC_STATUS_OK);
    assert_true(at(y, 0) == 12);
    tc_function_destroy(g);
    tc_function_destroy(f);
    tc_scope_close(s);
  }
}

// ---- the list ----
// An input may be absent; the size that is read makes a guard with its place.
static int32_t lists(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *y = tc_aten_mul_Scalar(in[0], tc_scalar_int(tc_size_of(in[0], 0)));
  out[0] = tc_aten_sum(in[1] ? tc_aten_add_Tensor(y, in[1], tc_scalar_int(1)) : y, TC_DTYPE_NONE);
  return tc_last_code();
}

static void the_list_says_where_guards_come_from(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    static const char *const names[] = {"x", "bias"};
    const tc_dim_mark mark = {.input = 0, .dim = 0, .lo = 2, .hi = 64, .divisor = 2};
    tc_compile_options o = {.struct_size = sizeof o, .input_names = names, .n_inputs = 2, .n_outputs = 1};
    o.n_marks = 1, o.marks = &mark;
    tc_scope *s = tc_scope_open();
    tc_tensor *in[] = {row(c, 4, (float[]){1, 2, 3, 4}), NULL}, *out[2];
    tc_function *f;
    assert_int_equal(tc_compile(c, lists, NULL, &o, &f), TC_STATUS_OK);
    if (tc_call(f, in, out) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
    assert_true(at(out[0], 0) == 40);
    char *text = tc_function_guards(f);
    static const char *const wanted[] = {"tensor 'x': f32[s0], aligned to 4  # from the input\n",
                                         "tensor 'bias': absent  # from the input\n",
                                         "s0 >= 2, <= 64, a multiple of 2  # from the sizes\n",
                                         "  # from a size read at ",
                                         "test_captures.c:",
                                         "no gradient  # from tc_compile\n",
                                         "default device: "};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
      if (!strstr(text, wanted[i])) fail_msg("'%s' is not in\n%s", wanted[i], text);
    if (b_ == 1 && !strstr(text, "runs by: plugin cpu ")) fail_msg("%s", text);
    tc_text_free(text);
    tc_function_destroy(f);
    assert_int_equal(tc_value_and_grad(c, lists, NULL, &o, 1, (int32_t[]){0}, &f), TC_STATUS_OK);
    if (tc_call(f, in, out) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
    text = tc_function_guards(f);
    assert_non_null(strstr(text, "gradient with respect to inputs 0  # from tc_value_and_grad\n"));
    tc_text_free(text);
    tc_function_destroy(f);
    tc_scope_close(s);
  }
}

static void misplaced_elements_are_refused(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    _Alignas(16) char bytes[64] = {0};
    tc_scope *s = tc_scope_open();
    assert_null(tc_tensor_borrow(c, TC_F32, 1, (int64_t[]){4}, NULL, bytes + 2, NULL, NULL));
    assert_non_null(strstr(tc_last_error(), "the address of torch.float32 elements is no multiple of 4"));
    tc_clear_error();
    assert_non_null(tc_tensor_borrow(c, TC_C64, 1, (int64_t[]){4}, NULL, bytes + 4, NULL, NULL));
    assert_non_null(tc_tensor_borrow(c, TC_F32, 1, (int64_t[]){0}, NULL, bytes + 2, NULL, NULL));
    // A view with wider elements that begins between two of them.
    tc_tensor *whole = tc_tensor_borrow(c, TC_F32, 1, (int64_t[]){8}, NULL, bytes, NULL, NULL);
    for (int64_t from = 0; from < 3; from++) {
      tc_tensor *part = tc_aten_slice_Tensor(whole, 0, &from, (int64_t[]){from + 4}, 1);
      tc_tensor *pairs = tc_aten_view_as_complex(tc_aten_view(part, (int64_t[]){2, 2}, 2));
      if (from % 2 == 0) assert_ptr_equal(tc_data_of(pairs), bytes + 4 * from);
      else assert_null(pairs);
      if (from % 2) assert_non_null(strstr(tc_last_error(), "the tensor begins 4 bytes behind a multiple of 8"));
      tc_clear_error();
    }
    tc_scope_close(s);
  }
}

// ---- functions that cannot be compiled ----
// What is no region of a graph may be run by the host.
// Writes, breaks, and fails: what has run must not run a second time.
static int32_t writes_first(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out, (void)out;
  (void)tc_aten_add__Scalar(in[0], tc_scalar_int(1), tc_scalar_int(1));
  return tc_graph_break("the write is wanted") == TC_STATUS_OK ? TC_STATUS_UNIMPLEMENTED : tc_last_code();
}

static void what_cannot_be_compiled_runs_op_by_op(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    tc_tensor *x = row(c, 1, (float[]){3}), *out[1];
    tc_function *f = compiled(c, with_stranger, row(c, 1, (float[]){4}), 1);
    assert_int_equal(tc_call(f, &x, out), TC_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(tc_last_error(), "uses a tensor that is none of its inputs"));
    tc_clear_error();
    tc_function_destroy(f);
    tc_scope_close(s);
  }
  FOR_BACKENDS(c, "suppress_errors=true") {
    log_lines lines = {0};
    tc_scope *s = tc_scope_open();
    assert_int_equal(tc_set_logs(c, "graph_breaks", keep_line, &lines), TC_STATUS_OK);
    tc_tensor *x = row(c, 1, (float[]){3}), *out[1];
    tc_function *f = compiled(c, with_stranger, row(c, 1, (float[]){4}), 1);
    for (int k = 0; k < 3; k++) assert_true(call(f, x) == 7);
    count(lines.text, "it cannot be compiled (", 1);
    count(lines.text, "uses a tensor that is none of its inputs", 1);
    count(lines.text, "calls run op by op", 1);
    tc_reset(f);
    assert_true(call(f, x) == 7);
    count(lines.text, "it cannot be compiled (", 2); // tried anew
    tc_function_destroy(f);
    f = compiled(c, writes_first, NULL, 1);
    assert_int_equal(tc_call(f, &x, out), TC_STATUS_UNIMPLEMENTED);
    assert_null(out[0]);
    tc_clear_error();
    assert_true(at(x, 0) == 4);
    tc_function_destroy(f);
    tc_scope_close(s);
  }
}

// ---- graph breaks, by reason ----
typedef struct breaking {
  const char *reason;
  int kind;
  int bodies;
} breaking;

static int32_t identity(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  double v = 0;
  (void)self, (void)n_in, (void)n_out;
  if (tc_item_f64(tc_aten_sum(in[0], TC_DTYPE_NONE), &v, NULL) != TC_STATUS_OK) return tc_last_code();
  out[0] = tc_aten_mul_Scalar(in[0], tc_scalar_int(1));
  return tc_last_code();
}

struct DLManagedTensor { // as far as it is used here: the layout of DLPack
  struct {
    void *data;
    int32_t device[2], rank;
    uint8_t dtype[4];
    int64_t *sizes, *strides;
    uint64_t byte_offset;
  } t;
  void *owner;
  void (*deleter)(struct DLManagedTensor *self);
};

// Into a folder that goes with it.
static void save_and_load(tc_tensor *x) {
  const char *base = tc_env("TMPDIR"), *name = "x";
  char folder[400], path[420];
  snprintf(folder, sizeof folder, "%s/tc-captures-XXXXXX", base ? base : P_tmpdir);
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/x.safetensors", folder);
  if (tc_save_tensors(path, 1, &name, &x) == TC_STATUS_OK) (void)tc_load_tensors(path, 1, &name, &x);
  remove(path);
  assert_int_equal(remove(folder), 0);
}

// 2x + 1, broken in the middle.
static int32_t breaks(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  breaking *b = self;
  tc_tensor *x = tc_aten_mul_Scalar(in[0], tc_scalar_int(2)), *yes = tc_aten_ge_Scalar(in[0], tc_scalar_int(-1000));
  double real = 0;
  int64_t integer = 0;
  (void)n_in, (void)n_out;
  b->bodies++;
  switch (b->kind) {
  case 0: (void)tc_item_f64(tc_aten_sum(x, TC_DTYPE_NONE), &real, NULL); break;
  case 1: (void)tc_item_i64(tc_aten_sum(yes, TC_DTYPE_NONE), &integer); break;
  case 2: (void)tc_data_of(x); break;
  case 3: {
    struct DLManagedTensor *m = tc_to_dlpack(x);
    if (m) m->deleter(m);
    break;
  }
  case 4: (void)tc_graph_break("a line is printed"); break;
  case 5: (void)tc_size_of(tc_aten_nonzero(x), 0); break;
  case 6: (void)tc_numel_of(tc_aten_nonzero(x)); break;
  case 7: save_and_load(x); break;
  default: (void)tc_cond(tc_aten_all(yes), identity, identity, NULL, 1, &x, 1, &x); break;
  }
  if (tc_last_code() != TC_STATUS_OK) return tc_last_code();
  out[0] = tc_aten_add_Scalar(x, tc_scalar_int(1), tc_scalar_int(1));
  return tc_last_code();
}

static breaking kinds[] = {{"a value is read (tc_item)", 0, 0},
                           {"a value is read (tc_item)", 1, 0},
                           {"the data of a tensor is read (tc_data_of)", 2, 0},
                           {"a tensor is exported (tc_to_dlpack)", 3, 0},
                           {"a line is printed", 4, 0},
                           {"a size that depends on data is read", 5, 0},
                           {"a size that depends on data is read", 6, 0},
                           {"a tensor is read or written by a file", 7, 0},
                           {"a region of control flow reads a value", 8, 0}};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static void each_reason_is_told_and_followed(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    for (int k = 0; k < N_KINDS; k++) {
      log_lines lines = {0};
      breaking b = kinds[k];
      tc_function *f = compiled(c, breaks, &b, 1);
      assert_int_equal(tc_set_logs(c, "graph_breaks", keep_line, &lines), TC_STATUS_OK);
      for (int i = 0; i < 4; i++) {
        tc_scope *s = tc_scope_open();
        assert_true(call(f, row(c, 2, (float[]){(float)i, 1})) == (float)(2 * i + 1));
        tc_scope_close(s);
      }
      assert_int_equal(b.bodies, 4); // followed
      char *line = strstr(lines.text, b.reason);
      if (!line || !strstr(lines.text, "graph break behind segment 0 of ")) fail_msg("kind %d:\n%s", k, lines.text);
      char *end = strchr(line, '\n'), *place = strstr(line, " at ");
      if (!place || place > end || !strstr(place, "test_captures.c:")) fail_msg("kind %d has no place:\n%s", k, line);
      tc_function_destroy(f);
    }
    assert_int_equal(tc_set_logs(c, "", NULL, NULL), TC_STATUS_OK);
  }
}

static void each_reason_is_an_error_under_fullgraph(void **state) {
  (void)state;
  FOR_BACKENDS(c, "fullgraph=true") {
    for (int k = 0; k < N_KINDS; k++) {
      breaking b = kinds[k];
      tc_function *f = compiled(c, breaks, &b, 1);
      tc_scope *s = tc_scope_open();
      tc_tensor *x = row(c, 2, (float[]){1, 1}), *out[1];
      int32_t code = tc_call(f, &x, out);
      assert_null(out[0]);
      if (code != TC_STATUS_CANCELLED || !strstr(tc_last_error(), b.reason) || !strstr(tc_last_error(), " at ") ||
          !strstr(tc_last_error(), "test_captures.c:"))
        fail_msg("kind %d: %s", k, tc_last_error());
      tc_clear_error();
      tc_scope_close(s);
      tc_function_destroy(f);
    }
  }
}

// ---- ops that the backend does not do ----
// exp(R + 1) of the factors of 2x, in the middle of other work.
static int32_t factors(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  tc_tensor *q = NULL, *r = NULL;
  (void)n_in, (void)n_out;
  ++*(int *)self;
  tc_aten_linalg_qr(tc_aten_mul_Scalar(in[0], tc_scalar_int(2)), "reduced", &q, &r);
  out[0] = tc_aten_exp(tc_aten_add_Scalar(r, tc_scalar_int(1), tc_scalar_int(1)));
  return tc_last_code();
}

static tc_context *open_without_calls(const char *more) {
  const char *settings[] = {"backend=cpu", "cache.enabled=false", "calls=never", more};
  tc_context *c = NULL;
  if (tc_open(settings, more ? 4 : 3, &c) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
  return c;
}

// The segment in front, the op by the references, and the segment behind it: as a whole behind its guards, so that the
// body is not called again. Ops by themselves are no breaks.
static void unsupported_ops_end_segments(void **state) {
  (void)state;
  tc_context *c = open_without_calls(NULL);
  log_lines lines = {0};
  int bodies = 0;
  tc_scope *s = tc_scope_open();
  tc_tensor *x = tc_tensor_from(c, TC_F64, 2, (int64_t[]){2, 2}, (double[]){3, 1, 0, 2}), *out[1], *alone[1];
  assert_int_equal(factors(&bodies, &x, 1, alone, 1), TC_STATUS_OK);
  assert_int_equal(tc_set_logs(c, "graph_breaks", keep_line, &lines), TC_STATUS_OK);
  tc_function *f = compiled(c, factors, &bodies, 1);
  for (int i = 0; i < 3; i++) {
    if (tc_call(f, &x, out) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
    for (int k = 0; k < 4; k++) {
      double got = ((double *)tc_data_of(out[0]))[k], wanted = ((double *)tc_data_of(alone[0]))[k];
      assert_true(got > wanted - 1e-6 * (1 + wanted) && got < wanted + 1e-6 * (1 + wanted));
    }
  }
  assert_int_equal(bodies, 2);
  count(lines.text, "unsupported op, it has no lowering", 1);
  char *line = strstr(lines.text, "[graph_breaks] @it: segments end at %"), *place = strstr(lines.text, "\n  at ");
  if (!line || !strstr(line, "linalg_qr: unsupported op") || !place || !strstr(place, "test_captures.c:"))
    fail_msg("%s", lines.text);
  tc_function_destroy(f);
  tc_scope_close(s);
  tc_close(c);
}

static void unsupported_ops_are_errors_under_fullgraph(void **state) {
  (void)state;
  tc_context *c = open_without_calls("fullgraph=true");
  int bodies = 0;
  tc_scope *s = tc_scope_open();
  tc_tensor *x = tc_tensor_from(c, TC_F64, 2, (int64_t[]){2, 2}, (double[]){3, 1, 0, 2}), *out[1];
  tc_function *f = compiled(c, factors, &bodies, 1);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(tc_call(f, &x, out), TC_STATUS_CANCELLED);
    static const char *const wanted[] = {"graph break: unsupported op aten::linalg_qr", "it has no lowering", " at ",
                                         "test_captures.c:"};
    for (int k = 0; k < 4; k++)
      if (!strstr(tc_last_error(), wanted[k])) fail_msg("'%s' is not in '%s'", wanted[k], tc_last_error());
    tc_clear_error();
  }
  assert_int_equal(factors(&bodies, &x, 1, out, 1), TC_STATUS_OK); // nothing is captured
  tc_function_destroy(f);
  tc_scope_close(s);
  tc_close(c);
}

// ---- eight threads, one cache on disk ----
typedef struct caller {
  tc_context *c;
  tc_function *f;
  int first, bad;
} caller;

// Sizes and dtypes that make new entries now and then; ops by themselves besides.
static void *call_often(void *arg) {
  caller *w = arg;
  for (int k = 0; k < 10; k++) {
    tc_scope *s = tc_scope_open();
    int64_t n = 2 + (k + w->first) % 5;
    float v[8];
    for (int i = 0; i < 8; i++) v[i] = (float)(i + w->first);
    tc_tensor *x = row(w->c, n, v), *out[1];
    if (k % 3 == 2) x = tc_aten_to_dtype(x, TC_F64, 0, 0, -1);
    if (!x || tc_call(w->f, &x, out) != TC_STATUS_OK || tc_numel_of(out[0]) != n) {
      w->bad++;
    } else {
      const void *data = tc_data_of(out[0]);
      for (int64_t i = 0; i < n; i++)
        w->bad += (k % 3 == 2 ? ((const double *)data)[i] : (double)((const float *)data)[i]) != 2 * v[i] + 1;
    }
    tc_scope_close(s);
  }
  return NULL;
}

static int32_t twice_and_one(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  out[0] = tc_aten_add_Scalar(tc_aten_mul_Scalar(in[0], tc_scalar_int(2)), tc_scalar_int(1), tc_scalar_int(1));
  return tc_last_code();
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where) {
  (void)st, (void)kind, (void)where;
  return remove(path);
}

// Two contexts over one folder, as two processes have it: what one has written the other reads, while both write.
static void threads_share_a_cache_on_disk(void **state) {
  (void)state;
  enum { N = 8, CONTEXTS = 2 };
  const char *base = tc_env("TMPDIR");
  char folder[400], setting[420];
  snprintf(folder, sizeof folder, "%s/tc-captures-XXXXXX", base ? base : P_tmpdir);
  assert_non_null(mkdtemp(folder));
  snprintf(setting, sizeof setting, "cache.dir=%s", folder);
  for (int round = 0; round < 2; round++) { // on an empty cache, and on a full one
    tc_context *c[CONTEXTS];
    tc_function *f[CONTEXTS];
    caller callers[N];
    for (int i = 0; i < CONTEXTS; i++) {
      const char *settings[] = {"backend=cpu", "cache.enabled=true", setting};
      if (tc_open(settings, 3, &c[i]) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
      f[i] = compiled(c[i], twice_and_one, NULL, 1);
    }
    for (int i = 0; i < N; i++) { callers[i] = (caller){c[i % CONTEXTS], f[i % CONTEXTS], i, 0}; }
    run_threads(N, call_often, callers, sizeof *callers);
    for (int i = 0; i < N; i++) assert_int_equal(callers[i].bad, 0);
    for (int i = 0; i < CONTEXTS; i++) {
      tc_function_destroy(f[i]);
      tc_close(c[i]);
    }
  }
  assert_int_equal(nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_that_are_read_are_guarded),
      cmocka_unit_test(guarded_numbers_of_inner_functions),
      cmocka_unit_test(the_list_says_where_guards_come_from),
      cmocka_unit_test(misplaced_elements_are_refused),
      cmocka_unit_test(what_cannot_be_compiled_runs_op_by_op),
      cmocka_unit_test(each_reason_is_told_and_followed),
      cmocka_unit_test(each_reason_is_an_error_under_fullgraph),
      cmocka_unit_test(threads_share_a_cache_on_disk),
      cmocka_unit_test(unsupported_ops_end_segments),
      cmocka_unit_test(unsupported_ops_are_errors_under_fullgraph),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
