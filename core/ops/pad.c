// Padding: constant, reflect, replicate, circular. All are index maps: the element at i of a padded dimension is the
// argument's at f(i - before); a constant where f leaves the tensor. Negative amounts cut.
#include "core/ops/ops.h"

enum { CONSTANT, REFLECT, REPLICATE, CIRCULAR };

static int32_t mode_of(tc_op_args *a) {
  tc_sv name = a->op->schema.name;
  if (tc_sv_starts(name, "reflection")) return REFLECT;
  if (tc_sv_starts(name, "replication")) return REPLICATE;
  int32_t arg = tc_op_arg_index(a, "mode");
  if (arg < 0) return tc_sv_is(name, "_pad_circular") ? CIRCULAR : CONSTANT;
  tc_sv mode = tc_op_string(a, arg);
  if (tc_sv_is(mode, "constant")) return CONSTANT;
  if (tc_sv_is(mode, "reflect")) return REFLECT;
  if (tc_sv_is(mode, "replicate")) return REPLICATE;
  if (tc_sv_is(mode, "circular")) return CIRCULAR;
  tc_op_fail(a, "the padding mode '" TC_SV_FMT "' is not known", TC_SV_ARG(mode));
  return -1;
}

// Amounts come in pairs from the last dimension on.
static int32_t read_pads(tc_op_args *a, tc_int *before, tc_int *after) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int32_t n = tc_op_count(a, 1);
  if (n % 2 && tc_sv_is(a->op->schema.name, "_pad_circular")) n--; // what is no pair is passed over
  if (n % 2) return tc_op_fail(a, "length of pad must be even but instead it equals %d", n);
  if (n / 2 > t->rank)
    return tc_op_fail(a, "length of pad (%d) is more than twice the number of dimensions of the input (%d)", n,
                      t->rank);
  for (int32_t d = 0; d < t->rank; d++) {
    int32_t k = t->rank - 1 - d;
    before[d] = k < n / 2 ? tc_op_sym_at(a, 1, 2 * k) : tc_int_const(a, 0);
    after[d] = k < n / 2 ? tc_op_sym_at(a, 1, 2 * k + 1) : tc_int_const(a, 0);
  }
  return TC_STATUS_OK;
}

// An empty dimension stays one where rows are taken round; what mirrors or repeats an edge has none but of batches.
static bool may_be_empty(tc_op_args *a, int32_t mode, int32_t d, tc_int padded_size) {
  if (mode == CIRCULAR) return tc_sym_is_int(padded_size, 0);
  return d == 0 && tc_op_tensor(a, 0)->rank == tc_op_count(a, 1) / 2 + 2;
}

static int32_t pad_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  tc_int before[TC_MAX_RANK], after[TC_MAX_RANK], sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
  int32_t mode = mode_of(a);
  if (mode < 0 || read_pads(a, before, after)) return TC_STATUS_INVALID_ARGUMENT;
  for (int32_t d = 0; d < t->rank; d++) {
    sizes[d] = tc_int_add(a, t->sizes[d], tc_int_add(a, before[d], after[d]));
    bool padded = !tc_sym_is_int(before[d], 0) || !tc_sym_is_int(after[d], 0);
    tc_int values[] = {tc_int_const(a, d), sizes[d], t->sizes[d], tc_int_max(a, before[d], after[d])};
    if (padded && tc_op_require(a, tc_sym_cmp(a->syms, TC_SYM_LE, tc_int_const(a, 0), sizes[d]),
                                "dimension {} is padded to a negative size, {}", 2, values))
      return TC_STATUS_INVALID_ARGUMENT;
    bool wide = padded && (tc_int_lt(a, before[d], t->sizes[d]) == 0 || tc_int_lt(a, after[d], t->sizes[d]) == 0);
    if (mode != CONSTANT && tc_int_eq(a, t->sizes[d], tc_int_const(a, 0)) == 1 && !may_be_empty(a, mode, d, sizes[d]))
      return tc_op_fail(a, "dimension %d of %s is empty: there is nothing to pad with", d, tc_op_shape_text(a, 0));
    if (mode == CIRCULAR && (tc_int_lt(a, t->sizes[d], before[d]) == 1 || tc_int_lt(a, t->sizes[d], after[d]) == 1))
      return tc_op_fail(a, "padding causes wrapping around more than once in dimension %d: %s", d,
                        tc_op_shape_text(a, 0));
    tc_int zero = tc_int_const(a, 0),
           kept =
               tc_int_add(a, t->sizes[d], tc_int_add(a, tc_int_min(a, before[d], zero), tc_int_min(a, after[d], zero)));
    if (mode == CIRCULAR && tc_int_lt(a, kept, tc_int_const(a, 1)) == 1 && tc_int_lt(a, zero, sizes[d]) == 1)
      return tc_op_fail(a, "negative padding leaves nothing of dimension %d: %s", d, tc_op_shape_text(a, 0));
    if (mode == REFLECT && padded && !wide &&
        tc_op_require(a, tc_sym_cmp(a->syms, TC_SYM_LT, values[3], t->sizes[d]),
                      "padding dimension {} to {}: reflected padding must be less than its size {}, is {}", 4, values))
      return TC_STATUS_INVALID_ARGUMENT;
    if (mode == CIRCULAR && padded &&
        tc_op_require(a, tc_sym_cmp(a->syms, TC_SYM_LE, values[3], t->sizes[d]),
                      "padding dimension {} to {}: size {} is wrapped around more than once by {}", 4, values))
      return TC_STATUS_INVALID_ARGUMENT;
    if (mode == REFLECT && wide)
      return tc_op_fail(a, "reflected padding must be less than the size of dimension %d: %s", d,
                        tc_op_shape_text(a, 0));
  }
  if (mode == CONSTANT && tc_op_number_fits(a, tc_op_arg_index(a, "value"), t->dtype))
    return TC_STATUS_INVALID_ARGUMENT;
  int32_t format = tc_suggested_format(a, t), pads = tc_op_arg_index(a, "pad");
  if (mode == CONSTANT && tc_op_count(a, pads) == 0)
    return tc_op_format_result(a, 0, t->dtype, t->rank, sizes, TC_FORMAT_PRESERVE, 0);
  if (format == TC_FORMAT_CONTIGUOUS || mode == CIRCULAR || (mode != CONSTANT && t->rank < 4))
    return tc_op_set_result(a, 0, t->dtype, t->rank, sizes, NULL);
  tc_strides_make_channels_last(a->syms, t->rank, sizes, strides);
  return tc_op_set_result(a, 0, t->dtype, t->rank, sizes, strides);
}

static bool pad_value(tc_op_args *a, tc_number *v) {
  int32_t arg = tc_op_arg_index(a, "value");
  *v = (tc_number){.kind = TC_AK_INT};
  return arg >= 0 && tc_op_number(a, arg, v);
}

// Where element i (counted from the start of the argument) comes from.
static tc_int source_index(tc_op_args *a, int32_t mode, tc_int i, tc_int size, tc_int before, tc_int after) {
  tc_int zero = tc_int_const(a, 0), last = tc_int_sub(a, size, tc_int_const(a, 1));
  if (mode == CIRCULAR) { // what negative amounts cut off does not come round again
    tc_int start = tc_int_max(a, tc_int_sub(a, zero, before), zero),
           cut = tc_int_max(a, tc_int_sub(a, zero, after), zero);
    tc_int period = tc_int_sub(a, tc_int_sub(a, size, start), cut);
    return tc_int_add(a, start, tc_int_mod(a, tc_int_sub(a, i, start), period));
  }
  if (mode == REPLICATE) return tc_int_min(a, tc_int_max(a, i, zero), last);
  tc_int from_end = tc_int_sub(a, tc_int_add(a, last, last), i); // amounts are less than the size
  return tc_int_max(a, tc_int_sub(a, zero, i), tc_int_min(a, i, from_end));
}

static int32_t pad_lower(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *r = tc_op_result_type(a, 0);
  tc_int before[TC_MAX_RANK], after[TC_MAX_RANK], index[TC_MAX_RANK], at[TC_MAX_RANK], inside = tc_int_const(a, 1);
  int32_t mode = mode_of(a);
  if (mode < 0 || read_pads(a, before, after)) return TC_STATUS_INVALID_ARGUMENT;
  tc_lt x = tc_lo_arg(a, 0);
  if (mode != CONSTANT) {
    tc_lo_indices(a, r->rank, r->sizes, index);
    for (int32_t d = 0; d < r->rank; d++) {
      bool same = tc_sym_is_int(before[d], 0) && tc_sym_is_int(after[d], 0);
      at[d] =
          same ? index[d] : source_index(a, mode, tc_int_sub(a, index[d], before[d]), t->sizes[d], before[d], after[d]);
    }
    tc_lo_result(a, 0, tc_lo_view(a, x, r->rank, r->sizes, index, at));
    return TC_STATUS_OK;
  }
  tc_number v;
  pad_value(a, &v);
  tc_lo_begin(a, r->rank, r->sizes, index);
  for (int32_t d = 0; d < r->rank; d++) {
    at[d] = tc_int_sub(a, index[d], before[d]);
    tc_int within = tc_int_within(a, at[d], tc_int_const(a, 0), t->sizes[d]);
    if (!tc_sym_is_int(within, 1)) inside = tc_sym_is_int(inside, 1) ? within : tc_sym_and(a->syms, inside, within);
  }
  char c = tc_dtype_class(r->dtype);
  tc_bval other = c == 'f' || c == 'c' ? tc_lo_const(a, r->dtype, v.re, v.im)
                                       : tc_lo_const_int(a, r->dtype, c == 'b' ? v.re != 0 : v.i);
  tc_lo_result(
      a, 0,
      tc_lo_end(a, tc_sym_is_int(inside, 1) ? tc_lo_load(a, x, at) : tc_lo_load_if(a, x, at, inside, other), r->dtype));
  return TC_STATUS_OK;
}

static int32_t pad_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t iy[TC_MAX_RANK] = {0}, ix[TC_MAX_RANK];
  int32_t mode = mode_of(a), n = tc_op_count(a, 1);
  tc_number v;
  pad_value(a, &v);
  if (mode < 0) return TC_STATUS_INVALID_ARGUMENT;
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, iy)) {
    bool inside = true;
    for (int32_t d = 0; d < y->rank; d++) {
      int32_t k = y->rank - 1 - d;
      int64_t size = x->sizes[d], left = k < n / 2 ? tc_op_int_at(a, 1, 2 * k, 0) : 0;
      int64_t right = k < n / 2 ? tc_op_int_at(a, 1, 2 * k + 1, 0) : 0, i = iy[d] - left;
      if (mode == CIRCULAR) {
        int64_t start = left < 0 ? -left : 0, period = size - start + (right < 0 ? right : 0);
        i = start + ((i - start) % period + period) % period;
      }
      if (mode == REFLECT) i = i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i;
      if (mode == REPLICATE) i = i < 0 ? 0 : i >= size ? size - 1 : i;
      inside = inside && i >= 0 && i < size;
      ix[d] = i;
    }
    int64_t to = tc_ref_offset(y, iy);
    if (inside) tc_ref_copy(y, to, x, tc_ref_offset(x, ix));
    else tc_ref_put(y, to, (tc_c128){v.re, v.im});
  }
  return TC_STATUS_OK;
}

#define ROW(s) {.schema = s, .traits = TC_OP_COMPLEX, .meta = pad_meta, .lower = pad_lower, .ref = pad_ref}
static const tc_op_def rows[] = {
    ROW("constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor"),
    ROW("pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None) -> Tensor"),
    ROW("_pad_circular(Tensor self, SymInt[] pad) -> Tensor"),
    ROW("reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor"),
    ROW("reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor"),
    ROW("reflection_pad3d(Tensor self, SymInt[6] padding) -> Tensor"),
    ROW("replication_pad1d(Tensor self, SymInt[2] padding) -> Tensor"),
    ROW("replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor"),
    ROW("replication_pad3d(Tensor self, SymInt[6] padding) -> Tensor"),
};
// Derivatives; see docs/ADDING_AN_OP.md for what the texts can name.
static const tc_op_derivative derivatives[] = {
    {"constant_pad_nd", "self: constant_pad_nd(grad, negated(pad), 0)"},
};
TC_OP_FAMILY_WITH_DERIVATIVES(pad);
