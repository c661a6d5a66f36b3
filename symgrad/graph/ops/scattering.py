"""Scatters that multiply or take extremes: scatter_multiply, scatter_min and scatter_max.

The scatters that add and set, which are adjoints of gathers, are in `gathering`. What users call
is in `writing` and `segments`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symgrad.errors import DTypeError
from symgrad.graph import dtypes
from symgrad.graph.build import apply
from symgrad.graph.nested import Traced
from symgrad.graph.node import Grads, Infer, KernelRule, Node, OpDef, Reference, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.ops.arithmetic import multiply
from symgrad.graph.ops.comparison import equal, isnan, logical_or, where
from symgrad.graph.ops.conversion import size_of
from symgrad.graph.ops.elementwise import filled, filled_like
from symgrad.graph.ops.gathering import (
    check_updates,
    gather,
    iota,
    scatter_batch,
    set_rows,
    within,
)
from symgrad.graph.ops.scan import scan_loop
from symgrad.graph.ops.structure import broadcast_to, reshape
from symgrad.graph.ops.views import moveaxis
from symgrad.graph.structures import Scatter
from symgrad.graph.types import Array, TensorType

_NO_UPDATE = np.iinfo(np.int64).max


def multiply_rows(base: Tensor, updates: Tensor, indices: Sequence[Tensor], axis: int) -> Tensor:
    """Return `base` with the elements a gather would read multiplied by `updates`.

    Updates that meet all multiply, in row-major order of the updates.
    """
    return apply(scatter_multiply_op, base, updates, *indices, axis=axis)


def extreme_rows(
    definition: OpDef, base: Tensor, updates: Tensor, indices: Sequence[Tensor], axis: int
) -> Tensor:
    """Return `base` with the extremes of the elements a gather would read and of `updates`.

    `definition` says which, `scatter_min_op` or `scatter_max_op`. A nan is taken wherever there is
    one. Of equals the base has the gradient, or else the first of the updates.
    """
    return apply(definition, base, updates, *indices, axis=axis)


def _infer(op: str) -> Infer:
    def infer(base: TensorType, updates: TensorType, *indices: TensorType, axis: int) -> TensorType:
        if base.dtype.is_bool or updates.dtype != base.dtype:
            raise DTypeError(op, f"updates: {updates} are not combined with base: {base}")
        check_updates(op, base, updates, indices, axis)
        return base

    return infer


def _reference(op: str, ufunc: np.ufunc) -> Reference:
    def reference(base: Array, updates: Array, *indices: Array, axis: int) -> Array:
        result = np.array(base)
        places = (slice(None),) * axis + within(op, base, indices, axis)
        with np.errstate(all="ignore"):
            # NumPy's annotation leaves out the slices that its documentation allows.
            ufunc.at(result, places, updates)  # type: ignore[arg-type]
        return result

    return reference


def _kernel(scalar_op: str) -> KernelRule:
    def kernel(_base: TensorType, _updates: TensorType, *indices: TensorType, axis: int) -> Scatter:
        return Scatter(axis, len(indices), lambda s, old, update: s.call(scalar_op, old, update))

    return kernel


# Note [Gradient of scatter_multiply]
# The gradient to an update is the product of all else that meets in its place. Dividing by the
# update fails at 0, so it is the product of what comes before the update, as it finds its place,
# and of what comes after it: two loops over the updates in order, which differentiate again.


def _multiply_grad(node: Node, g: Tensor, *, axis: int) -> Grads:
    base, updates, *indices = node.inputs
    if all(n == 1 for n in indices[0].shape):  # nothing meets
        others = multiply(gather(base, indices, axis), gather(g, indices, axis))
    else:
        before = _found_rows(base, updates, indices, axis, reverse=False)
        others = multiply(before, _found_rows(g, updates, indices, axis, reverse=True))
    return (multiply_rows(g, updates, indices, axis), others, *(None for _ in indices))


def _found_rows(
    base: Tensor, updates: Tensor, indices: Sequence[Tensor], axis: int, *, reverse: bool
) -> Tensor:
    """Return for each update the product it finds in its place: of `base` and those before it."""
    places, rank = indices[0].shape, indices[0].ndim
    count = indices[0].type.size
    behind = tuple(range(axis, axis + rank))
    ordered = moveaxis(updates, behind, tuple(range(rank)))
    stacks = [reshape(ordered, (count, *ordered.shape[rank:]))]
    stacks += [reshape(index, (count,)) for index in indices]
    body = Traced("products", [base.type, *(t.type.with_shape(t.shape[1:]) for t in stacks)])

    def step(table: Tensor, update: Tensor, *place: Tensor) -> Sequence[Tensor]:
        found = gather(table, place, axis)
        return set_rows(table, multiply(found, update), place, axis), found

    body.run(step)
    loop = scan_loop(size_of(count), [base], stacks, body, count, reverse=reverse)
    found = reshape(loop.outputs[1], (*places, *ordered.shape[rank:]))
    return moveaxis(found, tuple(range(rank)), behind)


def _extreme_grad(node: Node, g: Tensor, *, axis: int) -> Grads:
    base, updates, *indices = node.inputs
    of_base = _is_extreme(base, node.output)
    # The number of the first update that is the extreme of its place, -1 where the base is.
    places, rest = indices[0].shape, updates.ndim - axis - indices[0].ndim
    numbers = reshape(iota((indices[0].type.size,), 0), (*(1,) * axis, *places, *(1,) * rest))
    number = broadcast_to(numbers, updates.shape)
    none = filled(updates.shape, _NO_UPDATE, dtypes.int64)
    of_updates = _is_extreme(updates, gather(node.output, indices, axis))
    start = where(of_base, -1, filled(base.shape, _NO_UPDATE, dtypes.int64))
    first = extreme_rows(scatter_min_op, start, where(of_updates, number, none), indices, axis)
    is_first = equal(gather(first, indices, axis), number)
    return (
        where(of_base, g, filled_like(base, 0)),
        where(is_first, gather(g, indices, axis), filled_like(updates, 0)),
        *(None for _ in indices),
    )


def _is_extreme(x: Tensor, extreme: Tensor) -> Tensor:
    return logical_or(equal(x, extreme), isnan(x))  # a nan is the extreme wherever there is one


scatter_multiply_op = define(
    "scatter_multiply",
    infer=_infer("scatter_multiply"),
    reference=_reference("scatter_multiply", np.multiply),
    grad=_multiply_grad,
    kernel=_kernel("mul"),
    batch=scatter_batch,
)

scatter_min_op = define(
    "scatter_min",
    infer=_infer("scatter_min"),
    reference=_reference("scatter_min", np.minimum),
    grad=_extreme_grad,
    kernel=_kernel("min"),
    batch=scatter_batch,
)

scatter_max_op = define(
    "scatter_max",
    infer=_infer("scatter_max"),
    reference=_reference("scatter_max", np.maximum),
    grad=_extreme_grad,
    kernel=_kernel("max"),
    batch=scatter_batch,
)
