// One program from start to end:
//   JSON → versions → op targets → symbols and ranges → trees → inputs → guards → nodes → outputs → weights
// Memory: what stays is in the module's arena, the rest in a scratch arena that also owns documents and storages.
#include "core/frontends/pt2/import.h"

typedef struct loading {
  pt2_import im;
  const pt2_entry *entry;
} loading;

const char *tc_dialect_name(int32_t dialect) {
  static const char *const names[] = {"training", "functional", "core"};
  return dialect >= 0 && dialect < 3 ? names[dialect] : "?";
}

// ---- versions ----
static tc_status read_versions(pt2_import *im, const at *where) {
  tc_json version;
  at here = at_key(where, "schema_version");
  int64_t major, minor;
  TC_TRY(pt2_object(where, im->root, "schema_version", &version));
  TC_TRY(pt2_int(&here, version, "major", &major));
  TC_TRY(pt2_int(&here, version, "minor", &minor));
  if (major != 8)
    return pt2_refuse(
        &here,
        "schema version %lld.%lld; this reader knows version 8 (torch 2.5 to 2.15): export again with one of these",
        (long long)major, (long long)minor);
  if (minor < 0 || minor > INT32_MAX)
    return pt2_bad(&here, "schema version %lld.%lld", (long long)major, (long long)minor);
  im->program->schema_major = 8;
  im->program->schema_minor = (int32_t)minor;
  tc_sv torch = {"", 0};
  (void)tc_json_str(tc_json_get(im->root, "torch_version"), &torch);
  im->program->torch_version = tc_sv_copy(im->arena, torch);
  return TC_OK;
}

// Composite ops that the default decompositions of run_decompositions() always remove: with one of them a functional
// program is not in core form.
static bool is_composite(tc_sv target) {
  static const char *const names[] = {"linear",
                                      "matmul",
                                      "einsum",
                                      "conv1d",
                                      "conv2d",
                                      "conv3d",
                                      "conv_transpose1d",
                                      "conv_transpose2d",
                                      "conv_transpose3d",
                                      "layer_norm",
                                      "group_norm",
                                      "instance_norm",
                                      "batch_norm",
                                      "rms_norm",
                                      "scaled_dot_product_attention",
                                      "softmax",
                                      "log_softmax",
                                      "flatten",
                                      "reshape",
                                      "silu",
                                      "transpose",
                                      "t",
                                      "unbind",
                                      "stack",
                                      "dropout",
                                      "cross_entropy_loss",
                                      "chunk",
                                      "contiguous",
                                      "adaptive_avg_pool2d",
                                      "max_pool2d",
                                      "hardswish",
                                      "hardsigmoid",
                                      "masked_fill",
                                      "split",
                                      "lstm",
                                      "gru",
                                      "pad",
                                      "type_as",
                                      "expand_as",
                                      "view_as",
                                      "zeros",
                                      "ones",
                                      "new_zeros",
                                      "new_ones",
                                      "addcmul",
                                      "roll",
                                      "tril",
                                      "triu",
                                      "mish",
                                      "softplus",
                                      "nll_loss",
                                      "mse_loss",
                                      "to"};
  if (!tc_sv_starts(target, "torch.ops.aten.")) return false;
  tc_sv name;
  tc_sv_cut(tc_sv_sub(target, sizeof "torch.ops.aten." - 1, target.size), '.', &name);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (tc_sv_is(name, names[i])) return true;
  return false;
}

static int32_t find_dialect(pt2_import *im) {
  tc_json_iter it = tc_json_begin(tc_json_get(im->root, "verifiers"));
  tc_sv verifier;
  if (tc_json_next(&it) && tc_json_str(it.value, &verifier) && tc_sv_is(verifier, "TRAINING"))
    return TC_DIALECT_TRAINING;
  for (int32_t i = 0; i < tc_map_count(im->targets); i++)
    if (is_composite(tc_map_at(im->targets, i)->key)) return TC_DIALECT_FUNCTIONAL;
  return TC_DIALECT_CORE;
}

// ---- leaves ----
static tc_status number_leaves(pt2_import *im, const pt2_leaves *in, const pt2_leaves *out) {
  tc_program *p = im->program;
  tc_graph *g = p->graph;
  for (int32_t i = 0; i < g->inputs.count; i++) {
    if (g->inputs.data[i].kind != TC_IN_USER) continue;
    int32_t n = p->inputs.count;
    if (in->n && n >= in->n)
      return tc_error(TC_STATUS_DATA_LOSS, "the program has more user inputs than its in_spec has leaves (%d)", in->n);
    bool named = n < in->n && in->names[n].size > 0;
    tc_program_leaf leaf = {named ? in->names[n] : g->inputs.data[i].target, i};
    g->inputs.data[i].target = leaf.name;
    tc_vec_push(im->arena, &p->inputs, leaf);
  }
  if (in->n && p->inputs.count != in->n)
    return tc_error(TC_STATUS_DATA_LOSS, "the program has %d user inputs, its in_spec %d leaves", p->inputs.count,
                    in->n);
  for (int32_t i = 0; i < g->outputs.count; i++) {
    tc_graph_output *o = &g->outputs.data[i];
    if ((o->kind != TC_OUT_USER && o->kind != TC_OUT_LOSS) || o->target.size)
      continue; // gradients have names of their own
    int32_t n = p->outputs.count;
    tc_program_leaf leaf = {n < out->n ? out->names[n] : out->n == 0 ? tc_sv_printf(im->arena, "%d", n) : TC_SV(""), i};
    o->target = leaf.name;
    tc_vec_push(im->arena, &p->outputs, leaf);
  }
  return TC_OK;
}

// A mutated input is named after its value in the signature, but leaves have names of their own.
static tc_status rename_mutations(pt2_import *im) {
  tc_graph *g = im->program->graph;
  for (int32_t i = 0; i < g->outputs.count; i++) {
    tc_graph_output *o = &g->outputs.data[i];
    if (o->kind != TC_OUT_INPUT_MUTATION) continue;
    const tc_graph_input *found = NULL;
    for (int32_t k = 0; k < g->inputs.count; k++)
      if (g->inputs.data[k].kind == TC_IN_USER && g->inputs.data[k].value &&
          tc_sv_eq(g->inputs.data[k].value->name, o->target))
        found = &g->inputs.data[k];
    if (found == NULL)
      return tc_error(TC_STATUS_DATA_LOSS, "the mutated input '" TC_SV_FMT "' is no input of the program",
                      TC_SV_ARG(o->target));
    o->target = found->target;
  }
  return TC_OK;
}

// ---- the import ----
static tc_status import_program(void *arg) {
  loading *l = arg;
  pt2_import *im = &l->im;
  tc_json module, graph, signature;
  tc_sv text;
  at root = at_name(NULL, l->entry->json->name), module_at = at_key(&root, "graph_module"),
     graph_at = at_key(&module_at, "graph");
  TC_TRY(pt2_json(im->file, im->scratch, l->entry->json, &text, &im->root));
  if (tc_json_kind(im->root) != TC_JSON_OBJECT) return pt2_bad(&root, "expected an object");
  TC_TRY(read_versions(im, &root));
  TC_TRY(pt2_object(&root, im->root, "graph_module", &module));
  TC_TRY(pt2_object(&module_at, module, "graph", &graph));
  TC_TRY(pt2_object(&module_at, module, "signature", &signature));
  TC_TRY(pt2_resolve_targets(im, &graph_at, graph));
  im->program->dialect = find_dialect(im);
  TC_TRY(pt2_symbols_begin(im, text, &root));
  pt2_leaves in, out;
  TC_TRY(pt2_import_trees(im, &module_at, module, &in, &out));
  tc_graph *g =
      tc_graph_create(im->module, tc_sv_is(im->program->name, "model") ? TC_SV("forward") : im->program->name);
  im->program->graph = g;
  tc_vec_push(im->arena, &im->module->graphs, g);
  pt2_scope scope;
  pt2_scope_open(im, &scope, NULL, g, graph);
  TC_TRY(pt2_import_inputs(im, &scope, &graph_at, signature));
  // Names of inputs are needed by guards, and guards before nodes, whose meta functions profit from them; outputs come
  // later.
  pt2_leaves none = {0};
  TC_TRY(number_leaves(im, &in, &none));
  TC_TRY(pt2_import_guards(im));
  TC_TRY(pt2_import_nodes(im, &scope, &graph_at));
  TC_TRY(pt2_import_outputs(im, &scope, &graph_at, signature));
  im->program->inputs.count = 0;
  TC_TRY(number_leaves(im, &in, &out));
  TC_TRY(rename_mutations(im));
  tc_graph_sweep(g);
  return pt2_import_weights(im);
}

static tc_status guard_import(void *arg) {
  loading *l = arg;
  pt2_import *im = &l->im;
  im->program = TC_NEW(im->arena, tc_program);
  im->program->module = im->module;
  im->program->name = tc_sv_copy(im->arena, l->entry->name);
  return tc_arena_guard(im->scratch, import_program, l);
}

tc_status tc_pt2_load(tc_pt2 *p, int32_t i, tc_program **out) {
  *out = NULL;
  if (i < 0 || i >= p->programs.count)
    return tc_error(TC_STATUS_OUT_OF_RANGE, "there is no program %d of %d in the archive", i, p->programs.count);
  loading l = {.im = {.file = p}, .entry = &p->programs.data[i]};
  TC_TRY(tc_module_create(p->allocator, p->ops, &l.im.module));
  l.im.arena = l.im.module->arena;
  l.im.syms = l.im.module->syms;
  tc_status status;
  TC_TRY_GOTO(status, fail, tc_arena_create(p->allocator, &l.im.scratch));
  status = tc_arena_guard(l.im.arena, guard_import, &l);
  tc_arena_destroy(l.im.scratch);
  if (status) goto fail;
  *out = l.im.program;
  return TC_OK;
fail:
  tc_module_destroy(l.im.module);
  return tc_status_note(status, "while importing the program '" TC_SV_FMT "'", TC_SV_ARG(l.entry->name));
}

void tc_program_destroy(tc_program *program) {
  if (program) tc_module_destroy(program->module);
}
