"""Learn to read handwritten digits: a network as a graph, compiled to one native training step.

Run it as `python examples/digits.py --epochs 30 --out digits.png`.
"""

import argparse
import itertools
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import trange

import symgrad as sg

LAYERS = (64, 128, 64, 10)  # pixels, two hidden layers, digits
BATCH = 32
SEED = 1

Parameters = list[tuple[sg.Variable, sg.Variable]]


def load_split() -> Any:
    """Return scans and labels: 1,437 to learn from, 360 that are only read; all digits in both."""
    scans, labels = load_digits(return_X_y=True)
    scans = (scans / 16).astype(np.float32)
    return train_test_split(scans, labels, test_size=360, stratify=labels, random_state=SEED)


def make_parameters(rng: np.random.Generator) -> Parameters:
    """Make variables: state that compiled programs read, and update in place."""
    parameters = []
    for layer, (fan_in, fan_out) in enumerate(itertools.pairwise(LAYERS)):
        weight = rng.normal(0, np.sqrt(2 / fan_in), (fan_in, fan_out)).astype(np.float32)
        bias = np.zeros(fan_out, np.float32)
        named = sg.variable(weight, name=f"w{layer}"), sg.variable(bias, name=f"b{layer}")
        parameters.append(named)
    return parameters


def network(scans: sg.Tensor, parameters: Parameters) -> sg.Tensor:
    """Build the graph from pixels to ten logits."""
    hidden = scans
    for layer, (weight, bias) in enumerate(parameters[:-1]):
        with sg.name_scope(f"layer{layer}"):
            hidden = sg.nn.relu(sg.nn.linear(hidden, weight, bias))
    with sg.name_scope("logits"):
        return sg.nn.linear(hidden, *parameters[-1])


def draw(path: Path, losses: Any, errors: Any, misread: list[tuple[Any, int, int]]) -> None:
    """Draw the learning curve, and the first digits that were misread."""
    figure = Figure(figsize=(11, 4), layout="constrained")
    axes = figure.subplot_mosaic("C0123;C4567", width_ratios=(5, 1, 1, 1, 1))
    curve, epochs = axes.pop("C"), len(errors) - 1
    steps, means = np.linspace(0, epochs, len(losses)), np.reshape(losses, (epochs, -1)).mean(1)
    curve.plot(steps, losses, color="tab:blue", linewidth=0.5, alpha=0.4)
    curve.plot(np.arange(epochs) + 0.5, means, color="tab:blue", label="cross entropy, training")
    curve.plot(errors, color="tab:red", marker=".", label="share misread, test")
    curve.set(yscale="log", xlabel="epoch", title=f"{1 - errors[-1]:.1%} of the test digits read")
    curve.grid(alpha=0.3)
    curve.legend()
    for cell in axes.values():
        cell.axis("off")
    for cell, (scan, label, read) in zip(axes.values(), misread, strict=False):
        cell.imshow(scan.reshape(8, 8), cmap="gray_r")
        cell.set_title(f"{label}, read as {read}", fontsize=10)
    figure.savefig(path)


def main() -> None:
    """Train, test, measure and draw."""
    parser = argparse.ArgumentParser(description="Train a network on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path("digits.png"), help="the picture to write")
    options = parser.parse_args()
    train_x, test_x, train_y, test_y = load_split()
    rng = np.random.default_rng(SEED)
    parameters = make_parameters(rng)

    # The loss is a graph over placeholders. `minimize` adds gradients and Adam's updates to it, and
    # `compile` makes one native program of it all.
    x, y = sg.placeholder((BATCH, 64), name="x"), sg.placeholder((BATCH,), "int64", name="y")
    loss = sg.nn.cross_entropy(network(x, parameters), y)
    step = sg.compile([x, y], loss, updates=sg.optim.Adam(lr=0.001).minimize(loss), name="train")
    # Another program over the same variables, for as many scans as it is called with.
    scans = sg.placeholder(("n", 64), name="scans")
    predict = sg.compile([scans], sg.argmax(network(scans, parameters), axis=1), name="predict")

    losses, errors = [], [np.mean(predict(test_x) != test_y)]
    began = time.perf_counter()
    for _ in (progress := trange(options.epochs, unit="epoch", disable=None)):
        batches = rng.permutation(len(train_x))[: len(train_x) // BATCH * BATCH].reshape(-1, BATCH)
        losses += [step(train_x[batch], train_y[batch]) for batch in batches]
        errors.append(np.mean(predict(test_x) != test_y))
        progress.set_postfix(loss=f"{losses[-1]:.4f}", test=f"{1 - errors[-1]:.1%}")
    in_training = len(losses) / (time.perf_counter() - began)

    read, accuracy = predict(test_x), 1 - errors[-1]
    wrong = np.flatnonzero(read != test_y)
    draw(options.out, losses, errors, [(test_x[i], test_y[i], read[i]) for i in wrong])

    batch_x, batch_y = train_x[:BATCH], train_y[:BATCH]
    began = time.perf_counter()
    for _ in range(1000):
        step(batch_x, batch_y)
    bare = 1000 / (time.perf_counter() - began)
    print(step.profile(batch_x, batch_y))
    print(f"\nsteps per second: {in_training:,.0f} in training, {bare:,.0f} on one batch")
    print(f"test accuracy: {accuracy:.2%}, {len(wrong)} of {len(test_y)} misread, {options.out}")
    if accuracy < 0.97:
        sys.exit("the accuracy is below 97 %")


if __name__ == "__main__":
    main()
