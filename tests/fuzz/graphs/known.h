// Calls that the cases of single ops know (tests/unit/ops/cases.txt), for ops whose arguments fit one another in ways
// which chance seldom finds: factors with pivots, bags with offsets, lists of weights. Their tensors get other layouts,
// and floats another dtype where the op takes it.
#ifndef TC_TESTS_FUZZ_GRAPHS_KNOWN_H_
#define TC_TESTS_FUZZ_GRAPHS_KNOWN_H_

#include "tests/fuzz/graphs/calls.h"
#include "tests/unit/ops/cases.h"

typedef struct known_line {
  tc_sv text;
  struct known_line *next;
} known_line;

// Maps full names of ops to the lines of those cases that are taken.
static inline tc_status known_read(tc_arena *arena, tc_map *out) {
  tc_sv text, line;
  TC_TRY(tc_file_read(arena, TC_SOURCE_DIR "/tests/unit/ops/cases.txt", &text));
  while (text.size) {
    text = tc_sv_cut(text, '\n', &line);
    fixture f = {.arena = arena, .text = trim(line)};
    tc_sv name;
    if (!line.size || line.data[0] == '#' || !read_fixture(&f) || tc_sv_is(f.results[0], "!")) continue;
    tc_sv_cut(f.call, '(', &name);
    tc_map_entry *e = tc_map_put(out, tc_sv_printf(arena, "aten::" TC_SV_FMT, TC_SV_ARG(name)), NULL);
    known_line *l = TC_NEW(arena, known_line);
    *l = (known_line){f.text, e->value.ptr};
    e->value.ptr = l;
  }
  return TC_OK;
}

static inline void known_type(call_gen *r, const tc_value *v, tc_dtype instead, call_type *out) {
  *out = (call_type){.absent = !v};
  if (!v) return;
  out->dtype = instead && tc_dtype_is_float(v->type.dtype) ? instead : v->type.dtype;
  out->rank = v->type.rank;
  for (int32_t d = 0; d < v->type.rank; d++) out->sizes[d] = tc_sym_hint_or(r->syms, v->type.sizes[d], 1);
  out->swapped = call_chance(r, 15);
  if (r->layouts && call_chance(r, 30)) out->layout = "cge"[call_int(r, 3)];
}

static inline bool known_arguments(call_gen *r, const tc_node *n, tc_dtype instead, call *out) {
  *out = (call){.op = n->op, .n_args = n->n_args};
  for (int32_t i = 0; i < n->n_args; i++) {
    const tc_arg *a = &n->args[i];
    call_arg *to = &out->args[i];
    *to = (call_arg){.plain = *a};
    if (a->kind == TC_AK_TENSOR) to->n = 1, known_type(r, a->value, instead, &to->types[0]);
    if (a->kind != TC_AK_TENSORS) continue;
    if (a->n > CALL_TENSORS) return false;
    to->n = a->n;
    for (int32_t k = 0; k < a->n; k++) known_type(r, a->values[k], instead, &to->types[k]);
  }
  return true;
}

// One of the calls that are known of the op; false if there is none.
static inline bool known_call(const tc_map *lines, tc_module *m, call_gen *r, const tc_op *op, call *out) {
  const tc_map_entry *e = tc_map_find(lines, op->full_name);
  int32_t n = 0;
  for (const known_line *l = e ? e->value.ptr : NULL; l; l = l->next) n++;
  if (!n) return false;
  const known_line *l = e->value.ptr;
  for (int32_t k = call_int(r, n); k > 0; k--) l = l->next;
  fixture f = {.arena = m->arena, .text = l->text};
  tc_graph *g;
  tc_status s = read_fixture(&f) ? parse_case(&f, m, &g) : tc_error(TC_STATUS_INVALID_ARGUMENT, "no case");
  bool found = s == TC_OK;
  tc_status_free(s);
  for (int32_t pass = 0; found && pass < 2; pass++) { // in another dtype, or as it is
    if (!known_arguments(r, g->first, pass || call_chance(r, 40) ? TC_DTYPE_NONE : call_dtype(r), out)) return false;
    tc_graph *own;
    s = call_graph(m, out, &own);
    bool good = s == TC_OK;
    tc_status_free(s);
    if (good) return true;
  }
  return false;
}

#endif
