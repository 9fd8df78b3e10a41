// Differential test of everything between a graph and its kernels: random graphs through lowering, scheduling, emission
// and memory planning, run by the kernel interpreter and compared with the references; with fusion and without, for
// devices with vectors and with threads, with few and many cores, and for several values of symbolic sizes. The loop IR
// of every graph is also printed, parsed and printed again.
//
//   graph_fuzz [--seconds=N] [--seed=S] [--cases=N] [--keep-going] [--print]
#include <math.h>
#include <stdio.h>

#include "core/ir/refexec.h"
#include "core/kernel/templates/templates.h"
#include "core/passes/passes.h"
#include "tests/fuzz/graphs/compare.h"
#include "tests/fuzz/graphs/drive.h"
#include "tests/fuzz/graphs/execute.h"
#include "tests/fuzz/graphs/generate.h"

typedef struct fuzz_case {
  const tc_op_registry *ops;
  uint64_t seed;
  const fuzz_options *o;
  tc_arena *arena;
  int32_t device;
  bool fuse, skipped;
  const char *where; // of the failure
  tc_sb graph;       // text
} fuzz_case;

// ---- text ----
static tc_status reparse(fuzz_case *f, const tc_loops *l, const tc_template_registry *templates) {
  tc_sb first = tc_sb_make(f->arena), second = tc_sb_make(f->arena);
  tc_loops_print(&first, l);
  tc_module *m = TC_NEW(f->arena, tc_module);
  *m = (tc_module){
      .arena = f->arena, .ops = f->ops, .syms = tc_sym_create(f->arena), .bindings = tc_map_create(f->arena)};
  tc_lexer lx;
  tc_lex_init(&lx, f->arena, TC_SV("loops"), tc_sb_view(&first));
  tc_loops *back;
  TC_TRY(tc_loops_parse_with(m, templates, &lx, &back), "while parsing the printed loops:\n%s", first.text);
  tc_loops_print(&second, back);
  if (tc_sv_eq(tc_sb_view(&first), tc_sb_view(&second))) return TC_OK;
  return tc_error(TC_STATUS_MISMATCH, "the loops print differently after parsing:\n%s----\n%s", first.text,
                  second.text);
}

// ---- one case ----
typedef struct values {
  int64_t *symbols;
  tc_tensor in[MOST_IO], narrow[MOST_IO], wide[MOST_IO];
} values;

static tc_status reference(fuzz_case *f, tc_graph *g, values *v) {
  tc_ref_options plain = {0}, wide = {.wide = true};
  TC_TRY(make_inputs(g, v->symbols, f->seed, v->in));
  f->where = "reference";
  tc_status s = tc_ref_run(g, tc_system_allocator(), g->inputs.count, v->in, v->narrow, &plain);
  if (s == TC_OK) s = tc_ref_run(g, tc_system_allocator(), g->inputs.count, v->in, v->wide, &wide);
  return s;
}

static void free_values(values *v) {
  for (int32_t i = 0; i < MOST_IO; i++) {
    tc_tensor_unref(&v->in[i]);
    tc_tensor_unref(&v->narrow[i]);
    tc_tensor_unref(&v->wide[i]);
  }
}

static tc_status on_device(fuzz_case *f, tc_graph *g, const tc_template_registry *templates, const values *v,
                           int32_t n_values, const tolerance *tol) {
  const tc_device_props *props = &devices[f->device].props;
  tc_lower_options lo = {.logger = &tc_logger_silent,
                         .templates = templates,
                         .on_chip = props->simd_bytes ? props->shared_bytes : 0,
                         .lock_step = !props->simd_bytes && props->subgroup > 1};
  tc_loops *l;
  f->where = "lowering";
  TC_TRY(tc_lower_graph(g, &lo, &l));
  f->where = "checking the loops";
  TC_TRY(tc_loops_verify(l));
  f->where = "text of loops";
  if (f->device == 0 && f->fuse) TC_TRY(reparse(f, l, templates));
  if (f->o->print) {
    tc_sb sb = tc_sb_make(f->arena);
    tc_loops_print(&sb, l);
    printf("%s\n", sb.text);
  }
  tc_schedule_options so = {
      .logger = &tc_logger_silent, .device = &devices[f->device].props, .fuse = f->fuse, .horizontal = f->fuse};
  tc_schedule *s;
  f->where = "scheduling";
  TC_TRY(tc_schedule_loops(l, &so, &s));
  f->where = "checking the loops after scheduling";
  TC_TRY(tc_loops_verify(l));
  if (f->o->print) {
    tc_sb sb = tc_sb_make(f->arena);
    tc_schedule_print(&sb, s);
    printf("---- %s %s\n%s\n", devices[f->device].name, f->fuse ? "fused" : "unfused", sb.text);
  }
  tc_emit_options eo = {.logger = &tc_logger_silent, .device = &devices[f->device].props};
  tc_plan *p;
  f->where = "emission";
  TC_TRY(tc_plan_build(s, &eo, &p));
  if (f->o->print) {
    tc_sb sb = tc_sb_make(f->arena);
    tc_plan_print(&sb, p);
    for (int32_t i = 0; i < p->kernels.count; i++) tc_kernel_print(&sb, p->kernels.data[i]->kernel);
    printf("%s\n", sb.text);
  }
  for (int32_t k = 0; k < n_values; k++) {
    plan_run r = {.p = p, .symbols = v[k].symbols, .inputs = v[k].in};
    tc_tensor out[MOST_IO] = {0};
    f->where = "running";
    tc_status st = plan_run_all(&r, f->arena, out);
    f->where = "comparing";
    for (int32_t i = 0; i < p->outputs.count && st == TC_OK; i++)
      st = compare(&out[i], &v[k].narrow[i], &v[k].wide[i], tol[i], i);
    for (int32_t i = 0; i < p->outputs.count; i++) tc_tensor_unref(&out[i]);
    if (st != TC_OK && k) return tc_status_note(st, "for the %d. values of the symbols", k + 1);
    TC_TRY(st);
  }
  return TC_OK;
}

static int64_t *symbol_values(fuzz_case *f, gen *r, int32_t k) {
  int64_t *v = TC_NEW_ARRAY(f->arena, int64_t, 65536);
  for (int32_t i = 0; i < r->n_symbols; i++) {
    tc_sym_info *info = tc_sym_info_of(r->m->syms, r->symbols[i]);
    int64_t n = k == 0 ? info->hint : info->lo + gen_int(r, 9);
    v[r->symbols[i]->symbol] = n;
  }
  return v;
}

static tc_status one(void *arg) {
  fuzz_case *f = arg;
  tc_template_registry templates = {0};
  tc_templates_register_core(f->arena, &templates);
  tc_module *m = TC_NEW(f->arena, tc_module);
  *m = (tc_module){
      .arena = f->arena, .ops = f->ops, .syms = tc_sym_create(f->arena), .bindings = tc_map_create(f->arena)};
  gen r;
  f->where = "generation";
  tc_graph *g = gen_graph(&r, m, f->seed);
  f->graph = tc_sb_make(f->arena);
  tc_graph_print(&f->graph, g);
  if (f->o->print) printf("%s\n", f->graph.text);
  if (g->inputs.count > MOST_IO || g->outputs.count > MOST_IO) {
    f->skipped = true;
    return TC_OK;
  }
  tolerance tol[MOST_IO];
  for (int32_t i = 0; i < g->outputs.count; i++) {
    const gen_value *v = gen_find(&r, g->outputs.data[i].arg.value);
    tol[i] = (tolerance){
        .exact = v && v->exact, .eps = r.halves ? 2e-2 : 2e-4, .least = (v ? v->bound : 1) * (r.halves ? 1e-4 : 1e-7)};
    tol[i].cancelled = 10 * tol[i].least; // norms take numbers ten times as large as those that they give
  }
  values v[2] = {0};
  int32_t n_values = r.n_symbols ? 2 : 1;
  tc_status s = TC_OK;
  for (int32_t k = 0; k < n_values && s == TC_OK; k++) {
    v[k].symbols = symbol_values(f, &r, k);
    s = reference(f, g, &v[k]);
    if (s != TC_OK) f->skipped = true;
    if (s != TC_OK && k == 1) { // these values break a condition of the graph
      tc_status_free(s);
      s = TC_OK;
      f->skipped = false;
      n_values = 1;
      tc_tensor_unref(v[1].in);
    }
  }
  bool progress = true;
  f->where = s == TC_OK ? "decomposing" : f->where;
  for (int32_t round = 0; round < 4 && progress && s == TC_OK; round++) s = tc_pass_decompose.run(g, &progress);
  for (int32_t d = 0; d < N_DEVICES && s == TC_OK; d++) {
    for (int32_t fuse = 1; fuse >= 0 && s == TC_OK; fuse--) {
      f->device = d;
      f->fuse = fuse;
      s = on_device(f, g, &templates, v, n_values, tol);
    }
  }
  for (int32_t k = 0; k < 2; k++) free_values(&v[k]);
  return s;
}

// ---- the loop over cases ----
static bool run_case(fuzz_session *x, uint64_t seed) {
  fuzz_case f = {.ops = x->ops, .seed = seed, .o = &x->o};
  tc_status s = tc_arena_create(tc_system_allocator(), &f.arena);
  if (s == TC_OK) s = tc_arena_guard(f.arena, one, &f);
  bool ok = s == TC_OK || f.skipped;
  if (f.skipped) fuzz_skip(x, s == TC_OK ? "too many inputs or outputs" : tc_status_text(s));
  if (!ok) {
    if (!x->o.keep_going) printf("%s\n", f.graph.text ? f.graph.text : "");
    printf("FAILED --seed=%llu on %s, %s, %s: %s\n", (unsigned long long)seed, devices[f.device].name,
           f.fuse ? "fused" : "unfused", f.where, tc_status_text(s));
    fflush(stdout);
  }
  tc_status_free(s);
  tc_arena_destroy(f.arena);
  return ok;
}

static tc_status all(void *arg) {
  fuzz_session *x = arg;
  TC_TRY(fuzz_set_up(x));
  x->run = run_case;
  return fuzz_loop(x);
}

int main(int argc, char **argv) { return fuzz_main(argc, argv, all); }
