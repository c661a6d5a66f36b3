"""Training an LSTM over 64 time steps with Adam, beside JAX's `lax.scan` and PyTorch's `nn.LSTM`.

    64 characters in, as rows of a table -> LSTM of 256 -> 64 logits, a batch of 32, float32

One call is the loss, its gradient and the update of all weights, on one core. All start from the
same weights, and the losses after the same number of steps must agree before anything is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.report import Bar, Report, run_as_program
from benchmarks.timing import interleave, optional, pin_to_one_core
from symgrad.graph.types import Array

TIME, BATCH, HIDDEN, CHARACTERS = 64, 32, 256, 64
RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8
CHECKED_STEPS = 5
LARGEST = 5  # kernels to list

Weights = dict[str, Array]
Step = Callable[[], float]


def measure(quick: bool = False) -> Report:
    """Return steps a second of each contestant, and how many times as fast symgrad is."""
    pin_to_one_core()
    random = np.random.default_rng(0)
    weights, time = _weights(random), 4 if quick else TIME
    text = random.integers(0, CHARACTERS, (time + 1, BATCH))
    trained = _symgrad_step(weights, text.shape)
    makers = {"JAX": _jax_step, "PyTorch": _torch_step}
    made = {name: make(weights, text) for name, make in makers.items()}
    steps: dict[str, Step] = {"symgrad": lambda: float(trained(text))}
    steps |= {name: step for name, step in made.items() if step is not None}
    _check_losses(steps)
    times = interleave(steps, rounds=3 if quick else 15, seconds=0.05)
    report = Report("lstm", ("library", "steps/s", "ms a step", "best ms", "times symgrad"))
    for name, spent in times.items():
        cells = 1 / spent.median, spent.median * 1e3, spent.best * 1e3
        report.rows.append((name, *(round(c, 2) for c in (*cells, spent.ratio(times["symgrad"])))))
    report.notes += [f"{name} is not installed." for name in made if made[name] is None]
    profile = trained.profile(text, repeat=3)
    for row in sorted(profile.rows, key=lambda r: -r.seconds)[:LARGEST]:
        report.notes.append(
            f"{row.share:6.1%} {row.kernel.name}, {row.kernel.label}: "
            f"{row.runs} runs, {row.gflops:.0f} GFLOP/s"
        )
    report.bars += [
        Bar(f"times faster than {name}", times[name].ratio(times["symgrad"]), 1.0, at_least=True)
        for name in times
        if name != "symgrad"
    ]
    return report


def _weights(random: np.random.Generator) -> Weights:
    """Return weights in the order of PyTorch's gates: input, forget, cell, output."""
    shapes = {
        "read": (CHARACTERS, 4 * HIDDEN),
        "recur": (HIDDEN, 4 * HIDDEN),
        "bias": (4 * HIDDEN,),
        "write": (HIDDEN, CHARACTERS),
    }
    scale = HIDDEN**-0.5
    return {n: random.uniform(-scale, scale, s).astype(np.float32) for n, s in shapes.items()}


def _check_losses(steps: dict[str, Step]) -> None:
    losses = {name: [step() for _ in range(CHECKED_STEPS)] for name, step in steps.items()}
    for name, found in losses.items():
        assert np.allclose(found, losses["symgrad"], rtol=1e-3), f"{name} differs: {losses}"


def _symgrad_step(weights: Weights, shape: tuple[int, ...]) -> sg.Step:
    text = sg.placeholder(shape, "int64", name="text")
    w = {name: sg.variable(array, name=name) for name, array in weights.items()}

    def cell(state: Any, row: sg.Tensor) -> Any:
        h, c = state
        i, f, g, o = sg.split(row + h @ w["recur"] + w["bias"], 4, axis=1)
        c = sg.sigmoid(f) * c + sg.sigmoid(i) * sg.tanh(g)
        h = sg.sigmoid(o) * sg.tanh(c)
        return (h, c), h

    zeros = sg.zeros((BATCH, HIDDEN))
    rows = sg.take(w["read"], text[:-1], axis=0)
    _, hidden = sg.scan(cell, (zeros, zeros), rows)
    loss = sg.nn.cross_entropy(hidden @ w["write"], text[1:])
    updates = sg.optim.Adam(RATE, BETA1, BETA2, EPSILON).minimize(loss)
    return sg.compile([text], loss, updates)


def _jax_step(weights: Weights, text: Array) -> Step | None:
    jax = optional("jax")
    if jax is None:
        return None
    jnp = jax.numpy
    tree = jax.tree_util.tree_map
    given, wanted = jnp.asarray(text[:-1]), jnp.asarray(text[1:])

    def loss_of(w: Any) -> Any:
        def cell(state: Any, row: Any) -> Any:
            h, c = state
            i, f, g, o = jnp.split(row + h @ w["recur"] + w["bias"], 4, axis=1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zeros = jnp.zeros((BATCH, HIDDEN), jnp.float32)
        _, hidden = jax.lax.scan(cell, (zeros, zeros), w["read"][given])
        scores = jax.nn.log_softmax(hidden @ w["write"])
        return -jnp.take_along_axis(scores, wanted[..., None], axis=2).mean()

    def update(w: Any, m: Any, v: Any, t: Any) -> Any:
        loss, gradient = jax.value_and_grad(loss_of)(w)
        t = t + 1
        m = tree(lambda m, g: BETA1 * m + (1 - BETA1) * g, m, gradient)
        v = tree(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, v, gradient)
        rate, scale = RATE / (1 - BETA1**t), 1 / jnp.sqrt(1 - BETA2**t)
        moved = tree(lambda w, m, v: w - rate * m / (jnp.sqrt(v) * scale + EPSILON), w, m, v)
        return moved, m, v, t, loss

    compiled = jax.jit(update, donate_argnums=(0, 1, 2, 3))
    slots = [tree(lambda a: jnp.zeros(a.shape, jnp.float32), weights) for _ in range(2)]
    state = [tree(jnp.array, weights), *slots, jnp.zeros((), jnp.float32)]

    def step() -> float:
        *state[:], loss = compiled(*state)
        return float(loss)

    return step


def _torch_step(weights: Weights, text: Array) -> Step | None:
    torch = optional("torch")
    if torch is None:
        return None
    torch.set_num_threads(1)
    # A row of `read` is what the layer adds to the gates for a character that is all there is.
    lstm = torch.nn.LSTM(CHARACTERS, HIDDEN)
    lstm.weight_ih_l0.data = torch.tensor(weights["read"].T.copy())
    lstm.weight_hh_l0.data = torch.tensor(weights["recur"].T.copy())
    lstm.bias_ih_l0.data = torch.tensor(weights["bias"])
    lstm.bias_hh_l0 = torch.nn.Parameter(torch.zeros(4 * HIDDEN), requires_grad=False)
    write = torch.nn.Linear(HIDDEN, CHARACTERS, bias=False)
    write.weight.data = torch.tensor(weights["write"].T.copy())
    given, wanted = torch.tensor(text[:-1]), torch.tensor(text[1:])
    one_hot = torch.nn.functional.one_hot(given, CHARACTERS).float()
    parameters = [p for p in (*lstm.parameters(), *write.parameters()) if p.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=RATE, betas=(BETA1, BETA2), eps=EPSILON, fused=True)
    loss_of = torch.nn.CrossEntropyLoss()

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        logits = write(lstm(one_hot)[0])
        loss = loss_of(logits.flatten(0, 1), wanted.flatten())
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


if __name__ == "__main__":
    run_as_program(__doc__, measure)
