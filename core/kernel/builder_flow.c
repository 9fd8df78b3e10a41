// The kernel builder: creation, regions (for, if, lanes), barriers, collectives, and the finished kernel.
//
// A structured instruction is appended to its parent region when its region is closed; until then a frame holds what it
// needs. A loop-carried value starts as uniform as its initial value; if the next value turns out to vary by lane, the
// region's `varying` marks are computed again to a fixed point (they only ever grow).
#include "core/kernel/builder.h"

#define bad(b, ...) tc_kbi_fail((b), TC_STATUS_INVALID_ARGUMENT, __VA_ARGS__)

enum { MAX_DEPTH = 200 };

static int32_t open_region(tc_kb *b, int32_t kind) {
  int32_t parent = b->frames.count ? b->frames.data[b->frames.count - 1].region : -1;
  int32_t in_lanes = kind == TC_KIR_LANES || (parent >= 0 && b->regions.data[parent].in_lanes);
  b->regions.data[b->regions.count] = (tc_kir_region){.kind = kind, .parent = parent, .in_lanes = in_lanes, .open = 1};
  return b->regions.count++;
}

static bool push(tc_kb *b, tc_kbi_frame f) {
  if (b->frames.count >= MAX_DEPTH) return bad(b, "regions are nested more than %d deep", MAX_DEPTH), false;
  f.region = open_region(b, f.kind);
  b->frames.data[b->frames.count++] = f;
  return tc_kbi_ready(b, 0); // room in the new region
}

typedef struct create {
  tc_arena *arena;
  tc_sv name;
  tc_kb *b;
} create;

static tc_status create_in_arena(void *arg) {
  create *c = arg;
  c->b = TC_NEW(c->arena, tc_kb);
  c->b->arena = c->arena;
  c->b->name = tc_sv_copy(c->arena, c->name);
  return TC_OK;
}

// Short of memory there is still a builder, which reports it: callers need not test for NULL.
tc_kb *tc_kb_create(tc_arena *arena, tc_sv name, int32_t lanes) {
  static const tc_kb no_memory = {.fail_code = TC_STATUS_OUT_OF_MEMORY, .fail = "no memory for a kernel builder"};
  create c = {arena, name, NULL};
  tc_status s = tc_arena_guard(arena, create_in_arena, &c);
  if (s) {
    tc_status_free(s);
    return (tc_kb *)&no_memory; // never written: every call returns at once on a failed builder
  }
  c.b->lanes = lanes;
  if (!tc_kbi_ready(c.b, 0)) return c.b;
  push(c.b, (tc_kbi_frame){.kind = TC_KIR_BODY});
  if (lanes < 1 || lanes > 4096) bad(c.b, "a kernel has 1 to 4096 lanes, not %d", lanes);
  return c.b;
}

// ---- varying ----

static bool mark(tc_kb *b, tc_kval v, bool varying) {
  if (!varying || b->values.data[v].varying) return false;
  b->values.data[v].varying = 1;
  return true;
}

static const tc_kinst *yield_of(const tc_kb *b, int32_t region) {
  const tc_kir_region *g = &b->regions.data[region];
  return &b->insts.data[g->insts.data[g->insts.count - 1]];
}

static bool infer(tc_kb *b, int32_t region);

static bool infer_inst(tc_kb *b, const tc_kinst *in) {
  bool changed = false;
  for (int32_t r = 0; r < in->n_regions; r++) changed |= infer(b, in->regions[r]);
  if (in->op == TC_K_FOR) {
    const tc_kir_region *g = &b->regions.data[in->regions[0]];
    for (int32_t i = 0; i < in->n_results; i++) {
      const tc_kinst *y = yield_of(b, in->regions[0]);
      bool varying = b->values.data[in->args[2 + i]].varying || b->values.data[y->args[i]].varying;
      changed |= mark(b, g->params[1 + i], varying);
      changed |= mark(b, in->results[i], varying);
    }
  } else if (in->op == TC_K_IF) {
    for (int32_t i = 0; i < in->n_results; i++)
      for (int32_t r = 0; r < 2; r++)
        changed |= mark(b, in->results[i], b->values.data[yield_of(b, in->regions[r])->args[i]].varying);
  } else {
    bool varying = tc_kir_varying(in, b->mems.data, b->values.data);
    for (int32_t i = 0; i < in->n_results; i++) changed |= mark(b, in->results[i], varying);
  }
  return changed;
}

static bool infer(tc_kb *b, int32_t region) {
  bool changed = false;
  for (int32_t i = 0; i < b->regions.data[region].insts.count; i++)
    changed |= infer_inst(b, &b->insts.data[b->regions.data[region].insts.data[i]]);
  return changed;
}

// ---- Regions ----

// The open region is of this kind, and the yields are usable; else fails.
static bool closable(tc_kb *b, const char *what, bool kind_fits, int32_t n, const tc_kval *yields) {
  if (b->fail_code) return false;
  if (!kind_fits) return bad(b, "%s closes a region that is not open", what), false;
  for (int32_t i = 0; i < n; i++)
    if (!tc_kbi_usable(b, yields[i], "yield")) return false;
  return true;
}

static int32_t top_kind(const tc_kb *b) { return b->frames.count ? b->frames.data[b->frames.count - 1].kind : -1; }

static int32_t close_region(tc_kb *b, int32_t n, const tc_kval *yields) {
  tc_kbi_emit(b, (tc_kinst){.op = TC_K_YIELD, .mem = -1, .n_args = n, .args = yields}, 0, NULL);
  int32_t region = b->frames.data[--b->frames.count].region;
  b->regions.data[region].open = 0;
  return region;
}

static void emit_structured(tc_kb *b, tc_kinst in, int32_t n_regions, int32_t r0, int32_t r1, int32_t n,
                            const tc_kval *like, tc_kval *results) {
  int32_t *regions = tc_kbi_list(b, 2);
  regions[0] = r0, regions[1] = r1;
  in.mem = -1, in.regions = regions, in.n_regions = n_regions;
  tc_dtype *types = tc_kbi_list(b, n);
  for (int32_t i = 0; i < n; i++) types[i] = tc_kb_type(b, like[i]);
  int32_t number = tc_kbi_emit(b, in, n, types);
  for (int32_t i = 0; i < n; i++) {
    results[i] = b->insts.data[number].results[i];
    b->values.data[results[i]].varying = in.op == TC_K_LANES;
  }
  while (infer_inst(b, &b->insts.data[number])) {}
}

tc_kval tc_kb_for(tc_kb *b, tc_kval lo, tc_kval hi, int64_t step, int32_t flags, int32_t n, const tc_kval *init,
                  tc_kval *carried) {
  for (int32_t i = 0; i < n; i++) carried[i] = -1;
  if (!tc_kbi_ready(b, 2 * n + 4) || !tc_kbi_usable(b, lo, "for") || !tc_kbi_usable(b, hi, "for")) return -1;
  tc_dtype type = tc_kb_type(b, lo);
  if (!tc_kir_is_int(type) || tc_kb_type(b, hi) != type)
    return bad(b, "for: the bounds are %s and %s, not integers of one type", tc_dtype_name(type),
               tc_dtype_name(tc_kb_type(b, hi))),
           -1;
  if (step < 1) return bad(b, "for: the step must be positive"), -1;
  if (b->values.data[lo].varying || b->values.data[hi].varying)
    return bad(b, "for: the bounds must be the same in all lanes"), -1;
  tc_kval *kept = tc_kbi_list(b, n);
  for (int32_t i = 0; i < n; i++) {
    if (!tc_kbi_usable(b, init[i], "for")) return -1;
    kept[i] = init[i];
  }
  if (!push(b, (tc_kbi_frame){.kind = TC_KIR_FOR,
                              .lo = lo,
                              .hi = hi,
                              .step = step,
                              .flags = flags & TC_KI_UNROLL,
                              .n = n,
                              .init = kept}))
    return -1;
  if (!tc_kbi_ready(b, 2 * n + 4)) return -1;
  tc_kir_region *g = tc_kbi_region(b);
  g->n_params = n + 1;
  g->params = tc_kbi_list(b, n + 1);
  g->params[0] = tc_kbi_value(b, type, false, -1, 0);
  for (int32_t i = 0; i < n; i++)
    carried[i] = g->params[1 + i] = tc_kbi_value(b, tc_kb_type(b, kept[i]), b->values.data[kept[i]].varying, -1, 1 + i);
  b->epoch++; // stores later in the loop come before loads of its next round
  return g->params[0];
}

void tc_kb_end_for(tc_kb *b, int32_t n, const tc_kval *next, tc_kval *results) {
  if (!tc_kbi_ready(b, 3 * n + 8) || !closable(b, "end_for", top_kind(b) == TC_KIR_FOR, n, next)) return;
  tc_kbi_frame f = b->frames.data[b->frames.count - 1];
  if (n != f.n) {
    bad(b, "for: %d values are carried, %d are yielded", f.n, n);
    return;
  }
  for (int32_t i = 0; i < n; i++)
    if (tc_kb_type(b, next[i]) != tc_kb_type(b, f.init[i])) {
      bad(b, "for: carried value %d is %s, but %s is yielded", i, tc_dtype_name(tc_kb_type(b, f.init[i])),
          tc_dtype_name(tc_kb_type(b, next[i])));
      return;
    }
  int32_t region = close_region(b, n, next);
  tc_kval *args = tc_kbi_list(b, n + 2);
  args[0] = f.lo, args[1] = f.hi;
  for (int32_t i = 0; i < n; i++) args[2 + i] = f.init[i];
  emit_structured(b, (tc_kinst){.op = TC_K_FOR, .flags = f.flags, .imm = f.step, .n_args = n + 2, .args = args}, 1,
                  region, 0, n, f.init, results);
}

void tc_kb_if(tc_kb *b, tc_kval cond) {
  if (!tc_kbi_ready(b, 4) || !tc_kbi_usable(b, cond, "if")) return;
  if (tc_kb_type(b, cond) != TC_BOOL) bad(b, "if: the condition must be bool");
  else if (b->values.data[cond].varying)
    bad(b, "if: the condition must be the same in all lanes; select or mask what varies by lane");
  else push(b, (tc_kbi_frame){.kind = TC_KIR_THEN, .cond = cond});
}

void tc_kb_else(tc_kb *b, int32_t n, const tc_kval *yields) {
  if (!tc_kbi_ready(b, n + 4) || !closable(b, "else", top_kind(b) == TC_KIR_THEN, n, yields)) return;
  tc_kval cond = b->frames.data[b->frames.count - 1].cond;
  int32_t region = close_region(b, n, yields);
  push(b, (tc_kbi_frame){.kind = TC_KIR_ELSE, .cond = cond, .then_region = region});
}

void tc_kb_end_if(tc_kb *b, int32_t n, const tc_kval *yields, tc_kval *results) {
  if (!tc_kbi_ready(b, 3 * n + 8)) return;
  if (top_kind(b) == TC_KIR_THEN) {
    if (n) {
      bad(b, "if: values are yielded, so there must be an else");
      return;
    }
    tc_kb_else(b, 0, NULL);
  }
  if (!closable(b, "end_if", top_kind(b) == TC_KIR_ELSE, n, yields)) return;
  tc_kbi_frame f = b->frames.data[b->frames.count - 1];
  const tc_kinst *other = yield_of(b, f.then_region);
  if (other->n_args != n) {
    bad(b, "if: the branches yield %d and %d values", other->n_args, n);
    return;
  }
  for (int32_t i = 0; i < n; i++)
    if (tc_kb_type(b, other->args[i]) != tc_kb_type(b, yields[i])) {
      bad(b, "if: the branches yield %s and %s", tc_dtype_name(tc_kb_type(b, other->args[i])),
          tc_dtype_name(tc_kb_type(b, yields[i])));
      return;
    }
  int32_t region = close_region(b, n, yields);
  tc_kval *like = tc_kbi_list(b, n);
  for (int32_t i = 0; i < n; i++) like[i] = yields[i];
  emit_structured(b, (tc_kinst){.op = TC_K_IF, .n_args = 1, .args = &f.cond}, 2, f.then_region, region, n, like,
                  results);
}

void tc_kb_lanes(tc_kb *b) {
  if (!tc_kbi_ready(b, 4)) return;
  if (tc_kb_in_lanes(b)) bad(b, "lanes: regions of lanes do not nest");
  else push(b, (tc_kbi_frame){.kind = TC_KIR_LANES});
}

void tc_kb_end_lanes(tc_kb *b, int32_t n, const tc_kval *yields, tc_kval *results) {
  if (!tc_kbi_ready(b, 3 * n + 8) || !closable(b, "end_lanes", top_kind(b) == TC_KIR_LANES, n, yields)) return;
  tc_kval *like = tc_kbi_list(b, n);
  for (int32_t i = 0; i < n; i++) like[i] = yields[i];
  int32_t region = close_region(b, n, yields);
  emit_structured(b, (tc_kinst){.op = TC_K_LANES}, 1, region, 0, n, like, results);
}

// ---- Block scope ----

void tc_kb_barrier(tc_kb *b) {
  if (!tc_kbi_ready(b, 1)) return;
  if (tc_kb_in_lanes(b)) bad(b, "barrier: only at block scope, between lanes regions");
  else tc_kbi_emit(b, (tc_kinst){.op = TC_K_BARRIER, .mem = -1}, 0, NULL);
}

tc_kval tc_kb_collective(tc_kb *b, int32_t op, tc_kval lane_value, int64_t imm) {
  if (!tc_kbi_ready(b, 1)) return -1;
  const char *text = tc_k_op_text(op);
  if (op < TC_K_REDUCE_ADD || op > TC_K_BROADCAST) return bad(b, "%s is no collective", text), -1;
  if (tc_kb_in_lanes(b)) return bad(b, "%s: only at block scope", text), -1;
  const tc_kinst *def = tc_kb_inst_of(b, lane_value);
  if (!def || def->op != TC_K_LANES) return bad(b, "%s: the operand must be yielded by a lanes region", text), -1;
  if (!b->regions.data[b->value_regions.data[lane_value]].open)
    return bad(b, "%s: an operand belongs to a region that is closed", text), -1;
  tc_dtype type = tc_kb_type(b, lane_value);
  char c = tc_dtype_class(type);
  bool logic = op == TC_K_REDUCE_AND || op == TC_K_REDUCE_OR;
  if ((logic && (c == 'f' || c == 'c')) || (!logic && op != TC_K_BROADCAST && c == 'b') ||
      (c == 'c' && op != TC_K_REDUCE_ADD && op != TC_K_REDUCE_MUL && op != TC_K_BROADCAST))
    return bad(b, "%s: not possible for %s", text, tc_dtype_name(type)), -1;
  if (op == TC_K_BROADCAST && (imm < 0 || imm >= b->lanes))
    return bad(b, "broadcast: there is no lane %lld", (long long)imm), -1;
  tc_kinst in = {.op = op, .mem = -1, .n_args = 1, .args = &lane_value, .imm = op == TC_K_BROADCAST ? imm : 0};
  return b->insts.data[tc_kbi_emit(b, in, 1, &type)].results[0];
}

// ---- The kernel ----

typedef struct finish {
  tc_kb *b;
  tc_kernel *k;
} finish;

static bool is_removable(const tc_kinst *in) { return tc_kir_is_pure(in->op) || in->op == TC_K_LOAD; }

// Drops pure instructions and loads whose results nobody uses (folding leaves constants behind), and numbers the rest
// anew. Backwards, because every use has a higher number than the definition.
static void prune(tc_kb *b) {
  int32_t *inst = TC_NEW_ARRAY(b->arena, int32_t, b->insts.count),
          *value = TC_NEW_ARRAY(b->arena, int32_t, b->values.count + 1);
  for (int32_t i = b->insts.count - 1; i >= 0; i--) {
    const tc_kinst *in = &b->insts.data[i];
    bool used = !is_removable(in);
    for (int32_t r = 0; r < in->n_results; r++) used |= value[in->results[r]] != 0;
    inst[i] = used;
    for (int32_t a = 0; a < in->n_args && used; a++) value[in->args[a]] = 1;
  }
  int32_t n_values = 0, n_insts = 0;
  for (int32_t v = 0; v < b->values.count; v++) {
    tc_kvalue d = b->values.data[v];
    value[v] = d.inst < 0 || inst[d.inst] ? n_values : -1;
    if (value[v] < 0) continue;
    b->names.data[n_values] = b->names.data[v];
    b->value_regions.data[n_values] = b->value_regions.data[v];
    b->values.data[n_values++] = d;
  }
  for (int32_t i = 0; i < b->insts.count; i++) {
    tc_kinst in = b->insts.data[i];
    if (!inst[i]) {
      inst[i] = -1;
      continue;
    }
    inst[i] = n_insts;
    int32_t *lists = tc_arena_array(b->arena, sizeof *lists, (size_t)in.n_args + (size_t)in.n_results + 1);
    for (int32_t a = 0; a < in.n_args; a++) lists[a] = value[in.args[a]];
    for (int32_t r = 0; r < in.n_results; r++) lists[in.n_args + r] = value[in.results[r]];
    in.args = lists, in.results = lists + in.n_args;
    b->insts.data[n_insts++] = in;
  }
  b->insts.count = n_insts, b->values.count = n_values;
  for (int32_t v = 0; v < n_values; v++)
    if (b->values.data[v].inst >= 0) b->values.data[v].inst = inst[b->values.data[v].inst];
  for (int32_t g = 0; g < b->regions.count; g++) {
    tc_kir_region *r = &b->regions.data[g];
    int32_t n = 0;
    for (int32_t i = 0; i < r->insts.count; i++)
      if (inst[r->insts.data[i]] >= 0) r->insts.data[n++] = inst[r->insts.data[i]];
    r->insts.count = n;
    for (int32_t i = 0; i < r->n_params; i++) r->params[i] = value[r->params[i]];
  }
}

static tc_status finish_in_arena(void *arg) {
  finish *f = arg;
  tc_kb *b = f->b;
  if (!b->raw) prune(b);
  f->k = TC_NEW(b->arena, tc_kernel);
  *f->k = (tc_kernel){.name = b->name,
                      .lanes = b->lanes,
                      .body = 0,
                      .n_params = b->params.count,
                      .n_mems = b->mems.count,
                      .n_scalars = b->scalars.count,
                      .n_insts = b->insts.count,
                      .n_values = b->values.count,
                      .n_regions = b->regions.count,
                      .params = b->params.data,
                      .mems = b->mems.data,
                      .scalars = b->scalars.data,
                      .insts = b->insts.data,
                      .values = b->values.data,
                      .names = b->names.data,
                      .value_regions = b->value_regions.data,
                      .regions = b->regions.data,
                      .source = b->source};
  return TC_OK;
}

tc_status tc_kb_failure(const tc_kb *b) {
  return b->fail_code ? tc_error(b->fail_code, "kernel @" TC_SV_FMT ": %s", TC_SV_ARG(b->name), b->fail) : TC_OK;
}

tc_status tc_kb_finish(tc_kb *b, tc_kernel **out) {
  *out = NULL;
  if (tc_kbi_ready(b, 1)) {
    if (b->frames.count != 1) bad(b, "%d regions are still open", b->frames.count - 1);
    else close_region(b, 0, NULL);
  }
  TC_TRY(tc_kb_failure(b));
  finish f = {b, NULL};
  TC_TRY(tc_arena_guard(b->arena, finish_in_arena, &f));
  tc_kbi_fail(b, TC_STATUS_INVALID_ARGUMENT, "the kernel is finished");
  *out = f.k;
  return TC_OK;
}
