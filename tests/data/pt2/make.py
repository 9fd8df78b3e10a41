#!/usr/bin/env python3
"""Writes the archives of this folder (run in it; needs torch). tests/unit/frontends/test_pt2.c says what is in them."""
import collections
import io
import json
import sys
import warnings
import zipfile

if sys._getframe().f_code.co_filename != "make.py":
    # Under its plain name, so that stack traces in the archives do not say where it lay.
    exec(compile(open("make.py").read(), "make.py", "exec"), globals())
    sys.exit()

import torch
from safetensors.torch import save_file
from torch.export import Dim, export, save
from torch.export.pt2_archive._package import package_pt2
from torch.utils import _pytree

warnings.filterwarnings("ignore")
torch.manual_seed(0)

Pair = collections.namedtuple("Pair", "p q")
_pytree._register_namedtuple(Pair, serialized_type_name="Pair")


class Tree(torch.nn.Module):  # nested arguments, a specialised constant, outputs of every kind
    def forward(self, x, d, *rest, pair=None, flag=3, **more):
        return {
            "a": x + d["k"][0],
            "b": [d["k"][1] * flag, Pair(pair.p, rest[0])],
            "c": more["last"],
            "n": None,
            "s": "text",
            "i": 7,
            "o": collections.OrderedDict(u=x),
        }


one = torch.ones
save(export(Tree(), (one(3), {"k": [one(3), one(3)]}, one(2)), {"pair": Pair(one(1), one(1)), "flag": 4, "last": one(5)}), "tree.pt2")


class Item(torch.nn.Module):  # numbers from data, checked at run time; floating-point numbers
    def forward(self, x, n):
        k = n.item()
        torch._check(k >= 2)
        torch._check(k <= x.shape[0])
        f = x.sum().item()
        return x[:k] * f + k, torch.zeros(k) + f * 2


save(export(Item(), (torch.randn(8), torch.tensor(3))), "item.pt2")


class Branch(torch.nn.Module):  # a condition on a size, sub-graphs with symbols, a mutated buffer
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count.add_(1)
        return torch.cond(x.shape[0] > 4, lambda t: t.reshape(t.shape[0] * 2, -1).sum(1), lambda t: (t.sum(1) + torch.zeros(2, 1)).reshape(-1), (x,))


branch = export(Branch(), (torch.randn(6, 4),), dynamic_shapes={"x": {0: Dim("b", min=2, max=100)}})
save(branch, "branch.pt2")
save(branch.run_decompositions({}), "branch.functional.pt2")


class Numbers(torch.nn.Module):  # an integer input with guards, a float constant, an integer output
    def forward(self, x, n, f):
        return x * n + f, n + 1, x.new_zeros(n, x.shape[0] // 2)


save(export(Numbers(), (torch.randn(6, 4), 5, 2.5), dynamic_shapes=({0: Dim.DYNAMIC}, Dim.DYNAMIC, None)), "numbers.pt2")


class State(torch.nn.Module):  # tied weights, both kinds of buffers, a lifted constant, a mutated input
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(2))
        self.register_buffer("steps", torch.arange(3.0), persistent=False)
        self.w = torch.nn.Parameter(torch.arange(16.0).reshape(4, 4).t())  # not row-major
        self.tied = self.w
        self.lin = torch.nn.Linear(4, 4)
        self.lin.weight = self.w

    def forward(self, x, y):
        y.mul_(2)
        self.count.add_(1)
        return self.lin(x) + self.tied + self.steps.sum() + torch.tensor([1.0, 2, 3, 4])


state = export(State(), (torch.randn(4, 4), torch.ones(3)))
save(state, "state.pt2")
save(state.run_decompositions({}), "state.functional.pt2")


class Solve(torch.nn.Module):  # effect tokens in the core dialect
    def forward(self, a, b):
        return torch.linalg.solve(a, b), torch.linalg.inv(a)


save(export(Solve(), (torch.eye(4) * 3, torch.randn(4, 2))).run_decompositions(), "solve.core.pt2")


@torch.library.custom_op("user::blend", mutates_args=())
def blend(x: torch.Tensor, y: torch.Tensor, alpha: float, k: int) -> torch.Tensor:
    return x * alpha + y * k


@blend.register_fake
def _(x, y, alpha, k):
    return torch.empty_like(x)


class User(torch.nn.Module):  # an op of its author's own, whose kernels tests/cli/Inputs/user_archive.tc has
    def forward(self, x, y):
        a = torch.ops.user.blend(x + 1, y, 0.3, 2)
        return torch.relu(torch.ops.user.blend(a, y * y, -1.5, x.shape[0]))


given = torch.randn(6, 33), torch.randn(6, 33)
user = export(User(), given, dynamic_shapes=({0: Dim("n", min=2, max=100)}, {0: Dim("n", min=2, max=100)}))
save(user, "user.pt2")
save_file({"in.0": given[0], "in.1": given[1], "out.0": user.module()(*given), "ref.0": user.module()(*given).double()}, "user.safetensors")


class Mixed(torch.nn.Module):  # regions with autocast, one of them off within another
    def __init__(self):
        super().__init__()
        self.a, self.b, self.norm = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8), torch.nn.LayerNorm(16)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = self.norm(torch.nn.functional.gelu(self.a(x)))
            with torch.autocast("cpu", enabled=False):
                plain = x @ torch.ones(8, 8)
            y = self.b(h)
            loss = torch.nn.functional.mse_loss(y, torch.zeros_like(y))
            joined, lower = torch.cat([y, plain], -1), torch.cat([y, y], -1)
        return y, joined.bfloat16(), lower, loss.bfloat16(), x @ x.mT


torch.manual_seed(1)
mixed, rows = Mixed(), torch.randn(5, 8)
save(export(mixed, (rows,), dynamic_shapes=({0: Dim("n", min=2, max=100)},)), "mixed.pt2")
given = {"in.0": rows} | {f"out.{i}": t.detach().contiguous() for i, t in enumerate(mixed(rows))}
wide = Mixed().double()
wide.load_state_dict(mixed.state_dict())
torch.set_default_dtype(torch.float64)
save_file(given | {f"ref.{i}": t.detach().contiguous() for i, t in enumerate(wide(rows.double()))}, "mixed.safetensors")
torch.set_default_dtype(torch.float32)


class Encode(torch.nn.Module):
    def forward(self, x):
        return x + 1


class Decode(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.l(x)


package_pt2(
    "methods.pt2",
    exported_programs={
        "encode": export(Encode(), (one(2),)),
        "decode": export(Decode(), (one(3, 2),), dynamic_shapes=({0: Dim("n", max=64)},)),
    },
)


def members(path):
    with zipfile.ZipFile(path) as z:
        return {n.split("/", 1)[1]: z.read(n) for n in z.namelist()}


def rezip(path, entries, compression):
    with zipfile.ZipFile(path, "w", compression) as z:
        for name, data in entries.items():
            z.writestr(zipfile.ZipInfo(name), data, compression)


# The same program deflated; with its payloads in the other byte order; and in the flat layout of torch <= 2.7.
plain = members("state.functional.pt2")
rezip("state.deflated.pt2", {"a/" + n: d for n, d in plain.items()}, zipfile.ZIP_DEFLATED)
swapped = {n: (b"".join(d[i : i + 4][::-1] for i in range(0, len(d), 4)) if "/weight_" in n or "/tensor_" in n else d) for n, d in plain.items()}
swapped["byteorder"] = b"big"
rezip("state.big.pt2", {"a/" + n: d for n, d in swapped.items()}, zipfile.ZIP_STORED)


def pickled(value):
    out = io.BytesIO()
    torch.save(value, out)
    return out.getvalue()


program = json.loads(plain["models/model.json"])
program["schema_version"]["minor"] = 7
program["torch_version"] = "2.7.0"
del program["guards_code"]
for node in program["graph_module"]["graph"]["nodes"]:
    node.pop("name", None)
rezip(
    "state.flat.pt2",
    {
        "serialized_exported_program.json": json.dumps(program),
        "serialized_state_dict.pt": pickled(dict(state.state_dict)),
        "serialized_constants.pt": pickled({k: v for k, v in state.constants.items()}),
        "serialized_example_inputs.pt": pickled((torch.randn(4, 4), torch.ones(3))),
        "version": "8.7",
    },
    zipfile.ZIP_STORED,
)
