"""When two graphs are the same program, and what they need to be compared by: canonical sizes.

Names, source lines and origins are not structure, nor are the values of variables. Rewriting one
graph into another is not done here, and neither is finding out that two programs compute the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from symgrad.graph.graph import Graph
from symgrad.graph.node import Node, Tensor
from symgrad.graph.sizes import Dim, Size, substitute, unknown, unknowns_of
from symgrad.graph.types import Attr, State, TensorType


def statements(graph: Graph) -> list[Node]:
    """Return `graph.nodes`, inputs first, then the variables that are updated but never read."""
    inputs = [t.node for t in graph.inputs]
    first = set(inputs)
    rest = [n for n in graph.nodes if n not in first]
    read = set(rest)
    written = dict.fromkeys(u.variable.node for u in graph.updates)
    return [*inputs, *rest, *(n for n in written if n not in read)]


def number_unknowns(graph: Graph) -> dict[str, Dim]:
    """Return `?0`, `?1`, ... for the unknown sizes without a name, in the order they appear.

    Sizes that appear first in one and the same polynomial are taken in the order of their making:
    an order that survives any renaming which keeps that order.
    """
    numbers: dict[str, Dim] = {}
    for node in statements(graph):
        for size in sizes_of(node):
            new = {n for n in unknowns_of(size) if n.startswith("?") and n not in numbers}
            for name in sorted(new, key=lambda n: (len(n), n)):  # ?9 was made before ?10
                numbers[name] = unknown(f"?{len(numbers)}")
    return numbers


def sizes_of(node: Node) -> Iterator[Size]:
    """Yield the sizes that are not plain ints, in the order in which the node's text has them."""
    for key in sorted(node.attrs):
        yield from _sizes_in(node.attrs[key])
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
    return _Comparison(g, h).holds()


class _Comparison:
    """The tensors, sizes and states of two graphs that correspond, as far as is known."""

    def __init__(self, g: Graph, h: Graph) -> None:
        self._graphs = (g, h)
        self._tensors: dict[Tensor, Tensor] = {}
        self._states: dict[State, State] = {}
        self._renames = (number_unknowns(g), number_unknowns(h))

    def holds(self) -> bool:
        g, h = self._graphs
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
            and self._one_to_one()
            and all(map(self._tensors_agree, g.roots, h.roots))
            and all(
                self._tensors_agree(u.variable, v.variable)
                for u, v in zip(g.updates, h.updates, strict=True)
            )
        )

    def _one_to_one(self) -> bool:
        return len(set(self._states.values())) == len(self._states)

    def _tensors_agree(self, a: Tensor, b: Tensor) -> bool:
        return self._tensors.get(a) is b

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
        self._tensors.update(_pairs(m, n) if agree else ())
        return agree

    def _types_agree(self, a: TensorType, b: TensorType) -> bool:
        return a.dtype == b.dtype and self._attrs_agree(a.shape, b.shape)

    def _attrs_agree(self, a: Attr, b: Attr) -> bool:
        if type(a) is not type(b):  # to Python, True == 1 == 1.0
            return False
        if isinstance(a, tuple) and isinstance(b, tuple):
            return len(a) == len(b) and all(map(self._attrs_agree, a, b))
        if isinstance(a, float):
            return repr(a) == repr(b)  # tells 0.0 from -0.0 and lets nan equal nan
        if isinstance(a, Size) and isinstance(b, Size):
            return substitute(a, self._renames[0]) == substitute(b, self._renames[1])
        if isinstance(a, State) and isinstance(b, State):
            return self._states.setdefault(a, b) is b and _states_agree(a, b)
        return a == b


def _pairs(m: Node, n: Node) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(m.outputs, n.outputs, strict=True)


def _states_agree(a: State, b: State) -> bool:
    return a.type == b.type and a.trainable == b.trainable
