// What the legalising files share: real operations on any float type (legalise.c) and complex ones by parts
// (complex*.c).
#ifndef TC_CORE_KERNEL_LEGALISE_H_
#define TC_CORE_KERNEL_LEGALISE_H_

#include "core/kernel/maths/maths.h"

typedef struct tc_kcx {
  tc_kval re, im;
} tc_kcx;

// A real operation in plain arithmetic: class m is lowered, 16-bit floats go through f32.
tc_kval tc_kir_plain(tc_kb *b, int32_t op, int32_t n, const tc_kval *args);
// An operation with complex operands, parts of f32 or f64. For opcodes whose result is real or bool, im is -1.
tc_kcx tc_kir_complex(tc_kb *b, int32_t op, int32_t n, const tc_kcx *args);

#endif
