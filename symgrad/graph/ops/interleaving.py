"""Interleaving: tensors whose elements alternate in one, the adjoint of slices with a step.

The gradient of a strided convolution is made of one tensor for each residue of the stride.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, ShapeError
from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.ops.slicing import slice_axes
from symgrad.graph.ops.structure import Axes
from symgrad.graph.sizes import divide
from symgrad.graph.structures import AxisMap, Place
from symgrad.graph.types import Array, Shape, TensorType, static


def interleave(
    parts: Sequence[Tensor], shape: Shape, starts: tuple[Axes, ...], step: Axes
) -> Tensor:
    """Join tensors whose elements alternate: element i of a part is at `start + step * i`.

    The parts cover the result, of `shape`, and no two of them meet.
    """
    return apply(interleave_op, *parts, shape=tuple(shape), starts=starts, step=step)


def starts_of(node: Node) -> tuple[Axes, ...]:
    """Return where each operand of an `interleave` begins, along each axis."""
    starts: Any = node.attrs["starts"]
    return tuple(starts)


def _interleave_infer(
    *parts: TensorType, shape: Shape, starts: tuple[Axes, ...], step: Axes
) -> TensorType:
    first = parts[0]
    for number, (part, start) in enumerate(zip(parts, starts, strict=True)):
        if part.dtype != first.dtype:
            raise DTypeError("interleave", f"dtypes differ: {first}, {part}")
        if not len(shape) == len(start) == len(step) == part.ndim:
            raise ShapeError("interleave", f"ranks differ: {first}, {part}")
        for n, total, low, by in zip(part.shape, shape, start, step, strict=True):
            expected = divide(total - low + (by - 1), by)
            if isinstance(n, int) and isinstance(expected, int) and n != expected:
                text = ", ".join(map(str, shape))
                raise ShapeError("interleave", f"operand {number}: {part} is no part of [{text}]")
    return first.with_shape(shape)


def _interleave_reference(
    *parts: Array, shape: Shape, starts: tuple[Axes, ...], step: Axes
) -> Array:
    out = np.zeros(tuple(map(static, shape)), parts[0].dtype)
    for part, start in zip(parts, starts, strict=True):
        out[tuple(slice(low, None, by) for low, by in zip(start, step, strict=True))] = part
    return out


def _interleave_grad(
    node: Node, g: Tensor, *, shape: Shape, starts: tuple[Axes, ...], step: Axes
) -> Grads:
    pairs = zip(node.inputs, starts, strict=True)
    return tuple(slice_axes(g, start, part.shape, step) for part, start in pairs)


def _interleave_kernel(
    *_parts: TensorType, shape: Shape, starts: tuple[Axes, ...], step: Axes
) -> Place:
    maps = (
        tuple(AxisMap.axis(a, by, low) for a, (low, by) in enumerate(zip(start, step, strict=True)))
        for start in starts
    )
    return Place(tuple(maps), None)


def _interleave_batch(
    operands: Operands, *, shape: Shape, starts: tuple[Axes, ...], step: Axes
) -> Tensor:
    moved = tuple((0, *start) for start in starts)
    return interleave(operands.lifted(), (operands.size, *shape), moved, (1, *step))


interleave_op = define(
    "interleave",
    infer=_interleave_infer,
    reference=_interleave_reference,
    grad=_interleave_grad,
    kernel=_interleave_kernel,
    batch=_interleave_batch,
    gradient_mask="moved",
    of_pairs="each",
)
