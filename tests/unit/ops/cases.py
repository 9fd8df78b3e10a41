#!/usr/bin/env python3
"""Fills in the third part of the lines of cases.txt with what PyTorch gives (the lines that have none, or all: --all), and
of those of refused.txt, which it has to refuse, with '!'.

A line: CALL | INPUT ; INPUT … | RESULT ; RESULT …
  CALL    an aten op with its overload, arguments as in .tc files: add.Tensor(%a, %b, alpha=2)
  INPUT   name dtype[sizes]{strides}, values by a formula; a '+' behind it: positive ones, '/': in (-1, 1), '= …': these
  RESULT  dtype[sizes]{strides}+offset, '&' if it shares an input's storage, ':' and the values row-major; '-' for none
Complex values are two numbers.
"""
import os
import re
import sys

import torch

DTYPES = {"bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "c64": torch.complex64, "c128": torch.complex128}
NAMES = {v: k for k, v in DTYPES.items()}
WORDS = {"none": None, "true": True, "false": False, "inf": float("inf"), "nan": float("nan"), "contiguous_format": torch.contiguous_format, "channels_last": torch.channels_last, "preserve_format": torch.preserve_format, **DTYPES}


def ints(text):
    return [int(v) for v in text.split(",") if v.strip()]


def make(index, text):
    head, _, values = text.partition("=")
    name, kind = head.strip().split(" ", 1)
    fill = ""
    kind = kind.strip()
    if kind[-1] in "+/":
        fill, kind = kind[-1], kind[:-1]
    m = re.fullmatch(r"(\w+)\[([^\]]*)\](?:\{([^}]*)\})?", kind)
    dtype, sizes = DTYPES[m[1]], ints(m[2])
    n = 1
    for s in sizes:
        n *= s
    if values.strip():
        v = [float(w) for w in values.split()]
        if dtype.is_complex:
            v = [complex(a, b) for a, b in zip(v[::2], v[1::2])]
    else:
        v = [(k * 7 + index * 3 + 1) % 13 for k in range(n)]
        real = dtype.is_floating_point or dtype.is_complex
        if dtype == torch.bool:
            v = [x < 6 for x in v]
        elif fill == "+":
            v = [(x + 1) / 4 if real else x + 1 for x in v]
        elif dtype == torch.uint8:
            pass
        elif not real:
            v = [x - 6 for x in v]
        else:
            v = [(x - 6) / (8 if fill == "/" else 4) for x in v]
        if dtype.is_complex:
            v = [complex(x, ((k * 5 + index * 2 + 3) % 11 - 5) / 4) for k, x in enumerate(v)]
    t = torch.tensor(v, dtype=torch.complex128 if dtype.is_complex else torch.float64).reshape(sizes).to(dtype)
    strides = ints(m[3]) if m[3] is not None else list(t.stride())
    span = 1 + sum((s - 1) * w for s, w in zip(sizes, strides)) if n else 0
    base = torch.zeros(max(span, 1), dtype=dtype)
    out = torch.as_strided(base, sizes, strides)
    if n:
        for i in torch.cartesian_prod(*[torch.arange(s) for s in sizes]).reshape(n, -1).tolist() if sizes else [[]]:
            out[tuple(i)] = t[tuple(i)]
    return name, out


def number(v):
    return repr(v) if isinstance(v, int) else "%.9g" % v if abs(v) < 1e300 or v != v else str(v)


def show(r, inputs):
    if r is None:
        return "-"
    if not isinstance(r, torch.Tensor):
        return None
    t = r.resolve_conj().resolve_neg()
    flat = t.contiguous().reshape(-1)
    if r.dtype.is_complex:
        flat = torch.view_as_real(flat).reshape(-1)
    values = flat.to(torch.float64).tolist() if flat.dtype.is_floating_point else flat.to(torch.int64).tolist()
    shared = any(r.untyped_storage().data_ptr() == i.untyped_storage().data_ptr() for i in inputs)
    offset = "+%d" % r.storage_offset() if r.storage_offset() else ""
    digits = (lambda v: "%.17g" % v) if r.dtype in (torch.float64, torch.complex128) else number
    return "%s[%s]{%s}%s%s : %s" % (NAMES[r.dtype], ", ".join(map(str, r.shape)), ", ".join(map(str, r.stride())), offset, "&" if shared else "", " ".join(digits(v) for v in values))


def results(call, inputs):
    m = re.fullmatch(r"([\w.]+)\((.*)\)", call)
    op = torch.ops.aten
    name = m[1].split(".")
    op = getattr(getattr(op, name[0]), name[1] if len(name) > 1 else "default")
    args = re.sub(r"%(\w+)", r"t_\1", m[2])
    scope = {**WORDS, **{"t_" + k: v for k, v in inputs.items()}, "call": lambda *a, **k: (a, k)}
    a, k = eval("call(" + args + ")", scope)
    r = op(*a, **k)
    r = [x for y in (r if isinstance(r, (list, tuple)) else [r]) for x in (y if isinstance(y, (list, tuple)) else [y])]
    # These share storage, but are no views for those who look.
    if m[1] in ("_unsafe_view", "narrow.Tensor") or m[1].startswith("histogramdd"):
        inputs = {}
    return " ; ".join(show(x, inputs.values()) for x in r)


def fill(name):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    lines = open(path).read().split("\n")
    for i, line in enumerate(lines):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [p.strip() for p in line.split("|")]
        if len(parts) > 2 and "--all" not in sys.argv:
            continue
        inputs = dict(make(k, t) for k, t in enumerate(parts[1].split(";")) if t.strip())
        why = ""
        try:
            out = results(parts[0], inputs)
        except (RuntimeError, IndexError, AttributeError) as e:
            out, why = "!", e
        if (out == "!") != (name == "refused.txt"):
            print("%s:%d: PyTorch %s\n  %s" % (name, i + 1, "refuses: %s" % why if why else "takes this", line))
            continue
        lines[i] = "%s | %s | %s" % (parts[0], parts[1], out)
    open(path, "w").write("\n".join(line.rstrip() for line in lines))


fill("cases.txt")
fill("refused.txt")
