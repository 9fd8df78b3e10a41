// Reading artifacts (tcx.h). Nothing in one is trusted to be well-formed: positions, numbers and names are checked
// before they are used, and each error says what is wrong with the file.
#include "core/runtime/tcx.h"

#include <string.h>

#include "core/base/fs.h"
#include "core/runtime/tcx_internal.h"

typedef struct named {
  tc_sv name, entry;
} named;

typedef struct program {
  tc_tcx_info info; // first
  tc_sv plan, steps, graph;
  TC_VEC(tc_tcx_leaf) inputs;
  TC_VEC(named) tensors;
  TC_VEC(tc_sv) ops;
} program;

struct tc_tcx {
  const tc_allocator *allocator;
  tc_arena *arena;
  tc_storage *bytes, *beside; // beside: of the tensors, NULL if they are in `bytes`
  const tc_blob *blob, *tensors;
  tc_sv folder, weights, mark;
  int64_t abi;
  TC_VEC(program) programs;
};

// ---- the index ----
static tc_status read_pair(tc_lexer *lx, tc_sv *a, tc_sv *b) {
  TC_TRY(tc_lex_string(lx, a));
  return tc_lex_string(lx, b);
}

static tc_status read_program(tc_tcx *x, tc_lexer *lx) {
  program p = {0};
  const struct {
    const char *word;
    tc_sv *text;
  } fields[] = {{"backend", &p.info.backend}, {"plugin", &p.info.plugin_version},
                {"target", &p.info.target},   {"device", &p.info.device},
                {"mode", &p.info.mode},       {"plan", &p.plan},
                {"steps", &p.steps},          {"graph", &p.graph},
                {"takes", &p.info.takes},     {"sizes", &p.info.sizes}};
  enum { N = sizeof fields / sizeof *fields };
  TC_TRY(tc_lex_string(lx, &p.info.name));
  TC_TRY(tc_lex_expect(lx, "{"));
  while (!tc_lex_eat(lx, "}")) {
    int32_t k = 0;
    while (k < N && !tc_lex_eat(lx, fields[k].word)) k++;
    if (k < N) {
      TC_TRY(tc_lex_string(lx, fields[k].text));
    } else if (tc_lex_eat(lx, "input")) {
      tc_tcx_leaf leaf;
      int64_t index;
      TC_TRY(tc_lex_string(lx, &leaf.name));
      TC_TRY(tc_lex_int(lx, &index));
      if (index < 0 || index > INT32_MAX) return tc_lex_error(lx, "input %lld is no input", (long long)index);
      leaf.index = (int32_t)index;
      tc_vec_push(x->arena, &p.inputs, leaf);
    } else if (tc_lex_eat(lx, "tensor")) {
      named t;
      TC_TRY(read_pair(lx, &t.name, &t.entry));
      tc_vec_push(x->arena, &p.tensors, t);
    } else if (tc_lex_eat(lx, "op")) {
      tc_sv schema;
      TC_TRY(tc_lex_string(lx, &schema));
      tc_vec_push(x->arena, &p.ops, schema);
    } else {
      return tc_lex_error(lx, "expected what a program has: backend, plan, input, tensor, …");
    }
  }
  p.info.has_graph = p.graph.size > 0, p.info.has_plan = p.plan.size > 0 || p.steps.size > 0;
  tc_vec_push(x->arena, &x->programs, p);
  return TC_OK;
}

static tc_status read_index(tc_tcx *x) {
  tc_sv text, made_by;
  int64_t format;
  if (!tc_blob_find(x->blob, TC_BLOB_TEXT, TC_SV(TCX_INDEX)))
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "this executable blob is no .tcx file: it has no index");
  TC_TRY(tc_blob_get(x->blob, TC_BLOB_TEXT, TC_SV(TCX_INDEX), &text));
  tc_lexer lx;
  tc_lex_init(&lx, x->arena, TC_SV("the index"), text);
  TC_TRY(tc_lex_expect(&lx, "tcx"));
  TC_TRY(tc_lex_int(&lx, &format));
  TC_TRY(tc_lex_expect(&lx, "tc"));
  TC_TRY(tc_lex_string(&lx, &made_by));
  TC_TRY(tc_lex_expect(&lx, "abi"));
  TC_TRY(tc_lex_int(&lx, &x->abi));
  if (format < TCX_OLDEST || format > TCX_FORMAT)
    return tc_error(TC_STATUS_INVALID_ARGUMENT,
                    "the file is of format %lld (written by tc " TC_SV_FMT
                    "); this is tc %s, which reads formats %d to %d: compile the model again",
                    (long long)format, TC_SV_ARG(made_by), TC_CORE_VERSION, TCX_OLDEST, TCX_FORMAT);
  if (tc_lex_eat(&lx, "weights")) TC_TRY(read_pair(&lx, &x->weights, &x->mark));
  while (tc_lex_eat(&lx, "program")) TC_TRY(read_program(x, &lx));
  if (lx.tok.kind != TC_TOK_END) return tc_lex_error(&lx, "expected a program");
  return x->programs.count ? TC_OK : tc_error(TC_STATUS_INVALID_ARGUMENT, "the file has no program");
}

// ---- files ----
typedef struct mapped {
  const tc_allocator *allocator;
  tc_mapping mapping;
} mapped;
static void release_mapping(void *owner, void *data) {
  mapped *m = owner;
  (void)data;
  tc_file_unmap(&m->mapping);
  tc_free(m->allocator, m);
}

static tc_status map_file(const tc_allocator *a, const char *path, tc_storage **out) {
  mapped *m = tc_alloc(a, sizeof *m);
  if (!m) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a file");
  m->allocator = a;
  tc_status s = tc_file_map(path, &m->mapping);
  if (s == TC_OK) s = tc_storage_wrap(a, (void *)(uintptr_t)m->mapping.data, m->mapping.size, release_mapping, m, out);
  if (s != TC_OK) release_mapping(m, NULL);
  return s;
}

static tc_sv bytes_of(const tc_storage *s) { return (tc_sv){s->data, s->size}; }

// The file of the tensors, which must be the very one that was written with this.
static tc_status open_beside(tc_tcx *x) {
  if (!tc_sv_eq(tc_path_base(x->weights), x->weights))
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "the tensors' file '" TC_SV_FMT "' is no plain name",
                    TC_SV_ARG(x->weights));
  tc_sv path = tc_path_join(x->arena, x->folder, x->weights);
  tc_blob *b;
  TC_TRY(map_file(x->allocator, tc_sv_z(x->arena, path), &x->beside), "the tensors lie beside the artifact");
  TC_TRY(tc_blob_open(x->arena, bytes_of(x->beside), &b), "while reading '" TC_SV_FMT "'", TC_SV_ARG(path));
  tc_sv mark = tc_sv_printf(x->arena, "%016llx", (unsigned long long)tc_blob_mark(b));
  if (!tc_sv_eq(mark, x->mark))
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "'" TC_SV_FMT "' was not written with this artifact", TC_SV_ARG(path));
  x->tensors = b;
  return TC_OK;
}

static tc_status open_guarded(void *arg) {
  tc_tcx *x = arg;
  tc_blob *b;
  x->folder = tc_sv_copy(x->arena, x->folder);
  TC_TRY(tc_blob_open(x->arena, bytes_of(x->bytes), &b));
  x->blob = x->tensors = b;
  TC_TRY(read_index(x));
  return x->weights.size ? open_beside(x) : TC_OK;
}

tc_status tc_tcx_open_storage(const tc_allocator *a, tc_storage *bytes, tc_sv folder, tc_tcx **out) {
  tc_tcx *x = tc_alloc(a, sizeof *x);
  if (!x) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for an artifact");
  *x = (tc_tcx){.allocator = a, .bytes = bytes, .folder = folder};
  tc_storage_ref(bytes);
  tc_status s = tc_arena_create(a, &x->arena);
  if (s == TC_OK) s = tc_arena_guard(x->arena, open_guarded, x);
  if (s != TC_OK) {
    tc_tcx_close(x);
    return s;
  }
  *out = x;
  return TC_OK;
}

tc_status tc_tcx_open(const tc_allocator *a, const char *path, tc_tcx **out) {
  tc_storage *bytes;
  TC_TRY(map_file(a, path, &bytes));
  tc_status s = tc_tcx_open_storage(a, bytes, tc_path_dir(tc_sv_of(path)), out);
  tc_storage_unref(bytes);
  return tc_status_note(s, "while reading '%s'", path);
}

void tc_tcx_close(tc_tcx *x) {
  if (!x) return;
  tc_storage_unref(x->beside);
  tc_storage_unref(x->bytes);
  tc_arena_destroy(x->arena);
  tc_free(x->allocator, x);
}

int32_t tc_tcx_count(const tc_tcx *x) { return x->programs.count; }
const tc_tcx_info *tc_tcx_at(const tc_tcx *x, int32_t i) { return &x->programs.data[i].info; }

int32_t tc_tcx_find(const tc_tcx *x, tc_sv name, tc_sv backend) {
  for (int32_t i = 0; i < x->programs.count; i++) {
    const tc_tcx_info *p = &x->programs.data[i].info;
    if ((name.size && !tc_sv_eq(p->name, name)) || (backend.size && !tc_sv_eq(p->backend, backend))) continue;
    for (int32_t k = i; k >= 0; k = tc_tcx_other(x, i, k))
      if (!tc_tcx_at(x, k)->sizes.size) return k;
    return i;
  }
  return -1;
}

int32_t tc_tcx_other(const tc_tcx *x, int32_t i, int32_t after) {
  const tc_tcx_info *p = tc_tcx_at(x, i);
  for (int32_t k = after + 1; k < tc_tcx_count(x); k++) {
    const tc_tcx_info *o = tc_tcx_at(x, k);
    if (k != i && tc_sv_eq(o->name, p->name) && tc_sv_eq(o->backend, p->backend)) return k;
  }
  return -1;
}

void tc_tcx_list(const tc_tcx *x, tc_sb *sb) {
  for (int32_t i = 0; i < tc_tcx_count(x); i++) {
    const tc_tcx_info *p = tc_tcx_at(x, i);
    tc_sb_printf(sb, "\n  '" TC_SV_FMT "' for " TC_SV_FMT, TC_SV_ARG(p->name), TC_SV_ARG(p->backend));
    if (p->takes.size) tc_sb_printf(sb, ": " TC_SV_FMT, TC_SV_ARG(p->takes));
  }
}

// ---- devices ----
tc_status tc_tcx_check(const tc_tcx *x, int32_t i, const tc_context *c) {
  const tc_tcx_info *p = tc_tcx_at(x, i);
  const tc_device *d = c->device;
  if (!tc_sv_eq(c->backend, p->backend) || !d == p->has_plan)
    return tc_error(TC_STATUS_INVALID_ARGUMENT,
                    "the program '" TC_SV_FMT "' was compiled for the backend '" TC_SV_FMT "', this one is '" TC_SV_FMT
                    "'",
                    TC_SV_ARG(p->name), TC_SV_ARG(p->backend), TC_SV_ARG(c->backend));
  if (!d) return TC_OK;
  if (x->abi != TC_ABI_MAJOR)
    return tc_error(TC_STATUS_INVALID_ARGUMENT,
                    "the program '" TC_SV_FMT "' was compiled for the plugin interface %lld, this is interface %d: "
                    "compile the model again",
                    TC_SV_ARG(p->name), (long long)x->abi, TC_ABI_MAJOR);
  if (!tc_sv_eq(d->plugin->version, p->plugin_version))
    return tc_error(TC_STATUS_INVALID_ARGUMENT,
                    "the program '" TC_SV_FMT "' was compiled for version " TC_SV_FMT " of the plugin '" TC_SV_FMT
                    "', this is version " TC_SV_FMT ": compile the model again",
                    TC_SV_ARG(p->name), TC_SV_ARG(p->plugin_version), TC_SV_ARG(d->plugin->name),
                    TC_SV_ARG(d->plugin->version));
  return TC_OK;
}

tc_status tc_tcx_refused(const tc_tcx *x, int32_t i, const tc_context *c, tc_status s) {
  const tc_tcx_info *p = tc_tcx_at(x, i);
  const tc_device *d = c->device;
  if (s == TC_OK || !d || tc_sv_is(p->target, d->props.target)) return s;
  return tc_status_note(
      s, "the program '" TC_SV_FMT "' was compiled for " TC_SV_FMT " (" TC_SV_FMT "), this device is %s (%s)",
      TC_SV_ARG(p->name), TC_SV_ARG(p->target), TC_SV_ARG(p->device), d->props.target, d->props.name);
}

// ---- programs ----
static void release_part(void *whole, void *data) {
  (void)data;
  tc_storage_unref(whole);
}

// A tensor lies in the storage of the whole file. It gets one of just its bytes, so that what is copied because it will
// be changed is no more than that; tensors of the same bytes share one.
static tc_status own_storage(const tc_tcx *x, tc_map *storages, tc_tensor *t) {
  int64_t size = tc_dtype_size(t->dtype), lo = 0, hi = 1;
  for (int32_t d = 0; d < t->rank; d++) {
    int64_t far = (t->sizes[d] - 1) * t->strides[d];
    if (far < 0) lo += far;
    else hi += far;
  }
  if (tc_tensor_numel(t) == 0) lo = hi = 0;
  struct {
    char *data;
    size_t size;
  } span = {(char *)tc_tensor_data(t) + lo * size, (size_t)((hi - lo) * size)};
  tc_storage *whole = t->storage, *part;
  tc_map_entry *e = tc_map_put(storages, (tc_sv){(const char *)&span, sizeof span}, NULL);
  if (e->value.ptr) {
    part = e->value.ptr;
    tc_storage_ref(part);
    tc_storage_unref(whole);
  } else {
    TC_TRY(tc_storage_wrap(x->allocator, span.data, span.size, release_part, whole, &part));
    e->value.ptr = part;
  }
  t->storage = part, t->offset = -lo;
  return TC_OK;
}

static tc_status bind(const tc_tcx *x, tc_module *m, tc_map *storages, const named *t) {
  tc_binding *b = TC_NEW(m->arena, tc_binding);
  bool fresh;
  b->name = tc_sv_copy(m->arena, t->name);
  tc_map_entry *e = tc_map_put(m->bindings, b->name, &fresh);
  if (!fresh) return tc_error(TC_STATUS_DATA_LOSS, "the tensor '" TC_SV_FMT "' is there twice", TC_SV_ARG(t->name));
  e->value.ptr = b; // whose tensors go with the module
  TC_TRY(tc_blob_get_tensor(x->tensors, x->beside ? x->beside : x->bytes, t->entry, true, &b->tensor));
  return own_storage(x, storages, &b->tensor);
}

// State as the signature says: what is bound fits its types where these are numbers.
static tc_status check_state(const tc_module *m, const tc_graph *g) {
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_graph_input *in = &g->inputs.data[i];
    bool state = in->kind == TC_IN_PARAMETER || in->kind == TC_IN_BUFFER || in->kind == TC_IN_CONSTANT;
    if (!in->value || !state) continue;
    const tc_map_entry *e = tc_map_find(m->bindings, in->target);
    const tc_binding *b = e ? e->value.ptr : NULL;
    if (!b || in->value->kind != TC_VALUE_TENSOR || b->tensor.dtype != in->value->type.dtype ||
        b->tensor.rank != in->value->type.rank)
      return tc_error(TC_STATUS_DATA_LOSS, "the tensor '" TC_SV_FMT "' is missing, or not what the plan says",
                      TC_SV_ARG(in->target));
  }
  return TC_OK;
}

typedef struct loading {
  const tc_tcx *x;
  int32_t i;
  const program *p;
  int32_t parts;
  tc_tcx_program *out;
} loading;

// The steps first: their text says what is known of all symbols.
static tc_status load_steps(const tc_tcx *x, const program *p, tc_op_registry *ops, tc_module *m, tc_image *out) {
  tc_sv text;
  tc_lexer lx;
  TC_VEC(tc_plan *) plans = {0};
  tc_sv entry = tc_sv_printf(m->arena, "steps/" TC_SV_FMT, TC_SV_ARG(p->steps));
  TC_TRY(tc_image_declare(ops));
  TC_TRY(tc_blob_get(x->blob, TC_BLOB_TEXT, entry, &text));
  tc_lex_init(&lx, m->arena, entry, text);
  TC_TRY(tc_graph_parse(m, &lx, &out->steps));
  if (lx.tok.kind != TC_TOK_END) return tc_lex_error(&lx, "the steps end before this");
  for (int32_t i = 0;; i++) {
    tc_plan *plan;
    tc_sv name = tc_sv_printf(m->arena, TC_SV_FMT ".%d", TC_SV_ARG(p->steps), i);
    if (!tc_blob_find(x->blob, TC_BLOB_PLAN, name)) break;
    TC_TRY(tc_blob_get_plan(x->blob, name, m, &plan));
    tc_vec_push(m->arena, &plans, plan);
  }
  out->plans = plans.data, out->n_plans = plans.count;
  return tc_image_verify(out);
}

static tc_status load_plan(const tc_tcx *x, const program *p, tc_module *m, tc_image *out) {
  tc_plan **one = TC_NEW_ARRAY(m->arena, tc_plan *, 1);
  TC_TRY(tc_blob_get_plan(x->blob, p->plan, m, one));
  out->plans = one, out->n_plans = 1;
  return TC_OK;
}

static tc_status add_text(const tc_tcx *x, const program *p, tc_module *m, tc_tcx_program *out, tc_tcx_text *texts) {
  int32_t k = 0;
  if (!p->graph.size) return TC_OK;
  while (k < out->n_texts && !tc_sv_eq(texts[k].entry, p->graph)) k++;
  texts[k].whole |= !p->info.sizes.size;
  if (k < out->n_texts) return TC_OK;
  texts[out->n_texts++].entry = p->graph;
  return tc_blob_get(x->blob, TC_BLOB_TEXT, tc_sv_printf(m->arena, "graph/" TC_SV_FMT, TC_SV_ARG(p->graph)),
                     &texts[k].graph);
}

static tc_status load_texts(const tc_tcx *x, int32_t i, tc_module *m, tc_tcx_program *out) {
  tc_tcx_text *texts = TC_NEW_ARRAY(m->arena, tc_tcx_text, x->programs.count);
  TC_TRY(add_text(x, &x->programs.data[i], m, out, texts));
  if (out->n_texts) out->graph = texts->graph;
  for (int32_t k = tc_tcx_other(x, i, -1); k >= 0; k = tc_tcx_other(x, i, k))
    TC_TRY(add_text(x, &x->programs.data[k], m, out, texts));
  out->texts = texts;
  return TC_OK;
}

bool tc_tcx_text_is(const tc_tcx_program *p, int32_t text, int32_t which) {
  if (which == TC_TCX_OPEN_TEXTS) return !p->texts[text].whole;
  bool own = text == 0 && p->graph.size;
  return own == (which == TC_TCX_OWN_TEXT);
}

bool tc_tcx_has_text(const tc_tcx_program *p, int32_t which) {
  for (int32_t i = 0; i < p->n_texts; i++)
    if (tc_tcx_text_is(p, i, which)) return true;
  return false;
}

static void unref_storage(void *storage) { tc_storage_unref(storage); }

static tc_status load(void *arg) {
  loading *l = arg;
  const tc_tcx *x = l->x;
  const program *p = l->p;
  tc_tcx_program *out = l->out;
  tc_module *m = out->module;
  // Code and names lie in the file.
  tc_arena_on_destroy(m->arena, unref_storage, x->bytes);
  tc_storage_ref(x->bytes);
  tc_op_registry *ops;
  TC_TRY(tc_op_registry_create(m->arena, &ops));
  for (int32_t i = 0; i < p->ops.count; i++) TC_TRY(tc_op_declare(ops, p->ops.data[i]));
  m->ops = ops;
  bool code = l->parts & TC_TCX_PLAN;
  if (code && p->steps.size) TC_TRY(load_steps(x, p, ops, m, &out->image));
  else if (code && p->plan.size) TC_TRY(load_plan(x, p, m, &out->image));
  const tc_graph *g = tc_image_graph(&out->image);
  tc_map *storages = tc_map_create(m->arena);
  bool tensors = l->parts & TC_TCX_TENSORS;
  for (int32_t i = 0; tensors && i < p->tensors.count; i++) TC_TRY(bind(x, m, storages, &p->tensors.data[i]));
  if (g && tensors) TC_TRY(check_state(m, g));
  tc_tcx_leaf *leaves = TC_NEW_ARRAY(m->arena, tc_tcx_leaf, p->inputs.count);
  for (int32_t i = 0; i < p->inputs.count; i++) {
    if (g && p->inputs.data[i].index >= g->inputs.count)
      return tc_error(TC_STATUS_DATA_LOSS, "the plan has no input %d", p->inputs.data[i].index);
    leaves[i] = (tc_tcx_leaf){tc_sv_copy(m->arena, p->inputs.data[i].name), p->inputs.data[i].index};
  }
  out->inputs = leaves, out->n_inputs = p->inputs.count;
  return load_texts(x, l->i, m, out);
}

tc_status tc_tcx_load(const tc_tcx *x, int32_t i, int32_t parts, tc_tcx_program *out) {
  *out = (tc_tcx_program){0};
  const program *p = &x->programs.data[i];
  TC_TRY(tc_module_create(x->allocator, NULL, &out->module));
  loading l = {x, i, p, parts, out};
  tc_status s = tc_arena_guard(out->module->arena, load, &l);
  if (s != TC_OK) tc_tcx_unload(out);
  return tc_status_note(s, "while loading the program '" TC_SV_FMT "'", TC_SV_ARG(p->info.name));
}

static tc_status check_tensors(const program *a, const program *b) {
  bool same = a->tensors.count == b->tensors.count;
  for (int32_t i = 0; same && i < a->tensors.count; i++)
    same = tc_sv_eq(a->tensors.data[i].name, b->tensors.data[i].name) &&
           tc_sv_eq(a->tensors.data[i].entry, b->tensors.data[i].entry);
  if (same) return TC_OK;
  return tc_error(TC_STATUS_DATA_LOSS, "the executables of the program '" TC_SV_FMT "' have different tensors",
                  TC_SV_ARG(a->info.name));
}

tc_status tc_tcx_load_others(const tc_tcx *x, int32_t i, tc_tcx_program **out, int32_t *out_n) {
  int32_t n = 0;
  *out = NULL, *out_n = 0;
  for (int32_t k = tc_tcx_other(x, i, -1); k >= 0; k = tc_tcx_other(x, i, k)) n++;
  if (!n) return TC_OK;
  tc_tcx_program *p = tc_alloc(x->allocator, (size_t)n * sizeof *p);
  tc_status s = p ? TC_OK : tc_error_out_of_memory();
  n = 0;
  for (int32_t k = tc_tcx_other(x, i, -1); s == TC_OK && k >= 0; k = tc_tcx_other(x, i, k)) {
    s = check_tensors(&x->programs.data[i], &x->programs.data[k]);
    if (s == TC_OK) s = tc_tcx_load(x, k, TC_TCX_PLAN, &p[n]);
    if (s == TC_OK && !p[n++].image.n_plans)
      s = tc_error(TC_STATUS_DATA_LOSS, "one of several executables has no plan");
  }
  if (s != TC_OK) {
    tc_tcx_unload_all(x->allocator, p, n);
    return s;
  }
  *out = p, *out_n = n;
  return TC_OK;
}

void tc_tcx_unload_all(const tc_allocator *a, tc_tcx_program *p, int32_t n) {
  for (int32_t i = 0; i < n; i++) tc_tcx_unload(&p[i]);
  tc_free(a, p);
}

void tc_tcx_unload(tc_tcx_program *p) {
  tc_module_destroy(p->module);
  *p = (tc_tcx_program){0};
}
