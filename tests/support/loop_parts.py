"""What the tests of passes over loops share: loops with products, and what a graph has of ops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from symgrad.graph.compare import graphs_of
from symgrad.graph.graph import Graph
from symgrad.graph.nested import Traced
from symgrad.graph.node import Node, Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.scan import scan_loop
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Array
from symgrad.graph.verify import verify
from symgrad.passes.rewrites.rewrite import Decision, Rewrites

Pass = Callable[[Graph, Rewrites], Graph]


def scan_of(
    step: Callable[..., Sequence[Tensor]],
    initial: Sequence[Tensor],
    stacks: Sequence[Tensor] = (),
    *,
    trips: int | Tensor,
    capacity: int | None = None,
) -> Node:
    """Return a scan that runs `step` on loop variables and slices, `trips` times."""
    types = [*(t.type for t in initial), *(t.type.with_shape(t.shape[1:]) for t in stacks)]
    body = Traced("body", types)
    body.run(step)
    count = trips if isinstance(trips, Tensor) else constant(np.int64(trips))
    size = trips if isinstance(trips, int) and capacity is None else capacity
    assert size is not None, "a number that is a tensor needs a capacity"
    return scan_loop(count, initial, stacks, body, size)


def changed_by(graph_pass: Pass, graph: Graph, arrays: Sequence[Array]) -> Graph:
    """Return `graph` after a pass, having checked that it computes the same, up to rounding."""
    after = graph_pass(graph, Rewrites())
    verify(after)
    wanted, found = evaluate(graph, arrays)[0], evaluate(after, arrays)[0]
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-12)
    return after


def reasons(graph_pass: Pass, graph: Graph) -> list[str]:
    """Return what a pass says it has decided."""
    found: list[Decision] = []
    graph_pass(graph, Rewrites(on_decision=found.append))
    return [str(d) for d in found]


def ops_by_depth(graph: Graph) -> Counter[tuple[int, str]]:
    """Count the ops of a graph by how many graphs are around them."""
    return Counter((depth, node.op) for depth, node in _nodes(graph))


def _nodes(graph: Graph, depth: int = 0) -> Iterator[tuple[int, Node]]:
    for node in graph.nodes:
        yield depth, node
        for _, inner in graphs_of(node):
            yield from _nodes(inner, depth + 1)
