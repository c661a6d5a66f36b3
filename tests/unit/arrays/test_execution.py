"""`execute_with_gradients`: which results are differentiated, by what, and how it is returned."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

Box = sg.Container
X = np.array([1.0, 2.0, 3.0])


def _product(xs):
    return sg.sum(xs[0] * xs[1])


def test_of_a_list_the_first_entry_is_differentiated_by():
    y, grads = sg.execute_with_gradients(_product, [X, X + 1])
    assert float(y) == np.sum(X * (X + 1))
    assert isinstance(grads, list)
    assert len(grads) == 1
    np.testing.assert_array_equal(grads[0], X + 1)


def test_all_of_a_list_if_no_paths_are_given():
    _, grads = sg.execute_with_gradients(_product, [X, X + 1], xs_grad_idxs=None)
    np.testing.assert_array_equal(grads, [X + 1, X])


@pytest.mark.parametrize("kind", [dict, Box])
def test_of_a_dict_all_is_differentiated_by(kind):
    xs = kind(a=X, b=kind(c=X * 2))
    _, grads = sg.execute_with_gradients(lambda p: sg.sum(p["a"] * p["b"]["c"]), xs)
    assert type(grads) is kind
    np.testing.assert_array_equal(grads["a"], X * 2)
    np.testing.assert_array_equal(grads["b"]["c"], X)


@pytest.mark.parametrize(
    ("paths", "wanted"),
    [
        (((1, "w"),), [{"w": X}]),
        (((1,),), [{"b": X * 0, "w": X}]),
        ([[0], [1, "b"]], [X * 4, {"b": X * 0}]),
    ],
)
def test_paths_lead_to_entries_and_to_nests(paths, wanted):
    xs = [X, {"w": X * 4, "b": X}]
    _, grads = sg.execute_with_gradients(lambda p: sg.sum(p[0] * p[1]["w"]), xs, xs_grad_idxs=paths)
    assert str(grads) == str(wanted)


def test_further_results_are_passed_through():
    (y, doubled, index), grads = sg.execute_with_gradients(
        lambda x: (sg.sum(x * x), x * 2.0, sg.argmax(x)), X
    )
    assert (float(y), int(index)) == (14, 2)
    np.testing.assert_array_equal(doubled, X * 2)
    np.testing.assert_array_equal(grads, X * 2)


def test_gradients_of_several_results_are_a_dict_by_their_numbers():
    def three(x):
        return sg.sum(x), x, [sg.sum(x * x)]

    _, grads = sg.execute_with_gradients(three, X, ret_grad_idxs=((0,), (2,)))
    np.testing.assert_array_equal(grads[0], np.ones(3))
    np.testing.assert_array_equal(grads[2][0], X * 2)
    assert grads.keys() == {0, 2}
    _, grads = sg.execute_with_gradients(three, X, ret_grad_idxs=None)
    assert grads.keys() == {0, 1, 2}
    _, grads = sg.execute_with_gradients(three, X, ret_grad_idxs=((2, 0),))
    np.testing.assert_array_equal(grads, X * 2)


def test_a_result_of_several_elements_counts_as_their_sum():
    y, grads = sg.execute_with_gradients(lambda x: x * x, X)
    np.testing.assert_array_equal(y, X * X)
    np.testing.assert_array_equal(grads, X * 2)


def test_integers_become_float32_where_they_are_differentiated_by():
    seen: list[str] = []

    def picked(xs):
        seen.extend(x.dtype.name for x in xs)
        return sg.sum(sg.take(xs[0], xs[1]))

    _, grads = sg.execute_with_gradients(picked, (np.arange(3), np.array([2, 2])))
    assert seen == ["float32", "int64"]
    assert grads[0].dtype == np.float32
    np.testing.assert_array_equal(grads[0], [0, 0, 2])


def test_numbers_are_differentiated_by_too():
    y, g = sg.execute_with_gradients(lambda x: x * x, 3.0)
    assert (float(y), float(g)) == (9, 6)
    _, grads = sg.execute_with_gradients(_product, [2.0, 5])
    assert float(grads[0]) == 5


def test_with_tensors_gradients_flow_only_if_they_are_retained():
    x = sg.placeholder((3,), "float64")
    y, g = sg.execute_with_gradients(lambda x: sg.sum(x**3), x)
    assert sg.gradients([y, g], x) == [None]
    y, g = sg.execute_with_gradients(lambda x: sg.sum(x**3), x, retain_grads=True)
    (second,) = sg.gradients(g, x)
    np.testing.assert_allclose(sg.run([g, second], {x: X}), [3 * X**2, 6 * X])


def test_variables_are_trained_by_updates():
    weights = sg.variable(Box(w=X, b=0.0))
    loss, grads = sg.execute_with_gradients(lambda p: sg.sum((p.w + p.b) ** 2), weights)
    updates = sg.gradient_descent_update(weights, grads, 0.1, inplace=True)
    step = sg.compile([], loss, list(updates.values()))
    losses = [float(step()) for _ in range(20)]
    assert losses[0] == 14
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 1e-2


def test_a_function_is_traced_once_for_a_signature():
    calls = []

    def square(x):
        calls.append(x)
        return sg.sum(x * x)

    for x in (X, X + 1):
        sg.execute_with_gradients(square, x)
    assert len(calls) == 1
    sg.execute_with_gradients(square, x, retain_grads=True)
    sg.execute_with_gradients(square, X.astype(np.float16))
    assert len(calls) == 3
