"""Equal nodes are differentiated once, and what a user can tell apart stays apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph import gradient_registry
from symgrad.graph.build import rebuild
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node, Tensor
from symgrad.graph.traverse import topological
from symgrad.passes.pipeline import optimize
from symgrad.passes.rewrites.value_numbering import find_twins
from tests.support.control_programs import check_derivatives, gradient, run, value

POINT = np.array([0.9, -0.8, 1.1])


@pytest.fixture
def x() -> Tensor:
    return sg.placeholder((3,), "float64", name="x")


def determinant(rows: Sequence[Sequence[Tensor]]) -> Tensor:
    """Return the determinant by cofactors, every minor written down wherever it is used."""
    if len(rows) == 1:
        return rows[0][0]
    minors = [
        determinant([[*row[:k], *row[k + 1 :]] for row in rows[1:]]) for k in range(len(rows))
    ]
    total = rows[0][0] * minors[0]
    for k in range(1, len(rows)):
        total = total + rows[0][k] * minors[k] * (-1.0) ** k
    return total


def flops(step: sg.Step) -> int:
    return sum(kernel.flops for kernel in step.kernels)


@pytest.mark.parametrize("n", [4, pytest.param(6, marks=pytest.mark.slow)])
def test_a_gradient_costs_a_small_multiple_of_the_merged_graph(n):
    entries = [[sg.placeholder((), "float64") for _ in range(n)] for _ in range(n)]
    flat = [x for row in entries for x in row]
    y = determinant(entries)
    grads = [g for g in sg.gradients(y, flat) if g is not None]
    assert len(grads) == n * n
    forward, backward = sg.compile(flat, y), sg.compile(flat, grads)
    assert flops(backward) <= 4 * flops(forward)
    point = np.random.default_rng(n).normal(size=(n, n))
    found = np.reshape(backward(*point.reshape(-1)), (n, n))
    np.testing.assert_allclose(found, np.linalg.det(point) * np.linalg.inv(point).T, rtol=1e-9)
    # What `gradients` builds is small too: what is merged later takes time until then.
    walked = set(topological(grads)) - set(topological([y]))
    merged = len(topological([y])) - len(find_twins(topological([y]), []))
    assert len(walked) <= 5 * merged


@pytest.mark.parametrize("count", [9, pytest.param(12, marks=pytest.mark.slow)])
def test_a_chain_of_squares_written_out_is_differentiated_in_linear_time(x, count):
    y = x
    for _ in range(count):  # as many nodes as 2 ** count, merged `count`
        y = _copy(y) * _copy(y) * 0.9
    g = gradient(y, x)
    assert len(set(topological([g])) - set(topological([y]))) < 200
    wanted = 2.0**count * 0.9 ** (2**count - 1)
    np.testing.assert_allclose(value(g, {x: np.ones(3)}), wanted, rtol=1e-9)


def _copy(y: Tensor) -> Tensor:
    """Return `y` built once more, with all that it is computed from."""
    made: dict[Tensor, Tensor] = {}
    for node in topological([y]):
        inputs = tuple(made.get(t, t) for t in node.inputs)
        copy = node if not inputs else rebuild(node, inputs)
        made.update(zip(node.outputs, copy.outputs, strict=True))
    return made[y]


def test_an_x_with_a_twin_has_its_own_gradient_only(x):
    a, b = sg.exp(x), sg.exp(x)
    y = (a * sg.sin(b)).sum()
    of_a, of_b, of_x = sg.gradients(y, [a, b, x])
    assert of_a is not None
    assert of_b is not None
    assert of_x is not None
    e = np.exp(POINT)
    found = run([of_a, of_b, of_x, gradient(y, a), gradient(y, b)], {x: POINT})
    np.testing.assert_allclose(found[0], np.sin(e))
    np.testing.assert_allclose(found[1], e * np.cos(e))
    np.testing.assert_allclose(found[2], e * (np.sin(e) + e * np.cos(e)))
    np.testing.assert_allclose(found[3], np.sin(e))
    np.testing.assert_allclose(found[4], e * np.cos(e))


def test_a_stop_stops_one_of_two_equal_tensors(x):
    a, b = sg.exp(x), sg.exp(x)
    g = gradient((sg.sin(a) * sg.sin(b)).sum(), x, stop_gradients=[b])
    e = np.exp(POINT)
    np.testing.assert_allclose(value(g, {x: POINT}), e * np.cos(e) * np.sin(e))


def test_ys_that_are_equal_have_each_its_seed(x):
    a, b = sg.exp(x), sg.exp(x)
    (g,) = sg.gradients([a, b], x, grad_ys=[x, 2.0 * x])
    of_b = gradient([a, b], b)
    assert g is not None
    np.testing.assert_allclose(value(g, {x: POINT}), 3 * POINT * np.exp(POINT))
    np.testing.assert_array_equal(value(of_b, {x: POINT}), np.ones(3))


def test_consumers_of_equal_tensors_that_are_told_apart_are_not_equal(x):
    a, b = sg.exp(x), sg.exp(x)
    g = gradient((sg.sin(a) + 2.0 * sg.sin(b)).sum(), b)
    np.testing.assert_allclose(value(g, {x: POINT}), 2 * np.cos(np.exp(POINT)))


def test_constants_and_variables_are_told_apart(x):
    v, w = sg.variable(POINT, name="v"), sg.variable(POINT, name="w")
    c, d = sg.constant(POINT), sg.constant(POINT)
    y = (v * w * c * d * x).sum()
    grads = [gradient(y, t) for t in (v, w, c, d)]
    for found in run(grads, {x: POINT}):
        np.testing.assert_allclose(found, POINT**4)


def test_a_gradient_that_a_user_registered_is_called_for_every_node(x, monkeypatch):
    monkeypatch.setattr(gradient_registry, "_RULES", {})
    seen: list[Node] = []

    @sg.register_gradient("seen")
    def record(node: Node, g: Tensor) -> Tensor:
        seen.append(node)
        return g * 2.0

    with sg.gradient_override_map({"tanh": "seen"}):
        a, b = sg.tanh(x), sg.tanh(x)
    c = sg.tanh(x)
    g = gradient(a * b * c, x)
    assert seen == [b.node, a.node]
    t = np.tanh(POINT)
    np.testing.assert_allclose(value(g, {x: POINT}), t**2 * (4 + 1 - t**2))


def test_a_custom_gradient_is_called_for_every_call(x):
    calls = []

    @sg.custom_gradient
    def f(a):
        def of_a(dy):
            calls.append(dy)
            return dy * 3.0

        return sg.sin(a), of_a

    g = gradient(f(x) + f(x), x)
    assert len(calls) == 2
    np.testing.assert_allclose(value(g, {x: POINT}), np.full(3, 6.0))


def test_gradients_keep_the_line_of_the_first_of_equal_nodes(x):
    first = sg.tanh(x)
    second = sg.tanh(x)
    g = gradient((first * second).sum(), x)
    origins = {n.origin for n in topological([g]) if n.origin is not None}
    assert first.node in origins
    assert second.node not in origins


@pytest.mark.parametrize("region", ["while_loop", "fori_loop", "cond", "function"])
def test_equal_nodes_inside_of_regions_and_of_operands_of_loops(x, region):
    a, b = sg.exp(x), sg.exp(x)

    def step(v: Tensor) -> Tensor:
        return sg.sin(v * a) * sg.sin(v * a) + sg.sin(v * b)

    y = {
        "while_loop": lambda: sg.while_loop(
            lambda i, _v: i < 2, lambda i, v: (i + 1, step(v)), (0, x)
        )[1],
        "fori_loop": lambda: sg.fori_loop(0, 2, lambda _i, v: step(v), x),
        "cond": lambda: sg.cond(x.sum() > 0.0, lambda: step(x), lambda: x),
        "function": lambda: sg.function(step)(x),
    }[region]()
    check_derivatives(y, x, {x: POINT})


def test_nodes_of_a_tensor_in_distinct_have_no_twins(x):
    a, b, c = sg.exp(x), sg.exp(x), sg.exp(x)
    order = topological([a, b, c, sg.sin(c), sg.sin(a)])
    assert find_twins(order, []) == {b: a, c: a, order[-1].output: order[-2].output}
    assert find_twins(order, [a]).get(c) is b
    assert find_twins(order, [a, b, c]) == {}


M, N = (sg.placeholder((3,), "int32", name=name) for name in "ij")
A, B = (sg.placeholder((3,), "float32", name=name) for name in "ab")
P, Q = (sg.placeholder((3,), "bool", name=name) for name in "pq")


@pytest.mark.parametrize(
    ("op", "x", "y", "is_one"),
    [
        (sg.add, A, B, True),
        (sg.multiply, M, N, True),
        (sg.equal, A, B, True),
        (sg.logical_xor, P, Q, True),
        (sg.bitwise_and, M, N, True),
        (sg.bitwise_or, M, N, True),
        (sg.bitwise_xor, M, N, True),
        (sg.maximum, M, N, True),
        (sg.minimum, M, N, True),
        (sg.maximum, A, B, False),  # of 0 and -0 the order may decide
        (sg.minimum, A, B, False),
        (sg.subtract, M, N, False),
        (sg.less, A, B, False),
        (sg.bitwise_left_shift, M, N, False),
        (sg.pow, A, B, False),
    ],
)
def test_operands_of_one_value_may_be_exchanged_where_no_bit_depends_on_it(op, x, y, is_one):
    first, second = op(x, y), op(y, x)
    found = optimize(Graph([first, second], [x, y])).outputs
    assert (found[0] is found[1]) == is_one
    assert (find_twins(topological([first, second]), []) == {second: first}) == is_one
