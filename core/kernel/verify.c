// The verifier of kernel IR: structure, types, visibility, scopes, uniformity, and barriers.
//
// Dominance is checked by numbers: instructions of a region are in ascending order, and a structured instruction has a
// higher number than all it contains, so a definition in the same or an enclosing region dominates exactly if its
// number is lower.
//
// Barriers: for each region a summary says which shared memory is touched before its first barrier (head), after its
// last one (tail), and whether a path without a barrier leads through. Two neighbours conflict if the tail of one and
// the head of the next touch the same memory and one of them writes; a loop is its own neighbour. One pass, linear.
#include "core/kernel/ir.h"

typedef struct touches {
  uint64_t read, written; // by number among the shared memory objects
} touches;

typedef struct summary {
  touches head, tail;
  bool through;
} summary;

typedef struct verifier {
  const tc_kernel *k;
  int32_t regions_seen;
} verifier;

enum { MAX_SHARED = 64 };

static tc_status wrong(const verifier *v, int32_t inst, const char *what) {
  if (inst < 0) return tc_error(TC_STATUS_INVALID_ARGUMENT, "kernel @" TC_SV_FMT ": %s", TC_SV_ARG(v->k->name), what);
  const tc_kinst *in = &v->k->insts[inst];
  tc_sv name =
      in->n_results && in->results[0] >= 0 && in->results[0] < v->k->n_values ? v->k->names[in->results[0]] : TC_SV("");
  return tc_error(TC_STATUS_INVALID_ARGUMENT, "kernel @" TC_SV_FMT ": instruction %d (%s%s" TC_SV_FMT "): %s",
                  TC_SV_ARG(v->k->name), (int)inst, tc_k_op_text(in->op), name.size ? " %" : "", TC_SV_ARG(name), what);
}

#define REQUIRE(v, inst, cond, what)                \
  do {                                              \
    if (!(cond)) return wrong((v), (inst), (what)); \
  } while (0)

static tc_dtype type_of(const tc_kernel *k, tc_kval v) { return k->values[v].dtype; }

// ---- Operands ----

static bool encloses(const tc_kernel *k, int32_t outer, int32_t region) {
  while (region >= 0 && region != outer) region = k->regions[region].parent;
  return region == outer;
}

static tc_status check_operands(const verifier *v, int32_t inst, int32_t region) {
  const tc_kernel *k = v->k;
  const tc_kinst *in = &k->insts[inst];
  bool collective = in->op >= TC_K_REDUCE_ADD && in->op <= TC_K_BROADCAST;
  for (int32_t i = 0; i < in->n_args; i++) {
    tc_kval a = in->args[i];
    REQUIRE(v, inst, a >= 0 && a < k->n_values, "an operand is not a value");
    int32_t def = k->values[a].inst;
    REQUIRE(v, inst, encloses(k, k->value_regions[a], region) && def < inst, "an operand is not defined before it");
    bool lanes = def >= 0 && k->insts[def].op == TC_K_LANES;
    REQUIRE(v, inst, lanes == collective,
            lanes ? "what a lanes region yields may only be used by collectives"
                  : "the operand of a collective must be yielded by a lanes region");
  }
  return TC_OK;
}

// ---- Single instructions ----

static tc_status check_access(const verifier *v, int32_t inst, bool in_lanes) {
  const tc_kernel *k = v->k;
  const tc_kinst *in = &k->insts[inst];
  REQUIRE(v, inst, in->mem >= 0 && in->mem < k->n_mems, "there is no such memory object");
  const tc_kmem_info *m = &k->mems[in->mem];
  bool writes = in->op == TC_K_STORE || in->op == TC_K_ATOMIC_ADD, loads = in->op == TC_K_LOAD;
  int32_t values = writes ? in->width : 0, others = loads && in->has_mask ? in->width : 0;
  REQUIRE(v, inst, in->width >= 1 && in->n_args == 1 + values + (in->has_mask ? 1 : 0) + others,
          "wrong number of operands");
  REQUIRE(v, inst, in->n_results == (loads ? in->width : 0), "wrong number of results");
  REQUIRE(v, inst, tc_kir_is_int(type_of(k, in->args[0])) && tc_kir_bits(type_of(k, in->args[0])) >= 32,
          "the index must be an integer of 32 or 64 bits");
  for (int32_t i = 0; i < values; i++)
    REQUIRE(v, inst, type_of(k, in->args[1 + i]) == m->dtype, "a value does not have the memory's type");
  for (int32_t i = 0; i < others; i++)
    REQUIRE(v, inst, type_of(k, in->args[2 + i]) == m->dtype, "a value does not have the memory's type");
  for (int32_t i = 0; i < in->n_results; i++)
    REQUIRE(v, inst, type_of(k, in->results[i]) == m->dtype, "a result does not have the memory's type");
  if (in->has_mask) REQUIRE(v, inst, type_of(k, in->args[1 + values]) == TC_BOOL, "the mask must be bool");
  REQUIRE(v, inst, in_lanes || (!writes && m->space != TC_SPACE_LANE), "only inside a lanes region");
  REQUIRE(v, inst, !writes || (m->space != TC_SPACE_TABLE && !(m->flags & TC_MEM_READONLY)), "the memory is read only");
  REQUIRE(v, inst, writes || !(m->flags & TC_MEM_WRITEONLY), "the memory is write only");
  return TC_OK;
}

static tc_status check_pure(const verifier *v, int32_t inst, bool in_lanes) {
  const tc_kernel *k = v->k;
  const tc_kinst *in = &k->insts[inst];
  REQUIRE(v, inst, in->n_results == 1, "wrong number of results");
  tc_dtype out = type_of(k, in->results[0]), types[3], want;
  switch (in->op) {
  case TC_K_CONST:
    REQUIRE(v, inst, in->n_args == 0 && !tc_dtype_is_complex(out), "a constant must be bool, an integer or a real");
    return TC_OK;
  case TC_K_BLOCK: REQUIRE(v, inst, in->n_args == 0 && out == TC_I32, "the coordinate is i32"); return TC_OK;
  case TC_K_LANE:
    REQUIRE(v, inst, in->n_args == 0 && out == TC_I32 && in_lanes, "the lane is i32, inside a lanes region");
    return TC_OK;
  case TC_K_SCALAR:
    REQUIRE(v, inst, in->imm >= 0 && in->imm < k->n_scalars && k->scalars[in->imm].dtype == out,
            "there is no such scalar of this type");
    return TC_OK;
  case TC_K_CAST: REQUIRE(v, inst, in->n_args == 1, "wrong number of operands"); return TC_OK;
  case TC_K_BITCAST:
    REQUIRE(v, inst, in->n_args == 1 && tc_dtype_size(out) == tc_dtype_size(type_of(k, in->args[0])),
            "the types do not have the same size");
    return TC_OK;
  default: break;
  }
  REQUIRE(v, inst, in->n_args >= 1 && in->n_args <= 3, "wrong number of operands");
  for (int32_t i = 0; i < in->n_args; i++) types[i] = type_of(k, in->args[i]);
  const char *why = tc_kir_type_rule(in->op, in->n_args, types, &want);
  if (why) return wrong(v, inst, why);
  REQUIRE(v, inst, want == out, "the result does not have the type of the operation");
  return TC_OK;
}

static tc_status check_mma(const verifier *v, int32_t inst, bool in_lanes) {
  const tc_kernel *k = v->k;
  const tc_kinst *in = &k->insts[inst];
  tc_dtype types[TC_KIR_MMA_ARGS];
  REQUIRE(v, inst, in->n_args == TC_KIR_MMA_ARGS, "wrong number of operands");
  REQUIRE(v, inst, in->n_results == TC_KIR_MMA_SUMS, "wrong number of results");
  REQUIRE(v, inst, in_lanes, "only inside a lanes region");
  for (int32_t i = 0; i < TC_KIR_MMA_ARGS; i++) types[i] = type_of(k, in->args[i]);
  const char *why = tc_kir_mma_rule(k->lanes, types);
  if (why) return wrong(v, inst, why);
  for (int32_t i = 0; i < TC_KIR_MMA_SUMS; i++)
    REQUIRE(v, inst, type_of(k, in->results[i]) == TC_F32, "the results must be f32");
  return TC_OK;
}

static const tc_kinst *yield_of(const tc_kernel *k, int32_t region) {
  const tc_kir_region *g = &k->regions[region];
  return g->insts.count ? &k->insts[g->insts.data[g->insts.count - 1]] : NULL;
}

static tc_status check_structured(const verifier *v, int32_t inst, int32_t region) {
  const tc_kernel *k = v->k;
  const tc_kinst *in = &k->insts[inst];
  int32_t regions = in->op == TC_K_IF ? 2 : 1;
  REQUIRE(v, inst, in->n_regions == regions, "wrong number of regions");
  for (int32_t r = 0; r < regions; r++) {
    int32_t g = in->regions[r];
    REQUIRE(v, inst, g >= 0 && g < k->n_regions && k->regions[g].parent == region,
            "a region belongs to another instruction");
    const tc_kinst *y = yield_of(k, g);
    REQUIRE(v, inst, y && y->op == TC_K_YIELD && y->n_args == in->n_results,
            "a region must end in a yield of as many values as there are results");
    for (int32_t i = 0; i < in->n_results; i++) {
      REQUIRE(v, inst,
              y->args[i] >= 0 && y->args[i] < k->n_values && type_of(k, y->args[i]) == type_of(k, in->results[i]),
              "a result does not have the type of what is yielded");
      REQUIRE(v, inst, in->op == TC_K_LANES || k->values[in->results[i]].varying || !k->values[y->args[i]].varying,
              "a result varies by lane but is not marked so");
    }
  }
  if (in->op == TC_K_LANES) {
    REQUIRE(v, inst, !k->regions[region].in_lanes, "lanes regions do not nest");
    return TC_OK;
  }
  if (in->op == TC_K_IF) {
    REQUIRE(v, inst, in->n_args == 1 && type_of(k, in->args[0]) == TC_BOOL, "the condition must be bool");
    REQUIRE(v, inst, !k->values[in->args[0]].varying, "the condition must be the same in all lanes");
    return TC_OK;
  }
  const tc_kir_region *g = &k->regions[in->regions[0]];
  REQUIRE(v, inst, in->n_args == in->n_results + 2 && g->n_params == in->n_results + 1 && in->imm > 0,
          "the loop's operands, carried values and results do not match");
  REQUIRE(v, inst,
          tc_kir_is_int(type_of(k, in->args[0])) && type_of(k, in->args[0]) == type_of(k, in->args[1]) &&
              type_of(k, g->params[0]) == type_of(k, in->args[0]),
          "the bounds must be integers of one type");
  REQUIRE(v, inst, !k->values[in->args[0]].varying && !k->values[in->args[1]].varying,
          "the bounds must be the same in all lanes");
  for (int32_t i = 0; i < in->n_results; i++) {
    REQUIRE(v, inst,
            type_of(k, in->args[2 + i]) == type_of(k, in->results[i]) &&
                type_of(k, g->params[1 + i]) == type_of(k, in->results[i]),
            "a carried value changes its type");
    bool varying = k->values[in->args[2 + i]].varying || k->values[yield_of(k, in->regions[0])->args[i]].varying;
    REQUIRE(v, inst, !varying || (k->values[g->params[1 + i]].varying && k->values[in->results[i]].varying),
            "a carried value varies by lane but is not marked so");
  }
  return TC_OK;
}

static tc_status check_inst(const verifier *v, int32_t inst, int32_t region) {
  const tc_kernel *k = v->k;
  const tc_kinst *in = &k->insts[inst];
  bool in_lanes = k->regions[region].in_lanes;
  REQUIRE(v, inst, in->op >= 0 && in->op < TC_K_COUNT, "there is no such opcode");
  for (int32_t i = 0; i < in->n_results; i++) {
    tc_kval r = in->results[i];
    REQUIRE(v, inst,
            r >= 0 && r < k->n_values && k->values[r].inst == inst && k->values[r].result == i &&
                k->value_regions[r] == region,
            "a result belongs to another instruction");
  }
  TC_TRY(check_operands(v, inst, region));
  switch (in->op) {
  case TC_K_LOAD:
  case TC_K_STORE:
  case TC_K_ATOMIC_ADD:
  case TC_K_PREFETCH: TC_TRY(check_access(v, inst, in_lanes)); break;
  case TC_K_FOR:
  case TC_K_IF:
  case TC_K_LANES: return check_structured(v, inst, region);
  case TC_K_YIELD: return TC_OK;
  case TC_K_CHECK:
    REQUIRE(v, inst, in->n_args == 1 && type_of(k, in->args[0]) == TC_BOOL, "the condition must be bool");
    return TC_OK;
  case TC_K_MMA_BF16:
  case TC_K_MMA_F16: TC_TRY(check_mma(v, inst, in_lanes)); break;
  case TC_K_BARRIER: REQUIRE(v, inst, !in_lanes, "only at block scope"); return TC_OK;
  case TC_K_REDUCE_ADD:
  case TC_K_REDUCE_MUL:
  case TC_K_REDUCE_MIN:
  case TC_K_REDUCE_MAX:
  case TC_K_REDUCE_AND:
  case TC_K_REDUCE_OR:
  case TC_K_BROADCAST:
    REQUIRE(v, inst,
            !in_lanes && in->n_args == 1 && in->n_results == 1 && type_of(k, in->args[0]) == type_of(k, in->results[0]),
            "a collective stands at block scope and keeps the type");
    return TC_OK;
  default: TC_TRY(check_pure(v, inst, in_lanes));
  }
  if (in->n_results && tc_kir_varying(in, k->mems, k->values))
    for (int32_t i = 0; i < in->n_results; i++)
      REQUIRE(v, inst, k->values[in->results[i]].varying, "a result varies by lane but is not marked so");
  return TC_OK;
}

// ---- Regions and barriers ----

static touches join(touches a, touches b) { return (touches){a.read | b.read, a.written | b.written}; }

static bool conflict(touches a, touches b) { return (a.written & (b.read | b.written)) | (a.read & b.written); }

static int32_t shared_number(const tc_kernel *k, tc_kmem m) {
  int32_t n = 0;
  for (tc_kmem i = 0; i < m; i++) n += k->mems[i].space == TC_SPACE_SHARED;
  return n;
}

static tc_status append(const verifier *v, int32_t inst, summary *all, summary next) {
  REQUIRE(v, inst, !conflict(all->tail, next.head),
          "touches shared memory that was touched before without a barrier between");
  if (all->through) all->head = join(all->head, next.head);
  all->tail = next.through ? join(all->tail, next.tail) : next.tail;
  all->through &= next.through;
  return TC_OK;
}

static tc_status walk(verifier *v, int32_t region, summary *out);

static tc_status summarise(verifier *v, int32_t inst, bool in_lanes, summary *out) {
  const tc_kernel *k = v->k;
  const tc_kinst *in = &k->insts[inst];
  *out = (summary){.through = true};
  if (in->op == TC_K_BARRIER) out->through = false;
  if (in->n_regions == 0 && in->mem >= 0 && k->mems[in->mem].space == TC_SPACE_SHARED && in->op != TC_K_PREFETCH) {
    uint64_t bit = UINT64_C(1) << shared_number(k, in->mem);
    if (in->op == TC_K_LOAD) out->head.read = bit;
    else out->head.written = bit;
    out->tail = out->head;
  }
  summary body[2];
  for (int32_t r = 0; r < in->n_regions; r++) TC_TRY(walk(v, in->regions[r], &body[r]));
  if (in->n_regions == 0) return TC_OK;
  *out = body[0];
  if (in->op == TC_K_IF) {
    out->head = join(body[0].head, body[1].head);
    out->tail = join(body[0].tail, body[1].tail);
    out->through = body[0].through || body[1].through;
  } else if (in->op == TC_K_FOR) {
    if (!in_lanes) TC_TRY(append(v, inst, &body[0], *out));
    out->tail = join(out->tail, body[0].tail);
    out->through = true; // no round may run
  }
  return TC_OK;
}

static tc_status walk(verifier *v, int32_t region, summary *out) {
  const tc_kernel *k = v->k;
  const tc_kir_region *g = &k->regions[region];
  v->regions_seen++;
  *out = (summary){.through = true};
  REQUIRE(v, -1, g->insts.count > 0, "a region is empty");
  for (int32_t i = 0; i < g->insts.count; i++) {
    int32_t inst = g->insts.data[i];
    REQUIRE(v, -1, inst >= 0 && inst < k->n_insts && (i == 0 || inst > g->insts.data[i - 1]),
            "the instructions of a region are out of order");
    REQUIRE(v, inst, (k->insts[inst].op == TC_K_YIELD) == (i == g->insts.count - 1),
            "a region must end in its only yield");
    TC_TRY(check_inst(v, inst, region));
    summary s;
    TC_TRY(summarise(v, inst, g->in_lanes, &s));
    if (g->in_lanes) { // one region: the lanes are checked against each other when the kernel is interpreted
      out->head = out->tail = join(out->head, s.head);
    } else {
      TC_TRY(append(v, inst, out, s));
    }
  }
  return TC_OK;
}

tc_status tc_kernel_verify(const tc_kernel *k) {
  verifier v = {.k = k};
  REQUIRE(&v, -1, k->lanes >= 1, "a kernel has at least one lane");
  REQUIRE(&v, -1, k->n_regions > 0 && k->body >= 0 && k->body < k->n_regions, "there is no body");
  REQUIRE(&v, -1, shared_number(k, k->n_mems) <= MAX_SHARED, "there are more than 64 shared memory objects");
  summary s;
  TC_TRY(walk(&v, k->body, &s));
  REQUIRE(&v, -1, v.regions_seen == k->n_regions, "a region is not reached from the body");
  return TC_OK;
}
