#!/usr/bin/env python3
"""Steps of PyTorch's optimizers, for tests/unit/api/test_gradients.c: python3 tools/optimizer_table.py > tests/unit/api/optimizers.txt

A line per optimizer: kind (0 SGD, 1 Adam, 2 AdamW), rate, momentum, Nesterov, decay, clip; the parameters; and for each step the
gradients and the parameters behind it. Computed in f64, of numbers that f32 has."""
import torch

SIZES, STEPS = (3, 5), 4
CASES = [
    (0, 0.1, 0.0, 0, 0.0, 0.0),
    (0, 0.1, 0.9, 0, 0.01, 0.0),
    (0, 0.05, 0.8, 1, 0.02, 0.5),
    (1, 0.01, 0.0, 0, 0.0, 0.0),
    (1, 0.02, 0.0, 0, 0.05, 1.0),
    (2, 0.01, 0.0, 0, 0.1, 0.0),
    (2, 0.03, 0.0, 0, 0.01, 0.25),
]


def make(kind, rate, momentum, nesterov, decay, params):
    if kind == 0:
        return torch.optim.SGD(params, rate, momentum=momentum, nesterov=bool(nesterov), weight_decay=decay)
    return (torch.optim.Adam if kind == 1 else torch.optim.AdamW)(params, rate, weight_decay=decay)


def numbers(tensors):
    return " ".join(f"{v:.9g}" for t in tensors for v in t.detach().tolist())


def main():
    torch.manual_seed(0)
    print("# Made by tools/optimizer_table.py with torch", torch.__version__.split("+")[0])
    for kind, rate, momentum, nesterov, decay, clip in CASES:
        params = [torch.randn(n).double().requires_grad_() for n in SIZES]
        parts = [f"{kind} {rate} {momentum} {nesterov} {decay} {clip}", numbers(params)]
        optimizer = make(kind, rate, momentum, nesterov, decay, params)
        for _ in range(STEPS):
            for p in params:
                p.grad = torch.randn(p.shape).double()
            parts.append(numbers([p.grad for p in params]))
            if clip:
                torch.nn.utils.clip_grad_norm_(params, clip)
            optimizer.step()
            parts.append(numbers(params))
        print(" | ".join(parts))


main()
