"""Rows of the table for ops that work element by element."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np

import symgrad as sg
from symgrad.graph import dtypes
from symgrad.graph.build import apply
from symgrad.graph.dtypes import DType
from symgrad.graph.ops.conversion import size_of
from symgrad.graph.ops.marks import match_shape_op, require_least_op, same_on_ranks
from symgrad.graph.ops.random import philox
from symgrad.graph.ops.stand_in import after, linear_in
from symgrad.graph.ops.turning import quotient
from tests.support.case import BOOL, FLOATS, INTEGERS, NUMBERS, Case, Real, Truth
from tests.support.philox import philox_pairs

_UNARY_SHAPES = (((),), ((0, 3),), ((1,),), ((2, 1, 3),))
_BINARY_SHAPES = (((), ()), ((0, 3), (3,)), ((1,), (1,)), ((2, 1, 3), (4, 1)), ((), (5,)))


def _unary(
    name: str,
    expected: Callable[..., Any],
    low: float = -2.0,
    high: float = 2.0,
    kinks: tuple[float, ...] = (),
    accepts: tuple[DType, ...] = FLOATS,
    order: int = 2,
    slack: float = 1.0,
) -> Case:
    inputs = (Real((3, 4), low, high, kinks),)
    build = getattr(sg, name)
    return Case(name, name, build, expected, inputs, accepts, order, _UNARY_SHAPES, slack=slack)


def _binary(
    name: str,
    expected: Callable[..., Any],
    x: tuple[float, float] = (-2.0, 2.0),
    y: tuple[float, float] = (-2.0, 2.0),
    kinks: tuple[float, ...] = (),
    accepts: tuple[DType, ...] = NUMBERS,
    order: int = 2,
) -> Case:
    inputs = (Real((3, 4), *x), Real((4,), *y, kinks))
    build = getattr(sg, name)
    return Case(name, name, build, expected, inputs, accepts, order, _BINARY_SHAPES)


def _exact_erf(x: Any) -> Any:
    return np.vectorize(lambda v: float(mpmath.erf(v)), otypes=[np.float64])(x)


def _integer_pow(x: Any, y: Any) -> Any:
    if x.dtype.kind not in "iu":
        return np.power(x, y)
    exact = [
        int(a) ** int(b) if b >= 0 else {1: 1, -1: -1 if b % 2 else 1}.get(int(a), 0)
        for a, b in np.broadcast(x, y)
    ]
    return np.reshape(np.array(exact, np.int64), np.broadcast_shapes(x.shape, y.shape))


def _shift_left(x: Any, y: Any) -> Any:
    return _each(lambda a, b, width: a << b if 0 <= b < width else 0, x, y)


def _shift_right(x: Any, y: Any) -> Any:
    return _each(lambda a, b, width: a >> (b if 0 <= b < width else width), x, y)


def _each(function: Callable[[int, int, int], int], x: Any, y: Any) -> Any:
    """Apply `function` to pairs of integers and their width in bits, wrapping its results."""
    width = 8 * x.dtype.itemsize
    wrapped = [function(int(a), int(b), width) % 2**width for a, b in np.broadcast(x, y)]
    bits = np.array(wrapped, f"u{x.dtype.itemsize}")
    return np.reshape(bits.view(x.dtype), np.broadcast_shapes(x.shape, y.shape))


def _trunc(x: Any) -> Any:
    return np.trunc(x) if x.dtype.kind == "f" else x


_EVERY = (*BOOL, *NUMBERS)

_ARITHMETIC = (
    _binary("add", np.add),
    _binary("subtract", np.subtract, x=(2.0, 4.0)),
    _binary("multiply", np.multiply),
    _binary("divide", np.true_divide, y=(0.5, 3.0), kinks=(0.0,)),
    _binary("floor_divide", np.floor_divide, x=(-9.0, 9.0), y=(1.2, 3.0), order=0),
    # Floats: the quotient is between 3 and 4, away from the jumps of the remainder.
    _binary("remainder", np.mod, x=(7.1, 7.4), y=(2.05, 2.3)),
    replace(
        _binary("remainder", np.mod, x=(-9.0, 9.0), y=(-3.0, 4.0), kinks=(0.0,)),
        name="remainder_of_integers",
        dtypes=INTEGERS,
        order=0,
    ),
    replace(
        _binary("floor_divide", np.floor_divide, x=(-9.0, 9.0), y=(-3.0, 4.0), kinks=(0.0,)),
        name="floor_divide_of_integers",
        dtypes=INTEGERS,
        order=0,
    ),
    _unary("negative", np.negative, accepts=NUMBERS),
    _unary("abs", np.absolute, kinks=(0.0,), accepts=NUMBERS),
    _unary("sign", np.sign, kinks=(0.0,), accepts=NUMBERS),
    _unary("floor", np.floor, kinks=(-1.0, 0.0, 1.0), accepts=NUMBERS),
    _unary("ceil", np.ceil, kinks=(-1.0, 0.0, 1.0), accepts=NUMBERS),
    _unary("round", np.rint, kinks=(-1.5, -0.5, 0.5, 1.5), accepts=NUMBERS),
    _binary("maximum", np.maximum, y=(-2.1, 2.1)),
    _binary("minimum", np.minimum, y=(-2.1, 2.1)),
)

_TRANSCENDENTAL = (
    _binary("pow", _integer_pow, x=(0.3, 3.0), y=(0.0, 3.0)),
    _unary("exp", lambda x: np.exp(x.astype(np.float64)), accepts=(*INTEGERS, *FLOATS), slack=8),
    _unary("expm1", np.expm1, slack=8),
    _unary("log", np.log, 0.2, 4.0),
    _unary("log1p", np.log1p, -0.7, 4.0),
    _unary("sqrt", lambda x: np.sqrt(x.astype(np.float64)), 0.2, 4.0, accepts=(*INTEGERS, *FLOATS)),
    _unary("rsqrt", lambda x: np.reciprocal(np.sqrt(x)), 0.3, 4.0, slack=2),
    _unary("sin", np.sin),
    _unary("cos", np.cos),
    _unary("tanh", np.tanh),
    _unary("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    _unary("erf", _exact_erf),
)

_COMPARISONS = tuple(
    _binary(name, reference, accepts=_EVERY, order=0)
    for name, reference in (
        ("equal", np.equal),
        ("not_equal", np.not_equal),
        ("less", np.less),
        ("less_equal", np.less_equal),
        ("greater", np.greater),
        ("greater_equal", np.greater_equal),
    )
)

_LOGIC = (
    _binary("logical_and", np.logical_and, accepts=BOOL, order=0),
    _binary("logical_or", np.logical_or, accepts=BOOL, order=0),
    _binary("logical_xor", np.logical_xor, accepts=BOOL, order=0),
    _unary("logical_not", np.logical_not, accepts=BOOL, order=0),
    Case(
        "where",
        "where",
        sg.where,
        np.where,
        (Truth((3, 4)), Real((4,)), Real((3, 1))),
        dtypes=_EVERY,
        also=(((), (), ()), ((0, 3), (3,), ()), ((1,), (4,), (3, 1))),
    ),
)

_BITS = (
    _binary("bitwise_and", np.bitwise_and, (-100, 100), (-9, 9), accepts=INTEGERS, order=0),
    _binary("bitwise_or", np.bitwise_or, (-100, 100), (-9, 9), accepts=INTEGERS, order=0),
    _binary("bitwise_xor", np.bitwise_xor, (-100, 100), (-9, 9), accepts=INTEGERS, order=0),
    _unary("bitwise_invert", np.invert, -100, 100, accepts=INTEGERS, order=0),
    _binary("bitwise_left_shift", _shift_left, (-100, 100), (-1, 70), accepts=INTEGERS, order=0),
    _binary("bitwise_right_shift", _shift_right, (-100, 100), (-1, 70), accepts=INTEGERS, order=0),
)

_RANDOM = tuple(
    Case(
        f"philox_{pair}",
        "philox",
        lambda low, high, key, pair=pair: philox(low, high, key, pair),
        lambda low, high, key, pair=pair: philox_pairs(low, high, key, pair),
        (Real((3, 4), 0, 2.0**63), Real((3, 4), 0, 9), Real((3, 4), 0, 2.0**63)),
        dtypes=(dtypes.uint64,),
        order=0,
        also=(((),) * 3, ((0, 3),) * 3, ((1,),) * 3, ((2, 1, 3),) * 3),
    )
    for pair in (0, 1)
)

_CONVERSIONS = (
    *(
        Case(
            f"astype_{target.name}",
            "astype",
            lambda x, target=target: sg.astype(x, target),
            lambda x, target=target: (
                x != 0 if target.is_bool else (_trunc(x) if target.is_integer else x)
            ),
            (Real((3, 4), -9.0 if target.is_float else 0.0, 9.0),),
            dtypes=_EVERY,
            order=0,
            also=_UNARY_SHAPES,
        )
        for target in (dtypes.bool_, dtypes.int8, dtypes.uint64, *FLOATS)
    ),
    _unary("identity", lambda x: x, accepts=_EVERY),
    _unary("prevent_gradient", lambda x: x, accepts=_EVERY, order=0),
    Case(
        "same_on_ranks",
        "same_on_ranks",
        lambda x: same_on_ranks(x, "mpi_world"),
        lambda x: x,
        (Real((3,)),),
        dtypes=_EVERY,
    ),
    Case(
        "stop_gradient",
        "stop_gradient",
        lambda x: sg.stop_gradient(x),
        lambda x: x,
        (Real((3,)),),
        dtypes=_EVERY,
        order=0,
    ),
    Case(
        "match_shape",
        "match_shape",
        lambda x: apply(match_shape_op, x, shape=(3,)),
        lambda x: x,
        (Real((3,)),),
    ),
    Case(
        "require_least",
        "require_least",
        lambda x: apply(
            require_least_op, x, size=x.shape[0], least=1, about="f", problem="{x}", is_index=False
        ),
        lambda x: x,
        (Real((3,)),),
        dtypes=_EVERY,
    ),
    Case(
        "after",
        "after",
        lambda x, y: after(x, y),
        lambda x, y: x,
        (Real((3,)), Real((2, 4))),
        also=(((), (2,)), ((3,), (0, 2)), ((0,), (1,))),
    ),
    Case(
        "turn_rate",
        "turn_rate",
        quotient,
        lambda x, gap: np.where((x == 0) & (gap == 0), x, x / gap),
        (Real((3, 4)), Real((3, 4), 0.5, 2.0)),
        also=(((), ()), ((0, 3), (0, 3)), ((2, 1, 3), (2, 1, 3))),
    ),
    Case(
        "linear_in",
        "linear_in",
        lambda g, x: linear_in(g, x),
        lambda g, x: g,
        (Real((3,)), Real((3,))),
        also=(((), ()), ((0,), (0,)), ((1, 2), (1, 2))),
    ),
    Case(
        "dim_size",
        "dim_size",
        lambda x: sg.multiply(x, size_of(x.shape[0], x.dtype)),
        lambda x: x * x.shape[0],
        (Real((3,)),),
        dtypes=NUMBERS,
        also=(((0,),), ((1,),)),
    ),
)

ELEMENTWISE = (
    *_ARITHMETIC,
    *_TRANSCENDENTAL,
    *_COMPARISONS,
    *_LOGIC,
    *_BITS,
    *_RANDOM,
    *_CONVERSIONS,
)
