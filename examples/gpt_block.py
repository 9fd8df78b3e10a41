"""Exports examples/gpt_block.pt2: a transformer block with a sequence length that may change.

    pip install torch; python examples/gpt_block.py
"""
import pathlib

import torch
import torch.nn.functional as F

from export import save


class Block(torch.nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.proj = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, s, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, s, d))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


if __name__ == "__main__":
    torch.manual_seed(0)
    length = torch.export.Dim("length", min=2, max=512)
    out = pathlib.Path(__file__).with_suffix(".pt2")
    save(Block(64, 4), (torch.randn(1, 12, 64),), out, dynamic_shapes={"x": {1: length}})
