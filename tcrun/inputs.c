// The inputs of a model: files, the archive's samples, random numbers by its line in an index.jsonl beside it.
#include <string.h>

#include "tcrun/tcrun.h"

// ---- index.jsonl ----
static void free_document(void *doc) { tc_json_free(doc); }

tc_status tcrun_index_read(tc_arena *arena, tc_sv folder, line_index **out) {
  *out = NULL;
  tc_sv path = tc_path_join(arena, folder.size ? folder : TC_SV("."), TC_SV("index.jsonl")), text;
  if (!tc_file_exists(tc_sv_z(arena, path))) return TC_OK;
  TC_TRY(tc_file_read(arena, path.data, &text));
  line_index *x = TC_NEW(arena, line_index);
  x->lines = tc_map_create(arena);
  for (int32_t number = 1; text.size; number++) {
    tc_sv line;
    text = tc_sv_cut(text, '\n', &line);
    if (!tc_sv_trim(line).size) continue;
    tc_json_doc *doc;
    tc_json *root = TC_NEW(arena, tc_json);
    TC_TRY(tc_json_parse(tc_arena_allocator(arena), line, &doc, root), "while reading " TC_SV_FMT ":%d",
           TC_SV_ARG(path), number);
    tc_arena_on_destroy(arena, free_document, doc);
    tc_sv file = {0}, method = {0}, name = {0}, key;
    bool has_file = tc_json_str(tc_json_get(*root, "file"), &file),
         has_method = tc_json_str(tc_json_get(*root, "method"), &method);
    tc_json_str(tc_json_get(*root, "name"), &name);
    if (has_file && has_method) key = tc_sv_printf(arena, TC_SV_FMT "/" TC_SV_FMT, TC_SV_ARG(file), TC_SV_ARG(method));
    else key = has_file ? file : name;
    if (key.size) tc_map_put(x->lines, key, NULL)->value.ptr = root;
  }
  *out = x;
  return TC_OK;
}

tc_json tcrun_index_find(const line_index *x, tc_sv key) {
  tc_map_entry *e = x ? tc_map_find(x->lines, key) : NULL;
  return e ? *(tc_json *)e->value.ptr : (tc_json){0};
}

// ---- Random numbers ----
static tc_status random_tensor(const tc_context *c, tc_sym_ctx *syms, const tc_tensor_type *t, uint64_t seed,
                               double mean, double std, int64_t high, tc_tensor *out) {
  int64_t sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
  for (int32_t d = 0; d < t->rank; d++) {
    if (!tc_sym_hint(syms, t->sizes[d], &sizes[d]))
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "it has a size without an example value: give --inputs");
    strides[d] = tc_sym_hint_or(syms, t->strides[d], 1);
  }
  TC_TRY(tc_tensor_create_strided(c->allocator, t->dtype, t->rank, sizes, strides, out));
  char cls = tc_dtype_class(t->dtype);
  if (cls == 'f' || cls == 'c') tc_tensor_fill_normal(&c->executor, out, seed, mean, std);
  else tc_tensor_fill_uniform_int(&c->executor, out, seed, 0, cls == 'b' && high > 2 ? 2 : high);
  return TC_OK;
}

typedef struct source { // where inputs come from
  const run_options *o;
  tc_context *c;
  model *m;
  tc_tensor_list given; // --inputs, or the samples
  bool files;           // --inputs was given: what it lacks is missing
  tc_json line;         // of the index
} source;

static tc_status random_input(const source *s, int32_t leaf, int32_t i, tc_tensor *out) {
  const tc_graph_input *in = &s->m->graph->inputs.data[i];
  double mean = 0, std = 1, high = 2;
  tc_json_iter it = tc_json_begin(tc_json_get(s->line, "inputs"));
  for (int32_t k = 0; tc_json_next(&it); k++) {
    if (k != leaf) continue;
    tc_json_double(tc_json_get(it.value, "mean"), &mean);
    tc_json_double(tc_json_get(it.value, "std"), &std);
    tc_json_double(tc_json_get(it.value, "high"), &high);
  }
  if (in->value->kind == TC_VALUE_TENSOR)
    return random_tensor(s->c, s->m->module->syms, &in->value->type, s->o->seed + (uint64_t)leaf, mean, std,
                         (int64_t)high, out);
  int64_t number = in->value->kind == TC_VALUE_SYM ? tc_sym_hint_or(s->m->module->syms, in->value->symbol, 2) : 1;
  tc_dtype d = in->value->kind == TC_VALUE_SYM ? TC_I64 : in->value->kind == TC_VALUE_BOOL ? TC_BOOL : TC_F64;
  TC_TRY(tc_tensor_create(s->c->allocator, d, 0, NULL, out));
  if (d == TC_I64) memcpy(tc_tensor_data(out), &number, sizeof number);
  else if (d == TC_BOOL) *(uint8_t *)tc_tensor_data(out) = 1;
  else *(double *)tc_tensor_data(out) = 1;
  return TC_OK;
}

static tc_status named_input(const source *s, tc_sv name, int32_t leaf, tc_tensor *out) {
  tc_sv number = tc_sv_printf(s->o->arena, "in.%d", leaf);
  for (int32_t i = 0; i < s->o->named_inputs.count; i++) {
    tc_sv key, path = tc_sv_cut(s->o->named_inputs.data[i], '=', &key);
    if (!path.size)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "--input=" TC_SV_FMT ": NAME=FILE.npy is expected", TC_SV_ARG(key));
    if (tc_sv_eq(key, name) || tc_sv_eq(key, number))
      return tc_npy_read(s->c->allocator, s->o->arena, tc_sv_z(s->o->arena, path), out);
  }
  return TC_OK;
}

static tc_status one_input(const source *s, int32_t leaf, tc_tensor *out) {
  const tc_graph_input *in = &s->m->graph->inputs.data[s->m->in[leaf]];
  tc_sv name = tcrun_input_name(s->m, leaf);
  TC_TRY(named_input(s, name, leaf, out));
  if (out->storage) return TC_OK;
  const tc_tensor *t = tc_tensor_list_find(&s->given, name);
  if (!t) t = tc_tensor_list_find(&s->given, in->target);
  if (!t) t = tc_tensor_list_find(&s->given, tc_sv_printf(s->o->arena, "in.%d", leaf));
  if (t) {
    *out = tc_tensor_ref(t);
    return TC_OK;
  }
  if (s->files)
    return tc_error(TC_STATUS_NOT_FOUND, "the inputs have neither '" TC_SV_FMT "' nor 'in.%d'", TC_SV_ARG(name), leaf);
  return random_input(s, leaf, s->m->in[leaf], out);
}

static tc_status find_line(source *s) {
  line_index *x;
  TC_TRY(tcrun_index_read(s->o->arena, tc_path_dir(s->m->path), &x));
  s->line = tcrun_index_find(x, tc_path_base(s->m->path));
  if (!tc_json_present(s->line)) s->line = tcrun_index_find(x, s->m->name);
  return TC_OK;
}

tc_status tcrun_inputs(tc_context *c, const run_options *o, model *m, tc_tensor **out, const char **out_note) {
  source s = {.o = o, .c = c, .m = m, .files = o->inputs.size > 0};
  const char *note = o->inputs.size ? "file" : "random";
  tc_tensor *t = TC_NEW_ARRAY(o->arena, tc_tensor, m->graph->inputs.count);
  *out = t;
  TC_TRY(find_line(&s));
  tc_status status = TC_OK;
  if (o->inputs.size) {
    status = tc_tensors_read(c->allocator, o->arena, tc_sv_z(o->arena, o->inputs), &s.given);
  } else if (!o->random && m->archive) {
    status = tc_pt2_sample_inputs(m->archive, m->program ? m->program : m->weights, &s.given);
    if (status == TC_OK) note = "the archive's samples";
    if (tc_status_code(status) == TC_STATUS_NOT_FOUND) tc_status_free(status), status = TC_OK;
  }
  for (int32_t leaf = 0; leaf < m->n_in && status == TC_OK; leaf++) {
    const tc_graph_input *in = &m->graph->inputs.data[m->in[leaf]];
    if (!in->value || in->value->kind == TC_VALUE_TOKEN) continue;
    status = tc_status_note(one_input(&s, leaf, &t[m->in[leaf]]), "while making input %d ('" TC_SV_FMT "')", leaf,
                            TC_SV_ARG(in->target));
  }
  tc_tensor_list_free(&s.given);
  if (status != TC_OK) tcrun_free_tensors(t, m->graph->inputs.count);
  if (out_note) *out_note = note;
  return status;
}

void tcrun_free_tensors(tc_tensor *t, int32_t n) {
  for (int32_t i = 0; i < n; i++) tc_tensor_unref(&t[i]);
}
