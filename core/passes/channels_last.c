// Channels last: how images lie between the ops of a functional graph.
//
// Strides are promises that only views by positions in a storage and the graph's callers can tell, so they are changed
// where a convolution begins: its input is copied, or, where that has few channels, its weights are, either of which
// lets its result lie with its channels last. Everything behind is made again and follows as PyTorch's rules say; what
// cannot, and what leaves the graph, gets a copy as it lay before.
#include "core/ir/opargs.h"
#include "core/passes/passes.h"
#include "core/passes/remake.h"

enum { INPUT, WEIGHT };
// Channels that fill a vector; operations that are worth copies at the borders; of all convolutions' work in percent.
enum { CHANNELS = 16, LEAST_WORK = 100000000, MOST = 80 };

typedef struct layout {
  tc_remake remake; // first
  tc_map *copies;   // value → its copy
} layout;

static bool is_convolution(const tc_node *n) {
  return tc_node_is(n, "conv1d") || tc_node_is(n, "conv2d") || tc_node_is(n, "conv3d") ||
         tc_node_is(n, "convolution") || tc_node_is(n, "conv_transpose1d") || tc_node_is(n, "conv_transpose2d") ||
         tc_node_is(n, "conv_transpose3d");
}

static const tc_arg *arg_of(const tc_node *n, const char *name) {
  for (int32_t i = 0; i < n->n_args; i++)
    if (tc_sv_is(n->op->schema.args[i].name, name)) return &n->args[i];
  return NULL;
}

static bool are_known(int32_t n, const tc_sym *const *sizes) {
  for (int32_t d = 0; d < n; d++)
    if (!tc_sym_is_const(sizes[d])) return false;
  return true;
}

// Of a batch of images by one group of channels, which fill vectors, over more than one position.
static bool gains(const tc_node *n) {
  if (!tc_node_is(n, "conv2d") && !tc_node_is(n, "convolution")) return false;
  const tc_tensor_type *w = &n->args[WEIGHT].value->type, *y = &n->results[0]->type;
  const tc_arg *groups = arg_of(n, "groups"), *transposed = arg_of(n, "transposed");
  if (y->rank != 4 || w->rank != 4 || !tc_dtype_is_float(y->dtype) || !are_known(3, y->sizes + 1) ||
      !are_known(4, w->sizes))
    return false;
  if (!groups || groups->value || !tc_sym_is_int(groups->sym, 1)) return false;
  if (transposed && (transposed->value || transposed->integer)) return false;
  return w->sizes[0]->value >= CHANNELS && y->sizes[2]->value * y->sizes[3]->value > 1;
}

static double work(const tc_node *n) {
  tc_module *m = n->graph->module;
  const tc_tensor_type *w = &n->args[WEIGHT].value->type;
  const tc_sym *first = w->rank ? w->sizes[0] : tc_sym_int(m->syms, 1);
  double outputs = (double)tc_sym_hint_or(m->syms, tc_type_numel(m, &n->results[0]->type), 0),
         taps = (double)tc_sym_hint_or(m->syms, tc_type_numel(m, w), 0);
  return 2 * outputs * taps / (double)tc_sym_hint_or(m->syms, first, 1);
}

static bool is_worth(const tc_graph *g) {
  double all = 0, gained = 0;
  for (const tc_node *n = g->first; n; n = n->next) {
    if (n->dead || !is_convolution(n)) continue;
    double this = work(n);
    all += this;
    if (gains(n)) gained += this;
  }
  return gained >= LEAST_WORK && 100 * gained >= MOST * all;
}

static bool counts_positions(const tc_graph *g) {
  for (const tc_node *n = g->first; n; n = n->next)
    if (!n->dead && tc_sv_starts(n->op->schema.name, "as_strided")) return true;
  return false;
}

static bool lies_last(const layout *x, const tc_value *v) {
  return tc_strides_channels_last(x->remake.graph->module->syms, v->type.rank, v->type.sizes, v->type.strides);
}

static tc_status read_last(tc_remake *r, tc_node *n, tc_value **v) {
  layout *x = (layout *)(void *)r;
  if (!gains(n)) return TC_OK;
  bool narrow = n->args[WEIGHT].value->type.sizes[1]->value < CHANNELS;
  const tc_value *input = n->args[INPUT].value;
  if (lies_last(x, input) || n->args[narrow ? WEIGHT : INPUT].value != *v || lies_last(x, *v)) return TC_OK;
  const tc_map_entry *e = tc_map_find_ptr(x->copies, *v);
  if (!e) {
    tc_arg made, args[] = {tc_arg_tensor(*v), {.kind = TC_AK_MEMORY_FORMAT, .integer = TC_FORMAT_CHANNELS_LAST}};
    TC_TRY(tc_build_call(&(tc_build){.graph = r->graph, .before = n, .source = n->source}, TC_SV("aten::clone"), 2,
                         args, NULL, &made));
    tc_map_entry *new = tc_map_put_ptr(x->copies, *v, NULL);
    new->value.ptr = made.value, e = new;
  }
  *v = e->value.ptr;
  return TC_OK;
}

static tc_status lay_back(tc_remake *r, tc_node *before, const tc_tensor_type *was, tc_value **v) {
  tc_build b = {.graph = r->graph, .before = before, .source = before ? before->source : TC_SV("")};
  return tc_match_gaps(&b, *v, was, v);
}

tc_status tc_channels_last(tc_graph *g, bool always) {
  if ((!always && !is_worth(g)) || counts_positions(g) || tc_graph_writes(g)) return TC_OK;
  layout x = {.remake = {.read = read_last, .restore = lay_back}, .copies = tc_map_create(g->module->arena)};
  tc_remake_begin(&x.remake, g);
  for (tc_node *n = g->first; n; n = n->next)
    if (!n->dead)
      TC_TRY(tc_remake_node(&x.remake, n), "while laying out images for " TC_SV_FMT, TC_SV_ARG(n->op->full_name));
  return tc_remake_end(&x.remake, NULL);
}
