#!/usr/bin/env python3
"""Makes coefficients.h: minimax polynomials of the functions in this folder (Remez exchange with relative weights).

Each row fits g in  f = head + factor * g(t)  so that the error of f, relative to f, is smallest; `weight` is
factor / f. Coefficients are rounded to the type from the lowest up, and the rest is fitted again where that helps. Usage: fit.py > coefficients.h   (needs mpmath)
"""
import struct
import sys

import mpmath as mp

mp.mp.dps = 60


def to_type(v, wide):
    d = float(v)
    return d if wide else struct.unpack("f", struct.pack("f", d))[0]


def solve(g, weight, lo, hi, powers, fixed):
    """Remez: minimises max |weight (g - fixed - sum c_p t^p)|; returns coefficients and the error."""
    n = len(powers)
    w = lambda t: abs(weight(t))  # one sign: else alternation says nothing
    residual = lambda t: g(t) - sum(c * t**p for p, c in fixed)
    points = [(lo + hi) / 2 + (hi - lo) / 2 * mp.cos(mp.pi * (n - i) / n) for i in range(n + 1)]
    grid = [(lo + hi) / 2 - (hi - lo) / 2 * mp.cos(mp.pi * i / (40 * n)) for i in range(40 * n + 1)]
    gv = [(residual(t), w(t)) for t in grid]
    best_c, best_worst = None, mp.inf
    for _ in range(12):
        a, rhs = mp.matrix(n + 1, n + 1), mp.matrix(n + 1, 1)
        for i, t in enumerate(points):
            if abs(w(t)) < mp.mpf("1e-9"):  # where the weight vanishes there is no extremum
                t += (hi - lo) / 500 if t < hi - (hi - lo) / 400 else -(hi - lo) / 500
            wt = w(t)
            for j, p in enumerate(powers):
                a[i, j] = t**p
            a[i, n] = (-1) ** i / wt
            rhs[i] = residual(t)
        c = mp.lu_solve(a, rhs)
        errors = [wt * (r - sum(c[j] * t**p for j, p in enumerate(powers))) for t, (r, wt) in zip(grid, gv)]
        # The largest error of each sign run, n + 1 of them.
        runs, best = [], 0
        for i in range(1, len(errors) + 1):
            if i == len(errors) or (errors[i] > 0) != (errors[best] > 0):
                runs.append(best)
                best = i
            elif abs(errors[i]) > abs(errors[best]):
                best = i
        worst = max(abs(e) for e in errors)
        if worst < best_worst:
            best_c, best_worst = c, worst
        if len(runs) < n + 1:
            break
        while len(runs) > n + 1:
            runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
        if worst < abs(errors[min(runs, key=lambda i: abs(errors[i]))]) * mp.mpf("1.02"):
            break
        points = [grid[i] for i in runs]
    return best_c, best_worst


def fit(name, wide, g, w, lo, hi, degree):
    lo, hi = mp.mpf(lo), mp.mpf(hi)
    fixed, powers, worst = [], list(range(degree + 1)), None
    # Where the weight does not vanish at 0, fixing low coefficients would leave no freedom there: round all at once.
    rounds = 0 if lo < 0 < hi and abs(w(mp.mpf(0))) > 0 or lo == 0 and abs(w(mp.mpf(0))) > 0 or lo > 0 else 2 if wide else 3
    for _ in range(rounds):  # the lowest coefficients matter most: round them and fit the rest again
        c, worst = solve(g, w, lo, hi, powers, fixed)
        fixed.append((powers[0], mp.mpf(to_type(c[0], wide))))
        powers = powers[1:]
        if not powers:
            break
    if powers:
        c, worst = solve(g, w, lo, hi, powers, fixed)
        fixed += [(p, mp.mpf(to_type(c[j], wide))) for j, p in enumerate(powers)]
    values = [float(v) for _, v in fixed]
    grid = [lo + (hi - lo) * i / 997 for i in range(998)]
    worst = max(abs(w(t) * (g(t) - mp.polyval([mp.mpf(v) for v in reversed(values)], t))) for t in grid)
    bits = mp.log(worst, 2)
    print("static const double %s[] = { // error 2^%.1f" % (name, float(bits)))
    for i in range(0, len(values), 4):
        print("    " + " ".join(v.hex() + "," for v in values[i : i + 4]))
    print("};")
    sys.stdout.flush()


def ratio(f, head, factor, series):
    """g = (f - head) / factor away from 0, where `series` gives it."""
    return lambda t: series(t) if abs(t) < mp.mpf("1e-15") else (f(t) - head(t)) / factor(t)


S = mp.sqrt
one = mp.mpf(1)
quarter = (mp.pi / 4 * mp.mpf("1.0001")) ** 2


def rows():
    yield "exp", lambda r: (mp.expm1(r) - r) / r**2 if abs(r) > 1e-12 else one / 2 + r / 6, lambda r: r**2 / mp.expm1(r) if r else mp.mpf(0), -0.3467, 0.3467, (5, 10)
    yield "exp_sum", lambda r: (mp.expm1(r) - r) / r**2 if abs(r) > 1e-12 else one / 2 + r / 6, lambda r: r**2 / mp.exp(r), -0.3467, 0.3467, (4, 9)
    yield "exp2", lambda r: (mp.mpf(2) ** r - 1) / r if abs(r) > 1e-20 else mp.log(2), lambda r: r / mp.mpf(2) ** r, -0.5001, 0.5001, (5, 11)
    yield "exp_table", lambda r: mp.expm1(r) / r if abs(r) > 1e-20 else one, lambda r: r / mp.exp(r), -0.02167, 0.02167, (2, None)
    yield "exp2_table", lambda r: (mp.mpf(2) ** r - 1) / r if abs(r) > 1e-20 else mp.log(2), lambda r: r / mp.mpf(2) ** r, -0.03126, 0.03126, (2, None)
    yield "log", lambda f: (mp.log1p(f) - f + f * f / 2) / f**3 if abs(f) > 1e-9 else one / 3 - f / 4, lambda f: f**3 / mp.log1p(f) if f else mp.mpf(0), -0.2930, 0.4143, (8, None)
    yield "atanh", lambda z: (2 * mp.atanh(S(z)) - 2 * S(z)) / (z * S(z)) if z > 1e-12 else mp.mpf(2) / 3 + z * 2 / 5, lambda z: z * S(z) / (2 * mp.atanh(S(z))) if z else mp.mpf(0), 0, 0.02945, (3, 6)
    yield "atanh5", lambda z: (2 * mp.atanh(S(z)) - 2 * S(z) - z * S(z) * 2 / 3) / (z * z * S(z)) if z > mp.mpf("1e-8") else mp.mpf(2) / 5 + z * 2 / 7, lambda z: z * z * S(z) / (2 * mp.atanh(S(z))) if z else mp.mpf(0), 0, 0.02945, (2, 7)
    yield "sin", lambda z: (mp.sin(S(z)) - S(z)) / (z * S(z)) if z > 1e-12 else -one / 6 + z / 120, lambda z: z * S(z) / mp.sin(S(z)) if z else mp.mpf(0), 0, quarter, (3, 6)
    yield "cos", lambda z: (mp.cos(S(z)) - 1 + z / 2) / z**2 if z > 1e-9 else one / 24 - z / 720, lambda z: z**2 / mp.cos(S(z)), 0, quarter, (2, 5)
    yield "asin", lambda z: (mp.asin(S(z)) - S(z)) / (z * S(z)) if z > 1e-12 else one / 6 + z * 3 / 40, lambda z: z * S(z) / mp.asin(S(z)) if z else mp.mpf(0), 0, 0.2501, (5, 12)
    yield "atan", lambda z: (mp.atan(S(z)) - S(z)) / (z * S(z)) if z > 1e-12 else -one / 3 + z / 5, lambda z: z * S(z) / mp.atan(S(z)) if z else mp.mpf(0), 0, 0.1717, (4, 11)
    yield "sinh", lambda z: (mp.sinh(S(z)) - S(z)) / (z * S(z)) if z > 1e-12 else one / 6 + z / 120, lambda z: z * S(z) / mp.sinh(S(z)) if z else mp.mpf(0), 0, 1.001, (3, 7)
    yield "tanh", lambda z: (mp.tanh(S(z)) - S(z)) / (z * S(z)) if z > 1e-12 else -one / 3 + z * 2 / 15, lambda z: z * S(z) / mp.tanh(S(z)) if z else mp.mpf(0), 0, 0.3026, (4, 9)
    yield "erf", lambda z: (mp.erf(S(z)) / S(z) if z > 1e-30 else 2 / S(mp.pi) * (1 - z / 3)) - 1, lambda z: S(z) / mp.erf(S(z)) if z else S(mp.pi) / 2, 0, 0.7657, (6, 12)
    yield "erf_far", lambda u: mp.erf(u + mp.mpf("2.4")), lambda u: one, -1.5255, 1.53, (15, None)
    yield "erf_power", lambda a: -mp.log(mp.erfc(a), 2) / a if a > mp.mpf("1e-12") else 2 / S(mp.pi) / mp.log(2), lambda a: mp.erfc(a) * mp.log(2) * a, 0, 4, (7, None)
    yield "erfc", lambda t: -1 + (1 + 2 * (4 + 4 * t) / (1 - t)) * mp.exp(((4 + 4 * t) / (1 - t)) ** 2) * mp.erfc((4 + 4 * t) / (1 - t)), lambda t: 1 / (1 + 2 * (4 + 4 * t) / (1 - t)) / mp.exp(((4 + 4 * t) / (1 - t)) ** 2) / mp.erfc((4 + 4 * t) / (1 - t)), -1, (0.47, 0.75), (12, 25)
    yield "cbrt", lambda m: mp.cbrt(m), lambda m: 1 / mp.cbrt(m), 1, 2, (3, 3)
    yield "lgamma1", lambda t: mp.loggamma(1 + t) / t if abs(t) > 1e-20 else -mp.euler, lambda t: t / mp.loggamma(1 + t) if abs(t) > 1e-20 else -1 / mp.euler, -0.5001, 0.5001, (12, 28)
    yield "lgamma2", lambda t: mp.loggamma(2 + t) / t if abs(t) > 1e-20 else 1 - mp.euler, lambda t: t / mp.loggamma(2 + t) if abs(t) > 1e-20 else 1 / (1 - mp.euler), -0.5001, 1.0001, (10, 26)
    yield "lgamma4", lambda u: mp.loggamma(u + 4), lambda u: 1 / mp.loggamma(u + 4), -1.0001, 4.0001, (11, 27)
    yield "stirling", lambda z: (lambda x: x * (mp.loggamma(x) - (x - one / 2) * mp.log(x) + x - mp.log(2 * mp.pi) / 2))(1 / S(z)) if z > 1e-12 else one / 12 - z / 360, lambda z: (lambda x: 1 / x / mp.loggamma(x))(1 / S(z)) if z > 1e-12 else mp.mpf(0), 0, one / 63, (2, 7)


def main():
    print("// Minimax coefficients, lowest power first. Generated by fit.py; see there for what each of them approximates.")
    print("#ifndef TC_CORE_KERNEL_MATHS_COEFFICIENTS_H_\n#define TC_CORE_KERNEL_MATHS_COEFFICIENTS_H_\n")
    only = sys.argv[1:]
    for name, g, w, lo, hi, degrees in rows():
        if only and name not in only:
            continue
        for wide in (False, True):
            degree = degrees[wide]
            if degree is not None:
                fit("%s_f%d" % (name, 64 if wide else 32), wide, g, w, lo, hi[wide] if isinstance(hi, tuple) else hi, degree)
    if not only or "powers" in only:  # 2^(j/16)
        powers = [to_type(mp.mpf(2) ** (mp.mpf(j) / 16), False) for j in range(16)]
        print("static const double powers_f32[] = {")
        for i in range(0, 16, 4):
            print("    " + " ".join(float(v).hex() + "," for v in powers[i : i + 4]))
        print("};")
    print("\n#endif")


main()
