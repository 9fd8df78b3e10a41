// Differential test of all ops in all modes: random graphs of calls that are made from the schemas alone
// (tests/fuzz/graphs/calls.h), so that every op, dtype, kind of argument, view and in-place write occurs, on a backend
// in each mode against the references. What is compiled was printed and read back first.
//
//   call_fuzz [--seconds=N] [--seed=S] [--cases=N] [--op=NAME] [--dtype=NAME] [--graph=FILE] [--grad]
//             [--backend=NAME] [--plugins=FOLDERS] [--keep-going] [--print]
//
// The first call of the graph with seed S is of op S modulo the number of ops, so that a run of as many graphs draws
// all ops. What may differ is measured (tests/fuzz/graphs/band.h); before a result counts as wrong, by many more runs
// than usual: what a few do not show, such as a number that just happens not to cross the next integer, these do.
#include "core/ir/refexec.h"
#include "core/ir/writes.h"
#include "tests/fault/scene.h"
#include "tests/fuzz/graphs/band.h"
#include "tests/fuzz/graphs/calls.h"
#include "tests/fuzz/graphs/drive.h"
#include "tests/fuzz/graphs/gradients.h"
#include "tests/fuzz/graphs/known.h"
#include "tests/unit/autograd/undecided.h"
#include "tests/unit/runtime/rig.h"

enum { MODES = 3, SHAKEN = 3, SHAKEN_MORE = 60, SEARCH = 400, LARGEST = 1 << 12, MOST_VALUES = 40, MANY_STEPS = 100 };
static const char *const modes[MODES] = {"inductor", "eager", "aot_eager"};

// Results that are right in more than one way: signs and bases of factors, which of several solutions.
static const char *const not_unique[] = {"_linalg_eigh",  "linalg_eig",   "linalg_eigh",  "linalg_eigvals",
                                         "_linalg_svd",   "linalg_svd",   "svd",          "geqrf",
                                         "linalg_qr",     "qr",           "linalg_lu",    "linalg_lu_factor*",
                                         "_lu_with_info", "linalg_lstsq", "linalg_polar", "linalg_ldl_factor*"};

// Ops that multiply by zeros of their own: what pads an input, weights of keys that a row does not look at, and those
// of filters at their edges, which rounding makes a little more or less. Where these meet infinite numbers they may be
// left out, or not; PyTorch's convolutions do both. Transposed ones have products of the input's own elements only.
static const char *const by_zeros[] = {"conv?d*", "*convolution*", "*attention*", "_upsample_*_aa*"};

// Factorisations and what is made of them are stable by norm (Higham, "Accuracy and stability of numerical algorithms",
// 2002, 1.5): their errors are those of a matrix moved by units of its largest element, however small others are.
static const char *const by_norm[] = {"_linalg_*",
                                      "linalg_cholesky*",
                                      "linalg_cond",
                                      "_cond_2",
                                      "linalg_det",
                                      "linalg_eig*",
                                      "linalg_householder*",
                                      "linalg_inv*",
                                      "linalg_ldl*",
                                      "linalg_lu*",
                                      "linalg_lstsq",
                                      "linalg_matrix_*",
                                      "linalg_norm",
                                      "linalg_pinv*",
                                      "linalg_polar",
                                      "linalg_qr",
                                      "linalg_slogdet",
                                      "linalg_solve*",
                                      "linalg_svd*",
                                      "linalg_tensorinv",
                                      "linalg_tensorsolve",
                                      "*inverse",
                                      "det",
                                      "logdet",
                                      "slogdet",
                                      "cholesky*",
                                      "_lu_with_info",
                                      "lu_solve",
                                      "triangular_solve",
                                      "matrix_power",
                                      "*nuclear_norm*",
                                      "svd",
                                      "qr",
                                      "geqrf",
                                      "ormqr"};

// Results that are differences from a mean are off by units of the largest, too, and may then be exactly zero; so may
// those of a matrix solved for itself, which moves on both sides alike.
static const char *const of_means[] = {"*group_norm*", "*layer_norm*", "*batch_norm*", "*instance_norm*"};

// Integers that are fractions cut off: off by one where rounding leaves a fraction on the other side of a whole number.
static const char *const cut_off[] = {"*upsample*", "*linspace*", "*logspace*", "*affine_grid*", "*grid_sampler*"};
// So are running statistics, where they are integers.
static const char *const running[] = {"*batch_norm*", "*instance_norm*"};

// What takes in a number that is too small to be seen in the result.
static const char *const sums[] = {"add", "sub", "rsub"};

// Recurrences of as many steps as an argument says: each step rounds, so that few digits are left of many.
static const char *const by_steps[] = {"special_*polynomial*"};

// Ops made by decompositions only, whose arguments hold what another op has counted.
static const char *const of_counts[] = {"mask_places", "steps"};

typedef struct fuzzer {
  rig rigs[MODES];
  tc_map *ops, *dtypes, *pairs; // name → how often it was in a graph that was compared; op with dtype
  tc_map *known;                // calls that cases know (known.h)
  tc_map *derivatives;          // of ops, like `ops`
  tc_map *not_theirs;           // derivatives that are not the functions' (tests/unit/autograd/undecided.h)
  int64_t joints, cuts, differences;
  int64_t nodes, compared, errors, inplace, elements, undecided;
} fuzzer;

typedef struct fuzz_case {
  fuzz_session *x;
  uint64_t seed;
  tc_arena *arena;
  tc_graph *g;
  tc_sb text;
  tc_sb source; // of the graph whose joint graph it is
  gradients gradients;
  bool known;   // holds a call that cases know
  bool loose;   // rounding decides whether the references take it at all
  bool closer;  // the references run SHAKEN_MORE times, and what they round on the way is moved, too
  bool cut;     // holds one that cuts off fractions
  int32_t only; // > 0: the graph has this output only, and what it needs
  tc_map *far;  // storages that held numbers beyond is_far's limit in any run
  tc_map *many; // those that held numbers beyond MANY_STEPS
  tc_map *open; // those that held infinite ones
  tc_map *even; // node of `of_means` → its first result without rounding, by component
  const char *mode, *where;
  tc_tensor in[MOST_IO], shaken[MOST_IO];
  band bands[MOST_IO];
  uint64_t noise;
} fuzz_case;

// ---- graphs ----
static bool is_any(tc_sv name, const char *const *globs, size_t n) {
  for (size_t k = 0; k < n; k++)
    if (tc_sv_glob(name, tc_sv_of(globs[k]))) return true;
  return false;
}

// Is the node of one of these ops, or of one of their forms in place?
static bool is_of(const tc_node *n, const char *const *globs, size_t count) {
  const tc_op *op = n->op->functional ? n->op->functional : n->op;
  return is_any(op->schema.name, globs, count);
}

static bool cuts_off(const tc_node *n) {
  bool integers = false;
  for (int32_t k = 0; k < n->n_results; k++) integers |= unit_of(n->results[k]->type.dtype) == 0;
  return is_of(n, cut_off, sizeof cut_off / sizeof *cut_off) ||
         (integers && is_of(n, running, sizeof running / sizeof *running));
}

static bool same_type(const tc_value *v, const call_type *t) {
  bool same = v->type.dtype == t->dtype && v->type.rank == t->rank;
  for (int32_t d = 0; d < t->rank && same; d++) same = tc_sym_is_int(v->type.sizes[d], t->sizes[d]);
  return same;
}

static bool type_of(const tc_value *v, call_type *out) {
  if (v->kind != TC_VALUE_TENSOR || v->type.rank > CALL_RANK) return false;
  *out = (call_type){.dtype = v->type.dtype, .rank = v->type.rank};
  for (int32_t d = 0; d < v->type.rank; d++) {
    if (!tc_sym_is_const(v->type.sizes[d])) return false;
    out->sizes[d] = v->type.sizes[d]->value;
  }
  return true;
}

typedef struct value_list {
  tc_value *data[MOST_VALUES];
  int32_t n;
} value_list;

static void remember(value_list *list, tc_value *v) {
  call_type ignored;
  if (list->n < MOST_VALUES && type_of(v, &ignored)) list->data[list->n++] = v;
}

// A value of the graph with this type, or a new input.
static tc_value *find_operand(call_gen *r, tc_graph *g, value_list *known, const call_type *t) {
  for (int32_t i = known->n; i-- > 0;)
    if (same_type(known->data[i], t) && call_chance(r, 60)) return known->data[i];
  tc_value *v = call_input(g, t);
  remember(known, v);
  return v;
}

static const tc_value *storage_of(const tc_value *v) {
  for (const tc_value *base; (base = tc_value_base(v));) v = base;
  return v;
}

static bool is_written(const tc_graph *g, const tc_value *storage) {
  for (const tc_node *n = g->first; n; n = n->next)
    for (int32_t i = 0; i < n->n_args && i < n->op->schema.n_args; i++)
      if (n->op->schema.args[i].writes && n->args[i].value && storage_of(n->args[i].value) == storage) return true;
  return false;
}

// Does a call count from the beginning of a storage, and reach what lies in front of the tensor, or between the
// elements of one that was written in place (where a program has the new value alone), or of complex numbers whose
// parts it sees? These are nobody's values.
static bool reaches_nobodys(const tc_graph *g, const call *c, const tc_arg *args) {
  const tc_value *x = args[0].kind == TC_AK_TENSOR ? args[0].value : NULL;
  if (x && tc_sv_starts(c->op->schema.name, "resize")) { // what lies between the elements of an input
    const tc_tensor_type *t = &storage_of(x)->type;
    if (!tc_strides_dense(g->module->syms, t->rank, t->sizes, t->strides)) return true;
  }
  for (int32_t i = 1; i < c->n_args && x; i++) {
    const tc_tensor_type *t = &x->type;
    if (!tc_sv_is(c->op->schema.args[i].name, "storage_offset")) continue;
    if (args[i].kind == TC_AK_INT && tc_sym_is_const(args[i].sym) && tc_sym_is_const(t->offset) &&
        args[i].sym->value < t->offset->value)
      return true;
    const tc_tensor_type *whole = &storage_of(x)->type;
    if (!tc_strides_dense(g->module->syms, t->rank, t->sizes, t->strides) && is_written(g, storage_of(x))) return true;
    if (whole->dtype != t->dtype && !tc_strides_dense(g->module->syms, whole->rank, whole->sizes, whole->strides))
      return true;
  }
  return false;
}

static tc_status append(call_gen *r, tc_graph *g, value_list *known, const call *c, tc_node **out) {
  tc_arg args[CALL_ARGS];
  for (int32_t i = 0; i < c->n_args; i++) {
    const call_arg *a = &c->args[i];
    args[i] = a->plain;
    if (a->plain.kind == TC_AK_TENSOR) args[i] = tc_arg_tensor(find_operand(r, g, known, &a->types[0]));
    if (a->plain.kind != TC_AK_TENSORS) continue;
    tc_value **v = TC_NEW_ARRAY(r->arena, tc_value *, a->n);
    for (int32_t k = 0; k < a->n; k++) v[k] = a->types[k].absent ? NULL : find_operand(r, g, known, &a->types[k]);
    args[i] = tc_arg_tensors(v, a->n);
  }
  if (reaches_nobodys(g, c, args)) return tc_error(TC_STATUS_INVALID_ARGUMENT, "a place that has no value");
  return tc_graph_add_node(g, NULL, c->op, c->n_args, args, TC_SV("r"), (tc_sv){0}, out);
}

static bool sees(const tc_op *op) { return op->def->traits & (TC_OP_VIEW | TC_OP_MAYBE_VIEW); }

static const tc_op *any_op(fuzz_case *f, call_gen *r, bool first) {
  const tc_op_registry *ops = f->x->ops;
  int32_t n = tc_op_registry_count(ops);
  if (f->x->o.op && call_chance(r, 70)) return tc_op_find(ops, tc_sv_of(f->x->o.op));
  const tc_op *op = tc_op_registry_at(ops, first ? (int32_t)(f->seed % (uint64_t)n) : call_int(r, n));
  bool view = !first && call_chance(r, 15);
  for (int32_t i = 0; view && !sees(op) && i < SEARCH; i++) op = tc_op_registry_at(ops, call_int(r, n));
  if (!call_possible(op)) return NULL;
  for (size_t k = 0; k < sizeof of_counts / sizeof *of_counts; k++)
    if (tc_sv_is(op->schema.name, of_counts[k])) return NULL;
  if (!call_chance(r, 12)) return op;
  tc_sv name = op->schema.name, overload = op->schema.overload;
  const tc_op *writes =
      tc_op_find(ops, tc_sv_printf(r->arena, TC_SV_FMT "::" TC_SV_FMT "_%s" TC_SV_FMT, TC_SV_ARG(op->schema.ns),
                                   TC_SV_ARG(name), overload.size ? "." : "", TC_SV_ARG(overload)));
  return writes ? writes : op;
}

// Tries an op in a graph of its own until it takes a call; one that is known where none is found.
static bool find_call(fuzz_case *f, tc_module *m, call_gen *r, const tc_op *op, call *out) {
  for (int32_t i = 0; i < SEARCH; i++) {
    tc_graph *g;
    call_any(r, op, out);
    tc_status s = call_graph(m, out, &g);
    bool good = s == TC_OK && call_small(g, LARGEST) && call_modest(out, LARGEST);
    tc_status_free(s);
    if (good) return true;
  }
  bool found = known_call(((const fuzzer *)f->x->self)->known, m, r, op, out);
  f->known |= found;
  return found;
}

static tc_module *new_module(fuzz_case *f) {
  tc_module *m = TC_NEW(f->arena, tc_module);
  *m = (tc_module){
      .arena = f->arena, .ops = f->x->ops, .syms = tc_sym_create(f->arena), .bindings = tc_map_create(f->arena)};
  return m;
}

static void make_graph(fuzz_case *f) {
  tc_module *m = new_module(f);
  call_gen r = {.state = f->seed, .arena = f->arena, .syms = m->syms, .layouts = true, .offsets = true};
  r.only = f->x->o.dtype;
  value_list known = {.n = 0};
  tc_graph *g = f->g = tc_graph_create(m, TC_SV("f"));
  int32_t want = call_chance(&r, 40) ? 1 : 2 + call_int(&r, 5);
  for (int32_t made = 0, i = 0; made < want && i < 20; i++) {
    call c;
    call_type like;
    tc_node *n;
    r.like =
        known.n && type_of(known.data[known.n - 1 - call_int(&r, known.n < 3 ? known.n : 3)], &like) ? &like : NULL;
    const tc_op *op = any_op(f, &r, !made && i < 8);
    if (!op || !find_call(f, m, &r, op, &c)) continue;
    tc_status s = append(&r, g, &known, &c, &n);
    made += s == TC_OK;
    for (int32_t k = 0; s == TC_OK && k < n->n_results; k++) remember(&known, n->results[k]);
    tc_status_free(s);
  }
  tc_graph_sweep(g);
  int32_t n_out = 0;
  for (tc_node *n = g->first; n; n = n->next) {
    for (int32_t k = 0; k < n->n_results && n_out < MOST_IO; k++) {
      tc_value *v = n->results[k];
      if (v->kind != TC_VALUE_TENSOR || (v->n_uses && !call_chance(&r, 25))) continue;
      if (f->only && ++n_out != f->only) continue;
      tc_graph_add_output(g, TC_OUT_USER, tc_arg_tensor(v), tc_sv_printf(f->arena, "o%d", n_out++));
    }
    f->cut |= cuts_off(n);
  }
  tc_graph_sweep(g);
}

static tc_status parse(fuzz_case *f, tc_sv text) {
  tc_lexer lx;
  tc_lex_init(&lx, f->arena, TC_SV("fuzz"), text);
  return tc_graph_parse(new_module(f), &lx, &f->g);
}

// What is compared is the text: random nodes are numbered in its order.
static tc_status read_back(fuzz_case *f) { return parse(f, tc_sb_view(&f->text)); }

static tc_status read_graph(fuzz_case *f) {
  tc_sv text;
  TC_TRY(tc_file_read(f->arena, f->x->o.graph, &text));
  return parse(f, text);
}

// ---- references ----
// Elements that are one in memory are moved together, although each may be rounded differently where it is read: those
// that are not written there are copies of their own for what reads them.
typedef struct copier {
  tc_graph *g;
  tc_node *before;
  tc_status status;
} copier;

static bool is_written_by(const tc_node *n, const tc_value *v) {
  bool written = false;
  for (int32_t i = 0; i < n->n_args && i < n->op->schema.n_args; i++)
    written |= n->op->schema.args[i].writes && n->args[i].value && storage_of(n->args[i].value) == storage_of(v);
  tc_writes w = tc_writes_of(n);
  for (int32_t k = 0; k < w.n; k++) written |= storage_of(n->args[w.written[k].arg].value) == storage_of(v);
  return written;
}

static bool repeats(const tc_value *v) {
  bool found = false;
  for (int32_t d = 0; v->kind == TC_VALUE_TENSOR && d < v->type.rank; d++)
    found |= tc_sym_is_int(v->type.strides[d], 0) && !tc_sym_is_int(v->type.sizes[d], 1);
  return found;
}

static void copy_repeated(void *arg, tc_value **place) {
  copier *c = arg;
  if (c->status != TC_OK || !repeats(*place) || is_written_by(c->before, *place)) return;
  tc_node *n;
  tc_arg args[2] = {tc_arg_tensor(*place), {.kind = TC_AK_MEMORY_FORMAT, .integer = TC_FORMAT_CONTIGUOUS}};
  c->status = tc_graph_add_node(c->g, c->before, tc_op_find(c->g->module->ops, TC_SV("aten::clone")), 2, args,
                                TC_SV("copy"), (tc_sv){0}, &n);
  if (c->status == TC_OK) *place = n->results[0];
}

static tc_status copy_all_repeated(tc_graph *g) {
  copier c = {.g = g};
  for (tc_node *n = g->first; n && c.status == TC_OK; n = n->next) {
    bool shares = sees(n->op);                         // memory with an operand
    for (int32_t i = 0; i < n->op->schema.n_args; i++) // or counts in its storage
      shares |= tc_sv_is(n->op->schema.args[i].name, "storage_offset");
    for (int32_t i = 0; i < n->n_results; i++) shares |= tc_value_base(n->results[i]) || repeats(n->results[i]);
    c.before = n;
    if (!shares) tc_node_each_value(n, copy_repeated, &c);
  }
  return c.status;
}

static bool goes_by_norm(const tc_graph *g, const tc_value *v) {
  for (const tc_node *n = g->first; n; n = n->next) {
    if (!is_of(n, by_norm, sizeof by_norm / sizeof *by_norm)) continue;
    for (int32_t i = 0; i < n->n_args; i++)
      if (n->args[i].kind == TC_AK_TENSOR && n->args[i].value == v) return true;
  }
  return false;
}

static bool has_dtype(const tc_op *op) {
  bool found = false;
  for (int32_t i = 0; i < op->schema.n_args; i++) found |= tc_sv_is(op->schema.args[i].name, "dtype");
  return found;
}

// Of its own type or of a narrower one: what is given a dtype rounds what it reads to that first.
static double unit_as_read(const tc_graph *g, const tc_value *v, tc_dtype own) {
  double unit = unit_of(own);
  for (const tc_node *n = g->first; n; n = n->next) {
    bool reads = false;
    for (int32_t i = 0; i < n->n_args; i++) {
      const tc_value *x = n->args[i].kind == TC_AK_TENSOR ? n->args[i].value : NULL;
      reads |= x && (x == v || tc_value_base(x) == v);
    }
    if (reads && n->n_results && has_dtype(n->op)) unit = fmax(unit, unit_of(n->results[0]->type.dtype));
  }
  return unit;
}

// A factorisation of what is not finite is nothing in particular.
static void move(fuzz_case *f, const tc_tensor *t, const tc_value *v, bool norm, bool made) {
  tc_status_free(shake(&f->noise, t, unit_as_read(f->g, v, t->dtype), norm, made, &f->loose));
}

// Unsigned integers beyond the signed range, which only arithmetic that PyTorch has no kernels for gives: the
// references compute with signed ones.
static bool beyond_signed(const tc_tensor *t) {
  int64_t index[TC_MAX_RANK];
  bool found = false;
  for (int64_t e = 0, n = t->dtype == TC_U64 ? tc_tensor_numel(t) : 0; e < n && !found; e++) {
    each(t, e, index);
    found = tc_tensor_get_int(t, index) < 0;
  }
  return found;
}

// A negative number beside unsigned integers of 64 bits is one of these.
static bool wraps_number(const tc_node *n) {
  bool found = false;
  for (int32_t i = 0; i < n->n_args && i < n->op->schema.n_args && n->n_results; i++) {
    const tc_arg *a = &n->args[i];
    found |= n->results[0]->type.dtype == TC_U64 && n->op->schema.args[i].type == TC_ST_SCALAR &&
             a->kind == TC_AK_INT && tc_sym_is_const(a->sym) && a->sym->value < 0;
  }
  return found;
}

static bool is_beyond(const tc_tensor *t, double limit) {
  int64_t index[TC_MAX_RANK];
  bool found = false;
  for (int64_t e = 0, n = tc_tensor_numel(t); e < n && !found; e++) {
    each(t, e, index);
    tc_c128 v = element(t, index);
    double size = fmax(fabs(v.re), fabs(v.im));
    found = size > limit && isfinite(size);
  }
  return found;
}

// Numbers whose square is beyond the dtype that ops compute in: the references, which compute in f64, do not overflow.
static bool is_far(const tc_tensor *t) {
  return unit_of(t->dtype) > 0 && is_beyond(t, t->dtype == TC_F64 || t->dtype == TC_C128 ? 0x1p511 : 0x1p63);
}

static bool has_infinity(const tc_tensor *t) {
  int64_t index[TC_MAX_RANK];
  bool found = false;
  for (int64_t e = 0, n = unit_of(t->dtype) > 0 ? tc_tensor_numel(t) : 0; e < n && !found; e++) {
    each(t, e, index);
    tc_c128 v = element(t, index);
    found = isinf(v.re) || isinf(v.im);
  }
  return found;
}

static bool is_of_means(const tc_node *n) { return is_of(n, of_means, sizeof of_means / sizeof *of_means); }

// Differences from a mean, without rounding.
static void keep_even(void *self, const tc_node *n, int32_t n_results, const tc_tensor *results) {
  fuzz_case *f = self;
  int64_t parts;
  tc_tensor wide;
  if (n->graph->scratch || !n_results || !is_of_means(n)) return;
  tc_status s = open_wide(&results[0], &wide, &parts);
  if (s == TC_OK && parts)
    tc_map_put_ptr(f->even, n, NULL)->value.ptr =
        tc_arena_copy(f->arena, tc_tensor_data(&wide), (size_t)parts * sizeof(double));
  if (s == TC_OK) tc_tensor_unref(&wide);
  tc_status_free(s);
}

// Views are moved with what they see; what is written in place is new.
static void shake_results(void *self, const tc_node *n, int32_t n_results, const tc_tensor *results) {
  fuzz_case *f = self;
  for (int32_t i = 0; i < n_results && i < n->n_results; i++) {
    const tc_value *v = n->results[i];
    tc_value *base = tc_value_base(v);
    bool view = base && !n->op->schema.args[v->view_arg].writes;
    if (v->kind != TC_VALUE_TENSOR || !results[i].storage) continue;
    f->loose |= beyond_signed(&results[i]);
    bool sum = is_of(n, sums, sizeof sums / sizeof *sums);
    if (n->graph->scratch && f->closer && !view) tc_status_free(shake_rounded(&f->noise, &results[i], sum));
    if (view || n->graph->scratch) continue;
    if (is_far(&results[i])) tc_map_put_ptr(f->far, storage_of(v), NULL);
    if (is_beyond(&results[i], MANY_STEPS)) tc_map_put_ptr(f->many, storage_of(v), NULL);
    if (has_infinity(&results[i])) tc_map_put_ptr(f->open, storage_of(v), NULL);
    bool norm = is_of_means(n) || is_of(n, by_norm, sizeof by_norm / sizeof *by_norm) || goes_by_norm(n->graph, v) ||
                (base && goes_by_norm(n->graph, base));
    move(f, &results[i], v, norm, true);
    tc_map_entry *even = i == 0 && is_of_means(n) ? tc_map_find_ptr(f->even, n) : NULL;
    if (even) tc_status_free(shake_alike(&f->noise, &results[i], even->value.ptr));
    if (f->closer && cuts_off(n)) tc_status_free(shake_whole(&f->noise, &results[i]));
  }
}

// Integers that places, lengths and pivots may be: 0 and 1, or numbers that rise from either.
static tc_status fill_places(uint64_t *state, const tc_tensor *t) {
  int32_t kind = (int32_t)(fuzz_random(state) % 3);
  tc_tensor rising;
  if (kind == 2) {
    tc_tensor_fill_uniform_int(&tc_executor_serial, t, fuzz_random(state), 0, 2);
    return TC_OK;
  }
  TC_TRY(tc_tensor_create(tc_system_allocator(), TC_I64, t->rank, t->sizes, &rising));
  int64_t *at = tc_tensor_data(&rising);
  for (int64_t e = 0, n = tc_tensor_numel(t); e < n; e++) at[e] = e + kind;
  tc_status s = tc_tensor_copy(&rising, t);
  tc_tensor_unref(&rising);
  return s;
}

static tc_status make_all_inputs(fuzz_case *f, tc_tensor *out) {
  TC_TRY(make_inputs(f->g, NULL, f->seed, out));
  uint64_t places = f->seed;
  for (int32_t i = 0; i < f->g->inputs.count && f->known; i++)
    if (out[i].dtype == TC_I64 || out[i].dtype == TC_I32) TC_TRY(fill_places(&places, &out[i]));
  uint64_t state = f->seed ^ 0x5851f42d4c957f2du;
  if (fuzz_random(&state) & 1) return TC_OK;
  for (int32_t i = 0; i < f->g->inputs.count; i++) // fractions, too
    if (unit_of(out[i].dtype) > 0) tc_tensor_fill_normal(&tc_executor_serial, &out[i], fuzz_random(&state), 0, 1.5);
  return TC_OK;
}

// One run more, wide or shaken.
static tc_status run_again(fuzz_case *f, bool wide) {
  int32_t n = f->g->inputs.count;
  tc_tensor out[MOST_IO] = {0}, *in = wide ? f->in : f->shaken;
  tc_ref_options o = {.wide = wide, .watch_self = f, .watch_moves = !wide, .watch_parts = !wide};
  o.watch = wide ? keep_even : shake_results;
  o.watch_regions = !wide; // a loop's gradients are sums over what its turns round
  for (int32_t i = 0; i < n && !wide; i++) {
    TC_TRY(tc_tensor_copy(&f->in[i], &f->shaken[i]));
    const tc_value *v = f->g->inputs.data[i].value;
    move(f, &f->shaken[i], v, goes_by_norm(f->g, v), false);
  }
  TC_TRY(tc_ref_run(f->g, tc_system_allocator(), n, in, out, &o));
  for (int32_t i = 0; i < f->g->outputs.count; i++) {
    band_widen(&f->bands[i], &out[i]);
    tc_tensor_unref(&out[i]);
  }
  return TC_OK;
}

static void run_often(fuzz_case *f, int32_t times) {
  for (int32_t k = 0; k < times && !f->loose; k++) {
    tc_status s = run_again(f, false);
    f->loose |= s != TC_OK; // on the edge of what the op takes
    tc_status_free(s);
  }
}

static bool reads_any_of(const tc_node *n, const tc_map *storages) {
  bool found = false;
  for (int32_t i = 0; i < n->n_args && !found; i++) {
    const tc_arg *a = &n->args[i];
    if (a->value) found = tc_map_find_ptr(storages, storage_of(a->value));
    for (int32_t k = 0; a->kind == TC_AK_TENSORS && k < a->n && !found; k++)
      found = a->values[k] && tc_map_find_ptr(storages, storage_of(a->values[k]));
  }
  return found;
}

// Adds the storages of what the node gives and writes.
static void add_storages(tc_map *storages, const tc_node *n) {
  for (int32_t k = 0; k < n->n_results; k++) tc_map_put_ptr(storages, storage_of(n->results[k]), NULL);
  for (int32_t i = 0; i < n->n_args && i < n->op->schema.n_args; i++)
    if (n->op->schema.args[i].writes && n->args[i].value) tc_map_put_ptr(storages, storage_of(n->args[i].value), NULL);
  tc_writes w = tc_writes_of(n);
  for (int32_t k = 0; k < w.n; k++) tc_map_put_ptr(storages, storage_of(n->args[w.written[k].arg].value), NULL);
}

// Products of so many floats may leave the range in one order of factors and meet a zero before in another; those of
// integers are the same in all.
static bool multiplies_many(const tc_node *n) {
  enum { MANY = 100 };
  static const char *const products[] = {"*prod*"};
  const tc_value *x = n->n_args && n->args[0].kind == TC_AK_TENSOR ? n->args[0].value : NULL;
  int64_t count = 1;
  for (int32_t d = 0; x && d < x->type.rank; d++) count *= tc_sym_hint_or(n->graph->module->syms, x->type.sizes[d], 1);
  return count > MANY && is_of(n, products, 1) && unit_of(n->results[0]->type.dtype) > 0;
}

// Outputs that come from results which are not unique, or from numbers so large that what an op makes of them depends
// on where it squares or sums them; and those that come from factorisations.
static void find_any(fuzz_case *f) {
  tc_map *storages = tc_map_create(f->arena), *factored = tc_map_create(f->arena);
  for (const tc_node *n = f->g->first; n; n = n->next) {
    if (is_of(n, not_unique, sizeof not_unique / sizeof *not_unique) || multiplies_many(n) || wraps_number(n) ||
        reads_any_of(n, f->far) || reads_any_of(n, storages) ||
        (is_of(n, by_zeros, sizeof by_zeros / sizeof *by_zeros) && reads_any_of(n, f->open)) ||
        (is_of(n, by_steps, sizeof by_steps / sizeof *by_steps) && reads_any_of(n, f->many)))
      add_storages(storages, n);
    if (is_of(n, by_norm, sizeof by_norm / sizeof *by_norm) || reads_any_of(n, factored)) add_storages(factored, n);
  }
  for (int32_t i = 0; i < f->g->outputs.count; i++) {
    const tc_value *storage = storage_of(f->g->outputs.data[i].arg.value);
    f->bands[i].any = tc_map_find_ptr(storages, storage);
    f->bands[i].factored = tc_map_find_ptr(factored, storage);
  }
}

static tc_status references(fuzz_case *f) {
  tc_tensor out[MOST_IO] = {0};
  TC_TRY(make_all_inputs(f, f->in));
  TC_TRY(make_all_inputs(f, f->shaken));
  TC_TRY(tc_ref_run(f->g, tc_system_allocator(), f->g->inputs.count, f->in, out, &(tc_ref_options){0}));
  for (int32_t i = 0; i < f->g->outputs.count; i++) band_start(&f->bands[i], f->arena, out[i]);
  f->even = tc_map_create(f->arena);
  f->far = tc_map_create(f->arena), f->open = tc_map_create(f->arena), f->many = tc_map_create(f->arena);
  tc_status s = run_again(f, true);
  f->loose |= s != TC_OK;
  tc_status_free(s);
  run_often(f, SHAKEN);
  find_any(f);
  return TC_OK;
}

static void look_closer(fuzz_case *f) {
  if (f->closer) return;
  f->closer = true;
  run_often(f, SHAKEN_MORE);
  find_any(f);
}

// ---- comparison ----
// Rounding moves the results by as much as they are.
static bool no_digit_holds(const band *b) { return b->most > 0.1 * b->largest; }

// Is it rounding that decides about a factorisation's numbers? Its report of singular matrices is decided with them.
static bool reports_chance(const fuzz_case *f, const band *report) {
  bool chance = false;
  if (!report->factored || tc_dtype_class(report->first.dtype) != 'i') return false;
  for (int32_t i = 0; i < f->g->outputs.count; i++) {
    const band *b = &f->bands[i];
    chance |= b->factored && (b->open || b->undecided || no_digit_holds(b));
  }
  return chance;
}

// What factorisations give for a matrix that units of its largest element make singular (its distance to a singular one
// is the reciprocal of its condition: Higham 2002, 15.2) has no digit that is right: the inverse of what is left of a
// pivot or a singular value, or its logarithm, may be any number, or infinite.
static tc_status judge(fuzz_case *f, const tc_tensor *got, int32_t i) {
  fuzzer *z = f->x->self;
  const band *b = &f->bands[i];
  double whole = f->cut && b->first.dtype != TC_BOOL ? 1 : 0;
  tc_status s = f->loose ? TC_OK : band_check(b, got, whole, i);
  if (s != TC_OK && !f->closer) {
    tc_status_free(s);
    look_closer(f);
    s = f->loose ? TC_OK : band_check(b, got, whole, i);
  }
  bool no_digit = s != TC_OK && b->factored && (no_digit_holds(b) || reports_chance(f, b));
  if (no_digit) {
    tc_status_free(s);
    s = same_form(got, &b->first, b->open, i);
  }
  int64_t n = tc_tensor_numel(&b->first), open = f->loose || b->open || b->any || no_digit ? n : b->undecided;
  z->elements += n, z->undecided += open, z->compared += n == 0 || open < n;
  if (s == TC_OK && f->loose && (got->dtype != b->first.dtype || got->rank != b->first.rank))
    return tc_error(TC_STATUS_MISMATCH, "output %d has another dtype or rank", i);
  return s;
}

// Rounding decides whether a matrix is singular where it moves the factorisation's results by as much as they are: a
// refusal is as right then as they are.
static bool nearly_singular(fuzz_case *f, const tc_status s, int32_t n) {
  bool factors = false, moved = false;
  if (tc_status_code(s) != TC_STATUS_INVALID_ARGUMENT) return false;
  for (const tc_node *k = f->g->first; k; k = k->next) factors |= is_of(k, by_norm, sizeof by_norm / sizeof *by_norm);
  if (factors) look_closer(f);
  for (int32_t i = 0; i < n && factors; i++) {
    const band *b = &f->bands[i];
    moved |= f->loose || b->open || b->undecided || no_digit_holds(b);
  }
  return moved;
}

// Where a count that data gives meets another size in a compiled program, it is taken to be that size and not one, as
// PyTorch's exporter takes it: a run in which it is one is refused in these words.
static bool beyond_assumption(const tc_status s) {
  return tc_status_code(s) == TC_STATUS_INVALID_ARGUMENT && strncmp(tc_status_text(s), "1, read from %", 14) == 0 &&
         strstr(tc_status_text(s), "lies outside of [");
}

// ---- one case ----
static tc_status compile(fuzz_case *f, rig *r, const tc_sb *text) {
  f->where = "reading the text";
  TC_TRY(rig_graph(r, text->text));
  f->where = "compiling";
  return tc_session_create(r->context, r->graph, TC_STAGE_EXEC, &r->session);
}

// out[n]: those that the text has; what is compiled may have others in front.
static tc_status run(fuzz_case *f, const rig *r, const tc_tensor *in, int32_t n, tc_tensor *out) {
  tc_tensor all[2 * MOST_IO] = {0};
  f->where = "running";
  TC_TRY(tc_session_run(r->session, in, all, NULL));
  for (int32_t i = 0, k = r->graph->outputs.count - n; i < n + k; i++)
    if (i < k) tc_tensor_unref(&all[i]);
    else out[i - k] = all[i];
  return TC_OK;
}

static void finish(rig *r) {
  tc_session_destroy(r->session);
  tc_module_destroy(r->module);
  r->session = NULL, r->module = NULL;
}

static void unref_all(tc_tensor *t) {
  for (int32_t i = 0; i < MOST_IO; i++) tc_tensor_unref(&t[i]);
}

static tc_status run_mode(fuzz_case *f, rig *r, tc_status expected) {
  tc_tensor out[MOST_IO] = {0};
  int32_t n = f->g->outputs.count;
  tc_status s = compile(f, r, &f->text);
  if (s != TC_OK && (expected == TC_OK || tc_status_code(s) != TC_STATUS_INVALID_ARGUMENT)) return s;
  if (s == TC_OK) s = run(f, r, f->in, n, out);
  if (expected != TC_OK) { // both refuse, or the device gives something where nothing is asked of it
    tc_status_free(s);
    s = TC_OK;
  } else if (s != TC_OK && (beyond_assumption(s) || nearly_singular(f, s, n))) {
    tc_status_free(s);
    s = TC_OK;
  } else if (s == TC_OK) {
    f->where = "comparing";
    for (int32_t i = 0; i < n && s == TC_OK; i++) s = judge(f, &out[i], i);
  }
  unref_all(out);
  return s;
}

// The forward graph, and the backward graph on what that saved.
static tc_status run_cut(fuzz_case *f, rig *r) {
  const tc_partition *p = &f->gradients.cut;
  int32_t n = p->forward->outputs.count, n_values = n - p->n_saved;
  tc_tensor made[MOST_IO] = {0}, in[MOST_IO] = {0}, grads[MOST_IO] = {0};
  tc_status s = compile(f, r, &f->gradients.forward);
  if (s == TC_OK) s = run(f, r, f->in, n, made);
  for (int32_t i = 0; i < p->n_sources; i++)
    in[i] = p->sources[i] >= 0 ? f->in[p->sources[i]] : made[n_values - 1 - p->sources[i]];
  finish(r);
  if (s == TC_OK) s = compile(f, r, &f->gradients.backward);
  if (s == TC_OK) s = run(f, r, in, p->backward->outputs.count, grads);
  bool singular = s != TC_OK && nearly_singular(f, s, f->g->outputs.count);
  if (singular) tc_status_free(s), s = TC_OK;
  else if (s == TC_OK) f->where = "comparing";
  for (int32_t i = 0; i < f->g->outputs.count && s == TC_OK && !singular; i++)
    s = judge(f, i < n_values ? &made[i] : &grads[i - n_values], i);
  unref_all(made);
  unref_all(grads);
  return s;
}

// Numbers of the widest dtype in the tensor's layout: those of bf16 are often equal.
static tc_status fill_widely(fuzz_case *f, tc_tensor *t) {
  int64_t span = tc_tensor_numel(t) > 0;
  for (int32_t d = 0; d < t->rank && span; d++) span += (t->sizes[d] - 1) * t->strides[d];
  tc_tensor places, seen;
  tc_dtype wide = tc_dtype_is_complex(t->dtype) ? TC_C128 : TC_F64;
  TC_TRY(tc_tensor_create(tc_system_allocator(), wide, 1, &span, &places));
  tc_tensor_fill_normal(&tc_executor_serial, &places, fuzz_random(&f->noise), 0, 1.5);
  tc_status s = tc_tensor_view(places.storage, wide, t->rank, t->sizes, t->strides, 0, &seen);
  tc_tensor_unref(&places);
  TC_TRY(s);
  tc_tensor_unref(t);
  *t = seen;
  return TC_OK;
}

// At fractions: differences do not show a kink that lies just at a whole number, or between equal ones.
static tc_status run_differences(fuzz_case *f) {
  fuzzer *z = f->x->self;
  bool decided;
  f->mode = "differences", f->where = "comparing";
  for (int32_t i = 0; i < f->g->inputs.count; i++)
    if (unit_of(f->shaken[i].dtype) > 0) TC_TRY(fill_widely(f, &f->shaken[i]));
  tc_status s = gradients_check(&f->gradients, z->not_theirs, f->shaken, f->seed, &decided);
  z->differences += decided;
  return s;
}

static void count(fuzz_case *f) {
  fuzzer *z = f->x->self;
  for (const tc_node *n = f->g->first; n; n = n->next) {
    z->nodes++;
    z->inplace += n->op->schema.n_args > 0 && n->op->schema.args[0].writes;
    const tc_op *op = n->op->functional ? n->op->functional : n->op;
    tc_map_put(z->ops, op->full_name, NULL)->value.num++;
    for (int32_t k = 0; k < n->n_results; k++) {
      if (n->results[k]->kind != TC_VALUE_TENSOR) continue;
      const char *dtype = tc_dtype_name(n->results[k]->type.dtype);
      tc_map_put(z->dtypes, tc_sv_of(dtype), NULL)->value.num++;
      tc_map_put(z->pairs, tc_sv_printf(f->x->arena, TC_SV_FMT " %s", TC_SV_ARG(op->full_name), dtype), NULL)
          ->value.num++;
    }
  }
}

// The joint graph in the graph's place.
static tc_status differentiate(fuzz_case *f) {
  fuzzer *z = f->x->self;
  f->source = tc_sb_make(f->arena);
  tc_graph_print(&f->source, f->g);
  if (f->x->o.print) printf("%s\n", f->source.text);
  f->where = "differentiating";
  TC_TRY(gradients_of(f->g, f->seed, MOST_IO, &f->gradients));
  f->g = f->gradients.joint.graph;
  if (!f->g) return TC_OK;
  z->joints++, z->cuts += f->gradients.cut.forward != NULL;
  for (int32_t i = 0; i < f->gradients.joint.n_ops; i++)
    tc_map_put(z->derivatives, f->gradients.joint.ops[i]->full_name, NULL)->value.num++;
  return TC_OK;
}

static tc_status one(void *arg) {
  fuzz_case *f = arg;
  fuzzer *z = f->x->self;
  f->where = "generation";
  f->noise = f->seed * 31 + 7;
  if (f->x->o.graph) TC_TRY(read_graph(f));
  else make_graph(f);
  if (f->x->o.grad) TC_TRY(differentiate(f));
  if (!f->g) {
    fuzz_skip(f->x, f->gradients.none);
    return TC_OK;
  }
  f->text = tc_sb_make(f->arena);
  tc_graph_print(&f->text, f->g);
  f->where = "reading the text";
  TC_TRY(read_back(f));
  if (f->x->o.print) printf("%s\n", f->text.text);
  if (f->g->inputs.count > MOST_IO || !f->g->outputs.count || !call_small(f->g, LARGEST)) {
    fuzz_skip(f->x, "nothing to compare, or too much");
    return TC_OK;
  }
  count(f);
  f->where = "reference";
  TC_TRY(copy_all_repeated(f->g));
  tc_status expected = references(f), s = TC_OK;
  z->errors += expected != TC_OK;
  int32_t n_modes = f->x->o.grad && f->seed % 4 ? 1 : MODES; // joint graphs are long
  for (int32_t k = 0; k < n_modes && s == TC_OK; k++) {
    rig *r = &z->rigs[k];
    f->mode = modes[k];
    s = run_mode(f, r, expected);
    finish(r);
  }
  if (f->gradients.cut.forward && expected == TC_OK && s == TC_OK) {
    f->mode = f->gradients.how;
    s = run_cut(f, &z->rigs[0]);
    finish(&z->rigs[0]);
  }
  bool unique = true;
  for (int32_t i = 0; i < f->g->outputs.count; i++) unique &= !f->bands[i].any;
  if (f->gradients.of && expected == TC_OK && s == TC_OK && unique) s = run_differences(f);
  tc_status_free(expected);
  return s;
}

static tc_status attempt(fuzz_case *f) {
  TC_TRY(tc_arena_create(tc_system_allocator(), &f->arena));
  return tc_arena_guard(f->arena, one, f);
}

static void release(fuzz_case *f) {
  for (int32_t i = 0; i < MOST_IO; i++) {
    tc_tensor_unref(&f->in[i]);
    tc_tensor_unref(&f->shaken[i]);
    tc_tensor_unref(&f->bands[i].first);
  }
  tc_arena_destroy(f->arena);
}

static void say(const fuzz_case *f, tc_status s, const char *what) {
  const fuzz_options *o = &f->x->o;
  printf("%s%s\n%s --seed=%llu in %s, %s: %s\n", f->source.text ? f->source.text : "", f->text.text ? f->text.text : "",
         what, (unsigned long long)f->seed, f->mode, f->where, tc_status_text(s));
  printf("again: call_fuzz%s --cases=1 --seed=%llu%s%s%s%s\n", o->grad ? " --grad" : "", (unsigned long long)f->seed,
         o->op ? " --op=" : "", o->op ? o->op : "", o->dtype ? " --dtype=" : "",
         o->dtype ? tc_dtype_name(o->dtype) : "");
  fflush(stdout);
}

// What is left where one output is enough to fail.
static void make_small(const fuzz_case *big) {
  int32_t n = big->g ? big->g->outputs.count : 0;
  bool found = false;
  for (int32_t k = 1; k <= n && n > 1 && !found; k++) {
    fuzz_case f = {.x = big->x, .seed = big->seed, .mode = "no mode", .only = k};
    tc_status s = attempt(&f);
    found = s != TC_OK;
    if (found) say(&f, s, "with one output");
    tc_status_free(s);
    release(&f);
  }
}

static bool run_case(fuzz_session *x, uint64_t seed) {
  fuzz_case f = {.x = x, .seed = seed, .mode = "no mode"};
  tc_status s = attempt(&f);
  bool ok = s == TC_OK;
  if (!ok) say(&f, s, "FAILED"), make_small(&f);
  tc_status_free(s);
  release(&f);
  return ok;
}

static void report(const fuzz_session *x, const fuzzer *z) {
  int32_t possible = 0;
  for (int32_t i = 0; i < tc_op_registry_count(x->ops); i++) {
    const tc_op *op = tc_op_registry_at(x->ops, i);
    if (!call_possible(op)) continue;
    possible++;
    if (x->o.print && !tc_map_find(z->ops, op->full_name))
      printf("not drawn: " TC_SV_FMT "\n", TC_SV_ARG(op->full_name));
  }
  printf("%lld nodes, %lld of them write in place; %d of %d ops, %d dtypes, %d pairs of these; %lld results of %lld "
         "elements compared, %lld of these decided by rounding; %lld graphs refused by the references\n",
         (long long)z->nodes, (long long)z->inplace, tc_map_count(z->ops), possible, tc_map_count(z->dtypes),
         tc_map_count(z->pairs), (long long)z->compared, (long long)z->elements, (long long)z->undecided,
         (long long)z->errors);
  if (x->o.grad)
    printf("%lld graphs with gradients, %lld of them cut, %lld held to differences; derivatives of %d ops\n",
           (long long)z->joints, (long long)z->cuts, (long long)z->differences, tc_map_count(z->derivatives));
}

static tc_status all(void *arg) {
  fuzz_session *x = arg;
  fuzzer z = {.ops = tc_map_create(x->arena), .dtypes = tc_map_create(x->arena)};
  z.pairs = tc_map_create(x->arena), z.known = tc_map_create(x->arena);
  z.derivatives = tc_map_create(x->arena);
  tc_status s = TC_OK;
  TC_TRY(fuzz_set_up(x));
  TC_TRY(known_read(x->arena, z.known));
  TC_TRY(undecided_read(x->arena, &z.not_theirs));
  x->self = &z, x->run = run_case;
  if (x->o.op && !tc_op_find(x->ops, tc_sv_of(x->o.op))) return tc_error(TC_STATUS_NOT_FOUND, "no op '%s'", x->o.op);
  for (int32_t k = 0; k < MODES && s == TC_OK; k++) {
    z.rigs[k].allocator = tc_system_allocator();
    const scene_options o = {.backend = x->o.backend, .mode = modes[k], .plugins = x->o.plugins};
    s = scene_context(tc_system_allocator(), &o, &z.rigs[k].context);
  }
  if (s == TC_OK) s = fuzz_loop(x);
  report(x, &z);
  for (int32_t k = 0; k < MODES; k++) tc_context_destroy(z.rigs[k].context);
  return s;
}

int main(int argc, char **argv) { return fuzz_main(argc, argv, all); }
