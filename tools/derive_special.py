"""Derive the tables of special functions in `symgrad/graph/ops/` and print one of those files.

Polynomials are minimax for a weighted error, by Remez' algorithm (`tools/derive_math.py`). A
quotient of polynomials takes the values of the function at Chebyshev's points, which is within a
small factor of minimax; the lowest coefficient of its denominator is 1. Not part of the package:
run `python tools/derive_special.py gamma_tables` (a few seconds) and compare with the file, and
likewise `error_tables` and `quadrature_tables`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from mpmath import mp, mpf

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # a script is given the folder it lies in

from tools.derive_math import FORMATS, Fit, Function, print_table, remez, spell  # noqa: E402

HEADER = '''"""Coefficients of {}, by `tools/derive_special.py`.

Only numbers: what they are used for, and their error, is said where they are used. Coefficients
stand in order of rising powers; those of a quotient are its numerator and its denominator.
"""

from __future__ import annotations

from symgrad.graph.formulas import Table
'''


# What each file is about, and how the names of its tables begin.
FILES = {
    "gamma_tables": ("the gamma function", ("GAMMALN", "DIGAMMA", "SIN_PI", "SINC_PI", "COS_PI")),
    "error_tables": ("error and Bessel functions", ("ERFCX", "QUANTILE", "I0", "I1")),
    "slope_tables": ("derivatives of error and Bessel functions", ("ERFC_I", "BESSEL")),
    "quadrature_tables": ("incomplete functions", ("EXP_TAIL", "ATANH_TAIL", "GAUSS")),
}
# How many nodes the incomplete functions take in float32 and in float64.
GAUSS_POINTS = (11, 26)


@dataclass(frozen=True, slots=True)
class Quotient:
    """A quotient of polynomials to find, in u = (x - centre) * scale for x in [low, high].

    `degrees` are those of numerator and denominator, for float32 and for float64.
    """

    name: str
    note: str
    function: Function
    low: float
    high: float
    degrees: tuple[tuple[int, int], tuple[int, int]]
    ranges: dict[str, tuple[float, float]] | None = None  # where they differ by format


def chebyshev(low: mpf, high: mpf, count: int) -> list[mpf]:
    """Return `count` Chebyshev points of [low, high]."""
    middle, half = (mpf(high) + low) / 2, (mpf(high) - low) / 2
    return [middle + half * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]


def interpolate(fit: Quotient, short: str) -> tuple[list[mpf], list[mpf], mpf]:
    """Return numerator, denominator and the largest relative error."""
    above, below = fit.degrees[FORMATS.index(short)]
    low, high = (fit.ranges or {}).get(short, (fit.low, fit.high))
    nodes = chebyshev(mpf(low), mpf(high), above + below + 1)
    matrix, wanted = mp.matrix(len(nodes), len(nodes)), mp.matrix(len(nodes), 1)
    for row, x in enumerate(nodes):
        value = fit.function(x)
        for power in range(above + 1):
            matrix[row, power] = x**power / value
        for power in range(1, below + 1):
            matrix[row, above + power] = -(x**power)
        wanted[row] = mpf(1)
    found = mp.lu_solve(matrix, wanted)
    numerator = [found[i] for i in range(above + 1)]
    denominator = [mpf(1), *(found[above + 1 + i] for i in range(below))]
    worst = mpf(0)
    for x in chebyshev(mpf(low), mpf(high), 7 * len(nodes)):
        quotient = mp.polyval(numerator[::-1], x) / mp.polyval(denominator[::-1], x)
        worst = max(worst, abs(quotient / fit.function(x) - 1))
    return numerator, denominator, worst


def _digamma_zero() -> mpf:
    return mp.findroot(mp.digamma, mpf("1.46163214496836234"))


@cache
def _zero_of_digamma(_digits: int) -> mpf:
    return _digamma_zero()


def _gammaln_middle(z: mpf) -> mpf:
    if min(abs(z - 1), abs(z - 2)) < mpf("1e-25"):
        z += mpf("1e-20")
    return mp.loggamma(z) / ((z - 1) * (z - 2))


def _gammaln_tail(t: mpf) -> mpf:
    if t < mpf("1e-12"):
        return mpf(1) / 12 - t / 360
    x = 1 / mp.sqrt(t)
    return x * (mp.loggamma(x) - (x - mpf(1) / 2) * mp.log(x) + x - mp.log(2 * mp.pi) / 2)


def _digamma_middle(z: mpf) -> mpf:
    return mp.digamma(z) / (z - _zero_of_digamma(mp.dps))


def _digamma_tail(t: mpf) -> mpf:
    if t < mpf("1e-12"):
        return mpf(1) / 12 - t / 120
    x = 1 / mp.sqrt(t)
    return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) * x * x


def _sin_pi(z: mpf) -> mpf:
    return mp.sin(mp.pi * mp.sqrt(z)) / mp.sqrt(z) if z > mpf("1e-30") else mp.pi


def _sinc_pi(z: mpf) -> mpf:
    return _sin_pi(z) / mp.pi


def _cos_pi(z: mpf) -> mpf:
    return mp.cos(mp.pi * mp.sqrt(z))


def _one(_: mpf) -> mpf:
    return mpf(1)


def _exp_tail(v: mpf) -> mpf:
    return (mp.expm1(v) - v) / v**2 if abs(v) > mpf("1e-15") else mpf(1) / 2 + v / 6


def _atanh_tail(z: mpf) -> mpf:
    s = mp.sqrt(z)
    return 2 * (mp.atanh(s) / s - 1) / z if z > mpf("1e-15") else mpf(2) / 3 + 2 * z / 5


def _scaled_erfc(t: mpf) -> mpf:
    if t > 1 - mpf("1e-20"):
        return 2 / mp.sqrt(mp.pi)
    x = 3 * (1 + t) / (1 - t)
    if x < 60:
        return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)
    series = sum(mp.fac2(2 * k - 1) * (-2 * x * x) ** -k for k in range(1, 7))
    return (1 + 2 * x) / (x * mp.sqrt(mp.pi)) * (1 + series)


def _erfc_integral(order: int, t: mpf) -> mpf:
    """Return a repeated integral of erfc, by DLMF 7.18.10 and 13.7.3."""
    if t > 1 - mpf("1e-20"):
        return 2 / mp.sqrt(mp.pi)
    x = 3 * (1 + t) / (1 - t)
    value = mp.hyperu(mpf(order + 1) / 2, mpf(1) / 2, x * x)
    return (1 + 2 * x) ** (order + 1) * value / (2**order * mp.sqrt(mp.pi))


def _quantile_middle(w: mpf) -> mpf:
    q = mp.sqrt(max(mpf("0.140625") - w, mpf(0)))
    return mp.sqrt(2) * mp.erfinv(2 * q) / q if q > mpf("1e-12") else mp.sqrt(2 * mp.pi)


def _quantile_tail(s: mpf) -> mpf:
    """Return x with log(ndtr(-x)) = -s**2, by Newton's method."""
    x = mp.sqrt(max(2 * s * s - mp.log(4 * mp.pi * s * s), mpf("0.5")))
    for _ in range(40):
        log = mp.log(mp.erfc(x / mp.sqrt(2)) / 2)
        step = (log + s * s) / (mp.exp(-x * x / 2 - log) / mp.sqrt(2 * mp.pi))
        x += step
        if abs(step) < mpf("1e-45"):
            break
    return x


def _quantile_near(v: mpf) -> mpf:
    return _quantile_tail(v + mpf("1.4"))


def _quantile_far(v: mpf) -> mpf:
    return _quantile_tail(v + 5)


def _i0(z: mpf) -> mpf:
    return mp.besseli(0, mp.sqrt(z))


def _i1(z: mpf) -> mpf:
    return mp.besseli(1, mp.sqrt(z)) / mp.sqrt(z) if z > 0 else mpf(1) / 2


def _bessel_tail(order: int, t: mpf) -> mpf:
    if t < mpf("1e-9"):
        return (1 - (4 * order - 1) * t / 8) / mp.sqrt(2 * mp.pi)
    return mp.sqrt(1 / t) * mp.exp(-1 / t) * mp.besseli(order, 1 / t)


def _bessel_moment(order: int, x: mpf) -> mpf:
    """Return the mean of (1 - cos(t))**order * e**(-x * (1 - cos(t))), by DLMF 13.4.1."""
    half = order + mpf(1) / 2
    factor = mpf(2) ** order * mp.gamma(half) / (mp.sqrt(mp.pi) * mp.factorial(order))
    return factor * mp.hyp1f1(half, order + 1, -2 * x)


def _moment_near(order: int, t: mpf) -> mpf:
    x = 6 * (1 + t) / (1 - t)
    return (1 + x) ** (order + mpf(1) / 2) * _bessel_moment(order, x)


def _moment_tail(order: int, t: mpf) -> mpf:
    t = max(t, mpf("1e-30"))
    return _bessel_moment(order, 1 / t) / t ** (order + mpf(1) / 2)


def _relative(function: Function) -> Function:
    return lambda x: 1 / function(x)


def by_format() -> dict[str, dict[str, Fit]]:
    """Return the polynomials whose range depends on the format."""
    found: dict[str, dict[str, Fit]] = {}
    for short, edge, terms in (("f32", 8, (10, 10, 6)), ("f64", 15, (21, 21, 14))):
        for order, function, count in ((0, _i0, terms[0]), (1, _i1, terms[1])):
            what = "I0(x)" if order == 0 else "I1(x) / x"
            note = f"{what} in x**2 for |x| <= 8 in float32, 15 in float64"
            fit = Fit(
                f"I{order}", note, function, _relative(function), 0.0, edge**2, (count, count)
            )
            found.setdefault(fit.name, {})[short] = fit
        for order in (0, 1):
            note = f"sqrt(x) * e**-x * I{order}(x) in 1/x beyond"
            tail = partial(_bessel_tail, order)
            fit = Fit(f"I{order}_TAIL", note, tail, _relative(tail), 0.0, 1 / edge, (terms[2],) * 2)
            found.setdefault(fit.name, {})[short] = fit
    for short, edge in (("f32", 10), ("f64", 18)):
        for order in (1, 2):
            for fit in _of_moment(order, edge, FORMATS.index(short)):
                found.setdefault(fit.name, {})[short] = fit
    return found


def _of_moment(order: int, edge: int, place: int) -> tuple[Fit, Fit]:
    near, tail = partial(_moment_near, order), partial(_moment_tail, order)
    note = f"(1+x)**{order + 0.5} * moment {order} in (x-6)/(x+6), x <= 10 (18 in float64)"
    counts = {1: ((16, 7), (37, 14)), 2: ((18, 8), (38, 16))}[order][place]
    return (
        Fit(f"BESSEL_{order}", note, near, _relative(near), -1.0, (edge - 6) / (edge + 6),
            counts[:1] * 2),
        Fit(f"BESSEL_{order}_TAIL", f"x**{order + 0.5} * moment {order} in 1/x beyond", tail,
            _relative(tail), 0.0, 1 / edge, counts[1:] * 2),
    )  # fmt: skip


def _of_erfc_integral(order: int) -> Fit:
    name = "ERFC_INTEGRAL" if order == 1 else f"ERFC_INTEGRAL_{order}"
    note = f"(1+2x)**{order + 1} * e**x**2 * integral {order} of erfc in (x-3)/(x+3)"
    function = partial(_erfc_integral, order)
    terms = {1: (14, 28), 2: (16, 30)}[order]
    return Fit(name, note, function, _relative(function), -1.0, 1.0, terms)


def polynomials() -> list[Fit]:
    """Return every polynomial of the tables."""
    return [
        Fit("GAMMALN_TAIL", "x * (Binet's function of x) in 1/x**2, x >= 3",
            _gammaln_tail, lambda _: mpf(12), 0.0, 1 / 9, (4, 11)),
        Fit("DIGAMMA_TAIL", "x**2 * (log(x) - 1/(2*x) - digamma(x)) in 1/x**2",
            _digamma_tail, lambda _: mpf(12), 0.0, 1 / 9, (5, 11)),
        Fit("SIN_PI", "sin(pi*r)/r in r**2 for |r| <= 1/2", _sin_pi,
            lambda _: 1 / mp.pi, 0.0, 0.25, (5, 9)),
        Fit("SINC_PI", "sin(pi*r)/(pi*r) in r**2 for |r| <= 1/2", _sinc_pi, _one, 0.0, 0.25,
            (5, 9)),
        Fit("EXP_TAIL", "(e**v - 1 - v) / v**2 for |v| <= 0.4", _exp_tail,
            lambda _: mpf(2), -0.4, 0.4, (6, 11)),
        Fit("ATANH_TAIL", "2 * (atanh(s)/s - 1) / s**2 in s**2 for |s| <= 0.2", _atanh_tail,
            lambda _: mpf(1.5), 0.0, 0.0401, (4, 9)),
        Fit("ERFCX", "(1 + 2*x) * e**x**2 * erfc(x) in (x-3) / (x+3), x >= 0", _scaled_erfc,
            _relative(_scaled_erfc), -1.0, 1.0, (13, 25)),
        *[_of_erfc_integral(order) for order in (1, 2)],
        Fit("COS_PI", "cos(pi*r) in r**2 for |r| <= 1/2", _cos_pi, _one, 0.0, 0.25, (6, 10)),
    ]  # fmt: skip


def quotients() -> list[Quotient]:
    """Return every quotient of polynomials of the tables."""
    return [
        Quotient("GAMMALN_MIDDLE", "gammaln(z) / ((z-1)*(z-2)) for 0.7 <= z <= 3",
                 _gammaln_middle, 0.7, 3.0, ((5, 5), (10, 10))),
        Quotient("DIGAMMA_MIDDLE", "digamma(z) / (z - its zero) for 0.5 <= z <= 3",
                 _digamma_middle, 0.5, 3.0, ((4, 4), (8, 8))),
        Quotient("QUANTILE_MIDDLE", "ndtri(1/2 + q) / q in 9/64 - q**2 for |q| <= 3/8",
                 _quantile_middle, 0.0, 0.140625, ((4, 4), (7, 7))),
        Quotient("QUANTILE_TAIL", "-ndtri(p) in v = sqrt(-log(p)) - 1.4 up to 5 (10.3 in float32)",
                 _quantile_near, 0.04, 3.6, ((6, 6), (9, 9)), {"f32": (0.04, 8.9)}),
        Quotient("QUANTILE_FAR", "-ndtri(p) in v = sqrt(-log(p)) - 5 up to 27.3",
                 _quantile_far, 0.0, 22.3, ((5, 5), (10, 10))),
    ]  # fmt: skip


def _bits(error: mpf) -> str:
    return f"2**{float(mp.log(error, 2)):.1f}"


def print_polynomials(names: tuple[str, ...]) -> None:
    """Print the polynomials, each with the errors reached."""
    for fit in polynomials():
        if not fit.name.startswith(names):
            continue
        rows, notes = {}, []
        for short, terms in zip(FORMATS, fit.terms, strict=True):
            coefficients, worst = remez(fit, terms)
            rows[short] = [spell(c, short) for c in coefficients]
            notes.append(_bits(worst))
        print_table(fit.name, f"{fit.note}; weighted error {', '.join(notes)}.", rows)


def print_by_format(names: tuple[str, ...]) -> None:
    """Print the polynomials whose range depends on the format."""
    for name, fits in by_format().items():
        if not name.startswith(names):
            continue
        rows, notes = {}, []
        for short, fit in fits.items():
            coefficients, worst = remez(fit, fit.terms[0])
            rows[short] = [spell(c, short) for c in coefficients]
            notes.append(_bits(worst))
        print_table(name, f"{fits['f64'].note}; weighted error {', '.join(notes)}.", rows)


def print_quotients(names: tuple[str, ...]) -> None:
    """Print the quotients, each with the relative errors reached."""
    for fit in quotients():
        if not fit.name.startswith(names):
            continue
        above, below, notes = {}, {}, []
        for short in FORMATS:
            numerator, denominator, worst = interpolate(fit, short)
            above[short] = [spell(c, short) for c in numerator]
            below[short] = [spell(c, short) for c in denominator]
            notes.append(_bits(worst))
        print_table(fit.name, f"{fit.note}; error {', '.join(notes)}.", above)
        print_table(f"{fit.name}_BELOW", "The denominator.", below)


def _root_of_legendre(degree: int, guess: mpf) -> mpf:
    return mp.findroot(lambda x: mp.legendre(degree, x), (guess, guess + mpf("1e-4")))


def print_gauss() -> None:
    """Print the nodes and weights of Gauss' quadrature on [0, 1] (DLMF 3.5.15)."""
    nodes, weights = {}, {}
    for short, count in zip(FORMATS, GAUSS_POINTS, strict=True):
        guesses = [mp.cos(mp.pi * (i + mpf(3) / 4) / (count + mpf(1) / 2)) for i in range(count)]
        roots = [_root_of_legendre(count, guess) for guess in guesses]
        slopes = [count * mp.legendre(count - 1, x) / (1 - x * x) for x in roots]
        nodes[short] = [spell((1 - x) / 2, short) for x in roots]
        weights[short] = [
            spell(1 / ((1 - x * x) * d * d), short) for x, d in zip(roots, slopes, strict=True)
        ]
    print_table("GAUSS_NODES", "Nodes of Gauss-Legendre quadrature on [0, 1].", nodes)
    print_table("GAUSS_WEIGHTS", "The weights of these nodes.", weights)


def main() -> None:
    """Print the module that is named."""
    about, names = FILES[sys.argv[1]]
    mp.dps = 60
    print(HEADER.format(about), end="")
    print_polynomials(names)
    print_by_format(names)
    print_quotients(names)
    if "GAUSS" in names:
        print_gauss()


if __name__ == "__main__":
    main()
