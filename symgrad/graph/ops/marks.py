"""Identity ops that add a demand: on the gradient of their operand, its shape, sizes or its ranks.

`stop_gradient` and `identity`, which demand nothing, are elementwise ops and not here.
"""

from __future__ import annotations

from typing import Any

from symgrad.errors import IndexOutOfRangeError, NoGradientError, ShapeError, user_source
from symgrad.graph.batch_rules import batch_to_shape
from symgrad.graph.build import apply
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import as_tensor, meet_shapes
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim, is_natural
from symgrad.graph.structures import Map
from symgrad.graph.types import Array, Shape, TensorType

_SAME_ELEMENT = Map(lambda _s, x: x)


@public()
def prevent_gradient(x: Any, message: str = "", name: str | None = None) -> Tensor:
    """Return `x`, through which no gradient may be asked for: that is a `NoGradientError`.

    >>> x = sg.placeholder((2,))
    >>> sg.gradients(sg.prevent_gradient(x, "seen in evaluation only"), x)
    Traceback (most recent call last):
        ...
    symgrad.errors.NoGradientError: ...: seen in evaluation only...
    """
    return apply(prevent_gradient_op, as_tensor(x), name=name, message=message)


def _prevent_gradient_infer(x: TensorType, *, message: str) -> TensorType:
    return x


def _prevent_gradient_reference(x: Array, *, message: str) -> Array:
    return x


def _prevent_gradient_grad(node: Node, _g: Tensor, *, message: str) -> Grads:
    problem = f"the gradient of {node.inputs[0].type} was disabled on purpose"
    raise NoGradientError(
        "prevent_gradient", f"{problem}: {message}" if message else problem, source=node.source
    )


def _prevent_gradient_kernel(_x: TensorType, *, message: str) -> Map:
    return _SAME_ELEMENT


prevent_gradient_op = define(
    "prevent_gradient",
    infer=_prevent_gradient_infer,
    reference=_prevent_gradient_reference,
    grad=_prevent_gradient_grad,
    kernel=_prevent_gradient_kernel,
    of_pairs="each",
)


def match_shape(x: Tensor, shape: Shape) -> Tensor:
    """Return `x` with its shape written as `shape`, itself if it is; raises if they differ.

    Where a size is unknown, that the two are equal is checked when the program is called: a
    reshape or a broadcast would let other sizes pass.
    """
    return x if x.shape == shape else apply(match_shape_op, x, shape=shape)


def _match_shape_infer(x: TensorType, *, shape: Shape) -> TensorType:
    wanted = x.with_shape(shape)
    meet_shapes("match_shape", "x", x, "the shape wanted", wanted)
    return wanted


def _match_shape_reference(x: Array, *, shape: Shape) -> Array:
    return x


def _match_shape_grad(node: Node, g: Tensor, *, shape: Shape) -> Grads:
    return (match_shape(g, node.inputs[0].shape),)


def _match_shape_kernel(_x: TensorType, *, shape: Shape) -> Map:
    return _SAME_ELEMENT


match_shape_op = define(
    "match_shape",
    infer=_match_shape_infer,
    reference=_match_shape_reference,
    grad=_match_shape_grad,
    kernel=_match_shape_kernel,
    batch=batch_to_shape,
    gradient_mask="moved",  # a size of the gradient is written in another way
    of_pairs="each",
)


def require_least(
    x: Tensor, size: Dim, least: int, op: str, problem: str, *, is_index: bool = False
) -> Tensor:
    """Return `x`; raise a `ShapeError` about `op` unless `size` is `least` or more.

    Where the size is unknown, that is checked when the program is called. In `problem`, `{x}`
    stands for the type of `x` and `{size}` for the size. With `is_index` it is an
    `IndexOutOfRangeError`.
    """
    if is_natural(size - least):
        return x
    if isinstance(size, int):
        refused = IndexOutOfRangeError if is_index else ShapeError
        raise refused(op, _told(problem, x.type, size), source=user_source())
    return apply(
        require_least_op, x, size=size, least=least, about=op, problem=problem, is_index=is_index
    )


def _require_least_infer(
    x: TensorType, *, size: Dim, least: int, about: str, problem: str, is_index: bool
) -> TensorType:
    if isinstance(size, int) and size < least:
        refused = IndexOutOfRangeError if is_index else ShapeError
        raise refused(about, _told(problem, x, size))
    return x


def _told(problem: str, x: TensorType, size: int) -> str:
    """Return `problem` about `x` and a size, in which names may have braces."""
    return problem.replace("{size}", str(size)).replace("{x}", str(x))


def _require_least_reference(
    x: Array, *, size: Dim, least: int, about: str, problem: str, is_index: bool
) -> Array:
    return x


def _require_least_grad(
    _node: Node, g: Tensor, *, size: Dim, least: int, about: str, problem: str, is_index: bool
) -> Grads:
    # A gradient may be all that a program computes.
    return (require_least(g, size, least, about, problem, is_index=is_index),)


def _require_least_kernel(
    _x: TensorType, *, size: Dim, least: int, about: str, problem: str, is_index: bool
) -> Map:
    return _SAME_ELEMENT


require_least_op = define(
    "require_least",
    infer=_require_least_infer,
    reference=_require_least_reference,
    grad=_require_least_grad,
    kernel=_require_least_kernel,
    of_pairs="each",
)


def same_on_ranks(x: Tensor, group: str) -> Tensor:
    """Return `x`, of which a user has said that it is the same on all ranks of `group`."""
    return apply(same_on_ranks_op, x, group=group)


def _same_on_ranks_infer(x: TensorType, *, group: str) -> TensorType:
    return x


def _same_on_ranks_reference(x: Array, *, group: str) -> Array:
    return x


def _same_on_ranks_grad(_node: Node, g: Tensor, *, group: str) -> Grads:
    return (g,)


def _same_on_ranks_kernel(_x: TensorType, *, group: str) -> Map:
    return _SAME_ELEMENT


same_on_ranks_op = define(
    "same_on_ranks",
    infer=_same_on_ranks_infer,
    reference=_same_on_ranks_reference,
    grad=_same_on_ranks_grad,
    kernel=_same_on_ranks_kernel,
    of_pairs="each",
)
