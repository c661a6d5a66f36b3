"""Graphs within graphs as text: blocks, their names and sizes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symgrad.errors import GraphError
from symgrad.graph import dtypes
from symgrad.graph.compare import structurally_equal
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import placeholder, variable_node
from symgrad.graph.nested import Traced
from symgrad.graph.node import Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import add, multiply
from symgrad.graph.ops.branches import branch
from symgrad.graph.ops.comparison import less
from symgrad.graph.ops.transcendental import sin, tanh
from symgrad.graph.ops.while_loop import loop
from symgrad.graph.reference import evaluate
from symgrad.graph.text.print import describe_graph, print_graph
from symgrad.graph.types import State, TensorType
from symgrad.graph.verify import verify
from symgrad.passes.gradients.reverse_mode import gradients
from symgrad.passes.loops.prune_loops import prune_loops
from tests.support.control_strategies import CONTROL
from tests.support.pool import Pool
from tests.support.strategies import TABLE, graphs

LOOP = """\
graph @repeated(%x: f32[3], %n: i64[]) -> f32[3], i64[] {
  %0 = constant {value = 0} : i64[]
  %1, %2, %3 = while %0, %x, %n {capacity = 10, carried = 2} {
    body(%p0: i64[], %p1: f32[3], %n: i64[]) {
      %0 = constant {value = 1} : i64[]
      %1 = add %p0, %0 : i64[]
      %2 = sin %p1 : f32[3]
      return %1, %2
    }
    condition(%p0: i64[], %p1: f32[3], %n: i64[]) {
      %0 = less %p0, %n : bool[]
      return %0
    }
  } : i64[], i64[], f32[3]
  %4 = tanh %3 : f32[3]
  return %4, %1
}
"""

BRANCHES = """\
graph @chosen(%i: i64[], %x: f32[n]) -> f32[n] {
  %0 = switch %i, %x {} {
    branches.0(%x: f32[n]) {
      %0 = sin %x : f32[n]
      return %0
    }
    branches.1(%x: f32[n]) {
      return %x
    }
  } : f32[n]
  return %0
}
"""


def _round_trip(graph: Graph) -> Graph:
    text = print_graph(graph)
    again = Graph.parse(text)
    verify(again)
    assert structurally_equal(graph, again)
    assert print_graph(again) == text
    return again


def _gradient(y: Tensor, x: Tensor) -> Tensor:
    (g,) = gradients([y], [x])
    assert g is not None
    return g


def _repeated(x: Tensor, n: Tensor) -> Tensor:
    start = constant(np.int64(0))
    condition, body = (Traced(name, [start.type, x.type]) for name in ("condition", "body"))
    condition.run(lambda i, _: [less(i, n)])
    body.run(lambda i, v: [add(i, 1), sin(v)])
    return loop([start, x], condition, body, 10).outputs[2]


@pytest.mark.parametrize("text", [LOOP, BRANCHES])
def test_text_with_blocks_reads_back_as_itself(text):
    assert print_graph(_round_trip(Graph.parse(text))) == text


def test_a_loop_that_was_read_runs():
    outputs, _ = evaluate(Graph.parse(LOOP), [np.arange(3, dtype=np.float32), np.array(2)])
    assert np.allclose(outputs[0], np.tanh(np.sin(np.sin([0, 1, 2]))))
    assert outputs[1] == 2


def test_a_built_loop_prints_as_the_same_text():
    x, n = placeholder((3,), name="x"), placeholder((), "int64", name="n")
    text = print_graph(Graph(_repeated(x, n), [x, n], name="built"))
    block = LOOP[LOOP.index("    condition") : LOOP.index("  } : i64")]
    assert block in text


def test_a_branch_within_a_loop_and_the_gradients_of_both_read_back():
    x, n = placeholder((3,), "float64", name="x"), placeholder((), "int64", name="n")
    start = constant(np.int64(0))
    condition, body = (Traced(name, [start.type, x.type]) for name in ("condition", "body"))
    condition.run(lambda i, _: [less(i, n)])

    def step(i: Tensor, v: Tensor) -> list[Tensor]:
        functions = [Traced("odd", ()), Traced("even", ())]
        functions[0].run(lambda: [multiply(v, x)])
        functions[1].run(lambda: [sin(v)])
        return [add(i, 1), branch(i, functions).output]

    body.run(step)
    y = loop([start, x], condition, body, 4).outputs[2]
    g = _gradient(y, x)
    graph = Graph([y, g, _gradient(g, x)], [x, n])
    again = _round_trip(graph)
    values = [np.array([0.5, 1.0, 2.0]), np.array(3)]
    for ours, theirs in zip(evaluate(graph, values)[0], evaluate(again, values)[0], strict=True):
        assert ours.tobytes() == theirs.tobytes()
    # What was read is a program like any other: it has gradients too.
    third = _gradient(again.outputs[2], again.inputs[0])
    assert np.isfinite(evaluate(Graph([third], again.inputs), values)[0][0]).all()


def test_unknown_sizes_are_numbered_through_all_graphs():
    x = placeholder((None, None), name="x")
    i = placeholder((), "int64", name="i")
    functions = [Traced("a", ()), Traced("b", ())]
    for function in functions:
        function.run(lambda: [tanh(x)])
    graph = Graph(branch(i, functions).output, [i, x])
    text = print_graph(_round_trip(graph))
    assert text.count("%x: f32[?0, ?1]") == 3
    other = Graph.parse(text.replace("?0, ?1", "?1, ?1"))
    assert not structurally_equal(graph, other)


def test_a_size_that_appears_only_inside_has_a_number_of_its_own():
    text = BRANCHES.replace("branches.1(%x: f32[n])", "branches.1(%x: f32[?0])")
    assert print_graph(_round_trip(Graph.parse(text))) == text


def test_a_variable_is_an_operand_and_never_within_a_block():
    w = variable_node(State(np.ones(2, np.float32), name="w", trainable=True), "w")
    i = placeholder((), "int64", name="i")
    functions = [Traced("a", ()), Traced("b", ())]
    for function in functions:
        function.run(lambda: [tanh(w)])
    text = print_graph(_round_trip(Graph(branch(i, functions).output, [i])))
    assert "switch %i, %w {} {" in text
    inside = text.replace("tanh %w", 'variable {name = "w", trainable = true}')
    with pytest.raises(GraphError, match=r"line 5: a variable within block branches.0"):
        Graph.parse(inside)


def test_the_order_of_branches_is_that_of_their_numbers():
    i, x = placeholder((), "int64", name="i"), placeholder((), name="x")
    functions = [Traced(f"f{k}", ()) for k in range(11)]
    for k, function in enumerate(functions):
        function.run(lambda k=k: [multiply(x, k)])
    graph = _round_trip(Graph(branch(i, functions).output, [i, x]))
    for k in range(11):
        assert evaluate(graph, [np.array(k), np.array(2, np.float32)])[0][0] == 2 * k


def test_locations_stand_at_the_first_line_of_a_node_with_blocks():
    text = print_graph(Graph.parse(LOOP), locations=True)
    assert "carried = 2} {  // <graph text>:3\n" in text
    assert "      %2 = sin %p1 : f32[3]  // <graph text>:7\n" in text
    assert print_graph(Graph.parse(text), locations=True) == text


def test_the_line_of_a_node_leaves_its_blocks_out():
    graph = Graph.parse(BRANCHES)
    _, lines = describe_graph(graph)
    assert lines[graph.nodes[-1]] == "%0 = switch %i, %x {} {...} : f32[n]"


def test_programs_that_differ_within_a_block_only_are_different():
    graph = Graph.parse(LOOP)
    assert structurally_equal(graph, Graph.parse(LOOP))
    assert not structurally_equal(graph, Graph.parse(LOOP.replace("sin %p1", "tanh %p1")))
    assert not structurally_equal(graph, Graph.parse(LOOP.replace("less %p0", "less_equal %p0")))
    swapped = BRANCHES.replace("sin %x", "tanh %x")
    assert not structurally_equal(Graph.parse(BRANCHES), Graph.parse(swapped))


def test_blocks_nest_no_deeper_than_brackets():
    x = placeholder((), name="x")
    index = constant(np.int64(0))

    def nest(depth: int) -> Tensor:
        if not depth:
            return tanh(x)
        function = Traced("deeper", ())
        function.run(lambda: [nest(depth - 1)])
        return branch(index, [function]).output

    _round_trip(Graph(nest(30), [x]))
    with pytest.raises(GraphError, match="nest more than 60 deep"):
        Graph.parse(print_graph(Graph(nest(61), [x])))


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("branches.1", "branches.2", r"line 7: block branches.2 is given twice or out of order"),
        ("branches.1", "branches.0", r"line 7: block branches.0 is given twice or out of order"),
        ("branches.1", "branches", r"line 7: block branches is given twice or out of order"),
        ("{} {", "{branches = 1} {", r"line 3: block branches.0 is given twice or out of order"),
        ("{} {", "{", r"line 3: expected '='"),
        ("return %x\n    }", "return %i\n    }", r"line 8: %i is used before it is defined"),
        ("      return %x\n", "", r"line 8: expected 'return', found '}'"),
        ("      return %x\n", "      update %x = %x\n", r"line 8: expected 'return'"),
        ("branches.1(%x: f32[n])", "branches.1()", r"line 8: %x is used before it is defined"),
        ("branches.1(%x: f32[n])", "branches.1(%x: f32[n], %y: f32[n])", r"line 2: switch: "),
        ("branches.1(%x: f32[n])", "branches.1(%x: f64[n])", r"line 2: switch: operand 0"),
        ("  } : f32[n]", "  } : f32[3]", r"line 2: switch gives f32\[n\], the text says f32"),
        ("return %0\n    }", "return %0, %0\n    }", r"line 2: switch: wrong branches"),
    ],
)
def test_what_is_wrong_with_a_block_is_said_with_its_line(old, new, complaint):
    assert old in BRANCHES
    with pytest.raises(GraphError, match=complaint):
        Graph.parse(BRANCHES.replace(old, new, 1))


def test_a_condition_that_is_missing_is_an_attribute_that_is_missing():
    start, end = LOOP.index("    condition"), LOOP.index("  } : i64")
    with pytest.raises(GraphError, match=r"line 3: while: missing .* 'condition'"):
        Graph.parse(LOOP[:start] + LOOP[end:])


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.int32], ids=str)
@pytest.mark.parametrize("row", CONTROL, ids=lambda row: row.name)
def test_every_row_of_control_flow_builds_a_graph_that_runs(row, dtype):
    for seed in range(3):
        rows = [r for r in TABLE if dtype.is_float or not r.is_float_only]
        pool = Pool(np.random.default_rng(seed), dtype, rows)
        pool.tensors.append(placeholder((2, 3), dtype))
        graph = Graph(row.recipe(pool), pool.tensors[:1])
        verify(graph)
        (result,), _ = evaluate(graph, [pool.array((2, 3))])
        assert TensorType(dtype, result.shape) == graph.outputs[0].type
        assert np.isfinite(result).all()


@pytest.mark.parametrize("count", [8, pytest.param(25, marks=pytest.mark.slow)])
def test_random_branches_and_loops_read_back_and_compute_the_same(count):
    @settings(max_examples=count)
    @given(st.sampled_from([dtypes.float32, dtypes.int8]).flatmap(
        lambda dtype: graphs(dtype=dtype, max_size=4, control=True)
    ))  # fmt: skip
    def check(example):
        # A gradient of the user's is a function of Python, which no text can say.
        graph, inputs = prune_loops(example[0]), example[1]
        again = _round_trip(graph)
        for variable, copy in zip(graph.variables, again.variables, strict=True):
            copy.value = variable.value
        for ours, theirs in zip(evaluate(graph, inputs), evaluate(again, inputs), strict=True):
            assert [a.tobytes() for a in ours] == [b.tobytes() for b in theirs]

    check()


@pytest.mark.parametrize("count", [20, pytest.param(60, marks=pytest.mark.slow)])
def test_text_with_a_piece_cut_out_is_read_or_refused_and_never_crashes(count):
    @settings(max_examples=count)
    @given(graphs(max_size=2, control=True), st.data())
    def check(example, data):
        text = print_graph(example[0])
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 20)))
        try:
            graph = Graph.parse(text[:start] + text[end:])
        except GraphError:
            return
        assert structurally_equal(graph, Graph.parse(print_graph(graph)))

    check()
