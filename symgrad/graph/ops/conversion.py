"""Casts, identity and stop_gradient: the operand in another dtype, or as it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import DTypeError, ShapeError
from symgrad.graph import dtypes
from symgrad.graph.build import apply
from symgrad.graph.devices import require_device
from symgrad.graph.dtypes import DType, DTypeLike, as_dtype
from symgrad.graph.late_binding import provide, provided
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define, elementwise
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.elementwise import infer_same, is_any
from symgrad.graph.public_ops import public
from symgrad.graph.rounding import convert_numbers
from symgrad.graph.sizes import Dim
from symgrad.graph.structures import Map
from symgrad.graph.types import Array, TensorType


@public(is_standard=True, functions=[np.astype], known_as=["cast"])
def astype(x: Any, dtype: DTypeLike, /, *, copy: bool = True, device: str | None = None) -> Tensor:
    """Convert `x` to `dtype`; itself if it has it, since tensors are values and need no `copy`.

    A float that becomes an integer loses its fraction and stops at the limits, nan becomes 0; an
    integer that becomes a smaller one keeps its low bits; a bool tells whether the value is not 0.
    What becomes a float is rounded once, to nearest, ties to even. What becomes complex has the
    imaginary part 0. Raises `DTypeError` for a complex number that becomes real: `real`, `imag` and
    `abs` say which one is meant.

    >>> sg.run(sg.astype([1.7, -1.7, np.nan], "int32"))
    array([ 1, -1,  0], dtype=int32)
    """
    x = as_tensor(x)
    wanted = as_dtype(dtype)
    require_device("astype", device)
    return x if x.dtype == wanted else apply(astype_op, x, dtype=wanted)


def _astype_infer(x: TensorType, *, dtype: DType) -> TensorType:
    if x.dtype.is_complex and not (dtype.is_complex or dtype.is_bool):
        raise DTypeError(
            "astype",
            f"x: {x} is complex, {dtype.name} is real",
            hint="take sg.real, sg.imag or sg.abs of it",
        )
    return x.with_dtype(dtype)


def _astype_reference(x: Array, *, dtype: DType) -> Array:
    given = as_dtype(x.dtype)
    if dtype.is_bool:
        return np.asarray(x != 0)
    if given.is_float and dtype.is_integer:
        return _saturate(x.astype(np.float64), dtype)
    with np.errstate(all="ignore"):
        return convert_numbers(x, dtype)


def _saturate(x: Array, dtype: DType) -> Array:
    limits = np.iinfo(dtype.numpy)
    # The greatest integer may not be a float64, but the power of two above it is.
    above, below = x >= float(limits.max) + 1, x < float(limits.min)
    inside = np.where(above | below | np.isnan(x), 0.0, x).astype(dtype.numpy)
    return np.where(above, limits.max, np.where(below, limits.min, inside)).astype(dtype.numpy)


def _astype_grad(node: Node, g: Tensor, *, dtype: DType) -> Grads:
    (x,) = node.inputs
    if not (x.dtype.is_trainable and dtype.is_trainable):
        return (None,)
    is_widened = dtype.is_complex and not x.dtype.is_complex
    return (astype(provided("real")(g) if is_widened else g, x.dtype),)


def _astype_kernel(_x: TensorType, *, dtype: DType) -> Map:
    return Map(lambda s, x: s.cast(x, dtype))


astype_op = define(
    "astype",
    infer=_astype_infer,
    reference=_astype_reference,
    grad=_astype_grad,
    kernel=_astype_kernel,
    of_pairs="rule",
)


@public()
def identity(x: Any, name: str | None = None) -> Tensor:
    """Return a tensor equal to `x` that is a node of its own, to be named or differentiated by.

    >>> x = sg.placeholder((2,), name="x")
    >>> sg.identity(x, name="entry")
    <Tensor entry: f32[2]>
    """
    return apply(identity_op, as_tensor(x), name=name)


identity_op = elementwise(
    "identity",
    infer=infer_same("identity", is_any),
    reference=lambda x: x,
    grad=lambda _node, g: (g,),
    body=lambda _s, x: x,
    of_pairs="each",
)


def stop_gradient(x: Any, preserve_type: bool = True) -> Tensor:
    """Return a tensor equal to `x` through which no gradient flows."""
    return apply(stop_gradient_op, as_tensor(x))


stop_gradient_op = elementwise(
    "stop_gradient",
    infer=infer_same("stop_gradient", is_any),
    reference=lambda x: x,
    grad="none",
    body=lambda _s, x: x,
    of_pairs="each",
)


@provide
def size_of(size: Any, dtype: DType = dtypes.int64) -> Tensor:
    """Return a size of an axis, known or not, as a scalar tensor."""
    return apply(dim_size_op, value=size, dtype=dtype)


@public()
def shape(x: Any, /) -> Tensor:
    """Return the shape of `x` as a tensor: an int64 vector, of which known sizes are constants.

    Sizes that only a call tells are filled in then. `x.shape` is the tuple of the sizes.

    >>> sg.run(sg.shape(sg.zeros((2, 3))))
    array([2, 3])
    """
    sizes = as_tensor(x).shape
    if all(isinstance(n, int) for n in sizes):
        return as_tensor(np.asarray(sizes, np.int64))
    return as_tensor(sizes)


def _dim_size_infer(*, value: Dim, dtype: DType) -> TensorType:
    if dtype.is_integer and isinstance(value, int):
        limits = np.iinfo(dtype.numpy)
        if not limits.min <= value <= limits.max:
            raise ShapeError("dim_size", f"size {value} does not fit {dtype.name}")
    return TensorType(dtype, ())


def _dim_size_reference(*, value: Any, dtype: DType) -> Array:
    return convert_numbers(np.asarray(value), dtype)


def _dim_size_kernel(*, value: Any, dtype: DType) -> Map:
    return Map(lambda s: s.const(value, dtype))


dim_size_op = define(
    "dim_size",
    infer=_dim_size_infer,
    reference=_dim_size_reference,
    grad="none",
    kernel=_dim_size_kernel,
    of_pairs="rule",
)
