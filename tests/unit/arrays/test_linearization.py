"""`vjp`, `linearize` and `jvp` of functions: values, nests, what is kept, and what is not."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.frontend.nests import flatten
from symgrad.graph.node import Tensor
from symgrad.passes.gradients.partial_evaluation import cut_out_linear
from tests.support.control_programs import gradient

A = np.array([[0.5, -1.5, 2.0], [1.0, 0.25, -0.5]])
W = np.array([0.3, -0.7, 1.1])
TWO = np.array([0.4, -2.0])
SLOPES = 1 - np.tanh(A @ W) ** 2


def _layer(a: Any, w: Any) -> Any:
    return {"y": sg.tanh(a @ w), "rest": (sg.sum(a) * w, 3, None)}


def test_a_pull_is_given_the_nest_of_results_and_gives_that_of_arguments():
    ys, pull = sg.vjp(_layer, A, W)
    np.testing.assert_allclose(ys["y"], np.tanh(A @ W))
    assert ys["rest"][1] == 3
    assert ys["rest"][2] is None
    dys = {"y": TWO, "rest": (W, None, None)}
    da, dw = pull(dys)
    np.testing.assert_allclose(da, np.outer(TWO * SLOPES, W) + W @ W, rtol=1e-12)
    np.testing.assert_allclose(dw, A.T @ (TWO * SLOPES) + A.sum() * W, rtol=1e-12)
    nothing = pull({"y": None, "rest": (None, None, None)})
    assert [g.shape for g in nothing] == [A.shape, W.shape]
    assert not any(g.any() for g in nothing)


def test_a_push_is_given_the_nest_of_arguments_and_gives_that_of_results():
    ys, push = sg.linearize(lambda p: _layer(p["a"], p["w"]), {"a": A, "w": W})
    np.testing.assert_allclose(ys["y"], np.tanh(A @ W))
    pushed = push({"a": A * A, "w": None})
    np.testing.assert_allclose(pushed["y"], SLOPES * ((A * A) @ W), rtol=1e-12)
    np.testing.assert_allclose(pushed["rest"][0], (A * A).sum() * W)
    assert pushed["rest"][1] == 0
    both, same = sg.jvp(
        lambda p: _layer(p["a"], p["w"]), ({"a": A, "w": W},), [{"a": A * A, "w": None}]
    )
    np.testing.assert_array_equal(both["y"], ys["y"])
    np.testing.assert_allclose(same["y"], pushed["y"], rtol=1e-14)


def test_the_pull_is_the_transpose_of_the_push():
    def program(x: Tensor) -> Any:
        carry, ys = sg.scan(lambda c, t: (sg.tanh(c * t), c + t), x[0], x)
        return sg.cond(carry > 0.0, lambda: sg.exp(ys), lambda: ys * ys), carry

    _, pull = sg.vjp(program, W)
    _, push = sg.linearize(program, W)
    dx, dys = W[::-1], (np.array([1.0, -2.0, 0.5]), 0.25)
    pushed = push(dx)
    (pulled,) = pull(dys)
    inner = dys[0] @ pushed[0] + dys[1] * pushed[1]
    np.testing.assert_allclose(pulled @ dx, inner, rtol=1e-12)


def test_integers_are_arguments_without_gradients():
    ys, pull = sg.vjp(lambda x, i: (x[i], i), W, np.array([2, 0, 2]))
    np.testing.assert_array_equal(ys[0], W[[2, 0, 2]])
    dx, di = pull((np.ones(3), np.ones(3)))
    np.testing.assert_array_equal(dx, [1, 0, 2])
    np.testing.assert_array_equal(di, [0, 0, 0])
    assert di.dtype == np.int64
    _, push = sg.linearize(lambda x, i: x[i] * 2.0, W, np.array([2, 0]))
    np.testing.assert_array_equal(push(np.arange(3.0), None), [4, 0])


def test_numbers_are_arrays_of_the_dtype_that_is_needed():
    value, pull = sg.vjp(lambda x: x * x, 3.0)
    assert value.dtype == np.float32
    assert [float(g) for g in pull(2.0)] == [12]
    assert [float(g) for g in pull(1)] == [6]
    np.testing.assert_array_equal(sg.vjp(lambda x: x * 2.0, W)[1]([1, 2, 3])[0], [2, 4, 6])
    value, slope = sg.jvp(sg.sin, (0.0,), (1.0,))
    assert (float(value), float(slope)) == (0, 1)


def test_what_was_evaluated_stays_as_it_was():
    w, x = sg.variable(2.0, "float64"), W.copy()
    _, pull = sg.vjp(lambda x: x * x * w, x)
    _, push = sg.linearize(lambda x: x * x * w, x)
    w.value, x[:] = 5.0, 0.0
    np.testing.assert_allclose(pull(np.ones(3))[0], 4 * W)
    np.testing.assert_allclose(push(np.ones(3)), 4 * W)


def test_the_function_is_traced_once_and_not_by_the_pull():
    calls: list[Any] = []

    def cube(x):
        calls.append(x)
        return x * x * x

    for x in (W, W + 1, W * 2):
        _, pull = sg.vjp(cube, x)
        for seed in (np.ones(3), W):
            np.testing.assert_allclose(pull(seed)[0], 3 * x * x * seed)
    assert len(calls) == 1


def test_arrays_that_a_pull_keeps_go_with_it():
    _, pull = sg.vjp(lambda x: sg.sin(x), W)
    sg.vmap(pull)(np.eye(3))
    gone = [weakref.ref(a) for a in flatten(pull)[0]]
    assert gone
    del pull
    gc.collect()
    assert all(ref() is None for ref in gone)


def test_many_seeds_at_once():
    _, pull = sg.vjp(lambda x: sg.sin(x) * x[0], W)
    _, push = sg.linearize(lambda x: sg.sin(x) * x[0], W)
    jacobian = sg.jac(lambda x: sg.sin(x) * x[0])(W)
    np.testing.assert_allclose(sg.vmap(pull)(np.eye(3))[0], jacobian, rtol=1e-12)
    columns = sg.vmap(push, out_axes=1)(np.eye(3))
    np.testing.assert_allclose(columns, jacobian, rtol=1e-12, atol=1e-15)


# ------------------------------------------------------------------------------------------- graphs


def test_of_tensors_both_are_graph_and_are_differentiated_in_turn():
    x, v = sg.placeholder((3,), "float64"), sg.placeholder((3,), "float64")

    def cube(x: Tensor) -> Tensor:
        return x * x * x

    y, pull = sg.vjp(cube, x)
    _, push = sg.linearize(cube, x)
    (dx,) = pull(v)
    outputs = [y, dx, push(v), *sg.gradients(dx, [x, v]), *sg.gradients(push(v), [x, v])]
    found = sg.compile([x, v], outputs)(W, W[::-1].copy())
    seed = W[::-1]
    expected = [W**3, *[3 * W * W * seed] * 2, *[6 * W * seed, 3 * W * W] * 2]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_arguments_are_independent_even_if_they_are_one_tensor():
    x = sg.placeholder((3,), "float64")
    _, pull = sg.vjp(lambda a, b: a * b * b, x, x)
    np.testing.assert_allclose(sg.run(list(pull(x)), {x: W}), [W**3, 2 * W**3])


def test_arrays_become_graph_where_a_placeholder_is_used_or_within_a_region():
    scale = sg.placeholder((), "float64")
    y, pull = sg.vjp(lambda x: x * scale, W)
    assert isinstance(y, Tensor)
    np.testing.assert_allclose(sg.run(pull(W)[0], {scale: 2.0}), 2 * W)
    x = sg.placeholder((3,), "float64")
    step = lambda _, v: sg.vjp(lambda a: a * a, v)[1](v)[0]  # noqa: E731
    np.testing.assert_allclose(sg.run(sg.fori_loop(0, 2, step, x), {x: W}), 8 * W**4)


def test_a_pull_is_called_in_a_branch_for_what_was_built_before():
    x = sg.placeholder((3,), "float64")
    _, pull = sg.vjp(lambda a: sg.sin(a), x)
    y = sg.cond(sg.sum(x) > 0.0, lambda: pull(x)[0], lambda: x)
    np.testing.assert_allclose(sg.run(y, {x: W}), W * np.cos(W))


# ---------------------------------------------------------------------------------------- residuals


def test_only_what_is_not_linear_is_kept():
    x, u = sg.placeholder((3,), "float64"), sg.placeholder((3,), "float64")
    g = gradient(sg.sin(x) * 2.0, x, grad_ys=u)
    residuals, linear = cut_out_linear([g], [u])
    assert [t.node.op for t in residuals] == ["cos"]
    assert {n.op for n in linear.nodes} <= {"placeholder", "constant", "broadcast_to", "multiply"}


def test_broadcasts_are_made_again_and_not_kept():
    x, u = sg.placeholder((), "float64"), sg.placeholder((1000,), "float64")
    y = x * np.ones(1000)
    g = gradient(y * y, x, grad_ys=u)
    residuals, _ = cut_out_linear([g], [u])
    assert sum(t.type.count for t in residuals) <= 1001


@pytest.mark.parametrize("bound", [None, 20])
def test_a_loop_is_pulled_back_through(bound):
    def program(x: Tensor) -> Any:
        step = lambda v: [v * v + 1.0]  # noqa: E731
        return sg.while_loop(lambda v: sg.sum(v) < 50.0, step, [x], maximum_iterations=bound)[0]

    y, pull = sg.vjp(program, W)
    expected = sg.grad(lambda x: sg.sum(program(x) * np.arange(3.0)))(W)
    np.testing.assert_allclose(pull(np.arange(3.0))[0], expected, rtol=1e-12)
    assert y.sum() >= 50
