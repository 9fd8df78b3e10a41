"""What the example scripts share: writing an exported program."""
import pathlib

import torch

PROJECT = pathlib.Path(__file__).resolve().parents[1]
PACKAGES = pathlib.Path(torch.__file__).resolve().parents[1]


def save(model: torch.nn.Module, inputs: tuple, path: pathlib.Path, **options):
    """Exports `model` with `inputs` as its samples. Source files are named from the project's or the packages' folder."""
    program = torch.export.export(model.eval(), inputs, **options)
    for node in program.graph.nodes:
        trace = node.meta.get("stack_trace")
        if trace:
            node.meta["stack_trace"] = trace.replace(f"{PROJECT}/", "").replace(f"{PACKAGES}/", "")
    torch.export.save(program, path)
    print("wrote", path.name)
