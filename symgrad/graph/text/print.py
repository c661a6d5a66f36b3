"""Printer of the graph IR: one line a node, the same text for the same graph.

    graph @loss(%x: f32[32, n]) -> f32[] {
      %w = variable {name = "w", trainable = true} : f32[32, n]
      %0 = multiply %x, %w : f32[32, n]
      %1 = sum %0 {axes = [0, 1]} : f32[]
      return %1
    }

A graph that is an attribute is a block; its names are its own, and it sees nothing from around:

      %1 = switch %i, %x {} {
        branches.0(%x: f32[3]) {
          %0 = tanh %x : f32[3]
          return %0
        }
        ...
      } : f32[3]

The text is the whole program but for the values of its variables, which are state. It is read back
by `parse.py`; what the two agree on beyond ops, operands and attributes is stated here.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import assert_never

import numpy as np

from symgrad.graph import dtypes
from symgrad.graph.compare import graphs_in, graphs_of, number_unknowns, sizes_of, statements
from symgrad.graph.dtypes import DType
from symgrad.graph.foreign_functions import ForeignFunction
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import constant_op, placeholder_op, variable_op
from symgrad.graph.node import Node, Tensor
from symgrad.graph.rounding import convert_numbers
from symgrad.graph.sizes import Dim, Size, substitute, unknown, unknowns_of
from symgrad.graph.types import (
    Array,
    ArrayLiteral,
    Attr,
    NestedGraph,
    PythonFunction,
    State,
    TensorType,
    as_reals,
)
from symgrad.records import dataclass, replace

# A name with its scopes. It does not begin with a digit: those are results without a name.
ELIDED = 64  # elements: dumps leave out the values of a larger constant
NAME = r"[^\W\d][\w./-]*"
# Words with a meaning of their own where a size may stand; a size so called prints as dim"f32".
RESERVED = frozenset(
    {"true", "false", "none", "inf", "nan", "literal", "bytes", "dim", "extern"}
    | {"floordiv", "min", "max"}
    | dtypes.BY_SHORT.keys()
)
LISTED = 16  # a literal of more elements prints as its bytes

# A line of text, and the node it is the line of, if it is the line of one.
Line = tuple[str, Node | None]


def print_graph(graph: Graph, *, locations: bool = False, elide: int | None = None) -> str:
    """Return the text of `graph`.

    `locations` ends each line with the line of the user's code it came from. `elide` leaves out
    the values of constants with more elements than that: such text cannot be parsed.
    """
    return "".join(f"{line}\n" for line, _ in graph_lines(graph, locations=locations, elide=elide))


def graph_lines(
    graph: Graph, *, locations: bool = False, elide: int | None = None
) -> Iterator[Line]:
    """Yield the lines of `print_graph`, each with the node it is about."""
    nodes = statements(graph)
    names = _names(graph, nodes, elide)
    results = ", ".join(names.type(t.type) for t in graph.outputs) or "()"
    name = graph.name if re.fullmatch(NAME, graph.name) else json.dumps(graph.name)
    yield f"graph @{name}({names.arguments(graph)}) -> {results} {{", None
    yield from _indented(names.body(graph, nodes, locations=locations))
    yield "}", None


def describe_graph(
    graph: Graph, *, elide: int | None = None
) -> tuple[dict[Tensor, str], dict[Node, str]]:
    """Return what the text of `graph` calls its tensors, and the line of each node in it.

    A block is left out of the line, as `{...}`.
    """
    nodes = statements(graph)
    names = _names(graph, nodes, elide)
    return names.results, {node: names.line(node) for node in nodes}


def _indented(lines: Iterable[Line]) -> Iterator[Line]:
    return ((f"  {line}", node) for line, node in lines)


def _location(node: Node) -> str:
    return f"  // {Path(node.source.file).name}:{node.source.line}" if node.source else ""


@dataclass(frozen=True, slots=True)
class _Names:
    """What the tensors, the unknown sizes and the states of one graph are called in its text."""

    results: dict[Tensor, str]
    sizes: dict[str, Dim]
    states: dict[State, str]
    elide: int | None

    def arguments(self, graph: Graph) -> str:
        return ", ".join(f"{self.results[t]}: {self.type(t.type)}" for t in graph.inputs)

    def body(self, graph: Graph, nodes: Iterable[Node], *, locations: bool) -> Iterator[Line]:
        """Yield the lines between the braces of `graph`."""
        for node in nodes:
            if node.definition is not placeholder_op:
                yield from self.statement(node, locations=locations)
        for update in graph.updates:
            text = f"update {self.results[update.variable]} = {self.results[update.value]}"
            yield text, update.value.node
        yield f"return {self.operands(graph.outputs)}".rstrip(), None

    def statement(self, node: Node, *, locations: bool) -> Iterator[Line]:
        """Yield the lines of `node`: one, and those of its blocks."""
        location = _location(node) if locations else ""
        if not graphs_of(node):
            yield self.line(node) + location, node
            return
        yield f"{self._left(node)} {{{location}", node
        for label, graph in graphs_of(node):
            yield from _indented(self.block(label, graph, locations=locations))
        yield f"}}{self._right(node)}", None

    def block(self, label: str, graph: Graph, *, locations: bool) -> Iterator[Line]:
        """Yield the lines of a nested graph."""
        assert not graph.updates, f"nested graph {label} updates variables"
        nodes = statements(graph)
        inner = replace(self, results=_name_results(nodes))
        yield f"{label}({inner.arguments(graph)}) {{", None
        yield from _indented(inner.body(graph, nodes, locations=locations))
        yield "}", None

    def line(self, node: Node) -> str:
        """Return the line of `node`, without what its blocks hold."""
        block = " {...}" if graphs_of(node) else ""
        return f"{self._left(node)}{block}{self._right(node)}"

    def _left(self, node: Node) -> str:
        operands = f" {self.operands(node.inputs)}" if node.inputs else ""
        return f"{self.operands(node.outputs)} = {node.op}{operands}{self.attributes(node)}"

    def _right(self, node: Node) -> str:
        types = ", ".join(self.type(t.type) for t in node.outputs)
        override = "" if node.gradient_key is None else f" gradient {json.dumps(node.gradient_key)}"
        return f" : {types}{override}"

    def operands(self, tensors: Iterable[Tensor]) -> str:
        return ", ".join(self.results[t] for t in tensors)

    def attributes(self, node: Node) -> str:
        texts = {}
        plain = {key: value for key, value in node.attrs.items() if not graphs_in(value)}
        for key, value in plain.items():
            if isinstance(value, State):
                assert node.definition is variable_op, f"{node!r} has a state"
                texts["name"] = json.dumps(self.states[value])
                texts["trainable"] = self.attribute(value.trainable)
            elif isinstance(value, ArrayLiteral) and node.definition is constant_op:
                texts[key] = print_array(value.array, self.elide)  # its type follows anyway
            else:
                texts[key] = self.attribute(value)
        listed = ", ".join(f"{key} = {text}" for key, text in sorted(texts.items()))
        # Braces that stand before those of blocks tell a reader that these are blocks.
        return f" {{{listed}}}" if listed or len(plain) < len(node.attrs) else ""

    def attribute(self, value: Attr) -> str:
        match value:
            case bool() | None:  # before int, which a bool is
                return str(value).lower()
            case int() | Size():
                return self.size(value)
            case float():
                return float.__repr__(value)
            case str():
                return json.dumps(value)
            case tuple():
                return f"[{', '.join(map(self.attribute, value))}]"
            case ArrayLiteral():
                return f"literal {value.type} {print_array(value.array, self.elide)}"
            case DType():
                return value.short
            case PythonFunction() | ForeignFunction():
                return _function(value)
            case State() | NestedGraph():
                raise AssertionError(f"{value!r} within another attribute")
            case _:
                assert_never(value)

    def type(self, type_: TensorType) -> str:
        return f"{type_.dtype.short}[{', '.join(map(self.size, type_.shape))}]"

    def size(self, size: Dim) -> str:
        return str(size if isinstance(size, int) else substitute(size, self.sizes))


def print_attribute(value: Attr) -> str:
    """Return the text of an attribute without unknown sizes, states and graphs."""
    return _Names({}, {}, {}, None).attribute(value)


def _function(value: PythonFunction | ForeignFunction) -> str:
    is_foreign = isinstance(value, ForeignFunction)
    return f"extern {json.dumps(value.name)}" if is_foreign else f"<function {value.name}>"


def print_array(array: Array, elide: int | None) -> str:
    """Return the text of the value of a constant, from which every bit can be had back.

    A complex number is a list of its two parts.
    """
    if elide is not None and array.size > elide:
        return f"<elided {'x'.join(map(str, array.shape)) or 'scalar'}>"
    array = as_reals(array) if array.dtype.kind == "c" else array
    listed = _list_elements(array) if array.size <= LISTED else None
    if listed is not None:
        return listed
    # Little-endian, as every target is.
    return f'bytes"{base64.b64encode(zlib.compress(array.tobytes(), 9)).decode()}"'


def _list_elements(array: Array) -> str | None:
    """Return nested lists; None if an element is a nan that the word `nan` does not stand for."""
    texts = [_element(value) for value in array.reshape(-1)]
    if array.dtype.kind not in "biu":
        with np.errstate(over="ignore"):
            numbers = np.array([float(text) for text in texts])
            again = convert_numbers(numbers, dtypes.as_dtype(array.dtype))
        if again.tobytes() != array.tobytes():
            return None
    return _nest(iter(texts), array.shape)


def _element(value: np.generic) -> str:
    if isinstance(value, np.bool_):
        return str(value).lower()
    if isinstance(value, np.integer):
        return str(value)
    # The shortest text that gives the value back: `0.1`, not `0.10000000149011612`.
    short = str(value)
    return short if _is_exact(short, value) else float.__repr__(float(value))


def _is_exact(text: str, value: np.generic) -> bool:
    """Return whether `text` is a float's and, rounded to float64 on the way, gives `value`."""
    with np.errstate(over="ignore"):
        again = convert_numbers(np.array(float(text)), dtypes.as_dtype(value.dtype))
    return bool(re.search(r"[.einf]", text)) and again.tobytes() == value.tobytes()


def _nest(texts: Iterator[str], shape: tuple[int, ...]) -> str:
    if not shape:
        return next(texts)
    return f"[{', '.join(_nest(texts, shape[1:]) for _ in range(shape[0]))}]"


def _names(graph: Graph, nodes: list[Node], elide: int | None) -> _Names:
    return _Names(_name_results(nodes), _name_sizes(graph, nodes), _name_states(nodes), elide)


def _name_sizes(graph: Graph, nodes: Iterable[Node]) -> dict[str, Dim]:
    """Return what to call the unknown sizes: those that are called as no word of the text is."""
    names = number_unknowns(graph)
    seen: set[Graph] = set()
    for name in {n for node in nodes for size in sizes_of(node, seen) for n in unknowns_of(size)}:
        if name not in names and (name in RESERVED or not re.fullmatch(r"[^\W\d]\w*", name)):
            names[name] = unknown(f"dim{json.dumps(name)}")
    return names


def _name_results(nodes: Iterable[Node]) -> dict[Tensor, str]:
    unique = _UniqueNames()
    results: dict[Tensor, str] = {}
    count = 0
    for node in nodes:
        if node.name is None or not re.fullmatch(NAME, node.name):
            numbers = range(count, count + len(node.outputs))
            names = [f"%{number}" for number in numbers]
            count += len(names)
        else:
            many = len(node.outputs) > 1
            suffixes = [f".{t.index}" if many else "" for t in node.outputs]
            base = unique.claim(node.name, suffixes)
            names = [f"%{base}{suffix}" for suffix in suffixes]
        results.update(zip(node.outputs, names, strict=True))
    return results


def _name_states(nodes: Iterable[Node]) -> dict[State, str]:
    unique = _UniqueNames()
    names: dict[State, str] = {}
    for node in nodes:  # those within blocks are no variables
        state = node.attrs.get("state")
        if isinstance(state, State) and state not in names:
            names[state] = unique.claim(state.name, [""])
    return names


class _UniqueNames:
    """Names given out once each: a second `w` becomes `w_1`."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def claim(self, base: str, suffixes: Iterable[str]) -> str:
        """Return `base`, or `base_1`, ..., such that it is free with each of `suffixes`."""
        name = base
        while any(name + suffix in self._taken for suffix in suffixes):
            self._next[base] = self._next.get(base, 0) + 1
            name = f"{base}_{self._next[base]}"
        self._taken.update(name + suffix for suffix in suffixes)
        return name
