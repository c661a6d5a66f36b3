"""Rows of the table for the ops with nested graphs.

Their rules, nestings and errors have tests of their own in `tests/unit/control`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import symgrad as sg
from tests.support.case import Case, Real, Truth, Whole
from tests.support.control_strategies import copied

_ROW = Real((3,), -1.0, 1.0, kinks=(0.0,))
_SHAPES = (((), (3,)), ((), (1,)), ((), (0,)))


def _power(n: Any, x: Any) -> Any:
    count = sg.constant(0, "int64")
    body = lambda i, y: (i + 1, y * x)  # noqa: E731 - what a user writes
    return sg.while_loop(lambda i, _: i < n, body, (count, x), maximum_iterations=4)[1]


def _running(x: Any) -> Any:
    return sg.scan(lambda total, item: (total + item, total * item), sg.zeros((), x.dtype), x)[1]


def _expected_running(x: Any) -> Any:
    return (np.cumsum(x) - x) * x


CONTROL_CASES = (
    Case(
        "extern",
        "extern",
        lambda x: copied(x * x, way=1, is_pure=True),
        lambda x: x * x,
        (_ROW,),
        order=0,
        also=(((2, 0),), ((1, 2),)),
    ),
    Case(
        "cond",
        "switch",
        lambda p, x: sg.cond(p, lambda: x * x, lambda: sg.sin(x)),
        lambda p, x: np.where(p, x * x, np.sin(x)),
        (Truth(()), _ROW),
        also=_SHAPES,
    ),
    Case(
        "switch_case",
        "switch",
        lambda i, x: sg.switch_case(i, [lambda: x * 2.0, lambda: x * x, lambda: sg.cos(x)]),
        lambda i, x: [x * 2, x * x, np.cos(x)][int(i)],
        (Whole((), 0, 3), _ROW),
        also=_SHAPES,
    ),
    Case(
        "while_loop",
        "while",
        _power,
        lambda n, x: x ** (int(n) + 1),
        (Whole((), 0, 4), _ROW),
        also=_SHAPES,
        slack=8.0,
    ),
    Case(
        "function",
        "call",
        lambda x, y: sg.function(lambda a, b: sg.tanh(a) * b.sum())(x, y),
        lambda x, y: np.tanh(x) * y.sum(),
        (_ROW, _ROW),
        also=(((1,), (1,)), ((0,), (0,))),
    ),
    Case("scan", "scan", _running, _expected_running, (_ROW,), also=(((1,),),), slack=8.0),
)
