// Kernel IR inside the core: creation, text, verification, legalisation, interpretation. The IR itself, its semantics
// and its builder are declared in sdk/include/tc/kernel.h; this header adds what only the core may do.
//
// Pipeline:  schedule or template ──builder──> kernel ──tc_kernel_legalise──> plain kernel ──ABI──> plugin
#ifndef TC_CORE_KERNEL_KERNEL_H_
#define TC_CORE_KERNEL_KERNEL_H_

#include "core/base/executor.h"
#include "core/base/lex.h"
#include "core/base/vec.h"

#include "tc/kernel.h"

// A builder for one kernel; everything is made in the arena. tc_kb_* calls open a guard of their own, so a plugin's
// frames are never unwound.
tc_kb *tc_kb_create(tc_arena *arena, tc_sv name, int32_t lanes);
TC_NODISCARD tc_status tc_kb_finish(tc_kb *b, tc_kernel **out);
// Marks the builder as failed, with a reason; the first one stays.
void tc_kb_fail(tc_kb *b, const char *fmt, ...) TC_PRINTF(2, 3);
// The first failure so far, or OK.
TC_NODISCARD tc_status tc_kb_failure(const tc_kb *b);
tc_arena *tc_kb_arena(tc_kb *b);
// The operations made from now on get these flags (TC_KI_FAST, TC_KI_NOWRAP, TC_KI_RARE) where they apply.
void tc_kb_set_flags(tc_kb *b, int32_t flags);
int32_t tc_kb_flags(const tc_kb *b);

// Text. parse(print(k)) prints the same.
void tc_kernel_print(tc_sb *sb, const tc_kernel *k);
TC_NODISCARD tc_status tc_kernel_parse(tc_arena *arena, tc_lexer *lx, tc_kernel **out); // at "kernel"

// Types, dominance, scopes, yields, barriers between lanes regions that touch the same shared memory.
TC_NODISCARD tc_status tc_kernel_verify(const tc_kernel *k);
// What plugins see: no complex types, no class-m opcodes, no arithmetic on 16-bit floats. Verified by
// tc_kernel_verify_plain. `simd_bytes`: those of the device's vectors, which may hold a table; 0: lanes are threads,
// each of which may leave out what it does not select.
TC_NODISCARD tc_status tc_kernel_legalise(tc_arena *arena, const tc_kernel *k, int32_t simd_bytes, tc_kernel **out);
TC_NODISCARD tc_status tc_kernel_verify_plain(const tc_kernel *k);
// The same kernel without dot2, for devices that do not multiply pairs; `k` itself where it has none.
TC_NODISCARD tc_status tc_kernel_expand_pairs(tc_arena *arena, tc_kernel *k, tc_kernel **out);
// The kernel as a device takes it that says `pairs` and `tiles` of itself (tc_device_props): without dot2 where it has
// none. UNIMPLEMENTED if the kernel multiplies tiles of a type that the device does not.
TC_NODISCARD tc_status tc_kernel_fit(tc_arena *arena, uint64_t pairs, uint64_t tiles, tc_kernel *k, tc_kernel **out);
// Shared memory of which every lane touches only its own elements becomes lane arrays, for devices whose lanes are
// threads; `k` itself where there is none. What computed the indices stays, for tc_kernel_simplify to remove.
TC_NODISCARD tc_status tc_kernel_forward(tc_arena *arena, tc_kernel *k, tc_kernel **out);
// Loads of clamped indices become two branches, one without the clamp for blocks in which it changes nothing, for
// devices whose lanes are threads; `k` itself where there are none.
TC_NODISCARD tc_status tc_kernel_split_borders(tc_arena *arena, tc_kernel *k, tc_kernel **out);
// Pairs of loads of neighbouring elements become single ones, for devices whose lanes are threads; `k` itself where
// there are none.
TC_NODISCARD tc_status tc_kernel_join_loads(tc_arena *arena, tc_kernel *k, tc_kernel **out);
// Dead code, common subexpressions and loop-invariant values within their scopes.
TC_NODISCARD tc_status tc_kernel_simplify(tc_arena *arena, const tc_kernel *k, tc_kernel **out);

// One argument: memory for GLOBAL parameters, bits for scalars.
typedef struct tc_karg {
  void *data;    // GLOBAL: host address of element 0
  int64_t count; // GLOBAL: elements that may be touched (bounds are checked by the interpreter)
  int64_t bits;  // scalars: integers as int64; floats as the bits of their type
} tc_karg;
// Runs blocks 0 … blocks-1 on the host, exactly as the semantics say: slow; the oracle of every backend. Errors (never
// crashes): out of bounds, read of uninitialised shared or lane memory, two lanes writing one shared address (or one
// reading what another writes) between barriers. Opcodes of class m use the C library.
TC_NODISCARD tc_status tc_kernel_interpret(const tc_allocator *a, const tc_kernel *k, int64_t blocks,
                                           const tc_karg *args, int32_t n_args, int64_t *out_failed_site);

// Counts, from the IR, for explain and tests: static numbers.
typedef struct tc_kernel_stats {
  int32_t loads, stores, lanes_regions, barriers, collectives;
  int64_t shared_bytes;
} tc_kernel_stats;
void tc_kernel_count(const tc_kernel *k, tc_kernel_stats *out);

#endif
