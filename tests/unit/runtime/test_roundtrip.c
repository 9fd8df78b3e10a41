// Text forms on real models: for every archive of the examples and of tests/data/models that loads, the text of the
// graph, of the functional graph and of the loops reads back to the same text, the graph that was read computes the
// same bits as the one that was printed, and damaged text is refused with its place or is a text that reads back.
#include <dirent.h>

#include "core/frontends/pt2/pt2.h"
#include "core/ir/refexec.h"
#include "core/kernel/templates/templates.h"
#include "core/loop/loop.h"
#include "core/ops/ops.h"
#include "core/passes/passes.h"
#include "tests/unit/unit.h"

enum { STRIDE = 50 }; // of the bytes that are damaged

// One registry for all models: making it takes longer than reading most of them.
static tc_arena *registry_arena;
static tc_op_registry *registry;
static tc_template_registry templates;

static tc_status make_registry(void *arg) {
  (void)arg;
  TC_TRY(tc_op_registry_create(registry_arena, &registry));
  tc_templates_register_core(registry_arena, &templates);
  return tc_ops_register_core(registry);
}

static int open_registry(void **state) {
  (void)state;
  assert_ok(tc_arena_create(tc_system_allocator(), &registry_arena));
  assert_ok(tc_arena_guard(registry_arena, make_registry, NULL));
  return 0;
}

static int close_registry(void **state) {
  (void)state;
  tc_arena_destroy(registry_arena);
  return 0;
}

// ---- printing and reading ----
static tc_sv print(tc_arena *arena, const tc_graph *g) {
  tc_sb sb = tc_sb_make(arena);
  tc_graph_print(&sb, g);
  return tc_sb_view(&sb);
}

static tc_module *fresh_module(tc_arena *arena) {
  tc_module *m = TC_NEW(arena, tc_module);
  *m = (tc_module){.arena = arena, .ops = registry, .syms = tc_sym_create(arena), .bindings = tc_map_create(arena)};
  return m;
}

static tc_status parse(tc_arena *arena, tc_sv text, tc_graph **out) {
  tc_lexer lx;
  tc_lex_init(&lx, arena, TC_SV("model.tc"), text);
  return tc_graph_parse(fresh_module(arena), &lx, out);
}

static void same_text(const char *path, tc_sv a, tc_sv b) {
  size_t at = 0;
  if (tc_sv_eq(a, b)) return;
  while (at < a.size && at < b.size && a.data[at] == b.data[at]) at++;
  while (at > 0 && a.data[at - 1] != '\n') at--;
  fail_msg("%s: printed\n%.300s\nread again as\n%.300s", path, a.data + at, b.data + at);
}

// ---- running ----
typedef struct run {
  int32_t n_inputs, n_outputs;
  tc_tensor *inputs, *outputs;
  tc_status status;
} run;

static tc_status random_input(const tc_graph_input *in, tc_sym_ctx *c, uint64_t seed, tc_tensor *out) {
  const tc_tensor_type *t = &in->value->type;
  int64_t sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
  if (in->value->kind != TC_VALUE_TENSOR) {
    TC_TRY(tc_tensor_create(tc_system_allocator(), TC_I64, 0, NULL, out));
    *(int64_t *)tc_tensor_data(out) = in->value->kind == TC_VALUE_SYM ? tc_sym_hint_or(c, in->value->symbol, 3) : 1;
    return TC_OK;
  }
  for (int32_t d = 0; d < t->rank; d++) {
    sizes[d] = tc_sym_hint_or(c, t->sizes[d], 3);
    strides[d] = tc_sym_hint_or(c, t->strides[d], 1);
  }
  TC_TRY(tc_tensor_create_strided(tc_system_allocator(), t->dtype, t->rank, sizes, strides, out));
  char cls = tc_dtype_class(t->dtype);
  if (cls == 'f' || cls == 'c') tc_tensor_fill_normal(&tc_executor_serial, out, seed, 0, 1);
  else tc_tensor_fill_uniform_int(&tc_executor_serial, out, seed, 0, 2);
  return TC_OK;
}

// Inputs of the program's graph: what the archive holds, and random tensors for the user's.
static tc_status make_inputs(tc_arena *arena, const tc_program *p, uint64_t *seed, run *r) {
  const tc_graph *g = p->graph;
  r->inputs = TC_NEW_ARRAY(arena, tc_tensor, g->inputs.count + 1);
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_graph_input *in = &g->inputs.data[i];
    if (!in->value) continue;
    const tc_map_entry *e = in->kind == TC_IN_USER ? NULL : tc_map_find(p->module->bindings, in->target);
    const tc_binding *b = e ? e->value.ptr : NULL;
    tc_tensor *t = &r->inputs[r->n_inputs++];
    if (b && b->tensor.storage) {
      *t = b->tensor;
      tc_storage_ref(t->storage);
    } else TC_TRY(random_input(in, p->module->syms, tc_test_random(seed), t));
  }
  return TC_OK;
}

static void execute(tc_arena *arena, tc_graph *g, run *r) {
  r->n_outputs = g->outputs.count;
  r->outputs = TC_NEW_ARRAY(arena, tc_tensor, r->n_outputs + 1);
  r->status = tc_ref_run(g, tc_system_allocator(), r->n_inputs, r->inputs, r->outputs, &(tc_ref_options){.seed = 7});
}

static void release(tc_tensor *t, int32_t n) {
  for (int32_t i = 0; i < n; i++) tc_tensor_unref(&t[i]);
}

static void same_bits(tc_arena *arena, const char *path, const run *a, const run *b) {
  assert_int_equal(a->n_outputs, b->n_outputs);
  for (int32_t i = 0; i < a->n_outputs; i++) {
    const tc_tensor *x = &a->outputs[i], *y = &b->outputs[i];
    assert_int_equal(x->storage == NULL, y->storage == NULL);
    if (!x->storage) continue;
    tc_tensor rows[2];
    assert_int_equal(x->dtype, y->dtype);
    assert_int_equal(x->rank, y->rank);
    for (int32_t d = 0; d < x->rank; d++) assert_int_equal(x->sizes[d], y->sizes[d]);
    for (int32_t k = 0; k < 2; k++) {
      assert_ok(tc_tensor_create(tc_arena_allocator(arena), x->dtype, x->rank, x->sizes, &rows[k]));
      assert_ok(tc_tensor_copy(k ? y : x, &rows[k]));
    }
    size_t bytes = (size_t)tc_tensor_numel(x) * (size_t)tc_dtype_size(x->dtype);
    if (bytes && memcmp(tc_tensor_data(&rows[0]), tc_tensor_data(&rows[1]), bytes) != 0)
      fail_msg("%s: output %d differs", path, (int)i);
    release(rows, 2);
  }
}

// ---- the stages of one model ----
typedef struct model {
  tc_arena *arena; // the test's
  const char *path;
  tc_program *program;
  uint64_t *seed;
  tc_sv text;
  bool ran, functional, loops; // what there was of it
} model;

static tc_status round_trip(model *m, tc_graph *g, tc_graph **out) {
  m->text = print(g->module->arena, g);
  TC_TRY(parse(g->module->arena, m->text, out), "while reading what was printed of %s", m->path);
  same_text(m->path, m->text, print(g->module->arena, *out));
  return tc_graph_verify(*out);
}

static tc_status run_both(model *m, tc_graph *g, tc_graph *again) {
  run a = {0}, b;
  TC_TRY(make_inputs(g->module->arena, m->program, m->seed, &a));
  b = a;
  execute(g->module->arena, g, &a);
  execute(g->module->arena, again, &b);
  if (tc_status_code(a.status) != tc_status_code(b.status))
    fail_msg("%s: one graph runs, the other does not: %s", m->path, tc_status_text(a.status ? a.status : b.status));
  m->ran = a.status == TC_OK;
  if (m->ran) {
    same_bits(g->module->arena, m->path, &a, &b);
    release(a.outputs, a.n_outputs);
    release(b.outputs, b.n_outputs);
  }
  tc_status_free(a.status);
  tc_status_free(b.status);
  release(a.inputs, a.n_inputs);
  return TC_OK;
}

static tc_status loops_round_trip(model *m, tc_graph *g) {
  tc_loops *l, *again;
  tc_arena *arena = g->module->arena;
  // Without plugins not every graph has loops.
  tc_status s = tc_lower_graph(g, &(tc_lower_options){.templates = &templates}, &l);
  m->loops = s == TC_OK;
  if (s) print_message("%s has no loops: %s\n", m->path, tc_status_text(s));
  tc_status_free(s);
  if (!m->loops) return TC_OK;
  tc_sb once = tc_sb_make(arena), twice = tc_sb_make(arena);
  tc_lexer lx;
  tc_loops_print(&once, l);
  tc_lex_init(&lx, arena, TC_SV("loops.tc"), tc_sb_view(&once));
  TC_TRY(tc_loops_parse_with(fresh_module(arena), &templates, &lx, &again), "while reading the loops of %s", m->path);
  tc_loops_print(&twice, again);
  same_text(m->path, tc_sb_view(&once), tc_sb_view(&twice));
  return TC_OK;
}

static tc_status stages(void *arg) {
  model *m = arg;
  tc_graph *again, *g = m->program->graph;
  int32_t n;
  TC_TRY(round_trip(m, g, &again));
  TC_TRY(run_both(m, g, again));
  const tc_pass *const *passes = tc_standard_passes(&n);
  tc_status s = tc_run_passes(g, passes, n, 4, &(tc_pass_options){0});
  m->functional = s == TC_OK;
  int32_t code = tc_status_code(s);
  if (code != TC_STATUS_OK && code != TC_STATUS_NOT_FOUND && code != TC_STATUS_UNIMPLEMENTED) return s;
  tc_status_free(s);
  if (!m->functional) return TC_OK; // an op that the passes need is not there
  TC_TRY(round_trip(m, g, &again));
  return loops_round_trip(m, g);
  return TC_OK;
}

static tc_status each_model(tc_arena *arena, const char *folder, tc_status (*visit)(model *m), int32_t *out_n) {
  DIR *d = opendir(folder);
  if (!d) fail_msg("no folder %s", folder);
  uint64_t seed = tc_test_seed();
  for (struct dirent *e = readdir(d); e; e = readdir(d)) {
    if (!tc_sv_ends(tc_sv_of(e->d_name), ".pt2")) continue;
    model m = {.arena = arena, .path = tc_sv_printf(arena, "%s/%s", folder, e->d_name).data, .seed = &seed};
    tc_pt2 *f = NULL;
    tc_status s = tc_pt2_open(m.path, registry, &(tc_pt2_options){.allocator = tc_system_allocator()}, &f);
    if (s == TC_OK) s = tc_pt2_load(f, 0, &m.program);
    if (s != TC_OK) print_message("%s does not load: %s\n", m.path, tc_status_text(s));
    tc_status_free(s);
    if (m.program) {
      s = visit(&m);
      if (s != TC_OK) fail_msg("%s: %s", m.path, tc_status_text(s));
      ++*out_n;
    }
    tc_program_destroy(m.program);
    tc_pt2_close(f);
  }
  closedir(d);
  return TC_OK;
}

static int32_t ran, functional, had_loops;

static tc_status visit_stages(model *m) {
  TC_TRY(tc_arena_guard(m->program->module->arena, stages, m));
  ran += m->ran;
  functional += m->functional;
  had_loops += m->loops;
  return TC_OK;
}

TC_TEST(every_model_reads_back) {
  int32_t n = 0;
  ran = functional = had_loops = 0;
  TC_TRY(each_model(arena, TC_SOURCE_DIR "/examples", visit_stages, &n));
  assert_true(n >= 2 && ran == n && had_loops == n);
  TC_TRY(each_model(arena, TC_SOURCE_DIR "/tests/data/models", visit_stages, &n));
  print_message("%d models, %d ran, %d functional, %d have loops\n", (int)n, (int)ran, (int)functional, (int)had_loops);
  assert_true(n >= 20 && ran >= n / 2 && functional >= n / 2 && had_loops >= n / 3);
  return TC_OK;
}

// ---- damage ----
typedef struct attempt {
  tc_arena *arena;
  tc_sv text;
  bool read;
} attempt;

static tc_status try_text(void *arg) {
  attempt *a = arg;
  tc_graph *g, *again;
  TC_TRY(parse(a->arena, a->text, &g));
  tc_status s = tc_graph_verify(g);
  a->read = s == TC_OK;
  tc_status_free(s);
  if (!a->read) return TC_OK;
  tc_sv once = print(a->arena, g);
  TC_TRY(parse(a->arena, once, &again), "of a damaged text");
  same_text("a damaged text", once, print(a->arena, again));
  return TC_OK;
}

// The text with one byte left out (byte 0) or replaced.
static void damage(tc_sv text, size_t at, char byte, int32_t *out_read) {
  attempt a = {0};
  assert_ok(tc_arena_create(tc_system_allocator(), &a.arena));
  char *copy = malloc(text.size);
  memcpy(copy, text.data, text.size);
  if (byte) copy[at] = byte;
  else memmove(copy + at, copy + at + 1, text.size - at - 1);
  a.text = (tc_sv){copy, text.size - !byte};
  tc_status s = tc_arena_guard(a.arena, try_text, &a);
  int line, column;
  const char *place = s ? strstr(tc_status_text(s), "model.tc:") : NULL;
  if (s && (!place || sscanf(place, "model.tc:%d:%d", &line, &column) != 2))
    fail_msg("damage at byte %d: no place in: %s", (int)at, tc_status_text(s));
  tc_status_free(s);
  *out_read += a.read;
  tc_arena_destroy(a.arena);
  free(copy);
}

static tc_status keep_text(void *arg) {
  model *m = arg;
  m->text = tc_sv_copy(m->arena, print(m->program->module->arena, m->program->graph));
  return TC_OK;
}

static tc_status visit_damage(model *m) {
  static const char glyphs[] = "%@()[]{},:+-*/.\"0129abfnsux =\n";
  int32_t read = 0;
  TC_TRY(tc_arena_guard(m->program->module->arena, keep_text, m));
  for (size_t at = tc_test_random(m->seed) % STRIDE; at < m->text.size; at += STRIDE) {
    damage(m->text, at, '\0', &read);
    damage(m->text, at, glyphs[tc_test_random(m->seed) % (sizeof glyphs - 1)], &read);
  }
  print_message("%s: %d of %d damaged texts are texts\n", m->path, (int)read, (int)(2 * m->text.size / STRIDE));
  return TC_OK;
}

TC_TEST(damage_has_a_place) {
  int32_t n = 0;
  return each_model(arena, TC_SOURCE_DIR "/examples", visit_damage, &n);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_model_reads_back), cmocka_unit_test(damage_has_a_place)};
  return cmocka_run_group_tests(tests, open_registry, close_registry);
}
