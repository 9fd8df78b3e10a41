// Artifacts (.tcx): tcrun compile, and models that come from one.
#include <stdio.h>

#include "tcrun/tcrun.h"

// ---- Loading ----
tc_status tcrun_artifact_backend(const run_options *o, tc_sv *out) {
  tc_tcx *x;
  *out = (tc_sv){0};
  for (int32_t i = 0; i < o->args.count; i++) {
    if (!tc_sv_ends(o->args.data[i], ".tcx")) continue;
    TC_TRY(tc_tcx_open(tc_system_allocator(), tc_sv_z(o->arena, o->args.data[i]), &x));
    tc_status s = TC_OK;
    char kind[64]; // a copy without the arena, which could unwind
    snprintf(kind, sizeof kind, TC_SV_FMT, TC_SV_ARG(tc_tcx_at(x, 0)->backend));
    tc_tcx_close(x);
    *out = tc_sv_copy(o->arena, tc_sv_of(kind));
    return s;
  }
  return TC_OK;
}

static tc_status note_others(void *arg) {
  model *m = arg;
  tc_image *images = TC_NEW_ARRAY(m->module->arena, tc_image, m->n_others);
  for (int32_t i = 0; i < m->n_others; i++) images[i] = m->others[i].image;
  m->source.n_others = m->n_others, m->source.others = images;
  return TC_OK;
}

static tc_status use_image(model *m) {
  m->module = m->packed.module;
  const tc_image *x = &m->packed.image;
  m->graph = tc_image_graph(x);
  m->source = (tc_source){.stage = TC_STAGE_PLAN, .graph = m->graph};
  if (x->steps) m->source.image = x;
  else m->source.plan = x->plans[0];
  return tc_arena_guard(m->module->arena, note_others, m);
}

// Does the device take the code?
static tc_status try_code(const tc_tcx *x, int32_t i, tc_context *c, const model *m) {
  tc_session *s;
  if (tc_sv_is(tc_tcx_at(x, i)->target, c->device->props.target)) return TC_OK;
  TC_TRY(tc_tcx_refused(x, i, c, tc_session_create_image(c, &m->packed.image, &s)));
  tc_session_destroy(s);
  return TC_OK;
}

// What of the program's texts is compiled when none of its executables takes a run's inputs.
typedef struct more {
  tc_context *context;
  tc_tcx_program program; // as the model has it
  int32_t which;
  tc_module *compiled; // goes with the model's module
} more;
static void drop_more(void *self) { tc_module_destroy(((more *)self)->compiled); }
static tc_status make_more(void *self, tc_session **out) {
  more *q = self;
  tc_log(&q->context->logger, TC_LOG_PERF_HINTS, "compiled again: no executable of the artifact takes these inputs");
  return tc_tcx_compile(q->context, &q->program, q->which, &q->compiled, out);
}
typedef struct offer {
  model *m;
  tc_context *context;
  int32_t which;
} offer;
static tc_status offer_guarded(void *arg) {
  const offer *f = arg;
  tc_arena *arena = f->m->module->arena;
  more *q = TC_NEW(arena, more);
  *q = (more){.context = f->context, .program = f->m->packed, .which = f->which};
  tc_arena_on_destroy(arena, drop_more, q);
  f->m->source.more = (tc_session_more){make_more, q};
  return TC_OK;
}

static tc_status offer_more(tc_context *c, model *m, int32_t which) {
  offer f = {m, c, which};
  return tc_tcx_has_text(&m->packed, which) ? tc_arena_guard(m->module->arena, offer_guarded, &f) : TC_OK;
}

static tc_status load_code(const tc_tcx *x, int32_t i, tc_context *c, model *m) {
  TC_TRY(try_code(x, i, c, m));
  TC_TRY(use_image(m));
  return offer_more(c, m, TC_TCX_OPEN_TEXTS);
}

// From the program's texts, with the tensors of the artifact.
static tc_status use_text(tc_context *c, model *m) {
  TC_TRY(tcrun_read_text(c, m->path, m->packed.graph, m));
  TC_TRY(tcrun_bind(m, m->packed.module));
  return offer_more(c, m, TC_TCX_OTHER_TEXTS);
}

// Static sizes are promises of the one executable, and a text's of the one text.
static tc_status note_promises(const tc_tcx *x, int32_t i, model *m) {
  TC_TRY(tcrun_note_promises(m));
  bool of_one = m->n_others && tc_tcx_at(x, i)->sizes.size;
  if (of_one || m->packed.n_texts > 1) m->n_out_types = 0;
  return TC_OK;
}

static tc_status load(const tc_tcx *x, tc_context *c, run_options *o, model *m) {
  int32_t i = tc_tcx_find(x, o->method, c->backend);
  if (i < 0) i = tc_tcx_find(x, o->method, TC_SV("")); // its text will do
  if (i < 0) {
    tc_sb there = tc_sb_make(o->arena);
    tc_tcx_list(x, &there);
    return tc_error(TC_STATUS_NOT_FOUND, "there is no program '" TC_SV_FMT "'; the file has:%s", TC_SV_ARG(o->method),
                    there.text);
  }
  char why[512] = ""; // in words: what is held while memory is asked for is lost when there is none
  tc_status s = tc_tcx_check(x, i, c);
  bool fits = s == TC_OK, has_text = tc_tcx_at(x, i)->has_graph;
  if (!fits && !has_text) return s;
  if (!fits) snprintf(why, sizeof why, "%s", tc_status_text(s));
  tc_status_free(s);
  TC_TRY(tc_tcx_load(x, i, (fits ? TC_TCX_PLAN : 0) | TC_TCX_TENSORS, &m->packed));
  if (m->packed.image.n_plans) {
    TC_TRY(tc_tcx_load_others(x, i, &m->others, &m->n_others));
    s = load_code(x, i, c, m);
    if (s == TC_OK) return note_promises(x, i, m);
    if (!has_text) return s;
    snprintf(why, sizeof why, "%s", tc_status_text(s));
    tc_status_free(s);
  }
  if (why[0]) tc_log(&c->logger, TC_LOG_PERF_HINTS, "compiled again: %s", why);
  TC_TRY(use_text(c, m));
  return note_promises(x, i, m);
}

tc_status tcrun_load_artifact(tc_context *c, run_options *o, model *m) {
  tc_tcx *x;
  TC_TRY(tc_tcx_open(c->allocator, m->path.data, &x));
  // An unwinding past this frame would leave the file open.
  tc_arena_catch catch_;
  tc_status s;
  if (TC_ARENA_CATCH(o->arena, catch_)) s = load(x, c, o, m);
  else s = tc_arena_refusal(o->arena);
  tc_arena_catch_end(o->arena, &catch_);
  tc_tcx_close(x);
  return s;
}
