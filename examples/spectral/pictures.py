"""Runs the programs of this folder with tcrun and draws what went in and what came out into examples/spectral/pictures.

    pip install torch numpy matplotlib; python examples/spectral/pictures.py [TCRUN]
"""
import pathlib
import subprocess
import sys
import tempfile

import matplotlib
import numpy as np
import torch

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402 (the backend is chosen first)

HERE = pathlib.Path(__file__).resolve().parent
TCRUN = sys.argv[1] if len(sys.argv) > 1 else str(HERE.parents[1] / "build" / "bin" / "tcrun")
PICTURES = HERE / "pictures"


def run(name: str):
    """The archive's sample inputs, and tc's outputs for them."""
    archive = HERE / f"{name}.pt2"
    inputs = torch.export.load(archive).example_inputs[0]
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "out.npz"
        subprocess.run([TCRUN, "run", archive, "--backend=cpu", "--quiet", f"--output={path}"], check=True)
        stored = np.load(path)
        return [x.numpy() for x in inputs], [stored[k] for k in sorted(stored.files)]


def save(figure, name: str):
    PICTURES.mkdir(exist_ok=True)
    figure.tight_layout()
    figure.savefig(PICTURES / f"{name}.png", dpi=72)
    plt.close(figure)


def images(name: str, titled, cmap: str):
    figure, axes = plt.subplots(1, len(titled), figsize=(3.4 * len(titled), 3.6))
    for axis, (title, values) in zip(axes, titled):
        axis.imshow(values, cmap=cmap)
        axis.set_title(title, fontsize=10)
        axis.set_axis_off()
    save(figure, name)


def main():
    (noisy,), (clean,) = run("denoise")
    images("denoise", [("in: image and noise", noisy), ("out: Wiener filter", clean)], "gray")

    (signal,), (echoed,) = run("long_convolution")
    figure, axes = plt.subplots(2, 1, figsize=(7, 3.6), sharex=True)
    for axis, title, rows in zip(axes, ("in: two signals", "out: with echoes, limited"), (signal, echoed)):
        for row in rows:
            axis.plot(row, linewidth=0.7)
        axis.set_title(title, fontsize=10)
    save(figure, "long_convolution")

    (field,), (after,) = run("fourier_operator")
    titled = [(f"in, channel {c}", field[0, c]) for c in range(2)] + [(f"out, channel {c}", after[0, c]) for c in range(2)]
    images("fourier_operator", titled, "viridis")

    (symbols, _), (equalised, received) = run("ofdm_link")
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.6))
    titles = ("in: 16-QAM symbols", "received: echoes and noise", "out: equalised")
    for axis, title, points in zip(axes, titles, (symbols, received, equalised)):
        axis.plot(points.real.ravel(), points.imag.ravel(), ".", markersize=1.5)
        axis.set_title(title, fontsize=10)
        axis.set_aspect("equal")
    save(figure, "ofdm_link")


if __name__ == "__main__":
    main()
