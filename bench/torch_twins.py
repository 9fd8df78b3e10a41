"""Workloads in PyTorch whose archives it cannot differentiate: each takes the archive's inputs in order (parameters first)."""
import torch


def fno_spectral_conv2d(w1, w2, x):
    batch, channels, height, width = x.shape
    modes = w1.shape[-1]
    spectrum = torch.fft.rfft2(x)
    out = torch.zeros(batch, channels, height, width // 2 + 1, dtype=spectrum.dtype, device=x.device)
    out[:, :, :modes, :modes] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :modes, :modes], w1)
    out[:, :, -modes:, :modes] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -modes:, :modes], w2)
    return torch.fft.irfft2(out, s=(height, width))
