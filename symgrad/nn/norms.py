"""Normalisation layers: layer, RMS, group, instance and local response norm, rows of length 1.

Each is computed in float32 for 16-bit floats, and in the dtype of `x` for others, whatever that of
its parameters, and rounded once to the dtype of `x`. Batch norm, which has a state, is in
`batch_norm.py`.
"""

from __future__ import annotations

from typing import Any

from symgrad.errors import DTypeError, ShapeError, user_source
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, normalize_axes
from symgrad.graph.ops.arithmetic import add, divide, multiply
from symgrad.graph.ops.comparison import less_equal, where
from symgrad.graph.ops.elementwise import float_operand, real_operand
from symgrad.graph.ops.marks import match_shape
from symgrad.graph.ops.reduction import any_zero
from symgrad.graph.ops.reduction import mean as mean_over
from symgrad.graph.ops.reduction import sum as sum_over
from symgrad.graph.ops.slicing import place
from symgrad.graph.ops.structure import Axes, accumulator_dtype, reshape
from symgrad.graph.ops.transcendental import pow, rsqrt
from symgrad.graph.ops.unfolding import unfold_axes
from symgrad.graph.ops.views import narrow
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import at_least
from symgrad.graph.sizes import divide as divide_size
from symgrad.graph.types import Shape
from symgrad.nn.deviations import moments_over
from symgrad.nn.layouts import Layout, along, channel_axis, check_count, spatial_axes


@public(known_as=["LayerNormalization"])
def layer_norm(
    x: Any, scale: Any = None, bias: Any = None, *, axis: Any = -1, epsilon: float = 1e-5
) -> Tensor:
    """Compute the layer norm: `(x - mean) / sqrt(variance + epsilon) * scale + bias` over `axis`.

    `axis` is an int or a tuple, and `scale` and `bias` have the sizes of these axes, or one number.
    The variance is that of all n elements, not the unbiased one. The mean is right to its last
    digits for rows far from 0 too; of a row of equal elements only `bias` remains. The result has
    the shape and dtype of `x`, integers become float32. Squares of deviations must not overflow.

    Raises `AxisError` for an axis that `x` does not have, `ShapeError` for parameters of another
    shape, `DTypeError` for parameters that are no numbers.

    J. Ba, J. Kiros, G. Hinton, "Layer normalization", 2016.

    >>> sg.run(sg.nn.layer_norm([[1.0, 3.0], [5.0, 5.0]]))
    array([[-0.999995,  0.999995],
           [ 0.      ,  0.      ]], dtype=float32)
    """
    x = float_operand(x)
    axes = normalize_axes("layer_norm", axis, x.ndim)
    return _normed("layer_norm", x, axes, epsilon, scale, bias)


def _normed(op: str, x: Tensor, axes: Axes, epsilon: float, scale: Any, bias: Any) -> Tensor:
    wide = cast(x, accumulator_dtype(x.dtype))
    factor, offset = (
        parameter_along(op, name, values, wide, axes)
        for name, values in (("scale", scale), ("bias", bias))
    )
    return cast(scaled(_normal(wide, axes, epsilon), factor, offset), x.dtype)


def _normal(x: Tensor, axes: Axes, epsilon: float) -> Tensor:
    if any_zero(x.type, axes):
        return x
    moments = moments_over(x, axes)
    return multiply(moments.deviation, rsqrt(add(moments.variance, epsilon)))


def scaled(normal: Tensor, factor: Tensor | None, offset: Tensor | None) -> Tensor:
    """Return `normal * factor + offset`, each of which may be None."""
    product = normal if factor is None else multiply(normal, factor)
    return product if offset is None else add(product, offset)


def parameter_along(op: str, name: str, values: Any, x: Tensor, axes: Axes) -> Tensor | None:
    """Return a parameter with one value for each position along `axes`, broadcast beside `x`.

    It is of the dtype of `x`. Raises `ShapeError` unless it has the sizes of these axes, or none.
    """
    if values is None:
        return None
    given = as_tensor(values)
    if given.dtype.is_bool:
        raise DTypeError(op, f"{name}: {given.type} is no number", source=user_source())
    wanted = tuple(x.shape[axis] for axis in axes)
    if given.ndim and not _may_be(given.shape, wanted):
        sizes = ", ".join(map(str, wanted))
        which = f"axis {axes[0]}" if len(axes) == 1 else f"axes {list(axes)}"
        raise ShapeError(
            op,
            f"{name}: {given.type} has not the shape [{sizes}] of {which} of x: {x.type}",
            source=user_source(),
        )
    wide = cast(given, x.dtype)
    return along(match_shape(wide, wanted), axes, x.ndim) if given.ndim else wide


def _may_be(shape: Shape, wanted: Shape) -> bool:
    """Return whether two shapes are equal, as far as their sizes are known."""
    if len(shape) != len(wanted):
        return False
    pairs = zip(shape, wanted, strict=True)
    return all(m == n or not isinstance(m, int) or not isinstance(n, int) for m, n in pairs)


@public(known_as=["RMSNormalization"])
def rms_norm(x: Any, scale: Any = None, *, axis: Any = -1, epsilon: float = 1e-6) -> Tensor:
    """Compute the RMS norm: `x / sqrt(mean(x**2) + epsilon) * scale`, the mean over `axis`.

    `axis` is an int or a tuple, and `scale` has the sizes of these axes, or is one number. The
    result has the shape and dtype of `x`, integers become float32. Squares must not overflow.
    Raises as `layer_norm`.

    B. Zhang, R. Sennrich, "Root mean square layer normalization", 2019.

    >>> sg.run(sg.nn.rms_norm([3.0, 4.0, 0.0, 0.0], epsilon=0.0))
    array([1.2, 1.6, 0. , 0. ], dtype=float32)
    """
    x = float_operand(x)
    axes = normalize_axes("rms_norm", axis, x.ndim)
    wide = cast(x, accumulator_dtype(x.dtype))
    factor = parameter_along("rms_norm", "scale", scale, wide, axes)
    squares = mean_over(multiply(wide, wide), axes, keepdims=True)
    normal = multiply(wide, rsqrt(add(squares, epsilon)))
    return cast(scaled(normal, factor, None), x.dtype)


@public(known_as=["GroupNormalization"])
def group_norm(
    x: Any,
    groups: int,
    scale: Any = None,
    bias: Any = None,
    *,
    epsilon: float = 1e-5,
    layout: Layout = "NHWC",
) -> Tensor:
    """Compute the group norm: a norm over all positions and the channels of each of `groups`.

    `x` is (batch, *spatial, channels), with `layout="NCHW"` (batch, channels, *spatial), with any
    number of spatial axes; group k has the channels from `k * channels / groups` on. `scale` and
    `bias` have one number for each channel, or one for all. Mean and variance are as in
    `layer_norm`, and the result has the shape and dtype of `x`.

    Raises `ShapeError` for groups that do not divide the channels and for parameters of another
    shape, `GraphError` for groups below 1 or another layout, `DTypeError` for groups that are no
    int.

    Y. Wu, K. He, "Group normalization", 2018.

    >>> sg.run(sg.nn.group_norm([[1.0, 3.0, 10.0, 30.0]], 2, epsilon=0.0))
    array([[-1.,  1., -1.,  1.]], dtype=float32)
    """
    x = float_operand(x)
    channels = channel_axis("group_norm", x, layout)
    groups = check_count("group_norm", "groups", groups)
    size = x.shape[channels]
    if isinstance(size, int) and size % groups:
        problem = f"groups: {groups} do not divide the {size} channels of x: {x.type}"
        raise ShapeError("group_norm", problem, source=user_source())
    wide = cast(x, accumulator_dtype(x.dtype))
    factor, offset = (
        parameter_along("group_norm", name, values, wide, (channels,))
        for name, values in (("scale", scale), ("bias", bias))
    )
    each = divide_size(size, groups)
    apart = reshape(wide, (*x.shape[:channels], groups, each, *x.shape[channels + 1 :]))
    axes = tuple(axis for axis in range(1, apart.ndim) if axis != channels)
    normal = reshape(_normal(apart, axes, epsilon), x.shape)
    return cast(scaled(normal, factor, offset), x.dtype)


@public(known_as=["InstanceNormalization"])
def instance_norm(
    x: Any,
    scale: Any = None,
    bias: Any = None,
    *,
    epsilon: float = 1e-5,
    layout: Layout = "NHWC",
) -> Tensor:
    """Compute the instance norm: each channel of each example, over all positions.

    It is `group_norm` with as many groups as channels; shapes and errors are as there.

    D. Ulyanov, A. Vedaldi, V. Lempitsky, "Instance normalization: the missing ingredient for fast
    stylization", 2016.

    >>> sg.run(sg.nn.instance_norm([[[1.0], [3.0]]], epsilon=0.0))
    array([[[-1.],
            [ 1.]]], dtype=float32)
    """
    x = float_operand(x)
    channels = channel_axis("instance_norm", x, layout)
    wide = cast(x, accumulator_dtype(x.dtype))
    factor, offset = (
        parameter_along("instance_norm", name, values, wide, (channels,))
        for name, values in (("scale", scale), ("bias", bias))
    )
    normal = _normal(wide, spatial_axes("instance_norm", x, layout), epsilon)
    return cast(scaled(normal, factor, offset), x.dtype)


@public(known_as=["local_response_normalization"])
def local_response_norm(
    x: Any,
    size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    k: float = 1.0,
    *,
    layout: Layout = "NHWC",
) -> Tensor:
    """Local response normalization (LRN): `x / (k + alpha * mean(x**2)) ** beta` across channels.

    The mean is over `size` neighbouring channels of the same position: `size // 2` before a
    channel, itself, and `(size - 1) // 2` after it. What is beyond the first and the last channel
    counts as zeros, so all means divide by `size`. `x` is (batch, *spatial, channels), with
    `layout="NCHW"` (batch, channels, *spatial), with any number of spatial axes. The result has the
    shape and dtype of `x`, integers become float32. Squares must not overflow.

    The formula of the paper has the sum where this has the mean, as PyTorch does: its `alpha` is
    `alpha / size` here. The gradient is finite wherever `k + alpha * mean` is positive; with `k`
    of 0 a neighbourhood of zeros is nan.

    Raises `ShapeError` without a batch and channels, `GraphError` for a size below 1 or another
    layout, `DTypeError` for a size that is no int.

    A. Krizhevsky, I. Sutskever, G. Hinton, "ImageNet classification with deep convolutional neural
    networks", 2012.

    >>> sg.run(sg.nn.local_response_norm([[1.0, 2.0, 4.0]], 2, alpha=2.0, beta=1.0, k=0.0))
    array([[1. , 0.4, 0.2]], dtype=float32)
    """
    x = real_operand("local_response_norm", x)
    channels = channel_axis("local_response_norm", x, layout)
    size = check_count("local_response_norm", "size", size)
    wide = cast(x, accumulator_dtype(x.dtype))
    shape, low = list(x.shape), [0] * x.ndim
    # Over no channels, too, there is a window.
    shape[channels], low[channels] = at_least(x.shape[channels] + (size - 1), size), size // 2
    squares = place(multiply(wide, wide), tuple(shape), tuple(low), (1,) * x.ndim)
    windows = unfold_axes(squares, (channels,), (size,), (1,), (1,))
    near = narrow(sum_over(windows, -1), channels, 0, x.shape[channels])
    scale = add(multiply(near, alpha / size), k)
    return cast(multiply(wide, pow(scale, -beta)), x.dtype)


@public(known_as=["UnitNormalization", "l2_normalize"])
def normalize(x: Any, axis: Any = -1, epsilon: float = 1e-12) -> Tensor:
    """Divide `x` by its Euclidean norm over `axis`, or by `epsilon` where the norm is less.

    So rows have length 1, but for those that are 0 or almost. Where the norm is less than
    `epsilon` the gradient is that of `x / epsilon`. The result has the shape and dtype of `x`,
    integers become float32. Squares must not overflow. Raises `AxisError` for an axis that `x`
    does not have.

    >>> sg.run(sg.nn.normalize([3.0, 4.0]))
    array([0.6, 0.8], dtype=float32)
    """
    x = float_operand(x)
    axes = normalize_axes("normalize", axis, x.ndim)
    wide = cast(x, accumulator_dtype(x.dtype))
    squares = sum_over(multiply(wide, wide), axes, keepdims=True)
    # The root of what is too small is never taken: its slope would be infinite at 0.
    limit = as_tensor(epsilon, wide.dtype)
    is_small = less_equal(squares, multiply(limit, limit))
    inverse = where(is_small, divide(1.0, limit), rsqrt(where(is_small, 1, squares)))
    return cast(multiply(wide, inverse), x.dtype)


@public()
def standardize(x: Any, axis: Any = -1, epsilon: float = 1e-5) -> Tensor:
    """Give `x` mean 0 and variance 1 over `axis`: the layer norm without parameters.

    `epsilon` is added to the variance. Raises `AxisError` for an axis that `x` does not have.

    >>> sg.run(sg.nn.standardize([1.0, 3.0], epsilon=0.0))
    array([-1.,  1.], dtype=float32)
    """
    x = float_operand(x)
    axes = normalize_axes("standardize", axis, x.ndim)
    return _normed("standardize", x, axes, epsilon, None, None)
