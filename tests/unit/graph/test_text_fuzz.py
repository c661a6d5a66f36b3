"""The laws of the text on random graphs, and graphs that recursion would not survive."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symgrad.errors import GraphError
from symgrad.graph import dtypes
from symgrad.graph.compare import structurally_equal
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import placeholder
from symgrad.graph.ops.arithmetic import negative
from symgrad.graph.reference import evaluate
from symgrad.graph.text.print import print_graph
from symgrad.graph.verify import verify
from tests.support.pool import Pool
from tests.support.strategies import TABLE, graphs, random_graph

NUMBERS = [d for d in dtypes.REAL if not d.is_bool]


@pytest.mark.parametrize("count", [20, pytest.param(60, marks=pytest.mark.slow)])
def test_a_graph_reads_back_as_itself_and_computes_the_same(count):
    @settings(max_examples=count)
    @given(st.sampled_from(NUMBERS).flatmap(lambda dtype: graphs(dtype=dtype)))
    def check(example):
        graph, inputs = example
        verify(graph)
        text = print_graph(graph)
        again = Graph.parse(text)
        verify(again)
        assert structurally_equal(graph, again)
        assert print_graph(again) == text
        for variable, copy in zip(graph.variables, again.variables, strict=True):
            copy.value = variable.value
        for ours, theirs in zip(evaluate(graph, inputs), evaluate(again, inputs), strict=True):
            assert [a.tobytes() for a in ours] == [b.tobytes() for b in theirs]

    check()


@pytest.mark.parametrize("count", [25, pytest.param(None, marks=pytest.mark.slow)])
def test_the_same_seed_gives_the_same_text(count):
    @settings(max_examples=count or settings().max_examples)
    @given(st.integers(0, 2**32 - 1))
    def check(seed):
        first, _ = random_graph(np.random.default_rng(seed), size=8)
        second, _ = random_graph(np.random.default_rng(seed), size=8)
        assert print_graph(first) == print_graph(second)

    check()


@pytest.mark.parametrize("count", [30, pytest.param(None, marks=pytest.mark.slow)])
def test_text_with_a_piece_cut_out_is_read_or_refused_and_never_crashes(count):
    @settings(max_examples=count or settings().max_examples)
    @given(graphs(max_size=4), st.data())
    def check(example, data):
        text = print_graph(example[0])
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 20)))
        graph = _parse_or_none(text[:start] + text[end:])
        assert graph is None or structurally_equal(graph, Graph.parse(print_graph(graph)))

    check()


def _parse_or_none(text: str) -> Graph | None:
    """Return the graph, or None if the text is refused in the one way in which it may be."""
    try:
        return Graph.parse(text)
    except GraphError:
        return None


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_every_row_of_the_table_builds_a_graph_that_runs(row):
    dtypes_of_row = [d for d in NUMBERS if d.is_float or not row.is_float_only]
    for dtype, seed in product(dtypes_of_row, range(3)):
        pool = Pool(np.random.default_rng(seed), dtype)
        pool.tensors.append(placeholder((2, 3), dtype))
        graph = Graph(row.recipe(pool), pool.tensors[:1])
        verify(graph)
        (result,), _ = evaluate(graph, [pool.array((2, 3))])
        assert graph.outputs[0].dtype == dtype or not dtype.is_float
        assert np.isfinite(result.astype(np.float64)).all()


@pytest.mark.parametrize(
    "length", [pytest.param(1_500), pytest.param(100_000, marks=pytest.mark.slow)]
)
def test_a_long_chain_prints_parses_verifies_and_runs_without_recursion(length):
    x = placeholder((2,), name="x")
    y = x
    for _ in range(length):
        y = negative(y)
    graph = Graph(y, [x])
    verify(graph)
    text = print_graph(graph)
    assert text.count("\n") == length + 3
    again = Graph.parse(text)
    assert structurally_equal(graph, again)
    assert again.to_networkx().number_of_edges() == length
    (result,), _ = evaluate(again, [np.array([1, -2], np.float32)])
    assert result.tolist() == [1, -2]
