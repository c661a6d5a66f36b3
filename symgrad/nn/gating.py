"""Gates and relaxed choices: glu, and the Gumbel softmax."""

from __future__ import annotations

from typing import Any

from symgrad.errors import GraphError, ShapeError, user_source
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast, normalize_axis
from symgrad.graph.ops.arithmetic import add, divide, multiply, subtract
from symgrad.graph.ops.conversion import stop_gradient
from symgrad.graph.ops.elementwise import float_operand
from symgrad.graph.ops.indexing import one_hot
from symgrad.graph.ops.reduction import argmax
from symgrad.graph.ops.structure import accumulator_dtype
from symgrad.graph.ops.transcendental import sigmoid
from symgrad.graph.ops.views import split
from symgrad.graph.public_ops import public
from symgrad.nn.activations import softmax
from symgrad.random.keyed import draws_of


@public()
def glu(x: Any, /, axis: int = -1) -> Tensor:
    """Compute the gated linear unit: the first half of `x` along `axis`, times sigmoid(the second).

    Raises `ShapeError` for a size that is not even, `AxisError` for an axis that `x` does not have.

    Y. Dauphin, A. Fan, M. Auli, D. Grangier, "Language modeling with gated convolutional
    networks", 2016.

    >>> sg.run(sg.nn.glu([1.0, 2.0, 0.0, 100.0]))
    array([0.5, 2. ], dtype=float32)
    """
    x = float_operand(x)
    axis = normalize_axis("glu", axis, x.ndim)
    size = x.shape[axis]
    if isinstance(size, int) and size % 2:
        problem = f"axis {axis} of x: {x.type} has no two halves"
        raise ShapeError("glu", problem, source=user_source())
    values, gates = split(x, 2, axis)
    return multiply(values, sigmoid(gates))


@public()
def gumbel_softmax(
    logits: Any,
    generator: Any,
    *,
    temperature: float | Tensor = 1,
    hard: bool = False,
    axis: int = -1,
) -> Tensor:
    """Draw by the Gumbel softmax: `softmax((logits + noise) / temperature)` over `axis`.

    The noise is of the Gumbel distribution, drawn by `generator`, a generator or a key: so the
    greatest element is at k with the chance `softmax(logits)[k]`. With `hard` the result is 1 there
    and 0 elsewhere, and the gradient that of the soft one (straight through). Raises `GraphError`
    for a temperature that is not positive, `DTypeError` for what is neither generator nor key.

    E. Jang, S. Gu, B. Poole, "Categorical reparameterization with Gumbel-softmax", 2016;
    C. Maddison, A. Mnih, Y. W. Teh, "The concrete distribution", 2016.

    >>> y = sg.nn.gumbel_softmax([0.0, 100.0], sg.random.key(0), hard=True)
    >>> sg.run(y)
    array([0., 1.], dtype=float32)
    """
    if not isinstance(temperature, Tensor) and not temperature > 0:
        problem = f"temperature is {temperature!r}, it must be positive"
        raise GraphError("gumbel_softmax", problem, source=user_source())
    x = float_operand(logits)
    axis = normalize_axis("gumbel_softmax", axis, x.ndim)
    wide = accumulator_dtype(x.dtype)
    noise = draws_of("gumbel_softmax", generator).gumbel(x.shape, wide)
    soft = softmax(divide(add(cast(x, wide), noise), temperature), axis)
    if not hard:
        return cast(soft, x.dtype)
    chosen = one_hot(argmax(soft, axis), x.shape[axis], soft.dtype, axis)
    # The difference is exactly 0, and has the gradient.
    return cast(add(chosen, subtract(soft, stop_gradient(soft))), x.dtype)
