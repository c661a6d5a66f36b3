"""Broadcast, sum, transpose and reshape: ops that give a tensor another shape.

broadcast_to with sum; permute_dims and reshape are their own adjoints. What takes a part of a
tensor, or makes one of parts, is in `slicing.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.errors import ShapeError, user_source
from symgrad.graph import dtypes
from symgrad.graph.batch_rules import Operands, batch_to_shape
from symgrad.graph.build import apply
from symgrad.graph.dtypes import DType
from symgrad.graph.given_arrays import as_size, without_axes
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import as_tensor, normalize_axes, normalize_axis, refuse_tensors
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim, Size, divide
from symgrad.graph.structures import AxisMap, Reduce, Reshape, View
from symgrad.graph.types import Array, Shape, TensorType, static

Axes = tuple[int, ...]


def reduce_sum(x: Tensor, axes: Axes) -> Tensor:
    """Sum `x` over `axes`, which disappear; the dtype stays. float16 is summed in float32."""
    return apply(sum_op, x, axes=axes) if axes else x


def drop_axes(x: TensorType, axes: Axes) -> Shape:
    """Return the shape of `x` without `axes`."""
    return tuple(n for axis, n in enumerate(x.shape) if axis not in axes)


def accumulator_dtype(dtype: DType) -> DType:
    """Return the dtype sums of `dtype` are taken in."""
    return dtypes.float32 if dtype.is_half else dtype


def _sum_infer(x: TensorType, *, axes: Axes) -> TensorType:
    return x.with_shape(drop_axes(x, axes))


def _sum_reference(x: Array, *, axes: Axes) -> Array:
    wide = accumulator_dtype(dtypes.as_dtype(x.dtype)).numpy
    return np.asarray(np.sum(x, axis=axes, dtype=wide)).astype(x.dtype)


def _sum_grad(node: Node, g: Tensor, *, axes: Axes) -> Grads:
    (x,) = node.inputs
    # A scalar is broadcast to any shape as it is.
    kept = reshape(g, kept_shape(x.type, axes)) if g.type.shape else g
    return (broadcast_to(kept, x.shape),)


def kept_shape(x: TensorType, axes: Axes) -> Shape:
    """Return the shape of `x` with size 1 in the place of `axes`."""
    return tuple(1 if axis in axes else n for axis, n in enumerate(x.shape))


def _sum_kernel(x: TensorType, *, axes: Axes) -> Reduce:
    wide = accumulator_dtype(x.dtype)
    return Reduce(
        axes,
        dtypes=(wide,),
        identity=(0,),
        item=lambda s, item, _position: (s.cast(item, wide),),
        combine=lambda s, a, b: (s.call("add", a[0], b[0]),),
        finish=lambda s, total: s.cast(total[0], x.dtype),
    )


sum_op = define(
    "sum",
    infer=_sum_infer,
    reference=_sum_reference,
    grad=_sum_grad,
    kernel=_sum_kernel,
    gradient_mask="moved",
    of_pairs="each",
)


@public(is_standard=True, known_as=["expand"])
def broadcast_to(x: Any, /, shape: Dim | Sequence[Dim]) -> Tensor:
    """Broadcast `x` to `shape` as NumPy does; itself if it has that shape.

    The gradient is summed over the axes that were stretched.

    >>> sg.run(sg.broadcast_to([1, 2], (3, 2)))
    array([[1, 2],
           [1, 2],
           [1, 2]], dtype=int32)
    """
    x = as_tensor(x)
    wanted = tuple(map(_as_plain_size, _sizes_of(shape)))
    refuse_tensors("broadcast_to", wanted)
    if not all(_is_size(n) and not _is_negative(n) for n in wanted):
        raise ShapeError("broadcast_to", f"{list(wanted)} is no shape", source=user_source())
    return x if x.shape == wanted else apply(broadcast_to_op, x, shape=wanted)


def _broadcast_to_infer(x: TensorType, *, shape: Shape) -> TensorType:
    lead = len(shape) - x.ndim
    for axis, size in enumerate(x.shape):
        target = shape[lead + axis] if lead >= 0 else 0
        both_known = isinstance(size, int) and isinstance(target, int)
        if lead < 0 or (size not in (1, target) and both_known):
            text = ", ".join(map(str, shape))
            raise ShapeError("broadcast_to", f"x: {x} does not broadcast to [{text}]")
    return x.with_shape(shape)


def _broadcast_to_reference(x: Array, *, shape: Shape) -> Array:
    return np.array(np.broadcast_to(x, tuple(map(static, shape))))


def broadcast_axes(x: TensorType, shape: Shape) -> Axes:
    """Return the axes of `shape` along which `x` is repeated."""
    lead = len(shape) - x.ndim
    repeated = (a for a, n in enumerate(x.shape) if n == 1 and shape[lead + a] != 1)
    return (*range(lead), *(lead + a for a in repeated))


def _broadcast_to_grad(node: Node, g: Tensor, *, shape: Shape) -> Grads:
    (x,) = node.inputs
    return (reshape(reduce_sum(g, broadcast_axes(x.type, shape)), x.shape),)


_OF_A_SCALAR = View(())


def _broadcast_to_kernel(x: TensorType, *, shape: Shape) -> View:
    if not x.shape:
        return _OF_A_SCALAR
    lead = len(shape) - x.ndim
    repeated = set(broadcast_axes(x, shape))
    maps = (AxisMap() if lead + a in repeated else AxisMap.axis(lead + a) for a in range(x.ndim))
    return View(tuple(maps))


def _broadcast_to_batch(operands: Operands, *, shape: Shape) -> Tensor:
    (x,) = operands.tensors
    lead = len(shape) + 1 - x.ndim
    aligned = reshape(x, (x.shape[0], *(1,) * lead, *x.shape[1:]))
    return broadcast_to(aligned, (operands.size, *shape))


broadcast_to_op = define(
    "broadcast_to",
    infer=_broadcast_to_infer,
    reference=_broadcast_to_reference,
    grad=_broadcast_to_grad,
    kernel=_broadcast_to_kernel,
    batch=_broadcast_to_batch,
    gradient_mask="read",
)


@public(is_standard=True)
def reshape(x: Any, /, shape: Dim | Sequence[Dim], *, copy: bool | None = None) -> Tensor:
    """Give `x` another shape with as many elements; one size may be -1.

    Tensors are values, so `copy` makes no difference: no result changes with another tensor.
    Raises `ShapeError` if the numbers of elements differ.

    >>> sg.run(sg.reshape([1, 2, 3, 4, 5, 6], (2, -1)))
    array([[1, 2, 3],
           [4, 5, 6]], dtype=int32)
    """
    x = as_tensor(x)
    sizes = _sizes_of(shape)
    refuse_tensors("reshape", sizes)
    wanted = _resolve_shape(x.type, sizes)
    return x if x.shape == wanted else apply(reshape_op, x, shape=wanted)


def _sizes_of(shape: Any) -> tuple[Any, ...]:
    shape = without_axes(shape)
    return (shape,) if isinstance(shape, int | np.integer | Size) else tuple(shape)


def _as_plain_size(n: Any) -> Any:
    size = as_size(n)
    return n if size is None else size


def _is_size(n: Any) -> bool:
    return isinstance(n, int | Size) and not isinstance(n, bool)


def _resolve_shape(x: TensorType, shape: tuple[Any, ...]) -> Shape:
    sizes = tuple(_as_plain_size(n) for n in shape)
    wrong = [n for n in sizes if not _is_size(n) or (n != -1 and _is_negative(n))]
    if wrong or sizes.count(-1) > 1:
        raise ShapeError("reshape", f"{list(sizes)} is no shape", source=user_source())
    if -1 not in sizes:
        return sizes
    known: Dim = 1
    for n in sizes:
        known = known * (1 if n == -1 else n)
    if known == 0:
        raise ShapeError(
            "reshape", f"-1 in {list(sizes)} could be any size for x: {x}", source=user_source()
        )
    return tuple(divide(x.size, known) if n == -1 else n for n in sizes)


def _is_negative(size: Dim) -> bool:
    return isinstance(size, int) and size < 0


def _reshape_infer(x: TensorType, *, shape: Shape) -> TensorType:
    result = x.with_shape(shape)
    counts = (x.size, result.size)
    if counts[0] != counts[1] and all(isinstance(n, int) for n in counts):
        raise ShapeError(
            "reshape", f"{counts[0]} elements of x: {x}, {counts[1]} wanted by {result}"
        )
    return result


def _reshape_reference(x: Array, *, shape: Shape) -> Array:
    return x.reshape(tuple(map(static, shape)))


def _reshape_grad(node: Node, g: Tensor, *, shape: Shape) -> Grads:
    return (reshape(g, node.inputs[0].shape),)


def _reshape_kernel(_x: TensorType, *, shape: Shape) -> Reshape:
    return Reshape()


reshape_op = define(
    "reshape",
    infer=_reshape_infer,
    reference=_reshape_reference,
    grad=_reshape_grad,
    kernel=_reshape_kernel,
    batch=batch_to_shape,
    gradient_mask="moved",
)


@public(is_standard=True, known_as=["transpose", "permute"])
def permute_dims(x: Any, /, axes: Sequence[int]) -> Tensor:
    """Permute the axes: axis `i` of the result is axis `axes[i]` of `x`.

    >>> sg.permute_dims(sg.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    x = as_tensor(x)
    order = tuple(normalize_axis("permute_dims", a, x.ndim) for a in axes)
    return x if order == tuple(range(x.ndim)) else apply(permute_dims_op, x, axes=order)


def _permute_dims_infer(x: TensorType, *, axes: Axes) -> TensorType:
    if sorted(axes) != list(range(x.ndim)):
        raise ShapeError("permute_dims", f"axes {list(axes)} are no permutation of those of x: {x}")
    return x.with_shape(tuple(x.shape[a] for a in axes))


def _permute_dims_reference(x: Array, *, axes: Axes) -> Array:
    return np.transpose(x, axes)


def _permute_dims_grad(_node: Node, g: Tensor, *, axes: Axes) -> Grads:
    return (permute_dims(g, tuple(int(a) for a in np.argsort(axes))),)


def _permute_dims_kernel(x: TensorType, *, axes: Axes) -> View:
    return View(tuple(AxisMap.axis(axes.index(a)) for a in range(x.ndim)))


def _permute_dims_batch(operands: Operands, *, axes: Axes) -> Tensor:
    return operands.apply(*operands.tensors, axes=(0, *(a + 1 for a in axes)))


permute_dims_op = define(
    "permute_dims",
    infer=_permute_dims_infer,
    reference=_permute_dims_reference,
    grad=_permute_dims_grad,
    kernel=_permute_dims_kernel,
    batch=_permute_dims_batch,
    gradient_mask="moved",
)


@public(is_standard=True, known_as=["unsqueeze"])
def expand_dims(x: Any, /, axis: Any = 0) -> Tensor:
    """Insert axes of size 1 at the positions `axis` of the result.

    >>> sg.expand_dims(sg.zeros((2, 3)), axis=(0, -1)).shape
    (1, 2, 3, 1)
    """
    x = as_tensor(x)
    given = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    ndim = x.ndim + len(given)
    new = {normalize_axis("expand_dims", a, ndim) for a in given}
    if len(new) != len(given):
        raise ShapeError("expand_dims", f"an axis is repeated in {given}", source=user_source())
    sizes = iter(x.shape)
    return reshape(x, tuple(1 if a in new else next(sizes) for a in range(ndim)))


@public(is_standard=True, functions=[np.squeeze])
def squeeze(x: Any, /, axis: Any = None) -> Tensor:
    """Remove the axes `axis`, all of size 1; every axis of size 1 for None.

    The dtype stays. Raises `ShapeError` for an axis of another size, `AxisError` for one that `x`
    does not have.

    >>> sg.squeeze(sg.zeros((1, 3, 1)), axis=0).shape
    (3, 1)
    """
    x = as_tensor(x)
    if axis is None:
        axis = tuple(a for a, n in enumerate(x.shape) if n == 1)
    axes = normalize_axes("squeeze", axis, x.ndim)
    for a in axes:
        if x.shape[a] != 1:
            raise ShapeError(
                "squeeze", f"axis {a} of x: {x.type} is of size {x.shape[a]}", source=user_source()
            )
    return reshape(x, tuple(n for a, n in enumerate(x.shape) if a not in axes))
