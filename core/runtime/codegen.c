// Code for kernels, from the cache or the code generator.
//
// The key of a kernel is the hash of its text, of the generator's own key, which holds its version and the device's
// features, and of the interface that the generator saw it through: code may hold its numbers of opcodes. Kernels that
// are neither loaded nor on disk are generated in parallel, each with an arena of its own.
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/fs.h"
#include "core/base/profile.h"
#include "core/kernel/ir.h"
#include "core/kernel/kernel.h"
#include "core/runtime/device.h"

#include "tc/tables.h"

typedef struct blob_sink {
  const tc_allocator *allocator;
  char *data;
  size_t size, capacity;
} blob_sink;

static int32_t write_blob(void *self, const void *data, uint64_t size) {
  // Called by a plugin, so nothing may unwind through it: the vector grows with the allocator, not the arena.
  blob_sink *b = self;
  if (b->size + size > b->capacity) {
    size_t capacity = b->capacity ? b->capacity : 16384;
    while (capacity < b->size + size) capacity *= 2;
    char *more = b->allocator->alloc(b->allocator->self, capacity);
    if (!more) return TC_STATUS_OUT_OF_MEMORY;
    if (b->size) memcpy(more, b->data, b->size);
    tc_free(b->allocator, b->data);
    b->data = more;
    b->capacity = capacity;
  }
  if (size) memcpy(b->data + b->size, data, size);
  b->size += size;
  return TC_STATUS_OK;
}

static tc_status needs_generator(const tc_device *d) {
  return d->codegen ? TC_OK : tc_error(TC_STATUS_UNIMPLEMENTED, "the device generates no code");
}

tc_status tc_device_generator_key(tc_device *d, tc_arena *arena, tc_sv *out) {
  TC_TRY(needs_generator(d));
  blob_sink b = {.allocator = d->allocator};
  tc_sink sink = {&b, write_blob};
  tc_status s = tc_plugin_status(d->codegen, d->codegen->codegen->key(d->codegen->host, d->handle, &sink),
                                 "while asking the code generator for its key");
  if (s == TC_OK) *out = tc_sv_printf(arena, TC_SV_FMT " O%d", (int)b.size, b.data ? b.data : "", d->optimize);
  tc_free(d->allocator, b.data);
  return s;
}

// `code` and `text` (may be NULL) are to be freed by the caller, whatever the result.
static tc_status generate(tc_device *d, const tc_kernel *k, blob_sink *code, blob_sink *text) {
  code->allocator = d->allocator;
  TC_TRY(needs_generator(d));
  tc_ksource source;
  if (tc_k_source(k, &source) && !tc_sv_eq(source.language, d->codegen->codegen->source_language)) {
    tc_sv kernel = tc_k_name(k);
    return tc_error(TC_STATUS_UNIMPLEMENTED,
                    "the kernel " TC_SV_FMT " is written in '" TC_SV_FMT "', which the device does not take",
                    TC_SV_ARG(kernel), TC_SV_ARG(source.language));
  }
  tc_sink sink = {code, write_blob}, text_sink = {text, write_blob};
  if (text) text->allocator = d->allocator;
  int32_t rc =
      d->codegen->codegen->compile(d->codegen->host, d->handle, &k, 1, d->optimize, &sink, text ? &text_sink : NULL);
  tc_sv name = tc_k_name(k);
  return tc_plugin_status(d->codegen, rc, "while generating code for the kernel " TC_SV_FMT, TC_SV_ARG(name));
}

typedef struct miss {
  const tc_kernel *kernel;
  int32_t number;
  tc_status status;
  blob_sink code;
  double ms;
} miss;
typedef struct generation {
  tc_device *d;
  miss *misses;
  int32_t n;
  atomic_int next;
} generation;

// Threads take kernels in turn: some take a hundred times as long as others.
static void generate_next(void *arg, int64_t begin, int64_t end) {
  generation *g = arg;
  (void)begin, (void)end;
  for (int32_t i; (i = atomic_fetch_add(&g->next, 1)) < g->n;) {
    miss *m = &g->misses[i];
    double start = tc_now_ms();
    m->status = generate(g->d, m->kernel, &m->code, NULL);
    m->ms = tc_now_ms() - start;
    tc_profile_span(g->d->profile, "codegen", tc_k_name(m->kernel), start, start + m->ms);
  }
}

static int largest_first(const void *a, const void *b) {
  const miss *x = a, *y = b;
  int32_t nx = x->kernel->n_insts, ny = y->kernel->n_insts;
  return nx != ny ? (nx < ny) - (nx > ny) : (x->number > y->number) - (x->number < y->number);
}

typedef struct owned {
  const tc_allocator *allocator;
  void *data;
} owned;
static void free_owned(void *arg) { tc_free(((owned *)arg)->allocator, ((owned *)arg)->data); }

// Memory of the allocator that goes with the arena: what is put into ->data is freed.
static owned *own(tc_device *d, tc_arena *arena) {
  owned *o = TC_NEW(arena, owned);
  o->allocator = d->allocator;
  tc_arena_on_destroy(arena, free_owned, o);
  return o;
}

// Generates the missing blobs; equal kernels are among them once. Nothing in here may unwind: blobs are owned.
static tc_status generate_all(tc_device *d, int32_t n, miss *misses, const tc_hash128 *keys, tc_sv *blobs, owned *code,
                              tc_compile_stats *stats) {
  generation g = {.d = d, .misses = misses, .n = n};
  qsort(misses, (size_t)n, sizeof *misses, largest_first);
  d->executor->parallel_for(d->executor->self, n, 1, generate_next, &g);
  tc_status s = TC_OK;
  size_t total = 0;
  for (int32_t i = 0; i < n; i++) {
    stats->ms += misses[i].ms;
    total += misses[i].code.size;
    if (s == TC_OK) s = misses[i].status;
    else tc_status_free(misses[i].status);
  }
  char *all = s == TC_OK ? d->allocator->alloc(d->allocator->self, total + 1) : NULL;
  if (s == TC_OK && !all) s = tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for generated code");
  size_t at = 0;
  for (int32_t i = 0; i < n; i++) {
    if (s == TC_OK) {
      if (misses[i].code.size) memcpy(all + at, misses[i].code.data, misses[i].code.size);
      blobs[misses[i].number] = (tc_sv){all + at, misses[i].code.size};
      at += misses[i].code.size;
      tc_cache_put(d->cache, keys[misses[i].number], blobs[misses[i].number]);
    }
    tc_free(d->allocator, misses[i].code.data);
  }
  code->data = all;
  return s;
}

// blobs[i] for the kernels whose `want[i]` is set.
static tc_status compile_some(tc_device *d, tc_arena *arena, int32_t n, const tc_kernel *const *kernels,
                              const tc_hash128 *keys, const bool *want, tc_sv *blobs, tc_compile_stats *stats) {
  tc_map *seen = tc_map_create(arena); // key → number of the first kernel with it, + 1
  miss *misses = TC_NEW_ARRAY(arena, miss, n);
  int32_t *same = TC_NEW_ARRAY(arena, int32_t, n);
  owned *code = own(d, arena);
  int32_t n_misses = 0;
  for (int32_t i = 0; i < n; i++) {
    same[i] = i;
    if (!want[i]) continue;
    tc_map_entry *e = tc_map_put(seen, (tc_sv){(const char *)&keys[i], sizeof keys[i]}, NULL);
    if (e->value.num) {
      same[i] = (int32_t)e->value.num - 1;
      stats->hits++;
      continue;
    }
    e->value.num = i + 1;
    bool hit = tc_cache_get(d->cache, arena, keys[i], &blobs[i]);
    if (tc_log_on(d->logger, TC_LOG_CACHE))
      tc_log(d->logger, TC_LOG_CACHE, "%s %016llx%016llx @" TC_SV_FMT, hit ? "hit" : "miss",
             (unsigned long long)keys[i].hi, (unsigned long long)keys[i].lo, TC_SV_ARG(tc_k_name(kernels[i])));
    if (hit) stats->hits++;
    else misses[n_misses++] = (miss){.kernel = kernels[i], .number = i};
  }
  if (n_misses > 0) TC_TRY(generate_all(d, n_misses, misses, keys, blobs, code, stats));
  for (int32_t i = 0; i < n; i++) {
    if (want[i]) blobs[i] = blobs[same[i]];
  }
  return TC_OK;
}

static tc_status make_keys(tc_device *d, tc_arena *arena, int32_t n, const tc_kernel *const *kernels,
                           tc_hash128 *keys) {
  tc_sv generator;
  TC_TRY(tc_device_generator_key(d, arena, &generator));
  tc_sb text = tc_sb_make(arena);
  for (int32_t i = 0; i < n; i++) {
    text.size = 0;
    tc_kernel_print(&text, kernels[i]);
    tc_sb_put(&text, generator);
    tc_sb_printf(&text, " %016llx", (unsigned long long)TC_KERNEL_ABI_HASH);
    keys[i] = tc_hash_long(text.text, text.size);
  }
  return TC_OK;
}

tc_status tc_device_compile(tc_device *d, tc_arena *arena, int32_t n, const tc_kernel *const *kernels,
                            tc_object *objects, tc_compile_stats *stats) {
  *stats = (tc_compile_stats){.kernels = n};
  if (n == 0) return TC_OK;
  tc_hash128 *keys = TC_NEW_ARRAY(arena, tc_hash128, n);
  bool *want = TC_NEW_ARRAY(arena, bool, n);
  tc_sv *blobs = TC_NEW_ARRAY(arena, tc_sv, n);
  memset(want, 1, (size_t)n * sizeof *want);
  TC_TRY(make_keys(d, arena, n, kernels, keys));
  TC_TRY(compile_some(d, arena, n, kernels, keys, want, blobs, stats));
  for (int32_t i = 0; i < n; i++) objects[i] = (tc_object){tc_k_name(kernels[i]), keys[i], blobs[i]};
  return TC_OK;
}

tc_status tc_device_code_text(tc_device *d, tc_arena *arena, const tc_kernel *k, tc_sv *out) {
  blob_sink code = {0}, text = {0};
  owned *keep = own(d, arena);
  tc_status s = generate(d, k, &code, &text);
  tc_free(d->allocator, code.data);
  keep->data = text.data;
  *out = (tc_sv){text.data, text.size};
  return s;
}

tc_status tc_device_load(tc_device *d, tc_arena *arena, int32_t n, const tc_kernel *const *kernels, tc_loaded **out,
                         tc_compile_stats *stats) {
  *stats = (tc_compile_stats){.kernels = n};
  if (n == 0) return TC_OK;
  tc_hash128 *keys = TC_NEW_ARRAY(arena, tc_hash128, n);
  bool *want = TC_NEW_ARRAY(arena, bool, n);
  tc_sv *blobs = TC_NEW_ARRAY(arena, tc_sv, n);
  TC_TRY(make_keys(d, arena, n, kernels, keys));
  for (int32_t i = 0; i < n; i++) {
    out[i] = tc_device_find_loaded(d, keys[i]);
    want[i] = !out[i];
    stats->hits += !want[i];
  }
  TC_TRY(compile_some(d, arena, n, kernels, keys, want, blobs, stats));
  tc_object *objects = TC_NEW_ARRAY(arena, tc_object, n);
  for (int32_t i = 0; i < n; i++) objects[i] = (tc_object){tc_k_name(kernels[i]), keys[i], blobs[i]};
  return tc_device_load_objects(d, n, objects, out);
}

typedef struct texts {
  tc_device *d;
  tc_arena *arena;
  int32_t n;
  const tc_plan_code *code;
  tc_loaded **out;
  tc_compile_stats *stats;
} texts;
static tc_status load_texts(void *arg) {
  texts *x = arg;
  const tc_kernel **kernels = TC_NEW_ARRAY(x->arena, const tc_kernel *, x->n);
  tc_loaded **loaded = TC_NEW_ARRAY(x->arena, tc_loaded *, x->n);
  int32_t n = 0, *number = TC_NEW_ARRAY(x->arena, int32_t, x->n);
  for (int32_t i = 0; i < x->n; i++) {
    tc_lexer lx;
    tc_kernel *k;
    tc_status there = tc_device_load_code(x->d, x->arena, 1, &x->code[i], &x->out[i]);
    if (there == TC_OK) continue;
    tc_status_free(there); // its code is to be made
    tc_lex_init(&lx, x->arena, x->code[i].name, x->code[i].text);
    TC_TRY(tc_kernel_parse(x->arena, &lx, &k));
    kernels[n] = k, number[n++] = i;
  }
  tc_status s = tc_device_load(x->d, x->arena, n, kernels, loaded, x->stats);
  x->stats->hits += x->n - n, x->stats->kernels = x->n;
  for (int32_t i = 0; i < n; i++) x->out[number[i]] = loaded[i];
  return s;
}

tc_status tc_device_load_texts(tc_device *d, int32_t n, const tc_plan_code *code, tc_loaded **out,
                               tc_compile_stats *stats) {
  texts x = {.d = d, .n = n, .code = code, .out = out, .stats = stats};
  TC_TRY(tc_arena_create(d->allocator, &x.arena));
  tc_status s = tc_arena_guard(x.arena, load_texts, &x);
  tc_arena_destroy(x.arena);
  return s;
}

tc_status tc_device_export(tc_device *d, tc_arena *arena, int32_t n, const tc_kernel *const *kernels, bool objects,
                           tc_plan_code *out) {
  tc_hash128 *keys = TC_NEW_ARRAY(arena, tc_hash128, n);
  tc_object *made = TC_NEW_ARRAY(arena, tc_object, n);
  tc_compile_stats stats;
  TC_TRY(make_keys(d, arena, n, kernels, keys));
  if (objects) TC_TRY(tc_device_compile(d, arena, n, kernels, made, &stats));
  for (int32_t i = 0; i < n; i++) {
    int32_t n_params = tc_k_param_count(kernels[i]);
    uint8_t *scalar = TC_NEW_ARRAY(arena, uint8_t, n_params);
    for (int32_t k = 0; k < n_params; k++) {
      tc_kparam q;
      tc_k_param(kernels[i], k, &q);
      scalar[k] = q.is_scalar != 0;
    }
    out[i] = (tc_plan_code){
        .key = keys[i], .name = tc_k_name(kernels[i]), .n_params = n_params, .scalar = scalar, .object = made[i].code};
  }
  return TC_OK;
}
