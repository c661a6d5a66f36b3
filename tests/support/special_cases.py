"""Rows of the table for special functions, which mpmath says the values of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np

import symgrad as sg
from symgrad.graph.build import apply
from symgrad.graph.dtypes import DType, float32, float64
from symgrad.graph.node import Tensor
from symgrad.graph.ops import incomplete_beta, incomplete_gamma
from symgrad.graph.ops.activations import gelu_gate, gelu_slope_op, normal_bell, normal_share
from symgrad.graph.ops.bessel import bessel_moment
from symgrad.graph.ops.error_functions import normal_tail_ratio
from symgrad.graph.ops.error_slopes import bell, erfc_integral, erfinv_slope, ndtri_slope
from symgrad.graph.ops.logit import logit_slope
from symgrad.graph.ops.trigonometry import atan_slope
from tests.support.case import FLOATS, Case, Real

_ONE = (((),), ((0, 3),), ((1,),))
_TWO = (((), ()), ((0, 3), (0, 3)), ((1,), (1,)))
# For bodies that take long to compile; sizes and shapes are tested in float32, the shorter one.
_WIDE = (float64, float32)


def exactly(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the mpmath function on arrays, with 30 digits."""

    def at(*values: float) -> float:
        with mpmath.workdps(30):
            return float(function(*map(mpmath.mpf, values)))

    return np.vectorize(at, otypes=[np.float64])


def lower_gamma(a: Any, x: Any) -> Any:
    """Return P(a, x), as the series of DLMF 8.11.4."""
    return x**a * mpmath.exp(-x) / mpmath.gamma(a + 1) * mpmath.hyp1f1(1, a + 1, x)


def gamma_density(a: Any, x: Any) -> Any:
    """Return dP/dx."""
    return x ** (a - 1) * mpmath.exp(-x) / mpmath.gamma(a)


def lower_gamma_slope(a: Any, x: Any) -> Any:
    """Return dP/da, as a central difference of more digits than are asked for."""
    with mpmath.extradps(40):
        step = mpmath.mpf(10) ** -20
        rise = lower_gamma(a + step, x) - lower_gamma(a - step, x)
        return rise / (2 * step)


def _unary(
    name: str,
    exact: Callable[..., Any],
    low: float,
    high: float,
    kinks: tuple[float, ...] = (),
    order: int = 2,
    slack: float = 2.0,
) -> Case:
    build = getattr(sg.special, name)
    inputs = (Real((3, 4), low, high, kinks),)
    return Case(name, name, build, exactly(exact), inputs, FLOATS, order, _ONE, slack=slack)


def _binary(
    name: str,
    build: Callable[..., Tensor],
    exact: Callable[..., Any],
    x: tuple[float, float],
    y: tuple[float, float],
    *,
    op: str | None = None,
    order: int = 2,
    accepts: tuple[DType, ...] = FLOATS,
    slack: float = 4.0,
) -> Case:
    inputs = (Real((3, 4), *x), Real((3, 4), *y))
    shapes = _TWO[:1] if accepts == _WIDE else _TWO
    return Case(name, op, build, exactly(exact), inputs, accepts, order, shapes, slack=slack)


_OF_ONE = (
    _unary("gammaln", mpmath.loggamma, 0.2, 9.0),
    _unary("digamma", mpmath.digamma, 0.3, 9.0),
    _unary("erfc", mpmath.erfc, -3.0, 3.0),
    _unary("erfcx", lambda x: mpmath.exp(x * x) * mpmath.erfc(x), -1.0, 6.0),
    _unary("erfinv", mpmath.erfinv, -0.8, 0.8, slack=8.0),
    _unary("ndtr", mpmath.ncdf, -3.0, 3.0),
    _unary("log_ndtr", lambda x: mpmath.log(mpmath.ncdf(x)), -5.0, 3.0, kinks=(0.0,)),
    _unary("i0e", lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), -20.0, 20.0, (0.0,)),
    _unary("i1e", lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), -20.0, 20.0, (0.0,)),
    _unary("logit", lambda p: mpmath.log(p / (1 - p)), 0.1, 0.9, slack=8.0),
    _unary("ndtri", lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1), 0.1, 0.9, slack=8.0),
)


def _bell(x: Any) -> Any:
    return mpmath.exp(-x * x / 2)


def _tail_ratio(x: Any) -> Any:
    return mpmath.ncdf(-abs(x)) * mpmath.exp(x * x / 2)


def _gelu_gate(x: Any) -> Any:
    argument = 2 * mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf(0.044715) * x**3)
    return 1 / (1 + mpmath.exp(-argument))


def _gelu_slope(x: Any) -> Any:
    pace = 2 * mpmath.sqrt(2 / mpmath.pi) * (1 + 3 * mpmath.mpf(0.044715) * x**2)
    return _gelu_gate(x) * (1 + x * _gelu_gate(-x) * pace)


_REAL = (Real((3, 4), -3.0, 3.0, (0.0,)),)
_OF_GELU = (
    Case("normal_bell", "normal_bell", normal_bell, exactly(_bell), _REAL, FLOATS, 2, _ONE),
    Case("normal_share", "normal_share", normal_share, exactly(mpmath.ncdf), _REAL, FLOATS, 2, _ONE,
         slack=16.0),
    Case("gelu_gate", "gelu_gate", gelu_gate, exactly(_gelu_gate), _REAL, FLOATS, 2, _ONE,
         slack=16.0),
    Case("gelu_slope", "gelu_slope", lambda x: apply(gelu_slope_op, x, gelu_gate(x)),
         exactly(_gelu_slope), _REAL, FLOATS, 2, _ONE, slack=16.0),
    Case("normal_tail_ratio", "normal_tail_ratio", normal_tail_ratio, exactly(_tail_ratio), _REAL,
         FLOATS, 2, _ONE, slack=2.0),
)  # fmt: skip


def _integral(x: Any) -> Any:
    return 2 * mpmath.exp(x * x) * mpmath.quad(
        lambda t: (t - x) ** 2 / 2 * mpmath.exp(-t * t), [x, mpmath.inf]
    ) / mpmath.sqrt(mpmath.pi)  # fmt: skip


def _moment(x: Any) -> Any:
    return mpmath.quad(
        lambda t: (1 - mpmath.cos(t)) ** 3 * mpmath.exp(-abs(x) * (1 - mpmath.cos(t))),
        [0, mpmath.pi],
    ) / mpmath.pi  # fmt: skip


_OF_SLOPES = (
    Case("bell", "bell", lambda x: bell(x, -0.5), exactly(_bell), _REAL,
         FLOATS, 2, _ONE),
    Case("erfc_integral", "erfc_integral", lambda x: erfc_integral(x, 2), exactly(_integral),
         (Real((3, 4), -1.0, 6.0),), FLOATS, 2, _ONE, slack=4.0),
    Case("erfinv_slope", "erfinv_slope", lambda x: erfinv_slope(x, sg.special.erfinv(x)),
         exactly(lambda x: mpmath.diff(mpmath.erfinv, x)), (Real((3, 4), -0.8, 0.8),), FLOATS, 2,
         _ONE, slack=8.0),
    Case("ndtri_slope", "ndtri_slope", lambda p: ndtri_slope(p, sg.special.ndtri(p)),
         exactly(lambda p: mpmath.diff(lambda q: mpmath.sqrt(2) * mpmath.erfinv(2 * q - 1), p)),
         (Real((3, 4), 0.1, 0.9),), FLOATS, 2, _ONE, slack=8.0),
    Case("logit_slope", "logit_slope", logit_slope, lambda p: 1 / (p * (1 - p)),
         (Real((3, 4), 0.1, 0.9),), FLOATS, 2, _ONE, slack=8.0),
    Case("atan_slope", "atan_slope", atan_slope, lambda x: 1 / (1 + x * x),
         (Real((3, 4), -3.0, 3.0),), FLOATS, 2, _ONE, slack=4.0),
    Case("bessel_moment", "bessel_moment", lambda x: bessel_moment(x, 3), exactly(_moment),
         (Real((3, 4), -20.0, 20.0, (0.0,)),), FLOATS, 2, _ONE, slack=4.0),
)  # fmt: skip

_COMPOSED = (
    Case(
        "gammaln_of_negative_numbers",
        "gammaln",
        sg.special.gammaln,
        exactly(lambda x: mpmath.log(abs(mpmath.gamma(x)))),
        (Real((3, 4), -2.9, -2.1),),
        _WIDE,
        slack=4.0,
    ),
    Case(
        "polygamma",
        "polygamma",
        lambda x: sg.special.polygamma(2, x),
        exactly(lambda x: mpmath.polygamma(2, x)),
        (Real((3, 4), 0.6, 6.0),),
        also=_ONE,
        slack=8.0,
    ),
    Case(
        "entr",
        None,
        sg.special.entr,
        lambda x: -x * np.log(x),
        (Real((3, 4), 0.1, 3.0),),
        also=_ONE,
        slack=4.0,
    ),
    Case(
        "logsumexp_of_weights",
        None,
        lambda x, b: sg.special.logsumexp(x, 1, b),
        lambda x, b: np.log(np.sum(b * np.exp(x), 1)),
        (Real((3, 4)), Real((3, 4), 0.1, 2.0)),
        slack=8.0,
    ),
    Case(
        "softmax_over_all",
        None,
        sg.special.softmax,
        lambda x: np.exp(x) / np.sum(np.exp(x)),
        (Real((3, 4)),),
        slack=8.0,
    ),
)

_OF_TWO = (
    _binary(
        "betaln",
        sg.special.betaln,
        lambda a, b: mpmath.log(mpmath.beta(a, b)),
        (0.3, 5.0),
        (0.3, 5.0),
        op="betaln",
    ),
    _binary("beta", sg.special.beta, mpmath.beta, (0.5, 3.0), (0.5, 3.0), slack=8.0),
    _binary(
        "zeta",
        lambda s, q: sg.special.zeta(sg.stop_gradient(s), q),
        mpmath.zeta,
        (2.0, 4.0),
        (0.7, 3.0),
        op="zeta",
        accepts=_WIDE,
        order=0,
        slack=16.0,
    ),
    Case(
        "zeta_by_its_start",
        None,
        lambda q: sg.special.zeta(2.5, q),
        exactly(lambda q: mpmath.zeta(2.5, q)),
        (Real((3, 4), 0.7, 3.0),),
        (float64,),
        slack=4.0,
    ),
    _binary("xlogy", sg.special.xlogy, lambda x, y: x * mpmath.log(y), (-2.0, 2.0), (0.3, 3.0)),
    _binary("xlog1py", sg.special.xlog1py, lambda x, y: x * mpmath.log1p(y), (-2.0, 2.0), (0.3, 3)),
    _binary(
        "gammainc",
        sg.special.gammainc,
        lower_gamma,
        (0.3, 6.0),
        (0.3, 8.0),
        op="gammainc",
        order=1,
        accepts=_WIDE,
    ),
    _binary(
        "gammaincc",
        sg.special.gammaincc,
        lambda a, x: 1 - lower_gamma(a, x),
        (0.3, 6.0),
        (0.3, 8.0),
        op="gammaincc",
        order=1,
        accepts=_WIDE,
    ),
    _binary(
        "gammainc_derivative",
        lambda a, x: incomplete_gamma.gammainc_derivative(sg.stop_gradient(a), x),
        lower_gamma_slope,
        (0.3, 6.0),
        (0.3, 8.0),
        op="gammainc_derivative",
        order=0,
        accepts=_WIDE,
    ),
    _binary(
        "gamma_draw_derivative",
        incomplete_gamma.gamma_draw_derivative,
        lambda a, x: -lower_gamma_slope(a, x) / gamma_density(a, x),
        (0.3, 6.0),
        (0.3, 8.0),
        op="gamma_draw_derivative",
        order=0,
        accepts=_WIDE,
        slack=32.0,
    ),
    _binary(
        "gamma_density",
        incomplete_gamma.gamma_density,
        gamma_density,
        (0.3, 6.0),
        (0.3, 8.0),
        op="gamma_density",
        accepts=_WIDE,
    ),
)


def lower_beta(a: Any, b: Any, x: Any) -> Any:
    """Return I_x(a, b)."""
    return mpmath.betainc(a, b, 0, x, regularized=True)


def lower_beta_slope(a: Any, b: Any, x: Any, by: int) -> Any:
    """Return the derivative of I_x(a, b) by the argument number `by`, as a central difference."""
    with mpmath.extradps(40):
        step = mpmath.mpf(10) ** -20
        shift = [step if number == by else 0 for number in range(3)]
        above = lower_beta(*(v + d for v, d in zip((a, b, x), shift, strict=True)))
        below = lower_beta(*(v - d for v, d in zip((a, b, x), shift, strict=True)))
        return (above - below) / (2 * step)


def beta_density(a: Any, b: Any, x: Any) -> Any:
    """Return the derivative of I_x(a, b) by x."""
    return x ** (a - 1) * (1 - x) ** (b - 1) / mpmath.beta(a, b)


def _of_beta(
    op: str, build: Callable[..., Tensor], exact: Callable[..., Any], order: int, slack: float
) -> Case:
    inputs = (Real((3, 2), 0.4, 5.0), Real((3, 2), 0.4, 5.0), Real((3, 2), 0.1, 0.9))
    shapes = (((1,),) * 3,)
    return Case(op, op, build, exactly(exact), inputs, _WIDE, order, shapes, slack=slack)


def _held(build: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda a, b, x: build(sg.stop_gradient(a), sg.stop_gradient(b), x)


_OF_BETA = (
    _of_beta("betainc", sg.special.betainc, lower_beta, 1, 4.0),
    _of_beta(
        "betainc_by_a",
        _held(incomplete_beta.betainc_by_a),
        lambda a, b, x: lower_beta_slope(a, b, x, 0),
        0,
        8.0,
    ),
    _of_beta(
        "betainc_by_b",
        _held(incomplete_beta.betainc_by_b),
        lambda a, b, x: lower_beta_slope(a, b, x, 1),
        0,
        8.0,
    ),
    _of_beta("beta_density", incomplete_beta.beta_density, beta_density, 1, 8.0),
)

SPECIAL: tuple[Case, ...] = (*_OF_ONE, *_OF_GELU, *_OF_SLOPES, *_COMPOSED, *_OF_TWO, *_OF_BETA)
