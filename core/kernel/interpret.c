// The host interpreter: runs a kernel block after block, exactly as the semantics in tc/kernel.h say; the oracle of
// backends.
//
// Values that are the same in all lanes have one slot, others one per lane. A lanes region runs in lock step, an
// instruction at a time over all lanes; that order cannot be observed, because every shared element remembers who wrote
// and read it since the last barrier, and an access by another lane is an error.
#include <string.h>

#include "core/kernel/ir.h"

enum { NOBODY = -1, MANY = -2, ATOMIC = -3 }; // lanes that are none

// One element of shared memory since the start of the block.
typedef struct shadow {
  int32_t write_epoch, writer, read_epoch, reader; // epochs count barriers, from 1
  int32_t written;
} shadow;

typedef struct storage {
  char *data;       // GLOBAL: the argument; else own. LANE: lanes × count
  int64_t count;    // elements (of one lane)
  shadow *shadows;  // SHARED
  uint8_t *written; // LANE
} storage;

// Where a value is: in one slot, or in one for each lane.
typedef struct place {
  tc_knum *first;
  int32_t step, lanes; // slots from one lane to the next (0 or 1), slots
} place;

typedef struct machine {
  const tc_kernel *k;
  tc_arena *arena;
  const tc_karg *args;
  place *places; // by value
  storage *mems;
  tc_knum **next;   // by region: room for the values carried to the next round
  tc_knum *scratch; // a value of each lane
  int32_t block, epoch;
  int32_t inst; // being executed, for messages
  int64_t failed_site;
} machine;

typedef struct run {
  const tc_kernel *k;
  tc_arena *arena;
  const tc_karg *args;
  int64_t blocks;
  int64_t *out_failed_site;
} run;

static tc_status fault(const machine *m, int32_t lane, const char *fmt, ...) TC_PRINTF(3, 4);
static tc_status fault(const machine *m, int32_t lane, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  tc_status s = tc_errorv(TC_STATUS_OUT_OF_RANGE, fmt, args);
  va_end(args);
  const tc_kinst *in = &m->k->insts[m->inst];
  tc_sv mem = in->mem >= 0 ? m->k->mems[in->mem].name : TC_SV("");
  tc_sv name = in->n_results ? m->k->names[in->results[0]] : TC_SV("");
  return tc_status_note(s,
                        "in kernel @" TC_SV_FMT ", instruction %d: %s%s" TC_SV_FMT "%s" TC_SV_FMT ", block %d, lane %d",
                        TC_SV_ARG(m->k->name), (int)m->inst, tc_k_op_text(in->op), mem.size ? " %" : "", TC_SV_ARG(mem),
                        name.size ? " to %" : "", TC_SV_ARG(name), (int)m->block, (int)lane);
}

static tc_knum *slot_of(const place *p, int32_t lane) { return p->first + p->step * lane; }
static tc_knum *slot(const machine *m, tc_kval v, int32_t lane) { return slot_of(&m->places[v], lane); }
static int32_t lanes_of(const machine *m, tc_kval v) { return m->places[v].lanes; }

// ---- Memory ----

static tc_status shared_read(const machine *m, shadow *s, int64_t index, int32_t lane) {
  if (!s->written) return fault(m, lane, "shared element %lld is read before it is written", (long long)index);
  if (s->write_epoch == m->epoch && s->writer != lane)
    return fault(m, lane,
                 "shared element %lld is read by lane %d and written by another (%d) without a barrier between",
                 (long long)index, (int)lane, (int)s->writer);
  s->reader = s->read_epoch == m->epoch && s->reader != lane ? MANY : lane;
  s->read_epoch = m->epoch;
  return TC_OK;
}

static tc_status shared_write(const machine *m, shadow *s, int64_t index, int32_t lane, bool atomic) {
  int32_t who = atomic ? ATOMIC : lane;
  if (atomic && !s->written)
    return fault(m, lane, "shared element %lld is added to before it is written", (long long)index);
  if (s->write_epoch == m->epoch && s->writer != who)
    return fault(m, lane, "shared element %lld is written by lane %d and by another (%d) without a barrier between",
                 (long long)index, (int)lane, (int)s->writer);
  if (s->read_epoch == m->epoch && (s->reader != lane || atomic))
    return fault(m, lane,
                 "shared element %lld is written by lane %d and read by another (%d) without a barrier between",
                 (long long)index, (int)lane, (int)s->reader);
  s->write_epoch = m->epoch, s->writer = who, s->written = 1;
  return TC_OK;
}

// Address of an element, checked for the access.
static tc_status locate(const machine *m, const tc_kinst *in, int64_t index, int32_t lane, bool write, char **out) {
  const tc_kmem_info *info = &m->k->mems[in->mem];
  const storage *s = &m->mems[in->mem];
  if (index < 0 || index >= s->count)
    return fault(m, lane, "index %lld lies outside the %lld elements", (long long)index, (long long)s->count);
  int64_t at = info->space == TC_SPACE_LANE ? lane * s->count + index : index;
  if (info->space == TC_SPACE_SHARED) {
    if (write) TC_TRY(shared_write(m, &s->shadows[index], index, lane, in->op == TC_K_ATOMIC_ADD));
    else TC_TRY(shared_read(m, &s->shadows[index], index, lane));
  }
  if (info->space == TC_SPACE_LANE) {
    if (!write && !s->written[at])
      return fault(m, lane, "element %lld of the lane array is read before it is written", (long long)index);
    s->written[at] = 1;
  }
  *out = s->data + at * tc_dtype_size(info->dtype);
  return TC_OK;
}

static bool enabled(const machine *m, const tc_kinst *in, int32_t mask, int32_t lane) {
  return !in->has_mask || slot(m, in->args[mask], lane)->i;
}

static tc_status do_load(machine *m, const tc_kinst *in) {
  tc_dtype type = m->k->mems[in->mem].dtype;
  int32_t lanes = lanes_of(m, in->results[0]);
  bool all = lanes == 1 && m->k->lanes > 1; // a uniform load is done by all lanes
  for (int32_t lane = 0; lane < lanes; lane++)
    for (int32_t i = 0; i < in->width; i++) {
      tc_knum *out = slot(m, in->results[i], lane);
      char *at;
      if (!enabled(m, in, 1, lane)) {
        *out = *slot(m, in->args[2 + i], lane);
        continue;
      }
      TC_TRY(locate(m, in, slot(m, in->args[0], lane)->i + i, all ? MANY : lane, false, &at));
      *out = tc_kir_read(type, at);
    }
  return TC_OK;
}

static tc_status do_store(machine *m, const tc_kinst *in) {
  tc_dtype type = m->k->mems[in->mem].dtype;
  for (int32_t lane = 0; lane < m->k->lanes; lane++) {
    if (!enabled(m, in, 1 + in->width, lane)) continue;
    for (int32_t i = 0; i < in->width; i++) {
      char *at;
      TC_TRY(locate(m, in, slot(m, in->args[0], lane)->i + i, lane, true, &at));
      tc_knum v = *slot(m, in->args[1 + i], lane);
      if (in->op == TC_K_ATOMIC_ADD) tc_kir_eval(TC_K_ADD, type, (tc_knum[]){tc_kir_read(type, at), v}, &v);
      tc_kir_write(type, at, v);
    }
  }
  return TC_OK;
}

// ---- Operations ----

// Values that no lane, block or round changes; computed once.
static void make_constant(machine *m, const tc_kinst *in) {
  tc_knum out = {.i = 0};
  if (tc_dtype_is_float(m->k->values[in->results[0]].dtype)) out.re = in->fimm;
  else out.i = in->imm;
  for (int32_t lane = 0; lane < lanes_of(m, in->results[0]); lane++) *slot(m, in->results[0], lane) = out;
}

static tc_knum scalar(const machine *m, const tc_kinst *in, tc_dtype type) {
  for (int32_t p = 0; p < m->k->n_params; p++)
    if (m->k->params[p].is_scalar && m->k->params[p].index == in->imm)
      return tc_kir_from_bits(type, (uint64_t)m->args[p].bits);
  return (tc_knum){.i = 0};
}

static tc_status do_pure(machine *m, const tc_kinst *in) {
  enum { MOST = 3 };
  const place *to = &m->places[in->results[0]], *of[MOST];
  tc_dtype type = m->k->values[in->results[0]].dtype,
           from = in->n_args ? m->k->values[in->args[in->n_args - 1]].dtype : type;
  for (int32_t i = 0; i < in->n_args; i++) of[i] = &m->places[in->args[i]];
  for (int32_t lane = 0; lane < to->lanes; lane++) {
    tc_knum args[MOST], out = {.i = 0};
    for (int32_t i = 0; i < in->n_args; i++) args[i] = *slot_of(of[i], lane);
    switch (in->op) {
    case TC_K_BLOCK: out.i = m->block; break;
    case TC_K_LANE: out.i = lane; break;
    case TC_K_SCALAR: out = scalar(m, in, type); break;
    case TC_K_CAST: out = tc_kir_cast(from, type, args[0]); break;
    case TC_K_BITCAST: out = tc_kir_from_bits(type, tc_kir_to_bits(from, args[0])); break;
    default: {
      const char *why = tc_kir_eval(in->op, from, args, &out);
      if (why) return fault(m, lane, "%s", why);
    }
    }
    *slot_of(to, lane) = out;
  }
  return TC_OK;
}

// A product of tiles by 32 lanes from `first` on: summed in double precision, rounded once.
static void multiply_tiles(machine *m, const tc_kinst *in, int32_t first) {
  double a[16][16], b[16][8];
  tc_dtype type = in->op == TC_K_MMA_BF16 ? TC_BF16 : TC_F16;
  for (int32_t l = 0; l < TC_MMA_LANES; l++)
    for (int32_t i = 0; i < TC_KIR_MMA_WORDS; i++)
      for (int32_t half = 0; half < 2; half++) {
        uint64_t bits = (uint64_t)slot(m, in->args[i], first + l)->i >> 16 * half & 0xffff;
        double v = tc_kir_from_bits(type, bits).re;
        int32_t g = l / 4, k = l % 4 * 2 + half;
        if (i < 4) a[g + i % 2 * 8][k + i / 2 * 8] = v;
        else b[k + (i - 4) * 8][g] = v;
      }
  for (int32_t l = 0; l < TC_MMA_LANES; l++)
    for (int32_t i = 0; i < TC_KIR_MMA_SUMS; i++) {
      int32_t row = l / 4 + i / 2 * 8, column = l % 4 * 2 + i % 2;
      double sum = slot(m, in->args[TC_KIR_MMA_WORDS + i], first + l)->re;
      for (int32_t k = 0; k < 16; k++) sum += a[row][k] * b[k][column];
      slot(m, in->results[i], first + l)->re = (double)(float)sum;
    }
}

static int32_t reduction(int32_t op) {
  static const int32_t by[] = {TC_K_ADD, TC_K_MUL, TC_K_MIN, TC_K_MAX, TC_K_AND, TC_K_OR};
  return by[op - TC_K_REDUCE_ADD];
}

static tc_status do_collective(machine *m, const tc_kinst *in) {
  tc_kval v = in->args[0];
  tc_dtype type = m->k->values[v].dtype;
  if (in->op == TC_K_BROADCAST) {
    *slot(m, in->results[0], 0) = *slot(m, v, (int32_t)in->imm);
    return TC_OK;
  }
  // Pairwise, in place of any order: the error stays small, as it does on devices.
  tc_knum *x = slot(m, v, 0);
  tc_knum *t = m->scratch;
  memcpy(t, x, sizeof *t * (size_t)m->k->lanes);
  for (int32_t n = m->k->lanes; n > 1; n = (n + 1) / 2)
    for (int32_t i = 0; i < n / 2; i++)
      tc_kir_eval(reduction(in->op), type, (tc_knum[]){t[i], t[i + (n + 1) / 2]}, &t[i]);
  *slot(m, in->results[0], 0) = t[0];
  return TC_OK;
}

static void do_check(machine *m, const tc_kinst *in) {
  for (int32_t lane = 0, lanes = lanes_of(m, in->args[0]); lane < lanes; lane++)
    if (!slot(m, in->args[0], lane)->i && m->failed_site < 0) m->failed_site = in->imm;
}

// ---- Structure ----

static void copy_value(machine *m, tc_kval to, tc_kval from) {
  for (int32_t lane = 0; lane < lanes_of(m, to); lane++) *slot(m, to, lane) = *slot(m, from, lane);
}

static tc_status do_region(machine *m, int32_t region);

static const tc_kinst *yield_of(const machine *m, int32_t region) {
  const tc_kir_region *g = &m->k->regions[region];
  return &m->k->insts[g->insts.data[g->insts.count - 1]];
}

// Carries the yielded values to the next round, all at once.
static void carry(machine *m, int32_t region) {
  const tc_kir_region *g = &m->k->regions[region];
  const tc_kinst *y = yield_of(m, region);
  int32_t lanes = m->k->lanes;
  if (y->n_args == 0) return;
  if (!m->next[region]) m->next[region] = TC_NEW_ARRAY(m->arena, tc_knum, (int64_t)lanes * y->n_args);
  tc_knum *t = m->next[region];
  for (int32_t i = 0; i < y->n_args; i++)
    for (int32_t lane = 0; lane < lanes_of(m, y->args[i]); lane++) t[i * lanes + lane] = *slot(m, y->args[i], lane);
  for (int32_t i = 0; i < y->n_args; i++)
    for (int32_t lane = 0; lane < lanes_of(m, g->params[1 + i]); lane++)
      *slot(m, g->params[1 + i], lane) = t[i * lanes + m->places[y->args[i]].step * lane];
}

static tc_status do_for(machine *m, const tc_kinst *in) {
  const tc_kir_region *g = &m->k->regions[in->regions[0]];
  int64_t i = slot(m, in->args[0], 0)->i, hi = slot(m, in->args[1], 0)->i;
  bool wide = m->k->values[in->args[0]].dtype == TC_U64;
  for (int32_t c = 0; c < in->n_results; c++) copy_value(m, g->params[1 + c], in->args[2 + c]);
  while (wide ? (uint64_t)i < (uint64_t)hi : i < hi) {
    slot(m, g->params[0], 0)->i = i;
    TC_TRY(do_region(m, in->regions[0]));
    carry(m, in->regions[0]);
    if (__builtin_add_overflow(i, in->imm, &i) && !wide) break;
  }
  for (int32_t c = 0; c < in->n_results; c++) copy_value(m, in->results[c], g->params[1 + c]);
  return TC_OK;
}

static tc_status do_inst(machine *m, int32_t inst) {
  const tc_kinst *in = &m->k->insts[inst];
  m->inst = inst;
  switch (in->op) {
  case TC_K_LOAD: return do_load(m, in);
  case TC_K_STORE:
  case TC_K_ATOMIC_ADD: return do_store(m, in);
  case TC_K_CONST:
  case TC_K_PREFETCH:
  case TC_K_YIELD: return TC_OK;
  case TC_K_CHECK: do_check(m, in); return TC_OK;
  case TC_K_BARRIER: m->epoch++; return TC_OK;
  case TC_K_FOR: return do_for(m, in);
  case TC_K_IF: {
    int32_t region = in->regions[slot(m, in->args[0], 0)->i ? 0 : 1];
    TC_TRY(do_region(m, region));
    for (int32_t i = 0; i < in->n_results; i++) copy_value(m, in->results[i], yield_of(m, region)->args[i]);
    return TC_OK;
  }
  case TC_K_LANES:
    TC_TRY(do_region(m, in->regions[0]));
    for (int32_t i = 0; i < in->n_results; i++) copy_value(m, in->results[i], yield_of(m, in->regions[0])->args[i]);
    return TC_OK;
  case TC_K_MMA_BF16:
  case TC_K_MMA_F16:
    for (int32_t lane = 0; lane < m->k->lanes; lane += TC_MMA_LANES) multiply_tiles(m, in, lane);
    return TC_OK;
  case TC_K_REDUCE_ADD:
  case TC_K_REDUCE_MUL:
  case TC_K_REDUCE_MIN:
  case TC_K_REDUCE_MAX:
  case TC_K_REDUCE_AND:
  case TC_K_REDUCE_OR:
  case TC_K_BROADCAST: return do_collective(m, in);
  default: return do_pure(m, in);
  }
}

static tc_status do_region(machine *m, int32_t region) {
  const tc_kir_region *g = &m->k->regions[region];
  for (int32_t i = 0; i < g->insts.count; i++) TC_TRY(do_inst(m, g->insts.data[i]));
  return TC_OK;
}

// ---- Set-up ----

static void prepare_memory(machine *m) {
  const tc_kernel *k = m->k;
  m->mems = TC_NEW_ARRAY(m->arena, storage, k->n_mems + 1);
  for (int32_t i = 0; i < k->n_mems; i++) {
    const tc_kmem_info *info = &k->mems[i];
    storage *s = &m->mems[i];
    s->count = info->count;
    int64_t copies = info->space == TC_SPACE_LANE ? k->lanes : 1;
    if (info->space == TC_SPACE_TABLE) {
      union {
        const void *from;
        char *to;
      } table = {.from = info->data}; // never written: the verifier refuses stores to tables
      s->data = table.to;
    }
    if (info->space == TC_SPACE_SHARED || info->space == TC_SPACE_LANE)
      s->data = tc_arena_array(m->arena, (size_t)tc_dtype_size(info->dtype), (size_t)(info->count * copies));
    if (info->space == TC_SPACE_SHARED) s->shadows = TC_NEW_ARRAY(m->arena, shadow, info->count);
    if (info->space == TC_SPACE_LANE) s->written = TC_NEW_ARRAY(m->arena, uint8_t, info->count *copies);
  }
  for (int32_t p = 0; p < k->n_params; p++)
    if (!k->params[p].is_scalar)
      m->mems[k->params[p].index].data = m->args[p].data, m->mems[k->params[p].index].count = m->args[p].count;
}

static void prepare_values(machine *m) {
  const tc_kernel *k = m->k;
  int64_t total = 0;
  m->places = TC_NEW_ARRAY(m->arena, place, k->n_values + 1);
  for (int32_t v = 0; v < k->n_values; v++) total += k->values[v].varying ? k->lanes : 1;
  tc_knum *next = TC_NEW_ARRAY(m->arena, tc_knum, total + 1);
  for (int32_t v = 0; v < k->n_values; v++) {
    bool varying = k->values[v].varying;
    m->places[v] = (place){next, varying, varying ? k->lanes : 1};
    next += m->places[v].lanes;
  }
  for (int32_t i = 0; i < k->n_insts; i++)
    if (k->insts[i].op == TC_K_CONST) make_constant(m, &k->insts[i]);
}

static void start_block(machine *m, int32_t block) {
  m->block = block, m->epoch = 1;
  for (int32_t i = 0; i < m->k->n_mems; i++) {
    storage *s = &m->mems[i];
    if (s->shadows) memset(s->shadows, 0, sizeof *s->shadows * (size_t)s->count);
    if (s->written) memset(s->written, 0, (size_t)(s->count * m->k->lanes));
  }
}

static tc_status run_in_arena(void *arg) {
  run *r = arg;
  machine m = {.k = r->k, .arena = r->arena, .args = r->args, .failed_site = -1};
  m.scratch = TC_NEW_ARRAY(r->arena, tc_knum, r->k->lanes);
  m.next = TC_NEW_ARRAY(r->arena, tc_knum *, r->k->n_regions);
  prepare_values(&m);
  prepare_memory(&m);
  tc_status s = TC_OK;
  for (int64_t b = 0; b < r->blocks && !s; b++) {
    start_block(&m, (int32_t)b);
    s = do_region(&m, r->k->body);
  }
  if (r->out_failed_site) *r->out_failed_site = m.failed_site;
  return s;
}

tc_status tc_kernel_interpret(const tc_allocator *a, const tc_kernel *k, int64_t blocks, const tc_karg *args,
                              int32_t n_args, int64_t *out_failed_site) {
  if (n_args != k->n_params)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "kernel @" TC_SV_FMT " takes %d arguments, not %d", TC_SV_ARG(k->name),
                    (int)k->n_params, (int)n_args);
  if (blocks < 0 || blocks > INT32_MAX)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "a grid of %lld blocks is not possible", (long long)blocks);
  TC_TRY(tc_kernel_verify(k));
  if (k->source.language.size)
    return tc_error(TC_STATUS_UNIMPLEMENTED, "kernel @" TC_SV_FMT " is given in the language '" TC_SV_FMT "' alone",
                    TC_SV_ARG(k->name), TC_SV_ARG(k->source.language));
  for (int32_t p = 0; p < k->n_params; p++) {
    if (!k->params[p].is_scalar) continue;
    const tc_kscalar_info *s = &k->scalars[k->params[p].index];
    if (tc_dtype_is_float(s->dtype)) continue;
    int64_t v = tc_kir_wrap(s->dtype, args[p].bits);
    if (v < s->lo || v > s->hi || v % s->divisor)
      return tc_error(TC_STATUS_INVALID_ARGUMENT,
                      "kernel @" TC_SV_FMT ": %%" TC_SV_FMT " = %lld contradicts the facts that are declared",
                      TC_SV_ARG(k->name), TC_SV_ARG(s->name), (long long)v);
  }
  tc_arena *arena;
  TC_TRY(tc_arena_create(a, &arena));
  run r = {k, arena, args, blocks, out_failed_site};
  tc_status s = tc_arena_guard(arena, run_in_arena, &r);
  tc_arena_destroy(arena);
  return s;
}
