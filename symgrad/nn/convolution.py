"""Convolution layers, over 1 to 3 axes of space, and transposed ones.

Arguments are read and padding is added here; the product is the op `convolution`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symgrad.cost_model import LEAST_CHANNELS_LAST
from symgrad.errors import ShapeError, user_source
from symgrad.graph.given_arrays import as_int
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, promote_operands
from symgrad.graph.ops.arithmetic import add
from symgrad.graph.ops.convolution import conv_general
from symgrad.graph.ops.elementwise import filled, float_operand
from symgrad.graph.ops.marks import require_least
from symgrad.graph.ops.slicing import place, slice_axes
from symgrad.graph.ops.structure import permute_dims, reshape
from symgrad.graph.ops.unfolding import span_of
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim
from symgrad.nn.spatial import (
    Ints,
    Layout,
    PaddedWindows,
    Padding,
    axes_of_space,
    explicit_pads,
    per_axis,
    windows_of,
)
from symgrad.passes.gradients.reverse_mode import gradients


@public(known_as=["depthwise_conv", "separable_conv"])
def conv(
    x: Any,
    kernel: Any,
    bias: Any = None,
    *,
    strides: Any = 1,
    padding: Padding = "VALID",
    dilation: Any = 1,
    groups: int = 1,
    layout: Layout = "NHWC",
) -> Tensor:
    """Convolution (cross-correlation): products of each window of the axes of space with a kernel.

    `x` has shape (n, *space, channels) and `kernel` (*window, channels // groups, filters), with
    `layout="NCHW"` (n, channels, *space) and (filters, channels // groups, *window), for 1 to 3
    axes of space. `strides` and `dilation` are ints, or one for each of these. `padding`, by zeros,
    is "VALID", "SAME" as in TensorFlow, an int as in PyTorch, or for each axis an int or a pair
    (before, after). With `groups` each group of channels has filters of its own: as many groups as
    channels is a depthwise convolution.
    `bias`, of shape (filters,), is added. Dtypes promote, integers are float32; a 16-bit float is
    added up in float32 and rounded once. Along an axis there are
    `(size + before + after - dilation * (window - 1) - 1) // strides + 1` results, with "SAME"
    `size / strides` rounded up.

    It has gradients of any order: that to `x` is `conv_transpose`, that to the kernel a convolution
    of `x` with the gradient.

        >>> x = sg.constant([[[1.0], [2.0], [4.0]]])
        >>> kernel = sg.constant([[[1.0]], [[10.0]]])
        >>> sg.run(sg.nn.conv(x, kernel))[0, :, 0]
        array([21., 42.], dtype=float32)

    Raises `ShapeError` where channels and groups, windows, strides, padding or bias do not fit, and
    `GraphError` for another layout.
    """
    return _conv("conv", x, kernel, bias, strides, padding, dilation, groups, layout)


@public()
def conv1d(
    x: Any,
    kernel: Any,
    bias: Any = None,
    *,
    strides: Any = 1,
    padding: Padding = "VALID",
    dilation: Any = 1,
    groups: int = 1,
    layout: Layout = "NHWC",
) -> Tensor:
    """Convolution over one axis of space, as `conv`, whose arguments and errors it has.

    >>> x, kernel = sg.ones((2, 9, 3)), sg.ones((4, 3, 5))
    >>> sg.nn.conv1d(x, kernel, strides=2).shape
    (2, 3, 5)
    """
    return _conv("conv1d", x, kernel, bias, strides, padding, dilation, groups, layout, 1)


@public()
def conv2d(
    x: Any,
    kernel: Any,
    bias: Any = None,
    *,
    strides: Any = 1,
    padding: Padding = "VALID",
    dilation: Any = 1,
    groups: int = 1,
    layout: Layout = "NHWC",
) -> Tensor:
    """Convolution over two axes of space, as `conv`, whose arguments and errors it has.

    >>> x, kernel = sg.ones((2, 8, 8, 3)), sg.ones((3, 3, 3, 5))
    >>> sg.nn.conv2d(x, kernel, padding="SAME").shape
    (2, 8, 8, 5)
    >>> sg.nn.conv2d(x, kernel, padding=(1, 0)).shape
    (2, 8, 6, 5)
    """
    return _conv("conv2d", x, kernel, bias, strides, padding, dilation, groups, layout, 2)


@public()
def conv3d(
    x: Any,
    kernel: Any,
    bias: Any = None,
    *,
    strides: Any = 1,
    padding: Padding = "VALID",
    dilation: Any = 1,
    groups: int = 1,
    layout: Layout = "NHWC",
) -> Tensor:
    """Convolution over three axes of space, as `conv`, whose arguments and errors it has.

    >>> x, kernel = sg.ones((2, 3, 8, 8, 8)), sg.ones((5, 3, 2, 2, 2))
    >>> sg.nn.conv3d(x, kernel, strides=2, layout="NCHW").shape
    (2, 5, 4, 4, 4)
    """
    return _conv("conv3d", x, kernel, bias, strides, padding, dilation, groups, layout, 3)


def _conv(
    op: str,
    x: Any,
    kernel: Any,
    bias: Any,
    strides: Any,
    padding: Padding,
    dilation: Any,
    groups: int,
    layout: Layout,
    space: int | None = None,
) -> Tensor:
    x, kernel = _floats(op, x, kernel)
    window = _window(op, x, kernel, layout, space)
    groups = _group_count(op, groups)
    channels, taken = x.shape[_channels(layout)], _taken(kernel, layout)
    if _differ(channels, taken * groups):
        problem = f"{channels} channels of x are not {groups} groups of {taken}"
        _refuse_channels(op, x, kernel, problem)
    filters = kernel.shape[-1 if layout == "NHWC" else 0]
    if isinstance(filters, int) and filters % groups:
        _refuse_channels(op, x, kernel, f"{filters} filters do not divide into {groups} groups")
    settings = {"strides": strides, "padding": padding, "dilation": dilation}
    windows = windows_of(op, x, window, **settings, layout=layout)
    if layout == "NHWC" or groups > 1 or not _are_many(channels, filters):
        return _with_bias(op, _convolved(x, kernel, windows, groups, layout), bias, layout)
    # What is elementwise around a convolution reads through these permutations and needs no copy:
    # a network of such layers runs with its channels last, which products are faster with.
    after = range(2, x.ndim)
    x, kernel = permute_dims(x, (0, *after, 1)), permute_dims(kernel, (*after, 1, 0))
    windows = windows_of(op, x, window, **settings, layout="NHWC")
    y = _convolved(x, kernel, windows, groups, "NHWC")
    y = permute_dims(y, (0, x.ndim - 1, *range(1, x.ndim - 1)))
    return _with_bias(op, y, bias, layout)


def _convolved(
    x: Tensor, kernel: Tensor, windows: PaddedWindows, groups: int, layout: Layout
) -> Tensor:
    return conv_general(
        windows.padded(x),
        kernel,
        strides=windows.strides,
        dilation=windows.dilation,
        groups=groups,
        layout=layout,
    )


def _are_many(*counts: Dim) -> bool:
    """Return whether so many channels and filters are better side by side."""
    return all(isinstance(count, int) and count >= LEAST_CHANNELS_LAST for count in counts)


def _floats(op: str, x: Any, kernel: Any) -> tuple[Tensor, Tensor]:
    first, second = map(float_operand, promote_operands(op, x, kernel))
    return first, second


def _window(op: str, x: Tensor, kernel: Tensor, layout: Layout, space: int | None) -> Ints:
    """Return the sizes of the windows, having checked how many axes there are."""
    count = len(axes_of_space(op, x, layout))
    if space is not None and count != space:
        problem = f"x: {x.type} has {count} axes of space beside batch and channels, not {space}"
        raise ShapeError(op, problem, source=user_source())
    if kernel.ndim != x.ndim:
        last = layout == "NHWC"
        axes = "(*window, channels, filters)" if last else "(filters, channels, *window)"
        problem = f"ranks differ: x: {x.type}, kernel: {kernel.type}, which is {axes}"
        raise ShapeError(op, problem, source=user_source())
    window = kernel.shape[:count] if layout == "NHWC" else kernel.shape[2:]
    sizes = tuple(n for n in window if isinstance(n, int) and n > 0)
    if len(sizes) != count:
        problem = f"the window of kernel: {kernel.type} must have sizes that are known and not 0"
        raise ShapeError(op, problem, source=user_source())
    return sizes


def _channels(layout: Layout) -> int:
    return -1 if layout == "NHWC" else 1


def _taken(kernel: Tensor, layout: Layout) -> Dim:
    """Return the size of the axis of a kernel that is a part of channels."""
    return kernel.shape[-2 if layout == "NHWC" else 1]


def _group_count(op: str, groups: Any) -> int:
    count = as_int(groups)
    if count is None or count < 1:
        raise ShapeError(op, f"groups {groups!r} is no positive integer", source=user_source())
    return count


def _differ(m: Dim, n: Dim) -> bool:
    return isinstance(m, int) and isinstance(n, int) and m != n


def _refuse_channels(op: str, x: Tensor, kernel: Tensor, problem: str) -> None:
    whole = f"{problem}: x: {x.type}, kernel: {kernel.type}"
    raise ShapeError(op, whole, source=user_source())


def _with_bias(op: str, y: Tensor, bias: Any, layout: Layout) -> Tensor:
    if bias is None:
        return y
    bias = as_tensor(bias)
    filters = y.shape[_channels(layout)]
    if bias.ndim != 1 or _differ(bias.shape[0], filters):
        problem = f"bias: {bias.type} has not one element for each of {filters} filters"
        raise ShapeError(op, problem, source=user_source())
    after = (1,) * (y.ndim - 2 if layout == "NCHW" else 0)
    return add(y, reshape(bias, (*bias.shape, *after)))


@public()
def conv_tbc(x: Any, kernel: Any, bias: Any = None, *, padding: Padding = "VALID") -> Tensor:
    """Convolution of sequences whose time comes first: `x` is (time, batch, channels).

    `kernel` is (window, channels, filters), as of `conv1d`, and the result (time, batch, filters).
    `padding` is that of `conv`, an int as in PyTorch; the gradient and the errors are too.

    >>> x, kernel = sg.ones((9, 2, 3)), sg.ones((4, 3, 5))
    >>> sg.nn.conv_tbc(x, kernel, padding=1).shape
    (8, 2, 5)
    """
    given = as_tensor(x)
    if given.ndim != 3:
        problem = f"x: {given.type} is not of time, batch and channels"
        raise ShapeError("conv_tbc", problem, source=user_source())
    by_batch = permute_dims(given, (1, 0, 2))
    y = _conv("conv_tbc", by_batch, kernel, bias, 1, padding, 1, 1, "NHWC", 1)
    return permute_dims(y, (1, 0, 2))


# ------------------------------------------------------------------------------- transposed


@public(known_as=["conv_transpose2d"])
def conv_transpose(
    x: Any,
    kernel: Any,
    bias: Any = None,
    *,
    strides: Any = 1,
    padding: Padding = "VALID",
    dilation: Any = 1,
    groups: int = 1,
    output_padding: Any = 0,
    layout: Layout = "NHWC",
) -> Tensor:
    """Transposed convolution: the adjoint of `conv`, which takes its results to its operand.

    The kernel is that of the convolution: `x` has shape (n, *space, channels) and `kernel`
    (*window, filters // groups, channels), with `layout="NCHW"` (n, channels, *space) and
    (channels, filters // groups, *window). The arguments are those of the convolution; along an
    axis there are
    `(size - 1) * strides + dilation * (window - 1) + 1 - before - after + output_padding` results,
    with "SAME" `size * strides`. `output_padding`, an int or one for each axis, adds results at the
    end, which a convolution with strides leaves out. `bias` has shape (filters,). Dtypes promote.
    It has gradients of any order, and that to `x` is `conv`.

        >>> x = sg.constant([[[1.0], [2.0]]])
        >>> kernel = sg.constant([[[1.0]], [[10.0]]])
        >>> sg.run(sg.nn.conv_transpose(x, kernel, strides=2))[0, :, 0]
        array([ 1., 10.,  2., 20.], dtype=float32)

    Raises `ShapeError` where channels and groups, windows, strides, padding or bias do not fit,
    also if padding leaves no result, and `GraphError` for another layout.
    """
    op = "conv_transpose"
    x, kernel = _floats(op, x, kernel)
    window = _window(op, x, kernel, layout, None)
    groups = _group_count(op, groups)
    channels, given = x.shape[_channels(layout)], kernel.shape[-1 if layout == "NHWC" else 0]
    if _differ(channels, given):
        _refuse_channels(op, x, kernel, f"{channels} channels of x, and {given} of kernel")
    if isinstance(channels, int) and channels % groups:
        _refuse_channels(op, x, kernel, f"{channels} channels do not divide into {groups} groups")
    axes = axes_of_space(op, x, layout)
    steps = per_axis(op, "strides", strides, len(axes))
    gaps = per_axis(op, "dilation", dilation, len(axes))
    spans = tuple(map(span_of, window, gaps))
    shape = list(x.shape)
    shape[_channels(layout)] = _taken(kernel, layout) * groups
    for axis, stride, span in zip(axes, steps, spans, strict=True):
        shape[axis] = (x.shape[axis] - 1) * stride + span
        x = require_least(x, x.shape[axis], 1, op, f"axis {axis} of x: {{x}} has no elements")
    operand = filled(tuple(shape), 0, x.dtype)
    forward = conv_general(
        operand, kernel, strides=steps, dilation=gaps, groups=groups, layout=layout
    )
    (whole,) = gradients([forward], [operand], [x], stop_gradients=[kernel])
    assert whole is not None, "a convolution depends on its operand"
    extra = per_axis(op, "output_padding", output_padding, len(axes), least=0)
    cuts = _cuts(op, padding, x, axes, spans, steps, extra)
    return _with_bias(op, _cut(op, whole, axes, cuts), bias, layout)


def _cuts(
    op: str, padding: Padding, x: Tensor, axes: Ints, spans: Ints, strides: Ints, extra: Ints
) -> list[tuple[int, int]]:
    """Return how much is cut off before and after along each axis; less than 0 is added."""
    if isinstance(padding, str) and padding == "SAME":
        # n * stride results, where the convolution has (n - 1) * stride + span, and its padding.
        missing = [span - stride for span, stride in zip(spans, strides, strict=True)]
        pairs = [(max(n, 0) // 2, n - max(n, 0) // 2) for n in missing]
    else:
        pairs = list(explicit_pads(op, padding, len(axes)))
    return [(before, after - more) for (before, after), more in zip(pairs, extra, strict=True)]


def _cut(op: str, y: Tensor, axes: Ints, cuts: Sequence[tuple[int, int]]) -> Tensor:
    """Cut elements off before and after along axes; after, zeros may be added instead."""
    start, size, whole = [0] * y.ndim, list(y.shape), list(y.shape)
    for axis, (before, after) in zip(axes, cuts, strict=True):
        start[axis], size[axis] = before, y.shape[axis] - before - max(after, 0)
        whole[axis] = size[axis] + max(-after, 0)
        problem = f"padding leaves none of the {y.shape[axis]} results along axis {axis}"
        y = require_least(y, size[axis], 1, op, problem)
    kept = slice_axes(y, start, size, [1] * y.ndim)
    return place(kept, tuple(whole), (0,) * y.ndim, (1,) * y.ndim)
