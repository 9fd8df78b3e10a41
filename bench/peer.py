"""A peer of bench/compare: loads one exported program, waits for requests on stdin, a line of JSON each: {"time": true}, or
{"compare": FILE of tc's outputs} of PyTorch's kinds.

    python peer.py eager|compile|jax ARCHIVE INPUTS.safetensors

On a GPU one process serves all workloads: requests are {"load": ARCHIVE, "inputs": FILE, "kinds": […]}
{"time": KIND} or {"compare": FILE of tc's outputs}; a kind is eager, default, reduce-overhead or max-autotune. Times are medians of
triton.testing.do_bench: device events, caches emptied before each call, which is how `tcrun bench` measures there.

    python peer.py gpu
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


def load_on_gpu(request):
    """The calls by kind; a kind that fails has an error's text in its place."""
    import torch
    from safetensors.torch import load_file

    from torch.export.passes import move_to_device_pass

    program = move_to_device_pass(torch.export.load(request["load"]), "cuda")
    tensors = load_file(request["inputs"], device="cuda")
    args, kwargs = torch.utils._pytree.tree_unflatten([tensors[f"in.{i}"] for i in range(len(tensors))], program.call_spec.in_spec)
    module = program.module()
    calls = {}
    for kind in request["kinds"]:
        torch.compiler.reset()
        fn = module if kind == "eager" else torch.compile(module, mode=None if kind == "default" else kind)
        try:
            with torch.no_grad():
                for _ in range(3):
                    fn(*args, **kwargs)
            torch.cuda.synchronize()
            calls[kind] = lambda fn=fn: fn(*args, **kwargs)
        except Exception as error:
            calls[kind] = f"{type(error).__name__}: {error}"[:300]
    return calls


def compare_outputs(call, path, device):
    """‖tc − PyTorch‖ / ‖PyTorch‖ by output, over elements that are finite in both; how many are finite in one only; the
    bytes of a number."""
    import torch
    from safetensors.torch import load_file

    ours = load_file(path, device=device)
    with torch.no_grad():
        theirs = [t for t in torch.utils._pytree.tree_leaves(call()) if torch.is_tensor(t)]
    result = []
    for mine, other in zip([ours[k] for k in sorted(ours, key=lambda k: int(k.rsplit(".", 1)[-1]))], theirs):
        wide = torch.complex128 if other.is_complex() else torch.float64
        a, b = mine.to(wide).flatten(), other.to(wide).flatten()
        fine, other_fine = torch.isfinite(a), torch.isfinite(b)
        both = fine & other_fine
        norm = torch.linalg.vector_norm(b[both]).item()
        result.append({"relative": torch.linalg.vector_norm(a[both] - b[both]).item() / norm if norm else 0.0, "finite_in_one": int((fine ^ other_fine).sum()), "bytes": other.real.element_size()})
    return result


def gpu_main():
    import torch
    from triton.testing import do_bench

    print(json.dumps({"ready": torch.__version__, "device": torch.cuda.get_device_name(0)}), flush=True)
    calls = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "load" in request:
            calls = {}
            torch.cuda.empty_cache()
            try:
                calls = load_on_gpu(request)
                answer = {"errors": {k: v for k, v in calls.items() if isinstance(v, str)}}
            except Exception as error:
                answer = {"errors": {"all": f"{type(error).__name__}: {error}"[:300]}}
        elif "compare" in request:
            try:
                answer = compare_outputs(calls["eager"], request["compare"], "cuda")
            except Exception as error:
                answer = f"{type(error).__name__}: {error}"[:300]
            torch.cuda.empty_cache()
        else:
            call = calls.get(request["time"])
            with torch.no_grad():
                answer = {"median_ms": do_bench(call, warmup=20, rep=100, return_mode="median") if callable(call) else None}
        print(json.dumps(answer), flush=True)


def main():
    if sys.argv[1] == "gpu":
        return gpu_main()
    kind, archive, inputs = sys.argv[1:4]
    try:
        call = jax_call(archive, inputs) if kind == "jax" else torch_call(kind, archive, inputs)
        call()
    except Exception as error:  # reported, and the peer is left out
        print(json.dumps({"error": f"{type(error).__name__}: {error}"[:300]}), flush=True)
        return
    print(json.dumps({"ready": kind}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        answer = compare_outputs(call, request["compare"], "cpu") if "compare" in request else {"median_ms": median_ms(call)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
