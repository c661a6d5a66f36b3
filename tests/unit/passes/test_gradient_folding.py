"""Identities that a gradient does not build, and those that it must."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.passes.rewrites.rewrite import Rewrites
from symgrad.passes.rewrites.simplify import simplify
from tests.support.gradient_programs import ops_below


@pytest.fixture
def x() -> sg.Tensor:
    return sg.placeholder((3,), name="x")


def test_a_seed_of_one_is_not_multiplied(x):
    (g,) = sg.gradients(sg.sum(x * x), [x])
    assert [node.op for node in Graph(g, [x]).nodes] == ["placeholder", "add"]


def test_simplification_has_nothing_to_do(x):
    w = sg.placeholder((3,), name="w")
    grads = sg.gradients(sg.sum(x * w * 2 + sg.exp(x)), [x, w])
    rewrites = Rewrites()
    graph = Graph(grads, [x, w])
    assert simplify(graph, rewrites) is graph
    assert rewrites.count == 0


def test_a_number_of_the_user_stays(x):
    c = sg.constant(1.0)
    (dx,) = sg.gradients(sg.sum(c * x), [x])
    (mixed,) = sg.gradients(dx, [c])
    np.testing.assert_array_equal(sg.run(mixed, {x: np.zeros(3, np.float32)}), 3.0)


def test_a_seed_of_the_user_stays(x):
    seed = sg.constant(np.ones((), np.float32))
    (dx,) = sg.gradients(sg.sum(x * x), [x], grad_ys=[seed])
    (by_seed,) = sg.gradients(dx, [seed])
    np.testing.assert_array_equal(sg.run(by_seed, {x: np.array([1, 2, 3], np.float32)}), 12.0)


def test_a_value_is_not_taken_for_a_mask(x):
    chosen = sg.where(x > 1, x, 0)
    z = sg.placeholder((3,), name="z")
    (dz,) = sg.gradients(sg.sum(chosen * sg.log(z)), [z])
    given = {x: np.array([0, 2, 0], np.float32), z: np.array([0, 1, 1], np.float32)}
    np.testing.assert_array_equal(sg.run(dz, given), np.array([np.nan, 2, 0], np.float32))


def test_zeros_of_the_user_are_not_taken_for_no_gradient(x):
    zeros = sg.constant(np.zeros(3, np.float32))
    (dx,) = sg.gradients(sg.sum(zeros * sg.log(x)), [x])
    np.testing.assert_array_equal(
        sg.run(dx, {x: np.array([0, 1, 2], np.float32)}), np.array([np.nan, 0, 0], np.float32)
    )


def test_a_gradient_is_no_tensor_of_the_program(x):
    w = sg.placeholder((3,), name="w")
    (dx,) = sg.gradients(sg.sum(x * w), [x])
    loss = sg.sum(dx * dx + w)
    given = {x: np.ones(3, np.float32), w: np.array([4, 5, 6], np.float32)}
    (by_dx,) = sg.gradients(loss, [dx])
    np.testing.assert_array_equal(sg.run(by_dx, given), 2 * given[w])
    (by_w,) = sg.gradients(loss, [w])
    np.testing.assert_array_equal(sg.run(by_w, given), 2 * given[w] + 1)
    (stopped,) = sg.gradients(loss, [w], stop_gradients=[dx])
    np.testing.assert_array_equal(sg.run(stopped, given), np.ones(3))


def test_a_tangent_is_no_tensor_of_the_program(x):
    w, v = (sg.placeholder((3,), name=name) for name in "wv")
    (ones,) = sg.gradients(sg.sum(x), [x])
    (tangent,) = sg.jvp([x * w], [x], [ones])
    of_x, of_w = sg.hvp(sg.sum(x * w), [x, w], [v, v])
    given = {w: np.array([4, 5, 6], np.float32), v: np.ones(3, np.float32)}
    for found, other in ((tangent, w), (of_x, v), (of_w, v)):
        (by_found,) = sg.gradients(sg.sum(found * other), [found])
        np.testing.assert_array_equal(sg.run(by_found, given), given[other])


def test_a_product_with_another_gradient_is_built(x):
    with sg.gradient_override_map({"multiply": "negative"}):
        (dx,) = sg.gradients(sg.sum(sg.exp(x)), [x])
    assert "multiply" in ops_below(dx)


def test_what_is_around_a_branch_is_captured_in_it(x):
    w = sg.placeholder((3,), name="w")
    y = sg.sum(x * w)
    found: list[sg.Tensor] = []

    def branch() -> sg.Tensor:
        found.extend(sg.gradients(y, [x]))
        return found[0]

    result = sg.cond(sg.sum(x) > 0, branch, lambda: x)
    assert found[0].node.region is not None
    given = {x: np.ones(3, np.float32), w: np.array([1, 2, 3], np.float32)}
    np.testing.assert_array_equal(sg.run(result, given), given[w])


def test_unknown_sizes_that_meet_are_checked():
    a, b = sg.placeholder((None,), name="a"), sg.placeholder((None,), name="b")
    (da,) = sg.gradients(sg.sum(a * b), [a])
    np.testing.assert_array_equal(
        sg.run(da, {a: np.array([1, 2], np.float32), b: np.array([3, 4], np.float32)}),
        np.array([3, 4], np.float32),
    )


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, -0.0, 1e-45])
def test_special_numbers_are_what_they_were(special, x):
    w = sg.placeholder((3,), name="w")
    (dx,) = sg.gradients(sg.sum(x * w), [x])
    given = np.full(3, special, np.float32)
    found = np.asarray(sg.run(dx, {x: np.ones(3, np.float32), w: given}))
    assert found.tobytes() == given.tobytes()
