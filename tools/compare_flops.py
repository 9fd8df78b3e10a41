#!/usr/bin/env python3
"""Counts a model's operations beside PyTorch's FlopCounterMode: by op, over a folder of archives with stored inputs.

    tools/compare_flops.py build/bin/tcrun FOLDER

FOLDER has an index.jsonl with a line for each model (bench/archives.py says what is in it). Prints the models whose tables differ,
and those that PyTorch cannot run here, with its reason. Whether a product of a batch and a matrix is one of matrices or a batch of these
depends on whether the matrix wants a gradient there, which an archive does not say: such models agree in sum. Needs torch and
safetensors (and transformers for archives that hold its classes).
"""
import ast
import json
import pathlib
import subprocess
import sys

import torch
from safetensors.torch import load_file
from torch.utils._pytree import tree_unflatten
from torch.utils.flop_counter import FlopCounterMode

CLASSES = ("transformers.modeling_outputs", "transformers.models.gpt2.modeling_gpt2", "transformers.models.bert.modeling_bert", "transformers.models.llama.modeling_llama")


def counted(table):
    return {str(op): n for op, n in table.items() if n}


def ours(tcrun, archive):
    out = subprocess.run([tcrun, "dump", archive, "--stage=graph", "--flops", "--json"], capture_output=True, text=True, check=True).stdout
    return counted(json.loads(next(line for line in out.splitlines() if '"products"' in line))["products"])


def theirs(archive, row, stored):
    program = torch.export.load(archive)
    flat = [stored[f"in.{i}"] if f"in.{i}" in stored else ast.literal_eval(spec["constant"]) for i, spec in enumerate(row["inputs"])]
    args, kwargs = tree_unflatten(flat, program.call_spec.in_spec)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        program.module()(*args, **kwargs)
    return counted(counter.get_flop_counts().get("Global", {}))


def main(tcrun, folder):
    for name in CLASSES:
        try:
            __import__(name)
        except ImportError:
            break
    folder, same, differ, none = pathlib.Path(folder), 0, 0, 0
    for line in (folder / "index.jsonl").read_text().splitlines():
        row = json.loads(line)
        archive = str(folder / row["files"]["training"]["file"])
        mine = ours(tcrun, archive)
        try:
            other = theirs(archive, row, load_file(folder / (row["name"] + ".safetensors")))
        except Exception as e:  # PyTorch's own, of many kinds
            none += 1
            print(f"{row['name']}: not counted by PyTorch: {type(e).__name__} {str(e).splitlines()[:1]}")
            continue
        same, differ = same + (mine == other), differ + (mine != other)
        if mine != other:
            print(f"{row['name']}: {'the same in sum' if sum(mine.values()) == sum(other.values()) else 'another sum'}: {mine}, PyTorch {other}")
    print(f"{same} the same, {differ} differ, {none} not counted by PyTorch")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
