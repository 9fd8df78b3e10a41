#!/usr/bin/env python3
"""Exports full-size models with random weights, as workloads of bench/compare.

    python bench/models/export.py FOLDER [NAMES…]
    bench/compare --workloads=FOLDER

resnet50 and vit_b_16 (torchvision, batches of 1 and 8), gpt2 and bert-base (transformers, 128 tokens), each in float32 and
bfloat16: FOLDER/NAME.cpu.pt2 with the weights inside, and FOLDER/index.jsonl as in the workloads' own. Needs torch,
torchvision and transformers; nothing is downloaded, since the weights are drawn from a fixed seed.
"""
import json
import pathlib
import sys

import torch

TOKENS = 128


def vision(make):
    def build(batch):
        return make(weights=None), (torch.randn(batch, 3, 224, 224),)

    return build


def resnet50(batch):
    import torchvision

    return vision(torchvision.models.resnet50)(batch)


def vit_b_16(batch):
    import torchvision

    return vision(torchvision.models.vit_b_16)(batch)


class First(torch.nn.Module):
    """Of a model from transformers the tensor that its users read: of ids alone, without the cache of keys and values."""

    def __init__(self, model, options):
        super().__init__()
        self.model, self.options = model, options

    def forward(self, ids):
        return self.model(ids, return_dict=False, **self.options)[0]


def gpt2(batch):
    import transformers

    config = transformers.GPT2Config(use_cache=False)
    return First(transformers.GPT2LMHeadModel(config), {"use_cache": False}), (torch.randint(0, config.vocab_size, (batch, TOKENS)),)


def bert_base(batch):
    import transformers

    config = transformers.BertConfig()
    return First(transformers.BertModel(config), {}), (torch.randint(0, config.vocab_size, (batch, TOKENS)),)


MODELS = {"resnet50": (resnet50, (1, 8)), "vit_b_16": (vit_b_16, (1, 8)), "gpt2": (gpt2, (1,)), "bert_base": (bert_base, (1,))}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def settle(model):
    """Batch norms of a fresh model would divide by a variance of one exactly; give them statistics as training leaves them.
    Parameters that begin as zeros are drawn, since a head of zeros gives zeros whatever happens before."""
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.any():
                parameter.normal_(0, 0.02)


def describe(tensor):
    row = {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape)}
    if not tensor.dtype.is_floating_point:
        row["high"] = 1000
    return row


def export(folder, name, build, batch, dtype):
    torch.manual_seed(0)
    model, inputs = build(batch)
    settle(model)
    model = model.eval().to(DTYPES[dtype])
    inputs = tuple(x.to(DTYPES[dtype]) if x.dtype.is_floating_point else x for x in inputs)
    with torch.no_grad():
        program = torch.export.export(model, inputs)
    file = f"{name}.cpu.pt2"
    torch.export.save(program, folder / file)
    return {"name": name, "size": "cpu", "file": file, "inputs": [describe(x) for x in inputs]}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder, names = pathlib.Path(sys.argv[1]), sys.argv[2:]
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for model, (build, batches) in MODELS.items():
        for batch in batches:
            for dtype in DTYPES:
                name = f"{model}_b{batch}_{dtype}"
                if names and name not in names and model not in names:
                    continue
                rows.append(export(folder, name, build, batch, dtype))
                print(name, flush=True)
    (folder / "index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
