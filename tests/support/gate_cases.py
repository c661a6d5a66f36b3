"""Rows of the table for gated units and their slopes, which mpmath says the values of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath

import symgrad as sg
from symgrad.graph.build import apply
from symgrad.graph.node import OpDef, Tensor
from symgrad.graph.ops import gate_slopes
from tests.support.case import FLOATS, Case, Real
from tests.support.special_cases import exactly

_SHAPES = (((),), ((0, 3),), ((1,),))
_ROW = (Real((3, 4), -6.0, 6.0),)


def _of_gate(op: OpDef) -> Callable[[Tensor], Tensor]:
    return lambda x: apply(op, x, sg.sigmoid(x))


def _of_decay(op: OpDef) -> Callable[[Tensor], Tensor]:
    return lambda x: apply(op, x, sg.exp(-abs(x)))


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + mpmath.exp(-x))


def _factor(x: Any) -> Any:
    """Return tanh(log(1 + e**x))."""
    return mpmath.tanh(mpmath.log1p(mpmath.exp(x)))


def _share(x: Any) -> Any:
    return _sigmoid(x) * (1 + _factor(x)) / 2


_EXACT: dict[str, tuple[Callable[[Any], Any], Callable[[Tensor], Tensor]]] = {
    "logistic": (_sigmoid, gate_slopes.logistic),
    "logistic_density": (lambda x: _sigmoid(x) * _sigmoid(-x), gate_slopes.logistic_density),
    "silu": (lambda x: x * _sigmoid(x), sg.nn.silu),
    "silu_slope": (
        lambda x: _sigmoid(x) * (1 + x * _sigmoid(-x)),
        _of_gate(gate_slopes.silu_slope_op),
    ),
    "mish": (lambda x: x * _factor(x), sg.nn.mish),
    "mish_slope": (
        lambda x: _factor(x) + x * 2 * (1 - _factor(x)) * _share(x),
        _of_decay(gate_slopes.mish_slope_op),
    ),
    "mish_tilt": (lambda x: 2 * (1 - _factor(x)) * _share(x), _of_decay(gate_slopes.mish_tilt_op)),
    "mish_share": (_share, _of_decay(gate_slopes.mish_share_op)),
}

GATES = tuple(
    Case(name, name, build, exactly(exact), _ROW, FLOATS, 2, _SHAPES, slack=4.0)
    for name, (exact, build) in _EXACT.items()
)
