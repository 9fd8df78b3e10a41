#!/usr/bin/env python3
"""Makes tests/data/complex_functions.txt: complex functions at chosen points, to 17 digits.

Finite points are evaluated with 60 digits (mpmath). Zeros of either sign, which decide the side of a branch cut, are
numbers of 1e-300 there; parts of results below 1e-100 are zeros of that sign, if the point had a zero.
Points with infinities and NaN follow C's annex G through Python's cmath; a part whose sign or kind it leaves open is
written as ?. Functions of two arguments have four numbers for a point. Usage: complex_table.py > tests/data/complex_functions.txt   (needs mpmath)
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
    ("sinc", lambda z: mp.sin(mp.pi * z) / (mp.pi * z), None),
    ("square_root", mp.sqrt, None),
    ("inverse", lambda z: 1 / z, None),
    ("cube", lambda z: z**3, None),
    ("power_2.5", lambda z: mp.exp(2.5 * mp.log(z)), None),
    ("power_-7", lambda z: z**-7, None),
    ("power_1-2i", lambda z: mp.exp(mp.mpc(1, -2) * mp.log(z)), None),
    ("base_3", lambda z: mp.exp(z * mp.log(3)), None),
    ("base_-1+0.5i", lambda z: mp.exp(z * mp.log(mp.mpc(-1, 0.5))), None),
]


def wide_points():
    """Sizes that only f64 has, and points that f32 rounds: for products and quotients."""
    out = [(1e200, 1e200), (-1e300, 1e280), (1e-200, 3e-200), (1e-300, -1e-290), (3.0, 1e-300), (1e307, 1e307)]
    return out + [(random.gauss(0, 1), random.gauss(0, 1)) for _ in range(6)]


def pairs():
    random.seed(21)
    few = [(0.5, 0.75), (-1.5, 2.0), (2.0, -0.0), (-2.0, 0.0), (-2.0, -0.0), (0.0, 1.5), (-0.0, -0.25), (1e-3, -2e-3)]
    few += [(1e19, -3e18), (1e-19, 1e-20), (1e30, 1e5), (3e-30, -1e-36), (1e-40, 1e-42)]
    out = [(a, b) for a in few for b in few]
    for scale in (1e-12, 1e-3, 1, 30, 1e9):
        out += [((random.gauss(0, scale), random.gauss(0, 1)), (random.gauss(0, 1), random.gauss(0, scale))) for _ in range(6)]
    for _ in range(8):  # products whose real or imaginary part nearly cancels
        a, b, d = random.gauss(0, 1), random.gauss(0, 1), random.gauss(0, 1e-6)
        out += [((a, b), (b * (1 + d), a)), ((a, b), (a, -b * (1 + d)))]
    out = [(tuple(map(narrow, a)), tuple(map(narrow, b))) for a, b in out]
    return out + [(a, b) for a in wide_points() for b in wide_points()]


def powers():
    """Bases on the cut and its sides, near and far from |z| = 1, with exponents up to where results leave the range."""
    random.seed(22)
    bases = [(2, 0.0), (-2, 0.0), (-2, -0.0), (0.0, 3), (-0.0, -3), (1, 1e-4), (-1, 1e-4), (0.6, 0.8), (0.28, -0.96), (1e-20, 1e-22)]
    bases += [(1e-41, 0.0), (3e37, -1e37), (0.999, 1e-3), (1e5, 1e-5)]
    powers = [(2, 0.0), (-1, -0.0), (0.5, 0.0), (1 / 3, 0.0), (10, 0.0), (-21, 0.0), (0.25, 0.5), (1e-3, -1e-3), (0.0, 1), (-0.0, -5)]
    out = [(a, b) for a in bases for b in powers]
    for size in (0.5, 3, 8):
        out += [((random.gauss(0, size), random.gauss(0, size)), (random.gauss(0, size), random.gauss(0, size))) for _ in range(12)]
    for _ in range(12):  # large exponents: log |z| is all that counts
        a = random.uniform(-math.pi, math.pi)
        out.append(((math.cos(a), math.sin(a)), (random.gauss(0, 500), random.gauss(0, 10))))
        out.append(((1 + random.gauss(0, 1e-3), random.gauss(0, 1e-3)), (random.gauss(0, 3e3), random.gauss(0, 3e3))))
    for _ in range(12):  # results near the ends of the range of f32, and of f64
        a, b = random.uniform(1, 9), random.uniform(-2, 2)
        for end in (87, -87, -100, 708, -735):
            out.append(((a, b), (end / math.log(math.hypot(a, b)), random.uniform(-1, 1) * end / 200)))
    return [(tuple(map(narrow, a)), tuple(map(narrow, b))) for a, b in out]


def logaddexp(x, y):
    """Only where the sum of the exponentials does not cancel: else the result's last places are the operands'."""
    r = mp.log(mp.exp(x) + mp.exp(y))
    if abs(mp.exp(x) + mp.exp(y)) * 2 < abs(mp.exp(x)) or abs(r) * 2 < max(abs(x), abs(y)) or abs(mp.im(x) - mp.im(y)) > 30:
        raise ValueError
    return r


def moderate(points):
    return [(a, b) for a, b in points if max(map(abs, a + b)) < 40]


BINARY = [
    ("mul", lambda x, y: x * y, pairs()),
    ("div", lambda x, y: x / y, pairs()),
    ("pow", lambda x, y: mp.exp(y * mp.log(x)), powers()),
    ("float_power", lambda x, y: mp.exp(y * mp.log(x)), powers()),
    ("logaddexp", logaddexp, moderate(pairs())),
    ("polar", lambda r, t: mp.mpc(mp.re(r) * mp.cos(mp.re(t)), mp.re(r) * mp.sin(mp.re(t))), [((a[0], 0.0), (b[0], 0.0)) for a, b in pairs() if abs(b[0]) < 1e6]),
]

LOOSE = ("rsqrt", "reciprocal", "sigmoid", "silu", "log1p", "exp2", "sinc", "square_root", "inverse", "cube")  # made of others: the signs of zeros are open


MORE = {
    "exp2": [(5.5, 1000.3), (-120, 12345.6), (0.3, 1e5), (126.7, -777.7), (1000.25, -3000.7), (-1001.5, 0.5), (-148.6, 1)],
    "sinc": [(0.25, 27.5), (7.75, -20.5), (100.125, 3), (1000.5, 1e-3), (12.0, 1e-4), (-3 - 1e-6, 1e-7)],
}
OPEN_AT_ZERO = [name for name, _, _ in FUNCTIONS if name.startswith("power_")]


def main():
    print("# A function, then points and values, four numbers each. Made by tools/complex_table.py.")
    rows = []

    def put(name, *words):
        rows.append((name, " ".join(words)))

    for name, f, special in FUNCTIONS:
        for x, y in points() + [tuple(map(narrow, z)) for z in MORE.get(name, [])]:
            if x == 0 and y == 0 and name in ("log", "log2", "log10", "rsqrt", "reciprocal", "sgn", "angle", "sinc", "inverse", *OPEN_AT_ZERO):
                continue  # poles and what has no direction
            if name in ("atanh",) and abs(x) == 1 and y == 0 or name == "atan" and abs(y) == 1 and x == 0:
                continue
            if name == "log1p" and x == -1 and y == 0:
                continue
            if name == "exp2" and abs(y) > 1e6 or name[:5] == "base_" and abs(complex(x, y)) > 1e5:
                continue  # the angle is a product in two words
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
            if name in LOOSE or name[:5] in ("power", "base_"):
                parts = tuple("?" if float(q) == 0 else q for q in parts)
            put(name, text(x), text(y), *parts)
        for x, y in special_points() if special else ():
            try:
                v = special(complex(x, y))
            except (ValueError, OverflowError):
                continue
            put(name, text(x), text(y), *("?" if q == 0 or math.isnan(q) or (math.isinf(q) and math.isnan(x + y)) else text(q) for q in (v.real, v.imag)))
    for name, f, points_ in BINARY:
        for (a, b), (c, d) in points_:
            try:
                v = mp.mpc(f(mp.mpc(exact(a), exact(b)), mp.mpc(exact(c), exact(d))))
            except (ValueError, ZeroDivisionError, OverflowError):
                continue
            zeros = 0 in (a, b, c, d)
            parts = ["?" if float(q) == 0 else q for q in (part(v.real, zeros), part(v.imag, zeros))]
            if "inf" not in parts and "-inf" not in parts and abs(v) > mp.mpf("1e-307"):
                put(name, *map(text, (a, b, c, d)), *parts)
    for name in dict.fromkeys(n for n, _ in rows):
        own = [r for n, r in rows if n == name]
        for i in range(0, len(own), 4):
            print(name, *own[i : i + 4])


main()
