// Moving elements between the order of memory and the order of lanes, by constant shuffles of whole registers.
//
// For powers of two, (de)interleaving by w is log2 w rounds of pairwise (de)interleaving: w/2·log2 w·2 two-register
// shuffles. A w × w transpose is log2 w perfect shuffles of its rows. Other widths pick from one register after
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

static void pairs(cg *g, LLVMValueRef a, LLVMValueRef b, bool deinterleave, LLVMValueRef *first, LLVMValueRef *second) {
  int32_t n = cg_count(a), m1[1024], m2[1024];
  for (int32_t i = 0; i < n; i++) {
    if (deinterleave) m1[i] = 2 * i, m2[i] = 2 * i + 1;
    else m1[i] = i / 2 + (i % 2) * n, m2[i] = (n + i) / 2 + ((n + i) % 2) * n;
  }
  *first = cg_shuffle(g, a, b, n, m1);
  *second = cg_shuffle(g, a, b, n, m2);
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
  LLVMValueRef even[CG_MAX_WIDTH], odd[CG_MAX_WIDTH], r[CG_MAX_WIDTH];
  for (int32_t i = 0; i < w / 2; i++) pairs(g, in[2 * i], in[2 * i + 1], true, &even[i], &odd[i]);
  cg_deinterleave(g, w / 2, even, r);
  for (int32_t i = 0; i < w / 2; i++) out[2 * i] = r[i];
  cg_deinterleave(g, w / 2, odd, r);
  for (int32_t i = 0; i < w / 2; i++) out[2 * i + 1] = r[i];
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
  LLVMValueRef even[CG_MAX_WIDTH], odd[CG_MAX_WIDTH], a[CG_MAX_WIDTH], b[CG_MAX_WIDTH];
  for (int32_t i = 0; i < w / 2; i++) even[i] = in[2 * i], odd[i] = in[2 * i + 1];
  cg_interleave(g, w / 2, even, a);
  cg_interleave(g, w / 2, odd, b);
  for (int32_t i = 0; i < w / 2; i++) pairs(g, a[i], b[i], false, &out[2 * i], &out[2 * i + 1]);
}

void cg_transpose(cg *g, int32_t w, LLVMValueRef *rows) {
  LLVMValueRef next[CG_MAX_WIDTH];
  for (int32_t round = 1; round < w; round *= 2) {
    for (int32_t i = 0; i < w / 2; i++) pairs(g, rows[i], rows[i + w / 2], false, &next[2 * i], &next[2 * i + 1]);
    for (int32_t i = 0; i < w; i++) rows[i] = next[i];
  }
}
