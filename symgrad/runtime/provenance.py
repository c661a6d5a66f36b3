"""Source mapping: which calls of kernels compute an op, and which of the user's lines one is from.

A pass makes nodes anew, and hands on the `Source` of the node as it is, which each node that a user
builds has of its own: by the identity of that an op is found again in whatever became of it. What
a gradient makes has the source of the op it is of, and that op as its origin; what a rewrite makes
has the node that it replaces as its origin.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

from symgrad.codegen.program.language import NativeCall
from symgrad.codegen.program.source_map import SourceMap
from symgrad.errors import Source
from symgrad.graph.compare import graphs_of
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node
from symgrad.graph.types import attr_key
from symgrad.passes.calls.callees import graphs_within
from symgrad.passes.rewrites.value_numbering import find_twins


class Provenance:
    """The way from the ops of a user's graph to the calls and the kernels of a program.

    A call is named by its number in `calls`; equal calls share a kernel, or a function of C.
    """

    def __init__(
        self, calls: Sequence[NativeCall], sources: SourceMap, graph: Graph | None = None
    ) -> None:
        self._program = calls
        self._sources = sources
        self._calls: dict[Hashable, dict[int, None]] = {}
        self._twins: dict[Node, Node] = {}
        self._of_kernel: dict[str, list[int]] = {}
        for number, call in enumerate(calls):
            self._of_kernel.setdefault(call.name, []).append(number)
        if graph is not None:
            self._find_ops(graph)

    def calls_of(self, node: Node) -> tuple[int, ...]:
        """Return the numbers of the calls that compute `node`, or what came in its place.

        There are none for one that takes no time: a view, what is a constant once the program is
        compiled, or what was found not to be needed. Of equal ops the first is computed, and its
        calls are those of all.
        """
        if node.definition.is_leaf:
            return ()
        found = self._of(node) or self._of(self._twins.get(node, node))
        inside = (n for _, inner in graphs_of(node) for g in graphs_within(inner) for n in g.nodes)
        return tuple(sorted({*found, *(call for n in inside for call in self._of(n))}))

    def _of(self, node: Node) -> Collection[int]:
        return self._calls.get(_exact_key(node)) or self._calls.get(_key(node)) or ()

    def kernels_of(self, node: Node) -> tuple[str, ...]:
        """Return the kernels that compute `node`, each once."""
        return tuple(dict.fromkeys(self._program[i].name for i in self.calls_of(node)))

    def calls_of_kernel(self, kernel: str) -> tuple[int, ...]:
        """Return the numbers of the calls of a kernel."""
        return tuple(self._of_kernel.get(kernel, ()))

    def nodes_of(self, kernel: str) -> list[Node]:
        """Return the nodes that a kernel computes, in the order of its calls."""
        calls = (self._program[number] for number in self.calls_of_kernel(kernel))
        return [node for call in calls for node in self._sources.nodes_of(call)]

    def _find_ops(self, graph: Graph) -> None:
        """Collect the calls of each op of `graph` and of the graphs nested in it."""
        exact, loose = set[Hashable](), set[Hashable]()
        for part in graphs_within(graph):
            nodes = [node for node in part.nodes if not node.definition.is_leaf]
            exact.update(map(_exact_key, nodes))
            loose.update(map(_key, nodes))
            twins = find_twins(part.nodes, ())
            self._twins.update((a.node, b.node) for a, b in twins.items())
        for number, call in enumerate(self._program):
            for node in self._sources.nodes_of(call):
                for key in {_first_in(exact, node, _exact_key), _first_in(loose, node, _key)}:
                    self._calls.setdefault(key, {})[number] = None


def _first_in(known: Collection[Hashable], node: Node, key: Callable[[Node], Hashable]) -> Hashable:
    """Return the key of the first op of `known` that `node` comes from, or its own."""
    candidate: Node | None = node
    while candidate is not None:
        found = key(candidate)
        if found in known:
            return found
        candidate = candidate.origin
    return key(node)


def _key(node: Node) -> Hashable:
    return id(node.source), node.origin, node.op


def _exact_key(node: Node) -> Hashable:
    """Return a key that tells apart what one gradient makes; unknown sizes change it."""
    types = tuple([t.type for t in node.outputs])
    return _key(node), types, tuple([(k, attr_key(node.attrs[k])) for k in sorted(node.attrs)])


def source_of(node: Node) -> Source | None:
    """Return the user's line of `node`; for what a gradient made, that of the op it is of."""
    return node.source if node.origin is None else node.origin.source


def lines_of(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Return the user's lines that `nodes` come from, each once."""
    return tuple(dict.fromkeys(str(s) for n in nodes if (s := source_of(n)) is not None))


def scopes_of(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Return the name scopes that `nodes` were built in, each once, "" for none."""
    return tuple(dict.fromkeys(node.scope for node in nodes))
