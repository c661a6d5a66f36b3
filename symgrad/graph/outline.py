"""Name-scope hierarchy: the ops of a graph as a tree of scopes, lines and graphs nested in ops.

Where a program opens no name scope, the user's functions are its scopes. What a gradient made is
beside what it is of, in a tree of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from symgrad.errors import file_label
from symgrad.graph.compare import graphs_of
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import constant_op
from symgrad.graph.node import Node
from symgrad.records import dataclass

_GRADIENT = "gradient: "
_ELSEWHERE = "elsewhere"


@dataclass(slots=True, eq=False)
class Outline:
    """A scope, a line or an op with graphs of its own, and what is in it in the order of the graph.

    `edges` are between its children, by their numbers. `node` is the op that it is the inside of.
    """

    name: str
    node: Node | None = None
    is_gradient: bool = False
    children: list[Outline | Node] = field(default_factory=list)
    edges: dict[tuple[int, int], None] = field(default_factory=dict)

    @property
    def ops(self) -> Iterator[Node]:
        """The ops in it, at any depth."""
        pending: list[Outline | Node] = [self]
        while pending:
            part = pending.pop()
            if isinstance(part, Node):
                yield part
            else:
                pending += reversed(part.children)

    @property
    def boxes(self) -> int:
        """How many boxes a drawing of it has, with those of what is in it."""
        return sum(1 + (c.boxes if isinstance(c, Outline) else 0) for c in self.children)


def outline_of(graph: Graph) -> Outline:
    """Return the tree of `graph`, without constants, of which drawings would be full."""
    root = Outline(graph.name)
    _fill(root, graph, has_scopes=any(node.scope for node in graph.nodes))
    return root


def cut_to(outline: Outline, most: int) -> Outline:
    """Return `outline` down to the depth at which it has at most `most` boxes, but one deep."""
    depth = 1
    while (deeper := _cut(outline, depth + 1)).boxes <= most:
        if deeper.boxes == _cut(outline, depth).boxes:
            break
        depth += 1
    return _cut(outline, depth)


def _cut(outline: Outline, depth: int) -> Outline:
    """Return `outline` without what is deeper than `depth`, where groups have no children."""
    made = Outline(outline.name, outline.node, outline.is_gradient)
    if depth:
        cut = (c if isinstance(c, Node) else _cut(c, depth - 1) for c in outline.children)
        made.children.extend(cut)
        made.edges.update(outline.edges)
    return made


def _fill(root: Outline, graph: Graph, *, has_scopes: bool) -> None:
    nodes = [node for node in graph.nodes if node.definition is not constant_op]
    readers = _first_readers(nodes)
    ways: dict[Node, tuple[tuple[Outline, int], ...]] = {}
    inside: dict[tuple[str, ...], Outline] = {(): root}
    numbers: dict[Outline, int] = {}
    for node in nodes:
        path = _path(readers.get(node, node), has_scopes=has_scopes)
        for depth in range(1, len(path) + 1):
            if path[:depth] not in inside:
                made = Outline(path[depth - 1], is_gradient=path[0].startswith(_GRADIENT))
                inside[path[:depth]] = made
                parent = inside[path[: depth - 1]]
                numbers[made] = len(parent.children)
                parent.children.append(made)
        groups = [inside[path[:depth]] for depth in range(len(path) + 1)]
        places = [*(numbers[group] for group in groups[1:]), len(groups[-1].children)]
        groups[-1].children.append(_with_inside(node, has_scopes=has_scopes))
        ways[node] = tuple(zip(groups, places, strict=True))
    for node in nodes:
        for operand in node.inputs:
            if operand.node in ways:
                _connect(ways[operand.node], ways[node])


def _with_inside(node: Node, *, has_scopes: bool) -> Outline | Node:
    graphs = graphs_of(node)
    if not graphs:
        return node
    made = Outline(node.name or node.op, node, node.origin is not None)
    for name, inner in graphs:
        part = made
        if len(graphs) > 1:
            part = Outline(name, is_gradient=made.is_gradient)
            made.children.append(part)
        _fill(part, inner, has_scopes=has_scopes)
    return made


def _first_readers(nodes: Sequence[Node]) -> Mapping[Node, Node]:
    """Return for each leaf the first op that reads it: there it is drawn."""
    readers: dict[Node, Node] = {}
    for node in nodes:
        for operand in node.inputs:
            if operand.node.definition.is_leaf:
                readers.setdefault(operand.node, node)
    return readers


def _path(node: Node, *, has_scopes: bool) -> tuple[str, ...]:
    source = node.source if node.origin is None else node.origin.source
    if source is None:
        return (_ELSEWHERE,)
    first, *rest = source.scope.split("/") if has_scopes else [""]
    file = file_label(source.file)
    # What a script or a cell builds outside of functions is of that: it has no other name.
    first = first or (file if source.function == "<module>" else source.function)
    line = f"{file}:{source.line}"
    return (f"{_GRADIENT}{first}" if node.origin is not None else first, *rest, line)


def _connect(a: tuple[tuple[Outline, int], ...], b: tuple[tuple[Outline, int], ...]) -> None:
    """Add the edge from `a` to `b` where their ways part."""
    for (group, i), (other, j) in zip(a, b, strict=False):
        if group is not other:
            return
        if i != j:
            group.edges[i, j] = None
            return
