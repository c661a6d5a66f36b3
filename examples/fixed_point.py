"""Predict diabetes with a layer that has no depth: its state is a fixed point, found by a loop.

    z = tanh(z @ W + x @ U + b)         until no element of z moves by more than TOLERANCE

How many iterations that takes depends on the weights and the patients; `sg.while_loop` runs them
inside the native step, and `sg.gradients` goes back through all of them.

Run it as `python examples/fixed_point.py --epochs 40 --out fixed_point.png`.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from tqdm import trange

import symgrad as sg

STATE = 24
BATCH = 31
TOLERANCE = 1e-5
BOUND = 0.4  # the share of the variance that has to be explained

Weights = dict[str, sg.Variable]


def load_split() -> list[Any]:
    """Return patients and their progression, in standard units: 341 to learn from, 101 to test."""
    x, y = load_diabetes(return_X_y=True)
    x, y = x / x.std(axis=0), (y - y.mean()) / y.std()
    parts = train_test_split(x, y, test_size=101, random_state=3)
    return [part.astype(np.float32) for part in parts]


def make_weights(rng: np.random.Generator) -> Weights:
    """Make the weights; those of the state are small, so that there is one fixed point."""
    shapes = {"w": (STATE, STATE), "u": (10, STATE), "b": (STATE,), "out": (STATE,), "mean": ()}
    arrays = {name: rng.normal(0, 0.4 / STATE**0.5, shape) for name, shape in shapes.items()}
    return {name: sg.variable(a.astype(np.float32), name=name) for name, a in arrays.items()}


def network(weights: Weights, x: sg.Tensor) -> tuple[sg.Tensor, sg.Tensor]:
    """Return the predictions for `x`, and how many iterations the fixed point took."""
    given = sg.nn.linear(x, weights["u"], weights["b"])

    def body(i: sg.Tensor, z: sg.Tensor, _: sg.Tensor) -> tuple[sg.Tensor, ...]:
        following = sg.tanh(z @ weights["w"] + given)
        return i + 1, following, sg.max(sg.abs(following - z))

    start = sg.constant(0, "int64"), sg.zeros_like(given), sg.constant(np.float32(np.inf))
    iterations, z, _ = sg.while_loop(lambda i, z, moved: moved > TOLERANCE, body, start)
    return z @ weights["out"] + weights["mean"], iterations


def draw(path: Path, history: Any, truth: Any, predicted: Any) -> None:
    """Draw what was explained and what it took, epoch by epoch, and the predictions."""
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    learning, patients = figure.subplots(1, 2)
    losses, explained, iterations = np.array(history).T
    learning.plot(losses, color="tab:blue", label="squared error, training")
    learning.plot(explained, color="tab:red", label="variance explained, test")
    learning.set(xlabel="epoch", ylim=(0, 1.1))
    learning.legend(loc="upper left")
    steps = learning.twinx()
    steps.plot(iterations, color="tab:gray", linestyle=":", label="iterations")
    steps.set(ylabel="iterations to the fixed point", ylim=(0, 1.4 * max(iterations)))
    steps.legend(loc="upper right")
    patients.scatter(truth, predicted, s=14, alpha=0.7)
    patients.axline((0, 0), slope=1, color="tab:gray", linewidth=1)
    patients.set(xlabel="progression of the disease", ylabel="predicted, test", aspect="equal")
    patients.grid(alpha=0.3)
    figure.savefig(path)


def main() -> None:
    """Train, test and draw."""
    parser = argparse.ArgumentParser(description="Train a fixed-point layer on diabetes.")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path("fixed_point.png"), help="the picture")
    options = parser.parse_args()
    train_x, test_x, train_y, test_y = load_split()
    rng = np.random.default_rng(1)
    weights = make_weights(rng)

    x, y = sg.placeholder(("n", 10), name="x"), sg.placeholder(("n",), name="y")
    predicted, iterations = network(weights, x)
    loss = sg.nn.mse(predicted, y)
    decay = 0.02 * sg.sum(weights["u"] ** 2) + 0.02 * sg.sum(weights["w"] ** 2)
    step = sg.compile([x, y], loss, sg.optim.Adam(0.003).minimize(loss + decay), name="train")
    predict = sg.compile([x], [predicted, iterations], name="predict")

    history, began, steps = [], time.perf_counter(), len(train_x) // BATCH
    for _ in (progress := trange(options.epochs, unit="epoch", disable=None)):
        batches = rng.permutation(len(train_x))[: steps * BATCH].reshape(steps, BATCH)
        losses = [step(train_x[batch], train_y[batch]) for batch in batches]
        read, taken = predict(test_x)
        explained = 1 - np.mean((read - test_y) ** 2) / test_y.var()
        history.append((np.mean(losses), explained, int(taken)))
        progress.set_postfix(explained=f"{explained:.1%}", iterations=int(taken))
    rate = options.epochs * steps / (time.perf_counter() - began)

    draw(options.out, history, test_y, read)
    print(f"iterations to the fixed point: {history[0][2]} at first, {history[-1][2]} at the end")
    print(f"steps per second: {rate:,.0f}")
    print(f"variance explained, test: {explained:.1%}, {options.out}")
    if explained < BOUND:
        sys.exit(f"less than {BOUND:.0%} of the variance is explained")


if __name__ == "__main__":
    main()
