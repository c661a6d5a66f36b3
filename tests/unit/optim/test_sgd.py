"""SGD against its formulas written in NumPy, over a hundred compiled steps."""

import numpy as np
import pytest

from symgrad.errors import GraphError
from symgrad.frontend.state import variable
from symgrad.graph.graph import Update
from symgrad.graph.leaf import placeholder
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.transcendental import tanh
from symgrad.graph.types import Array
from symgrad.nn.losses import mse
from symgrad.optim.sgd import SGD
from symgrad.runtime.function import compile as compile_step

STEPS = 100
TOLERANCE = {"float64": 1e-12, "float32": 2e-5}


def regression() -> tuple[Array, Array, Array, Array]:
    """Return inputs, targets and starting weights of `tanh(x @ w + b)`, all float64."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(STEPS, 8, 5))
    w, b = rng.normal(size=(5, 3)), rng.normal(size=3)
    return x, np.tanh(x @ rng.normal(size=(5, 3))), w, b


def numpy_gradients(x: Array, y: Array, w: Array, b: Array) -> tuple[Array, Array]:
    out = np.tanh(x @ w + b)
    g = 2 * (out - y) / out.size * (1 - out**2)
    return x.T @ g, g.sum(axis=0)


def numpy_trajectory(*, lr: float, momentum: float, nesterov: bool) -> list[Array]:
    x, y, *weights = regression()
    velocity = [np.zeros_like(a) for a in weights]
    for i in range(STEPS):
        for j, g in enumerate(numpy_gradients(x[i], y[i], *weights)):
            velocity[j] = momentum * velocity[j] + g
            by = g + momentum * velocity[j] if nesterov else velocity[j]
            weights[j] = weights[j] - lr * by
    return weights


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("momentum", "nesterov"), [(0, False), (0, True), (0.9, False), (0.9, True)]
)
def test_hundred_steps_follow_the_formula(dtype, momentum, nesterov):
    x, y, w, b = (a.astype(dtype) for a in regression())
    weight, bias = variable(w, name="w"), variable(b, name="b")
    inputs, targets = placeholder((8, 5), dtype), placeholder((8, 3), dtype)
    loss = mse(tanh(inputs @ weight + bias), targets)
    optimizer = SGD(0.05, momentum, nesterov)
    step = compile_step([inputs, targets], loss, optimizer.minimize(loss))
    storage = weight.state.array

    for i in range(STEPS):
        step(x[i], y[i])

    expected = numpy_trajectory(lr=0.05, momentum=momentum, nesterov=nesterov)
    assert np.abs(expected[0] - w).max() > 0.1
    for got, want in zip((weight.value, bias.value), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    assert weight.state.array is storage
    assert weight.value.dtype == dtype


def test_without_momentum_there_are_no_slots():
    w = variable(np.ones(2), name="w")
    optimizer = SGD(0.1)
    (update,) = optimizer.minimize((w * w).sum())
    assert isinstance(update, Update)
    assert update.variable is w
    assert dict(optimizer.state) == {}


def test_a_change_of_lr_acts_on_what_was_gathered():
    # u = 1 after the first step; the second moves by lr * (0.5 * 1 + 1).
    w, lr = variable(np.float64(0), name="w"), placeholder((), "float64", name="lr")
    optimizer = SGD(lr, momentum=0.5)
    step = compile_step([lr], [], optimizer.apply_gradients([(as_tensor(np.float64(1)), w)]))
    step(np.float64(0))
    assert w.value == 0
    step(np.float64(2))
    assert w.value == -3
    assert optimizer.state["w/momentum"].value == 1.5


@pytest.mark.parametrize("momentum", [-0.1, 1, float("nan")])
def test_a_momentum_that_is_no_fraction_is_refused(momentum):
    with pytest.raises(GraphError, match=r"SGD: momentum is .*, not in \[0, 1\)\n.*test_sgd.py"):
        SGD(0.1, momentum=momentum)
