"""Jacobians and Hessians: derivatives of every element, each computed for all seeds at once.

The gradient, or the tangent, is built once, for a seed that is a node of its own, then for all
unit seeds along an axis of its own by `symgrad/passes/batching/vmap.py`. There is no loop over
seeds, and the size of the graph does not depend on their number. Those with a pattern are in
`symgrad/passes/gradients/sparse_jacobian.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

from symgrad.errors import DTypeError, GraphError, ShapeError, user_source
from symgrad.frontend.matrices import eye
from symgrad.frontend.nests import flatten, is_leaf, leaf_names, unflatten
from symgrad.frontend.sparse_tensor import SparseTensor
from symgrad.graph.build import name_scope
from symgrad.graph.node import Tensor
from symgrad.graph.operands import Scalar, as_tensor
from symgrad.graph.ops.arithmetic import multiply, negative
from symgrad.graph.ops.complex_parts import complex, imag, real
from symgrad.graph.ops.conversion import identity
from symgrad.graph.ops.elementwise import filled, filled_like
from symgrad.graph.ops.structure import permute_dims, reshape
from symgrad.passes.batching.vmap import batch
from symgrad.passes.gradients.arguments import read_xs
from symgrad.passes.gradients.forward_mode import jvp
from symgrad.passes.gradients.reverse_mode import gradients
from symgrad.passes.gradients.sparse_columns import sparse_columns
from symgrad.passes.gradients.sparse_jacobian import sparse_hessian, sparse_jacobian

Sparsity = Literal["auto"]


@overload
def jacobian(y: Any, x: Tensor) -> Tensor: ...


@overload
def jacobian(y: Any, x: Tensor, sparsity: Sparsity) -> SparseTensor: ...


@overload
def jacobian(y: Any, x: Any, sparsity: Sparsity | None = None) -> Any: ...


def jacobian(y: Any, x: Any, sparsity: Sparsity | None = None) -> Any:
    """Return the derivative of each element of `y` by each element of `x`, zeros where none is.

    Its shape is that of `y` and then that of `x`, its dtype that of `x`, and complex if that of `y`
    is. Rows by a complex `x` are gradients, of the real parts of a complex `y`. It is computed from
    the side that has fewer elements. Of a nest of xs it is the same nest of Jacobians.

    With `sparsity="auto"` it is a `SparseTensor` of shape `(y.size, x.size)`, whose pattern is
    found now, from the graph: sizes and indices must be known for it. Elements of the pattern may
    be zero. It is computed by as many seeds as it takes to tell the columns, or the rows, of the
    pattern apart, in time proportional to its elements.

    Raises `TypeError` for what are no floats, and for complex numbers with `sparsity`; `ValueError`
    for a size that is not known with `sparsity`, and for another `sparsity`.

    >>> x = sg.placeholder((2,), name="x")
    >>> sg.run(sg.jacobian(x**2, x), {x: np.float32([1.0, 2.0])})
    array([[2., 0.],
           [0., 4.]], dtype=float32)
    >>> sg.jacobian(x**2, x, sparsity="auto")
    <SparseTensor 2 x 2, 2 values: f32>
    """
    target = as_tensor(y)
    leaves, nest = flatten(x)
    sources = [as_tensor(leaf) for leaf in leaves]
    require_sparsity("jacobian", sparsity)
    _require_floats("jacobian", "y", target)
    for label, source in zip(leaf_names("x", x), sources, strict=True):
        _require_floats("jacobian", label, source)
    with name_scope("jacobian"):
        if sparsity is not None:
            _require_real("jacobian", target, *sources)
            found = [sparse_jacobian("jacobian", target, source) for source in sources]
            return unflatten(nest, found)
        return unflatten(nest, (_jacobian(target, source) for source in sources))


def require_sparsity(op: str, sparsity: object) -> None:
    """Raise `GraphError` for a way to find a pattern that there is not."""
    if sparsity not in (None, "auto"):
        raise GraphError(
            op, f'sparsity is {sparsity!r}, neither None nor "auto"', source=user_source()
        )


def hessian_of(y: Any, x: Any, sparsity: Sparsity | None) -> Any:
    """Return the second derivative of each element of `y` by each two of `x`, as `hessian` says."""
    target = as_tensor(y)
    require_sparsity("hessian", sparsity)
    leaves, nest = flatten(x)
    sources = [as_tensor(leaf) for leaf in leaves]
    _require_floats("hessian", "y", target)
    for label, source in zip(leaf_names("x", x), sources, strict=True):
        _require_floats("hessian", label, source)
    with name_scope("hessian"):
        if sparsity is not None:
            _require_real("hessian", target, *sources)
            return _sparse_hessian(target, sources, is_leaf(nest))
        blocks = (
            unflatten(nest, (_jacobian(_jacobian(target, a), b) for b in sources)) for a in sources
        )
        return unflatten(nest, blocks)


def _sparse_hessian(y: Tensor, sources: Sequence[Tensor], is_single: bool) -> SparseTensor:
    """Return the one sparse Hessian; raises unless `y` has one element and there is one x."""
    if not is_single:
        raise GraphError(
            "hessian",
            f"x is a nest of {len(sources)} tensors, with sparsity one is needed",
            hint="make them slices of one vector",
            source=user_source(),
        )
    if not y.type.is_static or y.type.count != 1:
        raise ShapeError(
            "hessian",
            f"y is {y.type}, with sparsity a scalar is needed",
            hint="sum it",
            source=user_source(),
        )
    return sparse_hessian("hessian", y, sources[0])


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


def _require_real(op: str, *tensors: Tensor) -> None:
    for tensor in tensors:
        if tensor.dtype.is_complex:
            raise DTypeError(
                op,
                f"{tensor.type} is complex, with sparsity real numbers are needed",
                hint="take the parts of sg.complex(re, im) as the xs",
                source=user_source(),
            )


# Note [Jacobians of complex numbers]
# What is found does not depend on the side it is computed from. A row by a complex x is a gradient:
# of a real element of y d/dRe(x) - i d/dIm(x), of a complex one that of its real part, which is the
# derivative of a holomorphic function. By a real x a complex y has the derivatives of both parts.


def _jacobian(y: Tensor, x: Tensor) -> Tensor:
    # See Note [Jacobians of complex numbers].
    columns, rows = x.type.size, y.type.size
    # Of equally many, forward: it keeps no record of loops.
    is_forward = isinstance(columns, int) and isinstance(rows, int) and columns <= rows
    if x.dtype.is_complex:
        if not is_forward:
            return _by_rows(y, x)
        y = real(y)
        return complex(_by_columns(y, x, 1), negative(_by_columns(y, x, 1j)))
    if y.dtype.is_complex and not is_forward:
        return complex(_by_rows(real(y), x), _by_rows(imag(y), x))
    return _by_columns(y, x) if is_forward else _by_rows(y, x)


def _by_columns(y: Tensor, x: Tensor, unit: Scalar = 1) -> Tensor:
    """Push unit tangents of x forward, times `unit`; the columns then come first."""
    tangent = identity(filled_like(x, 0))
    (pushed,) = jvp(y, x, tangent)
    columns = sparse_columns(pushed, tangent) if unit == 1 else None
    if columns is None:
        units = _units(x) if unit == 1 else multiply(_units(x), unit)
        (columns,) = batch([pushed], {tangent: units}, x.type.size)
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
    is_complex = x.dtype.is_complex or y.dtype.is_complex
    return filled((*y.shape, *x.shape), 0, x.dtype.complex if is_complex else x.dtype)
