// The tensors that come with a program, bound by fully qualified name: first the weights, then the constants.
//
//   torch ≥ 2.9   ROOT/data/weights/NAME_weights_config.json says where each lies: a file with a whole storage, and
//                 sizes, strides and offset of the view. Names of one file alias, which is kept (tied weights).
//   torch 2.8     ROOT/data/weights/NAME.pt, a torch.save dict; the same for constants
//   torch ≤ 2.7   serialized_state_dict.pt, serialized_constants.pt
// Storages are views of the mapped file; a copy where it is deflated, not aligned or of the other byte order. An empty
// payload of a tensor that is not empty means that the archive was written without its weights: the binding is then
// left without a storage.
#include <string.h>

#include "core/frontends/pt2/import.h"
#include "core/frontends/pt2/unpickle.h"

// A source of tensors: a config, or a pickled dict.
typedef struct source {
  const char *folder; // "data/weights"
  tc_map *configs;    // fqn → place in the document; NULL if there is none
  tc_json document;
  at where;
  const tc_pickle *dict;
} source;

typedef struct loader {
  pt2_import *im;
  source sources[2];
  tc_map *payloads; // folder/path_name → tc_storage *; the arena's cleanups hold the references
} loader;

static void release_storage(void *arg) {
  tc_storage **holder = arg;
  tc_storage_unref(*holder);
}

static void release_pickle(void *arg) { tc_pickle_free(arg); }

static tc_status open_config(loader *l, source *s, const tc_zip_entry *e) {
  pt2_import *im = l->im;
  tc_json config;
  at *root = TC_NEW(im->scratch, at);
  *root = at_name(NULL, e->name);
  TC_TRY(pt2_json(im->file, im->scratch, e, NULL, &s->document));
  TC_TRY(pt2_object(root, s->document, "config", &config));
  s->where = at_key(root, "config");
  s->configs = tc_map_create(im->scratch);
  for (tc_json_iter it = tc_json_begin(config); tc_json_next(&it);) {
    bool fresh;
    tc_map_put(s->configs, it.key, &fresh)->value.num = (int64_t)it.value.index;
    if (!fresh) return pt2_bad(&s->where, "'" TC_SV_FMT "' is there twice", TC_SV_ARG(it.key));
  }
  return TC_OK;
}

// A pickled member; the file is freed with the scratch arena.
static tc_status read_pickle(pt2_import *im, const tc_zip_entry *e, tc_arena *arena, const tc_pickle **out) {
  tc_pt2 *p = im->file;
  tc_pickle_file *file = TC_NEW(arena, tc_pickle_file);
  tc_storage **copy = TC_NEW(arena, tc_storage *), *bytes = p->bytes;
  size_t offset = (size_t)e->offset;
  if (e->method != 0) {
    tc_arena_on_destroy(arena, release_storage, copy);
    TC_TRY(tc_storage_create(p->allocator, (size_t)e->size, copy));
    TC_TRY(tc_zip_read_into(p->allocator, &p->zip, e, (*copy)->data));
    bytes = *copy, offset = 0;
  }
  tc_arena_on_destroy(arena, release_pickle, file);
  TC_TRY(tc_pickle_read(p->allocator, arena, bytes, offset, (size_t)e->size, file), "while reading '" TC_SV_FMT "'",
         TC_SV_ARG(e->name));
  *out = file->root;
  return TC_OK;
}

static tc_status open_source(loader *l, source *s, const char *what, const char *flat_name) {
  pt2_import *im = l->im;
  tc_sv name = im->program->name;
  const tc_zip_entry *config = NULL, *pickle = NULL;
  if (im->file->flat) pickle = pt2_member(im->file, im->scratch, "%s", flat_name);
  else {
    config = pt2_member(im->file, im->scratch, "data/%s/" TC_SV_FMT "_%s_config.json", what, TC_SV_ARG(name), what);
    if (config == NULL) pickle = pt2_member(im->file, im->scratch, "data/%s/" TC_SV_FMT ".pt", what, TC_SV_ARG(name));
  }
  if (config) return open_config(l, s, config);
  if (pickle == NULL || pickle->size == 0) return TC_OK;
  TC_TRY(read_pickle(im, pickle, im->scratch, &s->dict));
  if (s->dict->kind != TC_PICKLE_DICT)
    return tc_error(TC_STATUS_DATA_LOSS, "'" TC_SV_FMT "' holds no dict of tensors", TC_SV_ARG(pickle->name));
  return TC_OK;
}

// ---- payloads ----
static void swap_bytes(uint8_t *data, size_t size, size_t unit) {
  for (size_t i = 0; unit > 1 && i + unit <= size; i += unit)
    for (size_t k = 0; k < unit / 2; k++) {
      uint8_t t = data[i + k];
      data[i + k] = data[i + unit - 1 - k], data[i + unit - 1 - k] = t;
    }
}

// The storage of one payload file, shared by all tensors of that file.
static tc_status payload(loader *l, const at *where, const char *folder, tc_sv path, tc_dtype dtype, tc_storage **out) {
  pt2_import *im = l->im;
  tc_pt2 *p = im->file;
  if (memchr(path.data, '/', path.size))
    return pt2_bad(where, "the payload name '" TC_SV_FMT "' has a slash", TC_SV_ARG(path));
  tc_sv key = tc_sv_printf(im->scratch, "%s/" TC_SV_FMT "/%d", folder, TC_SV_ARG(path), p->big_endian ? dtype : 0);
  tc_map_entry *known = tc_map_put(l->payloads, key, NULL);
  if (known->value.ptr == NULL) {
    const tc_zip_entry *e = pt2_member(p, im->scratch, "%s/" TC_SV_FMT, folder, TC_SV_ARG(path));
    if (e == NULL)
      return pt2_bad(where, "the payload '%s/" TC_SV_FMT "' is missing in the archive", folder, TC_SV_ARG(path));
    tc_storage **holder = TC_NEW(im->scratch, tc_storage *);
    tc_arena_on_destroy(im->scratch, release_storage, holder);
    size_t unit = (size_t)tc_dtype_size(tc_dtype_real(dtype));
    if (e->method == 0 && !(p->big_endian && unit > 1)) {
      tc_sv checked;
      if (p->options.verify_weights)
        TC_TRY(tc_zip_read(im->scratch, &p->zip, e, UINT64_MAX, &checked), "while checking '" TC_SV_FMT "'",
               TC_SV_ARG(e->name));
      TC_TRY(tc_storage_slice(p->allocator, p->bytes, (size_t)e->offset, (size_t)e->size, 64, holder));
    } else {
      // A deflated payload of great size is suspicious: deflate gives at most 1032:1.
      if (e->size / 1032 > e->stored_size)
        return pt2_bad(where, "the payload '" TC_SV_FMT "' cannot be as large as it says", TC_SV_ARG(e->name));
      TC_TRY(tc_storage_create(p->allocator, (size_t)e->size, holder));
      TC_TRY(tc_zip_read_into(p->allocator, &p->zip, e, (*holder)->data), "while reading '" TC_SV_FMT "'",
             TC_SV_ARG(e->name));
      if (p->big_endian) swap_bytes((*holder)->data, (size_t)e->size, unit);
    }
    known->value.ptr = *holder;
  }
  *out = known->value.ptr;
  return TC_OK;
}

static tc_status constant_of(const at *where, const tc_sym *e, int64_t *out) {
  if (e->kind != TC_SYM_CONST) return pt2_bad(where, "a weight of symbolic size");
  *out = e->value;
  return TC_OK;
}

static tc_status tensor_of_config(loader *l, const source *s, tc_sv fqn, tc_json v, tc_tensor *out,
                                  bool *out_parameter) {
  pt2_import *im = l->im;
  at here = at_name(&s->where, fqn), meta_at = at_key(&here, "tensor_meta");
  bool pickled = false;
  tc_sv path;
  tc_json meta;
  tc_tensor_type t;
  int64_t sizes[TC_MAX_RANK], strides[TC_MAX_RANK], offset;
  tc_storage *storage;
  (void)tc_json_bool(tc_json_get(v, "use_pickle"), &pickled);
  (void)tc_json_bool(tc_json_get(v, "is_param"), out_parameter);
  if (pickled)
    return pt2_refuse(&here,
                      "'" TC_SV_FMT "' is stored as a pickled object (a tensor subclass), which is not supported",
                      TC_SV_ARG(fqn));
  TC_TRY(pt2_str(&here, v, "path_name", &path));
  TC_TRY(pt2_object(&here, v, "tensor_meta", &meta));
  TC_TRY(pt2_type(im, &meta_at, meta, &t, NULL));
  bool empty = false;
  for (int32_t i = 0; i < t.rank; i++) {
    TC_TRY(constant_of(&meta_at, t.sizes[i], &sizes[i]));
    TC_TRY(constant_of(&meta_at, t.strides[i], &strides[i]));
    empty |= sizes[i] == 0;
  }
  TC_TRY(constant_of(&meta_at, t.offset, &offset));
  TC_TRY(payload(l, &here, s->folder, path, t.dtype, &storage));
  if (storage->size == 0 && !empty) return TC_OK; // written without weights
  tc_status status = tc_tensor_view(storage, t.dtype, t.rank, sizes, strides, offset, out);
  return status ? pt2_note(status, &here) : TC_OK;
}

static tc_status find_tensor(loader *l, tc_sv fqn, tc_tensor *out, bool *out_found, bool *out_parameter) {
  *out_found = false;
  for (int32_t i = 0; i < 2; i++) {
    const source *s = &l->sources[i];
    const tc_map_entry *e = s->configs ? tc_map_find(s->configs, fqn) : NULL;
    const tc_pickle *v = s->dict ? tc_pickle_get(s->dict, fqn) : NULL;
    if (e == NULL && v == NULL) continue;
    *out_found = true;
    if (e) return tensor_of_config(l, s, fqn, (tc_json){s->document.doc, (uint64_t)e->value.num}, out, out_parameter);
    if (v->kind != TC_PICKLE_TENSOR)
      return tc_error(TC_STATUS_UNIMPLEMENTED, "'" TC_SV_FMT "' is stored as a %s, not a tensor", TC_SV_ARG(fqn),
                      tc_pickle_kind_name(v->kind));
    *out_parameter = v->is_parameter;
    *out = tc_tensor_ref(v->tensor);
    return TC_OK;
  }
  return TC_OK;
}

// ---- bindings ----
// The graph was exported for these sizes and strides; a tensor of other strides is copied into them.
static tc_status fit(pt2_import *im, const tc_graph_input *in, tc_tensor *t) {
  const tc_tensor_type *type = &in->value->type;
  int64_t strides[TC_MAX_RANK];
  bool same = t->dtype == type->dtype && t->rank == type->rank, same_strides = true;
  for (int32_t i = 0; same && i < t->rank; i++) {
    same = tc_sym_is_int(type->sizes[i], t->sizes[i]);
    same_strides &= t->sizes[i] <= 1 || tc_sym_is_int(type->strides[i], t->strides[i]);
    strides[i] = type->strides[i]->kind == TC_SYM_CONST ? type->strides[i]->value : t->strides[i];
  }
  if (!same) {
    tc_sb text = tc_sb_make(im->scratch);
    tc_type_print(&text, type);
    return tc_error(TC_STATUS_DATA_LOSS,
                    "'" TC_SV_FMT "' has another dtype or shape than the program says (" TC_SV_FMT ")",
                    TC_SV_ARG(in->target), TC_SV_ARG(tc_sb_view(&text)));
  }
  if (same_strides || tc_tensor_numel(t) == 0) return TC_OK;
  tc_tensor copy;
  TC_TRY(tc_tensor_create_strided(im->file->allocator, t->dtype, t->rank, t->sizes, strides, &copy));
  tc_status status = tc_tensor_copy(t, &copy);
  if (status) {
    tc_tensor_unref(&copy);
    return status;
  }
  tc_tensor_unref(t);
  *t = copy;
  return TC_OK;
}

static tc_status bind(loader *l, const tc_graph_input *in) {
  static const char *const kinds[] = {"input", "parameter", "buffer", "constant"};
  pt2_import *im = l->im;
  bool found, parameter = in->kind == TC_IN_PARAMETER;
  if (tc_map_find(im->module->bindings, in->target)) return TC_OK;
  tc_binding *b = TC_NEW(im->arena, tc_binding);
  b->name = tc_sv_copy(im->arena, in->target);
  tc_map_put(im->module->bindings, in->target, NULL)->value.ptr = b; // from here on the module releases the tensor
  TC_TRY(find_tensor(l, in->target, &b->tensor, &found, &parameter));
  b->is_parameter = parameter;
  if (!found)
    return tc_error(TC_STATUS_DATA_LOSS,
                    "the %s '" TC_SV_FMT "' is neither among the weights nor among the constants of the archive",
                    kinds[in->kind], TC_SV_ARG(in->target));
  return b->tensor.storage ? fit(im, in, &b->tensor) : TC_OK;
}

tc_status pt2_import_weights(pt2_import *im) {
  loader *l = TC_NEW(im->scratch, loader);
  l->im = im;
  l->payloads = tc_map_create(im->scratch);
  l->sources[0].folder = "data/weights";
  l->sources[1].folder = "data/constants";
  const tc_graph *g = im->program->graph;
  bool any = false;
  for (int32_t i = 0; i < g->inputs.count; i++)
    any |= g->inputs.data[i].kind >= TC_IN_PARAMETER && g->inputs.data[i].kind <= TC_IN_CONSTANT;
  if (!any) return TC_OK;
  TC_TRY(open_source(l, &l->sources[0], "weights", "serialized_state_dict.pt"));
  TC_TRY(open_source(l, &l->sources[1], "constants", "serialized_constants.pt"));
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_graph_input *in = &g->inputs.data[i];
    if (in->kind < TC_IN_PARAMETER || in->kind > TC_IN_CONSTANT) continue;
    TC_TRY(bind(l, in), "while binding '" TC_SV_FMT "'", TC_SV_ARG(in->target));
  }
  return TC_OK;
}

// ---- sample inputs ----
typedef struct sampling {
  tc_pt2 *file;
  tc_program *program;
  tc_arena *scratch;
  int32_t leaf;
  tc_tensor_list *out;
} sampling;

static tc_status add_sample(sampling *g, const tc_pickle *v, int32_t capacity) {
  if (v->kind == TC_PICKLE_TUPLE || v->kind == TC_PICKLE_LIST) {
    for (int32_t i = 0; i < v->count; i++) TC_TRY(add_sample(g, v->items[i], capacity));
    return TC_OK;
  }
  if (v->kind == TC_PICKLE_DICT) {
    for (int32_t i = 0; i < v->count; i++) TC_TRY(add_sample(g, v->items[2 * i + 1], capacity));
    return TC_OK;
  }
  int32_t leaf = g->leaf++;
  if (leaf >= capacity)
    return tc_error(TC_STATUS_DATA_LOSS, "the sample inputs have more leaves than the program has inputs");
  if (v->kind != TC_PICKLE_TENSOR) return TC_OK;
  g->out->items[g->out->count++] = (tc_named_tensor){g->program->inputs.data[leaf].name, tc_tensor_ref(v->tensor)};
  return TC_OK;
}

static tc_status read_samples(void *arg) {
  sampling *g = arg;
  pt2_import im = {.file = g->file, .program = g->program, .scratch = g->scratch};
  tc_sv name = g->program->name;
  const tc_zip_entry *e = g->file->flat
                              ? pt2_member(g->file, g->scratch, "serialized_example_inputs.pt")
                              : pt2_member(g->file, g->scratch, "data/sample_inputs/" TC_SV_FMT ".pt", TC_SV_ARG(name));
  if (e == NULL || e->size == 0)
    return tc_error(TC_STATUS_NOT_FOUND, "the archive holds no sample inputs of '" TC_SV_FMT "'", TC_SV_ARG(name));
  const tc_pickle *root;
  TC_TRY(read_pickle(&im, e, g->scratch, &root));
  return add_sample(g, root, g->program->inputs.count);
}

static tc_status guard_samples(void *arg) {
  sampling *g = arg;
  g->out->items = TC_NEW_ARRAY(g->program->module->arena, tc_named_tensor, g->program->inputs.count);
  return tc_arena_guard(g->scratch, read_samples, g);
}

tc_status tc_pt2_sample_inputs(tc_pt2 *p, tc_program *program, tc_tensor_list *out) {
  sampling g = {.file = p, .program = program, .out = out};
  *out = (tc_tensor_list){0};
  TC_TRY(tc_arena_create(p->allocator, &g.scratch));
  tc_status status = tc_arena_guard(program->module->arena, guard_samples, &g);
  tc_arena_destroy(g.scratch);
  if (status) tc_tensor_list_free(out);
  return status;
}
