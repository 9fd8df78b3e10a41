// One vector access to memory, by its shape:
//   stride 1             vector loads and stores
//   stride = width       whole registers and (de)interleaving: complex pairs, pixels
//   stride -1            reversed;  stride 2 … 8: whole registers and shuffles, never reading past the first and last
//   lane width 2, 4, 8, 16    rows of that width per lane, transposed in registers else                 gathers and
//   scatters
// With a mask and AVX-512, loads of stride 1 … 8 and stores of stride 1 are masked accesses; every other shape tests
// whether all lanes take part and then goes without the mask, else through masked gathers or a loop over the lanes.
#include "codegen.h"

enum { MAX_STRIDE = 8 };

static LLVMTypeRef vector_of(const cg_access *a, int32_t n) { return LLVMVectorType(a->m->elem, (unsigned)n); }
static int32_t floor_power(int32_t v) { return v & -v; }

LLVMValueRef cg_address(cg *g, const cg_mem *m, LLVMValueRef index) {
  return LLVMBuildGEP2(g->b, m->elem, m->ptr, &index, 1, "");
}

// Address of base + offset, and the alignment known there.
static LLVMValueRef at(cg *g, const cg_access *a, int64_t offset, int32_t *align) {
  if (align) {
    int64_t bytes = offset * a->m->size;
    int64_t known = bytes ? bytes & -bytes : a->align;
    *align = known < a->align ? (int32_t)known : a->align;
  }
  LLVMValueRef index = offset ? LLVMBuildAdd(g->b, a->base, cg_i64(g, offset), "") : a->base;
  return cg_address(g, a->m, index);
}

void cg_mark_invariant(cg *g, const cg_mem *m, LLVMValueRef load) {
  int32_t both = TC_MEM_READONLY | TC_MEM_NOALIAS;
  if (m->info.space != TC_SPACE_TABLE && (m->info.space != TC_SPACE_GLOBAL || (m->info.flags & both) != both)) return;
  unsigned kind = LLVMGetMDKindIDInContext(g->ctx, "invariant.load", 14);
  LLVMSetMetadata(load, kind, LLVMMetadataAsValue(g->ctx, LLVMMDNodeInContext2(g->ctx, NULL, 0)));
}

static LLVMValueRef load_vector(cg *g, const cg_access *a, int64_t offset, int32_t n) {
  int32_t align;
  LLVMValueRef p = at(g, a, offset, &align);
  LLVMValueRef v = LLVMBuildLoad2(g->b, vector_of(a, n), p, "");
  LLVMSetAlignment(v, (unsigned)align);
  cg_mark_invariant(g, a->m, v);
  return v;
}

static void store_vector(cg *g, const cg_access *a, int64_t offset, LLVMValueRef v) {
  int32_t align, bytes = cg_count(v) * a->m->size;
  LLVMValueRef p = at(g, a, offset, &align);
  LLVMValueRef s = LLVMBuildStore(g->b, v, p);
  LLVMSetAlignment(s, (unsigned)align);
  int32_t whole = bytes < g->vector_bytes ? bytes : g->vector_bytes;
  if (!(a->m->info.flags & TC_MEM_STREAM) || align < whole || bytes < 16) return;
  LLVMMetadataRef one = LLVMValueAsMetadata(cg_i32(g, 1));
  LLVMSetMetadata(s, LLVMGetMDKindIDInContext(g->ctx, "nontemporal", 11),
                  LLVMMetadataAsValue(g->ctx, LLVMMDNodeInContext2(g->ctx, &one, 1)));
  g->streamed = true;
}

// Lanes that go together: as many as fill a register, if the lanes divide so.
static int32_t group_of(cg *g, const cg_access *a) {
  int32_t q = g->vector_bytes / a->m->size;
  return g->lanes > q && g->lanes % q == 0 ? q : g->lanes;
}

static bool const_stride(const cg_access *a, int64_t *c) {
  *c = 0;
  return a->base && (!a->stride || cg_const_int(a->stride, c));
}

static LLVMValueRef lane_index(cg *g, const cg_access *a, int32_t lane) {
  if (a->base) return LLVMBuildAdd(g->b, a->base, LLVMBuildMul(g->b, a->stride, cg_i64(g, lane), ""), "");
  LLVMValueRef i = LLVMBuildExtractElement(g->b, a->index, cg_i32(g, lane), "");
  return LLVMBuildSExt(g->b, i, LLVMInt64TypeInContext(g->ctx), "");
}

// The same access to element `offset` of each lane.
static cg_access element(cg *g, const cg_access *a, int32_t offset) {
  cg_access e = *a;
  e.width = 1;
  if (a->other) e.other = a->other + offset;
  if (offset == 0) return e;
  if (a->base) e.base = LLVMBuildAdd(g->b, a->base, cg_i64(g, offset), "");
  if (a->index) e.index = LLVMBuildAdd(g->b, a->index, cg_int_like(a->index, offset), "");
  int32_t known = floor_power(offset * a->m->size);
  if (known < e.align) e.align = known;
  return e;
}

static LLVMValueRef pointers(cg *g, const cg_access *a) {
  return LLVMBuildGEP2(g->b, a->m->elem, a->m->ptr, (LLVMValueRef[]){a->index}, 1, "");
}

static int32_t element_align(const cg_access *a) { return a->m->align < a->m->size ? a->m->align : a->m->size; }

static bool native_masks(cg *g, const cg_access *a) { return g->avx512 || a->m->size >= 4; }

// ---- Without a mask ----

// Of piece elements e, e + 1, …: those that belong to a lane (every c-th) that takes part. The lanes are `lane` and
// those behind it.
static LLVMValueRef piece_mask(cg *g, LLVMValueRef lanes, int32_t lane, int64_t c, int64_t e, int32_t n) {
  int32_t take[1024];
  for (int32_t k = 0; k < n; k++) take[k] = (e + k) % c == 0 ? lane + (int32_t)((e + k) / c) : g->lanes;
  return cg_shuffle(g, lanes, LLVMConstNull(LLVMTypeOf(lanes)), n, take);
}

static LLVMValueRef load_piece(cg *g, const cg_access *a, int64_t offset, int32_t n, LLVMValueRef mask) {
  if (!mask) return load_vector(g, a, offset, n);
  int32_t align;
  LLVMValueRef p = at(g, a, offset, &align);
  LLVMValueRef args[] = {p, cg_i32(g, align), mask, LLVMConstNull(vector_of(a, n))};
  return cg_call2(g, "llvm.masked.load", (LLVMTypeRef[]){vector_of(a, n), LLVMTypeOf(p)}, 2, 4, args);
}

// Lanes c elements apart. With a mask (c > 1): what lanes that do not take part would get is anything.
static LLVMValueRef read_stride(cg *g, const cg_access *a, int64_t c, LLVMValueRef mask) {
  int32_t q = group_of(g, a), n = g->lanes / q, indices[1024];
  int64_t step = c < 0 ? -c : c, span = (q - 1) * step + 1;
  int32_t n_pieces = (int32_t)((span + q - 1) / q);
  LLVMValueRef parts[1024], piece[MAX_STRIDE + 1];
  for (int32_t p = 0; p < n; p++) {
    int64_t first = (int64_t)p * q * c + (c < 0 ? (q - 1) * c : 0); // lowest index of the group
    int64_t last_piece = span - q;
    for (int32_t j = 0; j < n_pieces; j++) {
      int64_t e = j * q < last_piece ? j * q : last_piece;
      piece[j] = load_piece(g, a, first + e, q, mask ? piece_mask(g, mask, p * q, c, e, q) : NULL);
    }
    for (int32_t i = 0; i < q; i++) {
      int64_t e = (c < 0 ? q - 1 - i : i) * step, j = e / q;
      if (j >= n_pieces - 1) indices[i] = (int32_t)((n_pieces - 1) * q + e - last_piece);
      else indices[i] = (int32_t)e;
    }
    parts[p] = cg_pick(g, n_pieces, piece, q, indices);
  }
  return cg_concat(g, n, parts);
}

// w vectors of n elements in memory order from `first` on, w elements to each lane.
static void read_group(cg *g, const cg_access *a, int64_t first, int32_t n, LLVMValueRef *out) {
  int32_t w = a->width, half = n / 2;
  LLVMValueRef in[CG_MAX_WIDTH];
  if (cg_in_halves(g, w, n, a->m->size)) {
    for (int32_t j = 0; j < w; j++) {
      LLVMValueRef parts[2];
      for (int32_t h = 0; h < 2; h++) parts[h] = load_vector(g, a, first + (int64_t)(h * w + j) * half, half);
      in[j] = cg_concat(g, 2, parts);
    }
    cg_take_halves(g, w, a->m->size, in, out);
    return;
  }
  for (int32_t j = 0; j < w; j++) in[j] = load_vector(g, a, first + (int64_t)j * n, n);
  cg_deinterleave(g, w, in, out);
}

static void read_contiguous(cg *g, const cg_access *a, LLVMValueRef *out) {
  int32_t w = a->width, q = w == 1 ? g->lanes : group_of(g, a), n = g->lanes / q;
  LLVMValueRef got[CG_MAX_WIDTH], parts[CG_MAX_WIDTH][64];
  if (n == 1) {
    read_group(g, a, 0, q, out);
    return;
  }
  for (int32_t p = 0; p < n; p++) {
    read_group(g, a, (int64_t)p * w * q, q, got);
    for (int32_t j = 0; j < w; j++) parts[j][p] = got[j];
  }
  for (int32_t j = 0; j < w; j++) out[j] = cg_concat(g, n, parts[j]);
}

// Rows of `width` elements per lane. Groups of as many lanes as a row has units are transposed; a unit is an element,
// or two of 16 bits, which are taken apart behind the shuffles.
static int32_t unit_of(const cg_access *a) { return a->m->size == 2 && a->width > 2 && a->width % 2 == 0 ? 2 : 1; }

static bool rows_of_units_fit(cg *g, const cg_access *a, int32_t unit) {
  int32_t w = a->width / unit;
  return w > 1 && w <= 16 && (w & (w - 1)) == 0 && g->lanes % w == 0 && a->width * a->m->size <= g->vector_bytes &&
         g->lanes / w <= 64;
}
static bool rows_fit(cg *g, const cg_access *a) { return rows_of_units_fit(g, a, 1); }

// The low and the high halves of vectors of i32.
static void take_apart(cg *g, const cg_access *a, LLVMValueRef v, LLVMValueRef out[2]) {
  LLVMTypeRef bits = LLVMVectorType(LLVMInt16TypeInContext(g->ctx), (unsigned)g->lanes);
  for (int32_t h = 0; h < 2; h++) {
    LLVMValueRef half = h ? LLVMBuildLShr(g->b, v, cg_int_like(v, 16), "") : v;
    out[h] = LLVMBuildBitCast(g->b, LLVMBuildTrunc(g->b, half, bits, ""), vector_of(a, g->lanes), "");
  }
}

static void read_rows(cg *g, const cg_access *a, LLVMValueRef *out) {
  int32_t unit = unit_of(a), w = a->width / unit, n = g->lanes / w;
  LLVMTypeRef row = unit == 1 ? vector_of(a, w) : LLVMVectorType(LLVMInt32TypeInContext(g->ctx), (unsigned)w);
  LLVMValueRef rows[CG_MAX_WIDTH], parts[16][64];
  for (int32_t p = 0; p < n; p++) {
    for (int32_t l = 0; l < w; l++) {
      rows[l] = LLVMBuildLoad2(g->b, row, cg_address(g, a->m, lane_index(g, a, p * w + l)), "");
      LLVMSetAlignment(rows[l], (unsigned)element_align(a));
      cg_mark_invariant(g, a->m, rows[l]);
    }
    cg_transpose(g, w, a->m->size * unit, rows);
    for (int32_t j = 0; j < w; j++) parts[j][p] = rows[j];
  }
  for (int32_t j = 0; j < w; j++) {
    LLVMValueRef v = cg_concat(g, n, parts[j]);
    if (unit == 1) out[j] = v;
    else take_apart(g, a, v, out + (int64_t)j * unit);
  }
}

static LLVMValueRef gather(cg *g, const cg_access *a, LLVMValueRef mask, LLVMValueRef other) {
  LLVMTypeRef t = vector_of(a, g->lanes);
  LLVMValueRef p = pointers(g, a);
  if (!mask) mask = LLVMConstAllOnes(LLVMVectorType(LLVMInt1TypeInContext(g->ctx), (unsigned)g->lanes));
  LLVMValueRef args[] = {p, cg_i32(g, element_align(a)), mask, other ? other : LLVMGetPoison(t)};
  return cg_call2(g, "llvm.masked.gather", (LLVMTypeRef[]){t, LLVMTypeOf(p)}, 2, 4, args);
}

// A table that fits a register of 64 bytes is permuted; of the index only the bits that count its elements matter.
static LLVMValueRef look_up(cg *g, const cg_access *a) {
  enum { REGISTER = 64, ELEMENTS = REGISTER / 4 };
  LLVMTypeRef index_type = LLVMTypeOf(a->index), word = LLVMInt32TypeInContext(g->ctx);
  bool fits = g->avx512 && a->m->info.space == TC_SPACE_TABLE && a->m->info.count == ELEMENTS && a->m->size == 4 &&
              cg_count(a->index) >= 4 && LLVMGetElementType(index_type) == word && g->lanes / ELEMENTS < CG_MAX_PARTS;
  if (!fits) return NULL;
  LLVMTypeRef table_type = LLVMVectorType(word, ELEMENTS);
  LLVMValueRef index = a->index, parts[CG_MAX_PARTS];
  LLVMValueRef table = LLVMBuildLoad2(g->b, table_type, cg_address(g, a->m, cg_i64(g, 0)), "");
  LLVMSetAlignment(table, 4);
  cg_mark_invariant(g, a->m, table);
  if (LLVMIsAInstruction(index) && LLVMGetInstructionOpcode(index) == LLVMAnd &&
      LLVMGetOperand(index, 1) == cg_int_like(index, ELEMENTS - 1))
    index = LLVMGetOperand(index, 0);
  int32_t n = (g->lanes + ELEMENTS - 1) / ELEMENTS;
  for (int32_t i = 0; i < n; i++) {
    LLVMValueRef args[] = {table, cg_register(g, index, i, ELEMENTS)};
    parts[i] = cg_call2(g, "llvm.x86.avx512.permvar.si.512", NULL, 0, 2, args);
  }
  LLVMValueRef r = cg_slice(g, cg_concat(g, n, parts), 0, g->lanes);
  return LLVMBuildBitCast(g->b, r, vector_of(a, g->lanes), "");
}

// Rows that are wider than a register, halved; false if there is nothing to halve.
static bool halve_rows(cg *g, const cg_access *a, cg_access halves[2]) {
  int32_t w = a->width;
  if ((w & (w - 1)) != 0 || w < 4 || w * a->m->size <= g->vector_bytes || g->lanes % 2) return false;
  for (int32_t h = 0; h < 2; h++) halves[h] = element(g, a, h * w / 2), halves[h].width = w / 2;
  return true;
}

static void read_all(cg *g, const cg_access *a, LLVMValueRef *out) {
  int64_t c;
  bool known = const_stride(a, &c);
  cg_access halves[2];
  if (known && c == a->width) read_contiguous(g, a, out);
  else if (known && c == 0)
    for (int32_t i = 0; i < a->width; i++) {
      LLVMValueRef s = LLVMBuildLoad2(g->b, a->m->elem, at(g, a, i, NULL), "");
      LLVMSetAlignment(s, (unsigned)element_align(a));
      out[i] = cg_splat(g, s, g->lanes);
    }
  else if (rows_of_units_fit(g, a, unit_of(a))) read_rows(g, a, out);
  else if (halve_rows(g, a, halves)) {
    read_all(g, &halves[0], out);
    read_all(g, &halves[1], out + a->width / 2);
  } else
    for (int32_t i = 0; i < a->width; i++) {
      cg_access e = element(g, a, i);
      if (known && c == 1) read_contiguous(g, &e, &out[i]);
      else if (known && c >= -MAX_STRIDE && c <= MAX_STRIDE) out[i] = read_stride(g, &e, c, NULL);
      else if (!(out[i] = look_up(g, &e))) out[i] = gather(g, &e, NULL, NULL);
    }
}

// Elements spread over whole registers, written under a constant mask.
static void write_stride(cg *g, const cg_access *a, int64_t c, LLVMValueRef v) {
  int32_t q = group_of(g, a), n = g->lanes / q, place[1024];
  LLVMValueRef bits[1024];
  for (int32_t p = 0; p < n; p++) {
    LLVMValueRef part = cg_slice(g, v, p * q, q);
    for (int32_t j = 0; j < c; j++) {
      for (int32_t i = 0; i < q; i++) {
        int32_t e = j * q + i;
        place[i] = e % c == 0 ? (int32_t)(e / c) : -1;
        bits[i] = LLVMConstInt(LLVMInt1TypeInContext(g->ctx), e % c == 0, 0);
      }
      int32_t align;
      LLVMValueRef to = at(g, a, ((int64_t)p * c + j) * q, &align);
      LLVMValueRef args[] = {cg_shuffle(g, part, NULL, q, place), to, cg_i32(g, align),
                             LLVMConstVector(bits, (unsigned)q)};
      cg_call2(g, "llvm.masked.store", (LLVMTypeRef[]){vector_of(a, q), LLVMTypeOf(to)}, 2, 4, args);
    }
  }
}

static void write_group(cg *g, const cg_access *a, int64_t first, LLVMValueRef *in) {
  int32_t w = a->width, n = cg_count(in[0]), half = n / 2;
  LLVMValueRef out[CG_MAX_WIDTH];
  if (cg_in_halves(g, w, n, a->m->size)) {
    cg_put_halves(g, w, a->m->size, in, out);
    for (int32_t i = 0; i < w; i++) { // first the lower halves of all, in pairs, then the upper ones
      LLVMValueRef *pair = &out[2 * i % w];
      LLVMValueRef parts[] = {cg_slice(g, pair[0], i < w / 2 ? 0 : half, half),
                              cg_slice(g, pair[1], i < w / 2 ? 0 : half, half)};
      store_vector(g, a, first + (int64_t)i * n, cg_concat(g, 2, parts));
    }
    return;
  }
  cg_interleave(g, w, in, out);
  for (int32_t j = 0; j < w; j++) store_vector(g, a, first + (int64_t)j * n, out[j]);
}

static void write_contiguous(cg *g, const cg_access *a, LLVMValueRef *values) {
  int32_t w = a->width, q = w == 1 ? g->lanes : group_of(g, a), n = g->lanes / q;
  LLVMValueRef in[CG_MAX_WIDTH];
  for (int32_t p = 0; p < n; p++) {
    for (int32_t j = 0; j < w; j++) in[j] = cg_slice(g, values[j], p * q, q);
    write_group(g, a, (int64_t)p * w * q, in);
  }
}

static void write_rows(cg *g, const cg_access *a, LLVMValueRef *values) {
  int32_t w = a->width, n = g->lanes / w;
  LLVMValueRef rows[CG_MAX_WIDTH];
  for (int32_t p = 0; p < n; p++) {
    for (int32_t j = 0; j < w; j++) rows[j] = cg_slice(g, values[j], p * w, w);
    cg_transpose(g, w, a->m->size, rows);
    for (int32_t l = 0; l < w; l++) {
      LLVMValueRef s = LLVMBuildStore(g->b, rows[l], cg_address(g, a->m, lane_index(g, a, p * w + l)));
      LLVMSetAlignment(s, (unsigned)element_align(a));
    }
  }
}

static LLVMValueRef reversed(cg *g, LLVMValueRef v) {
  int32_t n = cg_count(v), mask[1024];
  for (int32_t i = 0; i < n; i++) mask[i] = n - 1 - i;
  return cg_shuffle(g, v, NULL, n, mask);
}

static void scatter(cg *g, const cg_access *a, LLVMValueRef v) {
  for (int32_t l = 0; l < g->lanes; l++) {
    LLVMValueRef x = LLVMBuildExtractElement(g->b, v, cg_i32(g, l), "");
    LLVMValueRef s = LLVMBuildStore(g->b, x, cg_address(g, a->m, lane_index(g, a, l)));
    LLVMSetAlignment(s, (unsigned)element_align(a));
  }
}

static void write_all(cg *g, const cg_access *a, LLVMValueRef *values) {
  int64_t c;
  bool known = const_stride(a, &c);
  if (known && c == a->width) {
    write_contiguous(g, a, values);
    return;
  }
  cg_access halves[2];
  if ((!known || c != 0) && rows_fit(g, a)) {
    write_rows(g, a, values);
    return;
  }
  if ((!known || c != 0) && halve_rows(g, a, halves)) {
    write_all(g, &halves[0], values);
    write_all(g, &halves[1], values + a->width / 2);
    return;
  }
  for (int32_t i = 0; i < a->width; i++) {
    cg_access e = element(g, a, i);
    if (known && c == 1) write_contiguous(g, &e, &values[i]);
    else if (known && c == -1) {
      e.base = LLVMBuildSub(g->b, e.base, cg_i64(g, g->lanes - 1), "");
      e.align = element_align(a);
      LLVMValueRef r = reversed(g, values[i]);
      write_contiguous(g, &e, &r);
    } else if (known && c > 1 && c <= 4 && g->avx512 && a->m->size >= 4) write_stride(g, &e, c, values[i]);
    else if (known && c == 0) { // the last lane's value stays
      LLVMValueRef last = LLVMBuildExtractElement(g->b, values[i], cg_i32(g, g->lanes - 1), "");
      LLVMSetAlignment(LLVMBuildStore(g->b, last, at(g, &e, 0, NULL)), (unsigned)element_align(a));
    } else scatter(g, &e, values[i]);
  }
}

// ---- With a mask ----

static LLVMValueRef other_of(const cg_access *a, cg *g, int32_t i) {
  return a->other ? a->other[i] : LLVMGetPoison(vector_of(a, g->lanes));
}

static void read_some(cg *g, const cg_access *a, LLVMValueRef *out) {
  if (g->avx512 && a->m->size >= 4) {
    for (int32_t i = 0; i < a->width; i++) {
      cg_access e = element(g, a, i);
      out[i] = gather(g, &e, a->mask, other_of(a, g, i));
    }
    return;
  }
  LLVMValueRef slots[CG_MAX_WIDTH], index = cg_spill(g, a->index);
  for (int32_t i = 0; i < a->width; i++) slots[i] = cg_spill(g, other_of(a, g, i));
  cg_lane_loop loop;
  LLVMValueRef lane = cg_lane_loop_begin(g, &loop, a->mask);
  LLVMTypeRef it = LLVMGetElementType(LLVMTypeOf(a->index));
  LLVMValueRef first = LLVMBuildLoad2(g->b, it, cg_slot(g, index, it, lane), "");
  first = LLVMBuildSExt(g->b, first, LLVMInt64TypeInContext(g->ctx), "");
  for (int32_t i = 0; i < a->width; i++) {
    LLVMValueRef from = cg_address(g, a->m, LLVMBuildAdd(g->b, first, cg_i64(g, i), ""));
    LLVMValueRef x = LLVMBuildLoad2(g->b, a->m->elem, from, "");
    LLVMSetAlignment(x, (unsigned)element_align(a));
    LLVMBuildStore(g->b, x, cg_slot(g, slots[i], a->m->elem, lane));
  }
  cg_lane_loop_end(g, &loop);
  for (int32_t i = 0; i < a->width; i++) out[i] = LLVMBuildLoad2(g->b, vector_of(a, g->lanes), slots[i], "");
}

static void write_some(cg *g, const cg_access *a, LLVMValueRef *values) {
  LLVMValueRef slots[CG_MAX_WIDTH], index = cg_spill(g, a->index);
  for (int32_t i = 0; i < a->width; i++) slots[i] = cg_spill(g, values[i]);
  cg_lane_loop loop;
  LLVMValueRef lane = cg_lane_loop_begin(g, &loop, a->mask);
  LLVMTypeRef it = LLVMGetElementType(LLVMTypeOf(a->index));
  LLVMValueRef first = LLVMBuildLoad2(g->b, it, cg_slot(g, index, it, lane), "");
  first = LLVMBuildSExt(g->b, first, LLVMInt64TypeInContext(g->ctx), "");
  for (int32_t i = 0; i < a->width; i++) {
    LLVMValueRef x = LLVMBuildLoad2(g->b, a->m->elem, cg_slot(g, slots[i], a->m->elem, lane), "");
    LLVMValueRef s = LLVMBuildStore(g->b, x, cg_address(g, a->m, LLVMBuildAdd(g->b, first, cg_i64(g, i), "")));
    LLVMSetAlignment(s, (unsigned)element_align(a));
  }
  cg_lane_loop_end(g, &loop);
}

// All lanes write one place: the value of the last that takes part stays.
static void write_one_place(cg *g, const cg_access *a, LLVMValueRef *values) {
  LLVMBasicBlockRef some = cg_new_block(g, "some"), join = cg_new_block(g, "join");
  LLVMBuildCondBr(g->b, cg_any(g, a->mask), some, join);
  LLVMPositionBuilderAtEnd(g->b, some);
  LLVMTypeRef t = LLVMIntTypeInContext(g->ctx, (unsigned)g->lanes);
  LLVMValueRef word = LLVMBuildBitCast(g->b, a->mask, t, "");
  LLVMValueRef args[] = {word, LLVMConstInt(LLVMInt1TypeInContext(g->ctx), 1, 0)};
  LLVMValueRef before = cg_call(g, "llvm.ctlz", t, 2, args);
  LLVMValueRef last = LLVMBuildSub(g->b, cg_int_like(before, g->lanes - 1), before, "");
  for (int32_t i = 0; i < a->width; i++) {
    cg_access e = element(g, a, i);
    LLVMValueRef v = LLVMBuildExtractElement(g->b, values[i], last, "");
    LLVMSetAlignment(LLVMBuildStore(g->b, v, at(g, &e, 0, NULL)), (unsigned)element_align(a));
  }
  LLVMBuildBr(g->b, join);
  LLVMPositionBuilderAtEnd(g->b, join);
}

// Branches on whether all lanes take part. The builder ends up in the first case; *some_block waits for the other.
static LLVMBasicBlockRef split(cg *g, const cg_access *a, LLVMBasicBlockRef *join) {
  LLVMBasicBlockRef all = cg_new_block(g, "all"), some = cg_new_block(g, "some");
  *join = cg_new_block(g, "join");
  LLVMBuildCondBr(g->b, cg_all(g, a->mask), all, some);
  LLVMPositionBuilderAtEnd(g->b, all);
  return some;
}

// AVX2's accesses under a mask, which are cut into registers behind us. LLVM 19 reads all lanes of a register where it
// learns only then that a constant factor of the mask leaves out every one of them. So it does not see what the mask is
// made of: each register of it goes through an assembler text of no instruction.
static LLVMValueRef hidden_mask(cg *g, LLVMValueRef mask) {
  enum { REGISTER = 8 };
  int32_t n = cg_count(mask), take[REGISTER];
  if (g->avx512) return mask;
  LLVMTypeRef t = LLVMVectorType(LLVMInt32TypeInContext(g->ctx), REGISTER), fn = LLVMFunctionType(t, &t, 1, 0);
  LLVMValueRef nothing = LLVMGetInlineAsm(fn, "", 0, "=x,0", 4, 0, 0, LLVMInlineAsmDialectATT, 0), parts[1024];
  for (int32_t i = 0; i * REGISTER < n; i++) {
    for (int32_t k = 0; k < REGISTER; k++) take[k] = i * REGISTER + k < n ? i * REGISTER + k : n;
    LLVMValueRef part = cg_shuffle(g, mask, LLVMConstNull(LLVMTypeOf(mask)), REGISTER, take);
    part = LLVMBuildSExt(g->b, part, t, "");
    part = LLVMBuildCall2(g->b, fn, nothing, &part, 1, "");
    parts[i] = LLVMBuildICmp(g->b, LLVMIntSLT, part, LLVMConstNull(t), "");
  }
  return cg_slice(g, cg_concat(g, (n + REGISTER - 1) / REGISTER, parts), 0, n);
}

static LLVMValueRef masked_load(cg *g, const cg_access *a) {
  LLVMTypeRef t = vector_of(a, g->lanes);
  LLVMValueRef p = at(g, a, 0, NULL);
  LLVMValueRef args[] = {p, cg_i32(g, a->align), hidden_mask(g, a->mask), other_of(a, g, 0)};
  return cg_call2(g, "llvm.masked.load", (LLVMTypeRef[]){t, LLVMTypeOf(p)}, 2, 4, args);
}

void cg_read(cg *g, const cg_access *a, LLVMValueRef *out) {
  int64_t c;
  bool plain = const_stride(a, &c) && c == 1 && a->width == 1 && native_masks(g, a);
  if (!a->mask) {
    read_all(g, a, out);
    return;
  }
  if (plain && g->avx512) { // AVX2's masked loads stream at half the speed: better only where needed
    out[0] = masked_load(g, a);
    return;
  }
  if (const_stride(a, &c) && c > 1 && c <= MAX_STRIDE && a->width == 1 && g->avx512) {
    out[0] = LLVMBuildSelect(g->b, a->mask, read_stride(g, a, c, a->mask), other_of(a, g, 0), "");
    return;
  }
  LLVMValueRef fast[CG_MAX_WIDTH], slow[CG_MAX_WIDTH];
  LLVMBasicBlockRef join, some = split(g, a, &join);
  read_all(g, a, fast);
  LLVMBasicBlockRef fast_end = LLVMGetInsertBlock(g->b);
  LLVMBuildBr(g->b, join);
  LLVMPositionBuilderAtEnd(g->b, some);
  if (plain) slow[0] = masked_load(g, a);
  else read_some(g, a, slow);
  LLVMBasicBlockRef slow_end = LLVMGetInsertBlock(g->b);
  LLVMBuildBr(g->b, join);
  LLVMPositionBuilderAtEnd(g->b, join);
  for (int32_t i = 0; i < a->width; i++) {
    out[i] = LLVMBuildPhi(g->b, vector_of(a, g->lanes), "");
    LLVMAddIncoming(out[i], (LLVMValueRef[]){fast[i], slow[i]}, (LLVMBasicBlockRef[]){fast_end, slow_end}, 2);
  }
}

void cg_write(cg *g, const cg_access *a, LLVMValueRef *values) {
  int64_t c;
  bool plain = const_stride(a, &c) && c == 1 && a->width == 1 && native_masks(g, a);
  if (!a->mask) {
    write_all(g, a, values);
    return;
  }
  if (const_stride(a, &c) && c == 0 && g->lanes > 1) {
    write_one_place(g, a, values);
    return;
  }
  // AVX2's masked stores are slow, and streams have none.
  LLVMBasicBlockRef join = NULL;
  if (!plain || !g->avx512 || a->m->info.flags & TC_MEM_STREAM) {
    LLVMBasicBlockRef some = split(g, a, &join);
    write_all(g, a, values);
    LLVMBuildBr(g->b, join);
    LLVMPositionBuilderAtEnd(g->b, some);
  }
  if (plain) {
    LLVMValueRef p = at(g, a, 0, NULL);
    LLVMValueRef args[] = {values[0], p, cg_i32(g, a->align), hidden_mask(g, a->mask)};
    cg_call2(g, "llvm.masked.store", (LLVMTypeRef[]){vector_of(a, g->lanes), LLVMTypeOf(p)}, 2, 4, args);
  } else write_some(g, a, values);
  if (!join) return;
  LLVMBuildBr(g->b, join);
  LLVMPositionBuilderAtEnd(g->b, join);
}
