"""Steps of optimizers on arrays, nests and tensors: where results go, their dtypes and nests.

The numbers of the formulas are those of `test_worked_examples.py`; here they are compared with the
same formulas in NumPy at random points, and between the floors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import symgrad as sg
from symgrad.arrays import updates
from symgrad.frontend.nests import flatten, unflatten
from symgrad.graph.graph import Graph
from symgrad.graph.types import Array
from symgrad.testing import check_gradients
from tests.support.floors import run_everywhere

Box = sg.Container


def _numbers(*shape: int, dtype: Any = np.float64, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def _adam(
    g: Any, m: Any, v: Any, t: Any, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-7
) -> tuple[Any, Any, Any]:
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
    scale = np.sqrt(1 - beta2**t) / (1 - beta1**t + epsilon)
    return scale * m / (np.sqrt(v) + epsilon), m, v


def _lars(w: Array, g: Array, lr: float, decay: float) -> Array:
    norm = float(np.linalg.norm(w))
    rate = lr * norm / float(np.linalg.norm(g))
    return np.asarray(w - (rate / (norm * decay) if decay else rate) * g)


def _lamb(
    w: Array, g: Array, lr: float, m: Array, v: Array, t: Any, greatest: float, decay: float
) -> tuple[Array, Array, Array]:
    delta, m, v = _adam(g, m, v, t)
    ratio = float(np.linalg.norm(w) / np.linalg.norm(delta + decay * w))
    return w - lr * min(ratio, greatest) * delta, m, v


# By default each kind of step with one shape.
@pytest.mark.parametrize(
    ("step", "shape"),
    [
        pytest.param(step, shape, marks=[pytest.mark.slow] if (i + j) % 3 else [])
        for i, step in enumerate([1, 7, 2.5, np.int64(3), np.array([4])])
        for j, shape in enumerate([(), (5,), (2, 3)])
    ],
)
def test_the_steps_are_those_of_numpy(step, shape):
    w, g, m = (_numbers(*shape, seed=seed) for seed in range(3))
    v = _numbers(*shape, seed=3) ** 2
    if isinstance(step, np.ndarray) and not shape:
        w, g, m, v = (a.reshape(1) for a in (w, g, m, v))
    options = {"beta1": 0.8, "beta2": 0.95, "epsilon": 1e-3}
    for found, wanted in zip(
        sg.adam_step(g, m, v, step, **options), _adam(g, m, v, step, **options), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    moved, _, _ = sg.adam_update(w, g, 0.1, m, v, step)
    np.testing.assert_allclose(moved, w - 0.1 * _adam(g, m, v, step)[0], rtol=1e-12)
    for decay in (0, 0.01):
        found = sg.lars_update(w, g, 0.1, decay_lambda=decay)
        np.testing.assert_allclose(found, _lars(w, g, 0.1, decay), rtol=1e-10)
        for greatest in (10, 0.5):
            found = sg.lamb_update(
                w, g, 0.1, m, v, step, max_trust_ratio=greatest, decay_lambda=decay
            )
            wanted = _lamb(w, g, 0.1, m, v, step, greatest, decay)
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-10)


def test_a_gradient_of_zeros_moves_nothing():
    w, zeros = _numbers(4), np.zeros(4)
    np.testing.assert_array_equal(sg.lars_update(w, zeros, 0.1), w)
    np.testing.assert_array_equal(sg.lamb_update(w, zeros, 0.1, zeros, zeros, 1)[0], w)


def test_corrections_are_exact_in_float32():
    # In float32 the correction of the first step would be wrong in the fifth digit.
    ones, zeros = np.ones(1, np.float32), np.zeros(1, np.float32)
    delta, _, _ = sg.adam_step(ones, zeros, zeros, 1, epsilon=0.0)
    np.testing.assert_allclose(delta, 1.0, rtol=5e-7)


# ----------------------------------------------------------------------------- dtypes and shapes


@pytest.mark.parametrize(
    ("w", "g", "lr", "result"),
    [
        ("float32", "float32", np.array(0.5), "float32"),
        ("float32", "float64", 0.5, "float64"),
        ("float16", "float16", 0.5, "float16"),
        ("float16", "float32", 0.5, "float32"),
        ("float64", "int32", np.float32(0.5), "float64"),
        ("int64", "int8", 0.5, "float32"),
        ("float32", "bool", 0.5, "float32"),
    ],
)
def test_weights_and_gradients_promote_and_a_rate_does_not(w, g, lr, result):
    found = sg.gradient_descent_update(np.array([3, 4], w), np.array([1, 0], g), lr)
    assert found.dtype == result
    np.testing.assert_array_equal(found, [2.5, 4])


def test_averages_of_16_bits_are_computed_in_32():
    # 0.001 * (1e-3)**2 is no float16, and the step would divide by epsilon alone.
    g, zeros = np.full(2, 1e-3, np.float16), np.zeros(2, np.float16)
    delta, _, v = sg.adam_step(g, zeros, zeros, 1)
    np.testing.assert_allclose(delta, 1, rtol=1e-2)
    assert delta.dtype == v.dtype == np.float16
    np.testing.assert_array_equal(v, 0)


def test_operands_broadcast():
    w, lr = _numbers(3, 1), _numbers(2)
    np.testing.assert_allclose(sg.optimizer_update(w, np.ones((1, 2)), lr), w - lr)
    found = sg.adam_step(_numbers(2, 3), np.zeros(3), np.zeros(1), 1)
    assert [a.shape for a in found] == [(2, 3), (2, 3), (2, 3)]


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 2)])
def test_arrays_without_elements(shape):
    zeros = np.zeros(shape)
    found = [
        sg.optimizer_update(zeros, zeros, 0.1),
        sg.lars_update(zeros, zeros, 0.1),
        *sg.adam_update(zeros, zeros, 0.1, zeros, zeros, 1),
        *sg.lamb_update(zeros, zeros, 0.1, zeros, zeros, 1),
    ]
    assert {a.shape for a in found} == {shape}


def test_lars_moves_weights_of_zeros_by_the_limit():
    zeros, g = np.zeros(2), np.array([3.0, 4.0])
    near = sg.lars_update(np.full(2, 1e-30), g, 0.1, decay_lambda=0.5)
    found = sg.lars_update(zeros, g, 0.1, decay_lambda=0.5)
    np.testing.assert_allclose(found, -0.1 / 0.5 * g / 5, rtol=1e-9)
    np.testing.assert_allclose(found, near, rtol=1e-9)
    np.testing.assert_array_equal(sg.lars_update(zeros, zeros, 0.1, decay_lambda=0.5), zeros)
    np.testing.assert_array_equal(sg.lars_update(zeros, g, 0.1), zeros)


def test_the_gradient_of_an_update_of_zeros_is_finite():
    def moved(w: sg.Tensor) -> sg.Tensor:
        rest: dict[str, Any] = {"decay_lambda": 0.5, "stop_gradients": False}
        g = sg.constant([3.0, 4.0])
        lamb, *_ = sg.lamb_update(w, g, 0.1, 0.0, 0.0, 1, **rest)
        return sg.sum(sg.lars_update(w, g, 0.1, **rest) + lamb)

    assert np.isfinite(sg.grad(moved)(np.zeros(2, np.float32))).all()


def test_numbers_are_operands():
    found = sg.gradient_descent_update(1.0, 0.5, 0.5)
    assert (float(found), found.dtype) == (0.75, np.float32)
    mw = sg.adam_step(np.ones(2), 0.1, 0.2, 1)[1]
    np.testing.assert_array_equal(mw, np.full(2, 0.9 * 0.1 + (1 - 0.9)))


# ------------------------------------------------------------------------------------------ nests

_ARRAYS = st.lists(st.floats(-4, 4, width=16), min_size=1, max_size=3).map(np.array)
_TREES = st.recursive(
    _ARRAYS,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.sampled_from("abc"), inner, min_size=1)
        | st.dictionaries(st.sampled_from("abc"), inner, min_size=1).map(Box)
    ),
    max_leaves=3,
)


@settings(max_examples=15)
@given(_TREES, st.floats(0, 1))
def test_a_nest_is_updated_leaf_by_leaf(tree, lr):
    leaves, nest = flatten(tree)
    g = [leaf * 0.5 + 1 for leaf in leaves]
    found, same = flatten(sg.gradient_descent_update(tree, unflatten(nest, g), lr))
    assert same == nest
    for w, by, new in zip(leaves, g, found, strict=True):
        np.testing.assert_allclose(new, w - lr * by)


def test_a_rate_for_each_leaf_or_for_each_branch():
    ones = np.ones(2)
    w = {"body": [ones, ones], "head": ones}
    found = sg.optimizer_update(w, w, {"body": 0.5, "head": np.array([0.25, 0.0])})
    np.testing.assert_array_equal(found["body"], np.full((2, 2), 0.5))
    np.testing.assert_array_equal(found["head"], [0.75, 1.0])


def test_each_result_has_the_nest_of_what_it_is_made_of():
    w, array = Box(a=np.ones(2), b=np.ones(2)), np.ones(2)
    new, mw, vw = sg.adam_update(array, array, 0.1, array, w, 1)
    assert [type(made) for made in (new, mw, vw)] == [Box, np.ndarray, Box]
    delta, _, _ = sg.adam_step(array, array, array, Box(a=1, b=2))
    np.testing.assert_array_equal(delta.a, sg.adam_step(array, array, array, 1)[0])


def test_a_nest_of_another_kind_is_refused():
    with pytest.raises(sg.GraphError, match="do not fit together"):
        sg.adam_update(Box(a=np.ones(2)), np.ones(2), 0.1, [np.ones(2)], np.ones(2), 1)


# ------------------------------------------------------------------------------ where results go


def _trees() -> tuple[dict[str, Any], dict[str, Any]]:
    return {"a": np.ones(3), "b": [np.ones(2)]}, {"a": np.full(3, 2.0), "b": [np.full(2, 4.0)]}


def test_out_receives_the_weights_and_may_be_an_operand():
    w, g = _trees()
    assert sg.gradient_descent_update(w, g, 0.25, out=g) is g
    np.testing.assert_array_equal(g["a"], np.full(3, 0.5))
    np.testing.assert_array_equal(g["b"][0], np.zeros(2))
    np.testing.assert_array_equal(w["a"], np.ones(3))


def test_out_may_overlap_an_operand():
    memory = np.arange(6.0)
    wanted = memory[1:5] - 0.5 * memory[:4]
    sg.optimizer_update(memory[1:5], memory[:4].copy(), 0.5, out=memory[2:])
    np.testing.assert_array_equal(memory[2:], wanted)


def test_out_of_a_narrower_float_receives_a_rounded_result():
    out = np.zeros(3, np.float16)
    new, _, _ = sg.adam_update(np.ones(3), np.ones(3), 0.1, np.zeros(3), np.zeros(3), 1, out=out)
    assert new is out
    np.testing.assert_allclose(out, 0.9, rtol=1e-3)


@pytest.mark.parametrize(
    "update",
    [
        lambda w, g: sg.optimizer_update(w, g, 0.1, inplace=True),
        lambda w, g: sg.gradient_descent_update(w, g, 0.1, inplace=True),
        lambda w, g: sg.lars_update(w, g, 0.1, inplace=True),
        lambda w, g: sg.adam_update(w, g, 0.1, 0.0, 0.0, 1, inplace=True)[0],
        lambda w, g: sg.lamb_update(w, g, 0.1, 0.0, 0.0, 1, inplace=True)[0],
    ],
)
def test_in_place_the_arrays_handed_in_are_changed(update):
    w, g = _trees()
    first = w["a"]
    variables = {"a": sg.variable(np.ones(3)), "b": [sg.variable(np.ones(2))]}
    assert update(w, g) is w
    assert w["a"] is first
    assert np.all(first < 1)
    np.testing.assert_array_equal(g["a"], np.full(3, 2.0))
    assert update(variables, g) is variables
    np.testing.assert_array_equal(variables["a"].value, first)
    np.testing.assert_array_equal(variables["b"][0].value, w["b"][0])


def test_a_variable_and_a_tensor_make_an_update_for_a_program():
    w = sg.variable(np.ones(2), name="w")
    m, v = sg.variable(np.zeros(2), name="m"), sg.variable(np.zeros(2), name="v")
    t = sg.variable(np.int64(0), name="t")
    (g,) = sg.gradients(sg.sum(w * w), w)
    new, mw, vw = sg.adam_update(w, g, 0.1, m, v, t + 1, inplace=True)
    assert isinstance(new, sg.Update)
    step = sg.compile([], [], [new, (m, mw), (v, vw), (t, t + 1)])
    expected, em, ev = np.ones(2), np.zeros(2), np.zeros(2)
    for count in range(1, 4):
        step()
        delta, em, ev = _adam(2 * expected, em, ev, count)
        expected = expected - 0.1 * delta
        np.testing.assert_allclose(w.value, expected, rtol=1e-12)
    np.testing.assert_allclose(m.value, em, rtol=1e-12)
    np.testing.assert_allclose(v.value, ev, rtol=1e-12)


def test_a_refused_call_changes_nothing():
    w, g = _trees()
    with pytest.raises(sg.ShapeError):
        sg.optimizer_update(w, g, 0.1, out={"a": w["a"], "b": [np.ones(3)]})
    frozen = np.ones(2)
    frozen.setflags(write=False)
    with pytest.raises(sg.GraphError):
        sg.optimizer_update({"a": w["a"], "b": [frozen]}, g, 0.1, inplace=True)
    np.testing.assert_array_equal(w["a"], np.ones(3))


# ---------------------------------------------------------------------------------------- tensors


def test_gradients_flow_through_an_update_only_if_it_is_asked_for():
    w, g = sg.placeholder((3,), "float64"), sg.placeholder((3,), "float64")
    new = sg.gradient_descent_update(w, g, 0.5)
    assert sg.gradients(new, [w, g]) == [None, None]
    new = sg.gradient_descent_update(w, g, 0.5, stop_gradients=False)
    dw, dg = sg.run(sg.gradients(new, [w, g]), {w: np.ones(3), g: np.ones(3)})
    np.testing.assert_array_equal(dw, np.ones(3))
    np.testing.assert_array_equal(dg, np.full(3, -0.5))
    # Averages are results of their own, and are not cut.
    mw = sg.adam_update(w, g, 0.1, w, w, 1)[1]
    assert sg.gradients(mw, g)[0] is not None


def _everything(w: Any, g: Any, m: Any, v: Any, lr: Any) -> list[Any]:
    squares = sg.square(v)
    return [
        sg.lars_update(w, g, lr, decay_lambda=0.3, stop_gradients=False),
        *sg.adam_update(w, g, lr, m, squares, 3, stop_gradients=False),
        *sg.lamb_update(w, g, lr, m, squares, 2, decay_lambda=0.1, stop_gradients=False),
    ]


def test_updates_have_the_right_gradients():
    points = [_numbers(4, seed=seed) + 2 for seed in range(4)]
    check_gradients(_everything, [*points, np.array(0.1)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_all_floors_agree_about_updates(dtype):
    inputs = [sg.placeholder((7,), dtype) for _ in range(4)] + [sg.placeholder((), dtype)]
    graph = Graph(_everything(*inputs), inputs)
    arrays = [np.abs(_numbers(7, dtype=dtype, seed=seed)) + 0.5 for seed in range(4)]
    assert run_everywhere(graph, [*arrays, np.array(0.1, dtype)]) is None


# ------------------------------------------------------------------------------------------ caching


def test_a_program_is_kept_for_a_signature():
    traces = updates._adam_update._traces
    args = [np.ones(11) for _ in range(4)]

    def call(lr: Any, step: Any) -> None:
        sg.adam_update(args[0], args[1], lr, args[2], args[3], step)

    call(0.1, 1)
    programs = dict(traces)
    for lr, step in [(0.2, 2), (1, 3.0), (np.float64(0.3), np.array(4.0))]:
        call(lr, step)
        assert dict(traces) == programs
    call(np.full(11, 0.1), 1)
    assert len(traces) == len(programs) + 1
