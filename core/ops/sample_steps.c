// grid_sampler in steps that have derivatives: what stands for it where gradients are wanted.
//
// Per dimension a position has taps (1, 2 or 4 of them) with weights, zero outside; the taps of an image are the sums
// of its dimensions' places, with the products of their weights. The definitions are those of sample.c; rounding down
// and to the nearest place lets no gradient through, so what flows to the grid flows through the weights.
#include "core/ops/ops.h"

#define TEXT(s, d) {.schema = s, .decompose = d}
// Cubic weights by distance, a = -0.75.
#define NEAR(u) "add(mul(mul(sub(mul(" u ", 1.25), 2.25), " u "), " u "), 1)"
#define FAR(u) "add(mul(sub(mul(sub(3.75, mul(" u ", 0.75)), " u "), 6), " u "), 3)"

static const tc_op_def rows[] = {
    TEXT("_grid_moved(Tensor v, SymInt s, int padding_mode, bool align_corners) -> Tensor",
         "let w = if(align_corners, max(s - 1, 1), s); let u = abs(if(align_corners, v, add(v, 0.5))); let f = "
         "floor(div(u, w)); let e = sub(u, mul(f, w)); let odd = gt(sub(f, mul(floor(div(f, 2)), 2)), 0.5);"
         "let r = sub(where(odd, rsub(e, w), e), if(align_corners, 0.0, 0.5)); let inner = if(padding_mode == 2, "
         "if(align_corners && s == 1, zeros_like(v), r), v); if(padding_mode == 0, v, clamp(inner, 0, s - 1))"),
    TEXT(
        "_grid_line(Tensor x, SymInt s, int kind, int padding_mode, bool align_corners) -> (Tensor, Tensor)",
        "let v0 = if(align_corners, mul(div(add(x, 1), 2), s - 1), div(sub(mul(add(x, 1), s), 1), 2)); let v = "
        "if(kind == 2, v0, _grid_moved(v0, s, padding_mode, align_corners)); let low = if(kind == 1, round(v), "
        "floor(v)); let f = sub(v, low); let before = add(f, 1); let after = rsub(f, 1); let last_ = rsub(f, 2);"
        "let at = if(kind == 1, unsqueeze(low, 0), if(kind == 0, stack([low, add(low, 1)], 0), "
        "_grid_moved(stack([sub(low, 1), low, add(low, 1), add(low, 2)], 0), s, padding_mode, align_corners)));"
        "let weight = if(kind == 1, ones_like(at), if(kind == 0, stack([after, f], 0), stack([" FAR("before") ", " NEAR(
            "f") ", " NEAR("after") ", " FAR("last_") "], 0))); to(clamp(at, 0, s - 1), i64), "
                                                      "where(logical_and(ge(at, 0), lt(at, s)), weight, 0)"),
    TEXT(
        "_grid_sample(Tensor input, Tensor grid, int kind, int padding_mode, bool align_corners) -> Tensor",
        "let d = input.dtype; let wide_ = wide(d); let n = input.size(0); let c = input.size(1); let p = "
        "product(part(grid.sizes, 1, -1)); let g = reshape(to(grid, wide_), [n, p, -1]); let cube = input.rank == 5;"
        "let xa, xw = _grid_line(select(g, -1, 0), input.size(-1), kind, padding_mode, align_corners);"
        "let ya, yw = _grid_line(select(g, -1, 1), input.size(-2), kind, padding_mode, align_corners);"
        "let za, zw = if(cube, _grid_line(select(g, -1, g.size(2) - 1), input.size(2), kind, padding_mode, "
        "align_corners), [ya, yw]);"
        "let flat_a = reshape(add(mul(unsqueeze(ya, 1), input.size(-1)), unsqueeze(xa, 0)), [-1, n, p]); let flat_w = "
        "reshape(mul(unsqueeze(yw, 1), unsqueeze(xw, 0)), [-1, n, p]);"
        "let at = if(cube, reshape(add(mul(unsqueeze(za, 1), input.size(-1) * input.size(-2)), unsqueeze(flat_a, 0)), "
        "[-1, n, p]), flat_a); let w = if(cube, reshape(mul(unsqueeze(zw, 1), unsqueeze(flat_w, 0)), [-1, n, p]), "
        "flat_w); let taps = w.size(0); let i = expand(reshape(permute(at, [1, 0, 2]), [n, 1, taps * p]), [n, c, taps "
        "* p]); let values = reshape(gather(reshape(to(input, wide_), [n, c, -1]), 2, i), [n, c, taps, p]);"
        "to(reshape(sum(mul(values, unsqueeze(permute(w, [1, 0, 2]), 1)), [2]), [n, c] + part(grid.sizes, 1, -1)), d)"),
};
#define GRID(op) {op, "forward: _grid_sample(input, grid, interpolation_mode, padding_mode, align_corners)"}
static const tc_op_derivative derivatives[] = {GRID("grid_sampler"), GRID("grid_sampler_2d"), GRID("grid_sampler_3d")};
TC_OP_FAMILY_WITH_DERIVATIVES(sample_steps);
