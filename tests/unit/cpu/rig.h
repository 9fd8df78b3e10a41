// What the tests of the cpu plugin share: the real plugin, opened through a small host, and one check: a kernel given
// as text must leave the same memory and the same failed site whether it is interpreted or compiled and launched.
//
// Every buffer ends at an unreadable page and has a marked stretch before it, so overruns are seen.
#ifndef TESTS_UNIT_CPU_RIG_H_
#define TESTS_UNIT_CPU_RIG_H_

#include <dlfcn.h>
#include <math.h>
#include <sys/mman.h>

#include "core/base/executor.h"
#include "core/base/lex.h"
#include "core/kernel/ir.h"
#include "tests/unit/unit.h"

#include "tc/plugin.h"

typedef struct rig {
  tc_host host;
  tc_plugin_desc plugin;
  tc_device_ *device;
  const char *isa, *l2_kib; // configuration, NULL: none
  tc_executor executor;
  char diag[600];
} rig;

#define TC_ABI_FN(since, ret, name, params, args, doc) .name = name,
#define TC_ABI_PROC(since, name, params, args, doc) .name = name,
#define TC_ABI_WANT_KERNEL_READ
static const tc_kernel_read_table rig_kernel_read = {
    .struct_size = sizeof(tc_kernel_read_table),
#include "sdk/abi/abi.def"
};

static inline void rig_diag(void *self, int32_t code, tc_sv text) {
  rig *r = self;
  snprintf(r->diag, sizeof r->diag, "%s: %.*s", tc_status_name(code), (int)text.size, text.data);
}
static inline void rig_log(void *self, int32_t artifact, tc_sv text) { (void)self, (void)artifact, (void)text; }
static inline void *rig_alloc(void *self, uint64_t size) {
  (void)self;
  return tc_alloc(tc_system_allocator(), size);
}
static inline void rig_free(void *self, void *p) {
  (void)self;
  tc_free(tc_system_allocator(), p);
}
static inline int32_t rig_threads(void *self) {
  rig *r = self;
  return r->executor.threads(r->executor.self);
}
static inline void rig_parallel_for(void *self, int64_t n, int64_t grain, tc_range_fn_abi fn, void *arg) {
  rig *r = self;
  r->executor.parallel_for(r->executor.self, n, grain, fn, arg);
}
static inline tc_sv rig_config(void *self, tc_sv key) {
  rig *r = self;
  const char *value = tc_sv_is(key, "isa") ? r->isa : tc_sv_is(key, "l2_kib") ? r->l2_kib : NULL;
  return value ? tc_sv_of(value) : TC_SV("");
}

// False if this processor does not have the instruction set.
static inline bool rig_open(rig *r, const char *isa) {
  *r = (rig){.isa = isa, .executor = tc_executor_serial};
  r->host = (tc_host){.magic = TC_ABI_MAGIC,
                      .abi_major = TC_ABI_MAJOR,
                      .abi_minor = TC_ABI_MINOR,
                      .struct_size = sizeof(tc_host),
                      .self = r,
                      .diag = rig_diag,
                      .log = rig_log,
                      .alloc = rig_alloc,
                      .free = rig_free,
                      .threads = rig_threads,
                      .parallel_for = rig_parallel_for,
                      .config = rig_config,
                      .kernel_read = &rig_kernel_read};
  void *lib = dlopen(RIG_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  if (!lib) fail_msg("%s", dlerror());
  tc_plugin_query_fn query;
  void *p = dlsym(lib, "tc_plugin_query");
  memcpy(&query, &p, sizeof query);
  r->plugin = (tc_plugin_desc){.magic = TC_ABI_MAGIC, .abi_major = TC_ABI_MAJOR, .struct_size = sizeof(tc_plugin_desc)};
  assert_int_equal(query(&r->host, &r->plugin), TC_STATUS_OK);
  int32_t s = r->plugin.device->open(&r->host, 0, &r->device);
  if (s == TC_STATUS_UNIMPLEMENTED) return false;
  if (s != TC_STATUS_OK) fail_msg("%s", r->diag);
  return true;
}

static inline void rig_close(rig *r) { r->plugin.device->close(r->device); }

typedef struct rig_blob {
  char *data;
  size_t size;
} rig_blob;

static inline int32_t rig_write(void *self, const void *data, uint64_t size) {
  rig_blob *b = self;
  b->data = realloc(b->data, b->size + size + 1);
  memcpy(b->data + b->size, data, size);
  b->size += size;
  b->data[b->size] = 0;
  return TC_STATUS_OK;
}

static inline int32_t rig_compile(rig *r, const tc_kernel *const *k, int32_t n, rig_blob *code, rig_blob *text) {
  *code = (rig_blob){0};
  tc_sink sink = {code, rig_write}, listing = {text, rig_write};
  r->diag[0] = 0;
  return r->plugin.codegen->compile(&r->host, r->device, k, n, 1, &sink, text ? &listing : NULL);
}

typedef struct rig_function {
  tc_handle module, function;
} rig_function;

static inline rig_function rig_load(rig *r, const tc_kernel *k) {
  rig_blob code;
  rig_function f = {0};
  if (rig_compile(r, &k, 1, &code, NULL) != TC_STATUS_OK) fail_msg("compiling for %s: %s", r->isa, r->diag);
  if (r->plugin.device->module_load(r->device, code.data, code.size, &f.module) != TC_STATUS_OK)
    fail_msg("loading: %s", r->diag);
  if (r->plugin.device->function(r->device, f.module, tc_k_name(k), &f.function) != TC_STATUS_OK)
    fail_msg("%s", r->diag);
  free(code.data);
  return f;
}

// ---- Buffers ----

enum { RIG_FRONT = 256 };
typedef struct rig_buffer {
  tc_dtype dtype;
  int64_t count, bits; // bits: a scalar, if count is -1
  unsigned char *map, *data;
  size_t map_size;
} rig_buffer;

// align: of the start, so that the end lies at most that far from the unreadable page.
static inline rig_buffer rig_buffer_make(tc_dtype d, int64_t count, size_t align) {
  rig_buffer b = {.dtype = d, .count = count};
  size_t bytes = (size_t)count * (size_t)tc_dtype_size(d), page = 4096;
  b.map_size = (bytes + RIG_FRONT + align + page - 1) / page * page + page;
  b.map = mmap(NULL, b.map_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(b.map, MAP_FAILED);
  assert_int_equal(mprotect(b.map + b.map_size - page, page, PROT_NONE), 0);
  b.data = b.map + (b.map_size - page - bytes) / align * align;
  memset(b.map, 0xa5, (size_t)(b.data - b.map));
  return b;
}

static inline void rig_buffer_free(rig_buffer *b) {
  if (b->map) munmap(b->map, b->map_size);
}

static inline void rig_buffer_check(const rig_buffer *b) {
  for (const unsigned char *p = b->map; p < b->data; p++)
    if (*p != 0xa5) fail_msg("memory %d bytes before a buffer was written", (int)(b->data - p));
}

// Bit patterns that are interesting for the type, and random ones.
static inline void rig_fill(rig_buffer *b, uint64_t *seed) {
  static const double reals[] = {0,   -0.0,  1,      -1,   0.5,   1.5,   2.5,  -2.5, INFINITY, -INFINITY,
                                 NAN, 1e-40, -1e-41, 3e38, 65504, 65520, 1e-7, 7,    -3.25,    100};
  static const int64_t ints[] = {0,         1,         -1,        2,         3,        7,
                                 31,        32,        63,        INT8_MIN,  INT8_MAX, INT16_MIN,
                                 INT16_MAX, INT32_MIN, INT32_MAX, INT64_MIN, INT64_MAX};
  int32_t size = tc_dtype_size(b->dtype);
  for (int64_t i = 0; i < b->count; i++) {
    uint64_t x = tc_test_random(seed), kind = tc_test_random(seed) % 4;
    tc_knum v = {0};
    if (tc_dtype_is_float(b->dtype)) {
      if (kind == 0) v.re = reals[x % (sizeof reals / sizeof *reals)], x = tc_kir_to_bits(b->dtype, v);
      else if (kind < 3) v.re = (double)(int64_t)(x >> 11) * 0x1p-52 * 8 - 8, x = tc_kir_to_bits(b->dtype, v);
    } else if (b->dtype == TC_BOOL) x &= 1;
    else if (kind < 2) x = (uint64_t)ints[x % (sizeof ints / sizeof *ints)];
    memcpy(b->data + i * size, &x, (size_t)size);
    // Quiet NaNs only: the interpreter carries 16- and 32-bit floats as doubles, and C's fmin looks at the kind.
    if (tc_dtype_is_float(b->dtype) && isnan(tc_kir_read(b->dtype, b->data + i * size).re))
      tc_kir_write(b->dtype, b->data + i * size, (tc_knum){.re = NAN});
  }
}

static inline rig_buffer rig_scalar(tc_dtype d, int64_t bits) {
  return (rig_buffer){.dtype = d, .count = -1, .bits = bits};
}

// How equal floats must be: bit for bit (any NaN equals any); zeros of either sign; or within so many units of the last
// place of the larger, and `absolute`.
typedef struct rig_rule {
  bool any_zero;
  double relative, absolute;
} rig_rule;

static inline bool rig_same(const rig_rule *rule, tc_dtype d, const void *want, const void *got) {
  if (memcmp(want, got, (size_t)tc_dtype_size(d)) == 0) return true;
  if (!tc_dtype_is_float(d)) return false;
  double a = tc_kir_read(d, want).re, b = tc_kir_read(d, got).re;
  if (isnan(a) && isnan(b)) return true;
  if (rule->any_zero && a == 0 && b == 0) return true;
  return rule->relative > 0 && fabs(a - b) <= rule->relative * fmax(fabs(a), fabs(b)) + rule->absolute;
}

// Runs `blocks` blocks both ways on copies of `buffers` and compares. Returns the failed site (-1: none).
static inline int64_t rig_check_rule(rig *r, const tc_kernel *k, int64_t blocks, rig_buffer *buffers, int32_t n,
                                     const rig_rule *rule) {
  tc_karg args[32];
  tc_launch_arg words[32];
  rig_buffer copies[32];
  assert_true(n <= 32);
  for (int32_t i = 0; i < n; i++) {
    rig_buffer *b = &buffers[i];
    if (b->count < 0) {
      args[i] = (tc_karg){.bits = b->bits};
      words[i] = (tc_launch_arg){.kind = TC_ARG_SCALAR, .bytes = tc_dtype_size(b->dtype), .value = (uint64_t)b->bits};
      copies[i] = *b;
      continue;
    }
    size_t bytes = (size_t)b->count * (size_t)tc_dtype_size(b->dtype);
    copies[i] = rig_buffer_make(b->dtype, b->count,
                                (size_t)((uintptr_t)b->data & -(uintptr_t)b->data) > 64
                                    ? 64
                                    : (size_t)((uintptr_t)b->data & -(uintptr_t)b->data));
    memcpy(copies[i].data, b->data, bytes);
    args[i] = (tc_karg){.data = b->data, .count = b->count};
    words[i] = (tc_launch_arg){.kind = TC_ARG_MEMORY, .value = (uintptr_t)copies[i].data - 24, .offset = 24};
  }
  int64_t site = -1;
  tc_status s = tc_kernel_interpret(tc_system_allocator(), k, blocks, args, n, &site);
  if (s) fail_msg("interpreting: %s", tc_status_text(s));
  rig_function f = rig_load(r, k);
  tc_error_block errors = {-1, 0};
  tc_launch l = {.struct_size = sizeof l,
                 .function = f.function,
                 .blocks = blocks,
                 .grain = 2,
                 .args = words,
                 .n_args = n,
                 .errors = (uintptr_t)&errors};
  if (r->plugin.device->launch(r->device, 0, &l) != TC_STATUS_OK) fail_msg("launching: %s", r->diag);
  for (int32_t i = 0; i < n; i++) {
    if (buffers[i].count < 0) continue;
    int32_t size = tc_dtype_size(buffers[i].dtype);
    for (int64_t e = 0; e < buffers[i].count; e++) {
      const void *want = buffers[i].data + e * size, *got = copies[i].data + e * size;
      if (rig_same(rule, buffers[i].dtype, want, got)) continue;
      tc_knum a = tc_kir_read(buffers[i].dtype, want), b = tc_kir_read(buffers[i].dtype, got);
      tc_sv name = tc_k_name(k);
      if (tc_dtype_is_float(buffers[i].dtype))
        fail_msg("%.*s on %s: argument %d, element %lld is %.17g, not %.17g", (int)name.size, name.data, r->isa, i,
                 (long long)e, b.re, a.re);
      fail_msg("%.*s on %s: argument %d, element %lld is %lld, not %lld", (int)name.size, name.data, r->isa, i,
               (long long)e, (long long)b.i, (long long)a.i);
    }
    rig_buffer_check(&copies[i]);
    rig_buffer_free(&copies[i]);
  }
  if (site >= 0 ? errors.site < 0 : errors.site != -1)
    fail_msg("failed site %lld, not %lld", (long long)errors.site, (long long)site);
  r->plugin.device->module_unload(r->device, f.module);
  return errors.site;
}

static inline int64_t rig_check(rig *r, const tc_kernel *k, int64_t blocks, rig_buffer *buffers, int32_t n) {
  return rig_check_rule(r, k, blocks, buffers, n, &(rig_rule){0});
}

static inline tc_status rig_parse(tc_arena *arena, tc_sv text, const tc_kernel **out) {
  tc_lexer lx;
  tc_kernel *k;
  tc_lex_init(&lx, arena, TC_SV("test.tc"), text);
  TC_TRY(tc_kernel_parse(arena, &lx, &k));
  TC_TRY(tc_kernel_verify_plain(k));
  *out = k;
  return TC_OK;
}

// Runs fn once per instruction set that this processor has.
static const char *const rig_isas[] = {"native", "avx2"};
enum { RIG_ISAS = 2 };

#endif
