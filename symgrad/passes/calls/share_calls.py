"""Function merging and dead argument elimination: one graph for all calls of equal functions.

It takes what it reads, and computes what some call reads.

Before, where the second result is what a gradient would read, and there is none:

    %0, %1 = call %x, %w {callee = @f} : f32[32], f32[32, 10]
    %2, %3 = call %0, %w {callee = @f, traced anew} : f32[32], f32[32, 10]
    return %2

After:

    %0 = call %x, %w {callee = @f} : f32[32]
    %1 = call %0, %w {callee = @f} : f32[32]
    return %1

A result that is read at one of the calls is computed at all of them. Within the function, branches
and loops are pruned as in the rest of the program, and operands that nobody reads any more are
dropped. Functions are no longer rewritten after this, except for sizes that become known.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.graph.build import are_same, rebuild, with_attrs
from symgrad.graph.compare import graphs_of, has_nested_graphs
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.calls import call_op, callee_of
from symgrad.graph.types import Attr
from symgrad.passes.calls.callees import Callees, calls_in, graphs_within
from symgrad.passes.loops.prune_loops import inputs_read, prune_loops, select_outputs, take_inputs
from symgrad.records import dataclass


def share_calls(graph: Graph) -> Graph:
    """Return `graph` with equal functions merged, and without results that no call reads."""
    while has_nested_graphs(graph):
        shared = _CallSharing(graph).graph(graph)
        if shared is graph:
            return graph
        # What was dropped may have been all that read a result of another function.
        graph = shared
    return graph


@dataclass(frozen=True, slots=True, eq=False)
class _PrunedCallee:
    """What remains of a function: positions of operands and of results."""

    callee: Graph
    operands: Sequence[int]
    results: Sequence[int]


class _CallSharing:
    def __init__(self, program: Graph) -> None:
        self._callees = Callees()
        self._read: dict[Graph, set[int]] = {}
        for graph in graphs_within(program):
            calls = list(calls_in(graph))
            read = {*graph.roots, *(t for n in graph.nodes for t in n.inputs)} if calls else ()
            for node in calls:
                callee = self._callees.first_of(callee_of(node))
                found = self._read.setdefault(callee, set())
                found.update(t.index for t in node.outputs if t in read)
        self._cuts: dict[Graph, _PrunedCallee] = {}
        self._graphs: dict[Graph, Graph] = {}

    def graph(self, graph: Graph) -> Graph:
        """Return what stands for `graph`."""
        if graph not in self._graphs:
            mapping: dict[Tensor, Tensor] = {}
            for node in graph.nodes:
                self._replace(node, mapping)
            is_same = all(old is new for old, new in mapping.items())
            self._graphs[graph] = graph if is_same else graph.with_roots(mapping)
        return self._graphs[graph]

    def _replace(self, node: Node, mapping: dict[Tensor, Tensor]) -> None:
        if node.definition is call_op:
            cut = self._cut(callee_of(node))
            inputs = tuple(mapping[node.inputs[i]] for i in cut.operands)
            kept = tuple(node.outputs[i] for i in cut.results)
            is_same = cut.callee is callee_of(node) and are_same(inputs, node.inputs)
            new = node if is_same else with_attrs(node, inputs, {"callee": cut.callee})
            mapping.update(zip(kept, new.outputs, strict=True))
            return
        inputs = tuple(mapping[t] for t in node.inputs)
        has_same_graphs = all(self.graph(inner) is inner for _, inner in graphs_of(node))
        is_same = has_same_graphs and are_same(inputs, node.inputs)
        new = node if is_same else rebuild(node, inputs, self._attr)
        mapping.update(zip(node.outputs, new.outputs, strict=True))

    def _attr(self, attr: Attr) -> Attr:
        if isinstance(attr, tuple):
            return tuple(map(self._attr, attr))
        return self.graph(attr) if isinstance(attr, Graph) else attr

    def _cut(self, given: Graph) -> _PrunedCallee:
        callee = self._callees.first_of(given)
        if callee not in self._cuts:
            results = sorted(self._read[callee])
            pruned = self.graph(prune_loops(select_outputs(callee, results)))
            operands = sorted(inputs_read([pruned]))
            self._cuts[callee] = _PrunedCallee(take_inputs(pruned, operands), operands, results)
        return self._cuts[callee]
