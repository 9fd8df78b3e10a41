// The rows of the ops that the plugin brings.
#include "fft.h"

#define ROW(text) .struct_size = sizeof(tc_op_def), .schema = text, .traits = TC_OP_COMPLEX
#define TRANSFORM(text) ROW(text) | TC_OP_KNOWN_LENGTHS
#define FAMILY(name)                                                                                               \
  {TRANSFORM("aten::fft_" #name "(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor"),            \
   .expand = fft_expand_##name##_1},                                                                               \
      {TRANSFORM("aten::fft_" #name                                                                                \
                 "2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None) -> Tensor"),               \
       .expand = fft_expand_##name##_n},                                                                           \
  {                                                                                                                \
    TRANSFORM("aten::fft_" #name "n(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"), \
        .expand = fft_expand_##name##_n                                                                            \
  }
#define OPTIONS "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"

// 5 N log2 N, half of it where one side is real; where the result is complex 4 count as one.
#define FLOPS_C2C .flops = "5 * numel / along(self, dim) * nlog2n(along(self, dim)) / 4"
#define FLOPS_R2C .flops = "5 * self.numel / along(self, dim) * nlog2n(along(self, dim)) / 8"
#define FLOPS_C2R .flops = "5 * numel / along(out, dim) * nlog2n(along(out, dim)) / 2"
// The weights of one side's numbers k of n: of what has a mirror image, and of the ends, which have none.
#define ENDS(inner, ends) "let w = where(logical_and(gt(k, 0), lt(k, (n + 1) // 2)), " inner ", " ends "); "
#define WEIGHED(g, real) "movedim(mul(movedim(" g ", d, -1), to(w, " real ".dtype)), -1, d)"
const tc_op_def fft_ops[] = {
    {TRANSFORM("aten::_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor"),
     .meta = fft_meta_c2c, .lower = fft_lower_c2c, FLOPS_C2C, .ref = fft_ref_c2c,
     .grad = "self: _fft_c2c(grad, dim, normalization, !forward)"},
    {TRANSFORM("aten::_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor"),
     .meta = fft_meta_r2c,
     // What is left out on one side is added by the transform back to reals, which counts all but the ends twice.
     .grad = "let d = dim[-1]; let n = self.size(d); let k = arange(grad.size(d)); " ENDS(
         "0.5", "1.0") "self: if(onesided, _fft_c2r(" WEIGHED("grad",
                                                              "self") ", dim, normalization, n), real(_fft_c2c(grad, "
                                                                      "dim, normalization, false)))",
     .lower = fft_lower_r2c, FLOPS_R2C, .ref = fft_ref_r2c},
    {TRANSFORM("aten::_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor"),
     .meta = fft_meta_c2r,
     .grad = "let d = dim[-1]; let n = last_dim_size; let g = _fft_r2c(grad, dim, normalization, true); "
             "let k = arange(g.size(d)); " ENDS("2.0", "1.0") "self: " WEIGHED("g", "grad"),
     .lower = fft_lower_c2r, FLOPS_C2R, .ref = fft_ref_c2r},
    FAMILY(fft),
    FAMILY(ifft),
    FAMILY(rfft),
    FAMILY(irfft),
    FAMILY(hfft),
    FAMILY(ihfft),
    {ROW("aten::fft_fftshift(Tensor self, int[1]? dim=None) -> Tensor"), .expand = fft_expand_fftshift},
    {ROW("aten::fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor"), .expand = fft_expand_ifftshift},
    {ROW("aten::fft_fftfreq(int n, float d=1.0, *, " OPTIONS), .expand = fft_expand_fftfreq},
    {ROW("aten::fft_rfftfreq(int n, float d=1.0, *, " OPTIONS), .expand = fft_expand_rfftfreq},
    {ROW("aten::stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool "
         "normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor"),
     .expand = fft_expand_stft},
    {ROW("aten::stft.center(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
         "bool center=True, str pad_mode=\"reflect\", bool normalized=False, bool? onesided=None, bool? "
         "return_complex=None, bool? align_to_window=None) -> Tensor"),
     .expand = fft_expand_stft_center},
    {ROW("aten::istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool "
         "center=True, bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) -> "
         "Tensor"),
     .expand = fft_expand_istft},
    {ROW("fft::overlap_add(Tensor frames, int hop) -> Tensor"), .meta = fft_meta_overlap, .lower = fft_lower_overlap,
     .ref = fft_ref_overlap, .grad = "frames: unfold(grad, -1, frames.size(-1), hop)", .flops = "frames.numel"},
};
const int32_t fft_op_count = sizeof fft_ops / sizeof *fft_ops;
