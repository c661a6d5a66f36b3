"""Stacks that a loop fills: no zeros before it, and memory of their own while it runs."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.program.print import print_program
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from tests.support.floors import compile_for, run_native, run_reference

TRIPS, ROWS = 6, 24


def _loop(reverse: bool) -> Graph:
    """Return a loop whose body has temporaries that are dead before its slice is written."""
    x, w = sg.placeholder((TRIPS, ROWS, ROWS)), sg.placeholder((ROWS, ROWS))

    def body(h: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        h = sg.tanh(sg.sin(h @ w + row) @ w) @ w
        return h, sg.exp(h @ w)

    last, ys = sg.scan(body, sg.zeros((ROWS, ROWS)), x, reverse=reverse)
    # Nothing of the stack itself is a result: it is a temporary.
    return Graph([last, sg.sum(sg.sort(ys, axis=0) * ys, axis=0)], [x, w])


@pytest.mark.parametrize("reverse", [False, True])
def test_a_stack_that_is_filled_is_not_cleared_and_stays_while_its_loop_runs(reverse):
    graph = _loop(reverse)
    made = compile_for(graph)
    assert "empty stack" not in print_program(made.program)
    lives = made.program.lifetimes
    (stack, *_) = (b for b in lives if b.type.shape == (TRIPS, ROWS, ROWS))
    first, last = lives[stack]
    # What an iteration computes on its way comes to be, and ends, while the stack is alive.
    assert sum(first < begin < end < last for begin, end in lives.values()) >= 2
    random = np.random.default_rng(0)
    sizes = (t.type.static_shape for t in graph.inputs)
    arrays = [random.normal(size=size).astype(np.float32) / 8 for size in sizes]
    found, wanted = run_native(made, arrays), run_reference(graph, arrays)
    for a, b in zip(found.outputs, wanted.outputs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_a_stack_of_which_slices_may_stay_unwritten_is_cleared():
    x, steps = sg.placeholder((8,)), sg.placeholder((), "int64")
    _, y = sg.while_loop(
        lambda i, _: i < steps, lambda i, v: (i + 1, sg.sin(v) * v), (0, x), maximum_iterations=9
    )
    (dx,) = sg.gradients(y, [x])
    assert dx is not None
    assert "empty stack" in print_program(compile_for(Graph([dx], [x, steps])).program)
