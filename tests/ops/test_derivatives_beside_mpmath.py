"""Values, slopes and curvatures of functions of one number beside mpmath, from 1e-30 to 1e30.

An error is measured in units in the last place of what is right, however small that is: a
derivative that is a difference of nearly equal numbers has no digits where these nearly cancel.
Not in the table are slopes that are made of a result, so that no other exponential is taken, as
1 - tanh**2 and y * (1 - y) of sigmoid and softmax: their error is relative to the largest slope, as
in JAX and PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

import symgrad as sg
from tests.support.together import together

Exact = Callable[[Any], Any]

_SIZES = np.concatenate([10.0 ** np.arange(-30, 31, 3), np.linspace(0.3, 24, 25), [80.0, 700.0]])
_BELOW_1 = np.concatenate([_SIZES[_SIZES < 1], 1 - np.exp2(-np.arange(3.0, 24))])
_PARTS = np.concatenate(
    [10.0 ** np.arange(-30, 0, 2), np.linspace(0.05, 0.45, 9), 0.5 + np.linspace(0.05, 0.45, 9),
     1 - np.exp2(-np.arange(3.0, 24))]
)  # fmt: skip
_POINTS = {
    "inside": np.concatenate([-_BELOW_1, _BELOW_1]).astype(np.float32),
    "all": np.concatenate([-_SIZES, _SIZES]).astype(np.float32),
    "positive": _SIZES.astype(np.float32),
    "negative": -_SIZES.astype(np.float32),
    "above 1": np.concatenate([1 + np.exp2(-np.arange(3.0, 24)), _SIZES[_SIZES > 1]]).astype(
        np.float32
    ),
    "moderate": np.concatenate([-_SIZES[_SIZES < 8], _SIZES[_SIZES < 8]]).astype(np.float32),
    "near 0": np.concatenate([-_SIZES[_SIZES < 1], _SIZES[_SIZES < 1]]).astype(np.float32),
    "of errors": np.concatenate([-_SIZES[_SIZES < 9], _SIZES[_SIZES < 13]]).astype(np.float32),
    "above -9": np.concatenate([-_SIZES[_SIZES < 9], _SIZES]).astype(np.float32),
    "below 13": np.concatenate([-_SIZES, _SIZES[_SIZES < 13]]).astype(np.float32),
    "a part": _PARTS.astype(np.float32),
    "parts": np.concatenate([-_PARTS, _PARTS]).astype(np.float32),
    "but a zero": np.array(
        [x for size in _SIZES if not 1.2 < size < 4 for x in (-size, size)], np.float32
    ),
    "above 1.5": np.concatenate([np.linspace(1.6, 5, 18), _SIZES[_SIZES > 5]]).astype(np.float32),
    "small": np.concatenate([-_SIZES[_SIZES < 6], _SIZES[_SIZES < 6]]).astype(np.float32),
}

# Where float64 has points with bits of its own: the square of a float32 would be exact.
_OF_ALL_BITS = {"of errors", "above -9", "below 13", "a part", "parts", "but a zero"}


def _unit(alpha: float = 1.0, scale: float = 1.0, width: float = 1.0) -> tuple[Exact, ...]:
    """Return an exponential linear unit, its slope and its curvature."""
    a, s, w = mpf(alpha), mpf(scale), mpf(width)
    return (
        lambda x: s * (x if x > 0 else a * mp.expm1(x / w)),
        lambda x: s * (1 if x > 0 else a / w * mp.exp(x / w)),
        lambda x: s * (0 if x > 0 else a / w**2 * mp.exp(x / w)),
    )


def _by_taylor(function: Exact) -> tuple[Exact, ...]:
    """Return a function with the derivatives that mpmath finds by differences of many digits."""
    slope, curvature = (lambda x, n=n: mp.diff(function, x, n, relative=True) for n in (1, 2))
    return function, slope, curvature


def _normal(x: Any) -> Any:
    """Return the slope of erf."""
    return 2 / mp.sqrt(mp.pi) * mp.exp(-x * x)


def _erfcx(x: Any) -> Any:
    return mp.exp(x * x) * mp.erfc(x)


def _integral(x: Any, order: int) -> Any:
    """Return e**x**2 times a repeated integral of erfc, by their recurrence (DLMF 7.18.7)."""
    older, newer = _erfcx(x), 1 / mp.sqrt(mp.pi) - x * _erfcx(x)
    for k in range(2, order + 1):
        older, newer = newer, (older - 2 * x * newer) / (2 * k)
    return newer


@cache
def _mills(x: Any) -> Any:
    return mp.npdf(x) / mp.ncdf(x)


@cache
def _inverse(x: Any) -> Any:
    return mp.erfinv(x)


def _quantile(p: Any) -> Any:
    return mp.sqrt(2) * _inverse(2 * p - 1)


@cache
def _moment(x: Any, order: int) -> Any:
    """Return the mean of (1 - cos(t))**order * e**(-abs(x) * (1 - cos(t))), by DLMF 13.4.1."""
    half = order + mpf(1) / 2
    factor = mpf(2) ** order * mp.gamma(half) / (mp.sqrt(mp.pi) * mp.factorial(order))
    return factor * mp.hyp1f1(half, order + 1, -2 * abs(x))


def _gate(x: Any) -> Any:
    """Return the argument of the sigmoid in the gelu by tanh."""
    return 2 * mp.sqrt(2 / mp.pi) * (x + mpf(0.044715) * x**3)


def _gate_slope(x: Any) -> Any:
    return 2 * mp.sqrt(2 / mp.pi) * (1 + 3 * mpf(0.044715) * x**2)


def _gate_curvature(x: Any) -> Any:
    """Return the second derivative of `x * sigmoid(_gate(x))`."""
    slope, bend = _gate_slope(x), 12 * mp.sqrt(2 / mp.pi) * mpf(0.044715) * x
    turn = slope**2 * -mp.tanh(_gate(x) / 2)
    return _bell(_gate(x)) * (2 * slope + x * (bend + turn))


def _sigmoid(x: Any) -> Any:
    return mp.exp(x) / (1 + mp.exp(x)) if x < 0 else 1 / (1 + mp.exp(-x))


def _bell(x: Any) -> Any:
    return _sigmoid(x) * _sigmoid(-x)


def _softplus(x: Any) -> Any:
    return mp.log1p(mp.exp(-abs(x))) + max(x, 0)


def _silu_curvature(x: Any) -> Any:
    return _bell(x) * (2 - x * mp.tanh(x / 2))


def _mish_factor(x: Any) -> Any:
    """Return tanh(softplus(x)), its slope, and the slope of the logarithm of that."""
    factor = mp.tanh(_softplus(x))
    tilt = (1 - factor) * (1 + factor) * _sigmoid(x)
    return factor, tilt, _sigmoid(-x) - 2 * factor * _sigmoid(x)


def _mish_slope(x: Any) -> Any:
    factor, tilt, _ = _mish_factor(x)
    return factor + x * tilt


def _mish_curvature(x: Any) -> Any:
    _, tilt, bend = _mish_factor(x)
    return tilt * (2 + x * bend)


def _binary_loss(x: sg.Tensor, label: int, **weights: Any) -> sg.Tensor:
    labels = sg.full(x.shape, label, dtype=x.dtype)
    return sg.nn.binary_cross_entropy_with_logits(x, labels, reduction="none", **weights)


_ROWS: list[tuple[str, Any, tuple[Exact, ...], str, float]] = [
    ("expm1", sg.expm1, (mp.expm1, mp.exp, mp.exp), "all", 2),
    ("elu", sg.nn.elu, _unit(), "all", 2),
    ("elu of 1.5", lambda x: sg.nn.elu(x, 1.5), _unit(1.5), "all", 3),
    ("selu", sg.nn.selu, _unit(1.6732632423543772, 1.0507009873554805), "all", 3),
    ("celu of 2", lambda x: sg.nn.celu(x, 2.0), _unit(2.0, width=2.0), "all", 3),
    # Where the gate has few digits, below the least normal number, its slope has no more.
    ("gelu by tanh", lambda x: sg.nn.gelu(x, approximate=True),
     (lambda x: x * _sigmoid(_gate(x)),
      lambda x: _sigmoid(_gate(x)) + x * _bell(_gate(x)) * _gate_slope(x),
      _gate_curvature), "negative", 40),
    # The slope is made of the gate that the value has. Near 1.4 the curvature is 0.
    ("gelu by tanh above 0", lambda x: sg.nn.gelu(x, approximate=True),
     (lambda x: x * _sigmoid(_gate(x)),
      lambda x: _sigmoid(_gate(x)) + x * _bell(_gate(x)) * _gate_slope(x),
      _gate_curvature), "above 1.5", 40),
    ("gelu above 0", sg.nn.gelu,
     (lambda x: x * mp.ncdf(x), lambda x: mp.ncdf(x) + x * mp.npdf(x),
      lambda x: (2 - x * x) * mp.npdf(x)), "above 1.5", 20),
    ("softplus", sg.nn.softplus, (_softplus, _sigmoid, _bell), "all", 3),
    # Slopes of both are 0 near -1.2, curvatures near 2.
    ("silu", sg.nn.silu, (lambda x: x * _sigmoid(x), lambda x: _sigmoid(x) + x * _bell(x),
                          _silu_curvature), "but a zero", 8),
    ("mish", sg.nn.mish, (lambda x: x * _mish_factor(x)[0], _mish_slope, _mish_curvature),
     "but a zero", 12),
    ("logaddexp of 0", lambda x: sg.logaddexp(x, sg.zeros(x.shape, dtype=x.dtype)),
     (_softplus, _sigmoid, _bell), "all", 4),
    ("logaddexp2 of 0", lambda x: sg.logaddexp2(x, sg.zeros(x.shape, dtype=x.dtype)),
     (lambda x: _softplus(x * mp.ln2) / mp.ln2, lambda x: _sigmoid(x * mp.ln2),
      lambda x: _bell(x * mp.ln2) * mp.ln2), "moderate", 12),
    ("asin", sg.asin, (mp.asin, lambda x: mp.sqrt((1 - x) * (1 + x)) ** -1,
                       lambda x: x * mp.sqrt((1 - x) * (1 + x)) ** -3), "inside", 6),
    ("acos", sg.acos, (mp.acos, lambda x: -(mp.sqrt((1 - x) * (1 + x)) ** -1),
                       lambda x: -x * mp.sqrt((1 - x) * (1 + x)) ** -3), "inside", 6),
    ("atanh", sg.atanh, (mp.atanh, lambda x: 1 / ((1 - x) * (1 + x)),
                         lambda x: 2 * x / ((1 - x) * (1 + x)) ** 2), "inside", 6),
    ("binary cross-entropy of a 1", lambda x: _binary_loss(x, 1),
     (lambda x: _softplus(-x), lambda x: -_sigmoid(-x), _bell), "all", 3),
    ("binary cross-entropy of a 0", lambda x: _binary_loss(x, 0),
     (_softplus, _sigmoid, _bell), "all", 3),
    ("binary cross-entropy of a weighed 1", lambda x: _binary_loss(x, 1, positive_weights=2),
     (lambda x: 2 * _softplus(-x), lambda x: -2 * _sigmoid(-x), lambda x: 2 * _bell(x)), "all", 3),
    ("binary cross-entropy of a 0 beside weights",
     lambda x: _binary_loss(x, 0, positive_weights=2), (_softplus, _sigmoid, _bell), "all", 3),
    ("softsign", sg.nn.softsign, (lambda x: x / (1 + abs(x)), lambda x: (1 + abs(x)) ** -2,
                                  lambda x: -2 * mp.sign(x) * (1 + abs(x)) ** -3), "all", 5),
    ("tanh_shrink", sg.nn.tanh_shrink, (lambda x: x - mp.tanh(x), lambda x: mp.tanh(x) ** 2,
                                        lambda x: 2 * mp.tanh(x) * mp.sech(x) ** 2), "near 0", 4),
    ("hypot of 1", lambda x: sg.hypot(x, 1.0),
     (lambda x: mp.hypot(x, 1), lambda x: x / mp.hypot(x, 1), lambda x: mp.hypot(x, 1) ** -3),
     "all", 6),
    ("squareplus", sg.nn.squareplus,
     (lambda x: (x + mp.hypot(x, 2)) / 2, lambda x: (1 + x / mp.hypot(x, 2)) / 2,
      lambda x: 2 * mp.hypot(x, 2) ** -3), "all", 8),
    *[(name, getattr(sg, name), _by_taylor(exact), where, 4) for name, exact, where in (
        ("exp", mp.exp, "moderate"), ("sin", mp.sin, "moderate"), ("cos", mp.cos, "moderate"),
        ("tan", mp.tan, "moderate"), ("sinh", mp.sinh, "moderate"), ("cosh", mp.cosh, "moderate"),
        ("log", mp.log, "positive"), ("log2", lambda x: mp.log(x, 2), "positive"),
        ("log10", mp.log10, "positive"), ("sqrt", mp.sqrt, "positive"),
        ("reciprocal", lambda x: 1 / x, "positive"), ("atan", mp.atan, "moderate"),
        ("acosh", mp.acosh, "above 1"),
    )],
    ("rsqrt", sg.rsqrt, _by_taylor(lambda x: mp.sqrt(x) ** -1), "positive", 7),
    ("sinc", sg.sinc, _by_taylor(mp.sincpi), "moderate", 4),
    ("gammaln", sg.special.gammaln, (lambda x: mp.loggamma(x).real, mp.digamma,
                                     lambda x: mp.psi(1, x)), "above 1", 4),
    ("digamma", sg.special.digamma, (mp.digamma, lambda x: mp.psi(1, x), lambda x: mp.psi(2, x)),
     "above 1", 4),
    ("entr", sg.special.entr, (lambda x: -x * mp.log(x), lambda x: -mp.log(x) - 1,
                               lambda x: -1 / x), "positive", 5),
    # Of a subnormal number a factor has few bits.
    ("erf", sg.special.erf, (mp.erf, _normal, lambda x: -2 * x * _normal(x)), "of errors", 12),
    ("erfc", sg.special.erfc, (mp.erfc, lambda x: -_normal(x), lambda x: 2 * x * _normal(x)),
     "of errors", 12),
    ("ndtr", sg.special.ndtr, (mp.ncdf, mp.npdf, lambda x: -x * mp.npdf(x)), "of errors", 5),
    ("erfcx", sg.special.erfcx, (_erfcx, lambda x: -2 * _integral(x, 1),
                                 lambda x: 8 * _integral(x, 2)), "above -9", 12),
    ("log_ndtr", sg.special.log_ndtr,
     (lambda x: mp.log(mp.ncdf(x)) if x < 0 else mp.log1p(-mp.ncdf(-x)), _mills,
      lambda x: -_mills(x) * (_mills(x) + x)), "below 13", 8),
    ("ndtri", sg.special.ndtri, (_quantile, lambda p: 1 / mp.npdf(_quantile(p)),
                                 lambda p: _quantile(p) / mp.npdf(_quantile(p)) ** 2), "a part", 8),
    ("erfinv", sg.special.erfinv, (_inverse, lambda x: 1 / _normal(_inverse(x)),
                                   lambda x: 2 * _inverse(x) / _normal(_inverse(x)) ** 2),
     "parts", 8),
    ("logit", sg.special.logit, (lambda p: mp.log(p / (1 - p)), lambda p: 1 / (p * (1 - p)),
                                 lambda p: (2 * p - 1) / (p * (1 - p)) ** 2), "a part", 5),
    # The first derivative of i1e is 0 near 1.5, the second near 3.
    ("i0e", sg.special.i0e, (lambda x: _moment(x, 0), lambda x: -mp.sign(x) * _moment(x, 1),
                             lambda x: _moment(x, 2)), "all", 5),
    ("i1e", sg.special.i1e,
     (lambda x: mp.sign(x) * mp.besseli(1, abs(x)) * mp.exp(-abs(x)),
      lambda x: _moment(x, 2) - _moment(x, 1),
      lambda x: mp.sign(x) * (_moment(x, 2) - _moment(x, 3))), "but a zero", 12),
    ("atan far out", sg.atan, (mp.atan, lambda x: 1 / (1 + x * x),
                               lambda x: -2 * x / (1 + x * x) ** 2), "all", 5),
    ("log1p", sg.log1p, (mp.log1p, lambda x: 1 / (1 + x), lambda x: -((1 + x) ** -2)),
     "positive", 4),
    ("asinh", sg.asinh, (mp.asinh, lambda x: mp.hypot(x, 1) ** -1,
                         lambda x: -x * mp.hypot(x, 1) ** -3), "all", 5),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
@together("row", _ROWS, ids=lambda row: row[0], at_once=4)
def test_derivatives_have_their_digits(row):
    _, build, exact, where, ulp = row
    points = _POINTS[where]
    xs = [sg.placeholder(points.shape, dtype) for dtype in ("float32", "float64")]
    shrink = 1 - 2.0**-31 if where in _OF_ALL_BITS else 1
    given: list[Any] = [points, points.astype(np.float64) * shrink]
    results = sg.compile(xs, [y for x in xs for y in _derivatives(build, x)])(*given)

    @cache  # most points are the same in both dtypes
    def wanted_at(order: int, x: float) -> Any:
        return exact[order](mpf(x))

    with mp.workprec(500):
        for k, found in enumerate(results):
            wanted = [wanted_at(k % 3, float(x)) for x in given[k // 3]]
            _assert_within(found, wanted, ulp, f"derivative {k % 3} of {found.dtype}")


def _derivatives(build: Any, x: sg.Tensor) -> list[sg.Tensor]:
    found = [build(x)]
    for _ in range(2):
        found += sg.gradients(found[-1], [x], unconnected_gradients="zero")
    return found


def _assert_within(found: np.ndarray, wanted: list[Any], ulp: float, which: str) -> None:
    """Check each result that is normal; what is smaller than that may be off by its last bits."""
    limits = np.finfo(found.dtype)
    for value, number in zip(found.tolist(), wanted, strict=True):
        if abs(number) > mpf(float(limits.max)):
            assert value == np.copysign(np.inf, float(number)), which
            continue
        size = max(abs(number), mpf(float(limits.smallest_normal)))
        _, exponent = mp.frexp(size)  # of a part from a half to 1
        unit = mp.ldexp(mpf(float(limits.eps)), exponent - 1)
        assert abs(mpf(value) - number) <= ulp * unit, (which, value, mp.nstr(number, 17))
