// The core's functions as tables for plugins, made from sdk/abi/abi.def.
//
// tc_k_* only read, and tc_kb_* catch lack of memory themselves. What works on a tc_op_args allocates from an arena
// that unwinds: a plugin's frames may lie between here and the driver's guard, so each of these functions is entered
// through one that catches. The args then hold the failure, the function gives zero, and so do all later ones. The same
// holds for what works on a tc_stage.
#include "core/plugin/host.h"

#include <string.h>

#include "core/ir/opargs.h"
#include "core/kernel/emit.h"

#define TC_ABI_FN(since, ret, name, params, args, doc) .name = name,
#define TC_ABI_PROC(since, name, params, args, doc) .name = name,
#define TC_ABI_WANT_KERNEL_READ
const tc_kernel_read_table tc_host_kernel_read = {
    .struct_size = sizeof(tc_kernel_read_table),
#include "sdk/abi/abi.def"
};

#define TC_ABI_FN(since, ret, name, params, args, doc) .name = name,
#define TC_ABI_PROC(since, name, params, args, doc) .name = name,
#define TC_ABI_WANT_KERNEL_BUILD
const tc_kernel_build_table tc_host_kernel_build = {
    .struct_size = sizeof(tc_kernel_build_table),
#include "sdk/abi/abi.def"
};

static bool out_of_memory(const tc_op_args *a) { return a->failure.code == TC_STATUS_OUT_OF_MEMORY; }
// Arguments are const where a function only reads; the failure is kept in them all the same.
static tc_op_args *args_of(const tc_op_args *a) { return (tc_op_args *)(uintptr_t)a; }

// In a function without args this stands for them: there is nothing to catch for.
static const tc_op_args *const a = NULL;

// The error is the shared one, since the driver may be unwound before it takes it out of the args.
#define ZERO(result) memset(&(result), 0, sizeof(result))
#define GUARDED(ret, name, params, args)                                   \
  static ret host_##name params {                                          \
    ret result_;                                                           \
    if (!a) return name args;                                              \
    tc_op_args *const args_ = args_of(a);                                  \
    tc_arena_catch catch_;                                                 \
    if (out_of_memory(a)) {                                                \
      ZERO(result_);                                                       \
      return result_;                                                      \
    }                                                                      \
    if (TC_ARENA_CATCH(args_->arena, catch_)) result_ = name args;         \
    else ZERO(result_), (void)tc_op_keep(args_, tc_error_out_of_memory()); \
    tc_arena_catch_end(args_->arena, &catch_);                             \
    return result_;                                                        \
  }
#define GUARDED_PROC(name, params, args)                 \
  static void host_##name params {                       \
    if (out_of_memory(a)) return;                        \
    tc_op_args *const args_ = args_of(a);                \
    tc_arena_catch catch_;                               \
    if (TC_ARENA_CATCH(args_->arena, catch_)) name args; \
    else tc_op_keep(args_, tc_error_out_of_memory());    \
    tc_arena_catch_end(args_->arena, &catch_);           \
  }

#define TC_ABI_FN(since, ret, name, params, args, doc) GUARDED(ret, name, params, args)
#define TC_ABI_PROC(since, name, params, args, doc) GUARDED_PROC(name, params, args)
#define TC_ABI_WANT_OP
#define TC_ABI_WANT_EXPAND
#define TC_ABI_WANT_LOWER
#include "sdk/abi/abi.def"

// The plugin's side has put the text together.
static int32_t fail_with(tc_op_args *args, tc_sv text) {
  if (!text.data || text.size > INT32_MAX) text = TC_SV("the op gives no reason");
  return tc_op_fail(args, TC_SV_FMT, TC_SV_ARG(text));
}
GUARDED(int32_t, fail_with, (tc_op_args * a, tc_sv text), (a, text))

#define TC_ABI_FN(since, ret, name, params, args, doc) .name = host_##name,
#define TC_ABI_PROC(since, name, params, args, doc) .name = host_##name,
#define TC_ABI_WANT_OP
const tc_op_table tc_host_op = {
    .struct_size = sizeof(tc_op_table),
    .tc_op_fail = host_fail_with,
#include "sdk/abi/abi.def"
};

#define TC_ABI_FN(since, ret, name, params, args, doc) .name = host_##name,
#define TC_ABI_PROC(since, name, params, args, doc) .name = host_##name,
#define TC_ABI_WANT_EXPAND
const tc_expand_table tc_host_expand = {
    .struct_size = sizeof(tc_expand_table),
#include "sdk/abi/abi.def"
};

#define TC_ABI_FN(since, ret, name, params, args, doc) .name = host_##name,
#define TC_ABI_PROC(since, name, params, args, doc) .name = host_##name,
#define TC_ABI_WANT_LOWER
const tc_lower_table tc_host_lower = {
    .struct_size = sizeof(tc_lower_table),
#include "sdk/abi/abi.def"
};

// Stages: the emission keeps the failure. A function that gives a value gives none.
#define TC_ABI_FN(since, ret, name, params, args, doc)                      \
  static ret host_##name params {                                           \
    ret result_;                                                            \
    tc_arena *const arena_ = tc_stage_arena(s);                             \
    tc_arena_catch catch_;                                                  \
    if (TC_ARENA_CATCH(arena_, catch_)) result_ = name args;                \
    else memset(&result_, 0xff, sizeof result_), tc_stage_out_of_memory(s); \
    tc_arena_catch_end(arena_, &catch_);                                    \
    return result_;                                                         \
  }
#define TC_ABI_PROC(since, name, params, args, doc) \
  static void host_##name params {                  \
    tc_arena *const arena_ = tc_stage_arena(s);     \
    tc_arena_catch catch_;                          \
    if (TC_ARENA_CATCH(arena_, catch_)) name args;  \
    else tc_stage_out_of_memory(s);                 \
    tc_arena_catch_end(arena_, &catch_);            \
  }
#define TC_ABI_WANT_STAGE
#include "sdk/abi/abi.def"

#define TC_ABI_FN(since, ret, name, params, args, doc) .name = host_##name,
#define TC_ABI_PROC(since, name, params, args, doc) .name = host_##name,
#define TC_ABI_WANT_STAGE
const tc_stage_table tc_host_stage = {
    .struct_size = sizeof(tc_stage_table),
#include "sdk/abi/abi.def"
};

tc_host_tables tc_host_tables_core(void) {
  return (tc_host_tables){&tc_host_kernel_read, &tc_host_kernel_build, &tc_host_op,
                          &tc_host_expand,      &tc_host_lower,        &tc_host_stage};
}
