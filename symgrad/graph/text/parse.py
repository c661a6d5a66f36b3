"""Parser of the graph IR: graphs from text, as printed or as people write it.

One parser for all ops: operands, attributes and types describe themselves, so an op needs no code
here. Only the leaves are known by name: arguments are placeholders, the type of a constant's value
is that of its result, and a variable makes state, which starts at zero. Types are inferred anew
and must be those in the text.

    graph  := "graph" "@" name "(" [argument {"," argument}] ")" "->" types "{"
              {node} {update} "return" [results] "}"
    node   := results "=" op [results] ["{" name "=" value {...} "}" ["{" {block} "}"]]
              ":" types ["gradient" string]
    block  := name ["." number] "(" [argument {"," argument}] ")" "{" {node} "return" [results] "}"
    update := "update" result "=" result

Blocks are the attributes that are graphs; those with numbers make a tuple.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Sequence

from symgrad.errors import Source, SymgradError
from symgrad.graph.graph import Graph, Update
from symgrad.graph.inference import infer_types
from symgrad.graph.leaf import Variable, constant_op, placeholder_op, variable_op
from symgrad.graph.node import OpDef, Region, Tensor, make_node
from symgrad.graph.opdef import OPS
from symgrad.graph.ops import declare_all
from symgrad.graph.text.attribute_types import attribute_types, describe_type, is_of_type
from symgrad.graph.text.tokens import Token, Tokens, error_at
from symgrad.graph.text.values import (
    Value,
    Values,
    as_literal,
    check_storable,
    complete,
    unquote,
)
from symgrad.graph.types import Attr, State, TensorType
from symgrad.records import dataclass

_LOCATION = re.compile(r"//\s*(?P<file>\S.*):(?P<line>\d{1,9})\s*")


def parse_graph(text: str) -> Graph:
    """Return the graph that `text` states.

    Raises `GraphError`, with the line of the text, for what is no graph.
    """
    declare_all()
    return _GraphParser(text).graph()


@dataclass(frozen=True, slots=True)
class _Statement:
    """A line `results = op operands {attributes} : types` as it was read."""

    line: int
    results: list[Token]
    definition: OpDef
    inputs: tuple[Tensor, ...]
    attrs: dict[str, Value]
    types: tuple[TensorType, ...]
    gradient_key: str | None


class _GraphParser:
    """Reads one graph; `tensors` are the results that have been read so far, by their names.

    Within a block they are those of the block, and `region` is what they live in.
    """

    def __init__(self, text: str) -> None:
        self._tokens = Tokens(text)
        self._values = Values(self._tokens, text)
        self._tensors: dict[str, Tensor] = {}
        self._states: dict[str, State] = {}
        self._region: Region | None = None

    def graph(self) -> Graph:
        first = self._tokens.expect("graph")
        name = self._graph_name()
        self._tokens.expect("(")
        inputs = self._values.list_until(")", self._argument)
        self._tokens.expect("->")
        promised = self._promised_types()
        self._nodes()
        updates = self._updates()
        line = self._tokens.expect("return").line
        outputs = self._operands()
        self._tokens.expect("}")
        if self._tokens.next.kind != "end":
            raise self._tokens.wrong("expected the end of the text")
        _check_types(line, "return", tuple(t.type for t in outputs), promised)
        try:
            return Graph(outputs, inputs, updates, name=name)
        except SymgradError as error:
            raise error_at(first.line, str(error)) from error

    def _graph_name(self) -> str:
        token = self._tokens.next
        name = self._tokens.expect_kind("graph", "a name such as @graph").text[1:]
        return unquote(name, token.line) if name.startswith('"') else name

    def _promised_types(self) -> tuple[TensorType, ...]:
        if not self._tokens.take_if("("):
            return self._types(end="{")
        self._tokens.expect(")")
        self._tokens.expect("{")
        return ()

    def _types(self, end: str | None = None) -> tuple[TensorType, ...]:
        types = [self._values.type()]
        while self._tokens.take_if(","):
            types.append(self._values.type())
        if end is not None:
            self._tokens.expect(end)
        return tuple(types)

    def _argument(self) -> Tensor:
        result = self._tokens.expect_kind("result", "an argument such as %x")
        self._tokens.expect(":")
        type_ = self._values.type()
        attrs: dict[str, Value] = {"dtype": type_.dtype, "shape": type_.shape}
        self._build(_Statement(result.line, [result], placeholder_op, (), attrs, (type_,), None))
        return self._tensors[result.text]

    def _nodes(self) -> None:
        while self._tokens.next.kind == "result":
            self._node()

    def _node(self) -> None:
        results = [self._tokens.take()]
        while self._tokens.take_if(","):
            results.append(self._tokens.expect_kind("result", "a result such as %0"))
        self._tokens.expect("=")
        op = self._tokens.expect_kind("word", "the name of an op")
        if op.text not in OPS or op.text == placeholder_op.name:
            raise error_at(op.line, f"there is no op {op.text!r}")
        inputs = tuple(self._operands())
        attrs = self._attributes()
        self._blocks(attrs)
        self._tokens.expect(":")
        types = self._types()
        key = self._values.string() if self._tokens.take_if("gradient") else None
        line = results[0].line
        self._build(_Statement(line, results, OPS[op.text], inputs, attrs, types, key))

    def _operands(self) -> list[Tensor]:
        if self._tokens.next.kind != "result":
            return []
        operands = [self._operand()]
        while self._tokens.take_if(","):
            operands.append(self._operand())
        return operands

    def _operand(self) -> Tensor:
        token = self._tokens.expect_kind("result", "an operand such as %0")
        if token.text not in self._tensors:
            raise error_at(token.line, f"{token.text} is used before it is defined")
        return self._tensors[token.text]

    def _attributes(self) -> dict[str, Value]:
        attrs: dict[str, Value] = {}
        if not self._tokens.take_if("{"):
            return attrs
        while not self._tokens.take_if("}"):
            if attrs:
                self._tokens.expect(",")
            name = self._tokens.expect_kind("word", "the name of an attribute")
            if name.text in attrs:
                raise error_at(name.line, f"attribute {name.text} is given twice")
            self._tokens.expect("=")
            attrs[name.text] = self._values.value()
        return attrs

    def _blocks(self, attrs: dict[str, Value]) -> None:
        """Read the graphs nested in a node and enter them among its attributes."""
        if not self._tokens.take_if("{"):
            return
        parts: dict[str, list[Graph]] = {}
        while not self._tokens.take_if("}"):
            label = self._tokens.expect_kind("word", "the name of a block")
            key, dot, _ = label.text.partition(".")
            earlier = parts.get(key, [])
            wanted = f"{key}.{len(earlier)}" if dot or earlier else key
            if label.text != wanted or key in attrs:
                raise error_at(label.line, f"block {label.text} is given twice or out of order")
            with self._values.nested():
                graph = self._block(label)
            if dot:
                parts.setdefault(key, earlier).append(graph)
            else:
                attrs[key] = graph
        attrs.update((key, tuple(graphs)) for key, graphs in parts.items())

    def _block(self, label: Token) -> Graph:
        """Read a nested graph, which sees nothing of what has been read around it."""
        around = self._tensors, self._region
        self._tensors, self._region = {}, Region(label.text, self._region)
        self._tokens.expect("(")
        inputs = self._values.list_until(")", self._argument)
        self._tokens.expect("{")
        self._nodes()
        self._tokens.expect("return")
        outputs = self._operands()
        self._tokens.expect("}")
        graph = Graph(outputs, inputs, name=label.text, region=self._region)
        self._tensors, self._region = around
        return graph

    def _updates(self) -> list[Update]:
        updates = []
        while self._tokens.next.text == "update":
            line = self._tokens.take().line
            variable = self._operand()
            self._tokens.expect("=")
            value = self._operand()
            if not isinstance(variable, Variable):
                raise error_at(line, f"{variable!r} is updated and is no variable")
            try:
                updates.append(Update(variable, value))
            except SymgradError as error:
                raise error_at(line, str(error)) from error
        return updates

    def _build(self, statement: _Statement) -> None:
        """Make the node of a statement, and enter its results under their names."""
        if len(statement.results) != len(statement.types):
            counts = f"{len(statement.results)} results and {len(statement.types)} types"
            raise error_at(statement.line, f"{statement.definition.name} has {counts}")
        attrs = self._complete_attrs(statement)
        inferred = _infer(statement, attrs)
        _check_types(statement.line, statement.definition.name, inferred, statement.types)
        node = make_node(
            statement.definition,
            statement.inputs,
            attrs,
            statement.types,
            name=_node_name(statement.results),
            source=self._source(statement.line),
            region=self._region,
            gradient_key=statement.gradient_key,
            tensor_class=Variable if statement.definition is variable_op else None,
        )
        for result, tensor in zip(statement.results, node.outputs, strict=True):
            if result.text in self._tensors:
                raise error_at(result.line, f"{result.text} is defined twice")
            self._tensors[result.text] = tensor

    def _complete_attrs(self, statement: _Statement) -> dict[str, Attr]:
        """Return the attributes as the op has them: a constant's literal, a variable's state."""
        read, line = statement.attrs, statement.line
        if statement.definition is variable_op:
            return {"state": self._state(statement)}
        if statement.definition is constant_op and set(read) == {"value"}:
            return {"value": as_literal(read["value"], statement.types[0], line)}
        return {key: complete(value, line) for key, value in read.items()}

    def _state(self, statement: _Statement) -> State:
        name, trainable = statement.attrs.get("name"), statement.attrs.get("trainable")
        (type_,) = statement.types[:1]
        if self._region is not None:
            raise error_at(statement.line, f"a variable within block {self._region.name}")
        is_complete = len(statement.attrs) == 2 and type_.is_static
        if not (is_complete and isinstance(name, str) and isinstance(trainable, bool)):
            raise error_at(statement.line, "a variable has name, trainable and known sizes")
        if name not in self._states:
            check_storable(type_, statement.line)
            try:
                self._states[name] = State.zeros(type_, name=name, trainable=trainable)
            except MemoryError as error:
                raise error_at(statement.line, f"no memory for a variable {type_}") from error
        state = self._states[name]
        if (state.type, state.trainable) != (type_, trainable):
            raise error_at(statement.line, f"two variables that differ have the name {name!r}")
        return state

    def _source(self, line: int) -> Source:
        location = _LOCATION.fullmatch(self._tokens.comment(line))
        if location is None:
            return Source("<graph text>", line, "<module>")
        return Source(location["file"], int(location["line"]), "<module>")


def _node_name(results: Sequence[Token]) -> str | None:
    """Return the name that the printer derived the names of the results from."""
    name = results[0].text[1:]
    if name.isdecimal():
        return None
    return name.removesuffix(".0") if len(results) > 1 else name


@functools.cache
def _signature(definition: OpDef) -> inspect.Signature:
    return inspect.signature(definition.infer)


# What rules raise for attributes that have the right types and do not fit the operands, such as an
# axis there is not. Anything else is a fault of ours.
_MISFITS = (ArithmeticError, AssertionError, LookupError, TypeError, ValueError)


def _infer(statement: _Statement, attrs: dict[str, Attr]) -> tuple[TensorType, ...]:
    definition, line = statement.definition, statement.line
    operands = [t.type for t in statement.inputs]
    try:
        _signature(definition).bind(*operands, **attrs)
    except TypeError as error:
        # From 3.13 on Python says of which kind an argument is, which the text does not have.
        problem = str(error).replace("keyword-only ", "")
        raise error_at(line, f"{definition.name}: {problem}") from error
    _check_attrs(statement, attrs)
    try:
        return infer_types(definition, operands, attrs)
    except SymgradError as error:
        raise error_at(line, str(error)) from error
    except _MISFITS as error:
        given = ", ".join(attrs)
        raise error_at(line, f"{definition.name}: wrong {given}: {error}") from error


def _check_attrs(statement: _Statement, attrs: dict[str, Attr]) -> None:
    op, line = statement.definition.name, statement.line
    types = attribute_types(statement.definition)
    for name, value in attrs.items():
        if not is_of_type(value, types[name]):
            raise error_at(line, f"{op}: {name} is not {describe_type(types[name])}")


def _check_types(
    line: int, what: str, found: tuple[TensorType, ...], stated: tuple[TensorType, ...]
) -> None:
    if found != stated:
        texts = [", ".join(map(str, types)) or "nothing" for types in (found, stated)]
        raise error_at(line, f"{what} gives {texts[0]}, the text says {texts[1]}")
