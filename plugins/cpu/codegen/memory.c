// The memory opcodes: brings an instruction into the form of access.c, by what of it differs by lane.
#include "codegen.h"

static LLVMTypeRef i64_type(cg *g) { return LLVMInt64TypeInContext(g->ctx); }

// ---- Loops over the lanes ----

LLVMValueRef cg_spill(cg *g, LLVMValueRef v) {
  LLVMTypeRef bit = LLVMInt1TypeInContext(g->ctx);
  if (LLVMGetElementType(LLVMTypeOf(v)) == bit)
    v = LLVMBuildZExt(g->b, v, cg_like(v, LLVMInt8TypeInContext(g->ctx)), "");
  LLVMValueRef slot = cg_alloca(g, LLVMTypeOf(v), 64, "slot");
  LLVMBuildStore(g->b, v, slot);
  return slot;
}

LLVMValueRef cg_slot(cg *g, LLVMValueRef slot, LLVMTypeRef elem, LLVMValueRef lane) {
  return LLVMBuildGEP2(g->b, elem, slot, &lane, 1, "");
}

LLVMValueRef cg_lane_loop_begin(cg *g, cg_lane_loop *l, LLVMValueRef mask) {
  LLVMTypeRef i8 = LLVMInt8TypeInContext(g->ctx);
  LLVMValueRef flags = mask ? cg_spill(g, mask) : NULL;
  LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b), body = cg_new_block(g, "lane");
  l->head = cg_new_block(g, "lanes"), l->latch = cg_new_block(g, "next"), l->done = cg_new_block(g, "done");
  LLVMBuildBr(g->b, l->head);
  LLVMPositionBuilderAtEnd(g->b, l->head);
  l->lane = LLVMBuildPhi(g->b, i64_type(g), "");
  LLVMAddIncoming(l->lane, (LLVMValueRef[]){cg_i64(g, 0)}, &before, 1);
  if (flags) {
    LLVMValueRef f = LLVMBuildLoad2(g->b, i8, cg_slot(g, flags, i8, l->lane), "");
    LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntNE, f, cg_int_like(f, 0), ""), body, l->latch);
  } else LLVMBuildBr(g->b, body);
  LLVMPositionBuilderAtEnd(g->b, body);
  return l->lane;
}

void cg_lane_loop_end(cg *g, cg_lane_loop *l) {
  LLVMBuildBr(g->b, l->latch);
  LLVMPositionBuilderAtEnd(g->b, l->latch);
  LLVMValueRef next = LLVMBuildAdd(g->b, l->lane, cg_i64(g, 1), "");
  LLVMAddIncoming(l->lane, &next, &l->latch, 1);
  LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntULT, next, cg_i64(g, g->lanes), ""), l->head, l->done);
  LLVMPositionBuilderAtEnd(g->b, l->done);
}

// ---- Stored and computed form of bool ----

static LLVMValueRef from_storage(cg *g, const cg_mem *m, LLVMValueRef v) {
  if (m->info.dtype != TC_BOOL) return v;
  return LLVMBuildICmp(g->b, LLVMIntNE, v, cg_int_like(v, 0), "");
}

static LLVMValueRef to_storage(cg *g, const cg_mem *m, LLVMValueRef v) {
  return m->info.dtype == TC_BOOL ? LLVMBuildZExt(g->b, v, cg_like(v, m->elem), "") : v;
}

// ---- Addresses ----

static LLVMValueRef widen(cg *g, LLVMValueRef v, bool is_signed) {
  LLVMTypeRef t = cg_like(v, i64_type(g));
  if (LLVMTypeOf(v) == t) return v;
  return is_signed ? LLVMBuildSExt(g->b, v, t, "") : LLVMBuildZExt(g->b, v, t, "");
}

static tc_dtype dtype_of(cg *g, tc_kval v) {
  tc_kvalue info;
  tc_k_value(g->k, v, &info);
  return info.dtype;
}

static LLVMValueRef scalar_index(cg *g, tc_kval index) {
  const cg_val *v = &g->vals[index];
  if (v->root) return LLVMBuildAdd(g->b, widen(g, v->root, true), cg_i64(g, v->offset), "");
  return widen(g, cg_scalar(g, index), cg_is_signed(dtype_of(g, index)));
}

static int32_t align_of(const cg_mem *m, int32_t zeros) {
  int32_t by_index = zeros > 12 ? 1 << 12 : m->size << (zeros > 8 ? 8 : zeros);
  return by_index < m->align ? by_index : m->align;
}

// The access of instruction `in` whose index value differs by lane.
static void make_access(cg *g, const tc_kinst *in, cg_access *a) {
  tc_kval index = in->args[0];
  tc_dtype d = dtype_of(g, index);
  const cg_val *v = &g->vals[index];
  *a = (cg_access){.m = &g->mems[in->mem], .width = in->width};
  a->index = cg_vector(g, index);
  if (!cg_is_signed(d) || cg_bits(d) < 32) a->index = widen(g, a->index, cg_is_signed(d));
  a->align = align_of(a->m, 0);
  if (!v->base || (v->stride && !cg_is_signed(d) && d != TC_U64)) return;
  if (v->root) a->base = LLVMBuildAdd(g->b, widen(g, v->root, true), cg_i64(g, v->offset), "");
  else a->base = widen(g, v->base, cg_is_signed(d));
  a->stride = v->stride ? widen(g, v->stride, cg_is_signed(d)) : cg_i64(g, 0);
  a->align = align_of(a->m, v->zeros);
}

// ---- Lane arrays: element e of lane l lies at e*lanes + l ----

// Access to element `offset` behind the index of `in`.
static void lane_access(cg *g, const tc_kinst *in, int32_t offset, cg_access *a) {
  cg_mem *m = &g->mems[in->mem];
  tc_dtype d = dtype_of(g, in->args[0]);
  const cg_val *v = &g->vals[in->args[0]];
  *a = (cg_access){.m = m, .width = 1, .align = m->align};
  LLVMValueRef lanes = cg_i64(g, g->lanes);
  LLVMValueRef e = widen(g, cg_vector(g, in->args[0]), cg_is_signed(d));
  e = LLVMBuildMul(g->b, LLVMBuildAdd(g->b, e, cg_int_like(e, offset), ""), cg_int_like(e, g->lanes), "");
  a->index = LLVMBuildAdd(g->b, e, cg_lane_numbers(g, i64_type(g), g->lanes), "");
  int32_t row = g->lanes * m->size & -(g->lanes * m->size);
  if (row < a->align) a->align = row;
  if (cg_varying(g, in->args[0])) return;
  LLVMValueRef base = LLVMBuildAdd(g->b, widen(g, v->v, cg_is_signed(d)), cg_i64(g, offset), "");
  a->base = LLVMBuildMul(g->b, base, lanes, "");
  a->stride = cg_i64(g, 1);
}

// True if the access surely stays inside, so that masked-off lanes may be touched too.
static bool always_inside(cg *g, const cg_access *a) {
  int64_t i;
  return a->base && cg_const_int(a->base, &i) && i >= 0 && i / g->lanes < a->m->info.count;
}

static void load_lanes(cg *g, const tc_kinst *in, LLVMValueRef mask) {
  g->apart.fits &= g->mems[in->mem].info.dtype != TC_BF16;
  for (int32_t i = 0; i < in->width; i++) {
    cg_access a;
    LLVMValueRef other = NULL, got;
    lane_access(g, in, i, &a);
    if (mask) other = to_storage(g, a.m, cg_vector(g, in->args[2 + i]));
    bool select = mask && always_inside(g, &a);
    if (mask && !select) a.mask = mask, a.other = &other;
    cg_read(g, &a, &got);
    if (select) got = LLVMBuildSelect(g->b, mask, got, other, "");
    g->vals[in->results[i]] = (cg_val){.v = from_storage(g, a.m, got)};
  }
}

static void store_lanes(cg *g, const tc_kinst *in, LLVMValueRef mask) {
  g->apart.fits &= g->mems[in->mem].info.dtype != TC_BF16;
  for (int32_t i = 0; i < in->width; i++) {
    cg_access a;
    lane_access(g, in, i, &a);
    LLVMValueRef v = to_storage(g, a.m, cg_vector(g, in->args[1 + i]));
    if (mask && always_inside(g, &a)) {
      LLVMValueRef old;
      cg_read(g, &a, &old);
      v = LLVMBuildSelect(g->b, mask, v, old, "");
    } else a.mask = mask;
    cg_write(g, &a, &v);
  }
}

// ---- Loads ----

// Runs what follows only if `cond`; guard_end closes it.
static LLVMBasicBlockRef guard_begin(cg *g, LLVMValueRef cond) {
  LLVMBasicBlockRef then = cg_new_block(g, "if"), done = cg_new_block(g, "endif");
  LLVMBuildCondBr(g->b, cond, then, done);
  LLVMPositionBuilderAtEnd(g->b, then);
  return done;
}

static void guard_end(cg *g, LLVMBasicBlockRef done) {
  LLVMBuildBr(g->b, done);
  LLVMPositionBuilderAtEnd(g->b, done);
}

// Element i behind a scalar index; where `allowed` is false, memory that is always there is read instead.
static LLVMValueRef load_scalar(cg *g, const cg_mem *m, LLVMValueRef index, int32_t i, LLVMValueRef allowed) {
  if (i) index = LLVMBuildAdd(g->b, index, cg_i64(g, i), "");
  LLVMValueRef p = cg_address(g, m, index);
  if (allowed) p = LLVMBuildSelect(g->b, allowed, p, g->dummy, "");
  LLVMValueRef v = LLVMBuildLoad2(g->b, m->elem, p, "");
  LLVMSetAlignment(v, (unsigned)(m->align < m->size ? m->align : m->size));
  if (!allowed) cg_mark_invariant(g, m, v);
  return v;
}

static bool bad_access(cg *g, const tc_kinst *in) {
  int32_t n_args = in->op == TC_K_STORE ? 1 + in->width + (in->has_mask != 0) : 1 + (in->has_mask ? 1 + in->width : 0);
  if (in->mem >= 0 && in->mem < g->n_mems && in->width >= 1 && in->width <= CG_MAX_WIDTH && in->n_args == n_args)
    return false;
  cg_fail(g, TC_STATUS_UNIMPLEMENTED, "a load or store of width %d is not supported (at most %d)", in->width,
          CG_MAX_WIDTH);
  return true;
}

// Where all lanes share a mask: a branch. Masked loads from addresses that nothing lies at, as those of the other parts
// of a concatenation are, read nothing, but take hundreds of cycles for that (a key behind 1024 others: 8.0 ms with
// masks, 0.3 so). Windows, which have many such loads, of rows that lie side by side, are better off with masks (7 × 7,
// 0.83 ms for 1.14).
enum { FEW_JUMPS = 8 };
static void read_if(cg *g, const cg_access *a, LLVMValueRef cond, LLVMValueRef *others, LLVMValueRef *out) {
  LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b), done = guard_begin(g, cond);
  cg_read(g, a, out);
  LLVMBasicBlockRef from[] = {before, LLVMGetInsertBlock(g->b)};
  guard_end(g, done);
  for (int32_t i = 0; i < a->width; i++) {
    LLVMValueRef phi = LLVMBuildPhi(g->b, LLVMTypeOf(out[i]), "");
    LLVMAddIncoming(phi, (LLVMValueRef[]){others[i], out[i]}, from, 2);
    out[i] = phi;
  }
}

void cg_load(cg *g, const tc_kinst *in) {
  if (bad_access(g, in)) return;
  cg_mem *m = &g->mems[in->mem];
  tc_kval index = in->args[0], mask = in->has_mask ? in->args[1] : -1;
  const tc_kval *other = in->args + 2;
  bool varying = cg_varying(g, in->results[0]), mask_varying = mask >= 0 && cg_varying(g, mask);
  LLVMValueRef allowed = mask >= 0 ? cg_form(g, mask, mask_varying) : NULL;
  if (m->info.space == TC_SPACE_LANE) {
    load_lanes(g, in, allowed ? cg_vector(g, mask) : NULL);
    return;
  }
  if (!cg_varying(g, index)) {
    LLVMValueRef at = scalar_index(g, index), any = allowed ? cg_any(g, allowed) : NULL;
    cg_apart_scalar(g, m);
    g->apart.fits &= !mask_varying || m->info.dtype != TC_BF16;
    for (int32_t i = 0; i < in->width; i++) {
      LLVMValueRef v = from_storage(g, m, load_scalar(g, m, at, i, any));
      bool wide = varying || cg_varying(g, in->results[i]);
      if (wide) v = cg_splat(g, v, g->lanes);
      if (allowed) v = LLVMBuildSelect(g->b, allowed, v, cg_form(g, other[i], wide), "");
      g->vals[in->results[i]] = (cg_val){.v = v, .base = wide || cg_is_float(m->info.dtype) ? NULL : v};
    }
    return;
  }
  LLVMValueRef others[CG_MAX_WIDTH], got[CG_MAX_WIDTH];
  cg_access a;
  make_access(g, in, &a);
  for (int32_t i = 0; allowed && i < in->width; i++) others[i] = to_storage(g, m, cg_vector(g, other[i]));
  int64_t stride = 0;
  bool plain = in->width == 1 && a.base && cg_const_int(a.stride, &stride) && stride == 1;
  bool jumps = allowed && !mask_varying && (!plain || g->maybe <= FEW_JUMPS);
  if (allowed && !jumps) a.mask = cg_vector(g, mask), a.other = others;
  cg_apart_access(g, &a, g->vals[index].zeros);
  if (jumps) read_if(g, &a, allowed, others, got);
  else cg_read(g, &a, got);
  for (int32_t i = 0; i < in->width; i++) g->vals[in->results[i]] = (cg_val){.v = from_storage(g, m, got[i])};
}

// ---- Stores ----

// One address for all lanes: the value of the last lane that takes part stays.
static void store_uniform(cg *g, const tc_kinst *in, cg_mem *m, LLVMValueRef mask) {
  LLVMValueRef at = scalar_index(g, in->args[0]), lane = NULL;
  LLVMBasicBlockRef done = mask ? guard_begin(g, cg_any(g, mask)) : NULL;
  cg_apart_scalar(g, m);
  for (int32_t i = 0; i < in->width; i++) {
    LLVMValueRef v = g->vals[in->args[1 + i]].v;
    if (v && cg_count(v)) {
      g->apart.fits = false;
      if (!lane && mask && cg_count(mask)) {
        LLVMValueRef w = LLVMBuildBitCast(g->b, mask, LLVMIntTypeInContext(g->ctx, (unsigned)g->lanes), "");
        LLVMValueRef zero_poison = LLVMConstInt(LLVMInt1TypeInContext(g->ctx), 0, 0);
        w = cg_call(g, "llvm.ctlz", LLVMTypeOf(w), 2, (LLVMValueRef[]){w, zero_poison});
        lane = LLVMBuildSub(g->b, cg_int_like(w, g->lanes - 1), w, "");
        if (g->lanes < 32) lane = LLVMBuildZExt(g->b, lane, LLVMInt32TypeInContext(g->ctx), "");
      } else if (!lane) lane = cg_i32(g, g->lanes - 1);
      v = LLVMBuildExtractElement(g->b, v, lane, "");
    } else v = cg_scalar(g, in->args[1 + i]);
    LLVMValueRef to = cg_address(g, m, i ? LLVMBuildAdd(g->b, at, cg_i64(g, i), "") : at);
    LLVMSetAlignment(LLVMBuildStore(g->b, to_storage(g, m, v), to),
                     (unsigned)(m->align < m->size ? m->align : m->size));
  }
  if (done) guard_end(g, done);
}

void cg_store(cg *g, const tc_kinst *in) {
  if (bad_access(g, in)) return;
  cg_mem *m = &g->mems[in->mem];
  tc_kval mask = in->has_mask ? in->args[1 + in->width] : -1;
  LLVMValueRef allowed = mask >= 0 ? cg_form(g, mask, cg_varying(g, mask)) : NULL;
  if (m->info.space == TC_SPACE_LANE) {
    store_lanes(g, in, allowed ? cg_vector(g, mask) : NULL);
    return;
  }
  if (!cg_varying(g, in->args[0])) {
    store_uniform(g, in, m, allowed);
    return;
  }
  LLVMValueRef values[CG_MAX_WIDTH];
  for (int32_t i = 0; i < in->width; i++) values[i] = to_storage(g, m, cg_vector(g, in->args[1 + i]));
  cg_access a;
  make_access(g, in, &a);
  LLVMBasicBlockRef done = NULL;
  if (allowed && !cg_count(allowed)) done = guard_begin(g, allowed);
  else a.mask = allowed;
  cg_apart_access(g, &a, g->vals[in->args[0]].zeros);
  cg_write(g, &a, values);
  if (done) guard_end(g, done);
}

// ---- The rest ----

void cg_atomic_add(cg *g, const tc_kinst *in) {
  if (in->mem < 0 || in->mem >= g->n_mems || in->n_args < 2) {
    cg_fail(g, TC_STATUS_INTERNAL, "malformed atomic_add");
    return;
  }
  cg_mem *m = &g->mems[in->mem];
  tc_dtype d = m->info.dtype;
  if (m->info.space == TC_SPACE_LANE || d == TC_BOOL || d == TC_F16 || d == TC_BF16) {
    cg_fail(g, TC_STATUS_UNIMPLEMENTED, "atomic_add needs global or shared memory of integers, f32 or f64");
    return;
  }
  cg_apart_scalar(g, m);
  LLVMAtomicRMWBinOp op = cg_is_float(d) ? LLVMAtomicRMWBinOpFAdd : LLVMAtomicRMWBinOpAdd;
  tc_kval mask = in->has_mask ? in->args[2] : -1;
  if (!g->in_lanes) {
    LLVMBasicBlockRef done = mask >= 0 ? guard_begin(g, cg_scalar(g, mask)) : NULL;
    LLVMBuildAtomicRMW(g->b, op, cg_address(g, m, scalar_index(g, in->args[0])), cg_scalar(g, in->args[1]),
                       LLVMAtomicOrderingMonotonic, 0);
    if (done) guard_end(g, done);
    return;
  }
  bool is_signed = cg_is_signed(dtype_of(g, in->args[0]));
  LLVMValueRef index = cg_spill(g, widen(g, cg_vector(g, in->args[0]), is_signed)),
               value = cg_spill(g, cg_vector(g, in->args[1]));
  cg_lane_loop loop;
  LLVMValueRef lane = cg_lane_loop_begin(g, &loop, mask >= 0 ? cg_vector(g, mask) : NULL);
  LLVMValueRef at = LLVMBuildLoad2(g->b, i64_type(g), cg_slot(g, index, i64_type(g), lane), "");
  LLVMValueRef v = LLVMBuildLoad2(g->b, m->elem, cg_slot(g, value, m->elem, lane), "");
  LLVMBuildAtomicRMW(g->b, op, cg_address(g, m, at), v, LLVMAtomicOrderingMonotonic, 0);
  cg_lane_loop_end(g, &loop);
}

// A hint: the cache lines of a uniform or contiguous access. What is far goes to the second-level cache: in the first
// one it would be in the way (a softmax takes 0.92 of its time so, a residual and its layer norm 0.94; near ones are
// wanted there: a chain of gelu and sigmoid takes 1.14 without).
void cg_prefetch(cg *g, const tc_kinst *in) {
  if (in->mem < 0 || in->mem >= g->n_mems || g->mems[in->mem].info.space != TC_SPACE_GLOBAL) return;
  cg_mem *m = &g->mems[in->mem];
  const cg_val *v = &g->vals[in->args[0]];
  int64_t stride = 0;
  if (!v->base || (v->stride && !cg_const_int(v->stride, &stride)) || stride < 0 || stride > 4) return;
  LLVMValueRef base = widen(g, v->base, cg_is_signed(dtype_of(g, in->args[0])));
  int64_t bytes = stride * (g->lanes - 1) * m->size, per_line = 64 / m->size;
  enum { SECOND_LEVEL = 2, FIRST_LEVEL = 3 }; // as LLVM counts locality
  LLVMValueRef level = cg_i32(g, in->flags & TC_KI_FAR ? SECOND_LEVEL : FIRST_LEVEL);
  for (int64_t b = 0; b <= bytes; b += 64) {
    LLVMValueRef p = cg_address(g, m, b ? LLVMBuildAdd(g->b, base, cg_i64(g, b / 64 * per_line), "") : base);
    LLVMValueRef args[] = {p, cg_i32(g, (m->info.flags & TC_MEM_WRITEONLY) != 0), level, cg_i32(g, 1)};
    cg_call(g, "llvm.prefetch", LLVMTypeOf(p), 4, args);
  }
}
