"""Products of vectors and blocks: the cross product and Kronecker's; no op is declared here."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import ShapeError, called, user_source
from symgrad.graph.node import Tensor
from symgrad.graph.operands import promote_operands
from symgrad.graph.ops.arithmetic import multiply, subtract
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import reshape
from symgrad.graph.ops.views import moveaxis, narrow
from symgrad.graph.public_ops import public


@public(functions=[np.cross])
def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Tensor:
    """Cross product of vectors of 3 elements, which lie along an axis of `a` and one of `b`.

    The other axes broadcast, and the result has its vectors along `axisc`; `axis` stands for all
    three. The dtype is that of the two promoted. Gradients are cross products too. Raises
    `ShapeError` for vectors of another size.

    >>> sg.run(sg.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]))
    array([0., 0., 1.], dtype=float32)
    """
    with called("cross"):
        if axis is not None:
            axisa = axisb = axisc = axis
        x, y = promote_operands("cross", a, b)
        x, y = (_with_vectors_last(n, v, at) for n, v, at in (("a", x, axisa), ("b", y, axisb)))
        (x0, x1, x2), (y0, y1, y2) = (
            tuple(narrow(v, v.ndim - 1, i, 1) for i in range(3)) for v in (x, y)
        )
        pairs = ((x1, y2, x2, y1), (x2, y0, x0, y2), (x0, y1, x1, y0))
        parts = [subtract(multiply(p, q), multiply(r, s)) for p, q, r, s in pairs]
        return moveaxis(concat(parts, axis=-1), -1, axisc)


def _with_vectors_last(name: str, x: Tensor, axis: int) -> Tensor:
    if x.ndim == 0:
        raise ShapeError("cross", f"{name}: {x.type} is no vector", source=user_source())
    moved = moveaxis(x, axis, -1)
    size = moved.shape[-1]
    if isinstance(size, int) and size != 3:
        problem = f"{name}: {x.type} has vectors of {size} elements along axis {axis}, not 3"
        raise ShapeError("cross", problem, source=user_source())
    return reshape(moved, (*moved.shape[:-1], 3))  # checked when the size is known


@public(functions=[np.kron])
def kron(a: Any, b: Any, /) -> Tensor:
    """Kronecker product: `b` times each element of `a`, in its place as a block.

    Of two matrices of m x n and p x q the result has mp x nq; of two tensors sizes multiply axis by
    axis, where axes of size 1 stand before those of the one that has fewer. The dtype is the common
    one; the gradient by each is summed over the blocks, weighted by the other.

    >>> sg.run(sg.kron([1, 10], [1, 2, 3]))
    array([ 1,  2,  3, 10, 20, 30], dtype=int32)
    """
    with called("kron"):
        x, y = promote_operands("kron", a, b)
        ndim = max(x.ndim, y.ndim)
        blocks = (*(1,) * (ndim - x.ndim), *x.shape)
        within = (*(1,) * (ndim - y.ndim), *y.shape)
        outer = reshape(x, tuple(size for n in blocks for size in (n, 1)))
        inner = reshape(y, tuple(size for n in within for size in (1, n)))
        shape = tuple(m * n for m, n in zip(blocks, within, strict=True))
        return reshape(multiply(outer, inner), shape)
