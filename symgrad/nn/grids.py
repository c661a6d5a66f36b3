"""Spatial transformers: images read at a grid of points, and the grid of an affine map.

`interpolate`, whose points are those of a resized image, is in `resampling.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, Literal

from symgrad.errors import GraphError, ShapeError, user_source
from symgrad.graph.dtypes import int64
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, promote_operands
from symgrad.graph.ops.arithmetic import abs, add, divide, multiply, subtract
from symgrad.graph.ops.comparison import (
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    where,
)
from symgrad.graph.ops.elementwise import float_operand
from symgrad.graph.ops.extrema import minimum
from symgrad.graph.ops.gathering import gather, iota
from symgrad.graph.ops.structure import accumulator_dtype, expand_dims, reshape
from symgrad.graph.ops.views import moveaxis, narrow
from symgrad.graph.ops.whole_numbers import floor, round
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim, at_least
from symgrad.nn.layouts import Layout, along, channel_axis
from symgrad.nn.operand_shapes import shaped
from symgrad.nn.resampling import CUBIC, Method
from symgrad.nn.spatial import axes_of_space, sizes_of_space
from symgrad.records import dataclass

GridPadding = Literal["zeros", "border", "reflection"]
_PADDINGS = ("zeros", "border", "reflection")
_METHODS = ("nearest", "linear", "cubic")
_MOST_CUBIC = 2  # axes of space: a tap takes 4 elements of each


# ------------------------------------------------------------------------------------- the grid


@public()
def affine_grid(theta: Any, size: Any, *, align_corners: bool = False) -> Tensor:
    """Make the grid of an affine map of space, at which `grid_sample` reads an image.

    `theta` is (n, space, space + 1), a matrix and a last column that is added, for each image, of 1
    to 3 axes of space; `size` are the sizes of space of the result, an int for all of them or one
    for each. The result is (n, *size, space): `theta` times the point (x, y, z, 1) of each pixel,
    where x goes along the last axis of space. Points are from -1 to 1, between the edges of the
    outermost pixels, or with `align_corners` between their centres. The dtype is that of `theta`,
    integers become float32, and a 16-bit float is rounded once. The gradient is the adjoint.

    >>> theta = sg.constant([[[1.0, 0.0, 0.0], [0.0, 2.0, 0.5]]])
    >>> sg.run(sg.nn.affine_grid(theta, (1, 2)))
    array([[[[-0.5,  0.5],
             [ 0.5,  0.5]]]], dtype=float32)

    Raises `ShapeError` for another shape of `theta`, for another number of sizes, and for those
    that are below 1 or no integers.

    M. Jaderberg, K. Simonyan, A. Zisserman, K. Kavukcuoglu, "Spatial transformer networks", 2015.
    """
    theta = float_operand(theta)
    space = theta.shape[1] if theta.ndim == 3 else 0
    if not isinstance(space, int) or not 1 <= space <= 3 or theta.shape[2] != space + 1:
        problem = f"theta: {theta.type} is not (n, space, space + 1) for 1 to 3 axes of space"
        raise ShapeError("affine_grid", problem, source=user_source())
    sizes = sizes_of_space("affine_grid", size, space)
    wide = cast(theta, accumulator_dtype(theta.dtype))
    total = _column(wide, space, space)
    for axis, n in enumerate(sizes):
        # Twice the distance from the middle of the axis, which is an integer.
        doubled = subtract(multiply(iota((n,), 0), 2), n - 1)
        point = divide(cast(doubled, wide.dtype), at_least(n - 1, 1) if align_corners else n)
        place = along(point, (1 + axis,), space + 2)
        total = add(total, multiply(_column(wide, space - 1 - axis, space), place))
    return cast(total, theta.dtype)


def _column(theta: Tensor, column: int, space: int) -> Tensor:
    """Return a column of `theta` for all pixels: (n, 1, ..., 1, space)."""
    return reshape(narrow(theta, 2, column, 1), (theta.shape[0], *(1,) * space, space))


# ----------------------------------------------------------------------------------- the sample


@dataclass(frozen=True, slots=True)
class GridTap:
    """An element along one axis that each point reads: where it is, and what multiplies it.

    No `weight` is 1; where it is not inside the image the element is 0, and no `is_inside` is true.
    """

    index: Tensor
    weight: Tensor | None
    is_inside: Tensor | None


@public()
def grid_sample(
    x: Any,
    grid: Any,
    *,
    method: Method = "linear",
    padding: GridPadding = "zeros",
    align_corners: bool = False,
    layout: Layout = "NHWC",
) -> Tensor:
    """Read images at the points of a grid, between pixels by interpolation.

    `x` is (n, *space, c), with `layout="NCHW"` (n, c, *space), for 1 to 3 axes of space, and `grid`
    is (n, *out, axes of space): points (x, y, z), where x goes along the last axis of space, -1 and
    1 are the edges of the outermost pixels, or with `align_corners` their centres. The result is
    (n, *out, c) or (n, c, *out). "nearest" takes one pixel and keeps the dtype of `x`; "linear" and
    "cubic", of one or two axes of space, are those of `interpolate`, give what `x` and `grid`
    promote to, floats of integers, and round a 16-bit float once. What is outside of the image is
    0, the pixel at its border, or, with "reflection", the image mirrored there, at the edges or
    centres that -1 and 1 are.

        >>> x = sg.constant([[[0.0], [2.0], [4.0]]])
        >>> grid = sg.constant([[[-1.0], [0.5], [1.0]]])
        >>> sg.run(sg.nn.grid_sample(x, grid, align_corners=True))[0, :, 0]
        array([0., 3., 4.], dtype=float32)

    The gradient to `x` is a scatter into the pixels that were read. That to `grid` is the slope of
    the interpolation, at a pixel that to its right, and 0 where a border is repeated; "nearest" has
    none.

    Raises `ShapeError` for a grid that does not fit `x`, empty axes of space, and more than two
    of them with "cubic"; `GraphError` for another method, padding or layout.

    M. Jaderberg, K. Simonyan, A. Zisserman, K. Kavukcuoglu, "Spatial transformer networks", 2015.
    """
    x, grid = _operands(x, grid, method)
    axes = axes_of_space("grid_sample", x, layout)
    _check_choices(x, axes, method, padding)
    grid = _checked_grid(grid, x, len(axes))
    wide = cast(grid, accumulator_dtype(grid.dtype))
    taps = []
    for place, axis in enumerate(axes):
        n = x.shape[axis]
        which = narrow(wide, grid.ndim - 1, len(axes) - 1 - place, 1)
        point = reshape(which, grid.shape[:-1])
        find = {"nearest": _nearest_taps, "linear": _linear_taps, "cubic": _cubic_taps}[method]
        pad = _pads_of(padding, n, align_corners=align_corners)
        taps.append(find(_position(point, n, align_corners=align_corners), n, pad))
    last = x.ndim - 1
    channels = channel_axis("grid_sample", x, layout)
    return moveaxis(_read(moveaxis(x, channels, last), taps), last, channels)


def _operands(x: Any, grid: Any, method: Any) -> tuple[Tensor, Tensor]:
    if method == "nearest":
        return as_tensor(x), float_operand(grid)
    first, second = promote_operands("grid_sample", x, grid)
    return float_operand(first), float_operand(second)


def _check_choices(x: Tensor, axes: Sequence[int], method: Any, padding: Any) -> None:
    for name, given, known in (("method", method, _METHODS), ("padding", padding, _PADDINGS)):
        if given not in known:
            problem = f"{name} {given!r} is none of {', '.join(known)}"
            raise GraphError("grid_sample", problem, source=user_source())
    if method == "cubic" and len(axes) > _MOST_CUBIC:
        problem = f"the method cubic is for {_MOST_CUBIC} axes of space at most, x: {x.type}"
        raise ShapeError("grid_sample", problem, source=user_source())
    for axis in axes:
        if x.shape[axis] == 0:
            problem = f"axis {axis} of x: {x.type} is empty"
            raise ShapeError("grid_sample", problem, source=user_source())


def _checked_grid(grid: Tensor, x: Tensor, space: int) -> Tensor:
    if grid.ndim != x.ndim or grid.shape[-1] != space:
        problem = f"grid: {grid.type} is not (n, *out, {space}), as x: {x.type} has it"
        raise ShapeError("grid_sample", problem, source=user_source())
    return shaped("grid_sample", "grid", grid, "points of x", (x.shape[0], *grid.shape[1:]))


def _read(x: Tensor, taps: Sequence[Sequence[GridTap]]) -> Tensor:
    """Return the sum over the taps of all axes of space, whose channels come last."""
    batch = iota(taps[0][0].index.shape, 0)
    total: Tensor | None = None
    for chosen in itertools.product(*taps):
        value = gather(x, [batch, *(tap.index for tap in chosen)], 0)
        insides = [tap.is_inside for tap in chosen if tap.is_inside is not None]
        weights = [tap.weight for tap in chosen if tap.weight is not None]
        inside = expand_dims(reduce(logical_and, insides), axis=-1) if insides else None
        if inside is not None:
            value = where(inside, value, 0)
        if weights:
            weight = expand_dims(reduce(multiply, weights), axis=-1)
            # The weight of what is far outside may be no number.
            weight = weight if inside is None else where(inside, weight, 0)
            value = multiply(cast(value, weight.dtype), weight)
        total = value if total is None else add(total, value)
    assert total is not None, "there are taps"
    return cast(total, x.dtype)


# -------------------------------------------------------------------------- places along an axis

_Pad = Callable[[Tensor], Tensor]


def _position(point: Tensor, n: Dim, *, align_corners: bool) -> Tensor:
    """Return where points from -1 to 1 are among the `n` pixels of an axis, whose first is at 0."""
    if align_corners:
        return multiply(divide(add(point, 1), 2), n - 1)
    return divide(subtract(multiply(add(point, 1), n), 1), 2)


def _pads_of(padding: GridPadding, n: Dim, *, align_corners: bool) -> _Pad | None:
    """Return what moves places outside of the image into it, None where they stay outside."""
    if padding == "zeros":
        return None
    if padding == "border":
        return partial(_at_border, n=n)
    return partial(_reflected, n=n, align_corners=align_corners)


def _at_border(position: Tensor, n: Dim) -> Tensor:
    # With no slope at the border itself, and 0 for what is no number.
    above = where(greater(position, 0), position, 0)
    return where(less(above, n - 1), above, cast(as_tensor(n - 1), position.dtype))


def _reflected(position: Tensor, n: Dim, *, align_corners: bool) -> Tensor:
    low, span = (0.0, at_least(n - 1, 1)) if align_corners else (-0.5, n)
    distance = abs(subtract(position, low))
    turns = floor(divide(distance, span * 2))
    inside = subtract(distance, multiply(turns, span * 2))
    mirrored = where(less(inside, span), inside, subtract(span * 2, inside))
    return _at_border(add(mirrored, low), n)


def _tap(place: Tensor, weight: Tensor | None, n: Dim, pad: _Pad | None) -> GridTap:
    """Return the tap at `place`, which is a whole number; with a pad it is from 0 to `n`."""
    if pad is not None:
        return GridTap(cast(minimum(place, n - 1), int64), weight, None)
    is_inside = logical_and(greater_equal(place, 0), less_equal(place, n - 1))
    return GridTap(cast(where(is_inside, place, 0), int64), weight, is_inside)


def _nearest_taps(position: Tensor, n: Dim, pad: _Pad | None) -> list[GridTap]:
    inside = position if pad is None else pad(position)
    return [_tap(round(inside), None, n, pad)]


def _linear_taps(position: Tensor, n: Dim, pad: _Pad | None) -> list[GridTap]:
    inside = position if pad is None else pad(position)
    below = floor(inside)
    share = subtract(inside, below)
    return [_tap(below, subtract(1, share), n, pad), _tap(add(below, 1), share, n, pad)]


def _cubic_taps(position: Tensor, n: Dim, pad: _Pad | None) -> list[GridTap]:
    below = floor(position)
    share = subtract(position, below)
    rest = subtract(1, share)
    weights = (_far(add(share, 1)), _near(share), _near(rest), _far(add(rest, 1)))
    taps = []
    for offset, weight in zip((-1, 0, 1, 2), weights, strict=True):
        place = add(below, offset)
        taps.append(_tap(place if pad is None else pad(place), weight, n, pad))
    return taps


def _near(d: Tensor) -> Tensor:
    """Return the weight of a pixel at the distance `d`, from 0 to 1."""
    inner = subtract(multiply(d, CUBIC + 2), CUBIC + 3)
    return add(multiply(multiply(inner, d), d), 1)


def _far(d: Tensor) -> Tensor:
    """Return the weight of a pixel at the distance `d`, from 1 to 2."""
    inner = add(multiply(subtract(d, 5), d), 8)
    return subtract(multiply(multiply(inner, d), CUBIC), 4 * CUBIC)
