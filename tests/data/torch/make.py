#!/usr/bin/env python3
"""Writes the torch.save and safetensors files of this folder (run in it; needs torch, numpy and safetensors).

The expected values are spelled out in tests/unit/frontends/test_unpickle.c and tests/unit/tensor/test_npy.c.
"""
import collections
import os

import numpy as np
import torch

base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
tied = torch.nn.Parameter(torch.tensor([1.5, -2.0]))
state = collections.OrderedDict()
state["base"] = base
state["transposed"] = base.permute(2, 0, 1)      # shares the storage of base
state["slice"] = base[1, :, 1:3]                 # offset 13
state["scalar"] = torch.tensor(7)
state["empty"] = torch.zeros(0, 3)
state["tied.a"] = tied
state["tied.b"] = tied
torch.save(state, "state.pt")

every = {}
for name in "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split():
    dtype = getattr(torch, name)
    values = [0, 1, 1] if name == "bool" else [0, 1, 100]
    every[name] = torch.tensor(values, dtype=dtype)
every["complex64.conj"] = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64).conj()
every["float32.neg"] = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64).conj().imag
torch.save(every, "dtypes.pt")

sample = ((torch.ones(2, 2), [1, -1, 2**31, 2**40, -(2**63), 255, 256, 65536]), {"flag": True, "off": False, "none": None, "alpha": 0.5,
          "name": "h\u00e9llo", "nested": {"t": (1, (2, (3, 4), 5)), 7: "seven"}, "many": list(range(300))})
torch.save(sample, "sample.pt")

# A module's state dict has a _metadata attribute, written as BUILD.
torch.manual_seed(0)
module = torch.nn.Linear(2, 1)
with torch.no_grad():
    module.weight.copy_(torch.tensor([[0.25, 4.0]]))
    module.bias.copy_(torch.tensor([-1.0]))
torch.save(module.state_dict(), "module.pt")

# Refused: other callables, other protocols, the format before 1.6.
torch.save({"size": torch.Size([1, 2])}, "refused_size.pt")
torch.save(module, "refused_module.pt")
torch.save({"u": torch.tensor([1], dtype=torch.uint16)}, "refused_v3.pt")
torch.save([1, 2], "refused_protocol4.pt", pickle_protocol=4)
torch.save([1, 2], "refused_legacy.pt", _use_new_zipfile_serialization=False)

numbers = np.arange(6, dtype=np.float32).reshape(2, 3)
np.savez_compressed("packed.npz", numbers=numbers, fortran=np.asfortranarray(numbers), big=numbers.astype(">f8"),
                    scalar=np.int64(-5), complex=numbers[0] + 1j * numbers[1], zeros=np.zeros(4000, np.uint8))
np.save("bfloat16.npy", np.array([0x3F80, 0xC000], np.uint16).view("V2"))
np.savez("plain.npz", numbers=numbers, empty=np.zeros((0, 2), np.int16), flags=np.array([True, False]))
np.save("fortran.npy", numbers.T)

import safetensors.torch

safetensors.torch.save_file({"half": torch.tensor([[1.0, -2.0]], dtype=torch.float16), "flag": torch.tensor([True]),
                             "complex": torch.tensor([1 + 2j], dtype=torch.complex64), "brain": torch.tensor(3.0, dtype=torch.bfloat16),
                             "empty": torch.zeros(0, 4), "u16": torch.tensor([65535], dtype=torch.uint16)},
                            "some.safetensors", metadata={"format": "pt"})
