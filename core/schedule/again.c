// Values that are computed again by who reads them late, so that they need not be kept.
//
// A value that one kernel stores and another reads much later is alive in between. Where it is cheap pointwise work on
// buffers that are in memory, the late reader may do that work itself: the activation that a backward pass reads
// beside its own argument, say. It is worth it where the program then needs less memory at its peak, which is asked of
// the order of groups with changed reads (spare.c), the largest values first; never for a reduction, a product or
// random numbers, never where more would be read or computed than the value has elements. Where a program has several
// peaks of one height, as layers make them, no value lowers all of them: then a few are taken that lower one, and kept
// if the peak falls in the end.
//
// What was chosen is then done to the loops: readers get a copy of the node, which is inlined into them; a node that
// all readers compute again is inlined itself. The loops are scheduled once more, and if that schedule does not need
// less, all is as it was. Sizes that are symbols count as those of the example.
#include <string.h>

#include "core/loop/lo.h"
#include "core/schedule/spare.h"

enum { MOST_COST = 64, MOST_TRIED = 8, MOST_CHOICES = 16, MOST_LEAVES = 4, TRIAL_STEPS = 1 << 17, LEAST_SHARE = 64 };
enum { MOST_LEVEL = 3, LEVEL_SHARE = 16 }; // values that may be chosen while the peak stays

typedef struct choice {
  int32_t value;
  tc_ints groups; // that compute it again
  int32_t n_leaves;
  int32_t leaves[MOST_LEAVES]; // values that they read instead
} choice;

typedef struct finder {
  tc_sched *x;
  tc_flow flow;
  tc_spare s;
  int32_t *order, *out; // the schedule's own order; that of a trial
  int32_t *value_of;    // by buffer id: + 1
  bool *settled;        // by value: chosen, or read by what was chosen
  int32_t *seen, stamp; // by node id
  TC_VEC(choice) choices;
  int32_t lowering; // how many of them lower the peak at all
} finder;

static bool has(const tc_ints *v, int32_t i) {
  for (int32_t k = 0; k < v->count; k++)
    if (v->data[k] == i) return true;
  return false;
}

static int64_t points(const tc_sched *x, const tc_lnode *n) {
  return tc_sym_hint_or(x->l->syms, tc_product(x->l, n->n_par + n->n_red, n->extents), INT64_MAX);
}

// The groups in which a node ends up, through inlined ones; false if the value would be an operand of what reads its
// operands more than once, or is not in a group any more.
static bool ends_in(finder *f, const tc_lnode *n, tc_ints *out) {
  tc_sched *x = f->x;
  if (!x->inlined[n->id]) {
    const tc_group *g = x->group_of[n->id];
    if (n->kind > TC_LN_REDUCE || g->id >= f->s.n || x->s->groups.data[g->id] != g) return false;
    if (!has(out, g->id)) tc_vec_push(x->arena, out, g->id);
    return true;
  }
  if (f->seen[n->id] == f->stamp) return true;
  f->seen[n->id] = f->stamp;
  const tc_users *u = &x->users[n->outs[0]->id];
  for (int32_t i = 0; i < u->nodes.count; i++)
    if (!ends_in(f, u->nodes.data[i], out)) return false;
  return true;
}

// What the node reads from memory, through inlined ones; false if that is not all there, or too much.
static bool find_leaves(finder *f, const tc_lnode *n, choice *c, int64_t *bytes) {
  for (int32_t k = 0; k < n->body.insts.count; k++) {
    const tc_binst *b = &n->body.insts.data[k];
    if (b->op != TC_B_LOAD) continue;
    if (b->gather || b->buf->overwritten) return false;
    if (b->buf->def && f->x->inlined[b->buf->def->id]) {
      if (!find_leaves(f, b->buf->def, c, bytes)) return false;
      continue;
    }
    int32_t v = f->value_of[b->buf->id] - 1, i = 0;
    if (!b->buf->strides) return false;
    while (i < c->n_leaves && c->leaves[i] != v) i++;
    if (v >= 0 && i < c->n_leaves) continue;
    *bytes += tc_buf_hint_bytes(f->x->l, b->buf);
    if (v < 0) continue; // an input, or made once
    if (i == MOST_LEAVES || !f->s.values.data[v].bytes) return false;
    c->leaves[c->n_leaves++] = v;
  }
  return true;
}

// May the group compute the value itself, wherever its nodes read it?
static bool may_compute(finder *f, int32_t group, const tc_lnode *n) {
  const tc_sched *x = f->x;
  const tc_users *u = &x->users[n->outs[0]->id];
  for (int32_t i = 0; i < u->nodes.count; i++) {
    const tc_lnode *user = u->nodes.data[i];
    tc_ints groups = {0};
    f->stamp++;
    bool known = ends_in(f, user, &groups);
    if (!known && (x->inlined[user->id] || x->group_of[user->id] == x->s->groups.data[group])) return false;
    if (has(&groups, group) && (groups.count > 1 || points(x, user) > points(x, n))) return false;
  }
  return true;
}

// Which groups may compute the value again: c->groups, by their order.
static bool is_candidate(finder *f, int32_t v, choice *c) {
  const tc_spare_value *q = &f->s.values.data[v];
  const tc_lnode *n = q->buf->def;
  int64_t bytes = 0;
  *c = (choice){.value = v};
  if (q->stays || q->buf->placed || n->kind != TC_LN_POINTWISE || n->n_outs > 1 || n->keep || n->store) return false;
  if (f->x->cost[n->id] > MOST_COST || !find_leaves(f, n, c, &bytes) || bytes > q->bytes + q->bytes / 8) return false;
  for (int32_t i = 0; i < f->s.n; i++)
    if (has(&q->readers, i) && may_compute(f, i, n)) tc_vec_push(f->x->arena, &c->groups, i);
  return c->groups.count > 0;
}

// ---- trials ----
static tc_ints without(finder *f, const tc_ints *v, const tc_ints *out) {
  tc_ints r = {0};
  for (int32_t i = 0; i < v->count; i++)
    if (!has(out, v->data[i])) tc_vec_push(f->x->arena, &r, v->data[i]);
  return r;
}

// Reads the leaves in place of the value from here on.
static void choose(finder *f, const choice *c) {
  tc_spare_value *values = f->s.values.data;
  tc_ints self = {&(int32_t){c->value}, 1, 1};
  values[c->value].readers = without(f, &values[c->value].readers, &c->groups);
  if (!values[c->value].readers.count) values[c->value].bytes = 0;
  for (int32_t i = 0; i < c->groups.count; i++) {
    int32_t g = c->groups.data[i];
    f->s.reads[g] = without(f, &f->s.reads[g], &self);
    for (int32_t k = 0; k < c->n_leaves; k++) {
      tc_spare_value *leaf = &values[c->leaves[k]];
      if (has(&f->s.reads[g], c->leaves[k]) || leaf->writer == g) continue;
      tc_ints none = {0};
      f->s.reads[g] = without(f, &f->s.reads[g], &none), leaf->readers = without(f, &leaf->readers, &none);
      tc_vec_push(f->x->arena, &f->s.reads[g], c->leaves[k]);
      tc_vec_push(f->x->arena, &leaf->readers, g);
    }
  }
}

static double over_level(finder *f, const int32_t *order, int64_t level) {
  double sum = 0;
  tc_spare_measure(&f->s, order);
  for (int32_t i = 0; i < f->s.n; i++)
    if (f->s.alive[i] > level) sum += (double)(f->s.alive[i] - level);
  return sum;
}

// The peak with a choice; *out_over: what is beyond `level`, summed over time.
static int64_t peak_with(finder *f, const choice *c, int64_t level, double *out_over) {
  size_t n_values = (size_t)f->s.values.count * sizeof *f->s.values.data, n_reads = (size_t)f->s.n * sizeof(tc_ints);
  tc_spare_value *values = tc_arena_copy(f->x->arena, f->s.values.data, n_values);
  tc_ints *reads = tc_arena_copy(f->x->arena, f->s.reads, n_reads);
  choose(f, c);
  int64_t peak = tc_spare_search(&f->s, f->order, TRIAL_STEPS, f->out).peak;
  *out_over = over_level(f, f->out, level);
  memcpy(f->s.values.data, values, n_values);
  memcpy(f->s.reads, reads, n_reads);
  return peak;
}

// The values with most bytes.
static int32_t largest(finder *f, int64_t least, choice *out) {
  int32_t n = 0;
  for (int32_t v = 0; v < f->s.values.count; v++) {
    const tc_spare_value *q = &f->s.values.data[v];
    choice c;
    if (f->settled[v] || q->bytes < least || !is_candidate(f, v, &c)) continue;
    int32_t at = n < MOST_TRIED ? n++ : MOST_TRIED;
    for (; at > 0 && f->s.values.data[out[at - 1].value].bytes < q->bytes; at--)
      if (at < MOST_TRIED) out[at] = out[at - 1];
    if (at < MOST_TRIED) out[at] = c;
  }
  return n;
}

// The choice with the lowest peak, or, if none has a lower one, the cheapest of those with which least is beyond
// `level`; value -1: none. `pending`: values were chosen while the peak stayed; then the cheapest with the lowest peak.
static choice find_best(finder *f, int64_t before, int64_t level, bool pending, int64_t *out_peak) {
  choice tried[MOST_TRIED], best = {.value = -1}, lower = {.value = -1};
  int32_t n = largest(f, before / LEAST_SHARE, tried), cost = INT32_MAX, best_cost = INT32_MAX;
  const double now = over_level(f, f->order, level);
  double least = now;
  *out_peak = before;
  for (int32_t i = 0; i < n; i++) {
    for (int32_t all = 0; all < 2; all++) { // the last of its readers, or all that may
      choice c = tried[i];
      double over;
      int32_t c_cost = f->x->cost[f->s.values.data[c.value].buf->def->id];
      if (!all) c.groups = (tc_ints){&c.groups.data[c.groups.count - 1], 1, 1};
      else if (c.groups.count == 1) break;
      int64_t p = peak_with(f, &c, level, &over);
      if (p < *out_peak || (pending && p < before && p == *out_peak && c_cost < best_cost))
        best = c, *out_peak = p, best_cost = c_cost;
      if (p > before || over >= now || over > least || (over == least && c_cost >= cost)) continue;
      lower = c, least = over, cost = c_cost;
    }
  }
  return best.value >= 0 && tc_spare_worth(*out_peak, before) ? best : (*out_peak = before, lower);
}

static void find_choices(finder *f, int64_t before) {
  int64_t kept_peak = before;
  int32_t kept = 0;
  while (f->choices.count < MOST_CHOICES && f->choices.count - kept <= MOST_LEVEL) {
    int64_t peak;
    choice best = find_best(f, before, before - before / LEVEL_SHARE, f->choices.count > kept, &peak);
    if (best.value < 0) break;
    choose(f, &best);
    tc_vec_push(f->x->arena, &f->choices, best);
    f->settled[best.value] = true;
    for (int32_t k = 0; k < best.n_leaves; k++) f->settled[best.leaves[k]] = true;
    // Several values must be worth more than one.
    bool worth = f->choices.count - kept == 1 || peak <= kept_peak - kept_peak / LEVEL_SHARE;
    if (peak < before && worth) kept = f->choices.count, kept_peak = peak;
    if (!f->lowering) f->lowering = kept;
    before = peak;
  }
  f->choices.count = kept;
}

// ---- loops ----
typedef struct rewrite {
  tc_lnode *node;
  tc_binsts insts; // as they were
} rewrite;
typedef TC_VEC(rewrite) rewrites;

static const tc_sym *over(tc_loops *l, const tc_sym *x, const tc_lnode *n, const tc_sym *const *vars) {
  return x ? tc_sym_replace(l->syms, x, n->n_par, n->vars, vars) : NULL;
}

// Of a pointwise node, with variables and a result of its own.
static tc_lnode *copy_of(tc_loops *l, const tc_lnode *n) {
  tc_lnode *o = TC_NEW(l->arena, tc_lnode);
  tc_buf *b = tc_loops_buf(l, n->outs[0]->name, n->outs[0]->dtype, n->outs[0]->rank, n->outs[0]->sizes);
  b->prefer = n->outs[0]->prefer, b->def = o;
  *o = *n;
  o->outs = tc_arena_copy(l->arena, &b, sizeof(tc_buf *));
  const tc_sym **vars = TC_NEW_ARRAY(l->arena, const tc_sym *, n->n_par);
  for (int32_t d = 0; d < n->n_par; d++) vars[d] = tc_loop_var(l, "i", n->extents[d]);
  o->vars = vars;
  tc_binsts insts = {0};
  for (int32_t k = 0; k < n->body.insts.count; k++) {
    tc_binst i = n->body.insts.data[k];
    const tc_sym **index = TC_NEW_ARRAY(l->arena, const tc_sym *, i.buf ? i.buf->rank : 0);
    for (int32_t d = 0; i.buf && d < i.buf->rank; d++) index[d] = over(l, i.index[d], n, vars);
    if (i.buf) i.index = index;
    i.cond = over(l, i.cond, n, vars), i.expr = over(l, i.expr, n, vars);
    tc_vec_push(l->arena, &insts, i);
  }
  o->body.insts = insts;
  return o;
}

// The nodes that end up in the chosen groups read the copy.
static void redirect(finder *f, const choice *c, const tc_buf *from, const tc_buf *to, rewrites *undo) {
  tc_sched *x = f->x;
  const tc_users *u = &x->users[from->id];
  for (int32_t i = 0; i < u->nodes.count; i++) {
    tc_lnode *n = u->nodes.data[i];
    tc_ints groups = {0};
    f->stamp++;
    if (!ends_in(f, n, &groups) || !groups.count || !has(&c->groups, groups.data[0])) continue;
    rewrite r = {n, n->body.insts};
    tc_vec_push(x->arena, undo, r);
    tc_binsts insts = {0};
    for (int32_t k = 0; k < r.insts.count; k++) {
      tc_binst b = r.insts.data[k];
      if (b.buf == from) b.buf = to;
      tc_vec_push(x->arena, &insts, b);
    }
    n->body.insts = insts;
  }
}

// Which nodes are computed in every reader, and the nodes with copies among them.
static void apply(finder *f, tc_map *again, rewrites *undo) {
  tc_loops *l = f->x->l;
  tc_map *copies = tc_map_create(l->arena);
  for (int32_t i = 0; i < f->choices.count; i++) {
    const choice *c = &f->choices.data[i];
    const tc_spare_value *v = &f->s.values.data[c->value];
    tc_lnode *n = v->buf->def;
    bool elsewhere = v->readers.count > 0;
    const tc_users *u = &f->x->users[v->buf->id];
    for (int32_t k = 0; k < u->nodes.count; k++) {
      tc_ints groups = {0};
      f->stamp++;
      elsewhere |= !ends_in(f, u->nodes.data[k], &groups) || has(&groups, v->writer);
    }
    if (elsewhere) {
      tc_lnode *o = copy_of(l, n);
      tc_map_put_ptr(copies, n, NULL)->value.ptr = o;
      redirect(f, c, n->outs[0], o->outs[0], undo);
      n = o;
    }
    tc_map_put_ptr(again, n, NULL);
  }
  int32_t count = l->nodes.count;
  tc_lnode **nodes = l->nodes.data;
  l->nodes.data = NULL, l->nodes.count = l->nodes.capacity = 0;
  for (int32_t i = 0; i < count; i++) {
    tc_vec_push(l->arena, &l->nodes, nodes[i]);
    tc_map_entry *e = tc_map_find_ptr(copies, nodes[i]);
    if (e) tc_vec_push(l->arena, &l->nodes, (tc_lnode *)e->value.ptr);
  }
}

static bool open(finder *f, tc_sched *x) {
  *f = (finder){.x = x};
  tc_sched_flow(x, &f->flow);
  if (!tc_spare_open(x, &f->flow, &f->s)) return false;
  f->order = TC_NEW_ARRAY(x->arena, int32_t, f->s.n), f->out = TC_NEW_ARRAY(x->arena, int32_t, f->s.n);
  for (int32_t i = 0; i < f->s.n; i++) f->order[i] = i;
  f->value_of = TC_NEW_ARRAY(x->arena, int32_t, x->l->bufs.count);
  for (int32_t v = 0; v < f->s.values.count; v++) f->value_of[f->s.values.data[v].buf->id] = v + 1;
  f->settled = TC_NEW_ARRAY(x->arena, bool, f->s.values.count);
  f->seen = TC_NEW_ARRAY(x->arena, int32_t, x->l->nodes.count);
  return true;
}

// How buffers lie, which scheduling decides.
typedef struct lie {
  const tc_sym *const *strides;
  bool planar;
} lie;

static void set_lies(tc_loops *l, int32_t n, const lie *v) {
  for (int32_t i = 0; i < n; i++) l->bufs.data[i]->strides = v[i].strides, l->bufs.data[i]->planar = v[i].planar;
}

const void *tc_sched_lies(tc_loops *l) {
  lie *v = TC_NEW_ARRAY(l->arena, lie, l->bufs.count);
  for (int32_t i = 0; i < l->bufs.count; i++) v[i] = (lie){l->bufs.data[i]->strides, l->bufs.data[i]->planar};
  return v;
}

// Schedules the loops with what was chosen; if that is not worth it, all is as it was.
static tc_status attempt(finder *f, const void *at_first, tc_status (*arrange)(tc_sched *x), int64_t before,
                         bool *out_worth) {
  tc_sched *x = f->x, was = *x;
  tc_loops *l = x->l;
  tc_schedule schedule = *x->s;
  const void *lies = tc_sched_lies(l);
  int32_t n_bufs = l->bufs.count, n_nodes = l->nodes.count;
  tc_lnode **nodes = l->nodes.data;
  rewrites undo = {0};
  x->again = tc_map_create(x->arena);
  apply(f, x->again, &undo);
  set_lies(l, n_bufs, at_first);
  *x->s = (tc_schedule){.loops = l};
  TC_TRY(arrange(x));
  finder g;
  int64_t after = open(&g, x) ? tc_spare_measure(&g.s, g.order).peak : before;
  *out_worth = tc_spare_worth(after, before);
  if (*out_worth) {
    tc_log(x->o->logger, TC_LOG_SCHEDULE, "%d values are computed again: at most %lld bytes alive, not %lld",
           f->choices.count, (long long)after, (long long)before);
    return TC_OK;
  }
  for (int32_t i = undo.count - 1; i >= 0; i--) undo.data[i].node->body.insts = undo.data[i].insts;
  l->nodes.data = nodes, l->nodes.count = l->nodes.capacity = n_nodes;
  l->bufs.count = n_bufs;
  set_lies(l, n_bufs, lies);
  for (int32_t i = 0; i < n_nodes; i++) nodes[i]->id = i;
  *x = was, *x->s = schedule;
  for (int32_t i = 0; i < x->s->groups.count; i++) x->s->groups.data[i]->id = i;
  return TC_OK;
}

// Where all that was chosen gains nothing, as much as lowers the peak at all is tried alone.
tc_status tc_sched_again(tc_sched *x, const void *at_first, tc_status (*arrange)(tc_sched *x)) {
  finder f;
  bool worth = false;
  if (!open(&f, x)) return TC_OK;
  int64_t before = tc_spare_measure(&f.s, f.order).peak;
  find_choices(&f, before);
  for (int32_t tries = 0; tries < 2 && f.choices.count > 0 && !worth; tries++) {
    TC_TRY(attempt(&f, at_first, arrange, before, &worth));
    if (f.choices.count == f.lowering) break;
    f.choices.count = f.lowering;
  }
  return TC_OK;
}
