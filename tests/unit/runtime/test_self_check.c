// Checks of a run part by part: a program that is right agrees in every part; of one with an op whose code is wrong the
// very group is named that does it, not those that its error reaches, and what is saved shows it by itself.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/fs.h"
#include "core/runtime/self_check.h"
#include "core/tensor/files.h"
#include "tests/unit/runtime/rig.h"

// Its body adds what its reference does not.
static double same(double x) { return x; }
static const tc_scalar_ref same_ref = {.f1 = same};
static const tc_op_def wrong = {.schema = "_test_off(Tensor self) -> Tensor",
                                .traits = TC_OP_POINTWISE,
                                .body = "self + 0.5",
                                .scalar_ref = &same_ref};

static tc_status register_wrong(void *arg) { return tc_op_register(((tc_context *)arg)->ops, &wrong, TC_SV("")); }

static tc_status open_rig(rig *r, tc_arena *arena, const char *text, const char *fuse) {
  const char *const options[] = {"cache.enabled", "false", "fuse", fuse, NULL};
  TC_TRY(rig_context(r, tc_arena_allocator(arena), "cpu", options));
  TC_TRY(tc_arena_guard(r->context->arena, register_wrong, r->context));
  TC_TRY(rig_graph(r, text));
  r->arena = arena;
  tc_source source = {.stage = TC_STAGE_GRAPH, .graph = r->graph, .stages = true};
  TC_TRY(tc_session_create_from(r->context, &source, TC_STAGE_EXEC, &r->session));
  return rig_inputs(r, tc_test_seed());
}

static tc_status compare(void *self, const tc_tensor *got, const tc_tensor *want, const tc_tensor *wide,
                         const tc_tensor *spread) {
  int64_t n = tc_tensor_numel(got), at[TC_MAX_RANK];
  if (!spread) (*(int32_t *)self)++;
  for (int64_t i = 0; i < n; i++) {
    int64_t rest = i;
    double g, w, v, im;
    for (int32_t d = got->rank - 1; d >= 0; d--) at[d] = rest % got->sizes[d], rest /= got->sizes[d];
    tc_tensor_get(got, at, &g, &im);
    tc_tensor_get(want, at, &w, &im);
    tc_tensor_get(wide, at, &v, &im);
    if (fabs(g - w) > 1e-4 * (1 + fabs(w)) || fabs(w - v) > 1e-4 * (1 + fabs(w)))
      return tc_error(TC_STATUS_MISMATCH, "%g instead of %g", g, w);
  }
  return TC_OK;
}

// Runs the program with every part compared. *asked: how many values.
static tc_status run_checked(rig *r, tc_sv stem, int32_t *asked, int32_t *compared, int32_t *all, tc_status *out) {
  tc_self_check *k;
  tc_tensor outputs[RIG_MOST];
  *asked = 0;
  TC_TRY(tc_self_check_create(r->session, &(tc_self_check_options){compare, asked, stem}, &k));
  for (int32_t round = 0; round < 2; round++) { // what is done once is not done in the second
    *out = tc_session_run(r->session, r->inputs, outputs,
                          &(tc_session_run_options){.watch = tc_self_check_watch(k, 0, 0)});
    for (int32_t i = 0; *out == TC_OK && i < r->graph->outputs.count; i++) tc_tensor_unref(&outputs[i]);
    tc_self_check_counts(k, compared, all);
    if (*out != TC_OK) break;
  }
  tc_self_check_destroy(k);
  return TC_OK;
}

static const char right[] = "graph @forward [s0 in [2, 64] hint 5] (\n"
                            "    %x : f32[s0, 8] = user \"x\",\n"
                            "    %w : f32[8, 8] = user \"w\",\n"
                            "    %m : f32[s0, 8] = user \"m\") {\n"
                            "  %a : f32[s0, 8] = aten::mm(%x, %w)\n"
                            "  %b : f32[s0, 8] = aten::relu(%a)\n"
                            "  %c : f32[s0, 8] = aten::softmax.int(%b, -1, none)\n"
                            "  %t : f32[8, s0]{1, 8} = aten::t(%c)\n"
                            "  %d : f32[8, 8] = aten::mm(%t, %b)\n"
                            "  %e : f32[8] = aten::sum.dim_IntList(%d, [0], false, none)\n"
                            "  %f : f32[s0, 8] = aten::add.Tensor(%m, %c)\n"
                            "  %g : i64[s0] = aten::arange(s0, none, none, \"cpu\", false)\n" // reads but a size
                            "  return input \"m\" %f, user %e, user %g\n"
                            "}\n";

TC_TEST(a_right_program_agrees) {
  static const char *const fuse[] = {"true", "false"};
  for (int32_t i = 0; i < 2; i++) {
    rig r;
    int32_t asked, compared, all;
    tc_status s;
    TC_TRY(open_rig(&r, arena, right, fuse[i]));
    TC_TRY(run_checked(&r, (tc_sv){0}, &asked, &compared, &all, &s));
    TC_TRY(s);
    assert_true(compared >= 3 && compared <= all && asked >= 2 * compared);
    rig_close(&r);
  }
  return TC_OK;
}

static const char off[] = "graph @forward (\n"
                          "    %x : f32[6, 8] = user \"x\",\n"
                          "    %w : f32[8, 8] = user \"w\") {\n"
                          "  %a : f32[6, 8] = aten::mm(%x, %w)\n"
                          "  %b : f32[6, 8] = aten::softmax.int(%a, -1, none)\n"
                          "  %c : f32[6, 8] = aten::_test_off(%b) @ \"model.py:7\"\n"
                          "  %d : f32[6, 8] = aten::mm(%c, %w)\n"
                          "  %e : f32[6, 8] = aten::exp(%d)\n"
                          "  return user %e\n"
                          "}\n";

TC_TEST(the_group_that_is_wrong_is_named) {
  rig r;
  int32_t asked, compared, all;
  tc_status s;
  char folder[512];
  const char *base = tc_env("TMPDIR");
  snprintf(folder, sizeof folder, "%s/tc-self-check-XXXXXX", base ? base : P_tmpdir);
  assert_non_null(mkdtemp(folder));
  tc_sv stem = tc_path_join(arena, tc_sv_of(folder), TC_SV("part")), text;
  TC_TRY(open_rig(&r, arena, off, "false"));
  TC_TRY(run_checked(&r, stem, &asked, &compared, &all, &s));
  assert_int_equal(tc_status_code(s), TC_STATUS_MISMATCH);
  assert_non_null(strstr(tc_status_text(s), "in %c; it does\n  %c = aten::_test_off  # model.py:7\nsaved"));
  assert_true(compared >= 2);
  tc_status_free(s);
  rig_close(&r);
  const char *program = tc_sv_printf(arena, TC_SV_FMT ".tc", TC_SV_ARG(stem)).data;
  const char *tensors = tc_sv_printf(arena, TC_SV_FMT ".safetensors", TC_SV_ARG(stem)).data;
  TC_TRY(tc_file_read(arena, program, &text));
  assert_non_null(strstr(text.data, "aten::_test_off"));
  assert_null(strstr(text.data, "aten::mm"));
  tc_tensor_list list;
  TC_TRY(tc_tensors_read(tc_arena_allocator(arena), arena, tensors, &list));
  const tc_tensor *in = tc_tensor_list_find(&list, TC_SV("in.0")), *out = tc_tensor_list_find(&list, TC_SV("out.0"));
  assert_non_null(in);
  assert_non_null(out);
  assert_memory_equal(tc_tensor_data(in), tc_tensor_data(out), 6 * 8 * sizeof(float)); // the references change nothing
  tc_tensor_list_free(&list);
  unlink(program), unlink(tensors), rmdir(folder);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_right_program_agrees),
                                     cmocka_unit_test(the_group_that_is_wrong_is_named)};
  return TC_RUN(tests);
}
