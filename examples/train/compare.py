"""The programs of this folder beside the same in PyTorch: same first parameters, data and batches.

    pip install torch numpy matplotlib safetensors; python examples/train/compare.py BUILD [--rounds=N] [--threads=N] [--eager]

BUILD has the programs (CMakeLists.txt says how they are built). Losses of every step go into one plot per program,
examples/train/pictures/NAME.png. Steps per second are taken in turns, the best of N rounds each; PyTorch runs op by op
and through torch.compile.
"""
import argparse
import csv
import pathlib
import re
import subprocess
import tempfile
import time

import matplotlib
import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402 (the backend is chosen first)

HERE = pathlib.Path(__file__).resolve().parent
TEXT = HERE.parents[1] / "LICENSE"
MASK = (1 << 64) - 1


def mixed(z: int) -> int:
    """splitmix64's output, as trainer.c chooses batches by."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def batch_of(step: int, batch: int, examples: int) -> torch.Tensor:
    numbers = [mixed((step * batch + i + 1) * 0x9E3779B97F4A7C15 & MASK) % examples for i in range(batch)]
    return torch.tensor(numbers)


# ---- the programs: loss(data, batch, parameters) ----
def mlp(t, i):
    x = t["points"][i]
    for k in range(1, 5):
        x = F.linear(x, t[f"l{k}.weight"], t[f"l{k}.bias"])
        x = F.gelu(x) if k < 4 else x
    return F.cross_entropy(x, t["classes"][i])


def gpt(t, i):
    length, width, heads = 64, 64, 4
    text = t["text"][i[:, None] + t["places"]]
    x = F.embedding(text[:, :-1], t["bytes"]) + t["places.weight"]
    n = len(i)

    def norm(x, name):
        return F.layer_norm(x, (width,), t[f"{name}.weight"], t[f"{name}.bias"])

    def linear(x, name):
        return F.linear(x, t[f"{name}.weight"], t[f"{name}.bias"])

    for k in ("layer0", "layer1"):
        qkv = linear(norm(x, f"{k}.norm1"), f"{k}.qkv").reshape(n, length, 3, heads, width // heads)
        q, key, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, key, v, is_causal=True)
        x = x + linear(y.transpose(1, 2).reshape(n, length, width), f"{k}.out")
        x = x + linear(F.gelu(linear(norm(x, f"{k}.norm2"), f"{k}.up")), f"{k}.down")
    x = F.linear(norm(x, "norm"), t["head"])
    return F.cross_entropy(x.reshape(n * length, -1), text[:, 1:].reshape(-1))


def fno(t, i):
    grid, modes = 64, 12
    x = F.linear(t["states"][i], t["lift.weight"], t["lift.bias"])
    for k in range(3):
        f = torch.fft.rfft(x, grid, 1)[:, :modes]
        f = torch.bmm(f.transpose(0, 1), torch.view_as_complex(t[f"layer{k}.spectral"]))
        y = torch.fft.irfft(f.transpose(0, 1), grid, 1)
        x = y + F.linear(x, t[f"layer{k}.weight"], t[f"layer{k}.bias"])
        x = F.gelu(x) if k < 2 else x
    x = F.gelu(F.linear(x, t["project1.weight"], t["project1.bias"]))
    x = F.linear(x, t["project2.weight"], t["project2.bias"]).squeeze(-1)
    return F.mse_loss(x, t["later"][i])


def sgd(p):
    return torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-4)


def adamw(p):
    return torch.optim.AdamW(p, lr=2e-3, weight_decay=0.05)


def adam(p):
    return torch.optim.Adam(p, lr=2e-3)


# name: loss, data, examples by data, batch, steps, optimizer, norm that gradients are clipped to
PROGRAMS = {
    "mlp": (mlp, ("points", "classes"), lambda t: len(t["classes"]), 128, 1000, sgd, None),
    "gpt": (gpt, ("text", "places"), lambda t: len(t["text"]) - 64, 16, 300, adamw, 1.0),
    "fno": (fno, ("states", "later"), lambda t: len(t["later"]), 16, 500, adam, None),
}


class Peer:
    """A program in PyTorch, from what --export wrote."""

    def __init__(self, name: str, start: pathlib.Path, compiled: bool):
        self.loss, data, examples, self.batch, self.steps, optimizer, self.clip = PROGRAMS[name]
        self.tensors = load_file(start)
        self.parameters = [t.requires_grad_() for k, t in self.tensors.items() if k not in data]
        self.optimizer = optimizer(self.parameters)
        self.examples = examples(self.tensors)
        if compiled:
            self.loss = torch.compile(self.loss)
        self.step = 0

    def run(self, steps: int) -> list[float]:
        losses = []
        for _ in range(steps):
            self.optimizer.zero_grad()
            value = self.loss(self.tensors, batch_of(self.step, self.batch, self.examples))
            value.backward()
            if self.clip:
                torch.nn.utils.clip_grad_norm_(self.parameters, self.clip)
            self.optimizer.step()
            losses.append(value.item())
            self.step += 1
        return losses


def command(build: str, name: str, *options: str) -> str:
    line = [str(pathlib.Path(build) / name), str(TEXT), "--quiet", f"--threads={torch.get_num_threads()}", *options]
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout


def rate_of(peer: Peer, steps: int) -> float:
    start = time.perf_counter()
    peer.run(steps)
    return steps / (time.perf_counter() - start)


def draw(name: str, curves: dict[str, list[float]], rates: dict[str, float]):
    figure, axis = plt.subplots(figsize=(6.4, 4))
    for (label, losses), style in zip(curves.items(), ("-", "--")):
        axis.plot(losses, style, label=f"{label}: {rates[label]:.0f} steps/s", linewidth=1.6)
    axis.set_yscale("log")
    axis.set_xlabel("step")
    axis.set_ylabel("loss of the batch")
    compiled = rates.get("torch.compile")
    axis.set_title(name + (f" (torch.compile: {compiled:.0f} steps/s)" if compiled else ""), fontsize=10)
    axis.legend()
    axis.grid(alpha=0.3, which="both")
    (HERE / "pictures").mkdir(exist_ok=True)
    figure.tight_layout()
    figure.savefig(HERE / "pictures" / f"{name}.png", dpi=72)
    plt.close(figure)


def compare(name: str, build: str, rounds: int, compiled: bool, scratch: pathlib.Path):
    start, losses = scratch / f"{name}.safetensors", scratch / f"{name}.csv"
    command(build, name, f"--export={start}")
    command(build, name, f"--losses={losses}")
    with losses.open() as f:
        ours = [float(row[1]) for row in csv.reader(f)]
    peer = Peer(name, start, False)
    theirs = peer.run(peer.steps)
    peers = {"PyTorch": Peer(name, start, False)}
    if compiled:
        peers["torch.compile"] = Peer(name, start, True)
    steps = max(20, peer.steps // 10)
    rates = {"tc": 0.0} | {label: 0.0 for label in peers}
    for p in peers.values():
        p.run(3)  # compiles
    for _ in range(rounds):
        found = re.search(r"([0-9.]+) steps/s", command(build, name, f"--steps={steps}"))
        rates["tc"] = max(rates["tc"], float(found.group(1)))
        for label, p in peers.items():
            rates[label] = max(rates[label], rate_of(p, steps))
    draw(name, {"tc": ours, "PyTorch": theirs}, rates)
    last = len(ours) // 20
    a, b = np.mean(ours[-last:]), np.mean(theirs[-last:])
    print(f"{name}: mean loss of the last {last} of {len(ours)} steps: tc {a:.5f}, PyTorch {b:.5f}; steps/s: "
          + ", ".join(f"{k} {v:.1f}" for k, v in rates.items()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    parser.add_argument("--only", nargs="*", default=list(PROGRAMS))
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.only:
            compare(name, options.build, options.rounds, not options.eager, pathlib.Path(scratch))


if __name__ == "__main__":
    main()
