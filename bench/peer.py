"""A peer of bench/compare: loads one exported program, waits for requests on stdin, a line of JSON each: {"time": true}, or
{"compare": FILE of tc's outputs} of PyTorch's kinds.

    python peer.py eager|compile|jax ARCHIVE INPUTS.safetensors

JAX runs the hand-written twin of the program (twins.py), with products of f32 in f32. On a GPU its times are means over calls that are queued
together, with warm caches, since nothing of ours lies between them.

One process can serve many programs: requests are {"load": ARCHIVE, "inputs": FILE, "kinds": […], "constants": {leaf: value}, "grad": FILE},
{"time": KIND}, {"peak": KIND}, {"products": KIND} or {"compare": FILE of tc's outputs}; a kind is eager, default, reduce-overhead or max-autotune.
On a GPU times are medians of triton.testing.do_bench: device events, caches emptied before each call, which is how `tcrun bench`
measures there; on a processor they are wall time. A peak is the most bytes that a call has allocated at once.
With "grad" a call gives the outputs and the gradients of all inputs that have one, for cotangents of ones; the inputs of the same
joint program in tc, which has the cotangents behind the others, are written to the file.

    python peer.py many cuda|cpu
"""
import json
import re
import sys
import time
import warnings
import zipfile

warnings.filterwarnings("ignore")


def times_of(call, budget=0.7):
    """Median and least time of a call in milliseconds; calls that are short are timed by the hundred."""
    call()
    start = time.perf_counter()
    call()
    once = time.perf_counter() - start
    per = max(1, int(0.002 / max(once, 1e-7)))
    times, begin = [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - begin < budget:
        start = time.perf_counter()
        for _ in range(per):
            call()
        times.append((time.perf_counter() - start) / per)
    times.sort()
    return {"median_ms": times[len(times) // 2] * 1e3, "min_ms": times[0] * 1e3}


def tensors_of(path, kind, device):
    """The tensors of a file that are called KIND.0, KIND.1, … by number; what safetensors has no type for, KIND.0.c128, are pairs.

    They are copied: in the mapped file they lie at odd addresses, where each vector of a cache line's size touches two lines."""
    import torch
    from safetensors.torch import load_file

    tensors = {}
    for name, tensor in load_file(path, device=device).items():
        of, *rest = name.split(".")
        if of == kind and rest and rest[0].isdigit():
            number, *wide = rest
            tensors[int(number)] = (torch.view_as_complex(tensor) if wide == ["c128"] else tensor).clone()
    return tensors


def input_leaves(request, device):
    """The leaves of the inputs in order: tensors of the file, numbers and flags of the request."""
    leaves = {int(k): v for k, v in request.get("constants", {}).items()}
    leaves.update(tensors_of(request["inputs"], "in", device))
    return [leaves[i] for i in range(len(leaves))]


class Fields(dict):
    """What stands for an output's type of a package that is not here: its fields by name."""


def load_program(archive):
    """torch.export.load, also where outputs are of types of another package: these are registered under their names."""
    import torch
    from torch.utils import _pytree as pytree

    with zipfile.ZipFile(archive) as z:
        texts = [z.read(n).decode() for n in z.namelist() if n.endswith(".json")]
    for name in {n for t in texts for n in re.findall(r'\\"type\\": \\"([\w.]+\.[\w.]+)\\"', t)} - set(pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE):
        pytree.register_pytree_node(
            type(name.rsplit(".", 1)[-1], (Fields,), {}),
            lambda x: (list(x.values()), list(x)),
            lambda values, keys: Fields(zip(keys, values)),
            serialized_type_name=name,
            to_dumpable_context=lambda keys: keys,
            from_dumpable_context=lambda keys: keys,
        )
    return torch.export.load(archive)


def torch_call(kind, archive, inputs):
    import torch

    program = load_program(archive)
    module = program.module(check_guards=False)  # a call need not check its own inputs
    # Parameters are inputs of the workloads in flattened order; the exported module takes the original structure.
    args, kwargs = torch.utils._pytree.tree_unflatten(input_leaves({"inputs": inputs}, "cpu"), program.call_spec.in_spec)
    fn = torch.compile(module) if kind == "compile" else module

    def call():
        with torch.no_grad():
            return fn(*args, **kwargs)

    return call


def to_jax(t):
    import jax.numpy as jnp
    import torch

    return jnp.asarray(t.view(torch.int16).numpy()).view(jnp.bfloat16) if t.dtype == torch.bfloat16 else jnp.asarray(t.numpy())


def from_jax(x):
    import jax.numpy as jnp
    import numpy
    import torch

    return torch.from_numpy(numpy.asarray(x.view(jnp.int16))).view(torch.bfloat16) if x.dtype == jnp.bfloat16 else torch.from_numpy(numpy.asarray(x))


class JaxCall:
    """The twin of a program: a call waits for its results."""

    def __init__(self, archive, inputs):
        import jax
        import twins

        jax.config.update("jax_default_matmul_precision", "highest")
        self.fn = jax.jit(getattr(twins, archive.rsplit("/", 1)[-1].split(".")[0]))
        self.wait, self.queues = jax.block_until_ready, jax.default_backend() != "cpu"
        self.args = [to_jax(t) for t in input_leaves({"inputs": inputs}, "cpu")]

    def __call__(self):
        return self.wait(self.fn(*self.args))

    def outputs(self):
        import jax

        return [from_jax(x) for x in jax.tree_util.tree_leaves(self())]

    def times(self):
        if not self.queues:
            return times_of(self)

        def queued(n):
            start = time.perf_counter()
            for _ in range(n):
                last = self.fn(*self.args)
            self.wait(last)
            return (time.perf_counter() - start) / n

        queued(3)
        n = max(5, min(1000, int(0.02 / queued(3))))
        times = sorted(queued(n) for _ in range(15))
        return {"median_ms": times[len(times) // 2] * 1e3, "min_ms": times[0] * 1e3}


def with_gradients(fn, inputs, path):
    """The call with gradients in place of `fn`, and what tc is given for the same."""
    import torch

    wanted = [t.requires_grad_() for t in inputs if t.is_floating_point() or t.is_complex()]
    made = fn()
    outputs = [t for t in torch.utils._pytree.tree_leaves(made) if torch.is_tensor(t) and t.requires_grad]
    cotangents = [torch.ones_like(t) for t in outputs]
    if path:
        from safetensors.torch import save_file

        save_file({f"in.{i}": t.detach().cpu().contiguous() for i, t in enumerate([*inputs, *cotangents])}, path)

    def call():
        with torch.enable_grad():
            made = fn()
            outputs = [t for t in torch.utils._pytree.tree_leaves(made) if torch.is_tensor(t) and t.requires_grad]
            return [made, torch.autograd.grad(outputs, wanted, cotangents, allow_unused=True)]

    return call


def load_many(request, device):
    """The calls by kind; a kind that fails has an error's text in its place."""
    import torch
    import torch_twins

    program = load_program(request["load"])
    if device != "cpu":
        from torch.export.passes import move_to_device_pass

        program = move_to_device_pass(program, device)
    leaves = input_leaves(request, device)
    args, kwargs = torch.utils._pytree.tree_unflatten(leaves, program.call_spec.in_spec)
    module = program.module(check_guards=False)  # a call need not check its own inputs
    twin = getattr(torch_twins, request["load"].rsplit("/", 1)[-1].split(".")[0], None)
    if twin and "grad" in request:
        module, args, kwargs = twin, leaves, {}
    calls = {}
    for kind in request["kinds"]:
        torch.compiler.reset()
        fn = module if kind == "eager" else torch.compile(module, mode=None if kind == "default" else kind)
        call = lambda fn=fn: fn(*args, **kwargs)
        try:
            if "grad" in request:
                call = with_gradients(call, leaves, request["grad"] if not calls else None)
            with torch.no_grad():
                for _ in range(3):
                    call()
            if device != "cpu":
                torch.cuda.synchronize()
            calls[kind] = call
            if module is not twin:
                calls[kind].weight_bytes = sum(t.untyped_storage().nbytes() for t in [*module.parameters(), *module.buffers()])
        except Exception as error:
            calls[kind] = f"{type(error).__name__}: {error}"[:300]
    return calls


def peak_of(call):
    """The most bytes that one call has allocated at once, by PyTorch's own account of allocations on the processor. Its result
    counts; what libraries allocate by themselves does not."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        call()
    now = most = 0
    for event in sorted(profile.profiler.kineto_results.events(), key=lambda e: e.start_ns()):
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return {"peak_bytes": most, "weight_bytes": getattr(call, "weight_bytes", 0)}  # plain programs have none


def compare_outputs(call, path, device):
    """‖tc − PyTorch‖ / ‖PyTorch‖ by output, over elements that are finite in both; how many are finite in one only; the
    bytes of a number."""
    import torch

    ours = tensors_of(path, "out", device)
    with torch.no_grad():
        theirs = call.outputs() if isinstance(call, JaxCall) else [t for t in torch.utils._pytree.tree_leaves(call()) if torch.is_tensor(t)]
    result = []
    for mine, other in zip([ours[k] for k in sorted(ours)], theirs):
        wide = torch.complex128 if other.is_complex() else torch.float64
        a, b = mine.to(wide).flatten(), other.to(wide).flatten()
        fine, other_fine = torch.isfinite(a), torch.isfinite(b)
        both = fine & other_fine
        norm = torch.linalg.vector_norm(b[both]).item()
        result.append({"relative": torch.linalg.vector_norm(a[both] - b[both]).item() / norm if norm else 0.0, "finite_in_one": int((fine ^ other_fine).sum()), "bytes": other.real.element_size()})
    return result


def products_of(call):
    """What the operations of a call would take at the rate that its matrix products have when the library runs them by themselves."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import FlopCounterMode

    aten, products = torch.ops.aten, []

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            if op in (aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default):
                products.append((op, args, kwargs or {}))
            return op(*args, **(kwargs or {}))

    def flops_of(f):
        with FlopCounterMode(display=False) as counter:
            f()
        return counter.get_total_flops()

    with Recorder():
        call()
    times = [times_of(lambda: op(*args, **kwargs), 0.3) for op, args, kwargs in products]
    part = flops_of(call) / sum(flops_of(lambda: op(*args, **kwargs)) for op, args, kwargs in products)
    return {key: part * sum(t[key] for t in times) for key in ("median_ms", "min_ms")}


def answer_many(request, calls, device):
    if "compare" in request:
        return compare_outputs(calls["eager"], request["compare"], device)
    if "products" in request:
        return products_of(calls[request["products"]])
    call = calls.get(request.get("time") or request.get("peak"))
    if not callable(call):
        return {"median_ms": None}
    if "peak" in request:
        return peak_of(call)
    if device == "cpu":
        return times_of(call, request.get("budget", 0.7))
    from triton.testing import do_bench

    return {"median_ms": do_bench(call, warmup=20, rep=100, return_mode="median")}


def many_main(device):
    import torch

    name = "cpu" if device == "cpu" else torch.cuda.get_device_name(0)
    print(json.dumps({"ready": torch.__version__, "device": name, "threads": torch.get_num_threads()}), flush=True)
    calls = {}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "load" in request:
                calls = {}
                if device != "cpu":
                    torch.cuda.empty_cache()
                calls = load_many(request, device)
                answer = {"errors": {k: v for k, v in calls.items() if isinstance(v, str)}}
            else:
                with torch.no_grad():
                    answer = answer_many(request, calls, device)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"[:300]
            answer = {"errors": {"all": text}} if "load" in request else text
        if "compare" in request and device != "cpu":
            torch.cuda.empty_cache()
        print(json.dumps(answer), flush=True)


def main():
    if sys.argv[1] == "many":
        return many_main(sys.argv[2])
    kind, archive, inputs = sys.argv[1:4]
    try:
        call = JaxCall(archive, inputs) if kind == "jax" else torch_call(kind, archive, inputs)
        call()
    except Exception as error:  # reported, and the peer is left out
        print(json.dumps({"error": f"{type(error).__name__}: {error}"[:300]}), flush=True)
        return
    print(json.dumps({"ready": kind}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if "compare" in request:
            answer = compare_outputs(call, request["compare"], "cpu")
        elif "peak" in request:
            answer = peak_of(call)
        else:
            answer = call.times() if kind == "jax" else times_of(call)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
