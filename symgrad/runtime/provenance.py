"""Source mapping: which kernels compute an op, and which of the user's lines a kernel is from.

A pass makes nodes anew and keeps the user's line and the node a gradient was taken of. An op is
recognised by these, by its name and its type; where several are alike in all of that, an op stands
for each of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from symgrad.codegen.program.language import Launch
from symgrad.codegen.program.source_map import SourceMap
from symgrad.errors import Source
from symgrad.graph.node import Node


class Provenance:
    """The way from the ops of any stage to the kernels of a program."""

    def __init__(self, launches: Sequence[Launch], sources: SourceMap) -> None:
        self._launches = launches
        self._sources = sources
        self._by_op: dict[Hashable, dict[str, None]] = {}
        self._by_line: dict[Hashable, dict[str, None]] = {}
        for launch in launches:
            for node in sources.nodes_of(launch):
                self._by_op.setdefault(_op_key(node), {})[launch.kernel.name] = None
                self._by_line.setdefault(_line_key(node), {})[launch.kernel.name] = None

    def kernels_of(self, node: Node) -> tuple[str, ...]:
        """Return the kernels that compute `node`.

        Of an op that passes have replaced, these are the kernels of what comes from the same line
        for the same reason.
        """
        if node.definition.is_leaf:
            return ()
        found = self._by_op.get(_op_key(node)) or self._by_line.get(_line_key(node), {})
        return tuple(found)

    def nodes_of(self, kernel: str) -> list[Node]:
        """Return the nodes that a kernel computes, in the order of its launches."""
        launches = (launch for launch in self._launches if launch.kernel.name == kernel)
        return [node for launch in launches for node in self._sources.nodes_of(launch)]


def _line_key(node: Node) -> Hashable:
    return node.source, node.origin


def _op_key(node: Node) -> Hashable:
    return node.op, node.source, node.origin, tuple(t.type for t in node.outputs)


def source_of(node: Node) -> Source | None:
    """Return the user's line of `node`; for what a gradient made, that of the op it is of."""
    return node.source if node.origin is None else node.origin.source


def lines_of(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Return the user's lines that `nodes` come from, each once."""
    return tuple(dict.fromkeys(str(s) for n in nodes if (s := source_of(n)) is not None))
