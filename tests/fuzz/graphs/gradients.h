// Gradients of random graphs: a graph becomes its joint graph (core/autograd), which is compiled and judged like any
// other, now and then that of the joint graph in turn. With it come the two graphs into which a partition cuts it by
// options drawn at random: run one behind the other they have to give what the joint graph gives.
#ifndef TC_TESTS_FUZZ_GRAPHS_GRADIENTS_H_
#define TC_TESTS_FUZZ_GRAPHS_GRADIENTS_H_

#include "core/autograd/differences.h"
#include "core/autograd/partition.h"
#include "tests/fuzz/graphs/random.h"

enum { GRADIENTS_NODES = 400 }; // of joint graphs that are looked at

typedef struct gradients {
  tc_graph *of;            // what is differentiated
  tc_joint joint;          // graph: NULL where there are no gradients
  const char *none;        // why not
  tc_partition cut;        // forward: NULL where it is not cut
  const char *how;         // it was cut
  tc_sb forward, backward; // text
} gradients;

// Most of the inputs that have one; all where that is none.
static inline tc_status gradients_joint(tc_graph *g, uint64_t *state, tc_joint *out) {
  tc_arena *arena = g->module->arena;
  bool *wanted = TC_NEW_ARRAY(arena, bool, g->inputs.count + 1), any = false;
  for (int32_t pass = 0; pass < 2 && !any; pass++) {
    for (int32_t i = 0; i < g->inputs.count; i++) {
      const tc_value *v = g->inputs.data[i].value;
      wanted[i] = v && v->kind == TC_VALUE_TENSOR && tc_differentiable(&v->type) && (pass || fuzz_random(state) % 5);
      any |= wanted[i];
    }
  }
  return tc_autograd_joint(g, wanted, out);
}

// Not where the two would have more inputs or outputs than `most`.
static inline tc_status gradients_cut(gradients *d, uint64_t *state, int32_t most, tc_arena *arena) {
  int32_t kind = (int32_t)(fuzz_random(state) % 4);
  double part = (double)(fuzz_random(state) % 9 + 1) / 10;
  tc_partition_options o = {.save_all = kind == 0, .budget = kind == 1 ? 1 : kind == 2 ? 0 : part};
  d->how = kind == 0 ? "cut, all saved" : tc_sv_printf(arena, "cut, budget %g", o.budget).data;
  tc_status s = tc_autograd_partition(&d->joint, &o, &d->cut);
  if (s != TC_OK) d->cut = (tc_partition){0};
  if (tc_status_code(s) == TC_STATUS_UNIMPLEMENTED) { // sizes that data says
    tc_status_free(s);
    return TC_OK;
  }
  TC_TRY(s);
  if (d->cut.forward->outputs.count > most || d->cut.n_sources > most) {
    d->cut = (tc_partition){0};
    return TC_OK;
  }
  d->forward = tc_sb_make(arena), d->backward = tc_sb_make(arena);
  tc_graph_print(&d->forward, d->cut.forward);
  tc_graph_print(&d->backward, d->cut.backward);
  return TC_OK;
}

static inline bool gradients_know_sizes(const tc_graph *g) {
  bool known = true;
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_tensor_type *t = &g->inputs.data[i].value->type;
    for (int32_t k = 0; k < t->rank; k++) known &= tc_sym_is_const(t->sizes[k]) && tc_sym_is_const(t->strides[k]);
  }
  return known;
}

static inline bool gradients_are_short(const tc_graph *g) {
  int32_t n = 0;
  for (const tc_node *k = g->first; k; k = k->next) n++;
  return n <= GRADIENTS_NODES;
}

static inline tc_status gradients_none(gradients *d, const char *why) {
  d->none = why, d->joint.graph = NULL;
  return TC_OK;
}

// An op without a derivative is no failure of the graph.
static inline tc_status gradients_of(tc_graph *g, uint64_t seed, int32_t most, gradients *d) {
  uint64_t state = seed ^ 0x2545f4914f6cdd1du;
  tc_joint again;
  *d = (gradients){.of = g};
  tc_status s = gradients_joint(g, &state, &d->joint);
  if (s == TC_OK && d->joint.n_cotangents && fuzz_random(&state) % 6 == 0) {
    s = gradients_joint(d->joint.graph, &state, &again);
    if (s == TC_OK && again.n_cotangents) d->joint = again;
    if (tc_status_code(s) == TC_STATUS_UNIMPLEMENTED) tc_status_free(s), s = TC_OK;
  }
  if (tc_status_code(s) == TC_STATUS_UNIMPLEMENTED) {
    const char *why = tc_sv_copy(g->module->arena, tc_sv_of(tc_status_text(s))).data;
    tc_status_free(s);
    return gradients_none(d, why);
  }
  TC_TRY(s);
  if (!d->joint.n_cotangents) return gradients_none(d, "nothing is differentiable");
  if (!gradients_know_sizes(d->joint.graph)) return gradients_none(d, "sizes of cotangents come from data");
  if (!gradients_are_short(d->joint.graph)) return gradients_none(d, "the joint graph is too long");
  return gradients_cut(d, &state, most, g->module->arena);
}

static inline bool gradients_listed(const tc_map *undecided, const tc_op *op, tc_arena *arena) {
  return tc_map_find(undecided, tc_sv_printf(arena, TC_SV_FMT ", differs", TC_SV_ARG(op->full_name))) != NULL;
}

// Outside of (0, 1) it divides by 1e-12: where an argument comes twice terms that large cancel, and their rounding is
// as large as what is left.
static inline bool gradients_cancel(const tc_op *op) {
  return tc_sv_is(op->full_name, "aten::binary_cross_entropy_backward");
}

// Stairs that are lower than the shortest step of differences look like a slope.
static inline bool gradients_stairs(const tc_node *n) {
  enum { MOST_DIGITS = 5 };
  if (!tc_sv_is(n->op->full_name, "aten::round.decimals") || n->args[1].kind != TC_AK_INT) return false;
  return !n->args[1].sym || !tc_sym_is_const(n->args[1].sym) || n->args[1].sym->value > MOST_DIGITS;
}

// Are the derivatives those of the function the graph is? `undecided` lists ops of which PyTorch's are not
// (tests/unit/autograd/undecided.h); where differences do not settle, or the graph refuses these inputs, nothing is
// said. *out_decided: it was.
static inline tc_status gradients_check(const gradients *d, const tc_map *undecided, const tc_tensor *inputs,
                                        uint64_t seed, bool *out_decided) {
  tc_arena *arena = d->of->module->arena;
  tc_gradcheck q = {tc_system_allocator(), arena, d->of, inputs, seed};
  tc_gradcheck_result r;
  tc_status s = tc_gradcheck_run(&q, 1, &r);
  *out_decided = s == TC_OK && !r.undecided;
  bool listed = false;
  for (const tc_node *n = d->of->first; n; n = n->next)
    listed |= gradients_listed(undecided, n->op, arena) || gradients_cancel(n->op) || gradients_stairs(n);
  for (int32_t i = 0; i < r.n_ops; i++) listed |= gradients_listed(undecided, r.ops[i], arena);
  if (s == TC_OK || tc_status_code(s) == TC_STATUS_INTERNAL || (tc_status_code(s) == TC_STATUS_MISMATCH && !listed))
    return s;
  tc_status_free(s);
  return TC_OK;
}

#endif
