"""Partial evaluation of derivatives: what is linear in the seeds, apart from all that is not.

Before, a gradient of %y = sin %x for a seed %u:
    %1 = cos %x : f32[3]
    %2 = multiply %u, %1 : f32[3]

After `cut_out_linear([%2], [%u])`: the residuals [%1], and beside what there was
    graph @linear(%p0: f32[3], %p1: f32[3]) -> f32[3] {
      %0 = multiply %p1, %p0 : f32[3]
      return %0
    }

So what does not depend on the seeds is computed once and kept, for however many seeds come later.
What is no larger in memory where it comes from than where it is used, such as a broadcast, is not
kept but made again; so is a loop that records its iterations without a bound, since only a loop
may read that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from symgrad.graph.build import rebuild_here
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import constant_op
from symgrad.graph.nested import Traced
from symgrad.graph.node import Node, Tensor
from symgrad.graph.traverse import topological
from symgrad.graph.types import is_unbounded


def cut_out_linear(
    results: Sequence[Tensor], seeds: Sequence[Tensor]
) -> tuple[list[Tensor], Graph]:
    """Return the residuals, tensors that `results` need beside `seeds`, and the rest as a graph.

    The graph gives the results from residuals and then seeds. It is closed, so it may be inlined
    anywhere, and in a program of its own.
    """
    order = topological(results, stop=seeds)
    linear, reached = set[Node](), set(seeds)
    for node in order:
        if any(t in reached for t in node.inputs):
            linear.add(node)
            reached.update(node.outputs)
    needed = [t for node in order if node in linear for t in node.inputs if t not in reached]
    residuals, again = _kept([*needed, *(t for t in results if t not in reached)])
    traced = Traced("linear", [t.type for t in (*residuals, *seeds)])
    with traced.open():
        found = dict(zip([*residuals, *seeds], traced.params, strict=True))
        for node in order:
            if node in linear or node in again:
                copy = rebuild_here(node, tuple(found[t] for t in node.inputs))
                found.update(zip(node.outputs, copy.outputs, strict=True))
    traced.give([found[t] for t in results])
    assert not traced.captures, "all that the results need is a residual, or made again"
    return residuals, traced.graph(())


def _kept(needed: Iterable[Tensor]) -> tuple[list[Tensor], set[Node]]:
    """Return what to keep of what is needed, and the nodes that are made again from that."""
    residuals: dict[Tensor, None] = {}
    again: set[Node] = set()
    pending = list(needed)[::-1]
    while pending:
        tensor = pending.pop()
        if not _is_made_again(tensor):
            residuals[tensor] = None
        elif tensor.node not in again:
            again.add(tensor.node)
            pending += tensor.node.inputs
    return [t for t in residuals if t.node not in again], again


def _is_made_again(tensor: Tensor) -> bool:
    node = tensor.node
    if is_unbounded(tensor.type) or node.definition is constant_op:
        return True
    if not node.definition.is_view:
        return False
    sizes = node.inputs[0].type.size, tensor.type.size
    return all(isinstance(n, int) for n in sizes) and sizes[0] <= sizes[1]
