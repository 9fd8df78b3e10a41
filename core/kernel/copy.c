// Copying a kernel through a builder, an instruction at a time: what every rewriting pass does. A pass supplies a
// visitor, which emits the replacement of an instruction; what it does not know it gives to tc_kir_copy_inst.
#include "core/kernel/ir.h"

void tc_kir_keep_name(tc_kir_copy *c, tc_kval old, tc_kval made) {
  tc_sv name = c->from->names[old];
  const tc_kinst *in = tc_kb_inst_of(c->to, made);
  if (name.size && made >= 0 && !(in && (in->op == TC_K_CONST || in->op == TC_K_SCALAR))) tc_kb_name(c->to, made, name);
}

static void copy_mems(tc_kir_copy *c, bool parts) {
  const tc_kernel *k = c->from;
  for (int32_t p = 0; p < k->n_params; p++) {
    if (k->params[p].is_scalar) {
      const tc_kscalar_info *s = &k->scalars[k->params[p].index];
      tc_kb_scalar(c->to, s->name, s->dtype, s->lo, s->hi, s->divisor);
    } else {
      const tc_kmem_info *m = &k->mems[k->params[p].index];
      c->mems[k->params[p].index] =
          tc_kb_global(c->to, m->name, parts ? tc_dtype_real(m->dtype) : m->dtype, m->flags, m->align);
    }
  }
  for (int32_t i = 0; i < k->n_mems; i++) {
    const tc_kmem_info *m = &k->mems[i];
    tc_dtype type = parts ? tc_dtype_real(m->dtype) : m->dtype;
    int64_t count = type != m->dtype ? 2 * m->count : m->count;
    if (m->space == TC_SPACE_SHARED) c->mems[i] = tc_kb_shared(c->to, m->name, type, count);
    if (m->space == TC_SPACE_LANE) c->mems[i] = tc_kb_lane_array(c->to, m->name, type, count);
    if (m->space == TC_SPACE_TABLE) c->mems[i] = tc_kb_table(c->to, m->name, type, count, m->data);
  }
}

tc_status tc_kir_copy_region(tc_kir_copy *c, int32_t region) {
  const tc_kir_region *g = &c->from->regions[region];
  for (int32_t i = 0; i < g->insts.count - 1; i++) { // the yield belongs to the structured instruction
    TC_TRY(c->visit(c, g->insts.data[i]));
    int32_t code = tc_kb_failed(c->to);
    if (code)
      return tc_error(code, "kernel @" TC_SV_FMT ", instruction %d (%s): %s", TC_SV_ARG(c->from->name),
                      (int)g->insts.data[i], tc_k_op_text(c->from->insts[g->insts.data[i]].op), tc_kb_reason(c->to));
  }
  return TC_OK;
}

// Lists of values: a complex one becomes two where the copy is by parts (map2 ≥ 0).
static tc_kval *mapped(tc_kir_copy *c, int32_t n, const tc_kval *values, int32_t *out_n) {
  tc_kval *out = TC_NEW_ARRAY(tc_kb_arena(c->to), tc_kval, 2 * (int64_t)n + 1);
  *out_n = 0;
  for (int32_t i = 0; i < n; i++) {
    out[(*out_n)++] = c->map[values[i]];
    if (c->map2[values[i]] >= 0) out[(*out_n)++] = c->map2[values[i]];
  }
  return out;
}

// Takes the new values of old ones from a list made after `like` (which has, or has not, second parts).
static void unmap(tc_kir_copy *c, int32_t n, const tc_kval *values, const tc_kval *like, const tc_kval *from) {
  for (int32_t i = 0, at = 0; i < n; i++) {
    c->map[values[i]] = from[at++];
    if (c->map2[like[i]] >= 0) c->map2[values[i]] = from[at++];
    tc_kir_keep_name(c, values[i], c->map[values[i]]);
  }
}

static const tc_kinst *yield_of(const tc_kernel *k, int32_t region) {
  const tc_kir_region *g = &k->regions[region];
  return &k->insts[g->insts.data[g->insts.count - 1]];
}

static tc_status copy_structured(tc_kir_copy *c, const tc_kinst *in) {
  int32_t n, m;
  tc_arena *arena = tc_kb_arena(c->to);
  const tc_kinst *y = yield_of(c->from, in->regions[0]);
  tc_kval *results = TC_NEW_ARRAY(arena, tc_kval, 2 * (int64_t)in->n_results + 1);
  if (in->op == TC_K_LANES) {
    tc_kb_lanes(c->to);
    TC_TRY(tc_kir_copy_region(c, in->regions[0]));
    tc_kval *yields = mapped(c, y->n_args, y->args, &n);
    tc_kb_end_lanes(c->to, n, yields, results);
    unmap(c, in->n_results, in->results, y->args, results);
    return TC_OK;
  }
  if (in->op == TC_K_IF) {
    tc_kb_if(c->to, c->map[in->args[0]]);
    TC_TRY(tc_kir_copy_region(c, in->regions[0]));
    tc_kval *yields = mapped(c, y->n_args, y->args, &n);
    tc_kb_else(c->to, n, yields);
    TC_TRY(tc_kir_copy_region(c, in->regions[1]));
    y = yield_of(c->from, in->regions[1]);
    yields = mapped(c, y->n_args, y->args, &n);
    tc_kb_end_if(c->to, n, yields, results);
    unmap(c, in->n_results, in->results, y->args, results);
    return TC_OK;
  }
  const tc_kir_region *g = &c->from->regions[in->regions[0]];
  tc_kval *init = mapped(c, in->n_results, in->args + 2, &n);
  tc_kval *carried = TC_NEW_ARRAY(arena, tc_kval, n + 1);
  c->map[g->params[0]] =
      tc_kb_for(c->to, c->map[in->args[0]], c->map[in->args[1]], in->imm, in->flags, n, init, carried);
  tc_kir_keep_name(c, g->params[0], c->map[g->params[0]]);
  unmap(c, in->n_results, g->params + 1, in->args + 2, carried);
  TC_TRY(tc_kir_copy_region(c, in->regions[0]));
  tc_kval *next = mapped(c, y->n_args, y->args, &m);
  tc_kb_end_for(c->to, m, next, results);
  unmap(c, in->n_results, in->results, y->args, results);
  return TC_OK;
}

static void copy_access(tc_kir_copy *c, const tc_kinst *in) {
  tc_kval args[66], out[64];
  for (int32_t i = 0; i < in->n_args; i++) args[i] = c->map[in->args[i]];
  tc_kmem m = c->mems[in->mem];
  switch (in->op) {
  case TC_K_LOAD:
    tc_kb_load(c->to, m, args[0], in->width, in->has_mask ? args[1] : -1, in->has_mask ? args + 2 : NULL, out);
    for (int32_t i = 0; i < in->width; i++) c->map[in->results[i]] = out[i];
    break;
  case TC_K_STORE: tc_kb_store(c->to, m, args[0], in->width, args + 1, in->has_mask ? args[1 + in->width] : -1); break;
  case TC_K_ATOMIC_ADD: tc_kb_atomic_add(c->to, m, args[0], args[1], in->has_mask ? args[2] : -1); break;
  default: tc_kb_prefetch_from(c->to, m, args[0], in->flags);
  }
}

static void copy_mma(tc_kir_copy *c, const tc_kinst *in) {
  tc_kval args[TC_KIR_MMA_ARGS], out[TC_KIR_MMA_SUMS];
  for (int32_t i = 0; i < TC_KIR_MMA_ARGS; i++) args[i] = c->map[in->args[i]];
  tc_kb_mma(c->to, in->op, args, args + 4, args + TC_KIR_MMA_WORDS, out);
  for (int32_t i = 0; i < TC_KIR_MMA_SUMS; i++) c->map[in->results[i]] = out[i];
}

tc_status tc_kir_copy_inst(tc_kir_copy *c, int32_t inst) {
  const tc_kinst *in = &c->from->insts[inst];
  tc_kb *b = c->to;
  tc_kval args[3] = {-1, -1, -1}, r = -1;
  tc_dtype type = in->n_results ? c->from->values[in->results[0]].dtype : TC_DTYPE_NONE;
  if (tc_kir_is_pure(in->op))
    for (int32_t i = 0; i < in->n_args; i++) args[i] = c->map[in->args[i]];
  switch (in->op) {
  case TC_K_FOR:
  case TC_K_IF:
  case TC_K_LANES: return copy_structured(c, in);
  case TC_K_LOAD:
  case TC_K_STORE:
  case TC_K_ATOMIC_ADD:
  case TC_K_PREFETCH: copy_access(c, in); break;
  case TC_K_MMA_BF16:
  case TC_K_MMA_F16: copy_mma(c, in); break;
  case TC_K_CHECK: tc_kb_check(b, c->map[in->args[0]], in->imm); return TC_OK;
  case TC_K_BARRIER: tc_kb_barrier(b); return TC_OK;
  case TC_K_YIELD: return TC_OK;
  case TC_K_CONST: r = tc_dtype_is_float(type) ? tc_kb_real(b, type, in->fimm) : tc_kb_int(b, type, in->imm); break;
  case TC_K_BLOCK: r = tc_kb_block(b); break;
  case TC_K_LANE: r = tc_kb_lane(b); break;
  case TC_K_SCALAR: r = tc_kb_param(b, (int32_t)in->imm); break;
  case TC_K_CAST: r = tc_kb_cast(b, type, args[0]); break;
  case TC_K_BITCAST: r = tc_kb_bitcast(b, type, args[0]); break;
  case TC_K_REDUCE_ADD:
  case TC_K_REDUCE_MUL:
  case TC_K_REDUCE_MIN:
  case TC_K_REDUCE_MAX:
  case TC_K_REDUCE_AND:
  case TC_K_REDUCE_OR:
  case TC_K_BROADCAST: r = tc_kb_collective(b, in->op, c->map[in->args[0]], in->imm); break;
  default:
    tc_kb_set_flags(b, in->flags);
    r = tc_kb_op(b, in->op, in->n_args, args);
    tc_kb_set_flags(b, 0);
  }
  if (r >= 0) c->map[in->results[0]] = r;
  for (int32_t i = 0; i < in->n_results; i++) tc_kir_keep_name(c, in->results[i], c->map[in->results[i]]);
  return TC_OK;
}

typedef struct job {
  tc_kir_copy c;
  tc_arena *arena;
  bool parts;
  tc_kernel *out;
} job;

static tc_status copy_in_arena(void *arg) {
  job *j = arg;
  const tc_kernel *k = j->c.from;
  j->c.to = tc_kb_create(j->arena, k->name, k->lanes);
  j->c.map = TC_NEW_ARRAY(j->arena, tc_kval, k->n_values + 1);
  j->c.map2 = TC_NEW_ARRAY(j->arena, tc_kval, k->n_values + 1);
  j->c.mems = TC_NEW_ARRAY(j->arena, tc_kmem, k->n_mems + 1);
  for (int32_t v = 0; v < k->n_values; v++) j->c.map[v] = j->c.map2[v] = -1;
  copy_mems(&j->c, j->parts);
  TC_TRY(tc_kir_copy_region(&j->c, k->body));
  tc_kb_set_source(j->c.to, &k->source);
  return tc_kb_finish(j->c.to, &j->out);
}

tc_status tc_kir_copy_kernel(tc_arena *arena, const tc_kernel *from, tc_kir_copy_fn visit, void *self, bool parts,
                             tc_kernel **out) {
  job j = {.c = {.from = from, .visit = visit, .self = self}, .arena = arena, .parts = parts};
  tc_status s = tc_arena_guard(arena, copy_in_arena, &j);
  *out = s ? NULL : j.out;
  return s;
}

typedef struct pass_job {
  tc_arena *arena;
  tc_kernel *k, **out;
  tc_kir_pass_fn pass;
} pass_job;

static tc_status pass_in_arena(void *arg) {
  pass_job *j = arg;
  return j->pass(j->arena, j->k, j->out);
}

tc_status tc_kir_pass(tc_arena *arena, tc_kernel *k, tc_kir_pass_fn pass, tc_kernel **out) {
  tc_kernel *made = k;
  pass_job j = {arena, k, &made, pass};
  tc_status s = tc_arena_guard(arena, pass_in_arena, &j);
  *out = s ? NULL : made;
  return s;
}
