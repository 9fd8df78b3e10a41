// Reads the text form of loop IR.
//
//   loops  := 'loops' @name [ symbols ] [ signature ] '{' { input | node } 'return' [ output { ',' output } ] '}'
//   decl   := %name ':' dtype '[' sizes ']' [ '{' strides '}' ] [ offset ] [ 'prefer' '{' strides '}' ]
//             [ 'inplace' %name ] [ 'planar' ]
//   input  := decl '=' 'input' INT
//   node   := decl [ ',' decl ] '=' kind { 'keep' | 'of' STRING | 'named' STRING | '@' STRING } [ body [ store ] ] [
//   graph ] kind   := 'pointwise' '[' vars ']' | 'reduce' '.' IDENT '[' vars ']' 'over' '[' vars ']'
//           | 'template' name '(' operands ')' [ 'attrs' '[' exprs ']' ] | 'call' '(' operands ')'
//   vars   := [ NAME ':' expr { ',' NAME ':' expr } ]         name := STRING | IDENT { '.' IDENT }
//   operand:= %name [ '[' vars '->' exprs ']' ]
//   body   := '{' { %value '=' inst } 'yield' %value { ',' %value } '}'
//   inst   := 'const' literal ':' dtype | 'index' expr ':' dtype
//           | 'load' %name '[' { expr | %value } ']' [ 'wrap' ] [ 'if' expr 'else' %value ] [ '@' STRING ]
//           | OPCODE %value { ',' %value } [ ':' dtype ]
//   output := kind [ STRING ] ( %name [ 'as' dtype '[' sizes ']' '{' strides '}' [ offset ] [ 'conj' ] ] | number |
//   'none' ) offset := '+' '(' expr ')'
//
// Names of loop variables count inside their node only; they may come again. Names of size symbols must have been
// declared in the list of symbols. A call stands with its op as a graph of one node (core/ir/parse.c reads it).
#include "core/ir/op.h"
#include "core/loop/lo.h"

typedef struct local {
  tc_sv name;
  const tc_sym *symbol;
} local;

typedef struct reader {
  tc_module *m;
  tc_lexer *lx;
  const tc_template_registry *templates;
  tc_loops *l;
  tc_map *sizes;           // name → size symbol
  tc_map *bufs;            // name → tc_buf *
  tc_map *views;           // index symbol of a view → its extent
  TC_VEC(local) variables; // of the node or view that is being read
  tc_map *values;          // of the body that is being read: name → number + 1
} reader;

// ---- expressions ----
static tc_status resolve(void *self, tc_sym_ctx *c, const tc_ex *ex, const tc_sym **out) {
  reader *r = self;
  if (ex->kind != TC_EX_NAME) return TC_OK;
  for (int32_t i = r->variables.count - 1; i >= 0; i--) {
    if (!tc_sv_eq(r->variables.data[i].name, ex->text)) continue;
    *out = r->variables.data[i].symbol;
    return TC_OK;
  }
  (void)c;
  tc_map_entry *size = tc_map_find(r->sizes, ex->text);
  if (size) {
    *out = size->value.ptr;
    return TC_OK;
  }
  tc_lexer at = *r->lx;
  at.tok = (tc_token){.kind = TC_TOK_PUNCT, .line = ex->line, .column = ex->column};
  return tc_lex_error(&at, "'" TC_SV_FMT "' is neither a variable of this node nor a size symbol of the module",
                      TC_SV_ARG(ex->text));
}

static tc_status expr(reader *r, const tc_sym **out) {
  const tc_ex *ex;
  TC_TRY(tc_ex_parse(r->lx, &ex));
  return tc_sym_from_ex_with(r->m->syms, r->lx, ex, false, resolve, r, out);
}

// Expressions up to `close`, at most TC_MAX_RANK; exactly `want` of them unless it is < 0.
static tc_status exprs(reader *r, const char *close, int32_t want, int32_t *out_n, const tc_sym *const **out) {
  const tc_sym *v[TC_MAX_RANK];
  int32_t n = 0;
  tc_lexer at = *r->lx;
  while (!tc_lex_at(r->lx, close)) {
    if (n == TC_MAX_RANK) return tc_lex_error(r->lx, "more than %d dimensions", TC_MAX_RANK);
    TC_TRY(expr(r, &v[n++]));
    if (!tc_lex_eat(r->lx, ",")) break;
  }
  TC_TRY(tc_lex_expect(r->lx, close));
  if (want >= 0 && n != want) return tc_lex_error(&at, "expected %d expressions, found %d", want, n);
  if (out_n) *out_n = n;
  *out = tc_arena_copy(r->l->arena, v, (size_t)n * sizeof *v);
  return TC_OK;
}

static tc_status offset(reader *r, const tc_sym **out) {
  *out = tc_sym_int(r->m->syms, 0);
  if (!tc_lex_eat(r->lx, "+")) return TC_OK;
  TC_TRY(tc_lex_expect(r->lx, "("));
  TC_TRY(expr(r, out));
  return tc_lex_expect(r->lx, ")");
}

static tc_status dtype(reader *r, tc_dtype *out) {
  *out = r->lx->tok.kind == TC_TOK_IDENT ? tc_dtype_parse(r->lx->tok.text) : TC_DTYPE_NONE;
  if (*out == TC_DTYPE_NONE) return tc_lex_error(r->lx, "expected a dtype such as f32");
  tc_lex_next(r->lx);
  return TC_OK;
}

// A loop variable of that name. The symbol has the same name, unless another node has taken it; equal views share
// theirs, as they do when a graph is lowered.
static tc_status variable(reader *r, tc_sv name, const tc_lexer *at, bool of_view, const tc_sym *extent,
                          const tc_sym **out) {
  tc_sym_ctx *c = r->m->syms;
  int32_t before = tc_sym_symbol_count(c);
  const tc_sym *s = tc_sym_symbol(c, name);
  if (tc_sym_symbol_count(c) == before) {
    int32_t origin = tc_sym_info_of(c, s)->origin;
    const tc_map_entry *e = of_view ? tc_map_find_ptr(r->views, s) : NULL;
    if (e && e->value.ptr == extent) {
      *out = s;
      return TC_OK;
    }
    if (origin == TC_SYM_BACKED || origin == TC_SYM_UNBACKED)
      return tc_lex_error(at, "'" TC_SV_FMT "' is a size symbol", TC_SV_ARG(name));
    size_t n = name.size;
    while (n > 1 && name.data[n - 1] >= '0' && name.data[n - 1] <= '9') n--;
    s = tc_sym_fresh(c, tc_sv_z(r->l->arena, tc_sv_sub(name, 0, n)), TC_SYM_LOOP);
  }
  tc_sym_info_of(c, s)->origin = TC_SYM_LOOP;
  tc_loop_var_range(r->l, s, extent);
  if (of_view) tc_map_put_ptr(r->views, s, NULL)->value.ptr = (void *)extent;
  *out = s;
  return TC_OK;
}

// NAME ':' extent, …, up to `close`; the variables are known from the end of the list on.
static tc_status variables(reader *r, const char *close, int32_t *n, const tc_sym **vars, const tc_sym **extents) {
  int32_t first = *n;
  local found[TC_MAX_RANK];
  while (!tc_lex_at(r->lx, close)) {
    tc_lexer at = *r->lx;
    if (*n == TC_MAX_RANK) return tc_lex_error(r->lx, "more than %d variables", TC_MAX_RANK);
    tc_sv name;
    TC_TRY(tc_lex_ident(r->lx, &name));
    for (int32_t i = 0; i < r->variables.count; i++) {
      if (tc_sv_eq(r->variables.data[i].name, name))
        return tc_lex_error(&at, "'" TC_SV_FMT "' is a variable already", TC_SV_ARG(name));
    }
    for (int32_t i = first; i < *n; i++) {
      if (tc_sv_eq(found[i].name, name))
        return tc_lex_error(&at, "'" TC_SV_FMT "' is a variable already", TC_SV_ARG(name));
    }
    TC_TRY(tc_lex_expect(r->lx, ":"));
    TC_TRY(expr(r, &extents[*n]));
    TC_TRY(variable(r, name, &at, tc_sv_is(tc_sv_of(close), "->"), extents[*n], &vars[*n]));
    found[*n] = (local){name, vars[*n]};
    ++*n;
    if (!tc_lex_eat(r->lx, ",")) break;
  }
  TC_TRY(tc_lex_expect(r->lx, close));
  for (int32_t i = first; i < *n; i++) tc_vec_push(r->l->arena, &r->variables, found[i]);
  return TC_OK;
}

// ---- buffers ----
static tc_status find_buf(reader *r, tc_buf **out) {
  tc_lexer at = *r->lx;
  tc_sv name;
  TC_TRY(tc_lex_sigil(r->lx, '%', &name));
  tc_map_entry *e = tc_map_find(r->bufs, name);
  if (!e) return tc_lex_error(&at, "%%" TC_SV_FMT " is not defined here", TC_SV_ARG(name));
  *out = e->value.ptr;
  return TC_OK;
}

// A declared buffer, which is known by its name only once its node has been read.
static tc_status declaration(reader *r, tc_buf **out) {
  tc_lexer *lx = r->lx;
  tc_sv name;
  tc_dtype d;
  int32_t rank;
  const tc_sym *const *sizes;
  tc_lexer at = *lx;
  r->variables.count = 0;
  TC_TRY(tc_lex_sigil(lx, '%', &name));
  if (tc_map_find(r->bufs, name)) return tc_lex_error(&at, "%%" TC_SV_FMT " is defined twice", TC_SV_ARG(name));
  TC_TRY(tc_lex_expect(lx, ":"));
  TC_TRY(dtype(r, &d));
  TC_TRY(tc_lex_expect(lx, "["));
  TC_TRY(exprs(r, "]", -1, &rank, &sizes));
  tc_buf *b = tc_loops_buf(r->l, name, d, rank, sizes);
  if (tc_lex_eat(lx, "{")) TC_TRY(exprs(r, "}", rank, NULL, &b->strides));
  TC_TRY(offset(r, &b->offset));
  if (tc_lex_eat(lx, "prefer")) {
    TC_TRY(tc_lex_expect(lx, "{"));
    TC_TRY(exprs(r, "}", rank, NULL, &b->prefer));
  }
  if (tc_lex_eat(lx, "inplace")) {
    tc_buf *of;
    at = *lx;
    TC_TRY(find_buf(r, &of));
    if (tc_buf_storage(of)->kind != TC_BUF_INPUT) return tc_lex_error(&at, "only inputs are written in place");
    if (of->overwritten) return tc_lex_error(&at, "%%" TC_SV_FMT " was written over", TC_SV_ARG(of->name));
    b->inplace = of;
    of->overwritten = true;
  }
  b->planar = tc_lex_eat(lx, "planar");
  *out = b;
  return TC_OK;
}

static tc_status input(reader *r, tc_buf *b) {
  tc_lexer at = *r->lx;
  int64_t number;
  TC_TRY(tc_lex_int(r->lx, &number));
  if (number < 0 || number > INT16_MAX) return tc_lex_error(&at, "an input has a number from 0 on");
  for (int32_t i = 0; i + 1 < r->l->bufs.count; i++) {
    if (r->l->bufs.data[i]->input == number)
      return tc_lex_error(&at, "input %lld is %%" TC_SV_FMT " already", (long long)number,
                          TC_SV_ARG(r->l->bufs.data[i]->name));
  }
  b->kind = TC_BUF_INPUT;
  b->input = (int32_t)number;
  if (!b->strides) b->strides = tc_row_major(r->m, b->rank, b->sizes);
  return TC_OK;
}

// ---- bodies ----
static tc_status body_value(reader *r, int32_t *out) {
  tc_lexer at = *r->lx;
  tc_sv name;
  TC_TRY(tc_lex_sigil(r->lx, '%', &name));
  tc_map_entry *e = tc_map_find(r->values, name);
  if (!e) return tc_lex_error(&at, "%%" TC_SV_FMT " is no value of this body", TC_SV_ARG(name));
  *out = (int32_t)e->value.num - 1;
  return TC_OK;
}

static tc_status constant(reader *r, tc_binst *b) {
  enum { PAIR, WORD, INTEGER, REAL } form;
  tc_lexer *lx = r->lx, at = *lx, ahead = *lx;
  tc_lex_eat(&ahead, "-");
  if (tc_lex_eat(lx, "(")) {
    form = PAIR;
    TC_TRY(tc_lex_double(lx, &b->re));
    TC_TRY(tc_lex_expect(lx, ","));
    TC_TRY(tc_lex_double(lx, &b->im));
    TC_TRY(tc_lex_expect(lx, ")"));
  } else if (tc_lex_at(lx, "true") || tc_lex_at(lx, "false")) {
    form = WORD;
    b->imm = tc_lex_at(lx, "true");
    tc_lex_next(lx);
  } else if (ahead.tok.kind == TC_TOK_INT) {
    form = INTEGER;
    b->re = tc_lex_at(lx, "-") ? -ahead.tok.real : ahead.tok.real;
    TC_TRY(tc_lex_int(lx, &b->imm));
  } else {
    form = REAL;
    TC_TRY(tc_lex_double(lx, &b->re));
  }
  TC_TRY(tc_lex_expect(lx, ":"));
  TC_TRY(dtype(r, &b->dtype));
  const char *name = tc_dtype_name(b->dtype);
  switch (tc_dtype_class(b->dtype)) {
  case 'c': return form == PAIR ? TC_OK : tc_lex_error(&at, "a constant of %s is written (re, im)", name);
  case 'b': return form == WORD ? TC_OK : tc_lex_error(&at, "a constant of %s is true or false", name);
  case 'f':
    b->imm = 0;
    return form == REAL || form == INTEGER ? TC_OK : tc_lex_error(&at, "a constant of %s is a number", name);
  default: b->re = 0; return form == INTEGER ? TC_OK : tc_lex_error(&at, "a constant of %s is an integer", name);
  }
}

static tc_status load(reader *r, tc_binst *b) {
  tc_lexer *lx = r->lx;
  tc_buf *buf;
  const tc_sym *index[TC_MAX_RANK];
  int32_t gather[TC_MAX_RANK], n = 0;
  bool gathers = false;
  TC_TRY(find_buf(r, &buf));
  b->buf = buf;
  b->dtype = buf->dtype;
  tc_lexer at = *lx;
  TC_TRY(tc_lex_expect(lx, "["));
  while (!tc_lex_at(lx, "]")) {
    if (n == buf->rank) break;
    gather[n] = -1;
    if (lx->tok.kind == TC_TOK_SIGIL) {
      TC_TRY(body_value(r, &gather[n]));
      index[n++] = tc_sym_int(r->m->syms, 0);
      gathers = true;
    } else {
      TC_TRY(expr(r, &index[n++]));
    }
    if (!tc_lex_eat(lx, ",")) break;
  }
  if (n != buf->rank || !tc_lex_at(lx, "]"))
    return tc_lex_error(&at, "%%" TC_SV_FMT " has %d dimensions", TC_SV_ARG(buf->name), buf->rank);
  tc_lex_next(lx);
  b->index = tc_arena_copy(r->l->arena, index, (size_t)n * sizeof *index);
  if (gathers) b->gather = tc_arena_copy(r->l->arena, gather, (size_t)n * sizeof *gather);
  b->wrap = tc_lex_eat(lx, "wrap");
  if (tc_lex_eat(lx, "if")) {
    TC_TRY(expr(r, &b->cond));
    TC_TRY(tc_lex_expect(lx, "else"));
    TC_TRY(body_value(r, &b->args[0]));
    b->n_args = 1;
  }
  return tc_lex_eat(lx, "@") ? tc_lex_string(lx, &b->source) : TC_OK;
}

static int32_t find_opcode(tc_sv name) {
  for (int32_t op = 0; op < TC_K_COUNT; op++) {
    if (tc_k_op_class(op) != 's' && tc_sv_is(name, tc_k_op_text(op))) return op;
  }
  return -1;
}

static tc_status opcode(reader *r, const tc_body *body, const tc_lexer *at, tc_sv name, tc_binst *b) {
  tc_lexer *lx = r->lx;
  b->op = find_opcode(name);
  if (b->op < 0 || b->op == TC_K_BLOCK || b->op == TC_K_LANE || b->op == TC_K_SCALAR)
    return tc_lex_error(at, "'" TC_SV_FMT "' is no opcode of loop bodies", TC_SV_ARG(name));
  tc_dtype types[3];
  do {
    if (b->n_args == 3) return tc_lex_error(lx, "an opcode has at most 3 operands");
    TC_TRY(body_value(r, &b->args[b->n_args]));
    types[b->n_args] = body->insts.data[b->args[b->n_args]].dtype;
    b->n_args++;
  } while (tc_lex_eat(lx, ","));
  bool cast = b->op == TC_K_CAST || b->op == TC_K_BITCAST;
  b->dtype = tc_body_op_type(b->op, b->n_args, types);
  if (!cast && !tc_lex_at(lx, ":"))
    return b->dtype ? TC_OK : tc_lex_error(at, "the operands of '" TC_SV_FMT "' have different types", TC_SV_ARG(name));
  TC_TRY(tc_lex_expect(lx, ":"));
  return dtype(r, &b->dtype);
}

static tc_status check(reader *r, const tc_body *body, tc_binst *b) {
  b->n_args = 2;
  TC_TRY(body_value(r, &b->args[0]));
  TC_TRY(tc_lex_expect(r->lx, ","));
  TC_TRY(body_value(r, &b->args[1]));
  b->dtype = body->insts.data[b->args[1]].dtype;
  TC_TRY(tc_lex_string(r->lx, &b->text));
  return tc_lex_eat(r->lx, "@") ? tc_lex_string(r->lx, &b->source) : TC_OK;
}

static tc_status instruction(reader *r, tc_body *body) {
  tc_lexer *lx = r->lx, at = *lx;
  tc_sv name, word;
  tc_binst b = {0};
  enum { MOST = 1 << 16 };
  if (body->insts.count == MOST) return tc_lex_error(lx, "a body has at most %d instructions", MOST);
  TC_TRY(tc_lex_sigil(lx, '%', &name));
  TC_TRY(tc_lex_expect(lx, "="));
  tc_lexer op_at = *lx;
  TC_TRY(tc_lex_ident(lx, &word));
  if (tc_sv_is(word, "load")) {
    b.op = TC_B_LOAD;
    TC_TRY(load(r, &b));
  } else if (tc_sv_is(word, "const")) {
    b.op = TC_K_CONST;
    TC_TRY(constant(r, &b));
  } else if (tc_sv_is(word, "check")) {
    b.op = TC_B_CHECK;
    TC_TRY(check(r, body, &b));
  } else if (tc_sv_is(word, "index")) {
    b.op = TC_B_INDEX;
    TC_TRY(expr(r, &b.expr));
    TC_TRY(tc_lex_expect(lx, ":"));
    TC_TRY(dtype(r, &b.dtype));
  } else {
    TC_TRY(opcode(r, body, &op_at, word, &b));
  }
  bool fresh;
  tc_map_entry *e = tc_map_put(r->values, name, &fresh);
  if (!fresh) return tc_lex_error(&at, "%%" TC_SV_FMT " is defined twice", TC_SV_ARG(name));
  tc_vec_push(r->l->arena, &body->insts, b);
  e->value.num = body->insts.count;
  return TC_OK;
}

static tc_status body(reader *r, tc_body *out) {
  r->values = tc_map_create(r->l->arena);
  TC_TRY(tc_lex_expect(r->lx, "{"));
  while (!tc_lex_at(r->lx, "yield")) TC_TRY(instruction(r, out));
  tc_lex_next(r->lx);
  do {
    if (out->n_results == 2) return tc_lex_error(r->lx, "a body yields at most 2 values");
    TC_TRY(body_value(r, &out->results[out->n_results++]));
  } while (tc_lex_eat(r->lx, ","));
  return tc_lex_expect(r->lx, "}");
}

// ---- nodes ----
// Variables that the text does not name, called so that they take no name from it.
static const tc_sym *const *hidden_vars(reader *r, int32_t rank, const tc_sym *const *sizes) {
  const tc_sym **vars = TC_NEW_ARRAY(r->l->arena, const tc_sym *, rank);
  for (int32_t d = 0; d < rank; d++) vars[d] = tc_loop_var(r->l, "hidden", sizes[d]);
  return vars;
}

static tc_status operand(reader *r, tc_lview *out) {
  tc_buf *b;
  TC_TRY(find_buf(r, &b));
  if (!tc_lex_eat(r->lx, "[")) {
    const tc_sym *const *index = hidden_vars(r, b->rank, b->sizes);
    *out = (tc_lview){.buf = b, .rank = b->rank, .sizes = b->sizes, .index = index, .map = index};
    return TC_OK;
  }
  const tc_sym *vars[TC_MAX_RANK], *extents[TC_MAX_RANK];
  *out = (tc_lview){.buf = b};
  r->variables.count = 0;
  TC_TRY(variables(r, "->", &out->rank, vars, extents));
  out->sizes = tc_arena_copy(r->l->arena, extents, (size_t)out->rank * sizeof *extents);
  out->index = tc_arena_copy(r->l->arena, vars, (size_t)out->rank * sizeof *vars);
  tc_status s = exprs(r, "]", b->rank, NULL, &out->map);
  r->variables.count = 0;
  return s;
}

static tc_status operands(reader *r, tc_lnode *n) {
  TC_VEC(tc_lview) v = {0};
  TC_TRY(tc_lex_expect(r->lx, "("));
  while (!tc_lex_at(r->lx, ")")) {
    tc_lview one;
    TC_TRY(operand(r, &one));
    tc_vec_push(r->l->arena, &v, one);
    if (!tc_lex_eat(r->lx, ",")) break;
  }
  n->operands = v.data;
  n->n_operands = v.count;
  return tc_lex_expect(r->lx, ")");
}

static tc_status template_node(reader *r, tc_lnode *n) {
  tc_lexer *lx = r->lx, at = *lx;
  tc_sv name, part;
  if (lx->tok.kind == TC_TOK_STRING) {
    TC_TRY(tc_lex_string(lx, &name));
  } else {
    TC_TRY(tc_lex_ident(lx, &name));
    while (tc_lex_eat(lx, ".")) {
      TC_TRY(tc_lex_ident(lx, &part));
      name = tc_sv_printf(r->l->arena, TC_SV_FMT "." TC_SV_FMT, TC_SV_ARG(name), TC_SV_ARG(part));
    }
  }
  n->tmpl = tc_template_find(r->templates, name);
  if (!n->tmpl) return tc_lex_error(&at, "no template named '" TC_SV_FMT "' is registered", TC_SV_ARG(name));
  TC_TRY(operands(r, n));
  if (!tc_lex_eat(lx, "attrs")) return TC_OK;
  TC_TRY(tc_lex_expect(lx, "["));
  TC_VEC(const tc_sym *) attrs = {0};
  while (!tc_lex_at(lx, "]")) {
    const tc_sym *e;
    TC_TRY(expr(r, &e));
    tc_vec_push(r->l->arena, &attrs, e);
    if (!tc_lex_eat(lx, ",")) break;
  }
  n->attrs = attrs.data;
  n->n_attrs = attrs.count;
  return tc_lex_expect(lx, "]");
}

static tc_status domain(reader *r, tc_lnode *n) {
  const tc_sym *vars[2 * TC_MAX_RANK], *extents[2 * TC_MAX_RANK];
  TC_TRY(tc_lex_expect(r->lx, "["));
  TC_TRY(variables(r, "]", &n->n_par, vars, extents));
  if (n->kind == TC_LN_REDUCE) {
    TC_TRY(tc_lex_expect(r->lx, "over"));
    TC_TRY(tc_lex_expect(r->lx, "["));
    TC_TRY(variables(r, "]", &n->n_red, vars + n->n_par, extents + n->n_par));
  }
  int32_t count = n->n_par + n->n_red;
  n->vars = tc_arena_copy(r->l->arena, vars, (size_t)count * sizeof *vars);
  n->extents = tc_arena_copy(r->l->arena, extents, (size_t)count * sizeof *extents);
  return TC_OK;
}

// Templates and calls run over their first result.
static void domain_of_result(reader *r, tc_lnode *n, const tc_buf *b) {
  n->n_par = b->rank;
  n->vars = hidden_vars(r, b->rank, b->sizes);
  n->extents = b->sizes;
}

static tc_status kind_of(reader *r, tc_lnode *n, const tc_buf *result) {
  tc_lexer *lx = r->lx;
  r->variables.count = 0;
  if (tc_lex_eat(lx, "pointwise")) {
    n->kind = TC_LN_POINTWISE;
    return domain(r, n);
  }
  if (tc_lex_eat(lx, "reduce")) {
    n->kind = TC_LN_REDUCE;
    TC_TRY(tc_lex_expect(lx, "."));
    for (n->reduce = 0; n->reduce < TC_RED_COUNT && !tc_lex_at(lx, tc_reduce_text(n->reduce)); n->reduce++) continue;
    if (n->reduce == TC_RED_COUNT) return tc_lex_error(lx, "expected the kind of the reduction: sum, max, …");
    tc_lex_next(lx);
    return domain(r, n);
  }
  domain_of_result(r, n, result);
  if (tc_lex_eat(lx, "template")) {
    n->kind = TC_LN_TEMPLATE;
    return template_node(r, n);
  }
  n->kind = TC_LN_CALL;
  TC_TRY(tc_lex_expect(lx, "call"));
  return operands(r, n);
}

tc_status tc_call_parse(tc_module *m, tc_lexer *lx, int32_t n_results, const tc_node **out) {
  tc_lexer at = *lx;
  tc_graph *g;
  TC_TRY(tc_graph_parse(m, lx, &g));
  if (!g->first || g->first != g->last) return tc_lex_error(&at, "a call has a graph of one node");
  if (g->first->n_results != n_results)
    return tc_lex_error(&at, "the op has %d results, %d are named", g->first->n_results, n_results);
  *out = g->first;
  return TC_OK;
}

// 'at' '[' ( expr | %value ) … ']' [ 'wrap' ] [ 'if' %value ], behind the body
static tc_status store(reader *r, tc_lnode *n, const tc_buf *to) {
  tc_lexer *lx = r->lx;
  const tc_sym **index = TC_NEW_ARRAY(r->l->arena, const tc_sym *, to->rank);
  int32_t *gather = TC_NEW_ARRAY(r->l->arena, int32_t, to->rank);
  tc_lex_next(lx);
  if (!to->inplace) return tc_lex_error(lx, "only a buffer in place is written at an index");
  TC_TRY(tc_lex_expect(lx, "["));
  for (int32_t d = 0; d < to->rank; d++) {
    if (d) TC_TRY(tc_lex_expect(lx, ","));
    index[d] = tc_sym_int(r->m->syms, 0), gather[d] = -1;
    if (lx->tok.kind == TC_TOK_SIGIL) TC_TRY(body_value(r, &gather[d]));
    else TC_TRY(expr(r, &index[d]));
    if (gather[d] >= 0) n->store_gather = gather;
  }
  TC_TRY(tc_lex_expect(lx, "]"));
  n->store = index;
  n->store_wrap = tc_lex_eat(lx, "wrap");
  n->store_if = -1;
  return tc_lex_eat(lx, "if") ? body_value(r, &n->store_if) : TC_OK;
}

static tc_status node(reader *r, int32_t n_outs, tc_buf *const *outs) {
  tc_lexer *lx = r->lx, at = *lx;
  tc_lnode *n = TC_NEW(r->l->arena, tc_lnode);
  *n = (tc_lnode){.id = r->l->nodes.count, .n_outs = n_outs, .name = outs[0]->name};
  n->outs = TC_NEW_ARRAY(r->l->arena, tc_buf *, n_outs);
  TC_TRY(kind_of(r, n, outs[0]));
  if (n_outs > 2 && n->kind != TC_LN_CALL) return tc_lex_error(&at, "a node has at most 2 results");
  for (;;) {
    if (tc_lex_eat(lx, "keep")) n->keep = true;
    else if (tc_lex_eat(lx, "of")) TC_TRY(tc_lex_string(lx, &n->op));
    else if (tc_lex_eat(lx, "named")) TC_TRY(tc_lex_string(lx, &n->name));
    else if (tc_lex_eat(lx, "@")) TC_TRY(tc_lex_string(lx, &n->source));
    else break;
  }
  if (n->kind == TC_LN_POINTWISE || n->kind == TC_LN_REDUCE) TC_TRY(body(r, &n->body));
  if (n->kind == TC_LN_POINTWISE && tc_lex_at(lx, "at")) TC_TRY(store(r, n, outs[0]));
  if (n->kind == TC_LN_CALL) TC_TRY(tc_call_parse(r->m, lx, n_outs, &n->node));
  for (int32_t i = 0; i < n_outs; i++) {
    n->outs[i] = outs[i];
    outs[i]->def = n;
    outs[i]->def_result = i;
  }
  tc_vec_push(r->l->arena, &r->l->nodes, n);
  return TC_OK;
}

static tc_status input_or_node(reader *r) {
  tc_lexer at = *r->lx;
  TC_VEC(tc_buf *) made = {0};
  do {
    tc_buf *b;
    TC_TRY(declaration(r, &b));
    tc_vec_push(r->l->arena, &made, b);
  } while (tc_lex_eat(r->lx, ","));
  tc_buf *const *outs = made.data;
  int32_t n = made.count;
  TC_TRY(tc_lex_expect(r->lx, "="));
  if (tc_lex_eat(r->lx, "input")) {
    if (n > 1) return tc_lex_error(&at, "an input is one buffer");
    TC_TRY(input(r, outs[0]));
  } else {
    TC_TRY(node(r, n, outs));
  }
  for (int32_t i = 0; i < n; i++) {
    bool fresh;
    tc_map_entry *e = tc_map_put(r->bufs, outs[i]->name, &fresh);
    if (!fresh) return tc_lex_error(&at, "%%" TC_SV_FMT " is defined twice", TC_SV_ARG(outs[i]->name));
    e->value.ptr = outs[i];
  }
  return TC_OK;
}

// ---- outputs ----
static tc_status output_type(reader *r, const tc_buf *b, tc_tensor_type *t) {
  *t = (tc_tensor_type){
      .dtype = b->dtype, .rank = b->rank, .sizes = b->sizes, .strides = b->strides, .offset = b->offset};
  if (!tc_lex_eat(r->lx, "as"))
    return b->strides ? TC_OK
                      : tc_lex_error(r->lx, "%%" TC_SV_FMT " has no strides yet: 'as' tells those of the output",
                                     TC_SV_ARG(b->name));
  TC_TRY(dtype(r, &t->dtype));
  TC_TRY(tc_lex_expect(r->lx, "["));
  TC_TRY(exprs(r, "]", -1, &t->rank, &t->sizes));
  TC_TRY(tc_lex_expect(r->lx, "{"));
  TC_TRY(exprs(r, "}", t->rank, NULL, &t->strides));
  TC_TRY(offset(r, &t->offset));
  t->conj = tc_lex_eat(r->lx, "conj");
  return TC_OK;
}

static tc_status number(reader *r, tc_arg *out) {
  tc_lexer *lx = r->lx, ahead = *lx;
  *out = tc_arg_none();
  if (tc_lex_eat(lx, "none")) return TC_OK;
  bool yes = tc_lex_at(lx, "true");
  if (yes || tc_lex_at(lx, "false")) {
    tc_lex_next(lx);
    *out = tc_arg_bool(yes);
    return TC_OK;
  }
  tc_lex_eat(&ahead, "-");
  if (ahead.tok.kind == TC_TOK_FLOAT || tc_lex_at(&ahead, "inf") || tc_lex_at(&ahead, "nan")) {
    out->kind = TC_AK_FLOAT;
    return tc_lex_double(lx, &out->real);
  }
  out->kind = TC_AK_INT;
  return expr(r, &out->sym);
}

static tc_status output(reader *r) {
  tc_lexer *lx = r->lx;
  tc_loop_output o = {.number = tc_arg_none()};
  while (tc_output_kind_text(o.kind) && !tc_lex_at(lx, tc_output_kind_text(o.kind))) o.kind++;
  if (!tc_output_kind_text(o.kind)) return tc_lex_error(lx, "expected the kind of an output: user, buffer, …");
  tc_lex_next(lx);
  r->variables.count = 0;
  if (lx->tok.kind == TC_TOK_STRING) {
    TC_TRY(tc_lex_string(lx, &o.target));
    if (tc_lex_at(lx, ",") || tc_lex_at(lx, "}")) { // a lone string is the output itself
      o.number = tc_arg_string(o.target);
      o.target = (tc_sv){0};
      tc_vec_push(r->l->arena, &r->l->outputs, o);
      return TC_OK;
    }
  }
  if (lx->tok.kind != TC_TOK_SIGIL) {
    TC_TRY(number(r, &o.number));
  } else {
    tc_buf *b;
    TC_TRY(find_buf(r, &b));
    TC_TRY(output_type(r, b, &o.type));
    o.buf = b;
    if (b->kind == TC_BUF_INTERNAL && b->output < 0) b->output = r->l->outputs.count;
  }
  tc_vec_push(r->l->arena, &r->l->outputs, o);
  return TC_OK;
}

// ---- signatures ----
// Without a signature in the text the inputs are the user's, under their buffers' names.
static tc_graph *plain_signature(reader *r) {
  tc_loops *l = r->l;
  int32_t n = 0;
  for (int32_t i = 0; i < l->bufs.count; i++) {
    if (l->bufs.data[i]->kind == TC_BUF_INPUT && l->bufs.data[i]->input >= n) n = l->bufs.data[i]->input + 1;
  }
  tc_sv *names = TC_NEW_ARRAY(l->arena, tc_sv, n);
  tc_tensor_type *types = TC_NEW_ARRAY(l->arena, tc_tensor_type, n);
  for (int32_t i = 0; i < l->bufs.count; i++) {
    const tc_buf *b = l->bufs.data[i];
    if (b->kind != TC_BUF_INPUT) continue;
    names[b->input] = b->name;
    types[b->input] = (tc_tensor_type){
        .dtype = b->dtype, .rank = b->rank, .sizes = b->sizes, .strides = b->strides, .offset = b->offset};
  }
  return tc_signature_plain(r->m, l->name, n, names, types);
}

static tc_status check_signature(reader *r, const tc_graph *g, const tc_lexer *at) {
  for (int32_t i = 0; i < r->l->bufs.count; i++) {
    const tc_buf *b = r->l->bufs.data[i];
    if (b->kind == TC_BUF_INPUT && !tc_signature_has(g, b->input, b->dtype))
      return tc_lex_error(at, "%%" TC_SV_FMT " is not what the signature says of input %d", TC_SV_ARG(b->name),
                          b->input);
  }
  return TC_OK;
}

static void add_outputs(tc_loops *l, tc_graph *g) {
  for (int32_t i = 0; i < l->outputs.count; i++) {
    const tc_loop_output *o = &l->outputs.data[i];
    tc_signature_add_output(g, o->kind, o->target, o->buf ? o->buf->name : (tc_sv){0}, o->buf ? &o->type : NULL,
                            o->number);
  }
}

tc_status tc_loops_parse_with(tc_module *m, const tc_template_registry *templates, tc_lexer *lx, tc_loops **out) {
  tc_loops *l = TC_NEW(m->arena, tc_loops);
  *l = (tc_loops){.module = m, .arena = m->arena, .syms = m->syms};
  reader r = {.m = m,
              .lx = lx,
              .templates = templates,
              .l = l,
              .sizes = tc_map_create(m->arena),
              .bufs = tc_map_create(m->arena),
              .views = tc_map_create(m->arena)};
  *out = NULL;
  TC_TRY(tc_lex_expect(lx, "loops"));
  TC_TRY(tc_lex_sigil(lx, '@', &l->name));
  tc_lexer at = *lx;
  TC_TRY(tc_symbols_parse(m, lx));
  tc_graph *signature = NULL;
  if (tc_lex_at(lx, "(")) TC_TRY(tc_signature_parse(m, lx, l->name, &signature));
  TC_TRY(tc_lex_expect(lx, "{"));
  for (int32_t i = 0; i < tc_sym_symbol_count(m->syms); i++) {
    const tc_sym *s = tc_sym_symbol_at(m->syms, i);
    int32_t origin = tc_sym_info_of(m->syms, s)->origin;
    if (origin == TC_SYM_BACKED || origin == TC_SYM_UNBACKED) tc_map_put(r.sizes, s->name, NULL)->value.ptr = (void *)s;
  }
  while (!tc_lex_at(lx, "return")) TC_TRY(input_or_node(&r));
  tc_lex_next(lx);
  if (!tc_lex_at(lx, "}")) {
    do TC_TRY(output(&r));
    while (tc_lex_eat(lx, ","));
  }
  TC_TRY(tc_lex_expect(lx, "}"));
  if (signature) TC_TRY(check_signature(&r, signature, &at));
  else signature = plain_signature(&r);
  add_outputs(l, signature);
  l->graph = signature;
  TC_TRY(tc_loops_verify(l), "in the loops of " TC_SV_FMT ":%d:%d", TC_SV_ARG(lx->name), at.tok.line, at.tok.column);
  *out = l;
  return TC_OK;
}

tc_status tc_loops_parse(tc_module *m, tc_lexer *lx, tc_loops **out) { return tc_loops_parse_with(m, NULL, lx, out); }
