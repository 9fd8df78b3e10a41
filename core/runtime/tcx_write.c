// Writing artifacts: an index, plans with machine code, tensors (tcx.h).
#include <string.h>

#include "core/base/fs.h"
#include "core/runtime/tcx_internal.h"

typedef struct writer {
  tc_arena *arena;
  tc_blob_writer *blob, *tensors; // the same where tensors are inside
  tc_sb index;
  tc_map *ops; // of the program that is being written
  const tc_tcx_source *programs;
  tc_map *graphs; // text → number of the entry
} writer;

static void put_field(writer *w, const char *word, tc_sv text) {
  tc_sb_printf(&w->index, "  %s ", word);
  tc_sb_quoted(&w->index, text);
  tc_sb_putc(&w->index, '\n');
}

// ---- plans ----
static void put_ops(writer *w, const tc_plan *p) {
  for (int32_t i = 0; i < p->ops.count; i++) {
    const tc_plan_op *op = &p->ops.data[i];
    for (int32_t k = 0; k < tc_plan_region_count(op->kind); k++) put_ops(w, op->regions[k]);
    bool fresh;
    if (op->kind != TC_PLAN_CALL || !op->call) continue;
    tc_sv schema = tc_sv_of(op->call->node->op->def->schema);
    tc_map_put(w->ops, schema, &fresh);
    if (fresh) put_field(w, "op", schema);
  }
}

static tc_status add_plan(writer *w, const tc_tcx_source *s, const tc_plan *p, tc_sv number) {
  const tc_kernel *const *kernels;
  int32_t n;
  tc_sb text = tc_sb_make(w->arena);
  tc_plan_print_coded(&text, p, &n, &kernels);
  // One that came from an artifact or the cache has its code; objects may be left to the cache of code.
  if (p->n_code) n = p->n_code;
  tc_plan_code *code = TC_NEW_ARRAY(w->arena, tc_plan_code, n);
  if (!p->n_code) TC_TRY(tc_device_export(s->context->device, w->arena, n, kernels, true, code));
  for (int32_t i = 0; i < p->n_code; i++) {
    code[i] = p->code[i];
    if (!code[i].object.size && !tc_cache_get(s->context->device->cache, w->arena, code[i].key, &code[i].object))
      return tc_error(TC_STATUS_NOT_FOUND, "the code of the kernel " TC_SV_FMT " is not in the cache",
                      TC_SV_ARG(code[i].name));
  }
  put_ops(w, p);
  return tc_blob_add_plan(w->blob, number, tc_sb_view(&text), n, code);
}

static tc_status add_code(writer *w, const tc_tcx_source *s, tc_sv number) {
  tc_session_code c;
  TC_TRY(tc_session_code_of(s->session, w->arena, &c), "tcrun explain says which parts");
  w->ops = tc_map_create(w->arena);
  put_field(w, c.steps ? "steps" : "plan", number);
  if (!c.steps) return add_plan(w, s, c.plans.data[0], number);
  for (int32_t i = 0; i < c.plans.count; i++)
    TC_TRY(add_plan(w, s, c.plans.data[i], tc_sv_printf(w->arena, TC_SV_FMT ".%d", TC_SV_ARG(number), i)));
  tc_sb text = tc_sb_make(w->arena);
  tc_graph_print(&text, c.steps);
  tc_sv entry = tc_sv_printf(w->arena, "steps/" TC_SV_FMT, TC_SV_ARG(number));
  return tc_blob_add(w->blob, TC_BLOB_TEXT, entry, tc_sb_view(&text));
}

// ---- tensors ----
static bool is_state(const tc_graph_input *in) {
  return in->value && (in->kind == TC_IN_PARAMETER || in->kind == TC_IN_BUFFER || in->kind == TC_IN_CONSTANT);
}

// The bytes that it reaches.
static tc_sv span_of(const tc_tensor *t) {
  int64_t size = tc_dtype_size(t->dtype), lo = 0, hi = 1;
  for (int32_t d = 0; d < t->rank; d++) {
    int64_t far = (t->sizes[d] - 1) * t->strides[d];
    if (far < 0) lo += far;
    else hi += far;
  }
  if (tc_tensor_numel(t) == 0) return (tc_sv){0};
  return (tc_sv){(const char *)tc_tensor_data(t) + lo * size, (size_t)((hi - lo) * size)};
}

static bool same_tensor(const tc_tensor *a, const tc_tensor *b) {
  if (a->dtype != b->dtype || a->rank != b->rank || a->conj != b->conj || a->neg != b->neg) return false;
  for (int32_t d = 0; d < a->rank; d++)
    if (a->sizes[d] != b->sizes[d] || a->strides[d] != b->strides[d]) return false;
  tc_sv x = span_of(a), y = span_of(b);
  return (x.data == y.data && x.size == y.size) || tc_sv_eq(x, y);
}

// The entry of the same tensor in an earlier program of that name, which is then not written again. Looked for by name,
// not among all tensors: two that are equal now may not stay so.
static tc_sv find_tensor(const writer *w, const tc_tcx_source *s, tc_sv target, const tc_tensor *t) {
  for (const tc_tcx_source *o = w->programs; o < s; o++) {
    const tc_tensor *its = tc_sv_eq(o->name, s->name) ? tc_session_state(o->session, target) : NULL;
    if (!its || !same_tensor(its, t)) continue;
    const tc_graph *g = tc_session_graph(o->session);
    for (int32_t i = 0; i < g->inputs.count; i++)
      if (is_state(&g->inputs.data[i]) && tc_sv_eq(g->inputs.data[i].target, target)) {
        tc_sv before = find_tensor(w, o, target, its); // where it was written
        return before.size ? before : tc_sv_printf(w->arena, "%d/%d", (int)(o - w->programs), i);
      }
  }
  return (tc_sv){0};
}

static tc_status add_tensors(writer *w, const tc_tcx_source *s, tc_sv number) {
  const tc_graph *g = tc_session_graph(s->session);
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_graph_input *in = &g->inputs.data[i];
    if (!is_state(in)) continue;
    const tc_tensor *t = tc_session_state(s->session, in->target);
    if (!t)
      return tc_error(TC_STATUS_NOT_FOUND, "there is no tensor '" TC_SV_FMT "': an artifact needs all of them",
                      TC_SV_ARG(in->target));
    tc_sv name = find_tensor(w, s, in->target, t);
    if (!name.size) {
      name = tc_sv_printf(w->arena, TC_SV_FMT "/%d", TC_SV_ARG(number), i);
      TC_TRY(tc_blob_add_tensor(w->tensors, name, t), "while writing '" TC_SV_FMT "'", TC_SV_ARG(in->target));
    }
    tc_sb_putz(&w->index, "  tensor ");
    tc_sb_quoted(&w->index, in->target);
    tc_sb_putc(&w->index, ' ');
    tc_sb_quoted(&w->index, name);
    tc_sb_putc(&w->index, '\n');
  }
  return TC_OK;
}

// ---- programs ----
static tc_sv takes_text(const writer *w, const tc_tcx_source *s) {
  tc_sb sb = tc_sb_make(w->arena);
  tc_session_print_inputs(&sb, tc_session_graph(s->session));
  return tc_sb_view(&sb);
}

// Is it one program with an earlier one, for other inputs?
static tc_status check_others(const writer *w, const tc_tcx_source *s) {
  for (const tc_tcx_source *o = w->programs; o < s; o++) {
    if (!tc_sv_eq(o->name, s->name) || !tc_sv_eq(o->context->backend, s->context->backend)) continue;
    if (tc_sv_eq(takes_text(w, o), takes_text(w, s)))
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "the program '" TC_SV_FMT "' is there twice for " TC_SV_FMT,
                      TC_SV_ARG(s->name), TC_SV_ARG(s->context->backend));
    const tc_graph *g = tc_session_graph(s->session);
    TC_TRY(tc_session_check_alike(tc_session_graph(o->session), g));
    for (int32_t i = 0; i < g->inputs.count; i++) {
      if (!is_state(&g->inputs.data[i])) continue;
      tc_sv target = g->inputs.data[i].target;
      const tc_tensor *a = tc_session_state(o->session, target), *b = tc_session_state(s->session, target);
      if (!a || !b || !same_tensor(a, b))
        return tc_error(TC_STATUS_INVALID_ARGUMENT,
                        "the tensor '" TC_SV_FMT "' is another one: these are two models, not one in two sizes",
                        TC_SV_ARG(target));
    }
  }
  return TC_OK;
}

static tc_status add_graph(writer *w, tc_sv text, tc_sv number) {
  bool fresh;
  tc_map_entry *e = tc_map_put(w->graphs, text, &fresh);
  if (fresh) e->value.ptr = tc_arena_copy(w->arena, &number, sizeof number);
  number = *(const tc_sv *)e->value.ptr;
  put_field(w, "graph", number);
  if (!fresh) return TC_OK;
  return tc_blob_add(w->blob, TC_BLOB_TEXT, tc_sv_printf(w->arena, "graph/" TC_SV_FMT, TC_SV_ARG(number)), text);
}

static tc_status add_program(writer *w, const tc_tcx_source *s, int32_t i) {
  const tc_device *d = s->context->device;
  bool only_text = s->context->is_ref && s->graph.size; // the references run that
  tc_sv number = tc_sv_printf(w->arena, "%d", i);
  if (!only_text && !d)
    return tc_error(TC_STATUS_UNIMPLEMENTED, "the references run a program's text, and it has none");
  tc_sb_putz(&w->index, "program ");
  tc_sb_quoted(&w->index, s->name);
  tc_sb_putz(&w->index, " {\n");
  put_field(w, "backend", s->context->backend);
  if (d) {
    put_field(w, "plugin", d->plugin->version);
    put_field(w, "target", tc_sv_of(d->props.target));
    put_field(w, "device", tc_sv_of(d->props.name));
  }
  put_field(w, "mode", tc_config_text(s->context->config, TC_OPT_ID_MODE));
  for (int32_t k = 0; k < s->n_inputs; k++) {
    tc_sb_putz(&w->index, "  input ");
    tc_sb_quoted(&w->index, s->inputs[k].name);
    tc_sb_printf(&w->index, " %d\n", s->inputs[k].index);
  }
  put_field(w, "takes", takes_text(w, s));
  if (s->sizes.size) put_field(w, "sizes", s->sizes);
  if (!only_text) TC_TRY(add_code(w, s, number));
  TC_TRY(add_tensors(w, s, number));
  if (s->graph.size) TC_TRY(add_graph(w, s->graph, number));
  tc_sb_putz(&w->index, "}\n");
  return TC_OK;
}

// ---- files ----
static tc_status put_blob(void *self, tc_file_sink *to) { return tc_blob_write(self, tc_file_put, to); }

// What writing a blob still takes from the arena, so that nothing unwinds past the file.
typedef struct file {
  tc_arena *arena;
  tc_blob_writer *blob;
  tc_file_sink *to;
} file;
static tc_status put_guarded(void *self) {
  file *f = self;
  return put_blob(f->blob, f->to);
}
static tc_status make_file(void *self, tc_file_sink *to) {
  file *f = self;
  f->to = to;
  return tc_arena_guard(f->arena, put_guarded, f);
}

tc_status tc_tcx_write(tc_arena *arena, const char *path, const char *weights, int32_t n,
                       const tc_tcx_source *programs) {
  writer w = {.arena = arena, .blob = tc_blob_begin(arena), .index = tc_sb_make(arena), .programs = programs};
  w.graphs = tc_map_create(arena);
  w.tensors = weights ? tc_blob_begin(arena) : w.blob;
  for (int32_t i = 0; i < n; i++) {
    TC_TRY(check_others(&w, &programs[i]));
    TC_TRY(add_program(&w, &programs[i], i), "while writing the program '" TC_SV_FMT "'", TC_SV_ARG(programs[i].name));
  }
  tc_sb whole = tc_sb_make(arena);
  tc_sb_printf(&whole, "tcx %d tc \"%s\" abi %d\n", TCX_FORMAT, TC_CORE_VERSION, TC_ABI_MAJOR);
  if (weights) {
    tc_sb_putz(&whole, "weights ");
    tc_sb_quoted(&whole, tc_sv_of(weights));
    tc_sb_printf(&whole, " \"%016llx\"\n", (unsigned long long)tc_blob_mark_to_be(w.tensors));
    tc_sv beside = tc_path_join(arena, tc_path_dir(tc_sv_of(path)), tc_sv_of(weights));
    file f = {arena, w.tensors, NULL};
    TC_TRY(tc_file_write_by(tc_sv_z(arena, beside), make_file, &f));
  }
  tc_sb_put(&whole, tc_sb_view(&w.index));
  TC_TRY(tc_blob_add(w.blob, TC_BLOB_TEXT, TC_SV(TCX_INDEX), tc_sb_view(&whole)));
  file f = {arena, w.blob, NULL};
  return tc_file_write_by(path, make_file, &f);
}
