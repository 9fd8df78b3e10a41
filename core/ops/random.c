// Random numbers: Philox 4×32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; 2011).
//
// The key is the run's seed; the counter holds the number of the element in row-major order and the stream of the node,
// which is its place among the random nodes of the program and is kept by every pass. So a node gives the same numbers
// whatever else is removed, fused or computed again. One block of four words belongs to each element. Kernels compute
// the same numbers (tc_lo_random), continuous ones in f64 and rounded once.
#include <math.h>

#include "core/ir/opargs.h"
#include "core/ir/refexec.h"
#include "core/ops/ops.h"

#include "tc/lower.h"

typedef struct block {
  uint32_t w[4];
} block;

static block philox(uint64_t seed, uint64_t stream, uint64_t index) {
  uint32_t c[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)},
           k[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  for (int round = 0; round < 10; round++) {
    uint64_t p = UINT64_C(0xD2511F53) * c[0], q = UINT64_C(0xCD9E8D57) * c[2];
    uint32_t next[4] = {(uint32_t)(q >> 32) ^ c[1] ^ k[0], (uint32_t)q, (uint32_t)(p >> 32) ^ c[3] ^ k[1], (uint32_t)p};
    for (int i = 0; i < 4; i++) c[i] = next[i];
    k[0] += UINT32_C(0x9E3779B9), k[1] += UINT32_C(0xBB67AE85);
  }
  return (block){{c[0], c[1], c[2], c[3]}};
}

typedef struct source {
  uint64_t seed, stream;
} source;
static source source_of(tc_op_args *a) {
  source s;
  tc_ref_seed(a, &s.seed, &s.stream);
  return s;
}
static uint64_t bits_of(const block *b, int pair) { return (uint64_t)b->w[2 * pair] << 32 | b->w[2 * pair + 1]; }
// In [0, 1) with as many bits as the dtype keeps; in (0, 1] with 53 bits.
static double uniform_of(const block *b, tc_dtype d) {
  int bits = d == TC_F64 || d == TC_C128 ? 53 : d == TC_BF16 ? 8 : d == TC_F16 ? 11 : 24;
  return ldexp((double)(bits_of(b, 0) >> (64 - bits)), -bits);
}
static double open_uniform(const block *b, int pair) { return ((double)(bits_of(b, pair) >> 11) + 1) * 0x1p-53; }
// Two independent normal numbers (Box, Muller 1958).
static tc_c128 normal_of(const block *b) {
  double r = sqrt(-2 * log(open_uniform(b, 0))), t = 2 * M_PI * open_uniform(b, 1);
  return (tc_c128){r * cos(t), r * sin(t)};
}
static int64_t below(const block *b, uint64_t range) { // floor(u·range / 2^64)
  uint64_t u = bits_of(b, 0), lo = (u & 0xffffffff) * (range & 0xffffffff),
           mid = (u >> 32) * (range & 0xffffffff) + (lo >> 32),
           low = (u & 0xffffffff) * (range >> 32) + (mid & 0xffffffff);
  return (int64_t)((u >> 32) * (range >> 32) + (mid >> 32) + (low >> 32));
}

enum { UNIFORM, NORMAL, INTEGER, EXPONENTIAL, GEOMETRIC, LOG_NORMAL, CAUCHY, BERNOULLI };
static int32_t kind_of(tc_op_args *a) {
  static const struct {
    const char *name; // how the op's name begins; the first that fits
    int32_t kind;
  } kinds[] = {{"randn", NORMAL},    {"randint", INTEGER},         {"random", INTEGER},      {"rand", UNIFORM},
               {"uniform", UNIFORM}, {"normal", NORMAL},           {"geometric", GEOMETRIC}, {"log_normal", LOG_NORMAL},
               {"cauchy", CAUCHY},   {"exponential", EXPONENTIAL}, {"bernoulli", BERNOULLI}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (tc_sv_starts(a->op->schema.name, kinds[i].name)) return kinds[i].kind;
  return UNIFORM;
}
// A parameter by name: a number, or a tensor that is read at the element.
static double parameter(tc_op_args *a, const char *name, double otherwise, int32_t rank, const int64_t *index) {
  int32_t arg = tc_op_arg_index(a, name);
  const tc_ref_view *v = arg >= 0 && tc_op_kind(a, arg) == TC_AK_TENSOR ? tc_op_data(a, arg) : NULL;
  if (arg < 0) return otherwise;
  if (!v) return tc_op_float(a, arg, otherwise);
  int64_t at = 0;
  for (int32_t d = 0; d < v->rank; d++) at += v->sizes[d] == 1 ? 0 : index[d + rank - v->rank] * v->strides[d];
  return tc_ref_f(v, at);
}

static int32_t fill_meta(tc_op_args *a) {
  int32_t dtype = tc_op_arg_index(a, "dtype"), size = tc_op_arg_index(a, "size"),
          format = tc_op_arg_index(a, "memory_format"), self = tc_op_arg_index(a, "self");
  if (size >= 0) {
    tc_int sizes[TC_MAX_RANK];
    int32_t n = tc_op_count(a, size);
    if (n > TC_MAX_RANK) return tc_op_fail(a, "rank %d; the largest is %d", n, TC_MAX_RANK);
    for (int32_t i = 0; i < n; i++) sizes[i] = tc_op_sym_at(a, size, i);
    return tc_op_set_result(a, 0, dtype >= 0 ? tc_op_dtype(a, dtype, TC_F32) : TC_F32, n, sizes, NULL);
  }
  if (self < 0) { // normal: its parameters give the shape
    bool first = tc_op_kind(a, 0) == TC_AK_TENSOR, second = tc_op_kind(a, 1) == TC_AK_TENSOR;
    if (!first && !second) return tc_op_fail(a, "mean or std must be a tensor");
    const int32_t args[] = {first ? 0 : 1, 1};
    int32_t rank;
    const tc_int *sizes = tc_op_broadcast(a, first + second, args, &rank);
    if (!sizes) return TC_STATUS_INVALID_ARGUMENT;
    return tc_op_set_result(a, 0, tc_op_tensor(a, args[0])->dtype, rank, sizes, NULL);
  }
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  if (tc_sv_is(a->op->schema.name, "bernoulli")) return tc_meta_row_major(a);
  return tc_op_format_result(a, 0, dtype >= 0 ? tc_op_dtype(a, dtype, t->dtype) : t->dtype, t->rank, t->sizes,
                             format >= 0 ? tc_op_memory_format(a, format, TC_FORMAT_PRESERVE) : TC_FORMAT_PRESERVE, 0);
}

static uint64_t limit_of(tc_dtype d) { // of random_ without an end: what the dtype counts exactly
  int32_t bits = tc_dtype_size(d) * 8 - (tc_dtype_class(d) == 'i');
  switch (d) {
  case TC_F64: return UINT64_C(1) << 53;
  case TC_F32: return UINT64_C(1) << 24;
  case TC_F16: return UINT64_C(1) << 11;
  case TC_BF16: return UINT64_C(1) << 8;
  case TC_BOOL: return 2;
  default: return bits < 64 ? UINT64_C(1) << bits : UINT64_MAX;
  }
}
static int32_t fill_ref(tc_op_args *a) {
  const tc_ref_view *y = tc_op_result_data(a, 0);
  source s = source_of(a);
  int32_t kind = kind_of(a);
  int64_t i[TC_MAX_RANK] = {0}, n = tc_ref_numel(y), k = 0;
  for (bool more = n > 0; more; more = tc_ref_next(y->rank, y->sizes, i), k++) {
    block b = philox(s.seed, s.stream, (uint64_t)k);
    int64_t to = tc_ref_offset(y, i);
    double mean = parameter(a, "mean", 0, y->rank, i), std = parameter(a, "std", 1, y->rank, i), v = 0;
    tc_c128 z;
    switch (kind) {
    case INTEGER: {
      int32_t first = tc_op_arg_index(a, tc_op_arg_index(a, "from") >= 0 ? "from" : "low"),
              second = tc_op_arg_index(a, tc_op_arg_index(a, "to") >= 0 ? "to" : "high");
      bool open = second < 0 || tc_op_kind(a, second) == TC_AK_NONE;
      int64_t lo = first < 0 ? 0 : tc_op_int(a, first, 0);
      uint64_t hi = open ? limit_of(y->nominal) : (uint64_t)tc_op_int(a, second, 0);
      if (open ? lo > 0 && (uint64_t)lo >= hi : lo >= (int64_t)hi)
        return tc_op_fail(a, "random expects 'from' to be less than 'to', but got from=%lld >= to=%llu", (long long)lo,
                          (unsigned long long)hi);
      // modulo 2^64: the distance of the ends may be beyond 63 bits
      tc_ref_put_i(y, to, (int64_t)((uint64_t)lo + (uint64_t)below(&b, hi - (uint64_t)lo)));
      continue;
    }
    case NORMAL:
      z = normal_of(&b);
      if (y->dtype == TC_C128) z.re *= M_SQRT1_2, z.im *= M_SQRT1_2;
      tc_ref_put(y, to, (tc_c128){mean + std * z.re, std * z.im});
      continue;
    case LOG_NORMAL: v = exp(parameter(a, "mean", 1, 0, i) + parameter(a, "std", 2, 0, i) * normal_of(&b).re); break;
    case EXPONENTIAL: v = -log(open_uniform(&b, 0)) / parameter(a, "lambd", 1, 0, i); break;
    case GEOMETRIC: v = fmax(1, ceil(log(open_uniform(&b, 0)) / log1p(-parameter(a, "p", 0.5, 0, i)))); break;
    case CAUCHY:
      v = parameter(a, "median", 0, 0, i) + parameter(a, "sigma", 1, 0, i) * tan(M_PI * (open_uniform(&b, 0) - 0.5));
      break;
    case BERNOULLI:
      v = uniform_of(&b, TC_F64) < parameter(a, tc_op_arg_index(a, "p") >= 0 ? "p" : "self", 0.5, y->rank, i);
      break;
    default: {
      double lo = parameter(a, "from", 0, 0, i), hi = parameter(a, "to", 1, 0, i), u = uniform_of(&b, y->nominal);
      if (y->dtype == TC_C128) {
        block c = {{b.w[2], b.w[3], b.w[0], b.w[1]}};
        tc_ref_put(y, to, (tc_c128){u, uniform_of(&c, y->nominal)});
        continue;
      }
      v = lo + (hi - lo) * u;
    }
    }
    tc_ref_put(y, to, (tc_c128){v, 0});
  }
  return TC_STATUS_OK;
}

// ---- the same in kernels ----
static tc_bval op2(tc_op_args *a, int32_t op, tc_bval x, tc_bval y) { return tc_lo_op2(a, op, x, y); }
static tc_bval real(tc_op_args *a, double v) { return tc_lo_const(a, TC_F64, v, 0); }
static tc_int number_of_element(tc_op_args *a, const tc_tensor_type *t, const tc_int *index) {
  tc_int n = tc_int_const(a, 0);
  for (int32_t d = 0; d < t->rank; d++) n = tc_int_add(a, tc_int_mul(a, n, t->sizes[d]), index[d]);
  return n;
}
static tc_bval bits_in(tc_op_args *a, const tc_bval *w, int pair) { // u64
  tc_bval high = tc_lo_cast(a, w[2 * pair], TC_U64), low = tc_lo_cast(a, w[2 * pair + 1], TC_U64);
  return op2(a, TC_K_OR, op2(a, TC_K_SHL, high, tc_lo_const_int(a, TC_U64, 32)), low);
}
static tc_bval top_bits(tc_op_args *a, const tc_bval *w, int pair, int bits) { // i64
  return tc_lo_cast(a, op2(a, TC_K_SHR, bits_in(a, w, pair), tc_lo_const_int(a, TC_U64, 64 - bits)), TC_I64);
}
static tc_bval uniform_in(tc_op_args *a, const tc_bval *w, int pair, tc_dtype d) {
  bool wide = d == TC_F64 || d == TC_C128;
  if (wide) return op2(a, TC_K_MUL, tc_lo_cast(a, top_bits(a, w, pair, 53), TC_F64), real(a, 0x1p-53));
  int bits = d == TC_BF16 ? 8 : d == TC_F16 ? 11 : 24;
  tc_bval v = op2(a, TC_K_SHR, w[2 * pair], tc_lo_const_int(a, TC_U32, 32 - bits));
  return op2(a, TC_K_MUL, tc_lo_cast(a, tc_lo_cast(a, v, TC_I32), TC_F32), tc_lo_const(a, TC_F32, ldexp(1, -bits), 0));
}
static tc_bval open_in(tc_op_args *a, const tc_bval *w, int pair) {
  tc_bval v = tc_lo_cast(a, top_bits(a, w, pair, 53), TC_F64);
  return op2(a, TC_K_MUL, op2(a, TC_K_ADD, v, real(a, 1)), real(a, 0x1p-53));
}
static tc_bval normal_in(tc_op_args *a, const tc_bval *w, bool second) {
  static const char *const names[] = {"u", "v"};
  tc_bval values[] = {open_in(a, w, 0), open_in(a, w, 1)};
  return tc_lo_text(a,
                    second ? "sqrt(log(u) * -2) * sin(6.283185307179586477 * v)"
                           : "sqrt(log(u) * -2) * cos(6.283185307179586477 * v)",
                    2, names, values);
}

// A parameter by name as an f64 of the open node.
typedef struct source_of_values {
  tc_lt tensor; // -1: a number
  double number;
  tc_int sym; // or NULL
} source_of_values;
static source_of_values find_parameter(tc_op_args *a, const char *name, double otherwise, const tc_tensor_type *t) {
  int32_t arg = tc_op_arg_index(a, name);
  tc_number n;
  source_of_values p = {-1, otherwise, NULL};
  if (arg < 0) return p;
  if (tc_op_kind(a, arg) == TC_AK_TENSOR) p.tensor = tc_lo_expand(a, tc_lo_arg(a, arg), t->rank, t->sizes);
  else if (tc_op_number(a, arg, &n)) p.number = n.re, p.sym = n.kind == TC_AK_INT ? n.sym : NULL;
  return p;
}
static tc_bval get(tc_op_args *a, const source_of_values *p, const tc_int *index, tc_dtype d) {
  if (p->tensor >= 0) return tc_lo_cast(a, tc_lo_load(a, p->tensor, index), d);
  if (p->sym) return tc_lo_index(a, p->sym, d);
  return d == TC_F64 ? real(a, p->number) : tc_lo_const_int(a, d, (int64_t)p->number);
}

static bool is_unit(const source_of_values *lo, const source_of_values *hi) {
  return !lo->sym && !hi->sym && lo->number == 0 && hi->number == 1;
}
static tc_bval complex_of(tc_op_args *a, tc_bval re, tc_bval im) { return op2(a, TC_K_COMPLEX, re, im); }

static int32_t fill_lower(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_result_type(a, 0);
  int32_t kind = kind_of(a);
  bool complex = t->dtype == TC_C32 || t->dtype == TC_C64 || t->dtype == TC_C128 || t->dtype == TC_BC32;
  static const struct {
    const char *first, *second; // names of parameters
    double otherwise[2];
    const char *text; // of u, v (open uniform numbers) and the parameters x and y
  } rows[] = {
      [UNIFORM] = {"from", "to", {0, 1}, NULL},
      [NORMAL] = {"mean", "std", {0, 1}, NULL},
      [INTEGER] = {"low", "high", {0, 0}, NULL},
      [EXPONENTIAL] = {"lambd", "lambd", {1, 1}, "-log(u) / x"},
      [GEOMETRIC] = {"p", "p", {0.5, 0.5}, "max(1, ceil(log(u) / log1p(-x)))"},
      [LOG_NORMAL] = {"mean", "std", {1, 2}, "exp(x + y * (sqrt(log(u) * -2) * cos(6.283185307179586477 * v)))"},
      [CAUCHY] = {"median", "sigma", {0, 1}, "x + y * tan(pi * (u - 0.5))"},
      [BERNOULLI] = {"p", "p", {0.5, 0.5}, NULL},
  };
  const char *first = rows[kind].first, *second = rows[kind].second;
  double otherwise[2] = {rows[kind].otherwise[0], rows[kind].otherwise[1]};
  if (kind == INTEGER) {
    if (tc_op_arg_index(a, "from") >= 0) first = "from";
    if (tc_op_arg_index(a, "to") >= 0) second = "to";
    otherwise[1] = (double)limit_of(t->dtype);
  }
  if (kind == BERNOULLI && tc_op_arg_index(a, "p") < 0) first = second = "self";
  source_of_values x = find_parameter(a, first, otherwise[0], t), y = find_parameter(a, second, otherwise[1], t);
  if (kind == INTEGER && !x.sym && !y.sym && !(y.number > x.number))
    return tc_op_fail(a, "random expects 'from' to be less than 'to', but got from=%g >= to=%g", x.number, y.number);
  tc_int index[TC_MAX_RANK];
  tc_bval w[4], v;
  tc_lo_begin(a, t->rank, t->sizes, index);
  tc_lo_random(a, number_of_element(a, t, index), w);
  if (kind == INTEGER) {
    int32_t end = tc_op_arg_index(a, second);
    bool open = end < 0 || tc_op_kind(a, end) == TC_AK_NONE;
    tc_bval lo = get(a, &x, index, TC_I64), hi = open ? tc_lo_const_int(a, TC_U64, (int64_t)limit_of(t->dtype))
                                                      : tc_lo_cast(a, get(a, &y, index, TC_I64), TC_U64);
    tc_bval range = op2(a, TC_K_SUB, hi, tc_lo_cast(a, lo, TC_U64));
    tc_bval below = op2(a, TC_K_MULHI, bits_in(a, w, 0), range);
    v = op2(a, TC_K_ADD, lo, tc_lo_cast(a, below, TC_I64));
  } else if (kind == NORMAL) {
    tc_bval std = get(a, &y, index, TC_F64), re = normal_in(a, w, false), im = normal_in(a, w, true);
    if (complex) re = op2(a, TC_K_MUL, re, real(a, M_SQRT1_2)), im = op2(a, TC_K_MUL, im, real(a, M_SQRT1_2));
    v = op2(a, TC_K_ADD, get(a, &x, index, TC_F64), op2(a, TC_K_MUL, std, re));
    if (complex) v = complex_of(a, v, op2(a, TC_K_MUL, std, im));
  } else if (kind == UNIFORM) {
    v = uniform_in(a, w, 0, t->dtype);
    if (complex) {
      v = complex_of(a, v, uniform_in(a, w, 1, t->dtype));
    } else if (!is_unit(&x, &y)) {
      tc_bval lo = get(a, &x, index, TC_F64), hi = get(a, &y, index, TC_F64);
      v = op2(a, TC_K_ADD, lo, op2(a, TC_K_MUL, op2(a, TC_K_SUB, hi, lo), tc_lo_cast(a, v, TC_F64)));
    }
  } else if (kind == BERNOULLI) {
    v = op2(a, TC_K_LT, uniform_in(a, w, 0, TC_F64), get(a, &x, index, TC_F64));
  } else {
    static const char *const names[] = {"u", "v", "x", "y"};
    tc_bval values[] = {open_in(a, w, 0), open_in(a, w, 1), get(a, &x, index, TC_F64), get(a, &y, index, TC_F64)};
    v = tc_lo_text(a, rows[kind].text, 4, names, values);
  }
  tc_lo_result(a, 0, tc_lo_end(a, v, t->dtype));
  return TC_STATUS_OK;
}

// ---- permutations and choices ----
static int32_t multinomial_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  tc_int sizes[2];
  if (t->rank < 1 || t->rank > 2) return tc_op_fail(a, "prob_dist must be 1 or 2 dim: %s", tc_op_shape_text(a, 0));
  sizes[0] = t->sizes[0], sizes[t->rank - 1] = tc_op_sym(a, 1);
  if (tc_int_lt(a, tc_op_sym(a, 1), tc_int_const(a, 1)) == 1)
    return tc_op_fail(a, "cannot sample n_sample <= 0 samples");
  tc_int values[] = {tc_op_sym(a, 1), t->sizes[t->rank - 1]};
  if (tc_sym_is_int(values[1], 0)) return tc_op_fail(a, "cannot sample of nothing: %s", tc_op_shape_text(a, 0));
  if (!tc_op_bool(a, 2, 0) && tc_op_require(a, tc_sym_cmp(a->syms, TC_SYM_LE, values[0], values[1]),
                                            "cannot sample {} of {} without replacement", 2, values))
    return TC_STATUS_INVALID_ARGUMENT;
  return tc_op_set_result(a, 0, TC_I64, t->rank, sizes, NULL);
}
// With replacement by the inverse of the distribution; without, the largest of exponential clocks.
static int32_t multinomial_ref(tc_op_args *a) {
  const tc_ref_view *p = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  source s = source_of(a);
  int64_t rows = p->rank == 2 ? p->sizes[0] : 1, n = p->sizes[p->rank - 1], count = y->sizes[y->rank - 1],
          step = p->strides[p->rank - 1];
  bool replace = tc_op_bool(a, 2, 0);
  double *clock = tc_op_scratch(a, (uint64_t)(n + 1) * sizeof *clock);
  if (!clock) return TC_STATUS_OUT_OF_MEMORY;
  for (int64_t r = 0; r < rows; r++) {
    int64_t base = p->rank == 2 ? r * p->strides[0] : 0, possible = 0;
    double total = 0;
    for (int64_t k = 0; k < n; k++) {
      double w = tc_ref_f(p, base + k * step);
      if (!(w >= 0) || isinf(w)) return tc_op_fail(a, "probability tensor contains either inf, nan or element < 0");
      total += w, possible += w > 0;
      block b = philox(s.seed, s.stream, (uint64_t)(r * n + k));
      clock[k] = w > 0 ? -log(open_uniform(&b, 0)) / w : INFINITY;
    }
    if (total <= 0 || (!replace && possible < count))
      return tc_op_fail(a, "invalid multinomial distribution (with replacement=False, not enough non-negative category "
                           "to sample)");
    for (int64_t k = 0; k < count; k++) {
      int64_t pick = 0;
      if (replace) {
        block b = philox(s.seed, s.stream, (uint64_t)(r * count + k));
        double u = uniform_of(&b, TC_F64) * total, sum = 0;
        for (pick = 0; pick < n - 1; pick++) {
          sum += tc_ref_f(p, base + pick * step);
          if (u < sum) break;
        }
        while (pick > 0 && tc_ref_f(p, base + pick * step) == 0) pick--;
      } else {
        for (int64_t j = 1; j < n; j++)
          if (clock[j] < clock[pick]) pick = j;
        clock[pick] = INFINITY;
      }
      tc_ref_put_i(y, r * count + k, pick);
    }
  }
  return TC_STATUS_OK;
}

// ---- dropout ----
static int32_t dropout_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  double p = tc_op_float(a, 1, 0.5);
  bool empty = tc_sym_is_int(tc_op_numel(a, t), 0);                   // PyTorch's mask of nothing is like the input
  bool train = tc_op_kind(a, 2) == TC_AK_NONE || tc_op_bool(a, 2, 1); // what is kept is scaled by a float
  if (train && !(p >= 0 && p <= 1))
    return tc_op_fail(a, "dropout probability has to be between 0 and 1, but got %g", p);
  if (train && !tc_dtype_is_float(t->dtype) && !tc_dtype_is_complex(t->dtype))
    return tc_op_fail(a, "result type Float can't be cast to the desired output type %s",
                      tc_dtype_torch_name(t->dtype));
  return tc_op_format_result(a, 0, t->dtype, t->rank, t->sizes, TC_FORMAT_PRESERVE, 0) ||
         tc_op_format_result(a, 1, empty ? t->dtype : TC_BOOL, t->rank, t->sizes, TC_FORMAT_PRESERVE, 0);
}
static int32_t dropout_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0), *mask = tc_op_result_data(a, 1);
  source s = source_of(a);
  double p = tc_op_float(a, 1, 0.5), scale = p < 1 ? 1 / (1 - p) : 0;
  bool train = tc_op_kind(a, 2) == TC_AK_NONE || tc_op_bool(a, 2, 1);
  if (x->nominal != TC_F64 && x->nominal != TC_C128) scale = (double)(float)scale; // as it is multiplied with
  int64_t i[TC_MAX_RANK] = {0}, k = 0;
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, i), k++) {
    block b = philox(s.seed, s.stream, (uint64_t)k);
    bool keep = !train || uniform_of(&b, TC_F64) >= p;
    tc_c128 v = tc_ref_c(x, tc_ref_offset(x, i));
    double f = !train ? 1 : keep ? scale : 0;
    tc_ref_put(y, tc_ref_offset(y, i), keep ? (tc_c128){v.re * f, v.im * f} : (tc_c128){0, 0});
    tc_ref_put_i(mask, tc_ref_offset(mask, i), keep);
  }
  return TC_STATUS_OK;
}
// Kept where the element's 53 bits, as a number of [0, 1), are not below p.
static int32_t dropout_lower(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_result_type(a, 0);
  double p = tc_op_float(a, 1, 0.5), scale = p < 1 ? 1 / (1 - p) : 0;
  bool train = tc_op_kind(a, 2) == TC_AK_NONE || tc_op_bool(a, 2, 1);
  tc_lt x = tc_lo_arg(a, 0), mask;
  tc_int index[TC_MAX_RANK];
  tc_bval w[4], keep;
  tc_lo_begin(a, t->rank, t->sizes, index);
  if (train) {
    tc_lo_random(a, number_of_element(a, t, index), w);
    keep = op2(a, TC_K_GE, top_bits(a, w, 0, 53), tc_lo_const_int(a, TC_I64, (int64_t)ceil(p * 0x1p53)));
  } else {
    keep = tc_lo_const_int(a, TC_BOOL, 1);
  }
  tc_dtype kind = tc_op_result_type(a, 1)->dtype;
  mask = tc_lo_end(a, tc_lo_cast(a, keep, kind), kind);
  tc_lo_begin(a, t->rank, t->sizes, index);
  tc_dtype d = t->dtype == TC_F16 || t->dtype == TC_BF16   ? TC_F32
               : t->dtype == TC_C32 || t->dtype == TC_BC32 ? TC_C64
                                                           : t->dtype;
  tc_bval v = tc_lo_cast(a, tc_lo_load(a, x, index), d);
  if (train)
    v = tc_lo_op3(a, TC_K_SELECT, tc_lo_load(a, mask, index), op2(a, TC_K_MUL, v, tc_lo_const(a, d, scale, 0)),
                  tc_lo_const(a, d, 0, 0));
  tc_lo_result(a, 0, tc_lo_end(a, v, t->dtype));
  tc_lo_result(a, 1, mask);
  return TC_STATUS_OK;
}

// What is dropped: elements, or whole channels (the mask has the first two dimensions). The `alpha` forms put selu's
// limit in place of zeros, and scale and move what they give to mean 0 and variance 1 (Klambauer et al., 2017).
#define CHANNELS "[input.size(0), input.size(1)] + repeated([1], input.rank - 2)"
#define DROPOUT(name, text)                                        \
  {.schema = name "(Tensor input, float p, bool train) -> Tensor", \
   .traits = RC | TC_OP_MAYBE_VIEW,                                \
   .decompose = "if(train && p != 0.0 && input.numel != 0, if(p == 1.0, mul(input, 0), " text "), alias(input))"}

enum { R = TC_OP_RANDOM, RC = TC_OP_RANDOM | TC_OP_COMPLEX };
#define OPTIONS "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
#define INTS "ScalarType? dtype=long, Layout? layout=None, Device? device=None, bool? pin_memory=None"
#define FORMAT ", MemoryFormat? memory_format=None"
#define GENERATOR "*, Generator? generator=None) -> Tensor"
#define FILL(s) DRAWN(s, RC)
#define REAL(s) DRAWN(s, R)
#define DRAWN(s, t) {.schema = s, .traits = t, .meta = fill_meta, .lower = fill_lower, .ref = fill_ref}
static const tc_op_def rows[] = {
    FILL("rand(SymInt[] size, *, " OPTIONS ") -> Tensor"),
    FILL("randn(SymInt[] size, *, " OPTIONS ") -> Tensor"),
    FILL("randint(SymInt high, SymInt[] size, *, " INTS ") -> Tensor"),
    FILL("randint.low(SymInt low, SymInt high, SymInt[] size, *, " INTS ") -> Tensor"),
    FILL("rand_like(Tensor self, *, " OPTIONS FORMAT ") -> Tensor"),
    FILL("randn_like(Tensor self, *, " OPTIONS FORMAT ") -> Tensor"),
    FILL("randint_like(Tensor self, SymInt high, *, " OPTIONS FORMAT ") -> Tensor"),
    FILL("randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, " OPTIONS FORMAT ") -> Tensor"),
    FILL("uniform(Tensor self, float from=0., float to=1., " GENERATOR),
    FILL("normal_functional(Tensor self, float mean=0., float std=1., " GENERATOR),
    FILL("normal(Tensor self, float mean=0., float std=1., " GENERATOR),
    FILL("normal.Tensor_float(Tensor mean, float std=1., " GENERATOR),
    FILL("normal.float_Tensor(float mean, Tensor std, " GENERATOR),
    FILL("normal.Tensor_Tensor(Tensor mean, Tensor std, " GENERATOR),
    FILL("normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, " OPTIONS
         ") -> Tensor"),
    REAL("random(Tensor self, " GENERATOR),
    REAL("random.to(Tensor self, int to, " GENERATOR),
    REAL("random.from(Tensor self, int from, int? to, " GENERATOR),
    REAL("exponential(Tensor self, float lambd=1., " GENERATOR),
    REAL("geometric(Tensor self, float p, " GENERATOR),
    REAL("log_normal(Tensor self, float mean=1., float std=2., " GENERATOR),
    REAL("cauchy(Tensor self, float median=0., float sigma=1., " GENERATOR),
    REAL("bernoulli(Tensor self, " GENERATOR),
    REAL("bernoulli.p(Tensor self, float p, " GENERATOR),
    // In the order of independent numbers.
    {.schema = "randperm(SymInt n, *, " INTS ") -> Tensor",
     .traits = R,
     .decompose = "let v, i = sort(rand([n], dtype=f64), 0, false); to(i, if(is_none(dtype), i64, dtype))"},
    // With replacement by the inverse of the distribution; without, the first of exponential clocks.
    {.schema = "multinomial(Tensor self, SymInt num_samples, bool replacement=False, " GENERATOR,
     .traits = R,
     .meta = multinomial_meta,
     .decompose = "let w = to(self, f64); let s = cumsum(w, -1); let n = self.size(-1);"
                  "let total = slice(s, -1, n - 1, n); let v, i = topk(where(gt(w, 0), div(exponential(w), w), inf), "
                  "if(replacement, 1, num_samples), -1, false, true);"
                  "if(replacement, searchsorted(s, mul(mul(total, 0.9999999999999998), rand(if(self.rank == 1, "
                  "[num_samples], [self.size(0), num_samples]), dtype=f64)), right=true), i)",
     .ref = multinomial_ref},
    // Each of the masks' elements is 1 / (1 - p) or 0.
    DROPOUT("dropout", "native_dropout(input, p, true)[0]"),
    DROPOUT("feature_dropout", "mul(input, native_dropout(ones(" CHANNELS ", dtype=input.dtype), p, true)[0])"),
    DROPOUT("alpha_dropout", "_alpha_dropout(input, native_dropout(ones_like(input), p, true)[0], p)"),
    DROPOUT("feature_alpha_dropout", "_alpha_dropout(input, native_dropout(ones(" CHANNELS ", dtype=input.dtype), p, "
                                     "true)[0], p)"),
    {.schema = "_alpha_dropout(Tensor input, Tensor mask, float p) -> Tensor",
     .traits = TC_OP_COMPLEX,
     .decompose = "_alpha_dropped(input, ne(mask, 0), p)"},
    {.schema = "_alpha_dropped(Tensor input, Tensor keep, float p) -> Tensor",
     .traits = TC_OP_COMPLEX,
     .decompose = "let limit = 1.7580993408473766; let a = 1.0 / ((limit * limit * p + 1.0) * (1.0 - p)) ** 0.5;"
                  "add(mul(where(keep, input, 0), a), mul(sub(to(keep, input.dtype), 1.0 - p), limit * a))"},
    {.schema = "native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)",
     .traits = RC,
     .meta = dropout_meta,
     .lower = dropout_lower,
     .ref = dropout_ref},
};
static const tc_op_refusal refusals[] = {
    {"cauchy",
     "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you specified "},
    {"exponential", "Exponential distribution is a continuous probability distribution. dtype must be a floating point "
                    "but you specified "},
    {"multinomial", "multinomial only supports floating-point dtypes for input, got: "},
};
TC_OP_FAMILY_WITH_REFUSALS(random);
