// A tensor cut along a dimension into a list of views.
#include "core/ops/ops.h"

// Pieces of the dimension: count, and where each starts and ends. Lists in the arena.
typedef struct pieces {
  int64_t dim;
  int32_t n;
  tc_int *start, *length;
} pieces;

static int32_t even(tc_op_args *a, tc_int size, tc_int piece, pieces *p) {
  int64_t each, total = tc_int_hint(a, size, -1);
  if (!tc_int_is_const(piece, &each)) each = tc_int_hint(a, piece, -1);
  if (each < 0) return tc_op_fail(a, "split expects split_size to be non-negative, but got %lld", (long long)each);
  if (each == 0 && total != 0)
    return tc_op_fail(a, "split_size can only be 0 if the dimension's size is 0, but got a size of %lld",
                      (long long)total);
  if (total < 0) return tc_op_fail(a, "a dimension of unknown size cannot be split: %s", tc_op_shape_text(a, 0));
  // The number of results is fixed: a symbolic size must keep it.
  int64_t n = each == 0 ? 1 : total / each + (total % each != 0);
  p->n = n < 1 ? 1 : n > 65536 ? 65536 : (int32_t)n;
  p->start = TC_NEW_ARRAY(a->arena, tc_int, 2 * p->n);
  p->length = p->start + p->n;
  tc_int count =
      each == 0 ? tc_int_const(a, p->n) : tc_int_max(a, tc_sym_ceildiv(a->syms, size, piece), tc_int_const(a, 1));
  if (n > 65536 || tc_int_require_eq(a, count, tc_int_const(a, p->n)))
    return tc_op_fail(a, "the number of pieces must be a constant: %s", tc_op_shape_text(a, 0));
  for (int32_t i = 0; i < p->n; i++) {
    p->start[i] = tc_int_mul(a, tc_int_const(a, i), piece);
    p->length[i] = i + 1 < p->n ? piece : tc_int_sub(a, size, p->start[i]);
  }
  return TC_STATUS_OK;
}

static int32_t by_sizes(tc_op_args *a, tc_int size, pieces *p) {
  p->n = tc_op_count(a, 1);
  p->start = TC_NEW_ARRAY(a->arena, tc_int, 2 * p->n);
  p->length = p->start + p->n;
  tc_int at = tc_int_const(a, 0);
  for (int32_t i = 0; i < p->n; i++) {
    p->start[i] = at;
    p->length[i] = tc_op_sym_at(a, 1, i);
    if (tc_int_lt(a, p->length[i], tc_int_const(a, 0)) == 1)
      return tc_op_fail(a, "split_with_sizes expects split_sizes to have only non-negative entries");
    at = tc_int_add(a, at, p->length[i]);
  }
  if (tc_int_require_eq(a, at, size))
    return tc_op_fail(a, "split_with_sizes expects split_sizes to sum exactly to the size of dimension %lld: %s",
                      (long long)p->dim, tc_op_shape_text(a, 0));
  return TC_STATUS_OK;
}

// tensor_split: the first size % sections pieces are one longer; or cut at the given indices.
static int32_t by_sections(tc_op_args *a, tc_int size, pieces *p) {
  int64_t n = tc_op_int(a, 1, 0);
  if (n < 1 || n > 65536) return tc_op_fail(a, "the number of sections must be larger than 0, got %lld", (long long)n);
  p->n = (int32_t)n;
  p->start = TC_NEW_ARRAY(a->arena, tc_int, 2 * p->n);
  p->length = p->start + p->n;
  tc_int k = tc_int_const(a, n), each = tc_int_floordiv(a, size, k), more = tc_int_mod(a, size, k),
         at = tc_int_const(a, 0), one = tc_int_const(a, 1);
  for (int32_t i = 0; i < p->n; i++) {
    tc_int extra = tc_int_max(a, tc_int_min(a, tc_int_sub(a, more, tc_int_const(a, i)), one), tc_int_const(a, 0));
    p->start[i] = at;
    p->length[i] = tc_int_add(a, each, extra);
    at = tc_int_add(a, at, p->length[i]);
  }
  return TC_STATUS_OK;
}
static int32_t by_indices(tc_op_args *a, tc_int size, pieces *p) {
  p->n = tc_op_count(a, 1) + 1;
  p->start = TC_NEW_ARRAY(a->arena, tc_int, 2 * p->n);
  p->length = p->start + p->n;
  tc_int at = tc_int_const(a, 0);
  for (int32_t i = 0; i < p->n; i++) {
    tc_int end = i + 1 < p->n ? tc_op_sym_at(a, 1, i) : size;
    if (i + 1 < p->n) end = tc_int_wrap(a, end, size);
    end = tc_int_max(a, tc_int_min(a, end, size), tc_int_const(a, 0));
    p->start[i] = tc_int_min(a, at, size);
    p->length[i] = tc_int_max(a, tc_int_sub(a, end, at), tc_int_const(a, 0));
    at = end;
  }
  return TC_STATUS_OK;
}

static int32_t read_pieces(tc_op_args *a, pieces *p) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  tc_sv name = a->op->schema.name;
  if (t->rank == 0) return tc_op_fail(a, "a tensor of rank 0 cannot be split");
  p->dim = tc_op_dim(a, 2, t->rank);
  if (p->dim < 0) return TC_STATUS_INVALID_ARGUMENT;
  tc_int size = t->sizes[p->dim];
  if (tc_sv_ends(name, "chunk")) {
    int64_t n = tc_op_int(a, 1, 0);
    if (n < 1) return tc_op_fail(a, "chunk expects `chunks` to be greater than 0, got: %lld", (long long)n);
    tc_int each = tc_sym_ceildiv(a->syms, size, tc_int_const(a, n));
    if (!tc_sym_is_int(each, 0)) return even(a, size, each, p);
    p->n = (int32_t)(n > 65536 ? 65536 : n); // nothing to cut: that many empty pieces
    p->start = TC_NEW_ARRAY(a->arena, tc_int, 2 * p->n);
    p->length = p->start + p->n;
    for (int32_t i = 0; i < p->n; i++) p->start[i] = p->length[i] = tc_int_const(a, 0);
    return TC_STATUS_OK;
  }
  if (tc_sv_is(name, "tensor_split"))
    return tc_sv_is(a->op->schema.overload, "sections") ? by_sections(a, size, p) : by_indices(a, size, p);
  return a->op->schema.args[1].is_list ? by_sizes(a, size, p) : even(a, size, tc_op_sym(a, 1), p);
}

static int32_t split_meta(tc_op_args *a) {
  pieces p;
  if (read_pieces(a, &p) || tc_op_set_result_count(a, p.n)) return TC_STATUS_INVALID_ARGUMENT;
  for (int32_t i = 0; i < p.n; i++) {
    if (tc_view_range(a, i, p.dim, p.start[i], p.length[i])) return TC_STATUS_INVALID_ARGUMENT;
  }
  return TC_STATUS_OK;
}
static int32_t split_lower(tc_op_args *a) {
  pieces p;
  if (read_pieces(a, &p)) return TC_STATUS_INVALID_ARGUMENT;
  for (int32_t i = 0; i < p.n; i++) tc_lower_range(a, i, p.dim, p.start[i], tc_int_const(a, 1));
  return TC_STATUS_OK;
}

// Every result of the list op `of` on the same arguments, copied row-major.
static int32_t copies(tc_op_args *a, const char *of) {
  enum { MAX_RESULTS = 4096 };
  tc_gv *v = TC_NEW_ARRAY(a->arena, tc_gv, MAX_RESULTS);
  tc_ex_begin(a, of);
  for (int32_t i = 0; i < a->op->schema.n_args; i++) tc_ex_push_arg(a, i);
  tc_ex_make(a, MAX_RESULTS, v);
  if (v[MAX_RESULTS - 1] >= 0) return tc_op_fail(a, "more than %d results", MAX_RESULTS - 1);
  for (int32_t i = 0; i < MAX_RESULTS && v[i] >= 0; i++) {
    tc_ex_begin(a, "aten::_row_major");
    tc_ex_push(a, v[i]);
    tc_ex_result(a, i, tc_ex_make(a, 1, NULL));
  }
  return TC_STATUS_OK;
}
static int32_t split_copy_expand(tc_op_args *a) { return copies(a, "aten::split_with_sizes"); }
static int32_t split_tensor_copy_expand(tc_op_args *a) { return copies(a, "aten::split.Tensor"); }
static int32_t unbind_copy_expand(tc_op_args *a) { return copies(a, "aten::unbind.int"); }

enum { VIEW = TC_OP_VIEW | TC_OP_COMPLEX };
#define TEXT(s, d) {.schema = s, .traits = VIEW, .decompose = d}
#define COLUMNS "if(self.rank == 1, 0, 1)"
#define OF_RANK(name, least)                                                                       \
  "let x = if(self.rank < " least ", fail(\"torch." name " requires a tensor with at least " least \
  " dimensions\"), self); "
// Cut along a dimension into as many equal parts, or at the indices.
#define GRID(name, least, dim)                                                                                     \
  TEXT(name ".int(Tensor(a -> *) self, int sections) -> Tensor(a)[]",                                              \
       OF_RANK(name,                                                                                               \
               least) "if(sections < 1, fail(\"the number of sections must be larger than 0\"), if(x.size(" dim    \
                      ") % sections == 0, tensor_split(x, sections, " dim "), fail(\"torch." name                  \
                      " attempted to split along a dimension whose size is not divisible by the split_size\")))"), \
      TEXT(name ".array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]",                                       \
           OF_RANK(name, least) "tensor_split(x, indices, " dim ")")
#define ROW(s) {.schema = s, .traits = VIEW, .meta = split_meta, .lower = split_lower}
static const tc_op_def rows[] = {
    ROW("split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]"),
    ROW("split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]"),
    ROW("split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]"),
    ROW("chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]"),
    ROW("tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]"),
    ROW("tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]"),
    GRID("hsplit", "1", COLUMNS),
    GRID("vsplit", "2", "0"),
    GRID("dsplit", "3", "2"),
    ROW("unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]"),
    ROW("unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]"),
    ROW("unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]"),
    {.schema = "split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
     .traits = TC_OP_COMPLEX,
     .expand = split_copy_expand},
    {.schema = "split_copy.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
     .traits = TC_OP_COMPLEX,
     .expand = split_tensor_copy_expand},
    {.schema = "unbind_copy.int(Tensor self, int dim=0) -> Tensor[]",
     .traits = TC_OP_COMPLEX,
     .expand = unbind_copy_expand},
};
// Derivatives; see docs/ADDING_AN_OP.md for what the texts can name.
static const tc_op_derivative derivatives[] = {
    {"split.Tensor", "self: cat(grads, dim)"},
    {"split_with_sizes", "self: cat(grads, dim)"},
    {"chunk", "self: cat(grads, dim)"},
    {"unsafe_split.Tensor", "self: cat(grads, dim)"},
    {"unsafe_split_with_sizes", "self: cat(grads, dim)"},
};
TC_OP_FAMILY_WITH_DERIVATIVES(split);
