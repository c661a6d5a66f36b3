"""Training steps per second: an MLP of the size digits take, with Adam, beside JAX and PyTorch.

    64 -> 128 -> 64 -> 10, relu, cross entropy of integer labels, a batch of 64, float32

One call is the loss, its gradient and the update of all weights, on one core. JAX is given donated
parameters, PyTorch its fused Adam: what each does best. All start from the same weights, and the
losses after the same number of steps must agree before anything is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.report import Bar, Report, run_as_program
from benchmarks.timing import interleave, optional, pin_to_one_core
from symgrad.graph.types import Array
from symgrad.optim import Adam
from symgrad.runtime.function import compile

LAYERS = (64, 128, 64, 10)
BATCH = 64
RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8
CHECKED_STEPS = 20

Weights = list[tuple[Array, Array]]
Step = Callable[[], float]


def measure(quick: bool = False) -> Report:
    """Return steps a second of each contestant, and how many times as fast symgrad is."""
    pin_to_one_core()
    random = np.random.default_rng(0)
    weights = [
        (
            (random.standard_normal(size) / np.sqrt(size[0])).astype(np.float32),
            np.zeros(size[1], np.float32),
        )
        for size in pairwise(LAYERS)
    ]
    x = random.standard_normal((BATCH, LAYERS[0])).astype(np.float32)
    labels = random.integers(0, LAYERS[-1], BATCH)
    makers = {"symgrad": _symgrad_step, "JAX": _jax_step, "PyTorch": _torch_step}
    made = {name: make(weights, x, labels) for name, make in makers.items()}
    steps = {name: step for name, step in made.items() if step is not None}
    _check_losses(steps)
    times = interleave(steps, rounds=5 if quick else 101, seconds=0.005)
    ours = times["symgrad"]
    report = Report("train_step", ("library", "steps/s", "us a step", "best us", "times symgrad"))
    for name, spent in times.items():
        cells = 1 / spent.median, spent.median * 1e6, spent.best * 1e6, spent.ratio(ours)
        report.rows.append((name, *(round(cell, 2) for cell in cells)))
    report.notes += [f"{name} is not installed." for name in made if made[name] is None]
    report.bars += [
        Bar(f"times faster than {name}", times[name].ratio(ours), 1.0, at_least=True)
        for name in times
        if name != "symgrad"
    ]
    return report


def _check_losses(steps: dict[str, Step]) -> None:
    losses = {}
    for name, step in steps.items():
        losses[name] = [step() for _ in range(CHECKED_STEPS)][-1]
    for name, loss in losses.items():
        assert np.isclose(loss, losses["symgrad"], rtol=1e-3), (
            f"{name} trains another way: {losses}"
        )


def _symgrad_step(weights: Weights, x: Array, labels: Array) -> Step:
    inputs, classes = sg.placeholder(x.shape), sg.placeholder(labels.shape, "int64")
    h: sg.Tensor = inputs
    for number, (w, b) in enumerate(weights):
        h = h @ sg.variable(w) + sg.variable(b)
        h = sg.nn.relu(h) if number + 1 < len(weights) else h
    loss = sg.nn.cross_entropy(h, classes)
    optimizer = Adam(RATE, BETA1, BETA2, EPSILON)
    step = compile([inputs, classes], loss, updates=optimizer.minimize(loss))
    return lambda: float(step(x, labels))


def _jax_step(weights: Weights, x: Array, labels: Array) -> Step | None:
    jax = optional("jax")
    if jax is None:
        return None
    jnp = jax.numpy
    tree = jax.tree_util.tree_map
    inputs, classes = jnp.asarray(x), jnp.asarray(labels)

    def loss_of(weights: Any) -> Any:
        h = inputs
        for number, (w, b) in enumerate(weights):
            h = h @ w + b
            h = jax.nn.relu(h) if number + 1 < len(weights) else h
        scores = jax.nn.log_softmax(h)
        return -jnp.take_along_axis(scores, classes[:, None], axis=1).mean()

    def update(weights: Any, m: Any, v: Any, t: Any) -> Any:
        loss, gradient = jax.value_and_grad(loss_of)(weights)
        t = t + 1
        m = tree(lambda m, g: BETA1 * m + (1 - BETA1) * g, m, gradient)
        v = tree(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, v, gradient)
        rate = RATE / (1 - BETA1**t)
        scale = 1 / jnp.sqrt(1 - BETA2**t)
        moved = tree(lambda w, m, v: w - rate * m / (jnp.sqrt(v) * scale + EPSILON), weights, m, v)
        return moved, m, v, t, loss

    compiled = jax.jit(update, donate_argnums=(0, 1, 2, 3))
    state = [
        tree(jnp.array, weights),
        tree(jnp.zeros_like, tree(jnp.asarray, weights)),
        tree(jnp.zeros_like, tree(jnp.asarray, weights)),
        jnp.zeros((), jnp.float32),
    ]

    def step() -> float:
        *state[:], loss = compiled(*state)
        return float(loss)

    return step


def _torch_step(weights: Weights, x: Array, labels: Array) -> Step | None:
    torch = optional("torch")
    if torch is None:
        return None
    torch.set_num_threads(1)
    layers: list[Any] = []
    for w, b in weights:
        linear = torch.nn.Linear(*w.shape)
        linear.weight.data = torch.tensor(w.T.copy())
        linear.bias.data = torch.tensor(b)
        layers += [linear, torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    inputs, classes = torch.tensor(x), torch.tensor(labels)
    optimizer = torch.optim.Adam(
        model.parameters(), lr=RATE, betas=(BETA1, BETA2), eps=EPSILON, fused=True
    )
    loss_of = torch.nn.CrossEntropyLoss()

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(inputs), classes)
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


if __name__ == "__main__":
    run_as_program(__doc__, measure)
