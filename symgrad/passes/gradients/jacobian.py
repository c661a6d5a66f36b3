"""Jacobians and Hessians: derivatives of every element, each computed for all seeds at once.

The gradient, or the tangent, is built once, for a seed that is a node of its own, then for all
unit seeds along an axis of its own by `symgrad/passes/batching/vmap.py`. There is no loop over
seeds, and the size of the graph does not depend on their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from symgrad.errors import DTypeError, user_source
from symgrad.frontend.matrices import eye
from symgrad.frontend.nests import flatten, leaf_names, unflatten
from symgrad.graph.build import name_scope
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.conversion import identity
from symgrad.graph.ops.elementwise import filled, filled_like
from symgrad.graph.ops.structure import permute_dims, reshape
from symgrad.passes.batching.vmap import batch
from symgrad.passes.gradients.arguments import read_xs
from symgrad.passes.gradients.forward_mode import jvp
from symgrad.passes.gradients.reverse_mode import gradients


@overload
def jacobian(y: Any, x: Tensor) -> Tensor: ...


@overload
def jacobian(y: Any, x: Any) -> Any: ...


def jacobian(y: Any, x: Any) -> Any:
    """Return the derivative of each element of `y` by each element of `x`, zeros where none is.

    Its shape is that of `y` and then that of `x`, its dtype that of `x`. It is computed from the
    side that has fewer elements. Of a nest of xs it is the same nest of Jacobians. Raises
    `TypeError` for what are no floats.

    >>> x = sg.placeholder((2,), name="x")
    >>> sg.run(sg.jacobian(x**2, x), {x: np.float32([1.0, 2.0])})
    array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    target = as_tensor(y)
    leaves, nest = flatten(x)
    sources = [as_tensor(leaf) for leaf in leaves]
    _require_floats("jacobian", "y", target)
    for label, source in zip(leaf_names("x", x), sources, strict=True):
        _require_floats("jacobian", label, source)
    with name_scope("jacobian"):
        return unflatten(nest, (_jacobian(target, source) for source in sources))


@overload
def hessians(ys: Any, xs: Tensor | Sequence[Tensor]) -> list[Tensor]: ...


@overload
def hessians(ys: Any, xs: Any) -> Any: ...


def hessians(ys: Any, xs: Any) -> Any:
    """Return for each x the second derivative of the sum of all elements of all ys.

    Its shape is that of x, twice, and it is zeros where the ys are linear in x, or do not depend
    on it. There is nothing between two xs, which may be any nest, as for `gradients`. Raises
    `TypeError` for an x without floats.

    >>> x = sg.placeholder((2,), name="x")
    >>> sg.run(sg.hessians(x[0] ** 2 * x[1], [x]), {x: np.float32([1.0, 2.0])})
    [array([[4., 2.],
           [2., 0.]], dtype=float32)]
    """
    sources, nest = read_xs(xs)
    for position, x in enumerate(sources):
        _require_floats("hessians", f"xs[{position}]", x)
    with name_scope("hessians"):
        grads = gradients(ys, sources)
        found = [
            _zeros(x, x) if g is None else _jacobian(g, x)
            for g, x in zip(grads, sources, strict=True)
        ]
    return unflatten(nest, found)


def _require_floats(op: str, label: str, tensor: Tensor) -> None:
    if not tensor.dtype.is_trainable:
        raise DTypeError(
            op, f"{label} is {tensor.type}, which has no derivatives", source=user_source()
        )


def _jacobian(y: Tensor, x: Tensor) -> Tensor:
    columns, rows = x.type.size, y.type.size
    # Of equally many, forward: it keeps no record of loops.
    is_forward = isinstance(columns, int) and isinstance(rows, int) and columns <= rows
    return _by_columns(y, x) if is_forward else _by_rows(y, x)


def _by_columns(y: Tensor, x: Tensor) -> Tensor:
    """Push unit tangents of x forward; the columns then come first."""
    tangent = identity(filled_like(x, 0))
    (pushed,) = jvp(y, x, tangent)
    (columns,) = batch([pushed], {tangent: _units(x)}, x.type.size)
    spread = reshape(columns, (*x.shape, *y.shape))
    return permute_dims(spread, [*range(x.ndim, spread.ndim), *range(x.ndim)])


def _by_rows(y: Tensor, x: Tensor) -> Tensor:
    """Take the gradient for unit seeds of y."""
    seed = identity(filled_like(y, 0))
    (g,) = gradients(y, x, grad_ys=seed)
    if g is None:
        return _zeros(y, x)
    (rows,) = batch([g], {seed: _units(y)}, y.type.size)
    return reshape(rows, (*y.shape, *x.shape))


def _units(like: Tensor) -> Tensor:
    """Return every tensor of the type of `like` with one 1 among zeros, in order of its place."""
    count = like.type.size
    return reshape(eye(count, dtype=like.dtype), (count, *like.shape))


def _zeros(y: Tensor, x: Tensor) -> Tensor:
    return filled((*y.shape, *x.shape), 0, x.dtype)
