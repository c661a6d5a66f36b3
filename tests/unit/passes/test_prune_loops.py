"""What branches and loops lose because nobody reads it, and what they must keep.

A number in the name of a test is that of the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from symgrad.graph.compare import graphs_of
from symgrad.graph.graph import Graph, Update
from symgrad.graph.leaf import placeholder, variable_node
from symgrad.graph.nested import Traced
from symgrad.graph.node import Node, Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import add, multiply
from symgrad.graph.ops.branches import branch
from symgrad.graph.ops.comparison import less
from symgrad.graph.ops.scan import scan_loop
from symgrad.graph.ops.transcendental import sin, tanh
from symgrad.graph.ops.while_loop import loop
from symgrad.graph.reference import evaluate
from symgrad.graph.types import State
from symgrad.graph.verify import verify
from symgrad.passes.loops.prune_loops import prune_loops

X, Y = (placeholder((3,), "float64", name=name) for name in "xy")
N = placeholder((), "int64", name="n")
VALUES = [np.array([0.5, 1.0, -2.0]), np.array([0.25, -1.0, 2.0]), np.array(3)]


def _pruned(*outputs: Tensor) -> Graph:
    """Return the pruned graph, having checked that it computes the same."""
    graph = Graph(outputs, [X, Y, N])
    pruned = prune_loops(graph)
    verify(pruned)
    assert pruned.inputs == graph.inputs
    found, wanted = evaluate(pruned, VALUES)[0], evaluate(graph, VALUES)[0]
    assert [a.tobytes() for a in found] == [a.tobytes() for a in wanted]
    assert prune_loops(pruned) is pruned
    return pruned


def _only(graph: Graph, op: str) -> Node:
    (node,) = [n for n in graph.nodes if n.op == op]
    return node


def _types(node: Node) -> list[str]:
    return [str(t.type) for t in node.outputs]


def _loop_of_three(capacity: int = 4) -> Node:
    """Return a loop of a counter, a product and a sum that depends on the product; two stacks."""
    start = constant(np.int64(0))
    types = [start.type, X.type, Y.type]
    condition, body = (Traced(name, types) for name in ("condition", "body"))
    condition.run(lambda i, _u, _v: [less(i, N)])
    body.run(lambda i, u, v: [add(i, 1), multiply(u, Y), add(u, sin(v)), v, tanh(u)])
    return loop([start, X, Y], condition, body, capacity)


def test_a_loop_variable_that_only_feeds_itself_goes_with_its_operands():
    pruned = _only(_pruned(_loop_of_three().outputs[2]), "while")
    assert _types(pruned) == ["i64[]", "i64[]", "f64[3]"]
    assert pruned.attrs["carried"] == 2
    assert pruned.inputs[1] is X
    assert len(pruned.inputs) == 4  # the counter, x, and what body and condition capture


def test_a_loop_variable_that_another_one_needs_stays():
    pruned = _only(_pruned(_loop_of_three().outputs[3]), "while")
    assert _types(pruned) == ["i64[]", "i64[]", "f64[3]", "f64[3]"]


def test_r13_20_a_loop_variable_that_a_stack_needs_stays_and_the_other_stack_goes():
    pruned = _only(_pruned(_loop_of_three().outputs[5]), "while")
    assert _types(pruned) == ["i64[]", "i64[]", "f64[3]", "f64[4, 3]"]


def test_a_loop_of_which_only_the_count_is_read_keeps_what_the_condition_needs():
    pruned = _only(_pruned(_loop_of_three().outputs[0]), "while")
    assert _types(pruned) == ["i64[]", "i64[]"]
    assert len(pruned.inputs) == 2


def test_a_loop_of_which_all_is_read_stays_as_it_is():
    graph = Graph(_loop_of_three().outputs, [X, Y, N])
    assert prune_loops(graph) is graph


def test_results_of_branches_that_nobody_reads_go_with_their_operands():
    functions = [Traced("a", ()), Traced("b", ())]
    functions[0].run(lambda: [sin(X), tanh(Y)])
    functions[1].run(lambda: [multiply(X, X), X])
    node = branch(N, functions)
    first = _only(_pruned(node.outputs[0]), "switch")
    assert first.inputs == (N, X)
    assert _types(first) == ["f64[3]"]
    assert _only(_pruned(node.outputs[1]), "switch").inputs == (N, X, Y)


def test_what_fed_an_operand_that_went_goes_too():
    before = branch(N, [_traced(lambda: [tanh(Y), sin(Y)])])
    node = branch(N, [_traced(lambda: [sin(X), multiply(*before.outputs)])])
    assert [n.op for n in _pruned(node.outputs[0]).nodes].count("switch") == 1


def _traced(function: Callable[[], Sequence[Tensor]]) -> Traced:
    traced = Traced("f", ())
    traced.run(function)
    return traced


def test_a_scan_loses_stacks_scanned_stacks_and_invariants():
    xs = multiply(constant(np.ones((4, 3))), X)
    ys = multiply(constant(np.ones((4, 3))), Y)
    body = Traced("body", [X.type, Y.type, X.type, Y.type])
    body.run(lambda u, v, x, y: [add(u, x), add(v, multiply(y, Y)), sin(u), tanh(y)])
    node = scan_loop(constant(np.int64(3)), [X, Y], [xs, ys], body, 4)
    pruned = _only(_pruned(node.outputs[0]), "scan")
    assert (pruned.attrs["carried"], pruned.attrs["scanned"]) == (1, 1)
    assert pruned.inputs[1:] == (X, xs)
    assert _types(pruned) == ["f64[3]"]
    stack = _only(_pruned(node.outputs[3]), "scan")
    assert (stack.attrs["carried"], stack.attrs["scanned"]) == (0, 1)
    assert stack.inputs[1:] == (ys,)


def test_graphs_within_graphs_are_pruned_and_what_they_needed_goes():
    start = constant(np.int64(0))
    types = [start.type, X.type, Y.type]
    condition, body = (Traced(name, types) for name in ("condition", "body"))
    condition.run(lambda i, _u, _v: [less(i, N)])

    def step(i: Tensor, u: Tensor, v: Tensor) -> list[Tensor]:
        inner = branch(i, [_traced(lambda: [sin(u), tanh(v)])])
        return [add(i, 1), inner.outputs[0], inner.outputs[1]]

    body.run(step)
    pruned = _only(_pruned(loop([start, X, Y], condition, body, 4).outputs[2]), "while")
    assert _types(pruned) == ["i64[]", "i64[]", "f64[3]"]
    bodies = [g for label, g in graphs_of(pruned) if label == "body"]
    assert len(_only(bodies[0], "switch").outputs) == 1


def test_what_updates_need_stays():
    state = State(np.zeros(3), name="w", trainable=True)
    w = variable_node(state, "w")
    node = _loop_of_three()
    graph = Graph([], [X, Y, N], [Update(w, node.outputs[2])])
    pruned = prune_loops(graph)
    verify(pruned)
    assert _types(_only(pruned, "while")) == ["i64[]", "i64[]", "f64[3]"]
    assert evaluate(pruned, VALUES)[1][0].tobytes() == evaluate(graph, VALUES)[1][0].tobytes()
