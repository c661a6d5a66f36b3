"""Incomplete beta function as scalar formulas: I and its derivatives by both parameters.

On the side of the mean where it is the lesser, I_x(a, b), or 1 - I as I_{1-x}(b, a), is a density
times an integral of e**-h (with y = 1 - x):

    t / (1-t) = x / y * e**-u:  I_x(a, b) = x**a * y**b / B(a, b) * J,
    h(u) = a*u + (a+b) * log(1 - x*(1 - e**-u))

and h is convex, so Gauss-Legendre quadrature up to where e**-h has vanished takes the same few
nodes for all a, b, x; J comes from a + 4, by the recurrence of DLMF 8.17.20. The derivatives have
log(t/x) and log((1-t)/y) beside e**-h; on these sides their parts have one sign. For the density of
large a and b see DLMF 5.11.1: what is large in it cancels on paper.
"""

from __future__ import annotations

import math

from symgrad.graph.formulas import Condition, FloatExpr, polynomial
from symgrad.graph.ops import quadrature_tables as table
from symgrad.graph.ops.beta import betaln_formula
from symgrad.graph.ops.gamma import digamma_gap, stirling_tail
from symgrad.records import dataclass

_LAST = {"f32": 18.0, "f64": 38.0}
_STEPS = 4
_LARGE = 3.0
_SHORT = 0.4  # up to here e**u - 1 - u is a polynomial; see EXP_TAIL
_LEAST = {"f32": 1e-30, "f64": 1e-290}


@dataclass(frozen=True, slots=True, eq=False)
class _BetaArguments:
    """a, b, x and y = 1 - x, exchanged where 1 - I is the lesser."""

    a: FloatExpr
    b: FloatExpr
    x: FloatExpr
    y: FloatExpr
    is_exchanged: Condition


@dataclass(frozen=True, slots=True, eq=False)
class _BetaIntegrals:
    """J, and its derivatives by a, with the sign reversed, and by b."""

    plain: FloatExpr
    by_a: FloatExpr
    by_b: FloatExpr


def _arguments(a: FloatExpr, b: FloatExpr, x: FloatExpr) -> _BetaArguments:
    a, b = a.greatest(_LEAST[a.short]), b.greatest(_LEAST[a.short])
    y = 1.0 - x
    swap = x * (a + b + 2.0) > a + 1.0
    return _BetaArguments(
        swap.choose(b, a), swap.choose(a, b), swap.choose(y, x), swap.choose(x, y), swap
    )


def _gap(v: FloatExpr, log: FloatExpr) -> FloatExpr:
    """Return v - log(1 + v) for v > -1, also where v is small; `log` is log(1 + v) elsewhere."""
    s = v / (v + 2.0)
    square = s * s
    near = v * s - s * square * polynomial(square, table.ATANH_TAIL)
    return (abs(s) <= 0.2).choose(near, v - log)


def _drift(of: _BetaArguments) -> FloatExpr:
    """Return h'(0) = a - (a + b) * x, as a*y - b*x."""
    return of.a * of.y - of.b * of.x


def _density(of: _BetaArguments) -> FloatExpr:
    """Return x**a * y**b / B(a, b)."""
    a, b = of.a, of.b
    drift = _drift(of)
    is_large = a.least(b) >= _LARGE
    total = a + b
    tails = stirling_tail(a) + (stirling_tail(b) - stirling_tail(total))
    # log(x / mean) and log(y / (1 - mean)), where these are not near 1
    far_a, far_b = (of.x * (total / a)).log(), (of.y * (total / b)).log()
    large = -(a * _gap(-drift / a, far_a) + b * _gap(drift / b, far_b)) - tails
    root = (a * (b / total) * (0.5 / math.pi)).sqrt()
    x_is_less = of.x < of.y
    log_x = x_is_less.choose(of.x.log(), (-of.y).call("log1p"))
    log_y = x_is_less.choose((-of.x).call("log1p"), of.y.log())
    small = (a * log_x + b * log_y) - betaln_formula(a, b)
    return is_large.choose(large, small).exp() * is_large.choose(root, 1.0)


def _exp_less_one(u: FloatExpr) -> tuple[FloatExpr, FloatExpr]:
    """Return e**-u - 1, and that plus u without loss, for u >= 0."""
    is_short = u <= _SHORT
    tail = u * u * polynomial(-u, table.EXP_TAIL)
    whole = (-u).call("expm1")
    return is_short.choose(tail - u, whole), is_short.choose(tail, whole + u)


def _integrals(of: _BetaArguments) -> _BetaIntegrals:
    a, b, x, y = of.a + float(_STEPS), of.b, of.x, of.y
    total = a + b
    drift = _drift(of) + float(_STEPS) * y
    last = _LAST[x.short]

    def height(u: FloatExpr) -> tuple[FloatExpr, FloatExpr]:
        """Return h(u), and log(1 - x * (1 - e**-u))."""
        less_one, tail = _exp_less_one(u)
        v = x * less_one
        gap = _gap(v, v.call("log1p"))
        return drift * u + total * (x * tail - gap), v - gap

    curvature = total * x * y
    end = 2.0 * last / (drift + (drift * drift + 2.0 * last * curvature).sqrt())
    for _ in range(3):  # Newton's steps
        shrunk = (-end).exp() * x
        slope = a - total * shrunk / (y + shrunk)
        at, _ = height(end)
        end = (end - (at - last) / slope).greatest(0.5 * end)
    plain = by_a = by_b = x.like(0.0)
    nodes = zip(table.GAUSS_NODES[x.short], table.GAUSS_WEIGHTS[x.short], strict=True)
    for node, weight in nodes:
        u = end * node
        at, log = height(u)
        term = (-at).exp() * weight
        plain = plain + term
        by_a = by_a + term * (u + log)
        by_b = by_b - term * log
    return _lowered(of, _BetaIntegrals(plain * end, by_a * end, by_b * end))


def _lowered(of: _BetaArguments, raised: _BetaIntegrals) -> _BetaIntegrals:
    """Return the integrals for a from those for a + 4: J(a) = (1 + x*(a+b) * J(a+1)) / a."""
    plain, by_a, by_b = raised.plain, raised.by_a, raised.by_b
    for k in reversed(range(_STEPS)):
        a = of.a + float(k)
        inverse = 1.0 / a
        scale = of.x * (a + of.b)
        by_a = ((1.0 + of.x * of.b * plain) * inverse + scale * by_a) * inverse
        by_b = (of.x * plain + scale * by_b) * inverse
        plain = (1.0 + scale * plain) * inverse
    return _BetaIntegrals(plain, by_a, by_b)


def _with_limits(
    result: FloatExpr, a: FloatExpr, b: FloatExpr, x: FloatExpr, at_one: float
) -> FloatExpr:
    """Put right the results at x = 0 and 1, for a or b that are 0, and outside of the domain."""
    result = (x.equals(0.0) | b.equals(0.0)).choose(x.like(0.0), result)
    result = (x.equals(1.0) | a.equals(0.0)).choose(x.like(at_one), result)
    is_unknown = (a.equals(0.0) & (b.equals(0.0) | x.equals(0.0))) | (b.equals(0.0) & x.equals(1.0))
    is_known = (a >= 0.0) & (b >= 0.0) & (x >= 0.0) & (x <= 1.0) & ~is_unknown
    return is_known.choose(result, math.nan)


def betainc_formula(a: FloatExpr, b: FloatExpr, x: FloatExpr) -> FloatExpr:
    """Return I_x(a, b)."""
    of = _arguments(a, b, x)
    part = _density(of) * _integrals(of).plain
    return _with_limits(of.is_exchanged.choose(1.0 - part, part), a, b, x, 1.0)


def slope_by_a_formula(a: FloatExpr, b: FloatExpr, x: FloatExpr) -> FloatExpr:
    """Return the derivative of I_x(a, b) by a, which is never positive."""
    of = _arguments(a, b, x)
    integrals = _integrals(of)
    moment = of.is_exchanged.choose(integrals.by_b, -integrals.by_a)
    gap = digamma_gap(*_in_order(of))
    result = _slope(of, x.log() + gap, integrals.plain, moment)
    return _with_limits(result, a, b, x, 0.0)


def slope_by_b_formula(a: FloatExpr, b: FloatExpr, x: FloatExpr) -> FloatExpr:
    """Return the derivative of I_x(a, b) by b, which is never negative."""
    of = _arguments(a, b, x)
    integrals = _integrals(of)
    moment = of.is_exchanged.choose(-integrals.by_a, integrals.by_b)
    first, second = _in_order(of)
    gap = digamma_gap(second, first)
    result = _slope(of, (-x).call("log1p") + gap, integrals.plain, moment)
    return _with_limits(result, a, b, x, 0.0)


def _in_order(of: _BetaArguments) -> tuple[FloatExpr, FloatExpr]:
    """Return a and b as they were before they were exchanged."""
    return of.is_exchanged.choose(of.b, of.a), of.is_exchanged.choose(of.a, of.b)


def _slope(of: _BetaArguments, slope: FloatExpr, plain: FloatExpr, moment: FloatExpr) -> FloatExpr:
    """Return the derivative by a parameter by which `slope` is that of the density's logarithm."""
    result = _density(of) * (slope * plain + moment)
    return of.is_exchanged.choose(-result, result)


def betainc_density_formula(a: FloatExpr, b: FloatExpr, x: FloatExpr) -> FloatExpr:
    """Return the derivative of I_x(a, b) by x, x**(a-1) * (1-x)**(b-1) / B(a, b)."""
    of = _arguments(a, b, x)
    result = _density(of) / (of.x * of.y)
    at_zero = (a > 1.0).choose(x.like(0.0), a.equals(1.0).choose(b, math.inf))
    at_one = (b > 1.0).choose(x.like(0.0), b.equals(1.0).choose(a, math.inf))
    result = x.equals(0.0).choose(at_zero, x.equals(1.0).choose(at_one, result))
    return ((a >= 0.0) & (b >= 0.0) & (x >= 0.0) & (x <= 1.0)).choose(result, math.nan)
