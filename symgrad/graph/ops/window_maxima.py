"""Maxima whose gradient goes to the first element that holds them, as max pooling has it.

`max` in `reduction` shares the gradient among equals. Equals are common here: what an activation
has cut off is 0 all over a window. Both are one fold, and differ in the gradient.
"""

from __future__ import annotations

import numpy as np

from symgrad.graph import dtypes
from symgrad.graph.build import apply
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.ops.comparison import equal, isnan, logical_or, where
from symgrad.graph.ops.conversion import astype
from symgrad.graph.ops.elementwise import filled_like, is_number
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.reduction import infer_reduced, max_op, min_op
from symgrad.graph.ops.structure import Axes, broadcast_to, kept_shape, reshape
from symgrad.graph.structures import Reduce
from symgrad.graph.types import Array, TensorType


def first_max(x: Tensor, axes: Axes) -> Tensor:
    """Take the greatest element along `axes`, nan if there is one; the first has the gradient."""
    return apply(first_max_op, x, axes=axes)


def _first_max_reference(x: Array, *, axes: Axes) -> Array:
    assert max_op.reference is not None, "max has a meaning"
    return np.asarray(max_op.reference(x, axes=axes))


def _first_max_kernel(x: TensorType, *, axes: Axes) -> Reduce:
    assert max_op.kernel is not None, "max has a kernel"
    spec = max_op.kernel(x, axes=axes)
    assert isinstance(spec, Reduce), "max is a fold"
    return spec


# Note [Gradient of first_max]
# The first element that holds the maximum is the least position of those that do: a fold of int32
# positions by min, which is cheaper than one of pairs as argmax is, and as wide as most elements.


def _first_max_grad(node: Node, g: Tensor, *, axes: Axes) -> Grads:
    (x,) = node.inputs
    kept = kept_shape(x.type, axes)
    result = broadcast_to(reshape(node.output, kept), x.shape)
    positions = _positions(x, axes)
    holds = logical_or(equal(x, result), isnan(x))  # a nan is the result wherever there is one
    behind = filled_like(positions, int(np.iinfo(np.int32).max))
    first = apply(min_op, where(holds, positions, behind), axes=axes)
    is_first = equal(positions, broadcast_to(reshape(first, kept), x.shape))
    return (where(is_first, broadcast_to(reshape(g, kept), x.shape), filled_like(x, 0)),)


def _positions(x: Tensor, axes: Axes) -> Tensor:
    """Return the row-major position of each element within `axes`, as an int32."""
    sizes = tuple(x.shape[axis] for axis in axes)
    flat = iota((x.type.with_shape(sizes).size,), 0)
    kept = tuple(n if axis in axes else 1 for axis, n in enumerate(x.shape))
    return broadcast_to(reshape(astype(flat, dtypes.int32), kept), x.shape)


first_max_op = define(
    "first_max",
    infer=infer_reduced("first_max", is_number, needs_elements=True),
    reference=_first_max_reference,
    grad=_first_max_grad,
    kernel=_first_max_kernel,
)
