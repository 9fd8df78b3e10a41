// Pytrees: how the user's nested arguments flatten into leaves. The specs are JSON texts inside the JSON:
// [1, {"type": …, "context": …, "children_spec": […]}], a leaf having no type; `context` is JSON text again (keys of a
// dict) or a plain name (of a named tuple).
#include <string.h>

#include "core/frontends/pt2/import.h"

enum { DEPTH_MOST = 100 };

typedef struct tree_reader {
  pt2_import *im;
  tc_json fields; // treespec_namedtuple_fields
  TC_VEC(tc_sv) leaves;
  const tc_sv *arg_names; // of forward()
  int32_t n_arg_names;
} tree_reader;

static void free_document(void *arg) {
  tc_json_doc **holder = arg;
  tc_json_free(*holder);
}

// A JSON text inside the document; absent if it is none.
static tc_status parse_text(pt2_import *im, tc_sv text, tc_json *out) {
  tc_json_doc **holder = TC_NEW(im->scratch, tc_json_doc *);
  *out = (tc_json){0};
  tc_arena_on_destroy(im->scratch, free_document, holder);
  tc_status status = tc_json_parse(im->file->allocator, text, holder, out);
  if (status == TC_OK || tc_status_code(status) == TC_STATUS_OUT_OF_MEMORY) return status;
  tc_status_free(status);
  return TC_OK;
}

// The keys in a JSON array of strings (ints become their digits), if there are as many as kids.
static const tc_sv *read_keys(pt2_import *im, tc_json list, int32_t n) {
  if (tc_json_kind(list) != TC_JSON_ARRAY || tc_json_count(list) != n) return NULL;
  tc_sv *keys = TC_NEW_ARRAY(im->arena, tc_sv, n);
  int32_t i = 0;
  for (tc_json_iter it = tc_json_begin(list); tc_json_next(&it); i++) {
    int64_t number;
    if (tc_json_str(it.value, &keys[i])) keys[i] = tc_sv_copy(im->arena, keys[i]);
    else if (tc_json_int(it.value, &number)) keys[i] = tc_sv_printf(im->arena, "%lld", (long long)number);
    else return NULL;
  }
  return keys;
}

static tc_sv child_name(pt2_import *im, tc_sv path, const tc_pytree *t, int32_t i) {
  bool keyed = t->keys != NULL && t->kind != 'L' && t->kind != 't';
  if (keyed && path.size == 0) return t->keys[i];
  if (keyed) return tc_sv_printf(im->arena, TC_SV_FMT "." TC_SV_FMT, TC_SV_ARG(path), TC_SV_ARG(t->keys[i]));
  if (path.size == 0) return tc_sv_printf(im->arena, "%d", i);
  return tc_sv_printf(im->arena, TC_SV_FMT "[%d]", TC_SV_ARG(path), i);
}

// `level`: depth in the tree; the arguments of forward() are named after its parameters.
static tc_status read_tree(tree_reader *r, const at *where, tc_json v, tc_sv path, int32_t level, bool arguments,
                           tc_pytree **out) {
  pt2_import *im = r->im;
  tc_pytree *t = *out = TC_NEW(im->arena, tc_pytree);
  if (level > DEPTH_MOST) return pt2_refuse(where, "a tree of more than %d levels", DEPTH_MOST);
  if (tc_json_kind(v) != TC_JSON_OBJECT) return pt2_bad(where, "expected an object");
  tc_sv type, context = {"", 0};
  tc_json kids = tc_json_get(v, "children_spec");
  if (!tc_json_str(tc_json_get(v, "type"), &type)) {
    t->kind = 'l';
    tc_vec_push(im->scratch, &r->leaves, path);
    return TC_OK;
  }
  (void)tc_json_str(tc_json_get(v, "context"), &context);
  t->n = (int32_t)tc_json_count(kids);
  t->type = tc_sv_copy(im->arena, type);
  if (tc_sv_is(type, "builtins.tuple")) t->kind = 't';
  else if (tc_sv_is(type, "builtins.list") || tc_sv_is(type, "collections.deque")) t->kind = 'L';
  else if (tc_sv_is(type, "builtins.dict") || tc_sv_is(type, "collections.OrderedDict") ||
           tc_sv_is(type, "collections.defaultdict"))
    t->kind = 'd';
  else if (tc_sv_is(type, "collections.namedtuple")) {
    t->kind = 'n';
    tc_json own;
    tc_sv name = context;
    TC_TRY(parse_text(im, context, &own));
    (void)tc_json_str(own, &name); // quoted by some writers
    t->type = tc_sv_copy(im->arena, name);
    for (tc_json_iter it = tc_json_begin(r->fields); tc_json_next(&it);)
      if (tc_sv_eq(it.key, name)) t->keys = read_keys(im, tc_json_get(it.value, "field_names"), t->n);
  } else t->kind = 'x';
  if (t->kind == 'd' || t->kind == 'x') {
    tc_json own;
    TC_TRY(parse_text(im, context, &own));
    t->keys = read_keys(im, own, t->n);
    // A defaultdict's context also says what its default is: the keys are the list in it.
    for (tc_json_iter it = tc_json_begin(own); t->keys == NULL && tc_json_next(&it);)
      t->keys = read_keys(im, it.value, t->n);
    if (t->keys == NULL && t->kind == 'd' && t->n > 0) return pt2_bad(where, "a dict without its %d keys", t->n);
  }
  t->kids = TC_NEW_ARRAY(im->arena, const tc_pytree *, t->n);
  at kids_at = at_key(where, "children_spec");
  int32_t i = 0;
  for (tc_json_iter it = tc_json_begin(kids); tc_json_next(&it); i++) {
    at here = at_item(&kids_at, i);
    tc_pytree *kid;
    tc_sv name = child_name(im, path, t, i);
    bool root = arguments && level == 0;
    if (root) name = (tc_sv){"", 0}; // (args, kwargs)
    else if (arguments && level == 1 && t->kind == 't' && i < r->n_arg_names) name = r->arg_names[i];
    TC_TRY(read_tree(r, &here, it.value, name, level + 1, arguments && (level > 0 || i == 0), &kid));
    t->kids[i] = kid;
  }
  return TC_OK;
}

static tc_status read_spec(tree_reader *r, const at *where, tc_json signature, const char *key, bool arguments,
                           const tc_pytree **out, pt2_leaves *leaves) {
  tc_sv text;
  at here = at_key(where, key);
  *out = NULL;
  *leaves = (pt2_leaves){0};
  if (!tc_json_str(tc_json_get(signature, key), &text) || text.size == 0) return TC_OK;
  tc_json root;
  TC_TRY(parse_text(r->im, text, &root));
  tc_json_iter it = tc_json_begin(root);
  int64_t protocol;
  if (tc_json_kind(root) != TC_JSON_ARRAY || tc_json_count(root) != 2 || !tc_json_next(&it))
    return pt2_bad(&here, "not a tree: '" TC_SV_FMT "'", text.size > 60 ? 60 : (int)text.size, text.data);
  if (!tc_json_int(it.value, &protocol) || protocol != 1) return pt2_refuse(&here, "a tree of an unknown protocol");
  (void)tc_json_next(&it);
  tc_pytree *tree;
  r->leaves.count = 0, r->leaves.capacity = 0, r->leaves.data = NULL;
  TC_TRY(read_tree(r, &here, it.value, (tc_sv){"", 0}, 0, arguments, &tree));
  *out = tree;
  *leaves = (pt2_leaves){r->leaves.data, r->leaves.count};
  return TC_OK;
}

tc_status pt2_import_trees(pt2_import *im, const at *where, tc_json graph_module, pt2_leaves *out_inputs,
                           pt2_leaves *out_outputs) {
  *out_inputs = *out_outputs = (pt2_leaves){0};
  at calls_at = at_key(where, "module_call_graph"), entry_at = at_item(&calls_at, 0),
     here = at_key(&entry_at, "signature");
  tc_json_iter it = tc_json_begin(tc_json_get(graph_module, "module_call_graph"));
  if (!tc_json_next(&it)) return TC_OK;
  tc_json signature = tc_json_get(it.value, "signature"), names = tc_json_get(signature, "forward_arg_names");
  if (!tc_json_present(signature)) return TC_OK;
  tree_reader r = {.im = im, .fields = tc_json_get(graph_module, "treespec_namedtuple_fields")};
  r.n_arg_names = (int32_t)tc_json_count(names);
  r.arg_names = read_keys(im, names, r.n_arg_names);
  if (r.arg_names == NULL) r.n_arg_names = 0;
  TC_TRY(read_spec(&r, &here, signature, "in_spec", true, &im->program->in_tree, out_inputs));
  return read_spec(&r, &here, signature, "out_spec", false, &im->program->out_tree, out_outputs);
}
