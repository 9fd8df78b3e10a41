#!/usr/bin/env python3
"""Makes tests/data/complex_functions.txt: complex functions at chosen points, to 17 digits.

Finite points are evaluated with 60 digits (mpmath). Zeros of either sign, which decide the side of a branch cut, are
numbers of 1e-300 there; parts of results below 1e-100 are zeros of that sign, if the point had a zero.
Points with infinities and NaN follow C's annex G through Python's cmath; a part whose sign or kind it leaves open is
written as ?. Usage: complex_table.py > tests/data/complex_functions.txt   (needs mpmath)
"""
import cmath
import math
import random

import mpmath as mp

mp.mp.dps = 700
TINY = mp.mpf("1e-300")


def narrow(v):
    """To a number that f32 has too, so that both precisions are tested at the same points."""
    import struct

    return struct.unpack("f", struct.pack("f", v))[0]


def exact(v):
    return mp.mpf(v) if v else (TINY if math.copysign(1, v) > 0 else -TINY)


def text(v):
    return "%.17g" % v if math.isfinite(v) else {math.inf: "inf", -math.inf: "-inf"}.get(v, "nan")


def part(v, zeros):
    if zeros and abs(v) < mp.mpf("1e-100"):
        return "0" if v >= 0 else "-0"
    if abs(v) > mp.mpf("1.7976931348623157e308"):
        return "inf" if v > 0 else "-inf"
    return "%.17g" % float(v)


def points():
    random.seed(20)
    axis = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, -3.0]
    out = [(x, y) for x in axis for y in (0.0, -0.0, 0.75, -1.0, 2.0)]
    for scale in (1e-30, 1e-8, 1e-3, 0.3, 1, 3, 20):
        for _ in range(4):
            out.append((random.gauss(0, scale), random.gauss(0, scale)))
    for _ in range(6):  # |z| = 1, where logarithms cancel; ±i and ±1, where inverse functions branch
        a = random.uniform(-math.pi, math.pi)
        out.append((math.cos(a), math.sin(a)))
    for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        for s in (1e-3, -1e-5):
            out.append((x + s, y + s / 3))
    out += [(1e-20, 1.0), (1.0, 1e-20), (-1.0, -1e-20), (1e10, 1e-10), (1e15, -2e15), (-1e-25, 1e18), (1e-35, -1e-35)]
    return [(narrow(x), narrow(y)) for x, y in out]


def special_points():
    v = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan]
    return [(x, y) for x in v for y in v if not (math.isfinite(x) and math.isfinite(y))]


one = mp.mpf(1)
# name, mpmath's, and cmath's or None
FUNCTIONS = [
    ("exp", mp.exp, cmath.exp),
    ("exp2", lambda z: mp.mpf(2) ** z, None),
    ("expm1", mp.expm1, None),
    ("log", mp.log, cmath.log),
    ("log2", lambda z: mp.log(z) / mp.log(2), None),
    ("log10", lambda z: mp.log(z) / mp.log(10), None),
    ("log1p", lambda z: mp.log(1 + z), None),
    ("sqrt", mp.sqrt, cmath.sqrt),
    ("rsqrt", lambda z: 1 / mp.sqrt(z), None),
    ("reciprocal", lambda z: 1 / z, None),
    ("square", lambda z: z * z, None),
    ("sin", mp.sin, None),
    ("cos", mp.cos, None),
    ("tan", mp.tan, None),
    ("asin", mp.asin, None),
    ("acos", mp.acos, cmath.acos),
    ("atan", mp.atan, None),
    ("sinh", mp.sinh, cmath.sinh),
    ("cosh", mp.cosh, cmath.cosh),
    ("tanh", mp.tanh, cmath.tanh),
    ("asinh", mp.asinh, cmath.asinh),
    ("acosh", mp.acosh, cmath.acosh),
    ("atanh", mp.atanh, cmath.atanh),
    ("sigmoid", lambda z: 1 / (1 + mp.exp(-z)), None),
    ("silu", lambda z: z / (1 + mp.exp(-z)), None),
    ("sgn", lambda z: z / abs(z), None),
    ("abs", lambda z: mp.mpc(abs(z), 0), None),
    ("angle", lambda z: mp.mpc(mp.arg(z), 0), None),
]

LOOSE = ("rsqrt", "reciprocal", "sigmoid", "silu", "log1p", "exp2")  # made of others: the signs of zeros are open


def main():
    print("# A function, then points and values, four numbers each. Made by tools/complex_table.py.")
    rows = []

    def put(name, *words):
        rows.append((name, " ".join(words)))

    for name, f, special in FUNCTIONS:
        for x, y in points():
            if x == 0 and y == 0 and name in ("log", "log2", "log10", "rsqrt", "reciprocal", "sgn", "angle"):
                continue  # poles and what has no direction
            if name in ("atanh",) and abs(x) == 1 and y == 0 or name == "atan" and abs(y) == 1 and x == 0:
                continue
            if name == "log1p" and x == -1 and y == 0:
                continue
            if name == "exp2" and abs(y) > 1e6:
                continue  # the angle is a rounded product
            zeros = x == 0 or y == 0
            try:
                v = mp.mpc(f(mp.mpc(exact(x), exact(y))))
            except (ValueError, ZeroDivisionError, OverflowError):
                continue
            parts = part(v.real, zeros), part(v.imag, zeros)
            if "inf" in parts or "-inf" in parts:
                continue
            if name == "tan" and abs(y) > 200 or name == "tanh" and abs(x) > 200:
                parts = tuple("?" if abs(float(q)) < 1e-80 else q for q in parts)
            if name in LOOSE:
                parts = tuple("?" if float(q) == 0 else q for q in parts)
            put(name, text(x), text(y), *parts)
        for x, y in special_points() if special else ():
            try:
                v = special(complex(x, y))
            except (ValueError, OverflowError):
                continue
            put(name, text(x), text(y), *("?" if q == 0 or math.isnan(q) or (math.isinf(q) and math.isnan(x + y)) else text(q) for q in (v.real, v.imag)))
    for name in dict.fromkeys(n for n, _ in rows):
        own = [r for n, r in rows if n == name]
        for i in range(0, len(own), 4):
            print(name, *own[i : i + 4])


main()
