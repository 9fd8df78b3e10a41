// Reads the text form of plans.
//
//   program := { kernel } plan { kernel }
//   plan    := 'plan' @name [ symbols ] [ signature ] 'arena' expr '{' { buffer } { launch | call | control }
//              'return' [ output { ',' output } ] '}'
//   buffer  := %name ':' shape '=' place ';'
//   place   := 'input' INT | ( 'output' | 'frozen' | 'arena' expr | 'within' %name expr | 'over' %name ) 'size' expr
//   launch  := 'launch' @name [ 'once' ] of work [ 'tune' '(' exprs ')' ] sites
//              { 'when' expr of ':' '(' args ')' sites }
//   of      := [ 'kernel' INT ] 'blocks' expr 'grain' expr
//   sites   := { 'site' STRING [ '@' STRING ] }
//   call    := 'call' @name [ 'by' STRING STRING [ 'way' INT ] ] work [ graph ]
//   control := ( 'if' | 'while' | 'scan' ) @name [ 'when' expr ] [ 'turns' expr [ 'reversed' ] ] ':' '(' args ')'
//              [ 'carry' INT ] [ 'over' INT ] [ 'spare' '(' %name { ',' %name } ')' ] [ 'in' %name ]
//              'bytes' expr 'flops' expr [ '@' STRING ] { word plan }      words: then, else; test, do; do
//   work    := ':' '(' [ arg { ',' arg } ] ')' 'bytes' expr 'flops' expr [ '@' STRING ]
//   arg     := [ 'out' ] %name [ 'as' shape ] | expr ':' dtype
//   output  := kind [ STRING ] ( %name 'as' shape [ 'conj' ] | number | 'none' )
//   shape   := dtype '[' exprs ']' '{' exprs '}' [ '+' '(' expr ')' ]
//
// Symbols must be declared. A launch takes the kernel of its number, counted from 0 in the order of the text, else the
// first one of its name. A call stands with its op as a graph of one node (core/ir/parse.c reads it).
#include "core/kernel/kernel.h"
#include "core/plan/plan_internal.h"

// A launch that waits for its kernel, which may stand behind the plan.
typedef struct wanted {
  tc_lexer at;
  tc_sv name;
  int64_t number; // -1: by name
  tc_emitted *emitted;
} wanted;

// A buffer that lies in an output.
typedef struct guest {
  int32_t buf;
  tc_sv host;
  tc_lexer at;
} guest;

typedef struct reader {
  tc_module *m;
  tc_lexer *lx;
  tc_plan *p;
  tc_map *bufs; // name → number + 1
  TC_VEC(tc_kernel *) kernels;
  TC_VEC(wanted) wanted;
  TC_VEC(guest) guests; // of the plan that is being read, before its outputs are known
  int32_t depth;        // of regions
  int32_t n_code;
  const tc_plan_code *code;
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
// 'arena' expr, 'over' %name, or 'within' %name expr, where the name may be that of a later buffer.
static tc_status arena_place(reader *r, tc_plan_buf *b) {
  if (tc_lex_eat(r->lx, "over")) {
    int32_t under;
    tc_lexer at = *r->lx;
    TC_TRY(find_buf(r, &under));
    if (under == b->id || r->p->bufs.data[under].kind != TC_PLAN_ARENA)
      return tc_lex_error(&at, "%%" TC_SV_FMT " has no place in the arena to lie over", TC_SV_ARG(b->name));
    b->over = under + 1;
    return TC_OK;
  }
  if (!tc_lex_eat(r->lx, "within")) return word(r, "arena", &b->place);
  guest g = {.buf = b->id, .at = *r->lx};
  TC_TRY(tc_lex_sigil(r->lx, '%', &g.host));
  tc_vec_push(r->p->arena, &r->guests, g);
  return expr(r, &b->place);
}

static tc_status find_hosts(reader *r) {
  for (int32_t i = 0; i < r->guests.count; i++) {
    const guest *g = &r->guests.data[i];
    const tc_map_entry *e = tc_map_find(r->bufs, g->host);
    if (!e || r->p->bufs.data[e->value.num - 1].kind != TC_PLAN_OUTPUT)
      return tc_lex_error(&g->at, "there is no output %%" TC_SV_FMT, TC_SV_ARG(g->host));
    r->p->bufs.data[g->buf].host = (int32_t)e->value.num;
  }
  r->guests.count = 0;
  plan_take_places(r->p);
  return TC_OK;
}

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
    if (input < 0 || input > INT16_MAX) return tc_lex_error(lx, "input %lld is no input", (long long)input);
    b.kind = TC_PLAN_INPUT, b.input = (int32_t)input;
  } else {
    b.kind = tc_lex_at(lx, "output") ? TC_PLAN_OUTPUT : tc_lex_at(lx, "frozen") ? TC_PLAN_FROZEN : TC_PLAN_ARENA;
    if (b.kind != TC_PLAN_ARENA) tc_lex_next(lx);
    else TC_TRY(arena_place(r, &b));
    TC_TRY(word(r, "size", &b.bytes));
  }
  tc_vec_push(r->p->arena, &r->p->bufs, b);
  return tc_lex_expect(lx, ";"); // without it the next %name would be a remainder
}

// ---- ops ----
// `view`: how a library sees the buffer.
static tc_status argument(reader *r, bool call, tc_plan_arg *a, tc_tensor_type *view) {
  *a = (tc_plan_arg){.buf = -1};
  a->writes = tc_lex_eat(r->lx, "out");
  if (a->writes || r->lx->tok.kind == TC_TOK_SIGIL) {
    TC_TRY(find_buf(r, &a->buf));
    tc_plan_buf *b = &r->p->bufs.data[a->buf];
    if (r->p->ops.count < b->first) b->first = r->p->ops.count;
    b->last = r->p->ops.count;
    *view = (tc_tensor_type){
        .dtype = b->dtype, .rank = b->rank, .sizes = b->sizes, .strides = b->strides, .offset = b->offset};
    return call && tc_lex_eat(r->lx, "as") ? shape(r, view) : TC_OK;
  }
  TC_TRY(expr(r, &a->scalar));
  TC_TRY(tc_lex_expect(r->lx, ":"));
  return dtype(r, &a->dtype);
}

static tc_status quoted(reader *r, tc_sv *out) {
  TC_TRY(tc_lex_string(r->lx, out));
  *out = tc_sv_copy(r->p->arena, *out);
  return TC_OK;
}

static tc_status launched(reader *r, tc_plan_op *o, tc_emitted **out) {
  wanted w = {.at = *r->lx, .name = o->name, .number = -1, .emitted = TC_NEW(r->p->arena, tc_emitted)};
  if (tc_lex_eat(r->lx, "kernel")) {
    w.at = *r->lx;
    TC_TRY(tc_lex_int(r->lx, &w.number));
    if (w.number < 0) return tc_lex_error(&w.at, "kernels are numbered from 0");
  }
  TC_TRY(word(r, "blocks", &o->blocks));
  TC_TRY(word(r, "grain", &o->grain));
  *out = w.emitted;
  o->kernel = r->p->kernels.count;
  tc_vec_push(r->p->arena, &r->p->kernels, w.emitted);
  tc_vec_push(r->p->arena, &r->p->kernel_names, o->name);
  tc_vec_push(r->m->arena, &r->wanted, w);
  return TC_OK;
}

static tc_status sites(reader *r, tc_emitted *k) {
  while (tc_lex_eat(r->lx, "site")) {
    tc_emit_site s = {0};
    TC_TRY(quoted(r, &s.text));
    if (tc_lex_eat(r->lx, "@")) TC_TRY(quoted(r, &s.source));
    tc_vec_push(r->p->arena, &k->sites, s);
  }
  return TC_OK;
}

static tc_status variants(reader *r, tc_plan_op *o) {
  tc_lexer *lx = r->lx;
  TC_VEC(tc_plan_variant) all = {0};
  while (tc_lex_at(lx, "when")) {
    if (o->n_variants == TC_PLAN_CANDIDATES)
      return tc_lex_error(lx, "a launch has at most %d variants", TC_PLAN_CANDIDATES);
    tc_plan_op as = {.name = o->name};
    tc_plan_variant v = {0};
    tc_emitted *emitted;
    TC_VEC(tc_plan_arg) args = {0};
    TC_TRY(word(r, "when", &v.when));
    TC_TRY(launched(r, &as, &emitted));
    TC_TRY(tc_lex_expect(lx, ":"));
    TC_TRY(tc_lex_expect(lx, "("));
    while (!tc_lex_at(lx, ")")) {
      tc_plan_arg a;
      tc_tensor_type view;
      TC_TRY(argument(r, false, &a, &view));
      tc_vec_push(r->p->arena, &args, a);
      if (!tc_lex_eat(lx, ",")) break;
    }
    TC_TRY(tc_lex_expect(lx, ")"));
    TC_TRY(sites(r, emitted));
    v.kernel = as.kernel, v.blocks = as.blocks, v.grain = as.grain, v.args = args.data, v.n_args = args.count;
    emitted->blocks = v.blocks, emitted->grain = v.grain;
    tc_vec_push(r->p->arena, &all, v);
    o->variants = all.data, o->n_variants = all.count;
  }
  return TC_OK;
}

static tc_status library(reader *r, tc_plan_op *o) {
  int64_t way;
  TC_TRY(quoted(r, &o->by));
  TC_TRY(quoted(r, &o->by_version));
  if (o->by.size == 0) return tc_lex_error(r->lx, "a library has a name");
  if (!tc_lex_eat(r->lx, "way")) return TC_OK;
  TC_TRY(tc_lex_int(r->lx, &way));
  if (way < 1 || way > INT32_MAX) return tc_lex_error(r->lx, "way %lld is none of a library's", (long long)way);
  o->way = (int32_t)way;
  return TC_OK;
}

static tc_status constants(reader *r, tc_plan_op *o) {
  tc_lexer at = *r->lx;
  int64_t bits;
  TC_TRY(tc_lex_int(r->lx, &bits));
  if (bits < 1) return tc_lex_error(&at, "constant operands are bits of a number");
  o->constant = (uint64_t)bits;
  return TC_OK;
}

static tc_status called(reader *r, tc_plan_op *o) {
  if (!tc_lex_at(r->lx, "graph")) return TC_OK;
  tc_lnode *n = TC_NEW(r->p->arena, tc_lnode);
  *n = (tc_lnode){.kind = TC_LN_CALL, .name = o->name, .source = o->source, .n_operands = o->n_operands};
  TC_TRY(tc_call_parse(r->m, r->lx, o->n_args - o->n_operands, &n->node));
  o->call = n;
  return TC_OK;
}

static tc_status plan(reader *r, tc_plan **out);

static tc_status count(reader *r, const char *w, int32_t most, int32_t *out) {
  int64_t n;
  tc_lexer at = *r->lx;
  *out = 0;
  if (!tc_lex_eat(r->lx, w)) return TC_OK;
  TC_TRY(tc_lex_int(r->lx, &n));
  if (n < 0 || n > most) return tc_lex_error(&at, "%lld of %d operands", (long long)n, most);
  *out = (int32_t)n;
  return TC_OK;
}

// A buffer that only this op uses.
static tc_status own_buf(reader *r, int32_t *out) {
  TC_TRY(find_buf(r, out));
  tc_plan_buf *b = &r->p->bufs.data[*out];
  if (r->p->ops.count < b->first) b->first = r->p->ops.count;
  b->last = r->p->ops.count;
  return TC_OK;
}

static tc_status control(reader *r, tc_plan_op *o) {
  tc_lexer *lx = r->lx;
  TC_TRY(count(r, "carry", o->n_operands, &o->n_carry));
  TC_TRY(count(r, "over", o->n_operands - o->n_carry, &o->n_xs));
  int32_t *spares = TC_NEW_ARRAY(r->p->arena, int32_t, o->n_carry);
  o->spares = spares, o->scratch = -1;
  if (o->n_carry) {
    TC_TRY(tc_lex_expect(lx, "spare"));
    TC_TRY(tc_lex_expect(lx, "("));
    for (int32_t i = 0; i < o->n_carry; i++) {
      if (i) TC_TRY(tc_lex_expect(lx, ","));
      TC_TRY(own_buf(r, &spares[i]));
    }
    TC_TRY(tc_lex_expect(lx, ")"));
  }
  return tc_lex_eat(lx, "in") ? own_buf(r, &o->scratch) : TC_OK;
}

static tc_status regions(reader *r, tc_plan_op *o) {
  enum { MOST = 32 };
  if (++r->depth > MOST) return tc_lex_error(r->lx, "regions are nested deeper than %d", MOST);
  for (int32_t i = 0; i < tc_plan_region_count(o->kind); i++) {
    tc_plan *outer = r->p;
    tc_map *bufs = r->bufs;
    TC_TRY(tc_lex_expect(r->lx, tc_plan_region_word(o->kind, i)));
    TC_TRY(plan(r, &o->regions[i]));
    r->p = outer, r->bufs = bufs;
    o->regions[i]->fixed_from = plan_fixed_from(o, i);
    if (o->regions[i]->fixed_from) plan_keep_once(o->regions[i]);
  }
  r->depth--;
  return TC_OK;
}

static tc_status op(reader *r, int32_t kind) {
  tc_lexer *lx = r->lx;
  bool views_given = kind != TC_PLAN_LAUNCH, has_regions = tc_plan_region_count(kind) > 0;
  tc_plan_op o = {.kind = kind, .blocks = tc_sym_int(r->m->syms, 1), .grain = tc_sym_int(r->m->syms, 1)};
  TC_VEC(tc_plan_arg) args = {0};
  TC_VEC(tc_tensor_type) views = {0};
  tc_emitted *emitted = NULL;
  TC_TRY(tc_lex_sigil(lx, '@', &o.name));
  o.name = tc_sv_copy(r->p->arena, o.name);
  o.once = kind == TC_PLAN_LAUNCH && tc_lex_eat(lx, "once");
  if (kind == TC_PLAN_CALL && tc_lex_eat(lx, "by")) TC_TRY(library(r, &o));
  if (kind == TC_PLAN_CALL && tc_lex_eat(lx, "constant")) TC_TRY(constants(r, &o));
  if (kind == TC_PLAN_LAUNCH) TC_TRY(launched(r, &o, &emitted));
  if (kind == TC_PLAN_IF && tc_lex_at(lx, "when")) TC_TRY(word(r, "when", &o.predicate));
  if (kind == TC_PLAN_SCAN) TC_TRY(word(r, "turns", &o.turns));
  o.reverse = kind == TC_PLAN_SCAN && tc_lex_eat(lx, "reversed");
  TC_TRY(tc_lex_expect(lx, ":")); // an expression before "(" would be a callee
  TC_TRY(tc_lex_expect(lx, "("));
  while (!tc_lex_at(lx, ")")) {
    tc_plan_arg a;
    tc_tensor_type view = {0};
    TC_TRY(argument(r, views_given, &a, &view));
    if (views_given && a.buf < 0) return tc_lex_error(lx, "a call takes buffers only");
    if (views_given && !a.writes && o.n_operands++ != args.count)
      return tc_lex_error(lx, "a call's operands come before its results");
    tc_vec_push(r->p->arena, &args, a);
    tc_vec_push(r->p->arena, &views, view);
    if (!tc_lex_eat(lx, ",")) break;
  }
  TC_TRY(tc_lex_expect(lx, ")"));
  if (has_regions) TC_TRY(control(r, &o));
  TC_TRY(word(r, "bytes", &o.bytes));
  TC_TRY(word(r, "flops", &o.flops));
  if (tc_lex_eat(lx, "@")) TC_TRY(quoted(r, &o.source));
  o.tuned = kind == TC_PLAN_LAUNCH && tc_lex_eat(lx, "tune");
  if (o.tuned) TC_TRY(exprs(r, "(", ")", -1, &o.n_key, &o.key));
  o.args = args.data, o.n_args = args.count;
  if (views_given) o.views = views.data;
  if (has_regions) {
    TC_TRY(regions(r, &o));
  } else if (kind == TC_PLAN_CALL) {
    TC_TRY(called(r, &o));
  } else {
    TC_TRY(sites(r, emitted));
    emitted->blocks = o.blocks, emitted->grain = o.grain;
    TC_TRY(variants(r, &o));
  }
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
  if (lx->tok.kind == TC_TOK_STRING) TC_TRY(quoted(r, &o.target));
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

// ---- kernels ----
static tc_status kernels(reader *r) {
  while (tc_lex_at(r->lx, "kernel")) {
    tc_kernel *k;
    tc_lexer at = *r->lx;
    TC_TRY(tc_kernel_parse(r->m->arena, r->lx, &k));
    TC_TRY(tc_kernel_verify(k), "in the kernel at " TC_SV_FMT ":%d:%d", TC_SV_ARG(at.name), at.tok.line, at.tok.column);
    tc_vec_push(r->m->arena, &r->kernels, k);
  }
  return TC_OK;
}

static tc_status give_kernels(reader *r) {
  for (int32_t i = 0; i < r->wanted.count; i++) {
    wanted *w = &r->wanted.data[i];
    for (int32_t k = 0; k < r->kernels.count && w->number < 0; k++) {
      if (tc_sv_eq(tc_k_name(r->kernels.data[k]), w->name)) w->number = k;
    }
    if (w->number >= r->kernels.count && r->kernels.count)
      return tc_lex_error(&w->at, "there is no kernel %lld", (long long)w->number);
    if (w->number >= 0 && r->kernels.count) w->emitted->kernel = r->kernels.data[w->number];
  }
  return TC_OK;
}

// ---- signatures ----
// Without a signature in the text the inputs are the user's, under their buffers' names.
static tc_graph *plain_signature(reader *r) {
  tc_plan *p = r->p;
  int32_t n = 0;
  for (int32_t i = 0; i < p->bufs.count; i++) {
    if (p->bufs.data[i].kind == TC_PLAN_INPUT && p->bufs.data[i].input >= n) n = p->bufs.data[i].input + 1;
  }
  tc_sv *names = TC_NEW_ARRAY(p->arena, tc_sv, n);
  tc_tensor_type *types = TC_NEW_ARRAY(p->arena, tc_tensor_type, n);
  for (int32_t i = p->bufs.count - 1; i >= 0; i--) { // the first of several tells; the others are held to it
    const tc_plan_buf *b = &p->bufs.data[i];
    if (b->kind != TC_PLAN_INPUT) continue;
    names[b->input] = b->name;
    types[b->input] = (tc_tensor_type){
        .dtype = b->dtype, .rank = b->rank, .sizes = b->sizes, .strides = b->strides, .offset = b->offset};
  }
  return tc_signature_plain(r->m, p->name, n, names, types);
}

static tc_status check_signature(reader *r, const tc_graph *g, const tc_lexer *at) {
  for (int32_t i = 0; i < r->p->bufs.count; i++) {
    const tc_plan_buf *b = &r->p->bufs.data[i];
    if (b->kind == TC_PLAN_INPUT && !tc_signature_has(g, b->input, b->dtype))
      return tc_lex_error(at, "%%" TC_SV_FMT " is not what the signature says of input %d", TC_SV_ARG(b->name),
                          b->input);
  }
  return TC_OK;
}

static void add_outputs(tc_plan *p, tc_graph *g) {
  for (int32_t i = 0; i < p->outputs.count; i++) {
    const tc_plan_output *o = &p->outputs.data[i];
    bool tensor = o->buf >= 0;
    tc_signature_add_output(g, o->kind, o->target, tensor ? p->bufs.data[o->buf].name : (tc_sv){0},
                            tensor ? &o->type : NULL, o->number);
  }
}

// At "plan". A region has the symbols of the plan around it.
static tc_status plan(reader *r, tc_plan **out) {
  tc_module *m = r->m;
  tc_lexer *lx = r->lx;
  tc_plan *p = TC_NEW(m->arena, tc_plan);
  *p = (tc_plan){.module = m, .syms = m->syms, .arena = m->arena, .n_code = r->n_code, .code = r->code};
  r->p = p, r->bufs = tc_map_create(m->arena);
  tc_graph *signature = NULL;
  TC_TRY(tc_lex_expect(lx, "plan"));
  TC_TRY(tc_lex_sigil(lx, '@', &p->name));
  p->name = tc_sv_copy(m->arena, p->name);
  tc_lexer at = *lx;
  if (r->depth == 0) TC_TRY(tc_symbols_parse(m, lx));
  if (tc_lex_at(lx, "(")) TC_TRY(tc_signature_parse(m, lx, p->name, &signature));
  TC_TRY(word(r, "arena", &p->arena_bytes));
  TC_TRY(tc_lex_expect(lx, "{"));
  while (lx->tok.kind == TC_TOK_SIGIL) TC_TRY(buffer(r));
  TC_TRY(find_hosts(r));
  for (int32_t kind = 0; tc_plan_op_word(kind); kind++) {
    if (!tc_lex_eat(lx, tc_plan_op_word(kind))) continue;
    TC_TRY(op(r, kind));
    kind = -1;
  }
  TC_TRY(tc_lex_expect(lx, "return"));
  while (!tc_lex_at(lx, "}")) {
    TC_TRY(output(r));
    if (!tc_lex_eat(lx, ",")) break;
  }
  TC_TRY(tc_lex_expect(lx, "}"));
  if (!signature) signature = plain_signature(r);
  TC_TRY(check_signature(r, signature, &at));
  add_outputs(p, signature);
  p->graph = signature;
  p->largest_bytes = tc_sym_int(m->syms, 0);
  for (int32_t i = 0; i < p->bufs.count; i++) {
    const tc_plan_buf *b = &p->bufs.data[i];
    if (b->kind == TC_PLAN_ARENA) p->largest_bytes = tc_sym_max(m->syms, p->largest_bytes, b->bytes);
  }
  *out = p;
  return TC_OK;
}

tc_status tc_plan_parse(tc_module *m, tc_lexer *lx, tc_plan **out) {
  tc_plan *p;
  reader r = {.m = m, .lx = lx};
  TC_TRY(kernels(&r));
  TC_TRY(plan(&r, &p));
  TC_TRY(kernels(&r));
  TC_TRY(give_kernels(&r));
  *out = p;
  return TC_OK;
}

tc_status tc_plan_parse_coded(tc_module *m, tc_lexer *lx, int32_t n_code, const tc_plan_code *code, tc_plan **out) {
  tc_plan *p;
  reader r = {.m = m, .lx = lx, .n_code = n_code, .code = code};
  TC_TRY(plan(&r, &p));
  for (int32_t i = 0; i < r.wanted.count; i++) {
    const wanted *w = &r.wanted.data[i];
    if (w->number < 0 || w->number >= n_code)
      return tc_lex_error(&w->at, "there is no code for @" TC_SV_FMT, TC_SV_ARG(w->name));
    w->emitted->code = (int32_t)w->number;
  }
  *out = p;
  return TC_OK;
}
