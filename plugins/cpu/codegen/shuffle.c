// Moving elements between the order of memory and the order of lanes, by constant shuffles of whole registers.
//
// For powers of two, (de)interleaving by w is log2 w rounds of pairwise (de)interleaving: w/2·log2 w·2 two-register
// shuffles. A w × w transpose has as many: perfect shuffles of its rows inside parts of 16 bytes, for which every
// processor has one instruction, then (de)interleaving of whole parts. Other widths pick from one register after
// another.
#include "codegen.h"

static bool power_of_two(int32_t w) { return (w & (w - 1)) == 0; }

// from[0…n) of one length each
LLVMValueRef cg_pick(cg *g, int32_t n, LLVMValueRef *from, int32_t count, const int32_t *indices) {
  int32_t len = cg_count(from[0]), mask[1024];
  LLVMValueRef acc = NULL;
  for (int32_t s = 0; s < n; s += acc ? 1 : 2) {
    if (!acc) {
      for (int32_t i = 0; i < count; i++) mask[i] = indices[i] < 2 * len ? indices[i] : -1;
      acc = cg_shuffle(g, from[0], n > 1 ? from[1] : NULL, count, mask);
      continue;
    }
    bool used = false; // acc has `count` elements: bring the next source to that length, then choose
    int32_t bring[1024];
    for (int32_t i = 0; i < count; i++) {
      bool here = indices[i] / len == s;
      used = used || here;
      bring[i] = here ? indices[i] - s * len : -1;
      mask[i] = here ? count + i : i;
    }
    if (!used) continue;
    if (count == len) {
      for (int32_t i = 0; i < count; i++)
        if (bring[i] >= 0) mask[i] = count + bring[i];
      acc = cg_shuffle(g, acc, from[s], count, mask);
    } else acc = cg_shuffle(g, acc, cg_shuffle(g, from[s], NULL, count, bring), count, mask);
  }
  return acc;
}

// Inside each part of `part` elements: units of a and then of b, first the even ones, then the odd ones.
static void take_pair(cg *g, LLVMValueRef a, LLVMValueRef b, int32_t part, int32_t unit, LLVMValueRef *even,
                      LLVMValueRef *odd) {
  int32_t n = cg_count(a), m1[1024], m2[1024];
  for (int32_t i = 0; i < n; i++) {
    int32_t place = 2 * (i % part / unit) * unit; // in the parts of a and b, one behind the other
    m1[i] = i / part * part + place % part + (place < part ? 0 : n) + i % unit;
    m2[i] = m1[i] + unit;
  }
  *even = cg_shuffle(g, a, b, n, m1);
  *odd = cg_shuffle(g, a, b, n, m2);
}

// Inside each part: elements of a and b in turns, of the lower halves of the parts, then of the upper ones.
static void put_pair(cg *g, LLVMValueRef a, LLVMValueRef b, int32_t part, LLVMValueRef *first, LLVMValueRef *second) {
  int32_t n = cg_count(a), m1[1024], m2[1024];
  for (int32_t i = 0; i < n; i++) {
    int32_t first_part = i / part * part, place = i % part, upper = place + part;
    m1[i] = first_part + place / 2 + place % 2 * n;
    m2[i] = first_part + upper / 2 + upper % 2 * n;
  }
  *first = cg_shuffle(g, a, b, n, m1);
  *second = cg_shuffle(g, a, b, n, m2);
}

// w, a power of two, vectors; inside each part, out[i]: units i, i + w, … of in.
static void take(cg *g, int32_t w, int32_t part, int32_t unit, LLVMValueRef *in, LLVMValueRef *out) {
  LLVMValueRef even[CG_MAX_WIDTH], odd[CG_MAX_WIDTH], r[CG_MAX_WIDTH];
  if (w == 1) {
    out[0] = in[0];
    return;
  }
  for (int32_t i = 0; i < w / 2; i++) take_pair(g, in[2 * i], in[2 * i + 1], part, unit, &even[i], &odd[i]);
  take(g, w / 2, part, unit, even, r);
  for (int32_t i = 0; i < w / 2; i++) out[2 * i] = r[i];
  take(g, w / 2, part, unit, odd, r);
  for (int32_t i = 0; i < w / 2; i++) out[2 * i + 1] = r[i];
}

// The inverse, of units of one element.
static void put(cg *g, int32_t w, int32_t part, LLVMValueRef *in, LLVMValueRef *out) {
  LLVMValueRef even[CG_MAX_WIDTH], odd[CG_MAX_WIDTH], a[CG_MAX_WIDTH], b[CG_MAX_WIDTH];
  if (w == 1) {
    out[0] = in[0];
    return;
  }
  for (int32_t i = 0; i < w / 2; i++) even[i] = in[2 * i], odd[i] = in[2 * i + 1];
  put(g, w / 2, part, even, a);
  put(g, w / 2, part, odd, b);
  for (int32_t i = 0; i < w / 2; i++) put_pair(g, a[i], b[i], part, &out[2 * i], &out[2 * i + 1]);
}

void cg_deinterleave(cg *g, int32_t w, LLVMValueRef *in, LLVMValueRef *out) {
  if (w == 1) {
    out[0] = in[0];
    return;
  }
  int32_t n = cg_count(in[0]);
  if (!power_of_two(w)) {
    int32_t indices[1024];
    for (int32_t j = 0; j < w; j++) {
      for (int32_t i = 0; i < n; i++) indices[i] = i * w + j;
      out[j] = cg_pick(g, w, in, n, indices);
    }
    return;
  }
  take(g, w, n, 1, in, out);
}

void cg_interleave(cg *g, int32_t w, LLVMValueRef *in, LLVMValueRef *out) {
  if (w == 1) {
    out[0] = in[0];
    return;
  }
  int32_t n = cg_count(in[0]);
  if (!power_of_two(w)) {
    int32_t indices[1024];
    for (int32_t j = 0; j < w; j++) { // element e of the whole is element e/w of in[e % w]
      for (int32_t i = 0; i < n; i++) indices[i] = ((j * n + i) % w) * n + (j * n + i) / w;
      out[j] = cg_pick(g, w, in, n, indices);
    }
    return;
  }
  put(g, w, n, in, out);
}

// ---- Parts of 16 bytes ----
enum { PART = 16 };

bool cg_in_halves(cg *g, int32_t w, int32_t n, int32_t size) {
  return !g->avx512 && size >= 4 && w > 1 && power_of_two(w) && n * size == 2 * PART;
}

void cg_take_halves(cg *g, int32_t w, int32_t size, LLVMValueRef *in, LLVMValueRef *out) {
  int32_t part = PART / size, group = w < part ? w : part, step = w / group;
  LLVMValueRef r[CG_MAX_WIDTH];
  for (int32_t k = 0; k < step; k++) {
    for (int32_t i = 0; i < group; i++) r[i] = in[i * step + k];
    take(g, group, part, 1, r, out + (int64_t)k * group);
  }
}

void cg_put_halves(cg *g, int32_t w, int32_t size, LLVMValueRef *in, LLVMValueRef *out) {
  int32_t part = PART / size, group = w < part ? w : part, step = w / group;
  LLVMValueRef r[CG_MAX_WIDTH];
  for (int32_t k = 0; k < step; k++) {
    put(g, group, part, in + (int64_t)k * group, r);
    for (int32_t i = 0; i < group; i++) out[i * step + k] = r[i];
  }
}

void cg_transpose(cg *g, int32_t w, int32_t size, LLVMValueRef *rows) {
  int32_t part = w * size > PART ? PART / size : w, step = w / part;
  LLVMValueRef in[CG_MAX_WIDTH], out[CG_MAX_WIDTH];
  for (int32_t k = 0; k < step; k++) {
    put(g, part, part, rows + (int64_t)k * part, out);
    for (int32_t i = 0; i < part; i++) rows[k * part + i] = out[i];
  }
  for (int32_t i = 0; i < part && step > 1; i++) {
    for (int32_t k = 0; k < step; k++) in[k] = rows[k * part + i];
    take(g, step, w, part, in, out);
    for (int32_t k = 0; k < step; k++) rows[k * part + i] = out[k];
  }
}
