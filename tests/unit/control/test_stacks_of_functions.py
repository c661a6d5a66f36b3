"""What a function keeps for its gradient, and sums of stacks that have no bound."""

from __future__ import annotations

import numpy as np

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.nested import Traced
from symgrad.graph.node import Tensor
from symgrad.graph.ops.calls import with_intermediates
from symgrad.graph.ops.scan import scan_loop
from symgrad.graph.ops.stack_sums import add_stacks
from symgrad.graph.ops.while_loop import loop
from symgrad.graph.reference import evaluate
from symgrad.graph.types import UNBOUNDED, is_unbounded

X = sg.placeholder((3,), name="x")


def recorded() -> tuple[Tensor, Tensor, Tensor]:
    """Return count, last value and stack of a loop without a bound that doubles x."""
    start = [sg.constant(0, "int64"), X]
    types = [t.type for t in start]
    test, body = Traced("test", types), Traced("body", types)
    test.run(lambda i, _v: [i < 4])
    body.run(lambda i, v: [i + 1, v * 2.0, v])
    count, _, last, stack = loop(start, test, body, UNBOUNDED).outputs
    return count, last, stack


def test_a_result_is_not_kept_once_more():
    y = sg.tanh(X)
    z = sg.exp(y)
    kept = with_intermediates(Graph([z], [X]))
    assert [t.node.op for t in kept.outputs] == ["exp", "tanh"]


def test_a_stack_without_a_bound_is_not_kept():
    count, last, stack = recorded()
    assert is_unbounded(stack.type)
    kept = set(with_intermediates(Graph([last * 1.0], [X])).outputs)
    assert count in kept
    assert last in kept
    assert stack not in kept


def test_stacks_of_a_scan_without_a_bound_are_added_slice_by_slice():
    count, _, stack = recorded()
    body = Traced("body", [stack.type.with_shape((3,))])
    body.run(lambda v: [v + 1.0])
    (more,) = scan_loop(count, (), [stack], body, UNBOUNDED).outputs
    total = add_stacks(more, [more, stack])
    assert total.node.inputs[0] is count
    adding = Traced("adding", [X.type, total.type.with_shape((3,))])
    adding.run(lambda a, v: [a + v])
    found = scan_loop(count, [sg.zeros_like(X)], [total], adding, UNBOUNDED).outputs[0]
    x = np.array([1.0, 2.0, 3.0], np.float32)
    np.testing.assert_array_equal(evaluate(Graph([found], [X]), [x])[0][0], 30 * x + 4)
    np.testing.assert_array_equal(sg.compile([X], found)(x), 30 * x + 4)
