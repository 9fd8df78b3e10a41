"""A peer of bench/compare: loads one exported program, waits for lines on stdin, times the program on each.

    python peer.py eager|compile|jax ARCHIVE INPUTS.safetensors
"""
import json
import sys
import time
import warnings

warnings.filterwarnings("ignore")


def median_ms(call, budget=0.7):
    call()
    start = time.perf_counter()
    call()
    once = time.perf_counter() - start
    per = max(1, int(0.02 / max(once, 1e-7)))
    times, begin = [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - begin < budget:
        start = time.perf_counter()
        for _ in range(per):
            call()
        times.append((time.perf_counter() - start) / per)
    return sorted(times)[len(times) // 2] * 1e3


def torch_call(kind, archive, inputs):
    import torch
    from safetensors.torch import load_file

    module = torch.export.load(archive).module()
    tensors = load_file(inputs)
    args = [tensors[f"in.{i}"] for i in range(len(tensors))]
    # Parameters are inputs of the workloads in flattened order; the exported module takes the original structure.
    program = torch.export.load(archive)
    args, kwargs = torch.utils._pytree.tree_unflatten(args, program.call_spec.in_spec)
    fn = torch.compile(module) if kind == "compile" else module

    def call():
        with torch.no_grad():
            return fn(*args, **kwargs)

    return call


def jax_call(archive, inputs):
    import jax
    from safetensors.numpy import load_file
    import twins

    name = archive.rsplit("/", 1)[-1].split(".")[0]
    fn = jax.jit(getattr(twins, name))
    tensors = load_file(inputs)
    args = [jax.numpy.asarray(tensors[f"in.{i}"]) for i in range(len(tensors))]
    return lambda: jax.block_until_ready(fn(*args))


def main():
    kind, archive, inputs = sys.argv[1:4]
    try:
        call = jax_call(archive, inputs) if kind == "jax" else torch_call(kind, archive, inputs)
        call()
    except Exception as error:  # reported, and the peer is left out
        print(json.dumps({"error": f"{type(error).__name__}: {error}"[:300]}), flush=True)
        return
    print(json.dumps({"ready": kind}), flush=True)
    for _ in sys.stdin:
        print(json.dumps({"median_ms": median_ms(call)}), flush=True)


if __name__ == "__main__":
    main()
