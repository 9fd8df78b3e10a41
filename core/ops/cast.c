// Conversions and copies.
#include "core/ops/ops.h"

static int32_t ref_copy(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t index[TC_MAX_RANK] = {0};
  if (tc_ref_numel(y) == 0) return TC_STATUS_OK;
  do tc_ref_copy(y, tc_ref_offset(y, index), x, tc_ref_offset(x, index));
  while (tc_ref_next(y->rank, y->sizes, index));
  return TC_STATUS_OK;
}

static int32_t format_arg(tc_op_args *a, int32_t otherwise) {
  int32_t arg = tc_op_arg_index(a, "memory_format");
  return arg < 0 ? otherwise : tc_op_memory_format(a, arg, otherwise);
}

static int32_t like_self(tc_op_args *a, tc_dtype d, int32_t format) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  return tc_op_format_result(a, 0, d, t->rank, t->sizes, format, 0);
}
static int32_t clone_meta(tc_op_args *a) {
  return like_self(a, tc_op_tensor(a, 0)->dtype, format_arg(a, TC_FORMAT_PRESERVE));
}
static int32_t row_major_meta(tc_op_args *a) { return like_self(a, tc_op_tensor(a, 0)->dtype, TC_FORMAT_CONTIGUOUS); }
static int32_t to_copy_meta(tc_op_args *a) {
  return like_self(a, tc_op_dtype(a, tc_op_arg_index(a, "dtype"), tc_op_tensor(a, 0)->dtype),
                   format_arg(a, TC_FORMAT_PRESERVE));
}

// The argument itself where nothing changes, else a copy.
static int32_t maybe_alias(tc_op_args *a, tc_dtype d, int32_t format, bool copy) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  bool layout = format == TC_FORMAT_PRESERVE ||
                (format == TC_FORMAT_CONTIGUOUS && tc_strides_contiguous(a->syms, t->rank, t->sizes, t->strides)) ||
                (format == TC_FORMAT_CHANNELS_LAST && tc_strides_channels_last(a->syms, t->rank, t->sizes, t->strides));
  if (d == t->dtype && layout && !copy)
    return tc_op_set_view(a, 0, 0, t->dtype, t->rank, t->sizes, t->strides, t->offset);
  return like_self(a, d, format);
}
static int32_t to_meta(tc_op_args *a) {
  int32_t dtype = tc_op_arg_index(a, "dtype"), other = tc_op_arg_index(a, "other"), copy = tc_op_arg_index(a, "copy");
  tc_dtype d = tc_op_tensor(a, 0)->dtype;
  if (other >= 0) d = tc_op_tensor(a, other)->dtype;
  if (dtype >= 0) d = tc_op_dtype(a, dtype, d);
  bool same = d == tc_op_tensor(a, 0)->dtype && !(copy >= 0 && tc_op_bool(a, copy, 0));
  int32_t format = format_arg(a, TC_FORMAT_PRESERVE);
  if (same && format == tc_suggested_format(a, tc_op_tensor(a, 0))) format = TC_FORMAT_PRESERVE; // as it seems to be
  return maybe_alias(a, d, format, !same);
}
static int32_t contiguous_meta(tc_op_args *a) {
  return maybe_alias(a, tc_op_tensor(a, 0)->dtype, format_arg(a, TC_FORMAT_CONTIGUOUS), false);
}

// The same values; of another dtype they are converted. A new tensor costs nothing here: the scheduler decides.
static int32_t lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_lt x = tc_lo_arg(a, 0);
  const char *name = "v";
  tc_lo_result(a, 0,
               tc_lo_dtype(a, x) == r->dtype ? x : tc_lower_text(a, "v", 1, &name, &x, tc_lo_dtype(a, x), r->dtype));
  return TC_STATUS_OK;
}

// copy: the values of src, in the place of self.
static int32_t copy_meta(tc_op_args *a) {
  const tc_tensor_type *self = tc_op_tensor(a, 0);
  return tc_op_fits(a, 1, self->rank, self->sizes) ? TC_STATUS_INVALID_ARGUMENT : tc_meta_same_strides(a);
}
static int32_t copy_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_lt x = tc_lo_expand(a, tc_lo_arg(a, 1), r->rank, r->sizes);
  const char *name = "v";
  tc_lo_result(a, 0,
               tc_lo_dtype(a, x) == r->dtype ? x : tc_lower_text(a, "v", 1, &name, &x, tc_lo_dtype(a, x), r->dtype));
  return TC_STATUS_OK;
}
static int32_t copy_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 1), *y = tc_op_result_data(a, 0);
  int64_t index[TC_MAX_RANK] = {0};
  if (tc_ref_numel(y) == 0) return TC_STATUS_OK;
  do {
    int64_t at = 0;
    for (int32_t d = 0; d < x->rank; d++) at += x->sizes[d] == 1 ? 0 : index[d + y->rank - x->rank] * x->strides[d];
    tc_ref_copy(y, tc_ref_offset(y, index), x, at);
  } while (tc_ref_next(y->rank, y->sizes, index));
  return TC_STATUS_OK;
}

enum { C = TC_OP_COMPLEX, MAYBE = TC_OP_COMPLEX | TC_OP_MAYBE_VIEW };
#define ROW(s, t, m) {.schema = s, .traits = t, .meta = m, .lower = lower, .ref = ref_copy}
static const tc_op_def rows[] = {
    ROW("clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", C, clone_meta),
    ROW("_row_major(Tensor self) -> Tensor", C,
        row_major_meta), // a copy in row-major order: tc's own, for decompositions
    ROW("lift_fresh_copy(Tensor self) -> Tensor", C, row_major_meta),
    ROW("_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
        "pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
        C, to_copy_meta),
    ROW("to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? "
        "memory_format=None) -> Tensor(a)",
        MAYBE, to_meta),
    ROW("to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
        "pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
        MAYBE, to_meta),
    ROW("to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, "
        "MemoryFormat? memory_format=None) -> Tensor(a)",
        MAYBE, to_meta),
    ROW("to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? "
        "memory_format=None) -> Tensor(a)",
        MAYBE, to_meta),
    ROW("type_as(Tensor self, Tensor other) -> Tensor", MAYBE, to_meta),
    ROW("contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)", MAYBE,
        contiguous_meta),
    {.schema = "copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor",
     .traits = C,
     .meta = copy_meta,
     .lower = copy_lower,
     .ref = copy_ref},
    {.schema = "copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)", .traits = C},
};
// Derivatives; see docs/ADDING_AN_OP.md for what the texts can name.
static const tc_op_derivative derivatives[] = {
    {"clone", "self: grad"}, {"contiguous", "self: grad"}, {"_to_copy", "self: grad"}, {"to.dtype", "self: grad"},
    {"copy", "src: grad"},   {"_row_major", "self: grad"}, {"type_as", "self: grad"},
};
TC_OP_FAMILY_WITH_DERIVATIVES(cast);
