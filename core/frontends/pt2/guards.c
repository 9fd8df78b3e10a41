// guards_code: Python conditions over the arguments, such as
//   L['mask'].size()[1] == (1 + L['past'][0].size()[2])        L['n'] != 1 and not (L['x'].stride()[0] == 4)
//
// The text is rewritten into the syntax of symbolic expressions (base/expr.h) and parsed as one: an access to an
// argument becomes the expression that the graph has for it, `and`, `or`, `not` become operators. What cannot be
// rewritten or parsed is no error but a warning of the program: the condition is then not checked.
#include <string.h>

#include "core/frontends/pt2/import.h"

typedef struct rewriter {
  pt2_import *im;
  tc_sv text;
  size_t pos;
  tc_sb out;
  const char *why;  // first thing that was not understood
  int32_t depth;    // of parentheses
  int32_t nots[32]; // depths at which a `not` is open
  int32_t n_nots;
  int32_t comparisons[64]; // per depth, since the last `and` or `or`: chains are not understood
} rewriter;

static bool word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool eat(rewriter *r, const char *literal) {
  size_t n = strlen(literal);
  if (r->text.size - r->pos < n || memcmp(r->text.data + r->pos, literal, n) != 0) return false;
  r->pos += n;
  return true;
}

static tc_sv eat_word(rewriter *r) {
  size_t from = r->pos;
  while (r->pos < r->text.size && word_char(r->text.data[r->pos])) r->pos++;
  return tc_sv_sub(r->text, from, r->pos);
}

// 'text' or "text", at the quote.
static bool eat_string(rewriter *r, tc_sv *out) {
  if (r->pos >= r->text.size) return false;
  char quote = r->text.data[r->pos];
  if (quote != '\'' && quote != '"') return false;
  size_t from = ++r->pos;
  while (r->pos < r->text.size && r->text.data[r->pos] != quote && r->text.data[r->pos] != '\\') r->pos++;
  *out = tc_sv_sub(r->text, from, r->pos);
  return r->pos < r->text.size && r->text.data[r->pos++] == quote;
}

static const tc_graph_input *find_leaf(pt2_import *im, tc_sv name) {
  tc_program *p = im->program;
  for (int32_t i = 0; i < p->inputs.count; i++)
    if (tc_sv_eq(p->inputs.data[i].name, name)) return &p->graph->inputs.data[p->inputs.data[i].index];
  return NULL;
}

// [k] behind size() or stride().
static bool eat_dim(rewriter *r, int32_t rank, int32_t *out) {
  int64_t k;
  if (!eat(r, "[") || !tc_sv_to_int(eat_word(r), &k) || !eat(r, "]") || k < 0 || k >= rank) return false;
  *out = (int32_t)k;
  return true;
}

// L['name'] with its steps into the argument, and the question at its end.
static const tc_sym *read_access(rewriter *r) {
  pt2_import *im = r->im;
  tc_sv part;
  if (!eat(r, "['") && !eat(r, "[\"")) return NULL;
  r->pos--;
  if (!eat_string(r, &part) || !eat(r, "]")) return NULL;
  tc_sb path = tc_sb_make(im->scratch);
  tc_sb_put(&path, part);
  for (;;) {
    const tc_graph_input *in;
    size_t before = r->pos;
    int32_t dim;
    bool size = eat(r, ".size()"), stride = !size && eat(r, ".stride()"),
         offset = !size && !stride && eat(r, ".storage_offset()");
    if (size || stride || offset) {
      in = find_leaf(im, tc_sb_view(&path));
      if (in == NULL || in->value == NULL || in->value->kind != TC_VALUE_TENSOR) return NULL;
      const tc_tensor_type *t = &in->value->type;
      if (offset) return t->offset;
      return eat_dim(r, t->rank, &dim) ? (size ? t->sizes[dim] : t->strides[dim]) : NULL;
    }
    if (eat(r, "[")) {
      int64_t k;
      if (eat_string(r, &part)) tc_sb_printf(&path, "." TC_SV_FMT, TC_SV_ARG(part));
      else if (tc_sv_to_int(eat_word(r), &k)) tc_sb_printf(&path, "[%lld]", (long long)k);
      else return NULL;
      if (!eat(r, "]")) return NULL;
    } else if (eat(r, ".")) {
      part = eat_word(r);
      if (part.size == 0) return NULL;
      tc_sb_printf(&path, "." TC_SV_FMT, TC_SV_ARG(part));
    } else {
      r->pos = before;
      in = find_leaf(im, tc_sb_view(&path));
      if (in == NULL) return NULL;
      if (in->value == NULL) return in->constant.kind == TC_AK_INT ? in->constant.sym : NULL;
      return in->value->kind == TC_VALUE_SYM ? in->value->symbol : NULL;
    }
  }
}

static void close_nots(rewriter *r) {
  for (; r->n_nots > 0 && r->nots[r->n_nots - 1] == r->depth; r->n_nots--) tc_sb_putc(&r->out, ')');
}

static void rewrite_word(rewriter *r) {
  tc_sv word = eat_word(r);
  bool is_and = tc_sv_is(word, "and"), is_or = tc_sv_is(word, "or");
  if (tc_sv_is(word, "L") && r->pos < r->text.size && r->text.data[r->pos] == '[') {
    const tc_sym *e = read_access(r);
    if (e == NULL) {
      r->why = "it reads something that is no size, stride or integer of an input";
      return;
    }
    tc_sb_putc(&r->out, '(');
    tc_sym_print(&r->out, e);
    tc_sb_putc(&r->out, ')');
  } else if (is_and || is_or) {
    close_nots(r);
    r->comparisons[r->depth] = 0;
    tc_sb_putz(&r->out, is_and ? " && " : " || ");
  } else if (tc_sv_is(word, "not")) {
    if (r->n_nots == 32) r->why = "it is too deep";
    else {
      r->nots[r->n_nots++] = r->depth;
      tc_sb_putz(&r->out, "!(");
    }
  } else if (tc_sv_is(word, "True") || tc_sv_is(word, "False")) tc_sb_putc(&r->out, word.data[0] == 'T' ? '1' : '0');
  else if (tc_sv_is(word, "max")) tc_sb_putz(&r->out, "Max");
  else if (tc_sv_is(word, "min")) tc_sb_putz(&r->out, "Min");
  else if (word.data[0] >= '0' && word.data[0] <= '9') tc_sb_put(&r->out, word);
  else r->why = "it calls a function that is not known";
}

// NULL, or why the text is not understood.
static const char *rewrite(rewriter *r) {
  while (r->pos < r->text.size && r->why == NULL) {
    char c = r->text.data[r->pos], next = r->pos + 1 < r->text.size ? r->text.data[r->pos + 1] : 0;
    if (eat(r, "torch.sym_max") || eat(r, "math.max")) tc_sb_putz(&r->out, "Max");
    else if (eat(r, "torch.sym_min") || eat(r, "math.min")) tc_sb_putz(&r->out, "Min");
    else if (word_char(c)) rewrite_word(r);
    else if (c == '(') {
      if (++r->depth >= 64) return "it is too deep";
      r->comparisons[r->depth] = 0;
      tc_sb_putc(&r->out, c), r->pos++;
    } else if (c == ')') {
      close_nots(r);
      if (--r->depth < 0) return "its parentheses do not match";
      tc_sb_putc(&r->out, c), r->pos++;
    } else if (strchr("=!<>", c)) {
      if (++r->comparisons[r->depth] > 1) return "it chains comparisons";
      tc_sb_putc(&r->out, c), r->pos++;
      if (next == '=') tc_sb_putc(&r->out, next), r->pos++;
    } else if ((c == '/' && next == '/') || (c == '*' && next == '*')) {
      tc_sb_putc(&r->out, c), tc_sb_putc(&r->out, c), r->pos += 2;
    } else if (strchr("+-*%, ", c)) {
      tc_sb_putc(&r->out, c), r->pos++;
    } else return "it uses an operator that is not known";
  }
  close_nots(r);
  return r->why;
}

static tc_status import_guard(pt2_import *im, tc_sv text) {
  rewriter r = {.im = im, .text = text, .out = tc_sb_make(im->scratch)};
  const char *why = rewrite(&r);
  if (why) {
    pt2_warn(im, "the guard '" TC_SV_FMT "' is not checked: %s", TC_SV_ARG(text), why);
    return TC_OK;
  }
  tc_lexer lx;
  const tc_sym *e;
  tc_lex_init(&lx, im->scratch, TC_SV("guards_code"), tc_sb_view(&r.out));
  tc_status status = tc_sym_parse(im->syms, &lx, &e);
  if (status == TC_OK && lx.tok.kind != TC_TOK_END) status = tc_lex_error(&lx, "unexpected text");
  if (status) {
    pt2_warn(im, "the guard '" TC_SV_FMT "' is not checked: %s", TC_SV_ARG(text), tc_status_text(status));
    tc_status_free(status);
    return TC_OK;
  }
  if (tc_sym_is_int(e, 0))
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "the program's guard '" TC_SV_FMT "' never holds", TC_SV_ARG(text));
  if (tc_sym_prove(im->syms, e) != 1) tc_module_require(im->module, e);
  return TC_OK;
}

tc_status pt2_import_guards(pt2_import *im) {
  for (tc_json_iter it = tc_json_begin(tc_json_get(im->root, "guards_code")); tc_json_next(&it);) {
    tc_sv text;
    if (tc_json_str(it.value, &text)) TC_TRY(import_guard(im, text));
  }
  return TC_OK;
}
