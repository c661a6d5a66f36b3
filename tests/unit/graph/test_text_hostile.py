"""Texts that mean harm: only `GraphError` comes out, in time linear in the text."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symgrad.errors import GraphError
from symgrad.graph.compare import structurally_equal
from symgrad.graph.graph import Graph
from symgrad.graph.verify import verify
from tests.support.mutants import count_calls, mutant, mutants_of
from tests.support.strategies import random_graph

_GOLDEN = Path(__file__).parents[2] / "golden"


@cache
def _texts(count: int) -> tuple[str, ...]:
    """Return printed graphs: random ones, and those of the golden files, which have blocks."""
    random = [str(random_graph(np.random.default_rng(seed), size=6)[0]) for seed in range(count)]
    files = "\n".join(path.read_text() for path in sorted(_GOLDEN.glob("*.sg")))
    return (*random, *re.findall(r"^graph @.*?^}", files, re.MULTILINE | re.DOTALL))


def _read(text: str) -> Graph | None:
    try:
        return Graph.parse(text)
    except GraphError:
        return None


def _check(text: str) -> None:
    """Read `text` as anyone may send it, and what comes of it again."""
    assert count_calls(partial(_read, text)) < 20_000 + 200 * len(text)
    graph = _read(text)
    if graph is not None:
        verify(graph)
        assert structurally_equal(graph, Graph.parse(str(graph)))


@pytest.mark.parametrize("count", [40, pytest.param(None, marks=pytest.mark.slow)])
def test_a_changed_text_is_a_graph_or_refused(count):
    @settings(max_examples=count or settings().max_examples)
    @given(st.deferred(lambda: mutants_of(_texts(12 if count else 40))))
    def check(text):
        _check(text)

    check()


@pytest.mark.slow
def test_twenty_thousand_changed_texts_are_graphs_or_refused():
    rng = np.random.default_rng(12)
    texts = _texts(40)
    for _ in range(20_000):
        _check(mutant(texts[rng.integers(len(texts))], rng))


def _graph_of(type_: str, statement: str = "") -> str:
    return f"graph @g(%x: {type_}) -> f32[] {{\n{statement}\nreturn %x\n}}\n"


def _constant(value: str, type_: str) -> str:
    return _graph_of("f32[]", f"%0 = constant {{value = {value}}} : {type_}")


def _variable(type_: str) -> str:
    return _graph_of("f32[]", f'%0 = variable {{name = "w", trainable = true}} : {type_}')


def _sum(count: int) -> str:
    return "+".join(f"a{i:05}" for i in range(count))


def _broadcast(shape: str) -> str:
    return _graph_of("f32[]", f"%0 = broadcast_to %x {{shape = {shape}}} : f32[1]")


_SUMS = [f"a{i}+b{i}" for i in range(40)]
_PACKED = 'bytes"eJwDAAAAAAE="'
_REFUSED = {
    "a word that is called like a kind of words": (_constant("float", "f32[]"), "no element"),
    "a dtype for a size": (_broadcast("[f32]"), "shape is not a list"),
    "a bool for a size": (_broadcast("[true]"), "shape is not a list"),
    "a float for a size": (_broadcast("[1.0]"), "shape is not a list"),
    "a string for a block": (
        _graph_of("f32[]", '%0 = call %x {callee = "f"} : f32[]'),
        "callee is not a block",
    ),
    "an axis of negative size": (_graph_of("f32[-1]"), "-1 is no size of an axis"),
    "an axis without end": (_graph_of(f"f32[{1 << 63}]"), "is no size of an axis"),
    "too many axes": (_graph_of(f"f32[{', '.join('1' * 65)}]"), "65 axes"),
    "a negative variable": (_variable("f32[-3]"), "-3 is no size of an axis"),
    "a variable of petabytes": (_variable("f32[900000000000000]"), "no memory for a variable"),
    "a variable beyond all addresses": (_variable("f32[9000000000000000000]"), "more bytes"),
    "nothing, beyond all addresses": (_constant("[]", f"f32[0, {2**62}, {2**62}]"), "more bytes"),
    "bytes beyond all addresses": (_constant(_PACKED, f"f32[{2**62}]"), "more bytes"),
    "bytes that expand without end": (_constant(_PACKED, f"f32[{2**60}]"), "not the"),
    "a number with 100,000 digits": (_graph_of(f"f32[{'9' * 100_000}]"), "is too large"),
    "a product of numbers": (_graph_of(f"f32[{'*'.join(['9' * 38] * 1000)}]"), "is too large"),
    "a product of 40 sums": (_graph_of(f"f32[({')*('.join(_SUMS)})]"), "too long"),
    "a product of 40 sums that a rule makes": (
        _graph_of(f"f32[{', '.join(_SUMS)}]", "%0 = reshape %x {shape = [1]} : f32[1]"),
        "too long",
    ),
    "a sum of 20,000 names": (_graph_of(f"f32[{_sum(20_000)}]"), "too long"),
    "a power of 20,000": (_graph_of(f"f32[{'*'.join('a' * 20_000)}]"), "too long"),
    "20,000 brackets": (_graph_of(f"f32[{'(' * 20_000}"), "nest more than"),
}


@pytest.mark.parametrize("case", _REFUSED)
def test_what_is_no_graph_is_refused(case):
    text, problem = _REFUSED[case]
    with pytest.raises(GraphError, match=f"line [12]: .*{problem}"):
        Graph.parse(text)


def test_a_variable_of_gigabytes_takes_no_memory_until_it_is_used():
    graph = Graph.parse(_variable("f32[500000000]").replace("return", "update %0 = %0\nreturn"))
    (variable,) = graph.variables
    assert variable.state.array.nbytes == 2_000_000_000
    assert not variable.state.array[-1]


def _blocks(count: int) -> str:
    blocks = " ".join(f"branches.{i}() {{ return }}" for i in range(count))
    return _graph_of("i64[]", f"%0 = switch %x {{}} {{{blocks}}} : f32[]")


def _concat(count: int) -> str:
    arguments = ", ".join(f"%x{i}: f32[n{i:04}]" for i in range(count))
    operands = ", ".join(f"%x{i}" for i in range(count))
    node = f"%0 = concat {operands} {{axis = 0}} : f32[1]"
    return f"graph @g({arguments}) -> f32[] {{ {node} return %0 }}"


def _nodes(count: int) -> str:
    return _graph_of("f32[]", "\n".join(f"%{i} = negative %x : f32[]" for i in range(count)))


def _maxima(count: int) -> str:
    return "+".join(f"max(n-{i:05}, 2)" for i in range(count))


_LONG: dict[str, Callable[[int], str]] = {
    "a sum of one name": lambda n: _graph_of(f"f32[{'+'.join('a' * n)}]"),
    "a sum of names": lambda n: _graph_of(f"f32[{_sum(n)}]"),
    "a sum times one": lambda n: _graph_of(f"f32[({_sum(n)}){'*1' * n}]"),
    "a sum of maxima": lambda n: _graph_of(f"f32[{_maxima(n)}]"),
    "numbers": lambda n: _graph_of(f"f32[{'+'.join(['9' * 30] * n)}]"),
    "a list": lambda n: _constant(f"[{', '.join('1' * n)}]", f"f32[{n}]"),
    "blocks": _blocks,
    "operands": _concat,
    "nodes": _nodes,
    "comments": lambda n: _graph_of("f32[]") + "// :1 " * n,
}


@pytest.mark.parametrize("case", _LONG)
def test_time_is_linear_in_the_text(case):
    short, long = (count_calls(partial(_read, _LONG[case](n))) for n in (100, 400))
    assert long < 5 * short
