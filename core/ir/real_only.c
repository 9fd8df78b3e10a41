// Ops that have no meaning on complex numbers are refused where their types are found, before anything is compiled, in
// PyTorch's words: pointwise rows without TC_OP_COMPLEX, and ops that are made of others which have a meaning there.
#include "core/ir/opargs.h"

// PyTorch's words where they are not `"op" not implemented for 'ComplexFloat'` (which PyTorch gives its kernels'
// names), by the op's name without overload; a text that ends with a blank goes on with the type.
typedef struct wording {
  const char *op, *text;
} wording;
static const wording wordings[] = {
    {"cauchy", "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you "
               "specified "},
    {"ceil", "ceil is not supported for complex inputs"},
    {"clamp*", "clamp is not supported for complex types"},
    {"clip", "clamp is not supported for complex types"},
    {"deg2rad", "deg2rad is not supported for complex tensors."},
    {"exponential", "Exponential distribution is a continuous probability distribution. dtype must be a floating point "
                    "but you specified "},
    {"fix", "trunc is not supported for complex inputs"},
    {"floor", "floor is not supported for complex inputs"},
    {"fmax", "fmax not implemented for complex tensors."},
    {"fmin", "fmin not implemented for complex tensors."},
    {"hardtanh", "clamp is not supported for complex types"},
    {"heaviside", "heaviside is not yet implemented for complex tensors."},
    {"isin", "Unsupported input type encountered for isin(): "},
    {"isneginf", "isneginf does not support complex inputs."},
    {"isposinf", "isposinf does not support complex inputs."},
    {"maximum", "maximum not implemented for complex tensors."},
    {"minimum", "minimum not implemented for complex tensors."},
    {"multinomial", "multinomial only supports floating-point dtypes for input, got: "},
    {"rad2deg", "rad2deg is not supported for complex tensors."},
    {"relu", "clamp is not supported for complex types"},
    {"relu6", "clamp is not supported for complex types"},
    {"sign", "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."},
    {"signbit", "signbit is not implemented for complex tensors."},
    {"trunc", "trunc is not supported for complex inputs"},
};

// Not pointwise, or made of ops that complex numbers have.
static const char *const composites[] = {"_adaptive_avg_pool?d_backward",
                                         "_cdist_forward",
                                         "_pdist_forward",
                                         "_scaled_dot_product_flash_attention_for_cpu",
                                         "_softmax_backward_data",
                                         "bernoulli",
                                         "elu_backward",
                                         "gelu_backward",
                                         "geometric",
                                         "glu",
                                         "hardshrink_backward",
                                         "hardsigmoid_backward",
                                         "hardswish_backward",
                                         "hardtanh_backward",
                                         "hash_tensor",
                                         "histc",
                                         "histogram",
                                         "leaky_relu_backward",
                                         "log_normal",
                                         "logit",
                                         "polygamma",
                                         "random",
                                         "scaled_dot_product_attention",
                                         "smooth_l1_loss_backward",
                                         "softplus_backward",
                                         "softshrink_backward",
                                         "special_logit",
                                         "special_polygamma",
                                         "special_spherical_bessel_j0",
                                         "special_xlog1py",
                                         "special_xlogy",
                                         "xlogy"};

static const char *scalar_type(tc_dtype d) {
  return d == TC_C32 ? "ComplexHalf" : d == TC_BC32 ? "BComplex32" : d == TC_C64 ? "ComplexFloat" : "ComplexDouble";
}

// The first complex dtype among the arguments.
static tc_dtype complex_argument(const tc_op_args *a) {
  for (int32_t i = 0; i < a->n_args; i++) {
    tc_dtype d = a->arg_types[i] ? a->arg_types[i]->dtype : TC_DTYPE_NONE;
    if (tc_dtype_is_complex(d)) return d;
    if (a->args[i].kind == TC_AK_COMPLEX) return TC_C64;
  }
  return TC_DTYPE_NONE;
}

static bool is_composite(tc_sv name) {
  for (size_t i = 0; i < sizeof composites / sizeof *composites; i++)
    if (tc_sv_glob(name, tc_sv_of(composites[i]))) return true;
  return false;
}

int32_t tc_op_check_real(tc_op_args *a, const tc_op *op) {
  uint64_t traits = op->def->traits;
  tc_dtype d = complex_argument(a);
  tc_sv name = op->schema.name;
  if (d == TC_DTYPE_NONE) return TC_STATUS_OK;
  for (size_t i = 0; i < sizeof wordings / sizeof *wordings; i++) {
    tc_sv text = tc_sv_of(wordings[i].text);
    if (!tc_sv_glob(name, tc_sv_of(wordings[i].op))) continue;
    return tc_op_fail(a, TC_SV_FMT "%s", TC_SV_ARG(text), text.data[text.size - 1] == ' ' ? scalar_type(d) : "");
  }
  if ((traits & TC_OP_POINTWISE && !(traits & TC_OP_COMPLEX)) || is_composite(name))
    return tc_op_fail(a, "\"" TC_SV_FMT "\" not implemented for '%s'", TC_SV_ARG(name), scalar_type(d));
  return TC_STATUS_OK;
}
