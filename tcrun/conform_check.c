// tcrun conform, groups grad, opcheck and support: gradients of programs on the plugin; results of the types that were
// promised, inputs that stay as they are, sizes that are known at the run only; and claims that must compile, for
// every type, size and stride that a program may have.
#include <string.h>

#include "tcrun/conform_program.h"

// ---- Gradients: the joint graph, made by the program, on the plugin ----
#define F32_PAIR "(%x : f32[5, 9] = user \"x\", %y : f32[9, 7] = user \"y\") {\n"
#define GRADIENTS(X)                                                                                                   \
  X(chain, "(%x : f32[8, 50] = user \"x\") {\n  %a : f32[8, 50] = aten::sin(%x)\n  %b : f32[8, 50] = "                 \
           "aten::tanh(%a)\n  %c : f32[8, 50] = aten::mul.Tensor(%b, %x)\n  return user %c\n}\n")                      \
  X(product, F32_PAIR "  %a : f32[5, 7] = aten::mm(%x, %y)\n  %z : f32[5, 7] = aten::relu(%a)\n  return user %z\n}\n") \
  X(softmax, "(%x : f32[6, 33] = user \"x\") {\n  %z : f32[6, 33] = aten::_softmax(%x, -1, false)\n  return user "     \
             "%z\n}\n")                                                                                                \
  X(norm, "(%x : f32[4, 30] = user \"x\", %w : f32[30] = user \"w\", %b : f32[30] = user \"b\") {\n  %z : f32[4, 30] " \
          "= aten::layer_norm(%x, [30], %w, %b)\n  return user %z\n}\n")                                               \
  X(broadcast, "(%x : f32[5, 1, 9] = user \"x\", %y : f32[4, 1] = user \"y\") {\n  %z : f32[5, 4, 9] = "               \
               "aten::mul.Tensor(%x, %y)\n  return user %z\n}\n")                                                      \
  X(complex_numbers, "(%x : c64[30] = user \"x\", %y : c64[30] = user \"y\") {\n  %z : c64[30] = "                     \
                     "aten::mul.Tensor(%x, %y)\n  return user %z\n}\n")

#define X(name, text) \
  static tc_status grad_##name(kit *k) { return kit_run_text(k, "graph @" #name " " text, KIT_GRAD); }
GRADIENTS(X)
#undef X

// ---- Texts with holes: $T a type, $S a size that is a symbol or a number, $H its declaration ----
static tc_sv fill_in(tc_arena *arena, const char *text, const char *type, int64_t size, bool symbolic) {
  tc_sb sb = tc_sb_make(arena);
  for (const char *c = text; *c; c++) {
    if (*c != '$') {
      tc_sb_putc(&sb, *c);
      continue;
    }
    c++;
    if (*c == 'T') tc_sb_putz(&sb, type);
    else if (*c == 'H' && symbolic) tc_sb_printf(&sb, "[s0 in [0, 4096] hint %lld] ", (long long)size);
    else if (*c == 'S' && symbolic) tc_sb_putz(&sb, "s0");
    else if (*c == 'S') tc_sb_printf(&sb, "%lld", (long long)size);
  }
  return tc_sb_view(&sb);
}

// ---- Checks of what an op promises ----
static tc_status inputs_stay(kit *k) {
  TC_TRY(kit_run_text(k,
                      "graph @stay (%x : f32[6, 5] = user \"x\", %y : f32[6, 5] = user \"y\") {\n  %a : f32[6, 5] = "
                      "aten::add.Tensor(%x, %y)\n  %b : f32[6, 5] = aten::relu(%a)\n  %c : f32[6, 5] = "
                      "aten::mul.Tensor(%b, %x)\n  return user %c\n}\n",
                      0));
  return kit_run_text(k, "graph @stay " F32_PAIR "  %a : f32[5, 7] = aten::mm(%x, %y)\n  return user %a\n}\n", 0);
}

static tc_status promised_strides(kit *k) {
  return kit_run_text(k,
                      "graph @strides (%x : f32[6, 8]{1, 6} = user \"x\", %y : f32[6, 8]{1, 6} = user \"y\") {\n  %z : "
                      "f32[6, 8]{1, 6} = aten::add.Tensor(%x, %y)\n  %w : f32[6, 8]{1, 6} = aten::relu(%z)\n  return "
                      "user %w\n}\n",
                      0);
}

// One session with a symbol, run with inputs of several sizes; the references have a program of each size.
static tc_status run_sizes(kit *k, tc_context *c, tc_context *references, const char *text) {
  static const int64_t sizes[] = {9, 1, 40, 17, 9};
  kit_ready mine = {.n = 0};
  tc_status s = kit_make_ready(k->arena, c, fill_in(k->arena, text, "f32", sizes[0], true).data, 0, &mine);
  if (s == TC_OK) s = kit_judge_fallbacks(k, c, mine.session);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes && s == TC_OK; i++) {
    kit_ready ref = {.n = 0};
    tc_tensor *inputs = NULL;
    s = kit_make_ready(k->arena, references, fill_in(k->arena, text, "f32", sizes[i], false).data, 0, &ref);
    if (s == TC_OK) s = kit_inputs(k, references, &ref, 0, &inputs);
    if (s == TC_OK) s = kit_run_ready(&ref, inputs);
    if (s == TC_OK) s = kit_run_ready(&mine, inputs);
    if (s == TC_OK) s = kit_compare(&mine, &ref);
    if (inputs) tcrun_free_tensors(inputs, ref.m.graph->inputs.count);
    kit_close_ready(&ref);
    s = tc_status_note(s, "with a size of %lld", (long long)sizes[i]);
  }
  kit_close_ready(&mine);
  return s;
}

static tc_status dynamic_sizes(kit *k) {
  static const char *const texts[] = {
      "graph @f $H(%x : f32[$S, 7] = user \"x\", %y : f32[$S, 7] = user \"y\") {\n  %a : f32[$S, 7] = "
      "aten::add.Tensor(%x, %y)\n  %z : f32[$S, 7] = aten::relu(%a)\n  return user %z\n}\n",
      "graph @f $H(%x : f32[$S, 20] = user \"x\", %y : f32[20, 7] = user \"y\") {\n  %z : f32[$S, 7] = "
      "aten::mm(%x, %y)\n  return user %z\n}\n",
      "graph @f $H(%x : f32[5, $S] = user \"x\") {\n  %z : f32[5, $S] = aten::_softmax(%x, -1, false)\n  return user "
      "%z\n}\n"};
  tc_context *c, *references;
  TC_TRY(kit_context(k, NULL, &c));
  if (!c) return TC_OK;
  TC_TRY(kit_references(k, &references));
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    TC_TRY(run_sizes(k, c, references, texts[i]), "in the program\n%s", texts[i]);
  return TC_OK;
}

// ---- Claims: what is taken must compile and run; what is not taken is fine ----
static const char *const types[] = {"f32", "f64", "f16", "bf16", "i64", "i32", "u8", "bool", "c64", "c128"};

// Does the plugin take anything of the text? An error is that of something taken; what the references cannot do either
// is no program.
static tc_status try_claim(kit *k, tc_context *c, tc_context *references, const char *text, int32_t *taken) {
  kit_ready mine = {.n = 0}, ref = {.n = 0};
  tc_tensor *inputs = NULL;
  tc_status none = kit_make_ready(k->arena, references, text, 0, &ref), s = TC_OK;
  if (none == TC_OK) none = kit_inputs(k, references, &ref, 0, &inputs);
  if (none == TC_OK) none = kit_run_ready(&ref, inputs);
  if (none == TC_OK) {
    s = kit_make_ready(k->arena, c, text, 0, &mine);
    if (s == TC_OK) s = kit_judge_fallbacks(k, c, mine.session);
    if (s == TC_OK) {
      const tc_session_stats *q = tc_session_stats_of(mine.session);
      *taken += q->segments > 0 || q->delegated > 0;
      s = kit_run_ready(&mine, inputs);
    }
    if (s == TC_OK) s = kit_compare(&mine, &ref);
  }
  tc_status_free(none);
  if (inputs) tcrun_free_tensors(inputs, ref.m.graph->inputs.count);
  kit_close_ready(&mine);
  kit_close_ready(&ref);
  k->unsupported[0] = 0;
  return tc_status_note(s, "in the program\n%s", text);
}

// Of three texts in a row each type has one that is empty, one with a row and one with several.
static tc_status try_claims(kit *k, const char *const *texts, int32_t n) {
  static const int64_t sizes[] = {0, 1, 19};
  tc_context *c, *references;
  int32_t taken = 0, tried = 0;
  TC_TRY(kit_context(k, NULL, &c));
  if (!c) return TC_OK;
  TC_TRY(kit_references(k, &references));
  uint64_t first = kit_random(k) % 3;
  for (int32_t i = 0; i < n; i++)
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
      int64_t size = sizes[(first + t + (uint64_t)i) % 3];
      TC_TRY(try_claim(k, c, references, fill_in(k->arena, texts[i], types[t], size, false).data, &taken));
      tried++;
    }
  if (!taken) kit_unsupported(k, "nothing of it is claimed");
  else kit_note(k, "%d of %d are claimed", (int)taken, (int)tried);
  return TC_OK;
}

#define CLAIMS(name, ...)                                      \
  static tc_status name(kit *k) {                              \
    static const char *const texts[] = {__VA_ARGS__};          \
    return try_claims(k, texts, sizeof texts / sizeof *texts); \
  }
#define ONE(op, more) "graph @f (%x : $T[$S, 6] = user \"x\") {\n  %z = " op "(%x" more ")\n  return user %z\n}\n"
#define TWO(op, more)                                                                                             \
  "graph @f (%x : $T[$S, 6] = user \"x\", %y : $T[$S, 6]{1, $S} = user \"y\") {\n  %z = " op "(%x, %y" more ")\n" \
  "  return user %z\n}\n"
CLAIMS(claims_pointwise, ONE("aten::relu", ""), ONE("aten::neg", ""), ONE("aten::exp", ""), ONE("aten::abs", ""),
       TWO("aten::add.Tensor", ""), TWO("aten::mul.Tensor", ""), TWO("aten::sub.Tensor", ", alpha=2"),
       TWO("aten::eq.Tensor", ""))
CLAIMS(claims_reductions, ONE("aten::sum.dim_IntList", ", [1]"), ONE("aten::sum", ""), ONE("aten::amax", ", [0]"),
       ONE("aten::mean.dim", ", [1], true"), ONE("aten::cumsum", ", 0"))
CLAIMS(claims_products,
       "graph @f (%x : $T[5, $S] = user \"x\", %y : $T[$S, 4] = user \"y\") {\n  %z = aten::mm(%x, %y)\n  return user "
       "%z\n}\n",
       "graph @f (%x : $T[$S, 5] = user \"x\", %y : $T[5, 4]{1, 5} = user \"y\") {\n  %z = aten::mm(%x, %y)\n  return "
       "user %z\n}\n",
       "graph @f (%b : $T[4] = user \"b\", %x : $T[$S, 5] = user \"x\", %y : $T[5, 4] = user \"y\") {\n  %z = "
       "aten::addmm(%b, %x, %y)\n  return user %z\n}\n",
       "graph @f (%x : $T[3, $S, 5] = user \"x\", %y : $T[3, 5, 4] = user \"y\") {\n  %z = aten::bmm(%x, %y)\n  return "
       "user %z\n}\n")
CLAIMS(claims_views,
       "graph @f (%x : $T[$S, 6] = user \"x\") {\n  %a = aten::t(%x)\n  %z = aten::contiguous(%a)\n  return user "
       "%z\n}\n",
       "graph @f (%x : $T[$S, 6] = user \"x\") {\n  %z = aten::cat([%x, %x], 1)\n  return user %z\n}\n",
       "graph @f (%x : $T[$S, 6] = user \"x\") {\n  %a = aten::slice.Tensor(%x, 1, 1, 6, 2)\n  %z = "
       "aten::clone(%a)\n  return user %z\n}\n")

// ---- Samples of the rows of an op plugin ----
typedef struct sample_run {
  kit *k;
  tc_context *c, *references;
  int32_t n, n_grads;
} sample_run;

// "f32[4, 8], c64[8], 2.0": types become inputs, all else is an argument as it stands.
static tc_sv sample_text(kit *k, const tc_op_def *d, tc_sv sample) {
  tc_sb head = tc_sb_make(k->arena), body = tc_sb_make(k->arena);
  tc_sv name, rest = tc_sv_cut(tc_sv_of(d->schema), '(', &name);
  int32_t n = 0, results = 1, depth = 0;
  size_t arrow = 0;
  for (size_t i = 0; i + 1 < rest.size; i++)
    if (rest.data[i] == '-' && rest.data[i + 1] == '>') arrow = i;
  for (size_t i = arrow; i < rest.size; i++) results += rest.data[i] == ',';
  tc_sb_putz(&head, "graph @sample (");
  for (int32_t r = 0; r < results; r++) tc_sb_printf(&body, "%s%%r%d", r ? ", " : "  ", (int)r);
  tc_sb_printf(&body, " = " TC_SV_FMT "(", TC_SV_ARG(name));
  for (size_t i = 0, from = 0; i <= sample.size; i++) {
    char c = i < sample.size ? sample.data[i] : ',';
    depth += (c == '[') - (c == ']');
    if (c != ',' || depth) continue;
    tc_sv part = tc_sv_trim(tc_sv_sub(sample, from, i)), type;
    tc_sv_cut(part, '[', &type);
    bool tensor = type.size && type.size < part.size && tc_dtype_parse(type) != TC_DTYPE_NONE;
    if (tensor)
      tc_sb_printf(&head, "%s%%a%d : " TC_SV_FMT " = user \"a%d\"", n ? ", " : "", (int)n, TC_SV_ARG(part), (int)n);
    if (tensor) tc_sb_printf(&body, "%s%%a%d", from ? ", " : "", (int)n++);
    else tc_sb_printf(&body, "%s" TC_SV_FMT, from ? ", " : "", TC_SV_ARG(part));
    from = i + 1;
  }
  tc_sb_putz(&body, ")\n  return ");
  for (int32_t r = 0; r < results; r++) tc_sb_printf(&body, "%suser %%r%d", r ? ", " : "", (int)r);
  return tc_sv_printf(k->arena, "%s) {\n%s\n}\n", head.text, body.text);
}

// The sample with its numbers in double precision.
static tc_sv in_doubles(kit *k, tc_sv sample) {
  tc_sb sb = tc_sb_make(k->arena);
  for (size_t i = 0; i < sample.size; i++) {
    tc_sv four = tc_sv_sub(sample, i, i + 4);
    bool real = tc_sv_is(four, "f32["), complex = tc_sv_is(four, "c64[");
    if (real || complex) tc_sb_putz(&sb, real ? "f64[" : "c128["), i += 3;
    else tc_sb_putc(&sb, sample.data[i]);
  }
  return tc_sb_view(&sb);
}

// A body that is wrong leaves its op to the reference, whatever the device.
static tc_status lower(void *arg) {
  kit_ready *r = arg;
  tc_loops *loops;
  return tc_lower_graph(r->m.graph, &(tc_lower_options){.logger = &tc_logger_silent}, &loops);
}
static tc_status lower_sample(kit *k, const tc_op_def *d, tc_sv sample) {
  kit_ready r = {.n = 0};
  tc_context *c;
  const char *text = sample_text(k, d, sample).data;
  if (!d->body) return TC_OK;
  TC_TRY(kit_references(k, &c));
  tc_status s = tcrun_read_text(c, TC_SV("kit.tc"), tc_sv_of(text), &r.m);
  r.loaded = r.m.module != NULL;
  if (s == TC_OK) s = tc_arena_guard(r.m.module->arena, lower, &r);
  kit_close_ready(&r);
  return tc_status_note(s, "in the program\n%s", text);
}
static tc_status run_sample(kit *k, const tc_op_def *d, tc_sv sample) {
  return kit_run_text(k, sample_text(k, d, sample).data, 0);
}
static tc_status run_sample_gradient(kit *k, const tc_op_def *d, tc_sv sample) {
  return kit_run_text(k, sample_text(k, d, sample).data, KIT_GRAD);
}
static tc_status compare_sample(kit *k, const tc_op_def *d, tc_sv sample) {
  return kit_differences(k, sample_text(k, d, in_doubles(k, sample)).data);
}

static tc_status each_sample(kit *k, bool grad, tc_status (*run)(kit *k, const tc_op_def *d, tc_sv sample)) {
  int32_t n = 0;
  TC_TRY(kit_load(k));
  if (!(k->about.capabilities & TC_CAP_OPS)) {
    kit_unsupported(k, "the plugin brings no ops");
    return TC_OK;
  }
  for (int32_t i = 0; i < k->plugin->n_ops; i++) {
    const tc_op_def *d = &k->plugin->ops[i];
    if (!d->samples || (grad && !d->grad)) continue;
    for (tc_sv rest = tc_sv_of(d->samples), sample; rest.size; n++) {
      rest = tc_sv_cut(rest, ';', &sample);
      TC_TRY(run(k, d, sample));
    }
  }
  if (!n) kit_unsupported(k, grad ? "no row has samples and a derivative" : "no row has samples");
  else kit_note(k, "%d samples", (int)n);
  return TC_OK;
}
static tc_status bodies(kit *k) { return each_sample(k, false, lower_sample); }
static tc_status samples(kit *k) { return each_sample(k, false, run_sample); }
static tc_status sample_gradients(kit *k) { return each_sample(k, true, run_sample_gradient); }
static tc_status sample_differences(kit *k) { return each_sample(k, true, compare_sample); }

static const kit_case cases[] = {
#define X(name, text) {"grad", #name, "the plugin computes the gradients that the references compute", grad_##name},
    GRADIENTS(X)
#undef X
        {"grad", "samples", "derivatives of the plugin's ops run as they do on the references", sample_gradients},
    {"grad", "differences", "derivatives of the plugin's ops are what differences say", sample_differences},
    {"opcheck", "bodies", "a body is a text of the scalar language, of which kernels can be made", bodies},
    {"opcheck", "samples", "the plugin's ops give, on a device, what their references give", samples},
    {"opcheck", "inputs_stay", "what the schema does not write to stays as it is", inputs_stay},
    {"opcheck", "strides", "results have the sizes and strides that were promised", promised_strides},
    {"opcheck", "dynamic", "sizes may be known at the run only", dynamic_sizes},
    {"support", "pointwise", "what is claimed compiles and is right, for every type, size and stride",
     claims_pointwise},
    {"support", "reductions", "what is claimed compiles and is right, for every type, size and stride",
     claims_reductions},
    {"support", "products", "what is claimed compiles and is right, for every type, size and stride", claims_products},
    {"support", "views", "what is claimed compiles and is right, for every type, size and stride", claims_views},
};
const kit_cases kit_check_cases = {cases, sizeof cases / sizeof *cases};
