// The cases of one archive: inputs from the safetensors file beside it, a run, every output compared.
//
// A case is a program of the archive ("method"), or for NAME.dyn.pt2 one of the sets of inputs in, in1, in2. Keys are
// [METHOD.]KIND.I. Without a file the inputs are random and the references give what is expected.
#include <math.h>
#include <string.h>

#include "tcrun/check.h"
#include "tcrun/check_grad.h"
#include "tcrun/gradcheck.h"
#include "tcrun/replays.h"
#include "tcrun/round_trip.h"

typedef struct check_case {
  const check_run *r;
  const check_file *f;
  tc_context *c;
  tc_arena *arena;
  run_options options;           // with the case's arena
  tc_pt2 *archive;               // NULL: a .tc or .tcx file
  tc_sv method;                  // .tcx: the program
  const tc_tensor_list *tensors; // NULL: none
  int32_t program;
  tc_sv label, prefix; // "f32_0" and "f32_0."; models: "" and ""; in1: "in1" and ""
  int32_t set;         // 0, or N of inN
  tc_json line;        // of the index
  // Results.
  model m;
  tc_session *session;
  tc_tensor *inputs, *outputs;
  tc_sb record; // "outputs" of the report
  double compile_ms, run_ms;
  bool skip; // a failure is not what was asked about
} check_case;

// ---- Keys ----
static const tc_tensor *find(const check_case *k, const char *kind, int32_t i) {
  tc_sv key = tc_sv_printf(k->arena, TC_SV_FMT "%s.%d", TC_SV_ARG(k->prefix), kind, i);
  return k->tensors ? tc_tensor_list_find(k->tensors, key) : NULL;
}

static const tc_tensor *find_set(const check_case *k, const char *kind, int32_t i) {
  char name[16];
  snprintf(name, sizeof name, k->set ? "%s%d" : "%s", kind, k->set);
  return find(k, name, i);
}

static tc_json item(tc_json list, int32_t i) {
  tc_json_iter it = tc_json_begin(list);
  while (tc_json_next(&it)) {
    if (i-- == 0) return it.value;
  }
  return (tc_json){0};
}

static bool flag(tc_json line, const char *key) {
  bool v = false;
  return tc_json_bool(tc_json_get(line, key), &v) && v;
}

// ---- Inputs ----
// A tensor as the index describes it: its strides and offset, NaN (or what is rarely right) in between.
static tc_status place(const check_case *k, const tc_tensor *t, const int64_t *strides, int64_t offset,
                       tc_tensor *out) {
  const tc_allocator *a = k->c->allocator;
  int64_t span = 1, size = tc_dtype_size(t->dtype);
  for (int32_t d = 0; d < t->rank; d++)
    span = t->sizes[d] == 0 || span == 0 ? 0 : span + (t->sizes[d] - 1) * strides[d];
  if (offset < 0 || span < 0 || offset > 1 << 26 || span > 1 << 28)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "an input's strides reach too far");
  tc_storage *s;
  TC_TRY(tc_storage_create(a, (size_t)((offset + span + 1) * size), &s));
  // All bits set is NaN in every floating type, and -1.
  if (tc_dtype_class(t->dtype) != 'b') memset(s->data, 0xff, (size_t)((offset + span + 1) * size));
  else memset(s->data, 1, (size_t)((offset + span + 1) * size));
  tc_status status = tc_tensor_view(s, t->dtype, t->rank, t->sizes, strides, offset, out);
  tc_storage_unref(s);
  return status != TC_OK ? status : tc_tensor_copy(t, out);
}

static tc_status stored_input(const check_case *k, int32_t leaf, const tc_tensor *t, const tc_value *v,
                              tc_tensor *out) {
  tc_json in = item(tc_json_get(k->line, "inputs"), leaf), stride = tc_json_get(in, "stride");
  int64_t strides[TC_MAX_RANK], offset = 0;
  tc_contiguous_strides(t->rank, t->sizes, strides);
  if (k->set == 0 && tc_json_present(stride) && tc_json_count(stride) == t->rank) {
    for (int32_t d = 0; d < t->rank; d++) tc_json_int(item(stride, d), &strides[d]);
    tc_json_int(tc_json_get(in, "offset"), &offset);
  } else if (v->kind == TC_VALUE_TENSOR && v->type.rank == t->rank) {
    for (int32_t d = 0; d < t->rank; d++) {
      if (tc_sym_is_const(v->type.strides[d])) strides[d] = v->type.strides[d]->value;
    }
  }
  return place(k, t, strides, offset, out);
}

static tc_status read_inputs(check_case *k) {
  model *m = &k->m;
  int32_t n = m->graph->inputs.count;
  k->inputs = TC_NEW_ARRAY(k->arena, tc_tensor, n);
  if (!k->tensors) return tcrun_inputs(k->c, &k->options, m, &k->inputs, NULL);
  for (int32_t leaf = 0; leaf < m->n_in; leaf++) {
    const tc_graph_input *in = &m->graph->inputs.data[m->in[leaf]];
    if (!in->value || in->value->kind == TC_VALUE_TOKEN) continue;
    const tc_tensor *t = find_set(k, "in", leaf);
    if (!t) return tc_error(TC_STATUS_NOT_FOUND, "the tensors have no input %d", leaf);
    TC_TRY(stored_input(k, leaf, t, in->value, &k->inputs[m->in[leaf]]), "while making input %d", leaf);
  }
  return TC_OK;
}

// ---- Comparison ----
static void put_number(tc_sb *sb, const char *key, double v) {
  tc_sb_printf(sb, ", \"%s\": ", key);
  if (isfinite(v)) tc_sb_double(sb, v);
  else tc_sb_putz(sb, isnan(v) ? "\"NaN\"" : "\"Infinity\"");
}

static void put_difference(check_case *k, tc_sv name, const difference *d) {
  tc_sb *sb = &k->record;
  if (sb->size) tc_sb_putz(sb, ", ");
  tc_sb_putz(sb, "{\"name\": ");
  tc_json_quote(sb, name);
  put_number(sb, "max_abs", d->max_abs);
  put_number(sb, "rel_l2", d->rel_l2);
  tc_sb_putc(sb, '}');
}

static tolerance tolerance_of(const check_case *k, int32_t leaf, tc_dtype d) {
  tolerance t = tcrun_default_tolerance(d);
  tc_json from = tc_json_present(tc_json_get(k->line, "rtol")) ? k->line : item(tc_json_get(k->line, "outputs"), leaf);
  tc_json_double(tc_json_get(from, "rtol"), &t.rtol);
  tc_json_double(tc_json_get(from, "atol"), &t.atol);
  if (k->options.rtol >= 0) t.rtol = k->options.rtol;
  if (k->options.atol >= 0) t.atol = k->options.atol;
  t.either = false;
  return t;
}

static tc_status compare(check_case *k, tc_sv name, const tc_tensor *got, const tc_tensor *want, const tc_tensor *ref,
                         tolerance t) {
  difference d;
  if (!got->storage) return tc_error(TC_STATUS_MISMATCH, "'" TC_SV_FMT "' was not made", TC_SV_ARG(name));
  bool model = !tc_json_present(tc_json_get(k->line, "rtol"));
  if (!ref && model) t.rtol *= 2, t.atol *= 2;
  tc_status s = tcrun_compare(k->c->allocator, got, want, ref, &t, &d);
  put_difference(k, name, &d);
  return tc_status_note(s, "while comparing '" TC_SV_FMT "'", TC_SV_ARG(name));
}

// The strides that the archive promises, where the sizes let them be seen.
static tc_status check_strides(check_case *k, int32_t output, const tc_tensor *got, const int64_t *symbols) {
  const model *m = &k->m;
  if (output >= m->n_out_types || !got->storage) return TC_OK;
  const tc_tensor_type *t = &m->out_types[output];
  if (t->rank != got->rank || tc_tensor_numel(got) == 0) return TC_OK;
  for (int32_t d = 0; d < got->rank; d++) {
    int64_t want;
    if (got->sizes[d] < 2) continue;
    if (!tc_session_eval(k->session, t->strides[d], symbols, &want)) continue;
    if (want != got->strides[d])
      return tc_error(TC_STATUS_MISMATCH, "stride %d is %lld instead of %lld", d, (long long)got->strides[d],
                      (long long)want);
  }
  return TC_OK;
}

// What our meta functions said against what the archive says, for outputs.
static tc_status check_promises(const check_case *k, int32_t output) {
  const tc_program *p = k->m.program;
  for (int32_t i = 0; p && i < p->disagreements.count; i++) {
    const tc_pt2_disagreement *d = &p->disagreements.data[i];
    if (d->harmless || !(d->what & (TC_PT2_DTYPE | TC_PT2_SIZES | TC_PT2_STRIDES))) continue;
    if (output < k->m.n_out_types && tc_sv_eq(d->value, k->m.out_names[output]))
      return tc_error(TC_STATUS_MISMATCH,
                      "the archive says " TC_SV_FMT ", the meta function of " TC_SV_FMT " " TC_SV_FMT,
                      TC_SV_ARG(d->archive), TC_SV_ARG(d->op), TC_SV_ARG(d->meta));
  }
  return TC_OK;
}

static bool is_special_complex(const check_case *k, tc_dtype d) {
  tc_sv source = {0};
  return tc_json_str(tc_json_get(k->line, "source"), &source) && tc_sv_is(source, "special") && tc_dtype_is_complex(d);
}

static const tc_tensor *first_input(const check_case *k) {
  return k->m.n_in > 0 && k->inputs[k->m.in[0]].storage ? &k->inputs[k->m.in[0]] : NULL;
}
static tc_sv op_of(const check_case *k) {
  tc_sv op = {0};
  tc_json_str(tc_json_get(k->line, "op"), &op);
  return op;
}

// The outputs of a case of which several results are right; *out_done if they were compared here.
static tc_status compare_factors(check_case *k, bool *out_done) {
  enum { MOST = 4 };
  const tc_tensor *got[MOST], *want[MOST];
  int32_t n = tcrun_user_outputs(&k->m);
  *out_done = false;
  if (!flag(k->line, "not_unique") || k->set || n > MOST || !first_input(k)) return TC_OK;
  for (int32_t i = 0; i < n; i++) {
    got[i] = &k->outputs[tcrun_output_of(&k->m, i)], want[i] = find(k, "out", i);
    if (!want[i] || !got[i]->storage) return TC_OK;
  }
  return tcrun_compare_factors(k->c->allocator, op_of(k), first_input(k), n, got, want, out_done);
}

static tc_status compare_outputs(check_case *k, const int64_t *symbols) {
  const model *m = &k->m;
  int32_t n = tcrun_user_outputs(m);
  tc_json outputs = tc_json_get(k->line, "outputs");
  if (tc_json_present(outputs) && k->set == 0 && tc_json_count(outputs) != n)
    return tc_error(TC_STATUS_MISMATCH, "%d outputs instead of %lld", n, (long long)tc_json_count(outputs));
  int32_t extra = m->graph->outputs.count - m->n_out_types; // mutations that functionalising put in front
  bool compared;
  TC_TRY(compare_factors(k, &compared));
  for (int32_t leaf = 0; leaf < n; leaf++) {
    int32_t i = tcrun_output_of(m, leaf);
    const tc_tensor *got = &k->outputs[i], *want = find_set(k, "out", leaf),
                    *ref = k->set ? NULL : find(k, "ref", leaf);
    tc_sv name = tc_sv_printf(k->arena, "out.%d", leaf);
    int32_t promised = i - (extra > 0 ? extra : 0);
    if (promised >= 0) {
      TC_TRY(check_promises(k, promised), "while checking '" TC_SV_FMT "'", TC_SV_ARG(name));
      TC_TRY(check_strides(k, promised, got, symbols), "while checking '" TC_SV_FMT "'", TC_SV_ARG(name));
    }
    if (!want || compared) continue;
    tolerance t = tolerance_of(k, leaf, got->dtype);
    t.either = is_special_complex(k, got->dtype);
    tc_status s = compare(k, name, got, want, ref, t);
    if (s && leaf == 1 && first_input(k) && k->outputs[tcrun_output_of(m, 0)].storage &&
        tcrun_places_hold(op_of(k), first_input(k), &k->outputs[tcrun_output_of(m, 0)], got)) {
      tc_status_free(s); // equal values, in another order
      s = TC_OK;
    }
    TC_TRY(s);
  }
  return TC_OK;
}

// Mutated inputs (`mut.`) and buffers (`buf.`), after the run.
static tc_status compare_mutations(check_case *k) {
  const model *m = &k->m;
  for (int32_t leaf = 0; leaf < m->n_in && k->tensors; leaf++) {
    const tc_tensor *want = find(k, "mut", leaf);
    if (!want || !k->inputs[m->in[leaf]].storage) continue;
    tc_sv name = tc_sv_printf(k->arena, "mut.%d", leaf);
    TC_TRY(compare(k, name, &k->inputs[m->in[leaf]], want, NULL, tolerance_of(k, 0, want->dtype)));
  }
  for (int32_t i = 0; k->tensors && k->set == 0 && i < k->tensors->count; i++) {
    tc_sv key = k->tensors->items[i].name, rest;
    if (!tc_sv_starts(key, "buf.")) continue;
    rest = tc_sv_sub(key, 4, key.size);
    const tc_tensor *got = tc_session_state(k->session, rest), *want = &k->tensors->items[i].tensor;
    if (!got) return tc_error(TC_STATUS_MISMATCH, "there is no buffer '" TC_SV_FMT "'", TC_SV_ARG(rest));
    tolerance t = tcrun_default_tolerance(want->dtype);
    const tc_tensor *ref =
        tc_tensor_list_find(k->tensors, tc_sv_printf(k->arena, "bufref." TC_SV_FMT, TC_SV_ARG(rest)));
    TC_TRY(compare(k, key, got, want, ref, t));
  }
  return TC_OK;
}

// Random results: only what the index says of them. Uninitialised ones have no values worth a look.
static tc_status compare_random(check_case *k) {
  tc_json outputs = tc_json_get(k->line, "outputs");
  for (int32_t leaf = 0; leaf < tcrun_user_outputs(&k->m); leaf++) {
    const tc_tensor *got = &k->outputs[tcrun_output_of(&k->m, leaf)];
    tc_json want = item(outputs, leaf), shape = tc_json_get(want, "shape");
    tc_sv dtype = {0};
    if (!got->storage) continue;
    bool same = tc_json_count(shape) == got->rank;
    for (int32_t d = 0; same && d < got->rank; d++) {
      int64_t size;
      same = tc_json_int(item(shape, d), &size) && size == got->sizes[d];
    }
    if (!same) return tc_error(TC_STATUS_MISMATCH, "output %d has another shape", leaf);
    tc_sv torch = tc_sv_of(tc_dtype_torch_name(got->dtype));
    if (tc_json_str(tc_json_get(want, "dtype"), &dtype) && !tc_sv_ends(torch, tc_sv_z(k->arena, dtype)))
      return tc_error(TC_STATUS_MISMATCH, "output %d is %s", leaf, tc_dtype_name(got->dtype));
  }
  return TC_OK;
}

// ---- A case ----
static tc_status inputs_again(void *self, model *m, tc_tensor **out) {
  check_case *k = self;
  (void)m; // its inputs are the case's
  tc_tensor *kept = k->inputs;
  tc_status s = read_inputs(k);
  *out = k->inputs;
  k->inputs = kept;
  return s;
}

// The program as text at every stage, against what it computes itself.
static tc_status run_round_trip(check_case *k) {
  tc_sb graph = tc_sb_make(k->arena);
  tc_source_print(&graph, &k->m.source, TC_STAGE_GRAPH);
  k->m.source.stages = true;
  TC_TRY(tc_session_create_from(k->c, &k->m.source, TC_STAGE_EXEC, &k->session));
  TC_TRY(read_inputs(k));
  k->outputs = TC_NEW_ARRAY(k->arena, tc_tensor, k->m.graph->outputs.count);
  TC_TRY(tc_session_run(k->session, k->inputs, k->outputs, &(tc_session_run_options){.seed = k->options.seed}));
  k->skip = false;
  round_trip t = {.c = k->c, .o = &k->options, .tensors = k->m.module, .inputs = inputs_again, .self = k};
  t.outputs = k->outputs, t.n_outputs = k->m.graph->outputs.count, t.shapes_only = flag(k->line, "random");
  return tcrun_round_trip(&t, tc_sb_view(&graph), k->session);
}

// ---- Gradients ----
static const tc_tensor *find_key(void *self, tc_sv key) {
  const check_case *k = self;
  if (!k->tensors) return NULL;
  return tc_tensor_list_find(k->tensors,
                             tc_sv_printf(k->arena, TC_SV_FMT TC_SV_FMT, TC_SV_ARG(k->prefix), TC_SV_ARG(key)));
}

static void report_gradient(void *self, tc_sv name, const difference *d) { put_difference(self, name, d); }

static tc_status run_gradients(check_case *k) {
  k->skip = k->set != 0; // gradients are stored for the first set of inputs
  if (k->skip) return tc_error(TC_STATUS_NOT_FOUND, "there are no stored gradients");
  TC_TRY(read_inputs(k));
  gradient_check g = {.c = k->c,
                      .arena = k->arena,
                      .m = &k->m,
                      .inputs = k->inputs,
                      .find = find_key,
                      .report = report_gradient,
                      .self = k,
                      .seed = k->options.seed,
                      .compile_only = k->options.compile_only,
                      .tape = k->options.tape};
  return tcrun_check_gradients(&g, &k->skip);
}

// Against differences; the record names the derivatives that were used.
static tc_status run_gradcheck(check_case *k) {
  k->skip = k->set != 0;
  if (k->skip) return tc_error(TC_STATUS_NOT_FOUND, "one set of inputs is enough");
  TC_TRY(read_inputs(k));
  tc_gradcheck g = {k->c->allocator, k->arena, k->m.graph, k->inputs, k->options.seed};
  tc_gradcheck_result r;
  TC_TRY(tc_gradcheck_run(&g, 2, &r));
  k->skip = r.order == 0;
  if (k->skip) return tc_error(TC_STATUS_NOT_FOUND, "%s", r.undecided);
  tc_sb_printf(&k->record, "{\"order\": %d, \"undecided\": ", r.order);
  tc_json_quote(&k->record, tc_sv_of(r.undecided ? r.undecided : ""));
  put_number(&k->record, "worst", r.worst);
  tc_sb_putz(&k->record, ", \"derivatives\": [");
  for (int32_t i = 0; i < r.n_ops; i++) {
    if (i) tc_sb_putz(&k->record, ", ");
    tc_json_quote(&k->record, r.ops[i]->full_name);
  }
  tc_sb_putz(&k->record, "]}");
  return TC_OK;
}

static tc_status run_once(check_case *k) {
  double start = tc_now_ms();
  k->m.source.by_op = !k->options.compile_only && k->options.replays == 0;
  TC_TRY(tc_session_create_from(k->c, &k->m.source, TC_STAGE_EXEC, &k->session));
  k->compile_ms = tc_now_ms() - start;
  if (k->options.compile_only) return TC_OK;
  TC_TRY(read_inputs(k));
  if (k->options.replays > 0) return tcrun_check_replays(k->c, &k->options, &k->m, k->session, k->inputs);
  k->outputs = TC_NEW_ARRAY(k->arena, tc_tensor, k->m.graph->outputs.count);
  int32_t n_symbols = tc_session_symbol_count(k->session);
  int64_t *symbols = TC_NEW_ARRAY(k->arena, int64_t, n_symbols);
  tc_session_symbols(k->session, k->inputs, symbols);
  start = tc_now_ms();
  // The archive's own samples lie in its mapping, and the references are to see them as they were.
  const tc_session_run_options how = {.write_back = k->tensors != NULL, .seed = k->options.seed};
  TC_TRY(tc_session_run(k->session, k->inputs, k->outputs, &how));
  k->run_ms = tc_now_ms() - start;
  if (flag(k->line, "random")) return compare_random(k);
  if (!k->tensors) {
    difference worst;
    tc_tensor *user = TC_NEW_ARRAY(k->arena, tc_tensor, tcrun_user_outputs(&k->m));
    for (int32_t leaf = 0; leaf < tcrun_user_outputs(&k->m); leaf++)
      user[leaf] = k->outputs[tcrun_output_of(&k->m, leaf)];
    TC_TRY(tcrun_compare_with_ref(&k->options, &k->m, k->inputs, user, &worst));
    put_difference(k, TC_SV("all"), &worst);
    return TC_OK;
  }
  TC_TRY(compare_outputs(k, symbols));
  return compare_mutations(k);
}

static tc_status run_case(void *arg) {
  check_case *k = arg;
  k->record = tc_sb_make(k->arena);
  k->skip = k->options.round_trip; // until the program itself has run
  if (!k->archive) {
    if (k->method.size) k->options.method = k->method;
    TC_TRY(tcrun_load(k->c, &k->options, k->f->path.data, &k->m));
  } else {
    TC_TRY(tcrun_load_program(k->c, &k->options, k->f->path.data, k->archive, k->program, &k->m));
  }
  if (k->options.gradcheck) return run_gradcheck(k);
  if (k->options.grad) return run_gradients(k);
  return k->options.round_trip ? run_round_trip(k) : run_once(k);
}

static void put_record(const check_case *k, tc_status s, FILE *to) {
  tc_sb sb = tc_sb_make(k->arena);
  tc_sb_putz(&sb, "{\"file\": ");
  tc_json_quote(&sb, k->f->file);
  tc_sb_putz(&sb, ", \"method\": ");
  tc_json_quote(&sb, k->label);
  tc_sb_printf(&sb, ", \"backend\": \"" TC_SV_FMT "\", \"mode\": \"" TC_SV_FMT "\", \"status\": \"%s\", \"reason\": ",
               TC_SV_ARG(k->r->backend), TC_SV_ARG(k->r->mode),
               s == TC_OK ? "pass"
               : k->skip  ? "skip"
                          : "fail");
  tc_json_quote(&sb, s == TC_OK ? TC_SV("") : tc_sv_of(tc_status_text(s)));
  tc_sb_printf(&sb, ", \"outputs\": [" TC_SV_FMT "]", (int)k->record.size, k->record.text ? k->record.text : "");
  put_number(&sb, "compile_ms", k->compile_ms);
  put_number(&sb, "run_ms", k->run_ms);
  const tc_session_stats *q = k->session ? tc_session_stats_of(k->session) : NULL;
  tc_sb_printf(&sb, ", \"fallbacks\": %d}", q ? q->fallbacks : 0);
  fprintf(to, "R %s\n", sb.text);
}

typedef struct recording {
  const check_case *k;
  tc_status status;
  FILE *to;
} recording;
static tc_status record_guarded(void *arg) {
  recording *r = arg;
  put_record(r->k, r->status, r->to);
  return TC_OK;
}

static tc_status one_case(check_case *k, int32_t number, FILE *to) {
  fprintf(to, "B %d " TC_SV_FMT "\n", number, TC_SV_ARG(k->label));
  fflush(to);
  k->options = *k->r->o;
  TC_TRY(tc_arena_create(k->c->allocator, &k->arena));
  k->options.arena = k->arena;
  tc_status s = tc_arena_guard(k->arena, run_case, k);
  recording rec = {k, s, to};
  tc_status bad = tc_arena_guard(k->arena, record_guarded, &rec);
  tc_status_free(s);
  fflush(to);
  if (k->outputs) tcrun_free_tensors(k->outputs, k->m.graph->outputs.count);
  if (k->inputs) tcrun_free_tensors(k->inputs, k->m.graph->inputs.count);
  tc_session_destroy(k->session);
  if (k->archive) k->m.archive = NULL; // shared by the file's cases
  if (!k->archive || k->m.program) tcrun_unload(&k->m);
  tc_arena_destroy(k->arena);
  return bad;
}

// ---- A file ----
static bool has_prefix(const tc_tensor_list *l, tc_sv prefix) {
  for (int32_t i = 0; i < l->count; i++) {
    tc_sv name = l->items[i].name;
    if (name.size > prefix.size && memcmp(name.data, prefix.data, prefix.size) == 0) return true;
  }
  return false;
}

typedef struct file_run {
  const check_run *r;
  const check_file *f;
  tc_context *c;
  tc_arena *arena;
  int32_t first;
  FILE *to;
  tc_pt2 *archive;
  tc_tcx *artifact;
  int32_t n_programs;
  tc_tensor_list tensors;
} file_run;

static bool wanted(const file_run *q, tc_sv label) {
  const run_options *o = q->r->o;
  if (o->method.size && !tc_sv_eq(o->method, label)) return false;
  if (!o->filter.size) return true;
  tc_sv whole = tc_sv_printf(q->arena, TC_SV_FMT "/" TC_SV_FMT, TC_SV_ARG(q->f->file), TC_SV_ARG(label));
  return tc_sv_glob(q->f->file, o->filter) || tc_sv_glob(whole, o->filter);
}

static tc_status run_program(file_run *q, int32_t i, int32_t *number) {
  tc_sv method = q->archive ? tc_pt2_name(q->archive, i) : q->artifact ? tc_tcx_at(q->artifact, i)->name : TC_SV("");
  check_case base = {.r = q->r, .f = q->f, .c = q->c, .archive = q->archive, .program = i};
  if (q->artifact) base.method = method;
  tc_sv prefix = tc_sv_printf(q->arena, TC_SV_FMT ".", TC_SV_ARG(method));
  bool named = method.size && (q->n_programs > 1 || (q->f->tensors.size && has_prefix(&q->tensors, prefix)));
  if (q->f->tensors.size) base.tensors = &q->tensors;
  if (named) {
    base.label = method, base.prefix = prefix;
    base.line = tcrun_index_find(
        q->f->index, tc_sv_printf(q->arena, TC_SV_FMT "/" TC_SV_FMT, TC_SV_ARG(q->f->file), TC_SV_ARG(method)));
  } else {
    base.line = tcrun_index_find(q->f->index, q->f->name);
  }
  for (int32_t set = 0; set < 8; set++) {
    check_case k = base;
    if (set) {
      if (named || !tc_sv_is(q->f->dialect, "dyn") || !base.tensors) break;
      k.label = tc_sv_printf(q->arena, "in%d", set);
      if (!has_prefix(&q->tensors, tc_sv_printf(q->arena, "in%d.", set))) break;
    }
    k.set = set;
    if (!wanted(q, k.label)) continue;
    int32_t n = (*number)++;
    if (n >= q->first) TC_TRY(one_case(&k, n, q->to));
  }
  return TC_OK;
}

// What keeps a whole file from being read is the failure of one case without a name.
static tc_status open_file(file_run *q) {
  q->n_programs = 1;
  if (tc_sv_ends(q->f->path, ".tcx")) {
    TC_TRY(tc_tcx_open(q->c->allocator, q->f->path.data, &q->artifact));
    q->n_programs = tc_tcx_count(q->artifact);
  } else if (!tc_sv_ends(q->f->path, ".tc")) {
    tc_pt2_options po = {.allocator = q->c->allocator, .check_meta = true};
    TC_TRY(tc_pt2_open(q->f->path.data, q->c->ops, &po, &q->archive));
    q->n_programs = tc_pt2_count(q->archive);
  }
  if (q->f->tensors.size) TC_TRY(tc_tensors_read(q->c->allocator, q->arena, q->f->tensors.data, &q->tensors));
  return TC_OK;
}

static tc_status run_file(void *arg) {
  file_run *q = arg;
  int32_t number = 0;
  tc_status s = open_file(q);
  if (s != TC_OK) {
    check_case k = {.r = q->r, .f = q->f, .c = q->c, .arena = q->arena, .record = tc_sb_make(q->arena)};
    k.skip = q->r->o->round_trip;
    fprintf(q->to, "B 0 \n");
    put_record(&k, s, q->to);
    tc_status_free(s);
    return TC_OK;
  }
  for (int32_t i = 0; i < q->n_programs; i++) {
    bool again = q->artifact && tc_tcx_find(q->artifact, tc_tcx_at(q->artifact, i)->name, TC_SV("")) != i;
    if (!again) TC_TRY(run_program(q, i, &number)); // else the same for another kind of device
  }
  return TC_OK;
}

tc_status check_run_file(const check_run *r, tc_context **c, int32_t file, int32_t first, FILE *to) {
  if (!*c) TC_TRY(tcrun_open(r->o, c));
  file_run q = {.r = r, .f = &r->files[file], .c = *c, .first = first, .to = to};
  TC_TRY(tc_arena_create((*c)->allocator, &q.arena));
  tc_status s = tc_arena_guard(q.arena, run_file, &q);
  tc_tensor_list_free(&q.tensors);
  tc_pt2_close(q.archive);
  tc_tcx_close(q.artifact);
  tc_arena_destroy(q.arena);
  fprintf(to, "E\n");
  fflush(to);
  return s;
}
