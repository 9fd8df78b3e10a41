// Dtypes and tensor types of the archive's TensorMeta, and their comparison with what our meta functions say.
#include "core/frontends/pt2/import.h"

// Numbers of the schema's ScalarType (not c10's).
tc_status pt2_dtype(const at *where, int64_t number, tc_dtype *out) {
  static const struct {
    int64_t number;
    tc_dtype dtype; // NONE: known, not supported
    const char *name;
  } rows[] = {{7, TC_F32, NULL},
              {5, TC_I64, NULL},
              {12, TC_BOOL, NULL},
              {13, TC_BF16, NULL},
              {6, TC_F16, NULL},
              {8, TC_F64, NULL},
              {4, TC_I32, NULL},
              {10, TC_C64, NULL},
              {11, TC_C128, NULL},
              {9, TC_C32, NULL},
              {1, TC_U8, NULL},
              {2, TC_I8, NULL},
              {3, TC_I16, NULL},
              {28, TC_U16, NULL},
              {34, TC_U32, NULL},
              {35, TC_U64, NULL},
              {29, TC_DTYPE_NONE, "float8_e4m3fn"},
              {30, TC_DTYPE_NONE, "float8_e5m2"},
              {31, TC_DTYPE_NONE, "float8_e4m3fnuz"},
              {32, TC_DTYPE_NONE, "float8_e5m2fnuz"},
              {33, TC_DTYPE_NONE, "float8_e8m0fnu"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (rows[i].number != number) continue;
    *out = rows[i].dtype;
    return rows[i].name ? pt2_refuse(where, "the dtype torch.%s is not supported", rows[i].name) : TC_OK;
  }
  return pt2_bad(where, "unknown dtype number %lld", (long long)number);
}

static tc_status read_symints(pt2_import *im, const at *where, tc_json list, int32_t rank, const tc_sym **out,
                              int64_t *hints) {
  int32_t i = 0;
  if (tc_json_count(list) != rank) return pt2_bad(where, "expected %d entries", rank);
  for (tc_json_iter it = tc_json_begin(list); tc_json_next(&it); i++) {
    at here = at_item(where, i);
    TC_TRY(pt2_symint(im, &here, it.value, &out[i], hints ? &hints[i] : NULL));
    if (out[i]->kind == TC_SYM_CONST && out[i]->value < 0)
      return pt2_bad(&here, "a negative size or stride: %lld", (long long)out[i]->value);
  }
  return TC_OK;
}

tc_status pt2_type(pt2_import *im, const at *where, tc_json v, tc_tensor_type *out, int64_t *hints) {
  int64_t dtype = 0, layout = 7;
  tc_json sizes = {0}, strides = {0}, offset = {0};
  at dtype_at = at_key(where, "dtype"), sizes_at = at_key(where, "sizes"), strides_at = at_key(where, "strides");
  for (tc_json_iter it = tc_json_begin(v); tc_json_next(&it);) {
    if (tc_sv_is(it.key, "dtype")) TC_TRY(pt2_as_int(&dtype_at, it.value, &dtype));
    else if (tc_sv_is(it.key, "sizes")) sizes = it.value;
    else if (tc_sv_is(it.key, "strides")) strides = it.value;
    else if (tc_sv_is(it.key, "storage_offset")) offset = it.value;
    else if (tc_sv_is(it.key, "layout")) (void)tc_json_int(it.value, &layout);
  }
  if (tc_json_kind(sizes) != TC_JSON_ARRAY) return pt2_bad(&sizes_at, "expected an array");
  if (tc_json_kind(strides) != TC_JSON_ARRAY) return pt2_bad(&strides_at, "expected an array");
  if (layout != 7) return pt2_refuse(where, "only strided tensors are supported (layout %lld)", (long long)layout);
  int64_t rank = tc_json_count(sizes);
  if (rank > TC_MAX_RANK)
    return pt2_refuse(&sizes_at, "a tensor of %lld dimensions; the limit is %d", (long long)rank, TC_MAX_RANK);
  *out = (tc_tensor_type){.rank = (int32_t)rank};
  TC_TRY(pt2_dtype(&dtype_at, dtype, &out->dtype));
  const tc_sym **all = TC_NEW_ARRAY(im->arena, const tc_sym *, 2 * rank);
  TC_TRY(read_symints(im, &sizes_at, sizes, out->rank, all, hints));
  TC_TRY(read_symints(im, &strides_at, strides, out->rank, all + rank, NULL));
  out->sizes = all, out->strides = all + rank;
  out->offset = tc_sym_int(im->syms, 0);
  at offset_at = at_key(where, "storage_offset");
  if (tc_json_present(offset)) TC_TRY(pt2_symint(im, &offset_at, offset, &out->offset, NULL));
  return TC_OK;
}

// ---- comparison ----
static bool all_equal(pt2_import *im, int32_t rank, const tc_int *a, const tc_int *b) {
  for (int32_t i = 0; i < rank; i++)
    if (!tc_sym_eq(im->syms, a[i], b[i])) return false;
  return true;
}

// Strides that no index reaches: of size-1 dimensions, or of an empty tensor.
static bool strides_matter(pt2_import *im, const tc_tensor_type *a, const tc_tensor_type *b) {
  bool differ = false;
  for (int32_t i = 0; i < a->rank; i++) {
    if (tc_sym_is_int(a->sizes[i], 0)) return false;
    differ |= !tc_sym_is_int(a->sizes[i], 1) && !tc_sym_eq(im->syms, a->strides[i], b->strides[i]);
  }
  return differ;
}

// "f32[2, 3]{3, 1}+0": strides and offset always, as they may be what differs.
static tc_sv type_text(pt2_import *im, const tc_tensor_type *t) {
  tc_sb sb = tc_sb_make(im->arena);
  tc_type_print(&sb, t);
  tc_sb_putc(&sb, '{');
  for (int32_t i = 0; i < t->rank; i++) {
    if (i) tc_sb_putz(&sb, ", ");
    tc_sym_print(&sb, t->strides[i]);
  }
  tc_sb_putz(&sb, "}+");
  tc_sym_print(&sb, t->offset);
  return tc_sb_view(&sb);
}

void pt2_compare(pt2_import *im, const tc_op *op, tc_sv value, tc_sv source, const tc_tensor_type *archive,
                 const tc_tensor_type *meta) {
  int32_t what = 0;
  if (archive->dtype != meta->dtype) what |= TC_PT2_DTYPE;
  if (archive->rank != meta->rank) what |= TC_PT2_SIZES;
  else {
    if (!all_equal(im, archive->rank, archive->sizes, meta->sizes)) what |= TC_PT2_SIZES;
    if (!all_equal(im, archive->rank, archive->strides, meta->strides)) what |= TC_PT2_STRIDES;
  }
  // Offsets were always written as 0 before schema 8.9.
  if (im->program->schema_minor >= 14 && !tc_sym_eq(im->syms, archive->offset, meta->offset)) what |= TC_PT2_OFFSET;
  if (what == 0) return;
  bool harmless = what == TC_PT2_STRIDES && !strides_matter(im, archive, meta);
  tc_pt2_disagreement d = {
      what, harmless, op->full_name, tc_sv_copy(im->arena, value), source, type_text(im, archive), type_text(im, meta)};
  tc_vec_push(im->arena, &im->program->disagreements, d);
}
