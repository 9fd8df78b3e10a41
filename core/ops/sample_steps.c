// The derivatives of grid_sampler, in steps.
//
// Per dimension a position has taps (1, 2 or 4 of them) with weights, zero outside; the taps of an image are the sums
// of its dimensions' places, with the products of their weights. The definitions are those of sample.c. Rounding down
// and to the nearest place lets no gradient through, so what flows to the grid flows through the weights, by their
// slopes; positions on the border or beyond it, where they are moved there, let nothing through either, as in PyTorch.
#include "core/ops/ops.h"

#define TEXT(s, d) {.schema = s, .decompose = d}
// Cubic weights by distance, a = -0.75, and their slopes.
#define NEAR(u) "add(mul(mul(sub(mul(" u ", 1.25), 2.25), " u "), " u "), 1)"
#define FAR(u) "add(mul(sub(mul(sub(3.75, mul(" u ", 0.75)), " u "), 6), " u "), 3)"
#define NEAR_SLOPE(u) "mul(sub(mul(" u ", 3.75), 4.5), " u ")"
#define FAR_SLOPE(u) "sub(mul(sub(7.5, mul(" u ", 2.25)), " u "), 6)"
// Reflected positions r of v; `odd` times.
#define REFLECTED                                                                                                      \
  "let w = if(align_corners, max(s - 1, 1), s); let u0 = if(align_corners, v, add(v, 0.5)); let u = abs(u0); let f = " \
  "floor(div(u, w)); let e = sub(u, mul(f, w)); let odd = gt(sub(f, mul(floor(div(f, 2)), 2)), 0.5);"                  \
  "let r = sub(where(odd, rsub(e, w), e), if(align_corners, 0.0, 0.5)); "
#define LINE(i, size) "_grid_line(select(g, -1, " i "), " size ", kind, padding_mode, align_corners)"
#define LINES                                                               \
  "let x, xw, xs = " LINE("0", "input.size(-1)") "; let y, yw, ys = " LINE( \
      "1", "input.size(-2)") "; let z, zw, zs = if(cube, " LINE("2", "input.size(2)") ", [y, yw, ys]);"
#define BACKWARD(name)                                                                                                 \
  TEXT(                                                                                                                \
      name "(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool "           \
           "align_corners, bool[2] output_mask) -> (Tensor, Tensor)",                                                  \
      "let d = wide(input.dtype); let kind = interpolation_mode; let cube = input.rank == 5; let n = input.size(0);"   \
      "let c = input.size(1); let p = product(part(grid.sizes, 1, -1)); let pixels = product(part(input.sizes, 2, "    \
      "input.rank)); let g = reshape(to(grid, d), [n, p, grid.size(-1)]);" LINES                                       \
      "let flat = reshape(add(mul(unsqueeze(y, 1), input.size(-1)), unsqueeze(x, 0)), [x.size(0) * y.size(0), n, p]);" \
      "let at = if(cube, reshape(add(mul(unsqueeze(z, 1), input.size(-1) * input.size(-2)), unsqueeze(flat, 0)), "     \
      "[z.size(0) * flat.size(0), n, p]), flat); let taps = at.size(0); let i = expand(reshape(permute(at, [1, 0, "    \
      "2]), [n, 1, taps * p]), [n, c, taps * p]);"                                                                     \
      "let go = reshape(to(grad_output, d), [n, c, 1, p]); let w = unsqueeze(permute(_grid_taps(xw, yw, zw, cube), "   \
      "[1, 0, 2]), 1); let put = scatter_add(zeros([n, c, pixels], dtype=d), 2, i, reshape(mul(go, w), [n, c, taps "   \
      "* p])); let values = reshape(gather(reshape(to(input, d), [n, c, pixels]), 2, i), [n, c, taps, p]);"            \
      "let dot = permute(sum(mul(values, go), [1]), [1, 0, 2]); let gx = sum(mul(dot, _grid_taps(xs, yw, zw, "         \
      "cube)), [0]); let gy = sum(mul(dot, _grid_taps(xw, ys, zw, cube)), [0]); let gz = if(cube, sum(mul(dot, "       \
      "_grid_taps(xw, yw, zs, cube)), [0]), gy);"                                                                      \
      "if(output_mask[0], to(reshape(put, input.sizes), input.dtype), none), to(reshape(stack(if(cube, [gx, gy, "      \
      "gz], [gx, gy]), -1), grid.sizes), grid.dtype)")

// Places, weights, and what these change by with x.
// clang-format off: one statement a line
#define GRID_LINE \
  "let v0 = if(align_corners, mul(div(add(x, 1), 2), s - 1), div(sub(mul(add(x, 1), s), 1), 2)); " \
  "let v = if(kind == 2, v0, _grid_moved(v0, s, padding_mode, align_corners)); " \
  "let low = if(kind == 1, round(v), floor(v)); " \
  "let f = sub(v, low); let before = add(f, 1); let after = rsub(f, 1); let last_ = rsub(f, 2); " \
  "let at = if(kind == 1, unsqueeze(low, 0), if(kind == 0, stack([low, add(low, 1)], 0), " \
  "_grid_moved(stack([sub(low, 1), low, add(low, 1), add(low, 2)], 0), s, padding_mode, align_corners))); " \
  "let weight = if(kind == 1, ones_like(at), if(kind == 0, stack([after, f], 0), " \
  "stack([" FAR("before") ", " NEAR("f") ", " NEAR("after") ", " FAR("last_") "], 0))); " \
  "let m = _grid_moved_slope(v0, s, padding_mode, align_corners); " \
  "let change = if(kind == 1, zeros_like(at), if(kind == 0, stack([neg(m), m], 0), stack([" \
  FAR_SLOPE("before") ", " NEAR_SLOPE("f") ", neg(" NEAR_SLOPE("after") "), neg(" FAR_SLOPE("last_") ")], 0))); " \
  "let inside = logical_and(ge(at, 0), lt(at, s)); " \
  "to(clamp(at, 0, s - 1), i64), where(inside, weight, 0), " \
  "where(inside, div(mul(change, if(align_corners, s - 1, s)), 2), 0)"
// clang-format on

static const tc_op_def rows[] = {
    TEXT("_grid_moved(Tensor v, SymInt s, int padding_mode, bool align_corners) -> Tensor",
         REFLECTED "let inner = if(padding_mode == 2, if(align_corners && s == 1, zeros_like(v), r), v); "
                   "if(padding_mode == 0, v, clamp(inner, 0, s - 1))"),
    // The slope of that: 1, -1, or 0.
    TEXT("_grid_moved_slope(Tensor v, SymInt s, int padding_mode, bool align_corners) -> Tensor",
         REFLECTED "let inner = if(padding_mode == 2, r, v); let turned = if(padding_mode == 2, "
                   "where(logical_xor(lt(u0, 0), odd), -1, 1), ones_like(v)); if(padding_mode == 0, ones_like(v), "
                   "to(where(logical_and(gt(inner, 0), lt(inner, s - 1)), turned, 0), v.dtype))"),
    TEXT("_grid_line(Tensor x, SymInt s, int kind, int padding_mode, bool align_corners) -> (Tensor, Tensor, Tensor)",
         GRID_LINE),
    // Products of the dimensions' weights, the last dimension's first.
    TEXT("_grid_taps(Tensor x, Tensor y, Tensor z, bool cube) -> Tensor",
         "let f = reshape(mul(unsqueeze(y, 1), unsqueeze(x, 0)), [x.size(0) * y.size(0)] + part(x.sizes, "
         "1, 3)); "
         "if(cube, reshape(mul(unsqueeze(z, 1), unsqueeze(f, 0)), [z.size(0) * f.size(0)] + part(x.sizes, "
         "1, 3)), f)"),
    BACKWARD("grid_sampler_2d_backward"),
    BACKWARD("grid_sampler_3d_backward"),
};
#define DERIVATIVE(op)                                                                                              \
  {op, "let r = if(input.rank == 5, grid_sampler_3d_backward(grad, input, grid, interpolation_mode, padding_mode, " \
       "align_corners, [true, true]), grid_sampler_2d_backward(grad, input, grid, interpolation_mode, "             \
       "padding_mode, align_corners, [true, true])); input: r[0]; grid: r[1]"}
static const tc_op_derivative derivatives[] = {DERIVATIVE("grid_sampler"), DERIVATIVE("grid_sampler_2d"),
                                               DERIVATIVE("grid_sampler_3d")};
TC_OP_FAMILY_WITH_DERIVATIVES(sample_steps);
