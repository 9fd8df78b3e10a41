// Loading models.
#include <string.h>

#include "tcrun/tcrun.h"

void tcrun_split_name(tc_sv base, tc_sv *file, tc_sv *name, tc_sv *dialect) {
  static const char *const dialects[] = {".functional", ".core", ".dyn"};
  *file = base;
  *dialect = TC_SV("");
  if (tc_sv_ends(base, ".pt2")) *file = tc_sv_sub(base, 0, base.size - 4);
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
  m->in = TC_NEW_ARRAY(arena, int32_t, g->inputs.count + (m->program ? m->program->inputs.count : 0));
  for (int32_t i = 0; m->program && i < m->program->inputs.count; i++)
    m->in[m->n_in++] = m->program->inputs.data[i].index;
  for (int32_t i = 0; !m->program && i < g->inputs.count; i++) {
    if (g->inputs.data[i].kind == TC_IN_USER) m->in[m->n_in++] = i;
  }
}

static tc_status note_guarded(void *arg) {
  note_promises(arg);
  return TC_OK;
}

typedef struct text_load {
  tc_context *c;
  run_options *o;
  model *m;
  tc_sv text;
} text_load;

static tc_status parse_text(void *arg) {
  text_load *t = arg;
  tc_module *module = t->m->module;
  tc_lexer lx;
  tc_lex_init(&lx, module->arena, tc_sv_copy(module->arena, t->m->path), tc_sv_copy(module->arena, t->text));
  return tc_graph_parse(module, &lx, &t->m->graph);
}

static tc_status load_text(tc_context *c, run_options *o, model *m) {
  text_load t = {c, o, m, {0}};
  TC_TRY(tc_file_read(o->arena, m->path.data, &t.text));
  TC_TRY(tc_module_create(c->allocator, c->ops, &m->module));
  return tc_arena_guard(m->module->arena, parse_text, &t);
}

static void start(run_options *o, const char *path, model *m) {
  tc_sv dialect;
  *m = (model){.path = tc_sv_copy(o->arena, tc_sv_of(path))};
  tcrun_split_name(tc_path_base(m->path), &m->file, &m->name, &dialect);
}

tc_status tcrun_load_program(run_options *o, const char *path, tc_pt2 *archive, int32_t i, model *m) {
  start(o, path, m);
  m->archive = archive;
  TC_TRY(tc_pt2_load(archive, i, &m->program));
  m->module = m->program->module;
  m->graph = m->program->graph;
  return tc_arena_guard(m->module->arena, note_guarded, m);
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
  return tcrun_load_program(o, path, archive, i, m);
}

tc_status tcrun_load(tc_context *c, run_options *o, const char *path, model *m) {
  start(o, path, m);
  tc_status s;
  if (tc_sv_ends(m->path, ".tc")) {
    s = load_text(c, o, m);
    if (s == TC_OK) s = tc_arena_guard(m->module->arena, note_guarded, m);
  } else {
    s = load_archive(c, o, path, m);
  }
  if (s != TC_OK) {
    tcrun_unload(m);
    return tc_status_note(s, "while loading %s", path);
  }
  return TC_OK;
}

void tcrun_unload(model *m) {
  if (m->program) tc_program_destroy(m->program);
  else tc_module_destroy(m->module);
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
