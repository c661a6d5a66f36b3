"""Special functions: where each is tested, what mpmath says there, and the bound it promises.

A bound is in units in the last place of the exact result, or of the greater of that and `floor`,
where the result has zeros or the docstring says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from mpmath import mp, mpf

import symgrad as sg
from symgrad.graph.dtypes import DType
from symgrad.graph.ops import incomplete_beta, incomplete_gamma

Array = np.ndarray[Any, Any]
Draw = Callable[["Points"], Sequence[Array]]


class Points:
    """Numbers drawn for a dtype: each method gives `count` of them, or those that are named."""

    def __init__(self, dtype: DType, count: int, seed: int) -> None:
        self.is_single = dtype.bits == 32
        self.dtype = dtype
        self.count = count
        self.random = np.random.default_rng(seed)

    def uniform(self, low: float, high: float) -> Array:
        return np.asarray(self.random.uniform(low, high, self.count))

    def powers(self, low: float, high: float) -> Array:
        """Return positive numbers whose decimal exponents are spread evenly."""
        return np.asarray(10.0 ** self.random.uniform(low, high, self.count))

    def tiny(self) -> Array:
        """Return numbers down to the least subnormal one."""
        return self.powers(-44, -5) if self.is_single else self.powers(-323, -5)

    def around(self, *centres: float) -> Array:
        """Return neighbours of numbers where a formula or a sign changes, at all distances."""
        distance = self.powers(-7 if self.is_single else -16, -1)
        signed = 1 + distance * self.random.choice([-1.0, 1.0], self.count)
        return np.asarray(signed * self.random.choice(centres, self.count))


@dataclass(frozen=True, slots=True)
class Promise:
    """A function, how it is computed exactly, where it is tested, and its bound in ulps.

    `bound` and `floor` are numbers, or functions of the arguments; a bound may depend on the bits.
    """

    name: str
    build: Callable[..., Any]
    exact: Callable[..., mpf]
    draw: Draw
    bound: Any
    floor: Any = 0.0
    arity: int = 1


def _joined(*parts: Array) -> list[Array]:
    return [np.concatenate(parts)]


def _pairs(*parts: tuple[Array, ...]) -> list[Array]:
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


# ------------------------------------------------------------------------------------ exact values


def _log_gamma(x: mpf) -> mpf:
    return mp.loggamma(x) if x > 0 else mp.log(abs(mp.gamma(x)))


def _erfcx(x: mpf) -> mpf:
    if x < 100:
        return mp.exp(x * x) * mp.erfc(x)
    terms = (mp.fac2(2 * k - 1) * (-2 * x * x) ** -k for k in range(1, 8))
    return (1 + mp.fsum(terms)) / (x * mp.sqrt(mp.pi))


def _log_normal(x: mpf) -> mpf:
    if x > 0:
        return mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2)
    return mp.log(_erfcx(-x / mp.sqrt(2)) / 2) - x * x / 2


def quantile(p: mpf) -> mpf:
    """Return the zero of log(ndtr(x)) - log(p), by Newton's method."""
    if p == 0.5:
        return mpf(0)
    if abs(p - 0.5) < mpf("0.49"):
        return mp.sqrt(2) * mp.erfinv(2 * p - 1)
    target = mp.log(min(p, 1 - p))
    x = -mp.sqrt(-2 * target - mp.log(-4 * mp.pi * target))
    for _ in range(50):
        value = _log_normal(x)
        step = (value - target) * mp.exp(value + x * x / 2) * mp.sqrt(2 * mp.pi)
        x -= step
        if abs(step) < abs(x) * mpf("1e-25"):
            break
    return x if p < 0.5 else -x


def erf_inverse(x: mpf) -> mpf:
    if abs(x) < mpf("0.98"):
        return mp.erfinv(x)
    return mp.sign(x) * -quantile((1 - abs(x)) / 2) / mp.sqrt(2)


@lru_cache(maxsize=200_000)
def of_gamma(a: mpf, x: mpf) -> tuple[mpf, mpf, mpf, mpf]:
    """Return P, Q, dP/da and the density, by the series of DLMF 8.11.4 and its derivative."""
    fall = x - a - a * mp.log(x / a) if x > a else mpf(0)
    loss = abs(mp.log(a)) if a < 1 else mpf(0)
    with mp.extraprec(int(1.5 * (fall + loss)) + 20):
        harmonic = term = 1 / a
        total, moment, k = term, term * harmonic, 0
        while term * harmonic > moment * mpf(2) ** -mp.prec:
            k += 1
            term *= x / (a + k)
            harmonic += 1 / (a + k)
            total += term
            moment += term * harmonic
        density = mp.exp(a * mp.log(x) - x - mp.loggamma(a))
        slope = mp.log(x) - mp.digamma(a)
        lower = density * total
        return lower, 1 - lower, density * (slope * total - moment), density / x


@lru_cache(maxsize=200_000)
def of_beta(a: mpf, b: mpf, x: mpf) -> tuple[mpf, mpf, mpf, mpf]:
    """Return I, its derivatives by a and b and the density, by the series of DLMF 8.17.8."""
    with mp.extraprec(200):
        swap = x * (a + b + 2) > a + 1
        p, q, z = (b, a, 1 - x) if swap else (a, b, x)
        term = total = 1 / p
        by_p, by_q = -1 / p, mpf(0)
        sum_p, sum_q, k = term * by_p, mpf(0), 0
        while term * (1 + by_q) > total * mpf(2) ** -(mp.prec - 20):
            term *= z * (p + q + k) / (p + k + 1)
            by_p += 1 / (p + q + k) - 1 / (p + k + 1)
            by_q += 1 / (p + q + k)
            total, sum_p, sum_q = total + term, sum_p + term * by_p, sum_q + term * by_q
            k += 1
        density = mp.exp(p * mp.log(z) + q * mp.log1p(-z)) / mp.beta(p, q)
        both = mp.digamma(p + q)
        of_p = density * ((mp.log(z) - mp.digamma(p) + both) * total + sum_p)
        of_q = density * ((mp.log1p(-z) - mp.digamma(q) + both) * total + sum_q)
        lower = density * total
        if swap:
            return 1 - lower, -of_q, -of_p, density / (x * (1 - x))
        return lower, of_p, of_q, density / (x * (1 - x))


# ------------------------------------------------------------------------------------------- points


def _gamma_pairs(points: Points) -> list[Array]:
    a = points.powers(-2, 2.3)
    near = points.powers(0, 2.3)
    small = points.powers(-7, 0.3)
    return _pairs(
        (a, a * points.powers(-1, 0.7)),
        (near, near * (1 + points.uniform(-3, 3) / np.sqrt(near)).clip(1e-3)),
        (small, points.powers(-6, 1)),
        (points.uniform(0, 8), points.uniform(0.01, 16)),
        (points.uniform(0.1, 5), points.around(1.0)),
        (points.around(0.5, 0.7, 3.0), points.uniform(0.01, 8)),
    )


def _draw_pairs(points: Points) -> list[Array]:
    """Return shapes and what is drawn of the gamma distribution of them."""
    shapes = np.concatenate([points.powers(-0.5, 2.5), points.uniform(0.5, 12)])
    return [shapes, np.maximum(points.random.gamma(shapes), 1e-4)]


def _beta_triples(points: Points) -> list[Array]:
    a, b = points.powers(-2, 2.3), points.powers(-2, 2.3)
    p, q = points.uniform(0.05, 10), points.uniform(0.05, 10)
    drawn = points.random.beta(a.clip(0.5), b.clip(0.5))
    parts = ((a, b, points.uniform(0.001, 0.999)), (p, q, points.uniform(0.001, 0.999)),
             (a, b, drawn.clip(1e-4, 1 - 1e-4)))  # fmt: skip
    return _pairs(*parts)


def _exponent(a: float, x: float) -> float:
    return float(max(abs(x - a), abs(a * np.log(x / a))))


def _gamma_bound(a: float, x: float) -> float:
    return 16 + 3 * _exponent(a, x)


def _negative(points: Points) -> list[Array]:
    x = np.concatenate([-points.uniform(0, 12), -points.powers(-20, 1), -points.around(1, 2, 3, 9)])
    x = x.astype(points.dtype.numpy)
    return [x[x != np.round(x)]]


def _positive(points: Points) -> list[Array]:
    top = 35 if points.is_single else 300
    return _joined(
        points.uniform(0, 4), points.powers(-top, top), points.uniform(2, 40),
        points.around(0.5, 0.7, 1, 1.4616321449683623, 2, 3),
    )  # fmt: skip


# e to the power of up to 708, of which the logarithm and two sums each have half an ulp or one.
_BETA_DENSITY = 2.0**11
_FAR = {True: 9.1, False: 26.0}


def _of_order(n: int) -> Promise:
    def draw(points: Points) -> list[Array]:
        largest = 28 // (n + 1)
        return _joined(
            points.uniform(0, 4), points.uniform(3, 40), points.powers(-largest, largest)
        )

    def build(x: Any) -> Any:
        return sg.special.polygamma(n, x)

    return Promise(f"polygamma {n}", build, lambda x: mp.polygamma(n, x), draw, 6 + 2 * n)


PROMISES = (
    Promise("gammaln", sg.special.gammaln, _log_gamma, _positive, 8),
    Promise("gammaln below 0", sg.special.gammaln, _log_gamma, _negative, 8,
            lambda x: max(1.0, math.lgamma(-x))),
    Promise("digamma", sg.special.digamma, mp.digamma, _positive, 6),
    Promise("digamma below 0", sg.special.digamma, mp.digamma, _negative, 6,
            lambda x: max(1.0, abs(np.log(-x)))),
    *map(_of_order, (1, 2, 5)),
    Promise("polygamma 2 below 0", lambda x: sg.special.polygamma(2, x),
            lambda x: mp.polygamma(2, x), lambda p: [x[x > -12] for x in _negative(p)], 10,
            2 * np.pi**3),
    Promise("erfc", sg.special.erfc, mp.erfc,
            lambda p: _joined(p.uniform(-6, 6), p.uniform(0, _FAR[p.is_single]), p.tiny(),
                              -p.tiny()), 6),
    Promise("erfcx", sg.special.erfcx, _erfcx,
            lambda p: _joined(p.uniform(-6, 6), p.powers(0, 30), p.tiny(), -p.tiny()), 6),
    Promise("erfinv", sg.special.erfinv, erf_inverse,
            lambda p: _joined(p.uniform(-0.999, 0.999), p.tiny(), p.around(0.75, -0.75),
                              1 - p.powers(-7 if p.is_single else -15.9, -1)), 4),
    Promise("ndtr", sg.special.ndtr, mp.ncdf,
            lambda p: _joined(p.uniform(-13, 9), p.uniform(-37, 0) / (3 if p.is_single else 1),
                              p.tiny(), -p.tiny()), 6),
    Promise("ndtri", sg.special.ndtri, quantile,
            lambda p: _joined(p.uniform(0.001, 0.999), p.tiny(), p.around(0.125, 0.8, 0.5),
                              1 - p.powers(-7 if p.is_single else -15.9, -1)), 8),
    Promise("log_ndtr", sg.special.log_ndtr, _log_normal,
            lambda p: _joined(p.uniform(-13, 9), -p.powers(0, 15), p.tiny(), -p.tiny()), 6),
    Promise("i0e", sg.special.i0e, lambda x: mp.besseli(0, x) * mp.exp(-abs(x)),
            lambda p: _joined(p.uniform(-40, 40), p.powers(-30, 3), p.around(8, -15)), 8),
    Promise("i1e", sg.special.i1e, lambda x: mp.besseli(1, x) * mp.exp(-abs(x)),
            lambda p: _joined(p.uniform(-40, 40), p.powers(-30, 3), p.around(8, -15)), 8),
    Promise("logit", sg.special.logit, lambda p: mp.log(p / (1 - p)),
            lambda p: _joined(p.uniform(0.001, 0.999), p.tiny(), p.around(0.25, 0.5, 0.75)),
            4),
    Promise("entr", sg.special.entr, lambda x: -x * mp.log(x),
            lambda p: _joined(p.uniform(0.001, 4), p.powers(-20, 20), p.around(1)), 2),
    Promise("xlogy", sg.special.xlogy, lambda x, y: x * mp.log(y),
            lambda p: [p.uniform(-4, 4), p.powers(-20, 20)], 2, arity=2),
    Promise("xlog1py", sg.special.xlog1py, lambda x, y: x * mp.log1p(y),
            lambda p: [p.uniform(-4, 4), p.powers(-20, 20)], 2, arity=2),
    Promise("betaln", sg.special.betaln,
            lambda a, b: mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b),
            lambda p: _pairs((p.powers(-10, 10), p.powers(-10, 10)),
                             (p.uniform(0.01, 8), p.uniform(0.01, 8)),
                             (p.around(0.7, 3), p.uniform(0.01, 8))), 10, 1.0, 2),
    Promise("beta", sg.special.beta, mp.beta,
            lambda p: _pairs((p.powers(-10, 1.4), p.powers(-10, 1.4)),
                             (p.uniform(0.01, 8), p.uniform(0.01, 8))),
            lambda a, b: 8 * (1 + abs(float(mp.log(mp.beta(a, b))))), 0.0, 2),
    Promise("zeta", sg.special.zeta, mp.zeta,
            lambda p: _pairs((1 + p.powers(-5, 1), p.powers(-2, 2)),
                             (p.uniform(1.01, 12), p.uniform(0.01, 12))), 6, 0.0, 2),
    Promise("gammainc", sg.special.gammainc, lambda a, x: of_gamma(a, x)[0], _gamma_pairs,
            _gamma_bound, 0.0, 2),
    Promise("gammaincc", sg.special.gammaincc, lambda a, x: of_gamma(a, x)[1], _gamma_pairs,
            _gamma_bound, 0.0, 2),
    Promise("gammainc_derivative", incomplete_gamma.gammainc_derivative,
            lambda a, x: of_gamma(a, x)[2], _gamma_pairs,
            lambda a, x: 32 + 4 * _exponent(a, x), 0.0, 2),
    Promise("gamma_density", incomplete_gamma.gamma_density, lambda a, x: of_gamma(a, x)[3],
            _gamma_pairs, _gamma_bound, 0.0, 2),
    Promise("gamma_draw_derivative", incomplete_gamma.gamma_draw_derivative,
            lambda a, x: -of_gamma(a, x)[2] / of_gamma(a, x)[3], _draw_pairs, 30, 0.0, 2),
    Promise("betainc", sg.special.betainc, lambda a, b, x: of_beta(a, b, x)[0], _beta_triples,
            2.0**12, 0.0, 3),
    Promise("betainc_by_a", incomplete_beta.betainc_by_a, lambda a, b, x: of_beta(a, b, x)[1],
            _beta_triples, 2.0**11, 0.0, 3),
    Promise("betainc_by_b", incomplete_beta.betainc_by_b, lambda a, b, x: of_beta(a, b, x)[2],
            _beta_triples, 2.0**11, 0.0, 3),
    Promise("beta_density", incomplete_beta.beta_density, lambda a, b, x: of_beta(a, b, x)[3],
            _beta_triples, _BETA_DENSITY, 0.0, 3),
)  # fmt: skip
