"""Structural equality of graphs, and the canonical sizes by which they are compared.

A graph that is an attribute of a node is part of the program, and is compared with it. Names,
source lines and origins are not structure, nor are the values of variables. Rewriting one graph
into another is not done here, and neither is finding out that two programs compute the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from symgrad.graph.foreign_functions import ForeignFunction
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node, Tensor
from symgrad.graph.sizes import Dim, Size, substitute, unknown, unknowns_of
from symgrad.graph.types import Attr, State, TensorType
from symgrad.records import dataclass


def statements(graph: Graph) -> list[Node]:
    """Return `graph.nodes`, inputs first, then the variables that are updated but never read."""
    inputs = [t.node for t in graph.inputs]
    first = set(inputs)
    rest = [n for n in graph.nodes if n not in first]
    read = set(rest)
    written = dict.fromkeys(u.variable.node for u in graph.updates)
    return [*inputs, *rest, *(n for n in written if n not in read)]


_MAY_HOLD_GRAPHS = (tuple, Graph)


def graphs_in(attr: Attr) -> tuple[Graph, ...]:
    """Return the graphs that an attribute consists of; none for an attribute of another kind."""
    parts = attr if isinstance(attr, tuple) else (attr,)
    return tuple([part for part in parts if isinstance(part, Graph)])


def graphs_of(node: Node) -> list[tuple[str, Graph]]:
    """Return the graphs nested in `node` with their labels, such as `body` or `branches.0`."""
    for attr in node.attrs.values():
        if isinstance(attr, _MAY_HOLD_GRAPHS) and graphs_in(attr):
            break
    else:
        return []
    return [
        (f"{key}.{index}" if isinstance(node.attrs[key], tuple) else key, graph)
        for key in sorted(node.attrs)
        for index, graph in enumerate(graphs_in(node.attrs[key]))
    ]


def nesting_nodes(graph: Graph) -> tuple[Node, ...]:
    """Return the nodes of `graph` that have graphs of their own; found once for each graph."""
    found: tuple[Node, ...] | None = graph.derived.get(nesting_nodes)
    if found is None:
        found = tuple([node for node in graph.nodes if node.attrs and graphs_of(node)])
        graph.derived[nesting_nodes] = found
    return found


def has_nested_graphs(graph: Graph) -> bool:
    """Return whether a node of `graph` has graphs of its own."""
    return bool(nesting_nodes(graph))


def number_unknowns(graph: Graph) -> dict[str, Dim]:
    """Return `?0`, `?1`, ... for the unknown sizes without a name, in the order they appear.

    Sizes that appear first in one and the same polynomial are taken in the order of their making:
    an order that survives any renaming which keeps that order.
    """
    numbers: dict[str, Dim] = {}
    seen: set[Graph] = set()
    for node in statements(graph):
        for size in sizes_of(node, seen):
            new = {n for n in unknowns_of(size) if n.startswith("?") and n not in numbers}
            for name in sorted(new, key=lambda n: (len(n), n)):  # ?9 was made before ?10
                numbers[name] = unknown(f"?{len(numbers)}")
    return numbers


def sizes_of(node: Node, seen: set[Graph]) -> Iterator[Size]:
    """Yield the sizes that are not plain ints, in the order in which the node's text has them.

    The graphs in `seen`, which those of `node` are added to, are left out: a function may be called
    in many places, and its sizes are the same in all.
    """
    for key in sorted(node.attrs):
        yield from _sizes_in(node.attrs[key])
    for _, graph in graphs_of(node):
        if graph not in seen:
            seen.add(graph)
            for inner in statements(graph):
                yield from sizes_of(inner, seen)
    for output in node.outputs:
        yield from _sizes_in(output.shape)


def _sizes_in(attr: Attr) -> Iterator[Size]:
    if isinstance(attr, Size):
        yield attr
    elif isinstance(attr, tuple):
        for part in attr:
            yield from _sizes_in(part)


def structurally_equal(g: Graph, h: Graph) -> bool:
    """Return whether `g` and `h` are the same program: same ops, attributes, wiring and types.

    Unknown sizes without a name and the states of variables are matched one to one; named unknown
    sizes must have the same name.
    """
    renames = number_unknowns(g), number_unknowns(h)
    states: dict[State, State] = {}
    corresponds = _Comparison(renames, states).holds(g, h)
    return corresponds and len(set(states.values())) == len(states)


@dataclass(slots=True)
class _Comparison:
    """The tensors, sizes and states of two graphs that correspond, as far as is known.

    Sizes, states and nested graphs are those of the whole program, tensors those of one graph.
    """

    renames: tuple[dict[str, Dim], dict[str, Dim]]
    states: dict[State, State]
    graphs: set[tuple[Graph, Graph]] = field(default_factory=set)
    tensors: dict[Tensor, Tensor] = field(default_factory=dict)

    def holds(self, g: Graph, h: Graph) -> bool:
        ours, theirs = statements(g), statements(h)
        counts_agree = (
            len(ours) == len(theirs)
            and len(g.inputs) == len(h.inputs)
            and len(g.outputs) == len(h.outputs)
            and len(g.updates) == len(h.updates)
        )
        # The statements of a graph are in an order fixed by its structure, so nodes that
        # correspond stand at the same position.
        return (
            counts_agree
            and all(map(self._nodes_agree, ours, theirs))
            and all(map(self._tensors_agree, g.roots, h.roots))
            and all(
                self._tensors_agree(u.variable, v.variable)
                for u, v in zip(g.updates, h.updates, strict=True)
            )
        )

    def _tensors_agree(self, a: Tensor, b: Tensor) -> bool:
        return self.tensors.get(a) is b

    def _nodes_agree(self, m: Node, n: Node) -> bool:
        agree = (
            m.definition is n.definition
            and m.gradient_key == n.gradient_key
            and len(m.inputs) == len(n.inputs)
            and len(m.outputs) == len(n.outputs)
            and m.attrs.keys() == n.attrs.keys()
            and all(map(self._tensors_agree, m.inputs, n.inputs))
            and all(self._types_agree(a.type, b.type) for a, b in _pairs(m, n))
            and all(self._attrs_agree(m.attrs[key], n.attrs[key]) for key in m.attrs)
        )
        self.tensors.update(_pairs(m, n) if agree else ())
        return agree

    def _types_agree(self, a: TensorType, b: TensorType) -> bool:
        return a.dtype == b.dtype and self._attrs_agree(a.shape, b.shape)

    def _attrs_agree(self, a: Attr, b: Attr) -> bool:
        if type(a) is not type(b):  # to Python, True == 1 == 1.0
            return False
        if isinstance(a, tuple) and isinstance(b, tuple):
            return len(a) == len(b) and all(map(self._attrs_agree, a, b))
        if isinstance(a, Graph) and isinstance(b, Graph):
            return (a, b) in self.graphs or self._nested_agree(a, b)
        if isinstance(a, float):
            return repr(a) == repr(b)  # tells 0.0 from -0.0 and lets nan equal nan
        if isinstance(a, Size) and isinstance(b, Size):
            return substitute(a, self.renames[0]) == substitute(b, self.renames[1])
        if isinstance(a, ForeignFunction) and isinstance(b, ForeignFunction):
            return a.name == b.name  # where it is in this process is not structure
        if isinstance(a, State) and isinstance(b, State):
            return self.states.setdefault(a, b) is b and _states_agree(a, b)
        return a == b

    def _nested_agree(self, a: Graph, b: Graph) -> bool:
        agree = _Comparison(self.renames, self.states, self.graphs).holds(a, b)
        self.graphs.update([(a, b)] if agree else ())
        return agree


def _pairs(m: Node, n: Node) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(m.outputs, n.outputs, strict=True)


def _states_agree(a: State, b: State) -> bool:
    return a.type == b.type and a.trainable == b.trainable
