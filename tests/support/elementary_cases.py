"""Rows of the table for the elementary functions beside the commonest, and the parts of floats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import symgrad as sg
from symgrad.graph.build import apply
from symgrad.graph.dtypes import DType
from symgrad.graph.ops.powers import leg_share, one_less_square
from symgrad.graph.ops.trigonometry import cospi_op, sinpi_op
from tests.support.case import FLOATS, INTEGERS, NUMBERS, Case, Real

_UNARY_SHAPES = (((),), ((0, 3),), ((1,),), ((2, 1, 3),))
_BINARY_SHAPES = (((), ()), ((0, 3), (3,)), ((1,), (1,)), ((2, 1, 3), (4, 1)), ((), (5,)))
_SOME_INTEGERS = (*INTEGERS[:1], *FLOATS)


def _unary(
    name: str,
    expected: Callable[..., Any],
    low: float = -2.0,
    high: float = 2.0,
    kinks: tuple[float, ...] = (),
    accepts: tuple[DType, ...] = FLOATS,
    order: int = 2,
    slack: float = 1.0,
    op: str | None = "",
) -> Case:
    inputs = (Real((3, 4), low, high, kinks),)
    stated = name if op == "" else op
    build = getattr(sg, name)
    return Case(name, stated, build, expected, inputs, accepts, order, _UNARY_SHAPES, slack=slack)


def _binary(
    name: str,
    expected: Callable[..., Any],
    x: tuple[float, float] = (-2.0, 2.0),
    y: tuple[float, float] = (-2.0, 2.0),
    kinks: tuple[float, ...] = (),
    accepts: tuple[DType, ...] = FLOATS,
    order: int = 2,
    slack: float = 1.0,
) -> Case:
    inputs = (Real((3, 4), *x), Real((4,), *y, kinks))
    build = getattr(sg, name)
    return Case(name, name, build, expected, inputs, accepts, order, _BINARY_SHAPES, slack=slack)


def _in_double(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: function(*(x.astype(np.float64) for x in args))


def _exact_sinc(x: Any) -> Any:
    # np.sinc does not give 0 at integers, which are many among large numbers.
    is_zero = (x != 0) & (np.rint(x) == x) & np.isfinite(x)
    return np.where(is_zero, 0.0, np.sinc(x))


def _turns(name: str, op: Any, function: Callable[..., Any], quarter: float) -> Case:
    def expected(x: Any) -> Any:
        near = np.fmod(x, 2.0)
        is_zero = np.rint(near + quarter) == near + quarter
        return np.where(is_zero, 0.0, function(np.pi * near))

    inputs = (Real((3, 4)),)
    build = lambda x: apply(op, x)  # noqa: E731 - as the other rows have it
    return Case(name, name, build, expected, inputs, FLOATS, 2, _UNARY_SHAPES, slack=4)


_POWERS = (
    Case(
        "one_less_square",
        "one_less_square",
        one_less_square,
        lambda x: (1 - x) * (1 + x),
        (Real((3, 4)),),
        FLOATS,
        2,
        _UNARY_SHAPES,
        slack=2,
    ),
    # Its gradient is that of a function of two: the third is their hypot.
    Case(
        "leg_share",
        "leg_share",
        lambda x, y: leg_share(x, y, sg.hypot(x, y)),
        lambda x, y: x / np.hypot(x, y),
        (Real((3, 4), 0.5, 3.0), Real((3, 4))),
        FLOATS,
        2,
        slack=4,
    ),
    _unary("exp2", np.exp2, slack=4),
    _unary("log2", _in_double(np.log2), 0.2, 4.0, accepts=(*INTEGERS, *FLOATS)),
    _unary("log10", np.log10, 0.2, 4.0),
    _unary("cbrt", np.cbrt, 0.3, 4.0),
    _unary("reciprocal", np.reciprocal, 0.3, 4.0, op=None, slack=2),
    _binary("hypot", np.hypot, x=(0.5, 3.0)),
    _binary("logaddexp", np.logaddexp),
    _binary("logaddexp2", np.logaddexp2),
)

_TRIGONOMETRY = (
    _unary("tan", _in_double(np.tan), -1.3, 1.3, accepts=_SOME_INTEGERS, slack=4),
    _unary("asin", np.arcsin, -0.9, 0.9),
    _unary("acos", np.arccos, -0.9, 0.9),
    _unary("atan", np.arctan),
    _binary("atan2", np.arctan2, y=(0.5, 3.0)),
    _unary("deg2rad", np.deg2rad, -180.0, 180.0, op=None),
    _unary("rad2deg", np.rad2deg, op=None, slack=8),
    _unary("sinc", _exact_sinc),
    _turns("sinpi", sinpi_op, np.sin, 0.0),
    _turns("cospi", cospi_op, np.cos, 0.5),
)

_HYPERBOLIC = (
    _unary("sinh", np.sinh, slack=4),
    _unary("cosh", np.cosh, slack=4),
    _unary("asinh", np.arcsinh),
    _unary("acosh", np.arccosh, 1.2, 4.0),
    _unary("atanh", np.arctanh, -0.9, 0.9, slack=2),
)

_PARTS = (
    _unary("trunc", np.trunc, kinks=(-1.0, 0.0, 1.0), accepts=NUMBERS),
    # The quotient is between 3 and 4, away from the jumps of the remainder.
    _binary("fmod", np.fmod, x=(-7.4, -7.1), y=(2.05, 2.3)),
    replace(
        _binary("fmod", np.fmod, x=(-9.0, 9.0), y=(-3.0, 4.0), kinks=(0.0,), accepts=INTEGERS),
        name="fmod_of_integers",
        order=0,
    ),
    _binary("copysign", np.copysign, x=(0.5, 2.0)),
    _unary("signbit", np.signbit, accepts=(*INTEGERS, *FLOATS), order=0, op=None),
    Case(
        "nextafter",
        "nextafter",
        sg.nextafter,
        lambda x, y: x + 0 * y,  # as far as tolerances go; neighbours are compared elsewhere
        (Real((3, 4)), Real((4,))),
        also=_BINARY_SHAPES,
    ),
)

_SIZES = (
    Case(
        "shape",
        None,
        lambda x: sg.multiply(x, sg.astype(sg.sum(sg.shape(x)), x.dtype)),
        lambda x: x * sum(x.shape),
        (Real((3, 4)),),
        also=_UNARY_SHAPES,
    ),
    Case(
        "linspace_of_a_size",
        None,
        lambda x: sg.multiply(x, sg.linspace(-1, x.shape[0], x.shape[0], dtype=x.dtype)),
        lambda x: x * np.linspace(-1, x.shape[0], x.shape[0]),
        (Real((5,)),),
        also=(((0,),), ((1,),), ((2,),)),
    ),
    Case(
        "by_size",
        None,
        lambda x: x.shape[0] * x / x.size - x // x.shape[-1],
        lambda x: x.shape[0] * x / x.size - np.floor(x / x.shape[-1]),
        (Real((2, 3), 0.1, 2.9),),
        also=(((1, 3),),),
    ),
)

ELEMENTARY = (*_POWERS, *_TRIGONOMETRY, *_HYPERBOLIC, *_PARTS, *_SIZES)
