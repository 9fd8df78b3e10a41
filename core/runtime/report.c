// The page of a compilation: sections in the order in which one asks. Everything that links is a fragment of the page
// or a file beside it.
//
// The graph is drawn in layers (a node one below the lowest of what it reads; Sugiyama, Tagawa, Toda 1981, with one
// sweep of barycentres for the order within a layer). Colours are the operations of the plan that do the nodes
// (parts.h), by the golden angle, so that neighbours differ.
#include "core/runtime/report.h"

#include <stdlib.h>

#include "core/runtime/parts.h"
#include "core/runtime/session_internal.h"

enum { BOX_W = 150, BOX_H = 26, GAP_X = 14, GAP_Y = 26, MARGIN = 10 };

typedef struct segment_view {
  const tc_compiled *x;
  const tc_part *parts;
  int32_t first; // number of its first operation over all segments
} segment_view;

typedef struct page {
  const tc_report *r;
  tc_sb *sb;
  tc_arena *arena;
  tc_sym_ctx *syms;
  segment_view *segments;
  int32_t n_segments;
} page;

// ---- Text ----
static void put_text(tc_sb *sb, tc_sv s) {
  for (size_t i = 0; i < s.size; i++) {
    switch (s.data[i]) {
    case '<': tc_sb_putz(sb, "&lt;"); break;
    case '>': tc_sb_putz(sb, "&gt;"); break;
    case '&': tc_sb_putz(sb, "&amp;"); break;
    case '"': tc_sb_putz(sb, "&quot;"); break;
    default: tc_sb_putc(sb, s.data[i]);
    }
  }
}

static void put_sym(const page *p, const tc_sym *x) {
  tc_sb text = tc_sb_make(p->arena);
  tc_sym_print(&text, x);
  put_text(p->sb, tc_sb_view(&text));
}

static void put_type(const page *p, const tc_tensor_type *t) {
  tc_sb_printf(p->sb, "%s[", tc_dtype_name(t->dtype));
  for (int32_t d = 0; d < t->rank; d++) {
    if (d) tc_sb_putz(p->sb, ", ");
    put_sym(p, t->sizes[d]);
  }
  tc_sb_putc(p->sb, ']');
}

static int32_t hue_of(int32_t op) { return (int32_t)((int64_t)op * 137508 / 1000 % 360); }

static void put_bar(tc_sb *sb, double value, double most) {
  double part = most > 0 ? value / most * 100 : 0;
  tc_sb_printf(sb, "<div class=bar><span style=\"width:%.1f%%\"></span></div>", part < 0.3 ? 0.3 : part);
}

static int64_t at_hint(const page *p, const tc_sym *x) { return x ? tc_sym_hint_or(p->syms, x, 0) : 0; }

static void put_amount(tc_sb *sb, double v, const char *unit) {
  static const char *const steps[] = {"", "k", "M", "G", "T"};
  int32_t k = 0;
  while (v >= 1000 && k < 4) v /= 1000, k++;
  tc_sb_printf(sb, "%.3g %s%s", v, steps[k], unit);
}

// ---- Pipeline ----
static void put_pipeline(const page *p) {
  static const char *const what[TC_STAGE_COUNT] = {
      [TC_STAGE_GRAPH] = "the program as it was read",
      [TC_STAGE_FUNCTIONAL] = "graph passes: mutation and views made pure, decompositions, patterns, folding",
      [TC_STAGE_LOOP] = "lowering: every value a loop over its elements",
      [TC_STAGE_SCHEDULE] = "fusion: which loops share a launch",
      [TC_STAGE_KERNEL] = "(with the plan) launches as blocks and lanes",
      [TC_STAGE_PLAN] = "kernels emitted, memory planned",
      [TC_STAGE_CODE] = "(with the executable) what the device's generator prints",
      [TC_STAGE_EXEC] = "code generated or found in the cache, and loaded"};
  const double *ms = tc_session_stats_of(p->r->session)->ms;
  double most = 0, all = 0;
  for (int32_t i = 0; i < TC_STAGE_COUNT; i++) all += ms[i], most = ms[i] > most ? ms[i] : most;
  tc_sb_printf(p->sb,
               "<h2 id=pipeline>Pipeline</h2><p>Compiled in %.2f ms.</p><table><tr><th>stage<th>ms<th><th>what<th>text",
               all);
  for (int32_t i = 0; i < TC_STAGE_COUNT; i++) {
    tc_sb_printf(p->sb, "<tr><td>%s<td class=n>%.2f<td>", tc_stage_name(i), ms[i]);
    put_bar(p->sb, ms[i], most);
    tc_sb_printf(p->sb, "<td>%s<td>", what[i]);
    for (int32_t k = 0; k < p->r->n_files; k++) {
      const tc_report_file *f = &p->r->files[k];
      if (f->stage == i)
        tc_sb_printf(p->sb, "<a href=\"%s\">%s</a> (%lld lines)", f->name, f->name, (long long)f->lines);
    }
  }
  tc_sb_putz(p->sb, "</table><p>Beside this page: ");
  for (int32_t k = 0, n = 0; k < p->r->n_files; k++) {
    const tc_report_file *f = &p->r->files[k];
    if (f->stage < 0) tc_sb_printf(p->sb, "%s<a href=\"%s\">%s</a>, %s", n++ ? "; " : "", f->name, f->name, f->title);
  }
  tc_sb_putz(p->sb, ".</p>");
}

// ---- A run ----
// The number over all segments of the next operation of that name, from `from` on and round; -1: there is none.
static int32_t find_op(const page *p, tc_sv name, int32_t from) {
  int32_t first = -1;
  for (int32_t i = 0; i < p->n_segments; i++) {
    const tc_plan *plan = p->segments[i].x->plan;
    for (int32_t k = 0; k < plan->ops.count; k++) {
      if (!tc_sv_eq(plan->ops.data[k].name, name)) continue;
      if (p->segments[i].first + k >= from) return p->segments[i].first + k;
      if (first < 0) first = p->segments[i].first + k;
    }
  }
  return first;
}

static void put_run(const page *p) {
  const tc_report *r = p->r;
  tc_sb_putz(p->sb, "<h2 id=run>Where time went</h2>");
  if (!r->launches) {
    tc_sb_putz(p->sb, "<p>The program was not run yet.</p>");
    return;
  }
  double most = 0, sum = 0;
  for (int32_t i = 0; i < r->n_launches; i++) {
    sum += r->launches[i].ms;
    most = r->launches[i].ms > most ? r->launches[i].ms : most;
  }
  tc_sb_printf(
      p->sb,
      "<p>The first run took %.3f ms, %.3f ms of it in %d launches and calls; later ones find caches warm and do "
      "not do again what is done once.</p>"
      "<table><tr><th>launch<th>ms<th><th>part<th>bytes per second<th>operations per second",
      r->run_ms, sum, r->n_launches);
  for (int32_t i = 0, op = -1; i < r->n_launches; i++) {
    const tc_launch_record *x = &r->launches[i];
    double s = x->ms > 0 ? x->ms / 1e3 : 1e-9;
    op = find_op(p, x->name, op + 1);
    tc_sb_putz(p->sb, "<tr><td>");
    if (op >= 0) tc_sb_printf(p->sb, "<a href=\"#k%d\">", op);
    put_text(p->sb, x->name);
    tc_sb_printf(p->sb, "%s%s<td class=n>%.4f<td>", op >= 0 ? "</a>" : "", x->call ? " (call)" : "", x->ms);
    put_bar(p->sb, x->ms, most);
    tc_sb_printf(p->sb, "<td class=n>%.1f %%<td class=n>", sum > 0 ? x->ms / sum * 100 : 0);
    put_amount(p->sb, (double)x->bytes / s, "B/s");
    tc_sb_putz(p->sb, "<td class=n>");
    put_amount(p->sb, (double)x->flops / s, "FLOP/s");
  }
  tc_sb_putz(p->sb, "</table>");
}

// ---- The graph ----
typedef struct box {
  tc_node *node;
  int32_t layer, place; // place: position within the layer
  double want;          // mean place of what it reads
  int32_t op, n_ops;    // the first operation that does it, or -1; how many do
} box;

typedef struct drawing {
  const page *p;
  const segment_view *v;
  box *boxes; // by node id
  int32_t n;
  box *at; // whose arguments are visited
  double sum;
  int32_t count;
} drawing;

static void look_at(void *self, tc_value **place) {
  drawing *d = self;
  const tc_node *def = (*place)->def;
  if (!def || def->id >= d->n || d->boxes[def->id].node != def) return;
  const box *b = &d->boxes[def->id];
  if (b->layer + 1 > d->at->layer) d->at->layer = b->layer + 1;
  d->sum += b->place, d->count++;
}

static int by_want(const void *a, const void *b) {
  const box *x = *(box *const *)a, *y = *(box *const *)b;
  if (x->want != y->want) return x->want < y->want ? -1 : 1;
  return (x->node->id > y->node->id) - (x->node->id < y->node->id);
}

static void lay_out(drawing *d, const tc_graph *g, int32_t *out_layers, int32_t *out_widest) {
  tc_arena *arena = d->p->arena;
  int32_t layers = 0;
  *out_widest = 0;
  for (tc_node *n = g->first; n; n = n->next) {
    d->at = &d->boxes[n->id];
    tc_node_each_value(n, look_at, d);
    if (d->at->layer >= layers) layers = d->at->layer + 1;
  }
  box **row = TC_NEW_ARRAY(arena, box *, d->n + 1);
  int32_t *count = TC_NEW_ARRAY(arena, int32_t, layers + 1), *start = TC_NEW_ARRAY(arena, int32_t, layers + 1);
  for (tc_node *n = g->first; n; n = n->next) count[d->boxes[n->id].layer]++;
  for (int32_t i = 1; i < layers; i++) start[i] = start[i - 1] + count[i - 1];
  for (int32_t i = 0; i < layers; i++) count[i] = 0;
  for (tc_node *n = g->first; n; n = n->next) {
    int32_t layer = d->boxes[n->id].layer;
    row[start[layer] + count[layer]++] = &d->boxes[n->id];
  }
  for (int32_t i = 0; i < layers; i++) {
    for (int32_t k = 0; k < count[i]; k++) {
      d->at = row[start[i] + k], d->sum = 0, d->count = 0;
      tc_node_each_value(d->at->node, look_at, d);
      d->at->want = d->count ? d->sum / d->count : k;
    }
    qsort(row + start[i], (size_t)count[i], sizeof *row, by_want);
    for (int32_t k = 0; k < count[i]; k++) row[start[i] + k]->place = k;
    if (count[i] > *out_widest) *out_widest = count[i];
  }
  *out_layers = layers;
}

static int32_t x_of(const box *b) { return MARGIN + b->place * (BOX_W + GAP_X); }
static int32_t y_of(const box *b) { return MARGIN + b->layer * (BOX_H + GAP_Y); }

static void draw_edge(void *self, tc_value **place) {
  drawing *d = self;
  const tc_node *def = (*place)->def;
  if (!def || def->id >= d->n || d->boxes[def->id].node != def) return;
  const box *from = &d->boxes[def->id], *to = d->at;
  int32_t x1 = x_of(from) + BOX_W / 2, y1 = y_of(from) + BOX_H, x2 = x_of(to) + BOX_W / 2, y2 = y_of(to);
  bool inner = from->op == to->op && from->op >= 0;
  tc_sb_printf(d->p->sb, "<path class=%s d=\"M%d %dC%d %d %d %d %d %d\"/>", inner ? "in" : "out", x1, y1, x1, y1 + 18,
               x2, y2 - 18, x2, y2);
}

static void draw_box(const drawing *d, const box *b) {
  tc_sb *sb = d->p->sb;
  const tc_plan_op *op = b->op >= 0 ? &d->v->x->plan->ops.data[b->op] : NULL;
  if (op) tc_sb_printf(sb, "<a href=\"#k%d\">", d->v->first + b->op);
  tc_sb_putz(sb, "<g><title>");
  put_text(sb, b->node->op->full_name);
  if (b->node->n_results && b->node->results[0]->kind == TC_VALUE_TENSOR) {
    tc_sb_putz(sb, " : ");
    put_type(d->p, &b->node->results[0]->type);
  }
  tc_sb_putc(sb, '\n');
  put_text(sb, b->node->source);
  if (op) {
    tc_sb_putz(sb, "\ndone by @");
    put_text(sb, op->name);
  }
  if (b->n_ops > 1) tc_sb_printf(sb, " and %d more", b->n_ops - 1);
  tc_sb_printf(sb, "</title><rect x=%d y=%d width=%d height=%d rx=4 ", x_of(b), y_of(b), BOX_W, BOX_H);
  if (op) tc_sb_printf(sb, "fill=\"hsl(%d,70%%,82%%)\"/>", hue_of(d->v->first + b->op));
  else tc_sb_putz(sb, "fill=\"#eee\" stroke-dasharray=3 />");
  tc_sb_printf(sb, "<text x=%d y=%d>", x_of(b) + 6, y_of(b) + 17);
  tc_sv name = b->node->n_results ? b->node->results[0]->name : b->node->op->schema.name;
  put_text(sb, tc_sv_sub(name, 0, 20));
  if (b->n_ops > 1) tc_sb_printf(sb, " \xc3\x97%d", b->n_ops);
  tc_sb_printf(sb, "</text></g>%s", op ? "</a>" : "");
}

static void put_graph(const page *p, const segment_view *v) {
  const tc_graph *g = v->x->graph;
  int32_t layers, widest, n = 0;
  for (const tc_node *k = g->first; k; k = k->next) n = k->id >= n ? k->id + 1 : n;
  drawing d = {.p = p, .v = v, .boxes = TC_NEW_ARRAY(p->arena, box, n + 1), .n = n};
  for (tc_node *k = g->first; k; k = k->next) d.boxes[k->id] = (box){.node = k, .op = -1};
  for (int32_t i = 0; i < v->x->plan->ops.count; i++) {
    for (int32_t k = 0; k < v->parts[i].nodes.count; k++) {
      box *b = &d.boxes[v->parts[i].nodes.data[k]->id];
      if (b->n_ops++ == 0) b->op = i;
    }
  }
  lay_out(&d, g, &layers, &widest);
  int32_t width = 2 * MARGIN + widest * (BOX_W + GAP_X), height = 2 * MARGIN + layers * (BOX_H + GAP_Y);
  tc_sb_printf(p->sb, "<div class=graph><svg width=%d height=%d viewBox=\"0 0 %d %d\">", width, height, width, height);
  for (tc_node *k = g->first; k; k = k->next) {
    d.at = &d.boxes[k->id];
    tc_node_each_value(k, draw_edge, &d);
  }
  for (const tc_node *k = g->first; k; k = k->next) draw_box(&d, &d.boxes[k->id]);
  tc_sb_putz(p->sb, "</svg></div>");
}

static void put_graphs(const page *p) {
  tc_sb_putz(
      p->sb,
      "<h2 id=graph>Graph and groups</h2><p>One colour is one launch or call; a node leads to it. Dashed: nobody "
      "needs it in memory or in a kernel of its own (views, what was folded). \xc3\x97N: computed by N of them.</p>");
  for (int32_t i = 0; i < p->n_segments; i++) {
    if (p->n_segments > 1) tc_sb_printf(p->sb, "<h3>Segment %d</h3>", i);
    if (p->segments[i].x->plan && p->segments[i].x->loops) put_graph(p, &p->segments[i]);
  }
}

// ---- Memory ----
static int64_t live_at(const page *p, const tc_plan *plan, int32_t op) {
  int64_t live = 0;
  for (int32_t i = 0; i < plan->bufs.count; i++) {
    const tc_plan_buf *b = &plan->bufs.data[i];
    if (b->kind == TC_PLAN_ARENA && !b->host && b->first <= op && op <= b->last) live += at_hint(p, b->bytes);
  }
  return live;
}

static void put_memory(const page *p, const segment_view *v) {
  enum { HEIGHT = 120 };
  const tc_plan *plan = v->x->plan;
  int64_t arena = at_hint(p, plan->arena_bytes), most = arena > 0 ? arena : 1;
  int32_t n = plan->ops.count, step = n > 0 ? 900 / n : 900;
  step = step < 3 ? 3 : step > 60 ? 60 : step;
  tc_sb_printf(p->sb, "<p>Arena of segment %d: ", (int)(v - p->segments));
  put_sym(p, plan->arena_bytes);
  tc_sb_printf(p->sb, " bytes%s.</p><div class=graph><svg width=%d height=%d>",
               tc_sym_is_const(plan->arena_bytes) ? "" : ", shown for the example's sizes", n * step + 2, HEIGHT + 2);
  for (int32_t i = 0; i < n; i++) {
    int64_t live = live_at(p, plan, i);
    int32_t h = (int32_t)((double)live / (double)most * HEIGHT);
    tc_sb_putz(p->sb, "<g><title>");
    put_text(p->sb, plan->ops.data[i].name);
    tc_sb_printf(
        p->sb, ": %lld of %lld bytes</title><rect x=%d y=%d width=%d height=%d fill=\"hsl(%d,60%%,65%%)\"/></g>",
        (long long)live, (long long)arena, i * step, HEIGHT - h + 1, step - 1, h > 0 ? h : 1, hue_of(v->first + i));
  }
  tc_sb_putz(p->sb, "</svg></div>");
}

// ---- Kernels ----
static void put_details(const page *p, const char *title, tc_sv text) {
  tc_sb_printf(p->sb, "<details><summary>%s</summary><pre>", title);
  put_text(p->sb, text);
  tc_sb_putz(p->sb, "</pre></details>");
}

static void put_buffers(const page *p, const tc_plan *plan, const tc_plan_op *op, bool writes) {
  int32_t n = 0;
  for (int32_t i = 0; i < op->n_args; i++) {
    if (op->args[i].buf < 0 || op->args[i].writes != writes) continue;
    const tc_plan_buf *b = &plan->bufs.data[op->args[i].buf];
    tc_sb_printf(p->sb, "%s%%", n++ ? ", " : writes ? "; writes " : "reads ");
    put_text(p->sb, b->name);
    tc_tensor_type t = {.dtype = b->dtype, .rank = b->rank, .sizes = b->sizes};
    tc_sb_putz(p->sb, " : ");
    put_type(p, &t);
  }
}

// The code, or a link to the first operation that has the same.
static tc_status put_code(const page *p, const segment_view *v, const tc_plan_op *op) {
  const tc_plan *plan = v->x->plan;
  for (int32_t i = 0; &plan->ops.data[i] != op; i++) {
    const tc_plan_op *o = &plan->ops.data[i];
    if (o->kind != TC_PLAN_LAUNCH || o->kernel != op->kernel) continue;
    tc_sb_printf(p->sb, "<p>The same code as <a href=\"#k%d\">@", v->first + i);
    put_text(p->sb, o->name);
    tc_sb_putz(p->sb, "</a>.</p>");
    return TC_OK;
  }
  const tc_session *session = p->r->session;
  const tc_kernel *k = plan->kernels.data[op->kernel]->kernel;
  if (!k) return TC_OK;
  tc_map_entry *e = tc_map_put_ptr(session->code_texts, k, NULL);
  if (!e->value.ptr) {
    tc_sv *made = TC_NEW(p->arena, tc_sv);
    TC_TRY(tc_device_code_text(session->context->device, p->arena, k, made));
    e->value.ptr = made;
  }
  tc_sv code = *(const tc_sv *)e->value.ptr;
  put_details(p, "generated code", code);
  tc_sb text = tc_sb_make(p->arena);
  tc_kernel_print(&text, k);
  put_details(p, "kernel", tc_sb_view(&text));
  return TC_OK;
}

static tc_status put_kernel(const page *p, const segment_view *v, int32_t i) {
  const tc_plan *plan = v->x->plan;
  const tc_plan_op *op = &plan->ops.data[i];
  tc_sb_printf(p->sb, "<section id=k%d><h3><i style=\"background:hsl(%d,70%%,82%%)\"></i>%s @", v->first + i,
               hue_of(v->first + i), tc_plan_op_word(op->kind));
  put_text(p->sb, op->name);
  tc_sb_printf(p->sb, "%s</h3><p>", op->once ? " (done once)" : "");
  put_buffers(p, plan, op, false);
  put_buffers(p, plan, op, true);
  tc_sb_putz(p->sb, "<br>");
  put_sym(p, op->bytes);
  tc_sb_putz(p->sb, " bytes, ");
  put_sym(p, op->flops);
  tc_sb_putz(p->sb, " operations");
  if (op->kind == TC_PLAN_LAUNCH) {
    tc_sb_putz(p->sb, ", ");
    put_sym(p, op->blocks);
    tc_sb_putz(p->sb, " blocks");
  }
  for (int32_t k = 0; k < op->n_variants; k++) {
    tc_sb_putz(p->sb, "<br>another kernel when ");
    put_sym(p, op->variants[k].when);
  }
  tc_sb_putz(p->sb, "</p><ul>");
  for (int32_t k = 0; k < v->parts[i].nodes.count; k++) {
    const tc_node *n = v->parts[i].nodes.data[k];
    tc_sb_putz(p->sb, "<li>%");
    put_text(p->sb, n->n_results ? n->results[0]->name : n->name);
    tc_sb_putz(p->sb, " = ");
    put_text(p->sb, n->op->full_name);
    tc_sb_putz(p->sb, " <small>");
    put_text(p->sb, n->source);
    tc_sb_putz(p->sb, "</small>");
  }
  tc_sb_putz(p->sb, "</ul>");
  if (op->kind == TC_PLAN_LAUNCH) TC_TRY(put_code(p, v, op));
  tc_sb_putz(p->sb, "</section>");
  return TC_OK;
}

static void put_refusals(const page *p) {
  tc_sb_putz(p->sb, "<h2 id=refusals>Not fused</h2><table><tr><th>producer<th>consumer<th>why");
  for (int32_t i = 0; i < p->n_segments; i++) {
    const tc_schedule *s = p->segments[i].x->schedule;
    tc_map *names = s && s->refusals.count ? tc_loops_names(p->sb->arena, s->loops) : NULL;
    for (int32_t k = 0; s && k < s->refusals.count; k++) {
      const tc_refusal *f = &s->refusals.data[k];
      tc_sb_putz(p->sb, "<tr><td>%");
      put_text(p->sb, tc_loops_name(names, f->producer->outs[0]));
      tc_sb_putz(p->sb, "<td>%");
      put_text(p->sb, tc_loops_name(names, f->consumer->outs[0]));
      tc_sb_putz(p->sb, "<td>");
      put_text(p->sb, f->reason);
    }
  }
  tc_sb_putz(p->sb, "</table>");
}

static void put_head(const page *p) {
  static const char head[] = "<!doctype html><html lang=en><meta charset=utf-8><title>tc: ";
  static const char style[] =
      "</title><style>body{font:14px/1.45 system-ui,sans-serif;margin:0 auto;max-width:1100px;padding:0 "
      "24px;color:#222}"
      "nav{position:sticky;top:0;background:#fff;padding:8px 0;border-bottom:1px solid #ccc}nav a{margin-right:14px}"
      "table{border-collapse:collapse}td,th{padding:2px 10px 2px 0;text-align:left;vertical-align:top}"
      ".n{text-align:right;font-variant-numeric:tabular-nums}.bar{width:160px;background:#f2f2f2}"
      ".bar span{display:block;height:12px;margin-top:4px;background:#4a7ebb}.graph{overflow:auto;max-height:80vh;"
      "border:1px solid #ddd}svg text{font:12px monospace}svg rect{stroke:#999;stroke-width:.6}path{fill:none}"
      ".out{stroke:#999}.in{stroke:#333;stroke-width:1.8}pre{overflow:auto;max-height:500px;background:#f7f7f7;"
      "padding:8px}section{border-top:1px solid #ddd}section:target{background:#fffbe6}h3 i{display:inline-block;"
      "width:14px;height:14px;margin-right:8px;border:1px solid #999}small{color:#777}</style>";
  const tc_context *c = p->r->session->context;
  const tc_session_stats *q = tc_session_stats_of(p->r->session);
  tc_sb_putz(p->sb, head);
  put_text(p->sb, p->r->name);
  tc_sb_putz(p->sb, style);
  tc_sb_putz(p->sb, "<h1>");
  put_text(p->sb, p->r->name);
  tc_sb_putz(p->sb, "</h1><p>tc " TC_CORE_VERSION ", backend ");
  put_text(p->sb, c->backend);
  if (c->device) {
    tc_sb_putz(p->sb, " (");
    put_text(p->sb, tc_sv_of(c->device->props.name));
    tc_sb_putz(p->sb, ")");
  }
  tc_sb_putz(p->sb, ", mode ");
  put_text(p->sb, tc_config_text(c->config, TC_OPT_ID_MODE));
  tc_sb_printf(
      p->sb,
      ": %d nodes, %d segments, %d kernels (%d from the cache), %d nodes left to the references, %d of control "
      "flow.</p><nav><a href=\"#pipeline\">pipeline</a><a href=\"#run\">time</a><a href=\"#graph\">graph</a><a "
      "href=\"#memory\">memory</a><a href=\"#kernels\">kernels</a><a href=\"#refusals\">not fused</a></nav>",
      p->r->session->graph->n_nodes, q->segments, q->compile.kernels, q->compile.hits, q->fallbacks, q->controls);
}

static void put_fallbacks(const page *p) {
  for (int32_t i = 0; tc_session_fallback(p->r->session, i); i++) {
    tc_sb_putz(p->sb, "<p>Left to the references: ");
    put_text(p->sb, tc_sv_of(tc_session_fallback(p->r->session, i)));
    tc_sb_putz(p->sb, "</p>");
  }
}

tc_status tc_report_print(const tc_report *r, tc_sb *sb) {
  const tc_session *s = r->session;
  page p = {.r = r, .sb = sb, .arena = s->arena, .syms = s->graph->module->syms};
  p.segments = TC_NEW_ARRAY(p.arena, segment_view, tc_session_segment_count(s) + 1);
  for (int32_t i = 0, first = 0; i < tc_session_segment_count(s); i++) {
    const tc_compiled *x = tc_session_segment(s, i);
    if (!x->plan) continue;
    p.segments[p.n_segments++] = (segment_view){x, tc_plan_parts(x->loops, x->plan), first};
    first += x->plan->ops.count;
  }
  put_head(&p);
  put_fallbacks(&p);
  put_pipeline(&p);
  put_run(&p);
  put_graphs(&p);
  tc_sb_putz(sb, "<h2 id=memory>Memory over time</h2>");
  for (int32_t i = 0; i < p.n_segments; i++) put_memory(&p, &p.segments[i]);
  tc_sb_putz(sb, "<h2 id=kernels>Launches and calls</h2>");
  for (int32_t i = 0; i < p.n_segments; i++)
    for (int32_t k = 0; k < p.segments[i].x->plan->ops.count; k++) TC_TRY(put_kernel(&p, &p.segments[i], k));
  put_refusals(&p);
  tc_sb_putz(sb, "</html>\n");
  return TC_OK;
}
