// rotate: an op from a plugin, for every device that runs kernels. signal::rotate(z, angle) turns complex numbers by
// angles in radians: z · e^(i · angle).
//
// The row says it all: types and sizes of the result (meta), one element of it (body, from which kernels are made and
// fused), its derivative, its operations, what is right (scalar_ref), and what to test with (samples).
#include <math.h>

#include "tc/plugin.h"

static int32_t rotate_meta(tc_op_args *a) {
  const tc_tensor_type *z = tc_op_tensor(a, 0), *angle = tc_op_tensor(a, 1);
  if (z->dtype != TC_C64 && z->dtype != TC_C128)
    return tc_op_fail(a, "'self' (%s) is not complex", tc_op_shape_text(a, 0));
  if (angle->dtype != TC_F32 && angle->dtype != TC_F64)
    return tc_op_fail(a, "'angle' (%s) is not a tensor of real numbers", tc_op_shape_text(a, 1));
  return tc_op_pointwise_result(a, 0, z->dtype, 2, (const int32_t[]){0, 1}); // they are broadcast
}

// Written independently of the body: the two are held against each other.
static tc_c128 rotate_reference(tc_c128 z, tc_c128 angle) {
  double c = cos(angle.re), s = sin(angle.re);
  return (tc_c128){z.re * c - z.im * s, z.re * s + z.im * c};
}
static const tc_scalar_ref reference = {.c2 = rotate_reference};

static const tc_op_def rows[] = {
    {.struct_size = sizeof(tc_op_def),
     .schema = "signal::rotate(Tensor self, Tensor angle) -> Tensor",
     .traits = TC_OP_POINTWISE | TC_OP_COMPLEX,
     .meta = rotate_meta,
     .body = "self * cis(angle)",
     .grad = "self: signal::rotate(grad, neg(angle)); angle: imag(mul(conj(result), grad))",
     .flops = "8 * numel",
     .scalar_ref = &reference,
     .samples = "c64[4, 33], f32[33]; c128[5], f64[5]; c64[2, 3], f32[2, 1]; c64[0, 3], f32[3]"},
};

TC_PLUGIN_EXPORT int32_t tc_plugin_query(const tc_host *h, tc_plugin_desc *out) {
  static const char build[] = "rotate 1.0, " __DATE__ " " __TIME__;
  const tc_plugin_desc d = {.name = {"rotate", 6},
                            .vendor = {"example", 7},
                            .version = {"1.0", 3},
                            .build_id = {build, sizeof build - 1},
                            .capabilities = TC_CAP_OPS,
                            .ops = rows,
                            .n_ops = sizeof rows / sizeof *rows};
  return tc_sdk_answer(h, &d, out);
}
