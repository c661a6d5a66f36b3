"""Maxima whose gradient goes to the first element that holds them, as max pooling has it.

`max` in `reduction` shares the gradient among equals. Equals are common here: what an activation
has cut off is 0 all over a window. Both are one fold, and differ in the gradient.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from symgrad.errors import CompileError
from symgrad.graph import dtypes
from symgrad.graph.build import apply
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.ops.comparison import equal, where
from symgrad.graph.ops.conversion import astype
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.reduction import argmax_op, max_op
from symgrad.graph.ops.structure import Axes, broadcast_to, kept_shape, reshape
from symgrad.graph.structures import Reduce
from symgrad.graph.types import Array, TensorType

_MOST = int(np.iinfo(np.int32).max)


def first_max(x: Tensor, axes: Axes) -> Tensor:
    """Take the greatest element along `axes`, nan if there is one; the first has the gradient."""
    return apply(first_max_op, x, axes=axes)


def _first_max_infer(x: TensorType, *, axes: Axes) -> TensorType:
    result = max_op.infer(x, axes=axes)
    assert isinstance(result, TensorType), "a maximum is one result"
    return result


def _first_max_reference(x: Array, *, axes: Axes) -> Array:
    assert max_op.reference is not None, "max has a meaning"
    return np.asarray(max_op.reference(x, axes=axes))


def _first_max_kernel(x: TensorType, *, axes: Axes) -> Reduce:
    assert max_op.kernel is not None, "max has a kernel"
    spec = max_op.kernel(x, axes=axes)
    assert isinstance(spec, Reduce), "max is a fold"
    return spec


def _first_max_grad(node: Node, g: Tensor, *, axes: Axes) -> Grads:
    (x,) = node.inputs
    kept = kept_shape(x.type, axes)
    first = broadcast_to(reshape(apply(first_argmax_op, x, axes=axes), kept), x.shape)
    spread = broadcast_to(reshape(g, kept), x.shape)
    return (where(equal(_positions(x, axes), first), spread, filled_like(x, 0)),)


def _positions(x: Tensor, axes: Axes) -> Tensor:
    """Return the row-major position of each element within `axes`, as an int32."""
    sizes = tuple(x.shape[axis] for axis in axes)
    flat = iota((x.type.with_shape(sizes).size,), 0)
    kept = tuple(n if axis in axes else 1 for axis, n in enumerate(x.shape))
    return broadcast_to(reshape(astype(flat, dtypes.int32), kept), x.shape)


first_max_op = define(
    "first_max",
    infer=_first_max_infer,
    reference=_first_max_reference,
    grad=_first_max_grad,
    kernel=_first_max_kernel,
)


def _first_argmax_infer(x: TensorType, *, axes: Axes) -> TensorType:
    result = argmax_op.infer(x, axes=axes)
    assert isinstance(result, TensorType), "a position is one result"
    return result.with_dtype(dtypes.int32)


def _first_argmax_reference(x: Array, *, axes: Axes) -> Array:
    assert argmax_op.reference is not None, "argmax has a meaning"
    return np.asarray(argmax_op.reference(x, axes=axes)).astype(np.int32)


def _first_argmax_kernel(x: TensorType, *, axes: Axes) -> Reduce:
    """Return the fold of argmax with positions as wide as most values are, and so its lanes."""
    assert argmax_op.kernel is not None, "argmax has a kernel"
    spec = argmax_op.kernel(x, axes=axes)
    assert isinstance(spec, Reduce), "argmax is a fold"
    if x.with_shape(tuple(x.shape[axis] for axis in axes)).count > _MOST:
        raise CompileError("first_argmax", f"axes {list(axes)} of x: {x} have too many elements")
    wide, _ = spec.dtypes
    return replace(
        spec,
        dtypes=(wide, dtypes.int32),
        identity=(spec.identity[0], _MOST),
        item=lambda s, x, position: (s.cast(x, wide), s.cast(position, dtypes.int32)),
    )


first_argmax_op = define(
    "first_argmax",
    infer=_first_argmax_infer,
    reference=_first_argmax_reference,
    grad="none",
    kernel=_first_argmax_kernel,
)
