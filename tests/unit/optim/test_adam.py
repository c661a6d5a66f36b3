"""Adam against algorithm 1 of the paper written in NumPy, over a hundred compiled steps."""

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from symgrad.errors import GraphError
from symgrad.frontend.state import variable
from symgrad.graph.leaf import placeholder
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.transcendental import tanh
from symgrad.graph.types import Array
from symgrad.nn.losses import mse
from symgrad.optim.adam import Adam
from symgrad.runtime.function import compile as compile_step

STEPS = 100
TOLERANCE = {"float64": 1e-11, "float32": 1e-4}


def numpy_adam(
    w: Array,
    gs: Callable[[int, Array], Array],
    *,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> Iterator[Array]:
    """Yield w after each step, where `gs(i, w)` is the gradient of step i; float64 throughout."""
    m = v = np.zeros_like(w)
    for i in range(STEPS):
        g = gs(i, w)
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        corrected_m, corrected_v = m / (1 - beta1 ** (i + 1)), v / (1 - beta2 ** (i + 1))
        w = w - lr * corrected_m / (np.sqrt(corrected_v) + epsilon)
        yield w


def regression() -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=(STEPS, 8, 5)), rng.normal(size=(5, 3))
    return x, np.tanh(x @ rng.normal(size=(5, 3))), w


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "settings",
    [
        {"lr": 0.02, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7},
        {"lr": 0.05, "beta1": 0.5, "beta2": 0.9, "epsilon": 0.3},
        {"lr": 0.02, "beta1": 0.0, "beta2": 0.99, "epsilon": 1e-8},
    ],
)
def test_hundred_steps_follow_the_paper(dtype, settings):
    x, y, start = regression()

    def gradient(i: int, w: Array) -> Array:
        out = np.tanh(x[i] @ w)
        g: Array = x[i].T @ (2 * (out - y[i]) / out.size * (1 - out**2))
        return g

    weight = variable(start.astype(dtype), name="w")
    inputs, targets = placeholder((8, 5), dtype), placeholder((8, 3), dtype)
    loss = mse(tanh(inputs @ weight), targets)
    step = compile_step([inputs, targets], loss, Adam(**settings).minimize(loss))
    storage = weight.state.array

    for i, want in enumerate(numpy_adam(start, gradient, **settings)):
        step(x[i].astype(dtype), y[i].astype(dtype))
        np.testing.assert_allclose(
            weight.value, want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], err_msg=f"step {i}"
        )
    assert weight.state.array is storage
    assert weight.value.dtype == dtype


def test_defaults_are_those_of_the_paper_but_epsilon():
    optimizer = Adam()
    assert (optimizer.lr, optimizer.beta1, optimizer.beta2) == (0.001, 0.9, 0.999)
    assert optimizer.epsilon == 1e-7


def test_first_float32_step_is_corrected_to_the_last_digits():
    # With one gradient m and sqrt(v) become 1 after the correction, so w moves by lr.
    w = variable(np.float32(0), name="w")
    one = as_tensor(np.float32(1))
    step = compile_step([], [], Adam(0.5, epsilon=0).apply_gradients([(one, w)]))
    step()
    np.testing.assert_allclose(w.value, -0.5, rtol=3e-7)


def test_slots_hold_the_averages_and_the_count():
    w = variable(np.zeros(2), name="w")
    optimizer = Adam(0.1, beta1=0.5, beta2=0.75)
    g = as_tensor(np.array([2.0, -4.0]))
    step = compile_step([], [], optimizer.apply_gradients([(g, w)]))
    step()
    step()
    assert set(optimizer.state) == {"step", "w/m", "w/v"}
    assert optimizer.state["step"].value == 2
    assert optimizer.state["step"].value.dtype == np.int64
    np.testing.assert_allclose(optimizer.state["w/m"].value, [1.5, -3.0])
    np.testing.assert_allclose(optimizer.state["w/v"].value, [1.75, 7.0])


def test_the_correction_ends_where_the_count_is_huge():
    # A float32 counter would stop at 2**24 and an int32 overflow.
    w = variable(np.float32(0), name="w")
    optimizer = Adam(0.1)
    one = as_tensor(np.float32(1))
    step = compile_step([], [], optimizer.apply_gradients([(one, w)]))
    optimizer.state["step"].value = 2**31
    step()
    assert optimizer.state["step"].value == 2**31 + 1
    np.testing.assert_allclose(w.value, -0.1 * 0.1 / (np.sqrt(0.001) + 1e-7), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_16_bit_variables_have_float32_slots_and_are_rounded_once(dtype):
    settings: dict[str, Any] = {"lr": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7}
    w = variable(np.full(3, 2.0, dtype), name="w")
    optimizer = Adam(**settings)
    g = np.array([1e-3, 0.5, -3.0], dtype)
    step = compile_step([], [], optimizer.apply_gradients([(g, w)]))

    want = np.full(3, 2.0, dtype)
    exact = np.zeros(3)
    for after in numpy_adam(exact, lambda _i, _w: g.astype(np.float64), **settings):
        step()
        # The moves do not depend on w here, so each is added to the rounded value.
        want = (want.astype(np.float64) + (after - exact)).astype(dtype)
        exact = after
    assert optimizer.state["w/m"].value.dtype == np.float32
    assert w.value.dtype == dtype
    np.testing.assert_array_equal(w.value, want)


@pytest.mark.parametrize(
    ("argument", "value"), [("beta1", 1.0), ("beta1", -0.1), ("beta2", 1.5), ("epsilon", -1e-8)]
)
def test_settings_out_of_range_are_refused(argument, value):
    with pytest.raises(GraphError, match=rf"Adam: {argument} is {value}.*\n.*test_adam.py"):
        Adam(**{argument: value})
