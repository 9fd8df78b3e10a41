// Status: the result of everything that can fail. NULL is success; an error carries a code, a message and notes
// ("while …") added on the way up. After IREE's status idiom: the caller owns the error and must return, annotate,
// consume or free it.
//
// Thread-safety: a status belongs to one thread at a time. When memory is short the error is a shared static one.
#ifndef TC_CORE_BASE_STATUS_H_
#define TC_CORE_BASE_STATUS_H_

#include <stdarg.h>
#include <stdbool.h>

#include "tc/types.h"

typedef struct tc_status_rep *tc_status;
#define TC_OK ((tc_status)0)
#define TC_NODISCARD __attribute__((warn_unused_result))
// Lets the compiler see that what an error skips is not used.
#define TC_NONNULL __attribute__((returns_nonnull))
#define TC_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

// Makes an error; `code` is a TC_STATUS_* other than OK. The text says what, where, and what to do.
TC_NODISCARD tc_status tc_error(int32_t code, const char *fmt, ...) TC_PRINTF(2, 3) TC_NONNULL;
TC_NODISCARD tc_status tc_errorv(int32_t code, const char *fmt, va_list args) TC_NONNULL;
// The shared error for lack of memory: it owns nothing, so what keeps it may be unwound over. Notes are not added to
// it.
TC_NODISCARD tc_status tc_error_out_of_memory(void) TC_NONNULL;
// Adds a note that is printed below the message ("  while loading weights of 'a.pt2'"). Returns `status`.
TC_NODISCARD tc_status tc_status_note(tc_status status, const char *fmt, ...) TC_PRINTF(2, 3);
// The same for what is known to be an error.
TC_NODISCARD tc_status tc_status_note_error(tc_status error, const char *fmt, ...) TC_PRINTF(2, 3) TC_NONNULL;
int32_t tc_status_code(tc_status status);
// The message with its notes, one per line; valid until the status is freed. "ok" for TC_OK.
const char *tc_status_text(tc_status status);
void tc_status_free(tc_status status);
const char *tc_status_name(int32_t code); // "out of memory"

// Returns the error of `expr`, if any, from this function, with a note: TC_TRY(read(f), "while reading '%s'", path).
// The note may be omitted.
#define TC_TRY(...) \
  TC_TRY_PICK_(__VA_ARGS__, TC_TRY_N_, TC_TRY_N_, TC_TRY_N_, TC_TRY_N_, TC_TRY_N_, TC_TRY_N_, TC_TRY_1_, )(__VA_ARGS__)
#define TC_TRY_PICK_(a, b, c, d, e, f, g, name, ...) name
#define TC_TRY_1_(expr)                                                \
  do {                                                                 \
    tc_status try_status_ = (expr);                                    \
    if (__builtin_expect(try_status_ != TC_OK, 0)) return try_status_; \
  } while (0)
#define TC_TRY_N_(expr, ...)                                                                              \
  do {                                                                                                    \
    tc_status try_status_ = (expr);                                                                       \
    if (__builtin_expect(try_status_ != TC_OK, 0)) return tc_status_note_error(try_status_, __VA_ARGS__); \
  } while (0)
// The same with a clean-up label: assigns `status` and jumps.
#define TC_TRY_GOTO(status, label, expr)                    \
  do {                                                      \
    (status) = (expr);                                      \
    if (__builtin_expect((status) != TC_OK, 0)) goto label; \
  } while (0)

#endif
