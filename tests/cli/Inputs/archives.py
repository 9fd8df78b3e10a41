"""archives.py ARCHIVE.pt2 FOLDER: bad variants of an archive, FOLDER/KIND.pt2, and bad inputs for it, FOLDER/KIND.safetensors.

The archive has one input 'input' of f32[8, 20]."""

import json
import os
import struct
import sys
import zipfile

source, folder = sys.argv[1:]
os.makedirs(folder, exist_ok=True)
whole = open(source, "rb").read()
with zipfile.ZipFile(source) as z:
    members = {i.filename: z.read(i) for i in z.infolist()}
program = next(n for n in members if n.endswith("/models/model.json"))
weight = next(n for n in members if n.endswith("/weight_0"))


def write(kind, changed, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(f"{folder}/{kind}.pt2", "w", compression) as z:
        for name, data in changed.items():
            z.writestr(name, data)


def edited(old, new, count=1):
    text = members[program].decode()
    assert old in text, old
    return {**members, program: text.replace(old, new, count).encode()}


open(f"{folder}/cut.pt2", "wb").write(whole[: len(whole) * 2 // 3])
middle = whole.find(b"graph_module")
open(f"{folder}/flipped.pt2", "wb").write(whole[:middle] + b"\xff\x00\xff" + whole[middle + 3 :])
write("bomb", {**members, program: b" " * (1 << 28)}, zipfile.ZIP_DEFLATED)
write("dots", {**members, "mlp/../../outside": b"x"})
write("weights", {n: d for n, d in members.items() if n != weight})
short = {**members, weight: members[weight][:100]}
write("short", short)
write("json", {**members, program: members[program][:-20]})
write("unknown", edited("torch.ops.aten.linear.default", "torch.ops.nobody.knows.default"))
write("huge", edited('"as_int": 64', '"as_int": 4611686018427387904', -1))
# Sizes whose product does not fit, of what no weight contradicts.
write("overflow", edited('"as_int": 8', '"as_int": 4611686018427387904', -1))
write("negative", edited('"as_int": 64', '"as_int": -64', -1))


def tensors(kind, **named):
    header, data = {}, b""
    for name, (dtype, shape, width) in named.items():
        n = width
        for size in shape:
            n *= size
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + n]}
        data += bytes(n)
    text = json.dumps(header).encode()
    open(f"{folder}/{kind}.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)


tensors("name", x=("F32", [8, 20], 4))
tensors("dtype", input=("F64", [8, 20], 8))
tensors("rank", input=("F32", [160], 4))
tensors("size", input=("F32", [8, 21], 4))
# A header that promises more than the file has.
tensors("beyond", input=("F32", [8, 20], 4))
data = open(f"{folder}/beyond.safetensors", "rb").read()
open(f"{folder}/beyond.safetensors", "wb").write(data[:-100])
tensors("good", input=("F32", [8, 20], 4))
