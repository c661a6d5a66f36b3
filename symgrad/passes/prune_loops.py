"""Prune loops: leave out what branches and loops compute and nobody reads.

Before:

    %0, %1, %2, %3 = while_loop %x, %y {capacity = 8, carried = 2} {...} : i64[], f32[], f32[], f32[8]
    return %1

After, where the second loop variable only feeds itself:

    %0, %1 = while_loop %x {capacity = 8, carried = 1} {...} : i64[], f32[]
    return %1

Left out are results of a `switch_case`, stacks, loop variables whose last value is not read and
which nothing else in the loop depends on, and operands that no nested graph reads; then the same
in the nested graphs. A loop none of whose results is read is not in the graph to begin with. No
computation is changed: equal loops are merged elsewhere, and values that stay the same in every
iteration remain loop variables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from symgrad.graph.compare import graphs_in
from symgrad.graph.graph import Graph
from symgrad.graph.node import Attrs, Node, Tensor
from symgrad.graph.ops.control import switch_case_op, while_loop_op
from symgrad.graph.types import Attr
from symgrad.passes.merge_loops import LOOPS, body_of, carried_of, count_of_results, with_attrs


def prune_loops(graph: Graph) -> Graph:
    """Return `graph` with branches and loops that compute only what is read, at any depth."""
    cuts = _cuts(graph)
    mapping: dict[Tensor, Tensor] = {t: t for t in graph.inputs}
    for node in graph.nodes:
        if node in cuts:
            inputs = tuple(mapping[node.inputs[i]] for i in cuts[node].operands)
            mapping.update(cuts[node].apply(node, inputs))
    is_same = all(old is new for old, new in mapping.items())
    return graph if is_same else graph.with_roots(mapping)


@dataclass(frozen=True, slots=True, eq=False)
class _Cut:
    """What remains of a node: operands and results, by their positions, and its attributes."""

    operands: Sequence[int]
    results: Sequence[int]
    attrs: Attrs

    def apply(self, node: Node, inputs: tuple[Tensor, ...]) -> Iterable[tuple[Tensor, Tensor]]:
        """Return what stands for the results that remain, with `inputs` as operands."""
        new = node
        is_same = inputs == () == node.inputs or (
            len(inputs) == len(node.inputs)
            and all(a is b for a, b in zip(inputs, node.inputs, strict=True))
            and all(value is node.attrs[key] for key, value in self.attrs.items())
        )
        if not is_same:
            new = with_attrs(node, inputs, self.attrs)
        return zip((node.outputs[i] for i in self.results), new.outputs, strict=True)
