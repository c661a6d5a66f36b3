"""Batch norm: the one normalisation layer with a state, running statistics of the batches seen."""

from __future__ import annotations

from typing import Any

from symgrad.errors import DTypeError, ShapeError, user_source
from symgrad.graph.graph import Update
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, normalize_axis
from symgrad.graph.ops.arithmetic import add, divide, multiply, subtract
from symgrad.graph.ops.conversion import size_of
from symgrad.graph.ops.elementwise import float_operand
from symgrad.graph.ops.extrema import maximum
from symgrad.graph.ops.marks import require_least
from symgrad.graph.ops.structure import accumulator_dtype, reshape
from symgrad.graph.ops.transcendental import rsqrt
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim
from symgrad.nn.deviations import moments_over
from symgrad.nn.norms import parameter_along, scaled

_OP = "batch_norm"
_TOO_FEW = "training takes more than one element a channel, x: {x} has {size}"
Updates = list[Any]  # an Update each, or pairs of tensors


@public(known_as=["BatchNormalization"])
def batch_norm(
    x: Any,
    mean: Any,
    variance: Any,
    scale: Any = None,
    bias: Any = None,
    *,
    training: bool,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    axis: int = -1,
) -> tuple[Tensor, Updates]:
    """Compute the batch norm of each position along `axis`, and what its statistics become.

    The result is a pair `(y, updates)`, where `y = (x - mean) / sqrt(variance + epsilon) * scale +
    bias` has the shape and dtype of `x`; all four parameters have the size of `axis`, which is -1
    for channels last and 1 for channels first. In training the mean and the variance are those of
    the batch, over all other axes, and the gradient goes through them; `updates` move the running
    ones, variables, to `momentum * old + (1 - momentum) * batch`, the variance unbiased (by n - 1,
    of which 1 is left at least). Else the running ones are used, and `updates` is empty.

    For running statistics that are no variables `updates` has pairs of the old value and the new
    one, for the carry of a loop; with None for both, in training, there are none. Raises
    `AxisError` for an axis that `x` does not have, `ShapeError` for parameters of another shape and
    for a batch of which a variance cannot be told, `DTypeError` without running statistics.

    S. Ioffe, C. Szegedy, "Batch normalization", 2015; PyTorch's momentum is one less ours.

    >>> mean, variance = sg.variable(np.zeros(2, "float32")), sg.variable(np.ones(2, "float32"))
    >>> x = sg.constant([[1.0, 10.0], [3.0, 30.0]])
    >>> y, updates = sg.nn.batch_norm(x, mean, variance, training=True)
    >>> step = sg.compile([], y, updates)
    >>> step(), mean.value
    (array([[-0.999995, -1.      ],
           [ 0.999995,  1.      ]], dtype=float32), array([0.2, 2. ], dtype=float32))
    """
    x = float_operand(x)
    channels = normalize_axis(_OP, axis, x.ndim)
    axes = tuple(a for a in range(x.ndim) if a != channels)
    count = x.type.with_shape(tuple(x.shape[a] for a in axes)).size
    wide = cast(_with_enough(x, count) if training else x, accumulator_dtype(x.dtype))
    running = [
        _statistic(n, s, wide, channels) for n, s in (("mean", mean), ("variance", variance))
    ]
    factor, offset = (
        parameter_along(_OP, name, values, wide, (channels,))
        for name, values in (("scale", scale), ("bias", bias))
    )
    if not training:
        normal = _by_running(wide, running, epsilon)
        return cast(scaled(normal, factor, offset), x.dtype), []
    moments = moments_over(wide, axes)
    unbiased = multiply(moments.variance, _correction(count, wide))
    updates = [
        _update(old, reshape(batch, (x.shape[channels],)), momentum)
        for old, batch in ((mean, moments.mean), (variance, unbiased))
        if old is not None
    ]
    normal = multiply(moments.deviation, rsqrt(add(moments.variance, epsilon)))
    return cast(scaled(normal, factor, offset), x.dtype), updates


def _statistic(name: str, values: Any, x: Tensor, channels: int) -> Tensor | None:
    if values is not None and not as_tensor(values).ndim:
        problem = f"{name}: {as_tensor(values).type} has no axis for the channels of x: {x.type}"
        raise ShapeError(_OP, problem, source=user_source())
    if values is not None and not as_tensor(values).dtype.is_float:
        raise DTypeError(_OP, f"{name}: {as_tensor(values).type} is no float", source=user_source())
    return parameter_along(_OP, name, values, x, (channels,))


def _by_running(x: Tensor, running: list[Tensor | None], epsilon: float) -> Tensor:
    mean, variance = running
    if mean is None or variance is None:
        missing = "mean" if mean is None else "variance"
        raise DTypeError(_OP, f"{missing} is None, which is for training", source=user_source())
    return multiply(subtract(x, mean), rsqrt(add(variance, epsilon)))


def _with_enough(x: Tensor, count: Dim) -> Tensor:
    """Return `x`, which has more than one element a channel, or one if that was not known."""
    # A last batch of one, of a size that was not known, has a variance of 0.
    least = 2 if isinstance(count, int) else 1
    return require_least(x, count, least, _OP, _TOO_FEW)


def _correction(count: Dim, x: Tensor) -> Any:
    """Return n / (n - 1), which makes a variance unbiased."""
    if isinstance(count, int):
        return count / (count - 1)
    number = size_of(count, x.dtype)
    return divide(number, maximum(subtract(number, 1), 1))


def _update(old: Any, batch: Tensor, momentum: float) -> Update | tuple[Tensor, Tensor]:
    held = as_tensor(old)
    # In the wider of the two dtypes, so that a small step is not lost before it is added.
    wide = cast(held, accumulator_dtype(held.dtype))
    moved = add(multiply(wide, momentum), multiply(cast(batch, wide.dtype), 1 - momentum))
    new = cast(moved, held.dtype)
    return Update(held, new) if isinstance(held, Variable) else (held, new)
