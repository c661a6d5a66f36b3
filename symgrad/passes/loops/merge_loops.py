"""Loop deduplication: run loops once that differ only in what is recorded.

Before, a loop and the copy of it that the gradient has built, which records a loop variable:

    %0, %1 = while %x {capacity = 8, carried = 1} {...} : i64[], f32[3]
    %2, %3, %4 = while %x {capacity = 8, carried = 1} {...} : i64[], f32[3], f32[8, 3]

After:

    %0, %1, %2 = while %x {capacity = 8, carried = 1} {...} : i64[], f32[3], f32[8, 3]

Two loops are one if they have the same operands, the same condition, and bodies that are the same
tensors but for the stacks; the stacks of the one are those of both. Bodies are compared by
identity: a recording body shares the nodes of the one it was made of, until something rebuilds
them. So this runs on the graph as it was built, before sizes are put in and before other passes.
Loops whose bodies are equal and not the same are left as they are.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field

from symgrad.graph.build import are_same, rebuild, with_attrs
from symgrad.graph.compare import graphs_of, has_nested_graphs
from symgrad.graph.graph import Graph
from symgrad.graph.loop_view import LOOPS, LoopView
from symgrad.graph.node import Node, Tensor
from symgrad.graph.types import UNBOUNDED, Attr, attr_key
from symgrad.records import dataclass


def merge_loops(graph: Graph) -> Graph:
    """Deduplicate loops: return `graph` with those merged that differ only in their stacks."""
    return _NestedGraphs().merged(graph)


def _merge_loops(graph: Graph, nested: _NestedGraphs) -> Graph:
    if not has_nested_graphs(graph):
        return graph
    families = _families(graph.nodes)
    mapping: dict[Tensor, Tensor] = {}
    merged: dict[int, Node] = {}
    for node in graph.nodes:
        inputs = tuple(mapping[t] for t in node.inputs)
        family = families.get(node)
        if family is None or len(family.members) == 1:
            mapping.update(zip(node.outputs, nested.rebuild(node, inputs).outputs, strict=True))
            continue
        if id(family) not in merged:
            merged[id(family)] = nested.rebuild(family.merge(inputs), inputs)
        outputs = merged[id(family)].outputs
        places = family.places(node)
        mapping.update((t, outputs[i]) for t, i in zip(node.outputs, places, strict=True))
    is_same = all(old is new for old, new in mapping.items())
    return graph if is_same else graph.with_roots(mapping)


class _NestedGraphs:
    """The graphs nested in a program, at any depth, with their own loops merged.

    A graph that several nodes have stays one: what is compared by identity may meet it again.
    """

    def __init__(self) -> None:
        self._merged: dict[Graph, Graph] = {}

    def rebuild(self, node: Node, inputs: tuple[Tensor, ...]) -> Node:
        """Return `node` on `inputs` with these graphs: the same node if nothing is another."""
        is_same = are_same(inputs, node.inputs)
        if is_same and all(self._in(graph) is graph for _, graph in graphs_of(node)):
            return node
        return rebuild(node, inputs, self._in)

    def _in(self, attr: Attr) -> Attr:
        if isinstance(attr, tuple):
            return tuple(map(self._in, attr))
        if not isinstance(attr, Graph):
            return attr
        return self.merged(attr)

    def merged(self, graph: Graph) -> Graph:
        """Return `graph` with its loops merged."""
        if graph not in self._merged:
            self._merged[graph] = _merge_loops(graph, self)
        return self._merged[graph]


@dataclass(slots=True, eq=False)
class _Family:
    """Loops that are one but for their stacks.

    `stacks` has what the bodies stack, each with its place among the results of the merged loop.
    """

    members: list[Node] = field(default_factory=list)
    stacks: dict[Tensor, int] = field(default_factory=dict)

    def add(self, loop: Node) -> None:
        self.members.append(loop)
        for given in LoopView(loop).stacked:
            self.stacks.setdefault(given, LoopView(loop).first_stack + len(self.stacks))

    def places(self, loop: Node) -> list[int]:
        """Return where the results of a member are among those of the merged loop."""
        view = LoopView(loop)
        return [*range(view.first_stack), *(self.stacks[t] for t in view.stacked)]

    def merge(self, inputs: tuple[Tensor, ...]) -> Node:
        """Make the loop that gives the results of all members."""
        # A copy made to record has no name, and the line of the loop it is a copy of.
        plain = min(self.members, key=lambda loop: len(loop.outputs))
        body = LoopView(plain).body
        outputs = [*body.outputs[: LoopView(plain).carried], *self.stacks]
        region = body.region or (outputs[0].node.region if outputs else None)
        both = Graph(outputs, body.inputs, name=body.name, region=region)
        # Members agree in their bound, but a loop without one that records nothing says 0.
        capacity = next((c for loop in self.members if (c := LoopView(loop).capacity) != 0), 0)
        return with_attrs(plain, inputs, {**plain.attrs, "body": both, "capacity": capacity})


def shared_loops(nodes: Sequence[Node]) -> dict[Node, tuple[Node, list[int]]]:
    """Return for each loop that others are merged with the one loop, and where its results are.

    The loop is made for each family once, on the operands of its first member.
    """
    families = _families(nodes)
    merged: dict[int, Node] = {}
    found: dict[Node, tuple[Node, list[int]]] = {}
    for loop, family in families.items():
        if len(family.members) > 1:
            if id(family) not in merged:
                merged[id(family)] = family.merge(loop.inputs)
            found[loop] = (merged[id(family)], family.places(loop))
    return found


def _families(nodes: Sequence[Node]) -> dict[Node, _Family]:
    """Return the loops among `nodes`, each with the others it is merged with.

    Merging makes operands of later loops the same; so tensors are compared by numbers, which
    results that will be one share.
    """
    by_key: dict[Hashable, _Family] = {}
    families: dict[Node, _Family] = {}
    numbers: dict[Hashable, int] = {}
    number: dict[Tensor, int] = {}
    for node in nodes:
        values: list[Hashable] = [id(t) for t in node.outputs]
        if node.definition in LOOPS:
            family = by_key.setdefault(_key(node, number), _Family())
            family.add(node)
            families[node] = family
            values = [(id(family), place) for place in family.places(node)]
        for tensor, value in zip(node.outputs, values, strict=True):
            number[tensor] = numbers.setdefault(value, len(numbers))
    return families


def _key(loop: Node, number: Mapping[Tensor, int]) -> Hashable:
    """Return what loops of one family have in common, and no others."""
    body = LoopView(loop).body
    attrs = {key: attr_key(loop.attrs[key]) for key in loop.attrs if key not in _MERGED}
    capacity = LoopView(loop).capacity
    return (
        loop.op,
        tuple(number[t] for t in loop.inputs),
        tuple(map(id, body.inputs)),
        tuple(map(id, body.outputs[: LoopView(loop).carried])),
        (capacity or UNBOUNDED) if LoopView(loop).is_while else capacity,
        tuple(sorted(attrs.items())),
    )


_MERGED = ("body", "capacity")  # attributes in which loops that are merged may differ
