"""Special cases of the standard: zeros with a sign, infinities, nan, and what has no elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from tests.support.evaluators import EVALUATORS

INF, NAN = math.inf, math.nan
_NOTHING = np.zeros((0, 3))

# Results of one operand: what it is, what comes of it.
_UNARY: dict[str, list[tuple[float, float]]] = {
    "abs": [(-0.0, 0.0), (-INF, INF), (NAN, NAN)],
    "ceil": [(-0.5, -0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (2.0, 2.0)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "exp": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (NAN, NAN)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0), (NAN, NAN)],
    "floor": [(0.5, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (-2.0, -2.0)],
    "isfinite": [(0.0, 1), (INF, 0), (-INF, 0), (NAN, 0)],
    "isinf": [(0.0, 0), (INF, 1), (-INF, 1), (NAN, 0)],
    "isnan": [(0.0, 0), (INF, 0), (NAN, 1)],
    "log": [(-1.0, NAN), (0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF), (NAN, NAN)],
    "log1p": [(-2.0, NAN), (-1.0, -INF), (-0.0, -0.0), (0.0, 0.0), (INF, INF), (NAN, NAN)],
    "negative": [(0.0, -0.0), (-0.0, 0.0), (INF, -INF), (NAN, NAN)],
    "positive": [(-0.0, -0.0), (NAN, NAN)],
    "round": [(0.5, 0.0), (1.5, 2.0), (-0.5, -0.0), (-0.0, -0.0), (INF, INF), (NAN, NAN)],
    "sign": [(2.0, 1.0), (-2.0, -1.0), (0.0, 0.0), (-0.0, 0.0), (-INF, -1.0), (NAN, NAN)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "sqrt": [(-1.0, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF), (NAN, NAN)],
    "square": [(-0.0, 0.0), (-INF, INF), (NAN, NAN)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN)],
    "conj": [(-0.0, -0.0), (NAN, NAN)],
    "real": [(-0.0, -0.0), (INF, INF)],
    "imag": [(-0.0, 0.0), (INF, 0.0), (NAN, 0.0)],
    "nan_to_num": [(NAN, 0.0), (-0.0, -0.0), (1.0, 1.0)],
}
_BINARY: dict[str, list[tuple[float, float, float]]] = {
    "add": [
        *((NAN, 1.0, NAN), (1.0, NAN, NAN), (INF, -INF, NAN), (-INF, INF, NAN), (INF, INF, INF)),
        *((-INF, -INF, -INF), (INF, 1.0, INF), (1.0, -INF, -INF), (-0.0, -0.0, -0.0)),
        *((-0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (-0.0, 2.0, 2.0), (2.0, -2.0, 0.0)),
    ],
    "subtract": [(INF, INF, NAN), (0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (1.0, INF, -INF)],
    "multiply": [
        *((INF, 0.0, NAN), (-0.0, INF, NAN), (INF, -INF, -INF), (-1.0, 0.0, -0.0)),
        *((-INF, -2.0, INF), (NAN, 0.0, NAN), (-0.0, -3.0, 0.0)),
    ],
    "divide": [
        *((INF, -INF, NAN), (0.0, -0.0, NAN), (1.0, -0.0, -INF), (-1.0, -0.0, INF)),
        *((0.0, -2.0, -0.0), (INF, -2.0, -INF), (3.0, -INF, -0.0), (NAN, 1.0, NAN)),
    ],
    # An infinity is divided as NumPy does it, where the standard has the quotient's own.
    "floor_divide": [
        *((0.0, -0.0, NAN), (0.0, -2.0, -0.0), (-0.0, 2.0, -0.0), (NAN, 1.0, NAN)),
        *((5.0, 2.0, 2.0), (-5.0, 2.0, -3.0), (1.0, INF, 0.0), (-1.0, INF, -1.0)),
    ],
    "remainder": [
        *((INF, 2.0, NAN), (1.0, 0.0, NAN), (0.0, 2.0, 0.0), (0.0, -2.0, -0.0), (-0.0, 2.0, 0.0)),
        *(
            (3.0, INF, 3.0),
            (-3.0, INF, INF),
            (3.0, -INF, -INF),
            (-3.0, -INF, -3.0),
            (1.0, NAN, NAN),
        ),
    ],
    "pow": [
        *((NAN, 0.0, 1.0), (NAN, -0.0, 1.0), (1.0, NAN, 1.0), (2.0, INF, INF), (2.0, -INF, 0.0)),
        *((1.0, INF, 1.0), (-1.0, -INF, 1.0), (0.5, INF, 0.0), (-0.5, -INF, INF), (INF, 2.0, INF)),
        *((INF, -2.0, 0.0), (-INF, 3.0, -INF), (-INF, 2.0, INF), (-INF, -3.0, -0.0)),
        *((-INF, -2.0, 0.0), (0.0, 2.0, 0.0), (0.0, -2.0, INF), (-0.0, 3.0, -0.0)),
        *((-0.0, 2.0, 0.0), (-0.0, -3.0, -INF), (-0.0, -2.0, INF), (-8.0, 0.5, NAN)),
    ],
    "maximum": [(NAN, 1.0, NAN), (1.0, NAN, NAN), (INF, -INF, INF)],
    "minimum": [(NAN, 1.0, NAN), (1.0, NAN, NAN), (INF, -INF, -INF)],
    "equal": [(NAN, NAN, 0), (0.0, -0.0, 1), (INF, INF, 1), (-INF, INF, 0)],
    "not_equal": [(NAN, NAN, 1), (0.0, -0.0, 0)],
    "less": [(NAN, 1.0, 0), (-INF, INF, 1), (-0.0, 0.0, 0)],
    "greater_equal": [(NAN, NAN, 0), (INF, INF, 1), (-0.0, 0.0, 1)],
    "isclose": [(INF, INF, 1), (INF, -INF, 0), (NAN, NAN, 0), (INF, 1.0, 0), (1.0, INF, 0)],
}

Row = tuple[Callable[..., Any], list[Any], Any]
# Of axes: a function, its operands, the result.
_REDUCED: dict[str, Row] = {
    "max of nan": (sg.max, [[1.0, NAN, INF]], NAN),
    "min of nan": (sg.min, [[1.0, NAN, -INF]], NAN),
    "mean of infinities": (sg.mean, [[INF, -INF]], NAN),
    "mean of nothing": (lambda x: sg.mean(x, axis=0), [_NOTHING], [NAN] * 3),
    "sum of nothing": (lambda x: sg.sum(x, axis=0), [_NOTHING], [0.0] * 3),
    "prod of nothing": (lambda x: sg.prod(x, axis=0), [_NOTHING], [1.0] * 3),
    "sum of nan": (sg.sum, [[1.0, NAN]], NAN),
    "prod of zero and infinity": (sg.prod, [[0.0, INF]], NAN),
    "all of nothing": (lambda x: sg.all(x, axis=0), [_NOTHING], [1] * 3),
    "any of nothing": (lambda x: sg.any(x, axis=0), [_NOTHING], [0] * 3),
    "any of nan": (sg.any, [[NAN]], 1),
    "count of nan and zeros": (sg.count_nonzero, [[NAN, 0.0, -0.0, INF]], 2),
    "var of one": (lambda x: sg.var(x, correction=1), [[3.0]], NAN),
    "var with a large correction": (lambda x: sg.var(x, correction=5), [[3.0, 4.0]], INF),
    "var of nan": (sg.var, [[3.0, NAN]], NAN),
    "var of nothing": (sg.var, [[]], NAN),
    "std of equals": (sg.std, [[3.0, 3.0]], 0.0),
    "nanmax of nan alone": (lambda x: sg.nanmax(x, axis=1), [[[NAN, NAN], [NAN, 1.0]]], [NAN, 1.0]),
    "nansum of nan alone": (sg.nansum, [[NAN, NAN]], 0.0),
    "nanmean of nan alone": (sg.nanmean, [[NAN, NAN]], NAN),
    "nanvar of one": (lambda x: sg.nanvar(x, correction=1), [[NAN, 1.0]], NAN),
    "diff of infinities": (sg.diff, [[INF, INF, 1.0]], [NAN, -INF]),
    "argmax of nan": (sg.argmax, [[1.0, NAN, INF, NAN]], 1),
    "clip of nan": (lambda x: sg.clip(x, 0.0, 1.0), [[NAN, INF, -0.0]], [NAN, 1.0, 0.0]),
    "equal nan": (lambda x: sg.array_equal(x, x, equal_nan=True), [[NAN, 1.0]], 1),
    "unequal nan": (lambda x: sg.array_equal(x, x), [[NAN, 1.0]], 0),
}


def _assert_gives(
    evaluator: str, dtype: str, call: Callable[..., Any], operands: list[Any], expected: Any
) -> None:
    arrays = [np.asarray(operand, dtype) for operand in operands]
    xs = [sg.placeholder(a.shape, dtype) for a in arrays]
    (found,) = EVALUATORS[evaluator](Graph(call(*xs), xs), arrays)
    wanted = np.broadcast_to(np.asarray(expected, found.dtype), found.shape)
    np.testing.assert_array_equal(found, wanted)
    if found.dtype.kind == "f":
        is_number = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found)[is_number], np.signbit(wanted)[is_number])


@pytest.mark.parametrize("evaluator", ["reference", "native"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", _UNARY)
def test_special_operands_give_what_the_standard_says(name, dtype, evaluator):
    operands, results = zip(*_UNARY[name], strict=True)
    _assert_gives(evaluator, dtype, getattr(sg, name), [operands], results)


@pytest.mark.parametrize("evaluator", ["reference", "native"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", _BINARY)
def test_special_pairs_give_what_the_standard_says(name, dtype, evaluator):
    first, second, results = zip(*_BINARY[name], strict=True)
    _assert_gives(evaluator, dtype, getattr(sg, name), [first, second], results)


@pytest.mark.parametrize("evaluator", ["reference", "native"])
@pytest.mark.parametrize("name", _REDUCED)
def test_special_elements_give_along_axes_what_the_standard_says(name, evaluator):
    call, operands, expected = _REDUCED[name]
    _assert_gives(evaluator, "float32", call, operands, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_infinities_are_replaced_by_the_limits_of_their_dtype(dtype):
    given = np.array([INF, -INF, NAN, -0.0, 3.0], dtype)
    found = sg.run(sg.nan_to_num(sg.constant(given)))
    np.testing.assert_array_equal(found, np.nan_to_num(given))
    np.testing.assert_array_equal(
        sg.run(sg.nan_to_num(sg.constant(given), 7.0, 8.0, 9.0)), [8, 9, 7, 0, 3]
    )
