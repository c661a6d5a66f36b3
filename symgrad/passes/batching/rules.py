"""How each op takes operands with one more axis in front, of which every slice is a case.

A rule is handed the operands, of which some have the axis, and the attributes by keyword; it
returns the result with the axis. What has no rule is run slice by slice; branches and loops are in
`symgrad/passes/batching/control.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from symgrad.graph.build import apply_node
from symgrad.graph.dtypes import DType
from symgrad.graph.node import Node, Tensor
from symgrad.graph.opdef import ELEMENTWISE
from symgrad.graph.ops.contraction import LABELS, contract
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.slicing import slice_axes
from symgrad.graph.ops.structure import Axes, broadcast_to, reshape
from symgrad.graph.ops.views import moveaxis
from symgrad.graph.sizes import Dim
from symgrad.graph.structures import Number
from symgrad.graph.types import Attr, Shape, is_unbounded


class Entry(NamedTuple):
    """What stands for a tensor of the graph: with the axis in front, or as it was.

    A stack of a loop without a bound has the axis behind its first one, since only a loop may
    touch it.
    """

    tensor: Tensor
    is_batched: bool


@dataclass(frozen=True, slots=True, eq=False)
class Operands:
    """The operands of `node`, some of them with the axis, of `size`."""

    node: Node
    entries: tuple[Entry, ...]
    size: Dim

    @property
    def tensors(self) -> list[Tensor]:
        """The operands as they are."""
        return [entry.tensor for entry in self.entries]

    def lift(self, entry: Entry) -> Tensor:
        """Return an operand with the axis, repeated along it if it had none."""
        tensor = entry.tensor
        if entry.is_batched:
            return tensor
        assert not is_unbounded(tensor.type), f"{tensor!r} is repeated, and has no bound"
        return broadcast_to(reshape(tensor, (1, *tensor.shape)), (self.size, *tensor.shape))

    def lifted(self) -> list[Tensor]:
        """Return all operands with the axis."""
        return [self.lift(entry) for entry in self.entries]

    def apply(self, *inputs: Tensor, **attrs: Attr) -> Tensor:
        """Apply the op of the node again."""
        return apply_node(self.node.definition, inputs, attrs).output


Rule = Callable[..., Tensor | Entry]


def _elementwise(operands: Operands) -> Tensor:
    return operands.apply(*operands.lifted())


def _astype(operands: Operands, *, dtype: DType) -> Tensor:
    return operands.apply(*operands.tensors, dtype=dtype)


def _philox(operands: Operands, *, pair: int) -> Tensor:
    return operands.apply(*operands.lifted(), pair=pair)


def _prevent_gradient(operands: Operands, *, message: str) -> Tensor:
    return operands.apply(*operands.tensors, message=message)


def _reduction(operands: Operands, *, axes: Axes) -> Tensor:
    return operands.apply(*operands.tensors, axes=tuple(a + 1 for a in axes))


def _broadcast_to(operands: Operands, *, shape: Shape) -> Tensor:
    (x,) = operands.tensors
    lead = len(shape) + 1 - x.ndim
    aligned = reshape(x, (x.shape[0], *(1,) * lead, *x.shape[1:]))
    return broadcast_to(aligned, (operands.size, *shape))


def _to_shape(operands: Operands, *, shape: Shape) -> Tensor:
    return operands.apply(*operands.tensors, shape=(operands.size, *shape))


def _permute_dims(operands: Operands, *, axes: Axes) -> Tensor:
    return operands.apply(*operands.tensors, axes=(0, *(a + 1 for a in axes)))


def _slice(operands: Operands, *, start: Shape, size: Shape, step: Axes) -> Tensor:
    return operands.apply(
        *operands.tensors, start=(0, *start), size=(operands.size, *size), step=(1, *step)
    )


def _place(operands: Operands, *, shape: Shape, low: Shape, step: Axes, value: Number) -> Tensor:
    return operands.apply(
        *operands.tensors,
        shape=(operands.size, *shape),
        low=(0, *low),
        step=(1, *step),
        value=value,
    )


def _concat(operands: Operands, *, axis: int) -> Tensor:
    return operands.apply(*operands.lifted(), axis=axis + 1)


def _einsum(operands: Operands, *, spec: str) -> Tensor:
    """Give the axis a label of its own, in the operands that have it."""
    factors, _, out = spec.partition("->")
    labels = factors.split(",")
    new = next(label for label in LABELS if label not in spec)
    lhs, rhs = (
        new + own if entry.is_batched else own
        for own, entry in zip(labels, operands.entries, strict=True)
    )
    first, second = operands.tensors
    return contract(first, second, lhs, rhs, new + out)


def _gather(operands: Operands, *, axis: int) -> Tensor:
    x, *indices = operands.entries
    if not any(entry.is_batched for entry in indices):
        return operands.apply(*operands.tensors, axis=axis + 1)
    places = [operands.lift(entry) for entry in indices]
    if x.is_batched:
        rows, places = _beside(x.tensor, places, axis)
    else:
        rows = x.tensor
    return moveaxis(operands.apply(rows, *places, axis=axis), axis, 0)


def _beside(x: Tensor, places: Sequence[Tensor], axis: int) -> tuple[Tensor, list[Tensor]]:
    """Put the axis of `x` before `axis`, to be indexed with its own number."""
    return moveaxis(x, 0, axis), [iota(places[0].shape, 0), *places]


def _scatter(operands: Operands, *, axis: int) -> Tensor:
    base, updates, *indices = operands.entries
    into, added = operands.lift(base), operands.lift(updates)
    if not any(entry.is_batched for entry in indices):
        return operands.apply(into, added, *(e.tensor for e in indices), axis=axis + 1)
    rows, places = _beside(into, [operands.lift(entry) for entry in indices], axis)
    result = operands.apply(rows, moveaxis(added, 0, axis), *places, axis=axis)
    return moveaxis(result, axis, 0)


def _after(operands: Operands) -> Tensor | Entry:
    """Keep what is the same for all cases so: to wait for one of them is to wait for all."""
    x, other = operands.entries
    if x.is_batched or operands.size == 0:
        return _elementwise(operands)
    waited_for = other.tensor
    one = slice_axes(
        waited_for, (0,) * waited_for.ndim, (1, *waited_for.shape[1:]), (1,) * waited_for.ndim
    )
    return Entry(operands.apply(x.tensor, reshape(one, waited_for.shape[1:])), False)


# By the names of ops; what is elementwise has no row of its own.
_RULES: dict[str, Rule] = {
    "after": _after,
    "all": _reduction,
    "any": _reduction,
    "argmax": _reduction,
    "argmin": _reduction,
    "astype": _astype,
    "broadcast_to": _broadcast_to,
    "concat": _concat,
    "einsum": _einsum,
    "gather": _gather,
    "match_shape": _to_shape,
    "max": _reduction,
    "min": _reduction,
    "pad": _place,
    "permute_dims": _permute_dims,
    "philox": _philox,
    "prevent_gradient": _prevent_gradient,
    "prod": _reduction,
    "reshape": _to_shape,
    "scatter_add": _scatter,
    "scatter_set": _scatter,
    "slice": _slice,
    "sum": _reduction,
}


def rule_of(op: str) -> Rule | None:
    """Return the rule of an op that runs no nested graph, None if it has none."""
    return _RULES.get(op) or (_elementwise if op in ELEMENTWISE else None)
