"""Batching (vmap) rules: what they are handed, and a rule that several ops share.

A rule is the field `batch` of an op's record: how the op takes operands with one more axis in
front, of which every slice is a case. It is handed the operands, of which some have the axis, and
the attributes by keyword, and returns the result with the axis. What has no rule is run slice by
slice; those that follow from a structure are in `opdef.py`. The walk over a graph is in
`symgrad/passes/batching/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from symgrad.graph.build import apply_node
from symgrad.graph.node import Node, Tensor
from symgrad.graph.public_ops import public_op
from symgrad.graph.sizes import Dim
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
        row = tensor.reshape((1, *tensor.shape))
        repeated: Tensor = public_op("broadcast_to")(row, (self.size, *tensor.shape))
        return repeated

    def lifted(self) -> list[Tensor]:
        """Return all operands with the axis."""
        return [self.lift(entry) for entry in self.entries]

    def apply(self, *inputs: Tensor, **attrs: Attr) -> Tensor:
        """Apply the op of the node again."""
        return apply_node(self.node.definition, inputs, attrs).output


def batch_to_shape(operands: Operands, *, shape: Shape) -> Tensor:
    """Give the result of an op of one operand the axis, where `shape` is that of the result."""
    return operands.apply(*operands.tensors, shape=(operands.size, *shape))
