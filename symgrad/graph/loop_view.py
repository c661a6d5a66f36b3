"""Loop views: the parts of a `while` or `scan` node by their names.

A loop is a node whose attributes hold the graph it repeats. Passes ask a view for its parts and
leave the order of operands, results and attributes to this file.
"""

from __future__ import annotations

from dataclasses import dataclass

from symgrad.graph.graph import Graph
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.scan import scan_op
from symgrad.graph.ops.while_loop import while_loop_op
from symgrad.graph.sizes import Dim, Size

LOOPS = (while_loop_op, scan_op)


def is_loop(node: Node) -> bool:
    """Return whether `node` is a `while` or a `scan`."""
    return node.definition in LOOPS


@dataclass(frozen=True, slots=True, eq=False)
class LoopView:
    """The parts of `node`, which is a loop."""

    node: Node

    @property
    def is_while(self) -> bool:
        """Whether only the values decide how often the loop runs."""
        return self.node.definition is while_loop_op

    @property
    def body(self) -> Graph:
        """The graph that the loop repeats."""
        body = self.node.attrs["body"]
        assert isinstance(body, Graph), f"{self.node!r} has no body"
        return body

    @property
    def carried(self) -> int:
        """The number of loop variables."""
        carried = self.node.attrs["carried"]
        assert isinstance(carried, int), f"{self.node!r} has {carried} loop variables"
        return carried

    @property
    def capacity(self) -> Dim:
        """The bound on the number of iterations that is known now."""
        capacity = self.node.attrs["capacity"]
        assert isinstance(capacity, int | Size), f"{self.node!r} has a capacity of {capacity}"
        return capacity

    @property
    def first_stack(self) -> int:
        """The number of results before the stacks: a `while` counts its iterations."""
        return self.carried + self.is_while

    @property
    def stacked(self) -> tuple[Tensor, ...]:
        """What the body gives for each stack."""
        return self.body.outputs[self.carried :]
