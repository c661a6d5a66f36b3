"""Padding: a tensor extended along its axes by a constant, or by its own elements again."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import DTypeError, GraphError, ShapeError, user_source
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, made_by_numpy
from symgrad.graph.ops.arithmetic import remainder, subtract
from symgrad.graph.ops.extrema import clip, minimum
from symgrad.graph.ops.gathering import gather, iota
from symgrad.graph.ops.marks import require_least
from symgrad.graph.ops.slicing import place
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim, at_least
from symgrad.graph.structures import Number

_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


@public()
def pad(x: Any, /, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Tensor:
    """Extend `x` by `pad_width` elements along each axis, (before, after) as NumPy takes them.

    `mode` says by which: "constant" by `constant_values`, one or (before, after) for each axis,
    "edge" by the first and last element, "reflect" by the elements mirrored at those, "symmetric"
    mirrored with them, "wrap" by those of the other end. The gradient of an element is the sum over
    its copies. Raises `ShapeError` for negative widths and for an empty axis that is extended by
    its own elements, `GraphError` for another mode.

    >>> sg.run(sg.pad(sg.constant([1, 2, 3]), 2, "reflect"))
    array([3, 2, 1, 2, 3, 2, 1], dtype=int32)
    """
    tensor = as_tensor(x)
    if mode not in _MODES:
        problem = f"mode {mode!r} is none of {', '.join(_MODES)}"
        raise GraphError("pad", problem, source=user_source())
    widths = _pairs("pad_width", pad_width, tensor)
    if (widths < 0).any():
        raise ShapeError("pad", f"widths {pad_width} are negative", source=user_source())
    if mode == "constant":
        values = _pairs("constant_values", constant_values, tensor)
        return _padded_by_constants(tensor, widths, values)
    for axis, (before, after) in enumerate(widths):
        if before or after:
            tensor = _extended(tensor, axis, int(before), int(after), mode)
    return tensor


def _pairs(name: str, given: Any, x: Tensor) -> np.ndarray[Any, Any]:
    pairs = made_by_numpy(given)
    kinds = "iu" if name == "pad_width" else "biufc"
    if pairs.dtype.kind not in kinds and pairs.size:
        problem = f"{name} {given!r} are no {'integers' if kinds == 'iu' else 'numbers'}"
        raise DTypeError("pad", problem, source=user_source())
    try:
        return np.broadcast_to(pairs, (x.ndim, 2))
    except ValueError as error:
        problem = f"{name} {given} are no pair for each axis of x: {x.type}"
        raise ShapeError("pad", problem, source=user_source()) from error


def _padded_by_constants(
    x: Tensor, widths: np.ndarray[Any, Any], values: np.ndarray[Any, Any]
) -> Tensor:
    if not x.ndim or (values == values.flat[0]).all():
        value = values.flat[0].item() if x.ndim else 0
        return _placed(x, widths, value)
    for axis, sides in enumerate(zip(widths, values, strict=True)):
        for side, (width, value) in enumerate(zip(*sides, strict=True)):
            of_side = np.zeros_like(widths)
            of_side[axis, side] = width
            x = _placed(x, of_side, value.item())
    return x


def _placed(x: Tensor, widths: np.ndarray[Any, Any], value: Number) -> Tensor:
    low = tuple(int(w[0]) for w in widths)
    shape = tuple(at_least(n, 0) + int(w.sum()) for n, w in zip(x.shape, widths, strict=True))
    return place(x, shape, low, (1,) * x.ndim, value)


def _extended(x: Tensor, axis: int, before: int, after: int, mode: str) -> Tensor:
    size = x.shape[axis]
    problem = f"axis {axis} of x: {{x}} has no elements to extend it by"
    x = require_least(x, size, 1, "pad", problem)
    places = subtract(iota((size + (before + after),), 0), before)
    return gather(x, [_source(places, size, mode)], axis)


def _source(places: Tensor, size: Dim, mode: str) -> Tensor:
    """Return which element of an axis stands at places that may lie before and behind it."""
    if mode == "edge":
        return clip(places, 0, size - 1)
    if mode == "wrap":
        return remainder(places, size)
    # Mirrored again and again it has a period, in which it goes up and then down.
    is_repeated = mode == "symmetric"  # the element at which it turns
    period = 2 * size if is_repeated else at_least(2 * size - 2, 1)
    up = remainder(places, period)
    return minimum(up, subtract(period - 1 if is_repeated else period, up))
