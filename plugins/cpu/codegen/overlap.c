// The last phase of a row beside an earlier one of the next row.
//
// A block that reduces and then writes (softmax, norms) has its stores in the last of its lanes regions, where memory
// works and arithmetic waits, behind regions that compute, where memory waits. So the blocks of a range are staggered:
// the loop of the last region runs for block b - 1 in turns with the loop of an earlier region, of the same bounds, for
// block b, and for the range's last block behind all of them. Per block, with `late` the last region and `beside` the
// nearest region in front of it that has such a loop:
//
//   head      everything in front of `beside`
//   first     of the range's first block: `beside`          others: `beside` and, in turns, `late` of the block before
//   rest      everything else
//
// What `late` uses of its block stays until then: values in phis, numbers that depend on nothing but the block are
// made again, and shared memory is there twice, the halves taking turns.
//
// It is done where a row is fetched ahead, which tells that rows come from beyond the core's own caches, and where
// `beside` computes, or is the only loop in front of `late`, so that it is what brings the row: 1024 rows of 4096,
// softmax 0.75 to 0.80 of its time on Zen 5, 0.85 with AVX2 code; on a Sapphire Rapids and an Ice Lake a residual and
// its layer norm 0.81 to 0.85, an RMS norm of bf16 0.92. A loop over what an earlier one left in the caches gives
// memory nothing to hide behind (a layer norm whose squares were a loop of their own 1.15 on Zen 5).
#include <stdlib.h>

#include "codegen.h"

enum {
  MAX_DEPTH = 100,
  ARITHMETIC = 10 // instructions for an element of `beside`, at least
};

static tc_kinst inst_of(const cg *g, int32_t number) {
  tc_kinst in;
  tc_k_inst(g->k, number, &in);
  return in;
}

static tc_kregion region_of(const cg *g, int32_t r) {
  tc_kregion region;
  tc_k_region(g->k, r, &region);
  return region;
}

// Whether v is a number that depends on nothing but the block.
static bool is_place(const cg *g, tc_kval v, int32_t depth) {
  tc_kvalue info;
  tc_k_value(g->k, v, &info);
  if (info.inst < 0 || info.varying || cg_is_float(info.dtype) || depth > MAX_DEPTH) return false;
  tc_kinst in = inst_of(g, info.inst);
  bool plain = in.op <= TC_K_BITCAST && in.n_results == 1;
  for (int32_t i = 0; i < in.n_args && plain; i++) plain = is_place(g, in.args[i], depth + 1);
  return plain;
}

// The values from outside that a region uses, each once, what they are made from in front where they are places.
static void add_outer(cg *g, tc_kval v, int32_t depth) {
  cg_overlap *o = &g->overlap;
  tc_kvalue info;
  tc_k_value(g->k, v, &info);
  if (info.inst < 0 || !o->outer[info.inst] || depth > MAX_DEPTH) return;
  for (int32_t i = 0; i < o->n_kept; i++)
    if (o->kept[i].v == v) return;
  bool place = is_place(g, v, 0);
  tc_kinst in = inst_of(g, info.inst);
  for (int32_t i = 0; i < in.n_args && place; i++) add_outer(g, in.args[i], depth + 1);
  o->kept[o->n_kept++] = (cg_kept){.v = v, .inst = place ? info.inst : -1};
}

// Whether a region of `late` only does what may be done later, and what it uses.
static bool may_wait(cg *g, int32_t r, int32_t depth) {
  tc_kregion region = region_of(g, r);
  if (depth > MAX_DEPTH) return false;
  for (int32_t i = 0; i < region.n_insts; i++) {
    tc_kinst in = inst_of(g, region.insts[i]);
    const tc_kmem_info *m = in.mem >= 0 && in.mem < g->n_mems ? &g->mems[in.mem].info : NULL;
    if (in.op == TC_K_CHECK || in.op == TC_K_ATOMIC_ADD || (m && m->space == TC_SPACE_LANE)) return false;
    if (in.op == TC_K_LOAD && m && m->space == TC_SPACE_GLOBAL && !(m->flags & TC_MEM_READONLY)) return false;
    int32_t alone = TC_MEM_WRITEONLY | TC_MEM_NOALIAS;
    if (in.op == TC_K_STORE && m && (m->space != TC_SPACE_GLOBAL || (m->flags & alone) != alone)) return false;
    if (m && m->space == TC_SPACE_SHARED) g->mems[in.mem].twice = true;
    for (int32_t j = 0; j < in.n_args; j++) add_outer(g, in.args[j], 0);
    for (int32_t j = 0; j < in.n_regions; j++)
      if (!may_wait(g, in.regions[j], depth + 1)) return false;
  }
  return true;
}

static bool fetches(const cg *g) {
  for (int32_t i = 0, n = tc_k_inst_count(g->k); i < n; i++)
    if (inst_of(g, i).op == TC_K_PREFETCH) return true;
  return false;
}

static bool constant(const cg *g, tc_kval v, int64_t *out) {
  tc_kvalue info;
  tc_k_value(g->k, v, &info);
  if (info.inst < 0) return false;
  tc_kinst in = inst_of(g, info.inst);
  *out = in.imm;
  return in.op == TC_K_CONST && !cg_is_float(info.dtype);
}

// Whether both are loops over the same rounds, which are several.
static bool alike(const cg *g, const tc_kinst *a, const tc_kinst *b) {
  int64_t lo[2], hi[2];
  if (a->op != TC_K_FOR || b->op != TC_K_FOR || a->n_args < 2 || b->n_args < 2 || a->imm != b->imm) return false;
  if ((a->flags | b->flags) & TC_KI_UNROLL) return false;
  if (!constant(g, a->args[0], &lo[0]) || !constant(g, a->args[1], &hi[0])) return false;
  if (!constant(g, b->args[0], &lo[1]) || !constant(g, b->args[1], &hi[1])) return false;
  tc_kvalue iv[2];
  tc_k_value(g->k, a->args[0], &iv[0]);
  tc_k_value(g->k, b->args[0], &iv[1]);
  return iv[0].dtype == iv[1].dtype && lo[0] == lo[1] && hi[0] == hi[1] && hi[0] - lo[0] > a->imm;
}

static bool computes(const cg *g, const tc_kinst *loop) {
  tc_kregion body = region_of(g, *loop->regions);
  int32_t n = 0;
  for (int32_t i = 0; i < body.n_insts; i++) {
    tc_kinst in = inst_of(g, body.insts[i]);
    tc_kvalue info = {0};
    if (in.n_results == 1) tc_k_value(g->k, *in.results, &info);
    n += in.op > TC_K_SCALAR && in.op < TC_K_LOAD && info.varying && cg_is_float(info.dtype);
  }
  return n >= ARITHMETIC;
}

// Lanes regions in front of `late` that have a loop.
static int32_t passes(const cg *g, const tc_kregion *body, int32_t late) {
  int32_t n = 0;
  for (int32_t i = 0; i < late; i++) {
    tc_kinst in = inst_of(g, body->insts[i]);
    if (in.op != TC_K_LANES || in.n_regions != 1) continue;
    tc_kregion lanes = region_of(g, *in.regions);
    bool loops = false;
    for (int32_t j = 0; j < lanes.n_insts; j++) loops |= inst_of(g, lanes.insts[j]).op == TC_K_FOR;
    n += loops;
  }
  return n;
}

// The first pair of loops of two lanes regions that are alike, of which one computes unless it is the `only` one, as
// places in these.
static bool find_loops(cg *g, int32_t beside, int32_t late, bool only) {
  tc_kregion a = region_of(g, *inst_of(g, beside).regions), b = region_of(g, *inst_of(g, late).regions);
  for (int32_t i = 0; i < a.n_insts; i++) {
    for (int32_t j = 0; j < b.n_insts; j++) {
      tc_kinst x = inst_of(g, a.insts[i]), y = inst_of(g, b.insts[j]);
      if (!alike(g, &x, &y) || (!only && !computes(g, &x))) continue;
      g->overlap.loops[0] = i, g->overlap.loops[1] = j;
      return true;
    }
  }
  return false;
}

void cg_overlap_begin(cg *g) {
  cg_overlap *o = &g->overlap;
  tc_kregion body = region_of(g, tc_k_body(g->k));
  int32_t n = body.n_insts;
  while (n > 0 && inst_of(g, body.insts[n - 1]).op == TC_K_YIELD) n--;
  o->late = n - 1, o->beside = -1, o->n_kept = 0;
  if (n < 3 || inst_of(g, body.insts[o->late]).op != TC_K_LANES || !fetches(g)) return;
  bool only = passes(g, &body, o->late) == 1;
  for (int32_t i = o->late; i-- > 0 && o->beside < 0;) {
    tc_kinst in = inst_of(g, body.insts[i]);
    bool lanes = in.op == TC_K_LANES && in.n_regions == 1 && in.n_results > 0;
    if (lanes && find_loops(g, body.insts[i], body.insts[n - 1], only)) o->beside = i;
  }
  if (o->beside < 0) return;
  for (int32_t i = 0; i < o->late; i++) o->outer[body.insts[i]] = true;
  if (may_wait(g, *inst_of(g, body.insts[o->late]).regions, 0)) return;
  o->beside = -1;
  for (int32_t i = 0; i < g->n_mems; i++) g->mems[i].twice = false;
}

void cg_overlap_turn(cg *g) {
  cg_overlap *o = &g->overlap;
  for (int32_t i = 0; i < o->n_kept; i++) {
    cg_val v = g->vals[o->kept[i].v];
    g->vals[o->kept[i].v] = o->kept[i].other, o->kept[i].other = v;
  }
  LLVMValueRef block = g->block;
  g->block = o->block, o->block = block;
  for (int32_t i = 0; i < g->n_mems; i++) {
    if (!g->mems[i].twice) continue;
    LLVMValueRef ptr = g->mems[i].ptr;
    g->mems[i].ptr = g->mems[i].other, g->mems[i].other = ptr;
  }
}

void cg_overlap_enter(cg *g) {
  cg_overlap *o = &g->overlap;
  o->block = LLVMBuildPhi(g->b, LLVMInt32TypeInContext(g->ctx), "before");
  for (int32_t i = 0; i < o->n_kept; i++) {
    tc_kvalue info;
    tc_k_value(g->k, o->kept[i].v, &info);
    if (o->kept[i].inst < 0) o->kept[i].phi = LLVMBuildPhi(g->b, cg_type(g, info.dtype, info.varying), "before");
  }
}

void cg_overlap_leave(cg *g, LLVMBasicBlockRef outside) {
  cg_overlap *o = &g->overlap;
  LLVMBasicBlockRef from[] = {outside, LLVMGetInsertBlock(g->b)};
  LLVMValueRef blocks[] = {LLVMGetUndef(LLVMTypeOf(g->block)), g->block};
  LLVMAddIncoming(o->block, blocks, from, 2);
  for (int32_t i = 0; i < o->n_kept && g->status == TC_STATUS_OK; i++) {
    if (o->kept[i].inst >= 0) continue;
    LLVMValueRef phi = o->kept[i].phi, values[] = {LLVMGetUndef(LLVMTypeOf(phi)), g->vals[o->kept[i].v].v};
    LLVMAddIncoming(phi, values, from, 2);
  }
}

// The halves of shared memory of this block and of the one before.
static void take_halves(cg *g) {
  LLVMTypeRef i8 = LLVMInt8TypeInContext(g->ctx);
  LLVMValueRef odd = LLVMBuildTrunc(g->b, g->block, LLVMInt1TypeInContext(g->ctx), "");
  for (int32_t i = 0; i < g->n_mems; i++) {
    cg_mem *m = &g->mems[i];
    if (!m->twice) continue;
    LLVMValueRef at = cg_i64(g, m->half), second = LLVMBuildGEP2(g->b, i8, m->both, &at, 1, "");
    m->ptr = LLVMBuildSelect(g->b, odd, second, m->both, "");
    m->other = LLVMBuildSelect(g->b, odd, m->both, second, "");
  }
}

// What `late` uses of the block before; that block is the one to be emitted.
static void take_kept(cg *g) {
  cg_overlap *o = &g->overlap;
  for (int32_t i = 0; i < o->n_kept && g->status == TC_STATUS_OK; i++)
    o->kept[i].inst < 0 ? cg_define(g, o->kept[i].v, o->kept[i].phi, 0) : cg_inst(g, o->kept[i].inst);
}

static void emit_both(cg *g, const tc_kinst *beside, const tc_kinst *late, cg_val *out) {
  tc_kregion a = region_of(g, *beside->regions), b = region_of(g, *late->regions);
  const int32_t *loops = g->overlap.loops;
  tc_kinst first = inst_of(g, a.insts[loops[0]]), second = inst_of(g, b.insts[loops[1]]);
  g->in_lanes = true;
  cg_part(g, &a, 0, loops[0], 0, NULL);
  cg_overlap_turn(g);
  take_kept(g);
  cg_part(g, &b, 0, loops[1], 0, NULL);
  cg_overlap_turn(g);
  if (g->status == TC_STATUS_OK) cg_loop_beside(g, &first, &second);
  cg_part(g, &a, loops[0] + 1, a.n_insts, beside->n_results, out);
  cg_overlap_turn(g);
  cg_part(g, &b, loops[1] + 1, b.n_insts, 0, NULL);
  cg_overlap_turn(g);
  g->in_lanes = false;
}

// `beside` alone in a range's first block, else with `late` of the block before.
static void emit_beside(cg *g, LLVMValueRef alone, int32_t number, int32_t late_number) {
  tc_kinst in = inst_of(g, number), late = inst_of(g, late_number);
  int32_t n = in.n_results;
  cg_val *both = calloc((size_t)n + 1, sizeof *both);
  LLVMValueRef *x = calloc((size_t)n + 1, sizeof *x);
  LLVMBasicBlockRef from[2] = {cg_new_block(g, "alone"), cg_new_block(g, "both")}, join = cg_new_block(g, "joined");
  LLVMBuildCondBr(g->b, alone, from[0], from[1]);
  LLVMPositionBuilderAtEnd(g->b, from[0]);
  cg_inst(g, number);
  for (int32_t i = 0; x && i < n && g->status == TC_STATUS_OK; i++) x[i] = cg_vector(g, in.results[i]);
  from[0] = LLVMGetInsertBlock(g->b);
  LLVMBuildBr(g->b, join);
  LLVMPositionBuilderAtEnd(g->b, from[1]);
  if (!both || !x) cg_fail(g, TC_STATUS_OUT_OF_MEMORY, "no memory for two blocks");
  else emit_both(g, &in, &late, both);
  for (int32_t i = 0; i < n && g->status == TC_STATUS_OK; i++) {
    g->vals[in.results[i]] = both[i];
    both[i].v = cg_vector(g, in.results[i]);
  }
  from[1] = LLVMGetInsertBlock(g->b);
  LLVMBuildBr(g->b, join);
  LLVMPositionBuilderAtEnd(g->b, join);
  for (int32_t i = 0; i < n && g->status == TC_STATUS_OK; i++) {
    LLVMValueRef phi = LLVMBuildPhi(g->b, LLVMTypeOf(x[i]), "");
    LLVMAddIncoming(phi, (LLVMValueRef[]){x[i], both[i].v}, from, 2);
    cg_define(g, in.results[i], phi, 0);
  }
  free(both);
  free(x);
}

void cg_overlap_body(cg *g, LLVMValueRef first) {
  const cg_overlap *o = &g->overlap;
  tc_kregion body = region_of(g, tc_k_body(g->k));
  take_halves(g);
  cg_part(g, &body, 0, o->beside, 0, NULL);
  if (g->status == TC_STATUS_OK) emit_beside(g, first, body.insts[o->beside], body.insts[o->late]);
  cg_part(g, &body, o->beside + 1, o->late, 0, NULL);
}

void cg_overlap_end(cg *g) {
  if (g->status == TC_STATUS_OK) cg_inst(g, region_of(g, tc_k_body(g->k)).insts[g->overlap.late]);
}
