// The plugin's side of the host's function tables: defines every tc_k_*, tc_kb_*, tc_op_*, tc_int_*, tc_ex_*,
// tc_lo_* and tc_stage_* as a call through the table of the host that loaded this plugin, and answers the handshake.
//
// Generated from sdk/abi/abi.def. The tables are constants of the host and outlive every context, so only pointers to
// them are kept: several contexts of one program, querying at once, store equal values. Slots that the host's table is
// too short for are not called: the function gives zero.
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tc/tables.h"

static _Atomic(const tc_kernel_read_table *) host_kernel_read;
static _Atomic(const tc_kernel_build_table *) host_kernel_build;
static _Atomic(const tc_op_table *) host_op;
static _Atomic(const tc_expand_table *) host_expand;
static _Atomic(const tc_lower_table *) host_lower;
static _Atomic(const tc_stage_table *) host_stage;

// The host's table, or NULL if it lacks the slot.
#define LOAD(table) atomic_load_explicit(&host_##table, memory_order_relaxed)
#define HAS(t, type, slot) ((t) && offsetof(type, slot) + sizeof(t)->slot <= (t)->struct_size && (t)->slot)

#define FORWARD(table, type, ret, name, params, args)      \
  ret name params {                                        \
    const type *table_ = LOAD(table);                      \
    if (HAS(table_, type, name)) return table_->name args; \
    ret none_;                                             \
    memset(&none_, 0, sizeof none_);                       \
    return none_;                                          \
  }
#define FORWARD_PROC(table, type, name, params, args) \
  void name params {                                  \
    const type *table_ = LOAD(table);                 \
    if (HAS(table_, type, name)) table_->name args;   \
  }

#define TC_ABI_FN(since, ret, name, params, args, doc) \
  FORWARD(kernel_read, tc_kernel_read_table, ret, name, params, args)
#define TC_ABI_PROC(since, name, params, args, doc) FORWARD_PROC(kernel_read, tc_kernel_read_table, name, params, args)
#define TC_ABI_WANT_KERNEL_READ
#include "../abi/abi.def"

#define TC_ABI_FN(since, ret, name, params, args, doc) \
  FORWARD(kernel_build, tc_kernel_build_table, ret, name, params, args)
#define TC_ABI_PROC(since, name, params, args, doc) \
  FORWARD_PROC(kernel_build, tc_kernel_build_table, name, params, args)
#define TC_ABI_WANT_KERNEL_BUILD
#include "../abi/abi.def"

#define TC_ABI_FN(since, ret, name, params, args, doc) FORWARD(op, tc_op_table, ret, name, params, args)
#define TC_ABI_PROC(since, name, params, args, doc) FORWARD_PROC(op, tc_op_table, name, params, args)
#define TC_ABI_WANT_OP
#include "../abi/abi.def"

#define TC_ABI_FN(since, ret, name, params, args, doc) FORWARD(expand, tc_expand_table, ret, name, params, args)
#define TC_ABI_PROC(since, name, params, args, doc) FORWARD_PROC(expand, tc_expand_table, name, params, args)
#define TC_ABI_WANT_EXPAND
#include "../abi/abi.def"

#define TC_ABI_FN(since, ret, name, params, args, doc) FORWARD(lower, tc_lower_table, ret, name, params, args)
#define TC_ABI_PROC(since, name, params, args, doc) FORWARD_PROC(lower, tc_lower_table, name, params, args)
#define TC_ABI_WANT_LOWER
#include "../abi/abi.def"

#define TC_ABI_FN(since, ret, name, params, args, doc) FORWARD(stage, tc_stage_table, ret, name, params, args)
#define TC_ABI_PROC(since, name, params, args, doc) FORWARD_PROC(stage, tc_stage_table, name, params, args)
#define TC_ABI_WANT_STAGE
#include "../abi/abi.def"

// Variadic: the text is put together here.
int32_t tc_op_fail(tc_op_args *a, const char *fmt, ...) {
  char text[1024];
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  size_t size = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
  const tc_op_table *t = LOAD(op);
  if (HAS(t, tc_op_table, tc_op_fail)) return t->tc_op_fail(a, (tc_sv){text, size});
  return TC_STATUS_INVALID_ARGUMENT;
}

#define STORE(table, type)                                                                                             \
  atomic_store_explicit(&host_##table, offsetof(tc_host, table) + sizeof h->table <= h->struct_size ? h->table : NULL, \
                        memory_order_relaxed)

int32_t tc_sdk_init(const tc_host *h) {
  if (!h || h->magic != TC_ABI_MAGIC) return TC_STATUS_MISMATCH;
  if (h->abi_major != TC_ABI_MAJOR || h->struct_size < offsetof(tc_host, expand)) {
    char text[128];
    int n = snprintf(text, sizeof text, "the plugin speaks version %d of the plugin interface, the host version %u",
                     TC_ABI_MAJOR, (unsigned)h->abi_major);
    if (h->struct_size >= offsetof(tc_host, log) && h->diag)
      h->diag(h->self, TC_STATUS_MISMATCH, (tc_sv){text, (size_t)n});
    return TC_STATUS_MISMATCH;
  }
  STORE(kernel_read, tc_kernel_read_table);
  STORE(kernel_build, tc_kernel_build_table);
  STORE(op, tc_op_table);
  STORE(expand, tc_expand_table);
  STORE(lower, tc_lower_table);
  STORE(stage, tc_stage_table);
  return TC_STATUS_OK;
}

#define COMPLETE(table, type) (LOAD(table) && LOAD(table)->struct_size >= sizeof(type))
int32_t tc_sdk_complete(void) {
  return COMPLETE(kernel_read, tc_kernel_read_table) && COMPLETE(kernel_build, tc_kernel_build_table) &&
         COMPLETE(op, tc_op_table) && COMPLETE(expand, tc_expand_table) && COMPLETE(lower, tc_lower_table) &&
         COMPLETE(stage, tc_stage_table);
}

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZER "address"
#elif defined(__SANITIZE_THREAD__)
#define SANITIZER "thread"
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZER "address"
#elif __has_feature(thread_sanitizer)
#define SANITIZER "thread"
#endif
#endif
#ifndef SANITIZER
#define SANITIZER ""
#endif

int32_t tc_sdk_answer(const tc_host *h, const tc_plugin_desc *mine, tc_plugin_desc *out) {
  // Only the fixed prefix may be touched before both sides know each other.
  if (!out || out->magic != TC_ABI_MAGIC) return TC_STATUS_MISMATCH;
  uint64_t room = out->struct_size < sizeof *mine ? out->struct_size : sizeof *mine;
  if (room < offsetof(tc_plugin_desc, name)) return TC_STATUS_MISMATCH;
  tc_plugin_desc d = *mine;
  d.magic = TC_ABI_MAGIC;
  d.abi_major = TC_ABI_MAJOR;
  d.abi_minor_low = mine->abi_minor_low;
  d.abi_minor_high = TC_ABI_MINOR;
  d.struct_size = sizeof d;
  if (!d.sanitizers.size) d.sanitizers = (tc_sv){SANITIZER, sizeof SANITIZER - 1};
  int32_t code = tc_sdk_init(h);
  if (code != TC_STATUS_OK && !d.refusal[0])
    snprintf(d.refusal, sizeof d.refusal, "the host does not speak version %d of the plugin interface", TC_ABI_MAJOR);
  memcpy(out, &d, room);
  return code;
}
