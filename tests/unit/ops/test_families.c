// Every case of cases.txt and refused.txt: what the op's meta function says of its results (dtype, sizes, strides,
// offset, sharing of storage), what its reference computes, and what the loops of its lowering compute, against values
// that PyTorch gave (cases.py made them), or that it refuses what PyTorch refuses. And: every row of the core
// registers.
#include <math.h>

#include "core/ir/control.h"
#include "core/ir/expand.h"
#include "core/ir/refexec.h"
#include "core/kernel/templates/templates.h"
#include "core/ops/ops.h"
#include "core/passes/passes.h"
#include "tests/unit/ops/cases.h"
#include "tests/unit/ops/loop_eval.h"

#define CASES TC_SOURCE_DIR "/tests/unit/ops/cases.txt"
#define REFUSED TC_SOURCE_DIR "/tests/unit/ops/refused.txt" // calls whose result is '!'

static const tc_allocator *current_allocator;

static tc_status make_input(const operand *o, int32_t input, const tc_tensor_type *type, tc_tensor *out) {
  int64_t sizes[TC_MAX_RANK], strides[TC_MAX_RANK], index[TC_MAX_RANK] = {0};
  for (int32_t d = 0; d < type->rank; d++) sizes[d] = type->sizes[d]->value, strides[d] = type->strides[d]->value;
  TC_TRY(tc_tensor_create_strided(current_allocator, type->dtype, type->rank, sizes, strides, out));
  tc_sv rest = o->values;
  for (int64_t k = 0, n = tc_tensor_numel(out); k < n; k++) {
    double re = fill_value(o, type->dtype, input, k), im = (double)((k * 5 + input * 2 + 3) % 11 - 5) / 4;
    if (o->fill == '=') {
      tc_sv word;
      rest = trim(tc_sv_cut(rest, ' ', &word));
      assert_true(tc_sv_to_double(word, &re));
      if (tc_dtype_is_complex(type->dtype)) {
        rest = trim(tc_sv_cut(rest, ' ', &word));
        assert_true(tc_sv_to_double(word, &im));
      }
    }
    int64_t at = 0;
    for (int32_t d = 0; d < type->rank; d++) at += index[d] * strides[d];
    char *to = (char *)tc_tensor_data(out) + at * tc_dtype_size(type->dtype);
    tc_dtype part = tc_dtype_real(type->dtype);
    bool floats = tc_dtype_is_float(part);
    tc_kir_write(part, to, floats ? (tc_knum){.re = tc_kir_round(part, re)} : (tc_knum){.i = (int64_t)re});
    if (part != type->dtype) tc_kir_write(part, to + tc_dtype_size(part), (tc_knum){.re = tc_kir_round(part, im)});
    for (int32_t d = type->rank - 1; d >= 0 && ++index[d] >= sizes[d]; d--) index[d] = 0;
  }
  return TC_OK;
}

// ---- comparison ----
static void put_ints(tc_sb *sb, const char *open, const char *close, int32_t n, const tc_int *v) {
  tc_sb_putz(sb, open);
  for (int32_t d = 0; d < n; d++) tc_sb_putz(sb, d ? ", " : ""), tc_sym_print(sb, v[d]);
  tc_sb_putz(sb, close);
}

static tc_status check_type(const fixture *f, int32_t i, const tc_value *v, tc_sv want) {
  tc_sb sb = tc_sb_make(f->arena);
  const tc_tensor_type *t = &v->type;
  tc_sb_putz(&sb, tc_dtype_name(t->dtype));
  put_ints(&sb, "[", "]", t->rank, t->sizes);
  put_ints(&sb, "{", "}", t->rank, t->strides);
  if (!tc_sym_is_int(t->offset, 0)) tc_sb_putz(&sb, "+"), tc_sym_print(&sb, t->offset);
  if (v->view_arg >= 0) tc_sb_putz(&sb, "&");
  if (!tc_sv_eq(tc_sb_view(&sb), want))
    return tc_error(TC_STATUS_MISMATCH, "result %d is %s, expected " TC_SV_FMT, i, sb.text, TC_SV_ARG(want));
  return TC_OK;
}

// A result whose sizes the data says: their number is checked, once it has run.
static bool from_data(const tc_value *v) {
  bool known = true;
  for (int32_t d = 0; d < v->type.rank; d++) known &= tc_sym_is_const(v->type.sizes[d]);
  return !known;
}
static tc_status check_sizes(int32_t i, const tc_tensor *t, tc_sv want) {
  char text[200];
  int n = snprintf(text, sizeof text, "%s[", tc_dtype_name(t->dtype));
  for (int32_t d = 0; d < t->rank; d++)
    n += snprintf(text + n, sizeof text - (size_t)n, "%s%lld", d ? ", " : "", (long long)t->sizes[d]);
  snprintf(text + n, sizeof text - (size_t)n, "]{");
  return tc_sv_starts(want, text)
             ? TC_OK
             : tc_error(TC_STATUS_MISMATCH, "result %d is %s…, expected " TC_SV_FMT, i, text, TC_SV_ARG(want));
}

static double tolerance(tc_dtype d) {
  switch (tc_dtype_real(d)) {
  case TC_F16: return 2e-3;
  case TC_BF16: return 1.6e-2;
  case TC_F32: return 3e-6;
  default: return 1e-12;
  }
}

static tc_status check_values(const char *who, int32_t i, const tc_tensor *t, tc_sv values) {
  int64_t index[TC_MAX_RANK] = {0};
  bool complex = tc_dtype_is_complex(t->dtype);
  double scale = 1, eps = tolerance(t->dtype);
  tc_sv rest = values;
  for (int64_t k = 0, n = tc_tensor_numel(t); k < n; k++) {
    double got[2] = {0}, want[2] = {0};
    for (int32_t part = 0; part < 1 + complex; part++) {
      tc_sv word;
      rest = trim(tc_sv_cut(rest, ' ', &word));
      assert_true(tc_sv_to_double(word, &want[part]));
    }
    if (tc_dtype_is_float(t->dtype) || complex) tc_tensor_get(t, index, &got[0], &got[1]);
    else got[0] = (double)tc_tensor_get_int(t, index);
    for (int32_t part = 0; part < 1 + complex; part++) {
      double x = got[part], w = want[part];
      bool same = isnan(w) ? isnan(x) : isinf(w) ? x == w : fabs(x - w) <= eps * (scale + fabs(w));
      if (!same)
        return tc_error(TC_STATUS_MISMATCH, "%s: result %d, element %lld is %.9g, expected %.9g", who, i, (long long)k,
                        x, w);
    }
    for (int32_t d = t->rank - 1; d >= 0 && ++index[d] >= t->sizes[d]; d--) index[d] = 0;
  }
  return trim(rest).size ? tc_error(TC_STATUS_MISMATCH, "%s: result %d has too few elements", who, i) : TC_OK;
}

static tc_status check_all(const fixture *f, const char *who, const tc_tensor *results) {
  for (int32_t i = 0; i < f->n_results; i++) {
    tc_sv type, values = trim(tc_sv_cut(f->results[i], ':', &type));
    if (tc_sv_is(trim(type), "-")) continue;
    TC_TRY(check_values(who, i, &results[i], values));
  }
  return TC_OK;
}

// ---- one case ----
// Ops that are lowered to a template which loop_eval.h does not know are checked through their parts, which attention
// has where something is dropped, however unlikely that is.
static tc_status expand_templates(tc_graph *g) {
  enum { DROPOUT = 4 };
  for (tc_node *n = g->first; n; n = n->next) {
    if (!tc_sv_is(n->op->schema.name, "scaled_dot_product_attention")) continue;
    n->args[DROPOUT] = tc_arg_float(1e-30);
    tc_arg *out;
    int32_t n_out;
    TC_TRY(tc_expand_op(&(tc_build){.graph = g, .before = n}, n->op, n->n_args, n->args, &n_out, &out));
    tc_graph_forward(n->results[0], out[0].value);
    tc_node_kill(n);
  }
  tc_graph_sweep(g);
  return TC_OK;
}

// Done by a library of the device or by the references: no lowering yet, so `strict` needs the library.
static bool by_call(tc_sv name) {
  static const char *const families[] = {"linalg_", "_linalg_"};
  static const char *const ops[] = {"_lu_with_info", "lu_unpack", "geqrf", "_matrix_exp"};
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    if (tc_sv_starts(name, families[i])) return true;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (tc_sv_is(name, ops[i])) return true;
  return false;
}

// *out_called: the op needs one that has no lowering, or loops over a region, which are a plan's: nothing was run.
static tc_status lower_and_run(const fixture *f, tc_graph *g, const tc_tensor *inputs, tc_tensor *outputs,
                               bool *out_called) {
  tc_template_registry templates = {0};
  tc_templates_register_core(f->arena, &templates);
  tc_lower_options options = {.templates = &templates};
  bool progress;
  TC_TRY(expand_templates(g));
  TC_TRY(tc_pass_decompose.run(g, &progress));
  tc_loops *loops;
  for (const tc_node *n = g->first; n; n = n->next)
    *out_called |= tc_op_control(n->op) || (!n->op->def->lower && !n->op->def->body && by_call(n->op->schema.name));
  if (*out_called) return TC_OK;
  TC_TRY(tc_lower_graph(g, &options, &loops));
  return le_run_loops(loops, current_allocator, inputs, NULL, 0, outputs);
}

// A call that PyTorch refuses is refused before anything runs, in words that name the op.
static tc_status check_refusal(const fixture *f) {
  tc_module *m;
  tc_graph *g;
  tc_sv name;
  tc_sv_cut(f->call, '(', &name);
  tc_sv_cut(name, '.', &name);
  TC_TRY(make_module(f->arena, &m));
  tc_status s = parse_case(f, m, &g);
  if (s == TC_OK) return tc_error(TC_STATUS_MISMATCH, "the call is taken");
  bool named = strstr(tc_status_text(s), tc_sv_copy(f->arena, name).data) != NULL;
  if (tc_status_code(s) == TC_STATUS_INTERNAL || !named) return s;
  tc_status_free(s);
  return TC_OK;
}

static tc_status run_case(const fixture *f) {
  tc_module *m;
  tc_graph *g;
  tc_tensor inputs[8] = {0}, outputs[16] = {0};
  TC_TRY(make_module(f->arena, &m));
  TC_TRY(parse_case(f, m, &g));
  bool called = false; // or needs the host to read a size: then loops alone do not make it
  for (int32_t i = 0; i < f->n_results; i++) {
    tc_sv type;
    tc_sv_cut(f->results[i], ':', &type);
    const tc_value *v = g->outputs.data[i].arg.value;
    bool tensor = v && v->kind == TC_VALUE_TENSOR;
    if (!tensor) assert_sv(trim(type), "-");
    else if (from_data(v)) called = true;
    else TC_TRY(check_type(f, i, v, trim(type)));
  }
  for (int32_t i = 0; i < f->n_inputs; i++) {
    operand o = read_operand(f->inputs[i]);
    TC_TRY(make_input(&o, i, &g->inputs.data[i].value->type, &inputs[i]));
  }
  tc_status s = tc_ref_run(g, current_allocator, f->n_inputs, inputs, outputs, NULL);
  for (int32_t i = 0; i < f->n_results && s == TC_OK; i++)
    if (outputs[i].storage) s = check_sizes(i, &outputs[i], trim(f->results[i]));
  if (s == TC_OK) s = check_all(f, "reference", outputs);
  for (int32_t i = 0; i < f->n_results; i++) tc_tensor_unref(&outputs[i]);
  if (s == TC_OK && !called) s = lower_and_run(f, g, inputs, outputs, &called);
  if (s == TC_OK && !called) s = check_all(f, "loops", outputs);
  for (int32_t i = 0; i < f->n_results; i++) tc_tensor_unref(&outputs[i]);
  for (int32_t i = 0; i < f->n_inputs; i++) tc_tensor_unref(&inputs[i]);
  return s;
}

// ---- tests ----
static tc_sv current;
static const char *current_file;
static int32_t current_line;

static tc_status case_body(tc_arena *arena) {
  fixture f = {.arena = arena, .text = current, .line = current_line};
  if (!read_fixture(&f)) fail_msg("%s:%d: a case has three parts", current_file, (int)current_line);
  bool refused = tc_sv_is(f.results[0], "!");
  if (refused != !strcmp(current_file, REFUSED))
    fail_msg("%s:%d: lies in the other file", current_file, (int)current_line);
  return refused ? check_refusal(&f) : run_case(&f);
}

static void run_file(const char *file) {
  current_file = file;
  tc_fault_allocator a;
  tc_fault_allocator_init(&a, tc_system_allocator());
  tc_arena *arena;
  assert_ok(tc_arena_create(&a.iface, &arena));
  tc_sv text, line;
  assert_ok(tc_file_read(arena, file, &text));
  const char *only = getenv("TC_TEST_CASE");
  uint64_t share = tc_run_seed();
  int32_t count = 0, failed = 0;
  for (current_line = 1; text.size; current_line++) {
    text = tc_sv_cut(text, '\n', &line);
    line = trim(line);
    if (!line.size || line.data[0] == '#' || (only && !tc_sv_starts(line, only))) continue;
    if (!only && !tc_run_takes(share, current_line)) continue;
    current = line;
    tc_fault_allocator f;
    tc_fault_allocator_init(&f, tc_system_allocator());
    current_allocator = &f.iface;
    tc_status s = tc_test_in_arena(&f, case_body);
    count++;
    if (s == TC_OK) {
      assert_int_equal(f.live, 0);
      continue;
    }
    failed++;
    print_error("%s:%d: %s\n  %.*s\n", file, (int)current_line, tc_status_text(s), (int)line.size, line.data);
    tc_status_free(s);
  }
  tc_arena_destroy(arena);
  print_message("%d cases\n", (int)count);
  assert_int_equal(failed, 0);
  assert_true(count > 0 || only);
}

static void cases(void **state) {
  (void)state;
  run_file(CASES);
}

static void refusals(void **state) {
  (void)state;
  run_file(REFUSED);
}

TC_TEST_TORTURED(rows_register) {
  tc_op_registry *ops;
  TC_TRY(tc_op_registry_create(arena, &ops));
  TC_TRY(tc_ops_register_core(ops));
  assert_true(tc_op_registry_count(ops) > 200);
  return TC_OK;
}

// A row must say how its results look, how they are computed, and how they are lowered, or decompose into rows that do.
TC_TEST(rows_are_complete) {
  tc_op_registry *ops;
  TC_TRY(tc_op_registry_create(arena, &ops));
  TC_TRY(tc_ops_register_core(ops));
  for (int32_t i = 0; i < tc_op_registry_count(ops); i++) {
    const tc_op *op = tc_op_registry_at(ops, i);
    if (tc_sv_ends(op->schema.name, "_")) continue;
    const tc_op_def *d = op->def;
    bool expands = d->decompose || d->expand, control = tc_op_control(op) != TC_CONTROL_NONE;
    if (control && !d->meta) fail_msg(TC_SV_FMT " has no meta function", TC_SV_ARG(op->full_name));
    if (control || tc_op_is_grad(op)) continue; // the engines run regions, and a derivative is put in its place
    if (!expands && !d->ref && !d->scalar_ref && !(d->traits & TC_OP_VIEW))
      fail_msg(TC_SV_FMT " has no reference", TC_SV_ARG(op->full_name));
    if (!expands && !d->lower && !d->body && !(d->traits & (TC_OP_DATA_DEPENDENT | TC_OP_RANDOM)) &&
        !by_call(op->schema.name))
      fail_msg(TC_SV_FMT " has no lowering", TC_SV_ARG(op->full_name));
    if (!expands && !d->meta && !(d->traits & TC_OP_POINTWISE))
      fail_msg(TC_SV_FMT " has no meta function", TC_SV_ARG(op->full_name));
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_register), cmocka_unit_test(rows_are_complete),
                                     cmocka_unit_test(cases), cmocka_unit_test(refusals)};
  return TC_RUN(tests);
}
