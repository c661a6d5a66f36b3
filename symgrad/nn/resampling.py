"""Resampling of images: interpolation to another size, and channels that become positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from symgrad.errors import GraphError, ShapeError, user_source
from symgrad.graph.dtypes import DType
from symgrad.graph.given_arrays import within_memory
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, constant
from symgrad.graph.ops.arithmetic import add, multiply
from symgrad.graph.ops.elementwise import float_operand
from symgrad.graph.ops.indexing import take
from symgrad.graph.ops.slicing import slice_axes
from symgrad.graph.ops.structure import (
    accumulator_dtype,
    broadcast_to,
    expand_dims,
    permute_dims,
    reshape,
)
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import divide
from symgrad.graph.types import Array
from symgrad.nn.layouts import Layout, along, channel_axis, check_count, spatial_axes
from symgrad.records import dataclass

Method = Literal["nearest", "linear", "cubic"]
_METHODS = ("nearest", "linear", "cubic")

# Of the cubic convolution: -3/4, as most image libraries have it, and not Keys' own -1/2.
CUBIC = -0.75


@dataclass(frozen=True, slots=True, eq=False)
class Taps:
    """What a resampled axis is made of: tap k adds `weights[k]` times the elements at `places[k]`.

    Both are (taps, size of the result).
    """

    places: Array
    weights: Array


@public(known_as=["UpSampling", "resize"])
def interpolate(
    x: Any,
    size: Any,
    *,
    method: Method = "nearest",
    align_corners: bool = False,
    layout: Layout = "NHWC",
) -> Tensor:
    """Resize images, of any number of spatial axes, by interpolation along each of them.

    `x` is (batch, *spatial, channels), with `layout="NCHW"` (batch, channels, *spatial). `size` is
    the spatial sizes of the result, an int for all of them or one for each. "nearest" takes element
    floor(i * n / m) for i of m, and keeps the dtype of `x`; "linear" and "cubic", which make floats
    of integers, interpolate between centres of pixels, and beyond the outermost repeat the edge.
    With `align_corners` the centres of the outermost pixels are the same before and after. Nothing
    is smoothed before it is made smaller. The gradient is the adjoint.

    Raises `GraphError` for another method or layout, a size below 1, and `align_corners` with
    "nearest"; `ShapeError` for another number of sizes, and for spatial axes of `x` that are empty
    or whose sizes are unknown; `DTypeError` for sizes that are no ints.

    R. Keys, "Cubic convolution interpolation for digital image processing", 1981, with the
    parameter -3/4.

    >>> sg.run(sg.nn.interpolate([[[0.0], [4.0]]], 4, method="linear"))[0, :, 0]
    array([0., 1., 3., 4.], dtype=float32)
    """
    tensor = as_tensor(x)
    axes = spatial_axes("interpolate", tensor, layout)
    if method not in _METHODS:
        problem = f"method {method!r} is none of {', '.join(_METHODS)}"
        raise GraphError("interpolate", problem, source=user_source())
    if align_corners and method == "nearest":
        problem = "align_corners is for the methods linear and cubic, the method is nearest"
        raise GraphError("interpolate", problem, source=user_source())
    sizes = _sizes(tensor, size, axes)
    if method == "nearest":
        for axis, m in sizes:
            tensor = _nearest(tensor, axis, m)
        return tensor
    tensor = float_operand(tensor)
    wide = cast(tensor, accumulator_dtype(tensor.dtype))
    for axis, m in sizes:
        find = _linear_taps if method == "linear" else _cubic_taps
        if m == wide.shape[axis]:
            continue
        n = _known(tensor, axis)
        with within_memory("interpolate", f"size {m}"):
            taps = find(_centres(n, m, align_corners=align_corners), n)
        wide = _resampled(wide, axis, taps)
    return cast(wide, tensor.dtype)


def _sizes(x: Tensor, size: Any, axes: Sequence[int]) -> list[tuple[int, int]]:
    """Return pairs of a spatial axis and its new size, those first that shrink the most."""
    given = list(size) if isinstance(size, tuple | list) else [size] * len(axes)
    if len(given) != len(axes):
        problem = f"size {size!r} has not one size for each of the {len(axes)} spatial axes of "
        raise ShapeError("interpolate", problem + f"x: {x.type}", source=user_source())
    sizes = [check_count("interpolate", "size", m) for m in given]
    for axis in axes:
        if not isinstance(x.shape[axis], int) or x.shape[axis] == 0:
            which = "empty" if x.shape[axis] == 0 else "of unknown size"
            problem = f"axis {axis} of x: {x.type} is {which}"
            raise ShapeError("interpolate", problem, source=user_source())
    pairs = list(zip(axes, sizes, strict=True))
    return sorted(pairs, key=lambda pair: pair[1] / _known(x, pair[0]))


def _known(x: Tensor, axis: int) -> int:
    size = x.shape[axis]
    assert isinstance(size, int), "sizes of spatial axes have been checked"
    return size


def _nearest(x: Tensor, axis: int, m: int) -> Tensor:
    n = _known(x, axis)
    if m % n == 0:
        # Each element several times: an axis that is broadcast, and whose gradient is a sum.
        apart = expand_dims(x, axis=axis + 1)
        wide = (*x.shape[: axis + 1], m // n, *x.shape[axis + 1 :])
        return reshape(broadcast_to(apart, wide), (*x.shape[:axis], m, *x.shape[axis + 1 :]))
    if n % m == 0:
        sizes = tuple(m if a == axis else k for a, k in enumerate(x.shape))
        steps = [n // m if a == axis else 1 for a in range(x.ndim)]
        return slice_axes(x, (0,) * x.ndim, sizes, steps)
    with within_memory("interpolate", f"size {m}"):
        places = np.arange(m) * n // m
    return take(x, places, axis=axis)


def _centres(n: int, m: int, *, align_corners: bool) -> Array:
    """Return where the elements of the result lie among those of the operand."""
    if align_corners:
        return np.arange(m) * ((n - 1) / max(m - 1, 1))
    return (np.arange(m) + 0.5) * (n / m) - 0.5


def _linear_taps(centres: Array, n: int) -> Taps:
    inside = np.clip(centres, 0, n - 1)
    below = np.minimum(np.floor(inside).astype(np.int64), max(n - 2, 0))
    share = inside - below
    return Taps(np.stack([below, np.minimum(below + 1, n - 1)]), np.stack([1 - share, share]))


def _cubic_taps(centres: Array, n: int) -> Taps:
    below = np.floor(centres).astype(np.int64)
    share = centres - below
    distances = np.stack([share + 1, share, 1 - share, 2 - share])
    places = np.stack([below - 1, below, below + 1, below + 2])
    return Taps(np.clip(places, 0, n - 1), _cubic_kernel(distances))


def _cubic_kernel(d: Array) -> Array:
    """Return the weight of an element at the distance `d`, from 0 to 2."""
    near = ((CUBIC + 2) * d - (CUBIC + 3)) * d * d + 1
    far = ((d - 5) * d + 8) * d * CUBIC - 4 * CUBIC
    return np.where(d <= 1, near, far)


def _resampled(x: Tensor, axis: int, taps: Taps) -> Tensor:
    total: Tensor | None = None
    for places, weights in zip(taps.places, taps.weights, strict=True):
        weight = along(_constant(weights, x.dtype), (axis,), x.ndim)
        term = multiply(take(x, places, axis=axis), weight)
        total = term if total is None else add(total, term)
    assert total is not None, "there are taps"
    return total


def _constant(values: Array, dtype: DType) -> Tensor:
    return constant(values.astype(dtype.numpy))


@public()
def pixel_shuffle(x: Any, factor: int, *, layout: Layout = "NHWC") -> Tensor:
    """Make positions of channels (depth to space): each spatial axis is `factor` times as long.

    `x` is (batch, *spatial, channels), with `layout="NCHW"` (batch, channels, *spatial). Of two
    spatial axes channel `c * factor**2 + i * factor + j` at (h, w) becomes channel c at
    `(h * factor + i, w * factor + j)`, and so for any number of them. Raises `ShapeError` where the
    power of `factor` does not divide the channels, `GraphError` for a factor below 1 or another
    layout, `DTypeError` for a factor that is no int.

    W. Shi and others, "Real-time single image and video super-resolution using an efficient
    sub-pixel convolutional neural network", 2016.

    >>> sg.run(sg.nn.pixel_shuffle([[[1.0, 2.0], [3.0, 4.0]]], 2))[0, :, 0]
    array([1., 2., 3., 4.], dtype=float32)
    """
    x = as_tensor(x)
    channels = channel_axis("pixel_shuffle", x, layout)
    axes = spatial_axes("pixel_shuffle", x, layout)
    factor = check_count("pixel_shuffle", "factor", factor)
    parts, count = factor ** len(axes), x.shape[channels]
    if isinstance(count, int) and count % parts:
        problem = f"{factor}**{len(axes)} does not divide the {count} channels of x: {x.type}"
        raise ShapeError("pixel_shuffle", problem, source=user_source())
    shape = list(x.shape)
    shape[channels : channels + 1] = [divide(count, parts), *[factor] * len(axes)]
    split = reshape(x, tuple(shape))
    added = range(channels + 1, channels + 1 + len(axes))
    first = iter(added)
    order: list[int] = []
    for axis in range(x.ndim):
        place = axis + len(axes) if axis > channels else axis
        order += [place, next(first)] if axis in axes else [place]
    joined = [n * factor if axis in axes else n for axis, n in enumerate(x.shape)]
    joined[channels] = divide(count, parts)
    return reshape(permute_dims(split, order), tuple(joined))


@public()
def pixel_unshuffle(x: Any, factor: int, *, layout: Layout = "NHWC") -> Tensor:
    """Make channels of positions (space to depth): the inverse of `pixel_shuffle`.

    Raises `ShapeError` where `factor` does not divide a spatial axis, and else as that.

    >>> sg.run(sg.nn.pixel_unshuffle([[[1.0], [2.0], [3.0], [4.0]]], 2))[0]
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    x = as_tensor(x)
    channels = channel_axis("pixel_unshuffle", x, layout)
    axes = spatial_axes("pixel_unshuffle", x, layout)
    factor = check_count("pixel_unshuffle", "factor", factor)
    shape: list[Any] = []
    places: list[int] = []
    parts: list[int] = []
    for axis, n in enumerate(x.shape):
        if axis in axes and isinstance(n, int) and n % factor:
            problem = f"{factor} does not divide axis {axis} of x: {x.type}"
            raise ShapeError("pixel_unshuffle", problem, source=user_source())
        places.append(len(shape))
        shape += [divide(n, factor), factor] if axis in axes else [n]
        parts += [len(shape) - 1] if axis in axes else []
    places[channels : channels + 1] = [places[channels], *parts]
    joined = [divide(n, factor) if axis in axes else n for axis, n in enumerate(x.shape)]
    joined[channels] = x.shape[channels] * factor ** len(axes)
    return reshape(permute_dims(reshape(x, tuple(shape)), places), tuple(joined))


@public()
def channel_shuffle(x: Any, groups: int, *, layout: Layout = "NHWC") -> Tensor:
    """Deal channels out: channel `c` of group `g` becomes channel `c * groups + g`.

    `x` is (batch, *spatial, channels), with `layout="NCHW"` (batch, channels, *spatial). Raises
    `ShapeError` for groups that do not divide the channels, `GraphError` for groups below 1 or
    another layout, `DTypeError` for groups that are no int.

    X. Zhang, X. Zhou, M. Lin, J. Sun, "ShuffleNet", 2017.

    >>> sg.run(sg.nn.channel_shuffle([[0.0, 1.0, 2.0, 3.0]], 2))
    array([[0., 2., 1., 3.]], dtype=float32)
    """
    x = as_tensor(x)
    channels = channel_axis("channel_shuffle", x, layout)
    groups = check_count("channel_shuffle", "groups", groups)
    count = x.shape[channels]
    if isinstance(count, int) and count % groups:
        problem = f"groups: {groups} do not divide the {count} channels of x: {x.type}"
        raise ShapeError("channel_shuffle", problem, source=user_source())
    shape = (*x.shape[:channels], groups, divide(count, groups), *x.shape[channels + 1 :])
    order = list(range(len(shape)))
    order[channels : channels + 2] = [channels + 1, channels]
    return reshape(permute_dims(reshape(x, shape), order), x.shape)
