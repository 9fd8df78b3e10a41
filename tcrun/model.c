// Loading models.
#include <string.h>

#include "core/runtime/compile.h"
#include "tcrun/tcrun.h"

void tcrun_split_name(tc_sv base, tc_sv *file, tc_sv *name, tc_sv *dialect) {
  static const char *const dialects[] = {".functional", ".core", ".dyn"};
  *file = base;
  *dialect = TC_SV("");
  if (tc_sv_ends(base, ".pt2")) *file = tc_sv_sub(base, 0, base.size - 4);
  else if (tc_sv_ends(base, ".tcx")) *file = tc_sv_sub(base, 0, base.size - 4);
  else if (tc_sv_ends(base, ".tc")) *file = tc_sv_sub(base, 0, base.size - 3);
  *name = *file;
  for (size_t i = 0; i < sizeof dialects / sizeof *dialects; i++) {
    if (!tc_sv_ends(*file, dialects[i])) continue;
    *name = tc_sv_sub(*file, 0, file->size - strlen(dialects[i]));
    *dialect = tc_sv_sub(*file, name->size + 1, file->size);
  }
}

// What the program promises, before any pass.
static void note_promises(model *m) {
  tc_arena *arena = m->module->arena;
  tc_graph *g = m->graph;
  m->n_out_types = g->outputs.count;
  m->out_types = TC_NEW_ARRAY(arena, tc_tensor_type, g->outputs.count);
  m->out_names = TC_NEW_ARRAY(arena, tc_sv, g->outputs.count);
  for (int32_t i = 0; i < g->outputs.count; i++) {
    const tc_value *v = g->outputs.data[i].arg.value;
    if (v && v->kind == TC_VALUE_TENSOR) m->out_types[i] = v->type;
    if (v) m->out_names[i] = v->name;
  }
  int32_t n_leaves = m->program ? m->program->inputs.count : m->packed.n_inputs;
  m->n_in = 0;
  m->in = TC_NEW_ARRAY(arena, int32_t, g->inputs.count + n_leaves);
  for (int32_t i = 0; i < n_leaves; i++)
    m->in[m->n_in++] = m->program ? m->program->inputs.data[i].index : m->packed.inputs[i].index;
  for (int32_t i = 0; !m->program && !m->packed.module && i < g->inputs.count; i++) {
    if (g->inputs.data[i].kind == TC_IN_USER) m->in[m->n_in++] = i;
  }
}

static tc_status note_guarded(void *arg) {
  note_promises(arg);
  return TC_OK;
}

tc_status tcrun_note_promises(model *m) { return tc_arena_guard(m->module->arena, note_guarded, m); }

tc_sv tcrun_input_name(const model *m, int32_t leaf) {
  if (m->program && leaf < m->program->inputs.count) return m->program->inputs.data[leaf].name;
  return m->packed.module ? m->packed.inputs[leaf].name : m->graph->inputs.data[m->in[leaf]].target;
}

// ---- Text ----
typedef struct text_load {
  const tc_context *c;
  model *m;
  tc_sv name, text;
  const fixed_sizes *sizes;
} text_load;

static tc_status parse_text(void *arg) {
  text_load *t = arg;
  tc_module *module = t->m->module;
  tc_lexer lx;
  for (int32_t i = 0; i < t->sizes->n; i++) tc_sym_fix(module->syms, t->sizes->names[i], t->sizes->values[i]);
  tc_lex_init(&lx, module->arena, tc_sv_copy(module->arena, t->name), tc_sv_copy(module->arena, t->text));
  TC_TRY(tc_source_parse(t->c, module, &lx, &t->m->source));
  t->m->graph = t->m->source.graph;
  note_promises(t->m);
  return TC_OK;
}

tc_status tcrun_read_text(tc_context *c, tc_sv name, tc_sv text, model *m) {
  return tcrun_read_fixed(c, name, text, &(fixed_sizes){0}, m);
}

tc_status tcrun_read_fixed(tc_context *c, tc_sv name, tc_sv text, const fixed_sizes *sizes, model *m) {
  text_load t = {c, m, name, text, sizes};
  TC_TRY(tc_module_create(c->allocator, c->ops, &m->module));
  return tc_arena_guard(m->module->arena, parse_text, &t);
}

typedef struct binding_job {
  model *m;
  const tc_module *from;
  const tc_tensor_list *list; // instead of `from`
} binding_job;

static const tc_tensor *find_tensor(const binding_job *j, tc_sv name) {
  if (j->list) return tc_tensor_list_find(j->list, name);
  const tc_map_entry *e = tc_map_find(j->from->bindings, name);
  const tc_binding *b = e ? e->value.ptr : NULL;
  return b && b->tensor.storage ? &b->tensor : NULL;
}

static tc_status bind_all(void *arg) {
  binding_job *j = arg;
  tc_module *module = j->m->module;
  for (int32_t i = 0; i < j->m->graph->inputs.count; i++) {
    const tc_graph_input *in = &j->m->graph->inputs.data[i];
    bool state = in->kind == TC_IN_PARAMETER || in->kind == TC_IN_BUFFER || in->kind == TC_IN_CONSTANT;
    const tc_tensor *t = state ? find_tensor(j, in->target) : NULL;
    if (!t) continue;
    tc_binding *b = TC_NEW(module->arena, tc_binding);
    *b = (tc_binding){.name = in->target, .tensor = tc_tensor_ref(t), .is_parameter = in->kind == TC_IN_PARAMETER};
    tc_map_entry *e = tc_map_put(module->bindings, in->target, NULL);
    if (e->value.ptr) tc_tensor_unref(&((tc_binding *)e->value.ptr)->tensor);
    e->value.ptr = b;
  }
  return TC_OK;
}

tc_status tcrun_bind(model *m, const tc_module *from) {
  return tc_arena_guard(m->module->arena, bind_all, &(binding_job){.m = m, .from = from});
}

// The file that a text names: beside the text, else as it stands.
static const char *weights_path(run_options *o, const model *m) {
  if (o->weights.size) return tc_sv_z(o->arena, o->weights);
  tc_sv beside = tc_path_join(o->arena, tc_path_dir(m->path), m->source.weights);
  return tc_sv_z(o->arena, tc_file_exists(tc_sv_z(o->arena, beside)) ? beside : m->source.weights);
}

// Tensors of an archive's program, or of a .safetensors or .npz by name.
static tc_status load_weights(tc_context *c, run_options *o, model *m) {
  if (!o->weights.size && !m->source.weights.size) return TC_OK;
  const char *path = weights_path(o, m);
  if (!tc_sv_ends(tc_sv_of(path), ".pt2")) {
    tc_tensor_list list;
    TC_TRY(tc_tensors_read(c->allocator, o->arena, path, &list), "while reading the weights");
    tc_status s = tc_arena_guard(m->module->arena, bind_all, &(binding_job){.m = m, .list = &list});
    tc_tensor_list_free(&list);
    return s;
  }
  tc_sv method = o->method.size ? o->method : m->source.weights_program;
  TC_TRY(tc_pt2_open(path, c->ops, &(tc_pt2_options){.allocator = c->allocator}, &m->archive),
         "while reading the weights");
  int32_t i = method.size ? tc_pt2_find(m->archive, method) : 0;
  if (i < 0) return tc_error(TC_STATUS_NOT_FOUND, "%s has no program '" TC_SV_FMT "'", path, TC_SV_ARG(method));
  TC_TRY(tc_pt2_load(m->archive, i, &m->weights), "while reading the weights of %s", path);
  return tcrun_bind(m, m->weights->module);
}

typedef struct casting {
  tc_context *c;
  tc_graph *g;
} casting;
static tc_status cast(void *arg) {
  const casting *j = arg;
  return tc_compile_autocast(j->c, j->g);
}
// What the program promises of its results is said of the casted one.
static tc_status autocast(tc_context *c, model *m) {
  bool graph = m->source.stage == TC_STAGE_GRAPH && m->graph && m->source.graph == m->graph;
  if (!graph || tc_sv_is(tc_config_text(c->config, TC_OPT_ID_AUTOCAST), "off")) return TC_OK;
  TC_TRY(tc_arena_guard(m->module->arena, cast, &(casting){c, m->graph}));
  return tcrun_note_promises(m);
}

// What the options say of every program.
static tc_status take_options(tc_context *c, model *m) {
  m->source.one_graph = tc_config_bool(c->config, TC_OPT_ID_FULLGRAPH);
  return autocast(c, m);
}

static tc_status load_text(tc_context *c, run_options *o, model *m) {
  tc_sv text;
  TC_TRY(tc_file_read(o->arena, m->path.data, &text));
  TC_TRY(tcrun_read_text(c, m->path, text, m));
  TC_TRY(load_weights(c, o, m));
  return take_options(c, m);
}

static void start(run_options *o, const char *path, model *m) {
  tc_sv dialect;
  *m = (model){.path = tc_sv_copy(o->arena, tc_sv_of(path))};
  tcrun_split_name(tc_path_base(m->path), &m->file, &m->name, &dialect);
}

tc_status tcrun_load_program(tc_context *c, run_options *o, const char *path, tc_pt2 *archive, int32_t i, model *m) {
  start(o, path, m);
  m->archive = archive;
  TC_TRY(tc_pt2_load(archive, i, &m->program));
  m->module = m->program->module;
  m->graph = m->program->graph;
  m->source = (tc_source){.stage = TC_STAGE_GRAPH, .graph = m->graph};
  TC_TRY(tcrun_note_promises(m));
  return take_options(c, m);
}

static tc_status load_archive(tc_context *c, run_options *o, const char *path, model *m) {
  tc_pt2 *archive;
  tc_pt2_options po = {.allocator = c->allocator};
  TC_TRY(tc_pt2_open(path, c->ops, &po, &archive));
  m->archive = archive;
  int32_t i = 0;
  if (o->method.size) {
    i = tc_pt2_find(archive, o->method);
    if (i < 0) return tc_error(TC_STATUS_NOT_FOUND, "there is no program '" TC_SV_FMT "'", TC_SV_ARG(o->method));
  }
  return tcrun_load_program(c, o, path, archive, i, m);
}

tc_status tcrun_load(tc_context *c, run_options *o, const char *path, model *m) {
  start(o, path, m);
  tc_status s;
  if (tc_sv_ends(m->path, ".tc")) s = load_text(c, o, m);
  else if (tc_sv_ends(m->path, ".tcx")) s = tcrun_load_artifact(c, o, m);
  else s = load_archive(c, o, path, m);
  if (s != TC_OK) {
    tcrun_unload(m);
    return tc_status_note(s, "while loading %s", path);
  }
  return TC_OK;
}

void tcrun_unload(model *m) {
  if (m->program) tc_program_destroy(m->program);
  else if (m->module != m->packed.module) tc_module_destroy(m->module);
  tc_tcx_unload_all(tc_system_allocator(), m->others, m->n_others);
  tc_tcx_unload(&m->packed);
  tc_program_destroy(m->weights);
  tc_pt2_close(m->archive);
  *m = (model){0};
}

int32_t tcrun_output_of(const model *m, int32_t leaf) {
  for (int32_t i = 0; i < m->graph->outputs.count; i++) {
    if (m->graph->outputs.data[i].kind == TC_OUT_USER && leaf-- == 0) return i;
  }
  return -1;
}

int32_t tcrun_user_outputs(const model *m) {
  int32_t n = 0;
  for (int32_t i = 0; i < m->graph->outputs.count; i++) n += m->graph->outputs.data[i].kind == TC_OUT_USER;
  return n;
}
