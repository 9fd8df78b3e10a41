// Reads the text form of plans.
//
//   plan    := 'plan' @name [ symbols ] 'arena' expr '{' { buffer } { op } 'return' [ output { ',' output } ] '}' {
//   kernel } buffer  := %name ':' dtype '[' exprs ']' '{' exprs '}' [ offset ] '=' place place   := 'input' INT |
//   'output' 'size' expr | 'arena' expr 'size' expr op      := ( 'launch' @name 'blocks' expr 'grain' expr | 'call'
//   @name ) '(' [ arg { ',' arg } ] ')'
//              'bytes' expr 'flops' expr [ '@' STRING ]
//   arg     := [ 'out' ] %name | expr ':' dtype
//   output  := kind [ STRING ] ( %name 'as' dtype '[' exprs ']' '{' exprs '}' [ offset ] [ 'conj' ] | number | 'none' )
//   offset  := '+' '(' expr ')'
//
// Symbols must be declared. A launch takes the kernel of its name; kernels may follow the plan, and without them it can
// be looked at but not run. A call is read without its op and cannot be run either.
#include "core/kernel/kernel.h"
#include "core/plan/plan_internal.h"

typedef struct reader {
  tc_module *m;
  tc_lexer *lx;
  tc_plan *p;
  tc_map *bufs;    // name → number + 1
  tc_map *kernels; // name → number + 1
} reader;

// ---- pieces ----
static tc_status expr(reader *r, const tc_sym **out) {
  const tc_ex *ex;
  tc_lexer at = *r->lx;
  int32_t before = tc_sym_symbol_count(r->m->syms);
  TC_TRY(tc_ex_parse(r->lx, &ex));
  TC_TRY(tc_sym_from_ex(r->m->syms, r->lx, ex, true, out));
  if (tc_sym_symbol_count(r->m->syms) == before) return TC_OK;
  tc_sv name = tc_sym_symbol_at(r->m->syms, before)->name;
  return tc_lex_error(&at, "'" TC_SV_FMT "' is not among the plan's symbols", TC_SV_ARG(name));
}

static tc_status word(reader *r, const char *w, const tc_sym **out) {
  TC_TRY(tc_lex_expect(r->lx, w));
  return expr(r, out);
}

static tc_status exprs(reader *r, const char *open, const char *close, int32_t want, int32_t *out_n,
                       const tc_sym *const **out) {
  const tc_sym *v[TC_MAX_RANK];
  int32_t n = 0;
  tc_lexer at = *r->lx;
  TC_TRY(tc_lex_expect(r->lx, open));
  while (!tc_lex_at(r->lx, close)) {
    if (n == TC_MAX_RANK) return tc_lex_error(r->lx, "more than %d dimensions", TC_MAX_RANK);
    TC_TRY(expr(r, &v[n++]));
    if (!tc_lex_eat(r->lx, ",")) break;
  }
  TC_TRY(tc_lex_expect(r->lx, close));
  if (want >= 0 && n != want) return tc_lex_error(&at, "expected %d expressions, found %d", want, n);
  *out_n = n;
  *out = tc_arena_copy(r->p->arena, v, (size_t)n * sizeof *v);
  return TC_OK;
}

static tc_status dtype(reader *r, tc_dtype *out) {
  *out = r->lx->tok.kind == TC_TOK_IDENT ? tc_dtype_parse(r->lx->tok.text) : TC_DTYPE_NONE;
  if (*out == TC_DTYPE_NONE) return tc_lex_error(r->lx, "expected a dtype such as f32");
  tc_lex_next(r->lx);
  return TC_OK;
}

static tc_status shape(reader *r, tc_tensor_type *out) {
  int32_t n;
  TC_TRY(dtype(r, &out->dtype));
  TC_TRY(exprs(r, "[", "]", -1, &out->rank, &out->sizes));
  TC_TRY(exprs(r, "{", "}", out->rank, &n, &out->strides));
  out->offset = tc_sym_int(r->m->syms, 0);
  if (!tc_lex_eat(r->lx, "+")) return TC_OK;
  TC_TRY(word(r, "(", &out->offset));
  return tc_lex_expect(r->lx, ")");
}

static tc_status find_buf(reader *r, int32_t *out) {
  tc_sv name;
  tc_lexer at = *r->lx;
  TC_TRY(tc_lex_sigil(r->lx, '%', &name));
  tc_map_entry *e = tc_map_find(r->bufs, name);
  if (!e) return tc_lex_error(&at, "there is no buffer %%" TC_SV_FMT, TC_SV_ARG(name));
  *out = (int32_t)e->value.num - 1;
  return TC_OK;
}

// ---- buffers ----
static tc_status buffer(reader *r) {
  tc_lexer *lx = r->lx, at = *lx;
  tc_plan_buf b = {.id = r->p->bufs.count, .input = -1, .first = INT32_MAX, .last = -1};
  tc_tensor_type t = {0};
  bool fresh;
  TC_TRY(tc_lex_sigil(lx, '%', &b.name));
  tc_map_entry *e = tc_map_put(r->bufs, b.name, &fresh);
  if (!fresh) return tc_lex_error(&at, "the buffer %%" TC_SV_FMT " is there twice", TC_SV_ARG(b.name));
  e->value.num = b.id + 1;
  b.name = tc_sv_copy(r->p->arena, b.name);
  TC_TRY(tc_lex_expect(lx, ":"));
  TC_TRY(shape(r, &t));
  b.dtype = t.dtype, b.rank = t.rank, b.sizes = t.sizes, b.strides = t.strides, b.offset = t.offset;
  b.place = b.bytes = tc_sym_int(r->m->syms, 0);
  TC_TRY(tc_lex_expect(lx, "="));
  if (tc_lex_eat(lx, "input")) {
    int64_t input;
    TC_TRY(tc_lex_int(lx, &input));
    if (input < 0 || input > 1 << 24) return tc_lex_error(lx, "input %lld is no input", (long long)input);
    b.kind = TC_PLAN_INPUT, b.input = (int32_t)input;
  } else {
    b.kind = tc_lex_at(lx, "output") ? TC_PLAN_OUTPUT : TC_PLAN_ARENA;
    if (b.kind == TC_PLAN_OUTPUT) tc_lex_next(lx);
    else TC_TRY(word(r, "arena", &b.place));
    TC_TRY(word(r, "size", &b.bytes));
  }
  tc_vec_push(r->p->arena, &r->p->bufs, b);
  return tc_lex_expect(lx, ";"); // without it the next %name would be a remainder
}

// ---- ops ----
static tc_status argument(reader *r, tc_plan_arg *a) {
  *a = (tc_plan_arg){.buf = -1};
  a->writes = tc_lex_eat(r->lx, "out");
  if (a->writes || r->lx->tok.kind == TC_TOK_SIGIL) {
    TC_TRY(find_buf(r, &a->buf));
    tc_plan_buf *b = &r->p->bufs.data[a->buf];
    if (r->p->ops.count < b->first) b->first = r->p->ops.count;
    b->last = r->p->ops.count;
    return TC_OK;
  }
  TC_TRY(expr(r, &a->scalar));
  TC_TRY(tc_lex_expect(r->lx, ":"));
  return dtype(r, &a->dtype);
}

static int32_t kernel_number(reader *r, tc_sv name) {
  tc_map_entry *e = tc_map_put(r->kernels, name, NULL);
  if (e->value.num) return (int32_t)e->value.num - 1;
  tc_emitted *k = TC_NEW(r->p->arena, tc_emitted);
  tc_vec_push(r->p->arena, &r->p->kernels, k);
  tc_vec_push(r->p->arena, &r->p->kernel_names, tc_sv_copy(r->p->arena, name));
  e->value.num = r->p->kernels.count;
  return r->p->kernels.count - 1;
}

static tc_status op(reader *r, int32_t kind) {
  tc_lexer *lx = r->lx;
  tc_plan_op o = {.kind = kind, .blocks = tc_sym_int(r->m->syms, 1), .grain = tc_sym_int(r->m->syms, 1)};
  TC_VEC(tc_plan_arg) args = {0};
  TC_TRY(tc_lex_sigil(lx, '@', &o.name));
  o.name = tc_sv_copy(r->p->arena, o.name);
  if (kind == TC_PLAN_LAUNCH) {
    o.kernel = kernel_number(r, o.name);
    TC_TRY(word(r, "blocks", &o.blocks));
    TC_TRY(word(r, "grain", &o.grain));
  }
  TC_TRY(tc_lex_expect(lx, ":")); // an expression before "(" would be a callee
  TC_TRY(tc_lex_expect(lx, "("));
  while (!tc_lex_at(lx, ")")) {
    tc_plan_arg a;
    TC_TRY(argument(r, &a));
    if (kind == TC_PLAN_CALL && a.buf < 0) return tc_lex_error(lx, "a call takes buffers only");
    if (kind == TC_PLAN_CALL && !a.writes && o.n_operands++ != args.count)
      return tc_lex_error(lx, "a call's operands come before its results");
    tc_vec_push(r->p->arena, &args, a);
    if (!tc_lex_eat(lx, ",")) break;
  }
  TC_TRY(tc_lex_expect(lx, ")"));
  TC_TRY(word(r, "bytes", &o.bytes));
  TC_TRY(word(r, "flops", &o.flops));
  if (tc_lex_eat(lx, "@")) {
    TC_TRY(tc_lex_string(lx, &o.source));
    o.source = tc_sv_copy(r->p->arena, o.source);
  }
  o.args = args.data, o.n_args = args.count;
  tc_vec_push(r->p->arena, &r->p->ops, o);
  return TC_OK;
}

// ---- outputs ----
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
  tc_plan_output o = {.buf = -1, .number = tc_arg_none()};
  while (tc_output_kind_text(o.kind) && !tc_lex_at(lx, tc_output_kind_text(o.kind))) o.kind++;
  if (!tc_output_kind_text(o.kind)) return tc_lex_error(lx, "expected the kind of an output: user, buffer, …");
  tc_lex_next(lx);
  if (lx->tok.kind == TC_TOK_STRING) {
    TC_TRY(tc_lex_string(lx, &o.target));
    o.target = tc_sv_copy(r->p->arena, o.target);
  }
  if (lx->tok.kind == TC_TOK_SIGIL) {
    TC_TRY(find_buf(r, &o.buf));
    TC_TRY(tc_lex_expect(lx, "as"));
    TC_TRY(shape(r, &o.type));
    o.type.conj = tc_lex_eat(lx, "conj");
  } else {
    TC_TRY(number(r, &o.number));
  }
  tc_vec_push(r->p->arena, &r->p->outputs, o);
  return TC_OK;
}

static tc_status kernels(reader *r) {
  while (tc_lex_at(r->lx, "kernel")) {
    tc_kernel *k;
    tc_lexer at = *r->lx;
    TC_TRY(tc_kernel_parse(r->p->arena, r->lx, &k));
    tc_map_entry *e = tc_map_find(r->kernels, tc_k_name(k));
    if (!e) return tc_lex_error(&at, "nothing launches the kernel @" TC_SV_FMT, TC_SV_ARG(tc_k_name(k)));
    ((tc_emitted *)(uintptr_t)r->p->kernels.data[e->value.num - 1])->kernel = k;
  }
  return TC_OK;
}

tc_status tc_plan_parse(tc_module *m, tc_lexer *lx, tc_plan **out) {
  tc_plan *p = TC_NEW(m->arena, tc_plan);
  *p = (tc_plan){.module = m, .syms = m->syms, .arena = m->arena};
  reader r = {.m = m, .lx = lx, .p = p, .bufs = tc_map_create(m->arena), .kernels = tc_map_create(m->arena)};
  TC_TRY(tc_lex_expect(lx, "plan"));
  TC_TRY(tc_lex_sigil(lx, '@', &p->name));
  p->name = tc_sv_copy(m->arena, p->name);
  TC_TRY(tc_symbols_parse(m, lx));
  TC_TRY(word(&r, "arena", &p->arena_bytes));
  TC_TRY(tc_lex_expect(lx, "{"));
  while (lx->tok.kind == TC_TOK_SIGIL) TC_TRY(buffer(&r));
  for (;;) {
    if (tc_lex_eat(lx, "launch")) TC_TRY(op(&r, TC_PLAN_LAUNCH));
    else if (tc_lex_eat(lx, "call")) TC_TRY(op(&r, TC_PLAN_CALL));
    else break;
  }
  TC_TRY(tc_lex_expect(lx, "return"));
  while (!tc_lex_at(lx, "}")) {
    TC_TRY(output(&r));
    if (!tc_lex_eat(lx, ",")) break;
  }
  TC_TRY(tc_lex_expect(lx, "}"));
  TC_TRY(kernels(&r));
  p->largest_bytes = tc_sym_int(m->syms, 0);
  for (int32_t i = 0; i < p->bufs.count; i++) {
    const tc_plan_buf *b = &p->bufs.data[i];
    if (b->kind == TC_PLAN_ARENA) p->largest_bytes = tc_sym_max(m->syms, p->largest_bytes, b->bytes);
  }
  *out = p;
  return TC_OK;
}
