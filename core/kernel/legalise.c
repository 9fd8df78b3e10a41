// Legalisation: what plugins see has no complex types, no mathematical functions and no arithmetic on 16-bit floats.
//
// One copy through the folding builder. A complex value becomes two real ones (tc_kir_copy.map2 holds imaginary parts);
// a complex memory object becomes one of the real type and twice the length, so that an access of width w at index i is
// one of width 2w at 2i. Forms of functions are known and made shorter: erf in sums, and what sigmoids.h has.
// Operations on 16-bit floats are done in f32 and rounded by a cast, each of them.
#include "core/kernel/legalise.h"

#include "core/kernel/builder.h"
#include "core/kernel/linear.h"
#include "core/kernel/sigmoids.h"

typedef struct legalising {
  int32_t simd_bytes; // 0: threads
  // By value, made at the first visit:
  const bool *in_sums; // erf of f32 that is only added to numbers of at least 1
  const int32_t *uses;
} legalising;

static bool is_half(tc_dtype d) { return d == TC_F16 || d == TC_BF16; }

tc_kval tc_kir_plain(tc_kb *b, int32_t op, int32_t n, const tc_kval *args) {
  tc_kval wide[3];
  tc_dtype type = tc_kb_type(b, args[n - 1]);
  if (op == TC_K_SELECT || !is_half(type))
    return tc_k_op_class(op) == 'm' ? tc_km_lower(b, op, n, args) : tc_kb_op(b, op, n, args);
  for (int32_t i = 0; i < n; i++) wide[i] = tc_kb_cast(b, TC_F32, args[i]);
  tc_kval r = tc_kir_plain(b, op, n, wide);
  return tc_k_op_class(op) == 'c' ? r : tc_kb_cast(b, type, r);
}

static bool is_complex(const tc_kir_copy *c, tc_kval v) { return tc_dtype_is_complex(c->from->values[v].dtype); }
static void set(tc_kir_copy *c, tc_kval v, tc_kval re, tc_kval im) { c->map[v] = re, c->map2[v] = im; }

// ---- Operations ----

// An operation with a complex operand.
static void complex_op(tc_kir_copy *c, const tc_kinst *in) {
  tc_kb *b = c->to;
  tc_kcx args[3];
  tc_dtype part = tc_dtype_real(c->from->values[in->args[in->n_args - 1]].dtype);
  for (int32_t i = 0; i < in->n_args; i++) {
    args[i] = (tc_kcx){c->map[in->args[i]], c->map2[in->args[i]]};
    if (is_half(part)) args[i] = (tc_kcx){tc_kb_cast(b, TC_F32, args[i].re), tc_kb_cast(b, TC_F32, args[i].im)};
  }
  tc_kcx r = tc_kir_complex(b, in->op, in->n_args, args);
  bool round = is_half(part) && tc_k_op_class(in->op) != 'c';
  if (round) r.re = tc_kb_cast(b, part, r.re);
  if (round && r.im >= 0) r.im = tc_kb_cast(b, part, r.im);
  set(c, in->results[0], r.re, r.im);
}

static void complex_cast(tc_kir_copy *c, const tc_kinst *in) {
  tc_kb *b = c->to;
  tc_kval x = in->args[0], r = in->results[0];
  tc_dtype to = c->from->values[r].dtype, part = tc_dtype_real(to);
  tc_kval re = c->map[x], im = c->map2[x];
  if (to == TC_BOOL) { // x != 0
    set(c, r, tc_kb_op2(b, TC_K_OR, tc_kb_cast(b, TC_BOOL, re), tc_kb_cast(b, TC_BOOL, im)), -1);
    return;
  }
  if (!tc_dtype_is_complex(to)) set(c, r, tc_kb_cast(b, to, re), -1);
  else set(c, r, tc_kb_cast(b, part, re), im >= 0 ? tc_kb_cast(b, part, im) : tc_kb_real(b, part, 0));
}

static void angle_of_real(tc_kir_copy *c, const tc_kinst *in) { // 0, π for negative numbers, NaN
  tc_kb *b = c->to;
  tc_kval x = c->map[in->args[0]];
  tc_dtype type = tc_kb_type(b, x), wide = is_half(type) ? TC_F32 : type;
  x = tc_kb_cast(b, wide, x);
  tc_kval zero = tc_kb_real(b, wide, 0), pi = tc_kb_real(b, wide, 0x1.921fb54442d18p+1);
  tc_kval r = tc_kb_op3(b, TC_K_SELECT, tc_kb_op2(b, TC_K_LT, x, zero), pi, zero);
  r = tc_kb_op3(b, TC_K_SELECT, tc_kb_op2(b, TC_K_NE, x, x), x, r);
  set(c, in->results[0], tc_kb_cast(b, type, r), -1);
}

static void pure_op(tc_kir_copy *c, const tc_kinst *in) {
  tc_kb *b = c->to;
  tc_kval args[3], r = in->results[0], known;
  bool any_complex = in->n_args && is_complex(c, in->args[in->n_args - 1]);
  for (int32_t i = 0; i < in->n_args; i++) args[i] = c->map[in->args[i]];
  if (in->op == TC_K_COMPLEX) set(c, r, args[0], args[1]);
  else if (in->op == TC_K_SELECT && any_complex)
    set(c, r, tc_kb_op3(b, TC_K_SELECT, args[0], args[1], args[2]),
        tc_kb_op3(b, TC_K_SELECT, args[0], c->map2[in->args[1]], c->map2[in->args[2]]));
  else if (in->op == TC_K_REAL) set(c, r, args[0], -1);
  else if (in->op == TC_K_IMAG)
    set(c, r, any_complex ? c->map2[in->args[0]] : tc_kb_real(b, tc_kb_type(b, args[0]), 0), -1);
  else if (in->op == TC_K_CONJ && !any_complex) set(c, r, args[0], -1);
  else if (any_complex) complex_op(c, in);
  else if (((const legalising *)c->self)->in_sums[r]) set(c, r, tc_km_erf_in_sum(b, args[0]), -1);
  else if ((known = tc_kir_sigmoids(c, ((const legalising *)c->self)->uses, in)) >= 0) set(c, r, known, -1);
  else if (in->op == TC_K_ANGLE) angle_of_real(c, in);
  else if (in->op == TC_K_ABS2) set(c, r, tc_kir_plain(b, TC_K_MUL, 2, (tc_kval[]){args[0], args[0]}), -1);
  else {
    tc_kb_set_flags(b, in->flags);
    set(c, r, tc_kir_plain(b, in->op, in->n_args, args), -1);
    tc_kb_set_flags(b, 0);
  }
}

// ---- Memory, collectives ----

// On-chip memory holds all real parts, then all imaginary ones, so that neighbouring lanes meet neighbouring numbers;
// elsewhere they alternate, as in PyTorch.
static void complex_access(tc_kir_copy *c, const tc_kinst *in) {
  tc_kb *b = c->to;
  tc_kval index = c->map[in->args[0]], values[64], other[64];
  tc_kmem m = c->mems[in->mem];
  int32_t w = in->width;
  if (w > 32) {
    tc_kb_fail(b, "%s of %d complex elements is too wide", tc_k_op_text(in->op), (int)w);
    return;
  }
  const tc_kmem_info *from = &c->from->mems[in->mem];
  bool planar = from->space == TC_SPACE_SHARED;
  int32_t element = planar ? 1 : 2, part = planar ? w : 1, accesses = planar ? 2 : 1, width = planar ? w : 2 * w;
  tc_kval mask = in->has_mask ? c->map[in->args[in->op == TC_K_LOAD ? 1 : 1 + w]] : -1;
  int32_t first = in->op == TC_K_LOAD ? 2 : 1;
  for (int32_t i = 0; i < w && first + i < in->n_args; i++) {
    other[element * i] = c->map[in->args[first + i]];
    other[element * i + part] = c->map2[in->args[first + i]];
  }
  tc_dtype type = tc_kb_type(b, index);
  if (!planar) index = tc_kb_op2(b, TC_K_MUL, index, tc_kb_int(b, type, 2));
  tc_kval imaginary = tc_kb_op2(b, TC_K_ADD, index, tc_kb_int(b, type, planar ? from->count : 1));
  for (int32_t a = 0; a < accesses; a++) {
    tc_kval at = a ? imaginary : index;
    tc_kval *o = other + a * part;
    if (in->op == TC_K_LOAD) tc_kb_load(b, m, at, width, mask, in->has_mask ? o : NULL, values + a * part);
    else if (in->op == TC_K_STORE) tc_kb_store(b, m, at, width, o, mask);
    else if (in->op == TC_K_PREFETCH) tc_kb_prefetch_from(b, m, at, in->flags);
  }
  if (in->op == TC_K_ATOMIC_ADD) { // by parts: each is atomic, as everywhere
    tc_kb_atomic_add(b, m, index, other[0], mask);
    tc_kb_atomic_add(b, m, imaginary, other[part], mask);
  }
  for (int32_t i = 0; i < w && in->op == TC_K_LOAD; i++)
    set(c, in->results[i], values[element * i], values[element * i + part]);
}

// Collectives of 16-bit floats work in f32: so the lanes region yields f32.
static tc_kval widened(tc_kb *b, tc_kval v) { return is_half(tc_kb_type(b, v)) ? tc_kb_cast(b, TC_F32, v) : v; }

static tc_status lanes_region(tc_kir_copy *c, const tc_kinst *in) {
  tc_kb *b = c->to;
  const tc_kir_region *g = &c->from->regions[in->regions[0]];
  const tc_kinst *y = &c->from->insts[g->insts.data[g->insts.count - 1]];
  tc_kval *yields = TC_NEW_ARRAY(tc_kb_arena(b), tc_kval, 4 * (int64_t)y->n_args + 1),
          *results = yields + 2 * y->n_args;
  int32_t n = 0;
  tc_kb_lanes(b);
  TC_TRY(tc_kir_copy_region(c, in->regions[0]));
  for (int32_t i = 0; i < y->n_args; i++) {
    yields[n++] = widened(b, c->map[y->args[i]]);
    if (c->map2[y->args[i]] >= 0) yields[n++] = widened(b, c->map2[y->args[i]]);
  }
  tc_kb_end_lanes(b, n, yields, results);
  n = 0;
  for (int32_t i = 0; i < y->n_args; i++) {
    tc_kval re = results[n++], im = c->map2[y->args[i]] >= 0 ? results[n++] : -1;
    set(c, in->results[i], re, im);
    tc_kir_keep_name(c, in->results[i], re);
  }
  return TC_OK;
}

static tc_kval part_collective(tc_kir_copy *c, const tc_kinst *in, tc_kval v) {
  tc_dtype part = tc_dtype_real(c->from->values[in->results[0]].dtype);
  return v < 0 ? -1 : tc_kb_cast(c->to, part, tc_kb_collective(c->to, in->op, v, in->imm));
}

// Complex products have no collective by parts: the lanes' values are multiplied one after the other.
static void complex_product(tc_kir_copy *c, const tc_kinst *in) {
  tc_kb *b = c->to;
  tc_dtype part = tc_dtype_real(c->from->values[in->results[0]].dtype);
  tc_kcx args[2] = {{-1, -1}, {-1, -1}};
  for (int32_t lane = 0; lane < tc_kb_lanes_count(b); lane++) {
    args[1].re = tc_kb_collective(b, TC_K_BROADCAST, c->map[in->args[0]], lane);
    args[1].im = tc_kb_collective(b, TC_K_BROADCAST, c->map2[in->args[0]], lane);
    args[0] = lane ? tc_kir_complex(b, TC_K_MUL, 2, args) : args[1];
  }
  set(c, in->results[0], tc_kb_cast(b, part, args[0].re), tc_kb_cast(b, part, args[0].im));
}

static void collective(tc_kir_copy *c, const tc_kinst *in) {
  tc_kval v = in->args[0];
  if (in->op == TC_K_REDUCE_MUL && c->map2[v] >= 0) {
    complex_product(c, in);
    return;
  }
  set(c, in->results[0], part_collective(c, in, c->map[v]), part_collective(c, in, c->map2[v]));
}

// ---- erf in sums ----
static bool is_large_constant(const tc_kernel *k, tc_kval v) {
  const tc_kinst *c = tc_kir_made_by_op(k, v, TC_K_CONST);
  return c && (c->fimm >= 1 || c->fimm <= -1);
}

// 1 + erf(x), as in gelu, has the absolute error of erf: the places of a small result are lost in the sum.
static const bool *find_in_sums(tc_arena *arena, const tc_kernel *k) {
  bool *found = TC_NEW_ARRAY(arena, bool, (int64_t)k->n_values + 1), any = false;
  for (int32_t i = 0; i < k->n_insts; i++) {
    const tc_kinst *in = &k->insts[i];
    if (in->op != TC_K_ERF || k->values[in->results[0]].dtype != TC_F32) continue;
    found[in->results[0]] = any = true;
  }
  for (int32_t i = 0; any && i < k->n_insts; i++) {
    const tc_kinst *in = &k->insts[i];
    for (int32_t a = 0; a < in->n_args; a++) {
      if (!found[in->args[a]]) continue;
      bool sum = (in->op == TC_K_ADD || in->op == TC_K_SUB) && is_large_constant(k, in->args[1 - a]);
      found[in->args[a]] = sum;
    }
  }
  return found;
}

// Atomic additions need no lowering: devices declare the types that they have.
static tc_status visit(tc_kir_copy *c, int32_t inst) {
  const tc_kinst *in = &c->from->insts[inst];
  char cls = (char)tc_k_op_class(in->op);
  legalising *self = c->self;
  c->to->threads = self->simd_bytes == 0;
  c->to->tables = self->simd_bytes >= 64;
  if (!self->in_sums) {
    self->in_sums = find_in_sums(tc_kb_arena(c->to), c->from);
    self->uses = tc_kir_uses(tc_kb_arena(c->to), c->from);
  }
  if (in->op == TC_K_LANES) return lanes_region(c, in);
  if (in->mem >= 0 && tc_dtype_is_complex(c->from->mems[in->mem].dtype)) complex_access(c, in);
  else if (in->op == TC_K_CAST && (is_complex(c, in->args[0]) || is_complex(c, in->results[0]))) complex_cast(c, in);
  else if (in->op >= TC_K_REDUCE_ADD && in->op <= TC_K_BROADCAST) collective(c, in);
  else if (in->n_args && in->op != TC_K_CAST && in->op != TC_K_BITCAST &&
           (cls == 'a' || cls == 'c' || cls == 'm' || cls == 't'))
    pure_op(c, in);
  else return tc_kir_copy_inst(c, inst);
  if (in->n_results == 1) tc_kir_keep_name(c, in->results[0], c->map[in->results[0]]);
  return TC_OK;
}

tc_status tc_kernel_legalise(tc_arena *arena, const tc_kernel *k, int32_t simd_bytes, tc_kernel **out) {
  *out = NULL;
  TC_TRY(tc_kernel_verify(k), "while legalising kernel @" TC_SV_FMT, TC_SV_ARG(k->name));
  tc_kernel *plain;
  legalising self = {simd_bytes, NULL, NULL};
  TC_TRY(tc_kir_copy_kernel(arena, k, visit, &self, true, &plain));
  TC_TRY(tc_kernel_simplify(arena, plain, out)); // lowering leaves parts that nobody uses
  TC_TRY(tc_kernel_verify_plain(*out), "after legalising kernel @" TC_SV_FMT, TC_SV_ARG(k->name));
  return TC_OK;
}
