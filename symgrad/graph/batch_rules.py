"""Batching (vmap) rules: what they are handed, and those that several ops share.

A rule is the field `batch` of an op's record: how the op takes operands with one more axis in
front, of which every slice is a case. It is handed the operands, of which some have the axis, and
the attributes by keyword, and returns the result with the axis, or a list of results. What has no
rule is run slice by slice. The walk over a graph is in `symgrad/passes/batching/`.
"""

from __future__ import annotations

from typing import NamedTuple

from symgrad.graph.build import apply, apply_node
from symgrad.graph.node import Batch, Node, Tensor
from symgrad.graph.opdef import OPS
from symgrad.graph.sizes import Dim
from symgrad.graph.structures import PrefixScan, Reduce
from symgrad.graph.types import Attr, Shape, is_unbounded
from symgrad.records import dataclass


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
        row, shape = tensor.reshape((1, *tensor.shape)), (self.size, *tensor.shape)
        return row if row.shape == shape else apply(OPS["broadcast_to"], row, shape=shape)

    def lifted(self) -> list[Tensor]:
        """Return all operands with the axis."""
        return [self.lift(entry) for entry in self.entries]

    def apply(self, *inputs: Tensor, **attrs: Attr) -> Tensor:
        """Apply the op of the node again."""
        return apply_node(self.node.definition, inputs, attrs).output


def rule_of(node: Node) -> Batch | None:
    """Return the rule of an op, as its record states it or as it follows from its structure.

    None if it has none. A Map that has a shape as an attribute must state one.
    """
    op = node.definition
    if op.batch is not None:
        return op.batch
    if op.is_elementwise:
        return _batch_elementwise
    if op.structure is PrefixScan and node.attrs.keys() <= {"axis", "reverse", "exclusive"}:
        return _batch_scan
    return _batch_reduction if op.structure is Reduce and node.attrs.keys() == {"axes"} else None


def _batch_elementwise(operands: Operands, **attrs: Attr) -> Tensor:
    return operands.apply(*operands.lifted(), **attrs)


def _batch_reduction(operands: Operands, *, axes: tuple[int, ...]) -> Tensor:
    return operands.apply(*operands.tensors, axes=tuple(a + 1 for a in axes))


def _batch_scan(operands: Operands, *, axis: int, **attrs: Attr) -> Tensor:
    # All operands have the shape of the result.
    return operands.apply(*operands.lifted(), axis=axis + 1, **attrs)


def batch_in_front(operands: Operands, **attrs: Attr) -> list[Tensor]:
    """Give all operands and results the axis, of an op whose first axes are a batch anyway."""
    return list(apply_node(operands.node.definition, tuple(operands.lifted()), attrs).outputs)


def batch_to_shape(operands: Operands, *, shape: Shape) -> Tensor:
    """Give the result of an op of one operand the axis, where `shape` is that of the result."""
    return operands.apply(*operands.tensors, shape=(operands.size, *shape))
