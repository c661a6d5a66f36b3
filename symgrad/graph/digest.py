"""Structural hash of a graph: equal for graphs that compute the same by the same nodes.

Two graphs with one digest agree in the ops, their attributes, the wiring and the types, in which
variables are one, and in every bit of their constants. Names, lines of the user and values of
variables are not of it. It says what the text of a graph says, in a fraction of the time; a graph
that is nested in many nodes, as a function is in its calls, is looked at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from symgrad.graph.compare import statements
from symgrad.graph.dtypes import DType
from symgrad.graph.foreign_functions import ForeignFunction
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node, OpDef, Tensor
from symgrad.graph.types import ArrayLiteral, Attr, State, TensorType

_PLAIN = (bool, int, float, str)


class _NoDigestError(Exception):
    """Something in a graph is not of its text."""


def graph_digest(graph: Graph) -> str | None:
    """Return the digest of a graph of known sizes.

    None for one that has an unknown size, a function of Python or an op that is not symgrad's own:
    what these are, their names do not say.
    """
    try:
        return _Digests().graph(graph)
    except _NoDigestError:
        return None


class _Digests:
    """What is known of the parts of one program: each is written once."""

    def __init__(self) -> None:
        self._graphs: dict[Graph, str] = {}
        self._states: dict[State, int] = {}
        self._ops: dict[OpDef, str] = {}
        # By identity, which is asked faster: the nodes of a graph keep their types.
        self._types: dict[int, str] = {}

    def graph(self, graph: Graph) -> str:
        known = self._graphs.get(graph)
        if known is not None:
            return known
        numbers: dict[Tensor, str] = {}
        lines = [repr(graph.name), f"{len(graph.inputs)} inputs"]
        lines += [self._line(node, numbers) for node in statements(graph)]
        for update in graph.updates:
            lines.append(f"update {numbers[update.variable]} {numbers[update.value]}")
        lines.append(f"return {' '.join([numbers[t] for t in graph.outputs])}")
        made = _digest_of("\n".join(lines).encode("utf-8", "surrogatepass"))
        self._graphs[graph] = made
        return made

    def _line(self, node: Node, numbers: dict[Tensor, str]) -> str:
        """Return what `node` is, and number its results."""
        operands = " ".join([numbers[t] for t in node.inputs])
        types = []
        for tensor in node.outputs:
            numbers[tensor] = str(len(numbers))
            types.append(self._types.get(id(tensor.type)) or self._type(tensor.type))
        op = self._ops.get(node.definition) or self._op(node.definition)
        attrs = self._attrs(node.attrs) if node.attrs else ""
        return f"{op} {operands} {{{attrs}}} {types[0] if len(types) == 1 else ','.join(types)}"

    def _op(self, definition: OpDef) -> str:
        rules = [rule for rule in (definition.kernel, definition.infer) if rule is not None]
        if not all(str(rule.__module__).startswith("symgrad.") for rule in rules):
            raise _NoDigestError
        self._ops[definition] = definition.name
        return definition.name

    def _type(self, type_: TensorType) -> str:
        if not all(isinstance(n, int) for n in type_.shape):
            raise _NoDigestError
        self._types[id(type_)] = str(type_)
        return self._types[id(type_)]

    def _attrs(self, attrs: Mapping[str, Attr]) -> str:
        keys = sorted(attrs) if len(attrs) > 1 else attrs
        return ";".join([f"{key}={self._attribute(attrs[key])}" for key in keys])

    def _attribute(self, value: Attr) -> str:
        """Return text that no other value of an attribute has."""
        if isinstance(value, tuple):  # mostly the sizes of a shape
            parts = [repr(n) if type(n) is int else self._attribute(n) for n in value]
            return f"({','.join(parts)},)"
        if value is None or isinstance(value, _PLAIN):
            return repr(value)
        if isinstance(value, Graph):
            return f"graph {self.graph(value)}"
        if isinstance(value, ArrayLiteral):
            return f"literal {value.type} {_digest_of(value.array.tobytes())}"
        if isinstance(value, DType):
            return f"dtype {value.short}"
        if isinstance(value, ForeignFunction):
            return f"extern {value.name}"  # its address is of this process
        if isinstance(value, State):
            number = self._states.setdefault(value, len(self._states))
            return f"state {number} {self._type(value.type)}"
        raise _NoDigestError


def _digest_of(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=32).hexdigest()
