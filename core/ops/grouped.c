// Products of groups of rows, each with a matrix of its own, as layers of experts make them: which rows are a group's,
// the data say, by the places behind each group's last row. Definition: PyTorch's torch.nn.functional.grouped_mm. Rows
// behind the last group are zero here, where PyTorch leaves them open; transformers' own op, which stands for it in
// exported models, says zero.
#include "core/ops/ops.h"

enum { SELF, MAT2, OFFSETS, BIAS, OUT_DTYPE };

static int32_t grouped_meta(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, SELF), *y = tc_op_tensor(a, MAT2), *offsets = tc_op_tensor(a, OFFSETS);
  if (x->dtype != y->dtype || !tc_dtype_is_float(x->dtype)) // f64, too, for transformers' op
    return tc_op_fail(a, "expected both factors to be floats of one type: %s and %s", tc_dtype_torch_name(x->dtype),
                      tc_dtype_torch_name(y->dtype));
  if ((x->rank != 2 && x->rank != 3) || (y->rank != 2 && y->rank != 3))
    return tc_op_fail(a, "both factors must have 2 or 3 dimensions: %s and %s", tc_op_shape_text(a, SELF),
                      tc_op_shape_text(a, MAT2));
  if ((offsets != NULL) != (x->rank == 2 || y->rank == 2))
    return tc_op_fail(a, "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d");
  if (offsets && (offsets->rank != 1 || offsets->dtype != TC_I32))
    return tc_op_fail(a, "Offsets have to be int32 and 1d: %s", tc_op_shape_text(a, OFFSETS));
  if (tc_op_kind(a, BIAS) != TC_AK_NONE) return tc_op_fail(a, "Bias not supported yet");
  if (tc_op_dtype(a, OUT_DTYPE, x->dtype) != x->dtype)
    return tc_op_fail(a, "Grouped gemm output dtype must match the factors'");
  if (tc_int_require_eq(a, x->sizes[x->rank - 1], y->sizes[y->rank - 2]))
    return tc_op_fail(a, "contraction dimension of self and mat2 must match: %s and %s", tc_op_shape_text(a, SELF),
                      tc_op_shape_text(a, MAT2));
  const tc_tensor_type *groups = x->rank == 3 ? x : y->rank == 3 ? y : NULL;
  if (groups && tc_int_require_eq(a, groups->sizes[0], (offsets ? offsets : y)->sizes[0]))
    return tc_op_fail(a, "matrix batch sizes have to match: %s and %s", tc_op_shape_text(a, SELF),
                      tc_op_shape_text(a, MAT2));
  tc_int sizes[3] = {offsets ? offsets->sizes[0] : x->sizes[0], x->sizes[x->rank - 2], y->sizes[y->rank - 1]};
  bool one = x->rank != y->rank; // then groups are rows or columns of one matrix
  return tc_op_set_result(a, 0, x->dtype, one ? 2 : 3, sizes + one, NULL);
}

// The group of each of `n` places, and which have one.
#define OWNERS(n)                                                                                                 \
  "let places = arange(" n "); let owner = clamp(bucketize(places, offs, right=true), 0, offs.size(0) - 1); let " \
  "there = lt(places, select(offs, 0, -1)); "
// Rows times the matrices of their groups: a sum for each element, in whose kernel the matrices are read where they
// lie.
#define BY_ROW(x, y)                                                                                          \
  "to(where(unsqueeze(there, 1), sum(mul(unsqueeze(to(" x ", d), 2), index_select(to(" y ", d), 0, owner)), " \
  "[1]), 0), self.dtype)"
#define BACKWARD(x, y, offs)                                                                   \
  x ": _grouped_mm(grad, transpose(" y ", -2, -1), " offs "); " y ": _grouped_mm(transpose(" x \
    ", -2, -1), grad, " offs ")"

static const tc_op_def rows[] = {
    {.schema = "_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? "
               "out_dtype=None) -> Tensor",
     .meta = grouped_meta,
     .decompose = "if(is_none(offs), bmm(self, mat2), if(mat2.rank == 3, _grouped_rows(self, mat2, offs), "
                  "if(self.rank == 3, _grouped_columns(self, mat2, offs), _grouped_depth(self, mat2, offs))))",
     .grad = BACKWARD("self", "mat2", "offs")},
    {.schema = "_grouped_rows(Tensor self, Tensor mat2, Tensor offs) -> Tensor",
     .decompose = "let d = wide(self.dtype); " OWNERS("self.size(0)") BY_ROW("self", "mat2")},
    {.schema = "_grouped_columns(Tensor self, Tensor mat2, Tensor offs) -> Tensor",
     .decompose = "let d = wide(self.dtype); " OWNERS("mat2.size(1)") "contiguous(t(" BY_ROW(
         "t(mat2)", "transpose(self, 1, 2)") "))"},
    // The whole depth for each group, with zeros where it is another group's.
    {.schema = "_grouped_depth(Tensor self, Tensor mat2, Tensor offs) -> Tensor",
     .decompose =
         OWNERS("self.size(1)") "let groups = unsqueeze(arange(offs.size(0)), 1); "
                                "let mine = logical_and(eq(groups, unsqueeze(owner, 0)), unsqueeze(there, 0)); "
                                "bmm(where(unsqueeze(mine, 1), unsqueeze(self, 0), 0), where(unsqueeze(mine, 2), "
                                "unsqueeze(mat2, 0), 0))"},
    {.schema = "transformers::grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor",
     .decompose = "_grouped_mm(input, weight, to(offs, i32))",
     .grad = BACKWARD("input", "weight", "to(offs, i32)")},
};
TC_OP_FAMILY(grouped);
