"""NumPy's ufuncs on tensors: calls, their options and methods, and those composed of ops.

A ufunc that is one op says so where the op is declared (`symgrad/graph/public_ops.py`). Composed
ones of integers and of the exponents of floats are in `numpy_exact.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

import numpy as np

from symgrad.frontend import numpy_reductions as reductions
from symgrad.frontend.numpy_arguments import refuse
from symgrad.frontend.numpy_refusals import METHODS, instead_of
from symgrad.graph.dtypes import as_dtype
from symgrad.graph.late_binding import BoundFunction
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, promote_operands
from symgrad.graph.ops import (
    arithmetic,
    comparison,
    contraction,
    extrema,
    structure,
    transcendental,
    whole_numbers,
)
from symgrad.graph.ops.elementwise import filled, float_operand, float_operands
from symgrad.graph.public_ops import ACCUMULATIONS, REDUCTIONS, UFUNCS

# Ufuncs that are no op of their own.
COMPOSED: dict[np.ufunc, Callable[..., Any]] = {}

_REDUCES: dict[np.ufunc, Callable[..., Any]] = {
    np.add: reductions.sum_of,
    np.multiply: reductions.product_of,
    np.maximum: reductions.greatest_of,
    np.minimum: reductions.least_of,
    np.logical_or: reductions.any_of,
    np.logical_and: reductions.all_of,
}
# Options of a call that say nothing about its result.
_IRRELEVANT = {"casting", "order", "subok"}


def composes(*ufuncs: np.ufunc) -> Callable[[BoundFunction], BoundFunction]:
    """Make what is decorated stand for `ufuncs`, which are no op of their own."""

    def declare(function: BoundFunction) -> BoundFunction:
        COMPOSED.update(dict.fromkeys(ufuncs, function))
        return function

    return declare


def call_ufunc(
    ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Build what a ufunc, or one of its methods, is on tensors; `DTypeError` if it is nothing."""
    given = {name: value for name, value in options.items() if _says_something(name, value)}
    if "out" in given:
        raise refuse(ufunc, "out= has no meaning for a tensor", "the result, a new tensor")
    if method == "__call__":
        return _called(ufunc, inputs, given)
    if method == "outer" and ufunc.nin == 2:
        return _outer(ufunc, inputs, given)
    if method == "reduce" and (ufunc in _REDUCES or ufunc in REDUCTIONS):
        return _reduced(ufunc, inputs, {"axis": options.get("axis", 0), **given})
    if method == "accumulate" and ufunc in ACCUMULATIONS:
        return _accumulated(ufunc, inputs, {"axis": 0, **given})
    raise refuse(ufunc, f"its method {method} has no meaning for a tensor", METHODS[method])


def _says_something(name: str, value: Any) -> bool:
    if name in _IRRELEVANT or value is None:
        return False
    return not (name == "where" and value is True)


def _called(ufunc: np.ufunc, inputs: Sequence[Any], given: Mapping[str, Any]) -> Any:
    if ufunc in UFUNCS:
        function = UFUNCS[ufunc].function
    elif ufunc in COMPOSED:
        function = COMPOSED[ufunc]
    else:
        raise refuse(ufunc, "nothing stands for it on a tensor", instead_of(ufunc.__name__))
    if "where" in given:
        instead = f"sg.where(condition, {function.__name__}(...), otherwise)"
        raise refuse(ufunc, "where= leaves elements without a value", instead)
    if strange := given.keys() - {"dtype"}:
        raise refuse(ufunc, f"{min(strange)}= has no meaning for a tensor", f"sg.{ufunc.__name__}")
    if "dtype" in given:
        inputs = [cast(as_tensor(x), as_dtype(given["dtype"])) for x in inputs]
    return function(*inputs)


def _reduced(ufunc: np.ufunc, inputs: Sequence[Any], given: dict[str, Any]) -> Any:
    if ufunc in _REDUCES:
        function = _REDUCES[ufunc]
        if "dtype" in given and ufunc not in (np.add, np.multiply):
            inputs = [cast(as_tensor(x), as_dtype(given.pop("dtype"))) for x in inputs]
        return function(*inputs, **given)
    op = REDUCTIONS[ufunc].function
    if strange := given.keys() - {"axis", "keepdims"}:
        raise refuse(ufunc, f"{min(strange)}= has no meaning for a tensor", f"sg.{op.__name__}")
    return op(*inputs, **given)


def _accumulated(ufunc: np.ufunc, inputs: Sequence[Any], given: Mapping[str, Any]) -> Any:
    op = ACCUMULATIONS[ufunc].function
    if strange := given.keys() - signature(op).parameters.keys():
        raise refuse(ufunc, f"{min(strange)}= has no meaning for a tensor", f"sg.{op.__name__}")
    return op(*inputs, **given)


def _outer(ufunc: np.ufunc, inputs: Sequence[Any], given: Mapping[str, Any]) -> Any:
    x, y = (as_tensor(operand) for operand in inputs)
    if ufunc is np.multiply and not given:
        return contraction.tensordot(x, y, axes=0)
    return _called(ufunc, (structure.reshape(x, (*x.shape, *(1,) * y.ndim)), y), given)


# --------------------------------------------------------------------------------- composed of ops


@composes(np.divmod)
def _divmod(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    return arithmetic.floor_divide(x, y), arithmetic.remainder(x, y)


@composes(np.modf)
def _modf(x: Any) -> tuple[Tensor, Tensor]:
    """Return the fraction and the whole, both with the sign of `x`; of an infinity 0 and it."""
    x = float_operand(x)
    down, up = whole_numbers.floor(x), whole_numbers.ceil(x)
    whole = comparison.where(comparison.less(x, 0), up, down)
    zero = filled(x.shape, 0, x.dtype)
    is_infinite = arithmetic.isinf(x)
    fraction = comparison.where(is_infinite, zero, arithmetic.subtract(x, whole))
    # A fraction of 0 has the sign of the number, which a product with one keeps.
    signed = arithmetic.multiply(arithmetic.abs(fraction), _sign_with_zeros(x))
    return signed, whole


def _sign_with_zeros(x: Tensor) -> Tensor:
    """Return 1 with the sign of `x`, also of zeros."""
    is_negative = comparison.less(
        comparison.where(comparison.equal(x, 0), arithmetic.divide(1.0, x), x), 0
    )
    return comparison.where(is_negative, filled(x.shape, -1, x.dtype), filled(x.shape, 1, x.dtype))


@composes(np.float_power)
def _float_power(x: Any, y: Any) -> Tensor:
    return transcendental.pow(*float_operands("float_power", x, y))


@composes(np.fmax)
def _fmax(x: Any, y: Any) -> Tensor:
    return _number_of_two(extrema.maximum, x, y)


@composes(np.fmin)
def _fmin(x: Any, y: Any) -> Tensor:
    return _number_of_two(extrema.minimum, x, y)


def _number_of_two(meet: Callable[..., Tensor], x: Any, y: Any) -> Tensor:
    """Return what the two meet in, of nan and a number the number."""
    x, y = promote_operands(meet.__name__, x, y)
    if not x.dtype.is_float:
        return meet(x, y)
    found = comparison.where(comparison.isnan(y), x, meet(x, y))
    return comparison.where(comparison.isnan(x), y, found)


@composes(np.heaviside)
def _heaviside(x: Any, y: Any) -> Tensor:
    x, y = promote_operands("heaviside", float_operand(x), y)
    step = comparison.where(comparison.less(x, 0), filled(x.shape, 0, x.dtype), 1.0)
    found = comparison.where(comparison.equal(x, 0), y, step)
    return comparison.where(comparison.isnan(x), x, found)


@composes(np.matvec)
def _matvec(x: Any, y: Any) -> Tensor:
    column = structure.expand_dims(as_tensor(y), -1)
    return structure.squeeze(contraction.matmul(x, column), -1)


@composes(np.vecmat)
def _vecmat(x: Any, y: Any) -> Tensor:
    row = structure.expand_dims(as_tensor(x), -2)
    return structure.squeeze(contraction.matmul(row, y), -2)
