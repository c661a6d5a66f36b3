"""The pipeline: its order, its options, and that it takes time in proportion to the graph."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings

from symgrad.errors import GraphError
from symgrad.graph import dtypes
from symgrad.graph.compare import structurally_equal
from symgrad.graph.graph import Graph, transform
from symgrad.graph.leaf import placeholder
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.arithmetic import add, multiply, negative, subtract
from symgrad.graph.ops.conversion import identity
from symgrad.graph.ops.transcendental import exp, tanh
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Array, State
from symgrad.passes import pipeline
from symgrad.passes.pipeline import GRAPH_PASSES, GraphPass, optimize, rows_of
from symgrad.passes.rewrites.rewrite import Rewrite, Rewrites
from symgrad.passes.table import Options
from tests.support.strategies import graphs

# add(x, -(x * 1)) and exp(2 * 3), twice: there is work for each of the first three passes.
TEXT = """
graph @work(%x: f32[4]) -> f32[4], f32[] {
  %0 = constant {value = 1.0} : f32[]
  %1 = broadcast_to %0 {shape = [4]} : f32[4]
  %2 = multiply %x, %1 : f32[4]
  %3 = negative %2 : f32[4]
  %4 = add %x, %3 : f32[4]
  %5 = constant {value = 2.0} : f32[]
  %6 = exp %5 : f32[]
  %7 = exp %5 : f32[]
  %8 = add %6, %7 : f32[]
  return %4, %8
}
"""


@pytest.fixture
def graph() -> Graph:
    return Graph.parse(TEXT)


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


OPTIMIZATIONS = [row.name for row in (*rows_of("once"), *rows_of("repeated"))]


def test_all_passes_together_leave_one_subtraction_and_one_constant(graph):
    assert ops(optimize(graph)) == ["placeholder", "subtract", "constant"]


@pytest.mark.parametrize(
    ("skipped", "kept"),
    [("simplify", "negative"), ("fold-constants", "exp"), ("cse", "constant")],
)
def test_a_pass_that_is_skipped_leaves_its_work(graph, skipped, kept):
    names: list[str] = []
    options = Options(skip=[skipped], print_after=lambda name, _text: names.append(name))
    assert kept in ops(optimize(graph, options=options))
    assert skipped not in names
    settled = [row.name for row in rows_of("settled")]
    assert set(names) == {*OPTIMIZATIONS, *settled} - {skipped}


@pytest.mark.parametrize("last", OPTIMIZATIONS)
def test_stop_after_runs_no_pass_behind_it(graph, last):
    names: list[str] = []
    options = Options(stop_after=last, print_after=lambda name, _text: names.append(name))
    optimize(graph, options=options)
    assert names == OPTIMIZATIONS[: OPTIMIZATIONS.index(last) + 1]


def test_print_after_gets_text_that_parses_to_what_the_pass_returned(graph):
    printed: list[tuple[str, str]] = []
    options = Options(
        stop_after="simplify", print_after=lambda name, text: printed.append((name, text))
    )
    simplified = optimize(graph, options=options)
    assert [name for name, _text in printed] == [
        "split-complex", "rematerialise", "expand", "simplify"
    ]  # fmt: skip
    _name, text = printed[-1]
    assert structurally_equal(Graph.parse(text), simplified)


@pytest.mark.parametrize("name", ["vectorize", "plan-memory", "beautify"])
def test_only_passes_over_graphs_can_be_skipped_or_stopped_after(graph, name):
    with pytest.raises(GraphError, match=f"'{name}' is none of inline-calls"):
        optimize(graph, options=Options(skip=[name]))
    with pytest.raises(GraphError, match=f"'{name}' is none of inline-calls"):
        optimize(graph, options=Options(stop_after=name))


def test_a_pass_that_every_program_needs_cannot_be_skipped(graph):
    with pytest.raises(GraphError, match="'fuse' cannot be skipped"):
        optimize(graph, options=Options(skip=["fuse"]))


def test_bisect_makes_the_first_rewrites_and_no_others(graph):
    every: list[Rewrite] = []
    whole = optimize(graph, options=Options(on_rewrite=every.append))
    assert [r.number for r in every] == list(range(1, len(every) + 1))
    for limit in range(len(every) + 1):
        made: list[Rewrite] = []
        partly = optimize(graph, options=Options(bisect=limit, on_rewrite=made.append))
        assert [r.rule for r in made] == [r.rule for r in every[:limit]]
        assert (ops(partly) == ops(whole)) == (limit == len(every))
    assert structurally_equal(optimize(graph, options=Options(bisect=0)), graph)


def test_bisect_finds_a_rewrite_that_is_wrong(monkeypatch):
    """Halve the number of rewrites until the one that breaks the program is known."""
    x = placeholder((3,), name="x")
    program = Graph(multiply(negative(negative(exp(x))), subtract(x, identity(x))), [x])

    def corrupt(graph: Graph, rewrites: Rewrites) -> Graph:
        def replace(node: Node, inputs: tuple[Tensor, ...]) -> Node | None:
            is_wrong = node.op == "exp" and rewrites.allow("exp(x) -> tanh(x)", node)
            return tanh(inputs[0]).node if is_wrong else None

        return transform(graph, replace)

    names = [row.name for row in GRAPH_PASSES]
    place = names.index("fold-constants")
    wrong = (*GRAPH_PASSES[:place], GraphPass("corrupt", corrupt), *GRAPH_PASSES[place:])
    monkeypatch.setattr(pipeline, "GRAPH_PASSES", wrong)
    array = np.array([1.0, 2.0, 3.0], np.float32)
    right, _ = evaluate(program, [array])

    def is_right(limit: int) -> bool:
        found, _ = evaluate(optimize(program, options=Options(bisect=limit)), [array])
        return bool(np.allclose(found[0], right[0]))

    made: list[Rewrite] = []
    optimize(program, options=Options(on_rewrite=made.append))
    low, high = 0, len(made)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_right(middle) else (low, middle)
    assert made[high - 1].rule == "exp(x) -> tanh(x)"


def test_a_rewrite_says_what_was_done_and_where(graph):
    made: list[Rewrite] = []
    optimize(graph, options=Options(on_rewrite=made.append))
    assert str(made[0]) == "1: multiply(x, 1) -> x at <multiply: f32[4]> (<graph text>:5)"


def test_an_exception_carries_the_name_of_the_pass(graph, monkeypatch):
    def fail(_graph: Graph, _rewrites: Rewrites) -> Graph:
        raise ZeroDivisionError("by accident")

    monkeypatch.setattr(pipeline, "GRAPH_PASSES", (GraphPass("fail", fail),))
    with pytest.raises(ZeroDivisionError) as caught:
        optimize(graph)
    assert caught.value.__notes__ == ["in pass fail"]


def test_a_graph_that_is_not_well_formed_is_refused_after_the_pass_that_made_it(graph, monkeypatch):
    def forget(graph: Graph, _rewrites: Rewrites) -> Graph:
        object.__setattr__(graph, "nodes", graph.nodes[1:])
        return graph

    monkeypatch.setattr(pipeline, "GRAPH_PASSES", (GraphPass("forget", forget),))
    with pytest.raises(AssertionError) as caught:
        optimize(graph, options=Options(verify=True))
    assert caught.value.__notes__ == ["in pass forget"]
    optimize(graph, options=Options(verify=False))


def test_fast_math_allows_what_holds_over_the_reals():
    x = placeholder((4,), name="x")
    program = Graph(multiply(subtract(x, x), 3.0), [x])
    assert "subtract" in ops(optimize(program))
    assert "subtract" not in ops(optimize(program, options=Options(fast_math=True)))


def test_the_graph_given_is_not_changed(graph):
    before = str(graph)
    optimize(graph)
    assert str(graph) == before


def results(program: Graph, arrays: list[Array], states: list[State]) -> list[Array]:
    """Return the outputs, then the values of `states` after the step, updated or not."""
    outputs, new = evaluate(program, arrays)
    values = {u.variable.state: v for u, v in zip(program.updates, new, strict=True)}
    return [*outputs, *(values.get(state, state.array) for state in states)]


@pytest.mark.parametrize("count", [15, pytest.param(40, marks=pytest.mark.slow)])
def test_what_a_program_computes_stays_the_same(count):
    @settings(max_examples=count)
    @given(graphs(max_size=20, smooth=True))
    def check(drawn):
        program, arrays = drawn
        states = [variable.state for variable in program.variables]
        wanted = results(program, arrays, states)
        found = results(optimize(program), arrays, states)
        for a, b in zip(wanted, found, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-4)

    check()


@pytest.mark.parametrize("count", [15, pytest.param(40, marks=pytest.mark.slow)])
def test_programs_over_integers_stay_the_same_bit_for_bit(count):
    @settings(max_examples=count)
    @given(graphs(dtype=dtypes.int32, max_size=20))
    def check(drawn):
        program, arrays = drawn
        states = [variable.state for variable in program.variables]
        wanted = results(program, arrays, states)
        for options in (Options(), Options(fast_math=True)):
            found = results(optimize(program, options=options), arrays, states)
            for a, b in zip(wanted, found, strict=True):
                np.testing.assert_array_equal(b, a)

    check()


@given(graphs(max_size=20))
@settings(max_examples=20)
def test_a_second_run_finds_nothing_to_do(drawn):
    once = optimize(drawn[0])
    assert structurally_equal(optimize(once), once)


def chain(length: int) -> Graph:
    x = placeholder((8,), name="x")
    y = x
    for _ in range(length // 4):
        y = tanh(add(multiply(y, 0.5), negative(x)))
    return Graph(y, [x])


@pytest.mark.slow
def test_ten_thousand_ops_take_about_a_second_and_the_time_is_linear():
    seconds = {length: seconds_of(chain(length)) for length in (2_500, 10_000)}
    # Room for a machine that does other things as well: alone it is 0.6 s and a factor of 4.
    assert seconds[10_000] < 3
    assert seconds[10_000] < 8 * seconds[2_500]


def seconds_of(program: Graph) -> float:
    start = time.process_time()
    optimize(program, options=Options(verify=False))
    return time.process_time() - start


def test_settled_passes_run_once_behind_all_rounds_of_the_repeated_ones(graph):
    names: list[str] = []
    optimize(graph, options=Options(print_after=lambda name, _text: names.append(name)))
    settled = [row.name for row in rows_of("settled")]
    assert names[-len(settled) :] == settled
    assert len(names) > len(OPTIMIZATIONS) + len(settled)
