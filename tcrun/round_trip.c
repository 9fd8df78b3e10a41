// tcrun check --round-trip: every stage of a program as text.
//
// Text by text, from the graph on: what is printed must read back to the same text, what was read must compute the same
// bits as the program it was printed from, and the text with some damage must be refused with line and column, or be a
// text that reads back. Each text is made from the one before it, so that nothing that a text leaves out can help.
//
// A program that the backend cannot compile whole is a graph with segments inside: its graphs are treated so, and then
// each segment as a program of its own.
#include "tcrun/round_trip.h"

#include <stdlib.h>
#include <string.h>

enum { DAMAGES = 6 }; // per text

// ---- Comparison ----
static tc_status same_text(tc_sv stage, tc_sv a, tc_sv b) {
  size_t at = 0, from;
  if (tc_sv_eq(a, b)) return TC_OK;
  while (at < a.size && at < b.size && a.data[at] == b.data[at]) at++;
  for (from = at; from > 0 && a.data[from - 1] != '\n'; from--) continue;
  tc_sv x = tc_sv_sub(a, from, a.size), y = tc_sv_sub(b, from, b.size);
  tc_sv_cut(x, '\n', &x), tc_sv_cut(y, '\n', &y);
  return tc_error(TC_STATUS_MISMATCH,
                  "the text of the stage '" TC_SV_FMT "' reads back as another:\n" TC_SV_FMT "\n" TC_SV_FMT,
                  TC_SV_ARG(stage), TC_SV_ARG(x), TC_SV_ARG(y));
}

static tc_status rows_of(const tc_allocator *a, const tc_tensor *t, tc_tensor *out) {
  TC_TRY(tc_tensor_create(a, t->dtype, t->rank, t->sizes, out));
  return tc_tensor_copy(t, out);
}

static bool same_shape(const tc_tensor *x, const tc_tensor *y) {
  bool same = (x->storage == NULL) == (y->storage == NULL);
  if (!same || !x->storage) return same;
  same = x->dtype == y->dtype && x->rank == y->rank;
  for (int32_t d = 0; same && d < x->rank; d++) same = x->sizes[d] == y->sizes[d];
  return same;
}

static tc_status same_bits(const tc_allocator *a, int32_t i, const tc_tensor *x, const tc_tensor *y) {
  if (!same_shape(x, y)) return tc_error(TC_STATUS_MISMATCH, "output %d has another shape", (int)i);
  if (!x->storage) return TC_OK;
  tc_tensor rows[2] = {{0}};
  tc_status s = rows_of(a, x, &rows[0]);
  if (s == TC_OK) s = rows_of(a, y, &rows[1]);
  size_t bytes = (size_t)tc_tensor_numel(x) * (size_t)tc_dtype_size(x->dtype);
  if (s == TC_OK && bytes && memcmp(tc_tensor_data(&rows[0]), tc_tensor_data(&rows[1]), bytes) != 0)
    s = tc_error(TC_STATUS_MISMATCH, "output %d has other bits", (int)i);
  tcrun_free_tensors(rows, 2);
  return s;
}

static tc_status same_outputs(const round_trip *t, const model *m, const tc_tensor *outputs) {
  if (m->graph->outputs.count != t->n_outputs)
    return tc_error(TC_STATUS_MISMATCH, "%d outputs instead of %d", (int)m->graph->outputs.count, (int)t->n_outputs);
  for (int32_t i = 0; i < t->n_outputs; i++) {
    if (t->shapes_only && same_shape(&t->outputs[i], &outputs[i])) continue;
    TC_TRY(same_bits(t->c->allocator, i, &t->outputs[i], &outputs[i]));
  }
  return TC_OK;
}

static tc_status run(const round_trip *t, model *m, tc_session *session, tc_tensor **out) {
  tc_tensor *inputs = NULL;
  *out = TC_NEW_ARRAY(t->o->arena, tc_tensor, m->graph->outputs.count);
  tc_status s = t->inputs(t->self, m, &inputs);
  if (s == TC_OK) s = tc_session_run(session, inputs, *out, &(tc_session_run_options){.seed = t->o->seed});
  if (inputs) tcrun_free_tensors(inputs, m->graph->inputs.count);
  return s;
}

// ---- Damage ----
static uint64_t next_random(uint64_t *state) { // Marsaglia, "Xorshift RNGs", 2003
  *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
  return *state;
}

static size_t line_end(tc_sv text, size_t at) {
  while (at < text.size && text.data[at] != '\n') at++;
  return at < text.size ? at + 1 : at;
}

// The text with a byte replaced or left out, a line left out or given twice, or without its end.
static tc_sv damaged(tc_arena *arena, tc_sv text, uint64_t *seed) {
  static const char glyphs[] = "%@()[]{},:+-*/.\"0129abfnsux =\n";
  size_t at = next_random(seed) % text.size, line = at;
  while (line > 0 && text.data[line - 1] != '\n') line--;
  size_t from = at, again = at + 1; // kept is what lies before `from` and what starts at `again`
  char byte = glyphs[next_random(seed) % (sizeof glyphs - 1)];
  tc_sb sb = tc_sb_make(arena);
  switch (next_random(seed) % 5) {
  case 0: break;
  case 1: byte = 0; break;
  case 2: byte = 0, from = line, again = line_end(text, at); break;
  case 3: byte = 0, from = line_end(text, at), again = line; break;
  default: byte = 0, again = text.size;
  }
  tc_sb_put(&sb, tc_sv_sub(text, 0, from));
  if (byte) tc_sb_putc(&sb, byte);
  tc_sb_put(&sb, tc_sv_sub(text, again, text.size));
  return tc_sb_view(&sb);
}

static bool has_place(tc_sv name, const char *message) {
  const char *at = strstr(message, name.data);
  char *end;
  if (!at || at[name.size] != ':') return false;
  strtol(at + name.size + 1, &end, 10);
  return *end == ':' && end[1] >= '0' && end[1] <= '9';
}

static tc_status try_damage(const round_trip *t, tc_sv name, int32_t stage, tc_sv text) {
  model m = {0}, again = {0};
  tc_status s = tcrun_read_text(t->c, name, text, &m);
  if (s != TC_OK) {
    tcrun_unload(&m);
    if (tc_status_code(s) == TC_STATUS_OUT_OF_MEMORY || has_place(name, tc_status_text(s))) {
      tc_status_free(s);
      return TC_OK;
    }
    return tc_status_note(s, "no place is named for a damaged text of the stage '%s'", tc_stage_name(stage));
  }
  tc_sb once = tc_sb_make(t->o->arena), twice = tc_sb_make(t->o->arena);
  tc_source_print(&once, &m.source, stage);
  s = tc_status_note(tcrun_read_text(t->c, name, tc_sb_view(&once), &again),
                     "while reading what a damaged text became");
  if (s == TC_OK) tc_source_print(&twice, &again.source, stage);
  if (s == TC_OK) s = same_text(name, tc_sb_view(&once), tc_sb_view(&twice));
  tcrun_unload(&m);
  tcrun_unload(&again);
  return s;
}

// ---- One text ----
typedef struct texts {
  tc_sv text[TC_STAGE_COUNT]; // empty: not yet made
} texts;

static tc_status take_text(const round_trip *t, const tc_session *session, int32_t stage, texts *x) {
  tc_sb sb = tc_sb_make(t->o->arena);
  if (x->text[stage].size) return TC_OK;
  TC_TRY(tc_session_text(session, stage, &sb));
  x->text[stage] = tc_sb_view(&sb);
  return TC_OK;
}

// What the scheduler gets: its own work changes the loops.
static tc_status take_loops(const round_trip *t, model *m, texts *x) {
  tc_session *session;
  TC_TRY(tc_session_create_from(t->c, &m->source, TC_STAGE_LOOP, &session));
  tc_status s = take_text(t, session, TC_STAGE_LOOP, x);
  tc_session_destroy(session);
  return s;
}

static tc_status with_session(const round_trip *t, model *m, int32_t stage, tc_session *session, bool whole, texts *x) {
  tc_tensor *outputs = NULL;
  if (stage == TC_STAGE_GRAPH) TC_TRY(take_text(t, session, TC_STAGE_FUNCTIONAL, x));
  for (int32_t next = TC_STAGE_SCHEDULE; whole && stage == TC_STAGE_LOOP && next <= TC_STAGE_PLAN; next++)
    TC_TRY(take_text(t, session, next, x));
  if (!t->outputs) return TC_OK;
  tc_status s = run(t, m, session, &outputs);
  if (s == TC_OK) s = same_outputs(t, m, outputs);
  tcrun_free_tensors(outputs, m->graph->outputs.count);
  return s;
}

static tc_status read_and_run(const round_trip *t, model *m, tc_sv name, int32_t stage, bool whole, texts *x) {
  tc_sv text = x->text[stage];
  tc_session *session;
  TC_TRY(tcrun_read_text(t->c, name, text, m), "while reading what was printed");
  tc_sb sb = tc_sb_make(t->o->arena);
  tc_source_print(&sb, &m->source, stage);
  TC_TRY(same_text(name, text, tc_sb_view(&sb)));
  TC_TRY(tcrun_bind(m, t->tensors));
  if (stage == TC_STAGE_FUNCTIONAL && whole) TC_TRY(take_loops(t, m, x));
  m->source.stages = true;
  TC_TRY(tc_session_create_from(t->c, &m->source, TC_STAGE_EXEC, &session));
  tc_status s = with_session(t, m, stage, session, whole, x);
  tc_session_destroy(session);
  return s;
}

static tc_status one_stage(const round_trip *t, int32_t stage, bool whole, texts *x) {
  tc_sv name = tc_sv_printf(t->o->arena, "%s.tc", tc_stage_name(stage));
  model m = {0};
  uint64_t seed = t->o->seed * 0x9e3779b97f4a7c15u + (uint64_t)stage + 1;
  tc_status s = read_and_run(t, &m, name, stage, whole, x);
  tcrun_unload(&m);
  for (int32_t i = 0; s == TC_OK && i < DAMAGES; i++)
    s = try_damage(t, name, stage, damaged(t->o->arena, x->text[stage], &seed));
  return tc_status_note(s, "in the round trip of the stage '%s'", tc_stage_name(stage));
}

static tc_status all_stages(const round_trip *t, tc_sv graph, bool whole) {
  texts x = {{{0}}};
  x.text[TC_STAGE_GRAPH] = graph;
  int32_t last = !whole ? TC_STAGE_FUNCTIONAL : TC_STAGE_PLAN;
  for (int32_t stage = TC_STAGE_GRAPH; stage <= last; stage++) TC_TRY(one_stage(t, stage, whole, &x));
  return TC_OK;
}

// ---- Segments ----
static tc_status random_inputs(void *self, model *m, tc_tensor **out) {
  const round_trip *t = self;
  run_options o = *t->o;
  o.inputs = (tc_sv){0};
  o.random = true;
  return tcrun_inputs(t->c, &o, m, out, NULL);
}

// A segment's own text is the program that its stages are compared with. Sizes that only data tells keep some from
// being run.
static tc_status one_segment(const round_trip *outer, const tc_graph *g) {
  round_trip t = *outer;
  model m = {0};
  tc_session *session = NULL;
  tc_tensor *outputs = NULL;
  tc_sb sb = tc_sb_make(t.o->arena);
  tc_graph_print(&sb, g);
  t.inputs = random_inputs, t.self = &t, t.outputs = NULL;
  tc_status s = tcrun_read_text(t.c, TC_SV("segment.tc"), tc_sb_view(&sb), &m);
  if (s == TC_OK) s = tcrun_bind(&m, t.tensors);
  m.source.stages = true;
  if (s == TC_OK) s = tc_session_create_from(t.c, &m.source, TC_STAGE_EXEC, &session);
  if (s == TC_OK) {
    tc_status ran = run(&t, &m, session, &outputs);
    if (ran == TC_OK) t.outputs = outputs, t.n_outputs = m.graph->outputs.count;
    tc_status_free(ran);
    s = all_stages(&t, tc_sb_view(&sb), true);
  }
  if (outputs) tcrun_free_tensors(outputs, m.graph->outputs.count);
  tc_session_destroy(session);
  tcrun_unload(&m);
  return s;
}

tc_status tcrun_round_trip(const round_trip *t, tc_sv graph, const tc_session *session) {
  const tc_session_stats *q = tc_session_stats_of(session);
  bool whole = q->segments == 1 && q->fallbacks == 0 && q->controls == 0;
  TC_TRY(all_stages(t, graph, whole));
  for (int32_t i = 0; !whole && i < tc_session_segment_count(session); i++)
    TC_TRY(one_segment(t, tc_session_segment(session, i)->graph), "in segment %d", (int)i);
  return TC_OK;
}
