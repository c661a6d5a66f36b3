"""Prefix scans, what they share: type rules, NumPy meanings, and kernels.

No op is declared here; the families are sums (`cumulative.py`), products (`running_products.py`),
maxima and minima (`running_extremes.py`) and exponentials (`exponential_scans.py`). Every record
has an `axis`; with `reverse` the scan begins at its end, and with `exclusive` an element's own is
left out of what stands at its place. The adjoint of a sum of some elements before is the sum of
some after, so each gradient is a scan in the other direction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import ShapeError
from symgrad.graph.build import apply
from symgrad.graph.dtypes import DType, as_dtype
from symgrad.graph.node import Infer, KernelRule, OpDef, Reference, Tensor
from symgrad.graph.operands import meet_shapes, normalize_axis, require_dtype
from symgrad.graph.ops.elementwise import Allowed, widen_halves
from symgrad.graph.ops.structure import accumulator_dtype
from symgrad.graph.structures import Number, PrefixScan
from symgrad.graph.types import Array, TensorType

Identity = Callable[[DType, bool], Number]  # of a dtype, and of a scan that is exclusive or not


def scan_along(
    op: OpDef, *operands: Tensor, axis: int, reverse: bool = False, exclusive: bool = False
) -> Tensor:
    """Apply a scan to operands of one shape."""
    return apply(op, *operands, axis=axis, reverse=reverse, exclusive=exclusive)


def scan_axis(op: OpDef, x: Tensor, axis: int) -> Tensor:
    """Apply a scan along an axis as a user names it."""
    return scan_along(op, x, axis=normalize_axis(op.name, axis, x.ndim))


def check_axis(op: str, x: TensorType, axis: int) -> None:
    """Raise `ShapeError` if `x` has no such axis, counted from 0."""
    if not 0 <= axis < x.ndim:
        raise ShapeError(op, f"axis {axis} is not an axis of x: {x}")


def infer_scan(op: str, *allowed: Allowed) -> Infer:
    """Return the type rule of a scan: operands of one shape, of which the first has the type."""

    def infer(*operands: TensorType, axis: int, reverse: bool, exclusive: bool) -> TensorType:
        return infer_along(op, allowed, operands, axis)

    return infer


def infer_along(
    op: str, allowed: tuple[Allowed, ...], operands: tuple[TensorType, ...], axis: int
) -> TensorType:
    """Return the type of a scan's result, that of its first operand."""
    first = operands[0]
    for name, operand, takes in zip("xyz"[: len(allowed)], operands, allowed, strict=True):
        require_dtype(op, name, operand, takes)
        meet_shapes(op, "x", first, name, operand)
    check_axis(op, first, axis)
    return first


def accumulate_reference(ufunc: np.ufunc, identity: Identity) -> Reference:
    """Return the NumPy meaning of a scan by a ufunc; a 16-bit float is rounded once."""

    def reference(x: Array, *, axis: int, reverse: bool, exclusive: bool) -> Array:
        (wide,) = widen_halves(x)
        forward = np.flip(wide, axis) if reverse else wide
        scanned = ufunc.accumulate(forward, axis=axis, dtype=wide.dtype)
        if exclusive:
            scanned = np.roll(scanned, 1, axis)
            first = (*(slice(None),) * axis, slice(0, 1))
            scanned[first] = identity(as_dtype(x.dtype), True)
        return np.asarray(np.flip(scanned, axis) if reverse else scanned).astype(x.dtype)

    return reference


def sliced_reference(
    step: Callable[..., Any], start: Any, operands: tuple[Array, ...], axis: int, reverse: bool
) -> list[Any]:
    """Return the states before each slice along `axis` and after the last, in the scan's order."""
    places = range(operands[0].shape[axis])
    states = [start]
    for at in reversed(places) if reverse else places:
        states.append(step(states[-1], *(x.take(at, axis) for x in operands)))
    return states


def stacked(slices: list[Array], like: Array, axis: int, reverse: bool) -> Array:
    """Return the slices of a scan of `like`, in its order, as one array."""
    if not slices:
        return np.zeros_like(like)
    return np.stack(slices[::-1] if reverse else slices, axis).astype(like.dtype)


def fold_kernel(scalar_op: str, identity: Identity) -> KernelRule:
    """Return the kernel rule of a scan by one scalar operation."""

    def kernel(x: TensorType, *, axis: int, reverse: bool, exclusive: bool) -> PrefixScan:
        wide = accumulator_dtype(x.dtype)
        return PrefixScan(
            axis,
            reverse,
            exclusive,
            dtypes=(wide,),
            identity=(identity(x.dtype, exclusive),),
            item=lambda s, item: (s.cast(item, wide),),
            combine=lambda s, a, b: (s.call(scalar_op, a[0], b[0]),),
            finish=lambda s, running, _item: s.cast(running[0], x.dtype),
        )

    return kernel
