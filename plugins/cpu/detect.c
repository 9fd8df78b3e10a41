// What processor this is: features by CPUID (Intel SDM volume 2, AMD APM volume 3), caches and cores by sysfs and
// sysconf.
#include <cpuid.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu.h"

enum { WORD_1C, WORD_7B, WORD_7C, WORD_7D, WORD_71A };
#define BIT(n) (1u << (n))
#define NEED_1C                                                                                                \
  (BIT(12) /* fma */ | BIT(20) /* sse4.2 */ | BIT(22) /* movbe */ | BIT(23) /* popcnt */ | BIT(28) /* avx */ | \
   BIT(29) /* f16c */)
#define NEED_7B (BIT(3) /* bmi */ | BIT(5) /* avx2 */ | BIT(8) /* bmi2 */)
#define AVX512_7B (BIT(16) /* f */ | BIT(17) /* dq */ | BIT(28) /* cd */ | BIT(30) /* bw */ | BIT(31) /* vl */)
// All words that say something about 512-bit registers; cleared where the width is capped.
#define WIDE_7B (AVX512_7B | BIT(21) /* ifma */)
#define WIDE_7C \
  (BIT(1) /* vbmi */ | BIT(6) /* vbmi2 */ | BIT(11) /* vnni */ | BIT(12) /* bitalg */ | BIT(14) /* vpopcntdq */)
#define TILES_7D (BIT(22) /* amx-bf16 */ | BIT(24) /* amx-tile */ | BIT(25) /* amx-int8 */)
#define WIDE_7D (BIT(2) | BIT(3) | BIT(8) /* vp2intersect */ | BIT(23) /* fp16 */ | TILES_7D)
#define WIDE_71A BIT(5) /* bf16 */

static uint32_t enabled_states(void) {
  uint32_t a, d;
  __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
  return a;
}

static void refuse(const tc_host *h, int32_t code, const char *text) {
  if (h && h->diag) h->diag(h->self, code, (tc_sv){text, strlen(text)});
}

static tc_sv setting(const tc_host *h, const char *key) {
  if (!h || !h->config) return (tc_sv){"", 0};
  return h->config(h->self, (tc_sv){key, strlen(key)});
}

static int32_t is(tc_sv v, const char *text) { return v.size == strlen(text) && memcmp(v.data, text, v.size) == 0; }

// A number of KiB; 0 if nothing is given.
static int32_t size_of(tc_sv v, int32_t *out) {
  char text[16] = "", *end = text;
  *out = 0;
  if (!v.size) return 1;
  if (v.size >= sizeof text) return 0;
  memcpy(text, v.data, v.size);
  long size = strtol(text, &end, 10);
  if (*end || size < 1 || size > 1 << 20) return 0;
  *out = (int32_t)size;
  return 1;
}

int32_t tc_cpu_detect(const tc_host *h, tc_cpu_target *out) {
  uint32_t a, b, c, d, *w = out->words;
  memset(out, 0, sizeof *out);
  if (!__get_cpuid(1, &a, &b, &c, &d)) goto old;
  w[WORD_1C] = c;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) goto old;
  w[WORD_7B] = b, w[WORD_7C] = c, w[WORD_7D] = d;
  if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) w[WORD_71A] = a;
  if ((w[WORD_1C] & NEED_1C) != NEED_1C || (w[WORD_7B] & NEED_7B) != NEED_7B || !(w[WORD_1C] & BIT(27) /* osxsave */))
    goto old;
  uint32_t states = enabled_states();
  if ((states & 6) != 6) goto old;
  if ((states & 0x60000) != 0x60000) w[WORD_7D] &= ~TILES_7D; // the system keeps no tiles
  tc_sv isa = setting(h, "isa");
  if (isa.size && !is(isa, "native") && !is(isa, "avx2") && !is(isa, "avx512")) {
    refuse(h, TC_STATUS_INVALID_ARGUMENT, "cpu.isa must be native, avx2 or avx512");
    return TC_STATUS_INVALID_ARGUMENT;
  }
  int32_t wide = (w[WORD_7B] & AVX512_7B) == AVX512_7B && (states & 0xe6) == 0xe6;
  if (is(isa, "avx512") && !wide) {
    refuse(h, TC_STATUS_UNIMPLEMENTED, "cpu.isa is avx512, which this processor does not have; set it to native");
    return TC_STATUS_UNIMPLEMENTED;
  }
  if (!wide || is(isa, "avx2")) {
    w[WORD_7B] &= ~WIDE_7B, w[WORD_7C] &= ~WIDE_7C, w[WORD_7D] &= ~WIDE_7D, w[WORD_71A] &= ~WIDE_71A;
    wide = 0;
  }
  w[TC_CPU_WORD_VECTOR] = wide ? 64 : 32;
  if (!size_of(setting(h, "l2_kib"), &out->l2_kib)) {
    refuse(h, TC_STATUS_INVALID_ARGUMENT, "cpu.l2_kib must be a size between 1 and 1048576 KiB");
    return TC_STATUS_INVALID_ARGUMENT;
  }
  out->sanitize = is(setting(h, "sanitize"), "address");
#ifdef __SANITIZE_ADDRESS__
  out->sanitize = 1;
#endif
  return TC_STATUS_OK;
old:
  refuse(h, TC_STATUS_UNIMPLEMENTED, "this processor lacks AVX2, FMA or F16C, which generated code needs");
  return TC_STATUS_UNIMPLEMENTED;
}

int32_t tc_cpu_target_runs(const uint32_t *code, const tc_cpu_target *host) {
  for (int32_t i = 0; i < TC_CPU_WORD_VECTOR; i++)
    if (code[i] & ~host->words[i]) return 0;
  return code[TC_CPU_WORD_VECTOR] <= host->words[TC_CPU_WORD_VECTOR];
}

int32_t tc_cpu_pairs_bf16(const tc_cpu_target *t) { return (t->words[WORD_71A] & WIDE_71A) != 0; }

int32_t tc_cpu_tiles_bf16(const tc_cpu_target *t) {
  const uint32_t need = BIT(22) | BIT(24);
  return tc_cpu_pairs_bf16(t) && (t->words[WORD_7D] & need) == need;
}

// The cache that a core sees; what sysconf says may be all of the machine's.
static int64_t cache_bytes(int level, int64_t otherwise) {
  static const int names[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
  for (int i = 0; i < 6; i++) {
    static const char *const files[] = {"level", "type", "size"};
    char text[3][32] = {"", "", ""}, path[100];
    for (int f = 0; f < 3; f++) {
      snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", i, files[f]);
      FILE *in = fopen(path, "re");
      if (!in) continue;
      if (!fgets(text[f], sizeof text[f], in)) text[f][0] = 0;
      fclose(in);
    }
    long size = strtol(text[2], NULL, 10);
    if (strtol(text[0], NULL, 10) == level && text[1][0] != 'I' && size > 0 && strchr(text[2], 'K'))
      return (int64_t)size << 10;
  }
  long v = sysconf(names[level - 1]);
  return v > 0 ? v : otherwise;
}

static void brand(char *out, size_t size) {
  uint32_t r[12] = {0}, max = __get_cpuid_max(0x80000000u, NULL);
  char text[sizeof r + 1] = {0};
  if (max >= 0x80000004u)
    for (uint32_t i = 0; i < 3; i++)
      __get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]);
  memcpy(text, r, sizeof r);
  const char *from = text + strspn(text, " ");
  snprintf(out, size, "%s", *from ? from : "x86-64 processor");
  for (size_t n = strlen(out); n > 0 && out[n - 1] == ' '; n--) out[n - 1] = 0;
}

void tc_cpu_properties(const tc_cpu_target *t, int32_t threads, tc_device_props *out) {
  tc_device_props p = {0};
  uint32_t family = 0, b, c, d;
  __get_cpuid(1, &family, &b, &c, &d);
  brand(p.name, sizeof p.name);
  snprintf(p.target, sizeof p.target, "x86_64 family %08x features %08x %08x %08x %08x %08x vector %u%s", family,
           t->words[0], t->words[1], t->words[2], t->words[3], t->words[4], t->words[TC_CPU_WORD_VECTOR],
           t->sanitize ? " address" : "");
  p.memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  p.largest_alloc = p.memory_bytes;
  p.l1_bytes = cache_bytes(1, 32 << 10), p.l2_bytes = cache_bytes(2, 512 << 10), p.l3_bytes = cache_bytes(3, 8 << 20);
  if (t->l2_kib) {
    size_t used = strlen(p.target);
    p.l2_bytes = (int64_t)t->l2_kib << 10;
    snprintf(p.target + used, sizeof p.target - used, " l2 %d", t->l2_kib);
  }
  p.host_memory = 1;
  p.cores = threads;
  p.simd_bytes = (int32_t)t->words[TC_CPU_WORD_VECTOR];
  p.simd_registers = p.simd_bytes == 64 ? 32 : 16;
  p.max_lanes = 256;
  p.subgroup = 1;
  p.shared_bytes = 1 << 20;
  p.max_blocks = INT32_MAX;
#define ONE(x) (1ull << (x))
  p.arithmetic = ONE(TC_BOOL) | ONE(TC_U8) | ONE(TC_I8) | ONE(TC_I16) | ONE(TC_I32) | ONE(TC_I64) | ONE(TC_U16) |
                 ONE(TC_U32) | ONE(TC_U64) | ONE(TC_F32) | ONE(TC_F64);
  p.dtypes = p.arithmetic | ONE(TC_F16) | ONE(TC_BF16);
  p.atomics = ONE(TC_I32) | ONE(TC_I64) | ONE(TC_U32) | ONE(TC_U64) | ONE(TC_F32) | ONE(TC_F64) | ONE(TC_U8) |
              ONE(TC_I8) | ONE(TC_I16) | ONE(TC_U16);
  if (tc_cpu_pairs_bf16(t) && p.simd_bytes == 64) p.pairs = ONE(TC_BF16);
#undef ONE
  p.launch_ns = 100;                                              // a call; starting a team is the grain's matter
  p.flops_per_ns = (int64_t)threads * (p.simd_bytes / 4) * 2 * 3; // one fused multiply-add per cycle at 3 GHz
  p.bytes_per_ns = 12ll * (threads < 4 ? threads : 4);
  tc_answer_struct(&p, sizeof p, out);
}
