// Control flow in executables: regions are executables of their own, which run in the run of the one around them, at
// places that this one gives them: no memory is taken, no tensor is made, and symbols are the outer run's, but in loops
// of programs that draw random numbers: there they are a copy, whose seed is the turn's.
//
// What a loop carries: the first turn reads the operands, a turn writes the results or the spares, whichever the turn
// before did not write, and the last turn's place is copied to the results if it is not there. A device with memory of
// its own is waited for only where the host must read a predicate, and at the end of a run. A device graph holds the
// turns of a scan where nothing in them needs the host.
#include <string.h>

#include "core/ir/control.h"
#include "core/runtime/exec_internal.h"

struct exec_control {
  tc_exec *regions[2]; // as in the plan
  exec_number predicate, turns;
  bool told;            // the predicate is operand 0
  exec_number *offsets; // by argument: elements
  exec_number *steps;   // by argument: elements from one turn to the next
  exec_number *bytes;   // by carried tensor
  exec_number arena[2]; // by region: where its arena begins
};

static int32_t first_operand(const tc_plan_op *op) { return op->kind == TC_PLAN_IF && !op->predicate; }

// ---- Creation ----
static tc_status create_regions(tc_exec *e, const tc_plan_op *op, exec_control *c, tc_compile_stats *stats) {
  for (int32_t k = 0; k < tc_plan_region_count(op->kind); k++) {
    tc_compile_stats own = {0};
    TC_TRY(tc_exec_create(e->d, op->regions[k], &c->regions[k], &own), "in a region of @" TC_SV_FMT,
           TC_SV_ARG(op->name));
    if (stats) stats->kernels += own.kernels, stats->hits += own.hits, stats->ms += own.ms;
    if (c->regions[k]->n_symbols > e->n_symbols) e->n_symbols = c->regions[k]->n_symbols;
  }
  return TC_OK;
}

tc_status exec_control_create(tc_exec *e, exec_op *x, tc_compile_stats *stats) {
  const tc_plan_op *op = x->op;
  exec_control *c = x->control = TC_NEW(e->arena, exec_control);
  c->told = op->kind == TC_PLAN_IF && !op->predicate;
  c->predicate = exec_number_make(e, op->predicate), c->turns = exec_number_make(e, op->turns);
  c->offsets = TC_NEW_ARRAY(e->arena, exec_number, op->n_args);
  c->steps = TC_NEW_ARRAY(e->arena, exec_number, op->n_args);
  c->bytes = TC_NEW_ARRAY(e->arena, exec_number, op->n_carry);
  for (int32_t i = 0; i < op->n_args; i++) {
    bool scanned = i >= op->n_carry && i < op->n_carry + op->n_xs, stacked = i >= op->n_operands + op->n_carry;
    c->offsets[i] = exec_number_make(e, op->views[i].offset);
    c->steps[i].fixed = true;
    if (op->kind == TC_PLAN_SCAN && (scanned || stacked)) c->steps[i] = exec_number_make(e, op->views[i].strides[0]);
  }
  for (int32_t i = 0; i < op->n_carry; i++) c->bytes[i] = exec_number_make(e, e->plan->bufs.data[op->spares[i]].bytes);
  for (int32_t k = 0; k < tc_plan_region_count(op->kind); k++)
    c->arena[k] = exec_number_make(e, tc_plan_region_offset(op, k));
  return create_regions(e, op, c, stats);
}

const tc_exec *exec_control_region(const exec_op *x, int32_t region) { return x->control->regions[region]; }

void exec_control_destroy(exec_op *x) {
  for (int32_t k = 0; x->control && k < 2; k++) tc_exec_destroy(x->control->regions[k]);
}

// ---- Frames: regions in a run ----
typedef struct frame {
  run_state r;
  tc_exec *e; // NULL: not opened
  const exec_number *arena;
  bool begun; // it ran before
  void *memory;
} frame;

// The report of a run counts an op with regions as one.
static tc_status open_frame(const run_state *outer, int64_t *symbols, exec_control *c, int32_t region, frame *f) {
  tc_exec *e = c->regions[region];
  static const tc_run_options plain = {0};
  size_t n_bufs = (size_t)e->plan->bufs.count, n_errors = (size_t)e->n_errors;
  f->e = e, f->arena = &c->arena[region];
  f->memory = tc_alloc(e->d->allocator, n_bufs * sizeof(exec_address) + n_errors * sizeof(tc_pool_block *) + 1);
  if (!f->memory) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a region");
  f->r = (run_state){.e = e, .options = &plain, .symbols = symbols, .recorder = outer->recorder};
  f->r.address = f->memory;
  f->r.error_blocks = (tc_pool_block **)(void *)(f->r.address + n_bufs);
  return exec_place_errors(&f->r);
}

static void close_frame(frame *f) {
  for (int32_t i = 0; f->memory && i < f->e->n_errors; i++) tc_pool_give(f->r.error_blocks[i]);
  if (f->e) tc_free(f->e->d->allocator, f->memory);
}

// inputs and results by number; what is no tensor has no place.
static tc_status run_frame(frame *f, exec_address scratch, const exec_address *inputs, const exec_address *results) {
  const tc_plan *p = f->e->plan;
  int64_t begin;
  TC_TRY(exec_value(f->arena, f->r.symbols, &begin));
  if (p->graph) TC_TRY(tc_graph_check(p->graph, f->e->n_symbols, f->r.symbols, NULL));
  for (int32_t i = 0; i < p->bufs.count; i++) {
    const tc_plan_buf *b = &p->bufs.data[i];
    int64_t at;
    if (b->kind == TC_PLAN_INPUT) f->r.address[i] = inputs[b->input];
    if (b->kind != TC_PLAN_ARENA) continue;
    TC_TRY(exec_value(&f->e->bufs[i].place, f->r.symbols, &at));
    f->r.address[i] = (exec_address){scratch.memory, scratch.offset + begin + at};
  }
  for (int32_t i = 0, k = 0; i < p->outputs.count; i++)
    if (p->outputs.data[i].buf >= 0) f->r.address[p->outputs.data[i].buf] = results[k++];
  bool first = !f->begun;
  f->begun = true;
  return exec_run_turn(&f->r, first);
}

// ---- A run ----
typedef struct flow {
  run_state *r;
  const tc_plan_op *op;
  exec_control *c;
  frame frames[2];
  exec_address scratch;
  int32_t n_results;
  int64_t *symbols; // of the frames
  bool draws;       // a loop: each turn has a seed of its own
  uint64_t seed;    // around the loop
  // Operands that regions see and results; places of the turn; what is carried is in front.
  exec_address *operands, *results, *inputs, *outputs;
} flow;

static exec_address moved(exec_address a, int64_t bytes) { return a.offset += bytes, a; }

static tc_status place(flow *f, int32_t arg, exec_address *out) {
  int64_t at;
  TC_TRY(exec_value(&f->c->offsets[arg], f->r->symbols, &at));
  *out = moved(f->r->address[f->op->args[arg].buf], at * tc_dtype_size(f->op->views[arg].dtype));
  return TC_OK;
}

// One element that the host must know.
static tc_status read_truth(flow *f, exec_address a, tc_dtype dtype, bool *out) {
  tc_device *d = f->r->e->d;
  unsigned char bytes[16] = {0}, any = 0;
  TC_TRY(tc_plugin_status(
      d->plugin,
      d->plugin->device->copy_out(d->handle, d->stream, bytes, a.memory, a.offset, (uint64_t)tc_dtype_size(dtype)),
      "while reading a predicate"));
  if (!d->props.host_memory) TC_TRY(exec_synchronize(d));
  for (size_t i = 0; i < sizeof bytes; i++) any |= bytes[i];
  bool negative_zero = tc_dtype_is_float(dtype) && any == 0x80 && bytes[tc_dtype_size(dtype) - 1] == 0x80;
  *out = any != 0 && !negative_zero;
  return TC_OK;
}

static tc_status run_if(flow *f) {
  bool truth;
  int64_t v = 0;
  if (f->c->told) {
    exec_address at;
    TC_TRY(place(f, 0, &at));
    TC_TRY(read_truth(f, at, f->op->views[0].dtype, &truth));
  } else {
    TC_TRY(exec_value(&f->c->predicate, f->r->symbols, &v));
    truth = v != 0;
  }
  int32_t k = truth ? 0 : 1;
  TC_TRY(open_frame(f->r, f->symbols, f->c, k, &f->frames[k]));
  return run_frame(&f->frames[k], f->scratch, f->operands, f->results);
}

static void begin_turn(flow *f, int64_t turn) {
  if (f->draws) exec_set_seed(f->r->e, tc_turn_seed(f->seed, turn), f->symbols);
}

// Where turn i writes what it carries: its results and its spares in turn.
static void choose_places(flow *f, bool spare) {
  for (int32_t i = 0; i < f->op->n_carry; i++) f->outputs[i] = spare ? f->r->address[f->op->spares[i]] : f->results[i];
}

static void carry(flow *f) { memcpy(f->inputs, f->outputs, (size_t)f->op->n_carry * sizeof *f->inputs); }

// What is carried is in the inputs' places; it belongs into the results'.
static tc_status finish_carried(flow *f) {
  tc_device *d = f->r->e->d;
  for (int32_t i = 0; i < f->op->n_carry; i++) {
    int64_t bytes;
    exec_address from = f->inputs[i], to = f->results[i];
    TC_TRY(exec_value(&f->c->bytes[i], f->r->symbols, &bytes));
    if (bytes == 0 || (from.memory == to.memory && from.offset == to.offset)) continue;
    TC_TRY(tc_plugin_status(
        d->plugin,
        d->plugin->device->copy(d->handle, d->stream, to.memory, to.offset, from.memory, from.offset, (uint64_t)bytes),
        "while copying what a loop carries"));
  }
  return TC_OK;
}

static tc_status run_while(flow *f) {
  const tc_plan *test = f->c->regions[0]->plan;
  tc_pool_block *truth = NULL;
  bool go = true;
  tc_dtype dtype = test->bufs.data[test->outputs.data[0].buf].dtype;
  for (int32_t k = 0; k < 2; k++) TC_TRY(open_frame(f->r, f->symbols, f->c, k, &f->frames[k]));
  TC_TRY(tc_pool_take(f->r->e->d->memory, tc_dtype_size(dtype), &truth));
  exec_address at = {truth->memory, 0};
  tc_status s = TC_OK;
  for (int64_t turn = 0; s == TC_OK; turn++) {
    begin_turn(f, turn);
    s = run_frame(&f->frames[0], f->scratch, f->inputs, &at);
    if (s == TC_OK) s = read_truth(f, at, dtype, &go);
    if (s != TC_OK || !go) break;
    choose_places(f, turn % 2 != 0);
    s = run_frame(&f->frames[1], f->scratch, f->inputs, f->outputs);
    carry(f);
  }
  tc_pool_give(truth);
  return s == TC_OK ? finish_carried(f) : s;
}

static tc_status run_scan(flow *f) {
  int64_t turns, step;
  TC_TRY(exec_value(&f->c->turns, f->r->symbols, &turns));
  TC_TRY(open_frame(f->r, f->symbols, f->c, 0, &f->frames[0]));
  for (int64_t turn = 0; turn < turns; turn++) {
    int64_t i = f->op->reverse ? turns - 1 - turn : turn;
    begin_turn(f, i);
    choose_places(f, (turns - turn) % 2 == 0); // the last turn writes the results
    for (int32_t k = f->op->n_carry; k < f->op->n_carry + f->op->n_xs; k++) {
      TC_TRY(exec_value(&f->c->steps[k], f->r->symbols, &step));
      f->inputs[k] = moved(f->operands[k], i * step * tc_dtype_size(f->op->views[k].dtype));
    }
    for (int32_t k = f->op->n_carry; k < f->n_results; k++) {
      int32_t arg = f->op->n_operands + k;
      TC_TRY(exec_value(&f->c->steps[arg], f->r->symbols, &step));
      f->outputs[k] = moved(f->results[k], i * step * tc_dtype_size(f->op->views[arg].dtype));
    }
    TC_TRY(run_frame(&f->frames[0], f->scratch, f->inputs, f->outputs), "in turn %lld", (long long)turn);
    carry(f);
  }
  return finish_carried(f);
}

static tc_status run_flow(flow *f) {
  int32_t first = first_operand(f->op);
  for (int32_t i = first; i < f->op->n_operands; i++) TC_TRY(place(f, i, &f->operands[i - first]));
  for (int32_t i = 0; i < f->n_results; i++) TC_TRY(place(f, f->op->n_operands + i, &f->results[i]));
  memcpy(f->inputs, f->operands, (size_t)f->op->n_operands * sizeof *f->inputs);
  memcpy(f->outputs, f->results, (size_t)f->n_results * sizeof *f->outputs);
  if (f->op->scratch >= 0) f->scratch = f->r->address[f->op->scratch];
  tc_status s = f->op->kind == TC_PLAN_IF ? run_if(f) : f->op->kind == TC_PLAN_WHILE ? run_while(f) : run_scan(f);
  for (int32_t k = 0; k < 2 && s == TC_OK; k++)
    if (f->frames[k].e) s = exec_read_errors(&f->frames[k].r);
  return s;
}

bool exec_control_can_record(const run_state *r, const exec_op *x) {
  enum { MOST_NODES = 1 << 14 };
  int64_t turns = 0;
  if (x->op->kind != TC_PLAN_SCAN) return false;
  const tc_exec *body = x->control->regions[0];
  tc_status s = exec_value(&x->control->turns, r->symbols, &turns);
  bool can = s == TC_OK && turns > 0 && turns * body->plan->ops.count <= MOST_NODES && body->n_errors == 1;
  tc_status_free(s);
  for (int32_t i = 0; can && i < body->plan->ops.count; i++) can = body->plan->ops.data[i].kind == TC_PLAN_LAUNCH;
  return can;
}

tc_status exec_control_run(run_state *r, exec_op *x) {
  tc_device *d = r->e->d;
  flow f = {.r = r, .op = x->op, .c = x->control, .n_results = x->op->n_args - x->op->n_operands};
  size_t n = (size_t)f.op->n_operands, m = (size_t)f.n_results;
  f.symbols = r->symbols;
  f.draws = f.op->kind != TC_PLAN_IF && exec_seed_of(r->e, r->symbols, &f.seed);
  size_t places = (2 * n + 2 * m + 1) * sizeof(exec_address), own = f.draws ? (size_t)r->e->n_symbols : 0;
  exec_address *memory = tc_alloc(d->allocator, places + own * sizeof *f.symbols);
  if (!memory) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for control flow");
  if (f.draws) f.symbols = memcpy((char *)memory + places, r->symbols, own * sizeof *f.symbols);
  f.operands = memory, f.inputs = memory + n, f.results = memory + 2 * n, f.outputs = f.results + m;
  tc_status s = run_flow(&f);
  if (s != TC_OK && !d->props.host_memory) tc_status_free(exec_synchronize(d)); // before the error blocks go back
  for (int32_t k = 0; k < 2; k++) close_frame(&f.frames[k]);
  tc_free(d->allocator, memory);
  return tc_status_note(s, "while running @" TC_SV_FMT, TC_SV_ARG(f.op->name));
}
