// What the files of this plugin share: the target, the form of compiled kernels, and the doors of the two libraries
// that are opened only when needed (code generation with LLVM inside, calls with oneDNN inside).
//
// A compiled kernel is a function of the form tc_cpu_kernel_fn in a relocatable ELF object that needs nothing from
// outside. Beside `NAME` the object defines `NAME.meta`, a tc_cpu_kernel_meta, and `tc_cpu_target_words`, the processor
// features it was compiled for.
#ifndef TC_PLUGINS_CPU_CPU_H_
#define TC_PLUGINS_CPU_CPU_H_

#include "tc/hostmem.h"
#include "tc/plugin.h"

// Runs blocks begin … end-1. args: one word per parameter in order (an address, or a scalar's bits in the low bytes),
// then the address of this thread's scratch memory (used if meta.scratch_bytes > 0).
typedef void (*tc_cpu_kernel_fn)(int64_t begin, int64_t end, const uint64_t *args, tc_error_block *errors);

#define TC_CPU_KERNEL_VERSION 1
typedef struct tc_cpu_kernel_meta {
  int32_t version, n_params;
  int64_t scratch_bytes; // per thread, 64-byte aligned
} tc_cpu_kernel_meta;

// Processor features as the processor states them: CPUID leaf 1 ecx, leaf 7.0 ebx, ecx, edx, leaf 7.1 eax, and the
// vector width in bytes that the code may use. Code for a target runs where each word has at least its bits.
enum { TC_CPU_TARGET_WORDS = 6, TC_CPU_WORD_VECTOR = 5 };
typedef struct tc_cpu_target {
  uint32_t words[TC_CPU_TARGET_WORDS];
  int32_t sanitize; // 1: generated code is instrumented with AddressSanitizer
  int32_t l2_kib;   // second-level cache that code is made for; 0: the machine's
} tc_cpu_target;

// What the host can do, capped by the config key "isa" (native, avx2, avx512); "l2_kib" gives a core's second-level
// cache another size. UNIMPLEMENTED below AVX2 + FMA + F16C.
int32_t tc_cpu_detect(const tc_host *h, tc_cpu_target *out);
// Fills what does not need an opened device: name, target text, caches, cores, limits.
void tc_cpu_properties(const tc_cpu_target *t, int32_t threads, tc_device_props *out);
// True if there are instructions that multiply pairs of bf16 and add in f32.
int32_t tc_cpu_pairs_bf16(const tc_cpu_target *t);
// True if there is a matrix unit for bf16 (AMX). The system may still refuse its use to this process.
int32_t tc_cpu_tiles_bf16(const tc_cpu_target *t);
// True if code made for `code` runs on `host`.
int32_t tc_cpu_target_runs(const uint32_t *code, const tc_cpu_target *host);

// ---- The loader of kernels (elf.c) ----
typedef struct tc_cpu_module tc_cpu_module;
// Loads an object. Errors (a message in `why`): not such an object, out-of-range numbers in it, undefined symbols.
int32_t tc_cpu_module_load(const void *blob, uint64_t size, const tc_cpu_target *host, tc_cpu_module **out, char *why,
                           size_t why_size);
void tc_cpu_module_unload(tc_cpu_module *m);
// Address and size of a defined global symbol; NULL if there is none.
const void *tc_cpu_module_symbol(const tc_cpu_module *m, tc_sv name, uint64_t *size);

// ---- The door of libtc_cpu_codegen.so ----
#define TC_CPU_CODEGEN_SYMBOL "tc_cpu_codegen_compile"
typedef int32_t (*tc_cpu_codegen_fn)(const tc_host *h, const tc_cpu_target *t, const tc_kernel *const *kernels,
                                     int32_t n, int32_t optimize, const tc_sink *sink, const tc_sink *text);

// ---- The door of libtc_cpu_dnn.so ----
#define TC_CPU_DNN_SYMBOL "tc_cpu_dnn_table"
#define TC_CPU_LAPACK_SYMBOL "tc_cpu_lapack_table"
typedef const tc_call_table *(*tc_cpu_dnn_fn)(const tc_host *h);

// ---- Attention and convolutions on the matrix unit (tiles/) ----
extern const tc_call_table tc_cpu_tiles;
extern const tc_call_table tc_cpu_tile_convolutions;

#endif
