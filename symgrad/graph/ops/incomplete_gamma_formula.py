"""Incomplete gamma functions as scalar formulas: P, Q and the derivative of P by its parameter.

Three regions of (a, x), chosen by select. For x <= 1 the power series of DLMF 8.7.1. Elsewhere, on
the side of x = a where it is the lesser, P or Q is a density times an integral of e**-h:

    P(a, x) = x**a * e**-x / gamma(a) * J,  h(u) = a*u - x*(1 - e**-u)  for x <= a  (t = x * e**-u)
    Q(a, x) = x**a * e**-x / gamma(a) * J,  h(u) = x*(e**u - 1) - a*u   for x > a   (t = x * e**u)

and h is convex and rises from 0, so Gauss-Legendre quadrature up to where e**-h has vanished takes
the same few nodes for all a and x. (J of P comes from a + 4, by the recurrence of DLMF 8.8.5.) The
derivative by `a` has u * e**-h beside e**-h; on these sides its parts have one sign, so nothing
cancels. The density is written with Stirling's series, DLMF 5.11.1, where a >= 3.
"""

from __future__ import annotations

import math

from symgrad.graph.formulas import Condition, FloatExpr, polynomial
from symgrad.graph.ops import gamma_tables, quadrature_tables
from symgrad.graph.ops.gamma import DIGAMMA_ZERO
from symgrad.records import dataclass, replace

# h at the end of the range of integration, where e**-h is half a bit of a sum that is 1.
_LAST = {"f32": 18.0, "f64": 38.0}
# How far `a` is raised where P is the lesser.
_STEPS = 4
_SERIES_TERMS = {"f32": 9, "f64": 18}
# Up to this size of u, e**u - 1 - u is a polynomial; see EXP_TAIL.
_SHORT = 0.4
# From here on Stirling's series; below, quotients of polynomials.
_LARGE = 3.0
# What stands for a = 0, so that a / a is 1.
_LEAST = {"f32": 1e-36, "f64": 1e-300}


@dataclass(frozen=True, slots=True, eq=False)
class _GammaArguments:
    """a and x, limited to where the formulas hold, and what they have in common."""

    a: FloatExpr
    x: FloatExpr
    in_series: Condition
    is_large: Condition  # a is, so that Stirling's series holds
    is_low: Condition  # a is near 0, so that functions of a + 1 are taken
    log: FloatExpr  # of x / a where a is large, and of x
    ratio: FloatExpr  # log(x / a), without loss where x is near a
    gap: FloatExpr  # x - a - a * log(x / a), without loss where x is near a


@dataclass(frozen=True, slots=True, eq=False)
class _GammaIntegrals:
    """J and J1, the integrals of e**-h and of u * e**-h."""

    plain: FloatExpr
    moment: FloatExpr


def _arguments(a: FloatExpr, x: FloatExpr) -> _GammaArguments:
    a = a.greatest(_LEAST[a.short])
    is_large = a >= _LARGE
    log = is_large.choose(x / a, x).log()
    excess = (x - a) / a
    s = excess / (excess + 2.0)
    square = s * s
    odd = s * square * polynomial(square, quadrature_tables.ATANH_TAIL)
    is_near = abs(s) <= 0.2
    ratio = is_near.choose(s + s + odd, log)
    gap = is_near.choose(s * (x - a) - a * odd, (x - a) - a * log)
    return _GammaArguments(a, x, x <= 1.0, is_large, a < 0.7, log, ratio, gap)


def _log_density(of: _GammaArguments) -> FloatExpr:
    """Return log(x**a * e**-x / gamma(a)) but for the factor below; in the series without e**-x.

    Where a is near 0 that is log(x**a / gamma(1 + a)), exact to a relative error of its own.
    """
    a, low = of.a, of.is_low
    inverse = 1.0 / a
    tail = inverse * polynomial(inverse * inverse, gamma_tables.GAMMALN_TAIL)
    z = low.choose(a + 1.0, a)
    quotient = polynomial(z, gamma_tables.GAMMALN_MIDDLE) / polynomial(
        z, gamma_tables.GAMMALN_MIDDLE_BELOW
    )
    gammaln = quotient * low.choose(a, a - 1.0) * low.choose(a - 1.0, a - 2.0)
    shift = of.in_series.choose(of.x.like(0.0), of.x)
    small = (a * of.log - gammaln) - shift
    return of.is_large.choose((of.x - shift) - (of.gap + tail), small)


def _factor(of: _GammaArguments) -> FloatExpr:
    """Return what the exponential of `_log_density` lacks; in the series also divided by a."""
    a, one = of.a, of.a.like(1.0)
    root = (a * (0.5 / math.pi)).sqrt()
    factor = of.is_large.choose(root, of.is_low.choose(a, one))
    divided = of.is_large.choose(root / a, of.is_low.choose(one, one / a))
    return of.in_series.choose(divided, factor)


def _slope(of: _GammaArguments) -> FloatExpr:
    """Return log(x) - digamma(a); in the series log(x) - digamma(a + 1)."""
    a = of.a
    is_low = a < 0.5
    inverse = 1.0 / a
    square = inverse * inverse
    large = of.ratio + (0.5 * inverse + square * polynomial(square, gamma_tables.DIGAMMA_TAIL))
    z = is_low.choose(a + 1.0, a)
    quotient = polynomial(z, gamma_tables.DIGAMMA_MIDDLE) / polynomial(
        z, gamma_tables.DIGAMMA_MIDDLE_BELOW
    )
    high, low = DIGAMMA_ZERO[a.short]
    slope = of.is_large.choose(large, of.log - ((z - high) - low) * quotient)
    in_series = is_low.choose(slope, slope - inverse)
    return of.in_series.choose(in_series, is_low.choose(slope + inverse, slope))


def _series(of: _GammaArguments) -> tuple[FloatExpr, FloatExpr]:
    """Return 1 - a*S and T, of which P and its derivative are made.

    S = sum over n >= 1 of (-1)**(n+1) * x**n / ((a+n) * n!), and T has n / (a+n)**2.
    """
    x = of.x.least(1.0)
    power = x
    total = moment = x.like(0.0)
    for n in range(1, _SERIES_TERMS[x.short] + 1):
        inverse = 1.0 / (of.a + float(n))
        term = power * inverse
        total = total + term
        moment = moment + term * (n * inverse)
        power = power * x * (-1.0 / (n + 1))
    return total, moment


def _exp_tail(u: FloatExpr) -> FloatExpr:
    """Return e**u - 1 - u."""
    return (abs(u) <= _SHORT).choose(
        u * u * polynomial(u, quadrature_tables.EXP_TAIL), u.call("expm1") - u
    )


def _integrals(of: _GammaArguments, is_below: Condition) -> _GammaIntegrals:
    """Return J and J1 for x > 1; `is_below` says that x <= a, where they are those of P."""
    a, x = of.a, of.x
    raised = is_below.choose(a + float(_STEPS), a)
    sign = is_below.choose(x.like(-1.0), 1.0)
    drift = abs(x - raised) / x
    last = _LAST[x.short] / x
    # The end of the range: h(u) / x >= drift * u + u**2 / 2 above, and u <= log1p(...) there.
    end = 2.0 * last / (drift + (drift * drift + 2.0 * last).sqrt())
    end = is_below.choose(end, (last + end * (a / x)).call("log1p"))
    for _ in range(2):  # Newton's steps
        slope = drift + sign * (sign * end).call("expm1")
        end = end - (drift * end + _exp_tail(sign * end) - last) / slope
    plain = moment = x.like(0.0)
    nodes = zip(
        quadrature_tables.GAUSS_NODES[x.short],
        quadrature_tables.GAUSS_WEIGHTS[x.short],
        strict=True,
    )
    for node, weight in nodes:
        u = end * node
        term = (-x * (drift * u + _exp_tail(sign * u))).exp() * weight
        plain = plain + term
        moment = moment + term * node
    return _lowered(of, is_below, _GammaIntegrals(plain * end, moment * end * end))


def _lowered(of: _GammaArguments, is_below: Condition, raised: _GammaIntegrals) -> _GammaIntegrals:
    """Return the integrals for a from those for a + 4, where `is_below`.

    J(a) = (1 + x / (a+1) * (1 + x / (a+2) * ...)) / a, and J1 is minus its derivative by a.
    """
    plain, moment = raised.plain, raised.moment
    for k in reversed(range(_STEPS)):
        inverse = 1.0 / (of.a + float(k))
        moment = (moment * of.x + (1.0 + plain * of.x) * inverse) * inverse
        plain = (1.0 + plain * of.x) * inverse
    return _GammaIntegrals(
        is_below.choose(plain, raised.plain), is_below.choose(moment, raised.moment)
    )


def _with_limits(
    result: FloatExpr, a: FloatExpr, x: FloatExpr, at_start: float, at_end: float
) -> FloatExpr:
    """Put right the results where x or a is 0 or infinite, negative or nan.

    `at_start` is the value for x = 0 and for infinite a, `at_end` that for infinite x and a = 0.
    """
    is_end = x.equals(math.inf) | a.equals(0.0)
    is_start = x.equals(0.0) | a.equals(math.inf)
    result = is_start.choose(x.like(at_start), result)
    result = is_end.choose(x.like(at_end), result)
    is_known = (x >= 0.0) & (a >= 0.0) & ~(is_start & is_end)
    return is_known.choose(result, math.nan)


def lower_formula(a: FloatExpr, x: FloatExpr) -> FloatExpr:
    """Return P(a, x)."""
    of = _arguments(a, x)
    is_below = x <= of.a
    density = _log_density(of).exp() * _factor(of)
    series, _ = _series(of)
    part = density * _integrals(of, is_below).plain
    result = is_below.choose(part, 1.0 - part)
    result = of.in_series.choose(density * (1.0 - of.a * series), result)
    return _with_limits(result, a, x, 0.0, 1.0)


def upper_formula(a: FloatExpr, x: FloatExpr) -> FloatExpr:
    """Return Q(a, x) = 1 - P(a, x)."""
    of = _arguments(a, x)
    is_below = x <= of.a
    log_density = _log_density(of)
    density = log_density.exp() * _factor(of)
    series, _ = _series(of)
    part = density * _integrals(of, is_below).plain
    result = is_below.choose(1.0 - part, part)
    # Of 1 - density * (1 - a*S) nothing may be lost where the density is near 1.
    lost = of.is_low.choose(-log_density.call("expm1"), 1.0 - density)
    result = of.in_series.choose(lost + density * (of.a * series), result)
    return _with_limits(result, a, x, 1.0, 0.0)


def derivative_formula(a: FloatExpr, x: FloatExpr) -> FloatExpr:
    """Return the derivative of P(a, x) by a."""
    of = _arguments(a, x)
    is_below = x <= of.a
    density = _log_density(of).exp() * _factor(of)
    series, moment = _series(of)
    slope = _slope(of)
    integrals = _integrals(of, is_below)
    scaled = slope * integrals.plain
    result = is_below.choose(scaled - integrals.moment, -(scaled + integrals.moment))
    result = of.in_series.choose(slope * (1.0 - of.a * series) - moment, result) * density
    return _vanishing(result, a, x)


def draw_derivative_formula(a: FloatExpr, x: FloatExpr) -> FloatExpr:
    """Return the derivative by a of the x that holds P(a, x), -dP/da / (dP/dx).

    The density cancels, so nothing over- or underflows.
    """
    of = _arguments(a, x)
    is_below = x <= of.a
    series, moment = _series(of)
    slope = _slope(of)
    integrals = _integrals(of, is_below)
    scaled = slope * integrals.plain
    result = x * is_below.choose(integrals.moment - scaled, scaled + integrals.moment)
    growth = x * x.exp() / of.a  # where the series is not taken it may overflow
    near_zero = growth * (moment - slope * (1.0 - of.a * series))
    return _vanishing(of.in_series.choose(near_zero, result), a, x)


def _vanishing(result: FloatExpr, a: FloatExpr, x: FloatExpr) -> FloatExpr:
    """Return a derivative by a, which is 0 at the ends of x, and nan outside of a, x >= 0."""
    is_flat = x.equals(0.0) | x.equals(math.inf) | a.equals(math.inf)
    result = is_flat.choose(x.like(0.0), result)
    is_both = (a.equals(0.0) & x.equals(0.0)) | (a.equals(math.inf) & x.equals(math.inf))
    return ((x >= 0.0) & (a >= 0.0) & ~is_both).choose(result, math.nan)


def density_formula(a: FloatExpr, x: FloatExpr) -> FloatExpr:
    """Return the derivative of P(a, x) by x, x**(a-1) * e**-x / gamma(a)."""
    of = _arguments(a, x)
    nowhere = Condition(x.scalars, (x < x).value)
    elsewhere = replace(of, in_series=nowhere)
    # At the ends the limits: x**(a-1) for x = 0, and 0.
    density = _log_density(elsewhere).exp() * _factor(elsewhere) / x
    at_zero = (a > 1.0).choose(x.like(0.0), a.equals(1.0).choose(x.like(1.0), math.inf))
    density = x.equals(0.0).choose(at_zero, density)
    density = (x.equals(math.inf) | a.equals(0.0)).choose(x.like(0.0), density)
    return ((x >= 0.0) & (a >= 0.0)).choose(density, math.nan)
