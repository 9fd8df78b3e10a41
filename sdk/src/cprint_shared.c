// Where shared memory lies in a buffer of its own: what is never needed at the same time shares its bytes, so that more
// blocks fit on a multiprocessor, or what they read fits its cache.
//
// Barriers in the block's own region divide a kernel into phases; an array is needed from the first to the last phase
// that touches it, loops and branches belonging to the phase in which they stand. Arrays take the lowest place, in the
// order of the kernel, where none lies that is needed with them.
#include "cprint.h"

enum { MOST = 32, ALIGN = 128 }; // with more arrays each has its own place

typedef struct place {
  int64_t at, size;
  int32_t first, last; // phases; first > last: never touched
} place;

static void touch(const tc_kernel *k, int32_t region, int32_t phase, tc_kmem m, place *p) {
  tc_kregion g;
  tc_kinst in;
  tc_k_region(k, region, &g);
  for (int32_t i = 0; i < g.n_insts; i++) {
    tc_k_inst(k, g.insts[i], &in);
    if (in.mem == m) p->last = phase, p->first = p->first < phase ? p->first : phase;
    for (int32_t r = 0; r < in.n_regions; r++) touch(k, in.regions[r], phase, m, p);
  }
}

static void find_phases(const tc_kernel *k, tc_kmem m, place *p) {
  tc_kregion g;
  tc_kinst in;
  int32_t phase = 0;
  p->first = INT32_MAX, p->last = -1;
  tc_k_region(k, tc_k_body(k), &g);
  for (int32_t i = 0; i < g.n_insts; i++) {
    tc_k_inst(k, g.insts[i], &in);
    if (in.op == TC_K_BARRIER) phase++;
    if (in.mem == m) p->last = phase, p->first = p->first < phase ? p->first : phase;
    for (int32_t r = 0; r < in.n_regions; r++) touch(k, in.regions[r], phase, m, p);
  }
}

static bool meet(const place *a, const place *b) {
  return a->first <= b->last && b->first <= a->last && a->at < b->at + b->size && b->at < a->at + a->size;
}

// The lowest place that meets none of the n before it: behind one of them, or the beginning.
static void put_in_place(place *all, int32_t n) {
  place *p = &all[n];
  int64_t best = INT64_MAX;
  for (int32_t i = -1; i < n; i++) {
    bool free_there = true;
    p->at = i < 0 ? 0 : all[i].at + all[i].size;
    for (int32_t j = 0; j < n; j++) free_there = free_there && !meet(p, &all[j]);
    if (free_there && p->at < best) best = p->at;
  }
  p->at = best;
}

static int64_t bytes_of(const tc_kernel *k, tc_kmem m) {
  tc_kmem_info info;
  tc_k_mem(k, m, &info);
  return info.space == TC_SPACE_SHARED ? (info.count * size_of(info.dtype) + ALIGN - 1) / ALIGN * ALIGN : 0;
}

int64_t shared_bytes(const tc_kernel *k) {
  int64_t bytes = 0;
  for (tc_kmem m = 0; m < tc_k_mem_count(k); m++) bytes += bytes_of(k, m);
  return bytes;
}

int64_t shared_offset(const tc_kernel *k, tc_kmem wanted) {
  place all[MOST];
  int32_t n = 0, count = 0;
  int64_t end = 0, plain = 0;
  for (tc_kmem m = 0; m < tc_k_mem_count(k); m++) {
    if (m == wanted) plain = end;
    end += bytes_of(k, m), count += bytes_of(k, m) > 0;
  }
  if (count > MOST) return wanted < tc_k_mem_count(k) ? plain : end;
  end = 0;
  for (tc_kmem m = 0; m < tc_k_mem_count(k) && m <= wanted; m++) {
    all[n].size = bytes_of(k, m);
    if (!all[n].size) continue;
    find_phases(k, m, &all[n]);
    put_in_place(all, n);
    if (m == wanted) return all[n].at;
    if (all[n].at + all[n].size > end) end = all[n].at + all[n].size;
    n++;
  }
  return end;
}
