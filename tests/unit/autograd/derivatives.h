// Holds every derivative that the rows of a registry declare to differences (core/autograd/differences.h), in f64 and
// in complex128, in first and second order. New rows are among them by themselves.
//
// Calls come from a list of cases and from schemas alone (tests/fuzz/graphs/calls.h), with numbers of both signs, or
// between 0 and 1. A call at which differences do not settle decides nothing, and others are tried. What no call has
// decided must be on a list with the reason: "OP: reason"; "OP, second: reason" where only the second order is meant.
// "OP, differs: reason" is an op whose derivative is not that of the function at all arguments, as PyTorch has it:
// calls at which it is not are passed over, and others have to agree.
#ifndef TC_TESTS_UNIT_AUTOGRAD_DERIVATIVES_H_
#define TC_TESTS_UNIT_AUTOGRAD_DERIVATIVES_H_

#include <stdlib.h>

#include "core/autograd/differences.h"
#include "core/base/fs.h"
#include "core/ir/refexec.h"
#include "tests/fuzz/graphs/calls.h"
#include "tests/unit/autograd/module.h"
#include "tests/unit/autograd/undecided.h"
#include "tests/unit/ops/cases.h"

enum { DERIVATIVE_REAL, DERIVATIVE_COMPLEX, DERIVATIVE_CLASSES };
enum { DERIVATIVE_TRIES = 1200, DERIVATIVE_RARE = 8, DERIVATIVE_ELEMENTS = 96 };

typedef struct derivative_score {
  int32_t order[DERIVATIVE_CLASSES]; // of the highest that was decided
  int32_t taken[DERIVATIVE_CLASSES]; // calls whose gradients were asked for
  const char *undecided;
} derivative_score;

typedef struct derivative_check {
  tc_arena *arena; // of the test
  tc_op_registry *ops;
  tc_map *scores;      // full name → derivative_score *
  tc_map *reasons;     // the list, by what stands in front of the colon
  uint64_t base, seed; // of all; of what is drawn now
  int32_t calls, failed;
} derivative_check;

// What is drawn for one op, or one line, does not hang on what was drawn for others: a new row moves no other's calls.
static inline void derivative_begin(derivative_check *x, tc_sv what, int32_t class) {
  x->seed = tc_hash_mix(x->base + (uint64_t)class, tc_hash(what.data, what.size));
}

static inline derivative_score *derivative_score_of(derivative_check *x, const tc_op *op) {
  bool fresh;
  tc_map_entry *e = tc_map_put(x->scores, op->full_name, &fresh);
  if (fresh) e->value.ptr = TC_NEW(x->arena, derivative_score);
  return e->value.ptr;
}

static inline double derivative_uniform(derivative_check *x) {
  return (double)(tc_test_random(&x->seed) >> 11) / (double)(UINT64_C(1) << 53);
}

// How one input is filled: like a case's operand, or, without one, at random.
static inline double derivative_value(derivative_check *x, const operand *o, tc_dtype d, int32_t input, int64_t k,
                                      bool positive) {
  char c = tc_dtype_class(d);
  double u = derivative_uniform(x);
  if (o && (c == 'f' || c == 'c')) return fill_value(o, d, input, k) + 0.05 * u;
  if (o) return fill_value(o, d, input, k);
  if (c == 'f' || c == 'c') return positive ? 0.2 + 0.6 * u : 4 * u - 2;
  return u < 0.5;
}

static inline tc_status derivative_input(derivative_check *x, const operand *o, int32_t input, const tc_tensor_type *t,
                                         bool positive, tc_tensor *out) {
  int64_t sizes[TC_MAX_RANK];
  tc_dtype wide = tc_dtype_is_complex(t->dtype) ? TC_C128 : TC_F64;
  tc_tensor full;
  for (int32_t d = 0; d < t->rank; d++) sizes[d] = t->sizes[d]->value;
  TC_TRY(tc_tensor_create(tc_system_allocator(), wide, t->rank, sizes, &full));
  tc_sv rest = o ? o->values : (tc_sv){0};
  int32_t parts = tc_dtype_is_complex(t->dtype) ? 2 : 1;
  for (int64_t k = 0; k < tc_tensor_numel(&full) * parts; k++) {
    double *v = (double *)tc_tensor_data(&full) + k;
    tc_sv word;
    *v = derivative_value(x, o, t->dtype, input, k, positive);
    if (!o || o->fill != '=' || !rest.size) continue;
    rest = trim(tc_sv_cut(rest, ' ', &word));
    if (!tc_sv_to_double(word, v)) *v = 0;
  }
  tc_status s = tc_tensor_create(tc_system_allocator(), t->dtype, t->rank, sizes, out);
  if (s == TC_OK) s = tc_tensor_copy(&full, out);
  tc_tensor_unref(&full);
  return s;
}

static inline bool derivative_known_sizes(const tc_graph *g) {
  bool known = true;
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_value *v = g->inputs.data[i].value;
    known &= v && v->kind == TC_VALUE_TENSOR;
    for (int32_t d = 0; known && d < v->type.rank; d++) known &= tc_sym_is_const(v->type.sizes[d]);
  }
  return known;
}

static inline bool derivative_listed(const derivative_check *x, const tc_op *op, const char *what) {
  return tc_map_find(x->reasons, tc_sv_printf(x->arena, TC_SV_FMT "%s", TC_SV_ARG(op->full_name), what)) != NULL;
}

// What a call decided. Calls that cannot be run (indices that do not fit, say) decide nothing.
static inline void derivative_note(derivative_check *x, const tc_graph *g, const tc_op *op, tc_status s,
                                   const tc_gradcheck_result *r) {
  int32_t class = DERIVATIVE_REAL;
  for (int32_t i = 0; i < g->inputs.count; i++)
    if (tc_dtype_is_complex(g->inputs.data[i].value->type.dtype)) class = DERIVATIVE_COMPLEX;
  x->calls++;
  bool differs = tc_status_code(s) == TC_STATUS_MISMATCH && !derivative_listed(x, g->first->op, ", differs");
  if (differs || tc_status_code(s) == TC_STATUS_INTERNAL) {
    tc_sb sb = tc_sb_make(g->module->arena);
    tc_graph_print(&sb, g);
    print_error("%s\n%s\n", tc_status_text(s), sb.text);
    x->failed++;
  }
  if (s == TC_OK) {
    for (int32_t i = 0; i < r->n_ops; i++) {
      derivative_score *q = derivative_score_of(x, r->ops[i]);
      q->taken[class]++;
      if (r->order > q->order[class]) q->order[class] = r->order;
      if (r->undecided) q->undecided = r->undecided;
    }
  } else if (op && tc_status_code(s) == TC_STATUS_UNIMPLEMENTED) {
    derivative_score_of(x, op)->undecided = tc_sv_copy(x->arena, tc_sv_of(tc_status_text(s))).data;
  }
  tc_status_free(s);
}

// Can the call be run at all?
static inline bool derivative_runs(tc_graph *g, const tc_tensor *inputs) {
  tc_tensor *outputs = TC_NEW_ARRAY(g->module->arena, tc_tensor, g->outputs.count + 1);
  tc_status s = tc_ref_run(g, tc_system_allocator(), g->inputs.count, inputs, outputs, NULL);
  for (int32_t i = 0; i < g->outputs.count; i++) tc_tensor_unref(&outputs[i]);
  bool runs = s == TC_OK;
  tc_status_free(s);
  return runs;
}

static inline void derivative_run(derivative_check *x, tc_graph *g, const tc_op *op, const operand *operands,
                                  bool positive) {
  tc_arena *arena = g->module->arena;
  tc_tensor *inputs = TC_NEW_ARRAY(arena, tc_tensor, g->inputs.count + 1);
  tc_gradcheck_result r = {0};
  tc_status s = TC_OK;
  for (int32_t i = 0; i < g->inputs.count && s == TC_OK; i++)
    s = derivative_input(x, operands ? &operands[i] : NULL, i, &g->inputs.data[i].value->type, positive, &inputs[i]);
  tc_gradcheck q = {tc_system_allocator(), arena, g, inputs, x->seed};
  if (s == TC_OK && !derivative_runs(g, inputs)) s = tc_error(TC_STATUS_INVALID_ARGUMENT, "the call is not run");
  if (s == TC_OK) s = tc_gradcheck_run(&q, 2, &r);
  derivative_note(x, g, op, s, &r);
  for (int32_t i = 0; i < g->inputs.count; i++) tc_tensor_unref(&inputs[i]);
}

static inline bool derivative_done(const derivative_score *q, int32_t class) { return q->order[class] == 2; }

// ---- calls of schemas ----
typedef struct derivative_try {
  derivative_check *x;
  const tc_op *op;
  tc_module *m;
  int32_t class;
} derivative_try;

static inline tc_status derivative_one_try(void *arg) {
  derivative_try *y = arg;
  derivative_check *x = y->x;
  tc_arena *arena = y->m->arena;
  call_gen r = {.state = tc_test_random(&x->seed), .arena = arena, .syms = y->m->syms};
  r.only = y->class == DERIVATIVE_REAL ? TC_F64 : TC_C128;
  call *c = TC_NEW(arena, call);
  tc_graph *g;
  call_any(&r, y->op, c);
  for (int32_t i = 0; i < c->n_args; i++)
    for (int32_t k = 0; k < c->args[i].n; k++) // parts of the other class and of other widths decide less
      if (tc_dtype_is_float(c->args[i].types[k].dtype)) c->args[i].types[k].dtype = TC_F64;
  TC_TRY(call_graph(y->m, c, &g));
  if (g->outputs.count > 1 && call_chance(&r, 50)) { // one result alone: others' derivatives may not be there
    g->outputs.data[0] = g->outputs.data[tc_test_random(&x->seed) % (uint64_t)g->outputs.count];
    g->outputs.count = 1;
  }
  if (!call_small(g, DERIVATIVE_ELEMENTS) || !call_modest(c, 16) || !derivative_known_sizes(g)) return TC_OK;
  derivative_run(x, g, y->op, NULL, call_chance(&r, 60));
  return TC_OK;
}

// More tries where an op takes hardly any call.
static inline void derivative_search(derivative_check *x, const tc_op *op, int32_t class, int32_t tries) {
  derivative_score *q = derivative_score_of(x, op);
  derivative_begin(x, op->full_name, class);
  int32_t most = tries * DERIVATIVE_RARE;
  for (int32_t k = 0; k < (q->taken[class] ? tries : most) && !derivative_done(q, class) && call_possible(op); k++) {
    derivative_try y = {.x = x, .op = op, .class = class};
    assert_ok(tc_module_create(tc_system_allocator(), x->ops, &y.m));
    tc_status_free(tc_arena_guard(y.m->arena, derivative_one_try, &y)); // a call that the op refuses
    tc_module_destroy(y.m);
  }
}

// ---- calls of a list ----
typedef struct derivative_case {
  derivative_check *x;
  tc_module *m;
  tc_sv line;
  int32_t class;
} derivative_case;

// The operands as complex numbers, where they are floats; false: none is.
static inline bool derivative_make_complex(fixture *f) {
  static const char *const floats[] = {"f16[", "bf16[", "f32[", "f64["};
  bool any = false;
  for (int32_t i = 0; i < f->n_inputs; i++) {
    operand o = read_operand(f->inputs[i]);
    for (size_t k = 0; k < sizeof floats / sizeof *floats; k++) {
      if (!tc_sv_starts(o.type, floats[k])) continue;
      any = true;
      tc_sv rest = tc_sv_sub(o.type, strlen(floats[k]), o.type.size);
      f->inputs[i] = tc_sv_printf(f->arena, TC_SV_FMT " c64[" TC_SV_FMT "%s", TC_SV_ARG(o.name), TC_SV_ARG(rest),
                                  o.fill == '+'   ? "+"
                                  : o.fill == '/' ? "/"
                                                  : "");
    }
  }
  return any;
}

static inline tc_status derivative_one_case(void *arg) {
  derivative_case *y = arg;
  tc_arena *arena = y->m->arena;
  fixture *f = TC_NEW(arena, fixture);
  tc_graph *g;
  *f = (fixture){.arena = arena, .text = y->line};
  assert_true(read_fixture(f));
  if (tc_sv_is(f->results[0], "!") || (y->class == DERIVATIVE_COMPLEX && !derivative_make_complex(f))) return TC_OK;
  TC_TRY(parse_case(f, y->m, &g));
  if (!derivative_known_sizes(g)) return TC_OK;
  operand *o = TC_NEW_ARRAY(arena, operand, f->n_inputs + 1);
  for (int32_t i = 0; i < f->n_inputs; i++) o[i] = read_operand(f->inputs[i]);
  derivative_run(y->x, g, NULL, o, false);
  return TC_OK;
}

static inline void derivative_cases(derivative_check *x, const char *path) {
  tc_sv text, line;
  assert_ok(tc_file_read(x->arena, path, &text));
  while (text.size) {
    text = tc_sv_cut(text, '\n', &line);
    line = trim(line);
    for (int32_t class = 0; line.size && line.data[0] != '#' && class < DERIVATIVE_CLASSES; class ++) {
      derivative_case y = {.x = x, .line = line, .class = class};
      derivative_begin(x, line, class);
      assert_ok(tc_module_create(tc_system_allocator(), x->ops, &y.m));
      tc_status_free(tc_arena_guard(y.m->arena, derivative_one_case, &y)); // a dtype that the op refuses
      tc_module_destroy(y.m);
    }
  }
}

#endif
