// Reads the text form of schedules, which stands behind the loops it is of.
//
//   schedule := 'schedule' 'candidates' INT 'merges' INT '{' { group } { refusal } '}'
//   group    := 'group' @name 'kernel' @name [ 'once' ] '[' vars ']' [ 'by' INT ] [ 'over' '[' vars ']' ] '{'
//               { step } 'reads' { %name } 'writes' { %name } '}'
//   vars     := [ NAME ':' expr { ',' NAME ':' expr } ]
//   step     := 'phase' INT ':' %name '[' [ expr { ',' expr } ] ']' ( 'memory' | 'inline' | 'row' | 'tile' |
//               'column' ) [ ',' 'dear' ] [ ',' 'stored' ]
//   refusal  := 'refused' %name 'with' %name ':' STRING
//
// A step is named after the first result of its node; in brackets stand the node's variables as expressions over the
// group's. A group variable whose name a node of the loops has too is the same symbol.
#include "core/loop/lo.h"
#include "core/schedule/internal.h"

typedef struct reader {
  tc_loops *l;
  tc_lexer *lx;
  tc_schedule *s;
  tc_map *sizes; // name → size symbol
  tc_map *bufs;  // name → tc_buf *
  tc_group *g;   // being read: its variables are known
} reader;

// ---- expressions ----
static tc_status resolve(void *self, tc_sym_ctx *c, const tc_ex *ex, const tc_sym **out) {
  reader *r = self;
  (void)c;
  if (ex->kind != TC_EX_NAME) return TC_OK;
  for (int32_t i = 0; i < r->g->n_par + r->g->n_red; i++) {
    if (!tc_sv_eq(r->g->vars[i]->name, ex->text)) continue;
    *out = r->g->vars[i];
    return TC_OK;
  }
  tc_map_entry *size = tc_map_find(r->sizes, ex->text);
  if (size) {
    *out = size->value.ptr;
    return TC_OK;
  }
  tc_lexer at = *r->lx;
  at.tok = (tc_token){.kind = TC_TOK_PUNCT, .line = ex->line, .column = ex->column};
  return tc_lex_error(&at, "'" TC_SV_FMT "' is neither a variable of this group nor a size symbol",
                      TC_SV_ARG(ex->text));
}

static tc_status expr(reader *r, const tc_sym **out) {
  const tc_ex *ex;
  TC_TRY(tc_ex_parse(r->lx, &ex));
  return tc_sym_from_ex_with(r->l->syms, r->lx, ex, false, resolve, r, out);
}

// ---- variables ----
static tc_status variable(reader *r, const tc_sym **out_var, const tc_sym **out_extent) {
  tc_lexer at = *r->lx;
  tc_sv name;
  tc_sym_ctx *c = r->l->syms;
  TC_TRY(tc_lex_ident(r->lx, &name));
  for (int32_t i = 0; i < r->g->n_par + r->g->n_red; i++) {
    if (tc_sv_eq(r->g->vars[i]->name, name))
      return tc_lex_error(&at, "'" TC_SV_FMT "' is a variable already", TC_SV_ARG(name));
  }
  if (tc_map_find(r->sizes, name)) return tc_lex_error(&at, "'" TC_SV_FMT "' is a size symbol", TC_SV_ARG(name));
  TC_TRY(tc_lex_expect(r->lx, ":"));
  TC_TRY(expr(r, out_extent));
  *out_var = tc_sym_symbol(c, name);
  tc_sym_info_of(c, *out_var)->origin = TC_SYM_LOOP;
  tc_loop_var_range(r->l, *out_var, *out_extent);
  return TC_OK;
}

static tc_status variables(reader *r, int32_t *n) {
  enum { MOST = 2 * TC_MAX_RANK };
  tc_group *g = r->g;
  const tc_sym **vars = (const tc_sym **)(uintptr_t)g->vars, **extents = (const tc_sym **)(uintptr_t)g->extents;
  TC_TRY(tc_lex_expect(r->lx, "["));
  while (!tc_lex_at(r->lx, "]")) {
    int32_t at = g->n_par + g->n_red;
    if (at == MOST) return tc_lex_error(r->lx, "more than %d variables", MOST);
    TC_TRY(variable(r, &vars[at], &extents[at]));
    ++*n;
    if (!tc_lex_eat(r->lx, ",")) break;
  }
  return tc_lex_expect(r->lx, "]");
}

// ---- groups ----
static tc_status find_buf(reader *r, const tc_buf **out) {
  tc_lexer at = *r->lx;
  tc_sv name;
  TC_TRY(tc_lex_sigil(r->lx, '%', &name));
  tc_map_entry *e = tc_map_find(r->bufs, name);
  if (!e) return tc_lex_error(&at, "there is no buffer %%" TC_SV_FMT " in the loops", TC_SV_ARG(name));
  *out = e->value.ptr;
  return TC_OK;
}

static tc_status find_node(reader *r, tc_lnode **out) {
  tc_lexer at = *r->lx;
  const tc_buf *b;
  TC_TRY(find_buf(r, &b));
  if (!b->def || b->def_result != 0)
    return tc_lex_error(&at, "%%" TC_SV_FMT " is not the first result of a node", TC_SV_ARG(b->name));
  *out = b->def;
  return TC_OK;
}

static tc_status number(reader *r, const char *word, int32_t *out) {
  int64_t v;
  TC_TRY(tc_lex_expect(r->lx, word));
  tc_lexer at = *r->lx;
  TC_TRY(tc_lex_int(r->lx, &v));
  if (v < 0 || v > INT32_MAX / 2) return tc_lex_error(&at, "%lld is too many", (long long)v);
  *out = (int32_t)v;
  return TC_OK;
}

static tc_status step(reader *r) {
  tc_lexer *lx = r->lx;
  tc_step s = {0};
  TC_TRY(number(r, "phase", &s.phase));
  TC_TRY(tc_lex_expect(lx, ":"));
  TC_TRY(find_node(r, &s.node));
  int32_t n = s.node->n_par + s.node->n_red, k = 0;
  const tc_sym **at = TC_NEW_ARRAY(r->l->arena, const tc_sym *, n);
  tc_lexer list = *lx;
  TC_TRY(tc_lex_expect(lx, "["));
  while (k < n && !tc_lex_at(lx, "]")) {
    TC_TRY(expr(r, &at[k++]));
    if (!tc_lex_eat(lx, ",")) break;
  }
  if (k != n || !tc_lex_at(lx, "]"))
    return tc_lex_error(&list, "%%" TC_SV_FMT " has %d variables", TC_SV_ARG(s.node->outs[0]->name), n);
  tc_lex_next(lx);
  s.at = at;
  while (s.hold < TC_HOLD_COUNT && !tc_lex_at(lx, tc_hold_text(s.hold))) s.hold++;
  if (s.hold == TC_HOLD_COUNT) return tc_lex_error(lx, "expected memory, inline, row, tile or column");
  tc_lex_next(lx);
  bool more = tc_lex_eat(lx, ",");
  if (more && tc_lex_eat(lx, "dear")) {
    s.dear = true;
    more = tc_lex_eat(lx, ",");
  }
  if (more) {
    TC_TRY(tc_lex_expect(lx, "stored"));
    s.stores = true;
  }
  tc_group *g = r->g;
  if (s.phase >= g->n_phases) g->n_phases = s.phase + 1;
  if (s.node->kind == TC_LN_TEMPLATE && !g->stage) g->stage = s.node;
  if (s.node->kind == TC_LN_CALL) g->call = s.node;
  tc_vec_push(r->l->arena, &g->steps, s);
  return TC_OK;
}

static tc_status group(reader *r) {
  tc_lexer *lx = r->lx;
  tc_arena *arena = r->l->arena;
  tc_group *g = r->g = TC_NEW(arena, tc_group);
  *g = (tc_group){.id = r->s->groups.count,
                  .vars = TC_NEW_ARRAY(arena, const tc_sym *, 2 * TC_MAX_RANK),
                  .extents = TC_NEW_ARRAY(arena, const tc_sym *, 2 * TC_MAX_RANK)};
  const tc_buf *b;
  TC_TRY(tc_lex_sigil(lx, '@', &g->name));
  TC_TRY(tc_lex_expect(lx, "kernel"));
  TC_TRY(tc_lex_sigil(lx, '@', &g->kernel));
  g->once = tc_lex_eat(lx, "once");
  TC_TRY(variables(r, &g->n_par));
  if (tc_lex_at(lx, "by")) {
    int32_t rows;
    TC_TRY(number(r, "by", &rows));
    g->rows = rows;
  }
  if (tc_lex_eat(lx, "over")) TC_TRY(variables(r, &g->n_red));
  TC_TRY(tc_lex_expect(lx, "{"));
  while (tc_lex_at(lx, "phase")) TC_TRY(step(r));
  TC_TRY(tc_lex_expect(lx, "reads"));
  while (lx->tok.kind == TC_TOK_SIGIL) {
    TC_TRY(find_buf(r, &b));
    tc_vec_push(arena, &g->reads, b);
  }
  TC_TRY(tc_lex_expect(lx, "writes"));
  while (lx->tok.kind == TC_TOK_SIGIL) {
    TC_TRY(find_buf(r, &b));
    tc_vec_push(arena, &g->writes, b);
  }
  TC_TRY(tc_lex_expect(lx, "}"));
  tc_vec_push(arena, &r->s->groups, g);
  return TC_OK;
}

static tc_status refusal(reader *r) {
  tc_lnode *producer, *consumer;
  tc_refusal f = {0};
  TC_TRY(find_node(r, &producer));
  TC_TRY(tc_lex_expect(r->lx, "with"));
  TC_TRY(find_node(r, &consumer));
  TC_TRY(tc_lex_expect(r->lx, ":"));
  TC_TRY(tc_lex_string(r->lx, &f.reason));
  f.producer = producer, f.consumer = consumer;
  tc_vec_push(r->l->arena, &r->s->refusals, f);
  return TC_OK;
}

tc_status tc_schedule_parse(tc_loops *l, tc_lexer *lx, tc_schedule **out) {
  tc_schedule *s = TC_NEW(l->arena, tc_schedule);
  s->loops = l;
  reader r = {.l = l, .lx = lx, .s = s, .sizes = tc_map_create(l->arena), .bufs = tc_map_create(l->arena)};
  tc_lexer at = *lx;
  *out = NULL;
  for (int32_t i = 0; i < tc_sym_symbol_count(l->syms); i++) {
    const tc_sym *q = tc_sym_symbol_at(l->syms, i);
    int32_t origin = tc_sym_info_of(l->syms, q)->origin;
    if (origin == TC_SYM_BACKED || origin == TC_SYM_UNBACKED) tc_map_put(r.sizes, q->name, NULL)->value.ptr = (void *)q;
  }
  for (int32_t i = 0; i < l->bufs.count; i++)
    tc_map_put(r.bufs, l->bufs.data[i]->name, NULL)->value.ptr = l->bufs.data[i];
  TC_TRY(tc_lex_expect(lx, "schedule"));
  TC_TRY(number(&r, "candidates", &s->n_candidates));
  TC_TRY(number(&r, "merges", &s->n_merges));
  TC_TRY(tc_lex_expect(lx, "{"));
  while (tc_lex_eat(lx, "group")) TC_TRY(group(&r));
  while (tc_lex_eat(lx, "refused")) TC_TRY(refusal(&r));
  TC_TRY(tc_lex_expect(lx, "}"));
  TC_TRY(tc_schedule_verify(s), "in the schedule at " TC_SV_FMT ":%d:%d", TC_SV_ARG(lx->name), at.tok.line,
         at.tok.column);
  *out = s;
  return TC_OK;
}
