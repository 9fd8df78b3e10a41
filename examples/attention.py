"""Exports examples/attention.pt2: self-attention written by hand, softmax by exp and sum.

    pip install torch; python examples/attention.py
"""
import pathlib

import torch

from export import save


class Attention(torch.nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.q = torch.nn.Linear(width, width, bias=False)
        self.k = torch.nn.Linear(width, width, bias=False)
        self.v = torch.nn.Linear(width, width, bias=False)

    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(-2, -1)
        weights = torch.exp(scores) / torch.sum(torch.exp(scores), dim=-1, keepdim=True)
        return weights @ self.v(x)


if __name__ == "__main__":
    torch.manual_seed(0)
    save(Attention(64), (torch.randn(2, 16, 64),), pathlib.Path(__file__).with_suffix(".pt2"))
