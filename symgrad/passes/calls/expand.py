"""Expansion of ops that are algorithms: each is replaced by the graph of its algorithm.

Before:

    %l = cholesky %a : f32[2, 2]
    return %l

After:

    %0 = reshape %a {shape = [4, 1]} : f32[4, 1]
    %1 = cholesky_columns %0 {n = 2} : f32[4, 1]
    %l = reshape %1 {shape = [2, 2]} : f32[2, 2]
    return %l

An op is one if its structure is a Call and it has no graph among its attributes: its record makes
the graph, for operands of known sizes. Before this, passes see the op and its closed-form gradient,
and weigh it as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.graph.build import are_same, derived_from, rebuild_here
from symgrad.graph.compare import graphs_of
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import placeholder_op
from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import Call
from symgrad.passes.costs import kernel_spec
from symgrad.passes.loops.prune_loops import prune_loops


def expand(graph: Graph) -> Graph:
    """Return `graph` without ops that are algorithms, but for those in nested graphs."""
    if not any(map(is_algorithm, graph.nodes)):
        return graph
    mapping: dict[Tensor, Tensor] = {}
    for node in graph.nodes:
        inputs = tuple(mapping[t] for t in node.inputs)
        if are_same(inputs, node.inputs) and not is_algorithm(node):
            mapping.update((t, t) for t in node.outputs)
            continue
        mapping.update(zip(node.outputs, _expanded(node, inputs), strict=True))
    # An algorithm makes all results of its op, by loops over parts: some of them nobody may read.
    return prune_loops(graph.with_roots(mapping))


def is_algorithm(node: Node) -> bool:
    """Return whether the op of `node` is computed by a graph that its record makes."""
    return node.definition.structure is Call and not graphs_of(node)


def _expanded(node: Node, inputs: tuple[Tensor, ...]) -> Sequence[Tensor]:
    """Build a node here, or what it is expanded to."""
    if not is_algorithm(node):
        return rebuild_here(node, inputs).outputs
    with derived_from(node):
        spec = kernel_spec(node)
    assert isinstance(spec, Call), f"{node!r} is no algorithm"
    graph = spec.graph
    assert isinstance(graph, Graph), "an expansion is a graph"
    values = dict(zip(graph.inputs, inputs, strict=True))
    for inner in graph.nodes:
        if inner.definition is not placeholder_op:
            operands = tuple(values[t] for t in inner.inputs)
            values.update(zip(inner.outputs, _expanded(inner, operands), strict=True))
    return [values[t] for t in graph.outputs]
