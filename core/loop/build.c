// The loop-building functions of tc/lower.h: views as index maps, loop nodes made by running their bodies.
//
// A body is straight-line SSA; while it is built, equal instructions are the same value (a small linear search is
// enough: bodies hold one op's work).
#include <string.h>

#include "core/loop/lo.h"

void tc_lo_fail(tc_lo *lo, const char *fmt, ...) {
  if (tc_failed(&lo->failure)) return;
  va_list args;
  va_start(args, fmt);
  tc_failure_keep(&lo->failure, lo->l->arena, tc_errorv(TC_STATUS_INVALID_ARGUMENT, fmt, args));
  va_end(args);
}

int32_t tc_lo_add_view(tc_lo *lo, const tc_lview *v) {
  tc_vec_push(lo->l->arena, &lo->views, v);
  return lo->views.count - 1;
}

static const tc_lview *view_of(tc_lo *lo, tc_lt t) {
  if (tc_failed(&lo->failure)) return NULL;
  if (t < 0 || t >= lo->views.count) {
    tc_lo_fail(lo, "no such loop tensor");
    return NULL;
  }
  return lo->views.data[t];
}

static tc_dtype lo_dtype(tc_op_args *a, tc_lt t) {
  const tc_lview *v = view_of(tc_lo_of(a), t);
  return v ? v->buf->dtype : TC_DTYPE_NONE;
}
static int32_t lo_rank(tc_op_args *a, tc_lt t) {
  const tc_lview *v = view_of(tc_lo_of(a), t);
  return v ? v->rank : 0;
}
static tc_int lo_size(tc_op_args *a, tc_lt t, int32_t dim) {
  tc_lo *lo = tc_lo_of(a);
  const tc_lview *v = view_of(lo, t);
  return v && dim >= 0 && dim < v->rank ? v->sizes[dim] : tc_sym_int(lo->l->syms, 0);
}
void lo_result(tc_op_args *a, int32_t result, tc_lt t) {
  tc_lo *lo = tc_lo_of(a);
  const tc_lview *v = view_of(lo, t);
  if (v && result >= 0 && result < lo->node->n_results) lo->results[result] = v;
}

// ---- views ----
static void lo_indices(tc_op_args *a, int32_t rank, const tc_int *sizes, tc_int *out) {
  tc_lo *lo = tc_lo_of(a);
  for (int32_t d = 0; d < rank; d++) out[d] = tc_loop_var(lo->l, "i", sizes[d]);
}

static tc_lt lo_view(tc_op_args *a, tc_lt src, int32_t rank, const tc_int *sizes, const tc_int *index,
                     const tc_int *map) {
  tc_lo *lo = tc_lo_of(a);
  const tc_lview *s = view_of(lo, src);
  if (!s) return -1;
  tc_arena *arena = lo->l->arena;
  tc_lview *v = TC_NEW(arena, tc_lview);
  const tc_sym **through = TC_NEW_ARRAY(arena, const tc_sym *, s->buf->rank);
  for (int32_t d = 0; d < s->buf->rank; d++)
    through[d] = tc_sym_replace(lo->l->syms, s->map[d], s->rank, s->index, map);
  *v = (tc_lview){.buf = s->buf, .rank = rank, .map = through};
  v->sizes = tc_arena_copy(arena, sizes, (size_t)rank * sizeof *sizes);
  v->index = tc_arena_copy(arena, index, (size_t)rank * sizeof *index);
  return tc_lo_add_view(lo, v);
}

tc_lt lo_expand(tc_op_args *a, tc_lt src, int32_t rank, const tc_int *sizes) {
  tc_lo *lo = tc_lo_of(a);
  const tc_lview *s = view_of(lo, src);
  if (!s) return -1;
  if (s->rank > rank || rank > TC_MAX_RANK) {
    tc_lo_fail(lo, "cannot expand rank %d to %d", s->rank, rank);
    return -1;
  }
  tc_sym_ctx *c = lo->l->syms;
  const tc_sym *index[TC_MAX_RANK], *map[TC_MAX_RANK], *one = tc_sym_int(c, 1);
  lo_indices(a, rank, sizes, index);
  int32_t lead = rank - s->rank;
  for (int32_t d = 0; d < s->rank; d++) {
    bool repeat = tc_sym_eq(c, s->sizes[d], one) && !tc_sym_eq(c, sizes[lead + d], one);
    map[d] = repeat ? tc_sym_int(c, 0) : index[lead + d];
  }
  return lo_view(a, src, rank, sizes, index, map);
}

// Dimension-wise where sizes line up, so that index expressions stay affine; div and mod only inside runs that do not.
static tc_lt lo_reshape(tc_op_args *a, tc_lt src, int32_t rank, const tc_int *sizes) {
  tc_lo *lo = tc_lo_of(a);
  const tc_lview *s = view_of(lo, src);
  if (!s) return -1;
  tc_sym_ctx *c = lo->l->syms;
  const tc_sym *index[TC_MAX_RANK], *map[TC_MAX_RANK];
  lo_indices(a, rank, sizes, index);
  int32_t i = 0, j = 0; // consumed dimensions of src and of the result
  while (i < s->rank || j < rank) {
    const tc_sym *from = tc_sym_int(c, 1), *to = tc_sym_int(c, 1);
    int32_t i0 = i, j0 = j;
    // The smallest run of dimensions on both sides with equal products.
    if (i < s->rank) from = s->sizes[i++];
    if (j < rank) to = sizes[j++];
    while (!tc_sym_eq(c, from, to)) {
      bool grow_from = i < s->rank, grow_to = j < rank;
      if (grow_from && grow_to) {
        int64_t f = tc_sym_hint_or(c, from, 1), t = tc_sym_hint_or(c, to, 1);
        grow_from = f < t;
        grow_to = !grow_from;
      }
      if (grow_from) from = tc_sym_mul(c, from, s->sizes[i++]);
      else if (grow_to) to = tc_sym_mul(c, to, sizes[j++]);
      else break; // sizes that cannot be proved equal: the whole rest is one run
    }
    if (i - i0 == 1 && j - j0 == 1) {
      map[i0] = index[j0];
      continue;
    }
    const tc_sym *flat = tc_sym_int(c, 0);
    for (int32_t d = j0; d < j; d++) flat = tc_sym_add(c, tc_sym_mul(c, flat, sizes[d]), index[d]);
    for (int32_t d = i - 1; d >= i0; d--) {
      const tc_sym *by = tc_sym_is_int(s->sizes[d], 0) ? tc_sym_int(c, 1) : s->sizes[d]; // nothing is read there
      map[d] = d == i0 ? flat : tc_sym_mod(c, flat, by);
      flat = tc_sym_floordiv(c, flat, by);
    }
  }
  return lo_view(a, src, rank, sizes, index, map);
}

// ---- nodes ----
static void begin(tc_lo *lo, int32_t kind, int32_t n_par, const tc_int *par, int32_t n_red, const tc_int *red,
                  tc_int *out) {
  tc_loops *l = lo->l;
  if (lo->open) tc_lo_fail(lo, "a loop node is already open");
  tc_lnode *n = TC_NEW(l->arena, tc_lnode);
  *n = (tc_lnode){.kind = kind,
                  .n_par = n_par,
                  .n_red = n_red,
                  .name = lo->node->name,
                  .source = lo->node->source,
                  .op = lo->node->op ? lo->node->op->schema.name : (tc_sv){0},
                  .node = lo->node};
  const tc_sym **vars = TC_NEW_ARRAY(l->arena, const tc_sym *, n_par + n_red);
  const tc_sym **extents = TC_NEW_ARRAY(l->arena, const tc_sym *, n_par + n_red);
  for (int32_t d = 0; d < n_par + n_red; d++) {
    extents[d] = d < n_par ? par[d] : red[d - n_par];
    vars[d] = out[d] = tc_loop_var(l, d < n_par ? "i" : "r", extents[d]);
  }
  n->vars = vars;
  n->extents = extents;
  n->outs = TC_NEW_ARRAY(l->arena, tc_buf *, lo->node->n_results > 2 ? lo->node->n_results : 2);
  lo->cur = n;
  lo->open = true;
}

void lo_begin(tc_op_args *a, int32_t rank, const tc_int *sizes, tc_int *out_index) {
  begin(tc_lo_of(a), TC_LN_POINTWISE, rank, sizes, 0, NULL, out_index);
}

static void lo_begin_reduce(tc_op_args *a, int32_t kind, int32_t n_par, const tc_int *par_sizes, int32_t n_red,
                            const tc_int *red_sizes, tc_int *out_index) {
  begin(tc_lo_of(a), TC_LN_REDUCE, n_par, par_sizes, n_red, red_sizes, out_index);
  tc_lo_of(a)->cur->reduce = kind;
}

static void keep(tc_op_args *a) {
  tc_lo *lo = tc_lo_of(a);
  if (lo->open) lo->cur->keep = true;
}

static int32_t in_place(tc_op_args *a) { return lo_in_place_of(tc_lo_of(a)) != NULL; }
static int32_t pairs(tc_op_args *a, tc_dtype dtype) { return tc_lo_of(a)->options->pairs >> dtype & 1; }

static void store_at(tc_op_args *a, const tc_int *index, const tc_bval *idx, int32_t wrap, tc_bval condition) {
  tc_lo *lo = tc_lo_of(a);
  const tc_buf *old = lo_in_place_of(lo);
  if (tc_failed(&lo->failure)) return;
  if (!lo->open || !old || lo->cur->kind != TC_LN_POINTWISE) {
    tc_lo_fail(lo, "nothing is written in place here");
    return;
  }
  lo->cur->store = tc_arena_copy(lo->l->arena, index, (size_t)old->rank * sizeof *index);
  if (idx) lo->cur->store_gather = tc_arena_copy(lo->l->arena, idx, (size_t)old->rank * sizeof *idx);
  lo->cur->store_wrap = wrap != 0;
  lo->cur->store_if = condition;
}

static bool inst_same(const tc_binst *x, const tc_binst *y) {
  if (x->op != y->op || x->dtype != y->dtype || x->n_args != y->n_args || x->imm != y->imm || x->buf != y->buf ||
      x->cond != y->cond || x->expr != y->expr || x->gather || y->gather || !tc_sv_eq(x->text, y->text))
    return false;
  if (memcmp(&x->re, &y->re, sizeof x->re) != 0 || memcmp(&x->im, &y->im, sizeof x->im) != 0) return false;
  if (memcmp(x->args, y->args, (size_t)x->n_args * sizeof *x->args) != 0) return false;
  for (int32_t d = 0; x->buf && d < x->buf->rank; d++) {
    if (x->index[d] != y->index[d]) return false;
  }
  return true;
}

static int32_t push(tc_lo *lo, const tc_binst *inst) {
  if (tc_failed(&lo->failure)) return -1;
  if (!lo->open) {
    tc_lo_fail(lo, "no loop node is open");
    return -1;
  }
  tc_binsts *v = &lo->cur->body.insts;
  for (int32_t i = 0; i < v->count; i++) {
    if (inst_same(&v->data[i], inst)) return i;
  }
  tc_vec_push(lo->l->arena, v, *inst);
  return v->count - 1;
}

tc_dtype tc_body_type(const tc_lo *lo, int32_t v) {
  return !tc_failed(&lo->failure) && v >= 0 ? lo->cur->body.insts.data[v].dtype : TC_DTYPE_NONE;
}

int32_t tc_body_const(tc_lo *lo, tc_dtype d, double re, double im, int64_t imm) {
  char cls = tc_dtype_class(d);
  bool real = cls == 'f' || cls == 'c';
  return push(
      lo,
      &(tc_binst){.op = TC_K_CONST, .dtype = d, .re = real ? re : 0, .im = cls == 'c' ? im : 0, .imm = real ? 0 : imm});
}

static const tc_sym *const *copy_index(tc_lo *lo, const tc_lview *v, const tc_int *index) {
  const tc_sym **out = TC_NEW_ARRAY(lo->l->arena, const tc_sym *, v->buf->rank);
  for (int32_t d = 0; d < v->buf->rank; d++) out[d] = tc_sym_replace(lo->l->syms, v->map[d], v->rank, v->index, index);
  return out;
}

tc_bval lo_load(tc_op_args *a, tc_lt t, const tc_int *index) {
  tc_lo *lo = tc_lo_of(a);
  const tc_lview *v = view_of(lo, t);
  if (!v) return -1;
  return push(lo,
              &(tc_binst){.op = TC_B_LOAD, .dtype = v->buf->dtype, .buf = v->buf, .index = copy_index(lo, v, index)});
}

static tc_bval lo_load_if(tc_op_args *a, tc_lt t, const tc_int *index, tc_int condition, tc_bval otherwise) {
  tc_lo *lo = tc_lo_of(a);
  const tc_lview *v = view_of(lo, t);
  if (!v) return -1;
  int32_t known = tc_sym_prove(lo->l->syms, condition);
  if (known == 1) return lo_load(a, t, index);
  if (known == 0) return tc_body_cast(lo, otherwise, v->buf->dtype);
  otherwise = tc_body_cast(lo, otherwise, v->buf->dtype);
  return push(lo, &(tc_binst){.op = TC_B_LOAD,
                              .dtype = v->buf->dtype,
                              .buf = v->buf,
                              .index = copy_index(lo, v, index),
                              .cond = condition,
                              .n_args = 1,
                              .args = {otherwise}});
}

// May the value be an index of the view? Its dimension must be one dimension of the buffer, unchanged.
static bool gatherable(const tc_lview *v, const tc_bval *idx) {
  for (int32_t d = 0; d < v->rank; d++) {
    if (idx[d] < 0) continue;
    int32_t uses = 0;
    for (int32_t b = 0; b < v->buf->rank; b++) {
      if (!tc_sym_uses(v->map[b], v->index[d])) continue;
      if (v->map[b] != v->index[d]) return false;
      uses++;
    }
    if (uses != 1) return false;
  }
  return true;
}

// The view's elements in a buffer of their own, made by a node before the open one.
static const tc_lview *copied(tc_op_args *a, tc_lt t, const tc_lview *v) {
  tc_lo *lo = tc_lo_of(a);
  tc_lnode *open = lo->cur;
  tc_int index[TC_MAX_RANK];
  if (!lo->open) return NULL;
  lo->open = false;
  lo_begin(a, v->rank, v->sizes, index);
  keep(a);
  tc_lt copy = lo_end(a, lo_load(a, t, index), v->buf->dtype);
  lo->cur = open;
  lo->open = true;
  return view_of(lo, copy);
}

static tc_bval lo_gather(tc_op_args *a, tc_lt t, const tc_int *index, const tc_bval *idx, int32_t wrap) {
  tc_lo *lo = tc_lo_of(a);
  const tc_lview *v = view_of(lo, t);
  if (v && !gatherable(v, idx)) v = copied(a, t, v);
  if (!v) return -1;
  const tc_sym *plain[TC_MAX_RANK];
  for (int32_t d = 0; d < v->rank; d++) plain[d] = idx[d] >= 0 ? tc_sym_int(lo->l->syms, 0) : index[d];
  int32_t *gather = TC_NEW_ARRAY(lo->l->arena, int32_t, v->buf->rank);
  for (int32_t b = 0; b < v->buf->rank; b++) {
    gather[b] = -1;
    for (int32_t d = 0; d < v->rank; d++) {
      if (idx[d] < 0 || !tc_sym_uses(v->map[b], v->index[d])) continue;
      gather[b] = tc_body_cast(lo, idx[d], TC_I64);
    }
  }
  return push(lo, &(tc_binst){.op = TC_B_LOAD,
                              .dtype = v->buf->dtype,
                              .buf = v->buf,
                              .index = copy_index(lo, v, plain),
                              .gather = gather,
                              .wrap = wrap != 0,
                              .source = lo->node->source});
}

static tc_bval require(tc_op_args *a, tc_bval condition, tc_bval value, const char *text) {
  tc_lo *lo = tc_lo_of(a);
  if (tc_failed(&lo->failure) || condition < 0 || value < 0) return -1;
  return push(lo, &(tc_binst){.op = TC_B_CHECK,
                              .dtype = tc_body_type(lo, value),
                              .n_args = 2,
                              .args = {condition, value},
                              .text = tc_sv_of(text),
                              .source = lo->node->source});
}

tc_bval lo_index(tc_op_args *a, tc_int e, tc_dtype dtype) {
  tc_lo *lo = tc_lo_of(a);
  if (tc_sym_is_const(e)) return tc_body_const(lo, dtype, (double)e->value, 0, e->value);
  int32_t v = push(lo, &(tc_binst){.op = TC_B_INDEX, .dtype = TC_I64, .expr = e});
  return tc_body_cast(lo, v, dtype);
}
static tc_bval lo_const(tc_op_args *a, tc_dtype dtype, double re, double im) {
  return tc_body_const(tc_lo_of(a), dtype, re, im, tc_float_to_int(TC_I64, re));
}
static tc_bval lo_const_int(tc_op_args *a, tc_dtype dtype, int64_t v) {
  return tc_body_const(tc_lo_of(a), dtype, (double)v, 0, v);
}

// Arithmetic on bools is PyTorch's logic: sums and maxima are 'or', products and minima 'and'.
static int32_t bool_opcode(int32_t op) {
  switch (op) {
  case TC_K_ADD:
  case TC_K_MAX:
  case TC_K_FMAX: return TC_K_OR;
  case TC_K_MUL:
  case TC_K_MIN:
  case TC_K_FMIN: return TC_K_AND;
  default: return op;
  }
}

int32_t tc_body_op(tc_lo *lo, int32_t op, int32_t n, const int32_t *args) {
  if (tc_failed(&lo->failure)) return -1;
  if (n == 3 && op == TC_K_FMA && tc_body_type(lo, args[0]) == TC_BOOL) {
    int32_t both[2] = {tc_body_op(lo, TC_K_AND, 2, args), args[2]};
    return tc_body_op(lo, TC_K_OR, 2, both);
  }
  if (n == 2 && tc_body_type(lo, args[0]) == TC_BOOL) op = bool_opcode(op);
  // Integers have no NaN to leave out.
  char cls = n == 2 ? tc_dtype_class(tc_body_type(lo, args[0])) : 'f';
  if (cls == 'i' || cls == 'u') op = op == TC_K_FMAX ? TC_K_MAX : op == TC_K_FMIN ? TC_K_MIN : op;
  if (op == TC_K_FMA && n == 3 && args[0] >= 0 && tc_body_type(lo, args[0]) == TC_BOOL) {
    int32_t sum[2] = {tc_body_op(lo, TC_K_MUL, 2, args), args[2]};
    return tc_body_op(lo, TC_K_ADD, 2, sum);
  }
  tc_binst inst = {.op = op, .n_args = n};
  for (int32_t i = 0; i < n; i++) {
    if (args[i] < 0) {
      tc_lo_fail(lo, "'%s' uses a value that does not exist", tc_k_op_text(op));
      return -1;
    }
    inst.args[i] = args[i];
  }
  tc_dtype types[3];
  for (int32_t i = 0; i < n; i++) types[i] = tc_body_type(lo, args[i]);
  inst.dtype = tc_body_op_type(op, n, types);
  if (inst.dtype == TC_DTYPE_NONE) {
    tc_lo_fail(lo, "operands of '%s' have the types %s and %s", tc_k_op_text(op),
               tc_dtype_name(types[n > 1 ? n - 2 : 0]), tc_dtype_name(types[n - 1]));
    return -1;
  }
  return push(lo, &inst);
}

int32_t tc_body_cast(tc_lo *lo, int32_t v, tc_dtype d) {
  if (tc_failed(&lo->failure) || v < 0 || tc_body_type(lo, v) == d) return v;
  const tc_binst *in = &lo->cur->body.insts.data[v];
  char from = tc_dtype_class(in->dtype), to = tc_dtype_class(d);
  bool wide = d == TC_F32 || d == TC_F64 || d == TC_C64 || d == TC_C128 || d == TC_I64;
  if (in->op == TC_K_CONST && wide && to != 'b') {
    bool real = from == 'f' || from == 'c';
    if (to == 'f' || to == 'c') {
      double re = real ? in->re : (double)in->imm;
      if (d == TC_F32 || d == TC_C64) re = (double)(float)re;
      return tc_body_const(lo, d, re, in->im, 0);
    }
    if (!real) return tc_body_const(lo, d, 0, 0, in->imm);
  }
  return push(lo, &(tc_binst){.op = TC_K_CAST, .dtype = d, .n_args = 1, .args = {v}});
}

int32_t tc_body_bits(tc_lo *lo, int32_t v) {
  static const tc_dtype by_size[] = {[2] = TC_I16, [4] = TC_I32, [8] = TC_I64};
  if (v < 0 || tc_dtype_class(tc_body_type(lo, v)) != 'f') {
    tc_lo_fail(lo, "bits_of takes a float");
    return -1;
  }
  tc_dtype d = by_size[tc_dtype_size(tc_body_type(lo, v))];
  return push(lo, &(tc_binst){.op = TC_K_BITCAST, .dtype = d, .n_args = 1, .args = {v}});
}

static tc_bval lo_op1(tc_op_args *a, int32_t op, tc_bval x) { return tc_body_op(tc_lo_of(a), op, 1, (int32_t[]){x}); }
static tc_bval lo_op2(tc_op_args *a, int32_t op, tc_bval x, tc_bval y) {
  return tc_body_op(tc_lo_of(a), op, 2, (int32_t[]){x, y});
}
static tc_bval lo_op3(tc_op_args *a, int32_t op, tc_bval x, tc_bval y, tc_bval z) {
  return tc_body_op(tc_lo_of(a), op, 3, (int32_t[]){x, y, z});
}
static tc_bval lo_cast(tc_op_args *a, tc_bval x, tc_dtype dtype) { return tc_body_cast(tc_lo_of(a), x, dtype); }

// The open node writes into the storage of the buffer that its argument is.
static tc_lt end_in_place(tc_lo *lo, tc_dtype dtype, tc_lt *out) {
  tc_loops *l = lo->l;
  tc_lnode *n = lo->cur;
  const tc_buf *old = lo_in_place_of(lo);
  lo->open = false;
  if (old->dtype != dtype) {
    tc_lo_fail(lo, "what is written in place has another dtype");
    return -1;
  }
  tc_buf *b = n->outs[0] = tc_loops_buf(l, n->name, dtype, old->rank, old->sizes);
  b->def = n;
  lo_take_storage(b, old);
  tc_vec_push(l->arena, &l->nodes, n);
  return *out = tc_lo_add_view(lo, tc_lview_whole(l, b));
}

static tc_lt end_node(tc_lo *lo, int32_t value, int32_t n_outs, const tc_dtype *dtypes, tc_lt *out) {
  for (int32_t i = 0; i < n_outs; i++) out[i] = -1;
  if (tc_failed(&lo->failure) || !lo->open || value < 0) {
    lo->open = false;
    return -1;
  }
  tc_loops *l = lo->l;
  tc_lnode *n = lo->cur;
  if (n->kind == TC_LN_POINTWISE) value = tc_body_cast(lo, value, dtypes[0]);
  if (n->kind == TC_LN_POINTWISE || n->kind == TC_LN_REDUCE) {
    n->body.results[0] = value;
    n->body.n_results = 1;
  }
  n->n_outs = n_outs;
  n->id = l->nodes.count;
  if (n->store) return end_in_place(lo, dtypes[0], out);
  for (int32_t i = 0; i < n_outs; i++) {
    tc_sv name = n_outs == 1 ? n->name : tc_sv_printf(l->arena, TC_SV_FMT ".%d", TC_SV_ARG(n->name), i);
    n->outs[i] = tc_loops_buf(l, name, dtypes[i], n->n_par, n->extents);
    n->outs[i]->def = n;
    n->outs[i]->def_result = i;
    out[i] = tc_lo_add_view(lo, tc_lview_whole(l, n->outs[i]));
  }
  tc_vec_push(l->arena, &l->nodes, n);
  lo->open = false;
  return out[0];
}

tc_lt lo_end(tc_op_args *a, tc_bval value, tc_dtype dtype) {
  tc_lt out;
  return end_node(tc_lo_of(a), value, 1, &dtype, &out);
}
static void lo_end2(tc_op_args *a, tc_bval value, tc_dtype dtype, tc_lt out[2]) {
  tc_lo *lo = tc_lo_of(a);
  bool arg = lo->open && (lo->cur->reduce == TC_RED_ARGMAX || lo->cur->reduce == TC_RED_ARGMIN);
  end_node(lo, value, 2, (tc_dtype[]){dtype, arg ? TC_I64 : dtype}, out);
}

// ---- templates and calls ----
static const tc_lview *copy_views(tc_lo *lo, int32_t n, const tc_lt *operands) {
  tc_lview *v = TC_NEW_ARRAY(lo->l->arena, tc_lview, n);
  for (int32_t i = 0; i < n; i++) {
    const tc_lview *s = view_of(lo, operands[i]);
    if (!s) return NULL;
    v[i] = *s;
  }
  return v;
}

static tc_lt lo_template(tc_op_args *a, const char *name, int32_t n, const tc_lt *operands, tc_dtype dtype,
                         int32_t rank, const tc_int *sizes, int32_t n_attrs, const tc_int *attrs) {
  tc_lo *lo = tc_lo_of(a);
  const tc_template_table *t = tc_template_find(lo->options->templates, tc_sv_of(name));
  if (!t) {
    tc_lo_fail(lo, "no template named '%s' is registered", name);
    return -1;
  }
  tc_int index[TC_MAX_RANK];
  begin(lo, TC_LN_TEMPLATE, rank, sizes, 0, NULL, index);
  tc_lnode *node = lo->cur;
  node->tmpl = t;
  node->n_operands = n;
  node->operands = copy_views(lo, n, operands);
  node->n_attrs = n_attrs;
  node->attrs = tc_arena_copy(lo->l->arena, attrs, (size_t)n_attrs * sizeof *attrs);
  tc_lt out;
  return end_node(lo, 0, 1, &dtype, &out);
}

// Where a buffer's strides are settled, quotients and remainders may add up to an affine address: of heads that are
// joined again, say.
static bool settled_strides(tc_lo *lo, const tc_lview *v) {
  const tc_buf *b = v->buf;
  bool settled = b->strides && (b->kind == TC_BUF_INPUT || (b->def && b->def->kind == TC_LN_CALL));
  const tc_sym *strides[TC_MAX_RANK], *offset;
  return settled && tc_lview_strides(lo->l, v, b->strides, strides, &offset);
}

// By the strides that the buffer has, or will have as far as is known.
static int32_t in_order(tc_op_args *a, tc_lt t) {
  tc_lo *lo = tc_lo_of(a);
  const tc_lview *v = view_of(lo, t);
  const tc_sym *strides[TC_MAX_RANK], *offset;
  if (!v || v->rank < 2 || !lo->options->lock_step) return 0;
  const tc_buf *b = v->buf;
  const tc_sym *const *own = b->strides  ? b->strides
                             : b->prefer ? b->prefer
                                         : tc_row_major(lo->l->module, b->rank, b->sizes);
  if (!tc_lview_strides(lo->l, v, own, strides, &offset)) return 1;
  return !tc_sym_is_int(strides[v->rank - 1], 1) && tc_sym_is_int(strides[v->rank - 2], 1) ? 2 : 1;
}

static int32_t along_last(tc_lo *lo, const tc_lview *v, const tc_sym *const *memory) {
  const tc_sym *strides[TC_MAX_RANK], *offset;
  if (!tc_lview_strides(lo->l, v, memory, strides, &offset)) return 0;
  return tc_sym_is_int(strides[v->rank - 1], 1) ? 1 : 2;
}

static int32_t lies(tc_op_args *a, tc_lt t) {
  tc_lo *lo = tc_lo_of(a);
  const tc_lview *v = view_of(lo, t);
  if (!v || v->rank < 1 || v->buf->kind != TC_BUF_INPUT || !v->buf->strides || !lo->l->graph) return 0;
  int32_t input = v->buf->input, kind = lo->l->graph->inputs.data[input].kind;
  if (kind == TC_IN_PARAMETER || kind == TC_IN_BUFFER || kind == TC_IN_CONSTANT) return 0;
  if (lo->l->fixed_from && input >= lo->l->fixed_from) return 0;
  return along_last(lo, v, v->buf->strides);
}

static int32_t made(tc_op_args *a, tc_lt t) {
  tc_lo *lo = tc_lo_of(a);
  const tc_lview *v = view_of(lo, t);
  const tc_buf *b = v ? v->buf : NULL;
  if (!b || v->rank < 1 || b->kind != TC_BUF_INTERNAL || !b->def || b->def->kind != TC_LN_TEMPLATE) return 0;
  const tc_sym *const *rows = tc_row_major(lo->l->module, b->rank, b->sizes);
  return along_last(lo, v, b->strides ? b->strides : b->prefer ? b->prefer : rows);
}

static int32_t keep_by_rows(tc_op_args *a, tc_lt t) {
  tc_lo *lo = tc_lo_of(a);
  const tc_lview *v = view_of(lo, t);
  const tc_buf *b = v ? v->buf : NULL;
  if (!b || b->kind != TC_BUF_INTERNAL || b->inplace || b->overwritten || !b->def || b->def->store ||
      b->def->kind == TC_LN_CALL || !tc_lview_is_whole(v))
    return 0;
  const tc_sym *const *rows = tc_row_major(lo->l->module, b->rank, b->sizes);
  const tc_sym *const *own = b->strides ? b->strides : b->prefer ? b->prefer : rows;
  for (int32_t d = 0; d < b->rank; d++)
    if (!tc_sym_eq(lo->l->syms, own[d], rows[d])) return 0;
  b->def->keep = true;
  return 1;
}

static int64_t on_chip(tc_op_args *a) { return tc_lo_of(a)->options->on_chip; }
static int32_t simd_bytes(tc_op_args *a) { return tc_lo_of(a)->options->simd_bytes; }

// A library wants strides: a view whose elements are not affine in its indices is copied first, so that it lies as the
// graph says, which the library was asked about; but a matrix by rows, which any takes.
static tc_lt strided(tc_op_args *a, tc_lt t, const tc_value *value) {
  tc_lo *lo = tc_lo_of(a);
  const tc_lview *v = view_of(lo, t);
  bool affine = true;
  if (v && settled_strides(lo, v)) return t;
  for (int32_t d = 0; v && d < v->buf->rank; d++) {
    const tc_sym *rest = v->map[d], *coeff;
    for (int32_t k = 0; affine && k < v->rank; k++)
      affine = tc_sym_linear(lo->l->syms, rest, v->index[k], &coeff, &rest);
  }
  if (!v || affine) return t;
  tc_int index[TC_MAX_RANK];
  lo_begin(a, v->rank, v->sizes, index);
  tc_bval x = lo_load(a, t, index);
  keep(a);
  tc_lt copy = lo_end(a, x, v->buf->dtype);
  const tc_lview *c = view_of(lo, copy);
  const tc_tensor_type *type = &value->type;
  if (c && type->rank > 2 && tc_strides_dense(lo->l->syms, type->rank, type->sizes, type->strides))
    ((tc_buf *)c->buf)->prefer = type->strides;
  return copy;
}

tc_status lo_affine(tc_lo *lo, tc_value *value, tc_lview *out) {
  tc_op_args a = {.state = lo};
  const tc_lview *v = lo_value(lo, value);
  if (v) v = view_of(lo, strided(&a, tc_lo_add_view(lo, v), value));
  if (!v) return tc_failure_take(&lo->failure);
  *out = *v;
  return TC_OK;
}

void lo_call_with(tc_lo *lo, int32_t n, const tc_lview *operands) {
  const tc_node *gn = lo->node;
  tc_arena *arena = lo->l->arena;
  int32_t n_outs = 0;
  const tc_value **results = TC_NEW_ARRAY(arena, const tc_value *, gn->n_results);
  int32_t *place = TC_NEW_ARRAY(arena, int32_t, gn->n_results);
  tc_dtype *dtypes = TC_NEW_ARRAY(arena, tc_dtype, gn->n_results);
  for (int32_t i = 0; i < gn->n_results; i++) {
    if (gn->results[i]->kind != TC_VALUE_TENSOR) continue;
    dtypes[n_outs] = gn->results[i]->type.dtype, place[n_outs] = i;
    results[n_outs++] = gn->results[i];
  }
  if (n_outs == 0 || tc_failed(&lo->failure)) return;
  const tc_tensor_type *t = &results[0]->type;
  tc_int index[TC_MAX_RANK];
  begin(lo, TC_LN_CALL, t->rank, t->sizes, 0, NULL, index);
  tc_lnode *node = lo->cur;
  node->n_operands = n, node->operands = operands;
  tc_lt *out = TC_NEW_ARRAY(arena, tc_lt, n_outs);
  end_node(lo, 0, n_outs, dtypes, out);
  for (int32_t i = 0; i < n_outs && !tc_failed(&lo->failure); i++) {
    const tc_tensor_type *r = &results[i]->type;
    node->outs[i]->rank = r->rank, node->outs[i]->sizes = r->sizes, node->outs[i]->strides = r->strides;
    lo->results[place[i]] = tc_lview_whole(lo->l, node->outs[i]);
  }
}

// Every tensor argument becomes an operand, every tensor result a buffer with the strides that meta gave it.
void lo_call(tc_op_args *a) {
  tc_lo *lo = tc_lo_of(a);
  const tc_node *gn = lo->node;
  TC_VEC(tc_lt) operands = {0};
  for (int32_t i = 0; i < gn->n_args; i++) {
    int32_t kind = tc_op_kind(a, i), n = tc_op_count(a, i);
    const tc_arg *g = &gn->args[i];
    if (kind == TC_AK_TENSOR) tc_vec_push(lo->l->arena, &operands, strided(a, lo_arg(a, i), g->value));
    for (int32_t k = 0; kind == TC_AK_TENSORS && k < n; k++)
      tc_vec_push(lo->l->arena, &operands, strided(a, lo_arg_at(a, i, k), g->values[k]));
  }
  const tc_lview *views = copy_views(lo, operands.count, operands.data);
  if (!tc_failed(&lo->failure)) lo_call_with(lo, operands.count, views);
}

static tc_bval text(tc_op_args *a, const char *body, int32_t n, const char *const *names, const tc_bval *values) {
  tc_lo *lo = tc_lo_of(a);
  tc_ex_program p;
  tc_status s = tc_ex_parse_program(lo->l->arena, TC_SV("scalar text"), tc_sv_of(body), &p);
  if (s != TC_OK) {
    tc_lo_fail(lo, "%s", tc_status_text(s));
    tc_status_free(s);
    return -1;
  }
  tc_scalar_name *bound = TC_NEW_ARRAY(lo->l->arena, tc_scalar_name, n);
  tc_dtype compute = n > 0 ? tc_body_type(lo, values[0]) : TC_F32;
  for (int32_t i = 0; i < n; i++) bound[i] = (tc_scalar_name){tc_sv_of(names[i]), values[i]};
  return tc_body_text(lo, p.results[0], compute, &p, bound, n);
}

const tc_lower_hooks tc_lo_hooks = {
    .arg = lo_arg,
    .arg_at = lo_arg_at,
    .dtype = lo_dtype,
    .rank = lo_rank,
    .size = lo_size,
    .result = lo_result,
    .indices = lo_indices,
    .view = lo_view,
    .expand = lo_expand,
    .reshape = lo_reshape,
    .begin = lo_begin,
    .begin_reduce = lo_begin_reduce,
    .load = lo_load,
    .gather = lo_gather,
    .load_if = lo_load_if,
    .index = lo_index,
    .constant = lo_const,
    .constant_int = lo_const_int,
    .op1 = lo_op1,
    .op2 = lo_op2,
    .op3 = lo_op3,
    .cast = lo_cast,
    .text = text,
    .keep = keep,
    .random = lo_random,
    .end = lo_end,
    .end2 = lo_end2,
    .make_template = lo_template,
    .call = lo_call,
    .in_place = in_place,
    .pairs = pairs,
    .in_order = in_order,
    .lies = lies,
    .made = made,
    .keep_by_rows = keep_by_rows,
    .on_chip = on_chip,
    .simd_bytes = simd_bytes,
    .store_at = store_at,
    .require = require,
};
