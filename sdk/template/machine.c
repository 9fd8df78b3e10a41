// The machine: runs a program, one block after the other. A value that is the same in all lanes has one slot, another
// one has a slot per lane; each instruction is done for all lanes before the next, which is why barriers need nothing.
// Every access is checked: one that leaves its memory is the launch's failure, with the kernel's name.
#include <string.h>

#include "template.h"

typedef struct machine {
  const tc_device_ *device;
  const function *f;
  const program *p;
  const tc_launch_arg *args;
  tc_error_block *errors;
  char *room;     // of the host: what the others point into
  number *slots;  // of all values
  int64_t *first; // by value: its first slot
  char **mems;    // by memory: its bytes
  int64_t *sizes; // by memory: bytes, of one lane
  int64_t *zeros; // by memory: where element 0 lies in it, in bytes; arguments may have it in front
  number *carried;
  int32_t block;
  int32_t code; // the first failure's
} machine;

static const int32_t *args_of(const machine *m, const inst *in) { return m->p->words + in->words; }
static const int32_t *results_of(const machine *m, const inst *in) { return args_of(m, in) + in->n_args; }
static const int32_t *regions_of(const machine *m, const inst *in) { return results_of(m, in) + in->n_results; }
static int32_t lanes_of(const machine *m, int32_t v) { return m->p->values[v].varying ? m->p->head.lanes : 1; }
static number *slot(const machine *m, int32_t v, int32_t lane) {
  return &m->slots[m->first[v] + (m->p->values[v].varying ? lane : 0)];
}
static void copy_value(machine *m, int32_t to, int32_t from) {
  for (int32_t lane = 0; lane < lanes_of(m, to); lane++) *slot(m, to, lane) = *slot(m, from, lane);
}

// ---- Memory ----
static char *element(machine *m, const inst *in, int64_t index, int32_t lane) {
  const memory *info = &m->p->mems[in->mem];
  int64_t bytes = number_bytes(info->dtype), size = m->sizes[in->mem], count = size / bytes;
  int64_t zero = m->zeros[in->mem] / bytes; // offsets are whole elements
  if (index >= -zero && index < count - zero)
    return m->mems[in->mem] + (zero + index) * bytes + (info->space == TC_SPACE_LANE ? lane * size : 0);
  if (m->code == TC_STATUS_OK)
    m->code = template_fail(m->device, TC_STATUS_DEVICE, "@%.150s reads or writes element %lld of %lld", m->f->name,
                            (long long)index, (long long)(count - zero));
  return NULL;
}

static int32_t masked(const machine *m, const inst *in, int32_t arg, int32_t lane) {
  return in->has_mask && !slot(m, args_of(m, in)[arg], lane)->i;
}

static void load(machine *m, const inst *in) {
  const int32_t *args = args_of(m, in), *results = results_of(m, in);
  for (int32_t lane = 0; lane < lanes_of(m, results[0]); lane++) {
    int32_t off = masked(m, in, 1, lane);
    for (int32_t i = 0; i < in->width; i++) {
      const char *at = off ? NULL : element(m, in, slot(m, args[0], lane)->i + i, lane);
      if (at) *slot(m, results[i], lane) = number_read(m->p->mems[in->mem].dtype, at);
      else if (off) *slot(m, results[i], lane) = *slot(m, args[2 + i], lane);
    }
  }
}

static void store(machine *m, const inst *in) {
  const int32_t *args = args_of(m, in);
  tc_dtype type = m->p->mems[in->mem].dtype;
  for (int32_t lane = 0; lane < m->p->head.lanes; lane++) {
    if (masked(m, in, 1 + in->width, lane)) continue;
    for (int32_t i = 0; i < in->width; i++) {
      char *at = element(m, in, slot(m, args[0], lane)->i + i, lane);
      number v = *slot(m, args[1 + i], lane);
      if (!at) continue;
      if (in->op == TC_K_ATOMIC_ADD) v = number_compute(TC_K_ADD, type, number_read(type, at), v, v);
      number_write(type, at, v);
    }
  }
}

// ---- Values ----
static void compute(machine *m, const inst *in) {
  const int32_t *args = args_of(m, in);
  int32_t result = results_of(m, in)[0], n = in->n_args;
  tc_dtype to = m->p->values[result].dtype, from = n ? m->p->values[args[n - 1]].dtype : to;
  for (int32_t lane = 0; lane < lanes_of(m, result); lane++) {
    number x = {.i = 0}, y = x, z = x, *out = slot(m, result, lane);
    if (n > 0) x = *slot(m, args[0], lane);
    if (n > 1) y = *slot(m, args[1], lane);
    if (n > 2) z = *slot(m, args[2], lane);
    switch (in->op) {
    case TC_K_CONST: *out = number_is_float(to) ? (number){.f = in->fimm} : (number){.i = in->imm}; break;
    case TC_K_BLOCK: out->i = m->block; break;
    case TC_K_LANE: out->i = lane; break;
    case TC_K_SCALAR: *out = number_read(to, &m->args[in->imm].value); break; // its low bytes
    case TC_K_CAST: *out = number_cast(from, to, x); break;
    case TC_K_BITCAST: {
      uint64_t bits = 0;
      number_write(from, &bits, x);
      *out = number_read(to, &bits);
      break;
    }
    default: *out = number_compute(in->op, from, x, y, z);
    }
  }
}

static void collect(machine *m, const inst *in) {
  static const int32_t steps[] = {TC_K_ADD, TC_K_MUL, TC_K_MIN, TC_K_MAX, TC_K_AND, TC_K_OR};
  int32_t v = args_of(m, in)[0], result = results_of(m, in)[0];
  tc_dtype type = m->p->values[v].dtype;
  if (in->op == TC_K_BROADCAST) {
    *slot(m, result, 0) = *slot(m, v, (int32_t)in->imm);
    return;
  }
  number all = *slot(m, v, 0);
  for (int32_t lane = 1; lane < m->p->head.lanes; lane++)
    all = number_compute(steps[in->op - TC_K_REDUCE_ADD], type, all, *slot(m, v, lane), all);
  *slot(m, result, 0) = all;
}

static void check(machine *m, const inst *in) {
  int32_t v = args_of(m, in)[0];
  for (int32_t lane = 0; lane < lanes_of(m, v); lane++)
    if (!slot(m, v, lane)->i && m->errors && m->errors->site < 0) m->errors->site = in->imm;
}

// ---- Structure ----
static void run_region(machine *m, int32_t number_of_region);

static const inst *yield_of(const machine *m, int32_t r) {
  const region *g = &m->p->regions[r];
  return &m->p->insts[m->p->words[g->words + g->n_params + g->n_insts - 1]];
}

static void take_results(machine *m, const inst *in, int32_t r) {
  const int32_t *yields = args_of(m, yield_of(m, r));
  for (int32_t i = 0; i < in->n_results; i++) copy_value(m, results_of(m, in)[i], yields[i]);
}

// The next round's values may be this round's in another order: all are read before any is written.
static void carry(machine *m, const int32_t *params, const int32_t *yields, int32_t n) {
  int32_t lanes = m->p->head.lanes;
  for (int32_t i = 0; i < n; i++)
    for (int32_t lane = 0; lane < lanes; lane++) m->carried[i * lanes + lane] = *slot(m, yields[i], lane);
  for (int32_t i = 0; i < n; i++)
    for (int32_t lane = 0; lane < lanes_of(m, params[i]); lane++)
      *slot(m, params[i], lane) = m->carried[i * lanes + lane];
}

static void run_for(machine *m, const inst *in) {
  int32_t r = regions_of(m, in)[0];
  const int32_t *args = args_of(m, in), *params = m->p->words + m->p->regions[r].words;
  const int32_t *yields = args_of(m, yield_of(m, r));
  int64_t i = slot(m, args[0], 0)->i, end = slot(m, args[1], 0)->i;
  for (int32_t c = 0; c < in->n_results; c++) copy_value(m, params[1 + c], args[2 + c]);
  while (i < end && m->code == TC_STATUS_OK) {
    slot(m, params[0], 0)->i = i;
    run_region(m, r);
    carry(m, params + 1, yields, in->n_results);
    if (__builtin_add_overflow(i, in->imm, &i)) break;
  }
  for (int32_t c = 0; c < in->n_results; c++) copy_value(m, results_of(m, in)[c], params[1 + c]);
}

static void run_inst(machine *m, const inst *in) {
  int32_t r;
  switch (in->op) {
  case TC_K_LOAD: load(m, in); break;
  case TC_K_STORE:
  case TC_K_ATOMIC_ADD: store(m, in); break;
  case TC_K_CHECK: check(m, in); break;
  case TC_K_PREFETCH:
  case TC_K_BARRIER:
  case TC_K_YIELD: break;
  case TC_K_FOR: run_for(m, in); break;
  case TC_K_IF:
  case TC_K_LANES:
    r = regions_of(m, in)[in->op == TC_K_IF && !slot(m, args_of(m, in)[0], 0)->i];
    run_region(m, r);
    take_results(m, in, r);
    break;
  case TC_K_REDUCE_ADD:
  case TC_K_REDUCE_MUL:
  case TC_K_REDUCE_MIN:
  case TC_K_REDUCE_MAX:
  case TC_K_REDUCE_AND:
  case TC_K_REDUCE_OR:
  case TC_K_BROADCAST: collect(m, in); break;
  default: compute(m, in);
  }
}

static void run_region(machine *m, int32_t r) {
  const region *g = &m->p->regions[r];
  const int32_t *insts = m->p->words + g->words + g->n_params;
  for (int32_t i = 0; i < g->n_insts && m->code == TC_STATUS_OK; i++) run_inst(m, &m->p->insts[insts[i]]);
}

// ---- A launch ----
static uint64_t rounded(uint64_t size) { return (size + 63) / 64 * 64; }

// Room for everything at once: slots, first slots, what a loop carries, the memories of a block.
static int32_t prepare(machine *m) {
  const program *p = m->p;
  const program_head *h = &p->head;
  uint64_t slots = 0, most = 1, inner = 0;
  for (int32_t v = 0; v < h->n_values; v++) slots += (uint64_t)lanes_of(m, v);
  for (int32_t r = 0; r < h->n_regions; r++)
    if (most < (uint64_t)p->regions[r].n_params) most = (uint64_t)p->regions[r].n_params;
  for (int32_t i = 0; i < h->n_mems; i++) {
    const memory *info = &p->mems[i];
    uint64_t copies = info->space == TC_SPACE_LANE ? (uint64_t)h->lanes : info->space == TC_SPACE_SHARED;
    if (copies) inner += rounded((uint64_t)(info->count * number_bytes(info->dtype)) * copies);
  }
  const uint64_t parts[] = {
      rounded((slots + 1) * sizeof(number)), rounded(((uint64_t)h->n_values + 1) * sizeof(int64_t)),
      rounded(((uint64_t)h->n_mems + 1) * sizeof(char *)), rounded(((uint64_t)h->n_mems + 1) * 2 * sizeof(int64_t)),
      rounded(most * (uint64_t)h->lanes * sizeof(number))};
  char *at = m->room = template_take(m->device, parts[0] + parts[1] + parts[2] + parts[3] + parts[4] + inner);
  if (!at) return TC_STATUS_OUT_OF_MEMORY;
  m->slots = (number *)(void *)at, at += parts[0];
  m->first = (int64_t *)(void *)at, at += parts[1];
  m->mems = (char **)(void *)at, at += parts[2];
  m->sizes = (int64_t *)(void *)at, m->zeros = m->sizes + h->n_mems, at += parts[3];
  m->carried = (number *)(void *)at, at += parts[4];
  int64_t next = 0;
  for (int32_t v = 0; v < h->n_values; v++) m->first[v] = next, next += lanes_of(m, v);
  for (int32_t i = 0; i < h->n_mems; i++) {
    const memory *info = &p->mems[i];
    m->sizes[i] = info->count * number_bytes(info->dtype), m->zeros[i] = 0;
    if (info->space == TC_SPACE_TABLE) m->mems[i] = (char *)(uintptr_t)(p->tables + info->at); // read only
    if (info->space != TC_SPACE_LANE && info->space != TC_SPACE_SHARED) continue;
    m->mems[i] = at;
    at += rounded((uint64_t)m->sizes[i] * (info->space == TC_SPACE_LANE ? (uint64_t)h->lanes : 1));
  }
  return TC_STATUS_OK;
}

static int32_t take_arguments(machine *m) {
  for (int32_t i = 0; i < m->p->head.n_params; i++) {
    const parameter *to = &m->p->params[i];
    const tc_launch_arg *a = &m->args[i];
    if (to->is_scalar) continue;
    const block *b = (const block *)(uintptr_t)a->value;
    char *at = template_range(m->device, a->value, 0, 0);
    if (!at) return TC_STATUS_OUT_OF_RANGE;
    m->mems[to->index] = at;
    m->sizes[to->index] = b->size;
    m->zeros[to->index] = a->offset;
  }
  return TC_STATUS_OK;
}

int32_t template_run(const tc_device_ *d, const function *f, int64_t blocks, const tc_launch_arg *args,
                     tc_error_block *errors) {
  machine m = {.device = d, .f = f, .p = &f->p, .args = args, .errors = errors};
  m.code = prepare(&m);
  if (m.code == TC_STATUS_OK) m.code = take_arguments(&m);
  for (int64_t b = 0; b < blocks && m.code == TC_STATUS_OK; b++) {
    m.block = (int32_t)b;
    run_region(&m, f->p.head.body);
  }
  template_give(d, m.room);
  return m.code;
}
