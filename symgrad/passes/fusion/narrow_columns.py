"""Dead elements of columns: what no reader of a column map takes is not computed to memory.

Before, a step of an elimination of which a determinant reads what is not above the diagonal:

    %1 = eliminate_columns %x, %0 {first = 0, n = 16} : f64[34, 8]
    %2 = slice %1 {size = [30, 8], start = [4, 0], step = [1, 1]} : f64[30, 8]
    %3 = det_of_steps %0, %2 {n = 16} : f64[1, 8]

After:

    %1 = eliminate_columns %x, %0 {first = 2, n = 16} : f64[30, 8]
    %3 = det_of_steps %0, %1 {n = 16} : f64[1, 8]

All readers must take the same elements. It comes last: loops over parts have been fused by then
(`passes/placement/fuse_parts.py`), and a solution by the same steps reads all of them.
"""

from __future__ import annotations

from symgrad.graph.build import derived_from, inside, rebuild
from symgrad.graph.graph import Graph, transform
from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import View
from symgrad.passes.costs import kernel_spec


def narrow_columns(graph: Graph) -> Graph:
    """Return `graph` with column maps that compute no more than is read of them."""
    ranges = _ranges(graph)
    narrowed: set[Node] = set()

    def replaced(node: Node, inputs: tuple[Tensor, ...]) -> Node | None:
        if len(inputs) == 1 and inputs[0].node in narrowed:
            return inputs[0].node
        if node not in ranges:
            return None
        less = _narrowed(rebuild(node, inputs), *ranges[node])
        if less is not None:
            narrowed.add(less)
        return less

    with inside(graph.region):
        return transform(graph, replaced) if ranges else graph


def _narrowed(node: Node, start: int, size: int) -> Node | None:
    """Return what computes some elements of a column alone."""
    rule = node.definition.narrow
    assert rule is not None, f"{node!r} has no rule to be narrowed by"
    with derived_from(node):
        found = rule(node, start, size, **node.attrs)
    return None if found is None else found.node


def _ranges(graph: Graph) -> dict[Node, tuple[int, int]]:
    """Return where the elements begin that are read of a node, if all take the same, and how many.

    Only nodes are in it that can compute fewer of them.
    """
    found: dict[Node, set[tuple[int, int] | None]] = {
        node: set() for node in graph.nodes if node.definition.narrow is not None
    }
    if not found:
        return {}
    for node in graph.nodes:
        for producer in (t.node for t in node.inputs if t.node in found):
            found[producer].add(_range_of(node))
    for producer in (t.node for t in graph.roots if t.node in found):
        found[producer].add(None)
    return {node: only for node, (only, *others) in found.items() if only and not others}


def _range_of(node: Node) -> tuple[int, int] | None:
    """Return which elements along the first axis `node` is, None if it is more than a part."""
    spec = kernel_spec(node)
    if not isinstance(spec, View) or not node.output.type.is_static:
        return None
    old, new = node.inputs[0].type.static_shape, node.output.type.static_shape
    plain = [map_.terms == ((axis, 1),) for axis, map_ in enumerate(spec.index)]
    is_rest_whole = old[1:] == new[1:] and not any(map_.offset for map_ in spec.index[1:])
    return (spec.index[0].offset, new[0]) if all(plain) and is_rest_whole else None
