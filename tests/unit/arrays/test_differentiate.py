"""`grad`, `value_and_grad` and `jac`: their nests, their values, and that they are traced once."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import symgrad as sg
from symgrad.frontend.nests import flatten, unflatten
from symgrad.testing import check_gradients

Box = sg.Container
X = np.array([0.5, -1.5, 2.0])


def _loss(w: Any, x: Any, power: int = 2) -> sg.Tensor:
    return sg.sum(sg.tanh(w * x) ** power)


def test_grad_is_that_of_gradients():
    w = sg.placeholder((3,), "float64")
    wanted = sg.run(sg.gradients(_loss(w, X), w)[0], {w: X})
    np.testing.assert_allclose(sg.grad(_loss)(X, X), wanted, rtol=1e-12)
    value, found = sg.value_and_grad(_loss)(X, X)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    np.testing.assert_allclose(value, np.sum(np.tanh(X * X) ** 2), rtol=1e-12)


def test_a_derivative_of_a_function_is_of_it_and_not_the_function_itself():
    loss = sg.function(_loss)
    wanted = sg.grad(_loss)(X, X)
    np.testing.assert_allclose(sg.grad(loss)(X, X), wanted)
    np.testing.assert_allclose(sg.value_and_grad(loss)(X, X)[1], wanted)
    np.testing.assert_allclose(sg.function(sg.grad(loss))(X, X), wanted)
    np.testing.assert_allclose(sg.jac(sg.grad(loss))(X, X), sg.hessian(loss)(X, X))


@pytest.mark.parametrize("argnums", [0, 1, -1, (0,), (1, 0), [0, 1]])
def test_argnums_choose_the_arguments(argnums):
    def product(a, b):
        return sg.sum(a * b * b)

    a, b = X, X + 1
    by = [b * b, 2 * a * b]
    found = sg.grad(product, argnums)(a, b)
    if isinstance(argnums, int):
        np.testing.assert_allclose(found, by[argnums])
    else:
        assert isinstance(found, tuple)
        np.testing.assert_allclose(found, [by[n] for n in argnums])


def test_arguments_are_independent_even_if_they_are_one_tensor():
    x = sg.placeholder((3,), "float64")
    found = sg.grad(lambda a, b: sg.sum(a * b * b))(x, x * 2.0)
    np.testing.assert_allclose(sg.run(found, {x: X}), 4 * X * X)


def test_keywords_and_other_arguments_are_handed_on():
    found = sg.grad(_loss)(X, X, power=1)
    np.testing.assert_allclose(found, X / np.cosh(X * X) ** 2, rtol=1e-10)
    picked = sg.grad(lambda x, index, name: sg.sum(x[index]) * (2.0 if name == "two" else 1.0))
    np.testing.assert_array_equal(picked(X, np.array([0, 0]), "two"), [4, 0, 0])


def test_a_gradient_has_the_nest_of_its_argument():
    params = Box(w=np.eye(2), layers=[{"b": X}, (X, X)], unused=np.ones((2, 0)))

    def loss(p, x):
        return sg.sum(p.w @ x) + sg.sum(p.layers[0]["b"] * p.layers[1][0])

    value, found = sg.value_and_grad(loss)(params, np.array([1.0, 2.0]))
    assert float(value) == 3 + np.sum(X * X)
    assert isinstance(found, Box)
    np.testing.assert_array_equal(found.w, [[1, 2], [1, 2]])
    np.testing.assert_array_equal(found.layers[0]["b"], X)
    np.testing.assert_array_equal(found.layers[1], [X, np.zeros(3)])
    assert found.unused.shape == (2, 0)


def test_derivatives_of_derivatives():
    cube = operator.methodcaller("__pow__", 3)
    assert float(sg.grad(sg.grad(cube))(2.0)) == 12
    assert float(sg.grad(sg.grad(sg.grad(cube)))(2.0)) == 6
    hessian = sg.jac(sg.grad(lambda x: sg.sum(x**3)))(X)
    np.testing.assert_allclose(hessian, np.diag(6 * X))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dtypes_are_kept(dtype):
    value, found = sg.value_and_grad(lambda x: sg.sum(x * x))(np.array([1, 2], dtype))
    assert value.dtype == found.dtype == dtype
    np.testing.assert_array_equal(found, [2, 4])


def test_numbers_to_differentiate_by_are_float32_and_not_compiled_in():
    calls = []

    def square(x):
        calls.append(x)
        return x * x

    derivative = sg.grad(square)
    found = [derivative(x) for x in (1.0, 2.5, np.float32(4))]
    assert [float(g) for g in found] == [2, 5, 8]
    assert {g.dtype.name for g in found} == {"float32"}
    assert len(calls) == 1
    assert derivative(np.float64(3)).dtype == np.float64


def test_a_one_in_brackets_is_a_scalar_too():
    np.testing.assert_array_equal(sg.grad(lambda x: sg.sum(x, keepdims=True))(X), np.ones(3))


def test_arrays_without_elements():
    empty = np.zeros((0, 3))
    assert sg.grad(lambda x: sg.sum(x * x))(empty).shape == (0, 3)
    assert sg.jac(lambda x: x * 2.0)(empty).shape == (0, 3, 0, 3)
    assert sg.jac(lambda x: sg.sum(x, axis=0))(empty).shape == (3, 0, 3)


def test_a_variable_used_inside_is_read_at_each_call():
    w = sg.variable(X)
    derivative = sg.grad(lambda x: sg.sum(x * w))
    np.testing.assert_array_equal(derivative(X), X)
    w.value = X * 2
    np.testing.assert_array_equal(derivative(X), X * 2)


def test_within_a_branch_and_a_loop_a_derivative_is_graph():
    x = sg.placeholder((3,), "float64")
    slope = sg.grad(lambda v: sg.sum(v * v))
    looped = sg.fori_loop(0, 3, lambda _i, v: v - 0.25 * slope(v), x)
    np.testing.assert_allclose(sg.run(looped, {x: X}), X / 8)
    chosen = sg.cond(sg.sum(x) > 0.0, lambda: slope(x), lambda: x)
    np.testing.assert_allclose(sg.run(chosen, {x: X}), 2 * X)
    (through,) = sg.gradients(sg.sum(looped * looped), x)
    np.testing.assert_allclose(sg.run(through, {x: X}), 2 * X / 64)


# ---------------------------------------------------------------------------------------------- jac


def test_a_jacobian_has_the_shape_of_the_result_and_of_the_argument():
    matrix = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(sg.jac(lambda x: matrix @ x)(X), matrix)
    assert sg.jac(lambda x: sg.square(x)[None])(np.ones((2, 3))).shape == (1, 2, 3, 2, 3)
    by_second = sg.jac(lambda a, b: a * b, argnums=1)(X, X)
    np.testing.assert_array_equal(by_second, np.diag(X))


def test_a_jacobian_of_nests_has_the_results_outside():
    found = sg.jac(lambda p: {"y": p[0] * 2.0, "z": sg.sum(p[1])})([X, X[:2]])
    np.testing.assert_array_equal(found["y"][0], 2 * np.eye(3))
    np.testing.assert_array_equal(found["y"][1], np.zeros((3, 2)))
    np.testing.assert_array_equal(found["z"][0], np.zeros(3))
    np.testing.assert_array_equal(found["z"][1], np.ones(2))


_SHAPES = st.lists(st.integers(0, 3), max_size=2).map(tuple)


@settings(max_examples=15)
@given(_SHAPES, _SHAPES)
def test_shapes_of_jacobians(inner, outer):
    weights = np.ones((*outer, *inner))
    axes = tuple(range(len(outer), len(outer) + len(inner)))
    found = sg.jac(lambda x: sg.sum(x * weights, axis=axes))(np.ones(inner))
    np.testing.assert_array_equal(found, weights)


# ----------------------------------------------------------------------------------- against others

_ARRAYS = st.lists(st.floats(-2, 2, width=16), min_size=1, max_size=3).map(np.array)
_TREES = st.recursive(
    _ARRAYS,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(st.sampled_from("abc"), inner, min_size=1)
        | st.dictionaries(st.sampled_from("abc"), inner, min_size=1).map(Box)
    ),
    max_leaves=4,
)


@pytest.mark.parametrize("count", [4, pytest.param(10, marks=pytest.mark.slow)])
def test_a_gradient_by_a_nest_is_right(count):
    @settings(max_examples=count)
    @given(_TREES)
    def check(tree):
        leaves, nest = flatten(tree)

        def loss(p: Any) -> sg.Tensor:
            parts = flatten(p)[0]
            ends = (sg.sum(sg.sin(part)) * (i + 1.0) for i, part in enumerate(parts))
            total = sg.zeros((), dtype="float64")
            for end in ends:
                total = total + end * end
            return total

        found, same = flatten(sg.grad(loss)(tree))
        assert same == nest
        check_gradients(lambda *arrays: loss(unflatten(nest, arrays)), leaves)
        terms = [(i + 1.0) * np.sum(np.sin(leaf)) for i, leaf in enumerate(leaves)]
        for i, (leaf, g) in enumerate(zip(leaves, found, strict=True)):
            np.testing.assert_allclose(
                g, 2 * terms[i] * (i + 1) * np.cos(leaf), rtol=1e-9, atol=1e-12
            )

    check()


# ------------------------------------------------------------------------------------------ caching


@pytest.mark.parametrize("make", [sg.grad, sg.value_and_grad, sg.jac])
def test_a_function_is_traced_once_for_a_signature(make):
    calls = []

    def square(x):
        calls.append(x)
        return sg.sum(x * x)

    derivative = make(square)
    for x in (X, X + 1, X * 2):
        derivative(x)
        make(square)(x)
    assert len(calls) == 1
    derivative(X.astype(np.float32))
    derivative(X[:2])
    assert len(calls) == 3


def test_methods_are_kept_too_and_what_has_no_hash_works():
    class Model:
        __hash__ = None  # type: ignore[assignment]

        def __init__(self, scale: float) -> None:
            self.scale = scale

        def __call__(self, x: Any) -> sg.Tensor:
            return sg.sum(x) * self.scale

    class Hashed:
        calls = 0

        def loss(self, x):
            self.calls += 1
            return sg.sum(x)

    np.testing.assert_array_equal(sg.grad(Model(2.0))(X), np.full(3, 2.0))
    model = Hashed()
    for _ in range(3):
        sg.grad(model.loss)(X)
    assert model.calls == 1
    linear = sg.grad(partial(_loss, power=1))(X, X)
    np.testing.assert_array_equal(linear, sg.grad(_loss)(X, X, power=1))


# --------------------------------------------------------------------------------- aux and Hessians


def _with_aux(w: Any, x: Any) -> Any:
    return sg.sum(w * w * x), {"count": 3, "w": w + 1.0, "none": None}


def test_aux_is_handed_on_beside_the_gradient():
    (value, aux), found = sg.value_and_grad(_with_aux, has_aux=True)(X, X)
    np.testing.assert_allclose(value, np.sum(X**3))
    np.testing.assert_allclose(found, 2 * X * X)
    np.testing.assert_array_equal(aux["w"], X + 1)
    assert (aux["count"], aux["none"]) == (3, None)
    (by_w, by_x), aux = sg.grad(_with_aux, argnums=(0, 1), has_aux=True)(X, X)
    np.testing.assert_allclose(by_w, 2 * X * X)
    np.testing.assert_allclose(by_x, X * X)
    np.testing.assert_array_equal(aux["w"], X + 1)


def test_aux_of_tensors_has_gradients_of_its_own():
    x = sg.placeholder((3,), "float64")
    g, aux = sg.grad(lambda v: (sg.sum(v**3), v * v), has_aux=True)(x)
    (second,) = sg.gradients([g, aux], x)
    np.testing.assert_allclose(sg.run(second, {x: X}), 8 * X)


def test_a_hessian_has_the_shape_of_the_argument_twice():
    found = sg.hessian(lambda x: sg.sum(x**3) * x[0])(X)
    expected = np.diag(6 * X * X[0])
    expected[0] += 3 * X * X
    expected[:, 0] += 3 * X * X
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    several = sg.hessian(lambda x: x * x * x)(X)
    assert several.shape == (3, 3, 3)
    np.testing.assert_allclose(several[1, 1, 1], 6 * X[1])
    np.testing.assert_array_equal(sg.hessian(lambda x: sg.sum(x * 2.0))(X), np.zeros((3, 3)))


def test_a_hessian_of_a_nest_has_the_nest_in_the_nest():
    params = Box(w=X, b=X[:2])
    found = sg.hessian(lambda p: sg.sum(p.w**2) * sg.sum(p.b))(params)
    np.testing.assert_allclose(found.w.w, 2 * np.eye(3) * np.sum(X[:2]))
    np.testing.assert_allclose(found.w.b, np.outer(2 * X, np.ones(2)))
    np.testing.assert_allclose(found.b.w, found.w.b.T)
    np.testing.assert_array_equal(found.b.b, np.zeros((2, 2)))
    pair = sg.hessian(lambda a, b: sg.sum(a * b * b), argnums=(0, 1))(X, X)
    np.testing.assert_allclose(pair[0][1], np.diag(2 * X))
    np.testing.assert_allclose(pair[1][1], np.diag(2 * X))


def test_a_hessian_is_that_of_differences():
    def energy(x: sg.Tensor) -> sg.Tensor:
        return sg.sum(sg.tanh(x) * x[::-1]) * sg.exp(x[0])

    slope, step = sg.grad(energy), 1e-5
    columns = [(slope(X + step * e) - slope(X - step * e)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(sg.hessian(energy)(X), np.stack(columns), rtol=1e-6, atol=1e-8)
