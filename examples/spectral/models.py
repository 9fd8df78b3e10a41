"""Four spectral programs, exported with their inputs: denoise.pt2, long_convolution.pt2, fourier_operator.pt2, ofdm_link.pt2.

    pip install torch numpy; python examples/spectral/models.py

Each archive holds sample inputs, so that `tcrun examples/spectral/denoise.pt2 --backend=cpu` has something to work on;
pictures.py runs all four and draws what went in and what came out.
"""
import pathlib
import sys

import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from export import save  # noqa: E402 (lies in the folder above)


class Denoise(torch.nn.Module):
    """Wiener filter of an image: each frequency is kept by its share of signal, estimated from its power."""

    def __init__(self, sigma: float):
        super().__init__()
        self.noise = sigma * sigma

    def forward(self, image):
        spectrum = torch.fft.rfft2(image, norm="ortho")
        power = spectrum.real.square() + spectrum.imag.square()
        gain = torch.clamp(1 - 4 * self.noise / power, min=0)
        return torch.fft.irfft2(spectrum * gain, s=image.shape[-2:], norm="ortho")


class LongConvolution(torch.nn.Module):
    """A signal through a filter as long as itself (here the echoes of a room), by transforms of twice the length."""

    def __init__(self, response: torch.Tensor):
        super().__init__()
        self.register_buffer("response", response)

    def forward(self, signal):
        n = signal.shape[-1]
        product = torch.fft.rfft(signal, n=2 * n) * torch.fft.rfft(self.response, n=2 * n)
        return torch.tanh(torch.fft.irfft(product, n=2 * n)[..., :n])


class FourierOperator(torch.nn.Module):
    """One step of a Fourier neural operator (Li et al., 2021): low modes through a complex matrix per mode, and a bypass."""

    def __init__(self, channels: int, modes: int):
        super().__init__()
        self.modes = modes
        scale = 1 / channels
        self.low = torch.nn.Parameter(scale * torch.randn(channels, channels, modes, modes, dtype=torch.complex64))
        self.high = torch.nn.Parameter(scale * torch.randn(channels, channels, modes, modes, dtype=torch.complex64))
        self.bypass = torch.nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        m = self.modes
        spectrum = torch.fft.rfft2(x)
        out = torch.zeros(b, c, h, w // 2 + 1, dtype=torch.complex64)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], self.low)
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -m:, :m], self.high)
        return torch.nn.functional.gelu(torch.fft.irfft2(out, s=(h, w)) + self.bypass(x))


class OfdmLink(torch.nn.Module):
    """Symbols on many carriers through a channel with echoes and noise, and the receiver's equaliser."""

    def __init__(self, carriers: int, prefix: int, taps: torch.Tensor):
        super().__init__()
        self.carriers, self.prefix = carriers, prefix
        self.register_buffer("taps", taps)

    def forward(self, symbols, noise):
        n, p = self.carriers, self.prefix
        sent = torch.fft.ifft(symbols, norm="ortho")
        sent = torch.cat([sent[:, n - p:], sent], dim=-1)  # the cyclic prefix
        length = sent.shape[-1]
        echoes = sum(self.taps[k] * torch.nn.functional.pad(sent, (k, 0))[:, :length] for k in range(p))
        received = torch.fft.fft((echoes + noise)[:, p:], norm="ortho")
        channel = torch.fft.fft(self.taps, n=n)
        return received * channel.conj() / (channel.abs().square() + 1e-3), received


def image(n: int) -> torch.Tensor:
    y, x = np.mgrid[0:n, 0:n] / n - 0.5
    r = np.hypot(x, y)
    rings = 0.5 + 0.5 * np.cos(60 * r) * np.exp(-4 * r)
    disc = (np.hypot(x + 0.2, y - 0.15) < 0.12).astype(float)
    return torch.tensor(0.7 * rings + 0.5 * disc, dtype=torch.float32)


def store(name: str, model: torch.nn.Module, inputs: tuple):
    save(model, inputs, HERE / f"{name}.pt2")


def main():
    torch.manual_seed(0)
    sigma, n = 0.15, 192
    store("denoise", Denoise(sigma), (image(n) + sigma * torch.randn(n, n),))

    n = 6000
    t = torch.arange(n) / n
    response = torch.randn(n) * torch.exp(-12 * t) * (torch.rand(n) < 0.02)
    response[0] = 1
    clicks = torch.zeros(2, n)
    clicks[0, 300], clicks[1, 1200] = 1, -1
    store("long_convolution", LongConvolution(response), (clicks + 0.2 * torch.sin(2 * torch.pi * 40 * t) * (t > 0.6),))

    n = 64
    y, x = torch.meshgrid(torch.arange(n) / n, torch.arange(n) / n, indexing="ij")
    waves = [torch.sin(2 * torch.pi * (k * x + (3 - k) * y)) for k in range(4)]
    store("fourier_operator", FourierOperator(4, 6), (torch.stack(waves)[None] + 0.3 * torch.randn(1, 4, n, n),))

    carriers, prefix, frames = 256, 8, 12
    taps = torch.randn(prefix, dtype=torch.complex64) * torch.exp(-torch.arange(prefix) / 2)
    levels = torch.tensor([-3.0, -1.0, 1.0, 3.0]) / 10 ** 0.5  # 16-QAM
    pick = torch.randint(0, 4, (2, frames, carriers))
    symbols = torch.complex(levels[pick[0]], levels[pick[1]])
    noise = 0.05 * torch.randn(frames, carriers + prefix, dtype=torch.complex64)
    store("ofdm_link", OfdmLink(carriers, prefix, taps), (symbols, noise))


if __name__ == "__main__":
    main()
