// Loop IR: construction, types of body values, costs.
#include "core/loop/lo.h"
#include "core/loop/loop.h"

tc_buf *tc_loops_buf(tc_loops *l, tc_sv name, tc_dtype dtype, int32_t rank, const tc_sym *const *sizes) {
  tc_buf *b = TC_NEW(l->arena, tc_buf);
  *b = (tc_buf){.id = l->bufs.count,
                .kind = TC_BUF_INTERNAL,
                .name = name,
                .dtype = dtype,
                .rank = rank,
                .input = -1,
                .output = -1};
  b->sizes = tc_arena_copy(l->arena, sizes, (size_t)rank * sizeof *sizes);
  b->offset = tc_sym_int(l->syms, 0);
  tc_vec_push(l->arena, &l->bufs, b);
  return b;
}

const tc_buf *tc_buf_storage(const tc_buf *b) {
  while (b->inplace) b = b->inplace;
  return b;
}

bool tc_buf_is_inlined(const tc_buf *b) { return b->def && b->def->kind == TC_LN_POINTWISE && !b->strides; }

void tc_loop_var_range(tc_loops *l, const tc_sym *var, const tc_sym *extent) {
  tc_sym_info *info = tc_sym_info_of(l->syms, var);
  int64_t lo, hi;
  tc_sym_range(l->syms, extent, &lo, &hi);
  info->lo = 0;
  info->hi = hi == TC_SYM_INF ? TC_SYM_INF : hi > 0 ? hi - 1 : 0;
  info->hi_expr = tc_sym_addi(l->syms, extent, -1);
}

const tc_sym *tc_loop_var(tc_loops *l, const char *prefix, const tc_sym *extent) {
  const tc_sym *v = tc_sym_fresh(l->syms, prefix, TC_SYM_LOOP);
  tc_loop_var_range(l, v, extent);
  return v;
}

const char *tc_reduce_text(int32_t kind) {
  static const char *const texts[TC_RED_COUNT] = {"sum", "prod",   "max",    "min",    "any",
                                                  "all", "argmax", "argmin", "welford"};
  return kind >= 0 && kind < TC_RED_COUNT ? texts[kind] : NULL;
}

tc_dtype tc_body_op_type(int32_t op, int32_t n, const tc_dtype *args) {
  int32_t first = op == TC_K_SELECT && n == 3 ? 1 : 0;
  if (n <= first) return TC_DTYPE_NONE;
  tc_dtype d = args[first];
  for (int32_t i = first; i < n; i++) {
    if (args[i] != d) return TC_DTYPE_NONE;
  }
  switch (op) {
  case TC_K_COMPLEX: return tc_dtype_complex(d);
  case TC_K_REAL:
  case TC_K_IMAG:
  case TC_K_ABS2:
  case TC_K_ANGLE:
  case TC_K_ABS: return tc_dtype_real(d);
  default: return tc_k_op_class(op) == 'c' ? TC_BOOL : d;
  }
}

const tc_lview *tc_lview_whole(tc_loops *l, const tc_buf *b) {
  tc_lview *v = TC_NEW(l->arena, tc_lview);
  const tc_sym **index = TC_NEW_ARRAY(l->arena, const tc_sym *, b->rank);
  for (int32_t d = 0; d < b->rank; d++) index[d] = tc_loop_var(l, "i", b->sizes[d]);
  *v = (tc_lview){.buf = b, .rank = b->rank, .sizes = b->sizes, .index = index, .map = index};
  return v;
}

int32_t tc_k_op_cost(int32_t op, tc_dtype dtype) {
  int32_t scale = tc_dtype_is_complex(dtype) ? 3 : 1;
  switch (op) {
  case TC_K_CONST:
  case TC_B_LOAD:
  case TC_B_INDEX:
  case TC_B_CHECK:
  case TC_K_REAL:
  case TC_K_IMAG:
  case TC_K_COMPLEX:
  case TC_K_CONJ: return 0;
  case TC_K_DIV:
  case TC_K_SQRT:
  case TC_K_RSQRT:
  case TC_K_REM: return 6 * scale;
  case TC_K_POW:
  case TC_K_LGAMMA: return 60 * scale;
  case TC_K_EXP:
  case TC_K_EXP2:
  case TC_K_SIGMOID:
  case TC_K_LOG:
  case TC_K_LOG2: return 15 * scale;
  default: return (tc_k_op_class(op) == 'm' ? 25 : 1) * scale;
  }
}

int32_t tc_body_cost(const tc_body *b) {
  int32_t cost = 0;
  for (int32_t i = 0; i < b->insts.count; i++) cost += tc_k_op_cost(b->insts.data[i].op, b->insts.data[i].dtype);
  return cost;
}

void tc_template_register(tc_arena *arena, tc_template_registry *r, const tc_template_table *t) {
  for (int32_t i = 0; i < r->tables.count; i++) {
    if (tc_sv_eq(r->tables.data[i]->name, t->name)) {
      r->tables.data[i] = t;
      return;
    }
  }
  tc_vec_push(arena, &r->tables, t);
}

const tc_template_table *tc_template_find(const tc_template_registry *r, tc_sv name) {
  for (int32_t i = 0; r && i < r->tables.count; i++) {
    if (tc_sv_eq(r->tables.data[i]->name, name)) return r->tables.data[i];
  }
  return NULL;
}
