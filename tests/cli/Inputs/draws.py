"""draws.py CASE.safetensors [RESULT.safetensors]: the stored case of draws.tc, an input and a cotangent of ones, and out.0
of RESULT as the gradient."""

import json
import struct
import sys

shape, size = [4, 64], 4 * 64 * 4
ones = struct.pack("<256f", *[1] * 256)
tensors = {"in.0": ones, "ct.0": ones}
if len(sys.argv) > 2:
    data = open(sys.argv[2], "rb").read()
    (at,) = struct.unpack_from("<Q", data)
    at += 8 + json.loads(data[8 : 8 + at])["out.0"]["data_offsets"][0]
    tensors["grad.0"] = data[at : at + size]
entry = lambda i: {"dtype": "F32", "shape": shape, "data_offsets": [i * size, i * size + size]}
header = json.dumps({name: entry(i) for i, name in enumerate(tensors)}).encode()
with open(sys.argv[1], "wb") as f:
    f.write(struct.pack("<Q", len(header)) + header + b"".join(tensors.values()))
