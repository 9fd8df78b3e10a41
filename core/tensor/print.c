// Text of tensors, for people: `x: f32[2, 3] [0.5, 1.0, …]`. Floats print the shortest decimals that read back as the
// same value of their own dtype.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor/element.h"

static double rounded(tc_dtype d, double v) {
  switch (d) {
  case TC_F16: return tc_f16_to_f32(tc_f64_to_f16(v));
  case TC_BF16: return tc_bf16_to_f32(tc_f64_to_bf16(v));
  case TC_F32: return (float)v;
  default: return v;
  }
}

// Fewest digits first; the text passes through the C library twice, so that its locale cancels out.
static void put_float(tc_sb *sb, tc_dtype d, double v) {
  if (d != TC_F64 && v - v == 0) {
    for (int digits = 1; digits <= 9; digits++) {
      char text[40];
      snprintf(text, sizeof text, "%.*e", digits - 1, v);
      const double shorter = strtod(text, NULL);
      if (rounded(d, shorter) != v) continue;
      v = shorter;
      break;
    }
  }
  tc_sb_double(sb, v);
}

static void put_value(tc_sb *sb, const tc_tensor *t, const int64_t *index) {
  const tc_dtype real = tc_dtype_real(t->dtype);
  if (tc_dtype_is_wide_int(t->dtype)) {
    const int64_t v = tc_tensor_get_int(t, index);
    if (t->dtype == TC_BOOL) tc_sb_putz(sb, v ? "true" : "false");
    else if (t->dtype == TC_U64) tc_sb_printf(sb, "%llu", (unsigned long long)v);
    else tc_sb_int(sb, v);
    return;
  }
  double re, im;
  tc_tensor_get(t, index, &re, &im);
  put_float(sb, real, re);
  if (!tc_dtype_is_complex(t->dtype)) return;
  if (im != im || !__builtin_signbit(im)) tc_sb_putc(sb, '+');
  put_float(sb, real, im);
  tc_sb_putc(sb, 'j');
}

static void put_dims(tc_sb *sb, int32_t rank, const int64_t *dims) {
  tc_sb_putc(sb, '[');
  for (int32_t i = 0; i < rank; i++) {
    if (i) tc_sb_putz(sb, ", ");
    tc_sb_int(sb, dims[i]);
  }
  tc_sb_putc(sb, ']');
}

void tc_tensor_print(tc_sb *sb, tc_sv name, const tc_tensor *t, int32_t max_values) {
  if (name.size) {
    tc_sb_put(sb, name);
    tc_sb_putz(sb, ": ");
  }
  tc_sb_putz(sb, tc_dtype_name(t->dtype));
  put_dims(sb, t->rank, t->sizes);
  if (!tc_tensor_is_contiguous(t)) {
    tc_sb_putz(sb, " strides ");
    put_dims(sb, t->rank, t->strides);
  }
  if (t->conj) tc_sb_putz(sb, " conj");
  if (t->neg) tc_sb_putz(sb, " neg");
  if (!t->storage || t->storage->device != 0) {
    tc_sb_putz(sb, " (not on the host)");
    return;
  }
  tc_sb_putz(sb, " [");
  int64_t index[TC_MAX_RANK] = {0};
  int32_t shown = 0;
  for (bool more = tc_tensor_numel(t) > 0; more; more = tc_index_next(t->rank, t->sizes, index), shown++) {
    if (shown) tc_sb_putz(sb, ", ");
    if (shown >= max_values) {
      tc_sb_putz(sb, "…");
      break;
    }
    put_value(sb, t, index);
  }
  tc_sb_putc(sb, ']');
}
