"""Pooling layers: max, average and Lp pooling, and those whose windows adapt to a size.

Windows are views. A layer reads the elements of each where they are, and its gradient adds to them
where they are: no array of windows is in memory. What gives one to a user is in `unfolding`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, ShapeError, user_source
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast
from symgrad.graph.ops.arithmetic import abs, add, divide, floor_divide, multiply, subtract
from symgrad.graph.ops.comparison import (
    equal,
    greater_equal,
    isnan,
    less,
    logical_and,
    logical_or,
    where,
)
from symgrad.graph.ops.contraction import LABELS, contract
from symgrad.graph.ops.elementwise import float_operand, real_operand
from symgrad.graph.ops.extrema import minimum
from symgrad.graph.ops.gathering import gather, iota
from symgrad.graph.ops.marks import require_least
from symgrad.graph.ops.reduction import LEAST
from symgrad.graph.ops.reduction import min as min_over
from symgrad.graph.ops.reduction import sum as sum_over
from symgrad.graph.ops.structure import Axes, accumulator_dtype, expand_dims, reduce_sum, reshape
from symgrad.graph.ops.window_maxima import first_max
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim
from symgrad.graph.sizes import divide as divide_size
from symgrad.nn.powers import check_power, power, root
from symgrad.nn.spatial import Layout, PaddedWindows, Padding, axes_of_space, per_axis, windows_of
from symgrad.nn.unfolding import unfolded


@public(known_as=["MaxPooling"])
def max_pool(
    x: Any,
    window: Any,
    *,
    strides: Any = None,
    padding: Padding = "VALID",
    dilation: Any = 1,
    layout: Layout = "NHWC",
) -> Tensor:
    """Max pooling: the greatest element of each window of the axes of space, in each channel.

    `x` has shape (n, *space, c), with `layout="NCHW"` (n, c, *space), for 1 to 3 axes of space;
    `window`, `strides` (None: the window) and `dilation` are ints, or one for each of these.
    `padding` is "VALID", "SAME" as in TensorFlow, an int, or for each axis an int or a pair
    (before, after), of what is less than every element. The result has the dtype of `x` and
    `(size + before + after - dilation * (window - 1) - 1) // strides + 1` elements along an axis.
    A nan in a window is its result. The gradient goes to the first element of a window that holds
    the maximum, in row-major order.

        >>> x = sg.constant([[[1.0], [3.0], [2.0], [5.0]]])
        >>> sg.run(sg.nn.max_pool(x, 2))[0, :, 0]
        array([3., 5.], dtype=float32)

    Raises `ShapeError` for windows, strides or padding that do not fit `x`, among them windows that
    would have nothing but padding in them, and `DTypeError` for bools.
    """
    x = _numbers("max_pool", x)
    least = LEAST.get(x.dtype.name, LEAST["any"])
    windows = _pooled("max_pool", x, window, strides, padding, dilation, layout)
    return first_max(unfolded(windows.padded(x, least), windows), _last(windows, x.ndim))


@public()
def max_pool_with_indices(
    x: Any,
    window: Any,
    *,
    strides: Any = None,
    padding: Padding = "VALID",
    dilation: Any = 1,
    layout: Layout = "NHWC",
) -> tuple[Tensor, Tensor]:
    """Max pooling, and where in `x` each maximum is: what `max_unpool` takes.

    Arguments and the first result are those of `max_pool`. The second has its shape and is int64:
    row-major positions in the axes of space of `x`, without padding, each in its own image and
    channel. Of equals it is the first, as it is for the gradient, and of nan the first too, where
    PyTorch has the last.

        >>> x = sg.constant([[[1.0], [3.0], [5.0], [2.0]]])
        >>> y, indices = sg.nn.max_pool_with_indices(x, 2)
        >>> sg.run(indices)[0, :, 0]
        array([1, 2])

    Raises what `max_pool` does.
    """
    op = "max_pool_with_indices"
    x = _numbers(op, x)
    least = LEAST.get(x.dtype.name, LEAST["any"])
    windows = _pooled(op, x, window, strides, padding, dilation, layout)
    inside = _last(windows, x.ndim)
    seen = unfolded(windows.padded(x, least), windows)
    greatest = first_max(seen, inside)
    holds = logical_or(equal(seen, expand_dims(greatest, axis=inside)), isnan(seen))
    # Padding is behind every element: it counts in no window, each of which has an element.
    behind = int(np.iinfo(np.int64).max)
    place = unfolded(windows.padded(_positions(x, windows.axes), behind), windows)
    return greatest, min_over(where(holds, place, behind), inside)


def _positions(x: Tensor, axes: Axes) -> Tensor:
    """Return the row-major position of each element of `x` in `axes`, with the others of size 1."""
    sizes = tuple(x.shape[axis] for axis in axes)
    flat = iota((x.type.with_shape(sizes).size,), 0)
    return reshape(flat, tuple(n if axis in axes else 1 for axis, n in enumerate(x.shape)))


@public(known_as=["AveragePooling"])
def avg_pool(
    x: Any,
    window: Any,
    *,
    strides: Any = None,
    padding: Padding = "VALID",
    dilation: Any = 1,
    count_padding: bool = False,
    layout: Layout = "NHWC",
) -> Tensor:
    """Average pooling: the mean of each window of the axes of space, in each channel.

    Arguments and shapes are those of `max_pool`. It is the mean of what is no padding, unless
    padding counts, with `count_padding`, as zeros. Integers are averaged as float32, a 16-bit float
    is rounded once. The gradient to an element is the sum of those to the windows that it is in,
    each divided by the number of its elements.

        >>> x = sg.constant([[[1.0], [3.0], [2.0], [6.0]]])
        >>> sg.run(sg.nn.avg_pool(x, 2))[0, :, 0]
        array([2., 4.], dtype=float32)

    Raises `ShapeError` for windows, strides or padding that do not fit `x`, among them windows that
    would have nothing but padding in them.
    """
    x = float_operand(x)
    windows = _pooled("avg_pool", x, window, strides, padding, dilation, layout)
    total = _sums(cast(x, accumulator_dtype(x.dtype)), windows)
    count: Any = 1
    for place, axis in enumerate(windows.axes):
        size = windows.window[place]
        is_cut = windows.pads[place] != (0, 0) and not count_padding
        each = _counted(windows, place, x.shape[axis], total) if is_cut else size
        count = (
            count * each
            if isinstance(count, int) and isinstance(each, int)
            else multiply(count, each)
        )
    return cast(divide(total, count), x.dtype)


@public()
def lp_pool(
    x: Any,
    p: float,
    window: Any,
    *,
    strides: Any = None,
    padding: Padding = "VALID",
    dilation: Any = 1,
    layout: Layout = "NHWC",
) -> Tensor:
    """Lp pooling, power-average pooling: `sum(x**p) ** (1 / p)` of each window of space.

    `p` is a positive number; for 1 it is the sum, for infinity the greatest absolute value. The
    other arguments and shapes are those of `max_pool`; padding is zeros, which add nothing. As in
    PyTorch, `x` has its sign: an odd `p` can give a negative sum, whose root is nan but for `p` 1,
    and so is the power of what is negative for a `p` that is no integer; `sg.abs(x)` has a root
    for every `p`. The result has the dtype of `x`, integers become float32, and a 16-bit float is
    rounded once. Powers must not overflow.

        >>> x = sg.constant([[[3.0], [4.0], [0.0], [2.0]]])
        >>> sg.run(sg.nn.lp_pool(x, 2, 2))[0, :, 0]
        array([5., 2.], dtype=float32)

    The gradient to an element is that to each window it is in times `(x / result) ** (p - 1)`. It
    is 0 where the sum is 0, and to an element of 0 for a `p` below 1, where PyTorch's is infinite
    or nan. For infinity it goes to the first of equals.

    Raises `ShapeError` for windows, strides or padding that do not fit `x`, `GraphError` for a `p`
    that is not positive, `DTypeError` for one that is no number.

    P. Sermanet, S. Chintala, Y. LeCun, "Convolutional neural networks applied to house numbers
    digit classification", 2012.
    """
    x = real_operand("lp_pool", x)
    exponent = check_power("lp_pool", p)
    windows = _pooled("lp_pool", x, window, strides, padding, dilation, layout)
    if math.isinf(exponent):
        return first_max(unfolded(windows.padded(abs(x)), windows), _last(windows, x.ndim))
    # The powers are padded, not `x`: of what is padding no power is computed.
    powers = power(cast(x, accumulator_dtype(x.dtype)), exponent)
    return cast(root(_sums(powers, windows), exponent), x.dtype)


def _sums(x: Tensor, windows: PaddedWindows) -> Tensor:
    """Return the sum of each window, whose padding is zeros."""
    return reduce_sum(unfolded(windows.padded(x), windows), _last(windows, x.ndim))


def _counted(windows: PaddedWindows, place: int, size: Dim, total: Tensor) -> Tensor:
    """Return how many elements of each window along an axis are no padding, for all of `total`."""
    axis = windows.axes[place]
    shape = (total.shape[axis], windows.window[place])
    begins = multiply(iota(shape, 0), windows.strides[place])
    offsets = subtract(multiply(iota(shape, 1), windows.dilation[place]), windows.pads[place][0])
    position = add(begins, offsets)
    is_inside = logical_and(greater_equal(position, 0), less(position, size))
    counted = sum_over(cast(is_inside, total.dtype), 1)
    return reshape(counted, [n if a == axis else 1 for a, n in enumerate(total.shape)])


def _numbers(op: str, x: Any) -> Tensor:
    tensor = as_tensor(x)
    if tensor.dtype.is_bool:
        raise DTypeError(op, f"x: {tensor.type} is no number", source=user_source())
    return tensor


def _pooled(
    op: str, x: Tensor, window: Any, strides: Any, padding: Padding, dilation: Any, layout: Layout
) -> PaddedWindows:
    """Return the windows of a pooling layer, each of which must have an element of `x`."""
    size = per_axis(op, "window", window, len(axes_of_space(op, x, layout)))
    steps = size if strides is None else strides
    windows = windows_of(
        op, x, size, strides=steps, padding=padding, dilation=dilation, layout=layout
    )
    for axis, pad, span in zip(windows.axes, windows.pads, windows.spans, strict=True):
        widest = max(n if isinstance(n, int) else 0 for n in pad)
        if widest >= span:
            problem = (
                f"padding by {widest} in axis {axis} of x: {x.type} leaves windows that reach over "
                f"{span} without an element"
            )
            raise ShapeError(op, problem, source=user_source())
    return windows


def _last(windows: PaddedWindows, ndim: int) -> Axes:
    """Return the axes that are places within windows, which follow the `ndim` of a tensor."""
    return tuple(range(ndim, ndim + len(windows.axes)))


# ---------------------------------------------------------------------------------- adaptive


@public(known_as=["GlobalAveragePooling"])
def adaptive_avg_pool(x: Any, size: Any, *, layout: Layout = "NHWC") -> Tensor:
    """Adaptive average pooling: means of windows that are chosen for the result to have `size`.

    `x` is as in `max_pool`; `size` is an int, or one for each axis of space. Of an axis of n
    elements that gets m the window i reaches from floor(i * n / m) to before ceil((i + 1) * n / m).
    The dtype is as in `avg_pool`. The gradient to an element is the sum of those to the windows
    that it is in, each divided by the number of its elements.

        >>> x = sg.constant([[[1.0], [3.0], [5.0]]])
        >>> sg.run(sg.nn.adaptive_avg_pool(x, 2))[0, :, 0]
        array([2., 4.], dtype=float32)

    Raises `ShapeError` for a size that does not fit `x`, and for an empty axis.
    """
    x = float_operand(x)
    x, axes, wanted = _adaptive("adaptive_avg_pool", x, size, layout)
    window = _even_windows(x, axes, wanted)
    if window is not None:
        return avg_pool(x, window, layout=layout)
    result = cast(x, accumulator_dtype(x.dtype))
    for axis, count in zip(axes, wanted, strict=True):
        result = _averaged(result, axis, count)
    return cast(result, x.dtype)


def _averaged(x: Tensor, axis: int, count: int) -> Tensor:
    """Average windows of one axis, as a product with the weights of each element in each."""
    size = x.shape[axis]
    begin, end = _bounds(iota((count, size), 0), size, count)
    place = iota((count, size), 1)
    is_inside = logical_and(greater_equal(place, begin), less(place, end))
    weights = divide(cast(is_inside, x.dtype), cast(subtract(end, begin), x.dtype))
    labels = LABELS[: x.ndim]
    out = labels.replace(labels[axis], LABELS[x.ndim])
    return contract(x, weights, labels, LABELS[x.ndim] + labels[axis], out)


@public(known_as=["GlobalMaxPooling"])
def adaptive_max_pool(x: Any, size: Any, *, layout: Layout = "NHWC") -> Tensor:
    """Adaptive max pooling: maxima of windows that are chosen for the result to have `size`.

    `x` is as in `max_pool`, and so are dtype and gradient; the windows are those of
    `adaptive_avg_pool`. Raises `ShapeError` for a size that does not fit `x`, and for an empty
    axis, and `DTypeError` for bools.

        >>> x = sg.constant([[[1.0], [3.0], [5.0]]])
        >>> sg.run(sg.nn.adaptive_max_pool(x, 2))[0, :, 0]
        array([3., 5.], dtype=float32)
    """
    x = _numbers("adaptive_max_pool", x)
    x, axes, wanted = _adaptive("adaptive_max_pool", x, size, layout)
    window = _even_windows(x, axes, wanted)
    if window is not None:
        return max_pool(x, window, layout=layout)
    # The longest windows; in a shorter one the last element stands several times, and the first
    # of these is the one that counts.
    sizes = [x.shape[axis] for axis in axes]
    longest = tuple(divide_size(n + (m - 1), m) + 1 for n, m in zip(sizes, wanted, strict=True))
    places = []
    for number, (n, m) in enumerate(zip(sizes, wanted, strict=True)):
        begin, end = _bounds(iota((*wanted, *longest), number), n, m)
        offset = iota((*wanted, *longest), len(axes) + number)
        places.append(minimum(add(begin, offset), subtract(end, 1)))
    first = axes[-1] + 1
    return first_max(gather(x, places, axes[0]), tuple(range(first, first + len(axes))))


def _bounds(window: Tensor, size: Dim, count: int) -> tuple[Tensor, Tensor]:
    """Return where windows of an axis begin and end: i * n / m and (i + 1) * n / m, rounded out."""
    begin = floor_divide(multiply(window, size), count)
    end = floor_divide(add(multiply(add(window, 1), size), count - 1), count)
    return begin, end


def _adaptive(op: str, x: Tensor, size: Any, layout: Layout) -> tuple[Tensor, Axes, Axes]:
    axes = axes_of_space(op, x, layout)
    for axis in axes:
        x = require_least(x, x.shape[axis], 1, op, f"axis {axis} of x: {{x}} has no elements")
    return x, axes, per_axis(op, "size", size, len(axes))


def _even_windows(x: Tensor, axes: Axes, wanted: Axes) -> Axes | None:
    """Return the windows if they are all of one size and do not meet, None if they are not."""
    window = []
    for axis, count in zip(axes, wanted, strict=True):
        size = x.shape[axis]
        if not isinstance(size, int) or size % count:
            return None
        window.append(size // count)
    return tuple(window)
