// tally: a delegate (level 0), a compiler of its own for parts of graphs. It has no device and no kernels.
//
// It claims sums, products and the relu of f32 matrices of equal and known sizes, and matrix products; all in one part,
// which the host cuts where something else lies between. What it makes of a part is a list of steps over numbered
// slots; a real compiler would generate code in `compile`. It is chosen by `delegates = ["tally"]` in a configuration.
#include <string.h>

#include "tc/plugin.h"

enum { ADD, MUL, RELU, MM, N_KINDS };
static const char *const names[N_KINDS] = {"aten::add.Tensor", "aten::mul.Tensor", "aten::relu", "aten::mm"};

static int32_t kind_of(tc_sv op) {
  for (int32_t k = 0; k < N_KINDS; k++)
    if (op.size == strlen(names[k]) && memcmp(op.data, names[k], op.size) == 0) return k;
  return -1;
}

// The host's struct may be longer than this header's: nodes lie at the distance that they state.
static const tc_delegate_node *node_at(const tc_delegate_graph *g, int32_t i) {
  return (const void *)((const char *)g->nodes + (uint64_t)i * g->nodes->struct_size);
}

static int32_t is_plain(const tc_view *v) {
  if (v->dtype != TC_F32 || v->rank != 2) return 0;
  return v->sizes[0] >= 0 && v->sizes[1] >= 0; // INT64_MIN: not known yet
}
static int32_t same_size(const tc_view *x, const tc_view *y) {
  return x->sizes[0] == y->sizes[0] && x->sizes[1] == y->sizes[1];
}

// ---- Claiming ----
static int32_t takes(const tc_delegate_graph *g, const tc_delegate_node *n) {
  int32_t kind = kind_of(n->op), want = kind == RELU ? 1 : 2;
  if (kind < 0 || n->n_operands != want || n->n_results != 1 || !is_plain(&g->values[n->results[0]])) return 0;
  for (int32_t i = 0; i < want; i++) {
    const tc_view *v = &g->values[n->operands[i]];
    if (!is_plain(v) || (kind != MM && !same_size(v, &g->values[n->results[0]]))) return 0;
  }
  int32_t alpha = kind == ADD ? tc_op_arg_index(n->args, "alpha") : -1;
  return alpha < 0 || tc_op_float(n->args, alpha, 1) == 1;
}

static int32_t claim(const tc_host *h, const tc_delegate_graph *g, int32_t *parts) {
  (void)h;
  for (int32_t i = 0; i < g->n_nodes; i++)
    if (takes(g, node_at(g, i))) parts[i] = 0;
  return TC_STATUS_OK;
}

// ---- Compiling ----
typedef struct step {
  int32_t kind, x, y, z; // values
} step;
typedef struct value {
  int64_t rows, columns;
  int32_t input, output; // where run gets it from or puts it; -1
  float *room;           // of those in between
} value;
typedef struct part {
  const tc_host *host;
  step *steps;
  value *values;
  int32_t n_steps, n_values;
} part;

static void destroy(void *compiled) {
  part *p = compiled;
  const tc_host *h = p->host;
  for (int32_t i = 0; p->values && i < p->n_values; i++) h->free(h->self, p->values[i].room);
  h->free(h->self, p->steps);
  h->free(h->self, p->values);
  h->free(h->self, p);
}

static int32_t fill_in(part *p, const tc_delegate_graph *g) {
  const tc_host *h = p->host;
  for (int32_t i = 0; i < g->n_values; i++) p->values[i].input = p->values[i].output = -1;
  for (int32_t i = 0; i < g->n_inputs; i++) p->values[g->inputs[i]].input = i;
  for (int32_t i = 0; i < g->n_outputs; i++) p->values[g->outputs[i]].output = i;
  for (int32_t i = 0; i < g->n_nodes; i++) {
    const tc_delegate_node *n = node_at(g, i);
    p->steps[i] = (step){kind_of(n->op), n->operands[0], n->operands[n->n_operands - 1], n->results[0]};
    for (int32_t k = 0; k <= n->n_operands; k++) {
      int32_t number = k < n->n_operands ? n->operands[k] : n->results[0];
      p->values[number].rows = g->values[number].sizes[0], p->values[number].columns = g->values[number].sizes[1];
    }
    value *z = &p->values[n->results[0]];
    if (z->output >= 0) continue;
    z->room = h->alloc(h->self, (uint64_t)(z->rows * z->columns) * sizeof(float) + 1);
    if (!z->room) return TC_STATUS_OUT_OF_MEMORY;
  }
  return TC_STATUS_OK;
}

static int32_t compile(const tc_host *h, const tc_delegate_graph *g, void **out_compiled) {
  part *p = h->alloc(h->self, sizeof *p);
  if (!p) return TC_STATUS_OUT_OF_MEMORY;
  *p = (part){.host = h, .n_steps = g->n_nodes, .n_values = g->n_values};
  p->steps = h->alloc(h->self, (uint64_t)(g->n_nodes + 1) * sizeof(step));
  p->values = h->alloc(h->self, (uint64_t)(g->n_values + 1) * sizeof(value));
  int32_t code = p->steps && p->values ? fill_in(p, g) : TC_STATUS_OUT_OF_MEMORY;
  if (code == TC_STATUS_OK) *out_compiled = p;
  else destroy(p);
  return code;
}

// ---- Running ----
typedef struct matrix {
  float *at;
  int64_t rows, columns, down, right; // strides
} matrix;
static float *element(const matrix *m, int64_t i, int64_t j) { return m->at + i * m->down + j * m->right; }

static matrix matrix_of(const part *p, int32_t number, const tc_view *inputs, const tc_view *outputs) {
  const value *v = &p->values[number];
  const tc_view *from = v->input >= 0 ? &inputs[v->input] : v->output >= 0 ? &outputs[v->output] : NULL;
  if (!from) return (matrix){v->room, v->rows, v->columns, v->columns, 1};
  float *at = (float *)(void *)((char *)(uintptr_t)from->memory + from->offset);
  return (matrix){at, v->rows, v->columns, from->strides[0], from->strides[1]};
}

static float compute(int32_t kind, const matrix *x, const matrix *y, int64_t i, int64_t j) {
  double sum = 0;
  float a = kind == MM ? 0 : *element(x, i, j);
  switch (kind) {
  case ADD: return a + *element(y, i, j);
  case MUL: return a * *element(y, i, j);
  case RELU: return a > 0 || a != a ? a : 0;
  default:
    for (int64_t k = 0; k < x->columns; k++) sum += (double)*element(x, i, k) * *element(y, k, j);
    return (float)sum;
  }
}

static int32_t run(void *compiled, const tc_view *inputs, const tc_view *outputs) {
  const part *p = compiled;
  for (int32_t s = 0; s < p->n_steps; s++) {
    const step *q = &p->steps[s];
    matrix x = matrix_of(p, q->x, inputs, outputs), y = matrix_of(p, q->y, inputs, outputs),
           z = matrix_of(p, q->z, inputs, outputs);
    for (int64_t i = 0; i < z.rows; i++)
      for (int64_t j = 0; j < z.columns; j++) *element(&z, i, j) = compute(q->kind, &x, &y, i, j);
  }
  return TC_STATUS_OK;
}

// ---- The handshake ----
static const tc_delegate_table table = {
    .struct_size = sizeof table, .claim = claim, .compile = compile, .run = run, .destroy = destroy};

TC_PLUGIN_EXPORT int32_t tc_plugin_query(const tc_host *h, tc_plugin_desc *out) {
  static const tc_delegate_extension extension = {{TC_EXT_DELEGATE, sizeof extension, NULL, 0}, &table};
  static const char build[] = "tally 1.0, " __DATE__ " " __TIME__;
  const tc_plugin_desc d = {.abi_minor_low = 3, // delegates came with 1.3
                            .name = {"tally", 5},
                            .vendor = {"example", 7},
                            .version = {"1.0", 3},
                            .build_id = {build, sizeof build - 1},
                            .capabilities = TC_CAP_DELEGATE,
                            .extensions = &extension.head};
  return tc_sdk_answer(h, &d, out);
}
