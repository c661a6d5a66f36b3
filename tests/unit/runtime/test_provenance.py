"""Ops are found in the calls that compute them, one by one, also where lines are shared."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import symgrad as sg
from symgrad.graph.node import Node
from symgrad.runtime.provenance import Provenance

F32 = np.float32


def provenance_of(step: sg.Step) -> Provenance:
    executable = step.executable
    return Provenance(executable.program.native_calls, executable.sources, step.graph)


def ops(step: sg.Step, name: str) -> Iterator[Node]:
    return (node for node in step.graph.nodes if node.op == name)


def test_layers_that_one_line_builds_have_calls_of_their_own():
    x = sg.placeholder((32, 32), name="x")
    weights = [sg.variable(np.eye(32, dtype=F32)) for _ in range(3)]
    hidden = x
    for w in weights:
        hidden = sg.tanh(hidden @ w)
    step = sg.compile([x], hidden)
    found = [provenance_of(step).calls_of(node) for node in ops(step, "einsum")]
    assert found == [(0,), (1,), (2,)]
    assert [provenance_of(step).calls_of(node) for node in ops(step, "tanh")] == found


def test_a_gradient_is_found_apart_from_what_it_is_of():
    x = sg.placeholder((16, 32), name="x")
    w = sg.variable(np.eye(32, dtype=F32))
    loss = sg.sum(sg.square(sg.tanh(x @ w)))
    step = sg.compile([x], loss, sg.optim.SGD(0.1).minimize(loss))
    forward, backward = ops(step, "einsum")
    assert backward.origin is forward
    first, second = provenance_of(step).calls_of(forward), provenance_of(step).calls_of(backward)
    assert len(first) == len(second) == 1
    assert first != second


def test_what_a_rewrite_replaces_is_found_in_what_came_of_it():
    x = sg.placeholder((8, 4, 3), name="x")
    y = sg.placeholder((8, 4, 5), name="y")
    # The permutation becomes part of a product that is built anew.
    step = sg.compile([x, y], sg.matmul(sg.permute_dims(x, (0, 2, 1)), y) + 1.0)
    (product,) = ops(step, "einsum")
    (call,) = provenance_of(step).calls_of(product)
    assert "einsum" in step.kernels[call].ops


def test_of_equal_ops_one_is_computed_for_both():
    x = sg.placeholder((64,), name="x")
    a, b = sg.exp(x), sg.exp(x)
    step = sg.compile([x], [a + 1, b * 2])
    first, second = ops(step, "exp")
    calls = provenance_of(step).calls_of(first)
    assert calls
    assert calls == provenance_of(step).calls_of(second)


def test_what_takes_no_time_has_no_calls():
    x = sg.placeholder((3,), name="x")
    step = sg.compile([x], x + sg.cos(sg.constant([1.0, 2.0, 3.0])))
    (folded,) = ops(step, "cos")
    assert provenance_of(step).calls_of(folded) == ()


def test_a_loop_has_the_calls_of_its_body():
    x, w = sg.placeholder((64, 64), name="x"), sg.placeholder((64, 64), name="w")
    step = sg.compile([x, w], sg.fori_loop(0, 3, lambda _i, v: sg.tanh(v @ w), x))
    (loop,) = (node for node in step.graph.nodes if node.attrs.get("body") is not None)
    inside = {i for i, record in enumerate(step.kernels) if "tanh" in record.ops}
    assert inside
    assert inside <= set(provenance_of(step).calls_of(loop))


def test_ops_are_found_where_sizes_are_known_late():
    x = sg.placeholder((None, 32), name="x")
    w = sg.variable(np.eye(32, dtype=F32))
    step = sg.compile([x], sg.tanh(x @ w))
    step(np.ones((8, 32), F32))
    assert provenance_of(step).calls_of(next(ops(step, "tanh"))) == (0,)
