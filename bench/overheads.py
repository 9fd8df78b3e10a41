#!/usr/bin/env python3
"""What calls and compilations cost besides their work, beside PyTorch measured in the same run, on one thread.

  python3 bench/overheads.py [BUILD]        (a Python with torch; `ninja -C build overheads` before)

Calls: the least of many rounds, in microseconds of the thread's own time. Compilations of examples/gpt_block in
processes of their own: with empty caches, with what the process before left in them, and loading what was compiled
ahead of time; in milliseconds.
"""

import os
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1] != "--child" else os.path.join(ROOT, "build")


def least(f, rounds=200, calls=200):
    best = float("inf")
    for _ in range(rounds):
        start = time.thread_time()
        for _ in range(calls):
            f()
        best = min(best, (time.thread_time() - start) / calls)
    return best * 1e6


def calls_of_torch():
    import torch

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    x = [torch.ones(4) for _ in range(32)]
    add = torch.compile(lambda a, b: a + b)
    broken = torch.compile(lambda a, b: torch.relu(a + b) if (a + b).sum().item() >= 0 else -(a + b))
    through = torch.compile(lambda *a: a[0])
    pairs = [lambda: x[0] + x[1], lambda: add(x[0], x[1]), lambda: broken(x[0], x[1]), lambda: through(*x[:2]),
             lambda: through(*x)]
    for f in pairs:
        f(), f()
    return [least(f) for f in pairs]


def calls_of_tc():
    text = subprocess.run([os.path.join(BUILD, "bin", "overheads")], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^(.*\S) +([\d.]+) us$", text, re.M)


def child(what, path):
    """One compilation by PyTorch in this process: prints milliseconds."""
    import torch

    sys.path.insert(0, os.path.join(ROOT, "examples"))
    torch.set_grad_enabled(False)
    program = torch.export.load(os.path.join(ROOT, "examples", "gpt_block.pt2"))
    inputs = program.example_inputs[0]
    if what == "ahead":
        torch._inductor.aoti_compile_and_package(program, package_path=path)
        return
    start = time.perf_counter()
    if what == "load":
        model = torch._inductor.aoti_load_package(path)
    else:
        model = torch.compile(program.module())
        model(*inputs)
    print((time.perf_counter() - start) * 1e3)


def compile_torch(what, env, path):
    out = subprocess.run([sys.executable, __file__, "--child", what, path], env=env, capture_output=True, text=True, check=True)
    return float(out.stdout.split()[-1]) if out.stdout.strip() else 0.0


def compile_tc(model, env):
    out = subprocess.run([os.path.join(BUILD, "bin", "tcrun"), "run", model, "--backend=cpu", "--threads=1"], env=env,
                         capture_output=True, text=True, check=True).stdout
    load, compiled = re.search(r"loaded in ([\d.]+) ms, compiled in ([\d.]+) ms", out).groups()
    return float(load) + float(compiled)


def main():
    print(f"{'calls, microseconds':42} {'tc':>9} {'torch':>9}")
    for (name, ours), theirs in zip(calls_of_tc(), calls_of_torch()):
        print(f"{name:42} {float(ours):9.2f} {theirs:9.2f}")
    with tempfile.TemporaryDirectory() as scratch:
        env = dict(os.environ, XDG_CACHE_HOME=scratch, TORCHINDUCTOR_CACHE_DIR=scratch + "/torch", OMP_NUM_THREADS="1")
        model, artifact, package = os.path.join(ROOT, "examples", "gpt_block.pt2"), scratch + "/m.tcx", scratch + "/m.pt2"
        rows = [("compile cold", compile_tc(model, env), compile_torch("compile", env, package)),
                ("compile in a second process", compile_tc(model, env), compile_torch("compile", env, package))]
        subprocess.run([os.path.join(BUILD, "bin", "tcrun"), "compile", model, "-o", artifact, "--backend=cpu", "--quiet"],
                       env=env, check=True)
        compile_torch("ahead", env, package)
        rows.append(("load what was compiled ahead", compile_tc(artifact, env), compile_torch("load", env, package)))
    print(f"\n{'gpt_block, milliseconds':42} {'tc':>9} {'torch':>9}")
    for name, ours, theirs in rows:
        print(f"{name:42} {ours:9.1f} {theirs:9.1f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    else:
        main()
