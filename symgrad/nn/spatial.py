"""Arguments of layers over space: windows, strides, dilation and padding.

What convolution and pooling share. The layers are in `convolution.py` and `pooling.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.errors import ShapeError, user_source
from symgrad.graph.given_arrays import without_axes
from symgrad.graph.node import Tensor
from symgrad.graph.ops.marks import require_least
from symgrad.graph.ops.slicing import place
from symgrad.graph.ops.unfolding import span_of
from symgrad.graph.sizes import Dim, Size, at_least, divide
from symgrad.graph.structures import Number
from symgrad.graph.types import Shape
from symgrad.nn.layouts import Layout as Layout
from symgrad.nn.layouts import spatial_axes
from symgrad.records import dataclass

Padding = str | int | Sequence[int | tuple[int, int]]
Ints = tuple[int, ...]
Pads = tuple[tuple[Dim, Dim], ...]

_MOST_AXES = 3


def axes_of_space(op: str, x: Tensor, layout: Layout) -> Ints:
    """Return the axes of `x` that are space, of which there must be one to three."""
    axes = spatial_axes(op, x, layout)
    if not 1 <= len(axes) <= _MOST_AXES:
        problem = f"x: {x.type} has not a batch, channels, and 1 to {_MOST_AXES} axes of space"
        raise ShapeError(op, problem, source=user_source())
    return axes


def per_axis(op: str, name: str, given: Any, count: int, least: int = 1) -> Ints:
    """Return an int, or one for each of `count` axes of space, as one for each."""
    given = without_axes(given)
    is_one = isinstance(given, int | np.integer)
    numbers = (given,) * count if is_one else tuple(map(without_axes, _elements(given)))
    are_ints = all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in numbers)
    if len(numbers) != count or not are_ints:
        problem = f"{name} {given!r} is no integer, nor one for each axis of space, {count}"
        raise ShapeError(op, problem, source=user_source())
    if min(numbers) < least:
        raise ShapeError(op, f"{name} {given!r} is less than {least}", source=user_source())
    return tuple(map(int, numbers))


def _is_list(given: Any) -> bool:
    return isinstance(given, list | tuple) or (isinstance(given, np.ndarray) and given.ndim > 0)


def _elements(given: Any) -> Sequence[Any]:
    return given if _is_list(given) else ()


def sizes_of_space(op: str, size: Any, count: int) -> Shape:
    """Return `size`, one or one for each of `count` axes, as one for each; a call may tell some."""
    given = (size,) * count if isinstance(size, Size) else size
    if not _is_list(given) or not any(isinstance(n, Size) for n in given):
        return per_axis(op, "size", given, count)
    known = per_axis(op, "size", [1 if isinstance(n, Size) else n for n in given], count)
    return tuple(n if isinstance(n, Size) else m for n, m in zip(given, known, strict=True))


@dataclass(frozen=True, slots=True)
class PaddedWindows:
    """Windows of the axes of space of a tensor, and by how much these are padded."""

    op: str
    axes: Ints
    window: Ints
    strides: Ints
    dilation: Ints
    pads: Pads

    @property
    def spans(self) -> Ints:
        """How many elements of each axis a window reaches over."""
        return tuple(map(span_of, self.window, self.dilation))

    @property
    def has_padding(self) -> bool:
        return any(pad != (0, 0) for pad in self.pads)

    def padded(self, x: Tensor, value: Number = 0) -> Tensor:
        """Return `x` extended by `value`; raises `ShapeError` if no window has room in it."""
        low, shape = [0] * x.ndim, list(x.shape)
        low_of: list[Dim] = list(low)
        for axis, (before, after), span in zip(self.axes, self.pads, self.spans, strict=True):
            size = x.shape[axis] + before + after
            given = f"there are {size - before - after} in axis {axis} of x: {{x}}"
            if not isinstance(size, int):
                given = f"there are {{size}} in axis {axis} of x: {{x}}"
            if size != x.shape[axis]:
                given += ", with padding" if not isinstance(size, int) else ", {size} with padding"
            problem = f"a window reaches over {span} elements, and {given}"
            x = require_least(x, size, span, self.op, problem)
            low_of[axis], shape[axis] = before, size
        return place(x, tuple(shape), tuple(low_of), (1,) * x.ndim, value)


def windows_of(
    op: str,
    x: Tensor,
    window: Ints,
    *,
    strides: Any,
    padding: Padding,
    dilation: Any,
    layout: Layout,
) -> PaddedWindows:
    """Return the windows that the arguments of a layer describe."""
    axes = axes_of_space(op, x, layout)
    steps = per_axis(op, "strides", strides, len(axes))
    gaps = per_axis(op, "dilation", dilation, len(axes))
    sizes = tuple(x.shape[axis] for axis in axes)
    pads = _pads(op, padding, sizes, tuple(map(span_of, window, gaps)), steps)
    return PaddedWindows(op, axes, window, steps, gaps, pads)


def _pads(op: str, padding: Padding, sizes: tuple[Dim, ...], spans: Ints, strides: Ints) -> Pads:
    if isinstance(padding, str) and padding == "SAME":
        return tuple(map(_pads_to_same, sizes, spans, strides))
    return explicit_pads(op, padding, len(sizes))


def _pads_to_same(size: Dim, span: int, stride: int) -> tuple[Dim, Dim]:
    """Return the padding with which there are `size / stride` windows, rounded up.

    As in TensorFlow, an odd one out comes after.
    """
    count = divide(size + (stride - 1), stride)
    total = at_least((count - 1) * stride + span - size, 0)
    before = divide(total, 2)
    return before, total - before


def explicit_pads(op: str, padding: Any, count: int) -> tuple[tuple[int, int], ...]:
    """Return padding other than "SAME" as a pair (before, after) for each of `count` axes of space.

    It is given as one int, or for each axis as an int or a pair; an int is before and after.
    """
    if isinstance(padding, str) and padding == "VALID":
        return ((0, 0),) * count
    padding = without_axes(padding)
    given = [padding] * count if _is_int(padding) else _elements(padding)
    pairs = [_before_and_after(without_axes(p)) for p in given]
    numbers = [n for pair in pairs for n in pair]
    are_pairs = all(len(pair) == 2 for pair in pairs) and all(map(_is_int, numbers))
    if len(pairs) != count or not are_pairs:
        of_axes = "one integer or pair" if count == 1 else f"{count} integers or pairs"
        problem = (
            f"padding {padding!r} is none of VALID, SAME, no integer, and no sequence of {of_axes} "
            "(before, after)"
        )
        is_named = isinstance(padding, str) and padding.upper() in ("SAME", "VALID")
        hint = f"write {padding.upper()!r}" if is_named else None
        raise ShapeError(op, problem, hint=hint, source=user_source())
    if min(numbers) < 0:
        raise ShapeError(op, f"padding {padding!r} is negative", source=user_source())
    return tuple((int(before), int(after)) for before, after in pairs)


def _before_and_after(given: Any) -> tuple[Any, ...]:
    return (given, given) if _is_int(given) else tuple(map(without_axes, _elements(given)))


def _is_int(given: Any) -> bool:
    return isinstance(given, int | np.integer) and not isinstance(given, bool)
