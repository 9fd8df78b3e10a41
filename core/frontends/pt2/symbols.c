// Symbols of an archive and expressions over them.
//
// A symbol that occurs in an input is backed by it. Any other one ("u0") is unbacked: some node makes it from data. Our
// meta function makes a symbol of its own there, so the archive's becomes an alias: pt2_unify records it when the
// node's result is compared with the archive's type, and every later expression has aliases applied. Until then the
// archive's symbol is unbound and its use an error.
//
// All names are found in the text before anything is built (a search for "Symbol('"), so that fresh symbols of ours
// never take a name of the archive's.
#include <string.h>

#include "core/frontends/pt2/import.h"

static bool word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_word(tc_sv s) {
  for (size_t i = 0; i < s.size; i++)
    if (!word_char(s.data[i])) return false;
  return s.size > 0 && (s.data[0] < '0' || s.data[0] > '9');
}

// Symbols of floating-point values (zuf0, zf3) are never part of an integer expression.
static bool is_float_symbol(tc_sv name) { return name.size > 0 && name.data[0] == 'z'; }

// The next name in "… Symbol('NAME', positive=True …" from *pos on; false at the end. The whole program's text is
// looked through: by its brackets, which are rarer than what a general search stops at.
static bool next_symbol(tc_sv text, size_t *pos, tc_sv *out, bool *out_positive) {
  static const char head[] = "Symbol('", positive[] = "', positive=True";
  static const size_t before = sizeof "Symbol" - 1;
  while (*pos < text.size) {
    const char *hit = memchr(text.data + *pos, '(', text.size - *pos);
    if (hit == NULL) break;
    size_t at = (size_t)(hit - text.data);
    if (at < *pos + before || !tc_sv_starts(tc_sv_sub(text, at - before, text.size), head)) {
      *pos = at + 1;
      continue;
    }
    size_t from = at - before + sizeof head - 1, to = from;
    while (to < text.size && word_char(text.data[to])) to++;
    *pos = to;
    *out = tc_sv_sub(text, from, to);
    *out_positive = tc_sv_starts(tc_sv_sub(text, to, text.size), positive);
    if (is_word(*out)) return true;
  }
  *pos = text.size;
  return false;
}

void pt2_warn(pt2_import *im, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  tc_sb sb = tc_sb_make(im->arena);
  tc_sb_vprintf(&sb, fmt, args);
  va_end(args);
  tc_vec_push(im->arena, &im->program->warnings, tc_sb_view(&sb));
}

// ---- backing: names in the types of the inputs, without building anything ----
static void back_text(pt2_import *im, tc_sv text) {
  tc_sv name;
  size_t pos = 0;
  bool bare = is_word(text), positive;
  while (bare || next_symbol(text, &pos, &name, &positive)) {
    const tc_sym *s = bare ? tc_sym_symbol(im->syms, text) : tc_sym_symbol(im->syms, name);
    if (s->symbol < im->n_symbols && !im->bound[s->symbol]) im->bound[s->symbol] = true, im->n_unbound--;
    if (bare) return;
  }
}

static void back_symint(pt2_import *im, tc_json v) {
  tc_sv text;
  if (tc_json_str(tc_json_get(tc_json_get(v, "as_expr"), "expr_str"), &text)) back_text(im, text);
}

static void back_inputs(pt2_import *im, tc_json graph) {
  tc_json tensors = tc_json_get(graph, "tensor_values"), ints = tc_json_get(graph, "sym_int_values");
  tc_map *places = tc_map_create(im->scratch);
  for (tc_json_iter it = tc_json_begin(tensors); tc_json_next(&it);)
    tc_map_put(places, it.key, NULL)->value.num = (int64_t)it.value.index;
  for (tc_json_iter it = tc_json_begin(tc_json_get(graph, "inputs")); tc_json_next(&it);) {
    tc_json_iter tag = tc_json_begin(it.value);
    if (!tc_json_next(&tag)) continue;
    tc_sv name;
    if (tc_json_str(tc_json_get(tag.value, "as_name"), &name)) {
      for (tc_json_iter k = tc_json_begin(ints); tc_json_next(&k);)
        if (tc_sv_eq(k.key, name)) back_symint(im, k.value);
      continue;
    }
    tc_map_entry *e = tc_json_str(tc_json_get(tag.value, "name"), &name) ? tc_map_find(places, name) : NULL;
    if (e == NULL) continue;
    tc_json meta = {tensors.doc, (uint64_t)e->value.num};
    for (tc_json_iter k = tc_json_begin(tc_json_get(meta, "sizes")); tc_json_next(&k);) back_symint(im, k.value);
    for (tc_json_iter k = tc_json_begin(tc_json_get(meta, "strides")); tc_json_next(&k);) back_symint(im, k.value);
    back_symint(im, tc_json_get(meta, "storage_offset"));
  }
}

// ---- ranges ----
// A bound: absent, null or beyond what int64 arithmetic can use means none.
static int64_t bound_of(tc_json v, int64_t none) {
  int64_t n;
  if (!tc_json_int(v, &n) || n >= INT64_MAX - 1 || n <= -(INT64_MAX - 1)) return none;
  return n;
}

static bool is_backed(pt2_import *im, const tc_sym *e) {
  if (e->kind == TC_SYM_SYMBOL) return e->symbol < im->n_symbols && im->bound[e->symbol];
  for (int32_t i = 0; i < e->n; i++)
    if (!is_backed(im, e->kids[i])) return false;
  return true;
}

static void require_range(pt2_import *im, const tc_sym *e, int64_t lo, int64_t hi) {
  tc_sym_ctx *c = im->syms;
  if (lo != -TC_SYM_INF) tc_module_require(im->module, tc_sym_cmp(c, TC_SYM_LE, tc_sym_int(c, lo), e));
  if (hi != TC_SYM_INF) tc_module_require(im->module, tc_sym_cmp(c, TC_SYM_LE, e, tc_sym_int(c, hi)));
}

typedef struct range {
  int64_t lo, hi;
} range;

static tc_status read_range(const at *where, tc_json v, range *out) {
  if (tc_json_kind(v) != TC_JSON_OBJECT) return pt2_bad(where, "expected an object");
  out->lo = bound_of(tc_json_get(v, "min_val"), -TC_SYM_INF);
  out->hi = bound_of(tc_json_get(v, "max_val"), TC_SYM_INF);
  if (out->lo > out->hi) return pt2_bad(where, "an empty range: [%lld, %lld]", (long long)out->lo, (long long)out->hi);
  if (out->lo == 2) out->lo = 1; // only says that export did not specialise on 0 and 1
  return TC_OK;
}

// Symbols first: expressions over them are then built with their ranges known.
static tc_status read_ranges(pt2_import *im, const at *where) {
  at here = at_key(where, "range_constraints");
  tc_json ranges = tc_json_get(im->root, "range_constraints");
  for (int32_t pass = 0; pass < 2; pass++) {
    for (tc_json_iter it = tc_json_begin(ranges); tc_json_next(&it);) {
      if (is_word(it.key) != (pass == 0) || is_float_symbol(it.key)) continue;
      at entry = at_name(&here, it.key);
      range r;
      TC_TRY(read_range(&entry, it.value, &r));
      const tc_sym *e;
      if (pass == 0) {
        e = tc_sym_symbol(im->syms, it.key);
        int64_t lo = tc_sym_info_of(im->syms, e)->lo;
        if (r.lo < lo) r.lo = lo; // sizes are positive
      } else {
        tc_lexer lx;
        tc_lex_init(&lx, im->scratch, TC_SV("range_constraints"), it.key);
        tc_status parsed = tc_sym_parse(im->syms, &lx, &e);
        if (parsed == TC_OK && lx.tok.kind != TC_TOK_END) parsed = tc_lex_error(&lx, "unexpected text");
        if (parsed) {
          pt2_warn(im, "the range of '" TC_SV_FMT "' is not checked: %s", TC_SV_ARG(it.key), tc_status_text(parsed));
          tc_status_free(parsed);
          continue;
        }
      }
      // What comes from data is checked by asserts in the graph.
      if (is_backed(im, e)) require_range(im, e, r.lo, r.hi);
    }
  }
  return TC_OK;
}

tc_status pt2_symbols_begin(pt2_import *im, tc_sv text, const at *where) {
  im->texts = tc_map_create(im->scratch);
  tc_sv name;
  bool positive;
  for (size_t pos = 0; next_symbol(text, &pos, &name, &positive);) {
    if (is_float_symbol(name)) continue;
    tc_sym_info *info = tc_sym_info_of(im->syms, tc_sym_symbol(im->syms, name));
    if (positive && info->lo < 1) info->lo = 1;
  }
  for (tc_json_iter it = tc_json_begin(tc_json_get(im->root, "range_constraints")); tc_json_next(&it);)
    if (is_word(it.key) && !is_float_symbol(it.key)) tc_sym_symbol(im->syms, it.key);
  im->n_symbols = im->n_unbound = tc_sym_symbol_count(im->syms);
  im->bound = TC_NEW_ARRAY(im->scratch, bool, im->n_symbols);
  back_inputs(im, tc_json_get(tc_json_get(im->root, "graph_module"), "graph"));
  for (int32_t i = 0; i < im->n_symbols; i++)
    if (!im->bound[i]) tc_sym_info_of(im->syms, tc_sym_symbol_at(im->syms, i))->origin = TC_SYM_UNBACKED;
  TC_TRY(read_ranges(im, where));
  for (int32_t i = 0; i < im->n_symbols; i++) { // without a range, being positive is still required
    const tc_sym *e = tc_sym_symbol_at(im->syms, i);
    const tc_sym_info *info = tc_sym_info_of(im->syms, e);
    if (im->bound[i]) require_range(im, e, info->lo, TC_SYM_INF);
  }
  return TC_OK;
}

// ---- expressions ----
static const tc_sym *apply_aliases(pt2_import *im, const tc_sym *e) {
  if (im->alias_from.count == 0 || e->kind == TC_SYM_CONST) return e;
  return tc_sym_replace(im->syms, e, im->alias_from.count, im->alias_from.data, im->alias_to.data);
}

tc_status pt2_expr(pt2_import *im, const at *where, tc_sv text, const tc_sym **out) {
  bool fresh;
  tc_map_entry *e = tc_map_put(im->texts, text, &fresh);
  if (e->value.ptr == NULL) {
    tc_status status = tc_sym_parse_srepr(im->syms, text, (const tc_sym **)&e->value.ptr);
    if (status) {
      e->value.ptr = NULL;
      return pt2_note(status, where);
    }
  }
  *out = apply_aliases(im, e->value.ptr);
  return TC_OK;
}

tc_status pt2_symint(pt2_import *im, const at *where, tc_json v, const tc_sym **out, int64_t *out_hint) {
  tc_sv tag, text;
  tc_json value;
  int64_t n;
  if (out_hint) *out_hint = INT64_MIN;
  TC_TRY(pt2_union(where, v, &tag, &value));
  at here = at_name(where, tag);
  if (tc_sv_is(tag, "as_int")) {
    TC_TRY(pt2_as_int(&here, value, &n));
    *out = tc_sym_int(im->syms, n);
    if (out_hint) *out_hint = n;
    return TC_OK;
  }
  if (!tc_sv_is(tag, "as_expr")) return pt2_bad(&here, "unknown tag of a symbolic integer");
  TC_TRY(pt2_str(&here, value, "expr_str", &text));
  if (out_hint) (void)tc_json_int(tc_json_get(tc_json_get(value, "hint"), "as_int"), out_hint);
  return pt2_expr(im, &here, text, out);
}

// The only symbol of `e` without a hint, if it is the only one.
static bool find_unhinted(pt2_import *im, const tc_sym *e, const tc_sym **found) {
  if (e->kind == TC_SYM_SYMBOL) {
    if (tc_sym_info_of(im->syms, e)->hint != INT64_MIN || e == *found) return true;
    if (*found != NULL) return false;
    *found = e;
    return true;
  }
  for (int32_t i = 0; i < e->n; i++)
    if (!find_unhinted(im, e->kids[i], found)) return false;
  return true;
}

void pt2_set_hint(pt2_import *im, const tc_sym *e, int64_t hint) {
  const tc_sym *symbol = NULL, *coeff, *rest;
  int64_t c, r, difference;
  if (hint == INT64_MIN || !find_unhinted(im, e, &symbol) || symbol == NULL) return;
  if (!tc_sym_linear(im->syms, e, symbol, &coeff, &rest)) return;
  if (!tc_sym_hint(im->syms, coeff, &c) || !tc_sym_hint(im->syms, rest, &r) || c == 0) return;
  if (__builtin_sub_overflow(hint, r, &difference) || c == -1 || difference % c) return;
  tc_sym_info_of(im->syms, symbol)->hint = difference / c;
}

// ---- definitions ----
const tc_sym *pt2_unify(pt2_import *im, const tc_sym *theirs, const tc_sym *ours) {
  if (theirs == ours || theirs->kind != TC_SYM_SYMBOL || theirs->symbol >= im->n_symbols || im->bound[theirs->symbol])
    return theirs;
  if (tc_sym_uses(ours, theirs)) return theirs; // x = f(x) defines nothing
  im->bound[theirs->symbol] = true, im->n_unbound--;
  tc_vec_push(im->scratch, &im->alias_from, theirs);
  tc_vec_push(im->scratch, &im->alias_to, ours);
  return ours;
}

static const tc_sym *first_unbound(pt2_import *im, const tc_sym *e) {
  if (e->kind == TC_SYM_SYMBOL) return e->symbol < im->n_symbols && !im->bound[e->symbol] ? e : NULL;
  for (int32_t i = 0; i < e->n; i++) {
    const tc_sym *found = first_unbound(im, e->kids[i]);
    if (found) return found;
  }
  return NULL;
}

tc_status pt2_check_bound(pt2_import *im, const at *where, const tc_sym *e) {
  if (im->n_unbound == 0 || e->kind == TC_SYM_CONST) return TC_OK;
  const tc_sym *found = first_unbound(im, e);
  if (found == NULL) return TC_OK;
  return pt2_bad(where, "the symbol '" TC_SV_FMT "' is used, but neither an input nor an earlier node defines it",
                 TC_SV_ARG(found->name));
}

bool pt2_uses_unbacked(pt2_import *im, const tc_sym *e) {
  if (e->kind == TC_SYM_SYMBOL) return tc_sym_info_of(im->syms, e)->origin == TC_SYM_UNBACKED;
  for (int32_t i = 0; i < e->n; i++)
    if (pt2_uses_unbacked(im, e->kids[i])) return true;
  return false;
}
