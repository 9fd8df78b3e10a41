// The frame of a kernel as LLVM IR.
//
//   NAME(begin, end, args, errors)   unpacks the words of args and calls
//   NAME.body(begin, end, parameters…, scratch, errors)   whose parameters carry no-alias and alignment facts
//
// and which is inlined there, so that one function is compiled and the facts stay as metadata.
//
// The body is a loop over blocks. A failed check is written to the error block at the end of the kernel's block, by the
// first who comes.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen.h"

enum {
  MAX_LOCAL_BYTES = 256 << 10, // stack of one kernel; more goes to scratch memory
  MAX_CLEARED = 64             // elements of a lane array that are marked as fresh in each block
};

static void unlikely(cg *g, LLVMValueRef branch) {
  LLVMMetadataRef parts[] = {LLVMMDStringInContext2(g->ctx, "branch_weights", 14), LLVMValueAsMetadata(cg_i32(g, 1)),
                             LLVMValueAsMetadata(cg_i32(g, 4000))};
  LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(g->ctx, "prof", 4),
                  LLVMMetadataAsValue(g->ctx, LLVMMDNodeInContext2(g->ctx, parts, 3)));
}

static void set_attr(cg *g, LLVMValueRef fn, unsigned index, const char *name, uint64_t value) {
  unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
  LLVMAddAttributeAtIndex(fn, index, LLVMCreateEnumAttribute(g->ctx, kind, value));
}

static void set_text_attr(cg *g, LLVMValueRef fn, const char *name, const char *value) {
  LLVMAttributeRef a = LLVMCreateStringAttribute(g->ctx, name, (unsigned)strlen(name), value, (unsigned)strlen(value));
  LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex, a);
}

enum { STACK_ALIGN = 64 };

// The stack is aligned to cache lines on entry: LLVM decides about it before it knows whether registers will be
// spilled, and else spills whole vectors across lines wherever the caller's stack happens to end.
static void function_attrs(cg *g, LLVMValueRef fn) {
  unsigned whole = (unsigned)LLVMAttributeFunctionIndex;
  set_attr(g, fn, whole, "nounwind", 0);
  set_attr(g, fn, whole, "alignstack", STACK_ALIGN);
  set_text_attr(g, fn, "no-builtins", "true");
  set_text_attr(g, fn, "no-jump-tables", "true");
  set_text_attr(g, fn, "prefer-vector-width", g->vector_bytes == 64 ? "512" : "256");
  if (g->target->sanitize) set_attr(g, fn, whole, "sanitize_address", 0);
}

// Shared memory and lane arrays: on the stack while they fit, else in scratch. Returns the bytes of scratch.
static int64_t place_locals(cg *g, LLVMValueRef scratch) {
  int64_t local = 0, in_scratch = 0;
  for (int32_t i = 0; i < g->n_mems && g->status == TC_STATUS_OK; i++) {
    cg_mem *m = &g->mems[i];
    bool lanes = m->info.space == TC_SPACE_LANE;
    if (!lanes && m->info.space != TC_SPACE_SHARED) continue;
    int64_t count = m->info.count, bytes;
    if (g->apart.on && !lanes && count >= 0 && count < INT32_MAX) count = (count + g->lanes - 1) / g->lanes * g->lanes;
    if (count < 0 || count > INT32_MAX ||
        __builtin_mul_overflow(count, (int64_t)m->size * (lanes ? g->lanes : 1), &bytes) || bytes > 1ll << 31) {
      cg_fail(g, TC_STATUS_OUT_OF_RANGE, "shared memory of %lld elements is too large", (long long)count);
      return 0;
    }
    m->align = m->info.align > 64 ? m->info.align : 64;
    bytes = (bytes + m->align - 1) / m->align * m->align;
    m->half = bytes;
    if (m->twice) bytes *= 2;
    if (local + bytes <= MAX_LOCAL_BYTES) {
      LLVMTypeRef t = LLVMArrayType2(m->elem, (uint64_t)(m->twice ? bytes / m->size : count * (lanes ? g->lanes : 1)));
      m->ptr = cg_alloca(g, t, m->align, "");
      local += bytes;
    } else {
      LLVMValueRef offset = cg_i64(g, in_scratch);
      m->align = 64;
      m->ptr = LLVMBuildGEP2(g->b, LLVMInt8TypeInContext(g->ctx), scratch, &offset, 1, "");
      in_scratch += (bytes + 63) / 64 * 64;
    }
    m->both = m->ptr;
  }
  return in_scratch;
}

static void describe_mems(cg *g) {
  for (int32_t i = 0; i < g->n_mems && g->status == TC_STATUS_OK; i++) {
    cg_mem *m = &g->mems[i];
    tc_k_mem(g->k, i, &m->info);
    m->elem = cg_storage_type(g, m->info.dtype);
    m->size = m->info.dtype == TC_BOOL ? 1 : cg_bits(m->info.dtype) / 8;
    m->align = m->info.align > 0 ? m->info.align & -m->info.align : m->size;
    if (m->info.space != TC_SPACE_TABLE) continue;
    if (m->info.count < 0 || m->info.count > 1 << 26 || (m->info.count > 0 && !m->info.data)) {
      cg_fail(g, TC_STATUS_OUT_OF_RANGE, "a table of %lld elements is too large", (long long)m->info.count);
      return;
    }
    LLVMValueRef data =
        LLVMConstStringInContext2(g->ctx, m->info.data, (size_t)(m->info.count * m->size), 1); // its bytes
    m->ptr = LLVMAddGlobal(g->mod, LLVMTypeOf(data), "table");
    LLVMSetInitializer(m->ptr, data);
    LLVMSetGlobalConstant(m->ptr, 1);
    LLVMSetLinkage(m->ptr, LLVMPrivateLinkage);
    m->align = 64;
    LLVMSetAlignment(m->ptr, 64);
    cg_plain_data(g->target, m->ptr);
  }
}

// The types of the body's parameters, and what is known of each.
static LLVMValueRef make_body(cg *g, const char *name, LLVMTypeRef *types, int32_t n_params) {
  LLVMTypeRef i64 = LLVMInt64TypeInContext(g->ctx), ptr = LLVMPointerTypeInContext(g->ctx, 0);
  types[0] = types[1] = i64;
  for (int32_t i = 0; i < n_params; i++) {
    tc_kparam p;
    tc_kscalar_info s;
    tc_k_param(g->k, i, &p);
    if (p.is_scalar ? p.index < 0 || p.index >= g->n_scalars : p.index < 0 || p.index >= g->n_mems) {
      cg_fail(g, TC_STATUS_INTERNAL, "parameter %d names something that does not exist", i);
      return NULL;
    }
    tc_k_scalar(g->k, p.index, &s);
    types[2 + i] = p.is_scalar ? cg_scalar_type(g, s.dtype) : ptr;
  }
  types[2 + n_params] = types[3 + n_params] = ptr;
  LLVMTypeRef t = LLVMFunctionType(LLVMVoidTypeInContext(g->ctx), types, (unsigned)n_params + 4, 0);
  LLVMValueRef fn = LLVMAddFunction(g->mod, name, t);
  LLVMSetLinkage(fn, LLVMInternalLinkage);
  function_attrs(g, fn);
  set_attr(g, fn, (unsigned)LLVMAttributeFunctionIndex, "alwaysinline", 0);
  for (int32_t i = 0; i < n_params; i++) {
    tc_kparam p;
    tc_k_param(g->k, i, &p);
    LLVMValueRef v = LLVMGetParam(fn, (unsigned)i + 2);
    if (p.is_scalar) {
      g->scalars[p.index] = v;
      continue;
    }
    cg_mem *m = &g->mems[p.index];
    m->ptr = v;
    unsigned index = (unsigned)i + 3; // attribute numbers count the result
    if (m->info.flags & TC_MEM_NOALIAS) set_attr(g, fn, index, "noalias", 0);
    if (m->info.flags & TC_MEM_READONLY) set_attr(g, fn, index, "readonly", 0);
    set_attr(g, fn, index, "nocapture", 0);
    if (m->align > 1) set_attr(g, fn, index, "align", (uint64_t)m->align);
  }
  set_attr(g, fn, (unsigned)n_params + 3, "noalias", 0); // scratch
  return fn;
}

// Writes a kept failure to the error block, if none is there yet.
static void report_checks(cg *g) {
  LLVMTypeRef i64 = LLVMInt64TypeInContext(g->ctx);
  LLVMBasicBlockRef failed = cg_new_block(g, "failed"), first = cg_new_block(g, "first"),
                    done = cg_new_block(g, "checked");
  LLVMValueRef site = LLVMBuildLoad2(g->b, i64, g->site, "");
  unlikely(g, LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntNE, site, cg_i64(g, -1), ""), failed, done));
  LLVMPositionBuilderAtEnd(g->b, failed);
  LLVMValueRef pair = LLVMBuildAtomicCmpXchg(g->b, g->errors, cg_i64(g, -1), site, LLVMAtomicOrderingMonotonic,
                                             LLVMAtomicOrderingMonotonic, 0);
  LLVMBuildCondBr(g->b, LLVMBuildExtractValue(g->b, pair, 1, ""), first, done);
  LLVMPositionBuilderAtEnd(g->b, first);
  LLVMValueRef one = cg_i64(g, 1), at = LLVMBuildGEP2(g->b, i64, g->errors, &one, 1, "");
  LLVMBuildStore(g->b, LLVMBuildSExt(g->b, g->block, i64, ""), at);
  LLVMBuildBr(g->b, done);
  LLVMPositionBuilderAtEnd(g->b, done);
}

// Lane arrays hold nothing at the start of a block; saying so keeps them out of the block loop's registers.
static void clear_lane_arrays(cg *g) {
  for (int32_t i = 0; i < g->n_mems; i++) {
    cg_mem *m = &g->mems[i];
    if (m->info.space != TC_SPACE_LANE || m->info.count > MAX_CLEARED) continue;
    LLVMTypeRef row = LLVMVectorType(m->elem, (unsigned)g->lanes);
    for (int64_t e = 0; e < m->info.count; e++)
      LLVMSetAlignment(LLVMBuildStore(g->b, LLVMGetUndef(row), cg_address(g, m, cg_i64(g, e * g->lanes))),
                       (unsigned)m->size);
  }
}

static void emit_blocks(cg *g, LLVMValueRef begin, LLVMValueRef end) {
  LLVMTypeRef i64 = LLVMInt64TypeInContext(g->ctx), i32 = LLVMInt32TypeInContext(g->ctx);
  LLVMBasicBlockRef pre = LLVMGetInsertBlock(g->b), head = cg_new_block(g, "block"), done = cg_new_block(g, "end");
  LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, begin, end, ""), head, done);
  LLVMPositionBuilderAtEnd(g->b, head);
  LLVMValueRef block = LLVMBuildPhi(g->b, i64, "block");
  LLVMAddIncoming(block, &begin, &pre, 1);
  bool staggered = g->overlap.beside >= 0;
  if (staggered) cg_overlap_enter(g);
  g->block = LLVMBuildTrunc(g->b, block, i32, "");
  LLVMBuildStore(g->b, cg_i64(g, -1), g->site);
  clear_lane_arrays(g);
  if (staggered) cg_overlap_body(g, LLVMBuildICmp(g->b, LLVMIntEQ, block, begin, ""));
  else cg_region(g, tc_k_body(g->k), 0, NULL);
  if (g->has_checks) report_checks(g);
  LLVMValueRef next = LLVMBuildAdd(g->b, block, cg_i64(g, 1), "");
  LLVMSetNSW(next, 1);
  LLVMBasicBlockRef latch = LLVMGetInsertBlock(g->b);
  LLVMAddIncoming(block, &next, &latch, 1);
  LLVMBasicBlockRef last = staggered ? cg_new_block(g, "last") : done;
  LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, next, end, ""), head, last);
  if (staggered) {
    cg_overlap_leave(g, pre);
    LLVMPositionBuilderAtEnd(g->b, last);
    cg_overlap_end(g);
    LLVMBuildBr(g->b, done);
  }
  LLVMPositionBuilderAtEnd(g->b, done);
  if (g->streamed) cg_call2(g, "llvm.x86.sse.sfence", NULL, 0, 0, NULL);
  LLVMBuildRetVoid(g->b);
}

static LLVMValueRef scalar_from_word(cg *g, tc_dtype d, LLVMValueRef word) {
  int32_t bits = cg_bits(d);
  if (d == TC_BOOL) {
    LLVMValueRef low = LLVMBuildTrunc(g->b, word, LLVMInt8TypeInContext(g->ctx), "");
    return LLVMBuildICmp(g->b, LLVMIntNE, low, cg_int_like(low, 0), "");
  }
  LLVMValueRef v = bits < 64 ? LLVMBuildTrunc(g->b, word, LLVMIntTypeInContext(g->ctx, (unsigned)bits), "") : word;
  return LLVMBuildBitCast(g->b, v, cg_scalar_type(g, d), "");
}

static void make_entry(cg *g, const char *name, LLVMValueRef body, LLVMTypeRef body_type, int32_t n_params,
                       LLVMValueRef *call) {
  LLVMTypeRef i64 = LLVMInt64TypeInContext(g->ctx), ptr = LLVMPointerTypeInContext(g->ctx, 0);
  LLVMTypeRef t = LLVMFunctionType(LLVMVoidTypeInContext(g->ctx), (LLVMTypeRef[]){i64, i64, ptr, ptr}, 4, 0);
  LLVMValueRef fn = LLVMAddFunction(g->mod, name, t);
  LLVMSetVisibility(fn, LLVMHiddenVisibility); // reached directly, not through a table of addresses
  function_attrs(g, fn);
  LLVMPositionBuilderAtEnd(g->b, LLVMAppendBasicBlockInContext(g->ctx, fn, ""));
  call[0] = LLVMGetParam(fn, 0), call[1] = LLVMGetParam(fn, 1);
  for (int32_t i = 0; i <= n_params; i++) {
    LLVMValueRef at = cg_i64(g, i);
    LLVMValueRef word = LLVMBuildLoad2(g->b, i64, LLVMBuildGEP2(g->b, i64, LLVMGetParam(fn, 2), &at, 1, ""), "");
    tc_kparam p = {0};
    tc_kscalar_info s;
    if (i < n_params) tc_k_param(g->k, i, &p);
    tc_k_scalar(g->k, p.index, &s);
    if (i < n_params && p.is_scalar) call[2 + i] = scalar_from_word(g, s.dtype, word);
    else call[2 + i] = LLVMBuildIntToPtr(g->b, word, ptr, "");
  }
  call[3 + n_params] = LLVMGetParam(fn, 3);
  LLVMBuildCall2(g->b, body_type, body, call, (unsigned)n_params + 4, "");
  LLVMBuildRetVoid(g->b);
}

static void add_meta(cg *g, const char *name, int32_t n_params, int64_t scratch) {
  LLVMValueRef fields[] = {cg_i32(g, TC_CPU_KERNEL_VERSION), cg_i32(g, n_params), cg_i64(g, scratch)};
  LLVMValueRef init = LLVMConstStructInContext(g->ctx, fields, 3, 0);
  LLVMValueRef meta = LLVMAddGlobal(g->mod, LLVMTypeOf(init), name);
  LLVMSetInitializer(meta, init);
  LLVMSetGlobalConstant(meta, 1);
  LLVMSetAlignment(meta, 8);
  cg_plain_data(g->target, meta);
}

// Returns the bytes of scratch.
static int64_t emit_body(cg *g, const char *name, LLVMTypeRef *types, int32_t n_params) {
  g->fn = g->status == TC_STATUS_OK ? make_body(g, name, types, n_params) : NULL;
  if (!g->fn) return 0;
  g->errors = LLVMGetParam(g->fn, (unsigned)n_params + 3);
  LLVMBasicBlockRef entry = cg_new_block(g, "entry"), setup = cg_new_block(g, "setup");
  LLVMPositionBuilderAtEnd(g->b, entry);
  LLVMPositionBuilderBefore(g->allocas, LLVMBuildBr(g->b, setup));
  LLVMPositionBuilderAtEnd(g->b, setup);
  g->site = cg_alloca(g, LLVMInt64TypeInContext(g->ctx), 8, "site");
  g->dummy = cg_alloca(g, LLVMArrayType2(LLVMInt64TypeInContext(g->ctx), 1), 8, "dummy");
  int64_t scratch = place_locals(g, LLVMGetParam(g->fn, (unsigned)n_params + 2));
  emit_blocks(g, LLVMGetParam(g->fn, 0), LLVMGetParam(g->fn, 1));
  return scratch;
}

// Without the lanes held apart.
static void start_again(cg *g) {
  LLVMDeleteFunction(g->fn);
  memset(g->vals, 0, (size_t)g->n_vals * sizeof *g->vals);
  g->apart.on = g->streamed = g->has_checks = false, g->emitted = 0;
}

static void emit_function(cg *g, tc_sv name) {
  int32_t n_params = tc_k_param_count(g->k);
  LLVMTypeRef *types = calloc((size_t)n_params + 4, sizeof *types);
  LLVMValueRef *call = calloc((size_t)n_params + 4, sizeof *call);
  char *text = calloc(name.size + 8, 1);
  if (!types || !call || !text) {
    cg_fail(g, TC_STATUS_OUT_OF_MEMORY, "no memory for a kernel");
    goto done;
  }
  memcpy(text, name.data, name.size);
  if (LLVMGetNamedFunction(g->mod, text)) {
    cg_fail(g, TC_STATUS_INVALID_ARGUMENT, "two kernels of one module have the same name");
    goto done;
  }
  describe_mems(g);
  memcpy(text + name.size, ".body", 6);
  cg_apart_begin(g);
  cg_overlap_begin(g);
  int64_t scratch = emit_body(g, text, types, n_params);
  if (g->apart.on && g->status == TC_STATUS_OK && !cg_apart_fits(g)) {
    start_again(g);
    scratch = emit_body(g, text, types, n_params);
  }
  LLVMValueRef body = g->fn;
  if (!body) goto done;
  text[name.size] = 0;
  make_entry(g, text, body, LLVMGlobalGetValueType(body), n_params, call);
  memcpy(text + name.size, ".meta", 6);
  add_meta(g, text, n_params, scratch);
done:
  free(types);
  free(call);
  free(text);
}

int32_t cg_kernel(LLVMContextRef ctx, LLVMModuleRef mod, const tc_cpu_target *t, const tc_kernel *k, char *why,
                  size_t why_size) {
  cg g = {.k = k,
          .target = t,
          .ctx = ctx,
          .mod = mod,
          .lanes = tc_k_lanes(k),
          .vector_bytes = (int32_t)t->words[TC_CPU_WORD_VECTOR]};
  tc_sv name = tc_k_name(k);
  g.avx512 = g.vector_bytes == 64;
  g.n_vals = tc_k_value_count(k), g.n_mems = tc_k_mem_count(k), g.n_scalars = tc_k_scalar_count(k);
  g.vals = calloc((size_t)g.n_vals + 1, sizeof *g.vals);
  g.mems = calloc((size_t)g.n_mems + 1, sizeof *g.mems);
  g.scalars = calloc((size_t)g.n_scalars + 1, sizeof(LLVMValueRef));
  g.long_nans = cg_long_nans(k);
  g.overlap.kept = calloc((size_t)g.n_vals + 1, sizeof *g.overlap.kept);
  g.overlap.outer = calloc((size_t)tc_k_inst_count(k) + 1, sizeof *g.overlap.outer);
  if (!g.vals || !g.mems || !g.scalars || !g.long_nans || !g.overlap.kept || !g.overlap.outer)
    cg_fail(&g, TC_STATUS_OUT_OF_MEMORY, "no memory for a kernel");
  else if (g.lanes < 1 || g.lanes > CG_MAX_LANES)
    cg_fail(&g, TC_STATUS_UNIMPLEMENTED, "%d lanes; this device has 1 to %d", g.lanes, CG_MAX_LANES);
  else if (name.size == 0 || memchr(name.data, 0, name.size))
    cg_fail(&g, TC_STATUS_INVALID_ARGUMENT, "a kernel needs a name");
  else {
    g.b = LLVMCreateBuilderInContext(ctx);
    g.allocas = LLVMCreateBuilderInContext(ctx);
    emit_function(&g, name);
    LLVMDisposeBuilder(g.b);
    LLVMDisposeBuilder(g.allocas);
  }
  free(g.vals);
  free(g.mems);
  free(g.scalars);
  free(g.long_nans);
  free(g.overlap.kept);
  free(g.overlap.outer);
  if (g.status != TC_STATUS_OK)
    snprintf(why, why_size, "kernel '%.*s': %s", (int)(name.size < 100 ? name.size : 100), name.data, g.message);
  return g.status;
}
