// tcrun conform, groups op and rows: small programs on the plugin's device against the references, and what an op
// plugin's rows must have.
#include "tcrun/conform_program.h"

// ---- Programs. X(name, special, text) ----
#define PROGRAMS(X)                                                                                                    \
  X(add, true,                                                                                                         \
    "(%x : f32[33, 7] = user \"x\", %y : f32[33, 7] = user \"y\") {\n  %z : f32[33, 7] = aten::add.Tensor(%x, %y)\n  " \
    "return user %z\n}\n")                                                                                             \
  X(mul_broadcast, true,                                                                                               \
    "(%x : f32[5, 1, 9] = user \"x\", %y : f32[4, 1] = user \"y\") {\n  %z : f32[5, 4, 9] = aten::mul.Tensor(%x, "     \
    "%y)\n  return user %z\n}\n")                                                                                      \
  X(relu, true, "(%x : f32[1000] = user \"x\") {\n  %z : f32[1000] = aten::relu(%x)\n  return user %z\n}\n")           \
  X(gelu, true, "(%x : f32[1000] = user \"x\") {\n  %z : f32[1000] = aten::gelu(%x)\n  return user %z\n}\n")           \
  X(chain, false,                                                                                                      \
    "(%x : f32[64, 50] = user \"x\") {\n  %a : f32[64, 50] = aten::sin(%x)\n  %b : f32[64, 50] = aten::exp(%a)\n  "    \
    "%c : f32[64, 50] = aten::mul.Tensor(%b, %x)\n  %d : f32[64, 50] = aten::tanh(%c)\n  return user %d\n}\n")         \
  X(integers, false,                                                                                                   \
    "(%x : i64[37] = user \"x\", %y : i32[37] = user \"y\") {\n  %z : i64[37] = aten::mul.Tensor(%x, %y)\n  %w : "     \
    "i64[37] = aten::sub.Tensor(%z, %x)\n  return user %w\n}\n")                                                       \
  X(compare_and_select, true,                                                                                          \
    "(%x : f32[200] = user \"x\", %y : f32[200] = user \"y\") {\n  %c : bool[200] = aten::lt.Tensor(%x, %y)\n  %z : "  \
    "f32[200] = aten::where.self(%c, %x, %y)\n  return user %z, user %c\n}\n")                                         \
  X(doubles, false, "(%x : f64[40, 3] = user \"x\") {\n  %z : f64[40, 3] = aten::exp(%x)\n  return user %z\n}\n")      \
  X(halves, false,                                                                                                     \
    "(%x : f16[300] = user \"x\", %y : bf16[300] = user \"y\") {\n  %z : f16[300] = aten::mul.Tensor(%x, %x)\n  %w : " \
    "bf16[300] = aten::add.Tensor(%y, %y)\n  return user %z, user %w\n}\n")                                            \
  X(complex_numbers, false,                                                                                            \
    "(%x : c64[30] = user \"x\", %y : c64[30] = user \"y\") {\n  %z : c64[30] = aten::mul.Tensor(%x, %y)\n  return "   \
    "user %z\n}\n")                                                                                                    \
  X(strided_input, false,                                                                                              \
    "(%x : f32[6, 8]{1, 6} = user \"x\", %y : f32[6, 8] = user \"y\") {\n  %z : f32[6, 8] = aten::add.Tensor(%y, "     \
    "%x)\n  return user %z\n}\n")                                                                                      \
  X(input_inside_another, false,                                                                                       \
    "(%x : f32[40]{2}+37 = user \"x\", %y : i64[40]{1}+5 = user \"y\") {\n  %z : f32[40] = aten::mul.Tensor(%x, "      \
    "%y)\n  return user %z\n}\n")                                                                                      \
  X(empty, false,                                                                                                      \
    "(%x : f32[0, 4] = user \"x\") {\n  %z : f32[0, 4] = aten::exp(%x)\n  %s : f32[4] = aten::sum.dim_IntList(%x, "    \
    "[0])\n  return user %z, user %s\n}\n")                                                                            \
  X(sum, false,                                                                                                        \
    "(%x : f32[17, 129] = user \"x\") {\n  %z : f32[17] = aten::sum.dim_IntList(%x, [1])\n  %w : f32[129] = "          \
    "aten::sum.dim_IntList(%x, [0])\n  return user %z, user %w\n}\n")                                                  \
  X(extremes, false,                                                                                                   \
    "(%x : f32[17, 129] = user \"x\") {\n  %z : f32[17] = aten::amax(%x, [1])\n  %w : i64[17] = aten::argmax(%x, 1)\n" \
    "  return user %z, user %w\n}\n")                                                                                  \
  X(softmax, true,                                                                                                     \
    "(%x : f32[20, 70] = user \"x\") {\n  %z : f32[20, 70] = aten::_softmax(%x, -1, false)\n  return user %z\n}\n")    \
  X(layer_norm, false,                                                                                                 \
    "(%x : f32[12, 65] = user \"x\", %w : f32[65] = user \"w\", %b : f32[65] = user \"b\") {\n  %z : f32[12, 65] = "   \
    "aten::layer_norm(%x, [65], %w, %b)\n  return user %z\n}\n")                                                       \
  X(mm, false,                                                                                                         \
    "(%x : f32[33, 20] = user \"x\", %y : f32[20, 47] = user \"y\") {\n  %z : f32[33, 47] = aten::mm(%x, %y)\n  "      \
    "return user %z\n}\n")                                                                                             \
  X(mm_relu, false,                                                                                                    \
    "(%x : f32[33, 20] = user \"x\", %y : f32[20, 47] = user \"y\") {\n  %z : f32[33, 47] = aten::mm(%x, %y)\n  %w : " \
    "f32[33, 47] = aten::relu(%z)\n  return user %w\n}\n")                                                             \
  X(mm_softmax, false,                                                                                                 \
    "(%x : f32[45, 60] = user \"x\", %y : f32[60, 50] = user \"y\") {\n  %p : f32[45, 50] = aten::mm(%x, %y)\n  %a : " \
    "f32[45, 50] = aten::mul.Scalar(%p, 0.125)\n  %b : f32[45, 50] = aten::_softmax(%a, -1, false)\n  return user "    \
    "%b\n}\n")                                                                                                         \
  X(bmm, false,                                                                                                        \
    "(%x : f32[3, 9, 20] = user \"x\", %y : f32[3, 20, 5] = user \"y\") {\n  %z : f32[3, 9, 5] = aten::bmm(%x, %y)\n " \
    " return user %z\n}\n")                                                                                            \
  X(complex_product, false,                                                                                            \
    "(%x : c64[3, 9, 20] = user \"x\", %y : c64[3, 20, 5] = user \"y\") {\n  %z : c64[3, 9, 5] = aten::bmm(%x, %y)\n " \
    " return user %z\n}\n")                                                                                            \
  X(convolution, false,                                                                                                \
    "(%x : f32[2, 3, 12, 11] = user \"x\", %w : f32[5, 3, 3, 3] = user \"w\") {\n  %z : f32[2, 5, 12, 11] = "          \
    "aten::conv2d(%x, %w, none, [1, 1], [1, 1])\n  return user %z\n}\n")                                               \
  X(attention, false,                                                                                                  \
    "(%q : f32[1, 2, 9, 16] = user \"q\", %k : f32[1, 2, 9, 16] = user \"k\", %v : f32[1, 2, 9, 16] = user \"v\") {\n" \
    "  %z : f32[1, 2, 9, 16] = aten::scaled_dot_product_attention(%q, %k, %v)\n  return user %z\n}\n")                 \
  X(cat_and_permute, false,                                                                                            \
    "(%x : f32[3, 4] = user \"x\", %y : f32[5, 4] = user \"y\") {\n  %z : f32[8, 4] = aten::cat([%x, %y])\n  %w : "    \
    "f32[4, 8]{1, 4} = aten::permute(%z, [1, 0])\n  %c : f32[4, 8] = aten::contiguous(%w)\n  "                         \
    "return user %c\n}\n")                                                                                             \
  X(cumsum, false, "(%x : f32[6, 80] = user \"x\") {\n  %z : f32[6, 80] = aten::cumsum(%x, 1)\n  return user %z\n}\n") \
  X(sort, false,                                                                                                       \
    "(%x : f32[4, 77] = user \"x\") {\n  %z : f32[4, 77], %i : i64[4, 77] = aten::sort(%x, -1, true)\n  return user "  \
    "%z\n}\n")                                                                                                         \
  /* Scaled: the exponential of large sums would be all of their rounding. */                                          \
  X(two_kernels, false,                                                                                                \
    "(%x : f32[50, 60] = user \"x\", %y : f32[60, 50] = user \"y\") {\n  %p : f32[50, 50] = aten::mm(%x, %y)\n  %a : " \
    "f32[50, 50] = aten::mul.Scalar(%p, 0.125)\n  %b : f32[50, 50] = aten::_softmax(%a, -1, false)\n  %c : f32[50, "   \
    "60] = aten::mm(%b, %x)\n  return user %c\n}\n")

#define X(name, special_, text_) \
  static tc_status op_##name(kit *k) { return kit_run_text(k, "graph @" #name " " text_, special_ ? KIT_SPECIAL : 0); }
PROGRAMS(X)
#undef X

// ---- Transforms: ops of the plugin fft, for whose template a code generator has done nothing of its own. Scaled by
// the length's root, so that small elements are not the rounding of large ones. ----
#define TRANSFORMS(X)                                                                                                 \
  X(transform,                                                                                                        \
    "(%x : c64[5, 360] = user \"x\") {\n  %z = aten::fft_fft(%x, none, -1, \"ortho\")\n  return user %z\n}\n")        \
  X(transform_of_prime_length,                                                                                        \
    "(%x : c64[2, 101] = user \"x\") {\n  %z = aten::fft_ifft(%x, none, -1, \"ortho\")\n  return user %z\n}\n")       \
  X(transform_of_columns,                                                                                             \
    "(%x : f64[24, 20] = user \"x\") {\n  %z = aten::fft_fft2(%x, none, [-2, -1], \"ortho\")\n  return user %z\n}\n") \
  X(filter, "(%x : c64[3, 512] = user \"x\", %h : c64[512] = user \"h\") {\n  %f = aten::fft_fft(%x)\n  %g = "        \
            "aten::mul.Tensor(%f, %h)\n  %y = aten::fft_ifft(%g)\n  return user %y\n}\n")                             \
  X(long_convolution,                                                                                                 \
    "(%x : f32[3, 100] = user \"x\", %h : c64[101] = user \"h\") {\n  %f = aten::fft_rfft(%x, 200)\n  %g = "          \
    "aten::mul.Tensor(%f, %h)\n  %y = aten::fft_irfft(%g, 200)\n  %c = aten::slice.Tensor(%y, 1, 0, 100)\n  %r = "    \
    "aten::relu(%c)\n  return user %r\n}\n")

static tc_status run_transform(kit *k, const char *text) {
  tc_context *c;
  tc_plugin *p;
  TC_TRY(kit_context(k, NULL, &c));
  if (!c) return TC_OK;
  tc_status s = tc_plugins_find_op(c->plugins, TC_SV("aten::fft_fft"), &p);
  if (tc_status_code(s) == TC_STATUS_NOT_FOUND) {
    tc_status_free(s);
    kit_unsupported(k, "the op plugin fft is not installed");
    return TC_OK;
  }
  TC_TRY(s);
  return kit_run_text(k, text, 0);
}

#define X(name, text_) \
  static tc_status op_##name(kit *k) { return run_transform(k, "graph @" #name " " text_); }
TRANSFORMS(X)
#undef X

// ---- Rows of ops ----
// The host passes over derivatives of what is no argument.
static tc_status check_labels(const tc_op *op) {
  for (int32_t i = 0; op && i < op->grad.n_results; i++) {
    bool found = false;
    for (int32_t a = 0; a < op->schema.n_args && !found; a++)
      found = tc_sv_eq(op->schema.args[a].name, op->grad_labels[i]);
    KIT_CHECK(found, "the derivative of '" TC_SV_FMT "' has a text for '" TC_SV_FMT "', which is no argument of it",
              TC_SV_ARG(op->full_name), TC_SV_ARG(op->grad_labels[i]));
  }
  return TC_OK;
}

static tc_status rows(kit *k) {
  TC_TRY(kit_load(k));
  const tc_plugin *p = k->plugin;
  if (!(p->capabilities & TC_CAP_OPS)) {
    kit_unsupported(k, "the plugin brings no ops");
    return TC_OK;
  }
  KIT_CHECK(p->n_ops > 0, "the capability 'ops' comes without rows");
  for (int32_t i = 0; i < p->n_ops; i++) {
    const tc_op_def *d = &p->ops[i];
    KIT_CHECK(d->scalar_ref || d->ref || d->decompose || d->expand,
              "op '%s' has no reference and no decomposition: nothing says what is right", d->schema);
    KIT_CHECK(d->meta || d->decompose || d->expand || d->body, "op '%s' has nothing that says what its results are",
              d->schema);
    tc_sv name, rest = tc_sv_cut(tc_sv_of(d->schema), '(', &name);
    bool claimed = false;
    for (int32_t g = 0; g < p->n_op_globs && !claimed; g++) {
      tc_sv plain;
      tc_sv_cut(name, '.', &plain);
      claimed = tc_sv_glob(name, p->op_globs[g]) || tc_sv_glob(plain, p->op_globs[g]);
    }
    KIT_CHECK(rest.size > 0, "'%s' is no schema", d->schema);
    KIT_CHECK(claimed, "op '" TC_SV_FMT "' is under none of the manifest's globs", TC_SV_ARG(name));
  }
  tc_context *c;
  TC_TRY(kit_references(k, &c)); // which takes the rows in
  for (int32_t i = 0; i < tc_op_registry_count(c->ops); i++) {
    const tc_op *op = tc_op_registry_at(c->ops, i);
    if (tc_sv_eq(op->plugin, p->name)) TC_TRY(check_labels(op));
  }
  return TC_OK;
}

static const kit_case cases[] = {
    {"rows", "rows", "every op has a schema, a reference, a shape and a place in the manifest", rows},
#define X(name, special, text) {"op", #name, "the device computes what the references compute", op_##name},
    PROGRAMS(X)
#undef X
#define X(name, text) {"op", #name, "the device computes what the references compute", op_##name},
        TRANSFORMS(X)
#undef X
};
const kit_cases kit_op_cases = {cases, sizeof cases / sizeof *cases};
