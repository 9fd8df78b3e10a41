#!/usr/bin/env python3
"""Asks PyTorch what tests/fuzz/call_list printed: does it take the same calls, with the same dtypes, sizes and strides?

    build/tests/call_list --cases=20 | tools/compare_calls.py [--refused] [--limit=N] [--only=strides,type]

Prints each op's first differences: `strides` and `type` for results that differ, `takes` for calls that tc takes and
PyTorch refuses, `refuses` (with --refused) for the other way round. What PyTorch only lacks is counted as `lacks`: a
kernel for the dtype, or for the processor; what it refuses for the values of elements, which tc is not shown here, as
`values`. Needs torch. Each op is asked for in a process of its own, since some calls end PyTorch's.
"""
import collections
import json
import os
import signal
import re
import sys
import warnings

import torch

DTYPES = {"bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64, "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "c32": torch.complex32, "c64": torch.complex64, "c128": torch.complex128}
LACKS = r"not implemented for '(?!Bool')|is not implemented on the CPU|not supported on CPU|arguments from the 'CPU' backend|No NVIDIA|NVIDIA driver"
VALUES = r"ZeroDivisionError|singular|could not be completed|index .*out of|is zero and using it|must be smaller than num_classes|allocated size does not match|Pivots given"
TYPE = r"(\w+)\[(.*)\]\{(.*)\}"
NAMES = {v: k for k, v in DTYPES.items()}
WORDS = {"none": None, "true": True, "false": False, "inf": float("inf"), "nan": float("nan"), "contiguous_format": torch.contiguous_format, "channels_last": torch.channels_last, "channels_last_3d": torch.channels_last_3d, "preserve_format": torch.preserve_format, **DTYPES}


def ints(text):
    return [int(v) for v in text.split(",") if v.strip()]


def make(text):
    name, kind = text.strip().split(" ", 1)
    dtype, sizes, strides = re.fullmatch(TYPE, kind.strip()).groups()
    dtype, sizes, strides = DTYPES[dtype], ints(sizes), ints(strides)
    span = 1 + sum((s - 1) * t for s, t in zip(sizes, strides)) if 0 not in sizes else 0
    base = torch.zeros(span, dtype=dtype)
    if dtype.is_floating_point or dtype.is_complex:
        base = torch.ones(span, dtype=torch.float32).mul_(torch.arange(1, span + 1)).div_(span + 1).to(dtype)
    return "t_" + name, torch.as_strided(base, sizes, strides)


def show(r):
    return "%s[%s]{%s}" % (NAMES[r.dtype], ", ".join(map(str, r.shape)), ", ".join(map(str, r.stride())))


def flat(r):
    if isinstance(r, torch.Tensor):
        return [show(r)]
    if isinstance(r, (list, tuple)):
        return [s for x in r for s in flat(x)]
    return [] if r is None else ["?"]  # a number


def ask(call, inputs):
    m = re.fullmatch(r"(\w+)::([\w.]+)\((.*)\)", call)
    op = getattr(torch.ops, m[1])
    for part in m[2].split("."):
        op = getattr(op, part)
    op = op if "." in m[2] else op.default
    args = re.sub(r"%(\w+)", r"t_\1", m[3])
    scope = {**WORDS, **dict(make(t) for t in inputs.split(";") if t.strip()), "call": lambda *a, **k: (a, k)}
    a, k = eval("call(" + args + ")", scope)
    return flat(op(*a, **k))


def same(got, want):
    """Strides of dimensions of size 1, and of empty tensors, mean nothing. Numbers are no results of a graph."""
    want = want if got else [w for w in want if w != "?"]
    if len(got) != len(want):
        return "type"
    for g, w in zip(got, want):
        if "?" in (g, w):
            continue
        g, w = re.fullmatch(TYPE, g).groups(), re.fullmatch(TYPE, w).groups()
        if g[:2] != w[:2]:
            return "type"
        sizes = ints(g[1])
        if 0 not in sizes and [s for n, s in zip(sizes, ints(g[2])) if n > 1] != [s for n, s in zip(sizes, ints(w[2])) if n > 1]:
            return "strides"
    return None


def late(*_):
    raise TimeoutError("too slow")


def option(name, otherwise):
    return next((a.split("=", 1)[1] for a in sys.argv if a.startswith("--%s=" % name)), otherwise)


def compare(lines, counts):
    """One op's calls."""
    limit, only = int(option("limit", "2")), option("only", "").split(",")
    shown = collections.Counter()
    for call, inputs, outcome in lines:
        refused = outcome.startswith("!")
        try:
            signal.alarm(5)
            answer = ask(call, inputs)
        except (AttributeError, KeyError, SyntaxError, NameError, TimeoutError) as e:
            counts["not asked: %s" % type(e).__name__] += 1
            continue
        except Exception as e:
            answer = "! " + str(e).split("\n")[0]
        finally:
            signal.alarm(0)
        told = isinstance(answer, str)
        why = told and not refused and ("lacks" if re.search(LACKS, answer) else "values" if re.search(VALUES, answer) else None)
        if why:
            counts[why] += 1
            continue
        kind = "refuses" if refused and not told else "takes" if told and not refused else None if told else same([t.strip() for t in outcome.split(";") if t.strip()], answer)
        counts[kind or "same"] += 1
        shown[kind] += 1
        if kind and shown[kind] <= limit and (only == [""] or kind in only):
            print("%s: %s | %s\n    tc: %s\n    PyTorch: %s" % (kind, call, inputs, outcome[:300], answer[:300] if told else " ; ".join(answer)), flush=True)


def apart(lines, counts):
    """The same in a process of its own, whose counts come through a pipe."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        own = collections.Counter()
        compare(lines, own)
        os.write(into, json.dumps(own).encode())
        os._exit(0)
    os.close(into)
    with os.fdopen(out) as f:
        text = f.read()
    if os.waitpid(child, 0)[1]:
        counts["ops that ended PyTorch"] += 1
    counts.update(json.loads(text) if text else {})


def main():
    warnings.simplefilter("ignore")
    counts, calls = collections.Counter(), {}
    signal.signal(signal.SIGALRM, late)
    for line in sys.stdin:
        if line.count(" | ") < 2:
            continue
        call, inputs, outcome = (p.strip() for p in line.rstrip("\n").split(" | ", 2))
        if "--refused" in sys.argv or not outcome.startswith("!"):
            calls.setdefault(call.split("(")[0], []).append((call, inputs, outcome))
    for lines in calls.values():
        apart(lines, counts)
    print(", ".join("%s %d" % c for c in sorted(counts.items())), file=sys.stderr)


os.environ.setdefault("OMP_NUM_THREADS", "1")
main()
