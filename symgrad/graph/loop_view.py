"""Loop views: the parts of a `while` or `scan` node by their names.

A loop is a node whose attributes hold the graph it repeats. Passes ask a view for its parts and
leave the order of operands, results and attributes to this file.
"""

from __future__ import annotations

from symgrad.graph.graph import Graph
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.scan import scan_op
from symgrad.graph.ops.while_loop import while_loop_op
from symgrad.graph.sizes import Dim, Size
from symgrad.records import dataclass

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
    def condition(self) -> Graph | None:
        """The graph that says whether a `while` goes on; None for a `scan`."""
        condition = self.node.attrs.get("condition")
        return condition if isinstance(condition, Graph) else None

    @property
    def carried(self) -> int:
        """The number of loop variables."""
        carried = self.node.attrs["carried"]
        assert isinstance(carried, int), f"{self.node!r} has {carried} loop variables"
        return carried

    @property
    def scanned(self) -> int:
        """The number of stacks that the loop scans, 0 for a `while`."""
        scanned = self.node.attrs.get("scanned", 0)
        assert isinstance(scanned, int), f"{self.node!r} scans {scanned} stacks"
        return scanned

    @property
    def changing(self) -> int:
        """The number of inputs of the body that are loop variables or slices: the first ones."""
        return self.carried + self.scanned

    @property
    def reverse(self) -> bool:
        """Whether a `scan` runs from the last slice to the first."""
        return bool(self.node.attrs.get("reverse", False))

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """What the inputs of the body stand for: of a loop variable, what it starts with."""
        return self.node.inputs if self.is_while else self.node.inputs[1:]

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

    @property
    def places_of_stacks(self) -> dict[Tensor, int]:
        """For each tensor that the body stacks, where its stack is among the results."""
        return {t: self.first_stack + i for i, t in enumerate(self.stacked)}
