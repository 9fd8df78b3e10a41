// The control flow of a kernel as LLVM IR: regions, for, if, lanes, checks.
//
// Loops of the kernel are emitted in guarded do-while form, so that invariant code has a place to go; loops marked
// `unroll` with constant bounds are unrolled here, which turns indices of lane arrays into constants and the arrays
// into registers. Barriers vanish: a lanes region is executed by all lanes in step. A failed check is kept in a local,
// which function.c reads at the end of the block.
#include <stdlib.h>

#include "codegen.h"

enum {
  MAX_DEPTH = 100,
  MAX_UNROLLED_LOOP = 1 << 14, // instructions that unrolling one loop may make
  MAX_UNROLLED = 60 << 10      // beyond this many emitted instructions nothing is unrolled
};

// A value in the form that a phi or result of that kind needs.
static LLVMValueRef as(cg *g, const cg_val *v, bool varying) {
  if (!v->v || (cg_count(v->v) != 0) == varying) return v->v;
  if (varying) return cg_splat(g, v->v, g->lanes);
  cg_fail(g, TC_STATUS_INTERNAL, "a value that differs by lane flows into one that does not");
  return LLVMGetPoison(LLVMGetElementType(LLVMTypeOf(v->v)));
}

static tc_kvalue info_of(cg *g, tc_kval v) {
  tc_kvalue info;
  tc_k_value(g->k, v, &info);
  return info;
}

void cg_define(cg *g, tc_kval v, LLVMValueRef x, int32_t zeros) {
  tc_kvalue info = info_of(g, v);
  bool scalar_int = !info.varying && !cg_is_float(info.dtype) && info.dtype != TC_BOOL;
  g->vals[v] = (cg_val){.v = x, .base = scalar_int ? x : NULL, .zeros = zeros};
}

// ---- for ----

static int64_t region_size(cg *g, int32_t r, int32_t depth) {
  tc_kregion region;
  tc_k_region(g->k, r, &region);
  int64_t n = region.n_insts;
  for (int32_t i = 0; i < region.n_insts && depth < MAX_DEPTH; i++) {
    tc_kinst in;
    tc_k_inst(g->k, region.insts[i], &in);
    for (int32_t j = 0; j < in.n_regions; j++) n += region_size(g, in.regions[j], depth + 1);
  }
  return n;
}

static void unrolled(cg *g, const tc_kinst *in, const tc_kregion *body, int64_t lo, int64_t trips, cg_val *carried,
                     int32_t n) {
  LLVMTypeRef t = cg_scalar_type(g, info_of(g, body->params[0]).dtype);
  for (int64_t trip = 0; trip < trips && g->status == TC_STATUS_OK; trip++) {
    int64_t i = lo + trip * in->imm;
    cg_define(g, body->params[0], LLVMConstInt(t, (uint64_t)i, 1), cg_zeros_of(i));
    for (int32_t c = 0; c < n; c++) g->vals[body->params[1 + c]] = carried[c];
    cg_region(g, in->regions[0], n, carried);
  }
  for (int32_t c = 0; c < n; c++) {
    cg_val v = carried[c];
    LLVMValueRef x = as(g, &v, info_of(g, in->results[c]).varying);
    g->vals[in->results[c]] = x == v.v ? v : (cg_val){.v = x};
  }
}

// Whether another round follows. hi - iv is at least 1, so this is exact even where iv + step overflows; where it
// cannot, the plain comparison is better known to the optimiser.
static LLVMValueRef goes_on(cg *g, tc_dtype d, LLVMValueRef iv, LLVMValueRef next, LLVMValueRef hi, int64_t step) {
  int64_t h;
  if (cg_bits(d) == 64 || (cg_const_int(hi, &h) && h <= INT32_MAX / 2 && step <= INT32_MAX / 2))
    return LLVMBuildICmp(g->b, cg_is_signed(d) ? LLVMIntSLT : LLVMIntULT, next, hi, "");
  LLVMValueRef left = LLVMBuildSub(g->b, hi, iv, "");
  return LLVMBuildICmp(g->b, LLVMIntUGT, left, cg_int_like(left, step), "");
}

// Loops of the same bounds, whose rounds take turns (overlap.c) where there are two.
static void looped(cg *g, int32_t n_loops, const cg_loop *loops, LLVMValueRef lo, LLVMValueRef hi) {
  tc_dtype d = info_of(g, loops->body.params[0]).dtype;
  bool is_signed = cg_is_signed(d);
  int32_t n = 0, c = 0;
  for (int32_t k = 0; k < n_loops; k++) n += loops[k].n;
  LLVMBasicBlockRef pre = cg_new_block(g, "pre"), head = cg_new_block(g, "for"), exit = cg_new_block(g, "endfor");
  LLVMValueRef *init = calloc((size_t)n * 3 + 1, sizeof *init), *phis = init + n, *next = phis + n;
  if (!init) {
    cg_fail(g, TC_STATUS_OUT_OF_MEMORY, "no memory for a loop");
    return;
  }
  for (int32_t k = 0; k < n_loops; k++)
    for (int32_t i = 0; i < loops[k].n; i++)
      init[c++] = as(g, &loops[k].carried[i], info_of(g, loops[k].body.params[1 + i]).varying);
  LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
  LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, is_signed ? LLVMIntSLT : LLVMIntULT, lo, hi, ""), pre, exit);
  LLVMPositionBuilderAtEnd(g->b, pre);
  LLVMBuildBr(g->b, head);
  LLVMPositionBuilderAtEnd(g->b, head);

  LLVMValueRef iv = LLVMBuildPhi(g->b, LLVMTypeOf(lo), "i");
  LLVMAddIncoming(iv, &lo, &pre, 1);
  int64_t by = loops->in->imm;
  int32_t lo_zeros = g->vals[loops->in->args[0]].zeros, step_zeros = cg_zeros_of(by);
  c = 0;
  for (int32_t k = 0; k < n_loops; k++) {
    cg_define(g, loops[k].body.params[0], iv, lo_zeros < step_zeros ? lo_zeros : step_zeros);
    for (int32_t i = 0; i < loops[k].n; i++, c++) {
      phis[c] = LLVMBuildPhi(g->b, LLVMTypeOf(init[c]), "");
      LLVMAddIncoming(phis[c], &init[c], &pre, 1);
      cg_define(g, loops[k].body.params[1 + i], phis[c], 0);
    }
  }
  c = 0;
  for (int32_t k = 0; k < n_loops; k++) {
    const cg_loop *l = &loops[k];
    cg_region(g, l->in->regions[0], l->n, l->carried);
    for (int32_t i = 0; i < l->n; i++) next[c++] = as(g, &l->carried[i], info_of(g, l->body.params[1 + i]).varying);
    if (n_loops > 1) cg_overlap_turn(g);
  }
  LLVMValueRef step = LLVMBuildAdd(g->b, iv, cg_int_like(iv, by), "");
  if (LLVMIsAInstruction(step)) is_signed ? LLVMSetNSW(step, 1) : LLVMSetNUW(step, 1);
  LLVMValueRef again = goes_on(g, d, iv, step, hi, by);
  LLVMBasicBlockRef latch = LLVMGetInsertBlock(g->b);
  LLVMBuildCondBr(g->b, again, head, exit);
  LLVMAddIncoming(iv, &step, &latch, 1);
  for (c = 0; c < n; c++)
    if (next[c]) LLVMAddIncoming(phis[c], &next[c], &latch, 1);
  LLVMPositionBuilderAtEnd(g->b, exit);
  c = 0;
  for (int32_t k = 0; k < n_loops; k++) {
    for (int32_t i = 0; i < loops[k].n; i++, c++) {
      LLVMValueRef r = LLVMBuildPhi(g->b, LLVMTypeOf(init[c]), "");
      if (next[c]) LLVMAddIncoming(r, (LLVMValueRef[]){init[c], next[c]}, (LLVMBasicBlockRef[]){before, latch}, 2);
      if (info_of(g, loops[k].in->results[i]).varying && !cg_count(r)) r = cg_splat(g, r, g->lanes);
      cg_define(g, loops[k].in->results[i], r, 0);
    }
  }
  free(init);
}

// The values that a loop begins with; false if it is malformed.
static bool begin_loop(cg *g, const tc_kinst *in, cg_loop *l) {
  *l = (cg_loop){.in = in, .n = in->n_args - 2};
  if (in->n_regions != 1 || l->n < 0 || in->imm <= 0 || in->n_results != l->n) {
    cg_fail(g, TC_STATUS_INTERNAL, "malformed for");
    return false;
  }
  tc_k_region(g->k, in->regions[0], &l->body);
  l->carried = calloc((size_t)l->n + 1, sizeof *l->carried);
  if (!l->carried || l->body.n_params != 1 + l->n) {
    cg_fail(g, l->carried ? TC_STATUS_INTERNAL : TC_STATUS_OUT_OF_MEMORY, "malformed for, or no memory for it");
    return false;
  }
  for (int32_t c = 0; c < l->n; c++) {
    cg_form(g, in->args[2 + c], cg_varying(g, in->args[2 + c])); // fails if it is not defined
    l->carried[c] = g->vals[in->args[2 + c]];
  }
  return true;
}

void cg_loop_beside(cg *g, const tc_kinst *in, const tc_kinst *late) {
  cg_loop loops[2] = {0};
  bool ok = begin_loop(g, in, &loops[0]);
  cg_overlap_turn(g);
  ok = ok && begin_loop(g, late, &loops[1]);
  cg_overlap_turn(g);
  if (ok) looped(g, 2, loops, cg_scalar(g, in->args[0]), cg_scalar(g, in->args[1]));
  for (int32_t k = 0; k < 2; k++) free(loops[k].carried);
}

static void emit_for(cg *g, const tc_kinst *in) {
  cg_loop l;
  if (!begin_loop(g, in, &l)) {
    free(l.carried);
    return;
  }
  LLVMValueRef lo = cg_scalar(g, in->args[0]), hi = cg_scalar(g, in->args[1]);
  int64_t a, b;
  bool known = cg_const_int(lo, &a) && cg_const_int(hi, &b);
  if (known && a >= b) { // no rounds: the initial values
    for (int32_t c = 0; c < l.n; c++)
      g->vals[in->results[c]] = (cg_val){.v = as(g, &l.carried[c], info_of(g, in->results[c]).varying)};
    free(l.carried);
    return;
  }
  int64_t span = known ? (int64_t)((uint64_t)b - (uint64_t)a) : 0, trips = span > 0 ? (span - 1) / in->imm + 1 : 0;
  bool unroll =
      trips == 1 || (trips > 0 && (in->flags & TC_KI_UNROLL) && g->emitted < MAX_UNROLLED &&
                     trips <= MAX_UNROLLED_LOOP && trips * region_size(g, in->regions[0], 0) <= MAX_UNROLLED_LOOP);
  if (g->status == TC_STATUS_OK && unroll) unrolled(g, in, &l.body, a, trips, l.carried, l.n);
  else if (g->status == TC_STATUS_OK) looped(g, 1, &l, lo, hi);
  free(l.carried);
}

// ---- if, lanes, check ----

static void emit_if(cg *g, const tc_kinst *in) {
  int32_t n = in->n_results;
  int64_t known;
  LLVMValueRef cond = cg_scalar(g, in->args[0]);
  cg_val *v = calloc((size_t)n * 2 + 1, sizeof *v);
  if (!v || in->n_regions < 1 || in->n_regions > 2 || (n > 0 && in->n_regions != 2)) {
    cg_fail(g, v ? TC_STATUS_INTERNAL : TC_STATUS_OUT_OF_MEMORY, "malformed if, or no memory for it");
    free(v);
    return;
  }
  if (cg_const_int(cond, &known)) {
    int32_t which = known ? 0 : 1;
    if (which < in->n_regions) cg_region(g, in->regions[which], n, v);
    for (int32_t i = 0; i < n; i++) {
      LLVMValueRef x = as(g, &v[i], info_of(g, in->results[i]).varying);
      g->vals[in->results[i]] = x == v[i].v ? v[i] : (cg_val){.v = x};
    }
    free(v);
    return;
  }
  LLVMBasicBlockRef block[2] = {cg_new_block(g, "then"), cg_new_block(g, "else")}, end[2],
                    join = cg_new_block(g, "endif");
  LLVMBuildCondBr(g->b, cond, block[0], block[1]);
  LLVMValueRef *x = calloc((size_t)n * 2 + 1, sizeof *x);
  for (int32_t r = 0; r < 2; r++) {
    LLVMPositionBuilderAtEnd(g->b, block[r]);
    if (r < in->n_regions) cg_region(g, in->regions[r], n, v + r * n);
    for (int32_t i = 0; x && i < n; i++) x[r * n + i] = as(g, &v[r * n + i], info_of(g, in->results[i]).varying);
    end[r] = LLVMGetInsertBlock(g->b);
    LLVMBuildBr(g->b, join);
  }
  LLVMPositionBuilderAtEnd(g->b, join);
  if (!x) cg_fail(g, TC_STATUS_OUT_OF_MEMORY, "no memory for an if");
  for (int32_t i = 0; x && i < n && g->status == TC_STATUS_OK; i++) {
    LLVMValueRef phi = LLVMBuildPhi(g->b, LLVMTypeOf(x[i]), "");
    LLVMAddIncoming(phi, (LLVMValueRef[]){x[i], x[n + i]}, end, 2);
    cg_define(g, in->results[i], phi, 0);
  }
  free(x);
  free(v);
}

static void emit_lanes(cg *g, const tc_kinst *in) {
  int32_t n = in->n_results;
  cg_val *v = calloc((size_t)n + 1, sizeof *v);
  if (!v || in->n_regions != 1) {
    cg_fail(g, v ? TC_STATUS_INTERNAL : TC_STATUS_OUT_OF_MEMORY, "malformed lanes, or no memory for it");
    free(v);
    return;
  }
  g->in_lanes = true;
  cg_region(g, in->regions[0], n, v);
  g->in_lanes = false;
  for (int32_t i = 0; i < n; i++) g->vals[in->results[i]] = (cg_val){.v = as(g, &v[i], true)};
  free(v);
}

static void emit_check(cg *g, const tc_kinst *in) {
  LLVMValueRef ok = cg_all(g, cg_form(g, in->args[0], cg_varying(g, in->args[0])));
  LLVMTypeRef i64 = LLVMInt64TypeInContext(g->ctx);
  LLVMValueRef old = LLVMBuildLoad2(g->b, i64, g->site, "");
  LLVMValueRef first = LLVMBuildICmp(g->b, LLVMIntEQ, old, cg_i64(g, -1), "");
  LLVMValueRef take = LLVMBuildAnd(g->b, LLVMBuildNot(g->b, ok, ""), first, "");
  LLVMBuildStore(g->b, LLVMBuildSelect(g->b, take, cg_i64(g, in->imm), old, ""), g->site);
  g->has_checks = true;
}

// ---- Instructions and regions ----

void cg_inst(cg *g, int32_t number) {
  tc_kinst in;
  tc_k_inst(g->k, number, &in);
  g->emitted++;
  switch (in.op) {
  case TC_K_LOAD: cg_load(g, &in); break;
  case TC_K_STORE: cg_store(g, &in); break;
  case TC_K_ATOMIC_ADD: cg_atomic_add(g, &in); break;
  case TC_K_PREFETCH: cg_prefetch(g, &in); break;
  case TC_K_CHECK: emit_check(g, &in); break;
  case TC_K_FOR: emit_for(g, &in); break;
  case TC_K_IF: emit_if(g, &in); break;
  case TC_K_LANES: emit_lanes(g, &in); break;
  case TC_K_BARRIER: break;
  case TC_K_BROADCAST: {
    LLVMValueRef lane = cg_i32(g, in.imm);
    g->apart.fits = false;
    if (in.imm < 0 || in.imm >= g->lanes)
      cg_fail(g, TC_STATUS_INTERNAL, "broadcast of lane %lld of %d", (long long)in.imm, g->lanes);
    else cg_define(g, in.results[0], LLVMBuildExtractElement(g->b, cg_vector(g, in.args[0]), lane, ""), 0);
    break;
  }
  case TC_K_REDUCE_ADD:
  case TC_K_REDUCE_MUL:
  case TC_K_REDUCE_MIN:
  case TC_K_REDUCE_MAX:
  case TC_K_REDUCE_AND:
  case TC_K_REDUCE_OR:
    cg_define(g, in.results[0], cg_reduce(g, in.op, info_of(g, in.results[0]).dtype, cg_vector(g, in.args[0])), 0);
    break;
  default:
    if (in.op < 0 || in.op >= TC_K_COUNT || in.n_results != 1 || in.n_args > 3)
      cg_fail(g, TC_STATUS_UNIMPLEMENTED, "opcode %d is not known to this plugin", in.op);
    else cg_pure(g, &in);
  }
}

static int32_t loads_left_out(cg *g, const tc_kregion *region) {
  int32_t n = 0;
  for (int32_t i = 0; i < region->n_insts; i++) {
    tc_kinst in;
    tc_k_inst(g->k, region->insts[i], &in);
    n += in.op == TC_K_LOAD && in.has_mask && in.n_args > 1 && !info_of(g, in.args[1]).varying;
  }
  return n;
}

void cg_part(cg *g, const tc_kregion *region, int32_t from, int32_t to, int32_t n_out, cg_val *out) {
  int32_t outside = g->maybe;
  g->maybe = loads_left_out(g, region);
  for (int32_t i = from; i < to && g->status == TC_STATUS_OK; i++) {
    int32_t end = cg_straight(g, region, i, to);
    if (end > i) cg_put_in_order(g, end - i, region->insts + i);
    if ((i = end) == to) break;
    tc_kinst in;
    tc_k_inst(g->k, region->insts[i], &in);
    if (in.op != TC_K_YIELD) {
      cg_inst(g, region->insts[i]);
      continue;
    }
    if (in.n_args < n_out) cg_fail(g, TC_STATUS_INTERNAL, "a region yields too few values");
    for (int32_t j = 0; j < n_out && j < in.n_args && g->status == TC_STATUS_OK; j++) {
      cg_form(g, in.args[j], cg_varying(g, in.args[j]));
      out[j] = g->vals[in.args[j]];
    }
  }
  g->maybe = outside;
}

void cg_region(cg *g, int32_t r, int32_t n_out, cg_val *out) {
  tc_kregion region;
  tc_k_region(g->k, r, &region);
  if (++g->depth > MAX_DEPTH)
    cg_fail(g, TC_STATUS_RESOURCE_EXHAUSTED, "the kernel is nested deeper than %d regions", MAX_DEPTH);
  cg_part(g, &region, 0, region.n_insts, n_out, out);
  g->depth--;
  for (int32_t j = 0; j < n_out && g->status == TC_STATUS_OK; j++)
    if (!out[j].v) cg_fail(g, TC_STATUS_INTERNAL, "a region yields nothing");
}
