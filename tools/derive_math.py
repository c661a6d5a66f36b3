"""Derive the tables of `symgrad/codegen/llvm/math/*coefficients.py` and print one of those files.

Polynomials are minimax for a weighted error, found by Remez' exchange algorithm in multiple
precision. Constants split in parts carry as many zero bits at the end as make their products with
small integers exact. Not part of the package: run `python tools/derive_math.py coefficients` (a
second) and compare with the file, and likewise `erfinv_coefficients`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from mpmath import mp, mpf

Function = Callable[[mpf], mpf]
FORMATS = ("f32", "f64")
HEADER = '''"""{}, by `tools/derive_math.py`.

Only numbers: what they are used for, and their error, is said where they are used. Coefficients
stand in order of rising powers.
"""

from __future__ import annotations

Table = dict[str, tuple[float, ...]]
'''


@dataclass(frozen=True, slots=True)
class Fit:
    """A polynomial to find: `weight * (function - polynomial)` is to be small on [low, high].

    `terms` is the number of coefficients for float32 and for float64; 0 means not used there.
    """

    name: str
    note: str
    function: Function
    weight: Function
    low: float
    high: float
    terms: tuple[int, int]


def solve(fit: Fit, terms: int, nodes: list[mpf]) -> tuple[list[mpf], mpf]:
    """Return coefficients whose weighted error has equal size and alternating signs at `nodes`."""
    matrix = mp.matrix(terms + 1, terms + 1)
    wanted = mp.matrix(terms + 1, 1)
    for row, x in enumerate(nodes):
        for column in range(terms):
            matrix[row, column] = x**column
        matrix[row, terms] = (-1) ** row / fit.weight(x)
        wanted[row] = fit.function(x)
    solution = mp.lu_solve(matrix, wanted)
    return [solution[i] for i in range(terms)], abs(solution[terms])


def alternating_extrema(grid: list[mpf], errors: list[mpf], count: int) -> list[mpf]:
    """Return the `count` neighbouring points of largest error whose signs alternate."""
    runs: list[int] = []
    for index, error in enumerate(errors):
        if runs and (error > 0) == (errors[runs[-1]] > 0):
            if abs(error) > abs(errors[runs[-1]]):
                runs[-1] = index
        else:
            runs.append(index)
    while len(runs) > count:
        runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
    return [grid[index] for index in runs]


def remez(fit: Fit, terms: int) -> tuple[list[mpf], mpf]:
    """Return the minimax polynomial of `terms` coefficients and its largest weighted error."""
    low, high = mpf(fit.low), mpf(fit.high)
    middle, half = (high + low) / 2, (high - low) / 2
    points = 24 * terms + 1
    grid = [middle - half * mp.cos(mp.pi * i / points) for i in range(points + 1)]
    exact = [(fit.function(x), fit.weight(x)) for x in grid]
    nodes = [middle - half * mp.cos(mp.pi * i / terms) for i in range(terms + 1)]
    worst = mpf(0)
    for _ in range(12):
        coefficients, level = solve(fit, terms, nodes)
        errors = [
            weight * (value - mp.polyval(coefficients[::-1], x))
            for x, (value, weight) in zip(grid, exact, strict=True)
        ]
        worst = max(abs(error) for error in errors)
        extrema = alternating_extrema(grid, errors, terms + 1)
        if len(extrema) <= terms or worst < level * mpf("1.001"):
            break
        nodes = extrema
    return coefficients, worst


def _exp_tail(r: mpf) -> mpf:
    if abs(r) < mpf("1e-12"):
        return mpf(1) / 2 + r / 6
    return (mp.expm1(r) - r) / r**2


def _log_tail(f: mpf) -> mpf:
    if abs(f) < mpf("1e-9"):
        return mpf(1) / 3 - f / 4 + f**2 / 5
    return (mp.log1p(f) - f + f**2 / 2) / f**3


def _log_quotient(z: mpf) -> mpf:
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) / s - 2) / z if z > mpf("1e-18") else mpf(2) / 3 + 2 * z / 5


def _log_quotient_tail(z: mpf) -> mpf:
    s = mp.sqrt(z)
    if z < mpf("1e-12"):
        return mpf(2) / 5 + 2 * z / 7
    return (2 * mp.atanh(s) / s - 2 - 2 * z / 3) / z**2


def _sin_tail(z: mpf) -> mpf:
    r = mp.sqrt(z)
    return (mp.sin(r) / r - 1) / z if z > mpf("1e-18") else -mpf(1) / 6 + z / 120


def _cos_tail(z: mpf) -> mpf:
    if z < mpf("1e-12"):
        return mpf(1) / 24 - z / 720
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2


def _tanh_tail(z: mpf) -> mpf:
    x = mp.sqrt(z)
    return (mp.tanh(x) / x - 1) / z if z > mpf("1e-18") else -mpf(1) / 3 + 2 * z / 15


def _odd_tail(function: Function, cube: mpf) -> Function:
    """Return (f(x)/x - 1) / z in z = x**2 for an odd f with f(x) = x + cube * x**3 + ..."""

    def tail(z: mpf) -> mpf:
        x = mp.sqrt(abs(z))
        return (function(x) / x - 1) / z if abs(z) > mpf("1e-18") else cube

    return tail


def _erf_quotient(z: mpf) -> mpf:
    x = mp.sqrt(z)
    return mp.erf(x) / x - 1 if z > 0 else 2 / mp.sqrt(mp.pi) - 1


def _erfinv_quotient(w: mpf) -> mpf:
    """Return erfinv(x) / x where w is -log(1 - x**2)."""
    if w < mpf("1e-25"):
        return mp.sqrt(mp.pi) / 2
    x = mp.sqrt(-mp.expm1(-w))
    if x < mpf("0.9"):
        return mp.erfinv(x) / x
    above = mp.exp(-w) / (1 + x)  # 1 - x
    y, step = mp.sqrt(w), mpf(1)
    while abs(step) > mpf("1e-45"):  # Newton's method for the logarithm of erfc
        erfc = mp.erfc(y)
        step = mp.log(erfc / above) * erfc * mp.exp(y * y) * mp.sqrt(mp.pi) / 2
        y += step
    return y / x


def _one(_: mpf) -> mpf:
    return mpf(1)


def fits() -> list[Fit]:
    """Return every polynomial of the tables."""
    return [
        Fit("EXP", "(e**r - 1 - r) / r**2 for |r| <= ln(2)/2", _exp_tail,
            lambda r: r**2 + mpf("1e-9"), -0.3467, 0.3467, (5, 10)),
        Fit("EXP_NEAR", "(e**r - 1 - r) / r**2 for |r| <= ln(2)/32", _exp_tail,
            lambda r: r**2 + mpf("1e-9"), -0.02167, 0.02167, (2, 0)),
        Fit("LOG", "(log(1+f) - f + f**2/2) / f**3 for sqrt(1/2) <= 1+f <= sqrt(2)", _log_tail,
            lambda f: f**2 + mpf("1e-7"), -0.2931, 0.4144, (9, 0)),
        Fit("LOG_QUOTIENT", "(2*atanh(s)/s - 2) / z for z = s**2", _log_quotient,
            lambda z: z + mpf("1e-6"), 0.0, 0.0295, (0, 7)),
        Fit("POW_LOG", "(2*atanh(s)/s - 2 - 2*z/3) / z**2 for z = s**2", _log_quotient_tail,
            _one, 0.0, 0.0295, (0, 8)),
        Fit("SIN", "(sin(r)/r - 1) / z for z = r**2", _sin_tail,
            lambda z: z + mpf("1e-9"), 0.0, 0.6170, (3, 6)),
        Fit("COS", "(cos(r) - 1 + z/2) / z**2 for z = r**2", _cos_tail,
            lambda z: z**2 + mpf("1e-9"), 0.0, 0.6170, (3, 6)),
        Fit("TANH", "(tanh(x)/x - 1) / z for z = x**2, |x| <= 0.9", _tanh_tail,
            lambda z: z + mpf("1e-3"), 0.0, 0.811, (7, 14)),
        Fit("SINH", "(sinh(x)/x - 1) / z for z = x**2, |x| <= 1", _odd_tail(mp.sinh, mpf(1) / 6),
            lambda z: z + mpf("1e-3"), 0.0, 1.001, (4, 7)),
        Fit("ASIN", "(asin(s)/s - 1) / z for z = s**2, |s| <= 1/2", _odd_tail(mp.asin, mpf(1) / 6),
            lambda z: z + mpf("1e-4"), 0.0, 0.2501, (5, 13)),
        Fit("ATAN", "(atan(t)/t - 1) / z for z = t**2, |t| <= 1/2",
            _odd_tail(mp.atan, -mpf(1) / 3), lambda z: z + mpf("1e-4"), 0.0, 0.2501, (6, 13)),
        Fit("CBRT", "the cube root of m for sqrt(1/2) <= m <= sqrt(2)", mp.cbrt,
            lambda m: 1 / mp.cbrt(m), 0.707, 1.4143, (5, 5)),
        Fit("ERF", "erf(x)/x - 1 in z = x**2, |x| <= 1", _erf_quotient,
            _one, 0.0, 1.001, (7, 13)),
    ]  # fmt: skip


def _erfinv_fit(
    name: str, note: str, terms: int, centre: float, low: float, high: float, power: int = 1
) -> Fit:
    """Return a fit of erfinv(x) / x in v - centre, where v**power is -log(1 - x**2)."""

    def quotient(t: mpf) -> mpf:
        return _erfinv_quotient((t + centre) ** power)

    def weight(t: mpf) -> mpf:
        return 1 / quotient(t)

    return Fit(
        name, f"erfinv(x) / x {note}", quotient, weight, low - centre, high - centre, (terms, terms)
    )


def erfc_by_format() -> dict[str, Fit]:
    """Return the polynomials of -log(erfc(t)), whose range depends on the format."""
    note = "-log(erfc(1 + u)) from u = 0 to where erf rounds to 1"
    return {
        short: Fit("ERFC", note, lambda u: -mp.log(mp.erfc(u + 1)), lambda u: mp.erfc(u + 1),
                   -0.001, high, (terms, terms))
        for short, high, terms in (("f32", 3.0, 7), ("f64", 5.0, 19))
    }  # fmt: skip


def erfinv_by_format() -> list[dict[str, Fit]]:
    """Return the polynomials of erfinv, which are one in float32 and three in float64."""
    note = "in w - 6; of float64 in w - 25/8 up to 25/4"
    near = {
        "f32": _erfinv_fit("NEAR", note, 18, 6.0, 0.0, 16.0),
        "f64": _erfinv_fit("NEAR", note, 24, 3.125, 0.0, 6.25),
    }
    note = "in sqrt(w) - 13/4 up to 4"
    far = {"f64": _erfinv_fit("FAR", note, 19, 3.25, 2.5, 4.0, 2)}
    note = "in sqrt(w) - 5 beyond"
    farthest = {"f64": _erfinv_fit("FARTHEST", note, 18, 5.0, 4.0, 6.01, 2)}
    return [near, far, farthest]


def spell(x: mpf, short: str) -> str:
    """Return the shortest decimal that reads back as `x` rounded to the format."""
    if short == "f32":
        return str(float(str(np.float32(float(x)))))
    return repr(float(x))


def truncated(x: mpf, bits: int) -> mpf:
    """Return `x` rounded to `bits` significant bits."""
    _, exponent = mp.frexp(x)
    return mp.ldexp(mp.nint(mp.ldexp(x, bits - exponent)), exponent - bits)


def parts(x: mpf, bits: int, count: int) -> list[mpf]:
    """Split `x` in `count` parts of which all but the last have `bits` significant bits."""
    split = []
    for _ in range(count - 1):
        split.append(truncated(x, bits))
        x -= split[-1]
    return [*split, x]


def print_table(name: str, note: str, rows: dict[str, list[str]]) -> None:
    """Print one table of the module: its note, and a row for each format."""
    print(f"\n# {note}")
    print(f"{name}: Table = {{")
    for short, numbers in rows.items():
        print(f'    "{short}": (')
        for number in numbers:
            print(f"        {number},")
        print("    ),")
    print("}")


def print_polynomials() -> None:
    """Print the tables of all fits, each with the errors reached."""
    for fit in fits():
        rows, notes = {}, []
        for short, terms in zip(FORMATS, fit.terms, strict=True):
            if terms == 0:
                continue
            coefficients, worst = remez(fit, terms)
            rows[short] = [spell(c, short) for c in coefficients]
            notes.append(f"2**{float(mp.log(worst, 2)):.1f}")
        print_table(fit.name, f"{fit.note}; weighted error {', '.join(notes)}.", rows)
    print_by_format(erfc_by_format())


def print_by_format(fits_by_format: dict[str, Fit]) -> None:
    """Print a table whose polynomials have a fit of their own for each format."""
    rows, notes = {}, []
    for short, fit in fits_by_format.items():
        coefficients, worst = remez(fit, fit.terms[0])
        rows[short] = [spell(c, short) for c in coefficients]
        notes.append(f"2**{float(mp.log(worst, 2)):.1f}")
    print_table(fit.name, f"{fit.note}; weighted error {', '.join(notes)}.", rows)


def print_constants() -> None:
    """Print the constants of the reductions."""
    print("\n# ln(2) in two parts: n * the first is exact for every exponent n of the format.")
    print("LN2: Table = {")
    for short, bits in (("f32", 15), ("f64", 41)):
        high, low = parts(mp.log(2), bits, 2)
        print(f'    "{short}": ({spell(high, short)}, {spell(low, short)}),')
    print("}")
    print(f"LOG2_E = {spell(1 / mp.log(2), 'f64')}")
    powers = [spell(mpf(2) ** (mpf(k) / 16), "f32") for k in range(16)]
    print_table("EXP2_SIXTEENTHS", "2**(k/16) for k from 0 to 15.", {"f32": powers})
    print("\n# log10(2), likewise in two parts.")
    print("LOG10_2: Table = {")
    for short, bits in (("f32", 15), ("f64", 41)):
        high, low = parts(mp.log10(2), bits, 2)
        print(f'    "{short}": ({spell(high, short)}, {spell(low, short)}),')
    print("}")
    print("\n# Numbers rounded to either format and what the rounding left over.")
    for name, x in (
        ("LN2_PAIR", mp.log(2)),
        ("LOG2_E_PAIR", 1 / mp.log(2)),
        ("LOG10_E_PAIR", 1 / mp.log(10)),
        ("PI_PAIR", mp.pi),
        ("PIO2_PAIR", mp.pi / 2),
        ("PIO4_PAIR", mp.pi / 4),
    ):
        print(f"{name}: Table = {{")
        for short, bits in (("f32", 24), ("f64", 53)):
            high, low = parts(x, bits, 2)
            print(f'    "{short}": ({spell(high, short)}, {spell(low, short)}),')
        print("}")
    print("\n# pi/2 in four parts: n * each of the first three is exact for |n| < 2**20.")
    print(f"PIO2 = ({', '.join(spell(p, 'f64') for p in parts(mp.pi / 2, 33, 4))})")
    print("\n# A number rounded to float64 and what the rounding left over.")
    thirds = parts(mpf(2) / 3, 53, 2)
    print(f"TWO_THIRDS = ({', '.join(spell(p, 'f64') for p in thirds)})")
    print(f"TWO_OVER_PI = {spell(2 / mp.pi, 'f64')}")
    print("\n# The bits of 2/pi in words of 64, after one word of zeros.")
    print("TWO_OVER_PI_WORDS = (")
    print("    0x0000000000000000,")
    scaled = 2 / mp.pi
    for _ in range(20):
        scaled *= mpf(2) ** 64
        print(f"    0x{int(mp.floor(scaled)):016X},")
        scaled -= mp.floor(scaled)
    print(")")


def main() -> None:
    """Print the module that is named."""
    mp.dps = 60
    if sys.argv[1] == "erfinv_coefficients":
        print(HEADER.format("Minimax polynomials of erfinv in w = -log(1 - x**2)"), end="")
        for fits_by_format in erfinv_by_format():
            print_by_format(fits_by_format)
        return
    print(HEADER.format("Minimax polynomials and constants of math functions"), end="")
    print_polynomials()
    mp.prec = 1600
    print_constants()


if __name__ == "__main__":
    main()
