// Checking a run part by part. Each part is a graph of its own, made when the check is; during a run the values that
// operations leave in memory are copied to the host, where they are the inputs of the parts behind them.
#include "core/runtime/self_check.h"

#include "core/base/fs.h"
#include "core/ir/spread.h"
#include "core/runtime/parts.h"
#include "core/runtime/session_internal.h"
#include "core/tensor/files.h"

typedef struct checked_part {
  const tc_plan_op *op;
  const tc_part *part;
  tc_extract x;    // its nodes as a graph
  int32_t *output; // by value of the part: number of the graph's output, or -1
  // Of the run that is compared: inputs and symbols, and what the references make of them.
  tc_tensor *inputs, *want, *wide, *spread; // the last where something differs at first sight
} checked_part;

typedef struct checked_segment {
  const tc_graph *graph;
  const tc_plan *plan;
  checked_part *parts; // by operation
} checked_segment;

struct tc_self_check {
  tc_session *s;
  tc_self_check_options o;
  const tc_allocator *allocator;
  tc_arena *arena; // the module's
  tc_session_watch watch;
  checked_segment *segments;
  int32_t n_segments, at; // the one that runs
  tc_map *have;           // tc_value * → tc_tensor *: what this run has left in memory
  tc_ref_options ref;
  int32_t compared, all;
};

// ---- Values ----
static void forget(tc_self_check *k) {
  for (int32_t i = 0; i < tc_map_count(k->have); i++) {
    tc_tensor *t = tc_map_at(k->have, i)->value.ptr;
    if (t) tc_tensor_unref(t);
  }
}

// Room for all that is kept is made in front: a run is not left by unwinding.
static void make_room(tc_self_check *k, const tc_value *v) {
  tc_map_entry *e = tc_map_put_ptr(k->have, v, NULL);
  if (!e->value.ptr) e->value.ptr = TC_NEW(k->arena, tc_tensor);
}

// Takes the tensor over.
static void keep(tc_self_check *k, const tc_value *v, tc_tensor t) {
  tc_tensor *place = tc_map_find_ptr(k->have, v)->value.ptr;
  tc_tensor_unref(place);
  *place = t;
}

// ---- Parts ----
static void make_part(tc_self_check *k, const checked_segment *g, const tc_plan_op *op, const tc_part *part,
                      checked_part *out) {
  *out = (checked_part){.op = op, .part = part};
  if (part->values.count == 0) return;
  tc_graph_extract((tc_graph *)(uintptr_t)g->graph, part->nodes.count, part->nodes.data, true, &out->x);
  out->inputs = TC_NEW_ARRAY(k->arena, tc_tensor, out->x.n_inputs + out->x.n_symbols + 1);
  out->want = TC_NEW_ARRAY(k->arena, tc_tensor, out->x.graph->outputs.count + 1);
  out->wide = TC_NEW_ARRAY(k->arena, tc_tensor, out->x.graph->outputs.count + 1);
  out->spread = TC_NEW_ARRAY(k->arena, tc_tensor, out->x.graph->outputs.count + 1);
  out->output = TC_NEW_ARRAY(k->arena, int32_t, part->values.count);
  for (int32_t i = 0; i < part->values.count; i++) {
    out->output[i] = -1;
    make_room(k, part->values.data[i].value);
    for (int32_t q = 0; q < out->x.n_outputs; q++)
      if (out->x.outputs[q] == part->values.data[i].value) out->output[i] = q;
  }
}

static void make_segment(tc_self_check *k, const tc_compiled *x, checked_segment *out) {
  *out = (checked_segment){.graph = x->graph, .plan = x->plan};
  const tc_part *parts = tc_plan_parts(x->loops, x->plan);
  for (int32_t i = 0; i < x->graph->inputs.count; i++)
    if (x->graph->inputs.data[i].value) make_room(k, x->graph->inputs.data[i].value);
  out->parts = TC_NEW_ARRAY(k->arena, checked_part, x->plan->ops.count + 1);
  for (int32_t i = 0; i < x->plan->ops.count; i++) make_part(k, out, &x->plan->ops.data[i], &parts[i], &out->parts[i]);
}

// ---- What is there ----
// What kernels may change is copied before they do.
static tc_status begin(void *self, int32_t segment, const tc_tensor *inputs) {
  tc_self_check *k = self;
  k->at = segment;
  if (segment == 0) k->compared = k->all = 0;
  forget(k);
  const tc_graph *g = k->segments[segment].graph;
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_tensor *t = &inputs[i];
    tc_tensor own = {0};
    if (!g->inputs.data[i].value || !t->storage) continue;
    tc_device *d = k->s->context->device;
    if (t->storage->device) {
      TC_TRY(tc_tensor_to_host(d, t, &own));
    } else {
      TC_TRY(tc_tensor_create_strided(k->allocator, t->dtype, t->rank, t->sizes, t->strides, &own));
      own.conj = t->conj, own.neg = t->neg;
      tc_status s = tc_tensor_copy(t, &own);
      if (s != TC_OK) {
        tc_tensor_unref(&own);
        return s;
      }
    }
    keep(k, g->inputs.data[i].value, own);
  }
  return TC_OK;
}

// A value that the operation has left in memory, as the graph sees it.
static tc_status read_value(const tc_exec_moment *m, const tc_part_value *v, tc_tensor *out) {
  const tc_tensor_type *t = &v->value->type;
  int64_t sizes[TC_MAX_RANK], strides[TC_MAX_RANK], offset;
  for (int32_t d = 0; d < t->rank; d++) {
    TC_TRY(tc_exec_eval(m, t->sizes[d], &sizes[d]));
    TC_TRY(tc_exec_eval(m, v->strides[d], &strides[d]));
  }
  TC_TRY(tc_exec_eval(m, v->offset, &offset));
  tc_storage *bytes;
  TC_TRY(tc_exec_read(m, v->buf, &bytes));
  tc_status s = tc_tensor_view(bytes, t->dtype, t->rank, sizes, strides, offset, out);
  tc_storage_unref(bytes);
  return s;
}

// ---- A part on the references ----
static void end_part(const checked_part *p) {
  for (int32_t i = 0; i < p->x.n_symbols; i++) tc_tensor_unref(&p->inputs[p->x.n_inputs + i]);
  for (int32_t i = 0; i < p->x.graph->outputs.count; i++) {
    tc_tensor_unref(&p->want[i]);
    tc_tensor_unref(&p->wide[i]);
    tc_tensor_unref(&p->spread[i]);
  }
}

// *out_known: all that the part reads is there.
static tc_status find_inputs(tc_self_check *k, const checked_part *p, const tc_exec_moment *m, bool *out_known) {
  *out_known = true;
  for (int32_t i = 0; i < p->x.n_inputs; i++) {
    const tc_map_entry *e = tc_map_find_ptr(k->have, p->x.inputs[i]);
    const tc_tensor *t = e ? e->value.ptr : NULL;
    if (!t || !t->storage) *out_known = false;
    else p->inputs[i] = *t;
  }
  for (int32_t i = 0; i < p->x.n_symbols && *out_known; i++) {
    int64_t v;
    TC_TRY(tc_exec_eval(m, p->x.symbols[i], &v));
    TC_TRY(tc_tensor_create(k->allocator, TC_I64, 0, NULL, &p->inputs[p->x.n_inputs + i]));
    *(int64_t *)tc_tensor_data(&p->inputs[p->x.n_inputs + i]) = v;
  }
  return TC_OK;
}

// ---- What differs ----
static tc_status write_files(tc_self_check *k, const checked_part *p, tc_sv *out_path) {
  tc_graph *g = p->x.graph;
  tc_sb sb = tc_sb_make(k->arena);
  int32_t n = p->x.n_inputs + p->x.n_symbols, leaf = 0;
  tc_tensor_list list = {.items = TC_NEW_ARRAY(k->arena, tc_named_tensor, n + g->outputs.count)};
  for (int32_t i = 0; i < n; i++) {
    tc_graph_input *in = &g->inputs.data[i];
    in->kind = TC_IN_USER, in->target = in->value->name;
    list.items[list.count++] = (tc_named_tensor){tc_sv_printf(k->arena, "in.%d", i), p->inputs[i]};
  }
  for (int32_t i = 0; i < g->outputs.count; i++)
    if (g->outputs.data[i].kind == TC_OUT_USER)
      list.items[list.count++] = (tc_named_tensor){tc_sv_printf(k->arena, "out.%d", leaf++), p->want[i]};
  tc_graph_print(&sb, g);
  *out_path = tc_sv_printf(k->arena, TC_SV_FMT ".tc", TC_SV_ARG(k->o.stem));
  TC_TRY(tc_file_write(out_path->data, sb.text, sb.size));
  return tc_tensors_write(k->arena, tc_sv_printf(k->arena, TC_SV_FMT ".safetensors", TC_SV_ARG(k->o.stem)).data, &list);
}

// Which part it is, what it does, and where its inputs are; nothing if there is no memory for the words.
typedef struct telling {
  tc_self_check *k;
  const checked_part *p;
  const tc_value *v;
  tc_sv text;
} telling;
static tc_status describe(void *arg) {
  telling *t = arg;
  tc_self_check *k = t->k;
  const checked_part *p = t->p;
  tc_sb sb = tc_sb_make(k->arena);
  tc_sv path = {0};
  tc_sb_printf(&sb, "%s @" TC_SV_FMT " is the first that differs from the references, in %%" TC_SV_FMT "; it does",
               p->op->kind == TC_PLAN_LAUNCH ? "the kernel" : "the call", TC_SV_ARG(p->op->name),
               TC_SV_ARG(t->v->name));
  for (int32_t i = 0; i < p->part->nodes.count; i++) {
    const tc_node *n = p->part->nodes.data[i];
    tc_sb_printf(&sb, "\n  %%" TC_SV_FMT " = " TC_SV_FMT "%s" TC_SV_FMT,
                 TC_SV_ARG(n->n_results ? n->results[0]->name : n->name), TC_SV_ARG(n->op->full_name),
                 n->source.size ? "  # " : "", TC_SV_ARG(n->source));
  }
  t->text = tc_sb_view(&sb);
  if (k->o.stem.size) TC_TRY(write_files(k, p, &path));
  if (path.size)
    tc_sb_printf(&sb, "\nsaved with its inputs: " TC_SV_FMT "; again: tcrun check " TC_SV_FMT " --backend=" TC_SV_FMT,
                 TC_SV_ARG(path), TC_SV_ARG(path), TC_SV_ARG(k->s->context->backend));
  t->text = tc_sb_view(&sb);
  return TC_OK;
}

static tc_status tell(tc_self_check *k, const checked_part *p, const tc_value *v, tc_status why) {
  telling t = {.k = k, .p = p, .v = v};
  tc_status failed = tc_arena_guard(k->arena, describe, &t);
  why = tc_status_note(why, TC_SV_FMT, TC_SV_ARG(t.text));
  if (failed != TC_OK) why = tc_status_note(why, "its inputs cannot be saved: %s", tc_status_text(failed));
  tc_status_free(failed);
  return why;
}

typedef struct comparison {
  tc_self_check *k;
  const checked_part *p;
  bool done;
} comparison;
static tc_status run_part(void *arg) {
  const comparison *c = arg;
  const checked_part *p = c->p;
  int32_t n = p->x.n_inputs + p->x.n_symbols;
  tc_ref_options wide = c->k->ref;
  wide.wide = true;
  TC_TRY(tc_ref_run(p->x.graph, c->k->allocator, n, p->inputs, p->want, &c->k->ref));
  return tc_ref_run(p->x.graph, c->k->allocator, n, p->inputs, p->wide, &wide);
}

// A value that differs is looked at a second time, with what rounding its operands changes. `*known`: that was found.
static tc_status compare_value(tc_self_check *k, const checked_part *p, const tc_tensor *got, int32_t output,
                               bool *known) {
  const tc_tensor *want = &p->want[output], *wide = &p->wide[output];
  tc_status s = k->o.compare(k->o.self, got, want, wide, NULL);
  if (tc_status_code(s) != TC_STATUS_MISMATCH) return s;
  int32_t n = p->x.n_inputs + p->x.n_symbols;
  if (!*known) {
    tc_status found = tc_ref_spread(p->x.graph, k->allocator, n, p->inputs, p->wide, p->spread, &k->ref);
    *known = found == TC_OK;
    tc_status_free(found); // what cannot be told does not excuse it
  }
  if (!*known) return s;
  tc_status_free(s);
  return k->o.compare(k->o.self, got, want, wide, &p->spread[output]);
}

static tc_status compare_part(tc_self_check *k, const checked_part *p, const tc_exec_moment *m) {
  bool known, spread_known = false;
  TC_TRY(find_inputs(k, p, m, &known));
  if (!known) return TC_OK;
  comparison c = {.k = k, .p = p};
  TC_TRY(tc_arena_guard(k->arena, run_part, &c), "while checking @" TC_SV_FMT " on the references",
         TC_SV_ARG(p->op->name));
  for (int32_t i = 0; i < p->part->values.count; i++) {
    const tc_value *v = p->part->values.data[i].value;
    int32_t output = p->output[i];
    if (output < 0) continue;
    tc_status s = compare_value(k, p, tc_map_find_ptr(k->have, v)->value.ptr, output, &spread_known);
    if (s != TC_OK) return tc_status_code(s) == TC_STATUS_MISMATCH ? tell(k, p, v, s) : s;
  }
  k->compared++;
  return TC_OK;
}

static tc_status after(void *self, const tc_exec_moment *m, int32_t op) {
  tc_self_check *k = self;
  const checked_part *p = &k->segments[k->at].parts[op];
  k->all++;
  for (int32_t i = 0; i < p->part->values.count; i++) {
    tc_tensor t;
    TC_TRY(read_value(m, &p->part->values.data[i], &t));
    keep(k, p->part->values.data[i].value, t);
  }
  if (p->part->values.count == 0) return TC_OK;
  tc_status s = compare_part(k, p, m);
  end_part(p);
  return s;
}

// ---- Making one ----
typedef struct creation {
  tc_session *s;
  const tc_self_check_options *o;
  tc_self_check *k;
} creation;
static tc_status create(void *arg) {
  creation *c = arg;
  tc_arena *arena = c->s->arena;
  tc_self_check *k = TC_NEW(arena, tc_self_check);
  *k = (tc_self_check){.s = c->s, .o = *c->o, .allocator = c->s->context->allocator, .arena = arena};
  k->have = tc_map_create(arena);
  k->watch = (tc_session_watch){begin, {after, k}};
  k->n_segments = tc_session_segment_count(c->s);
  k->segments = TC_NEW_ARRAY(arena, checked_segment, k->n_segments + 1);
  for (int32_t i = 0; i < k->n_segments; i++) make_segment(k, tc_session_segment(c->s, i), &k->segments[i]);
  c->k = k;
  return TC_OK;
}

tc_status tc_self_check_create(tc_session *s, const tc_self_check_options *o, tc_self_check **out) {
  creation c = {.s = s, .o = o};
  *out = NULL;
  TC_TRY(tc_arena_guard(s->arena, create, &c));
  *out = c.k;
  return TC_OK;
}

void tc_self_check_destroy(tc_self_check *k) {
  if (k) forget(k);
}

const tc_session_watch *tc_self_check_watch(tc_self_check *k, uint64_t seed, uint64_t stream) {
  k->ref = (tc_ref_options){.seed = seed, .stream = stream};
  return &k->watch;
}

void tc_self_check_counts(const tc_self_check *k, int32_t *out_compared, int32_t *out_all) {
  *out_compared = k->compared, *out_all = k->all;
}
