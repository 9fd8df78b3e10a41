// tcrun conform, groups capture, fault and perf: recorded work against ordinary work; programs whose allocations fail;
// rates against those that the device claims.
#include <string.h>

#include "tcrun/conform_program.h"
#include "tcrun/replays.h"

static const tc_device_table *table_of(const kit *k) { return k->plugin->device; }

// ---- Recorded work ----
static tc_status with_graphs(kit *k, tc_status (*run)(kit *k, tc_handle stream)) {
  tc_handle stream = 0;
  int32_t code = table_of(k)->graph_begin(k->device, &stream);
  if (code == TC_STATUS_UNIMPLEMENTED) {
    kit_unsupported(k, "the device records no graphs");
    return TC_OK;
  }
  KIT_OK(k, code);
  return run(k, stream);
}

enum { SIZE = 4096 };
static tc_status all_bytes(kit *k, tc_handle m, uint8_t want, const char *when) {
  uint8_t *got = tc_arena_alloc(k->arena, SIZE);
  KIT_OK(k, table_of(k)->copy_out(k->device, k->stream, got, m, 0, SIZE));
  for (int32_t i = 0; i < SIZE; i++)
    KIT_CHECK(got[i] == want, "%s: byte %d is %d, it should be %d", when, i, got[i], want);
  return TC_OK;
}

// A graph of a fill and a copy; memory changes between its launches.
static tc_status record(kit *k, tc_handle stream) {
  const tc_device_table *t = table_of(k);
  tc_handle a = 0, b = 0, graph = 0;
  KIT_OK(k, t->alloc(k->device, SIZE, &a));
  KIT_OK(k, t->alloc(k->device, SIZE, &b));
  KIT_OK(k, t->fill(k->device, k->stream, a, 0, 1, SIZE));
  KIT_OK(k, t->fill(k->device, k->stream, b, 0, 2, SIZE));
  KIT_OK(k, t->synchronize(k->device, k->stream));
  KIT_OK(k, t->copy(k->device, stream, b, 0, a, 0, SIZE));
  KIT_OK(k, t->fill(k->device, stream, a, 0, 3, SIZE));
  KIT_OK(k, t->graph_end(k->device, stream, &graph));
  TC_TRY(all_bytes(k, a, 1, "what is recorded was done at once"));
  TC_TRY(all_bytes(k, b, 2, "what is recorded was done at once"));
  KIT_OK(k, t->graph_launch(k->device, k->stream, graph));
  TC_TRY(all_bytes(k, b, 1, "after a launch of the graph"));
  TC_TRY(all_bytes(k, a, 3, "after a launch of the graph"));
  KIT_OK(k, t->fill(k->device, k->stream, a, 0, 9, SIZE));
  KIT_OK(k, t->graph_launch(k->device, k->stream, graph));
  TC_TRY(all_bytes(k, b, 9, "a second launch works on the memory as it is then"));
  KIT_OK(k, t->synchronize(k->device, k->stream));
  t->graph_destroy(k->device, graph);
  t->free(k->device, a);
  t->free(k->device, b);
  return TC_OK;
}
static tc_status records_open(kit *k) { return with_graphs(k, record); }
static tc_status records(kit *k) { return kit_with_device(k, records_open); }

static tc_status throw_away(kit *k, tc_handle stream) {
  const tc_device_table *t = table_of(k);
  tc_handle a = 0;
  KIT_OK(k, t->alloc(k->device, SIZE, &a));
  KIT_OK(k, t->fill(k->device, k->stream, a, 0, 5, SIZE));
  KIT_OK(k, t->synchronize(k->device, k->stream));
  KIT_OK(k, t->fill(k->device, stream, a, 0, 6, SIZE));
  KIT_OK(k, t->graph_end(k->device, stream, NULL));
  TC_TRY(all_bytes(k, a, 5, "a recording that was thrown away was done"));
  t->free(k->device, a);
  return TC_OK;
}
static tc_status discards_open(kit *k) { return with_graphs(k, throw_away); }
static tc_status discards(kit *k) { return kit_with_device(k, discards_open); }

// ---- Programs in a mode with recorded runs: bit for bit what ordinary runs give ----
static const char *const programs[] = {
    "graph @pointwise (%x : f32[40, 30] = user \"x\", %y : f32[30] = user \"y\") {\n  %a : f32[40, 30] = "
    "aten::add.Tensor(%x, %y)\n  %z : f32[40, 30] = aten::relu(%a)\n  return user %z\n}\n",
    "graph @products (%x : f32[20, 16] = user \"x\", %y : f32[16, 20] = user \"y\") {\n  %a : f32[20, 20] = "
    "aten::mm(%x, %y)\n  %b : f32[20, 20] = aten::relu(%a)\n  %c : f32[20, 16] = aten::mm(%b, %x)\n  return user "
    "%c\n}\n"};

static tc_status replay(kit *k, tc_context *c, const char *text) {
  kit_ready r = {.n = 0};
  tc_tensor *inputs = NULL;
  run_options o = *k->o;
  o.arena = k->arena, o.replays = 12, o.seed = 1;
  tc_status s = kit_make_ready(k->arena, c, text, 0, &r);
  if (s == TC_OK) s = kit_inputs(k, c, &r, 0, &inputs);
  if (s == TC_OK) s = tcrun_check_replays(c, &o, &r.m, r.session, inputs);
  if (inputs) tcrun_free_tensors(inputs, r.m.graph->inputs.count);
  kit_close_ready(&r);
  return tc_status_note(s, "in the program\n%s", text);
}

static tc_status graphs_there_open(kit *k) {
  tc_handle stream = 0;
  const tc_device_table *t = table_of(k);
  int32_t code = t->graph_begin(k->device, &stream);
  if (code == TC_STATUS_UNIMPLEMENTED) {
    kit_unsupported(k, "the device records no graphs");
    return TC_OK;
  }
  KIT_OK(k, code);
  KIT_OK(k, t->graph_end(k->device, stream, NULL));
  return TC_OK;
}

static tc_status replays(kit *k) {
  tc_context *c;
  TC_TRY(kit_with_device(k, graphs_there_open));
  if (k->unsupported[0]) return TC_OK;
  TC_TRY(kit_context(k, "reduce-overhead", &c));
  for (size_t i = 0; c && i < sizeof programs / sizeof *programs; i++) TC_TRY(replay(k, c, programs[i]));
  return TC_OK;
}

// ---- Failing allocations ----
// A context, a session and a run over an allocator that fails once; whatever comes back, nothing may stay.
typedef struct attempt {
  tc_config *config;
  tc_context *c;
  kit_ready r;
  tc_tensor *inputs;
} attempt;

static tc_status attempt_run(kit *k, const tc_allocator *a, attempt *t, const kit_ready *ref, const tc_tensor *inputs) {
  run_options again;
  tc_plugin *p;
  TC_TRY(tcrun_parse(k->arena, k->o->argc, k->o->argv, &again));
  tc_status s = kit_configure(k, NULL, again.config);
  if (s != TC_OK) {
    tc_config_destroy(again.config);
    return s;
  }
  TC_TRY(tc_context_create(a, again.config, tc_logger_silent, &t->c));
  TC_TRY(tc_context_add_plugin(t->c, k->file, &p));
  TC_TRY(tc_context_open_backend(t->c));
  TC_TRY(kit_make_ready(k->arena, t->c, programs[1], 0, &t->r));
  TC_TRY(kit_run_ready(&t->r, inputs));
  return kit_compare(&t->r, ref);
}

static tc_status try_faults(kit *k, const kit_ready *ref, const tc_tensor *inputs) {
  enum { TRIES = 24 };
  tc_fault_allocator f;
  int64_t all = 0;
  for (int32_t i = 0; i <= TRIES; i++) {
    attempt t = {.c = NULL};
    tc_fault_allocator_init(&f, tc_system_allocator());
    f.fail_at = i ? 1 + (int64_t)(kit_random(k) % (uint64_t)(all > 0 ? all : 1)) : 0;
    tc_status s = attempt_run(k, &f.iface, &t, ref, inputs);
    kit_close_ready(&t.r);
    if (t.c) tc_context_destroy(t.c);
    if (!i) all = f.count;
    bool fine = s == TC_OK || (i && tc_status_code(s) == TC_STATUS_OUT_OF_MEMORY);
    if (!fine) return tc_status_note(s, "with allocation %lld of %lld failing", (long long)f.fail_at, (long long)all);
    tc_status_free(s);
    KIT_CHECK(f.live == 0, "with allocation %lld of %lld failing, %lld blocks stay behind", (long long)f.fail_at,
              (long long)all, (long long)f.live);
  }
  return TC_OK;
}

static tc_status program_faults(kit *k) {
  tc_context *c, *references;
  kit_ready ref = {.n = 0};
  tc_tensor *inputs = NULL;
  TC_TRY(kit_context(k, NULL, &c));
  if (!c) return TC_OK;
  TC_TRY(kit_references(k, &references));
  tc_status s = kit_make_ready(k->arena, references, programs[1], 0, &ref);
  if (s == TC_OK) s = kit_inputs(k, references, &ref, 0, &inputs);
  if (s == TC_OK) s = kit_run_ready(&ref, inputs);
  if (s == TC_OK) s = try_faults(k, &ref, inputs);
  if (inputs) tcrun_free_tensors(inputs, ref.m.graph->inputs.count);
  kit_close_ready(&ref);
  return s;
}

// ---- Rates ----
// How long a run takes against operations and bytes at the rates that the device claims. A claim decides what is fused
// and what is left to libraries; it need not be exact, and a busy machine is slow, but one that is a million times too
// high has the wrong unit.
enum { RUNS = 5, FAR_OFF = 1000000, LONG_NS = 100000 };

static tc_status time_runs(tc_context *c, kit_ready *r, const tc_tensor *inputs, double *out_ns) {
  tc_device *d = c->device;
  *out_ns = 0;
  for (int32_t i = 0; i < RUNS; i++) {
    double start = tc_now_ms();
    tcrun_free_tensors(r->outputs, r->n);
    memset(r->outputs, 0, (size_t)r->n * sizeof *r->outputs);
    TC_TRY(tc_session_run(r->session, inputs, r->outputs, &(tc_session_run_options){.device_outputs = true}));
    if (d) TC_TRY(tc_plugin_status(d->plugin, d->plugin->device->synchronize(d->handle, d->stream), "while timing"));
    double ns = (tc_now_ms() - start) * 1e6;
    if (i == 0 || ns < *out_ns) *out_ns = ns;
  }
  return TC_OK;
}

// The shortest of some runs; 0 where it is left to the references.
static tc_status time_text(kit *k, const char *text, double *out_ns) {
  tc_context *c;
  kit_ready r = {.n = 0};
  tc_tensor *inputs = NULL;
  *out_ns = 0;
  TC_TRY(kit_context(k, NULL, &c));
  if (!c) return TC_OK;
  tc_status s = kit_make_ready(k->arena, c, text, 0, &r);
  if (s == TC_OK) s = kit_judge_fallbacks(k, c, r.session);
  if (s == TC_OK && !k->unsupported[0]) {
    s = kit_inputs(k, c, &r, 0, &inputs);
    if (s == TC_OK) s = time_runs(c, &r, inputs, out_ns);
  }
  if (inputs) tcrun_free_tensors(inputs, r.m.graph->inputs.count);
  kit_close_ready(&r);
  return s;
}

static tc_status judge_rate(kit *k, double got, double claimed, const char *unit) {
  KIT_CHECK(got * FAR_OFF >= claimed, "the device claims %g %s and does %.3g: another unit?", claimed, unit, got);
  kit_note(k, "%.3g %s of %g", got, unit, claimed);
  return TC_OK;
}

// Opens and closes: the properties stay.
static tc_status look(kit *k, int64_t (*rate_of)(const tc_device_props *p), double *out) {
  bool there;
  TC_TRY(kit_open(k, &there));
  kit_close(k);
  *out = there ? (double)rate_of(&k->props) : 0;
  if (there && *out <= 0) kit_unsupported(k, "the device does not say how fast it is");
  return TC_OK;
}
static int64_t flops_of(const tc_device_props *p) { return p->flops_per_ns; }
static int64_t bytes_of(const tc_device_props *p) { return p->bytes_per_ns; }

// Sizes grow until the work takes a tenth of a millisecond.
static tc_status product_rate(kit *k) {
  enum { MOST = 2048 };
  double claimed, ns = 0;
  long long n = 64;
  TC_TRY(look(k, flops_of, &claimed));
  if (claimed <= 0) return TC_OK;
  for (;; n *= 2) {
    tc_sv text = tc_sv_printf(k->arena,
                              "graph @f (%%x : f32[%lld, %lld] = user \"x\", %%y : f32[%lld, %lld] = user \"y\") {\n  "
                              "%%z : f32[%lld, %lld] = aten::mm(%%x, %%y)\n  return user %%z\n}\n",
                              n, n, n, n, n, n);
    TC_TRY(time_text(k, text.data, &ns));
    if (ns <= 0) return TC_OK;
    if (ns >= LONG_NS || n >= MOST) break;
  }
  return judge_rate(k, 2 * (double)n * (double)n * (double)n / ns, claimed, "operations per ns");
}

static tc_status sum_rate(kit *k) {
  enum { MOST = 1 << 26 };
  double claimed, ns = 0;
  long long n = 4096;
  TC_TRY(look(k, bytes_of, &claimed));
  if (claimed <= 0) return TC_OK;
  for (;; n *= 4) {
    tc_sv text = tc_sv_printf(k->arena,
                              "graph @f (%%x : f32[%lld] = user \"x\", %%y : f32[%lld] = user \"y\") {\n  %%z : "
                              "f32[%lld] = aten::add.Tensor(%%x, %%y)\n  return user %%z\n}\n",
                              n, n, n);
    TC_TRY(time_text(k, text.data, &ns));
    if (ns <= 0) return TC_OK;
    if (ns >= LONG_NS || n >= MOST) break;
  }
  return judge_rate(k, 12 * (double)n / ns, claimed, "bytes per ns");
}

static const kit_case cases[] = {
    {"capture", "records", "what is recorded is done at each launch of its graph, and only then", records},
    {"capture", "discards", "a recording that is thrown away was never done", discards},
    {"capture", "replays", "recorded runs give the bits of ordinary ones", replays},
    {"fault", "programs", "each failing allocation is OUT_OF_MEMORY and leaves nothing", program_faults},
    {"perf", "product", "the operations per ns that are claimed have the right unit", product_rate},
    {"perf", "sum", "the bytes per ns that are claimed have the right unit", sum_rate},
};
const kit_cases kit_run_cases = {cases, sizeof cases / sizeof *cases};
