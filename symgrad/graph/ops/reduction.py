"""Reductions: prod, max, min, any, all, argmax, argmin, and the public face of all of them.

The op `sum` itself is in `structure`, next to its adjoint. Every public reduction takes an axis,
several or None for all, and drops them or keeps them with size 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import ShapeError
from symgrad.graph import dtypes
from symgrad.graph.build import apply
from symgrad.graph.dtypes import DType, DTypeLike, as_dtype
from symgrad.graph.node import Grads, Infer, KernelRule, Node, OpDef, Reference, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import as_tensor, cast, normalize_axes, normalize_axis, require_dtype
from symgrad.graph.ops.arithmetic import divide, multiply
from symgrad.graph.ops.comparison import equal, isnan, logical_or, not_equal, where
from symgrad.graph.ops.conversion import size_of
from symgrad.graph.ops.elementwise import (
    Allowed,
    filled,
    filled_like,
    float_operand,
    is_bool,
    is_inexact,
    is_number,
    rounded_once,
)
from symgrad.graph.ops.prefix_scans import scan_along
from symgrad.graph.ops.running_products import cumprod_op
from symgrad.graph.ops.structure import (
    Axes,
    accumulator_dtype,
    broadcast_to,
    drop_axes,
    kept_shape,
    permute_dims,
    reduce_sum,
    reshape,
)
from symgrad.graph.public_ops import public
from symgrad.graph.scalars import Scalars
from symgrad.graph.sizes import Dim
from symgrad.graph.structures import Accumulators, Number, Reduce, ScalarExpr
from symgrad.graph.types import Array, TensorType


def _kept(reduced: Tensor, x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    return reshape(reduced, kept_shape(x.type, axes)) if keepdims else reduced


def _count(x: Tensor, axes: Axes) -> Dim:
    """Return the number of elements along `axes`."""
    return x.type.with_shape(tuple(x.shape[a] for a in axes)).size


def summable(x: Any, dtype: DTypeLike | None) -> Tensor:
    """Return `x` in the dtype it is summed in: small integers and bools are made 64 bits wide."""
    tensor = as_tensor(x)
    if dtype is not None:
        return cast(tensor, as_dtype(dtype))
    if is_inexact(tensor.dtype):
        return tensor
    return cast(tensor, dtypes.uint64 if tensor.dtype.kind == "unsigned" else dtypes.int64)


@public(is_standard=True, reduces=np.add, known_as=["reduce_sum"])
def sum(
    x: Any, /, axis: Any = None, *, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Tensor:
    """Sum over `axis`, in `dtype` if given; small integers are summed in 64 bits.

    >>> sg.run(sg.sum([[1.0, 2.0], [3.0, 4.0]], axis=1, keepdims=True))
    array([[3.],
           [7.]], dtype=float32)
    """
    x = summable(x, dtype)
    axes = normalize_axes("sum", axis, x.ndim)
    return _kept(reduce_sum(x, axes), x, axes, keepdims)


@public(is_standard=True, known_as=["reduce_mean"])
def mean(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Average over `axis`; integers as float32. A 16-bit float is rounded once, at the end.

    >>> sg.run(sg.mean([[1, 2], [3, 4]], axis=1))
    array([1.5, 3.5], dtype=float32)
    """
    x = float_operand(x)
    axes = normalize_axes("mean", axis, x.ndim)
    wide = cast(x, accumulator_dtype(x.dtype))
    count = _count(x, axes)
    total = reduce_sum(wide, axes)
    divisor = float(count) if isinstance(count, int) else size_of(count, wide.dtype)
    return _kept(cast(divide(total, divisor), x.dtype), x, axes, keepdims)


def infer_reduced(op: str, allowed: Allowed, *, needs_elements: bool) -> Infer:
    """Return the type rule of a reduction: `op` names it in errors."""

    def infer(x: TensorType, *, axes: Axes) -> TensorType:
        require_dtype(op, "x", x, allowed)
        if needs_elements and any_zero(x, axes):
            raise ShapeError(op, f"axes {list(axes)} of x: {x} have no elements")
        return x.with_shape(drop_axes(x, axes))

    return infer


def any_zero(x: TensorType, axes: Axes) -> bool:
    """Return whether one of the sizes along `axes` is known to be 0."""
    return 0 in [x.shape[axis] for axis in axes]


def _reference(ufunc: np.ufunc) -> Reference:
    def reference(x: Array, *, axes: Axes) -> Array:
        return rounded_once(lambda wide: ufunc.reduce(wide, axis=axes))(x)

    return reference


def _fold(scalar_op: str, identity: dict[str, Number], *, is_turned: bool = False) -> KernelRule:
    """Return the kernel rule of a fold by one scalar operation, its identity given by kind.

    Where it `is_turned`, elements are the first argument, and what has been folded the second.
    """

    def kernel(x: TensorType, *, axes: Axes) -> Reduce:
        wide = accumulator_dtype(x.dtype)
        return Reduce(
            axes,
            dtypes=(wide,),
            identity=(identity.get(x.dtype.name, identity["any"]),),
            item=lambda s, item, _position: (s.cast(item, wide),),
            combine=lambda s, a, b: (
                s.call(scalar_op, *((b[0], a[0]) if is_turned else (a[0], b[0]))),
            ),
            finish=lambda s, folded: s.cast(folded[0], x.dtype),
        )

    return kernel


LEAST: dict[str, Number] = {
    d.name: int(np.iinfo(d.numpy).min) for d in dtypes.ALL if d.is_integer
} | {"any": -np.inf}
GREATEST: dict[str, Number] = {
    d.name: int(np.iinfo(d.numpy).max) for d in dtypes.ALL if d.is_integer
} | {"any": np.inf}


@public(is_standard=True, reduces=np.maximum, known_as=["reduce_max", "amax"])
def max(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Take the greatest element along `axis`, nan if there is one; equals share the gradient.

    >>> sg.run(sg.max([[1.0, 5.0], [7.0, 0.0]], axis=0))
    array([7., 5.], dtype=float32)
    """
    x = as_tensor(x)
    axes = normalize_axes("max", axis, x.ndim)
    return _kept(apply(max_op, x, axes=axes), x, axes, keepdims) if axes else x


@public(is_standard=True, reduces=np.minimum, known_as=["reduce_min", "amin"])
def min(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Take the least element along `axis`, nan if there is one; equals share the gradient.

    >>> sg.run(sg.min([[1.0, 5.0], [7.0, 0.0]], axis=0))
    array([1., 0.], dtype=float32)
    """
    x = as_tensor(x)
    axes = normalize_axes("min", axis, x.ndim)
    return _kept(apply(min_op, x, axes=axes), x, axes, keepdims) if axes else x


def _extreme_grad(node: Node, g: Tensor, *, axes: Axes) -> Grads:
    x, kept = node.inputs[0], kept_shape(node.inputs[0].type, axes)
    result = broadcast_to(reshape(node.output, kept), x.shape)
    chosen = logical_or(equal(x, result), isnan(x))  # a nan is the result wherever there is one
    count = reduce_sum(cast(chosen, accumulator_dtype(x.dtype)), axes)
    share = reshape(divide(g, cast(count, g.dtype)), kept)
    return (where(chosen, broadcast_to(share, x.shape), filled_like(x, 0)),)


max_op = define(
    "max",
    infer=infer_reduced("max", is_number, needs_elements=True),
    reference=_reference(np.maximum),
    grad=_extreme_grad,
    kernel=_fold("max", LEAST, is_turned=True),
)

min_op = define(
    "min",
    infer=infer_reduced("min", is_number, needs_elements=True),
    reference=_reference(np.minimum),
    grad=_extreme_grad,
    kernel=_fold("min", GREATEST, is_turned=True),
)


@public(is_standard=True, reduces=np.logical_or, known_as=["reduce_any"])
def any(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Compute whether an element along `axis` is true, or not 0.

    >>> sg.run(sg.any([[0, 0], [1, 0]], axis=1))
    array([False,  True])
    """
    x = _as_bool(x)
    axes = normalize_axes("any", axis, x.ndim)
    return _kept(apply(any_op, x, axes=axes), x, axes, keepdims) if axes else x


@public(is_standard=True, reduces=np.logical_and, known_as=["reduce_all"])
def all(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Compute whether every element along `axis` is true, or not 0.

    >>> sg.run(sg.all([[1, 1], [1, 0]], axis=1))
    array([ True, False])
    """
    x = _as_bool(x)
    axes = normalize_axes("all", axis, x.ndim)
    return _kept(apply(all_op, x, axes=axes), x, axes, keepdims) if axes else x


def _as_bool(x: Any) -> Tensor:
    tensor = as_tensor(x)
    return tensor if tensor.dtype.is_bool else not_equal(tensor, 0)


any_op = define(
    "any",
    infer=infer_reduced("any", is_bool, needs_elements=False),
    reference=_reference(np.logical_or),
    grad="none",
    kernel=_fold("or", {"any": False}),
)

all_op = define(
    "all",
    infer=infer_reduced("all", is_bool, needs_elements=False),
    reference=_reference(np.logical_and),
    grad="none",
    kernel=_fold("and", {"any": True}),
)


@public(is_standard=True, reduces=np.multiply, known_as=["reduce_prod"])
def prod(
    x: Any, /, axis: Any = None, *, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Tensor:
    """Multiply over `axis`, in `dtype` if given; small integers are multiplied in 64 bits.

    >>> sg.run(sg.prod([[1.0, 2.0], [3.0, 4.0]], axis=1))
    array([ 2., 12.], dtype=float32)
    """
    x = summable(x, dtype)
    axes = normalize_axes("prod", axis, x.ndim)
    return _kept(apply(prod_op, x, axes=axes), x, axes, keepdims) if axes else x


# Note [Gradient of prod]
# The gradient to an element is the product of the others. Dividing the product by the element
# fails at 0, so it is the product of those before times the product of those after, each a prefix
# scan: right for any number of zeros, and differentiable again.


def _prod_grad(node: Node, g: Tensor, *, axes: Axes) -> Grads:
    (x,) = node.inputs
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    order = [*rest, *axes]
    moved = permute_dims(x, order)
    rows = reshape(moved, (*(x.shape[a] for a in rest), _count(x, axes)))
    before, after = (
        scan_along(cumprod_op, rows, axis=len(rest), reverse=reverse, exclusive=True)
        for reverse in (False, True)
    )
    others = reshape(multiply(before, after), moved.shape)
    spread = broadcast_to(reshape(g, kept_shape(x.type, axes)), x.shape)
    return (multiply(spread, permute_dims(others, tuple(int(a) for a in np.argsort(order)))),)


prod_op = define(
    "prod",
    infer=infer_reduced("prod", is_number, needs_elements=False),
    reference=_reference(np.multiply),
    grad=_prod_grad,
    kernel=_fold("mul", {"any": 1}),
    of_pairs="rule",
)


@public(is_standard=True, functions=[np.argmax])
def argmax(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Return the position of the greatest element along `axis`, as int64.

    The first of several; the first nan if there is one. For None it is the position among all
    elements in row-major order.

    >>> sg.run(sg.argmax([[1.0, 5.0, 2.0], [7.0, 0.0, 7.0]], axis=1))
    array([1, 0])
    """
    return _position(argmax_op, x, axis, keepdims)


@public(is_standard=True, functions=[np.argmin])
def argmin(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Return the position of the least element along `axis`, as int64; ties as in `argmax`.

    >>> sg.run(sg.argmin([3.0, 1.0, 2.0]))
    array(1)
    """
    return _position(argmin_op, x, axis, keepdims)


def _position(definition: OpDef, x: Any, axis: int | None, keepdims: bool) -> Tensor:
    x = as_tensor(x)
    x = cast(x, dtypes.uint8) if x.dtype.is_bool else x
    axes = (
        tuple(range(x.ndim)) if axis is None else (normalize_axis(definition.name, axis, x.ndim),)
    )
    if not axes:
        return filled((), 0, dtypes.int64)
    return _kept(apply(definition, x, axes=axes), x, axes, keepdims)


def _arg_infer(op: str) -> Infer:
    reduced = infer_reduced(op, is_number, needs_elements=True)

    def infer(x: TensorType, *, axes: Axes) -> TensorType:
        result = reduced(x, axes=axes)
        assert isinstance(result, TensorType)
        return result.with_dtype(dtypes.int64)

    return infer


def _arg_reference(function: Any) -> Reference:
    def reference(x: Array, *, axes: Axes) -> Array:
        rest = [axis for axis in range(x.ndim) if axis not in axes]
        moved = np.transpose(x, [*rest, *axes])
        rows = moved.reshape(*moved.shape[: len(rest)], int(np.prod(moved.shape[len(rest) :])))
        wide = rows.astype(np.float32) if as_dtype(x.dtype).is_half else rows
        return np.asarray(function(wide, axis=-1), np.int64)

    return reference


def _arg_kernel(better: str, worst: dict[str, Number]) -> KernelRule:
    """Return the kernel rule of a search: the accumulators are a value and its position."""

    def kernel(x: TensorType, *, axes: Axes) -> Reduce:
        wide = accumulator_dtype(x.dtype)
        return Reduce(
            axes,
            dtypes=(wide, dtypes.int64),
            identity=(worst.get(x.dtype.name, worst["any"]), int(np.iinfo(np.int64).max)),
            item=lambda s, item, position: (s.cast(item, wide), position),
            combine=lambda s, a, b: _better_pair(s, better, wide, a, b),
            finish=lambda _s, found: found[1],
        )

    return kernel


def _better_pair(
    s: Scalars[ScalarExpr], better: str, dtype: DType, a: Accumulators, b: Accumulators
) -> Accumulators:
    wins = s.call(better, b[0], a[0])
    ties = s.call("eq", b[0], a[0])
    if dtype.is_float:
        # nan beats every number and ties with nan
        a_is_nan, b_is_nan = s.call("ne", a[0], a[0]), s.call("ne", b[0], b[0])
        wins = s.call("or", wins, s.call("and", b_is_nan, s.call("not", a_is_nan)))
        ties = s.call("or", ties, s.call("and", b_is_nan, a_is_nan))
    earlier = s.call("and", ties, s.call("lt", b[1], a[1]))
    take = s.call("or", wins, earlier)
    return s.select(take, b[0], a[0]), s.select(take, b[1], a[1])


argmax_op = define(
    "argmax",
    infer=_arg_infer("argmax"),
    reference=_arg_reference(np.argmax),
    grad="none",
    kernel=_arg_kernel("gt", LEAST),
)

argmin_op = define(
    "argmin",
    infer=_arg_infer("argmin"),
    reference=_arg_reference(np.argmin),
    grad="none",
    kernel=_arg_kernel("lt", GREATEST),
)
